/* Memory: gradients that are released, recomputation, offloading, and steps that do not allocate. */
#include "tests/support/resident.h"
#include "tests/support/trainer_run.h"

/* Returns all variables except accumulated gradients after three steps, which the caller frees, and the last report. */
static char *state_after(const variant *v, const char *directory, eitp_step_report *report, size_t *size,
                         eitp_plan_stats *whole, int *recomputed) {
    const eitp_host host = eitp_host_default();
    run r;
    char *state = NULL;
    size_t at = 0;
    *size = 0;
    if (!make_run(&r, &host, v, directory, &error_)) {
        for (int step = 0; step < 3; step++)
            CHECK(!eitp_trainer_step(r.trainer, report, &error_));
        eitp_plan_stats stats = eitp_trainer_statistics(r.trainer);
        *recomputed = stats.recomputed;
        if (v->offload)
            CHECK(stats.file_reads > 0 || v->offload == EITP_OFFLOAD_STATES);
        else if (!v->plan.memory && !v->plan.recompute)
            *whole = stats;
        else
            CHECK(stats.arena_bytes < whole->arena_bytes && stats.workspace_bytes == whole->workspace_bytes);
        for (size_t i = 0; i < eitp_variable_count(r.context); i++)
            *size += eitp_variable_at(r.context, i).size;
        state = (char *)malloc(*size);
        for (int role = EITP_PARAMETER; role <= EITP_REMAINDER; role++) {
            for (size_t i = 0; i < eitp_variable_count(r.context); i++) {
                eitp_variable variable = eitp_variable_at(r.context, i);
                if (variable.role != (eitp_role)role || role == EITP_GRADIENT || role == EITP_CACHE)
                    continue;
                CHECK(!eitp_variable_read(r.context, variable.name, 0, state + at, variable.size, &error_));
                at += variable.size;
            }
        }
        *size = at;
    }
    end_run(&r);
    return state;
}

/*
 * Gradients that live only from their computation to their update, whole or in pieces of rows, give the same bits as
 * gradients stored for all parameters first.
 */
static void releasing_gradients_changes_no_bit(void) {
    static const struct {
        int keep_gradients;
        size_t piece_bytes;
    } ways[] = {{1, 0}, {0, 0}, {0, 65536}, {0, 4 * 65536}, {1, 65536}};
    static const char *const precisions[] = {"fp32", "bf16", "fp16", "fp32", "bf16", "fp32", "bf16"};
    static const eitp_optimizer optimizers[] = {EITP_ADAMW,    EITP_ADAMW, EITP_ADAMW, EITP_FACTORED,
                                                EITP_FACTORED, EITP_SGD,   EITP_SGD};
    char directory[512];
    REQUIRE(scratch_make(directory) && write_text(directory));
    for (size_t p = 0; p < EITP__COUNT(precisions); p++) {
        char *reference = NULL;
        size_t reference_size = 0;
        eitp_step_report first;
        for (size_t w = 0; w < EITP__COUNT(ways); w++) {
            variant v = default_variant();
            eitp_step_report report;
            eitp_plan_stats whole;
            char *state;
            size_t size;
            int recomputed;
            v.precision = precisions[p];
            v.optimizer = optimizers[p];
            v.is_wide = 1;
            v.keep_gradients = ways[w].keep_gradients;
            v.piece_bytes = ways[w].piece_bytes;
            state = state_after(&v, directory, &report, &size, &whole, &recomputed);
            REQUIRE(state);
            if (!reference) {
                reference = state;
                reference_size = size;
                first = report;
                continue;
            }
            CHECK_THAT(size == reference_size && !memcmp(state, reference, size), "%s, way %d", precisions[p], (int)w);
            CHECK(report.loss == first.loss && report.grad_norm == first.grad_norm &&
                  report.update_norm == first.update_norm && report.parameter_norm == first.parameter_norm);
            free(state);
        }
        free(reference);
    }
    scratch_remove(directory);
}

