/*
 * Training runs: the loop over a trainer's steps, with evaluation, checkpoints, early stopping, a memory guard and
 * records. See docs/training.md. A program may write its own loop over eitp_trainer_step instead, or over
 * eitp_watch_step (run/watch.h), which has the guard and the records too.
 */
#ifndef EITP_RUN_H
#define EITP_RUN_H

#include "base/settings.h"
#include "records/records.h"
#include "train/train.h"
#include "train/trainer_settings.h"

EITP_BEGIN_DECLARATIONS

/* What a run records. Its bits do not depend on it. */
typedef enum eitp_monitor {
    EITP_MONITOR_OFF = 0,   /* evaluations and events */
    EITP_MONITOR_LIGHT = 1, /* and every step, and every so many what they have taken */
    EITP_MONITOR_FULL = 2   /* and every so many steps norms and activations of layers, and windows */
} eitp_monitor;

/* ---- Reports and events ---- */

/* Why a run ended. */
typedef enum eitp_run_end {
    EITP_RUN_FAILED = 0,          /* an error without a reason of its own below */
    EITP_RUN_FINISHED = 1,        /* all steps are done */
    EITP_RUN_END_OF_DATA = 2,     /* the trainer's last_sample was reached */
    EITP_RUN_STOPPED = 3,         /* eitp_run_request_stop, before all was done */
    EITP_RUN_EARLY_STOP = 4,      /* `patience` evaluations in a row without improvement */
    EITP_RUN_NOT_FINITE = 5,      /* weights, or the gradients of the last steps, are not finite */
    EITP_RUN_MEMORY_PRESSURE = 6, /* memory stayed short, and no configuration that uses less was left */
    EITP_RUN_DIVERGED = 7         /* the loss has diverged (see eitp_run_train) */
} eitp_run_end;

/* The name of an end: "finished", "stopped", "not_finite", ...; NULL if it is unknown. */
EITP_API const char *eitp_run_end_name(eitp_run_end end);

/* What a run does. */
typedef enum eitp_run_work {
    EITP_RUN_BEGINS = 0, /* it prepares the first step, or resumes */
    EITP_RUN_STEPS = 1,
    EITP_RUN_EVALUATES = 2,
    EITP_RUN_SAVES = 3,
    EITP_RUN_PAUSES = 4 /* no step may begin yet: see temp_max */
} eitp_run_work;

/* The state of a run. Steps count from the start of training, in a resumed run too. */
typedef struct eitp_run_report {
    eitp_run_end end;
    int stop_reason;            /* as passed to eitp_run_request_stop */
    int64_t start_step;         /* steps done when the run began: 0, or those of its checkpoint */
    int64_t steps_done;         /* steps done now */
    int64_t steps;              /* total steps to do; 0: unknown until the data ends */
    int64_t saved_step;         /* steps done at the newest checkpoint, including the one resumed from; -1: none */
    eitp_step_report step;      /* the last step; step.step is 0 before the first */
    eitp_evaluation evaluation; /* the last evaluation */
    int64_t evaluations;        /* number of evaluations of this run */
    int64_t evaluated_step;     /* steps done at the last evaluation, including those before a resume; -1: none */
    int64_t
        partial_samples; /* of the last evaluation, if it took fewer than later ones will: see eval_samples; else 0 */
    uint64_t evaluating, evaluating_all; /* samples of an evaluation that is being made: done, and in all; else 0 */
    int64_t best_step;                   /* of the best checkpoint, with `keep_best` or `patience`; -1: none */
    double best_value;
    int64_t items;           /* of the first loss term, in the steps of this run */
    double seconds;          /* that those steps took */
    eitp_memory_info memory; /* when memory was last found short */
    int64_t lost_records;    /* number of records that sinks could not store */
    eitp_run_work work;      /* what it does now, or has done last */
} eitp_run_report;

