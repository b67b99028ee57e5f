/*
 * Charts: static SVG without scripts, for a page or as a separate file. Colours are CSS custom properties, which
 * chart_style declares for light and dark. A chart in a page is as wide as its box, with text of constant size; a chart
 * in a file has a width.
 */
#ifndef COMMAND_REPORT_CHART_H
#define COMMAND_REPORT_CHART_H

#include "text.h"

EITP_BEGIN_DECLARATIONS

#define CHART_COLOURS 8

typedef enum chart_format {
    CHART_NUMBER = 0,
    CHART_COUNT, /* "1.5M" */
    CHART_BYTES,
    CHART_SECONDS,
    CHART_PERCENT,
    CHART_STEPS /* whole numbers, in full */
} chart_format;

/* Formats a value with at most `digits` significant digits and its unit, such as "1.5 GB". At most 39 bytes. */
typedef struct chart_value {
    char text[40];
} chart_value;
chart_value chart_format_value(chart_format format, double value, int digits);

/* Members that all charts have. */
typedef struct chart_frame {
    const char *id;          /* unique in the page: letters, digits and hyphens */
    const char *title;       /* its name */
    const char *description; /* alternative text; may be NULL */
    int width;               /* pixels; 0: as wide as its box */
    int height;              /* pixels of the plot; 0: 200 */
    int is_file;             /* separate file: with the title as text, a background, and chart_style. Needs a width */
} chart_frame;

typedef struct chart_axis {
    const char *title; /* may be NULL */
    chart_format format;
    int is_logarithmic; /* values that are not positive are gaps */
    int has_zero;       /* extents include 0; not with is_logarithmic */
    double low, high;   /* extents; equal: use the extents of the points */
} chart_axis;

typedef struct chart_point {
    double x, y;      /* not finite: a gap */
    double low, high; /* of the band, or of the error bar; not finite: none */
} chart_point;

typedef enum chart_kind {
    CHART_LINE = 0,
    CHART_DASHED,
    CHART_FAINT, /* a thin line behind the others, without a legend entry or values on hover */
    CHART_DOTS   /* joined by a thin line; low and high are error bars, not a band */
} chart_kind;

typedef struct chart_series {
    const char *label;
    const chart_point *points; /* by x */
    size_t count;
    int colour; /* 0 to CHART_COLOURS - 1 */
    chart_kind kind;
} chart_series;

/* A vertical line, such as for an event, with its label on hover, or a horizontal one, such as for a limit, with its
   label next to it. */
typedef struct chart_mark {
    double at;
    const char *label;
    int is_alarming;
} chart_mark;

typedef struct chart_curves {
    chart_frame frame;
    chart_axis x, y;
    const chart_series *series;
    size_t series_count;
    const chart_mark *marks; /* vertical */
    size_t mark_count;
    const chart_mark *levels; /* horizontal; the extents include them */
    size_t level_count;
} chart_curves;

/* Adds a chart of curves. Without a finite point it has axes and the words "no values". */
void chart_add_curves(text_buffer *t, const chart_curves *c);

/* A horizontal bar of a chart with stacked rows. */
typedef struct chart_bar {
    const char *label;
    const char *text;     /* at the end of the label's line, such as "1.5 GB"; NULL: none */
    const double *values; /* its chart_bars.segment_count segments; negative or not finite: none */
} chart_bar;

typedef struct chart_bars {
    chart_frame frame; /* the height follows from the bars */
    const chart_bar *bars;
    size_t bar_count;
    const char *const *segments; /* names for the legend; NULL: one segment, whose colour is the bar's own */
    const int *colours;          /* of the segments, or of the bars without segment names; NULL: 0, 1, ... or all 0 */
    size_t segment_count;
    chart_format format; /* of values on hover */
    double most;         /* value of the full width; 0: the longest bar */
} chart_bars;

void chart_add_bars(text_buffer *t, const chart_bars *b);

/* A confusion matrix of counts: rows are true labels, columns are predictions. */
typedef struct chart_matrix {
    chart_frame frame; /* the size follows from the matrix */
    const char *const *names;
    size_t size;
    const double *counts; /* size * size, by rows */
    const char *row_title, *column_title;
} chart_matrix;

void chart_add_matrix(text_buffer *t, const chart_matrix *m);

/* Adds the CSS rules that charts need, for the <style> of a page. */
void chart_style(text_buffer *t);

EITP_END_DECLARATIONS

#endif
