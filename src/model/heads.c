/* Outputs computed from hidden states: logits and losses of tokens, and scores of samples. */
#include "model/layers.h"
#include "model/transformer.h"
#include "tensor/graph.h"
#include "tensor/op_rules.h"

/* Fails the graph unless the model has a parameter in the slot; `what` names it. */
static int eitp__require_slot(const eitp_model *model, eitp_graph *graph, eitp__model_slot slot, const char *what) {
    if (eitp__has_slot(&model->config, slot, EITP__WEIGHT))
        return 1;
    eitp__graph_fail(graph, EITP_ERROR_ARGUMENT, "the model has no %s: see head in eitp_transformer_config", what);
    return 0;
}

static eitp_tensor *eitp__head_part(const eitp_model *model, eitp_graph *graph, eitp__model_slot slot,
                                    eitp__part part) {
    return eitp__has_slot(&model->config, slot, part) ? eitp__slot_tensor(graph, &model->config, NULL, slot, part)
                                                      : NULL;
}

/* Applies the matrix of a slot outside blocks to x, with its adapter, bias and activation. */
static eitp_tensor *eitp__head_product(const eitp_model *model, eitp_tensor *x, eitp__model_slot slot, eitp_tensor *key,
                                       eitp_activation activation) {
    eitp_graph *graph = eitp_tensor_graph(x);
    eitp_tensor *weight = eitp__head_part(model, graph, slot, EITP__WEIGHT);
    eitp_tensor *bias = eitp__head_part(model, graph, slot, EITP__BIAS);
    eitp_tensor *adapted = eitp__lora_apply(x, &model->config, NULL, -1, slot, &model->lora, key);
    return adapted ? eitp__activate(eitp_add(eitp_linear(x, weight, bias, EITP_NO_ACTIVATION), adapted), activation)
                   : eitp_linear(x, weight, bias, activation);
}

/* Applies a linear layer outside blocks. `key` is for the dropout of its adapter; NULL: no dropout. */
static eitp_tensor *eitp__head_linear(const eitp_model *model, eitp_tensor *x, eitp__model_slot slot, eitp_tensor *key,
                                      eitp_activation activation) {
    eitp_graph *graph = eitp_tensor_graph(x);
    const eitp_component component = eitp__graph_set_component(graph, EITP_COMPONENT_HEAD);
    x = eitp__head_product(model, x, slot, key, activation);
    eitp__graph_set_component(graph, component);
    return x;
}

/* Returns x times a matrix of a head, in the wide dtype, plus the bias if there is one. */
static eitp_tensor *eitp__head_scores(eitp_tensor *x, eitp_tensor *weight, int transposed, eitp_tensor *bias) {
    eitp_graph *graph = eitp_tensor_graph(x);
    const eitp_component component = eitp__graph_set_component(graph, EITP_COMPONENT_HEAD);
    eitp_tensor *y = eitp_matmul_wide(x, weight, 0, transposed);
    y = bias ? eitp_add(y, bias) : y;
    eitp__graph_set_component(graph, component);
    return y;
}

/* ---- The language head ---- */

/* Returns the matrix [vocabulary, width], or NULL if the model has no language head. */
static eitp_tensor *eitp__head_tensor(const eitp_model *model, eitp_graph *graph) {
    const eitp__model_slot slot = eitp__is_tied(&model->config) ? EITP__TOKEN_EMBEDDING : EITP__HEAD;
    return eitp__require_slot(model, graph, slot, "language head") ? eitp__head_part(model, graph, slot, EITP__WEIGHT)
                                                                   : NULL;
}

/* Returns the input of the head's matrix. */
static eitp_tensor *eitp__head_input(const eitp_model *model, eitp_tensor *hidden, eitp_tensor *key) {
    const eitp_transformer_config *config = &model->config;
    const eitp_activation own = eitp__architecture_of(config)->head_activation;
    if (!eitp__has_slot(config, EITP__HEAD_TRANSFORM, EITP__WEIGHT))
        return hidden;
    hidden = eitp__head_linear(model, hidden, EITP__HEAD_TRANSFORM, key,
                               own == EITP_NO_ACTIVATION ? config->activation : own);
    return eitp__slot_norm(hidden, config, NULL, EITP__HEAD_NORM);
}

static eitp_tensor *eitp__model_logits(const eitp_model *model, eitp_tensor *hidden, eitp_tensor *key) {
    eitp_tensor *head = eitp__head_tensor(model, eitp_tensor_graph(hidden));
    eitp_tensor *bias = eitp__head_part(model, eitp_tensor_graph(hidden), EITP__HEAD, EITP__BIAS);
    return eitp__head_scores(eitp__head_input(model, hidden, key), head, 1, bias);
}

eitp_tensor *eitp_model_logits(const eitp_model *model, eitp_tensor *hidden) {
    return model && hidden ? eitp__model_logits(model, hidden, NULL) : NULL;
}

/* Returns the losses of a head with a bias, computed from its logits. */
static eitp_tensor *eitp__biased_losses(const eitp_model *model, eitp_tensor *hidden, eitp_tensor *key,
                                        eitp_tensor *targets, int32_t ignored) {
    eitp_tensor *logits = eitp__model_logits(model, hidden, key);
    eitp__graph_register(logits, &model->config, EITP__TAP_LOGITS, 0);
    return eitp_cross_entropy(logits, targets, ignored);
}

