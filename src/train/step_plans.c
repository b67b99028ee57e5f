#include "train/step_plans.h"

#include "model/transformer.h"
#include "optim/minimize.h"
#include "tensor/variable.h"
#include "tensor/op_rules.h"
#include "tensor/plan.h"
#include "tensor/row_sums.h"
#include "train/memory_search.h"

/* ---- Sizes ---- */

EITP__PRIVATE int64_t eitp__step_passes(const eitp_trainer_config *config) {
    return (config->grad_accum + config->micro_batches_per_pass - 1) / config->micro_batches_per_pass;
}

EITP__PRIVATE double eitp__step_full_passes(const eitp_trainer_config *config) {
    return (double)config->grad_accum / (double)config->micro_batches_per_pass;
}

/* Micro-batches start at rows where sums over rows can be split, unless dense_rows is set. */
EITP__PRIVATE eitp__layout eitp__step_layout(const eitp__step_plans *plans) {
    const eitp_trainer_config *config = &plans->config;
    eitp__layout layout = eitp__layout_plain(config->batch_size * config->micro_batches_per_pass, plans->task.rows);
    layout.micro_batch = config->batch_size;
    layout.rows_vary = plans->task.rows_vary;
    layout.joined = config->objective.group == EITP_GROUP_MICRO_BATCH ? config->batch_size : 1;
    layout.group = config->dense_rows ? 1 : eitp__context_sum_group(plans->task.context);
    return layout;
}

/* Returns the number of samples of a probe for this size of micro-batches. */
static int64_t eitp__step_probe_samples(const eitp__step_plans *plans, int64_t batch_size) {
    const int64_t wanted = plans->objective.config.chaos_samples;
    return wanted < batch_size ? wanted : batch_size;
}

static eitp__layout eitp__step_probe_layout(const eitp__step_plans *plans) {
    eitp__layout layout = eitp__step_layout(plans);
    layout.samples = eitp__step_probe_samples(plans, plans->config.batch_size);
    layout.joined = 1;
    return layout;
}

/* True if a step is a single pass that contains the update. Otherwise gradients are stored, which probes and capped
   regularizers require. */
static int eitp__step_is_one_pass(const eitp__step_plans *plans) {
    return eitp__step_passes(&plans->config) == 1 && !plans->config.keep_gradients &&
           !eitp__probes_train(&plans->probes) && !(plans->objective.config.grad_cap > 0);
}

/* Returns the set in which the gradients of regularizers are accumulated. */
static eitp__gradient_set eitp__step_regularizer_set(const eitp__step_plans *plans) {
    return plans->objective.config.grad_cap > 0 ? EITP__REGULARIZER_GRADIENT : EITP__TASK_GRADIENT;
}

EITP__PRIVATE eitp_plan *eitp__step_update_plan(const eitp__step_plans *plans) {
    return plans->update_plan ? plans->update_plan : plans->gradient_plan;
}

/* ---- Graphs ---- */

#define EITP__OFFLOADED_PIECE_BYTES ((size_t)4 << 20)

/* The parts of a device's memory, and of a plan's memory limit, that a piece may take. */
enum { EITP__DEVICE_PIECE_SHARE = 64, EITP__PLAN_PIECE_SHARE = 16 };

/* Returns the size of pieces on a device with its own memory, where launches for a few large pieces are faster; 0 if
   the default should be used. */
static size_t eitp__device_piece_bytes(const eitp__step_plans *plans) {
    const size_t large = eitp__device_share(plans->task.context, EITP__DEVICE_PIECE_SHARE);
    const size_t limit = plans->config.plan.memory;
    if (limit == EITP_MINIMUM_MEMORY)
        return 0;
    return limit && limit / EITP__PLAN_PIECE_SHARE < large ? limit / EITP__PLAN_PIECE_SHARE : large;
}

/* Returns the factor of the learning rate for a parameter: layer_lr_decay for each layer above it. */
static double eitp__layer_rate_factor(void *user, const char *parameter) {
    const eitp__step_plans *plans = (const eitp__step_plans *)user;
    return pow(plans->config.layer_lr_decay, (double)eitp__layers_above(plans->task.model, parameter));
}

