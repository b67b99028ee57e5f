/* The disk of a run: room for its checkpoints, and saves that fail because it is full or passes over an error. */
#ifndef EITP_DISK_H
#define EITP_DISK_H

#include "run/run_loop.h"
#include "train/trainer.h"

/*
 * Saves a checkpoint. If the disk is full, removes the checkpoints that the limit would remove afterwards. Then, and
 * after failures that may pass, tries again for about a minute, or until a request to stop.
 */
EITP__PRIVATE eitp_status eitp__disk_save(eitp_run *run, const eitp__save_options *options, eitp_error *error);

/* Writes the copy of an asynchronous save again, with the same attempts. On failure the save can be abandoned. */
EITP__PRIVATE eitp_status eitp__disk_repeat(eitp_run *run, eitp__save *save, eitp_error *error);

#endif
