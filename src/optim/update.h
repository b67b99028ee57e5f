/* What the files of an optimizer's step share: pieces of parameters, and the nodes that update them. */
#ifndef EITP_UPDATE_STEP_H
#define EITP_UPDATE_STEP_H

#include "optim/optim.h"
#include "tensor/op_rules.h"

/* Room for the name of a state. */
#define EITP__STATE_NAME 256

/* Rows [begin, end) of a parameter, and their gradient. */
typedef struct eitp__update_piece {
    eitp_tensor *parameter, *gradient;
    int64_t begin, end;
    /* Of a factored update: the squares of the gradient by rows and columns, and its products with the directions of
     * the first moment, up to this piece; the roots of the second moment, and what the first changes, of the whole
     * parameter. */
    eitp_tensor *row_squares, *column_squares, *row_products, *column_products;
    eitp_tensor *row_roots, *column_roots, *moved, *along;
} eitp__update_piece;

typedef struct eitp__update_pieces {
    const eitp_host *host;
    eitp__update_piece *pieces;
    size_t count, capacity;
} eitp__update_pieces;

/* update.c */

/* A variable of the optimizer for a parameter, "<family>.<what>.<name>". */
EITP__PRIVATE eitp_tensor *eitp__state_tensor(const eitp_tensor *parameter, const char *family, const char *what,
                                              eitp_dtype dtype, int rank, const int64_t *shape);

/* The piece's rows of a variable that has the parameter's shape; NULL of NULL. */
EITP__PRIVATE eitp_tensor *eitp__piece_of(const eitp__update_piece *piece, eitp_tensor *variable);

/* Appends the blocks of a piece to those of the pieces before it, which may be NULL. */
EITP__PRIVATE eitp_tensor *eitp__append_blocks(eitp_tensor *blocks, eitp_tensor *more);

/* Fills in what every update of a piece is given: parameter, gradient, hyper, commit and remainder, which are inputs 0,
 * 1, 4, 5 and 6, and how it is rounded; returns the key, or NULL where it is not. */
EITP__PRIVATE eitp_tensor *eitp__update_operands(const eitp_update *update, const eitp__update_piece *piece,
                                                 eitp_tensor **inputs, eitp__attributes *attributes);

EITP__PRIVATE double eitp__weight_decay(const eitp_adamw_config *config, const eitp_tensor *parameter);

/* adamw.c: adds the update of one piece; returns the sums of squares of update and parameter, a row for each block. */
EITP__PRIVATE eitp_tensor *eitp__adamw_node(const eitp_adamw_config *config, const eitp_update *update,
                                            const eitp__update_piece *piece);

/* factored.c: is the parameter's second moment factored? That of vectors is not. */
EITP__PRIVATE int eitp__is_factored(const eitp_adamw_config *config, const eitp_tensor *parameter);

/* Adds a piece's gradient to the squares of the pieces before it (NULL: there are none); returns what adds
 * up to the sum of squares of all of them. */
EITP__PRIVATE eitp_tensor *eitp__factored_squares(eitp__update_piece *piece, const eitp__update_piece *before);

/* Moves the means of all parameters, and lets the pieces have the roots that follow from them. */
EITP__PRIVATE void eitp__factored_means(const eitp_adamw_config *config, const eitp_update *update,
                                        const eitp__update_pieces *list);

EITP__PRIVATE eitp_tensor *eitp__factored_node(const eitp_adamw_config *config, const eitp_update *update,
                                               const eitp__update_piece *piece);

/* sgd.c */
EITP__PRIVATE eitp_tensor *eitp__sgd_node(const eitp_adamw_config *config, const eitp_update *update,
                                          const eitp__update_piece *piece);

#endif
