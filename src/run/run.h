/*
 * Training runs: the loop over a trainer's steps, with evaluation, checkpoints, early stopping, a memory guard and
 * records. See docs/training.md. A program may write its own loop over eitp_trainer_step instead, or over
 * eitp_watch_step (run/watch.h), which includes the guard and the records.
 */
#ifndef EITP_RUN_H
#define EITP_RUN_H

#include "base/settings.h"
#include "records/records.h"
#include "train/train.h"
#include "train/trainer_settings.h"

EITP_BEGIN_DECLARATIONS

/* Amount of records. The bits of training do not depend on it. */
typedef enum eitp_monitor {
    EITP_MONITOR_OFF = 0,   /* evaluations and events */
    EITP_MONITOR_LIGHT = 1, /* also every step, and at intervals its performance */
    EITP_MONITOR_FULL = 2   /* also, at intervals, norms and activations of layers, and windows */
} eitp_monitor;

/* ---- Reports and events ---- */

/* Reason for the end of a run. */
typedef enum eitp_run_end {
    EITP_RUN_FAILED = 0,          /* an error not listed below */
    EITP_RUN_FINISHED = 1,        /* all steps are done */
    EITP_RUN_END_OF_DATA = 2,     /* the trainer's last_sample was reached */
    EITP_RUN_STOPPED = 3,         /* eitp_run_request_stop, before all steps were done */
    EITP_RUN_EARLY_STOP = 4,      /* `patience` evaluations in a row without improvement */
    EITP_RUN_NOT_FINITE = 5,      /* weights, or gradients of the last steps, are not finite */
    EITP_RUN_MEMORY_PRESSURE = 6, /* memory stayed short, and no smaller configuration was left */
    EITP_RUN_DIVERGED = 7         /* the loss diverged (see eitp_run_train) */
} eitp_run_end;

/* Returns the name of an end: "finished", "stopped", "not_finite", ...; NULL if it is unknown. */
EITP_API const char *eitp_run_end_name(eitp_run_end end);

/* Current activity of a run. */
typedef enum eitp_run_activity {
    EITP_RUN_STARTING = 0, /* preparing the first step, or resuming */
    EITP_RUN_STEPS = 1,
    EITP_RUN_EVALUATES = 2,
    EITP_RUN_SAVES = 3,
    EITP_RUN_PAUSES = 4 /* waiting to start a step: see temp_max */
} eitp_run_activity;

/* State of a run. Steps count from the start of training, in a resumed run too. */
typedef struct eitp_run_report {
    eitp_run_end end;
    int stop_reason;            /* as passed to eitp_run_request_stop */
    int64_t start_step;         /* steps done when the run started: 0, or those of its checkpoint */
    int64_t steps_done;         /* steps done now */
    int64_t steps;              /* total steps to do; 0: unknown until the data ends */
    int64_t saved_step;         /* steps done at the newest checkpoint, including the one resumed from; -1: none */
    eitp_step_report step;      /* the last step; step.step is 0 before the first */
    eitp_evaluation evaluation; /* the last evaluation */
    int64_t evaluations;        /* number of evaluations of this run */
    int64_t evaluated_step;     /* steps done at the last evaluation, including those before a resume; -1: none */
    int64_t partial_samples; /* samples of the last evaluation if it used fewer than later ones will: see eval_samples;
                                else 0 */
    uint64_t evaluating, evaluating_all; /* evaluation in progress: samples done, and total; else 0 */
    int64_t best_step;                   /* step of the best checkpoint, with `keep_best` or `patience`; -1: none */
    double best_value;
    int64_t items;           /* of the first loss term, in the steps of this run */
    double seconds;          /* duration of those steps */
    eitp_memory_info memory; /* from the last time that memory was short */
    int64_t lost_records;    /* number of records that sinks could not store */
    eitp_run_activity work;  /* current activity, or the last one */
} eitp_run_report;

