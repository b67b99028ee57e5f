/* The state of a run, shared by its loop, records and guard. */
#ifndef EITP_RUN_LOOP_H
#define EITP_RUN_LOOP_H

#include "run/best.h"
#include "run/guard.h"

#include <signal.h>

/* What a sink could not store. */
typedef struct eitp__sink_state {
    int is_failing; /* its last call failed */
    int64_t lost;   /* number of records, unless the sink counts them */
} eitp__sink_state;

struct eitp_run {
    eitp_host host;
    eitp_run_config config; /* its strings and sinks are those below */
    char *directory, *keep_best;
    char *checkpoint; /* to resume from, or NULL */
    int64_t checkpoint_step;

    eitp_record_sink *sinks;       /* the program's, then that of metrics.jsonl */
    eitp__sink_state *sink_states; /* of each */
    size_t sink_count;
    eitp_jsonl *metrics;
    char *metrics_path;
    int created_metrics; /* the file did not exist before */

    void *lock;
    int has_lock;
    int created_directories; /* number of directories created */
    int started;
    int is_refused; /* before the first step: nothing was trained */

    /* Written by signal handlers. */
    volatile sig_atomic_t stop, stop_reason, save;

    /* While it trains. */
    eitp_trainer *trainer;
    eitp_run_report report;
    eitp__guard guard;
    eitp__best best;
    int64_t nonfinite;  /* steps in a row that were not applied */
    double saved_at;    /* time of the last save, or of the start */
    int cannot_save;    /* the last save failed */
    int best_is_behind; /* best.json lacks an evaluation */
    int best_fails;     /* the last write of best.json failed */
    int stops_early;    /* `patience` is exhausted */
};

/* Resumes, trains and saves; fills in run->report. */
EITP__PRIVATE eitp_status eitp__run_loop(eitp_run *run, eitp_error *error);

#endif
