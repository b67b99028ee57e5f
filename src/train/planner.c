/*
 * Memory planning. A candidate is measured by creating its task, variables, graphs and plans in a context without
 * memory for variables and arena, through a counting allocator.
 */
#include "optim/optimizers.h"
#include "tensor/context.h"
#include "tensor/graph.h"
#include "tensor/plan.h"
#include "train/memory_search.h"
#include "train/trainer.h"

/* Memory that the allocator does not count: stacks, partly used pages and file buffers. Also memory that a control
   group counts in addition to the process: page tables, 8 bytes per page, and dirty pages of the offload file. */
#define EITP__PROCESS_SLACK ((size_t)4 << 20)
#define EITP__PAGE_TABLES 512
#define EITP__OFFLOAD_SLACK ((size_t)3 << 20)

/* An allocator that counts bytes. */
typedef struct eitp__counter {
    eitp_allocator allocator;    /* performs the allocations */
    const eitp_context *context; /* NULL until it is created */
    size_t now;                  /* bytes currently allocated */
    size_t peak;                 /* maximum of allocated memory plus the context's arena */
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

/* Returns the precision of a candidate: with "auto", compact weights are BF16. */
static const char *eitp__candidate_precision(const eitp_fit *fit, eitp_optimizer optimizer) {
    const char *requested = fit->context.precision;
    int is_compact = eitp_optimizer_get(optimizer)->parameters != EITP_PARAMETERS_EXACT;
    return is_compact && requested && !strcmp(requested, "auto") ? "bf16" : requested;
}

/* Returns the bytes of the logits that the losses of a pass store at a time. */
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

static void eitp__fill_candidate(const eitp_fit *fit, const eitp__step_plans *plans, const eitp__counter *counter,
                                 size_t resident, eitp_fit_candidate *candidate) {
    const eitp_context *context = plans->task.context;
    const eitp_plan_stats pass = eitp_plan_statistics(plans->gradient_plan);
    const eitp_plan_stats update = eitp_plan_statistics(plans->update_plan);
    uint64_t checkpoint, largest;
    eitp__step_plans_count(plans, &pass, &update, candidate);
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
    if (eitp__context_has_device_memory(context)) {
        candidate->device = candidate->total;
        candidate->total = context->offloaded.backend ? candidate->offloaded : 0;
    }
    candidate->records = fit->record_bytes ? fit->record_bytes(fit->user, &plans->task) : 0;
    candidate->process += candidate->total / EITP__PAGE_TABLES;
    candidate->total += candidate->records + candidate->process;
    eitp__checkpoint_size(&plans->task, plans->config.save_dtype, &checkpoint, &largest);
    candidate->checkpoint = (size_t)checkpoint;
    candidate->fits = eitp_fit_admits(fit, candidate);
}

/* Stores the resident bytes of the process: the caller's value, or the current one. */
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
    return eitp__fail(error, EITP_ERROR_MEMORY,
                      "%s needs at least %s, which exceeds the budget of %s; raise the budget, or use a smaller model "
                      "or shorter sequences",
                      what, texts[0], texts[1]);
}

/* Fails because the smallest candidate needs more memory than its budget. */
static eitp_status eitp__fail_fit(const eitp_fit *fit, const eitp_fit_candidate *smallest, eitp_error *error) {
    return fit->device_budget && smallest->device > fit->device_budget
               ? eitp__fail_budget("the run's part in the memory of the device", smallest->device, fit->device_budget,
                                   error)
               : eitp__fail_budget("the run", smallest->total, fit->budget, error);
}

/* Returns the size of the memory that contains the arena: a device's own, or the process's. */
static size_t eitp__size_of(const eitp_fit_candidate *candidate) {
    return candidate->device ? candidate->device : candidate->total;
}

static size_t eitp__budget_of(const eitp_fit *fit, const eitp_fit_candidate *candidate) {
    return candidate->device ? fit->device_budget : fit->budget;
}

/* Returns the bytes common to every configuration with this optimizer and offloading. */
static size_t eitp__state_bytes(const eitp_fit_candidate *candidate) {
    return candidate->parameters + candidate->states;
}

/* Returns the bytes of a candidate that recomputation cannot reduce. */
static size_t eitp__fixed_bytes(const eitp_fit_candidate *candidate) {
    return eitp__size_of(candidate) - candidate->arena - candidate->workspace;
}

/* True if the optimizer may be chosen: it supports the requested precision, and differs in it from the optimizers
   before it. */
