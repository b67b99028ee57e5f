/* A step: its samples, its passes, the update and the report. */
#include "base/clock.h"
#include "base/log.h"
#include "tensor/plan.h"
#include "train/trainer.h"

/* Counters of a step in progress, and its result. */
typedef struct eitp__step_state {
    eitp__step_items items;
    double result[EITP__STEP_RESULTS];
    int64_t first_row; /* first row of the next pass within the step */
    double flops;
    eitp__noise_norms noise;
    double term_norms[EITP_MAX_STEP_SCALARS]; /* gradient norms, by index in the totals; negative: not measured */
} eitp__step_state;

/* ---- Times ---- */

/* The clock of a step: its start time, and the context's times at the start. */
typedef struct eitp__step_clock {
    double began;
    double phases[EITP__PHASE_COUNT];
} eitp__step_clock;

static void eitp__step_clock_begin(eitp__step_clock *clock, const eitp_trainer *trainer) {
    memcpy(clock->phases, trainer->plans.task.context->phase_seconds, sizeof clock->phases);
    clock->began = eitp__clock();
}

/* Fills in all times except `data`, which is already set. */
static void eitp__step_clock_end(const eitp__step_clock *clock, const eitp_trainer *trainer, eitp_step_times *times) {
    const double *phases = trainer->plans.task.context->phase_seconds;
    times->total = eitp__clock() - clock->began;
    times->forward = phases[EITP__PHASE_FORWARD] - clock->phases[EITP__PHASE_FORWARD];
    times->backward = phases[EITP__PHASE_BACKWARD] - clock->phases[EITP__PHASE_BACKWARD];
    times->update = phases[EITP__PHASE_UPDATE] - clock->phases[EITP__PHASE_UPDATE];
    times->transfer = phases[EITP__PHASE_TRANSFER] - clock->phases[EITP__PHASE_TRANSFER];
    times->other = times->total - times->data - times->forward - times->backward - times->update - times->transfer;
}

/* ---- Samples ---- */

/* Announces the samples of the next step, which the system may read in the meantime. */
static void eitp__prefetch_next_step(const eitp_trainer *trainer) {
    const eitp_trainer_config *config = &trainer->plans.config;
    const eitp_task *task = &trainer->plans.task;
    const uint64_t samples = (uint64_t)(config->batch_size * config->grad_accum);
    const uint64_t first = eitp__trainer_samples(trainer, trainer->step + 1);
    for (uint64_t i = 0; task->prefetch && i < samples; i++)
        task->prefetch(task->user, EITP_TRAINING, eitp__sample_of(config, task, first + i));
}

/* Gets the samples of the step: from the workers, or by reading them here. */
static eitp_status eitp__get_batches(eitp_trainer *trainer, eitp_error *error) {
    eitp__step_plans *plans = &trainer->plans;
    const eitp__poll *poll = &plans->task.context->poll;
    eitp_status status;
    if (plans->config.data_workers)
        return eitp__read_ahead_take(&plans->ahead, &trainer->readers, &trainer->start, trainer->step, poll,
                                     &plans->batches, error);
    status = eitp__step_batches_read(&plans->batches, &plans->config, eitp__trainer_samples(trainer, trainer->step),
                                     poll, error);
    if (!status)
        eitp__prefetch_next_step(trainer);
    return status;
}

/* Gets all batches of the step before its first backward pass, since a mean over items needs their number. */
static eitp_status eitp__read_step(eitp_trainer *trainer, eitp__step_state *state, eitp_error *error) {
    eitp__step_plans *plans = &trainer->plans;
    eitp_status status = eitp__get_batches(trainer, error);
    if (status)
        return status;
    if (plans->unique.ids)
        eitp__unique_clear(&plans->unique);
    for (int64_t pass = 0; pass < plans->batches.count; pass++) {
        eitp__batch *batch = &plans->batches.passes[pass];
        eitp__batch_count_items(batch, &state->items);
        if (plans->unique.ids)
            eitp__unique_add(&plans->unique, batch);
    }
    return EITP_OK;
}

