/*
 * Memory planning. A candidate is measured by creating its task, variables, graphs and plans in a context that gives
 * variables and arena no memory, through an allocator that counts.
 */
#include "tensor/graph.h"
#include "tensor/context.h"
#include "train/planner.h"
#include "train/trainer.h"

/*
 * Memory that the allocator does not count: stacks, partly used pages and file buffers; and memory that a control group
 * counts in addition to the process: page tables, 8 bytes per page, and dirty pages of the offload file.
 */
#define EITP__PROCESS_SLACK ((size_t)4 << 20)
#define EITP__PAGE_TABLES 512
#define EITP__OFFLOAD_SLACK ((size_t)3 << 20)

/* An allocator that counts bytes. */
typedef struct eitp__counter {
    eitp_allocator allocator;    /* does the allocating */
    const eitp_context *context; /* NULL until it is created */
    size_t now;                  /* allocated */
    size_t peak;                 /* of allocated memory and the context's arena together */
} eitp__counter;

static void *eitp__count_allocate(void *user, size_t size, size_t alignment) {
    eitp__counter *counter = (eitp__counter *)user;
    void *memory = counter->allocator.allocate(counter->allocator.user, size, alignment);
    size_t arena = counter->context ? eitp_context_arena_bytes(counter->context) : 0;
    if (!memory)
        return NULL;
    counter->now += size;
    if (counter->now + arena > counter->peak)
        counter->peak = counter->now + arena;
    return memory;
}

static void eitp__count_release(void *user, void *memory, size_t size) {
    eitp__counter *counter = (eitp__counter *)user;
    counter->allocator.release(counter->allocator.user, memory, size);
    counter->now -= size;
}

/* The precision of a candidate: with "auto", compact weights are BF16. */
static const char *eitp__candidate_precision(const eitp_fit *fit, eitp_optimizer optimizer) {
    const char *requested = fit->context.precision;
    int is_compact = eitp_optimizer_get(optimizer)->parameters != EITP_PARAMETERS_EXACT;
    return is_compact && requested && !strcmp(requested, "auto") ? "bf16" : requested;
}

static size_t eitp__bytes_of_role(const eitp_context *context, eitp_role role) {
    size_t bytes = 0;
    for (size_t i = 0; i < eitp_variable_count(context); i++) {
        eitp_variable variable = eitp_variable_at(context, i);
        bytes += variable.role == role && !variable.offloaded && !variable.borrowed ? variable.size : 0;
    }
    return bytes;
}

static size_t eitp__offloaded_bytes(const eitp_context *context) {
    size_t bytes = 0;
    for (size_t i = 0; i < eitp_variable_count(context); i++) {
        eitp_variable variable = eitp_variable_at(context, i);
        bytes += variable.offloaded ? variable.size : 0;
    }
    return bytes;
}

/* Bytes of the logits that the losses of a pass store. */
static size_t eitp__logits_bytes(const eitp_graph *graph) {
    size_t bytes = 0;
    for (size_t i = 0; i < graph->node_count; i++) {
        const eitp__node *node = graph->nodes[i];
        const eitp_tensor *x = node->input_count ? node->inputs[0] : NULL;
        if (node->op == EITP__OP_LINEAR_CROSS_ENTROPY)
            bytes += (size_t)(x->shape[0] * node->inputs[1]->shape[0]) * eitp_dtype_size(x->dtype);
        else if (node->op == EITP__OP_CROSS_ENTROPY)
            bytes += (size_t)(x->shape[0] * x->shape[1]) * eitp_dtype_size(x->dtype);
    }
    return bytes;
}

