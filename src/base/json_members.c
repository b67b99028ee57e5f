#include "base/json.h"

#include "base/unicode.h"

const eitp_json *eitp_json_member(const eitp_json *object, const char *name) {
    const size_t size = name ? strlen(name) : 0;
    if (!object || !name || object->kind != EITP_JSON_OBJECT)
        return NULL;
    for (const eitp_json *member = object->first_child; member; member = member->next) {
        if (member->name_size == size && !memcmp(member->name, name, size))
            return member;
    }
    return NULL;
}

/* Returns the member called `name`, or NULL if it is missing or null. */
static const eitp_json *eitp__json_present(const eitp_json *object, const char *name) {
    const eitp_json *member = eitp_json_member(object, name);
    return member && member->kind != EITP_JSON_NULL ? member : NULL;
}

/* Describes a value for a message. */
static const char *eitp__json_describe(const eitp_json *value) {
    static const char *const kinds[] = {"null", "true or false", "a number", "a string", "an array", "an object"};
    if (value->kind == EITP_JSON_NUMBER && !value->is_integer)
        return "a number with a fraction, an exponent or too many digits";
    return kinds[value->kind];
}

EITP__PRIVATE eitp_status eitp__json_get_integer(const eitp_json *object, const char *name, int64_t low, int64_t high,
                                                 int64_t *value, eitp_error *error) {
    const eitp_json *member = eitp__json_present(object, name);
    if (!member)
        return EITP_OK;
    if (member->kind != EITP_JSON_NUMBER || !member->is_integer)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: '%s' must be an integer from %lld to %lld, not %s",
                          (unsigned long long)member->line, name, (long long)low, (long long)high,
                          eitp__json_describe(member));
    if (member->integer < low || member->integer > high)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: '%s' is %lld; it must be an integer from %lld to %lld",
                          (unsigned long long)member->line, name, (long long)member->integer, (long long)low,
                          (long long)high);
    *value = member->integer;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__json_get_number(const eitp_json *object, const char *name, double low, double high,
                                                double *value, eitp_error *error) {
    const eitp_json *member = eitp__json_present(object, name);
    if (!member)
        return EITP_OK;
    if (member->kind != EITP_JSON_NUMBER)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: '%s' must be a number from %g to %g, not %s",
                          (unsigned long long)member->line, name, low, high, eitp__json_describe(member));
    if (member->number < low || member->number > high)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: '%s' is %g; it must be a number from %g to %g",
                          (unsigned long long)member->line, name, member->number, low, high);
    *value = member->number;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__json_get_boolean(const eitp_json *object, const char *name, int *value,
                                                 eitp_error *error) {
    const eitp_json *member = eitp__json_present(object, name);
    if (!member)
        return EITP_OK;
    if (member->kind != EITP_JSON_BOOLEAN)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: '%s' must be true or false, not %s",
                          (unsigned long long)member->line, name, eitp__json_describe(member));
    *value = member->boolean;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__json_get_text(const eitp_json *object, const char *name, const char **value,
                                              eitp_error *error) {
    const eitp_json *member = eitp__json_present(object, name);
    if (!member)
        return EITP_OK;
    if (member->kind != EITP_JSON_STRING)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: '%s' must be a string, not %s",
                          (unsigned long long)member->line, name, eitp__json_describe(member));
    if (memchr(member->text, 0, member->text_size))
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: '%s' must not contain U+0000",
                          (unsigned long long)member->line, name);
    *value = member->text;
    return EITP_OK;
}

EITP__PRIVATE void eitp__json_copy_text(const eitp_json *object, const char *name, char *text, size_t size) {
    const char *value = NULL;
    if (!eitp__json_get_text(object, name, &value, NULL) && value)
        snprintf(text, size, "%s", value);
}

EITP__PRIVATE eitp_status eitp__json_get_numbers(const eitp_json *object, const char *name, size_t least, size_t most,
                                                 double *values, size_t *count, eitp_error *error) {
    const eitp_json *list = eitp_json_member(object, name);
    char range[48];
    snprintf(range, sizeof range, least < most ? "%zu to %zu" : "%zu", least, most);
    if (!list || list->kind != EITP_JSON_ARRAY || list->count < least || list->count > most)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: '%s' must be an array of %s numbers",
                          (unsigned long long)(list ? list->line : object->line), name, range);
    *count = 0;
    for (const eitp_json *item = list->first_child; item; item = item->next) {
        if (item->kind != EITP_JSON_NUMBER || !isfinite(item->number))
            return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: '%s' must hold finite numbers",
                              (unsigned long long)item->line, name);
        values[(*count)++] = item->number;
    }
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__json_get_object(const eitp_json *object, const char *name, const eitp_json **member,
                                                eitp_error *error) {
    *member = eitp_json_member(object, name);
    if (*member && (*member)->kind == EITP_JSON_OBJECT)
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: '%s' must be an object",
                      (unsigned long long)(*member ? (*member)->line : object->line), name);
}

EITP__PRIVATE eitp_status eitp__json_get_fields(const eitp_json *object, const eitp__json_field *fields, size_t count,
                                                void *values, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < count && !status; i++) {
        const eitp__json_field *field = &fields[i];
        void *value = (char *)values + field->offset;
        const int64_t high = isinf(field->high) ? INT64_MAX - 1 : (int64_t)field->high;
        if (field->kind == EITP__JSON_INTEGER)
            status = eitp__json_get_integer(object, field->name, (int64_t)field->low, high, (int64_t *)value, error);
        else if (field->kind == EITP__JSON_NUMBER)
            status = eitp__json_get_number(object, field->name, field->low, field->high, (double *)value, error);
        else
            status = eitp__json_get_boolean(object, field->name, (int *)value, error);
    }
    return status;
}

EITP__PRIVATE const char *eitp__json_list_members(const eitp_json *object, char *text, size_t size) {
    enum { SHOWN = 40 };
    size_t used = (size_t)snprintf(text, size, "%s", object->first_child ? "" : "none");
    for (const eitp_json *member = object->first_child; member && used < size; member = member->next) {
        const size_t shown = eitp__utf8_valid_prefix((const unsigned char *)member->name,
                                                     member->name_size < SHOWN ? member->name_size : (size_t)SHOWN);
        used += (size_t)snprintf(text + used, size - used, "%s%.*s", used ? ", " : "", (int)shown, member->name);
    }
    if (used >= size)
        memcpy(text + eitp__utf8_valid_prefix((const unsigned char *)text, size - 4), "...", 4);
    for (char *at = text; *at; at++)
        *at = (unsigned char)*at < ' ' ? ' ' : *at;
    return text;
}