EITP__PRIVATE eitp_tensor *eitp__model_row_losses(const eitp_model *model, eitp_tensor *hidden, eitp_tensor *key,
                                                  eitp_tensor *targets, int32_t ignored) {
    eitp_tensor *losses;
    if (!model || !hidden)
        return NULL;
    if (eitp__has_slot(&model->config, EITP__HEAD, EITP__BIAS))
        return eitp__biased_losses(model, hidden, key, targets, ignored);
    losses = eitp_linear_cross_entropy(eitp__head_input(model, hidden, key),
                                       eitp__head_tensor(model, eitp_tensor_graph(hidden)), targets, ignored);
    /* In 16-bit precision the output does not hold the logits. */
    if (losses && losses->node->outputs[2]->dtype == EITP_F32)
        eitp__graph_register(losses->node->outputs[2], &model->config, EITP__TAP_LOGITS, 0);
    return losses;
}

eitp_tensor *eitp_model_row_losses(const eitp_model *model, eitp_tensor *hidden, eitp_tensor *targets,
                                   int32_t ignored) {
    return eitp__model_row_losses(model, hidden, NULL, targets, ignored);
}

eitp_tensor *eitp_model_losses(const eitp_model *model, eitp_graph *graph, const eitp_model_inputs *inputs,
                               int64_t max_length, eitp_tensor *targets, int32_t ignored) {
    if (!model || !graph || !inputs || !eitp__head_tensor(model, graph))
        return NULL;
    return eitp__model_row_losses(model, eitp_model_hidden(model, graph, inputs, max_length), inputs->key, targets,
                                  ignored);
}

/* ---- Samples ---- */

/* Applies the pooler to the pooled rows. */
static eitp_tensor *eitp__pooler_output(const eitp_model *model, eitp_tensor *rows, const eitp_model_inputs *inputs) {
    return eitp__head_linear(model, rows, EITP__POOLER, inputs->sample_key, EITP_TANH);
}

/* Returns one row of hidden states for each sample. */
static eitp_tensor *eitp__sample_rows(eitp_tensor *hidden, const eitp_model_inputs *inputs, eitp_pooling pooling) {
    return eitp_pool(hidden, inputs->bounds ? inputs->bounds : inputs->offsets, eitp_tensor_dimension(hidden, 0),
                     pooling);
}

eitp_tensor *eitp_model_pooled(const eitp_model *model, eitp_tensor *hidden, const eitp_model_inputs *inputs) {
    if (!model || !hidden || !inputs || !eitp__require_slot(model, eitp_tensor_graph(hidden), EITP__POOLER, "pooler"))
        return NULL;
    return eitp__pooler_output(model, eitp__sample_rows(hidden, inputs, EITP_POOLING_FIRST), inputs);
}

/* Applies the last layer of a classifier. */
static eitp_tensor *eitp__label_scores(const eitp_model *model, eitp_tensor *x) {
    eitp_graph *graph = eitp_tensor_graph(x);
    eitp_tensor *bias = eitp__head_part(model, graph, EITP__CLASSIFIER, EITP__BIAS);
    return eitp__head_scores(x, eitp__head_part(model, graph, EITP__CLASSIFIER, EITP__WEIGHT), 0, bias);
}

static eitp_tensor *eitp__tapped_scores(const eitp_model *model, eitp_tensor *x) {
    eitp_tensor *scores = eitp__label_scores(model, x);
    eitp__graph_register(scores, &model->config, EITP_TAP_SCORES, 0);
    return scores;
}

/* Fails the graph unless the model has this classifier head; `what` names it. */
static int eitp__require_head(const eitp_model *model, eitp_graph *graph, eitp_head head, const char *what) {
    if (model->config.head == head)
        return eitp__require_slot(model, graph, EITP__CLASSIFIER, what);
    eitp__graph_fail(graph, EITP_ERROR_ARGUMENT, "the model has no %s: see head in eitp_transformer_config", what);
    return 0;
}

eitp_tensor *eitp_model_scores(const eitp_model *model, eitp_tensor *hidden, const eitp_model_inputs *inputs) {
    const eitp_transformer_config *config;
    const eitp__classifier_rule *rule;
    eitp_graph *graph = eitp_tensor_graph(hidden);
    eitp_tensor *x;
    if (!model || !hidden || !inputs || !eitp__require_head(model, graph, EITP_HEAD_CLASSIFIER, "classifier"))
        return NULL;
    config = &model->config;
    rule = &eitp__architecture_of(config)->classifier;
    x = eitp__sample_rows(hidden, inputs, rule->pooling);
    if (eitp__has_slot(config, EITP__POOLER, EITP__WEIGHT))
        x = eitp__pooler_output(model, x, inputs);
    if (rule->drops_first)
        x = eitp__dropout_with(x, inputs->sample_key, config->classifier_dropout);
    if (eitp__has_slot(config, EITP__CLASSIFIER_TRANSFORM, EITP__WEIGHT))
        x = eitp__head_linear(model, x, EITP__CLASSIFIER_TRANSFORM, NULL, rule->activation);
    return eitp__tapped_scores(model, eitp__dropout_with(x, inputs->sample_key, eitp__head_dropout(config)));
}

eitp_tensor *eitp_model_token_scores(const eitp_model *model, eitp_tensor *hidden, const eitp_model_inputs *inputs) {
    if (!model || !hidden || !inputs ||
        !eitp__require_head(model, eitp_tensor_graph(hidden), EITP_HEAD_TOKEN_CLASSIFIER, "token classifier"))
        return NULL;
    return eitp__tapped_scores(model, eitp__dropout_with(hidden, inputs->key, eitp__head_dropout(&model->config)));
}
