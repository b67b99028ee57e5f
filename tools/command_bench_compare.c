#include "command_bench_compare.h"

#include "command_bench_trainer.h"
#include "command_files.h"
#include "command_option_table.h"
#include "command_output.h"
#include "command_process.h"

#include <unistd.h>

/* A row of the table. Gains are those of tokens per second over the first row, in percent. */
typedef struct result {
    char name[80];
    int64_t tokens;      /* of a step */
    double median, best; /* seconds of a step */
    double planned;      /* bytes of the process */
    double memory;       /* resident bytes that the configuration added to the process */
    double gain;
    double low, high;     /* the range of the gain over rounds; NAN: the rounds were not in turn */
    double memory_change; /* planned bytes over those of the first row, in percent */
} result;

/* A configuration with its trainer, while it is measured. */
typedef struct configuration {
    char name[80];
    option_set options;
    bench_trainer trainer;
    double *seconds; /* of each timed step */
    double memory;
} configuration;

typedef struct comparison {
    bench *b;
    const char *kind; /* "sweep", "matrix" or "configurations" */
    size_t process;   /* resident bytes before the first configuration */
    int64_t budget;   /* bytes; 0: no limit */
    int64_t steps;    /* timed for each configuration */
    result *results;
    size_t count;
} comparison;

/* ---- One configuration ---- */

/* Reads the command line again, with one more argument; "" adds none. */
static eitp_status read_options(const bench *b, const char *argument, option_set *options, eitp_error *error) {
    int ended, count = b->argument_count;
    char **all = (char **)command_allocate((size_t)(count + 1) * sizeof *all);
    char *added = command_copy(argument);
    eitp_status status;
    for (int i = 0; i < count; i++)
        all[i] = b->arguments[i];
    all[count] = added;
    status = options_read(options, "bench step", OPTIONS_BENCH_STEP, *argument ? count + 1 : count, all, &ended, error);
    if (!status)
        bench_step_defaults(options);
    free(added);
    free(all);
    return status;
}

/* Bytes that the configuration adds to the process. */
static size_t own_bytes(const configuration *c) {
    return c->trainer.rung.total - c->trainer.rung.process;
}

/* Plans it; `others` are the planned bytes of the configurations that are open besides it. */
static eitp_status plan_configuration(const comparison *m, configuration *c, size_t others, eitp_error *error) {
    eitp_status status;
    options_set_integer(&c->options, OPTION_MEMORY_BUDGET, m->budget, SOURCE_DEFAULT);
    status = bench_trainer_plan(&c->trainer, &c->options, m->process, error);
    if (!status && m->budget && c->trainer.rung.total + others > (size_t)m->budget)
        status = command_fail(error, EITP_ERROR_MEMORY, "it needs %s%s%s, the memory budget is %s",
                              output_bytes((double)c->trainer.rung.total), others ? " and the others " : "",
                              others ? output_bytes((double)others) : "", output_bytes((double)m->budget));
    return status;
}

static eitp_status warm_up(configuration *c, size_t before, eitp_error *error) {
    eitp_status status = EITP_OK;
    size_t after;
    double seconds;
    for (int i = 0; i < BENCH_WARM_UP && !status; i++)
        status = bench_trainer_step(&c->trainer, &seconds, error);
    after = process_memory();
    c->memory = after > before ? (double)(after - before) : 0;
    return status;
}

static eitp_status open_configuration(const comparison *m, configuration *c, const char *name, const char *argument,
                                      size_t others, eitp_error *error) {
    size_t before;
    eitp_status status;
    memset(c, 0, sizeof *c);
    snprintf(c->name, sizeof c->name, "%s", name);
    status = read_options(m->b, argument, &c->options, error);
    if (!status)
        status = plan_configuration(m, c, others, error);
    process_trim_memory();
    before = process_memory();
    if (!status)
        status = bench_trainer_open(&c->trainer, NULL, error);
    if (!status)
        status = warm_up(c, before, error);
    c->seconds = (double *)command_allocate((size_t)m->steps * sizeof *c->seconds);
    return status;
}

static void close_configuration(configuration *c) {
    bench_trainer_close(&c->trainer);
    options_release(&c->options);
    free(c->seconds);
    memset(c, 0, sizeof *c);
}

