/* The links latest_model and best_model in the directory of a run. */
#ifndef EITP_RUN_LINKS_H
#define EITP_RUN_LINKS_H

#include "run/run_loop.h"

#define EITP__LATEST_LINK "latest_model"
#define EITP__BEST_LINK "best_model"

/*
 * Lets latest_model refer to the newest checkpoint and best_model to the one of the best evaluation, if they exist. A
 * link to nothing is removed. Call it after a save, before other checkpoints are removed, so that the links always
 * refer to something. A failure to create them is reported once.
 */
EITP__PRIVATE void eitp__run_update_links(eitp_run *run);

#endif
