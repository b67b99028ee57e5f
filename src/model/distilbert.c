/* DistilBERT (Sanh et al., arXiv 1910.01108), with the names and layout of Hugging Face's files. */
#include "model/bert.h"

static const eitp_transformer_config eitp__distilbert_defaults = {
    NULL,           /* architecture: set by eitp__architecture_defaults */
    30522,          /* vocabulary */
    512,            /* positions */
    0,              /* first_position */
    768,            /* width */
    12,             /* heads */
    6,              /* layers */
    3072,           /* inner */
    0,              /* segments */
    EITP_GELU_ERF,  /* activation */
    1e-12,          /* epsilon */
    0.1,            /* embedding_dropout */
    0.1,            /* attention_dropout */
    0.1,            /* residual_dropout */
    0.02,           /* initializer_range */
    1,              /* scale_attention */
    0,              /* scale_attention_by_layer */
    1,              /* tied */
    1,              /* post_norm */
    1,              /* bidirectional */
    EITP_HEAD_NONE, /* head */
    2,              /* labels */
    EITP_PROBLEM_UNKNOWN,
    0.2,      /* classifier_dropout */
    0,        /* pooler */
    {0, {0}}, /* begin */
    {0, {0}}, /* end */
    {1, {0}}, /* padding */
    EITP__NO_DECODER_MEMBERS,
};

static const eitp__named_shape eitp__distilbert_shapes[] = {EITP__SHAPE("distilbert-base", 768, 12, 6, 512, 0, 1e-12)};

/* sinusoidal_pos_embds only tells how the positions were initialized; the weights contain them. transformers maps the
   general names of sizes to DistilBERT's. */
static const eitp__config_key eitp__distilbert_keys[] = {
    EITP__COMMON_KEYS{"activation", EITP__FIELD_ACTIVATION, EITP__KEY, NULL},
    {"vocab_size", EITP__FIELD_VOCABULARY, EITP__KEY, NULL},
    {"max_position_embeddings", EITP__FIELD_POSITIONS, EITP__KEY, NULL},
    {"dim", EITP__FIELD_WIDTH, EITP__KEY, NULL},
    {"hidden_size", EITP__FIELD_WIDTH, EITP__KEY_ALIAS, NULL},
    {"n_heads", EITP__FIELD_HEADS, EITP__KEY, NULL},
    {"num_attention_heads", EITP__FIELD_HEADS, EITP__KEY_ALIAS, NULL},
    {"n_layers", EITP__FIELD_LAYERS, EITP__KEY, NULL},
    {"num_hidden_layers", EITP__FIELD_LAYERS, EITP__KEY_ALIAS, NULL},
    {"hidden_dim", EITP__FIELD_INNER, EITP__KEY, NULL},
    {"dropout", EITP__FIELD_RESIDUAL_DROPOUT, EITP__KEY, NULL},
    {"dropout", EITP__FIELD_EMBEDDING_DROPOUT, EITP__KEY, NULL},
    {"attention_dropout", EITP__FIELD_ATTENTION_DROPOUT, EITP__KEY, NULL},
    {"seq_classif_dropout", EITP__FIELD_CLASSIFIER_DROPOUT, EITP__KEY, NULL},
    {"initializer_range", EITP__FIELD_INITIALIZER_RANGE, EITP__KEY, NULL},
    {"tie_word_embeddings", EITP__FIELD_TIED, EITP__KEY, NULL},
    {"is_causal", EITP__NO_FIELD, EITP__KEY_UNUSED, NULL},
    {"sinusoidal_pos_embds", EITP__NO_FIELD, EITP__KEY_UNUSED, NULL},
    {"qa_dropout", EITP__NO_FIELD, EITP__KEY_UNUSED, NULL},
};

