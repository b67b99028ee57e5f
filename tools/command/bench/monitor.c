/*
 * eitp bench monitor: the overhead of a run in addition to training, as processor time of its observers. The level of
 * records changes from step to step, so that each step is compared with the previous one, which records nothing.
 */
#include "bench/trainer.h"

#include "bench/bench.h"
#include "files.h"
#include "output.h"
#include "process.h"

#include <errno.h>

enum {
    WARM_UP = 4,        /* steps that are not measured */
    COMMON_IN_ROUND = 4 /* pairs of light, and of full, for each pair of a kind that is rare in a run */
};

/* The level of records of a step. */
typedef enum level { LEVEL_OFF, LEVEL_LIGHT, LEVEL_FULL, LEVEL_PERFORMANCE, LEVEL_WINDOW, LEVEL_COUNT } level;

static const struct {
    const char *name;
    eitp_monitor monitor;
    int64_t log_full_every, metrics_every, perf_every;
} levels[LEVEL_COUNT] = {
    {"records, off", EITP_MONITOR_OFF, 0, 0, 0},
    {"records, light", EITP_MONITOR_LIGHT, 0, 0, 0},
    {"records, full", EITP_MONITOR_FULL, 1, 0, 0},
    {"records, light and performance", EITP_MONITOR_LIGHT, 0, 0, 1},
    {"records, full and a window", EITP_MONITOR_FULL, 0, 1, 0},
};

/* The steps of a round, each after one with LEVEL_OFF. */
static const level round_levels[] = {LEVEL_LIGHT, LEVEL_FULL,  LEVEL_LIGHT, LEVEL_FULL,        LEVEL_LIGHT,
                                     LEVEL_FULL,  LEVEL_LIGHT, LEVEL_FULL,  LEVEL_PERFORMANCE, LEVEL_WINDOW};
enum { ROUND = 2 * (int)COMMAND_COUNT(round_levels) };

/* A measured step. */
typedef struct sample {
    level recorded;
    double parts[EITP_RUN_COST_COUNT];
    double process; /* seconds of the whole process */
} sample;

/* Seconds of many steps, with the 95 % interval of the median; NAN: unknown. */
typedef struct price {
    const char *name;
    size_t count;
    double median, low, high, mean;
} price;

typedef enum row {
    ROW_OFF, /* each step; the next ones are differences between a step and the previous one */
    ROW_LIGHT,
    ROW_FULL,
    ROW_PERFORMANCE,
    ROW_WINDOW,
    ROW_LIGHT_MEAN, /* average over the steps of a run, some of which record more */
    ROW_FULL_MEAN,
    ROW_ALARMS,
    ROW_GUARD,
    ROW_OTHER,
    ROW_FILES, /* per recorded step */
    ROW_COUNT
} row;

typedef struct monitor_bench {
    bench *b;
    bench_trainer training;
    eitp_monitor most; /* the highest level to measure */
    int64_t log_full_every, metrics_every, perf_every;
    sample *samples;
    size_t count, capacity;
    size_t steps;        /* so far, including the warm-up */
    double process;      /* seconds of the process at the end of the last step */
    double step_seconds; /* of the process, median */
    price rows[ROW_COUNT];
} monitor_bench;

/* ---- The run ---- */

static level level_of_step(const monitor_bench *m, size_t step) {
    const size_t at = step < WARM_UP ? 0 : (step - WARM_UP) % ROUND;
    level found = at % 2 ? round_levels[at / 2] : LEVEL_OFF;
    if (levels[found].monitor > m->most)
        found = m->most == EITP_MONITOR_OFF ? LEVEL_OFF : LEVEL_LIGHT;
    return found;
}

static double read_clock(void *user) {
    (void)user;
    return process_thread_seconds();
}

