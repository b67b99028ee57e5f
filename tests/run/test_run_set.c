/* Settings that change while a run trains. */
#include "tests/support/own_task.h"

static eitp_error error;

enum { STEPS = 8, AT = 3 };

/* A run that calls `act` after each step. Its host injects faults, and its `wait` makes the run check for a change. */
typedef struct fixture fixture;
struct fixture {
    own o;
    faults f;
    char directory[512];
    eitp_run_config config;
    eitp_run_report report;
    eitp_run *run;
    void (*act)(fixture *f, int64_t step);
    int answers; /* `wait` makes the run answer */
    int waits, sets, warnings, locks;
    char said[8192];
    eitp_error why; /* of `act` */
    int64_t from;
    eitp_setting_change changes[3];
    long n, done; /* of a sweep */
};

static eitp__run_set *state_of(const fixture *f) {
    return (eitp__run_set *)f->run->states[EITP__OBSERVER_SET];
}

/* Makes the run check for requests, as if a second had passed. */
static void look(fixture *f) {
    state_of(f)->look_at = 0;
    CHECK(!f->run->observers[EITP__OBSERVER_SET].before_step(f->run, state_of(f), &error));
}

static fixture *waiting;

static void wait_for_answer(void *user, double seconds) {
    (void)user, (void)seconds;
    waiting->waits++;
    if (waiting->answers)
        look(waiting);
}

static void notice(void *user, const eitp_run_event *event) {
    fixture *f = (fixture *)user;
    const size_t used = strlen(f->said);
    f->sets += event->kind == EITP_EVENT_SET;
    f->warnings += event->level == EITP_LOG_WARNING;
    if (event->level == EITP_LOG_WARNING || event->kind == EITP_EVENT_SET)
        snprintf(f->said + used, sizeof f->said - used, "%s\n", event->message);
    if (event->kind == EITP_EVENT_STEP && f->act) {
        state_of(f)->look_at = 0;
        f->act(f, event->report->step.step);
    }
}

static int begin(fixture *f, void (*act)(fixture *f, int64_t step)) {
    memset(f, 0, sizeof *f);
    faults_begin(&f->f);
    f->f.host.files.wait = wait_for_answer;
    waiting = f;
    f->act = act;
    if (!scratch_make(f->directory))
        return 0;
    f->config = eitp_run_config_default();
    f->config.directory = f->directory;
    f->config.steps = STEPS;
    f->config.eval_steps = f->config.save_steps = 0;
    f->config.memory_check_seconds = -1;
    f->config.listener.user = f;
    f->config.listener.notify = notice;
    return 1;
}

static eitp_status train(fixture *f) {
    eitp_status status = own_begin(&f->o, &f->f.host, "fp32", OWN_ROW, &error);
    if (!status)
        status = own_train(&f->o, &error);
    if (!status)
        status = eitp_run_open(&f->f.host, &f->config, &f->run, &error);
    return status ? status : eitp_run_train(f->run, f->o.trainer, &f->report, &error);
}

static void end(fixture *f) {
    eitp_run_close(f->run);
    own_end(&f->o);
    faults_end(&f->f);
    scratch_remove(f->directory);
}

static int exists(const fixture *f, const char *name) {
    const eitp_host host = eitp_host_default();
    eitp_path_info info;
    return !eitp__path_info(&host, scratch_path(f->directory, name), &info, NULL) && info.kind != EITP_PATH_MISSING;
}

static void write_file(const fixture *f, const char *name, const char *text) {
    FILE *file = fopen(scratch_path(f->directory, name), "wb");
    CHECK(file);
    if (file) {
        fputs(text, file);
        CHECK(!fclose(file));
    }
}

/* True if a file in the directory contains these words. */
static int has_words(const fixture *f, const char *name, const char *words) {
    const eitp_host host = eitp_host_default();
    eitp__buffer content;
    int found;
    eitp__buffer_init(&content, &host);
    found = !eitp__read_file(&host, scratch_path(f->directory, name), (size_t)1 << 20, &content, NULL) &&
            content.data && strstr(content.data, words);
    eitp__buffer_release(&content);
    return found;
}

static eitp_status set(fixture *f, size_t count, double seconds) {
    f->from = -2;
    return eitp_run_set(&f->f.host, f->directory, f->changes, count, seconds, &f->from, &f->why);
}

