#include "task/predictor_state.h"

#include "base/memory.h"
#include "base/setting_table.h"
#include "base/status.h"
#include "model/latent_state.h"

/* Maximum pass_tokens: rows are numbered with int32_t. */
#define EITP__MAX_PASS_TOKENS ((int64_t)1 << 24)

/* ---- Configuration ---- */

#define EITP__PREDICTOR_SETTING(member, kind, value, min, max, choices, help)                                          \
    EITP__SETTING(eitp_predictor_config, , member, #member, kind, value, min, max, 0, ACCEPTED, choices, help)

static const eitp_setting eitp__predictor_settings[] = {
    EITP__PREDICTOR_SETTING(prediction, CHOICE, EITP_PREDICT_SCORES, 0, 0, "scores embeddings word_scores",
                            "result for each input"),
    EITP__PREDICTOR_SETTING(pooling, CHOICE, EITP_EMBEDDING_MEAN, 0, 0, "mean first max last mean_sqrt_length",
                            "pooling of an input's hidden states into its embedding"),
    EITP__PREDICTOR_SETTING(normalize, FLAG, 1, 0, 1, NULL, "divide embeddings by their Euclidean norm"),
    EITP__PREDICTOR_SETTING(max_length, INTEGER, 0, 0, 1 << 24, NULL,
                            "maximum tokens of a sequence, longer ones are cut; 0: the model's positions"),
    EITP__PREDICTOR_SETTING(truncation, CHOICE, EITP_TRUNCATE_LONGEST, 0, 0, "longest first second none",
                            "text of a pair that is cut if a sequence is too long"),
    EITP__PREDICTOR_SETTING(truncate_left, FLAG, 0, 0, 1, NULL, "cut tokens at the start of a text, not at its end"),
    EITP__PREDICTOR_SETTING(pass_tokens, INTEGER, 0, 0, EITP__MAX_PASS_TOKENS, NULL,
                            "tokens in a pass, at least max_length; does not change results; 0: default"),
};

EITP__PRIVATE const eitp_setting *eitp__predictor_setting_table(size_t *count) {
    if (count)
        *count = EITP__COUNT(eitp__predictor_settings);
    return eitp__predictor_settings;
}

eitp_predictor_config eitp_predictor_config_default(const eitp_model *model, const eitp_tokenizer *tokenizer) {
    const eitp_sequence_defaults defaults = eitp_tokenizer_sequence_defaults(tokenizer);
    const eitp_model *encoder = eitp_model_encoder(model);
    const int64_t positions = eitp_model_positions(encoder ? encoder : model);
    eitp_predictor_config config = EITP__ZERO;
    if (!model || !tokenizer)
        return config;
    eitp__settings_reset(eitp__predictor_settings, EITP__COUNT(eitp__predictor_settings), &config);
    if (eitp_model_config(model).head == EITP_HEAD_TOKEN_CLASSIFIER)
        config.prediction = EITP_PREDICT_WORD_SCORES;
    if (encoder)
        config.prediction = EITP_PREDICT_MEANS;
    config.max_length = defaults.max_length ? defaults.max_length : defaults.model_max_length;
    if (!config.max_length || config.max_length > positions)
        config.max_length = positions;
    config.truncation = defaults.truncation;
    config.truncate_left = defaults.truncate_left;
    return config;
}

EITP__PRIVATE int eitp__predicts_texts(eitp_prediction prediction) {
    return prediction == EITP_PREDICT_SCORES || prediction == EITP_PREDICT_MEANS;
}

EITP__PRIVATE const eitp_model *eitp__predictor_reader(const eitp_model *model, eitp_prediction prediction) {
    return prediction == EITP_PREDICT_MEANS ? eitp_model_encoder(model) : model;
}

static eitp_status eitp__predictor_check_lengths(const eitp_model *model, const eitp_predictor_config *config,
                                                 eitp_error *error) {
    const int64_t positions = eitp_model_positions(eitp__predictor_reader(model, config->prediction));
    const int64_t max_length = config->max_length ? config->max_length : positions;
    if (max_length < 1 || max_length > positions)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "max_length must be 0 to the model's %lld positions (got %lld)",
                          (long long)positions, (long long)config->max_length);
    if (config->pass_tokens && (config->pass_tokens < max_length || config->pass_tokens > EITP__MAX_PASS_TOKENS))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "pass_tokens must be at least the %lld tokens of a sequence and at most %lld (got %lld)",
                          (long long)max_length, (long long)EITP__MAX_PASS_TOKENS, (long long)config->pass_tokens);
    return EITP_OK;
}

