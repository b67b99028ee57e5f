/* The records of a run at each level, the times of steps, and a program's own values. */
#include "tests/support/trainer_run.h"

/* A record received by a sink. */
typedef struct kept_value {
    char name[EITP__RECORD_NAME_SIZE];
    double number; /* 0 for a string */
} kept_value;

typedef struct kept_record {
    eitp_record_kind kind;
    int64_t step;
    kept_value *values;
    size_t count;
} kept_record;

typedef struct fixture {
    run trained;
    char directory[512], output[600];
    eitp_run_config config;
    eitp_run *run;
    eitp_run_report report;
    eitp_record_sink sink;
    kept_record *records;
    size_t count;
    void (*at_step)(struct fixture *f, int64_t step);
    uint32_t bits;   /* of the model at the end */
    int64_t samples; /* of the training data */
    int passes;      /* of a step: 1 or 2 */
} fixture;

static eitp_status keep_record(void *user, const eitp_record *record, eitp_error *error) {
    fixture *f = (fixture *)user;
    kept_record *kept;
    (void)error;
    f->records = (kept_record *)realloc(f->records, (f->count + 1) * sizeof *f->records);
    kept = &f->records[f->count++];
    kept->kind = record->kind;
    kept->step = record->step;
    kept->count = record->count;
    kept->values = (kept_value *)calloc(record->count, sizeof *kept->values);
    for (size_t i = 0; i < record->count; i++) {
        const eitp_value *value = &record->values[i];
        snprintf(kept->values[i].name, sizeof kept->values[i].name, "%s", value->name);
        kept->values[i].number = value->kind == EITP_VALUE_NUMBER ? value->number : (double)value->integer;
    }
    return EITP_OK;
}

static void notice(void *user, const eitp_run_event *event) {
    fixture *f = (fixture *)user;
    if (event->kind == EITP_EVENT_STEP && f->at_step)
        f->at_step(f, event->report->step.step);
}

static int begin_fixture(fixture *f) {
    memset(f, 0, sizeof *f);
    if (!scratch_make(f->directory) || !write_text(f->directory))
        return 0;
    snprintf(f->output, sizeof f->output, "%s/out", f->directory);
    f->config = eitp_run_config_default();
    f->config.directory = f->output;
    f->config.steps = 5;
    f->config.eval_steps = 2;
    f->config.eval_samples = 2;
    f->config.memory_check_seconds = -1;
    f->config.listener.user = f->sink.user = f;
    f->config.listener.notify = notice;
    f->sink.record = keep_record;
    f->config.sinks = &f->sink;
    f->config.sink_count = 1;
    f->passes = 2;
    return 1;
}

/* Trains, and replaces the kept records of an earlier run. */
static void train(fixture *f) {
    const eitp_host host = eitp_host_default();
    variant v = default_variant();
    for (size_t i = 0; i < f->count; i++)
        free(f->records[i].values);
    f->count = 0;
    v.micro_batches_per_pass = 3 - f->passes;
    REQUIRE_OK(make_run(&f->trained, &host, &v, f->directory, &error_), error_);
    REQUIRE_OK(eitp_run_open(&host, &f->config, &f->run, &error_), error_);
    REQUIRE_OK(eitp_run_train(f->run, f->trained.trainer, &f->report, &error_), error_);
    f->bits = fingerprint(&f->trained);
    f->samples = (int64_t)f->trained.task.samples[EITP_TRAINING];
    eitp_run_close(f->run);
    end_run(&f->trained);
    f->config.directory = f->output;
    snprintf(f->output + strlen(f->output), 8, "x"); /* the next run is separate */
}

static void end_fixture(fixture *f) {
    for (size_t i = 0; i < f->count; i++)
        free(f->records[i].values);
    free(f->records);
    scratch_remove(f->directory);
}

static const kept_value *find(const kept_record *record, const char *name) {
    for (size_t i = 0; i < record->count; i++) {
        if (!strcmp(record->values[i].name, name))
            return &record->values[i];
    }
    return NULL;
}

