#include "train/setting_table.h"

#define EITP__SETTING(name, kind, member, min, max, flags, difference, choices, help)                                  \
    {                                                                                                                  \
        name, EITP_SETTING_##kind, offsetof(eitp_trainer_config, member), min, max, flags,                             \
            EITP_DIFFERENCE_##difference, choices, help                                                                \
    }

/* In the order of trainer_state.json. */
static const eitp_setting eitp__settings[] = {
    EITP__SETTING("dense_rows", FLAG, dense_rows, 0, 1, EITP_SETTING_OPTIONAL, REFUSED, NULL,
                  "no padding between the micro-batches of a pass: slightly faster for odd shapes, but results depend "
                  "on how many a pass takes"),
    EITP__SETTING("batch_size", INTEGER, batch_size, 1, 1 << 20, 0, REFUSED, NULL, "sequences per micro-batch"),
    EITP__SETTING("grad_accum", INTEGER, grad_accum, 1, 1 << 20, 0, REFUSED, NULL, "micro-batches per step"),
    EITP__SETTING("micro_batches_per_pass", INTEGER, micro_batches_per_pass, 0, 1 << 20, 0, ACCEPTED, NULL,
                  "micro-batches per forward and backward pass; 0: as many as memory allows"),
    EITP__SETTING("data_workers", INTEGER, data_workers, 0, 256, EITP_SETTING_OPTIONAL, ACCEPTED, NULL,
                  "threads that read batches ahead; 0: read in the training thread"),
    EITP__SETTING("prefetch", INTEGER, prefetch, 1, 1024, EITP_SETTING_OPTIONAL, ACCEPTED, NULL,
                  "steps that each data worker reads ahead"),
    EITP__SETTING("seed", UNSIGNED, seed, 0, EITP__UNBOUNDED, 0, REFUSED, NULL, "seed of dropout and shuffling"),
    EITP__SETTING("shuffle", CHOICE, shuffle, 0, 1, 0, REFUSED, "none windows",
                  "order of the training windows in an epoch"),
    EITP__SETTING("lr_schedule", CHOICE, schedule.kind, 0, 3, 0, LOGGED, "constant linear cosine cosine_with_restarts",
                  "learning rate schedule after warm-up"),
    EITP__SETTING("lr_cycles", INTEGER, schedule.cycles, 1, EITP__LARGEST_COUNT, EITP_SETTING_OPTIONAL, LOGGED, NULL,
                  "cycles of cosine_with_restarts"),
    EITP__SETTING("warmup_steps", INTEGER, schedule.warmup, 0, EITP__LARGEST_COUNT, 0, LOGGED, NULL,
                  "steps over which the learning rate rises to its peak"),
    EITP__SETTING("schedule_steps", INTEGER, schedule.steps, 0, EITP__LARGEST_COUNT, 0, LOGGED, NULL,
                  "step at which the schedule ends"),
    EITP__SETTING("last_sample", UNSIGNED, last_sample, 0, EITP__LARGEST_COUNT, 0, LOGGED, NULL,
                  "samples after which training stops; 0: never"),
    EITP__SETTING("max_grad_norm", NUMBER, max_grad_norm, 0, 1e30, 0, LOGGED, NULL,
                  "clip the gradient to this norm; 0: no clipping"),
    EITP__SETTING("spike_threshold", NUMBER, spike_threshold, 0, 1e30, EITP_SETTING_OPTIONAL, LOGGED, NULL,
                  "deviations above the median of the last steps from which on a loss or gradient norm is a spike; 0: "
                  "none is"),
    EITP__SETTING("skip_spikes", FLAG, skip_spikes, 0, 1, EITP_SETTING_OPTIONAL, LOGGED, NULL,
                  "do not apply a step whose gradient norm is a spike"),
    EITP__SETTING("beta1", NUMBER, optimizer_config.beta1, 0, 1, EITP_SETTING_BELOW, LOGGED, NULL,
                  "decay rate of AdamW's first moment; momentum of sgd"),
    EITP__SETTING("beta2", NUMBER, optimizer_config.beta2, 0, 1, EITP_SETTING_BELOW, LOGGED, NULL,
                  "decay rate of AdamW's second moment"),
    EITP__SETTING("epsilon", NUMBER, optimizer_config.epsilon, 0, 1, EITP_SETTING_ABOVE, LOGGED, NULL,
                  "term that AdamW adds to the denominator"),
    EITP__SETTING("weight_decay", NUMBER, optimizer_config.weight_decay, 0, 1000, 0, LOGGED, NULL,
                  "decoupled weight decay, of matrices and embeddings only"),
    EITP__SETTING("lr", NUMBER, schedule.peak, 0, 1000, 0, LOGGED, NULL, "peak learning rate"),
    EITP__SETTING("layer_lr_decay", NUMBER, layer_lr_decay, 0, 1, EITP_SETTING_OPTIONAL | EITP_SETTING_ABOVE, LOGGED,
                  NULL, "factor of the learning rate from each layer to the one below it; 1: the same for all"),
    EITP__SETTING("final_lr", NUMBER, schedule.final, 0, 1000, 0, LOGGED, NULL,
                  "learning rate at the end of the schedule"),
};

