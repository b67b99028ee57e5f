#include "task/outcomes.h"

#include "base/sort.h"
#include "data/windows.h"

/* ---- Memory ---- */

/* Takes `bytes` from the memory at *at. Returns NULL for 0 bytes. If `memory` is NULL, only counts the bytes. */
static void *eitp__take(char *memory, size_t *at, size_t bytes) {
    void *taken = memory && bytes ? memory + *at : NULL;
    *at += (bytes + 15) / 16 * 16;
    return taken;
}

/* Lays out the arrays. Returns the number of bytes used. If `memory` is NULL, all arrays are NULL. */
static size_t eitp__outcomes_lay_out(eitp__outcomes *outcomes, char *memory, size_t samples) {
    const size_t labels = (size_t)outcomes->labels, matrix = samples * labels * sizeof(float);
    const int is_single = outcomes->problem == EITP_PROBLEM_SINGLE_LABEL;
    const int is_tokens = outcomes->problem == EITP_PROBLEM_TOKENS, has_confusion = labels <= EITP_MAX_CONFUSION_LABELS;
    const size_t by_group = is_tokens ? (size_t)EITP__GROUPS * labels * sizeof(eitp__label_counts) : 0;
    const size_t for_numbers = outcomes->problem == EITP_PROBLEM_REGRESSION ? samples : 0;
    size_t at = 0;
    eitp__take(memory, &at, sizeof *outcomes);
    outcomes->mistakes = (eitp__mistakes *)eitp__take(memory, &at, sizeof(eitp__mistakes));
    outcomes->by_label = (eitp__label_counts *)eitp__take(memory, &at, labels * sizeof(eitp__label_counts));
    outcomes->group_labels = (eitp__label_counts *)eitp__take(memory, &at, by_group);
    outcomes->group_entities = (eitp__label_counts *)eitp__take(memory, &at, by_group);
    outcomes->confusion =
        (int64_t *)eitp__take(memory, &at, is_tokens && has_confusion ? labels * labels * sizeof(int64_t) : 0);
    if (is_tokens)
        return at;
    outcomes->scores = (float *)eitp__take(memory, &at, matrix);
    outcomes->targets = (float *)eitp__take(memory, &at, is_single ? 0 : matrix);
    outcomes->is_true = (int32_t *)eitp__take(memory, &at, is_single ? samples * sizeof(int32_t) : 0);
    outcomes->predicted = (int32_t *)eitp__take(memory, &at, is_single ? samples * sizeof(int32_t) : 0);
    outcomes->order = (eitp__ranked *)eitp__take(memory, &at, samples * sizeof(eitp__ranked));
    outcomes->other = (eitp__ranked *)eitp__take(memory, &at, for_numbers * sizeof(eitp__ranked));
    outcomes->ranks = (double *)eitp__take(memory, &at, for_numbers * sizeof(double));
    outcomes->other_ranks = (double *)eitp__take(memory, &at, for_numbers * sizeof(double));
    outcomes->groups = (unsigned char *)eitp__take(memory, &at, samples);
    return at;
}

EITP__PRIVATE size_t eitp__outcomes_bytes(eitp_problem problem, int64_t labels, uint64_t samples) {
    eitp__outcomes outcomes = EITP__ZERO;
    outcomes.problem = problem;
    outcomes.labels = labels;
    return eitp__outcomes_lay_out(&outcomes, NULL, (size_t)samples);
}

EITP__PRIVATE eitp__outcomes *eitp__outcomes_init(void *memory, eitp_problem problem, int64_t labels,
                                                  uint64_t samples) {
    eitp__outcomes *outcomes = (eitp__outcomes *)memory;
    memset(outcomes, 0, sizeof *outcomes);
    outcomes->problem = problem;
    outcomes->labels = labels;
    outcomes->is_finite = 1;
    outcomes->samples = (int64_t)samples;
    const size_t bytes = eitp__outcomes_lay_out(outcomes, (char *)memory, (size_t)samples);
    outcomes->mistakes->count = 0;
    if (problem == EITP_PROBLEM_TOKENS)
        memset(outcomes->by_label, 0, bytes - (size_t)((char *)outcomes->by_label - (char *)memory));
    return outcomes;
}

/* ---- Samples ---- */

EITP__PRIVATE int64_t eitp__largest_score(const float *scores, int64_t labels) {
    int64_t largest = 0;
    for (int64_t i = 1; i < labels; i++) {
        if (scores[i] > scores[largest])
            largest = i;
    }
    return largest;
}

EITP__PRIVATE int eitp__all_finite(const float *values, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(values[i]))
            return 0;
    }
    return 1;
}

/*
 * Computes the log odds p / (1 - p) of each label, where p is its softmax. They order samples as p does, without
 * rounding to 1: s - log(sum of exp of the other scores). The sum without the largest score is computed separately,
 * since a difference would cancel.
 */
static void eitp__log_odds(const float *scores, int64_t labels, float *odds) {
    const int64_t largest = eitp__largest_score(scores, labels);
    const double top = (double)scores[largest];
    double others = 0;
    for (int64_t i = 0; i < labels; i++)
        others += i == largest ? 0 : exp((double)scores[i] - top);
    for (int64_t i = 0; i < labels; i++) {
        const double own = (double)scores[i] - top;
        const double rest = i == largest ? others : 1 + (others - exp(own));
        odds[i] = (float)(own - log(rest > 1e-300 ? rest : 1e-300));
    }
}

