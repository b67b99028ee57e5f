/* A model: the parameters of a configuration in a context, and its graph. */
#ifndef EITP_TRANSFORMER_H
#define EITP_TRANSFORMER_H

#include "model/architecture.h"
#include "model/labels.h"
#include "model/latent_state.h"

struct eitp_model {
    eitp_context *context;
    eitp_host host;
    eitp_transformer_config config;
    eitp_lora_config lora; /* rank 0: none */
    char *source;          /* the directory its weights were loaded from, or NULL */
    eitp__labels *labels;  /* of a classifier, or NULL */
    int has_loaded_head;   /* the weights of the head are those of a directory */
    int lacks_head;        /* its head is random: the config.json of a directory has it, its weights do not */
    eitp__latent *latent;  /* NULL: none */
    char *generation;      /* members of its generation_config.json to write back, or NULL */
    char *other_keys;      /* and of its config.json */
};

/* eitp_model_hidden with any inputs of attention. */
EITP__PRIVATE eitp_tensor *eitp__model_hidden_with(const eitp_model *model, eitp_graph *graph,
                                                   const eitp_model_inputs *inputs, const eitp_block_inputs *attention);

/* A private tap, after those of eitp_tap: the logits F32 [n, vocabulary] of the language head, if losses have them. */
enum { EITP__TAP_LOGITS = 16 };

/* eitp_model_row_losses with dropout in the adapter of the head's transform; `key` may be NULL. */
EITP__PRIVATE eitp_tensor *eitp__model_row_losses(const eitp_model *model, eitp_tensor *hidden, eitp_tensor *key,
                                                  eitp_tensor *targets, int32_t ignored);

/* The number of layers above a parameter: 0 for heads, final norms and variables that are not the model's, 1 for the
   last block, layers + 1 for embeddings. Adapters are in their block. */
EITP__PRIVATE int64_t eitp__layers_above(const eitp_model *model, const char *name);

/* True if the token embedding is trained and tied to the output head: its gradient has terms of both. */
EITP__PRIVATE int eitp__trains_tied_embedding(const eitp_model *model);

/* True if the labels of a classifier have no names of their own: each is "LABEL_<its number>". */
EITP__PRIVATE int eitp__model_labels_are_numbers(const eitp_model *model);

/* True if any dropout probability is above 0, that of adapters included. */
EITP__PRIVATE int eitp__model_has_dropout(const eitp_model *model);

/* Adds a token to config.end, at which generated text ends, unless it is there, the list is full, or `end` is -1. */
EITP__PRIVATE void eitp__model_add_end(eitp_model *model, int32_t end);

/* x [n, width] through `count` blocks of a model from block `first` on, with its adapters (inputs->lora is ignored).
   Without a key there is no dropout. NULL, and the graph's error, if the model does not have these blocks. */
EITP__PRIVATE eitp_tensor *eitp__model_blocks(const eitp_model *model, eitp_tensor *x, int64_t first, int64_t count,
                                              const eitp_block_inputs *inputs);

#endif
