/* What limits the speed of a run: shares of its time, rates, and what to change. */
#ifndef COMMAND_REPORT_BOTTLENECK_H
#define COMMAND_REPORT_BOTTLENECK_H

#include "records/recorded_run.h"

EITP_BEGIN_DECLARATIONS

/* Parts of the time of training. The first six are the steps. */
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

/* "data", "forward", ..., "evaluation", "checkpoints". */
const char *bottleneck_part_name(bottleneck_part part);

/* Something that limits the run, or that is worth a try. */
typedef struct bottleneck_finding {
    char limit[16];   /* a part's name, "small passes" or "compute"; "unknown" */
    double percent;   /* the share that says so; of "small passes" the MFU; NaN: none */
    double threshold; /* above it (of "small passes": below it) it is a finding; NaN: none */
    int is_of_steps;  /* the share is of the steps' time, otherwise of all training */
    char advice[400]; /* with the figures and options */
} bottleneck_finding;

/* An op of the steps that were profiled (--profile-every). */
typedef struct bottleneck_op {
    char name[64];           /* phase and op: "backward/matmul" */
    double seconds, percent; /* of all profiled steps */
    double gflops, gb_per_s; /* reached; NaN: not recorded */
    double flops_per_byte;   /* of these: arithmetic intensity */
} bottleneck_op;

#define BOTTLENECK_FINDINGS 8
#define BOTTLENECK_OPS 10

typedef struct bottleneck {
    const recorded_run *run;
    int has_times;  /* otherwise nothing of the following is known */
    int is_of_perf; /* the parts are of records of performance, otherwise of the steps' own */
    int64_t steps;  /* whose parts are known */
    double seconds[BOTTLENECK_PARTS];
    double step_seconds, all_seconds;       /* sums of the first six, and of all */
    double of_steps[BOTTLENECK_STEP_PARTS]; /* percent of step_seconds */
    double of_all[BOTTLENECK_PARTS];        /* percent of all_seconds */
    /* Rates; NaN: unknown. */
    double items_per_s, median_items_per_s; /* of all steps, and of the middle one */
    double tflops, mfu, peak_tflops;        /* mfu in percent of the peak, which was measured or given */
    double rows_per_pass;                   /* rows of matrix products: tokens, with padding, of a pass */
    double flops_per_weight_byte;           /* in a forward pass: arithmetic intensity of products of weights */
    double update_bytes, update_gb_per_s;   /* that an update reads and writes at least, and how fast */
    /* What limits, most first: at least one. */
    bottleneck_finding findings[BOTTLENECK_FINDINGS];
    size_t finding_count;
    bottleneck_op ops[BOTTLENECK_OPS]; /* those that take most */
    size_t op_count;
    char roofline[600]; /* the command that measures the limits of the machine for this run */
} bottleneck;

/* Looks at a run, which must stay open. Nothing needs to be released. */
void bottleneck_make(const recorded_run *r, bottleneck *b);

/* Lines of text, the last of which are the limit, other findings and how to get the roofline; and one JSON object. */
void bottleneck_print(const bottleneck *b, text_buffer *t);
void bottleneck_print_json(const bottleneck *b, text_buffer *t);

EITP_END_DECLARATIONS

#endif
