/* The parts of a measurement, in order, and its configuration. */
#include "base/checksum.h"
#include "base/setting_table.h"
#include "objective/emergence_state.h"

#define EITP__EMERGENCE_SETTING(member, kind, value, min, max, help)                                                   \
    EITP__SETTING(eitp_emergence_config, , member, #member, kind, value, min, max, 0, ACCEPTED, NULL, help)

static const eitp_setting eitp__emergence_rows[] = {
    EITP__EMERGENCE_SETTING(sequences, INTEGER, 64, 1, 1 << 20,
                            "maximum number of samples whose predictions are measured"),
    EITP__EMERGENCE_SETTING(probes, INTEGER, 16, 0, 1 << 20,
                            "of these, samples for hidden states, attention and robustness; 0: none"),
    EITP__EMERGENCE_SETTING(probe_tokens, INTEGER, 256, 0, 4096,
                            "first tokens of a probe whose hidden states and attention are measured"),
    EITP__EMERGENCE_SETTING(sensitivity_rounds, INTEGER, 10, 0, 1 << 19,
                            "rounds of power iteration, and vectors of random signs, for a probe; 0: none"),
    EITP__EMERGENCE_SETTING(retrieval_trials, INTEGER, 16, 0, 1 << 19,
                            "sequences for each distance of the retrieval task; 0: none"),
    EITP__EMERGENCE_SETTING(texts, INTEGER, 8, 0, 1 << 20, "samples to generate; 0: none"),
    EITP__EMERGENCE_SETTING(prompt_tokens, INTEGER, 16, 1, 1 << 20,
                            "first tokens of a data sample that are the prompt"),
    EITP__EMERGENCE_SETTING(text_tokens, INTEGER, 64, 1, 4096, "tokens to generate for each"),
    EITP__EMERGENCE_SETTING(temperature, NUMBER, 1, 0, EITP__UNBOUNDED,
                            "sampling temperature; 0: the most likely tokens"),
    EITP__EMERGENCE_SETTING(coding_rate_epsilon2, NUMBER, 0.5, 1e-6, EITP__UNBOUNDED,
                            "squared distortion of the coding rate"),
    EITP__EMERGENCE_SETTING(matrix_side, INTEGER, 1024, 0, 1 << 14,
                            "maximum smaller side of matrices whose spectrum is computed"),
    EITP__EMERGENCE_SETTING(changes_weights, FLAG, 1, 0, 1,
                            "measure robustness to noise in the weights, which are restored"),
    EITP__EMERGENCE_SETTING(seed, UNSIGNED, 0, 0, EITP__UNBOUNDED, "seed of samples, corruption, noise and generation"),
};

EITP__PRIVATE const eitp_setting *eitp__emergence_setting_table(size_t *count) {
    if (count)
        *count = EITP__COUNT(eitp__emergence_rows);
    return eitp__emergence_rows;
}

eitp_emergence_config eitp_emergence_config_default(void) {
    eitp_emergence_config config = EITP__ZERO;
    eitp__settings_reset(eitp__emergence_rows, EITP__COUNT(eitp__emergence_rows), &config);
    return config;
}

/* ---- Parts ---- */

/* A part's requirement on the model. */
typedef enum eitp__emergence_need { EITP__NEEDS_NOTHING, EITP__NEEDS_HEAD, EITP__NEEDS_CAUSAL } eitp__emergence_need;

typedef struct eitp__emergence_part {
    eitp_status (*measure)(eitp__emergence *e, eitp_error *error);
    eitp__emergence_need need;
    const char *names; /* names of its numbers, separated by spaces, for the omissions if the requirement is not met */
} eitp__emergence_part;

static const eitp__emergence_part eitp__emergence_parts[] = {
    {eitp__emergence_predictions, EITP__NEEDS_HEAD,
     "loss perplexity bits_per_byte accuracy calibration_error error_auroc entropy in_context_gain"},
    {eitp__emergence_retrieval, EITP__NEEDS_CAUSAL, "retrieval"},
    {eitp__emergence_states, EITP__NEEDS_NOTHING, ""},
    {eitp__emergence_sensitivity, EITP__NEEDS_NOTHING, ""},
    {eitp__emergence_spectra, EITP__NEEDS_NOTHING, ""},
    {eitp__emergence_path_norm, EITP__NEEDS_NOTHING, ""},
    {eitp__emergence_corruption, EITP__NEEDS_CAUSAL, "corruption"},
    {eitp__emergence_noise, EITP__NEEDS_HEAD, "noise"},
    {eitp__emergence_texts, EITP__NEEDS_CAUSAL, "texts reference_perplexity"},
    {eitp__emergence_resources, EITP__NEEDS_HEAD, "tokens_per_second mfu joules_per_token peak_bytes"},
};

/* The reason why recovery is omitted: an evaluation alone cannot measure it. */
static const char eitp__no_recovery[] = "needs training: change the weights, train for k steps, and measure the loss "
                                        "before, between and after: (between - after) / (between - before)";

/* Adds an omission for each name. */
static eitp_status eitp__omit_all(const eitp__emergence *e, const char *names, const char *reason, eitp_error *error) {
    char name[EITP_EMERGENCE_NAME_SIZE];
    eitp_status status = EITP_OK;
    while (*names && !status) {
        const size_t length = strcspn(names, " ");
        snprintf(name, sizeof name, "%.*s", (int)length, names);
        status = eitp__report_omission(e->report, name, reason, error);
        names += length + (names[length] == ' ');
    }
    return status;
}

static eitp_status eitp__measure_parts(eitp__emergence *e, eitp_error *error) {
    static const char no_head[] = "the model has no language head: evaluate its own task for loss and accuracy";
    static const char not_causal[] = "the model does not predict the next token";
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < EITP__COUNT(eitp__emergence_parts) && !status; i++) {
        const eitp__emergence_part *part = &eitp__emergence_parts[i];
        if (part->need != EITP__NEEDS_NOTHING && !e->has_head)
            status = eitp__omit_all(e, part->names, no_head, error);
        else if (part->need == EITP__NEEDS_CAUSAL && !e->is_causal)
            status = eitp__omit_all(e, part->names, not_causal, error);
        else
            status = part->measure(e, error);
    }
    return status ? status : eitp__report_omission(e->report, "recovery", eitp__no_recovery, error);
}

