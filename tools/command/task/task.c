#include "task/task.h"

#include "data/data.h"
#include "options/profile.h"
#include "task/samples.h"

/* ---- The tasks to plan with ---- */

static eitp_status plan_language(const fit_plan *plan, eitp_model *model, eitp_task *task, eitp_error *error) {
    eitp_language_config config;
    memset(&config, 0, sizeof config);
    config.model = model;
    config.block_size = plan->block_size;
    config.training = samples_tokens(plan, SAMPLES_OF_TRAINING);
    if (plan->validates)
        config.validation = samples_tokens(plan, 1);
    return eitp_language_task(&config, task, error);
}

static eitp_status plan_masked(const fit_plan *plan, eitp_model *model, eitp_task *task, eitp_error *error) {
    eitp_masked_config config;
    memset(&config, 0, sizeof config);
    config.model = model;
    config.training = samples_labelled(plan, SAMPLES_OF_TRAINING);
    if (plan->validates)
        config.validation = samples_labelled(plan, 1);
    return eitp_masked_task(&config, task, error);
}

static eitp_status plan_labels(const fit_plan *plan, eitp_model *model, eitp_task *task, eitp_error *error) {
    eitp_classification_config config;
    memset(&config, 0, sizeof config);
    config.model = model;
    config.training = samples_labelled(plan, SAMPLES_OF_TRAINING);
    config.label_smoothing = options_number(plan->options, OPTION_LABEL_SMOOTHING);
    if (plan->validates)
        config.validation = samples_labelled(plan, 1);
    return eitp_classification_task(&config, task, error);
}

/* In the order of eitp_task_kind, and of the choices of --task, after auto. */
static const task_kind kinds[] = {
    {"lm", EITP_HEAD_LANGUAGE, EITP_PROBLEM_UNKNOWN, plan_language},
    {"mlm", EITP_HEAD_LANGUAGE, EITP_PROBLEM_UNKNOWN, plan_masked},
    {"classify", EITP_HEAD_CLASSIFIER, EITP_PROBLEM_SINGLE_LABEL, plan_labels},
    {"tokens", EITP_HEAD_TOKEN_CLASSIFIER, EITP_PROBLEM_TOKENS, plan_labels},
    {"regress", EITP_HEAD_CLASSIFIER, EITP_PROBLEM_REGRESSION, plan_labels},
};

/* ---- Choosing ---- */

const task_kind *task_of_shape(const eitp_transformer_config *shape) {
    if (shape->head == EITP_HEAD_TOKEN_CLASSIFIER)
        return &kinds[EITP_TASK_TOKENS - 1];
    if (shape->head == EITP_HEAD_CLASSIFIER)
        return &kinds[(shape->problem == EITP_PROBLEM_REGRESSION ? EITP_TASK_REGRESSION : EITP_TASK_CLASSIFICATION) -
                      1];
    return &kinds[(shape->bidirectional ? EITP_TASK_MASKED : EITP_TASK_LANGUAGE) - 1];
}

int task_has_rows(const option_set *o, const eitp_transformer_config *shape) {
    return eitp_head_has_labels(shape->head) || (shape->bidirectional && data_is_table(o, OPTION_DATA));
}

void task_set_classifier_batch(option_set *o) {
    options_set_integer(o, OPTION_BATCH_SIZE, 16, SOURCE_DEFAULT);
    options_set_integer(o, OPTION_GRAD_ACCUM, 1, SOURCE_DEFAULT);
}

eitp_status task_check_planned(const option_set *o, eitp_error *error) {
    const char *shape = options_text(o, OPTION_INIT);
    if (options_choice(o, OPTION_TASK) != EITP_TASK_VAE && !(shape && !strncmp(shape, "vae-", 4)))
        return EITP_OK;
    return command_fail(error, EITP_ERROR_UNSUPPORTED,
                        "a model of task vae has two parts, which 'eitp %s' does not plan; 'eitp train' plans them "
                        "before its first step, and says what they take",
                        o->name);
}

void task_set_planned_head(const option_set *o, eitp_transformer_config *shape) {
    const int choice = options_choice(o, OPTION_TASK);
    const task_kind *kind = choice ? &kinds[choice - 1] : task_of_shape(shape);
    if (eitp_head_has_labels(kind->head) && shape->head != kind->head) {
        shape->labels = 2; /* the data would tell; memory hardly depends on it */
        shape->problem = kind->problem;
    }
    shape->head = kind->head;
}
