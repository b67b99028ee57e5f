#include "run/health.h"

#include "base/files.h"
#include "base/status.h"
#include "io/io.h"
#include "run/directory.h"
#include "run/internal.h"
#include "train/trainer.h"

/* ---- The limit of losses ---- */

EITP__PRIVATE void eitp__health_add_loss(eitp__health *health, double loss) {
    if (!isfinite(loss))
        return;
    if (health->first.count < EITP__HEALTH_LOSSES)
        eitp__rolling_add(&health->first, EITP__HEALTH_LOSSES, loss);
    eitp__rolling_add(&health->recent, EITP__HEALTH_LOSSES, loss);
    health->losses++;
}

/* Returns the median of the last losses. */
static double eitp__health_loss(const eitp__health *health) {
    return eitp__median(health->recent.values, health->recent.count);
}

/* Returns the loss above which the model has diverged, or HUGE_VAL if it is unlimited. `guess` is
   eitp_task.guess_loss. */
static double eitp__health_limit(const eitp__health *health, double guess) {
    const double *losses = health->first.values;
    const size_t count = health->first.count;
    const double first = eitp__median(losses, count);
    double known = health->has_saved ? health->saved_loss : guess > 0 ? losses[0] : first;
    double deviation = health->has_saved ? health->saved_deviation : eitp__median_deviation(losses, count);
    double limit = known + fabs(known);
    if (!count)
        return HUGE_VAL;
    if (guess > 0)
        return limit > guess + 1 ? limit : guess + 1;
    if (limit < known + 10 * deviation)
        limit = known + 10 * deviation;
    if (limit < 0.5 * known + 0.5 * first)
        limit = 0.5 * known + 0.5 * first;
    return limit > known ? limit : HUGE_VAL;
}

EITP__PRIVATE int eitp__health_has_diverged(const eitp__health *health, double guess) {
    const size_t count = health->recent.count;
    const double limit = eitp__health_limit(health, guess);
    size_t above = 0;
    while (above < EITP__HEALTH_LAST && above < count && health->recent.values[count - 1 - above] > limit)
        above++;
    return above == EITP__HEALTH_LAST || (count > 1 && eitp__health_loss(health) > limit);
}

EITP__PRIVATE void eitp__health_saved(eitp__health *health) {
    const double loss = eitp__health_loss(health);
    if (!health->losses || (health->has_saved && loss >= health->saved_loss))
        return;
    health->has_saved = 1;
    health->saved_loss = loss;
    health->saved_deviation = eitp__median_deviation(health->recent.values, health->recent.count);
}

/* ---- In a checkpoint ---- */

static const eitp__json_field eitp__health_fields[] = {
    EITP__JSON_FIELD(eitp__health, nonfinite, "nonfinite", INTEGER, 0, HUGE_VAL),
    EITP__JSON_FIELD(eitp__health, losses, "losses", INTEGER, 0, HUGE_VAL),
    EITP__JSON_FIELD(eitp__health, overflowed, "overflowed", FLAG, 0, 1),
    EITP__JSON_FIELD(eitp__health, saved_loss, "saved_loss", NUMBER, -HUGE_VAL, HUGE_VAL),
    EITP__JSON_FIELD(eitp__health, saved_deviation, "saved_deviation", NUMBER, 0, HUGE_VAL),
};

EITP__PRIVATE void eitp__health_write(const eitp__health *health, eitp__buffer *text) {
    const size_t fields = EITP__COUNT(eitp__health_fields);
    eitp__buffer_add_text(text, "{");
    eitp__json_write_fields(text, eitp__health_fields, health->has_saved ? fields : fields - 2, health);
    eitp__buffer_add_text(text, ", ");
    eitp__json_write_numbers(text, "first", health->first.values, health->first.count);
    eitp__buffer_add_text(text, ", ");
    eitp__json_write_numbers(text, "recent", health->recent.values, health->recent.count);
    eitp__buffer_add_text(text, "}");
}

static eitp_status eitp__health_read_losses(eitp__rolling *losses, const eitp_json *object, const char *name,
                                            int64_t all, eitp_error *error) {
    const size_t count = all < EITP__HEALTH_LOSSES ? (size_t)all : (size_t)EITP__HEALTH_LOSSES;
    return eitp__json_get_numbers(object, name, count, count, losses->values, &losses->count, error);
}