typedef enum eitp_run_event_kind {
    EITP_EVENT_STEP = 0,          /* a step is done */
    EITP_EVENT_EVALUATION = 1,    /* an evaluation is done */
    EITP_EVENT_SAVED = 2,         /* a checkpoint is written */
    EITP_EVENT_SKIPPED_STEP = 3,  /* a step was not applied, because its gradient was not finite */
    EITP_EVENT_MEMORY_SHORT = 4,  /* memory is short: see auto_shrink */
    EITP_EVENT_NOT_SHRUNK = 5,    /* eitp_trainer_shrink failed, or no configuration uses less memory */
    EITP_EVENT_END_OF_DATA = 6,   /* the trainer has used all samples */
    EITP_EVENT_EARLY_STOP = 7,    /* `patience` is exhausted */
    EITP_EVENT_NOTHING_TO_DO = 8, /* all steps were done before */
    EITP_EVENT_SAVE_FAILED = 9,   /* the final checkpoint could not be written. The message is why the run ended;
                                     eitp_run_train returns the write error */
    EITP_EVENT_RECORDS = 10,      /* records cannot be stored, or can be stored again */
    EITP_EVENT_WARNING = 11,      /* what the message says went wrong; nothing of the run is lost, and it continues */
    EITP_EVENT_DISK = 12,         /* the disk is full, fails, or has little room, and what the run does about it */
    EITP_EVENT_STARTED = 13,      /* there are steps to do, and all checks before the first one are passed */
    EITP_EVENT_DIVERGING = 14,    /* the loss has exploded; reported once until it recovers */
    EITP_EVENT_NOT_SAVED = 15,    /* a checkpoint was due, but the model is ruined; reported once until it recovers */
    EITP_EVENT_SPIKE = 16,        /* a loss or gradient norm is a spike (eitp_trainer_config.spike_threshold); after one
                                     that was reported, none for 20 steps */
    EITP_EVENT_NOT_KEPT = 17,     /* the checkpoint of the best evaluation so far is lost, and why. The best is then the
                                     best of the evaluations whose checkpoints are there */
    EITP_EVENT_ALARM = 18, /* something is not as it was before in this run: see eitp_run_config.alarms. Its record
                                     has "alarm", the name, "value" and "usual" */
    EITP_EVENT_TEMPERATURE = 19, /* training pauses because of heat, or goes on: see temp_max. Its record has "sensor",
                                     "celsius", "limit_celsius" and, when it goes on, "seconds" */
    EITP_EVENT_MEMORY_HIGH = 20, /* other programs fill the memory: see cpu_mem_warn. Its record has "percent",
                                     "own_bytes", "other_bytes" and "left_bytes" */
    EITP_EVENT_PRESSURE = 21,    /* for some time, tasks of the machine have had to wait for memory */
    EITP_EVENT_LOAD = 22,        /* for a minute, other programs have kept the processors busy */
    EITP_EVENT_SET = 23,         /* a setting has changed: see eitp_run_set. Its record has "name", "was" and "is" */
    EITP_EVENT_INTERRUPTED = 24, /* the process that trained here before has not said how it ended: it was killed, has
                                    crashed, or the machine was started again. Its record has "last_step", "last_time"
                                    (seconds since 1970) and "machine_restarted" */
    EITP_EVENT_GPU = 25,         /* every gpu_report_every steps: memory and sensors of the GPU. Their record is one of
                                    performance */
    EITP_EVENT_COUNT = 26
} eitp_run_event_kind;

/* The name of an event in records: "saved", "skipped_step", "memory_short", ...; NULL if the kind is unknown. */
EITP_API const char *eitp_run_event_name(eitp_run_event_kind kind);

/* An event of a run. All pointers are valid during the call. */
typedef struct eitp_run_event {
    eitp_run_event_kind kind;
    eitp_log_level level;
    const char *message;           /* one line of text */
    const eitp_run_report *report; /* the same one until the run ends: the thread that trains may read it later, as in
                                      a function of the host, to show how far the run is */
    double seconds;                /* duration of a step, an evaluation, a save or a pause */
    const eitp_value *values; /* what the event's record has besides; such as the sensor of EITP_EVENT_TEMPERATURE */
    size_t value_count;
} eitp_run_event;

/* Receives the events, those of steps, evaluations and the GPU too. Sinks get the others as records. If `notify` is
   NULL they go to the host's log at their level; that of steps is EITP_LOG_DEBUG. */
typedef struct eitp_run_listener {
    void *user;
    void (*notify)(void *user, const eitp_run_event *event);
} eitp_run_listener;

/* ---- Runs ---- */

typedef enum eitp_run_resume {
    EITP_RESUME_NONE = 0,   /* start a new run */
    EITP_RESUME_NEWEST = 1, /* resume from the newest checkpoint in the directory that is whole
                               (eitp_checkpoint_recover); start a new run if there is none, and no damaged one */
    EITP_RESUME_NAMED = 2   /* resume from config.checkpoint, which may be in another directory */
} eitp_run_resume;