static const eitp__parameter_row eitp__distilbert_rows[] = {
    EITP__BERT_TABLE(TOKEN_EMBEDDING, "embeddings.word_embeddings", VOCABULARY),
    EITP__BERT_TABLE(POSITION_EMBEDDING, "embeddings.position_embeddings", POSITIONS),
    EITP__BERT_NORM(EMBEDDING_NORM, BEFORE_BLOCKS, "embeddings.LayerNorm", EITP__ALWAYS),
    EITP__ROW_OF_THREE(ATTENTION_INPUT, WEIGHT, IN_BLOCK, "attention.qkv_lin.weight", WIDTH, QKV, NORMAL, 1,
                       "attention.q_lin.weight", "attention.k_lin.weight", "attention.v_lin.weight"),
    EITP__ROW_OF_THREE(ATTENTION_INPUT, BIAS, IN_BLOCK, "attention.qkv_lin.bias", QKV, NONE, ZERO, 0,
                       "attention.q_lin.bias", "attention.k_lin.bias", "attention.v_lin.bias"),
    EITP__BERT_LINEAR(ATTENTION_OUTPUT, IN_BLOCK, "attention.out_lin", WIDTH, WIDTH, EITP__ALWAYS),
    EITP__BERT_NORM(ATTENTION_NORM, IN_BLOCK, "sa_layer_norm", EITP__ALWAYS),
    EITP__BERT_LINEAR(MLP_INPUT, IN_BLOCK, "ffn.lin1", WIDTH, INNER, EITP__ALWAYS),
    EITP__BERT_LINEAR(MLP_OUTPUT, IN_BLOCK, "ffn.lin2", INNER, WIDTH, EITP__ALWAYS),
    EITP__BERT_NORM(MLP_NORM, IN_BLOCK, "output_layer_norm", EITP__ALWAYS),
    EITP__BERT_LINEAR(HEAD_TRANSFORM, IN_HEAD, "vocab_transform", WIDTH, WIDTH, EITP__WITH_HEAD),
    EITP__BERT_NORM(HEAD_NORM, IN_HEAD, "vocab_layer_norm", EITP__WITH_HEAD),
    EITP__ROW(HEAD, WEIGHT, IN_HEAD, "vocab_projector.weight", VOCABULARY, WIDTH, NORMAL, 0, EITP__WITH_OWN_HEAD),
    EITP__ROW(HEAD, BIAS, IN_HEAD, "vocab_projector.bias", VOCABULARY, NONE, ZERO, 0, EITP__WITH_HEAD),
    EITP__BERT_LINEAR(CLASSIFIER_TRANSFORM, IN_HEAD, "pre_classifier", WIDTH, WIDTH, EITP__WITH_CLASSIFIER),
    EITP__BERT_LINEAR(CLASSIFIER, IN_HEAD, "classifier", WIDTH, LABELS,
                      EITP__WITH_CLASSIFIER | EITP__WITH_TOKEN_CLASSIFIER),
};

static const eitp__model_class eitp__distilbert_classes[] = {
    {"DistilBertForMaskedLM", EITP_HEAD_LANGUAGE},
    {"DistilBertForSequenceClassification", EITP_HEAD_CLASSIFIER},
    {"DistilBertForTokenClassification", EITP_HEAD_TOKEN_CLASSIFIER},
    {"DistilBertModel", EITP_HEAD_NONE},
};

EITP__PRIVATE const eitp_architecture *eitp__architecture_distilbert(void) {
    static const eitp_architecture distilbert = {
        "distilbert",
        "distilbert.",
        "transformer.layer.",
        eitp__distilbert_classes,
        EITP__COUNT(eitp__distilbert_classes),
        {EITP_POOLING_FIRST, EITP_RELU, 0, 1},
        EITP_NO_ACTIVATION,
        EITP_LORA_QUERY | EITP_LORA_VALUE,
        0,
        &eitp__distilbert_defaults,
        eitp__distilbert_shapes,
        EITP__COUNT(eitp__distilbert_shapes),
        eitp__distilbert_keys,
        EITP__COUNT(eitp__distilbert_keys),
        eitp__distilbert_rows,
        EITP__COUNT(eitp__distilbert_rows),
        EITP__NORM_LAYER,
        0,
        0,
    };
    return &distilbert;
}
