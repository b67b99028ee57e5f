/* The latent variable of a model: its encoder, its projections, and its values in a graph. */
#include "base/random.h"
#include "model/latent_state.h"
#include "model/transformer.h"
#include "model/transformer_config.h"
#include "tensor/variable.h"

/* ---- The encoder ---- */

static eitp_status eitp__latent_declare(const eitp_model *model, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (int i = 0; i < EITP__LATENT_PARAMETERS && !status; i++) {
        const eitp__latent_parameter parameter = eitp__latent_parameter_at(model, i);
        int64_t index;
        status = eitp__variable_declare(model->context, parameter.name, EITP_PARAMETER, EITP_F32, parameter.rank,
                                        parameter.shape, &index, error);
    }
    return status;
}

eitp_latent_config eitp_latent_config_default(void) {
    eitp_latent_config config = EITP__ZERO;
    eitp_transformer_config_named("minilm", &config.encoder, NULL);
    config.encoder.head = EITP_HEAD_NONE;
    config.encoder.pooler = 0;
    config.size = 32;
    return config;
}

eitp_latent_config eitp_model_latent_config(const eitp_model *model) {
    eitp_latent_config config = EITP__ZERO;
    if (!model || !model->latent)
        return config;
    config.encoder = model->latent->encoder->config;
    config.size = model->latent->size;
    config.input = model->latent->input;
    return config;
}

eitp_model *eitp_model_encoder(const eitp_model *model) {
    return model && model->latent ? model->latent->encoder : NULL;
}

static eitp_status eitp__latent_check(const eitp_model *model, const eitp_latent_config *config, eitp_error *error) {
    const eitp_architecture *reads = eitp__architecture_of(&config->encoder), *writes = model->config.architecture;
    if (config->size < 1 || config->size > EITP__MAX_LATENT_SIZE)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the size of the latent variable must be 1 to %d (got %lld)",
                          EITP__MAX_LATENT_SIZE, (long long)config->size);
    if ((unsigned)config->input > EITP_LATENT_ADDED)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "unknown input %d of the latent variable", (int)config->input);
    if (model->config.bidirectional || model->config.head != EITP_HEAD_LANGUAGE)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "a decoder must be a causal model with a language head, such as gpt2; this is a %s model%s",
                          writes->model_type, model->config.bidirectional ? "" : " without a language head");
    if (!config->encoder.bidirectional || reads == writes)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "an encoder must be a bidirectional model, such as bert; this is a %s model",
                          reads->model_type);
    if (model->latent || model->lora.rank || model->context->graph_count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s",
                          model->latent      ? "the model already has an encoder"
                          : model->lora.rank ? "a model with adapters cannot have an encoder"
                                             : "an encoder must be added before graphs are created");
    return EITP_OK;
}

eitp_status eitp_model_add_encoder(eitp_model *model, const eitp_latent_config *config, eitp_error *error) {
    eitp_transformer_config encoder;
    size_t before;
    eitp_status status;
    if (!model || !config)
        return eitp__fail_null(error, "eitp_model_add_encoder", "model and config");
    status = eitp__latent_check(model, config, error);
    if (status)
        return status;
    before = eitp_variable_count(model->context);
    encoder = config->encoder;
    encoder.pooler = encoder.head == EITP_HEAD_NONE && encoder.pooler;
    encoder.head = EITP_HEAD_NONE;
    model->latent = (eitp__latent *)eitp__allocate(&model->host, sizeof *model->latent);
    if (!model->latent)
        return eitp__fail_memory(error, sizeof *model->latent, "a latent variable");
    model->latent->size = config->size;
    model->latent->input = config->input;
    status = eitp_model_create(model->context, &encoder, &model->latent->encoder, error);
    if (!status)
        status = eitp__latent_declare(model, error);
    if (!status)
        return EITP_OK;
    while (eitp_variable_count(model->context) > before)
        eitp__variable_remove(model->context, eitp_variable_count(model->context) - 1);
    eitp_model_destroy(model->latent->encoder);
    eitp__release(&model->host, model->latent, sizeof *model->latent);
    model->latent = NULL;
    return status;
}

void eitp_model_draw_latent(const eitp_model *model, uint64_t seed, float *z) {
    for (int64_t u = 0; model && model->latent && z && u < model->latent->size; u++) {
        double pair[2];
        eitp__random_normal(seed, 0, EITP__RNG_STREAM_LATENT, (uint64_t)u, pair);
        z[u] = (float)pair[0];
    }
}

/* ---- The graph ---- */

/* Applies a projection of the latent variable, without its bias. */
static eitp_tensor *eitp__latent_project(const eitp_model *model, eitp_tensor *x, int index) {
    const eitp__latent_parameter parameter = eitp__latent_parameter_at(model, index);
    eitp_tensor *weight = eitp_parameter(eitp_tensor_graph(x), parameter.name, parameter.rank, parameter.shape);
    return eitp_matmul_transposed(x, weight, 0, 1);
}

static eitp_tensor *eitp__latent_linear(const eitp_model *model, eitp_tensor *x, int index) {
    const eitp__latent_parameter bias = eitp__latent_parameter_at(model, index + 1);
    return eitp_add(eitp__latent_project(model, x, index),
                    eitp_parameter(eitp_tensor_graph(x), bias.name, bias.rank, bias.shape));
}

EITP__PRIVATE eitp__posterior eitp__model_posterior(const eitp_model *model, eitp_graph *graph,
                                                    const eitp_model_inputs *inputs, int64_t max_length) {
    eitp__posterior posterior = EITP__ZERO;
    eitp_tensor *state;
    if (!model || !model->latent || !graph || !inputs)
        return posterior;
    state = eitp_model_hidden(model->latent->encoder, graph, inputs, max_length);
    state = eitp_pool(state, inputs->bounds ? inputs->bounds : inputs->offsets, max_length, EITP_POOLING_MEAN);
    state = state ? eitp_cast(state, EITP_F32) : NULL;
    if (!state)
        return posterior;
    posterior.mean = eitp__latent_linear(model, state, EITP__LATENT_MEAN);
    posterior.log_deviation = eitp__latent_linear(model, state, EITP__LATENT_LOG_DEVIATION);
    return posterior;
}

EITP__PRIVATE eitp_tensor *eitp__posterior_draw(const eitp__posterior *posterior, eitp_tensor *noise) {
    return posterior ? eitp_add(posterior->mean, eitp_multiply(eitp_exp(posterior->log_deviation), noise)) : NULL;
}

EITP__PRIVATE eitp_tensor *eitp__posterior_divergence(const eitp__posterior *posterior) {
    eitp_tensor *squares, *logarithm;
    if (!posterior)
        return NULL;
    logarithm = eitp_affine(posterior->log_deviation, 2, 0); /* log of the variance */
    squares = eitp_add(eitp_multiply(posterior->mean, posterior->mean), eitp_exp(logarithm));
    return eitp_affine(eitp_subtract(squares, eitp_affine(logarithm, 1, 1)), 0.5, 0);
}

EITP__PRIVATE eitp_tensor *eitp__model_latent_embedding(const eitp_model *model, eitp_tensor *z) {
    return model && model->latent && z ? eitp__latent_project(model, z, EITP__LATENT_EMBEDDING) : NULL;
}
