/*
 * Spikes: steps whose loss or gradient norm is far above those of the steps before. PaLM's authors saw them come from a
 * combination of batch and weights, and skipped the batches around them (Chowdhery et al., arXiv 2204.02311, section
 * 5.1). OLMo skips an update whose loss or norm is 6 standard deviations above the mean of the last 128 steps (OLMo et
 * al., arXiv 2501.00656); ZClip clips norms 2.5 deviations above a moving average after 25 steps (Kumar et al., arXiv
 * 2504.02507). Here median and median deviation take the place of mean and standard deviation: earlier spikes
 * hardly move them.
 *
 * A bound on the gradient norm is known before the step. So the update itself can skip it, also where it is part of the
 * same plan as the backward pass; the loss is not, and a spike of the loss alone is only reported. The norm has the
 * same bits however a step is divided into passes, and so has what is skipped.
 */
#ifndef EITP_SPIKES_H
#define EITP_SPIKES_H

#include "base/json.h"
#include "base/statistics.h"
#include "train/train.h"

enum { EITP__SPIKE_STEPS = 100, EITP__SPIKE_LEAST = 20, EITP__SPIKES_IN_A_ROW = 10 };

/* The values of the last EITP__SPIKE_STEPS steps that were applied. */
typedef struct eitp__usual {
    eitp__rolling last;
    double usual, limit; /* the median, and the value above which the next is a spike; HUGE_VAL: none */
} eitp__usual;

typedef struct eitp__spikes {
    eitp__usual losses, norms;
    int64_t skipped;  /* steps that were not applied */
    int64_t in_a_row; /* of them, the last */
} eitp__spikes;

/* Computes the limits of the next step. With a threshold of 0 there are none. */
EITP__PRIVATE void eitp__spikes_begin(eitp__spikes *spikes, double threshold);

/* Compares a step with the limits, completes its report, and adds it to the last steps. Returns 1 if these were
   cleared because too many steps in a row were skipped: then the norm has changed for good. */
EITP__PRIVATE int eitp__spikes_end(eitp__spikes *spikes, eitp_step_report *report);

/* Adds the member "spikes" of a checkpoint's state, if there is something to write. */
EITP__PRIVATE void eitp__spikes_write(const eitp__spikes *spikes, eitp__buffer *text);

/* Reads it from a state; without it, there were no steps. */
EITP__PRIVATE eitp_status eitp__spikes_read(eitp__spikes *spikes, const eitp_json *state, eitp_error *error);

#endif
