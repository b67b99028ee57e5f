/* Failures with regularizers: failing allocations, non-finite values, and plans with a memory limit. */
#include "tests/support/language_fit.h"
#include "tests/support/shrinking.h"
#include "tests/support/trainer_run.h"

#include <math.h>

static char directory_[512];

/* Returns an objective with every regularizer as a loss, with a cap. */
static eitp_objective_config every_regularizer(void) {
    eitp_objective_config objective = eitp_objective_config_default();
    for (int i = 0; i < EITP_REGULARIZERS; i++)
        objective.terms[i].mode = i == EITP_ENERGY ? EITP_TERM_OFF : EITP_TERM_LOSS;
    objective.chaos_samples = 2;
    objective.grad_cap = 0.2;
    return objective;
}

static variant every_term(const eitp_objective_config *objective) {
    variant v = default_variant();
    v.threads = 1;
    v.objective = objective;
    return v;
}

/* ---- Allocations ---- */

/* Resets the weights and the optimizer state to the start of the run. */
static void begin_again(run *r) {
    CHECK(!eitp_model_initialize(r->model, 3, &error_));
    for (size_t i = 0; i < eitp_variable_count(r->context); i++) {
        const eitp_variable state = eitp_variable_at(r->context, i);
        if (state.role == EITP_OPTIMIZER)
            CHECK(!eitp_variable_fill(r->context, state.name, 0, &error_));
    }
}

/* Each allocation of a trainer and its first steps fails once, with no effect on the next attempt. */
static void failed_allocations_leave_nothing(void) {
    const eitp_objective_config objective = every_regularizer();
    const variant v = every_term(NULL);
    uint32_t expected = 0;
    long failures = 0;
    faults f;
    run r;
    faults_begin(&f);
    REQUIRE_OK(make_run(&r, &f.host, &v, directory_, &error_), error_);
    eitp_trainer_destroy(r.trainer);
    r.config.objective = objective;
    for (long n = 0; !test_failures_; n += n ? test_stride(7, 41) : 1) {
        const long blocks = f.live_blocks;
        eitp_trainer *trainer = NULL;
        eitp_step_report report;
        eitp_status status;
        int failed;
        begin_again(&r);
        f.fail_allocation = n ? f.allocations + n : 0;
        status = eitp_trainer_create(&r.task, &r.config, &trainer, &error_);
        for (int step = 0; step < 2 && !status; step++)
            status = eitp_trainer_step(trainer, &report, &error_);
        failed = n && f.allocations >= f.fail_allocation;
        f.fail_allocation = 0;
        CHECK_THAT(failed ? status == EITP_ERROR_MEMORY : !status, "allocation %ld: %d, %s", n, (int)status,
                   status ? error_.message : "");
        CHECK_THAT(!status == (trainer != NULL), "allocation %ld", n);
        if (!status && !n)
            expected = fingerprint(&r);
        eitp_trainer_destroy(trainer);
        CHECK_THAT(!n || f.live_blocks == blocks, "allocation %ld: %ld blocks more", n, f.live_blocks - blocks);
        failures += failed;
        if (n && !failed)
            break;
    }
    CHECK_THAT(failures > 10, "%ld failures", failures);
    begin_again(&r);
    REQUIRE_OK(eitp_trainer_create(&r.task, &r.config, &r.trainer, &error_), error_);
    CHECK(step_many(&r, 2, NULL));
    CHECK(expected && fingerprint(&r) == expected);
    end_run(&r);
    faults_end(&f);
}

/* Steps do not allocate, no matter which regularizers are due. */
static void steps_do_not_allocate(void) {
    eitp_objective_config objective = every_regularizer();
    for (int capped = 0; capped < 2; capped++) {
        variant v = every_term(&objective);
        long allocations;
        faults f;
        run r;
        objective.grad_cap = capped ? 0.2 : 0;
        objective.terms[EITP_CHAOS].every = 3;
        objective.terms[EITP_SELF_REPAIR].start = 4;
        objective.terms[EITP_JACOBIAN_NORM].mode = EITP_TERM_METRIC;
        faults_begin(&f);
        REQUIRE_OK(make_run(&r, &f.host, &v, directory_, &error_), error_);
        CHECK(step_many(&r, 1, NULL));
        allocations = f.allocations;
        CHECK(step_many(&r, 6, NULL));
        CHECK_THAT(f.allocations == allocations, "%ld allocations", f.allocations - allocations);
        end_run(&r);
        faults_end(&f);
    }
}

/* ---- Values that are not finite ---- */

