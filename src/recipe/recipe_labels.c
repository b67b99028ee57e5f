/* The tasks with labels: labels of text, labels of words, and numbers. */
#include "base/json.h"
#include "data/label_counts.h"
#include "data/table.h"
#include "io/model_directory.h"
#include "model/transformer.h"
#include "recipe/training.h"

#include <float.h>

/* ---- Names of labels ---- */

/* Labels of a classifier from its config.json, read as a model without memory for its weights. */
typedef struct eitp__label_names {
    const eitp_host *host;
    eitp_context *context;
    eitp_model *model;  /* NULL: the training starts without a classifier */
    const char **names; /* `count` names, owned by the model; NULL: the labels have no names */
    int64_t count;
} eitp__label_names;

/* True if the initial weights have a classifier of the task's kind, whose labels are kept. */
static int eitp__starts_with_labels(const eitp_training *training) {
    return training->stored.head == training->kind->head;
}

static void eitp__release_label_names(eitp__label_names *names) {
    if (names->names)
        eitp__release(names->host, names->names, (size_t)names->count * sizeof *names->names);
    eitp_model_destroy(names->model);
    eitp_context_destroy(names->context);
    memset(names, 0, sizeof *names);
}

static eitp_status eitp__read_label_names(eitp_training *training, void *user, eitp_error *error) {
    eitp__label_names *names = (eitp__label_names *)user;
    const char *checkpoint = eitp__training_checkpoint(training);
    eitp_context_config config = eitp_context_config_default();
    eitp_status status;
    eitp__release_label_names(names);
    config.host = training->host;
    config.host.log.write = NULL;
    config.plans_only = 1;
    names->host = &training->host;
    names->count = training->stored.labels;
    status = eitp_context_create(&config, &names->context, error);
    if (!status)
        status = eitp_model_create(names->context, &training->stored, &names->model, error);
    if (!status)
        status = eitp__model_read_labels(names->model, checkpoint ? checkpoint : training->model_directory, error);
    if (status || eitp__model_labels_are_numbers(names->model))
        return status;
    names->names = (const char **)eitp__allocate(&training->host, (size_t)names->count * sizeof *names->names);
    for (int64_t i = 0; names->names && i < names->count; i++)
        names->names[i] = eitp_model_label(names->model, i);
    return names->names ? EITP_OK : eitp__fail_memory(error, (size_t)names->count, "the names of labels");
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
    if (has_labels && training->kind->kind == EITP_TASK_CLASSIFICATION && training->recipe.task.problem &&
        training->shape.problem && training->recipe.task.problem != training->shape.problem)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "labels: the model's classifier gives a text %s; leave labels out, or use the model without "
                          "its classifier",
                          training->shape.problem == EITP_PROBLEM_MULTI_LABEL ? "any number of labels" : "one label");
    training->shape.head = training->kind->head;
    if (!has_labels || is_regression || !training->shape.problem)
        training->shape.problem =
            training->kind->kind == EITP_TASK_CLASSIFICATION ? training->recipe.task.problem : training->kind->problem;
    return EITP_OK;
}

/* ---- Data ---- */

/* Formats the columns of the training data, such as " (columns: text, topic)"; nothing if they have none. */
static const char *eitp__training_columns(const eitp_training *training, char *text, size_t size) {
    const eitp_table_config config = eitp__part_table(training, EITP_TRAINING);
    char list[300];
    eitp_example example;
    eitp_table *table = NULL;
    int is_end = 0;
    *text = 0;
    if (strcmp(config.texts.paths[0], "-") != 0 && !eitp_table_open(&training->host, &config, &table, NULL)) {
        const eitp_example_source source = eitp_table_source(table);
        if (!source.read(source.user, &example, &is_end, NULL) && !is_end &&
            *eitp__table_columns(table, list, sizeof list))
            snprintf(text, size, " (columns: %s)", list);
    }
    eitp_table_close(table);
    return text;
}

/* Checks that the labels fit the task. */
static eitp_status eitp__check_problem(const eitp_training *training, eitp_problem problem, eitp_error *error) {
    const char *path = training->parts[EITP_TRAINING].paths->texts[0];
    char columns[320];
    if (problem == EITP_PROBLEM_UNKNOWN)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "'%s' has no labels%s; name their column as label_column%s", path,
                          eitp__training_columns(training, columns, sizeof columns),
                          training->trained ? ", or predict them with eitp_predict" : ", or set task to lm or mlm");
    if (problem == EITP_PROBLEM_REGRESSION && training->kind->kind == EITP_TASK_CLASSIFICATION)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the labels of '%s' are fractional numbers; set task to regress to predict them", path);
    if (problem == EITP_PROBLEM_TOKENS && training->kind->kind != EITP_TASK_TOKENS)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "'%s' has a label for each word; set task to tokens to predict them", path);
    return EITP_OK;
}

