/* Statistics of recorded numbers, and how amounts and foreign texts are printed. */
#ifndef COMMAND_REPORT_NUMBERS_H
#define COMMAND_REPORT_NUMBERS_H

#include "text.h"

EITP_BEGIN_DECLARATIONS

/* The sum of all records: their means times their counts. */
double numbers_total(const eitp_history_point *points, size_t count);

/* The value below which a part `q` of the values is, interpolated between the two next to it; NaN: there is none. */
double numbers_quantile(const double *values, size_t count, double q);

/* The mean of values in order of time, and its standard error. What a straight line through them leaves counts as
   noise, whose autocorrelation r at lag 1 multiplies the variance of the mean by (1 + r) / (1 - r). The line makes r
   too small: (n r + 2) / (n - 4) corrects that, as in eitp_trend_fit. */
typedef struct numbers_mean {
    size_t count;
    double mean;  /* NaN: there are no values */
    double error; /* NaN: fewer than 8 values */
} numbers_mean;
numbers_mean numbers_average(const double *values, size_t count);

/* The autocorrelation at lag 1 of values whose mean is about 0: at least 0, at most 0.98. */
double numbers_autocorrelation(const double *values, size_t count);

/* Adds "950", "61.4 k", "1.23 M"; and "14.2 s", "12.5 min", "3.41 h"; "-" for NaN. */
void numbers_add_amount(text_buffer *t, double value);
void numbers_add_seconds(text_buffer *t, double seconds);

/* Adds a text of a file, of at most `limit` bytes: what is not UTF-8 or controls a terminal becomes '?', and what is
   left out "...". Returns the number of columns, taking a character for one. */
int numbers_add_text(text_buffer *t, const char *value, size_t limit);

/* Adds spaces up to `width` columns, at least one. */
void numbers_add_padding(text_buffer *t, int columns, int width);

EITP_END_DECLARATIONS

#endif
