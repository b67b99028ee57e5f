/* Measures one workload: creates its variables and plans, and executes them. */
#include "bench/workload.h"

#include "output.h"
#include "process.h"

enum { FILL_BYTES = 1 << 20 /* bytes written at a time */, MAX_EXECUTIONS = 100000 };

/* Totals of the op in one execution of a plan. */
typedef struct op_totals {
    const char *op;
    const eitp_limits *limits;
    int steps;
    double seconds, flops, bytes, limit;
} op_totals;

static void add_step(void *user, const eitp_profile *profile) {
    op_totals *totals = (op_totals *)user;
    if (strcmp(profile->op, totals->op))
        return;
    totals->steps++;
    totals->seconds += profile->seconds;
    totals->flops += profile->flops;
    totals->bytes += profile->bytes_read + profile->bytes_written;
    totals->limit += bench_limit(totals->limits, profile);
}

/* ---- Variables ---- */

/* Fills with numbers of both signs and of magnitude 0.03 to 0.06 in any floating-point dtype. */
static void fill_random(eitp_dtype dtype, void *data, size_t size) {
    static const uint32_t exponents[] = {0x3d000000u, 0, 0x3d00u, 0x2800u}, masks[] = {0x7fffffu, 0, 0x7fu, 0x3ffu};
    size_t element = eitp_dtype_size(dtype);
    uint32_t state = 1;
    for (size_t i = 0; i < size / element; i++) {
        uint32_t value;
        state = state * 1664525u + 1013904223u;
        value = exponents[dtype] | (state >> 8 & masks[dtype]) | (state >> 31) << (8 * element - 1);
        if (element == 4) {
            ((uint32_t *)data)[i] = value;
        } else {
            ((uint16_t *)data)[i] = (uint16_t)value;
        }
    }
}

static eitp_status fill_variable(eitp_context *context, const char *name, eitp_error *error) {
    eitp_variable variable = eitp_variable_at(context, (size_t)eitp_variable_find(context, name));
    char *values = (char *)command_allocate(FILL_BYTES);
    eitp_status status = EITP_OK;
    fill_random(variable.dtype, values, FILL_BYTES);
    for (size_t at = 0; at < variable.size && !status; at += FILL_BYTES) {
        size_t size = variable.size - at;
        if (size > FILL_BYTES)
            size = FILL_BYTES;
        status = eitp_variable_write(context, name, at, values, size, error);
    }
    free(values);
    return status;
}

static void variable_name(char *name, size_t size, const char *what, int copy, int64_t m, int64_t n) {
    snprintf(name, size, "%s %lldx%lld %d", what, (long long)m, (long long)n, copy);
}

eitp_tensor *workload_variable(kernel_bench *k, int graph, const char *what, int copy, eitp_dtype dtype, int64_t m,
                               int64_t n) {
    char name[80];
    int64_t shape[2];
    shape[0] = m;
    shape[1] = n;
    variable_name(name, sizeof name, what, copy, m, n);
    return eitp_variable_tensor(k->graphs[graph], name, EITP_CACHE, dtype, n ? 2 : 1, shape);
}

eitp_status workload_write_integers(kernel_bench *k, const char *what, int64_t n, int64_t step, int64_t limit,
                                    eitp_error *error) {
    char name[80];
    int32_t *values = (int32_t *)command_allocate((size_t)n * sizeof *values);
    eitp_status status;
    for (int64_t i = 0; i < n; i++)
        values[i] = (int32_t)(i * step % limit);
    variable_name(name, sizeof name, what, 0, n, 0);
    status = eitp_variable_write(k->context, name, 0, values, (size_t)n * sizeof *values, error);
    free(values);
    return status;
}

/* Fills the floating-point variables from the first-th on. */
static eitp_status fill_variables(kernel_bench *k, size_t first, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (size_t i = first; i < eitp_variable_count(k->context) && !status; i++) {
        eitp_variable variable = eitp_variable_at(k->context, i);
        if (variable.role != EITP_OPTIMIZER &&
            (variable.dtype == EITP_F32 || variable.dtype == EITP_BF16 || variable.dtype == EITP_F16))
            status = fill_variable(k->context, variable.name, error);
    }
    return status;
}

/* ---- Measuring ---- */

/* The inputs of an update: learning rate 0, step 1, no limit of the norm. */
static eitp_status write_update(const kernel_bench *k, eitp_plan *plan, eitp_error *error) {
    static const float hyper[2] = {0, 1}, limit = 0;
    eitp_status status = EITP_OK;
    if (k->update.rate_and_step)
        status = eitp_plan_write(plan, k->update.rate_and_step, hyper, sizeof hyper, error);
    if (!status && k->update.max_norm)
        status = eitp_plan_write(plan, k->update.max_norm, &limit, sizeof limit, error);
    return status;
}

