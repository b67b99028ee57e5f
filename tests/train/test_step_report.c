/* The report of a step: where its time went, and the norms of parameter groups. */
#include "tests/support/trainer_run.h"

/* ---- Norms ---- */

static double root_sum(const eitp_group_norms *groups, size_t count, size_t member) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        const double norm = *(const double *)(const void *)((const char *)&groups[i] + member);
        sum += norm * norm;
    }
    return sqrt(sum);
}

static int is_close(double a, double b) {
    return fabs(a - b) <= 1e-6 * fabs(b);
}

/* Checks that the groups of a step add up to the whole. */
static void check_groups(const run *r, const eitp_step_report *report) {
    eitp_group_norms groups[16];
    size_t count = 0;
    REQUIRE_OK(eitp_trainer_group_norms(r->trainer, groups, 16, &count, &error_), error_);
    CHECK(count == 5);
    CHECK_THAT(is_close(root_sum(groups, count, offsetof(eitp_group_norms, grad_norm)), report->grad_norm),
               "gradient: %.9g, step %.9g", root_sum(groups, count, offsetof(eitp_group_norms, grad_norm)),
               report->grad_norm);
    CHECK(is_close(root_sum(groups, count, offsetof(eitp_group_norms, update_norm)), report->update_norm));
    CHECK(is_close(root_sum(groups, count, offsetof(eitp_group_norms, parameter_norm)), report->parameter_norm));
    for (size_t i = 0; i < count; i++)
        CHECK_THAT(groups[i].grad_norm > 0 && groups[i].update_norm > 0 && groups[i].parameter_norm > 0, "%s",
                   groups[i].name);
}

static void norms_of_groups_make_up_those_of_the_step(void) {
    const eitp_host host = eitp_host_default();
    char directory[512];
    variant v = default_variant();
    size_t set = 0;
    REQUIRE(scratch_make(directory) && write_text(directory));
    while (next_set(&set, &v)) {
        for (v.micro_batches_per_pass = 1; v.micro_batches_per_pass <= 2; v.micro_batches_per_pass++) {
            eitp_step_report report;
            run r;
            REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
            for (int i = 0; i < 3; i++) {
                REQUIRE_OK(eitp_trainer_step(r.trainer, &report, &error_), error_);
                if (report.applied)
                    check_groups(&r, &report);
            }
            end_run(&r);
        }
    }
    scratch_remove(directory);
}

static int has_groups(const eitp_group_norms *groups, size_t count, const char *const *names) {
    for (size_t i = 0; i < count; i++) {
        if (!names[i] || strcmp(groups[i].name, names[i]))
            return 0;
    }
    return !names[count];
}

static void groups_are_layers_and_modules(void) {
    static const char *const names[] = {"transformer.wte", "transformer.wpe",  "transformer.h.0",
                                        "transformer.h.1", "transformer.ln_f", NULL};
    static const char *const adapted[] = {"transformer.h.0", "transformer.h.1", NULL};
    const eitp_host host = eitp_host_default();
    char directory[512];
    variant v = default_variant();
    REQUIRE(scratch_make(directory) && write_text(directory));
    v.is_wide = 1; /* a parameter has several pieces */
    v.piece_bytes = 4096;
    for (v.lora_rank = 0; v.lora_rank <= 2; v.lora_rank += 2) {
        eitp_group_norms groups[16];
        eitp_step_report report;
        size_t count = 0;
        run r;
        REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
        REQUIRE_OK(eitp_trainer_step(r.trainer, &report, &error_), error_);
        REQUIRE_OK(eitp_trainer_group_norms(r.trainer, groups, 16, &count, &error_), error_);
        CHECK_THAT(has_groups(groups, count, v.lora_rank ? adapted : names), "%zu groups, the first is %s", count,
                   groups[0].name);
        CHECK(is_close(root_sum(groups, count, offsetof(eitp_group_norms, grad_norm)), report.grad_norm));
        CHECK(!eitp_trainer_group_norms(r.trainer, groups, 1, &count, &error_) && count == 1);
        end_run(&r);
    }
    scratch_remove(directory);
}