static int eitp__is_eligible(const eitp_fit *fit, eitp_optimizer optimizer) {
    const char *requested = fit->context.precision;
    int may_be_bf16 = requested && (!strcmp(requested, "auto") || !strcmp(requested, "bf16"));
    if (!fit->any_optimizer)
        return optimizer == fit->trainer.optimizer_config.optimizer;
    if (eitp_optimizer_get(optimizer)->fidelity == EITP_DIFFERENT_ALGORITHM)
        return 0;
    if (optimizer == EITP_ADAMW || may_be_bf16)
        return 1;
    /* In fp32 weights are not rounded, so adamw8-sr is the same as adamw8. */
    return optimizer != EITP_ADAMW8_SR && (!requested || strcmp(requested, "fp16"));
}

enum { EITP__OFFLOADS = EITP_OFFLOAD_ALL + 1, EITP__FIDELITIES = EITP_DIFFERENT_ALGORITHM + 1 };

/* A search for the fastest configuration that fits, with one length and one place for the variables. */
typedef struct eitp__fit_search {
    const eitp_fit *fit;
    int exceeds_budget[EITP__OFFLOADS][EITP_OPTIMIZER_COUNT]; /* weights and state alone exceed the budget */
    int64_t length;
    eitp_offload offload;
    int to_memory;           /* offloaded variables are in other memory, not in a file */
    double floor;            /* no configuration of the fidelity counts as faster than this many seconds; 0: unknown */
    eitp_fit_candidate best; /* best.fits is 0 until one fits */
} eitp__fit_search;

static void eitp__consider(eitp__fit_search *search, eitp_fit_candidate *candidate, double floor) {
    if (candidate->seconds < floor)
        candidate->seconds = floor;
    if (candidate->fits && (!search->best.fits || candidate->seconds < search->best.seconds))
        search->best = *candidate;
}

/* True if no configuration that takes this time or longer can become the best. */
static int eitp__is_beaten(const eitp__fit_search *search, double seconds) {
    return search->best.fits && search->best.seconds <= seconds;
}

/* Returns the next number of micro-batches per pass to try: halves of the trainer's choice `first`, and finally the
   whole step in one pass, which stores no gradients. 0: no more. */
static int64_t eitp__next_per_pass(const eitp_fit *fit, int64_t first, int64_t per_pass) {
    if (fit->trainer.micro_batches_per_pass || per_pass > first)
        return 0;
    if (per_pass > 1)
        return per_pass / 2;
    return first < fit->trainer.grad_accum ? fit->trainer.grad_accum : 0;
}

/* Measures a configuration that stores as much as the trainer's plan allows. `first` is the trainer's choice of
   micro-batches per pass; 0: not yet chosen. A larger pass that cannot be built has EITP__CANNOT_RUN. */
static eitp_status eitp__measure_kept(const eitp__fit_search *search, eitp_optimizer optimizer, int64_t first,
                                      int64_t per_pass, eitp_fit_candidate *kept, eitp_error *error) {
    eitp_status status;
    *kept = eitp_fit_candidate_default();
    kept->optimizer = optimizer;
    kept->micro_batches_per_pass = per_pass;
    kept->plan = search->fit->trainer.plan;
    kept->offload = search->offload;
    kept->length = search->length;
    status = eitp_fit_measure(search->fit, kept, error);
    if (!status || !first || per_pass <= first || status == EITP_ERROR_MEMORY || status == EITP_ERROR_INTERRUPTED)
        return status;
    kept->total = EITP__CANNOT_RUN;
    kept->fits = 0;
    return EITP_OK;
}

/* Measures the same configuration with a memory limit for a pass. */
static eitp_status eitp__measure_limited(const eitp__fit_search *search, const eitp_fit_candidate *kept, size_t memory,
                                         eitp_fit_candidate *limited, eitp_error *error) {
    *limited = *kept;
    limited->plan.memory = memory;
    return eitp_fit_measure(search->fit, limited, error);
}

/*
 * Limits of a pass between its minimum memory and the memory of a pass that recomputes nothing. They do not depend on
 * the budget, which only decides which of them fit. Recomputed values are chosen greedily, so a lower limit can be
 * faster, but by less than this fraction: once a limit is slower by it, lower limits are slower too.
 */
enum { EITP__MEMORY_LEVELS = 16 };
#define EITP__GREEDY_LOSS 0.1

