/* The values of the latent variable from which text is generated. */
#ifndef COMMAND_USE_LATENT_H
#define COMMAND_USE_LATENT_H

#include "use/trained_model.h"

EITP_BEGIN_DECLARATIONS

typedef struct latent_values {
    int64_t units;  /* of the model; 0: no latent variable */
    float *means;   /* [2][units]: for --reconstruct, or for both inputs of --interpolate; NULL: drawn from the prior */
    int64_t points; /* of --interpolate; else 0 */
    float *z;       /* [units] */
} latent_values;

/* Fails if the options are inconsistent. */
eitp_status latent_check(const option_set *o, eitp_error *error);

/* Computes the means. Fails if they are requested and the model has no latent variable. `text` is the input of
   --reconstruct. Release the values in any case. */
eitp_status latent_open(latent_values *values, const option_set *o, const trained_model *m, const char *text,
                        size_t size, eitp_error *error);
void latent_release(latent_values *values);

/* Passes the latent value of sample `number` to the generator; from the prior it is drawn with `seed`. Does nothing
   without a latent variable. */
eitp_status latent_set(latent_values *values, const trained_model *m, eitp_generator *generator, int64_t number,
                       uint64_t seed, eitp_error *error);

/* Returns the number of samples to generate: the points of --interpolate, else --samples. */
int64_t latent_samples(const latent_values *values, const option_set *o);

/* True if the latent value is given, so that the default is to take the most likely tokens. */
int latent_is_known(const latent_values *values);

EITP_END_DECLARATIONS

#endif
