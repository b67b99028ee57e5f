#include "run/alarms.h"

#include "base/machine.h"
#include "base/statistics.h"
#include "run/guard.h"
#include "run/internal.h"
#include "run/sinks.h"
#include "train/trainer.h"

/* Larger losses and norms are ignored, so that sums stay finite. */
#define EITP__ALARM_LARGEST 1e100

/* Number of consecutive checks in which a trend must be found. */
#define EITP__ALARM_LOOKS 2

/* Number of consecutive checks in which a layer must have no gradient. */
#define EITP__ALARM_SILENT_LOOKS 4

/* Minimum length of a plateau in steps. */
#define EITP__ALARM_PLATEAU_STEPS 500

/* Number of consecutive checks in which a latent variable's units must be inactive. */
#define EITP__ALARM_COLLAPSE_LOOKS 3

/* Limit of the extrapolation of memory growth, in lengths of the trend. */
#define EITP__ALARM_FORESIGHT 8

/* ---- Raising alarms ---- */

static int eitp__alarm_is_active(const eitp__alarm_rules *rules, eitp__alarm_name name) {
    return rules->active >> name & 1;
}

/* Marks the condition of an alarm as ended. */
static void eitp__alarm_end(eitp__alarm_rules *rules, eitp__alarm_name name) {
    rules->active &= ~(1u << name);
}

static void eitp__alarm_raise(eitp__alarm_rules *rules, eitp__alarm_list *list, eitp__alarm_name name, double value,
                              double usual, const char *format, ...) EITP__PRINTF(6, 7);

static void eitp__alarm_raise(eitp__alarm_rules *rules, eitp__alarm_list *list, eitp__alarm_name name, double value,
                              double usual, const char *format, ...) {
    static const char *const names[] = {"plateau",    "vanishing_gradient", "exploding_gradient", "overfitting",
                                        "dead_layer", "posterior_collapse", "memory_drift",       "slowdown"};
    eitp__alarm *alarm = &list->alarms[list->count];
    va_list arguments;
    size_t used;
    if (eitp__alarm_is_active(rules, name))
        return;
    rules->active |= 1u << name;
    list->count++;
    alarm->name = names[name];
    alarm->value = value;
    alarm->usual = usual;
    used = (size_t)snprintf(alarm->message, sizeof alarm->message, "%s: ", alarm->name);
    va_start(arguments, format);
    vsnprintf(alarm->message + used, sizeof alarm->message - used, format, arguments);
    va_end(arguments);
}

/* ---- The loss ---- */

/* See the rules in run/alarms.h. */
static void eitp__alarm_judge_losses(eitp__alarm_rules *rules, eitp__alarm_list *list) {
    const eitp__block_series *losses = &rules->losses;
    const double before = eitp__block_series_mean(losses, 0), now = eitp__block_series_mean(losses, 1);
    const double fallen = rules->first_loss - now;
    const double least = 0.25 * losses->noise > 0.005 * fallen ? 0.25 * losses->noise : 0.005 * fallen;
    eitp_trend trend = EITP__ZERO;
    int is_flat = before - now <= least && fallen > 10 * least && eitp__block_series_fit(losses, &trend);
    const int64_t steps = trend.count * eitp__block_series_width(losses);
    is_flat = is_flat && steps >= EITP__ALARM_PLATEAU_STEPS && trend.slope_high >= 0;
    is_flat = is_flat && -trend.slope_low * (double)trend.count <= least;
    if (before - now > least || (trend.slope < 0 && trend.p < 0.001))
        eitp__alarm_end(rules, EITP__ALARM_PLATEAU);
    rules->flat = is_flat ? rules->flat + 1 : 0;
    if (rules->flat < EITP__ALARM_LOOKS)
        return;
    eitp__alarm_raise(rules, list, EITP__ALARM_PLATEAU, now, before,
                      "the loss has not fallen for %lld steps (now %.4g, before %.4g); lower the learning rate or end "
                      "the run",
                      (long long)steps, now, before);
}

