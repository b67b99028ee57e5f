/*
 * The state of a run, its observers, and what its modules share.
 *
 * Observers are the guard, the records, the health of the model and others. An observer is a row of callbacks with a
 * state of its own. The run calls the observers in the order of EITP__OBSERVERS. They may read the run, and influence
 * it by their votes.
 */
#ifndef EITP_RUN_INTERNAL_H
#define EITP_RUN_INTERNAL_H

#include "base/json.h"
#include "base/prefetch.h"
#include "base/settings.h"
#include "records/values.h"
#include "run/run.h"
#include "tensor/context.h"

#include <signal.h>

/* ---- Observers ---- */

/* Calls ENTRY(NAME, name) for each observer; eitp__<name>_observer fills in its row. */
#define EITP__OBSERVERS(ENTRY)                                                                                         \
    ENTRY(SET, set)                                                                                                    \
    ENTRY(GUARD, guard)                                                                                                \
    ENTRY(HEAT, heat)                                                                                                  \
    ENTRY(SURROUNDINGS, surroundings)                                                                                  \
    ENTRY(RECORDS, records)                                                                                            \
    ENTRY(PERFORMANCE, performance)                                                                                    \
    ENTRY(GPU, gpu)                                                                                                    \
    ENTRY(ROLLING, rolling)                                                                                            \
    ENTRY(OP_TIMES, op_times)                                                                                          \
    ENTRY(ASYNC_SAVE, async_save)                                                                                      \
    ENTRY(HEALTH, health)                                                                                              \
    ENTRY(ALARMS, alarms)                                                                                              \
    ENTRY(BEST, best)                                                                                                  \
    ENTRY(PATIENCE, patience)                                                                                          \
    ENTRY(LINKS, links)                                                                                                \
    ENTRY(PRUNE, prune)                                                                                                \
    ENTRY(DISK, disk)                                                                                                  \
    ENTRY(PROGRAM, program)                                                                                            \
    ENTRY(SPOT, spot)                                                                                                  \
    ENTRY(INFO, info)

#define EITP__OBSERVER_NAME(NAME, name) EITP__OBSERVER_##NAME,
typedef enum eitp__observer_name { EITP__OBSERVERS(EITP__OBSERVER_NAME) EITP__OBSERVER_COUNT } eitp__observer_name;

/* The observers' votes on a step, and on the evaluation after it. Starts as zeros. */
typedef struct eitp__decision {
    int saves;        /* save a checkpoint; after an evaluation, one that includes its result */
    int stops;        /* this step is the last one; `why` is one line of text */
    eitp_error fails; /* end the run with this error; the first vote counts. EITP_OK: go on */
    char why[200];
} eitp__decision;

/* The state of the model, from best to worst. */
typedef enum eitp__verdict {
    EITP__MODEL_GOOD,
    EITP__MODEL_UNKNOWN, /* the next step will tell: do not save before it */
    EITP__MODEL_RUINED   /* never save it under a name that a resume would pick */
} eitp__verdict;

typedef struct eitp__judgement {
    eitp__verdict verdict;
    eitp_run_end end; /* how the run ends if the model is ruined; `why` is one line of text */
    char why[240];
} eitp__judgement;

