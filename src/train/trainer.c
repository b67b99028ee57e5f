#include "train/trainer.h"

eitp_trainer_config eitp_trainer_config_default(void) {
    eitp_trainer_config config;
    memset(&config, 0, sizeof config);
    config.batch_size = 1;
    config.block_size = 64;
    config.grad_accum = 4;
    config.max_grad_norm = 0.5;
    config.adamw = eitp_adamw_config_default();
    config.schedule.kind = EITP_SCHEDULE_CONSTANT;
    config.schedule.peak = 5e-5;
    config.shuffle = EITP_SHUFFLE_WINDOWS;
    return config;
}

static eitp_status eitp__check_config(const eitp_trainer_config *config, const eitp_model *model, eitp_error *error) {
    int64_t positions = eitp_model_config(model).positions;
    if (config->batch_size < 1 || config->grad_accum < 1 || config->batch_size > 1 << 20 ||
        config->grad_accum > 1 << 20)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "batch size %lld and accumulation %lld must be 1 to 1048576",
                          (long long)config->batch_size, (long long)config->grad_accum);
    if (config->block_size < 1 || config->block_size > positions)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "block size %lld must be 1 to the model's %lld positions",
                          (long long)config->block_size, (long long)positions);
    if (!(config->max_grad_norm >= 0))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the largest gradient norm is %g; it must be 0 or more",
                          config->max_grad_norm);
    if (!(config->schedule.peak >= 0 && config->schedule.peak <= 1e3))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the learning rate is %g; it must be 0 or more",
                          config->schedule.peak);
    return EITP_OK;
}

static int eitp__has_dropout(const eitp_model *model) {
    const eitp_gpt2_config config = eitp_model_config(model);
    return config.embedding_dropout > 0 || config.attention_dropout > 0 || config.residual_dropout > 0;
}

static eitp_status eitp__plan_micro_batch(eitp_trainer *trainer, eitp_error *error) {
    const eitp_trainer_config *config = &trainer->config;
    int64_t rows = config->batch_size * config->block_size, one = 1;
    eitp_graph *graph;
    eitp_tensor *logits, *loss;
    eitp_status status = eitp_graph_create(eitp_model_context(trainer->model), &trainer->micro_graph, error);
    if (status)
        return status;
    graph = trainer->micro_graph;
    trainer->inputs =
        eitp_model_inputs_create(graph, config->batch_size, config->block_size, eitp__has_dropout(trainer->model));
    trainer->targets = eitp_input_rows(graph, "targets", EITP_I32, 1, &rows);
    trainer->weight = eitp_input(graph, "1 / targets", EITP_F32, 1, &one);
    trainer->carry = eitp_input(graph, "carry", EITP_F32, 1, &one);
    logits = eitp_model_forward(trainer->model, graph, &trainer->inputs, config->block_size);
    trainer->losses = eitp_output(eitp_cross_entropy(logits, trainer->targets, EITP__IGNORED_TARGET));
    loss = eitp_multiply(eitp_sum(trainer->losses, EITP_ALL_DIMENSIONS, 0), trainer->weight);
    status = eitp_graph_status(graph, error);
    if (!status)
        status = eitp_accumulate_gradients(loss, trainer->carry, error);
    return status ? status : eitp_plan_create(graph, &trainer->micro_plan, error);
}

static eitp_status eitp__plan_update(eitp_trainer *trainer, eitp_error *error) {
    eitp_status status = eitp_graph_create(eitp_model_context(trainer->model), &trainer->update_graph, error);
    if (!status)
        status = eitp_adamw_apply(trainer->update_graph, &trainer->config.adamw, &trainer->update, error);
    return status ? status : eitp_plan_create(trainer->update_graph, &trainer->update_plan, error);
}

static eitp_status eitp__make_batches(eitp_trainer *trainer, eitp_error *error) {
    const eitp_trainer_config *config = &trainer->config;
    eitp_status status = EITP_OK;
    size_t bytes = (size_t)config->grad_accum * sizeof *trainer->batches;
    trainer->batches = (eitp__batch *)eitp__allocate(&trainer->host, bytes);
    if (!trainer->batches)
        return eitp__fail_memory(error, bytes, "the batches of a step");
    for (int64_t i = 0; i < config->grad_accum && !status; i++)
        status =
            eitp__batch_create(&trainer->host, config->batch_size, config->block_size, &trainer->batches[i], error);
    return status;
}