/* What a run does about numbers that are not finite. Such a step is never applied. */
typedef enum eitp_check_finite {
    EITP_CHECK_FINITE_STEP = 0, /* warns of each step whose gradient is not finite; max_nonfinite of them end the run */
    EITP_CHECK_FINITE_NO = 1,   /* does neither */
    EITP_CHECK_FINITE_OP = 2    /* as EITP_CHECK_FINITE_STEP, and names the op where it began. Steps take several times
                                   as long: for finding the cause (see eitp_context_check_finite) */
} eitp_check_finite;

/* Start from eitp_run_config_default(). */
typedef struct eitp_run_config {
    const char *directory; /* of checkpoints and records; created if missing */
    eitp_run_resume resume;
    const char *checkpoint; /* for EITP_RESUME_NAMED: a checkpoint directory */
    int64_t steps;          /* in total; 0: until the end of data (see eitp_trainer_config_set_epochs) */
    const char *run_name;   /* for people, in run.json; NULL: none */
    const char *notes;      /* the same */
    int64_t eval_steps;     /* evaluate before step 1 and every N steps; 0: only at the end */
    double eval_epochs;     /* evaluate before step 1 and every N epochs, 0.1 for ten times an epoch; 0: do not */
    /* Evaluate on N samples (see eitp_trainer_evaluate). 0: on all, but before step 1 on at most 64, drawn in the same
       way. That evaluation is marked (val_partial_samples in records), and nothing is compared with it: neither
       keep_best, patience and EITP_SCHEDULE_PLATEAU nor alarms. */
    int64_t eval_samples;
    double eval_fraction; /* evaluate on this fraction of the samples instead; 0: on eval_samples */
    int64_t save_steps;   /* save every N steps; 0: only at the end */
    double save_epochs;   /* save every N epochs; 0: do not */
    double save_seconds;  /* also save when this much time has passed; 0: never. It does not affect results. */
    /* Memory for a copy of the checkpoint, which a thread writes beside the next steps; it becomes a checkpoint at the
       end of one of them. If a copy does not fit, or would leave too little (eitp_memory_is_short), the run waits
       until the checkpoint is written, as it does for its last one. The memory is kept until the run ends or memory is
       short. 0: the run always waits. */
    uint64_t async_save_bytes;
    int64_t save_total_limit; /* keep the N newest checkpoints; 0: all. */
    /* "loss", or the name of a loss term or of a metric that has a direction (eitp_pass_metric, eitp_task_metric).
       After each evaluation that is the best so far a checkpoint is written, and it is kept in addition to the newest
       ones; one that cannot be kept is an EITP_EVENT_NOT_KEPT. best.json in the directory names it once it is complete;
       a best.json that cannot be written is an EITP_EVENT_WARNING. The evaluation before step 1 does not count. NULL:
       the best checkpoint is kept only with `patience`. */
    const char *keep_best;
    /* Early stopping: stop after N evaluations in a row without improvement of keep_best, whether or not their
       checkpoints are kept; 0: never. If keep_best is NULL it is the loss, and its best checkpoint is kept too. */
    int64_t patience;
    int64_t max_nonfinite; /* stop after N steps in a row that were not applied; 1 or more */
    eitp_check_finite check_finite;
    /*
     * 1: compares the run with its own past, and reports once each time (EITP_EVENT_ALARM) that the loss stops falling
     * ("plateau"), the gradient norm falls or rises by orders of magnitude ("vanishing_gradient",
     * "exploding_gradient"), a layer has no gradient beside the others ("dead_layer"), the validation loss rises while
     * the training loss falls ("overfitting"), the units of a latent variable become inactive ("posterior_collapse", of
     * tasks with the metrics active_units and kl), the memory of the process grows until it would be used up
     * ("memory_drift"), or steps take longer and longer ("slowdown"). Nothing else depends on it. docs/records.md has
     * the rules.
     */
    int alarms;
    /*
     * Memory is short by eitp_memory_is_short, or if it would be used up, at the rate at which other
     * programs take it, before the run could react. Then a step or evaluation in progress is dropped (it is repeated
     * later, with the same bits; one that has begun to change parameters is completed), the arena is returned to the
     * system, and the steps done are saved in a checkpoint that save_total_limit does not count. With auto_shrink,
     * eitp_trainer_shrink follows if memory is still short, and the run ends with EITP_ERROR_PRESSURE if that is not
     * enough. Without it the run continues unchanged, and the same shortage is saved for only once.
     */
    int auto_shrink;
    /* Least interval between looks at memory, within steps too; they are rarer while much is left, up to a second
       apart. 0: also before every step; negative: never. */
    double memory_check_seconds;
    /*
     * The same in percent: the share that other programs have of the memory of the machine, or of a control group,
     * without this process's own; cached files do not count. At cpu_mem_warn there is an EITP_EVENT_MEMORY_HIGH. At
     * cpu_mem_max the steps done are saved too, in a checkpoint that save_total_limit does not count. Each happens
     * once, until the share has fallen by 5. It does not happen because the run itself leaves little: others must have
     * that percentage of all memory, or more than when the run began. 0 or 100: off. With cpu_mem_acts a share of
     * cpu_mem_max is a shortage of memory like those above, also for auto_shrink.
     */
    double cpu_mem_warn;
    double cpu_mem_max;
    int cpu_mem_acts;
    /* On a GPU: an EITP_EVENT_WARNING when programs, this one among them, use that percentage of its memory, seen every
       gpu_report_every steps, or without reports every 50. It happens once, until the share has fallen by 5. 0 or 100:
       off. */
    double gpu_mem_warn;
    /*
     * No step begins while a processor, or the GPU that the run computes on, is hotter than this, in degrees Celsius.
     * Training goes on when it is 10 degrees cooler, or the run is asked to stop; the bits are the same. 0: 5 degrees
     * below the critical point that a sensor reports, without one the lowest of those of other processors' sensors,
     * else 95; for the GPU 5 degrees below the temperature at which it slows down, if that is known. Other sensors,
     * such as those of disks, count above their own critical points alone. Negative: the run does not look, nor does
     * it if the host has no `wait`.
     */
    double temp_max;
    eitp_monitor monitor;
    int64_t log_full_every; /* with EITP_MONITOR_FULL: record norms and activations every N steps; 0: do not */
    /* Spot evaluations, so that a run is seen between evaluations: after every log_full_every-th step without one, at
       any level but EITP_MONITOR_OFF, this many validation samples are evaluated, always the same ones, and recorded
       (EITP_RECORD_SPOT). Alarms look at them; nothing else depends on it. 0: none; -1: a recipe with EITP_TASK_VAE has
       256, and others none. */
    int64_t spot_samples;
    int64_t metrics_every;  /* with EITP_MONITOR_FULL: record statistics of the last steps every N steps; 0: do not */
    int64_t metrics_window; /* so many of them; 1 to 256 */
    int64_t perf_every;     /* record what the last N steps have taken; 0: only that of each epoch */
    /* On a GPU: report its memory, temperature and power, and record them, every N steps; 0: do not. What neither the
       context nor the driver's library (eitp_gpus_read) tells is left out. */
    int64_t gpu_report_every;
    int64_t profile_every; /* record what each kind of op takes in every N-th step, which takes longer; 0: do not */
    double peak_tflops;    /* of products, for model FLOPs utilization; 0: measured after 10 seconds */
    /*
     * Files of records, separated by commas: "jsonl" (metrics.jsonl, and its summary in summary.jsonl), "csv"
     * (metrics.csv), "tensorboard" (an event file in the directory "tensorboard"). NULL or "none": no file. With
     * "jsonl", if the task or the program describes evaluations (eitp_task.describe, `describe`), there is
     * evaluations.jsonl too: an object for each evaluation, with what the evaluation's record has, and the members of
     * both descriptions; and for each spot evaluation, with those of the task's. docs/records.md has its format.
     */
    const char *report_to;
    /* Directory in which the run gets a folder of its own for these files, so that several runs may share it; see
       eitp_run_records_directory. Created if missing; NULL: the files are in `directory`. */
    const char *log_dir;
    double log_flush_seconds; /* least time between two writes to each of them */
    double log_wait_seconds;  /* longest time that a save waits until they are written and synced */
    int64_t log_every; /* TensorBoard and CSV get step 1, every N-th and the last one, and all evaluations and events */
    int guide_tags;    /* see eitp_tensorboard_use_guide_tags */
    const eitp_record_sink *sinks; /* further destinations of records; copied */
    size_t sink_count;
    eitp_run_listener listener;
    /* Writes files of the program into each checkpoint, before it is complete: `directory` is that of the checkpoint
       for now. A failure is a failure to save. A resume finds them in eitp_run_checkpoint. May be NULL. In an
       eitp_watch it writes the whole checkpoint. */
    eitp_status (*save)(void *save_user, const char *directory, eitp_error *error);
    void *save_user;
    /*
     * Describes the model after an evaluation, such as with texts that it generates, for evaluations.jsonl; not called
     * unless that file is written. It must not change the model. *text is that of eitp_task.describe, valid until the
     * next call; NULL: nothing. EITP_ERROR_INTERRUPTED, as of a plan that is stopped, drops the evaluation like one
     * that was interrupted itself; any other failure is an EITP_EVENT_WARNING. Its time is part of the evaluation's.
     * May be NULL.
     */
    eitp_status (*describe)(void *describe_user, const char **text, eitp_error *error);
    void *describe_user;
} eitp_run_config;

