/* The tasks classify, tokens and regress: the labels of texts and of their words. */
#include "data/labelled.h"
#include "files.h"
#include "output.h"
#include "run/resume_data.h"
#include "task/samples.h"
#include "task/task.h"

/* ---- The model's shape ---- */

/* True if the weights that the run starts from have a classifier of the task's kind, whose labels it keeps. */
static int has_classifier(const training_run *r) {
    return r->directory_shape.head == r->kind->head;
}

static eitp_status set_shape(training_run *r, eitp_problem problem) {
    task_set_classifier_batch(&r->options);
    r->shape.head = r->kind->head;
    if (!has_classifier(r))
        r->shape.problem = problem;
    return EITP_OK;
}

static eitp_status set_classifier_shape(training_run *r, const char *from, eitp_error *error) {
    if (has_classifier(r) && r->shape.problem == EITP_PROBLEM_REGRESSION)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "'%s' predicts numbers (problem_type regression); train it with --task regress", from);
    /* In the order of the choices: as the data says, one, several. */
    return set_shape(r, (eitp_problem)options_choice(&r->options, OPTION_LABELS));
}

static eitp_status set_tokens_shape(training_run *r, const char *from, eitp_error *error) {
    (void)from;
    (void)error;
    return set_shape(r, EITP_PROBLEM_TOKENS);
}

static eitp_status set_regression_shape(training_run *r, const char *from, eitp_error *error) {
    if (has_classifier(r) && r->shape.problem != EITP_PROBLEM_REGRESSION && r->shape.labels > 1)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "'%s' has a classifier of %lld labels; train it with --task "
                            "classify",
                            from, (long long)r->shape.labels);
    if (has_classifier(r))
        r->shape.problem = EITP_PROBLEM_REGRESSION;
    return set_shape(r, EITP_PROBLEM_REGRESSION);
}

/* ---- Data ---- */

/* Labels that the task is for. */
static eitp_status check_problem(const training_run *r, eitp_error *error) {
    const eitp_labelled_info info = eitp_labelled_file_get_info(r->training.labelled);
    const char *path = options_text(&r->options, OPTION_DATA);
    if (info.problem == EITP_PROBLEM_UNKNOWN)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "'%s' has no labels; name their column with --label-column, or train a language model with "
                            "--task lm or mlm",
                            path);
    if (info.problem == EITP_PROBLEM_REGRESSION && r->kind == &task_classification)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "the labels of '%s' are numbers that are not whole; train with --task regress to predict "
                            "them",
                            path);
    if (info.problem == EITP_PROBLEM_TOKENS && r->kind != &task_tokens)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "'%s' has a label for each word; train with --task tokens to predict them", path);
    return EITP_OK;
}

/* Matches the labels of a file with those of the model's classifier. Sets *lacks_some if the model has more of them. */
static eitp_status match_labels(const training_run *r, const label_names *names, const data_file *data, option_id id,
                                int *lacks_some, eitp_error *error) {
    const int64_t count = eitp_labelled_file_get_info(data->labelled).label_count;
    int32_t *numbers = (int32_t *)command_allocate((size_t)(count + 1) * sizeof *numbers);
    eitp_label_match match;
    eitp_status status = labelled_match(names->model, data, options_text(&r->options, id), numbers, &match, error);
    *lacks_some = !status && count < names->count;
    free(numbers);
    return status;
}

/* The shape follows the labels of the data, unless the model has a classifier already. */
static eitp_status follow_labels(training_run *r, const label_names *names, int *lacks_some, eitp_error *error) {
    const eitp_labelled_info info = eitp_labelled_file_get_info(r->training.labelled);
    eitp_status status = check_problem(r, error);
    if (status)
        return status;
    labelled_report_labels(&r->training, options_text(&r->options, OPTION_DATA));
    if (names->model)
        status = match_labels(r, names, &r->training, OPTION_DATA, lacks_some, error);
    else
        r->shape.labels = info.label_count;
    r->shape.problem = info.problem;
    return status;
}

