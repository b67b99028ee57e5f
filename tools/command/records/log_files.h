/* The files of a run: their sizes, and the logs of safe-train. */
#ifndef COMMAND_RECORDS_LOG_FILES_H
#define COMMAND_RECORDS_LOG_FILES_H

#include "records/text_table.h"

EITP_BEGIN_DECLARATIONS

/* Adds the files of a directory and its subdirectories, by path, and returns the sum of their sizes. Links are not
   followed. */
double log_files_add_sizes(const char *directory, text_table *t);

/* Returns only the sum, in bytes. */
double log_files_size(const char *directory);

/* Finds the newest logs/training_*.log of a directory; *path is a new string. EITP_ERROR_ARGUMENT if there is no
   log. */
eitp_status log_files_find_last(const char *directory, char **path, eitp_error *error);

/* Prints a log from byte *at on and advances *at. Control characters except tabs and line feeds, and bytes that are not
   UTF-8, become '?'. */
eitp_status log_files_print(const char *path, uint64_t *at, eitp_error *error);

EITP_END_DECLARATIONS

#endif
