/* Models: a configuration becomes parameters and a graph; and generation from them. */
#ifndef EITP_MODEL_H
#define EITP_MODEL_H

#include "tensor/tensor.h"

EITP_BEGIN_DECLARATIONS

/* GPT-2 (Radford et al., "Language Models are Unsupervised Multitask Learners", 2019). */
typedef struct eitp_gpt2_config {
    int64_t vocabulary;
    int64_t positions; /* the longest sequence */
    int64_t width;
    int64_t heads;
    int64_t layers;
    int64_t inner; /* width of the MLP's hidden layer */
    eitp_activation activation;
    double epsilon; /* of the layer norms */
    double embedding_dropout, attention_dropout, residual_dropout;
    double initializer_range;     /* standard deviation of random weights */
    int scale_attention;          /* by 1 / sqrt(width / heads) */
    int scale_attention_by_layer; /* and by 1 / (layer + 1) */
    int tied;                     /* the output head is the token embedding */
} eitp_gpt2_config;

/*
 * "gpt2" (124M parameters), "gpt2-medium", "gpt2-large", "gpt2-xl", "distilgpt2", and "tiny" (4 layers of 128), all
 * with the vocabulary of 50257 tokens.
 */
EITP_API eitp_status eitp_gpt2_config_named(const char *name, eitp_gpt2_config *config, eitp_error *error);

/* Reads a Hugging Face config.json; what it asks for and eitp has not is an error that names it. */
EITP_API eitp_status eitp_gpt2_config_read(const eitp_host *host, const char *path, eitp_gpt2_config *config,
                                           eitp_error *error);

/* Writes the configuration as a config.json, which eitp_gpt2_config_read and Hugging Face's transformers read. */
EITP_API eitp_status eitp_gpt2_config_write(const eitp_host *host, const char *path, const eitp_gpt2_config *config,
                                            int32_t end_of_text, eitp_dtype dtype, eitp_error *error);

typedef struct eitp_model eitp_model;

/*
 * Declares the parameters in the context, matrices in its precision; they have no values yet. The model must be
 * destroyed before the context.
 */
EITP_API eitp_status eitp_gpt2_create(eitp_context *context, const eitp_gpt2_config *config, eitp_model **model,
                                      eitp_error *error);
EITP_API void eitp_model_destroy(eitp_model *model);

EITP_API eitp_gpt2_config eitp_model_config(const eitp_model *model);
EITP_API eitp_context *eitp_model_context(const eitp_model *model);
EITP_API int64_t eitp_model_parameter_count(const eitp_model *model);

/* Changes the dropout probabilities of graphs that are built from now on; each must be 0 or more and below 1. */
EITP_API eitp_status eitp_model_set_dropout(eitp_model *model, double embedding, double attention, double residual,
                                            eitp_error *error);

/*
 * Random weights: matrices and embeddings normal with the configuration's initializer_range, those that write to the
 * residual stream divided by sqrt(2 * layers) as the paper says, gains 1, biases 0.
 */
EITP_API eitp_status eitp_model_initialize(eitp_model *model, uint64_t seed, eitp_error *error);

/* The inputs of a language model's graph; n is the capacity of its rows. */
typedef struct eitp_model_inputs {
    eitp_tensor *tokens;    /* I32 [n], rows */
    eitp_tensor *positions; /* I32 [n], rows: the place of each token in its sequence */
    eitp_tensor *offsets;   /* I32 [sequences + 1]: see eitp_attention */
    eitp_tensor *key;       /* I64 [3]: see eitp_dropout; NULL: no dropout */
} eitp_model_inputs;

/* Makes these inputs: `sequences` sequences of at most `longest` tokens; with_key adds the dropout key. */
EITP_API eitp_model_inputs eitp_model_inputs_create(eitp_graph *graph, int64_t sequences, int64_t longest,
                                                    int with_key);

/* Adds the model to a graph: logits F32 [n, vocabulary]. */
EITP_API eitp_tensor *eitp_model_forward(const eitp_model *model, eitp_graph *graph, const eitp_model_inputs *inputs,
                                         int64_t longest);

/* The same with the loss of each row, F32 [n], in nats, for targets I32 [n]: see eitp_linear_cross_entropy. */
EITP_API eitp_tensor *eitp_model_losses(const eitp_model *model, eitp_graph *graph, const eitp_model_inputs *inputs,
                                        int64_t longest, eitp_tensor *targets, int32_t ignored);

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
EITP_API int64_t eitp_generator_room(const eitp_generator *generator);

/* The logits after the last token fed: `vocabulary` values, valid until the next feed. */
EITP_API const float *eitp_generator_logits(const eitp_generator *generator);

/* Draws a token from them; a function of the seed and the number of tokens fed. */
EITP_API int32_t eitp_generator_sample(eitp_generator *generator, const eitp_sampling *sampling);

EITP_END_DECLARATIONS

#endif
