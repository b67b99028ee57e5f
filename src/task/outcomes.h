/*
 * The outcomes of an evaluation: for each sample what a classifier predicted and what is true, and the metrics of them.
 * All of it lives in memory of a known size.
 */
#ifndef EITP_OUTCOMES_H
#define EITP_OUTCOMES_H

#include "base/platform.h"
#include "task/mistakes.h"

/* Groups of samples that standard errors leave out one at a time. */
enum { EITP__GROUPS = 50 };

/* A number, and the sample that it belongs to. */
typedef struct eitp__ranked {
    float value;
    int32_t sample;
} eitp__ranked;

/* How often a label, or a type of entities, is true, predicted, and both. */
typedef struct eitp__label_counts {
    int64_t is_true, is_predicted, is_both;
} eitp__label_counts;

/* Labels that mark entities. */
typedef struct eitp__entity_labels {
    const char *const *names; /* of each label */
    int64_t count;
    int32_t *types;          /* of each label, from 0; -1: outside */
    const char **type_names; /* type_count, with room for `count` */
    int64_t type_count;
} eitp__entity_labels;

typedef struct eitp__outcomes {
    eitp_problem problem;
    int64_t labels;
    int64_t count;   /* samples that have labels, or tokens */
    int is_finite;   /* all scores are */
    int group_count; /* set by eitp__outcomes_end */
    eitp__mistakes *mistakes;
    int32_t *is_true, *predicted; /* [count]: the label, with a single label */
    unsigned char *groups;        /* [count]: of EITP__GROUPS */
    float *scores;  /* [count, labels]: the logarithm of the odds of each label, or the predicted numbers */
    float *targets; /* [count, labels]: 0 or 1, or the numbers; NULL with a single label */
    eitp__ranked *order, *other;  /* [count]: scratch memory to sort in; the second, and ranks, for numbers only */
    double *ranks, *other_ranks;  /* [count] */
    eitp__label_counts *by_label; /* [labels]: scratch memory */
    /* With EITP_PROBLEM_TOKENS counts are kept instead of each token, by the group of its sample. */
    int64_t samples;
    const eitp__entity_labels *entities; /* NULL: labels do not mark entities */
    eitp__label_counts *group_labels;    /* [EITP__GROUPS, labels] */
    eitp__label_counts *group_entities;  /* [EITP__GROUPS, labels]: of each type */
    int64_t *confusion;                  /* [labels, labels], for up to EITP_MAX_CONFUSION_LABELS */
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

/* Finds the types of labels, whose names must outlive them. Release them even after a failure. */
EITP__PRIVATE eitp_status eitp__entity_labels_init(eitp__entity_labels *labels, const eitp_host *host,
                                                   const char *const *names, int64_t count, eitp_error *error);
EITP__PRIVATE void eitp__entity_labels_release(eitp__entity_labels *labels, const eitp_host *host);

/* Adds the tokens of sample `index`: labels[rows], EITP__IGNORED_TARGET for those without one, and their scores. */
EITP__PRIVATE void eitp__outcomes_add_tokens(eitp__outcomes *outcomes, uint64_t index, const float *scores,
                                             const int32_t *labels, int64_t rows);

/* Called once, when all samples were added: divides them into groups. */
EITP__PRIVATE void eitp__outcomes_end(eitp__outcomes *outcomes);

/* The group of a sample that a metric leaves out; of value 0 of a metric none, of value 1 + g group g. */
EITP__PRIVATE int eitp__is_left_out(const eitp__outcomes *outcomes, int64_t sample, int value);

/* True if a sample is predicted to have a label. */
EITP__PRIVATE int eitp__is_predicted(const eitp__outcomes *outcomes, int64_t sample, int64_t label);

/* True if it has the label. */
EITP__PRIVATE int eitp__has_label(const eitp__outcomes *outcomes, int64_t sample, int64_t label);

/* The largest of `labels` scores, and whether all are finite. */
EITP__PRIVATE int64_t eitp__largest_score(const float *scores, int64_t labels);
EITP__PRIVATE int eitp__all_finite(const float *values, int64_t count);

/* Counts labels in by_label; returns the number of samples, or tokens. */
EITP__PRIVATE int64_t eitp__count_labels(const eitp__outcomes *outcomes, int value);

/* Adds up counts[EITP__GROUPS, count] without the group that a value of a metric leaves out. */
EITP__PRIVATE void eitp__sum_groups(const eitp__label_counts *counts, int64_t count, int value,
                                    eitp__label_counts *sums);

/* The type of an entity label; NULL if it is outside. */
EITP__PRIVATE const char *eitp__entity_type(const char *label);

/* True if a word with `label` goes on with the entity of the word before it, whose label is NULL at the beginning. */
EITP__PRIVATE int eitp__entity_goes_on(const char *previous, const char *label);

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
EITP__PRIVATE void eitp__weighted_f1(const eitp__outcomes *outcomes, double *values);
EITP__PRIVATE void eitp__hamming_loss(const eitp__outcomes *outcomes, double *values);
EITP__PRIVATE void eitp__matthews_correlation(const eitp__outcomes *outcomes, double *values);
EITP__PRIVATE void eitp__calibration_error(const eitp__outcomes *outcomes, double *values);
EITP__PRIVATE void eitp__area_under_roc(const eitp__outcomes *outcomes, double *values);
EITP__PRIVATE void eitp__average_precision(const eitp__outcomes *outcomes, double *values);
EITP__PRIVATE void eitp__mean_squared_error(const eitp__outcomes *outcomes, double *values);
EITP__PRIVATE void eitp__mean_absolute_error(const eitp__outcomes *outcomes, double *values);
EITP__PRIVATE void eitp__determination(const eitp__outcomes *outcomes, double *values);
EITP__PRIVATE void eitp__pearson_correlation(const eitp__outcomes *outcomes, double *values);
EITP__PRIVATE void eitp__spearman_correlation(const eitp__outcomes *outcomes, double *values);
EITP__PRIVATE void eitp__entity_precision(const eitp__outcomes *outcomes, double *values);
EITP__PRIVATE void eitp__entity_recall(const eitp__outcomes *outcomes, double *values);
EITP__PRIVATE void eitp__entity_f1(const eitp__outcomes *outcomes, double *values);

/* Stores the metrics of a problem, with those of entities if labels mark them, in metrics[EITP_MAX_TASK_METRICS];
   returns their number. */
EITP__PRIVATE int eitp__metrics_of(eitp_problem problem, int has_entities, eitp_task_metric *metrics);

/* Computes them, with standard errors. */
EITP__PRIVATE void eitp__judge_outcomes(const eitp__outcomes *outcomes, eitp_metric *results);

#endif
