/* Depth of a parameter in a model, for layer-wise learning rates. */
#include "model/lora.h"
#include "model/transformer.h"

/* Finds a parameter or an adapter by name. Returns 0 if the model has none. */
static int eitp__find_in_model(const eitp_model *model, const char *name, eitp__parameter *parameter) {
    const int64_t adapters = eitp__lora_parameter_count(&model->config, &model->lora);
    if (eitp__parameter_find(&model->config, name, parameter))
        return 1;
    for (int64_t i = 0; i < adapters; i++) {
        *parameter = eitp__lora_parameter(&model->config, &model->lora, i);
        if (!strcmp(parameter->name, name))
            return 1;
    }
    return 0;
}

EITP__PRIVATE int64_t eitp__layers_above(const eitp_model *model, const char *name) {
    eitp__parameter parameter;
    if (!eitp__find_in_model(model, name, &parameter))
        return model->latent ? eitp__layers_above(model->latent->encoder, name) : 0;
    if (parameter.layer >= 0)
        return model->config.layers - parameter.layer;
    return parameter.row && parameter.row->place == EITP__BEFORE_BLOCKS ? model->config.layers + 1 : 0;
}
