/* Plans: creation by passes, the calls they become, and running them. */
#include "tensor/measure.h"

/* Index of an input among the plan's inputs, or -1 if the tensor is not an input. */
static int eitp__input_index(const eitp_plan *plan, const eitp_tensor *tensor) {
    for (size_t i = 0; i < plan->input_count && tensor->leaf == EITP__INPUT; i++) {
        if (plan->inputs[i].tensor == tensor)
            return (int)i;
    }
    return -1;
}

static int eitp__is_kept(const eitp_plan *plan, const eitp_tensor *tensor) {
    int index = eitp__input_index(plan, tensor);
    return index >= 0 && plan->inputs[index].is_kept;
}

/* Where a tensor is at a step; -1: between runs, when offloaded variables are nowhere. */
static eitp__place eitp__place_of(const eitp_plan *plan, eitp_tensor *tensor, int step) {
    eitp__place place = EITP__ZERO;
    eitp_tensor *owner;
    int64_t first;
    place.stretch = -1;
    place.input = -1;
    place.variable = -1;
    tensor = eitp__lowered(tensor);
    if (!tensor)
        return place;
    owner = eitp__owner(tensor, &first);
    place.offset = (size_t)first * eitp_dtype_size(tensor->dtype);
    if (eitp__is_offloaded_tensor(plan, tensor)) {
        const eitp__window *window = step < 0 ? NULL : eitp__window_at(plan, tensor, step);
        place.stretch = window ? window->stretch : -1;
        place.offset -= window ? window->offset : 0;
    } else if (owner->leaf == EITP__VARIABLE)
        place.variable = owner->variable;
    else if (eitp__is_kept(plan, owner))
        place.input = eitp__input_index(plan, owner);
    else if ((size_t)owner->id < plan->tensor_count)
        place.stretch = plan->stretch_of[owner->id];
    place.rows = tensor->rows;
    if (tensor->rows)
        place.row_elements = eitp__elements(tensor) / tensor->shape[0];
    return place;
}

static void eitp__set_operand(eitp__operand *operand, const eitp_tensor *tensor) {
    if (!tensor)
        return;
    operand->dtype = tensor->dtype;
    operand->rank = tensor->rank;
    operand->elements = eitp__elements(tensor);
    memcpy(operand->shape, tensor->shape, sizeof operand->shape);
}

/* The call and binding of one step, without addresses. */
static void eitp__make_call(const eitp_plan *plan, int s, eitp__call *call, eitp__binding *binding) {
    const eitp__step *step = &plan->steps[s];
    const eitp__node *node = step->node;
    call->slot = (eitp__slot)node->op;
    call->input_count = step->input_count;
    call->output_count = step->output_count;
    memcpy(call->integers, node->attributes.integers, sizeof call->integers);
    memcpy(call->reals, node->attributes.reals, sizeof call->reals);
    if (node->op == EITP__OP_MATMUL)
        call->integers[2] = step->epilogue;
    call->dtype = eitp__node_dtype(node);
    for (int i = 0; i < step->input_count; i++) {
        eitp__set_operand(&call->inputs[i], step->inputs[i]);
        binding->inputs[i] = eitp__place_of(plan, step->inputs[i], s);
    }
    for (int i = 0; i < step->output_count; i++) {
        /* The shape is the node's: an accumulation may be of another view of it. */
        eitp__set_operand(&call->outputs[i], i < node->output_count ? node->outputs[i] : step->outputs[i]);
        binding->outputs[i] = eitp__place_of(plan, step->outputs[i], s);
    }
    binding->carry = eitp__place_of(plan, step->carry, s);
    call->accumulates = step->accumulates;
}

static void eitp__release_calls(eitp_plan *plan) {
    const eitp_host *host = &plan->context->host;
    eitp__release(host, plan->calls, plan->call_count * sizeof *plan->calls);
    eitp__release(host, plan->bindings, plan->call_count * sizeof *plan->bindings);
    plan->calls = NULL;
    plan->bindings = NULL;
    plan->call_count = 0;
}

