/* Regularizers of a pass: rows by group, statistics of groups, penalties on parameters, and metrics. */
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

/* Finds the rows of groups with these bounds. Integer tensors cannot be added, so the row numbers are F64, which is
   exact. */
static void eitp__row_groups_find(eitp__row_groups *found, eitp_pass *pass, eitp_tensor *bounds, int64_t groups,
                                  int64_t rows) {
    const int64_t all = groups * rows;
    eitp_tensor *row, *is_used, *mask;
    int64_t shape[2] = {1, -1};
    bounds = eitp_cast(bounds, EITP_F64);
    row = eitp_add(eitp_slice(bounds, 1, 0, 1), eitp_reshape(eitp_arange(pass->graph, EITP_F64, rows), 2, shape));
    is_used = eitp_less(row, eitp_slice(bounds, 1, 1, 2));
    row = eitp_where(is_used, row, eitp__scalar_like(row, -1));
    found->ids = eitp_reshape(eitp_cast(row, EITP_I32), 1, &all);
    shape[0] = groups;
    shape[1] = rows;
    mask = eitp_fill(pass->graph, EITP_F32, 2, shape, 1);
    found->mask = eitp_where(is_used, mask, eitp__scalar_like(mask, 0));
}

static const eitp__row_groups *eitp__pass_find_groups(eitp_pass *pass) {
    if (!pass->by_group.ids)
        eitp__row_groups_find(&pass->by_group, pass, eitp__pass_group_bounds(pass), eitp_pass_groups(pass),
                              eitp_pass_group_rows(pass));
    return &pass->by_group;
}

static const eitp__row_groups *eitp__pass_find_samples(eitp_pass *pass) {
    if (pass->layout.joined == 1)
        return eitp__pass_find_groups(pass);
    if (!pass->by_sample.ids)
        eitp__row_groups_find(&pass->by_sample, pass, eitp_pass_bounds(pass), eitp__layout_indices(&pass->layout),
                              pass->layout.rows);
    return &pass->by_sample;
}

/* Checks the rows to be grouped. Returns 0 after an error. */
static int eitp__pass_check_rows(eitp_pass *pass, const eitp_tensor *x, const char *function) {
    if (!pass || !x)
        return 0;
    if (x->rank != 2 || !x->rows)
        eitp__graph_fail(pass->graph, EITP_ERROR_ARGUMENT, "%s: expected one vector per row, [n, c]", function);
    return x->rank == 2 && x->rows;
}

/* Returns x by group, [groups, rows, c]. */
static eitp_tensor *eitp__row_groups_take(const eitp__row_groups *found, eitp_tensor *x) {
    int64_t shape[3];
    if (!found->mask)
        return NULL;
    shape[0] = found->mask->shape[0];
    shape[1] = found->mask->shape[1];
    shape[2] = x->shape[1];
    return eitp_reshape(eitp_embedding(x, found->ids), 3, shape);
}

eitp_tensor *eitp_pass_by_group(eitp_pass *pass, eitp_tensor *x) {
    return eitp__pass_check_rows(pass, x, "eitp_pass_by_group") ? eitp__row_groups_take(eitp__pass_find_groups(pass), x)
                                                                : NULL;
}

eitp_tensor *eitp_pass_group_mask(eitp_pass *pass) {
    return pass ? eitp__pass_find_groups(pass)->mask : NULL;
}

EITP__PRIVATE eitp_tensor *eitp__pass_by_sample(eitp_pass *pass, eitp_tensor *x) {
    return eitp__pass_check_rows(pass, x, "eitp__pass_by_sample")
               ? eitp__row_groups_take(eitp__pass_find_samples(pass), x)
               : NULL;
}

