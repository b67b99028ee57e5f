/* Numbers of runs by step, as columns of one table. */
#ifndef COMMAND_RECORDS_SERIES_H
#define COMMAND_RECORDS_SERIES_H

#include "records/recorded_run.h"
#include "records/text_table.h"

EITP_BEGIN_DECLARATIONS

/* A number of a run, by step. */
typedef struct series {
    const recorded_run *run;
    char *name; /* its key in metrics.jsonl, or "time" */
    int64_t *steps;
    double *values;
    size_t count, next; /* first value without a row */
    int64_t taken;      /* last step with a row; -1: none */
} series;

typedef struct series_list {
    series *all;
    size_t count;
} series_list;

/* Selects the events of a run that are shown between rows. */
typedef struct series_events {
    const recorded_run *run; /* NULL: none */
    eitp_log_level least;
    double after; /* time of the last added event, in seconds since 1970 */
} series_events;

/*
 * Adds numbers by name, separated by commas: keys of metrics.jsonl, or "items/s", "memory" and "time", the seconds of
 * training so far; "step" is always present. Unknown names are EITP_ERROR_ARGUMENT. NULL: the `standard` names that the
 * run has. With `goes_on`, numbers of evaluations may still appear.
 */
eitp_status series_add(series_list *list, const recorded_run *run, const char *names, const char *standard, int goes_on,
                       eitp_error *error);
void series_release(series_list *list);

/* Reads numbers without a row. Records that a resumed run has removed are not among them. */
void series_read(series_list *list);

/* Adds the columns: the step, and one per number, with the name of its run if there are several. */
void series_add_columns(const series_list *list, text_table *t);

/* Adds a row for each step that has a number. `most` limits the rows, 0: all; they are spread evenly, with the last
   value of each number since the previous row. */
void series_add_rows(series_list *list, size_t most, series_events *events, text_table *t);

/* Formats a number for display: "1.2345", "12.3 MB", "2m05s". */
void series_format(const char *name, double value, char *text, size_t size);

EITP_END_DECLARATIONS

#endif
