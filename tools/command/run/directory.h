/* Creates and locks the output directory of a run, and finds the checkpoint to resume from. */
#ifndef COMMAND_RUN_DIRECTORY_H
#define COMMAND_RUN_DIRECTORY_H

#include "run/run.h"

EITP_BEGIN_DECLARATIONS

/*
 * Creates r->run, which locks r->directory; with --overwrite-output-dir an earlier run is moved away first. With
 * EITP_RESUME_NEWEST r->checkpoint becomes the newest complete checkpoint, or NULL.
 */
eitp_status directory_open(training_run *r, eitp_run_resume resume, eitp_error *error);

/* True if both paths are the same existing directory. */
int directory_is_same(const char *a, const char *b);

/* True if the path is a directory that is neither a model nor a checkpoint, and may contain checkpoints. */
int directory_is_output(const char *path);

EITP_END_DECLARATIONS

#endif
