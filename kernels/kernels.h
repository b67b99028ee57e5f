/*
 * The kernel contract: the slots, the operands of each slot, and the table that kernel sets fill.
 *
 * A kernel is a pure function of pointers and sizes. It computes items [begin, end) of its slot's iteration family and
 * writes only the outputs of those items. Pieces of items depend on the shapes, never on the number of threads, and the
 * result of an item never depends on the piece it is in. A kernel allocates nothing, logs nothing and starts no
 * threads.
 */
#ifndef EITP_KERNELS_H
#define EITP_KERNELS_H

#include "base/convert.h"
#include "base/platform.h"
#include "base/random.h"

/*
 * Iteration families. An item is:
 *   FLAT       an element of output 0
 *   ROWS       a row of input 0: one index of all dimensions but the last
 *   COLUMNS    an index of the last dimension of output 0; the kernel visits the rows in order
 *   LINES      an element of output 0 without dimension integers[0]; the kernel visits that dimension in order
 *   BLOCKS     EITP__SUM_BLOCK elements of input 0; the last item may have fewer
 *   TILES      a tile of a matrix product: batch, then tile row, then tile column, the last fastest
 *   ATTENTION  a pair of a sequence and a head of queries (of keys in ATTENTION_BACKWARD), heads fastest
 *   WHOLE      the whole call
 */
typedef enum eitp__family {
    EITP__FAMILY_FLAT,
    EITP__FAMILY_ROWS,
    EITP__FAMILY_COLUMNS,
    EITP__FAMILY_LINES,
    EITP__FAMILY_BLOCKS,
    EITP__FAMILY_TILES,
    EITP__FAMILY_ATTENTION,
    EITP__FAMILY_WHOLE,
    EITP__FAMILY_COUNT
} eitp__family;

#define EITP__SUM_BLOCK 16384

/* Rank of the first moment of a factored update: the number of directions in row space. */
#define EITP__DIRECTIONS 4

