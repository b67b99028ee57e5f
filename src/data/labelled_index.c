#include "data/labelled_index.h"

#include "base/sort.h"
#include "base/status.h"

EITP__PRIVATE void eitp__labelled_index_init(eitp__labelled_index *index, const eitp_host *host) {
    memset(index, 0, sizeof *index);
    index->host = host;
}

EITP__PRIVATE void eitp__labelled_index_release(eitp__labelled_index *index) {
    if (!index->host)
        return;
    eitp__release(index->host, index->entries, index->capacity * sizeof *index->entries);
    eitp__release(index->host, index->values, index->value_capacity * sizeof *index->values);
    eitp__release(index->host, index->weights, index->weight_capacity * sizeof *index->weights);
    eitp__labelled_index_init(index, index->host);
}

EITP__PRIVATE eitp_status eitp__labelled_index_reserve(eitp__labelled_index *index, size_t value_count,
                                                       eitp_error *error) {
    if (index->count >= EITP__MAX_SAMPLES)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "a labelled file has at most %llu samples",
                          (unsigned long long)EITP__MAX_SAMPLES);
    if (!eitp__reserve(index->host, (void **)&index->entries, &index->capacity, index->count + 1,
                       sizeof *index->entries) ||
        !eitp__reserve(index->host, (void **)&index->values, &index->value_capacity, index->value_count + value_count,
                       sizeof *index->values))
        return eitp__fail_memory(error, (index->count + 1) * sizeof *index->entries, "the index of a labelled file");
    return EITP_OK;
}

EITP__PRIVATE void eitp__labelled_index_add(eitp__labelled_index *index, eitp__labelled_entry entry,
                                            const uint32_t *values, size_t value_count) {
    entry.record.first_value = index->value_count;
    entry.record.value_count = (uint32_t)value_count;
    if (value_count)
        memcpy(index->values + index->value_count, values, value_count * sizeof *values);
    index->value_count += value_count;
    index->entries[index->count++] = entry;
}

EITP__PRIVATE eitp_status eitp__labelled_index_add_weights(eitp__labelled_index *index, const float *weights,
                                                           size_t count, eitp_error *error) {
    const size_t first = index->weight_count, all = first + count;
    const int is_first = !index->weights;
    int differ = !is_first;
    for (size_t i = 0; i < count && !differ; i++)
        differ = weights[i] < 1 || weights[i] > 1;
    index->weight_count = all;
    if (!differ)
        return EITP_OK;
    if (!eitp__reserve(index->host, (void **)&index->weights, &index->weight_capacity, all, sizeof *index->weights))
        return eitp__fail_memory(error, all * sizeof *index->weights, "the weights of a labelled file");
    for (size_t i = 0; i < first && is_first; i++)
        index->weights[i] = 1;
    memcpy(index->weights + first, weights, count * sizeof *weights);
    return EITP_OK;
}

static int eitp__compare_packed_values(const void *a, const void *b) {
    const uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return left < right ? -1 : left > right;
}

EITP__PRIVATE void eitp__labelled_index_set_values(eitp__labelled_index *index, const eitp__label_meaning *meaning) {
    if (meaning->problem == EITP_PROBLEM_UNKNOWN)
        index->value_count = 0;
    for (size_t i = 0; i < index->value_count; i++)
        index->values[i] = index->values[i] == EITP__NO_LABEL ? EITP__NO_LABEL : meaning->values[index->values[i]];
    for (size_t i = 0; i < index->count && meaning->problem == EITP_PROBLEM_MULTI_LABEL; i++) {
        const eitp__sample_record *record = &index->entries[i].record;
        eitp__sort(index->values + record->first_value, record->value_count, sizeof *index->values,
                   eitp__compare_packed_values);
    }
}

/* ---- Repeats ---- */

/* The parts of an entry needed to sort by text. */
typedef struct eitp__text_order_key {
    uint64_t hash;
    uint64_t entry;
} eitp__text_order_key;

static int eitp__compare_text_places(const void *a, const void *b) {
    const eitp__text_order_key *left = (const eitp__text_order_key *)a, *right = (const eitp__text_order_key *)b;
    if (left->hash != right->hash)
        return left->hash < right->hash ? -1 : 1;
    return left->entry < right->entry ? -1 : left->entry > right->entry;
}

static int eitp__same_values(const eitp__labelled_index *index, uint64_t a, uint64_t b) {
    const eitp__sample_record *left = &index->entries[a].record, *right = &index->entries[b].record;
    return left->value_count == right->value_count &&
           (!left->value_count || !memcmp(index->values + left->first_value, index->values + right->first_value,
                                          left->value_count * sizeof *index->values));
}

/* Marks the samples to drop by a length of 0. */
static void eitp__mark_repeats(eitp__labelled_index *index, const eitp__text_order_key *places,
                               eitp_sample_file_info *info) {
    for (size_t first = 0, end; first < index->count; first = end) {
        int is_ambiguous = 0;
        for (end = first + 1; end < index->count && places[end].hash == places[first].hash; end++)
            is_ambiguous |= !eitp__same_values(index, places[first].entry, places[end].entry);
        if (is_ambiguous)
            info->ambiguous += end - first;
        else
            info->repeated += end - first - 1;
        for (size_t i = first + !is_ambiguous; i < end && info->dedup; i++)
            index->entries[places[i].entry].record.length = 0;
    }
}

/* Closes the gaps of dropped samples. */
static void eitp__drop_marked(eitp__labelled_index *index) {
    size_t kept = 0, values = 0;
    for (size_t i = 0; i < index->count; i++) {
        eitp__labelled_entry entry = index->entries[i];
        const size_t count = entry.record.value_count;
        if (!entry.record.length)
            continue;
        if (count)
            memmove(index->values + values, index->values + entry.record.first_value, count * sizeof *index->values);
        if (count && index->weights && index->weighs_values)
            memmove(index->weights + values, index->weights + entry.record.first_value, count * sizeof *index->weights);
        if (index->weights && !index->weighs_values)
            index->weights[kept] = index->weights[i];
        entry.record.first_value = values;
        values += count;
        index->entries[kept++] = entry;
    }
    index->count = kept;
    index->value_count = values;
    index->weight_count = index->weighs_values ? values : kept;
}

EITP__PRIVATE eitp_status eitp__labelled_index_repeats(eitp__labelled_index *index, eitp_sample_file_info *info,
                                                       eitp_error *error) {
    const size_t bytes = index->count * sizeof(eitp__text_order_key);
    eitp__text_order_key *places = (eitp__text_order_key *)eitp__allocate_uninitialized(index->host, bytes);
    if (index->count && !places)
        return eitp__fail_memory(error, bytes, "finding repeated examples");
    for (size_t i = 0; i < index->count; i++) {
        places[i].hash = index->entries[i].record.text_hash;
        places[i].entry = i;
    }
    eitp__sort(places, index->count, sizeof *places, eitp__compare_text_places);
    eitp__mark_repeats(index, places, info);
    eitp__drop_marked(index);
    eitp__release(index->host, places, bytes);
    return EITP_OK;
}

EITP__PRIVATE void eitp__labelled_index_count(const eitp__labelled_index *index, eitp_sample_file_info *info) {
    info->sample_count = index->count;
    info->token_count = 0;
    for (size_t i = 0; i < index->count; i++) {
        const eitp__labelled_entry *entry = &index->entries[i];
        eitp__sample_record_count(&entry->record, info);
        info->pair_count += entry->is_pair != 0;
        info->cut_samples += entry->cut > 0;
        info->cut_ids += entry->cut;
        info->cut_words += entry->cut_words;
    }
}
