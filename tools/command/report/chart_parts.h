/* Shared declarations of the chart files. */
#ifndef COMMAND_REPORT_CHART_PARTS_H
#define COMMAND_REPORT_CHART_PARTS_H

#include "report/chart.h"
#include "report/markup.h"

EITP_BEGIN_DECLARATIONS

enum {
    CHART_LINE_HEIGHT = 18, /* pixels of a line of text */
    CHART_CHARACTER = 7,    /* upper bound for the average pixels of a character */
    CHART_NARROW = 330      /* least pixels of the plot in a chart without a width */
};

/* The values of an axis, from its low end to its high end. */
typedef struct chart_scale {
    double low, high; /* low < high */
    int is_logarithmic;
} chart_scale;

/* Returns the scale of an axis with values from low to high, which are not finite without values. */
chart_scale chart_scale_of(const chart_axis *axis, double low, double high);

/* Returns the position of a value: 0 at the low end, 1 at the high end. NaN if the axis cannot show it. */
double chart_place(const chart_scale *s, double value);

/* Finds round values between the ends, at most CHART_TICKS. Returns their number. */
enum { CHART_TICKS = 12 };
size_t chart_ticks(const chart_scale *s, chart_format format, size_t about, double *ticks);

/* Formats the value of a tick with enough digits to distinguish it from its neighbours. */
chart_value chart_tick_text(chart_format format, const double *ticks, size_t count, size_t index);

/* Returns an upper bound for the width of `text` in pixels. */
int chart_text_width(const char *text);

/* Opens <svg> with its name and description, and for a file with its style and title. The content has `body` pixels of
   height and starts `left` pixels from the left edge. Close it. */
void chart_open(text_buffer *t, const chart_frame *f, int width, int body, int left, int right);
void chart_close(text_buffer *t, const chart_frame *f);

/* Adds coloured squares with names, in lines of `width` pixels from `left` on. Returns the height. Without a buffer it
   only measures. */
typedef struct chart_key {
    const char *label;
    int colour;
} chart_key;
int chart_add_legend(text_buffer *t, const chart_key *keys, size_t count, int left, int width);

EITP_END_DECLARATIONS

#endif
