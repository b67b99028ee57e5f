/* The layout of samples in the rows of a pass. */
#ifndef EITP_LAYOUT_H
#define EITP_LAYOUT_H

#include "base/base.h"
#include "base/platform.h"

/* Samples are packed without gaps within a micro-batch. Each micro-batch starts at a multiple of `group` rows, where a
   sum over rows can be split without changing its bits. The gap before it is a separate sequence. */
typedef struct eitp__layout {
    int64_t samples;     /* maximum number of samples */
    int64_t rows;        /* maximum number of rows of a sample */
    int64_t micro_batch; /* samples per micro-batch */
    int64_t group;       /* 1: no gaps between micro-batches */
    int rows_vary;       /* samples may have fewer rows */
    int64_t joined;      /* samples per group of statistics: 1, or all samples of a micro-batch */
} eitp__layout;

/* Returns the layout of a single micro-batch. */
EITP__PRIVATE eitp__layout eitp__layout_plain(int64_t samples, int64_t rows);

/* Returns the number of rows from the start of a full micro-batch to the start of the next. */
EITP__PRIVATE int64_t eitp__layout_stride(const eitp__layout *layout);

/* Returns `row` rounded up to a multiple of `group`. */
EITP__PRIVATE int64_t eitp__layout_align(const eitp__layout *layout, int64_t row);

/* Returns the maximum number of rows of a gap. */
EITP__PRIVATE int64_t eitp__layout_gap(const eitp__layout *layout);

/* Returns the maximum number of rows of `count` samples, including the gaps between them. */
EITP__PRIVATE int64_t eitp__layout_rows(const eitp__layout *layout, int64_t count);

/* Returns the index of a sample in per-sample values, where micro-batches also start at multiples of `group`. */
EITP__PRIVATE int64_t eitp__layout_index(const eitp__layout *layout, int64_t sample);

/* Returns the number of per-sample values, including unused ones. */
EITP__PRIVATE int64_t eitp__layout_indices(const eitp__layout *layout);

/* Returns the number of groups of statistics, each of `joined` samples. */
EITP__PRIVATE int64_t eitp__layout_groups(const eitp__layout *layout);

/* Returns the maximum number of samples and gaps. */
EITP__PRIVATE int64_t eitp__layout_sequences(const eitp__layout *layout);

/* The same if each sample may be two sequences. */
EITP__PRIVATE int64_t eitp__layout_split_sequences(const eitp__layout *layout);

/* Returns the maximum number of rows of a sequence, which is a sample or a gap. */
EITP__PRIVATE int64_t eitp__layout_max_sequence_rows(const eitp__layout *layout);

#endif