EITP__PRIVATE eitp_status eitp__health_read(eitp__health *health, const eitp_json *object, eitp_error *error) {
    eitp__health read = EITP__ZERO;
    eitp_status status = EITP_OK;
    if (object && object->kind != EITP_JSON_OBJECT)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: 'health' must be an object",
                          (unsigned long long)object->line);
    if (object)
        status = eitp__json_get_fields(object, eitp__health_fields, EITP__COUNT(eitp__health_fields), &read, error);
    if (object && !status)
        status = eitp__health_read_losses(&read.first, object, "first", read.losses, error);
    if (object && !status)
        status = eitp__health_read_losses(&read.recent, object, "recent", read.losses, error);
    read.has_saved = eitp_json_member(object, "saved_loss") != NULL;
    if (!status)
        *health = read;
    return status;
}

/* ---- Diagnosis ---- */

/* Number of steps after a reported spike in which more spikes are only counted. */
#define EITP__SPIKE_INTERVAL 20

/* Squares of smaller numbers are finite in F32. */
#define EITP__LARGEST_SQUARED 1e19

/* Maximum number of steps between a withdrawn checkpoint and the one before it. */
#define EITP__WITHDRAWN_STEPS 10

typedef struct eitp__model_health {
    eitp__health health;
    eitp_nonfinite nonfinite; /* with EITP_CHECK_FINITE_OP: the first in the step */
    int64_t judged_step;      /* newest checkpoint at the last step */
    int bad_losses;           /* number of bad losses in the first three steps after it */
} eitp__model_health;

typedef enum eitp__diagnosis {
    EITP__HEALTHY,
    EITP__UNPROVEN, /* the loss of the next step will decide */
    EITP__WEIGHTS_NOT_FINITE,
    EITP__STATE_OVERFLOWED,
    EITP__STEPS_NOT_FINITE,
    EITP__LOSS_DIVERGED
} eitp__diagnosis;

static double eitp__run_guess(const eitp_run *run) {
    return eitp__trainer_task(run->trainer)->guess_loss;
}

/*
 * The loss of a step is computed before its update. So a single bad loss, or an update as large as the weights, which
 * may have destroyed them, proves nothing. The next step does, or an evaluation of the model.
 */
static eitp__diagnosis eitp__health_unproven(const eitp_run *run, double limit) {
    const eitp_run_report *report = &run->report;
    if (report->step.task_loss <= limit && !(report->step.update_norm > 0.5 * report->step.parameter_norm))
        return EITP__HEALTHY;
    if (report->evaluations && report->evaluated_step == report->step.step)
        return report->evaluation.loss <= limit ? EITP__HEALTHY : run->is_ending ? EITP__LOSS_DIVERGED : EITP__UNPROVEN;
    return run->is_ending ? EITP__HEALTHY : EITP__UNPROVEN;
}

static eitp__diagnosis eitp__diagnose(const eitp_run *run, const eitp__health *health) {
    const double guess = eitp__run_guess(run);
    if (!run->report.step.step)
        return EITP__HEALTHY;
    if (health->nonfinite)
        return EITP__STEPS_NOT_FINITE;
    if (!isfinite(run->report.step.parameter_norm))
        return EITP__WEIGHTS_NOT_FINITE;
    if (health->overflowed)
        return EITP__STATE_OVERFLOWED;
    if (eitp__health_has_diverged(health, guess))
        return EITP__LOSS_DIVERGED;
    return eitp__health_unproven(run, eitp__health_limit(health, guess));
}

/* ---- Messages ---- */

/* Formats a loss, such as "57.52 after step 2, up from 5.551 (a uniform guess: 5.549)". */
static void eitp__describe_loss(const eitp_run *run, const eitp__health *health, char *text, size_t size) {
    const double guess = eitp__run_guess(run);
    char uniform[48] = "";
    if (guess > 0 && isfinite(guess))
        snprintf(uniform, sizeof uniform, " (a uniform guess: %.4g)", guess);
    snprintf(text, size, "%.4g after step %lld, up from %.4g%s", eitp__health_loss(health),
             (long long)run->report.step.step, health->has_saved ? health->saved_loss : health->first.values[0],
             uniform);
}

