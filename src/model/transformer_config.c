/* GPT-2 configurations: by name, and as Hugging Face's config.json. */
#include "base/files.h"
#include "base/json.h"
#include "model/transformer.h"

static const struct {
    const char *name;
    int64_t width, heads, layers, positions;
} eitp__gpt2_shapes[] = {
    {"gpt2", 768, 12, 12, 1024},     {"gpt2-medium", 1024, 16, 24, 1024}, {"gpt2-large", 1280, 20, 36, 1024},
    {"gpt2-xl", 1600, 25, 48, 1024}, {"distilgpt2", 768, 12, 6, 1024},    {"tiny", 128, 4, 4, 256},
};

/* What a config.json that leaves a member out means. */
static eitp_transformer_config eitp__gpt2_defaults(void) {
    eitp_transformer_config config;
    memset(&config, 0, sizeof config);
    config.vocabulary = 50257;
    config.positions = 1024;
    config.width = 768;
    config.heads = 12;
    config.layers = 12;
    config.inner = 0;
    config.activation = EITP_GELU_TANH;
    config.epsilon = 1e-5;
    config.embedding_dropout = config.attention_dropout = config.residual_dropout = 0.1;
    config.initializer_range = 0.02;
    config.scale_attention = 1;
    config.tied = 1;
    config.begin.count = config.end.count = 1;
    config.begin.ids[0] = config.end.ids[0] = 50256;
    return config;
}

eitp_status eitp_transformer_config_named(const char *name, eitp_transformer_config *config, eitp_error *error) {
    if (!name || !config)
        return eitp__fail_null(error, "eitp_transformer_config_named", "name and config");
    for (size_t i = 0; i < EITP__COUNT(eitp__gpt2_shapes); i++) {
        if (strcmp(name, eitp__gpt2_shapes[i].name))
            continue;
        *config = eitp__gpt2_defaults();
        config->width = eitp__gpt2_shapes[i].width;
        config->heads = eitp__gpt2_shapes[i].heads;
        config->layers = eitp__gpt2_shapes[i].layers;
        config->positions = eitp__gpt2_shapes[i].positions;
        config->inner = 4 * config->width;
        return EITP_OK;
    }
    return eitp__fail(error, EITP_ERROR_ARGUMENT,
                      "there is no model shape '%s'; choose gpt2, gpt2-medium, gpt2-large, gpt2-xl, distilgpt2 or tiny",
                      name);
}

EITP__PRIVATE eitp_status eitp__transformer_config_check(const eitp_transformer_config *config, eitp_error *error) {
    const struct {
        const char *name;
        int64_t value, high;
    } sizes[] = {
        {"vocab_size", config->vocabulary, 1 << 24}, {"n_positions", config->positions, 1 << 24},
        {"n_embd", config->width, 1 << 20},          {"n_head", config->heads, 1 << 16},
        {"n_layer", config->layers, 1 << 14},        {"n_inner", config->inner, 1 << 24},
    };
    const struct {
        const char *name;
        double value, low, high;
    } numbers[] = {
        {"embd_pdrop", config->embedding_dropout, 0, 0.999},     {"attn_pdrop", config->attention_dropout, 0, 0.999},
        {"resid_pdrop", config->residual_dropout, 0, 0.999},     {"layer_norm_epsilon", config->epsilon, 0, 1},
        {"initializer_range", config->initializer_range, 0, 10},
    };
    for (size_t i = 0; i < EITP__COUNT(sizes); i++) {
        if (sizes[i].value < 1 || sizes[i].value > sizes[i].high)
            return eitp__fail(error, EITP_ERROR_FORMAT, "%s is %lld; it must be 1 to %lld", sizes[i].name,
                              (long long)sizes[i].value, (long long)sizes[i].high);
    }
    for (size_t i = 0; i < EITP__COUNT(numbers); i++) {
        if (!(numbers[i].value >= numbers[i].low && numbers[i].value <= numbers[i].high))
            return eitp__fail(error, EITP_ERROR_FORMAT, "%s is %g; it must be %g to %g", numbers[i].name,
                              numbers[i].value, numbers[i].low, numbers[i].high);
    }
    if (config->width % config->heads)
        return eitp__fail(error, EITP_ERROR_FORMAT, "n_embd %lld cannot be shared among n_head %lld",
                          (long long)config->width, (long long)config->heads);
    return EITP_OK;
}

