/* Classification and regression: samples of token ids with one label, several labels, numbers to predict, or labels of
   tokens. */
#include "base/checksum.h"
#include "model/transformer.h"
#include "tensor/context.h"
#include "base/log.h"
#include "task/description.h"
#include "task/label_map.h"
#include "task/labelled.h"
#include "task/outcomes.h"
#include "task/pass.h"

enum { EITP__WEIGHTS_NAME_SIZE = 32 };

/* Initial room for the description of an evaluation, which is rarely longer. */
#define EITP__DESCRIPTION_ROOM ((size_t)49152)

typedef struct eitp__classification {
    eitp_host host;
    eitp_model *model;
    const eitp_tokenizer *tokenizer;
    eitp_labelled_source sources[2]; /* of each eitp_split */
    eitp__label_map maps[2];         /* maps from their labels to the model's */
    eitp_problem problem;
    int64_t labels;
    double label_smoothing;
    int has_weights;                            /* samples or tokens have weights in the loss; 0: all weights are 1 */
    float *class_weights;                       /* [labels]; NULL: 1 each */
    char weights_name[EITP__WEIGHTS_NAME_SIZE]; /* name of the variable that holds a copy of class_weights */
    eitp_task_metric metrics[EITP_MAX_TASK_METRICS];
    int metric_count;
    int has_outcomes; /* the following members are from the last evaluation */
    int64_t judged_samples;
    eitp_label_result *results; /* [labels]; NULL for numbers */
    int64_t *confusion;         /* [labels, labels], or NULL */
    /* For labels of tokens that mark entities. */
    const char **names; /* [labels] */
    eitp__entity_labels entity_labels;
    eitp_label_result *entities; /* [labels], only the first entity_labels.type_count are used */
    eitp__confusion shown;
    eitp__mistakes mistakes;
    eitp_mistake worst[EITP_MAX_MISTAKES]; /* the worst mistakes, with pointers to their ids */
    eitp__buffer description;              /* description of the evaluation, written on request */
} eitp__classification;

/* True if each sample, or token, has exactly one label. */
static int eitp__has_classes(eitp_problem problem) {
    return problem == EITP_PROBLEM_SINGLE_LABEL || problem == EITP_PROBLEM_TOKENS;
}

/* ---- The graph ---- */

/* Returns the cross-entropy of each sample, or token. */
static eitp_tensor *eitp__class_losses(const eitp__classification *c, eitp_tensor *scores, eitp_tensor *label) {
    eitp_cross_entropy_config config = eitp_cross_entropy_config_default();
    config.ignored = EITP__IGNORED_TARGET;
    config.label_smoothing = c->label_smoothing;
    if (c->class_weights)
        config.weights =
            eitp_variable_tensor(eitp_tensor_graph(scores), c->weights_name, EITP_CACHE, EITP_F32, 1, &c->labels);
    return eitp_cross_entropy_with(scores, label, &config);
}

/* Returns -y log p - (1 - y) log(1 - p) for p = sigmoid(x), computed as max(x, 0) - x y + log(1 + exp(-|x|)), which
   never overflows. */
static eitp_tensor *eitp__binary_losses(eitp_tensor *x, eitp_tensor *y) {
    eitp_tensor *tail = eitp_log(eitp_affine(eitp_exp(eitp_negate(eitp_abs(x))), 1, 1));
    return eitp_add(eitp_subtract(eitp_relu(x), eitp_multiply(x, y)), tail);
}

static eitp_tensor *eitp__squared_losses(eitp_tensor *x, eitp_tensor *y) {
    eitp_tensor *difference = eitp_subtract(x, y);
    return eitp_multiply(difference, difference);
}

/* Returns the mean over labels for each sample, times its weight, which is 0 for unused elements. */
static eitp_tensor *eitp__target_losses(const eitp__classification *c, eitp_pass *pass, eitp_tensor *scores) {
    eitp_tensor *targets = eitp_pass_sample_input(pass, "targets", EITP_F32, 1, &c->labels, 0);
    eitp_tensor *weight = eitp_pass_sample_input(pass, "weight", EITP_F32, 0, NULL, 0);
    eitp_tensor *losses = c->problem == EITP_PROBLEM_MULTI_LABEL ? eitp__binary_losses(scores, targets)
                                                                 : eitp__squared_losses(scores, targets);
    return eitp_multiply(eitp_mean(losses, 2u, 0), weight);
}

