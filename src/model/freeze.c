/* Freezing parameters of a model. */
#include "model/lora.h"
#include "model/transformer.h"

/* True if the name matches the pattern of `size` characters, in which "*" matches any text. */
static int eitp__pattern_matches(const char *pattern, size_t size, const char *name) {
    size_t at = 0, star = size;
    const char *retry = NULL;
    while (*name) {
        if (at < size && pattern[at] == '*') {
            star = at++;
            retry = name;
        } else if (at < size && pattern[at] == *name) {
            at++;
            name++;
        } else if (retry) {
            at = star + 1;
            name = ++retry;
        } else {
            return 0;
        }
    }
    while (at < size && pattern[at] == '*')
        at++;
    return at == size;
}

/* Returns N of a "layers:N" item, or -1 if it is not one. */
static int64_t eitp__parse_layers(const char *item, size_t size) {
    static const char prefix[] = "layers:";
    const size_t length = sizeof prefix - 1;
    int64_t number = 0;
    if (size <= length || size > length + 6 || strncmp(item, prefix, length))
        return -1;
    for (size_t i = length; i < size; i++) {
        if (item[i] < '0' || item[i] > '9')
            return -1;
        number = 10 * number + (item[i] - '0');
    }
    return number;
}

static int eitp__freeze_is(const char *item, size_t size, const char *word) {
    return size == strlen(word) && !strncmp(item, word, size);
}

/* True if an item of eitp_model_freeze matches the parameter. `whole` is the item that stands for the whole model, or
   NULL if none does. */
static int eitp__freeze_matches(const eitp_model *model, const char *item, size_t size, const char *whole,
                                const eitp__parameter *parameter) {
    const char *short_name = eitp__without_prefix(&model->config, parameter->name);
    int64_t layers = eitp__parse_layers(item, size);
    if (layers >= 0)
        return parameter->layer >= 0 && parameter->layer < layers;
    if (eitp__freeze_is(item, size, "embeddings"))
        return parameter->row->place == EITP__BEFORE_BLOCKS;
    if (whole && eitp__freeze_is(item, size, whole))
        return 1;
    return eitp__pattern_matches(item, size, parameter->name) || eitp__pattern_matches(item, size, short_name);
}

/* Freezes the parameters that an item matches, or only counts them if `freezes` is 0. */
static eitp_status eitp__freeze_item(eitp_model *model, const char *item, size_t size, const char *whole, int freezes,
                                     int64_t *count, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (int64_t i = 0; i < eitp__parameter_count(&model->config) && !status; i++) {
        eitp__parameter parameter = eitp__parameter_at(&model->config, i);
        if (!eitp__freeze_matches(model, item, size, whole, &parameter))
            continue;
        ++*count;
        if (freezes)
            status = eitp_variable_set_trained(model->context, parameter.name, 0, error);
    }
    return status;
}

/* Applies eitp__freeze_item to a model and its encoder, if any. Layers and embeddings are the model's. */
static eitp_status eitp__freeze_parts(eitp_model *model, const char *item, size_t size, int freezes, int64_t *count,
                                      eitp_error *error) {
    eitp_model *encoder = eitp_model_encoder(model);
    const int is_of_model = eitp__parse_layers(item, size) >= 0 || eitp__freeze_is(item, size, "embeddings");
    eitp_status status;
    *count = 0;
    status = eitp__freeze_item(model, item, size, encoder ? "decoder" : NULL, freezes, count, error);
    if (!status && encoder && !is_of_model)
        status = eitp__freeze_item(encoder, item, size, "encoder", freezes, count, error);
    return status;
}

eitp_status eitp_model_freeze(eitp_model *model, const char *parts, eitp_error *error) {
    eitp_status status = EITP_OK;
    if (!model || !parts)
        return eitp__fail_null(error, "eitp_model_freeze", "model and parts");
    for (int freezes = 0; freezes < 2; freezes++) {
        for (const char *item = parts; !status; item++) {
            size_t size = strcspn(item, ",");
            int64_t count, layers = eitp__parse_layers(item, size);
            status = eitp__freeze_parts(model, item, size, freezes, &count, error);
            if (!status && (!count || layers > model->config.layers))
                return eitp__fail(error, EITP_ERROR_ARGUMENT,
                                  "'%.*s' matches no parameter of a model with %lld layers (choose from embeddings, "
                                  "layers:N, or parameter names, where * matches any text)",
                                  (int)(size < 60 ? size : 60), item, (long long)model->config.layers);
            item += size;
            if (!*item)
                break;
        }
    }
    return status;
}

int64_t eitp_model_trained_parameter_count(const eitp_model *model) {
    int64_t base, elements;
    if (!model)
        return 0;
    elements = eitp__latent_elements(model) + eitp_model_trained_parameter_count(eitp_model_encoder(model));
    base = eitp__parameter_count(&model->config);
    for (int64_t i = 0; i < base + eitp__lora_parameter_count(&model->config, &model->lora); i++) {
        eitp__parameter parameter = i < base ? eitp__parameter_at(&model->config, i)
                                             : eitp__lora_parameter(&model->config, &model->lora, i - base);
        int64_t index = eitp_variable_find(model->context, parameter.name);
        if (eitp_variable_at(model->context, (size_t)index).trained)
            elements += eitp__parameter_elements(&parameter);
    }
    return elements;
}
