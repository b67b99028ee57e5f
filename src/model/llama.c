/* Llama (Touvron et al., arXiv 2307.09288; Grattafiori et al., arXiv 2407.21783), with the names and layout of Hugging
   Face's files. SmolLM and TinyLlama have the same architecture. */
#include "model/llama.h"

static const eitp_transformer_config eitp__llama_defaults = {
    NULL,      /* architecture: set by eitp__architecture_defaults */
    32000,     /* vocabulary */
    2048,      /* positions */
    0,         /* first_position */
    4096,      /* width */
    32,        /* heads */
    32,        /* layers */
    11008,     /* inner */
    0,         /* segments */
    EITP_SILU, /* activation */
    EITP__LLAMA_COMMON_DEFAULTS(0),
    {1, {1}},                                        /* begin */
    {1, {2}},                                        /* end */
    {0, {0}},                                        /* padding */
    0,                                               /* key_value_heads */
    0,                                               /* head_width */
    0,                                               /* attention_scalar */
    0,                                               /* window */
    0,                                               /* sliding_first */
    0,                                               /* sliding_period */
    {0, 10000, EITP_ROTARY_UNSCALED, 1, 1, 4, 8192}, /* rotary */
    0,                                               /* local_rotary_theta */
    0,                                               /* attention_bias */
    0,                                               /* mlp_bias */
    {0},                                             /* sliding_layers */
};

static const eitp__field_value eitp__smollm2_135m[] = {
    {EITP__FIELD_VOCABULARY, 49152}, {EITP__FIELD_INNER, 1536},          {EITP__FIELD_KEY_VALUE_HEADS, 3},
    {EITP__FIELD_TIED, 1},           {EITP__FIELD_ROTARY_THETA, 100000},
};

static const eitp__field_value eitp__smollm2_360m[] = {
    {EITP__FIELD_VOCABULARY, 49152}, {EITP__FIELD_INNER, 2560},          {EITP__FIELD_KEY_VALUE_HEADS, 5},
    {EITP__FIELD_TIED, 1},           {EITP__FIELD_ROTARY_THETA, 100000},
};

static const eitp__field_value eitp__smollm2_1_7b[] = {
    {EITP__FIELD_VOCABULARY, 49152}, {EITP__FIELD_INNER, 8192},          {EITP__FIELD_KEY_VALUE_HEADS, 32},
    {EITP__FIELD_TIED, 1},           {EITP__FIELD_ROTARY_THETA, 130000},
};

static const eitp__field_value eitp__llama_3_2_1b[] = {
    {EITP__FIELD_VOCABULARY, 128256}, {EITP__FIELD_INNER, 8192}, {EITP__FIELD_KEY_VALUE_HEADS, 8},
    {EITP__FIELD_HEAD_WIDTH, 64},     {EITP__FIELD_TIED, 1},     {EITP__FIELD_ROTARY_THETA, 500000},
};

static const eitp__named_shape eitp__llama_shapes[] = {
    {"smollm2-135m", 576, 9, 30, 8192, 0, 1e-5, eitp__smollm2_135m, EITP__COUNT(eitp__smollm2_135m),
     EITP_ROTARY_UNSCALED, 1},
    {"smollm2-360m", 960, 15, 32, 8192, 0, 1e-5, eitp__smollm2_360m, EITP__COUNT(eitp__smollm2_360m),
     EITP_ROTARY_UNSCALED, 1},
    {"smollm2-1.7b", 2048, 32, 24, 8192, 0, 1e-5, eitp__smollm2_1_7b, EITP__COUNT(eitp__smollm2_1_7b),
     EITP_ROTARY_UNSCALED, 1},
    {"llama-3.2-1b", 2048, 32, 16, 131072, 0, 1e-5, eitp__llama_3_2_1b, EITP__COUNT(eitp__llama_3_2_1b),
     EITP_ROTARY_LLAMA3, 32},
};

static const eitp__config_key eitp__llama_keys[] = {
    EITP__LLAMA_KEYS("hidden_act", KEY_OR_NULL, KEY_OR_NULL)
        EITP__ATTENTION_BIAS_KEY{"mlp_bias", EITP__FIELD_MLP_BIAS, EITP__KEY, NULL},
    {"pretraining_tp", EITP__NO_FIELD, EITP__KEY_UNUSED, NULL},
};

static const eitp__parameter_row eitp__llama_rows[] = {EITP__LLAMA_EMBEDDING,
                                                       EITP__LLAMA_ATTENTION_NORM,
                                                       EITP__LLAMA_ATTENTION_INPUT,
                                                       EITP__LLAMA_ATTENTION_OUTPUT,
                                                       EITP__LLAMA_ATTENTION_BIASES,
                                                       EITP__LLAMA_MLP_NORM,
                                                       EITP__LLAMA_MLP,
                                                       EITP__LLAMA_MLP_BIASES,
                                                       EITP__LLAMA_HEADS(ONE)};

static const eitp__model_class eitp__llama_classes[] = {EITP__LLAMA_CLASSES("Llama")};

EITP__PRIVATE const eitp_architecture *eitp__architecture_llama(void) {
    static const eitp_architecture llama = {
        "llama",
        "model.",
        "layers.",
        eitp__llama_classes,
        EITP__COUNT(eitp__llama_classes),
        {EITP_POOLING_LAST, EITP_NO_ACTIVATION, 0, 0},
        EITP_NO_ACTIVATION,
        EITP_LORA_QUERY | EITP_LORA_VALUE,
        0,
        &eitp__llama_defaults,
        eitp__llama_shapes,
        EITP__COUNT(eitp__llama_shapes),
        eitp__llama_keys,
        EITP__COUNT(eitp__llama_keys),
        eitp__llama_rows,
        EITP__COUNT(eitp__llama_rows),
        EITP__NORM_RMS,
        0,
        1,
    };
    return &llama;
}
