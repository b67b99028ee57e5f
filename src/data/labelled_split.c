/* Training and validation parts with the same share of each label. */
#include "base/random.h"
#include "base/sort.h"
#include "data/labelled_part.h"

/* A sample while parts are drawn. Unless the problem is single-label, all samples count as having one label. */
typedef struct eitp__drawn_sample {
    uint64_t random;
    uint32_t sample;
    uint32_t label;
    uint32_t rank;  /* index among the samples of its label, in random order */
    uint32_t count; /* number of samples with its label */
} eitp__drawn_sample;

static int eitp__compare_random(const void *a, const void *b) {
    const eitp__drawn_sample *left = (const eitp__drawn_sample *)a, *right = (const eitp__drawn_sample *)b;
    if (left->random != right->random)
        return left->random < right->random ? -1 : 1;
    return left->sample < right->sample ? -1 : left->sample > right->sample;
}

/*
 * Compares the order in which samples are drawn for validation. The first of each label comes before all others and its
 * last after them, so that both parts have one. Between them Webster's method applies: sample k of n has quotient n /
 * (2 k + 1), and the largest comes first.
 */
static int eitp__compare_draw_order(const void *a, const void *b) {
    const eitp__drawn_sample *left = (const eitp__drawn_sample *)a, *right = (const eitp__drawn_sample *)b;
    const int left_last = left->rank + 1 == left->count, right_last = right->rank + 1 == right->count;
    /* The divisors of the quotients, 0 for the first sample of a label. */
    const uint64_t left_divisor = left->rank ? 2 * (uint64_t)left->rank + 1 : 0;
    const uint64_t right_divisor = right->rank ? 2 * (uint64_t)right->rank + 1 : 0;
    const uint64_t left_key = left_divisor * right->count, right_key = right_divisor * left->count;
    if (left_last != right_last)
        return left_last - right_last;
    if (left_key != right_key)
        return left_key < right_key ? -1 : 1;
    if (left->count != right->count)
        return left->count > right->count ? -1 : 1;
    return left->label < right->label ? -1 : left->label > right->label;
}

/* Reads the label of each sample. Samples with a single label have one value each. */
static eitp_status eitp__drawn_labels(const eitp_sample_file *file, eitp__drawn_sample *samples, eitp_error *error) {
    uint32_t values[EITP__SAMPLE_CHUNK / EITP__SAMPLE_VALUE_SIZE];
    const uint64_t all = file->layout.info.problem == EITP_PROBLEM_SINGLE_LABEL ? file->layout.info.sample_count : 0;
    for (uint64_t first = 0; first < all;) {
        const size_t count = all - first < EITP__COUNT(values) ? (size_t)(all - first) : EITP__COUNT(values);
        eitp_status status = eitp__sample_read_values(file, first, count, values, error);
        if (status != EITP_OK)
            return status;
        for (size_t i = 0; i < count; i++)
            samples[first + i].label = values[i];
        first += count;
    }
    return EITP_OK;
}

/* Sets the rank of each sample, according to the random order that the samples are in. */
static eitp_status eitp__drawn_ranks(const eitp_sample_file *file, eitp__drawn_sample *samples, eitp_error *error) {
    const uint64_t all = file->layout.info.sample_count;
    const size_t labels = file->layout.info.label_count > 0 ? (size_t)file->layout.info.label_count : 1;
    uint32_t *counts = (uint32_t *)eitp__allocate(&file->host, labels * sizeof *counts);
    if (!counts)
        return eitp__fail_memory(error, labels * sizeof *counts, "counting the samples of labels");
    for (uint64_t i = 0; i < all; i++)
        samples[i].rank = counts[samples[i].label]++;
    for (uint64_t i = 0; i < all; i++)
        samples[i].count = counts[samples[i].label];
    eitp__release(&file->host, counts, labels * sizeof *counts);
    return EITP_OK;
}

