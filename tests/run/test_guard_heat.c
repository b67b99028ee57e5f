/* Runs on machines that become hot, or on which other programs are busy, with simulated system files. */
#include "tests/support/trainer_run.h"

enum { ORDERED = 16 };

/* A run whose system_root has one thermal zone, and the events at which its temperature changes. */
typedef struct fixture {
    run trained;
    char directory[512], machine[600], output[600], zone[700], text[1 << 16];
    eitp_host host;
    eitp_run_config config;
    eitp_run *made;
    eitp_run_report report;
    int events[EITP_EVENT_COUNT], order[ORDERED], count; /* `order` holds pauses and steps only */
    char messages[ORDERED][300];
    double seconds[ORDERED];
    int waits, cooled_at,
        stopped_at;     /* calls of wait, and those at which it cools down or the run is stopped; 0: none */
    const char *cooled; /* millidegrees after cooling */
    int set_at;         /* calls of wait at which temp_max becomes `set_to`; 0: none */
    double set_to;
    int64_t heated_after; /* the step after which it is hot; 0: none */
} fixture;

static int write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "wb");
    if (!file)
        return 0;
    fputs(text, file);
    return !fclose(file);
}

static int set_temperature(const fixture *f, const char *millidegrees) {
    char path[800];
    snprintf(path, sizeof path, "%s/temp", f->zone);
    return write_file(path, millidegrees);
}

static void count_wait(void *user, double seconds) {
    fixture *f = (fixture *)user;
    CHECK(seconds <= 1);
    f->waits++;
    if (f->waits == 1 && f->cooled_at > 1)
        CHECK(set_temperature(f, "86000\n")); /* below the limit, but not yet cool enough */
    if (f->waits == f->cooled_at)
        CHECK(set_temperature(f, f->cooled));
    if (f->set_at && f->waits == f->set_at)
        f->made->config.temp_max = f->set_to;
    if (f->waits == f->stopped_at)
        eitp_run_request_stop(f->made, 1);
}

static int open_real(void *user, const char *path, eitp_file_mode mode, void **file) {
    const eitp_host host = eitp_host_default();
    (void)user;
    return host.files.open(host.files.user, path, mode, file);
}

static void notice(void *user, const eitp_run_event *event) {
    fixture *f = (fixture *)user;
    f->events[event->kind]++;
    if (event->kind == EITP_EVENT_STEP && eitp_trainer_steps_done(f->trained.trainer) == f->heated_after) {
        CHECK(set_temperature(f, "99000\n"));
        ((eitp__run_heat *)f->made->states[EITP__OBSERVER_HEAT])->look_at = 0;
    }
    if ((event->kind != EITP_EVENT_STEP && event->kind != EITP_EVENT_TEMPERATURE) || f->count == ORDERED)
        return;
    snprintf(f->messages[f->count], sizeof f->messages[0], "%s", event->message);
    f->seconds[f->count] = event->seconds;
    f->order[f->count++] = (int)event->kind;
}

static int make_directories(const fixture *f, const char *name, char *path, size_t size) {
    eitp_error error;
    snprintf(path, size, "%s/%s", f->machine, name);
    return !eitp__make_directories(&f->host, path, &error);
}

static int begin_fixture(fixture *f, const char *type, const char *millidegrees) {
    char path[800], other[700];
    memset(f, 0, sizeof *f);
    f->host = eitp_host_default();
    if (!scratch_make(f->directory) || !write_text(f->directory))
        return 0;
    snprintf(f->machine, sizeof f->machine, "%s/machine", f->directory);
    snprintf(f->output, sizeof f->output, "%s/out", f->directory);
    if (!make_directories(f, "sys/class/hwmon", other, sizeof other) ||
        !make_directories(f, "sys/class/thermal/thermal_zone0", f->zone, sizeof f->zone) ||
        !make_directories(f, "proc/pressure", other, sizeof other))
        return 0;
    f->host.system_root = f->machine;
    f->host.files.user = f;
    f->host.files.open = open_real;
    f->host.files.wait = count_wait;
    f->config = eitp_run_config_default();
    f->config.directory = f->output;
    f->config.steps = 3;
    f->config.eval_steps = f->config.save_steps = 0;
    f->config.eval_samples = 2;
    f->config.memory_check_seconds = -1;
    f->config.listener.user = f;
    f->config.listener.notify = notice;
    snprintf(path, sizeof path, "%s/type", f->zone);
    return write_file(path, type) && set_temperature(f, millidegrees);
}

