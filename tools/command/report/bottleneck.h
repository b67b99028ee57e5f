/* Limits on the speed of a run: shares of its time, rates, and advice. */
#ifndef COMMAND_REPORT_BOTTLENECK_H
#define COMMAND_REPORT_BOTTLENECK_H

#include "records/recorded_run.h"

EITP_BEGIN_DECLARATIONS

/* Parts of the training time. The first six make up the steps. */
typedef enum bottleneck_part {
    BOTTLENECK_DATA,
    BOTTLENECK_FORWARD,
    BOTTLENECK_BACKWARD,
    BOTTLENECK_UPDATE,
    BOTTLENECK_TRANSFER,
    BOTTLENECK_OTHER,
    BOTTLENECK_STEP_PARTS,
    BOTTLENECK_EVALUATION = BOTTLENECK_STEP_PARTS,
    BOTTLENECK_SAVING,
    BOTTLENECK_PARTS
} bottleneck_part;

/* Returns "data", "forward", ..., "evaluation", "checkpoints". */
const char *bottleneck_part_name(bottleneck_part part);

/* A limit of the run, or a change worth trying. */
typedef struct bottleneck_finding {
    char limit[16];   /* a part's name, "small passes" or "compute"; "unknown" */
    double percent;   /* the share that shows it; the MFU for "small passes"; NaN: none */
    double threshold; /* a finding above it (below it for "small passes"); NaN: none */
    int is_of_steps;  /* the share is of step time, otherwise of training time */
    char advice[400]; /* with the figures and options */
} bottleneck_finding;

/* An op in the profiled steps (--profile-every). */
typedef struct bottleneck_op {
    char name[64];           /* phase and op: "backward/matmul" */
    double seconds, percent; /* of all profiled steps */
    double gflops, gb_per_s; /* achieved; NaN: not recorded */
    double flops_per_byte;   /* arithmetic intensity, from these two */
} bottleneck_op;

#define BOTTLENECK_FINDINGS 8
#define BOTTLENECK_OPS 10

typedef struct bottleneck {
    const recorded_run *run;
    int has_times;  /* otherwise the following is unknown */
    int is_of_perf; /* the parts are from performance records, otherwise from step records */
    int64_t steps;  /* steps with known parts */
    double seconds[BOTTLENECK_PARTS];
    double step_seconds, all_seconds;       /* sums of the first six parts, and of all */
    double of_steps[BOTTLENECK_STEP_PARTS]; /* percent of step_seconds */
    double of_all[BOTTLENECK_PARTS];        /* percent of all_seconds */
    /* Rates; NaN: unknown. */
    double items_per_s, median_items_per_s; /* mean over all steps, and median step */
    double tflops, mfu, peak_tflops;        /* mfu in percent of the peak, which is measured or set */
    double rows_per_pass;                   /* rows of matrix products: tokens per pass, including padding */
    double flops_per_weight_byte;           /* arithmetic intensity of matrix products in a forward pass */
    double update_bytes, update_gb_per_s;   /* least bytes that an update reads and writes, and their rate */
    /* The limits, largest first: at least one. */
    bottleneck_finding findings[BOTTLENECK_FINDINGS];
    size_t finding_count;
    bottleneck_op ops[BOTTLENECK_OPS]; /* those that take the most time */
    size_t op_count;
    char roofline[600]; /* command that measures the machine's limits for this run */
} bottleneck;

/* Analyzes a run, which must stay open. Nothing needs to be released. */
void bottleneck_make(const recorded_run *r, bottleneck *b);

/* Writes lines of text that end with the limit, other findings and the roofline command; and one JSON object. */
void bottleneck_print(const bottleneck *b, text_buffer *t);
void bottleneck_print_json(const bottleneck *b, text_buffer *t);

EITP_END_DECLARATIONS

#endif
