/* Models: a configuration becomes parameters and a graph; and generation from them. */
#ifndef EITP_MODEL_H
#define EITP_MODEL_H

#include "tensor/tensor.h"

EITP_BEGIN_DECLARATIONS

/* The largest number of ids that a configuration has for one part, such as ending a text. */
#define EITP_MAX_TOKEN_IDS 16

/* Token ids; zero-initialised: none. */
typedef struct eitp_token_ids {
    int32_t count;
    int32_t ids[EITP_MAX_TOKEN_IDS];
} eitp_token_ids;

/*
 * A family of models: the parameters' names and layout in files, the keys of its config.json, defaults, and whether it
 * has norms of embeddings or before the head. Today "gpt2" alone.
 */
typedef struct eitp_architecture eitp_architecture;

/* The architecture of config.json's model_type; NULL: unknown. It need not be released. And its model_type. */
EITP_API const eitp_architecture *eitp_architecture_find(const char *model_type);
EITP_API const char *eitp_architecture_name(const eitp_architecture *architecture);

/* A Transformer (Vaswani et al., arXiv 1706.03762). */
typedef struct eitp_transformer_config {
    const eitp_architecture *architecture; /* NULL: GPT-2's */
    int64_t vocabulary;
    int64_t positions; /* the longest sequence */
    int64_t width;
    int64_t heads;
    int64_t layers;
    int64_t inner;    /* width of the MLP's hidden layer */
    int64_t segments; /* kinds of tokens that are told apart by an embedding, as of BERT; 0: none, as of GPT-2 */
    eitp_activation activation;
    double epsilon; /* of the layer norms */
    double embedding_dropout, attention_dropout, residual_dropout;
    double initializer_range;     /* standard deviation of random weights */
    int scale_attention;          /* by 1 / sqrt(width / heads) */
    int scale_attention_by_layer; /* and by 1 / (layer + 1) */
    int tied;                     /* the output head is the token embedding */
    int post_norm;     /* norms after the residual sums, as of BERT; 0: before attention and MLP, as of GPT-2 */
    int bidirectional; /* every token attends to its whole sequence; 0: to itself and what is before */
    /* For programs that generate: what begins a text, each of what ends it, and what fills a batch. Ids that are not in
       the vocabulary stand for nothing. */
    eitp_token_ids begin, end, padding;
} eitp_transformer_config;

/*
 * "gpt2" (124M parameters), "gpt2-medium", "gpt2-large", "gpt2-xl", "distilgpt2", and "tiny" (4 layers of 128), all
 * with the vocabulary of 50257 tokens.
 */
EITP_API eitp_status eitp_transformer_config_named(const char *name, eitp_transformer_config *config,
                                                   eitp_error *error);

/* Tokens of the longest sequence that a model of this configuration takes; 0 for NULL. */
EITP_API int64_t eitp_transformer_config_positions(const eitp_transformer_config *config);

/* Reads a Hugging Face config.json of a supported model_type (missing: "gpt2"). What eitp cannot compute is an error
   that names the member. */
EITP_API eitp_status eitp_transformer_config_read(const eitp_host *host, const char *path,
                                                  eitp_transformer_config *config, eitp_error *error);

/*
 * Writes the configuration as a config.json, which eitp_transformer_config_read and Hugging Face's transformers read.
 * `end_of_text` takes the place of the configuration's special tokens, unless it is one of those that end a text; -1:
 * they are written as they are. EITP_ERROR_UNSUPPORTED where the architecture's config.json has no key for post_norm
 * or bidirectional and they are not its own.
 */
EITP_API eitp_status eitp_transformer_config_write(const eitp_host *host, const char *path,
                                                   const eitp_transformer_config *config, int32_t end_of_text,
                                                   eitp_dtype dtype, eitp_error *error);

typedef struct eitp_model eitp_model;

/*
 * Declares the parameters in the context, matrices in its precision; they have no values yet. The model must be
 * destroyed before the context.
 */
