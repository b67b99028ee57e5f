/*
 * How each optimizer updates a parameter. A new one is a file beside sgd.c, its functions below, and an entry of the
 * table in optimizers.c; minimize.c calls them.
 */
#ifndef EITP_UPDATE_RULES_H
#define EITP_UPDATE_RULES_H

#include "optim/update.h"

typedef struct eitp__update_rule {
    /* Sets the piece's sums of squares, which the norm of the gradient follows from; `before` is the piece before it,
     * NULL for a parameter's first. */
    void (*squares)(eitp__update_piece *piece, const eitp__update_piece *before);
    /* Adds what the updates of all pieces of one parameter share, after the norm; NULL: nothing. */
    void (*prepare)(const eitp_optimizer_config *config, const eitp_update *update, eitp__update_piece *pieces,
                    size_t count);
    /* Adds the update of one piece; returns the sums of squares of update and parameter, a row for each block. */
    eitp_tensor *(*node)(const eitp_optimizer_config *config, const eitp_update *update,
                         const eitp__update_piece *piece);
} eitp__update_rule;

/* adamw.c */
EITP__PRIVATE eitp_tensor *eitp__adamw_node(const eitp_optimizer_config *config, const eitp_update *update,
                                            const eitp__update_piece *piece);

/* factored.c */
EITP__PRIVATE void eitp__factored_squares(eitp__update_piece *piece, const eitp__update_piece *before);
EITP__PRIVATE void eitp__factored_means(const eitp_optimizer_config *config, const eitp_update *update,
                                        eitp__update_piece *pieces, size_t count);
EITP__PRIVATE eitp_tensor *eitp__factored_node(const eitp_optimizer_config *config, const eitp_update *update,
                                               const eitp__update_piece *piece);

/* sgd.c */
EITP__PRIVATE eitp_tensor *eitp__sgd_node(const eitp_optimizer_config *config, const eitp_update *update,
                                          const eitp__update_piece *piece);

/* optimizers.c: how parameters with such moments are updated; NULL if no optimizer has them. */
EITP__PRIVATE const eitp__update_rule *eitp__update_rule_of(eitp_moments moments);

#endif
