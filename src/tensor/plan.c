/* Creation of plans: the passes, and the memory that a plan needs. */
#include "tensor/plan.h"
#include "tensor/variable.h"

EITP__PRIVATE size_t eitp__plan_bytes(const eitp_plan *plan) {
    return plan->stats.arena_bytes + plan->stats.workspace_bytes;
}

/* Lists the graph's inputs, and adds up the sizes of the kept ones. */
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

/* Marks an input that a step changes in place as written: such kept inputs start as zeros. */
static void eitp__mark_changed(eitp_plan *plan, eitp_tensor *tensor) {
    int index = tensor ? eitp__input_index(plan, eitp__owner(tensor, NULL)) : -1;
    if (index >= 0)
        plan->inputs[index].written = 1;
}

/* Marks the inputs that a step reads or changes, or that can be read as outputs. */
static void eitp__find_read_inputs(eitp_plan *plan) {
    for (size_t s = 0; s < plan->step_count; s++) {
        for (int i = 0; i < plan->steps[s].output_count; i++)
            eitp__mark_changed(plan, plan->steps[s].replaces[i]);
        for (int i = 0; i < eitp__step_read_count(&plan->steps[s]); i++)
            eitp__mark_read(plan, eitp__step_read(&plan->steps[s], i));
    }
    for (size_t t = 0; t < plan->tensor_count; t++)
        eitp__mark_read(plan, plan->readable[t] ? plan->graph->tensors[t] : NULL);
}

/* Allocates memory for kept inputs, and for the number of rows. */
static eitp_status eitp__allocate_inputs(eitp_plan *plan, eitp_error *error) {
    eitp__backend *backend = plan->context->backend;
    for (size_t i = 0; i < plan->input_count && !plan->context->plans_only; i++) {
        eitp__plan_input *input = &plan->inputs[i];
        size_t size = eitp__tensor_bytes(input->tensor);
        if (!input->is_kept)
            continue;
        input->memory = backend->interface->allocate(backend, EITP__PLACE_DEVICE, size);
        if (!input->memory)
            return eitp__fail_memory(error, size, "a kept input");
    }
    plan->uploaded_rows = -1;
    if (plan->graph->capacity >= 0 && !plan->context->plans_only)
        plan->device_rows = backend->interface->allocate(backend, EITP__PLACE_DEVICE, sizeof plan->rows);
    return plan->graph->capacity < 0 || plan->context->plans_only || plan->device_rows
               ? EITP_OK
               : eitp__fail_memory(error, sizeof plan->rows, "a number of rows");
}

static void eitp__release_inputs(eitp_plan *plan) {
    eitp__backend *backend = plan->context->backend;
    for (size_t i = 0; i < plan->input_count; i++) {
        if (plan->inputs[i].memory)
            backend->interface->release(backend, EITP__PLACE_DEVICE, plan->inputs[i].memory,
                                        eitp__tensor_bytes(plan->inputs[i].tensor));
    }
    if (plan->device_rows)
        backend->interface->release(backend, EITP__PLACE_DEVICE, plan->device_rows, sizeof plan->rows);
    eitp__release(&plan->context->host, plan->inputs, plan->input_capacity * sizeof *plan->inputs);
}

static eitp_status eitp__check_plan_config(const eitp_plan_config *config, eitp_error *error) {
    if (config && (unsigned)config->recompute > EITP_RECOMPUTE_LAYER)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "unknown eitp_plan_config.recompute %d", (int)config->recompute);
    return EITP_OK;
}

/* Releases data needed only to create a plan. */
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

/* The peak that recomputation must not exceed, and the number of times it was lowered. */
typedef struct eitp__plan_target {
    size_t bytes;
    int lowered;
    eitp_plan_stats kept; /* statistics of the plan that recomputes nothing */
} eitp__plan_target;

/*
 * Lowers the target if more must be recomputed than in the latest layout, and then returns true. Placement leaves gaps,
 * so a plan may need more than its peak: while the peak meets the target, the target is lowered by the excess, and at
 * least by 1/256 of the peak.
 */