EITP_API eitp_status eitp_model_create(eitp_context *context, const eitp_transformer_config *config, eitp_model **model,
                                       eitp_error *error);
EITP_API void eitp_model_destroy(eitp_model *model);

/* As it was made; its architecture is never NULL. */
EITP_API eitp_transformer_config eitp_model_config(const eitp_model *model);

EITP_API eitp_context *eitp_model_context(const eitp_model *model);

/* Token ids are below the vocabulary, sequences have at most so many positions; 0 for NULL. */
EITP_API int64_t eitp_model_vocabulary(const eitp_model *model);
EITP_API int64_t eitp_model_positions(const eitp_model *model);

/* True if training it draws random numbers: some dropout, that of adapters included, is above 0. */
EITP_API int eitp_model_has_dropout(const eitp_model *model);

/*
 * Sets the special tokens of the model's configuration to a tokenizer's ids, -1 where it has none. Several ids that end
 * a text stay where `end` is one of them. Where it is not, the ids were another tokenizer's and are replaced: there is
 * then no padding unless it is given, and a text begins with `end`, as in GPT-2, unless `begin` is given.
 */
EITP_API void eitp_model_set_special_tokens(eitp_model *model, int32_t begin, int32_t end, int32_t padding);

/* Elements of the configuration's parameters, without adapters. */
EITP_API int64_t eitp_model_parameter_count(const eitp_model *model);

/* Changes the dropout probabilities of graphs that are built from now on; each must be 0 or more and below 1. */
EITP_API eitp_status eitp_model_set_dropout(eitp_model *model, double embedding, double attention, double residual,
                                            eitp_error *error);

/*
 * Random weights: matrices and embeddings normal with the configuration's initializer_range, those that write to the
 * residual stream divided by sqrt(2 * layers) as the paper says, gains 1, biases 0.
 */
EITP_API eitp_status eitp_model_initialize(eitp_model *model, uint64_t seed, eitp_error *error);

/* ---- Adapters and freezing ---- */

/* Linear layers of a block, which adapters may go to; in comments the names that GPT-2 has for them. */
typedef enum eitp_lora_target {
    EITP_LORA_ATTENTION_INPUT = 1,  /* q, k and v: "attn.c_attn" */
    EITP_LORA_ATTENTION_OUTPUT = 2, /* "attn.c_proj" */
    EITP_LORA_MLP_INPUT = 4,        /* "mlp.c_fc" */
    EITP_LORA_MLP_OUTPUT = 8        /* "mlp.c_proj" */
} eitp_lora_target;

/* Low-rank adaptation (Hu et al., "LoRA", arXiv 2106.09685). */
typedef struct eitp_lora_config {
    int64_t rank;     /* 0: no adapters */
    double alpha;     /* what adapters add is scaled by alpha / rank, */
    int rslora;       /* or by alpha / sqrt(rank) (Kalajdzievski, arXiv 2312.03732) */
    double dropout;   /* of what goes into adapters, in training */
    unsigned targets; /* sum of eitp_lora_target */
} eitp_lora_config;

/* PEFT's for GPT-2: rank 8, alpha 8, no dropout, the attention's input. */
EITP_API eitp_lora_config eitp_lora_config_default(void);

/*
 * Targets from names separated by commas, which are ends of an architecture's names of layers as in PEFT: of GPT-2,
 * "c_proj" is both attn.c_proj and mlp.c_proj. "all-linear" is every linear layer. `architecture` is that of the
 * model's configuration; NULL: the first that has all of the names.
 */
EITP_API eitp_status eitp_lora_targets_parse(const eitp_architecture *architecture, const char *names,
                                             unsigned *targets, eitp_error *error);

/* The shortest names of targets, into a text of at least 40 bytes. `architecture` NULL: GPT-2's. */
EITP_API void eitp_lora_targets_format(const eitp_architecture *architecture, unsigned targets, char *names,
                                       size_t size);

