/* Spikes: what counts as a spike, which steps are skipped, and that a resume or another split skips the same steps. */
#include "tests/support/trainer_run.h"

/* ---- Windows ---- */

static eitp_step_report step_of(double loss, double norm) {
    eitp_step_report report;
    memset(&report, 0, sizeof report);
    report.loss = report.task_loss = loss;
    report.grad_norm = norm;
    report.applied = 1;
    return report;
}

/* Makes a step as the trainer does. Returns its spike. */
static int make_step(eitp__spikes *spikes, double threshold, int skips, double loss, double norm, int *was_cleared) {
    eitp_step_report report = step_of(loss, norm);
    int cleared;
    eitp__spikes_begin(spikes, threshold);
    report.applied = isfinite(norm) && !(skips && norm > spikes->norms.limit);
    cleared = eitp__spikes_end(spikes, &report);
    if (was_cleared)
        *was_cleared = cleared;
    return report.spike;
}

static double ripple(int i) {
    return (i * 7 % 11) / 11.0;
}

static void a_spike_is_far_above_the_median(void) {
    eitp__spikes spikes = EITP__ZERO;
    for (int i = 0; i < EITP__SPIKE_LEAST; i++)
        CHECK(
            !make_step(&spikes, 10, 0, i == 5 ? 1e9 : 3 + 0.05 * ripple(i), i == 9 ? 1e9 : 1 + 0.1 * ripple(i), NULL));
    CHECK(!make_step(&spikes, 10, 0, 3.6, 1.9, NULL));
    CHECK(make_step(&spikes, 10, 0, 4.2, 1, NULL) == EITP_SPIKE_LOSS);
    CHECK(make_step(&spikes, 10, 0, 3, 2.9, NULL) == EITP_SPIKE_GRADIENT);
    CHECK(make_step(&spikes, 10, 0, 30, 29, NULL) == (EITP_SPIKE_LOSS | EITP_SPIKE_GRADIENT));
    CHECK(!make_step(&spikes, 1000, 0, 4.2, 2.9, NULL));
    CHECK(!make_step(&spikes, 0, 0, 30, 29, NULL));
    CHECK(!make_step(&spikes, 10, 0, (double)NAN, (double)NAN, NULL));
    CHECK(!make_step(&spikes, 10, 0, (double)INFINITY, (double)INFINITY, NULL));
    CHECK(spikes.losses.last.count == 26 && spikes.skipped == 0);
}

/* Values that hardly vary: a tenth more is a thousand deviations, but not a spike. */
static void tiny_deviations_are_no_spikes(void) {
    eitp__spikes spikes = EITP__ZERO;
    for (int i = 0; i < 30; i++)
        CHECK(!make_step(&spikes, 10, 0, -3 + 1e-5 * ripple(i), 1 + 1e-5 * ripple(i), NULL));
    CHECK(!make_step(&spikes, 10, 0, -2.7, 1.1, NULL));
    CHECK(make_step(&spikes, 10, 0, -2, 2.1, NULL) == 3);
    memset(&spikes, 0, sizeof spikes);
    for (int i = 0; i < 40; i++)
        CHECK(!make_step(&spikes, 10, 1, 0, 0, NULL));
    CHECK(!make_step(&spikes, 10, 1, 1, 1, NULL)); /* no scale */
}

/* The median of the last 100 follows a norm that drifts. */
static void the_window_follows_the_norm(void) {
    eitp__spikes spikes = EITP__ZERO;
    double norm = 1;
    for (int i = 0; i < 1000; i++, norm *= 1.005)
        CHECK(!make_step(&spikes, 10, 1, 3, norm, NULL));
    CHECK(spikes.norms.last.count == EITP__SPIKE_STEPS && spikes.skipped == 0);
}

/* A norm that stays high is not a spike: after ten steps it is applied. */
static void a_lasting_change_is_not_skipped_for_ever(void) {
    eitp__spikes spikes = EITP__ZERO;
    int was_cleared = 0;
    for (int i = 0; i < 50; i++)
        make_step(&spikes, 10, 1, 3, 1 + 0.1 * ripple(i), NULL);
    for (int i = 1; i <= EITP__SPIKES_IN_A_ROW; i++) {
        CHECK(make_step(&spikes, 10, 1, 3, 9, &was_cleared) == EITP_SPIKE_GRADIENT);
        CHECK(was_cleared == (i == EITP__SPIKES_IN_A_ROW) && spikes.skipped == i);
    }
    CHECK(!make_step(&spikes, 10, 1, 3, 9, &was_cleared) && spikes.norms.last.count == 1 && !was_cleared);
}

