#include "train/trainer.h"

#include "base/log.h"
#include "tensor/plan.h"
#include "train/settings.h"

/* Where dynamic loss scaling starts: high, since it comes down in a few skipped steps. */
#define EITP__FIRST_LOSS_SCALE 65536.0

eitp_trainer_config eitp_trainer_config_default(void) {
    eitp_trainer_config config;
    memset(&config, 0, sizeof config);
    config.batch_size = 1;
    config.grad_accum = 4;
    config.max_grad_norm = 0.5;
    config.adamw = eitp_optimizer_config_default();
    config.schedule.kind = EITP_SCHEDULE_CONSTANT;
    config.schedule.peak = 5e-5;
    config.shuffle = EITP_SHUFFLE_WINDOWS;
    return config;
}

/* Parameters must be kept as the optimizer updates them. */
static eitp_status eitp__check_optimizer(const eitp_trainer_config *config, const eitp_context *context,
                                         eitp_error *error) {
    const eitp_optimizer_info *optimizer;
    if ((unsigned)config->optimizer >= EITP_OPTIMIZER_COUNT)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "there is no optimizer of number %d", (int)config->optimizer);
    optimizer = eitp_optimizer_get(config->optimizer);
    if (eitp_context_precision(context) == EITP_F16 && optimizer->parameters != EITP_PARAMETERS_EXACT)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "%s keeps no weights of fp16; use bf16 or fp32",
                          optimizer->name);
    if (eitp_context_precision(context) != EITP_F32 && eitp_context_parameters(context) != optimizer->parameters)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the context was made for other parameters than those of %s; see eitp_context_config",
                          optimizer->name);
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__trainer_config_check(const eitp_trainer_config *config, const eitp_context *context,
                                                     eitp_error *error) {
    eitp_status status = eitp__settings_check(config, error);
    if (status)
        return status;
    if (config->micro_batches_per_pass > config->grad_accum)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%lld merged micro-batches must be 0 to the %lld of a step",
                          (long long)config->micro_batches_per_pass, (long long)config->grad_accum);
    return eitp__check_optimizer(config, context, error);
}

eitp_status eitp_trainer_config_set_epochs(eitp_trainer_config *config, const eitp_task *task, double epochs,
                                           eitp_error *error) {
    const double most = 9e15; /* numbers of samples that a double counts one by one */
    double samples;
    int64_t step_samples;
    if (!config || !task)
        return eitp__fail_null(error, "eitp_trainer_config_set_epochs", "config and task");
    samples = (double)task->samples[EITP_TRAINING];
    /* A product that is a whole number but for its rounding is that number. */
    samples = ceil(samples * epochs - 1e-9 * samples);
    if (!(epochs > 0) || !(samples <= most))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "%g epochs of %llu samples: expected more than 0 epochs, and at most %g samples in all",
                          epochs, (unsigned long long)task->samples[EITP_TRAINING], most);
    if (config->batch_size < 1 || config->grad_accum < 1 || config->batch_size > EITP__MAX_BATCH ||
        config->grad_accum > EITP__MAX_BATCH)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "set batch_size and grad_accum before the epochs");
    step_samples = config->batch_size * config->grad_accum;
    config->last_sample = samples < 1 ? 1 : (uint64_t)samples;
    config->schedule.steps = ((int64_t)config->last_sample + step_samples - 1) / step_samples;
    return EITP_OK;
}

/* ---- The trainer object ---- */

eitp_status eitp_trainer_create(const eitp_task *task, const eitp_trainer_config *config, eitp_trainer **trainer,
                                eitp_error *error) {
    eitp_trainer *made;
    eitp_status status;
    if (!task || !config || !trainer)
        return eitp__fail_null(error, "eitp_trainer_create", "task, config and trainer");
    *trainer = NULL;
    status = eitp__task_check(task, error);
    if (!status && !task->samples[EITP_TRAINING])
        status = eitp__fail(error, EITP_ERROR_ARGUMENT, "the task has no training samples");
    if (!status)
        status = eitp__trainer_config_check(config, task->context, error);
    if (status)
        return status;
    const eitp_host host = eitp_context_host(task->context);
    made = (eitp_trainer *)eitp__allocate(&host, sizeof *made);
    if (!made)
        return eitp__fail_memory(error, sizeof *made, "a trainer");
    made->host = host;
    made->loss_scale = eitp_context_precision(task->context) == EITP_F16 ? EITP__FIRST_LOSS_SCALE : 1;
    eitp__step_plans_init(&made->plans, task, config, 0);
    status = eitp__step_plans_create(&made->plans, error);
    if (status) {
        eitp_trainer_destroy(made);
        return status;
    }
    made->initial_shape = eitp__step_shape_of(&made->plans.config);
    *trainer = made;
    return EITP_OK;
}

