/* Texts that the model generates: how often they repeat themselves, and what another model says of them. */
#include "objective/emergence_reference.h"
#include "objective/judged.h"

enum { EITP__TEXT_STATISTICS = 3 };

/* Generates a text after a prompt that was read, into text[text_tokens]. */
static eitp_status eitp__generate_text(const eitp__emergence *e, eitp_generator *generator, int64_t number,
                                       int64_t prompt, int32_t *text, int64_t *count, eitp_error *error) {
    eitp_sampling sampling = eitp_sampling_default();
    eitp_status status;
    sampling.temperature = e->config->temperature;
    sampling.vocabulary = (int32_t)e->vocabulary;
    sampling.seed = e->config->seed + (uint64_t)number;
    *count = 0;
    eitp_generator_reset(generator);
    status = eitp_generator_feed(generator, eitp__emergence_sample_tokens(e), prompt, error);
    while (!status && *count < e->config->text_tokens) {
        text[*count] = eitp_generator_sample(generator, &sampling);
        ++*count;
        if (!eitp_generator_remaining(generator))
            break;
        status = eitp__context_ask(e->model->context, error);
        if (!status && *count < e->config->text_tokens)
            status = eitp_generator_feed(generator, &text[*count - 1], 1, error);
    }
    return status;
}

static eitp_status eitp__measure_texts(eitp__emergence *e, eitp_generator *generator, int32_t *text,
                                       eitp__sampled statistics[EITP__TEXT_STATISTICS], eitp__reference *reference,
                                       eitp_error *error) {
    const int64_t capacity = eitp_generator_remaining(generator);
    eitp_status status = EITP_OK;
    for (int64_t i = 0; i < e->config->texts && !status; i++) {
        int64_t prompt, count = 0;
        status = eitp__emergence_read(e, i % e->sequences, &prompt, error);
        if (status)
            break;
        prompt = prompt < e->config->prompt_tokens ? prompt : e->config->prompt_tokens;
        prompt = prompt < capacity ? prompt : capacity;
        status = eitp__generate_text(e, generator, i, prompt, text, &count, error);
        if (status)
            break;
        eitp__sampled_add_defined(&statistics[0], eitp__distinct_ngrams(text, count, 1));
        eitp__sampled_add_defined(&statistics[1], eitp__distinct_ngrams(text, count, 2));
        eitp__sampled_add_defined(&statistics[2], 1 - eitp__distinct_ngrams(text, count, 4));
        if (reference->model)
            status = eitp__reference_judge(reference, eitp__emergence_sample_tokens(e), prompt, text, count, error);
    }
    return status;
}

/* Why no reference judges the texts; NULL: one does. */
static const char *eitp__reference_lack(const eitp_emergence_config *config) {
    if (!config->reference)
        return "needs a reference model, which judges the generated texts";
    return config->tokenizer ? NULL : "the texts cannot be decoded without a tokenizer";
}

EITP__PRIVATE eitp_status eitp__emergence_texts(eitp__emergence *e, eitp_error *error) {
    static const char *const names[EITP__TEXT_STATISTICS] = {"distinct_1", "distinct_2", "repeated_4"};
    const int64_t positions = eitp_model_positions(e->model);
    const int64_t wanted = e->config->prompt_tokens + e->config->text_tokens;
    const size_t bytes = (size_t)e->config->text_tokens * sizeof(int32_t);
    eitp__sampled statistics[EITP__TEXT_STATISTICS] = EITP__ZERO;
    const char *lack = e->config->texts ? eitp__reference_lack(e->config) : "no texts were asked for";
    eitp_generator *generator = NULL;
    eitp__reference reference;
    eitp_status status = lack ? eitp__report_omission(e->report, "reference_perplexity", lack, error) : EITP_OK;
    int32_t *text;
    if (status)
        return status;
    if (!e->config->texts)
        return eitp__report_omission(e->report, "texts", lack, error);
    eitp__reference_open(&reference, e, lack ? NULL : e->config->reference);
    text = (int32_t *)eitp__allocate(&e->host, bytes);
    status = text ? eitp_generator_create(e->model, wanted < positions ? wanted : positions, &generator, error)
                  : eitp__fail_memory(error, bytes, "a text");
    if (!status)
        status = eitp__measure_texts(e, generator, text, statistics, &reference, error);
    for (int i = 0; i < EITP__TEXT_STATISTICS && !status; i++)
        status = eitp__report_sampled(e->report, "text", names[i], &statistics[i],
                                      "texts have fewer tokens than the n-gram", error);
    if (!status && !lack)
        status = eitp__reference_report(&reference, error);
    eitp__reference_release(&reference);
    eitp_generator_destroy(generator);
    eitp__release(&e->host, text, bytes);
    return status;
}