/* Writes an input if the plan has it. */
static eitp_status eitp__write_values(eitp_plan *plan, eitp_tensor *input, const void *values, size_t size,
                                      eitp_error *error) {
    return input ? eitp_plan_write(plan, input, values, size, error) : EITP_OK;
}

static eitp_status eitp__write_unique(const eitp_trainer *trainer, eitp_plan *plan, eitp_tensor *input,
                                      eitp_error *error) {
    const eitp__unique *unique = &trainer->plans.unique;
    return eitp__write_values(plan, input, unique->ids, (size_t)unique->capacity * sizeof *unique->ids, error);
}

/* Executes a plan of a step. The trainer is inconsistent from the first change of its state until the step is complete,
   or when the device has lost the state. From that change on, no poll interrupts the step. */
static eitp_status eitp__execute(eitp_trainer *trainer, eitp_plan *plan, eitp_error *error) {
    eitp_context *context = trainer->plans.task.context;
    const eitp__poll poll = context->poll;
    eitp_status status;
    if (trainer->is_inconsistent)
        eitp_context_set_poll(context, NULL, NULL);
    status = eitp_plan_execute(plan, error);
    eitp_context_set_poll(context, poll.ask, poll.user);
    trainer->is_inconsistent |= status == EITP_ERROR_DEVICE || eitp__plan_changed_state(plan);
    return status;
}

/* Returns the weight of a term in the current step. */
static double eitp__step_weight(const eitp_trainer *trainer, const eitp__scalar *term) {
    const double weight = eitp__term_weight(term, trainer->step + 1);
    return term->controlled ? weight * trainer->controllers.factors[term->controlled - 1] : weight;
}

/* Writes the factor of each term's sum: the term's weight in the loss, divided by the weight of its items. Factors of
   penalties are in the plan of the update. */
static eitp_status eitp__write_weights(const eitp_trainer *trainer, const eitp_pass *pass, eitp_plan *plan,
                                       const eitp__step_items *items, int of_penalties, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (int q = 0; q < pass->scalar_count && !status; q++) {
        const eitp__scalar *term = &pass->scalars[q];
        const double divisor = of_penalties ? 1 : eitp__mean_divisor(items, q);
        const float weight = (float)(trainer->loss_scale * eitp__step_weight(trainer, term) / divisor);
        if ((term->kind == EITP__PENALTY) == (of_penalties != 0))
            status = eitp__write_values(plan, term->weight, &weight, sizeof weight, error);
    }
    return status;
}

/* Writes a random key: seed, step, and the position in the step of the first row or sample. */
static eitp_status eitp__write_random_key(const eitp_trainer *trainer, eitp_plan *plan, eitp_tensor *input,
                                          int64_t first, eitp_error *error) {
    int64_t key[3];
    key[0] = (int64_t)trainer->plans.config.seed;
    key[1] = trainer->step + 1;
    key[2] = first;
    return eitp__write_values(plan, input, key, sizeof key, error);
}

/* Writes the keys that a pass uses. */
static eitp_status eitp__write_keys(const eitp_trainer *trainer, const eitp_pass *pass, eitp_plan *plan,
                                    int64_t first_row, int64_t first_sample, eitp_error *error) {
    eitp_status status = eitp__write_random_key(trainer, plan, pass->key, first_row, error);
    if (!status)
        status = eitp__write_random_key(trainer, plan, pass->sample_key,
                                        eitp__layout_index(&pass->layout, first_sample), error);
    return status ? status : eitp__write_random_key(trainer, plan, pass->probe_key, 0, error);
}