static void take_step(void *user, const double seconds[EITP_RUN_COST_COUNT], eitp_run_config *config) {
    monitor_bench *m = (monitor_bench *)user;
    const double process = process_seconds();
    level next;
    if (m->steps >= WARM_UP && m->count < m->capacity) {
        sample *taken = &m->samples[m->count++];
        taken->recorded = level_of_step(m, m->steps);
        memcpy(taken->parts, seconds, sizeof taken->parts);
        taken->process = process - m->process;
    }
    m->process = process;
    next = level_of_step(m, ++m->steps);
    config->monitor = levels[next].monitor;
    config->log_full_every = levels[next].log_full_every;
    config->metrics_every = levels[next].metrics_every;
    config->perf_every = levels[next].perf_every;
}

/* Ignores alarms, which are meaningless with random samples. */
static void take_event(void *user, const eitp_run_event *event) {
    (void)user;
    if (event->level >= EITP_LOG_WARNING && event->kind != EITP_EVENT_ALARM && event->kind != EITP_EVENT_SPIKE)
        output_warning("%s", event->message);
}

static eitp_status train(monitor_bench *m, const char *directory, eitp_error *error) {
    const eitp_host host = command_host();
    eitp_run_config config = eitp_run_config_default();
    eitp_run_meter meter;
    eitp_run *run = NULL;
    eitp_status status;
    config.directory = directory;
    config.steps = (int64_t)(WARM_UP + m->capacity);
    config.eval_steps = config.save_steps = 0;
    config.monitor = m->most;
    config.log_full_every = config.perf_every = 0;
    config.report_to = options_text(&m->b->options, OPTION_REPORT_TO);
    config.listener.notify = take_event;
    meter.user = m;
    meter.clock = read_clock;
    meter.step = take_step;
    status = eitp_run_open(&host, &config, &run, error);
    if (!status)
        status = eitp_run_measure(run, &meter, error);
    process_catch_signals();
    process_attach_run(run);
    if (!status)
        status = eitp_run_train(run, m->training.trainer, NULL, error);
    process_attach_run(NULL);
    eitp_run_close(run);
    if (!status && m->count < m->capacity)
        status = command_fail(error, EITP_ERROR_INTERRUPTED, "the run ended after %llu of %llu steps",
                              (unsigned long long)m->steps, (unsigned long long)(WARM_UP + m->capacity));
    return status;
}

/* A directory whose entries are removed, and the number found. */
typedef struct removal {
    const char *directory;
    int found;
} removal;

static void remove_directory(const char *directory);

static int remove_entry(void *user, const char *name) {
    removal *r = (removal *)user;
    char *path = files_join(r->directory, name);
    r->found++;
    if (files_info(path).kind == EITP_PATH_DIRECTORY)
        remove_directory(path);
    else
        files_remove(path);
    free(path);
    return 0;
}

/* Repeats the listing, since removing entries may hide others from it. */
static void remove_directory(const char *directory) {
    const eitp_host host = command_host();
    removal r = {directory, 1};
    for (int passes = 0; passes < 3 && r.found; passes++) {
        r.found = 0;
        host.files.list(host.files.user, directory, remove_entry, &r);
    }
    files_remove(directory);
}

/* Trains in a new directory and removes it. */
static eitp_status train_in_new_directory(monitor_bench *m, eitp_error *error) {
    const char *parent = options_text(&m->b->options, OPTION_OUTPUT_DIR);
    char *directory = files_join(parent, "eitp-bench-XXXXXX");
    eitp_status status;
    if (mkdtemp(directory)) {
        status = train(m, directory, error);
        remove_directory(directory);
    } else {
        status = files_fail(error, errno, "create a directory in", parent);
    }
    free(directory);
    return status;
}

/* ---- Costs ---- */

