/*
 * The state of a run, its observers, and functions shared by its modules.
 *
 * Observers are the guard, the records, the health of the model and others. An observer is a table of callbacks with
 * its own state. The run calls the observers in the order of EITP__OBSERVERS. They may read the run, and influence it
 * by their votes.
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

/* Calls ENTRY(NAME, name) for each observer; eitp__<name>_observer fills in its callbacks. */
#define EITP__OBSERVERS(ENTRY)                                                                                         \
    ENTRY(SET, set)                                                                                                    \
    ENTRY(GUARD, guard)                                                                                                \
    ENTRY(HEAT, heat)                                                                                                  \
    ENTRY(MACHINE_WATCH, machine_watch)                                                                                \
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
    int stops;        /* stop after this step; `why` is one line of text */
    eitp_error fails; /* end the run with this error; the first vote counts. EITP_OK: continue */
    char why[200];
} eitp__decision;

/* The state of the model, from best to worst. */
typedef enum eitp__verdict {
    EITP__MODEL_GOOD,
    EITP__MODEL_UNKNOWN, /* unknown until the next step: do not save before it */
    EITP__MODEL_DAMAGED  /* never save it under a name that a resume would pick */
} eitp__verdict;

typedef struct eitp__assessment {
    eitp__verdict verdict;
    eitp_run_end end; /* end of the run if the model is damaged; `why` is one line of text */
    char why[240];
} eitp__assessment;

/* Callbacks may be NULL. Those that return void report their own failures. */
typedef struct eitp__observer {
    const char *name;   /* name of the observer's member in a checkpoint's run_state.json */
    size_t state_size;  /* in bytes; the state is zeroed when the run is created */
    eitp_run_cost cost; /* category of the observer's time: see eitp_run_measure */
    /* The observer acts on checkpoints that the run writes. Not used in an eitp_watch, whose program writes them. */
    int needs_checkpoints;

    /* Called before the first step, after the trainer was resumed and `read` was called. Votes go to run->decision. */
    eitp_status (*begin)(eitp_run *run, void *state, eitp_error *error);
    /* Called every few microseconds within a step or evaluation. Returns 1 to drop it; it is repeated later. */
    int (*poll)(eitp_run *run, void *state);
    /* Called before each step, and before a dropped step or evaluation is repeated. */
    eitp_status (*before_step)(eitp_run *run, void *state, eitp_error *error);
    /* Returns true if no step may start yet. The run waits, and calls before_step of all observers each second, until
       no observer holds it or it is asked to stop. */
    int (*holds)(const eitp_run *run, const void *state);
    void (*after_step)(eitp_run *run, void *state, eitp__decision *decision);
    void (*after_evaluation)(eitp_run *run, void *state, eitp__decision *decision);
    /* Called after a spot evaluation. There are no votes. */
    void (*after_spot)(eitp_run *run, void *state, const eitp_evaluation *evaluation);
    /* Assesses the model after the last step. *assessment holds EITP__MODEL_GOOD on entry. */
    void (*assess)(const eitp_run *run, const void *state, eitp__assessment *assessment);

    void (*before_save)(eitp_run *run, void *state);
    /* Appends the value of the observer's member of run_state.json, or nothing. `is_counted` is 1 if save_total_limit
       counts the checkpoint. */
    void (*write)(const eitp_run *run, const void *state, int is_counted, eitp__buffer *text);
    /* Restores the state from the member's value, NULL if it is missing. Not called if there is no run_state.json. */
    eitp_status (*read)(eitp_run *run, void *state, const eitp_json *value, eitp_error *error);
    /* Writes the observer's files into a checkpoint. */
    eitp_status (*write_files)(const eitp_run *run, const void *state, const char *directory, eitp_error *error);
    /* Called after a checkpoint was written, or its writing started in the background. Training waited `waited`
       seconds. */
    void (*saved)(eitp_run *run, void *state, int is_counted, double waited);
    /* Called when the checkpoint of this step is complete on disk. */
    void (*save_complete)(eitp_run *run, void *state, int64_t step);
    /* Called when the checkpoint of this step could not be written and training has continued. `why` is the error. */
    void (*save_lost)(eitp_run *run, void *state, int64_t step, const char *why);
    /* Returns the step of a checkpoint that must not be pruned, or -1. */
    int64_t (*keeps)(const eitp_run *run, const void *state);
    /* Called when the set of checkpoints may have changed and no save is in progress. */
    void (*checkpoints_changed)(eitp_run *run, void *state);
    /* Called when the output directory was found empty, because it was removed or replaced by another one. */
    void (*directory_replaced)(eitp_run *run, void *state);

    /* Called when the run stops because the model is damaged. */
    void (*ruined)(eitp_run *run, void *state);
    /* Called after the last save, in reverse order, so that reports made by other observers are still recorded. */
    void (*end)(eitp_run *run, void *state);
    /* Releases what the state owns, whether or not the run has started. */
    void (*close)(eitp_run *run, void *state);
} eitp__observer;