/* Names that Hugging Face's activation_function has for what eitp computes; the first of each is the one written. */
static const struct {
    const char *name;
    eitp_activation activation;
} eitp__activations[] = {
    {"gelu_new", EITP_GELU_TANH},  {"gelu_pytorch_tanh", EITP_GELU_TANH},
    {"gelu_fast", EITP_GELU_TANH}, {"gelu", EITP_GELU_ERF},
    {"relu", EITP_RELU},           {"tanh", EITP_TANH},
};

static eitp_status eitp__read_activation(const eitp__json *root, eitp_activation *activation, eitp_error *error) {
    const char *name = "gelu_new";
    eitp_status status = eitp__json_get_text(root, "activation_function", &name, error);
    if (status)
        return status;
    for (size_t i = 0; i < EITP__COUNT(eitp__activations); i++) {
        if (!strcmp(name, eitp__activations[i].name)) {
            *activation = eitp__activations[i].activation;
            return EITP_OK;
        }
    }
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "activation_function '%s' is not one that eitp has", name);
}

/* Members that change what the model computes, and that eitp only takes at one value. */
static eitp_status eitp__check_features(const eitp__json *root, eitp_error *error) {
    const char *type = "gpt2";
    int cross_attention = 0;
    eitp_status status = eitp__json_get_text(root, "model_type", &type, error);
    if (!status)
        status = eitp__json_get_boolean(root, "add_cross_attention", &cross_attention, error);
    if (!status && strcmp(type, "gpt2"))
        status = eitp__fail(error, EITP_ERROR_UNSUPPORTED, "model_type is '%s'; eitp has gpt2", type);
    if (!status && cross_attention)
        status = eitp__fail(error, EITP_ERROR_UNSUPPORTED, "add_cross_attention is true; eitp has no cross-attention");
    return status;
}

/* ---- Special tokens ---- */

static eitp_status eitp__add_token_id(const eitp__json *value, const char *name, eitp_token_ids *ids,
                                      eitp_error *error) {
    if (value->kind != EITP__JSON_NUMBER || !value->is_integer)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: %s must be a whole number, a list of them, or null",
                          value->line, name);
    if (ids->count == EITP_TOKEN_IDS)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "line %zu: %s has more than %d ids", value->line, name,
                          EITP_TOKEN_IDS);
    if (value->integer >= 0 && value->integer <= INT32_MAX)
        ids->ids[ids->count++] = (int32_t)value->integer;
    return EITP_OK;
}

static eitp_status eitp__read_token_ids(const eitp__json *root, const char *name, eitp_token_ids *ids,
                                        eitp_error *error) {
    const eitp__json *value = eitp__json_member(root, name);
    const int is_list = value && value->kind == EITP__JSON_ARRAY;
    eitp_status status = EITP_OK;
    if (!value)
        return EITP_OK;
    memset(ids, 0, sizeof *ids);
    if (value->kind == EITP__JSON_NULL)
        return EITP_OK;
    for (value = is_list ? value->first_child : value; value && !status; value = is_list ? value->next : NULL)
        status = eitp__add_token_id(value, name, ids, error);
    return status;
}

/* The ids below `vocabulary`, each once: transformers has GPT-2's 50256 in configurations of any vocabulary. */
static eitp_token_ids eitp__known_token_ids(const eitp_token_ids *ids, int64_t vocabulary) {
    eitp_token_ids known = EITP__ZERO;
    for (int32_t i = 0; i < ids->count; i++) {
        int32_t k = 0;
        while (k < known.count && known.ids[k] != ids->ids[i])
            k++;
        if (k == known.count && ids->ids[i] < vocabulary)
            known.ids[known.count++] = ids->ids[i];
    }
    return known;
}

EITP__PRIVATE eitp_status eitp__config_read_special_tokens(const eitp__json *root, eitp_transformer_config *config,
                                                           eitp_error *error) {
    eitp_status status = eitp__read_token_ids(root, "bos_token_id", &config->begin, error);
    if (!status)
        status = eitp__read_token_ids(root, "eos_token_id", &config->end, error);
    if (!status)
        status = eitp__read_token_ids(root, "pad_token_id", &config->padding, error);
    return status;
}

