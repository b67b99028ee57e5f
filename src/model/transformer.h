/* GPT-2's parameters, in one table, and its graph. */
#ifndef EITP_TRANSFORMER_H
#define EITP_TRANSFORMER_H

#include "base/json.h"
#include "base/memory.h"
#include "base/status.h"
#include "model/model.h"

struct eitp_model {
    eitp_context *context;
    eitp_host host;
    eitp_transformer_config config;
    eitp_lora_config lora; /* rank 0: none */
    char *source;          /* the directory that its weights are from; NULL: none */
    char *generation;      /* members of generation_config.json that are kept; NULL: none */
};

typedef enum eitp__fill_kind {
    EITP__FILL_NORMAL,
    EITP__FILL_RESIDUAL,
    EITP__FILL_ONE,
    EITP__FILL_ZERO
} eitp__fill_kind;

/* One parameter of a model, as the table and a layer number give it. */
typedef struct eitp__parameter {
    char name[96]; /* Hugging Face's, with its prefix */
    int rank;
    int64_t shape[2];
    eitp__fill_kind fill;
} eitp__parameter;

/* All parameters in a fixed order: the count, and number `index`. */
EITP__PRIVATE int64_t eitp__parameter_count(const eitp_transformer_config *config);
EITP__PRIVATE eitp__parameter eitp__parameter_at(const eitp_transformer_config *config, int64_t index);

/* Sizes that are positive, consistent, and small enough that no product of them overflows. */
EITP__PRIVATE eitp_status eitp__transformer_config_check(const eitp_transformer_config *config, eitp_error *error);

/* Reads bos_token_id, eos_token_id and pad_token_id, a number or a list each; what is missing stays as it is, null is
   none. */
EITP__PRIVATE eitp_status eitp__config_read_special_tokens(const eitp__json *root, eitp_transformer_config *config,
                                                           eitp_error *error);

/* Adds them as members, `"name": ids,\n` each. */
EITP__PRIVATE void eitp__config_write_special_tokens(eitp__buffer *text, const eitp_transformer_config *config);

/* See eitp_model_set_special_tokens. */
EITP__PRIVATE void eitp__config_set_special_tokens(eitp_transformer_config *config, int32_t begin, int32_t end,
                                                   int32_t padding);

/* The model's parameter of that whole name in a graph. */
EITP__PRIVATE eitp_tensor *eitp__parameter_named(const eitp_model *model, eitp_graph *graph, const char *name);

/* How a block attends: to the packed batch, or to a cache that it also fills. */
typedef struct eitp__attending {
    eitp_tensor *offsets, *key;
    int64_t longest;
    eitp_tensor
        *position; /* not NULL: with a cache of `longest` tokens, variables "cache.<layer>.keys" and ".values" */
} eitp__attending;

/* The hidden states [n, width] after the last layer norm, and the logits of hidden states. */
EITP__PRIVATE eitp_tensor *eitp__gpt2_hidden(const eitp_model *model, eitp_graph *graph,
                                             const eitp_model_inputs *inputs, const eitp__attending *attending);

/* True if the token embedding is trained and is the output head too, so that its gradient comes from both. */
EITP__PRIVATE int eitp__trains_tied_embedding(const eitp_model *model);

EITP__PRIVATE eitp_tensor *eitp__gpt2_logits(const eitp_model *model, eitp_tensor *hidden);

#endif