void eitp_trainer_destroy(eitp_trainer *trainer) {
    eitp_host host;
    if (!trainer)
        return;
    host = trainer->host;
    eitp__step_plans_discard(&trainer->plans);
    eitp__release(&host, trainer, sizeof *trainer);
}

int eitp_trainer_is_torn(const eitp_trainer *trainer) {
    return trainer && trainer->torn;
}

EITP__PRIVATE eitp_status eitp__trainer_check_whole(const eitp_trainer *trainer, eitp_error *error) {
    return trainer->torn
               ? eitp__fail(error, EITP_ERROR_TORN,
                            "a step or a resume failed half-way, so weights and optimizer state do not belong "
                            "together; resume from the last checkpoint")
               : EITP_OK;
}

int64_t eitp_trainer_steps_done(const eitp_trainer *trainer) {
    return trainer ? trainer->step : 0;
}

int eitp_trainer_has_measure(const eitp_trainer *trainer, const char *name) {
    const eitp_pass *pass;
    if (!trainer || !name || !trainer->plans.task.samples[EITP_VALIDATION])
        return 0;
    pass = &trainer->plans.evaluator.pass;
    for (int q = 0; q < pass->quantity_count; q++) {
        if (!strcmp(name, pass->quantities[q].name))
            return 1;
    }
    return !strcmp(name, "loss");
}

eitp_step_shape eitp_trainer_shape(const eitp_trainer *trainer) {
    eitp_step_shape none = EITP__ZERO;
    return trainer ? eitp__step_shape_of(&trainer->plans.config) : none;
}

int64_t eitp_trainer_micro_batches_per_pass(const eitp_trainer *trainer) {
    return trainer ? trainer->plans.config.micro_batches_per_pass : 0;
}

eitp_plan_stats eitp_trainer_statistics(const eitp_trainer *trainer) {
    eitp_plan_stats none = EITP__ZERO;
    return trainer && trainer->plans.gradient_plan ? eitp_plan_statistics(trainer->plans.gradient_plan) : none;
}

/* ---- A step ---- */

/* What a step knows on its way from one pass to the next. */
typedef struct eitp__step_state {
    int64_t items[EITP_PASS_QUANTITIES];
    double sums[EITP_PASS_QUANTITIES];
    int64_t first_row; /* of the next pass, within the step */
} eitp__step_state;

/* Samples of a pass of the next step: fewer where the step, or the last sample, ends in it. */
static int64_t eitp__pass_samples(const eitp_trainer *trainer, int64_t pass, uint64_t *first) {
    const eitp_trainer_config *config = &trainer->plans.config;
    const uint64_t step_samples = (uint64_t)(config->batch_size * config->grad_accum);
    const uint64_t capacity = (uint64_t)(config->batch_size * config->micro_batches_per_pass);
    uint64_t end = ((uint64_t)trainer->step + 1) * step_samples;
    *first = (uint64_t)trainer->step * step_samples + (uint64_t)pass * capacity;
    if (config->last_sample && end > config->last_sample)
        end = config->last_sample;
    if (end <= *first)
        return 0;
    return (int64_t)(end - *first < capacity ? end - *first : capacity);
}

/* Which of the task's training samples is number `number` of the run. */
static uint64_t eitp__sample_of(const eitp_trainer *trainer, uint64_t number) {
    const eitp_trainer_config *config = &trainer->plans.config;
    return eitp_sample_index(config->shuffle, config->seed, trainer->plans.task.samples[EITP_TRAINING], number);
}

static void eitp__prefetch_next_step(const eitp_trainer *trainer) {
    const eitp_trainer_config *config = &trainer->plans.config;
    const eitp_task *task = &trainer->plans.task;
    const uint64_t samples = (uint64_t)(config->batch_size * config->grad_accum);
    for (uint64_t i = 0; task->prefetch && i < samples; i++)
        task->prefetch(task->user, EITP_TRAINING,
                       eitp__sample_of(trainer, (uint64_t)(trainer->step + 1) * samples + i));
}

