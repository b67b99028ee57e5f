/* Programs' own loops with the features of a run: bits, records, heat, memory shortages, alarms, requests, failing
   calls. */
#include "tests/support/own_task.h"

static eitp_error error;

/* Available kilobytes. The floor is the one for a process of some ten megabytes. */
enum { AMPLE = 2000000, SHORT = 1000 };

/* Samples per step. */
enum { BATCH = 6 };

/* A program with its own loop, on a simulated machine that becomes hot, or on which memory runs short at the read of a
   sample. */
typedef struct fixture {
    own o;
    char directory[512], machine[600], output[600];
    eitp_host host;
    eitp_run_config config;
    eitp_watch *watch;
    eitp_run *run;           /* inside the watch, after its first step */
    int64_t reads, short_at; /* the read at which memory becomes short, from 0; -1: none */
    float factor;            /* factor of inputs after step `changed_after`; 0: never */
    int64_t changed_after;
    int events[EITP_EVENT_COUNT], warnings;
    int saves, failing_save;          /* calls of `save`, and the one that fails, from 1; 0: none */
    int64_t saved_step;               /* of the last save */
    int waits, cooled_at, stopped_at; /* calls of wait, and those at which it cools down or a stop is requested */
    int polls, interrupting_poll;     /* calls of the program's poll, and the one that interrupts, from 1; 0: none */
} fixture;

static fixture *fixture_; /* of the task's `read` */

static int write_machine(const fixture *f, const char *name, const char *text) {
    char path[800];
    FILE *file;
    snprintf(path, sizeof path, "%s/%s", f->machine, name);
    file = fopen(path, "wb");
    if (!file)
        return 0;
    fputs(text, file);
    return !fclose(file);
}

static int set_available(const fixture *f, int kilobytes) {
    char text[80];
    snprintf(text, sizeof text, "MemTotal: 8000000 kB\nMemAvailable: %d kB\n", kilobytes);
    return write_machine(f, "proc/meminfo", text);
}

static int set_temperature(const fixture *f, const char *millidegrees) {
    return write_machine(f, "sys/class/thermal/thermal_zone0/temp", millidegrees);
}

static int make_machine(const fixture *f) {
    static const char *const names[] = {"sys/class/hwmon", "sys/class/thermal/thermal_zone0", "proc/self",
                                        "proc/pressure"};
    for (size_t i = 0; i < EITP__COUNT(names); i++) {
        char path[800];
        snprintf(path, sizeof path, "%s/%s", f->machine, names[i]);
        if (eitp__make_directories(&f->host, path, &error))
            return 0;
    }
    return set_available(f, AMPLE) && write_machine(f, "proc/self/status", "VmRSS: 50000 kB\nRssAnon: 40000 kB\n") &&
           write_machine(f, "proc/self/cgroup", "") && write_machine(f, "proc/loadavg", "0.50 1 1 1/2 3\n") &&
           write_machine(f, "proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n") &&
           write_machine(f, "sys/class/thermal/thermal_zone0/type", "x86_pkg_temp\n") && set_temperature(f, "50000\n");
}

static void count_wait(void *user, double seconds) {
    fixture *f = fixture_;
    (void)user, (void)seconds;
    f->waits++;
    if (f->waits == f->cooled_at)
        CHECK(set_temperature(f, "84000\n"));
    if (f->waits == f->stopped_at)
        eitp_watch_request_stop(f->watch);
}

static eitp_status read_sample(void *user, eitp_split split, uint64_t number, eitp_sample *sample, eitp_error *why) {
    const eitp_status status = own_read(user, split, number, sample, why);
    fixture *f = fixture_;
    if (f->watch)
        f->run = (eitp_run *)f->o.context->poll.user;
    if (f->reads == f->short_at)
        CHECK(set_available(f, SHORT));
    /* The next poll samples memory. */
    if (f->run && f->short_at >= 0 && f->reads >= f->short_at)
        ((eitp__guard *)f->run->states[EITP__OBSERVER_GUARD])->look_at = 0;
    f->reads++;
    if (f->factor > 0 && f->o.trainer && eitp_trainer_steps_done(f->o.trainer) >= f->changed_after) {
        for (int64_t i = 0; i < sample->rows * OWN_WIDTH; i++)
            ((float *)sample->values[0])[i] *= f->factor;
    }
    return status;
}

