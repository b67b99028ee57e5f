/* A directory that is removed or replaced while its run trains. */
#ifndef EITP_RUN_RESTORE_H
#define EITP_RUN_RESTORE_H

#include "run/run_loop.h"

/*
 * If the directory of the run is gone, or another one has its path, creates and locks it again, with a new
 * metrics.jsonl, with a warning. What was in it is not used any more; the next checkpoint has all that the run needs.
 * EITP_ERROR_ARGUMENT if another process trains there by now.
 */
EITP__PRIVATE eitp_status eitp__run_restore_directory(eitp_run *run, eitp_error *error);

#endif