/*
 * Gives each target layer x W + b the term scale * dropout(x) A^T B^T, and freezes all other parameters. A [rank, in]
 * and B [out, rank] are parameters in F32, called "<layer>.lora_A.weight" and "<layer>.lora_B.weight". In 16-bit
 * precision they are rounded to it for the products, and so is the sum; their gradients are F32. The context must have
 * no graphs. Before the model has values, this also saves the memory of what its 16-bit parameters would keep for
 * training.
 */
EITP_API eitp_status eitp_model_add_lora(eitp_model *model, const eitp_lora_config *config, eitp_error *error);

/* A uniform in +-1 / sqrt(in), as PEFT draws it, a function of seed and name; B zero: the model computes what it did
 * without. */
EITP_API eitp_status eitp_model_initialize_lora(eitp_model *model, uint64_t seed, eitp_error *error);

/* The adapters there are; rank 0: none. */
EITP_API eitp_lora_config eitp_model_lora_config(const eitp_model *model);

/*
 * Adds what the adapters add to the weights themselves, W = W + scale (B A)^T summed in f64 and rounded once, and
 * zeroes B: the model computes the same to rounding, in graphs that are there too. Merge in fp32: weights of 16 bits
 * are rounded to 16 again.
 */
EITP_API eitp_status eitp_model_merge_lora(eitp_model *model, eitp_error *error);

/*
 * Freezes parameters (see eitp_variable_set_trained), named by words separated by commas: "embeddings" (all before the
 * first block: of tokens, which a tied head shares, and positions), "layers:N" (the first N blocks), or a parameter's
 * name, with or without the architecture's prefix ("transformer."), in which "*" stands for any text. Each word must
 * name at least one; on failure nothing is frozen.
 */
EITP_API eitp_status eitp_model_freeze(eitp_model *model, const char *parts, eitp_error *error);

/* Elements of the parameters that are trained, adapters included. */
EITP_API int64_t eitp_model_trained_parameter_count(const eitp_model *model);

/* The inputs of a language model's graph; n is the capacity of its rows. */
typedef struct eitp_model_inputs {
    eitp_tensor *tokens;    /* I32 [n], rows */
    eitp_tensor *positions; /* I32 [n], rows: the place of each token in its sequence */
    eitp_tensor *offsets;   /* I32 [sequences + 1]: see eitp_attention */
    eitp_tensor *key;       /* I64 [3]: see eitp_dropout; NULL: no dropout */
    /* The distinct tokens of a step, I32 [u], and the place of each token among them, I32 [n], rows, of a model that is
     * trained in several passes a step: see eitp_embedding_unique. NULL: not */
    eitp_tensor *unique, *inverse;
    eitp_tensor
        *segments; /* I32 [n], rows: the kind of each token, of a model with segments; NULL: all are of kind 0 */
} eitp_model_inputs;

/* Makes these inputs: `sequences` sequences of at most `longest` tokens; with_key adds the dropout key. */
EITP_API eitp_model_inputs eitp_model_inputs_create(eitp_graph *graph, int64_t sequences, int64_t longest,
                                                    int with_key);

/* Adds the model to a graph: the hidden states [n, width] after the last norm. */
EITP_API eitp_tensor *eitp_model_hidden(const eitp_model *model, eitp_graph *graph, const eitp_model_inputs *inputs,
                                        int64_t longest);

/* The output head on hidden states, or on some rows of them: logits F32 [n, vocabulary]. */
EITP_API eitp_tensor *eitp_model_logits(const eitp_model *model, eitp_tensor *hidden);

/* eitp_model_logits of eitp_model_hidden. */
EITP_API eitp_tensor *eitp_model_forward(const eitp_model *model, eitp_graph *graph, const eitp_model_inputs *inputs,
                                         int64_t longest);

