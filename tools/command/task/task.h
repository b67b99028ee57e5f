/* What a run trains for. */
#ifndef COMMAND_TASK_H
#define COMMAND_TASK_H

#include "options/options.h"

EITP_BEGIN_DECLARATIONS

/* Its name in --task. */
const char *task_name(eitp_task_kind kind);

/* True if the task of a shape has rows of --data as samples, or labelled texts, not windows of text. */
int task_has_rows(const option_set *o, const eitp_transformer_config *shape);

/* The steps of the guide for classifiers have 16 texts, unless the profile says otherwise. */
void task_set_classifier_batch(option_set *o);

EITP_END_DECLARATIONS

#endif