/* The last pass: steps become calls, without addresses. */
static eitp_status eitp__plan_bind(eitp_plan *plan, eitp_error *error) {
    const eitp__backend *backend = plan->context->backend;
    const eitp_host *host = &plan->context->host;
    eitp__release_calls(plan);
    plan->call_count = plan->step_count;
    plan->calls = (eitp__call *)eitp__allocate(host, plan->call_count * sizeof *plan->calls);
    plan->bindings = (eitp__binding *)eitp__allocate(host, plan->call_count * sizeof *plan->bindings);
    if (plan->step_count && (!plan->calls || !plan->bindings))
        return eitp__fail_memory(error, plan->step_count * (sizeof *plan->calls + sizeof *plan->bindings),
                                 "the calls of a plan");
    plan->stats.workspace_bytes = 0;
    plan->stats.flops = plan->stats.seconds = 0;
    for (size_t s = 0; s < plan->step_count; s++) {
        const eitp__op_info *info = eitp__op(plan->steps[s].node->graph, plan->steps[s].node->op);
        size_t workspace;
        eitp__make_call(plan, (int)s, &plan->calls[s], &plan->bindings[s]);
        workspace = backend->interface->workspace(backend, &plan->calls[s]);
        if (workspace > plan->stats.workspace_bytes)
            plan->stats.workspace_bytes = workspace;
        plan->stats.flops += info->flops ? info->flops(plan->steps[s].node) : 0;
        plan->stats.seconds += eitp__step_seconds(plan, &plan->steps[s]);
    }
    plan->stats.nodes = (int)plan->step_count;
    plan->stats.file_reads = plan->stats.file_writes = 0;
    for (size_t i = 0; i < plan->window_count; i++) {
        plan->stats.file_reads += (double)plan->windows[i].size;
        plan->stats.file_writes += plan->windows[i].changes ? (double)plan->windows[i].size : 0;
    }
    plan->stats.seconds +=
        plan->stats.file_reads / EITP__OFFLOAD_READ_RATE + plan->stats.file_writes / EITP__OFFLOAD_WRITE_RATE;
    return EITP_OK;
}

static size_t eitp__plan_bytes(const eitp_plan *plan) {
    return plan->stats.arena_bytes + plan->stats.workspace_bytes;
}

/* Lists the graph's inputs. */
static eitp_status eitp__list_inputs(eitp_plan *plan, eitp_error *error) {
    const eitp_graph *graph = plan->graph;
    for (size_t t = 0; t < graph->tensor_count; t++) {
        eitp__plan_input *input;
        if (graph->tensors[t]->leaf != EITP__INPUT)
            continue;
        if (!eitp__reserve(&plan->context->host, (void **)&plan->inputs, &plan->input_capacity, plan->input_count + 1,
                           sizeof *plan->inputs))
            return eitp__fail_memory(error, (plan->input_count + 1) * sizeof *plan->inputs, "the inputs of a plan");
        input = &plan->inputs[plan->input_count++];
        memset(input, 0, sizeof *input);
        input->tensor = graph->tensors[t];
        input->is_kept = graph->tensors[t]->is_kept;
        plan->stats.kept_bytes += input->is_kept ? eitp__tensor_bytes(input->tensor) : 0;
    }
    return EITP_OK;
}

static void eitp__mark_read(eitp_plan *plan, eitp_tensor *tensor) {
    int index = tensor ? eitp__input_index(plan, eitp__owner(tensor, NULL)) : -1;
    if (index >= 0)
        plan->inputs[index].is_read = 1;
}

/* Finds the inputs that steps read, or that can be read as outputs. */
static void eitp__find_read_inputs(eitp_plan *plan) {
    for (size_t s = 0; s < plan->step_count; s++) {
        for (int i = 0; i < eitp__step_read_count(&plan->steps[s]); i++)
            eitp__mark_read(plan, eitp__step_read(&plan->steps[s], i));
    }
    for (size_t t = 0; t < plan->tensor_count; t++)
        eitp__mark_read(plan, plan->readable[t] ? plan->graph->tensors[t] : NULL);
}

