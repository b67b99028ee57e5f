/* A training configuration for measurement: its planned memory, and its trainer on random samples. */
#ifndef COMMAND_BENCH_TRAINER_H
#define COMMAND_BENCH_TRAINER_H

#include "model/model.h"
#include "plan/fit.h"

EITP_BEGIN_DECLARATIONS

typedef struct bench_trainer {
    const option_set *options;
    eitp_training *plan; /* from which the trainer is created */
    int64_t block_size;
    eitp_fit fit;
    eitp_fit_candidate rung; /* planned memory */
    int is_fitted;           /* it differs from the options; see bench_trainer_fit */
    eitp_context *context;   /* in use */
    eitp_context *owned;     /* the same, if the trainer created it */
    eitp_model *model;
    eitp_task task;
    eitp_trainer *trainer;
    int64_t step_tokens;
} bench_trainer;

/*
 * Plans the training that the options describe and fills in `rung`. Allocates almost nothing. `process` is the resident
 * bytes of the process without trainers, `others` the planned bytes of other trainers. EITP_ERROR_MEMORY if the total
 * exceeds --memory-budget. The options must outlive the trainer.
 */
eitp_status bench_trainer_plan(bench_trainer *t, option_set *o, size_t process, size_t others, eitp_error *error);

/* Call after bench_trainer_plan failed with EITP_ERROR_MEMORY. Plans the configuration that `eitp train` would choose
   for these options, and logs it. It needs its own context. */
eitp_status bench_trainer_fit(bench_trainer *t, eitp_error *error);

/* Returns the recomputation: "auto", "none", "attention" or "layer". */
const char *bench_trainer_recompute(const bench_trainer *t);

/* Creates the model and the trainer in `context`, or in a new context if it is NULL. */
eitp_status bench_trainer_open(bench_trainer *t, eitp_context *context, eitp_error *error);

/* Makes one optimizer step and measures its seconds. A non-finite gradient is an error. */
eitp_status bench_trainer_step(bench_trainer *t, double *seconds, eitp_error *error);

void bench_trainer_close(bench_trainer *t);

EITP_END_DECLARATIONS

#endif
