/* eitp bench step --matrix: each switch alone, alternating with the baseline. */
#include "bench/rounds.h"
#include "output.h"

#include <unistd.h>

/* Measures a configuration, alternating with the baseline. */
static eitp_status add_switch(bench_comparison *m, bench_configuration *base, const char *option, const char *value,
                              eitp_error *error) {
    char name[80], argument[120];
    bench_configuration c, *list[2] = {base, &c};
    eitp_status status;
    snprintf(name, sizeof name, "%s %s", option, value);
    snprintf(argument, sizeof argument, "--%s=%s", option, value);
    status = bench_configuration_open(m, &c, name, argument, bench_configuration_bytes(base), error);
    if (!status)
        status = bench_run_rounds(m, list, 2, error);
    if (!status)
        bench_add_result(m, &c, base);
    bench_configuration_close(&c);
    if (bench_is_skipped(status)) {
        output_warning("%s is skipped: %s", name, error->message);
        status = EITP_OK;
    }
    return status;
}

/* Adds every value of a list except the baseline's. */
static eitp_status add_switches(bench_comparison *m, bench_configuration *base, option_id id, const char *values,
                                const char *now, eitp_error *error) {
    char value[40];
    eitp_status status = EITP_OK;
    while (!status && bench_next_value(&values, value, sizeof value)) {
        if (strcmp(value, now))
            status = add_switch(m, base, options_name(id), value, error);
    }
    return status;
}

static eitp_status add_number(bench_comparison *m, bench_configuration *base, const char *option, int64_t value,
                              eitp_error *error) {
    char digits[32];
    snprintf(digits, sizeof digits, "%lld", (long long)value);
    return add_switch(m, base, option, digits, error);
}

/* Adds one thread if the baseline has several, otherwise one per processor. */
static eitp_status add_threads(bench_comparison *m, bench_configuration *base, eitp_error *error) {
    int64_t processors = (int64_t)sysconf(_SC_NPROCESSORS_ONLN), now = options_integer(&base->options, OPTION_THREADS);
    if (processors < 2)
        return EITP_OK;
    return add_number(m, base, "threads", now == 1 ? processors : 1, error);
}

/* Adds no worker if the baseline has some, otherwise one. */
static eitp_status add_data_workers(bench_comparison *m, bench_configuration *base, eitp_error *error) {
    return add_number(m, base, "data-workers", base->trainer.fit.trainer.data_workers ? 0 : 1, error);
}

static eitp_status add_matrix(bench_comparison *m, bench_configuration *base, eitp_error *error) {
    const int64_t batch = base->trainer.fit.trainer.batch_size, accum = base->trainer.fit.trainer.grad_accum;
    eitp_status status = add_switches(m, base, OPTION_PRECISION, "fp32,bf16,fp16", base->trainer.rung.precision, error);
    if (!status)
        status =
            add_switches(m, base, OPTION_RECOMPUTE, "attention,layer", bench_trainer_recompute(&base->trainer), error);
    if (!status)
        status = add_threads(m, base, error);
    if (!status)
        status = add_number(m, base, "batch-size", 2 * batch, error);
    if (!status)
        status = add_number(m, base, "block-size", 2 * base->trainer.block_size, error);
    if (!status)
        status = add_number(m, base, "grad-accum", accum > 1 ? 1 : 4, error);
    if (!status)
        status = add_switches(m, base, OPTION_OPTIMIZER, bench_optimizer_names(),
                              eitp_optimizer_get(base->trainer.rung.optimizer)->name, error);
    return status ? status : add_data_workers(m, base, error);
}

eitp_status bench_matrix(bench_comparison *m, eitp_error *error) {
    bench_configuration base, *list[1] = {&base};
    eitp_status status = bench_configuration_open(m, &base, "baseline", "", 0, error);
    if (!status)
        status = bench_run_rounds(m, list, 1, error);
    if (!status)
        bench_add_result(m, &base, NULL);
    if (!status)
        status = add_matrix(m, &base, error);
    bench_configuration_close(&base);
    return status;
}
