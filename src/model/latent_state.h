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

#endif