static void eitp__fill_candidate(const eitp_fit *fit, const eitp__step_plans *plans, const eitp__counter *counter,
                                 size_t resident, eitp_fit_candidate *candidate) {
    const eitp_context *context = plans->task.context;
    eitp_plan_stats pass = eitp_plan_statistics(plans->gradient_plan), update = EITP__ZERO;
    const double passes = (double)eitp__step_passes(&plans->config);
    const double full_passes = eitp__step_full_passes(&plans->config);
    uint64_t checkpoint, largest;
    if (plans->update_plan)
        update = eitp_plan_statistics(plans->update_plan);
    snprintf(candidate->precision, sizeof candidate->precision, "%s", eitp_context_precision_name(context));
    candidate->micro_batches_per_pass = plans->config.micro_batches_per_pass;
    candidate->parameters = eitp__bytes_of_role(context, EITP_PARAMETER) + eitp__bytes_of_role(context, EITP_REMAINDER);
    candidate->gradients = eitp__bytes_of_role(context, EITP_GRADIENT);
    candidate->states = eitp__bytes_of_role(context, EITP_OPTIMIZER);
    candidate->offloaded = eitp__offloaded_bytes(context);
    candidate->workspace = pass.workspace_bytes;
    candidate->arena = eitp_context_arena_bytes(context) - pass.workspace_bytes;
    candidate->logits = eitp__logits_bytes(plans->pass.graph);
    candidate->process = resident + counter->peak - eitp_context_arena_bytes(context) + EITP__PROCESS_SLACK;
    candidate->process += candidate->offload ? EITP__OFFLOAD_SLACK : 0;
    candidate->process += (size_t)plans->config.data_workers * EITP__READER_BYTES;
    candidate->total =
        candidate->parameters + candidate->gradients + candidate->states + candidate->arena + candidate->workspace;
    candidate->process += candidate->total / EITP__PAGE_TABLES;
    candidate->total += candidate->process;
    eitp__checkpoint_size(&plans->task, &checkpoint, &largest);
    candidate->checkpoint = (size_t)checkpoint;
    candidate->flops = full_passes * pass.flops + update.flops;
    candidate->recomputed_flops = full_passes * pass.recomputed_flops;
    candidate->recomputed = pass.recomputed;
    candidate->seconds = full_passes * pass.seconds + update.seconds;
    candidate->file_reads = passes * pass.file_reads + update.file_reads;
    candidate->file_writes = passes * pass.file_writes + update.file_writes;
    candidate->fits = !fit->budget || candidate->total <= fit->budget;
}

/* Resident bytes of the process: as the caller gave them, or as they are now. */
static eitp_status eitp__resident_bytes(const eitp_fit *fit, size_t *resident, eitp_error *error) {
    eitp_memory_info info;
    eitp_status status;
    *resident = fit->process;
    if (fit->process)
        return EITP_OK;
    status = eitp_memory_info_read(&fit->context.host, &info, error);
    *resident = status ? 0 : (size_t)info.resident;
    return status;
}

/* Creates a context for plans only, which allocates through the counter. */
static eitp_status eitp__create_counted(const eitp_fit *fit, const eitp_fit_candidate *candidate,
                                        eitp__counter *counter, eitp_context **context, eitp_error *error) {
    eitp_context_config config = fit->context;
    eitp_status status;
    counter->allocator = config.host.allocator;
    config.host.allocator.user = counter;
    config.host.allocator.allocate = eitp__count_allocate;
    config.host.allocator.release = eitp__count_release;
    memset(&config.host.log, 0, sizeof config.host.log);
    config.precision = eitp__candidate_precision(fit, candidate->optimizer);
    config.parameters = eitp_optimizer_get(candidate->optimizer)->parameters;
    config.offload = candidate->offload;
    config.plans_only = 1;
    status = eitp_context_create(&config, context, error);
    counter->context = *context;
    return status;
}

/* Creates the plans of a task in that context, and fills in the candidate. */
static eitp_status eitp__measure_task(const eitp_fit *fit, const eitp_task *task, eitp__counter *counter,
                                      size_t resident, eitp_fit_candidate *candidate, eitp_error *error) {
    eitp_trainer_config config = fit->trainer;
    eitp__step_plans *plans = (eitp__step_plans *)eitp__allocate(&task->context->host, sizeof *plans);
    const eitp_host host = eitp_context_host(task->context);
    eitp_status status;
    if (!plans)
        return eitp__fail_memory(error, sizeof *plans, "the plans of a step");
    config.optimizer_config.optimizer = candidate->optimizer;
    config.micro_batches_per_pass = candidate->micro_batches_per_pass;
    config.plan = candidate->plan;
    eitp__step_plans_init(plans, task, &config, 0);
    status = eitp__trainer_config_check(&config, task, error);
    if (!status)
        status = eitp__step_plans_create(plans, error);
    /* The last plan may have grown the arena after the last allocation. */
    if (!status && counter->peak < counter->now + eitp_context_arena_bytes(task->context))
        counter->peak = counter->now + eitp_context_arena_bytes(task->context);
    if (!status)
        eitp__fill_candidate(fit, plans, counter, resident, candidate);
    eitp__step_plans_discard(plans);
    eitp__release(&host, plans, sizeof *plans);
    return status;
}

