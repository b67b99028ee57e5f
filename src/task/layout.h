/* Where samples lie in the rows of a pass. */
#ifndef EITP_LAYOUT_H
#define EITP_LAYOUT_H

#include "base/base.h"
#include "base/platform.h"

/*
 * Samples follow one another, those of a micro-batch without gaps. Each micro-batch begins at a multiple of `group`
 * rows, where a sum over rows can be cut without changing its bits. The rows before it are a sequence of their own.
 */
typedef struct eitp__layout {
    int64_t samples;     /* capacity */
    int64_t rows;        /* of a sample, at most */
    int64_t micro_batch; /* samples */
    int64_t group;       /* 1: micro-batches have no gaps between them */
    int rows_vary;       /* samples may have fewer rows */
} eitp__layout;

/* One micro-batch. */
EITP__PRIVATE eitp__layout eitp__layout_plain(int64_t samples, int64_t rows);

/* Rows from the beginning of a full micro-batch to that of the next. */
EITP__PRIVATE int64_t eitp__layout_stride(const eitp__layout *layout);

/* The first multiple of `group` from `row` on. */
EITP__PRIVATE int64_t eitp__layout_align(const eitp__layout *layout, int64_t row);

/* Most rows of a gap. */
EITP__PRIVATE int64_t eitp__layout_gap(const eitp__layout *layout);

/* Rows that `count` samples take at most, gaps between them included. */
EITP__PRIVATE int64_t eitp__layout_rows(const eitp__layout *layout, int64_t count);

/* Where a sample is in values for each sample, in which micro-batches begin at multiples of `group` too. */
EITP__PRIVATE int64_t eitp__layout_place(const eitp__layout *layout, int64_t sample);

/* Samples that there are places for, empty ones included. */
EITP__PRIVATE int64_t eitp__layout_places(const eitp__layout *layout);

/* Samples and gaps, at most. */
EITP__PRIVATE int64_t eitp__layout_sequences(const eitp__layout *layout);

/* Rows of the longest sequence, a sample or a gap. */
EITP__PRIVATE int64_t eitp__layout_longest(const eitp__layout *layout);

#endif
