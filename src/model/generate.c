/* Generation with a key-value cache. One plan processes the prompt and the generated tokens, up to `chunk` at a
   time. */
#include "model/generate.h"

#include "base/random.h"
#include "base/setting_table.h"
#include "model/latent_state.h"
#include "model/transformer.h"
#include "model/transformer_config.h"

struct eitp_generator {
    const eitp_model *model;
    eitp_host host;
    eitp_graph *graph;
    eitp_plan *plan;
    eitp_tensor *tokens, *positions, *position, *last, *logits;
    eitp_tensor *latent,
        *latent_rows; /* F32 [1, size]; I32 [n]: 0 in rows that get the latent variable, else -1; or NULL */
    int64_t capacity, chunk, fed;
    int32_t *history; /* [capacity]: the tokens fed so far */
    int32_t *chunk_positions;
    int32_t *chunk_latent_rows; /* this and z are NULL without a latent variable */
    float *z;                   /* [size] */
    float *row;                 /* logits of the last token */
    int32_t *order;             /* tokens, most likely first, for sampling */
    double *weights;
};

#define EITP__SAMPLING_SETTING(member, kind, value, min, max, help)                                                    \
    EITP__SETTING(eitp_sampling, , member, #member, kind, value, min, max, 0, ACCEPTED, NULL, help)

static const eitp_setting eitp__sampling_settings[] = {
    EITP__SAMPLING_SETTING(temperature, NUMBER, 1, -EITP__UNBOUNDED, EITP__UNBOUNDED,
                           "divides the logits; 0 or less: always the most likely token"),
    EITP__SAMPLING_SETTING(top_k, INTEGER, 0, 0, INT32_MAX, "draw from the K most likely tokens; 0: from all"),
    EITP__SAMPLING_SETTING(top_p, NUMBER, 1, 0, 1,
                           "draw from the most likely tokens that add up to this probability; 1: from all"),
    EITP__SAMPLING_SETTING(min_p, NUMBER, 0, 0, 1,
                           "draw from the tokens with at least this fraction of the largest probability; 0: from all"),
    EITP__SAMPLING_SETTING(vocabulary, INTEGER, 0, 0, INT32_MAX, "draw token ids below this; 0: all"),
    EITP__SAMPLING_SETTING(seed, UNSIGNED, 0, 0, EITP__UNBOUNDED, "seed of the draws"),
};

EITP__PRIVATE const eitp_setting *eitp__sampling_setting_table(size_t *count) {
    if (count)
        *count = EITP__COUNT(eitp__sampling_settings);
    return eitp__sampling_settings;
}

eitp_sampling eitp_sampling_default(void) {
    eitp_sampling sampling = EITP__ZERO;
    eitp__settings_reset(eitp__sampling_settings, EITP__COUNT(eitp__sampling_settings), &sampling);
    return sampling;
}

/* Returns the projection of the latent variable that is added to the embeddings of the rows that get it. */
static eitp_tensor *eitp__generator_latent(eitp_generator *generator) {
    const eitp_model *model = generator->model;
    int64_t shape[2] = {1, 0};
    if (!model->latent)
        return NULL;
    shape[1] = model->latent->size;
    generator->latent = eitp_input(generator->graph, "latent", EITP_F32, 2, shape);
    generator->latent_rows = eitp_input_rows(generator->graph, "rows with the latent", EITP_I32, 1, &generator->chunk);
    return eitp_embedding(eitp__model_latent_embedding(model, generator->latent), generator->latent_rows);
}

/* Builds the graph: hidden states of all tokens fed, and logits of the last one. */
static eitp_status eitp__generator_plan(eitp_generator *generator, eitp_error *error) {
    eitp_graph *graph = generator->graph;
    eitp_model_inputs inputs = EITP__ZERO;
    eitp_block_inputs attention = eitp_block_inputs_default();
    eitp_tensor *hidden;
    int64_t one = 1;
    generator->tokens = inputs.tokens = eitp_input_rows(graph, "tokens", EITP_I32, 1, &generator->chunk);
    generator->positions = inputs.positions = eitp_input_rows(graph, "positions", EITP_I32, 1, &generator->chunk);
    generator->position = eitp_input(graph, "position", EITP_I32, 1, &one);
    generator->last = eitp_input(graph, "last row", EITP_I32, 1, &one);
    inputs.added = eitp__generator_latent(generator);
    attention.position = generator->position;
    attention.own_cache = 1;
    attention.max_length = generator->capacity;
    attention.lora = &generator->model->lora;
    hidden = eitp__model_hidden_with(generator->model, graph, &inputs, &attention);
    generator->logits = eitp_output(eitp_model_logits(generator->model, eitp_embedding(hidden, generator->last)));
    return eitp_plan_create(graph, &generator->plan, error);
}

eitp_status eitp_generator_create(const eitp_model *model, int64_t capacity, eitp_generator **generator,
                                  eitp_error *error) {
    if (!model || !generator)
        return eitp__fail_null(error, "eitp_generator_create", "model and generator");
    const int64_t max_chunk = 128;
    eitp_generator *created;
    eitp_status status;
    size_t vocabulary = (size_t)model->config.vocabulary;
    *generator = NULL;
    if (model->config.bidirectional)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "a model with bidirectional attention cannot generate; use a causal model");
    if (capacity < 0 || capacity > model->config.positions)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "capacity of %lld tokens is out of range (0 to the model's %lld positions)",
                          (long long)capacity, (long long)model->config.positions);
    created = (eitp_generator *)eitp__allocate(&model->host, sizeof *created);
    if (!created)
        return eitp__fail_memory(error, sizeof *created, "a generator");
    created->model = model;
    created->host = model->host;
    created->capacity = capacity ? capacity : model->config.positions;
    created->chunk = created->capacity < max_chunk ? created->capacity : max_chunk;
    created->chunk_positions =
        (int32_t *)eitp__allocate(&created->host, (size_t)created->chunk * sizeof *created->chunk_positions);
    created->history = (int32_t *)eitp__allocate(&created->host, (size_t)created->capacity * sizeof *created->history);
    created->row = (float *)eitp__allocate(&created->host, vocabulary * sizeof *created->row);
    created->order = (int32_t *)eitp__allocate(&created->host, vocabulary * sizeof *created->order);
    created->weights = (double *)eitp__allocate(&created->host, vocabulary * sizeof *created->weights);
    if (model->latent) {
        created->chunk_latent_rows =
            (int32_t *)eitp__allocate(&created->host, (size_t)created->chunk * sizeof *created->chunk_latent_rows);
        created->z = (float *)eitp__allocate(&created->host, (size_t)model->latent->size * sizeof *created->z);
    }
    if (!created->chunk_positions || !created->history || !created->row || !created->order || !created->weights ||
        (model->latent && (!created->chunk_latent_rows || !created->z)))
        status =
            eitp__fail_memory(error, vocabulary * (sizeof *created->row + sizeof *created->weights), "a generator");
    else
        status = eitp_graph_create(model->context, &created->graph, error);
    if (!status)
        status = eitp__generator_plan(created, error);
    if (status) {
        eitp_generator_destroy(created);
        return status;
    }
    *generator = created;
    return EITP_OK;
}

