/* The index of a labelled file during packing: the data of each example other than its ids. */
#ifndef EITP_LABELLED_INDEX_H
#define EITP_LABELLED_INDEX_H

#include "base/memory.h"
#include "data/example_labels.h"
#include "data/sample_record.h"

/* A packed example. */
typedef struct eitp__labelled_entry {
    eitp__sample_record record;
    uint32_t cut;       /* tokens lost to truncation */
    uint32_t cut_words; /* with EITP_PROBLEM_TOKENS, words that lost all their tokens */
    int is_pair;
} eitp__labelled_entry;

typedef struct eitp__labelled_index {
    const eitp_host *host;
    eitp__labelled_entry *entries;
    size_t count, capacity;
    /* Labels: first their numbers in the label table, then their final values; EITP__NO_LABEL for an unlabelled
       token. */
    uint32_t *values;
    size_t value_count, value_capacity;
    float *weights; /* of values with `weighs_values`, otherwise of entries; NULL while all are 1 */
    size_t weight_count, weight_capacity;
    int weighs_values;
} eitp__labelled_index;

EITP__PRIVATE void eitp__labelled_index_init(eitp__labelled_index *index, const eitp_host *host);
EITP__PRIVATE void eitp__labelled_index_release(eitp__labelled_index *index);

/* Reserves memory for an entry with `value_count` values. */
EITP__PRIVATE eitp_status eitp__labelled_index_reserve(eitp__labelled_index *index, size_t value_count,
                                                       eitp_error *error);

/* Adds an entry, whose first_value and value_count are set, in the reserved memory. */
EITP__PRIVATE void eitp__labelled_index_add(eitp__labelled_index *index, eitp__labelled_entry entry,
                                            const uint32_t *values, size_t value_count);

/* Adds the `count` weights of the next entry: one, or one for each of its values. */
EITP__PRIVATE eitp_status eitp__labelled_index_add_weights(eitp__labelled_index *index, const float *weights,
                                                           size_t count, eitp_error *error);

/* Replaces label numbers by their final values. */
EITP__PRIVATE void eitp__labelled_index_set_values(eitp__labelled_index *index, const eitp__label_meaning *meaning);

/* Counts repeated and ambiguous samples in *info, by their text hashes and values; drops them if info->dedup is set. */
EITP__PRIVATE eitp_status eitp__labelled_index_repeats(eitp__labelled_index *index, eitp_sample_file_info *info,
                                                       eitp_error *error);

/* Sets the counts of *info that depend on the entries. */
EITP__PRIVATE void eitp__labelled_index_count(const eitp__labelled_index *index, eitp_sample_file_info *info);

#endif
