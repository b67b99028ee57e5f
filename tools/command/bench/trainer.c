#include "bench/trainer.h"

#include "bench/bench.h"
#include "output.h"
#include "process.h"

enum { MOST_TOKENS = 1 << 28 };

/* Opens the training; --model is a directory or a shape. */
static eitp_status open_plan(bench_trainer *t, option_set *o, size_t process, eitp_error *error) {
    eitp_recipe recipe;
    int64_t positions;
    eitp_status status = fit_to_recipe(o, &recipe, error);
    recipe.model.dropout = fmax(options_number(o, OPTION_DROPOUT), 0);
    recipe.data.validation_fraction = 0;
    recipe.memory.process = process;
    if (!status)
        status = eitp_training_open_plan(&recipe, &t->plan, error);
    if (status)
        return status;
    positions = eitp_transformer_config_positions(eitp_training_get_shape(t->plan));
    t->block_size = model_block_size(o, NULL, positions);
    eitp_training_get_recipe(t->plan)->task.block_size = t->block_size;
    return model_check_block_size(o, positions, error);
}

static eitp_status check_tokens(bench_trainer *t, eitp_error *error) {
    const eitp_trainer_config *config = &t->fit.trainer;
    if (options_integer(t->options, OPTION_STEPS) < 1)
        return command_fail(error, EITP_ERROR_ARGUMENT, "--steps must be at least 1 (got 0)");
    if ((double)config->batch_size * (double)config->grad_accum * (double)t->block_size > MOST_TOKENS)
        return command_fail(error, EITP_ERROR_ARGUMENT, "a step has more than %d tokens; lower --batch-size",
                            MOST_TOKENS);
    t->step_tokens = config->batch_size * config->grad_accum * t->block_size;
    return EITP_OK;
}

static eitp_status check_budget(const bench_trainer *t, size_t others, eitp_error *error) {
    const size_t total = t->rung.total + others, budget = t->fit.budget;
    if (!budget || total <= budget)
        return EITP_OK;
    return command_fail(error, EITP_ERROR_MEMORY, "planned memory %s%s exceeds the budget of %s",
                        output_bytes((double)total), others ? ", of all configurations together," : "",
                        output_bytes((double)budget));
}

eitp_status bench_trainer_plan(bench_trainer *t, option_set *o, size_t process, size_t others, eitp_error *error) {
    eitp_status status;
    memset(t, 0, sizeof *t);
    t->options = o;
    status = open_plan(t, o, process, error);
    if (!status)
        status = eitp_training_describe(t->plan, error);
    if (status)
        return status;
    t->fit = *eitp_training_get_fit(t->plan);
    status = check_tokens(t, error);
    if (status)
        return status;
    t->rung.optimizer = t->fit.trainer.optimizer_config.optimizer;
    t->rung.micro_batches_per_pass = t->fit.trainer.micro_batches_per_pass;
    t->rung.plan = t->fit.trainer.plan;
    status = eitp_fit_measure(&t->fit, &t->rung, error);
    return status ? status : check_budget(t, others, error);
}

eitp_status bench_trainer_fit(bench_trainer *t, eitp_error *error) {
    char text[200];
    eitp_status status;
    t->fit.any_offload = 0; /* steps are timed in memory */
    status = fit_choose(t->options, &t->fit, &t->block_size, &t->rung, error);
    if (status)
        return status;
    t->fit.trainer.plan = t->rung.plan;
    t->fit.trainer.micro_batches_per_pass = t->rung.micro_batches_per_pass;
    t->fit.trainer.optimizer_config.optimizer = t->rung.optimizer;
    t->is_fitted = 1;
    output_info("configuration: %s", fit_describe(&t->fit, &t->rung, text, sizeof text));
    return EITP_OK;
}

const char *bench_trainer_recompute(const bench_trainer *t) {
    static const char *const names[] = {"auto", "none", "attention", "layer"};
    return names[options_choice(t->options, OPTION_RECOMPUTE)];
}

static eitp_status create_context(bench_trainer *t, eitp_error *error) {
    eitp_context_config config = t->fit.context;
    config.precision = t->rung.precision;
    config.parameters = eitp_optimizer_get(t->rung.optimizer)->parameters;
    config.host.log.write = NULL; /* the first context of a bench has logged the device */
    return eitp_context_create(&config, &t->owned, error);
}

/* Uses random weights even if --model is a directory: the speed of a step does not depend on them. */
static eitp_status create_trainer(bench_trainer *t, eitp_error *error) {
    eitp_status status = t->fit.create_task(t->fit.user, t->context, &t->task, error);
    t->model = t->task.model;
    if (!status)
        status = eitp_model_initialize(t->model, 0, error);
    if (!status)
        status = eitp_model_initialize_lora(t->model, 0, error);
    return status ? status : eitp_trainer_create(&t->task, &t->fit.trainer, &t->trainer, error);
}

eitp_status bench_trainer_open(bench_trainer *t, eitp_context *context, eitp_error *error) {
    eitp_status status = context ? EITP_OK : create_context(t, error);
    t->context = context ? context : t->owned;
    return status ? status : create_trainer(t, error);
}

eitp_status bench_trainer_step(bench_trainer *t, double *seconds, eitp_error *error) {
    eitp_step_report report;
    double began = process_time();
    eitp_status status = eitp_trainer_step(t->trainer, &report, error);
    *seconds = process_time() - began;
    if (!status && !report.applied)
        status =
            command_fail(error, EITP_ERROR_NOT_FINITE, "step %lld had a non-finite gradient", (long long)report.step);
    return status;
}

void bench_trainer_close(bench_trainer *t) {
    eitp_trainer_destroy(t->trainer);
    eitp_task_release(&t->task);
    eitp_model_destroy(t->model);
    eitp_context_destroy(t->owned);
    eitp_training_close(t->plan);
    memset(t, 0, sizeof *t);
}
