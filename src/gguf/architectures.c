#include "gguf/architectures.h"

/* Keys of all architectures, and keys that do not affect a model's outputs. */
#define EITP__GGUF_COMMON_KEYS(positions, width, layers, heads, inner)                                                 \
    {"context_length", positions, 0, 1}, {"embedding_length", width, 0, 1}, {"block_count", layers, 0, 1},             \
        {"attention.head_count", heads, 0, 1}, {"feed_forward_length", inner, 0, 1}, {"vocab_size", NULL, 0, 0},       \
        {"attention.causal", NULL, 0, 0}, {                                                                            \
        "tensor_data_layout", NULL, 0, 0                                                                               \
    }

/* Keys of architectures with rotary positions. */
#define EITP__GGUF_ROTARY_KEYS                                                                                         \
    {"attention.head_count_kv", "num_key_value_heads", 0, 0},                                                          \
        {"attention.layer_norm_rms_epsilon", "rms_norm_eps", 1, 1}, {"rope.freq_base", "rope_theta", 1, 0},            \
        {"attention.key_length", "head_dim", 0, 0}, {"attention.value_length", NULL, 0, 0},                            \
        {"rope.dimension_count", NULL, 0, 0}, {"rope.scaling.type", NULL, 0, 0}, {"rope.scaling.factor", NULL, 1, 0},  \
        {"rope.scaling.original_context_length", NULL, 0, 0}, {"rope.scaling.finetuned", NULL, 0, 0},                  \
        {"rope.scale_linear", NULL, 1, 0}, {"expert_count", NULL, 0, 0}, {                                             \
        "expert_used_count", NULL, 0, 0                                                                                \
    }

#define EITP__GGUF_DECODER_KEYS                                                                                        \
    EITP__GGUF_COMMON_KEYS("max_position_embeddings", "hidden_size", "num_hidden_layers", "num_attention_heads",       \
                           "intermediate_size"),                                                                       \
        EITP__GGUF_ROTARY_KEYS

#define EITP__GGUF_ENCODER_KEYS                                                                                        \
    {"attention.layer_norm_epsilon", "layer_norm_eps", 1, 1}, {                                                        \
        "pooling_type", NULL, 0, 0                                                                                     \
    }

static const eitp__gguf_key eitp__gguf_decoder_keys[] = {EITP__GGUF_DECODER_KEYS};

static const eitp__gguf_key eitp__gguf_gemma3_keys[] = {
    EITP__GGUF_DECODER_KEYS,
    {"attention.sliding_window", "sliding_window", 0, 1},
    {"attention.sliding_window_pattern", NULL, 0, 0},
    {"rope.freq_base_swa", "rope_local_base_freq", 1, 0},
    {"final_logit_softcapping", "final_logit_softcapping", 1, 0},
    {"attn_logit_softcapping", "attn_logit_softcapping", 1, 0},
};

static const eitp__gguf_key eitp__gguf_gpt2_keys[] = {
    EITP__GGUF_COMMON_KEYS("n_positions", "n_embd", "n_layer", "n_head", "n_inner"),
    {"attention.layer_norm_epsilon", "layer_norm_epsilon", 1, 1},
    {"attention.head_count_kv", NULL, 0, 0},
};

static const eitp__gguf_key eitp__gguf_bert_keys[] = {
    EITP__GGUF_COMMON_KEYS("max_position_embeddings", "hidden_size", "num_hidden_layers", "num_attention_heads",
                           "intermediate_size"),
    EITP__GGUF_ENCODER_KEYS,
};

/* A DistilBERT's epsilon is not a member of its config.json. */
static const eitp__gguf_key eitp__gguf_distilbert_keys[] = {
    EITP__GGUF_COMMON_KEYS("max_position_embeddings", "dim", "n_layers", "n_heads", "hidden_dim"),
    {"attention.layer_norm_epsilon", NULL, 1, 0},
    {"pooling_type", NULL, 0, 0},
};