static eitp_status train(fixture *f) {
    variant v = default_variant();
    eitp_status status = make_run(&f->trained, &f->host, &v, f->directory, &error_);
    if (status)
        return status;
    status = eitp_run_open(&f->host, &f->config, &f->made, &error_);
    if (!status)
        status = eitp_run_train(f->made, f->trained.trainer, &f->report, &error_);
    eitp_run_close(f->made);
    f->made = NULL;
    end_run(&f->trained);
    return status;
}

static int records_have(fixture *f, const char *words) {
    eitp__buffer content;
    char path[700];
    snprintf(path, sizeof path, "%s/metrics.jsonl", f->output);
    eitp__buffer_init(&content, &f->host);
    f->text[0] = 0;
    if (!eitp__read_file(&f->host, path, sizeof f->text - 1, &content, &error_))
        snprintf(f->text, sizeof f->text, "%s", content.data);
    eitp__buffer_release(&content);
    return strstr(f->text, words) != NULL;
}

/* The checksum of the weights of the last checkpoint. */
static uint32_t checksum_of(const fixture *f) {
    char path[700];
    eitp__buffer content;
    uint32_t sum;
    snprintf(path, sizeof path, "%s/checkpoint-3/model.safetensors", f->output);
    eitp__buffer_init(&content, &f->host);
    CHECK_THAT(!eitp__read_file(&f->host, path, (size_t)1 << 30, &content, &error_), "%s", error_.message);
    sum = eitp__crc32c(0, content.data, content.size);
    eitp__buffer_release(&content);
    return sum;
}

static uint32_t straight_checksum(void) {
    fixture f;
    uint32_t sum = 0;
    CHECK(begin_fixture(&f, "x86_pkg_temp\n", "50000\n"));
    CHECK_THAT(!train(&f) && !f.waits && !f.events[EITP_EVENT_TEMPERATURE], "%s", error_.message);
    sum = checksum_of(&f);
    scratch_remove(f.directory);
    return sum;
}

/* Before the first step the run waits while the machine is hot, and samples it every second. */
static void a_run_waits_until_the_machine_is_cooler(void) {
    fixture f;
    REQUIRE(begin_fixture(&f, "x86_pkg_temp\n", "99000\n"));
    f.cooled_at = 25;
    f.cooled = "84500\n";
    CHECK_THAT(!train(&f) && f.report.end == EITP_RUN_FINISHED && f.report.steps_done == 3, "%s", error_.message);
    CHECK_THAT(f.waits == 30, "%d waits", f.waits); /* three seconds, each in ten slices */
    CHECK(f.events[EITP_EVENT_TEMPERATURE] == 2 && f.order[0] == EITP_EVENT_TEMPERATURE);
    CHECK(f.order[1] == EITP_EVENT_TEMPERATURE && f.order[2] == EITP_EVENT_STEP);
    CHECK_THAT(!strcmp(f.messages[0], "training pauses before step 1: x86_pkg_temp is at 99.0 C (limit 95.0 C); it "
                                      "continues at 85.0 C"),
               "%s", f.messages[0]);
    CHECK_THAT(strstr(f.messages[1], "training continues after ") && strstr(f.messages[1], "x86_pkg_temp is at 84.5 C"),
               "%s", f.messages[1]);
    CHECK(f.seconds[1] > 0);
    CHECK(records_have(&f, "{\"step\": 0, \"event\": \"temperature\", "));
    CHECK(records_have(&f, "\"sensor\": \"x86_pkg_temp\", \"celsius\": 99, \"limit_celsius\": 95, "));
    CHECK(records_have(&f, "\"celsius\": 84.5, "));
    CHECK(checksum_of(&f) == straight_checksum());
    scratch_remove(f.directory);
}

/* If the machine becomes hot, the run waits before the next step until it is 10 degrees cooler. */
static void heat_between_steps_is_waited_for(void) {
    fixture f;
    REQUIRE(begin_fixture(&f, "x86_pkg_temp\n", "50000\n"));
    f.heated_after = 2;
    f.cooled_at = 5;
    f.cooled = "85000\n";
    CHECK_THAT(!train(&f) && f.report.end == EITP_RUN_FINISHED, "%s", error_.message);
    CHECK(f.order[1] == EITP_EVENT_STEP && f.order[2] == EITP_EVENT_TEMPERATURE && f.waits == 10);
    CHECK(f.order[3] == EITP_EVENT_TEMPERATURE && f.order[4] == EITP_EVENT_STEP);
    CHECK(checksum_of(&f) == straight_checksum());
    scratch_remove(f.directory);
}

