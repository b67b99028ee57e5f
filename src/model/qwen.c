/* Qwen2 and Qwen2.5 (Yang et al., arXiv 2407.10671), and Qwen3 (Yang et al., arXiv 2505.09388), with the names and
   layout of Hugging Face's files. */
#include "model/llama.h"

/* With use_sliding_window, layers from max_window_layers on have a window, unless layer_types lists the types. */
#define EITP__QWEN_KEYS(head_width_form)                                                                               \
    EITP__LLAMA_KEYS("hidden_act", KEY_OR_NULL, head_width_form){"sliding_window", EITP__FIELD_SLIDING,                \
                                                                 EITP__KEY_OR_NULL, NULL},                             \
        {"max_window_layers", EITP__FIELD_SLIDING_FIRST, EITP__KEY, NULL},                                             \
        {"use_sliding_window", EITP__FIELD_SLIDING_SWITCH, EITP__KEY, "4096"}, EITP__LAYER_TYPES_KEY

static const eitp_transformer_config eitp__qwen2_defaults = {
    NULL,      /* architecture: set by eitp__architecture_defaults */
    151936,    /* vocabulary */
    32768,     /* positions */
    0,         /* first_position */
    4096,      /* width */
    32,        /* heads */
    32,        /* layers */
    22016,     /* inner */
    0,         /* segments */
    EITP_SILU, /* activation */
    EITP__LLAMA_COMMON_DEFAULTS(0),
    {0, {0}},                                        /* begin */
    {0, {0}},                                        /* end */
    {0, {0}},                                        /* padding */
    32,                                              /* key_value_heads */
    0,                                               /* head_width */
    0,                                               /* attention_scalar */
    0,                                               /* window */
    28,                                              /* sliding_first */
    0,                                               /* sliding_period */
    {0, 10000, EITP_ROTARY_UNSCALED, 1, 1, 4, 8192}, /* rotary */
    0,                                               /* local_rotary_theta */
    0,                                               /* attention_bias */
    0,                                               /* mlp_bias */
    {0},                                             /* sliding_layers */
};

static const eitp__field_value eitp__qwen2_0_5b[] = {
    {EITP__FIELD_INNER, 4864},
    {EITP__FIELD_KEY_VALUE_HEADS, 2},
    {EITP__FIELD_TIED, 1},
    {EITP__FIELD_ROTARY_THETA, 1000000},
};

static const eitp__field_value eitp__qwen2_5_1_5b[] = {
    {EITP__FIELD_INNER, 8960},
    {EITP__FIELD_KEY_VALUE_HEADS, 2},
    {EITP__FIELD_TIED, 1},
    {EITP__FIELD_ROTARY_THETA, 1000000},
};

static const eitp__named_shape eitp__qwen2_shapes[] = {
    {"qwen2-0.5b", 896, 14, 24, 131072, 0, 1e-6, eitp__qwen2_0_5b, EITP__COUNT(eitp__qwen2_0_5b), EITP_ROTARY_UNSCALED,
     1},
    {"qwen2.5-1.5b", 1536, 12, 28, 131072, 0, 1e-6, eitp__qwen2_5_1_5b, EITP__COUNT(eitp__qwen2_5_1_5b),
     EITP_ROTARY_UNSCALED, 1},
};

static const eitp__config_key eitp__qwen2_keys[] = {EITP__QWEN_KEYS(KEY)};

static const eitp__parameter_row eitp__qwen2_rows[] = {EITP__LLAMA_EMBEDDING,
                                                       EITP__LLAMA_ATTENTION_NORM,
                                                       EITP__LLAMA_ATTENTION_INPUT,
                                                       EITP__LLAMA_ATTENTION_BIAS,
                                                       EITP__LLAMA_ATTENTION_OUTPUT,
                                                       EITP__LLAMA_MLP_NORM,
                                                       EITP__LLAMA_MLP,
                                                       EITP__LLAMA_HEADS(ONE)};

static const eitp__model_class eitp__qwen2_classes[] = {EITP__LLAMA_CLASSES("Qwen2")};

