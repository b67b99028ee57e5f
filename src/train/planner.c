/*
 * What a run takes, before anything is loaded. A rung is measured by making it: the task, its variables, the graphs and
 * the plans, in a context that gives them no memory, through an allocator that counts.
 */
#include "tensor/graph.h"
#include "tensor/context.h"
#include "train/planner.h"
#include "train/trainer.h"

/*
 * What no allocator counts: stacks, pages that are partly used, buffers of files; and what a control group counts
 * beside the process: page tables, 8 bytes a page, and pages of an offloaded file that are on their way to the disk.
 */
#define EITP__PROCESS_SLACK ((size_t)4 << 20)
#define EITP__PAGE_TABLES 512
#define EITP__OFFLOAD_SLACK ((size_t)3 << 20)

/* A host's allocator, the bytes that are taken through it, and the most that they and the arena have at a time. */
typedef struct eitp__counter {
    eitp_allocator allocator;
    const eitp_context *context; /* whose arena it is; NULL: there is none yet */
    size_t now, most;
} eitp__counter;

static void *eitp__count_allocate(void *user, size_t size, size_t alignment) {
    eitp__counter *counter = (eitp__counter *)user;
    void *memory = counter->allocator.allocate(counter->allocator.user, size, alignment);
    size_t arena = counter->context ? eitp_context_arena_bytes(counter->context) : 0;
    if (!memory)
        return NULL;
    counter->now += size;
    if (counter->now + arena > counter->most)
        counter->most = counter->now + arena;
    return memory;
}

static void eitp__count_release(void *user, void *memory, size_t size) {
    eitp__counter *counter = (eitp__counter *)user;
    counter->allocator.release(counter->allocator.user, memory, size);
    counter->now -= size;
}

/* The precision that an optimizer runs in: compact weights are BF16 where nothing else was asked for. */
static const char *eitp__rung_precision(const eitp_fit *fit, eitp_optimizer optimizer) {
    const char *asked = fit->context.precision;
    int is_compact = eitp_optimizer_get(optimizer)->parameters != EITP_PARAMETERS_EXACT;
    return is_compact && asked && !strcmp(asked, "auto") ? "bf16" : asked;
}