static void notice(void *user, const eitp_run_event *event) {
    fixture *f = (fixture *)user;
    CHECK(!event->report->steps); /* unknown */
    f->events[event->kind]++;
    f->warnings += event->level >= EITP_LOG_WARNING;
}

static eitp_status save(void *user, const char *directory, eitp_error *why) {
    fixture *f = (fixture *)user;
    CHECK(!strcmp(directory, f->output));
    if (++f->saves == f->failing_save)
        return EITP_ERROR_IO; /* without a message */
    f->saved_step = eitp_trainer_steps_done(f->o.trainer);
    return eitp_trainer_save(f->o.trainer, directory, why);
}

/* Creates the trainer; the watch follows. */
static int begin_trainer(fixture *f) {
    const eitp_host host = eitp_host_default();
    fixture_ = f;
    f->reads = 0;
    if (own_begin(&f->o, &host, "fp32", OWN_ROW, &error)) {
        CHECK_THAT(0, "%s", error.message);
        return 0;
    }
    f->o.config.schedule.peak = 1e-3;
    f->o.task.read = read_sample;
    f->o.task.guess_loss = 1000; /* no loss counts as divergence */
    CHECK_THAT(!own_train(&f->o, &error), "%s", error.message);
    return f->o.trainer != NULL;
}

static int begin(fixture *f) {
    memset(f, 0, sizeof *f);
    f->host = eitp_host_default();
    if (!scratch_make(f->directory))
        return 0;
    snprintf(f->machine, sizeof f->machine, "%s/machine", f->directory);
    snprintf(f->output, sizeof f->output, "%s/out", f->directory);
    if (!make_machine(f))
        return 0;
    f->host.system_root = f->machine;
    f->host.files.wait = count_wait;
    f->short_at = f->saved_step = -1;
    f->config = eitp_run_config_default();
    f->config.directory = f->output;
    f->config.memory_check_seconds = 1e-9;
    f->config.listener.user = f;
    f->config.listener.notify = notice;
    f->config.save = save;
    f->config.save_user = f;
    return begin_trainer(f);
}

static int open_watch(fixture *f) {
    CHECK_THAT(!eitp_watch_open(&f->host, &f->config, f->o.trainer, &f->watch, &error), "%s", error.message);
    return f->watch != NULL;
}

static void end_trainer(fixture *f) {
    eitp_watch_close(f->watch);
    f->watch = NULL;
    f->run = NULL;
    own_end(&f->o);
}

static void end(fixture *f) {
    end_trainer(f);
    scratch_remove(f->directory);
}

/* Makes steps until `steps` are done. */
static eitp_status step_to(fixture *f, int64_t steps, eitp_step_report *report) {
    eitp_status status = EITP_OK;
    while (!status && eitp_trainer_steps_done(f->o.trainer) < steps)
        status = f->watch ? eitp_watch_step(f->watch, report, &error) : eitp_trainer_step(f->o.trainer, report, &error);
    return status;
}

static void read_weights(const fixture *f, float weights[OWN_WIDTH]) {
    CHECK_THAT(!eitp_variable_read_f32(f->o.context, "w", 0, weights, OWN_WIDTH, &error), "%s", error.message);
}

/* The weights after `steps` steps without a watch. */
static void straight_weights(int64_t steps, float weights[OWN_WIDTH]) {
    eitp_step_report report;
    fixture f;
    CHECK(begin(&f));
    CHECK_THAT(!step_to(&f, steps, &report), "%s", error.message);
    read_weights(&f, weights);
    end(&f);
}

static const char *text_of(const fixture *f, const char *name) {
    static char text[1 << 20];
    char path[700];
    FILE *file;
    size_t size = 0;
    snprintf(path, sizeof path, "%s/%s", f->output, name);
    file = fopen(path, "rb");
    if (file) {
        size = fread(text, 1, sizeof text - 1, file);
        fclose(file);
    }
    text[size] = 0;
    return text;
}