/* ---- The measurement ---- */

static uint64_t eitp__hash_number(uint64_t hash, double number) {
    char text[40];
    const size_t length = eitp__json_format_number(number, text);
    return eitp__fnv1a(eitp__fnv1a(hash, text, length), ",", 1);
}

/* Hashes the settings, the shape of the model, and the number of samples. */
static eitp_status eitp__hash_config(const eitp__emergence *e, uint64_t *hash, eitp_error *error) {
    const eitp_transformer_config *shape = &e->model->config;
    const double numbers[] = {
        (double)shape->vocabulary, (double)shape->positions, (double)shape->width, (double)shape->heads,
        (double)shape->layers,     (double)shape->head,      (double)e->rows,      (double)e->task->samples[e->split],
        (double)e->vocabulary};
    eitp__buffer text;
    int failed;
    eitp__buffer_init(&text, &e->host);
    for (size_t i = 0; i < EITP__COUNT(eitp__emergence_rows); i++) {
        eitp__setting_write(&eitp__emergence_rows[i], e->config, &text);
        eitp__buffer_add_text(&text, ",");
    }
    failed = text.failed;
    *hash = failed ? 0 : eitp__fnv1a(EITP__FNV_START, text.data, text.size);
    for (size_t i = 0; i < EITP__COUNT(numbers); i++)
        *hash = eitp__hash_number(*hash, numbers[i]);
    eitp__buffer_release(&text);
    return failed ? eitp__fail_memory(error, 1000, "a configuration") : EITP_OK;
}

/* Checks that a reference predicts the next token of its tokenizer. */
static eitp_status eitp__check_reference(const eitp_emergence_config *config, eitp_error *error) {
    const eitp_transformer_config *shape = config->reference ? &config->reference->config : NULL;
    if (!shape)
        return EITP_OK;
    if (shape->head != EITP_HEAD_LANGUAGE || shape->bidirectional)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "reference must be a model that predicts the next token");
    if (!config->reference_tokenizer)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "reference_tokenizer is required with a reference");
    if (eitp_tokenizer_size(config->reference_tokenizer) > shape->vocabulary)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "reference_tokenizer has %d tokens, but the vocabulary of the reference has %lld",
                          (int)eitp_tokenizer_size(config->reference_tokenizer), (long long)shape->vocabulary);
    return EITP_OK;
}

static eitp_status eitp__emergence_check(const eitp_task *task, eitp_split split, const eitp_emergence_config *config,
                                         eitp_error *error) {
    eitp_status status = eitp__task_check(task, error);
    if (!status)
        status = eitp__settings_check(eitp__emergence_rows, EITP__COUNT(eitp__emergence_rows), config, error);
    if (status)
        return status;
    if (!task->model)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the task has no model to measure");
    if (eitp_model_encoder(task->model))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "a model with a latent variable is two models, which emergence does not measure together; "
                          "measure its decoder, or its encoder, from the directory of that name");
    status = eitp__check_reference(config, error);
    if (status)
        return status;
    if ((unsigned)split > EITP_VALIDATION)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "unknown split %d (choose from EITP_TRAINING and EITP_VALIDATION)", (int)split);
    return task->samples[split] ? EITP_OK
                                : eitp__fail(error, EITP_ERROR_ARGUMENT, "the task has no samples in this split");
}

eitp_status eitp_emergence_measure(const eitp_task *task, eitp_split split, const eitp_emergence_config *config,
                                   eitp_emergence_report *report, eitp_error *error) {
    eitp__emergence e;
    eitp_status status;
    if (!task || !config || !report)
        return eitp__fail_null(error, "eitp_emergence_measure", "task, config and report");
    memset(report, 0, sizeof *report);
    status = eitp__emergence_check(task, split, config, error);
    if (status)
        return status;
    report->host = task->model->host;
    status = eitp__emergence_open(&e, task, split, config, report, error);
    report->sequences = e.sequences;
    if (!status)
        status = eitp__hash_config(&e, &report->config_hash, error);
    if (!status)
        status = eitp__measure_parts(&e, error);
    eitp__emergence_close(&e);
    if (status)
        eitp_emergence_release(report);
    return status;
}