/* A request to stop ends the pause, and no step starts. */
static void a_stop_ends_the_pause(void) {
    fixture f;
    REQUIRE(begin_fixture(&f, "x86_pkg_temp\n", "50000\n"));
    f.heated_after = 2;
    f.stopped_at = 23;
    CHECK_THAT(!train(&f) && f.report.end == EITP_RUN_STOPPED, "%s", error_.message);
    CHECK(f.waits == 23 && f.report.steps_done == 2 && f.report.saved_step == 2);
    scratch_remove(f.directory);
}

/* The setting and the machine's critical points set the limit. */
static void limits_follow_setting_and_machine(void) {
    static const struct {
        double most;
        const char *critical;
        int pauses;
    } cases[] = {{0, "80000\n", 1}, {0, "90000\n", 0}, {80, "80000\n", 0}, {70, "90000\n", 1}, {-1, "80000\n", 0}};
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        fixture f;
        char path[800];
        REQUIRE(begin_fixture(&f, "cpu-thermal\n", "76000\n"));
        snprintf(path, sizeof path, "%s/trip_point_0_type", f.zone);
        CHECK(write_file(path, "critical\n"));
        snprintf(path, sizeof path, "%s/trip_point_0_temp", f.zone);
        CHECK(write_file(path, cases[i].critical));
        f.config.temp_max = cases[i].most;
        f.config.steps = 1;
        f.cooled_at = 1;
        f.cooled = "50000\n";
        CHECK_THAT(!train(&f), "%s", error_.message);
        CHECK_THAT(f.events[EITP_EVENT_TEMPERATURE] == 2 * cases[i].pauses, "case %d", (int)i);
        scratch_remove(f.directory);
    }
}

/* A limit that changes during a pause applies from the next sample on. */
static void a_limit_may_change_during_a_pause(void) {
    static const double limits[] = {-1, 120};
    static const char *const messages[] = {"temperatures are no longer checked", "x86_pkg_temp is at 99.0 C"};
    for (size_t i = 0; i < EITP__COUNT(limits); i++) {
        fixture f;
        REQUIRE(begin_fixture(&f, "x86_pkg_temp\n", "99000\n"));
        f.set_at = 5;
        f.set_to = limits[i];
        CHECK_THAT(!train(&f) && f.report.steps_done == 3, "%s", error_.message);
        CHECK_THAT(f.waits == 10 && f.events[EITP_EVENT_TEMPERATURE] == 2, "%d waits", f.waits);
        CHECK_THAT(strstr(f.messages[1], messages[i]), "%s", f.messages[1]);
        scratch_remove(f.directory);
    }
}

static void a_lower_limit_prolongs_a_pause(void) {
    fixture f;
    REQUIRE(begin_fixture(&f, "x86_pkg_temp\n", "99000\n"));
    f.set_at = 5;
    f.set_to = 60;
    f.cooled_at = 15;
    f.cooled = "84000\n"; /* cool enough for the old limit */
    f.stopped_at = 45;
    CHECK_THAT(!train(&f) && f.report.end == EITP_RUN_STOPPED && !f.report.steps_done, "%s", error_.message);
    scratch_remove(f.directory);
}

/* Sensors that are broken, missing, stuck or not of a processor stop nothing. */
static void broken_sensors_stop_nothing(void) {
    static const char *const types[] = {"cpu-thermal\n", "cpu-thermal\n", "cpu-thermal\n", "iwlwifi_1\n",
                                        "cpu-thermal\n"};
    static const char *const temperatures[] = {"0\n", "127500\n", "nothing\n", "99000\n", "-40000\n"};
    for (size_t i = 0; i < EITP__COUNT(types); i++) {
        fixture f;
        REQUIRE(begin_fixture(&f, types[i], temperatures[i]));
        f.config.steps = 1;
        CHECK_THAT(!train(&f) && !f.waits && !f.events[EITP_EVENT_TEMPERATURE], "%d: %s", (int)i, error_.message);
        scratch_remove(f.directory);
    }
}

static void a_stuck_sensor_is_given_up(void) {
    fixture f;
    REQUIRE(begin_fixture(&f, "acpitz\n", "110000\n"));
    f.config.steps = 1;
    CHECK_THAT(!train(&f) && f.report.steps_done == 1, "%s", error_.message);
    CHECK_THAT(f.waits == 10 * EITP__HEAT_STUCK, "%d waits", f.waits);
    CHECK(f.events[EITP_EVENT_WARNING] == 1 && f.events[EITP_EVENT_TEMPERATURE] == 2);
    scratch_remove(f.directory);
}