static void change(fixture *f, int i, const char *name, const char *value) {
    f->changes[i].name = name;
    f->changes[i].value = value;
}

/* ---- A change ---- */

static void set_and_wait(fixture *f, int64_t step) {
    if (step != AT)
        return;
    f->answers = 1;
    change(f, 0, "log-every", "2");
    change(f, 1, "monitor", "off");
    change(f, 2, "save_steps", "0");
    CHECK_THAT(!set(f, 3, 1), "%s", f->why.message);
}

static void a_run_makes_changes(void) {
    fixture f;
    REQUIRE(begin(&f, set_and_wait));
    CHECK_THAT(!train(&f), "%s", error.message);
    CHECK_THAT(f.from == AT + 1 && f.waits == 1 && !f.warnings, "%lld, %s", (long long)f.from, f.said);
    CHECK(f.run->config.log_every == 2 && f.run->config.monitor == EITP_MONITOR_OFF);
    CHECK(!strcmp(f.changes[0].was, "10") && !strcmp(f.changes[0].is, "2"));
    CHECK(!strcmp(f.changes[1].was, "light") && !strcmp(f.changes[1].is, "off"));
    CHECK(!strcmp(f.changes[2].was, "0") && !strcmp(f.changes[2].is, "0"));
    /* A request that changes nothing is not an event. */
    CHECK_THAT(!strcmp(f.said, "log_every: 10 -> 2 from step 4\nmonitor: light -> off from step 4\n"), "%s", f.said);
    CHECK(has_words(&f, "metrics.jsonl",
                    "{\"step\": 3, \"event\": \"set\", \"level\": \"info\", \"message\": \"log_every: 10 -> 2 from "
                    "step 4\", \"name\": \"log_every\", \"was\": \"10\", \"is\": \"2\", "));
    CHECK(has_words(&f, "metrics.jsonl", "{\"step\": 3, \"loss\"") && !has_words(&f, "metrics.jsonl",
                                                                                 "{\"step\": 4, "
                                                                                 "\"loss\""));
    CHECK(!exists(&f, EITP__SET_REQUEST) && !exists(&f, EITP__SET_TAKEN) && !exists(&f, EITP__SET_ANSWER));
    end(&f);
}

/* Without the change the run has the same bits. */
static void results_do_not_depend_on_changes(void) {
    double losses[2];
    for (int i = 0; i < 2; i++) {
        fixture f;
        REQUIRE(begin(&f, i ? set_and_wait : NULL));
        CHECK_THAT(!train(&f), "%s", error.message);
        losses[i] = f.report.step.loss;
        end(&f);
    }
    CHECK(memcmp(&losses[0], &losses[1], sizeof *losses) == 0);
}

/* A pending request is merged with the next, whose values take precedence. */
static void set_twice(fixture *f, int64_t step) {
    if (step != AT)
        return;
    write_file(f, EITP__SET_ANSWER, "{\"id\": \"1\", \"step\": 2, \"settings\": {}}"); /* answers another request */
    change(f, 0, "log_every", "2");
    change(f, 1, "perf_every", "3");
    CHECK_THAT(!set(f, 2, 0.1) && f->from == -1 && f->waits >= 5, "%s", f->why.message);
    CHECK(!*f->changes[0].was && f->run->config.log_every == 10);
    change(f, 0, "save_total_limit", "7");
    change(f, 1, "log_every", "4");
    CHECK_THAT(!set(f, 2, 0) && f->from == -1, "%s", f->why.message);
}

static void requests_are_joined(void) {
    fixture f;
    REQUIRE(begin(&f, set_twice));
    CHECK_THAT(!train(&f), "%s", error.message);
    CHECK(f.run->config.log_every == 4 && f.run->config.perf_every == 3 && f.run->config.save_total_limit == 7);
    CHECK_THAT(f.sets == 3 && !f.warnings, "%s", f.said);
    end(&f);
}

