#include "base/setting_table.h"

/* ---- Values ---- */

/* Choices are read and written as int, and sizes as uint64_t if they have that width. */
typedef char eitp__setting_sizes[sizeof(eitp_setting_kind) == sizeof(int) && sizeof(int) == sizeof(int32_t) ? 1 : -1];

static int eitp__setting_is_text(const eitp_setting *setting) {
    return setting->kind == EITP_SETTING_TEXT || setting->kind == EITP_SETTING_TEXTS;
}

static int64_t eitp__setting_integer(const eitp_setting *setting, const void *values) {
    int64_t integer = 0;
    int32_t small = 0;
    if (eitp__setting_is_text(setting))
        return 0;
    if (setting->size == sizeof small) {
        memcpy(&small, (const char *)values + setting->offset, sizeof small);
        return setting->kind == EITP_SETTING_UNSIGNED ? (int64_t)(uint32_t)small : small;
    }
    memcpy(&integer, (const char *)values + setting->offset, sizeof integer);
    return integer;
}

EITP__PRIVATE const char *eitp__setting_text(const eitp_setting *setting, const void *values) {
    const char *text;
    memcpy((void *)&text, (const char *)values + setting->offset, sizeof text);
    return text;
}

EITP__PRIVATE eitp_text_list eitp__setting_texts(const eitp_setting *setting, const void *values) {
    eitp_text_list list;
    memcpy(&list, (const char *)values + setting->offset, sizeof list);
    return list;
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
    const int32_t small = (int32_t)integer;
    if (setting->kind == EITP_SETTING_NUMBER)
        memcpy(member, &number, sizeof number);
    else if (setting->size == sizeof small)
        memcpy(member, &small, sizeof small);
    else
        memcpy(member, &integer, sizeof integer);
}

static int eitp__texts_equal(const char *a, const char *b) {
    return a && b ? !strcmp(a, b) : a == b;
}

static int eitp__lists_equal(eitp_text_list a, eitp_text_list b) {
    size_t i = 0;
    while (a.count == b.count && i < a.count && eitp__texts_equal(a.texts[i], b.texts[i]))
        i++;
    return a.count == b.count && i == a.count;
}

EITP__PRIVATE int eitp__setting_equal(const eitp_setting *setting, const void *a, const void *b) {
    if (setting->kind == EITP_SETTING_TEXT)
        return eitp__texts_equal(eitp__setting_text(setting, a), eitp__setting_text(setting, b));
    if (setting->kind == EITP_SETTING_TEXTS)
        return eitp__lists_equal(eitp__setting_texts(setting, a), eitp__setting_texts(setting, b));
    return setting->kind == EITP_SETTING_NUMBER
               ? eitp__setting_number(setting, a) == eitp__setting_number(setting, b)
               : eitp__setting_integer(setting, a) == eitp__setting_integer(setting, b);
}

/* ---- Defaults ---- */

EITP__PRIVATE void eitp__settings_reset(const eitp_setting *settings, size_t count, void *config) {
    for (size_t i = 0; i < count; i++) {
        const eitp_setting *setting = &settings[i];
        if (setting->kind == EITP_SETTING_TEXT)
            memcpy((char *)config + setting->offset, (const void *)&setting->text, sizeof setting->text);
        else if (setting->kind == EITP_SETTING_TEXTS)
            memset((char *)config + setting->offset, 0, setting->size);
        else
            eitp__setting_store(setting, (int64_t)setting->value, setting->value, config);
    }
}

/* ---- As text ---- */

/* Returns the name of a choice; its size is 0 if there is no such choice. */
static const char *eitp__setting_choice(const eitp_setting *setting, int64_t value, size_t *size) {
    const char *choice = setting->choices;
    for (int64_t i = 0; i < value && *choice; i++) {
        choice += strcspn(choice, " ");
        choice += strspn(choice, " ");
    }
    *size = value < 0 ? 0 : strcspn(choice, " ");
    return choice;
}

EITP__PRIVATE int64_t eitp__setting_find_choice(const eitp_setting *setting, const char *name) {
    size_t size;
    for (int64_t i = 0;; i++) {
        const char *choice = eitp__setting_choice(setting, i, &size);
        if (!size)
            return -1;
        if (strlen(name) == size && !memcmp(choice, name, size))
            return i;
    }
}

