/* Parses settings from the text of a name=value argument. */
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
    return *text && !*end && !text[strspn(text, "0123456789+-.eE")];
}

static int eitp__setting_read_whole(const char *text, int64_t *integer) {
    char *end;
    errno = 0;
    *integer = strtoll(text, &end, 10);
    return *text && !*end && !errno && !text[strspn(text, "0123456789+-")];
}

/* 0, 1, or -1 for anything else. */
static int64_t eitp__setting_find_flag(const char *text) {
    return !strcmp(text, "false") ? 0 : !strcmp(text, "true") ? 1 : -1;
}

EITP__PRIVATE eitp_status eitp__setting_set_from_text(const eitp_setting *setting, const char *value, void *config,
                                                      eitp_error *error) {
    char bounds[200];
    int64_t integer = -1;
    double number = 0;
    int is_valid;
    if (setting->kind == EITP_SETTING_NUMBER)
        is_valid = eitp__setting_read_number(value, &number);
    else if (setting->kind == EITP_SETTING_CHOICE)
        is_valid = (integer = eitp__setting_find_choice(setting, value)) >= 0;
    else if (setting->kind == EITP_SETTING_FLAG)
        is_valid = (integer = eitp__setting_find_flag(value)) >= 0;
    else
        is_valid = eitp__setting_read_whole(value, &integer);
    if (!is_valid) {
        eitp_setting_bounds(setting, bounds, sizeof bounds);
        return eitp__setting_fail_value(setting->name, *bounds ? bounds : "a whole number", value, error);
    }
    return setting->kind == EITP_SETTING_NUMBER ? eitp_setting_set_number(setting, number, config, error)
                                                : eitp_setting_set_integer(setting, integer, config, error);
}
