/* Files of records that a run writes by itself: eitp_run_config.report_to. */
#ifndef EITP_REPORTS_H
#define EITP_REPORTS_H

#include "run/csv.h"
#include "run/jsonl.h"
#include "run/summary_file.h"
#include "run/tensorboard.h"

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
    eitp_jsonl *jsonl; /* one of the four */
    eitp_csv *csv;
    eitp_tensorboard *tensorboard;
    eitp__summary_file *summary;
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

/* Opens a file in a directory. */
EITP__PRIVATE eitp_status eitp__report_open(eitp__report *report, const eitp_host *host, const char *directory,
                                            eitp__report_kind kind, eitp_error *error);

/* Sets the times and tags of a file, if it is open. */
EITP__PRIVATE void eitp__report_configure(const eitp__report *report, const eitp_run_config *config);

/* Gives metrics.csv columns for what a task has too: its items, and its metrics. */
EITP__PRIVATE eitp_status eitp__report_set_columns(eitp_csv *csv, const eitp_task *task, eitp_error *error);

/* Seconds of processor time that the thread of its file has taken; 0 if it is not open. */
EITP__PRIVATE double eitp__report_seconds(const eitp__report *report);

/* Its sink; zeros if it is not open. */
EITP__PRIVATE eitp_record_sink eitp__report_sink(const eitp__report *report);

/* Closes a file, and with `removes` what opening it has created. Harmless if it is not open. */
EITP__PRIVATE void eitp__report_close(eitp__report *report, const eitp_host *host, int removes);

#endif
