/* BERT (Devlin et al., arXiv 1810.04805), with the names and layout of Hugging Face's files. */
#include "model/bert.h"

static const eitp_transformer_config eitp__bert_defaults = {
    NULL,           /* architecture: set by eitp__architecture_defaults */
    30522,          /* vocabulary */
    512,            /* positions */
    0,              /* first_position */
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
    {0, {0}}, /* begin */
    {0, {0}}, /* end */
    {1, {0}}, /* padding */
    EITP__NO_DECODER_MEMBERS,
};

static const eitp__named_shape eitp__bert_shapes[] = {
    EITP__SHAPE("bert-base", 768, 12, 12, 512, 2, 1e-12),
    EITP__SHAPE("bert-large", 1024, 16, 24, 512, 2, 1e-12),
    EITP__SHAPE("minilm", 384, 12, 6, 512, 2, 1e-12),
};

static const eitp__config_key eitp__bert_keys[] = {EITP__BERT_KEYS};

/* The bias of the language head has another name if the head is not tied. In that case transformers also expects a
   tensor with the first name, which it does not use. */
static const eitp__parameter_row eitp__bert_rows[] = {
    EITP__BERT_ENCODER_ROWS,
    EITP__BERT_LINEAR(POOLER, AFTER_BLOCKS, "pooler.dense", WIDTH, WIDTH, EITP__WITH_CLASSIFIER | EITP__WITH_POOLER),
    EITP__BERT_LINEAR(HEAD_TRANSFORM, IN_HEAD, "cls.predictions.transform.dense", WIDTH, WIDTH, EITP__WITH_HEAD),
    EITP__BERT_NORM(HEAD_NORM, IN_HEAD, "cls.predictions.transform.LayerNorm", EITP__WITH_HEAD),
    EITP__ROW(HEAD, WEIGHT, IN_HEAD, "cls.predictions.decoder.weight", VOCABULARY, WIDTH, NORMAL, 0,
              EITP__WITH_OWN_HEAD),
    EITP__ROW(HEAD, BIAS, IN_HEAD, "cls.predictions.bias", VOCABULARY, NONE, ZERO, 0, EITP__WITH_TIED_HEAD),
    EITP__ROW_AND_COPY(HEAD, BIAS, IN_HEAD, "cls.predictions.decoder.bias", VOCABULARY, NONE, ZERO, 0,
                       EITP__WITH_OWN_HEAD, "cls.predictions.bias"),
    EITP__BERT_LINEAR(CLASSIFIER, IN_HEAD, "classifier", WIDTH, LABELS,
                      EITP__WITH_CLASSIFIER | EITP__WITH_TOKEN_CLASSIFIER),
};

static const eitp__model_class eitp__bert_classes[] = {
    {"BertForMaskedLM", EITP_HEAD_LANGUAGE},
    {"BertForPreTraining", EITP_HEAD_LANGUAGE},
    {"BertForSequenceClassification", EITP_HEAD_CLASSIFIER},
    {"BertForTokenClassification", EITP_HEAD_TOKEN_CLASSIFIER},
    {"BertModel", EITP_HEAD_NONE},
};

EITP__PRIVATE const eitp_architecture *eitp__architecture_bert(void) {
    static const eitp_architecture bert = {
        "bert",
        "bert.",
        "encoder.layer.",
        eitp__bert_classes,
        EITP__COUNT(eitp__bert_classes),
        {EITP_POOLING_FIRST, EITP_NO_ACTIVATION, 0, 0},
        EITP_NO_ACTIVATION,
        EITP_LORA_QUERY | EITP_LORA_VALUE,
        0,
        &eitp__bert_defaults,
        eitp__bert_shapes,
        EITP__COUNT(eitp__bert_shapes),
        eitp__bert_keys,
        EITP__COUNT(eitp__bert_keys),
        eitp__bert_rows,
        EITP__COUNT(eitp__bert_rows),
        EITP__NORM_LAYER,
        0,
        0,
    };
    return &bert;
}
