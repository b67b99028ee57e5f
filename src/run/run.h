/*
 * A training run: the loop over the trainer's steps with evaluation, checkpoints, early stopping, a guard on memory and
 * records. docs/training.md has the whole picture; a program may keep its own loop over eitp_trainer_step instead.
 */
#ifndef EITP_RUN_H
#define EITP_RUN_H

#include "train/train.h"

EITP_BEGIN_DECLARATIONS

/* ---- Records ---- */

typedef enum eitp_value_kind {
    EITP_VALUE_NUMBER = 0,
    EITP_VALUE_INTEGER = 1,
    EITP_VALUE_BOOLEAN = 2,
    EITP_VALUE_TEXT = 3
} eitp_value_kind;

/* A named value: of `number`, `integer` and `text` the one that its kind says. */
typedef struct eitp_value {
    const char *name;
    eitp_value_kind kind;
    double number;
    int64_t integer; /* of a boolean 0 or 1 */
    const char *text;
} eitp_value;

/*
 * What is known after a step. Valid during the call that gets it. A step has "loss", of several loss terms
 * "loss_<name>" each, and more; an evaluation "val_loss" and "val_loss_<name>", measures "val_<name>", and the standard
 * error of each with "_error" after it.
 */
typedef struct eitp_record {
    int64_t step;
    const eitp_value *values;
    size_t count;
} eitp_record;

/* Where records go. A failure ends the run, once all sinks were given the record. */
typedef struct eitp_record_sink {
    void *user;
    eitp_status (*record)(void *user, const eitp_record *record, eitp_error *error);
    /* Before the first step: forgets the records of steps after `step` (-1: of all), and sets *evaluated to 1 if it
       has an evaluation of `step`, which is then not repeated. May be NULL. */
    eitp_status (*resume)(void *user, int64_t step, int *evaluated, eitp_error *error);
    /* Makes what was recorded last. It is called before a checkpoint is written. May be NULL. */
    eitp_status (*sync)(void *user, eitp_error *error);
} eitp_record_sink;

/*
 * A sink that writes a file of JSON lines: an object for each record, its step first. Numbers that are not finite are
 * null. A record is written within a second of the next one. On resume the file is cut after the last whole record that
 * belongs to the run.
 */
typedef struct eitp_jsonl eitp_jsonl;
EITP_API eitp_status eitp_jsonl_create(const eitp_host *host, const char *path, eitp_jsonl **jsonl, eitp_error *error);
EITP_API eitp_record_sink eitp_jsonl_sink(eitp_jsonl *jsonl);
EITP_API void eitp_jsonl_destroy(eitp_jsonl *jsonl);

/* ---- Reports and events ---- */

/* Why a run ended. */
typedef enum eitp_run_end {
    EITP_RUN_FAILED = 0,      /* an error that belongs to none of the others */
    EITP_RUN_FINISHED = 1,    /* all steps are done */
    EITP_RUN_END_OF_DATA = 2, /* the trainer's last_sample was reached */
    EITP_RUN_STOPPED = 3,     /* by eitp_run_request_stop */
    EITP_RUN_EARLY_STOP = 4,  /* `patience` evaluations in a row without improvement */
    EITP_RUN_NOT_FINITE = 5,  /* `max_nonfinite` steps in a row were not applied */
    EITP_RUN_PRESSURE = 6     /* memory stayed short, and the run could not be made smaller */
} eitp_run_end;

typedef struct eitp_run_report {
    eitp_run_end end;
    int stop_reason;            /* as given to eitp_run_request_stop */
    int64_t first, done;        /* steps done when it began, and now */
    int64_t steps;              /* in all; where the data ended before, where it did; 0: not known yet */
    int64_t saved;              /* steps done at the newest checkpoint, the one resumed from included; -1: none */
    eitp_step_report step;      /* the last step; its number is 0 before the first */
    eitp_evaluation evaluation; /* the last one */
    int64_t evaluations;        /* how many there were */
    int64_t evaluated;          /* steps done at the last evaluation, those before the resume included; -1: none */
    int64_t best_step;          /* of the best value of `keep_best`, -1: none */
    double best_value;
    int64_t items; /* of the first loss term in steps of this call, and the seconds that those took */
    double seconds;
    eitp_memory_info memory; /* when it was last found short */
} eitp_run_report;

typedef enum eitp_run_event_kind {
    EITP_EVENT_STEP = 0,          /* a step was made */
    EITP_EVENT_EVALUATION = 1,    /* an evaluation was made */
    EITP_EVENT_SAVED = 2,         /* a checkpoint was written */
    EITP_EVENT_SKIPPED_STEP = 3,  /* a step's gradient was not finite, and it was not applied */
    EITP_EVENT_MEMORY_SHORT = 4,  /* memory is short; with auto_shrink the run is about to be made smaller */
    EITP_EVENT_NOT_SHRUNK = 5,    /* that failed, or there is nothing smaller */
    EITP_EVENT_DATA_ENDED = 6,    /* the trainer used all samples */
    EITP_EVENT_NOT_IMPROVED = 7,  /* it stops early */
    EITP_EVENT_NOTHING_TO_DO = 8, /* all steps were done before */
    EITP_EVENT_NOT_SAVED = 9 /* why it ends; the last checkpoint could not be written, which is the error returned */
} eitp_run_event_kind;

