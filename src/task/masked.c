/* Masked language modelling (Devlin et al., arXiv 1810.04805): some tokens of a sample are masked or replaced, and the
   model predicts the original tokens. */
#include "base/random.h"
#include "model/transformer.h"
#include "model/transformer_config.h"
#include "task/labelled.h"
#include "task/pass.h"
#include "text/tokenizer.h"

typedef struct eitp__masked_language {
    eitp_host host;
    eitp_model *model;
    const eitp_tokenizer *tokenizer;
    eitp_labelled_source sources[2]; /* of each eitp_split */
    double probability;
    int whole_words;
    int32_t mask_token;
    eitp_token_ids special;
    int64_t replacements; /* random tokens are below this id */
} eitp__masked_language;

static eitp_status eitp__masked_build(void *user, eitp_pass *pass, eitp_error *error) {
    const eitp__masked_language *m = (const eitp__masked_language *)user;
    const eitp_model_inputs inputs = eitp__labelled_inputs(pass, m->model);
    eitp_tensor *targets = eitp_pass_row_input(pass, "targets", EITP_I32, 0, NULL, EITP__IGNORED_TARGET);
    eitp_tensor *hidden = eitp_model_hidden(m->model, eitp_pass_graph(pass), &inputs, eitp_pass_max_length(pass));
    eitp_tensor *losses = eitp__model_row_losses(m->model, hidden, inputs.key, targets, EITP__IGNORED_TARGET);
    eitp_pass_set_targets(pass, targets, EITP__IGNORED_TARGET);
    eitp_pass_term(pass, "loss", losses, NULL);
    return eitp_graph_status(eitp_pass_graph(pass), error);
}

/* ---- Masks ---- */

/* True if the token continues the word of the token before it. */
static int eitp__continues_word(const eitp__masked_language *m, int32_t token) {
    const char *text = "";
    size_t size = 0;
    eitp_error ignored;
    return m->whole_words && !eitp_tokenizer_token(m->tokenizer, token, &text, &size, &ignored) &&
           eitp__wordpiece_continues(&m->tokenizer->wordpiece, text, size);
}

/* Returns a fraction in [0, 1) from 32 random bits. */
static double eitp__fraction_of(uint32_t word) {
    return (double)word / 4294967296.0;
}

/* Returns random bits for an index in a sample. */
static void eitp__mask_bits(const eitp_sample *sample, uint64_t number, int64_t place, uint32_t bits[4]) {
    const int place_bits = 24; /* a sample has at most as many rows */
    eitp__philox(sample->seed, sample->epoch, EITP__RNG_STREAM_MASK, (number << place_bits) | (uint64_t)place, bits);
}

/* Returns the replacement of a chosen token: the mask for 80 %, a random token for 10 %, and the token itself for 10
   %. */
static int32_t eitp__replacement(const eitp__masked_language *m, int32_t token, const uint32_t bits[4]) {
    if (eitp__fraction_of(bits[1]) < 0.8)
        return m->mask_token;
    if (eitp__fraction_of(bits[1]) < 0.9)
        return (int32_t)(eitp__fraction_of(bits[2]) * (double)m->replacements);
    return token;
}

/* Masks tokens and stores the original tokens as targets. A token's own random bits decide its replacement. The bits of
   its word's first token decide whether it is chosen. */
static int64_t eitp__mask_tokens(const eitp__masked_language *m, uint64_t number, const eitp_sample *sample,
                                 int32_t *tokens, int32_t *targets) {
    int64_t masked = 0;
    int is_chosen = 0, is_after_word = 0;
    for (int64_t i = 0; i < sample->rows; i++) {
        const int is_special = tokens[i] == m->mask_token || eitp__token_ids_have(&m->special, tokens[i]);
        uint32_t bits[4];
        targets[i] = EITP__IGNORED_TARGET;
        eitp__mask_bits(sample, number, i, bits);
        if (is_special || !is_after_word || !eitp__continues_word(m, tokens[i]))
            is_chosen = !is_special && eitp__fraction_of(bits[0]) < m->probability;
        is_after_word = !is_special;
        if (!is_chosen)
            continue;
        masked++;
        targets[i] = tokens[i];
        tokens[i] = eitp__replacement(m, tokens[i], bits);
    }
    return masked;
}

static eitp_status eitp__masked_read(void *user, eitp_split split, uint64_t number, eitp_sample *sample,
                                     eitp_error *error) {
    const eitp__masked_language *m = (const eitp__masked_language *)user;
    eitp_labelled_sample read = EITP__ZERO;
    void **targets = sample->values + eitp__labelled_input_count(m->model);
    eitp_status status = eitp__labelled_read(&m->sources[split], m->model, number, sample, &read, error);
    if (!status)
        sample->items[0] = eitp__mask_tokens(m, number, sample, read.ids, (int32_t *)targets[0]);
    return status;
}

/* ---- The other functions of the task ---- */

