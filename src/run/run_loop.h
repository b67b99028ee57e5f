/* The state of a run, shared by its loop, its saves and its observers. */
#ifndef EITP_RUN_LOOP_H
#define EITP_RUN_LOOP_H

#include "base/prefetch.h"
#include "run/observer.h"
#include "tensor/context.h"

#include <signal.h>

/* The lock of the directory, by which it is known. */
typedef struct eitp__directory_lock {
    void *handle;
    int is_held;
    uint64_t identity; /* of the directory */
    int created;       /* number of directories that the run created */
} eitp__directory_lock;

typedef enum eitp__run_stage {
    EITP__RUN_CREATED,
    EITP__RUN_REFUSED, /* before the first step: nothing was trained */
    EITP__RUN_STARTED,
    EITP__RUN_EMPTY /* it was stopped before step 1, and so left nothing worth keeping */
} eitp__run_stage;

/* The saves of a run. One that is written beside the steps: see run/async_save.h. */
typedef struct eitp__run_saves {
    struct eitp__save *save;          /* in progress beside the steps, or NULL */
    struct eitp__write_behind *queue; /* the memory of its copy, or NULL */
    double began, stalled;            /* time when it began, and seconds in which no step was made */
    double at;                        /* time of the last save, or of the start */
    int async_has_failed;             /* the last one beside the steps */
    int has_failed;                   /* the last one while the run waited */
    int is_early;    /* the checkpoint of this step lacks its evaluation: it was written on memory pressure */
    int was_refused; /* the model was ruined when a save was due, which was reported */
} eitp__run_saves;

struct eitp_run {
    eitp_host host;
    eitp_run_config config;       /* its strings are those below, and its sinks those of the records */
    const eitp_setting *settings; /* of the configuration */
    size_t setting_count;
    char *directory, *keep_best, *run_name, *notes;
    char *checkpoint;       /* to resume from, or NULL */
    int writes_checkpoints; /* 0: those of an eitp_watch are the program's */
    /* Saves the steps done when memory is short; NULL: nothing can. */
    eitp_status (*save_early)(eitp_run *run, eitp_error *error);
    int64_t checkpoint_step;
    eitp__prefetch *prefetch; /* of its tensors, until the first step; may be NULL */
    eitp__directory_lock lock;
    eitp__run_stage stage;
    eitp__observer observers[EITP__OBSERVER_COUNT];
    void *states[EITP__OBSERVER_COUNT];
    struct eitp__meter *meter; /* of what they take, or NULL: see run/meter.c */

    /* Written by signal handlers. */
    volatile sig_atomic_t stop, stop_reason, save;

    int64_t kept_step; /* see eitp_run_keep_checkpoint; -1: none */
    int prune_is_due;  /* the one before may be removed from now on */

    /* While it trains. */
    eitp_trainer *trainer;
    eitp_run_report report;
    eitp__poll program_poll; /* of the context before the run */
    eitp__run_saves saves;
    eitp__decision decision; /* after the last step or evaluation */
    double seconds;          /* that it took */
    const char *described;   /* what the program says about the last evaluation; may be NULL */
    int is_ending;           /* no step follows */
    int is_over;             /* it has ended */
    eitp_error failure;      /* at the end: what eitp_run_train returns; its status is EITP_OK if that is no error */
};

/* Creates a run whose directory is not prepared yet. Its configuration is checked, and not taken yet. */
EITP__PRIVATE eitp_status eitp__run_create(const eitp_host *host, const eitp_run_config *config, int writes_checkpoints,
                                           eitp_run **run, eitp_error *error);

/* Copies what the run owns of its configuration, so that the program need not keep it. After a failure it has the one
   that it had. */
EITP__PRIVATE eitp_status eitp__run_take_config(eitp_run *run, const eitp_run_config *config, eitp_error *error);

/* The state of a run that has not made a step. */
EITP__PRIVATE void eitp__run_start(eitp_run *run, eitp_trainer *trainer);

/* How a run ends with a status. */
EITP__PRIVATE eitp_run_end eitp__run_end_of(const eitp_run *run, eitp_status status);

/* Resumes, trains and saves; fills in run->report. */
EITP__PRIVATE eitp_status eitp__run_loop(eitp_run *run, eitp_error *error);

#endif
