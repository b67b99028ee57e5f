/* Shared by tasks over labelled sources: the inputs of token ids and segments, and checks. */
#ifndef EITP_TASK_LABELLED_H
#define EITP_TASK_LABELLED_H

#include "task/task.h"

/* Checks the requirements on every source, regardless of its labels. A source without samples passes. */
EITP__PRIVATE eitp_status eitp__labelled_check(const eitp_labelled_source *source, const eitp_model *model,
                                               eitp_error *error);

/* Adds the inputs that the model needs: first the token ids, then the segments if the model has them. */
EITP__PRIVATE eitp_model_inputs eitp__labelled_inputs(eitp_pass *pass, const eitp_model *model);

/* Returns the number of these inputs. */
EITP__PRIVATE int eitp__labelled_input_count(const eitp_model *model);

/*
 * Fails if an id of a sample is not below the limit. The message names the kind of id (`what`) and ends with `advice`.
 */
EITP__PRIVATE eitp_status eitp__check_ids_below(const char *what, const int32_t *ids, int64_t count, int64_t limit,
                                                const char *advice, uint64_t number, eitp_error *error);

/*
 * Reads sample `number` into these inputs, with the targets requested in *read, sets sample->rows, and checks the ids.
 */
EITP__PRIVATE eitp_status eitp__labelled_read(const eitp_labelled_source *source, const eitp_model *model,
                                              uint64_t number, eitp_sample *sample, eitp_labelled_sample *read,
                                              eitp_error *error);

/* Fails if a weight that a source has read is negative or not finite. */
EITP__PRIVATE eitp_status eitp__check_weights_read(const float *weights, int64_t count, uint64_t number,
                                                   eitp_error *error);

/* Describes a source for eitp_task.identify. */
EITP__PRIVATE void eitp__labelled_identify(const eitp_labelled_source *source, eitp_task_identity *identity);

/* Fills in the members of a task that depend only on the sources and the model. */
EITP__PRIVATE void eitp__labelled_fill(const eitp_labelled_source sources[2], eitp_model *model, eitp_task *task);

/* Saves the tokenizer, if any, and gives the model the tokenizer's special tokens. */
EITP__PRIVATE eitp_status eitp__save_tokenizer(const eitp_tokenizer *tokenizer, eitp_model *model,
                                               const char *directory, eitp_error *error);

#endif
