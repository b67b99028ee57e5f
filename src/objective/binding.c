#include "objective/binding.h"

#include "base/status.h"
#include "objective/objective_settings.h"
#include "objective/path_norm.h"
#include "objective/regularizers.h"
#include "objective/resolve.h"
#include "tensor/op_rules.h"

#if EITP_WITHOUT_OBJECTIVE

EITP__PRIVATE eitp_status eitp__objective_check_task(const eitp_objective_config *config, const eitp_task *task,
                                                     int64_t batch_size, eitp_error *error) {
    eitp_objective_config resolved;
    eitp_status status = eitp__objective_resolve(config, &resolved, error);
    (void)task;
    (void)batch_size;
    for (int i = 0; i < EITP_REGULARIZERS && !status; i++)
        if (resolved.terms[i].mode != EITP_TERM_OFF)
            status = eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                                "%s: this program was built with EITP_WITHOUT_OBJECTIVE; turn regularizers off",
                                eitp__regularizer_name((eitp_regularizer)i));
    return status;
}

EITP__PRIVATE void eitp__objective_bind(eitp__objective *objective, const eitp_objective_config *config,
                                        eitp_task *task) {
    objective->config = eitp_objective_config_default();
    (void)eitp__objective_resolve(config, &objective->config, NULL); /* checked before */
    objective->model = task->model;
    objective->extend = NULL;
    objective->extension = NULL;
}

EITP__PRIVATE int eitp__objective_probes(const eitp__objective *objective, eitp__probe_kind kinds[EITP__MAX_PROBES]) {
    (void)objective;
    (void)kinds;
    return 0;
}

#else

/* ---- Checks ---- */

/* Checks requirements of a regularizer that not every task meets. */
static eitp_status eitp__regularizer_check(const eitp_objective_config *config, eitp_regularizer regularizer,
                                           const eitp_task *task, eitp_error *error) {
    const char *name = eitp__regularizer_name(regularizer);
    const eitp_transformer_config model = eitp_model_config(task->model);
    const int is_by_sample = regularizer == EITP_ATTENTION_ENTROPY;
    const int needs_predictions =
        regularizer == EITP_OUTPUT_ENTROPY || regularizer == EITP_BRIER || regularizer == EITP_SELF_REPAIR;
    if (config->terms[regularizer].mode == EITP_TERM_OFF || regularizer == EITP_ENERGY)
        return EITP_OK;
    if (!task->model || model.layers < 1)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s needs a task with an eitp model that has blocks", name);
    if (needs_predictions && (model.head == EITP_HEAD_NONE || model.problem == EITP_PROBLEM_REGRESSION))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "%s is a statistic of predicted classes, but the model does not predict classes", name);
    if (needs_predictions && model.problem == EITP_PROBLEM_MULTI_LABEL)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "%s requires exactly one true class, but the model predicts several labels", name);
    if (regularizer == EITP_SELF_REPAIR && model.head != EITP_HEAD_LANGUAGE)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s is for models that predict tokens", name);
    if (is_by_sample && config->group == EITP_GROUP_MICRO_BATCH)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s is a statistic of samples: set group to sample", name);
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__objective_check_task(const eitp_objective_config *config, const eitp_task *task,
                                                     int64_t batch_size, eitp_error *error) {
    eitp_objective_config resolved;
    eitp_status status = eitp__objective_resolve(config, &resolved, error);
    if (!status && config->group == EITP_GROUP_MICRO_BATCH && batch_size < 2)
        status =
            eitp__fail(error, EITP_ERROR_ARGUMENT,
                       "statistics of micro-batches need a batch_size of 2 or more (got %lld)", (long long)batch_size);
    for (int i = 0; i < EITP_REGULARIZERS && !status; i++)
        status = eitp__regularizer_check(&resolved, (eitp_regularizer)i, task, error);
    return status;
}

/* ---- Passes ---- */

