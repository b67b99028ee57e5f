/*
 * Spikes: steps whose loss or gradient norm is far above the previous steps'. The authors of PaLM found that spikes
 * come from a combination of batch and weights, and skipped the batches around them (Chowdhery et al., arXiv
 * 2204.02311, section 5.1). OLMo skips an update whose loss or norm is 6 standard deviations above the mean of the last
 * 128 steps (OLMo et al., arXiv 2501.00656). ZClip clips norms 2.5 deviations above a moving average after 25 steps
 * (Kumar et al., arXiv 2504.02507). This code uses the median and the median deviation instead of the mean and the
 * standard deviation, since earlier spikes hardly change them.
 *
 * The bound on the gradient norm is known before the step, so the update itself can skip the step, even if it is part
 * of the same plan as the backward pass. The loss is not known, so a spike of the loss alone is only reported. The norm
 * has the same bits regardless of how a step is divided into passes, so the same steps are skipped.
 */
#ifndef EITP_SPIKES_H
#define EITP_SPIKES_H

#include "base/json.h"
#include "base/statistics.h"
#include "train/train.h"

enum { EITP__SPIKE_STEPS = 100, EITP__SPIKE_LEAST = 20, EITP__SPIKES_IN_A_ROW = 10 };

/* The values of the last EITP__SPIKE_STEPS applied steps. */
typedef struct eitp__usual {
    eitp__rolling last;
    double usual, limit; /* the median, and the value above which the next one is a spike; HUGE_VAL: none */
} eitp__usual;

typedef struct eitp__spikes {
    eitp__usual losses, norms;
    int64_t skipped;  /* steps that were not applied */
    int64_t in_a_row; /* consecutive skipped steps up to the last step */
} eitp__spikes;

/* Computes the limits of the next step. A threshold of 0 disables them. */
EITP__PRIVATE void eitp__spikes_begin(eitp__spikes *spikes, double threshold);

/* Compares a step with the limits, completes its report, and adds it to the last steps. Returns 1 if the last steps
   were cleared because too many steps in a row were skipped, which means that the norm has changed permanently. */
EITP__PRIVATE int eitp__spikes_end(eitp__spikes *spikes, eitp_step_report *report);

/* Adds the member "spikes" to a checkpoint's state, if there are values. */
EITP__PRIVATE void eitp__spikes_write(const eitp__spikes *spikes, eitp__buffer *text);

/* Reads the member from a state. If it is missing, no steps were recorded. */
EITP__PRIVATE eitp_status eitp__spikes_read(eitp__spikes *spikes, const eitp_json *state, eitp_error *error);

#endif