/* Returns the optimizer's configuration in a graph. In fp16 the gradients are of a scaled loss. */
static eitp_optimizer_config eitp__optimizer_config_in(eitp__step_plans *plans, eitp_graph *graph) {
    const eitp_context *context = plans->task.context;
    const size_t large = eitp__device_piece_bytes(plans);
    eitp_optimizer_config optimizer = plans->config.optimizer_config;
    int64_t one = 1;
    if (eitp_context_precision(context) == EITP_F16)
        plans->scale = eitp_input(graph, "loss scale", EITP_F32, 1, &one);
    /* The window of an offloaded variable is as large as a piece, and several windows exist at a time. */
    if (eitp_context_offload(context) && optimizer.piece_bytes > EITP__OFFLOADED_PIECE_BYTES)
        optimizer.piece_bytes = EITP__OFFLOADED_PIECE_BYTES;
    else if (optimizer.piece_bytes == EITP_PIECE_BYTES && large > EITP_PIECE_BYTES)
        optimizer.piece_bytes = large;
    optimizer.loss_scale = plans->scale;
    if (plans->config.layer_lr_decay < 1) {
        optimizer.rate_factor = eitp__layer_rate_factor;
        optimizer.rate_user = plans;
    }
    optimizer.skips = plans->config.skip_spikes;
    optimizer.observe = eitp__norm_outputs_add;
    optimizer.observe_user = &plans->norms;
    return optimizer;
}

/* Returns the optimizer's configuration of a learner, with the pieces and loss scale of the model's. */
static eitp_optimizer_config eitp__learner_optimizer_config(const eitp_learner_config *learner,
                                                            const eitp_optimizer_config *model) {
    eitp_optimizer_config optimizer = eitp_optimizer_config_default();
    optimizer.optimizer = learner->optimizer;
    optimizer.beta1 = learner->beta1;
    optimizer.beta2 = learner->beta2;
    optimizer.epsilon = learner->epsilon;
    optimizer.weight_decay = learner->weight_decay;
    optimizer.piece_bytes = model->piece_bytes;
    optimizer.loss_scale = model->loss_scale;
    return optimizer;
}

/* Returns the index of a parameter's update: 0 is the model's, 1 the first learner's. */
static int eitp__step_update_of(void *user, const char *parameter) {
    return 1 + eitp__pass_learner_of((const eitp_pass *)user, parameter);
}

/* Adds the updates of the model and of learners: after the backward pass of `loss`, or from accumulated gradients if it
   is NULL. */
static eitp_status eitp__build_updates(eitp__step_plans *plans, eitp_graph *graph, eitp_tensor *loss,
                                       const eitp_optimizer_config *optimizer, eitp_error *error) {
    eitp_optimizer_config configs[1 + EITP_MAX_LEARNERS];
    eitp_update updates[1 + EITP_MAX_LEARNERS];
    eitp__updates all = EITP__ZERO;
    eitp_status status;
    memset(updates, 0, sizeof updates);
    configs[0] = *optimizer;
    for (int i = 0; i < plans->pass.learner_count; i++)
        configs[1 + i] = eitp__learner_optimizer_config(&plans->pass.learners[i].config, optimizer);
    all.count = 1 + plans->pass.learner_count;
    all.configs = configs;
    all.updates = updates;
    all.choose = eitp__step_update_of;
    all.user = &plans->pass;
    status = loss ? eitp__minimize(loss, &all, error) : eitp__apply_gradients(graph, &all, error);
    plans->update = updates[0];
    memcpy(plans->learner_updates, updates + 1, sizeof plans->learner_updates);
    return status;
}

/* Returns the loss of a pass with its regularizers. */
static eitp_tensor *eitp__whole_loss(const eitp_pass *pass) {
    return pass->regularizers ? eitp_add(pass->loss, pass->regularizers) : pass->loss;
}

/* Returns the name of a program's own state that is updated by the graph of a pass, and so in each pass rather than
   once a step. */