/*
 * The slots: name, the same in lower case, family. Operands are dense and row-major. x, y, a, b, d... have the slot's
 * dtype unless stated otherwise. WIDE is F32 if the slot's dtype is BF16 or F16, else the slot's dtype: 16-bit columns
 * compute in f32 and keep sums and statistics in it. "or none" marks an operand whose data may be NULL. "accumulates"
 * means that the slot honours eitp__call.carry. The output of an element-wise slot may share memory with an input of
 * the same shape, dlogits with logits, and the output of a slot with an epilogue with its operand.
 *
 *   FILL                 () -> y; reals[0] is the value
 *   ARANGE               () -> y [n]; 0, 1, 2, ...
 *   NEGATE ... RELU, ERF (x) -> y
 *   AFFINE               (x) -> y = reals[0] * x + reals[1]
 *   CLAMP                (x) -> y; to [reals[0], reals[1]]
 *   CAST                 (x) -> y; each of any dtype
 *   ADD ... DIVIDE       (a, b) -> y; NumPy broadcasting
 *   MINIMUM, MAXIMUM     (a, b) -> y; NumPy broadcasting; NaN if either is NaN
 *   LESS, EQUAL          (a, b) -> y U8, 0 or 1; NumPy broadcasting
 *   WHERE                (condition U8, a, b) -> y; NumPy broadcasting
 *   BROADCAST            (x) -> y
 *   PERMUTE              (x) -> y; dimension i of y is dimension integers[i] of x
 *   SLICE                (x) -> y; dimension i of y starts at integers[i] of x
 *   PAD                  (x) -> y; zeros, with x at offset integers[i] in dimension i; for a floating dtype it
 *                        accumulates in that dtype
 *   CONCAT               (x...) -> y; in dimension integers[0]
 *   SUM, MAX             (x) -> y, WIDE for SUM; y has x's rank, with extent 1 in the dimensions of bit mask
 *                        integers[0]; SUM accumulates
 *   ARGMAX               (x) -> y I32, of the shape of MAX; the index of the maximum among the reduced elements, the
 *                        first of equal ones; NaN is larger than any number; -1 if there are no elements
 *   GATHER               (x, indices I32) -> y; y[..i..] = x[..indices[..i..]..] in dimension integers[0]; 0 if the
 *                        index is out of range
 *   SCATTER_ADD          (indices I32, d) -> y; y[..indices[..i..]..] += d[..i..] in dimension integers[0], starting
 *                        from zeros; indices out of range are skipped; accumulates
 *   MATMUL               (a [.., m, k], b [.., k, n], bias WIDE [n] or none, operand [.., m, n] or none)
 *                        -> y [.., m, n], of the slot's dtype or WIDE, before [.., m, n] or none; if integers[0], a is
 *                        stored as [.., k, m]; if integers[1], b is stored as [.., n, k]; batch dimensions broadcast;
 *                        integers[2] is an eitp__epilogue; accumulates if y is WIDE and there is no epilogue
 *   SOFTMAX, LOG_SOFTMAX (x) -> y; over the last dimension
 *   ..._BACKWARD         (y, dy) -> dx
 *   GELU_TANH, GELU_ERF, SILU       (x) -> y
 *   ..._BACKWARD         (x, dy) -> dx
 *   LAYER_NORM           (x [.., c], gain WIDE [c], bias WIDE [c]) -> y, mean WIDE [..], deviation WIDE [..] (the
 *                        reciprocal of the standard deviation); reals[0] is epsilon
 *   LAYER_NORM_BACKWARD_INPUT       (x, gain, bias, mean, deviation, dy, operand [.., c] or none) -> dx; integers[2]
 *                        is an eitp__epilogue, NONE or ADD
 *   LAYER_NORM_BACKWARD_PARAMETERS  (x, gain, bias, mean, deviation, dy) -> dgain WIDE [c], dbias WIDE [c];
 *                        accumulates
 *   RMS_NORM             (x [.., c], gain WIDE [c]) -> y, deviation WIDE [..] (the reciprocal root mean square);
 *                        reals[0] is epsilon
 *   RMS_NORM_BACKWARD_INPUT         (x, gain, deviation, dy, operand [.., c] or none) -> dx; as above
 *   RMS_NORM_BACKWARD_PARAMETERS    (x, gain, deviation, dy) -> dgain WIDE [c]; accumulates
 *   EMBEDDING            (table [v, c], ids I32 [n]) -> y [n, c]; an id out of range gives a row of zeros
 *   EMBEDDING_BACKWARD   (ids I32 [n], dy [n, c]) -> dtable WIDE [v, c], the rows of the table from integers[0] on; ids
 *                        out of range are skipped; accumulates
 *   ATTENTION            (q, offsets I32 [s + 1], optional: key I64 [3], lengths I32 [s], k, v, mask, rotation WIDE
 *                        [n, d]) -> o [n, heads e], logsumexp WIDE [n, heads]; q [n, heads d], k [n, h d], v [n, h e];
 *                        each head of k and v serves heads / h consecutive heads of q; without k and v, q holds all
 *                        three side by side, [n, (heads + 2h) d]; packed: sequence i is rows [offsets[i], offsets[i +
 *                        1]); its rows after the first lengths[i] are padding; integers: heads, longest sequence, rng
 *                        stream, 0 for causal or 1 for attention to the whole sequence, h, and for causal attention the
 *                        number of rows, itself included, that a row attends to (0: all before it); reals: scale,
 *                        dropout probability; mask broadcasts to [s, heads, longest, longest]: U8, 0 where a row does
 *                        not attend to another, or WIDE, which is added to the scores; padding, rows outside every
 *                        sequence or beyond the longest, and rows that attend to no row get zeros; a row of the
 *                        rotation has d / 2 cosines, then sines: elements i and i + d / 2 of each head of q and k
 *                        become a cos - b sin and b cos + a sin; a 16-bit column may round the factors of its products
 *                        to its dtype, once: these elements, probabilities, and derivatives with respect to scores
 *   ATTENTION_BACKWARD   (q, offsets, optional: key, lengths, k, v, mask, rotation; o, logsumexp, do)
 *                        -> dq, then dk and dv if present, then dmask if WIDE; attributes as above
 *   ATTENTION_CACHED     (q, keys [t, h d], values [t, h d], position I32 [1], optional: k, v, rotation) -> o [n, heads
 *                        d], keys, values; q, k, v and rotation as above; row i has position + i: its key and value are
 *                        stored there, then it attends to all positions up to its own, or to the last integers[2] of
 *                        these; integers: heads, h; reals[0] is scale
 *   CROSS_ENTROPY        (logits [n, v], targets I32 [n]) -> loss WIDE [n], logsumexp WIDE [n]; integers[0] is the
 *                        ignored target, whose loss is 0; other targets out of range give NaN, here and below
 *   CROSS_ENTROPY_BACKWARD (logits, targets, logsumexp, dloss WIDE [n]) -> dlogits
 *   SOFTMAX_ENTROPY      (logits [.., v]) -> entropy WIDE [..], logsumexp WIDE [..]; the entropy of the softmax of each
 *                        row, in nats; a logit of minus infinity adds nothing, and a row of these gives 0 and 0
 *   SOFTMAX_ENTROPY_BACKWARD (logits, entropy, logsumexp, dentropy WIDE [..]) -> dlogits
 *   PATH_PRODUCT         (weight [k, m], x WIDE [k]) -> y WIDE [m]; y[j] is the sum of |weight[i, j]|^p x[i] for p =
 *                        integers[0], 1 or 2, in double, in the order of the rows
 *   PATH_PRODUCT_TRANSPOSED (weight [k, m], x WIDE [m]) -> y WIDE [k]; the same with the sum of |weight[i, j]|^p x[j]
 *   PATH_PRODUCT_BACKWARD (weight [k, m], r WIDE [k], c WIDE [m]) -> dweight WIDE [k, m], p sign(weight) |weight|^(p -
 *                        1) r[i] c[j], where the sign of 0 is 0; accumulates
 *   LOGDET               (a [.., m m]) -> y [..]; integers[0] is m, and each row a matrix [m, m]; the logarithm of the
 *                        determinant of its symmetric part; NaN unless that is positive definite
 *   INVERSE_SPD          (a [.., m m]) -> y; the inverse of the symmetric part, or NaN
 *   HEAD                 (x [n, c], table [v, c], targets I32 [n]) -> e [n, v], top WIDE [n, blocks], sum WIDE
 *                        [n, blocks], picked WIDE [n]; computes the logits x table^T without storing them; for each row
 *                        and block of columns, top is the largest logit, e has exp(logit - top) for each column, and
 *                        sum their sum; picked is the logit of the row's target, written only if the target is in the
 *                        vocabulary; a block has EITP__HEAD_BLOCK columns, the last may have fewer; the logits may
 *                        have been rounded to the slot's dtype by a device's library of products
 *   HEAD_LOSS            (top, sum, picked, targets) -> loss, logsumexp; the slot's dtype is WIDE; integers: ignored
 *                        target, vocabulary
 *   HEAD_BACKWARD        (e, top, targets, logsumexp, dloss WIDE [n]) -> dlogits, which may share memory with e; if it
 *                        does, a device may compute it from the logits with HEAD, and not e, top, sum and picked;
 *                        integers[0] is the ignored target
 *   DROPOUT              (x, key I64 [3]) -> y; integers[0] is the rng stream; reals[0] the probability; the key is
 *                        seed, step, and the first row in the step
 *   ACCUMULATE           (target, x, carry F32 [1] or none) -> target; target = carry * target + x
 *   SUM_SQUARES          (x) -> y F64 [ceil(elements / EITP__SUM_BLOCK)]; the sum of squares of each block
 *   ROW_SQUARES          (x) -> y F64 [rows]; the sum of squares of each row
 *   COLUMN_SQUARES       (x, before F64 [c] or none) -> y F64 [c]; the sum of squares of each column, added to before
 *                        in the order of the rows, so that a matrix gives the same bits in pieces of rows
 *   ROW_PRODUCTS         (x, directions F32 [k, c]) -> y F32 [rows, k]; k is EITP__DIRECTIONS; the dot product of each
 *                        row with each direction
 *   COLUMN_PRODUCTS      (x, p F32 [rows, k], before F32 [k, c] or none) -> y F32 [k, c]; row t is the sum of p[i, t]
 *                        times row i of x, added to row t of before in the order of the rows, as for COLUMN_SQUARES
 *   TOTAL                (x, totals F64 [k], bounds I32 [p, 2] or none, carry F32 [1] or none) -> totals; element
 *                        integers[0] becomes carry times itself (0 without a carry, or if that is 0) plus elements of
 *                        x, added one by one in F64: those from bounds[i][0] up to bounds[i][1], for each i; with
 *                        integers[1] element i, for each i with a bound of 0 or more; all, without bounds
 *   COMMIT               (sum F64 [1], limit F32 [1], loss scale F32 [1] or none, bound F32 [1] or none) -> commit F32
 *                        [2], norm F32 [1]; commit is the factor of the gradient, and 1 to apply this step's updates or
 *                        0 to skip them: if the norm is not finite, or above a bound other than 0; the gradient
 *                        includes the loss scale, norm, limit and bound do not
 *   FACTORED_MEANS       (columns F32 [c], column squares F64 [c], rate, commit, rows F32 [r] and row squares F64 [r],
 *                        or neither for a single row) -> columns, column roots F32 [c], row roots F32 [r] or [1],
 *                        then rows if present; columns and rows are running means of the squared gradient, the memory
 *                        of their inputs, and keep their values if the step is skipped; the root of element i, j of the
 *                        second moment, with bias correction, is row root i * column root j; reals[0] is beta2
 *   FACTORED_MOMENTUM    (directions F32 [k, c], m F32 [r, k], row products F32 [r, k], column products F32 [k, c],
 *                        rate, commit, column squares F64 [c]) -> directions, m, corrections F32 [r, k], old
 *                        directions F32 [k, c]; directions and m are the memory of their inputs, and keep their values
 *                        if the step is skipped; m is the running mean of the row products; adding corrections * old
 *                        directions to the gradient replaces its part along the old directions by their running mean,
 *                        with bias correction; then the directions move towards those in which the gradient is largest,
 *                        and m with them; reals[0] is beta1; the first step starts from directions of zeros
 *   UPDATE               (parameter, gradient WIDE, rate F32 [2], commit F32 [2], remainder or none, key I64 [3] or
 *                        none, states) -> parameter, sums F64 [blocks, 2], then the remainder if present, then the
 *                        states if the rule changes them; eitp__update_operand numbers the inputs; every output but the
 *                        sums is the memory of its input, and keeps its value if the step is skipped; rate: learning
 *                        rate, number of the step from 1; integers[2] is an eitp__update_rule; reals: beta1, beta2,
 *                        epsilon, weight decay; sums: the squares of the update, and of the new parameter before it is
 *                        rounded to the stored type
 *     the parameter      F32 or F64; F16 with an F32 remainder, the difference; BF16 with an I16 remainder
 *                        (eitp__join_bf16) or an I8 one (eitp__join_correction); or BF16 with a key and no remainder,
 *                        which is rounded stochastically (eitp__round_bf16): the random bits are a function of seed and
 *                        step (the first words of the key), of the rng stream integers[0], and of the number of the
 *                        element in its parameter, integers[1] + i (eitp__random_half)
 *     the gradient       of a BF16 parameter may also be BF16
 *     ADAMW              states m and v, which change: WIDE; of an F32 or BF16 parameter also m I8 and v U8 in groups
 *                        of EITP__MOMENT_GROUP elements, followed by states m_scale and v_scale, BF16 [g], g =
 *                        ceil(elements / EITP__MOMENT_GROUP), a scale for each group (eitp__moment_scale); their
 *                        rounding is a function of the number of the step and of the element, integers[1] + i
 *     FACTORED           states row roots F32 [r] and column roots F32 [c]; then corrections F32 [r, k] and old
 *                        directions F32 [k, c], or neither: the update is u = (gradient + corrections * old
 *                        directions) / (root + epsilon); if the root mean square of u over a block of EITP__SUM_BLOCK
 *                        elements is above EITP__FACTORED_LIMIT, u is scaled down to it
 *     SGD                state velocity WIDE, which changes: velocity = beta1 * velocity + gradient and parameter -=
 *                        learning rate * velocity
 */
