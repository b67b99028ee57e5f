/* Compares two or more runs: differences of their settings and results. The first is the baseline. */
#ifndef COMMAND_REPORT_COMPARISON_H
#define COMMAND_REPORT_COMPARISON_H

#include "report/setting_differences.h"
#include "report/totals.h"

EITP_BEGIN_DECLARATIONS

/* The amount at which runs are compared. */
typedef enum comparison_axis { COMPARISON_ITEMS, COMPARISON_SECONDS, COMPARISON_AXES } comparison_axis;

/* The loss that is compared: of evaluations, or the mean of training over the last tenth of the common range, or up to
   0.4 of it if a tenth has fewer than 16 points. */
typedef enum comparison_loss { COMPARISON_VALIDATION, COMPARISON_TRAINING, COMPARISON_LOSSES } comparison_loss;

typedef enum comparison_verdict {
    COMPARISON_UNKNOWN, /* without a common range, an error, or validation data that can be compared */
    COMPARISON_EQUAL,   /* no significant difference: below two standard errors */
    COMPARISON_BETTER,  /* lower loss than the baseline */
    COMPARISON_WORSE
} comparison_verdict;

typedef struct comparison_difference {
    int is_known;           /* both have a loss there; otherwise all are NaN */
    int is_interpolated;    /* linearly, between two evaluations of one of them */
    double from, to;        /* items or seconds; equal, or a range whose mean is compared */
    double baseline, value; /* the losses */
    double difference;      /* value - baseline: below 0 is better */
    double error;           /* its standard error, for independent samples. NaN: unknown */
    double z;               /* difference / error; NaN: unknown */
    comparison_verdict verdict;
} comparison_difference;

typedef struct comparison_run {
    const recorded_run *run;
    char *label; /* its name, or its directory if another run has the same name */
    const char *unit;
    run_totals totals;
    double items, seconds;            /* trained, in total; NaN: unknown */
    double rate, rate_low, rate_high; /* items/s per step: median and quartiles; NaN: unknown */
    double peak_bytes;                /* memory; NaN: unknown */
} comparison_run;

/* Comparability of validation losses. */
typedef enum comparison_validation {
    COMPARISON_VALIDATION_UNKNOWN,  /* not recorded in run.json of one of them */
    COMPARISON_VALIDATION_SAME,     /* the same samples, by settings and counts: the errors of both losses are
                                       correlated, and the error of their difference is an upper bound */
    COMPARISON_VALIDATION_OTHER,    /* other samples, perhaps */
    COMPARISON_VALIDATION_DIFFERENT /* another task, tokenizer or amount of data: no verdict */
} comparison_validation;

/* A run compared with the baseline. */
typedef struct comparison_pair {
    comparison_validation validation;
    int is_same_unit; /* otherwise no comparison at equal items */
    comparison_difference differences[COMPARISON_LOSSES][COMPARISON_AXES];
    double speed, memory; /* ratios of the median rates and of the peaks; NaN: unknown */
    /* The lowest validation loss that both have reached, and the time and items it took; NaN: none. */
    double loss, baseline_seconds, seconds, baseline_items, items;
    text_buffer notes; /* limits of the comparison: lines, each with a line feed */
} comparison_pair;

typedef struct comparison {
    size_t count;
    comparison_run *runs;
    comparison_pair *pairs; /* count - 1: pairs[i] is runs[i + 1] against runs[0] */
    setting_differences settings;
} comparison;

/* Compares `count` runs, at least 1, which must stay open. Release it in any case. */
void comparison_make(const recorded_run *runs, size_t count, comparison *c);
void comparison_release(comparison *c);

/* Adds a difference as a sentence without a full stop: "B is better by 0.031 +- 0.008". */
void comparison_add_verdict(const comparison *c, size_t pair, const comparison_difference *d, text_buffer *t);

/* Writes lines of text; and one JSON object. */
void comparison_print(const comparison *c, text_buffer *t);
void comparison_print_json(const comparison *c, text_buffer *t);

EITP_END_DECLARATIONS

#endif