/* A limit without any usable sensor is reported once, unless it is the default. */
static void a_limit_without_sensors_is_reported(void) {
    for (int i = 0; i < 2; i++) {
        fixture f;
        REQUIRE(begin_fixture(&f, "iwlwifi_1\n", "50000\n"));
        f.config.temp_max = i ? 80 : 0;
        CHECK_THAT(!train(&f) && f.events[EITP_EVENT_WARNING] == i, "%s", error_.message);
        scratch_remove(f.directory);
    }
}

/* Without a way to wait there is no pause. */
static void a_host_that_cannot_wait_does_not_pause(void) {
    fixture f;
    REQUIRE(begin_fixture(&f, "x86_pkg_temp\n", "99000\n"));
    f.host.files.wait = NULL;
    CHECK_THAT(!train(&f) && !f.events[EITP_EVENT_TEMPERATURE], "%s", error_.message);
    scratch_remove(f.directory);
}

/* ---- Other programs ---- */

static eitp_run *watched;

/* Moves the clock past the next sample, and past the time for which its result must last. */
static void notice_late(void *user, const eitp_run_event *event) {
    eitp__machine_watch *around = (eitp__machine_watch *)watched->states[EITP__OBSERVER_MACHINE_WATCH];
    notice(user, event);
    around->look_at = 0;
    around->stalls.since -= 1000;
    around->load.since -= 1000;
}

static eitp_status train_beside(fixture *f, const char *pressure, const char *load) {
    variant v = default_variant();
    char path[800];
    eitp_status status;
    snprintf(path, sizeof path, "%s/proc/pressure/memory", f->machine);
    CHECK(write_file(path, pressure));
    snprintf(path, sizeof path, "%s/proc/loadavg", f->machine);
    CHECK(write_file(path, load));
    f->config.steps = 6;
    f->config.memory_check_seconds = 1000;
    f->config.listener.notify = notice_late;
    status = make_run(&f->trained, &f->host, &v, f->directory, &error_);
    if (!status)
        status = eitp_run_open(&f->host, &f->config, &f->made, &error_);
    watched = f->made;
    if (!status)
        status = eitp_run_train(f->made, f->trained.trainer, &f->report, &error_);
    eitp_run_close(f->made);
    end_run(&f->trained);
    return status;
}

/* Each is reported once while it lasts. */
static void busy_surroundings_are_told_once(void) {
    fixture f;
    REQUIRE(begin_fixture(&f, "x86_pkg_temp\n", "50000\n"));
    CHECK_THAT(!train_beside(&f, "some avg10=31.50 avg60=1.00 avg300=0.10 total=5\n", "40000.00 1 1 1/2 3\n"), "%s",
               error_.message);
    CHECK(f.events[EITP_EVENT_PRESSURE] == 1 && f.events[EITP_EVENT_LOAD] == 1);
    CHECK(records_have(&f, "\"event\": \"pressure\", ") && records_have(&f, "\"percent\": 31.5, "));
    CHECK(records_have(&f, "\"event\": \"load\", ") && records_have(&f, "\"load\": 40000, "));
    scratch_remove(f.directory);
}

static void quiet_surroundings_are_not_told(void) {
    static const char *const pressures[] = {"some avg10=9.90 avg60=1.00 avg300=0.10 total=5\n", "broken\n"};
    static const char *const loads[] = {"0.50 1 1 1/2 3\n", "broken\n"};
    for (size_t i = 0; i < EITP__COUNT(loads); i++) {
        fixture f;
        REQUIRE(begin_fixture(&f, "x86_pkg_temp\n", "50000\n"));
        CHECK_THAT(!train_beside(&f, pressures[i], loads[i]), "%s", error_.message);
        CHECK(!f.events[EITP_EVENT_PRESSURE] && !f.events[EITP_EVENT_LOAD]);
        scratch_remove(f.directory);
    }
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(a_limit_may_change_during_a_pause),
        TEST(a_lower_limit_prolongs_a_pause),
        TEST(a_run_waits_until_the_machine_is_cooler),
        TEST(heat_between_steps_is_waited_for),
        TEST(a_stop_ends_the_pause),
        TEST(limits_follow_setting_and_machine),
        TEST(broken_sensors_stop_nothing),
        TEST(a_stuck_sensor_is_given_up),
        TEST(a_limit_without_sensors_is_reported),
        TEST(a_host_that_cannot_wait_does_not_pause),
        TEST(busy_surroundings_are_told_once),
        TEST(quiet_surroundings_are_not_told),
    };
    return RUN_TESTS(tests, argc, argv);
}