/* Where the start of the run has packed the texts: the labels of the training data were not known yet. */
static char *first_path(const training_run *r, option_id id, const labelled_settings *settings, const char *directory) {
    labelled_settings first = *settings;
    char *path;
    if (id == OPTION_DATA && eitp_head_has_labels(r->kind->head)) {
        first.problem = r->kind == &task_classification ? (eitp_problem)options_choice(&r->options, OPTION_LABELS)
                                                        : r->kind->problem;
        first.labels = NULL;
        first.label_count = 0;
    }
    path = labelled_packed_path(&r->options, id, &first, directory);
    if (files_info(path).kind == EITP_PATH_FILE)
        return path;
    free(path);
    return labelled_packed_path(&r->options, id, settings, directory);
}

eitp_status task_open_labelled(training_run *r, option_id id, const labelled_settings *settings, const char *directory,
                               data_file *data, eitp_error *error) {
    char *expected = settings->tokenizer ? first_path(r, id, settings, directory) : NULL;
    eitp_status status;
    if (expected)
        resume_use_packed(r, id, directory, expected, packed_has_samples, data);
    free(expected);
    status = labelled_open(&r->options, id, settings, directory, data, error);
    if (!status)
        labelled_report(data);
    return status;
}

/* Validation data has the labels of the training data, or of a model that has more of them. */
static eitp_status open_validation(training_run *r, labelled_settings settings, const label_names *names,
                                   int lacks_some, const char *directory, eitp_error *error) {
    const eitp_labelled_source training = eitp_labelled_file_source(r->training.labelled);
    eitp_status status;
    if (!options_has(&r->options, OPTION_VAL_DATA))
        return EITP_OK;
    settings.problem = training.problem;
    settings.labels = lacks_some ? NULL : training.labels;
    settings.label_count = lacks_some ? 0 : training.label_count;
    status = task_open_labelled(r, OPTION_VAL_DATA, &settings, directory, &r->validation, error);
    if (!status && lacks_some)
        status = match_labels(r, names, &r->validation, OPTION_VAL_DATA, &lacks_some, error);
    return status;
}

static eitp_status open_files(training_run *r, const label_names *names, eitp_error *error) {
    char *directory = files_join(r->directory, "data");
    labelled_settings settings;
    int lacks_some = 0;
    eitp_status status;
    memset(&settings, 0, sizeof settings);
    settings.tokenizer = r->tokenizer;
    settings.vocabulary = r->shape.vocabulary;
    settings.max_length = labelled_max_length(&r->options, r->tokenizer, &r->shape);
    settings.problem = r->shape.problem;
    settings.labels = names->names;
    settings.label_count = names->names ? names->count : 0;
    status = task_open_labelled(r, OPTION_DATA, &settings, directory, &r->training, error);
    if (!status)
        status = follow_labels(r, names, &lacks_some, error);
    if (!status)
        status = open_validation(r, settings, names, lacks_some, directory, error);
    free(directory);
    return status;
}

/* The names of the classifier that the run starts from, whose shape was read already. */
static eitp_status read_names(training_run *r, void *user, eitp_error *error) {
    label_names *names = (label_names *)user;
    eitp_status status = EITP_OK;
    label_names_release(names);
    if (!r->checkpoint && !r->model_directory) /* it was removed, and is found again */
        status = model_find_directory(options_text(&r->options, OPTION_MODEL), &r->model_directory, error);
    return status ? status
                  : label_names_read(&r->directory_shape, r->checkpoint ? r->checkpoint : r->model_directory, names,
                                     error);
}

static eitp_status open_data(training_run *r, eitp_error *error) {
    label_names names;
    eitp_status status = EITP_OK;
    memset(&names, 0, sizeof names);
    /* A model with random weights can learn from bytes; one that has weights needs its own tokenizer. */
    if (!r->tokenizer && !r->checkpoint && !r->model_directory)
        status = model_use_bytes(&r->tokenizer, error);
    run_set_vocabulary(r);
    if (!status && r->tokenizer)
        status = model_check_tokenizer(r->tokenizer, NULL, r->shape.vocabulary, error);
    if (!status && has_classifier(r))
        status = run_read_model(r, read_names, &names, error);
    if (!status)
        status = open_files(r, &names, error);
    label_names_release(&names);
    return status;
}

