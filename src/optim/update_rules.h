/*
 * The update of each optimizer, called by minimize.c. A new optimizer is a file like sgd.c, its declarations here, and
 * an entry of the table in optimizers.c.
 */
#ifndef EITP_UPDATE_RULES_H
#define EITP_UPDATE_RULES_H

#include "optim/update.h"

typedef struct eitp__update_rule {
    /* Sets the piece's sums of squares, from which the norm of the gradient is computed. `before` is the previous
     * piece, NULL for the first. */
    void (*squares)(eitp__update_piece *piece, const eitp__update_piece *before);
    /* Adds nodes that the updates of all pieces of a parameter share, after the norm. May be NULL. */
    void (*prepare)(const eitp_optimizer_config *config, const eitp_update *update, eitp__update_piece *pieces,
                    size_t count);
    /* Adds the update of a piece. Returns the sums of squares of update and parameter, one row for each block. */
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

/* optimizers.c: the rule for parameters with such moments; NULL if no optimizer has them. */
EITP__PRIVATE const eitp__update_rule *eitp__update_rule_of(eitp_moments moments);

#endif
