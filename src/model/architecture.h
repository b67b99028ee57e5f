/*
 * Architectures: entries of one table, of data alone (gpt2.c is one). What an entry says is asked for here: parameters
 * with their names and layout in files, and the keys of config.json. Within src/model:
 *
 *     architecture        includes the public header alone
 *     transformer_config  architecture
 *     parameters          architecture: declares and fills them
 *     lora                parameters: adapters of a linear layer
 *     layers, block       lora: norms, linear layers, blocks
 *     transformer         block: the model
 *     adapters, freeze, generate   transformer: what is done with a model
 */
#ifndef EITP_ARCHITECTURE_H
#define EITP_ARCHITECTURE_H

#include "base/memory.h"
#include "base/status.h"
#include "model/model.h"

/* What a parameter is for. Linear layers of blocks come first: slot i is bit i of eitp_lora_config.targets. */
typedef enum eitp__model_slot {
    EITP__ATTENTION_INPUT, /* q, k and v side by side */
    EITP__ATTENTION_OUTPUT,
    EITP__MLP_INPUT,
    EITP__MLP_OUTPUT,
    EITP__LINEAR_SLOTS,
    EITP__ATTENTION_NORM = EITP__LINEAR_SLOTS,
    EITP__MLP_NORM,
    EITP__TOKEN_EMBEDDING,
    EITP__POSITION_EMBEDDING,
    EITP__SEGMENT_EMBEDDING,
    EITP__EMBEDDING_NORM,
    EITP__FINAL_NORM,
    EITP__HEAD
} eitp__model_slot;

/* A slot's matrix, or the gain of a norm; and its bias. */
typedef enum eitp__part { EITP__WEIGHT, EITP__BIAS } eitp__part;

/* Rows of a table are in this order. */
typedef enum eitp__parameter_place {
    EITP__BEFORE_BLOCKS,
    EITP__IN_BLOCK,
    EITP__AFTER_BLOCKS,
    EITP__UNTIED_HEAD /* only where the head is not the token embedding; its name has no prefix */
} eitp__parameter_place;

/* A dimension of a parameter, by name. */
typedef enum eitp__extent {
    EITP__NONE,
    EITP__VOCABULARY,
    EITP__POSITIONS,
    EITP__SEGMENTS,
    EITP__WIDTH,
    EITP__QKV,
    EITP__INNER
} eitp__extent;

typedef enum eitp__fill_kind {
    EITP__FILL_NORMAL,
    EITP__FILL_RESIDUAL,
    EITP__FILL_ONE,
    EITP__FILL_ZERO
} eitp__fill_kind;

/* Tensors of a file that make up one parameter, at most. */
enum { EITP__PIECES = 3 };

/* One parameter, or one of each block. Matrices are [in, out] in memory. */
typedef struct eitp__parameter_row {
    eitp__model_slot slot;
    eitp__part part;
    eitp__parameter_place place;
    const char *name; /* without the prefix of its place; of a weight "<layer>.weight" */
    eitp__extent extents[2];
    eitp__fill_kind fill;
    int is_transposed;                /* files have [out, in] */
    const char *pieces[EITP__PIECES]; /* files have these instead, the columns of one beside those of the next; NULL:
                                         one tensor of the row's name */
} eitp__parameter_row;

/* The end of a row whose parameter is the same in files. */
#define EITP__AS_IN_FILES                                                                                              \
    0, {                                                                                                               \
        NULL, NULL, NULL                                                                                               \
    }

/* A member of eitp_transformer_config that a key of config.json is about. */
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
    EITP__FIELD_EPSILON,
    EITP__FIELD_INITIALIZER_RANGE,
    EITP__FIELD_SCALE_ATTENTION,
    EITP__FIELD_SCALE_ATTENTION_BY_LAYER,
    EITP__FIELD_TIED,
    EITP__FIELD_POST_NORM,
    EITP__FIELD_BIDIRECTIONAL,
    EITP__FIELDS,
    EITP__NO_FIELD = EITP__FIELDS /* a key that may only have the value `only` */
} eitp__field;