static void eitp__alarm_add_loss(eitp__alarm_rules *rules, const eitp__alarm_step *step, eitp__alarm_list *list) {
    eitp__training_loss *training = &rules->training;
    const double distance = step->loss - training->mean;
    int done;
    if (!(fabs(step->loss) < EITP__ALARM_LARGEST))
        return;
    training->count++;
    training->mean += distance / (double)training->count;
    training->squares += distance * (step->loss - training->mean);
    if (step->warms_up && rules->levels)
        return;
    done = eitp__block_series_add(&rules->losses, step->loss, &rules->last_loss);
    if (done && !rules->levels++)
        rules->first_loss = rules->last_loss;
    if (done & EITP__BLOCK_SERIES_CHECK_DUE)
        eitp__alarm_judge_losses(rules, list);
}

/* ---- The gradient ---- */

static void eitp__alarm_learn_norm(eitp__alarm_rules *rules) {
    size_t count;
    const double *blocks = eitp__block_series_latest(&rules->norms, &count);
    if (rules->norms.count < EITP__BLOCK_SERIES_CHECK_INTERVAL || rules->high || rules->low)
        return;
    rules->has_usual_norm = 1;
    rules->usual_norm = eitp__median(blocks, count);
}

/* Compares a level (a logarithm) with the usual one. Returns 1 if it is higher by `decades`, -1 if lower, else 0. */
static int eitp__alarm_compare_norm(const eitp__alarm_rules *rules, double level, double decades) {
    const double distance = level - rules->usual_norm;
    if (fabs(distance) <= decades || fabs(distance) <= 2 * rules->norms.noise)
        return 0;
    return distance > 0 ? 1 : -1;
}

/* True if the loss goes to zero, and the gradient with it. */
static int eitp__alarm_loss_vanishes(const eitp__alarm_rules *rules) {
    return fabs(rules->last_loss) < 0.1 * fabs(eitp__block_series_mean(&rules->losses, 0));
}

static void eitp__alarm_judge_norm(eitp__alarm_rules *rules, const eitp__alarm_step *step, double level,
                                   eitp__alarm_list *list) {
    const double norm = pow(10, level), usual = pow(10, rules->usual_norm);
    if (!rules->has_usual_norm)
        return;
    rules->high = eitp__alarm_compare_norm(rules, level, 1) > 0 ? rules->high + 1 : 0;
    rules->low = eitp__alarm_compare_norm(rules, level, 2) < 0 ? rules->low + 1 : 0;
    if (level < rules->usual_norm + 0.5)
        eitp__alarm_end(rules, EITP__ALARM_EXPLODING_GRADIENT);
    if (level > rules->usual_norm - 1)
        eitp__alarm_end(rules, EITP__ALARM_VANISHING_GRADIENT);
    if (rules->high >= 2)
        eitp__alarm_raise(
            rules, list, EITP__ALARM_EXPLODING_GRADIENT, norm, usual,
            "the gradient norm is %.3g (usually %.3g); lower the learning rate or clip to a smaller norm, and resume "
            "from an earlier checkpoint if the loss does not recover",
            norm, usual);
    if (rules->low >= 3 && norm < 1e-4 * step->parameter_norm && !eitp__alarm_loss_vanishes(rules))
        eitp__alarm_raise(rules, list, EITP__ALARM_VANISHING_GRADIENT, norm, usual,
                          "the gradient norm is %.3g (usually %.3g), the parameter norm %.3g; unless training has "
                          "converged, look for saturated layers and lower the learning rate",
                          norm, usual, step->parameter_norm);
}

static void eitp__alarm_add_norm(eitp__alarm_rules *rules, const eitp__alarm_step *step, eitp__alarm_list *list) {
    const double least = 1e-30; /* of a norm, so that its logarithm is finite */
    double level;
    int done;
    if (step->warms_up || !step->applied || !(step->grad_norm >= 0 && step->grad_norm < EITP__ALARM_LARGEST))
        return;
    done = eitp__block_series_add(&rules->norms, log10(step->grad_norm > least ? step->grad_norm : least), &level);
    if (done & EITP__BLOCK_SERIES_GROUPED)
        eitp__alarm_judge_norm(rules, step, level, list);
    if (done & EITP__BLOCK_SERIES_BLOCKED)
        eitp__alarm_learn_norm(rules);
}

/* ---- Layers ---- */

