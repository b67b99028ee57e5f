/* Shared by BERT and RoBERTa: the keys of config.json, and the encoder's parameters. */
#ifndef EITP_BERT_H
#define EITP_BERT_H

#include "model/architecture.h"

#define EITP__BERT_KEYS                                                                                                \
    EITP__COMMON_KEYS{"is_causal", EITP__NO_FIELD, EITP__KEY_UNUSED, NULL},                                            \
        {"is_decoder", EITP__NO_FIELD, EITP__KEY, "false"},                                                            \
        {"add_cross_attention", EITP__NO_FIELD, EITP__KEY, "false"},                                                   \
        {"position_embedding_type", EITP__NO_FIELD, EITP__KEY_OR_NULL, "absolute"},                                    \
        {"hidden_act", EITP__FIELD_ACTIVATION, EITP__KEY, NULL},                                                       \
        {"vocab_size", EITP__FIELD_VOCABULARY, EITP__KEY, NULL},                                                       \
        {"max_position_embeddings", EITP__FIELD_POSITIONS, EITP__KEY, NULL},                                           \
        {"hidden_size", EITP__FIELD_WIDTH, EITP__KEY, NULL},                                                           \
        {"num_attention_heads", EITP__FIELD_HEADS, EITP__KEY, NULL},                                                   \
        {"num_hidden_layers", EITP__FIELD_LAYERS, EITP__KEY, NULL},                                                    \
        {"intermediate_size", EITP__FIELD_INNER, EITP__KEY, NULL},                                                     \
        {"type_vocab_size", EITP__FIELD_SEGMENTS, EITP__KEY, NULL},                                                    \
        {"hidden_dropout_prob", EITP__FIELD_RESIDUAL_DROPOUT, EITP__KEY, NULL},                                        \
        {"hidden_dropout_prob", EITP__FIELD_EMBEDDING_DROPOUT, EITP__KEY, NULL},                                       \
        {"attention_probs_dropout_prob", EITP__FIELD_ATTENTION_DROPOUT, EITP__KEY, NULL},                              \
        {"classifier_dropout", EITP__FIELD_CLASSIFIER_DROPOUT, EITP__KEY_OR_NULL, NULL},                               \
        {"layer_norm_eps", EITP__FIELD_EPSILON, EITP__KEY, NULL},                                                      \
        {"initializer_range", EITP__FIELD_INITIALIZER_RANGE, EITP__KEY, NULL},                                         \
        {"tie_word_embeddings", EITP__FIELD_TIED, EITP__KEY, NULL},

/* Rows of a linear layer, whose matrix is [out, in] in files, of a norm, and of an embedding. */
#define EITP__BERT_LINEAR(slot, place, name, rows, columns, with)                                                      \
    EITP__ROW(slot, WEIGHT, place, name ".weight", rows, columns, NORMAL, 1, with),                                    \
        EITP__ROW(slot, BIAS, place, name ".bias", columns, NONE, ZERO, 0, with)
#define EITP__BERT_NORM(slot, place, name, with)                                                                       \
    EITP__ROW(slot, WEIGHT, place, name ".weight", WIDTH, NONE, ONE, 0, with),                                         \
        EITP__ROW(slot, BIAS, place, name ".bias", WIDTH, NONE, ZERO, 0, with)
#define EITP__BERT_TABLE(slot, name, rows)                                                                             \
    EITP__ROW(slot, WEIGHT, BEFORE_BLOCKS, name ".weight", rows, WIDTH, NORMAL, 0, EITP__ALWAYS)

#define EITP__BERT_ENCODER_ROWS                                                                                        \
    EITP__BERT_TABLE(TOKEN_EMBEDDING, "embeddings.word_embeddings", VOCABULARY),                                       \
        EITP__BERT_TABLE(POSITION_EMBEDDING, "embeddings.position_embeddings", POSITIONS),                             \
        EITP__BERT_TABLE(SEGMENT_EMBEDDING, "embeddings.token_type_embeddings", SEGMENTS),                             \
        EITP__BERT_NORM(EMBEDDING_NORM, BEFORE_BLOCKS, "embeddings.LayerNorm", EITP__ALWAYS),                          \
        EITP__ROW_OF_THREE(ATTENTION_INPUT, WEIGHT, IN_BLOCK, "attention.self.qkv.weight", WIDTH, QKV, NORMAL, 1,      \
                           "attention.self.query.weight", "attention.self.key.weight", "attention.self.value.weight"), \
        EITP__ROW_OF_THREE(ATTENTION_INPUT, BIAS, IN_BLOCK, "attention.self.qkv.bias", QKV, NONE, ZERO, 0,             \
                           "attention.self.query.bias", "attention.self.key.bias", "attention.self.value.bias"),       \
        EITP__BERT_LINEAR(ATTENTION_OUTPUT, IN_BLOCK, "attention.output.dense", WIDTH, WIDTH, EITP__ALWAYS),           \
        EITP__BERT_NORM(ATTENTION_NORM, IN_BLOCK, "attention.output.LayerNorm", EITP__ALWAYS),                         \
        EITP__BERT_LINEAR(MLP_INPUT, IN_BLOCK, "intermediate.dense", WIDTH, INNER, EITP__ALWAYS),                      \
        EITP__BERT_LINEAR(MLP_OUTPUT, IN_BLOCK, "output.dense", INNER, WIDTH, EITP__ALWAYS),                           \
        EITP__BERT_NORM(MLP_NORM, IN_BLOCK, "output.LayerNorm", EITP__ALWAYS)

#endif
