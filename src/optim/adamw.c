/* The AdamW step as nodes of a graph: norm of the whole gradient, commit, one update for each parameter. */
#include "optim/optim.h"
#include "tensor/context.h"
#include "tensor/op_rules.h"

eitp_adamw_config eitp_adamw_config_default(void) {
    eitp_adamw_config config;
    config.beta1 = 0.9;
    config.beta2 = 0.999;
    config.epsilon = 1e-8;
    config.weight_decay = 0.01;
    config.loss_scale = NULL;
    return config;
}

/* The state of a parameter called "adamw.<moment>.<name>". */
static eitp_tensor *eitp__moment(const eitp_tensor *parameter, const char *moment) {
    char name[256];
    snprintf(name, sizeof name, "adamw.%s.%s", moment, eitp__variable_name(parameter));
    return eitp_variable_tensor(parameter->graph, name, EITP_OPTIMIZER, eitp__wide(parameter->dtype), parameter->rank,
                                parameter->shape);
}

/* What a 16-bit parameter lacks of its f32 value, zero to begin with; NULL for others. */
static eitp_tensor *eitp__remainder_tensor(const eitp_tensor *parameter) {
    char name[256];
    if (eitp__wide(parameter->dtype) == parameter->dtype)
        return NULL;
    eitp__remainder_name(eitp__variable_name(parameter), name, sizeof name);
    return eitp_variable_tensor(parameter->graph, name, EITP_REMAINDER, eitp__remainder_dtype(parameter->dtype),
                                parameter->rank, parameter->shape);
}

static int eitp__decays(eitp_context *context, const eitp_tensor *parameter) {
    return eitp_variable_at(context, (size_t)parameter->variable).decay;
}

/* Adds the update of one parameter; the sums of squares of update and parameter are added to *sums. */
static void eitp__adamw_node(const eitp_adamw_config *config, const eitp_update *update, eitp_tensor *parameter,
                             eitp_tensor *gradient, eitp_tensor **sums) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[7];
    eitp__node *node;
    attributes.reals[0] = config->beta1;
    attributes.reals[1] = config->beta2;
    attributes.reals[2] = config->epsilon;
    attributes.reals[3] = eitp__decays(parameter->graph->context, parameter) ? config->weight_decay : 0;
    inputs[0] = parameter;
    inputs[1] = gradient;
    inputs[2] = eitp__moment(parameter, "m");
    inputs[3] = eitp__moment(parameter, "v");
    inputs[4] = update->hyper;
    inputs[5] = update->commit;
    inputs[6] = eitp__remainder_tensor(parameter);
    node = eitp__node_create(parameter->graph, EITP__OP_ADAMW, inputs, inputs[6] ? 7 : 6, &attributes);
    eitp__add_gradient(sums, node ? eitp_sum(node->outputs[3], 1u, 0) : NULL);
}

/* Adds the whole step for `count` parameters and their gradients. */
static eitp_status eitp__adamw_step(eitp_graph *graph, const eitp_adamw_config *config, size_t count,
                                    eitp_tensor *const *parameters, eitp_tensor *const *gradients, eitp_update *update,
                                    eitp_error *error) {
    eitp_tensor *sum = NULL, *sums = NULL, *inputs[3];
    eitp__node *commit;
    int64_t two = 2, one = 1;
    if (!(config->beta1 >= 0 && config->beta1 < 1 && config->beta2 >= 0 && config->beta2 < 1 && config->epsilon > 0 &&
          config->weight_decay >= 0))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "AdamW needs betas in [0, 1), epsilon above 0 and a weight decay of 0 or more");
    if (!count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "there is no parameter to update");
    update->hyper = eitp_input(graph, "learning rate and step", EITP_F32, 1, &two);
    update->limit = eitp_input(graph, "largest gradient norm", EITP_F32, 1, &one);
    for (size_t i = 0; i < count; i++)
        eitp__add_gradient(&sum, eitp_sum_squares(gradients[i]));
    inputs[0] = sum;
    inputs[1] = update->limit;
    inputs[2] = config->loss_scale;
    commit = eitp__node_create(graph, EITP__OP_COMMIT, inputs, config->loss_scale ? 3 : 2, NULL);
    update->commit = commit ? eitp_output(commit->outputs[0]) : NULL;
    update->norm = commit ? eitp_output(commit->outputs[1]) : NULL;
    for (size_t i = 0; i < count && commit; i++)
        eitp__adamw_node(config, update, parameters[i], gradients[i], &sums);
    update->norms = eitp_output(eitp_sqrt(sums));
    return eitp_graph_status(graph, error);
}

