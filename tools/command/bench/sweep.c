/* eitp bench step --sweep: measures the values of one option, one after another. */
#include "bench/rounds.h"
#include "options/table.h"
#include "output.h"

#include <unistd.h>

/* Options that can be swept, with their usual values. NULL: doubling from the current value; "": all optimizers. */
static const struct {
    option_id id;
    const char *values;
} swept[] = {
    {OPTION_BATCH_SIZE, NULL},      {OPTION_BLOCK_SIZE, NULL},
    {OPTION_GRAD_ACCUM, "1,2,4,8"}, {OPTION_MICRO_BATCHES_PER_PASS, "1,2,4,8"},
    {OPTION_THREADS, NULL},         {OPTION_PRECISION, "fp32,bf16,fp16"},
    {OPTION_OPTIMIZER, ""},         {OPTION_RECOMPUTE, "none,attention,layer"},
};

/* Finds the index in `swept` of an option, by any of its names or the first word of its name: batch is batch-size. */
static eitp_status find_swept(const char *name, size_t size, size_t *found, eitp_error *error) {
    char whole[40];
    option_id id;
    snprintf(whole, sizeof whole, "%.*s", (int)size, name);
    id = option_find(whole).id;
    for (size_t i = 0; i < COMMAND_COUNT(swept); i++) {
        const char *option = options_name(swept[i].id);
        *found = i;
        if (id == swept[i].id || (size < strlen(option) && option[size] == '-' && !strncmp(option, whole, size)))
            return EITP_OK;
    }
    return command_fail(error, EITP_ERROR_ARGUMENT,
                        "--sweep cannot vary '%s' (choose from batch-size, block-size, grad-accum, "
                        "micro-batches-per-pass, threads, precision, optimizer or recompute)",
                        whole);
}

static eitp_status sweep_value(bench_comparison *m, const char *option, const char *value, eitp_error *error) {
    char name[80], argument[120];
    bench_configuration c, *list[1] = {&c};
    eitp_status status;
    snprintf(name, sizeof name, "%s %s", option, value);
    snprintf(argument, sizeof argument, "--%s=%s", option, value);
    status = bench_configuration_open(m, &c, name, argument, 0, error);
    if (!status)
        status = bench_run_rounds(m, list, 1, error);
    if (!status)
        bench_add_result(m, &c, NULL);
    bench_configuration_close(&c);
    return status;
}

/* Refuses invalid values before anything is measured. */
static eitp_status check_values(const bench_comparison *m, const char *option, const char *values, eitp_error *error) {
    char value[40], argument[120];
    eitp_status status = EITP_OK;
    while (!status && bench_next_value(&values, value, sizeof value)) {
        option_set options;
        snprintf(argument, sizeof argument, "--%s=%s", option, value);
        status = bench_configuration_options(m->b, argument, &options, error);
        options_release(&options);
    }
    return status;
}

static eitp_status sweep_list(bench_comparison *m, const char *option, const char *values, eitp_error *error) {
    char value[40];
    eitp_status status = check_values(m, option, values, error);
    while (!status && bench_next_value(&values, value, sizeof value)) {
        status = sweep_value(m, option, value, error);
        if (bench_is_skipped(status)) {
            output_warning("%s %s is skipped: %s", option, value, error->message);
            status = EITP_OK;
        }
    }
    return status;
}

/* Doubles the option's value up to the limit of the memory budget, the model or the machine. */
static eitp_status sweep_doubling(bench_comparison *m, option_id id, eitp_error *error) {
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
        if (m->count && bench_is_skipped(status)) {
            output_info("%s %s: %s", options_name(id), digits, error->message);
            return EITP_OK;
        }
    }
    return status;
}

eitp_status bench_sweep(bench_comparison *m, eitp_error *error) {
    const char *text = options_text(&m->b->options, OPTION_SWEEP), *equals = strchr(text, '=');
    size_t place;
    const char *values;
    eitp_status status = find_swept(text, strcspn(text, "="), &place, error);
    if (status)
        return status;
    values = equals ? equals + 1 : swept[place].values;
    if (equals && !*values)
        return command_fail(error, EITP_ERROR_ARGUMENT, "--sweep %s requires values, as in batch-size=1,2,4", text);
    if (values && !*values)
        values = bench_optimizer_names();
    if (values)
        status = sweep_list(m, options_name(swept[place].id), values, error);
    else
        status = sweep_doubling(m, swept[place].id, error);
    if (!status && !m->count)
        status = command_fail(error, EITP_ERROR_ARGUMENT, "--sweep %s: no value could be measured", text);
    return status;
}
