/* Shared by Llama and the architectures derived from it: keys of config.json, and rows. Matrices are [out, in] in
   files. */
#ifndef EITP_LLAMA_H
#define EITP_LLAMA_H

#include "model/architecture.h"

/* Keys shared by all. Dropout, which only training uses, is stored under GPT-2's names. Architectures differ in whether
   the number of key heads and the width of a head may be null. */
#define EITP__LLAMA_KEYS(activation, key_heads_form, head_width_form)                                                  \
    EITP__COMMON_KEYS                                                                                                  \
    EITP__CAUSAL_KEY{activation, EITP__FIELD_ACTIVATION, EITP__KEY, NULL},                                             \
        {"vocab_size", EITP__FIELD_VOCABULARY, EITP__KEY, NULL},                                                       \
        {"max_position_embeddings", EITP__FIELD_POSITIONS, EITP__KEY, NULL},                                           \
        {"hidden_size", EITP__FIELD_WIDTH, EITP__KEY, NULL},                                                           \
        {"num_attention_heads", EITP__FIELD_HEADS, EITP__KEY, NULL},                                                   \
        {"num_key_value_heads", EITP__FIELD_KEY_VALUE_HEADS, EITP__##key_heads_form, NULL},                            \
        {"head_dim", EITP__FIELD_HEAD_WIDTH, EITP__##head_width_form, NULL},                                           \
        {"num_hidden_layers", EITP__FIELD_LAYERS, EITP__KEY, NULL},                                                    \
        {"intermediate_size", EITP__FIELD_INNER, EITP__KEY, NULL},                                                     \
        {"attention_dropout", EITP__FIELD_ATTENTION_DROPOUT, EITP__KEY, NULL},                                         \
        {"embd_pdrop", EITP__FIELD_EMBEDDING_DROPOUT, EITP__KEY_IF_SET, NULL},                                         \
        {"resid_pdrop", EITP__FIELD_RESIDUAL_DROPOUT, EITP__KEY_IF_SET, NULL},                                         \
        {"classifier_dropout", EITP__FIELD_CLASSIFIER_DROPOUT, EITP__KEY_IF_SET, NULL},                                \
        {"rms_norm_eps", EITP__FIELD_EPSILON, EITP__KEY, NULL},                                                        \
        {"initializer_range", EITP__FIELD_INITIALIZER_RANGE, EITP__KEY, NULL},                                         \
        {"tie_word_embeddings", EITP__FIELD_TIED, EITP__KEY, NULL},                                                    \
        {"rope_theta", EITP__FIELD_ROTARY_THETA, EITP__KEY, NULL},                                                     \
        {"rope_parameters", EITP__NO_FIELD, EITP__KEY_COMPOUND, NULL},                                                 \
        {"rope_scaling", EITP__NO_FIELD, EITP__KEY_COMPOUND, NULL},                                                    \
        {"original_max_position_embeddings", EITP__NO_FIELD, EITP__KEY_COMPOUND, NULL},                                \
        {"token_classification_bias", EITP__NO_FIELD, EITP__KEY, "true"},                                              \
        {"hidden_dropout", EITP__NO_FIELD, EITP__KEY_UNUSED, NULL},                                                    \
        {"partial_rotary_factor", EITP__NO_FIELD, EITP__KEY_OR_NULL, "1"},

/* Biases of all linear layers of attention. */
#define EITP__ATTENTION_BIAS_KEY {"attention_bias", EITP__FIELD_ATTENTION_BIAS, EITP__KEY, NULL},

/* Type of each layer: with a window or without. */
#define EITP__LAYER_TYPES_KEY {"layer_types", EITP__NO_FIELD, EITP__KEY_COMPOUND, NULL},

/* Members of the configuration from epsilon to pooler. They are the same in all these architectures except `tied`. */
#define EITP__LLAMA_COMMON_DEFAULTS(tied)                                                                              \
    1e-6,                        /* epsilon */                                                                         \
        0, 0, 0,                 /* embedding_dropout, attention_dropout, residual_dropout */                          \
        0.02,                    /* initializer_range */                                                               \
        1, 0,                    /* scale_attention, scale_attention_by_layer */                                       \
        tied, 0,                 /* post_norm */                                                                       \
        0,                       /* bidirectional */                                                                   \
        EITP_HEAD_LANGUAGE, 2,   /* labels */                                                                          \
        EITP_PROBLEM_UNKNOWN, 0, /* classifier_dropout */                                                              \
        0                        /* pooler */

/* Rows of a linear layer without a bias, and of a norm. */
#define EITP__LLAMA_LINEAR(slot, place, name, rows, columns, with)                                                     \
    EITP__ROW(slot, WEIGHT, place, name ".weight", rows, columns, NORMAL, 1, with)
#define EITP__LLAMA_NORM(slot, place, name, extent, fill)                                                              \
    EITP__ROW(slot, WEIGHT, place, name ".weight", extent, NONE, fill, 0, EITP__ALWAYS)

/* Rows before the blocks, of attention, of the MLP, and after the blocks. */
#define EITP__LLAMA_EMBEDDING                                                                                          \
    EITP__ROW(TOKEN_EMBEDDING, WEIGHT, BEFORE_BLOCKS, "embed_tokens.weight", VOCABULARY, WIDTH, NORMAL, 0, EITP__ALWAYS)
#define EITP__LLAMA_ATTENTION_INPUT                                                                                    \
    EITP__ROW_OF_THREE(ATTENTION_INPUT, WEIGHT, IN_BLOCK, "self_attn.qkv.weight", WIDTH, QKV, NORMAL, 1,               \
                       "self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight")
#define EITP__LLAMA_ATTENTION_BIAS                                                                                     \
    EITP__ROW_OF_THREE(ATTENTION_INPUT, BIAS, IN_BLOCK, "self_attn.qkv.bias", QKV, NONE, ZERO, 0,                      \
                       "self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias")
/* Biases that config.json can switch on. */
#define EITP__LLAMA_ATTENTION_BIASES                                                                                   \
    EITP__ROW_OF_THREE_IF(ATTENTION_INPUT, BIAS, IN_BLOCK, "self_attn.qkv.bias", QKV, NONE, ZERO, 0,                   \
                          "self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias",                   \
                          IF_ATTENTION_BIAS),                                                                          \
        EITP__BIAS_IF(ATTENTION_OUTPUT, "self_attn.o_proj.bias", WIDTH, IF_ATTENTION_BIAS)
#define EITP__LLAMA_MLP_BIASES                                                                                         \
    EITP__BIAS_IF(MLP_GATE, "mlp.gate_proj.bias", INNER, IF_MLP_BIAS),                                                 \
        EITP__BIAS_IF(MLP_INPUT, "mlp.up_proj.bias", INNER, IF_MLP_BIAS),                                              \
        EITP__BIAS_IF(MLP_OUTPUT, "mlp.down_proj.bias", WIDTH, IF_MLP_BIAS)
#define EITP__LLAMA_HEAD_NORMS(fill)                                                                                   \
    EITP__LLAMA_NORM(QUERY_NORM, IN_BLOCK, "self_attn.q_norm", HEAD_WIDTH, fill),                                      \
        EITP__LLAMA_NORM(KEY_NORM, IN_BLOCK, "self_attn.k_norm", HEAD_WIDTH, fill)
#define EITP__LLAMA_ATTENTION_OUTPUT                                                                                   \
    EITP__LLAMA_LINEAR(ATTENTION_OUTPUT, IN_BLOCK, "self_attn.o_proj", ATTENTION_WIDTH, WIDTH, EITP__ALWAYS)
#define EITP__LLAMA_MLP                                                                                                \
    EITP__LLAMA_LINEAR(MLP_GATE, IN_BLOCK, "mlp.gate_proj", WIDTH, INNER, EITP__ALWAYS),                               \
        EITP__LLAMA_LINEAR(MLP_INPUT, IN_BLOCK, "mlp.up_proj", WIDTH, INNER, EITP__ALWAYS),                            \
        EITP__LLAMA_LINEAR(MLP_OUTPUT, IN_BLOCK, "mlp.down_proj", INNER, WIDTH, EITP__ALWAYS)
#define EITP__LLAMA_HEADS(fill)                                                                                        \
    EITP__LLAMA_NORM(FINAL_NORM, AFTER_BLOCKS, "norm", WIDTH, fill),                                                   \
        EITP__ROW(HEAD, WEIGHT, IN_HEAD, "lm_head.weight", VOCABULARY, WIDTH, NORMAL, 0, EITP__WITH_OWN_HEAD),         \
        EITP__LLAMA_LINEAR(CLASSIFIER, IN_HEAD, "score", WIDTH, LABELS,                                                \
                           EITP__WITH_CLASSIFIER | EITP__WITH_TOKEN_CLASSIFIER),                                       \
        EITP__ROW(CLASSIFIER, BIAS, IN_HEAD, "score.bias", LABELS, NONE, ZERO, 0, EITP__WITH_TOKEN_CLASSIFIER)

/* The norms of blocks with two of them. */
#define EITP__LLAMA_ATTENTION_NORM EITP__LLAMA_NORM(ATTENTION_NORM, IN_BLOCK, "input_layernorm", WIDTH, ONE)
#define EITP__LLAMA_MLP_NORM EITP__LLAMA_NORM(MLP_NORM, IN_BLOCK, "post_attention_layernorm", WIDTH, ONE)

/* Class names of a family: "<name>ForCausalLM" and so on. */
#define EITP__LLAMA_CLASSES(name)                                                                                      \
    {name "ForCausalLM", EITP_HEAD_LANGUAGE}, {name "ForSequenceClassification", EITP_HEAD_CLASSIFIER},                \
        {name "ForTokenClassification", EITP_HEAD_TOKEN_CLASSIFIER}, {                                                 \
        name "Model", EITP_HEAD_NONE                                                                                   \
    }

#endif
