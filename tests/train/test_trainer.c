/* Steps: any number of threads, accumulation, precisions, steps that are not applied, the end of the data. */
#include "tests/support/resident.h"
#include "tests/support/trainer_run.h"

static void any_number_of_threads_gives_the_same_bits(void) {
    char directory[512];
    variant v = default_variant();
    size_t set = 0;
    REQUIRE(scratch_make(directory) && write_text(directory));
    while (next_set(&set, &v)) {
        uint32_t one, two, three;
        v.threads = 1;
        one = train_variant(&v, directory, 6);
        v.threads = 2;
        two = train_variant(&v, directory, 6);
        v.threads = 3;
        three = train_variant(&v, directory, 6);
        CHECK_THAT(one && one == two && one == three, "%s %s %s: %08x %08x %08x", v.isa, v.products, v.precision, one,
                   two, three);
    }
    v = default_variant();
    v.dropout = 0;
    CHECK(train_variant(&v, directory, 2) != 0);
    scratch_remove(directory);
}

/* Dropout and another step change the bits. This shows that the comparisons above can fail. */
static void dropout_and_steps_change_the_bits(void) {
    char directory[512];
    variant v = default_variant(), other = default_variant();
    REQUIRE(scratch_make(directory) && write_text(directory));
    other.dropout = 0.11;
    CHECK(train_variant(&v, directory, 3) != train_variant(&other, directory, 3));
    CHECK(train_variant(&v, directory, 3) != train_variant(&v, directory, 4));
    scratch_remove(directory);
}

/* True for the first moment of a parameter. After one step without clipping it is the gradient times a constant. */
static int is_first_moment(const eitp_variable *variable) {
    return !strncmp(variable->name, "adamw.m.", 8);
}

/* Reads all first moments of a run into one array, which the caller frees. */
static char *all_gradients(const run *r) {
    char *values = (char *)malloc(eitp_context_variable_bytes(r->context, EITP_OPTIMIZER));
    size_t at = 0;
    for (size_t i = 0; i < eitp_variable_count(r->context); i++) {
        eitp_variable variable = eitp_variable_at(r->context, i);
        if (!is_first_moment(&variable))
            continue;
        CHECK(!eitp_variable_read(r->context, variable.name, 0, values + at, variable.size, &error_));
        at += variable.size;
    }
    return values;
}

/* Checks that gradients have the same bits: sums over tokens continue from the accumulated value. */
static void compare_gradients(const run *r, const char *gradients, const char *reference) {
    size_t at = 0;
    for (size_t i = 0; i < eitp_variable_count(r->context); i++) {
        eitp_variable variable = eitp_variable_at(r->context, i);
        if (!is_first_moment(&variable))
            continue;
        CHECK_THAT(!memcmp(gradients + at, reference + at, variable.size), "%s", variable.name);
        at += variable.size;
    }
    CHECK(at > 0);
}

/*
 * One batch of 4, against 2 x 2, 4 x 1, 3 + 1 of a run that ends there, and passes of two and three micro-batches: the
 * same samples, mean and dropout.
 */
static void accumulation_is_one_large_batch(void) {
    static const struct {
        int64_t batch, accumulation, micro_batches_per_pass;
        uint64_t last;
    } ways[] = {{4, 1, 1, 0}, {2, 2, 1, 0}, {1, 4, 1, 0}, {3, 2, 1, 4},
                {2, 2, 2, 0}, {1, 4, 3, 0}, {1, 5, 2, 4}, {1, 4, 0, 0}};
    static const char *const isas[] = {"ref", "avx2", "avx512", "avx512bf16", "amx"};
    static const char *const precisions[] = {"fp32", "bf16", "fp16"};
    const eitp_host host = eitp_host_default();
    char directory[512];
    REQUIRE(scratch_make(directory) && write_text(directory));
    for (size_t k = 0; k < sizeof isas / sizeof *isas * 3; k++) {
        char *reference = NULL;
        double reference_loss = 0;
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            variant v = default_variant();
            run r;
            char *gradients;
            double loss = 0;
            v.isa = isas[k / 3];
            v.products = "own";
            v.precision = precisions[k % 3];
            v.batch_size = ways[w].batch;
            v.grad_accum = ways[w].accumulation;
            v.micro_batches_per_pass = ways[w].micro_batches_per_pass;
            v.last_sample = ways[w].last;
            v.unclipped = 1;
            if (make_run(&r, &host, &v, directory, &error_)) {
                printf("SKIPPED %s in %s: %s\n", v.isa, v.precision, error_.message);
                end_run(&r);
                break;
            }
            REQUIRE(step_many(&r, 1, &loss));
            gradients = all_gradients(&r);
            if (reference) {
                compare_gradients(&r, gradients, reference);
                CHECK_THAT(fabs(loss - reference_loss) < 1e-12, "%d x %d: loss %.9f and %.9f", (int)v.batch_size,
                           (int)v.grad_accum, loss, reference_loss);
                free(gradients);
            } else {
                reference = gradients;
                reference_loss = loss;
            }
            end_run(&r);
        }
        free(reference);
    }
    scratch_remove(directory);
}

