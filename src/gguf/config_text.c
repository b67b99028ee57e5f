/* The config.json of a GGUF file. */
#include "base/convert.h"
#include "base/json.h"
#include "gguf/architectures.h"

/* A file while its configuration is written. */
typedef struct eitp__gguf_config {
    const eitp__gguf *gguf;
    const eitp__gguf_architecture *architecture;
    eitp__buffer *text;
    int64_t width, heads, layers, head_width;
} eitp__gguf_config;

/* ---- Keys ---- */

enum { EITP__GGUF_KEY_SIZE = 128 };

/* Forms the name of a key of the architecture. */
static const char *eitp__gguf_key_of(const eitp__gguf_config *config, const char *name, char key[EITP__GGUF_KEY_SIZE]) {
    snprintf(key, EITP__GGUF_KEY_SIZE, "%s.%s", config->architecture->name, name);
    return key;
}

/* Reads an integer, or an array with the same integer for each layer. */
static eitp_status eitp__gguf_config_integer(const eitp__gguf_config *config, const char *name, int64_t *value,
                                             eitp_error *error) {
    char key[EITP__GGUF_KEY_SIZE];
    const eitp__gguf_value *found = eitp__gguf_find(config->gguf, eitp__gguf_key_of(config, name, key));
    eitp_status status;
    if (!found || !found->is_array)
        return eitp__gguf_get_integer(config->gguf, key, 0, INT32_MAX, value, error);
    status = eitp__gguf_get_array(config->gguf, key, 0, &found, error);
    if (!status && (found->kind == EITP__GGUF_F32 || found->kind == EITP__GGUF_F64 || found->kind == EITP__GGUF_BOOL))
        status = eitp__fail(error, EITP_ERROR_FORMAT, "key '%s' must be an array of integers", key);
    for (uint64_t i = 0; i < found->count && !status; i++) {
        const int64_t element = eitp__gguf_integer_at(found, i);
        if (element < 0 || element > INT32_MAX)
            status = eitp__fail(error, EITP_ERROR_FORMAT, "key '%s' has element %lld, which is outside 0 to %d", key,
                                (long long)element, INT32_MAX);
        else if (i && element != *value)
            status = eitp__fail(error, EITP_ERROR_UNSUPPORTED, "unsupported key '%s': it differs between layers", key);
        else
            *value = element;
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__gguf_heads(const eitp__gguf *gguf, const eitp__gguf_architecture *architecture,
                                           int64_t *heads, int64_t *key_value_heads, eitp_error *error) {
    eitp__gguf_config config = EITP__ZERO;
    eitp_status status;
    config.gguf = gguf;
    config.architecture = architecture;
    *heads = 0;
    status = eitp__gguf_config_integer(&config, "attention.head_count", heads, error);
    *key_value_heads = *heads;
    return status ? status : eitp__gguf_config_integer(&config, "attention.head_count_kv", key_value_heads, error);
}

static eitp_status eitp__gguf_config_number(const eitp__gguf_config *config, const char *name, double *value,
                                            eitp_error *error) {
    const double most = 1e12;
    char key[EITP__GGUF_KEY_SIZE];
    return eitp__gguf_get_number(config->gguf, eitp__gguf_key_of(config, name, key), 0, most, value, error);
}

/* Fails for a key of the architecture that is not in its table. */
static eitp_status eitp__gguf_check_key(const eitp__gguf_architecture *architecture, eitp__gguf_text key,
                                        eitp_error *error) {
    const size_t prefix = strlen(architecture->name);
    if (key.size <= prefix || memcmp(key.data, architecture->name, prefix) || key.data[prefix] != '.')
        return EITP_OK;
    for (size_t i = 0; i < architecture->key_count; i++) {
        const eitp__gguf_text name = {key.data + prefix + 1, key.size - prefix - 1};
        if (eitp__gguf_text_is(name, architecture->keys[i].name))
            return EITP_OK;
    }
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                      "unsupported key '%.*s': it may affect outputs, and eitp's %s does not have it",
                      key.size < 80 ? (int)key.size : 80, key.data, architecture->model_type);
}

static eitp_status eitp__gguf_check_keys(const eitp__gguf_config *config, eitp_error *error) {
    const eitp__gguf_architecture *architecture = config->architecture;
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < config->gguf->value_count && !status; i++)
        status = eitp__gguf_check_key(architecture, config->gguf->values[i].key, error);
    for (size_t i = 0; i < architecture->key_count && !status; i++) {
        char key[EITP__GGUF_KEY_SIZE];
        if (architecture->keys[i].is_required &&
            !eitp__gguf_find(config->gguf, eitp__gguf_key_of(config, architecture->keys[i].name, key)))
            status = eitp__fail(error, EITP_ERROR_FORMAT, "key '%s' is missing", key);
    }
    return status;
}