static const char *eitp__find_pass_dependent_state(const eitp_graph *graph) {
    for (size_t n = 0; n < graph->node_count; n++) {
        const eitp_tensor *target = graph->nodes[n]->outputs[0]->storage;
        eitp_variable variable;
        if (graph->nodes[n]->op != EITP__OP_ACCUMULATE || target->leaf != EITP__VARIABLE)
            continue;
        variable = eitp_variable_at(graph->context, (size_t)target->variable);
        if (variable.role == EITP_OPTIMIZER && variable.parent < 0)
            return variable.name;
    }
    return NULL;
}

/* Finds a parameter whose gradient depends on micro_batches_per_pass, or a state that does. */
static eitp_status eitp__find_pass_dependent_parameter(eitp__step_plans *plans, const eitp_tensor *loss,
                                                       eitp_error *error) {
    const char *name = eitp__find_pass_dependent_state(loss->graph);
    eitp_status status = name ? EITP_OK : eitp__find_pass_dependent_gradient(loss, &name, error);
    snprintf(plans->pass_dependent_parameter, sizeof plans->pass_dependent_parameter, "%s", name ? name : "");
    return status;
}

/* ---- Penalties ---- */

/* Adds a penalty, or a metric of parameters, to the graph of the update. Returns NULL after an error. */
static eitp_tensor *eitp__build_parameter_value(eitp_graph *graph, eitp__scalar *scalar) {
    const int64_t one = 1;
    eitp_tensor *value = scalar->build(scalar->user, graph);
    if (!value || value->graph != graph || value->dtype != EITP_F32 || value->rank != 1 || value->shape[0] != 1) {
        eitp__graph_fail(graph, EITP_ERROR_ARGUMENT, "'%s': build must return F32 [1] in the graph passed to it",
                         scalar->name);
        return NULL;
    }
    scalar->values = value;
    scalar->weight = scalar->is_term ? eitp_input(graph, scalar->name, EITP_F32, 1, &one) : NULL;
    return scalar->weight ? eitp_multiply(value, scalar->weight) : NULL;
}

/* Adds the penalties and metrics of parameters. Returns the weighted sum of the penalties, or NULL if there are
   none. */
static eitp_tensor *eitp__build_penalties(eitp__step_plans *plans, eitp_graph *graph) {
    eitp_tensor *sum = NULL;
    for (int q = 0; q < plans->pass.scalar_count; q++) {
        if (plans->pass.scalars[q].kind == EITP__PENALTY)
            eitp__add_gradient(&sum, eitp__build_parameter_value(graph, &plans->pass.scalars[q]));
    }
    return sum;
}

/* Adds their values to the totals of the step. Returns the new totals. */
static eitp_tensor *eitp__add_penalty_totals(const eitp__step_plans *plans, eitp_tensor *totals) {
    for (int q = 0; q < plans->pass.scalar_count; q++) {
        if (plans->pass.scalars[q].kind == EITP__PENALTY)
            totals = eitp__add_total(plans->pass.scalars[q].values, totals, q, NULL, 0, NULL);
    }
    return totals;
}

/* Appends the reported values of an update to the parts of the result. Returns their number. */
static int eitp__add_update_parts(const eitp_update *update, eitp_tensor **parts) {
    parts[0] = eitp_cast(update->commit, EITP_F64);
    parts[1] = eitp_cast(update->norm, EITP_F64);
    parts[2] = update->norms;
    return 3;
}

/* Packs the reported values of a step into one output: eitp__step_result. */
static eitp_status eitp__build_result(eitp__step_plans *plans, eitp_tensor *totals, eitp_error *error) {
    const eitp_update *update = &plans->update;
    const int64_t three = 3;
    eitp_tensor *parts[5 + 3 * EITP_MAX_LEARNERS];
    int count;
    if (plans->norms.has_failed)
        return eitp__fail_memory(error, plans->norms.capacity * sizeof(eitp_tensor *), "the norms of an update");
    count = eitp__add_update_parts(update, parts);
    parts[count++] =
        update->regularizers ? update->regularizers : eitp_fill(eitp_tensor_graph(totals), EITP_F64, 1, &three, 0);
    parts[count++] = eitp__add_penalty_totals(plans, totals);
    for (int i = 0; i < plans->pass.learner_count; i++)
        count += eitp__add_update_parts(&plans->learner_updates[i], parts + count);
    plans->result = eitp_output(eitp_concat(parts, count, 0));
    return eitp_graph_status(update->norms->graph, error);
}