/* Reads all batches of the step before its first backward pass: a mean over items needs their number. */
static eitp_status eitp__read_step(eitp_trainer *trainer, eitp__step_state *state, eitp_error *error) {
    eitp__step_plans *plans = &trainer->plans;
    eitp_status status = EITP_OK;
    if (plans->unique.tokens)
        eitp__unique_clear(&plans->unique);
    for (int64_t pass = 0; pass < plans->batch_count && !status; pass++) {
        eitp__batch *batch = &plans->batches[pass];
        uint64_t first;
        const int64_t count = eitp__pass_samples(trainer, pass, &first);
        eitp__batch_clear(batch);
        for (int64_t i = 0; i < count && !status; i++)
            status = eitp__batch_add(batch, EITP_TRAINING, eitp__sample_of(trainer, first + (uint64_t)i), error);
        if (status)
            break;
        eitp__batch_count_items(batch, state->items);
        if (plans->unique.tokens)
            eitp__unique_add(&plans->unique, batch);
    }
    /* The next step's are fetched during this one. */
    if (!status)
        eitp__prefetch_next_step(trainer);
    return status;
}

/* One scalar or small input. */
static eitp_status eitp__write_values(eitp_plan *plan, eitp_tensor *input, const void *values, size_t size,
                                      eitp_error *error) {
    return input ? eitp_plan_write(plan, input, values, size, error) : EITP_OK;
}

static eitp_status eitp__write_unique(const eitp_trainer *trainer, eitp_plan *plan, eitp_tensor *input,
                                      eitp_error *error) {
    const eitp__unique *unique = &trainer->plans.unique;
    return eitp__write_values(plan, input, unique->tokens, (size_t)unique->capacity * sizeof *unique->tokens, error);
}

/* Executes a plan of a step. What a checkpoint has is torn from its first change until the step is complete. */
static eitp_status eitp__execute(eitp_trainer *trainer, eitp_plan *plan, eitp_error *error) {
    eitp_status status = eitp_plan_execute(plan, error);
    trainer->torn |= eitp__plan_changed_state(plan);
    return status;
}

/* What each term's sum is multiplied by: its weight in the loss, over its items in the step. */
static eitp_status eitp__write_weights(const eitp_trainer *trainer, const eitp__step_state *state, eitp_error *error) {
    const eitp__step_plans *plans = &trainer->plans;
    eitp_status status = EITP_OK;
    for (int q = 0; q < plans->pass.quantity_count && !status; q++) {
        const eitp__quantity *term = &plans->pass.quantities[q];
        const double items = (double)(state->items[q] ? state->items[q] : 1);
        const float weight = (float)(trainer->loss_scale * eitp__term_weight(term, trainer->step + 1) / items);
        status = eitp__write_values(plans->gradient_plan, term->weight, &weight, sizeof weight, error);
    }
    return status;
}

static eitp_status eitp__add_sums(const eitp_trainer *trainer, const eitp__batch *batch, eitp__step_state *state,
                                  eitp_error *error) {
    const eitp__step_plans *plans = &trainer->plans;
    eitp_status status = EITP_OK;
    for (int q = 0; q < plans->pass.quantity_count && !status; q++) {
        const eitp__quantity *term = &plans->pass.quantities[q];
        status = eitp__batch_read_values(batch, plans->gradient_plan, term, plans->values, error);
        for (int64_t s = 0; s < batch->count && !status; s++)
            eitp__batch_add_values(batch, term, plans->values, s, &state->sums[q]);
    }
    return status;
}

/* Dropout keys: the seed, the step, and the number within it of the pass's first row, or first place of a sample. */
static eitp_status eitp__write_keys(const eitp_trainer *trainer, int64_t pass, int64_t first_row, eitp_error *error) {
    const eitp__step_plans *plans = &trainer->plans;
    const eitp__layout *layout = &plans->pass.layout;
    int64_t key[3];
    eitp_status status;
    key[0] = (int64_t)plans->config.seed;
    key[1] = trainer->step + 1;
    key[2] = first_row;
    status = eitp__write_values(plans->gradient_plan, plans->pass.key, key, sizeof key, error);
    key[2] = eitp__layout_place(layout, pass * layout->samples);
    return status ? status : eitp__write_values(plans->gradient_plan, plans->pass.sample_key, key, sizeof key, error);
}

