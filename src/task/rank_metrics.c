/* Metrics of scores: their ranking of samples, and the agreement of predicted and true numbers. */
#include "task/outcomes.h"

/* ---- Rankings ---- */

/*
 * Returns the area under the ROC curve of one label: the probability that a sample with the label scores higher than
 * one without it, where ties count half (Mann and Whitney, "On a test of whether one of two random variables is
 * stochastically larger than the other", 1947). NaN if all samples or none have the label. `order` is sorted.
 */
static double eitp__label_area(const eitp__outcomes *outcomes, int64_t label, int value) {
    const eitp__ranked *order = outcomes->order;
    double wins = 0, positives = 0, negatives = 0;
    for (int64_t begin = 0, end = 0; begin < outcomes->count; begin = end) {
        double tied_positives = 0, tied_negatives = 0;
        for (; end < outcomes->count && !(order[end].value > order[begin].value); end++) {
            if (eitp__is_left_out(outcomes, order[end].sample, value))
                continue;
            if (eitp__has_label(outcomes, order[end].sample, label))
                tied_positives++;
            else
                tied_negatives++;
        }
        wins += tied_positives * (negatives + 0.5 * tied_negatives);
        positives += tied_positives;
        negatives += tied_negatives;
    }
    return positives > 0 && negatives > 0 ? wins / (positives * negatives) : (double)NAN;
}

/* Computes a value of one label whose scores are sorted. NaN if it is undefined. */
typedef double (*eitp__label_value)(const eitp__outcomes *outcomes, int64_t label, int value);

/* Stores the mean over the labels for which a value is defined. */
static void eitp__mean_of_ranked_labels(const eitp__outcomes *outcomes, eitp__label_value compute, double *values) {
    double labels[1 + EITP__GROUPS];
    memset(labels, 0, sizeof labels);
    memset(values, 0, sizeof labels);
    for (int64_t k = 0; k < outcomes->labels; k++) {
        eitp__sort_column(outcomes, outcomes->scores, k, outcomes->order);
        for (int value = 0; value <= EITP__GROUPS; value++) {
            const double own = compute(outcomes, k, value);
            labels[value] += !isnan(own);
            values[value] += isnan(own) ? 0 : own;
        }
    }
    for (int value = 0; value <= EITP__GROUPS; value++)
        values[value] = labels[value] > 0 ? values[value] / labels[value] : (double)NAN;
}

EITP__PRIVATE void eitp__area_under_roc(const eitp__outcomes *outcomes, double *values) {
    eitp__mean_of_ranked_labels(outcomes, eitp__label_area, values);
}

/* Returns the average precision of one label: the sum over its distinct scores, from the highest on, of the recall that
   each adds times the precision of all samples that score at least as high. NaN as for the area. `order` is sorted. */
static double eitp__label_precision(const eitp__outcomes *outcomes, int64_t label, int value) {
    const eitp__ranked *order = outcomes->order;
    double sum = 0, positives = 0, samples = 0;
    for (int64_t end = outcomes->count, begin = end; end > 0; end = begin) {
        double tied_positives = 0;
        for (; begin > 0 && !(order[begin - 1].value < order[end - 1].value); begin--) {
            const int64_t sample = order[begin - 1].sample;
            if (eitp__is_left_out(outcomes, sample, value))
                continue;
            tied_positives += eitp__has_label(outcomes, sample, label);
            samples++;
        }
        positives += tied_positives;
        sum += samples > 0 ? tied_positives * positives / samples : 0;
    }
    return positives > 0 && positives < samples ? sum / positives : (double)NAN;
}

EITP__PRIVATE void eitp__average_precision(const eitp__outcomes *outcomes, double *values) {
    eitp__mean_of_ranked_labels(outcomes, eitp__label_precision, values);
}

/* ---- Numbers ---- */

/* Stores the mean over samples and numbers of |difference| ** power, for power 1 or 2. */
static void eitp__mean_error(const eitp__outcomes *outcomes, int power, double *values) {
    for (int value = 0; value <= EITP__GROUPS; value++) {
        double sum = 0, numbers = 0;
        for (int64_t i = 0; i < outcomes->count * outcomes->labels; i++) {
            const double difference = fabs((double)outcomes->scores[i] - (double)outcomes->targets[i]);
            if (eitp__is_left_out(outcomes, i / outcomes->labels, value))
                continue;
            sum += power == 2 ? difference * difference : difference;
            numbers++;
        }
        values[value] = numbers > 0 ? sum / numbers : (double)NAN;
    }
}

EITP__PRIVATE void eitp__mean_squared_error(const eitp__outcomes *outcomes, double *values) {
    eitp__mean_error(outcomes, 2, values);
}