#define EITP__SLOTS(X)                                                                                                 \
    X(FILL, fill, FLAT)                                                                                                \
    X(ARANGE, arange, FLAT)                                                                                            \
    X(NEGATE, negate, FLAT)                                                                                            \
    X(ABS, abs, FLAT)                                                                                                  \
    X(EXP, exp, FLAT)                                                                                                  \
    X(LOG, log, FLAT)                                                                                                  \
    X(SQRT, sqrt, FLAT)                                                                                                \
    X(RSQRT, rsqrt, FLAT)                                                                                              \
    X(SIN, sin, FLAT)                                                                                                  \
    X(COS, cos, FLAT)                                                                                                  \
    X(TANH, tanh, FLAT)                                                                                                \
    X(SIGMOID, sigmoid, FLAT)                                                                                          \
    X(RELU, relu, FLAT)                                                                                                \
    X(ERF, erf, FLAT)                                                                                                  \
    X(AFFINE, affine, FLAT)                                                                                            \
    X(CLAMP, clamp, FLAT)                                                                                              \
    X(CAST, cast, FLAT)                                                                                                \
    X(ADD, add, FLAT)                                                                                                  \
    X(SUBTRACT, subtract, FLAT)                                                                                        \
    X(MULTIPLY, multiply, FLAT)                                                                                        \
    X(DIVIDE, divide, FLAT)                                                                                            \
    X(MINIMUM, minimum, FLAT)                                                                                          \
    X(MAXIMUM, maximum, FLAT)                                                                                          \
    X(LESS, less, FLAT)                                                                                                \
    X(EQUAL, equal, FLAT)                                                                                              \
    X(WHERE, where, FLAT)                                                                                              \
    X(BROADCAST, broadcast, FLAT)                                                                                      \
    X(PERMUTE, permute, FLAT)                                                                                          \
    X(SLICE, slice, FLAT)                                                                                              \
    X(PAD, pad, FLAT)                                                                                                  \
    X(CONCAT, concat, FLAT)                                                                                            \
    X(SUM, sum, FLAT)                                                                                                  \
    X(MAX, max, FLAT)                                                                                                  \
    X(ARGMAX, argmax, FLAT)                                                                                            \
    X(GATHER, gather, FLAT)                                                                                            \
    X(SCATTER_ADD, scatter_add, LINES)                                                                                 \
    X(MATMUL, matmul, TILES)                                                                                           \
    X(SOFTMAX, softmax, ROWS)                                                                                          \
    X(SOFTMAX_BACKWARD, softmax_backward, ROWS)                                                                        \
    X(LOG_SOFTMAX, log_softmax, ROWS)                                                                                  \
    X(LOG_SOFTMAX_BACKWARD, log_softmax_backward, ROWS)                                                                \
    X(GELU_TANH, gelu_tanh, FLAT)                                                                                      \
    X(GELU_TANH_BACKWARD, gelu_tanh_backward, FLAT)                                                                    \
    X(GELU_ERF, gelu_erf, FLAT)                                                                                        \
    X(GELU_ERF_BACKWARD, gelu_erf_backward, FLAT)                                                                      \
    X(SILU, silu, FLAT)                                                                                                \
    X(SILU_BACKWARD, silu_backward, FLAT)                                                                              \
    X(LAYER_NORM, layer_norm, ROWS)                                                                                    \
    X(LAYER_NORM_BACKWARD_INPUT, layer_norm_backward_input, ROWS)                                                      \
    X(LAYER_NORM_BACKWARD_PARAMETERS, layer_norm_backward_parameters, COLUMNS)                                         \
    X(RMS_NORM, rms_norm, ROWS)                                                                                        \
    X(RMS_NORM_BACKWARD_INPUT, rms_norm_backward_input, ROWS)                                                          \
    X(RMS_NORM_BACKWARD_PARAMETERS, rms_norm_backward_parameters, COLUMNS)                                             \
    X(EMBEDDING, embedding, FLAT)                                                                                      \
    X(EMBEDDING_BACKWARD, embedding_backward, COLUMNS)                                                                 \
    X(ATTENTION, attention, ATTENTION)                                                                                 \
    X(ATTENTION_BACKWARD, attention_backward, ATTENTION)                                                               \
    X(ATTENTION_CACHED, attention_cached, WHOLE)                                                                       \
    X(CROSS_ENTROPY, cross_entropy, ROWS)                                                                              \
    X(CROSS_ENTROPY_BACKWARD, cross_entropy_backward, ROWS)                                                            \
    X(SOFTMAX_ENTROPY, softmax_entropy, ROWS)                                                                          \
    X(SOFTMAX_ENTROPY_BACKWARD, softmax_entropy_backward, ROWS)                                                        \
    X(PATH_PRODUCT, path_product, COLUMNS)                                                                             \
    X(PATH_PRODUCT_TRANSPOSED, path_product_transposed, ROWS)                                                          \
    X(PATH_PRODUCT_BACKWARD, path_product_backward, ROWS)                                                              \
    X(HEAD, head, TILES)                                                                                               \
    X(HEAD_LOSS, head_loss, ROWS)                                                                                      \
    X(HEAD_BACKWARD, head_backward, ROWS)                                                                              \
    X(LOGDET, logdet, ROWS)                                                                                            \
    X(INVERSE_SPD, inverse_spd, ROWS)                                                                                  \
    X(DROPOUT, dropout, FLAT)                                                                                          \
    X(ACCUMULATE, accumulate, FLAT)                                                                                    \
    X(SUM_SQUARES, sum_squares, BLOCKS)                                                                                \
    X(ROW_SQUARES, row_squares, ROWS)                                                                                  \
    X(COLUMN_SQUARES, column_squares, COLUMNS)                                                                         \
    X(ROW_PRODUCTS, row_products, ROWS)                                                                                \
    X(COLUMN_PRODUCTS, column_products, COLUMNS)                                                                       \
    X(TOTAL, total, WHOLE)                                                                                             \
    X(COMMIT, commit, WHOLE)                                                                                           \
    X(FACTORED_MEANS, factored_means, WHOLE)                                                                           \
    X(FACTORED_MOMENTUM, factored_momentum, WHOLE)                                                                     \
    X(UPDATE, update, BLOCKS)

