#include "task/entities.h"

#include "base/platform.h"
#include "task/outcomes.h"

/* Bytes of a prefix with its hyphen. */
enum { EITP__PREFIX_SIZE = 2 };

static int eitp__is_outside(const char *label) {
    return !label || !strcmp(label, "O");
}

static int eitp__has_prefix(const char *label, const char *prefixes) {
    return label[0] && strchr(prefixes, label[0]) && label[1] == '-' && label[2];
}

int eitp_labels_mark_entities(const char *const *names, int64_t count) {
    int has_entity = 0;
    for (int64_t i = 0; i < count && names; i++) {
        const int is_entity = names[i] && eitp__has_prefix(names[i], "BIES");
        if (!is_entity && (!names[i] || !eitp__is_outside(names[i])))
            return 0;
        has_entity |= is_entity;
    }
    return has_entity;
}

EITP__PRIVATE const char *eitp__entity_type(const char *label) {
    return eitp__is_outside(label) ? NULL : label + EITP__PREFIX_SIZE;
}

EITP__PRIVATE int eitp__entity_continues(const char *previous, const char *label) {
    return !eitp__is_outside(previous) && !eitp__is_outside(label) && eitp__has_prefix(previous, "BI") &&
           eitp__has_prefix(label, "IE") && !strcmp(eitp__entity_type(previous), eitp__entity_type(label));
}

int64_t eitp_find_entities(const char *const *labels, int64_t count, eitp_entity *entities) {
    const char *previous = NULL;
    int64_t found = 0;
    for (int64_t i = 0; i < count && labels; i++) {
        const char *label = labels[i];
        if (!eitp__is_outside(label) && !eitp__has_prefix(label, "BIES"))
            label = NULL;
        if (label && !eitp__is_outside(label)) {
            const int goes_on = eitp__entity_continues(previous, label);
            found += !goes_on;
            if (entities && !goes_on) {
                entities[found - 1].type = eitp__entity_type(label);
                entities[found - 1].first = i;
            }
            if (entities)
                entities[found - 1].last = i;
        }
        previous = label;
    }
    return found;
}