/* Adds the gradients of a pass to variables. Capped regularizers use separate variables. */
static eitp_status eitp__accumulate_pass(eitp__step_plans *plans, eitp_tensor *loss, eitp_error *error) {
    const eitp__gradient_set set = eitp__step_regularizer_set(plans);
    eitp_status status = eitp__accumulate_gradient_terms(set == EITP__TASK_GRADIENT ? loss : plans->pass.loss,
                                                         EITP__TASK_GRADIENT, plans->carry, error);
    if (!status && set != EITP__TASK_GRADIENT && plans->pass.regularizers)
        status = eitp__accumulate_gradient_terms(plans->pass.regularizers, set, plans->carry, error);
    return status;
}

/* Builds the graphs of probes, whose gradients are added to the variables created by the pass. */
static eitp_status eitp__build_probes(eitp__step_plans *plans, eitp_error *error) {
    const eitp__layout layout = eitp__step_probe_layout(plans);
    const int64_t samples = plans->config.batch_size * plans->config.grad_accum;
    eitp_status status = eitp__probes_build(&plans->probes, &plans->task, &layout, samples * layout.rows,
                                            eitp__step_regularizer_set(plans), plans->pass.scalar_count, error);
    if (!status && plans->objective.config.term_norms_every)
        status = eitp__term_norms_build(&plans->term_norms, &plans->pass, &plans->probes, error);
    return status;
}

/* Builds the graph of a pass, with the update, or with gradients added to variables. */
static eitp_status eitp__build_gradients(eitp__step_plans *plans, eitp_error *error) {
    const eitp__layout layout = eitp__step_layout(plans);
    const int64_t one = 1, samples = plans->config.batch_size * plans->config.grad_accum;
    eitp_optimizer_config optimizer;
    eitp_tensor *loss;
    eitp_status status = eitp__pass_build(&plans->pass, &plans->task, &layout, 1, 0, samples * layout.rows,
                                          plans->config.schedule.steps, error);
    if (!status)
        status = eitp__pass_check_learners(&plans->pass, error);
    if (status)
        return status;
    loss = eitp__whole_loss(&plans->pass);
    status = eitp__find_pass_dependent_parameter(plans, loss, error);
    if (status)
        return status;
    if (!eitp__step_is_one_pass(plans)) {
        plans->carry = eitp_input(plans->pass.graph, "carry", EITP_F32, 1, &one);
        eitp__pass_add_totals(&plans->pass, 0, plans->carry);
        status = eitp__accumulate_pass(plans, loss, error);
        return status ? status : eitp__build_probes(plans, error);
    }
    optimizer = eitp__optimizer_config_in(plans, plans->pass.graph);
    optimizer.penalty = eitp__build_penalties(plans, plans->pass.graph);
    status = eitp_graph_status(plans->pass.graph, error);
    if (!status)
        status = eitp__build_updates(plans, plans->pass.graph, loss, &optimizer, error);
    if (!status)
        status = eitp__build_result(plans, eitp__pass_add_totals(&plans->pass, 0, NULL), error);
    return status ? status : eitp__build_probes(plans, error);
}

static eitp_status eitp__build_update(eitp__step_plans *plans, eitp_error *error) {
    eitp_optimizer_config optimizer;
    eitp_status status = eitp_graph_create(plans->task.context, &plans->update_graph, error);
    if (status)
        return status;
    optimizer = eitp__optimizer_config_in(plans, plans->update_graph);
    optimizer.unique = plans->update_unique = eitp__pass_unique_input(&plans->pass, plans->update_graph);
    optimizer.penalty = eitp__build_penalties(plans, plans->update_graph);
    optimizer.regularizer_cap = plans->objective.config.grad_cap;
    status = eitp_graph_status(plans->update_graph, error);
    if (status)
        return status;
    status = eitp__build_updates(plans, plans->update_graph, NULL, &optimizer, error);
    return status ? status : eitp__build_result(plans, eitp__pass_totals(plans->update_graph), error);
}

