/* Building a report: its numbers, and means with standard errors. */
#ifndef EITP_EMERGENCE_REPORT_H
#define EITP_EMERGENCE_REPORT_H

#include "base/memory.h"
#include "base/status.h"
#include "objective/emergence.h"

/* A mean over the items of samples, as the ratio of two sums. Samples are independent of each other, the items of a
   sample are not. Its standard error is that of a ratio estimator (Cochran, "Sampling Techniques", 1977, 2.11). */
typedef struct eitp__sampled {
    double sum, weight;
    double origin;     /* mean of the first sample; sums of squares are relative to it */
    double xx, xw, ww; /* sums over samples of x * x, x * weight and weight * weight, where x = sum - origin * weight */
    int64_t samples, items;
} eitp__sampled;

/* Adds a sample: the sum over its items, and their number or weight. A sample without items is left out. If a sum is
   not finite, neither is the mean. */
EITP__PRIVATE void eitp__sampled_add(eitp__sampled *sampled, double sum, double weight);

/* Adds the value of a sample as one item. A value that is not finite is undefined, and left out. */
EITP__PRIVATE void eitp__sampled_add_defined(eitp__sampled *sampled, double value);

/* Returns the mean, or NaN without samples. */
EITP__PRIVATE double eitp__sampled_mean(const eitp__sampled *sampled);

/* Returns the standard error, or 0 with fewer than two samples. */
EITP__PRIVATE double eitp__sampled_error(const eitp__sampled *sampled);

/* Adds a number. If it is not finite, adds an omission with the reason `otherwise` instead. */
EITP__PRIVATE eitp_status eitp__report_number(eitp_emergence_report *report, const char *group, const char *name,
                                              double value, int64_t count, double error_of_value, const char *otherwise,
                                              eitp_error *error);
EITP__PRIVATE eitp_status eitp__report_sampled(eitp_emergence_report *report, const char *group, const char *name,
                                               const eitp__sampled *sampled, const char *otherwise, eitp_error *error);
EITP__PRIVATE eitp_status eitp__report_omission(eitp_emergence_report *report, const char *name, const char *reason,
                                                eitp_error *error);

#endif
