/*
 * Models with a latent variable: variational autoencoders of text (Kingma and Welling, arXiv 1312.6114; Bowman et al.,
 * arXiv 1511.06349). An encoder maps an input text to a Gaussian posterior over a few latent units. The decoder, the
 * causal model that the encoder was added to, generates the text from them.
 */
#ifndef EITP_LATENT_H
#define EITP_LATENT_H

#include "model/model.h"

EITP_BEGIN_DECLARATIONS

/* Tokens of the decoder whose embedding gets a projection of the latent variable. */
typedef enum eitp_latent_input {
    EITP_LATENT_PREFIX = 0, /* the first token, which the others attend to */
    EITP_LATENT_ADDED = 1   /* every token */
} eitp_latent_input;

/* Start from eitp_latent_config_default(), then set the encoder. */
typedef struct eitp_latent_config {
    eitp_transformer_config encoder; /* bidirectional; its head is ignored */
    int64_t size;                    /* units of the latent variable; 0: none */
    eitp_latent_input input;
} eitp_latent_config;

/* Returns 32 units, EITP_LATENT_PREFIX, and the configuration of "minilm" without a pooler. */
EITP_API eitp_latent_config eitp_latent_config_default(void);

/*
 * Adds an encoder and the projections of the latent variable to a causal model with a language head, its decoder. The
 * new parameters belong to the model, which initializes, saves, loads, shares and destroys them. The projections are
 * F32 in every precision, in the layout of torch.nn.Linear: "latent.mean" and "latent.log_deviation" (weight [size,
 * encoder width], bias [size]), and "latent.embedding" (weight [decoder width, size]). Call this before the parameters
 * have values.
 *
 * EITP_ERROR_ARGUMENT if the configuration is invalid, the model is bidirectional or has no language head, the encoder
 * is not bidirectional, the encoder has the decoder's architecture (their parameter names would collide), the model
 * already has an encoder or adapters, or its context has graphs.
 */
EITP_API eitp_status eitp_model_add_encoder(eitp_model *model, const eitp_latent_config *config, eitp_error *error);

/* Returns the configuration passed to eitp_model_add_encoder, or size 0 without an encoder. */
EITP_API eitp_latent_config eitp_model_latent_config(const eitp_model *model);

/* Returns the encoder, which belongs to the model, or NULL without an encoder. */
EITP_API eitp_model *eitp_model_encoder(const eitp_model *model);

/* Draws a value z[size] of the latent variable from its prior, the standard normal distribution, as a function of the
   seed. Does nothing if the model has no encoder. */
EITP_API void eitp_model_draw_latent(const eitp_model *model, uint64_t seed, float *z);

/* Sets the latent variable of a generator to z[size] until the next call, and resets the generator. Until the first
   call it is 0. EITP_ERROR_ARGUMENT if the model has no encoder or a value is not finite. */
EITP_API eitp_status eitp_generator_set_latent(eitp_generator *generator, const float *z, eitp_error *error);

EITP_END_DECLARATIONS

#endif
