#include "task/samples.h"

/* A random number below `limit`, the same for the same place (SplitMix64: Steele and others, OOPSLA 2014). */
static int32_t random_below(uint64_t place, int64_t limit) {
    uint64_t z = (place + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (int32_t)(((z ^ z >> 31) >> 32) * (uint64_t)limit >> 32);
}

static eitp_status read_tokens(void *user, uint64_t first, uint64_t count, int32_t *ids, eitp_error *error) {
    const fit_plan *plan = (const fit_plan *)user;
    (void)error;
    for (uint64_t i = 0; i < count; i++)
        ids[i] = random_below(first + i, plan->model.vocabulary);
    return EITP_OK;
}

eitp_token_source samples_tokens(const fit_plan *plan, uint64_t count) {
    eitp_token_source source;
    memset(&source, 0, sizeof source);
    source.user = (void *)plan;
    source.count = source.range.count = count * (uint64_t)plan->block_size + 1;
    source.end_of_text = -1;
    source.read = read_tokens;
    return source;
}

static eitp_status read_labelled(void *user, uint64_t number, eitp_labelled_sample *sample, eitp_error *error) {
    const fit_plan *plan = (const fit_plan *)user;
    sample->length = plan->block_size;
    if (sample->segments)
        memset(sample->segments, 0, (size_t)sample->length * sizeof *sample->segments);
    sample->label = plan->model.labels ? random_below(~number, plan->model.labels) : -1;
    for (int64_t i = 0; sample->targets && i < plan->model.labels; i++)
        sample->targets[i] = (float)(i == sample->label);
    for (int64_t i = 0; sample->token_labels && i < sample->length; i++)
        sample->token_labels[i] = random_below(~(number * (uint64_t)sample->length + (uint64_t)i), plan->model.labels);
    return sample->ids
               ? read_tokens(user, number * (uint64_t)sample->length, (uint64_t)sample->length, sample->ids, error)
               : EITP_OK;
}

eitp_labelled_source samples_labelled(const fit_plan *plan, uint64_t count) {
    eitp_labelled_source source;
    memset(&source, 0, sizeof source);
    source.user = (void *)plan;
    source.count = count;
    source.max_length = plan->block_size;
    source.problem = plan->model.problem ? plan->model.problem : EITP_PROBLEM_SINGLE_LABEL;
    source.label_count = plan->model.labels;
    source.read = read_labelled;
    return source;
}
