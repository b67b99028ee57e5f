/* The outcomes of an evaluation: the predictions and targets of all samples, and the metrics computed from them. The
   size of the memory is known in advance. */
#ifndef EITP_OUTCOMES_H
#define EITP_OUTCOMES_H

#include "base/platform.h"
#include "task/mistakes.h"

/* Number of groups of samples. Standard errors leave out one group at a time. */
enum { EITP__GROUPS = 50 };

/* A number and its sample. */
typedef struct eitp__ranked {
    float value;
    int32_t sample;
} eitp__ranked;

/* Number of times that a label, or an entity type, is true, is predicted, and both. */
typedef struct eitp__label_counts {
    int64_t is_true, is_predicted, is_both;
} eitp__label_counts;

/* Labels that mark entities. */
typedef struct eitp__entity_labels {
    const char *const *names; /* of each label */
    int64_t count;
    int32_t *types;          /* entity type of each label, from 0; -1: outside */
    const char **type_names; /* type_count, with room for `count` */
    int64_t type_count;
} eitp__entity_labels;

typedef struct eitp__outcomes {
    eitp_problem problem;
    int64_t labels;
    int64_t count;   /* samples, or tokens, with a label */
    int is_finite;   /* all scores are finite */
    int group_count; /* set by eitp__outcomes_end */
    eitp__mistakes *mistakes;
    int32_t *is_true, *predicted; /* [count]: with a single label, the label */
    unsigned char *groups;        /* [count]: the group, below EITP__GROUPS */
    float *scores;                /* [count, labels]: log odds of each label, or the predicted numbers */
    float *targets;               /* [count, labels]: 0 or 1, or the numbers; NULL with a single label */
    eitp__ranked *order, *other;  /* [count]: scratch memory for sorting; `other` and the ranks are for numbers only */
    double *ranks, *other_ranks;  /* [count] */
    eitp__label_counts *by_label; /* [labels]: scratch memory */
    /* With EITP_PROBLEM_TOKENS, counts by group of samples are kept instead of each token. */
    int64_t samples;
    const eitp__entity_labels *entities; /* NULL: labels do not mark entities */
    eitp__label_counts *group_labels;    /* [EITP__GROUPS, labels] */
    eitp__label_counts *group_entities;  /* [EITP__GROUPS, labels]: by entity type */
    int64_t *confusion;                  /* [labels, labels], for up to EITP_MAX_CONFUSION_LABELS */
} eitp__outcomes;

/* Returns the bytes of memory needed by the outcomes of `samples` samples. */
EITP__PRIVATE size_t eitp__outcomes_bytes(eitp_problem problem, int64_t labels, uint64_t samples);

/* Creates empty outcomes in memory of that size. */
EITP__PRIVATE eitp__outcomes *eitp__outcomes_init(void *memory, eitp_problem problem, int64_t labels, uint64_t samples);

/* Adds a sample with a single label, and the classifier's scores of all labels. */
EITP__PRIVATE void eitp__outcomes_add_label(eitp__outcomes *outcomes, const float *scores, int32_t label);

/* Adds a sample with several labels, or with numbers. */
EITP__PRIVATE void eitp__outcomes_add_targets(eitp__outcomes *outcomes, const float *scores, const float *targets);

/* Finds the entity types of labels. The names must outlive them. Release them even after a failure. */
EITP__PRIVATE eitp_status eitp__entity_labels_init(eitp__entity_labels *labels, const eitp_host *host,
                                                   const char *const *names, int64_t count, eitp_error *error);
EITP__PRIVATE void eitp__entity_labels_release(eitp__entity_labels *labels, const eitp_host *host);

/* Adds the tokens of sample `index`: their scores, and labels[rows] with EITP__IGNORED_TARGET for tokens without a
   label. */
EITP__PRIVATE void eitp__outcomes_add_tokens(eitp__outcomes *outcomes, uint64_t index, const float *scores,
                                             const int32_t *labels, int64_t rows);

/* Divides the samples into groups. Call it once, after all samples were added. */
EITP__PRIVATE void eitp__outcomes_end(eitp__outcomes *outcomes);

/* True if value `value` of a metric leaves a sample out. Value 0 leaves out none; value 1 + g leaves out group g. */
EITP__PRIVATE int eitp__is_left_out(const eitp__outcomes *outcomes, int64_t sample, int value);

/* True if a sample is predicted to have a label. */
EITP__PRIVATE int eitp__is_predicted(const eitp__outcomes *outcomes, int64_t sample, int64_t label);

/* True if a sample has a label. */
EITP__PRIVATE int eitp__has_label(const eitp__outcomes *outcomes, int64_t sample, int64_t label);

/* Returns the index of the largest score. */
EITP__PRIVATE int64_t eitp__largest_score(const float *scores, int64_t labels);
EITP__PRIVATE int eitp__all_finite(const float *values, int64_t count);

/* Counts labels in by_label. Returns the number of samples, or tokens. */
EITP__PRIVATE int64_t eitp__count_labels(const eitp__outcomes *outcomes, int value);

/* Sums counts[EITP__GROUPS, count] over the groups, except the group that value `value` of a metric leaves out. */
EITP__PRIVATE void eitp__sum_groups(const eitp__label_counts *counts, int64_t count, int value,
                                    eitp__label_counts *sums);

/* Returns the type of an entity label, or NULL if it is outside. */
EITP__PRIVATE const char *eitp__entity_type(const char *label);

/* True if a word with `label` continues the entity of the word before it, whose label is `previous` (NULL at the
   start). */
EITP__PRIVATE int eitp__entity_continues(const char *previous, const char *label);

/* Sorts column `label` of scores or targets into `order`. */
EITP__PRIVATE void eitp__sort_column(const eitp__outcomes *outcomes, const float *values, int64_t label,
                                     eitp__ranked *order);

/* Computes a metric over all samples, and without each group: values[1 + EITP__GROUPS]. */
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

/* Stores the metrics of a problem in metrics[EITP_MAX_TASK_METRICS], including the entity metrics if labels mark
   entities. Returns their number. */
EITP__PRIVATE int eitp__metrics_of(eitp_problem problem, int has_entities, eitp_task_metric *metrics);

/* Computes the metrics with their standard errors. */
EITP__PRIVATE void eitp__compute_metrics(const eitp__outcomes *outcomes, eitp_metric *results);

#endif
