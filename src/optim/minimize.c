/* An optimizer step as nodes of a graph: norm of the whole gradient, commit, updates of parameters in pieces. */
#include "optim/optim_settings.h"
#include "optim/optimizers.h"
#include "base/sort.h"
#include "tensor/context.h"

eitp_optimizer_config eitp_optimizer_config_default(void) {
    static const eitp_setting settings[] = {EITP__OPTIMIZER_SETTINGS(eitp_optimizer_config, )};
    eitp_optimizer_config config = EITP__ZERO;
    eitp__settings_reset(settings, EITP__COUNT(settings), &config);
    config.piece_bytes = EITP_PIECE_BYTES;
    return config;
}

/* Rows of a parameter in a piece. Pieces end at the end of a block of sums, so that norms have the same bits. */
static int64_t eitp__rows_in_piece(const eitp_tensor *parameter, size_t piece_bytes) {
    int64_t elements = eitp__elements(parameter), rows = parameter->rank ? parameter->shape[0] : 1;
    int64_t columns = elements / rows, unit = EITP__SUM_BLOCK, wanted;
    for (int64_t divisor = columns; unit > 1 && divisor % 2 == 0; divisor /= 2)
        unit /= 2;
    wanted = (int64_t)(piece_bytes / eitp_dtype_size(eitp__wide(parameter->dtype))) / columns / unit * unit;
    wanted = wanted > unit ? wanted : unit;
    return wanted < rows ? wanted : rows;
}

typedef struct eitp__update_pieces {
    const eitp_host *host;
    eitp__update_piece *pieces;
    size_t count, capacity;
} eitp__update_pieces;

static eitp_status eitp__add_pieces(eitp__update_pieces *list, const eitp_optimizer_config *config,
                                    eitp_tensor *parameter, eitp_tensor *gradient, eitp_error *error) {
    int64_t rows = parameter->rank ? parameter->shape[0] : 1;
    int64_t piece_rows = eitp__rows_in_piece(parameter, config->piece_bytes);
    for (int64_t begin = 0; begin < rows; begin += piece_rows) {
        eitp__update_piece *piece;
        if (!eitp__reserve(list->host, (void **)&list->pieces, &list->capacity, list->count + 1, sizeof *list->pieces))
            return eitp__fail_memory(error, (list->count + 1) * sizeof *list->pieces, "the pieces of an update");
        piece = &list->pieces[list->count++];
        memset(piece, 0, sizeof *piece);
        piece->method = eitp__update_method_of(config->optimizer, parameter->rank);
        piece->parameter = parameter;
        piece->begin = begin;
        piece->end = begin + piece_rows < rows ? begin + piece_rows : rows;
        piece->gradient = piece_rows < rows ? eitp__rows(gradient, piece->begin, piece->end) : gradient;
    }
    return EITP_OK;
}

/* True if the piece is the last of its parameter. */
static int eitp__is_last_piece(const eitp__update_pieces *list, size_t i) {
    return i + 1 == list->count || list->pieces[i + 1].parameter != list->pieces[i].parameter;
}

/* The sum of squares of all gradients, summed for each parameter first. */
static eitp_tensor *eitp__gradient_squares(const eitp__update_pieces *list) {
    eitp_tensor *sum = NULL;
    for (size_t i = 0; i < list->count; i++) {
        eitp__update_piece *piece = &list->pieces[i];
        piece->method->squares(piece, i && piece[-1].parameter == piece->parameter ? piece - 1 : NULL);
        if (!eitp__is_last_piece(list, i))
            continue;
        piece->sum = eitp_sum(piece->squares, EITP_ALL_DIMENSIONS, 0);
        eitp__add_gradient(&sum, piece->sum);
    }
    return sum;
}

/* Calls `prepare` for each parameter. */
static void eitp__prepare_updates(const eitp_optimizer_config *config, const eitp_update *update,
                                  const eitp__update_pieces *list) {
    size_t first = 0;
    for (size_t i = 0; i < list->count; i++) {
        eitp__update_piece *pieces = list->pieces + first;
        if (!eitp__is_last_piece(list, i))
            continue;
        if (pieces->method->prepare)
            pieces->method->prepare(config, update, pieces, i + 1 - first);
        first = i + 1;
    }
}

