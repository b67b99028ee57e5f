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
    eitp_lora_config lora; /* rank 0: no adapters */
    char *source;          /* directory that the weights were loaded from, or NULL */
    eitp__labels *labels;  /* labels of a classifier, or NULL */
    int has_loaded_head;   /* the head's weights were loaded from a directory */
    int lacks_head;        /* the head is random: the directory's config.json has it, but its weights do not */
    eitp__latent *latent;  /* NULL: none */
    char *generation;      /* members of its generation_config.json to write back, or NULL */
    char *other_keys;      /* members of its config.json to write back, or NULL */
};

/* eitp_model_hidden with any attention inputs. */
EITP__PRIVATE eitp_tensor *eitp__model_hidden_with(const eitp_model *model, eitp_graph *graph,
                                                   const eitp_model_inputs *inputs, const eitp_block_inputs *attention);

/* A private tap, numbered after eitp_tap: the logits F32 [n, vocabulary] of the language head, if the losses compute
   them. */
enum { EITP__TAP_LOGITS = 16 };

/* eitp_model_row_losses with dropout in the adapter of the head's transform; `key` may be NULL. */
EITP__PRIVATE eitp_tensor *eitp__model_row_losses(const eitp_model *model, eitp_tensor *hidden, eitp_tensor *key,
                                                  eitp_tensor *targets, int32_t ignored);

/* Returns the number of layers above a parameter: 0 for heads, final norms and variables that are not the model's, 1
   for the last block, layers + 1 for embeddings. Adapters belong to their block. */
EITP__PRIVATE int64_t eitp__layers_above(const eitp_model *model, const char *name);

/* True if the token embedding is trained and tied to the output head, so that its gradient has terms from both. */
EITP__PRIVATE int eitp__trains_tied_embedding(const eitp_model *model);

/* True if the labels of a classifier have default names: "LABEL_<number>". */
EITP__PRIVATE int eitp__model_labels_are_numbers(const eitp_model *model);

/* True if any dropout probability is above 0, including adapters'. */
EITP__PRIVATE int eitp__model_has_dropout(const eitp_model *model);

/* Adds a token to config.end, the tokens that end generated text. Does nothing if it is already there, the list is
   full, or `end` is -1. */
EITP__PRIVATE void eitp__model_add_end(eitp_model *model, int32_t end);

/* Applies `count` blocks of a model from block `first` on to x [n, width], with the model's adapters (inputs->lora is
   ignored). Without a key, dropout is off. Returns NULL, and fails the graph, if the model does not have these
   blocks. */
EITP__PRIVATE eitp_tensor *eitp__model_blocks(const eitp_model *model, eitp_tensor *x, int64_t first, int64_t count,
                                              const eitp_block_inputs *inputs);

#endif
