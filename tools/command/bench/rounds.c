#include "bench/rounds.h"

#include "output.h"
#include "process.h"

/* ---- One configuration ---- */

eitp_status bench_configuration_options(const bench *b, const char *argument, option_set *options, eitp_error *error) {
    /* A file of options is read along with the other options; an option replaces them under any alias. */
    const int is_file = !strncmp(argument, "--config=", strlen("--config="));
    int ended, count = b->argument_count;
    char **all = (char **)command_allocate((size_t)(count + 1) * sizeof *all);
    char *added = command_copy(argument);
    eitp_status status;
    for (int i = 0; i < count; i++)
        all[i] = b->arguments[i];
    all[count] = added;
    status = options_read(options, "bench step", OPTIONS_BENCH_STEP, count + is_file, all, &ended, error);
    if (!status && *argument && !is_file)
        status = options_replace(options, argument, error);
    if (!status)
        bench_step_defaults(options);
    free(added);
    free(all);
    return status;
}

size_t bench_configuration_bytes(const bench_configuration *c) {
    return c->trainer.rung.total - c->trainer.rung.process;
}

static eitp_status warm_up(bench_configuration *c, size_t before, eitp_error *error) {
    eitp_status status = EITP_OK;
    size_t after;
    double seconds;
    for (int i = 0; i < BENCH_WARM_UP && !status; i++)
        status = bench_trainer_step(&c->trainer, &seconds, error);
    after = process_memory();
    c->memory = after > before ? (double)(after - before) : 0;
    return status;
}

eitp_status bench_configuration_open(const bench_comparison *m, bench_configuration *c, const char *name,
                                     const char *argument, size_t others, eitp_error *error) {
    size_t before;
    eitp_status status;
    memset(c, 0, sizeof *c);
    snprintf(c->name, sizeof c->name, "%s", name);
    status = bench_configuration_options(m->b, argument, &c->options, error);
    options_set_integer(&c->options, OPTION_MEMORY_BUDGET, m->budget, SOURCE_DEFAULT);
    if (!status)
        status = bench_trainer_plan(&c->trainer, &c->options, m->process, others, error);
    process_trim_memory();
    before = process_memory();
    if (!status)
        status = bench_trainer_open(&c->trainer, NULL, error);
    if (!status)
        status = warm_up(c, before, error);
    c->seconds = (double *)command_allocate((size_t)m->steps * sizeof *c->seconds);
    return status;
}

void bench_configuration_close(bench_configuration *c) {
    bench_trainer_close(&c->trainer);
    options_release(&c->options);
    free(c->seconds);
    memset(c, 0, sizeof *c);
}

eitp_status bench_run_rounds(const bench_comparison *m, bench_configuration **list, size_t count, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (int64_t round = 0; round < m->steps && !status; round++) {
        for (size_t i = 0; i < count && !status; i++) {
            bench_configuration *c = list[round % 2 ? count - 1 - i : i];
            status = bench_trainer_step(&c->trainer, &c->seconds[round], error);
        }
    }
    return status;
}

/* ---- Results ---- */

static double percent(double value, double of) {
    return of > 0 ? 100 * (value / of - 1) : (double)NAN;
}

static double speed(const bench_configuration *c, int64_t round) {
    return c->seconds[round] > 0 ? (double)c->trainer.step_tokens / c->seconds[round] : 0;
}

/* Computes the gain over `base` in the same rounds: median and range. */
static void compare_rounds(const bench_comparison *m, const bench_configuration *c, const bench_configuration *base,
                           bench_result *r) {
    double *gains = (double *)command_allocate((size_t)m->steps * sizeof *gains);
    for (int64_t round = 0; round < m->steps; round++)
        gains[round] = percent(speed(c, round), speed(base, round));
    r->gain = bench_median(gains, (size_t)m->steps);
    r->low = gains[0];
    r->high = gains[m->steps - 1];
    free(gains);
}

/* True if the baseline is measured again with each row and differs from row to row. */
static int has_baselines(const bench_comparison *m) {
    return !strcmp(m->kind, "matrix");
}

static void print_heading(const bench_comparison *m, text_buffer *t) {
    bench_print_machine(m->b);
    text_format(t, "%-30s %8s %12s%s %12s %10s %10s %10s %9s%s\n", "", "tokens", "tokens/s",
                has_baselines(m) ? "     baseline" : "", "ms per step", "memory", "planned", "change", "gain",
                strcmp(m->kind, "sweep") ? "  range" : "");
}

static void print_result(const bench_comparison *m, const bench_result *r) {
    text_buffer t = {NULL, 0, 0};
    if (m->count == 1)
        print_heading(m, &t);
    text_format(&t, "%-30s %8lld %12.1f", r->name, (long long)r->tokens, (double)r->tokens / r->median);
    if (has_baselines(m) && m->count > 1)
        text_format(&t, " %12.1f", r->baseline);
    else if (has_baselines(m))
        text_format(&t, " %12s", "");
    text_format(&t, " %12.3f %10s %10s", 1e3 * r->median, output_bytes(r->memory), output_bytes(r->planned));
    if (m->count > 1)
        text_format(&t, " %+8.1f %% %+7.1f %%", r->memory_change, r->gain);
    if (m->count > 1 && r->low <= r->high)
        text_format(&t, "  %+.1f to %+.1f %%", r->low, r->high);
    text_format(&t, "\n");
    output_result(t.data, t.size);
    output_flush();
    text_release(&t);
}

