/*
 * Collapses adjacent dimensions that behave alike into spans, for broadcasting and for reductions. Also has the loop
 * over spans that the binary kernels of every set share.
 */
#ifndef EITP_SPANS_H
#define EITP_SPANS_H

#include "kernels/kernels.h"

/*
 * Dimensions of output 0, innermost first. Adjacent dimensions are one span if each of inputs 0 and 1 is repeated in
 * both or in neither.
 */
typedef struct eitp__spans {
    int count; /* at least 1 */
    int64_t size[EITP_MAX_RANK];
    int64_t strides[2][EITP_MAX_RANK]; /* 0 if repeated */
} eitp__spans;

EITP__PRIVATE eitp__spans eitp__find_spans(const eitp__call *call);

/* Returns the offset in input `which` for element `index` of the output. */
EITP__PRIVATE int64_t eitp__span_offset(const eitp__spans *spans, int which, int64_t index);

/* Computes `count` elements of y. An operand that does not advance repeats its first element. */
typedef void (*eitp__binary_span)(const void *a, int a_advances, const void *b, int b_advances, void *y, int64_t count);

/* Computes elements [begin, end) of a binary slot, one piece of the innermost span at a time. */
EITP__PRIVATE void eitp__run_binary(const eitp__call *call, int64_t begin, int64_t end, eitp__binary_span compute);

/* Spans of the input of a reduction, innermost first. Each is either kept or reduced. */
typedef struct eitp__sum_spans {
    int count; /* at least 1 */
    int64_t size[EITP_MAX_RANK];
    int64_t stride[EITP_MAX_RANK];
    int summed[EITP_MAX_RANK];
    int64_t terms; /* number of index combinations of the summed spans other than the innermost */
} eitp__sum_spans;

EITP__PRIVATE eitp__sum_spans eitp__find_sum_spans(const eitp__call *call);

/*
 * Returns the offset of index combination `index` of the spans other than the innermost: the summed ones if `summed` is
 * 1, the kept ones if it is 0.
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