static eitp_status eitp__classification_build(void *user, eitp_pass *pass, eitp_error *error) {
    const eitp__classification *c = (const eitp__classification *)user;
    eitp_graph *graph = eitp_pass_graph(pass);
    const eitp_model_inputs inputs = eitp__labelled_inputs(pass, c->model);
    eitp_tensor *hidden = eitp_model_hidden(c->model, graph, &inputs, eitp_pass_max_length(pass));
    eitp_tensor *scores, *losses;
    if (c->problem == EITP_PROBLEM_TOKENS) {
        eitp_tensor *labels = eitp_pass_row_input(pass, "labels", EITP_I32, 0, NULL, EITP__IGNORED_TARGET);
        scores = eitp_model_token_scores(c->model, hidden, &inputs);
        losses = eitp__class_losses(c, scores, labels);
        if (c->has_weights)
            losses = eitp_multiply(losses, eitp_pass_row_input(pass, "weights", EITP_F32, 0, NULL, 0));
        eitp_pass_set_targets(pass, labels, EITP__IGNORED_TARGET);
    } else if (c->problem == EITP_PROBLEM_SINGLE_LABEL) {
        eitp_tensor *label = eitp_pass_sample_input(pass, "label", EITP_I32, 0, NULL, EITP__IGNORED_TARGET);
        scores = eitp_model_scores(c->model, hidden, &inputs);
        losses = eitp__class_losses(c, scores, label);
        if (c->has_weights)
            losses = eitp_multiply(losses, eitp_pass_sample_input(pass, "weight", EITP_F32, 0, NULL, 0));
        eitp_pass_set_targets(pass, label, EITP__IGNORED_TARGET);
    } else {
        scores = eitp_model_scores(c->model, hidden, &inputs);
        losses = eitp__target_losses(c, pass, scores);
    }
    eitp_pass_term(pass, "loss", losses, NULL);
    eitp_pass_output(pass, "scores", scores);
    return eitp_graph_status(graph, error);
}

/* ---- Samples ---- */

/* Checks the targets that a source has read. */
static eitp_status eitp__check_targets_read(const eitp__classification *c, uint64_t number,
                                            const eitp_labelled_sample *sample, eitp_error *error) {
    const int is_number = c->problem == EITP_PROBLEM_REGRESSION;
    for (int64_t i = 0; i < c->labels && sample->targets; i++) {
        const float target = sample->targets[i];
        if (!isfinite(target) || (!is_number && !(target >= 0 && target <= 1)))
            return eitp__fail(error, EITP_ERROR_FORMAT, "sample %llu has %g as target %lld; it must be %s",
                              (unsigned long long)number, (double)target, (long long)i,
                              is_number ? "a finite number" : "0 to 1");
    }
    return EITP_OK;
}

/* Checks and stores the labels of a sample or its tokens, their number, and their weight in the mean. If `weights` is
   NULL, each weighs 1. */
static eitp_status eitp__store_labels(const eitp__classification *c, const eitp__label_map *map, uint64_t number,
                                      const int32_t *labels, const float *weights, int64_t count, int32_t *values,
                                      eitp_sample *sample, eitp_error *error) {
    double weight = 0;
    sample->items[0] = 0;
    for (int64_t i = 0; i < count; i++) {
        if (labels[i] < -1 || labels[i] >= map->source_labels)
            return eitp__fail(error, EITP_ERROR_FORMAT,
                              "sample %llu has label %d; it must be 0 to %lld, or -1 for none",
                              (unsigned long long)number, (int)labels[i], (long long)map->source_labels - 1);
        const int32_t label = eitp__label_map_number(map, labels[i]);
        values[i] = label < 0 ? EITP__IGNORED_TARGET : label;
        sample->items[0] += label >= 0;
        if (label >= 0)
            weight += (c->class_weights ? (double)c->class_weights[label] : 1) * (weights ? (double)weights[i] : 1);
    }
    if (c->class_weights || weights)
        sample->weights[0] = weight;
    return EITP_OK;
}