/* Texts that are in both parts make the validation look better than it is. */
static eitp_status report_overlap(const training_run *r, eitp_error *error) {
    uint64_t count = 0;
    eitp_status status = eitp_labelled_overlap(r->training_part, r->validation_part, &count, error);
    if (!status && count)
        output_warning("%llu of %llu validation texts are also in the training data, so the validation is "
                       "optimistic; --dedup removes repeats within --data",
                       (unsigned long long)count,
                       (unsigned long long)eitp_labelled_part_source(r->validation_part).count);
    return status;
}

eitp_status task_split_labelled(training_run *r, int64_t block_size, eitp_error *error) {
    const uint64_t seed = (uint64_t)options_integer(&r->options, OPTION_SEED);
    eitp_labelled_part *nothing = NULL;
    eitp_labelled_source training, validation;
    eitp_status status =
        eitp_labelled_split(r->training.labelled, packed_held_fraction(&r->options), seed, &r->training_part,
                            r->validation.labelled ? &nothing : &r->validation_part, error);
    (void)block_size;
    eitp_labelled_part_destroy(nothing);
    if (!status && r->validation.labelled)
        status = eitp_labelled_part_create(r->validation.labelled, NULL, 0, &r->validation_part, error);
    training = eitp_labelled_part_source(r->training_part);
    validation = eitp_labelled_part_source(r->validation_part);
    r->validates = !status && validation.count > 0 && options_choice(&r->options, OPTION_EVAL) != 0;
    if (r->validates)
        status = report_overlap(r, error);
    /* Memory is planned for the texts that there are. */
    r->plan.block_size = training.max_length > validation.max_length ? training.max_length : validation.max_length;
    return status;
}

/* ---- The task ---- */

static eitp_status plan(const fit_plan *plan, eitp_model *model, eitp_task *task, eitp_error *error) {
    eitp_classification_config config;
    memset(&config, 0, sizeof config);
    config.model = model;
    config.training = samples_labelled(plan, SAMPLES_OF_TRAINING);
    config.label_smoothing = options_number(plan->options, OPTION_LABEL_SMOOTHING);
    if (plan->validates)
        config.validation = samples_labelled(plan, 1);
    return eitp_classification_task(&config, task, error);
}

/* Weights of the model's labels, by how often the samples have them. */
static eitp_status balance(const training_run *r, const eitp_labelled_source *source, float *weights,
                           eitp_error *error) {
    const eitp_host host = command_host();
    const int64_t labels = eitp_model_config(r->model).labels;
    uint64_t *counts = (uint64_t *)command_allocate((size_t)(source->label_count + labels) * sizeof *counts);
    uint64_t *of_model = counts + source->label_count;
    int32_t *numbers = (int32_t *)command_allocate((size_t)source->label_count * sizeof *numbers);
    eitp_label_match match;
    eitp_status status = eitp_labelled_class_counts(&host, source, counts, error);
    if (!status)
        status = eitp_model_match_labels(r->model, source, numbers, &match, error);
    for (int64_t i = 0; i < source->label_count && !status; i++)
        of_model[numbers[i]] = counts[i];
    if (!status)
        eitp_labelled_balanced_weights(of_model, labels, weights);
    free(numbers);
    free(counts);
    return status;
}

/* --class-weights: none, balanced, or numbers in the order of the model's labels. */
static eitp_status read_weights(const training_run *r, const eitp_labelled_source *source, float *weights,
                                eitp_error *error) {
    const char *text = options_text(&r->options, OPTION_CLASS_WEIGHTS);
    const int64_t labels = eitp_model_config(r->model).labels;
    int64_t count = 0;
    if (!strcmp(text, "balanced"))
        return balance(r, source, weights, error);
    for (const char *at = text; *at && count < labels; count++) {
        char *end;
        weights[count] = (float)strtod(at, &end);
        if (end == at || (*end && *end != ',') || !(weights[count] >= 0))
            break;
        at = *end ? end + 1 : end;
        if (!*at && count + 1 == labels)
            return EITP_OK;
    }
    return command_fail(error, EITP_ERROR_ARGUMENT,
                        "--class-weights: invalid value '%s' (choose from none, balanced, or %lld numbers separated by "
                        "commas, in the order of the labels)",
                        text, (long long)labels);
}