/* Executes the forward and backward pass of one pass of the step, and the update if it is the only pass. */
static eitp_status eitp__execute_pass(eitp_trainer *trainer, int64_t pass, eitp__step_state *state, eitp_error *error) {
    const eitp__step_plans *plans = &trainer->plans;
    eitp__batch *batch = &plans->batches.passes[pass];
    eitp_plan *plan = plans->gradient_plan;
    const float carry = pass > 0;
    const int64_t first_row = state->first_row;
    eitp_status status;
    state->first_row += eitp__layout_align(&plans->pass.layout, batch->rows);
    status = eitp__batch_write(batch, plan, error);
    if (!status)
        status = eitp__write_keys(trainer, &plans->pass, plan, first_row, pass * plans->pass.layout.samples, error);
    if (!status)
        status = eitp__write_weights(trainer, &plans->pass, plan, &state->items, 0, error);
    if (!status)
        status = eitp__write_values(plan, plans->carry, &carry, sizeof carry, error);
    if (!status)
        status = eitp__write_unique(trainer, plan, plans->pass.unique, error);
    state->flops += eitp__plan_flops(plan);
    return status ? status : eitp__execute(trainer, plan, error);
}

/* ---- Probes ---- */

/* Executes a probe on the first samples of the step. */
static eitp_status eitp__execute_probe(eitp_trainer *trainer, eitp__probe *probe, eitp_error *error) {
    eitp__step_items items = EITP__ZERO;
    eitp_status status;
    eitp__batch_copy(&probe->batch, &trainer->plans.batches.passes[0], probe->pass.layout.samples);
    eitp__batch_corrupt(&probe->batch, trainer->plans.config.seed, trainer->step + 1);
    eitp__batch_count_items(&probe->batch, &items);
    status = eitp__batch_write(&probe->batch, probe->plan, error);
    if (!status)
        status = eitp__write_keys(trainer, &probe->pass, probe->plan, 0, 0, error);
    if (!status)
        status = eitp__write_weights(trainer, &probe->pass, probe->plan, &items, 0, error);
    if (!status)
        status = eitp__write_unique(trainer, probe->plan, probe->pass.unique, error);
    return status ? status : eitp__execute(trainer, probe->plan, error);
}

static int eitp__probe_is_due(const eitp_trainer *trainer, const eitp__probe *probe) {
    return eitp__term_is_due(&probe->kind.timing, trainer->step + 1);
}

/* Clears the variables for capped gradients: probes add to them, and the passes of the step may not overwrite them
   first. */
static eitp_status eitp__clear_capped(eitp_trainer *trainer, eitp_error *error) {
    const eitp__step_plans *plans = &trainer->plans;
    if (!(plans->objective.config.grad_cap > 0) || !eitp__probes_train(&plans->probes))
        return EITP_OK;
    return eitp__clear_gradients(plans->task.context, EITP__REGULARIZER_GRADIENT, error);
}

/* Executes the probes of the step: those with a gradient, which is added to the passes' gradients, or the others. */
static eitp_status eitp__execute_probes(eitp_trainer *trainer, int train, eitp__step_state *state, eitp_error *error) {
    eitp__probes *probes = &trainer->plans.probes;
    eitp_status status = EITP_OK;
    for (int i = 0; i < probes->count && !status; i++) {
        if (probes->of[i].kind.trains != train || !eitp__probe_is_due(trainer, &probes->of[i]))
            continue;
        status = eitp__execute_probe(trainer, &probes->of[i], error);
        state->flops += eitp__plan_flops(probes->of[i].plan);
    }
    return status;
}

/* ---- Norms of terms ---- */

static int eitp__step_measures_terms(const eitp_trainer *trainer) {
    const int64_t every = trainer->plans.objective.config.term_norms_every;
    return every > 0 && (trainer->step + 1) % every == 0;
}

/* Returns the probe that a pass of norms repeats, or NULL for the task's pass. */
static const eitp__probe *eitp__probe_of(const eitp_trainer *trainer, const eitp_pass *pass) {
    const eitp__probes *probes = &trainer->plans.probes;
    for (int i = 0; i < probes->count; i++) {
        if (pass->probe && probes->of[i].pass.probe == pass->probe)
            return &probes->of[i];
    }
    return NULL;
}