static eitp_status eitp__classification_read(void *user, eitp_split split, uint64_t number, eitp_sample *sample,
                                             eitp_error *error) {
    const eitp__classification *c = (const eitp__classification *)user;
    const eitp__label_map *map = &c->maps[split];
    void **targets = sample->values + eitp__labelled_input_count(c->model);
    eitp_labelled_sample read = EITP__ZERO;
    float *weights = c->has_weights || !eitp__has_classes(c->problem) ? (float *)targets[1] : NULL;
    int64_t weight_count;
    eitp_status status;
    read.targets = eitp__has_classes(c->problem) ? NULL : (float *)targets[0];
    read.token_labels = c->problem == EITP_PROBLEM_TOKENS ? (int32_t *)targets[0] : NULL;
    read.token_weights = c->problem == EITP_PROBLEM_TOKENS && c->sources[split].has_weights ? weights : NULL;
    status = eitp__labelled_read(&c->sources[split], c->model, number, sample, &read, error);
    if (status)
        return status;
    weight_count = c->problem == EITP_PROBLEM_TOKENS ? read.length : 1;
    for (int64_t i = 0; i < weight_count && weights && !read.token_weights; i++)
        weights[i] = c->sources[split].has_weights ? read.weight : 1;
    status = eitp__check_weights_read(weights, weights ? weight_count : 0, number, error);
    if (status)
        return status;
    if (c->problem == EITP_PROBLEM_TOKENS)
        return eitp__store_labels(c, map, number, read.token_labels, weights, read.length, read.token_labels, sample,
                                  error);
    if (c->problem == EITP_PROBLEM_SINGLE_LABEL)
        return eitp__store_labels(c, map, number, &read.label, weights, 1, (int32_t *)targets[0], sample, error);
    if (c->has_weights)
        sample->weights[0] = (double)weights[0];
    eitp__label_map_targets(map, read.targets);
    return eitp__check_targets_read(c, number, &read, error);
}

static eitp_status eitp__classification_identify(void *user, eitp_task_identity *identity, eitp_error *error) {
    (void)error;
    eitp__labelled_identify(&((const eitp__classification *)user)->sources[EITP_TRAINING], identity);
    return EITP_OK;
}

/* Saves the tokenizer. */
static eitp_status eitp__classification_save(void *user, const char *directory, eitp_error *error) {
    const eitp__classification *c = (const eitp__classification *)user;
    return eitp__save_tokenizer(c->tokenizer, c->model, directory, error);
}

/* ---- Evaluation ---- */

static size_t eitp__classification_observation_bytes(void *user, uint64_t samples) {
    const eitp__classification *c = (const eitp__classification *)user;
    return eitp__outcomes_bytes(c->problem, c->labels, samples);
}

static void eitp__classification_observe_mistake(const eitp__classification *c, eitp__outcomes *outcomes,
                                                 const eitp_observation *observation) {
    eitp__judged_sample sample;
    sample.number = observation->number;
    sample.ids = (const int32_t *)observation->values[0];
    sample.rows = observation->rows;
    sample.scores = observation->outputs[0];
    sample.target = observation->values[eitp__labelled_input_count(c->model)];
    eitp__mistakes_observe(outcomes->mistakes, c->problem, c->labels, &sample);
}

static void eitp__classification_observe(void *user, void *memory, const eitp_observation *observation) {
    const eitp__classification *c = (const eitp__classification *)user;
    const void *target = observation->values[eitp__labelled_input_count(c->model)];
    eitp__outcomes *outcomes = (eitp__outcomes *)memory;
    if (!observation->index)
        eitp__outcomes_init(memory, c->problem, c->labels, observation->samples)->entities =
            c->entities ? &c->entity_labels : NULL;
    if (c->problem == EITP_PROBLEM_TOKENS)
        eitp__outcomes_add_tokens(outcomes, observation->index, observation->outputs[0], (const int32_t *)target,
                                  observation->rows);
    else if (c->problem != EITP_PROBLEM_SINGLE_LABEL)
        eitp__outcomes_add_targets(outcomes, observation->outputs[0], (const float *)target);
    else if (*(const int32_t *)target != EITP__IGNORED_TARGET)
        eitp__outcomes_add_label(outcomes, observation->outputs[0], *(const int32_t *)target);
    eitp__classification_observe_mistake(c, outcomes, observation);
}

static double eitp__fraction(int64_t part, int64_t whole) {
    return whole ? (double)part / (double)whole : 0;
}

static eitp_label_result eitp__label_result(const char *name, const eitp__label_counts *counts) {
    eitp_label_result result;
    result.name = name;
    result.support = counts->is_true;
    result.predicted = counts->is_predicted;
    result.precision = eitp__fraction(counts->is_both, counts->is_predicted);
    result.recall = eitp__fraction(counts->is_both, counts->is_true);
    result.f1 = eitp__fraction(2 * counts->is_both, counts->is_true + counts->is_predicted);
    return result;
}

