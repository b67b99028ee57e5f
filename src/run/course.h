/*
 * The course of a scalar over a whole run, in bounded memory: medians of small groups of values, averaged in blocks.
 * When the blocks are full, neighbouring blocks are merged, and new blocks are twice as wide. The latest half of the
 * blocks thus always covers the latest half of the run, and the usual value follows a run of any length.
 */
#ifndef EITP_COURSE_H
#define EITP_COURSE_H

#include "base/json.h"
#include "base/trend.h"

/* Values per group, number of blocks, and blocks from one check to the next. */
enum { EITP__COURSE_GROUP = 8, EITP__COURSE_BLOCKS = 64, EITP__COURSE_LOOK = 8 };

typedef struct eitp__course {
    double group[EITP__COURSE_GROUP]; /* values of the open group */
    size_t grouped;
    double blocks[EITP__COURSE_BLOCKS]; /* means of the medians of their groups */
    size_t count;
    int64_t width;  /* groups per block; 0: none yet */
    double sum;     /* of the medians in the open block */
    int64_t summed; /* number of medians in `sum` */
    double noise;   /* estimated standard deviation of the noise */
    int64_t noises; /* groups it was estimated from */
    int is_single;  /* 1: each value is a group, for values without noise */
} eitp__course;

/* Flags for what a value completes: a group, a block, and a check, which is due every EITP__COURSE_LOOK blocks once
   there are 32. */
enum { EITP__COURSE_GROUPED = 1, EITP__COURSE_BLOCKED = 2, EITP__COURSE_LOOKS = 4 };

/* Adds a finite value and returns the flags. If a group is complete, stores its median in *median. */
EITP__PRIVATE int eitp__course_add(eitp__course *course, double value, double *median);

/* Returns the latest half of the blocks, and stores their number in *count. */
EITP__PRIVATE const double *eitp__course_latest(const eitp__course *course, size_t *count);

/* Returns the number of values per block. */
EITP__PRIVATE int64_t eitp__course_width(const eitp__course *course);

/* Returns the mean of the first or the second half of the latest blocks, or 0 without blocks. */
EITP__PRIVATE double eitp__course_mean(const eitp__course *course, int is_second);

/* Fits a trend per block to the latest half of the blocks. Returns 0 if there are too few. */
EITP__PRIVATE int eitp__course_fit(const eitp__course *course, eitp_trend *trend);

/* Append the course as member `name` of a JSON object, and read it from one. */
EITP__PRIVATE void eitp__course_write(const eitp__course *course, const char *name, eitp__buffer *text);
EITP__PRIVATE eitp_status eitp__course_read(eitp__course *course, const char *name, const eitp_json *parent,
                                            eitp_error *error);

#endif