/* Memory for the inputs that are kept. */
static eitp_status eitp__allocate_inputs(eitp_plan *plan, eitp_error *error) {
    eitp__backend *backend = plan->context->backend;
    for (size_t i = 0; i < plan->input_count && !plan->context->plans_only; i++) {
        eitp__plan_input *input = &plan->inputs[i];
        size_t size = eitp__tensor_bytes(input->tensor);
        if (!input->is_kept)
            continue;
        input->memory = backend->interface->allocate(backend, size);
        if (!input->memory)
            return eitp__fail_memory(error, size, "an input that is kept");
    }
    return EITP_OK;
}

static void eitp__release_inputs(eitp_plan *plan) {
    eitp__backend *backend = plan->context->backend;
    for (size_t i = 0; i < plan->input_count; i++) {
        if (plan->inputs[i].memory)
            backend->interface->release(backend, plan->inputs[i].memory, eitp__tensor_bytes(plan->inputs[i].tensor));
    }
    eitp__release(&plan->context->host, plan->inputs, plan->input_capacity * sizeof *plan->inputs);
}

static eitp_status eitp__check_plan_config(const eitp_plan_config *config, eitp_error *error) {
    if (config && (unsigned)config->recompute > EITP_RECOMPUTE_LAYER)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "unknown eitp_plan_config.recompute %d", (int)config->recompute);
    return EITP_OK;
}

/* What only making a plan needs. */
static void eitp__release_operands(eitp_plan *plan) {
    const eitp_host *host = &plan->context->host;
    eitp__release(host, plan->owners, plan->owner_capacity * sizeof *plan->owners);
    eitp__release(host, plan->outputs, plan->output_capacity * sizeof *plan->outputs);
    eitp__release(host, plan->sizes, plan->size_capacity * sizeof *plan->sizes);
    eitp__release(host, plan->needed, plan->needed_capacity);
    plan->owners = plan->outputs = NULL;
    plan->sizes = NULL;
    plan->needed = NULL;
    plan->size_capacity = plan->needed_capacity = 0;
    plan->owner_count = plan->owner_capacity = 0;
    plan->output_count = plan->output_capacity = 0;
}

/* How far values are recomputed: the most bytes that may be in use at once, and how often that was lowered. */
typedef struct eitp__plan_target {
    size_t bytes;
    int lowered;
    int nodes; /* of the plan that recomputes nothing */
    double flops;
} eitp__plan_target;

/*
 * True if more should be recomputed than in the layout that was made last. Layouts have gaps, so a plan may need more
 * than what is in use at once: the target is lowered by what was too much, and a little more, as long as it is met.
 */
static int eitp__lower_target(const eitp_plan *plan, const eitp_plan_config *config, eitp__plan_target *target) {
    size_t largest = plan->stats.largest_bytes, needed = eitp__plan_bytes(plan), step = largest / 256 + 1;
    if (!target->lowered++) {
        target->nodes = plan->stats.nodes;
        target->flops = plan->stats.flops;
        target->bytes = largest;
        if (config && config->recompute > EITP_RECOMPUTE_NONE) {
            target->bytes = 0;
            return 1;
        }
    }
    if (!config || config->recompute != EITP_RECOMPUTE_AUTO || !config->memory || needed <= config->memory ||
        largest > target->bytes)
        return 0;
    step = needed - config->memory > step ? needed - config->memory : step;
    target->bytes = step < largest ? largest - step : 0;
    return 1;
}

