/* The best checkpoint of a run: which one it is, best.json, and what follows if it cannot be kept. */
#ifndef EITP_RUN_BEST_H
#define EITP_RUN_BEST_H

#include "run/run_loop.h"

/* True if the directory of the run has a checkpoint of a step, or cannot be looked up. */
EITP__PRIVATE int eitp__run_has_checkpoint(const eitp_run *run, int64_t step);

/* Writes best.json. A failure is reported once, and the next save tries again. */
EITP__PRIVATE void eitp__run_write_best(eitp_run *run);

/* A checkpoint is complete: if it is that of the best evaluation, best.json names it from now on. Call it before older
   checkpoints are removed. */
EITP__PRIVATE void eitp__run_confirm_best(eitp_run *run, int64_t step);

/* The checkpoint of a step is not written, for the reason `why`, and steps have been made since. If it is that of the
   best evaluation, reports it; the best is then the best of the evaluations whose checkpoints are there. */
EITP__PRIVATE void eitp__run_lose_best(eitp_run *run, int64_t step, const char *why);

/* Chooses the best of the evaluations whose checkpoints are in the directory, and reports it if that is another one.
   `open`: a step whose checkpoint can still be written; -1: none. */
EITP__PRIVATE void eitp__run_check_best(eitp_run *run, int64_t open);

/* Sets the members of the report that are about the best, and whether the run stops early. */
EITP__PRIVATE void eitp__run_report_best(eitp_run *run);

#endif
