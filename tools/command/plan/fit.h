/* From options to a configuration that fits in memory. */
#ifndef COMMAND_PLAN_FIT_H
#define COMMAND_PLAN_FIT_H

#include "options/options.h"

EITP_BEGIN_DECLARATIONS

/* The optimizer of --optimizer; for auto the first that is tried. */
eitp_optimizer fit_optimizer(const option_set *o);

/* The recipe of the run that the options describe, without what is a run's alone: its directory and its parts of the
   data. Paths of files of options that are not on this machine are left out. The options own its texts. Sets --init to
   the shape that the model has by name. */
eitp_status fit_to_recipe(option_set *o, eitp_recipe *recipe, eitp_error *error);

/* Opens that run to be planned alone (eitp_training_open_plan), and completes the options, to which the profile is
   applied, by its model and samples. Close the training in any case. */
eitp_status fit_open(option_set *o, eitp_training **training, eitp_error *error);

/* Changes what the options may change until a training is planned. */
eitp_status fit_follow_options(const option_set *o, eitp_training *training, eitp_error *error);

/* Fails if --layers, --heads, --width or --positions differ from a model that is read from a directory. */
eitp_status fit_check_shape(const option_set *o, const eitp_transformer_config *config, const char *directory,
                            eitp_error *error);

/* Sets the options whose defaults follow from the model, for --print-config. `shape` is NULL if it is unknown. */
void fit_set_defaults(option_set *o, const eitp_transformer_config *shape);

/*
 * eitp_fit_choose. If none fits, the error names the smallest budget that is enough, which was tried, and up to three
 * changes, the cheapest first, with the memory that each needs. *length is the length that create_task uses.
 */
eitp_status fit_choose(const option_set *o, const eitp_fit *fit, const int64_t *length, eitp_fit_candidate *chosen,
                       eitp_error *error);

/* Fails because `total` bytes, the least for `what`, exceed the budget; says what would do: a --memory-budget, or a
   higher limit of the process. `changes` is appended. */
eitp_status fit_fail(const option_set *o, const char *what, double total, double budget, const char *changes,
                     eitp_error *error);

/* The budget to name, in MB, for a process that takes `total` bytes. */
double fit_named_budget(double total);

/* What a configuration gave up, and the memory that each would need: "sequences of 1024 tokens (1.2 GB), adamw
   (1.6 GB)"; empty: nothing. */
const char *fit_describe_price(const eitp_fit_price *price, char *text, size_t size);

/* "adamw in bf16, 2 of 4 micro-batches per pass, 120 tensors recomputed (8 % more arithmetic)" */
const char *fit_describe(const eitp_fit *fit, const eitp_fit_candidate *candidate, char *text, size_t size);

EITP_END_DECLARATIONS

#endif
