/* The state of a run in words: how it ended, and how to resume it. */
#ifndef COMMAND_MONITOR_END_H
#define COMMAND_MONITOR_END_H

#include "records/recorded_run.h"

EITP_BEGIN_DECLARATIONS

/* Returns "running", "finished", ..., or, before a run has recorded anything, "starting" or "ended before training". */
const char *end_state(const recorded_run *r);

/* True if the run will not continue by itself: it has no process, and nothing is going to restart it. */
int end_is_final(const recorded_run *r);

/* Adds the reason why the run ended. Returns 0 if it is unknown or the run has not ended. */
int end_describe(const recorded_run *r, text_buffer *t);

/* Adds the next command for the user. Returns 0 if no command applies. */
int end_next(const recorded_run *r, text_buffer *t);

EITP_END_DECLARATIONS

#endif
