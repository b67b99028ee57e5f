/* A training configuration that is measured: what it is planned to take, and its trainer on random samples. */
#ifndef COMMAND_BENCH_TRAINER_H
#define COMMAND_BENCH_TRAINER_H

#include "model/model.h"
#include "plan/fit.h"

EITP_BEGIN_DECLARATIONS

typedef struct bench_trainer {
    const option_set *options;
    eitp_training *plan; /* that the trainer is created from */
    int64_t block_size;
    eitp_fit fit;
    eitp_fit_candidate rung; /* planned memory */
    int is_fitted;           /* it is not as the options describe: see bench_trainer_fit */
    eitp_context *context;   /* in use */
    eitp_context *owned;     /* the same, if the trainer created it */
    eitp_model *model;
    eitp_task task;
    eitp_trainer *trainer;
    int64_t step_tokens;
} bench_trainer;

/*
 * Plans the training that the options describe and fills in `rung`. Allocates next to nothing. `process` are the
 * resident bytes of the process without trainers, `others` the planned bytes of other trainers. EITP_ERROR_MEMORY if
 * all together exceed --memory-budget. The options must outlive the trainer.
 */
eitp_status bench_trainer_plan(bench_trainer *t, option_set *o, size_t process, size_t others, eitp_error *error);

/* After that has failed with EITP_ERROR_MEMORY: plans the configuration that `eitp train` would choose for these
   options, and says which. It needs a context of its own. */
eitp_status bench_trainer_fit(bench_trainer *t, eitp_error *error);

/* What it recomputes: "auto", "none", "attention" or "layer". */
const char *bench_trainer_recompute(const bench_trainer *t);

/* Creates the model and the trainer, in `context` or, if that is NULL, in a context of its own. */
eitp_status bench_trainer_open(bench_trainer *t, eitp_context *context, eitp_error *error);

/* One optimizer step and the seconds it took. A gradient that is not finite is an error. */
eitp_status bench_trainer_step(bench_trainer *t, double *seconds, eitp_error *error);

void bench_trainer_close(bench_trainer *t);

EITP_END_DECLARATIONS

#endif
