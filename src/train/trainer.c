#include "train/trainer.h"

#include "base/log.h"
#include "model/transformer.h"
#include "tensor/plan.h"
#include "train/settings.h"

/* Where dynamic loss scaling starts: high, since it comes down in a few skipped steps. */
#define EITP__FIRST_LOSS_SCALE 65536.0

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

static eitp_status eitp__check_config(const eitp_trainer_config *config, const eitp_model *model, eitp_error *error) {
    int64_t positions = eitp_model_config(model).positions;
    eitp_status status = eitp__settings_check(config, error);
    if (status)
        return status;
    if (config->merged > config->grad_accum)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%lld merged micro-batches must be 0 to the %lld of a step",
                          (long long)config->merged, (long long)config->grad_accum);
    if (config->block_size < 1 || config->block_size > positions)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "block size %lld must be 1 to the model's %lld positions",
                          (long long)config->block_size, (long long)positions);
    return EITP_OK;
}

static int eitp__has_dropout(const eitp_model *model) {
    const eitp_transformer_config config = eitp_model_config(model);
    return config.embedding_dropout > 0 || config.attention_dropout > 0 || config.residual_dropout > 0 ||
           eitp_model_lora(model).dropout > 0;
}

/* Sequences that one run takes at most. */
static int64_t eitp__run_capacity(const eitp_trainer *trainer) {
    return trainer->config.batch_size * trainer->config.merged;
}

EITP__PRIVATE int64_t eitp__trainer_runs(const eitp_trainer *trainer) {
    return (trainer->config.grad_accum + trainer->config.merged - 1) / trainer->config.merged;
}

EITP__PRIVATE double eitp__trainer_full_runs(const eitp_trainer *trainer) {
    return (double)trainer->config.grad_accum / (double)trainer->config.merged;
}

/* Where the sequences of a run lie: micro-batches begin where sums over rows can be cut, unless rows are dense. */
static eitp__layout eitp__run_layout(const eitp_trainer *trainer) {
    const eitp_trainer_config *config = &trainer->config;
    const int64_t rows = config->batch_size * config->block_size;
    const int64_t group = eitp__context_sum_group(eitp_model_context(trainer->model));
    eitp__layout layout = eitp__layout_plain(eitp__run_capacity(trainer), config->block_size);
    layout.micro_batch = config->batch_size;
    layout.gap = config->dense_rows ? 0 : (group - rows % group) % group;
    return layout;
}

/* Distinct tokens that a step can have. */
static int64_t eitp__unique_capacity(const eitp_trainer *trainer) {
    const eitp_trainer_config *config = &trainer->config;
    int64_t tokens = config->batch_size * config->grad_accum * config->block_size;
    int64_t vocabulary = eitp_model_config(trainer->model).vocabulary;
    return tokens < vocabulary ? tokens : vocabulary;
}

static eitp_tensor *eitp__unique_input(const eitp_trainer *trainer, eitp_graph *graph) {
    int64_t capacity = eitp__unique_capacity(trainer);
    return eitp__trains_tied_embedding(trainer->model) ? eitp_input(graph, "unique tokens", EITP_I32, 1, &capacity)
                                                       : NULL;
}