typedef enum eitp__slot {
#define EITP__SLOT_ENUMERATOR(NAME, name, family) EITP__SLOT_##NAME,
    EITP__SLOTS(EITP__SLOT_ENUMERATOR)
#undef EITP__SLOT_ENUMERATOR
        EITP__SLOT_COUNT
} eitp__slot;

#define EITP__MAX_INPUTS 11
#define EITP__MAX_OUTPUTS 7

/* Inputs of UPDATE, and its maximum number of outputs. */
enum { EITP__UPDATE_STATES = 4, EITP__UPDATE_OUTPUTS = 3 + EITP__UPDATE_STATES };
typedef enum eitp__update_operand {
    EITP__UPDATE_PARAMETER,
    EITP__UPDATE_GRADIENT,
    EITP__UPDATE_RATE,
    EITP__UPDATE_COMMIT,
    EITP__UPDATE_REMAINDER,
    EITP__UPDATE_KEY,
    EITP__UPDATE_STATE, /* the first state */
    EITP__UPDATE_INPUTS = EITP__UPDATE_STATE + EITP__UPDATE_STATES
} eitp__update_operand;

/* Inputs of ATTENTION. ATTENTION_BACKWARD appends the output, its log-sum-exp and the output gradient. */
typedef enum eitp__attention_operand {
    EITP__ATTENTION_Q,
    EITP__ATTENTION_OFFSETS,
    EITP__ATTENTION_KEY,
    EITP__ATTENTION_LENGTHS,
    EITP__ATTENTION_K,
    EITP__ATTENTION_V,
    EITP__ATTENTION_MASK,
    EITP__ATTENTION_ROTATION,
    EITP__ATTENTION_INPUTS,
    EITP__ATTENTION_O = EITP__ATTENTION_INPUTS,
    EITP__ATTENTION_LOGSUMEXP,
    EITP__ATTENTION_DO,
    EITP__ATTENTION_BACKWARD_INPUTS
} eitp__attention_operand;

