/* eitp bench: times kernels and training steps, compared with the limits of the machine and with earlier results; and
   measures the overhead of a run in addition to training. */
#include "bench/bench.h"

#include "bench/machine.h"
#include "files.h"
#include "model/model.h"
#include "options/json.h"
#include "output.h"
#include "plan/fit.h"
#include "process.h"

/* ---- An earlier result ---- */

typedef struct earlier_reader {
    bench *b;
    size_t seconds; /* read so far */
    int matches;    /* 1: the file is of the same kind of bench */
} earlier_reader;

static bench_line *lines_extend(bench_lines *lines) {
    lines->lines = (bench_line *)command_resize(lines->lines, (lines->count + 1) * sizeof *lines->lines);
    memset(&lines->lines[lines->count], 0, sizeof *lines->lines);
    return &lines->lines[lines->count++];
}

static eitp_status read_earlier(void *user, const json_value *value, eitp_error *error) {
    earlier_reader *reader = (earlier_reader *)user;
    bench_lines *earlier = &reader->b->earlier;
    (void)error;
    if (!strcmp(value->name, "bench"))
        reader->matches = value->kind == JSON_STRING && !strcmp(value->text, reader->b->kind);
    else if (!strcmp(value->name, "name") && value->in_array)
        snprintf(lines_extend(earlier)->name, sizeof earlier->lines->name, "%s", value->text);
    else if (!strcmp(value->name, "seconds") && value->in_array && reader->seconds < earlier->count)
        earlier->lines[reader->seconds++].seconds = strtod(value->text, NULL);
    return EITP_OK;
}

static eitp_status open_earlier(bench *b, eitp_error *error) {
    const char *path = options_text(&b->options, OPTION_COMPARE);
    earlier_reader reader;
    eitp_status status;
    if (b->options.values[OPTION_COMPARE].count > 1 && b->options.command == OPTIONS_BENCH_KERNELS)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--compare takes one file here: the output of an earlier --json");
    if (b->options.values[OPTION_COMPARE].count != 1) /* with several they are files of options, not results */
        return EITP_OK;
    memset(&reader, 0, sizeof reader);
    reader.b = b;
    status = json_read_file(path, "", read_earlier, &reader, error);
    if (!status && (!reader.matches || !b->earlier.count || reader.seconds != b->earlier.count))
        status =
            command_fail(error, EITP_ERROR_FORMAT, "'%s' is not the output of 'eitp bench %s --json'", path, b->kind);
    return status;
}

static const bench_line *find_line(const bench_lines *lines, const char *name) {
    for (size_t i = 0; i < lines->count; i++) {
        if (!strcmp(lines->lines[i].name, name))
            return &lines->lines[i];
    }
    return NULL;
}

void bench_report_missing(const bench *b) {
    const char *filter = options_text(&b->options, OPTION_FILTER), *path = options_text(&b->options, OPTION_COMPARE);
    for (size_t i = 0; i < b->earlier.count; i++) {
        const char *name = b->earlier.lines[i].name;
        if (!find_line(&b->results, name) && (!filter || strstr(name, filter)))
            output_warning("'%s' in '%s' was not measured this time", name, path);
    }
    for (size_t i = 0; i < b->results.count && path; i++) {
        const char *name = b->results.lines[i].name;
        if (!find_line(&b->earlier, name))
            output_warning("no '%s' in '%s'", name, path);
    }
}

/* ---- The context and its limits ---- */

void bench_print_machine(const bench *b) {
    bench_machine machine = bench_machine_read();
    text_buffer t = {NULL, 0, 0};
    text_format(&t, "machine: %s, %d processors, memory %s (%s available)\n", machine.processor, machine.processors,
                output_bytes(machine.memory), output_bytes(machine.available));
    text_format(&t, "kernels: %s\n", eitp_context_description(b->context));
    output_result(t.data, t.size);
    text_release(&t);
}

eitp_status bench_open(bench *b, eitp_error *error) {
    char isa[MODEL_ISA_SIZE];
    eitp_context_config config = model_context_config(&b->options, NULL, isa);
    eitp_status status = open_earlier(b, error);
    config.parameters = eitp_optimizer_get(fit_optimizer(&b->options))->parameters;
    if (config.parameters != EITP_PARAMETERS_EXACT && !strcmp(config.precision, "auto"))
        config.precision = "bf16"; /* as the planner does */
    if (!status)
        status = eitp_context_create(&config, &b->context, error);
    if (!status)
        b->dtype = eitp_context_precision(b->context);
    return status;
}

eitp_status bench_read_budget(option_set *o, eitp_error *error) {
    const eitp_host host = command_host();
    eitp_memory_info info;
    eitp_status status = eitp_memory_info_read(&host, &info, error);
    if (!status && !options_integer(o, OPTION_MEMORY_BUDGET))
        options_set_integer(o, OPTION_MEMORY_BUDGET, (int64_t)eitp_memory_budget_default(&info), SOURCE_COMMAND_LINE);
    return status;
}

