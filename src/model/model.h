/*
 * Models: a configuration becomes parameters in a context and a graph. Adapters (LoRA), freezing, and text generation.
 *
 * If a required argument is NULL, functions with a status return EITP_ERROR_ARGUMENT. Other functions return NULL, 0 or
 * a zeroed struct, or do nothing if they return void.
 */
#ifndef EITP_MODEL_H
#define EITP_MODEL_H

#include "base/settings.h"
#include "tensor/tensor.h"

EITP_BEGIN_DECLARATIONS

/* Maximum number of ids in eitp_token_ids. */
#define EITP_MAX_TOKEN_IDS 16

/* Maximum number of layers in eitp_transformer_config.sliding_layers, which selects the window per layer. */
#define EITP_MAX_SLIDING_LAYERS 256

/* A list of token ids. A zero-initialised list is empty. */
typedef struct eitp_token_ids {
    int32_t count;
    int32_t ids[EITP_MAX_TOKEN_IDS];
} eitp_token_ids;

/*
 * A model family, named like model_type in config.json. It defines the names of parameters and their layout in files,
 * the keys of config.json, and defaults. Supported: "gpt2", "bert" (Devlin et al., arXiv 1810.04805), "roberta" (Liu et
 * al., arXiv 1907.11692), "distilbert" (Sanh et al., arXiv 1910.01108), "llama" (Llama 2 and 3, TinyLlama, SmolLM;
 * Grattafiori et al., arXiv 2407.21783), "qwen2" (Qwen2 and Qwen2.5; Yang et al., arXiv 2407.10671), "qwen3" (Yang et
 * al., arXiv 2505.09388), "gemma3_text" (Kamath et al., arXiv 2503.19786), "mistral" (Jiang et al., arXiv 2310.06825).
 */
typedef struct eitp_architecture eitp_architecture;

/* Returns the architecture with this model_type, or NULL if it is NULL or unknown. A constant, never released. */
EITP_API const eitp_architecture *eitp_architecture_find(const char *model_type);

/* Returns the architecture's model_type. NULL: "gpt2". */
EITP_API const char *eitp_architecture_name(const eitp_architecture *architecture);

/* Output of a model, computed from its hidden states. */
typedef enum eitp_head {
    EITP_HEAD_LANGUAGE = 0,   /* logits of tokens: the next one, or the masked one with bidirectional attention */
    EITP_HEAD_CLASSIFIER = 1, /* scores of labels for each sequence, or predicted numbers */
    EITP_HEAD_NONE = 2,
    EITP_HEAD_TOKEN_CLASSIFIER = 3 /* scores of labels for each token */
} eitp_head;

/* True for the two heads that have labels. */
EITP_API int eitp_head_has_labels(eitp_head head);

/* A Transformer (Vaswani et al., arXiv 1706.03762). Start from eitp_transformer_config_default(),
   eitp_transformer_config_named, eitp_transformer_config_read or eitp_model_config_read. */
