/* --overwrite-output-dir: moves the earlier run in an output directory away for a new one. */
#ifndef COMMAND_RUN_REPLACE_H
#define COMMAND_RUN_REPLACE_H

#include "text.h"

EITP_BEGIN_DECLARATIONS

/* The moved files and checkpoints of an earlier run. Empty when zero-initialized. */
typedef struct replaced_run {
    char *from, *to; /* the output directory, and the directory in it; NULL: nothing was moved */
    char **names;
    size_t count;
} replaced_run;

/*
 * Moves the checkpoints and records of the run in `directory` to a new directory "replaced-<n>" in it. Packed data and
 * unrelated files stay. Does nothing without a run there. Fails, with nothing moved, while another process is training
 * in the directory.
 */
eitp_status replace_run(const char *directory, replaced_run *replaced, eitp_error *error);

/* Moves everything back. */
void replace_undo(replaced_run *replaced);

void replace_release(replaced_run *replaced);

EITP_END_DECLARATIONS

#endif