/* The same with the loss of each row, F32 [n], in nats, for targets I32 [n]: see eitp_linear_cross_entropy. */
EITP_API eitp_tensor *eitp_model_losses(const eitp_model *model, eitp_graph *graph, const eitp_model_inputs *inputs,
                                        int64_t longest, eitp_tensor *targets, int32_t ignored);

/* ---- Blocks, for models of your own ---- */

/* How rows attend in a block. Zero-initialise it and fill in what is there. */
typedef struct eitp_block_inputs {
    int64_t longest;      /* rows that a sequence may have */
    eitp_tensor *offsets; /* I32 [sequences + 1]: see eitp_attention */
    eitp_tensor *lengths; /* I32 [sequences]: see eitp_attention; NULL: sequences have no padding */
    eitp_tensor *key;     /* I64 [3]: see eitp_dropout; NULL: no dropout */
    /* I32 [1], instead of offsets: the place in one sequence of row 0. Rows attend to those before them in a cache too,
     * the variables "cache.<layer>.keys" and ".values", which they are added to: see eitp_attention_cached. */
    eitp_tensor *position;
    /* Adapters of its linear layers; NULL: none. What they are added to stays trained unless the program freezes it:
     * see eitp_variable_set_trained. */
    const eitp_lora_config *lora;
} eitp_block_inputs;

/*
 * One block of a Transformer: x [n, width] through attention and MLP, each with its residual sum, dropout and norm. Its
 * parameters are variables of the context called "<name>.<the architecture's name>", such as "encoder.0.ln_1.weight",
 * matrices in the context's precision; those that are not there yet are declared, without values. `name` has at most 64
 * characters; `layer`, from 0, matters for scale_attention_by_layer and the cache alone. NULL if an argument is NULL or
 * refused: see eitp_graph_status.
 */
EITP_API eitp_tensor *eitp_block(eitp_tensor *x, const eitp_transformer_config *config, const char *name, int64_t layer,
                                 const eitp_block_inputs *inputs);

/* Gives the parameters of a block, without adapters, the values that eitp_model_initialize gives those of these names;
 * declares them if they are not there yet. */
EITP_API eitp_status eitp_block_initialize(eitp_context *context, const eitp_transformer_config *config,
                                           const char *name, uint64_t seed, eitp_error *error);

/* ---- Generation ---- */

typedef struct eitp_sampling {
    double temperature; /* 0: always the likeliest token */
    int top_k;          /* only the k likeliest; 0: all */
    double top_p;       /* only the likeliest that together have this probability; 1: all */
    int32_t vocabulary; /* only tokens below this, where the tokenizer has fewer than the model; 0: all */
    uint64_t seed;
} eitp_sampling;

EITP_API eitp_sampling eitp_sampling_default(void);

typedef struct eitp_generator eitp_generator;

/* Prepares generation with a key-value cache of `capacity` tokens, prompt included (0: the model's positions). */
EITP_API eitp_status eitp_generator_create(const eitp_model *model, int64_t capacity, eitp_generator **generator,
                                           eitp_error *error);
EITP_API void eitp_generator_destroy(eitp_generator *generator);

/* Forgets everything fed so far. */
EITP_API void eitp_generator_reset(eitp_generator *generator);

/* Feeds tokens; afterwards eitp_generator_sample gives what follows them. More than the capacity in all is an error. */
EITP_API eitp_status eitp_generator_feed(eitp_generator *generator, const int32_t *tokens, int64_t count,
                                         eitp_error *error);

/* Room for further tokens. */
EITP_API int64_t eitp_generator_remaining(const eitp_generator *generator);

/* The logits after the last token fed: `vocabulary` values, valid until the next feed. */
EITP_API const float *eitp_generator_logits(const eitp_generator *generator);

/* Draws a token from them; a function of the seed and the number of tokens fed. -1 where an argument is NULL. */
EITP_API int32_t eitp_generator_sample(eitp_generator *generator, const eitp_sampling *sampling);

EITP_END_DECLARATIONS

#endif