static size_t eitp__bytes_of_role(const eitp_context *context, eitp_role role) {
    size_t bytes = 0;
    for (size_t i = 0; i < eitp_variable_count(context); i++) {
        eitp_variable variable = eitp_variable_at(context, i);
        bytes += variable.role == role && !variable.offloaded ? variable.size : 0;
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

/* Bytes of the logits that the pass keeps whole, in its losses. */
static size_t eitp__logits_bytes(const eitp_graph *graph) {
    size_t bytes = 0;
    for (size_t i = 0; i < graph->node_count; i++) {
        const eitp__node *node = graph->nodes[i];
        const eitp_tensor *x, *table;
        if (node->op != EITP__OP_LINEAR_CROSS_ENTROPY)
            continue;
        x = node->inputs[0];
        table = node->inputs[1];
        bytes += (size_t)(x->shape[0] * table->shape[0]) * eitp_dtype_size(x->dtype);
    }
    return bytes;
}

static void eitp__fill_rung(const eitp_fit *fit, const eitp__step_plans *plans, const eitp__counter *counter,
                            size_t resident, eitp_fit_candidate *rung) {
    const eitp_context *context = plans->task.context;
    eitp_plan_stats pass = eitp_plan_statistics(plans->gradient_plan), update = EITP__ZERO;
    const double passes = (double)eitp__step_passes(&plans->config);
    const double full_passes = eitp__step_full_passes(&plans->config);
    if (plans->update_plan)
        update = eitp_plan_statistics(plans->update_plan);
    snprintf(rung->precision, sizeof rung->precision, "%s", eitp_context_precision_name(context));
    rung->micro_batches_per_pass = plans->config.micro_batches_per_pass;
    rung->parameters = eitp__bytes_of_role(context, EITP_PARAMETER) + eitp__bytes_of_role(context, EITP_REMAINDER);
    rung->gradients = eitp__bytes_of_role(context, EITP_GRADIENT);
    rung->states = eitp__bytes_of_role(context, EITP_OPTIMIZER);
    rung->offloaded = eitp__offloaded_bytes(context);
    rung->workspace = pass.workspace_bytes;
    rung->arena = eitp_context_arena_bytes(context) - pass.workspace_bytes;
    rung->logits = eitp__logits_bytes(plans->pass.graph);
    rung->process = resident + counter->most - eitp_context_arena_bytes(context) + EITP__PROCESS_SLACK;
    rung->process += rung->offload ? EITP__OFFLOAD_SLACK : 0;
    rung->process += (size_t)plans->config.data_workers * EITP__READER_BYTES;
    rung->total = rung->parameters + rung->gradients + rung->states + rung->arena + rung->workspace;
    rung->process += rung->total / EITP__PAGE_TABLES;
    rung->total += rung->process;
    rung->flops = full_passes * pass.flops + update.flops;
    rung->recomputed_flops = full_passes * pass.recomputed_flops;
    rung->recomputed = pass.recomputed;
    rung->seconds = full_passes * pass.seconds + update.seconds;
    rung->file_reads = passes * pass.file_reads + update.file_reads;
    rung->file_writes = passes * pass.file_writes + update.file_writes;
    rung->fits = !fit->budget || rung->total <= fit->budget;
}

/* The process as it is now, where the caller did not say. */
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

/* A context for plans alone, through the counter. */
static eitp_status eitp__create_counted(const eitp_fit *fit, const eitp_fit_candidate *rung, eitp__counter *counter,
                                        eitp_context **context, eitp_error *error) {
    eitp_context_config config = fit->context;
    eitp_status status;
    counter->allocator = config.host.allocator;
    config.host.allocator.user = counter;
    config.host.allocator.allocate = eitp__count_allocate;
    config.host.allocator.release = eitp__count_release;
    memset(&config.host.log, 0, sizeof config.host.log);
    config.precision = eitp__rung_precision(fit, rung->optimizer);
    config.parameters = eitp_optimizer_get(rung->optimizer)->parameters;
    config.offload = rung->offload;
    config.plans_only = 1;
    status = eitp_context_create(&config, context, error);
    counter->context = *context;
    return status;
}

/* Makes the plans of a task in that context, and fills in the rung. */
static eitp_status eitp__measure_task(const eitp_fit *fit, const eitp_task *task, eitp__counter *counter,
                                      size_t resident, eitp_fit_candidate *rung, eitp_error *error) {
    eitp_trainer_config config = fit->trainer;
    eitp__step_plans *plans = (eitp__step_plans *)eitp__allocate(&task->context->host, sizeof *plans);
    const eitp_host host = eitp_context_host(task->context);
    eitp_status status;
    if (!plans)
        return eitp__fail_memory(error, sizeof *plans, "the plans of a step");
    config.optimizer = rung->optimizer;
    config.micro_batches_per_pass = rung->micro_batches_per_pass;
    config.plan = rung->plan;
    eitp__step_plans_init(plans, task, &config, 0);
    status = eitp__trainer_config_check(&config, task->context, error);
    if (!status)
        status = eitp__step_plans_create(plans, error);
    /* The arena of the last plan may be larger than any that was there when something was allocated. */
    if (!status && counter->most < counter->now + eitp_context_arena_bytes(task->context))
        counter->most = counter->now + eitp_context_arena_bytes(task->context);
    if (!status)
        eitp__fill_rung(fit, plans, counter, resident, rung);
    eitp__step_plans_discard(plans);
    eitp__release(&host, plans, sizeof *plans);
    return status;
}

eitp_status eitp_fit_measure(const eitp_fit *fit, eitp_fit_candidate *rung, eitp_error *error) {
    if (!fit || !rung || !fit->create_task)
        return eitp__fail_null(error, "eitp_fit_measure", "fit, its make, and rung");
    eitp__counter counter = EITP__ZERO;
    eitp_context *context = NULL;
    eitp_model *model;
    eitp_task task = EITP__ZERO;
    size_t resident = 0;
    eitp_status status = eitp__resident_bytes(fit, &resident, error);
    if (!status)
        status = eitp__create_counted(fit, rung, &counter, &context, error);
    if (!status)
        status = fit->create_task(fit->user, context, &task, error);
    if (!status)
        status = eitp__task_check(&task, error);
    if (!status)
        status = eitp__measure_task(fit, &task, &counter, resident, rung, error);
    counter.context = NULL;
    model = task.model;
    eitp_task_release(&task);
    eitp_model_destroy(model);
    eitp_context_destroy(context);
    return status;
}

/* ---- The choice ---- */

/* Lets a rung that is too large compute again as much as it must. */
static eitp_status eitp__shrink_rung(const eitp_fit *fit, eitp_fit_candidate *rung, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (int attempt = 0; attempt < 4 && !status && !rung->fits; attempt++) {
        size_t excess = rung->total - fit->budget, run = rung->arena + rung->workspace;
        int is_least = rung->plan.memory && run > rung->plan.memory;
        if (is_least || fit->trainer.plan.recompute != EITP_RECOMPUTE_AUTO)
            break;
        rung->plan.memory = excess < run ? run - excess : EITP_LEAST_MEMORY;
        status = eitp_fit_measure(fit, rung, error);
    }
    return status;
}

/* What a rung takes however much it computes again. */
static size_t eitp__fixed_bytes(const eitp_fit_candidate *rung) {
    return rung->total - rung->arena - rung->workspace;
}

static void eitp__keep_smallest(const eitp_fit_candidate *rung, eitp_fit_candidate *smallest) {
    if (!smallest->total || rung->total < smallest->total)
        *smallest = *rung;
}

/* The next smaller number of micro-batches in a pass; 0: there is none. */
static int64_t eitp__smaller_pass(const eitp_fit *fit, int64_t micro_batches_per_pass) {
    return fit->trainer.micro_batches_per_pass || micro_batches_per_pass < 2 ? 0 : micro_batches_per_pass / 2;
}

/* The fastest rung with this optimizer and so much offloaded that fits, in *best; its `fits` is 0 where none does. */
static eitp_status eitp__choose_rung(const eitp_fit *fit, eitp_optimizer optimizer, eitp_offload offload,
                                     eitp_fit_candidate *best, eitp_fit_candidate *smallest, eitp_error *error) {
    int64_t micro_batches_per_pass = fit->trainer.micro_batches_per_pass;
    eitp_status status = EITP_OK;
    memset(best, 0, sizeof *best);
    do {
        eitp_fit_candidate rung = EITP__ZERO;
        rung.optimizer = optimizer;
        rung.micro_batches_per_pass = micro_batches_per_pass;
        rung.plan = fit->trainer.plan;
        rung.offload = offload;
        status = eitp_fit_measure(fit, &rung, error);
        /* With fewer micro-batches at a time gradients only take more. */
        if (!status && fit->budget && eitp__fixed_bytes(&rung) > fit->budget)
            break;
        if (!status)
            status = eitp__shrink_rung(fit, &rung, error);
        if (status)
            return status;
        eitp__keep_smallest(&rung, smallest);
        if (rung.fits && (!best->fits || rung.seconds < best->seconds))
            *best = rung;
        micro_batches_per_pass = eitp__smaller_pass(fit, rung.micro_batches_per_pass);
        /* With everything kept, fewer micro-batches at a time are only slower. */
        if (rung.fits && !rung.recomputed)
            micro_batches_per_pass = 0;
    } while (micro_batches_per_pass);
    return status;
}

/* The least that an optimizer can do with, whatever it costs: all micro-batches at a time, or one. */
static eitp_status eitp__find_smallest(const eitp_fit *fit, eitp_optimizer optimizer, eitp_offload offload,
                                       eitp_fit_candidate *smallest, eitp_error *error) {
    const int64_t merges[] = {fit->trainer.micro_batches_per_pass, 1};
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < EITP__COUNT(merges) && !status; i++) {
        eitp_fit_candidate rung = EITP__ZERO;
        rung.optimizer = optimizer;
        rung.micro_batches_per_pass = merges[i];
        rung.plan = fit->trainer.plan;
        rung.offload = offload;
        if (rung.plan.recompute == EITP_RECOMPUTE_AUTO)
            rung.plan.memory = EITP_LEAST_MEMORY;
        status = eitp_fit_measure(fit, &rung, error);
        if (!status)
            eitp__keep_smallest(&rung, smallest);
        if (fit->trainer.micro_batches_per_pass)
            break;
    }
    return status;
}

/* Is the optimizer one of those that are chosen from, can it run in the precision that was asked for, and is it not the
 * same there as one before it? */
static int eitp__is_candidate(const eitp_fit *fit, eitp_optimizer optimizer) {
    const char *asked = fit->context.precision;
    int is_16_bits = asked && (!strcmp(asked, "auto") || !strcmp(asked, "bf16"));
    if (!fit->any_optimizer)
        return optimizer == fit->trainer.optimizer;
    if (eitp_optimizer_get(optimizer)->fidelity == EITP_DIFFERENT_ALGORITHM)
        return 0;
    if (optimizer == EITP_ADAMW || is_16_bits)
        return 1;
    /* In fp32 weights are whole, however they would be rounded. */
    return optimizer != EITP_ADAMW8_SR && (!asked || strcmp(asked, "fp16"));
}

/* An optimizer that keeps less, of the same fidelity as one that fits, must be worth this much of a step's time. */
#define EITP__WORTH_LESS 0.05

/*
 * Looks for a rung of the optimizers, all with so much offloaded: the fastest of the most faithful that fit. *last is
 * the optimizer that was looked at last.
 */
static eitp_status eitp__choose_optimizer(const eitp_fit *fit, eitp_offload offload, eitp_fit_candidate *chosen,
                                          eitp_fit_candidate *least, eitp_optimizer *last, eitp_error *error) {
    int is_offer = fit->any_optimizer && fit->any_offload && offload;
    eitp_status status = EITP_OK;
    for (int i = is_offer && eitp__is_candidate(fit, EITP_ADAMW8) ? EITP_ADAMW8 : 0;
         i < EITP_OPTIMIZER_COUNT && !status; i++) {
        const eitp_optimizer optimizer = (eitp_optimizer)i;
        eitp_fit_candidate rung;
        if (chosen->fits && (!chosen->recomputed || eitp_optimizer_get(optimizer)->fidelity !=
                                                        eitp_optimizer_get(chosen->optimizer)->fidelity))
            break;
        if (!eitp__is_candidate(fit, optimizer))
            continue;
        *last = optimizer;
        status = eitp__choose_rung(fit, optimizer, offload, &rung, least, error);
        if (!status && rung.fits && (!chosen->fits || rung.seconds < (1 - EITP__WORTH_LESS) * chosen->seconds))
            *chosen = rung;
    }
    return status;
}

eitp_status eitp_fit_choose(const eitp_fit *asked, eitp_fit_candidate *chosen, eitp_fit_candidate *smallest,
                            eitp_error *error) {
    if (!asked || !chosen)
        return eitp__fail_null(error, "eitp_fit_choose", "asked and chosen");
    eitp_fit fit = *asked;
    eitp_fit_candidate least = EITP__ZERO;
    eitp_optimizer last = fit.trainer.optimizer;
    eitp_offload offload = fit.any_offload ? EITP_OFFLOAD_NONE : fit.context.offload;
    eitp_offload most = fit.any_offload ? EITP_OFFLOAD_ALL : offload;
    eitp_status status;
    memset(chosen, 0, sizeof *chosen);
    /* Once: what measuring a rung leaves to the C library is there for the run. */
    status = eitp__resident_bytes(asked, &fit.process, error);
    if (!status)
        status = eitp__choose_optimizer(&fit, offload, chosen, &least, &last, error);
    while (!status && !chosen->fits && offload < most) {
        offload = (eitp_offload)(offload + 1);
        status = eitp__choose_optimizer(&fit, offload, chosen, &least, &last, error);
    }
    if (!status && !chosen->fits)
        status = eitp__find_smallest(&fit, last, offload, &least, error);
    /* What is chosen greedily can miss a budget that the least there is keeps. */
    if (!status && !chosen->fits && least.fits)
        *chosen = least;
    if (smallest)
        *smallest = least;
    if (status || chosen->fits)
        return status;
    return eitp__fail(error, EITP_ERROR_MEMORY, "the run needs %.0f MB, and %.0f MB are allowed",
                      ceil((double)least.total / 1e6), floor((double)fit.budget / 1e6));
}