/* Adds all updates. Returns the sums of squares of the whole update and of all parameters. */
static eitp_tensor *eitp__add_updates(const eitp_optimizer_config *config, const eitp_update *update,
                                      const eitp__update_pieces *list) {
    eitp_tensor *sums = NULL, *blocks = NULL;
    eitp__prepare_updates(config, update, list);
    for (size_t i = 0; i < list->count; i++) {
        const eitp__update_piece *piece = &list->pieces[i];
        eitp_tensor *sum;
        blocks = eitp__append_blocks(blocks, eitp__update_node(config, update, piece));
        if (!eitp__is_last_piece(list, i))
            continue;
        sum = blocks ? eitp_sum(blocks, 1u, 0) : NULL;
        if (config->observe && sum && piece->sum)
            config->observe(config->observe_user, piece->parameter, piece->sum, sum);
        eitp__add_gradient(&sums, sum);
        blocks = NULL;
    }
    return sums;
}

static eitp_status eitp__check_optimizer_config(const eitp_optimizer_config *config, eitp_error *error) {
    const double beta1 = config->beta1, beta2 = config->beta2;
    if (!(beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "optimizer: beta1 %g and beta2 %g must each be 0 or more and below 1", beta1, beta2);
    if (!(config->epsilon > 0))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "optimizer: epsilon is %g; it must be above 0", config->epsilon);
    if (!(config->weight_decay >= 0))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "optimizer: weight_decay is %g; it must be 0 or more",
                          config->weight_decay);
    return eitp__optimizer_check(config->optimizer, error);
}

/* ---- Learning rates ---- */

/* [rate, step] with the rate times `factor`. */
static eitp_tensor *eitp__scaled_rate(eitp_tensor *rate_and_step, double factor) {
    const int64_t one = 1;
    eitp_tensor *factors[2];
    if (!rate_and_step)
        return NULL;
    factors[0] = eitp_fill(rate_and_step->graph, EITP_F32, 1, &one, factor);
    factors[1] = eitp_fill(rate_and_step->graph, EITP_F32, 1, &one, 1);
    return eitp_multiply(rate_and_step, eitp_concat(factors, 2, 0));
}

/* Sets the rate of each piece. Pieces with the same factor share a tensor. */
static eitp_status eitp__set_rates(const eitp_optimizer_config *config, const eitp__update_pieces *list,
                                   eitp_tensor *rate_and_step, eitp_error *error) {
    for (size_t i = 0; i < list->count; i++) {
        eitp__update_piece *piece = &list->pieces[i];
        const char *name = eitp__variable_name(piece->parameter);
        size_t same = i;
        piece->rate_factor = config->rate_factor ? config->rate_factor(config->rate_user, name) : 1;
        if (!(piece->rate_factor > 0) || !isfinite(piece->rate_factor))
            return eitp__fail(error, EITP_ERROR_ARGUMENT,
                              "optimizer: the rate factor of '%.60s' is %g; it must be above 0 and finite", name,
                              piece->rate_factor);
        while (same > 0 && fabs(list->pieces[same - 1].rate_factor - piece->rate_factor) > 0)
            same--;
        piece->rate_and_step = same                               ? list->pieces[same - 1].rate_and_step
                               : fabs(piece->rate_factor - 1) > 0 ? eitp__scaled_rate(rate_and_step, piece->rate_factor)
                                                                  : rate_and_step;
    }
    return EITP_OK;
}

/* ---- Checks of the inputs of an update ---- */

static eitp_status eitp__check_hyper_values(const eitp__value_rule *rule, const eitp_tensor *input, const void *values,
                                            int64_t count, eitp_error *error) {
    double rate = (double)((const float *)values)[0], step = (double)((const float *)values)[1];
    (void)rule;
    (void)count;
    if (!(rate >= 0 && isfinite(rate)))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "input '%s': learning rate is %g; it must be 0 or more",
                          input->name, rate);
    if (!(step >= 1 && isfinite(step) && step == floor(step)))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "input '%s': step is %g; it must be a whole number, counted from 1", input->name, step);
    return EITP_OK;
}

static eitp_status eitp__check_limit_value(const eitp__value_rule *rule, const eitp_tensor *input, const void *values,
                                           int64_t count, eitp_error *error) {
    double limit = (double)*(const float *)values;
    (void)rule;
    (void)count;
    return limit >= 0 ? EITP_OK
                      : eitp__fail(error, EITP_ERROR_ARGUMENT, "input '%s' is %g; it must be 0 (no limit) or more",
                                   input->name, limit);
}