static eitp_status eitp__search_levels(eitp__fit_search *search, const eitp_fit_candidate *kept,
                                       const eitp_fit_candidate *least, eitp_error *error) {
    const size_t low = least->arena + least->workspace, high = kept->arena + kept->workspace;
    const size_t budget = eitp__budget_of(search->fit, least);
    const size_t room = budget ? low + (budget - eitp__size_of(least)) : SIZE_MAX;
    const size_t part = high > low ? (high - low) / EITP__MEMORY_LEVELS : 0;
    double fastest = INFINITY, latest = 0;
    eitp_fit_candidate candidate;
    eitp_status status = EITP_OK;
    for (size_t level = EITP__MEMORY_LEVELS - 1; level && part && !status; level--) {
        if (low + level * part > room)
            continue;
        if (eitp__is_beaten(search, kept->seconds) || latest > (1 + EITP__GREEDY_LOSS) * fastest)
            break;
        status = eitp__measure_limited(search, kept, low + level * part, &candidate, error);
        if (!status)
            eitp__consider(search, &candidate, kept->seconds);
        latest = candidate.seconds;
        fastest = latest < fastest ? latest : fastest;
    }
    return status;
}

/* Considers a configuration that stores everything and, if it does not fit, those that recompute. */
static eitp_status eitp__search_recompute(eitp__fit_search *search, eitp_fit_candidate *kept, eitp_error *error) {
    const size_t budget = eitp__budget_of(search->fit, kept);
    eitp_fit_candidate least;
    eitp_status status;
    eitp__consider(search, kept, search->floor);
    if (kept->fits || kept->total == EITP__CANNOT_RUN || kept->plan.recompute != EITP_RECOMPUTE_AUTO ||
        eitp__is_beaten(search, kept->seconds) || (budget && eitp__fixed_bytes(kept) > budget))
        return EITP_OK;
    status = eitp__measure_limited(search, kept, EITP_MINIMUM_MEMORY, &least, error);
    if (status)
        return status;
    eitp__consider(search, &least, kept->seconds);
    return least.fits ? eitp__search_levels(search, kept, &least, error) : EITP_OK;
}

static eitp_status eitp__search_optimizer(eitp__fit_search *search, eitp_optimizer optimizer, eitp_error *error) {
    int64_t first = 0, per_pass = search->fit->trainer.micro_batches_per_pass;
    int *exceeds_budget = &search->exceeds_budget[search->offload][optimizer];
    eitp_status status = EITP_OK;
    if (*exceeds_budget)
        return EITP_OK;
    do {
        eitp_fit_candidate kept;
        status = eitp__measure_kept(search, optimizer, first, per_pass, &kept, error);
        first = first ? first : kept.micro_batches_per_pass;
        search->floor = search->floor > 0 ? search->floor : kept.seconds;
        *exceeds_budget =
            eitp__budget_of(search->fit, &kept) && eitp__state_bytes(&kept) > eitp__budget_of(search->fit, &kept);
        if (!status && !*exceeds_budget)
            status = eitp__search_recompute(search, &kept, error);
        per_pass = eitp__next_per_pass(search->fit, first, kept.micro_batches_per_pass);
    } while (!status && per_pass && !*exceeds_budget && !eitp__is_beaten(search, search->floor));
    return status;
}

/* True if an optimizer may be used with this offloading. Since a file wears the disk, any_optimizer then allows only
   compact optimizers if the precision has them. */
static int eitp__may_offload(const eitp__fit_search *search, eitp_optimizer optimizer) {
    return !search->offload || search->to_memory || !search->fit->any_optimizer || optimizer >= EITP_ADAMW8 ||
           !eitp__is_eligible(search->fit, EITP_ADAMW8);
}

/* Finds the best configuration of a fidelity. */
static eitp_status eitp__search_fidelity(eitp__fit_search *search, eitp_fidelity fidelity, eitp_error *error) {
    eitp_status status = EITP_OK;
    search->floor = 0;
    for (int i = 0; i < EITP_OPTIMIZER_COUNT && !status; i++) {
        const eitp_optimizer optimizer = (eitp_optimizer)i;
        if (eitp_optimizer_get(optimizer)->fidelity == fidelity && eitp__is_eligible(search->fit, optimizer) &&
            eitp__may_offload(search, optimizer) && !(search->floor > 0 && eitp__is_beaten(search, search->floor)))
            status = eitp__search_optimizer(search, optimizer, error);
    }
    return status;
}

static int eitp__offload_is_allowed(const eitp_fit *fit, int is_shortest, eitp_offload offload) {
    return fit->any_offload ? offload == EITP_OFFLOAD_NONE || is_shortest : offload == fit->context.offload;
}

