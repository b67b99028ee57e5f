/* A run's directory: made, locked, checked, and removed again if nothing was done in it. */
#ifndef EITP_RUN_DIRECTORY_H
#define EITP_RUN_DIRECTORY_H

#include "base/platform.h"
#include "run/run.h"

/* All that eitp_run_create does on disk: sets run->checkpoint and checkpoint_step. */
EITP__PRIVATE eitp_status eitp__run_prepare_directory(eitp_run *run, eitp_error *error);

/* Removes the directories that were made for the run, as far as they are empty. */
EITP__PRIVATE void eitp__run_remove_directories(eitp_run *run);

EITP__PRIVATE void eitp__run_unlock(eitp_run *run);

/* The directory that a path is in, in a new text: "." where it names none. NULL when memory runs out. */
EITP__PRIVATE char *eitp__parent_path(const eitp_host *host, const char *path);

#endif