/* Inputs of ATTENTION_CACHED. */
typedef enum eitp__cached_operand {
    EITP__CACHED_Q,
    EITP__CACHED_KEYS,
    EITP__CACHED_VALUES,
    EITP__CACHED_POSITION,
    EITP__CACHED_K,
    EITP__CACHED_V,
    EITP__CACHED_ROTATION,
    EITP__CACHED_INPUTS
} eitp__cached_operand;

/* Update rules: name, the same in lower case. The set `ref` has a kernel for every rule. */
#define EITP__UPDATE_RULES(X)                                                                                          \
    X(ADAMW, adamw)                                                                                                    \
    X(FACTORED, factored)                                                                                              \
    X(SGD, sgd)

typedef enum eitp__update_rule {
#define EITP__UPDATE_RULE_ENUMERATOR(NAME, name) EITP__UPDATE_RULE_##NAME,
    EITP__UPDATE_RULES(EITP__UPDATE_RULE_ENUMERATOR)
#undef EITP__UPDATE_RULE_ENUMERATOR
        EITP__UPDATE_RULE_COUNT
} eitp__update_rule;

/* Maximum root mean square of the update of a block by FACTORED: Adafactor's clipping threshold d. */
#define EITP__FACTORED_LIMIT 1.0

/* Width of a block of logits in HEAD, for these kernels: see eitp__backend_interface.head_block. */
#define EITP__HEAD_BLOCK 192

