/* Random data: the samples of trainings that are only planned. */
#include "recipe/training.h"

/* Enough for any benchmark. */
enum { EITP__RANDOM_SAMPLES = 1 << 20 };

/* Returns a random number below `limit` that depends only on `place` (SplitMix64: Steele and others, OOPSLA 2014). */
static int32_t eitp__random_below(uint64_t place, int64_t limit) {
    uint64_t z = (place + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (int32_t)(((z ^ z >> 31) >> 32) * (uint64_t)limit >> 32);
}

static uint64_t eitp__random_count(const eitp_training *training, eitp_split split) {
    return split == EITP_TRAINING ? (uint64_t)EITP__RANDOM_SAMPLES : (uint64_t)training->validates;
}

/* ---- Tokens ---- */

static eitp_status eitp__read_random_tokens(void *user, uint64_t first, uint64_t count, int32_t *ids,
                                            eitp_error *error) {
    const eitp_training *training = (const eitp_training *)user;
    (void)error;
    for (uint64_t i = 0; i < count; i++)
        ids[i] = eitp__random_below(first + i, training->shape.vocabulary);
    return EITP_OK;
}

EITP__PRIVATE eitp_token_source eitp__random_tokens(const eitp_training *training, eitp_split split) {
    eitp_token_source source = EITP__ZERO;
    source.user = (void *)(uintptr_t)training;
    source.count = source.range.count = eitp__random_count(training, split) * (uint64_t)training->rows + 1;
    source.end_of_text = -1;
    source.read = eitp__read_random_tokens;
    return source;
}

/* ---- Samples ---- */

/* Returns the tokens of a sample in the encoder's tokenizer, or 0 if it has no separate one. */
static int64_t eitp__random_second(const eitp_training *training) {
    return training->encoder_tokenizer ? eitp_transformer_config_positions(&training->latent.encoder) : 0;
}

static int64_t eitp__random_length(const eitp_training *training) {
    const int64_t planned = training->planned_length;
    return planned && planned < training->rows ? planned : training->rows;
}

static void eitp__read_random_second(const eitp_training *training, uint64_t number, int64_t length, int32_t *ids) {
    for (int64_t i = 0; i < length; i++)
        ids[i] = eitp__random_below(number * (uint64_t)length + (uint64_t)i, training->latent.encoder.vocabulary);
}

static void eitp__read_random_labels(const eitp_training *training, uint64_t number, eitp_labelled_sample *sample) {
    const int64_t labels = training->shape.labels;
    const uint64_t first = number * (uint64_t)sample->length;
    sample->label = labels ? eitp__random_below(~number, labels) : -1;
    for (int64_t i = 0; sample->targets && i < labels; i++)
        sample->targets[i] = (float)(i == sample->label);
    for (int64_t i = 0; sample->token_labels && i < sample->length; i++)
        sample->token_labels[i] = labels ? eitp__random_below(~(first + (uint64_t)i), labels) : 0;
}

static eitp_status eitp__read_random_sample(void *user, uint64_t number, eitp_labelled_sample *sample,
                                            eitp_error *error) {
    const eitp_training *training = (const eitp_training *)user;
    const int64_t second = eitp__random_second(training);
    sample->length = eitp__random_length(training);
    eitp__read_random_labels(training, number, sample);
    if (second && sample->second) {
        eitp__read_random_second(training, number, second, sample->second);
        sample->second_length = second;
    }
    if (sample->segments)
        memset(sample->segments, 0, (size_t)sample->length * sizeof *sample->segments);
    return sample->ids ? eitp__read_random_tokens(user, number * (uint64_t)sample->length, (uint64_t)sample->length,
                                                  sample->ids, error)
                       : EITP_OK;
}

/* Conversations, whose models have no labels, are samples with some tokens to train on. */
static eitp_problem eitp__random_problem(const eitp_training *training) {
    if (training->chat)
        return EITP_PROBLEM_TOKENS;
    return training->shape.problem ? training->shape.problem : EITP_PROBLEM_SINGLE_LABEL;
}

EITP__PRIVATE eitp_labelled_source eitp__random_samples(const eitp_training *training, eitp_split split) {
    eitp_labelled_source source = EITP__ZERO;
    source.user = (void *)(uintptr_t)training;
    source.count = eitp__random_count(training, split);
    source.max_second = eitp__random_second(training);
    source.max_first = source.max_second ? eitp__random_length(training) : 0;
    source.max_length = eitp__random_length(training) + source.max_second;
    source.problem = eitp__random_problem(training);
    source.label_count = training->shape.labels;
    source.read = eitp__read_random_sample;
    return source;
}
