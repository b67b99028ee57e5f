/* An optimizer step as nodes of a graph: norm of the whole gradient, commit, updates of parameters in pieces. */
#include "optim/minimize.h"
#include "optim/optim_settings.h"
#include "optim/optimizers.h"
#include "base/sort.h"
#include "tensor/autograd.h"
#include "tensor/context.h"

eitp_optimizer_config eitp_optimizer_config_default(void) {
    static const eitp_setting settings[] = {EITP__OPTIMIZER_SETTINGS(eitp_optimizer_config, )};
    eitp_optimizer_config config = EITP__ZERO;
    eitp__settings_reset(settings, EITP__COUNT(settings), &config);
    config.piece_bytes = EITP_PIECE_BYTES;
    return config;
}

/* Returns the rows of a parameter in a piece. Pieces end at the end of a block of sums, so that norms are
   bit-identical. */
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

/* A parameter and its gradient. */
typedef struct eitp__gradient_of {
    eitp_tensor *parameter, *gradient;
    eitp_tensor *regularizer; /* accumulated gradient of the regularizers whose norm is capped; NULL: none */
    eitp_tensor *penalty;     /* gradient of config.penalty; NULL: none */
    int update;               /* index of the parameter's update */
} eitp__gradient_of;

/* Returns a + b, in the memory of a if it is a variable. */
static eitp_tensor *eitp__gradient_plus(eitp_tensor *a, eitp_tensor *b) {
    if (!a || !b)
        return a ? a : b;
    return a->storage->leaf == EITP__VARIABLE ? eitp_accumulate(a, b, NULL) : eitp__add_unfused(a, b);
}

/* Sets the gradient of a piece. If there is a cap, the penalty's gradient is part of the capped gradient. */
static void eitp__set_piece_gradient(eitp__update_piece *piece, const eitp__gradient_of *of, int64_t rows,
                                     int is_capped) {
    const int is_whole = piece->begin == 0 && piece->end == rows;
    eitp_tensor *penalty = is_whole ? of->penalty : eitp__rows(of->penalty, piece->begin, piece->end);
    eitp_tensor *regularizer = is_whole ? of->regularizer : eitp__rows(of->regularizer, piece->begin, piece->end);
    piece->gradient = is_whole ? of->gradient : eitp__rows(of->gradient, piece->begin, piece->end);
    if (is_capped)
        piece->regularizer = eitp__gradient_plus(regularizer, penalty);
    else
        piece->gradient = eitp__gradient_plus(piece->gradient, penalty);
}

static eitp_status eitp__add_pieces(eitp__update_pieces *list, const eitp_optimizer_config *config,
                                    const eitp__gradient_of *of, eitp_error *error) {
    eitp_tensor *parameter = of->parameter;
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
        eitp__set_piece_gradient(piece, of, rows, config->regularizer_cap > 0);
    }
    return EITP_OK;
}

/* True if the piece is the last of its parameter. */
static int eitp__is_last_piece(const eitp__update_pieces *list, size_t i) {
    return i + 1 == list->count || list->pieces[i + 1].parameter != list->pieces[i].parameter;
}

/* Returns the sum of squares of all gradients, summed for each parameter first. */
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

/* ---- The cap of the regularizers' gradient ---- */

/* Returns the norm of the task's gradient or of the regularizers', F64 [1]. NULL if there is no such gradient. */
static eitp_tensor *eitp__part_norm(const eitp__update_pieces *list, int is_regularizer) {
    eitp_tensor *sum = NULL, *blocks = NULL;
    for (size_t i = 0; i < list->count; i++) {
        const eitp__update_piece *piece = &list->pieces[i];
        eitp_tensor *part = is_regularizer ? piece->regularizer : piece->gradient;
        if (part)
            blocks = eitp__append_blocks(blocks, eitp__apply(EITP__OP_SUM_SQUARES, &part, 1, NULL));
        if (!eitp__is_last_piece(list, i) || !blocks)
            continue;
        eitp__add_gradient(&sum, eitp_sum(blocks, EITP_ALL_DIMENSIONS, 0));
        blocks = NULL;
    }
    return eitp_sqrt(sum);
}

