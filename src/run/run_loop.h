/* The state of a run, shared by its loop, records and guard. */
#ifndef EITP_RUN_LOOP_H
#define EITP_RUN_LOOP_H

#include "base/prefetch.h"
#include "run/best.h"
#include "run/guard.h"
#include "tensor/context.h"
#include "run/health.h"

#include <signal.h>

/* A save that is written beside the steps; see run/async_save.h. */
typedef struct eitp__async_save {
    struct eitp__save *save;          /* in progress, or NULL */
    struct eitp__write_behind *queue; /* the memory of the copy, or NULL */
    double began, stalled;            /* time when it began, and seconds in which no step was made */
    int has_failed;                   /* the last one */
} eitp__async_save;

/* What a sink could not store. */
typedef struct eitp__sink_state {
    int is_open;     /* it was resumed, and gets records */
    int is_failing;  /* its last call failed */
    int has_changed; /* is_failing did, and that was not reported yet */
    int64_t lost;    /* number of records, unless the sink counts them */
    char why[200];   /* it fails */
} eitp__sink_state;

struct eitp_run {
    eitp_host host;
    eitp_run_config config; /* its strings and sinks are those below */
    char *directory, *keep_best;
    char *checkpoint; /* to resume from, or NULL */
    int64_t checkpoint_step;
    eitp__prefetch *prefetch; /* of its tensors, until the first step; may be NULL */

    eitp_record_sink *sinks;       /* the program's, then that of metrics.jsonl */
    eitp__sink_state *sink_states; /* of each */
    size_t sink_count;
    eitp_jsonl *metrics;
    char *metrics_path;
    int created_metrics; /* the file did not exist before */

    void *lock;
    int has_lock;
    uint64_t identity;       /* of the directory */
    int created_directories; /* number of directories created */
    int started;
    int stopped_before_step_1; /* and so left nothing worth keeping */
    int is_refused;            /* before the first step: nothing was trained */

    /* Written by signal handlers. */
    volatile sig_atomic_t stop, stop_reason, save;

    /* While it trains. */
    eitp_trainer *trainer;
    eitp_run_report report;
    eitp__poll program_poll; /* of the context before the run */
    eitp__guard guard;
    eitp__best best;
    eitp__health health;
    eitp_nonfinite nonfinite; /* with EITP_CHECK_FINITE_OP: the first one of the step */
    eitp__async_save async;
    double saved_at;       /* time of the last save, or of the start */
    int saved_early;       /* the checkpoint of this step lacks its evaluation: it was written on memory pressure */
    int64_t recorded_step; /* the step of the checkpoint, if the records have its evaluation; otherwise -1 */
    int cannot_save;       /* the last save failed */
    int best_is_behind;    /* best.json lacks an evaluation */
    int64_t kept_step;     /* see eitp_run_keep_checkpoint */
    int64_t judged_step;   /* the newest checkpoint at the last step */
    int bad_losses;        /* number of them in the first three steps after it */
    int links_have_failed; /* they could not be made, which was reported */
    int best_has_failed;   /* it could not be written, which was reported */
    int prune_has_failed;  /* old checkpoints could not be removed, which was reported */
    int prune_is_due;      /* the checkpoint of kept_step may be removed from now on */
    int stops_early;       /* `patience` is exhausted */
    int is_ending;         /* no step follows */
};

/* Resumes, trains and saves; fills in run->report. */
EITP__PRIVATE eitp_status eitp__run_loop(eitp_run *run, eitp_error *error);

#endif