/* A new run of 1000 steps in "out" that evaluates and saves every 500 steps and keeps 2 checkpoints; max_nonfinite 5,
   memory_check_seconds 0.05, cpu_mem_warn 85, cpu_mem_max 90, gpu_mem_warn 95, alarms; EITP_MONITOR_LIGHT,
   log_full_every 100, metrics_every 1000, metrics_window 50, perf_every 100, gpu_report_every 50; report_to "jsonl",
   log_flush_seconds 1, log_wait_seconds 10, log_every 10. */
EITP_API eitp_run_config eitp_run_config_default(void);

/*
 * Bytes of memory that a run with this configuration and task takes at most besides its trainer, however many steps it
 * makes and whatever `monitor` is set to: its records and their queues and summary, alarms, and texts of small files.
 * Those of the program's own sinks are not included. 0 if `config` is NULL; without a task, evaluations are not
 * described. For eitp_fit.record_bytes.
 */
EITP_API size_t eitp_run_record_bytes(const eitp_run_config *config, const eitp_task *task);

typedef struct eitp_run eitp_run;

/*
 * Creates the directory, locks it (eitp_files.lock), finds the checkpoint to resume from, and removes what unfinished
 * writes left. All files of the checkpoint are verified but those of tensors (.safetensors): these are verified when
 * the trainer is resumed, so that they are read once. The configuration is copied.
 *
 * EITP_ERROR_ARGUMENT if an argument is NULL or out of range, the directory cannot have this path, another process has
 * the lock, or the directory has checkpoints of another run or of later steps. EITP_ERROR_FORMAT if the checkpoint is
 * damaged or, with EITP_RESUME_NEWEST, all of them are.
 */