void eitp_generator_destroy(eitp_generator *generator) {
    eitp_host host;
    size_t vocabulary;
    if (!generator)
        return;
    host = generator->host;
    vocabulary = (size_t)generator->model->config.vocabulary;
    eitp_plan_destroy(generator->plan);
    eitp_graph_destroy(generator->graph);
    if (generator->chunk_latent_rows)
        eitp__release(&host, generator->chunk_latent_rows,
                      (size_t)generator->chunk * sizeof *generator->chunk_latent_rows);
    if (generator->z)
        eitp__release(&host, generator->z, (size_t)generator->model->latent->size * sizeof *generator->z);
    eitp__release(&host, generator->chunk_positions, (size_t)generator->chunk * sizeof *generator->chunk_positions);
    eitp__release(&host, generator->history, (size_t)generator->capacity * sizeof *generator->history);
    eitp__release(&host, generator->row, vocabulary * sizeof *generator->row);
    eitp__release(&host, generator->order, vocabulary * sizeof *generator->order);
    eitp__release(&host, generator->weights, vocabulary * sizeof *generator->weights);
    eitp__release(&host, generator, sizeof *generator);
}

EITP__PRIVATE size_t eitp__generator_cache_bytes(const eitp_generator *generator) {
    return eitp_plan_statistics(generator->plan).kept_bytes;
}

void eitp_generator_reset(eitp_generator *generator) {
    if (generator)
        generator->fed = 0;
}