/* ---- Members ---- */

/* Adds a number that was stored as f32 with the fewest digits that give this f32 again: 1e-05, not 9.99999975e-06. */
static void eitp__gguf_write_f32(eitp__buffer *text, double value) {
    char digits[40] = "";
    double read = 0;
    for (int count = 1; count <= 9; count++) {
        eitp__json_format_digits(value, count, digits);
        if (eitp__json_read_number(digits, strlen(digits), &read) &&
            eitp__bits_of_float((float)read) == eitp__bits_of_float((float)value))
            break;
    }
    eitp__buffer_add_text(text, digits);
}

static void eitp__gguf_write_member(eitp__buffer *text, const char *name) {
    eitp__buffer_format(text, ",\n  \"%s\": ", name);
}

static void eitp__gguf_write_integer(eitp__buffer *text, const char *name, int64_t value) {
    eitp__gguf_write_member(text, name);
    eitp__buffer_format(text, "%lld", (long long)value);
}

/* Adds the member of a key, if the file has the key. */
static eitp_status eitp__gguf_write_key(const eitp__gguf_config *config, const eitp__gguf_key *key, eitp_error *error) {
    char name[EITP__GGUF_KEY_SIZE];
    int64_t integer = 0;
    double number = 0;
    eitp_status status;
    if (!key->member || !eitp__gguf_find(config->gguf, eitp__gguf_key_of(config, key->name, name)))
        return EITP_OK;
    status = key->is_number ? eitp__gguf_config_number(config, key->name, &number, error)
                            : eitp__gguf_config_integer(config, key->name, &integer, error);
    if (status)
        return status;
    if (!key->is_number) {
        eitp__gguf_write_integer(config->text, key->member, integer);
    } else if (number > 0) { /* 0 means none */
        eitp__gguf_write_member(config->text, key->member);
        eitp__gguf_write_f32(config->text, number);
    }
    return EITP_OK;
}

/* Adds a member with the rows of a matrix, which the file must have. */
static eitp_status eitp__gguf_write_rows(const eitp__gguf_config *config, const char *tensor, const char *member,
                                         eitp_error *error) {
    const eitp__gguf_tensor *found = eitp__gguf_find_tensor(config->gguf, tensor);
    if (!found || found->rank != 2)
        return eitp__fail(error, EITP_ERROR_FORMAT, "tensor '%s' %s", tensor, found ? "is not a matrix" : "is missing");
    eitp__gguf_write_integer(config->text, member, found->shape[0]);
    return EITP_OK;
}

/* ---- Rotary positions ---- */

/* Fails unless a key is missing or has its neutral value. */
static eitp_status eitp__gguf_require(const eitp__gguf_config *config, const char *name, int64_t expected,
                                      eitp_error *error) {
    int64_t value = expected;
    const eitp_status status = eitp__gguf_config_integer(config, name, &value, error);
    return status || value == expected
               ? status
               : eitp__fail(error, EITP_ERROR_UNSUPPORTED, "unsupported key '%s.%s' %lld (expected %lld)",
                            config->architecture->name, name, (long long)value, (long long)expected);
}

/* The scaling of Llama 3 is stored as the divisor of each frequency (Llama 3.1's config.json: factor, low_freq_factor
   1, high_freq_factor 4, original_max_position_embeddings 8192). The largest divisor is the factor. */
