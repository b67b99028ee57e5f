/* Turns the records of a run into points of a chart. */
#ifndef COMMAND_REPORT_CURVES_H
#define COMMAND_REPORT_CURVES_H

#include "records/recorded_run.h"
#include "report/chart.h"

EITP_BEGIN_DECLARATIONS

/* The unit of a horizontal axis: steps, items, or seconds of training, counted as in comparisons (totals.h). */
typedef enum curve_x { CURVE_STEP, CURVE_ITEMS, CURVE_TIME, CURVE_X_COUNT } curve_x;

/* Running totals of a run's steps, for horizontal axes. Create it with axis_totals_read. */
typedef struct axis_totals {
    size_t count[CURVE_X_COUNT];        /* 0: not recorded; always 0 for CURVE_STEP */
    chart_point *totals[CURVE_X_COUNT]; /* x: the step, y: the sum up to and including it */
} axis_totals;

void axis_totals_read(const recorded_run *r, axis_totals *places);
void axis_totals_release(axis_totals *places);

/* Returns the position of a step on an axis, or NaN if unknown. */
double curve_place(const axis_totals *places, curve_x x, double step);

typedef struct curve_settings {
    double smoothing; /* weight of earlier values; 0: none; negative: chosen from the number of points */
    int64_t every;    /* one point per this many steps; 0: as recorded */
    size_t most;      /* largest number of points; more are joined, with their minimum and maximum */
    int has_band;     /* from minimum to maximum */
} curve_settings;

typedef struct curve {
    chart_point *points, *raw; /* by step; raw: before smoothing, NULL if the band shows it or without smoothing */
    size_t count, raw_count;
} curve;

/* Reads the curve of a number of the run, by step. Release it. */
void curve_read(const recorded_run *r, const char *name, const curve_settings *settings, curve *c);

/* Reads the evaluations with a number, with error bars from `error` (NULL: none). */
void curve_read_evaluations(const recorded_run *r, const char *name, const char *error, curve *c);
void curve_release(curve *c);

/* Returns the points on another horizontal axis, in a new array. Points without a position are gaps. */
chart_point *curve_points_on(const chart_point *points, size_t count, const axis_totals *places, curve_x x);

EITP_END_DECLARATIONS

#endif
