#include "records/record_line.h"

/* Returns the end of a string that starts with a quote at `at`; `end` if it is not closed. */
static const char *eitp__record_skip_text(const char *at, const char *end) {
    for (at++; at < end && *at != '"'; at++)
        at += *at == '\\';
    return at < end ? at + 1 : end;
}

/* Returns the end of a value, which may have objects and arrays. */
static const char *eitp__record_skip_value(const char *at, const char *end) {
    int depth = 0;
    while (at < end && (depth || (*at != ',' && *at != '}'))) {
        if (*at == '"') {
            at = eitp__record_skip_text(at, end);
            continue;
        }
        depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
        at++;
    }
    return at;
}

EITP__PRIVATE int eitp__record_next_member(const char **at, const char *end, eitp__record_member *member) {
    const char *name = (const char *)memchr(*at, '"', (size_t)(end - *at));
    if (!name)
        return 0;
    member->name = name + 1;
    member->value = eitp__record_skip_text(name, end);
    member->size = (size_t)(member->value - member->name) - (member->value > member->name);
    while (member->value < end && (*member->value == ':' || *member->value == ' '))
        member->value++;
    member->end = *at = eitp__record_skip_value(member->value, end);
    return member->value < end;
}

EITP__PRIVATE int eitp__record_is_named(const eitp__record_member *member, const char *name) {
    return member->size == strlen(name) && !memcmp(member->name, name, member->size);
}

EITP__PRIVATE eitp__record_line eitp__record_line_read(const char *line, size_t size) {
    eitp__record_line read = EITP__ZERO;
    const char *at = line, *end = line + size;
    eitp__record_member member;
    read.step = -1;
    read.is_whole = size >= 2 && line[0] == '{' && end[-1] == '}';
    for (size_t i = 0; i < size && read.is_whole; i++)
        read.is_whole = (unsigned char)line[i] >= ' ';
    while (read.is_whole && eitp__record_next_member(&at, end, &member)) {
        if (eitp__record_is_named(&member, "step"))
            read.step = strtoll(member.value, NULL, 10);
        read.is_evaluation |= member.size > 4 && !memcmp(member.name, "val_", 4);
        read.is_spot |= member.size > 5 && !memcmp(member.name, "spot/", 5);
        read.is_event |= eitp__record_is_named(&member, "event");
        if (at < end && *at != ',')
            break;
    }
    read.is_whole &= at + 1 == end || size == 2; /* the object ends with its last member */
    return read;
}
