/* RoBERTa (Liu et al., arXiv 1907.11692), with the names and layout of Hugging Face's files. */
#include "model/bert.h"

static const eitp_transformer_config eitp__roberta_defaults = {
    NULL,           /* architecture: set by eitp__architecture_defaults */
    50265,          /* vocabulary */
    512,            /* positions; in config.json they include those before first_position */
    2,              /* first_position */
    768,            /* width */
    12,             /* heads */
    12,             /* layers */
    3072,           /* inner */
    2,              /* segments */
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
    -1,       /* classifier_dropout: below 0 stands for residual_dropout */
    1,        /* pooler */
    {1, {0}}, /* begin */
    {1, {2}}, /* end */
    {1, {1}}, /* padding */
    EITP__NO_DECODER_MEMBERS,
};

static const eitp__named_shape eitp__roberta_shapes[] = {
    EITP__SHAPE("roberta-base", 768, 12, 12, 512, 1, 1e-5),
    EITP__SHAPE("roberta-large", 1024, 16, 24, 512, 1, 1e-5),
};

static const eitp__config_key eitp__roberta_keys[] = {EITP__BERT_KEYS};

/* The bias of the language head is named as in BERT. */
static const eitp__parameter_row eitp__roberta_rows[] = {
    EITP__BERT_ENCODER_ROWS,
    EITP__BERT_LINEAR(POOLER, AFTER_BLOCKS, "pooler.dense", WIDTH, WIDTH, EITP__WITH_POOLER),
    EITP__BERT_LINEAR(HEAD_TRANSFORM, IN_HEAD, "lm_head.dense", WIDTH, WIDTH, EITP__WITH_HEAD),
    EITP__BERT_NORM(HEAD_NORM, IN_HEAD, "lm_head.layer_norm", EITP__WITH_HEAD),
    EITP__ROW(HEAD, WEIGHT, IN_HEAD, "lm_head.decoder.weight", VOCABULARY, WIDTH, NORMAL, 0, EITP__WITH_OWN_HEAD),
    EITP__ROW(HEAD, BIAS, IN_HEAD, "lm_head.bias", VOCABULARY, NONE, ZERO, 0, EITP__WITH_TIED_HEAD),
    EITP__ROW_AND_COPY(HEAD, BIAS, IN_HEAD, "lm_head.decoder.bias", VOCABULARY, NONE, ZERO, 0, EITP__WITH_OWN_HEAD,
                       "lm_head.bias"),
    EITP__BERT_LINEAR(CLASSIFIER_TRANSFORM, IN_HEAD, "classifier.dense", WIDTH, WIDTH, EITP__WITH_CLASSIFIER),
    EITP__BERT_LINEAR(CLASSIFIER, IN_HEAD, "classifier.out_proj", WIDTH, LABELS, EITP__WITH_CLASSIFIER),
    EITP__BERT_LINEAR(CLASSIFIER, IN_HEAD, "classifier", WIDTH, LABELS, EITP__WITH_TOKEN_CLASSIFIER),
};

static const eitp__model_class eitp__roberta_classes[] = {
    {"RobertaForMaskedLM", EITP_HEAD_LANGUAGE},
    {"RobertaForSequenceClassification", EITP_HEAD_CLASSIFIER},
    {"RobertaForTokenClassification", EITP_HEAD_TOKEN_CLASSIFIER},
    {"RobertaModel", EITP_HEAD_NONE},
};

EITP__PRIVATE const eitp_architecture *eitp__architecture_roberta(void) {
    static const eitp_architecture roberta = {
        "roberta",
        "roberta.",
        "encoder.layer.",
        eitp__roberta_classes,
        EITP__COUNT(eitp__roberta_classes),
        {EITP_POOLING_FIRST, EITP_TANH, 1, 0},
        EITP_GELU_ERF,
        EITP_LORA_QUERY | EITP_LORA_VALUE,
        1,
        &eitp__roberta_defaults,
        eitp__roberta_shapes,
        EITP__COUNT(eitp__roberta_shapes),
        eitp__roberta_keys,
        EITP__COUNT(eitp__roberta_keys),
        eitp__roberta_rows,
        EITP__COUNT(eitp__roberta_rows),
        EITP__NORM_LAYER,
        0,
        0,
    };
    return &roberta;
}