static eitp_status time_executions(kernel_bench *k, const char *op, double *seconds, size_t *count, op_totals *totals,
                                   eitp_error *error) {
    double began = process_time(), minimum = options_number(&k->b->options, OPTION_SECONDS);
    eitp_profiler profiler;
    eitp_status status = EITP_OK;
    profiler.user = totals;
    profiler.step = add_step;
    eitp_context_profile(k->context, &profiler);
    for (*count = 0; !status && *count < MAX_EXECUTIONS && (*count < 3 || process_time() - began < minimum); ++*count) {
        eitp_plan *plan = k->plans[*count % (size_t)k->count];
        memset(totals, 0, sizeof *totals);
        totals->op = op;
        totals->limits = &k->b->limits;
        status = write_update(k, plan, error);
        if (!status)
            status = eitp_plan_execute(plan, error);
        seconds[*count] = totals->seconds;
    }
    eitp_context_profile(k->context, NULL);
    return status;
}

static eitp_status measure(kernel_bench *k, const workload *w, eitp_error *error) {
    double *seconds = (double *)command_allocate(MAX_EXECUTIONS * sizeof *seconds);
    bench_line line;
    op_totals totals;
    const char *op = w->op_16 && eitp_dtype_size(k->b->dtype) == 2 ? w->op_16 : w->op;
    size_t count;
    eitp_status status = time_executions(k, op, seconds, &count, &totals, error);
    if (!status && !totals.steps)
        status = command_fail(error, EITP_ERROR_UNSUPPORTED, "no kernel for %s on this device", op);
    if (!status) {
        memset(&line, 0, sizeof line);
        snprintf(line.name, sizeof line.name, "%s", w->name);
        line.median = bench_median(seconds, count);
        line.seconds = seconds[0]; /* bench_median has sorted them */
        line.flops = totals.flops;
        line.bytes = totals.bytes;
        line.limit = totals.limit;
        bench_add(k->b, &line);
    }
    free(seconds);
    return status;
}

static void release_plans(kernel_bench *k) {
    for (int i = 0; i < k->count; i++) {
        eitp_plan_destroy(k->plans[i]);
        eitp_graph_destroy(k->graphs[i]);
    }
    free(k->plans);
    free(k->graphs);
    k->plans = NULL;
    k->graphs = NULL;
    k->count = 0;
    memset(&k->update, 0, sizeof k->update);
}

static eitp_status create_plans(kernel_bench *k, const workload *w, int copies, eitp_error *error) {
    eitp_status status = EITP_OK;
    k->graphs = (eitp_graph **)command_allocate((size_t)copies * sizeof *k->graphs);
    k->plans = (eitp_plan **)command_allocate((size_t)copies * sizeof *k->plans);
    k->count = copies;
    for (int i = 0; i < copies && !status; i++) {
        status = eitp_graph_create(k->context, &k->graphs[i], error);
        if (status)
            break;
        w->build(k, i, w);
        status = eitp_plan_create(k->graphs[i], &k->plans[i], error);
    }
    return status;
}

/* Creates a context like the bench's, without logging the device again. */
static eitp_status create_context(kernel_bench *k, eitp_error *error) {
    eitp_context_config config = eitp_context_config_default();
    config.host = eitp_context_host(k->b->context);
    config.host.log.write = NULL;
    config.device = options_text(&k->b->options, OPTION_DEVICE);
    config.threads = (int)options_integer(&k->b->options, OPTION_THREADS);
    return eitp_context_create(&config, &k->context, error);
}

int workload_is_selected(const bench *b, const char *name) {
    const char *filter = options_text(&b->options, OPTION_FILTER);
    return !filter || strstr(name, filter);
}

eitp_status workload_measure(kernel_bench *k, const workload *w, int copies, eitp_error *error) {
    size_t first = 0;
    eitp_status status = EITP_OK;
    if (!workload_is_selected(k->b, w->name))
        return EITP_OK;
    status = bench_measure(k->b, error);
    if (!status && !k->context)
        status = create_context(k, error);
    if (status)
        return status;
    first = eitp_variable_count(k->context);
    status = create_plans(k, w, copies, error);
    if (!status)
        status = fill_variables(k, first, error);
    if (!status && w->write)
        status = w->write(k, w, error);
    if (!status)
        status = measure(k, w, error);
    release_plans(k);
    if (status == EITP_ERROR_ARGUMENT || status == EITP_ERROR_UNSUPPORTED) {
        output_warning("%s is skipped: %s", w->name, error->message);
        return EITP_OK;
    }
    return status;
}
