/*
 * The course of a scalar over a whole run, in bounded memory: medians of small groups of values, averaged in blocks.
 * When there is no room for another block, neighbours are merged, and blocks are twice as wide from then on. So the
 * latest half of the blocks covers the latest half of the run: what is usual follows the run, however long it is.
 */
#ifndef EITP_COURSE_H
#define EITP_COURSE_H

#include "base/json.h"
#include "base/trend.h"

/* Values of a group, blocks, and blocks from one look to the next. */
enum { EITP__COURSE_GROUP = 8, EITP__COURSE_BLOCKS = 64, EITP__COURSE_LOOK = 8 };

typedef struct eitp__course {
    double group[EITP__COURSE_GROUP]; /* the values of the open group */
    size_t grouped;
    double blocks[EITP__COURSE_BLOCKS]; /* the mean of their groups' medians */
    size_t count;
    int64_t width;  /* groups in a block; 0: none yet */
    double sum;     /* of the medians in the open block */
    int64_t summed; /* number of them */
    double noise;   /* deviation from one value to the next */
    int64_t noises; /* groups it was estimated from */
    int is_single;  /* a group is one value: for values without noise */
} eitp__course;

/* What a value completes: a sum. A look is due when a few blocks are, as soon as there are 32. */
enum { EITP__COURSE_GROUPED = 1, EITP__COURSE_BLOCKED = 2, EITP__COURSE_LOOKS = 4 };

/* Adds a finite value. Stores the median of the group in *median if it is complete. */
EITP__PRIVATE int eitp__course_add(eitp__course *course, double value, double *median);

/* The latest half of the blocks, and their number in *count. */
EITP__PRIVATE const double *eitp__course_latest(const eitp__course *course, size_t *count);

/* Values in a block. */
EITP__PRIVATE int64_t eitp__course_width(const eitp__course *course);

/* The mean of the first or the second half of the latest blocks; 0 if there are none. */
EITP__PRIVATE double eitp__course_mean(const eitp__course *course, int is_second);

/* Fits a trend to the latest half of the blocks, per block. 0: there are too few. */
EITP__PRIVATE int eitp__course_fit(const eitp__course *course, eitp_trend *trend);

/* Adds the course as the member `name` of a JSON object, and reads it from one. */
EITP__PRIVATE void eitp__course_write(const eitp__course *course, const char *name, eitp__buffer *text);
EITP__PRIVATE eitp_status eitp__course_read(eitp__course *course, const char *name, const eitp_json *parent,
                                            eitp_error *error);

#endif