static int eitp__lower_target(const eitp_plan *plan, const eitp_plan_config *config, eitp__plan_target *target) {
    size_t peak = plan->stats.peak_bytes, needed = eitp__plan_bytes(plan), step = peak / 256 + 1;
    if (!target->lowered++) {
        target->kept = plan->stats;
        target->bytes = peak;
        if (config && config->recompute > EITP_RECOMPUTE_NONE) {
            target->bytes = 0;
            return 1;
        }
    }
    if (!config || config->recompute != EITP_RECOMPUTE_AUTO || !config->memory || needed <= config->memory ||
        peak > target->bytes)
        return 0;
    step = needed - config->memory > step ? needed - config->memory : step;
    target->bytes = step < peak ? peak - step : 0;
    return 1;
}

/* Sets the statistics of recomputation, relative to the plan that recomputes nothing. */
static void eitp__count_recomputed(eitp_plan_stats *stats, const eitp_plan_stats *kept) {
    stats->recomputed = stats->nodes - kept->nodes;
    stats->recomputed_flops = stats->flops - kept->flops;
    for (int i = 0; i < EITP_COMPONENT_COUNT; i++) {
        const eitp_flops *before = &kept->components[i];
        eitp_flops *component = &stats->components[i];
        component->forward = before->forward;
        component->backward = before->backward;
        component->recomputed = component->total - before->total;
    }
}

/* Runs the passes in order. The values to recompute depend on the layout, so the passes from recompute on repeat until
   the plan fits. */
static eitp_status eitp__plan_passes(eitp_plan *plan, const eitp_plan_config *config, eitp_error *error) {
    eitp__plan_target target = EITP__ZERO;
    eitp_status status = eitp__plan_lower(plan, error);
    if (!status)
        status = eitp__plan_fuse(plan, error);
    if (!status)
        status = eitp__plan_order(plan, error);
    if (!status)
        eitp__pad_logits(plan);
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
    eitp__count_recomputed(&plan->stats, &target.kept);
    if (!status)
        status = eitp__plan_transfers(plan, error);
    return status ? status : eitp__plan_list(plan, error);
}

/* Creates a plan without allocating its arena and variables. Divides heads so that their logits take at most
   `head_bytes`. */
static eitp_status eitp__plan_build(eitp_graph *graph, const eitp_plan_config *config, size_t head_bytes,
                                    eitp_plan **plan, eitp_error *error) {
    eitp_context *context = graph->context;
    eitp_plan *built;
    eitp_status status = eitp_graph_status(graph, error);
    *plan = NULL;
    if (!status)
        status = eitp__divide_heads(graph, head_bytes, error);
    if (status)
        return status;
    built = (eitp_plan *)eitp__allocate(&context->host, sizeof *built);
    if (!built)
        return eitp__fail_memory(error, sizeof *built, "a plan");
    built->context = context;
    built->graph = graph;
    built->rows = graph->capacity;
    status = eitp__list_inputs(built, error);
    if (!status)
        status = eitp__plan_passes(built, config, error);
    eitp__release_operands(built);
    if (status) {
        eitp_plan_destroy(built);
        return status;
    }
    eitp__find_read_inputs(built);
    *plan = built;
    return EITP_OK;
}

/* Like eitp__plan_build, and the plan may exceed the limit. Values to recompute are chosen greedily, which can miss a
   limit that recomputing more would meet, so in that case a plan of minimum memory is tried too. */
static eitp_status eitp__plan_within(eitp_graph *graph, const eitp_plan_config *config, size_t head_bytes,
                                     eitp_plan **plan, eitp_error *error) {
    eitp_plan_config lower;
    eitp_plan *least;
    eitp_status status = eitp__plan_build(graph, config, head_bytes, plan, error);
    if (status || !config || config->memory <= EITP_MINIMUM_MEMORY || config->recompute != EITP_RECOMPUTE_AUTO ||
        eitp__plan_bytes(*plan) <= config->memory)
        return status;
    lower = *config;
    lower.memory = EITP_MINIMUM_MEMORY;
    status = eitp__plan_build(graph, &lower, head_bytes, &least, error);
    if (status || eitp__plan_bytes(least) < eitp__plan_bytes(*plan)) {
        eitp_plan *larger = *plan;
        *plan = least;
        least = larger;
    }
    eitp_plan_destroy(least);
    return status;
}