/* Formats labels, such as "a, b and 3 others". */
static const char *eitp__some_labels(const char *const *names, int64_t count, char *text, size_t size) {
    enum { SHOWN = 6 };
    size_t used = 0;
    for (int64_t i = 0; i < count && i < SHOWN && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%.20s", i ? ", " : "", names[i]);
    if (count > SHOWN && used < size)
        snprintf(text + used, size - used, " and %lld other%s", (long long)(count - SHOWN),
                 count == SHOWN + 1 ? "" : "s");
    return text;
}

static eitp_status eitp__fail_labels(const eitp__label_names *names, const eitp_labelled_source *source,
                                     const char *path, eitp_error *error) {
    char theirs[200], own[200] = "";
    const char *labels[7] = {NULL};
    if (!source->labels)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "'%s' has %lld numbers per sample, but the model predicts %lld; use data with as many, or "
                          "the model without its classifier",
                          path, (long long)source->label_count, (long long)names->count);
    for (int64_t i = 0; i < names->count && i < 7; i++)
        labels[i] = eitp_model_label(names->model, i);
    eitp__some_labels(labels, names->count, own, sizeof own);
    return eitp__fail(error, EITP_ERROR_ARGUMENT,
                      "'%s' has %lld label%s (%s) that do not match the %lld of the model's classifier (%s); use data "
                      "with its labels, name them in id2label of its config.json, or use the model without its "
                      "classifier",
                      path, (long long)source->label_count, source->label_count == 1 ? "" : "s",
                      eitp__some_labels(source->labels, source->label_count, theirs, sizeof theirs),
                      (long long)names->count, own);
}

/* Fails if the labels of a part do not match the classifier's. Sets *lacks_some if the classifier has additional
   ones. */
static eitp_status eitp__match_part(const eitp_training *training, const eitp__label_names *names, eitp_split split,
                                    int *lacks_some, eitp_error *error) {
    const eitp__data_part *part = &training->parts[split];
    const eitp_labelled_source source = eitp_sample_file_labelled_source(part->file);
    const size_t size = (size_t)(source.label_count + 1) * sizeof(int32_t);
    int32_t *numbers = (int32_t *)eitp__allocate(&training->host, size);
    eitp_label_match match;
    eitp_status status = numbers ? eitp_model_match_labels(names->model, &source, numbers, &match, error)
                                 : eitp__fail_memory(error, size, "the numbers of labels");
    if (status == EITP_ERROR_ARGUMENT)
        status = eitp__fail_labels(names, &source, part->paths->texts[0], error);
    *lacks_some = !status && source.label_count < names->count;
    eitp__release(&training->host, numbers, size);
    return status;
}

/* Warns of labels from which nothing can be learned: a single one, or labels that occur once, for example because a
   header was read as a row. */
static void eitp__report_counts(const eitp_training *training, const eitp_labelled_source *source,
                                const uint64_t *counts) {
    const char *path = training->parts[EITP_TRAINING].paths->texts[0];
    const char *once[7] = {NULL};
    int64_t used = 0, last = 0, count = 0;
    char text[200];
    for (int64_t i = 0; i < source->label_count; i++) {
        used += counts[i] > 0;
        last = counts[i] ? i : last;
        if (counts[i] == 1 && count++ < 7)
            once[count - 1] = source->labels[i];
    }
    eitp__some_labels(once, count, text, sizeof text);
    if (used == 1 && source->problem != EITP_PROBLEM_MULTI_LABEL)
        eitp__log_line(&training->host, EITP_LOG_WARNING,
                       "all rows of '%s' have the label %.60s, so there is nothing to learn; is label_column the "
                       "column of the labels?",
                       path, source->labels[last]);
    else if (count == source->label_count && count > 1)
        eitp__log_line(&training->host, EITP_LOG_WARNING,
                       "each of the %lld labels of '%s' occurs once (%s); is label_column the column of the labels?",
                       (long long)count, path, text);
    else if (count)
        eitp__log_line(&training->host, EITP_LOG_WARNING,
                       "%lld of the %lld labels of '%s' occur%s once (%s), too rarely to learn; was the header "
                       "of a table read as a row?",
                       (long long)count, (long long)source->label_count, path, count == 1 ? "s" : "", text);
}

static void eitp__report_labels(const eitp_training *training) {
    const eitp_labelled_source source = eitp_sample_file_labelled_source(training->parts[EITP_TRAINING].file);
    const size_t size = (size_t)(source.label_count + 1) * sizeof(uint64_t);
    uint64_t *counts = source.labels && source.problem != EITP_PROBLEM_REGRESSION
                           ? (uint64_t *)eitp__allocate(&training->host, size)
                           : NULL;
    if (counts && !eitp__labelled_class_counts(&training->host, &source, counts, NULL))
        eitp__report_counts(training, &source, counts);
    eitp__release(&training->host, counts, size);
}