static void eitp__describe_diagnosis(const eitp_run *run, const eitp__health *health, eitp__diagnosis diagnosis,
                                     char *text, size_t size) {
    const long long step = (long long)run->report.step.step;
    char loss[160];
    eitp__describe_loss(run, health, loss, sizeof loss);
    if (diagnosis == EITP__WEIGHTS_NOT_FINITE)
        snprintf(text, size, "weights are not finite after step %lld", step);
    else if (diagnosis == EITP__STATE_OVERFLOWED)
        snprintf(text, size, "the optimizer's state has overflowed: a gradient norm was above %g",
                 EITP__LARGEST_SQUARED);
    else if (diagnosis == EITP__STEPS_NOT_FINITE)
        snprintf(text, size, "%lld step%s skipped because the gradient is not finite, up to step %lld%s",
                 (long long)health->nonfinite, health->nonfinite > 1 ? "s in a row were" : " was", step,
                 isfinite(run->report.step.parameter_norm) ? "" : "; weights are not finite");
    else
        snprintf(text, size, "the loss diverged: %s", loss);
}

/* ---- After each step ---- */

/* True if numbers of the last step are not finite because of the model. In fp16, a gradient that overflows at a loss
   scale above 1 does not count, because the next step has a smaller scale. The loss does not depend on the scale. */
static int eitp__step_is_nonfinite(const eitp_step_report *step) {
    return !step->applied && !isfinite(step->grad_norm) && (step->loss_scale <= 1 || !isfinite(step->loss));
}

/* True if the loss is well above its previous values, on the way from a good model to a uniform guess. */
static int eitp__health_is_leaving(const eitp__health *health, double guess) {
    const double first = health->first.values[0], loss = eitp__health_loss(health);
    return guess > 0 && isfinite(guess) && health->losses > EITP__HEALTH_LAST && loss > first + 1 &&
           loss > 1.5 * first && loss > guess / 2;
}

/* Warns when the loss explodes, once until it has recovered. */
static void eitp__health_watch_loss(eitp_run *run, eitp__health *health) {
    const double guess = eitp__run_guess(run);
    const int diverges = eitp__health_has_diverged(health, guess) || eitp__health_is_leaving(health, guess);
    char loss[160];
    if (diverges && !health->has_warned) {
        eitp__describe_loss(run, health, loss, sizeof loss);
        eitp__run_notify(run, EITP_EVENT_DIVERGING, EITP_LOG_WARNING, 0,
                         "the loss diverges: %s; lower the learning rate (now %.3g) or use a longer warm-up", loss,
                         run->report.step.learning_rate);
    }
    health->has_warned = diverges;
}

/* Checks the norm of the gradient: it bounds every element, whose squares the optimizer averages. */
static void eitp__health_watch_state(const eitp_run *run, eitp__health *health) {
    const eitp_step_report *step = &run->report.step;
    const double limit = eitp__trainer_config(run->trainer)->max_grad_norm;
    const double norm = limit > 0 && limit < step->grad_norm ? limit : step->grad_norm;
    if (step->applied && norm >= EITP__LARGEST_SQUARED)
        health->overflowed = 1;
}

/* Reports a spike, unless one was reported a few steps before. Spikes during warm-up, when norms change by themselves,
   are only recorded. */
static void eitp__health_watch_spikes(eitp_run *run, eitp__health *health) {
    const eitp_step_report *step = &run->report.step;
    char loss[80] = "", norm[80] = "", more[48] = "";
    if (!step->spike || step->step <= eitp__trainer_config(run->trainer)->schedule.warmup)
        return;
    if (health->spike_step && step->step - health->spike_step < EITP__SPIKE_INTERVAL) {
        health->unreported_spikes++;
        return;
    }
    if (step->spike & EITP_SPIKE_LOSS)
        snprintf(loss, sizeof loss, "loss %.4g (usually %.4g)", step->task_loss, step->usual_loss);
    if (step->spike & EITP_SPIKE_GRADIENT)
        snprintf(norm, sizeof norm, "gradient norm %.3g (usually %.3g)", step->grad_norm, step->usual_grad_norm);
    if (health->unreported_spikes)
        snprintf(more, sizeof more, "; %lld more since step %lld", (long long)health->unreported_spikes,
                 (long long)health->spike_step);
    health->spike_step = step->step;
    health->unreported_spikes = 0;
    eitp__run_notify(run, EITP_EVENT_SPIKE, EITP_LOG_WARNING, 0, "spike in step %lld: %s%s%s%s%s",
                     (long long)step->step, loss, *loss && *norm ? ", " : "", norm,
                     step->applied ? "" : "; the step was skipped", more);
}