/* Sorts the samples into the order in which they are drawn for validation. */
static eitp_status eitp__draw_samples(const eitp_sample_file *file, uint64_t seed, eitp__drawn_sample *samples,
                                      eitp_error *error) {
    const size_t all = (size_t)file->layout.info.sample_count;
    for (size_t i = 0; i < all; i++) {
        memset(&samples[i], 0, sizeof samples[i]);
        samples[i].random = eitp__random_bits(seed, 0, EITP__RNG_STREAM_SPLIT, i);
        samples[i].sample = (uint32_t)i;
    }
    eitp_status status = eitp__drawn_labels(file, samples, error);
    if (status != EITP_OK)
        return status;
    eitp__sort(samples, all, sizeof *samples, eitp__compare_random);
    status = eitp__drawn_ranks(file, samples, error);
    if (status == EITP_OK)
        eitp__sort(samples, all, sizeof *samples, eitp__compare_draw_order);
    return status;
}

static int eitp__compare_sample_numbers(const void *a, const void *b) {
    const uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

/* Creates a part of drawn samples, in file order. */
static eitp_status eitp__part_of_drawn(const eitp_sample_file *file, const eitp__drawn_sample *samples, uint64_t count,
                                       eitp_labelled_part **part, eitp_error *error) {
    eitp_labelled_part *created = NULL;
    eitp_status status = eitp__labelled_part_allocate(file, count, &created, error);
    if (status != EITP_OK)
        return status;
    for (uint64_t i = 0; i < count; i++)
        created->samples[i] = samples[i].sample;
    eitp__sort(created->samples, (size_t)count, sizeof *created->samples, eitp__compare_sample_numbers);
    status = eitp__labelled_part_finish(created, error);
    if (status != EITP_OK)
        eitp_labelled_part_destroy(created);
    else
        *part = created;
    return status;
}

static eitp_status eitp__split_drawn(const eitp_sample_file *file, uint64_t seed, uint64_t validation_count,
                                     eitp_labelled_part **training, eitp_labelled_part **validation,
                                     eitp_error *error) {
    const uint64_t all = file->layout.info.sample_count;
    const size_t bytes = (size_t)all * sizeof(eitp__drawn_sample);
    eitp__drawn_sample *samples = (eitp__drawn_sample *)eitp__allocate_uninitialized(&file->host, bytes);
    if (!samples)
        return eitp__fail_memory(error, bytes, "splitting a labelled file");
    eitp_status status = eitp__draw_samples(file, seed, samples, error);
    if (status == EITP_OK)
        status = eitp__part_of_drawn(file, samples, validation_count, validation, error);
    if (status == EITP_OK)
        status = eitp__part_of_drawn(file, samples + validation_count, all - validation_count, training, error);
    eitp__release(&file->host, samples, bytes);
    if (status != EITP_OK) {
        eitp_labelled_part_destroy(*validation);
        *validation = NULL;
    }
    return status;
}

eitp_status eitp_labelled_split(const eitp_sample_file *file, double validation_fraction, uint64_t seed,
                                eitp_labelled_part **training, eitp_labelled_part **validation, eitp_error *error) {
    if (!file || !training || !validation)
        return eitp__fail_null(error, "eitp_labelled_split", "file, training and validation");
    const uint64_t all = file->layout.info.sample_count;
    *training = *validation = NULL;
    if (!all)
        return eitp__fail_no_samples(file, error);
    if (!(validation_fraction >= 0 && validation_fraction < 1))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "validation_fraction must be at least 0 and below 1 (got %g)",
                          validation_fraction);
    if (validation_fraction > 0 && all < 2)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "one sample cannot be split; give more, or a validation_fraction of 0");
    uint64_t count = (uint64_t)llround((double)all * validation_fraction);
    if (validation_fraction > 0)
        count = count < 1 ? 1 : count > all - 1 ? all - 1 : count;
    return eitp__split_drawn(file, seed, count, training, validation, error);
}