static eitp_status read_spikes(const char *text, eitp__spikes *spikes) {
    const eitp_host host = eitp_host_default();
    eitp_json_document *document;
    eitp_status status = eitp_json_parse(&host, text, strlen(text), &document, &error_);
    if (!status) {
        status = eitp__spikes_read(spikes, eitp_json_root(document), &error_);
        eitp_json_release(document);
    }
    return status;
}

static void windows_of_an_edited_file_are_refused(void) {
    static const char *const texts[] = {
        "{\"spikes\": []}",
        "{\"spikes\": {\"losses\": [1], \"grad_norms\": []}}",
        "{\"spikes\": {\"losses\": [1], \"grad_norms\": [null]}}",
        "{\"spikes\": {\"losses\": [], \"grad_norms\": [], \"in_a_row\": 10}}",
        "{\"spikes\": {\"losses\": [], \"grad_norms\": [], \"skipped\": -1}}",
        "{\"spikes\": {\"losses\": [1e999], \"grad_norms\": [1]}}",
    };
    char many[2000] = "{\"spikes\": {\"grad_norms\": [], \"losses\": [0";
    eitp__spikes spikes;
    for (size_t i = 0; i < EITP__COUNT(texts); i++)
        CHECK_THAT(read_spikes(texts[i], &spikes) == EITP_ERROR_FORMAT, "%s", texts[i]);
    for (int i = 0; i < EITP__SPIKE_STEPS; i++)
        strcat(many, ",0");
    strcat(many, "]}}");
    CHECK(read_spikes(many, &spikes) == EITP_ERROR_FORMAT);
    CHECK(!read_spikes("{}", &spikes) && !spikes.losses.last.count);
}

/* ---- Steps ---- */

enum { STEP_BYTES = 2 * 2 * 32, STRANGE_STEP = 51, STEPS = 60 };

/* Writes text that is easy to learn, except for one step in the middle. */
static int write_strange_text(const char *directory) {
    static const char easy[] = "a fern, a leaf. ";
    FILE *file = fopen(scratch_path(directory, "text.txt"), "wb");
    if (!file)
        return 0;
    for (int i = 0; i < 80 * STEP_BYTES; i++)
        fputc(i / STEP_BYTES + 1 == STRANGE_STEP ? '0' + i * 7919 % 75 : easy[i % 16], file);
    return fclose(file) == 0;
}

static eitp_status make_skipping_run(run *r, const variant *v, const char *directory, int skips) {
    const eitp_host host = eitp_host_default();
    eitp_status status = make_run(r, &host, v, directory, &error_);
    if (status)
        return status;
    eitp_trainer_destroy(r->trainer);
    r->trainer = NULL;
    r->config.shuffle = EITP_SHUFFLE_NONE;
    r->config.schedule.kind = EITP_SCHEDULE_CONSTANT;
    r->config.schedule.peak = v->optimizer == EITP_SGD ? 0.5 : 1e-2;
    r->config.spike_threshold = 4;
    r->config.skip_spikes = skips;
    return eitp_trainer_create(&r->task, &r->config, &r->trainer, &error_);
}

/* Trains to a step. Returns the number of spikes. */
static int train_to(run *r, int64_t last, int skips) {
    int spikes = 0;
    while (eitp_trainer_steps_done(r->trainer) < last) {
        eitp_step_report report;
        const int is_strange = eitp_trainer_steps_done(r->trainer) == STRANGE_STEP - 1;
        const uint32_t before = is_strange ? fingerprint(r) : 0;
        const double scale = r->trainer->loss_scale;
        if (eitp_trainer_step(r->trainer, &report, &error_)) {
            CHECK_THAT(0, "%s", error_.message);
            return -1;
        }
        spikes += report.spike != 0;
        if (report.step == STRANGE_STEP)
            CHECK_THAT(report.spike == (EITP_SPIKE_LOSS | EITP_SPIKE_GRADIENT) && report.applied == !skips,
                       "spike %d, applied %d: loss %g (%g), norm %g (%g)", report.spike, report.applied, report.loss,
                       report.usual_loss, report.grad_norm, report.usual_grad_norm);
        if (report.step != STRANGE_STEP || !skips)
            continue;
        CHECK(fingerprint(r) == before && report.spikes_skipped == 1 && report.skipped == r->trainer->skipped);
        CHECK(r->trainer->loss_scale >= scale); /* not an overflow */
    }
    return spikes;
}