typedef enum eitp_run_event_kind {
    EITP_EVENT_STEP = 0,          /* a step is done */
    EITP_EVENT_EVALUATION = 1,    /* an evaluation is done */
    EITP_EVENT_SAVED = 2,         /* a checkpoint is written */
    EITP_EVENT_SKIPPED_STEP = 3,  /* a step was not applied because its gradient was not finite */
    EITP_EVENT_MEMORY_SHORT = 4,  /* memory is short: see auto_shrink */
    EITP_EVENT_NOT_SHRUNK = 5,    /* eitp_trainer_shrink failed, or no configuration uses less memory */
    EITP_EVENT_END_OF_DATA = 6,   /* the trainer has used all samples */
    EITP_EVENT_EARLY_STOP = 7,    /* `patience` is exhausted */
    EITP_EVENT_NOTHING_TO_DO = 8, /* all steps were already done */
    EITP_EVENT_SAVE_FAILED = 9,   /* the final checkpoint could not be written. The message is why the run ended;
                                     eitp_run_train returns the write error */
    EITP_EVENT_RECORDS = 10,      /* records cannot be stored, or can be stored again */
    EITP_EVENT_WARNING = 11,      /* the problem in the message; the run loses nothing and continues */
    EITP_EVENT_DISK = 12,         /* the disk is full, fails or has little space left; includes the reaction */
    EITP_EVENT_STARTED = 13,      /* there are steps to do, and all checks before the first one have passed */
    EITP_EVENT_DIVERGING = 14,    /* the loss has exploded; reported once until it recovers */
    EITP_EVENT_NOT_SAVED = 15,    /* a checkpoint was due, but the model is damaged; reported once until it recovers */
    EITP_EVENT_SPIKE = 16,        /* a loss or gradient norm is a spike (eitp_trainer_config.spike_threshold); not
                                     reported again for 20 steps */
    EITP_EVENT_NOT_KEPT = 17,     /* the checkpoint of the best evaluation so far is lost; includes the reason. The best
                                     is then the best of the evaluations whose checkpoints exist */
    EITP_EVENT_ALARM = 18,        /* the run behaves differently from before: see eitp_run_config.alarms. Its record has
                                     "alarm" (the name), "value" and "usual" */
    EITP_EVENT_TEMPERATURE = 19,  /* training pauses because of heat, or continues: see temp_max. Its record has
                                     "sensor", "celsius", "limit_celsius" and, when it continues, "seconds" */
    EITP_EVENT_MEMORY_HIGH = 20,  /* other programs fill the memory: see cpu_mem_warn. Its record has "percent",
                                     "own_bytes", "other_bytes" and "left_bytes" */
    EITP_EVENT_PRESSURE = 21,     /* tasks of the machine have had to wait for memory for some time */
    EITP_EVENT_LOAD = 22,         /* other programs have kept the processors busy for a minute */
    EITP_EVENT_SET = 23,          /* a setting has changed: see eitp_run_set. Its record has "name", "was" and "is" */
    EITP_EVENT_INTERRUPTED = 24,  /* the process that trained here before did not record its end: it was killed or
                                     crashed, or the machine restarted. Its record has "last_step", "last_time" (seconds
                                     since 1970) and "machine_restarted" */
    EITP_EVENT_GPU = 25,          /* every gpu_report_every steps: memory and sensors of the GPU, recorded as a
                                     performance record */
    EITP_EVENT_COUNT = 26
} eitp_run_event_kind;

/* Returns the name of an event in records: "saved", "skipped_step", "memory_short", ...; NULL if the kind is
   unknown. */
EITP_API const char *eitp_run_event_name(eitp_run_event_kind kind);

/* An event of a run. All pointers are valid during the call only. */
typedef struct eitp_run_event {
    eitp_run_event_kind kind;
    eitp_log_level level;
    const char *message;           /* one line of text */
    const eitp_run_report *report; /* the same one until the run ends. The thread that trains may read it later, for
                                      example in a function of the host, to show progress */
    double seconds;                /* duration of a step, an evaluation, a save or a pause */
    const eitp_value *values;      /* additional values of the event's record, such as the sensor of
                                      EITP_EVENT_TEMPERATURE */
    size_t value_count;
} eitp_run_event;

/* Receives all events, including steps, evaluations and the GPU. Sinks get the others as records. If `notify` is
   NULL, events go to the host's log at their level; steps are EITP_LOG_DEBUG. */
typedef struct eitp_run_listener {
    void *user;
    void (*notify)(void *user, const eitp_run_event *event);
} eitp_run_listener;

/* ---- Runs ---- */

typedef enum eitp_run_resume {
    EITP_RESUME_NONE = 0,   /* start a new run */
    EITP_RESUME_NEWEST = 1, /* resume from the newest undamaged checkpoint in the directory
                               (eitp_checkpoint_recover); start a new run if there are no checkpoints at all */
    EITP_RESUME_NAMED = 2   /* resume from config.checkpoint, which may be in another directory */
} eitp_run_resume;

