#include "model/layers.h"
#include "tensor/op_rules.h"

EITP__PRIVATE eitp_tensor *eitp__slot_tensor(eitp_graph *graph, const eitp_transformer_config *config,
                                             const char *block, eitp__model_slot slot, eitp__part part) {
    const eitp__parameter_row *row = eitp__row_find(config, slot, part);
    eitp__parameter parameter;
    if (!row)
        return NULL;
    parameter = eitp__row_parameter(config, row, block);
    return eitp__parameter_tensor(graph, &parameter);
}

EITP__PRIVATE eitp_tensor *eitp__slot_norm(eitp_tensor *x, const eitp_transformer_config *config, const char *block,
                                           eitp__model_slot slot) {
    eitp_graph *graph = eitp_tensor_graph(x);
    const eitp__norm_kind norm = eitp__architecture_of(config)->norm;
    eitp_tensor *gain, *bias;
    if (!x || !eitp__row_find(config, slot, EITP__WEIGHT))
        return x;
    if (norm != EITP__NORM_LAYER) {
        gain = eitp__slot_tensor(graph, config, block, slot, EITP__WEIGHT);
        return eitp_rms_norm(x, norm == EITP__NORM_RMS ? gain : eitp_affine(gain, 1, 1), config->epsilon);
    }
    bias = eitp__slot_tensor(graph, config, block, slot, EITP__BIAS);
    gain = eitp__slot_tensor(graph, config, block, slot, EITP__WEIGHT);
    return eitp_layer_norm(x, gain, bias, config->epsilon);
}

EITP__PRIVATE eitp_tensor *eitp__slot_linear(eitp_tensor *x, const eitp_transformer_config *config, const char *block,
                                             int64_t layer, eitp__model_slot slot, const eitp_block_inputs *inputs,
                                             eitp_activation activation) {
    eitp_graph *graph = eitp_tensor_graph(x);
    eitp_tensor *adapted, *bias, *y;
    if (!x)
        return NULL;
    adapted = eitp__lora_apply(x, config, block, layer, slot, inputs->lora, inputs->key);
    bias = eitp__slot_tensor(graph, config, block, slot, EITP__BIAS);
    y = eitp_linear(x, eitp__slot_tensor(graph, config, block, slot, EITP__WEIGHT), bias, EITP_NO_ACTIVATION);
    return eitp__activate(adapted ? eitp_add(y, adapted) : y, activation);
}

EITP__PRIVATE eitp_tensor *eitp__slot_matrix(eitp_graph *graph, const eitp_transformer_config *config,
                                             const char *block, int64_t layer, eitp__model_slot slot,
                                             const eitp_lora_config *lora) {
    eitp_tensor *weight, *product;
    if (!eitp__has_slot(config, slot, EITP__WEIGHT))
        return NULL;
    weight = eitp__slot_tensor(graph, config, block, slot, EITP__WEIGHT);
    product = eitp__lora_product(graph, config, block, layer, slot, lora);
    return product ? eitp_add(eitp_cast(weight, EITP_F32), product) : weight;
}

EITP__PRIVATE eitp_tensor *eitp__dropout_with(eitp_tensor *x, eitp_tensor *key, double probability) {
    return key ? eitp_dropout(x, key, probability) : x;
}

EITP__PRIVATE double eitp__attention_scale(const eitp_transformer_config *config, int64_t layer) {
    const double width = (double)eitp__head_width(config);
    double scale = 1;
    if (config->scale_attention)
        scale = 1.0 / sqrt(config->attention_scalar > 0 ? config->attention_scalar : width);
    return config->scale_attention_by_layer ? scale / (double)(layer + 1) : scale;
}
