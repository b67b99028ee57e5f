/*
 * The table of architectures. An entry is data only (gpt2.c, bert.c, llama.c, ...): parameters with their names and
 * layout in files, and the keys of config.json. The modules of src/model, each using those above it:
 *
 *     architecture                 the table and its lookups
 *     labels                       names of a classifier's labels
 *     decoder_config               rotary positions and windows in config.json
 *     transformer_config           configurations, and config.json
 *     parameters                   declaring and filling parameters
 *     lora_targets                 layers that have adapters, and their names
 *     lora                         adapters of a linear layer
 *     layers, block                norms, linear layers, blocks
 *     transformer, heads           the model
 *     adapters, freeze, generate   operations on a model
 */
#ifndef EITP_ARCHITECTURE_H
#define EITP_ARCHITECTURE_H

#include "base/memory.h"
#include "base/status.h"
#include "model/model.h"

/* The role of a parameter in the model. Linear layers of blocks come first: slot i is bit i of
   eitp_lora_config.targets. */
typedef enum eitp__model_slot {
    EITP__ATTENTION_INPUT, /* q, k and v side by side */
    EITP__ATTENTION_OUTPUT,
    EITP__MLP_INPUT,
    EITP__MLP_OUTPUT,
    EITP__LINEAR_SLOTS,
    EITP__ATTENTION_NORM = EITP__LINEAR_SLOTS,
    EITP__MLP_NORM,
    EITP__MLP_GATE,              /* a linear layer, whose activation multiplies the output of MLP_INPUT */
    EITP__QUERY_NORM,            /* of each head of the queries, */
    EITP__KEY_NORM,              /* and of the keys */
    EITP__ATTENTION_OUTPUT_NORM, /* of what attention and MLP add to the hidden states */
    EITP__MLP_OUTPUT_NORM,
    EITP__TOKEN_EMBEDDING,
    EITP__POSITION_EMBEDDING,
    EITP__SEGMENT_EMBEDDING,
    EITP__EMBEDDING_NORM,
    EITP__FINAL_NORM,
    EITP__POOLER,
    EITP__HEAD_TRANSFORM, /* a linear layer, activation and norm before the language head */
    EITP__HEAD_NORM,
    EITP__HEAD,
    EITP__CLASSIFIER_TRANSFORM, /* a linear layer and activation before the classifier */
    EITP__CLASSIFIER
} eitp__model_slot;

/* The matrix of a slot, or the gain of a norm; or its bias. */
typedef enum eitp__part { EITP__WEIGHT, EITP__BIAS } eitp__part;

/* Where a parameter is. The rows of an architecture are in this order. */
typedef enum eitp__parameter_place {
    EITP__BEFORE_BLOCKS,
    EITP__IN_BLOCK,
    EITP__AFTER_BLOCKS,
    EITP__IN_HEAD, /* its name has no prefix */
    EITP__PLACES
} eitp__parameter_place;

/* What a configuration adds to the blocks, as bits: a row says with which of them it exists. */
enum {
    EITP__WITH_TIED_HEAD = 1, /* a language head that shares the token embedding, */
    EITP__WITH_OWN_HEAD = 2,  /* or has a matrix of its own */
    EITP__WITH_CLASSIFIER = 4,
    EITP__WITH_POOLER = 8,   /* no head, with a pooler */
    EITP__WITH_NOTHING = 16, /* no head, without a pooler */
    EITP__WITH_TOKEN_CLASSIFIER = 32,
    EITP__WITH_HEAD = EITP__WITH_TIED_HEAD | EITP__WITH_OWN_HEAD,
    EITP__ALWAYS = 63
};

/* The switch of a configuration that a row depends on besides the head. */
typedef enum eitp__row_switch { EITP__NO_SWITCH, EITP__IF_ATTENTION_BIAS, EITP__IF_MLP_BIAS } eitp__row_switch;

/* A dimension of a parameter. */
typedef enum eitp__extent {
    EITP__NONE,
    EITP__VOCABULARY,
    EITP__POSITIONS,
    EITP__SEGMENTS,
    EITP__WIDTH,
    EITP__QKV,             /* all heads of queries, keys and values */
    EITP__ATTENTION_WIDTH, /* all heads of queries */
    EITP__HEAD_WIDTH,
    EITP__INNER,
    EITP__LABELS
} eitp__extent;