static eitp_status eitp__gguf_write_llama3_scaling(const eitp__gguf_config *config, const eitp__gguf_tensor *divisors,
                                                   eitp_error *error) {
    const double tolerance = 1e-4;
    eitp__gguf_llama3 scaling = {10000, (double)config->head_width, 1, 1, 4, 8192};
    float values[1024];
    eitp_status status = eitp__gguf_config_number(config, "rope.freq_base", &scaling.theta, error);
    if (!status && (divisors->count != config->head_width / 2 || divisors->count > (int64_t)EITP__COUNT(values)))
        status = eitp__fail(error, EITP_ERROR_FORMAT, "tensor 'rope_freqs.weight' has %lld elements, expected %lld",
                            (long long)divisors->count, (long long)config->head_width / 2);
    if (!status)
        status = eitp__gguf_read_f32(config->gguf, divisors, values, error);
    for (int64_t i = 0; i < divisors->count && !status; i++)
        scaling.factor = (double)values[i] > scaling.factor ? (double)values[i] : scaling.factor;
    for (int64_t i = 0; i < divisors->count && !status; i++) {
        const double expected = eitp__gguf_llama3_divisor(&scaling, i);
        if (!(fabs((double)values[i] - expected) <= tolerance * expected))
            status = eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                                "unsupported 'rope_freqs.weight': element %lld is %g, but %g in Llama 3's scaling",
                                (long long)i, (double)values[i], expected);
    }
    if (status || scaling.factor <= 1)
        return status;
    eitp__buffer_add_text(config->text, ",\n  \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": ");
    eitp__gguf_write_f32(config->text, scaling.factor);
    eitp__buffer_add_text(config->text, ", \"low_freq_factor\": 1, \"high_freq_factor\": 4, "
                                        "\"original_max_position_embeddings\": 8192}");
    return EITP_OK;
}

/* Reads the factor of linear scaling; 1: none. Other kinds are not supported. */
static eitp_status eitp__gguf_linear_factor(const eitp__gguf_config *config, double *factor, eitp_error *error) {
    char key[EITP__GGUF_KEY_SIZE];
    eitp__gguf_text type = {"linear", 6};
    eitp_status status =
        eitp__gguf_get_text(config->gguf, eitp__gguf_key_of(config, "rope.scaling.type", key), &type, error);
    *factor = 1;
    if (status || eitp__gguf_text_is(type, "none"))
        return status;
    if (!eitp__gguf_text_is(type, "linear"))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "unsupported %s '%.*s' (supported: none, linear)", key,
                          type.size < 40 ? (int)type.size : 40, type.data);
    status = eitp__gguf_config_number(config, "rope.scale_linear", factor, error);
    return status ? status : eitp__gguf_config_number(config, "rope.scaling.factor", factor, error);
}

static eitp_status eitp__gguf_write_scaling(const eitp__gguf_config *config, eitp_error *error) {
    const eitp__gguf_tensor *divisors = eitp__gguf_find_tensor(config->gguf, "rope_freqs.weight");
    double factor;
    const eitp_status status = eitp__gguf_linear_factor(config, &factor, error);
    const int is_scaled = factor < 1 || factor > 1;
    if (status)
        return status;
    if (divisors && is_scaled)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "unsupported '%s.rope.scaling.factor' with 'rope_freqs.weight'", config->architecture->name);
    if (divisors)
        return eitp__gguf_write_llama3_scaling(config, divisors, error);
    if (!is_scaled)
        return EITP_OK;
    eitp__buffer_add_text(config->text, ",\n  \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": ");
    eitp__gguf_write_f32(config->text, factor);
    eitp__buffer_add_text(config->text, "}");
    return EITP_OK;
}

static eitp_status eitp__gguf_write_rotary(const eitp__gguf_config *config, eitp_error *error) {
    eitp_status status = eitp__gguf_require(config, "rope.dimension_count", config->head_width, error);
    if (!status)
        status = eitp__gguf_require(config, "attention.value_length", config->head_width, error);
    if (!status)
        status = eitp__gguf_require(config, "expert_count", 0, error);
    return status ? status : eitp__gguf_write_scaling(config, error);
}

/* ---- Architectures ---- */

/* Adds a list of booleans as types of layers. */
static void eitp__gguf_write_layer_types(const eitp__gguf_config *config, const eitp__gguf_value *is_local) {
    eitp__gguf_write_member(config->text, "layer_types");
    for (uint64_t i = 0; i < is_local->count; i++)
        eitp__buffer_format(config->text, "%s\"%s_attention\"", i ? ", " : "[",
                            eitp__gguf_integer_at(is_local, i) ? "sliding" : "full");
    eitp__buffer_add_text(config->text, "]");
}

/* Gemma 3: the pattern of layers with a window, every sixth without one by default, and the scale of attention. The
   model with 62 layers divides by the square root of width / heads (llama.cpp decides by the number of layers too). */