/* Forward and backward of one pass of the step; where there is only one, the update too. */
static eitp_status eitp__execute_pass(eitp_trainer *trainer, int64_t pass, eitp__step_state *state, eitp_error *error) {
    const eitp__step_plans *plans = &trainer->plans;
    eitp__batch *batch = &plans->batches[pass];
    eitp_plan *plan = plans->gradient_plan;
    const float carry = pass > 0;
    const int64_t first_row = state->first_row;
    eitp_status status;
    state->first_row += eitp__layout_align(&plans->pass.layout, batch->rows);
    status = eitp__batch_write(batch, plan, error);
    if (!status)
        status = eitp__write_keys(trainer, pass, first_row, error);
    if (!status)
        status = eitp__write_weights(trainer, state, error);
    if (!status)
        status = eitp__write_values(plan, plans->carry, &carry, sizeof carry, error);
    if (!status)
        status = eitp__write_unique(trainer, plan, plans->pass.unique, error);
    if (!status)
        status = eitp__execute(trainer, plan, error);
    return status ? status : eitp__add_sums(trainer, batch, state, error);
}

/* Halves the loss scale after a step that was too much for fp16, doubles it after many that were not. */
static void eitp__adjust_loss_scale(eitp_trainer *trainer, int applied) {
    const int64_t patience = 2000;
    const double largest = 16777216;
    if (!trainer->plans.scale)
        return;
    trainer->scale_steps++;
    if (applied && (trainer->scale_steps < patience || trainer->loss_scale >= largest))
        return;
    trainer->loss_scale *= applied ? 2 : 0.5;
    trainer->skipped += !applied;
    trainer->scale_steps = 0;
    eitp__log(&trainer->host, applied ? EITP_LOG_DEBUG : EITP_LOG_INFO,
              "loss scale %g from step %lld on (%lld steps skipped so far)", trainer->loss_scale,
              (long long)trainer->step + 2, (long long)trainer->skipped);
}

static double eitp__learning_rate(const eitp_trainer_config *config, int64_t step) {
    return config->rate ? config->rate(config->user, step) : eitp_schedule_rate(&config->schedule, step);
}

static eitp_status eitp__write_update(eitp_trainer *trainer, eitp_step_report *report, eitp_error *error) {
    const eitp__step_plans *plans = &trainer->plans;
    eitp_plan *plan = eitp__step_update_plan(plans);
    const eitp_update *update = &plans->update;
    float hyper[2], limit = (float)plans->config.max_grad_norm, scale = (float)trainer->loss_scale;
    int64_t key[3];
    eitp_status status;
    report->learning_rate = eitp__learning_rate(&plans->config, report->step);
    hyper[0] = (float)report->learning_rate;
    hyper[1] = (float)report->step;
    key[0] = (int64_t)plans->config.seed;
    key[1] = report->step;
    key[2] = 0;
    status = eitp__write_values(plan, update->hyper, hyper, sizeof hyper, error);
    if (!status)
        status = eitp__write_values(plan, update->key, key, sizeof key, error);
    if (!status)
        status = eitp__write_values(plan, update->limit, &limit, sizeof limit, error);
    if (!status)
        status = eitp__write_unique(trainer, plan, plans->update_unique, error);
    return status ? status : eitp__write_values(plan, plans->scale, &scale, sizeof scale, error);
}

static eitp_status eitp__read_update(eitp_trainer *trainer, eitp_step_report *report, eitp_error *error) {
    eitp_plan *plan = eitp__step_update_plan(&trainer->plans);
    const eitp_update *update = &trainer->plans.update;
    float commit[2] = {0, 0}, norm = 0;
    double norms[2] = {0, 0};
    eitp_status status = eitp_plan_read(plan, update->norms, norms, sizeof norms, error);
    if (!status)
        status = eitp_plan_read(plan, update->norm, &norm, sizeof norm, error);
    if (!status)
        status = eitp_plan_read(plan, update->commit, commit, sizeof commit, error);
    report->grad_norm = (double)norm;
    report->applied = commit[1] != 0;
    report->update_norm = norms[0];
    report->parameter_norm = norms[1];
    report->loss_scale = trainer->loss_scale;
    if (!status)
        eitp__adjust_loss_scale(trainer, report->applied);
    report->skipped = trainer->skipped;
    return status;
}

