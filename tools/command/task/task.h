/* What a run trains for: an entry of a table for each value of --task. */
#ifndef COMMAND_TASK_H
#define COMMAND_TASK_H

#include "data/labelled.h"
#include "run/run.h"

EITP_BEGIN_DECLARATIONS

struct task_kind {
    const char *name;     /* in --task */
    eitp_head head;       /* of the models that it trains */
    eitp_problem problem; /* of their labels, if the data does not say; EITP_PROBLEM_UNKNOWN: they have none */
    /* Gives the model's shape what the task requires of it, such as a head; fails if such a model, which `from` names,
       cannot be trained for it. */
    eitp_status (*set_shape)(training_run *r, const char *from, eitp_error *error);
    /* Reads the data, with the tokenizer of the model or of --tokenizer, and completes the shape. */
    eitp_status (*open)(training_run *r, eitp_error *error);
    /* Divides the data into training and validation; sets r->validates. */
    eitp_status (*split)(training_run *r, int64_t block_size, eitp_error *error);
    /* The task to plan with, on random samples. */
    plan_task plan;
    /* Creates r->task. */
    eitp_status (*create)(training_run *r, eitp_error *error);
    /* The line of the log about the data; and members of "run" in run.json. */
    void (*log)(const training_run *r);
    void (*record)(const training_run *r, text_buffer *t);
};

extern const task_kind task_language, task_masked, task_classification, task_tokens, task_regression;

/* The task of --task; for auto what the model and the data say: a classifier, of texts or of words, for one or if the
   data has labels, else next tokens, or hidden ones of a bidirectional model. */
const task_kind *task_choose(const option_set *o, const eitp_transformer_config *shape);

/* The task that the head of a model is for. */
const task_kind *task_of_shape(const eitp_transformer_config *shape);

/* True if the task of a shape has rows of --data as samples, or labelled texts, not windows of text. */
int task_has_rows(const option_set *o, const eitp_transformer_config *shape);

/* The steps of the guide for classifiers have 16 texts, unless the profile says otherwise. */
void task_set_classifier_batch(option_set *o);

/* Gives a shape that is only planned for the head of --task; for auto its own classifier, or a language head. */
void task_set_planned_head(const option_set *o, eitp_transformer_config *shape);

/* What tasks with labelled files share. */
eitp_status task_open_labelled(training_run *r, option_id id, const labelled_settings *settings, const char *directory,
                               data_file *data, eitp_error *error);
eitp_status task_split_labelled(training_run *r, int64_t block_size, eitp_error *error);
void task_log_labelled(const training_run *r);
void task_record_labelled(const training_run *r, text_buffer *t);

EITP_END_DECLARATIONS

#endif