typedef struct eitp_transformer_config {
    const eitp_architecture *architecture; /* NULL: GPT-2 */
    int64_t vocabulary;
    int64_t positions;      /* maximum sequence length in tokens */
    int64_t first_position; /* row of the position embedding for the first token: 2 in RoBERTa, otherwise 0 */
    int64_t width;          /* width of the hidden states */
    int64_t heads;
    int64_t layers;
    int64_t inner;    /* width of the MLP's hidden layer; 0: 4 * width */
    int64_t segments; /* rows of the segment embedding, as in BERT; 0: none, as in GPT-2 */
    eitp_activation activation;
    double epsilon; /* epsilon of the norms */
    double embedding_dropout, attention_dropout, residual_dropout;
    double initializer_range;     /* standard deviation of random weights */
    int scale_attention;          /* scale scores by 1 / sqrt(width of a head) */
    int scale_attention_by_layer; /* scale scores by 1 / (layer + 1) as well */
    int tied;                     /* the language head shares the token embedding */
    int post_norm;     /* norms after the residual sums, as in BERT; 0: before attention and MLP, as in GPT-2 */
    int bidirectional; /* each token attends to its whole sequence; 0: causal attention */
    eitp_head head;
    int64_t labels; /* outputs of a classifier, at least 1 */
    eitp_problem problem;
    double classifier_dropout; /* on the input of a classifier of sequences, in BERT and RoBERTa also of tokens */
    int pooler;                /* with EITP_HEAD_NONE, in BERT and RoBERTa: include the pooler */
    /* Special tokens for programs that generate: bos_token_id, eos_token_id and pad_token_id of config.json. Ids
       outside the vocabulary are ignored. */
    eitp_token_ids begin, end, padding;
    /* Members of decoders since Llama. All are 0 in GPT-2 and BERT. */
    int64_t key_value_heads; /* consecutive query heads share one key and value head; 0: as many as heads */
    int64_t head_width;      /* 0: width / heads */
    double attention_scalar; /* scores are scaled by 1 / sqrt(attention_scalar); 0: by 1 / sqrt(width of a head) */
    int64_t sliding_window;  /* tokens that a token attends to in layers with a window, itself included; 0: no window */
    int64_t sliding_first;   /* first layer with the window, from 0 */
    int64_t sliding_period;  /* every sliding_period-th layer has no window; 0: all from sliding_first have it */
    eitp_rotary_config rotary; /* layers without the window, or all; theta 0: no rotary positions; width is ignored */
    double local_rotary_theta; /* layers with the window, whose positions are not scaled; 0: as in the other layers */
    int attention_bias;        /* linear layers of attention have biases, where config.json has a switch, as in Llama */
    int mlp_bias;              /* likewise, linear layers of the MLP have biases */
    uint64_t sliding_layers[EITP_MAX_SLIDING_LAYERS / 64]; /* bit l % 64 of element l / 64: layer l has the window; all
                                                              0: sliding_first and sliding_period choose the layers */
} eitp_transformer_config;

/* Returns the configuration of "gpt2": 12 layers of width 768, 50257 tokens, a language head. */
EITP_API eitp_transformer_config eitp_transformer_config_default(void);

/*
 * Fills in the configuration of a named model with its language head. EITP_ERROR_ARGUMENT for an unknown name.
 *
 * GPT-2, 50257 tokens: "gpt2" (124M parameters), "gpt2-medium", "gpt2-large", "gpt2-xl", "distilgpt2", "tiny" (4 layers
 * of width 128).
 * BERT, 30522 tokens: "bert-base" (110M parameters), "bert-large", "minilm" (6 layers of width 384, as in
 * all-MiniLM-L6-v2).
 * RoBERTa, 50265 tokens: "roberta-base", "roberta-large". DistilBERT, 30522 tokens: "distilbert-base".
 * Others: "smollm2-135m", "smollm2-360m", "smollm2-1.7b", "llama-3.2-1b", "qwen2-0.5b", "qwen2.5-1.5b", "qwen3-0.6b",
 * "gemma-3-270m", "gemma-3-1b", "mistral-7b".
 *
 * In GPT-2, BERT, RoBERTa and DistilBERT `inner` is 0, so that it follows a width that is set later.
 */
EITP_API eitp_status eitp_transformer_config_named(const char *name, eitp_transformer_config *config,
                                                   eitp_error *error);

/* Returns the maximum sequence length, in tokens, of a model with this configuration. */
EITP_API int64_t eitp_transformer_config_positions(const eitp_transformer_config *config);

/*
 * Reads a Hugging Face config.json. A missing model_type means "gpt2". `architectures` selects the head. An unknown or
 * missing class means the language head in GPT-2 and no head in the others. Members that affect a model's outputs have
 * the same meaning as in transformers, or are refused; docs/config-keys.md lists all of them. Unknown members are
 * ignored. EITP_ERROR_UNSUPPORTED names the unsupported model_type or member. EITP_ERROR_FORMAT names a member that is
 * invalid, or that is missing and required by another.
 */