EITP__PRIVATE eitp_tensor *eitp__pass_sample_mask(eitp_pass *pass) {
    return pass ? eitp__pass_find_samples(pass)->mask : NULL;
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

/* Adds a scalar of a regularizer. Returns NULL after an error. */
static eitp__scalar *eitp__regularizer_add(eitp_pass *pass, const char *name, int is_term,
                                           const eitp_term_schedule *schedule) {
    const eitp_term_schedule usual = eitp_term_schedule_default();
    eitp__scalar *scalar;
    if (!pass || !eitp__check_schedule(pass, name, schedule ? schedule : &usual))
        return NULL;
    scalar = eitp__scalar_add(pass, name, is_term);
    if (!scalar)
        return NULL;
    scalar->is_regularizer = 1;
    scalar->timing = schedule ? *schedule : usual;
    return scalar;
}

/* Finds the kind of values of groups or samples. Returns 0 after an error. */
static int eitp__find_group_kind(eitp_pass *pass, const char *name, const eitp_tensor *values,
                                 eitp__scalar_kind *kind) {
    const int is_vector = !values->rows && values->rank == 1;
    *kind = EITP__PER_GROUP;
    if (is_vector && values->shape[0] == eitp_pass_groups(pass))
        return 1;
    *kind = EITP__PER_SAMPLE;
    if (is_vector && values->shape[0] == eitp__layout_indices(&pass->layout))
        return 1;
    eitp__graph_fail(pass->graph, EITP_ERROR_ARGUMENT, "'%.60s': expected a value for each of the %lld groups",
                     name ? name : "", (long long)eitp_pass_groups(pass));
    return 0;
}

/* Adds values of groups or samples. Returns NULL after an error. Evaluations leave them out unless groups are single
   samples, since their passes have other micro-batches than training. */
static eitp__scalar *eitp__group_value_add(eitp_pass *pass, const char *name, eitp_tensor *values, int is_term,
                                           const eitp_term_schedule *schedule) {
    eitp__scalar_kind kind;
    eitp__scalar *scalar;
    if (!pass || !values || (!pass->trains && pass->layout.joined > 1))
        return NULL;
    if (!eitp__find_group_kind(pass, name, values, &kind))
        return NULL;
    scalar = eitp__regularizer_add(pass, name, is_term, schedule);
    return scalar && eitp__scalar_set_values(pass, scalar, values, kind) ? scalar : NULL;
}

void eitp_pass_statistic(eitp_pass *pass, const char *name, eitp_tensor *values, const eitp_term_schedule *schedule) {
    const int64_t one = 1;
    eitp__scalar *term = eitp__group_value_add(pass, name, values, eitp_pass_is_training(pass), schedule);
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
    eitp__scalar *scalar;
    if (!pass || !pass->trains)
        return;
    if (!build) {
        eitp__graph_fail(pass->graph, EITP_ERROR_ARGUMENT, "'%.60s': build must not be NULL", name ? name : "");
        return;
    }
    scalar = eitp__regularizer_add(pass, name, is_term, schedule);
    if (!scalar)
        return;
    scalar->kind = EITP__PENALTY;
    scalar->build = build;
    scalar->user = user;
}

void eitp_pass_penalty(eitp_pass *pass, const char *name, eitp_tensor *(*build)(void *user, eitp_graph *graph),
                       void *user, const eitp_term_schedule *schedule) {
    eitp__parameter_value_add(pass, name, 1, build, user, schedule);
}

void eitp_pass_parameter_metric(eitp_pass *pass, const char *name, eitp_tensor *(*build)(void *user, eitp_graph *graph),
                                void *user) {
    eitp__parameter_value_add(pass, name, 0, build, user, NULL);
}

void eitp_pass_step_metric(eitp_pass *pass, const char *name, eitp_tensor *values, eitp_metric_direction direction) {
    eitp__scalar *metric = eitp__group_value_add(pass, name, values, 0, NULL);
    if (!metric)
        return;
    metric->direction = direction;
    if (!eitp__is_direction(direction))
        eitp__graph_fail(pass->graph, EITP_ERROR_ARGUMENT, "metric '%s': unknown direction %d", name, (int)direction);
}
