#include "run/run_health.h"

#include "base/status.h"
#include "run/events.h"
#include "train/trainer.h"

/* Steps after a reported spike in which further ones are only counted. */
#define EITP__SPIKE_INTERVAL 20

/* Squares of numbers below are finite in F32. */
#define EITP__LARGEST_SQUARED 1e19

typedef enum eitp__verdict {
    EITP__MODEL_GOOD,
    EITP__MODEL_UNKNOWN, /* the loss of the next step tells */
    EITP__MODEL_NOT_FINITE,
    EITP__MODEL_OVERFLOWED,
    EITP__STEPS_NOT_FINITE,
    EITP__LOSS_DIVERGED
} eitp__verdict;

static double eitp__run_guess(const eitp_run *run) {
    return eitp__trainer_task(run->trainer)->guess_loss;
}

/*
 * A step's loss is that of the model before its update. So a single bad loss, and an update as large as the weights,
 * which may have ruined them, prove nothing: the next step does, or an evaluation of the model.
 */
static eitp__verdict eitp__health_unproven(const eitp_run *run, double limit) {
    const eitp_run_report *report = &run->report;
    if (report->step.loss <= limit && !(report->step.update_norm > 0.5 * report->step.parameter_norm))
        return EITP__MODEL_GOOD;
    if (report->evaluations && report->evaluated_step == report->step.step)
        return report->evaluation.loss <= limit ? EITP__MODEL_GOOD
               : run->is_ending                 ? EITP__LOSS_DIVERGED
                                                : EITP__MODEL_UNKNOWN;
    return run->is_ending ? EITP__MODEL_GOOD : EITP__MODEL_UNKNOWN;
}

static eitp__verdict eitp__health_verdict(const eitp_run *run) {
    const eitp__health *health = &run->health;
    const double guess = eitp__run_guess(run);
    if (!run->report.step.step)
        return EITP__MODEL_GOOD;
    if (health->nonfinite)
        return EITP__STEPS_NOT_FINITE;
    if (!eitp__health_has_finite_weights(run))
        return EITP__MODEL_NOT_FINITE;
    if (health->overflowed)
        return EITP__MODEL_OVERFLOWED;
    if (eitp__health_has_diverged(health, guess))
        return EITP__LOSS_DIVERGED;
    return eitp__health_unproven(run, eitp__health_limit(health, guess));
}

EITP__PRIVATE int eitp__health_has_finite_weights(const eitp_run *run) {
    return isfinite(run->report.step.parameter_norm) != 0;
}

EITP__PRIVATE int eitp__health_is_good(const eitp_run *run) {
    return eitp__health_verdict(run) == EITP__MODEL_GOOD;
}

EITP__PRIVATE int eitp__health_is_ruined(const eitp_run *run) {
    return eitp__health_verdict(run) > EITP__MODEL_UNKNOWN;
}

/* ---- Words ---- */

/* "57.52 after step 2, up from 5.551 (a uniform guess: 5.549)" */
static void eitp__describe_loss(const eitp_run *run, char *text, size_t size) {
    const eitp__health *health = &run->health;
    const double guess = eitp__run_guess(run);
    char uniform[48] = "";
    if (guess > 0 && isfinite(guess))
        snprintf(uniform, sizeof uniform, " (a uniform guess: %.4g)", guess);
    snprintf(text, size, "%.4g after step %lld, up from %.4g%s", eitp__health_loss(health),
             (long long)run->report.step.step, health->has_saved ? health->saved_loss : health->first[0], uniform);
}

static void eitp__describe_verdict(const eitp_run *run, eitp__verdict verdict, char *text, size_t size) {
    const long long step = (long long)run->report.step.step;
    char loss[160];
    eitp__describe_loss(run, loss, sizeof loss);
    if (verdict == EITP__MODEL_NOT_FINITE)
        snprintf(text, size, "weights are not finite after step %lld", step);
    else if (verdict == EITP__MODEL_OVERFLOWED)
        snprintf(text, size, "the optimizer's state has overflowed: a gradient norm was above %g",
                 EITP__LARGEST_SQUARED);
    else if (verdict == EITP__STEPS_NOT_FINITE)
        snprintf(text, size, "%lld step%s skipped because the gradient is not finite, up to step %lld%s",
                 (long long)run->health.nonfinite, run->health.nonfinite > 1 ? "s in a row were" : " was", step,
                 eitp__health_has_finite_weights(run) ? "" : "; weights are not finite");
    else
        snprintf(text, size, "the loss diverged: %s", loss);
}

/* The checkpoint that a resume takes. */
static void eitp__describe_last_good(const eitp_run *run, char *text, size_t size) {
    const eitp_run_report *report = &run->report;
    if (report->saved_step < 0)
        snprintf(text, size, "there is no checkpoint to resume from");
    else if (run->checkpoint && report->saved_step == report->start_step)
        snprintf(text, size, "the last good checkpoint is %s", run->checkpoint);
    else
        snprintf(text, size, "the last good checkpoint is %s/checkpoint-%lld", run->directory,
                 (long long)report->saved_step);
}

/* ---- After each step ---- */

/* True if numbers of the last step are not finite and that says something about the model. In fp16 a gradient that
   overflows at a loss scale above 1 does not: the next step has a smaller scale. A loss does not depend on the scale.
   */