static eitp_term_schedule eitp__regularizer_timing(const eitp_regularizer_config *term) {
    eitp_term_schedule timing;
    timing.weight = term->mode == EITP_TERM_LOSS ? term->weight : 0;
    timing.every = term->every;
    timing.start = term->start;
    timing.warmup = term->warmup;
    return timing;
}

/* Reports the last added metric when its term would be due, without a term. */
static void eitp__time_measure(eitp_pass *pass, const eitp_regularizer_config *term) {
    if (pass->scalar_count && pass->trains && term->mode == EITP_TERM_METRIC)
        pass->scalars[pass->scalar_count - 1].timing = eitp__regularizer_timing(term);
}

/* Marks the last added term as the term of a regularizer. */
static void eitp__note_regularizer(eitp_pass *pass, eitp_regularizer regularizer) {
    if (pass->scalar_count && pass->scalars[pass->scalar_count - 1].is_term)
        pass->scalars[pass->scalar_count - 1].controlled = 1 + (int)regularizer;
}

static eitp_tensor *eitp__build_path_norm(void *user, eitp_graph *graph) {
    const eitp__objective *objective = (const eitp__objective *)user;
    return eitp__path_norm(objective->model, graph, objective->config.path_norm_form);
}

static void eitp__add_path_norm(const eitp__objective *objective, eitp_pass *pass) {
    const eitp_regularizer_config *term = &objective->config.terms[EITP_PATH_NORM];
    const eitp_term_schedule timing = eitp__regularizer_timing(term);
    const char *name = eitp__regularizer_name(EITP_PATH_NORM);
    void *user = (void *)(uintptr_t)objective; /* not written */
    if (term->mode == EITP_TERM_LOSS)
        eitp_pass_penalty(pass, name, eitp__build_path_norm, user, &timing);
    else
        eitp_pass_parameter_metric(pass, name, eitp__build_path_norm, user);
    eitp__time_measure(pass, term);
    eitp__note_regularizer(pass, EITP_PATH_NORM);
}

/* Checks that a program's own task has declared the inputs of a statistic. Returns 0 after an error. */
static int eitp__pass_has_parts(const eitp__objective *objective, const eitp_pass *pass, eitp_regularizer regularizer) {
    const int repairs = regularizer == EITP_SELF_REPAIR;
    const int needs_targets =
        regularizer == EITP_BRIER || (repairs && objective->config.self_repair_form == EITP_SELF_REPAIR_DENOISE);
    const char *name = eitp__regularizer_name(regularizer), *missing = NULL;
    if (!eitp_model_tap(objective->model, pass->graph, EITP_TAP_FINAL, 0))
        missing = "the hidden states of the task's model: compute them with eitp_model_hidden";
    else if (needs_targets && !pass->targets)
        missing = "the targets of the predictions: set them with eitp_pass_set_targets";
    else if (repairs && pass->positions_of != objective->model)
        missing = "the model's tokens: declare them with eitp_pass_model_inputs";
    if (missing)
        eitp__graph_fail(pass->graph, EITP_ERROR_ARGUMENT, "%s needs %s", name, missing);
    return !missing;
}

static void eitp__add_statistic(const eitp__objective *objective, eitp_pass *pass, eitp_regularizer regularizer) {
    const eitp_regularizer_config *term = &objective->config.terms[regularizer];
    const int trains = term->mode == EITP_TERM_LOSS && pass->trains;
    const eitp_term_schedule timing = eitp__regularizer_timing(term);
    const char *name = eitp__regularizer_name(regularizer);
    eitp__statistic statistic;
    if (!eitp__pass_has_parts(objective, pass, regularizer))
        return;
    statistic = eitp__regularizer_statistic(objective, pass, regularizer, trains);
    if (trains) {
        eitp_pass_statistic(pass, name, statistic.loss, &timing);
        eitp__note_regularizer(pass, regularizer);
    }
    eitp_pass_step_metric(pass, name, statistic.metric, EITP_DIRECTION_UNKNOWN);
    eitp__time_measure(pass, term);
    if (statistic.further)
        eitp_pass_step_metric(pass, statistic.further_name, statistic.further, EITP_DIRECTION_UNKNOWN);
}

