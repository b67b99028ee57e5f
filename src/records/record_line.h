/* A line of metrics.jsonl, read without a tree: a million of them take a second. */
#ifndef EITP_RECORD_LINE_H
#define EITP_RECORD_LINE_H

#include "base/memory.h"

/* A member of the object in a line. Names are compared as they are written. */
typedef struct eitp__record_member {
    const char *name; /* within the quotes */
    size_t size;
    const char *value, *end;
} eitp__record_member;

/* Finds the next member, from *at on, which is set to where it ends. Returns 0 at the end of the object. */
EITP__PRIVATE int eitp__record_next_member(const char **at, const char *end, eitp__record_member *member);

EITP__PRIVATE int eitp__record_is_named(const eitp__record_member *member, const char *name);

typedef struct eitp__record_line {
    int is_whole;      /* an object without control characters, so that a power loss left all of it */
    int64_t step;      /* -1: it has none */
    int is_evaluation; /* it has a value of validation */
    int is_spot;       /* it has one of a spot evaluation */
    int is_event;
} eitp__record_line;

/* Reads what a line is. Unknown members, in any order, are those of a later version. */
EITP__PRIVATE eitp__record_line eitp__record_line_read(const char *line, size_t size);

#endif