/* The graph of one run, up to the losses, and the number whose gradients are taken. */
static eitp_status eitp__build_loss(eitp_trainer *trainer, eitp_tensor **loss, eitp_error *error) {
    const eitp__layout layout = eitp__run_layout(trainer);
    const int64_t rows = eitp__layout_rows(&layout, layout.sequences), one = 1;
    eitp_graph *graph;
    eitp_status status = eitp_graph_create(eitp_model_context(trainer->model), &trainer->gradient_graph, error);
    if (status)
        return status;
    graph = trainer->gradient_graph;
    trainer->inputs = eitp__layout_inputs(&layout, graph, eitp__has_dropout(trainer->model));
    trainer->inputs.unique = eitp__unique_input(trainer, graph);
    if (trainer->inputs.unique)
        trainer->inputs.inverse = eitp_input_rows(graph, "places of tokens", EITP_I32, 1, &rows);
    trainer->targets = eitp_input_rows(graph, "targets", EITP_I32, 1, &rows);
    trainer->weight = eitp_input(graph, "1 / targets", EITP_F32, 1, &one);
    trainer->losses =
        eitp_output(eitp_model_losses(trainer->model, graph, &trainer->inputs, eitp__layout_longest(&layout),
                                      trainer->targets, EITP__IGNORED_TARGET));
    *loss = eitp_multiply(eitp_sum(trainer->losses, EITP_ALL_DIMENSIONS, 0), trainer->weight);
    return eitp_graph_status(graph, error);
}

/* The graph of one run of several: losses, and gradients added to their variables. */
static eitp_status eitp__build_gradients(eitp_trainer *trainer, eitp_error *error) {
    int64_t one = 1;
    eitp_tensor *loss = NULL;
    eitp_status status = eitp__build_loss(trainer, &loss, error);
    if (status)
        return status;
    trainer->carry = eitp_input(trainer->gradient_graph, "carry", EITP_F32, 1, &one);
    return eitp_accumulate_gradients(loss, trainer->carry, error);
}

#define EITP__STREAMED_PIECE_BYTES ((size_t)4 << 20)

/* AdamW as configured, in a graph: with 16 bits of fp16 the gradients are of a scaled loss. */
static eitp_adamw_config eitp__adamw_in(eitp_trainer *trainer, eitp_graph *graph) {
    const eitp_context *context = eitp_model_context(trainer->model);
    eitp_adamw_config adamw = trainer->config.adamw;
    int64_t one = 1;
    if (eitp_context_precision(context) == EITP_F16)
        trainer->scale = eitp_input(graph, "loss scale", EITP_F32, 1, &one);
    /* Windows of streamed variables are as large as pieces, and several are there at a time. */
    if (eitp_context_stream(context) && adamw.piece_bytes > EITP__STREAMED_PIECE_BYTES)
        adamw.piece_bytes = EITP__STREAMED_PIECE_BYTES;
    adamw.loss_scale = trainer->scale;
    adamw.moments = eitp_optimizer_get(trainer->config.optimizer)->moments;
    return adamw;
}

/* The graph of a whole step: losses, gradients, updates. */
static eitp_status eitp__build_step(eitp_trainer *trainer, eitp_error *error) {
    eitp_tensor *loss = NULL;
    eitp_adamw_config adamw;
    eitp_status status = eitp__build_loss(trainer, &loss, error);
    if (status)
        return status;
    adamw = eitp__adamw_in(trainer, trainer->gradient_graph);
    return eitp_adamw_minimize(loss, &adamw, &trainer->update, error);
}

static eitp_status eitp__build_update(eitp_trainer *trainer, eitp_error *error) {
    eitp_adamw_config adamw;
    eitp_status status = eitp_graph_create(eitp_model_context(trainer->model), &trainer->update_graph, error);
    if (status)
        return status;
    adamw = eitp__adamw_in(trainer, trainer->update_graph);
    adamw.unique = trainer->update_unique = eitp__unique_input(trainer, trainer->update_graph);
    return eitp_adamw_apply(trainer->update_graph, &adamw, &trainer->update, error);
}

static void eitp__discard_gradients(eitp_trainer *trainer) {
    eitp_graph_destroy(trainer->gradient_graph);
    trainer->gradient_graph = NULL;
    trainer->carry = trainer->scale = trainer->update_unique = NULL;
    memset(&trainer->update, 0, sizeof trainer->update);
}

/* Is a step one run, with its update? */
static int eitp__is_one_run(const eitp_trainer *trainer) {
    return eitp__trainer_runs(trainer) == 1 && !trainer->config.keep_gradients;
}

