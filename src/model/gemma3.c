/* The text model of Gemma 3 (Kamath et al., arXiv 2503.19786), with the names and layout of Hugging Face's files. */
#include "model/llama.h"

static const eitp_transformer_config eitp__gemma3_defaults = {
    NULL,           /* architecture: set by eitp__architecture_defaults */
    262208,         /* vocabulary */
    131072,         /* positions */
    0,              /* first_position */
    2304,           /* width */
    8,              /* heads */
    26,             /* layers */
    9216,           /* inner */
    0,              /* segments */
    EITP_GELU_TANH, /* activation */
    EITP__LLAMA_COMMON_DEFAULTS(1),
    {1, {2}},                                      /* begin */
    {1, {1}},                                      /* end */
    {1, {0}},                                      /* padding */
    4,                                             /* key_value_heads */
    256,                                           /* head_width */
    256,                                           /* attention_scalar */
    4096,                                          /* window */
    0,                                             /* sliding_first */
    6,                                             /* sliding_period */
    {0, 1e6, EITP_ROTARY_UNSCALED, 1, 1, 4, 8192}, /* rotary */
    1e4,                                           /* local_rotary_theta */
    0,                                             /* attention_bias */
    0,                                             /* mlp_bias */
    {0},                                           /* sliding_layers */
};

static const eitp__field_value eitp__gemma_3_270m[] = {
    {EITP__FIELD_VOCABULARY, 262144},
    {EITP__FIELD_INNER, 2048},
    {EITP__FIELD_KEY_VALUE_HEADS, 1},
    {EITP__FIELD_SLIDING, 512},
};

static const eitp__field_value eitp__gemma_3_1b[] = {
    {EITP__FIELD_VOCABULARY, 262144},
    {EITP__FIELD_INNER, 6912},
    {EITP__FIELD_KEY_VALUE_HEADS, 1},
    {EITP__FIELD_SLIDING, 512},
};

static const eitp__named_shape eitp__gemma3_shapes[] = {
    {"gemma-3-270m", 640, 4, 18, 32768, 0, 1e-6, eitp__gemma_3_270m, EITP__COUNT(eitp__gemma_3_270m),
     EITP_ROTARY_UNSCALED, 1},
    {"gemma-3-1b", 1152, 4, 26, 32768, 0, 1e-6, eitp__gemma_3_1b, EITP__COUNT(eitp__gemma_3_1b), EITP_ROTARY_UNSCALED,
     1},
};

/* transformers ignores hidden_act here. */
static const eitp__config_key eitp__gemma3_keys[] = {
    EITP__LLAMA_KEYS("hidden_activation", KEY, KEY)
        EITP__ATTENTION_BIAS_KEY EITP__LAYER_TYPES_KEY{"attn_logit_softcapping", EITP__NO_FIELD, EITP__KEY, "null"},
    {"final_logit_softcapping", EITP__NO_FIELD, EITP__KEY, "null"},
    {"use_bidirectional_attention", EITP__NO_FIELD, EITP__KEY_OR_NULL, "false"},
    {"query_pre_attn_scalar", EITP__FIELD_ATTENTION_SCALAR, EITP__KEY, NULL},
    {"sliding_window", EITP__FIELD_SLIDING, EITP__KEY, NULL},
    {"sliding_window_pattern", EITP__FIELD_SLIDING_PERIOD, EITP__KEY_OR_NULL, NULL},
    {"rope_local_base_freq", EITP__FIELD_LOCAL_ROTARY_THETA, EITP__KEY, NULL},
    {"hidden_act", EITP__NO_FIELD, EITP__KEY_UNUSED, NULL},
};

static const eitp__parameter_row eitp__gemma3_rows[] = {
    EITP__LLAMA_EMBEDDING,
    EITP__LLAMA_NORM(ATTENTION_NORM, IN_BLOCK, "input_layernorm", WIDTH, ZERO),
    EITP__LLAMA_ATTENTION_INPUT,
    EITP__LLAMA_HEAD_NORMS(ZERO),
    EITP__LLAMA_ATTENTION_OUTPUT,
    EITP__LLAMA_ATTENTION_BIASES,
    EITP__LLAMA_NORM(ATTENTION_OUTPUT_NORM, IN_BLOCK, "post_attention_layernorm", WIDTH, ZERO),
    EITP__LLAMA_NORM(MLP_NORM, IN_BLOCK, "pre_feedforward_layernorm", WIDTH, ZERO),
    EITP__LLAMA_MLP,
    EITP__LLAMA_NORM(MLP_OUTPUT_NORM, IN_BLOCK, "post_feedforward_layernorm", WIDTH, ZERO),
    EITP__LLAMA_HEADS(ZERO),
};

static const eitp__model_class eitp__gemma3_classes[] = {
    {"Gemma3ForCausalLM", EITP_HEAD_LANGUAGE},
    {"Gemma3TextForSequenceClassification", EITP_HEAD_CLASSIFIER},
    {"Gemma3TextModel", EITP_HEAD_NONE},
};

EITP__PRIVATE const eitp_architecture *eitp__architecture_gemma3(void) {
    static const eitp_architecture gemma3 = {
        "gemma3_text",
        "model.",
        "layers.",
        eitp__gemma3_classes,
        EITP__COUNT(eitp__gemma3_classes),
        {EITP_POOLING_LAST, EITP_NO_ACTIVATION, 0, 0},
        EITP_NO_ACTIVATION,
        EITP_LORA_QUERY | EITP_LORA_VALUE,
        0,
        &eitp__gemma3_defaults,
        eitp__gemma3_shapes,
        EITP__COUNT(eitp__gemma3_shapes),
        eitp__gemma3_keys,
        EITP__COUNT(eitp__gemma3_keys),
        eitp__gemma3_rows,
        EITP__COUNT(eitp__gemma3_rows),
        EITP__NORM_RMS_PLUS_ONE,
        1,
        1,
    };
    return &gemma3;
}
