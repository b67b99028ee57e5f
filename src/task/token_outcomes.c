/* The outcomes of labels of tokens: counts of labels and entities for each group of samples. */
#include "data/windows.h"
#include "task/outcomes.h"
#include "task/pass.h"

/* ---- Labels ---- */

/* Returns the number of a label's type, which is new if no label before it has the type. */
static int32_t eitp__entity_type_number(eitp__entity_labels *labels, const char *type) {
    int64_t i = 0;
    if (!type)
        return -1;
    while (i < labels->type_count && strcmp(labels->type_names[i], type))
        i++;
    if (i == labels->type_count)
        labels->type_names[labels->type_count++] = type;
    return (int32_t)i;
}

EITP__PRIVATE eitp_status eitp__entity_labels_init(eitp__entity_labels *labels, const eitp_host *host,
                                                   const char *const *names, int64_t count, eitp_error *error) {
    const size_t bytes = (size_t)count * (sizeof *labels->types + sizeof *labels->type_names);
    labels->names = names;
    labels->count = count;
    labels->types = (int32_t *)eitp__allocate(host, (size_t)count * sizeof *labels->types);
    labels->type_names = (const char **)eitp__allocate(host, (size_t)count * sizeof *labels->type_names);
    if (!labels->types || !labels->type_names)
        return eitp__fail_memory(error, bytes, "the entity types");
    for (int64_t i = 0; i < count; i++)
        labels->types[i] = eitp__entity_type_number(labels, eitp__entity_type(names[i]));
    return EITP_OK;
}

EITP__PRIVATE void eitp__entity_labels_release(eitp__entity_labels *labels, const eitp_host *host) {
    if (labels->types)
        eitp__release(host, labels->types, (size_t)labels->count * sizeof *labels->types);
    if (labels->type_names)
        eitp__release(host, labels->type_names, (size_t)labels->count * sizeof *labels->type_names);
    memset(labels, 0, sizeof *labels);
}

/* ---- Entities ---- */

/* An entity of true or predicted labels, while the tokens of a sample are read in order. */
typedef struct eitp__open_entity {
    const char *label; /* label of the last word */
    int32_t type;
    int64_t first; /* its first word; -1: no entity is open */
} eitp__open_entity;

/* Reads the next label, or -1 after the last. Returns 1 if the entity in *open ended before it; *ended receives the
   entity. */
static int eitp__take_entity_label(const eitp__entity_labels *labels, int32_t label, int64_t word,
                                   eitp__open_entity *open, eitp__open_entity *ended) {
    const char *name = label < 0 ? NULL : labels->names[label];
    const int goes_on = eitp__entity_continues(open->label, name);
    const int ends = open->first >= 0 && !goes_on;
    *ended = *open;
    open->label = name;
    if (goes_on)
        return 0;
    open->type = label < 0 ? -1 : labels->types[label];
    open->first = open->type < 0 ? -1 : word;
    return ends;
}

/* Counts the entities of a sample by type. A prediction is correct if its type and its words are. */
static void eitp__count_entities(const eitp__outcomes *outcomes, const float *scores, const int32_t *labels,
                                 int64_t rows, eitp__label_counts *counts) {
    eitp__open_entity is_true = {NULL, -1, -1}, predicted = {NULL, -1, -1}, true_ended, predicted_ended;
    int64_t word = 0;
    for (int64_t i = 0; i <= rows; i++) {
        const int is_end = i == rows;
        if (!is_end && labels[i] == EITP__IGNORED_TARGET)
            continue;
        const int32_t label = is_end ? -1 : labels[i];
        const int32_t guess =
            is_end ? -1 : (int32_t)eitp__largest_score(scores + i * outcomes->labels, outcomes->labels);
        const int true_ends = eitp__take_entity_label(outcomes->entities, label, word, &is_true, &true_ended);
        const int guess_ends = eitp__take_entity_label(outcomes->entities, guess, word, &predicted, &predicted_ended);
        word++;
        if (true_ends)
            counts[true_ended.type].is_true++;
        if (guess_ends)
            counts[predicted_ended.type].is_predicted++;
        if (true_ends && guess_ends && true_ended.first == predicted_ended.first &&
            true_ended.type == predicted_ended.type)
            counts[true_ended.type].is_both++;
    }
}

/* ---- Tokens ---- */

EITP__PRIVATE void eitp__outcomes_add_tokens(eitp__outcomes *outcomes, uint64_t index, const float *scores,
                                             const int32_t *labels, int64_t rows) {
    const uint64_t drawn = eitp__sample_index(EITP_SHUFFLE_WINDOWS, 0, (uint64_t)outcomes->samples, index);
    const int64_t group = (int64_t)(drawn % (uint64_t)EITP__GROUPS) * outcomes->labels;
    for (int64_t i = 0; i < rows; i++) {
        const float *own = scores + i * outcomes->labels;
        const int64_t predicted = eitp__largest_score(own, outcomes->labels);
        if (labels[i] == EITP__IGNORED_TARGET)
            continue;
        outcomes->is_finite &= eitp__all_finite(own, outcomes->labels);
        outcomes->count++;
        outcomes->group_labels[group + labels[i]].is_true++;
        outcomes->group_labels[group + predicted].is_predicted++;
        outcomes->group_labels[group + predicted].is_both += predicted == labels[i];
        if (outcomes->confusion)
            outcomes->confusion[labels[i] * outcomes->labels + predicted]++;
    }
    if (outcomes->entities)
        eitp__count_entities(outcomes, scores, labels, rows, outcomes->group_entities + group);
}

/* ---- Metrics ---- */

/* Returns the sum over all types of is_both / (a * is_true + b * is_predicted); 0 / 0 is 0. */
static void eitp__entity_ratio(const eitp__outcomes *outcomes, double a, double b, double *values) {
    for (int value = 0; value <= EITP__GROUPS; value++) {
        double both = 0, others = 0;
        eitp__sum_groups(outcomes->group_entities, outcomes->labels, value, outcomes->by_label);
        for (int64_t k = 0; k < outcomes->labels; k++) {
            const eitp__label_counts *counts = &outcomes->by_label[k];
            both += (double)counts->is_both;
            others += a * (double)counts->is_true + b * (double)counts->is_predicted;
        }
        values[value] = others > 0 ? both / others : 0;
    }
}

EITP__PRIVATE void eitp__entity_precision(const eitp__outcomes *outcomes, double *values) {
    eitp__entity_ratio(outcomes, 0, 1, values);
}

EITP__PRIVATE void eitp__entity_recall(const eitp__outcomes *outcomes, double *values) {
    eitp__entity_ratio(outcomes, 1, 0, values);
}

EITP__PRIVATE void eitp__entity_f1(const eitp__outcomes *outcomes, double *values) {
    eitp__entity_ratio(outcomes, 0.5, 0.5, values);
}