/* Finds the best configuration with a length, which is in use. */
static eitp_status eitp__search_length(eitp__fit_search *search, int is_shortest, eitp_error *error) {
    const eitp_fit *fit = search->fit;
    eitp_status status = EITP_OK;
    for (int i = 0; i < EITP__OFFLOADS * EITP__FIDELITIES && !status && !search->best.fits; i++) {
        const int fidelity = search->to_memory ? i / EITP__OFFLOADS : i % EITP__FIDELITIES;
        search->offload = (eitp_offload)(search->to_memory ? i % EITP__OFFLOADS : i / EITP__FIDELITIES);
        if (eitp__offload_is_allowed(fit, is_shortest, search->offload) &&
            (is_shortest || !fit->any_optimizer || fidelity < EITP_APPROXIMATE))
            status = eitp__search_fidelity(search, (eitp_fidelity)fidelity, error);
    }
    return status;
}

static eitp_status eitp__use_length(const eitp_fit *fit, int64_t length, eitp_error *error) {
    return fit->length_count ? fit->use_length(fit->user, length, error) : EITP_OK;
}

/* Finds the configuration of an optimizer that uses the least memory. Replaces *least if it uses less. */
static eitp_status eitp__find_least(const eitp__fit_search *search, eitp_optimizer optimizer, eitp_fit_candidate *least,
                                    eitp_error *error) {
    int64_t first = 0, per_pass = search->fit->trainer.micro_batches_per_pass;
    eitp_status status = EITP_OK;
    do {
        eitp_fit_candidate candidate;
        status = eitp__measure_kept(search, optimizer, first, per_pass, &candidate, error);
        first = first ? first : candidate.micro_batches_per_pass;
        per_pass = eitp__next_per_pass(search->fit, first, candidate.micro_batches_per_pass);
        if (!status && least->total && eitp__state_bytes(&candidate) >= eitp__size_of(least))
            return EITP_OK;
        if (status || candidate.total == EITP__CANNOT_RUN ||
            (least->total && eitp__fixed_bytes(&candidate) >= eitp__size_of(least)))
            continue;
        if (candidate.plan.recompute == EITP_RECOMPUTE_AUTO) {
            const eitp_fit_candidate kept = candidate;
            status = eitp__measure_limited(search, &kept, EITP_MINIMUM_MEMORY, &candidate, error);
        }
        if (!status && (!least->total || eitp__size_of(&candidate) < eitp__size_of(least)))
            *least = candidate;
    } while (!status && per_pass);
    return status;
}

/* Finds the configuration that uses the least memory with the shortest length, which is in use. */
static eitp_status eitp__find_smallest(eitp__fit_search *search, eitp_fit_candidate *smallest, eitp_error *error) {
    eitp_status status = EITP_OK;
    memset(smallest, 0, sizeof *smallest);
    for (int i = 0; i < EITP__OFFLOADS * EITP_OPTIMIZER_COUNT && !status; i++) {
        /* The optimizers that store the least come first, and rule out others. */
        const eitp_optimizer optimizer = (eitp_optimizer)(EITP_OPTIMIZER_COUNT - 1 - i % EITP_OPTIMIZER_COUNT);
        search->offload = (eitp_offload)(EITP_OFFLOAD_ALL - i / EITP_OPTIMIZER_COUNT);
        if (eitp__offload_is_allowed(search->fit, 1, search->offload) && eitp__is_eligible(search->fit, optimizer) &&
            eitp__may_offload(search, optimizer))
            status = eitp__find_least(search, optimizer, smallest, error);
    }
    smallest->fits = eitp_fit_admits(search->fit, smallest);
    return status;
}

/* Opens a device that has its own memory, to keep it open between candidates. *context is NULL for other devices, which
   use the memory of the process and need no measurement. */
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

/* Initializes a search, and keeps a device open for it. */
static eitp_status eitp__begin_search(const eitp_fit *fit, eitp_fit *request, eitp__fit_search *search,
                                      eitp_context **device, eitp_error *error) {
    eitp_status status = eitp__optimizer_check(fit->trainer.optimizer_config.optimizer, error);
    if (!status)
        status = eitp__open_device(fit, device, error);
    *request = *fit;
    memset(search, 0, sizeof *search);
    search->fit = request;
    search->offload = fit->any_offload ? EITP_OFFLOAD_NONE : fit->context.offload;
    search->to_memory = *device && (*device)->offloaded.backend;
    /* Read once: memory that measuring leaves in the C library's heap is available to the run. */
    return status ? status : eitp__resident_bytes(fit, &request->process, error);
}

size_t eitp_fit_lengths(int64_t positions, int64_t lengths[EITP_FIT_LENGTHS]) {
    enum { SHORTEST = 64, LONGEST = 2048 };
    const int64_t longest = positions < LONGEST ? positions : (int64_t)LONGEST;
    const int64_t shortest = longest < SHORTEST ? longest : (int64_t)SHORTEST;
    size_t count = 0;
    if (!lengths || positions < 1)
        return 0;
    for (int64_t length = longest; length > shortest; length /= 2)
        lengths[count++] = length;
    lengths[count++] = shortest;
    return count;
}

