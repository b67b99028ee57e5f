/* GPT-2 (Radford et al., "Language Models are Unsupervised Multitask Learners", 2019), with the names and layout of
   Hugging Face's files. */
#include "model/architecture.h"

static const eitp_transformer_config eitp__gpt2_defaults = {
    NULL,           /* architecture: set by eitp__architecture_defaults */
    50257,          /* vocabulary */
    1024,           /* positions */
    0,              /* first_position */
    768,            /* width */
    12,             /* heads */
    12,             /* layers */
    0,              /* inner: 0 stands for 4 * width */
    0,              /* segments */
    EITP_GELU_TANH, /* activation */
    1e-5,           /* epsilon */
    0.1,            /* embedding_dropout */
    0.1,            /* attention_dropout */
    0.1,            /* residual_dropout */
    0.02,           /* initializer_range */
    1,              /* scale_attention */
    0,              /* scale_attention_by_layer */
    1,              /* tied */
    0,              /* post_norm */
    0,              /* bidirectional */
    EITP_HEAD_LANGUAGE,
    2, /* labels */
    EITP_PROBLEM_UNKNOWN,
    0,            /* classifier_dropout */
    0,            /* pooler */
    {1, {50256}}, /* begin */
    {1, {50256}}, /* end */
    {0, {0}},     /* padding */
    EITP__NO_DECODER_MEMBERS,
};

static const eitp__named_shape eitp__gpt2_shapes[] = {
    EITP__SHAPE("gpt2", 768, 12, 12, 1024, 0, 1e-5),        EITP__SHAPE("gpt2-medium", 1024, 16, 24, 1024, 0, 1e-5),
    EITP__SHAPE("gpt2-large", 1280, 20, 36, 1024, 0, 1e-5), EITP__SHAPE("gpt2-xl", 1600, 25, 48, 1024, 0, 1e-5),
    EITP__SHAPE("distilgpt2", 768, 12, 6, 1024, 0, 1e-5),   EITP__SHAPE("tiny", 128, 4, 4, 256, 0, 1e-5),
};

/* transformers maps the general names of sizes to GPT-2's. */
static const eitp__config_key eitp__gpt2_keys[] = {
    EITP__COMMON_KEYS EITP__CAUSAL_KEY{"add_cross_attention", EITP__NO_FIELD, EITP__KEY, "false"},
    {"activation_function", EITP__FIELD_ACTIVATION, EITP__KEY, NULL},
    {"vocab_size", EITP__FIELD_VOCABULARY, EITP__KEY, NULL},
    {"n_positions", EITP__FIELD_POSITIONS, EITP__KEY, NULL},
    {"max_position_embeddings", EITP__FIELD_POSITIONS, EITP__KEY_ALIAS, NULL},
    {"n_ctx", EITP__NO_FIELD, EITP__KEY_UNUSED, NULL},
    {"n_embd", EITP__FIELD_WIDTH, EITP__KEY, NULL},
    {"hidden_size", EITP__FIELD_WIDTH, EITP__KEY_ALIAS, NULL},
    {"n_head", EITP__FIELD_HEADS, EITP__KEY, NULL},
    {"num_attention_heads", EITP__FIELD_HEADS, EITP__KEY_ALIAS, NULL},
    {"n_layer", EITP__FIELD_LAYERS, EITP__KEY, NULL},
    {"num_hidden_layers", EITP__FIELD_LAYERS, EITP__KEY_ALIAS, NULL},
    {"n_inner", EITP__FIELD_INNER, EITP__KEY_OR_NULL, NULL},
    {"embd_pdrop", EITP__FIELD_EMBEDDING_DROPOUT, EITP__KEY, NULL},
    {"attn_pdrop", EITP__FIELD_ATTENTION_DROPOUT, EITP__KEY, NULL},
    {"resid_pdrop", EITP__FIELD_RESIDUAL_DROPOUT, EITP__KEY, NULL},
    {"layer_norm_epsilon", EITP__FIELD_EPSILON, EITP__KEY, NULL},
    {"initializer_range", EITP__FIELD_INITIALIZER_RANGE, EITP__KEY, NULL},
    {"scale_attn_weights", EITP__FIELD_SCALE_ATTENTION, EITP__KEY, NULL},
    {"scale_attn_by_inverse_layer_idx", EITP__FIELD_SCALE_ATTENTION_BY_LAYER, EITP__KEY, NULL},
    {"tie_word_embeddings", EITP__FIELD_TIED, EITP__KEY, NULL},
    {"reorder_and_upcast_attn", EITP__NO_FIELD, EITP__KEY_UNUSED, NULL},
    {"summary_type", EITP__NO_FIELD, EITP__KEY_UNUSED, NULL},
    {"summary_use_proj", EITP__NO_FIELD, EITP__KEY_UNUSED, NULL},
    {"summary_activation", EITP__NO_FIELD, EITP__KEY_UNUSED, NULL},
    {"summary_proj_to_labels", EITP__NO_FIELD, EITP__KEY_UNUSED, NULL},
    {"summary_first_dropout", EITP__NO_FIELD, EITP__KEY_UNUSED, NULL},
    {"summary_last_dropout", EITP__NO_FIELD, EITP__KEY_UNUSED, NULL},
    {"classifier_dropout", EITP__NO_FIELD, EITP__KEY_UNUSED, NULL},
    {"hidden_dropout", EITP__NO_FIELD, EITP__KEY_UNUSED, NULL},
};

