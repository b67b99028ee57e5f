/* Numbers of runs by step, as columns of one table. */
#ifndef COMMAND_RECORDS_SERIES_H
#define COMMAND_RECORDS_SERIES_H

#include "records/recorded_run.h"
#include "records/text_table.h"

EITP_BEGIN_DECLARATIONS

/* A number of a run: in the order of steps. */
typedef struct series {
    const recorded_run *run;
    char *name; /* its key in metrics.jsonl, or "time" */
    int64_t *steps;
    double *values;
    size_t count, next; /* the first value that no row has yet */
    int64_t taken;      /* the last step whose value a row has; -1: none */
} series;

typedef struct series_list {
    series *all;
    size_t count;
} series_list;

/* Which events of a run stand between the rows. */
typedef struct series_events {
    const recorded_run *run; /* NULL: none */
    eitp_log_level least;
    double after; /* the time of the last one that was added, in seconds since 1970 */
} series_events;

/*
 * Adds numbers by name, separated by commas: keys of metrics.jsonl, or "items/s", "memory" and "time", the seconds of
 * training so far; "step" is always there. Unknown names are EITP_ERROR_ARGUMENT. NULL: `standard` ones, as far as the
 * run has them. With `goes_on`, those of evaluations may be still to come.
 */
eitp_status series_add(series_list *list, const recorded_run *run, const char *names, const char *standard, int goes_on,
                       eitp_error *error);
void series_release(series_list *list);

/* Reads the numbers that no row has yet. Where a resumed run has removed the records after a step, those are none. */
void series_read(series_list *list);

/* The columns: the step, and one for each number, with the name of its run if there are several. */
void series_add_columns(const series_list *list, text_table *t);

/* Adds a row for each step that has a number; at most `most` of them, evenly spread, with the last value of each number
   since the row before; 0: all. */
void series_add_rows(series_list *list, size_t most, series_events *events, text_table *t);

/* "1.2345", "12.3 MB", "2m05s": how a number is shown. */
void series_format(const char *name, double value, char *text, size_t size);

EITP_END_DECLARATIONS

#endif
