/*
 * Sensitivity of hidden states to earlier hidden states: exponents and norms of the Jacobian J of a model's blocks, or
 * of any other function of states, for each sequence separately. These are graph functions over plain tensors. Values
 * belong to a single sequence, in F32, or in F64 if the states are F64; 0 for a sequence without rows. Exponents are in
 * nats per part of the function, which for a model means per block. An invalid argument is an error of the graph;
 * results are then NULL.
 *
 * The operations that they add to a graph belong to its backward phase, so observers of the forward pass do not see
 * them. Add them after everything else of the forward pass.
 */
#ifndef EITP_JACOBIAN_H
#define EITP_JACOBIAN_H

#include "base/platform.h"
#include "model/model.h"
#include "objective/objective.h"

/* A function of states in `parts` consecutive parts, such as the blocks of a model. */
typedef struct eitp__state_function {
    /*
     * Applies parts first to first + count - 1 to x [sequences, rows, width]. The result has x's shape and dtype.
     * Sequences do not depend on one another, nor on rows after their first lengths[i], I32 [sequences]; the results of
     * those rows are not used. Called several times in a graph, also for twice as many sequences, and for more rows.
     */
    eitp_tensor *(*apply)(const void *user, eitp_tensor *x, eitp_tensor *lengths, int64_t first, int64_t count);
    const void *user;
    int64_t parts;
} eitp__state_function;

/* The blocks of a model, without dropout. */
EITP__PRIVATE eitp__state_function eitp__model_function(const eitp_model *model);

/*
 * The method for computing J v and the gradients of results.
 *
 * DIFFERENCE: from the function at x + s u and x - s u, both in one call. s |u| is 2e-3 |x| in F32, 2e-2 |x| in F16 and
 * 5e-2 |x| in BF16, where |x| is the norm of the perturbed rows. The gradient of a result has a relative error of 1e-3
 * to 1e-5 in F32, a few percent in F16, and 5 to 20 percent in BF16; the error grows with the curvature of the
 * function.
 *
 * EXACT: by differentiating gradients. Results and gradients are as exact as the dtype. It takes about as long, but
 * attention stores all scores.
 */
typedef enum eitp__jacobian_method { EITP__JACOBIAN_DIFFERENCE = 0, EITP__JACOBIAN_EXACT = 1 } eitp__jacobian_method;

typedef struct eitp__jacobian_config {
    eitp__state_function function;
    eitp_tensor *states;            /* x: [sequences, rows, width], the input of the first part */
    eitp_tensor *lengths;           /* I32 [sequences]: rows in use */
    eitp_chaos_positions positions; /* the rows that J differentiates by: all rows in use, or the last of these */
    eitp__jacobian_method method;
    int has_gradient; /* results can be differentiated by parameters and states; 0: they are constants, and cheaper */
} eitp__jacobian_config;

/* Estimates from one vector of random signs, each [sequences]. */
typedef struct eitp__sensitivity {
    eitp_tensor *squares;  /* |J^T signs|^2: its mean over signs is the squared Frobenius norm of J */
    eitp_tensor *exponent; /* ln(squares / d) / (2 parts), where d is the number of elements that J differentiates by */
    eitp_tensor *relative; /* exponent - ln(|y| / |x|) / parts, with the norms of those rows: excludes the growth of the
                              states that residual sums cause */
} eitp__sensitivity;

/*
 * Estimates the sensitivity. `signs` are random signs with the shape of the states (eitp__random_signs). The exponent
 * is 0 if J is orthogonal, as in a wide network at the edge of chaos (Poole et al., arXiv 1606.05340; Schoenholz et
 * al., arXiv 1611.01232). As the logarithm of an estimate, it is slightly too low on average.
 *
 * Cost: 2. With a gradient 8, which uses parameters once more, or 7 with EXACT. The unit is a forward pass of the
 * sequences through the function. A backward pass counts 1 without gradients of parameters, and 2 with them.
 */
EITP__PRIVATE eitp__sensitivity eitp__jacobian_sensitivity(const eitp__jacobian_config *config, eitp_tensor *signs);

typedef struct eitp__largest_exponent {
    eitp_tensor *exponent; /* [sequences]: ln(sigma) / parts for the largest singular value sigma of J */
    eitp_tensor *vector;   /* with the shape of the states: the right singular vector, to start from next time */
} eitp__largest_exponent;

/*
 * Estimates the largest singular value by power iteration on J^T J, which approaches it from below. `rounds` is 1 or
 * more. `start` has the shape of the states and is not 0: random signs, or the vector of the previous step, for which
 * one round is enough in a regularizer. The gradient treats the two singular vectors as constants. Cost: 1, plus 3 for
 * each round and 6 for a gradient; with EXACT 1, 2 and 5.
 */
EITP__PRIVATE eitp__largest_exponent eitp__jacobian_largest(const eitp__jacobian_config *config, eitp_tensor *start,
                                                            int rounds);

/*
 * Returns the exponent of one direction, [sequences]: the mean over the parts of ln |J_l u|, where u is `start`,
 * carried along and normalized before each part (Benettin et al., 1980). This is a lower bound of the largest exponent,
 * since a random direction need not have turned into the most sensitive one. It has no gradient. Cost: 3, or 2 with
 * EXACT.
 */
EITP__PRIVATE eitp_tensor *eitp__jacobian_growth(const eitp__jacobian_config *config, eitp_tensor *start);

/*
 * Returns the exponents of `count` directions, [sequences, count]. Like eitp__jacobian_growth, but the directions are
 * kept orthogonal by QR decomposition, and exponent k is the mean of ln R_kk over the parts. They are in the order of
 * the starts, roughly descending. With as many directions as J has columns, their sum times the parts is ln |det J|.
 * For few parts they differ from the exponents of the singular values. They have no gradient. Cost: 1, plus 2 for each
 * direction, or 1 with EXACT.
 */
EITP__PRIVATE eitp_tensor *eitp__jacobian_spectrum(const eitp__jacobian_config *config, eitp_tensor *const *starts,
                                                   int count);

#endif