/* GPT-2's matrices have the same layout in files as in memory. */
#define EITP__GPT2_ROW(slot, part, place, name, rows, columns, fill)                                                   \
    EITP__ROW(slot, part, place, name, rows, columns, fill, 0, EITP__ALWAYS)

static const eitp__parameter_row eitp__gpt2_rows[] = {
    EITP__GPT2_ROW(TOKEN_EMBEDDING, WEIGHT, BEFORE_BLOCKS, "wte.weight", VOCABULARY, WIDTH, NORMAL),
    EITP__GPT2_ROW(POSITION_EMBEDDING, WEIGHT, BEFORE_BLOCKS, "wpe.weight", POSITIONS, WIDTH, NORMAL),
    EITP__GPT2_ROW(ATTENTION_NORM, WEIGHT, IN_BLOCK, "ln_1.weight", WIDTH, NONE, ONE),
    EITP__GPT2_ROW(ATTENTION_NORM, BIAS, IN_BLOCK, "ln_1.bias", WIDTH, NONE, ZERO),
    EITP__GPT2_ROW(ATTENTION_INPUT, WEIGHT, IN_BLOCK, "attn.c_attn.weight", WIDTH, QKV, NORMAL),
    EITP__GPT2_ROW(ATTENTION_INPUT, BIAS, IN_BLOCK, "attn.c_attn.bias", QKV, NONE, ZERO),
    EITP__GPT2_ROW(ATTENTION_OUTPUT, WEIGHT, IN_BLOCK, "attn.c_proj.weight", WIDTH, WIDTH, RESIDUAL),
    EITP__GPT2_ROW(ATTENTION_OUTPUT, BIAS, IN_BLOCK, "attn.c_proj.bias", WIDTH, NONE, ZERO),
    EITP__GPT2_ROW(MLP_NORM, WEIGHT, IN_BLOCK, "ln_2.weight", WIDTH, NONE, ONE),
    EITP__GPT2_ROW(MLP_NORM, BIAS, IN_BLOCK, "ln_2.bias", WIDTH, NONE, ZERO),
    EITP__GPT2_ROW(MLP_INPUT, WEIGHT, IN_BLOCK, "mlp.c_fc.weight", WIDTH, INNER, NORMAL),
    EITP__GPT2_ROW(MLP_INPUT, BIAS, IN_BLOCK, "mlp.c_fc.bias", INNER, NONE, ZERO),
    EITP__GPT2_ROW(MLP_OUTPUT, WEIGHT, IN_BLOCK, "mlp.c_proj.weight", INNER, WIDTH, RESIDUAL),
    EITP__GPT2_ROW(MLP_OUTPUT, BIAS, IN_BLOCK, "mlp.c_proj.bias", WIDTH, NONE, ZERO),
    EITP__GPT2_ROW(FINAL_NORM, WEIGHT, AFTER_BLOCKS, "ln_f.weight", WIDTH, NONE, ONE),
    EITP__GPT2_ROW(FINAL_NORM, BIAS, AFTER_BLOCKS, "ln_f.bias", WIDTH, NONE, ZERO),
    EITP__ROW(HEAD, WEIGHT, IN_HEAD, "lm_head.weight", VOCABULARY, WIDTH, NORMAL, 0, EITP__WITH_OWN_HEAD),
    EITP__ROW(CLASSIFIER, WEIGHT, IN_HEAD, "score.weight", WIDTH, LABELS, NORMAL, 1, EITP__WITH_CLASSIFIER),
    EITP__ROW(CLASSIFIER, WEIGHT, IN_HEAD, "classifier.weight", WIDTH, LABELS, NORMAL, 1, EITP__WITH_TOKEN_CLASSIFIER),
    EITP__ROW(CLASSIFIER, BIAS, IN_HEAD, "classifier.bias", LABELS, NONE, ZERO, 0, EITP__WITH_TOKEN_CLASSIFIER),
};

static const eitp__model_class eitp__gpt2_classes[] = {
    {"GPT2LMHeadModel", EITP_HEAD_LANGUAGE},
    {"GPT2ForSequenceClassification", EITP_HEAD_CLASSIFIER},
    {"GPT2ForTokenClassification", EITP_HEAD_TOKEN_CLASSIFIER},
    {"GPT2Model", EITP_HEAD_NONE}, /* read as a language model: see eitp__read_model_head */
};

/* The dropout before a token classifier is 0.1 in transformers, the default of resid_pdrop, regardless of its value. */
EITP__PRIVATE const eitp_architecture *eitp__architecture_gpt2(void) {
    static const eitp_architecture gpt2 = {
        "gpt2",
        "transformer.",
        "h.",
        eitp__gpt2_classes,
        EITP__COUNT(eitp__gpt2_classes),
        {EITP_POOLING_LAST, EITP_NO_ACTIVATION, 0, 1},
        EITP_NO_ACTIVATION,
        EITP_LORA_ATTENTION_INPUT,
        0,
        &eitp__gpt2_defaults,
        eitp__gpt2_shapes,
        EITP__COUNT(eitp__gpt2_shapes),
        eitp__gpt2_keys,
        EITP__COUNT(eitp__gpt2_keys),
        eitp__gpt2_rows,
        EITP__COUNT(eitp__gpt2_rows),
        EITP__NORM_LAYER,
        0,
        0,
    };
    return &gpt2;
}