/* Any callback may be NULL. Callbacks that return nothing report their own failures. */
typedef struct eitp__observer {
    const char *name;   /* of the observer's member in a checkpoint's run_state.json */
    size_t state_size;  /* in bytes; the state is zeros when the run is created */
    eitp_run_cost cost; /* what its time counts as: see eitp_run_measure */
    /* It acts on checkpoints that the run writes: an eitp_watch, whose program writes them, does not have it. */
    int needs_checkpoints;

    /* Before the first step, after the trainer was resumed and `read` was called. Votes go to run->decision. */
    eitp_status (*begin)(eitp_run *run, void *state, eitp_error *error);
    /* Every few microseconds within a step or evaluation. Returns 1 to drop it; it is repeated later. */
    int (*poll)(eitp_run *run, void *state);
    /* Before each step, and before a dropped step or evaluation is repeated. */
    eitp_status (*before_step)(eitp_run *run, void *state, eitp_error *error);
    /* True if no step may begin yet. The run waits, and calls before_step of all observers each second, until none
       holds it or it is asked to stop. */
    int (*holds)(const eitp_run *run, const void *state);
    void (*after_step)(eitp_run *run, void *state, eitp__decision *decision);
    void (*after_evaluation)(eitp_run *run, void *state, eitp__decision *decision);
    /* After a spot evaluation, which decides nothing. */
    void (*after_spot)(eitp_run *run, void *state, const eitp_evaluation *evaluation);
    /* Judges the model after the last step. *judgement holds EITP__MODEL_GOOD at the call. */
    void (*judge)(const eitp_run *run, const void *state, eitp__judgement *judgement);

    void (*before_save)(eitp_run *run, void *state);
    /* Appends the value of the observer's member of run_state.json, or nothing. `is_counted` is 1 if save_total_limit
       counts the checkpoint. */
    void (*write)(const eitp_run *run, const void *state, int is_counted, eitp__buffer *text);
    /* Restores the state from the member's value, NULL if it is missing. Not called without a run_state.json. */
    eitp_status (*read)(eitp_run *run, void *state, const eitp_json *value, eitp_error *error);
    /* Writes the observer's files into a checkpoint. */
    eitp_status (*write_files)(const eitp_run *run, const void *state, const char *directory, eitp_error *error);
    /* After a checkpoint was written, or begun in the background. The training waited for `waited` seconds. */
    void (*saved)(eitp_run *run, void *state, int is_counted, double waited);
    /* The checkpoint of this step is complete on disk. */
    void (*save_complete)(eitp_run *run, void *state, int64_t step);
    /* The checkpoint of this step could not be written, and training has gone on. `why` is the error. */
    void (*save_lost)(eitp_run *run, void *state, int64_t step, const char *why);
    /* Returns the step of a checkpoint that must not be pruned, or -1. */
    int64_t (*keeps)(const eitp_run *run, const void *state);
    /* The set of checkpoints may have changed, and no save is in progress. */
    void (*checkpoints_changed)(eitp_run *run, void *state);
    /* The output directory was found empty: it was removed, or replaced by another one. */
    void (*directory_replaced)(eitp_run *run, void *state);

    /* The run stops because the model is ruined. */
    void (*ruined)(eitp_run *run, void *state);
    /* After the last save, in reverse order: what others report then is recorded. */
    void (*end)(eitp_run *run, void *state);
    /* Releases what the state owns, whether or not the run has begun. */
    void (*close)(eitp_run *run, void *state);
} eitp__observer;

/* Each fills in its observer's row, which is zeros at the call. */
#define EITP__OBSERVER_ROW(NAME, name) EITP__PRIVATE void eitp__##name##_observer(eitp__observer *observer);
EITP__OBSERVERS(EITP__OBSERVER_ROW)

/* ---- The run ---- */

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

/* The saves of a run. One that is written beside the steps: see run/save.h. */
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

/* Releases the meter of eitp_run_measure. */
EITP__PRIVATE void eitp__run_release_meter(eitp_run *run);

/* ---- Telling the observers ---- */

/* Loops over the observers that have this callback; `at` is the index into run->observers and run->states. */
#define EITP__EACH_OBSERVER(run, at, function)                                                                         \
    for (int at = 0; at < EITP__OBSERVER_COUNT; at++)                                                                  \
        if ((run)->observers[at].function)

/* True if an observer holds the run. */
EITP__PRIVATE int eitp__run_is_held(const eitp_run *run);

/* The worst judgement of all observers. */
EITP__PRIVATE eitp__judgement eitp__run_judge(const eitp_run *run);

/* True if the model may be saved under a name that a resume picks. */
EITP__PRIVATE int eitp__run_is_good(const eitp_run *run);

/* Lists the steps whose checkpoints must not be pruned: those that observers keep, and the last one that the run saved.
   Entries may be -1. */
enum { EITP__KEPT_STEPS = EITP__OBSERVER_COUNT + 1 };
EITP__PRIVATE void eitp__run_list_kept(const eitp_run *run, int64_t kept[EITP__KEPT_STEPS]);

/* EITP_OK, or the error of run->decision. */
EITP__PRIVATE eitp_status eitp__run_decided(const eitp_run *run, eitp_error *error);

/* Calls `end` of all observers, from the last to the first. */
EITP__PRIVATE void eitp__run_end_observers(eitp_run *run);