eitp_status eitp_trainer_create(eitp_model *model, const eitp_token_file *training_file, eitp_token_range training,
                                const eitp_token_file *validation_file, eitp_token_range validation,
                                const eitp_tokenizer *tokenizer, const eitp_trainer_config *config,
                                eitp_trainer **trainer, eitp_error *error) {
    const eitp_host host = eitp_context_host(eitp_model_context(model));
    eitp_trainer *made;
    eitp_status status = eitp__check_config(config, model, error);
    *trainer = NULL;
    if (status)
        return status;
    made = (eitp_trainer *)eitp__allocate(&host, sizeof *made);
    if (!made)
        return eitp__fail_memory(error, sizeof *made, "a trainer");
    made->host = host;
    made->model = model;
    made->tokenizer = tokenizer;
    made->training_file = training_file;
    made->config = *config;
    made->validates = validation.count > 0;
    status = eitp_windows_init(&made->windows, training_file, training, config->block_size, config->shuffle,
                               config->seed, error);
    if (!status && made->validates)
        status = eitp_windows_init(&made->validation, validation_file, validation, config->block_size,
                                   EITP_SHUFFLE_NONE, 0, error);
    if (!status)
        status = eitp__make_batches(made, error);
    if (!status)
        status = eitp__plan_micro_batch(made, error);
    if (!status)
        status = eitp__plan_update(made, error);
    if (!status && made->validates)
        status = eitp__evaluator_create(model, config->batch_size, config->block_size, &made->evaluator, error);
    if (!status && made->validates)
        status = eitp__batch_create(&host, config->batch_size, config->block_size, &made->evaluation_batch, error);
    if (status) {
        eitp_trainer_destroy(made);
        return status;
    }
    *trainer = made;
    return EITP_OK;
}

void eitp_trainer_destroy(eitp_trainer *trainer) {
    eitp_host host;
    if (!trainer)
        return;
    host = trainer->host;
    for (int64_t i = 0; trainer->batches && i < trainer->config.grad_accum; i++) {
        if (trainer->batches[i].tokens)
            eitp__batch_release(&trainer->batches[i]);
    }
    if (trainer->evaluation_batch.tokens)
        eitp__batch_release(&trainer->evaluation_batch);
    eitp__release(&host, trainer->batches, (size_t)trainer->config.grad_accum * sizeof *trainer->batches);
    eitp__evaluator_release(&trainer->evaluator);
    eitp_plan_destroy(trainer->update_plan);
    eitp_graph_destroy(trainer->update_graph);
    eitp_plan_destroy(trainer->micro_plan);
    eitp_graph_destroy(trainer->micro_graph);
    eitp__release(&host, trainer, sizeof *trainer);
}

int64_t eitp_trainer_steps_done(const eitp_trainer *trainer) {
    return trainer->step;
}

uint64_t eitp_trainer_windows(const eitp_trainer *trainer) {
    return trainer->windows.count;
}

eitp_plan_stats eitp_trainer_statistics(const eitp_trainer *trainer) {
    return eitp_plan_statistics(trainer->micro_plan);
}

/* Sequences of micro-batch `micro` of the next step: fewer where the last sample is in it. */
static int64_t eitp__micro_sequences(const eitp_trainer *trainer, int64_t micro, uint64_t *first) {
    const eitp_trainer_config *config = &trainer->config;
    uint64_t left;
    *first = ((uint64_t)trainer->step * (uint64_t)config->grad_accum + (uint64_t)micro) * (uint64_t)config->batch_size;
    if (!config->last_sample)
        return config->batch_size;
    left = config->last_sample > *first ? config->last_sample - *first : 0;
    return left < (uint64_t)config->batch_size ? (int64_t)left : config->batch_size;
}

/* Reads all batches of the step before its first backward pass: the mean over targets needs their number. */
static eitp_status eitp__read_step(eitp_trainer *trainer, int64_t *valid, eitp_error *error) {
    int64_t vocabulary = eitp_model_config(trainer->model).vocabulary;
    eitp_status status = EITP_OK;
    *valid = 0;
    for (int64_t m = 0; m < trainer->config.grad_accum && !status; m++) {
        eitp__batch *batch = &trainer->batches[m];
        uint64_t first;
        int64_t count = eitp__micro_sequences(trainer, m, &first);
        if (!count)
            break;
        status = eitp__batch_read(batch, &trainer->windows, first, count, vocabulary, error);
        for (int64_t i = 0; i < count * batch->longest && !status; i++)
            *valid += batch->targets[i] != EITP__IGNORED_TARGET;
    }
    return status;
}

