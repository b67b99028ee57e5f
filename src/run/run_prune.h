/* Removing the checkpoints that a run does not keep. */
#ifndef EITP_RUN_PRUNE_H
#define EITP_RUN_PRUNE_H

#include "run/run_loop.h"

/* Updates the links, and removes the checkpoints that the run does not keep. A failure is reported and ends nothing. */
EITP__PRIVATE void eitp__run_prune(eitp_run *run);

#endif