EITP__PRIVATE int64_t eitp__generator_capacity(const eitp_generator *generator) {
    return generator->capacity;
}

EITP__PRIVATE int64_t eitp__generator_rewind(eitp_generator *generator, const int32_t *tokens, int64_t count) {
    int64_t kept = 0;
    while (kept < generator->fed && kept < count - 1 && generator->history[kept] == tokens[kept])
        kept++;
    generator->fed = kept;
    return kept;
}

EITP__PRIVATE int eitp__generator_ends_with(const eitp_generator *generator, int32_t token) {
    return eitp__token_ids_have(&generator->model->config.end, token);
}

int64_t eitp_generator_remaining(const eitp_generator *generator) {
    return generator ? generator->capacity - generator->fed : 0;
}

eitp_status eitp_generator_set_latent(eitp_generator *generator, const float *z, eitp_error *error) {
    if (!generator || !z)
        return eitp__fail_null(error, "eitp_generator_set_latent", "generator and z");
    if (!generator->latent)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the model has no latent variable");
    for (int64_t i = 0; i < generator->model->latent->size; i++) {
        if (!isfinite(z[i]))
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "unit %lld of the latent variable is not finite",
                              (long long)i);
    }
    memcpy(generator->z, z, (size_t)generator->model->latent->size * sizeof *z);
    eitp_generator_reset(generator);
    return EITP_OK;
}

/* Writes the latent variable, and marks which of the next `count` rows get it. */
static eitp_status eitp__feed_latent(eitp_generator *generator, int64_t count, eitp_error *error) {
    const eitp__latent *latent = generator->model->latent;
    eitp_status status;
    if (!latent)
        return EITP_OK;
    for (int64_t i = 0; i < count; i++)
        generator->chunk_latent_rows[i] = latent->input == EITP_LATENT_ADDED || generator->fed + i == 0 ? 0 : -1;
    status = eitp_plan_write(generator->plan, generator->latent_rows, generator->chunk_latent_rows,
                             (size_t)count * sizeof *generator->chunk_latent_rows, error);
    return status ? status
                  : eitp_plan_write(generator->plan, generator->latent, generator->z,
                                    (size_t)latent->size * sizeof *generator->z, error);
}

static eitp_status eitp__feed_chunk(eitp_generator *generator, const int32_t *tokens, int64_t count,
                                    eitp_error *error) {
    int32_t first = (int32_t)generator->fed, last = (int32_t)count - 1;
    size_t bytes = (size_t)count * sizeof *tokens;
    eitp_status status = eitp_plan_set_rows(generator->plan, count, error);
    for (int64_t i = 0; i < count; i++)
        generator->chunk_positions[i] = first + (int32_t)i;
    if (!status)
        status = eitp_plan_write(generator->plan, generator->tokens, tokens, bytes, error);
    if (!status)
        status = eitp_plan_write(generator->plan, generator->positions, generator->chunk_positions, bytes, error);
    if (!status)
        status = eitp_plan_write(generator->plan, generator->position, &first, sizeof first, error);
    if (!status)
        status = eitp_plan_write(generator->plan, generator->last, &last, sizeof last, error);
    if (!status)
        status = eitp__feed_latent(generator, count, error);
    if (!status)
        status = eitp_plan_execute(generator->plan, error);
    if (!status)
        status = eitp_plan_read(generator->plan, generator->logits, generator->row,
                                (size_t)generator->model->config.vocabulary * sizeof *generator->row, error);
    if (status)
        return status;
    memcpy(generator->history + generator->fed, tokens, bytes);
    generator->fed += count;
    return EITP_OK;
}

eitp_status eitp_generator_feed(eitp_generator *generator, const int32_t *tokens, int64_t count, eitp_error *error) {
    eitp_status status = EITP_OK;
    if (!generator || !tokens)
        return eitp__fail_null(error, "eitp_generator_feed", "generator and tokens");
    if (count < 1 || count > eitp_generator_remaining(generator))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "cannot feed %lld tokens: the cache has room for 1 to %lld more",
                          (long long)count, (long long)eitp_generator_remaining(generator));
    for (int64_t i = 0; i < count; i++) {
        if (tokens[i] < 0 || tokens[i] >= generator->model->config.vocabulary)
            return eitp__fail(error, EITP_ERROR_ARGUMENT,
                              "token id %d is out of range for the model's vocabulary of %lld", (int)tokens[i],
                              (long long)generator->model->config.vocabulary);
    }
    for (int64_t i = 0; i < count && !status; i += generator->chunk) {
        int64_t part = count - i < generator->chunk ? count - i : generator->chunk;
        status = eitp__feed_chunk(generator, tokens + i, part, error);
    }
    return status;
}

