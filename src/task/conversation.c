/* Conversations: some tokens of a sample are trained on, each predicted from the tokens before it. */
#include "model/transformer.h"
#include "task/labelled.h"
#include "task/pass.h"
#include "text/chat.h"

typedef struct eitp__conversations {
    eitp_host host;
    eitp_model *model;
    const eitp_tokenizer *tokenizer;
    eitp_labelled_source sources[2]; /* of each eitp_split */
    int32_t end_of_turn;             /* -1: none */
    int has_weights;                 /* tokens have weights in the loss; 0: all weights are 1 */
} eitp__conversations;

static eitp_status eitp__conversations_build(void *user, eitp_pass *pass, eitp_error *error) {
    const eitp__conversations *c = (const eitp__conversations *)user;
    const eitp_model_inputs inputs = eitp__labelled_inputs(pass, c->model);
    eitp_tensor *targets = eitp_pass_row_input(pass, "targets", EITP_I32, 0, NULL, EITP__IGNORED_TARGET);
    eitp_tensor *losses;
    eitp_pass_set_targets(pass, targets, EITP__IGNORED_TARGET);
    losses = eitp_model_losses(c->model, eitp_pass_graph(pass), &inputs, eitp_pass_max_length(pass), targets,
                               EITP__IGNORED_TARGET);
    if (c->has_weights)
        losses = eitp_multiply(losses, eitp_pass_row_input(pass, "weights", EITP_F32, 0, NULL, 0));
    eitp_pass_term(pass, "loss", losses, NULL);
    return eitp_graph_status(eitp_pass_graph(pass), error);
}

/* The last token is only a target: nothing is predicted from it. */
static eitp_status eitp__conversations_read(void *user, eitp_split split, uint64_t number, eitp_sample *sample,
                                            eitp_error *error) {
    const eitp__conversations *c = (const eitp__conversations *)user;
    eitp_labelled_sample read = EITP__ZERO;
    void **inputs = sample->values + eitp__labelled_input_count(c->model);
    int32_t *targets = (int32_t *)inputs[0];
    float *weights = c->has_weights ? (float *)inputs[1] : NULL;
    double weight = 0;
    eitp_status status;
    read.token_labels = targets;
    read.token_weights = c->sources[split].has_weights ? weights : NULL;
    status = eitp__labelled_read(&c->sources[split], c->model, number, sample, &read, error);
    if (status)
        return status;
    sample->rows = read.length > 1 ? read.length - 1 : 1;
    sample->items[0] = 0;
    for (int64_t i = 0; i < sample->rows; i++) {
        const int is_target = i + 1 < read.length && targets[i + 1] >= 0;
        targets[i] = is_target ? read.ids[i + 1] : EITP__IGNORED_TARGET;
        sample->items[0] += is_target;
        if (!weights)
            continue;
        weights[i] = !is_target ? 0 : read.token_weights ? weights[i + 1] : 1;
        weight += (double)weights[i];
    }
    if (!weights)
        return EITP_OK;
    sample->weights[0] = weight;
    return eitp__check_weights_read(weights, sample->rows, number, error);
}

static eitp_status eitp__conversations_identify(void *user, eitp_task_identity *identity, eitp_error *error) {
    (void)error;
    eitp__labelled_identify(&((const eitp__conversations *)user)->sources[EITP_TRAINING], identity);
    return EITP_OK;
}

/* Also saves the end-of-turn token, at which generation with the model stops. */
static eitp_status eitp__conversations_save(void *user, const char *directory, eitp_error *error) {
    const eitp__conversations *c = (const eitp__conversations *)user;
    const eitp_status status = eitp__save_tokenizer(c->tokenizer, c->model, directory, error);
    eitp__model_add_end(c->model, c->end_of_turn);
    return status;
}

static void eitp__conversations_release(void *user) {
    eitp__conversations *c = (eitp__conversations *)user;
    const eitp_host host = c->host;
    eitp__release(&host, c, sizeof *c);
}

/* ---- Creation ---- */

static eitp_status eitp__check_conversations(const eitp_conversation_config *config, eitp_error *error) {
    const eitp_labelled_source *const sources[2] = {&config->training, &config->validation};
    const eitp_transformer_config *model = &config->model->config;
    if (model->head != EITP_HEAD_LANGUAGE || model->bidirectional)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "conversations need a causal model with a language head, such as Llama's");
    if (!config->training.count && !config->validation.count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the sources have no samples");
    for (int i = 0; i < 2; i++) {
        const eitp_status status = eitp__labelled_check(sources[i], config->model, error);
        if (status)
            return status;
        if (sources[i]->count && sources[i]->problem != EITP_PROBLEM_TOKENS)
            return eitp__fail(error, EITP_ERROR_ARGUMENT,
                              "the samples of conversations must have labels of their tokens (EITP_PROBLEM_TOKENS)");
    }
    return EITP_OK;
}

eitp_conversation_config eitp_conversation_config_default(void) {
    eitp_conversation_config config = EITP__ZERO;
    config.end_of_turn = -1;
    return config;
}

eitp_status eitp_conversation_task(const eitp_conversation_config *config, eitp_task *task, eitp_error *error) {
    if (!config || !config->model || !task)
        return eitp__fail_null(error, "eitp_conversation_task", "config, config.model and task");
    const eitp_host host = eitp_context_host(eitp_model_context(config->model));
    eitp__conversations *c;
    const eitp_status status = eitp__check_conversations(config, error);
    memset(task, 0, sizeof *task);
    if (status)
        return status;
    c = (eitp__conversations *)eitp__allocate(&host, sizeof *c);
    if (!c)
        return eitp__fail_memory(error, sizeof *c, "a task");
    c->host = host;
    c->model = config->model;
    c->tokenizer = config->tokenizer;
    c->sources[EITP_TRAINING] = config->training;
    c->sources[EITP_VALIDATION] = config->validation;
    c->end_of_turn = config->end_of_turn;
    c->has_weights = config->training.has_weights || config->validation.has_weights;
    eitp__labelled_fill(c->sources, c->model, task);
    task->user = c;
    task->unit = EITP__TOKENS;
    task->guess_loss = log((double)eitp_model_vocabulary(c->model));
    task->build = eitp__conversations_build;
    task->read = eitp__conversations_read;
    task->identify = eitp__conversations_identify;
    task->save = eitp__conversations_save;
    task->release = eitp__conversations_release;
    return EITP_OK;
}
