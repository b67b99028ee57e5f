/*
 * The outcomes of an evaluation: for each sample what a classifier predicted and what is true, and the metrics of them.
 * All of it lives in memory of a known size.
 */
#ifndef EITP_OUTCOMES_H
#define EITP_OUTCOMES_H

#include "base/platform.h"
#include "task/task.h"

/* Groups of samples that standard errors leave out one at a time. */
enum { EITP__GROUPS = 50 };

/* A number, and the sample that it belongs to. */
typedef struct eitp__ranked {
    float value;
    int32_t sample;
} eitp__ranked;

/* How often a label is true, predicted, and both. */
typedef struct eitp__label_counts {
    int64_t is_true, is_predicted, is_both;
} eitp__label_counts;

typedef struct eitp__outcomes {
    eitp_problem problem;
    int64_t labels;
    int64_t count;                /* samples that have labels */
    int is_finite;                /* all scores are */
    int32_t *is_true, *predicted; /* [count]: the label, with a single label */
    unsigned char *groups;        /* [count]: of EITP__GROUPS */
    float *scores;  /* [count, labels]: the logarithm of the odds of each label, or the predicted numbers */
    float *targets; /* [count, labels]: 0 or 1, or the numbers; NULL with a single label */
    eitp__ranked *order, *other;  /* [count]: scratch memory to sort in; the second, and ranks, for numbers only */
    double *ranks, *other_ranks;  /* [count] */
    eitp__label_counts *by_label; /* [labels]: scratch memory */
} eitp__outcomes;

/* Bytes of memory for the outcomes of `samples` samples. */
EITP__PRIVATE size_t eitp__outcomes_bytes(eitp_problem problem, int64_t labels, uint64_t samples);

/* Lays out outcomes in such memory. They are empty. */
EITP__PRIVATE eitp__outcomes *eitp__outcomes_begin(void *memory, eitp_problem problem, int64_t labels,
                                                   uint64_t samples);

/* Adds a sample with a single label, and the classifier's scores of all labels. */
EITP__PRIVATE void eitp__outcomes_add_label(eitp__outcomes *outcomes, const float *scores, int32_t label);

/* Adds a sample with several labels, or with numbers. */
EITP__PRIVATE void eitp__outcomes_add_targets(eitp__outcomes *outcomes, const float *scores, const float *targets);

/* Called once, when all samples were added: divides them into groups. */
EITP__PRIVATE void eitp__outcomes_end(eitp__outcomes *outcomes);

/* The group of a sample that a metric leaves out; of value 0 of a metric none, of value 1 + g group g. */
EITP__PRIVATE int eitp__is_left_out(const eitp__outcomes *outcomes, int64_t sample, int value);

/* True if a sample is predicted to have a label. */
EITP__PRIVATE int eitp__is_predicted(const eitp__outcomes *outcomes, int64_t sample, int64_t label);

/* True if it has the label. */
EITP__PRIVATE int eitp__has_label(const eitp__outcomes *outcomes, int64_t sample, int64_t label);

/* Counts labels in by_label; returns the number of samples. */
EITP__PRIVATE int64_t eitp__count_labels(const eitp__outcomes *outcomes, int value);

/* Sorts column `label` of scores or targets into `order`. */
EITP__PRIVATE void eitp__sort_column(const eitp__outcomes *outcomes, const float *values, int64_t label,
                                     eitp__ranked *order);

/* Computes a metric of all samples, and without each group: values[1 + EITP__GROUPS]. */
typedef void (*eitp__metric_values)(const eitp__outcomes *outcomes, double *values);

EITP__PRIVATE void eitp__accuracy(const eitp__outcomes *outcomes, double *values);
EITP__PRIVATE void eitp__macro_f1(const eitp__outcomes *outcomes, double *values);
EITP__PRIVATE void eitp__micro_f1(const eitp__outcomes *outcomes, double *values);
EITP__PRIVATE void eitp__macro_precision(const eitp__outcomes *outcomes, double *values);
EITP__PRIVATE void eitp__macro_recall(const eitp__outcomes *outcomes, double *values);
EITP__PRIVATE void eitp__matthews_correlation(const eitp__outcomes *outcomes, double *values);
EITP__PRIVATE void eitp__calibration_error(const eitp__outcomes *outcomes, double *values);
EITP__PRIVATE void eitp__area_under_roc(const eitp__outcomes *outcomes, double *values);
EITP__PRIVATE void eitp__mean_squared_error(const eitp__outcomes *outcomes, double *values);
EITP__PRIVATE void eitp__mean_absolute_error(const eitp__outcomes *outcomes, double *values);
EITP__PRIVATE void eitp__pearson_correlation(const eitp__outcomes *outcomes, double *values);
EITP__PRIVATE void eitp__spearman_correlation(const eitp__outcomes *outcomes, double *values);

/* Stores the metrics of a problem in metrics[EITP_MAX_TASK_METRICS]; returns their number. */
EITP__PRIVATE int eitp__metrics_of(eitp_problem problem, eitp_task_metric *metrics);

/* Computes them, with standard errors. */
EITP__PRIVATE void eitp__judge_outcomes(const eitp__outcomes *outcomes, eitp_metric *results);

#endif
