#include "run/record_text.h"

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

/* Adds the members of an object, which may be NULL or have none. */
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