/* A layer is dead if its gradient norm is at most this fraction of the largest layer's. */
#define EITP__ALARM_SILENT 1e-6

/* True for a layer, such as transformer.h.0, and false for other modules: a head may be of another task. */
static int eitp__alarm_is_layer(const eitp_group_norms *group) {
    const char *last = strrchr(group->name, '.');
    const char *part = last ? last + 1 : group->name;
    return *part && !part[strspn(part, "0123456789")];
}

/* Comparison of the layers' gradients at a step. */
typedef struct eitp__layer_gradients {
    double largest;
    const eitp_group_norms *least; /* the first with the smallest gradient; NULL: no layers */
    size_t silent;                 /* number of dead layers */
} eitp__layer_gradients;

static eitp__layer_gradients eitp__alarm_compare_layers(const eitp__alarm_step *step) {
    eitp__layer_gradients layers = EITP__ZERO;
    for (size_t i = 0; i < step->group_count; i++) {
        const eitp_group_norms *group = &step->groups[i];
        if (!eitp__alarm_is_layer(group))
            continue;
        if (group->grad_norm > layers.largest)
            layers.largest = group->grad_norm;
        if (!layers.least || group->grad_norm < layers.least->grad_norm)
            layers.least = group;
    }
    for (size_t i = 0; i < step->group_count && layers.largest > 0; i++)
        layers.silent +=
            eitp__alarm_is_layer(&step->groups[i]) && step->groups[i].grad_norm <= EITP__ALARM_SILENT * layers.largest;
    return layers;
}

static void eitp__alarm_add_layers(eitp__alarm_rules *rules, const eitp__alarm_step *step, eitp__alarm_list *list) {
    eitp__layer_gradients layers;
    char others[48] = "";
    if (!step->groups || step->warms_up || !step->applied)
        return;
    layers = eitp__alarm_compare_layers(step);
    rules->silent = layers.silent ? rules->silent + 1 : 0;
    if (!layers.silent)
        eitp__alarm_end(rules, EITP__ALARM_DEAD_LAYER);
    if (rules->silent < EITP__ALARM_SILENT_LOOKS)
        return;
    if (layers.silent > 1)
        snprintf(others, sizeof others, " (and as small in %zu more)", layers.silent - 1);
    eitp__alarm_raise(rules, list, EITP__ALARM_DEAD_LAYER, layers.least->grad_norm, layers.largest,
                      "the gradient norm of %s is %.3g%s, the largest of any layer is %.3g; look for activations that "
                      "are saturated or zero, lower the learning rate, or resume from an earlier checkpoint",
                      layers.least->name, layers.least->grad_norm, others, layers.largest);
}

/* ---- The process ---- */

static void eitp__alarm_judge_seconds(eitp__alarm_rules *rules, eitp__alarm_list *list) {
    const double shortest = 60; /* minimum duration of a trend in seconds */
    const double width = (double)eitp__block_series_width(&rules->seconds);
    double now, before;
    eitp_trend trend;
    if (!eitp__block_series_fit(&rules->seconds, &trend))
        return;
    before = trend.intercept;
    now = trend.intercept + trend.slope * (double)(trend.count - 1);
    if (trend.p > 0.2 || now < 1.01 * before)
        eitp__alarm_end(rules, EITP__ALARM_SLOWDOWN);
    rules->slows = trend.p < 0.001 && now > 1.05 * before ? rules->slows + 1 : 0;
    if (rules->slows < EITP__ALARM_LOOKS || 0.5 * (now + before) * width * (double)trend.count < shortest)
        return;
    eitp__alarm_raise(
        rules, list, EITP__ALARM_SLOWDOWN, now, before,
        "a step takes %.3g s, compared with %.3g s %.0f steps earlier (p = %.1g); look for other programs, "
        "heat and swapping",
        now, before, width * (double)(trend.count - 1), trend.p);
}