static eitp_status eitp__build_run(eitp_trainer *trainer, eitp_error *error) {
    return eitp__is_one_run(trainer) ? eitp__build_step(trainer, error) : eitp__build_gradients(trainer, error);
}

/* What a run takes beside the gradients, wherever these are. */
static eitp_status eitp__run_bytes(eitp_trainer *trainer, size_t *bytes, eitp_error *error) {
    size_t gradients = eitp__is_one_run(trainer) ? 4 * (size_t)eitp_model_trained_count(trainer->model) : 0;
    eitp_plan_stats stats = EITP__ZERO;
    eitp_status status = eitp__build_run(trainer, error);
    if (!status)
        status = eitp_plan_estimate(trainer->gradient_graph, NULL, &stats, error);
    eitp__discard_gradients(trainer);
    *bytes = stats.arena_bytes + stats.workspace_bytes;
    *bytes -= gradients < *bytes ? gradients : *bytes;
    return status;
}

/* The evaluation, in as large parts as fit the arena that training needs. */
static eitp_status eitp__estimate_evaluation(eitp_trainer *trainer, eitp__trainer_needs *needs, eitp_error *error) {
    size_t bytes = 0;
    eitp_status status = EITP_OK;
    for (;;) {
        status = eitp__evaluator_estimate(trainer->model, trainer->evaluation_sequences, trainer->config.block_size,
                                          &bytes, error);
        if (status || bytes <= needs->arena || trainer->evaluation_sequences == 1)
            break;
        trainer->evaluation_sequences = (trainer->evaluation_sequences + 1) / 2;
    }
    if (bytes > needs->arena)
        needs->arena = bytes;
    return status;
}

EITP__PRIVATE eitp_status eitp__trainer_estimate(eitp_trainer *trainer, size_t others, eitp__trainer_needs *needs,
                                                 eitp_error *error) {
    eitp_context *context = eitp_model_context(trainer->model);
    const size_t variables = context->variable_count, segments = context->segment_count;
    eitp_plan_stats run = EITP__ZERO, update = EITP__ZERO;
    eitp_status status = eitp__build_run(trainer, error);
    memset(needs, 0, sizeof *needs);
    if (!status)
        status = eitp_plan_estimate(trainer->gradient_graph, &trainer->config.plan, &run, error);
    if (!status && !eitp__is_one_run(trainer))
        status = eitp__build_update(trainer, error);
    if (!status && trainer->update_graph)
        status = eitp_plan_estimate(trainer->update_graph, NULL, &update, error);
    for (size_t i = 0; i < context->variable_count; i++)
        needs->gradients += context->variables[i].info.role == EITP_GRADIENT ? context->variables[i].info.size : 0;
    needs->run = run.arena_bytes + run.workspace_bytes;
    needs->arena = update.arena_bytes + update.workspace_bytes;
    needs->arena = needs->run > needs->arena ? needs->run : needs->arena;
    needs->arena = others > needs->arena ? others : needs->arena;
    needs->seconds = eitp__trainer_full_runs(trainer) * run.seconds + update.seconds;
    eitp__trainer_discard(trainer);
    eitp__variables_rewind(context, variables, segments);
    if (!status && trainer->validates)
        status = eitp__estimate_evaluation(trainer, needs, error);
    return status;
}

/* A weight that is read for this many rows is used often enough: more of them only cost memory. */
#define EITP__MERGE_ROWS 1024

/* As many micro-batches as are worth it, and half as many as long as their arena is too large. */
static eitp_status eitp__choose_merged(eitp_trainer *trainer, eitp_error *error) {
    eitp_trainer_config *config = &trainer->config;
    int64_t rows = config->batch_size * config->block_size, most = (EITP__MERGE_ROWS + rows - 1) / rows;
    eitp_status status = EITP_OK;
    if (config->merged)
        return EITP_OK;
    config->merged = config->grad_accum < most ? config->grad_accum : most;
    while (config->merged > 1 && !status) {
        size_t bytes;
        status = eitp__run_bytes(trainer, &bytes, error);
        if (!status && bytes <= EITP_MERGE_BYTES)
            break;
        config->merged /= 2;
    }
    return status;
}

