/* Shared by the UPDATE kernels: blocks, and how parameters and moments are stored. */
#ifndef EITP_UPDATE_H
#define EITP_UPDATE_H

#include "kernels/kernels.h"

/* Returns the learning rate and the number of the step, from 1. */
static inline EITP__UNUSED const float *eitp__update_rate(const eitp__call *call) {
    return (const float *)call->inputs[EITP__UPDATE_RATE].data;
}

/* Returns the factor of the gradient, and 1 to apply the step or 0 to skip it. */
static inline EITP__UNUSED const float *eitp__update_commit(const eitp__call *call) {
    return (const float *)call->inputs[EITP__UPDATE_COMMIT].data;
}

static inline EITP__UNUSED void *eitp__update_state(const eitp__call *call, int i) {
    return call->inputs[EITP__UPDATE_STATE + i].data;
}

/* Updates elements [first, last), one block, with one rule. Sets its two sums of squares. */
typedef void (*eitp__update_block)(const eitp__call *call, int64_t first, int64_t last, void *workspace, double *sums);

/* Updates blocks [begin, end). */
static inline EITP__UNUSED void eitp__update_blocks(const eitp__call *call, int64_t begin, int64_t end, void *workspace,
                                                    eitp__update_block update) {
    int64_t elements = call->inputs[EITP__UPDATE_PARAMETER].elements;
    for (int64_t block = begin; block < end; block++) {
        int64_t first = block * EITP__SUM_BLOCK, last = first + EITP__SUM_BLOCK;
        update(call, first, last < elements ? last : elements, workspace, (double *)call->outputs[1].data + 2 * block);
    }
}

/* Returns the bytes of workspace: a factored update stores the directions of a block. */
static inline EITP__UNUSED size_t eitp__update_workspace(const eitp__call *call) {
    int is_factored = call->integers[2] == EITP__UPDATE_RULE_FACTORED;
    return is_factored ? EITP__SUM_BLOCK * (call->dtype == EITP_F64 ? sizeof(double) : sizeof(float)) : 0;
}

typedef enum eitp__weight_form {
    EITP__WEIGHT_WIDE,       /* F32 or F64 */
    EITP__WEIGHT_DIFFERENCE, /* F16 with an F32 remainder */
    EITP__WEIGHT_EXACT,      /* BF16 with an I16 remainder */
    EITP__WEIGHT_CORRECTED,  /* BF16 with an I8 correction */
    EITP__WEIGHT_STOCHASTIC  /* BF16 */
} eitp__weight_form;

static inline EITP__UNUSED eitp__weight_form eitp__weight_form_of(const eitp__call *call) {
    if (call->dtype == EITP_F16)
        return EITP__WEIGHT_DIFFERENCE;
    if (call->dtype != EITP_BF16)
        return EITP__WEIGHT_WIDE;
    if (!call->inputs[EITP__UPDATE_REMAINDER].data)
        return EITP__WEIGHT_STOCHASTIC;
    return call->inputs[EITP__UPDATE_REMAINDER].dtype == EITP_I8 ? EITP__WEIGHT_CORRECTED : EITP__WEIGHT_EXACT;
}

/* State layout of ADAMW and SGD. */
typedef enum eitp__moment_form {
    EITP__MOMENT_WIDE,    /* m and v */
    EITP__MOMENT_PACKED,  /* m and v in 8 bits */
    EITP__MOMENT_VELOCITY /* velocity, stored as m; no v */
} eitp__moment_form;

static inline EITP__UNUSED eitp__moment_form eitp__moment_form_of(const eitp__call *call) {
    if (call->integers[2] == EITP__UPDATE_RULE_SGD)
        return EITP__MOMENT_VELOCITY;
    return call->inputs[EITP__UPDATE_STATE + 2].data ? EITP__MOMENT_PACKED : EITP__MOMENT_WIDE;
}

/* Returns the random key of stochastic rounding. */
static inline EITP__UNUSED const int64_t *eitp__rounding_key(const eitp__call *call) {
    return (const int64_t *)call->inputs[EITP__UPDATE_KEY].data;
}

/*
 * Rounds to one of the two nearest BF16 values, with 16 random bits in `half`. The expected value of the result is
 * `value`. Finite values stay finite, NaN stays NaN.
 */
static inline EITP__UNUSED uint16_t eitp__round_bf16(float value, uint16_t half) {
    uint32_t bits = eitp__bits_of_float(value), magnitude = bits & 0x7fffffff, rounded = magnitude + half;
    uint32_t largest = magnitude > 0x7f7fffff ? magnitude : 0x7f7fffff;
    rounded = rounded < largest ? rounded : largest;
    return (uint16_t)((bits & 0x80000000) >> 16 | rounded >> 16 | (magnitude > 0x7f800000 ? 0x40 : 0));
}

/*
 * Returns the factor of the directions in a block of a factored update: the learning rate, reduced if the root mean
 * square of the directions exceeds the limit. The limit applies to each block, not to the whole parameter, because a
 * block's gradient is in the cache, and so that a few outlying rows do not slow down the rest.
 */
static inline EITP__UNUSED double eitp__factored_size(const eitp__call *call, double sum, int64_t count) {
    double rate = (double)eitp__update_rate(call)[0], size = sqrt(sum / (double)count);
    return size > EITP__FACTORED_LIMIT ? rate * EITP__FACTORED_LIMIT / size : rate;
}

/* Number of elements whose random halves are drawn at once, and the number of Philox blocks they need. */
enum { EITP__HALVES = 128, EITP__HALVES_BLOCKS = 16 };

/*
 * Returns the 16 random bits of an element. Of EITP__HALVES elements, the first 16 use the lower halves of the first
 * words of 16 blocks, the next 16 the lower halves of the second words, and so on. After the fourth words come the
 * upper halves, in the same order. Vector code therefore never permutes blocks.
 */
static inline EITP__UNUSED uint16_t eitp__random_half(const int64_t *key, uint32_t rng_stream, uint64_t number) {
    uint32_t words[4], within = (uint32_t)(number % EITP__HALVES), which = within / EITP__HALVES_BLOCKS;
    uint64_t block = number / EITP__HALVES * EITP__HALVES_BLOCKS + within % EITP__HALVES_BLOCKS;
    eitp__philox((uint64_t)key[0], (uint64_t)key[1], rng_stream, block, words);
    return (uint16_t)(words[which & 3] >> (which & 4) * 4);
}

#endif
