/* Options that exclude each other, and options derived from others. */
#include "options/table.h"
#include "output.h"

/* Two options that exclude each other; with `choice`, only if `a` has this value. */
typedef struct exclusion {
    option_id a;
    const char *choice;
    option_id b;
} exclusion;

static const exclusion exclusions[] = {
    {OPTION_EVAL, "no", OPTION_EVAL_STEPS},
    {OPTION_EVAL, "no", OPTION_EVAL_EVERY_FRAC},
    {OPTION_EVAL, "no", OPTION_EVAL_WINDOWS},
    {OPTION_EVAL, "no", OPTION_EVAL_FRAC},
    {OPTION_EVAL, "no", OPTION_KEEP_BEST},
    {OPTION_EVAL, "no", OPTION_PATIENCE},
    {OPTION_EVAL, "steps", OPTION_EVAL_EVERY_FRAC},
    {OPTION_EVAL, "epoch", OPTION_EVAL_STEPS},
    {OPTION_EVAL_STEPS, NULL, OPTION_EVAL_EVERY_FRAC},
    {OPTION_EVAL_WINDOWS, NULL, OPTION_EVAL_FRAC},
    {OPTION_SAVE_STRATEGY, "no", OPTION_SAVE_STEPS},
    {OPTION_SAVE_STRATEGY, "no", OPTION_SAVE_SECONDS},
    {OPTION_SAVE_STRATEGY, "epoch", OPTION_SAVE_STEPS},
};

int options_is_in_force(const option_set *o, option_id id) {
    return options_has(o, id) &&
           (option_of(id)->kind == KIND_TEXT || options_integer(o, id) != 0 || options_number(o, id) > 0);
}

static int has_choice(const option_set *o, option_id id, const char *choice) {
    return options_has(o, id) && options_choice(o, id) == option_find_value(option_of(id), choice);
}

/* Writes "--eval no" or "config.json:3: eval no". */
static void describe(const option_set *o, option_id id, char *text, size_t size) {
    const option_value *value = &o->values[id];
    if (*value->place)
        snprintf(text, size, "%s: %s %s", value->place, options_name(id), value->texts[0]);
    else
        snprintf(text, size, "--%s %s", options_name(id), value->texts[0]);
}

static eitp_status check_exclusion(option_set *o, const exclusion *e, eitp_error *error) {
    const option_source a = o->values[e->a].source, b = o->values[e->b].source;
    char first[300], second[300];
    if (!(e->choice ? has_choice(o, e->a, e->choice) : options_is_in_force(o, e->a)) || !options_is_in_force(o, e->b))
        return EITP_OK;
    if (a == b && options_is_explicit(o, e->a)) {
        describe(o, e->a, first, sizeof first);
        describe(o, e->b, second, sizeof second);
        return command_fail(error, EITP_ERROR_ARGUMENT, "%s and %s exclude each other; give one", first, second);
    }
    options_clear(o, a < b ? e->a : e->b);
    return EITP_OK;
}

/* Derives when a run validates and saves, unless options set it. */
static void derive_schedule(option_set *o) {
    if (!options_has(o, OPTION_EVAL))
        options_set_text(o, OPTION_EVAL, options_has(o, OPTION_EVAL_EVERY_FRAC) ? "epoch" : "steps", SOURCE_DEFAULT);
    if (has_choice(o, OPTION_EVAL, "epoch"))
        options_set_text(o, OPTION_EVAL_EVERY_FRAC, "1", SOURCE_DEFAULT);
    if (has_choice(o, OPTION_EVAL, "steps"))
        options_set_text(o, OPTION_EVAL_STEPS, option_of(OPTION_EVAL_STEPS)->fallback, SOURCE_DEFAULT);
    options_set_text(o, OPTION_SAVE_STRATEGY, "steps", SOURCE_DEFAULT);
    if (has_choice(o, OPTION_SAVE_STRATEGY, "steps"))
        options_set_text(o, OPTION_SAVE_STEPS, option_of(OPTION_SAVE_STEPS)->fallback, SOURCE_DEFAULT);
}

/* Splits "--self-repair kl" into the loss and its form. */
static eitp_status split_self_repair(option_set *o, eitp_error *error) {
    const option_value *value = &o->values[OPTION_SELF_REPAIR];
    const option_id id = option_find("self-repair-form").id;
    const option_value *form = &o->values[id];
    char first[300], second[300];
    if (!value->count || option_find_value(option_of(id), value->texts[0]) < 0)
        return EITP_OK;
    if (form->source == value->source && option_find_value(option_of(id), value->texts[0]) != form->integer) {
        describe(o, OPTION_SELF_REPAIR, first, sizeof first);
        describe(o, id, second, sizeof second);
        return command_fail(error, EITP_ERROR_ARGUMENT, "%s and %s exclude each other; give one", first, second);
    }
    snprintf(first, sizeof first, "%s%s", *value->place ? value->place : "--", *value->place ? ": " : "");
    return options_set(o, id, value->texts[0], value->source, first, error);
}