typedef enum eitp__fill_kind {
    EITP__FILL_NORMAL,
    EITP__FILL_RESIDUAL,
    EITP__FILL_ONE,
    EITP__FILL_ZERO
} eitp__fill_kind;

/* Maximum number of tensors in a file that make up one parameter. */
enum { EITP__PIECES = 3 };

/* One parameter of the model or of each block. Matrices are [in, out] in memory. */
typedef struct eitp__parameter_row {
    eitp__model_slot slot;
    eitp__part part;
    eitp__parameter_place place;
    const char *name; /* without the prefix of its place; a weight is "<layer>.weight" */
    eitp__extent extents[2];
    eitp__fill_kind fill;
    int is_transposed;                /* [out, in] in files */
    const char *pieces[EITP__PIECES]; /* tensors of a file that, side by side by columns, make up the parameter; NULL:
                                         one tensor of the row's name */
    unsigned with;                    /* the configurations that have it: a sum of EITP__WITH_... */
    const char
        *copy; /* a second name, under which files have the whole parameter once more, but need not; NULL: none */
    eitp__row_switch depends;
} eitp__parameter_row;

/* A row of a table. */
#define EITP__ROW(slot, part, place, name, rows, columns, fill, is_transposed, with)                                   \
    EITP__ROW_AND_COPY(slot, part, place, name, rows, columns, fill, is_transposed, with, NULL)
#define EITP__ROW_AND_COPY(slot, part, place, name, rows, columns, fill, is_transposed, with, copy)                    \
    {                                                                                                                  \
        EITP__##slot, EITP__##part, EITP__##place, name, {EITP__##rows, EITP__##columns}, EITP__FILL_##fill,           \
            is_transposed, {NULL, NULL, NULL}, with, copy, EITP__NO_SWITCH                                             \
    }

/* A matrix or bias that is three tensors of a file. */
#define EITP__ROW_OF_THREE(slot, part, place, name, rows, columns, fill, is_transposed, a, b, c)                       \
    EITP__ROW_OF_THREE_IF(slot, part, place, name, rows, columns, fill, is_transposed, a, b, c, NO_SWITCH)
#define EITP__ROW_OF_THREE_IF(slot, part, place, name, rows, columns, fill, is_transposed, a, b, c, depends)           \
    {                                                                                                                  \
        EITP__##slot, EITP__##part, EITP__##place, name, {EITP__##rows, EITP__##columns}, EITP__FILL_##fill,           \
            is_transposed, {a, b, c}, EITP__ALWAYS, NULL, EITP__##depends                                              \
    }

/* A bias of blocks that a configuration may have. */
#define EITP__BIAS_IF(slot, name, extent, depends)                                                                     \
    EITP__ROW_OF_THREE_IF(slot, BIAS, IN_BLOCK, name, extent, NONE, ZERO, 0, NULL, NULL, NULL, depends)

/* A member of eitp_transformer_config that a key of config.json sets. */
typedef enum eitp__field {
    EITP__FIELD_ACTIVATION,
    EITP__FIELD_VOCABULARY,
    EITP__FIELD_POSITIONS,
    EITP__FIELD_WIDTH,
    EITP__FIELD_HEADS,
    EITP__FIELD_LAYERS,
    EITP__FIELD_INNER,
    EITP__FIELD_SEGMENTS,
    EITP__FIELD_EMBEDDING_DROPOUT,
    EITP__FIELD_ATTENTION_DROPOUT,
    EITP__FIELD_RESIDUAL_DROPOUT,
    EITP__FIELD_CLASSIFIER_DROPOUT,
    EITP__FIELD_EPSILON,
    EITP__FIELD_INITIALIZER_RANGE,
    EITP__FIELD_SCALE_ATTENTION,
    EITP__FIELD_SCALE_ATTENTION_BY_LAYER,
    EITP__FIELD_TIED,
    EITP__FIELD_POST_NORM,
    EITP__FIELD_BIDIRECTIONAL,
    EITP__FIELD_KEY_VALUE_HEADS,
    EITP__FIELD_HEAD_WIDTH,
    EITP__FIELD_ATTENTION_SCALAR,
    EITP__FIELD_SLIDING,
    EITP__FIELD_SLIDING_SWITCH, /* true if there is a window; false, also if missing: none, whatever another key says */
    EITP__FIELD_SLIDING_FIRST,
    EITP__FIELD_SLIDING_PERIOD,
    EITP__FIELD_ROTARY_THETA,
    EITP__FIELD_LOCAL_ROTARY_THETA,
    EITP__FIELD_ATTENTION_BIAS,
    EITP__FIELD_MLP_BIAS,
    EITP__FIELDS,
    EITP__NO_FIELD = EITP__FIELDS
} eitp__field;

