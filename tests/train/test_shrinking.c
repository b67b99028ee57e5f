/* Shrinking in the middle of a run: less memory, the same steps. */
#include "tests/support/resident.h"
#include "tests/support/shrinking.h"
#include "tests/support/trainer_run.h"

/* Half of an odd batch would need padding between micro-batches, which not every task allows. */
static void shrinking_adds_no_gaps_that_are_refused(void) {
    const eitp_host host = eitp_host_default();
    eitp_shrink_report report;
    eitp_step_report step;
    char directory[512];
    int shrunk = 0;
    variant v = default_variant();
    run r;
    v.batch_size = 9;
    v.block_size = 31;
    v.sums_of_32 = 1;
    v.dropout = 0;
    REQUIRE(scratch_make(directory) && write_text(directory));
    REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
    eitp_trainer_destroy(r.trainer);
    r.trainer = NULL;
    r.task.allows_gaps = 0;
    r.config.plan.recompute = EITP_RECOMPUTE_NONE;
    REQUIRE_OK(eitp_trainer_create(&r.task, &r.config, &r.trainer, &error_), error_);
    CHECK(eitp_trainer_micro_batches_per_pass(r.trainer) == 1);
    do {
        REQUIRE_OK(eitp_trainer_shrink(r.trainer, &report, &error_), error_);
        shrunk += report.shrunk;
        REQUIRE_OK(eitp_trainer_step(r.trainer, &step, &error_), error_);
    } while (report.shrunk);
    CHECK(shrunk > 0 && report.after.batch_size == 1 && report.after.micro_batches_per_pass == 1 &&
          report.after.grad_accum == 18);
    end_run(&r);
    scratch_remove(directory);
}

/* Shrunk as far as possible after every step, each step has the loss of a run that was never shrunk. */
static void shrinking_changes_no_step(void) {
    enum { STEPS = 7 };
    const eitp_host host = eitp_host_default();
    char directory[512];
    REQUIRE(scratch_make(directory) && write_text(directory));
    for (size_t i = 0; i < EITP__COUNT(shrinking_); i++) {
        const variant v = shrinking_variant(i);
        eitp_step_report reports[2][STEPS];
        eitp_evaluation evaluations[2];
        int shrunk = 0;
        for (int shrinks = 0; shrinks < 2; shrinks++) {
            run r;
            REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
            for (int s = 0; s < STEPS; s++) {
                REQUIRE_OK(eitp_trainer_step(r.trainer, &reports[shrinks][s], &error_), error_);
                if (shrinks)
                    shrunk += shrink(&r);
            }
            REQUIRE_OK(eitp_trainer_evaluate(r.trainer, 0, &evaluations[shrinks], &error_), error_);
            end_run(&r);
        }
        for (int s = 0; s < STEPS; s++) {
            const eitp_step_report *a = &reports[0][s], *b = &reports[1][s];
            CHECK_THAT(a->items == b->items && a->step == b->step && fabs(b->loss / a->loss - 1) < 1e-5 &&
                           fabs(b->grad_norm / a->grad_norm - 1) < 1e-3,
                       "%d, step %d: loss %.9g and %.9g, norm %.9g and %.9g, %d and %d tokens", (int)i, s + 1, a->loss,
                       b->loss, a->grad_norm, b->grad_norm, (int)a->items, (int)b->items);
        }
        CHECK_THAT(fabs(evaluations[1].loss / evaluations[0].loss - 1) < 1e-5 &&
                       evaluations[1].items == evaluations[0].items,
                   "%d: validation %.9g and %.9g", (int)i, evaluations[0].loss, evaluations[1].loss);
        CHECK_THAT(shrunk > 0, "%d was never shrunk", (int)i);
    }
    scratch_remove(directory);
}

/*
 * A checkpoint of a shrunk run is resumed, bit for bit, by a trainer with the current or the initial shape, or with
 * another shape of as many samples.
 */
