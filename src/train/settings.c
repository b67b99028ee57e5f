#include "train/settings.h"

#define EITP__SETTING(name, kind, member, low, high, flags, difference, words, help)                                   \
    {                                                                                                                  \
        name, EITP_SETTING_##kind, offsetof(eitp_trainer_config, member), low, high, flags,                            \
            EITP_DIFFERENCE_##difference, words, help                                                                  \
    }

/* In the order of trainer_state.json. */
static const eitp_setting eitp__settings[] = {
    EITP__SETTING("dense_rows", FLAG, dense_rows, 0, 1, EITP_SETTING_OPTIONAL, REFUSED, NULL,
                  "no gaps between the micro-batches of a pass: a little faster where batch x block is odd, but bits "
                  "depend on how many a pass takes"),
    EITP__SETTING("batch_size", INTEGER, batch_size, 1, 1 << 20, 0, REFUSED, NULL, "sequences in a micro-batch"),
    EITP__SETTING("grad_accum", INTEGER, grad_accum, 1, 1 << 20, 0, REFUSED, NULL, "micro-batches in a step"),
    EITP__SETTING("micro_batches_per_pass", INTEGER, micro_batches_per_pass, 0, 1 << 20, 0, ACCEPTED, NULL,
                  "micro-batches that one pass takes together; 0: as many as memory allows"),
    EITP__SETTING("seed", UNSIGNED, seed, 0, EITP__UNBOUNDED, 0, REFUSED, NULL, "of dropout and shuffling"),
    EITP__SETTING("shuffle", CHOICE, shuffle, 0, 1, 0, REFUSED, "none windows",
                  "order of the training windows in an epoch"),
    EITP__SETTING("lr_schedule", CHOICE, schedule.kind, 0, 3, 0, LOGGED, "constant linear cosine cosine_with_restarts",
                  "course of the learning rate after warm-up"),
    EITP__SETTING("lr_cycles", INTEGER, schedule.cycles, 1, EITP__LARGEST_COUNT, EITP_SETTING_OPTIONAL, LOGGED, NULL,
                  "cycles of cosine_with_restarts"),
    EITP__SETTING("warmup_steps", INTEGER, schedule.warmup, 0, EITP__LARGEST_COUNT, 0, LOGGED, NULL,
                  "steps in which the learning rate rises to its peak"),
    EITP__SETTING("schedule_steps", INTEGER, schedule.steps, 0, EITP__LARGEST_COUNT, 0, LOGGED, NULL,
                  "step at which the schedule ends"),
    EITP__SETTING("last_sample", UNSIGNED, last_sample, 0, EITP__LARGEST_COUNT, 0, LOGGED, NULL,
                  "samples after which training stops; 0: never"),
    EITP__SETTING("max_grad_norm", NUMBER, max_grad_norm, 0, 1e30, 0, LOGGED, NULL,
                  "clip the gradient to this norm; 0: never"),
    EITP__SETTING("beta1", NUMBER, adamw.beta1, 0, 1, EITP_SETTING_BELOW, LOGGED, NULL,
                  "AdamW's first decay rate; the momentum of sgd"),
    EITP__SETTING("beta2", NUMBER, adamw.beta2, 0, 1, EITP_SETTING_BELOW, LOGGED, NULL, "AdamW's second decay rate"),
    EITP__SETTING("epsilon", NUMBER, adamw.epsilon, 0, 1, EITP_SETTING_ABOVE, LOGGED, NULL,
                  "what AdamW adds to the denominator"),
    EITP__SETTING("weight_decay", NUMBER, adamw.weight_decay, 0, 1000, 0, LOGGED, NULL,
                  "decoupled, as AdamW's, of matrices and embeddings only"),
    EITP__SETTING("lr", NUMBER, schedule.peak, 0, 1000, 0, LOGGED, NULL, "peak learning rate"),
    EITP__SETTING("final_lr", NUMBER, schedule.final, 0, 1000, 0, LOGGED, NULL,
                  "learning rate that the schedule ends at"),
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
    char *place = (char *)values + setting->offset;
    int small = (int)integer;
    if (setting->kind == EITP_SETTING_NUMBER)
        memcpy(place, &number, sizeof number);
    else if (eitp__setting_size(setting) == sizeof small)
        memcpy(place, &small, sizeof small);
    else
        memcpy(place, &integer, sizeof integer);
}

EITP__PRIVATE int eitp__setting_equal(const eitp_setting *setting, const void *a, const void *b) {
    return setting->kind == EITP_SETTING_NUMBER
               ? eitp__setting_number(setting, a) == eitp__setting_number(setting, b)
               : eitp__setting_integer(setting, a) == eitp__setting_integer(setting, b);
}

/* The word of a choice; its size is 0 where there are not so many. */
static const char *eitp__setting_word(const eitp_setting *setting, int64_t value, size_t *size) {
    const char *word = setting->words;
    for (int64_t i = 0; i < value && *word; i++) {
        word += strcspn(word, " ");
        word += strspn(word, " ");
    }
    *size = value < 0 ? 0 : strcspn(word, " ");
    return word;
}

