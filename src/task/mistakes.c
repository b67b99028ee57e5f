#include "task/mistakes.h"

#include "task/outcomes.h"
#include "task/pass.h"

/* Makes room for a mistake. The caller fills in `is`. Returns NULL if enough other mistakes are at least as bad. */
static eitp__mistake *eitp__mistakes_insert(eitp__mistakes *mistakes, double weight,
                                            const eitp__judged_sample *sample) {
    const int64_t most = EITP__MISTAKE_IDS, kept = sample->rows < most ? sample->rows : most;
    eitp__mistake *mistake;
    int64_t at = mistakes->count;
    while (at > 0 && mistakes->all[at - 1].weight < weight)
        at--;
    if (at == EITP_MAX_MISTAKES)
        return NULL;
    mistakes->count += mistakes->count < EITP_MAX_MISTAKES;
    mistake = &mistakes->all[at];
    memmove(mistake + 1, mistake, (size_t)(mistakes->count - at - 1) * sizeof *mistake);
    memset(mistake, 0, sizeof *mistake);
    mistake->weight = weight;
    mistake->is.sample = sample->number;
    mistake->is.id_count = kept;
    memcpy(mistake->ids, sample->ids, (size_t)kept * sizeof *mistake->ids);
    return mistake;
}

/* Returns the log odds of the largest of some scores. Its probability is the softmax. */
static double eitp__largest_odds(const float *scores, int64_t labels, int64_t largest) {
    double others = 0;
    for (int64_t i = 0; i < labels; i++)
        others += i == largest ? 0 : exp((double)scores[i] - (double)scores[largest]);
    return -log(others > 1e-300 ? others : 1e-300);
}

static double eitp__probability_of(double odds) {
    return 1 / (1 + exp(-odds));
}

/* Records the mistake of a single label. Returns NULL if the prediction is correct, or other mistakes are worse. */
static eitp__mistake *eitp__observe_label(eitp__mistakes *mistakes, int64_t labels, const float *scores, int32_t label,
                                          const eitp__judged_sample *sample) {
    const int64_t predicted = eitp__largest_score(scores, labels);
    eitp__mistake *mistake;
    double odds;
    if (label == EITP__IGNORED_TARGET || predicted == label || !eitp__all_finite(scores, labels))
        return NULL;
    odds = eitp__largest_odds(scores, labels, predicted);
    mistake = eitp__mistakes_insert(mistakes, odds, sample);
    if (!mistake)
        return NULL;
    mistake->is.label = label;
    mistake->is.predicted = (int32_t)predicted;
    mistake->is.probability = eitp__probability_of(odds);
    return mistake;
}

static void eitp__observe_tokens(eitp__mistakes *mistakes, int64_t labels, const eitp__judged_sample *sample) {
    const int32_t *targets = (const int32_t *)sample->target;
    for (int64_t row = 0; row < sample->rows; row++) {
        eitp__mistake *mistake =
            eitp__observe_label(mistakes, labels, sample->scores + row * labels, targets[row], sample);
        int64_t size = 1;
        if (!mistake)
            continue;
        while (row + size < sample->rows && size < EITP__MISTAKE_WORD && targets[row + size] == EITP__IGNORED_TARGET)
            size++;
        memcpy(mistake->word, sample->ids + row, (size_t)size * sizeof *mistake->word);
        mistake->is.row = row;
        mistake->is.word_count = size;
    }
}

/* Records the wrong label with the highest confidence of a sample with several labels. */
static void eitp__observe_labels(eitp__mistakes *mistakes, int64_t labels, const eitp__judged_sample *sample) {
    const float *scores = sample->scores, *targets = (const float *)sample->target;
    eitp__mistake *mistake;
    int64_t worst = -1;
    for (int64_t k = 0; k < labels; k++) {
        const int is_wrong = (scores[k] > 0) != (targets[k] > 0.5f);
        if (is_wrong && (worst < 0 || fabs((double)scores[k]) > fabs((double)scores[worst])))
            worst = k;
    }
    if (worst < 0)
        return;
    mistake = eitp__mistakes_insert(mistakes, fabs((double)scores[worst]), sample);
    if (!mistake)
        return;
    mistake->is.label = (int32_t)worst;
    mistake->is.predicted = scores[worst] > 0;
    mistake->is.probability = eitp__probability_of(mistake->weight);
}

/* Records the number with the largest error of a sample. */
static void eitp__observe_numbers(eitp__mistakes *mistakes, int64_t numbers, const eitp__judged_sample *sample) {
    const float *scores = sample->scores, *targets = (const float *)sample->target;
    eitp__mistake *mistake;
    double largest = 0;
    int64_t worst = -1;
    for (int64_t k = 0; k < numbers; k++) {
        const double error = fabs((double)scores[k] - (double)targets[k]);
        if (error > largest) {
            largest = error;
            worst = k;
        }
    }
    mistake = worst < 0 ? NULL : eitp__mistakes_insert(mistakes, largest, sample);
    if (!mistake)
        return;
    mistake->is.label = (int32_t)worst;
    mistake->is.target = (double)targets[worst];
    mistake->is.number = (double)scores[worst];
}

EITP__PRIVATE void eitp__mistakes_observe(eitp__mistakes *mistakes, eitp_problem problem, int64_t labels,
                                          const eitp__judged_sample *sample) {
    if (problem == EITP_PROBLEM_SINGLE_LABEL)
        eitp__observe_label(mistakes, labels, sample->scores, *(const int32_t *)sample->target, sample);
    else if (problem == EITP_PROBLEM_TOKENS)
        eitp__observe_tokens(mistakes, labels, sample);
    else if (!eitp__all_finite(sample->scores, labels))
        return;
    else if (problem == EITP_PROBLEM_MULTI_LABEL)
        eitp__observe_labels(mistakes, labels, sample);
    else
        eitp__observe_numbers(mistakes, labels, sample);
}
