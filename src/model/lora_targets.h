/* Linear layers that have adapters: targets of a configuration, their names, and the layers of an architecture. */
#ifndef EITP_LORA_TARGETS_H
#define EITP_LORA_TARGETS_H

#include "model/parameters.h"

/* The layers outside blocks. */
enum { EITP__LORA_OUTSIDE = EITP_LORA_POOLER | EITP_LORA_HEAD_TRANSFORM };

/* Return the targets of a block, or those outside blocks (-1); and the union over all blocks. */
EITP__PRIVATE unsigned eitp__lora_block_targets(const eitp_lora_config *config, int64_t block);
EITP__PRIVATE unsigned eitp__lora_all_targets(const eitp_lora_config *config);
EITP__PRIVATE int eitp__lora_targets_equal(const eitp_lora_config *a, const eitp_lora_config *b);

/* A linear layer that can have an adapter: the weight of a row, or one of its pieces in files. */
typedef struct eitp__lora_layer {
    const eitp__parameter_row *row;
    int piece, pieces;
    const char *name; /* name of the layer, without ".weight" */
    size_t length;    /* length of the name */
    unsigned target;  /* its bit in eitp_lora_config.targets */
    unsigned whole;   /* bit of the whole row */
} eitp__lora_layer;

/* Return the number of pieces of a row, and the layer of one piece. */
EITP__PRIVATE int eitp__lora_pieces(const eitp__parameter_row *row);
EITP__PRIVATE eitp__lora_layer eitp__lora_layer_of(const eitp__parameter_row *row, int piece);

/* True if `word` is the name, or a suffix of it after a dot. */
EITP__PRIVATE int eitp__lora_is_suffix(const char *word, size_t size, const char *name, size_t length);

/* True if the word matches a layer of a classifier, which has no adapters because it is trained in full. */
EITP__PRIVATE int eitp__lora_is_of_classifier(const eitp_architecture *architecture, const char *word, size_t size);

/* Finds layer `index` of an architecture. Returns 0 past the end. */
EITP__PRIVATE int eitp__lora_layer_at(const eitp_architecture *architecture, int64_t index, eitp__lora_layer *layer);

/* True if the targets include the layer, or all pieces of its row. */
EITP__PRIVATE int eitp__lora_has(unsigned targets, const eitp__lora_layer *layer);

/* Replaces the targets with the layers that the model has, so that configurations with the same layers compare equal.
   EITP_ERROR_ARGUMENT if the model has none of the targets, or its architecture lacks one of them. */
EITP__PRIVATE eitp_status eitp__lora_find_layers(const eitp_transformer_config *model, eitp_lora_config *config,
                                                 eitp_error *error);

/* Returns the output of eitp_lora_targets_format as a string for eitp__release_text, or NULL if out of memory. */
EITP__PRIVATE char *eitp__lora_targets_text(const eitp_host *host, const eitp_architecture *architecture,
                                            const eitp_lora_config *config);

#endif