static void eitp__discard_gradients(eitp__step_plans *plans) {
    eitp__term_norms_discard(&plans->term_norms);
    eitp__probes_discard(&plans->probes);
    eitp__pass_release(&plans->pass);
    eitp__norm_outputs_release(&plans->norms);
    plans->carry = plans->scale = plans->update_unique = plans->result = NULL;
    memset(&plans->update, 0, sizeof plans->update);
    memset(plans->learner_updates, 0, sizeof plans->learner_updates);
}

/* ---- Micro-batches per pass ---- */

/* Rows that amortize reading a weight. More rows per pass only cost memory. */
#define EITP__PASS_ROWS 1024

static size_t eitp__trained_bytes(const eitp_context *context) {
    size_t elements = 0;
    for (size_t i = 0; i < context->variable_count; i++) {
        const eitp_variable *variable = &context->variables[i].info;
        if (variable->role == EITP_PARAMETER && variable->trained)
            elements += variable->size / eitp_dtype_size(variable->dtype);
    }
    return elements * sizeof(float);
}

/* Measures the arena and workspace of a pass, excluding gradients. A single micro-batch is accepted at any size. */
static eitp_status eitp__measure_pass(void *user, eitp__run_candidate *candidate, eitp_error *error) {
    eitp__step_plans *plans = (eitp__step_plans *)user;
    eitp_plan_stats stats = EITP__ZERO;
    size_t gradients, bytes;
    eitp_status status;
    plans->config.micro_batches_per_pass = candidate->fit.micro_batches_per_pass;
    if (plans->config.micro_batches_per_pass == 1)
        return EITP_OK;
    status = eitp__build_gradients(plans, error);
    gradients = eitp__step_is_one_pass(plans) ? eitp__trained_bytes(plans->task.context) : 0;
    if (!status)
        status = eitp_plan_estimate(plans->pass.graph, NULL, &stats, error);
    eitp__discard_gradients(plans);
    bytes = stats.arena_bytes + stats.workspace_bytes;
    candidate->fit.total = bytes - (gradients < bytes ? gradients : bytes);
    return status;
}

EITP__PRIVATE int eitp__step_refuses_gaps(const eitp__step_plans *plans) {
    const eitp__layout layout = eitp__step_layout(plans);
    return !plans->task.allows_gaps && eitp__layout_gap(&layout);
}

/* Chooses as many micro-batches as pay off, or fewer if the arena is too large. */
static eitp_status eitp__choose_micro_batches_per_pass(eitp__step_plans *plans, eitp_error *error) {
    static const eitp__move moves[] = {eitp__fewer_per_pass};
    eitp_trainer_config *config = &plans->config;
    const int64_t rows = config->batch_size * plans->task.rows, most = (EITP__PASS_ROWS + rows - 1) / rows;
    eitp__search search = EITP__ZERO;
    eitp__run_candidate start = EITP__ZERO;
    if (config->micro_batches_per_pass > 1 && eitp__step_refuses_gaps(plans))
        return eitp__fail(
            error, EITP_ERROR_UNSUPPORTED,
            "micro-batches of %lld rows cannot share a pass without padding rows between them, which the task does "
            "not allow; set micro_batches_per_pass to 1, or dense_rows",
            (long long)rows);
    if (config->micro_batches_per_pass)
        return EITP_OK;
    config->micro_batches_per_pass = 1;
    if (eitp__step_refuses_gaps(plans))
        return EITP_OK;
    start.fit.micro_batches_per_pass = config->grad_accum < most ? config->grad_accum : most;
    search.measure = eitp__measure_pass;
    search.user = plans;
    search.budget = EITP_PASS_BYTES;
    return eitp__search_run(&search, moves, EITP__COUNT(moves), &start, error);
}

/* ---- Building and discarding ---- */