static eitp_status eitp__make_plans(eitp_trainer *trainer, eitp_error *error) {
    eitp_status status = eitp__choose_merged(trainer, error);
    if (!status)
        status = eitp__build_run(trainer, error);
    if (!status)
        status =
            eitp_plan_create_within(trainer->gradient_graph, &trainer->config.plan, &trainer->gradient_plan, error);
    if (!status && !eitp__is_one_run(trainer))
        status = eitp__build_update(trainer, error);
    if (!status && !eitp__is_one_run(trainer))
        status = eitp_plan_create(trainer->update_graph, &trainer->update_plan, error);
    return status;
}

static eitp_status eitp__make_batches(eitp_trainer *trainer, eitp_error *error) {
    const eitp__layout layout = eitp__run_layout(trainer);
    eitp_status status = EITP_OK;
    size_t bytes = (size_t)eitp__trainer_runs(trainer) * sizeof *trainer->batches;
    trainer->batches = (eitp__batch *)eitp__allocate(&trainer->host, bytes);
    if (!trainer->batches)
        return eitp__fail_memory(error, bytes, "the batches of a step");
    trainer->batch_count = eitp__trainer_runs(trainer);
    for (int64_t i = 0; i < trainer->batch_count && !status; i++)
        status = eitp__batch_create(&trainer->host, &layout, &trainer->batches[i], error);
    if (!status && trainer->inputs.unique)
        status = eitp__unique_create(&trainer->host, eitp__unique_capacity(trainer),
                                     eitp_model_config(trainer->model).vocabulary, &trainer->unique, error);
    return status;
}

EITP__PRIVATE eitp_status eitp__trainer_prepare(eitp_trainer *trainer, eitp_error *error) {
    const eitp_trainer_config *config = &trainer->config;
    eitp_status status = eitp__check_config(config, trainer->model, error);
    if (!status)
        status = eitp__check_optimizer(config, eitp_model_context(trainer->model), error);
    if (!status)
        status = eitp__make_plans(trainer, error);
    if (!status)
        status = eitp__make_batches(trainer, error);
    if (!trainer->evaluation_sequences)
        trainer->evaluation_sequences = config->batch_size;
    if (!status && trainer->validates)
        status = eitp__evaluator_create(trainer->model, trainer->evaluation_sequences, config->block_size,
                                        &trainer->evaluator, error);
    if (!status && trainer->validates)
        status = eitp__batch_create(&trainer->host, &trainer->evaluator.layout, &trainer->evaluation_batch, error);
    return status;
}

EITP__PRIVATE void eitp__trainer_discard(eitp_trainer *trainer) {
    for (int64_t i = 0; trainer->batches && i < trainer->batch_count; i++) {
        if (trainer->batches[i].tokens)
            eitp__batch_release(&trainer->batches[i]);
    }
    eitp__release(&trainer->host, trainer->batches, (size_t)trainer->batch_count * sizeof *trainer->batches);
    trainer->batches = NULL;
    trainer->batch_count = 0;
    if (trainer->unique.tokens)
        eitp__unique_release(&trainer->unique);
    if (trainer->evaluation_batch.tokens)
        eitp__batch_release(&trainer->evaluation_batch);
    eitp__evaluator_release(&trainer->evaluator);
    eitp_plan_destroy(trainer->update_plan);
    eitp_graph_destroy(trainer->update_graph);
    eitp_plan_destroy(trainer->gradient_plan);
    trainer->update_plan = trainer->gradient_plan = NULL;
    trainer->update_graph = NULL;
    eitp__discard_gradients(trainer);
}

