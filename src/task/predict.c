/* Runs inputs through a predictor: a chunk of inputs is encoded, then packed into passes. */
#include "base/sort.h"
#include "base/status.h"
#include "task/embedding.h"
#include "task/predictor_state.h"

/* ---- Encoding ---- */

/* Returns the number of results of an input: one, or one per word. */
static int64_t eitp__value_count(const eitp_predictor *p, const eitp_text_pair *text) {
    return p->config.prediction == EITP_PREDICT_WORD_SCORES ? (int64_t)text->word_count : 1;
}

/* Replaces an input without tokens by end-of-text. */
static eitp_status eitp__predictor_encode_nothing(eitp_predictor *p, int32_t *ids, size_t *count, eitp_error *error) {
    ids[0] = eitp_tokenizer_end_of_text(p->tokenizer);
    p->chunk_words[p->chunk_used] = -1;
    *count = 1;
    return ids[0] >= 0 ? EITP_OK
                       : eitp__fail(error, EITP_ERROR_ARGUMENT,
                                    "the text has no tokens, and the tokenizer has no end-of-text to use instead");
}

/* Appends an input to the chunk, which has room for it. */
static eitp_status eitp__predictor_encode(eitp_predictor *p, const eitp_text_pair *texts, int64_t text,
                                          eitp_prediction_report *report, eitp_error *error) {
    const eitp_text_pair *pair = &texts[text];
    int32_t *ids = p->chunk_ids + p->chunk_used;
    eitp__encoded_text *encoded = &p->chunk[p->chunk_count];
    eitp_sequence_config config = eitp_sequence_config_default();
    eitp_sequence_report sequence;
    eitp_status status;
    config.max_length = (int32_t)p->shape.max_length;
    config.truncation = p->config.truncation;
    config.truncate_left = p->config.truncate_left;
    config.omit_special_tokens = p->config.omit_special_tokens;
    if (p->config.prediction == EITP_PREDICT_WORD_SCORES)
        status = eitp_tokenizer_encode_words(p->tokenizer, pair->words, pair->word_count, &config, ids,
                                             p->chunk_segments + p->chunk_used, p->chunk_words + p->chunk_used,
                                             (size_t)p->shape.max_length, &sequence, error);
    else
        status = eitp_tokenizer_encode_sequence(p->tokenizer, &pair->first, pair->second.bytes ? &pair->second : NULL,
                                                &config, ids, p->chunk_segments + p->chunk_used,
                                                (size_t)p->shape.max_length, &sequence, error);
    if (!status && !sequence.count)
        status = eitp__predictor_encode_nothing(p, ids, &sequence.count, error);
    if (status)
        return eitp__fail_prefix(error, status, "text %lld", (long long)(p->given + text + 1));
    encoded->text = text;
    encoded->first = p->chunk_used;
    encoded->length = (int64_t)sequence.count;
    encoded->value = p->next_value;
    p->next_value += eitp__value_count(p, pair);
    p->chunk_count++;
    p->chunk_used += encoded->length;
    report->tokens += encoded->length;
    report->cut += sequence.cut_first || sequence.cut_second;
    report->cut_words += (int64_t)sequence.cut_words;
    return EITP_OK;
}

static int eitp__compare_lengths(const void *a, const void *b) {
    const eitp__encoded_text *first = (const eitp__encoded_text *)a, *second = (const eitp__encoded_text *)b;
    if (first->length != second->length)
        return first->length > second->length ? -1 : 1;
    return first->text < second->text ? -1 : first->text > second->text;
}

/* Encodes inputs from *next on until the chunk is full. */
static eitp_status eitp__predictor_fill_chunk(eitp_predictor *p, const eitp_text_pair *texts, int64_t count,
                                              int64_t *next, eitp_prediction_report *report, eitp_error *error) {
    const eitp__predictor_shape *shape = &p->shape;
    eitp_status status = EITP_OK;
    p->chunk_count = p->chunk_used = 0;
    while (!status && *next < count && p->chunk_count < shape->chunk_texts &&
           p->chunk_used + shape->max_length <= shape->chunk_tokens)
        status = eitp__predictor_encode(p, texts, (*next)++, report, error);
    eitp__sort(p->chunk, (size_t)p->chunk_count, sizeof *p->chunk, eitp__compare_lengths);
    return status;
}