/* Returns a value that must exist, or NaN. */
static double number(const kept_record *record, const char *name) {
    const kept_value *value = find(record, name);
    CHECK_THAT(value != NULL, "step %lld: no %s", (long long)record->step, name);
    return value ? value->number : (double)NAN;
}

static size_t count_kind(const fixture *f, eitp_record_kind kind) {
    size_t count = 0;
    for (size_t i = 0; i < f->count; i++)
        count += f->records[i].kind == kind;
    return count;
}

/* Returns the n-th record of a kind, or NULL if there are fewer. */
static const kept_record *of_kind(const fixture *f, eitp_record_kind kind, size_t n) {
    for (size_t i = 0; i < f->count; i++) {
        if (f->records[i].kind == kind && !n--)
            return &f->records[i];
    }
    return NULL;
}

/* ---- Levels ---- */

static void levels_record_more_and_change_no_bit(void) {
    static const char *const light[] = {"loss",       "lr",      "grad_norm",    "update_norm", "parameter_norm",
                                        "loss_scale", "tokens",  "tokens_per_s", "step_time_s", "rss_bytes",
                                        "applied",    "data_s",  "forward_s",    "backward_s",  "update_s",
                                        "transfer_s", "other_s", "clipped"};
    static const char *const groups[] = {
        "activation_rms/transformer.h.0",  "activation_rms/transformer.ln_f", "attention_entropy/transformer.h.1",
        "dead_units/transformer.h.0",      "grad_norm/transformer.h.0",       "update_norm/transformer.wte",
        "parameter_norm/transformer.ln_f", "update_ratio/transformer.h.1",    "update_ratio"};
    uint32_t bits = 0;
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.log_full_every = 2;
    f.config.perf_every = 2;
    for (int level = EITP_MONITOR_OFF; level <= EITP_MONITOR_FULL; level++) {
        f.config.monitor = (eitp_monitor)level;
        train(&f);
        CHECK_THAT(!bits || f.bits == bits, "level %d: %08x instead of %08x", level, f.bits, bits);
        bits = f.bits;
        CHECK(count_kind(&f, EITP_RECORD_EVALUATION) == 4 && count_kind(&f, EITP_RECORD_EVENT) > 0);
        CHECK(count_kind(&f, EITP_RECORD_STEP) == (level == EITP_MONITOR_OFF ? 0u : 5u));
        CHECK(count_kind(&f, EITP_RECORD_PERFORMANCE) == (level == EITP_MONITOR_OFF ? 0u : 3u));
        for (size_t n = 0; n < count_kind(&f, EITP_RECORD_STEP); n++) {
            const kept_record *record = of_kind(&f, EITP_RECORD_STEP, n);
            const int is_full = level == EITP_MONITOR_FULL && record->step % 2 == 0;
            for (size_t i = 0; i < sizeof light / sizeof *light; i++)
                CHECK_THAT(find(record, light[i]) != NULL, "level %d: no %s", level, light[i]);
            for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
                CHECK_THAT((find(record, groups[i]) != NULL) == is_full, "level %d, step %lld: %s", level,
                           (long long)record->step, groups[i]);
        }
    }
    end_fixture(&f);
}

/* ---- Performance ---- */

static double sum_of_steps(const fixture *f, const char *name, int64_t first, int64_t last) {
    double sum = 0;
    for (size_t n = 0; n < count_kind(f, EITP_RECORD_STEP); n++) {
        const kept_record *record = of_kind(f, EITP_RECORD_STEP, n);
        sum += record->step >= first && record->step <= last ? number(record, name) : 0;
    }
    return sum;
}