/* The passes, in order. What must be recomputed depends on the layout: from there on they repeat until it fits. */
static eitp_status eitp__plan_passes(eitp_plan *plan, const eitp_plan_config *config, eitp_error *error) {
    eitp__plan_target target = EITP__ZERO;
    eitp_status status = eitp__plan_lower(plan, error);
    if (!status)
        status = eitp__plan_fuse(plan, error);
    if (!status)
        status = eitp__plan_order(plan, error);
    if (!status)
        status = eitp__list_operands(plan, error);
    do {
        if (!status && target.lowered)
            status = eitp__plan_recompute(plan, target.bytes, config->recompute, error);
        if (!status)
            status = eitp__plan_layout(plan, error);
        if (!status)
            status = eitp__plan_place(plan, error);
        if (!status)
            status = eitp__plan_bind(plan, error);
    } while (!status && eitp__lower_target(plan, config, &target));
    plan->stats.recomputed = plan->stats.nodes - target.nodes;
    plan->stats.recomputed_flops = plan->stats.flops - target.flops;
    return status ? status : eitp__plan_transfers(plan, error);
}

/* A plan without memory to run in. */
static eitp_status eitp__plan_make(eitp_graph *graph, const eitp_plan_config *config, eitp_plan **plan,
                                   eitp_error *error) {
    eitp_context *context = graph->context;
    eitp_plan *made;
    eitp_status status = eitp_graph_status(graph, error);
    *plan = NULL;
    if (status)
        return status;
    made = (eitp_plan *)eitp__allocate(&context->host, sizeof *made);
    if (!made)
        return eitp__fail_memory(error, sizeof *made, "a plan");
    made->context = context;
    made->graph = graph;
    made->count = graph->capacity;
    status = eitp__list_inputs(made, error);
    if (!status)
        status = eitp__plan_passes(made, config, error);
    eitp__release_operands(made);
    if (status) {
        eitp_plan_destroy(made);
        return status;
    }
    eitp__find_read_inputs(made);
    *plan = made;
    return EITP_OK;
}

/*
 * A plan without memory to run in, that may be larger than it should. What is chosen greedily can miss a limit and yet
 * come below it where it goes on, so then the least there is is tried too.
 */
static eitp_status eitp__plan_prepare(eitp_graph *graph, const eitp_plan_config *config, eitp_plan **plan,
                                      eitp_error *error) {
    eitp_status status = eitp__check_plan_config(config, error);
    eitp_plan_config lower;
    eitp_plan *least;
    *plan = NULL;
    if (!status)
        status = eitp__plan_make(graph, config, plan, error);
    if (status || !config || config->memory <= EITP_LEAST_MEMORY || config->recompute != EITP_RECOMPUTE_AUTO ||
        eitp__plan_bytes(*plan) <= config->memory)
        return status;
    lower = *config;
    lower.memory = EITP_LEAST_MEMORY;
    status = eitp__plan_make(graph, &lower, &least, error);
    if (status || eitp__plan_bytes(least) < eitp__plan_bytes(*plan)) {
        eitp_plan *larger = *plan;
        *plan = least;
        least = larger;
    }
    eitp_plan_destroy(least);
    return status;
}

eitp_status eitp_plan_create_within(eitp_graph *graph, const eitp_plan_config *config, eitp_plan **plan,
                                    eitp_error *error) {
    if (!graph || !plan)
        return eitp__fail_null(error, "eitp_plan_create_within", "graph and plan");
    eitp_status status = eitp__plan_prepare(graph, config, plan, error);
    if (!status && config && config->memory > EITP_LEAST_MEMORY && eitp__plan_bytes(*plan) > config->memory &&
        !graph->context->plans_only)
        status = eitp__fail(error, EITP_ERROR_MEMORY,
                            "the plan needs %zu bytes beside the variables, and %zu are allowed; take smaller or fewer "
                            "sequences at a time",
                            eitp__plan_bytes(*plan), config->memory);
    if (!status)
        status = eitp__variables_allocate(graph->context, error);
    if (!status)
        status = eitp__arena_reserve(graph->context, eitp__plan_bytes(*plan), error);
    if (!status)
        status = eitp__allocate_inputs(*plan, error);
    if (status) {
        eitp_plan_destroy(*plan);
        *plan = NULL;
        return status;
    }
    (*plan)->next = graph->context->plans;
    graph->context->plans = *plan;
    return EITP_OK;
}

