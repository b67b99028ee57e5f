/* The sinks of a run, which its records are given to, and the files among them that the run opens by itself
   (eitp_run_config.report_to). They belong to the records' observer. */
#ifndef EITP_SINKS_H
#define EITP_SINKS_H

#include "records/log_directory.h"
#include "records/record_file.h"
#include "run/internal.h"

/* The kinds of files, in the order in which records reach them. */
typedef enum eitp__report_kind {
    EITP__REPORT_JSONL,
    EITP__REPORT_CSV,
    EITP__REPORT_TENSORBOARD,
    EITP__REPORT_SUMMARY,     /* it goes with JSONL, and reads what that has written */
    EITP__REPORT_EVALUATIONS, /* JSON lines with evaluations in detail; beside metrics.jsonl, if there are details */
    EITP__REPORTS
} eitp__report_kind;

/* A file that is open, or zeros. */
typedef struct eitp__report {
    eitp_record_file *file;
    char *path;      /* of the file, or of the directory of an event file */
    int is_new;      /* the file, or the directory, did not exist before */
    int directories; /* number of directories that were created for it, but not an event file's own */
} eitp__report;

/* Fails if a list has a word that is no kind of file. NULL is "none". */
EITP__PRIVATE eitp_status eitp__reports_check(const char *list, eitp_error *error);

/* True if a list has a kind. */
EITP__PRIVATE int eitp__reports_have(const char *list, eitp__report_kind kind);

/* Bytes that a kind takes at most, but not its thread's stack. */
EITP__PRIVATE size_t eitp__report_bytes(eitp__report_kind kind);

/* Seconds of processor time that the thread of its file has taken; 0 if it is not open. */
EITP__PRIVATE double eitp__report_seconds(const eitp__report *report);

/* Groups of parameters whose norms are recorded: further ones are left out. */
#define EITP__RECORDED_GROUPS 128

typedef struct eitp__sink {
    eitp_record_sink calls;
    int is_open;     /* it was resumed, and gets records */
    int is_failing;  /* its last call failed */
    int has_changed; /* is_failing did, and that was not reported yet */
    int64_t lost;    /* number of records, unless the sink counts them */
    int is_thinned;  /* it gets every log_every-th step only */
    int is_detailed; /* it gets described evaluations, and nothing else */
    char why[200];   /* it fails */
} eitp__sink;

/* The program's values that are not recorded yet, all of one step. */
typedef struct eitp__program_values {
    char names[EITP_PROGRAM_VALUES][EITP_VALUE_NAME_SIZE];
    double values[EITP_PROGRAM_VALUES];
    size_t count;
    int64_t step;
} eitp__program_values;

typedef struct eitp__sinks {
    eitp__sink *all; /* the program's, then those of the reports */
    size_t count, capacity;
    eitp__values values; /* of the record being built */
    eitp__program_values program;
    eitp_group_norms groups[EITP__RECORDED_GROUPS];
    eitp_layer_activations layers[EITP__RECORDED_GROUPS];
    eitp__report reports[EITP__REPORTS];
    char *log_dir;              /* eitp_run_config.log_dir, or NULL */
    eitp__log_directory folder; /* of this run in it */
    double began;               /* time when the sinks were resumed */
    int64_t recorded_step;      /* the step of the checkpoint, if the records have its evaluation; otherwise -1 */
    int64_t spot_step;          /* the same of its spot evaluation */
    int64_t detailed_step;      /* both of evaluations.jsonl */
    int64_t detailed_spot_step;
} eitp__sinks;

EITP__PRIVATE eitp__sinks *eitp__sinks_of(const eitp_run *run);

/* Replaces the sinks by those of a configuration, and opens and closes reports as it asks. After a failure they are as
   they were. */
EITP__PRIVATE eitp_status eitp__sinks_configure(eitp_run *run, const eitp_run_config *config, eitp_error *error);

/* Opens the reports again, whose directory is another one now. */
EITP__PRIVATE eitp_status eitp__sinks_replace_reports(eitp_run *run, eitp_error *error);

/* Closes the reports, and removes what opening them has created if the run did not train. */
EITP__PRIVATE void eitp__sinks_close(eitp_run *run, void *state);

/* Calls resume of all sinks, which get records from then on; see eitp_record_sink. */
EITP__PRIVATE eitp_status eitp__sinks_resume(eitp_run *run, int64_t step, int *evaluated, eitp_error *error);

/* Gives a record to all sinks that were resumed. */
EITP__PRIVATE void eitp__sinks_record(eitp_run *run, eitp_record_kind kind, int64_t step, const eitp_value *values,
                                      size_t count);

/* True if described evaluations are kept; and gives them one, with the objects of eitp__jsonl_add. */
EITP__PRIVATE int eitp__sinks_take_details(const eitp_run *run);
EITP__PRIVATE void eitp__sinks_record_details(eitp_run *run, int64_t step, const eitp_value *values, size_t count,
                                              const char *const *objects, size_t object_count);

/* Calls sync of all sinks. */
EITP__PRIVATE void eitp__sinks_sync(eitp_run *run);

/* At the end: calls sync of the sinks that keep records and store them later. */
EITP__PRIVATE void eitp__sinks_finish(eitp_run *run);

#endif