static void eitp__keep_confusion(eitp__classification *c, const eitp__outcomes *outcomes) {
    const size_t bytes = (size_t)(c->labels * c->labels) * sizeof *c->confusion;
    if (c->problem == EITP_PROBLEM_TOKENS) {
        memcpy(c->confusion, outcomes->confusion, bytes);
        return;
    }
    memset(c->confusion, 0, bytes);
    for (int64_t i = 0; i < outcomes->count; i++)
        c->confusion[outcomes->is_true[i] * c->labels + outcomes->predicted[i]]++;
}

static void eitp__keep_mistakes(eitp__classification *c, const eitp__mistakes *mistakes) {
    c->mistakes.count = mistakes->count;
    for (int64_t i = 0; i < mistakes->count; i++) {
        eitp__mistake *own = &c->mistakes.all[i];
        *own = mistakes->all[i];
        c->worst[i] = own->is;
        c->worst[i].ids = own->ids;
        c->worst[i].word = own->is.word_count ? own->word : NULL;
    }
}

/* Stores the data of eitp_classification_report_get and eitp__classification_describe. */
static void eitp__classification_keep_report(eitp__classification *c, const eitp__outcomes *outcomes) {
    c->has_outcomes = 1;
    c->judged_samples = outcomes->count;
    if (c->results)
        eitp__count_labels(outcomes, 0);
    for (int64_t k = 0; k < c->labels && c->results; k++)
        c->results[k] = eitp__label_result(eitp_model_label(c->model, k), &outcomes->by_label[k]);
    eitp__confusion_count(&c->shown, outcomes);
    eitp__keep_mistakes(c, outcomes->mistakes);
    if (c->entities)
        eitp__sum_groups(outcomes->group_entities, c->labels, 0, outcomes->by_label);
    for (int64_t k = 0; k < c->entity_labels.type_count; k++)
        c->entities[k] = eitp__label_result(c->entity_labels.type_names[k], &outcomes->by_label[k]);
    if (c->confusion)
        eitp__keep_confusion(c, outcomes);
}

static void eitp__classification_compute_metrics(void *user, void *memory, eitp_metric *results) {
    eitp__classification *c = (eitp__classification *)user;
    eitp__outcomes *outcomes = (eitp__outcomes *)memory;
    eitp__outcomes_end(outcomes);
    eitp__compute_metrics(outcomes, results);
    eitp__classification_keep_report(c, outcomes);
}

static const char *eitp__classification_describe(void *user) {
    eitp__classification *c = (eitp__classification *)user;
    if (!c->has_outcomes)
        return NULL;
    eitp__buffer_clear(&c->description);
    eitp__describe_evaluation(&c->description, c->problem, c->model, c->tokenizer, &c->shown, c->worst,
                              c->mistakes.count);
    return c->description.failed ? NULL : c->description.data;
}

eitp_status eitp_classification_report_get(const eitp_task *task, eitp_classification_report *report,
                                           eitp_error *error) {
    const eitp__classification *c;
    if (!task || !report)
        return eitp__fail_null(error, "eitp_classification_report_get", "task and report");
    c = (const eitp__classification *)task->user;
    if (task->compute_metrics != eitp__classification_compute_metrics || !c->has_outcomes)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "a report needs a task of eitp_classification_task that was evaluated");
    report->problem = c->problem;
    report->samples = c->judged_samples;
    report->label_count = c->labels;
    report->labels = c->results;
    report->confusion = c->confusion;
    report->entities = c->entities;
    report->entity_count = c->entity_labels.type_count;
    report->mistakes = c->worst;
    report->mistake_count = c->mistakes.count;
    return EITP_OK;
}

/* ---- Checks ---- */

static const char *const eitp__problem_words[] = {"no label", "a single label", "several labels", "numbers",
                                                  "labels of tokens"};

