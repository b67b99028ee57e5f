/* Random data: what plans are made for and what benchmarks train on. */
#ifndef COMMAND_TASK_SAMPLES_H
#define COMMAND_TASK_SAMPLES_H

#include "plan/fit.h"

EITP_BEGIN_DECLARATIONS

/* More than a benchmark trains on. */
enum { SAMPLES_OF_TRAINING = 1 << 20 };

/* Random tokens and samples of a plan's shape: `count` windows or samples, each of its block size, with labels if its
   model has a classifier. The plan must outlive them. */
eitp_token_source samples_tokens(const fit_plan *plan, uint64_t count);
eitp_labelled_source samples_labelled(const fit_plan *plan, uint64_t count);

EITP_END_DECLARATIONS

#endif
