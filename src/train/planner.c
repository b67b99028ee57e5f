/*
 * Memory planning. A candidate is measured by creating its task, variables, graphs and plans in a context that gives
 * variables and arena no memory, through an allocator that counts.
 */
#include "optim/optimizers.h"
#include "tensor/context.h"
#include "tensor/graph.h"
#include "tensor/plan.h"
#include "train/memory_search.h"
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

/* Bytes of the logits that the losses of a pass store at a time. */
static size_t eitp__logits_bytes(const eitp_graph *graph) {
    size_t bytes = 0;
    for (size_t i = 0; i < graph->node_count; i++) {
        const eitp__node *node = graph->nodes[i];
        const eitp_tensor *x = node->input_count ? node->inputs[0] : NULL;
        if (node->order != node->id) /* part of an expansion */
            continue;
        if (node->op == EITP__OP_LINEAR_CROSS_ENTROPY)
            bytes += (size_t)(eitp__head_rows(node) * node->inputs[1]->shape[0]) * eitp_dtype_size(x->dtype);
        else if (node->op == EITP__OP_CROSS_ENTROPY)
            bytes += (size_t)(x->shape[0] * x->shape[1]) * eitp_dtype_size(x->dtype);
    }
    return bytes;
}

/* Adds what the probes and the norms of terms take in a mean step. */
static void eitp__add_measurements(const eitp__step_plans *plans, eitp_fit_candidate *candidate) {
    const double every = (double)plans->objective.config.term_norms_every;
    double flops, seconds;
    eitp__probes_count(&plans->probes, &flops, &seconds);
    candidate->flops += flops;
    candidate->seconds += seconds;
    eitp__term_norms_count(&plans->term_norms, &flops, &seconds);
    candidate->flops += plans->term_norms.count ? flops / every : 0;
    candidate->seconds += plans->term_norms.count ? seconds / every : 0;
}

static void eitp__fill_candidate(const eitp_fit *fit, const eitp__step_plans *plans, const eitp__counter *counter,
                                 size_t resident, eitp_fit_candidate *candidate) {
    const eitp_context *context = plans->task.context;
    const eitp_plan_stats pass = eitp_plan_statistics(plans->gradient_plan);
    const eitp_plan_stats update = eitp_plan_statistics(plans->update_plan);
    uint64_t checkpoint, largest;
    eitp__step_plans_count(plans, &pass, &update, candidate);
    eitp__add_measurements(plans, candidate);
    snprintf(candidate->precision, sizeof candidate->precision, "%s", eitp_context_precision_name(context));
    candidate->micro_batches_per_pass = plans->config.micro_batches_per_pass;
    candidate->arena = eitp_context_arena_bytes(context) - candidate->workspace;
    candidate->logits = eitp__logits_bytes(plans->pass.graph);
    candidate->process = resident + counter->peak - eitp_context_arena_bytes(context) + EITP__PROCESS_SLACK;
    candidate->process += candidate->offload && !context->offloaded.backend ? EITP__OFFLOAD_SLACK : 0;
    candidate->process += (size_t)plans->config.data_workers * EITP__READER_BYTES;
    candidate->device = 0;
    candidate->total =
        candidate->parameters + candidate->gradients + candidate->states + candidate->arena + candidate->workspace;
    if (eitp__context_has_own_memory(context)) {
        candidate->device = candidate->total;
        candidate->total = context->offloaded.backend ? candidate->offloaded : 0;
    }
    candidate->records = fit->record_bytes ? fit->record_bytes(fit->user, &plans->task) : 0;
    candidate->process += candidate->total / EITP__PAGE_TABLES;
    candidate->total += candidate->records + candidate->process;
    eitp__checkpoint_size(&plans->task, &checkpoint, &largest);
    candidate->checkpoint = (size_t)checkpoint;
    candidate->fits = eitp_fit_admits(fit, candidate);
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
    size_t more = 0;
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
    if (!status && fit->create_more)
        status = fit->create_more(fit->user, task, &more, error);
    counter->peak += more;
    /* The last plan may have grown the arena after the last allocation. */
    if (!status && counter->peak < counter->now + eitp_context_arena_bytes(task->context))
        counter->peak = counter->now + eitp_context_arena_bytes(task->context);
    if (!status)
        eitp__fill_candidate(fit, plans, counter, resident, candidate);
    eitp__step_plans_discard(plans);
    eitp__release(&host, plans, sizeof *plans);
    return status;
}

