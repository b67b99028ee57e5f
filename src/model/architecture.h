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
    EITP__ATTENTION_INPUT, /* q, k and v concatenated by columns */
    EITP__ATTENTION_OUTPUT,
    EITP__MLP_INPUT,
    EITP__MLP_OUTPUT,
    EITP__LINEAR_SLOTS,
    EITP__ATTENTION_NORM = EITP__LINEAR_SLOTS,
    EITP__MLP_NORM,
    EITP__MLP_GATE,              /* a linear layer whose activation multiplies the output of MLP_INPUT */
    EITP__QUERY_NORM,            /* norm of each query head */
    EITP__KEY_NORM,              /* norm of each key head */
    EITP__ATTENTION_OUTPUT_NORM, /* norm of the attention output before the residual sum; MLP_OUTPUT_NORM likewise */
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

/* EITP__WEIGHT is the matrix of a slot, or the gain of a norm. */
typedef enum eitp__part { EITP__WEIGHT, EITP__BIAS } eitp__part;

/* Position of a parameter in the model. The rows of an architecture are in this order. */
typedef enum eitp__parameter_scope {
    EITP__BEFORE_BLOCKS,
    EITP__IN_BLOCK,
    EITP__AFTER_BLOCKS,
    EITP__IN_HEAD, /* its name has no prefix */
    EITP__PLACES
} eitp__parameter_scope;

/* Heads and poolers that a row exists with, as bits. */
enum {
    EITP__WITH_TIED_HEAD = 1, /* language head that shares the token embedding */
    EITP__WITH_OWN_HEAD = 2,  /* language head with its own matrix */
    EITP__WITH_CLASSIFIER = 4,
    EITP__WITH_POOLER = 8,   /* no head, with a pooler */
    EITP__WITH_NOTHING = 16, /* no head, without a pooler */
    EITP__WITH_TOKEN_CLASSIFIER = 32,
    EITP__WITH_HEAD = EITP__WITH_TIED_HEAD | EITP__WITH_OWN_HEAD,
    EITP__ALWAYS = 63
};

/* The switch of a configuration that a row depends on in addition to the head. */
typedef enum eitp__row_condition { EITP__NO_SWITCH, EITP__IF_ATTENTION_BIAS, EITP__IF_MLP_BIAS } eitp__row_condition;

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
    eitp__parameter_scope place;
    const char *name; /* without the prefix of its place; a weight is "<layer>.weight" */
    eitp__extent extents[2];
    eitp__fill_kind fill;
    int is_transposed;                /* [out, in] in files */
    const char *pieces[EITP__PIECES]; /* tensors of a file whose columns are concatenated to form the parameter; NULL:
                                         one tensor, named by `name` */
    unsigned with;                    /* the configurations that have it: a sum of EITP__WITH_... */
    const char *copy;                 /* name of an optional second copy of the whole parameter in files; NULL: none */
    eitp__row_condition depends;
} eitp__parameter_row;

/* Initializers of a table's rows. */
#define EITP__ROW(slot, part, place, name, rows, columns, fill, is_transposed, with)                                   \
    EITP__ROW_AND_COPY(slot, part, place, name, rows, columns, fill, is_transposed, with, NULL)
#define EITP__ROW_AND_COPY(slot, part, place, name, rows, columns, fill, is_transposed, with, copy)                    \
    {                                                                                                                  \
        EITP__##slot, EITP__##part, EITP__##place, name, {EITP__##rows, EITP__##columns}, EITP__FILL_##fill,           \
            is_transposed, {NULL, NULL, NULL}, with, copy, EITP__NO_SWITCH                                             \
    }

/* A matrix or bias stored as three tensors in a file. */
#define EITP__ROW_OF_THREE(slot, part, place, name, rows, columns, fill, is_transposed, a, b, c)                       \
    EITP__ROW_OF_THREE_IF(slot, part, place, name, rows, columns, fill, is_transposed, a, b, c, NO_SWITCH)
#define EITP__ROW_OF_THREE_IF(slot, part, place, name, rows, columns, fill, is_transposed, a, b, c, depends)           \
    {                                                                                                                  \
        EITP__##slot, EITP__##part, EITP__##place, name, {EITP__##rows, EITP__##columns}, EITP__FILL_##fill,           \
            is_transposed, {a, b, c}, EITP__ALWAYS, NULL, EITP__##depends                                              \
    }

/* A bias in blocks that the configuration can switch on. */
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
    EITP__FIELD_SLIDING_SWITCH, /* true: layers have a window; false or missing: none, regardless of other keys */
    EITP__FIELD_SLIDING_FIRST,
    EITP__FIELD_SLIDING_PERIOD,
    EITP__FIELD_ROTARY_THETA,
    EITP__FIELD_LOCAL_ROTARY_THETA,
    EITP__FIELD_ATTENTION_BIAS,
    EITP__FIELD_MLP_BIAS,
    EITP__FIELDS,
    EITP__NO_FIELD = EITP__FIELDS
} eitp__field;