EITP_API eitp_status eitp_transformer_config_read(const eitp_host *host, const char *path,
                                                  eitp_transformer_config *config, eitp_error *error);

/*
 * Writes a config.json that eitp_transformer_config_read and Hugging Face's transformers read. `dtype` is recorded as
 * the dtype of the weights. `end_of_text` replaces the special tokens as in eitp_model_set_special_tokens; -1 leaves
 * them unchanged. EITP_ERROR_UNSUPPORTED if post_norm or bidirectional differ from the architecture's values and its
 * config.json has no key for them.
 */
EITP_API eitp_status eitp_transformer_config_write(const eitp_host *host, const char *path,
                                                   const eitp_transformer_config *config, int32_t end_of_text,
                                                   eitp_dtype dtype, eitp_error *error);

typedef struct eitp_model eitp_model;

/*
 * Declares the model's parameters in the context: matrices in the context's precision, vectors in F32. They are
 * uninitialized until eitp_model_initialize or eitp_model_load_weights. EITP_ERROR_FORMAT names an invalid member of
 * the configuration. Destroy the model before the context.
 */
EITP_API eitp_status eitp_model_create(eitp_context *context, const eitp_transformer_config *config, eitp_model **model,
                                       eitp_error *error);
EITP_API void eitp_model_destroy(eitp_model *model);

/*
 * Creates the model in another context. It borrows the weights, including adapters, instead of copying them, so that
 * several threads can compute with one set of weights. Each thread has a context with its own arena, plans, caches and
 * log, and creates generators, predictors and evaluations there. Results are bit-identical to a context with its own
 * weights. Labels, special tokens and dropout are copied.
 *
 * Both contexts must be on the CPU and have the same precision. Threads, kernels and host may differ.
 * EITP_ERROR_ARGUMENT if the weights have no values yet, the precision differs, or the context has variables of these
 * names. EITP_ERROR_UNSUPPORTED for another device, and for offloaded weights.
 *
 * Changes: borrowed weights are frozen. Any call that would change them is EITP_ERROR_ARGUMENT: writing, initializing,
 * loading, merging adapters and training. This applies to the borrowing context, and to the model's own until all
 * contexts that borrow from it are destroyed. A borrowed model can be saved. If it has no adapters, you can add
 * adapters to it and train them.
 *
 * Lifetime: contexts and models may be destroyed in any order. The last context that uses the weights releases them, in
 * its thread, using the host of the context that allocated them. That host must remain valid until then.
 *
 * Threads: several threads may call this for one model at the same time, while nothing else uses the model's context.
 * After that each thread uses its own context independently. Hosts shared by several contexts must be thread-safe, like
 * the default host.
 *
 * Memory: the weights count in the context that allocated them (eitp_context_variable_bytes, eitp_fit_measure).
 */
EITP_API eitp_status eitp_model_share(const eitp_model *model, eitp_context *context, eitp_model **shared,
                                      eitp_error *error);

/* Returns the configuration. Its architecture is never NULL. */
EITP_API eitp_transformer_config eitp_model_config(const eitp_model *model);

EITP_API eitp_context *eitp_model_context(const eitp_model *model);

/* Returns the name of a classifier's label, by default "LABEL_<label>". NULL if there is no such label. */
EITP_API const char *eitp_model_label(const eitp_model *model, int64_t label);

/* Names all labels of a classifier. eitp_model_save writes the names as id2label. They are copied. EITP_ERROR_ARGUMENT
   if `count` is not the number of labels, or two names are equal. */
EITP_API eitp_status eitp_model_set_labels(eitp_model *model, const char *const *names, int64_t count,
                                           eitp_error *error);

/*
 * EITP_ERROR_FORMAT if parameters of the head are random because a directory lacked them although its config.json has
 * that head (eitp_model_load_weights_with warns about this). Predictions of such a model are meaningless until it is
 * trained. Programs that evaluate or generate call this first; eitp_predictor_create and eitp_training_prepare do.
 */
EITP_API eitp_status eitp_model_check_head(const eitp_model *model, eitp_error *error);

