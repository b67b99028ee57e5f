/* How a run is made to fit: from options to the rung that is taken, for train and plan. */
#ifndef COMMAND_FIT_H
#define COMMAND_FIT_H

#include "command_options.h"

EITP_BEGIN_DECLARATIONS

/* Gives batch, length, accumulation and --auto-shrink the values of --profile, where they are not given. */
void fit_take_profile(option_set *o);

/* True if the configuration with the least memory is taken even where a faster one fits: --profile low-memory. */
int fit_wants_least(const option_set *o);

/* The optimizer that was asked for; of auto the first that is tried. */
eitp_optimizer fit_optimizer(const option_set *o);

/* Reads the shape or the config.json of --init, with the sizes that --vocab-size, --layers and the like replace. */
eitp_status fit_read_shape(const option_set *o, eitp_transformer_config *config, eitp_error *error);

/* Fails where --layers, --heads, --width or --positions differ from a model that is read from a directory. */
eitp_status fit_check_shape(const option_set *o, const eitp_transformer_config *config, const char *directory,
                            eitp_error *error);

/* Sets the options whose defaults follow from the model, for --print-config. `shape` is NULL if it is not known. */
void fit_set_defaults(option_set *o, const eitp_transformer_config *shape);

/* The language model whose training is planned. */
typedef struct fit_plan {
    const option_set *options;
    eitp_transformer_config model;
    int64_t block_size;
    int validates;
} fit_plan;

/*
 * The run that the options describe, of a model of this shape. `numerics` as for model_context_config; `isa` and `plan`
 * must live as long as the fit, and so must the options. What only training needs is the caller's to fill in.
 */
eitp_status fit_from_options(const option_set *o, const eitp_transformer_config *shape, const char *numerics, char *isa,
                             fit_plan *plan, eitp_fit *fit, eitp_error *error);

/*
 * The rung that is taken. Where none fits, the error names the smallest budget that would do and up to three changes,
 * the cheapest first, with what each would need.
 */
eitp_status fit_choose(const eitp_fit *fit, eitp_rung *chosen, eitp_error *error);

/* "adamw in bf16, 4 of 4 micro-batches at a time, 120 values computed again" */
const char *fit_describe(const eitp_fit *fit, const eitp_rung *rung, char *text, size_t size);

EITP_END_DECLARATIONS

#endif