/* Sets the shape's labels from the data, unless the model already has a classifier. */
static eitp_status eitp__follow_labels(eitp_training *training, const eitp__label_names *names, int *lacks_some,
                                       eitp_error *error) {
    const eitp_sample_file_info info = eitp_sample_file_get_info(training->parts[EITP_TRAINING].file);
    eitp_status status = eitp__check_problem(training, info.problem, error);
    if (!status && !training->trained)
        eitp__report_labels(training);
    if (!status && names->model)
        status = eitp__match_part(training, names, EITP_TRAINING, lacks_some, error);
    else if (!status)
        training->shape.labels = info.label_count;
    training->shape.problem = info.problem;
    return status;
}

/* Opens the validation data. Its labels must match the training data, or a model with additional labels. */
static eitp_status eitp__open_labelled_validation(eitp_training *training, eitp__sample_config config,
                                                  const eitp__label_names *names, int lacks_some, eitp_error *error) {
    const eitp_labelled_source kept = eitp_sample_file_labelled_source(training->parts[EITP_TRAINING].file);
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

/* A model with random weights can learn from bytes; a pretrained one needs its own tokenizer. */
static eitp_status eitp__open_labels(eitp_training *training, eitp_error *error) {
    const int has_weights = training->is_resumed || training->model_directory;
    eitp__label_names names = EITP__ZERO;
    eitp_status status = EITP_OK;
    if (!training->tokenizer && has_weights)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the model has no tokenizer; name one as tokenizer, a directory with tokenizer.json or "
                          "vocab.txt");
    if (!training->tokenizer)
        status = eitp__training_make_tokenizer(training, 1, error);
    if (!status)
        eitp__training_follow_tokenizer(training);
    if (!status)
        status = eitp__training_check_tokenizer(training, NULL, error);
    if (!status && eitp__starts_with_labels(training))
        status = training->is_resumed
                     ? eitp__read_label_names(training, &names, error)
                     : eitp__read_directory(training, training->recipe.model.directory, &training->model_directory,
                                            eitp__read_label_names, &names, error);
    if (!status)
        status = eitp__open_labelled_parts(training, &names, error);
    eitp__release_label_names(&names);
    return status;
}

/* ---- Weights of labels ---- */

/* Weights labels inversely to their frequency in the samples. */
static eitp_status eitp__balance_labels(const eitp_training *training, const eitp_model *model,
                                        const eitp_labelled_source *source, float *weights, eitp_error *error) {
    const eitp_host *host = &training->host;
    const int64_t labels = eitp_model_config(model).labels;
    const size_t size = (size_t)(source->label_count + labels) * sizeof(uint64_t);
    const size_t numbers_size = (size_t)source->label_count * sizeof(int32_t);
    uint64_t *counts = (uint64_t *)eitp__allocate(host, size), *of_model = counts ? counts + source->label_count : NULL;
    int32_t *numbers = (int32_t *)eitp__allocate(host, numbers_size);
    eitp_label_match match;
    eitp_status status = counts && numbers ? eitp__labelled_class_counts(host, source, counts, error)
                                           : eitp__fail_memory(error, size, "the counts of labels");
    if (!status)
        status = eitp_model_match_labels(model, source, numbers, &match, error);
    for (int64_t i = 0; i < source->label_count && !status; i++)
        of_model[numbers[i]] = counts[i];
    if (!status)
        eitp__labelled_balanced_weights(of_model, labels, weights);
    eitp__release(host, numbers, numbers_size);
    eitp__release(host, counts, size);
    return status;
}

/* Sets the weights of labels: "balanced", or numbers in the order of the model's labels. */
static eitp_status eitp__weigh_labels(const eitp_training *training, const eitp_model *model,
                                      const eitp_labelled_source *source, float *weights, eitp_error *error) {
    const char *text = training->recipe.task.class_weights;
    const int64_t labels = eitp_model_config(model).labels;
    int64_t count = 0;
    if (!strcmp(text, "balanced"))
        return eitp__balance_labels(training, model, source, weights, error);
    for (const char *at = text; count < labels; count++) {
        double weight;
        const char *end;
        at += strspn(at, " ");
        end = at + strcspn(at, " ,");
        if (!eitp__json_read_number(at, (size_t)(end - at), &weight) || !(weight >= 0 && weight <= FLT_MAX))
            break;
        weights[count] = (float)weight;
        end += strspn(end, " ");
        if (!*end && count + 1 == labels)
            return EITP_OK;
        if (*end != ',')
            break;
        at = end + 1;
    }
    return eitp__fail(error, EITP_ERROR_ARGUMENT,
                      "class_weights: invalid value '%s' (choose from none, balanced, or %lld numbers separated by "
                      "commas, in the order of the labels)",
                      text, (long long)labels);
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