/* Return the size of the vocabulary, and the maximum sequence length in tokens. */
EITP_API int64_t eitp_model_vocabulary(const eitp_model *model);
EITP_API int64_t eitp_model_positions(const eitp_model *model);

/*
 * Sets the special tokens of the configuration to a tokenizer's. -1: the tokenizer has none. If config.end already
 * contains `end`, or `end` is -1, only `begin` and `padding` are set, where they are not -1. Otherwise all three are
 * replaced: end by `end`, begin by `begin` or else `end` (as in GPT-2), padding by `padding` or else nothing.
 */
EITP_API void eitp_model_set_special_tokens(eitp_model *model, int32_t begin, int32_t end, int32_t padding);

/* Returns the number of parameter elements, excluding adapters. */
EITP_API int64_t eitp_model_parameter_count(const eitp_model *model);

/* Sets the dropout probabilities, each 0 to 0.999. Existing graphs keep theirs. */
EITP_API eitp_status eitp_model_set_dropout(eitp_model *model, double embedding, double attention, double residual,
                                            eitp_error *error);

/* Initializes all parameters: matrices and embeddings from a normal distribution with standard deviation
   initializer_range, divided by sqrt(2 * layers) for matrices that write to the residual stream, as in GPT-2; gains to
   1, biases to 0. The values depend only on the seed and the parameters' names. */
EITP_API eitp_status eitp_model_initialize(eitp_model *model, uint64_t seed, eitp_error *error);

/* ---- Adapters and freezing ---- */

/* Linear layers that can have adapters, with their names in GPT-2, BERT and RoBERTa. */
typedef enum eitp_lora_target {
    EITP_LORA_ATTENTION_INPUT = 1,  /* q, k and v: "attn.c_attn" of GPT-2, or the three below */
    EITP_LORA_ATTENTION_OUTPUT = 2, /* "attn.c_proj", "attention.output.dense" */
    EITP_LORA_MLP_INPUT = 4,        /* "mlp.c_fc", "intermediate.dense" */
    EITP_LORA_MLP_OUTPUT = 8,       /* "mlp.c_proj", "output.dense" */
    EITP_LORA_QUERY = 16,           /* "attention.self.query"; not in GPT-2, like the next two */
    EITP_LORA_KEY = 32,
    EITP_LORA_VALUE = 64,
    EITP_LORA_MLP_GATE = 32768,       /* "mlp.gate_proj"; in Llama and similar architectures */
    EITP_LORA_POOLER = 65536,         /* "pooler.dense", outside the blocks, like the next one; not in GPT-2 */
    EITP_LORA_HEAD_TRANSFORM = 131072 /* "cls.predictions.transform.dense", "lm_head.dense" */
} eitp_lora_target;

/* Modules of a decoder to train in full alongside adapters: modules_to_save in PEFT. A classifier is always trained in
   full. */
typedef enum eitp_lora_saved {
    EITP_LORA_SAVES_EMBEDDING = 1, /* "embed_tokens", in GPT-2 "wte"; with a tied head also the head */
    EITP_LORA_SAVES_HEAD = 2       /* "lm_head", if it is not tied */
} eitp_lora_saved;

/* Maximum number of blocks with individual targets. */
enum { EITP_LORA_BLOCKS = 1024 };

/* Low-rank adaptation (Hu et al., "LoRA", arXiv 2106.09685). Start from eitp_lora_config_default(). */
typedef struct eitp_lora_config {
    int64_t rank;     /* 1 to 65536; 0: no adapters */
    double alpha;     /* the output of adapters is scaled by alpha / rank */
    int rslora;       /* 1: scaled by alpha / sqrt(rank) instead (Kalajdzievski, arXiv 2312.03732) */
    double dropout;   /* dropout on the adapters' input during training, 0 to 0.999 */
    unsigned targets; /* layers in every block and outside blocks: sum of eitp_lora_target */
    uint16_t block_targets[EITP_LORA_BLOCKS]; /* additional targets in block i only */
    unsigned saved;                           /* modules trained in full: sum of eitp_lora_saved */
} eitp_lora_config;

