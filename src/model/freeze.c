/* Which parameters of a model are trained. */
#include "model/lora.h"
#include "model/transformer.h"

/* Does the name match the pattern of `size` characters, in which "*" stands for any text? */
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

/* The number after "layers:" in a word; -1 where it is no such word, or none. */
static int64_t eitp__layers_of(const char *word, size_t size) {
    static const char prefix[] = "layers:";
    const size_t length = sizeof prefix - 1;
    int64_t number = 0;
    if (size <= length || size > length + 6 || strncmp(word, prefix, length))
        return -1;
    for (size_t i = length; i < size; i++) {
        if (word[i] < '0' || word[i] > '9')
            return -1;
        number = 10 * number + (word[i] - '0');
    }
    return number;
}

/* True if a word of eitp_model_freeze names the parameter. */
static int eitp__word_names(const eitp_model *model, const char *word, size_t size, const eitp__parameter *parameter) {
    const char *shorter = eitp__without_prefix(&model->config, parameter->name);
    int64_t layers = eitp__layers_of(word, size);
    if (layers >= 0)
        return parameter->layer >= 0 && parameter->layer < layers;
    if (size == strlen("embeddings") && !strncmp(word, "embeddings", size))
        return parameter->row->place == EITP__BEFORE_BLOCKS;
    return eitp__pattern_matches(word, size, parameter->name) || eitp__pattern_matches(word, size, shorter);
}

/* Calls for each parameter that a word names; returns how many there are. */
static eitp_status eitp__freeze_word(eitp_model *model, const char *word, size_t size, int freezes, int64_t *count,
                                     eitp_error *error) {
    eitp_status status = EITP_OK;
    *count = 0;
    for (int64_t i = 0; i < eitp__parameter_count(&model->config) && !status; i++) {
        eitp__parameter parameter = eitp__parameter_at(&model->config, i);
        if (!eitp__word_names(model, word, size, &parameter))
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
        for (const char *word = parts; !status; word++) {
            size_t size = strcspn(word, ",");
            int64_t count, layers = eitp__layers_of(word, size);
            status = eitp__freeze_word(model, word, size, freezes, &count, error);
            if (!status && (!count || layers > model->config.layers))
                return eitp__fail(error, EITP_ERROR_ARGUMENT,
                                  "'%.*s' freezes nothing of a model with %lld layers; use embeddings, layers:N, or a "
                                  "parameter's name, with * for any text",
                                  (int)(size < 60 ? size : 60), word, (long long)model->config.layers);
            word += size;
            if (!*word)
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
        int64_t at = eitp_variable_find(model->context, parameter.name);
        if (eitp_variable_at(model->context, (size_t)at).trained)
            elements += eitp__parameter_elements(&parameter);
    }
    return elements;
}