/* transformers takes 50256 for what begins and ends a text where nothing is written. */
static void eitp__write_token_ids(eitp__buffer *text, const char *name, const eitp_token_ids *ids, int64_t vocabulary) {
    const eitp_token_ids known = eitp__known_token_ids(ids, vocabulary);
    eitp__buffer_format(text, "  \"%s\": %s", name, known.count > 1 ? "[" : known.count ? "" : "null");
    for (int32_t i = 0; i < known.count; i++)
        eitp__buffer_format(text, "%s%d", i ? ", " : "", (int)known.ids[i]);
    eitp__buffer_add_text(text, known.count > 1 ? "],\n" : ",\n");
}

EITP__PRIVATE void eitp__config_write_special_tokens(eitp__buffer *text, const eitp_transformer_config *config) {
    eitp__write_token_ids(text, "bos_token_id", &config->begin, config->vocabulary);
    eitp__write_token_ids(text, "eos_token_id", &config->end, config->vocabulary);
    eitp__write_token_ids(text, "pad_token_id", &config->padding, config->vocabulary);
}

static void eitp__set_token_id(eitp_token_ids *ids, int32_t id) {
    memset(ids, 0, sizeof *ids);
    ids->count = id >= 0;
    ids->ids[0] = id >= 0 ? id : 0;
}

EITP__PRIVATE void eitp__config_set_special_tokens(eitp_transformer_config *config, int32_t begin, int32_t end,
                                                   int32_t padding) {
    int is_known = end < 0;
    for (int32_t i = 0; i < config->end.count; i++)
        is_known = is_known || config->end.ids[i] == end;
    if (!is_known) {
        eitp__set_token_id(&config->end, end);
        eitp__set_token_id(&config->begin, end);
        eitp__set_token_id(&config->padding, -1);
    }
    if (begin >= 0)
        eitp__set_token_id(&config->begin, begin);
    if (padding >= 0)
        eitp__set_token_id(&config->padding, padding);
}

/* ---- Reading and writing ---- */

static eitp_status eitp__parse_gpt2_config(const eitp__json *root, eitp_transformer_config *config, eitp_error *error) {
    const struct {
        const char *name;
        int64_t *value;
    } integers[] = {
        {"vocab_size", &config->vocabulary}, {"n_ctx", &config->positions}, {"n_positions", &config->positions},
        {"n_embd", &config->width},          {"n_head", &config->heads},    {"n_layer", &config->layers},
        {"n_inner", &config->inner},
    };
    const struct {
        const char *name;
        double *value;
    } numbers[] = {
        {"embd_pdrop", &config->embedding_dropout},        {"attn_pdrop", &config->attention_dropout},
        {"resid_pdrop", &config->residual_dropout},        {"layer_norm_epsilon", &config->epsilon},
        {"initializer_range", &config->initializer_range},
    };
    const struct {
        const char *name;
        int *value;
    } booleans[] = {
        {"scale_attn_weights", &config->scale_attention},
        {"scale_attn_by_inverse_layer_idx", &config->scale_attention_by_layer},
        {"tie_word_embeddings", &config->tied},
    };
    eitp_status status = EITP_OK;
    if (!root || root->kind != EITP__JSON_OBJECT)
        return eitp__fail(error, EITP_ERROR_FORMAT, "this is no JSON object; a config.json is one");
    status = eitp__check_features(root, error);
    for (size_t i = 0; i < EITP__COUNT(integers) && !status; i++)
        status = eitp__json_get_integer(root, integers[i].name, 1, 1 << 24, integers[i].value, error);
    for (size_t i = 0; i < EITP__COUNT(numbers) && !status; i++)
        status = eitp__json_get_number(root, numbers[i].name, 0, 10, numbers[i].value, error);
    for (size_t i = 0; i < EITP__COUNT(booleans) && !status; i++)
        status = eitp__json_get_boolean(root, booleans[i].name, booleans[i].value, error);
    if (!status)
        status = eitp__read_activation(root, &config->activation, error);
    if (!status)
        status = eitp__config_read_special_tokens(root, config, error);
    if (!config->inner)
        config->inner = 4 * config->width;
    return status ? status : eitp__transformer_config_check(config, error);
}

