/* Regularizers of a pass: rows by group, statistics of groups, penalties on parameters, and measures. */
#include "task/pass.h"
#include "tensor/op_rules.h"

eitp_term_schedule eitp_term_schedule_default(void) {
    eitp_term_schedule schedule = EITP__ZERO;
    schedule.weight = 1;
    schedule.every = schedule.start = 1;
    return schedule;
}

void eitp_pass_set_targets(eitp_pass *pass, eitp_tensor *targets, int32_t ignored) {
    if (!pass)
        return;
    pass->targets = targets;
    pass->ignored = ignored;
}

/* ---- Groups ---- */

int64_t eitp_pass_groups(const eitp_pass *pass) {
    return pass ? eitp__layout_groups(&pass->layout) : 0;
}

int64_t eitp_pass_group_rows(const eitp_pass *pass) {
    return pass ? pass->layout.joined * pass->layout.rows : 0;
}

/* Sets the rows of all groups. There are no integer additions; F64 holds the numbers exactly. */
static void eitp__pass_find_group_rows(eitp_pass *pass) {
    const int64_t groups = eitp_pass_groups(pass), rows = eitp_pass_group_rows(pass), all = groups * rows;
    eitp_tensor *bounds = eitp_cast(eitp__pass_group_bounds(pass), EITP_F64), *row, *is_used, *mask;
    int64_t shape[2] = {1, -1};
    if (pass->group_ids)
        return;
    row = eitp_add(eitp_slice(bounds, 1, 0, 1), eitp_reshape(eitp_arange(pass->graph, EITP_F64, rows), 2, shape));
    is_used = eitp_less(row, eitp_slice(bounds, 1, 1, 2));
    row = eitp_where(is_used, row, eitp__scalar_like(row, -1));
    pass->group_ids = eitp_reshape(eitp_cast(row, EITP_I32), 1, &all);
    shape[0] = groups;
    shape[1] = rows;
    mask = eitp_fill(pass->graph, EITP_F32, 2, shape, 1);
    pass->group_mask = eitp_where(is_used, mask, eitp__scalar_like(mask, 0));
}

eitp_tensor *eitp_pass_by_group(eitp_pass *pass, eitp_tensor *x) {
    int64_t shape[3];
    if (!pass || !x)
        return NULL;
    if (x->rank != 2 || !x->rows) {
        eitp__graph_fail(pass->graph, EITP_ERROR_ARGUMENT, "eitp_pass_by_group: expected a value for each row, [n, c]");
        return NULL;
    }
    eitp__pass_find_group_rows(pass);
    shape[0] = eitp_pass_groups(pass);
    shape[1] = eitp_pass_group_rows(pass);
    shape[2] = x->shape[1];
    return eitp_reshape(eitp_embedding(x, pass->group_ids), 3, shape);
}

eitp_tensor *eitp_pass_group_mask(eitp_pass *pass) {
    if (!pass)
        return NULL;
    eitp__pass_find_group_rows(pass);
    return pass->group_mask;
}

/* ---- Regularizers ---- */

static int eitp__check_schedule(eitp_pass *pass, const char *name, const eitp_term_schedule *schedule) {
    if (schedule->weight >= 0 && isfinite(schedule->weight) && schedule->every >= 1 && schedule->start >= 1 &&
        schedule->warmup >= 0)
        return 1;
    eitp__graph_fail(pass->graph, EITP_ERROR_ARGUMENT,
                     "'%.60s': expected a weight of 0 or more, every and start from 1, and a warm-up of 0 or more",
                     name ? name : "");
    return 0;
}

/* Adds a quantity of a regularizer; NULL after an error. */
static eitp__quantity *eitp__regularizer_add(eitp_pass *pass, const char *name, int is_term,
                                             const eitp_term_schedule *schedule) {
    const eitp_term_schedule usual = eitp_term_schedule_default();
    eitp__quantity *quantity;
    if (!pass || !eitp__check_schedule(pass, name, schedule ? schedule : &usual))
        return NULL;
    quantity = eitp__quantity_add(pass, name, is_term);
    if (!quantity)
        return NULL;
    quantity->is_regularizer = 1;
    quantity->timing = schedule ? *schedule : usual;
    return quantity;
}