/* Remakes the plans if they were lost because there was no memory for others. */
static eitp_status eitp__restore_plans(eitp_trainer *trainer, eitp_error *error) {
    eitp_status status;
    if (eitp__step_plans_exist(&trainer->plans))
        return EITP_OK;
    status = eitp__step_plans_remake(&trainer->plans, &trainer->plans.config, trainer->plans.evaluation_samples, error);
    return status == EITP_ERROR_MEMORY
               ? eitp__fail_prefix(
                     error, status,
                     "there is not memory enough for the plans of training, which were given up to shrink "
                     "it; weights and optimizer state are whole, and can be saved")
               : status;
}

static void eitp__report_terms(const eitp_trainer *trainer, const eitp__step_state *state, eitp_step_report *report) {
    const eitp_pass *pass = &trainer->plans.pass;
    report->loss = 0;
    for (int q = 0; q < pass->quantity_count; q++) {
        const int64_t items = state->items[q] ? state->items[q] : 1;
        eitp_term_report *term = &report->terms[report->term_count++];
        snprintf(term->name, sizeof term->name, "%s", pass->quantities[q].name);
        term->mean = state->sums[q] / (double)items;
        term->weight = eitp__term_weight(&pass->quantities[q], report->step);
        report->loss += term->weight * term->mean;
    }
    report->items = state->items[0];
}

/* All of a step but its end: the counter, and the report. */
static eitp_status eitp__make_step(eitp_trainer *trainer, eitp_step_report *report, eitp_error *error) {
    eitp__step_state state = EITP__ZERO;
    eitp_status status = eitp__restore_plans(trainer, error);
    if (!status)
        status = eitp__read_step(trainer, &state, error);
    if (!status && !trainer->plans.update_plan)
        status = eitp__write_update(trainer, report, error);
    for (int64_t pass = 0; pass < trainer->plans.batch_count && !status; pass++) {
        if (trainer->plans.batches[pass].count)
            status = eitp__execute_pass(trainer, pass, &state, error);
    }
    if (!status && trainer->plans.update_plan)
        status = eitp__write_update(trainer, report, error);
    if (!status && trainer->plans.update_plan)
        status = eitp__execute(trainer, trainer->plans.update_plan, error);
    if (!status)
        status = eitp__read_update(trainer, report, error);
    if (!status)
        eitp__report_terms(trainer, &state, report);
    return status;
}

eitp_status eitp_trainer_step(eitp_trainer *trainer, eitp_step_report *report, eitp_error *error) {
    eitp_step_report made = EITP__ZERO;
    uint64_t first;
    eitp_status status;
    if (!trainer || !report)
        return eitp__fail_null(error, "eitp_trainer_step", "trainer and report");
    status = eitp__trainer_check_whole(trainer, error);
    if (status)
        return status;
    if (!eitp__pass_samples(trainer, 0, &first))
        return eitp__fail(error, EITP_END_OF_DATA, "training ends after step %lld: all %llu samples were used",
                          (long long)trainer->step, (unsigned long long)trainer->plans.config.last_sample);
    made.step = trainer->step + 1;
    status = eitp__make_step(trainer, &made, error);
    if (status)
        return eitp__fail_prefix(error, status,
                                 trainer->torn ? "step %lld failed half-way; resume from the last checkpoint"
                                               : "step %lld was not made, and nothing was changed",
                                 (long long)made.step);
    trainer->torn = 0;
    trainer->step++;
    *report = made;
    if (trainer->plans.config.after_step)
        trainer->plans.config.after_step(trainer->plans.config.user, report);
    return EITP_OK;
}

eitp_status eitp_trainer_evaluate(eitp_trainer *trainer, int64_t samples, eitp_evaluation *evaluation,
                                  eitp_error *error) {
    if (!trainer || !evaluation)
        return eitp__fail_null(error, "eitp_trainer_evaluate", "trainer and evaluation");
    eitp_status status = eitp__trainer_check_whole(trainer, error);
    if (!status && !trainer->plans.task.samples[EITP_VALIDATION])
        status = eitp__fail(error, EITP_ERROR_ARGUMENT, "the trainer was made without validation data");
    if (!status)
        status = eitp__restore_plans(trainer, error);
    if (status)
        return status;
    return eitp__evaluator_run(&trainer->plans.evaluator, EITP_VALIDATION, samples, trainer->plans.config.seed,
                               trainer->step, evaluation, error);
}
