/* Metrics of predicted labels, computed from the counts of true, predicted and correct ones. */
#include "task/outcomes.h"

/* Returns the quotient; 0 / 0 is 0. */
static double eitp__ratio(double numerator, double denominator) {
    return denominator > 0 ? numerator / denominator : 0;
}

EITP__PRIVATE void eitp__accuracy(const eitp__outcomes *outcomes, double *values) {
    for (int value = 0; value <= EITP__GROUPS; value++) {
        int64_t right = 0, samples = 0;
        for (int64_t i = 0; i < outcomes->count; i++) {
            int is_right = 1;
            if (eitp__is_left_out(outcomes, i, value))
                continue;
            for (int64_t k = outcomes->is_true ? outcomes->labels : 0; k < outcomes->labels && is_right; k++)
                is_right = eitp__has_label(outcomes, i, k) == eitp__is_predicted(outcomes, i, k);
            samples++;
            right += outcomes->is_true ? outcomes->is_true[i] == outcomes->predicted[i] : is_right;
        }
        values[value] = eitp__ratio((double)right, (double)samples);
    }
}

/* Stores the mean over labels of is_both / (a * is_true + b * is_predicted). With a single label, labels that neither
   occur nor are predicted are left out, as in scikit-learn. */
static void eitp__mean_over_labels(const eitp__outcomes *outcomes, double a, double b, double *values) {
    for (int value = 0; value <= EITP__GROUPS; value++) {
        double sum = 0, labels = 0;
        eitp__count_labels(outcomes, value);
        for (int64_t k = 0; k < outcomes->labels; k++) {
            const eitp__label_counts *counts = &outcomes->by_label[k];
            sum += eitp__ratio((double)counts->is_both, a * (double)counts->is_true + b * (double)counts->is_predicted);
            labels += outcomes->problem == EITP_PROBLEM_MULTI_LABEL || counts->is_true || counts->is_predicted;
        }
        values[value] = eitp__ratio(sum, labels);
    }
}

EITP__PRIVATE void eitp__macro_f1(const eitp__outcomes *outcomes, double *values) {
    eitp__mean_over_labels(outcomes, 0.5, 0.5, values);
}

EITP__PRIVATE void eitp__macro_precision(const eitp__outcomes *outcomes, double *values) {
    eitp__mean_over_labels(outcomes, 0, 1, values);
}

EITP__PRIVATE void eitp__macro_recall(const eitp__outcomes *outcomes, double *values) {
    eitp__mean_over_labels(outcomes, 1, 0, values);
}

/* Sums over labels. */
typedef struct eitp__label_sums {
    double samples, both, is_true, is_predicted, true_squares, predicted_squares, products;
} eitp__label_sums;

static eitp__label_sums eitp__sum_labels(const eitp__outcomes *outcomes, int value) {
    eitp__label_sums sums = EITP__ZERO;
    sums.samples = (double)eitp__count_labels(outcomes, value);
    for (int64_t k = 0; k < outcomes->labels; k++) {
        const double is_true = (double)outcomes->by_label[k].is_true;
        const double is_predicted = (double)outcomes->by_label[k].is_predicted;
        sums.both += (double)outcomes->by_label[k].is_both;
        sums.is_true += is_true;
        sums.is_predicted += is_predicted;
        sums.true_squares += is_true * is_true;
        sums.predicted_squares += is_predicted * is_predicted;
        sums.products += is_true * is_predicted;
    }
    return sums;
}

EITP__PRIVATE void eitp__micro_f1(const eitp__outcomes *outcomes, double *values) {
    for (int value = 0; value <= EITP__GROUPS; value++) {
        const eitp__label_sums sums = eitp__sum_labels(outcomes, value);
        values[value] = eitp__ratio(sums.both, 0.5 * (sums.is_true + sums.is_predicted));
    }
}

/* Stores the mean of the labels' F1, weighted by the number of times that each is true. */
EITP__PRIVATE void eitp__weighted_f1(const eitp__outcomes *outcomes, double *values) {
    for (int value = 0; value <= EITP__GROUPS; value++) {
        double sum = 0, weights = 0;
        eitp__count_labels(outcomes, value);
        for (int64_t k = 0; k < outcomes->labels; k++) {
            const double is_true = (double)outcomes->by_label[k].is_true;
            const double is_predicted = (double)outcomes->by_label[k].is_predicted;
            sum += is_true * eitp__ratio((double)outcomes->by_label[k].is_both, 0.5 * (is_true + is_predicted));
            weights += is_true;
        }
        values[value] = eitp__ratio(sum, weights);
    }
}

/* Stores the fraction of labels of samples that are predicted and not true, or true and not predicted. */
EITP__PRIVATE void eitp__hamming_loss(const eitp__outcomes *outcomes, double *values) {
    for (int value = 0; value <= EITP__GROUPS; value++) {
        const eitp__label_sums sums = eitp__sum_labels(outcomes, value);
        values[value] =
            eitp__ratio(sums.is_true + sums.is_predicted - 2 * sums.both, sums.samples * (double)outcomes->labels);
    }
}

EITP__PRIVATE void eitp__matthews_correlation(const eitp__outcomes *outcomes, double *values) {
    for (int value = 0; value <= EITP__GROUPS; value++) {
        const eitp__label_sums sums = eitp__sum_labels(outcomes, value);
        const double all = sums.samples * sums.samples;
        values[value] = eitp__ratio(sums.both * sums.samples - sums.products,
                                    sqrt(all - sums.true_squares) * sqrt(all - sums.predicted_squares));
    }
}

/* ---- Calibration ---- */

enum { EITP__CALIBRATION_BINS = 15 };

typedef struct eitp__calibration_bin {
    double confidence, right;
} eitp__calibration_bin;

/* Bin m holds the confidences in (m / 15, (m + 1) / 15]. */
EITP__PRIVATE void eitp__calibration_error(const eitp__outcomes *outcomes, double *values) {
    for (int value = 0; value <= EITP__GROUPS; value++) {
        eitp__calibration_bin bins[EITP__CALIBRATION_BINS];
        double sum = 0, samples = 0;
        memset(bins, 0, sizeof bins);
        for (int64_t i = 0; i < outcomes->count; i++) {
            const int64_t predicted = outcomes->predicted[i];
            const double odds = (double)outcomes->scores[i * outcomes->labels + predicted];
            const double confidence = 1 / (1 + exp(-odds));
            const int bin = (int)ceil(confidence * (double)EITP__CALIBRATION_BINS) - 1;
            if (eitp__is_left_out(outcomes, i, value))
                continue;
            bins[bin > 0 ? bin : 0].confidence += confidence;
            bins[bin > 0 ? bin : 0].right += outcomes->is_true[i] == predicted;
            samples++;
        }
        for (int bin = 0; bin < EITP__CALIBRATION_BINS; bin++)
            sum += fabs(bins[bin].right - bins[bin].confidence);
        values[value] = eitp__ratio(sum, samples);
    }
}