/* Finds the kind of values of groups or samples; 0 after an error. */
static int eitp__find_group_kind(eitp_pass *pass, const char *name, const eitp_tensor *values,
                                 eitp__quantity_kind *kind) {
    const int is_vector = !values->rows && values->rank == 1;
    *kind = EITP__PER_GROUP;
    if (is_vector && values->shape[0] == eitp_pass_groups(pass))
        return 1;
    *kind = EITP__PER_SAMPLE;
    if (is_vector && values->shape[0] == eitp__layout_places(&pass->layout))
        return 1;
    eitp__graph_fail(pass->graph, EITP_ERROR_ARGUMENT, "'%.60s': expected a value for each of the %lld groups",
                     name ? name : "", (long long)eitp_pass_groups(pass));
    return 0;
}

/* Adds values of groups or samples; NULL after an error. Evaluations have groups of samples alone: their passes have
   other micro-batches than those of training. */
static eitp__quantity *eitp__group_value_add(eitp_pass *pass, const char *name, eitp_tensor *values, int is_term,
                                             const eitp_term_schedule *schedule) {
    eitp__quantity_kind kind;
    eitp__quantity *quantity;
    if (!pass || !values || (!pass->trains && pass->layout.joined > 1))
        return NULL;
    if (!eitp__find_group_kind(pass, name, values, &kind))
        return NULL;
    quantity = eitp__regularizer_add(pass, name, is_term, schedule);
    return quantity && eitp__quantity_set_values(pass, quantity, values, kind) ? quantity : NULL;
}

void eitp_pass_statistic(eitp_pass *pass, const char *name, eitp_tensor *values, const eitp_term_schedule *schedule) {
    const int64_t one = 1;
    eitp__quantity *term = eitp__group_value_add(pass, name, values, eitp_pass_is_training(pass), schedule);
    eitp_tensor *sum;
    if (!term || !pass->trains)
        return;
    term->weight = eitp_input(pass->graph, name, EITP_F32, 1, &one);
    sum = eitp_multiply(eitp_sum(term->values, EITP_ALL_DIMENSIONS, 0), term->weight);
    pass->regularizers = pass->regularizers ? eitp_add(pass->regularizers, sum) : sum;
}

/* Adds a value of parameters. */
static void eitp__parameter_value_add(eitp_pass *pass, const char *name, int is_term, eitp__parameter_function *build,
                                      void *user, const eitp_term_schedule *schedule) {
    eitp__quantity *quantity;
    if (!pass || !pass->trains)
        return;
    if (!build) {
        eitp__graph_fail(pass->graph, EITP_ERROR_ARGUMENT, "'%.60s': build must not be NULL", name ? name : "");
        return;
    }
    quantity = eitp__regularizer_add(pass, name, is_term, schedule);
    if (!quantity)
        return;
    quantity->kind = EITP__PENALTY;
    quantity->build = build;
    quantity->user = user;
}

void eitp_pass_penalty(eitp_pass *pass, const char *name, eitp_tensor *(*build)(void *user, eitp_graph *graph),
                       void *user, const eitp_term_schedule *schedule) {
    eitp__parameter_value_add(pass, name, 1, build, user, schedule);
}

void eitp_pass_parameter_measure(eitp_pass *pass, const char *name,
                                 eitp_tensor *(*build)(void *user, eitp_graph *graph), void *user) {
    eitp__parameter_value_add(pass, name, 0, build, user, NULL);
}

void eitp_pass_measure(eitp_pass *pass, const char *name, eitp_tensor *values, eitp_metric_direction direction) {
    eitp__quantity *measure = eitp__group_value_add(pass, name, values, 0, NULL);
    if (!measure)
        return;
    measure->direction = direction;
    if (!eitp__is_direction(direction))
        eitp__graph_fail(pass->graph, EITP_ERROR_ARGUMENT, "measure '%s': unknown direction %d", name, (int)direction);
}
