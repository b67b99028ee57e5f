/*
 * How much hidden states depend on what they were before: exponents and norms of the Jacobian J of a model's blocks, or
 * of any other function of states, for each sequence on its own. Graph functions over plain tensors. Values are those
 * of a sequence alone, in F32, or F64 if the states are; 0 for a sequence without rows. Exponents are in nats per part
 * of the function, so per block. An invalid argument is an error of the graph; results are NULL then.
 *
 * What they add to a graph counts as its backward phase, so that observers of the forward pass do not see it. Add them
 * after all that belongs to that.
 */
#ifndef EITP_JACOBIAN_H
#define EITP_JACOBIAN_H

#include "base/platform.h"
#include "model/model.h"
#include "objective/objective.h"

/* A function of states in `parts` parts, one after the other: of a model its blocks. */
typedef struct eitp__state_function {
    /*
     * Parts first to first + count - 1 of x [sequences, rows, width], in x's shape and dtype. Sequences do not depend
     * on one another, nor on rows after their first lengths[i], I32 [sequences]; what these become is not used. Called
     * several times in a graph, also for twice as many sequences, and for more rows.
     */
    eitp_tensor *(*apply)(const void *user, eitp_tensor *x, eitp_tensor *lengths, int64_t first, int64_t count);
    const void *user;
    int64_t parts;
} eitp__state_function;

/* The blocks of a model, without dropout. */
EITP__PRIVATE eitp__state_function eitp__model_function(const eitp_model *model);

/*
 * How J v, and the gradients of results, are computed.
 *
 * DIFFERENCE: from the function at x + s u and x - s u, both halves in one call of it. s |u| is 2e-3 |x| in F32,
 * 2e-2 |x| in F16 and 5e-2 |x| in BF16, where |x| is the norm of the rows that are moved. The gradient of a result has
 * a relative error of 1e-3 to 1e-5 in F32, some percent in F16, and 5 to 20 percent in BF16: more where the function is
 * curved.
 *
 * EXACT: by differentiating gradients. Results and gradients are as exact as the dtype. It takes about as long, but
 * attention stores all scores.
 */
typedef enum eitp__jacobian_method { EITP__JACOBIAN_DIFFERENCE = 0, EITP__JACOBIAN_EXACT = 1 } eitp__jacobian_method;

typedef struct eitp__jacobian_config {
    eitp__state_function function;
    eitp_tensor *states;            /* x: [sequences, rows, width], what the first part reads */
    eitp_tensor *lengths;           /* I32 [sequences]: rows in use */
    eitp_chaos_positions positions; /* the rows that J differentiates by: all that are in use, or the last of these */
    eitp__jacobian_method method;
    int has_gradient; /* results can be differentiated by parameters and states; 0: they are constants, and cheaper */
} eitp__jacobian_config;

/* Estimates from one vector of random signs, each [sequences]. */
typedef struct eitp__sensitivity {
    eitp_tensor *squares;  /* |J^T signs|^2: its mean over signs is the squared Frobenius norm of J */
    eitp_tensor *exponent; /* ln(squares / d) / (2 parts), where d is the number of elements that J differentiates by */
    eitp_tensor *relative; /* exponent - ln(|y| / |x|) / parts, with the norms of those rows: without the growth of the
                              states, which residual sums cause */
} eitp__sensitivity;

/*
 * `signs` are random signs like the states (eitp__random_signs). The exponent is 0 if J is orthogonal, in a wide
 * network at the edge of chaos (Poole et al., arXiv 1606.05340; Schoenholz et al., arXiv 1611.01232). As a logarithm of
 * an estimate it is on average a little too low.
 *
 * Costs: 2; with a gradient 8, in which parameters have one use more, or 7 by EXACT. The unit is a forward pass of the
 * sequences through the function. A backward pass counts 1 without gradients of parameters, and 2 with them.
 */
EITP__PRIVATE eitp__sensitivity eitp__jacobian_sensitivity(const eitp__jacobian_config *config, eitp_tensor *signs);

typedef struct eitp__largest_exponent {
    eitp_tensor *exponent; /* [sequences]: ln(sigma) / parts of the largest singular value of J */
    eitp_tensor *vector;   /* like the states: the right singular vector, to start from next time */
} eitp__largest_exponent;

/*
 * By power iteration on J^T J, which approaches the largest singular value from below: `rounds` of it, 1 or more, from
 * `start`, which is like the states and not 0: random signs, or the vector of the step before; then one round is enough
 * for a regularizer. The gradient holds the two singular vectors fixed. Costs: 1, 3 for each round, and 6 for a
 * gradient; by EXACT 1, 2 and 5.
 */
EITP__PRIVATE eitp__largest_exponent eitp__jacobian_largest(const eitp__jacobian_config *config, eitp_tensor *start,
                                                            int rounds);

/*
 * The exponent of one direction, [sequences]: the mean over the parts of ln |J_l u|, where u is `start`, carried along
 * and normalized before each part (Benettin et al., 1980). A lower bound of the largest exponent, since a random
 * direction need not have turned into the most sensitive one. Never has a gradient. Costs: 3, or 2 by EXACT.
 */
EITP__PRIVATE eitp_tensor *eitp__jacobian_growth(const eitp__jacobian_config *config, eitp_tensor *start);

/*
 * The exponents of `count` directions, [sequences, count]: as eitp__jacobian_growth, but the directions are kept
 * orthogonal by QR decomposition, and exponent k is the mean of ln R_kk over the parts. They are in the order of the
 * starts, roughly descending. If there are as many as J has columns, their sum times the parts is ln |det J|. For few
 * parts they differ from those of the singular values. Never has a gradient. Costs: 1, and 2 for each direction, or 1
 * by EXACT.
 */
EITP__PRIVATE eitp_tensor *eitp__jacobian_spectrum(const eitp__jacobian_config *config, eitp_tensor *const *starts,
                                                   int count);

#endif
