/* How often labels occur, and class weights. */
#include "data/labelled.h"

#include "base/memory.h"
#include "base/status.h"

/* Reads all samples; `targets` has room for those of one with several labels. */
static eitp_status eitp__count_source_labels(const eitp_labelled_source *source, float *targets, uint64_t *counts,
                                             eitp_error *error) {
    for (uint64_t i = 0; i < source->count; i++) {
        eitp_labelled_sample sample;
        memset(&sample, 0, sizeof sample);
        sample.targets = targets;
        eitp_status status = source->read(source->user, i, &sample, error);
        if (status != EITP_OK)
            return status;
        if (!targets && sample.label >= source->label_count)
            return eitp__fail(error, EITP_ERROR_INTERNAL, "sample %llu has label %ld of %lld", (unsigned long long)i,
                              (long)sample.label, (long long)source->label_count);
        if (!targets && sample.label >= 0)
            counts[sample.label]++;
        for (int64_t label = 0; label < source->label_count && targets; label++)
            counts[label] += targets[label] > 0;
    }
    return EITP_OK;
}

eitp_status eitp_labelled_class_counts(const eitp_host *host, const eitp_labelled_source *source, uint64_t *counts,
                                       eitp_error *error) {
    if (!host || !source || !source->read || !counts)
        return eitp__fail_null(error, "eitp_labelled_class_counts", "host, source and counts");
    const int has_several = source->problem == EITP_PROBLEM_MULTI_LABEL;
    if (source->label_count < 1 || (!has_several && source->problem != EITP_PROBLEM_SINGLE_LABEL))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the samples have no labels to count: their problem is %s",
                          source->problem == EITP_PROBLEM_REGRESSION ? "a regression" : "unknown");
    const size_t bytes = has_several ? (size_t)source->label_count * sizeof(float) : 0;
    float *targets = (float *)eitp__allocate(host, bytes);
    if (bytes && !targets)
        return eitp__fail_memory(error, bytes, "counting labels");
    memset(counts, 0, (size_t)source->label_count * sizeof *counts);
    eitp_status status = eitp__count_source_labels(source, targets, counts, error);
    eitp__release(host, targets, bytes);
    return status;
}

void eitp_labelled_balanced_weights(const uint64_t *counts, int64_t label_count, float *weights) {
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
