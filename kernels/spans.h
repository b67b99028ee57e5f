/*
 * The dimensions of operands, where neighbours that are treated alike are one span: of two that broadcast, with the one
 * loop over them that binary kernels of every set share, and of one that is reduced.
 */
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

/* The spans of the input of a reduction, from the last: each is kept or reduced. */
typedef struct eitp__sum_spans {
    int count; /* at least 1 */
    int64_t size[EITP_MAX_RANK];
    int64_t stride[EITP_MAX_RANK];
    int summed[EITP_MAX_RANK];
    int64_t terms; /* combinations of the summed spans outside the innermost */
} eitp__sum_spans;

EITP__PRIVATE eitp__sum_spans eitp__find_sum_spans(const eitp__call *call);

/*
 * The offset of combination `index` of the spans outside the innermost: of the summed ones, or of those that are kept.
 */
static inline EITP__UNUSED int64_t eitp__sum_offset(const eitp__sum_spans *spans, int summed, int64_t index) {
    int64_t offset = 0;
    for (int i = 1; i < spans->count; i++) {
        if (spans->summed[i] != summed)
            continue;
        offset += index % spans->size[i] * spans->stride[i];
        index /= spans->size[i];
    }
    return offset;
}

#endif
