/* evaluations.jsonl: confusion, mistakes, text samples; and best.json: the best evaluation and its metric. */
#ifndef COMMAND_REPORT_DETAILS_H
#define COMMAND_REPORT_DETAILS_H

#include "records/recorded_run.h"

EITP_BEGIN_DECLARATIONS

/* The last evaluations, oldest first. */
typedef struct run_details {
    eitp_json_document **evaluations;
    size_t count;
    eitp_json_document *best; /* best.json; NULL: missing */
} run_details;

/* Reads the last megabytes of the file. Lines that are not JSON, and a last line still being written, are ignored. A
   missing file has no evaluations; for another problem a line is added to `missing`. */
eitp_status run_details_read(const recorded_run *r, run_details *d, text_buffer *missing, eitp_error *error);
void run_details_release(run_details *d);

/* Finds the metric that --keep-best and --patience follow, with its best evaluation. False if there is none or the
   metric is the loss. */
typedef struct best_metric {
    const char *name;
    int64_t step;
    double value, error; /* NaN: unknown */
} best_metric;
int run_details_best(const recorded_run *r, const run_details *d, best_metric *best);

/* Returns the newest evaluation that has a member, or NULL. */
const eitp_json *run_details_last(const run_details *d, const char *name);

EITP_END_DECLARATIONS

#endif
