#include "data/column_names.h"

#include "base/unicode.h"

static const struct {
    eitp__column_kind kind;
    const char *name;
} eitp__usual_names[] = {
    {EITP__COLUMN_TEXT, "text"},
    {EITP__COLUMN_TEXT, "review"},
    {EITP__COLUMN_TEXT, "sentence"},
    {EITP__COLUMN_TEXT, "message"},
    {EITP__COLUMN_TEXT, "content"},
    {EITP__COLUMN_TEXT, "\xE6\x96\x87\xE6\x9C\xAC"}, /* Chinese: text */
    {EITP__COLUMN_LABEL, "label"},
    {EITP__COLUMN_LABEL, "sentiment"},
    {EITP__COLUMN_LABEL, "target"},
    {EITP__COLUMN_LABEL, "category"},
    {EITP__COLUMN_LABEL, "\xE6\xA0\x87\xE7\xAD\xBE"}, /* Chinese: label */
};

EITP__PRIVATE int eitp__is_common_name(eitp__column_kind kind, const char *name, size_t size) {
    for (size_t i = 0; i < EITP__COUNT(eitp__usual_names); i++) {
        if (eitp__usual_names[i].kind == kind && eitp__equals_ignoring_case(name, size, eitp__usual_names[i].name))
            return 1;
    }
    return 0;
}

EITP__PRIVATE const eitp_json *eitp__find_usual_member(const eitp_json *object, eitp__column_kind kind) {
    const eitp_json *found = NULL;
    if (object->kind != EITP_JSON_OBJECT)
        return NULL;
    for (const eitp_json *member = object->first_child; member; member = member->next) {
        if (!eitp__is_common_name(kind, member->name, member->name_size))
            continue;
        if (found)
            return NULL;
        found = member;
    }
    return found;
}