EITP__PRIVATE eitp_step_shape eitp__step_shape_of(const eitp_trainer_config *config) {
    eitp_step_shape shape;
    shape.batch_size = config->batch_size;
    shape.grad_accum = config->grad_accum;
    shape.merged = config->merged;
    return shape;
}

EITP__PRIVATE int eitp__step_shapes_equal(const eitp_step_shape *a, const eitp_step_shape *b) {
    return a->batch_size == b->batch_size && a->grad_accum == b->grad_accum && a->merged == b->merged;
}

eitp_status eitp_trainer_create(eitp_model *model, const eitp_token_file *training_file, eitp_token_range training,
                                const eitp_token_file *validation_file, eitp_token_range validation,
                                const eitp_tokenizer *tokenizer, const eitp_trainer_config *config,
                                eitp_trainer **trainer, eitp_error *error) {
    if (!model || !training_file || !config || !trainer)
        return eitp__fail_null(error, "eitp_trainer_create", "model, training_file, config and trainer");
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
    made->loss_scale = eitp_context_precision(eitp_model_context(model)) == EITP_F16 ? EITP__FIRST_LOSS_SCALE : 1;
    status = eitp_windows_init(&made->windows, training_file, training, config->block_size, config->shuffle,
                               config->seed, error);
    if (!status && made->validates)
        status = eitp_windows_init(&made->validation, validation_file, validation, config->block_size,
                                   EITP_SHUFFLE_NONE, 0, error);
    if (!status)
        status = eitp__trainer_prepare(made, error);
    if (status) {
        eitp_trainer_destroy(made);
        return status;
    }
    made->asked_shape = eitp__step_shape_of(&made->config);
    *trainer = made;
    return EITP_OK;
}