/* The times of an interval are the sums over its steps, and its shares add up to the whole. */
static void check_interval(const fixture *f, const kept_record *record, int64_t first, int64_t last) {
    static const char *const pairs[][2] = {{"perf/forward_time", "forward_s"},
                                           {"perf/backward_time", "backward_s"},
                                           {"perf/optimizer_time", "update_s"},
                                           {"perf/data_loading_time", "data_s"},
                                           {"perf/other_time", "other_s"}};
    double shares = number(record, "perf/data_loading_ratio") + number(record, "perf/compute_ratio") +
                    number(record, "perf/other_ratio");
    CHECK(record->step == last && number(record, "perf/steps") == (double)(last - first + 1));
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        CHECK_THAT(fabs(number(record, pairs[i][0]) - sum_of_steps(f, pairs[i][1], first, last)) < 1e-7, "%s",
                   pairs[i][0]);
    CHECK_THAT(fabs(shares - 100) < 1e-6, "%.9g %%", shares);
    CHECK(number(record, "perf/compute_ratio") > 0 && number(record, "perf/compute_ratio") <= 100);
    CHECK(number(record, "perf/data_loading_ratio") >= 0 && number(record, "perf/step_time_median") > 0);
    CHECK(fabs(number(record, "perf/mfu") * 0.5 - 100 * number(record, "perf/tflops")) <
          1e-9 * number(record, "perf/mfu"));
    CHECK(number(record, "perf/tokens_per_s") > 0 && number(record, "perf/tokens_per_s_mean") > 0);
    CHECK(number(record, "mem/rss_bytes") > 0 && number(record, "mem/arena_bytes") > 0 &&
          number(record, "mem/interval_peak_bytes") <= number(record, "mem/peak_bytes"));
    CHECK(number(record, "sys/processor_s") > 0 && number(record, "sys/major_faults") >= 0);
}

static void intervals_add_up_steps(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.perf_every = 2;
    f.config.peak_tflops = 0.5;
    train(&f);
    REQUIRE(count_kind(&f, EITP_RECORD_PERFORMANCE) == 3);
    check_interval(&f, of_kind(&f, EITP_RECORD_PERFORMANCE, 0), 1, 2);
    check_interval(&f, of_kind(&f, EITP_RECORD_PERFORMANCE, 1), 3, 4);
    check_interval(&f, of_kind(&f, EITP_RECORD_PERFORMANCE, 2), 5, 5);
    /* The evaluations after steps 2 and 4 belong to the intervals that follow them; the last one is at the end. */
    CHECK(number(of_kind(&f, EITP_RECORD_PERFORMANCE, 1), "perf/evaluation_time") > 0);
    CHECK(number(of_kind(&f, EITP_RECORD_PERFORMANCE, 2), "perf/checkpoint_time") > 0);
    end_fixture(&f);
}

/* Two steps of eight are clipped, and one of the others is not applied. */
static void clip_and_skip(fixture *f, int64_t step) {
    eitp_trainer *trainer = f->trained.trainer;
    const float bad = step == 3 ? (float)HUGE_VAL : 0;
    trainer->plans.config.max_grad_norm = step < 2 ? 1e-3 : 0;
    CHECK(!eitp_variable_write(f->trained.context, "transformer.ln_f.bias", 8, &bad, sizeof bad, &error_));
}

static void intervals_count_clipped_and_skipped_steps(void) {
    const kept_record *record;
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.perf_every = f.config.steps = 8;
    f.config.eval_steps = 0;
    f.at_step = clip_and_skip;
    train(&f);
    record = of_kind(&f, EITP_RECORD_PERFORMANCE, 0);
    REQUIRE(record);
    CHECK_THAT(number(record, "perf/clipped_percent") == 25 && number(record, "perf/skipped_percent") == 12.5,
               "%g %% clipped, %g %% skipped", number(record, "perf/clipped_percent"),
               number(record, "perf/skipped_percent"));
    CHECK(sum_of_steps(&f, "clipped", 1, 8) == 2 && sum_of_steps(&f, "applied", 1, 8) == 7);
    end_fixture(&f);
}

static void ask_for_noise(fixture *f, int64_t step) {
    (void)step;
    f->trained.trainer->plans.config.noise_scale_every = 2;
}