/* Counts bad losses in the first three steps after the newest checkpoint. */
static void eitp__judge_checkpoint(const eitp_run *run, eitp__model_health *model) {
    const eitp_run_report *report = &run->report;
    const int64_t newest = eitp__run_newest_save(run);
    const double limit = eitp__health_limit(&model->health, eitp__trainer_task(run->trainer)->guess_loss);
    if (model->judged_step != newest)
        model->bad_losses = 0;
    model->judged_step = newest;
    model->bad_losses += !(report->step.task_loss <= limit) && report->step.step <= newest + EITP__HEALTH_LAST;
}

/* Votes to end the run after max_nonfinite consecutive steps with numbers that were not finite. */
static void eitp__health_watch_finite(eitp_run *run, eitp__model_health *model, eitp__decision *decision) {
    const eitp_step_report *step = &run->report.step;
    eitp__health *health = &model->health;
    char cause[500];
    health->nonfinite = eitp__step_is_nonfinite(step) ? health->nonfinite + 1 : 0;
    if (!health->nonfinite || run->config.check_finite == EITP_CHECK_FINITE_NO)
        return;
    eitp_nonfinite_format(&model->nonfinite, cause, sizeof cause);
    eitp__run_notify(run, EITP_EVENT_SKIPPED_STEP, EITP_LOG_WARNING, 0,
                     "step %lld skipped: the gradient is not finite%s%s", (long long)step->step, *cause ? ": " : "",
                     cause);
    if (health->nonfinite >= run->config.max_nonfinite && !decision->fails.status)
        eitp__fail(&decision->fails, EITP_ERROR_NOT_FINITE,
                   "%lld steps were skipped because the gradient is not finite, up to step %lld",
                   (long long)health->nonfinite, (long long)step->step);
}

static void eitp__health_after_step(eitp_run *run, void *state, eitp__decision *decision) {
    eitp__model_health *model = (eitp__model_health *)state;
    eitp__judge_checkpoint(run, model);
    eitp__health_add_loss(&model->health, run->report.step.task_loss);
    eitp__health_watch_state(run, &model->health);
    eitp__health_watch_loss(run, &model->health);
    eitp__health_watch_spikes(run, &model->health);
    eitp__health_watch_finite(run, model, decision);
}

/* ---- A damaged model ---- */

static void eitp__health_assess(const eitp_run *run, const void *state, eitp__assessment *assessment) {
    const eitp__health *health = &((const eitp__model_health *)state)->health;
    const eitp__diagnosis diagnosis = eitp__diagnose(run, health);
    if (diagnosis == EITP__HEALTHY)
        return;
    assessment->verdict = diagnosis == EITP__UNPROVEN ? EITP__MODEL_UNKNOWN : EITP__MODEL_DAMAGED;
    assessment->end = diagnosis == EITP__LOSS_DIVERGED ? EITP_RUN_DIVERGED : EITP_RUN_NOT_FINITE;
    eitp__describe_diagnosis(run, health, diagnosis, assessment->why, sizeof assessment->why);
}

/* Returns "<directory>/checkpoint-<step><suffix>", or NULL if out of memory. */
static char *eitp__run_checkpoint_path(const eitp_run *run, int64_t step, const char *suffix) {
    char name[64];
    snprintf(name, sizeof name, "checkpoint-%lld%s", (long long)step, suffix);
    return eitp__join_path(&run->host, run->directory, name);
}

/* Returns the step of the newest undamaged checkpoint at most EITP__WITHDRAWN_STEPS before `step`, or -1. */
static int64_t eitp__run_find_before(const eitp_run *run, int64_t step) {
    for (int64_t older = step - 1; older > 0 && older >= step - EITP__WITHDRAWN_STEPS; older--) {
        char *path = eitp__run_checkpoint_path(run, older, "");
        eitp_path_info info = EITP__ZERO;
        const int is_whole = path && !eitp__path_info(&run->host, path, &info, NULL) &&
                             info.kind == EITP_PATH_DIRECTORY && !eitp_checkpoint_verify(&run->host, path, NULL);
        eitp__release_text(&run->host, path);
        if (is_whole)
            return older;
    }
    return -1;
}

/* Renames the checkpoint, replacing the result of an earlier attempt. */
static eitp_status eitp__run_rename_ruined(const eitp_run *run, int64_t step, eitp_error *error) {
    const eitp_host *host = &run->host;
    char *path = eitp__run_checkpoint_path(run, step, ""), *ruined = eitp__run_checkpoint_path(run, step, ".diverged");
    eitp_status status = path && ruined ? eitp__remove_tree(host, ruined, error)
                                        : eitp__fail_memory(error, strlen(run->directory), "a path");
    if (!status)
        status = eitp__rename_path(host, path, ruined, error);
    if (!status)
        status = eitp__sync_directory(host, run->directory, error);
    eitp__release_text(host, path);
    eitp__release_text(host, ruined);
    return status;
}

