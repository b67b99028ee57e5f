#include "bench/compare.h"

#include "bench/rounds.h"
#include "output.h"
#include "process.h"

/* ---- Files of options ---- */

static eitp_status open_file(const bench_comparison *m, bench_configuration *c, const char *path, size_t others,
                             eitp_error *error) {
    char *argument = command_format("--config=%s", path);
    eitp_status status = bench_configuration_open(m, c, path, argument, others, error);
    free(argument);
    return status;
}

static eitp_status compare_files(bench_comparison *m, eitp_error *error) {
    const option_value *files = &m->b->options.values[OPTION_COMPARE];
    size_t count = files->count, opened = 0, others = 0;
    bench_configuration *all = (bench_configuration *)command_allocate(count * sizeof *all);
    bench_configuration **list = (bench_configuration **)command_allocate(count * sizeof *list);
    eitp_status status = EITP_OK;
    while (opened < count && !status) {
        list[opened] = &all[opened];
        status = open_file(m, &all[opened], files->texts[opened], others, error);
        others += status ? 0 : bench_configuration_bytes(&all[opened]);
        opened++;
    }
    if (!status)
        status = bench_run_rounds(m, list, count, error);
    for (size_t i = 0; i < count && !status; i++)
        bench_add_result(m, &all[i], i ? &all[0] : NULL);
    for (size_t i = 0; i < opened; i++)
        bench_configuration_close(&all[i]);
    free(list);
    free(all);
    return status;
}

/* ---- The kind of comparison ---- */

int bench_compares(const bench *b) {
    return options_has(&b->options, OPTION_SWEEP) || options_integer(&b->options, OPTION_MATRIX) ||
           b->options.values[OPTION_COMPARE].count > 1 || b->options.positional_count;
}

static eitp_status check_kind(const option_set *o, eitp_error *error) {
    if (o->positional_count)
        return command_fail(error, EITP_ERROR_ARGUMENT, "unexpected argument '%s'; files of options follow --compare",
                            o->positional[0]);
    if (options_has(o, OPTION_SWEEP) + (int)options_integer(o, OPTION_MATRIX) + options_has(o, OPTION_COMPARE) > 1)
        return command_fail(error, EITP_ERROR_ARGUMENT, "--sweep, --matrix and --compare exclude each other");
    return EITP_OK;
}

eitp_status bench_compare(bench *b, eitp_error *error) {
    bench_comparison m;
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
    m.budget = options_integer(&b->options, OPTION_MEMORY_BUDGET);
    status = options_has(&b->options, OPTION_SWEEP)        ? bench_sweep(&m, error)
             : options_integer(&b->options, OPTION_MATRIX) ? bench_matrix(&m, error)
                                                           : compare_files(&m, error);
    if (!status && options_integer(&b->options, OPTION_JSON))
        bench_print_comparison(&m);
    free(m.results);
    return status;
}