EITP__PRIVATE void eitp__step_plans_init(eitp__step_plans *plans, const eitp_task *task,
                                         const eitp_trainer_config *config, int64_t evaluation_samples) {
    memset(plans, 0, sizeof *plans);
    plans->host = eitp_context_host(task->context);
    plans->norms.host = &plans->host;
    plans->task = *task;
    plans->config = *config;
    eitp__objective_bind(&plans->objective, &config->objective, &plans->task);
    eitp__probes_init(&plans->probes, &plans->objective);
    plans->evaluation_samples = evaluation_samples;
}

static eitp_status eitp__create_plans(eitp__step_plans *plans, eitp_error *error) {
    eitp_status status = eitp__choose_micro_batches_per_pass(plans, error);
    if (!status)
        status = eitp__build_gradients(plans, error);
    if (!status)
        status = eitp_plan_create_with(plans->pass.graph, &plans->config.plan, &plans->gradient_plan, error);
    if (!status && !eitp__step_is_one_pass(plans))
        status = eitp__build_update(plans, error);
    if (!status && !eitp__step_is_one_pass(plans))
        status = eitp_plan_create(plans->update_graph, &plans->update_plan, error);
    if (!status)
        status = eitp__probes_create(&plans->probes, &plans->config.plan, error);
    return status ? status : eitp__term_norms_create(&plans->term_norms, &plans->config.plan, error);
}

static eitp_status eitp__create_buffers(eitp__step_plans *plans, eitp_error *error) {
    const int64_t passes = eitp__step_passes(&plans->config);
    eitp_status status = eitp__step_batches_create(&plans->host, &plans->pass, passes, &plans->batches, error);
    if (!status)
        status = eitp__read_ahead_create(&plans->host, &plans->pass, passes, &plans->config, &plans->ahead, error);
    if (!status && plans->pass.unique)
        status = eitp__unique_create(&plans->host, eitp__pass_unique_capacity(&plans->pass), plans->pass.vocabulary,
                                     &plans->unique, error);
    return status;
}

EITP__PRIVATE eitp_status eitp__step_plans_create(eitp__step_plans *plans, eitp_error *error) {
    eitp_status status = eitp__create_plans(plans, error);
    if (!status)
        status = eitp__create_buffers(plans, error);
    if (!plans->evaluation_samples)
        plans->evaluation_samples = plans->config.batch_size;
    if (!status && plans->task.samples[EITP_VALIDATION])
        status = eitp__evaluator_create(&plans->task, plans->evaluation_samples, plans->task.samples[EITP_VALIDATION],
                                        &plans->evaluator, error);
    return status;
}

EITP__PRIVATE int eitp__step_plans_exist(const eitp__step_plans *plans) {
    return plans->batches.passes != NULL;
}

EITP__PRIVATE void eitp__step_plans_discard(eitp__step_plans *plans) {
    if (plans->unique.ids)
        eitp__unique_release(&plans->unique);
    eitp__read_ahead_release(&plans->ahead);
    eitp__step_batches_release(&plans->batches);
    eitp__evaluator_release(&plans->evaluator);
    eitp_plan_destroy(plans->update_plan);
    eitp_graph_destroy(plans->update_graph);
    eitp_plan_destroy(plans->gradient_plan);
    plans->update_plan = plans->gradient_plan = NULL;
    plans->update_graph = NULL;
    eitp__discard_gradients(plans);
}

/* ---- Measuring ---- */

static void eitp__count_variables(const eitp_context *context, eitp_fit_candidate *needs) {
    size_t of_role[EITP_ROLE_COUNT] = EITP__ZERO, offloaded = 0;
    for (size_t i = 0; i < context->variable_count; i++) {
        const eitp_variable *variable = &context->variables[i].info;
        *(variable->offloaded ? &offloaded : &of_role[variable->role]) += variable->borrowed ? 0 : variable->size;
    }
    needs->parameters = of_role[EITP_PARAMETER] + of_role[EITP_REMAINDER];
    needs->gradients = of_role[EITP_GRADIENT];
    needs->states = of_role[EITP_OPTIMIZER];
    needs->offloaded = offloaded;
}