EITP_API eitp_status eitp_run_open(const eitp_host *host, const eitp_run_config *config, eitp_run **run,
                                   eitp_error *error);

/* Unlocks the directory. If eitp_run_train was not called, or was stopped before step 1, removes what eitp_run_open
   created. Removes a checkpoint that eitp_run_keep_checkpoint has released. NULL is harmless. */
EITP_API void eitp_run_close(eitp_run *run);

/* The directory of the checkpoint that the run resumes from; NULL for a new run, and for NULL. It changes, and the text
   is released, if the checkpoint proves to be damaged: see eitp_run_resume_trainer. */
EITP_API const char *eitp_run_checkpoint(const eitp_run *run);

/* The directory of the files of eitp_run_config.report_to. It is valid until the configuration changes. */
EITP_API const char *eitp_run_records_directory(const eitp_run *run);

/*
 * Replaces the configuration before eitp_run_train, all but directory, resume and checkpoint: for programs that take
 * settings from the checkpoint, which is known, and locked, only after eitp_run_open. It is copied. On failure the
 * run keeps the one it had. EITP_ERROR_ARGUMENT as for eitp_run_open.
 */
EITP_API eitp_status eitp_run_set_config(eitp_run *run, const eitp_run_config *config, eitp_error *error);

/*
 * Resumes the trainer from the run's checkpoint, and verifies its tensors meanwhile: they are read once. eitp_run_train
 * does it, unless the program has called this or eitp_trainer_resume. Does nothing for a new run.
 *
 * EITP_ERROR_FORMAT if the checkpoint is damaged. The trainer may be torn then, and eitp_run_recover has been called:
 * eitp_run_checkpoint may be an older one. eitp_run_train resumes from that by itself. A program that takes settings
 * from the checkpoint calls this function, and after such a failure creates its objects anew.
 */