/* Returns the head that a prediction of scores needs. */
static eitp_head eitp__predictor_head(eitp_prediction prediction) {
    return prediction == EITP_PREDICT_SCORES ? EITP_HEAD_CLASSIFIER : EITP_HEAD_TOKEN_CLASSIFIER;
}

static eitp_status eitp__predictor_check(const eitp_model *model, const eitp_predictor_config *config,
                                         eitp_error *error) {
    static const char *const heads[] = {"a language head", "a text classifier", "no head",
                                        "a token classifier"}; /* eitp_head */
    const eitp_head head = eitp_model_config(model).head;
    if ((int)config->prediction < EITP_PREDICT_SCORES || config->prediction > EITP_PREDICT_MEANS ||
        (int)config->pooling < EITP_EMBEDDING_MEAN || (int)config->pooling >= EITP_EMBEDDING_POOLING_COUNT ||
        (int)config->truncation < EITP_TRUNCATE_LONGEST || config->truncation > EITP_TRUNCATE_NONE)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "unknown prediction %d, pooling %d or truncation %d",
                          (int)config->prediction, (int)config->pooling, (int)config->truncation);
    if (config->prediction == EITP_PREDICT_MEANS && !eitp_model_encoder(model))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "means of a latent variable require a model with an encoder; use embeddings instead");
    if (config->prediction < EITP_PREDICT_MEANS && config->prediction != EITP_PREDICT_EMBEDDINGS &&
        head != eitp__predictor_head(config->prediction))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "%s require a classifier%s, but the model has %s; train a classifier first, or use "
                          "embeddings instead",
                          config->prediction == EITP_PREDICT_SCORES ? "scores" : "word scores",
                          config->prediction == EITP_PREDICT_SCORES ? "" : " of tokens", heads[head]);
    if (eitp_head_has_labels(head) && config->prediction != EITP_PREDICT_EMBEDDINGS &&
        eitp_model_check_head(model, error))
        return EITP_ERROR_FORMAT;
    return eitp__predictor_check_lengths(model, config, error);
}

static eitp__predictor_shape eitp__predictor_shape_of(const eitp_model *model, const eitp_predictor_config *config) {
    const eitp_transformer_config about = eitp_model_config(model);
    eitp__predictor_shape shape;
    const int of_texts = eitp__predicts_texts(config->prediction);
    shape.max_length = config->max_length ? config->max_length
                                          : eitp_model_positions(eitp__predictor_reader(model, config->prediction));
    shape.pass_tokens = config->pass_tokens                   ? config->pass_tokens
                        : shape.max_length > EITP_PASS_TOKENS ? shape.max_length
                                                              : EITP_PASS_TOKENS;
    /* Passes of shorter inputs are not full. Results with one value per input then take little memory. */
    shape.pass_texts = (shape.pass_tokens + 7) / 8;
    shape.chunk_tokens = 16 * shape.pass_tokens;
    shape.chunk_texts = 16 * shape.pass_texts;
    shape.width = config->prediction == EITP_PREDICT_EMBEDDINGS ? about.width
                  : config->prediction == EITP_PREDICT_MEANS    ? eitp_model_latent_config(model).size
                                                                : about.labels;
    shape.result_count = shape.width * (of_texts ? shape.pass_texts : shape.pass_tokens);
    return shape;
}

/* ---- Graph ---- */

static eitp_model_inputs eitp__predictor_inputs(const eitp_model *model, eitp_graph *graph,
                                                const eitp__predictor_shape *shape) {
    const int64_t offsets = shape->pass_texts + 1, bounds[2] = {shape->pass_texts, 2};
    eitp_model_inputs inputs = EITP__ZERO;
    inputs.tokens = eitp_input_rows(graph, "tokens", EITP_I32, 1, &shape->pass_tokens);
    inputs.positions = eitp_input_rows(graph, "positions", EITP_I32, 1, &shape->pass_tokens);
    inputs.offsets = eitp_input(graph, "offsets", EITP_I32, 1, &offsets);
    if (eitp_model_config(model).segments > 1)
        inputs.segments = eitp_input_rows(graph, "segments", EITP_I32, 1, &shape->pass_tokens);
    inputs.bounds = eitp_input(graph, "bounds", EITP_I32, 2, bounds);
    return inputs;
}