/* One scalar or small input. */
static eitp_status eitp__write_values(eitp_plan *plan, eitp_tensor *input, const void *values, size_t size,
                                      eitp_error *error) {
    return input ? eitp_plan_write(plan, input, values, size, error) : EITP_OK;
}

static eitp_status eitp__run_micro_batch(eitp_trainer *trainer, int64_t micro, int64_t count, int64_t valid,
                                         double *sum, eitp_error *error) {
    const eitp_trainer_config *config = &trainer->config;
    eitp_plan *plan = trainer->micro_plan;
    float weight = (float)(1.0 / (double)(valid ? valid : 1)), carry = micro > 0;
    int64_t key[3], counted = 0;
    eitp_status status;
    key[0] = (int64_t)config->seed;
    key[1] = trainer->step + 1;
    key[2] = micro * config->batch_size * config->block_size;
    status = eitp__batch_write(&trainer->batches[micro], count, plan, &trainer->inputs, trainer->targets, error);
    if (!status)
        status = eitp__write_values(plan, trainer->inputs.key, key, sizeof key, error);
    if (!status)
        status = eitp__write_values(plan, trainer->weight, &weight, sizeof weight, error);
    if (!status)
        status = eitp__write_values(plan, trainer->carry, &carry, sizeof carry, error);
    if (!status)
        status = eitp_plan_run(plan, error);
    if (!status)
        status = eitp__batch_losses(&trainer->batches[micro], count, plan, trainer->losses, sum, &counted, error);
    return status;
}

static eitp_status eitp__run_update(eitp_trainer *trainer, eitp_step_report *report, eitp_error *error) {
    eitp_plan *plan = trainer->update_plan;
    const eitp_update *update = &trainer->update;
    float hyper[2], commit[2] = {0, 0}, norm = 0, limit = (float)trainer->config.max_grad_norm;
    eitp_status status;
    report->learning_rate = eitp_schedule_rate(&trainer->config.schedule, report->step);
    hyper[0] = (float)report->learning_rate;
    hyper[1] = (float)report->step;
    status = eitp__write_values(plan, update->hyper, hyper, sizeof hyper, error);
    if (!status)
        status = eitp__write_values(plan, update->limit, &limit, sizeof limit, error);
    if (!status)
        status = eitp_plan_run(plan, error);
    if (!status)
        status = eitp_plan_read(plan, update->norm, &norm, sizeof norm, error);
    if (!status)
        status = eitp_plan_read(plan, update->commit, commit, sizeof commit, error);
    report->grad_norm = (double)norm;
    report->applied = commit[1] != 0;
    return status;
}

eitp_status eitp_trainer_step(eitp_trainer *trainer, eitp_step_report *report, eitp_error *error) {
    double sum = 0;
    uint64_t first;
    eitp_status status;
    memset(report, 0, sizeof *report);
    report->step = trainer->step + 1;
    status = eitp__read_step(trainer, &report->tokens, error);
    for (int64_t m = 0; m < trainer->config.grad_accum && !status; m++) {
        int64_t count = eitp__micro_sequences(trainer, m, &first);
        if (count)
            status = eitp__run_micro_batch(trainer, m, count, report->tokens, &sum, error);
    }
    if (!status)
        status = eitp__run_update(trainer, report, error);
    if (status)
        return status;
    report->loss = sum / (double)(report->tokens ? report->tokens : 1);
    trainer->step++;
    return EITP_OK;
}

eitp_status eitp_trainer_evaluate(eitp_trainer *trainer, int64_t windows, eitp_evaluation *evaluation,
                                  eitp_error *error) {
    uint64_t count = trainer->validation.count;
    if (!trainer->validates)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the trainer was made without validation data");
    if (windows > 0 && (uint64_t)windows < count)
        count = (uint64_t)windows;
    return eitp__evaluator_run(&trainer->evaluator, &trainer->evaluation_batch, &trainer->validation, count, evaluation,
                               error);
}
