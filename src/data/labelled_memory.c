/* Labelled samples in arrays. */
#include "data/labelled.h"

#include "base/checksum.h"
#include "base/memory.h"
#include "base/status.h"

#include <float.h>

static uint64_t eitp__array_length(const eitp_labelled_arrays *arrays, uint64_t number) {
    return arrays->starts[number + 1] - arrays->starts[number];
}

static int eitp__has_targets(const eitp_labelled_arrays *arrays) {
    return arrays->problem == EITP_PROBLEM_MULTI_LABEL || arrays->problem == EITP_PROBLEM_REGRESSION;
}

static eitp_status eitp__read_labelled_arrays(void *user, uint64_t number, eitp_labelled_sample *sample,
                                              eitp_error *error) {
    const eitp_labelled_arrays *arrays = (const eitp_labelled_arrays *)user;
    if (number >= arrays->count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "sample %llu is outside the %llu samples of the arrays",
                          (unsigned long long)number, (unsigned long long)arrays->count);
    const uint64_t first = arrays->starts[number], length = eitp__array_length(arrays, number);
    const size_t targets = (size_t)arrays->label_count;
    sample->length = (int64_t)length;
    if (sample->ids)
        memcpy(sample->ids, arrays->ids + first, (size_t)length * sizeof *sample->ids);
    for (uint64_t i = 0; i < length && sample->segments; i++)
        sample->segments[i] = arrays->segments ? arrays->segments[first + i] : 0;
    sample->label = arrays->problem == EITP_PROBLEM_SINGLE_LABEL ? arrays->labels[number] : -1;
    if (sample->token_labels && arrays->problem == EITP_PROBLEM_TOKENS)
        memcpy(sample->token_labels, arrays->token_labels + first, (size_t)length * sizeof *sample->token_labels);
    sample->weight = arrays->weights && arrays->problem != EITP_PROBLEM_TOKENS ? arrays->weights[number] : 1;
    for (uint64_t i = 0; i < length && sample->token_weights; i++)
        sample->token_weights[i] =
            arrays->weights && arrays->problem == EITP_PROBLEM_TOKENS ? arrays->weights[first + i] : 1;
    if (sample->targets && eitp__has_targets(arrays))
        memcpy(sample->targets, arrays->targets + number * targets, targets * sizeof *sample->targets);
    return EITP_OK;
}

/* Checks a label of sample `number`. */
static eitp_status eitp__check_array_label(const eitp_labelled_arrays *arrays, int32_t label, uint64_t number,
                                           eitp_error *error) {
    if (label >= -1 && label < arrays->label_count)
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_ARGUMENT, "sample %llu has label %ld, but there are %lld labels",
                      (unsigned long long)number, (long)label, (long long)arrays->label_count);
}

static eitp_status eitp__check_array_targets(const eitp_labelled_arrays *arrays, uint64_t number, eitp_error *error) {
    const float *targets = arrays->targets + number * (uint64_t)arrays->label_count;
    const int is_regression = arrays->problem == EITP_PROBLEM_REGRESSION;
    for (int64_t i = 0; i < arrays->label_count; i++) {
        const int is_label = targets[i] >= 0 && targets[i] <= 1 && !(targets[i] > 0 && targets[i] < 1);
        const int is_finite = targets[i] >= -FLT_MAX && targets[i] <= FLT_MAX;
        if (!(is_regression ? is_finite : is_label))
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "target %lld of sample %llu must be %s (got %g)",
                              (long long)i, (unsigned long long)number, is_regression ? "finite" : "0 or 1",
                              (double)targets[i]);
    }
    return EITP_OK;
}

/* Checks one sample. */
static eitp_status eitp__arrays_check_sample(const eitp_labelled_arrays *arrays, uint64_t number, eitp_error *error) {
    const uint64_t first = arrays->starts[number], end = arrays->starts[number + 1];
    if (end <= first || end - first > INT32_MAX)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "sample %llu starts at id %llu and ends at %llu; it needs at least one id",
                          (unsigned long long)number, (unsigned long long)first, (unsigned long long)end);
    for (uint64_t i = first; i < end; i++) {
        if (arrays->ids[i] < 0 || (arrays->segments && arrays->segments[i] < 0))
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "sample %llu has a negative id or segment at %llu",
                              (unsigned long long)number, (unsigned long long)(i - first));
    }
    if (arrays->problem == EITP_PROBLEM_SINGLE_LABEL)
        return eitp__check_array_label(arrays, arrays->labels[number], number, error);
    for (uint64_t i = first; i < end && arrays->problem == EITP_PROBLEM_TOKENS; i++) {
        eitp_status status = eitp__check_array_label(arrays, arrays->token_labels[i], number, error);
        if (status != EITP_OK)
            return status;
    }
    return eitp__has_targets(arrays) ? eitp__check_array_targets(arrays, number, error) : EITP_OK;
}

