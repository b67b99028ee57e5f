/* run.json: the options of a run, in each of its checkpoints and, as information, in its output directory. */
#ifndef COMMAND_RUN_RECORD_H
#define COMMAND_RUN_RECORD_H

#include "options/options.h"

EITP_BEGIN_DECLARATIONS

/*
 * Sets the options of the run that wrote a checkpoint, from the run.json in the checkpoint, or next to it if written by
 * an earlier version. Paths in an output directory that was moved since are changed to the new one. *found is 0 if
 * there is no run.json; a damaged one next to the checkpoint is ignored with a warning.
 */
eitp_status record_read(option_set *o, const char *checkpoint, int *found, eitp_error *error);

/* Sets options as run.json does; only defaults are replaced. */
void record_copy(const option_set *from, option_set *to);

/* Makes the recorded paths of a run absolute. */
void record_make_absolute(option_set *o);

EITP_END_DECLARATIONS

#endif