eitp_status bench_measure(bench *b, eitp_error *error) {
    eitp_status status = b->measured ? EITP_OK : eitp_context_measure(b->context, &b->limits, error);
    b->measured = !status;
    return status;
}

void bench_close(bench *b) {
    eitp_context_destroy(b->context);
    free(b->results.lines);
    free(b->earlier.lines);
    options_release(&b->options);
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* Returns the slowest of: arithmetic, bytes read, bytes written, and bytes read and written together. */
double bench_limit(const eitp_limits *limits, const eitp_profile *profile) {
    double flops = limits->flops[profile->dtype];
    double seconds = (profile->bytes_read + profile->bytes_written) / larger(limits->update, limits->read);
    seconds = larger(seconds, profile->bytes_read / limits->read);
    seconds = larger(seconds, profile->bytes_written / limits->write);
    return larger(seconds, flops > 0 ? profile->flops / flops : 0);
}

static int compare_numbers(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, size_t count) {
    if (!count)
        return 0;
    qsort(values, count, sizeof *values, compare_numbers);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

/* ---- Lines ---- */

static double per_second(double amount, double seconds) {
    return seconds > 0 ? amount / seconds : 0;
}

static double ratio(const bench_line *line) {
    return line->earlier > 0 && line->seconds > 0 ? line->earlier / line->seconds : (double)NAN;
}

static void print_heading(const bench *b, text_buffer *t) {
    const eitp_limits *limits = &b->limits;
    text_format(
        t,
        "limits: matrix products in %s %.1f GFLOP/s; memory read %.1f, written %.1f, updated %.1f GB/s (data in caches "
        "is faster)\n",
        eitp_dtype_name(b->dtype), limits->flops[b->dtype] / 1e9, limits->read / 1e9, limits->write / 1e9,
        limits->update / 1e9);
    text_format(t, "%-42s %12s %12s %9s %9s %9s%s\n", "", "best ms", "median ms", "GFLOP/s", "GB/s", "of limit",
                b->earlier.count ? "    times" : "");
}

static void print_line(const bench *b, const bench_line *line) {
    text_buffer t = {NULL, 0, 0};
    if (b->results.count == 1) {
        bench_print_machine(b);
        print_heading(b, &t);
    }
    text_format(&t, "%-42s %12.4f %12.4f %9.1f %9.2f %7.1f %%", line->name, 1e3 * line->seconds, 1e3 * line->median,
                per_second(line->flops, line->seconds) / 1e9, per_second(line->bytes, line->seconds) / 1e9,
                100 * per_second(line->limit, line->seconds));
    if (line->earlier > 0)
        text_format(&t, " %8.2f", ratio(line));
    text_format(&t, "\n");
    output_result(t.data, t.size);
    output_flush();
    text_release(&t);
}

void bench_add(bench *b, const bench_line *line) {
    const bench_line *earlier = find_line(&b->earlier, line->name);
    bench_line *added = lines_extend(&b->results);
    *added = *line;
    added->earlier = earlier ? earlier->seconds : 0;
    output_start();
    if (!options_integer(&b->options, OPTION_JSON))
        print_line(b, added);
}

/* ---- JSON ---- */

void bench_json_begin(const bench *b, text_buffer *t) {
    text_format(t, "{");
    text_json_member_string(t, "bench", b->kind);
    text_json_member_string(t, "version", eitp_version());
    text_json_member_string(t, "build", eitp_build_info());
    text_json_member_string(t, "device", eitp_context_description(b->context));
    text_json_member_string(t, "precision", eitp_dtype_name(b->dtype));
    bench_machine_json(t);
    if (!b->measured)
        return;
    text_json_name(t, "limits");
    text_format(t, "{");
    text_json_member_number(t, "f32_flops", b->limits.flops[EITP_F32]);
    text_json_member_number(t, "bf16_flops", b->limits.flops[EITP_BF16]);
    text_json_member_number(t, "f16_flops", b->limits.flops[EITP_F16]);
    text_json_member_number(t, "read_bytes", b->limits.read);
    text_json_member_number(t, "write_bytes", b->limits.write);
    text_json_member_number(t, "update_bytes", b->limits.update);
    text_format(t, "}");
}

typedef enum bench_column {
    COLUMN_SECONDS,
    COLUMN_MEDIAN,
    COLUMN_FLOPS,
    COLUMN_BYTES,
    COLUMN_LIMIT,
    COLUMN_RATIO,
    COLUMN_COUNT
} bench_column;

static const char *const column_names[COLUMN_COUNT] = {"seconds", "median_seconds", "flops",
                                                       "bytes",   "limit_seconds",  "times"};

static double column_value(const bench_line *line, bench_column column) {
    switch (column) {
    case COLUMN_SECONDS:
        return line->seconds;
    case COLUMN_MEDIAN:
        return line->median;
    case COLUMN_FLOPS:
        return line->flops;
    case COLUMN_BYTES:
        return line->bytes;
    case COLUMN_LIMIT:
        return line->limit;
    case COLUMN_RATIO:
    case COLUMN_COUNT:
    default:
        return ratio(line);
    }
}

static void add_column(const bench *b, bench_column column, text_buffer *t) {
    text_json_name(t, column_names[column]);
    text_add(t, "[", 1);
    for (size_t i = 0; i < b->results.count; i++) {
        if (i)
            text_add(t, ", ", 2);
        text_json_number(t, column_value(&b->results.lines[i], column));
    }
    text_add(t, "]", 1);
}

void bench_json_lines(const bench *b, text_buffer *t) {
    text_json_name(t, "name");
    text_add(t, "[", 1);
    for (size_t i = 0; i < b->results.count; i++) {
        if (i)
            text_add(t, ", ", 2);
        text_json_string(t, b->results.lines[i].name, strlen(b->results.lines[i].name));
    }
    text_add(t, "]", 1);
    for (int c = 0; c < COLUMN_COUNT; c++) {
        if (c != COLUMN_RATIO || b->earlier.count)
            add_column(b, (bench_column)c, t);
    }
}

/* ---- The command ---- */

enum { ACTION_KERNELS, ACTION_STEP, ACTION_MONITOR };

static const struct {
    const char *name, *whole_name;
    unsigned command;
    void (*set_defaults)(option_set *o); /* or NULL */
    eitp_status (*run)(bench *b, eitp_error *error);
} actions[] = {
    {"kernels", "bench kernels", OPTIONS_BENCH_KERNELS, NULL, bench_kernels},
    {"step", "bench step", OPTIONS_BENCH_STEP, bench_step_defaults, bench_step},
    {"monitor", "bench monitor", OPTIONS_BENCH_MONITOR, bench_monitor_defaults, bench_monitor},
};

void bench_step_defaults(option_set *o) {
    options_set_text(o, OPTION_MODEL, "gpt2", SOURCE_DEFAULT);
    options_set_integer(o, OPTION_STEPS, 5, SOURCE_DEFAULT);
    options_set_number(o, OPTION_DROPOUT, 0, SOURCE_DEFAULT);
}

static int run_action(size_t action, int count, char **arguments) {
    bench b;
    eitp_error error;
    int ended = 0, code = COMMAND_FINISHED;
    eitp_status status;
    memset(&b, 0, sizeof b);
    b.kind = actions[action].name;
    b.argument_count = count;
    b.arguments = arguments;
    status =
        options_read(&b.options, actions[action].whole_name, actions[action].command, count, arguments, &ended, &error);
    if (!status && actions[action].set_defaults)
        actions[action].set_defaults(&b.options);
    if (!status && !ended && options_integer(&b.options, OPTION_PRINT_CONFIG))
        options_print(&b.options, (int)options_integer(&b.options, OPTION_JSON));
    else if (!status && !ended)
        status = actions[action].run(&b, &error);
    if (status)
        code = output_fail(&error);
    if (status == EITP_ERROR_INTERRUPTED && process_stop_signal())
        code = 128 + process_stop_signal();
    bench_close(&b);
    return code;
}

static int names_monitor(int count, char **arguments) {
    static const char option[] = "--monitor";
    const size_t size = sizeof option - 1;
    for (int i = 0; i < count; i++) {
        if (!strncmp(arguments[i], option, size) && (!arguments[i][size] || arguments[i][size] == '='))
            return 1;
    }
    return 0;
}

int command_bench(int count, char **arguments) {
    process_end_on_signals();
    for (size_t i = 0; i < COMMAND_COUNT(actions) && count > 0; i++) {
        if (!strcmp(arguments[0], actions[i].name))
            return run_action(i, count - 1, arguments + 1);
    }
    if (count > 0 && (!strcmp(arguments[0], "--help") || !strcmp(arguments[0], "-h"))) {
        for (size_t i = 0; i < COMMAND_COUNT(actions); i++)
            options_print_help(actions[i].whole_name, actions[i].command);
        return COMMAND_FINISHED;
    }
    /* Options without an action are for step, or for monitor if --monitor is one of them. */
    if (count > 0 && !strncmp(arguments[0], "--", 2))
        return run_action(names_monitor(count, arguments) ? ACTION_MONITOR : ACTION_STEP, count, arguments);
    output_error("%s%s%s: use eitp bench kernels, step or monitor", count > 0 ? "unknown action '" : "missing action",
                 count > 0 ? arguments[0] : "", count > 0 ? "'" : "");
    return COMMAND_WRONG;
}