/* Recomputed values have the same bits as stored ones, at any memory limit. */
static void recomputing_changes_no_bit(void) {
    static const struct {
        double part; /* fraction of the arena; 0: no limit */
        eitp_recompute recompute;
    } ways[] = {{0, EITP_RECOMPUTE_AUTO},      {0.9, EITP_RECOMPUTE_AUTO}, {0.7, EITP_RECOMPUTE_AUTO},
                {0, EITP_RECOMPUTE_ATTENTION}, {0, EITP_RECOMPUTE_LAYER},  {0.1, EITP_RECOMPUTE_AUTO}};
    static const char *const precisions[] = {"fp32", "bf16"};
    char directory[512];
    REQUIRE(scratch_make(directory) && write_text(directory));
    for (size_t p = 0; p < 4 * EITP__COUNT(precisions); p++) {
        char *reference = NULL;
        eitp_plan_stats whole = EITP__ZERO;
        eitp_step_report first;
        for (size_t w = 0; w < EITP__COUNT(ways); w++) {
            variant v = default_variant();
            eitp_step_report report;
            char *state;
            size_t size;
            int recomputed = 0;
            v.precision = precisions[p / 2 % 2];
            v.optimizer = p < 2 * EITP__COUNT(precisions) ? EITP_ADAMW : EITP_FACTORED;
            v.is_wide = p / 2 % 2 == 0;
            v.keep_gradients = p % 2;
            v.piece_bytes = 65536;
            v.plan.recompute = ways[w].recompute;
            if (ways[w].part > 0)
                v.plan.memory = whole.workspace_bytes + (size_t)(ways[w].part * (double)whole.arena_bytes);
            state = state_after(&v, directory, &report, &size, &whole, &recomputed);
            if (!reference) {
                REQUIRE(state);
                reference = state;
                first = report;
                continue;
            }
            CHECK_THAT(!state == (w + 1 == EITP__COUNT(ways)), "%s, way %d: %s", v.precision, (int)w, error_.message);
            if (!state) {
                CHECK(error_.status == EITP_ERROR_MEMORY);
                continue;
            }
            CHECK(recomputed > 0);
            CHECK_THAT(!memcmp(state, reference, size), "%s, way %d", v.precision, (int)w);
            CHECK(report.loss == first.loss && report.grad_norm == first.grad_norm);
            free(state);
        }
        free(reference);
    }
    scratch_remove(directory);
}

/*
 * Offloaded variables have the same bits as variables in memory, for every optimizer, with gradients within a plan or
 * offloaded, and with recomputation.
 */
static void offloading_changes_no_bit(void) {
    static const struct {
        const char *precision;
        eitp_optimizer optimizer;
        int64_t micro_batches_per_pass;
        int keep_gradients;
    } runs[] = {{"fp32", EITP_ADAMW, 2, 0},  {"fp32", EITP_ADAMW, 1, 0},     {"bf16", EITP_ADAMW, 2, 1},
                {"bf16", EITP_ADAMW8, 2, 0}, {"bf16", EITP_ADAMW8_SR, 1, 0}, {"bf16", EITP_FACTORED, 2, 0},
                {"fp16", EITP_ADAMW, 2, 0}};
    char directory[512];
    REQUIRE(scratch_make(directory) && write_text(directory));
    for (size_t i = 0; i < EITP__COUNT(runs); i++) {
        char *reference = NULL;
        eitp_plan_stats whole = EITP__ZERO;
        eitp_step_report first;
        for (int way = 0; way < 4; way++) {
            variant v = default_variant();
            eitp_step_report report;
            char *state;
            size_t size;
            int recomputed;
            v.precision = runs[i].precision;
            v.optimizer = runs[i].optimizer;
            v.micro_batches_per_pass = runs[i].micro_batches_per_pass;
            v.keep_gradients = runs[i].keep_gradients;
            v.is_wide = 1;
            v.piece_bytes = 65536;
            v.offload = way == 3 ? EITP_OFFLOAD_ALL : (eitp_offload)way;
            v.plan.recompute = way == 3 ? EITP_RECOMPUTE_LAYER : EITP_RECOMPUTE_AUTO;
            state = state_after(&v, directory, &report, &size, &whole, &recomputed);
            REQUIRE(state);
            if (!reference) {
                reference = state;
                first = report;
                continue;
            }
            CHECK_THAT(!memcmp(state, reference, size), "run %d, way %d", (int)i, way);
            CHECK(report.loss == first.loss && report.grad_norm == first.grad_norm &&
                  report.update_norm == first.update_norm && report.parameter_norm == first.parameter_norm);
            free(state);
        }
        free(reference);
    }
    scratch_remove(directory);
}

