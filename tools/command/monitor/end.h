/* The state of a run in words: how it ended, and how it goes on. */
#ifndef COMMAND_MONITOR_END_H
#define COMMAND_MONITOR_END_H

#include "records/recorded_run.h"

EITP_BEGIN_DECLARATIONS

/* "running", "finished", ..., or before a run has recorded anything "starting" or "ended before training". */
const char *end_state(const recorded_run *r);

/* True if the run will not go on by itself: it is no process of a machine, and nothing is to start it again. */
int end_is_final(const recorded_run *r);

/* Adds why the run ended. Returns 0 if there is nothing to say. */
int end_describe(const recorded_run *r, text_buffer *t);

/* Adds the command that the user goes on with. Returns 0 if there is none. */
int end_next(const recorded_run *r, text_buffer *t);

EITP_END_DECLARATIONS

#endif