/* Builds the graph. Destroy it even after a failure. */
static eitp_status eitp__predictor_build(const eitp_model *model, const eitp_predictor_config *config,
                                         const eitp__predictor_shape *shape, eitp__predictor_graph *built,
                                         eitp_error *error) {
    eitp_tensor *hidden;
    eitp_status status = eitp_graph_create(eitp_model_context(model), &built->graph, error);
    if (status)
        return status;
    built->inputs = eitp__predictor_inputs(eitp__predictor_reader(model, config->prediction), built->graph, shape);
    hidden = config->prediction == EITP_PREDICT_MEANS
                 ? eitp__model_posterior(model, built->graph, &built->inputs, shape->max_length).mean
                 : eitp_model_hidden(model, built->graph, &built->inputs, shape->max_length);
    if (config->prediction == EITP_PREDICT_SCORES)
        hidden = eitp_model_scores(model, hidden, &built->inputs);
    else if (config->prediction == EITP_PREDICT_WORD_SCORES)
        hidden = eitp_model_token_scores(model, hidden, &built->inputs);
    built->output = eitp_output(eitp_cast(hidden, EITP_F32));
    return eitp_graph_status(built->graph, error);
}

/* ---- Memory ---- */

typedef struct eitp__predictor_buffer {
    void **memory;
    size_t bytes;
} eitp__predictor_buffer;

enum { EITP__PREDICTOR_BUFFERS = 12 };

static void eitp__predictor_buffers(eitp_predictor *p, eitp__predictor_buffer buffers[EITP__PREDICTOR_BUFFERS]) {
    const eitp__predictor_shape *shape = &p->shape;
    const size_t chunk = (size_t)shape->chunk_tokens * sizeof(int32_t);
    const size_t rows = (size_t)shape->pass_tokens * sizeof(int32_t), texts = (size_t)shape->pass_texts;
    const eitp__predictor_buffer all[EITP__PREDICTOR_BUFFERS] = {
        {(void **)&p->chunk_ids, chunk},
        {(void **)&p->chunk_segments, chunk},
        {(void **)&p->chunk_words, chunk},
        {(void **)&p->chunk, (size_t)shape->chunk_texts * sizeof *p->chunk},
        {(void **)&p->ids, rows},
        {(void **)&p->segments, rows},
        {(void **)&p->words, rows},
        {(void **)&p->positions, rows},
        {(void **)&p->offsets, (texts + 1) * sizeof *p->offsets},
        {(void **)&p->bounds, 2 * texts * sizeof *p->bounds},
        {(void **)&p->pass, texts * sizeof *p->pass},
        {(void **)&p->results, (size_t)shape->result_count * sizeof *p->results},
    };
    memcpy(buffers, all, sizeof all);
}

/* Returns the bytes of a predictor with these passes. */
static size_t eitp__predictor_size(eitp_predictor *p, const eitp_plan_stats *stats) {
    eitp__predictor_buffer buffers[EITP__PREDICTOR_BUFFERS];
    size_t bytes = sizeof *p + stats->arena_bytes + stats->workspace_bytes;
    eitp__predictor_buffers(p, buffers);
    for (int i = 0; i < EITP__PREDICTOR_BUFFERS; i++)
        bytes += buffers[i].bytes;
    return bytes;
}

eitp_status eitp_predictor_estimate(const eitp_model *model, const eitp_predictor_config *config, size_t *bytes,
                                    eitp_error *error) {
    eitp_predictor planned = EITP__ZERO;
    eitp_plan_stats stats = EITP__ZERO;
    eitp_status status;
    if (!model || !config || !bytes)
        return eitp__fail_null(error, "eitp_predictor_estimate", "model, config and bytes");
    status = eitp__predictor_check(model, config, error);
    if (status)
        return status;
    planned.shape = eitp__predictor_shape_of(model, config);
    status = eitp__predictor_build(model, config, &planned.shape, &planned.built, error);
    if (!status)
        status = eitp_plan_estimate(planned.built.graph, NULL, &stats, error);
    eitp_graph_destroy(planned.built.graph);
    if (!status)
        *bytes = eitp__predictor_size(&planned, &stats);
    return status;
}

EITP__PRIVATE size_t eitp__predictor_bytes(const eitp_predictor *predictor) {
    const eitp_plan_stats stats = eitp_plan_statistics(predictor->plan);
    eitp_predictor copy = *predictor;
    return eitp__predictor_size(&copy, &stats);
}

/* ---- Creation ---- */