EITP__PRIVATE size_t eitp__plans_need(const eitp_context *context, const eitp_graph *const without[3]) {
    size_t most = 0;
    for (const eitp_plan *plan = context->plans; plan; plan = plan->next) {
        if (plan->graph != without[0] && plan->graph != without[1] && plan->graph != without[2] &&
            eitp__plan_bytes(plan) > most)
            most = eitp__plan_bytes(plan);
    }
    return most;
}

eitp_status eitp_plan_create(eitp_graph *graph, eitp_plan **plan, eitp_error *error) {
    return eitp_plan_create_within(graph, NULL, plan, error);
}

eitp_status eitp_plan_estimate(eitp_graph *graph, const eitp_plan_config *config, eitp_plan_stats *stats,
                               eitp_error *error) {
    if (!graph || !stats)
        return eitp__fail_null(error, "eitp_plan_estimate", "graph and stats");
    eitp_plan *plan;
    eitp_status status = eitp__plan_prepare(graph, config, &plan, error);
    if (!status)
        *stats = plan->stats;
    eitp_plan_destroy(plan);
    return status;
}

/* Takes a plan out of its context's list, where it is in it. */
static void eitp__unlist_plan(const eitp_plan *plan) {
    eitp_plan **link = &plan->context->plans;
    while (*link && *link != plan)
        link = &(*link)->next;
    if (*link)
        *link = plan->next;
}

void eitp_plan_destroy(eitp_plan *plan) {
    eitp_host host;
    if (!plan)
        return;
    eitp__unlist_plan(plan);
    if (plan->context->arena_user == plan)
        plan->context->arena_user = NULL;
    eitp__release_inputs(plan);
    host = plan->context->host;
    eitp__release(&host, plan->steps, plan->step_capacity * sizeof *plan->steps);
    eitp__release(&host, plan->stretch_of, plan->stretch_of_capacity * sizeof *plan->stretch_of);
    eitp__release(&host, plan->readable, plan->readable_capacity);
    eitp__release(&host, plan->stretches, plan->stretch_capacity * sizeof *plan->stretches);
    eitp__release(&host, plan->windows, plan->window_capacity * sizeof *plan->windows);
    eitp__release(&host, plan->latest_window, plan->latest_window_capacity * sizeof *plan->latest_window);
    eitp__release(&host, plan->transfers, plan->transfer_capacity * sizeof *plan->transfers);
    eitp__release_calls(plan);
    eitp__release(&host, plan, sizeof *plan);
}

eitp_plan_stats eitp_plan_statistics(const eitp_plan *plan) {
    eitp_plan_stats none = EITP__ZERO;
    return plan ? plan->stats : none;
}

eitp_status eitp_plan_set_count(eitp_plan *plan, int64_t count, eitp_error *error) {
    if (!plan)
        return eitp__fail_null(error, "eitp_plan_set_count", "plan");
    if (plan->graph->capacity < 0 || count < 0 || count > plan->graph->capacity)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%lld rows do not fit the graph's capacity of %lld",
                          (long long)count, (long long)plan->graph->capacity);
    plan->count = count;
    return EITP_OK;
}

static void *eitp__address(const eitp_plan *plan, const eitp__place *place) {
    if (place->variable >= 0)
        return (char *)plan->context->variables[place->variable].data + place->offset;
    if (place->input >= 0)
        return (char *)plan->inputs[place->input].memory + place->offset;
    if (place->stretch >= 0)
        return (char *)plan->context->arena.memory + plan->stretches[place->stretch].offset + place->offset;
    return NULL;
}

static void eitp__bind_operand(const eitp_plan *plan, eitp__operand *operand, const eitp__place *place) {
    operand->data = eitp__address(plan, place);
    if (place->rows) {
        operand->shape[0] = plan->count;
        operand->elements = plan->count * place->row_elements;
    }
}

