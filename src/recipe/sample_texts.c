/* Generated samples: at each evaluation of a run, the model continues the prompts of the recipe. */
#include "base/json.h"
#include "model/generate.h"
#include "recipe/training.h"
#include "task/generate_text.h"

/* Maximum size of a generated text in bytes; output beyond this is truncated. */
enum { EITP__SAMPLE_TEXT_SIZE = 2048 };

/* ---- Checking ---- */

static eitp_status eitp__check_sample_model(const eitp_training *training, eitp_error *error) {
    const eitp__recipe_task *kind = training->kind;
    if (kind->kind != EITP_TASK_LANGUAGE)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "sample_prompt: a model that is trained for task %s does not generate text; leave it out, or "
                          "train a causal model for task lm",
                          kind->name);
    if (!training->tokenizer)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "sample_prompt: the tokenizer of the data is unknown; name it as tokenizer");
    return EITP_OK;
}

/* Counts the tokens of a prompt. An empty one is end-of-text. */
static eitp_status eitp__count_prompt(eitp_training *training, size_t number, const char *prompt, eitp_error *error) {
    const size_t size = strlen(prompt);
    size_t count = 0;
    eitp_status status;
    if (size > EITP_SAMPLE_PROMPT_SIZE)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "sample_prompt: prompt %zu has %zu bytes (maximum %d)",
                          number + 1, size, EITP_SAMPLE_PROMPT_SIZE);
    status = eitp_tokenizer_encode(training->tokenizer, prompt, size, NULL, 0, &count, error);
    if (!status && !count && eitp_tokenizer_end_of_text(training->tokenizer) < 0)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "sample_prompt: prompt %zu has no tokens, and the tokenizer has no end-of-text to start from",
                          number + 1);
    count = count ? count : 1;
    if (!status && (int64_t)count > training->prompt_tokens)
        training->prompt_tokens = (int64_t)count;
    return status;
}

EITP__PRIVATE eitp_status eitp__sample_texts_check(eitp_training *training, eitp_error *error) {
    const eitp_text_list *prompts = &training->recipe.task.sample_prompts;
    eitp_status status;
    training->prompt_tokens = 0;
    if (!prompts->count)
        return EITP_OK;
    if (prompts->count > EITP_MAX_SAMPLE_PROMPTS)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "sample_prompt: got %zu prompts (maximum %d)", prompts->count,
                          EITP_MAX_SAMPLE_PROMPTS);
    status = eitp__check_sample_model(training, error);
    for (size_t i = 0; i < prompts->count && !status; i++)
        status = eitp__count_prompt(training, i, prompts->texts[i], error);
    return status;
}

/* ---- Generating ---- */

static eitp_status eitp__sample_generator(const eitp_training *training, const eitp_model *model,
                                          eitp_generator **generator, eitp_error *error) {
    const int64_t positions = eitp_model_positions(model);
    const int64_t wanted = training->prompt_tokens + training->recipe.task.sample_tokens;
    return eitp_generator_create(model, wanted < positions ? wanted : positions, generator, error);
}

EITP__PRIVATE eitp_status eitp__sample_texts_plan(const void *user, const eitp_task *task, size_t *bytes,
                                                  eitp_error *error) {
    eitp_generator *generator = NULL;
    const eitp_status status = eitp__sample_generator((const eitp_training *)user, task->model, &generator, error);
    *bytes = status ? 0 : eitp__generator_cache_bytes(generator);
    eitp_generator_destroy(generator);
    return status;
}

/* A generation in progress. */
typedef struct eitp__sample_text {
    char text[EITP__SAMPLE_TEXT_SIZE];
    size_t size;
} eitp__sample_text;

/* Appends complete characters. */
static int eitp__add_sample_piece(void *user, const char *text, size_t size) {
    eitp__sample_text *sample = (eitp__sample_text *)user;
    if (size > sizeof sample->text - sample->size)
        return 1;
    memcpy(sample->text + sample->size, text, size);
    sample->size += size;
    return 0;
}

static eitp_status eitp__add_sample(eitp_training *training, eitp_generator *generator, const char *prompt,
                                    eitp_error *error) {
    static const char *const ends[] = {"length", "end-of-text", "cut"}; /* of eitp_generate_end */
    eitp__buffer *text = &training->sampled;
    eitp_generate_config config = eitp_generate_config_default();
    eitp_generate_report report;
    eitp__sample_text sample;
    eitp_status status;
    sample.size = 0;
    config.sampling.temperature = 0;
    config.max_tokens = training->recipe.task.sample_tokens;
    config.piece = eitp__add_sample_piece;
    config.user = &sample;
    status = eitp_generate_text(generator, training->tokenizer, prompt, strlen(prompt), &config, &report, error);
    if (status)
        return status;
    eitp__buffer_add_text(text, "{\"prompt\": ");
    eitp__json_write_text(text, prompt, strlen(prompt));
    eitp__buffer_add_text(text, ", \"text\": ");
    eitp__json_write_text(text, sample.text, sample.size);
    eitp__buffer_format(text, ", \"tokens\": %lld, \"end\": \"%s\"}", (long long)report.tokens, ends[report.end]);
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__sample_texts_describe(void *user, const char **text, eitp_error *error) {
    eitp_training *training = (eitp_training *)user;
    const eitp_text_list *prompts = &training->recipe.task.sample_prompts;
    eitp__buffer *sampled = &training->sampled;
    eitp_generator *generator = NULL;
    eitp_status status = eitp__sample_generator(training, training->model, &generator, error);
    eitp__buffer_clear(sampled);
    eitp__buffer_add_text(sampled, "{\"samples\": [");
    for (size_t i = 0; i < prompts->count && !status; i++) {
        eitp__buffer_add_text(sampled, i ? ", " : "");
        status = eitp__add_sample(training, generator, prompts->texts[i], error);
    }
    eitp__buffer_add_text(sampled, "]}");
    eitp_generator_destroy(generator);
    if (!status && sampled->failed)
        status = eitp__fail_memory(error, sampled->size, "generated samples");
    *text = status ? NULL : sampled->data;
    return status;
}
