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

/* N of a "layers:N" item; -1 if it is not one. */
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

/* True if an item of eitp_model_freeze matches the parameter. */
static int eitp__freeze_matches(const eitp_model *model, const char *item, size_t size,
                                const eitp__parameter *parameter) {
    const char *short_name = eitp__without_prefix(&model->config, parameter->name);
    int64_t layers = eitp__parse_layers(item, size);
    if (layers >= 0)
        return parameter->layer >= 0 && parameter->layer < layers;
    if (size == strlen("embeddings") && !strncmp(item, "embeddings", size))
        return parameter->row->place == EITP__BEFORE_BLOCKS;
    return eitp__pattern_matches(item, size, parameter->name) || eitp__pattern_matches(item, size, short_name);
}

/* Freezes the parameters that an item matches, or only counts them if `freezes` is 0. */
static eitp_status eitp__freeze_item(eitp_model *model, const char *item, size_t size, int freezes, int64_t *count,
                                     eitp_error *error) {
    eitp_status status = EITP_OK;
    *count = 0;
    for (int64_t i = 0; i < eitp__parameter_count(&model->config) && !status; i++) {
        eitp__parameter parameter = eitp__parameter_at(&model->config, i);
        if (!eitp__freeze_matches(model, item, size, &parameter))
            continue;
        ++*count;
        if (freezes)
            status = eitp_variable_set_trained(model->context, parameter.name, 0, error);
    }
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
            status = eitp__freeze_item(model, item, size, freezes, &count, error);
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
    int64_t base, elements = 0;
    if (!model)
        return 0;
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