/* Times configurations in turn: each round is a step of each, every other round in the opposite order. */
static eitp_status run_rounds(const comparison *m, configuration **list, size_t count, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (int64_t round = 0; round < m->steps && !status; round++) {
        for (size_t i = 0; i < count && !status; i++) {
            configuration *c = list[round % 2 ? count - 1 - i : i];
            status = bench_trainer_step(&c->trainer, &c->seconds[round], error);
        }
    }
    return status;
}

/* ---- Results ---- */

static double percent(double value, double of) {
    return of > 0 ? 100 * (value / of - 1) : (double)NAN;
}

static double speed(const configuration *c, int64_t round) {
    return c->seconds[round] > 0 ? (double)c->trainer.step_tokens / c->seconds[round] : 0;
}

/* The gain over `base` in the same rounds: median and range. */
static void compare_rounds(const comparison *m, const configuration *c, const configuration *base, result *r) {
    double *gains = (double *)command_allocate((size_t)m->steps * sizeof *gains);
    for (int64_t round = 0; round < m->steps; round++)
        gains[round] = percent(speed(c, round), speed(base, round));
    r->gain = bench_median(gains, (size_t)m->steps);
    r->low = gains[0];
    r->high = gains[m->steps - 1];
    free(gains);
}

static void print_heading(const comparison *m, text_buffer *t) {
    bench_print_machine(m->b);
    text_format(t, "%-30s %8s %12s %12s %10s %10s %10s %9s%s\n", "", "tokens", "tokens/s", "ms per step", "memory",
                "planned", "change", "gain", strcmp(m->kind, "sweep") ? "  range" : "");
}

static void print_result(const comparison *m, const result *r) {
    text_buffer t = {NULL, 0, 0};
    if (m->count == 1)
        print_heading(m, &t);
    text_format(&t, "%-30s %8lld %12.1f %12.3f %10s %10s", r->name, (long long)r->tokens, (double)r->tokens / r->median,
                1e3 * r->median, output_bytes(r->memory), output_bytes(r->planned));
    if (m->count > 1)
        text_format(&t, " %+8.1f %% %+7.1f %%", r->memory_change, r->gain);
    if (m->count > 1 && r->low <= r->high)
        text_format(&t, "  %+.1f to %+.1f %%", r->low, r->high);
    text_format(&t, "\n");
    output_result(t.data, t.size);
    fflush(stdout);
    text_release(&t);
}

static void fill_times(const comparison *m, const configuration *c, result *r) {
    double *sorted = (double *)command_allocate((size_t)m->steps * sizeof *sorted);
    memcpy(sorted, c->seconds, (size_t)m->steps * sizeof *sorted);
    r->median = bench_median(sorted, (size_t)m->steps);
    r->best = sorted[0];
    free(sorted);
}

/* Adds the row of a configuration; `base`, which may be NULL, ran in the same rounds. */
static void add_result(comparison *m, const configuration *c, const configuration *base) {
    result *first, *r;
    m->results = (result *)command_resize(m->results, (m->count + 1) * sizeof *m->results);
    first = m->results;
    r = &m->results[m->count++];
    memset(r, 0, sizeof *r);
    snprintf(r->name, sizeof r->name, "%s", c->name);
    r->tokens = c->trainer.step_tokens;
    r->planned = (double)c->trainer.rung.total;
    r->memory = c->memory;
    r->low = r->high = (double)NAN;
    fill_times(m, c, r);
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
    COLUMN_GAIN,
    COLUMN_LOW,
    COLUMN_HIGH,
    COLUMN_COUNT
} column;

static double column_value(const result *r, column which) {
    const double values[COLUMN_COUNT] = {(double)r->tokens,
                                         (double)r->tokens / r->median,
                                         r->median,
                                         r->best,
                                         r->planned,
                                         r->memory,
                                         r->memory_change,
                                         r->gain,
                                         r->low,
                                         r->high};
    return values[which];
}

