/* Names that columns usually have, for tables without a column of the default name. */
#ifndef EITP_COLUMN_NAMES_H
#define EITP_COLUMN_NAMES_H

#include "base/json.h"

/* What a column holds. */
typedef enum eitp__column_kind {
    EITP__COLUMN_TEXT,
    EITP__COLUMN_PAIR,
    EITP__COLUMN_LABEL,
    EITP__COLUMN_WEIGHT,
    EITP__COLUMN_KINDS
} eitp__column_kind;

/* Bytes of a usual name with its end, at most. */
enum { EITP__USUAL_NAME_SIZE = 24 };

/* True if texts or labels often are in a column of this name, in upper or lower case. Always false for other kinds. */
EITP__PRIVATE int eitp__is_usual_name(eitp__column_kind kind, const char *name, size_t size);

/* The only member of an object that has a usual name; NULL: none has, or several have. */
EITP__PRIVATE const eitp_json *eitp__find_usual_member(const eitp_json *object, eitp__column_kind kind);

#endif