static void eitp__alarm_judge_memory(eitp__alarm_rules *rules, const eitp__alarm_step *step, eitp__alarm_list *list) {
    const eitp__block_series *memory = &rules->memory;
    const double width = (double)(eitp__block_series_width(memory) * EITP__ALARM_LOOK_STEPS); /* steps in a block */
    const double left = step->left > 0 ? step->left : step->memory;
    double to_come = (double)(step->steps > step->step ? step->steps - step->step : step->step), growth, before;
    char bytes[4][32];
    eitp_trend trend;
    size_t count;
    before = *eitp__block_series_latest(memory, &count);
    if (!eitp__block_series_fit(memory, &trend))
        return;
    if (to_come > EITP__ALARM_FORESIGHT * width * (double)count)
        to_come = EITP__ALARM_FORESIGHT * width * (double)count;
    growth = trend.slope_low / width * to_come;
    if (!(trend.slope_low > 0) || growth < left / 4)
        eitp__alarm_end(rules, EITP__ALARM_MEMORY_DRIFT);
    rules->drifts = trend.slope_low > 0 && trend.p < 0.001 && growth > left / 2 ? rules->drifts + 1 : 0;
    if (rules->drifts < EITP__ALARM_LOOKS)
        return;
    eitp__alarm_raise(
        rules, list, EITP__ALARM_MEMORY_DRIFT, step->memory, before,
        "the process uses %s, compared with %s %.0f steps earlier; in %.0f more steps it would need another %s, "
        "and %s are available; look for a leak, and resume the run in a new process before memory runs out",
        eitp_format_bytes((uint64_t)step->memory, bytes[0], sizeof bytes[0]),
        eitp_format_bytes((uint64_t)before, bytes[1], sizeof bytes[1]), width * (double)(count - 1), to_come,
        eitp_format_bytes((uint64_t)growth, bytes[2], sizeof bytes[2]),
        eitp_format_bytes((uint64_t)left, bytes[3], sizeof bytes[3]));
}

EITP__PRIVATE void eitp__alarm_rules_forget_times(eitp__alarm_rules *rules) {
    memset(&rules->seconds, 0, sizeof rules->seconds);
    eitp__alarm_end(rules, EITP__ALARM_SLOWDOWN);
}

EITP__PRIVATE void eitp__alarm_rules_step(eitp__alarm_rules *rules, const eitp__alarm_step *step,
                                          eitp__alarm_list *list) {
    double level;
    list->count = 0;
    eitp__alarm_add_loss(rules, step, list);
    eitp__alarm_add_norm(rules, step, list);
    eitp__alarm_add_layers(rules, step, list);
    if (step->seconds > 0 &&
        eitp__block_series_add(&rules->seconds, step->seconds, &level) & EITP__BLOCK_SERIES_CHECK_DUE)
        eitp__alarm_judge_seconds(rules, list);
    rules->memory.is_single = 1;
    if (step->memory > 0 && eitp__block_series_add(&rules->memory, step->memory, &level) & EITP__BLOCK_SERIES_CHECK_DUE)
        eitp__alarm_judge_memory(rules, step, list);
}

/* ---- Evaluations ---- */

/* Returns the square of the mean's standard error. */
static double eitp__training_variance(const eitp__training_loss *training) {
    return training->squares / (double)(training->count - 1) / (double)training->count;
}

/* True if the training loss is lower than before the best evaluation, beyond chance. */
static int eitp__alarm_training_falls(const eitp__alarm_rules *rules) {
    const eitp__training_loss *now = &rules->training, *then = &rules->best_training;
    if (now->count < 2 || then->count < 2)
        return 0;
    return then->mean - now->mean > 2 * sqrt(eitp__training_variance(now) + eitp__training_variance(then));
}

/* Estimates the training loss before step 1 from the first steps. It is capped at the validation loss because it may
   have risen by then. */
static void eitp__alarm_learn_first(eitp__alarm_rules *rules) {
    rules->best_training = rules->training;
    if (rules->best_training.mean > rules->best)
        rules->best_training.mean = rules->best;
}

static void eitp__alarm_judge_evaluation(eitp__alarm_rules *rules, int64_t step, double loss, double error,
                                         eitp__alarm_list *list) {
    const double known = error > 0 ? error : 0.005 * fabs(rules->best);
    rules->worse = loss - rules->best > 2 * known ? rules->worse + 1 : 0;
    if (loss - rules->best < known)
        eitp__alarm_end(rules, EITP__ALARM_OVERFITTING);
    if (rules->worse < 3 || !eitp__alarm_training_falls(rules))
        return;
    eitp__alarm_raise(
        rules, list, EITP__ALARM_OVERFITTING, loss, rules->best,
        "the validation loss is %.4g after step %lld (standard error %.2g), up from %.4g after step %lld, "
        "while the training loss fell from %.4g to %.4g; stop here, go back to the best checkpoint, or train on "
        "more data",
        loss, (long long)step, error, rules->best, (long long)rules->best_step, rules->best_training.mean,
        rules->training.mean);
}