static eitp_status eitp__check_labelled_source(const eitp_classification_config *config,
                                               const eitp_labelled_source *source, eitp_error *error) {
    const eitp_transformer_config *model = &config->model->config;
    const eitp_problem problem = source->problem;
    if (problem < EITP_PROBLEM_SINGLE_LABEL || problem > EITP_PROBLEM_TOKENS)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the samples of a labelled source must have labels");
    if (problem != config->training.problem || (model->problem && model->problem != problem))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the samples have %s, but %s %s", eitp__problem_words[problem],
                          model->problem && model->problem != problem ? "the model is for"
                                                                      : "the training samples have",
                          eitp__problem_words[model->problem && model->problem != problem ? model->problem
                                                                                          : config->training.problem]);
    return eitp__labelled_check(source, config->model, error);
}

static eitp_status eitp__check_class_weights(const float *weights, int64_t labels, eitp_error *error) {
    double sum = 0;
    for (int64_t i = 0; i < labels && weights; i++) {
        if (!(weights[i] >= 0) || !isfinite(weights[i]))
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "class_weights[%lld] is %g; it must be 0 or more",
                              (long long)i, (double)weights[i]);
        sum += (double)weights[i];
    }
    return sum > 0 || !weights
               ? EITP_OK
               : eitp__fail(error, EITP_ERROR_ARGUMENT, "at least one of class_weights must be above 0");
}

/* Fails unless the model has the head that the problem of the training samples needs. */
static eitp_status eitp__check_classifier(const eitp_classification_config *config, eitp_error *error) {
    const int is_tokens = config->training.problem == EITP_PROBLEM_TOKENS;
    if (config->model->config.head == (is_tokens ? EITP_HEAD_TOKEN_CLASSIFIER : EITP_HEAD_CLASSIFIER))
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_ARGUMENT,
                      "the model has no %sclassifier; set head to EITP_HEAD_%sCLASSIFIER in eitp_transformer_config",
                      is_tokens ? "token " : "", is_tokens ? "TOKEN_" : "");
}

static eitp_status eitp__check_classification(const eitp_classification_config *config, eitp_error *error) {
    const eitp_transformer_config *model = &config->model->config;
    eitp_status status = eitp__check_classifier(config, error);
    if (status)
        return status;
    if (!config->training.count && !config->validation.count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the sources have no samples");
    if (!(config->label_smoothing >= 0 && config->label_smoothing <= 1))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "label_smoothing must be 0 to 1 (got %g)",
                          config->label_smoothing);
    if (!eitp__has_classes(config->training.problem) && (config->label_smoothing > 0 || config->class_weights))
        return eitp__fail(
            error, EITP_ERROR_ARGUMENT,
            "label_smoothing and class_weights require a single label per sample or token, but the samples have %s",
            (unsigned)config->training.problem <= EITP_PROBLEM_TOKENS ? eitp__problem_words[config->training.problem]
                                                                      : "none");
    status = eitp__check_labelled_source(config, &config->training, error);
    if (!status && config->validation.count)
        status = eitp__check_labelled_source(config, &config->validation, error);
    return status ? status : eitp__check_class_weights(config->class_weights, model->labels, error);
}

/* ---- Creation ---- */

static size_t eitp__confusion_bytes(const eitp__classification *c) {
    const int has_one = eitp__has_classes(c->problem) && c->labels <= EITP_MAX_CONFUSION_LABELS;
    return has_one ? (size_t)(c->labels * c->labels) * sizeof *c->confusion : 0;
}

static size_t eitp__results_bytes(const eitp__classification *c) {
    return c->problem == EITP_PROBLEM_REGRESSION ? 0 : (size_t)c->labels * sizeof *c->results;
}

static void eitp__classification_release(void *user) {
    eitp__classification *c = (eitp__classification *)user;
    const eitp_host host = c->host;
    if (c->class_weights)
        eitp__release(&host, c->class_weights, (size_t)c->labels * sizeof *c->class_weights);
    if (c->results)
        eitp__release(&host, c->results, eitp__results_bytes(c));
    if (c->confusion)
        eitp__release(&host, c->confusion, eitp__confusion_bytes(c));
    if (c->names)
        eitp__release(&host, c->names, (size_t)c->labels * sizeof *c->names);
    if (c->entities)
        eitp__release(&host, c->entities, eitp__results_bytes(c));
    eitp__entity_labels_release(&c->entity_labels, &host);
    eitp__buffer_release(&c->description);
    for (int split = 0; split < 2; split++)
        eitp__label_map_release(&c->maps[split]);
    eitp__release(&host, c, sizeof *c);
}

