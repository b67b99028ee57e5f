/* The tasks of labelled texts: labels of texts, labels of their words, and numbers. */
#include "base/log.h"
#include "recipe/training.h"

/* ---- Names of labels ---- */

/* The labels of a classifier, from its config.json: a model without memory for its weights. */
typedef struct eitp__label_names {
    const eitp_host *host;
    eitp_context *context;
    eitp_model *model;  /* NULL: the training starts without a classifier */
    const char **names; /* `count` of them, which belong to the model; NULL: they have no names */
    int64_t count;
} eitp__label_names;

/* True if the weights that the training starts from have a classifier of the task's kind, whose labels it keeps. */
static int eitp__starts_with_labels(const eitp_training *training) {
    return training->stored.head == training->kind->head;
}

static eitp_status eitp__read_label_names(const eitp_training *training, eitp__label_names *names, eitp_error *error) {
    const char *checkpoint = eitp__training_checkpoint(training);
    eitp_context_config config = eitp_context_config_default();
    eitp_status status;
    config.host = training->host;
    config.host.log.write = NULL;
    config.plans_only = 1;
    names->host = &training->host;
    names->count = training->stored.labels;
    status = eitp_context_create(&config, &names->context, error);
    if (!status)
        status = eitp_model_create(names->context, &training->stored, &names->model, error);
    if (!status)
        status = eitp_model_read_labels(names->model, checkpoint ? checkpoint : training->model_directory, error);
    if (status || eitp_model_labels_are_numbers(names->model))
        return status;
    names->names = (const char **)eitp__allocate(&training->host, (size_t)names->count * sizeof *names->names);
    for (int64_t i = 0; names->names && i < names->count; i++)
        names->names[i] = eitp_model_label(names->model, i);
    return names->names ? EITP_OK : eitp__fail_memory(error, (size_t)names->count, "the names of labels");
}

static void eitp__release_label_names(eitp__label_names *names) {
    if (names->names)
        eitp__release(names->host, names->names, (size_t)names->count * sizeof *names->names);
    eitp_model_destroy(names->model);
    eitp_context_destroy(names->context);
}

/* ---- Shape ---- */

static eitp_status eitp__set_labels_shape(eitp_training *training, eitp_error *error) {
    const int has_labels = eitp__starts_with_labels(training);
    const int is_regression = training->kind->kind == EITP_TASK_REGRESSION;
    if (has_labels && training->kind->kind == EITP_TASK_CLASSIFICATION &&
        training->shape.problem == EITP_PROBLEM_REGRESSION)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the model predicts numbers (problem_type regression); set task to regress");
    if (has_labels && is_regression && training->shape.problem != EITP_PROBLEM_REGRESSION && training->shape.labels > 1)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the model has a classifier of %lld labels; set task to classify",
                          (long long)training->shape.labels);
    training->shape.head = training->kind->head;
    if (!has_labels || is_regression)
        training->shape.problem =
            training->kind->kind == EITP_TASK_CLASSIFICATION ? training->recipe.task.problem : training->kind->problem;
    return EITP_OK;
}

/* ---- Data ---- */

/* Labels that the task is for. */
static eitp_status eitp__check_problem(const eitp_training *training, eitp_problem problem, eitp_error *error) {
    const char *path = training->parts[EITP_TRAINING].paths->texts[0];
    if (problem == EITP_PROBLEM_UNKNOWN)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "'%s' has no labels; name their column as label_column, or set task to lm or mlm", path);
    if (problem == EITP_PROBLEM_REGRESSION && training->kind->kind == EITP_TASK_CLASSIFICATION)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the labels of '%s' are numbers that are not whole; set task to regress to predict them",
                          path);
    if (problem == EITP_PROBLEM_TOKENS && training->kind->kind != EITP_TASK_TOKENS)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "'%s' has a label for each word; set task to tokens to predict them", path);
    return EITP_OK;
}