EITP__PRIVATE void eitp__alarm_rules_evaluation(eitp__alarm_rules *rules, int64_t step, double loss, double error,
                                                eitp__alarm_list *list) {
    list->count = 0;
    if (!(fabs(loss) < EITP__ALARM_LARGEST) || (rules->evaluations && step == rules->evaluated_step))
        return;
    if (!rules->evaluations || loss < rules->best) {
        rules->best = loss;
        rules->best_step = step;
        rules->best_training = rules->training;
        rules->worse = 0;
        eitp__alarm_end(rules, EITP__ALARM_OVERFITTING);
    } else {
        if (!rules->best_training.count) /* the best was before step 1 */
            eitp__alarm_learn_first(rules);
        eitp__alarm_judge_evaluation(rules, step, loss, error, list);
    }
    rules->evaluations++;
    rules->evaluated_step = step;
    memset(&rules->training, 0, sizeof rules->training);
}

/* ---- Latent variables ---- */

/* Returns the usual fraction of active units, or 0 if it is not known yet. */
static double eitp__alarm_usual_active(const eitp__alarm_rules *rules) {
    size_t count;
    const double *looks = eitp__block_series_latest(&rules->fractions, &count);
    return rules->fractions.count < EITP__BLOCK_SERIES_CHECK_INTERVAL ? 0 : eitp__median(looks, count);
}

/* Returns the number of consecutive checks in which a case holds. Once it is enough to raise the alarm, it is kept
   until the case has ended. */
static int64_t eitp__alarm_count_collapse(int64_t looks, int holds, int has_ended) {
    return holds ? looks + 1 : has_ended || looks < EITP__ALARM_COLLAPSE_LOOKS ? 0 : looks;
}

static void eitp__alarm_raise_collapse(eitp__alarm_rules *rules, const eitp__alarm_latent *latent, double usual,
                                       eitp__alarm_list *list) {
    char past[40] = "";
    if (usual > 0)
        snprintf(past, sizeof past, ", usually %.0f", usual);
    eitp__alarm_raise(
        rules, list, EITP__ALARM_POSTERIOR_COLLAPSE, latent->active, usual,
        "%.0f of %lld latent units %s active (KL %.3g nats)%s: the decoder ignores %s; %s with free_bits, "
        "a lower kl_weight or kl_anneal cyclical",
        latent->active, (long long)latent->units, latent->active == 1 ? "is" : "are", latent->kl, past,
        rules->few < EITP__ALARM_COLLAPSE_LOOKS ? "more of the latent variable than before" : "the latent variable",
        usual > 0 ? "resume from an earlier checkpoint" : "start again");
}

EITP__PRIVATE void eitp__alarm_rules_latent(eitp__alarm_rules *rules, const eitp__alarm_latent *latent,
                                            eitp__alarm_list *list) {
    const double units = (double)latent->units, fraction = latent->active / units;
    const double usual = eitp__alarm_usual_active(rules);
    const int is_few = fraction < 0.1, is_less = fraction < 0.5 * usual;
    double ignored;
    list->count = 0;
    if (latent->step <= rules->latent_step || latent->units <= 0 || !(fraction >= 0 && fraction <= 1) ||
        !isfinite(latent->kl))
        return;
    rules->latent_step = latent->step;
    rules->few = eitp__alarm_count_collapse(rules->few, is_few, fraction >= 0.2);
    rules->fewer = eitp__alarm_count_collapse(rules->fewer, is_less, fraction >= 0.75 * usual);
    rules->fractions.is_single = 1;
    if (!is_few && !is_less)
        eitp__block_series_add(&rules->fractions, fraction, &ignored);
    if (rules->few >= EITP__ALARM_COLLAPSE_LOOKS || rules->fewer >= EITP__ALARM_COLLAPSE_LOOKS)
        eitp__alarm_raise_collapse(rules, latent, usual * units, list);
    else
        eitp__alarm_end(rules, EITP__ALARM_POSTERIOR_COLLAPSE);
}

