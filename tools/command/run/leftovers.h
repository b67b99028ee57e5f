/* Removes the files that --show-data writes to an output directory. */
#ifndef COMMAND_RUN_LEFTOVERS_H
#define COMMAND_RUN_LEFTOVERS_H

#include "text.h"

EITP_BEGIN_DECLARATIONS

/* The earlier files in the directory for packed data. If zero-initialized, nothing is removed. */
typedef struct leftovers {
    char *directory; /* for packed data; NULL: nothing is removed */
    int existed;     /* the directory existed before */
    char **names;
    size_t count;
} leftovers;

/* Lists the current files. The caller holds the lock of the output directory, so no other run adds files. */
void leftovers_begin(leftovers *l, const char *output_directory);

/* Removes files written since then, and releases the list. */
void leftovers_remove(leftovers *l);

EITP_END_DECLARATIONS

#endif