/* A weight so large that gradients overflow. The step is skipped, and all weights and states are unchanged. */
static void steps_that_overflow_are_skipped(void) {
    const eitp_host host = eitp_host_default();
    for (int k = 0; k < 4 * EITP_REGULARIZERS; k++) {
        const eitp_regularizer regularizer = (eitp_regularizer)(k / 4);
        const char *name = eitp__regularizer_name(regularizer);
        eitp_objective_config objective = eitp_objective_config_default();
        variant v = every_term(&objective);
        eitp_step_report report;
        uint32_t before;
        run r;
        if (regularizer == EITP_ENERGY)
            continue;
        v.keep_gradients = k % 2;
        v.precision = k / 2 % 2 ? "bf16" : "fp32";
        objective.terms[regularizer].mode = EITP_TERM_LOSS;
        objective.terms[regularizer].weight = 1e30;
        objective.terms[regularizer].start = 2;
        objective.entropy_high = 0.5;
        objective.balance_target = objective.chaos_target = 1;
        objective.attention_entropy_floor = 1;
        REQUIRE_OK(make_run(&r, &host, &v, directory_, &error_), error_);
        CHECK(step_many(&r, 1, NULL));
        before = fingerprint(&r);
        for (int step = 0; step < 2; step++) {
            CHECK_THAT(!eitp_trainer_step(r.trainer, &report, &error_), "%s: %s", name, error_.message);
            /* The square of a gradient norm of 1e30 exceeds F32. */
            CHECK_THAT(isfinite(report.grad_norm) || !report.applied, "%s, case %d: applied, norm %g", name, k % 4,
                       report.grad_norm);
            CHECK_THAT(report.applied || fingerprint(&r) == before, "%s, case %d: a skipped step changed a weight",
                       name, k % 4);
            CHECK_THAT(!report.applied || isfinite(report.parameter_norm), "%s, case %d: parameters %g", name, k % 4,
                       report.parameter_norm);
            if (!report.applied)
                CHECK(report.skipped == step + 1);
        }
        end_run(&r);
    }
}

/* ---- Memory ---- */

/* With a memory limit and recomputation the bits are the same. Too small a limit is refused with one line. */
static void limits_change_no_bit(void) {
    const eitp_host host = eitp_host_default();
    eitp_objective_config objective = every_regularizer();
    variant v = every_term(&objective);
    uint32_t expected = 0;
    size_t whole = 0;
    for (int i = 0; i < 4; i++) {
        static const double parts[] = {1, 0.8, 0.65, 0.05};
        eitp_plan_stats stats;
        run r;
        v.plan.memory = i ? (size_t)(parts[i] * (double)whole) : 0;
        if (make_run(&r, &host, &v, directory_, &error_)) {
            CHECK_THAT(i == 3 && error_.status == EITP_ERROR_MEMORY && strstr(error_.message, "but the limit is ") &&
                           !strchr(error_.message, '\n'),
                       "limit %d: %s", i, error_.message);
        } else {
            stats = eitp_trainer_statistics(r.trainer);
            whole = i ? whole : stats.arena_bytes + stats.workspace_bytes;
            CHECK_THAT(i < 3, "limit %d was not refused", i);
            CHECK_THAT(!i || stats.recomputed > 0, "limit %d recomputes nothing", i);
            CHECK_THAT(
                !i || stats.arena_bytes + stats.workspace_bytes <= v.plan.memory, "limit %d: %llu bytes, not %llu", i,
                (unsigned long long)(stats.arena_bytes + stats.workspace_bytes), (unsigned long long)v.plan.memory);
            CHECK(step_many(&r, 3, NULL));
            expected = i ? expected : fingerprint(&r);
            CHECK_THAT(fingerprint(&r) == expected, "limit %d gives other bits", i);
        }
        end_run(&r);
    }
}

