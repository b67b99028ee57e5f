/* What a run trains for, as the planner sees it: an entry of a table for each value of --task. */
#ifndef COMMAND_TASK_H
#define COMMAND_TASK_H

#include "plan/fit.h"

EITP_BEGIN_DECLARATIONS

typedef struct task_kind {
    const char *name;     /* in --task */
    eitp_head head;       /* of the models that it trains */
    eitp_problem problem; /* of their labels, if the data does not say; EITP_PROBLEM_UNKNOWN: they have none */
    /* The task to plan with, on random samples. */
    plan_task plan;
} task_kind;

/* The task that the head of a model is for. */
const task_kind *task_of_shape(const eitp_transformer_config *shape);

/* True if the task of a shape has rows of --data as samples, or labelled texts, not windows of text. */
int task_has_rows(const option_set *o, const eitp_transformer_config *shape);

/* The steps of the guide for classifiers have 16 texts, unless the profile says otherwise. */
void task_set_classifier_batch(option_set *o);

/* Fails for a task that train alone plans. */
eitp_status task_check_planned(const option_set *o, eitp_error *error);

/* Gives a shape that is only planned for the head of --task; for auto its own classifier, or a language head. */
void task_set_planned_head(const option_set *o, eitp_transformer_config *shape);

EITP_END_DECLARATIONS

#endif
