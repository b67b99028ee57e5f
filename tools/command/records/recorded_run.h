/* A run as its files have it: for the commands that look at runs. Nothing is written, and no lock is taken. */
#ifndef COMMAND_RECORDS_RECORDED_RUN_H
#define COMMAND_RECORDS_RECORDED_RUN_H

#include "text.h"

EITP_BEGIN_DECLARATIONS

/* An event: its members are those of its line in metrics.jsonl. */
typedef struct recorded_event {
    int64_t step;
    double time;         /* seconds since 1970; 0: unknown, as in records of version 0 */
    const char *kind;    /* "alarm", "saved", ... */
    const char *level;   /* "debug", "info", "warning" or "error" */
    const char *message; /* "": none */
    const eitp_json *record;
} recorded_event;

typedef struct recorded_evaluation {
    int64_t step;
    double time;
    double loss, error; /* val_loss and its standard error; NaN: none */
    const eitp_json *record;
} recorded_evaluation;

/* A directory checkpoint-<step>, or with ".damaged" or ".diverged" after it. */
typedef struct recorded_checkpoint {
    int64_t step;
    double time;        /* of its trainer_state.json, in seconds since 1970 */
    const char *suffix; /* "", "damaged" or "diverged" */
} recorded_checkpoint;

/* What the files of a directory have. What is missing is NULL, empty, NaN or -1. */
typedef struct recorded_run {
    char *directory; /* as it was given, without slashes at the end */
    char *name;      /* of --run-name, otherwise the last name in the path */
    char *records;   /* the directory of metrics.jsonl: --log-dir, otherwise `directory` */
    eitp_history *history;
    eitp_run_process process;
    /* run.json: its members "run" and "configuration", and of "run" "machine", "plan", "model", "data" */
    eitp_json_document *info;
    const eitp_json *run, *configuration;
    eitp_json_document *supervisor; /* logs/supervisor.json of safe-train; NULL: none */
    int64_t step;                   /* the last one with a record, or of the process */
    int64_t first_step, last_step;  /* of the run: the first one of the last start, and all steps that are planned */
    recorded_event *events;
    size_t event_count;
    recorded_evaluation *all_evaluations;
    size_t all_evaluation_count;
    const recorded_evaluation *evaluations; /* without those at the start that took fewer samples than the others */
    size_t evaluation_count;
    recorded_checkpoint *checkpoints; /* by step */
    size_t checkpoint_count;
    text_buffer missing;        /* a line for each file that is missing or cannot be read, with the reason */
    int damaged_count;          /* of those that are there and cannot be read */
    eitp_json_document **lines; /* of events and evaluations */
    size_t line_count;
} recorded_run;

/* Reads a run. EITP_ERROR_ARGUMENT if the directory does not exist, or has nothing of a run. Close it in any case. */
eitp_status recorded_run_open(const char *directory, recorded_run *r, eitp_error *error);

/* Reads what is new. *changed is 1 if there was anything. */
eitp_status recorded_run_update(recorded_run *r, int *changed, eitp_error *error);
void recorded_run_close(recorded_run *r);

/* ---- Looking things up ---- */

/* The value at a path of names, separated by dots: "machine.processors". NULL: there is none. */
const eitp_json *recorded_at(const eitp_json *object, const char *path);

/* The first member of an object, and the first item of an array; the others follow by `next`. NULL: another kind of
   value. A record may have any value anywhere, so its readers begin with these rather than with first_child. */
const eitp_json *recorded_members(const eitp_json *object);
const eitp_json *recorded_items(const eitp_json *array);

/* A number there (of a boolean 0 or 1), or NaN; a string, or `missing`. */
double recorded_number(const eitp_json *object, const char *path);
const char *recorded_text(const eitp_json *object, const char *path, const char *missing);

/* The points of a number in a new array, which the caller frees; NULL and 0: there are none. */
eitp_history_point *recorded_points(const recorded_run *r, const char *name, size_t *count);

/* The last value of a number, or NaN. */
double recorded_last(const recorded_run *r, const char *name);

/* The name of the loss of steps that can be compared with other steps, and with evaluations: that of the task alone. */
const char *recorded_task_loss(const recorded_run *r);

/* What a step has a number of, and a rate: "tokens", "samples", "words", "texts", "masked_tokens"; "items": unknown.
   Valid until the next update. */
const char *recorded_unit(const recorded_run *r);

/* The newest event of a kind, or NULL. */
const recorded_event *recorded_last_event(const recorded_run *r, const char *kind);

/* The newest evaluation, and the one with the lowest loss; NULL: there is none. */
const recorded_evaluation *recorded_last_evaluation(const recorded_run *r);
const recorded_evaluation *recorded_best_evaluation(const recorded_run *r);

/* The newest whole checkpoint, or NULL. */
const recorded_checkpoint *recorded_last_checkpoint(const recorded_run *r);

/* ---- Its state ---- */

/* False if there is nothing but what safe-train has written: it was refused, or has not begun yet. */
int recorded_has_begun(const recorded_run *r);

/* "running", "paused", "finished", ..., "killed or crashed", "machine restarted", "unknown". */
const char *recorded_state(const recorded_run *r);

/* Seconds of a step: the median of the last 20 points, and their quartiles; NaN: unknown. */
typedef struct recorded_pace {
    double step, low, high;           /* seconds of a step, with what is done between steps */
    double left, left_low, left_high; /* seconds to the last step; NaN: unknown, 0: the run is over */
} recorded_pace;
recorded_pace recorded_run_pace(const recorded_run *r);

/* Seconds of training since the newest checkpoint, which a crash now would cost; NaN: unknown. */
double recorded_unsaved_seconds(const recorded_run *r);

EITP_END_DECLARATIONS

#endif
