/* Shrinking: searches for a configuration that uses less memory, and switches to it. */
#include "base/log.h"
#include "tensor/context.h"
#include "tensor/plan.h"
#include "train/memory_search.h"
#include "train/trainer.h"

/* Shrinking should free 1 / GOAL of the arena, and must free more than 1 / MIN of it. */
#define EITP__SHRINK_GOAL 4
#define EITP__SHRINK_MIN 16

/* ---- Searching ---- */

typedef struct eitp__shrinking {
    const eitp_trainer *trainer;
    size_t others; /* arena bytes needed by the program's other plans */
    size_t half;   /* half the arena and workspace of a pass */
} eitp__shrinking;

static eitp_trainer_config eitp__config_of(const eitp_trainer *trainer, const eitp__run_candidate *candidate) {
    eitp_trainer_config config = trainer->plans.config;
    config.batch_size = candidate->batch_size;
    config.grad_accum = candidate->grad_accum;
    config.micro_batches_per_pass = candidate->fit.micro_batches_per_pass;
    config.plan = candidate->fit.plan;
    return config;
}

static eitp_status eitp__estimate_candidate(void *user, eitp__run_candidate *candidate, eitp_error *error) {
    const eitp__shrinking *shrinking = (const eitp__shrinking *)user;
    const eitp__step_plans *plans = &shrinking->trainer->plans;
    const eitp_trainer_config config = eitp__config_of(shrinking->trainer, candidate);
    eitp__step_plans *trial = (eitp__step_plans *)eitp__allocate(&plans->host, sizeof *trial);
    eitp_status status = EITP_OK;
    if (!trial)
        return eitp__fail_memory(error, sizeof *trial, "the plans of a step");
    eitp__step_plans_init(trial, &plans->task, &config, plans->evaluation_samples);
    candidate->fit.total = EITP__CANNOT_RUN;
    if (config.micro_batches_per_pass == 1 || !eitp__step_refuses_gaps(trial)) {
        status = eitp__step_plans_estimate(trial, shrinking->others, &candidate->fit, error);
        candidate->fit.plan = trial->config.plan;
        candidate->evaluation_samples = trial->evaluation_samples;
    }
    eitp__release(&plans->host, trial, sizeof *trial);
    return status;
}

/* Halves the micro-batch and keeps the samples per step. */
static int eitp__smaller_batch(eitp__run_candidate *candidate) {
    const int64_t batch_size = candidate->batch_size, limit = EITP__MAX_BATCH; /* `limit` applies to grad_accum */
    if (batch_size % 2 == 0 && candidate->grad_accum <= limit / 2) {
        candidate->fit.micro_batches_per_pass = 1;
        candidate->batch_size /= 2;
        candidate->grad_accum *= 2;
        return 1;
    }
    /* Half of an odd number, rounded up; the last pass of a step has fewer samples. */
    candidate->fit.micro_batches_per_pass = (batch_size + 1) / 2;
    candidate->batch_size = 1;
    candidate->grad_accum *= batch_size;
    return batch_size > 1 && candidate->grad_accum <= limit;
}

/* Halves the samples per pass, at least once, until enough memory is freed: gradients that move to variables may
   outweigh the savings until a pass has very few samples. */
static int eitp__fewer_samples(const eitp__search *search, eitp__run_candidate *candidate) {
    const eitp_trainer_config *now = &((const eitp__shrinking *)search->user)->trainer->plans.config;
    const int64_t per_pass = candidate->fit.micro_batches_per_pass;
    if (per_pass == 1 && now->objective.group == EITP_GROUP_MICRO_BATCH)
        return 0; /* half a micro-batch has other statistics */
    if (search->best.fit.fits && candidate->batch_size * per_pass < now->batch_size * now->micro_batches_per_pass)
        return 0;
    return per_pass > 1 ? eitp__fewer_per_pass(search, candidate) : eitp__smaller_batch(candidate);
}

/* Recomputes until a pass takes half its memory. */
static int eitp__recompute_half(const eitp__search *search, eitp__run_candidate *candidate) {
    const size_t half = ((const eitp__shrinking *)search->user)->half;
    const int is_other = candidate->fit.plan.memory != half;
    candidate->fit.plan.memory = half;
    return is_other && candidate->fit.plan.recompute == EITP_RECOMPUTE_AUTO && !search->latest.fit.fits;
}

static size_t eitp__bytes_now(const eitp_trainer *trainer) {
    const eitp_context *context = trainer->plans.task.context;
    return eitp_context_variable_bytes(context, EITP_GRADIENT) + eitp__arena_needed(context);
}

