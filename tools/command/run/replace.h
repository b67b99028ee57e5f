/* --overwrite-output-dir: the earlier run in an output directory makes room for a new one. */
#ifndef COMMAND_RUN_REPLACE_H
#define COMMAND_RUN_REPLACE_H

#include "text.h"

EITP_BEGIN_DECLARATIONS

/* The files and checkpoints of an earlier run and where they are now. Zero-initialized it has none. */
typedef struct replaced_run {
    char *from, *to; /* the output directory, and the directory in it; NULL: nothing was moved */
    char **names;
    size_t count;
} replaced_run;

/*
 * Moves the checkpoints and records of the run in `directory` to a new directory "replaced-<n>" in it. Packed data and
 * files of anything else stay. Without a run there it does nothing. It fails, with nothing moved, while another process
 * trains in the directory.
 */
eitp_status replace_run(const char *directory, replaced_run *replaced, eitp_error *error);

/* Moves everything back. */
void replace_undo(replaced_run *replaced);

void replace_release(replaced_run *replaced);

EITP_END_DECLARATIONS

#endif