/* Checkpoints and losses do not depend on offloading: an offloaded run can be resumed in memory, and vice versa. */
static void an_offloaded_run_resumes_in_memory(void) {
    const eitp_host host = eitp_host_default();
    char directory[512], output[600], checkpoint[700];
    variant v = default_variant();
    eitp_evaluation straight = EITP__ZERO;
    uint32_t reference = 0;
    REQUIRE(scratch_make(directory) && write_text(directory));
    snprintf(checkpoint, sizeof checkpoint, "%s/out/checkpoint-2", directory);
    snprintf(output, sizeof output, "%s/out", directory);
    v.is_wide = 1;
    v.precision = "bf16";
    for (int way = 0; way < 3; way++) {
        eitp_evaluation evaluation;
        run r;
        v.offload = way == 1 ? EITP_OFFLOAD_ALL : EITP_OFFLOAD_NONE;
        REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
        REQUIRE(step_many(&r, 2, NULL));
        if (way) {
            REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
            end_run(&r);
            v.offload = way == 1 ? EITP_OFFLOAD_NONE : EITP_OFFLOAD_ALL;
            REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
            REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
        }
        REQUIRE(step_many(&r, 2, NULL));
        REQUIRE_OK(eitp_trainer_evaluate(r.trainer, 0, &evaluation, &error_), error_);
        if (!way) {
            reference = fingerprint(&r);
            straight = evaluation;
        }
        CHECK_THAT(fingerprint(&r) == reference, "way %d", way);
        CHECK(evaluation.loss == straight.loss && evaluation.items == straight.items);
        end_run(&r);
    }
    scratch_remove(directory);
}

static void released_blocks_go_back_to_the_system(void) {
    const eitp_host host = eitp_host_default();
    const size_t size = (size_t)16 << 20;
    void *first = host.allocator.allocate(NULL, size + size / 2, 64), *block, *small;
    long resident;
    host.allocator.release(NULL, first, size + size / 2);
    /* The C library keeps blocks smaller than the largest one released so far. */
    block = host.allocator.allocate(NULL, size, 64);
    small = host.allocator.allocate(NULL, 1000, 64);
    REQUIRE(block && small);
    memset(block, 1, size);
    resident = resident_kilobytes();
    host.allocator.release(NULL, block, size);
    if (SHADOW_MEMORY || !resident)
        printf("SKIPPED resident memory\n");
    else
        CHECK_THAT(resident - resident_kilobytes() > 15000, "%ld kB, and %ld before", resident_kilobytes(), resident);
    host.allocator.release(NULL, small, 1000);
}

/* Steps and evaluations do not allocate, and resident memory stays constant from step 2 on, for 200 steps. */
static void training_neither_allocates_nor_grows(void) {
    char directory[512];
    variant v = default_variant();
    eitp_evaluation evaluation;
    faults f;
    run r;
    long allocations, resident;
    REQUIRE(scratch_make(directory) && write_text(directory));
    faults_begin(&f);
    REQUIRE_OK(make_run(&r, &f.host, &v, directory, &error_), error_);
    allocations = f.allocations;
    REQUIRE_OK(eitp_trainer_evaluate(r.trainer, 0, &evaluation, &error_), error_);
    REQUIRE(step_many(&r, 2, NULL));
    resident_kilobytes();
    resident = resident_kilobytes();
    REQUIRE(step_many(&r, 200, NULL));
    REQUIRE_OK(eitp_trainer_evaluate(r.trainer, 0, &evaluation, &error_), error_);
    CHECK_THAT(f.allocations == allocations, "%ld allocations", f.allocations - allocations);
    if (SHADOW_MEMORY)
        printf("SKIPPED resident memory: the sanitizer's own grows\n");
    else
        CHECK_THAT(resident_kilobytes() <= resident, "%ld kB more", resident_kilobytes() - resident);
    end_run(&r);
    faults_end(&f);
    scratch_remove(directory);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(releasing_gradients_changes_no_bit),
        TEST(recomputing_changes_no_bit),
        TEST(offloading_changes_no_bit),
        TEST(an_offloaded_run_resumes_in_memory),
        TEST(released_blocks_go_back_to_the_system),
        TEST(training_neither_allocates_nor_grows),
    };
    return RUN_TESTS(tests, argc, argv);
}
