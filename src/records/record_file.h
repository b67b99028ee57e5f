/* Common parts of record files of all formats: see eitp_record_file. */
#ifndef EITP_RECORD_FILE_H
#define EITP_RECORD_FILE_H

#include "records/queued_file.h"
#include "records/values.h"

/* The file with every record, and its summary. */
#define EITP__METRICS_FILE "metrics.jsonl"
#define EITP__SUMMARY_FILE "summary.jsonl"

/* Bytes that a resume reads at a time: more than the longest record, which has two descriptions. */
#define EITP__RECORD_PIECE ((size_t)262144)

/* The evaluations that a sink has for the step of a checkpoint: see eitp_record_sink.resume. */
enum { EITP__RECORDED_EVALUATION = 1, EITP__RECORDED_SPOT = 2 };

typedef struct eitp__record_file_class {
    size_t size; /* size of the file's struct, which starts with an eitp_record_file */
    eitp_status (*record)(eitp_record_file *file, const eitp_record *record, eitp_error *error);
    eitp_status (*resume)(eitp_record_file *file, int64_t step, int *evaluated, eitp_error *error);
    void (*close)(eitp_record_file *file); /* releases the members added by the format; may be NULL */
} eitp__record_file_class;

struct eitp_record_file {
    eitp_host host;
    const eitp__record_file_class *format;
    char *path;
    eitp__queued_file *queue; /* NULL: records are not appended to a file */
    eitp__buffer text;        /* of the record being added */
    int64_t refused;          /* records that cannot be written */
};

/* Creates a file of a format. */
EITP__PRIVATE eitp_status eitp__record_file_create(const eitp_host *host, const eitp__record_file_class *format,
                                                   eitp_record_file **file, eitp_error *error);

/* Opens the queue of a file. */
EITP__PRIVATE eitp_status eitp__record_file_open(eitp_record_file *file, const char *path, eitp_error *error);

/* Finishes opening a file: if `status` is a failure, closes the file and sets *file to NULL. Returns `status`. */
EITP__PRIVATE eitp_status eitp__record_file_opened(eitp_record_file **file, eitp_status status);

/*
 * Returns the size of the complete records in records[0, size) up to the first one after `step`. *more is set to 0 if
 * there is such a record, and *found to the evaluations of the last step. A zero byte follows the text.
 */
typedef size_t (*eitp__record_keep)(eitp_record_file *file, const char *records, size_t size, int64_t step, int *more,
                                    int *found);

/* Truncates the file after the records up to `step`. */
EITP__PRIVATE eitp_status eitp__record_file_truncate(eitp_record_file *file, int64_t step, eitp__record_keep keep,
                                                     int *evaluated, eitp_error *error);

/* Return the maximum memory in bytes of a file of each format, without its thread's stack; `objects`: as in
   eitp__jsonl_add. */
EITP__PRIVATE size_t eitp__jsonl_bytes(size_t objects);
EITP__PRIVATE size_t eitp__csv_bytes(void);
EITP__PRIVATE size_t eitp__tensorboard_bytes(void);

/*
 * Appends a record to a file of JSON lines. The members of `count` objects follow its values: strings from
 * eitp_task.describe, or NULL. EITP_ERROR_ARGUMENT if one is not an object on one line, or is too long; nothing is
 * written then.
 */
EITP__PRIVATE eitp_status eitp__jsonl_add(eitp_record_file *file, const eitp_record *record, const char *const *objects,
                                          size_t count, eitp_error *error);

/* Sets the columns of a file that has no header yet, as eitp_csv_open does. */
EITP__PRIVATE eitp_status eitp__csv_set_columns(eitp_record_file *file, const char *const *columns, size_t count,
                                                eitp_error *error);

#endif
