/* Statistics of recorded numbers; printing of amounts and of text from files. */
#ifndef COMMAND_REPORT_NUMBERS_H
#define COMMAND_REPORT_NUMBERS_H

#include "text.h"

EITP_BEGIN_DECLARATIONS

/* Returns the sum of all records: their means times their counts. */
double numbers_total(const eitp_history_point *points, size_t count);

/* Returns the `q` quantile of the values, interpolated between neighbours; NaN if there are no values. */
double numbers_quantile(const double *values, size_t count, double q);

/* The mean of values in time order, and its standard error. The residuals from a straight line count as noise, whose
   autocorrelation r at lag 1 multiplies the variance of the mean by (1 + r) / (1 - r). Fitting the line biases r
   downwards; (n r + 2) / (n - 4) corrects this, as in eitp_trend_fit. */
typedef struct numbers_mean {
    size_t count;
    double mean;  /* NaN: there are no values */
    double error; /* NaN: fewer than 8 values */
} numbers_mean;
numbers_mean numbers_average(const double *values, size_t count);

/* Returns the autocorrelation at lag 1 of values with a mean of about 0: at least 0, at most 0.98. */
double numbers_autocorrelation(const double *values, size_t count);

/* Adds "950", "61.4 k", "1.23 M"; and "14.2 s", "12.5 min", "3.41 h"; "-" for NaN. */
void numbers_add_amount(text_buffer *t, double value);
void numbers_add_seconds(text_buffer *t, double seconds);

/* Adds text from a file, at most `limit` bytes: invalid UTF-8 and control characters become '?', and the rest "...".
   Returns the number of columns, counting one per character. */
int numbers_add_text(text_buffer *t, const char *value, size_t limit);

/* Adds spaces up to `width` columns, at least one. */
void numbers_add_padding(text_buffer *t, int columns, int width);

EITP_END_DECLARATIONS

#endif