static void print_json(const comparison *m) {
    static const char *const names[COLUMN_COUNT] = {
        "tokens",       "tokens_per_s",          "median_seconds", "seconds",          "planned_bytes",
        "memory_bytes", "memory_change_percent", "gain_percent",   "low_gain_percent", "high_gain_percent"};
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

/* True if the machine or the model cannot have a configuration: the others are measured all the same. */
static int is_left_out(eitp_status status) {
    return status == EITP_ERROR_ARGUMENT || status == EITP_ERROR_UNSUPPORTED || status == EITP_ERROR_MEMORY;
}

/* ---- Sweep ---- */

/* Options that can be swept, with their values; without a list they double from the value given. */
static const struct {
    option_id id;
    const char *values;
} swept[] = {
    {OPTION_BATCH_SIZE, NULL},      {OPTION_BLOCK_SIZE, NULL},
    {OPTION_GRAD_ACCUM, "1,2,4,8"}, {OPTION_MICRO_BATCHES_PER_PASS, "1,2,4,8"},
    {OPTION_THREADS, NULL},         {OPTION_PRECISION, "fp32,bf16,fp16"},
    {OPTION_OPTIMIZER, ""},         {OPTION_RECOMPUTE, "none,attention,layer"},
};

/* The place in `swept` of an option, by its name, the beginning of it, or another of its names. */
static eitp_status find_swept(const char *name, size_t size, size_t *found, eitp_error *error) {
    char whole[40], implied[64];
    option_id id;
    snprintf(whole, sizeof whole, "%.*s", (int)size, name);
    id = option_find(whole, implied, sizeof implied);
    for (size_t i = 0; i < COMMAND_COUNT(swept); i++) {
        *found = i;
        if (id == swept[i].id || (size && option_names_equal(whole, options_name(swept[i].id), size)))
            return EITP_OK;
        if (size && strlen(options_name(swept[i].id)) > size && !strncmp(options_name(swept[i].id), whole, size))
            return EITP_OK;
    }
    return command_fail(error, EITP_ERROR_ARGUMENT,
                        "--sweep cannot vary '%s' (choose from batch-size, block-size, grad-accum, "
                        "micro-batches-per-pass, threads, precision, optimizer or recompute)",
                        whole);
}

/* The names of all optimizers, with commas between them. */
static const char *optimizer_names(void) {
    static char names[200];
    size_t used = 0;
    for (int i = 0; i < EITP_OPTIMIZER_COUNT && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? "," : "",
                                 eitp_optimizer_get((eitp_optimizer)i)->name);
    return names;
}

static eitp_status sweep_value(comparison *m, const char *option, const char *value, eitp_error *error) {
    char name[80], argument[120];
    configuration c, *list[1] = {&c};
    eitp_status status;
    snprintf(name, sizeof name, "%s %s", option, value);
    snprintf(argument, sizeof argument, "--%s=%s", option, value);
    status = open_configuration(m, &c, name, argument, 0, error);
    if (!status)
        status = run_rounds(m, list, 1, error);
    if (!status)
        add_result(m, &c, NULL);
    close_configuration(&c);
    return status;
}

/* Copies the next value of a list with commas; 0 at its end. */
static int next_value(const char **list, char *value, size_t size) {
    size_t length = strcspn(*list, ",");
    if (!**list)
        return 0;
    snprintf(value, size, "%.*s", (int)length, *list);
    *list += length;
    *list += **list == ',';
    return 1;
}

/* Refuses a wrong value before anything is measured. */
static eitp_status check_values(const comparison *m, const char *option, const char *values, eitp_error *error) {
    char value[40], argument[120];
    eitp_status status = EITP_OK;
    while (!status && next_value(&values, value, sizeof value)) {
        option_set options;
        snprintf(argument, sizeof argument, "--%s=%s", option, value);
        status = read_options(m->b, argument, &options, error);
        options_release(&options);
    }
    return status;
}

static eitp_status sweep_list(comparison *m, const char *option, const char *values, eitp_error *error) {
    char value[40];
    eitp_status status = check_values(m, option, values, error);
    while (!status && next_value(&values, value, sizeof value)) {
        status = sweep_value(m, option, value, error);
        if (is_left_out(status)) {
            output_warning("%s %s is left out: %s", option, value, error->message);
            status = EITP_OK;
        }
    }
    return status;
}

/* Doubles the option's value until the memory budget, the model or the machine ends it. */
static eitp_status sweep_doubling(comparison *m, option_id id, eitp_error *error) {
    const option_set *o = &m->b->options;
    int64_t first = id == OPTION_THREADS || !options_integer(o, id) ? 1 : options_integer(o, id), last = INT64_MAX / 2;
    eitp_status status = EITP_OK;
    if (id == OPTION_BLOCK_SIZE && !options_has(o, id))
        first = model_block_size(o, NULL, 0);
    if (id == OPTION_THREADS)
        last = (int64_t)sysconf(_SC_NPROCESSORS_ONLN);
    for (int64_t value = first; value <= last && !status; value *= 2) {
        char digits[32];
        snprintf(digits, sizeof digits, "%lld", (long long)value);
        status = sweep_value(m, options_name(id), digits, error);
        if (m->count && is_left_out(status)) {
            output_info("%s %s: %s", options_name(id), digits, error->message);
            return EITP_OK;
        }
    }
    return status;
}

static eitp_status sweep(comparison *m, eitp_error *error) {
    const char *text = options_text(&m->b->options, OPTION_SWEEP), *equals = strchr(text, '=');
    size_t place;
    const char *values;
    eitp_status status = find_swept(text, strcspn(text, "="), &place, error);
    if (status)
        return status;
    values = equals ? equals + 1 : swept[place].values;
    if (equals && !*values)
        return command_fail(error, EITP_ERROR_ARGUMENT, "--sweep %s needs values, as in batch-size=1,2,4", text);
    if (values && !*values)
        values = optimizer_names();
    if (values)
        status = sweep_list(m, options_name(swept[place].id), values, error);
    else
        status = sweep_doubling(m, swept[place].id, error);
    if (!status && !m->count)
        status = command_fail(error, EITP_ERROR_ARGUMENT, "--sweep %s: no value could be measured", text);
    return status;
}

/* ---- Matrix ---- */

/* Measures a configuration in turn with the baseline. */
static eitp_status add_switch(comparison *m, configuration *base, const char *option, const char *value,
                              eitp_error *error) {
    char name[80], argument[120];
    configuration c, *list[2] = {base, &c};
    eitp_status status;
    snprintf(name, sizeof name, "%s %s", option, value);
    snprintf(argument, sizeof argument, "--%s=%s", option, value);
    status = open_configuration(m, &c, name, argument, own_bytes(base), error);
    if (!status)
        status = run_rounds(m, list, 2, error);
    if (!status)
        add_result(m, &c, base);
    close_configuration(&c);
    if (is_left_out(status)) {
        output_warning("%s is left out: %s", name, error->message);
        status = EITP_OK;
    }
    return status;
}

/* Every value of a list but the baseline's. */
static eitp_status add_switches(comparison *m, configuration *base, option_id id, const char *values, const char *now,
                                eitp_error *error) {
    char value[40];
    eitp_status status = EITP_OK;
    while (!status && next_value(&values, value, sizeof value)) {
        if (strcmp(value, now))
            status = add_switch(m, base, options_name(id), value, error);
    }
    return status;
}

static eitp_status add_number(comparison *m, configuration *base, const char *option, int64_t value,
                              eitp_error *error) {
    char digits[32];
    snprintf(digits, sizeof digits, "%lld", (long long)value);
    return add_switch(m, base, option, digits, error);
}

/* One thread if the baseline has several, otherwise one for each processor. */
static eitp_status add_threads(comparison *m, configuration *base, eitp_error *error) {
    int64_t processors = (int64_t)sysconf(_SC_NPROCESSORS_ONLN), now = options_integer(&base->options, OPTION_THREADS);
    if (processors < 2)
        return EITP_OK;
    return add_number(m, base, "threads", now == 1 ? processors : 1, error);
}

/* Reading ahead of the step, in a command that has it. */
static eitp_status add_data_workers(comparison *m, configuration *base, eitp_error *error) {
    char implied[64];
    option_id id = option_find("data-workers", implied, sizeof implied);
    if (id == OPTION_CAPACITY || !(option_of(id)->commands & OPTIONS_BENCH_STEP))
        return EITP_OK;
    return add_number(m, base, "data-workers", options_integer(&base->options, id) ? 0 : 2, error);
}

static eitp_status add_matrix(comparison *m, configuration *base, eitp_error *error) {
    const option_set *o = &base->options;
    const int64_t batch = base->trainer.fit.trainer.batch_size, accum = base->trainer.fit.trainer.grad_accum;
    eitp_status status = add_switches(m, base, OPTION_PRECISION, "fp32,bf16,fp16", base->trainer.rung.precision, error);
    if (!status)
        status = add_switches(m, base, OPTION_RECOMPUTE, "attention,layer", options_text(o, OPTION_RECOMPUTE), error);
    if (!status)
        status = add_threads(m, base, error);
    if (!status)
        status = add_number(m, base, "batch-size", 2 * batch, error);
    if (!status)
        status = add_number(m, base, "block-size", 2 * base->trainer.plan.block_size, error);
    if (!status)
        status = add_number(m, base, "grad-accum", accum > 1 ? 1 : 4, error);
    if (!status)
        status = add_switches(m, base, OPTION_OPTIMIZER, optimizer_names(),
                              eitp_optimizer_get(base->trainer.rung.optimizer)->name, error);
    return status ? status : add_data_workers(m, base, error);
}

static eitp_status matrix(comparison *m, eitp_error *error) {
    configuration base, *list[1] = {&base};
    eitp_status status = open_configuration(m, &base, "baseline", "", 0, error);
    if (!status)
        status = run_rounds(m, list, 1, error);
    if (!status)
        add_result(m, &base, NULL);
    if (!status)
        status = add_matrix(m, &base, error);
    close_configuration(&base);
    return status;
}

/* ---- Files of options ---- */

static eitp_status open_file(const comparison *m, configuration *c, const char *path, size_t others,
                             eitp_error *error) {
    char *argument = command_format("--config=%s", path);
    eitp_status status = open_configuration(m, c, path, argument, others, error);
    free(argument);
    return status;
}

static eitp_status files(comparison *m, eitp_error *error) {
    const option_set *o = &m->b->options;
    size_t count = o->positional_count + 1, opened = 0, others = 0;
    configuration *all = (configuration *)command_allocate(count * sizeof *all);
    configuration **list = (configuration **)command_allocate(count * sizeof *list);
    eitp_status status = EITP_OK;
    while (opened < count && !status) {
        const char *path = opened ? o->positional[opened - 1] : options_text(o, OPTION_COMPARE);
        list[opened] = &all[opened];
        status = open_file(m, &all[opened], path, others, error);
        others += status ? 0 : own_bytes(&all[opened]);
        opened++;
    }
    if (!status)
        status = run_rounds(m, list, count, error);
    for (size_t i = 0; i < count && !status; i++)
        add_result(m, &all[i], i ? &all[0] : NULL);
    for (size_t i = 0; i < opened; i++)
        close_configuration(&all[i]);
    free(list);
    free(all);
    return status;
}

/* ---- Which of them ---- */

int bench_compares(const bench *b) {
    return options_has(&b->options, OPTION_SWEEP) || options_integer(&b->options, OPTION_MATRIX) ||
           b->options.positional_count;
}

static eitp_status read_budget(comparison *m, eitp_error *error) {
    const eitp_host host = command_host();
    eitp_memory_info info;
    eitp_status status;
    m->budget = options_integer(&m->b->options, OPTION_MEMORY_BUDGET);
    if (m->budget)
        return EITP_OK;
    status = eitp_memory_info_read(&host, &info, error);
    m->budget = status ? 0 : (int64_t)eitp_memory_budget_default(&info);
    return status;
}

static eitp_status check_kind(const option_set *o, eitp_error *error) {
    if (o->positional_count && !options_has(o, OPTION_COMPARE))
        return command_fail(error, EITP_ERROR_ARGUMENT, "unexpected argument '%s'; files of options follow --compare",
                            o->positional[0]);
    if (options_has(o, OPTION_SWEEP) + (int)options_integer(o, OPTION_MATRIX) + options_has(o, OPTION_COMPARE) > 1)
        return command_fail(error, EITP_ERROR_ARGUMENT, "--sweep, --matrix and --compare exclude each other");
    return EITP_OK;
}

eitp_status bench_compare(bench *b, eitp_error *error) {
    comparison m;
    eitp_status status = check_kind(&b->options, error);
    if (status)
        return status;
    memset(&m, 0, sizeof m);
    m.b = b;
    m.process = process_memory();
    m.steps = options_integer(&b->options, OPTION_STEPS);
    m.kind = options_has(&b->options, OPTION_SWEEP)        ? "sweep"
             : options_integer(&b->options, OPTION_MATRIX) ? "matrix"
                                                           : "configurations";
    status = read_budget(&m, error);
    if (!status)
        status = options_has(&b->options, OPTION_SWEEP)        ? sweep(&m, error)
                 : options_integer(&b->options, OPTION_MATRIX) ? matrix(&m, error)
                                                               : files(&m, error);
    if (!status && options_integer(&b->options, OPTION_JSON))
        print_json(&m);
    free(m.results);
    return status;
}