/* Warns that the model's head was trained with other labels, or other names of labels. */
static void eitp__warn_of_order(const eitp__classification *c, const eitp_labelled_source *source) {
    char theirs[EITP__LABEL_LIST_SIZE], own[EITP__LABEL_LIST_SIZE];
    const char *names[EITP__LISTED_LABELS];
    for (int64_t i = 0; i < c->labels && i < EITP__LISTED_LABELS; i++)
        names[i] = eitp_model_label(c->model, i);
    eitp__log_line(
        &c->host, EITP_LOG_WARNING,
        "the labels of the data (%s) differ from the labels of the model (%s), and are matched with them in this "
        "order; if its head was trained with another order, name its labels in id2label of its config.json",
        eitp__list_labels(source->labels, source->label_count, theirs), eitp__list_labels(names, c->labels, own));
}

/* Matches the labels of a source with the model's labels, which may get names. */
static eitp_status eitp__classification_map(eitp__classification *c, eitp_split split, eitp__named_labels *labels,
                                            int *takes_names, eitp_error *error) {
    const eitp_labelled_source *source = &c->sources[split];
    const size_t bytes = (size_t)source->label_count * sizeof(int32_t);
    int32_t *numbers = (int32_t *)eitp__allocate(&c->host, bytes);
    eitp_label_match match;
    eitp_status status;
    if (!numbers)
        return eitp__fail_memory(error, bytes, "the numbers of labels");
    status = eitp__match_labels(labels, &c->host, source, numbers, &match, error);
    if (!status)
        status = eitp__label_map_init(&c->maps[split], &c->host, numbers, source->label_count, c->labels, error);
    if (!status && match == EITP_LABELS_IN_ORDER && c->model->has_loaded_head && c->problem != EITP_PROBLEM_REGRESSION)
        eitp__warn_of_order(c, source);
    if (!status && match != EITP_LABELS_BY_NAME && source->labels && source->label_count == c->labels) {
        status = eitp__take_names(labels, source, numbers, error);
        *takes_names = 1;
    }
    eitp__release(&c->host, numbers, bytes);
    return status;
}

/* Matches the labels of both sources. The model gets names only after both match. */
static eitp_status eitp__classification_map_labels(eitp__classification *c, eitp_error *error) {
    eitp__named_labels labels;
    int takes_names = 0;
    eitp_status status = eitp__named_labels_init(&labels, c->model, error);
    for (int split = 0; split < 2 && !status; split++) {
        if (split == EITP_TRAINING || c->sources[split].count)
            status = eitp__classification_map(c, (eitp_split)split, &labels, &takes_names, error);
    }
    if (!status && takes_names)
        status = eitp_model_set_labels(c->model, labels.names, c->labels, error);
    eitp__named_labels_release(&labels, &c->host);
    return status;
}

/* Determines whether labels of tokens mark entities. */
static eitp_status eitp__classification_find_entities(eitp__classification *c, eitp_error *error) {
    const size_t bytes = (size_t)c->labels * sizeof *c->names;
    if (c->problem != EITP_PROBLEM_TOKENS)
        return EITP_OK;
    c->names = (const char **)eitp__allocate(&c->host, bytes);
    if (!c->names)
        return eitp__fail_memory(error, bytes, "the names of labels");
    for (int64_t k = 0; k < c->labels; k++)
        c->names[k] = eitp_model_label(c->model, k);
    if (!eitp_labels_mark_entities(c->names, c->labels))
        return EITP_OK;
    c->entities = (eitp_label_result *)eitp__allocate(&c->host, eitp__results_bytes(c));
    if (!c->entities)
        return eitp__fail_memory(error, eitp__results_bytes(c), "the results of entities");
    return eitp__entity_labels_init(&c->entity_labels, &c->host, c->names, c->labels, error);
}

/* Stores the class weights, also in a variable for the graph. Different weights use different variables. */
static eitp_status eitp__classification_set_weights(eitp__classification *c, const float *weights, eitp_error *error) {
    eitp_context *context = eitp_model_context(c->model);
    const size_t bytes = (size_t)c->labels * sizeof *weights;
    eitp_graph *graph;
    eitp_status status;
    if (!weights)
        return EITP_OK;
    c->class_weights = (float *)eitp__allocate(&c->host, bytes);
    if (!c->class_weights)
        return eitp__fail_memory(error, bytes, "the class weights");
    memcpy(c->class_weights, weights, bytes);
    snprintf(c->weights_name, sizeof c->weights_name, "class_weights.%08lx",
             (unsigned long)eitp__crc32c(0, weights, bytes));
    status = eitp_graph_create(context, &graph, error);
    if (status)
        return status;
    eitp_variable_tensor(graph, c->weights_name, EITP_CACHE, EITP_F32, 1, &c->labels);
    status = eitp_graph_status(graph, error);
    eitp_graph_destroy(graph);
    if (!status && !context->plans_only)
        status = eitp_variable_write(context, c->weights_name, 0, weights, bytes, error);
    return status;
}

