/* The state of runs as lines, one fact a line, and as JSON. */
#ifndef COMMAND_MONITOR_LINES_H
#define COMMAND_MONITOR_LINES_H

#include "monitor/runs.h"

EITP_BEGIN_DECLARATIONS

/* Adds the facts of a run, its newest warnings, and what is missing. `only_changes`: only facts that differ from those
   of the update before. */
void lines_add_run(text_buffer *t, const watched_run *w, int only_changes);

/* The same for all runs, with the time in front. */
void lines_add(text_buffer *t, const watched_runs *l, int only_changes);

/* Adds an object, in a line: "time" and "runs". */
void lines_add_json(text_buffer *t, const watched_runs *l);

EITP_END_DECLARATIONS

#endif