/* Writes the inputs of a pass of norms: the inputs of the step's first pass, or of the probe. */
static eitp_status eitp__write_norm_pass(eitp_trainer *trainer, eitp__term_norm_pass *norms, eitp_error *error) {
    eitp__batch *batch = &norms->batch;
    eitp__step_items items = EITP__ZERO;
    eitp_status status;
    eitp__batch_copy(batch, &trainer->plans.batches.passes[0], norms->pass.layout.samples);
    eitp__batch_corrupt(batch, trainer->plans.config.seed, trainer->step + 1);
    eitp__batch_count_items(batch, &items);
    status = eitp__batch_write(batch, norms->plan, error);
    if (!status)
        status = eitp__write_keys(trainer, &norms->pass, norms->plan, 0, 0, error);
    for (int of_penalties = 0; of_penalties < 2 && !status; of_penalties++)
        status = eitp__write_weights(trainer, &norms->pass, norms->plan, &items, of_penalties, error);
    return status ? status : eitp__write_unique(trainer, norms->plan, norms->pass.unique, error);
}

/* Sets the gradient norms of the terms in a pass of norms. */
static eitp_status eitp__measure_norm_pass(eitp_trainer *trainer, eitp__term_norm_pass *norms, eitp__step_state *state,
                                           eitp_error *error) {
    const eitp__probe *probe = eitp__probe_of(trainer, &norms->pass);
    const int first = probe ? probe->first_total : 0;
    double values[EITP_MAX_STEP_SCALARS];
    eitp_status status = eitp__write_norm_pass(trainer, norms, error);
    if (!status)
        status = eitp__execute(trainer, norms->plan, error);
    if (!status)
        status = eitp__term_norm_pass_read(norms, trainer->loss_scale, values, error);
    for (int i = 0; i < norms->term_count && !status; i++)
        state->term_norms[first + norms->terms[i]] = values[i];
    return status;
}

/* Measures the gradient norms of all terms of the step, before it changes anything. */
static eitp_status eitp__measure_terms(eitp_trainer *trainer, eitp__step_state *state, eitp_error *error) {
    eitp__term_norms *norms = &trainer->plans.term_norms;
    eitp_status status = EITP_OK;
    for (int q = 0; q < EITP_MAX_STEP_SCALARS; q++)
        state->term_norms[q] = -1;
    for (int i = 0; i < norms->count && eitp__step_measures_terms(trainer) && !status; i++) {
        const eitp__probe *probe = eitp__probe_of(trainer, &norms->passes[i].pass);
        if (!probe || eitp__probe_is_due(trainer, probe))
            status = eitp__measure_norm_pass(trainer, &norms->passes[i], state, error);
    }
    return status;
}

/* ---- Activations ---- */

/* Executes the first pass and watches its activations. */
static eitp_status eitp__execute_watched(eitp_trainer *trainer, eitp__step_state *state, eitp_error *error) {
    eitp_context *context = trainer->plans.task.context;
    eitp__watcher watcher;
    eitp_status status;
    trainer->activations->count = 0;
    watcher.user = trainer->activations;
    watcher.done = eitp__activation_watch_step;
    eitp__context_watch(context, &watcher);
    status = eitp__execute_pass(trainer, 0, state, error);
    eitp__context_watch(context, NULL);
    return status;
}

/* ---- The gradient noise scale ---- */

static int eitp__step_measures_noise(const eitp_trainer *trainer) {
    const int64_t every = trainer->plans.config.noise_scale_every;
    return every > 0 && (trainer->step + 1) % every == 0;
}

/* Measures the mean gradient of the first of several passes. The accumulated gradient is of the mean over the whole
   step, and the pass has only part of its samples. */
static eitp_status eitp__measure_part(const eitp_trainer *trainer, eitp__step_state *state, eitp_error *error) {
    const eitp__step_plans *plans = &trainer->plans;
    const int64_t part = plans->batches.passes[0].count;
    eitp__noise_norms *noise = &state->noise;
    eitp_status status;
    double scale;
    for (int64_t pass = 0; pass < plans->batches.count; pass++)
        noise->samples += plans->batches.passes[pass].count;
    if (noise->samples == part)
        return EITP_OK;
    status = eitp__accumulated_squares(plans->task.context, plans->unique.ids, plans->unique.count,
                                       plans->unique.capacity, &noise->part_squares, error);
    scale = (double)noise->samples / (double)part / trainer->loss_scale;
    noise->part_squares *= scale * scale;
    noise->part_samples = part;
    return status;
}