static eitp_status eitp__classification_create(const eitp_classification_config *config, eitp__classification *c,
                                               eitp_error *error) {
    c->model = config->model;
    c->tokenizer = config->tokenizer;
    c->sources[EITP_TRAINING] = config->training;
    c->sources[EITP_VALIDATION] = config->validation;
    c->problem = config->training.problem;
    c->labels = config->model->config.labels;
    c->label_smoothing = config->label_smoothing;
    c->has_weights = config->training.has_weights || config->validation.has_weights;
    if (eitp__results_bytes(c))
        c->results = (eitp_label_result *)eitp__allocate(&c->host, eitp__results_bytes(c));
    if (eitp__confusion_bytes(c))
        c->confusion = (int64_t *)eitp__allocate(&c->host, eitp__confusion_bytes(c));
    if ((eitp__results_bytes(c) && !c->results) || (eitp__confusion_bytes(c) && !c->confusion))
        return eitp__fail_memory(error, eitp__results_bytes(c) + eitp__confusion_bytes(c), "the results of labels");
    eitp_status status = eitp__classification_map_labels(c, error);
    if (!status)
        status = eitp__classification_find_entities(c, error);
    if (!status &&
        !eitp__reserve(&c->host, (void **)&c->description.data, &c->description.capacity, EITP__DESCRIPTION_ROOM, 1))
        status = eitp__fail_memory(error, EITP__DESCRIPTION_ROOM, "the description of an evaluation");
    c->metric_count = eitp__metrics_of(c->problem, c->entities != NULL, c->metrics);
    return status ? status : eitp__classification_set_weights(c, config->class_weights, error);
}

/* Returns the loss of a uniform guess. */
static double eitp__classification_guess_loss(const eitp__classification *c) {
    return eitp__has_classes(c->problem)            ? log((double)c->labels)
           : c->problem == EITP_PROBLEM_MULTI_LABEL ? log(2.0)
                                                    : 0;
}

/* Fills in the task. */
static void eitp__classification_fill(eitp__classification *c, eitp_task *task) {
    eitp__labelled_fill(c->sources, c->model, task);
    task->user = c;
    task->unit = c->problem == EITP_PROBLEM_TOKENS ? "words" : "samples";
    task->guess_loss = eitp__classification_guess_loss(c);
    task->build = eitp__classification_build;
    task->read = eitp__classification_read;
    task->identify = eitp__classification_identify;
    task->save = eitp__classification_save;
    task->release = eitp__classification_release;
    task->metrics = c->metrics;
    task->metric_count = c->metric_count;
    task->observation_bytes = eitp__classification_observation_bytes;
    task->observe = eitp__classification_observe;
    task->compute_metrics = eitp__classification_compute_metrics;
    task->describe = eitp__classification_describe;
}

eitp_classification_config eitp_classification_config_default(void) {
    eitp_classification_config config = EITP__ZERO;
    return config;
}

eitp_status eitp_classification_task(const eitp_classification_config *config, eitp_task *task, eitp_error *error) {
    if (!config || !config->model || !task)
        return eitp__fail_null(error, "eitp_classification_task", "config, config.model and task");
    const eitp_host host = eitp_context_host(eitp_model_context(config->model));
    eitp__classification *c;
    eitp_status status = eitp__check_classification(config, error);
    memset(task, 0, sizeof *task);
    if (status)
        return status;
    c = (eitp__classification *)eitp__allocate(&host, sizeof *c);
    if (!c)
        return eitp__fail_memory(error, sizeof *c, "a task");
    c->host = host;
    eitp__buffer_init(&c->description, &c->host);
    status = eitp__classification_create(config, c, error);
    if (!status && config->training.count)
        c->model->config.problem = c->problem; /* saved in config.json */
    if (status) {
        eitp__classification_release(c);
        return status;
    }
    eitp__classification_fill(c, task);
    return EITP_OK;
}