#undef EITP__SETTING

/* Choices are read and written as int. */
typedef char
    eitp__choices_are_ints[sizeof(eitp_shuffle) == sizeof(int) && sizeof(eitp_schedule_kind) == sizeof(int) ? 1 : -1];

const eitp_setting *eitp_trainer_settings(size_t *count) {
    if (count)
        *count = EITP__COUNT(eitp__settings);
    return eitp__settings;
}

/* ---- Values ---- */

static size_t eitp__setting_size(const eitp_setting *setting) {
    return setting->kind == EITP_SETTING_FLAG || setting->kind == EITP_SETTING_CHOICE ? sizeof(int) : sizeof(int64_t);
}

static int64_t eitp__setting_integer(const eitp_setting *setting, const void *values) {
    int64_t integer = 0;
    int small = 0;
    if (eitp__setting_size(setting) == sizeof small) {
        memcpy(&small, (const char *)values + setting->offset, sizeof small);
        return small;
    }
    memcpy(&integer, (const char *)values + setting->offset, sizeof integer);
    return integer;
}

static double eitp__setting_number(const eitp_setting *setting, const void *values) {
    int64_t integer;
    double number;
    if (setting->kind == EITP_SETTING_NUMBER) {
        memcpy(&number, (const char *)values + setting->offset, sizeof number);
        return number;
    }
    integer = eitp__setting_integer(setting, values);
    return setting->kind == EITP_SETTING_UNSIGNED ? (double)(uint64_t)integer : (double)integer;
}

static void eitp__setting_store(const eitp_setting *setting, int64_t integer, double number, void *values) {
    char *member = (char *)values + setting->offset;
    int small = (int)integer;
    if (setting->kind == EITP_SETTING_NUMBER)
        memcpy(member, &number, sizeof number);
    else if (eitp__setting_size(setting) == sizeof small)
        memcpy(member, &small, sizeof small);
    else
        memcpy(member, &integer, sizeof integer);
}

EITP__PRIVATE int eitp__setting_equal(const eitp_setting *setting, const void *a, const void *b) {
    return setting->kind == EITP_SETTING_NUMBER
               ? eitp__setting_number(setting, a) == eitp__setting_number(setting, b)
               : eitp__setting_integer(setting, a) == eitp__setting_integer(setting, b);
}

/* The name of a choice; its size is 0 if there is no such choice. */
static const char *eitp__setting_choice(const eitp_setting *setting, int64_t value, size_t *size) {
    const char *choice = setting->choices;
    for (int64_t i = 0; i < value && *choice; i++) {
        choice += strcspn(choice, " ");
        choice += strspn(choice, " ");
    }
    *size = value < 0 ? 0 : strcspn(choice, " ");
    return choice;
}

EITP__PRIVATE void eitp__setting_describe(const eitp_setting *setting, const void *values, char *text, size_t size) {
    const int64_t integer = eitp__setting_integer(setting, values);
    char digits[40];
    const char *choice;
    size_t length = 0;
    if (setting->kind == EITP_SETTING_FLAG && (integer == 0 || integer == 1)) {
        snprintf(text, size, "%s", integer ? "true" : "false");
    } else if (setting->kind == EITP_SETTING_NUMBER) {
        eitp__json_format_number(eitp__setting_number(setting, values), digits);
        snprintf(text, size, "%s", digits);
    } else if (setting->kind == EITP_SETTING_UNSIGNED) {
        snprintf(text, size, "%llu", (unsigned long long)integer);
    } else {
        choice = setting->kind == EITP_SETTING_CHOICE ? eitp__setting_choice(setting, integer, &length) : "";
        if (length)
            snprintf(text, size, "%.*s", (int)length, choice);
        else
            snprintf(text, size, "%lld", (long long)integer);
    }
}

void eitp_setting_format(const eitp_setting *setting, const eitp_trainer_config *config, char *text, size_t size) {
    if (text && size)
        *text = 0;
    if (setting && config && text && size)
        eitp__setting_describe(setting, config, text, size);
}

int64_t eitp_setting_integer(const eitp_setting *setting, const eitp_trainer_config *config) {
    if (!setting || !config)
        return 0;
    return setting->kind == EITP_SETTING_NUMBER ? (int64_t)eitp__setting_number(setting, config)
                                                : eitp__setting_integer(setting, config);
}

double eitp_setting_number(const eitp_setting *setting, const eitp_trainer_config *config) {
    return setting && config ? eitp__setting_number(setting, config) : 0;
}

