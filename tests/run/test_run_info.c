/* run.json: what a run writes about itself, during training and when it ends. */
#include "tests/support/trainer_run.h"

#include <unistd.h>

enum { STEPS = 4 };

typedef struct fixture {
    run trained;
    char directory[512], machine[600], output[600];
    eitp_host host;
    eitp_run_config config;
    eitp_run *made;
    eitp_run_report report;
    void (*at_step)(struct fixture *f, int64_t step);
    int is_full;                /* the disk is full, except for the reserved space */
    int looks, held, warned;    /* number of observer polls, how many of them hold the run, and number of warnings */
    int interrupted, restarted; /* reports of a process that vanished, and whether the machine restarted */
    int64_t last_step;
    eitp_json_document *document;
} fixture;

/* The object "run" of a run.json in the output directory or a checkpoint; NULL if there is none. */
static const eitp_json *read_run(fixture *f, const char *name) {
    const eitp_host host = eitp_host_default();
    char path[800];
    snprintf(path, sizeof path, "%s/%s", f->output, name);
    eitp_json_release(f->document);
    f->document = NULL;
    if (eitp__json_read_strict_file(&host, path, 1 << 20, &f->document, &error_))
        return NULL;
    return eitp_json_member(eitp_json_root(f->document), "run");
}

static const char *text_of(const eitp_json *object, const char *name) {
    const eitp_json *member = eitp_json_member(object, name);
    return member && member->text ? member->text : "";
}

static int64_t integer_of(const eitp_json *object, const char *name) {
    const eitp_json *member = eitp_json_member(object, name);
    return member && member->is_integer ? member->integer : -99;
}

static const eitp_json *process_of(fixture *f) {
    return eitp_json_member(read_run(f, "run.json"), "process");
}

static int is_there(const fixture *f, const char *name) {
    char path[800];
    snprintf(path, sizeof path, "%s/%s", f->output, name);
    return !access(path, F_OK);
}

/* ---- The run ---- */

static void notice(void *user, const eitp_run_event *event) {
    fixture *f = (fixture *)user;
    f->warned += event->kind == EITP_EVENT_WARNING;
    if (event->kind == EITP_EVENT_INTERRUPTED && event->value_count == 3) {
        f->interrupted++;
        f->last_step = event->values[0].integer;
        f->restarted = event->values[2].integer != 0;
    }
    if (event->kind == EITP_EVENT_STEP && f->at_step)
        f->at_step(f, event->report->step.step);
}

static void do_not_wait(void *user, double seconds) {
    (void)user, (void)seconds;
}

/* Writes on a disk whose only free bytes are the reserved space. */
static int write_on_full(void *user, void *file, uint64_t offset, const void *data, size_t size, size_t *done) {
    const eitp_host host = eitp_host_default();
    fixture *f = (fixture *)user;
    if (f->is_full && is_there(f, ".eitp.reserve"))
        return ENOSPC;
    return host.files.write(host.files.user, file, offset, data, size, done);
}

static int holds(const eitp_run *trained, const void *state) {
    fixture *f = (fixture *)trained->config.listener.user;
    (void)state;
    return trained->report.step.step > 0 && ++f->looks <= f->held;
}

static int begin_fixture(fixture *f) {
    memset(f, 0, sizeof *f);
    if (!scratch_make(f->directory) || !write_text(f->directory))
        return 0;
    snprintf(f->machine, sizeof f->machine, "%s/machine", f->directory);
    snprintf(f->output, sizeof f->output, "%s/out", f->directory);
    f->host = eitp_host_default();
    f->host.files.user = f;
    f->host.files.wait = do_not_wait;
    f->host.files.write = write_on_full;
    f->config = eitp_run_config_default();
    f->config.directory = f->output;
    f->config.steps = STEPS;
    f->config.eval_steps = f->config.save_steps = 0;
    f->config.eval_samples = 2;
    f->config.memory_check_seconds = -1;
    f->config.temp_max = -1;
    f->config.listener.user = f;
    f->config.listener.notify = notice;
    return 1;
}

static eitp_status open_run(fixture *f) {
    const variant v = default_variant();
    const eitp_host host = eitp_host_default();
    const eitp_status status = make_run(&f->trained, &host, &v, f->directory, &error_);
    return status ? status : eitp_run_open(&f->host, &f->config, &f->made, &error_);
}

