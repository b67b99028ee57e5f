/* Finds the largest profile that fits in this machine's memory for a model, and its margin. */
#ifndef COMMAND_PLAN_ADVICE_H
#define COMMAND_PLAN_ADVICE_H

#include "plan/fit.h"

EITP_BEGIN_DECLARATIONS

/* Returns the profile for an amount of memory, regardless of the model: full above 16 GB, safe from 8 GB, low-memory
   below. With a GPU, half as much of its memory is enough, and the lower of the two profiles counts. `gpu_bytes` is NaN
   without a GPU or if its memory is unknown. */
const char *advice_tier(double bytes, double gpu_bytes);

/* The profile for a model, and the resources of its run. */
typedef struct advice {
    const char *profile; /* full, safe or low-memory; "none" without one */
    int64_t batch_size, block_size, grad_accum;
    size_t budget; /* 0: unknown */
    eitp_fit_candidate chosen;
    char configuration[200]; /* see fit_describe */
} advice;

/*
 * Chooses the largest of the profiles full, safe and low-memory that fits in --memory-budget, or in the free memory,
 * with an optimizer as exact as AdamW (see eitp_fidelity). Falls back to low-memory, with any optimizer. If that does
 * not fit either, `chosen.fits` is 0 and `chosen` has the memory it needs. If the budget is unknown, the machine's
 * total memory decides. `process` is the resident bytes without the run, measured before planning adds to them. Sets
 * --profile and the options that it determines. The training must not be planned yet.
 */
eitp_status advice_choose_profile(option_set *o, eitp_training *training, size_t process, advice *found,
                                  eitp_error *error);

/* Does the same for a run without a profile, with the choice of `eitp plan` and `eitp train`. */
eitp_status advice_without_profile(eitp_training *training, size_t process, advice *found, eitp_error *error);

/* Resolves --profile auto in this way, logs the result with the reason, and adapts the profile to model and machine. */
eitp_status advice_resolve_profile(option_set *o, eitp_training *training, eitp_error *error);

/* Finds the largest micro-batch, a power of two up to `most`, that fits with AdamW and without recomputation. 0 if not
   even one sequence fits. */
eitp_status advice_largest_batch(eitp_training *training, int64_t most, int64_t *largest, eitp_error *error);

EITP_END_DECLARATIONS

#endif