/* Renames the task's term, now one of several, from "loss" to the name of its function. */
static void eitp__name_task_term(const eitp__objective *objective, eitp_pass *pass) {
    const eitp_transformer_config model = eitp_model_config(objective->model);
    eitp__scalar *term = &pass->scalars[0];
    if (pass->trains && pass->scalar_count && !strcmp(term->name, "loss"))
        snprintf(term->name, sizeof term->name, "%s", model.problem == EITP_PROBLEM_REGRESSION ? "mse" : "ce");
}

/* True if there are regularizers of the library or of the program. */
static int eitp__has_regularizers(const eitp__objective *objective, const eitp_pass *pass) {
    int has = 0;
    for (int q = 0; q < pass->scalar_count; q++)
        has |= pass->scalars[q].is_regularizer;
    for (int i = 0; i < EITP_REGULARIZERS; i++)
        has |= objective->config.terms[i].mode != EITP_TERM_OFF && i != EITP_ENERGY;
    return has;
}

/* Adds the regularizers that the task's pass computes. */
static void eitp__add_regularizers(const eitp__objective *objective, eitp_pass *pass) {
    if (eitp__has_regularizers(objective, pass))
        eitp__name_task_term(objective, pass);
    for (int i = 0; i < EITP_REGULARIZERS; i++) {
        const eitp_regularizer regularizer = (eitp_regularizer)i;
        if (objective->config.terms[i].mode == EITP_TERM_OFF || regularizer == EITP_ENERGY ||
            eitp__regularizer_get(regularizer)->has_own_passes)
            continue;
        if (regularizer == EITP_PATH_NORM)
            eitp__add_path_norm(objective, pass);
        else
            eitp__add_statistic(objective, pass, regularizer);
    }
}

static eitp_status eitp__objective_extend(void *user, eitp_pass *pass, eitp_error *error) {
    const eitp__objective *objective = (const eitp__objective *)user;
    eitp_status status = EITP_OK;
    if (pass->probe) {
        eitp__add_statistic(objective, pass, (eitp_regularizer)(pass->probe - 1));
        return eitp_graph_status(pass->graph, error);
    }
    if (objective->extend)
        status = objective->extend(objective->extension, pass, error);
    if (!status)
        eitp__add_regularizers(objective, pass);
    return status ? status : eitp_graph_status(pass->graph, error);
}

EITP__PRIVATE void eitp__objective_bind(eitp__objective *objective, const eitp_objective_config *config,
                                        eitp_task *task) {
    const eitp__objective *bound =
        task->extend == eitp__objective_extend ? (const eitp__objective *)task->extension : NULL;
    objective->config = eitp_objective_config_default();
    (void)eitp__objective_resolve(config, &objective->config, NULL); /* checked before */
    objective->model = task->model;
    objective->extend = bound ? bound->extend : task->extend;
    objective->extension = bound ? bound->extension : task->extension;
    task->extend = eitp__objective_extend;
    task->extension = objective;
}

EITP__PRIVATE int eitp__objective_probes(const eitp__objective *objective, eitp__probe_kind kinds[EITP__MAX_PROBES]) {
    int count = 0;
    for (int i = 0; i < EITP_REGULARIZERS; i++) {
        const eitp_regularizer_config *term = &objective->config.terms[i];
        if (term->mode == EITP_TERM_OFF || !eitp__regularizer_get((eitp_regularizer)i)->has_own_passes)
            continue;
        kinds[count].regularizer = (eitp_regularizer)i;
        kinds[count].timing = eitp__regularizer_timing(term);
        kinds[count++].trains = term->mode == EITP_TERM_LOSS;
    }
    return count;
}

#endif