static eitp_status train_and_close(fixture *f) {
    const eitp_status status = eitp_run_train(f->made, f->trained.trainer, &f->report, &error_);
    eitp_run_close(f->made);
    f->made = NULL;
    end_run(&f->trained);
    return status;
}

static eitp_status train(fixture *f) {
    const eitp_status status = open_run(f);
    return status ? status : train_and_close(f);
}

static void end_fixture(fixture *f) {
    eitp_json_release(f->document);
    scratch_remove(f->directory);
}

/* ---- Content ---- */

static void it_describes_run_and_process(void) {
    const eitp_json *object;
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.run_name = "first";
    f.config.notes = "a \"quoted\" note";
    REQUIRE_OK(train(&f), error_);
    object = read_run(&f, "run.json");
    REQUIRE(object);
    CHECK(!strcmp(text_of(object, "name"), "first") && !strcmp(text_of(object, "notes"), "a \"quoted\" note"));
    CHECK(!strcmp(text_of(object, "version"), eitp_version()) && integer_of(object, "first_step") == 1);
    CHECK(integer_of(object, "last_step") == STEPS && strstr(text_of(object, "directory"), "/out"));
    CHECK(integer_of(eitp_json_member(object, "machine"), "memory_bytes") > 0);
    CHECK(integer_of(eitp_json_member(object, "plan"), "arena_bytes") > 0);
    object = eitp_json_member(object, "process");
    CHECK(!strcmp(text_of(object, "state"), "finished") && integer_of(object, "step") == STEPS);
    CHECK(integer_of(object, "saved_step") == STEPS && !eitp_json_member(object, "message"));
    CHECK(integer_of(object, "samples") == STEPS * 4);
    object = eitp_json_member(eitp_json_root(f.document), "configuration");
    CHECK(integer_of(object, "steps") == STEPS && integer_of(object, "grad_accum") > 0);
    CHECK(!is_there(&f, ".eitp.reserve") && !is_there(&f, "run.json.tmp") && !f.warned);
    object = read_run(&f, "checkpoint-4/run.json");
    CHECK(object && !eitp_json_member(object, "process") && !strcmp(text_of(object, "name"), "first"));
    end_fixture(&f);
}

static void check_running(fixture *f, int64_t step) {
    const eitp_json *process = process_of(f);
    char path[800];
    eitp_path_info info;
    snprintf(path, sizeof path, "%s/.eitp.reserve", f->output);
    CHECK(!strcmp(text_of(process, "state"), "running") && integer_of(process, "pid") == getpid());
    CHECK(!strcmp(text_of(process, "boot_id"), "made-up") && integer_of(process, "start_time") == 4242);
    CHECK_THAT(integer_of(process, "step") == 0, "%lld", (long long)integer_of(process, "step"));
    CHECK(!eitp__path_info(&f->made->host, path, &info, &error_) && info.size == EITP__RESERVE_BYTES && step > 0);
}

static int write_system_file(const fixture *f, const char *directory, const char *name, const char *text) {
    char path[900];
    FILE *file;
    snprintf(path, sizeof path, "%s/%s", f->machine, directory);
    if (eitp__make_directories(&f->host, path, &error_))
        return 0;
    snprintf(path, sizeof path, "%s/%s/%s", f->machine, directory, name);
    file = fopen(path, "wb");
    return file && fputs(text, file) >= 0 && !fclose(file);
}

static void it_is_there_while_the_run_trains(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    REQUIRE(write_system_file(&f, "proc/sys/kernel/random", "boot_id", "made-up\n"));
    REQUIRE(write_system_file(&f, "proc/self", "stat",
                              "12 (a ) name) R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20 21\n"));
    f.host.system_root = f.machine;
    f.at_step = check_running;
    REQUIRE_OK(train(&f), error_);
    CHECK(!strcmp(text_of(process_of(&f), "boot_id"), "made-up"));
    end_fixture(&f);
}

/* ---- Signs of life ---- */

static eitp__run_info *description_of(const fixture *f) {
    return (eitp__run_info *)f->made->states[EITP__OBSERVER_INFO];
}