/* Fills in addresses and rows, where they changed since the last run. */
static void eitp__bind(eitp_plan *plan) {
    uint64_t generation = plan->context->arena_generation + 1;
    if (plan->bound_generation == generation && plan->bound_count == plan->count)
        return;
    for (size_t s = 0; s < plan->step_count; s++) {
        eitp__call *call = &plan->calls[s];
        const eitp__binding *binding = &plan->bindings[s];
        for (int i = 0; i < call->input_count; i++)
            eitp__bind_operand(plan, &call->inputs[i], &binding->inputs[i]);
        for (int i = 0; i < call->output_count; i++)
            eitp__bind_operand(plan, &call->outputs[i], &binding->outputs[i]);
        call->carry = (const float *)eitp__address(plan, &binding->carry);
    }
    plan->bound_generation = generation;
    plan->bound_count = plan->count;
}

/* Is there still an arena? Only a failed attempt to enlarge it can have taken it away. */
static eitp_status eitp__check_arena(const eitp_plan *plan, eitp_error *error) {
    size_t needed = plan->stats.arena_bytes + plan->stats.workspace_bytes;
    if (plan->context->plans_only)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the context was made for plans only: nothing can run in it");
    if (plan->context->arena.size >= needed)
        return EITP_OK;
    return eitp__fail_memory(error, needed, "the arena again, which was lost when it could not be enlarged");
}

/* The address of a tensor's bytes, whose number must be `size`; *address is NULL where the plan does not use it. */
static eitp_status eitp__plan_address(const eitp_plan *plan, eitp_tensor *tensor, size_t size, void **address,
                                      eitp_error *error) {
    eitp__place place;
    size_t expected;
    eitp_status status;
    if (!tensor || tensor->graph != plan->graph || (size_t)tensor->id >= plan->tensor_count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the tensor does not belong to the plan's graph, or was made after the plan");
    status = eitp__check_arena(plan, error);
    if (status)
        return status;
    place = eitp__place_of(plan, tensor, -1);
    expected = tensor->rows ? (size_t)(plan->count * place.row_elements) * eitp_dtype_size(tensor->dtype)
                            : eitp__tensor_bytes(tensor);
    if (size != expected)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%zu bytes do not match tensor '%s', which has %zu", size,
                          tensor->name, expected);
    *address = eitp__address(plan, &place);
    if (eitp__is_offloaded_tensor(plan, tensor))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "variable '%s' is offloaded: read it with eitp_variable_read, not from a plan",
                          eitp__variable_name(eitp__owner(tensor, NULL)));
    return EITP_OK;
}

/* From now on the arena holds what is written to this plan's inputs, and no longer its results. */
static void eitp__begin_use(eitp_plan *plan) {
    eitp_context *context = plan->context;
    if (context->arena_user != plan)
        context->arena_use++;
    context->arena_user = plan;
    plan->results = 0;
}

/* Now it holds what the plan computed, where that was all. */
static void eitp__end_use(eitp_plan *plan, int is_whole) {
    eitp_context *context = plan->context;
    context->arena_use++;
    context->arena_user = plan;
    plan->results = is_whole ? context->arena_use : 0;
}

/* Whether an input holds what was written to it. */
static int eitp__is_written(const eitp_plan *plan, const eitp__plan_input *input) {
    const eitp_context *context = plan->context;
    if (input->is_kept)
        return input->written != 0;
    return input->written && input->written == context->arena_use && context->arena_user == plan;
}

static eitp_status eitp__check_values(const eitp_tensor *input, const void *values, size_t size, eitp_error *error) {
    int64_t count = (int64_t)(size / eitp_dtype_size(input->dtype));
    eitp_status status = EITP_OK;
    for (const eitp__value_rule *rule = input->rules; rule && !status; rule = rule->next)
        status = rule->check(rule, input, values, count, error);
    return status;
}