static eitp_status eitp__gguf_write_gemma3(const eitp__gguf_config *config, eitp_error *error) {
    char key[EITP__GGUF_KEY_SIZE];
    const eitp__gguf_value *pattern =
        eitp__gguf_find(config->gguf, eitp__gguf_key_of(config, "attention.sliding_window_pattern", key));
    int64_t period = 6;
    eitp_status status = EITP_OK;
    eitp__gguf_write_integer(config->text, "query_pre_attn_scalar",
                             config->layers == 62 && config->heads ? config->width / config->heads
                                                                   : config->head_width);
    if (!pattern || !pattern->is_array) {
        status = eitp__gguf_get_integer(config->gguf, key, 1, INT32_MAX, &period, error);
        if (!status)
            eitp__gguf_write_integer(config->text, "sliding_window_pattern", period);
        return status;
    }
    status = eitp__gguf_get_array(config->gguf, key, 0, &pattern, error);
    if (!status && pattern->count != (uint64_t)config->layers)
        status = eitp__fail(error, EITP_ERROR_FORMAT, "key '%s' has %llu elements for %lld layers", key,
                            (unsigned long long)pattern->count, (long long)config->layers);
    if (!status)
        eitp__gguf_write_layer_types(config, pattern);
    return status;
}

/* True if the first block has a bias of this name. */
static int eitp__gguf_has_bias(const eitp__gguf_config *config, const char *layer) {
    char name[64];
    snprintf(name, sizeof name, "blk.0.%s.bias", layer);
    return eitp__gguf_find_tensor(config->gguf, name) != NULL;
}

/* Fails unless attention is causal as the architecture's is, which it is without the key. */
static eitp_status eitp__gguf_check_causal(const eitp__gguf_config *config, int expected, eitp_error *error) {
    char key[EITP__GGUF_KEY_SIZE];
    int is_causal = expected;
    const eitp_status status =
        eitp__gguf_get_flag(config->gguf, eitp__gguf_key_of(config, "attention.causal", key), &is_causal, error);
    return status || is_causal == expected
               ? status
               : eitp__fail(error, EITP_ERROR_UNSUPPORTED, "unsupported key '%s' %s (expected %s)", key,
                            is_causal ? "true" : "false", expected ? "true" : "false");
}

static eitp_status eitp__gguf_write_decoder_members(const eitp__gguf_config *config, eitp_error *error) {
    const char *type = config->architecture->model_type;
    eitp_status status = eitp__gguf_write_rotary(config, error);
    if (!status && !strcmp(type, "gemma3_text"))
        status = eitp__gguf_write_gemma3(config, error);
    if (status || !strcmp(type, "qwen2"))
        return status;
    if (eitp__gguf_has_bias(config, "attn_output"))
        eitp__buffer_add_text(config->text, ",\n  \"attention_bias\": true");
    else if (eitp__gguf_has_bias(config, "attn_q"))
        status = eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                            "unsupported 'blk.0.attn_q.bias' without 'blk.0.attn_output.bias' in a %s", type);
    if (eitp__gguf_has_bias(config, "ffn_down"))
        eitp__buffer_add_text(config->text, ",\n  \"mlp_bias\": true");
    return status;
}

/* Adds the members that are not in the table of keys. */
static eitp_status eitp__gguf_write_rest(const eitp__gguf_config *config, eitp_error *error) {
    const eitp__gguf_architecture *architecture = config->architecture;
    const int is_encoder = !strcmp(architecture->name, "bert");
    const eitp_status status = eitp__gguf_check_causal(config, !is_encoder, error);
    if (status || (is_encoder && !architecture->tensor))
        return status;
    if (is_encoder)
        return eitp__gguf_write_rows(config, architecture->tensor, "type_vocab_size", error);
    return strcmp(architecture->name, "gpt2")
               ? eitp__gguf_write_decoder_members(config, error)
               : eitp__gguf_require(config, "attention.head_count_kv", config->heads, error);
}

/* ---- Special tokens ---- */

/* Adds the id of a special token; null if the file has none. An end of turn also ends a text. */
static eitp_status eitp__gguf_write_token(const eitp__gguf_config *config, const char *member, const char *key,
                                          const char *other, eitp_error *error) {
    int64_t id = -1, second = -1;
    eitp_status status = eitp__gguf_get_integer(config->gguf, key, 0, INT32_MAX, &id, error);
    if (!status && other)
        status = eitp__gguf_get_integer(config->gguf, other, 0, INT32_MAX, &second, error);
    if (status)
        return status;
    eitp__gguf_write_member(config->text, member);
    if (id >= 0 && second >= 0 && second != id)
        eitp__buffer_format(config->text, "[%lld, %lld]", (long long)id, (long long)second);
    else if (id >= 0)
        eitp__buffer_format(config->text, "%lld", (long long)id);
    else
        eitp__buffer_add_text(config->text, "null");
    return EITP_OK;
}

