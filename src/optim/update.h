/* What the updates of all optimizers share: pieces of parameters, and the operands of the nodes that update them. */
#ifndef EITP_UPDATE_STEP_H
#define EITP_UPDATE_STEP_H

#include "optim/optim.h"
#include "tensor/op_rules.h"

/* The states of the optimizers: kinds of children of a parameter, and the beginning of their names in files. */
#define EITP__STATE_M "adamw.m"
#define EITP__STATE_V "adamw.v"
#define EITP__STATE_M_SCALE "adamw.m_scale"
#define EITP__STATE_V_SCALE "adamw.v_scale"
#define EITP__STATE_ROWS "factored.rows"
#define EITP__STATE_COLUMNS "factored.columns"
#define EITP__STATE_DIRECTIONS "factored.directions"
#define EITP__STATE_DIRECTION_M "factored.m"
#define EITP__STATE_VELOCITY "sgd.velocity"

/* Rows [begin, end) of a parameter, and their gradient. */
typedef struct eitp__update_piece {
    eitp_tensor *parameter, *gradient;
    int64_t begin, end;
    double rate_factor;
    eitp_tensor *rate_and_step; /* those of the step, the rate times rate_factor */
    /* Sums of squares of the gradient of this and earlier pieces: by blocks, or by rows of a factored update. */
    eitp_tensor *squares;
    /* Factored updates only, of this and earlier pieces: the squares of the gradient by columns, and its products with
     * the directions of the first moment. */
    eitp_tensor *column_squares, *row_products, *column_products;
    /* Factored updates only, of the whole parameter: the roots of the second moment; and the first moment's correction
     * of the gradient, which is corrections [rows, k] times the directions before the step, old_directions [k,
     * columns]. */
    eitp_tensor *row_roots, *column_roots, *corrections, *old_directions;
} eitp__update_piece;

/* A state variable of a parameter. */
EITP__PRIVATE eitp_tensor *eitp__state_tensor(const eitp_tensor *parameter, const char *kind, eitp_dtype dtype,
                                              int rank, const int64_t *shape);

/* The piece's rows of a variable with the parameter's shape; NULL if it is NULL. */
EITP__PRIVATE eitp_tensor *eitp__piece_of(const eitp__update_piece *piece, eitp_tensor *variable);

/* Appends the blocks of a piece to those of earlier pieces, which may be NULL. */
EITP__PRIVATE eitp_tensor *eitp__append_blocks(eitp_tensor *blocks, eitp_tensor *more);

/* Sums the squares of a piece's gradient by blocks. `before` is the previous piece, NULL for the first. */
EITP__PRIVATE void eitp__sum_piece_squares(eitp__update_piece *piece, const eitp__update_piece *before);

/* Fills in the operands of every update: parameter, gradient, rate_and_step, commit and remainder, which are inputs 0,
   1, 4, 5 and 6, and the attributes of stochastic rounding. Returns the rounding key; NULL: it rounds to nearest. */
EITP__PRIVATE eitp_tensor *eitp__update_operands(const eitp_update *update, const eitp__update_piece *piece,
                                                 eitp_tensor **inputs, eitp__attributes *attributes);

/* True if updates round the parameter stochastically. */
EITP__PRIVATE int eitp__is_rounded(const eitp_tensor *parameter);

EITP__PRIVATE double eitp__weight_decay(const eitp_optimizer_config *config, const eitp_tensor *parameter);

#endif
