/* Common column names, for tables without a column of the default name. */
#ifndef EITP_COLUMN_NAMES_H
#define EITP_COLUMN_NAMES_H

#include "base/json.h"

/* The role of a column. */
typedef enum eitp__column_kind {
    EITP__COLUMN_TEXT,
    EITP__COLUMN_PAIR,
    EITP__COLUMN_LABEL,
    EITP__COLUMN_WEIGHT,
    EITP__COLUMN_KINDS
} eitp__column_kind;

/* Maximum bytes of a common name, including the terminating zero. */
enum { EITP__USUAL_NAME_SIZE = 24 };

/* True if columns with this name often hold text or labels. Case is ignored. Always false for other kinds. */
EITP__PRIVATE int eitp__is_common_name(eitp__column_kind kind, const char *name, size_t size);

/* Returns the only member of an object with a common name, or NULL if there is no such member or several. */
EITP__PRIVATE const eitp_json *eitp__find_usual_member(const eitp_json *object, eitp__column_kind kind);

#endif