eitp_fit eitp_fit_default(void) {
    eitp_fit fit = EITP__ZERO;
    fit.context = eitp_context_config_default();
    fit.trainer = eitp_trainer_config_default();
    return fit;
}

eitp_fit_candidate eitp_fit_candidate_default(void) {
    eitp_fit_candidate candidate = EITP__ZERO;
    candidate.optimizer = EITP_ADAMW;
    candidate.plan = eitp_plan_config_default();
    return candidate;
}

int eitp_fit_admits(const eitp_fit *fit, const eitp_fit_candidate *candidate) {
    return fit && candidate && (!fit->budget || candidate->total <= fit->budget) &&
           (!fit->device_budget || candidate->device <= fit->device_budget);
}

int eitp_fit_candidate_keeps(const eitp_fit_candidate *candidate, const eitp_fit_candidate *other) {
    return candidate && other && candidate->optimizer == other->optimizer && candidate->offload <= other->offload &&
           (!candidate->recomputed || other->recomputed);
}

eitp_status eitp_fit_measure(const eitp_fit *fit, eitp_fit_candidate *candidate, eitp_error *error) {
    if (!fit || !candidate || !fit->create_task)
        return eitp__fail_null(error, "eitp_fit_measure", "fit, fit->create_task and candidate");
    eitp__counter counter = EITP__ZERO;
    eitp_context *context = NULL;
    eitp_model *model;
    eitp_task task = EITP__ZERO;
    size_t resident = 0;
    eitp_status status = eitp__optimizer_check(candidate->optimizer, error);
    if (!status)
        status = eitp__resident_bytes(fit, &resident, error);
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

static eitp_status eitp__fail_budget(const char *what, size_t needed, size_t budget, eitp_error *error) {
    char texts[2][32];
    eitp_format_bytes(eitp__round_bytes(needed, 1), texts[0], sizeof texts[0]);
    eitp_format_bytes(eitp__round_bytes(budget, 0), texts[1], sizeof texts[1]);
    return eitp__fail(
        error, EITP_ERROR_MEMORY,
        "%s needs at least %s, which exceeds the budget of %s; raise it, or use a smaller model or shorter sequences",
        what, texts[0], texts[1]);
}

/* Fails for want of the memory that the smallest candidate needs too much of. */
static eitp_status eitp__fail_fit(const eitp_fit *fit, const eitp_fit_candidate *smallest, eitp_error *error) {
    return fit->device_budget && smallest->device > fit->device_budget
               ? eitp__fail_budget("the run's part in the memory of the device", smallest->device, fit->device_budget,
                                   error)
               : eitp__fail_budget("the run", smallest->total, fit->budget, error);
}

static eitp_status eitp__measure_candidate(void *user, eitp__run_candidate *candidate, eitp_error *error) {
    return eitp_fit_measure((const eitp_fit *)user, &candidate->fit, error);
}

/* The bytes by which the memory that has the arena exceeds its budget. */
static size_t eitp__excess(const eitp_fit *fit, const eitp_fit_candidate *candidate) {
    const size_t bytes = candidate->device ? candidate->device : candidate->total;
    const size_t budget = candidate->device ? fit->device_budget : fit->budget;
    return budget && bytes > budget ? bytes - budget : 0;
}

/* A candidate cannot run if the bytes that recomputation cannot reduce exceed the budget. */
static eitp_status eitp__measure_hopeful(void *user, eitp__run_candidate *candidate, eitp_error *error) {
    const eitp_fit *fit = (const eitp_fit *)user;
    eitp_fit_candidate *needs = &candidate->fit;
    eitp_status status = eitp_fit_measure(fit, needs, error);
    if (needs->plan.memory == fit->trainer.plan.memory && eitp__excess(fit, needs) > needs->arena + needs->workspace)
        needs->total = EITP__CANNOT_RUN;
    return status;
}

/* Lowers the memory of a pass by the excess of the latest candidate, unless that recomputes all it can. */
static int eitp__recompute_excess(const eitp__search *search, eitp__run_candidate *candidate) {
    const eitp_fit_candidate *latest = &search->latest.fit;
    const size_t excess = eitp__excess((const eitp_fit *)search->user, latest);
    const size_t pass = latest->arena + latest->workspace;
    const int is_minimal = latest->plan.memory && pass > latest->plan.memory;
    *candidate = search->latest;
    candidate->fit.plan.memory = excess < pass ? pass - excess : EITP_MINIMUM_MEMORY;
    return !latest->fits && excess && latest->plan.recompute == EITP_RECOMPUTE_AUTO && !is_minimal &&
           latest->total != EITP__CANNOT_RUN;
}

static int eitp__is_fixed_per_pass(const eitp__search *search) {
    return ((const eitp_fit *)search->user)->trainer.micro_batches_per_pass != 0;
}

/* Where recomputation cannot help, fewer micro-batches per pass only add stored gradients. */
static int eitp__fewer_if_hopeful(const eitp__search *search, eitp__run_candidate *candidate) {
    return !eitp__is_fixed_per_pass(search) && search->latest.fit.total != EITP__CANNOT_RUN &&
           eitp__fewer_per_pass(search, candidate);
}

static int eitp__one_per_pass(const eitp__search *search, eitp__run_candidate *candidate) {
    candidate->fit.micro_batches_per_pass = 1;
    return !eitp__is_fixed_per_pass(search) && search->latest.fit.micro_batches_per_pass > 1;
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

/* The next optimizer that is as faithful as one that fits, and could recompute less. */
static int eitp__next_optimizer(const eitp__search *search, eitp__run_candidate *candidate) {
    const eitp_fit *fit = (const eitp_fit *)search->user;
    const eitp_fit_candidate *best = &search->best.fit;
    for (int i = (int)candidate->fit.optimizer + 1; i < EITP_OPTIMIZER_COUNT; i++) {
        const eitp_optimizer next = candidate->fit.optimizer = (eitp_optimizer)i;
        if (best->fits &&
            (!best->recomputed || eitp_optimizer_get(next)->fidelity != eitp_optimizer_get(best->optimizer)->fidelity))
            return 0;
        if (eitp__is_eligible(fit, next))
            return 1;
    }
    return 0;
}

/* Since a file wears the disk, of any optimizer only compact ones are then tried. */
static int eitp__more_offload(const eitp__search *search, eitp__run_candidate *candidate) {
    const eitp_fit *fit = (const eitp_fit *)search->user;
    candidate->fit.offload = (eitp_offload)(candidate->fit.offload + 1);
    if (fit->any_optimizer && eitp__is_eligible(fit, EITP_ADAMW8))
        candidate->fit.optimizer = EITP_ADAMW8;
    return !search->best.fit.fits && fit->any_offload && candidate->fit.offload <= EITP_OFFLOAD_ALL;
}

/* Memory of the host wears nothing: all that one optimizer can offload comes before a less faithful one. */
static int eitp__more_offload_to_memory(const eitp__search *search, eitp__run_candidate *candidate) {
    candidate->fit.offload = (eitp_offload)(candidate->fit.offload + 1);
    return !search->best.fit.fits && ((const eitp_fit *)search->user)->any_offload &&
           candidate->fit.offload <= EITP_OFFLOAD_ALL;
}

/* The last two moves are the same. */
static const eitp__move eitp__fit_moves[][4] = {
    {{eitp__more_offload, 0}, {eitp__next_optimizer, 0}, {eitp__fewer_if_hopeful, 0}, {eitp__recompute_excess, 4}},
    {{eitp__next_optimizer, 0},
     {eitp__more_offload_to_memory, 0},
     {eitp__fewer_if_hopeful, 0},
     {eitp__recompute_excess, 4}}};

/* Measures the candidates that recompute all they can: the greedy search can miss a budget that they keep. */
static eitp_status eitp__search_smallest(eitp__search *search, eitp_error *error) {
    static const eitp__move moves[] = {{eitp__one_per_pass, 0}};
    const eitp_fit *fit = (const eitp_fit *)search->user;
    eitp__run_candidate start = search->latest;
    start.fit.micro_batches_per_pass = fit->trainer.micro_batches_per_pass;
    start.fit.plan = fit->trainer.plan;
    if (start.fit.plan.recompute == EITP_RECOMPUTE_AUTO)
        start.fit.plan.memory = EITP_MINIMUM_MEMORY;
    search->measure = eitp__measure_candidate;
    return eitp__search_run(search, moves, EITP__COUNT(moves), &start, error);
}

/* Opens a device that has its own memory, for it to stay open between candidates. *context is NULL for others: of those
   nothing need be known, and they take memory of the process. */
static eitp_status eitp__open_device(const eitp_fit *fit, eitp_context **context, eitp_error *error) {
    eitp_context_config config = fit->context;
    *context = NULL;
    if (!eitp__backend_may_have_memory(config.device))
        return EITP_OK;
    config.precision = "fp32";
    config.parameters = EITP_PARAMETERS_EXACT;
    config.offload = EITP_OFFLOAD_ALL;
    config.plans_only = 1;
    memset(&config.host.log, 0, sizeof config.host.log);
    return eitp_context_create(&config, context, error);
}

eitp_status eitp_fit_device_memory(const eitp_fit *fit, eitp_device_memory *memory, eitp_error *error) {
    if (!fit || !memory)
        return eitp__fail_null(error, "eitp_fit_device_memory", "fit and memory");
    eitp_context *context = NULL;
    eitp_status status = eitp__open_device(fit, &context, error);
    memset(memory, 0, sizeof *memory);
    if (context)
        status = eitp_context_device_memory(context, memory, error);
    eitp_context_destroy(context);
    return status;
}

static eitp_status eitp__choose_fit(const eitp_fit *fit, const eitp__move *moves, size_t count, eitp__search *search,
                                    eitp_error *error) {
    eitp__run_candidate start = EITP__ZERO;
    eitp_status status;
    search->measure = eitp__measure_hopeful;
    search->user = (void *)(uintptr_t)fit;
    search->budget = fit->budget;
    search->device_budget = fit->device_budget;
    start.fit.micro_batches_per_pass = fit->trainer.micro_batches_per_pass;
    start.fit.optimizer = fit->any_optimizer ? EITP_ADAMW : fit->trainer.optimizer_config.optimizer;
    start.fit.plan = fit->trainer.plan;
    start.fit.offload = fit->any_offload ? EITP_OFFLOAD_NONE : fit->context.offload;
    status = eitp__search_run(search, moves, count, &start, error);
    return status || search->best.fit.fits ? status : eitp__search_smallest(search, error);
}

eitp_status eitp_fit_choose(const eitp_fit *fit, eitp_fit_candidate *chosen, eitp_fit_candidate *smallest,
                            eitp_error *error) {
    if (!fit || !chosen)
        return eitp__fail_null(error, "eitp_fit_choose", "fit and chosen");
    eitp_fit request = *fit;
    eitp__search search = EITP__ZERO;
    eitp_context *device = NULL;
    eitp_status status = eitp__open_device(fit, &device, error);
    const int to_memory = device && device->offloaded.backend;
    /* Read once: what measuring leaves in the C library's heap is available to the run. */
    if (!status)
        status = eitp__resident_bytes(fit, &request.process, error);
    if (!status)
        status =
            eitp__choose_fit(&request, eitp__fit_moves[to_memory], EITP__COUNT(eitp__fit_moves[0]), &search, error);
    eitp_context_destroy(device);
    *chosen = search.best.fit;
    if (smallest)
        *smallest = search.smallest.fit;
    return status || chosen->fits ? status : eitp__fail_fit(&request, &search.smallest.fit, error);
}

/* ---- Prediction ---- */

eitp_status eitp_fit_predictor(const eitp_model *model, size_t budget, eitp_predictor_config *config, size_t *bytes,
                               eitp_error *error) {
    if (!model || !config || !bytes)
        return eitp__fail_null(error, "eitp_fit_predictor", "model, config and bytes");
    eitp_predictor_config planned = *config;
    const int64_t longest = config->max_length ? config->max_length : eitp_model_positions(model);
    const int64_t least = config->pass_tokens ? config->pass_tokens : longest;
    eitp_status status;
    if (!planned.pass_tokens)
        planned.pass_tokens = longest > EITP_PASS_TOKENS ? longest : EITP_PASS_TOKENS;
    do
        status = eitp_predictor_estimate(model, &planned, bytes, error);
    while (!status && eitp__halve_to_fit(*bytes, budget, least, &planned.pass_tokens));
    if (!status && budget && *bytes > budget)
        status = eitp__fail_budget("the predictor", *bytes, budget, error);
    if (!status)
        config->pass_tokens = planned.pass_tokens;
    return status;
}