/* Something happened. All pointers are valid during the call. */
typedef struct eitp_run_event {
    eitp_run_event_kind kind;
    eitp_log_level level;
    const char *message; /* one line that says it */
    const eitp_run_report *report;
    double seconds; /* that a step, an evaluation or saving took */
} eitp_run_event;

/* Without a function events go to the host's log: steps as EITP_LOG_DEBUG, the others at their level. */
typedef struct eitp_run_listener {
    void *user;
    void (*notify)(void *user, const eitp_run_event *event);
} eitp_run_listener;

/* ---- The run ---- */

typedef enum eitp_run_resume {
    EITP_RESUME_NONE = 0,   /* a new run */
    EITP_RESUME_NEWEST = 1, /* from the newest checkpoint of the directory; a new run if it has none */
    EITP_RESUME_NAMED = 2   /* from config.checkpoint, whose run may have another directory */
} eitp_run_resume;

typedef struct eitp_run_config {
    const char *directory; /* of checkpoints and records; made if missing */
    eitp_run_resume resume;
    const char *checkpoint;   /* a directory, of EITP_RESUME_NAMED */
    int64_t steps;            /* in all; 0: until the data end: see eitp_trainer_config_set_epochs */
    int64_t eval_steps;       /* evaluate before step 1 and whenever so many steps are done; 0: only at the end */
    double eval_epochs;       /* evaluate before step 1 and whenever this many epochs end, as 0.1 or 1; 0: do not */
    int64_t eval_samples;     /* validation samples of an evaluation: see eitp_trainer_evaluate; 0: all */
    double eval_fraction;     /* of the validation samples, instead of eval_samples, as 0.1; 0: eval_samples */
    int64_t save_steps;       /* save whenever so many steps are done; 0: only at the end */
    double save_epochs;       /* save whenever this many epochs end; 0: do not */
    double save_seconds;      /* save after so many seconds; 0: never. It changes no bit. */
    int64_t save_total_limit; /* checkpoints that are kept; 0: all */
    /* "loss", or the name of a loss term or a measure of the task: a checkpoint is written after each evaluation
       where it is better than ever before, and the best one is kept beside the save_total_limit newest; NULL: none.
       best.json in the directory names it. The evaluation before step 1 does not count. */
    const char *keep_best;
    int higher_is_better;  /* of keep_best */
    int64_t patience;      /* stop when so many evaluations in a row are not better than the best ("loss" without
                              keep_best); 0: never */
    int64_t max_nonfinite; /* stop after so many steps in a row that were not applied */
    int auto_shrink;       /* call eitp_trainer_shrink when memory is short */
    double memory_seconds; /* between two looks at memory; 0: before every step; below 0: never */
    int metrics;           /* write metrics.jsonl in the directory */
    const eitp_record_sink *sinks; /* copied */
    size_t sink_count;
    eitp_run_listener listener;
} eitp_run_config;

/* A new run of 1000 steps in "out" that evaluates and saves every 500 and keeps 2 checkpoints; max_nonfinite 5,
   memory_seconds 1, metrics. */
EITP_API eitp_run_config eitp_run_config_default(void);

typedef struct eitp_run eitp_run;

/*
 * Makes the directory, locks it (eitp_files.lock), and finds the checkpoint. EITP_ERROR_ARGUMENT: another process has
 * the lock, or the directory has checkpoints of another run or of later steps. A run that is destroyed before
 * eitp_run_train removes what it made.
 */
EITP_API eitp_status eitp_run_create(const eitp_host *host, const eitp_run_config *config, eitp_run **run,
                                     eitp_error *error);
EITP_API void eitp_run_destroy(eitp_run *run);

/* The checkpoint that it resumes from; NULL: a new run. */
EITP_API const char *eitp_run_checkpoint(const eitp_run *run);

/* Replaces config.steps, for a program that only knows them when it has the run's directory. */
EITP_API void eitp_run_set_steps(eitp_run *run, int64_t steps);

/*
 * Resumes the trainer, unless it has been, and trains. A run trains once. Unless it fails there is a checkpoint of the
 * last step. EITP_ERROR_NOT_FINITE and EITP_ERROR_PRESSURE leave one too. After any other error there is one of the
 * steps before it, unless the trainer is torn or saving fails. `report`, which may be NULL, is filled in any case.
 * A run that is killed and resumed gives the bits, and stops at the step, of one that was not; only the count of
 * max_nonfinite begins again.
 */
EITP_API eitp_status eitp_run_train(eitp_run *run, eitp_trainer *trainer, eitp_run_report *report, eitp_error *error);

/* After the current step: save and end; save and go on. Both may be called in a signal handler, also with NULL. */
EITP_API void eitp_run_request_stop(eitp_run *run, int reason);
EITP_API void eitp_run_request_save(eitp_run *run);

EITP_END_DECLARATIONS

#endif