/* Returns PEFT's defaults for GPT-2: rank 8, alpha 8, no dropout, EITP_LORA_ATTENTION_INPUT. */
EITP_API eitp_lora_config eitp_lora_config_default(void);

/* Returns PEFT's default targets for an architecture: q, k and v of GPT-2, otherwise q and v. NULL: GPT-2. */
EITP_API unsigned eitp_lora_targets_default(const eitp_architecture *architecture);

/*
 * Sets the targets of a configuration to layer names separated by commas. As in PEFT, a name matches a layer if it is
 * its last part or parts. In GPT-2 "c_proj" matches attn.c_proj and mlp.c_proj of every block, while "h.0.attn.c_proj"
 * and "transformer.h.0.attn.c_proj" match attn.c_proj of the first block only. "all-linear" matches every linear layer
 * except in a language head or a classifier. Layers of a classifier are accepted as names but get no adapters, because
 * the classifier is trained in full. `architecture` is the model's; NULL: the first one that has all of the names.
 * EITP_ERROR_ARGUMENT, with the configuration unchanged, if a name matches no layer. eitp_model_add_lora checks that
 * the model has the blocks.
 */
EITP_API eitp_status eitp_lora_targets_parse(const eitp_architecture *architecture, const char *names,
                                             eitp_lora_config *config, eitp_error *error);

/* Writes the shortest layer names for the targets of a configuration, separated by commas, into `names`, truncated to
   `size` bytes. Returns their full length, even if `size` is 0. The targets of every block come first, then the names
   of layers in single blocks. `architecture` NULL: GPT-2. */
EITP_API size_t eitp_lora_targets_format(const eitp_architecture *architecture, const eitp_lora_config *config,
                                         char *names, size_t size);

/*
 * Parses names of modules, separated by commas, into *saved. They match by their last parts, like the names of targets.
 * "" selects nothing. Layers of a classifier are accepted and change nothing. `architecture` NULL: any.
 * EITP_ERROR_ARGUMENT, with *saved unchanged, if a name matches no module. eitp_model_add_lora checks that the model
 * has the modules.
 */
EITP_API eitp_status eitp_lora_saved_parse(const eitp_architecture *architecture, const char *names, unsigned *saved,
                                           eitp_error *error);

/* Writes the names of modules, like eitp_lora_targets_format. */
EITP_API size_t eitp_lora_saved_format(const eitp_architecture *architecture, unsigned saved, char *names, size_t size);

/*
 * Adds scale * dropout(x) A^T B^T to each target layer x W + b and freezes all other parameters except in a classifier
 * and in `saved` modules. Targets outside the blocks that the model lacks, such as the pooler of a masked model, are
 * ignored. A [rank, in] and B [out, rank] are F32 parameters called "<layer>.lora_A.weight" and
 * "<layer>.lora_B.weight". In 16-bit precision they are rounded for the products, and so is the sum; their gradients
 * are F32. Call this before the parameters have values: frozen 16-bit parameters then get no remainders
 * (eitp_parameter_form), which saves memory. EITP_ERROR_ARGUMENT if the configuration is invalid or has layers or
 * blocks that the model lacks, the model already has adapters, or its context has graphs.
 */
EITP_API eitp_status eitp_model_add_lora(eitp_model *model, const eitp_lora_config *config, eitp_error *error);

/* Initializes A uniformly in +-1 / sqrt(in), as PEFT does, from the seed and the parameters' names. Initializes B to
   zero, so that the adapters have no effect yet. Does nothing if the model has no adapters. */
EITP_API eitp_status eitp_model_initialize_lora(eitp_model *model, uint64_t seed, eitp_error *error);

/* Returns the configuration of the model's adapters. rank 0: none. Its targets are layers of the model: in block i they
   are targets | block_targets[i]. */
EITP_API eitp_lora_config eitp_model_lora_config(const eitp_model *model);