EITP__PRIVATE void eitp__outcomes_add_label(eitp__outcomes *outcomes, const float *scores, int32_t label) {
    const int64_t i = outcomes->count++;
    outcomes->is_finite &= eitp__all_finite(scores, outcomes->labels);
    outcomes->is_true[i] = label;
    outcomes->predicted[i] = (int32_t)eitp__largest_score(scores, outcomes->labels);
    eitp__log_odds(scores, outcomes->labels, outcomes->scores + i * outcomes->labels);
}

EITP__PRIVATE void eitp__outcomes_add_targets(eitp__outcomes *outcomes, const float *scores, const float *targets) {
    const int64_t at = outcomes->count++ * outcomes->labels;
    outcomes->is_finite &= eitp__all_finite(scores, outcomes->labels);
    memcpy(outcomes->scores + at, scores, (size_t)outcomes->labels * sizeof *scores);
    memcpy(outcomes->targets + at, targets, (size_t)outcomes->labels * sizeof *targets);
}

/* Neighbouring samples may be alike, so groups of equal size are drawn at random. */
EITP__PRIVATE void eitp__outcomes_end(eitp__outcomes *outcomes) {
    const uint64_t count = (uint64_t)outcomes->count;
    const int64_t grouped = outcomes->problem == EITP_PROBLEM_TOKENS ? outcomes->samples : outcomes->count;
    outcomes->group_count = grouped < EITP__GROUPS ? (int)grouped : EITP__GROUPS;
    for (uint64_t i = 0; i < count && outcomes->groups; i++)
        outcomes->groups[i] =
            (unsigned char)(eitp__sample_index(EITP_SHUFFLE_WINDOWS, 0, count, i) % (uint64_t)EITP__GROUPS);
}

EITP__PRIVATE int eitp__is_left_out(const eitp__outcomes *outcomes, int64_t sample, int value) {
    return value && outcomes->groups[sample] == value - 1;
}

EITP__PRIVATE int eitp__is_predicted(const eitp__outcomes *outcomes, int64_t sample, int64_t label) {
    return outcomes->predicted ? outcomes->predicted[sample] == label
                               : outcomes->scores[sample * outcomes->labels + label] > 0;
}

EITP__PRIVATE int eitp__has_label(const eitp__outcomes *outcomes, int64_t sample, int64_t label) {
    return outcomes->is_true ? outcomes->is_true[sample] == label
                             : outcomes->targets[sample * outcomes->labels + label] > 0.5f;
}

EITP__PRIVATE void eitp__sum_groups(const eitp__label_counts *counts, int64_t count, int value,
                                    eitp__label_counts *sums) {
    memset(sums, 0, (size_t)count * sizeof *sums);
    for (int64_t i = 0; i < EITP__GROUPS * count; i++) {
        if (value && i / count == value - 1)
            continue;
        sums[i % count].is_true += counts[i].is_true;
        sums[i % count].is_predicted += counts[i].is_predicted;
        sums[i % count].is_both += counts[i].is_both;
    }
}

EITP__PRIVATE int64_t eitp__count_labels(const eitp__outcomes *outcomes, int value) {
    eitp__label_counts *counts = outcomes->by_label;
    int64_t samples = 0;
    if (outcomes->problem == EITP_PROBLEM_TOKENS) {
        eitp__sum_groups(outcomes->group_labels, outcomes->labels, value, counts);
        for (int64_t k = 0; k < outcomes->labels; k++)
            samples += counts[k].is_true;
        return samples;
    }
    memset(counts, 0, (size_t)outcomes->labels * sizeof *counts);
    for (int64_t i = 0; i < outcomes->count; i++) {
        if (eitp__is_left_out(outcomes, i, value))
            continue;
        samples++;
        if (outcomes->is_true) {
            counts[outcomes->is_true[i]].is_true++;
            counts[outcomes->predicted[i]].is_predicted++;
            counts[outcomes->is_true[i]].is_both += outcomes->is_true[i] == outcomes->predicted[i];
            continue;
        }
        for (int64_t k = 0; k < outcomes->labels; k++) {
            const int is_true = eitp__has_label(outcomes, i, k), is_predicted = eitp__is_predicted(outcomes, i, k);
            counts[k].is_true += is_true;
            counts[k].is_predicted += is_predicted;
            counts[k].is_both += is_true && is_predicted;
        }
    }
    return samples;
}

static int eitp__compare_ranked(const void *left, const void *right) {
    const eitp__ranked *a = (const eitp__ranked *)left, *b = (const eitp__ranked *)right;
    if (a->value < b->value || a->value > b->value)
        return a->value < b->value ? -1 : 1;
    return a->sample < b->sample ? -1 : a->sample > b->sample;
}

EITP__PRIVATE void eitp__sort_column(const eitp__outcomes *outcomes, const float *values, int64_t label,
                                     eitp__ranked *order) {
    for (int64_t i = 0; i < outcomes->count; i++) {
        order[i].value = values[i * outcomes->labels + label];
        order[i].sample = (int32_t)i;
    }
    eitp__sort(order, (size_t)outcomes->count, sizeof *order, eitp__compare_ranked);
}