/* The trainer uses exactly the memory that the candidate predicts. */
static void plans_count_every_pass(void) {
    const eitp_host host = eitp_host_default();
    language_fit planned;
    planned.model = small_model(0.1);
    planned.block_size = 32;
    for (int i = 0; i < 8; i++) {
        static const size_t limits[] = {0, EITP_MINIMUM_MEMORY};
        eitp_objective_config objective = every_regularizer();
        variant v = every_term(&objective);
        eitp_fit fit = eitp_fit_default();
        eitp_fit_candidate candidate = eitp_fit_candidate_default(), without = candidate;
        run r;
        objective.grad_cap = i % 2 ? 0.2 : 0;
        for (int k = 0; k < EITP_REGULARIZERS && i / 4; k++)
            objective.terms[k].mode = k == EITP_CHAOS || k == EITP_SELF_REPAIR ? EITP_TERM_LOSS : EITP_TERM_METRIC;
        v.plan.memory = candidate.plan.memory = without.plan.memory = limits[i / 2 % 2];
        v.batch_size = objective.chaos_samples = 4;
        REQUIRE_OK(make_run(&r, &host, &v, directory_, &error_), error_);
        fit.context.threads = 1;
        fit.context.precision = v.precision;
        fit.trainer = r.config;
        fit.create_task = make_language_task;
        fit.user = &planned;
        REQUIRE_OK(eitp_fit_measure(&fit, &candidate, &error_), error_);
        CHECK_THAT(candidate.arena + candidate.workspace == eitp_context_arena_bytes(r.context),
                   "case %d: %zu bytes were planned, %zu are used", i, candidate.arena + candidate.workspace,
                   eitp_context_arena_bytes(r.context));
        CHECK(candidate.gradients == eitp_context_variable_bytes(r.context, EITP_GRADIENT) &&
              candidate.states == eitp_context_variable_bytes(r.context, EITP_OPTIMIZER));
        CHECK(step_many(&r, 2, NULL));
        CHECK(candidate.arena + candidate.workspace == eitp_context_arena_bytes(r.context));
        end_run(&r);
        for (int k = 0; k < EITP_REGULARIZERS; k++) {
            if (eitp__regularizer_get((eitp_regularizer)k)->has_own_passes)
                fit.trainer.objective.terms[k].mode = EITP_TERM_OFF;
        }
        fit.trainer.keep_gradients = 1;
        REQUIRE_OK(eitp_fit_measure(&fit, &without, &error_), error_);
        CHECK_THAT(candidate.flops > without.flops && candidate.seconds > without.seconds &&
                       candidate.arena + candidate.workspace >= without.arena + without.workspace,
                   "case %d: passes of regularizers cost nothing", i);
    }
}

/* The regularizers' own passes are the largest here. Shrinking makes them smaller as announced. */
static void shrinking_shrinks_every_pass(void) {
    const eitp_host host = eitp_host_default();
    for (int i = 0; i < 4; i++) {
        eitp_objective_config objective = every_regularizer();
        variant v = every_term(&objective);
        int times = 0;
        run r;
        v.batch_size = objective.chaos_samples = 8;
        v.grad_accum = 1;
        v.plan.recompute = i % 2 ? EITP_RECOMPUTE_NONE : EITP_RECOMPUTE_AUTO;
        objective.grad_cap = i / 2 ? 0.2 : 0;
        REQUIRE_OK(make_run(&r, &host, &v, directory_, &error_), error_);
        CHECK(step_many(&r, 1, NULL));
        while (shrink(&r)) {
            CHECK(step_many(&r, 1, NULL));
            times++;
        }
        CHECK_THAT(times > 0, "case %d: nothing was shrunk", i);
        CHECK_THAT(i % 2 == 0 || eitp_trainer_shape(r.trainer).batch_size < 8, "case %d: the batch size is unchanged",
                   i);
        end_run(&r);
    }
}

/* A statistic of fewer samples has other values, so the two shapes do not give the same bits. */
static void fewer_samples_are_not_the_same(void) {
    const eitp_host host = eitp_host_default();
    const eitp_step_shape whole = {8, 1, 1}, half = {4, 2, 1};
    for (int samples = 2; samples <= 8; samples += 3) {
        eitp_objective_config objective = eitp_objective_config_default();
        variant v = every_term(&objective);
        run r;
        objective.terms[EITP_CHAOS].mode = EITP_TERM_LOSS;
        objective.chaos_samples = samples;
        v.batch_size = 8;
        v.grad_accum = 1;
        REQUIRE_OK(make_run(&r, &host, &v, directory_, &error_), error_);
        CHECK_THAT(eitp__step_shapes_keep_bits(&r.trainer->plans, &whole, &half) == (samples <= 4), "%d samples",
                   samples);
        end_run(&r);
    }
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(failed_allocations_leave_nothing), TEST(steps_do_not_allocate),
        TEST(steps_that_overflow_are_skipped),  TEST(limits_change_no_bit),
        TEST(plans_count_every_pass),           TEST(shrinking_shrinks_every_pass),
        TEST(fewer_samples_are_not_the_same),
    };
    int failures;
    if (!scratch_make(directory_) || !write_text(directory_))
        return 1;
    failures = RUN_TESTS(tests, argc, argv);
    scratch_remove(directory_);
    return failures;
}