static void norms_are_read_right_after_a_step(void) {
    const eitp_host host = eitp_host_default();
    char directory[512];
    variant v = default_variant();
    eitp_group_norms groups[16];
    eitp_evaluation evaluation;
    eitp_step_report report;
    size_t count = 7;
    run r;
    REQUIRE(scratch_make(directory) && write_text(directory));
    REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
    CHECK(eitp_trainer_group_norms(r.trainer, groups, 16, &count, &error_) == EITP_ERROR_ARGUMENT);
    REQUIRE_OK(eitp_trainer_step(r.trainer, &report, &error_), error_);
    REQUIRE_OK(eitp_trainer_evaluate(r.trainer, 0, &evaluation, &error_), error_);
    CHECK(eitp_trainer_group_norms(r.trainer, groups, 16, &count, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(count == 7);
    CHECK(eitp_trainer_group_norms(NULL, groups, 16, &count, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_trainer_group_norms(r.trainer, NULL, 16, &count, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_trainer_group_norms(r.trainer, groups, 16, NULL, &error_) == EITP_ERROR_ARGUMENT);
    end_run(&r);
    scratch_remove(directory);
}

/* ---- Clipping ---- */

/* A step counts as clipped if its norm is above the limit and it is applied, with a scaled loss too. */
static void a_step_says_whether_it_was_clipped(void) {
    static const char *const precisions[] = {"fp32", "fp16"};
    const eitp_host host = eitp_host_default();
    char directory[512];
    REQUIRE(scratch_make(directory) && write_text(directory));
    for (size_t p = 0; p < EITP__COUNT(precisions); p++) {
        variant v = default_variant();
        eitp_step_report report;
        double limit;
        run r;
        v.precision = precisions[p];
        REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
        r.trainer->loss_scale = p ? 1024 : 1;
        for (int factor = 0; factor <= 4; factor++) {
            r.trainer->plans.config.max_grad_norm = limit = factor ? 0.5 * factor * report.grad_norm : 0;
            REQUIRE_OK(eitp_trainer_step(r.trainer, &report, &error_), error_);
            CHECK_THAT(report.applied && report.clipped == (limit > 0 && report.grad_norm > limit),
                       "%s: clipped %d, norm %g, limit %g", precisions[p], report.clipped, report.grad_norm, limit);
            CHECK(factor != 1 || report.clipped);
            CHECK(factor != 4 || !report.clipped);
        }
        r.trainer->loss_scale = p ? 1e30 : 1;
        r.trainer->plans.config.max_grad_norm = 1e-3;
        REQUIRE_OK(eitp_trainer_step(r.trainer, &report, &error_), error_);
        CHECK(report.clipped == report.applied && report.applied == !p);
        end_run(&r);
    }
    scratch_remove(directory);
}

/* ---- Times ---- */

static double sum_of_parts(const eitp_step_times *times) {
    return times->data + times->forward + times->backward + times->update + times->transfer + times->other;
}

/* One pass with the update in it, several passes, recomputation, data workers, offloading. */
static void times_of_a_step_add_up(void) {
    const eitp_host host = eitp_host_default();
    char directory[512];
    REQUIRE(scratch_make(directory) && write_text(directory));
    for (int way = 0; way < 5; way++) {
        variant v = default_variant();
        eitp_step_report report;
        run r;
        v.micro_batches_per_pass = way == 1 ? 1 : 2;
        v.plan.recompute = way == 2 ? EITP_RECOMPUTE_LAYER : EITP_RECOMPUTE_AUTO;
        v.data_workers = way == 3;
        v.offload = way == 4 ? EITP_OFFLOAD_ALL : EITP_OFFLOAD_NONE;
        REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
        for (int i = 0; i < 2; i++) {
            const eitp_step_times *times = &report.times;
            REQUIRE_OK(eitp_trainer_step(r.trainer, &report, &error_), error_);
            CHECK_THAT(times->total > 0 && fabs(sum_of_parts(times) - times->total) < 1e-9 * times->total + 1e-12,
                       "way %d: %.9g of %.9g seconds", way, sum_of_parts(times), times->total);
            CHECK_THAT(times->data > 0 && times->forward > 0 && times->backward > 0 && times->update > 0 &&
                           times->other > 0,
                       "way %d: data %g, forward %g, backward %g, update %g, other %g", way, times->data,
                       times->forward, times->backward, times->update, times->other);
            CHECK_THAT((times->transfer > 0) == (way == 4), "way %d: %g", way, times->transfer);
        }
        end_run(&r);
    }
    scratch_remove(directory);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(norms_of_groups_make_up_those_of_the_step),
        TEST(groups_are_layers_and_modules),
        TEST(norms_are_read_right_after_a_step),
        TEST(a_step_says_whether_it_was_clipped),
        TEST(times_of_a_step_add_up),
    };
    return RUN_TESTS(tests, argc, argv);
}
