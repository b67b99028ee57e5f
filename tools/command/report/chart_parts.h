/* Shared by the files of the chart maker. */
#ifndef COMMAND_REPORT_CHART_PARTS_H
#define COMMAND_REPORT_CHART_PARTS_H

#include "report/chart.h"
#include "report/markup.h"

EITP_BEGIN_DECLARATIONS

enum {
    CHART_LINE_HEIGHT = 18, /* pixels of a line of text */
    CHART_CHARACTER = 7,    /* pixels that a character has on average, at most */
    CHART_NARROW = 330      /* pixels that the plot of a chart without a width has at least */
};

/* Values of an axis, from its low end to its high end. */
typedef struct chart_scale {
    double low, high; /* low < high */
    int is_logarithmic;
} chart_scale;

/* The extents of an axis whose values lie between low and high; not finite if there are none. */
chart_scale chart_scale_of(const chart_axis *axis, double low, double high);

/* Where a value is: 0 at the low end, 1 at the high end. NaN for one that the axis does not have. */
double chart_place(const chart_scale *s, double value);

/* Round values between the ends, at most CHART_TICKS. Returns how many. */
enum { CHART_TICKS = 12 };
size_t chart_ticks(const chart_scale *s, chart_format format, size_t about, double *ticks);

/* A value beside a tick: as many digits as tell it from its neighbours. */
chart_value chart_tick_text(chart_format format, const double *ticks, size_t count, size_t index);

/* The pixels that a text needs at most. */
int chart_text_width(const char *text);

/* Opens <svg> with its name and description, and, of a file, its style and title: what follows has `body` pixels of
   height, and begins `left` pixels from the left edge. Close it. */
void chart_open(text_buffer *t, const chart_frame *f, int width, int body, int left, int right);
void chart_close(text_buffer *t, const chart_frame *f);

/* Adds coloured squares with names, in lines of `width` pixels from `left` on. Returns the height. Without a buffer it
   is only measured. */
typedef struct chart_key {
    const char *label;
    int colour;
} chart_key;
int chart_add_legend(text_buffer *t, const chart_key *keys, size_t count, int left, int width);

EITP_END_DECLARATIONS

#endif