EITP_API eitp_status eitp_run_resume_trainer(eitp_run *run, eitp_trainer *trainer, eitp_error *error);

/*
 * Verifies all files of the run's checkpoint, for a program that failed to read one of them. With EITP_RESUME_NEWEST a
 * damaged checkpoint is set aside, and eitp_run_checkpoint is then the newest that is whole (eitp_checkpoint_recover).
 * EITP_ERROR_FORMAT if all are damaged, or the one that the program has named. Does nothing for a new run.
 */
EITP_API eitp_status eitp_run_recover(eitp_run *run, eitp_error *error);

/*
 * Resumes the trainer from the checkpoint, unless the program has done so, and trains. A checkpoint whose tensors prove
 * to be damaged is set aside, and the trainer is resumed from the newest that is whole; EITP_ERROR_FORMAT if there is
 * none, with the trainer torn. It can be called once for a run.
 * `report` is filled in on failure too; it may be NULL.
 *
 * Before the first step it checks that the disk has room for one checkpoint (EITP_ERROR_IO; nothing is changed, and the
 * function may be called again), and warns if there is less than the checkpoints of the run will need.
 * EITP_ERROR_MEMORY if other programs use up the memory before step 1, when there is nothing to save.
 *
 * If the disk is full when a checkpoint is saved, the run removes the checkpoints that save_total_limit would remove
 * afterwards, and tries again, up to a minute; a request to stop ends the waiting. If that does not help it ends with
 * EITP_ERROR_IO, and the newest checkpoint is the last one that was saved.
 *
 * Data that cannot be read, or are invalid, in a later step are EITP_ERROR_IO too.
 *
 * On success, and after EITP_ERROR_PRESSURE, there is a checkpoint of the last step, unless the run was stopped before
 * step 1. After any other error there is one of the last completed step, unless the trainer is torn, the model is
 * ruined, or saving fails. EITP_ERROR_ARGUMENT if `run` or `trainer` is NULL, the run was trained before, keep_best,
 * patience or steps do not fit the trainer, or EITP_SCHEDULE_PLATEAU would get no evaluations between steps.
 *
 * A ruined model is never saved under a name that a resume takes, and older checkpoints stay. A model is ruined if a
 * weight is not finite, if the last steps were not applied because their numbers were not finite, if the optimizer's
 * state has overflowed, or if the loss has diverged: if the median of the last 10 losses, or each of the last 3, is
 * more than 1 above eitp_task.guess_loss and above twice the lowest such median at a save (before the first save, the
 * first loss). A checkpoint that is due is then written when the model has recovered; after a single bad loss, or an
 * update as large as the weights, when the next step has shown that the model is good. A run that ends with a ruined
 * model ends with EITP_ERROR_NOT_FINITE; if its weights are finite, they are kept as checkpoint-<step>.diverged, which
 * no resume takes. If the first three steps after the newest checkpoint show that it was ruined already, it is renamed
 * in the same way, unless the one before is more than 10 steps older or gone. report.saved_step is the last good
 * checkpoint.
 *
 * A run that is killed and resumed produces the same bits, and stops at the same step, as one that was not: what
 * decides when it stops (evaluations, and the count for max_nonfinite) is in each checkpoint, in run_state.json.
 */
EITP_API eitp_status eitp_run_train(eitp_run *run, eitp_trainer *trainer, eitp_run_report *report, eitp_error *error);

/*
 * Adds a member to the object "run" of run.json, before eitp_run_train: `value` is JSON, such as "{\"seed\": 3}". It
 * replaces one of the same name. Both are copied. The run adds its own: "name", "notes", "version", "build", "device",
 * "numerics", "started", "directory", "first_step", "last_step", "machine" and "plan" (bytes of memory).
 * "configuration" is a member beside "run": unless the program adds it, the settings of trainer and run.
 *
 * run.json is in each checkpoint, and in the output directory, where "run" also has "process": "pid", "start_time"
 * (clock ticks since the machine started) and "boot_id" identify it; "state" is "running", "paused" because of heat, or
 * how it ended (eitp_run_end_name); "step"; "saved_step" of the newest checkpoint, or -1; "alive", the time of this
 * state in seconds since 1970, at most half a minute ago while it runs unless a step or evaluation takes longer; and
 * "message", why it ended early. A process that is gone while its state is "running" or "paused" was killed or has
 * crashed.
 *
 * EITP_ERROR_ARGUMENT if an argument is NULL, the run trains already, `name` has anything but lower-case letters,
 * digits and underscores, has more than 39 bytes or is one of the run's own, `value` is not JSON, or there are 16
 * members.
 */