static void look_at_sign(fixture *f, int64_t step) {
    eitp__run_info *info = description_of(f);
    if (step == 1)
        info->next = 0; /* due before step 2, and then not for half a minute */
    if (step == 1 || !info->file.worker)
        return;
    eitp__worker_finish(info->file.worker, &error_);
    CHECK_THAT(integer_of(process_of(f), "step") == 1, "%lld", (long long)integer_of(process_of(f), "step"));
    CHECK(!strcmp(text_of(process_of(f), "state"), f->held ? "paused" : "running"));
}

static void it_is_renewed(int held) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.at_step = look_at_sign;
    f.held = held;
    REQUIRE_OK(open_run(&f), error_);
    if (held)
        f.made->observers[EITP__OBSERVER_PROGRAM].holds = holds;
    REQUIRE_OK(train_and_close(&f), error_);
    CHECK(!strcmp(text_of(process_of(&f), "state"), "finished") && integer_of(process_of(&f), "step") == STEPS);
    end_fixture(&f);
}

static void a_sign_of_life_has_the_step(void) {
    it_is_renewed(0);
}

/* The observer holds the run before step 2, when the heartbeat is due, but not at the next poll. */
static void a_pause_is_a_state(void) {
    it_is_renewed(1);
}

/* ---- The process before ---- */

static int leave_run_info(const fixture *f, const char *text) {
    char path[800];
    FILE *file;
    snprintf(path, sizeof path, "%s/run.json", f->output);
    if (eitp__make_directories(&f->host, f->output, &error_))
        return 0;
    file = fopen(path, "wb");
    return file && fputs(text, file) >= 0 && !fclose(file);
}

/* Trains where a process has left a run.json, and checks how that process is reported. */
static void check_interrupted(const char *left, int reports, int restarted) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    REQUIRE(write_system_file(&f, "proc/sys/kernel/random", "boot_id", "made-up\n"));
    f.host.system_root = f.machine;
    REQUIRE(leave_run_info(&f, left));
    REQUIRE_OK(train(&f), error_);
    CHECK_THAT(f.interrupted == reports && f.restarted == restarted, "%s: %d, %d", left, f.interrupted, f.restarted);
    CHECK(f.last_step == (reports ? 7 : 0));
    f.interrupted = f.restarted = 0;
    f.config.resume = EITP_RESUME_NEWEST;
    REQUIRE_OK(train(&f), error_);
    CHECK(!f.interrupted); /* the previous run recorded how it ended */
    end_fixture(&f);
}

static void a_process_that_vanished_is_reported(void) {
#define LEFT(process) "{\"run\": {\"process\": {" process "}}}"
    check_interrupted(LEFT("\"state\": \"running\", \"step\": 7, \"alive\": 1e9, \"boot_id\": \"made-up\""), 1, 0);
    check_interrupted(LEFT("\"state\": \"paused\", \"step\": 7, \"alive\": 1e9, \"boot_id\": \"another\""), 1, 1);
    check_interrupted(LEFT("\"state\": \"running\", \"step\": 7"), 1, 0); /* on a system without boot_id */
    check_interrupted(LEFT("\"state\": \"stopped\", \"step\": 7, \"boot_id\": \"another\""), 0, 0);
    check_interrupted("{\"run\": {\"version\": \"0.0.1\"}}", 0, 0);
    check_interrupted("{\"run\": {\"proc", 0, 0);
#undef LEFT
}

/* The checkpoint to resume from is newer than the last heartbeat. */
static void a_vanished_process_got_to_its_checkpoint(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    REQUIRE_OK(train(&f), error_);
    REQUIRE(leave_run_info(&f, "{\"run\": {\"process\": {\"state\": \"running\", \"step\": 0, \"alive\": 1e9}}}"));
    f.config.resume = EITP_RESUME_NEWEST;
    REQUIRE_OK(train(&f), error_);
    CHECK_THAT(f.interrupted == 1 && f.last_step == STEPS, "%d, step %lld", f.interrupted, (long long)f.last_step);
    end_fixture(&f);
}

/* ---- Ends ---- */

static void stop_at_two(fixture *f, int64_t step) {
    if (step == 2)
        eitp_run_request_stop(f->made, 15);
}

static void fill_at_two(fixture *f, int64_t step) {
    f->is_full |= step == 2;
}

