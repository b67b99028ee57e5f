/* Label counts, and class weights computed from them. */
#include "data/labelled.h"

#include "base/memory.h"
#include "base/status.h"
#include "data/label_counts.h"

/* Counts the labels of sample `number`; a label of -1 is not counted. */
static eitp_status eitp__count_labels_of(const eitp_labelled_source *source, uint64_t number, const int32_t *labels,
                                         int64_t count, uint64_t *counts, eitp_error *error) {
    for (int64_t i = 0; i < count; i++) {
        if (labels[i] >= source->label_count)
            return eitp__fail(error, EITP_ERROR_INTERNAL, "sample %llu has label %ld of %lld",
                              (unsigned long long)number, (long)labels[i], (long long)source->label_count);
        if (labels[i] >= 0)
            counts[labels[i]]++;
    }
    return EITP_OK;
}

/* Reads all samples. `memory` must hold the targets or token labels of one sample. */
static eitp_status eitp__count_source_labels(const eitp_labelled_source *source, void *memory, uint64_t *counts,
                                             eitp_error *error) {
    const int is_tokens = source->problem == EITP_PROBLEM_TOKENS;
    for (uint64_t i = 0; i < source->count; i++) {
        eitp_labelled_sample sample;
        memset(&sample, 0, sizeof sample);
        sample.targets = source->problem == EITP_PROBLEM_MULTI_LABEL ? (float *)memory : NULL;
        sample.token_labels = is_tokens ? (int32_t *)memory : NULL;
        eitp_status status = source->read(source->user, i, &sample, error);
        if (status == EITP_OK && !sample.targets)
            status = eitp__count_labels_of(source, i, is_tokens ? sample.token_labels : &sample.label,
                                           is_tokens ? sample.length : 1, counts, error);
        if (status != EITP_OK)
            return status;
        for (int64_t label = 0; label < source->label_count && sample.targets; label++)
            counts[label] += sample.targets[label] > 0;
    }
    return EITP_OK;
}

/* Returns the number of bytes needed for the labels of one sample. */
static size_t eitp__label_bytes(const eitp_labelled_source *source) {
    return source->problem == EITP_PROBLEM_MULTI_LABEL ? (size_t)source->label_count * sizeof(float)
           : source->problem == EITP_PROBLEM_TOKENS    ? (size_t)source->max_length * sizeof(int32_t)
                                                       : 0;
}

EITP__PRIVATE eitp_status eitp__labelled_class_counts(const eitp_host *host, const eitp_labelled_source *source,
                                                      uint64_t *counts, eitp_error *error) {
    if (!host || !source || !source->read || !counts)
        return eitp__fail_null(error, "eitp__labelled_class_counts", "host, source and counts");
    if (source->label_count < 1 || source->problem == EITP_PROBLEM_REGRESSION ||
        source->problem == EITP_PROBLEM_UNKNOWN)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the samples have no labels to count: their problem is %s",
                          source->problem == EITP_PROBLEM_REGRESSION ? "a regression" : "unknown");
    const size_t bytes = eitp__label_bytes(source);
    void *memory = eitp__allocate(host, bytes);
    if (bytes && !memory)
        return eitp__fail_memory(error, bytes, "counting labels");
    memset(counts, 0, (size_t)source->label_count * sizeof *counts);
    eitp_status status = eitp__count_source_labels(source, memory, counts, error);
    eitp__release(host, memory, bytes);
    return status;
}

EITP__PRIVATE void eitp__labelled_balanced_weights(const uint64_t *counts, int64_t label_count, float *weights) {
    double samples = 0, labels = 0;
    if (!counts || !weights)
        return;
    for (int64_t i = 0; i < label_count; i++) {
        samples += (double)counts[i];
        labels += counts[i] > 0;
    }
    for (int64_t i = 0; i < label_count; i++)
        weights[i] = counts[i] ? (float)(samples / (labels * (double)counts[i])) : 1;
}