/* Returns how often the records contain some words. */
static int count_words(const fixture *f, const char *name, const char *words) {
    int count = 0;
    for (const char *at = text_of(f, name); (at = strstr(at, words)) != NULL; at++)
        count++;
    return count;
}

static int count_records(const fixture *f, int64_t step, const char *first) {
    char words[100];
    snprintf(words, sizeof words, "{\"step\": %lld, \"%s\": ", (long long)step, first);
    return count_words(f, "metrics.jsonl", words);
}

static int exists(const fixture *f, const char *name) {
    const eitp_host host = eitp_host_default();
    eitp_path_info info;
    char path[700];
    snprintf(path, sizeof path, "%s/%s", f->output, name);
    return !eitp__path_info(&host, path, &info, NULL) && info.kind != EITP_PATH_MISSING;
}

/* ---- Bits and records ---- */

/* True if all observers of a run are present except the ones that act on its checkpoints. */
static int has_observers(const eitp_run *within) {
    const eitp__observer *rows = within->observers;
    return rows[EITP__OBSERVER_GUARD].poll && rows[EITP__OBSERVER_HEAT].holds && rows[EITP__OBSERVER_HEALTH].assess &&
           !rows[EITP__OBSERVER_BEST].begin && !rows[EITP__OBSERVER_PATIENCE].begin &&
           !rows[EITP__OBSERVER_LINKS].begin && !rows[EITP__OBSERVER_PRUNE].checkpoints_changed &&
           !rows[EITP__OBSERVER_DISK].begin && !rows[EITP__OBSERVER_ASYNC_SAVE].after_step;
}

/* Steps, evaluations and weights have the same bits at every level. */
static void a_watch_changes_no_bits(void) {
    enum { STEPS = 6 };
    double losses[STEPS] = {0}, evaluated = 0;
    float weights[OWN_WIDTH], watched[OWN_WIDTH];
    for (int level = -1; level <= EITP_MONITOR_FULL; level++) {
        eitp_step_report report;
        eitp_evaluation evaluation;
        fixture f;
        REQUIRE(begin(&f));
        f.config.monitor = level < 0 ? EITP_MONITOR_OFF : (eitp_monitor)level;
        f.config.log_full_every = f.config.perf_every = 2;
        f.config.metrics_every = 3;
        f.config.eval_fraction = 1; /* is ignored */
        if (level >= 0)
            REQUIRE(open_watch(&f));
        for (int64_t step = 1; step <= STEPS; step++) {
            CHECK_THAT(!step_to(&f, step, &report) && report.step == step, "%s", error.message);
            CHECK(level < 0 || losses[step - 1] == report.loss);
            losses[step - 1] = report.loss;
        }
        CHECK(!(level < 0 ? eitp_trainer_evaluate(f.o.trainer, 4, &evaluation, &error)
                          : eitp_watch_evaluate(f.watch, 4, &evaluation, &error)));
        CHECK(level < 0 || evaluated == evaluation.loss);
        evaluated = evaluation.loss;
        read_weights(&f, level < 0 ? weights : watched);
        CHECK(level < 0 || !memcmp(weights, watched, sizeof weights));
        CHECK(level < 0 || count_words(&f, "metrics.jsonl", "\"val_loss\": ") == 0); /* they are queued */
        CHECK(level < 0 || has_observers(f.run));
        eitp_watch_close(f.watch);
        f.watch = NULL;
        CHECK(level < 0 || count_words(&f, "metrics.jsonl", "\"val_loss\": ") == 1);
        CHECK(level < 0 || (count_records(&f, 3, "loss") == (level > 0) &&
                            count_words(&f, "metrics.jsonl", "\"perf/steps\": 2, ") == 3 * (level > 0) &&
                            count_words(&f, "metrics.jsonl", "\"window/steps\": ") == 2 * (level > 1) &&
                            count_words(&f, "metrics.jsonl", "\"update_ratio/w\": ") == 3 * (level > 1)));
        end(&f);
    }
}