/* Each fills in its observer's callbacks. *observer is zeroed on entry. */
#define EITP__OBSERVER_ROW(NAME, name) EITP__PRIVATE void eitp__##name##_observer(eitp__observer *observer);
EITP__OBSERVERS(EITP__OBSERVER_ROW)

/* ---- The run ---- */

/* The lock of the directory, which also identifies it. */
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
    EITP__RUN_EMPTY /* stopped before step 1: nothing to keep */
} eitp__run_stage;

/* State of a run's saves. For background saves see run/save.h. */
typedef struct eitp__run_saves {
    struct eitp__save *save;          /* in progress in the background, or NULL */
    struct eitp__write_behind *queue; /* memory of its copy, or NULL */
    double began, stalled;            /* start time, and seconds in which no step was made */
    double at;                        /* time of the last save, or of the start */
    int async_has_failed;             /* the last background save failed */
    int has_failed;                   /* the last save for which the run waited failed */
    int is_early;    /* the checkpoint of this step was written on memory pressure and lacks its evaluation */
    int was_refused; /* a save was due while the model was damaged, which was reported */
} eitp__run_saves;

struct eitp_run {
    eitp_host host;
    eitp_run_config config;       /* its strings are the copies below; the records' observer owns its sinks */
    const eitp_setting *settings; /* setting table of the configuration */
    size_t setting_count;
    char *directory, *keep_best, *run_name, *notes;
    char *checkpoint;       /* checkpoint to resume from, or NULL */
    int writes_checkpoints; /* 0: an eitp_watch, whose program writes the checkpoints */
    /* Saves the steps done when memory is short; NULL: not possible. */
    eitp_status (*save_early)(eitp_run *run, eitp_error *error);
    int64_t checkpoint_step;
    eitp__prefetch *prefetch; /* of the checkpoint's tensors, until the first step; may be NULL */
    eitp__directory_lock lock;
    eitp__run_stage stage;
    eitp__observer observers[EITP__OBSERVER_COUNT];
    void *states[EITP__OBSERVER_COUNT];
    struct eitp__meter *meter; /* measures the time of the observers, or NULL: see run/meter.c */

    /* Written by signal handlers. */
    volatile sig_atomic_t stop, stop_reason, save;

    int64_t kept_step; /* see eitp_run_keep_checkpoint; -1: none */
    int prune_is_due;  /* the checkpoint kept before that may be removed from now on */

    /* Used while the run trains. */
    eitp_trainer *trainer;
    eitp_run_report report;
    eitp__poll program_poll; /* poll of the context before the run */
    eitp__run_saves saves;
    eitp__decision decision; /* after the last step or evaluation */
    double seconds;          /* duration of the last step or evaluation */
    const char *described;   /* the program's description of the last evaluation; may be NULL */
    int is_ending;           /* no step follows */
    int is_over;             /* the run has ended */
    eitp_error failure;      /* at the end: the result of eitp_run_train; EITP_OK if it is not an error */
};

/* Creates a run whose directory is not prepared yet. Checks the configuration but does not apply it. */
EITP__PRIVATE eitp_status eitp__run_create(const eitp_host *host, const eitp_run_config *config, int writes_checkpoints,
                                           eitp_run **run, eitp_error *error);

/* Copies the configuration, so that the program need not keep it. On failure the run keeps its previous one. */
EITP__PRIVATE eitp_status eitp__run_take_config(eitp_run *run, const eitp_run_config *config, eitp_error *error);

/* Initializes the state of a run that has not made a step. */
EITP__PRIVATE void eitp__run_start(eitp_run *run, eitp_trainer *trainer);

/* Releases the meter of eitp_run_measure. */
EITP__PRIVATE void eitp__run_release_meter(eitp_run *run);

/* ---- Calling the observers ---- */

/* Loops over the observers that have this callback; `at` is the index into run->observers and run->states. */
#define EITP__EACH_OBSERVER(run, at, function)                                                                         \
    for (int at = 0; at < EITP__OBSERVER_COUNT; at++)                                                                  \
        if ((run)->observers[at].function)

/* True if an observer holds the run. */
EITP__PRIVATE int eitp__run_is_held(const eitp_run *run);

/* Returns the worst assessment of all observers. */
EITP__PRIVATE eitp__assessment eitp__run_assess(const eitp_run *run);

/* True if the model may be saved under a name that a resume would pick. */
EITP__PRIVATE int eitp__run_is_good(const eitp_run *run);

/* Lists the steps whose checkpoints must not be pruned: those that observers keep, and the last one saved by the run.
   Entries may be -1. */
enum { EITP__KEPT_STEPS = EITP__OBSERVER_COUNT + 1 };
EITP__PRIVATE void eitp__run_list_kept(const eitp_run *run, int64_t kept[EITP__KEPT_STEPS]);