eitp_status eitp_transformer_config_read(const eitp_host *host, const char *path, eitp_transformer_config *config,
                                         eitp_error *error) {
    if (!host || !path || !config)
        return eitp__fail_null(error, "eitp_transformer_config_read", "host, path and config");
    enum { LIMIT = 16 << 20 };
    eitp__json_document *document;
    eitp_transformer_config parsed = eitp__gpt2_defaults();
    eitp_status status = eitp__json_read_file(host, path, LIMIT, &document, error);
    if (status)
        return status;
    status = eitp__parse_gpt2_config(eitp__json_root(document), &parsed, error);
    eitp__json_release(document);
    if (status)
        return eitp__fail_prefix(error, status, "%s", path);
    *config = parsed;
    return EITP_OK;
}

static const char *eitp__activation_name(eitp_activation activation) {
    for (size_t i = 0; i < EITP__COUNT(eitp__activations); i++) {
        if (eitp__activations[i].activation == activation)
            return eitp__activations[i].name;
    }
    return "gelu_new";
}

static void eitp__write_number(eitp__buffer *text, const char *name, double value) {
    eitp__buffer_format(text, "  \"%s\": ", name);
    eitp__json_write_number(text, value);
    eitp__buffer_add_text(text, ",\n");
}

static void eitp__write_boolean(eitp__buffer *text, const char *name, int value) {
    eitp__buffer_format(text, "  \"%s\": %s,\n", name, value ? "true" : "false");
}

static void eitp__write_integer(eitp__buffer *text, const char *name, int64_t value) {
    eitp__buffer_format(text, "  \"%s\": %lld,\n", name, (long long)value);
}

eitp_status eitp_transformer_config_write(const eitp_host *host, const char *path,
                                          const eitp_transformer_config *config, int32_t end_of_text, eitp_dtype dtype,
                                          eitp_error *error) {
    eitp_transformer_config named;
    eitp__buffer text;
    eitp_status status;
    if (!host || !path || !config)
        return eitp__fail_null(error, "eitp_transformer_config_write", "host, path and config");
    named = *config;
    eitp__config_set_special_tokens(&named, -1, end_of_text, -1);
    eitp__buffer_init(&text, host);
    eitp__buffer_add_text(&text, "{\n  \"architectures\": [\"GPT2LMHeadModel\"],\n  \"model_type\": \"gpt2\",\n");
    eitp__buffer_format(&text, "  \"activation_function\": \"%s\",\n", eitp__activation_name(config->activation));
    eitp__write_integer(&text, "vocab_size", config->vocabulary);
    eitp__write_integer(&text, "n_positions", config->positions);
    eitp__write_integer(&text, "n_ctx", config->positions);
    eitp__write_integer(&text, "n_embd", config->width);
    eitp__write_integer(&text, "n_head", config->heads);
    eitp__write_integer(&text, "n_layer", config->layers);
    eitp__write_integer(&text, "n_inner", config->inner);
    eitp__write_number(&text, "embd_pdrop", config->embedding_dropout);
    eitp__write_number(&text, "attn_pdrop", config->attention_dropout);
    eitp__write_number(&text, "resid_pdrop", config->residual_dropout);
    eitp__write_number(&text, "layer_norm_epsilon", config->epsilon);
    eitp__write_number(&text, "initializer_range", config->initializer_range);
    eitp__write_boolean(&text, "scale_attn_weights", config->scale_attention);
    eitp__write_boolean(&text, "scale_attn_by_inverse_layer_idx", config->scale_attention_by_layer);
    eitp__write_boolean(&text, "tie_word_embeddings", config->tied);
    eitp__config_write_special_tokens(&text, &named);
    /* The older and the newer spelling, so that every version of transformers finds it. */
    for (int i = 0; i < 2; i++)
        eitp__buffer_format(&text, "  \"%s\": \"%s\"%s\n", i ? "dtype" : "torch_dtype",
                            dtype == EITP_F16    ? "float16"
                            : dtype == EITP_BF16 ? "bfloat16"
                                                 : "float32",
                            i ? "" : ",");
    eitp__buffer_add_text(&text, "}\n");
    status = text.failed ? eitp__fail_memory(error, text.size, "a config.json")
                         : eitp__write_file(host, path, text.data, text.size, error);
    eitp__buffer_release(&text);
    return status;
}