/* Reaction of a run to numbers that are not finite. Such a step is never applied. */
typedef enum eitp_check_finite {
    EITP_CHECK_FINITE_STEP = 0, /* warns if a step's gradient is not finite; max_nonfinite in a row end the run */
    EITP_CHECK_FINITE_NO = 1,   /* does neither */
    EITP_CHECK_FINITE_OP = 2    /* like EITP_CHECK_FINITE_STEP, and names the op that caused it. Steps take several
                                   times as long: for debugging (see eitp_context_check_finite) */
} eitp_check_finite;

/* Start from eitp_run_config_default(). */
typedef struct eitp_run_config {
    const char *directory; /* for checkpoints and records; created if missing */
    eitp_run_resume resume;
    const char *checkpoint; /* for EITP_RESUME_NAMED: a checkpoint directory */
    int64_t steps;          /* total; 0: until the end of data (see eitp_trainer_config_set_epochs) */
    const char *run_name;   /* description for people, in run.json; NULL: none */
    const char *notes;      /* the same */
    int64_t eval_steps;     /* evaluate before step 1 and every N steps; 0: only at the end */
    double eval_epochs;     /* evaluate before step 1 and every N epochs, such as 0.1 for ten times per epoch; 0: do
                               not */
    /* Evaluate on N samples (see eitp_trainer_evaluate). 0: on all, but before step 1 on at most 64, drawn in the same
       way. That evaluation is marked (val_partial_samples in records) and not compared with any other, neither by
       keep_best, patience and EITP_SCHEDULE_PLATEAU nor by alarms. */
    int64_t eval_samples;
    double eval_fraction; /* evaluate on this fraction of the samples instead; 0: on eval_samples */
    int64_t save_steps;   /* save every N steps; 0: only at the end */
    double save_epochs;   /* save every N epochs; 0: do not */
    double save_seconds;  /* also save when this much time has passed; 0: never. Does not affect results. */
    /*
     * Memory for a copy of the checkpoint, which a thread writes during the next steps; it becomes a checkpoint at the
     * end of one of them. If a copy does not fit, or would leave too little memory (eitp_memory_is_short), the run
     * waits until the checkpoint is written, as it does for its last one. The memory is kept until the run ends or
     * memory is short. 0: the run always waits.
     */
    uint64_t async_save_bytes;
    int64_t save_total_limit; /* keep the N newest checkpoints; 0: all. */
    /*
     * "loss", or the name of a loss term or of a metric that has a direction (eitp_pass_metric, eitp_task_metric). Each
     * evaluation that is the best so far is followed by a checkpoint, which is kept in addition to the newest ones. If
     * it cannot be kept, EITP_EVENT_NOT_KEPT is sent. best.json in the directory names the checkpoint once it is
     * complete; a failure to write best.json is an EITP_EVENT_WARNING. The evaluation before step 1 does not count.
     * NULL: the best checkpoint is kept only with `patience`.
     */
    const char *keep_best;
    /* Early stopping: stop after N consecutive evaluations without improvement of keep_best, whether or not their
       checkpoints are kept; 0: never. If keep_best is NULL, the loss is used, and its best checkpoint is kept too. */
    int64_t patience;
    int64_t max_nonfinite; /* stop after N consecutive steps that were not applied; at least 1 */
    eitp_check_finite check_finite;
    /*
     * 1: compares the run with its own past, and reports (EITP_EVENT_ALARM), once each time, that the loss stops
     * falling ("plateau"), the gradient norm falls or rises by orders of magnitude ("vanishing_gradient",
     * "exploding_gradient"), a layer has almost no gradient compared with the others ("dead_layer"), the validation
     * loss rises while the training loss falls ("overfitting"), the units of a latent variable become inactive
     * ("posterior_collapse", for tasks with the metrics active_units and kl), the memory of the process grows until it
     * would be used up ("memory_drift"), or steps become slower ("slowdown"). Nothing else depends on it.
     * docs/records.md has the rules.
     */
    int alarms;
    /*
     * Memory is short according to eitp_memory_is_short, or if it would be used up before the run could react, at the
     * rate at which other programs use it. A step or evaluation in progress is then dropped (it is repeated later, with
     * the same bits; one that has started to change parameters is completed), the arena is returned to the system, and
     * the steps done are saved in a checkpoint that save_total_limit does not count. If memory is still short, the run
     * with auto_shrink calls eitp_trainer_shrink, and ends with EITP_ERROR_PRESSURE if that is not enough. Without
     * auto_shrink it continues unchanged, and saves only once for the same shortage.
     */
    int auto_shrink;
    /* Minimum interval between memory checks, within steps too. Checks are less frequent, but at least once a
       second, while much memory is available. 0: also before every step; negative: never. */
    double memory_check_seconds;
    /*
     * Limits in percent: the share of the memory of the machine, or of a control group, that other programs use,
     * excluding this process's own. Cached files do not count. At cpu_mem_warn, EITP_EVENT_MEMORY_HIGH is sent. At
     * cpu_mem_max, the steps done are also saved, in a checkpoint that save_total_limit does not count. Each happens
     * once, until the share has fallen by 5. A share that is high only because the run leaves little does not count:
     * others must have that percentage of all memory, or more than when the run started. 0 or 100: off. With
     * cpu_mem_acts, a share of cpu_mem_max is a memory shortage like those above, also for auto_shrink.
     */
    double cpu_mem_warn;
    double cpu_mem_max;
    int cpu_mem_acts;
    /* On a GPU: sends EITP_EVENT_WARNING when programs, including this one, use this percentage of its memory. Checked
       every gpu_report_every steps, or every 50 without reports. Sent once, until the share has fallen by 5. 0 or 100:
       off. */
    double gpu_mem_warn;
    /*
     * No step starts while a processor, or the GPU that the run computes on, is hotter than this, in degrees Celsius.
     * Training continues when it is 10 degrees cooler, or the run is asked to stop; the bits are the same. 0: 5 degrees
     * below the critical temperature that a sensor reports, or if it reports none, below the lowest one of the other
     * processors' sensors; 95 if none reports one. For the GPU: 5 degrees below its slowdown temperature, or 95 if that
     * is unknown. Other sensors, such as disks', count only above their own critical temperatures. Negative, or if the
     * host has no `wait`: not checked.
     */
    double temp_max;
    eitp_monitor monitor;
    int64_t log_full_every; /* with EITP_MONITOR_FULL: record norms and activations every N steps; 0: do not */
    /*
     * Spot evaluations, which show progress between evaluations: after every log_full_every-th step without an
     * evaluation, at any level except EITP_MONITOR_OFF, the run evaluates this many validation samples, always the same
     * ones, and records the result (EITP_RECORD_SPOT). Alarms use it; nothing else depends on it. 0: none; -1: 256 in a
     * recipe with EITP_TASK_VAE, otherwise none.
     */
    int64_t spot_samples;
    int64_t metrics_every;  /* with EITP_MONITOR_FULL: record rolling statistics every N steps; 0: do not */
    int64_t metrics_window; /* number of steps in these statistics; 1 to 256 */
    int64_t perf_every;     /* record the performance of the last N steps; 0: only of each epoch */
    /* On a GPU: report and record its memory, temperature and power every N steps; 0: do not. Values that neither the
       context nor the driver's library (eitp_gpus_read) provides are left out. */
    int64_t gpu_report_every;
    int64_t profile_every; /* record the time of each kind of op in every N-th step, which takes longer; 0: do not */
    double peak_tflops;    /* peak rate of matrix products, for model FLOPs utilization; 0: measured after 10 seconds */
    /*
     * Record files, separated by commas: "jsonl" (metrics.jsonl, and its summary in summary.jsonl), "csv"
     * (metrics.csv), "tensorboard" (an event file in the directory "tensorboard"). NULL or "none": no files. With
     * "jsonl", if the task or the program describes evaluations (eitp_task.describe, `describe`), evaluations.jsonl is
     * also written. It has an object for each evaluation, with the values of the evaluation's record and the members of
     * both descriptions, and one for each spot evaluation, with the task's description. docs/records.md has its format.
     */
    const char *report_to;
    /* Directory in which the run gets its own folder for these files, so that several runs may share it; see
       eitp_run_records_directory. Created if missing; NULL: the files are in `directory`. */
    const char *log_dir;
    double log_flush_seconds; /* minimum time between two writes to each of them */
    double log_wait_seconds;  /* maximum time that a save waits until they are written and synced */
    int64_t log_every;        /* TensorBoard and CSV get step 1, every N-th step, the last one, and all evaluations and
                                 events */
    int guide_tags;           /* see eitp_tensorboard_use_guide_tags */
    const eitp_record_sink *sinks; /* additional destinations of records; copied */
    size_t sink_count;
    eitp_run_listener listener;
    /* Writes the program's files into each checkpoint before it is complete: `directory` is the checkpoint's temporary
       path. If it fails, the save fails. A resumed run finds the files in eitp_run_checkpoint. May be NULL. In an
       eitp_watch it writes the whole checkpoint. */
    eitp_status (*save)(void *save_user, const char *directory, eitp_error *error);
    void *save_user;
    /*
     * Describes the model after an evaluation for evaluations.jsonl, for example with text that it generates. Called
     * only if that file is written. It must not change the model. *text has the format of eitp_task.describe and is
     * valid until the next call; NULL: nothing. EITP_ERROR_INTERRUPTED, as from an interrupted plan, drops the
     * evaluation as if it had been interrupted itself. Any other failure is an EITP_EVENT_WARNING. Its time counts as
     * evaluation time. May be NULL.
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
 * Returns the maximum number of bytes that a run with this configuration and task uses besides its trainer, regardless
 * of the number of steps and of `monitor`: for records and their queues and summary, alarms, and the contents of small
 * files. Memory of the program's own sinks is not included. 0 if `config` is NULL; without a task, evaluations are not
 * described. For eitp_fit.record_bytes.
 */
EITP_API size_t eitp_run_record_bytes(const eitp_run_config *config, const eitp_task *task);

typedef struct eitp_run eitp_run;

/*
 * Creates the directory, locks it (eitp_files.lock), finds the checkpoint to resume from, and removes the leftovers of
 * unfinished writes. All files of the checkpoint are verified except those with tensors (.safetensors), which are
 * verified when the trainer is resumed, so that they are read once. The configuration is copied.
 *
 * EITP_ERROR_ARGUMENT if an argument is NULL or out of range, the directory cannot be created at this path, another
 * process has the lock, or the directory has checkpoints of another run or of later steps. EITP_ERROR_FORMAT if the
 * checkpoint is damaged or, with EITP_RESUME_NEWEST, all of them are.
 */
EITP_API eitp_status eitp_run_open(const eitp_host *host, const eitp_run_config *config, eitp_run **run,
                                   eitp_error *error);

/* Unlocks the directory. If eitp_run_train was not called, or was stopped before step 1, removes everything that
   eitp_run_open created. Removes a checkpoint that eitp_run_keep_checkpoint has released. NULL is ignored. */
EITP_API void eitp_run_close(eitp_run *run);

/* Returns the directory of the checkpoint that the run resumes from; NULL for a new run, and for NULL. If the
   checkpoint proves to be damaged, the result changes and the old string is released: see eitp_run_resume_trainer. */
EITP_API const char *eitp_run_checkpoint(const eitp_run *run);

/* Returns the directory of the files of eitp_run_config.report_to. Valid until the configuration changes. */
EITP_API const char *eitp_run_records_directory(const eitp_run *run);

/*
 * Replaces the configuration before eitp_run_train, except directory, resume and checkpoint. For programs that read
 * settings from the checkpoint, which is known and locked only after eitp_run_open. The configuration is copied. On
 * failure the run keeps its previous one. EITP_ERROR_ARGUMENT as for eitp_run_open.
 */
EITP_API eitp_status eitp_run_set_config(eitp_run *run, const eitp_run_config *config, eitp_error *error);

/*
 * Resumes the trainer from the run's checkpoint, and verifies its tensors at the same time, so that they are read once.
 * eitp_run_train does this unless the program has called this function or eitp_trainer_resume. Does nothing for a new
 * run.
 *
 * EITP_ERROR_FORMAT if the checkpoint is damaged. The trainer may then be inconsistent (eitp_trainer_is_inconsistent),
 * and eitp_run_recover has been called: eitp_run_checkpoint may be an older one. eitp_run_train resumes from that by
 * itself. A program that reads settings from the checkpoint calls this function, and recreates its objects after such a
 * failure.
 */
EITP_API eitp_status eitp_run_resume_trainer(eitp_run *run, eitp_trainer *trainer, eitp_error *error);

/*
 * Verifies all files of the run's checkpoint, for a program that failed to read one of them. With EITP_RESUME_NEWEST, a
 * damaged checkpoint is set aside, and eitp_run_checkpoint becomes the newest undamaged one (eitp_checkpoint_recover).
 * EITP_ERROR_FORMAT if all are damaged, or if the one named by the program is. Does nothing for a new run.
 */
EITP_API eitp_status eitp_run_recover(eitp_run *run, eitp_error *error);

/*
 * Resumes the trainer from the checkpoint, unless the program has done so, and trains. A checkpoint whose tensors prove
 * to be damaged is set aside, and the trainer is resumed from the newest undamaged one. If all are damaged,
 * EITP_ERROR_FORMAT is returned and eitp_trainer_is_inconsistent is true. May be called once per run. `report` is
 * filled in on failure too; it may be NULL.
 *
 * Before the first step, checks that the disk has space for one checkpoint (otherwise EITP_ERROR_IO; nothing is
 * changed, and the function may be called again), and warns if there is less than the checkpoints of the run will need.
 * EITP_ERROR_MEMORY if other programs use up the memory before step 1, when there is nothing to save.
 *
 * If the disk is full when a checkpoint is saved, the run removes the checkpoints that save_total_limit would remove
 * afterwards, and retries for up to a minute; a request to stop ends the waiting. If that does not help, it ends with
 * EITP_ERROR_IO, and the newest checkpoint is the last one that was saved.
 *
 * Data of a later step that cannot be read or are invalid also cause EITP_ERROR_IO.
 *
 * On success, and after EITP_ERROR_PRESSURE, there is a checkpoint of the last step, unless the run was stopped before
 * step 1. After any other error there is one of the last completed step, unless eitp_trainer_is_inconsistent is true,
 * the model is damaged, or saving fails. EITP_ERROR_ARGUMENT if `run` or `trainer` is NULL, the run was trained before,
 * keep_best, patience or steps do not fit the trainer, or EITP_SCHEDULE_PLATEAU would get no evaluations between steps.
 *
 * A damaged model is never saved under a name that a resume would pick, and older checkpoints stay. A model is damaged
 * if a weight is not finite, if the last steps were not applied because their numbers were not finite, if the
 * optimizer's state has overflowed, or if the loss has diverged. The loss has diverged if the median of the last 10
 * losses, or each of the last 3, is more than 1 above eitp_task.guess_loss and above twice the lowest such median at a
 * save (before the first save, the first loss). A checkpoint that is due is then written when the model has recovered;
 * after a single bad loss, or an update as large as the weights, when the next step has shown that the model is good. A
 * run that ends with a damaged model ends with EITP_ERROR_NOT_FINITE; if its weights are finite, they are kept as
 * checkpoint-<step>.diverged, which no resume picks. If the first three steps after the newest checkpoint show that it
 * was already damaged, it is renamed in the same way, unless the one before is more than 10 steps older or gone.
 * report.saved_step is the last good checkpoint.
 *
 * A run that is killed and resumed produces the same bits, and stops at the same step, as one that was not. The state
 * that decides when it stops (evaluations, and the count for max_nonfinite) is in each checkpoint, in run_state.json.
 */
EITP_API eitp_status eitp_run_train(eitp_run *run, eitp_trainer *trainer, eitp_run_report *report, eitp_error *error);

/*
 * Adds a member to the object "run" of run.json, before eitp_run_train: `value` is JSON, such as "{\"seed\": 3}". It
 * replaces a member of the same name. Both are copied. The run adds its own: "name", "notes", "version", "build",
 * "device", "numerics", "started", "directory", "first_step", "last_step", "machine" and "plan" (bytes of memory).
 * "configuration" is a member next to "run": unless the program adds it, the settings of trainer and run.
 *
 * run.json is in each checkpoint and in the output directory. In the output directory "run" also has "process": "pid",
 * "start_time" (clock ticks since the machine started) and "boot_id" identify it. "state" is "running", "paused"
 * because of heat, or the end (eitp_run_end_name). "step" is the current step. "saved_step" is the step of the newest
 * checkpoint, or -1. "alive" is the time of this state in seconds since 1970, at most half a minute ago while the
 * process runs, unless a step or evaluation takes longer. "message" is the reason for an early end. A process that is
 * gone while its state is "running" or "paused" was killed or has crashed.
 *
 * EITP_ERROR_ARGUMENT if an argument is NULL, the run is already training, `name` contains anything except lower-case
 * letters, digits and underscores, has more than 39 bytes or is one of the run's own, `value` is not JSON, or there are
 * 16 members.
 */
EITP_API eitp_status eitp_run_add_info(eitp_run *run, const char *name, const char *value, eitp_error *error);

/*
 * Records a number of the program. Call it in the thread that trains: in the listener or a callback of the task. The
 * values of one step form one record, which sinks receive before the next step, checkpoint or end. If a name is used
 * twice, the last number counts. Nothing is recorded with EITP_MONITOR_OFF.
 *
 * EITP_ERROR_ARGUMENT if `run` or `name` is NULL, the run is not training, `name` is empty, longer than
 * EITP_VALUE_NAME_SIZE - 1 bytes or a reserved name of records ("step", "time", "elapsed", "event"), or a step has more
 * than EITP_PROGRAM_VALUES of them.
 */
#define EITP_VALUE_NAME_SIZE 64
#define EITP_PROGRAM_VALUES 64
EITP_API eitp_status eitp_run_record_value(eitp_run *run, const char *name, double value, eitp_error *error);

/* ---- Cost of a run besides training ---- */

typedef enum eitp_run_cost {
    EITP_RUN_COST_OTHER = 0,   /* the health of the model, checkpoints, the disk */
    EITP_RUN_COST_RECORDS = 1, /* of steps, performance and windows, in the thread that trains */
    EITP_RUN_COST_ALARMS = 2,
    EITP_RUN_COST_GUARD = 3, /* memory, heat, pressure and load, also within steps */
    EITP_RUN_COST_FILES = 4, /* the threads that write record files; 0 where their time cannot be read */
    EITP_RUN_COST_COUNT = 5
} eitp_run_cost;

/* Receives the cost of a run besides training. */
typedef struct eitp_run_meter {
    void *user;
    /* Processor time of the calling thread in seconds, such as CLOCK_THREAD_CPUTIME_ID. The cost of a reading is
       subtracted. */
    double (*clock)(void *user);
    /*
     * Called after each step, before an evaluation and a save, with the seconds of each part since the last call. It
     * may change `monitor`, `log_full_every`, `metrics_every` and `perf_every` of the run's configuration for the
     * following steps, to compare the cost of records from step to step. A run that starts at a level without windows,
     * or without performance records, does not record them later.
     */
    void (*step)(void *user, const double seconds[EITP_RUN_COST_COUNT], eitp_run_config *config);
} eitp_run_meter;

/*
 * Measures the cost of the run besides training. `meter` is copied. The bits of training do not depend on it, and runs
 * that are not measured execute no extra code. Polls within a step are too short for the meter's clock, and are timed
 * by a monotonic clock.
 *
 * EITP_ERROR_ARGUMENT if an argument or a function is NULL, or if the run was trained or is already measured.
 */
EITP_API eitp_status eitp_run_measure(eitp_run *run, const eitp_run_meter *meter, eitp_error *error);

/* ---- Reading the output of a run ---- */

/* A checkpoint of an output directory. */
typedef enum eitp_run_choice {
    EITP_RUN_LATEST = 0, /* the newest undamaged one */
    EITP_RUN_BEST = 1    /* the one of the best evaluation if the run kept it (keep_best), else the newest */
} eitp_run_choice;

/*
 * Finds the checkpoint that a path refers to, for programs that only read it. Nothing is changed, and a run may train
 * in the directory at the same time. The path is
 * - an output directory: `choice` selects one of its checkpoints. Damaged ones are skipped, with a warning in the
 *   log;
 * - "latest_model" or "best_model" in an output directory, or, unless there is such a directory, "latest" or "best":
 *   that checkpoint, even if the file system does not support links;
 * - any other directory with a config.json, adapter_config.json or trainer_state.json: that directory.
 *
 * Stores the path of the directory in checkpoint[size]. EITP_ERROR_ARGUMENT if there is no such checkpoint, or the path
 * does not fit. A run may remove the checkpoint at any time: if reading fails and it is gone, find it again.
 */
EITP_API eitp_status eitp_run_find_checkpoint(const eitp_host *host, const char *path, eitp_run_choice choice,
                                              char *checkpoint, size_t size, eitp_error *error);

/* ---- Requests ---- */

/*
 * Changes settings of the run that trains in an output directory, in this process or another. Only the members of
 * eitp_run_config with the flag EITP_SETTING_LIVE can be changed; they do not affect results. In their names, '-' may
 * replace '_'. The request is a file, set.json, which the run checks once a second between two steps. The run applies
 * all changes before the next step, or none, and reports each as EITP_EVENT_SET. They last until the run ends; a
 * resumed run uses the configuration passed to it. A request that the run has not read yet is merged with the next one.
 *
 * Waits up to `seconds` for the run, using eitp_files.wait; do not call it in the thread that trains. *step (may be
 * NULL) is the first step with the changes, whose `was` and `is` are then filled in. It is -1 if the run has not
 * answered yet, for example during a long step; it then applies them later.
 *
 * EITP_ERROR_ARGUMENT if a setting is unknown or may not change, a value is out of bounds, no run trains there, the run
 * refuses the changes, or it has ended in the meantime.
 */
EITP_API eitp_status eitp_run_set(const eitp_host *host, const char *directory, eitp_setting_change *changes,
                                  size_t count, double seconds, int64_t *step, eitp_error *error);

/*
 * Requests that the run ends. May be called from a signal handler and from any thread. NULL is ignored.
 *
 * An evaluation or a step in progress is dropped within about one sample or one op; a step that has started to change
 * parameters is completed. Then a checkpoint of the last step is written, unless there is one. It removes no other, and
 * save_total_limit does not count it unless the schedule has a save after this step. Before step 1 nothing is saved,
 * and eitp_run_close removes everything that eitp_run_open created. A resumed run repeats the dropped work, and ends
 * with the same bits, records and best checkpoint as one that was not stopped. A save in progress is completed.
 */
EITP_API void eitp_run_request_stop(eitp_run *run, int reason);

/* Requests that the run saves after the current step and continues. May be called from a signal handler. NULL is
   ignored. */
EITP_API void eitp_run_request_save(eitp_run *run);

/*
 * Keeps the checkpoint of a step in addition to those that the run keeps, until this is called with another step; -1:
 * none. Protects it from pruning, for example during an upload or a copy to another disk. Call it from the listener: in
 * EITP_EVENT_SAVED the newest checkpoint is not removed yet. A checkpoint released after eitp_run_train is removed by
 * eitp_run_close, unless save_total_limit keeps it. NULL is ignored.
 */
EITP_API void eitp_run_keep_checkpoint(eitp_run *run, int64_t step);

/* ---- The process of a run ---- */

typedef enum eitp_run_process_state {
    EITP_RUN_PROCESS_UNKNOWN = 0,   /* run.json is missing or does not have it */
    EITP_RUN_PROCESS_ALIVE = 1,     /* training or paused */
    EITP_RUN_PROCESS_ENDED = 2,     /* it has recorded its end */
    EITP_RUN_PROCESS_VANISHED = 3,  /* gone without recording its end: it was killed or crashed */
    EITP_RUN_PROCESS_RESTARTED = 4, /* like VANISHED, and the machine has restarted since, at that time or later */
    EITP_RUN_PROCESS_ELSEWHERE = 5  /* no recorded end, and it was a process of another machine: unknown if it still
                                       trains, but see `alive` */
} eitp_run_process_state;

/* The process that trains in an output directory, or the last one that did. */
typedef struct eitp_run_process {
    eitp_run_process_state state;
    int64_t pid;        /* -1: unknown */
    char recorded[24];  /* "running", "paused", or a name of eitp_run_end_name; "": unknown */
    int64_t step;       /* steps done at that time; -1: unknown */
    int64_t saved_step; /* of its newest checkpoint; -1: none */
    double alive;       /* time of its last sign of life, in seconds since 1970; 0: unknown */
    char message[1024]; /* reason for an early end; "": none recorded */
} eitp_run_process;

/*
 * Reads run.json of an output directory, and checks whether the process still exists: the same process id, start time
 * and boot of the machine. A missing or damaged run.json gives EITP_RUN_PROCESS_UNKNOWN and is not an error: the only
 * errors are EITP_ERROR_MEMORY and NULL arguments.
 */
EITP_API eitp_status eitp_run_process_read(const eitp_host *host, const char *directory, eitp_run_process *process,
                                           eitp_error *error);

EITP_END_DECLARATIONS

#endif