/* Fails if the labels of a part are not those of the classifier; sets *lacks_some if it has more of them. */
static eitp_status eitp__match_part(const eitp_training *training, const eitp__label_names *names, eitp_split split,
                                    int *lacks_some, eitp_error *error) {
    const eitp_labelled_source source = eitp_labelled_file_source(training->parts[split].labelled);
    const size_t size = (size_t)(source.label_count + 1) * sizeof(int32_t);
    int32_t *numbers = (int32_t *)eitp__allocate(&training->host, size);
    eitp_label_match match;
    eitp_status status = numbers ? eitp_model_match_labels(names->model, &source, numbers, &match, error)
                                 : eitp__fail_memory(error, size, "the numbers of labels");
    *lacks_some = !status && source.label_count < names->count;
    if (numbers)
        eitp__release(&training->host, numbers, size);
    return status;
}

/* The shape follows the labels of the data, unless the model has a classifier already. */
static eitp_status eitp__follow_labels(eitp_training *training, const eitp__label_names *names, int *lacks_some,
                                       eitp_error *error) {
    const eitp_labelled_info info = eitp_labelled_file_get_info(training->parts[EITP_TRAINING].labelled);
    eitp_status status = eitp__check_problem(training, info.problem, error);
    if (!status && names->model)
        status = eitp__match_part(training, names, EITP_TRAINING, lacks_some, error);
    else if (!status)
        training->shape.labels = info.label_count;
    training->shape.problem = info.problem;
    return status;
}

/* Validation data has the labels of the training data, or of a model that has more of them. */
static eitp_status eitp__open_labelled_validation(eitp_training *training, eitp__sample_config config,
                                                  const eitp__label_names *names, int lacks_some, eitp_error *error) {
    const eitp_labelled_source kept = eitp_labelled_file_source(training->parts[EITP_TRAINING].labelled);
    eitp_status status;
    if (!training->recipe.data.validation.count)
        return EITP_OK;
    config.problem = kept.problem;
    config.labels = lacks_some ? NULL : kept.labels;
    config.label_count = lacks_some ? 0 : kept.label_count;
    status = eitp__part_open_samples(training, EITP_VALIDATION, &config, error);
    return !status && lacks_some ? eitp__match_part(training, names, EITP_VALIDATION, &lacks_some, error) : status;
}

static eitp_status eitp__open_labelled_parts(eitp_training *training, const eitp__label_names *names,
                                             eitp_error *error) {
    eitp__sample_config config = EITP__ZERO;
    int lacks_some = 0;
    eitp_status status;
    config.max_length = eitp__training_max_length(training);
    config.problem = training->shape.problem;
    config.labels = names->names;
    config.label_count = names->names ? names->count : 0;
    status = eitp__part_open_samples(training, EITP_TRAINING, &config, error);
    if (!status)
        status = eitp__follow_labels(training, names, &lacks_some, error);
    return status ? status : eitp__open_labelled_validation(training, config, names, lacks_some, error);
}

/* A model with random weights can learn from bytes; one that has weights needs its own tokenizer. */
static eitp_status eitp__open_labels(eitp_training *training, eitp_error *error) {
    const int has_weights = training->is_resumed || training->model_directory;
    eitp__label_names names = EITP__ZERO;
    eitp_status status = EITP_OK;
    if (!training->tokenizer && has_weights)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the model has no tokenizer; name one as tokenizer: a directory with tokenizer.json or "
                          "vocab.txt");
    if (!training->tokenizer)
        status = eitp__training_use_bytes(training, error);
    if (!status)
        eitp__training_set_vocabulary(training, eitp_tokenizer_size(training->tokenizer));
    if (!status)
        status = eitp__training_check_tokenizer(training, NULL, error);
    if (!status && eitp__starts_with_labels(training))
        status = eitp__read_label_names(training, &names, error);
    if (!status)
        status = eitp__open_labelled_parts(training, &names, error);
    eitp__release_label_names(&names);
    return status;
}

/* ---- Weights of labels ---- */