static int eitp__step_is_nonfinite(const eitp_step_report *step) {
    return !step->applied && !isfinite(step->grad_norm) && (step->loss_scale <= 1 || !isfinite(step->loss));
}

/* True if the loss is well above what it was: on the way from a good model to a uniform guess. */
static int eitp__health_is_leaving(const eitp__health *health, double guess) {
    const double first = health->first[0], loss = eitp__health_loss(health);
    return guess > 0 && isfinite(guess) && health->losses > EITP__HEALTH_LAST && loss > first + 1 &&
           loss > 1.5 * first && loss > guess / 2;
}

/* Warns when the loss explodes, once until it has recovered. */
static void eitp__health_watch_loss(eitp_run *run) {
    eitp__health *health = &run->health;
    const double guess = eitp__run_guess(run);
    const int diverges = eitp__health_has_diverged(health, guess) || eitp__health_is_leaving(health, guess);
    char loss[160];
    if (diverges && !health->has_warned) {
        eitp__describe_loss(run, loss, sizeof loss);
        eitp__run_notify(run, EITP_EVENT_DIVERGING, EITP_LOG_WARNING, 0,
                         "the loss diverges: %s; lower the learning rate (now %.3g), or raise the warm-up", loss,
                         run->report.step.learning_rate);
    }
    health->has_warned = diverges;
}

/* The norm of the gradient bounds each of its elements, whose squares the optimizer averages. */
static void eitp__health_watch_state(eitp_run *run) {
    const eitp_step_report *step = &run->report.step;
    const double limit = eitp__trainer_config(run->trainer)->max_grad_norm;
    const double norm = limit > 0 && limit < step->grad_norm ? limit : step->grad_norm;
    if (step->applied && norm >= EITP__LARGEST_SQUARED)
        run->health.overflowed = 1;
}

/* Reports a spike, unless one was reported a few steps before. */
static void eitp__health_watch_spikes(eitp_run *run) {
    const eitp_step_report *step = &run->report.step;
    eitp__health *health = &run->health;
    char loss[80] = "", norm[80] = "", more[48] = "";
    if (!step->spike)
        return;
    if (health->spike_step && step->step - health->spike_step < EITP__SPIKE_INTERVAL) {
        health->unreported_spikes++;
        return;
    }
    if (step->spike & EITP_SPIKE_LOSS)
        snprintf(loss, sizeof loss, "loss %.4g (usually %.4g)", step->loss, step->usual_loss);
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

EITP__PRIVATE eitp_status eitp__health_check(eitp_run *run, eitp_error *error) {
    const eitp_step_report *step = &run->report.step;
    eitp__health *health = &run->health;
    char cause[500];
    eitp__health_add_loss(health, step->loss);
    eitp__health_watch_state(run);
    eitp__health_watch_loss(run);
    eitp__health_watch_spikes(run);
    if (!eitp__step_is_nonfinite(step)) {
        health->nonfinite = 0;
        return EITP_OK;
    }
    health->nonfinite++;
    if (run->config.check_finite == EITP_CHECK_FINITE_NO)
        return EITP_OK;
    eitp_nonfinite_format(&run->nonfinite, cause, sizeof cause);
    eitp__run_notify(run, EITP_EVENT_SKIPPED_STEP, EITP_LOG_WARNING, 0,
                     "step %lld skipped: the gradient is not finite%s%s", (long long)step->step, *cause ? ": " : "",
                     cause);
    if (health->nonfinite < run->config.max_nonfinite)
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_NOT_FINITE,
                      "%lld steps were skipped because the gradient is not finite, up to step %lld",
                      (long long)health->nonfinite, (long long)step->step);
}

/* ---- Before each save, and at the end ---- */

EITP__PRIVATE int eitp__health_may_save(eitp_run *run) {
    const eitp__verdict verdict = eitp__health_verdict(run);
    char reason[240], good[400];
    if (verdict == EITP__MODEL_GOOD) {
        run->health.has_refused = 0;
        return 1;
    }
    if (verdict == EITP__MODEL_UNKNOWN || run->health.has_refused)
        return 0;
    run->health.has_refused = 1;
    if (run->is_ending) /* the error says it */
        return 0;
    eitp__describe_verdict(run, verdict, reason, sizeof reason);
    eitp__describe_last_good(run, good, sizeof good);
    eitp__run_notify(run, EITP_EVENT_NOT_SAVED, EITP_LOG_WARNING, 0,
                     "no checkpoint is written until the model recovers: %s; %s", reason, good);
    return 0;
}

EITP__PRIVATE eitp_status eitp__health_fail(eitp_run *run, const char *kept, eitp_error *error) {
    const eitp__verdict verdict = eitp__health_verdict(run);
    char reason[240], good[200];
    run->report.end = verdict == EITP__LOSS_DIVERGED ? EITP_RUN_DIVERGED : EITP_RUN_NOT_FINITE;
    eitp__describe_verdict(run, verdict, reason, sizeof reason);
    eitp__describe_last_good(run, good, sizeof good);
    return eitp__fail(error, EITP_ERROR_NOT_FINITE, "%s; %s; lower the learning rate (now %.3g)%s%s", reason, good,
                      run->report.step.learning_rate, kept ? "; the model is kept as " : "", kept ? kept : "");
}
