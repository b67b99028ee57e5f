/* Language modelling: samples are windows of tokens, and the target of each token is the next token. */
#include "data/windows.h"
#include "task/pass.h"

typedef struct eitp__language {
    eitp_host host;
    eitp_model *model;
    const eitp_tokenizer *tokenizer;
    eitp__windows windows[2]; /* of each eitp_split */
} eitp__language;

static eitp_status eitp__language_build(void *user, eitp_pass *pass, eitp_error *error) {
    const eitp__language *language = (const eitp__language *)user;
    const eitp_model_inputs inputs = eitp_pass_model_inputs(pass, language->model);
    eitp_tensor *targets = eitp_pass_row_input(pass, "targets", EITP_I32, 0, NULL, EITP__IGNORED_TARGET);
    eitp_pass_set_targets(pass, targets, EITP__IGNORED_TARGET);
    eitp_pass_term(pass, "loss",
                   eitp_model_losses(language->model, eitp_pass_graph(pass), &inputs, eitp_pass_max_length(pass),
                                     targets, EITP__IGNORED_TARGET),
                   NULL);
    return eitp_graph_status(eitp_pass_graph(pass), error);
}

static eitp_status eitp__check_tokens(const int32_t *tokens, int64_t count, int64_t vocabulary, eitp_error *error) {
    for (int64_t i = 0; i < count; i++) {
        if (tokens[i] < 0 || tokens[i] >= vocabulary)
            return eitp__fail(error, EITP_ERROR_FORMAT,
                              "token id %d in the data is out of range for the model's vocabulary of %lld; use the "
                              "model's tokenizer, or a larger vocabulary",
                              (int)tokens[i], (long long)vocabulary);
    }
    return EITP_OK;
}

static eitp_status eitp__language_read(void *user, eitp_split split, uint64_t number, eitp_sample *sample,
                                       eitp_error *error) {
    const eitp__language *language = (const eitp__language *)user;
    const int64_t vocabulary = eitp_model_vocabulary(language->model);
    int32_t *tokens = (int32_t *)sample->values[0], *targets = (int32_t *)sample->values[1];
    eitp_status status = eitp__windows_read(&language->windows[split], number, tokens, targets, error);
    if (!status)
        status = eitp__check_tokens(tokens, sample->rows, vocabulary, error);
    if (!status)
        status = eitp__check_tokens(targets + sample->rows - 1, 1, vocabulary, error);
    sample->items[0] = sample->rows;
    return status;
}

static void eitp__language_prefetch(void *user, eitp_split split, uint64_t number) {
    eitp__windows_prefetch(&((const eitp__language *)user)->windows[split], number);
}

static eitp_status eitp__language_identify(void *user, eitp_task_identity *identity, eitp_error *error) {
    const eitp_token_source *source = &((const eitp__language *)user)->windows[EITP_TRAINING].source;
    (void)error;
    identity->hash = source->hash;
    identity->first = source->range.first;
    identity->count = source->range.count;
    return EITP_OK;
}

/* Gives the model the tokenizer's special tokens or, without a tokenizer, the id that ends documents in the data. */
static eitp_status eitp__language_save(void *user, const char *directory, eitp_error *error) {
    const eitp__language *language = (const eitp__language *)user;
    const eitp_tokenizer *tokenizer = language->tokenizer;
    if (!tokenizer) {
        eitp_model_set_special_tokens(language->model, -1, language->windows[EITP_TRAINING].source.end_of_text, -1);
        return EITP_OK;
    }
    eitp_model_set_special_tokens(language->model, eitp_tokenizer_special(tokenizer, EITP_BEGIN_OF_TEXT),
                                  eitp_tokenizer_special(tokenizer, EITP_END_OF_TEXT),
                                  eitp_tokenizer_special(tokenizer, EITP_PADDING));
    return eitp_tokenizer_save(tokenizer, directory, error);
}

static void eitp__language_release(void *user) {
    eitp__language *language = (eitp__language *)user;
    const eitp_host host = language->host;
    eitp__release(&host, language, sizeof *language);
}

static eitp_status eitp__check_block_size_of(const eitp_language_config *config, eitp_error *error) {
    const int64_t positions = eitp_model_positions(config->model);
    return config->block_size >= 1 && config->block_size <= positions
               ? EITP_OK
               : eitp__fail(error, EITP_ERROR_ARGUMENT,
                            "block_size must be from 1 to the model's %lld positions (got %lld)", (long long)positions,
                            (long long)config->block_size);
}

eitp_language_config eitp_language_config_default(void) {
    eitp_language_config config = EITP__ZERO;
    return config;
}

eitp_status eitp_language_task(const eitp_language_config *config, eitp_task *task, eitp_error *error) {
    if (!config || !config->model || !task)
        return eitp__fail_null(error, "eitp_language_task", "config, config.model and task");
    const eitp_host host = eitp_context_host(eitp_model_context(config->model));
    const eitp_token_source *const sources[2] = {&config->training, &config->validation};
    eitp__language *language;
    eitp_status status = eitp__check_block_size_of(config, error);
    memset(task, 0, sizeof *task);
    if (status)
        return status;
    language = (eitp__language *)eitp__allocate(&host, sizeof *language);
    if (!language)
        return eitp__fail_memory(error, sizeof *language, "a task");
    language->host = host;
    language->model = config->model;
    language->tokenizer = config->tokenizer;
    for (int split = 0; split < 2 && !status; split++) {
        if (split == EITP_TRAINING || sources[split]->range.count)
            status = eitp__windows_init(&language->windows[split], sources[split], config->block_size, error);
        task->samples[split] = language->windows[split].count;
    }
    if (status) {
        eitp__language_release(language);
        memset(task, 0, sizeof *task);
        return status;
    }
    task->user = language;
    task->context = eitp_model_context(config->model);
    task->model = config->model;
    task->rows = config->block_size;
    task->unit = EITP__TOKENS;
    task->guess_loss = log((double)eitp_model_vocabulary(config->model));
    task->allows_gaps = 1;
    task->build = eitp__language_build;
    task->read = eitp__language_read;
    task->prefetch = eitp__language_prefetch;
    task->identify = eitp__language_identify;
    task->save = eitp__language_save;
    task->release = eitp__language_release;
    return EITP_OK;
}
