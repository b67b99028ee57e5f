/* The watched runs: the named ones, and those in named directories. */
#ifndef COMMAND_MONITOR_RUNS_H
#define COMMAND_MONITOR_RUNS_H

#include "monitor/facts.h"

EITP_BEGIN_DECLARATIONS

/* A run. Until its directory has files of a run, only safe-train's file is open. */
typedef struct watched_run {
    recorded_run run;
    facts facts;       /* of the last update */
    facts before;      /* of the previous update, to find changes */
    char problem[600]; /* error when reading it; "": none */
} watched_run;

enum { RUNS_MOST = 100 }; /* runs watched at once */

/* Empty when zero-initialized. */
typedef struct watched_runs {
    char **places; /* directories of runs, or of directories of runs; owned */
    size_t place_count;
    watched_run **runs;
    size_t count;
    size_t left_out;   /* runs beyond RUNS_MOST */
    char awaited[600]; /* from the last update: why a place has no run yet; "": all have one */
    machine machine;
    facts_limits limits;
} watched_runs;

/* Adds a directory. */
void runs_add_place(watched_runs *l, const char *directory);

/* Adds the directory in which a process trains. EITP_ERROR_ARGUMENT if the process has no run. */
eitp_status runs_add_process(watched_runs *l, int64_t process, eitp_error *error);

/*
 * Reads the machine and all runs, and finds new ones. `awaited` names a place without a run. Returns
 * EITP_ERROR_ARGUMENT if a named path exists but is not a directory. Later failures to read are the run's `problem`.
 */
eitp_status runs_update(watched_runs *l, eitp_error *error);
void runs_release(watched_runs *l);

/* Returns the run to show first: one that is training, or the one that trained last. */
size_t runs_first(const watched_runs *l);

/* True if each place has runs and all of them have ended for good. */
int runs_are_over(const watched_runs *l);

EITP_END_DECLARATIONS

#endif
