/* Parameters of an architecture's rows: declaring them in a context, filling them, using them in a graph. */
#ifndef EITP_PARAMETERS_H
#define EITP_PARAMETERS_H

#include "model/architecture.h"

/* Declares a parameter in the context if it is missing: vectors and adapters in F32, matrices in the context's
   precision, with a remainder if eitp_parameter_form has one. */
EITP__PRIVATE eitp_status eitp__parameter_declare(eitp_context *context, const eitp__parameter *parameter,
                                                  eitp_error *error);

/* Fills a parameter with random values, ones or zeros, according to its row. */
EITP__PRIVATE eitp_status eitp__parameter_fill(eitp_context *context, const eitp_transformer_config *config,
                                               const eitp__parameter *parameter, uint64_t seed, eitp_error *error);

/* Returns the parameter as a tensor of a graph, and declares it if it is missing. */
EITP__PRIVATE eitp_tensor *eitp__parameter_tensor(eitp_graph *graph, const eitp__parameter *parameter);

#endif
