/*
 * The kernel contract: the slots, what each slot's operands are, and the table that kernel sets are written into.
 *
 * A kernel is a pure function over pointers and sizes. It does items [begin, end) of its slot's iteration family and
 * writes only what belongs to those items; which items form a piece follows from the shapes, never from the number of
 * threads, and an item's result never depends on the piece it is in. It allocates nothing, logs nothing and starts no
 * threads.
 */
#ifndef EITP_KERNELS_H
#define EITP_KERNELS_H

#include "base/convert.h"
#include "base/platform.h"
#include "base/random.h"

/*
 * Iteration families: what an item is.
 *   FLAT       an element of output 0
 *   ROWS       a row of input 0: all its dimensions but the last
 *   COLUMNS    an index of the last dimension of output 0; the kernel goes through the rows in order
 *   LINES      an element of output 0 without dimension `integers[0]`; the kernel goes along that dimension in order
 *   BLOCKS     EITP__SUM_BLOCK elements of input 0, the last item fewer
 *   TILES      a tile of a matrix product: batch, then tile row, then tile column, the last fastest
 *   ATTENTION  a (sequence, head) pair, heads fastest
 *   WHOLE      everything
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

/* Directions of the rows of a matrix along which a factored update has a first moment. */
#define EITP__DIRECTIONS 4

