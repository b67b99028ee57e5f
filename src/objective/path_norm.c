#include "objective/path_norm.h"

#include "model/layers.h"
#include "model/transformer.h"
#include "tensor/internal_ops.h"
#include "tensor/op_rules.h"

/* The smallest sum of paths that has a logarithm: see eitp__path_norm_layers. */
#define EITP__PATH_LEAST 1e-30

/* The sums of paths up to a layer: a [c] times exp(log). */
typedef struct eitp__paths {
    eitp_tensor *a, *log;
    int power;
} eitp__paths;

/* Starts with one path into each channel. */
static eitp__paths eitp__paths_begin(eitp_graph *graph, eitp_dtype dtype, int64_t channels, int power) {
    const int64_t one = 1;
    eitp__paths paths;
    paths.a = eitp_fill(graph, dtype, 1, &channels, 1);
    paths.log = eitp_fill(graph, dtype, 1, &one, 0);
    paths.power = power;
    return paths;
}

/* Passes through a matrix [in, out], or [out, in] if it is transposed. Without a matrix, a is unchanged. */
static eitp_tensor *eitp__paths_multiply(eitp_tensor *a, eitp_tensor *matrix, int power, int is_transposed) {
    return matrix ? eitp__path_product(a, matrix, power, is_transposed) : a;
}

/* Passes through the gain of a norm. */
static eitp_tensor *eitp__paths_scale(eitp_tensor *a, eitp_tensor *gain, int power) {
    return gain ? eitp_multiply(a, power == 1 ? eitp_abs(gain) : eitp_multiply(gain, gain)) : a;
}

/* Divides the sums by their total, so that no depth makes them overflow. */
static void eitp__paths_renormalize(eitp__paths *paths) {
    eitp_tensor *sum = eitp_sum(paths->a, EITP_ALL_DIMENSIONS, 0);
    sum = eitp_maximum(sum, eitp__scalar_like(sum, EITP__PATH_LEAST));
    paths->log = eitp_add(paths->log, eitp_log(sum));
    paths->a = eitp_divide(paths->a, sum);
}

EITP__PRIVATE eitp_tensor *eitp__path_norm_layers(eitp_tensor *const *weights, int count, int power) {
    eitp__paths paths;
    if (count < 1 || !weights[0])
        return NULL;
    paths = eitp__paths_begin(weights[0]->graph, eitp__wide(weights[0]->dtype), eitp_tensor_dimension(weights[0], 0),
                              power);
    for (int i = 0; i < count; i++) {
        paths.a = eitp__path_product(paths.a, weights[i], power, 0);
        eitp__paths_renormalize(&paths);
    }
    return eitp_affine(paths.log, 1.0 / power, 0);
}

/* ---- Models ---- */

/* A model in a graph; `block` is the name of a block, NULL outside blocks. */
typedef struct eitp__path_model {
    const eitp_model *model;
    eitp_graph *graph;
    const char *block;
    int64_t layer; /* -1 outside blocks */
} eitp__path_model;

static eitp_tensor *eitp__path_model_matrix(const eitp__path_model *m, eitp__model_slot slot) {
    return eitp__slot_matrix(m->graph, &m->model->config, m->block, m->layer, slot, &m->model->lora);
}

static eitp_tensor *eitp__path_model_gain(const eitp__path_model *m, eitp_tensor *a, eitp__model_slot slot, int power) {
    const int exists = eitp__has_slot(&m->model->config, slot, EITP__WEIGHT);
    const int adds_one = eitp__architecture_of(&m->model->config)->norm == EITP__NORM_RMS_PLUS_ONE;
    eitp_tensor *gain = exists ? eitp__slot_tensor(m->graph, &m->model->config, m->block, slot, EITP__WEIGHT) : NULL;
    return eitp__paths_scale(a, gain && adds_one ? eitp_affine(gain, 1, 1) : gain, power);
}

/* Returns the values of all heads of queries from the sums of q, k and v. */
static eitp_tensor *eitp__path_values(const eitp_transformer_config *config, eitp_tensor *a) {
    const int64_t width = eitp__head_width(config), key_heads = eitp__key_value_heads(config);
    const int64_t end = (config->heads + 2 * key_heads) * width;
    int64_t shape[3], flat[1] = {-1};
    a = eitp_slice(a, 0, end - key_heads * width, end);
    if (key_heads == config->heads)
        return a;
    shape[0] = key_heads;
    shape[1] = 1;
    shape[2] = width;
    a = eitp_reshape(a, 3, shape);
    shape[1] = config->heads / key_heads;
    return eitp_reshape(eitp_broadcast(a, 3, shape), 1, flat);
}

/* Passes through the first matrix of a residual sum. Of queries, keys and values, paths pass through the values; of a
   gated MLP, through the part that the gate multiplies. */
static eitp_tensor *eitp__path_model_input(const eitp__path_model *m, eitp_tensor *a, eitp__model_slot slot,
                                           int power) {
    a = eitp__paths_multiply(a, eitp__path_model_matrix(m, slot), power, 0);
    return slot == EITP__ATTENTION_INPUT ? eitp__path_values(&m->model->config, a) : a;
}

