/* Predictions with their confidence and correctness: calibration, and how well confidence separates correct predictions
   from incorrect ones. */
#ifndef EITP_JUDGED_H
#define EITP_JUDGED_H

#include "base/platform.h"

typedef struct eitp__judged {
    float confidence; /* the largest probability */
    int16_t group;    /* samples that a standard error leaves out together; below EITP__JUDGED_GROUPS */
    int16_t is_right;
} eitp__judged;

enum { EITP__JUDGED_GROUPS = 32, EITP__JUDGED_BINS = 15 };

/* A statistic and its standard error, computed by leaving out groups (Kott, "The Delete-a-Group Jackknife", 2001); 0
   with fewer than two groups. */
typedef struct eitp__judged_result {
    double value, error;
} eitp__judged_result;

/* Sorts by confidence, which both statistics require. */
EITP__PRIVATE void eitp__judged_sort(eitp__judged *all, int64_t count);

/* Returns the expected calibration error with 15 bins of confidence (Guo et al., arXiv 1706.04599). Bin m holds (m /
   15, (m + 1) / 15]. NaN without predictions. */
EITP__PRIVATE eitp__judged_result eitp__judged_calibration(const eitp__judged *all, int64_t count);

/* Returns the area under the ROC curve for detecting correct predictions by confidence, where ties count half. NaN if
   all predictions are correct, or none. */
EITP__PRIVATE eitp__judged_result eitp__judged_area(const eitp__judged *all, int64_t count);

/* Returns the fraction of distinct n-grams in a token sequence, or NaN if it has none. */
EITP__PRIVATE double eitp__distinct_ngrams(const int32_t *tokens, int64_t count, int64_t n);

#endif
