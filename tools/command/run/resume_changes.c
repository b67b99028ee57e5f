#include "run/resume_changes.h"

#include "files.h"
#include "model/model.h"
#include "options/profile.h"
#include "output.h"
#include "run/resume_options.h"

/* ---- Samples per step ---- */

static int64_t samples_of(const training_run *r) {
    return r->resumed.config.batch_size * r->resumed.config.grad_accum;
}

/* Takes the batch size of --profile if it divides the samples of a step, and logs the values that the run keeps. */
static void follow_profile(training_run *r) {
    option_set *o = &r->options;
    const option_source source = o->values[OPTION_PROFILE].source;
    const int64_t samples = samples_of(r);
    int64_t batch = profile_is_auto(o) ? r->resumed.config.batch_size : profile_integer(o, OPTION_BATCH_SIZE);
    if (!options_is_explicit(o, OPTION_PROFILE) || !batch)
        return;
    while (samples % batch)
        batch--;
    options_set_integer(o, OPTION_BATCH_SIZE, batch, source);
    options_set_integer(o, OPTION_GRAD_ACCUM, samples / batch, source);
    output_info(
        "profile %s: the resumed run keeps its %lld samples per step (batch size %lld, accumulation %lld), block "
        "size %lld and optimizer %s",
        options_text(o, OPTION_PROFILE), (long long)samples, (long long)batch, (long long)(samples / batch),
        (long long)r->resumed.rows, options_text(o, OPTION_OPTIMIZER));
    /* Nothing is left to choose. */
    if (profile_is_auto(o))
        options_set_text(o, OPTION_PROFILE, "none", source);
}

/* A new batch size or accumulation alone is another split of the same samples. */
static void complete_split(training_run *r) {
    option_set *o = &r->options;
    const int has_batch = options_is_explicit(o, OPTION_BATCH_SIZE);
    const option_id given = has_batch ? OPTION_BATCH_SIZE : OPTION_GRAD_ACCUM;
    const option_id other = has_batch ? OPTION_GRAD_ACCUM : OPTION_BATCH_SIZE;
    const int64_t value = options_integer(o, given);
    if (options_is_explicit(o, given) && !options_is_explicit(o, other) && value > 0 && samples_of(r) % value == 0)
        options_set_integer(o, other, samples_of(r) / value, o->values[given].source);
}

void changes_keep_samples(training_run *r) {
    option_set *o = &r->options;
    if (options_is_explicit(o, OPTION_BATCH_SIZE) || options_is_explicit(o, OPTION_GRAD_ACCUM))
        complete_split(r);
    else
        follow_profile(r);
    /* The recorded passes belong to the recorded micro-batches. */
    if (options_integer(o, OPTION_BATCH_SIZE) != r->resumed.config.batch_size &&
        !options_is_explicit(o, OPTION_MICRO_BATCHES_PER_PASS))
        options_set_integer(o, OPTION_MICRO_BATCHES_PER_PASS, 0, o->values[OPTION_BATCH_SIZE].source);
}

static eitp_status check_samples(const training_run *r, const eitp_trainer_config *requested, eitp_error *error) {
    const eitp_trainer_config *c = &r->resumed.config;
    if (requested->batch_size * requested->grad_accum == samples_of(r))
        return EITP_OK;
    return command_fail(error, EITP_ERROR_ARGUMENT,
                        "'%s' was trained with %lld samples per step (--batch-size %lld, --grad-accum %lld), and a "
                        "resumed run keeps this product (got %lld and %lld); set both accordingly, or start from the "
                        "weights with --model and another --output-dir",
                        r->checkpoint, (long long)samples_of(r), (long long)c->batch_size, (long long)c->grad_accum,
                        (long long)requested->batch_size, (long long)requested->grad_accum);
}

/* ---- Settings ---- */

/* Fails because a resumed run must keep a setting: `was` and `is` are its values. */
static eitp_status refuse_setting(const training_run *r, const eitp_setting *setting, const char *was, const char *is,
                                  eitp_error *error) {
    const option_id id = options_setting(setting);
    return command_fail(error, EITP_ERROR_ARGUMENT,
                        "'%s' was trained with %s %s, and a resumed run keeps it (got %s); leave --%s out, or start "
                        "from the weights with --model",
                        r->checkpoint, setting->name, was, is, options_name(id));
}

static eitp_status check_settings(const training_run *r, eitp_error *error) {
    size_t count;
    const eitp_setting *settings = eitp_settings_of("eitp_trainer_config", &count);
    eitp_trainer_config requested = r->resumed.config;
    char is[64], was[64];
    eitp_status status = options_to_config(&r->options, &requested, error);
    if (!status)
        status = check_samples(r, &requested, error);
    for (size_t i = 0; i < count && !status; i++) {
        const option_id id = options_setting(&settings[i]);
        if (settings[i].difference != EITP_DIFFERENCE_REFUSED || id == OPTION_BATCH_SIZE || id == OPTION_GRAD_ACCUM)
            continue;
        eitp_setting_format(&settings[i], &r->resumed.config, was, sizeof was);
        eitp_setting_format(&settings[i], &requested, is, sizeof is);
        if (strcmp(was, is))
            status = refuse_setting(r, &settings[i], was, is, error);
    }
    return status;
}

eitp_status changes_check(const training_run *r, eitp_error *error) {
    eitp_status status = check_settings(r, error);
    if (!status && !options_has(&r->options, OPTION_DATA))
        status = command_fail(error, EITP_ERROR_ARGUMENT,
                              "--data is required: no run.json in or next to '%s' names the data", r->checkpoint);
    return status ? status : resume_check_data(r, error);
}

/* ---- Kernels ---- */

/* True if a list separated by ", " has this word. */
static int has_word(const char *words, const char *word) {
    const size_t size = strlen(word);
    for (const char *at = words; (at = strstr(at, word)) != NULL; at += size) {
        if ((at == words || at[-1] == ' ') && (at[size] == ',' || !at[size]))
            return 1;
    }
    return 0;
}

static int machine_has(const eitp_context_config *kernels) {
    eitp_context_config config = *kernels;
    eitp_context *context;
    eitp_error ignored;
    config.plans_only = 1;
    config.host.log.write = NULL;
    if (eitp_context_create(&config, &context, &ignored))
        return 0;
    eitp_context_destroy(context);
    return 1;
}

eitp_status changes_find_numerics(training_run *r, eitp_error *error) {
    char isa[MODEL_ISA_SIZE];
    const eitp_context_config config = model_context_config(&r->options, r->resumed.numerics, isa);
    const char *const kept[][3] = {{"EITP_ISA", config.isa, "ref, avx2, avx512, avx512bf16, amx"},
                                   {"EITP_PRODUCTS", config.products, "own, openblas"}};
    r->numerics = r->checkpoint ? r->resumed.numerics : NULL;
    for (size_t i = 0; i < COMMAND_COUNT(kept) && r->checkpoint; i++) {
        const char *requested = getenv(kept[i][0]);
        if (!requested || !*requested || !kept[i][1] || !strcmp(requested, kept[i][1]))
            continue;
        if (!has_word(kept[i][2], requested))
            return command_fail(error, EITP_ERROR_ARGUMENT, "unknown %s '%s' (choose from %s)", kept[i][0], requested,
                                kept[i][2]);
        r->numerics = NULL;
    }
    if (r->numerics && !machine_has(&config))
        r->numerics = NULL;
    return EITP_OK;
}
