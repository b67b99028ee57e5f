/* Computes the metrics of each problem, and their standard errors, from the outcomes of an evaluation. */
#include "task/outcomes.h"

/* A metric of a problem, and the function that computes it. */
typedef struct eitp__metric_row {
    eitp_problem problem;
    eitp_task_metric metric;
    eitp__metric_values values;
    int is_of_entities;
} eitp__metric_row;

static const eitp__metric_row eitp__metric_rows[] = {
    {EITP_PROBLEM_SINGLE_LABEL, {"accuracy", EITP_HIGHER_IS_BETTER}, eitp__accuracy, 0},
    {EITP_PROBLEM_SINGLE_LABEL, {"macro_f1", EITP_HIGHER_IS_BETTER}, eitp__macro_f1, 0},
    {EITP_PROBLEM_SINGLE_LABEL, {"micro_f1", EITP_HIGHER_IS_BETTER}, eitp__micro_f1, 0},
    {EITP_PROBLEM_SINGLE_LABEL, {"weighted_f1", EITP_HIGHER_IS_BETTER}, eitp__weighted_f1, 0},
    {EITP_PROBLEM_SINGLE_LABEL, {"macro_precision", EITP_HIGHER_IS_BETTER}, eitp__macro_precision, 0},
    {EITP_PROBLEM_SINGLE_LABEL, {"macro_recall", EITP_HIGHER_IS_BETTER}, eitp__macro_recall, 0},
    {EITP_PROBLEM_SINGLE_LABEL, {"mcc", EITP_HIGHER_IS_BETTER}, eitp__matthews_correlation, 0},
    {EITP_PROBLEM_SINGLE_LABEL, {"auroc", EITP_HIGHER_IS_BETTER}, eitp__area_under_roc, 0},
    {EITP_PROBLEM_SINGLE_LABEL, {"average_precision", EITP_HIGHER_IS_BETTER}, eitp__average_precision, 0},
    {EITP_PROBLEM_SINGLE_LABEL, {"calibration_error", EITP_LOWER_IS_BETTER}, eitp__calibration_error, 0},
    {EITP_PROBLEM_MULTI_LABEL, {"subset_accuracy", EITP_HIGHER_IS_BETTER}, eitp__accuracy, 0},
    {EITP_PROBLEM_MULTI_LABEL, {"macro_f1", EITP_HIGHER_IS_BETTER}, eitp__macro_f1, 0},
    {EITP_PROBLEM_MULTI_LABEL, {"micro_f1", EITP_HIGHER_IS_BETTER}, eitp__micro_f1, 0},
    {EITP_PROBLEM_MULTI_LABEL, {"weighted_f1", EITP_HIGHER_IS_BETTER}, eitp__weighted_f1, 0},
    {EITP_PROBLEM_MULTI_LABEL, {"macro_precision", EITP_HIGHER_IS_BETTER}, eitp__macro_precision, 0},
    {EITP_PROBLEM_MULTI_LABEL, {"macro_recall", EITP_HIGHER_IS_BETTER}, eitp__macro_recall, 0},
    {EITP_PROBLEM_MULTI_LABEL, {"hamming_loss", EITP_LOWER_IS_BETTER}, eitp__hamming_loss, 0},
    {EITP_PROBLEM_MULTI_LABEL, {"auroc", EITP_HIGHER_IS_BETTER}, eitp__area_under_roc, 0},
    {EITP_PROBLEM_MULTI_LABEL, {"average_precision", EITP_HIGHER_IS_BETTER}, eitp__average_precision, 0},
    {EITP_PROBLEM_REGRESSION, {"mse", EITP_LOWER_IS_BETTER}, eitp__mean_squared_error, 0},
    {EITP_PROBLEM_REGRESSION, {"mae", EITP_LOWER_IS_BETTER}, eitp__mean_absolute_error, 0},
    {EITP_PROBLEM_REGRESSION, {"r2", EITP_HIGHER_IS_BETTER}, eitp__determination, 0},
    {EITP_PROBLEM_REGRESSION, {"pearson", EITP_HIGHER_IS_BETTER}, eitp__pearson_correlation, 0},
    {EITP_PROBLEM_REGRESSION, {"spearman", EITP_HIGHER_IS_BETTER}, eitp__spearman_correlation, 0},
    /* With one label per word, accuracy equals micro F1, which is computed from counts. */
    {EITP_PROBLEM_TOKENS, {"accuracy", EITP_HIGHER_IS_BETTER}, eitp__micro_f1, 0},
    {EITP_PROBLEM_TOKENS, {"macro_f1", EITP_HIGHER_IS_BETTER}, eitp__macro_f1, 0},
    {EITP_PROBLEM_TOKENS, {"weighted_f1", EITP_HIGHER_IS_BETTER}, eitp__weighted_f1, 0},
    {EITP_PROBLEM_TOKENS, {"entity_f1", EITP_HIGHER_IS_BETTER}, eitp__entity_f1, 1},
    {EITP_PROBLEM_TOKENS, {"entity_precision", EITP_HIGHER_IS_BETTER}, eitp__entity_precision, 1},
    {EITP_PROBLEM_TOKENS, {"entity_recall", EITP_HIGHER_IS_BETTER}, eitp__entity_recall, 1},
};

static int eitp__is_metric_of(const eitp__metric_row *row, eitp_problem problem, int has_entities) {
    return row->problem == problem && (has_entities || !row->is_of_entities);
}

EITP__PRIVATE int eitp__metrics_of(eitp_problem problem, int has_entities, eitp_task_metric *metrics) {
    int count = 0;
    for (size_t i = 0; i < EITP__COUNT(eitp__metric_rows); i++) {
        if (eitp__is_metric_of(&eitp__metric_rows[i], problem, has_entities))
            metrics[count++] = eitp__metric_rows[i].metric;
    }
    return count;
}

/* Returns the standard error of a proportion. */
static double eitp__proportion_error(double p, int64_t samples) {
    return samples ? sqrt(p * (1 - p) / (double)samples) : 0;
}

/* Returns the jackknife's standard error from the values without each group. NaN if one of them is undefined. */
static double eitp__jackknife_error(const double *values, int groups) {
    double mean = 0, squares = 0;
    for (int g = 0; g < groups; g++)
        mean += values[g] / groups;
    for (int g = 0; g < groups; g++)
        squares += (values[g] - mean) * (values[g] - mean);
    return groups > 1 ? sqrt(squares * (groups - 1) / groups) : 0;
}

static void eitp__judge_metric(const eitp__outcomes *outcomes, eitp__metric_values compute, eitp_metric *result) {
    double values[1 + EITP__GROUPS];
    result->items = outcomes->count;
    result->mean = result->error = (double)NAN;
    if (!outcomes->is_finite || !outcomes->count)
        return;
    compute(outcomes, values);
    result->mean = values[0];
    result->error = compute == eitp__accuracy ? eitp__proportion_error(values[0], outcomes->count)
                                              : eitp__jackknife_error(values + 1, outcomes->group_count);
}

EITP__PRIVATE void eitp__compute_metrics(const eitp__outcomes *outcomes, eitp_metric *results) {
    for (size_t i = 0; i < EITP__COUNT(eitp__metric_rows); i++) {
        if (eitp__is_metric_of(&eitp__metric_rows[i], outcomes->problem, outcomes->entities != NULL))
            eitp__judge_metric(outcomes, eitp__metric_rows[i].values, results++);
    }
}