static void a_shrunk_run_resumes_bit_for_bit(void) {
    const eitp_host host = eitp_host_default();
    static const char *const precisions[] = {"fp32", "fp16", "bf16", "fp32"};
    static const eitp_optimizer optimizers[] = {EITP_ADAMW, EITP_ADAMW, EITP_ADAMW8_SR, EITP_FACTORED};
    char directory[512], output[600], checkpoint[700];
    variant v = shrinking_variant(1);
    REQUIRE(scratch_make(directory) && write_text(directory));
    for (int way = 0; way < 4; way++) {
        eitp_step_shape shape, now;
        eitp_checkpoint_info info;
        eitp_task_identity identity;
        uint32_t straight;
        variant other;
        run r;
        v.precision = precisions[way];
        v.optimizer = optimizers[way];
        other = v;
        snprintf(output, sizeof output, "%s/out-%d", directory, way);
        snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-3", output);
        REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
        REQUIRE(step_many(&r, 3, NULL));
        REQUIRE(shrink(&r) && shrink(&r));
        shape = eitp_trainer_shape(r.trainer);
        REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
        REQUIRE_OK(r.task.identify(r.task.user, &identity, &error_), error_);
        REQUIRE(step_many(&r, 4, NULL));
        straight = fingerprint(&r);
        end_run(&r);
        REQUIRE_OK(eitp_checkpoint_read_info(&host, checkpoint, &info, &error_), error_);
        CHECK(info.initial_shape.batch_size == 4 && info.initial_shape.grad_accum == 2 &&
              info.initial_shape.micro_batches_per_pass == 2);
        CHECK(info.config.batch_size == shape.batch_size &&
              info.config.micro_batches_per_pass == shape.micro_batches_per_pass);
        CHECK(identity.hash && info.data.hash == identity.hash && info.data.first == identity.first &&
              info.data.count == identity.count);
        if (way == 0 || way == 2) {
            other.batch_size = shape.batch_size;
            other.grad_accum = shape.grad_accum;
            other.micro_batches_per_pass = shape.micro_batches_per_pass;
        } else if (way == 3) {
            other.batch_size = 8;
            other.grad_accum = other.micro_batches_per_pass = 1;
        }
        REQUIRE_OK(make_run(&r, &host, &other, directory, &error_), error_);
        REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
        now = eitp_trainer_shape(r.trainer);
        if (way == 3)
            CHECK(now.batch_size == 8 && now.grad_accum == 1);
        else
            CHECK(eitp__step_shapes_equal(&now, &shape));
        REQUIRE(step_many(&r, 4, NULL));
        CHECK_THAT(fingerprint(&r) == straight, "way %d", way);
        /* The next checkpoint still records the initial shape. */
        if (way == 2) {
            snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-7", output);
            REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
            end_run(&r);
            REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
            REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
            CHECK(fingerprint(&r) == straight);
        }
        end_run(&r);
    }
    scratch_remove(directory);
}

/* Recomputation is preferred if it frees enough in less time, and changes no bit. */
static void shrinking_by_recomputing_changes_no_bit(void) {
    const eitp_host host = eitp_host_default();
    char directory[512];
    variant v = default_variant();
    uint32_t straight;
    run r;
    REQUIRE(scratch_make(directory) && write_text(directory));
    v.batch_size = 1;
    v.grad_accum = v.micro_batches_per_pass = 1; /* only recomputation is left */
    v.is_wide = 1;                               /* gradients are recomputed too */
    v.piece_bytes = 16384;
    straight = train_variant(&v, directory, 6);
    REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
    REQUIRE(step_many(&r, 3, NULL));
    CHECK(shrink(&r));
    CHECK(eitp_trainer_statistics(r.trainer).recomputed > 0);
    REQUIRE(step_many(&r, 3, NULL));
    CHECK(fingerprint(&r) == straight);
    for (int i = 0; i < 20 && shrink(&r); i++)
        CHECK(i < 19);
    end_run(&r);
    scratch_remove(directory);
}

/* The search's estimate equals the memory that the plans then take and, if variables are offloaded, the memory outside
   the file. */
static void an_estimate_is_what_plans_take(void) {
    const eitp_host host = eitp_host_default();
    char directory[512];
    REQUIRE(scratch_make(directory) && write_text(directory));
    for (size_t i = 0; i < 2 * EITP__COUNT(shrinking_); i++) {
        variant v = shrinking_variant(i / 2);
        eitp_fit_candidate needs = eitp_fit_candidate_default();
        eitp__step_plans trial;
        run r;
        v.offload = i % 2 ? EITP_OFFLOAD_ALL : EITP_OFFLOAD_NONE;
        REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
        CHECK(shrink(&r)); /* afterwards evaluation needs no more than training */
        eitp__step_plans_init(&trial, &r.task, &r.trainer->plans.config, r.trainer->plans.evaluation_samples);
        REQUIRE_OK(eitp__step_plans_estimate(&trial, 0, &needs, &error_), error_);
        CHECK_THAT(needs.arena + needs.workspace == eitp_context_arena_bytes(r.context), "%d: %d and %d", (int)i,
                   (int)(needs.arena + needs.workspace), (int)eitp_context_arena_bytes(r.context));
        CHECK_THAT(needs.gradients == eitp_context_variable_bytes(r.context, EITP_GRADIENT), "%d: %d and %d", (int)i,
                   (int)needs.gradients, (int)eitp_context_variable_bytes(r.context, EITP_GRADIENT));
        CHECK(needs.total == needs.gradients + needs.arena + needs.workspace);
        CHECK(needs.recomputed == eitp_trainer_statistics(r.trainer).recomputed);
        end_run(&r);
    }
    scratch_remove(directory);
}