/* If a program is killed after step 6 and resumes its trainer from its checkpoint of step 4, every step and evaluation
   is recorded once. */
static void records_have_every_step_once(void) {
    enum { STEPS = 8 };
    float weights[OWN_WIDTH], straight[OWN_WIDTH];
    eitp_step_report report;
    eitp_evaluation evaluation;
    char checkpoint[700];
    fixture f;
    REQUIRE(begin(&f));
    f.config.report_to = "jsonl,csv";
    f.config.log_every = 1;
    REQUIRE(open_watch(&f));
    CHECK_THAT(!step_to(&f, 3, &report), "%s", error.message);
    CHECK(!eitp_watch_record_value(f.watch, "mine", 0.5, &error));
    CHECK(!step_to(&f, 4, &report) && !eitp_watch_evaluate(f.watch, 0, &evaluation, &error));
    CHECK_THAT(!eitp_watch_save(f.watch, &error) && f.saves == 1 && f.saved_step == 4, "%s", error.message);
    CHECK(count_records(&f, 4, "loss") == 1 && count_records(&f, 4, "val_loss") == 1); /* before the checkpoint */
    CHECK(!step_to(&f, 6, &report));
    end_trainer(&f);
    CHECK(count_records(&f, 6, "loss") == 1);
    REQUIRE(begin_trainer(&f));
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-4", f.output);
    CHECK_THAT(!eitp_trainer_resume(f.o.trainer, checkpoint, &error), "%s", error.message);
    REQUIRE(open_watch(&f));
    CHECK(!eitp_watch_evaluate(f.watch, 0, &evaluation, &error)); /* which was recorded */
    CHECK(!step_to(&f, STEPS, &report) && !eitp_watch_evaluate(f.watch, 0, &evaluation, &error));
    read_weights(&f, weights);
    end_trainer(&f);
    for (int64_t step = 1; step <= STEPS; step++)
        CHECK_THAT(count_records(&f, step, "loss") == 1, "step %d", (int)step);
    CHECK(count_records(&f, 4, "val_loss") == 1 && count_records(&f, 8, "val_loss") == 1);
    CHECK(count_records(&f, 3, "mine") == 1 && count_words(&f, "metrics.jsonl", "\"schema\": 1") == 2);
    CHECK(count_words(&f, "metrics.csv", "\nstep,") == STEPS && count_words(&f, "metrics.csv", "\nevaluation,") == 2);
    straight_weights(STEPS, straight);
    CHECK(!memcmp(weights, straight, sizeof weights));
    scratch_remove(f.directory);
}

/* ---- Heat ---- */

/* Closes the watch, and checks the state in run.json. */
static void close_as(fixture *f, const char *state) {
    char words[40];
    eitp_watch_close(f->watch);
    f->watch = NULL;
    f->run = NULL;
    snprintf(words, sizeof words, "\"state\": \"%s\"", state);
    CHECK_THAT(count_words(f, "run.json", words) == 1, "not %s", state);
}

static void heat_holds_a_step(void) {
    float weights[OWN_WIDTH], straight[OWN_WIDTH];
    eitp_step_report report;
    fixture f;
    REQUIRE(begin(&f));
    CHECK(set_temperature(&f, "99000\n"));
    f.cooled_at = 15;
    REQUIRE(open_watch(&f));
    CHECK_THAT(!step_to(&f, 1, &report) && f.waits == 20, "%d waits", f.waits); /* two seconds, each in ten slices */
    CHECK(f.events[EITP_EVENT_TEMPERATURE] == 2 && report.step == 1);
    CHECK(!step_to(&f, 3, &report) && f.waits == 20);
    read_weights(&f, weights);
    close_as(&f, "finished");
    CHECK(count_words(&f, "metrics.jsonl", "\"event\": \"temperature\", ") == 2);
    end(&f);
    straight_weights(3, straight);
    CHECK(!memcmp(weights, straight, sizeof weights));
}

