/* The table of optimizers. A new optimizer is an entry of it, and a rule of the slot UPDATE if none computes it. */
#ifndef EITP_OPTIMIZERS_H
#define EITP_OPTIMIZERS_H

#include "optim/update.h"

/* factored.c */
EITP__PRIVATE void eitp__factored_squares(eitp__update_piece *piece, const eitp__update_piece *before);
EITP__PRIVATE void eitp__factored_prepare(const eitp_optimizer_config *config, const eitp_update *update,
                                          eitp__update_piece *pieces, size_t count);

typedef struct eitp__optimizer {
    eitp_optimizer_info info;
    const eitp__update_method *matrices, *vectors; /* parameters of two or more dimensions, and of one or none */
} eitp__optimizer;

/* optimizers.c: NULL if the optimizer is unknown. */
EITP__PRIVATE const eitp__optimizer *eitp__optimizer_row(eitp_optimizer optimizer);

#endif