/* Tell the observers. The last does nothing while a save is in progress. */
EITP__PRIVATE void eitp__run_before_save(eitp_run *run);
EITP__PRIVATE void eitp__run_saved(eitp_run *run, int is_counted, double waited);
EITP__PRIVATE void eitp__run_save_complete(eitp_run *run, int64_t step);
EITP__PRIVATE void eitp__run_checkpoints_changed(eitp_run *run);

/* ---- run_state.json: what a run, besides its trainer, takes from a checkpoint ---- */

/* Writes it into the directory of a checkpoint. */
EITP__PRIVATE eitp_status eitp__run_state_write(const eitp_run *run, int is_counted, const char *directory,
                                                eitp_error *error);

/* Reads it from the run's checkpoint. One of an earlier version, or of a trainer without a run, has none. */
EITP__PRIVATE eitp_status eitp__run_state_read(eitp_run *run, eitp_error *error);

/* Parses that of a checkpoint. *document is NULL if there is none. */
EITP__PRIVATE eitp_status eitp__run_state_open(const eitp_host *host, const char *checkpoint,
                                               eitp_json_document **document, eitp_error *error);

/* ---- When a run evaluates and saves, and what it has saved ---- */

/* True if the task has validation samples. */
EITP__PRIVATE int eitp__run_validates(const eitp_run *run);

/* The metric whose best checkpoint is kept: that of keep_best, or the loss that patience watches; NULL: none. */
EITP__PRIVATE const char *eitp__run_kept_metric(const eitp_run_config *config);

/* True if evaluations decide which checkpoint is kept as the best, and when to stop early. */
EITP__PRIVATE int eitp__run_follows_best(const eitp_run *run);

/* True if the run has steps left. */
EITP__PRIVATE int eitp__steps_remain(const eitp_run *run);

/* True if the run evaluates after this step; for 0, before the first. */
EITP__PRIVATE int eitp__evaluation_is_due(const eitp_run *run, int64_t step);

/* The step of the newest checkpoint, complete or being written; -1: none. */
EITP__PRIVATE int64_t eitp__run_newest_save(const eitp_run *run);

/* True if the checkpoint of a step is complete, or being written. */
EITP__PRIVATE int eitp__run_has_saved(const eitp_run *run, int64_t step);

/* True if a save of this step is due now, and there is none. */
EITP__PRIVATE int eitp__save_is_due(const eitp_run *run, int64_t step);

/* True if save_total_limit counts the checkpoint of this step: an undisturbed run saves after it, too. So both keep the
   same checkpoints in the end. */
EITP__PRIVATE int eitp__save_is_counted(const eitp_run *run, int64_t step);

/* A loss term or metric of an evaluation by its name; NULL: it has none. */
EITP__PRIVATE const eitp_metric *eitp__find_metric(const eitp_evaluation *evaluation, const char *name);

/* ---- Events and records ---- */

/* The name of the items of the first loss term. */
EITP__PRIVATE const char *eitp__run_unit(const eitp_run *run);

/* Sends an event to the listener, or logs it without one. Sinks receive it as a record, except for steps and
   evaluations, which have records of their own. */
EITP__PRIVATE void eitp__run_notify(eitp_run *run, eitp_run_event_kind kind, eitp_log_level level, double seconds,
                                    const char *format, ...) EITP__PRINTF(5, 6);

/* The same with values of its own in its record. */
EITP__PRIVATE void eitp__run_notify_values(eitp_run *run, eitp_run_event_kind kind, eitp_log_level level,
                                           double seconds, const char *message, const eitp_value *values, size_t count);

/* Reports the sinks that began to fail, or store records again. */
EITP__PRIVATE void eitp__run_report_sinks(eitp_run *run);

/* At the end: reports how many records could not be stored, but to no sink. */
EITP__PRIVATE void eitp__run_report_lost(eitp_run *run);

/* The list of the values of a record, empty. One record is built at a time. */
EITP__PRIVATE eitp__values *eitp__record_begin(eitp_run *run);

/* Gives the record to the sinks. A failing sink is reported, and ends nothing. */
EITP__PRIVATE void eitp__record(eitp_run *run, eitp_record_kind kind, int64_t step);

/* The members of eitp_run_config that are settings; they may change in a resumed run. Stores their number in *count,
   unless `count` is NULL. */
EITP__PRIVATE const eitp_setting *eitp__run_setting_table(size_t *count);

#endif