static void a_stop_ends_the_wait(void) {
    eitp_step_report report;
    fixture f;
    REQUIRE(begin(&f));
    CHECK(set_temperature(&f, "99000\n"));
    f.stopped_at = 13;
    REQUIRE(open_watch(&f));
    CHECK(step_to(&f, 1, &report) == EITP_ERROR_INTERRUPTED && f.waits == 13);
    CHECK(!eitp_trainer_steps_done(f.o.trainer) && !f.reads);
    CHECK(step_to(&f, 1, &report) == EITP_ERROR_INTERRUPTED && f.waits == 13);
    close_as(&f, "stopped");
    end(&f);
}

/* ---- Memory ---- */

/* Memory runs short within step 3: it is dropped, the program saves step 2, and step 3 is repeated. */
static void a_shortage_is_saved_for_once(void) {
    float weights[OWN_WIDTH], straight[OWN_WIDTH];
    straight_weights(5, straight);
    for (int saves = 0; saves < 2; saves++) {
        eitp_step_report report;
        fixture f;
        REQUIRE(begin(&f));
        f.short_at = 2 * BATCH;
        f.config.save = saves ? save : NULL;
        REQUIRE(open_watch(&f));
        CHECK_THAT(!step_to(&f, 5, &report) && report.step == 5, "%s", error.message);
        CHECK_THAT(f.reads > 5 * BATCH && f.reads <= 6 * BATCH, "%d samples were read", (int)f.reads);
        CHECK(f.events[EITP_EVENT_MEMORY_SHORT] == 1 && f.events[EITP_EVENT_SAVED] == saves);
        CHECK_THAT(f.saves == saves && f.saved_step == (saves ? 2 : -1), "%d saves", f.saves);
        CHECK(exists(&f, "checkpoint-2") == saves);
        read_weights(&f, weights);
        CHECK(!memcmp(weights, straight, sizeof weights));
        CHECK(!saves || (!eitp_watch_save(f.watch, &error) && f.saves == 2));
        eitp_watch_close(f.watch);
        f.watch = NULL;
        CHECK(count_words(&f, "metrics.jsonl", "\"event\": \"memory_pressure\", ") == 1);
        end(&f);
    }
}

/* Steps saved by the program are not saved again. */
static void saved_steps_are_not_saved_again(void) {
    eitp_step_report report;
    fixture f;
    REQUIRE(begin(&f));
    f.short_at = 2 * BATCH;
    REQUIRE(open_watch(&f));
    CHECK_THAT(!step_to(&f, 2, &report) && !eitp_watch_save(f.watch, &error), "%s", error.message);
    CHECK(!step_to(&f, 4, &report) && f.events[EITP_EVENT_MEMORY_SHORT] == 1 && f.saves == 1);
    end(&f);
}

/* With auto_shrink, a lasting shortage ends the step after the previous one is saved. A failing save ends it too, and
   the program may continue. */
static void a_shortage_that_lasts_fails(void) {
    for (int shrinks = 0; shrinks < 2; shrinks++) {
        eitp_step_report report;
        eitp_status status;
        fixture f;
        REQUIRE(begin(&f));
        f.short_at = 2 * BATCH;
        f.config.auto_shrink = shrinks;
        f.failing_save = !shrinks;
        REQUIRE(open_watch(&f));
        status = step_to(&f, 5, &report);
        CHECK_THAT(status == (shrinks ? EITP_ERROR_PRESSURE : EITP_ERROR_IO), "%s", error.message);
        CHECK_THAT(strstr(error.message, shrinks ? "memory stays short: " : "after step 2"), "%s", error.message);
        CHECK(f.saves == 1 && eitp_trainer_steps_done(f.o.trainer) == 2 && exists(&f, "checkpoint-2") == shrinks);
        CHECK(set_available(&f, AMPLE) && !step_to(&f, 5, &report));
        end(&f);
    }
}