EITP_API eitp_status eitp_run_add_info(eitp_run *run, const char *name, const char *value, eitp_error *error);

/*
 * Records a number of the program's own, by the thread that trains: in the listener or a callback of the task. Values
 * of one step are one record, which sinks get before the next step, checkpoint or end; a name that is used twice has
 * the last number. Nothing is recorded with EITP_MONITOR_OFF.
 *
 * EITP_ERROR_ARGUMENT if `run` or `name` is NULL, the run does not train, `name` is empty, longer than
 * EITP_VALUE_NAME_SIZE - 1 bytes or a name that records have ("step", "time", "elapsed", "event"), or a step has more
 * than EITP_PROGRAM_VALUES of them.
 */
#define EITP_VALUE_NAME_SIZE 64
#define EITP_PROGRAM_VALUES 64
EITP_API eitp_status eitp_run_record_value(eitp_run *run, const char *name, double value, eitp_error *error);

/* ---- What a run takes besides training ---- */

typedef enum eitp_run_cost {
    EITP_RUN_COST_OTHER = 0,   /* the health of the model, checkpoints, the disk */
    EITP_RUN_COST_RECORDS = 1, /* of steps, performance and windows; by the thread that trains */
    EITP_RUN_COST_ALARMS = 2,
    EITP_RUN_COST_GUARD = 3, /* memory, heat, pressure and load, also within steps */
    EITP_RUN_COST_FILES = 4, /* the threads that write files of records; 0 where their time cannot be read */
    EITP_RUN_COST_COUNT = 5
} eitp_run_cost;

/* Receives what a run takes besides training. */
typedef struct eitp_run_meter {
    void *user;
    /* Seconds of processor time of the calling thread, such as CLOCK_THREAD_CPUTIME_ID. What a reading takes itself is
       subtracted. */
    double (*clock)(void *user);
    /*
     * Called after each step, before an evaluation and a save, with the seconds of each part since the last call.
     * It may change `monitor`, `log_full_every`, `metrics_every` and `perf_every` of the run's configuration for the
     * steps that follow, so that what records take can be compared from step to step. A run that begins at a level
     * without windows, or without performance, does not record them later.
     */
    void (*step)(void *user, const double seconds[EITP_RUN_COST_COUNT], eitp_run_config *config);
} eitp_run_meter;

/*
 * Measures what the run takes besides training. `meter` is copied. The bits of training do not depend on it; runs that
 * are not measured execute nothing for it. Polls within a step, which are too short for the clock of the meter, are
 * measured by a monotonic clock.
 *
 * EITP_ERROR_ARGUMENT if an argument or a function is NULL, or if the run was trained or is measured already.
 */
EITP_API eitp_status eitp_run_measure(eitp_run *run, const eitp_run_meter *meter, eitp_error *error);

/* ---- Reading what a run wrote ---- */

/* A checkpoint of an output directory. */
typedef enum eitp_run_choice {
    EITP_RUN_LATEST = 0, /* the newest that is whole */
    EITP_RUN_BEST = 1    /* the one of the best evaluation if the run kept it (keep_best), else the newest */
} eitp_run_choice;

/*
 * Finds the checkpoint that a path means, for programs that only read it: nothing is changed, and a run may train in
 * the directory meanwhile. The path is
 * - an output directory: `choice` says which of its checkpoints. Damaged ones are skipped, with a warning in the
 *   log;
 * - "latest_model" or "best_model" in an output directory, or, unless there is such a directory, "latest" or "best":
 *   that checkpoint, also where the file system has no links;
 * - any other directory with a config.json, adapter_config.json or trainer_state.json: that directory.
 *
 * Stores the path of the directory in checkpoint[size]. EITP_ERROR_ARGUMENT if there is none, or it does not fit. A run
 * may remove the checkpoint at any time: if reading it fails and it is gone, find it again.
 */
EITP_API eitp_status eitp_run_find_checkpoint(const eitp_host *host, const char *path, eitp_run_choice choice,
                                              char *checkpoint, size_t size, eitp_error *error);