/* Nothing is shrunk without recomputation at one sample, or if stored gradients would take more memory than is freed.
   */
static void nothing_is_shrunk_without_a_smaller_configuration(void) {
    const eitp_host host = eitp_host_default();
    char directory[512];
    variant v = default_variant();
    size_t variables;
    run r;
    REQUIRE(scratch_make(directory) && write_text(directory));
    v.plan.recompute = EITP_RECOMPUTE_NONE;
    v.batch_size = v.grad_accum = v.micro_batches_per_pass = 1;
    REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
    CHECK(!shrink(&r));
    end_run(&r);
    v.batch_size = 2;
    v.is_wide = 1;
    v.piece_bytes = 16384;
    REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
    variables = eitp_variable_count(r.context);
    CHECK(!shrink(&r));
    CHECK(eitp_variable_count(r.context) == variables);
    CHECK(eitp_context_variable_bytes(r.context, EITP_GRADIENT) == 0);
    REQUIRE(step_many(&r, 2, NULL));
    end_run(&r);
    scratch_remove(directory);
}

/* Memory is returned to the system, and another plan of the context still works. */
static void shrinking_returns_memory_to_the_system(void) {
    const eitp_host host = eitp_host_default();
    char directory[512];
    variant v = default_variant();
    size_t before, after;
    long resident[2];
    float values[4] = {1, 2, 3, 4}, doubled[4];
    int64_t four = 4;
    eitp_graph *graph;
    eitp_plan *plan;
    eitp_tensor *input, *output;
    run r;
    REQUIRE(scratch_make(directory) && write_text(directory));
    v.batch_size = 160;
    v.grad_accum = 2;
    v.micro_batches_per_pass = 2;
    REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
    REQUIRE_OK(eitp_graph_create(r.context, &graph, &error_), error_);
    input = eitp_input(graph, "x", EITP_F32, 1, &four);
    output = eitp_output(eitp_add(input, input));
    REQUIRE_OK(eitp_plan_create(graph, &plan, &error_), error_);
    REQUIRE(step_many(&r, 2, NULL));
    before = eitp_context_arena_bytes(r.context);
    resident[0] = resident_kilobytes();
    CHECK(shrink(&r) && shrink(&r));
    REQUIRE(step_many(&r, 2, NULL));
    after = eitp_context_arena_bytes(r.context);
    resident[1] = resident_kilobytes();
    CHECK_THAT(after < before / 2 && before > (size_t)48 << 20, "%d bytes, and %d before", (int)after, (int)before);
    if (SHADOW_MEMORY)
        printf("SKIPPED resident memory: the sanitizer keeps what is released\n");
    else
        CHECK_THAT((double)(resident[0] - resident[1]) * 1024 > 0.9 * (double)(before - after),
                   "%ld kB resident, and %ld before; the arena has %d bytes, and had %d", resident[1], resident[0],
                   (int)after, (int)before);
    REQUIRE_OK(eitp_plan_write(plan, input, values, sizeof values, &error_), error_);
    REQUIRE_OK(eitp_plan_execute(plan, &error_), error_);
    REQUIRE_OK(eitp_plan_read(plan, output, doubled, sizeof doubled, &error_), error_);
    for (int i = 0; i < 4; i++)
        CHECK(doubled[i] == 2 * values[i]);
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    end_run(&r);
    scratch_remove(directory);
}

/*
 * Each allocation during shrinking fails, alone or with all that follow. The trainer is then shrunk, unchanged, or
 * unable to step, which it reports. It can be saved at once, and continues when there is memory. No weight is lost.
 */