static eitp_status eitp__check_scale_value(const eitp__value_rule *rule, const eitp_tensor *input, const void *values,
                                           int64_t count, eitp_error *error) {
    double scale = (double)*(const float *)values;
    (void)rule;
    (void)count;
    return scale > 0 && isfinite(scale)
               ? EITP_OK
               : eitp__fail(error, EITP_ERROR_ARGUMENT, "input '%s': loss scale is %g; it must be above 0 and finite",
                            input->name, scale);
}

static void eitp__add_check(eitp_tensor *input,
                            eitp_status (*check)(const eitp__value_rule *rule, const eitp_tensor *input,
                                                 const void *values, int64_t count, eitp_error *error)) {
    eitp__value_rule rule = EITP__ZERO;
    rule.check = check;
    eitp__add_rule(input, &rule);
}

/* Adds the whole step for pieces of parameters and their gradients. */
static eitp_status eitp__update_nodes(eitp_graph *graph, const eitp_optimizer_config *config,
                                      const eitp__update_pieces *list, eitp_update *update, eitp_error *error) {
    eitp_tensor *inputs[4];
    eitp__node *commit;
    eitp_status status;
    int64_t two = 2, one = 1, three = 3;
    for (size_t i = 0; i < list->count && !update->key; i++) {
        if (eitp__is_rounded(list->pieces[i].parameter))
            update->key = eitp_input(graph, "rounding key", EITP_I64, 1, &three);
    }
    update->rate_and_step = eitp_input(graph, "learning rate and step", EITP_F32, 1, &two);
    update->max_norm = eitp_input(graph, "maximum gradient norm", EITP_F32, 1, &one);
    eitp__add_check(update->rate_and_step, eitp__check_hyper_values);
    eitp__add_check(update->max_norm, eitp__check_limit_value);
    status = eitp__set_rates(config, list, update->rate_and_step, error);
    if (status)
        return status;
    if (config->skips) {
        update->skip_norm = eitp_input(graph, "norm of skipped gradients", EITP_F32, 1, &one);
        eitp__add_check(update->skip_norm, eitp__check_limit_value);
    }
    inputs[0] = eitp__gradient_squares(list);
    inputs[1] = update->max_norm;
    inputs[2] = config->loss_scale;
    inputs[3] = update->skip_norm;
    commit = eitp__node_create(graph, EITP__OP_COMMIT, inputs, config->skips ? 4 : config->loss_scale ? 3 : 2, NULL);
    if (commit && config->loss_scale)
        eitp__add_check(config->loss_scale, eitp__check_scale_value);
    update->commit = commit ? eitp_output(commit->outputs[0]) : NULL;
    update->norm = commit ? eitp_output(commit->outputs[1]) : NULL;
    if (commit)
        update->norms = eitp_output(eitp_sqrt(eitp__add_updates(config, update, list)));
    return eitp_graph_status(graph, error);
}

/* Adds the whole step for `count` parameters and their gradients. */
static eitp_status eitp__update_step(eitp_graph *graph, const eitp_optimizer_config *config, size_t count,
                                     eitp_tensor *const *parameters, eitp_tensor *const *gradients, eitp_update *update,
                                     eitp_error *error) {
    eitp__update_pieces list = EITP__ZERO;
    eitp_status status = eitp__check_optimizer_config(config, error);
    if (!status && !count)
        status = eitp__fail(error, EITP_ERROR_ARGUMENT,
                            "no trained parameter to update: all are frozen, or borrowed from another context");
    graph->phase = EITP__PHASE_UPDATE;
    list.host = eitp__graph_host(graph);
    for (size_t i = 0; i < count && !status; i++)
        status = eitp__add_pieces(&list, config, parameters[i], gradients[i], error);
    if (!status)
        status = eitp__update_nodes(graph, config, &list, update, error);
    eitp__release(list.host, list.pieces, list.capacity * sizeof *list.pieces);
    return status;
}

/* Parameters and their gradients. */
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

static int eitp__compare_variables(const void *left, const void *right) {
    const eitp_tensor *a = *(eitp_tensor *const *)left, *b = *(eitp_tensor *const *)right;
    return a->variable < b->variable ? -1 : a->variable > b->variable;
}