void eitp_trainer_destroy(eitp_trainer *trainer) {
    eitp_host host;
    if (!trainer)
        return;
    host = trainer->host;
    eitp__trainer_discard(trainer);
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

uint64_t eitp_trainer_windows(const eitp_trainer *trainer) {
    return trainer ? trainer->windows.count : 0;
}

int64_t eitp_trainer_merged(const eitp_trainer *trainer) {
    return trainer ? trainer->config.merged : 0;
}

eitp_plan_stats eitp_trainer_statistics(const eitp_trainer *trainer) {
    eitp_plan_stats none = EITP__ZERO;
    return trainer && trainer->gradient_plan ? eitp_plan_statistics(trainer->gradient_plan) : none;
}

/* Sequences of run `run` of the next step: fewer where the step, or the last sample, ends in it. */
static int64_t eitp__run_sequences(const eitp_trainer *trainer, int64_t run, uint64_t *first) {
    const eitp_trainer_config *config = &trainer->config;
    uint64_t step_samples = (uint64_t)(config->batch_size * config->grad_accum);
    uint64_t end = ((uint64_t)trainer->step + 1) * step_samples, capacity = (uint64_t)eitp__run_capacity(trainer);
    *first = (uint64_t)trainer->step * step_samples + (uint64_t)run * capacity;
    if (config->last_sample && end > config->last_sample)
        end = config->last_sample;
    if (end <= *first)
        return 0;
    return (int64_t)(end - *first < capacity ? end - *first : capacity);
}

/* Reads all batches of the step before its first backward pass: the mean over targets needs their number. */
static eitp_status eitp__read_step(eitp_trainer *trainer, int64_t *valid, eitp_error *error) {
    int64_t vocabulary = eitp_model_config(trainer->model).vocabulary;
    uint64_t samples = (uint64_t)(trainer->config.batch_size * trainer->config.grad_accum);
    eitp_status status = EITP_OK;
    *valid = 0;
    if (trainer->unique.tokens)
        eitp__unique_clear(&trainer->unique);
    for (int64_t run = 0; run < eitp__trainer_runs(trainer) && !status; run++) {
        eitp__batch *batch = &trainer->batches[run];
        uint64_t first;
        int64_t count = eitp__run_sequences(trainer, run, &first);
        if (!count)
            break;
        status = eitp__batch_read(batch, &trainer->windows, first, count, vocabulary, error);
        for (int64_t i = 0; i < eitp__layout_rows(&batch->layout, count) && !status; i++)
            *valid += batch->targets[i] != EITP__IGNORED_TARGET;
        if (!status && trainer->unique.tokens)
            eitp__unique_add(&trainer->unique, batch, count);
    }
    /* The next step's are fetched during this one. */
    if (!status)
        eitp_windows_expect_read(&trainer->windows, (uint64_t)(trainer->step + 1) * samples, (int64_t)samples);
    return status;
}

/* One scalar or small input. */
static eitp_status eitp__write_values(eitp_plan *plan, eitp_tensor *input, const void *values, size_t size,
                                      eitp_error *error) {
    return input ? eitp_plan_write(plan, input, values, size, error) : EITP_OK;
}

static eitp_status eitp__write_unique(const eitp_trainer *trainer, eitp_plan *plan, eitp_tensor *input,
                                      eitp_error *error) {
    const eitp__unique *unique = &trainer->unique;
    return eitp__write_values(plan, input, unique->tokens, (size_t)unique->capacity * sizeof *unique->tokens, error);
}

/* Executes a plan of a step. What a checkpoint has is torn from its first change until the step is complete. */
static eitp_status eitp__execute(eitp_trainer *trainer, eitp_plan *plan, eitp_error *error) {
    eitp_status status = eitp_plan_run(plan, error);
    trainer->torn |= eitp__plan_changed_state(plan);
    return status;
}

/* Runs forward and backward of one run of the step; where there is only one, the update too. */
static eitp_status eitp__run_gradients(eitp_trainer *trainer, int64_t run, int64_t count, int64_t valid, double *sum,
                                       eitp_error *error) {
    const eitp_trainer_config *config = &trainer->config;
    eitp_plan *plan = trainer->gradient_plan;
    float weight = (float)(trainer->loss_scale / (double)(valid ? valid : 1)), carry = run > 0;
    int64_t key[3], counted = 0;
    eitp_status status;
    key[0] = (int64_t)config->seed;
    key[1] = trainer->step + 1;
    key[2] = run * config->merged * (config->batch_size * config->block_size + trainer->batches[run].layout.gap);
    status = eitp__batch_write(&trainer->batches[run], count, plan, &trainer->inputs, trainer->targets, error);
    if (!status)
        status = eitp__write_values(plan, trainer->inputs.key, key, sizeof key, error);
    if (!status)
        status = eitp__write_values(plan, trainer->weight, &weight, sizeof weight, error);
    if (!status)
        status = eitp__write_values(plan, trainer->carry, &carry, sizeof carry, error);
    if (!status)
        status = eitp__write_unique(trainer, plan, trainer->inputs.unique, error);
    if (!status)
        status = eitp__execute(trainer, plan, error);
    if (!status)
        status = eitp__batch_losses(&trainer->batches[run], count, plan, trainer->losses, sum, &counted, error);
    return status;
}

/* Halves the loss scale after a step that was too much for fp16, doubles it after many that were not. */
static void eitp__adjust_loss_scale(eitp_trainer *trainer, int applied) {
    const int64_t patience = 2000;
    const double largest = 16777216;
    if (!trainer->scale)
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

/* The plan that has the update. */
static eitp_plan *eitp__update_plan_of(const eitp_trainer *trainer) {
    return trainer->update_plan ? trainer->update_plan : trainer->gradient_plan;
}

static eitp_status eitp__write_update(eitp_trainer *trainer, eitp_step_report *report, eitp_error *error) {
    eitp_plan *plan = eitp__update_plan_of(trainer);
    const eitp_update *update = &trainer->update;
    float hyper[2], limit = (float)trainer->config.max_grad_norm, scale = (float)trainer->loss_scale;
    int64_t key[3];
    eitp_status status;
    report->learning_rate = eitp_schedule_rate(&trainer->config.schedule, report->step);
    hyper[0] = (float)report->learning_rate;
    hyper[1] = (float)report->step;
    key[0] = (int64_t)trainer->config.seed;
    key[1] = report->step;
    key[2] = 0;
    status = eitp__write_values(plan, update->hyper, hyper, sizeof hyper, error);
    if (!status)
        status = eitp__write_values(plan, update->key, key, sizeof key, error);
    if (!status)
        status = eitp__write_values(plan, update->limit, &limit, sizeof limit, error);
    if (!status)
        status = eitp__write_unique(trainer, plan, trainer->update_unique, error);
    return status ? status : eitp__write_values(plan, trainer->scale, &scale, sizeof scale, error);
}

static eitp_status eitp__read_update(eitp_trainer *trainer, eitp_step_report *report, eitp_error *error) {
    eitp_plan *plan = eitp__update_plan_of(trainer);
    const eitp_update *update = &trainer->update;
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

/* Makes the plans again that were lost when there was no memory for others. */
static eitp_status eitp__restore_plans(eitp_trainer *trainer, eitp_error *error) {
    eitp_status status;
    if (trainer->batches)
        return EITP_OK;
    status = eitp__trainer_remake(trainer, &trainer->config, trainer->evaluation_sequences, error);
    return status == EITP_ERROR_MEMORY
               ? eitp__fail_prefix(
                     error, status,
                     "there is not memory enough for the plans of training, which were given up to shrink "
                     "it; weights and optimizer state are whole, and can be saved")
               : status;
}

/* All of a step but its end: the counter, and the report. */
static eitp_status eitp__make_step(eitp_trainer *trainer, eitp_step_report *report, eitp_error *error) {
    double sum = 0;
    uint64_t first;
    eitp_status status = eitp__restore_plans(trainer, error);
    if (!status)
        status = eitp__read_step(trainer, &report->tokens, error);
    if (!status && !trainer->update_plan)
        status = eitp__write_update(trainer, report, error);
    for (int64_t run = 0; run < eitp__trainer_runs(trainer) && !status; run++) {
        int64_t count = eitp__run_sequences(trainer, run, &first);
        if (count)
            status = eitp__run_gradients(trainer, run, count, report->tokens, &sum, error);
    }
    if (!status && trainer->update_plan)
        status = eitp__write_update(trainer, report, error);
    if (!status && trainer->update_plan)
        status = eitp__execute(trainer, trainer->update_plan, error);
    if (!status)
        status = eitp__read_update(trainer, report, error);
    report->loss = sum / (double)(report->tokens ? report->tokens : 1);
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
    if (!eitp__run_sequences(trainer, 0, &first))
        return eitp__fail(error, EITP_END_OF_DATA, "training ends after step %lld: all %llu samples were used",
                          (long long)trainer->step, (unsigned long long)trainer->config.last_sample);
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
    return EITP_OK;
}

eitp_status eitp_trainer_evaluate(eitp_trainer *trainer, int64_t windows, eitp_evaluation *evaluation,
                                  eitp_error *error) {
    if (!trainer || !evaluation)
        return eitp__fail_null(error, "eitp_trainer_evaluate", "trainer and evaluation");
    uint64_t count = trainer->validation.count;
    eitp_status status = eitp__trainer_check_whole(trainer, error);
    if (!status && !trainer->validates)
        status = eitp__fail(error, EITP_ERROR_ARGUMENT, "the trainer was made without validation data");
    if (!status)
        status = eitp__restore_plans(trainer, error);
    if (status)
        return status;
    if (windows > 0 && (uint64_t)windows < count)
        count = (uint64_t)windows;
    return eitp__evaluator_run(&trainer->evaluator, &trainer->evaluation_batch, &trainer->validation, count, evaluation,
                               error);
}