/* ---- Bounds ---- */

/* Formats the choices: "none or windows", "constant, linear or cosine". */
static void eitp__setting_list_choices(const eitp_setting *setting, char *text, size_t size) {
    size_t at = 0, length, next;
    for (int64_t i = 0; at < size; i++) {
        const char *choice = eitp__setting_choice(setting, i, &length);
        if (!length)
            return;
        eitp__setting_choice(setting, i + 1, &next);
        at += (size_t)snprintf(text + at, size - at, "%s%.*s", !i ? "" : next ? ", " : " or ", (int)length, choice);
    }
}

void eitp_setting_bounds(const eitp_setting *setting, char *text, size_t size) {
    int used = 0;
    if (!text || !size)
        return;
    *text = 0;
    if (setting && setting->kind == EITP_SETTING_CHOICE) {
        eitp__setting_list_choices(setting, text, size);
    } else if (setting && setting->kind == EITP_SETTING_FLAG) {
        snprintf(text, size, "true or false");
    } else if (setting) {
        if (setting->min > -EITP__UNBOUNDED)
            used = snprintf(text, size, "%s %.16g", setting->flags & EITP_SETTING_ABOVE ? "above" : "at least",
                            setting->min);
        if (setting->max < EITP__UNBOUNDED && used >= 0 && (size_t)used < size)
            snprintf(text + used, size - (size_t)used, "%s%s %.16g", used ? " and " : "",
                     setting->flags & EITP_SETTING_BELOW ? "below" : "at most", setting->max);
    }
}

/* The bounds of an integer. An UNSIGNED without an upper bound may have any bits: JSON stores it as signed. */
static void eitp__setting_limits(const eitp_setting *setting, int64_t *min, int64_t *max) {
    const int wraps = setting->kind == EITP_SETTING_UNSIGNED && setting->max >= EITP__UNBOUNDED;
    *min = wraps || setting->min <= -EITP__UNBOUNDED ? INT64_MIN : (int64_t)setting->min;
    *max = setting->max >= EITP__UNBOUNDED ? INT64_MAX : (int64_t)setting->max;
}

/* NaN is out of bounds. */
static int eitp__setting_is_within(const eitp_setting *setting, const void *values) {
    const int64_t integer = eitp__setting_integer(setting, values);
    const double number = eitp__setting_number(setting, values);
    int64_t min, max;
    size_t length;
    if (setting->kind == EITP_SETTING_CHOICE) {
        eitp__setting_choice(setting, integer, &length);
        return length > 0;
    }
    if (setting->kind == EITP_SETTING_NUMBER)
        return (setting->flags & EITP_SETTING_ABOVE ? number > setting->min : number >= setting->min) &&
               (setting->flags & EITP_SETTING_BELOW ? number < setting->max : number <= setting->max);
    eitp__setting_limits(setting, &min, &max);
    return integer >= min && integer <= max;
}

static eitp_status eitp__setting_fail(const eitp_setting *setting, double got, eitp_error *error) {
    char bounds[200];
    eitp_setting_bounds(setting, bounds, sizeof bounds);
    return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s must be %s (got %.16g)", setting->name, bounds, got);
}

EITP__PRIVATE eitp_status eitp__setting_check(const eitp_setting *setting, const void *values, eitp_error *error) {
    return eitp__setting_is_within(setting, values)
               ? EITP_OK
               : eitp__setting_fail(setting, eitp__setting_number(setting, values), error);
}

EITP__PRIVATE eitp_status eitp__settings_check(const eitp_trainer_config *config, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < EITP__COUNT(eitp__settings) && !status; i++)
        status = eitp__setting_check(&eitp__settings[i], config, error);
    if (!status && config->micro_batches_per_pass > config->grad_accum)
        status = eitp__fail(error, EITP_ERROR_ARGUMENT,
                            "micro_batches_per_pass must be 0 to grad_accum, which is %lld (got %lld)",
                            (long long)config->grad_accum, (long long)config->micro_batches_per_pass);
    if (!status && config->skip_spikes && !(config->spike_threshold > 0))
        status = eitp__fail(error, EITP_ERROR_ARGUMENT, "skip_spikes needs a spike_threshold above 0 (got %g)",
                            config->spike_threshold);
    return status;
}

eitp_status eitp_setting_set_integer(const eitp_setting *setting, int64_t value, eitp_trainer_config *config,
                                     eitp_error *error) {
    eitp_trainer_config changed;
    eitp_status status;
    if (!setting || !config)
        return eitp__fail_null(error, "eitp_setting_set_integer", "setting and config");
    if (setting->kind == EITP_SETTING_NUMBER)
        return eitp_setting_set_number(setting, (double)value, config, error);
    /* Values that the member cannot hold. */
    if ((setting->kind == EITP_SETTING_UNSIGNED && value < 0) ||
        (eitp__setting_size(setting) == sizeof(int) && (value < 0 || value > INT_MAX)))
        return eitp__setting_fail(setting, (double)value, error);
    changed = *config;
    eitp__setting_store(setting, value, 0, &changed);
    status = eitp__setting_check(setting, &changed, error);
    if (!status)
        *config = changed;
    return status;
}

