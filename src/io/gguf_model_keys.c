#include "io/gguf_model_keys.h"

/* ---- Limits of the format ---- */

static int64_t eitp__gguf_inner(const eitp_transformer_config *config) {
    return config->inner ? config->inner : 4 * config->width;
}

static int eitp__gguf_is_encoder(const eitp__gguf_architecture *format) {
    return !strcmp(format->name, "bert");
}

static int eitp__gguf_is_gemma(const eitp__gguf_architecture *format) {
    return format->adds_one;
}

/* Fails with a reason. */
static eitp_status eitp__gguf_refuse_model(const eitp_transformer_config *config, const char *reason,
                                           eitp_error *error) {
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "a GGUF file cannot describe this %s: %s",
                      eitp__architecture_of(config)->model_type, reason);
}

/* Checks the settings that llama.cpp derives from the architecture. */
static eitp_status eitp__gguf_check_constants(const eitp_transformer_config *config,
                                              const eitp__gguf_architecture *format, eitp_error *error) {
    const eitp_transformer_config *own = eitp__architecture_of(config)->defaults;
    const double head = (double)eitp__head_width(config);
    if (eitp_head_has_labels(config->head))
        return eitp__gguf_refuse_model(config, "its head is a classifier, for which runners have no file", error);
    if (config->activation != own->activation)
        return eitp__gguf_refuse_model(config, "its activation is not the architecture's own", error);
    if (!config->scale_attention || config->scale_attention_by_layer)
        return eitp__gguf_refuse_model(config, "its attention scores are not scaled by 1 / sqrt(width of a head)",
                                       error);
    if (eitp__gguf_is_gemma(format) && config->layers == 62)
        return eitp__gguf_refuse_model(config, "runners take 62 layers for Gemma 3 27B, with another scale of scores",
                                       error);
    if (config->attention_scalar > 0 && (config->attention_scalar > head || config->attention_scalar < head))
        return eitp__gguf_refuse_model(config, "its query_pre_attn_scalar is not the width of a head", error);
    if ((config->attention_bias || config->mlp_bias) && strcmp(format->name, "llama"))
        return eitp__gguf_refuse_model(config, "its linear layers have biases", error);
    return config->rotary.scaling == EITP_ROTARY_LLAMA3 && strcmp(format->name, "llama")
               ? eitp__gguf_refuse_model(config, "its rotary positions are scaled as Llama 3's", error)
               : EITP_OK;
}

EITP__PRIVATE eitp_status eitp__gguf_check_config(const eitp_transformer_config *config,
                                                  const eitp__gguf_architecture **format, eitp_error *error) {
    const char *type = eitp__architecture_of(config)->model_type;
    /* Mistral computes as Llama does, and RoBERTa as BERT does, from its first position on. */
    *format = eitp__gguf_architecture_named(!strcmp(type, "mistral")   ? "llama"
                                            : !strcmp(type, "roberta") ? "bert"
                                                                       : type);
    return *format ? eitp__gguf_check_constants(config, *format, error)
                   : eitp__fail(error, EITP_ERROR_UNSUPPORTED, "%s cannot be exported as GGUF", type);
}

/* ---- Keys ---- */

typedef struct eitp__gguf_keys {
    const eitp__gguf_architecture *format;
    eitp__gguf_writer *writer;
} eitp__gguf_keys;

static const char *eitp__gguf_full_key(const eitp__gguf_keys *keys, const char *name, char full[128]) {
    snprintf(full, 128, "%s.%s", keys->format->name, name);
    return full;
}

static void eitp__gguf_put_size(const eitp__gguf_keys *keys, const char *name, int64_t value) {
    char full[128];
    eitp__gguf_put_integer(keys->writer, eitp__gguf_full_key(keys, name, full), EITP__GGUF_U32, value);
}

static void eitp__gguf_put_number(const eitp__gguf_keys *keys, const char *name, double value) {
    char full[128];
    eitp__gguf_put_f32(keys->writer, eitp__gguf_full_key(keys, name, full), (float)value);
}

