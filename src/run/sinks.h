/* The sinks that receive a run's records, including the files that the run opens itself (eitp_run_config.report_to).
   They belong to the records' observer. */
#ifndef EITP_SINKS_H
#define EITP_SINKS_H

#include "records/log_directory.h"
#include "records/record_file.h"
#include "run/internal.h"

/* Kinds of record files, in the order in which they receive records. */
typedef enum eitp__report_kind {
    EITP__REPORT_JSONL,
    EITP__REPORT_CSV,
    EITP__REPORT_TENSORBOARD,
    EITP__REPORT_SUMMARY,     /* goes with JSONL, whose file it reads */
    EITP__REPORT_EVALUATIONS, /* JSON lines with details of evaluations, in addition to metrics.jsonl, if there are
                                 details */
    EITP__REPORTS
} eitp__report_kind;

/* An open file, or zeros. */
typedef struct eitp__report {
    eitp_record_file *file;
    char *path;      /* of the file, or of the directory of an event file */
    int is_new;      /* 1: the file, or the directory, did not exist before */
    int directories; /* number of directories created for it, except an event file's own */
} eitp__report;

/* Fails if a list contains an unknown kind of file. NULL is "none". */
EITP__PRIVATE eitp_status eitp__reports_check(const char *list, eitp_error *error);

/* True if a list contains a kind. */
EITP__PRIVATE int eitp__reports_have(const char *list, eitp__report_kind kind);

/* Returns the maximum memory of a kind in bytes, without its thread's stack. */
EITP__PRIVATE size_t eitp__report_bytes(eitp__report_kind kind);

/* Returns the processor time of the file's thread in seconds, or 0 if the file is not open. */
EITP__PRIVATE double eitp__report_seconds(const eitp__report *report);

/* Maximum number of parameter groups whose norms are recorded; any others are left out. */
#define EITP__RECORDED_GROUPS 128

typedef struct eitp__sink {
    eitp_record_sink calls;
    int is_open;     /* 1: resumed, receives records */
    int is_failing;  /* 1: its last call failed */
    int has_changed; /* 1: is_failing has changed and that was not reported yet */
    int64_t lost;    /* number of lost records, unless the sink counts them */
    int is_thinned;  /* 1: receives only every log_every-th step */
    int is_detailed; /* 1: receives only the descriptions of evaluations */
    char why[200];   /* error of the last failure */
} eitp__sink;

/* Values of the program that are not recorded yet, all from one step. */
typedef struct eitp__program_values {
    char names[EITP_PROGRAM_VALUES][EITP_VALUE_NAME_SIZE];
    double values[EITP_PROGRAM_VALUES];
    size_t count;
    int64_t step;
} eitp__program_values;

typedef struct eitp__sinks {
    eitp__sink *all; /* the program's sinks, then the report files */
    size_t count, capacity;
    eitp__values values; /* of the record being built */
    eitp__program_values program;
    eitp_group_norms groups[EITP__RECORDED_GROUPS];
    eitp_layer_activations layers[EITP__RECORDED_GROUPS];
    eitp__report reports[EITP__REPORTS];
    char *log_dir;              /* eitp_run_config.log_dir, or NULL */
    eitp__log_directory folder; /* this run's folder in it */
    double began;               /* time when the sinks were resumed */
    int64_t recorded_step;      /* step of the checkpoint if the records contain its evaluation, else -1 */
    int64_t spot_step;          /* the same for its spot evaluation */
    int64_t detailed_step;      /* the same for both in evaluations.jsonl */
    int64_t detailed_spot_step;
} eitp__sinks;

EITP__PRIVATE eitp__sinks *eitp__sinks_of(const eitp_run *run);

/* Replaces the sinks by a configuration's, and opens and closes report files accordingly. On failure they are
   unchanged. */
EITP__PRIVATE eitp_status eitp__sinks_configure(eitp_run *run, const eitp_run_config *config, eitp_error *error);

/* Reopens the report files in a replaced directory. */
EITP__PRIVATE eitp_status eitp__sinks_replace_reports(eitp_run *run, eitp_error *error);

/* Closes the report files. If the run did not train, removes everything created by opening them. */
EITP__PRIVATE void eitp__sinks_close(eitp_run *run, void *state);

/* Calls resume of all sinks, which receive records from then on; see eitp_record_sink. */
EITP__PRIVATE eitp_status eitp__sinks_resume(eitp_run *run, int64_t step, int *evaluated, eitp_error *error);

/* Passes a record to all resumed sinks. */
EITP__PRIVATE void eitp__sinks_record(eitp_run *run, eitp_record_kind kind, int64_t step, const eitp_value *values,
                                      size_t count);

/* The first returns true if descriptions of evaluations are kept. The second adds one, with the objects of
   eitp__jsonl_add. */
EITP__PRIVATE int eitp__sinks_take_details(const eitp_run *run);
EITP__PRIVATE void eitp__sinks_record_details(eitp_run *run, int64_t step, const eitp_value *values, size_t count,
                                              const char *const *objects, size_t object_count);

/* Calls sync of all sinks. */
EITP__PRIVATE void eitp__sinks_sync(eitp_run *run);

/* At the end: calls sync of the sinks that buffer records. */
EITP__PRIVATE void eitp__sinks_finish(eitp_run *run);

#endif