eitp_status eitp_setting_set_unsigned(const eitp_setting *setting, uint64_t value, eitp_trainer_config *config,
                                      eitp_error *error) {
    eitp_trainer_config changed;
    eitp_status status;
    if (!setting || !config)
        return eitp__fail_null(error, "eitp_setting_set_unsigned", "setting and config");
    if (value <= INT64_MAX)
        return eitp_setting_set_integer(setting, (int64_t)value, config, error);
    if (setting->kind == EITP_SETTING_NUMBER)
        return eitp_setting_set_number(setting, (double)value, config, error);
    if (setting->kind != EITP_SETTING_UNSIGNED)
        return eitp__setting_fail(setting, (double)value, error);
    changed = *config;
    eitp__setting_store(setting, (int64_t)value, 0, &changed);
    status = eitp__setting_check(setting, &changed, error);
    if (!status)
        *config = changed;
    return status;
}

eitp_status eitp_setting_set_number(const eitp_setting *setting, double value, eitp_trainer_config *config,
                                    eitp_error *error) {
    eitp_trainer_config changed;
    eitp_status status;
    if (!setting || !config)
        return eitp__fail_null(error, "eitp_setting_set_number", "setting and config");
    if (setting->kind != EITP_SETTING_NUMBER)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s is an integer; set it with eitp_setting_set_integer",
                          setting->name);
    changed = *config;
    eitp__setting_store(setting, 0, value, &changed);
    status = eitp__setting_check(setting, &changed, error);
    if (!status)
        *config = changed;
    return status;
}

/* ---- JSON ---- */

EITP__PRIVATE void eitp__setting_write(const eitp_setting *setting, const void *values, eitp__buffer *text) {
    const int64_t integer = eitp__setting_integer(setting, values);
    if (setting->kind == EITP_SETTING_NUMBER)
        eitp__json_write_number(text, eitp__setting_number(setting, values));
    else if (setting->kind == EITP_SETTING_FLAG)
        eitp__buffer_add_text(text, integer ? "true" : "false");
    else
        eitp__buffer_format(text, "%lld", (long long)integer);
}

EITP__PRIVATE const char *eitp__setting_name_in(const char *name, const eitp__json *object) {
    static const char *const renamed[][2] = {{"micro_batches_per_pass", "merged"}};
    for (size_t i = 0; i < EITP__COUNT(renamed); i++) {
        if (!strcmp(name, renamed[i][0]) && !eitp__json_member(object, name))
            return eitp__json_member(object, renamed[i][1]) ? renamed[i][1] : name;
    }
    return name;
}

static eitp_status eitp__setting_read_integer(const eitp_setting *setting, const char *name, const eitp__json *object,
                                              void *values, eitp_error *error) {
    int64_t min, max;
    eitp_status status;
    int64_t integer = eitp__setting_integer(setting, values);
    eitp__setting_limits(setting, &min, &max);
    status = eitp__json_get_integer(object, name, min, max, &integer, error);
    eitp__setting_store(setting, integer, 0, values);
    return status;
}

EITP__PRIVATE eitp_status eitp__setting_read(const eitp_setting *setting, const eitp__json *object, void *values,
                                             eitp_error *error) {
    const char *name = eitp__setting_name_in(setting->name, object);
    double number = eitp__setting_number(setting, values);
    int flag = (int)eitp__setting_integer(setting, values);
    eitp_status status;
    if (!eitp__json_member(object, name))
        return setting->flags & EITP_SETTING_OPTIONAL
                   ? EITP_OK
                   : eitp__fail(error, EITP_ERROR_FORMAT, "'%s' is missing", setting->name);
    if (setting->kind == EITP_SETTING_NUMBER) {
        status = eitp__json_get_number(object, name, setting->min, setting->max, &number, error);
        eitp__setting_store(setting, 0, number, values);
    } else if (setting->kind == EITP_SETTING_FLAG) {
        status = eitp__json_get_boolean(object, name, &flag, error);
        eitp__setting_store(setting, flag, 0, values);
    } else {
        status = eitp__setting_read_integer(setting, name, object, values, error);
    }
    /* Excluded bounds are all that can still be violated. */
    if (!status && eitp__setting_check(setting, values, error))
        status = eitp__fail_prefix(error, EITP_ERROR_FORMAT, "line %llu",
                                   (unsigned long long)eitp__json_member(object, name)->line);
    return status;
}