/*
 * Merges the adapters into the weights, W = W + scale (B A)^T, summed in f64 and rounded once, and zeroes B. The model
 * keeps its adapters, and its outputs are the same up to rounding, in existing graphs too. 16-bit weights are rounded
 * to 16 bits: merge in fp32. Does nothing if the model has no adapters.
 */
EITP_API eitp_status eitp_model_merge_lora(eitp_model *model, eitp_error *error);

/*
 * Freezes parameters (see eitp_variable_set_trained). `parts` is a list of items separated by commas: "embeddings" (all
 * embeddings before the first block; a tied head is frozen with the token embedding), "layers:N" (the first N blocks),
 * and parameter names, with or without the architecture's prefix ("transformer."), where "*" matches any text. A model
 * with an encoder (eitp_model_add_encoder) also accepts "encoder" and "decoder": all parameters of either.
 * EITP_ERROR_ARGUMENT, with nothing frozen, if an item matches no parameter.
 */
EITP_API eitp_status eitp_model_freeze(eitp_model *model, const char *parts, eitp_error *error);

/* Returns the number of elements of parameters that are not frozen, including adapters. */
EITP_API int64_t eitp_model_trained_parameter_count(const eitp_model *model);

/* Inputs of a model's graph; n is the maximum number of tokens (see eitp_input_rows). */
typedef struct eitp_model_inputs {
    eitp_tensor *tokens; /* I32 [n], rows */
    eitp_tensor
        *positions;       /* I32 [n], rows: the position of each token in its sequence: see eitp_model_fill_positions */
    eitp_tensor *offsets; /* I32 [sequences + 1]: see eitp_attention */
    eitp_tensor *key;     /* I64 [3]: see eitp_dropout; NULL: no dropout */
    /* For training in several passes per step; set both or neither. The distinct tokens of the step, I32 [u], and the
       index of each token among them, I32 [n], rows. See eitp_embedding_unique. */
    eitp_tensor *unique, *inverse;
    eitp_tensor *segments;   /* I32 [n], rows: the segment of each token, for models with segments; NULL: all 0 */
    eitp_tensor *bounds;     /* I32 [samples, 2]: see eitp_pool; NULL: the samples are the sequences of offsets */
    eitp_tensor *sample_key; /* I64 [3]: like key, but with the index of sample 0, for classifiers; NULL: no dropout */
    eitp_tensor *added; /* [n, width]: added to the embeddings, such as a latent variable's projection; NULL: nothing */
} eitp_model_inputs;

/* Creates tokens, positions, offsets and, if with_key, key, for up to `sequences` sequences of up to `max_length`
   tokens. The other members are NULL. */
EITP_API eitp_model_inputs eitp_model_inputs_create(eitp_graph *graph, int64_t sequences, int64_t max_length,
                                                    int with_key);

/*
 * Fills in the positions of a sequence's tokens: 0, 1, 2 and so on. In RoBERTa, as in transformers, padding tokens in a
 * sequence are not counted, and their position is -1. `model` NULL: all tokens are counted, and `tokens` may be NULL.
 */
EITP_API void eitp_model_fill_positions(const eitp_model *model, const int32_t *tokens, int64_t count,
                                        int32_t *positions);

/* Adds the model to a graph and returns the hidden states [n, width] after the last norm. No sequence may have more
   than `max_length` tokens. */
EITP_API eitp_tensor *eitp_model_hidden(const eitp_model *model, eitp_graph *graph, const eitp_model_inputs *inputs,
                                        int64_t max_length);

/* Values inside a model. */
typedef enum eitp_tap {
    EITP_TAP_HIDDEN =
        0, /* [n, width]: for layer 0 the input of the first block, for layer l the output of the l-th block */
    EITP_TAP_FINAL = 1, /* [n, width]: the input of the head, after the last norm */
    EITP_TAP_QKV = 2, /* [n, (heads + 2 key_value_heads) head_width]: queries, keys and values of the attention of block
                         `layer`, from 0, before norms of heads and rotary positions */
    EITP_TAP_SCORES = 3, /* the output of eitp_model_scores or eitp_model_token_scores */
    EITP_TAP_QUERIES_KEYS =
        4 /* [n, (heads + key_value_heads) head_width]: queries and keys of block `layer` as attention compares them,
             after norms of heads and rotary positions */
} eitp_tap;