/* The part of a device's memory that the logits may take at a time. */
#define EITP__HEAD_SHARE 16

/*
 * Sizes of a head's logits that a plan stores at a time. Each part reads the table and the sum of its gradient once
 * more, so smaller parts are slower. On a processor the first size costs hardly anything; a GPU is so fast that a share
 * of its memory, `large`, is faster. The other sizes are for plans that do not fit without recomputation: smaller
 * parts, and whole heads (0), since the gradient of the table can be recomputed only with whole heads.
 */
typedef struct eitp__head_limits {
    size_t bytes[4];
    size_t count;
} eitp__head_limits;

#define EITP__LEAST_HEAD_LIMIT ((size_t)64 << 20)

static eitp__head_limits eitp__head_limits_of(const eitp_context *context) {
    const size_t usual = (size_t)256 << 20, large = eitp__device_share(context, EITP__HEAD_SHARE);
    eitp__head_limits limits = EITP__ZERO;
    if (large > usual)
        limits.bytes[limits.count++] = large;
    limits.bytes[limits.count++] = usual;
    limits.bytes[limits.count++] = EITP__LEAST_HEAD_LIMIT;
    limits.bytes[limits.count++] = 0;
    return limits;
}

/* True if a plan is better than another: the faster one if both fit, otherwise the smaller one. */
static int eitp__is_better_plan(const eitp_plan *plan, const eitp_plan *other, size_t memory) {
    const int fits = eitp__plan_bytes(plan) <= memory;
    if (fits != (eitp__plan_bytes(other) <= memory))
        return fits;
    return fits ? plan->stats.seconds < other->stats.seconds : eitp__plan_bytes(plan) < eitp__plan_bytes(other);
}

/* Replaces a plan that recomputes or does not fit with the best one among other head sizes. */
static eitp_status eitp__choose_head_size(eitp_graph *graph, const eitp_plan_config *config,
                                          const eitp__head_limits *limits, eitp_plan **plan, eitp_error *error) {
    size_t chosen = 0, latest = 0;
    eitp_status status = EITP_OK;
    while (!status && ++latest < limits->count) {
        eitp_plan *other;
        if (!limits->bytes[latest] && eitp__plan_bytes(*plan) <= config->memory)
            break;
        status = eitp__plan_within(graph, config, limits->bytes[latest], &other, error);
        if (!status && eitp__is_better_plan(other, *plan, config->memory)) {
            eitp_plan *worse = *plan;
            *plan = other;
            other = worse;
            chosen = latest;
        }
        eitp_plan_destroy(other);
    }
    if (status || graph->head_divided == limits->bytes[chosen])
        return status;
    /* The graph's heads are now divided for another plan, so the chosen one is created again. */
    eitp_plan_destroy(*plan);
    return eitp__plan_within(graph, config, limits->bytes[chosen], plan, error);
}

static eitp_status eitp__plan_prepare(eitp_graph *graph, const eitp_plan_config *config, eitp_plan **plan,
                                      eitp_error *error) {
    const eitp__head_limits limits = eitp__head_limits_of(graph->context);
    const size_t usual = graph->head_bytes ? graph->head_bytes : limits.bytes[0];
    eitp_status status = eitp__check_plan_config(config, error);
    *plan = NULL;
    if (!status)
        status = eitp__plan_within(graph, config, usual, plan, error);
    if (status || !config || !config->memory || graph->head_bytes || graph->has_plan ||
        !eitp__has_heads(graph, EITP__LEAST_HEAD_LIMIT) ||
        (!(*plan)->stats.recomputed && eitp__plan_bytes(*plan) <= config->memory))
        return status;
    return eitp__choose_head_size(graph, config, &limits, plan, error);
}

eitp_plan_config eitp_plan_config_default(void) {
    eitp_plan_config config = EITP__ZERO;
    return config;
}