/*
 * The slots: name, family. Operands are dense, row-major; x, y, a, b, d... have the slot's dtype unless said otherwise.
 * WIDE is F32 where the slot's dtype is BF16 or F16, and the slot's dtype where it is not: 16-bit columns compute in
 * f32, and keep sums and statistics so. "accumulates" means that the slot honours eitp__call.carry. The output of an
 * element-wise slot may be the memory of an input of the same shape, and dlogits that of logits.
 *
 *   FILL                 () -> y; reals[0] the value
 *   ARANGE               () -> y [n]; 0, 1, 2, ...
 *   NEGATE ... RELU, ERF (x) -> y
 *   AFFINE               (x) -> y = reals[0] * x + reals[1]
 *   CLAMP                (x) -> y; reals[0] low, reals[1] high
 *   CAST                 (x) -> y; of any dtype each
 *   ADD ... DIVIDE       (a, b) -> y; NumPy broadcasting
 *   MINIMUM, MAXIMUM     (a, b) -> y; NumPy broadcasting; NaN if either is NaN
 *   LESS, EQUAL          (a, b) -> y U8, 0 or 1; NumPy broadcasting
 *   WHERE                (condition U8, a, b) -> y; NumPy broadcasting
 *   BROADCAST            (x) -> y
 *   PERMUTE              (x) -> y; dimension i of y is dimension integers[i] of x
 *   SLICE                (x) -> y; dimension i of y starts at integers[i] of x
 *   PAD                  (x) -> y; x placed at integers[i] in zeros; of a floating dtype it
 *                        accumulates in that dtype
 *   CONCAT               (x...) -> y; along dimension integers[0]
 *   SUM, MAX             (x) -> y, WIDE for SUM; y has x's rank, with 1 in the dimensions of bit mask integers[0]; SUM
 *                        accumulates
 *   ARGMAX               (x) -> y I32, of MAX's shape; the index of the largest of the elements that become one, the
 *                        first of equal ones; what is not a number is larger than any number; -1 of no elements
 *   GATHER               (x, indices I32) -> y; y[..i..] = x[..indices[..i..]..] along dimension integers[0]; 0 where
 *                        the index is outside
 *   SCATTER_ADD          (indices I32, d) -> y; y[..indices[..i..]..] += d[..i..] along dimension integers[0], from
 *                        zeros; indices outside are left out; accumulates
 *   MATMUL               (a [.., m, k], b [.., k, n], bias WIDE [n] or none, operand [.., m, n] or none)
 *                        -> y [.., m, n], of the slot's dtype or WIDE, before [.., m, n] or none; with integers[0], a
 *                        is given as [.., k, m], with integers[1], b as [.., n, k]; batch dimensions broadcast;
 *                        integers[2] is an eitp__epilogue; accumulates where y is WIDE and there is no epilogue
 *   SOFTMAX, LOG_SOFTMAX (x) -> y; along the last dimension
 *   ..._BACKWARD         (y, dy) -> dx
 *   GELU_TANH, GELU_ERF, SILU       (x) -> y
 *   ..._BACKWARD         (x, dy) -> dx
 *   LAYER_NORM           (x [.., c], gain WIDE [c], bias WIDE [c]) -> y, mean WIDE [..], deviation WIDE [..] (its
 *                        reciprocal); reals[0] epsilon
 *   LAYER_NORM_BACKWARD_INPUT       (x, gain, bias, mean, deviation, dy) -> dx
 *   LAYER_NORM_BACKWARD_PARAMETERS  (x, gain, bias, mean, deviation, dy) -> dgain WIDE [c], dbias WIDE [c];
 *                        accumulates
 *   RMS_NORM             (x [.., c], gain WIDE [c]) -> y, deviation WIDE [..] (the reciprocal root mean square);
 *                        reals[0] epsilon
 *   RMS_NORM_BACKWARD_INPUT         (x, gain, deviation, dy) -> dx
 *   RMS_NORM_BACKWARD_PARAMETERS    (x, gain, deviation, dy) -> dgain WIDE [c]; accumulates
 *   EMBEDDING            (table [v, c], ids I32 [n]) -> y [n, c]; an id outside the table gives a row of zeros
 *   EMBEDDING_BACKWARD   (ids I32 [n], dy [n, c]) -> dtable WIDE [v, c], the rows of the table from integers[0] on; ids
 *                        outside are left out; accumulates
 *   ATTENTION            (qkv [n, 3c], offsets I32 [s + 1], key I64 [3] or none, lengths I32 [s] or none) -> o [n, c],
 *                        logsumexp WIDE [n, heads]; packed: sequence i is rows [offsets[i], offsets[i + 1]), of which
 *                        only the first lengths[i] are there and the others padding; integers[0] heads, integers[1] the
 *                        longest sequence, integers[2] rng stream, integers[3] 0: causal, 1: every row sees all of
 *                        its sequence; reals[0] scale, reals[1] dropout probability; rows in no sequence, beyond the
 *                        longest, or padding get zeros
 *   ATTENTION_BACKWARD   (qkv, offsets, key or none, lengths or none, o, logsumexp, do) -> dqkv; attributes as above
 *   ATTENTION_CACHED     (qkv [n, 3c], keys [t, c], values [t, c], position I32 [1]) -> o [n, c], keys, values; row i
 *                        is at position + i: its key and value are stored there, then it sees all up to itself;
 *                        integers[0] heads; reals[0] scale
 *   CROSS_ENTROPY        (logits [n, v], targets I32 [n]) -> loss WIDE [n], logsumexp WIDE [n]; integers[0] the ignored
 *                        target, whose loss is 0; that of others outside the vocabulary is NaN, here and below
 *   CROSS_ENTROPY_BACKWARD (logits, targets, logsumexp, dloss WIDE [n]) -> dlogits
 *   HEAD                 (x [n, c], table [v, c], targets I32 [n]) -> e [n, v], top WIDE [n, blocks], sum WIDE
 *                        [n, blocks], picked WIDE [n]; of the logits x table^T, which are stored nowhere: for each row
 *                        and each block of EITP__HEAD_BLOCK columns (the last may have fewer) their largest and
 *                        the sum of exp(logit - top), e that exponential for each column; picked the logit of the row's
 *                        target, written only where the target is in the vocabulary
 *   HEAD_LOSS            (top, sum, picked, targets) -> loss, logsumexp; the slot's dtype is WIDE's; integers[0] the
 *                        ignored target, integers[1] the vocabulary
 *   HEAD_BACKWARD        (e, top, targets, logsumexp, dloss WIDE [n]) -> dlogits, which may be e's memory; integers[0]
 *                        the ignored target
 *   DROPOUT              (x, key I64 [3]) -> y; integers[0] rng stream; reals[0] probability; the key is seed, step,
 *                        first row of the step
 *   ACCUMULATE           (target, x, carry F32 [1] or none) -> target; target = carry * target + x
 *   SUM_SQUARES          (x) -> y F64 [ceil(elements / EITP__SUM_BLOCK)]
 *   ROW_SQUARES          (x) -> y F64 [rows]; the sum of the squares of each row
 *   COLUMN_SQUARES       (x, before F64 [c] or none) -> y F64 [c]; before, or zeros, and the squares of each column on
 *                        top of it in the order of the rows, so that a matrix gives the same bits in pieces of rows
 *   ROW_PRODUCTS         (x, directions F32 [k, c]) -> y F32 [rows, k]; k is EITP__DIRECTIONS; each row times each
 *                        direction
 *   COLUMN_PRODUCTS      (x, p F32 [rows, k], before F32 [k, c] or none) -> y F32 [k, c]; before, or zeros, and p[i, t]
 *                        times row i of x on top of row t, in the order of the rows, as for COLUMN_SQUARES
 *   COMMIT               (sum F64 [1], limit F32 [1], loss scale F32 [1] or none) -> commit F32 [2], norm F32 [1];
 *                        scale and apply (0 or 1) of this step's updates; the gradient is the loss scale times the true
 *                        one, the norm and the limit are of the true one
 *   ADAMW                (parameter, gradient WIDE, m, v, hyper F32 [2], commit F32 [2], remainder or none, m_scale
 *                        BF16 [g] or none, v_scale BF16 [g] or none, key I64 [3] or none) -> parameter, m, v, sums F64
 *                        [blocks, 2], then those there are of remainder, m_scale, v_scale; every output but the sums is
 *                        the memory of its input, and stays as it is where the step is not applied; hyper: learning
 *                        rate, number of the step from 1; reals: beta1, beta2, epsilon, weight decay; sums: of the
 *                        squares of the update and of the parameter after it, before that is rounded to what is stored
 *     the parameter      F32 or F64; F16 with the remainder F32, the difference; BF16 with the remainder I16
 *                        (eitp__join_bf16) or I8 (eitp__join_correction), or with a key and no remainder: then it is
 *                        rounded stochastically (eitp__round_bf16), with bits that are a function of seed and step,
 *                        which the key begins with, of the rng stream integers[0], and of the element's number in
 *                        its parameter, integers[1] + i (eitp__random_half)
 *     the gradient       of a BF16 parameter may be BF16 too
 *     the moments        WIDE; of an F32 or BF16 parameter also m I8 and v U8 in groups of EITP__MOMENT_GROUP elements,
 *                        g = ceil(elements / EITP__MOMENT_GROUP), with the groups' scales (kernels/update.h); how they
 *                        are rounded follows from the number of the step and from the element's, integers[1] + i
 *   FACTORED_MEANS       (columns F32 [c], column squares F64 [c], hyper, commit, rows F32 [r] and row squares F64 [r],
 *                        or none of both: one row) -> columns, column roots F32 [c], row roots F32 [r] or [1], then
 *                        rows if there are; the running means of the squared gradient by columns and by rows, which are
 *                        the memory of their inputs and stay as they are where the step is not applied; the root of
 *                        element i, j of the second moment, corrected for its beginning with zeros, is row root i *
 *                        column root j; reals[0] beta2
 *   FACTORED_MOMENTUM    (directions F32 [k, c], m F32 [r, k], row products F32 [r, k], column products F32 [k, c],
 *                        hyper, commit, column squares F64 [c]) -> directions, m, moved F32 [r, k], along F32 [k, c];
 *                        the first two are the memory of their inputs, and stay as they are where the step is not
 *                        applied; m is the running mean of the row products; moved, times along, which are the
 *                        directions as they were, is what the gradient is changed by so that its part along them is
 *                        their mean, corrected for its beginning with zeros; then the directions turn towards where the
 *                        gradient is largest, and m with them; reals[0] beta1. Directions of zeros are begun with.
 *   FACTORED             (parameter, gradient WIDE or as for ADAMW, row roots F32 [r], column roots F32 [c], hyper,
 *                        commit, remainder or none, key or none, moved F32 [r, k] and along F32 [k, c] or none of both)
 *                        -> parameter, sums F64 [blocks, 2], then the remainder if there is one; as ADAMW, but for the
 *                        update: u = (gradient + moved along) / (root + epsilon), and where the root mean square of u
 *                        over a block of EITP__SUM_BLOCK elements is above reals[2], u is scaled down to that; reals:
 *                        epsilon, weight decay, that limit
 *   SGD                  (parameter, gradient WIDE or as for ADAMW, velocity WIDE, none, hyper, commit, remainder or
 *                        none, key or none) -> parameter, velocity, sums F64 [blocks, 2], then the remainder if there
 *                        is one; as ADAMW, but for the update: velocity = momentum * velocity + gradient, and the
 *                        parameter loses learning rate * velocity; reals[0] momentum, reals[3] weight decay
 */