/* The same steps are skipped in one pass, in several, with gradients in variables and with every kind of update. */
static void a_spike_is_skipped_however_a_step_is_divided(void) {
    static const eitp_optimizer optimizers[] = {EITP_ADAMW, EITP_FACTORED, EITP_SGD};
    for (size_t i = 0; i < EITP__COUNT(optimizers); i++) {
        uint32_t bits[3] = {0, 1, 2};
        for (int way = 0; way < 3; way++) {
            char directory[512];
            variant v = default_variant();
            run r;
            REQUIRE(scratch_make(directory) && write_strange_text(directory));
            v.optimizer = optimizers[i];
            v.micro_batches_per_pass = way ? 1 : 2;
            if (way == 2) {
                v.micro_batches_per_pass = 2;
                v.keep_gradients = 1;
            }
            REQUIRE_OK(make_skipping_run(&r, &v, directory, 1), error_);
            CHECK(train_to(&r, STRANGE_STEP, 1) >= 1);
            bits[way] = fingerprint(&r);
            end_run(&r);
            scratch_remove(directory);
        }
        CHECK_THAT(bits[0] == bits[1] && bits[0] == bits[2], "optimizer %d", (int)i);
    }
}

static void a_spike_is_applied_unless_skipping_is_on(void) {
    char directory[512];
    variant v = default_variant();
    run r;
    REQUIRE(scratch_make(directory) && write_strange_text(directory));
    REQUIRE_OK(make_skipping_run(&r, &v, directory, 0), error_);
    CHECK(train_to(&r, STEPS, 0) >= 1 && r.trainer->spikes.skipped == 0);
    end_run(&r);
    scratch_remove(directory);
}

static void a_skipped_spike_is_no_overflow_of_fp16(void) {
    char directory[512];
    variant v = default_variant();
    run r;
    REQUIRE(scratch_make(directory) && write_strange_text(directory));
    v.precision = "fp16";
    REQUIRE_OK(make_skipping_run(&r, &v, directory, 1), error_);
    CHECK(train_to(&r, STRANGE_STEP, 1) >= 1);
    end_run(&r);
    scratch_remove(directory);
}

/* Saved and resumed before and after the spike, a run skips the same steps, with the same bits. */
static void a_resumed_run_skips_the_same_steps(void) {
    char directory[512], output[600], checkpoint[700];
    variant v = default_variant();
    uint32_t straight;
    run r;
    REQUIRE(scratch_make(directory) && write_strange_text(directory));
    REQUIRE_OK(make_skipping_run(&r, &v, directory, 1), error_);
    CHECK(train_to(&r, STEPS, 1) >= 1);
    straight = fingerprint(&r);
    end_run(&r);
    snprintf(output, sizeof output, "%s/out", directory);
    for (int64_t step = 0; step < STEPS; step += step < STRANGE_STEP - 1 ? 10 : 1 + 3 * (step > STRANGE_STEP)) {
        REQUIRE_OK(make_skipping_run(&r, &v, directory, 1), error_);
        if (step) {
            snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-%lld", output, (long long)step);
            REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
        }
        const int64_t next = step + (step < STRANGE_STEP - 1 ? 10 : 1 + 3 * (step > STRANGE_STEP));
        train_to(&r, next < STEPS ? next : STEPS, 1);
        if (next >= STEPS)
            CHECK(fingerprint(&r) == straight);
        REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
        end_run(&r);
    }
    scratch_remove(directory);
}

static void skipping_needs_a_threshold(void) {
    char directory[512];
    variant v = default_variant();
    run r;
    eitp_trainer *made;
    REQUIRE(scratch_make(directory) && write_strange_text(directory));
    REQUIRE_OK(make_skipping_run(&r, &v, directory, 1), error_);
    r.config.spike_threshold = 0;
    CHECK(eitp_trainer_create(&r.task, &r.config, &made, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "skip_spikes needs a spike_threshold"), "%s", error_.message);
    end_run(&r);
    scratch_remove(directory);
}

static const test_case tests[] = {
    TEST(a_spike_is_far_above_the_median),
    TEST(tiny_deviations_are_no_spikes),
    TEST(the_window_follows_the_norm),
    TEST(a_lasting_change_is_not_skipped_for_ever),
    TEST(windows_of_an_edited_file_are_refused),
    TEST(a_spike_is_skipped_however_a_step_is_divided),
    TEST(a_spike_is_applied_unless_skipping_is_on),
    TEST(a_skipped_spike_is_no_overflow_of_fp16),
    TEST(a_resumed_run_skips_the_same_steps),
    TEST(skipping_needs_a_threshold),
};

int main(int argc, char **argv) {
    return RUN_TESTS(tests, argc, argv);
}