static void shrinking_that_fails_loses_nothing(void) {
    char directory[512], output[600];
    int lost = 0, kept = 0;
    REQUIRE(scratch_make(directory) && write_text(directory));
    snprintf(output, sizeof output, "%s/out", directory);
    for (int way = 0; way < 4; way++) {
        /* In the first variant one pass becomes several, with stored gradients. The second recomputes more. */
        const variant v = shrinking_variant(way / 2 ? 0 : 6);
        const int persistent = way % 2;
        int more = 1;
        long all = 0;
        uint32_t saved = 0, straight = 0, shrunk = 0;
        /* Most allocations are in the search. The remaining ones are at the end. */
        const long coarser = test_stride(1, 3);
        for (long n = 0; more && !test_failures_; n += coarser * (n < 10              ? 1
                                                                  : n < all - all / 3 ? all / 20
                                                                                      : all / 60)) {
            eitp_step_shape before, after;
            eitp_shrink_report report;
            eitp_step_report step;
            eitp_status status;
            int64_t newest = -1;
            size_t variables;
            faults f;
            run r;
            faults_begin(&f);
            REQUIRE_OK(make_run(&r, &f.host, &v, directory, &error_), error_);
            REQUIRE(step_many(&r, 1, NULL));
            saved = fingerprint(&r);
            before = eitp_trainer_shape(r.trainer);
            variables = eitp_variable_count(r.context);
            f.allocations = 0;
            f.fail_allocation = n;
            f.all_allocations = persistent;
            status = eitp_trainer_shrink(r.trainer, &report, &error_);
            CHECK_THAT(!status || status == EITP_ERROR_MEMORY, "allocation %ld: %s", n, error_.message);
            CHECK((status == EITP_OK) == report.shrunk);
            more = !n || f.allocations >= n;
            all = n ? all : f.allocations;
            if (status) {
                const int has_plans = eitp__step_plans_exist(&r.trainer->plans);
                kept += has_plans;
                lost += !has_plans;
                CHECK_THAT(has_plans || persistent, "allocation %ld: the plans are lost", n);
                after = eitp_trainer_shape(r.trainer);
                CHECK(eitp__step_shapes_equal(&before, &after));
                CHECK(variables == eitp_variable_count(r.context));
                CHECK(!eitp_context_variable_bytes(r.context, EITP_GRADIENT));
                if (persistent && !has_plans) {
                    eitp_evaluation evaluation;
                    CHECK(eitp_trainer_step(r.trainer, &step, &error_) == EITP_ERROR_MEMORY);
                    CHECK_THAT(strstr(error_.message, "can be saved") != NULL, "%s", error_.message);
                    CHECK(eitp_trainer_evaluate(r.trainer, 0, &evaluation, &error_) == EITP_ERROR_MEMORY);
                }
            }
            f.fail_allocation = 0;
            CHECK(fingerprint(&r) == saved);
            CHECK_THAT(!eitp_trainer_save(r.trainer, output, &error_), "%s", error_.message);
            CHECK(!eitp_checkpoint_newest(&f.host, output, &newest, &error_) && newest == 1);
            REQUIRE(step_many(&r, 2, NULL));
            if (n == 0)
                shrunk = fingerprint(&r);
            else if (status && !straight)
                straight = train_variant(&v, directory, 3);
            CHECK_THAT(fingerprint(&r) == (status ? straight : shrunk), "allocation %ld", n);
            end_run(&r);
            f.fail_allocation = 0;
            faults_end(&f);
        }
    }
    const int least = 3; /* minimum of each, at any stride */
    CHECK_THAT(lost > least && kept > least, "%d without plans, %d as before", lost, kept);
    scratch_remove(directory);
}

/* An arena released at any time is restored when needed, at another size too, and no bit changes. */
static void a_released_arena_is_restored(void) {
    const eitp_host host = eitp_host_default();
    char directory[512];
    variant v = shrinking_variant(1);
    uint32_t straight;
    size_t arena;
    eitp_evaluation evaluation;
    run r;
    REQUIRE(scratch_make(directory) && write_text(directory));
    straight = train_variant(&v, directory, 6);
    REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
    REQUIRE(step_many(&r, 2, NULL));
    arena = eitp_context_arena_bytes(r.context);
    eitp__arena_release(r.context);
    CHECK(eitp_context_arena_bytes(r.context) == 0 && eitp__arena_needed(r.context) == arena);
    REQUIRE(step_many(&r, 2, NULL));
    CHECK(eitp_context_arena_bytes(r.context) == arena);
    eitp__arena_release(r.context);
    eitp__arena_release(r.context);
    CHECK(shrink(&r) && eitp__arena_needed(r.context) < arena);
    eitp__arena_release(r.context);
    REQUIRE_OK(eitp_trainer_evaluate(r.trainer, 4, &evaluation, &error_), error_);
    REQUIRE(step_many(&r, 2, NULL));
    CHECK(eitp_context_arena_bytes(r.context) < arena);
    CHECK(fingerprint(&r) == straight);
    end_run(&r);
    scratch_remove(directory);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(a_released_arena_is_restored),
        TEST(shrinking_adds_no_gaps_that_are_refused),
        TEST(shrinking_changes_no_step),
        TEST(a_shrunk_run_resumes_bit_for_bit),
        TEST(shrinking_by_recomputing_changes_no_bit),
        TEST(an_estimate_is_what_plans_take),
        TEST(nothing_is_shrunk_without_a_smaller_configuration),
        TEST(shrinking_returns_memory_to_the_system),
        TEST(shrinking_that_fails_loses_nothing),
    };
    return RUN_TESTS(tests, argc, argv);
}