#define EITP__SLOTS(X)                                                                                                 \
    X(FILL, FLAT)                                                                                                      \
    X(ARANGE, FLAT)                                                                                                    \
    X(NEGATE, FLAT)                                                                                                    \
    X(ABS, FLAT)                                                                                                       \
    X(EXP, FLAT)                                                                                                       \
    X(LOG, FLAT)                                                                                                       \
    X(SQRT, FLAT)                                                                                                      \
    X(RSQRT, FLAT)                                                                                                     \
    X(SIN, FLAT)                                                                                                       \
    X(COS, FLAT)                                                                                                       \
    X(TANH, FLAT)                                                                                                      \
    X(SIGMOID, FLAT)                                                                                                   \
    X(RELU, FLAT)                                                                                                      \
    X(ERF, FLAT)                                                                                                       \
    X(AFFINE, FLAT)                                                                                                    \
    X(CLAMP, FLAT)                                                                                                     \
    X(CAST, FLAT)                                                                                                      \
    X(ADD, FLAT)                                                                                                       \
    X(SUBTRACT, FLAT)                                                                                                  \
    X(MULTIPLY, FLAT)                                                                                                  \
    X(DIVIDE, FLAT)                                                                                                    \
    X(MINIMUM, FLAT)                                                                                                   \
    X(MAXIMUM, FLAT)                                                                                                   \
    X(LESS, FLAT)                                                                                                      \
    X(EQUAL, FLAT)                                                                                                     \
    X(WHERE, FLAT)                                                                                                     \
    X(BROADCAST, FLAT)                                                                                                 \
    X(PERMUTE, FLAT)                                                                                                   \
    X(SLICE, FLAT)                                                                                                     \
    X(PAD, FLAT)                                                                                                       \
    X(CONCAT, FLAT)                                                                                                    \
    X(SUM, FLAT)                                                                                                       \
    X(MAX, FLAT)                                                                                                       \
    X(ARGMAX, FLAT)                                                                                                    \
    X(GATHER, FLAT)                                                                                                    \
    X(SCATTER_ADD, LINES)                                                                                              \
    X(MATMUL, TILES)                                                                                                   \
    X(SOFTMAX, ROWS)                                                                                                   \
    X(SOFTMAX_BACKWARD, ROWS)                                                                                          \
    X(LOG_SOFTMAX, ROWS)                                                                                               \
    X(LOG_SOFTMAX_BACKWARD, ROWS)                                                                                      \
    X(GELU_TANH, FLAT)                                                                                                 \
    X(GELU_TANH_BACKWARD, FLAT)                                                                                        \
    X(GELU_ERF, FLAT)                                                                                                  \
    X(GELU_ERF_BACKWARD, FLAT)                                                                                         \
    X(SILU, FLAT)                                                                                                      \
    X(SILU_BACKWARD, FLAT)                                                                                             \
    X(LAYER_NORM, ROWS)                                                                                                \
    X(LAYER_NORM_BACKWARD_INPUT, ROWS)                                                                                 \
    X(LAYER_NORM_BACKWARD_PARAMETERS, COLUMNS)                                                                         \
    X(RMS_NORM, ROWS)                                                                                                  \
    X(RMS_NORM_BACKWARD_INPUT, ROWS)                                                                                   \
    X(RMS_NORM_BACKWARD_PARAMETERS, COLUMNS)                                                                           \
    X(EMBEDDING, FLAT)                                                                                                 \
    X(EMBEDDING_BACKWARD, COLUMNS)                                                                                     \
    X(ATTENTION, ATTENTION)                                                                                            \
    X(ATTENTION_BACKWARD, ATTENTION)                                                                                   \
    X(ATTENTION_CACHED, WHOLE)                                                                                         \
    X(CROSS_ENTROPY, ROWS)                                                                                             \
    X(CROSS_ENTROPY_BACKWARD, ROWS)                                                                                    \
    X(HEAD, TILES)                                                                                                     \
    X(HEAD_LOSS, ROWS)                                                                                                 \
    X(HEAD_BACKWARD, ROWS)                                                                                             \
    X(DROPOUT, FLAT)                                                                                                   \
    X(ACCUMULATE, FLAT)                                                                                                \
    X(SUM_SQUARES, BLOCKS)                                                                                             \
    X(ROW_SQUARES, ROWS)                                                                                               \
    X(COLUMN_SQUARES, COLUMNS)                                                                                         \
    X(ROW_PRODUCTS, ROWS)                                                                                              \
    X(COLUMN_PRODUCTS, COLUMNS)                                                                                        \
    X(COMMIT, WHOLE)                                                                                                   \
    X(ADAMW, BLOCKS)                                                                                                   \
    X(FACTORED_MEANS, WHOLE)                                                                                           \
    X(FACTORED_MOMENTUM, WHOLE)                                                                                        \
    X(FACTORED, BLOCKS)                                                                                                \
    X(SGD, BLOCKS)