eitp_status eitp_plan_write(eitp_plan *plan, eitp_tensor *input, const void *data, size_t size, eitp_error *error) {
    if (!plan)
        return eitp__fail_null(error, "eitp_plan_write", "plan");
    void *address = NULL;
    eitp__plan_input *target;
    eitp_status status = eitp__plan_address(plan, input, size, &address, error);
    if (status)
        return status;
    if (input->leaf != EITP__INPUT)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "only inputs can be written");
    if (size && !data)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the data for input '%s' is NULL", input->name);
    status = eitp__check_values(input, data, size, error);
    if (status)
        return status;
    target = &plan->inputs[eitp__input_index(plan, input)];
    target->written = 0;
    if (!target->is_kept)
        eitp__begin_use(plan);
    status = plan->context->backend->interface->upload(plan->context->backend, address, data, size, error);
    if (status)
        return status;
    target->written = target->is_kept ? 1 : plan->context->arena_use;
    target->count = plan->count;
    return EITP_OK;
}

/* Variables, and inputs that are kept, can be read at any time; what is in the arena, after an execution. */
static eitp_status eitp__check_readable(const eitp_plan *plan, eitp_tensor *output, eitp_error *error) {
    eitp__place place = eitp__place_of(plan, output, -1);
    if (place.stretch < 0 || (plan->results && plan->results == plan->context->arena_use))
        return EITP_OK;
    return eitp__fail(
        error, EITP_ERROR_ARGUMENT,
        "the output's value is not there: read outputs after eitp_plan_execute, before inputs are written and "
        "before another plan of the context is created, written or executed");
}

eitp_status eitp_plan_read(eitp_plan *plan, eitp_tensor *output, void *data, size_t size, eitp_error *error) {
    if (!plan)
        return eitp__fail_null(error, "eitp_plan_read", "plan");
    void *address = NULL;
    eitp_status status = eitp__plan_address(plan, output, size, &address, error);
    if (status)
        return status;
    if (size && !data)
        return eitp__fail_null(error, "eitp_plan_read", "data");
    if (!address || !plan->readable[output->id])
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "only outputs can be read; mark the tensor with eitp_output before the plan is created");
    status = eitp__check_readable(plan, output, error);
    if (status)
        return status;
    return plan->context->backend->interface->download(plan->context->backend, data, address, size, error);
}

/* Steps [first, end), of which there are some. */
static eitp_status eitp__run_steps(eitp_plan *plan, size_t first, size_t end, void *workspace, eitp_error *error) {
    eitp__backend *backend = plan->context->backend;
    return backend->interface->execute(backend, plan->calls + first, end - first, workspace, error);
}

/* Every input that is read was written, for as many rows as there are. */
static eitp_status eitp__check_written(const eitp_plan *plan, eitp_error *error) {
    for (size_t i = 0; i < plan->input_count; i++) {
        const eitp__plan_input *input = &plan->inputs[i];
        const char *name = input->tensor->name;
        if (!input->is_read)
            continue;
        if (!eitp__is_written(plan, input))
            return eitp__fail(error, EITP_ERROR_ARGUMENT,
                              "input '%s' was not written since the last execution, or another plan used the arena "
                              "since; write it before each eitp_plan_execute, or declare it with eitp_keep_input",
                              name);
        if (input->tensor->rows && input->count < plan->count)
            return eitp__fail(
                error, EITP_ERROR_ARGUMENT,
                "input '%s' was written with %lld rows, but eitp_plan_set_count says %lld; write it again", name,
                (long long)input->count, (long long)plan->count);
    }
    return EITP_OK;
}

eitp_status eitp_plan_execute(eitp_plan *plan, eitp_error *error) {
    if (!plan)
        return eitp__fail_null(error, "eitp_plan_execute", "plan");
    void *workspace = NULL;
    eitp_status status = eitp__check_arena(plan, error);
    if (!status)
        status = eitp__check_written(plan, error);
    if (status)
        return status;
    eitp__bind(plan);
    if (plan->stats.workspace_bytes)
        workspace = (char *)plan->context->arena.memory + plan->stats.arena_bytes;
    status = eitp__offload_steps(plan, workspace,
                                 plan->context->profiler.step ? eitp__run_profiled_steps : eitp__run_steps, error);
    eitp__end_use(plan, !status);
    return status;
}