static void ends_are_named(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.at_step = stop_at_two;
    REQUIRE_OK(train(&f), error_);
    CHECK(!strcmp(text_of(process_of(&f), "state"), "stopped") && integer_of(process_of(&f), "step") == 2);
    CHECK(!strcmp(eitp_run_end_name(EITP_RUN_DIVERGED), "diverged") && !eitp_run_end_name((eitp_run_end)99));
    end_fixture(&f);
}

static void a_full_disk_has_room_for_the_reason(void) {
    const eitp_json *process;
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.at_step = fill_at_two;
    CHECK(train(&f) == EITP_ERROR_IO);
    process = process_of(&f);
    CHECK(!strcmp(text_of(process, "state"), "failed") && integer_of(process, "saved_step") == -1);
    CHECK_THAT(strstr(text_of(process, "message"), "no space left"), "%s", text_of(process, "message"));
    end_fixture(&f);
}

static void a_run_without_a_step_leaves_nothing(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    REQUIRE_OK(open_run(&f), error_);
    eitp_run_request_stop(f.made, 15);
    REQUIRE_OK(train_and_close(&f), error_);
    CHECK(access(f.output, F_OK) != 0);
    end_fixture(&f);
}

static void a_file_that_cannot_be_written_ends_nothing(void) {
    fixture f;
    char path[700];
    REQUIRE(begin_fixture(&f));
    snprintf(path, sizeof path, "%s/run.json/in", f.output);
    REQUIRE_OK(eitp__make_directories(&f.host, path, &error_), error_);
    REQUIRE_OK(train(&f), error_);
    CHECK(f.warned == 1 && f.report.saved_step == STEPS && read_run(&f, "checkpoint-4/run.json"));
    end_fixture(&f);
}

/* ---- Members of the program ---- */

static void add_too_late(fixture *f, int64_t step) {
    CHECK(eitp_run_add_info(f->made, "late", "1", &error_) == EITP_ERROR_ARGUMENT && step > 0);
}

static void a_program_adds_members(void) {
    static const char *const wrong[] = {"",        "Seed", "a b",
                                        "process", "name", "a_name_that_is_longer_than_it_may_be_here"};
    const eitp_json *object;
    char name[16];
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.at_step = add_too_late;
    REQUIRE_OK(open_run(&f), error_);
    CHECK(!eitp_run_add_info(f.made, "data", "{\"rows\": 3}", &error_));
    CHECK(!eitp_run_add_info(f.made, "data", "{\"rows\": 4}", &error_));
    CHECK(!eitp_run_add_info(f.made, "configuration", "{\"mine\": 1}", &error_));
    for (size_t i = 0; i < EITP__COUNT(wrong); i++)
        CHECK(eitp_run_add_info(f.made, wrong[i], "1", &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_run_add_info(f.made, "data", "{\"rows\": ", &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_run_add_info(f.made, "data", NULL, &error_) == EITP_ERROR_ARGUMENT);
    for (int i = 2; i < EITP__INFO_MEMBERS; i++) {
        snprintf(name, sizeof name, "m%d", i);
        CHECK(!eitp_run_add_info(f.made, name, "null", &error_));
    }
    CHECK(eitp_run_add_info(f.made, "more", "1", &error_) == EITP_ERROR_ARGUMENT);
    REQUIRE_OK(train_and_close(&f), error_);
    object = read_run(&f, "run.json");
    CHECK(integer_of(eitp_json_member(object, "data"), "rows") == 4);
    object = eitp_json_member(eitp_json_root(f.document), "configuration");
    CHECK(integer_of(object, "mine") == 1 && object->count == 1);
    end_fixture(&f);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(it_describes_run_and_process),
        TEST(it_is_there_while_the_run_trains),
        TEST(a_sign_of_life_has_the_step),
        TEST(a_pause_is_a_state),
        TEST(a_process_that_vanished_is_reported),
        TEST(a_vanished_process_got_to_its_checkpoint),
        TEST(ends_are_named),
        TEST(a_full_disk_has_room_for_the_reason),
        TEST(a_run_without_a_step_leaves_nothing),
        TEST(a_file_that_cannot_be_written_ends_nothing),
        TEST(a_program_adds_members),
    };
    return RUN_TESTS(tests, argc, argv);
}