/* An evaluation is dropped and repeated, too. */
static void a_shortage_interrupts_an_evaluation(void) {
    eitp_step_report report;
    eitp_evaluation evaluation, straight;
    fixture f;
    REQUIRE(begin(&f));
    REQUIRE(open_watch(&f));
    CHECK(!step_to(&f, 2, &report) && !eitp_trainer_evaluate(f.o.trainer, 0, &straight, &error));
    f.short_at = f.reads;
    CHECK_THAT(!eitp_watch_evaluate(f.watch, 0, &evaluation, &error), "%s", error.message);
    CHECK(evaluation.loss == straight.loss && f.reads > f.short_at + OWN_VALIDATION);
    CHECK(f.events[EITP_EVENT_MEMORY_SHORT] == 1 && f.saves == 1 && f.saved_step == 2);
    end(&f);
}

/* ---- Health ---- */

static void alarms_are_raised(void) {
    for (int factor = 0; factor <= 30; factor += 30) {
        eitp_step_report report;
        fixture f;
        REQUIRE(begin(&f));
        f.factor = (float)factor;
        f.changed_after = 160;
        f.config.memory_check_seconds = -1;
        REQUIRE(open_watch(&f));
        CHECK_THAT(!step_to(&f, 320, &report), "%s", error.message);
        CHECK(f.events[EITP_EVENT_ALARM] == (factor > 0) && !f.warnings == !factor);
        eitp_watch_close(f.watch);
        f.watch = NULL;
        CHECK(count_words(&f, "metrics.jsonl", "\"alarm\": \"exploding_gradient\", ") == (factor > 0));
        end(&f);
    }
}

/* Steps that are not applied end the loop, and a destroyed model is not saved. */
static void steps_that_are_not_finite_fail(void) {
    eitp_step_report report;
    fixture f;
    REQUIRE(begin(&f));
    f.o.nan_sample = BATCH; /* first read of step 2 */
    f.config.max_nonfinite = 1;
    REQUIRE(open_watch(&f));
    memset(&report, 0, sizeof report);
    CHECK(step_to(&f, 4, &report) == EITP_ERROR_NOT_FINITE && report.step == 2 && !report.applied);
    CHECK_THAT(strstr(error.message, "up to step 2"), "%s", error.message);
    CHECK(eitp_watch_save(f.watch, &error) == EITP_ERROR_NOT_FINITE && !f.saves);
    CHECK(!step_to(&f, 3, &report) && !eitp_watch_save(f.watch, &error) && f.saves == 1);
    CHECK(f.events[EITP_EVENT_SKIPPED_STEP] == 1);
    close_as(&f, "finished"); /* the program continued */
    end(&f);
}

/* ---- Requests ---- */

static int ask(void *user) {
    fixture *f = (fixture *)user;
    return ++f->polls == f->interrupting_poll;
}

/* A poll set by the program is called, and is restored afterwards. */
static void the_poll_of_the_program_is_asked(void) {
    eitp_step_report report;
    fixture f;
    REQUIRE(begin(&f));
    REQUIRE(open_watch(&f));
    eitp_context_set_poll(f.o.context, ask, &f);
    CHECK(!step_to(&f, 1, &report) && f.polls > 1);
    CHECK(f.o.context->poll.ask == ask && f.o.context->poll.user == &f);
    f.interrupting_poll = f.polls + 2;
    CHECK(step_to(&f, 2, &report) == EITP_ERROR_INTERRUPTED && eitp_trainer_steps_done(f.o.trainer) == 1);
    CHECK_THAT(!step_to(&f, 2, &report) && report.step == 2, "%s", error.message);
    end(&f);
}

static void the_end_of_data_is_passed_on(void) {
    eitp_step_report report;
    fixture f;
    REQUIRE(begin(&f));
    eitp_trainer_destroy(f.o.trainer);
    f.o.config.last_sample = 3 * BATCH;
    CHECK(!own_train(&f.o, &error));
    REQUIRE(open_watch(&f));
    CHECK(step_to(&f, 9, &report) == EITP_END_OF_DATA && report.step == 3 && f.events[EITP_EVENT_END_OF_DATA] == 1);
    close_as(&f, "end_of_data");
    end(&f);
}

/* ---- Misuse ---- */

