/* The latent variable of a model: its members and parameters. */
#ifndef EITP_LATENT_STATE_H
#define EITP_LATENT_STATE_H

#include "base/memory.h"
#include "base/status.h"
#include "model/latent.h"

/* Maximum number of units. */
#define EITP__MAX_LATENT_SIZE 4096

typedef struct eitp__latent {
    eitp_model *encoder;
    int64_t size;
    eitp_latent_input input;
} eitp__latent;

/* Index of each projection's weight. The weights of the posterior are followed by their biases. */
enum { EITP__LATENT_MEAN = 0, EITP__LATENT_LOG_DEVIATION = 2, EITP__LATENT_EMBEDDING = 4, EITP__LATENT_PARAMETERS = 5 };

typedef struct eitp__latent_parameter {
    const char *name;
    int rank;
    int64_t shape[2];
} eitp__latent_parameter;

/* Returns parameter `index` of a model with a latent variable. */
EITP__PRIVATE eitp__latent_parameter eitp__latent_parameter_at(const eitp_model *model, int index);

/* True if a parameter of the latent variable has this name. */
EITP__PRIVATE int eitp__latent_has(const char *name);

/* Returns the number of elements of these parameters, or 0 without a latent variable. */
EITP__PRIVATE int64_t eitp__latent_elements(const eitp_model *model);

/* A Gaussian distribution for each sample. Both tensors are F32 [samples, size]. */
typedef struct eitp__posterior {
    eitp_tensor *mean;
    eitp_tensor *log_deviation; /* natural logarithm of the standard deviation */
} eitp__posterior;

/* Initializes the projections only. The weights of mean and log_deviation are uniform in +-1 / sqrt(encoder width), as
   in torch.nn.Linear. The weight of the embedding is normal with the decoder's initializer_range. Biases are 0. Does
   nothing if the model has no encoder. */
EITP__PRIVATE eitp_status eitp__model_initialize_latent(eitp_model *model, uint64_t seed, eitp_error *error);

/* Returns the posterior of each sample: two linear functions of the mean of the encoder's hidden states. `inputs` are
   the encoder's, with bounds. The tensors are NULL if the model has no encoder, or after an error. */
EITP__PRIVATE eitp__posterior eitp__model_posterior(const eitp_model *model, eitp_graph *graph,
                                                    const eitp_model_inputs *inputs, int64_t max_length);

/* Returns mean + deviation * noise, for noise F32 [samples, size]: the reparametrized draw, through which gradients
   flow. */
EITP__PRIVATE eitp_tensor *eitp__posterior_draw(const eitp__posterior *posterior, eitp_tensor *noise);

/* Returns the Kullback-Leibler divergence from the standard normal distribution in nats per unit, F32 [samples,
   size]. */
EITP__PRIVATE eitp_tensor *eitp__posterior_divergence(const eitp__posterior *posterior);

/* Returns the projection of values z [samples, size] of the latent variable that is added to the decoder's embeddings:
   F32 [samples, width]. See eitp_latent_input and eitp_model_inputs.added. */
EITP__PRIVATE eitp_tensor *eitp__model_latent_embedding(const eitp_model *model, eitp_tensor *z);

#endif
