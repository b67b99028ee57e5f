/* Records of training: named values of steps, evaluations and events, their destinations, and files of them. */
#ifndef EITP_RECORDS_H
#define EITP_RECORDS_H

#include "base/base.h"

EITP_BEGIN_DECLARATIONS

typedef enum eitp_value_kind {
    EITP_VALUE_NUMBER = 0,
    EITP_VALUE_INTEGER = 1,
    EITP_VALUE_BOOLEAN = 2,
    EITP_VALUE_TEXT = 3
} eitp_value_kind;

/* A named value, in the member that its kind selects. */
typedef struct eitp_value {
    const char *name;
    eitp_value_kind kind;
    double number;
    int64_t integer; /* of a boolean 0 or 1 */
    const char *text;
} eitp_value;

typedef enum eitp_record_kind {
    EITP_RECORD_STEP = 0,
    EITP_RECORD_EVALUATION = 1,
    EITP_RECORD_EVENT = 2,
    EITP_RECORD_PERFORMANCE = 3, /* what the steps since the last such record, or those of an epoch, have taken; or
                                    figures of the GPU: eitp_run_config.gpu_report_every */
    EITP_RECORD_PROGRAM = 4,     /* values of the program: eitp_run_record_value */
    EITP_RECORD_ROLLING = 5,     /* statistics of the last steps */
    EITP_RECORD_SPOT = 6         /* a spot evaluation: eitp_run_config.spot_samples */
} eitp_record_kind;

/*
 * What happened after a step, valid during the call. The values of a training step are "loss", "loss_<name>" for each
 * of several loss terms, "lr", "grad_norm" and more, and of a spike "spike"; of an evaluation "val_loss",
 * "val_loss_<name>" and "val_<name>" for each metric, and for each of these its standard error with "_error" appended;
 * of a spot evaluation these with "spot/" instead of "val_", and "spot/samples"; of an event "event"
 * (eitp_run_event_name), "level" ("info", "warning", ...), "message", "seconds", if it took any, and its own
 * (eitp_run_event.values). Besides, a shortage of memory has an event "memory_pressure" with the bytes that were left.
 * The event "started" has "schema", the version of these names: 1. Later versions may add values.
 */
typedef struct eitp_record {
    eitp_record_kind kind;
    int64_t step;
    double time;    /* seconds since 1970, UTC; it may go back when the clock is set */
    double elapsed; /* seconds since this process began to train; never decreases */
    const eitp_value *values;
    size_t count;
} eitp_record;

/* A destination of records. */
typedef struct eitp_record_sink {
    void *user;
    /* Stores a record. A failure does not end the run: it is reported once (EITP_EVENT_RECORDS), and the record counts
       as lost. The sink gets the next record nevertheless. */
    eitp_status (*record)(void *user, const eitp_record *record, eitp_error *error);
    /* Called before the first step: discards the records of steps after `step` (-1: all records), and sets *evaluated
       to 1 if it has an evaluation of `step`, to 2 if it has a spot evaluation, to 3 if it has both: these are then not
       recorded again. May be NULL. */
    eitp_status (*resume)(void *user, int64_t step, int *evaluated, eitp_error *error);
    /* Writes all records to storage. Called before a checkpoint is written, which a failure does not prevent. May be
       NULL. */
    eitp_status (*sync)(void *user, eitp_error *error);
    /* For sinks that keep records and store them later: the number of records since `resume` that are not stored after
       a failure. May be NULL: each failed `record` is one. */
    int64_t (*lost)(void *user);
} eitp_record_sink;

/*
 * A file of records. It has a queue of 1 MiB and a thread that writes it. `record` copies the text of a record into
 * the queue; it makes no file call and never waits. The thread writes at once if its last write was a second ago, else
 * when that second is over (eitp_run_config.log_flush_seconds). After a failure it truncates the file to the last whole
 * record, keeps the queue and tries again: when records are synced, and after one second, two, four and so on up to 32.
 * A record that finds the queue full is dropped and counts as lost. `sync`, `resume` and closing wait for the thread,
 * at most 10 seconds (log_wait_seconds). After that they fail, and do not wait again until the thread's call returns.
 * Without threads each record is written when it is made.
 *
 * Close it after the run that uses it. If a call of eitp_files has not returned by then, its thread is abandoned:
 * it ends when the call returns, and calls nothing else. The opened file is left to the system.
 */
typedef struct eitp_record_file eitp_record_file;

/*
 * Opens a file of JSON lines: an object for each record, with "step" first, then its values, then "time" and "elapsed".
 * Numbers that are not finite are null. A resume truncates the file after the last whole record of the steps before;
 * members that it does not know are kept.
 */
EITP_API eitp_status eitp_jsonl_open(const eitp_host *host, const char *path, eitp_record_file **file,
                                     eitp_error *error);

/*
 * Opens a file of comma-separated values (RFC 4180, but lines end with a line feed). The header is: kind (step,
 * evaluation or event), step, time, elapsed, the `count` columns, whose names are copied, and other: a JSON object with
 * the values that have no column. Numbers that are not finite are nan, inf and -inf. A resume uses the header that the
 * file has, and truncates the file after the last whole row of the steps before. EITP_ERROR_ARGUMENT if a name is
 * empty, occurs twice, or has a comma, a quote or a line break.
 */
EITP_API eitp_status eitp_csv_open(const eitp_host *host, const char *path, const char *const *columns, size_t count,
                                   eitp_record_file **file, eitp_error *error);

/*
 * Opens an event file for TensorBoard, events.out.tfevents.<seconds>.<host name>.<process>, in a directory, which is
 * created if missing. Numbers and booleans are scalars (float), tagged with the names of the values. Texts are text
 * summaries, as are the messages of events, which have the tag "events/<name>". Each file is new. After a resume it
 * begins with the start of a session at the next step: TensorBoard drops what earlier files in the directory have from
 * that step on. Its sink does not read evaluations back: unless another sink has the one of the checkpoint, it is
 * recorded again.
 */
EITP_API eitp_status eitp_tensorboard_open(const eitp_host *host, const char *directory, eitp_record_file **file,
                                           eitp_error *error);

/* With `use` not 0, an event file also has loss, lr, grad_norm and gpu/allocated_gib under the tags Training/Loss,
   Loss, LR, Training/GradientNorm, GradNorm, Performance/GPUMemory and GPUMemory. NULL and other files are harmless. */
EITP_API void eitp_tensorboard_use_guide_tags(eitp_record_file *file, int use);

/* The sink of a file; zeros if it is NULL, which eitp_run_open refuses. */
EITP_API eitp_record_sink eitp_record_file_sink(eitp_record_file *file);

/* Closes a file. NULL is harmless. */
EITP_API void eitp_record_file_close(eitp_record_file *file);

EITP_END_DECLARATIONS

#endif
