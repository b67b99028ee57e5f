#include "records/values.h"

#include "records/values.h"
#include "records/values.h"

/* ---- Building ---- */

static eitp_value eitp__value_of(const char *name, eitp_value_kind kind) {
    eitp_value value = EITP__ZERO;
    value.name = name;
    value.kind = kind;
    return value;
}

EITP__PRIVATE eitp_value eitp__number_value(const char *name, double number) {
    eitp_value value = eitp__value_of(name, EITP_VALUE_NUMBER);
    value.number = number;
    return value;
}

EITP__PRIVATE eitp_value eitp__integer_value(const char *name, int64_t integer) {
    eitp_value value = eitp__value_of(name, EITP_VALUE_INTEGER);
    value.integer = integer;
    return value;
}

EITP__PRIVATE eitp_value eitp__boolean_value(const char *name, int boolean) {
    eitp_value value = eitp__value_of(name, EITP_VALUE_BOOLEAN);
    value.integer = boolean != 0;
    return value;
}

EITP__PRIVATE eitp_value eitp__text_value(const char *name, const char *text) {
    eitp_value value = eitp__value_of(name, EITP_VALUE_TEXT);
    value.text = text;
    return value;
}

/* Adds a value. The last one is overwritten when the list is full. */
static eitp_value *eitp__add_value(eitp__values *list, eitp_value added) {
    eitp_value *value = &list->values[list->count < EITP__RECORD_VALUES ? list->count++ : EITP__RECORD_VALUES - 1];
    *value = added;
    return value;
}

static void eitp__compose_name(eitp__values *list, eitp_value *value, const char *prefix, const char *name,
                               const char *suffix) {
    char *text = list->names[value - list->values];
    snprintf(text, EITP__RECORD_NAME_SIZE, "%s%s%s", prefix, name, suffix);
    value->name = text;
}

EITP__PRIVATE void eitp__add_number(eitp__values *list, const char *name, double number) {
    eitp__add_value(list, eitp__number_value(name, number));
}

EITP__PRIVATE void eitp__add_integer(eitp__values *list, const char *name, int64_t integer) {
    eitp__add_value(list, eitp__integer_value(name, integer));
}

EITP__PRIVATE void eitp__add_boolean(eitp__values *list, const char *name, int boolean) {
    eitp__add_value(list, eitp__boolean_value(name, boolean));
}

EITP__PRIVATE void eitp__add_text(eitp__values *list, const char *name, const char *text) {
    eitp__add_value(list, eitp__text_value(name, text));
}

EITP__PRIVATE void eitp__add_named(eitp__values *list, const char *prefix, const char *name, const char *suffix,
                                   double number) {
    eitp__compose_name(list, eitp__add_value(list, eitp__number_value("", number)), prefix, name, suffix);
}

EITP__PRIVATE void eitp__add_seconds(eitp__values *list, const char *prefix, const char *name, double seconds) {
    eitp__add_named(list, prefix, name, "", floor(seconds * 1e9 + 0.5) / 1e9);
}

EITP__PRIVATE void eitp__add_named_boolean(eitp__values *list, const char *prefix, const char *name, int boolean) {
    eitp__compose_name(list, eitp__add_value(list, eitp__boolean_value("", boolean)), prefix, name, "");
}

EITP__PRIVATE void eitp__add_named_integer(eitp__values *list, const char *prefix, const char *name, int64_t integer) {
    eitp__compose_name(list, eitp__add_value(list, eitp__integer_value("", integer)), prefix, name, "");
}

/* ---- As text ---- */

EITP__PRIVATE int eitp__record_text_init(eitp__buffer *text, const eitp_host *host) {
    eitp__buffer_init(text, host);
    return eitp__buffer_reserve(text, EITP__RECORD_TEXT);
}

EITP__PRIVATE void eitp__record_write_value(eitp__buffer *text, const eitp_value *value) {
    if (value->kind == EITP_VALUE_INTEGER)
        eitp__buffer_format(text, "%lld", (long long)value->integer);
    else if (value->kind == EITP_VALUE_BOOLEAN)
        eitp__buffer_add_text(text, value->integer ? "true" : "false");
    else if (value->kind == EITP_VALUE_TEXT)
        eitp__json_write_text(text, value->text, strlen(value->text));
    else
        eitp__json_write_number(text, value->number);
}

EITP__PRIVATE void eitp__record_write_member(eitp__buffer *text, const eitp_value *value) {
    eitp__json_write_text(text, value->name, strlen(value->name));
    eitp__buffer_add_text(text, ": ");
    eitp__record_write_value(text, value);
}

EITP__PRIVATE void eitp__record_write_time(eitp__buffer *text, double seconds) {
    eitp__json_write_number(text, floor(seconds * 1000 + 0.5) / 1000);
}

EITP__PRIVATE const eitp_value *eitp__record_find(const eitp_record *record, const char *name) {
    for (size_t i = 0; i < record->count; i++) {
        if (!strcmp(record->values[i].name, name))
            return &record->values[i];
    }
    return NULL;
}

/* Appends the members of an object, which may be NULL or empty. */
static void eitp__record_write_members(eitp__buffer *line, const char *object) {
    const size_t size = object ? strlen(object) : 0;
    if (size <= 2 || strspn(object + 1, " ") == size - 2)
        return;
    eitp__buffer_add_text(line, ", ");
    eitp__buffer_add(line, object + 1, size - 2);
}

EITP__PRIVATE void eitp__record_write(eitp__buffer *text, const eitp_record *record, const char *const *objects,
                                      size_t count) {
    eitp__buffer_format(text, "{\"step\": %lld", (long long)record->step);
    for (size_t i = 0; i < record->count; i++) {
        eitp__buffer_add_text(text, ", ");
        eitp__record_write_member(text, &record->values[i]);
    }
    for (size_t i = 0; i < count; i++)
        eitp__record_write_members(text, objects[i]);
    eitp__buffer_add_text(text, ", \"time\": ");
    eitp__record_write_time(text, record->time);
    eitp__buffer_add_text(text, ", \"elapsed\": ");
    eitp__record_write_time(text, record->elapsed);
    eitp__buffer_add_text(text, "}");
}