/* Returns the arithmetic and seconds of an average step, including the probes and term norms whose plans exist. */
static eitp_plan_stats eitp__step_work(const eitp__step_plans *plans, const eitp_plan_stats *pass,
                                       const eitp_plan_stats *update) {
    eitp_plan_stats work = EITP__ZERO;
    eitp__add_work(&work, pass, eitp__step_full_passes(&plans->config));
    eitp__add_work(&work, update, 1);
    eitp__probes_count(&plans->probes, &work);
    if (plans->term_norms.count)
        eitp__term_norms_count(&plans->term_norms, 1 / (double)plans->objective.config.term_norms_every, &work);
    return work;
}

EITP__PRIVATE void eitp__step_plans_count(const eitp__step_plans *plans, const eitp_plan_stats *pass,
                                          const eitp_plan_stats *update, eitp_fit_candidate *needs) {
    const double passes = (double)eitp__step_passes(&plans->config);
    const eitp_plan_stats work = eitp__step_work(plans, pass, update);
    eitp__count_variables(plans->task.context, needs);
    needs->workspace = pass->workspace_bytes;
    needs->flops = work.flops;
    needs->recomputed_flops = work.recomputed_flops;
    memcpy(needs->components, work.components, sizeof needs->components);
    needs->recomputed = pass->recomputed;
    needs->seconds = work.seconds;
    needs->file_reads = passes * pass->file_reads + update->file_reads;
    needs->file_writes = passes * pass->file_writes + update->file_writes;
}

/* Estimates a pass. If the plan exceeds its limit, the limit is raised to its size, which may change the plan again. */
static eitp_status eitp__estimate_pass(eitp__step_plans *plans, eitp_plan_stats *pass, eitp_error *error) {
    eitp_plan_config *limit = &plans->config.plan;
    for (int attempt = 1;; attempt++) {
        eitp_status status = eitp_plan_estimate(plans->pass.graph, limit, pass, error);
        const size_t bytes = pass->arena_bytes + pass->workspace_bytes;
        if (status || !limit->memory || bytes <= limit->memory || attempt == 3)
            return status;
        limit->memory = bytes;
    }
}

static size_t eitp__larger(size_t a, size_t b) {
    return a > b ? a : b;
}

EITP__PRIVATE eitp_status eitp__step_plans_estimate(eitp__step_plans *plans, size_t others, eitp_fit_candidate *needs,
                                                    eitp_error *error) {
    eitp_context *context = plans->task.context;
    const size_t variables = context->variable_count, segments = context->segments->count;
    const eitp_plan_config *limit = &plans->config.plan;
    eitp_plan_stats pass = EITP__ZERO, update = EITP__ZERO;
    size_t arena, bytes, probes = 0, norms = 0, evaluation = 0;
    double probe_seconds = 0, norm_seconds = 0;
    eitp_status status = eitp__build_gradients(plans, error);
    if (!status)
        status = eitp__estimate_pass(plans, &pass, error);
    if (!status && !eitp__step_is_one_pass(plans))
        status = eitp__build_update(plans, error);
    if (!status && plans->update_graph)
        status = eitp_plan_estimate(plans->update_graph, NULL, &update, error);
    if (!status)
        status = eitp__probes_estimate(&plans->probes, limit, &probes, &probe_seconds, error);
    if (!status)
        status = eitp__term_norms_estimate(&plans->term_norms, limit, &norms, &norm_seconds, error);
    eitp__step_plans_count(plans, &pass, &update, needs);
    needs->seconds += probe_seconds;
    if (plans->term_norms.count)
        needs->seconds += norm_seconds / (double)plans->objective.config.term_norms_every;
    eitp__step_plans_discard(plans);
    eitp__variables_roll_back(context, variables, segments);
    bytes = pass.arena_bytes + pass.workspace_bytes;
    arena = eitp__larger(bytes, update.arena_bytes + update.workspace_bytes);
    arena = eitp__larger(eitp__larger(arena, norms), eitp__larger(probes, others));
    while (!status && plans->task.samples[EITP_VALIDATION]) {
        status = eitp__evaluator_estimate(&plans->task, plans->evaluation_samples, &evaluation, error);
        if (!eitp__halve_to_fit(evaluation, arena, 1, &plans->evaluation_samples))
            break;
    }
    arena = eitp__larger(arena, evaluation);
    needs->arena = arena - needs->workspace;
    needs->total = limit->memory && bytes > limit->memory ? EITP__CANNOT_RUN : needs->gradients + arena;
    return status;
}