/* A key of config.json. Keys are written in the order of the table. */
typedef struct eitp__config_key {
    const char *name;
    eitp__field field;
    int is_alias;     /* another key has the same field and goes first in reading; both are written */
    const char *only; /* of EITP__NO_FIELD, which is not written: "true", "false" or a text */
} eitp__config_key;

typedef struct eitp__named_shape {
    const char *name;
    int64_t width, heads, layers, positions; /* the MLP is four times as wide */
} eitp__named_shape;

struct eitp_architecture {
    const char *model_type;
    const char *class_name;   /* config.json's "architectures" */
    const char *prefix;       /* of parameters' names; files may leave it out */
    const char *block_prefix; /* between it and a block's number */
    const eitp_transformer_config *defaults;
    const eitp__named_shape *shapes;
    size_t shape_count;
    const eitp__config_key *keys;
    size_t key_count;
    const eitp__parameter_row *rows;
    size_t row_count;
};

EITP__PRIVATE const eitp_architecture *eitp__architecture_gpt2(void);

/* Number `index` of the table; NULL after the last. */
EITP__PRIVATE const eitp_architecture *eitp__architecture_at(size_t index);

/* That of a configuration, never NULL. */
EITP__PRIVATE const eitp_architecture *eitp__architecture_of(const eitp_transformer_config *config);

/* What a config.json of it means that leaves everything out; `inner` is 0. */
EITP__PRIVATE eitp_transformer_config eitp__architecture_defaults(const eitp_architecture *architecture);

/* The row of a slot; NULL if the architecture has none. */
EITP__PRIVATE const eitp__parameter_row *eitp__row_find(const eitp_transformer_config *config, eitp__model_slot slot,
                                                        eitp__part part);

/* ---- Parameters ---- */

/* Longest name of a parameter, its zero byte included, and of a block: row names and the ends of adapters' fit after.
 */
enum { EITP__NAME_SIZE = 160, EITP__BLOCK_NAME_SIZE = 96 };

/* One parameter of a model, as a row and a block give it. */
typedef struct eitp__parameter {
    char name[EITP__NAME_SIZE];     /* whole */
    const eitp__parameter_row *row; /* NULL: of an adapter */
    int64_t layer;                  /* -1: outside the blocks */
    int rank;
    int64_t shape[2];
    int is_f32; /* whatever the context's precision */
    eitp__fill_kind fill;
} eitp__parameter;

EITP__PRIVATE int64_t eitp__extent_of(const eitp_transformer_config *config, eitp__extent extent);

/* The name of a model's block, to which ".<row's name>" is added. */
EITP__PRIVATE void eitp__block_name(const eitp_transformer_config *config, int64_t layer, char *name, size_t size);

/* The parameter of a row; `block` is the name of its block, NULL outside. `layer` is left at -1. */
EITP__PRIVATE eitp__parameter eitp__row_parameter(const eitp_transformer_config *config, const eitp__parameter_row *row,
                                                  const char *block);

/* All parameters in a fixed order: the count, and number `index`. */
EITP__PRIVATE int64_t eitp__parameter_count(const eitp_transformer_config *config);
EITP__PRIVATE eitp__parameter eitp__parameter_at(const eitp_transformer_config *config, int64_t index);

/* The parameter of that whole name; 0: none. */
EITP__PRIVATE int eitp__parameter_find(const eitp_transformer_config *config, const char *name,
                                       eitp__parameter *parameter);

EITP__PRIVATE int64_t eitp__parameter_elements(const eitp__parameter *parameter);

/* A name without the architecture's prefix, or as it is where it does not begin with that. */
EITP__PRIVATE const char *eitp__without_prefix(const eitp_transformer_config *config, const char *name);

/* Tensors that files have for it, and the name of one. */
EITP__PRIVATE int eitp__parameter_pieces(const eitp__parameter *parameter);
EITP__PRIVATE void eitp__parameter_piece_name(const eitp__parameter *parameter, int piece, char *name, size_t size);

#endif
