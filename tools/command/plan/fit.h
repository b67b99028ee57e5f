/* Turns options into a configuration that fits in memory. */
#ifndef COMMAND_PLAN_FIT_H
#define COMMAND_PLAN_FIT_H

#include "options/options.h"

EITP_BEGIN_DECLARATIONS

/* Returns the optimizer of --optimizer; for auto, the first one tried. */
eitp_optimizer fit_optimizer(const option_set *o);

/* Makes the recipe of the run that the options describe, without its directory and its parts of the data. Paths from
   files of options are left out if they do not exist on this machine. The options own its strings. Sets --init to the
   shape that --model names. */
eitp_status fit_to_recipe(option_set *o, eitp_recipe *recipe, eitp_error *error);

/* Opens that run for planning only (eitp_training_open_plan), and completes the options, with the profile applied, from
   its model and samples. Close the training in any case. */
eitp_status fit_open(option_set *o, eitp_training **training, eitp_error *error);

/* Applies options that may change until a training is planned. */
eitp_status fit_follow_options(const option_set *o, eitp_training *training, eitp_error *error);

/* Fails if --layers, --heads, --width or --positions differ from the model in a directory. */
eitp_status fit_check_shape(const option_set *o, const eitp_transformer_config *config, const char *directory,
                            eitp_error *error);

/* Sets options whose defaults depend on the model, for --print-config. `shape` is NULL if unknown. */
void fit_set_defaults(option_set *o, const eitp_transformer_config *shape);

/*
 * Calls eitp_fit_choose. If none fits, the error names the smallest sufficient budget, which was tried, and up to three
 * changes, cheapest first, with the memory that each needs. *length is the length that create_task uses.
 */
eitp_status fit_choose(const option_set *o, const eitp_fit *fit, const int64_t *length, eitp_fit_candidate *chosen,
                       eitp_error *error);

/* Fails because `total` bytes, the least for `what`, exceed the budget. Suggests a sufficient --memory-budget or
   process limit. `changes` is appended. */
eitp_status fit_fail(const option_set *o, const char *what, double total, double budget, const char *changes,
                     eitp_error *error);

/* Returns the budget to suggest, in MB, for a process that needs `total` bytes. */
double fit_named_budget(double total);

/* Describes the features that a configuration gave up, with the memory each would need: "sequences of 1024 tokens (1.2
   GB), adamw (1.6 GB)". Empty if nothing. */
const char *fit_describe_price(const eitp_fit_price *price, char *text, size_t size);

/* Writes "adamw in bf16, 2 of 4 micro-batches per pass, 120 tensors recomputed (8 % more arithmetic)". */
const char *fit_describe(const eitp_fit *fit, const eitp_fit_candidate *candidate, char *text, size_t size);

EITP_END_DECLARATIONS

#endif