static void every_optimizer_learns(void) {
    static const struct {
        const char *precision;
        eitp_optimizer optimizer;
    } ways[] = {{"fp32", EITP_ADAMW},    {"bf16", EITP_ADAMW8}, {"bf16", EITP_ADAMW8_SR}, {"fp32", EITP_FACTORED},
                {"bf16", EITP_FACTORED}, {"fp32", EITP_SGD},    {"bf16", EITP_SGD},       {"fp16", EITP_SGD}};
    const eitp_host host = eitp_host_default();
    char directory[512];
    REQUIRE(scratch_make(directory) && write_text(directory));
    for (size_t w = 0; w < EITP__COUNT(ways); w++) {
        variant v = default_variant();
        eitp_evaluation before, after;
        run r;
        v.precision = ways[w].precision;
        v.optimizer = ways[w].optimizer;
        REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
        REQUIRE_OK(eitp_trainer_evaluate(r.trainer, 0, &before, &error_), error_);
        REQUIRE(step_many(&r, 40, NULL));
        REQUIRE_OK(eitp_trainer_evaluate(r.trainer, 0, &after, &error_), error_);
        CHECK_THAT(fabs(before.loss - log(257.0)) < 0.2, "%g", before.loss);
        CHECK_THAT(after.loss < 2.6, "%s in %s: %g", eitp_optimizer_get(v.optimizer)->name, v.precision, after.loss);
        CHECK(after.items == before.items && after.items > 1000 && after.error > 0);
        end_run(&r);
    }
    scratch_remove(directory);
}

/* After 300 steps from the same weights, the validation loss in 16 bits is within half a percent of the f32 loss. */
static void sixteen_bits_follow_f32(void) {
    static const char *const precisions[] = {"fp32", "bf16", "fp16"};
    const eitp_host host = eitp_host_default();
    char directory[512];
    double losses[3];
    float first[3];
    REQUIRE(scratch_make(directory) && write_text(directory));
    for (int i = 0; i < 3; i++) {
        variant v = default_variant();
        eitp_evaluation evaluation;
        run r;
        v.precision = precisions[i];
        v.dropout = 0;
        REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
        REQUIRE_OK(eitp_variable_read_f32(r.context, "transformer.h.0.attn.c_attn.weight", 5, &first[i], 1, &error_),
                   error_);
        REQUIRE(step_many(&r, SHADOW_MEMORY ? 30 : 300, NULL));
        REQUIRE_OK(eitp_trainer_evaluate(r.trainer, 0, &evaluation, &error_), error_);
        losses[i] = evaluation.loss;
        end_run(&r);
    }
    for (int i = 1; i < 3; i++) {
        CHECK_THAT(fabs(losses[i] / losses[0] - 1) < 0.005, "%s: %g, and %g in f32", precisions[i], losses[i],
                   losses[0]);
        CHECK_THAT(first[i] == first[0], "%s starts from %.9g, f32 from %.9g", precisions[i], (double)first[i],
                   (double)first[0]);
    }
    scratch_remove(directory);
}

/* A step that overflows fp16 halves the loss scale, reports it and changes nothing else. */
static void an_overflow_lowers_the_loss_scale(void) {
    const eitp_host host = eitp_host_default();
    char directory[512];
    variant v = default_variant();
    eitp_step_report report;
    uint32_t before;
    int64_t skipped = 0;
    run r;
    REQUIRE(scratch_make(directory) && write_text(directory));
    v.precision = "fp16";
    REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
    r.trainer->loss_scale = 16777216.0 * 65536.0;
    before = fingerprint(&r);
    do {
        double scale = r.trainer->loss_scale;
        REQUIRE_OK(eitp_trainer_step(r.trainer, &report, &error_), error_);
        CHECK(report.loss_scale == scale);
        skipped += !report.applied;
        CHECK(report.skipped == skipped);
        CHECK((fingerprint(&r) == before) == !report.applied);
        CHECK(r.trainer->loss_scale == (report.applied ? scale : scale / 2));
    } while (!report.applied && skipped < 40);
    CHECK_THAT(report.applied && skipped > 5, "%d skipped", (int)skipped);
    CHECK(isfinite(report.grad_norm) && report.grad_norm < 100);
    end_run(&r);
    scratch_remove(directory);
}

