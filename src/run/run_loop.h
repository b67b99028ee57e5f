/* The state of a run, shared by its loop, records and guard. */
#ifndef EITP_RUN_LOOP_H
#define EITP_RUN_LOOP_H

#include "run/best.h"
#include "run/guard.h"
#include "run/health.h"

#include <signal.h>

struct eitp_run {
    eitp_host host;
    eitp_run_config config; /* its strings and sinks are those below */
    char *directory, *keep_best;
    char *checkpoint; /* to resume from, or NULL */
    int64_t checkpoint_step;

    eitp_record_sink *sinks; /* the program's, then that of metrics.jsonl */
    size_t sink_count;
    eitp_jsonl *metrics;
    char *metrics_path;
    int created_metrics; /* the file did not exist before */

    void *lock;
    int has_lock;
    int created_directories; /* number of directories created */
    int started;

    /* Written by signal handlers. */
    volatile sig_atomic_t stop, stop_reason, save;

    /* While it trains. */
    eitp_trainer *trainer;
    eitp_run_report report;
    eitp__guard guard;
    eitp__best best;
    eitp__health health;
    eitp_nonfinite nonfinite; /* with EITP_CHECK_FINITE_OP: the first one of the step */
    double saved_at;          /* time of the last save, or of the start */
    int cannot_save;          /* the last save failed */
    int best_is_behind;       /* best.json lacks an evaluation */
    int stops_early;          /* `patience` is exhausted */
    int is_ending;            /* no step follows */
};

/* Resumes, trains and saves; fills in run->report. */
EITP__PRIVATE eitp_status eitp__run_loop(eitp_run *run, eitp_error *error);

#endif