/* ---- In a checkpoint ---- */

/* Mask of the alarms stored in checkpoints; the others concern the process and end with it. */
#define EITP__ALARMS_KEPT ((1u << EITP__ALARM_MEMORY_DRIFT) - 1)

#define EITP__ALARM_COUNTER(member) EITP__JSON_FIELD(eitp__alarm_rules, member, #member, INTEGER, 0, HUGE_VAL)
#define EITP__ALARM_NUMBER(member, name) EITP__JSON_FIELD(eitp__alarm_rules, member, name, NUMBER, -HUGE_VAL, HUGE_VAL)

static const eitp__json_field eitp__alarm_fields[] = {
    EITP__ALARM_COUNTER(levels),
    EITP__ALARM_COUNTER(flat),
    EITP__ALARM_NUMBER(first_loss, "first_loss"),
    EITP__ALARM_NUMBER(last_loss, "last_loss"),
    EITP__ALARM_COUNTER(high),
    EITP__ALARM_COUNTER(low),
    EITP__ALARM_COUNTER(silent),
    EITP__ALARM_COUNTER(evaluations),
    EITP__ALARM_COUNTER(evaluated_step),
    EITP__ALARM_COUNTER(best_step),
    EITP__ALARM_COUNTER(worse),
    EITP__ALARM_NUMBER(best, "best_loss"),
    EITP__ALARM_NUMBER(usual_norm, "usual_norm"), /* must be last: omitted until it is known */
};

/* Written only for runs with a latent variable. */
static const eitp__json_field eitp__latent_fields[] = {
    EITP__JSON_FIELD(eitp__alarm_rules, latent_step, "step", INTEGER, 0, HUGE_VAL),
    EITP__ALARM_COUNTER(few),
    EITP__ALARM_COUNTER(fewer),
};

static const eitp__json_field eitp__training_loss_fields[] = {
    EITP__JSON_FIELD(eitp__training_loss, count, "count", INTEGER, 0, HUGE_VAL),
    EITP__JSON_FIELD(eitp__training_loss, mean, "mean", NUMBER, -HUGE_VAL, HUGE_VAL),
    EITP__JSON_FIELD(eitp__training_loss, squares, "squares", NUMBER, 0, HUGE_VAL),
};

static void eitp__training_loss_write(const char *name, const eitp__training_loss *training, eitp__buffer *text) {
    eitp__buffer_format(text, ", \"%s\": {", name);
    eitp__json_write_fields(text, eitp__training_loss_fields, EITP__COUNT(eitp__training_loss_fields), training);
    eitp__buffer_add_text(text, "}");
}

EITP__PRIVATE void eitp__alarm_rules_write(const eitp__alarm_rules *rules, eitp__buffer *text) {
    const size_t fields = EITP__COUNT(eitp__alarm_fields) - !rules->has_usual_norm;
    eitp__buffer_format(text, "{\"active\": %u, ", rules->active & EITP__ALARMS_KEPT);
    eitp__json_write_fields(text, eitp__alarm_fields, fields, rules);
    eitp__training_loss_write("training", &rules->training, text);
    eitp__training_loss_write("best_training", &rules->best_training, text);
    eitp__buffer_add_text(text, ",\n");
    eitp__block_series_write(&rules->losses, "losses", text);
    eitp__buffer_add_text(text, ",\n");
    eitp__block_series_write(&rules->norms, "norms", text);
    if (rules->latent_step) {
        eitp__buffer_add_text(text, ",\n\"latent\": {");
        eitp__json_write_fields(text, eitp__latent_fields, EITP__COUNT(eitp__latent_fields), rules);
        eitp__buffer_add_text(text, ", ");
        eitp__block_series_write(&rules->fractions, "fractions", text);
        eitp__buffer_add_text(text, "}");
    }
    eitp__buffer_add_text(text, "}");
}