/* How a key is read and written. */
typedef enum eitp__key_form {
    EITP__KEY,          /* null is an error, as in transformers */
    EITP__KEY_OR_NULL,  /* null stands for the default; of a size that may be 0, for 0 */
    EITP__KEY_ALIAS,    /* another name of a field, which takes precedence over its key; not written */
    EITP__KEY_IF_SET,   /* written only if it differs from the architecture's default: transformers lacks it */
    EITP__KEY_COMPOUND, /* read and written by labels, decoder_config or transformer_config, with other keys */
    EITP__KEY_UNUSED    /* does not change what a model computes */
} eitp__key_form;

/*
 * A key of config.json. Keys are read and written in this order. An architecture has a row for every key of its
 * configuration class in transformers, which tools/peers/config_keys.py checks, and for keys that transformers reads in
 * other ways. Keys without a row are unknown. Saving a model keeps unknown and unused ones, and those with `only`.
 */
typedef struct eitp__config_key {
    const char *name;
    eitp__field field; /* EITP__NO_FIELD: none */
    eitp__key_form form;
    const char *only; /* the only supported value: "true", "false", "null", "{}", a number or a string; NULL: any. Of a
                         switch, the size that is switched on if its key is missing */
} eitp__config_key;

/* Keys that all architectures have. */
#define EITP__COMMON_KEYS                                                                                              \
    {"model_type", EITP__NO_FIELD, EITP__KEY_COMPOUND, NULL},                                                          \
        {"architectures", EITP__NO_FIELD, EITP__KEY_COMPOUND, NULL},                                                   \
        {"id2label", EITP__NO_FIELD, EITP__KEY_COMPOUND, NULL},                                                        \
        {"label2id", EITP__NO_FIELD, EITP__KEY_COMPOUND, NULL},                                                        \
        {"num_labels", EITP__NO_FIELD, EITP__KEY_COMPOUND, NULL},                                                      \
        {"problem_type", EITP__NO_FIELD, EITP__KEY_COMPOUND, NULL},                                                    \
        {"bos_token_id", EITP__NO_FIELD, EITP__KEY_COMPOUND, NULL},                                                    \
        {"eos_token_id", EITP__NO_FIELD, EITP__KEY_COMPOUND, NULL},                                                    \
        {"pad_token_id", EITP__NO_FIELD, EITP__KEY_COMPOUND, NULL},                                                    \
        {"quantization_config", EITP__NO_FIELD, EITP__KEY, "null"},                                                    \
        {"compression_config", EITP__NO_FIELD, EITP__KEY, "null"},                                                     \
        {"per_layer_config", EITP__NO_FIELD, EITP__KEY, "null"},                                                       \
        {"transformers_weights", EITP__NO_FIELD, EITP__KEY, "null"},                                                   \
        {"pruned_heads", EITP__NO_FIELD, EITP__KEY_OR_NULL, "{}"},                                                     \
        {"is_encoder_decoder", EITP__NO_FIELD, EITP__KEY_OR_NULL, "false"},                                            \
        {"dtype", EITP__NO_FIELD, EITP__KEY_UNUSED, NULL}, {"torch_dtype", EITP__NO_FIELD, EITP__KEY_UNUSED, NULL},    \
        {"transformers_version", EITP__NO_FIELD, EITP__KEY_UNUSED, NULL},                                              \
        {"output_hidden_states", EITP__NO_FIELD, EITP__KEY_UNUSED, NULL},                                              \
        {"output_attentions", EITP__NO_FIELD, EITP__KEY_UNUSED, NULL},                                                 \
        {"return_dict", EITP__NO_FIELD, EITP__KEY_UNUSED, NULL},                                                       \
        {"chunk_size_feed_forward", EITP__NO_FIELD, EITP__KEY_UNUSED, NULL},                                           \
        {"use_cache", EITP__NO_FIELD, EITP__KEY_UNUSED, NULL},                                                         \
        {"sep_token_id", EITP__NO_FIELD, EITP__KEY_UNUSED, NULL},                                                      \
        {"gradient_checkpointing", EITP__NO_FIELD, EITP__KEY_UNUSED, NULL},                                            \
        {"fusion_config", EITP__NO_FIELD, EITP__KEY_UNUSED, NULL},                                                     \
        {"distributed_config", EITP__NO_FIELD, EITP__KEY_UNUSED, NULL},

