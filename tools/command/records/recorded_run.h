/* A run as recorded in its files, for the commands that look at runs. Writes nothing and takes no lock. */
#ifndef COMMAND_RECORDS_RECORDED_RUN_H
#define COMMAND_RECORDS_RECORDED_RUN_H

#include "text.h"

EITP_BEGIN_DECLARATIONS

/* An event, with the members of its line in metrics.jsonl. */
typedef struct recorded_event {
    int64_t step;
    double time;         /* seconds since 1970; 0: unknown (records of version 0) */
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

/* A directory checkpoint-<step>, possibly with the suffix ".damaged" or ".diverged". */
typedef struct recorded_checkpoint {
    int64_t step;
    double time;        /* of its trainer_state.json, in seconds since 1970 */
    const char *suffix; /* "", "damaged" or "diverged" */
} recorded_checkpoint;

/* The contents of a run's files. Missing values are NULL, empty, NaN or -1. */
typedef struct recorded_run {
    char *directory; /* as given, without slashes at the end */
    char *name;      /* --run-name, otherwise the last name in the path */
    char *records;   /* directory of metrics.jsonl: --log-dir, otherwise `directory` */
    eitp_history *history;
    eitp_run_process process;
    /* run.json: its members "run" and "configuration", and of "run" "machine", "plan", "model", "data" */
    eitp_json_document *info;
    const eitp_json *run, *configuration;
    eitp_json_document *supervisor; /* logs/supervisor.json of safe-train; NULL: none */
    int64_t step;                   /* last recorded step, or the process's */
    int64_t first_step, last_step;  /* first step of the last start, and planned last step */
    recorded_event *events;
    size_t event_count;
    recorded_evaluation *all_evaluations;
    size_t all_evaluation_count;
    const recorded_evaluation *evaluations; /* without those at the start that had fewer samples */
    size_t evaluation_count;
    recorded_checkpoint *checkpoints; /* by step */
    size_t checkpoint_count;
    text_buffer missing;        /* a line per file that is missing or unreadable, with the reason */
    int damaged_count;          /* number of existing files that are unreadable */
    eitp_json_document **lines; /* of events and evaluations */
    size_t line_count;
} recorded_run;

/* Reads a run. EITP_ERROR_ARGUMENT if the directory does not exist or has no files of a run. Close it in any case. */
eitp_status recorded_run_open(const char *directory, recorded_run *r, eitp_error *error);

/* Reads new records. *changed is 1 if there were any. */
eitp_status recorded_run_update(recorded_run *r, int *changed, eitp_error *error);
void recorded_run_close(recorded_run *r);

/* ---- Lookup ---- */

/* Returns the value at a dot-separated path of names, such as "machine.processors", or NULL. */
const eitp_json *recorded_at(const eitp_json *object, const char *path);

/* Return the first member of an object, and the first item of an array; the others follow by `next`. NULL for another
   kind of value. A record may have any value anywhere, so readers start with these rather than with first_child. */
const eitp_json *recorded_members(const eitp_json *object);
const eitp_json *recorded_items(const eitp_json *array);

/* Return the number at a path (0 or 1 for a boolean), or NaN; and the string, or `missing`. */
double recorded_number(const eitp_json *object, const char *path);
const char *recorded_text(const eitp_json *object, const char *path, const char *missing);

/* Returns the points of a number in a new array, which the caller frees; NULL and 0 if it has no points. */
eitp_history_point *recorded_points(const recorded_run *r, const char *name, size_t *count);

/* Returns the last value of a number, or NaN. */
double recorded_last(const recorded_run *r, const char *name);

/* Returns the name of the step loss that is comparable between steps and with evaluations: the task loss alone. */
const char *recorded_task_loss(const recorded_run *r);

/* Returns the unit of items per step and of rates: "tokens", "samples", "words", "texts", "masked_tokens"; "items" if
   unknown. Valid until the next update. */
const char *recorded_unit(const recorded_run *r);

/* Returns the newest event of a kind, or NULL. */
const recorded_event *recorded_last_event(const recorded_run *r, const char *kind);

/* Return the newest evaluation, and the one with the lowest loss, or NULL. */
const recorded_evaluation *recorded_last_evaluation(const recorded_run *r);
const recorded_evaluation *recorded_best_evaluation(const recorded_run *r);

/* Returns the newest complete checkpoint, or NULL. */
const recorded_checkpoint *recorded_last_checkpoint(const recorded_run *r);

/* ---- State ---- */

/* False if only safe-train has written files: the run was refused or has not started yet. */
int recorded_has_started(const recorded_run *r);

/* Returns "running", "paused", "finished", ..., "killed or crashed", "machine restarted", "unknown". */
const char *recorded_state(const recorded_run *r);

/* Step time: the median of the last 20 points, and their quartiles; NaN: unknown. */
typedef struct recorded_pace {
    double step, low, high;           /* seconds per step, including work between steps */
    double left, left_low, left_high; /* seconds to the last step; NaN: unknown, 0: the run is over */
} recorded_pace;
recorded_pace recorded_run_pace(const recorded_run *r);

/* Returns the seconds of training since the newest checkpoint, which a crash now would lose; NaN if unknown. */
double recorded_unsaved_seconds(const recorded_run *r);

EITP_END_DECLARATIONS

#endif
