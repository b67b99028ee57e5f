#include "run/record_values.h"

/* The last place is overwritten when the list is full. */
static eitp_value *eitp__add_value(eitp__values *list, const char *name, eitp_value_kind kind) {
    eitp_value *value = &list->values[list->count < EITP__RECORD_VALUES ? list->count++ : EITP__RECORD_VALUES - 1];
    memset(value, 0, sizeof *value);
    value->name = name;
    value->kind = kind;
    return value;
}

static void eitp__compose_name(eitp__values *list, eitp_value *value, const char *prefix, const char *name,
                               const char *suffix) {
    char *text = list->names[value - list->values];
    snprintf(text, EITP__RECORD_NAME_SIZE, "%s%s%s", prefix, name, suffix);
    value->name = text;
}

EITP__PRIVATE void eitp__add_number(eitp__values *list, const char *name, double number) {
    eitp__add_value(list, name, EITP_VALUE_NUMBER)->number = number;
}

EITP__PRIVATE void eitp__add_integer(eitp__values *list, const char *name, int64_t integer) {
    eitp__add_value(list, name, EITP_VALUE_INTEGER)->integer = integer;
}

EITP__PRIVATE void eitp__add_boolean(eitp__values *list, const char *name, int boolean) {
    eitp__add_value(list, name, EITP_VALUE_BOOLEAN)->integer = boolean != 0;
}

EITP__PRIVATE void eitp__add_text(eitp__values *list, const char *name, const char *text) {
    eitp__add_value(list, name, EITP_VALUE_TEXT)->text = text;
}

EITP__PRIVATE void eitp__add_named(eitp__values *list, const char *prefix, const char *name, const char *suffix,
                                   double number) {
    eitp_value *value = eitp__add_value(list, "", EITP_VALUE_NUMBER);
    eitp__compose_name(list, value, prefix, name, suffix);
    value->number = number;
}

EITP__PRIVATE void eitp__add_seconds(eitp__values *list, const char *prefix, const char *name, double seconds) {
    eitp__add_named(list, prefix, name, "", floor(seconds * 1e9 + 0.5) / 1e9);
}

EITP__PRIVATE void eitp__add_named_integer(eitp__values *list, const char *prefix, const char *name, int64_t integer) {
    eitp_value *value = eitp__add_value(list, "", EITP_VALUE_INTEGER);
    eitp__compose_name(list, value, prefix, name, "");
    value->integer = integer;
}