/*
 * The epilogue of a matrix product: applied to the sum p = a b + bias before y is stored. The output `before`, if
 * present, receives p. If `before` has 16 bits, the activation is computed from the stored value. For the gradient of a
 * norm, p is dx before it is rounded.
 *
 * If y has 16 bits, a device's library of products (cuBLASLt) may round differently: it rounds the bias to the type of
 * y, and may compute the activation from a rounded p without `before`, or from p itself although `before` is rounded.
 */
typedef enum eitp__epilogue {
    EITP__EPILOGUE_NONE,               /* y = p */
    EITP__EPILOGUE_ADD,                /* y = operand + p */
    EITP__EPILOGUE_GELU_TANH,          /* y = gelu(p) */
    EITP__EPILOGUE_GELU_ERF,           /* y = gelu(p) */
    EITP__EPILOGUE_SILU,               /* y = silu(p) */
    EITP__EPILOGUE_GELU_TANH_BACKWARD, /* y = p * gelu'(operand) */
    EITP__EPILOGUE_GELU_ERF_BACKWARD,  /* y = p * gelu'(operand) */
    EITP__EPILOGUE_SILU_BACKWARD,      /* y = p * silu'(operand) */
    EITP__EPILOGUE_COUNT
} eitp__epilogue;

/* A dense row-major array. `data` is NULL for an optional operand that is absent. */
typedef struct eitp__operand {
    void *data;
    eitp_dtype dtype;
    int rank;
    int64_t elements;
    int64_t shape[EITP_MAX_RANK];
    int64_t row_elements; /* in programs: elements per row if shape[0] counts rows; otherwise 0 */
    int64_t first_row;    /* if row_elements: first row of the execution in this operand */
    int64_t row_limit;    /* if row_elements: maximum number of rows */
    /* Elements from one row of a matrix to the next; 0: as many as it has columns. Others are zeros, which `elements`
       and `row_elements` include. Only logits have it: see eitp__backend_interface.logit_alignment. */
    int64_t row_stride;
} eitp__operand;

/* A kernel call: everything that its items share. */
typedef struct eitp__call {
    eitp__slot slot;
    eitp_dtype dtype; /* column of the kernel table: first floating-point input, else first input, else y */
    int input_count;
    int output_count;
    eitp__operand inputs[EITP__MAX_INPUTS];
    eitp__operand outputs[EITP__MAX_OUTPUTS];
    int64_t integers[EITP_MAX_RANK];
    double reals[4];
    /* If 1, every output becomes carry[0] * output + value instead of value. If carry[0] is 0, outputs are not read. */
    int accumulates;
    const float *carry; /* with `accumulates`; NULL means 1 */
} eitp__call;

