/*
 * What watches a run. An observer is a row of functions, which the run calls at its moments in the order of
 * EITP__OBSERVERS, and a state of its own. It sees the run, and acts through its votes.
 */
#ifndef EITP_OBSERVER_H
#define EITP_OBSERVER_H

#include "base/json.h"
#include "run/run.h"

/* ENTRY(NAME, name) for each; eitp__<name>_observer fills in its row. */
#define EITP__OBSERVERS(ENTRY)                                                                                         \
    ENTRY(GUARD, guard)                                                                                                \
    ENTRY(RECORDS, records)                                                                                            \
    ENTRY(ASYNC_SAVE, async_save)                                                                                      \
    ENTRY(HEALTH, health)                                                                                              \
    ENTRY(BEST, best)                                                                                                  \
    ENTRY(PATIENCE, patience)                                                                                          \
    ENTRY(LINKS, links)                                                                                                \
    ENTRY(PRUNE, prune)                                                                                                \
    ENTRY(DISK, disk)                                                                                                  \
    ENTRY(PROGRAM, program)

#define EITP__OBSERVER_NAME(NAME, name) EITP__OBSERVER_##NAME,
typedef enum eitp__observer_name { EITP__OBSERVERS(EITP__OBSERVER_NAME) EITP__OBSERVER_COUNT } eitp__observer_name;

/* What follows a step, and the evaluation after it: zeros, then the votes of the observers. */
typedef struct eitp__decision {
    int saves;        /* a checkpoint of the steps done; after an evaluation, one that has it */
    int stops;        /* no step follows; `why` is one line of text */
    eitp_error fails; /* the run ends with this error; the first vote decides. EITP_OK: it does not */
    char why[200];
} eitp__decision;

/* What is known about the model, the worst last. */
typedef enum eitp__verdict {
    EITP__MODEL_GOOD,
    EITP__MODEL_UNKNOWN, /* the next step tells: it is not saved before */
    EITP__MODEL_RUINED   /* it is never saved under a name that a resume takes */
} eitp__verdict;

typedef struct eitp__judgement {
    eitp__verdict verdict;
    eitp_run_end end; /* of a run whose model is ruined; `why` is one line of text */
    char why[240];
} eitp__judgement;

/* Any function may be NULL. Those that return nothing report what fails. */
typedef struct eitp__observer {
    const char *name;  /* of its member of a checkpoint's run_state.json */
    size_t state_size; /* zeros when the run is created */

    /* Before the first step, when the trainer and the states are those of the checkpoint, if there is one. It votes by
       run->decision. */
    eitp_status (*begin)(eitp_run *run, void *state, eitp_error *error);
    /* Within steps, every few microseconds: 1 drops the step or evaluation in progress, which is repeated later. */
    int (*poll)(eitp_run *run, void *state);
    /* Before each step, and before one is repeated. */
    eitp_status (*before_step)(eitp_run *run, void *state, eitp_error *error);
    void (*after_step)(eitp_run *run, void *state, eitp__decision *decision);
    void (*after_evaluation)(eitp_run *run, void *state, eitp__decision *decision);
    /* Judges the model of the last step; *judgement is that of a good model. */
    void (*judge)(const eitp_run *run, const void *state, eitp__judgement *judgement);

    void (*before_save)(eitp_run *run, void *state);
    /* Adds a member's value to run_state.json, or nothing. `is_counted`: save_total_limit counts the checkpoint. */
    void (*write)(const eitp_run *run, const void *state, int is_counted, eitp__buffer *text);
    /* Reads it; NULL: there is none. Not called if the checkpoint has no run_state.json. */
    eitp_status (*read)(eitp_run *run, void *state, const eitp__json *value, eitp_error *error);
    /* Writes files into a checkpoint. */
    eitp_status (*write_files)(const eitp_run *run, const void *state, const char *directory, eitp_error *error);
    /* A checkpoint is written, which took `waited` seconds between steps, or is being written beside them (0). */
    void (*saved)(eitp_run *run, void *state, int is_counted, double waited);
    /* The checkpoint of a step is complete. */
    void (*complete)(eitp_run *run, void *state, int64_t step);
    /* The checkpoint of a step, after which others were made, is not written, for the reason `why`. */
    void (*lost)(eitp_run *run, void *state, int64_t step, const char *why);
    /* The step of a checkpoint that stays besides the newest; -1: none. */
    int64_t (*keeps)(const eitp_run *run, const void *state);
    /* What is saved and kept has changed, and no save is in progress. */
    void (*settle)(eitp_run *run, void *state);
    /* The directory was empty: it had been removed, or another one has its path. */
    void (*directory_replaced)(eitp_run *run, void *state);

    /* No step follows, since the model is ruined. */
    void (*ruined)(eitp_run *run, void *state);
    /* After the last save. */
    void (*end)(eitp_run *run, void *state);
} eitp__observer;

/* Fills in the row of zeros of an observer. */
#define EITP__OBSERVER_ROW(NAME, name) EITP__PRIVATE void eitp__##name##_observer(eitp__observer *observer);
EITP__OBSERVERS(EITP__OBSERVER_ROW)

/* `for` each observer that has a function: run->observers[at], with the state run->states[at]. */
#define EITP__EACH_OBSERVER(run, at, function)                                                                         \
    for (int at = 0; at < EITP__OBSERVER_COUNT; at++)                                                                  \
        if ((run)->observers[at].function)

/* What all of them say. */
EITP__PRIVATE eitp__judgement eitp__run_judge(const eitp_run *run);

/* True if the model may be saved under a name that a resume takes. */
EITP__PRIVATE int eitp__run_is_good(const eitp_run *run);

/* Steps whose checkpoints stay besides the newest: those that observers keep, and the last one that the run saved. -1:
   none. */
enum { EITP__KEPT_STEPS = EITP__OBSERVER_COUNT + 1 };
EITP__PRIVATE void eitp__run_list_kept(const eitp_run *run, int64_t kept[EITP__KEPT_STEPS]);

/* EITP_OK, or the error of run->decision. */
EITP__PRIVATE eitp_status eitp__run_decided(const eitp_run *run, eitp_error *error);

/* What is saved and kept may have changed. */
EITP__PRIVATE void eitp__run_settle(eitp_run *run);

#endif