typedef enum eitp__slot {
#define EITP__SLOT_ENUMERATOR(name, family) EITP__SLOT_##name,
    EITP__SLOTS(EITP__SLOT_ENUMERATOR)
#undef EITP__SLOT_ENUMERATOR
        EITP__SLOT_COUNT
} eitp__slot;

#define EITP__MAX_INPUTS 10
#define EITP__MAX_OUTPUTS 7

/* Columns of logits whose exponentials share a largest: see HEAD. */
#define EITP__HEAD_BLOCK 192

/*
 * What a matrix product does with its sum p = a b + bias before it stores y. `before` gets p where there is such an
 * output; where it is of 16 bits, the activation is of what was stored.
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
} eitp__operand;

/* One execution of a kernel: everything that its items share. */
typedef struct eitp__call {
    eitp__slot slot;
    eitp_dtype dtype; /* column of the kernel table: that of the first floating input, else of the first, else of y */
    int input_count;
    int output_count;
    eitp__operand inputs[EITP__MAX_INPUTS];
    eitp__operand outputs[EITP__MAX_OUTPUTS];
    int64_t integers[EITP_MAX_RANK];
    double reals[4];
    /* Where not NULL, every output becomes carry[0] * output + value instead of value; an output is not read while
     * carry[0] is 0. */
    int accumulates;
    const float *carry; /* with `accumulates`: NULL means 1 */
} eitp__call;

