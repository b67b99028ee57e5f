/* A model: a configuration's parameters in a context, and its graph. */
#ifndef EITP_TRANSFORMER_H
#define EITP_TRANSFORMER_H

#include "model/architecture.h"

struct eitp_model {
    eitp_context *context;
    eitp_host host;
    eitp_transformer_config config;
    eitp_lora_config lora; /* rank 0: none */
    char *source;          /* the directory that its weights are from; NULL: none */
    char *generation;      /* members of generation_config.json that are kept; NULL: none */
};

/* eitp_model_hidden of rows that attend as `attention` says. */
EITP__PRIVATE eitp_tensor *eitp__model_hidden_with(const eitp_model *model, eitp_graph *graph,
                                                   const eitp_model_inputs *inputs, const eitp_block_inputs *attention);

/* True if the token embedding is trained and is the output head too, so that its gradient comes from both. */
EITP__PRIVATE int eitp__trains_tied_embedding(const eitp_model *model);

#endif