static int compare_numbers(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the values. The interval lies between two values that enclose the median of any distribution with that
   probability (normal approximation of the binomial distribution). It requires at least 6 values. */
static void set_price(price *p, double *values, size_t count) {
    const double middle = ((double)count - 1) / 2, half = 0.98 * sqrt((double)count);
    double sum = 0;
    p->count = count;
    p->median = p->low = p->high = p->mean = (double)NAN;
    if (!count)
        return;
    qsort(values, count, sizeof *values, compare_numbers);
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    p->mean = sum / (double)count;
    p->median = (values[(count - 1) / 2] + values[count / 2]) / 2;
    if (count >= 6) {
        const size_t from = (size_t)(middle > half ? middle - half : 0);
        p->low = values[from];
        p->high = values[count - 1 - from];
    }
}

/* Adds the time of steps with a level minus the time of the previous steps without records. */
static void add_level(monitor_bench *m, level recorded, double *values) {
    price *p = &m->rows[ROW_OFF + (int)recorded];
    size_t count = 0;
    for (size_t i = 0; i < m->count; i++) {
        const sample *s = &m->samples[i];
        const int is_pair = i && m->samples[i - 1].recorded == LEVEL_OFF;
        const double before = recorded != LEVEL_OFF && is_pair ? s[-1].parts[EITP_RUN_COST_RECORDS] : 0;
        if (s->recorded == recorded && (is_pair || recorded == LEVEL_OFF))
            values[count++] = s->parts[EITP_RUN_COST_RECORDS] - before;
    }
    p->name = levels[recorded].name;
    set_price(p, values, count);
}

static void add_part(monitor_bench *m, row at, eitp_run_cost part, const char *name, double *values) {
    for (size_t i = 0; i < m->count; i++)
        values[i] = m->samples[i].parts[part];
    m->rows[at].name = name;
    set_price(&m->rows[at], values, m->count);
}

/* Adds a row `share` times. If `share` is negative, the low and high ends are swapped. */
static void add_share(price *sum, const price *p, double share) {
    sum->median += share * p->median;
    sum->mean += share * p->mean;
    sum->low += share * (share > 0 ? p->low : p->high);
    sum->high += share * (share > 0 ? p->high : p->low);
    sum->count = p->count < sum->count ? p->count : sum->count;
}

/* Averages the cost of records of some steps over all steps. The interval is wide: the sum of the parts' intervals. */
static void add_mean(monitor_bench *m, row at, const char *name) {
    const struct {
        row extra;
        int64_t every;
    } parts[] = {{ROW_PERFORMANCE, m->perf_every}, {ROW_FULL, m->log_full_every}, {ROW_WINDOW, m->metrics_every}};
    const size_t count = at == ROW_LIGHT_MEAN ? 1 : COMMAND_COUNT(parts);
    price *sum = &m->rows[at];
    double rest = 1;
    memset(sum, 0, sizeof *sum);
    sum->name = name;
    sum->count = m->rows[ROW_LIGHT].count;
    for (size_t i = 0; i < count; i++) {
        if (parts[i].every <= 0)
            continue;
        add_share(sum, &m->rows[parts[i].extra], 1 / (double)parts[i].every);
        rest -= 1 / (double)parts[i].every;
    }
    add_share(sum, &m->rows[ROW_LIGHT], rest);
}

/* The file threads write the records of several steps, so only the sum of their time can be divided. */
static void add_files(monitor_bench *m) {
    price *p = &m->rows[ROW_FILES];
    double sum = 0;
    p->name = "file threads, per record";
    p->median = p->low = p->high = (double)NAN;
    for (size_t i = 0; i < m->count; i++) {
        sum += m->samples[i].parts[EITP_RUN_COST_FILES];
        p->count += m->samples[i].recorded != LEVEL_OFF;
    }
    p->mean = p->count ? sum / (double)p->count : (double)NAN;
}

static void set_prices(monitor_bench *m) {
    double *values = (double *)command_allocate((m->count + 1) * sizeof *values);
    for (size_t i = 0; i < m->count; i++)
        values[i] = m->samples[i].process;
    m->step_seconds = bench_median(values, m->count);
    for (int recorded = 0; recorded < LEVEL_COUNT; recorded++)
        add_level(m, (level)recorded, values);
    add_mean(m, ROW_LIGHT_MEAN, "light, on average");
    add_mean(m, ROW_FULL_MEAN, "full, on average");
    add_part(m, ROW_ALARMS, EITP_RUN_COST_ALARMS, "alarms", values);
    add_part(m, ROW_GUARD, EITP_RUN_COST_GUARD, "guard", values);
    add_part(m, ROW_OTHER, EITP_RUN_COST_OTHER, "others", values);
    add_files(m);
    free(values);
}

/* ---- Results ---- */

typedef enum column { COLUMN_MEDIAN, COLUMN_LOW, COLUMN_HIGH, COLUMN_MEAN, COLUMN_COUNT } column;

static double column_value(const price *p, column which) {
    const double values[COLUMN_COUNT] = {p->median, p->low, p->high, p->mean};
    return values[which];
}

/* A level that was not measured has no row. */
static int is_shown(const price *p) {
    return p->count > 0 && !isnan(p->mean);
}

static void add_column(const monitor_bench *m, const char *name, column which, double factor, text_buffer *t) {
    int shown = 0;
    text_json_name(t, name);
    text_add(t, "[", 1);
    for (int i = 0; i < ROW_COUNT; i++) {
        if (!is_shown(&m->rows[i]))
            continue;
        text_format(t, "%s", shown++ ? ", " : "");
        text_json_number(t, factor * column_value(&m->rows[i], which));
    }
    text_add(t, "]", 1);
}

static void print_json(const monitor_bench *m) {
    static const char *const seconds[COLUMN_COUNT] = {"median_seconds", "low_seconds", "high_seconds", "mean_seconds"};
    static const char *const percents[COLUMN_COUNT] = {"median_percent", "low_percent", "high_percent", "mean_percent"};
    const option_set *o = &m->b->options;
    text_buffer t = {NULL, 0, 0};
    int shown = 0;
    bench_json_begin(m->b, &t);
    text_json_member_string(&t, "model", options_text(o, OPTION_MODEL));
    text_json_member_integer(&t, "parameters", eitp_model_parameter_count(m->training.model));
    text_json_member_integer(&t, "batch_size", options_integer(o, OPTION_BATCH_SIZE));
    text_json_member_integer(&t, "block_size", m->training.block_size);
    text_json_member_integer(&t, "grad_accum", options_integer(o, OPTION_GRAD_ACCUM));
    text_json_member_string(&t, "report_to", options_text(o, OPTION_REPORT_TO));
    text_json_member_integer(&t, "log_full_every", m->log_full_every);
    text_json_member_integer(&t, "metrics_every", m->metrics_every);
    text_json_member_integer(&t, "perf_every", m->perf_every);
    text_json_member_integer(&t, "steps", (int64_t)m->count);
    text_json_member_number(&t, "step_processor_seconds", m->step_seconds);
    text_json_name(&t, "name");
    text_add(&t, "[", 1);
    for (int i = 0; i < ROW_COUNT; i++) {
        if (!is_shown(&m->rows[i]))
            continue;
        text_format(&t, "%s", shown++ ? ", " : "");
        text_json_string(&t, m->rows[i].name, strlen(m->rows[i].name));
    }
    text_add(&t, "]", 1);
    shown = 0;
    text_json_name(&t, "count");
    text_add(&t, "[", 1);
    for (int i = 0; i < ROW_COUNT; i++) {
        if (is_shown(&m->rows[i]))
            text_format(&t, "%s%llu", shown++ ? ", " : "", (unsigned long long)m->rows[i].count);
    }
    text_add(&t, "]", 1);
    for (int c = 0; c < COLUMN_COUNT; c++)
        add_column(m, seconds[c], (column)c, 1, &t);
    for (int c = 0; c < COLUMN_COUNT; c++)
        add_column(m, percents[c], (column)c, 100 / m->step_seconds, &t);
    text_format(&t, "}\n");
    output_result(t.data, t.size);
    text_release(&t);
}

static void add_number(text_buffer *t, double value, int width, int digits, const char *unit) {
    if (isnan(value))
        text_format(t, " %*s", width + (int)strlen(unit), "");
    else
        text_format(t, " %*.*f%s", width, digits, value, unit);
}

static void print_table(const monitor_bench *m) {
    text_buffer t = {NULL, 0, 0};
    bench_print_machine(m->b);
    text_format(&t, "a step takes %.3f ms of processor time (median of %llu)\n", 1e3 * m->step_seconds,
                (unsigned long long)m->count);
    text_format(&t, "%-32s %6s %10s %23s %11s %23s %11s\n", "processor time", "steps", "median us", "95 % interval",
                "of a step", "95 % interval", "mean");
    for (int i = 0; i < ROW_COUNT; i++) {
        const price *p = &m->rows[i];
        if (!is_shown(p))
            continue;
        text_format(&t, "%-32s %6llu", p->name, (unsigned long long)p->count);
        for (int c = COLUMN_MEDIAN; c <= COLUMN_HIGH; c++)
            add_number(&t, 1e6 * column_value(p, (column)c), c == COLUMN_MEDIAN ? 10 : 11, 2, "");
        for (int c = COLUMN_MEDIAN; c <= COLUMN_MEAN; c++)
            add_number(&t, 100 / m->step_seconds * column_value(p, (column)c), 9, 4, " %");
        text_format(&t, "\n");
    }
    text_format(
        &t, "averages: performance every %lld steps, the norms of full every %lld, a window every %lld (0: never)\n",
        (long long)m->perf_every, (long long)m->log_full_every, (long long)m->metrics_every);
    output_result(t.data, t.size);
    text_release(&t);
}

static eitp_status measure(monitor_bench *m, eitp_error *error) {
    bench *b = m->b;
    const int64_t pairs = options_integer(&b->options, OPTION_STEPS);
    const int64_t most = (int64_t)1 << 20;
    eitp_status status;
    if (pairs < 1 || pairs > most)
        return command_fail(error, EITP_ERROR_ARGUMENT, "--steps must be at least 1 and at most %lld (got %lld)",
                            (long long)most, (long long)pairs);
    m->most = (eitp_monitor)options_choice(&b->options, OPTION_MONITOR);
    m->log_full_every = options_integer(&b->options, OPTION_LOG_FULL_EVERY);
    m->metrics_every = options_integer(&b->options, OPTION_METRICS_EVERY);
    m->perf_every = eitp_run_config_default().perf_every;
    m->capacity = (size_t)((pairs + COMMON_IN_ROUND - 1) / COMMON_IN_ROUND) * ROUND;
    m->samples = (sample *)command_allocate(m->capacity * sizeof *m->samples);
    status = bench_trainer_plan(&m->training, &b->options, process_memory(), 0, error);
    if (!status)
        status = bench_trainer_open(&m->training, b->context, error);
    if (!status)
        status = train_in_new_directory(m, error);
    if (status)
        return status;
    set_prices(m);
    output_start();
    if (options_integer(&b->options, OPTION_JSON))
        print_json(m);
    else
        print_table(m);
    return EITP_OK;
}

void bench_monitor_defaults(option_set *o) {
    eitp_error ignored;
    options_set_integer(o, OPTION_STEPS, 40, SOURCE_DEFAULT);
    options_set(o, OPTION_MONITOR, "full", SOURCE_DEFAULT, "--", &ignored);
    options_set_text(o, OPTION_OUTPUT_DIR, ".", SOURCE_DEFAULT);
    bench_step_defaults(o);
}

eitp_status bench_monitor(bench *b, eitp_error *error) {
    monitor_bench m;
    eitp_status status = bench_read_budget(&b->options, error);
    if (!status)
        status = bench_open(b, error);
    if (status)
        return status;
    memset(&m, 0, sizeof m);
    m.b = b;
    status = measure(&m, error);
    free(m.samples);
    bench_trainer_close(&m.training);
    return status;
}