static eitp_status eitp__predictor_allocate(eitp_predictor *p, eitp_error *error) {
    eitp__predictor_buffer buffers[EITP__PREDICTOR_BUFFERS];
    eitp__predictor_buffers(p, buffers);
    for (int i = 0; i < EITP__PREDICTOR_BUFFERS; i++) {
        *buffers[i].memory = eitp__allocate(&p->host, buffers[i].bytes);
        if (!*buffers[i].memory)
            return eitp__fail_memory(error, buffers[i].bytes, "a predictor");
    }
    return EITP_OK;
}

static eitp_problem eitp__predictor_problem_of(const eitp_transformer_config *config) {
    if (config->head == EITP_HEAD_TOKEN_CLASSIFIER)
        return EITP_PROBLEM_TOKENS;
    if (config->head != EITP_HEAD_CLASSIFIER || config->problem != EITP_PROBLEM_UNKNOWN)
        return config->problem;
    return config->labels > 1 ? EITP_PROBLEM_SINGLE_LABEL : EITP_PROBLEM_MULTI_LABEL;
}

static eitp_status eitp__predictor_check_vocabulary(const eitp_model *model, const eitp_tokenizer *tokenizer,
                                                    eitp_error *error) {
    return eitp_tokenizer_size(tokenizer) <= eitp_model_vocabulary(model)
               ? EITP_OK
               : eitp__fail(error, EITP_ERROR_ARGUMENT,
                            "the tokenizer has %ld tokens, more than the model's vocabulary of %lld; use the model's "
                            "own tokenizer",
                            (long)eitp_tokenizer_size(tokenizer), (long long)eitp_model_vocabulary(model));
}

eitp_status eitp_predictor_create(const eitp_model *model, const eitp_tokenizer *tokenizer,
                                  const eitp_predictor_config *config, eitp_predictor **predictor, eitp_error *error) {
    const eitp_host host = eitp_context_host(eitp_model_context(model));
    eitp_transformer_config about;
    eitp_predictor *p;
    eitp_status status;
    if (!model || !tokenizer || !config || !predictor)
        return eitp__fail_null(error, "eitp_predictor_create", "model, tokenizer, config and predictor");
    *predictor = NULL;
    status = eitp__predictor_check(model, config, error);
    if (!status)
        status = eitp__predictor_check_vocabulary(eitp__predictor_reader(model, config->prediction), tokenizer, error);
    if (status)
        return status;
    p = (eitp_predictor *)eitp__allocate(&host, sizeof *p);
    if (!p)
        return eitp__fail_memory(error, sizeof *p, "a predictor");
    about = eitp_model_config(model);
    p->host = host;
    p->model = model;
    p->tokenizer = tokenizer;
    p->problem = eitp__predictor_problem_of(&about);
    p->shape = eitp__predictor_shape_of(model, config);
    p->config = *config;
    p->config.max_length = p->shape.max_length;
    p->config.pass_tokens = p->shape.pass_tokens;
    status = eitp__predictor_build(model, config, &p->shape, &p->built, error);
    if (!status)
        status = eitp_plan_create(p->built.graph, &p->plan, error);
    if (!status)
        status = eitp__predictor_allocate(p, error);
    if (status) {
        eitp_predictor_destroy(p);
        return status;
    }
    *predictor = p;
    return EITP_OK;
}

void eitp_predictor_destroy(eitp_predictor *predictor) {
    eitp__predictor_buffer buffers[EITP__PREDICTOR_BUFFERS];
    eitp_host host;
    if (!predictor)
        return;
    host = predictor->host;
    eitp__predictor_buffers(predictor, buffers);
    for (int i = 0; i < EITP__PREDICTOR_BUFFERS; i++)
        eitp__release(&host, *buffers[i].memory, buffers[i].bytes);
    eitp_plan_destroy(predictor->plan);
    eitp_graph_destroy(predictor->built.graph);
    eitp__release(&host, predictor, sizeof *predictor);
}

int64_t eitp_predictor_width(const eitp_predictor *predictor) {
    return predictor ? predictor->shape.width : 0;
}

eitp_predictor_config eitp_predictor_get_config(const eitp_predictor *predictor) {
    const eitp_predictor_config none = EITP__ZERO;
    return predictor ? predictor->config : none;
}

eitp_problem eitp_predictor_problem(const eitp_predictor *predictor) {
    return predictor ? predictor->problem : EITP_PROBLEM_UNKNOWN;
}
