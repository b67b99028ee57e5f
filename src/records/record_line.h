/* Reads a line of metrics.jsonl without building a tree: a million of them take a second. */
#ifndef EITP_RECORD_LINE_H
#define EITP_RECORD_LINE_H

#include "base/memory.h"

/* A member of the object in a line. Names are compared as written, without unescaping. */
typedef struct eitp__record_member {
    const char *name; /* between the quotes */
    size_t size;
    const char *value, *end;
} eitp__record_member;

/* Finds the next member from *at on, and sets *at to its end. Returns 0 at the end of the object. */
EITP__PRIVATE int eitp__record_next_member(const char **at, const char *end, eitp__record_member *member);

EITP__PRIVATE int eitp__record_is_named(const eitp__record_member *member, const char *name);

typedef struct eitp__record_line {
    int is_whole;      /* an object without control characters, so that a power loss left all of it */
    int64_t step;      /* -1: no step */
    int is_evaluation; /* it has a validation value */
    int is_spot;       /* it has a value of a spot evaluation */
    int is_event;
} eitp__record_line;

/* Classifies a line. Unknown members, in any order, are ignored: a later version may add them. */
EITP__PRIVATE eitp__record_line eitp__record_line_read(const char *line, size_t size);

#endif