/* Returns the bytes of the largest plan that is not the trainer's. */
static size_t eitp__other_plans_bytes(const eitp__step_plans *plans) {
    const eitp_graph *own[4 + 2 * EITP__MAX_PROBES];
    int count = 3;
    own[0] = plans->pass.graph;
    own[1] = plans->update_graph;
    own[2] = plans->evaluator.pass.graph;
    for (int i = 0; i < plans->probes.count; i++)
        own[count++] = plans->probes.of[i].pass.graph;
    for (int i = 0; i < plans->term_norms.count; i++)
        own[count++] = plans->term_norms.passes[i].pass.graph;
    return eitp__plans_max_bytes(plans->task.context, own, count);
}

/* Finds the fastest configuration that frees enough, otherwise the smallest. EITP__CANNOT_RUN if none is smaller. */
static eitp_status eitp__search_smaller(const eitp_trainer *trainer, eitp__run_candidate *found, eitp_error *error) {
    static const eitp__move moves[] = {eitp__fewer_samples, eitp__recompute_half};
    const eitp__step_plans *plans = &trainer->plans;
    const eitp_plan_stats pass = eitp_trainer_statistics(trainer);
    const size_t bytes = eitp__bytes_now(trainer), arena = eitp__arena_needed(plans->task.context);
    eitp__shrinking shrinking = {trainer, eitp__other_plans_bytes(plans),
                                 (pass.arena_bytes + pass.workspace_bytes) / 2 + 1};
    eitp__search search = EITP__ZERO;
    eitp__run_candidate now = EITP__ZERO;
    eitp_status status;
    now.batch_size = plans->config.batch_size;
    now.grad_accum = plans->config.grad_accum;
    now.fit.micro_batches_per_pass = plans->config.micro_batches_per_pass;
    now.fit.plan = plans->config.plan;
    search.measure = eitp__estimate_candidate;
    search.user = &shrinking;
    search.budget = bytes - arena / EITP__SHRINK_GOAL;
    status = eitp__search_run(&search, moves, EITP__COUNT(moves), &now, error);
    *found = search.best.fit.fits ? search.best : search.smallest;
    if (found->fit.total >= bytes - arena / EITP__SHRINK_MIN)
        found->fit.total = EITP__CANNOT_RUN;
    return status;
}

/* ---- Switching ---- */

static void eitp__log_shrink(const eitp_trainer *trainer, const eitp_shrink_report *report) {
    const eitp_step_shape *a = &report->before, *b = &report->after;
    char after[32], before[32];
    eitp_format_bytes(report->bytes_after, after, sizeof after);
    eitp_format_bytes(report->bytes_before, before, sizeof before);
    if (eitp__step_shapes_equal(a, b))
        eitp__log_line(&trainer->host, EITP_LOG_WARNING,
                       "shrunk after step %lld: arena and gradients take %s instead of %s; %d values are recomputed; "
                       "results stay bit-identical",
                       (long long)trainer->step, after, before, report->recomputed);
    else
        eitp__log_line(&trainer->host, EITP_LOG_WARNING,
                       "shrunk after step %lld: arena and gradients take %s instead of %s; batch size %lld, "
                       "accumulation %lld, %lld per pass instead of %lld, %lld, %lld: the same samples per step, %s",
                       (long long)trainer->step, after, before, (long long)b->batch_size, (long long)b->grad_accum,
                       (long long)b->micro_batches_per_pass, (long long)a->batch_size, (long long)a->grad_accum,
                       (long long)a->micro_batches_per_pass,
                       eitp__step_shapes_keep_bits(&trainer->plans, a, b)
                           ? "and bit-identical results"
                           : "but the last bits differ from a run that was not shrunk");
}

eitp_status eitp_trainer_shrink(eitp_trainer *trainer, eitp_shrink_report *report, eitp_error *error) {
    eitp__run_candidate found = EITP__ZERO;
    eitp_trainer_config config;
    eitp_status status;
    if (!trainer || !report)
        return eitp__fail_null(error, "eitp_trainer_shrink", "trainer and report");
    status = eitp__trainer_check_whole(trainer, error);
    memset(report, 0, sizeof *report);
    report->before = report->after = eitp_trainer_shape(trainer);
    report->bytes_before = report->bytes_after = eitp__bytes_now(trainer);
    eitp__read_ahead_cancel(&trainer->plans.ahead);
    found.fit.total = EITP__CANNOT_RUN;
    if (!status && eitp__step_plans_exist(&trainer->plans))
        status = eitp__search_smaller(trainer, &found, error);
    if (status || found.fit.total == EITP__CANNOT_RUN)
        return status;
    config = eitp__config_of(trainer, &found);
    status = eitp__step_plans_rebuild(&trainer->plans, &config, found.evaluation_samples, error);
    if (status)
        return status;
    report->shrunk = 1;
    report->after = eitp_trainer_shape(trainer);
    report->bytes_after = eitp__bytes_now(trainer);
    report->recomputed = eitp_trainer_statistics(trainer).recomputed;
    eitp__log_shrink(trainer, report);
    return EITP_OK;
}
