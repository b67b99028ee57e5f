/* Mistral 7B (Jiang et al., arXiv 2310.06825), with the names and layout of Hugging Face's files. */
#include "model/llama.h"

static const eitp_transformer_config eitp__mistral_defaults = {
    NULL,      /* architecture: set by eitp__architecture_defaults */
    32000,     /* vocabulary */
    131072,    /* positions */
    0,         /* first_position */
    4096,      /* width */
    32,        /* heads */
    32,        /* layers */
    14336,     /* inner */
    0,         /* segments */
    EITP_SILU, /* activation */
    EITP__LLAMA_COMMON_DEFAULTS(0),
    {1, {1}},                                        /* begin */
    {1, {2}},                                        /* end */
    {0, {0}},                                        /* padding */
    8,                                               /* key_value_heads */
    0,                                               /* head_width */
    0,                                               /* attention_scalar */
    4096,                                            /* window */
    0,                                               /* sliding_first */
    0,                                               /* sliding_period */
    {0, 10000, EITP_ROTARY_UNSCALED, 1, 1, 4, 8192}, /* rotary */
    0,                                               /* local_rotary_theta */
    0,                                               /* attention_bias */
    0,                                               /* mlp_bias */
    {0},                                             /* sliding_layers */
};

static const eitp__field_value eitp__mistral_7b[] = {{EITP__FIELD_INNER, 14336}};

static const eitp__named_shape eitp__mistral_shapes[] = {
    {"mistral-7b", 4096, 32, 32, 32768, 0, 1e-5, eitp__mistral_7b, EITP__COUNT(eitp__mistral_7b), EITP_ROTARY_UNSCALED,
     1},
};

static const eitp__config_key eitp__mistral_keys[] = {
    EITP__LLAMA_KEYS("hidden_act", KEY, KEY_OR_NULL){"sliding_window", EITP__FIELD_SLIDING, EITP__KEY_OR_NULL, NULL},
};

static const eitp__parameter_row eitp__mistral_rows[] = {EITP__LLAMA_EMBEDDING,       EITP__LLAMA_ATTENTION_NORM,
                                                         EITP__LLAMA_ATTENTION_INPUT, EITP__LLAMA_ATTENTION_OUTPUT,
                                                         EITP__LLAMA_MLP_NORM,        EITP__LLAMA_MLP,
                                                         EITP__LLAMA_HEADS(ONE)};

static const eitp__model_class eitp__mistral_classes[] = {EITP__LLAMA_CLASSES("Mistral")};

EITP__PRIVATE const eitp_architecture *eitp__architecture_mistral(void) {
    static const eitp_architecture mistral = {
        "mistral",
        "model.",
        "layers.",
        eitp__mistral_classes,
        EITP__COUNT(eitp__mistral_classes),
        {EITP_POOLING_LAST, EITP_NO_ACTIVATION, 0, 0},
        EITP_NO_ACTIVATION,
        EITP_LORA_QUERY | EITP_LORA_VALUE,
        0,
        &eitp__mistral_defaults,
        eitp__mistral_shapes,
        EITP__COUNT(eitp__mistral_shapes),
        eitp__mistral_keys,
        EITP__COUNT(eitp__mistral_keys),
        eitp__mistral_rows,
        EITP__COUNT(eitp__mistral_rows),
        EITP__NORM_RMS,
        0,
        0,
    };
    return &mistral;
}
