/* Label counts, and class weights computed from them. */
#ifndef EITP_LABEL_COUNTS_H
#define EITP_LABEL_COUNTS_H

#include "base/platform.h"
#include "data/labelled.h"

/* Counts the samples of each label, or with EITP_PROBLEM_TOKENS the tokens, in counts[label_count]. Reads all samples,
   but not their ids. A regression or a source without labels is EITP_ERROR_ARGUMENT. */
EITP__PRIVATE eitp_status eitp__labelled_class_counts(const eitp_host *host, const eitp_labelled_source *source,
                                                      uint64_t *counts, eitp_error *error);

/* Computes weights[label_count] from eitp__labelled_class_counts: n / (k * count) for n samples and k labels with
   samples, like scikit-learn's class_weight="balanced". A label without samples has weight 1. NULL is harmless. */
EITP__PRIVATE void eitp__labelled_balanced_weights(const uint64_t *counts, int64_t label_count, float *weights);

#endif