static eitp_status eitp__training_loss_read(const eitp_json *object, const char *name, eitp__training_loss *training,
                                            eitp_error *error) {
    const eitp_json *member;
    const eitp_status status = eitp__json_get_object(object, name, &member, error);
    return status ? status
                  : eitp__json_get_fields(member, eitp__training_loss_fields, EITP__COUNT(eitp__training_loss_fields),
                                          training, error);
}

static eitp_status eitp__alarm_latent_read(eitp__alarm_rules *rules, const eitp_json *object, eitp_error *error) {
    const eitp_json *member;
    eitp_status status;
    if (!eitp_json_member(object, "latent"))
        return EITP_OK;
    status = eitp__json_get_object(object, "latent", &member, error);
    if (!status)
        status = eitp__json_get_fields(member, eitp__latent_fields, EITP__COUNT(eitp__latent_fields), rules, error);
    return status ? status : eitp__block_series_read(&rules->fractions, "fractions", member, error);
}

static eitp_status eitp__alarm_rules_parse(eitp__alarm_rules *rules, const eitp_json *object, eitp_error *error) {
    int64_t active = 0;
    eitp_status status = eitp__json_get_integer(object, "active", 0, EITP__ALARMS_KEPT, &active, error);
    rules->active = (unsigned)active;
    rules->has_usual_norm = eitp_json_member(object, "usual_norm") != NULL;
    if (!status)
        status = eitp__json_get_fields(object, eitp__alarm_fields, EITP__COUNT(eitp__alarm_fields), rules, error);
    if (!status)
        status = eitp__block_series_read(&rules->losses, "losses", object, error);
    if (!status)
        status = eitp__block_series_read(&rules->norms, "norms", object, error);
    if (!status)
        status = eitp__training_loss_read(object, "training", &rules->training, error);
    if (!status)
        status = eitp__training_loss_read(object, "best_training", &rules->best_training, error);
    return status ? status : eitp__alarm_latent_read(rules, object, error);
}

EITP__PRIVATE eitp_status eitp__alarm_rules_read(eitp__alarm_rules *rules, const eitp_json *object, eitp_error *error) {
    eitp__alarm_rules read = EITP__ZERO;
    eitp_status status = EITP_OK;
    if (object && object->kind != EITP_JSON_OBJECT)
        status = eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: 'alarms' must be an object",
                            (unsigned long long)object->line);
    else if (object)
        status = eitp__alarm_rules_parse(&read, object, error);
    if (!status)
        *rules = read;
    return status;
}

/* ---- The observer ---- */

typedef struct eitp__alarms {
    eitp__alarm_rules rules;
    eitp_step_shape shape; /* of the last step */
    eitp_group_norms groups[EITP__RECORDED_GROUPS];
} eitp__alarms;

/* Returns the resident memory of the process, or 0 if unknown. Excludes memory shared with files and other programs,
   which grows when files are read. */
static double eitp__alarm_memory(const eitp_host *host) {
    uint64_t shared;
    const uint64_t resident = eitp__resident_read(host, &shared);
    return resident > shared ? (double)(resident - shared) : 0;
}

/* Returns the available memory at the guard's last check, or 0 if it does not check. */
static double eitp__alarm_left(const eitp_run *run) {
    const eitp__guard *guard = (const eitp__guard *)run->states[EITP__OBSERVER_GUARD];
    return run->config.memory_check_seconds < 0 ? 0 : (double)guard->memory.info.left;
}

static void eitp__alarms_notify_one(eitp_run *run, const eitp__alarm *alarm) {
    eitp_value values[3];
    values[0] = eitp__text_value("alarm", alarm->name);
    values[1] = eitp__number_value("value", alarm->value);
    values[2] = eitp__number_value("usual", alarm->usual);
    eitp__run_notify_values(run, EITP_EVENT_ALARM, EITP_LOG_WARNING, 0, alarm->message, values, EITP__COUNT(values));
}

static void eitp__alarms_notify(eitp_run *run, const eitp__alarm_list *list) {
    for (int i = 0; i < list->count; i++)
        eitp__alarms_notify_one(run, &list->alarms[i]);
}