/* Returns the positions within which a window that the file cannot describe has no effect. */
static int64_t eitp__gguf_positions(const eitp_transformer_config *config, const eitp__gguf_architecture *format) {
    int64_t positions = eitp_transformer_config_positions(config);
    for (int64_t i = 0; i < config->layers && !eitp__gguf_is_gemma(format); i++) {
        const int64_t window = eitp__layer_sliding_window(config, i);
        positions = window && window < positions ? window : positions;
    }
    return positions;
}

/* Adds the window of Gemma 3, and the layers that have it: by default all but every sixth. */
static void eitp__gguf_put_windows(const eitp__gguf_keys *keys, const eitp_transformer_config *config) {
    char full[128];
    int is_default = 1;
    for (int64_t i = 0; i < config->layers; i++)
        is_default = is_default && !eitp__layer_sliding_window(config, i) == ((i + 1) % 6 == 0);
    eitp__gguf_put_size(keys, "attention.sliding_window", config->sliding_window);
    eitp__gguf_put_number(keys, "rope.freq_base_swa", config->local_rotary_theta);
    if (is_default)
        return;
    eitp__gguf_put_array(keys->writer, eitp__gguf_full_key(keys, "attention.sliding_window_pattern", full),
                         EITP__GGUF_BOOL, (uint64_t)config->layers);
    for (int64_t i = 0; i < config->layers; i++)
        eitp__gguf_add_integer(keys->writer, EITP__GGUF_BOOL, eitp__layer_sliding_window(config, i) > 0);
}

static void eitp__gguf_put_rotary(const eitp__gguf_keys *keys, const eitp_transformer_config *config) {
    const int64_t width = eitp__head_width(config);
    char full[128];
    eitp__gguf_put_size(keys, "attention.head_count_kv", eitp__key_value_heads(config));
    eitp__gguf_put_number(keys, "attention.layer_norm_rms_epsilon", config->epsilon);
    eitp__gguf_put_number(keys, "rope.freq_base", config->rotary.theta);
    eitp__gguf_put_size(keys, "attention.key_length", width);
    eitp__gguf_put_size(keys, "attention.value_length", width);
    eitp__gguf_put_size(keys, "rope.dimension_count", width);
    if (config->rotary.scaling == EITP_ROTARY_LINEAR) {
        eitp__gguf_put_text(keys->writer, eitp__gguf_full_key(keys, "rope.scaling.type", full), "linear", 6);
        eitp__gguf_put_number(keys, "rope.scaling.factor", config->rotary.factor);
    }
    if (eitp__gguf_is_gemma(keys->format) && config->sliding_window)
        eitp__gguf_put_windows(keys, config);
}

EITP__PRIVATE void eitp__gguf_put_config(const eitp_transformer_config *config, const eitp__gguf_architecture *format,
                                         eitp__gguf_writer *writer) {
    const eitp__gguf_keys keys = {format, writer};
    char full[128];
    eitp__gguf_put_text(writer, "general.architecture", format->name, strlen(format->name));
    eitp__gguf_put_text(writer, "general.type", "model", 5);
    eitp__gguf_put_size(&keys, "context_length", eitp__gguf_positions(config, format));
    eitp__gguf_put_size(&keys, "embedding_length", config->width);
    eitp__gguf_put_size(&keys, "block_count", config->layers);
    eitp__gguf_put_size(&keys, "feed_forward_length", eitp__gguf_inner(config));
    eitp__gguf_put_size(&keys, "attention.head_count", config->heads);
    eitp__gguf_put_size(&keys, "vocab_size", config->vocabulary);
    if (config->rotary.theta > 0)
        eitp__gguf_put_rotary(&keys, config);
    else
        eitp__gguf_put_number(&keys, "attention.layer_norm_epsilon", config->epsilon);
    if (!eitp__gguf_is_encoder(format))
        return;
    eitp__gguf_put_integer(writer, eitp__gguf_full_key(&keys, "attention.causal", full), EITP__GGUF_BOOL, 0);
    eitp__gguf_put_integer(writer, "tokenizer.ggml.token_type_count", EITP__GGUF_U32,
                           config->segments ? config->segments : 1);
}
