/* What fits in the memory of this machine: the largest profile for a model, and by how much. */
#ifndef COMMAND_PLAN_ADVICE_H
#define COMMAND_PLAN_ADVICE_H

#include "plan/fit.h"

EITP_BEGIN_DECLARATIONS

/* The profile by memory alone, whatever the model: full above 16 GB, safe from 8 GB, low-memory below. Of a GPU that
   computes half as much is enough, and the lower of the two profiles counts; NaN: there is none, or its memory is
   unknown. */
const char *advice_tier(double bytes, double gpu_bytes);

/* The profile for a model, and what its run takes. */
typedef struct advice {
    const char *profile; /* full, safe or low-memory; "none" without one */
    int64_t batch_size, block_size, grad_accum;
    size_t budget; /* 0: unknown */
    eitp_fit_candidate chosen;
    char configuration[200]; /* see fit_describe */
} advice;

/*
 * The largest of the profiles full, safe and low-memory that fits in --memory-budget, or in the memory that is free,
 * with an optimizer as exact as AdamW (see eitp_fidelity); low-memory, which takes any optimizer, if the others do not.
 * `chosen.fits` is 0 if it does not fit either; `chosen` is then what it takes. Where the budget is unknown, the
 * profile is that of the machine's memory. `process` is the resident bytes without the run; planning itself makes them
 * more. Sets --profile to it, and the options that follow from the profile. The training is not planned yet.
 */
eitp_status advice_choose_profile(option_set *o, eitp_training *training, size_t process, advice *found,
                                  eitp_error *error);

/* The same for a run without a profile, as `eitp plan` and `eitp train` choose it. */
eitp_status advice_without_profile(eitp_training *training, size_t process, advice *found, eitp_error *error);

/* Resolves --profile auto in this way, says which it is and why, and adapts the profile to model and machine. */
eitp_status advice_settle_profile(option_set *o, eitp_training *training, eitp_error *error);

/* The largest power of two of sequences in a micro-batch that fits with AdamW and everything kept, up to `most`; 0 if
   not even one does. */
eitp_status advice_largest_batch(eitp_training *training, int64_t most, int64_t *largest, eitp_error *error);

EITP_END_DECLARATIONS

#endif