eitp_status eitp_fit_choose(const eitp_fit *fit, eitp_fit_candidate *chosen, eitp_fit_candidate *smallest,
                            eitp_error *error) {
    if (!fit || !chosen || (fit->length_count && (!fit->lengths || !fit->use_length)))
        return eitp__fail_null(error, "eitp_fit_choose", "fit, chosen, and with lengths fit->use_length");
    eitp_fit request;
    eitp__fit_search search;
    eitp_fit_candidate least = EITP__ZERO;
    eitp_context *device = NULL;
    const size_t lengths = fit->length_count ? fit->length_count : 1;
    eitp_status status = eitp__begin_search(fit, &request, &search, &device, error);
    for (size_t i = fit->least ? lengths - 1 : 0; i < lengths && !status && !search.best.fits; i++) {
        search.length = fit->length_count ? fit->lengths[i] : 0;
        status = eitp__use_length(fit, search.length, error);
        if (!status && !fit->least)
            status = eitp__search_length(&search, i == lengths - 1, error);
    }
    *chosen = least = search.best;
    if (!status && !chosen->fits && (smallest || error || fit->least))
        status = eitp__find_smallest(&search, &least, error);
    if (!status && fit->least && least.fits)
        *chosen = least;
    eitp_context_destroy(device);
    if (smallest)
        *smallest = least;
    return status || chosen->fits ? status : eitp__fail_fit(&request, &least, error);
}

/* Returns the optimizer that stores the least among those with at most this loss of fidelity, or the trainer's if it is
   fixed. */
static eitp_optimizer eitp__smallest_optimizer(const eitp_fit *fit, eitp_fidelity most) {
    eitp_optimizer found = fit->trainer.optimizer_config.optimizer;
    for (int i = 0; i < EITP_OPTIMIZER_COUNT; i++) {
        if (eitp__is_eligible(fit, (eitp_optimizer)i) && eitp_optimizer_get((eitp_optimizer)i)->fidelity <= most)
            found = (eitp_optimizer)i;
    }
    return found;
}

static eitp_status eitp__price_longer(eitp__fit_search *search, const eitp_fit_candidate *chosen,
                                      eitp_fit_candidate *longer, eitp_error *error) {
    const eitp_fit *fit = search->fit;
    size_t i = 0;
    eitp_status status;
    while (i < fit->length_count && fit->lengths[i] != chosen->length)
        i++;
    if (!i || i == fit->length_count)
        return EITP_OK;
    search->length = fit->lengths[i - 1];
    status = eitp__use_length(fit, search->length, error);
    if (!status)
        status = eitp__find_least(search, eitp__smallest_optimizer(fit, EITP_SEED_NOISE), longer, error);
    search->length = chosen->length;
    return status ? status : eitp__use_length(fit, search->length, error);
}

static eitp_status eitp__price_kept(const eitp__fit_search *search, const eitp_fit_candidate *chosen,
                                    eitp_fit_candidate *kept, eitp_error *error) {
    *kept = *chosen;
    kept->plan.memory = search->fit->trainer.plan.memory;
    return eitp_fit_measure(search->fit, kept, error);
}

eitp_status eitp_fit_find_price(const eitp_fit *fit, const eitp_fit_candidate *chosen, eitp_fit_price *price,
                                eitp_error *error) {
    if (!fit || !chosen || !price)
        return eitp__fail_null(error, "eitp_fit_find_price", "fit, chosen and price");
    eitp_fit request;
    eitp__fit_search search;
    eitp_context *device = NULL;
    const eitp_fidelity fidelity = eitp_optimizer_get(chosen->optimizer)->fidelity;
    eitp_status status;
    memset(price, 0, sizeof *price);
    if (fit->least)
        return EITP_OK;
    status = eitp__begin_search(fit, &request, &search, &device, error);
    if (!status)
        status = eitp__price_longer(&search, chosen, &price->longer, error);
    search.length = chosen->length;
    if (!status && fit->any_optimizer && fidelity > EITP_SAME_BITS)
        status = eitp__find_least(&search, eitp__smallest_optimizer(fit, (eitp_fidelity)(fidelity - 1)),
                                  &price->faithful, error);
    search.offload = chosen->offload;
    if (!status && chosen->plan.recompute == EITP_RECOMPUTE_AUTO && chosen->recomputed)
        status = eitp__price_kept(&search, chosen, &price->kept, error);
    eitp_context_destroy(device);
    return status;
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
