#include "objective/judged.h"

#include "base/sort.h"

static int eitp__compare_judged(const void *a, const void *b) {
    const eitp__judged *x = (const eitp__judged *)a, *y = (const eitp__judged *)b;
    return x->confidence < y->confidence ? -1 : x->confidence > y->confidence;
}

EITP__PRIVATE void eitp__judged_sort(eitp__judged *all, int64_t count) {
    eitp__sort(all, (size_t)count, sizeof *all, eitp__compare_judged);
}

/* A statistic of all predictions except one group's; group -1: of all. */
typedef double (*eitp__judged_statistic)(const eitp__judged *all, int64_t count, int left_out);

static double eitp__calibration_without(const eitp__judged *all, int64_t count, int left_out) {
    double confidence[EITP__JUDGED_BINS] = EITP__ZERO, right[EITP__JUDGED_BINS] = EITP__ZERO;
    double used = 0, sum = 0;
    for (int64_t i = 0; i < count; i++) {
        const int bin = (int)ceil((double)all[i].confidence * (double)EITP__JUDGED_BINS) - 1;
        const int at = bin < 0 ? 0 : bin < EITP__JUDGED_BINS ? bin : EITP__JUDGED_BINS - 1;
        if (all[i].group == left_out)
            continue;
        confidence[at] += (double)all[i].confidence;
        right[at] += all[i].is_right;
        used++;
    }
    for (int bin = 0; bin < EITP__JUDGED_BINS; bin++)
        sum += fabs(confidence[bin] - right[bin]);
    return used > 0 ? sum / used : (double)NAN;
}

static double eitp__area_without(const eitp__judged *all, int64_t count, int left_out) {
    double wins = 0, right = 0, wrong = 0;
    for (int64_t begin = 0, end = 0; begin < count; begin = end) {
        double tied_right = 0, tied_wrong = 0;
        for (; end < count && !(all[end].confidence > all[begin].confidence); end++) {
            if (all[end].group == left_out)
                continue;
            tied_right += all[end].is_right;
            tied_wrong += !all[end].is_right;
        }
        wins += tied_right * (wrong + tied_wrong / 2);
        right += tied_right;
        wrong += tied_wrong;
    }
    return right > 0 && wrong > 0 ? wins / (right * wrong) : (double)NAN;
}

static eitp__judged_result eitp__jackknife(eitp__judged_statistic statistic, const eitp__judged *all, int64_t count) {
    eitp__judged_result result = EITP__ZERO;
    double mean = 0, squares = 0, groups = 0;
    int has_group[EITP__JUDGED_GROUPS] = EITP__ZERO;
    result.value = statistic(all, count, -1);
    for (int64_t i = 0; i < count; i++)
        has_group[all[i].group] = 1;
    for (int group = 0; group < EITP__JUDGED_GROUPS; group++) {
        const double without = has_group[group] ? statistic(all, count, group) : (double)NAN;
        const double difference = without - mean;
        if (!isfinite(without))
            continue;
        groups++;
        mean += difference / groups;
        squares += difference * (without - mean);
    }
    if (groups > 1)
        result.error = sqrt(squares * (groups - 1) / groups);
    return result;
}

EITP__PRIVATE eitp__judged_result eitp__judged_calibration(const eitp__judged *all, int64_t count) {
    return eitp__jackknife(eitp__calibration_without, all, count);
}

EITP__PRIVATE eitp__judged_result eitp__judged_area(const eitp__judged *all, int64_t count) {
    return eitp__jackknife(eitp__area_without, all, count);
}

EITP__PRIVATE double eitp__distinct_ngrams(const int32_t *tokens, int64_t count, int64_t n) {
    const int64_t all = count - n + 1;
    int64_t distinct = 0;
    for (int64_t i = 0; i < all; i++) {
        int64_t before = 0;
        while (before < i && memcmp(tokens + before, tokens + i, (size_t)n * sizeof *tokens) != 0)
            before++;
        distinct += before == i;
    }
    return all > 0 ? (double)distinct / (double)all : (double)NAN;
}