/* Completes the measurement with the gradient of the whole step. */
static void eitp__report_noise(eitp_trainer *trainer, eitp__step_state *state, eitp_step_report *report) {
    eitp__noise_norms *noise = &state->noise;
    report->noise_scale = -1;
    if (!eitp__step_measures_noise(trainer))
        return;
    noise->squares = report->grad_norm * report->grad_norm;
    if (noise->part_samples && report->applied && isfinite(noise->part_squares) && isfinite(noise->squares)) {
        eitp__noise_scale_add(&trainer->noise_scale, noise);
        report->noise_scale = eitp__noise_scale_value(&trainer->noise_scale);
        if (report->noise_scale < 0)
            report->noise_scale_unknown = "the mean gradient is still lost in the noise; more measurements are needed";
    } else if (noise->part_samples) {
        report->noise_scale_unknown = "the step was not applied";
    } else {
        report->noise_scale_unknown =
            "the step is a single pass: set grad_accum to 2 or more, and micro_batches_per_pass to half of it";
    }
}

/* ---- Learners ---- */

/* Writes the inputs of the learners' updates. */
static eitp_status eitp__write_learners(const eitp_trainer *trainer, int64_t step, eitp_error *error) {
    const eitp__step_plans *plans = &trainer->plans;
    eitp_plan *plan = eitp__step_update_plan(plans);
    eitp_status status = EITP_OK;
    for (int i = 0; i < plans->pass.learner_count && !status; i++) {
        const eitp_learner_config *config = &plans->pass.learners[i].config;
        const eitp_update *update = &plans->learner_updates[i];
        const float limit = (float)config->max_grad_norm;
        float rate_and_step[2];
        rate_and_step[0] = (float)eitp_schedule_rate(&config->schedule, step);
        rate_and_step[1] = (float)step;
        status = eitp_plan_write(plan, update->rate_and_step, rate_and_step, sizeof rate_and_step, error);
        if (!status)
            status = eitp_plan_write(plan, update->max_norm, &limit, sizeof limit, error);
    }
    return status;
}

static void eitp__report_learners(const eitp_trainer *trainer, const eitp__step_state *state,
                                  eitp_step_report *report) {
    const eitp_pass *pass = &trainer->plans.pass;
    for (int i = 0; i < pass->learner_count; i++) {
        const double *result = state->result + EITP__RESULT_LEARNERS + i * EITP__LEARNER_RESULTS;
        const size_t length = strlen(pass->learners[i].prefix);
        eitp_learner_report *learner = &report->learners[i];
        snprintf(learner->name, sizeof learner->name, "%s", pass->learners[i].prefix);
        if (length > 1 && learner->name[length - 1] == '.')
            learner->name[length - 1] = 0;
        learner->learning_rate = eitp_schedule_rate(&pass->learners[i].config.schedule, report->step);
        learner->grad_norm = result[EITP__RESULT_GRADIENT_NORM];
        learner->applied = result[EITP__RESULT_APPLIED] > 0;
        learner->clipped = learner->applied && result[EITP__RESULT_GRADIENT_SCALE] * trainer->loss_scale < 1;
        learner->update_norm = result[EITP__RESULT_UPDATE_NORM];
        learner->parameter_norm = result[EITP__RESULT_PARAMETER_NORM];
    }
    report->learner_count = pass->learner_count;
}

/* ---- The update ---- */

/* Halves the loss scale after a step that overflowed fp16; doubles it after many that did not. */
static void eitp__adjust_loss_scale(eitp_trainer *trainer, int applied) {
    const int64_t growth_interval = 2000;
    const double largest = 16777216;
    if (!trainer->plans.scale)
        return;
    trainer->scale_steps++;
    if (applied && (trainer->scale_steps < growth_interval || trainer->loss_scale >= largest))
        return;
    trainer->loss_scale *= applied ? 2 : 0.5;
    trainer->skipped += !applied;
    trainer->scale_steps = 0;
    eitp__log_line(&trainer->host, applied ? EITP_LOG_DEBUG : EITP_LOG_INFO,
                   "loss scale %g from step %lld on (%lld steps skipped so far)", trainer->loss_scale,
                   (long long)trainer->step + 2, (long long)trainer->skipped);
}