#define EITP__GGUF_KEYS(keys) keys, EITP__COUNT(keys)

static const eitp__gguf_architecture eitp__gguf_architectures[] = {
    {"llama", NULL, "llama", "LlamaForCausalLM", 1, 0, EITP__GGUF_KEYS(eitp__gguf_decoder_keys)},
    {"qwen2", NULL, "qwen2", "Qwen2ForCausalLM", 0, 0, EITP__GGUF_KEYS(eitp__gguf_decoder_keys)},
    {"qwen3", NULL, "qwen3", "Qwen3ForCausalLM", 0, 0, EITP__GGUF_KEYS(eitp__gguf_decoder_keys)},
    {"gemma3", NULL, "gemma3_text", "Gemma3ForCausalLM", 0, 1, EITP__GGUF_KEYS(eitp__gguf_gemma3_keys)},
    {"gpt2", NULL, "gpt2", "GPT2LMHeadModel", 0, 0, EITP__GGUF_KEYS(eitp__gguf_gpt2_keys)},
    {"bert", "token_types.weight", "bert", "BertModel", 0, 0, EITP__GGUF_KEYS(eitp__gguf_bert_keys)},
    {"bert", NULL, "distilbert", "DistilBertModel", 0, 0, EITP__GGUF_KEYS(eitp__gguf_distilbert_keys)},
};

EITP__PRIVATE const eitp__gguf_architecture *eitp__gguf_architecture_named(const char *model_type) {
    for (size_t i = 0; i < EITP__COUNT(eitp__gguf_architectures); i++) {
        if (!strcmp(eitp__gguf_architectures[i].model_type, model_type))
            return &eitp__gguf_architectures[i];
    }
    return NULL;
}

EITP__PRIVATE double eitp__gguf_llama3_divisor(const eitp__gguf_llama3 *scaling, int64_t pair) {
    const double pi = 3.14159265358979323846;
    const double wavelength = 2 * pi * pow(scaling->theta, 2 * (double)pair / scaling->width);
    const double kept = (scaling->original / wavelength - scaling->low) / (scaling->high - scaling->low);
    const double part = kept < 0 ? 0 : kept > 1 ? 1 : kept;
    return 1 / ((1 - part) / scaling->factor + part);
}

/* Fails with the names of the architectures. */
static eitp_status eitp__gguf_fail_architecture(eitp__gguf_text name, eitp_error *error) {
    char known[120];
    size_t at = 0;
    for (size_t i = 0; i < EITP__COUNT(eitp__gguf_architectures) && at < sizeof known; i++) {
        if (!i || strcmp(eitp__gguf_architectures[i].name, eitp__gguf_architectures[i - 1].name))
            at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "",
                                   eitp__gguf_architectures[i].name);
    }
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "unsupported general.architecture '%.*s' (supported: %s)",
                      name.size < 60 ? (int)name.size : 60, name.data, known);
}

EITP__PRIVATE eitp_status eitp__gguf_architecture_of(const eitp__gguf *gguf,
                                                     const eitp__gguf_architecture **architecture, eitp_error *error) {
    eitp__gguf_text name = {"", 0}, type = {"model", 5};
    eitp_status status = eitp__gguf_get_text(gguf, "general.architecture", &name, error);
    if (!status)
        status = eitp__gguf_get_text(gguf, "general.type", &type, error);
    if (status)
        return status;
    if (!eitp__gguf_text_is(type, "model"))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "general.type is '%.*s', expected a model",
                          type.size < 60 ? (int)type.size : 60, type.data);
    for (size_t i = 0; i < EITP__COUNT(eitp__gguf_architectures); i++) {
        *architecture = &eitp__gguf_architectures[i];
        if (eitp__gguf_text_is(name, (*architecture)->name) &&
            (!(*architecture)->tensor || eitp__gguf_find_tensor(gguf, (*architecture)->tensor)))
            return EITP_OK;
    }
    return eitp__gguf_fail_architecture(name, error);
}