/* A request made while the run starts waits for its first step. Requests left by an earlier run are dropped. */
static void only_what_is_asked_of_this_run_is_done(void) {
    for (int is_late = 0; is_late < 2; is_late++) {
        fixture f;
        REQUIRE(begin(&f, NULL));
        if (!is_late)
            write_file(&f, EITP__SET_REQUEST, "{\"settings\": {\"log_every\": 3}}");
        REQUIRE_OK(own_begin(&f.o, &f.f.host, "fp32", OWN_ROW, &error), error);
        REQUIRE_OK(own_train(&f.o, &error), error);
        REQUIRE_OK(eitp_run_open(&f.f.host, &f.config, &f.run, &error), error);
        if (is_late)
            write_file(&f, EITP__SET_REQUEST, "{\"settings\": {\"log_every\": 3, \"alarms\": true}}");
        if (is_late)
            write_file(&f, EITP__SET_REQUEST, "{\"settings\": {\"log_every\": 3}}");
        CHECK_THAT(!eitp_run_train(f.run, f.o.trainer, &f.report, &error), "%s", error.message);
        CHECK_THAT(f.run->config.log_every == (is_late ? 3 : 10) && f.sets == is_late && !f.warnings, "%s", f.said);
        end(&f);
    }
}

/* A run without steps left reports that. */
static void set_at_the_end(fixture *f, int64_t step) {
    if (step != STEPS)
        return;
    change(f, 0, "log_every", "2");
    CHECK_THAT(!set(f, 1, 0), "%s", f->why.message);
}

static void what_comes_too_late_is_reported(void) {
    fixture f;
    REQUIRE(begin(&f, set_at_the_end));
    CHECK_THAT(!train(&f), "%s", error.message);
    CHECK_THAT(f.warnings == 1 && strstr(f.said, "refused a change of settings: the run has ended; "), "%s", f.said);
    CHECK(f.run->config.log_every == 10);
    eitp_run_close(f.run);
    f.run = NULL;
    CHECK(!exists(&f, EITP__SET_REQUEST) && !exists(&f, EITP__SET_ANSWER) && exists(&f, EITP__SET_REFUSED));
    end(&f);
}

/* ---- Levels that are chosen later ---- */

static void set_full(fixture *f, int64_t step) {
    if (step != AT)
        return;
    f->answers = 1;
    change(f, 0, "monitor", "full");
    change(f, 1, "metrics_every", "2");
    change(f, 2, "perf_every", "3");
    CHECK_THAT(!set(f, 3, 1), "%s", f->why.message);
}

/* Windows include the steps before. Performance intervals start with the step after the change, if there was none. */
static void levels_can_be_raised(void) {
    static const eitp_monitor levels[] = {EITP_MONITOR_OFF, EITP_MONITOR_LIGHT, EITP_MONITOR_FULL};
    for (size_t i = 0; i < EITP__COUNT(levels); i++) {
        const int was_off = levels[i] == EITP_MONITOR_OFF, was_full = levels[i] == EITP_MONITOR_FULL;
        fixture f;
        REQUIRE(begin(&f, set_full));
        f.config.monitor = levels[i];
        f.config.metrics_every = 0;
        f.config.perf_every = 0;
        CHECK_THAT(!train(&f) && f.sets == (was_full ? 2 : 3), "%s", error.message);
        CHECK(has_words(&f, "metrics.jsonl", "{\"step\": 4, \"window/steps\": 4, "));
        CHECK(has_words(&f, "metrics.jsonl", "{\"step\": 4, \"loss\""));
        CHECK(has_words(&f, "metrics.jsonl", "{\"step\": 3, \"perf/steps\": 3, ") == !was_off);
        CHECK(has_words(&f, "metrics.jsonl", "{\"step\": 6, \"perf/steps\": 3, "));
        CHECK(has_words(&f, "metrics.jsonl", "{\"step\": 8, \"perf/steps\": 2, "));
        end(&f);
    }
}

/* ---- Refusals ---- */

