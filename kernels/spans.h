/* The spans of two operands that broadcast, and the one loop over them that binary kernels of every set share. */
#ifndef EITP_SPANS_H
#define EITP_SPANS_H

#include "kernels/kernels.h"

/*
 * The dimensions of output 0, from the last. Neighbours in which each of inputs 0 and 1 is repeated, or is not, are one
 * span.
 */
typedef struct eitp__spans {
    int count; /* at least 1 */
    int64_t size[EITP_MAX_RANK];
    int64_t strides[2][EITP_MAX_RANK]; /* 0: repeated */
} eitp__spans;

EITP__PRIVATE eitp__spans eitp__find_spans(const eitp__call *call);

/* The element of input `which` that element `index` of the output is computed from. */
EITP__PRIVATE int64_t eitp__span_offset(const eitp__spans *spans, int which, int64_t index);

/* Computes `count` elements of y. Those of an operand that does not advance are its first one, repeated. */
typedef void (*eitp__binary_span)(const void *a, int a_advances, const void *b, int b_advances, void *y, int64_t count);

/* Elements [begin, end) of a binary slot, a piece of the innermost span at a time. */
EITP__PRIVATE void eitp__run_binary(const eitp__call *call, int64_t begin, int64_t end, eitp__binary_span compute);

#endif