EITP__PRIVATE void eitp__mean_absolute_error(const eitp__outcomes *outcomes, double *values) {
    eitp__mean_error(outcomes, 1, values);
}

/* Returns 1 - the squared errors of column `label` over its squared deviations from its mean; NaN if the targets are
   constant. */
static double eitp__column_determination(const eitp__outcomes *outcomes, int64_t label, int value) {
    double mean = 0, errors = 0, deviations = 0, samples = 0;
    for (int64_t i = 0; i < outcomes->count; i++) {
        if (eitp__is_left_out(outcomes, i, value))
            continue;
        mean += (double)outcomes->targets[i * outcomes->labels + label];
        samples++;
    }
    for (int64_t i = 0; i < outcomes->count; i++) {
        const double target = (double)outcomes->targets[i * outcomes->labels + label],
                     deviation = target - mean / samples;
        const double miss = target - (double)outcomes->scores[i * outcomes->labels + label];
        if (eitp__is_left_out(outcomes, i, value))
            continue;
        errors += miss * miss;
        deviations += deviation * deviation;
    }
    return deviations > 0 ? 1 - errors / deviations : (double)NAN;
}

EITP__PRIVATE void eitp__determination(const eitp__outcomes *outcomes, double *values) {
    for (int value = 0; value <= EITP__GROUPS; value++) {
        values[value] = 0;
        for (int64_t k = 0; k < outcomes->labels; k++)
            values[value] += eitp__column_determination(outcomes, k, value) / (double)outcomes->labels;
    }
}

/* Returns the correlation of two lists of numbers over the samples that are not left out; NaN if one of them is
   constant. */
static double eitp__correlation(const eitp__outcomes *outcomes, const double *x, const double *y, int value) {
    double mean_x = 0, mean_y = 0, xx = 0, yy = 0, xy = 0, samples = 0;
    for (int64_t i = 0; i < outcomes->count; i++) {
        if (eitp__is_left_out(outcomes, i, value))
            continue;
        mean_x += x[i];
        mean_y += y[i];
        samples++;
    }
    for (int64_t i = 0; i < outcomes->count; i++) {
        const double dx = x[i] - mean_x / samples, dy = y[i] - mean_y / samples;
        if (eitp__is_left_out(outcomes, i, value))
            continue;
        xx += dx * dx;
        yy += dy * dy;
        xy += dx * dy;
    }
    return xx > 0 && yy > 0 ? xy / (sqrt(xx) * sqrt(yy)) : (double)NAN;
}

/* Stores the rank of each sample that is not left out. Equal numbers share their mean rank. */
static void eitp__rank(const eitp__outcomes *outcomes, const eitp__ranked *order, int value, double *ranks) {
    double below = 0;
    for (int64_t begin = 0, end = 0; begin < outcomes->count; begin = end) {
        double tied = 0;
        for (; end < outcomes->count && !(order[end].value > order[begin].value); end++)
            tied += !eitp__is_left_out(outcomes, order[end].sample, value);
        for (int64_t i = begin; i < end; i++)
            ranks[order[i].sample] = below + 0.5 * (tied + 1);
        below += tied;
    }
}

/* Adds the correlation of column `label` of scores and targets, or of their ranks. */
static void eitp__add_correlations(const eitp__outcomes *outcomes, int64_t label, int by_rank, double *values) {
    for (int64_t i = 0; i < outcomes->count; i++) {
        outcomes->ranks[i] = (double)outcomes->scores[i * outcomes->labels + label];
        outcomes->other_ranks[i] = (double)outcomes->targets[i * outcomes->labels + label];
    }
    if (by_rank) {
        eitp__sort_column(outcomes, outcomes->scores, label, outcomes->order);
        eitp__sort_column(outcomes, outcomes->targets, label, outcomes->other);
    }
    for (int value = 0; value <= EITP__GROUPS; value++) {
        if (by_rank) {
            eitp__rank(outcomes, outcomes->order, value, outcomes->ranks);
            eitp__rank(outcomes, outcomes->other, value, outcomes->other_ranks);
        }
        values[value] +=
            eitp__correlation(outcomes, outcomes->ranks, outcomes->other_ranks, value) / (double)outcomes->labels;
    }
}

static void eitp__correlations(const eitp__outcomes *outcomes, int by_rank, double *values) {
    memset(values, 0, (1 + EITP__GROUPS) * sizeof *values);
    for (int64_t k = 0; k < outcomes->labels; k++)
        eitp__add_correlations(outcomes, k, by_rank, values);
}

EITP__PRIVATE void eitp__pearson_correlation(const eitp__outcomes *outcomes, double *values) {
    eitp__correlations(outcomes, 0, values);
}

EITP__PRIVATE void eitp__spearman_correlation(const eitp__outcomes *outcomes, double *values) {
    eitp__correlations(outcomes, 1, values);
}