static eitp_status eitp__masked_identify(void *user, eitp_task_identity *identity, eitp_error *error) {
    (void)error;
    eitp__labelled_identify(&((const eitp__masked_language *)user)->sources[EITP_TRAINING], identity);
    return EITP_OK;
}

static eitp_status eitp__masked_save(void *user, const char *directory, eitp_error *error) {
    const eitp__masked_language *m = (const eitp__masked_language *)user;
    return eitp__save_tokenizer(m->tokenizer, m->model, directory, error);
}

static void eitp__masked_release(void *user) {
    eitp__masked_language *m = (eitp__masked_language *)user;
    const eitp_host host = m->host;
    eitp__release(&host, m, sizeof *m);
}

/* ---- Creation ---- */

static eitp_status eitp__check_masked(const eitp_masked_config *config, eitp_error *error) {
    const eitp_transformer_config *model = &config->model->config;
    eitp_status status;
    if (model->head != EITP_HEAD_LANGUAGE || !model->bidirectional)
        return eitp__fail(
            error, EITP_ERROR_ARGUMENT,
            "masked language modelling requires a bidirectional model with a language head, such as BERT's");
    if (!(config->probability >= 0 && config->probability <= 1))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "probability must be 0 to 1 (got %g)", config->probability);
    if (!config->training.count && !config->validation.count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the sources have no samples");
    status = eitp__labelled_check(&config->training, config->model, error);
    return status ? status : eitp__labelled_check(&config->validation, config->model, error);
}

/* Sets the mask token and the tokens that are never masked, from the tokenizer or, without one, from the
   configuration. */
static eitp_status eitp__masked_set_tokens(eitp__masked_language *m, const eitp_masked_config *config,
                                           eitp_error *error) {
    m->mask_token = config->mask_token;
    m->special = config->special;
    m->replacements = eitp_model_vocabulary(m->model);
    if (m->whole_words && (!m->tokenizer || m->tokenizer->model != EITP__MODEL_WORDPIECE))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "whole_words needs a tokenizer that marks the starts of words: WordPiece, such as "
                          "BERT's");
    if (m->tokenizer) {
        m->mask_token = eitp_tokenizer_special(m->tokenizer, EITP_MASK);
        m->special.count = 0;
        for (int which = 0; which < EITP_SPECIAL_TOKEN_COUNT; which++) {
            const int32_t id = eitp_tokenizer_special(m->tokenizer, (eitp_special_token)which);
            if (id >= 0)
                m->special.ids[m->special.count++] = id;
        }
        if (eitp_tokenizer_size(m->tokenizer) < m->replacements)
            m->replacements = eitp_tokenizer_size(m->tokenizer);
    }
    if (m->special.count < 0 || m->special.count > EITP_MAX_TOKEN_IDS)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "special must have at most %d tokens (got %d)",
                          EITP_MAX_TOKEN_IDS, (int)m->special.count);
    if (m->mask_token < 0 || m->mask_token >= eitp_model_vocabulary(m->model))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          m->tokenizer && m->mask_token < 0
                              ? "the tokenizer has no mask token; use the tokenizer of a masked language model"
                              : "mask token %d is outside the model's vocabulary, 0 to %lld",
                          (int)m->mask_token, (long long)eitp_model_vocabulary(m->model) - 1);
    return EITP_OK;
}

eitp_masked_config eitp_masked_config_default(void) {
    eitp_masked_config config = EITP__ZERO;
    config.probability = 0.15;
    config.mask_token = -1;
    return config;
}

eitp_status eitp_masked_task(const eitp_masked_config *config, eitp_task *task, eitp_error *error) {
    if (!config || !config->model || !task)
        return eitp__fail_null(error, "eitp_masked_task", "config, config.model and task");
    const eitp_host host = eitp_context_host(eitp_model_context(config->model));
    eitp__masked_language *m;
    eitp_status status = eitp__check_masked(config, error);
    memset(task, 0, sizeof *task);
    if (status)
        return status;
    m = (eitp__masked_language *)eitp__allocate(&host, sizeof *m);
    if (!m)
        return eitp__fail_memory(error, sizeof *m, "a task");
    m->host = host;
    m->model = config->model;
    m->tokenizer = config->tokenizer;
    m->sources[EITP_TRAINING] = config->training;
    m->sources[EITP_VALIDATION] = config->validation;
    m->probability = config->probability;
    m->whole_words = config->whole_words != 0;
    status = eitp__masked_set_tokens(m, config, error);
    if (status) {
        eitp__masked_release(m);
        return status;
    }
    eitp__labelled_fill(m->sources, m->model, task);
    task->user = m;
    task->unit = "masked_tokens";
    task->guess_loss = log((double)eitp_model_vocabulary(m->model));
    task->build = eitp__masked_build;
    task->read = eitp__masked_read;
    task->identify = eitp__masked_identify;
    task->save = eitp__masked_save;
    task->release = eitp__masked_release;
    return EITP_OK;
}