static void eitp__describe_texts(eitp_text_list list, char *text, size_t size) {
    size_t used = 0;
    for (size_t i = 0; i < list.count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", list.texts[i]);
}

static void eitp__describe_setting(const eitp_setting *setting, const void *values, char *text, size_t size) {
    const int64_t integer = eitp__setting_integer(setting, values);
    char digits[40];
    const char *choice;
    size_t length = 0;
    if (setting->kind == EITP_SETTING_FLAG && (integer == 0 || integer == 1)) {
        snprintf(text, size, "%s", integer ? "true" : "false");
    } else if (setting->kind == EITP_SETTING_TEXT) {
        choice = eitp__setting_text(setting, values);
        snprintf(text, size, "%s", choice ? choice : "");
    } else if (setting->kind == EITP_SETTING_TEXTS) {
        eitp__describe_texts(eitp__setting_texts(setting, values), text, size);
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

void eitp_setting_format(const eitp_setting *setting, const void *config, char *text, size_t size) {
    if (text && size)
        *text = 0;
    if (setting && config && text && size)
        eitp__describe_setting(setting, config, text, size);
}

int64_t eitp_setting_integer(const eitp_setting *setting, const void *config) {
    if (!setting || !config)
        return 0;
    return setting->kind == EITP_SETTING_NUMBER ? (int64_t)eitp__setting_number(setting, config)
                                                : eitp__setting_integer(setting, config);
}

double eitp_setting_number(const eitp_setting *setting, const void *config) {
    return setting && config ? eitp__setting_number(setting, config) : 0;
}

/* ---- Bounds ---- */

EITP__PRIVATE void eitp__setting_list_choices(const eitp_setting *setting, const char *last, char *text, size_t size) {
    size_t at = 0, length, next;
    for (int64_t i = 0; at < size; i++) {
        const char *choice = eitp__setting_choice(setting, i, &length);
        if (!length)
            return;
        eitp__setting_choice(setting, i + 1, &next);
        at += (size_t)snprintf(text + at, size - at, "%s%.*s", !i ? "" : next ? ", " : last, (int)length, choice);
    }
}

void eitp_setting_bounds(const eitp_setting *setting, char *text, size_t size) {
    int used = 0;
    if (!text || !size)
        return;
    *text = 0;
    if (setting && setting->choices) {
        eitp__setting_list_choices(setting, " or ", text, size);
    } else if (setting && setting->kind == EITP_SETTING_FLAG) {
        snprintf(text, size, "true or false");
    } else if (setting && !eitp__setting_is_text(setting)) {
        if (setting->min > -EITP__UNBOUNDED)
            used = snprintf(text, size, "%s %.16g", setting->flags & EITP_SETTING_ABOVE ? "above" : "at least",
                            setting->min);
        if (setting->max < EITP__UNBOUNDED && used >= 0 && (size_t)used < size)
            snprintf(text + used, size - (size_t)used, "%s%s %.16g", used ? " and " : "",
                     setting->flags & EITP_SETTING_BELOW ? "below" : "at most", setting->max);
    }
}

/* Sets the bounds of an integer. An UNSIGNED without an upper bound may have any bits: JSON stores it as signed. */
static void eitp__setting_limits(const eitp_setting *setting, int64_t *min, int64_t *max) {
    const int wraps = setting->kind == EITP_SETTING_UNSIGNED && setting->max >= EITP__UNBOUNDED;
    *min = wraps || setting->min <= -EITP__UNBOUNDED ? INT64_MIN : (int64_t)setting->min;
    *max = setting->max >= EITP__UNBOUNDED ? INT64_MAX : (int64_t)setting->max;
}

/* True if the value is within the bounds; NaN is not. */
static int eitp__setting_is_within(const eitp_setting *setting, const void *values) {
    const int64_t integer = eitp__setting_integer(setting, values);
    const double number = eitp__setting_number(setting, values);
    int64_t min, max;
    size_t length;
    if (setting->kind == EITP_SETTING_TEXT && setting->choices)
        return !eitp__setting_text(setting, values) ||
               eitp__setting_find_choice(setting, eitp__setting_text(setting, values)) >= 0;
    if (eitp__setting_is_text(setting))
        return 1;
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

EITP__PRIVATE eitp_status eitp__setting_fail_choice(const eitp_setting *setting, const char *value, eitp_error *error) {
    char list[400];
    eitp__setting_list_choices(setting, ", ", list, sizeof list);
    return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s: invalid value '%.40s' (choose from %s)", setting->name, value,
                      list);
}

EITP__PRIVATE eitp_status eitp__setting_check(const eitp_setting *setting, const void *values, eitp_error *error) {
    if (eitp__setting_is_within(setting, values))
        return EITP_OK;
    if (setting->kind == EITP_SETTING_TEXT)
        return eitp__setting_fail_choice(setting, eitp__setting_text(setting, values), error);
    return eitp__setting_fail(setting, eitp__setting_number(setting, values), error);
}

EITP__PRIVATE eitp_status eitp__settings_check(const eitp_setting *settings, size_t count, const void *config,
                                               eitp_error *error) {
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < count && !status; i++)
        status = eitp__setting_check(&settings[i], config, error);
    return status;
}

/* ---- Setting ---- */

/* Stores a value if it is within the bounds; otherwise leaves `config` unchanged. */
static eitp_status eitp__setting_replace(const eitp_setting *setting, int64_t integer, double number, void *config,
                                         eitp_error *error) {
    const int64_t old_integer = eitp__setting_integer(setting, config);
    const double old_number = eitp__setting_number(setting, config);
    eitp_status status;
    eitp__setting_store(setting, integer, number, config);
    status = eitp__setting_check(setting, config, error);
    if (status)
        eitp__setting_store(setting, old_integer, old_number, config);
    return status;
}

static eitp_status eitp__refuse_text(const eitp_setting *setting, eitp_error *error) {
    return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s holds text; set it with eitp_setting_set_text or _texts",
                      setting->name);
}

eitp_status eitp_setting_set_integer(const eitp_setting *setting, int64_t value, void *config, eitp_error *error) {
    if (!setting || !config)
        return eitp__fail_null(error, "eitp_setting_set_integer", "setting and config");
    if (eitp__setting_is_text(setting))
        return eitp__refuse_text(setting, error);
    if (setting->kind == EITP_SETTING_NUMBER)
        return eitp_setting_set_number(setting, (double)value, config, error);
    /* The member cannot hold these values. */
    if ((setting->kind == EITP_SETTING_UNSIGNED && value < 0) ||
        (setting->size == sizeof(int32_t) && (value < INT32_MIN || value > INT32_MAX)))
        return eitp__setting_fail(setting, (double)value, error);
    return eitp__setting_replace(setting, value, 0, config, error);
}

eitp_status eitp_setting_set_unsigned(const eitp_setting *setting, uint64_t value, void *config, eitp_error *error) {
    if (!setting || !config)
        return eitp__fail_null(error, "eitp_setting_set_unsigned", "setting and config");
    if (eitp__setting_is_text(setting) || value <= INT64_MAX)
        return eitp_setting_set_integer(setting, (int64_t)value, config, error);
    if (setting->kind == EITP_SETTING_NUMBER)
        return eitp_setting_set_number(setting, (double)value, config, error);
    if (setting->kind != EITP_SETTING_UNSIGNED || setting->size < sizeof value)
        return eitp__setting_fail(setting, (double)value, error);
    return eitp__setting_replace(setting, (int64_t)value, 0, config, error);
}

eitp_status eitp_setting_set_number(const eitp_setting *setting, double value, void *config, eitp_error *error) {
    if (!setting || !config)
        return eitp__fail_null(error, "eitp_setting_set_number", "setting and config");
    if (eitp__setting_is_text(setting))
        return eitp__refuse_text(setting, error);
    if (setting->kind != EITP_SETTING_NUMBER)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s is an integer; set it with eitp_setting_set_integer",
                          setting->name);
    return eitp__setting_replace(setting, 0, value, config, error);
}

