/* The state of runs as lines, one fact per line, and as JSON. */
#ifndef COMMAND_MONITOR_LINES_H
#define COMMAND_MONITOR_LINES_H

#include "monitor/runs.h"

EITP_BEGIN_DECLARATIONS

/* Adds the facts of a run, its newest warnings, and missing files. `only_changes`: only facts that differ from the
   previous update. */
void lines_add_run(text_buffer *t, const watched_run *w, int only_changes);

/* Does the same for all runs, after a line with the time. */
void lines_add(text_buffer *t, const watched_runs *l, int only_changes);

/* Adds a JSON object on one line: "time" and "runs". */
void lines_add_json(text_buffer *t, const watched_runs *l);

EITP_END_DECLARATIONS

#endif