/* A gradient that is not finite changes nothing, and the report has applied = 0. */
static void a_step_that_is_not_finite_changes_nothing(void) {
    const eitp_host host = eitp_host_default();
    char directory[512];
    variant v = default_variant();
    eitp_step_report report;
    uint32_t before, after;
    float bad = (float)HUGE_VAL;
    run r;
    REQUIRE(scratch_make(directory) && write_text(directory));
    REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
    REQUIRE_OK(eitp_variable_write(r.context, "transformer.ln_f.bias", 8, &bad, sizeof bad, &error_), error_);
    before = fingerprint(&r);
    REQUIRE_OK(eitp_trainer_step(r.trainer, &report, &error_), error_);
    after = fingerprint(&r);
    CHECK(!report.applied && before == after);
    bad = 0;
    REQUIRE_OK(eitp_variable_write(r.context, "transformer.ln_f.bias", 8, &bad, sizeof bad, &error_), error_);
    REQUIRE_OK(eitp_trainer_step(r.trainer, &report, &error_), error_);
    CHECK(report.applied);
    end_run(&r);
    scratch_remove(directory);
}

static void epochs_set_samples_and_steps(void) {
    eitp_trainer_config config = eitp_trainer_config_default();
    eitp_task task = EITP__ZERO;
    task.samples[EITP_TRAINING] = 30;
    config.batch_size = 2;
    config.grad_accum = 2;
    CHECK(!eitp_trainer_config_set_epochs(&config, &task, 1, &error_) && config.last_sample == 30);
    CHECK(config.schedule.steps == 8);
    CHECK(!eitp_trainer_config_set_epochs(&config, &task, 0.1, &error_) && config.last_sample == 3);
    CHECK(config.schedule.steps == 1);
    CHECK(!eitp_trainer_config_set_epochs(&config, &task, 1e-9, &error_) && config.last_sample == 1);
    CHECK(!eitp_trainer_config_set_epochs(&config, &task, 2.5, &error_) && config.last_sample == 75);
    CHECK(eitp_trainer_config_set_epochs(&config, &task, 0, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_trainer_config_set_epochs(&config, &task, NAN, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_trainer_config_set_epochs(&config, &task, 1e300, &error_) == EITP_ERROR_ARGUMENT);
    config.grad_accum = 0;
    CHECK(eitp_trainer_config_set_epochs(&config, &task, 1, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(config.last_sample == 75);
}

/* After the last sample, a step reports the end of the data and changes nothing, however often it is tried. */
static void there_is_no_step_after_the_last_sample(void) {
    static const int64_t per_pass[] = {2, 1};
    const eitp_host host = eitp_host_default();
    char directory[512];
    REQUIRE(scratch_make(directory) && write_text(directory));
    for (size_t way = 0; way < EITP__COUNT(per_pass); way++) {
        variant v = default_variant();
        eitp_step_report report, last;
        uint32_t before;
        run r;
        v.micro_batches_per_pass = per_pass[way];
        v.last_sample = 9; /* 4 samples a step */
        REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
        REQUIRE(step_many(&r, 2, NULL));
        REQUIRE_OK(eitp_trainer_step(r.trainer, &report, &error_), error_);
        CHECK(report.step == 3 && report.items == 32);
        before = fingerprint(&r);
        last = report;
        for (int i = 0; i < 2; i++) {
            CHECK(eitp_trainer_step(r.trainer, &report, &error_) == EITP_END_OF_DATA);
            CHECK_THAT(strstr(error_.message, "9 samples") != NULL, "%s", error_.message);
            CHECK(eitp_trainer_steps_done(r.trainer) == 3 && !memcmp(&report, &last, sizeof last));
            CHECK_THAT(fingerprint(&r) == before, "way %d: a step without samples changed something", (int)way);
        }
        CHECK(!eitp_trainer_is_inconsistent(r.trainer));
        end_run(&r);
    }
    scratch_remove(directory);
}

static void schedules_follow_their_formulas(void) {
    eitp_schedule schedule;
    memset(&schedule, 0, sizeof schedule);
    schedule.peak = 2;
    schedule.final = 0.5;
    schedule.warmup = 4;
    schedule.steps = 12;
    CHECK(eitp_schedule_rate(&schedule, 1) == 0.5 && eitp_schedule_rate(&schedule, 4) == 2);
    CHECK(eitp_schedule_rate(&schedule, 12) == 2);
    /* transformers counts steps from 0. */
    schedule.warmup_from_zero = 1;
    CHECK(eitp_schedule_rate(&schedule, 1) == 0 && eitp_schedule_rate(&schedule, 4) == 1.5);
    CHECK(eitp_schedule_rate(&schedule, 5) == 2);
    schedule.warmup_from_zero = 0;
    schedule.kind = EITP_SCHEDULE_LINEAR;
    CHECK(eitp_schedule_rate(&schedule, 5) == 2 && eitp_schedule_rate(&schedule, 9) == 1.25);
    CHECK(eitp_schedule_rate(&schedule, 13) == 0.5 && eitp_schedule_rate(&schedule, 99) == 0.5);
    schedule.kind = EITP_SCHEDULE_COSINE;
    CHECK(eitp_schedule_rate(&schedule, 5) == 2 && fabs(eitp_schedule_rate(&schedule, 9) - 1.25) < 1e-12);
    CHECK(fabs(eitp_schedule_rate(&schedule, 13) - 0.5) < 1e-12);
    schedule.kind = EITP_SCHEDULE_COSINE_WITH_RESTARTS;
    CHECK(eitp_schedule_rate(&schedule, 5) == 2 && fabs(eitp_schedule_rate(&schedule, 9) - 1.25) < 1e-12);
    schedule.cycles = 2;
    CHECK(eitp_schedule_rate(&schedule, 5) == 2 && fabs(eitp_schedule_rate(&schedule, 7) - 1.25) < 1e-12);
    CHECK(fabs(eitp_schedule_rate(&schedule, 8) - (0.5 + 1.5 * 0.5 * (1 - sqrt(0.5)))) < 1e-12);
    CHECK(eitp_schedule_rate(&schedule, 9) == 2 && fabs(eitp_schedule_rate(&schedule, 11) - 1.25) < 1e-12);
    CHECK(eitp_schedule_rate(&schedule, 13) == 0.5 && eitp_schedule_rate(&schedule, 99) == 0.5);
}

/* Computed by hand from the rule: the rate after each evaluation. */
static void a_plateau_counts_evaluations(void) {
    static const struct {
        double loss, rate;
        int64_t reduced_after;
    } evaluations[] = {
        {10, 1, 0},           {9.5, 1, 0},                                         /* not below 10 * 0.9 */
        {8.9, 1, 0},          {NAN, 1, 0},     {8.5, 0.5, 2},        {20, 0.5, 0}, /* cooldown */
        {8.9, 0.5, 0},        {8.02, 0.25, 2}, {8, 0.25, 0},         /* an improvement, though in the cooldown */
        {-HUGE_VAL, 0.25, 0}, {7.9, 0.125, 2}, {HUGE_VAL, 0.125, 0}, /* cooldown */
        {7.9, 0.125, 0},      {7.9, 0.1, 2},                         /* not below `final` */
        {7.9, 0.1, 0},                                               /* cooldown */
        {7.9, 0.1, 0},        {7.9, 0.1, 0}, /* no further reduction is possible, but a cooldown follows */
        {7.9, 0.1, 0},        {7.9, 0.1, 0},   {7.1, 0.1, 0},
    };
    const eitp_plateau_config config = {0.5, 1, 0.1, 1};
    eitp_schedule schedule = EITP__ZERO;
    eitp__plateau plateau;
    schedule.kind = EITP_SCHEDULE_PLATEAU;
    schedule.peak = 1;
    schedule.final = 0.1;
    eitp__plateau_init(&plateau);
    for (int i = 0; i < (int)EITP__COUNT(evaluations); i++) {
        const int64_t after = eitp__plateau_add(&plateau, &config, &schedule, i, evaluations[i].loss);
        const double rate = eitp__plateau_rate(&plateau, &schedule, i + 1);
        CHECK_THAT(rate == evaluations[i].rate && after == evaluations[i].reduced_after, "evaluation %d: %g after %d",
                   i, rate, (int)after);
    }
    CHECK(plateau.best == 7.1 && plateau.failures == 0);
}

/* With PyTorch's defaults the eleventh evaluation without improvement reduces the rate. */
static void a_plateau_has_the_defaults_of_pytorch(void) {
    const eitp_plateau_config config = eitp_plateau_config_default();
    eitp_schedule schedule = EITP__ZERO;
    eitp__plateau plateau;
    schedule.kind = EITP_SCHEDULE_PLATEAU;
    schedule.peak = 2e-8;
    eitp__plateau_init(&plateau);
    for (int i = 0; i < 36; i++) {
        const int64_t after = eitp__plateau_add(&plateau, &config, &schedule, i, i ? 2.9998 : 3);
        const double rate = eitp__plateau_rate(&plateau, &schedule, i + 1);
        /* No loss is below 3 * (1 - 1e-4). */
        CHECK_THAT(after == (i == 11 ? 11 : 0), "evaluation %d: after %d", i, (int)after);
        /* A second reduction, to 2e-10, would be smaller than 1e-8. */
        CHECK_THAT(fabs(rate - (i < 11 ? 2e-8 : 2e-9)) < 1e-20, "evaluation %d: %g", i, rate);
    }
}

/* Evaluations during the warm-up do not count, and a longer warm-up does not raise a reduced rate. */
static void a_plateau_begins_after_the_warm_up(void) {
    const eitp_plateau_config config = {0.5, 0, 0, 0};
    eitp_schedule schedule = EITP__ZERO;
    eitp__plateau plateau;
    schedule.kind = EITP_SCHEDULE_PLATEAU;
    schedule.peak = 1;
    schedule.warmup = 4;
    eitp__plateau_init(&plateau);
    for (int i = 0; i < 4; i++)
        CHECK(!eitp__plateau_add(&plateau, &config, &schedule, i, 3) &&
              eitp__plateau_rate(&plateau, &schedule, i + 1) == 0.25 * (i + 1));
    CHECK(!eitp__plateau_add(&plateau, &config, &schedule, 4, 3) && plateau.best == 3);
    CHECK(eitp__plateau_add(&plateau, &config, &schedule, 5, 3) == 1);
    CHECK(eitp__plateau_rate(&plateau, &schedule, 6) == 0.5 && eitp_schedule_rate(&schedule, 6) == 1);
    schedule.warmup = 8;
    CHECK(eitp__plateau_rate(&plateau, &schedule, 2) == 0.25 && eitp__plateau_rate(&plateau, &schedule, 6) == 0.5);
    schedule.kind = EITP_SCHEDULE_CONSTANT;
    CHECK(eitp__plateau_rate(&plateau, &schedule, 9) == 1);
}

static const eitp__backend_interface *counted_;
static int downloads_;

static eitp_status count_download(eitp__backend *backend, void *target, const void *device, size_t size,
                                  eitp_error *error) {
    downloads_++;
    return counted_->download(backend, target, device, size, error);
}

/* A step reads its losses, its norms and whether it was applied together, regardless of the number of passes. */
static void a_step_reads_once(void) {
    const eitp_host host = eitp_host_default();
    for (int64_t passes = 1; passes <= 3; passes += 2) {
        variant v = default_variant();
        eitp__backend_interface counting;
        eitp_step_report report;
        char directory[512];
        run r;
        v.grad_accum = passes;
        v.micro_batches_per_pass = 1;
        REQUIRE(scratch_make(directory) && write_text(directory));
        REQUIRE(!make_run(&r, &host, &v, directory, &error_) && !eitp_trainer_step(r.trainer, &report, &error_));
        counted_ = r.context->backend->interface;
        counting = *counted_;
        counting.download = count_download;
        r.context->backend->interface = &counting;
        downloads_ = 0;
        CHECK_THAT(!eitp_trainer_step(r.trainer, &report, &error_), "%s", error_.message);
        CHECK_THAT(downloads_ == 1, "%d reads", downloads_);
        CHECK(report.loss > 0 && report.applied && report.grad_norm > 0 && report.update_norm > 0 &&
              report.parameter_norm > report.update_norm);
        r.context->backend->interface = counted_;
        end_run(&r);
        scratch_remove(directory);
    }
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(any_number_of_threads_gives_the_same_bits),
        TEST(dropout_and_steps_change_the_bits),
        TEST(accumulation_is_one_large_batch),
        TEST(every_optimizer_learns),
        TEST(sixteen_bits_follow_f32),
        TEST(a_step_reads_once),
        TEST(an_overflow_lowers_the_loss_scale),
        TEST(a_step_that_is_not_finite_changes_nothing),
        TEST(epochs_set_samples_and_steps),
        TEST(there_is_no_step_after_the_last_sample),
        TEST(schedules_follow_their_formulas),
        TEST(a_plateau_counts_evaluations),
        TEST(a_plateau_has_the_defaults_of_pytorch),
        TEST(a_plateau_begins_after_the_warm_up),
    };
    return RUN_TESTS(tests, argc, argv);
}