/* A key of architectures with causal attention. */
#define EITP__CAUSAL_KEY {"is_causal", EITP__NO_FIELD, EITP__KEY, "true"},

/* A member of a configuration that has this value. */
typedef struct eitp__field_value {
    eitp__field field;
    double value;
} eitp__field_value;

typedef struct eitp__named_shape {
    const char *name;
    int64_t width, heads, layers, positions, segments;
    double epsilon;
    const eitp__field_value *others; /* NULL: as in the architecture, with an MLP four times as wide */
    size_t other_count;
    eitp_rotary_scaling scaling; /* of rotary positions, */
    double factor;               /* by this factor */
} eitp__named_shape;

/* A shape without such members. */
#define EITP__SHAPE(name, width, heads, layers, positions, segments, epsilon)                                          \
    { name, width, heads, layers, positions, segments, epsilon, NULL, 0, EITP_ROTARY_UNSCALED, 1 }

/* A class of transformers, in "architectures" of config.json. */
typedef struct eitp__model_class {
    const char *name;
    eitp_head head;
} eitp__model_class;

/* How a classifier goes from hidden states to scores: pooling, the pooler if there is one, CLASSIFIER_TRANSFORM if
   there is one, dropout, CLASSIFIER. One of tokens: dropout, CLASSIFIER. */
typedef struct eitp__classifier_rule {
    eitp_pooling pooling;
    eitp_activation activation; /* after CLASSIFIER_TRANSFORM */
    int drops_first;            /* dropout before CLASSIFIER_TRANSFORM too */
    int tokens_drop_as_blocks;  /* a classifier of tokens has residual_dropout instead of classifier_dropout */
} eitp__classifier_rule;

/* The members of a configuration that GPT-2 and BERT do not have. */
#define EITP__NO_DECODER_MEMBERS                                                                                       \
    0, 0, 0, 0, 0, 0, {0, 0, EITP_ROTARY_UNSCALED, 1, 1, 4, 8192}, 0, 0, 0, {                                          \
        0                                                                                                              \
    }

/* How hidden states are normalized. */
typedef enum eitp__norm_kind {
    EITP__NORM_LAYER,
    EITP__NORM_RMS,
    EITP__NORM_RMS_PLUS_ONE /* the gain is 1 + weight */
} eitp__norm_kind;

struct eitp_architecture {
    const char *model_type;
    const char *prefix;               /* of parameter names; optional in files, where models without a head lack it */
    const char *block_prefix;         /* between it and the number of a block */
    const eitp__model_class *classes; /* the first with a head is written */
    size_t class_count;
    eitp__classifier_rule classifier;
    eitp_activation head_activation; /* after HEAD_TRANSFORM; EITP_NO_ACTIVATION: the configuration's */
    unsigned lora_targets;           /* PEFT's default */
    int pads_positions; /* max_position_embeddings of config.json includes the rows up to pad_token_id, as in RoBERTa */
    const eitp_transformer_config *defaults;
    const eitp__named_shape *shapes;
    size_t shape_count;
    const eitp__config_key *keys;
    size_t key_count;
    const eitp__parameter_row *rows;
    size_t row_count;
    eitp__norm_kind norm;
    int scales_embedding; /* token embeddings are multiplied by sqrt(width) */
    int whole_heads;      /* heads must divide the width even if they have another one, as transformers demands */
};

EITP__PRIVATE const eitp_architecture *eitp__architecture_gpt2(void), *eitp__architecture_bert(void),
    *eitp__architecture_roberta(void), *eitp__architecture_distilbert(void), *eitp__architecture_llama(void),
    *eitp__architecture_qwen2(void), *eitp__architecture_qwen3(void), *eitp__architecture_gemma3(void),
    *eitp__architecture_mistral(void);

/* Entry `index` of the table; NULL past the end. */
EITP__PRIVATE const eitp_architecture *eitp__architecture_at(size_t index);

/* The dropout of a classifier's input; 0 without a classifier. */
EITP__PRIVATE double eitp__head_dropout(const eitp_transformer_config *config);

/* The key of an architecture with this name, of `size` bytes; NULL: it has none. */
EITP__PRIVATE const eitp__config_key *eitp__config_key_find(const eitp_architecture *architecture, const char *name,
                                                            size_t size);