/* Two lists of tensors, as long as the graph or the context has candidates. */
typedef struct eitp__pairs {
    const eitp_host *host;
    eitp_tensor **parameters, **gradients;
    size_t count, bytes;
} eitp__pairs;

static eitp_status eitp__pairs_init(eitp__pairs *pairs, const eitp_host *host, size_t capacity, eitp_error *error) {
    memset(pairs, 0, sizeof *pairs);
    pairs->host = host;
    pairs->bytes = capacity * sizeof *pairs->parameters;
    pairs->parameters = (eitp_tensor **)eitp__allocate(host, pairs->bytes);
    pairs->gradients = (eitp_tensor **)eitp__allocate(host, pairs->bytes);
    if (capacity && (!pairs->parameters || !pairs->gradients))
        return eitp__fail_memory(error, 2 * pairs->bytes, "the list of parameters");
    return EITP_OK;
}

static void eitp__pairs_release(eitp__pairs *pairs) {
    eitp__release(pairs->host, pairs->parameters, pairs->bytes);
    eitp__release(pairs->host, pairs->gradients, pairs->bytes);
}

eitp_status eitp_adamw_minimize(eitp_tensor *loss, const eitp_adamw_config *config, eitp_update *update,
                                eitp_error *error) {
    eitp__pairs pairs;
    eitp_graph *graph;
    eitp_status status;
    memset(update, 0, sizeof *update);
    if (!loss)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the loss is NULL; eitp_graph_status says why");
    graph = loss->graph;
    status = eitp__pairs_init(&pairs, eitp__graph_host(graph), graph->tensor_count, error);
    for (size_t i = 0; i < graph->tensor_count && !status; i++) {
        if (eitp__is_parameter(graph->tensors[i]))
            pairs.parameters[pairs.count++] = graph->tensors[i];
    }
    if (!status)
        status = eitp_gradients(loss, NULL, (int)pairs.count, pairs.parameters, pairs.gradients, error);
    if (!status)
        status = eitp__adamw_step(graph, config, pairs.count, pairs.parameters, pairs.gradients, update, error);
    eitp__pairs_release(&pairs);
    return status;
}

eitp_status eitp_adamw_apply(eitp_graph *graph, const eitp_adamw_config *config, eitp_update *update,
                             eitp_error *error) {
    eitp_context *context = graph->context;
    size_t variables = eitp_variable_count(context);
    eitp__pairs pairs;
    eitp_status status = eitp__pairs_init(&pairs, &context->host, variables, error);
    memset(update, 0, sizeof *update);
    for (size_t i = 0; i < variables && !status; i++) {
        eitp_variable parameter = eitp_variable_at(context, i);
        char name[256];
        snprintf(name, sizeof name, "gradient.%s", parameter.name);
        if (parameter.role != EITP_PARAMETER || eitp_variable_find(context, name) < 0)
            continue;
        pairs.parameters[pairs.count] = eitp_variable_tensor(graph, parameter.name, EITP_PARAMETER, parameter.dtype,
                                                             parameter.rank, parameter.shape);
        pairs.gradients[pairs.count++] = eitp_variable_tensor(graph, name, EITP_GRADIENT, eitp__wide(parameter.dtype),
                                                              parameter.rank, parameter.shape);
        status = eitp_graph_status(graph, error);
    }
    if (!status)
        status = eitp__adamw_step(graph, config, pairs.count, pairs.parameters, pairs.gradients, update, error);
    eitp__pairs_release(&pairs);
    return status;
}
