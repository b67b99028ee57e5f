/* When a run evaluates and saves, and what it has saved. */
#ifndef EITP_RUN_SCHEDULE_H
#define EITP_RUN_SCHEDULE_H

#include "run/run_loop.h"

/* True if the task has validation samples. */
EITP__PRIVATE int eitp__run_validates(const eitp_run *run);

/* The metric whose best checkpoint is kept: that of keep_best, or the loss that patience watches; NULL: none. */
EITP__PRIVATE const char *eitp__run_kept_metric(const eitp_run_config *config);

/* True if evaluations decide which checkpoint is kept as the best, and when to stop early. */
EITP__PRIVATE int eitp__run_follows_best(const eitp_run *run);

/* True if the run has steps left. */
EITP__PRIVATE int eitp__steps_remain(const eitp_run *run);

/* True if the run evaluates after this step; for 0, before the first. */
EITP__PRIVATE int eitp__evaluation_is_due(const eitp_run *run, int64_t step);

/* The step of the newest checkpoint, complete or being written; -1: none. */
EITP__PRIVATE int64_t eitp__run_newest_save(const eitp_run *run);

/* True if the checkpoint of a step is complete, or being written. */
EITP__PRIVATE int eitp__run_has_saved(const eitp_run *run, int64_t step);

/* True if a save of this step is due now, and there is none. */
EITP__PRIVATE int eitp__save_is_due(const eitp_run *run, int64_t step);

/* True if save_total_limit counts the checkpoint of this step: an undisturbed run saves after it, too. So both keep the
   same checkpoints in the end. */
EITP__PRIVATE int eitp__save_is_counted(const eitp_run *run, int64_t step);

#endif