/* True if an observer keeps the checkpoint of this step, for example because it is the best one. */
static int eitp__run_keeps(const eitp_run *run, int64_t step) {
    EITP__EACH_OBSERVER (run, i, keeps) {
        if (run->observers[i].keeps(run, run->states[i]) == step)
            return 1;
    }
    return 0;
}

/*
 * The loss of a step is computed before its update, so only the steps after a save show the state of the saved model.
 * If the losses of the first three are above the limit of health.h, or not finite, the newest checkpoint is renamed to
 * checkpoint-<step>.diverged, and report.saved_step is the one before. Not if that is more than ten steps older: losses
 * of other samples are not a proof, so a mistake costs only a few steps.
 */
static void eitp__health_ruined(eitp_run *run, void *state) {
    const eitp__model_health *model = (const eitp__model_health *)state;
    eitp_run_report *report = &run->report;
    const int64_t step = report->saved_step;
    int64_t before;
    eitp_error error;
    if (step < 0 || step != model->judged_step || model->bad_losses < EITP__HEALTH_LAST || eitp__run_keeps(run, step))
        return;
    before = eitp__run_find_before(run, step);
    if (before < 0)
        return;
    if (eitp__run_rename_ruined(run, step, &error)) {
        eitp__run_notify(run, EITP_EVENT_WARNING, EITP_LOG_WARNING, 0,
                         "cannot rename the checkpoint of a damaged model: %s", error.message);
        return;
    }
    report->saved_step = before;
    eitp__run_update_links(run);
    eitp__run_notify(run, EITP_EVENT_WARNING, EITP_LOG_WARNING, 0,
                     "the steps after checkpoint-%lld show that the model had already diverged when it was saved: "
                     "renamed it to checkpoint-%lld.diverged",
                     (long long)step, (long long)step);
}

/* ---- The observer ---- */

static eitp_status eitp__health_begin(eitp_run *run, void *state, eitp_error *error) {
    (void)error;
    if (run->config.check_finite == EITP_CHECK_FINITE_OP)
        eitp_context_check_finite(eitp__trainer_task(run->trainer)->context, &((eitp__model_health *)state)->nonfinite);
    return EITP_OK;
}

static eitp_status eitp__health_before_step(eitp_run *run, void *state, eitp_error *error) {
    (void)run, (void)error;
    ((eitp__model_health *)state)->nonfinite.op = NULL;
    return EITP_OK;
}

static void eitp__health_saved_model(eitp_run *run, void *state, int is_counted, double waited) {
    (void)run, (void)waited;
    if (is_counted)
        eitp__health_saved(&((eitp__model_health *)state)->health);
}

/* Writes the state after the save for a counted checkpoint, because a resumed run compares losses with it. An
   undisturbed run does not write uncounted checkpoints. */
static void eitp__health_write_state(const eitp_run *run, const void *state, int is_counted, eitp__buffer *text) {
    eitp__health health = ((const eitp__model_health *)state)->health;
    (void)run;
    if (is_counted)
        eitp__health_saved(&health);
    eitp__health_write(&health, text);
}

static eitp_status eitp__health_read_state(eitp_run *run, void *state, const eitp_json *value, eitp_error *error) {
    (void)run;
    return eitp__health_read(&((eitp__model_health *)state)->health, value, error);
}

static void eitp__health_end(eitp_run *run, void *state) {
    (void)state;
    if (run->config.check_finite == EITP_CHECK_FINITE_OP)
        eitp_context_check_finite(eitp__trainer_task(run->trainer)->context, NULL);
}

EITP__PRIVATE void eitp__health_observer(eitp__observer *observer) {
    observer->name = "health";
    observer->state_size = sizeof(eitp__model_health);
    observer->begin = eitp__health_begin;
    observer->before_step = eitp__health_before_step;
    observer->after_step = eitp__health_after_step;
    observer->assess = eitp__health_assess;
    observer->saved = eitp__health_saved_model;
    observer->write = eitp__health_write_state;
    observer->read = eitp__health_read_state;
    observer->ruined = eitp__health_ruined;
    observer->end = eitp__health_end;
}
