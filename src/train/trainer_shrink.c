/* Shrinking: searches a configuration that uses less memory, and switches to it. */
#include "base/log.h"
#include "tensor/context.h"
#include "tensor/plan.h"
#include "train/trainer.h"

/* Divisors of the arena: the part that shrinking should free, and the part below which it is not worth the work. */
#define EITP__SHRINK_GOAL 4
#define EITP__SHRINK_MIN 16

/* ---- Searching ---- */

/* A candidate configuration that uses less memory. bytes is 0 if there is none. */
typedef struct eitp__shrunk {
    eitp_trainer_config config;
    int64_t evaluation_samples;
    eitp__step_needs needs;
    size_t bytes;
} eitp__shrunk;

typedef struct eitp__search {
    eitp_trainer *trainer;
    size_t others; /* arena bytes that plans of the program need */
    size_t bytes;  /* current bytes of gradients and arena */
    size_t pass;   /* current bytes of arena and workspace of a pass */
    size_t goal;   /* bytes that should be freed */
    size_t min;    /* bytes that must be freed */
    eitp__shrunk best;
} eitp__search;

/* Halves the samples per pass and keeps those per step. Returns 0 if a pass has only one. */
static int eitp__halve_shape(eitp_step_shape *shape) {
    const int64_t limit = EITP__MAX_BATCH; /* of grad_accum */
    if (shape->micro_batches_per_pass > 1) {
        shape->micro_batches_per_pass /= 2;
        return 1;
    }
    if (shape->batch_size == 1)
        return 0;
    shape->micro_batches_per_pass = 1;
    if (shape->batch_size % 2 == 0 && shape->grad_accum <= limit / 2) {
        shape->batch_size /= 2;
        shape->grad_accum *= 2;
        return 1;
    }
    /* Half of an odd number, rounded up: the last pass of a step has fewer. */
    if (shape->grad_accum > limit / shape->batch_size)
        return 0;
    shape->micro_batches_per_pass = (shape->batch_size + 1) / 2;
    shape->grad_accum *= shape->batch_size;
    shape->batch_size = 1;
    return 1;
}

static int eitp__is_enough(const eitp__search *search, const eitp__shrunk *candidate) {
    return candidate->bytes && search->bytes - candidate->bytes >= search->goal;
}

/* The faster of two candidates that free enough, else the smaller. */
static int eitp__is_better(const eitp__search *search, const eitp__shrunk *candidate) {
    const eitp__shrunk *best = &search->best;
    const int is_enough = eitp__is_enough(search, candidate);
    if (candidate->bytes >= search->bytes || search->bytes - candidate->bytes < search->min)
        return 0;
    if (!best->bytes || is_enough != eitp__is_enough(search, best))
        return !best->bytes || is_enough;
    return is_enough ? candidate->needs.seconds < best->needs.seconds : candidate->bytes < best->bytes;
}

/* Estimates a configuration, and keeps it if it is the best so far. */
static eitp_status eitp__try_candidate(eitp__search *search, const eitp_step_shape *shape, size_t memory,
                                       eitp_error *error) {
    const eitp__step_plans *plans = &search->trainer->plans;
    eitp__shrunk candidate = EITP__ZERO;
    eitp_status status = EITP_OK;
    candidate.config = plans->config;
    eitp__set_step_shape(&candidate.config, shape);
    candidate.config.plan.memory = memory;
    /* A plan that does not fit `memory` is allowed what it needs, which may change what it needs. */
    for (int attempt = 0; attempt < 3; attempt++) {
        eitp__step_plans trial;
        eitp__step_plans_init(&trial, &plans->task, &candidate.config, plans->evaluation_samples);
        if (shape->micro_batches_per_pass > 1 && eitp__step_refuses_gaps(&trial))
            return EITP_OK;
        status = eitp__step_plans_estimate(&trial, search->others, &candidate.needs, error);
        if (status)
            return status;
        candidate.evaluation_samples = trial.evaluation_samples;
        if (!memory || candidate.needs.pass <= candidate.config.plan.memory) {
            candidate.bytes = candidate.needs.gradients + candidate.needs.arena;
            break;
        }
        candidate.config.plan.memory = candidate.needs.pass;
    }
    if (candidate.bytes && eitp__is_better(search, &candidate))
        search->best = candidate;
    return EITP_OK;
}

