/* The cost of a run besides training, with a simulated clock: its parts, level changes between steps, and that
   measuring changes nothing. */
#include "tests/support/trainer_run.h"

/* The time added to the clock by each reading of it, by a record, and by the message of a step. */
enum { STEPS = 6, READING = 1, RECORD = 100, MESSAGE = 10 };

typedef struct fixture {
    run trained;
    char directory[512], output[600];
    eitp_run_config config;
    eitp_run *run;
    eitp_record_sink sink;
    eitp_run_meter meter;
    double now; /* of the clock */
    double seconds[STEPS + 1][EITP_RUN_COST_COUNT];
    int measured; /* steps */
} fixture;

static double turn(void *user) {
    return ((fixture *)user)->now += READING;
}

static eitp_status take_record(void *user, const eitp_record *record, eitp_error *error) {
    (void)record, (void)error;
    ((fixture *)user)->now += RECORD;
    return EITP_OK;
}

static void take_event(void *user, const eitp_run_event *event) {
    if (event->kind == EITP_EVENT_STEP)
        ((fixture *)user)->now += MESSAGE;
}

/* The record settings of each step. Those of the first step are in the configuration. */
static const struct {
    eitp_monitor monitor;
    int64_t metrics_every, perf_every;
    int records; /* number of records that result */
} levels[STEPS] = {
    {EITP_MONITOR_FULL, 1000, 1000, 1}, {EITP_MONITOR_OFF, 1000, 0, 0}, {EITP_MONITOR_LIGHT, 1000, 0, 1},
    {EITP_MONITOR_LIGHT, 0, 1, 2},      {EITP_MONITOR_FULL, 1, 1, 3},   {EITP_MONITOR_OFF, 0, 0, 0},
};

static void take_step(void *user, const double seconds[EITP_RUN_COST_COUNT], eitp_run_config *config) {
    fixture *f = (fixture *)user;
    const int next = ++f->measured;
    memcpy(f->seconds[next], seconds, sizeof f->seconds[next]);
    config->listener.notify = NULL; /* is not among the allowed changes */
    if (next == STEPS)
        return;
    config->monitor = levels[next].monitor;
    config->metrics_every = levels[next].metrics_every;
    config->perf_every = levels[next].perf_every;
}

static int begin_fixture(fixture *f) {
    memset(f, 0, sizeof *f);
    if (!scratch_make(f->directory) || !write_text(f->directory))
        return 0;
    snprintf(f->output, sizeof f->output, "%s/out", f->directory);
    f->config = eitp_run_config_default();
    f->config.directory = f->output;
    f->config.steps = STEPS;
    f->config.eval_steps = 0;
    f->config.monitor = levels[0].monitor;
    f->config.memory_check_seconds = -1;
    f->config.temp_max = -1;
    f->config.listener.user = f->sink.user = f->meter.user = f;
    f->config.listener.notify = take_event;
    f->sink.record = take_record;
    f->config.sinks = &f->sink;
    f->config.sink_count = 1;
    f->meter.clock = turn;
    f->meter.step = take_step;
    return 1;
}

/* Trains, and stores the bits of the model. */
static void train(fixture *f, int measures, uint32_t *bits) {
    const eitp_host host = eitp_host_default();
    variant v = default_variant();
    REQUIRE_OK(make_run(&f->trained, &host, &v, f->directory, &error_), error_);
    REQUIRE_OK(eitp_run_open(&host, &f->config, &f->run, &error_), error_);
    if (measures)
        CHECK_THAT(!eitp_run_measure(f->run, &f->meter, &error_), "%s", error_.message);
    CHECK_THAT(!eitp_run_train(f->run, f->trained.trainer, NULL, &error_), "%s", error_.message);
    *bits = fingerprint(&f->trained);
    CHECK(eitp_run_measure(f->run, &f->meter, &error_) == EITP_ERROR_ARGUMENT);
    eitp_run_close(f->run);
    end_run(&f->trained);
    snprintf(f->output + strlen(f->output), 8, "x"); /* the next run is separate */
}

static void parts_have_what_they_take(void) {
    fixture f;
    uint32_t bits = 0, measured = 1;
    REQUIRE(begin_fixture(&f));
    train(&f, 0, &bits);
    train(&f, 1, &measured);
    CHECK(measured == bits);
    CHECK_THAT(f.measured == STEPS, "%d", f.measured);
    for (int step = 1; step <= STEPS; step++) {
        const double *seconds = f.seconds[step];
        const double expected = levels[step - 1].records * RECORD + MESSAGE;
        CHECK_THAT(seconds[EITP_RUN_COST_RECORDS] == expected, "step %d: %g instead of %g", step,
                   seconds[EITP_RUN_COST_RECORDS], expected);
        CHECK(seconds[EITP_RUN_COST_ALARMS] == 0 && seconds[EITP_RUN_COST_OTHER] == 0);
        CHECK(seconds[EITP_RUN_COST_GUARD] < 1 && seconds[EITP_RUN_COST_FILES] >= 0);
    }
    scratch_remove(f.directory);
}

static void threads_of_files_take_time(void) {
    const eitp_host host = eitp_host_default();
    char directory[512];
    eitp__queued_file *file;
    double before = 0, after;
    REQUIRE(scratch_make(directory));
    REQUIRE_OK(eitp__queued_file_open(&host, scratch_path(directory, "a"), &file, &error_), error_);
    after = eitp__queued_file_seconds(file);
    for (int i = 0; i < 100 && after <= before; i++) {
        CHECK(!eitp__queued_file_append(file, "a record\n", 9, &error_) && !eitp__queued_file_sync(file, &error_));
        before = i ? before : after;
        after = eitp__queued_file_seconds(file);
    }
#if defined(__linux__) && EITP__WITH_WORKER
    CHECK_THAT(after > before, "%g", after);
#endif
    eitp__queued_file_close(file);
    scratch_remove(directory);
}

static void bad_meters_are_refused(void) {
    eitp_run_meter meter;
    faults memory;
    fixture f;
    REQUIRE(begin_fixture(&f));
    faults_begin(&memory);
    REQUIRE_OK(eitp_run_open(&memory.host, &f.config, &f.run, &error_), error_);
    meter = f.meter;
    CHECK(eitp_run_measure(NULL, &meter, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_run_measure(f.run, NULL, &error_) == EITP_ERROR_ARGUMENT);
    meter.clock = NULL;
    CHECK(eitp_run_measure(f.run, &meter, &error_) == EITP_ERROR_ARGUMENT);
    meter = f.meter;
    meter.step = NULL;
    CHECK(eitp_run_measure(f.run, &meter, &error_) == EITP_ERROR_ARGUMENT);
    memory.fail_allocation = memory.allocations + 1;
    CHECK(eitp_run_measure(f.run, &f.meter, &error_) == EITP_ERROR_MEMORY);
    CHECK_THAT(!eitp_run_measure(f.run, &f.meter, &error_), "%s", error_.message);
    CHECK(eitp_run_measure(f.run, &f.meter, &error_) == EITP_ERROR_ARGUMENT);
    eitp_run_close(f.run);
    faults_end(&memory);
    scratch_remove(f.directory);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(parts_have_what_they_take),
        TEST(threads_of_files_take_time),
        TEST(bad_meters_are_refused),
    };
    return RUN_TESTS(tests, argc, argv);
}
