/* Updates of parameters in pieces, by the method of an optimizer. */
#ifndef EITP_UPDATE_STEP_H
#define EITP_UPDATE_STEP_H

#include "optim/optim.h"
#include "tensor/op_rules.h"

typedef struct eitp__update_piece eitp__update_piece;

/* Content of a state. Runs that switch optimizers use it to carry state over. */
typedef enum eitp__state_content {
    EITP__STATE_OWN,    /* specific to the optimizer: starts at zero after a switch */
    EITP__STATE_MEAN,   /* the running mean of the gradient */
    EITP__STATE_SUM,    /* the sum of gradients that decay by beta1: the mean times 1 / (1 - beta1) */
    EITP__STATE_SQUARES /* the running mean of the gradient's square */
} eitp__state_content;

/* A state of a parameter. Scales have the same content as their codes. */
typedef struct eitp__state_info {
    const char *kind; /* kind of the child variable, and prefix of its name in files; NULL ends the list */
    eitp__state_form form;
    eitp__state_content content;
} eitp__state_info;

/* An optimizer's method of updating a parameter. */
typedef struct eitp__update_method {
    eitp__update_rule rule;
    eitp__state_info states[EITP__UPDATE_STATES];
    /* Sets the piece's sums of squares, from which the norm of the gradient is computed. `before` is the previous
       piece, or NULL for the first. */
    void (*squares)(eitp__update_piece *piece, const eitp__update_piece *before);
    /* Adds nodes shared by the updates of all pieces of a parameter, after the norm, and sets the states that the
       updates read. NULL: the updates read the variables. */
    void (*prepare)(const eitp_optimizer_config *config, const eitp_update *update, eitp__update_piece *pieces,
                    size_t count);
} eitp__update_method;

/* Rows [begin, end) of a parameter, and their gradient. */
struct eitp__update_piece {
    const eitp__update_method *method;
    eitp_tensor *parameter, *gradient;
    eitp_tensor *regularizer; /* gradient of regularizers, which is capped before it is added; NULL: none */
    int64_t begin, end;
    double rate_factor;
    eitp_tensor *rate_and_step; /* the step's, with the rate times rate_factor */
    /* Sums of squares of the gradient in this and earlier pieces: by blocks, or by rows in a factored update. */
    eitp_tensor *squares;
    eitp_tensor *sum; /* sum of `squares`, in the last piece of a parameter */
    /* Factored updates only, for this and earlier pieces: squares of the gradient by columns, and its products with the
       directions of the first moment. */
    eitp_tensor *column_squares, *row_products, *column_products;
    eitp_tensor *states[EITP__UPDATE_STATES]; /* states of the whole parameter, computed by `prepare`; NULL: the
                                                 variables */
};

/* Returns the variable of the method's only state in this form. */
EITP__PRIVATE eitp_tensor *eitp__state_of_form(const eitp__update_piece *piece, eitp__state_form form);

/* Appends a piece's blocks to the blocks of earlier pieces, which may be NULL. */
EITP__PRIVATE eitp_tensor *eitp__append_blocks(eitp_tensor *blocks, eitp_tensor *more);

/* Sums the squares of a piece's gradient by blocks. `before` is the previous piece, or NULL for the first. */
EITP__PRIVATE void eitp__sum_piece_squares(eitp__update_piece *piece, const eitp__update_piece *before);

/* Adds the update of a piece. Returns the sums of squares of the update and of the parameter, one row for each
   block. */
EITP__PRIVATE eitp_tensor *eitp__update_node(const eitp_optimizer_config *config, const eitp_update *update,
                                             const eitp__update_piece *piece);

/* True if updates round the parameter stochastically. */
EITP__PRIVATE int eitp__is_rounded(const eitp_tensor *parameter);

#endif