/* ---- Requests ---- */

/*
 * Changes settings of the run that trains in an output directory, in this process or another: those of eitp_run_config
 * with the flag EITP_SETTING_LIVE, on which no result depends; '-' is '_' in their names. The request is a file,
 * set.json, at which the run looks once a second between two steps. It makes all changes before the next step, or none,
 * and reports each as EITP_EVENT_SET. They last until the run ends: one that resumes has the settings that it is given.
 * A request that the run has not looked at yet is joined with the next one.
 *
 * Waits up to `seconds` for the run, with eitp_files.wait; not in the thread that trains. *step (may be NULL) is the
 * first step with the changes, whose `was` and `is` are then filled in. -1: the run has not answered yet, as within a
 * long step, and makes them later.
 *
 * EITP_ERROR_ARGUMENT if a setting is unknown or may not change, a value is out of bounds, no run trains there, or the
 * run refuses the changes or has ended meanwhile.
 */
EITP_API eitp_status eitp_run_set(const eitp_host *host, const char *directory, eitp_setting_change *changes,
                                  size_t count, double seconds, int64_t *step, eitp_error *error);

/*
 * Requests that the run ends. May be called from a signal handler and from any thread. NULL is harmless.
 *
 * An evaluation or a step that is in progress is dropped, within about one sample or one op; but a step that has begun
 * to change parameters is completed. Then a checkpoint of the last step is written, unless there is one. It removes no
 * other, and save_total_limit does not count it unless the schedule has a save after this step. Before step 1 nothing
 * is saved, and eitp_run_close removes what eitp_run_open created. A resumed run repeats what was dropped, and ends
 * with the same bits, records and best checkpoint as one that was not stopped. During a save the save is completed.
 */
EITP_API void eitp_run_request_stop(eitp_run *run, int reason);

/* Requests that the run saves after the current step and continues. May be called from a signal handler. NULL is
   ignored. */
EITP_API void eitp_run_request_save(eitp_run *run);

/*
 * Keeps the checkpoint of a step besides those that the run keeps, until this is called with another step; -1: none.
 * Protects it from pruning, for example during an upload or a copy to another disk. Call it from the listener: in
 * EITP_EVENT_SAVED the newest checkpoint is not removed yet. One that is released after eitp_run_train is removed by
 * eitp_run_close, if save_total_limit does not keep it. NULL is harmless.
 */
EITP_API void eitp_run_keep_checkpoint(eitp_run *run, int64_t step);

/* ---- The process of a run ---- */

typedef enum eitp_run_process_state {
    EITP_RUN_PROCESS_UNKNOWN = 0,   /* there is no run.json that has it */
    EITP_RUN_PROCESS_ALIVE = 1,     /* it trains, or pauses */
    EITP_RUN_PROCESS_ENDED = 2,     /* it has recorded how it ended */
    EITP_RUN_PROCESS_VANISHED = 3,  /* it is gone and has not: it was killed or has crashed */
    EITP_RUN_PROCESS_RESTARTED = 4, /* the same, and the machine has been started again since: with it, or later */
    EITP_RUN_PROCESS_ELSEWHERE = 5  /* it has not, and it was a process of another machine: whether it trains is not
                                       known, but see `alive` */
} eitp_run_process_state;

/* The process that trains in an output directory, or trained there last. */
typedef struct eitp_run_process {
    eitp_run_process_state state;
    int64_t pid;        /* -1: unknown */
    char recorded[24];  /* "running", "paused", or a name of eitp_run_end_name; "": unknown */
    int64_t step;       /* done when it recorded this; -1: unknown */
    int64_t saved_step; /* of its newest checkpoint; -1: none */
    double alive;       /* when, in seconds since 1970; 0: unknown */
    char message[1024]; /* why it ended early; "": nothing is recorded */
} eitp_run_process;

/*
 * Reads run.json of an output directory, and looks whether the process is there: its number with the same start time,
 * since the same start of the machine. A missing or damaged run.json is EITP_RUN_PROCESS_UNKNOWN, not an error: besides
 * NULL arguments, only EITP_ERROR_MEMORY can happen.
 */
EITP_API eitp_status eitp_run_process_read(const eitp_host *host, const char *directory, eitp_run_process *process,
                                           eitp_error *error);

EITP_END_DECLARATIONS

#endif
