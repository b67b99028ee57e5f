/* From options to a configuration that fits in memory, for train and plan. */
#ifndef COMMAND_PLAN_FIT_H
#define COMMAND_PLAN_FIT_H

#include "options/options.h"

EITP_BEGIN_DECLARATIONS

/* The optimizer of --optimizer; for auto the first that is tried. */
eitp_optimizer fit_optimizer(const option_set *o);

/* Reads the shape or the config.json of --init, with the sizes that --vocab-size, --layers and the like replace. */
eitp_status fit_read_shape(const option_set *o, eitp_transformer_config *config, eitp_error *error);

/* Reads the shape of --model, which is a directory (found, in a new text) or the name of a shape, else of --init, else
   gpt2. *directory is NULL if no directory is meant. */
eitp_status fit_read_model(option_set *o, char **directory, eitp_transformer_config *shape, eitp_error *error);

/* Fails if --layers, --heads, --width or --positions differ from a model that is read from a directory. */
eitp_status fit_check_shape(const option_set *o, const eitp_transformer_config *config, const char *directory,
                            eitp_error *error);

/*
 * Sets the vocabulary of a shape by name, and logs it: to the size of the tokenizer; where that is NULL, to that of one
 * that is trained on `text_bytes` of text; where that is 0, to the vocabulary of the token file of --data. Without any
 * of them, with --vocab-size, and for a config.json it stays as it is.
 */
void fit_set_vocabulary(const option_set *o, const eitp_tokenizer *tokenizer, uint64_t text_bytes,
                        eitp_transformer_config *config);

/* Sets the options whose defaults follow from the model, for --print-config. `shape` is NULL if it is unknown. */
void fit_set_defaults(option_set *o, const eitp_transformer_config *shape);

typedef struct fit_plan fit_plan;

/* Creates the task of a plan, on random samples, with a model of its shape. */
typedef eitp_status (*plan_task)(const fit_plan *plan, eitp_model *model, eitp_task *task, eitp_error *error);

/* The training that is planned. */
struct fit_plan {
    const option_set *options;
    eitp_transformer_config model;
    plan_task task;
    int64_t block_size; /* tokens of a sample, at most */
    int validates;
    int64_t lengths[EITP_FIT_LENGTHS];
};

/*
 * The run that the options describe, with a model of this shape, trained for what its head is for. `numerics` as for
 * model_context_config. The options, `isa` and `plan` must live as long as the fit. The caller fills in what only
 * training needs.
 */
eitp_status fit_from_options(const option_set *o, const eitp_transformer_config *shape, const char *numerics, char *isa,
                             fit_plan *plan, eitp_fit *fit, eitp_error *error);

/* Leaves the size of windows of text to the planner, as train does for data that have enough of them. */
void fit_open_lengths(fit_plan *plan, eitp_fit *fit);

/* The configuration to use; of a profile that takes the least memory that one. EITP_ERROR_MEMORY if none fits:
   *smallest is then the one that takes the least. */
eitp_status fit_search(const option_set *o, const eitp_fit *fit, eitp_fit_candidate *chosen,
                       eitp_fit_candidate *smallest, eitp_error *error);

/*
 * The same. If none fits, the error names the smallest budget that is enough, which was tried, and up
 * to three changes, the cheapest first, with the memory that each needs. *length is the length that create_task uses.
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