static double eitp__learning_rate(const eitp_trainer *trainer, int64_t step) {
    const eitp_trainer_config *config = &trainer->plans.config;
    return config->rate ? config->rate(config->user, step)
                        : eitp__plateau_rate(&trainer->plateau, &config->schedule, step);
}

static eitp_status eitp__write_update(eitp_trainer *trainer, eitp_step_report *report, eitp_error *error) {
    const eitp__step_plans *plans = &trainer->plans;
    eitp_plan *plan = eitp__step_update_plan(plans);
    const eitp_update *update = &plans->update;
    float rate_and_step[2], limit = (float)plans->config.max_grad_norm, scale = (float)trainer->loss_scale;
    const float bound = isfinite(trainer->spikes.norms.limit) ? (float)trainer->spikes.norms.limit : 0;
    int64_t key[3];
    eitp_status status;
    report->learning_rate = eitp__learning_rate(trainer, report->step);
    rate_and_step[0] = (float)report->learning_rate;
    rate_and_step[1] = (float)report->step;
    key[0] = (int64_t)plans->config.seed;
    key[1] = report->step;
    key[2] = 0;
    status = eitp__write_values(plan, update->rate_and_step, rate_and_step, sizeof rate_and_step, error);
    if (!status)
        status = eitp__write_values(plan, update->key, key, sizeof key, error);
    if (!status)
        status = eitp__write_values(plan, update->max_norm, &limit, sizeof limit, error);
    if (!status)
        status = eitp__write_values(plan, update->skip_norm, &bound, sizeof bound, error);
    if (!status)
        status = eitp__write_unique(trainer, plan, plans->update_unique, error);
    if (!status)
        status = eitp__write_learners(trainer, report->step, error);
    if (!status)
        status = eitp__write_weights(trainer, &plans->pass, plan, NULL, 1, error);
    return status ? status : eitp__write_values(plan, plans->scale, &scale, sizeof scale, error);
}

static eitp_status eitp__read_result(const eitp_trainer *trainer, eitp__step_state *state, eitp_error *error) {
    const eitp__step_plans *plans = &trainer->plans;
    const size_t values = (size_t)(EITP__RESULT_LEARNERS + plans->pass.learner_count * EITP__LEARNER_RESULTS);
    return eitp_plan_read(eitp__step_update_plan(plans), plans->result, state->result, values * sizeof *state->result,
                          error);
}

static void eitp__report_update(eitp_trainer *trainer, const eitp__step_state *state, eitp_step_report *report) {
    report->grad_norm = state->result[EITP__RESULT_GRADIENT_NORM];
    report->applied = state->result[EITP__RESULT_APPLIED] > 0;
    report->clipped = report->applied && state->result[EITP__RESULT_GRADIENT_SCALE] * trainer->loss_scale < 1;
    report->update_norm = state->result[EITP__RESULT_UPDATE_NORM];
    report->parameter_norm = state->result[EITP__RESULT_PARAMETER_NORM];
    report->loss_scale = trainer->last_loss_scale = trainer->loss_scale;
    eitp__report_learners(trainer, state, report);
    /* A step that was skipped as a spike did not overflow. The scale is the model's: learners compute in F32. */
    eitp__adjust_loss_scale(trainer, isfinite(report->grad_norm) != 0);
    report->skipped = trainer->skipped;
}

