/* Building a report of numbers, and means with standard errors for it. */
#ifndef EITP_EMERGENCE_REPORT_H
#define EITP_EMERGENCE_REPORT_H

#include "base/memory.h"
#include "base/status.h"
#include "objective/emergence.h"

/*
 * A mean over items, of samples that are independent of each other while the items of one are not: the ratio of two
 * sums. Its standard error is that of a ratio estimator (Cochran, "Sampling Techniques", 1977, 2.11).
 */
typedef struct eitp__sampled {
    double sum, weight;
    double origin;     /* the first sample's mean, which the sums of squares are about */
    double xx, xw, ww; /* sums over samples of products of x, which is sum - origin * weight, and the weight */
    int64_t samples, items;
} eitp__sampled;

/* Adds a sample: the sum over its items, and their number or weight. One without items is left out. If a sum is not
   finite, the mean is not. */
EITP__PRIVATE void eitp__sampled_add(eitp__sampled *sampled, double sum, double weight);

/* Adds the value of a sample as one item; one that is not finite is undefined, and left out. */
EITP__PRIVATE void eitp__sampled_add_defined(eitp__sampled *sampled, double value);

/* NaN without samples. */
EITP__PRIVATE double eitp__sampled_mean(const eitp__sampled *sampled);

/* 0 with fewer than two samples. */
EITP__PRIVATE double eitp__sampled_error(const eitp__sampled *sampled);

/* Adds a number. If it is not finite, it is an omission instead, with `otherwise` as the reason. */
EITP__PRIVATE eitp_status eitp__report_number(eitp_emergence_report *report, const char *group, const char *name,
                                              double value, int64_t count, double error_of_value, const char *otherwise,
                                              eitp_error *error);
EITP__PRIVATE eitp_status eitp__report_sampled(eitp_emergence_report *report, const char *group, const char *name,
                                               const eitp__sampled *sampled, const char *otherwise, eitp_error *error);
EITP__PRIVATE eitp_status eitp__report_omission(eitp_emergence_report *report, const char *name, const char *reason,
                                                eitp_error *error);

#endif