/* Rules for reading and writing a key. */
typedef enum eitp__key_form {
    EITP__KEY,          /* null is an error, as in transformers */
    EITP__KEY_OR_NULL,  /* null stands for the default, or for 0 if the size may be 0 */
    EITP__KEY_ALIAS,    /* another name of a field, which takes precedence over its key; not written */
    EITP__KEY_IF_SET,   /* written only if it differs from the architecture's default: transformers lacks it */
    EITP__KEY_COMPOUND, /* read and written by labels, decoder_config or transformer_config, with other keys */
    EITP__KEY_UNUSED    /* does not affect a model's outputs */
} eitp__key_form;

/*
 * A key of config.json. Keys are read and written in this order. An architecture has a row for every key of its
 * configuration class in transformers (checked by tools/peers/config_keys.py), and for keys that transformers reads
 * elsewhere. Keys without a row are unknown. Saving a model keeps unknown and unused keys, and those with `only`.
 */
typedef struct eitp__config_key {
    const char *name;
    eitp__field field; /* EITP__NO_FIELD: none */
    eitp__key_form form;
    const char *only; /* the only supported value: "true", "false", "null", "{}", a number or a string; NULL: any. For a
                         switch: the size to use if it is on and the size's key is missing */
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

/* A member of a configuration and its value. */
typedef struct eitp__field_value {
    eitp__field field;
    double value;
} eitp__field_value;

typedef struct eitp__named_shape {
    const char *name;
    int64_t width, heads, layers, positions, segments;
    double epsilon;
    const eitp__field_value *others; /* NULL: the architecture's defaults, with an MLP four times as wide */
    size_t other_count;
    eitp_rotary_scaling scaling; /* scaling of rotary positions */
    double factor;               /* scaling factor */
} eitp__named_shape;

/* A shape with no other members. */
#define EITP__SHAPE(name, width, heads, layers, positions, segments, epsilon)                                          \
    { name, width, heads, layers, positions, segments, epsilon, NULL, 0, EITP_ROTARY_UNSCALED, 1 }

/* A class of transformers, in "architectures" of config.json. */
typedef struct eitp__model_class {
    const char *name;
    eitp_head head;
} eitp__model_class;

/* Steps from hidden states to scores. Sequences: pooling, the pooler and CLASSIFIER_TRANSFORM if present, dropout,
   CLASSIFIER. Tokens: dropout, CLASSIFIER. */
typedef struct eitp__classifier_rule {
    eitp_pooling pooling;
    eitp_activation activation; /* after CLASSIFIER_TRANSFORM */
    int drops_first;            /* dropout before CLASSIFIER_TRANSFORM too */
    int tokens_drop_as_blocks;  /* a token classifier uses residual_dropout instead of classifier_dropout */
} eitp__classifier_rule;

/* Values of the members that GPT-2 and BERT do not use. */
#define EITP__NO_DECODER_MEMBERS                                                                                       \
    0, 0, 0, 0, 0, 0, {0, 0, EITP_ROTARY_UNSCALED, 1, 1, 4, 8192}, 0, 0, 0, {                                          \
        0                                                                                                              \
    }

/* Normalization of hidden states. */
typedef enum eitp__norm_kind {
    EITP__NORM_LAYER,
    EITP__NORM_RMS,
    EITP__NORM_RMS_PLUS_ONE /* the gain is 1 + weight */
} eitp__norm_kind;

struct eitp_architecture {
    const char *model_type;
    const char *prefix;               /* prefix of parameter names; optional in files, where models without a head lack
                                         it */
    const char *block_prefix;         /* part of the name between prefix and block number */
    const eitp__model_class *classes; /* config.json gets the first class with the model's head */
    size_t class_count;
    eitp__classifier_rule classifier;
    eitp_activation head_activation; /* after HEAD_TRANSFORM; EITP_NO_ACTIVATION: the configuration's */
    unsigned lora_targets;           /* PEFT's default */
    int pads_positions; /* max_position_embeddings of config.json counts the rows up to pad_token_id (RoBERTa) */
    const eitp_transformer_config *defaults;
    const eitp__named_shape *shapes;
    size_t shape_count;
    const eitp__config_key *keys;
    size_t key_count;
    const eitp__parameter_row *rows;
    size_t row_count;
    eitp__norm_kind norm;
    int scales_embedding; /* token embeddings are multiplied by sqrt(width) */
    int whole_heads;      /* heads must divide the width even if head_width is set, as transformers requires */
};

EITP__PRIVATE const eitp_architecture *eitp__architecture_gpt2(void), *eitp__architecture_bert(void),
    *eitp__architecture_roberta(void), *eitp__architecture_distilbert(void), *eitp__architecture_llama(void),
    *eitp__architecture_qwen2(void), *eitp__architecture_qwen3(void), *eitp__architecture_gemma3(void),
    *eitp__architecture_mistral(void);

/* Returns entry `index` of the table, or NULL past the end. */
EITP__PRIVATE const eitp_architecture *eitp__architecture_at(size_t index);

/* Returns the dropout probability of a classifier's input, or 0 without a classifier. */
EITP__PRIVATE double eitp__head_dropout(const eitp_transformer_config *config);

/* Returns the architecture's key with this name, of `size` bytes, or NULL if not found. */
EITP__PRIVATE const eitp__config_key *eitp__config_key_find(const eitp_architecture *architecture, const char *name,
                                                            size_t size);

/* Returns the architecture of a configuration, never NULL. */
EITP__PRIVATE const eitp_architecture *eitp__architecture_of(const eitp_transformer_config *config);

/* Returns the configuration that an empty config.json means. `inner` may be 0, which stands for 4 * width, and
   classifier_dropout below 0, which stands for residual_dropout. */
EITP__PRIVATE eitp_transformer_config eitp__architecture_defaults(const eitp_architecture *architecture);

/* True if a model of the configuration has the row. */
EITP__PRIVATE int eitp__has_row(const eitp_transformer_config *config, const eitp__parameter_row *row);

/* Returns the row of a slot in a model of the configuration, else in one with another head, or NULL. */
EITP__PRIVATE const eitp__parameter_row *eitp__row_find(const eitp_transformer_config *config, eitp__model_slot slot,
                                                        eitp__part part);

/* True if a model of the configuration has a parameter in this slot. */
EITP__PRIVATE int eitp__has_slot(const eitp_transformer_config *config, eitp__model_slot slot, eitp__part part);

/* True if the language head shares the token embedding. */
EITP__PRIVATE int eitp__is_tied(const eitp_transformer_config *config);

/* Return the number of key and value heads, and the width of a head. */
EITP__PRIVATE int64_t eitp__key_value_heads(const eitp_transformer_config *config);
EITP__PRIVATE int64_t eitp__head_width(const eitp_transformer_config *config);

/* True if sliding_layers lists the layers with the window. */
EITP__PRIVATE int eitp__lists_sliding(const eitp_transformer_config *config);

/* Returns the maximum number of tokens that a token attends to in a layer, or 0 if unlimited. */
EITP__PRIVATE int64_t eitp__layer_sliding_window(const eitp_transformer_config *config, int64_t layer);

/* ---- Parameters ---- */

/* Sizes of a parameter's name and of a block's, with the terminating zero. A block's leaves room for row names and the
   suffixes of adapters. */
enum { EITP__NAME_SIZE = 160, EITP__BLOCK_NAME_SIZE = 96 };

/* One parameter of a model: a row, inside or outside a block. */
typedef struct eitp__parameter {
    char name[EITP__NAME_SIZE];     /* full name */
    const eitp__parameter_row *row; /* NULL for adapters */
    int64_t layer;                  /* -1 outside blocks */
    int rank;
    int64_t shape[2];
    int is_f32; /* F32 regardless of the context's precision */
    eitp__fill_kind fill;
} eitp__parameter;

EITP__PRIVATE int64_t eitp__extent_of(const eitp_transformer_config *config, eitp__extent extent);

/* Writes the name of a block, a prefix of its parameters' names. */
EITP__PRIVATE void eitp__block_name(const eitp_transformer_config *config, int64_t layer, char *name, size_t size);

/* Returns the parameter of a row, with `layer` -1. `block` is the name of its block, or NULL outside blocks. */
EITP__PRIVATE eitp__parameter eitp__row_parameter(const eitp_transformer_config *config, const eitp__parameter_row *row,
                                                  const char *block);

/* Number of parameters, and parameter `index`, in a fixed order. */
EITP__PRIVATE int64_t eitp__parameter_count(const eitp_transformer_config *config);
EITP__PRIVATE eitp__parameter eitp__parameter_at(const eitp_transformer_config *config, int64_t index);

/* Finds a parameter by its full name. Returns 0 if not found. */
EITP__PRIVATE int eitp__parameter_find(const eitp_transformer_config *config, const char *name,
                                       eitp__parameter *parameter);

EITP__PRIVATE int64_t eitp__parameter_elements(const eitp__parameter *parameter);

/* Returns a name without the architecture's prefix, if it has it. */
EITP__PRIVATE const char *eitp__without_prefix(const eitp_transformer_config *config, const char *name);

/* Return the number of columns of a matrix, or elements of a vector, in one tensor of a row in files, and the number
   before it. */
EITP__PRIVATE int64_t eitp__piece_columns(const eitp_transformer_config *config, const eitp__parameter_row *row,
                                          int piece);
EITP__PRIVATE int64_t eitp__piece_start(const eitp_transformer_config *config, const eitp__parameter_row *row,
                                        int piece);

/* Returns the number of tensors that make up a parameter in files; writes the name of one. */
EITP__PRIVATE int eitp__parameter_pieces(const eitp__parameter *parameter);
EITP__PRIVATE void eitp__parameter_piece_name(const eitp__parameter *parameter, int piece, char *name, size_t size);

#endif