/* Tries the current shape in an arena without excess, with more recomputation, and half the samples per pass. */
static eitp_status eitp__search_candidates(eitp__search *search, eitp_error *error) {
    const eitp_plan_config *plan = &search->trainer->plans.config.plan;
    const size_t half = plan->recompute == EITP_RECOMPUTE_AUTO ? search->pass / 2 + 1 : 0;
    eitp_step_shape shape = eitp_trainer_shape(search->trainer);
    eitp_status status = eitp__try_candidate(search, &shape, plan->memory, error);
    if (!status && half)
        status = eitp__try_candidate(search, &shape, half, error);
    /* Gradients that move to variables may outweigh the savings until a pass has very few samples. */
    for (int i = 0; !status && (i == 0 || !eitp__is_enough(search, &search->best)) && eitp__halve_shape(&shape); i++) {
        status = eitp__try_candidate(search, &shape, plan->memory, error);
        if (!status && half)
            status = eitp__try_candidate(search, &shape, half, error);
    }
    return status;
}

/* ---- Switching ---- */

static size_t eitp__gradient_bytes(const eitp_trainer *trainer) {
    return eitp_context_variable_bytes(trainer->plans.task.context, EITP_GRADIENT);
}

static size_t eitp__bytes_now(const eitp_trainer *trainer) {
    return eitp__gradient_bytes(trainer) + eitp__arena_needed(trainer->plans.task.context);
}

static eitp__search eitp__begin_search(eitp_trainer *trainer) {
    const eitp_graph *const own[3] = {trainer->plans.pass.graph, trainer->plans.update_graph,
                                      trainer->plans.evaluator.pass.graph};
    const eitp_context *context = trainer->plans.task.context;
    eitp_plan_stats pass = eitp_trainer_statistics(trainer);
    eitp__search search = EITP__ZERO;
    search.trainer = trainer;
    search.others = eitp__plans_max_bytes(context, own);
    search.bytes = eitp__bytes_now(trainer);
    search.pass = pass.arena_bytes + pass.workspace_bytes;
    search.goal = eitp__arena_needed(context) / EITP__SHRINK_GOAL;
    search.min = eitp__arena_needed(context) / EITP__SHRINK_MIN + 1;
    return search;
}

static void eitp__log_shrink(const eitp_trainer *trainer, const eitp_shrink_report *report) {
    const eitp_step_shape *a = &report->before, *b = &report->after;
    char after[32], before[32];
    eitp_format_bytes(report->bytes_after, after, sizeof after);
    eitp_format_bytes(report->bytes_before, before, sizeof before);
    if (eitp__step_shapes_equal(a, b))
        eitp__log(&trainer->host, EITP_LOG_WARNING,
                  "shrunk after step %lld: arena and gradients take %s instead of %s; %d values are recomputed, and "
                  "results stay bit-identical",
                  (long long)trainer->step, after, before, report->recomputed);
    else
        eitp__log(&trainer->host, EITP_LOG_WARNING,
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
    eitp__search search;
    eitp_status status;
    if (!trainer || !report)
        return eitp__fail_null(error, "eitp_trainer_shrink", "trainer and report");
    search = eitp__begin_search(trainer);
    status = eitp__trainer_check_whole(trainer, error);
    memset(report, 0, sizeof *report);
    report->before = report->after = eitp_trainer_shape(trainer);
    report->bytes_before = report->bytes_after = search.bytes;
    eitp__read_ahead_cancel(&trainer->plans.ahead);
    if (!status && eitp__step_plans_exist(&trainer->plans))
        status = eitp__search_candidates(&search, error);
    if (status || !search.best.bytes)
        return status;
    status = eitp__step_plans_rebuild(&trainer->plans, &search.best.config, search.best.evaluation_samples, error);
    if (status)
        return status;
    report->shrunk = 1;
    report->after = eitp_trainer_shape(trainer);
    report->bytes_after = eitp__bytes_now(trainer);
    report->recomputed = eitp_trainer_statistics(trainer).recomputed;
    eitp__log_shrink(trainer, report);
    return EITP_OK;
}