/* Loss and logit gradient of a row whose target is the ignored one (0) or outside the vocabulary (NaN). */
static inline EITP__UNUSED float eitp__loss_without_target(const eitp__call *call, int32_t target) {
    return target == call->integers[0] ? 0.0f : (float)NAN;
}

typedef void (*eitp__kernel_function)(const eitp__call *call, int64_t begin, int64_t end, void *workspace);

typedef struct eitp__kernel {
    eitp__kernel_function run;                   /* NULL: the set has none */
    size_t (*workspace)(const eitp__call *call); /* bytes each thread needs, aligned to EITP__ALIGNMENT; NULL: none */
    int64_t tile_rows;                           /* TILES only */
    int64_t tile_columns;
    const char *set; /* "ref", "avx2", ... */
} eitp__kernel;

/* Which kernel runs a slot for a dtype. It starts as `ref` everywhere and is overwritten slot by slot. */
typedef struct eitp__kernel_table {
    eitp__kernel kernels[EITP__SLOT_COUNT][EITP_DTYPE_COUNT];
} eitp__kernel_table;

/*
 * The instruction sets in the order of preference. Each adds to the kernels of those before it. A row has the
 * enumerator, the name, whether it is in the build, the nominal operations per second of a core in products of F32 and
 * of BF16 (a server's core at 3 GHz, at about two thirds of what its registers allow), and how many BF16 products it
 * adds at once. To add a set, add its row: everything else that a set needs then fails to compile until it is there.
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

/* Each writes the kernels of its set over those in the table; a set that is not in the build writes nothing. */
#define EITP__ISA_REGISTER(isa, name, in_build, f32, bf16, group)                                                      \
    EITP__PRIVATE void eitp__register_##name##_kernels(eitp__kernel_table *table);
EITP__ISAS(EITP__ISA_REGISTER)
#undef EITP__ISA_REGISTER

/* CAST of any dtype to any: for a set that has some of them. */
EITP__PRIVATE void eitp__ref_cast(const eitp__call *call, int64_t begin, int64_t end, void *workspace);

EITP__PRIVATE const char *eitp__slot_name(eitp__slot slot);
EITP__PRIVATE eitp__family eitp__slot_family(eitp__slot slot);

/*
 * An f32 value in two planes: the nearest BF16 (of two equally near the larger in magnitude), and the difference of the
 * bits, which is exact.
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
 * An f32 value in three bytes: the nearest BF16, and 127ths of half its unit in the last place, counted in the bits, so
 * that one that is next to another binade is as fine there. A NaN stays one. The half itself is never reached, so that
 * a value that is read, and split again, is the same three bytes.
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

/* The sizes of a MATMUL call. */
typedef struct eitp__matmul {
    int64_t batch, m, n, k;
    int transpose_a, transpose_b;
    int64_t lda, ldb; /* elements from one stored row to the next; y's is n */
} eitp__matmul;

EITP__PRIVATE eitp__matmul eitp__matmul_sizes(const eitp__call *call);

/* Where batch element `index` starts, in elements, in operand a (which = 0) or b (which = 1). */
EITP__PRIVATE int64_t eitp__matmul_offset(const eitp__call *call, int which, int64_t index);

#endif
