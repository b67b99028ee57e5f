/* A list of runs found in directories, with one line each. */
#ifndef COMMAND_RECORDS_RUN_LIST_H
#define COMMAND_RECORDS_RUN_LIST_H

#include "options/options.h"
#include "records/text_table.h"

EITP_BEGIN_DECLARATIONS

/* Directories of runs, as new strings. */
typedef struct run_list {
    char **directories;
    size_t count;
} run_list;

/* Finds the runs of arguments: each is the directory of a run, or a directory with runs as subdirectories, which are
   sorted by name. EITP_ERROR_ARGUMENT for a directory without runs. */
eitp_status run_list_find(char *const *arguments, size_t count, run_list *list, eitp_error *error);
void run_list_release(run_list *list);

/* Adds a line for each run, sorted by --sort and selected by --filter. */
eitp_status run_list_add(const run_list *list, const option_set *o, text_table *t, eitp_error *error);

EITP_END_DECLARATIONS

#endif
