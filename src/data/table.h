/* Tables, for the other modules of eitp. */
#ifndef EITP_TABLE_H
#define EITP_TABLE_H

#include "base/platform.h"
#include "data/examples.h"

/* Lists the columns of the current file, or the members of the current row, in `list`, and returns it. Empty if rows
   have no names. */
EITP__PRIVATE const char *eitp__table_columns(const eitp_table *table, char *list, size_t size);

#endif