/* Passes through a residual sum around two matrices, with the norm where the model has it. */
static void eitp__path_sublayer(const eitp__path_model *m, eitp__paths *paths, eitp__model_slot norm,
                                eitp__model_slot input, eitp__model_slot output, eitp__model_slot output_norm) {
    const int post_norm = m->model->config.post_norm;
    eitp_tensor *a = post_norm ? paths->a : eitp__path_model_gain(m, paths->a, norm, paths->power);
    a = eitp__path_model_input(m, a, input, paths->power);
    a = eitp__paths_multiply(a, eitp__path_model_matrix(m, output), paths->power, 0);
    a = eitp_add(paths->a, eitp__path_model_gain(m, a, output_norm, paths->power));
    paths->a = post_norm ? eitp__path_model_gain(m, a, norm, paths->power) : a;
}

static void eitp__path_block(eitp__path_model *m, eitp__paths *paths, int64_t layer) {
    char name[EITP__BLOCK_NAME_SIZE];
    eitp__block_name(&m->model->config, layer, name, sizeof name);
    m->block = name;
    m->layer = layer;
    eitp__path_sublayer(m, paths, EITP__ATTENTION_NORM, EITP__ATTENTION_INPUT, EITP__ATTENTION_OUTPUT,
                        EITP__ATTENTION_OUTPUT_NORM);
    eitp__path_sublayer(m, paths, EITP__MLP_NORM, EITP__MLP_INPUT, EITP__MLP_OUTPUT, EITP__MLP_OUTPUT_NORM);
    eitp__paths_renormalize(paths);
    m->block = NULL;
    m->layer = -1;
}

/* Passes from the last block to the model's outputs. */
static void eitp__path_head(const eitp__path_model *m, eitp__paths *paths) {
    static const eitp__model_slot transforms[] = {EITP__POOLER, EITP__HEAD_TRANSFORM, EITP__CLASSIFIER_TRANSFORM};
    const eitp_transformer_config *config = &m->model->config;
    eitp_tensor *a = eitp__path_model_gain(m, paths->a, EITP__FINAL_NORM, paths->power);
    for (size_t i = 0; i < EITP__COUNT(transforms); i++)
        a = eitp__paths_multiply(a, eitp__path_model_matrix(m, transforms[i]), paths->power, 0);
    a = eitp__path_model_gain(m, a, EITP__HEAD_NORM, paths->power);
    a = eitp__paths_multiply(a, eitp__path_model_matrix(m, EITP__CLASSIFIER), paths->power, 0);
    if (config->head == EITP_HEAD_LANGUAGE) {
        const eitp__model_slot table = eitp__is_tied(config) ? EITP__TOKEN_EMBEDDING : EITP__HEAD;
        a = eitp__paths_multiply(a, eitp__path_model_matrix(m, table), paths->power, 1);
    }
    /* The mean over outputs. */
    paths->a = eitp_affine(a, 1 / (double)(a ? eitp_tensor_elements(a) : 1), 0);
    eitp__paths_renormalize(paths);
}

static eitp_tensor *eitp__path_norm_of_paths(eitp__path_model *m, int power) {
    const eitp_transformer_config *config = &m->model->config;
    eitp__paths paths = eitp__paths_begin(m->graph, EITP_F32, config->width, power);
    paths.a = eitp__path_model_gain(m, paths.a, EITP__EMBEDDING_NORM, power);
    for (int64_t layer = 0; layer < config->layers; layer++)
        eitp__path_block(m, &paths, layer);
    eitp__path_head(m, &paths);
    return eitp_affine(paths.log, 1.0 / (power * (double)config->layers), 0);
}

/* Returns the mean of |w|^power over the elements of all matrices. */
static eitp_tensor *eitp__path_norm_of_elements(eitp__path_model *m, int power) {
    const eitp_transformer_config *config = &m->model->config;
    eitp_tensor *sum = NULL;
    double elements = 0;
    for (int64_t i = 0; i < eitp__parameter_count(config); i++) {
        const eitp__parameter parameter = eitp__parameter_at(config, i);
        char name[EITP__BLOCK_NAME_SIZE];
        eitp__paths paths;
        if (parameter.rank != 2)
            continue;
        m->layer = parameter.layer;
        eitp__block_name(config, parameter.layer, name, sizeof name);
        m->block = parameter.layer < 0 ? NULL : name;
        paths = eitp__paths_begin(m->graph, EITP_F32, parameter.shape[0], power);
        paths.a = eitp__paths_multiply(paths.a, eitp__path_model_matrix(m, parameter.row->slot), power, 0);
        eitp__add_gradient(&sum, eitp_sum(paths.a, EITP_ALL_DIMENSIONS, 0));
        elements += (double)eitp__parameter_elements(&parameter);
    }
    return eitp_affine(sum, 1 / elements, 0);
}

EITP__PRIVATE eitp_tensor *eitp__path_norm(const eitp_model *model, eitp_graph *graph, eitp_path_norm_form form) {
    eitp__path_model m;
    m.model = model;
    m.graph = graph;
    m.block = NULL;
    m.layer = -1;
    switch (form) {
    case EITP_PATH_NORM_L1:
        return eitp__path_norm_of_elements(&m, 1);
    case EITP_PATH_NORM_L2:
        return eitp__path_norm_of_elements(&m, 2);
    case EITP_PATH_NORM_2:
        return eitp__path_norm_of_paths(&m, 2);
    case EITP_PATH_NORM_1:
    default:
        return eitp__path_norm_of_paths(&m, 1);
    }
}
