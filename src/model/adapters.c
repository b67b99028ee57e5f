/* Adding adapters to a model; initializing and merging them. */
#include "model/lora.h"
#include "model/transformer.h"
#include "tensor/variable.h"

eitp_lora_config eitp_model_lora_config(const eitp_model *model) {
    eitp_lora_config none = EITP__ZERO;
    return model ? model->lora : none;
}

/* Declares all parameters of the adapters, or none on failure. */
static eitp_status eitp__lora_declare(eitp_model *model, const eitp_lora_config *config, eitp_error *error) {
    eitp_context *context = model->context;
    size_t before = eitp_variable_count(context);
    eitp_status status = EITP_OK;
    for (int64_t i = 0; i < eitp__lora_parameter_count(&model->config, config) && !status; i++) {
        eitp__parameter parameter = eitp__lora_parameter(&model->config, config, i);
        status = eitp__parameter_declare(context, &parameter, error);
    }
    while (status && eitp_variable_count(context) > before)
        eitp__variable_remove(context, eitp_variable_count(context) - 1);
    return status;
}

/* Freezes all parameters except those trained in full, as PEFT does. */
static eitp_status eitp__lora_freeze_base(eitp_model *model, const eitp_lora_config *config, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (int64_t i = 0; i < eitp__parameter_count(&model->config) && !status; i++) {
        const eitp__parameter parameter = eitp__parameter_at(&model->config, i);
        if (!eitp__lora_trains(&model->config, config->saved, &parameter))
            status = eitp_variable_set_trained(model->context, parameter.name, 0, error);
    }
    return status;
}

eitp_status eitp_model_add_lora(eitp_model *model, const eitp_lora_config *config, eitp_error *error) {
    if (!model || !config)
        return eitp__fail_null(error, "eitp_model_add_lora", "model and config");
    eitp_lora_config layers = *config;
    eitp_status status = eitp__lora_config_check(config, error);
    if (!status)
        status = eitp__lora_find_layers(&model->config, &layers, error);
    if (!status)
        status = eitp__lora_saved_check(&model->config, config->saved, error);
    if (!status && model->lora.rank)
        status = eitp__fail(error, EITP_ERROR_ARGUMENT, "the model already has adapters");
    if (!status && model->latent)
        status = eitp__fail(error, EITP_ERROR_ARGUMENT,
                            "a model with an encoder cannot have adapters; freeze a part of it instead, such as "
                            "\"encoder\"");
    if (!status && model->context->graph_count)
        status = eitp__fail(error, EITP_ERROR_ARGUMENT, "adapters must be added before graphs are created");
    if (!status)
        status = eitp__lora_declare(model, &layers, error);
    if (!status)
        status = eitp__lora_freeze_base(model, &layers, error);
    if (!status)
        model->lora = layers;
    return status;
}

eitp_status eitp_model_initialize_lora(eitp_model *model, uint64_t seed, eitp_error *error) {
    eitp_status status = EITP_OK;
    if (!model)
        return eitp__fail_null(error, "eitp_model_initialize_lora", "model");
    for (int64_t i = 0; i < eitp__lora_parameter_count(&model->config, &model->lora) && !status; i++) {
        eitp__parameter parameter = eitp__lora_parameter(&model->config, &model->lora, i);
        /* Kaiming uniform with a = sqrt(5), as in PEFT. */
        double bound = 1 / sqrt((double)parameter.shape[1]);
        status = i % 2 ? eitp_variable_fill(model->context, parameter.name, 0, error)
                       : eitp_variable_fill_uniform(model->context, parameter.name, -bound, bound, seed, error);
    }
    return status;
}

/* ---- Merging ---- */

/* An adapter in memory, and one row of the weight that it is merged into. */
typedef struct eitp__lora_merge {
    const eitp_host *host;
    const char *weight;     /* name of the weight */
    int64_t stride, column; /* of the weight */
    int64_t rank, in, out;
    double scale;
    float *a, *b, *row; /* one allocation */
    size_t bytes;
} eitp__lora_merge;

static void eitp__lora_add_row(const eitp__lora_merge *merge, int64_t i) {
    for (int64_t o = 0; o < merge->out; o++) {
        double sum = 0;
        for (int64_t r = 0; r < merge->rank; r++)
            sum += (double)merge->a[r * merge->in + i] * (double)merge->b[o * merge->rank + r];
        merge->row[o] = (float)((double)merge->row[o] + merge->scale * sum);
    }
}

/* Adds scale * (B A)^T to the adapter's columns of the weight [in, stride], and zeroes B. */
static eitp_status eitp__lora_merge_layer(eitp_context *context, const eitp__lora_merge *merge, const char *name_a,
                                          const char *name_b, eitp_error *error) {
    eitp_status status = eitp_variable_read_f32(context, name_a, 0, merge->a, merge->rank * merge->in, error);
    if (!status)
        status = eitp_variable_read_f32(context, name_b, 0, merge->b, merge->rank * merge->out, error);
    for (int64_t i = 0; i < merge->in && !status; i++) {
        const int64_t at = i * merge->stride + merge->column;
        status = eitp_variable_read_f32(context, merge->weight, at, merge->row, merge->out, error);
        if (!status)
            eitp__lora_add_row(merge, i);
        if (!status)
            status = eitp_variable_write_f32(context, merge->weight, at, merge->row, merge->out, error);
    }
    return status ? status : eitp_variable_fill(context, name_b, 0, error);
}

eitp_status eitp_model_merge_lora(eitp_model *model, eitp_error *error) {
    if (!model)
        return eitp__fail_null(error, "eitp_model_merge_lora", "model");
    const eitp_lora_config *config = &model->lora;
    eitp_status status = EITP_OK;
    for (int64_t i = 0; i < eitp__lora_parameter_count(&model->config, config) && !status; i += 2) {
        eitp__parameter a = eitp__lora_parameter(&model->config, config, i);
        eitp__parameter b = eitp__lora_parameter(&model->config, config, i + 1);
        eitp__lora_merge merge = EITP__ZERO;
        const eitp__parameter weight = eitp__lora_weight(&model->config, config, i, &merge.column);
        merge.weight = weight.name;
        merge.stride = weight.shape[1];
        merge.host = &model->host;
        merge.rank = config->rank;
        merge.in = a.shape[1];
        merge.out = b.shape[0];
        merge.scale = eitp__lora_scale(config);
        merge.bytes = (size_t)(merge.rank * (merge.in + merge.out) + merge.out) * sizeof *merge.a;
        merge.a = (float *)eitp__allocate_uninitialized(merge.host, merge.bytes);
        if (!merge.a)
            return eitp__fail_memory(error, merge.bytes, "merging adapters");
        merge.b = merge.a + merge.rank * merge.in;
        merge.row = merge.b + merge.rank * merge.out;
        status = eitp__lora_merge_layer(model->context, &merge, a.name, b.name, error);
        eitp__release(merge.host, merge.a, merge.bytes);
    }
    return status;
}
