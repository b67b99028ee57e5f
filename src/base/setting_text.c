/* Sets settings from text: a name=value argument, a JSON number, or a string from a program. */
#include "base/setting_table.h"

EITP__PRIVATE int eitp__setting_has_name(const char *name, const char *given) {
    while (*name && (*name == *given || (*name == '_' && *given == '-'))) {
        name++;
        given++;
    }
    return !*name && !*given;
}

EITP__PRIVATE eitp_status eitp__setting_fail_value(const char *name, const char *bounds, const char *value,
                                                   eitp_error *error) {
    return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s must be %s (got '%.40s')", name, bounds, value);
}

EITP__PRIVATE int eitp__setting_read_number(const char *text, double *number) {
    char *end;
    *number = strtod(text, &end);
    return *text && !*end && isfinite(*number) && !text[strspn(text, "0123456789+-.eE")];
}

/* Reads a whole number, which is -integer if *is_negative; returns 0 if the text is anything else, or exceeds 64
   bits. */
static int eitp__setting_read_whole(const char *text, uint64_t *integer, int *is_negative) {
    const char *digits = text + (*text == '-' || *text == '+');
    char *end;
    *is_negative = *text == '-';
    errno = 0;
    *integer = strtoull(digits, &end, 10);
    return *digits >= '0' && *digits <= '9' && !*end && !errno && !(*is_negative && *integer > INT64_MAX);
}

static eitp_status eitp__setting_set_whole(const eitp_setting *setting, const char *value, void *config,
                                           eitp_error *error) {
    uint64_t integer;
    int is_negative;
    eitp_status status = EITP_OK;
    if (eitp__setting_read_whole(value, &integer, &is_negative))
        return is_negative ? eitp_setting_set_integer(setting, -(int64_t)integer, config, error)
                           : eitp_setting_set_unsigned(setting, integer, config, error);
    if (!(setting->flags & EITP_SETTING_BYTES))
        return eitp__setting_fail_value(setting->name, "a whole number", value, error);
    status = eitp_parse_bytes(value, &integer, error);
    return status ? eitp__fail_prefix(error, status, "%s", setting->name)
                  : eitp_setting_set_unsigned(setting, integer, config, error);
}

static eitp_status eitp__setting_set_choice(const eitp_setting *setting, const char *value, void *config,
                                            eitp_error *error) {
    const int64_t choice = eitp__setting_find_choice(setting, value);
    return choice < 0 ? eitp__setting_fail_choice(setting, value, error)
                      : eitp_setting_set_integer(setting, choice, config, error);
}

static eitp_status eitp__setting_set_flag(const eitp_setting *setting, const char *value, void *config,
                                          eitp_error *error) {
    const int is_true = !strcmp(value, "true");
    return is_true || !strcmp(value, "false") ? eitp_setting_set_integer(setting, is_true, config, error)
                                              : eitp__setting_fail_value(setting->name, "true or false", value, error);
}

eitp_status eitp_setting_set_text(const eitp_setting *setting, const char *value, void *config, eitp_error *error) {
    double number;
    if (!setting || !config || (!value && setting->kind != EITP_SETTING_TEXT))
        return eitp__fail_null(error, "eitp_setting_set_text", "setting, value and config");
    switch (setting->kind) {
    case EITP_SETTING_TEXTS:
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s is a list; set it with eitp_setting_set_texts",
                          setting->name);
    case EITP_SETTING_TEXT:
        if (value && !*value)
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s must not be empty", setting->name);
        if (setting->choices && value && eitp__setting_find_choice(setting, value) < 0)
            return eitp__setting_fail_choice(setting, value, error);
        memcpy((char *)config + setting->offset, (const void *)&value, sizeof value);
        return EITP_OK;
    case EITP_SETTING_NUMBER:
        return eitp__setting_read_number(value, &number)
                   ? eitp_setting_set_number(setting, number, config, error)
                   : eitp__setting_fail_value(setting->name, "a number", value, error);
    case EITP_SETTING_CHOICE:
        return eitp__setting_set_choice(setting, value, config, error);
    case EITP_SETTING_FLAG:
        return eitp__setting_set_flag(setting, value, config, error);
    default:
        return eitp__setting_set_whole(setting, value, config, error);
    }
}
