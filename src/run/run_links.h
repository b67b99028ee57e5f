/* The links latest_model and best_model in the directory of a run. */
#ifndef EITP_RUN_LINKS_H
#define EITP_RUN_LINKS_H

#include "run/run_loop.h"

#define EITP__LATEST_LINK "latest_model"
#define EITP__BEST_LINK "best_model"

/* True if the directory of the run has a checkpoint of a step, or cannot be looked up. */
EITP__PRIVATE int eitp__run_has_checkpoint(const eitp_run *run, int64_t step);

/*
 * Lets latest_model refer to the newest checkpoint and best_model to the one of the best evaluation, if they exist, by
 * one rename each. A link to nothing is removed, and so is one that cannot be replaced. Call it after a save, before
 * other checkpoints are removed, so that the links never dangle. A failure to create them is reported once.
 */
EITP__PRIVATE void eitp__run_update_links(eitp_run *run);

/* Repairs dangling links before the run trains: latest_model is redirected to the checkpoint of step `newest`, or
   removed if that is -1; best_model is removed. */
EITP__PRIVATE void eitp__run_repair_links(const eitp_run *run, int64_t newest);

#endif