eitp_status eitp_fit_measure(const eitp_fit *fit, eitp_fit_candidate *candidate, eitp_error *error) {
    if (!fit || !candidate || !fit->create_task)
        return eitp__fail_null(error, "eitp_fit_measure", "fit, fit->create_task and candidate");
    eitp__counter counter = EITP__ZERO;
    eitp_context *context = NULL;
    eitp_model *model;
    eitp_task task = EITP__ZERO;
    size_t resident = 0;
    eitp_status status = eitp__resident_bytes(fit, &resident, error);
    if (!status)
        status = eitp__create_counted(fit, candidate, &counter, &context, error);
    if (!status)
        status = fit->create_task(fit->user, context, &task, error);
    if (!status)
        status = eitp__task_check(&task, error);
    if (!status)
        status = eitp__measure_task(fit, &task, &counter, resident, candidate, error);
    counter.context = NULL;
    model = task.model;
    eitp_task_release(&task);
    eitp_model_destroy(model);
    eitp_context_destroy(context);
    return status;
}

/* ---- The choice ---- */

/* Lets a candidate that is too large recompute as much as it must. */
static eitp_status eitp__shrink_candidate(const eitp_fit *fit, eitp_fit_candidate *candidate, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (int attempt = 0; attempt < 4 && !status && !candidate->fits; attempt++) {
        size_t excess = candidate->total - fit->budget, pass = candidate->arena + candidate->workspace;
        int is_minimal = candidate->plan.memory && pass > candidate->plan.memory;
        if (is_minimal || fit->trainer.plan.recompute != EITP_RECOMPUTE_AUTO)
            break;
        candidate->plan.memory = excess < pass ? pass - excess : EITP_MINIMUM_MEMORY;
        status = eitp_fit_measure(fit, candidate, error);
    }
    return status;
}

/* Bytes that recomputation cannot reduce. */
static size_t eitp__fixed_bytes(const eitp_fit_candidate *candidate) {
    return candidate->total - candidate->arena - candidate->workspace;
}

static void eitp__keep_smallest(const eitp_fit_candidate *candidate, eitp_fit_candidate *smallest) {
    if (!smallest->total || candidate->total < smallest->total)
        *smallest = *candidate;
}

/* The next smaller number of micro-batches per pass, or 0. */
static int64_t eitp__fewer_per_pass(const eitp_fit *fit, int64_t micro_batches_per_pass) {
    return fit->trainer.micro_batches_per_pass || micro_batches_per_pass < 2 ? 0 : micro_batches_per_pass / 2;
}

/* Stores the fastest candidate with this optimizer and offload that fits in *best; best->fits is 0 if none does. */
static eitp_status eitp__choose_candidate(const eitp_fit *fit, eitp_optimizer optimizer, eitp_offload offload,
                                          eitp_fit_candidate *best, eitp_fit_candidate *smallest, eitp_error *error) {
    int64_t micro_batches_per_pass = fit->trainer.micro_batches_per_pass;
    eitp_status status = EITP_OK;
    memset(best, 0, sizeof *best);
    do {
        eitp_fit_candidate candidate = EITP__ZERO;
        candidate.optimizer = optimizer;
        candidate.micro_batches_per_pass = micro_batches_per_pass;
        candidate.plan = fit->trainer.plan;
        candidate.offload = offload;
        status = eitp_fit_measure(fit, &candidate, error);
        /* Fewer micro-batches per pass only add stored gradients. */
        if (!status && fit->budget && eitp__fixed_bytes(&candidate) > fit->budget)
            break;
        if (!status)
            status = eitp__shrink_candidate(fit, &candidate, error);
        if (status)
            return status;
        eitp__keep_smallest(&candidate, smallest);
        if (candidate.fits && (!best->fits || candidate.seconds < best->seconds))
            *best = candidate;
        micro_batches_per_pass = eitp__fewer_per_pass(fit, candidate.micro_batches_per_pass);
        /* If nothing is recomputed, fewer micro-batches per pass are only slower. */
        if (candidate.fits && !candidate.recomputed)
            micro_batches_per_pass = 0;
    } while (micro_batches_per_pass);
    return status;
}

/* Measures the smallest candidates of an optimizer: with the usual number of micro-batches per pass, and with one. */
static eitp_status eitp__find_smallest(const eitp_fit *fit, eitp_optimizer optimizer, eitp_offload offload,
                                       eitp_fit_candidate *smallest, eitp_error *error) {
    const int64_t passes[] = {fit->trainer.micro_batches_per_pass, 1};
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < EITP__COUNT(passes) && !status; i++) {
        eitp_fit_candidate candidate = EITP__ZERO;
        candidate.optimizer = optimizer;
        candidate.micro_batches_per_pass = passes[i];
        candidate.plan = fit->trainer.plan;
        candidate.offload = offload;
        if (candidate.plan.recompute == EITP_RECOMPUTE_AUTO)
            candidate.plan.memory = EITP_MINIMUM_MEMORY;
        status = eitp_fit_measure(fit, &candidate, error);
        if (!status)
            eitp__keep_smallest(&candidate, smallest);
        if (fit->trainer.micro_batches_per_pass)
            break;
    }
    return status;
}