/* By how often the samples have them. */
static eitp_status eitp__balance_labels(const eitp_training *training, const eitp_model *model,
                                        const eitp_labelled_source *source, float *weights, eitp_error *error) {
    const eitp_host *host = &training->host;
    const int64_t labels = eitp_model_config(model).labels;
    const size_t size = (size_t)(source->label_count + labels) * sizeof(uint64_t);
    const size_t numbers_size = (size_t)source->label_count * sizeof(int32_t);
    uint64_t *counts = (uint64_t *)eitp__allocate(host, size), *of_model = counts + source->label_count;
    int32_t *numbers = (int32_t *)eitp__allocate(host, numbers_size);
    eitp_label_match match;
    eitp_status status = counts && numbers ? eitp_labelled_class_counts(host, source, counts, error)
                                           : eitp__fail_memory(error, size, "the counts of labels");
    if (!status)
        status = eitp_model_match_labels(model, source, numbers, &match, error);
    for (int64_t i = 0; i < source->label_count && !status; i++)
        of_model[numbers[i]] = counts[i];
    if (!status)
        eitp_labelled_balanced_weights(of_model, labels, weights);
    eitp__release(host, numbers, numbers_size);
    eitp__release(host, counts, size);
    return status;
}

/* "balanced", or numbers in the order of the model's labels. */
static eitp_status eitp__weigh_labels(const eitp_training *training, const eitp_model *model,
                                      const eitp_labelled_source *source, float *weights, eitp_error *error) {
    const char *text = training->recipe.task.class_weights;
    const int64_t labels = eitp_model_config(model).labels;
    int64_t count = 0;
    if (!strcmp(text, "balanced"))
        return eitp__balance_labels(training, model, source, weights, error);
    for (const char *at = text; *at && count < labels; count++) {
        char *end;
        weights[count] = (float)strtod(at, &end);
        if (end == at || (*end && *end != ',') || !(weights[count] >= 0))
            break;
        at = *end ? end + 1 : end;
        if (!*at && count + 1 == labels)
            return EITP_OK;
    }
    return eitp__fail(error, EITP_ERROR_ARGUMENT,
                      "class_weights must be none, balanced, or %lld numbers separated by commas, in the order of the "
                      "labels (got '%s')",
                      (long long)labels, text);
}

static eitp_status eitp__create_labels(eitp_training *training, eitp_model *model, int is_planned, eitp_task *task,
                                       eitp_error *error) {
    const char *text = training->recipe.task.class_weights;
    const size_t size = (size_t)eitp_model_config(model).labels * sizeof(float);
    eitp_classification_config config = EITP__ZERO;
    float *weights = NULL;
    eitp_status status = EITP_OK;
    config.model = model;
    config.tokenizer = training->tokenizer;
    config.label_smoothing = training->recipe.task.label_smoothing;
    config.training = eitp__part_samples(training, EITP_TRAINING);
    if (training->validates)
        config.validation = eitp__part_samples(training, EITP_VALIDATION);
    if (!is_planned && text && strcmp(text, "none")) {
        weights = (float *)eitp__allocate(&training->host, size);
        status = weights ? eitp__weigh_labels(training, model, &config.training, weights, error)
                         : eitp__fail_memory(error, size, "the weights of labels");
        config.class_weights = weights;
    }
    if (!status)
        status = eitp_classification_task(&config, task, error);
    eitp__release(&training->host, weights, size);
    return status;
}

EITP__PRIVATE const eitp__recipe_task *eitp__classification_recipe(void) {
    static const eitp__recipe_task task = {
        EITP_TASK_CLASSIFICATION, "classify",        EITP_HEAD_CLASSIFIER,         EITP_PROBLEM_SINGLE_LABEL,
        eitp__set_labels_shape,   eitp__open_labels, eitp__training_split_samples, eitp__create_labels};
    return &task;
}

EITP__PRIVATE const eitp__recipe_task *eitp__tokens_recipe(void) {
    static const eitp__recipe_task task = {
        EITP_TASK_TOKENS,       "tokens",          EITP_HEAD_TOKEN_CLASSIFIER,   EITP_PROBLEM_TOKENS,
        eitp__set_labels_shape, eitp__open_labels, eitp__training_split_samples, eitp__create_labels};
    return &task;
}

EITP__PRIVATE const eitp__recipe_task *eitp__regression_recipe(void) {
    static const eitp__recipe_task task = {
        EITP_TASK_REGRESSION,   "regress",         EITP_HEAD_CLASSIFIER,         EITP_PROBLEM_REGRESSION,
        eitp__set_labels_shape, eitp__open_labels, eitp__training_split_samples, eitp__create_labels};
    return &task;
}