/* Returns EITP__EPILOGUE_NONE for slots without epilogues. */
static inline EITP__UNUSED eitp__epilogue eitp__epilogue_of(const eitp__call *call) {
    const int has_epilogues = call->slot == EITP__SLOT_MATMUL || call->slot == EITP__SLOT_LAYER_NORM_BACKWARD_INPUT ||
                              call->slot == EITP__SLOT_RMS_NORM_BACKWARD_INPUT;
    return has_epilogues ? (eitp__epilogue)call->integers[2] : EITP__EPILOGUE_NONE;
}

/* Returns the extent of the last dimension. */
static inline EITP__UNUSED int64_t eitp__operand_columns(const eitp__operand *x) {
    return x->rank ? x->shape[x->rank - 1] : 1;
}

/* Returns the elements from one row of a matrix to the next. */
static inline EITP__UNUSED int64_t eitp__row_stride_of(const eitp__operand *x) {
    return x->row_stride ? x->row_stride : eitp__operand_columns(x);
}

/* True if this target contributes to the loss: it is not ignored and lies within the `columns` classes. */
static inline EITP__UNUSED int eitp__target_counts(const eitp__call *call, int32_t target, int64_t columns) {
    return target != call->integers[0] && target >= 0 && target < columns;
}

/* Loss and logit gradient of a row without a valid target: 0 if it is ignored, NaN if it is outside the vocabulary. */
static inline EITP__UNUSED float eitp__loss_without_target(const eitp__call *call, int32_t target) {
    return target == call->integers[0] ? 0.0f : (float)NAN;
}

typedef void (*eitp__kernel_function)(const eitp__call *call, int64_t begin, int64_t end, void *workspace);

/* A function of any type, from a library opened at run time. */
typedef void (*eitp__imported)(void);

typedef struct eitp__kernel {
    eitp__kernel_function run;                   /* NULL: the slot has no kernel for this dtype */
    eitp__imported imported;                     /* stored at the start of the workspace for `run`; NULL: none */
    int (*supports)(const eitp__call *call);     /* True if `run` supports this call; NULL: it supports every call */
    size_t (*workspace)(const eitp__call *call); /* bytes per thread, aligned to EITP__ALIGNMENT; NULL: none */
    int64_t tile_rows;                           /* TILES only */
    int64_t tile_columns;
    const char *set; /* "ref", "avx2", ... */
} eitp__kernel;

static inline EITP__UNUSED void eitp__kernel_run(const eitp__kernel *kernel, const eitp__call *call, int64_t begin,
                                                 int64_t end, void *workspace) {
    if (kernel->imported)
        memcpy(workspace, &kernel->imported, sizeof kernel->imported);
    kernel->run(call, begin, end, workspace);
}

/*
 * The kernel for each slot and dtype. Initialised with the `ref` kernels; each further set overwrites those it
 * implements.
 */
typedef struct eitp__kernel_table {
    eitp__kernel kernels[EITP__SLOT_COUNT][EITP_DTYPE_COUNT];
} eitp__kernel_table;

/*
 * Instruction sets in order of preference. Each set overrides kernels of the sets before it. A row has the enumerator,
 * the name, whether the set is in the build, the nominal operations per second of a core in F32 and in BF16 products (a
 * server core at 3 GHz, at about two thirds of its peak), and the number of BF16 products that it adds at once. To add
 * a set, add a row: the build then fails until everything that the set needs exists.
 */
#define EITP__ISAS(X)                                                                                                  \
    X(REF, ref, 1, 3e9, 3e9, 1)                                                                                        \
    X(AVX2, avx2, EITP__WITH_AVX2, 6e10, 6e10, 1)                                                                      \
    X(AVX512, avx512, EITP__WITH_AVX512, 1.1e11, 1.1e11, 1)                                                            \
    X(AVX512BF16, avx512bf16, EITP__WITH_AVX512BF16, 1.1e11, 2e11, 2)                                                  \
    X(AMX, amx, EITP__WITH_AMX, 1.1e11, 1e12, 32)

typedef enum eitp__isa {
#define EITP__ISA_ENUMERATOR(isa, name, in_build, f32, bf16, group) EITP__ISA_##isa,
    EITP__ISAS(EITP__ISA_ENUMERATOR)
#undef EITP__ISA_ENUMERATOR
        EITP__ISA_COUNT
} eitp__isa;

/* Writes the kernels of a set to the table, over existing ones. Writes nothing if the set is not in the build. */
#define EITP__ISA_REGISTER(isa, name, in_build, f32, bf16, group)                                                      \
    EITP__PRIVATE void eitp__register_##name##_kernels(eitp__kernel_table *table);
EITP__ISAS(EITP__ISA_REGISTER)
#undef EITP__ISA_REGISTER

/* CAST between any dtypes. For sets that implement only some pairs. */
EITP__PRIVATE void eitp__ref_cast(const eitp__call *call, int64_t begin, int64_t end, void *workspace);