/* Scales the regularizers' gradient down to the cap, and adds it to the task's gradient. */
static void eitp__cap_regularizers(const eitp_optimizer_config *config, eitp__update_pieces *list,
                                   eitp_update *update) {
    eitp_tensor *parts[3], *scale, *least;
    parts[0] = eitp__part_norm(list, 0);
    parts[1] = eitp__part_norm(list, 1);
    if (!parts[0] || !parts[1])
        return;
    least = eitp__scalar_like(parts[1], 1e-300); /* with a norm of 0 the factor is 1 or 0, not 0 / 0 */
    parts[2] = eitp_divide(eitp_affine(parts[0], config->regularizer_cap, 0), eitp_maximum(parts[1], least));
    parts[2] = eitp_minimum(parts[2], eitp__scalar_like(parts[2], 1));
    scale = eitp_cast(parts[2], EITP_F32);
    for (size_t i = 0; i < list->count; i++) {
        eitp__update_piece *piece = &list->pieces[i];
        if (piece->regularizer)
            piece->gradient = eitp__gradient_plus(piece->gradient, eitp_multiply(piece->regularizer, scale));
    }
    update->regularizers = eitp_output(eitp_concat(parts, 3, 0));
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

/* Returns [rate, step] with the rate multiplied by `factor`. */
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
static eitp_status eitp__update_nodes(eitp_graph *graph, const eitp_optimizer_config *config, eitp__update_pieces *list,
                                      eitp_update *update, eitp_error *error) {
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
    if (config->regularizer_cap > 0)
        eitp__cap_regularizers(config, list, update);
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

/* Parameters and their gradients. `parameters` and `found` are for eitp_gradients. */
typedef struct eitp__gradient_list {
    const eitp_host *host;
    eitp__gradient_of *of;
    eitp_tensor **parameters, **found;
    size_t count, capacity;
} eitp__gradient_list;

static eitp_status eitp__gradient_list_init(eitp__gradient_list *list, const eitp_host *host, size_t capacity,
                                            eitp_error *error) {
    memset(list, 0, sizeof *list);
    list->host = host;
    list->capacity = capacity;
    list->of = (eitp__gradient_of *)eitp__allocate(host, capacity * sizeof *list->of);
    list->parameters = (eitp_tensor **)eitp__allocate(host, capacity * sizeof *list->parameters);
    list->found = (eitp_tensor **)eitp__allocate(host, capacity * sizeof *list->found);
    if (capacity && (!list->of || !list->parameters || !list->found))
        return eitp__fail_memory(error, capacity * (sizeof *list->of + 2 * sizeof *list->found),
                                 "the list of parameters");
    return EITP_OK;
}

static void eitp__gradient_list_release(eitp__gradient_list *list) {
    eitp__release(list->host, list->of, list->capacity * sizeof *list->of);
    eitp__release(list->host, list->parameters, list->capacity * sizeof *list->parameters);
    eitp__release(list->host, list->found, list->capacity * sizeof *list->found);
}

/* Sets the gradients of a penalty with respect to all parameters of the list. */
static eitp_status eitp__find_penalty_gradients(eitp__gradient_list *list, eitp_tensor *penalty, eitp_error *error) {
    eitp_status status;
    if (!penalty || !list->count)
        return EITP_OK;
    for (size_t i = 0; i < list->count; i++)
        list->parameters[i] = list->of[i].parameter;
    status = eitp__check_loss(penalty, error);
    if (!status)
        status = eitp__gradients_or_null(penalty, NULL, (int)list->count, list->parameters, list->found, error);
    for (size_t i = 0; i < list->count && !status; i++)
        list->of[i].penalty = list->found[i];
    return status;
}

/* Marks nodes created from now on as part of the update. */
static void eitp__begin_update(eitp_graph *graph) {
    graph->origin.phase = EITP__PHASE_UPDATE;
    graph->origin.component = EITP_COMPONENT_OPTIMIZER;
}

/* Adds one of the updates, for its parameters in the list. */
static eitp_status eitp__update_step(eitp_graph *graph, const eitp__gradient_list *gradients, int index,
                                     const eitp_optimizer_config *config, eitp_update *update, eitp_error *error) {
    eitp__update_pieces list = EITP__ZERO;
    eitp_status status = eitp__check_optimizer_config(config, error);
    eitp__begin_update(graph);
    list.host = eitp__graph_host(graph);
    for (size_t i = 0; i < gradients->count && !status; i++) {
        if (gradients->of[i].update == index)
            status = eitp__add_pieces(&list, config, &gradients->of[i], error);
    }
    if (!status && !list.count)
        status = eitp__fail(error, EITP_ERROR_ARGUMENT,
                            "no trained parameter to update: all are frozen, or borrowed from another context");
    if (!status)
        status = eitp__update_nodes(graph, config, &list, update, error);
    eitp__release(list.host, list.pieces, list.capacity * sizeof *list.pieces);
    return status;
}

/* Adds all updates, after the gradients of the penalty. */
static eitp_status eitp__update_steps(eitp_graph *graph, eitp__gradient_list *list, const eitp__updates *updates,
                                      eitp_error *error) {
    eitp_status status = eitp__find_penalty_gradients(list, updates->configs[0].penalty, error);
    for (int i = 0; i < updates->count && !status; i++)
        status = eitp__update_step(graph, list, i, &updates->configs[i], &updates->updates[i], error);
    return status;
}

/* Returns the index of a parameter's update. */
static int eitp__update_of(const eitp__updates *updates, const eitp_tensor *parameter) {
    return updates->choose ? updates->choose(updates->user, eitp__variable_name(parameter)) : 0;
}

static eitp__updates eitp__one_update(const eitp_optimizer_config *config, eitp_update *update) {
    eitp__updates updates = EITP__ZERO;
    updates.count = 1;
    updates.configs = config;
    updates.updates = update;
    return updates;
}

static int eitp__compare_variables(const void *left, const void *right) {
    const eitp_tensor *a = *(eitp_tensor *const *)left, *b = *(eitp_tensor *const *)right;
    return a->variable < b->variable ? -1 : a->variable > b->variable;
}

eitp_status eitp_minimize(eitp_tensor *loss, const eitp_optimizer_config *config, eitp_update *update,
                          eitp_error *error) {
    eitp__updates updates;
    if (!update || !config)
        return eitp__fail_null(error, "eitp_minimize", "config and update");
    updates = eitp__one_update(config, update);
    return eitp__minimize(loss, &updates, error);
}

EITP__PRIVATE eitp_status eitp__minimize(eitp_tensor *loss, const eitp__updates *updates, eitp_error *error) {
    eitp__gradient_list list;
    eitp_graph *graph;
    eitp_status status;
    memset(updates->updates, 0, (size_t)updates->count * sizeof *updates->updates);
    status = eitp__check_loss(loss, error);
    if (!status && updates->configs[0].regularizer_cap > 0)
        status = eitp__fail(error, EITP_ERROR_ARGUMENT,
                            "optimizer: regularizer_cap needs accumulated gradients: see eitp_apply_gradients");
    if (status)
        return status;
    graph = loss->graph;
    status = eitp__gradient_list_init(&list, eitp__graph_host(graph), graph->tensor_count, error);
    for (size_t i = 0; i < graph->tensor_count && !status; i++) {
        if (eitp__is_trained(graph->tensors[i]))
            list.parameters[list.count++] = graph->tensors[i];
    }
    /* The norm is summed in the order of the variables, as in eitp_apply_gradients. */
    if (!status)
        eitp__sort(list.parameters, list.count, sizeof *list.parameters, eitp__compare_variables);
    if (!status)
        status = eitp_gradients(loss, NULL, (int)list.count, list.parameters, list.found, error);
    for (size_t i = 0; i < list.count && !status; i++) {
        list.of[i].parameter = list.parameters[i];
        list.of[i].gradient = list.found[i];
        list.of[i].update = eitp__update_of(updates, list.parameters[i]);
    }
    if (!status)
        status = eitp__update_steps(graph, &list, updates, error);
    eitp__gradient_list_release(&list);
    return status;
}

/* True if rows of the parameter's gradient were accumulated separately, for any number of ids. */
static int eitp__has_gradient_rows(const eitp_tensor *parameter, eitp__gradient_set set) {
    const eitp__variable *variables = parameter->graph->context->variables;
    int64_t child = variables[parameter->variable].first_child;
    while (child >= 0 && strcmp(variables[child].info.kind, eitp__gradient_kind(set, EITP__GRADIENT_LOOKUPS)) != 0)
        child = variables[child].next_sibling;
    return child >= 0;
}

/* Sums the terms of a parameter's gradient into the variable of the first. */
static eitp_tensor *eitp__sum_accumulated_terms(const eitp_tensor *parameter, eitp__gradient_set set) {
    eitp_tensor *sum = NULL;
    for (int term = 0; term < EITP__GRADIENT_TERMS; term++) {
        eitp_tensor *variable = eitp__accumulated_term(parameter, set, term);
        if (!variable)
            break;
        sum = sum ? eitp_accumulate(sum, variable, NULL) : variable;
    }
    return sum;
}

/* Returns the accumulated gradient of a parameter, including rows that were accumulated separately. NULL if there is
   none, and after an error. */
static eitp_tensor *eitp__accumulated_gradient(const eitp_tensor *parameter, eitp__gradient_set set,
                                               eitp_tensor *unique) {
    eitp_tensor *sum = eitp__sum_accumulated_terms(parameter, set), *rows;
    const char *kind = eitp__gradient_kind(set, EITP__GRADIENT_LOOKUPS);
    if (!sum || !eitp__has_gradient_rows(parameter, set))
        return sum;
    rows = unique ? eitp__found_child_tensor(parameter, kind, unique->shape[0]) : NULL;
    if (rows)
        return eitp_accumulate(sum, eitp__scatter_rows(unique, rows, parameter), NULL);
    eitp__graph_fail(parameter->graph, EITP_ERROR_ARGUMENT,
                     "the gradient of '%s' was accumulated through eitp_embedding_unique; set "
                     "eitp_optimizer_config.unique to an input with the same number of ids",
                     eitp__variable_name(parameter));
    return NULL;
}

/* Adds the regularizers' separately accumulated gradient: to the gradient to cap, or else to the task's gradient. */
static void eitp__gradient_of_regularizers(eitp__gradient_of *of, const eitp__updates *updates) {
    eitp_tensor *apart;
    if (!of->parameter || !(updates->configs[0].regularizer_cap > 0))
        return;
    apart = eitp__accumulated_gradient(of->parameter, EITP__REGULARIZER_GRADIENT, updates->configs[0].unique);
    if (updates->configs[of->update].regularizer_cap > 0)
        of->regularizer = apart;
    else
        of->gradient = eitp__gradient_plus(of->gradient, apart);
}

/* Adds a parameter of the context, if it is trained and has an accumulated gradient. */
static eitp_status eitp__gradient_list_add(eitp__gradient_list *list, eitp_graph *graph, size_t index,
                                           const eitp__updates *updates, eitp_error *error) {
    const eitp_variable parameter = eitp_variable_at(graph->context, index);
    eitp__gradient_of *of = &list->of[list->count];
    if (parameter.role != EITP_PARAMETER || !parameter.trained ||
        eitp__child_find(graph->context, (int64_t)index, EITP__KIND_GRADIENT, 0) < 0)
        return EITP_OK;
    list->count++;
    of->parameter =
        eitp_variable_tensor(graph, parameter.name, EITP_PARAMETER, parameter.dtype, parameter.rank, parameter.shape);
    if (of->parameter) {
        of->update = eitp__update_of(updates, of->parameter);
        of->gradient = eitp__accumulated_gradient(of->parameter, EITP__TASK_GRADIENT, updates->configs[0].unique);
    }
    eitp__gradient_of_regularizers(of, updates);
    return eitp_graph_status(graph, error);
}

eitp_status eitp_apply_gradients(eitp_graph *graph, const eitp_optimizer_config *config, eitp_update *update,
                                 eitp_error *error) {
    eitp__updates updates;
    if (!graph || !config || !update)
        return eitp__fail_null(error, "eitp_apply_gradients", "graph, config and update");
    updates = eitp__one_update(config, update);
    return eitp__apply_gradients(graph, &updates, error);
}

EITP__PRIVATE eitp_status eitp__apply_gradients(eitp_graph *graph, const eitp__updates *updates, eitp_error *error) {
    eitp_context *context = graph->context;
    const size_t variables = eitp_variable_count(context);
    eitp__gradient_list list;
    eitp_status status = eitp__gradient_list_init(&list, &context->host, variables, error);
    memset(updates->updates, 0, (size_t)updates->count * sizeof *updates->updates);
    eitp__begin_update(graph);
    for (size_t i = 0; i < variables && !status; i++)
        status = eitp__gradient_list_add(&list, graph, i, updates, error);
    if (!status)
        status = eitp__update_steps(graph, &list, updates, error);
    eitp__gradient_list_release(&list);
    return status;
}
