/* Table functions for other modules of eitp. */
#ifndef EITP_TABLE_H
#define EITP_TABLE_H

#include "base/platform.h"
#include "base/settings.h"
#include "data/examples.h"

/* Writes the columns of the current file, or the members of the current row, to `list`, and returns it. Empty if rows
   have no names. */
EITP__PRIVATE const char *eitp__table_columns(const eitp_table *table, char *list, size_t size);

/* Returns the settings of eitp_table_config: its columns and limit, with their defaults and bounds. The settings of
   `texts` are in eitp__text_files_setting_table. Stores their number in *count, unless `count` is NULL. */
EITP__PRIVATE const eitp_setting *eitp__table_setting_table(size_t *count);

#endif
