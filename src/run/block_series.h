/*
 * A scalar over a whole run in bounded memory: medians of small groups of values, averaged in blocks.
 * When the blocks are full, neighbouring blocks are merged, and new blocks are twice as wide. The latest half of the
 * blocks thus always covers the latest half of the run, and the usual value follows a run of any length.
 */
#ifndef EITP_BLOCK_SERIES_H
#define EITP_BLOCK_SERIES_H

#include "base/json.h"
#include "base/trend.h"

/* Values per group, number of blocks, and blocks from one check to the next. */
enum { EITP__BLOCK_SERIES_GROUP = 8, EITP__BLOCK_SERIES_BLOCKS = 64, EITP__BLOCK_SERIES_CHECK_INTERVAL = 8 };

typedef struct eitp__block_series {
    double group[EITP__BLOCK_SERIES_GROUP]; /* values of the open group */
    size_t grouped;
    double blocks[EITP__BLOCK_SERIES_BLOCKS]; /* means of the medians of their groups */
    size_t count;
    int64_t width;  /* groups per block; 0: none yet */
    double sum;     /* of the medians in the open block */
    int64_t summed; /* number of medians in `sum` */
    double noise;   /* estimated standard deviation of the noise */
    int64_t noises; /* groups it was estimated from */
    int is_single;  /* 1: each value is a group, for values without noise */
} eitp__block_series;

/* Flags for what a value completes: a group, a block, and a check, which is due every EITP__BLOCK_SERIES_CHECK_INTERVAL
   blocks once there are 32. */
enum { EITP__BLOCK_SERIES_GROUPED = 1, EITP__BLOCK_SERIES_BLOCKED = 2, EITP__BLOCK_SERIES_CHECK_DUE = 4 };

/* Adds a finite value and returns the flags. If a group is complete, stores its median in *median. */
EITP__PRIVATE int eitp__block_series_add(eitp__block_series *series, double value, double *median);

/* Returns the latest half of the blocks, and stores their number in *count. */
EITP__PRIVATE const double *eitp__block_series_latest(const eitp__block_series *series, size_t *count);

/* Returns the number of values per block. */
EITP__PRIVATE int64_t eitp__block_series_width(const eitp__block_series *series);

/* Returns the mean of the first or the second half of the latest blocks, or 0 without blocks. */
EITP__PRIVATE double eitp__block_series_mean(const eitp__block_series *series, int is_second);

/* Fits a trend per block to the latest half of the blocks. Returns 0 if there are too few. */
EITP__PRIVATE int eitp__block_series_fit(const eitp__block_series *series, eitp_trend *trend);

/* Append the series as member `name` of a JSON object, and read it from one. */
EITP__PRIVATE void eitp__block_series_write(const eitp__block_series *series, const char *name, eitp__buffer *text);
EITP__PRIVATE eitp_status eitp__block_series_read(eitp__block_series *series, const char *name, const eitp_json *parent,
                                                  eitp_error *error);

#endif