/* UPDATE of parameters of any dtype but F64. For sets that lack some rules. */
EITP__PRIVATE void eitp__ref_update(const eitp__call *call, int64_t begin, int64_t end, void *workspace);

/* ---- Attention ---- */

/* Queries, keys and values. */
typedef enum eitp__attention_part {
    EITP__ATTENTION_QUERIES,
    EITP__ATTENTION_KEYS,
    EITP__ATTENTION_VALUES,
    EITP__ATTENTION_PARTS
} eitp__attention_part;

/* Sizes of an attention call whose values are as wide as its keys. */
typedef struct eitp__attention_sizes {
    int64_t heads, key_heads, group; /* heads of queries; heads of keys and values; query heads per key head */
    int64_t width;                   /* of a head */
    int64_t window;                  /* maximum number of keys that a query attends to; INT64_MAX: no limit */
    int is_joined;                   /* q, k and v are joined in one operand */
} eitp__attention_sizes;

static inline EITP__UNUSED eitp__attention_sizes eitp__attention_sizes_of(const eitp__call *call) {
    const int is_cached = call->slot == EITP__SLOT_ATTENTION_CACHED;
    const int64_t window = call->integers[is_cached ? 2 : 5];
    eitp__attention_sizes sizes;
    sizes.heads = call->integers[0];
    sizes.key_heads = call->integers[is_cached ? 1 : 4];
    sizes.group = sizes.heads / sizes.key_heads;
    sizes.is_joined = !call->inputs[is_cached ? (int)EITP__CACHED_K : (int)EITP__ATTENTION_K].rank;
    sizes.width = call->inputs[0].shape[1] / (sizes.is_joined ? sizes.heads + 2 * sizes.key_heads : sizes.heads);
    sizes.window = window ? window : INT64_MAX;
    return sizes;
}

/* Returns the number of rows at the start of its sequence that lie before the window of a query at row `position`. */
static inline EITP__UNUSED int64_t eitp__attention_unseen(const eitp__attention_sizes *sizes, int64_t position) {
    return position >= sizes->window ? position + 1 - sizes->window : 0;
}

/* True for attention without a mask whose values are as wide as its keys. */
EITP__PRIVATE int eitp__is_unmasked_attention(const eitp__call *call);

/* Like the above, and without a rotation. */
EITP__PRIVATE int eitp__is_unrotated_attention(const eitp__call *call);

/* ---- Others ---- */

EITP__PRIVATE const char *eitp__slot_name(eitp__slot slot);
EITP__PRIVATE eitp__family eitp__slot_family(eitp__slot slot);

/*
 * An f32 value in two 16-bit planes: the nearest BF16 (the larger in magnitude of two equally near), and the difference
 * of the bits. The pair is exact.
 */
static inline EITP__UNUSED float eitp__join_bf16(uint16_t high, int16_t remainder) {
    return eitp__float_of_bits(((uint32_t)high << 16) + (uint32_t)(int32_t)remainder);
}

static inline EITP__UNUSED void eitp__split_bf16(float value, uint16_t *high, int16_t *remainder) {
    uint32_t bits = eitp__bits_of_float(value);
    *high = (uint16_t)((bits + 0x8000u) >> 16);
    *remainder = (int16_t)(uint16_t)(bits & 0xffffu);
}

/*
 * An f32 value in three bytes: the nearest BF16, and a correction in 127ths of half its unit in the last place. The
 * correction counts bits, so its resolution does not change at a binade boundary. NaN stays NaN. Half a unit is never
 * reached, so joining a value and splitting it again gives the same three bytes.
 */
#define EITP__CORRECTION_STEP (32767.0f / 127.0f)

static inline EITP__UNUSED float eitp__join_correction(uint16_t high, int8_t correction) {
    int32_t bits = (int32_t)rintf((float)correction * EITP__CORRECTION_STEP);
    return eitp__float_of_bits(((uint32_t)high << 16) + (uint32_t)bits);
}

static inline EITP__UNUSED void eitp__split_correction(float value, uint16_t *high, int8_t *correction) {
    int32_t below;
    *high = eitp__f32_to_bf16(value);
    below = (int32_t)(eitp__bits_of_float(value) - ((uint32_t)*high << 16));
    *correction = value == value ? (int8_t)rintf((float)below * (1.0f / EITP__CORRECTION_STEP)) : (int8_t)0;
}

/* Sizes of a MATMUL call. */
typedef struct eitp__matmul {
    int64_t batch, m, n, k;
    int transpose_a, transpose_b;
    int64_t lda, ldb; /* elements per stored row; for y this is n */
} eitp__matmul;

EITP__PRIVATE eitp__matmul eitp__matmul_sizes(const eitp__call *call);

/* Returns the offset, in elements, of batch element `index` in operand a (which = 0) or b (which = 1). */
EITP__PRIVATE int64_t eitp__matmul_offset(const eitp__call *call, int which, int64_t index);

#endif