/*
 * Returns a value inside the model in a graph, for terms and metrics that need it: from the graph's first
 * eitp_model_hidden, or scores. `layer` is ignored if the tap has none. NULL if the graph has no such value, or an
 * argument is NULL. A plan keeps the value only if something reads it.
 */
EITP_API eitp_tensor *eitp_model_tap(const eitp_model *model, const eitp_graph *graph, eitp_tap tap, int64_t layer);

/* Applies the language head to hidden states, all or selected rows. Returns logits F32 [n, vocabulary]. The adapter of
   the head's transform has no dropout here. */
EITP_API eitp_tensor *eitp_model_logits(const eitp_model *model, eitp_tensor *hidden);

/* Returns the loss of each row, F32 [n], in nats, for targets I32 [n]; 0 where the target is `ignored`. GPT-2's head
   has no bias, so its logits are not stored in 16-bit precision; see eitp_linear_cross_entropy. */
EITP_API eitp_tensor *eitp_model_losses(const eitp_model *model, eitp_graph *graph, const eitp_model_inputs *inputs,
                                        int64_t max_length, eitp_tensor *targets, int32_t ignored);

/* Like eitp_model_losses, for hidden states, all or selected rows: for masked language modelling, only the masked
   ones. */
EITP_API eitp_tensor *eitp_model_row_losses(const eitp_model *model, eitp_tensor *hidden, eitp_tensor *targets,
                                            int32_t ignored);

/* Returns the classifier's scores of each sample, F32 [samples, labels]. It reads the first token in BERT, RoBERTa and
   DistilBERT, and the last token in GPT-2. Scores of an empty sample have no meaning. */
EITP_API eitp_tensor *eitp_model_scores(const eitp_model *model, eitp_tensor *hidden, const eitp_model_inputs *inputs);

/* Returns the token classifier's scores of each row of hidden states, F32 [n, labels]. */
EITP_API eitp_tensor *eitp_model_token_scores(const eitp_model *model, eitp_tensor *hidden,
                                              const eitp_model_inputs *inputs);

/* Returns the output of the pooler for each sample, [samples, width]: the tanh of a linear layer of the first token. */
EITP_API eitp_tensor *eitp_model_pooled(const eitp_model *model, eitp_tensor *hidden, const eitp_model_inputs *inputs);

/* ---- Blocks, for your own models ---- */

/* Attention inputs of a block. Start from eitp_block_inputs_default(), then set the members that apply. */
typedef struct eitp_block_inputs {
    int64_t max_length;   /* maximum rows of a sequence */
    eitp_tensor *offsets; /* I32 [sequences + 1]: see eitp_attention */
    eitp_tensor *lengths; /* I32 [sequences]: see eitp_attention; NULL: sequences have no padding */
    eitp_tensor *key;     /* I64 [3]: see eitp_dropout; NULL: no dropout */
    /* For generation, instead of offsets, I32 [1]: the position of row 0 in its sequence. Keys and values are stored in
       a cache, and rows attend to all before them; see eitp_attention_cached. */
    eitp_tensor *position;
    /* Location of the cache. 0: in the variables "cache.<layer>.keys" and "cache.<layer>.values", shared by all plans
       of the context. 1: in kept inputs of these names, so that each plan has its own sequence. */
    int own_cache;
    /* Adapters of the block's linear layers; NULL: none. The layers themselves are trained unless the program freezes
       them; see eitp_variable_set_trained. */
    const eitp_lora_config *lora;
    eitp_tensor *rotation, *local_rotation; /* see eitp_block_inputs_set_positions; NULL: no rotary positions */
} eitp_block_inputs;

/* Returns inputs with all members NULL or 0. Set max_length, and offsets or position. */
EITP_API eitp_block_inputs eitp_block_inputs_default(void);