static void the_noise_scale_is_recorded_where_it_is_asked_for(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.at_step = ask_for_noise;
    for (f.passes = 2; f.passes >= 1; f.passes--) {
        train(&f);
        for (size_t n = 0; n < count_kind(&f, EITP_RECORD_STEP); n++) {
            const kept_record *record = of_kind(&f, EITP_RECORD_STEP, n);
            const kept_value *scale = find(record, "gradient_noise_scale");
            const int is_due = record->step % 2 == 0;
            const int is_unknown = find(record, "gradient_noise_scale_unknown") != NULL;
            CHECK(!scale || scale->number >= 0);
            CHECK_THAT((scale != NULL) + is_unknown == is_due && (f.passes > 1 || !scale), "%d passes, step %lld",
                       f.passes, (long long)record->step);
        }
    }
    end_fixture(&f);
}

/* The names are the performance keys of the guides. */
static void epochs_have_their_own_record(void) {
    static const char *const names[] = {"perf/epoch_forward_time",   "perf/epoch_backward_time",
                                        "perf/epoch_optimizer_time", "perf/epoch_data_loading_time",
                                        "perf/epoch_avg_memory_gb",  "perf/epoch_data_loading_ratio",
                                        "perf/epoch_compute_ratio"};
    int64_t epoch_steps;
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.perf_every = 0;
    f.config.steps = 1;
    f.config.eval_steps = 0;
    train(&f);
    CHECK(count_kind(&f, EITP_RECORD_PERFORMANCE) == 0);
    epoch_steps = f.samples / 4;
    f.config.steps = 2 * epoch_steps + 5;
    train(&f);
    REQUIRE(count_kind(&f, EITP_RECORD_PERFORMANCE) == 2);
    for (size_t n = 0; n < 2; n++) {
        const kept_record *record = of_kind(&f, EITP_RECORD_PERFORMANCE, n);
        CHECK(number(record, "perf/epoch") == (double)(n + 1));
        CHECK_THAT(record->step * 4 >= (int64_t)(n + 1) * f.samples &&
                       (record->step - 1) * 4 < (int64_t)(n + 1) * f.samples,
                   "step %lld", (long long)record->step);
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            CHECK_THAT(number(record, names[i]) >= 0, "%s", names[i]);
        CHECK(fabs(number(record, "perf/epoch_data_loading_ratio") + number(record, "perf/epoch_compute_ratio") +
                   number(record, "perf/epoch_other_ratio") - 100) < 1e-6);
    }
    end_fixture(&f);
}

/* ---- Ops ---- */

/* A profiler of the program: counts its calls in each step. */
typedef struct op_counts {
    fixture *f;
    int64_t calls[8];
    int64_t dropped; /* in step 4 */
} op_counts;

static op_counts counted_;

static void count_op(void *user, const eitp_profile *profile) {
    op_counts *counts = (op_counts *)user;
    (void)profile;
    counts->calls[eitp_trainer_steps_done(counts->f->trained.trainer) + 1]++;
}

/* An observer that drops step 4 once, after it has executed some ops. */
static int drop_once(eitp_run *trained, void *state) {
    (void)trained, (void)state;
    return counted_.calls[4] == 20 && !counted_.dropped;
}

static eitp_status note_drop(eitp_run *trained, void *state, eitp_error *error) {
    (void)trained, (void)state, (void)error;
    if (!counted_.dropped) {
        counted_.dropped = counted_.calls[4];
        counted_.calls[4] = 0;
    }
    return EITP_OK;
}

static void count_ops_from_step_1(fixture *f, int64_t step) {
    eitp_profiler profiler;
    eitp__observer *row = &f->run->observers[EITP__OBSERVER_PROGRAM];
    if (step != 1)
        return;
    memset(&counted_, 0, sizeof counted_);
    counted_.f = f;
    profiler.user = &counted_;
    profiler.step = count_op;
    eitp_context_profile(f->trained.context, &profiler);
    row->poll = drop_once;
    row->before_step = note_drop;
}

