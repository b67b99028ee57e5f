/* The runs that are watched: those that were named, and those in directories that were. */
#ifndef COMMAND_MONITOR_RUNS_H
#define COMMAND_MONITOR_RUNS_H

#include "monitor/facts.h"

EITP_BEGIN_DECLARATIONS

/* A run. Before its directory has anything of a run, it is open only as far as safe-train's file. */
typedef struct watched_run {
    recorded_run run;
    facts facts;       /* of the last update */
    facts before;      /* of the one before it, for what has changed */
    char problem[600]; /* of reading it; "": none */
} watched_run;

enum { RUNS_MOST = 100 }; /* that are watched at once */

/* Zero-initialized it is empty. */
typedef struct watched_runs {
    char **places; /* directories of runs, or of directories of runs; owned */
    size_t place_count;
    watched_run **runs;
    size_t count;
    size_t left_out;   /* runs beyond RUNS_MOST */
    char awaited[600]; /* of the last update: why a place has no run yet; "": each has one */
    machine machine;
    facts_limits limits;
} watched_runs;

/* Adds a directory. */
void runs_add_place(watched_runs *l, const char *directory);

/* Adds the directory in which a process trains. EITP_ERROR_ARGUMENT if it is no run's. */
eitp_status runs_add_process(watched_runs *l, int64_t process, eitp_error *error);

/*
 * Reads the machine and all runs, and finds new ones: `awaited` says which place has none yet. EITP_ERROR_ARGUMENT if
 * what was named is there and not a directory; later, what cannot be read is the run's `problem`.
 */
eitp_status runs_update(watched_runs *l, eitp_error *error);
void runs_release(watched_runs *l);

/* The run to show first: one that trains, or the one that trained last. */
size_t runs_first(const watched_runs *l);

/* True if each place has runs and all of them have ended for good. */
int runs_are_over(const watched_runs *l);

EITP_END_DECLARATIONS

#endif