static eitp_status create_task(training_run *r, eitp_error *error) {
    const int is_weighted = strcmp(options_text(&r->options, OPTION_CLASS_WEIGHTS), "none") != 0;
    eitp_classification_config config;
    float *weights = NULL;
    eitp_status status = EITP_OK;
    memset(&config, 0, sizeof config);
    config.model = r->model;
    config.training = eitp_labelled_part_source(r->training_part);
    if (r->validates)
        config.validation = eitp_labelled_part_source(r->validation_part);
    config.tokenizer = r->tokenizer;
    config.label_smoothing = options_number(&r->options, OPTION_LABEL_SMOOTHING);
    if (is_weighted) {
        weights = (float *)command_allocate((size_t)eitp_model_config(r->model).labels * sizeof *weights);
        status = read_weights(r, &config.training, weights, error);
        config.class_weights = weights;
    }
    if (!status)
        status = eitp_classification_task(&config, &r->task, error);
    free(weights);
    return status;
}

/* ---- What is said of the data ---- */

/* "neg 1480, pos 1400", at most some of them. */
static void describe_labels(const training_run *r, char *text, size_t size) {
    enum { SHOWN = 10 };
    const eitp_host host = command_host();
    const eitp_labelled_source source = eitp_labelled_part_source(r->training_part);
    uint64_t *counts = (uint64_t *)command_allocate((size_t)source.label_count * sizeof *counts);
    eitp_error ignored;
    size_t used = 0;
    *text = 0;
    if (source.problem != EITP_PROBLEM_REGRESSION && !eitp_labelled_class_counts(&host, &source, counts, &ignored)) {
        for (int64_t i = 0; i < source.label_count && i < SHOWN && used < size; i++)
            used += (size_t)snprintf(text + used, size - used, "%s%.40s %llu", i ? ", " : "; ",
                                     source.labels ? source.labels[i] : "label", (unsigned long long)counts[i]);
        if (source.label_count > SHOWN && used < size)
            snprintf(text + used, size - used, ", and %lld more labels", (long long)(source.label_count - SHOWN));
    }
    free(counts);
}

void task_log_labelled(const training_run *r) {
    char labels[600] = "";
    if (r->kind != &task_masked)
        describe_labels(r, labels, sizeof labels);
    output_info(
        "data: %llu training samples, %llu validation samples, at most %lld tokens; %lld steps are %.2f epochs%s",
        (unsigned long long)r->task.samples[EITP_TRAINING], (unsigned long long)r->task.samples[EITP_VALIDATION],
        (long long)r->task.rows, (long long)r->steps, run_epochs(r), labels);
}

void task_record_labelled(const training_run *r, text_buffer *t) {
    text_json_member_string(t, "labelled_file", r->training.path);
    text_json_member_integer(t, "training_samples", (int64_t)r->task.samples[EITP_TRAINING]);
    text_json_member_integer(t, "validation_samples", (int64_t)r->task.samples[EITP_VALIDATION]);
}

const task_kind task_classification = {
    "classify", EITP_HEAD_CLASSIFIER, EITP_PROBLEM_SINGLE_LABEL, set_classifier_shape, open_data, task_split_labelled,
    plan,       create_task,          task_log_labelled,         task_record_labelled};

const task_kind task_tokens = {"tokens",
                               EITP_HEAD_TOKEN_CLASSIFIER,
                               EITP_PROBLEM_TOKENS,
                               set_tokens_shape,
                               open_data,
                               task_split_labelled,
                               plan,
                               create_task,
                               task_log_labelled,
                               task_record_labelled};

const task_kind task_regression = {
    "regress", EITP_HEAD_CLASSIFIER, EITP_PROBLEM_REGRESSION, set_regression_shape, open_data, task_split_labelled,
    plan,      create_task,          task_log_labelled,       task_record_labelled};