/* True if the optimizer may be chosen: it runs in the requested precision, and differs there from those before it. */
static int eitp__is_eligible(const eitp_fit *fit, eitp_optimizer optimizer) {
    const char *requested = fit->context.precision;
    int may_be_bf16 = requested && (!strcmp(requested, "auto") || !strcmp(requested, "bf16"));
    if (!fit->any_optimizer)
        return optimizer == fit->trainer.optimizer_config.optimizer;
    if (eitp_optimizer_get(optimizer)->fidelity == EITP_DIFFERENT_ALGORITHM)
        return 0;
    if (optimizer == EITP_ADAMW || may_be_bf16)
        return 1;
    /* In fp32 weights are not rounded, so that adamw8-sr is adamw8. */
    return optimizer != EITP_ADAMW8_SR && (!requested || strcmp(requested, "fp16"));
}

/* A more compact optimizer of the same fidelity as one that fits must save this part of a step's time. */
#define EITP__COMPACT_BENEFIT 0.05

/*
 * Chooses among the optimizers, with the same offload: the fastest candidate of the most faithful that fit. *last is
 * the optimizer that was tried last.
 */
static eitp_status eitp__choose_optimizer(const eitp_fit *fit, eitp_offload offload, eitp_fit_candidate *chosen,
                                          eitp_fit_candidate *smallest, eitp_optimizer *last, eitp_error *error) {
    int is_proposed = fit->any_optimizer && fit->any_offload && offload;
    eitp_status status = EITP_OK;
    for (int i = is_proposed && eitp__is_eligible(fit, EITP_ADAMW8) ? EITP_ADAMW8 : 0;
         i < EITP_OPTIMIZER_COUNT && !status; i++) {
        const eitp_optimizer optimizer = (eitp_optimizer)i;
        eitp_fit_candidate candidate;
        if (chosen->fits && (!chosen->recomputed || eitp_optimizer_get(optimizer)->fidelity !=
                                                        eitp_optimizer_get(chosen->optimizer)->fidelity))
            break;
        if (!eitp__is_eligible(fit, optimizer))
            continue;
        *last = optimizer;
        status = eitp__choose_candidate(fit, optimizer, offload, &candidate, smallest, error);
        if (!status && candidate.fits &&
            (!chosen->fits || candidate.seconds < (1 - EITP__COMPACT_BENEFIT) * chosen->seconds))
            *chosen = candidate;
    }
    return status;
}

eitp_status eitp_fit_choose(const eitp_fit *fit, eitp_fit_candidate *chosen, eitp_fit_candidate *smallest,
                            eitp_error *error) {
    if (!fit || !chosen)
        return eitp__fail_null(error, "eitp_fit_choose", "fit and chosen");
    eitp_fit request = *fit;
    eitp_fit_candidate least = EITP__ZERO;
    char needed[32], budget[32];
    eitp_optimizer last = request.trainer.optimizer_config.optimizer;
    eitp_offload offload = request.any_offload ? EITP_OFFLOAD_NONE : request.context.offload;
    eitp_offload most = request.any_offload ? EITP_OFFLOAD_ALL : offload;
    eitp_status status;
    memset(chosen, 0, sizeof *chosen);
    /* Read once: what measuring leaves in the C library's heap is available to the run. */
    status = eitp__resident_bytes(fit, &request.process, error);
    if (!status)
        status = eitp__choose_optimizer(&request, offload, chosen, &least, &last, error);
    while (!status && !chosen->fits && offload < most) {
        offload = (eitp_offload)(offload + 1);
        status = eitp__choose_optimizer(&request, offload, chosen, &least, &last, error);
    }
    if (!status && !chosen->fits)
        status = eitp__find_smallest(&request, last, offload, &least, error);
    /* The greedy search can miss a budget that the smallest candidate keeps. */
    if (!status && !chosen->fits && least.fits)
        *chosen = least;
    if (smallest)
        *smallest = least;
    if (status || chosen->fits)
        return status;
    return eitp__fail(error, EITP_ERROR_MEMORY, "the run needs %s, which exceeds the budget of %s",
                      eitp_format_bytes(eitp__round_bytes(least.total, 1), needed, sizeof needed),
                      eitp_format_bytes(eitp__round_bytes(request.budget, 0), budget, sizeof budget));
}