int options_is_requested(const option_set *o, option_id id) {
    const option_value *value = &o->values[id];
    if (value->source == SOURCE_CONFIG || value->source == SOURCE_SUGGESTION)
        return !o->has_record && (option_of(id)->kind != KIND_FLAG || value->integer);
    return value->count && value->source > SOURCE_CONFIG;
}

/* Warns of options that only affect a GPU, with the reason. */
static void report_unused(const option_set *o) {
    static const struct {
        option_id id;
        const char *reason;
    } options[] = {{OPTION_PIN_MEMORY, "a CPU needs no copy to a device"},
                   {OPTION_TF32, "on a CPU no product rounds to TF32"},
                   {OPTION_GPU_MEMORY_BUDGET, "on a CPU --memory-budget limits all memory"},
                   {OPTION_GPU_MEM_MAX, "on a CPU --memory-budget limits all memory"}};
    const char *device = options_text(o, OPTION_DEVICE);
    if (device && (!strncmp(device, "cuda", 4) || !strcmp(device, "gpu")))
        return;
    for (size_t i = 0; i < COMMAND_COUNT(options) && !options_integer(o, OPTION_QUIET); i++) {
        const option_value *value = &o->values[options[i].id];
        if (options_is_requested(o, options[i].id))
            output_warning("%s%s has no effect: %s", *value->place ? "" : "--", option_of(options[i].id)->name,
                           options[i].reason);
    }
}

/* Fails because batch-size and grad-accum (0 if not set) cannot yield train_batch_size. */
static eitp_status fail_step_sequences(const option_set *o, int64_t batch, int64_t accum, eitp_error *error) {
    char expected[120];
    if (batch && accum)
        snprintf(expected, sizeof expected, "batch-size %lld x grad-accum %lld = %lld", (long long)batch,
                 (long long)accum, (long long)(batch * accum));
    else
        snprintf(expected, sizeof expected, "a multiple of %s %lld", batch ? "batch-size" : "grad-accum",
                 (long long)(batch ? batch : accum));
    return command_fail(error, EITP_ERROR_ARGUMENT, "%strain_batch_size %lld is not %s; change or remove one",
                        o->step_sequences_place, (long long)o->step_sequences, expected);
}

/* Returns an option's value if it is not just the default, otherwise 0. */
static int64_t explicit_integer(const option_set *o, option_id id) {
    return options_is_explicit(o, id) ? options_integer(o, id) : 0;
}

/*
 * In a DeepSpeed configuration train_batch_size = micro-batch x gradient accumulation: two of them determine the third.
 * A micro-batch alone is the whole step. train_batch_size alone becomes micro-batches of one sequence; a pass takes as
 * many of them as fit in memory.
 */
static eitp_status divide_step(option_set *o, eitp_error *error) {
    const int64_t batch = explicit_integer(o, OPTION_BATCH_SIZE), accum = explicit_integer(o, OPTION_GRAD_ACCUM);
    const int64_t sequences = o->step_sequences ? o->step_sequences : batch;
    const int64_t product = (batch ? batch : 1) * (accum ? accum : 1);
    char digits[32];
    eitp_status status = EITP_OK;
    if (!o->has_deepspeed || !sequences || !(o->command & option_of(OPTION_GRAD_ACCUM)->commands))
        return EITP_OK;
    if (o->step_sequences && (batch && accum ? product != sequences : sequences % product))
        return fail_step_sequences(o, batch, accum, error);
    snprintf(digits, sizeof digits, "%lld", (long long)(accum ? sequences / accum : 1));
    if (!batch)
        status = options_set(o, OPTION_BATCH_SIZE, digits, SOURCE_CONFIG, o->step_sequences_place, error);
    snprintf(digits, sizeof digits, "%lld", (long long)(sequences / product));
    if (!status && !accum)
        status = options_set(o, OPTION_GRAD_ACCUM, digits, SOURCE_CONFIG, o->step_sequences_place, error);
    return status;
}

eitp_status options_reconcile(option_set *o, eitp_error *error) {
    eitp_status status = split_self_repair(o, error);
    if (!status)
        status = divide_step(o, error);
    for (size_t i = 0; i < COMMAND_COUNT(exclusions) && !status; i++)
        status = check_exclusion(o, &exclusions[i], error);
    if (!status && (o->command & OPTIONS_TRAIN))
        derive_schedule(o);
    if (!status)
        report_unused(o);
    return status;
}