eitp_status eitp_setting_set_texts(const eitp_setting *setting, const char *const *texts, size_t count, void *config,
                                   eitp_error *error) {
    eitp_text_list list;
    if (!setting || !config || (count && !texts))
        return eitp__fail_null(error, "eitp_setting_set_texts", "setting, texts and config");
    if (setting->kind != EITP_SETTING_TEXTS)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s is not a list of strings", setting->name);
    list.texts = texts;
    list.count = count;
    memcpy((char *)config + setting->offset, &list, sizeof list);
    return EITP_OK;
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

EITP__PRIVATE const char *eitp__setting_name_in(const char *name, const eitp_json *object) {
    static const char *const renamed[][2] = {{"micro_batches_per_pass", "merged"}};
    for (size_t i = 0; i < EITP__COUNT(renamed); i++) {
        if (!strcmp(name, renamed[i][0]) && !eitp_json_member(object, name))
            return eitp_json_member(object, renamed[i][1]) ? renamed[i][1] : name;
    }
    return name;
}

static eitp_status eitp__setting_read_integer(const eitp_setting *setting, const char *name, const eitp_json *object,
                                              void *values, eitp_error *error) {
    int64_t min, max;
    eitp_status status;
    int64_t integer = eitp__setting_integer(setting, values);
    eitp__setting_limits(setting, &min, &max);
    status = eitp__json_get_integer(object, name, min, max, &integer, error);
    eitp__setting_store(setting, integer, 0, values);
    return status;
}

EITP__PRIVATE eitp_status eitp__setting_read(const eitp_setting *setting, const eitp_json *object, void *values,
                                             eitp_error *error) {
    const char *name = eitp__setting_name_in(setting->name, object);
    double number = eitp__setting_number(setting, values);
    int flag = (int)eitp__setting_integer(setting, values);
    eitp_status status;
    if (!eitp_json_member(object, name))
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
    /* Only excluded bounds can still be violated. */
    if (!status && eitp__setting_check(setting, values, error))
        status = eitp__fail_prefix(error, EITP_ERROR_FORMAT, "line %llu",
                                   (unsigned long long)eitp_json_member(object, name)->line);
    return status;
}