static void try_refused(fixture *f, int64_t step) {
    static const struct {
        const char *name, *value, *words;
    } cases[] = {
        {"colour", "1", "unknown setting 'colour' (choose from save_steps, "},
        {"eval_steps", "1", "eval_steps cannot change while the run trains"},
        {"steps", "1", "steps cannot change while the run trains"},
        {"log_every", "0", "log_every must be at least 1"},
        {"log_every", "many", "log_every must be a whole number (got 'many')"},
        {"monitor", "loud", "monitor: invalid value 'loud' (choose from off, light, full)"},
        {"cpu_mem_max", "101", "cpu_mem_max must be at least 0 and at most 100"},
        {"log_every", NULL, "name and value of a change"},
        {NULL, "1", "name and value of a change"},
    };
    eitp_setting_change many[EITP__SET_CHANGES + 1];
    if (step != AT)
        return;
    change(f, 0, "save_steps", "5");
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        change(f, 1, cases[i].name, cases[i].value);
        CHECK(set(f, 2, 1) == EITP_ERROR_ARGUMENT && !exists(f, EITP__SET_REQUEST) && f->from == -2);
        CHECK_THAT(strstr(f->why.message, cases[i].words), "%s", f->why.message);
    }
    for (size_t i = 0; i < EITP__COUNT(many); i++)
        many[i] = f->changes[0];
    CHECK(eitp_run_set(&f->f.host, f->directory, many, 0, 0, NULL, NULL) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_run_set(&f->f.host, f->directory, many, EITP__COUNT(many), 0, NULL, NULL) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_run_set(NULL, f->directory, many, 1, 0, NULL, NULL) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_run_set(&f->f.host, NULL, many, 1, 0, NULL, NULL) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_run_set(&f->f.host, f->directory, NULL, 1, 0, NULL, NULL) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_run_set(&f->f.host, scratch_path(f->directory, "nowhere"), many, 1, 0, NULL, &f->why) ==
              EITP_ERROR_ARGUMENT &&
          strstr(f->why.message, "no directory '"));
}

static void wrong_changes_are_refused(void) {
    fixture f;
    REQUIRE(begin(&f, try_refused));
    CHECK_THAT(!train(&f) && !f.sets && !f.warnings, "%s", error.message);
    eitp_run_close(f.run);
    f.run = NULL;
    change(&f, 0, "save_steps", "5");
    CHECK(set(&f, 1, 1) == EITP_ERROR_ARGUMENT && !f.waits && !exists(&f, EITP__SET_REQUEST));
    CHECK_THAT(strstr(f.why.message, "no run is training in '") &&
                   strstr(f.why.message, "set save_steps when you resume it"),
               "%s", f.why.message);
    end(&f);
}

/* Content that the run refuses changes nothing and is set aside. Anyone waiting gets the reason. */
static const struct {
    const char *content, *words;
} bad_[] = {
    {"", "invalid JSON"},
    {"{\"settings\": {\"save_steps\": 5", "invalid JSON"},
    {"[]", "missing object \"settings\""},
    {"{\"settings\": 5}", "missing object \"settings\""},
    {"{\"settings\": {}}", "missing object \"settings\""},
    {"{\"settings\": {\"save_steps\": 5, \"colour\": 1}}", "unknown setting 'colour'"},
    {"{\"settings\": {\"save_steps\": 5, \"keep_best\": \"loss\"}}", "keep_best cannot change"},
    {"{\"settings\": {\"save_steps\": 5, \"log_every\": 0}}", "log_every must be at least 1"},
    {"{\"settings\": {\"save_steps\": 5, \"log_every\": 1.5}}", "log_every must be a whole number"},
    {"{\"settings\": {\"save_steps\": 5, \"log_every\": null}}", "line 1: 'log_every' must be a string, a number"},
    {"{\"settings\": {\"save_steps\": 5, \"log_every\": [5]}}", "line 1: 'log_every' must be a string, a number"},
};

static void ask_badly(fixture *f, int64_t step) {
    const size_t i = (size_t)step - 1;
    if (i < EITP__COUNT(bad_))
        write_file(f, EITP__SET_REQUEST, bad_[i].content);
    if (i == 0 || i > EITP__COUNT(bad_))
        return;
    CHECK_THAT(f->warnings == (int)i, "%d: %s", (int)i, f->said);
    CHECK_THAT(strstr(f->said, bad_[i - 1].words) && strstr(f->said, "'; it is kept in '") == NULL &&
                   strstr(f->said, "; it is kept in '"),
               "%s", f->said);
    CHECK(has_words(f, EITP__SET_REFUSED, bad_[i - 1].content) && !exists(f, EITP__SET_TAKEN));
    f->said[0] = 0;
}

static void bad_content_is_set_aside(void) {
    fixture f;
    REQUIRE(begin(&f, ask_badly));
    f.config.steps = EITP__COUNT(bad_) + 2;
    CHECK_THAT(!train(&f), "%s", error.message);
    CHECK(!f.sets && f.run->config.save_steps == 0 && f.report.end == EITP_RUN_FINISHED);
    end(&f);
}