/* The architecture of a configuration, never NULL. */
EITP__PRIVATE const eitp_architecture *eitp__architecture_of(const eitp_transformer_config *config);

/* The configuration that an empty config.json means. `inner` may be 0, which stands for 4 * width, and
   classifier_dropout below 0, which stands for residual_dropout. */
EITP__PRIVATE eitp_transformer_config eitp__architecture_defaults(const eitp_architecture *architecture);

/* True if a model of the configuration has the row. */
EITP__PRIVATE int eitp__has_row(const eitp_transformer_config *config, const eitp__parameter_row *row);

/* The row of a slot in a model of the configuration, else in one with another head; NULL if there is none. */
EITP__PRIVATE const eitp__parameter_row *eitp__row_find(const eitp_transformer_config *config, eitp__model_slot slot,
                                                        eitp__part part);

/* True if a model of the configuration has a parameter in this slot. */
EITP__PRIVATE int eitp__has_slot(const eitp_transformer_config *config, eitp__model_slot slot, eitp__part part);

/* True if the language head shares the token embedding. */
EITP__PRIVATE int eitp__is_tied(const eitp_transformer_config *config);

/* The heads of keys and values, and the width of a head. */
EITP__PRIVATE int64_t eitp__key_value_heads(const eitp_transformer_config *config);
EITP__PRIVATE int64_t eitp__head_width(const eitp_transformer_config *config);

/* True if the configuration says of each layer whether it has the window. */
EITP__PRIVATE int eitp__lists_sliding(const eitp_transformer_config *config);

/* The tokens that a token of a layer attends to at most; 0: all before it. */
EITP__PRIVATE int64_t eitp__layer_sliding_window(const eitp_transformer_config *config, int64_t layer);

/* ---- Parameters ---- */

/* Size of a parameter's name with its terminating zero, and of a block's, which leaves room for row names and the
   suffixes of adapters. */
enum { EITP__NAME_SIZE = 160, EITP__BLOCK_NAME_SIZE = 96 };

/* One parameter of a model: a row, in a block or outside. */
typedef struct eitp__parameter {
    char name[EITP__NAME_SIZE];     /* full name */
    const eitp__parameter_row *row; /* NULL for adapters */
    int64_t layer;                  /* -1 outside blocks */
    int rank;
    int64_t shape[2];
    int is_f32; /* in any precision of the context */
    eitp__fill_kind fill;
} eitp__parameter;

EITP__PRIVATE int64_t eitp__extent_of(const eitp_transformer_config *config, eitp__extent extent);

/* The name of a block, a prefix of its parameters' names. */
EITP__PRIVATE void eitp__block_name(const eitp_transformer_config *config, int64_t layer, char *name, size_t size);

/* The parameter of a row; `block` is the name of its block, NULL outside blocks. Its `layer` is -1. */
EITP__PRIVATE eitp__parameter eitp__row_parameter(const eitp_transformer_config *config, const eitp__parameter_row *row,
                                                  const char *block);

/* All parameters in a fixed order. */
EITP__PRIVATE int64_t eitp__parameter_count(const eitp_transformer_config *config);
EITP__PRIVATE eitp__parameter eitp__parameter_at(const eitp_transformer_config *config, int64_t index);

/* Finds the parameter with a full name; 0 for an unknown name. */
EITP__PRIVATE int eitp__parameter_find(const eitp_transformer_config *config, const char *name,
                                       eitp__parameter *parameter);

EITP__PRIVATE int64_t eitp__parameter_elements(const eitp__parameter *parameter);

/* A name without the architecture's prefix, if it has it. */
EITP__PRIVATE const char *eitp__without_prefix(const eitp_transformer_config *config, const char *name);

/* The columns of a matrix, or elements of a vector, that make up one of the tensors of a row in files, and how many are
   before them. */
EITP__PRIVATE int64_t eitp__piece_columns(const eitp_transformer_config *config, const eitp__parameter_row *row,
                                          int piece);
EITP__PRIVATE int64_t eitp__piece_start(const eitp_transformer_config *config, const eitp__parameter_row *row,
                                        int piece);

/* The number of tensors that make up a parameter in files, and the name of one. */
EITP__PRIVATE int eitp__parameter_pieces(const eitp__parameter *parameter);
EITP__PRIVATE void eitp__parameter_piece_name(const eitp__parameter *parameter, int piece, char *name, size_t size);

#endif
