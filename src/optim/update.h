/* What the files of an optimizer's step share: pieces of parameters, and the operands of the nodes that update them. */
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
    /* Sums of squares of the gradient up to this piece: of blocks of it, or of rows where the update is factored. */
    eitp_tensor *squares;
    /* Of a factored update: the squares of the gradient by columns, and its products with the directions of the first
     * moment, up to this piece; the roots of the second moment, and what the first changes, of the whole parameter. */
    eitp_tensor *column_squares, *row_products, *column_products;
    eitp_tensor *row_roots, *column_roots, *moved, *along;
} eitp__update_piece;

/* A variable of the optimizer for a parameter, "<family>.<what>.<name>". */
EITP__PRIVATE eitp_tensor *eitp__state_tensor(const eitp_tensor *parameter, const char *family, const char *what,
                                              eitp_dtype dtype, int rank, const int64_t *shape);

/* The piece's rows of a variable that has the parameter's shape; NULL of NULL. */
EITP__PRIVATE eitp_tensor *eitp__piece_of(const eitp__update_piece *piece, eitp_tensor *variable);

/* Appends the blocks of a piece to those of the pieces before it, which may be NULL. */
EITP__PRIVATE eitp_tensor *eitp__append_blocks(eitp_tensor *blocks, eitp_tensor *more);

/* Sums the squares of a piece's gradient by blocks; `before` is the piece before it, NULL for a parameter's first. */
EITP__PRIVATE void eitp__sum_piece_squares(eitp__update_piece *piece, const eitp__update_piece *before);

/* Fills in what every update of a piece is given: parameter, gradient, hyper, commit and remainder, which are inputs 0,
 * 1, 4, 5 and 6, and how it is rounded; returns the key, or NULL where it is not. */
EITP__PRIVATE eitp_tensor *eitp__update_operands(const eitp_update *update, const eitp__update_piece *piece,
                                                 eitp_tensor **inputs, eitp__attributes *attributes);

/* True if the parameter is rounded stochastically. */
EITP__PRIVATE int eitp__is_rounded(const eitp_tensor *parameter);

EITP__PRIVATE double eitp__weight_decay(const eitp_optimizer_config *config, const eitp_tensor *parameter);

#endif