static void a_directory_has_one_watch(void) {
    eitp_step_report report;
    eitp_watch *second = NULL;
    fixture f;
    REQUIRE(begin(&f));
    REQUIRE(open_watch(&f));
    CHECK(eitp_watch_open(&f.host, &f.config, f.o.trainer, &second, &error) == EITP_ERROR_ARGUMENT && !second);
    CHECK_THAT(strstr(error.message, "another process is training in"), "%s", error.message);
    CHECK(!step_to(&f, 2, &report) && !eitp_watch_save(f.watch, &error));
    end_trainer(&f);
    CHECK(count_records(&f, 2, "loss") == 1);
    /* A trainer that was not resumed would discard the records. */
    REQUIRE(begin_trainer(&f));
    CHECK(eitp_watch_open(&f.host, &f.config, f.o.trainer, &second, &error) == EITP_ERROR_ARGUMENT && !second);
    CHECK_THAT(strstr(error.message, "has checkpoint-2, but the trainer is at step 0"), "%s", error.message);
    CHECK(count_records(&f, 2, "loss") == 1);
    end(&f);
}

static eitp_status refuse_record(void *user, const eitp_record *record, eitp_error *why) {
    return (void)user, (void)record, eitp__fail(why, EITP_ERROR_IO, "no room");
}

static eitp_status refuse_resume(void *user, int64_t step, int *evaluated, eitp_error *why) {
    return (void)user, (void)step, (void)evaluated, eitp__fail(why, EITP_ERROR_IO, "no such table");
}

/* A watch that cannot be opened leaves nothing. If records cannot be stored, steps still run. */
static void failing_sinks_end_no_step(void) {
    eitp_step_report report;
    eitp_record_sink sink;
    fixture f;
    REQUIRE(begin(&f));
    memset(&sink, 0, sizeof sink);
    sink.record = refuse_record;
    sink.resume = refuse_resume;
    f.config.sinks = &sink;
    f.config.sink_count = 1;
    CHECK(eitp_watch_open(&f.host, &f.config, f.o.trainer, &f.watch, &error) == EITP_ERROR_IO && !f.watch);
    CHECK(strstr(error.message, "no such table") && !exists(&f, ""));
    sink.resume = NULL;
    REQUIRE(open_watch(&f));
    CHECK(!step_to(&f, 3, &report) && f.events[EITP_EVENT_RECORDS] == 1);
    end_trainer(&f);
    CHECK(f.events[EITP_EVENT_RECORDS] == 2 && count_records(&f, 3, "loss") == 1); /* the loss is reported at the end */
    scratch_remove(f.directory);
}

static int names_null(eitp_status status, const char *name) {
    return status == EITP_ERROR_ARGUMENT && strstr(error.message, name) && strstr(error.message, "NULL");
}

static void null_is_refused(void) {
    eitp_step_report report;
    eitp_evaluation evaluation;
    eitp_run_config config;
    fixture f;
    REQUIRE(begin(&f));
    config = f.config;
    CHECK(names_null(eitp_watch_open(NULL, &config, f.o.trainer, &f.watch, &error), "host"));
    CHECK(names_null(eitp_watch_open(&f.host, NULL, f.o.trainer, &f.watch, &error), "config"));
    CHECK(names_null(eitp_watch_open(&f.host, &config, NULL, &f.watch, &error), "trainer"));
    CHECK(names_null(eitp_watch_open(&f.host, &config, f.o.trainer, NULL, &error), "watch"));
    config.directory = NULL;
    CHECK(names_null(eitp_watch_open(&f.host, &config, f.o.trainer, &f.watch, &error), "config.directory"));
    config = f.config;
    config.metrics_window = 0;
    CHECK(eitp_watch_open(&f.host, &config, f.o.trainer, &f.watch, &error) == EITP_ERROR_ARGUMENT && !f.watch);
    CHECK(strstr(error.message, "metrics_window") && !exists(&f, ""));
    f.config.save = NULL;
    REQUIRE(open_watch(&f));
    CHECK(names_null(eitp_watch_step(NULL, &report, &error), "watch"));
    CHECK(names_null(eitp_watch_step(f.watch, NULL, &error), "report"));
    CHECK(names_null(eitp_watch_evaluate(NULL, 0, &evaluation, &error), "watch"));
    CHECK(names_null(eitp_watch_evaluate(f.watch, 0, NULL, &error), "evaluation"));
    CHECK(names_null(eitp_watch_save(NULL, &error), "watch"));
    CHECK(names_null(eitp_watch_save(f.watch, &error), "config.save"));
    CHECK(names_null(eitp_watch_record_value(NULL, "a", 1, &error), "watch"));
    CHECK(names_null(eitp_watch_record_value(f.watch, NULL, 1, &error), "name"));
    CHECK(eitp_watch_record_value(f.watch, "step", 1, &error) == EITP_ERROR_ARGUMENT);
    CHECK(!eitp_watch_step(f.watch, &report, NULL) && !eitp_watch_evaluate(f.watch, 0, &evaluation, NULL));
    eitp_watch_request_stop(NULL);
    eitp_watch_request_stop(f.watch);
    CHECK(eitp_watch_step(f.watch, &report, NULL) == EITP_ERROR_INTERRUPTED);
    eitp_watch_close(NULL);
    end(&f);
}