EITP__PRIVATE const eitp_architecture *eitp__architecture_qwen2(void) {
    static const eitp_architecture qwen2 = {
        "qwen2",
        "model.",
        "layers.",
        eitp__qwen2_classes,
        EITP__COUNT(eitp__qwen2_classes),
        {EITP_POOLING_LAST, EITP_NO_ACTIVATION, 0, 0},
        EITP_NO_ACTIVATION,
        EITP_LORA_QUERY | EITP_LORA_VALUE,
        0,
        &eitp__qwen2_defaults,
        eitp__qwen2_shapes,
        EITP__COUNT(eitp__qwen2_shapes),
        eitp__qwen2_keys,
        EITP__COUNT(eitp__qwen2_keys),
        eitp__qwen2_rows,
        EITP__COUNT(eitp__qwen2_rows),
        EITP__NORM_RMS,
        0,
        0,
    };
    return &qwen2;
}

static const eitp_transformer_config eitp__qwen3_defaults = {
    NULL,      /* architecture: set by eitp__architecture_defaults */
    151936,    /* vocabulary */
    32768,     /* positions */
    0,         /* first_position */
    4096,      /* width */
    32,        /* heads */
    32,        /* layers */
    22016,     /* inner */
    0,         /* segments */
    EITP_SILU, /* activation */
    EITP__LLAMA_COMMON_DEFAULTS(0),
    {0, {0}},                                        /* begin */
    {0, {0}},                                        /* end */
    {0, {0}},                                        /* padding */
    32,                                              /* key_value_heads */
    128,                                             /* head_width */
    0,                                               /* attention_scalar */
    0,                                               /* window */
    28,                                              /* sliding_first */
    0,                                               /* sliding_period */
    {0, 10000, EITP_ROTARY_UNSCALED, 1, 1, 4, 8192}, /* rotary */
    0,                                               /* local_rotary_theta */
    0,                                               /* attention_bias */
    0,                                               /* mlp_bias */
    {0},                                             /* sliding_layers */
};

static const eitp__field_value eitp__qwen3_0_6b[] = {
    {EITP__FIELD_INNER, 3072},
    {EITP__FIELD_KEY_VALUE_HEADS, 8},
    {EITP__FIELD_TIED, 1},
    {EITP__FIELD_ROTARY_THETA, 1000000},
};

static const eitp__named_shape eitp__qwen3_shapes[] = {
    {"qwen3-0.6b", 1024, 16, 28, 40960, 0, 1e-6, eitp__qwen3_0_6b, EITP__COUNT(eitp__qwen3_0_6b), EITP_ROTARY_UNSCALED,
     1},
};

static const eitp__config_key eitp__qwen3_keys[] = {EITP__QWEN_KEYS(KEY) EITP__ATTENTION_BIAS_KEY};

static const eitp__parameter_row eitp__qwen3_rows[] = {EITP__LLAMA_EMBEDDING,        EITP__LLAMA_ATTENTION_NORM,
                                                       EITP__LLAMA_ATTENTION_INPUT,  EITP__LLAMA_HEAD_NORMS(ONE),
                                                       EITP__LLAMA_ATTENTION_OUTPUT, EITP__LLAMA_ATTENTION_BIASES,
                                                       EITP__LLAMA_MLP_NORM,         EITP__LLAMA_MLP,
                                                       EITP__LLAMA_HEADS(ONE)};

static const eitp__model_class eitp__qwen3_classes[] = {EITP__LLAMA_CLASSES("Qwen3")};

EITP__PRIVATE const eitp_architecture *eitp__architecture_qwen3(void) {
    static const eitp_architecture qwen3 = {
        "qwen3",
        "model.",
        "layers.",
        eitp__qwen3_classes,
        EITP__COUNT(eitp__qwen3_classes),
        {EITP_POOLING_LAST, EITP_NO_ACTIVATION, 0, 0},
        EITP_NO_ACTIVATION,
        EITP_LORA_QUERY | EITP_LORA_VALUE,
        0,
        &eitp__qwen3_defaults,
        eitp__qwen3_shapes,
        EITP__COUNT(eitp__qwen3_shapes),
        eitp__qwen3_keys,
        EITP__COUNT(eitp__qwen3_keys),
        eitp__qwen3_rows,
        EITP__COUNT(eitp__qwen3_rows),
        EITP__NORM_RMS,
        0,
        0,
    };
    return &qwen3;
}
