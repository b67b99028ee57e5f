/* The values of the latent variable that texts are generated from. */
#ifndef COMMAND_USE_LATENT_H
#define COMMAND_USE_LATENT_H

#include "use/trained_model.h"

EITP_BEGIN_DECLARATIONS

typedef struct latent_values {
    int64_t units;  /* of the model; 0: it has no latent variable */
    float *means;   /* [2][units]: of --reconstruct, or of both texts of --interpolate; NULL: drawn from the prior */
    int64_t points; /* of --interpolate; else 0 */
    float *z;       /* [units] */
} latent_values;

/* Fails if the options do not fit each other. */
eitp_status latent_check(const option_set *o, eitp_error *error);

/* Computes means; fails if they are asked for and the model has no latent variable. `text` is that of --reconstruct.
   Release the values in any case. */
eitp_status latent_open(latent_values *values, const option_set *o, const trained_model *m, const char *text,
                        size_t size, eitp_error *error);
void latent_release(latent_values *values);

/* Gives the generator the value of sample `number`; a prior is drawn with `seed`. Without one nothing happens. */
eitp_status latent_set(latent_values *values, const trained_model *m, eitp_generator *generator, int64_t number,
                       uint64_t seed, eitp_error *error);

/* Texts to generate: the points of --interpolate, else --samples. */
int64_t latent_samples(const latent_values *values, const option_set *o);

/* True if the likeliest tokens are wanted unless --temperature says otherwise. */
int latent_is_known(const latent_values *values);

EITP_END_DECLARATIONS

#endif