/* The run has other bounds than the writer, which may be of another version. */
static void refuse_what_is_asked(fixture *f, int64_t step) {
    static const eitp_setting none = {"nothing", EITP_SETTING_FLAG,        0,    sizeof(int), 0, NULL, 0, 1,
                                      0,         EITP_DIFFERENCE_ACCEPTED, NULL, ""};
    const eitp_setting *settings = f->run->settings;
    const size_t count = f->run->setting_count;
    if (step != AT)
        return;
    f->answers = 1;
    f->run->settings = &none;
    f->run->setting_count = 1;
    change(f, 0, "log_every", "2");
    CHECK(set(f, 1, 1) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(f->why.message, "' refused the change: unknown setting 'log_every'"), "%s", f->why.message);
    f->run->settings = settings;
    f->run->setting_count = count;
}

static void a_refusal_is_answered(void) {
    fixture f;
    REQUIRE(begin(&f, refuse_what_is_asked));
    CHECK_THAT(!train(&f) && f.warnings == 1 && !f.sets, "%s", f.said);
    end(&f);
}

/* ---- A run that ends without an answer ---- */

static int lock_once(void *user, const char *path, void **lock) {
    (void)user, (void)path;
    *lock = NULL;
    return waiting->locks++ ? 0 : EWOULDBLOCK;
}

static void unlock_nothing(void *user, void *lock) {
    (void)user, (void)lock;
}

static void a_run_that_has_ended_answers_nothing(void) {
    fixture f;
    REQUIRE(begin(&f, NULL));
    f.f.host.files.lock = lock_once;
    f.f.host.files.unlock = unlock_nothing;
    change(&f, 0, "log_every", "2");
    CHECK(set(&f, 1, 0.1) == EITP_ERROR_ARGUMENT && f.locks == 2 && f.waits >= 5);
    CHECK_THAT(strstr(f.why.message, "ended without an answer; set log_every when"), "%s", f.why.message);
    CHECK(!exists(&f, EITP__SET_REQUEST));
    end(&f);
}

/* ---- Failures ---- */

static void fail_one_call(fixture *f, long files, long allocations) {
    faults_fail_file_call(&f->f, files);
    f->f.fail_allocation = allocations ? f->f.allocations + allocations : 0;
}

/* One call fails while changes are requested and made. Either both are made or none, and one side reports it. */
static void fail_in_turn(fixture *f, int64_t step) {
    eitp_run_config *config = &f->run->config;
    eitp_status status;
    (void)step;
    if (f->done == 2)
        return;
    config->log_every = 10;
    config->perf_every = 100;
    f->warnings = 0;
    f->said[0] = 0;
    change(f, 0, "log_every", "2");
    change(f, 1, "perf_every", "3");
    f->n++;
    fail_one_call(f, f->done ? 0 : f->n, f->done ? f->n : 0);
    status = set(f, 2, 0);
    look(f);
    if (!f->f.failures) {
        f->n = 0;
        f->done++;
    }
    fail_one_call(f, 0, 0);
    look(f);
    CHECK_THAT((config->log_every == 2) == (config->perf_every == 3), "call %ld: one of two changes", f->n);
    CHECK_THAT(config->log_every == 2 || status || f->warnings, "call %ld: nothing was said", f->n);
    if (f->done == 2)
        eitp_run_request_stop(f->run, 1);
}

static void every_call_may_fail(void) {
    fixture f;
    REQUIRE(begin(&f, fail_in_turn));
    f.config.steps = 1000;
    f.config.report_to = NULL;
    CHECK_THAT(!train(&f) && f.report.end == EITP_RUN_STOPPED, "%s", error.message);
    CHECK_THAT(f.done == 2 && f.report.steps_done > 30, "%lld steps", (long long)f.report.steps_done);
    end(&f);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(a_run_makes_changes),
        TEST(results_do_not_depend_on_changes),
        TEST(requests_are_joined),
        TEST(only_what_is_asked_of_this_run_is_done),
        TEST(what_comes_too_late_is_reported),
        TEST(levels_can_be_raised),
        TEST(wrong_changes_are_refused),
        TEST(bad_content_is_set_aside),
        TEST(a_refusal_is_answered),
        TEST(a_run_that_has_ended_answers_nothing),
        TEST(every_call_may_fail),
    };
    return RUN_TESTS(tests, argc, argv);
}
