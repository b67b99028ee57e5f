/* From what a run has recorded to the points of a chart. */
#ifndef COMMAND_REPORT_CURVES_H
#define COMMAND_REPORT_CURVES_H

#include "records/recorded_run.h"
#include "report/chart.h"

EITP_BEGIN_DECLARATIONS

/* What a horizontal axis counts: steps, their items, or seconds of training, as comparisons count them (totals.h). */
typedef enum curve_x { CURVE_STEP, CURVE_ITEMS, CURVE_TIME, CURVE_X_COUNT } curve_x;

/* What the steps of a run have in sum: for horizontal axes. Create it with curve_places_read. */
typedef struct curve_places {
    size_t count[CURVE_X_COUNT];        /* 0: the run has not recorded it; of CURVE_STEP always 0 */
    chart_point *totals[CURVE_X_COUNT]; /* x: the step, y: the sum up to and with it */
} curve_places;

void curve_places_read(const recorded_run *r, curve_places *places);
void curve_places_release(curve_places *places);

/* Where a step is on an axis; NaN: unknown. */
double curve_place(const curve_places *places, curve_x x, double step);

typedef struct curve_settings {
    double smoothing; /* weight of earlier values, 0: none; negative: by the number of points */
    int64_t every;    /* a point for as many steps; 0: as they are recorded */
    size_t most;      /* points of a curve: more are joined, with their minimum and maximum */
    int has_band;     /* of the minimum and maximum */
} curve_settings;

typedef struct curve {
    chart_point *points, *raw; /* by step; raw: before smoothing, NULL where the band shows it or nothing is smoothed */
    size_t count, raw_count;
} curve;

/* The curve of a number of the run, by step. Release it. */
void curve_read(const recorded_run *r, const char *name, const curve_settings *settings, curve *c);

/* The evaluations that have a number, with an error bar of `error` (NULL: none). */
void curve_read_evaluations(const recorded_run *r, const char *name, const char *error, curve *c);
void curve_release(curve *c);

/* The points with another horizontal axis, in a new array; those without a place are gaps. */
chart_point *curve_points_on(const chart_point *points, size_t count, const curve_places *places, curve_x x);

EITP_END_DECLARATIONS

#endif