/* Returns the median seconds of a step; *best is the least. */
static double find_times(const bench_comparison *m, const bench_configuration *c, double *best) {
    double *sorted = (double *)command_allocate((size_t)m->steps * sizeof *sorted), median;
    memcpy(sorted, c->seconds, (size_t)m->steps * sizeof *sorted);
    median = bench_median(sorted, (size_t)m->steps);
    *best = sorted[0];
    free(sorted);
    return median;
}

void bench_add_result(bench_comparison *m, const bench_configuration *c, const bench_configuration *base) {
    bench_result *first, *r;
    double best;
    m->results = (bench_result *)command_resize(m->results, (m->count + 1) * sizeof *m->results);
    first = m->results;
    r = &m->results[m->count++];
    memset(r, 0, sizeof *r);
    snprintf(r->name, sizeof r->name, "%s", c->name);
    r->tokens = c->trainer.step_tokens;
    r->planned = (double)c->trainer.rung.total;
    r->memory = c->memory;
    r->low = r->high = (double)NAN;
    r->median = find_times(m, c, &r->best);
    r->baseline = base ? (double)base->trainer.step_tokens / find_times(m, base, &best) : (double)NAN;
    if (base)
        compare_rounds(m, c, base, r);
    else
        r->gain = percent((double)r->tokens / r->median, (double)first->tokens / first->median);
    r->memory_change = percent(r->planned, first->planned);
    output_start();
    if (!options_integer(&m->b->options, OPTION_JSON))
        print_result(m, r);
}

typedef enum column {
    COLUMN_TOKENS,
    COLUMN_SPEED,
    COLUMN_MEDIAN,
    COLUMN_BEST,
    COLUMN_PLANNED,
    COLUMN_MEMORY,
    COLUMN_MEMORY_CHANGE,
    COLUMN_BASELINE,
    COLUMN_GAIN,
    COLUMN_LOW,
    COLUMN_HIGH,
    COLUMN_COUNT
} column;

static double column_value(const bench_result *r, column which) {
    const double values[COLUMN_COUNT] = {(double)r->tokens,
                                         (double)r->tokens / r->median,
                                         r->median,
                                         r->best,
                                         r->planned,
                                         r->memory,
                                         r->memory_change,
                                         r->baseline,
                                         r->gain,
                                         r->low,
                                         r->high};
    return values[which];
}

void bench_print_comparison(const bench_comparison *m) {
    static const char *const names[COLUMN_COUNT] = {
        "tokens",        "tokens_per_s",     "median_seconds",        "seconds",
        "planned_bytes", "memory_bytes",     "memory_change_percent", "baseline_tokens_per_s",
        "gain_percent",  "low_gain_percent", "high_gain_percent"};
    text_buffer t = {NULL, 0, 0};
    bench_json_begin(m->b, &t);
    text_json_member_string(&t, "comparison", m->kind);
    text_json_member_integer(&t, "steps", m->steps);
    text_json_name(&t, "configuration");
    text_add(&t, "[", 1);
    for (size_t i = 0; i < m->count; i++) {
        text_format(&t, "%s", i ? ", " : "");
        text_json_string(&t, m->results[i].name, strlen(m->results[i].name));
    }
    text_add(&t, "]", 1);
    for (int c = 0; c < COLUMN_COUNT; c++) {
        text_json_name(&t, names[c]);
        text_add(&t, "[", 1);
        for (size_t i = 0; i < m->count; i++) {
            text_format(&t, "%s", i ? ", " : "");
            text_json_number(&t, column_value(&m->results[i], (column)c));
        }
        text_add(&t, "]", 1);
    }
    text_format(&t, "}\n");
    output_result(t.data, t.size);
    text_release(&t);
}

int bench_is_skipped(eitp_status status) {
    return status == EITP_ERROR_ARGUMENT || status == EITP_ERROR_UNSUPPORTED || status == EITP_ERROR_MEMORY ||
           status == EITP_ERROR_NOT_FINITE;
}

/* ---- Lists of values ---- */

const char *bench_optimizer_names(void) {
    static char names[200];
    size_t used = 0;
    for (int i = 0; i < EITP_OPTIMIZER_COUNT && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? "," : "",
                                 eitp_optimizer_get((eitp_optimizer)i)->name);
    return names;
}

int bench_next_value(const char **list, char *value, size_t size) {
    size_t length = strcspn(*list, ",");
    if (!**list)
        return 0;
    snprintf(value, size, "%.*s", (int)length, *list);
    *list += length;
    *list += **list == ',';
    return 1;
}
