/* evaluations.jsonl: confusion, mistakes, samples of text; and best.json: which evaluation is the best, and by what. */
#ifndef COMMAND_REPORT_DETAILS_H
#define COMMAND_REPORT_DETAILS_H

#include "records/recorded_run.h"

EITP_BEGIN_DECLARATIONS

/* The last evaluations, oldest first. */
typedef struct run_details {
    eitp_json_document **evaluations;
    size_t count;
    eitp_json_document *best; /* best.json; NULL: there is none */
} run_details;

/* Reads what fits in the last megabytes of the file; lines that are not JSON, and a last one that is being written, are
   left out. A missing file has no evaluations; what else is the matter goes to `missing`, as a line. */
eitp_status run_details_read(const recorded_run *r, run_details *d, text_buffer *missing, eitp_error *error);
void run_details_release(run_details *d);

/* The metric that --keep-best and --patience follow, with the best evaluation by it. False if there is none, or the
   metric is the loss. */
typedef struct best_metric {
    const char *name;
    int64_t step;
    double value, error; /* NaN: unknown */
} best_metric;
int run_details_best(const recorded_run *r, const run_details *d, best_metric *best);

/* The newest evaluation that has a member; NULL: there is none. */
const eitp_json *run_details_last(const run_details *d, const char *name);

EITP_END_DECLARATIONS

#endif