/* Sets the inputs that blocks with rotary positions need, from the position of each row, I32 [n]; see eitp_rotary. Does
   nothing for other configurations. */
EITP_API void eitp_block_inputs_set_positions(eitp_block_inputs *inputs, const eitp_transformer_config *config,
                                              eitp_tensor *positions);

/*
 * Adds a Transformer block: x [n, width] through attention and MLP, each with its residual sum, dropout and norm. Its
 * parameters are variables called "<name>.<the architecture's name>", such as "encoder.0.ln_1.weight", matrices in the
 * context's precision. Missing ones are declared, uninitialized. `name` has 1 to 64 characters. `layer`, from 0, only
 * affects scale_attention_by_layer, the cache and block_targets of adapters. Returns NULL if an argument is NULL or
 * invalid; eitp_graph_status gives the reason.
 */
EITP_API eitp_tensor *eitp_block(eitp_tensor *x, const eitp_transformer_config *config, const char *name, int64_t layer,
                                 const eitp_block_inputs *inputs);

/* Initializes the parameters of a block, excluding adapters, like eitp_model_initialize. Declares missing ones. */
EITP_API eitp_status eitp_block_initialize(eitp_context *context, const eitp_transformer_config *config,
                                           const char *name, uint64_t seed, eitp_error *error);

/* ---- Generation ---- */

/* Options for drawing the next token. Start from eitp_sampling_default(). */
typedef struct eitp_sampling {
    double temperature; /* 0 or less: always the most likely token */
    int top_k;          /* keep the k most likely tokens; 0: all */
    double top_p;       /* keep the most likely tokens that add up to this probability; 1: all */
    double min_p;       /* keep tokens with at least this fraction of the largest probability (arXiv 2407.01082);
                           0: all */
    int32_t vocabulary; /* keep token ids below this, if the tokenizer has fewer than the model; 0: all */
    uint64_t seed;
} eitp_sampling;

/* Returns temperature 1, all tokens, seed 0. */
EITP_API eitp_sampling eitp_sampling_default(void);

typedef struct eitp_generator eitp_generator;

/*
 * Prepares generation with a key-value cache for `capacity` tokens, including the prompt. 0: the model's positions,
 * which are also the maximum. EITP_ERROR_UNSUPPORTED for a bidirectional model.
 *
 * A generator is one sequence, such as a conversation. A model can have several, to use in any order. Each has its own
 * cache of 2 * layers * capacity * key_value_heads * head_width values in the context's precision, released with the
 * generator. They share weights and arena, and belong to the context's thread; for several threads see
 * eitp_model_share. Destroy a generator before its model.
 */
EITP_API eitp_status eitp_generator_create(const eitp_model *model, int64_t capacity, eitp_generator **generator,
                                           eitp_error *error);
EITP_API void eitp_generator_destroy(eitp_generator *generator);

/* Clears the cache: the next token fed is the first. */
EITP_API void eitp_generator_reset(eitp_generator *generator);

/* Appends `count` tokens, at least 1, to the sequence; eitp_generator_sample then draws the next one.
   EITP_ERROR_ARGUMENT, with nothing fed, if they exceed eitp_generator_remaining or an id is outside the vocabulary. */
EITP_API eitp_status eitp_generator_feed(eitp_generator *generator, const int32_t *tokens, int64_t count,
                                         eitp_error *error);

/* Returns the number of tokens that can still be fed. */
EITP_API int64_t eitp_generator_remaining(const eitp_generator *generator);

/* Returns the logits after the last token fed: eitp_model_vocabulary values, valid until the next feed, and zeros
   before the first. */
EITP_API const float *eitp_generator_logits(const eitp_generator *generator);

/* Draws the next token from the logits, as a function of the seed and the number of tokens fed. Does not feed it.
   Returns -1 if an argument is NULL. */
EITP_API int32_t eitp_generator_sample(eitp_generator *generator, const eitp_sampling *sampling);

EITP_END_DECLARATIONS

#endif