/* ---- Switching to another configuration ---- */

EITP__PRIVATE eitp_step_shape eitp__step_shape_of(const eitp_trainer_config *config) {
    eitp_step_shape shape;
    shape.batch_size = config->batch_size;
    shape.grad_accum = config->grad_accum;
    shape.micro_batches_per_pass = config->micro_batches_per_pass;
    return shape;
}

EITP__PRIVATE int eitp__step_shapes_equal(const eitp_step_shape *a, const eitp_step_shape *b) {
    return a->batch_size == b->batch_size && a->grad_accum == b->grad_accum &&
           a->micro_batches_per_pass == b->micro_batches_per_pass;
}

static int eitp__has_sample_inputs(const eitp_pass *pass) {
    for (int i = 0; i < pass->input_count; i++) {
        if (!pass->inputs[i].is_per_row)
            return 1;
    }
    return 0;
}

/* True if micro-batches end where sums over rows and samples can be split. */
static int eitp__ends_at_group(const eitp__step_plans *plans, const eitp_step_shape *shape) {
    const int64_t group = eitp__context_sum_group(plans->task.context);
    return shape->batch_size * plans->task.rows % group == 0 &&
           (shape->batch_size % group == 0 || !eitp__has_sample_inputs(&plans->pass));
}

EITP__PRIVATE int eitp__step_shapes_keep_bits(const eitp__step_plans *plans, const eitp_step_shape *a,
                                              const eitp_step_shape *b) {
    if (plans->pass_dependent_parameter[0])
        return 0;
    if (a->batch_size != b->batch_size && plans->config.objective.group == EITP_GROUP_MICRO_BATCH)
        return 0;
    if (eitp__probes_train(&plans->probes) &&
        eitp__step_probe_samples(plans, a->batch_size) != eitp__step_probe_samples(plans, b->batch_size))
        return 0;
    if (a->batch_size == b->batch_size)
        return !plans->config.dense_rows;
    return !plans->task.rows_vary && eitp__ends_at_group(plans, a) && eitp__ends_at_group(plans, b);
}

EITP__PRIVATE void eitp__set_step_shape(eitp_trainer_config *config, const eitp_step_shape *shape) {
    config->batch_size = shape->batch_size;
    config->grad_accum = shape->grad_accum;
    config->micro_batches_per_pass = shape->micro_batches_per_pass;
}

/* Builds everything for a configuration, or nothing. */
static eitp_status eitp__build_for(eitp__step_plans *plans, const eitp_trainer_config *config,
                                   int64_t evaluation_samples, eitp_error *error) {
    eitp_context *context = plans->task.context;
    const size_t variables = context->variable_count, segments = context->segments->count;
    eitp_status status;
    plans->config = *config;
    plans->evaluation_samples = evaluation_samples;
    status = eitp__arena_trim(context, eitp__plans_max_bytes(context, NULL, 0), error);
    if (!status)
        status = eitp__step_plans_create(plans, error);
    if (status) {
        eitp__step_plans_discard(plans);
        eitp__variables_roll_back(context, variables, segments);
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__step_plans_rebuild(eitp__step_plans *plans, const eitp_trainer_config *config,
                                                   int64_t evaluation_samples, eitp_error *error) {
    const eitp_trainer_config before = plans->config, after = *config;
    const int64_t samples = plans->evaluation_samples;
    const int had_plans = eitp__step_plans_exist(plans);
    eitp_status status;
    eitp__step_plans_discard(plans);
    status = eitp__build_for(plans, &after, evaluation_samples, error);
    if (!status)
        return EITP_OK;
    plans->config = before;
    plans->evaluation_samples = samples;
    if (had_plans)
        eitp__build_for(plans, &before, samples, NULL);
    return status;
}