EITP__PRIVATE void eitp__setting_describe(const eitp_setting *setting, const void *values, char *text, size_t size) {
    const int64_t integer = eitp__setting_integer(setting, values);
    char digits[40];
    const char *word;
    size_t length = 0;
    if (setting->kind == EITP_SETTING_FLAG && (integer == 0 || integer == 1)) {
        snprintf(text, size, "%s", integer ? "true" : "false");
    } else if (setting->kind == EITP_SETTING_NUMBER) {
        eitp__json_format_number(eitp__setting_number(setting, values), digits);
        snprintf(text, size, "%s", digits);
    } else if (setting->kind == EITP_SETTING_UNSIGNED) {
        snprintf(text, size, "%llu", (unsigned long long)integer);
    } else {
        word = setting->kind == EITP_SETTING_CHOICE ? eitp__setting_word(setting, integer, &length) : "";
        if (length)
            snprintf(text, size, "%.*s", (int)length, word);
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

/* "none or windows", "constant, linear or cosine" */
static void eitp__setting_list_words(const eitp_setting *setting, char *text, size_t size) {
    size_t at = 0, length, next;
    for (int64_t i = 0; at < size; i++) {
        const char *word = eitp__setting_word(setting, i, &length);
        if (!length)
            return;
        eitp__setting_word(setting, i + 1, &next);
        at += (size_t)snprintf(text + at, size - at, "%s%.*s", !i ? "" : next ? ", " : " or ", (int)length, word);
    }
}

void eitp_setting_bounds(const eitp_setting *setting, char *text, size_t size) {
    int used = 0;
    if (!text || !size)
        return;
    *text = 0;
    if (setting && setting->kind == EITP_SETTING_CHOICE) {
        eitp__setting_list_words(setting, text, size);
    } else if (setting && setting->kind == EITP_SETTING_FLAG) {
        snprintf(text, size, "true or false");
    } else if (setting) {
        if (setting->low > -EITP__UNBOUNDED)
            used = snprintf(text, size, "%s %.16g", setting->flags & EITP_SETTING_ABOVE ? "above" : "at least",
                            setting->low);
        if (setting->high < EITP__UNBOUNDED && used >= 0 && (size_t)used < size)
            snprintf(text + used, size - (size_t)used, "%s%s %.16g", used ? " and " : "",
                     setting->flags & EITP_SETTING_BELOW ? "below" : "at most", setting->high);
    }
}

/* The bounds of integers. An unsigned one without an upper bound may have any bits: JSON has it as a signed one. */
static void eitp__setting_limits(const eitp_setting *setting, int64_t *low, int64_t *high) {
    const int wraps = setting->kind == EITP_SETTING_UNSIGNED && setting->high >= EITP__UNBOUNDED;
    *low = wraps || setting->low <= -EITP__UNBOUNDED ? INT64_MIN : (int64_t)setting->low;
    *high = setting->high >= EITP__UNBOUNDED ? INT64_MAX : (int64_t)setting->high;
}

/* A value that is not a number is within no bounds. */
static int eitp__setting_is_within(const eitp_setting *setting, const void *values) {
    const int64_t integer = eitp__setting_integer(setting, values);
    const double number = eitp__setting_number(setting, values);
    int64_t low, high;
    size_t length;
    if (setting->kind == EITP_SETTING_CHOICE) {
        eitp__setting_word(setting, integer, &length);
        return length > 0;
    }
    if (setting->kind == EITP_SETTING_NUMBER)
        return (setting->flags & EITP_SETTING_ABOVE ? number > setting->low : number >= setting->low) &&
               (setting->flags & EITP_SETTING_BELOW ? number < setting->high : number <= setting->high);
    eitp__setting_limits(setting, &low, &high);
    return integer >= low && integer <= high;
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
    /* What the member cannot hold. */
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

eitp_status eitp_setting_set_number(const eitp_setting *setting, double value, eitp_trainer_config *config,
                                    eitp_error *error) {
    eitp_trainer_config changed;
    eitp_status status;
    if (!setting || !config)
        return eitp__fail_null(error, "eitp_setting_set_number", "setting and config");
    if (setting->kind != EITP_SETTING_NUMBER)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s takes integers (see eitp_setting_set_integer)",
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

static eitp_status eitp__setting_read_integer(const eitp_setting *setting, const eitp__json *object, void *values,
                                              eitp_error *error) {
    int64_t low, high;
    eitp_status status;
    int64_t integer = eitp__setting_integer(setting, values);
    eitp__setting_limits(setting, &low, &high);
    status = eitp__json_get_integer(object, setting->name, low, high, &integer, error);
    eitp__setting_store(setting, integer, 0, values);
    return status;
}

EITP__PRIVATE eitp_status eitp__setting_read(const eitp_setting *setting, const eitp__json *object, void *values,
                                             eitp_error *error) {
    double number = eitp__setting_number(setting, values);
    int flag = (int)eitp__setting_integer(setting, values);
    eitp_status status;
    if (!eitp__json_member(object, setting->name))
        return setting->flags & EITP_SETTING_OPTIONAL
                   ? EITP_OK
                   : eitp__fail(error, EITP_ERROR_FORMAT, "'%s' is missing", setting->name);
    if (setting->kind == EITP_SETTING_NUMBER) {
        status = eitp__json_get_number(object, setting->name, setting->low, setting->high, &number, error);
        eitp__setting_store(setting, 0, number, values);
    } else if (setting->kind == EITP_SETTING_FLAG) {
        status = eitp__json_get_boolean(object, setting->name, &flag, error);
        eitp__setting_store(setting, flag, 0, values);
    } else {
        status = eitp__setting_read_integer(setting, object, values, error);
    }
    /* What is left are bounds that are excluded. */
    if (!status && eitp__setting_check(setting, values, error))
        status = eitp__fail_prefix(error, EITP_ERROR_FORMAT, "line %llu",
                                   (unsigned long long)eitp__json_member(object, setting->name)->line);
    return status;
}