/* Discards the step times if the shape of the steps has changed, for example because the run was shrunk. */
static void eitp__alarms_watch_shape(const eitp_run *run, eitp__alarms *alarms) {
    const eitp_step_shape shape = eitp_trainer_shape(run->trainer), *before = &alarms->shape;
    if (shape.batch_size != before->batch_size || shape.grad_accum != before->grad_accum ||
        shape.micro_batches_per_pass != before->micro_batches_per_pass)
        eitp__alarm_rules_forget_times(&alarms->rules);
    alarms->shape = shape;
}

static void eitp__alarms_after_step(eitp_run *run, void *state, eitp__decision *decision) {
    const eitp_step_report *report = &run->report.step;
    eitp__alarms *alarms = (eitp__alarms *)state;
    eitp__alarm_step step = EITP__ZERO;
    eitp__alarm_list list;
    (void)decision;
    if (!run->config.alarms)
        return;
    step.step = report->step;
    step.steps = run->report.steps;
    step.warms_up = report->step <= eitp__trainer_config(run->trainer)->schedule.warmup;
    step.applied = report->applied;
    step.loss = report->task_loss;
    step.grad_norm = report->grad_norm;
    step.parameter_norm = report->parameter_norm;
    step.seconds = run->seconds;
    if (report->step % EITP__ALARM_LOOK_STEPS == 0) {
        if (!eitp_trainer_group_norms(run->trainer, alarms->groups, EITP__COUNT(alarms->groups), &step.group_count,
                                      NULL))
            step.groups = alarms->groups;
        step.memory = eitp__alarm_memory(&run->host);
        step.left = eitp__alarm_left(run);
    }
    eitp__alarms_watch_shape(run, alarms);
    eitp__alarm_rules_step(&alarms->rules, &step, &list);
    eitp__alarms_notify(run, &list);
}

/* Checks the latent variable, if the task has one. */
static void eitp__alarms_look_at_latent(eitp_run *run, eitp__alarms *alarms, const eitp_evaluation *evaluation) {
    const eitp_metric *active = eitp__find_metric(evaluation, "active_units");
    const eitp_metric *kl = eitp__find_metric(evaluation, "kl");
    eitp__alarm_latent latent;
    eitp__alarm_list list;
    if (!active || !kl)
        return;
    latent.step = eitp_trainer_steps_done(run->trainer);
    latent.units = active->items;
    latent.active = active->mean;
    latent.kl = kl->mean;
    eitp__alarm_rules_latent(&alarms->rules, &latent, &list);
    eitp__alarms_notify(run, &list);
}

static void eitp__alarms_after_evaluation(eitp_run *run, void *state, eitp__decision *decision) {
    const eitp_evaluation *evaluation = &run->report.evaluation;
    eitp__alarm_list list;
    (void)decision;
    if (!run->config.alarms || run->report.partial_samples)
        return;
    eitp__alarm_rules_evaluation(&((eitp__alarms *)state)->rules, run->report.evaluated_step, evaluation->loss,
                                 evaluation->error, &list);
    eitp__alarms_notify(run, &list);
    eitp__alarms_look_at_latent(run, (eitp__alarms *)state, evaluation);
}

static void eitp__alarms_after_spot(eitp_run *run, void *state, const eitp_evaluation *evaluation) {
    if (run->config.alarms)
        eitp__alarms_look_at_latent(run, (eitp__alarms *)state, evaluation);
}

static void eitp__alarms_write(const eitp_run *run, const void *state, int is_counted, eitp__buffer *text) {
    (void)is_counted;
    if (run->config.alarms)
        eitp__alarm_rules_write(&((const eitp__alarms *)state)->rules, text);
}

static eitp_status eitp__alarms_read(eitp_run *run, void *state, const eitp_json *value, eitp_error *error) {
    return run->config.alarms ? eitp__alarm_rules_read(&((eitp__alarms *)state)->rules, value, error) : EITP_OK;
}

EITP__PRIVATE void eitp__alarms_observer(eitp__observer *observer) {
    observer->name = "alarms";
    observer->state_size = sizeof(eitp__alarms);
    observer->cost = EITP_RUN_COST_ALARMS;
    observer->after_step = eitp__alarms_after_step;
    observer->after_evaluation = eitp__alarms_after_evaluation;
    observer->after_spot = eitp__alarms_after_spot;
    observer->write = eitp__alarms_write;
    observer->read = eitp__alarms_read;
}
