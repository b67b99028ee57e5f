/*
 * Observers of a run: the guard, the records, the health of the model and their kin. An observer is a row of callbacks
 * with a state of its own. The run calls the observers in the order of EITP__OBSERVERS. They may read the run, and
 * influence it by their votes.
 */
#ifndef EITP_OBSERVER_H
#define EITP_OBSERVER_H

#include "base/json.h"
#include "run/run.h"

/* Calls ENTRY(NAME, name) for each observer; eitp__<name>_observer fills in its row. */
#define EITP__OBSERVERS(ENTRY)                                                                                         \
    ENTRY(SET, set)                                                                                                    \
    ENTRY(GUARD, guard)                                                                                                \
    ENTRY(HEAT, heat)                                                                                                  \
    ENTRY(SURROUNDINGS, surroundings)                                                                                  \
    ENTRY(RECORDS, records)                                                                                            \
    ENTRY(PERFORMANCE, performance)                                                                                    \
    ENTRY(GPU, gpu)                                                                                                    \
    ENTRY(WINDOWS, windows)                                                                                            \
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
    eitp_run_part part; /* what its time counts as: see eitp_run_measure */
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

#endif