eitp_status eitp_minimize(eitp_tensor *loss, const eitp_optimizer_config *config, eitp_update *update,
                          eitp_error *error) {
    eitp__pairs pairs;
    eitp_graph *graph;
    eitp_status status;
    if (!update || !config)
        return eitp__fail_null(error, "eitp_minimize", "config and update");
    memset(update, 0, sizeof *update);
    status = eitp__check_loss(loss, error);
    if (status)
        return status;
    graph = loss->graph;
    status = eitp__pairs_init(&pairs, eitp__graph_host(graph), graph->tensor_count, error);
    for (size_t i = 0; i < graph->tensor_count && !status; i++) {
        if (eitp__is_trained(graph->tensors[i]))
            pairs.parameters[pairs.count++] = graph->tensors[i];
    }
    /* The norm is summed in the order of the variables, as in eitp_apply_gradients. */
    if (!status)
        eitp__sort(pairs.parameters, pairs.count, sizeof *pairs.parameters, eitp__compare_variables);
    if (!status)
        status = eitp_gradients(loss, NULL, (int)pairs.count, pairs.parameters, pairs.gradients, error);
    if (!status)
        status = eitp__update_step(graph, config, pairs.count, pairs.parameters, pairs.gradients, update, error);
    eitp__pairs_release(&pairs);
    return status;
}

/* True if rows of the parameter's gradient were accumulated separately, for any number of ids. */
static int eitp__has_gradient_rows(const eitp_tensor *parameter) {
    const eitp__variable *variables = parameter->graph->context->variables;
    int64_t child = variables[parameter->variable].first_child;
    while (child >= 0 && strcmp(variables[child].info.kind, EITP__KIND_GRADIENT_ROWS) != 0)
        child = variables[child].next_sibling;
    return child >= 0;
}

/* Sums the terms of a parameter's gradient into the variable of the first. */
static eitp_tensor *eitp__sum_accumulated_terms(const eitp_tensor *parameter) {
    eitp_tensor *sum = NULL;
    for (int term = 0; term < EITP__GRADIENT_TERMS; term++) {
        eitp_tensor *variable = eitp__accumulated_term(parameter, term);
        if (!variable)
            break;
        sum = sum ? eitp_accumulate(sum, variable, NULL) : variable;
    }
    return sum;
}

/* The accumulated gradient of a parameter, including rows that were accumulated separately; NULL after an error. */
static eitp_tensor *eitp__accumulated_gradient(const eitp_tensor *parameter, eitp_tensor *unique) {
    eitp_tensor *sum = eitp__sum_accumulated_terms(parameter), *rows;
    if (!sum || !eitp__has_gradient_rows(parameter))
        return sum;
    rows = unique ? eitp__found_child_tensor(parameter, EITP__KIND_GRADIENT_ROWS, unique->shape[0]) : NULL;
    if (rows)
        return eitp_accumulate(sum, eitp__scatter_rows(unique, rows, parameter), NULL);
    eitp__graph_fail(parameter->graph, EITP_ERROR_ARGUMENT,
                     "the gradient of '%s' was accumulated through eitp_embedding_unique; set "
                     "eitp_optimizer_config.unique to an input with the same number of ids",
                     eitp__variable_name(parameter));
    return NULL;
}

eitp_status eitp_apply_gradients(eitp_graph *graph, const eitp_optimizer_config *config, eitp_update *update,
                                 eitp_error *error) {
    eitp_context *context = graph ? graph->context : NULL;
    size_t variables = eitp_variable_count(context);
    eitp__pairs pairs;
    eitp_status status;
    if (!graph || !config || !update)
        return eitp__fail_null(error, "eitp_apply_gradients", "graph, config and update");
    graph->phase = EITP__PHASE_UPDATE;
    status = eitp__pairs_init(&pairs, &context->host, variables, error);
    memset(update, 0, sizeof *update);
    for (size_t i = 0; i < variables && !status; i++) {
        eitp_variable parameter = eitp_variable_at(context, i);
        if (parameter.role != EITP_PARAMETER || !parameter.trained ||
            eitp__child_find(context, (int64_t)i, EITP__KIND_GRADIENT, 0) < 0)
            continue;
        pairs.parameters[pairs.count] = eitp_variable_tensor(graph, parameter.name, EITP_PARAMETER, parameter.dtype,
                                                             parameter.rank, parameter.shape);
        if (pairs.parameters[pairs.count])
            pairs.gradients[pairs.count] = eitp__accumulated_gradient(pairs.parameters[pairs.count], config->unique);
        pairs.count++;
        status = eitp_graph_status(graph, error);
    }
    if (!status)
        status = eitp__update_step(graph, config, pairs.count, pairs.parameters, pairs.gradients, update, error);
    eitp__pairs_release(&pairs);
    return status;
}
