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
    EITP_RECORD_PERFORMANCE = 3, /* cost of the steps since the last such record, or of an epoch; or GPU measurements:
                                    eitp_run_config.gpu_report_every */
    EITP_RECORD_PROGRAM = 4,     /* values of the program: eitp_run_record_value */
    EITP_RECORD_ROLLING = 5,     /* statistics of the last steps */
    EITP_RECORD_SPOT = 6         /* a spot evaluation: eitp_run_config.spot_samples */
} eitp_record_kind;

/*
 * An occurrence after a step, valid during the call. The values of a training step are "loss", "loss_<name>" for each
 * of several loss terms, "lr", "grad_norm" and more, and for a spike "spike". An evaluation has "val_loss",
 * "val_loss_<name>" and "val_<name>" for each metric, and for each of these its standard error with "_error" appended.
 * A spot evaluation has these with "spot/" instead of "val_", and "spot/samples". An event has "event"
 * (eitp_run_event_name), "level" ("info", "warning", ...), "message", "seconds", if it took any, and its own values
 * (eitp_run_event.values). A shortage of memory also has an event "memory_pressure" with the remaining bytes. The event
 * "started" has "schema", the version of these names: 1. Later versions may add values.
 */
typedef struct eitp_record {
    eitp_record_kind kind;
    int64_t step;
    double time;    /* seconds since 1970, UTC; may go back when the clock is set */
    double elapsed; /* seconds since this process started training; never decreases */
    const eitp_value *values;
    size_t count;
} eitp_record;

/* A destination of records. */
typedef struct eitp_record_sink {
    void *user;
    /* Stores a record. A failure does not end the run: it is reported once (EITP_EVENT_RECORDS), and the record counts
       as lost. The sink still gets the next record. */
    eitp_status (*record)(void *user, const eitp_record *record, eitp_error *error);
    /* Called before the first step: discards the records of steps after `step` (-1: all records), and sets *evaluated
       to 1 if it has an evaluation of `step`, to 2 if it has a spot evaluation, to 3 if it has both; these are not
       recorded again. May be NULL. */
    eitp_status (*resume)(void *user, int64_t step, int *evaluated, eitp_error *error);
    /* Writes all records to storage. Called before a checkpoint is written; a failure does not prevent that. May be
       NULL. */
    eitp_status (*sync)(void *user, eitp_error *error);
    /* For sinks that keep records and store them later: returns the number of records since `resume` that are not
       stored because of a failure. May be NULL: then each failed `record` is one. */
    int64_t (*lost)(void *user);
} eitp_record_sink;

/*
 * A file of records, with a queue of 1 MiB and a thread that writes it. `record` copies the text of a record into the
 * queue; it makes no file call and never waits. The thread writes at once if its last write was at least a second ago,
 * otherwise when that second is over (eitp_run_config.log_flush_seconds). After a failure it truncates the file to the
 * last whole record, keeps the queue and retries: when records are synced, and after one second, two, four and so on up
 * to 32. A record that finds the queue full is dropped and counts as lost. `sync`, `resume` and closing wait for the
 * thread, at most 10 seconds (log_wait_seconds). After that they fail, and do not wait again until the thread's call
 * returns. Without threads each record is written when it is made.
 *
 * Close it after the run that uses it. If a call of eitp_files has not returned by then, its thread is abandoned: it
 * ends when the call returns, and calls nothing else. The file itself is not closed.
 */
typedef struct eitp_record_file eitp_record_file;

/*
 * Opens a file of JSON lines: an object for each record, with "step" first, then its values, then "time" and "elapsed".
 * Numbers that are not finite are null. A resume truncates the file after the last whole record of earlier steps;
 * unknown members are kept.
 */
EITP_API eitp_status eitp_jsonl_open(const eitp_host *host, const char *path, eitp_record_file **file,
                                     eitp_error *error);

/*
 * Opens a file of comma-separated values (RFC 4180, but lines end with a line feed). The header is: kind (step,
 * evaluation or event), step, time, elapsed, the `count` columns, whose names are copied, and other: a JSON object with
 * the values that have no column. Numbers that are not finite are nan, inf and -inf. A resume uses the file's header,
 * and truncates the file after the last whole row of earlier steps. EITP_ERROR_ARGUMENT if a name is empty, occurs
 * twice, or has a comma, a quote or a line break.
 */
EITP_API eitp_status eitp_csv_open(const eitp_host *host, const char *path, const char *const *columns, size_t count,
                                   eitp_record_file **file, eitp_error *error);

/*
 * Opens an event file for TensorBoard, events.out.tfevents.<seconds>.<host name>.<process>, in a directory, which is
 * created if missing. Numbers and booleans are scalars (float), tagged with the names of the values. Strings are text
 * summaries, as are the messages of events, which have the tag "events/<name>". Each file is new. After a resume it
 * starts with a session start at the next step: TensorBoard then drops the data of earlier files in the directory from
 * that step on. The sink does not read evaluations back: unless another sink has the checkpoint's evaluation, it is
 * recorded again.
 */
EITP_API eitp_status eitp_tensorboard_open(const eitp_host *host, const char *directory, eitp_record_file **file,
                                           eitp_error *error);

/* If `use` is not 0, an event file also has loss, lr, grad_norm and gpu/allocated_gib under the tags Training/Loss,
   Loss, LR, Training/GradientNorm, GradNorm, Performance/GPUMemory and GPUMemory. NULL and other files are harmless. */
EITP_API void eitp_tensorboard_use_guide_tags(eitp_record_file *file, int use);

/* Returns the sink of a file; zeros if it is NULL, which eitp_run_open refuses. */
EITP_API eitp_record_sink eitp_record_file_sink(eitp_record_file *file);

/* Closes a file. NULL is harmless. */
EITP_API void eitp_record_file_close(eitp_record_file *file);

EITP_END_DECLARATIONS

#endif