const float *eitp_generator_logits(const eitp_generator *generator) {
    return generator ? generator->row : NULL;
}

/* Returns the number of tokens to choose from. */
static int64_t eitp__sampled_tokens(const eitp_generator *generator, const eitp_sampling *sampling) {
    int64_t vocabulary = generator->model->config.vocabulary;
    return sampling->vocabulary > 0 && sampling->vocabulary < vocabulary ? sampling->vocabulary : vocabulary;
}

static int32_t eitp__most_likely(const float *logits, int64_t count) {
    int32_t best = 0;
    for (int32_t i = 1; i < count; i++) {
        if (logits[i] > logits[best])
            best = i;
    }
    return best;
}

/* True if token a is more likely than b. Ties go to the lower id. */
static int eitp__more_likely(const float *logits, int32_t a, int32_t b) {
    if (logits[a] != logits[b])
        return logits[a] > logits[b];
    return a < b;
}

static void eitp__sift_most_likely(const float *logits, int32_t *heap, int64_t root, int64_t count) {
    for (;;) {
        int64_t best = root;
        int32_t other = heap[root];
        for (int64_t child = 2 * root + 1; child <= 2 * root + 2 && child < count; child++) {
            if (eitp__more_likely(logits, heap[child], heap[best]))
                best = child;
        }
        if (best == root)
            return;
        heap[root] = heap[best];
        heap[best] = other;
        root = best;
    }
}

/* Pops tokens from a heap, most likely first, until top_k tokens, the probability top_p, or a token below min_p is
   reached. Draws from the popped tokens. */
static int32_t eitp__sample_sorted(eitp_generator *generator, const eitp_sampling *sampling, double uniform,
                                   double total) {
    int64_t count = eitp__sampled_tokens(generator, sampling), left = count, popped = 0;
    int64_t max_count = sampling->top_k > 0 && sampling->top_k < count ? sampling->top_k : count;
    const float *logits = generator->row;
    int32_t *heap = generator->order;
    double kept = 0, sum = 0, limit = sampling->top_p < 1 ? sampling->top_p * total : total;
    for (int64_t i = 0; i < count; i++)
        heap[i] = (int32_t)i;
    for (int64_t i = count / 2 - 1; i >= 0; i--)
        eitp__sift_most_likely(logits, heap, i, count);
    /* The weight of the most likely token is 1. */
    while (popped < max_count && (popped == 0 || (kept < limit && generator->weights[heap[0]] >= sampling->min_p))) {
        int32_t top = heap[0];
        kept += generator->weights[top];
        popped++;
        /* Popped tokens are stored behind the shrinking heap, with the most likely last. */
        heap[0] = heap[--left];
        heap[left] = top;
        eitp__sift_most_likely(logits, heap, 0, left);
    }
    for (int64_t i = 0; i < popped; i++) {
        int32_t token = heap[count - 1 - i];
        sum += generator->weights[token];
        if (uniform * kept < sum)
            return token;
    }
    return heap[count - popped];
}

int32_t eitp_generator_sample(eitp_generator *generator, const eitp_sampling *sampling) {
    const float *logits = eitp_generator_logits(generator);
    double total = 0, sum = 0, uniform;
    int64_t count;
    int32_t best;
    if (!logits || !sampling)
        return -1;
    count = eitp__sampled_tokens(generator, sampling);
    best = eitp__most_likely(logits, count);
    if (!(sampling->temperature > 0) || sampling->top_k == 1)
        return best;
    for (int64_t i = 0; i < count; i++) {
        generator->weights[i] = exp(((double)logits[i] - (double)logits[best]) / sampling->temperature);
        total += generator->weights[i];
    }
    uniform = eitp__random_uniform(sampling->seed, (uint64_t)generator->fed, EITP__RNG_STREAM_SAMPLE, 0);
    if (sampling->top_k > 0 || sampling->top_p < 1 || sampling->min_p > 0)
        return eitp__sample_sorted(generator, sampling, uniform, total);
    for (int32_t i = 0; i < count; i++) {
        sum += generator->weights[i];
        if (uniform * total < sum)
            return i;
    }
    return best;
}