/* ---- Passes ---- */

/* Moves an input from the chunk to the pass. */
static void eitp__predictor_take(eitp_predictor *p, eitp__encoded_text *encoded) {
    const size_t bytes = (size_t)encoded->length * sizeof(int32_t);
    eitp__encoded_text *taken = &p->pass[p->pass_count++];
    *taken = *encoded;
    taken->first = p->pass_used;
    memcpy(p->ids + taken->first, p->chunk_ids + encoded->first, bytes);
    memcpy(p->segments + taken->first, p->chunk_segments + encoded->first, bytes);
    memcpy(p->words + taken->first, p->chunk_words + encoded->first, bytes);
    eitp_model_fill_positions(eitp__predictor_reader(p->model, p->config.prediction), p->ids + taken->first,
                              taken->length, p->positions + taken->first);
    p->pass_used += taken->length;
    encoded->length = 0;
}

/* Fills a pass with the longest inputs of the chunk that fit, from chunk[*from] on. All inputs before it are done. */
static void eitp__predictor_fill_pass(eitp_predictor *p, int64_t *from) {
    p->pass_count = p->pass_used = 0;
    while (*from < p->chunk_count && !p->chunk[*from].length)
        ++*from;
    for (int64_t i = *from; i < p->chunk_count && p->pass_count < p->shape.pass_texts; i++) {
        if (p->chunk[i].length && p->pass_used + p->chunk[i].length <= p->shape.pass_tokens)
            eitp__predictor_take(p, &p->chunk[i]);
    }
    for (int64_t i = 0; i <= p->shape.pass_texts; i++)
        p->offsets[i] = (int32_t)(i < p->pass_count ? p->pass[i].first : p->pass_used);
    for (int64_t i = 0; i < p->shape.pass_texts; i++) {
        p->bounds[2 * i] = i < p->pass_count ? p->offsets[i] : -1;
        p->bounds[2 * i + 1] = i < p->pass_count ? p->offsets[i + 1] : -1;
    }
}

static eitp_status eitp__predictor_execute(eitp_predictor *p, eitp_error *error) {
    const eitp_model_inputs *inputs = &p->built.inputs;
    const size_t rows = (size_t)p->pass_used * sizeof(int32_t), texts = (size_t)p->shape.pass_texts;
    const int of_texts = eitp__predicts_texts(p->config.prediction);
    const size_t results = (size_t)p->shape.width * (of_texts ? texts : (size_t)p->pass_used);
    eitp_status status = eitp_plan_set_rows(p->plan, p->pass_used, error);
    if (!status)
        status = eitp_plan_write(p->plan, inputs->tokens, p->ids, rows, error);
    if (!status)
        status = eitp_plan_write(p->plan, inputs->positions, p->positions, rows, error);
    if (!status)
        status = eitp_plan_write(p->plan, inputs->offsets, p->offsets, (texts + 1) * sizeof *p->offsets, error);
    if (!status && inputs->segments)
        status = eitp_plan_write(p->plan, inputs->segments, p->segments, rows, error);
    if (!status && of_texts)
        status = eitp_plan_write(p->plan, inputs->bounds, p->bounds, 2 * texts * sizeof *p->bounds, error);
    if (!status)
        status = eitp_plan_execute(p->plan, error);
    return status ? status : eitp_plan_read(p->plan, p->built.output, p->results, results * sizeof *p->results, error);
}

static void eitp__predictor_store_embedding(const eitp_predictor *p, const eitp__encoded_text *text, float *value) {
    const int64_t width = p->shape.width;
    eitp__embedding_pool(p->config.pooling, p->results + text->first * width, text->length, width, value);
    if (p->config.normalize)
        eitp__embedding_normalize(value, width);
}