/* Reports the terms, or the metrics, of a pass whose totals start at `first`. */
static void eitp__report_scalars(const eitp_trainer *trainer, const eitp__step_state *state, const eitp_pass *pass,
                                 int first, int are_terms, const eitp__step_items *items, eitp_step_report *report) {
    for (int q = 0; q < pass->scalar_count; q++) {
        const eitp__scalar *scalar = &pass->scalars[q];
        eitp_term_report *result = &report->terms[report->term_count + report->step_metric_count];
        if (scalar->is_term != are_terms || !eitp__pass_reports(pass, scalar) ||
            (scalar->is_regularizer && !eitp__term_is_due(&scalar->timing, report->step)))
            continue;
        snprintf(result->name, sizeof result->name, "%s", scalar->name);
        result->mean = state->result[EITP__RESULT_TOTALS + first + q] / eitp__mean_divisor(items, q);
        result->weight = are_terms ? eitp__step_weight(trainer, scalar) : 0;
        result->grad_norm = are_terms ? state->term_norms[first + q] : -1;
        report->loss += result->weight * result->mean;
        report->task_loss += scalar->is_regularizer ? 0 : result->weight * result->mean;
        *(are_terms ? &report->term_count : &report->step_metric_count) += 1;
    }
}

static void eitp__report_terms(const eitp_trainer *trainer, const eitp__step_state *state, eitp_step_report *report) {
    const eitp__probes *probes = &trainer->plans.probes;
    report->loss = report->task_loss = 0;
    for (int are_terms = 1; are_terms >= 0; are_terms--) {
        eitp__report_scalars(trainer, state, &trainer->plans.pass, 0, are_terms, &state->items, report);
        for (int i = 0; i < probes->count; i++) {
            eitp__step_items items = EITP__ZERO;
            if (!eitp__probe_is_due(trainer, &probes->of[i]))
                continue;
            eitp__batch_count_items(&probes->of[i].batch, &items);
            eitp__report_scalars(trainer, state, &probes->of[i].pass, probes->of[i].first_total, are_terms, &items,
                                 report);
        }
    }
    report->items = state->items.of[0];
    report->flops = state->flops;
}

/* Reports the cap of the regularizers' gradient. */
static void eitp__report_cap(const eitp_trainer *trainer, const eitp__step_state *state, eitp_step_report *report) {
    report->task_grad_norm = state->result[EITP__RESULT_TASK_GRADIENT_NORM] / trainer->last_loss_scale;
    report->regularizer_grad_norm = state->result[EITP__RESULT_REGULARIZER_NORM] / trainer->last_loss_scale;
    report->regularizer_scale = state->result[EITP__RESULT_REGULARIZER_SCALE];
}

/* Performs a step without counting and reporting it. */
static eitp_status eitp__make_step(eitp_trainer *trainer, eitp_step_report *report, eitp_error *error) {
    eitp__step_state state = EITP__ZERO;
    eitp_status status = eitp__trainer_restore_plans(trainer, error);
    double began;
    eitp__spikes_begin(&trainer->spikes, trainer->plans.config.spike_threshold);
    began = eitp__clock();
    if (!status)
        status = eitp__read_step(trainer, &state, error);
    report->times.data = eitp__clock() - began;
    if (!status)
        status = eitp__controllers_read(trainer->plans.task.context, &trainer->plans.objective.config,
                                        &trainer->controllers, error);
    if (!status)
        status = eitp__measure_terms(trainer, &state, error);
    if (!status)
        status = eitp__execute_probes(trainer, 0, &state, error);
    if (!status)
        status = eitp__clear_capped(trainer, error);
    if (!status && !trainer->plans.update_plan)
        status = eitp__write_update(trainer, report, error);
    for (int64_t pass = 0; pass < trainer->plans.batches.count && !status; pass++) {
        if (trainer->plans.batches.passes[pass].count)
            status = !pass && trainer->watches ? eitp__execute_watched(trainer, &state, error)
                                               : eitp__execute_pass(trainer, pass, &state, error);
        if (!status && !pass && eitp__step_measures_noise(trainer))
            status = eitp__measure_part(trainer, &state, error);
    }
    if (!status)
        status = eitp__execute_probes(trainer, 1, &state, error);
    if (!status && trainer->plans.update_plan)
        status = eitp__write_update(trainer, report, error);
    if (!status && trainer->plans.update_plan)
        status = eitp__execute(trainer, trainer->plans.update_plan, error);
    if (!status && trainer->plans.update_plan)
        state.flops += eitp__plan_flops(trainer->plans.update_plan);
    if (!status)
        status = eitp__read_result(trainer, &state, error);
    if (status)
        return status;
    eitp__report_update(trainer, &state, report);
    eitp__report_noise(trainer, &state, report);
    eitp__report_terms(trainer, &state, report);
    eitp__report_cap(trainer, &state, report);
    return eitp__controllers_update(trainer->plans.task.context, &trainer->plans.objective.config, report, error);
}