/* Returns the first weight and the number of weights. */
static const float *eitp__array_weights(const eitp_labelled_arrays *arrays, uint64_t *count) {
    const uint64_t first = arrays->problem == EITP_PROBLEM_TOKENS ? arrays->starts[0] : 0;
    *count = arrays->problem == EITP_PROBLEM_TOKENS ? arrays->starts[arrays->count] - first : arrays->count;
    return arrays->weights + first;
}

static eitp_status eitp__check_array_weights(const eitp_labelled_arrays *arrays, eitp_error *error) {
    uint64_t count;
    const float *weights = eitp__array_weights(arrays, &count);
    for (uint64_t i = 0; i < count; i++) {
        if (!(weights[i] >= 0 && weights[i] <= FLT_MAX))
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "weight %llu must be finite and at least 0 (got %g)",
                              (unsigned long long)i, (double)weights[i]);
    }
    return EITP_OK;
}

static eitp_status eitp__arrays_check(const eitp_labelled_arrays *arrays, eitp_error *error) {
    const int problem = (int)arrays->problem;
    if (problem < EITP_PROBLEM_UNKNOWN || problem > EITP_PROBLEM_TOKENS)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "unknown problem %d", problem);
    if (arrays->label_count < 0 || arrays->label_count > INT32_MAX || !arrays->label_count != !problem)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "label_count must be at least 1, or 0 with EITP_PROBLEM_UNKNOWN (got %lld)",
                          (long long)arrays->label_count);
    if (!arrays->count || !arrays->starts || !arrays->ids ||
        (problem == EITP_PROBLEM_SINGLE_LABEL && !arrays->labels) || (eitp__has_targets(arrays) && !arrays->targets) ||
        (problem == EITP_PROBLEM_TOKENS && !arrays->token_labels))
        return eitp__fail_null(error, "eitp_labelled_memory_source",
                               "starts, ids, labels, targets or token_labels of at least one sample");
    for (uint64_t i = 0; i < arrays->count; i++) {
        eitp_status status = eitp__arrays_check_sample(arrays, i, error);
        if (status != EITP_OK)
            return status;
    }
    return arrays->weights ? eitp__check_array_weights(arrays, error) : EITP_OK;
}

static uint64_t eitp__arrays_hash(const eitp_labelled_arrays *arrays) {
    const uint64_t first = arrays->starts[0], ids = arrays->starts[arrays->count] - first;
    const uint64_t targets = arrays->count * (uint64_t)arrays->label_count;
    uint64_t hash = EITP__FNV_START;
    hash = eitp__fnv1a(hash, arrays->starts, (size_t)(arrays->count + 1) * sizeof *arrays->starts);
    hash = eitp__fnv1a(hash, arrays->ids + first, (size_t)ids * sizeof *arrays->ids);
    if (arrays->segments)
        hash = eitp__fnv1a(hash, arrays->segments + first, (size_t)ids * sizeof *arrays->segments);
    if (arrays->problem == EITP_PROBLEM_SINGLE_LABEL)
        hash = eitp__fnv1a(hash, arrays->labels, (size_t)arrays->count * sizeof *arrays->labels);
    else if (arrays->problem == EITP_PROBLEM_TOKENS)
        hash = eitp__fnv1a(hash, arrays->token_labels + first, (size_t)ids * sizeof *arrays->token_labels);
    else if (eitp__has_targets(arrays))
        hash = eitp__fnv1a(hash, arrays->targets, (size_t)targets * sizeof *arrays->targets);
    if (arrays->weights) {
        uint64_t count;
        const float *weights = eitp__array_weights(arrays, &count);
        hash = eitp__fnv1a(hash, weights, (size_t)count * sizeof *weights);
    }
    return hash ? hash : 1;
}

eitp_status eitp_labelled_memory_source(const eitp_labelled_arrays *arrays, eitp_labelled_source *source,
                                        eitp_error *error) {
    if (!arrays || !source)
        return eitp__fail_null(error, "eitp_labelled_memory_source", "arrays and source");
    memset(source, 0, sizeof *source);
    eitp_status status = eitp__arrays_check(arrays, error);
    if (status != EITP_OK)
        return status;
    source->user = (void *)arrays; /* only read, never written */
    source->count = arrays->count;
    source->problem = arrays->problem;
    source->label_count = arrays->label_count;
    source->labels = arrays->names;
    source->has_weights = arrays->weights != NULL;
    source->hash = eitp__arrays_hash(arrays);
    source->read = eitp__read_labelled_arrays;
    for (uint64_t i = 0; i < arrays->count; i++) {
        const int64_t length = (int64_t)eitp__array_length(arrays, i);
        source->max_length = length > source->max_length ? length : source->max_length;
    }
    return EITP_OK;
}
