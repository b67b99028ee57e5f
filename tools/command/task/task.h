/* The task of a run. */
#ifndef COMMAND_TASK_H
#define COMMAND_TASK_H

#include "options/options.h"

EITP_BEGIN_DECLARATIONS

/* Returns the name of a task in --task. */
const char *task_name(eitp_task_kind kind);

/* True if the samples of a shape's task are rows of --data or labelled text, not windows of text. */
int task_has_rows(const option_set *o, const eitp_transformer_config *shape);

/* Sets 16 samples per step for classifiers, unless the profile sets the batch. */
void task_set_classifier_batch(option_set *o);

EITP_END_DECLARATIONS

#endif