static eitp_status eitp__gguf_write_tokens(const eitp__gguf_config *config, eitp_error *error) {
    eitp_status status = eitp__gguf_write_token(config, "bos_token_id", "tokenizer.ggml.bos_token_id", NULL, error);
    if (!status)
        status = eitp__gguf_write_token(config, "eos_token_id", "tokenizer.ggml.eos_token_id",
                                        "tokenizer.ggml.eot_token_id", error);
    return status ? status
                  : eitp__gguf_write_token(config, "pad_token_id", "tokenizer.ggml.padding_token_id", NULL, error);
}

/* ---- The file ---- */

static eitp_status eitp__gguf_read_sizes(eitp__gguf_config *config, eitp_error *error) {
    eitp_status status = eitp__gguf_config_integer(config, "embedding_length", &config->width, error);
    if (!status)
        status = eitp__gguf_config_integer(config, "attention.head_count", &config->heads, error);
    if (!status)
        status = eitp__gguf_config_integer(config, "block_count", &config->layers, error);
    config->head_width = config->heads ? config->width / config->heads : 0;
    return status ? status : eitp__gguf_config_integer(config, "attention.key_length", &config->head_width, error);
}

EITP__PRIVATE eitp_status eitp__gguf_write_model_config(const eitp__gguf *gguf, eitp__buffer *text, eitp_error *error) {
    eitp__gguf_config config = EITP__ZERO;
    eitp_status status = eitp__gguf_architecture_of(gguf, &config.architecture, error);
    if (status)
        return status;
    config.gguf = gguf;
    config.text = text;
    status = eitp__gguf_check_keys(&config, error);
    if (!status)
        status = eitp__gguf_read_sizes(&config, error);
    eitp__buffer_format(text,
                        "{\n  \"architectures\": [\"%s\"],\n  \"model_type\": \"%s\",\n"
                        "  \"tie_word_embeddings\": %s",
                        config.architecture->class_name, config.architecture->model_type,
                        eitp__gguf_find_tensor(gguf, "output.weight") ? "false" : "true");
    for (size_t i = 0; i < config.architecture->key_count && !status; i++)
        status = eitp__gguf_write_key(&config, &config.architecture->keys[i], error);
    if (!status)
        status = eitp__gguf_write_rows(&config, "token_embd.weight", "vocab_size", error);
    if (!status)
        status = eitp__gguf_write_rest(&config, error);
    if (!status)
        status = eitp__gguf_write_tokens(&config, error);
    eitp__buffer_add_text(text, "\n}\n");
    return status;
}

/* ---- Pooling ---- */

/* llama.cpp's kinds of pooling, by number, as sentence-transformers names them. */
static const char *const eitp__gguf_poolings[] = {NULL, "mean", "cls", "lasttoken"};

/* Finds the kind of pooling; -1 if the file does not say. */
static eitp_status eitp__gguf_pooling(const eitp__gguf *gguf, int64_t *pooling, eitp_error *error) {
    eitp__gguf_config config = EITP__ZERO;
    eitp_status status = eitp__gguf_architecture_of(gguf, &config.architecture, error);
    config.gguf = gguf;
    *pooling = -1;
    return status ? status : eitp__gguf_config_integer(&config, "pooling_type", pooling, error);
}

EITP__PRIVATE int eitp__gguf_has_pooling(const eitp__gguf *gguf) {
    int64_t pooling;
    return !eitp__gguf_pooling(gguf, &pooling, NULL) && pooling > 0;
}

EITP__PRIVATE eitp_status eitp__gguf_write_pooling(const eitp__gguf *gguf, eitp__buffer *text, eitp_error *error) {
    int64_t pooling;
    const eitp_status status = eitp__gguf_pooling(gguf, &pooling, error);
    if (!status && (pooling < 1 || pooling >= (int64_t)EITP__COUNT(eitp__gguf_poolings)))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "unsupported pooling_type %lld (supported: 1 to 3)",
                          (long long)pooling);
    if (!status)
        eitp__buffer_format(text, "{\"pooling_mode\": \"%s\"}\n", eitp__gguf_poolings[pooling]);
    return status;
}