/* ---- Failing calls ---- */

static eitp_status save_nothing(void *user, const char *directory, eitp_error *why) {
    return (void)user, (void)directory, (void)why, EITP_OK;
}

/* Opens a watch on a host with faults, and uses it. Sets *opened to 1 if it was opened. */
static eitp_status use_watch(fixture *f, const eitp_host *host, int *opened) {
    eitp_step_report report;
    eitp_evaluation evaluation;
    eitp_watch *watch = NULL;
    eitp_status status = eitp_watch_open(host, &f->config, f->o.trainer, &watch, &error);
    *opened = !status;
    CHECK(!status == (watch != NULL));
    for (int i = 0; i < 2 && !status; i++)
        status = eitp_watch_step(watch, &report, &error);
    if (!status)
        status = eitp_watch_evaluate(watch, 0, &evaluation, &error);
    if (!status)
        status = eitp_watch_save(watch, &error);
    eitp_watch_close(watch);
    return status;
}

/* Failing allocations and file calls leave nothing behind. Failures of records do not end a step. */
static void failing_calls_lose_nothing(void) {
    fixture f;
    REQUIRE(begin(&f));
    f.config.monitor = EITP_MONITOR_FULL;
    f.config.report_to = "jsonl,csv";
    f.config.memory_check_seconds = 0;
    f.config.save = save_nothing;
    for (int files = 0; files < 2; files++) {
        int has_failed = 1;
        for (long n = 1; has_failed; n += test_stride(2, 20)) {
            const int64_t before = eitp_trainer_steps_done(f.o.trainer);
            int opened;
            eitp_status status;
            faults faulty;
            faults_begin_on(&faulty, &f.host);
            faulty.host.system_root = f.machine;
            faults_do_not_sync(&faulty.host);
            faulty.fail_allocation = files ? 0 : n;
            faulty.fail_file_call = files ? n : 0;
            status = use_watch(&f, &faulty.host, &opened);
            CHECK_THAT(!status || *error.message, "call %ld", n);
            CHECK_THAT(!opened || eitp_trainer_steps_done(f.o.trainer) == before + 2, "call %ld: %s", n, error.message);
            has_failed = faults_end(&faulty);
            CHECK_THAT(has_failed || !status, "%s", error.message);
        }
    }
    end(&f);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(a_watch_changes_no_bits),
        TEST(records_have_every_step_once),
        TEST(heat_holds_a_step),
        TEST(a_stop_ends_the_wait),
        TEST(a_shortage_is_saved_for_once),
        TEST(saved_steps_are_not_saved_again),
        TEST(a_shortage_that_lasts_fails),
        TEST(a_shortage_interrupts_an_evaluation),
        TEST(alarms_are_raised),
        TEST(steps_that_are_not_finite_fail),
        TEST(the_poll_of_the_program_is_asked),
        TEST(the_end_of_data_is_passed_on),
        TEST(a_directory_has_one_watch),
        TEST(failing_sinks_end_no_step),
        TEST(null_is_refused),
        TEST(failing_calls_lose_nothing),
    };
    return RUN_TESTS(tests, argc, argv);
}