static int ends_with(const char *text, const char *end) {
    return strlen(text) >= strlen(end) && !strcmp(text + strlen(text) - strlen(end), end);
}

/* Which ops, other than the products, are among the twenty longest depends on the machine's other work. */
static void check_profile(const kept_record *record, int64_t executions) {
    static const char *const names[] = {"profile/forward/matmul_s", "profile/forward/matmul_gflops",
                                        "profile/backward/matmul_gb_per_s", "profile/other_ops_percent",
                                        "profile/outside_s"};
    double seconds = 0, percent = 0;
    size_t kinds = 0;
    for (size_t i = 0; i < record->count; i++) {
        const kept_value *value = &record->values[i];
        CHECK_THAT(value->number >= -1e-9, "%s is %g", value->name, value->number);
        percent += ends_with(value->name, "_percent") ? value->number : 0;
        seconds += ends_with(value->name, "_s") && strcmp(value->name, "profile/step_time_s") != 0 &&
                           !ends_with(value->name, "_per_s")
                       ? value->number
                       : 0;
        kinds += (size_t)ends_with(value->name, "_percent");
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        number(record, names[i]);
    CHECK_THAT(fabs(seconds - number(record, "profile/step_time_s")) < 1e-9, "%.12g s", seconds);
    CHECK_THAT(fabs(percent - 100) < 1e-6, "%.9g %%", percent);
    CHECK_THAT(kinds == 20 + 2, "%zu", kinds);
    CHECK_THAT(number(record, "profile/ops") == (double)executions, "%g instead of %lld", number(record, "profile/ops"),
               (long long)executions);
}

static void ops_are_profiled_in_every_nth_step(void) {
    uint32_t bits;
    size_t profiles = 0;
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.perf_every = 0;
    train(&f);
    bits = f.bits;
    CHECK(count_kind(&f, EITP_RECORD_PERFORMANCE) == 0);
    f.config.profile_every = 2;
    f.at_step = count_ops_from_step_1;
    train(&f);
    CHECK_THAT(f.bits == bits, "%08x instead of %08x", f.bits, bits);
    REQUIRE(count_kind(&f, EITP_RECORD_PERFORMANCE) == 2);
    for (; profiles < 2; profiles++) {
        const kept_record *record = of_kind(&f, EITP_RECORD_PERFORMANCE, profiles);
        CHECK(record->step == 2 * (int64_t)(profiles + 1));
        check_profile(record, counted_.calls[record->step]);
    }
    /* The program's profiler sees every step, including the dropped one. */
    CHECK(counted_.dropped == 20 && counted_.calls[3] > 0 && counted_.calls[5] >= counted_.calls[3]);
    f.at_step = NULL;
    f.config.monitor = EITP_MONITOR_OFF;
    train(&f);
    CHECK(f.bits == bits && count_kind(&f, EITP_RECORD_PERFORMANCE) == 0);
    end_fixture(&f);
}

/* ---- Windows ---- */

static double mean_of_steps(const fixture *f, const char *name, int64_t first, int64_t last) {
    return sum_of_steps(f, name, first, last) / (double)(last - first + 1);
}

static void windows_are_those_of_the_last_steps(void) {
    const kept_record *record;
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.metrics_every = 4;
    f.config.metrics_window = 3;
    train(&f);
    CHECK(count_kind(&f, EITP_RECORD_ROLLING) == 0);
    f.config.monitor = EITP_MONITOR_FULL;
    train(&f);
    REQUIRE(count_kind(&f, EITP_RECORD_ROLLING) == 1);
    record = of_kind(&f, EITP_RECORD_ROLLING, 0);
    CHECK(record->step == 4 && number(record, "window/steps") == 3);
    CHECK_THAT(fabs(number(record, "window/loss_mean") - mean_of_steps(&f, "loss", 2, 4)) < 1e-9, "%.12g",
               number(record, "window/loss_mean"));
    CHECK(fabs(number(record, "window/grad_norm_mean") - mean_of_steps(&f, "grad_norm", 2, 4)) < 1e-9);
    CHECK(number(record, "window/loss_minimum") <= number(record, "window/loss_median") &&
          number(record, "window/loss_median") <= number(record, "window/loss_maximum"));
    CHECK(number(record, "window/update_ratio_mean") > 0 && number(record, "window/step_time_s_mean") > 0);
    f.config.metrics_every = 0;
    train(&f);
    CHECK(count_kind(&f, EITP_RECORD_ROLLING) == 0);
    end_fixture(&f);
}

/* ---- Values of the program ---- */

static void record_some(fixture *f, int64_t step) {
    if (step == 2) {
        CHECK(!eitp_run_record_value(f->run, "mine", 1, &error_) &&
              !eitp_run_record_value(f->run, "other", 7, &error_));
        CHECK(!eitp_run_record_value(f->run, "mine", 2, &error_));
    }
    if (step == 5)
        CHECK(!eitp_run_record_value(f->run, "last", (double)INFINITY, &error_));
}

static void values_of_the_program_are_recorded(void) {
    const kept_record *record;
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.at_step = record_some;
    train(&f);
    REQUIRE(count_kind(&f, EITP_RECORD_PROGRAM) == 2);
    record = of_kind(&f, EITP_RECORD_PROGRAM, 0);
    CHECK(record->step == 2 && record->count == 2 && number(record, "mine") == 2 && number(record, "other") == 7);
    record = of_kind(&f, EITP_RECORD_PROGRAM, 1);
    CHECK(record->step == 5 && isinf(number(record, "last")));
    f.config.monitor = EITP_MONITOR_OFF;
    train(&f);
    CHECK(count_kind(&f, EITP_RECORD_PROGRAM) == 0);
    end_fixture(&f);
}

static void record_too_many(fixture *f, int64_t step) {
    char name[80];
    if (step != 1)
        return;
    for (int i = 0; i < EITP_PROGRAM_VALUES; i++) {
        snprintf(name, sizeof name, "value %d", i);
        CHECK(!eitp_run_record_value(f->run, name, i, &error_));
    }
    CHECK(eitp_run_record_value(f->run, "one more", 0, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(!eitp_run_record_value(f->run, "value 3", 0, &error_));
    memset(name, 'x', sizeof name);
    name[EITP_VALUE_NAME_SIZE] = 0;
    CHECK(eitp_run_record_value(f->run, name, 0, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_run_record_value(f->run, "", 0, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_run_record_value(f->run, "step", 0, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_run_record_value(f->run, NULL, 0, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_run_record_value(NULL, "mine", 0, &error_) == EITP_ERROR_ARGUMENT);
}

static void bad_values_are_refused(void) {
    const eitp_host host = eitp_host_default();
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.at_step = record_too_many;
    train(&f);
    CHECK(count_kind(&f, EITP_RECORD_PROGRAM) == 1);
    CHECK(of_kind(&f, EITP_RECORD_PROGRAM, 0)->count == EITP_PROGRAM_VALUES);
    REQUIRE_OK(eitp_run_open(&host, &f.config, &f.run, &error_), error_);
    CHECK(eitp_run_record_value(f.run, "early", 0, &error_) == EITP_ERROR_ARGUMENT);
    eitp_run_close(f.run);
    end_fixture(&f);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(levels_record_more_and_change_no_bit),
        TEST(intervals_add_up_steps),
        TEST(intervals_count_clipped_and_skipped_steps),
        TEST(the_noise_scale_is_recorded_where_it_is_asked_for),
        TEST(epochs_have_their_own_record),
        TEST(windows_are_those_of_the_last_steps),
        TEST(ops_are_profiled_in_every_nth_step),
        TEST(values_of_the_program_are_recorded),
        TEST(bad_values_are_refused),
    };
    return RUN_TESTS(tests, argc, argv);
}