eitp_status eitp_trainer_step(eitp_trainer *trainer, eitp_step_report *report, eitp_error *error) {
    eitp_step_report result = EITP__ZERO;
    eitp__step_clock clock;
    uint64_t first;
    eitp_status status;
    if (!trainer || !report)
        return eitp__fail_null(error, "eitp_trainer_step", "trainer and report");
    status = eitp__trainer_check_whole(trainer, error);
    if (status)
        return status;
    if (!eitp__pass_samples(&trainer->plans.config, eitp__trainer_samples(trainer, trainer->step), 0, &first))
        return eitp__fail(error, EITP_END_OF_DATA, "training ends after step %lld: all %llu samples were used",
                          (long long)trainer->step, (unsigned long long)trainer->plans.config.last_sample);
    result.step = trainer->step + 1;
    eitp__step_clock_begin(&clock, trainer);
    status = eitp__make_step(trainer, &result, error);
    if (status)
        return eitp__fail_prefix(error, status,
                                 trainer->is_inconsistent ? "step %lld failed half-way; resume from the last checkpoint"
                                                          : "step %lld failed, and nothing was changed",
                                 (long long)result.step);
    trainer->is_inconsistent = trainer->watches = 0;
    trainer->step++;
    eitp__step_clock_end(&clock, trainer, &result.times);
    if (eitp__spikes_end(&trainer->spikes, &result))
        eitp__log_line(
            &trainer->host, EITP_LOG_WARNING,
            "%d steps in a row were skipped as spikes, up to step %lld: the gradient norm has changed permanently, "
            "and its baseline has been reset",
            EITP__SPIKES_IN_A_ROW, (long long)trainer->step);
    *report = result;
    if (trainer->plans.config.after_step)
        trainer->plans.config.after_step(trainer->plans.config.user, report);
    return EITP_OK;
}

eitp_status eitp_trainer_group_norms(const eitp_trainer *trainer, eitp_group_norms *groups, size_t capacity,
                                     size_t *count, eitp_error *error) {
    if (!trainer || !groups || !count)
        return eitp__fail_null(error, "eitp_trainer_group_norms", "trainer, groups and count");
    if (!eitp__step_plans_exist(&trainer->plans))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the norms of the last step are no longer available; read them right after a step");
    return eitp__norm_outputs_read(&trainer->plans.norms, eitp__step_update_plan(&trainer->plans),
                                   trainer->last_loss_scale, groups, capacity, count, error);
}

eitp_status eitp_trainer_watch_activations(eitp_trainer *trainer, eitp_error *error) {
    if (!trainer)
        return eitp__fail_null(error, "eitp_trainer_watch_activations", "trainer");
    if (!trainer->activations)
        trainer->activations = (eitp__activation_watch *)eitp__allocate(&trainer->host, sizeof *trainer->activations);
    trainer->watches = trainer->activations != NULL;
    return trainer->watches ? EITP_OK
                            : eitp__fail_memory(error, sizeof *trainer->activations, "statistics of activations");
}

eitp_status eitp_trainer_activations(const eitp_trainer *trainer, eitp_layer_activations *layers, size_t capacity,
                                     size_t *count, eitp_error *error) {
    if (!trainer || !layers || !count)
        return eitp__fail_null(error, "eitp_trainer_activations", "trainer, layers and count");
    *count = 0;
    if (trainer->activations)
        eitp__activation_watch_read(trainer->activations, layers, capacity, count);
    return EITP_OK;
}
