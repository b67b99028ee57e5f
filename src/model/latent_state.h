/* The latent variable of a model: its members and parameters. */
#ifndef EITP_LATENT_STATE_H
#define EITP_LATENT_STATE_H

#include "base/memory.h"
#include "base/status.h"
#include "model/latent.h"

/* The largest number of units. */
#define EITP__MAX_LATENT_SIZE 4096

typedef struct eitp__latent {
    eitp_model *encoder;
    int64_t size;
    eitp_latent_input input;
} eitp__latent;

/* The first parameter of each projection. Those of the posterior have a bias, which comes next. */
enum { EITP__LATENT_MEAN = 0, EITP__LATENT_LOG_DEVIATION = 2, EITP__LATENT_EMBEDDING = 4, EITP__LATENT_PARAMETERS = 5 };

typedef struct eitp__latent_parameter {
    const char *name;
    int rank;
    int64_t shape[2];
} eitp__latent_parameter;

/* Parameter `index` of a model with a latent variable. */
EITP__PRIVATE eitp__latent_parameter eitp__latent_parameter_at(const eitp_model *model, int index);

/* True for the name of such a parameter. */
EITP__PRIVATE int eitp__latent_has(const char *name);

/* Elements of these parameters; 0 without a latent variable. */
EITP__PRIVATE int64_t eitp__latent_elements(const eitp_model *model);

/* A Gaussian distribution for each sample, F32 [samples, size] each. */
typedef struct eitp__posterior {
    eitp_tensor *mean;
    eitp_tensor *log_deviation; /* natural logarithm of the standard deviation */
} eitp__posterior;

/* Initializes the projections alone: the weights of mean and log_deviation from a uniform distribution between +-1 /
   sqrt(encoder width), as torch.nn.Linear, that of the embedding from a normal one with the decoder's
   initializer_range; biases 0. Does nothing if the model has no encoder. */
EITP__PRIVATE eitp_status eitp__model_initialize_latent(eitp_model *model, uint64_t seed, eitp_error *error);

/* The posterior of each sample: two linear functions of the mean of the encoder's hidden states. `inputs` are those
   of the encoder, with bounds. NULLs if the model has no encoder, or after an error. */
EITP__PRIVATE eitp__posterior eitp__model_posterior(const eitp_model *model, eitp_graph *graph,
                                                    const eitp_model_inputs *inputs, int64_t max_length);

/* mean + deviation * noise, for noise F32 [samples, size]: the reparametrized draw, through which gradients flow. */
EITP__PRIVATE eitp_tensor *eitp__posterior_draw(const eitp__posterior *posterior, eitp_tensor *noise);

/* The Kullback-Leibler divergence from the standard normal distribution in nats, of each unit: F32 [samples, size]. */
EITP__PRIVATE eitp_tensor *eitp__posterior_divergence(const eitp__posterior *posterior);

/* What values z [samples, size] of the latent variable add to the decoder's embeddings: F32 [samples, width]. See
   eitp_latent_input and eitp_model_inputs.added. */
EITP__PRIVATE eitp_tensor *eitp__model_latent_embedding(const eitp_model *model, eitp_tensor *z);

#endif