/* Stores the scores of the first token of each word. */
static void eitp__predictor_store_words(const eitp_predictor *p, const eitp__encoded_text *text, float *values) {
    const int64_t width = p->shape.width;
    const int32_t *words = p->words + text->first;
    for (int64_t i = 0; i < text->length; i++) {
        if (words[i] >= 0 && (!i || words[i] != words[i - 1]))
            memcpy(values + words[i] * width, p->results + (text->first + i) * width, (size_t)width * sizeof *values);
    }
}

/* Stores the results of a pass's inputs at their positions in `values`. */
static void eitp__predictor_store(const eitp_predictor *p, float *values) {
    const int64_t width = p->shape.width;
    for (int64_t i = 0; i < p->pass_count; i++) {
        const eitp__encoded_text *text = &p->pass[i];
        float *value = values + text->value * width;
        if (eitp__predicts_texts(p->config.prediction))
            memcpy(value, p->results + i * width, (size_t)width * sizeof *value);
        else if (p->config.prediction == EITP_PREDICT_WORD_SCORES)
            eitp__predictor_store_words(p, text, value);
        else
            eitp__predictor_store_embedding(p, text, value);
    }
}

/* Sets all scores of words to -INFINITY, the value of words without a token. */
static void eitp__predictor_begin(eitp_predictor *p, const eitp_text_pair *texts, int64_t count, float *values) {
    int64_t all = 0;
    p->next_value = 0;
    for (int64_t i = 0; i < count && p->config.prediction == EITP_PREDICT_WORD_SCORES; i++)
        all += eitp__value_count(p, &texts[i]);
    for (int64_t i = 0; i < all * p->shape.width; i++)
        values[i] = -(float)INFINITY;
}

eitp_status eitp_predict(eitp_predictor *predictor, const eitp_text_pair *texts, int64_t count, float *values,
                         eitp_prediction_report *report, eitp_error *error) {
    eitp_prediction_report done = EITP__ZERO;
    eitp_status status = EITP_OK;
    int64_t next = 0;
    if (!predictor || (count > 0 && (!texts || !values)))
        return eitp__fail_null(error, "eitp_predict", "predictor, texts and values");
    if (count < 0)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "count must be at least 0 (got %lld)", (long long)count);
    eitp__predictor_begin(predictor, texts, count, values);
    while (next < count && !status) {
        int64_t from = 0;
        status = eitp__predictor_fill_chunk(predictor, texts, count, &next, &done, error);
        while (!status) {
            eitp__predictor_fill_pass(predictor, &from);
            if (!predictor->pass_count)
                break;
            status = eitp__predictor_execute(predictor, error);
            if (!status)
                eitp__predictor_store(predictor, values);
            done.passes++;
        }
    }
    if (status)
        return status;
    predictor->given += count;
    if (report)
        *report = done;
    return EITP_OK;
}

/* ---- Probabilities ---- */

static void eitp__score_softmax(const float *scores, int64_t count, float *probabilities) {
    float largest = scores[0];
    double sum = 0;
    for (int64_t i = 1; i < count; i++)
        largest = scores[i] > largest ? scores[i] : largest;
    for (int64_t i = 0; i < count; i++)
        sum += exp((double)scores[i] - (double)largest);
    for (int64_t i = 0; i < count; i++)
        probabilities[i] = (float)(exp((double)scores[i] - (double)largest) / sum);
}

void eitp_predictor_probabilities(const eitp_predictor *predictor, const float *scores, int64_t count,
                                  float *probabilities) {
    const int64_t width = eitp_predictor_width(predictor);
    if (!predictor || !scores || !probabilities)
        return;
    for (int64_t i = 0; i < count; i++, scores += width, probabilities += width) {
        const int is_softmax =
            predictor->problem == EITP_PROBLEM_SINGLE_LABEL || predictor->problem == EITP_PROBLEM_TOKENS;
        if (is_softmax && isfinite(scores[0])) {
            eitp__score_softmax(scores, width, probabilities);
            continue;
        }
        for (int64_t k = 0; k < width; k++)
            probabilities[k] =
                predictor->problem == EITP_PROBLEM_MULTI_LABEL ? (float)(1 / (1 + exp(-(double)scores[k]))) : scores[k];
    }
}