eitp_status eitp_plan_create_with(eitp_graph *graph, const eitp_plan_config *config, eitp_plan **plan,
                                  eitp_error *error) {
    if (!graph || !plan)
        return eitp__fail_null(error, "eitp_plan_create_with", "graph and plan");
    eitp_status status = eitp__plan_prepare(graph, config, plan, error);
    if (!status && config && config->memory > EITP_MINIMUM_MEMORY && eitp__plan_bytes(*plan) > config->memory &&
        !graph->context->plans_only)
        status = eitp__fail(error, EITP_ERROR_MEMORY,
                            "the plan needs %zu bytes in addition to the variables, but the limit is %zu; use "
                            "fewer or shorter sequences per pass",
                            eitp__plan_bytes(*plan), config->memory);
    if (!status)
        status = eitp__variables_allocate(graph->context, error);
    if (!status)
        status = eitp__arena_reserve(graph->context, eitp__plan_bytes(*plan), error);
    if (!status)
        status = eitp__allocate_inputs(*plan, error);
    if (!status && !graph->context->plans_only)
        status = eitp__prepare_program(*plan, error);
    if (status) {
        eitp_plan_destroy(*plan);
        *plan = NULL;
        return status;
    }
    graph->has_plan = 1;
    (*plan)->next = graph->context->plans;
    graph->context->plans = *plan;
    return EITP_OK;
}

EITP__PRIVATE size_t eitp__plans_max_bytes(const eitp_context *context, const eitp_graph *const *excluded, int count) {
    size_t most = 0;
    for (const eitp_plan *plan = context->plans; plan; plan = plan->next) {
        int is_excluded = 0;
        for (int i = 0; i < count; i++)
            is_excluded |= plan->graph == excluded[i];
        if (!is_excluded && eitp__plan_bytes(plan) > most)
            most = eitp__plan_bytes(plan);
    }
    return most;
}

eitp_status eitp_plan_create(eitp_graph *graph, eitp_plan **plan, eitp_error *error) {
    return eitp_plan_create_with(graph, NULL, plan, error);
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

/* Removes a plan from its context's list, if it is there. */
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
    eitp__release_program(plan);
    eitp__release_calls(plan);
    eitp__release_inputs(plan);
    host = plan->context->host;
    eitp__release(&host, plan->steps, plan->step_capacity * sizeof *plan->steps);
    eitp__release(&host, plan->block_of, plan->block_of_capacity * sizeof *plan->block_of);
    eitp__release(&host, plan->readable, plan->readable_capacity);
    eitp__release(&host, plan->blocks, plan->block_capacity * sizeof *plan->blocks);
    eitp__release(&host, plan->stagings, plan->staging_capacity * sizeof *plan->stagings);
    eitp__release(&host, plan->latest_staging, plan->latest_staging_capacity * sizeof *plan->latest_staging);
    eitp__release(&host, plan->transfers, plan->transfer_capacity * sizeof *plan->transfers);
    eitp__release(&host, plan, sizeof *plan);
}

eitp_plan_stats eitp_plan_statistics(const eitp_plan *plan) {
    eitp_plan_stats none = EITP__ZERO;
    return plan ? plan->stats : none;
}

EITP__PRIVATE void eitp__add_work(eitp_plan_stats *sum, const eitp_plan_stats *stats, double times) {
    sum->flops += times * stats->flops;
    sum->recomputed_flops += times * stats->recomputed_flops;
    sum->seconds += times * stats->seconds;
    for (int i = 0; i < EITP_COMPONENT_COUNT; i++) {
        const eitp_flops *added = &stats->components[i];
        eitp_flops *component = &sum->components[i];
        component->forward += times * added->forward;
        component->backward += times * added->backward;
        component->recomputed += times * added->recomputed;
        component->total += times * added->total;
    }
}

EITP__PRIVATE double eitp__plan_flops(const eitp_plan *plan) {
    const double flops = plan->stats.flops - plan->stats.recomputed_flops;
    return plan->graph->capacity > 0 ? flops * (double)plan->rows / (double)plan->graph->capacity : flops;
}
