/* What --show-data writes in an output directory, to remove it again. */
#ifndef COMMAND_RUN_LEFTOVERS_H
#define COMMAND_RUN_LEFTOVERS_H

#include "text.h"

EITP_BEGIN_DECLARATIONS

/* The files that the directories for packed data had before. Zero-initialized nothing is removed. */
typedef struct leftovers {
    char *directory; /* of packed data; NULL: nothing is removed */
    int existed;     /* it did */
    char **names;
    size_t count;
} leftovers;

/* Lists what the output directory has now. The caller has its lock, so no other run adds to it. */
void leftovers_begin(leftovers *l, const char *output_directory);

/* Removes what has been written there since, and releases the list. */
void leftovers_remove(leftovers *l);

EITP_END_DECLARATIONS

#endif