/* Returns EITP_OK, or the error of run->decision. */
EITP__PRIVATE eitp_status eitp__run_decided(const eitp_run *run, eitp_error *error);

/* Calls `end` of all observers, from the last to the first. */
EITP__PRIVATE void eitp__run_end_observers(eitp_run *run);

/* Notify the observers. The last one does nothing while a save is in progress. */
EITP__PRIVATE void eitp__run_before_save(eitp_run *run);
EITP__PRIVATE void eitp__run_saved(eitp_run *run, int is_counted, double waited);
EITP__PRIVATE void eitp__run_save_complete(eitp_run *run, int64_t step);
EITP__PRIVATE void eitp__run_checkpoints_changed(eitp_run *run);

/* ---- run_state.json: the state of a run in a checkpoint, except its trainer's ---- */

/* Writes it to the directory of a checkpoint. */
EITP__PRIVATE eitp_status eitp__run_state_write(const eitp_run *run, int is_counted, const char *directory,
                                                eitp_error *error);

/* Reads it from the run's checkpoint. Checkpoints of earlier versions, and of trainers without a run, do not have
   it. */
EITP__PRIVATE eitp_status eitp__run_state_read(eitp_run *run, eitp_error *error);

/* Parses the one of a checkpoint. *document is NULL if it does not exist. */
EITP__PRIVATE eitp_status eitp__run_state_open(const eitp_host *host, const char *checkpoint,
                                               eitp_json_document **document, eitp_error *error);

/* ---- Schedule of evaluations and saves, and checkpoints saved ---- */

/* True if the task has validation samples. */
EITP__PRIVATE int eitp__run_validates(const eitp_run *run);

/* Returns the metric whose best checkpoint is kept: keep_best, or the loss with `patience`; NULL: none. */
EITP__PRIVATE const char *eitp__run_kept_metric(const eitp_run_config *config);

/* True if evaluations decide which checkpoint is kept as the best, and when to stop early. */
EITP__PRIVATE int eitp__run_follows_best(const eitp_run *run);

/* True if the run has steps left. */
EITP__PRIVATE int eitp__steps_remain(const eitp_run *run);

/* True if the run evaluates after this step. Step 0: before the first step. */
EITP__PRIVATE int eitp__evaluation_is_due(const eitp_run *run, int64_t step);

/* Returns the step of the newest checkpoint, complete or being written, or -1. */
EITP__PRIVATE int64_t eitp__run_newest_save(const eitp_run *run);

/* True if the checkpoint of a step is complete, or being written. */
EITP__PRIVATE int eitp__run_has_saved(const eitp_run *run, int64_t step);

/* True if a save of this step is due now and has not been made. */
EITP__PRIVATE int eitp__save_is_due(const eitp_run *run, int64_t step);

/* True if save_total_limit counts the checkpoint of this step, because an undisturbed run saves after it too. Both then
   keep the same checkpoints in the end. */
EITP__PRIVATE int eitp__save_is_counted(const eitp_run *run, int64_t step);

/* Returns a loss term or metric of an evaluation by name, or NULL. */
EITP__PRIVATE const eitp_metric *eitp__find_metric(const eitp_evaluation *evaluation, const char *name);

/* ---- Events and records ---- */

/* Returns the name of the items of the first loss term. */
EITP__PRIVATE const char *eitp__run_unit(const eitp_run *run);

/* Sends an event to the listener, or logs it without one. Sinks receive it as a record, except for steps and
   evaluations, which have their own records. */
EITP__PRIVATE void eitp__run_notify(eitp_run *run, eitp_run_event_kind kind, eitp_log_level level, double seconds,
                                    const char *format, ...) EITP__PRINTF(5, 6);

/* Like eitp__run_notify, with additional values in the record. */
EITP__PRIVATE void eitp__run_notify_values(eitp_run *run, eitp_run_event_kind kind, eitp_log_level level,
                                           double seconds, const char *message, const eitp_value *values, size_t count);

/* Reports the sinks that have started to fail, or that store records again. */
EITP__PRIVATE void eitp__run_report_sinks(eitp_run *run);

/* At the end: reports the number of lost records, but not to the sinks. */
EITP__PRIVATE void eitp__run_report_lost(eitp_run *run);

/* Returns the empty list of the values of a record. One record is built at a time. */
EITP__PRIVATE eitp__values *eitp__record_begin(eitp_run *run);

/* Passes the record to the sinks. A failing sink is reported and does not end the run. */
EITP__PRIVATE void eitp__record(eitp_run *run, eitp_record_kind kind, int64_t step);

/* Returns the members of eitp_run_config that are settings, which may change in a resumed run. Stores their number in
   *count unless `count` is NULL. */
EITP__PRIVATE const eitp_setting *eitp__run_setting_table(size_t *count);

#endif
