/* Runs: records, requests to stop and save, pruning, best checkpoint, early stopping, memory, errors. */
#include "tests/support/checkpoints.h"
#include "tests/support/trainer_run.h"

#include <sys/wait.h>
#include <unistd.h>

/* The events and records of a run, and the requests made during training. */
typedef struct watcher {
    eitp_run *run;
    int64_t stop_after, save_after, exit_after, exit_saved; /* steps; 0: never */
    int events[EITP_EVENT_COUNT];                           /* per kind */
    int64_t saved[32];
    int saves;
    int64_t recorded[64];
    char first_names[64][24];
    int records, event_records, syncs;
    int64_t resumed;
    eitp_status refuses; /* returned by the sink */
    char said[8192];     /* the messages of all events except steps, each with a newline */
} watcher;

static void notice(void *user, const eitp_run_event *event) {
    watcher *w = (watcher *)user;
    w->events[event->kind]++;
    CHECK(event->message[0] && event->report);
    CHECK(event->kind != EITP_EVENT_STARTED || event->report->work == EITP_RUN_STARTING);
    CHECK(event->kind != EITP_EVENT_STEP || event->report->work == EITP_RUN_STEPS);
    CHECK(event->kind != EITP_EVENT_EVALUATION || event->report->work == EITP_RUN_EVALUATES);
    if (event->kind != EITP_EVENT_STEP && strlen(w->said) + strlen(event->message) + 2 < sizeof w->said)
        strcat(strcat(w->said, event->message), "\n");
    if (event->kind == EITP_EVENT_SAVED && w->saves < 32)
        w->saved[w->saves++] = event->report->saved_step;
    if (event->kind == EITP_EVENT_SAVED && event->report->saved_step == w->exit_saved)
        _exit(0);
    if (event->kind != EITP_EVENT_STEP)
        return;
    if (event->report->step.step == w->exit_after)
        _exit(0);
    if (event->report->step.step == w->stop_after)
        eitp_run_request_stop(w->run, 15);
    if (event->report->step.step == w->save_after)
        eitp_run_request_save(w->run);
}

static eitp_status take_record(void *user, const eitp_record *record, eitp_error *error) {
    watcher *w = (watcher *)user;
    if (w->refuses)
        return eitp__fail(error, w->refuses, "the sink is full");
    CHECK(record->time > 1.7e9 && (record->kind == EITP_RECORD_EVENT) == !strcmp(record->values[0].name, "event"));
    if (record->kind == EITP_RECORD_PERFORMANCE)
        return EITP_OK;
    if (record->kind == EITP_RECORD_EVENT) {
        w->event_records++;
        return EITP_OK;
    }
    if (w->records < 64) {
        w->recorded[w->records] = record->step;
        snprintf(w->first_names[w->records], sizeof w->first_names[0], "%s", record->values[0].name);
        w->records++;
    }
    return EITP_OK;
}

static eitp_status take_resume(void *user, int64_t step, int *evaluated, eitp_error *error) {
    (void)evaluated;
    (void)error;
    ((watcher *)user)->resumed = step;
    return EITP_OK;
}

static eitp_status take_sync(void *user, eitp_error *error) {
    (void)error;
    ((watcher *)user)->syncs++;
    return EITP_OK;
}

/* A run in a scratch directory: the trainer, and the configuration under test. */
typedef struct fixture {
    run trained;
    char directory[512], output[600];
    eitp_run_config config;
    eitp_run_report report;
    eitp_record_sink sink;
    watcher w;
    eitp_host host;
    double rate;     /* 0: the default */
    int has_plateau; /* its schedule; otherwise a constant rate */
} fixture;

static int begin_fixture(fixture *f) {
    memset(f, 0, sizeof *f);
    if (!scratch_make(f->directory) || !write_text(f->directory))
        return 0;
    snprintf(f->output, sizeof f->output, "%s/a/out", f->directory);
    f->host = eitp_host_default();
    f->config = eitp_run_config_default();
    f->config.directory = f->output;
    f->config.steps = 6;
    f->config.eval_steps = f->config.save_steps = 0;
    f->config.eval_samples = 4;
    f->config.memory_check_seconds = -1;
    f->config.perf_every = 0; /* records are counted */
    f->config.listener.user = f->sink.user = &f->w;
    f->config.listener.notify = notice;
    f->sink.record = take_record;
    f->sink.resume = take_resume;
    f->sink.sync = take_sync;
    f->config.sinks = &f->sink;
    f->config.sink_count = 1;
    return 1;
}

/* One thread: others do not survive a fork. */
static eitp_status make_trainer(fixture *f) {
    variant v = default_variant();
    run *r = &f->trained;
    eitp_status status;
    v.threads = 1;
    v.isa = "ref";
    status = make_run(r, &f->host, &v, f->directory, &error_);
    if (status || !(f->rate > 0))
        return status;
    eitp_trainer_destroy(r->trainer);
    r->trainer = NULL;
    r->config.schedule.kind = EITP_SCHEDULE_CONSTANT;
    r->config.schedule.warmup = 0;
    r->config.schedule.peak = f->rate;
    if (f->has_plateau) {
        r->config.schedule.kind = EITP_SCHEDULE_PLATEAU;
        r->config.plateau.patience = 1;
        r->config.plateau.factor = 0.5;
        r->config.plateau.threshold = 0.2; /* makes failures certain */
    }
    r->config.max_grad_norm = 0;
    return eitp_trainer_create(&r->task, &r->config, &r->trainer, &error_);
}

/* Creates the run, trains, and destroys everything; sets f->report. */
static eitp_status train(fixture *f) {
    eitp_status status = make_trainer(f);
    if (!status)
        status = eitp_run_open(&f->host, &f->config, &f->w.run, &error_);
    if (!status)
        status = eitp_run_train(f->w.run, f->trained.trainer, &f->report, &error_);
    eitp_run_close(f->w.run);
    f->w.run = NULL;
    end_run(&f->trained);
    return status;
}

/* Trains in a process that exits, as if killed, after a step or its checkpoint. */
static void train_killed(fixture *f, int64_t step, int64_t saved) {
    int status = 1;
    pid_t child;
    fflush(stdout);
    child = fork();
    if (!child) {
        f->w.exit_after = step;
        f->w.exit_saved = saved;
        train(f);
        _exit(2);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_THAT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "step %d was not reached", (int)(step + saved));
}

static int exists(const fixture *f, const char *name) {
    eitp_path_info info;
    return !eitp__path_info(&f->host, scratch_path(f->output, name), &info, NULL) && info.kind != EITP_PATH_MISSING;
}

static int has_checkpoint(const fixture *f, int64_t step) {
    char name[40];
    snprintf(name, sizeof name, "checkpoint-%lld", (long long)step);
    return exists(f, name);
}

static void read_text(const fixture *f, const char *name, char *text, size_t size) {
    FILE *file = fopen(scratch_path(f->output, name), "rb");
    size_t done = file ? fread(text, 1, size - 1, file) : 0;
    text[done] = 0;
    if (file)
        fclose(file);
}

/* Reads metrics.jsonl without its events, except those about memory. */
static void read_records(const fixture *f, char *text, size_t size) {
    read_text(f, "metrics.jsonl", text, size);
    drop_events(text);
}

static void write_file(const fixture *f, const char *name, const char *text) {
    CHECK_THAT(!eitp__write_file(&f->host, scratch_path(f->output, name), text, strlen(text), &error_), "%s",
               error_.message);
}

/* Turns a checkpoint into one without run state, as written by earlier versions. */
static void forget_run_state(const fixture *f, int64_t step) {
    char name[64];
    snprintf(name, sizeof name, "checkpoint-%lld/run_state.json", (long long)step);
    CHECK(!remove(scratch_path(f->output, name)));
    snprintf(name, sizeof name, "checkpoint-%lld", (long long)step);
    CHECK(renew_manifest(scratch_path(f->output, name)));
}

static int count_of(const char *text, const char *word) {
    int count = 0;
    while ((text = strstr(text, word)) != NULL) {
        count++;
        text += strlen(word);
    }
    return count;
}

/* ---- Records ---- */

static void records_go_to_every_sink(void) {
    static const int64_t steps[] = {0, 1, 2, 2, 3, 4, 4};
    static const char *const names[] = {"val_loss", "loss", "loss", "val_loss", "loss", "loss", "val_loss"};
    char text[8192];
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.steps = 4;
    f.config.eval_steps = f.config.save_steps = 2;
    CHECK_THAT(!train(&f), "%s", error_.message);
    CHECK(f.w.records == 7 && f.w.syncs == 2 && f.w.resumed == -1);
    for (int i = 0; i < 7; i++)
        CHECK(f.w.recorded[i] == steps[i] && !strcmp(f.w.first_names[i], names[i]));
    CHECK_THAT(f.w.event_records == 3, "%d", f.w.event_records); /* one start and two saves */
    read_text(&f, "metrics.jsonl", text, sizeof text);
    CHECK_THAT(!strncmp(text, "{\"step\": 0, \"event\": \"started\", \"level\": \"debug\"", 46), "%s", text);
    CHECK_THAT(strstr(text, "\"schema\": 1, \"time\": 1") && strstr(text, ", \"elapsed\": 0"), "%s", text);
    CHECK_THAT(strstr(text, "\"level\": \"info\", \"message\": \"saved ") && strstr(text, "\"seconds\": "), "%s", text);
    read_records(&f, text, sizeof text);
    CHECK(count_of(text, "\n") == 7 && count_of(text, "\"applied\": true, ") == 4);
    CHECK(!strncmp(text, "{\"step\": 0, \"val_loss\": ", 23));
    CHECK(f.report.end == EITP_RUN_FINISHED && f.report.steps_done == 4 && f.report.saved_step == 4 &&
          f.report.evaluations == 3);
    CHECK(f.report.items == 4 * 4 * 32 && f.report.evaluated_step == 4);
    scratch_remove(f.directory);
}

/* A sink that always fails is reported once and counted, and the run reaches the same end. */
static void a_failing_sink_ends_nothing(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.w.refuses = EITP_ERROR_IO;
    CHECK_THAT(!train(&f), "%s", error_.message);
    CHECK(f.report.end == EITP_RUN_FINISHED && f.report.saved_step == 6 && has_checkpoint(&f, 6));
    /* 6 steps, the evaluation at the end, and three events: the start of the run, the failing sink, and the save. */
    CHECK_THAT(f.report.lost_records == 10, "%d", (int)f.report.lost_records);
    /* A warning when it first fails, and the count at the end. */
    CHECK_THAT(f.w.events[EITP_EVENT_RECORDS] == 2, "%d", f.w.events[EITP_EVENT_RECORDS]);
    CHECK_THAT(strstr(f.w.said, "cannot store records: the sink is full; the run continues without them\n") &&
                   strstr(f.w.said, "10 records could not be stored\n"),
               "%s", f.w.said);
    scratch_remove(f.directory);
}

static eitp_status refuse_step_2(void *user, const eitp_record *record, eitp_error *error) {
    const char *refused = (const char *)user;
    return record->step == 2 && !strcmp(record->values[0].name, refused)
               ? eitp__fail(error, EITP_ERROR_IO, "the sink is full")
               : EITP_OK;
}

/* A record refused by one sink reaches the others and best.json. */
static void other_sinks_receive_what_one_refuses(void) {
    char step[] = "loss", evaluation[] = "val_loss", text[16384];
    for (int i = 0; i < 2; i++) {
        fixture f;
        REQUIRE(begin_fixture(&f));
        f.sink.user = i ? evaluation : step;
        f.sink.record = refuse_step_2;
        f.sink.resume = NULL;
        f.sink.sync = NULL;
        f.config.eval_steps = 2;
        f.config.keep_best = "loss";
        CHECK_THAT(!train(&f) && f.report.lost_records == 1, "%s", error_.message);
        CHECK(strstr(f.w.said, "records are stored again (lost so far: 1)\n"));
        read_records(&f, text, sizeof text);
        CHECK_THAT(count_of(text, "\"loss\": ") == 6 && count_of(text, "\"val_loss\": ") == 4, "%s", text);
        read_text(&f, "best.json", text, sizeof text);
        CHECK_THAT(strstr(text, "\n{\"step\": 2, "), "%s", text);
        scratch_remove(f.directory);
    }
}

static int refused_writes; /* number of writes of metrics.jsonl that fail; counted down by the file's thread */
static void *metrics_file;

static int open_metrics(void *user, const char *path, eitp_file_mode mode, void **file) {
    const eitp_host host = eitp_host_default();
    const int code = host.files.open(user, path, mode, file);
    if (!code && strstr(path, "metrics.jsonl"))
        metrics_file = *file;
    return code;
}

/* Fails after half of the data, as on a disk that is full. */
static int write_without_metrics(void *user, void *file, uint64_t offset, const void *data, size_t size, size_t *done) {
    const eitp_host host = eitp_host_default();
    if (file != metrics_file || __atomic_fetch_sub(&refused_writes, 1, __ATOMIC_RELAXED) <= 0)
        return host.files.write(user, file, offset, data, size, done);
    host.files.write(user, file, offset, data, size / 2, done);
    return ENOSPC;
}

/* A log that cannot be written for a while is complete in the end. One that never can be is counted as lost. */
static void metrics_are_written_later(void) {
    static const struct {
        int refused, save_steps; /* without saves it is written at the end */
    } cases[] = {{1, 1}, {1000, 1}, {2, 0}};
    for (int i = 0; i < 3; i++) {
        const int is_lost = cases[i].refused > 100;
        char text[8192];
        fixture f;
        REQUIRE(begin_fixture(&f));
        f.config.steps = 4;
        f.config.save_steps = cases[i].save_steps;
        metrics_file = NULL;
        f.host.files.open = open_metrics;
        f.host.files.write = write_without_metrics;
        refused_writes = cases[i].refused;
        CHECK_THAT(!train(&f) && f.report.saved_step == 4, "%s", error_.message);
        read_records(&f, text, sizeof text);
        CHECK_THAT(count_of(text, "\n") == (is_lost ? 0 : 5), "%s", text);
        CHECK_THAT(!is_lost || !*text, "half a record is left: %s", text);
        CHECK_THAT(f.report.lost_records == (is_lost ? 11 : 0), "%d", (int)f.report.lost_records);
        CHECK_THAT(count_of(f.w.said, "cannot store records") == 1 && strstr(f.w.said, "no space left"), "%s",
                   f.w.said);
        CHECK(count_of(f.w.said, "stored again (lost so far: 0)") == !is_lost);
        refused_writes = 0;
        scratch_remove(f.directory);
    }
}

static void the_sink_of_null_is_refused(void) {
    const eitp_host host = eitp_host_default();
    const eitp_record_sink sink = eitp_record_file_sink(NULL);
    eitp_run_config config = eitp_run_config_default();
    eitp_run *made = (eitp_run *)&config;
    config.sinks = &sink;
    config.sink_count = 1;
    CHECK(eitp_run_open(&host, &config, &made, &error_) == EITP_ERROR_ARGUMENT && !made);
    CHECK_THAT(strstr(error_.message, "record function"), "%s", error_.message);
}

/* ---- Requests ---- */

/* A signal handler may call it before the run is created. */
static void requests_accept_null(void) {
    eitp_run_request_stop(NULL, 1);
    eitp_run_request_save(NULL);
}

/* If a run could not remove old checkpoints in its last save, a resume removes them. */
static void a_finished_run_is_pruned_by_a_resume(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.save_steps = 2;
    f.config.save_total_limit = 0;
    CHECK_THAT(!train(&f), "%s", error_.message);
    CHECK(has_checkpoint(&f, 2) && has_checkpoint(&f, 4) && has_checkpoint(&f, 6));
    f.config.resume = EITP_RESUME_NEWEST;
    f.config.save_total_limit = 1;
    CHECK_THAT(!train(&f), "%s", error_.message);
    CHECK(f.w.events[EITP_EVENT_NOTHING_TO_DO] == 1);
    CHECK(!has_checkpoint(&f, 2) && !has_checkpoint(&f, 4) && has_checkpoint(&f, 6));
    scratch_remove(f.directory);
}

/* The last evaluation may come after the last save. A resume knows it nevertheless. */
static void a_finished_run_keeps_its_best(void) {
    char before[4096], after[4096];
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.save_steps = 2;
    f.config.keep_best = "loss";
    CHECK_THAT(!train(&f), "%s", error_.message);
    CHECK(f.report.best_step == 6);
    read_text(&f, "best.json", before, sizeof before);
    f.config.resume = EITP_RESUME_NEWEST;
    CHECK_THAT(!train(&f), "%s", error_.message);
    CHECK(f.w.events[EITP_EVENT_NOTHING_TO_DO] == 1 && f.report.best_step == 6);
    read_text(&f, "best.json", after, sizeof after);
    CHECK_THAT(!strcmp(before, after), "%s%s", before, after);
    scratch_remove(f.directory);
}

static void stop_saves_and_resume_continues(void) {
    char straight[8192];
    fixture f, g;
    REQUIRE(begin_fixture(&f) && begin_fixture(&g));
    CHECK_THAT(!train(&g), "%s", error_.message);
    f.w.stop_after = 2;
    CHECK_THAT(!train(&f), "%s", error_.message);
    CHECK(f.report.end == EITP_RUN_STOPPED && f.report.stop_reason == 15 && f.report.steps_done == 2 &&
          f.report.saved_step == 2);
    CHECK(has_checkpoint(&f, 2) && f.report.evaluations == 0);
    f.w.stop_after = 0;
    f.config.resume = EITP_RESUME_NEWEST;
    CHECK_THAT(!train(&f), "%s", error_.message);
    CHECK(f.report.end == EITP_RUN_FINISHED && f.report.start_step == 2 && f.report.steps_done == 6 &&
          f.w.resumed == 2);
    CHECK(f.report.step.loss >= g.report.step.loss && f.report.step.loss <= g.report.step.loss);
    CHECK(f.report.evaluation.loss >= g.report.evaluation.loss && f.report.evaluation.loss <= g.report.evaluation.loss);
    read_records(&f, straight, sizeof straight);
    CHECK(count_of(straight, "\"loss\": ") == 6 && count_of(straight, "\"val_loss\": ") == 1);
    /* A second run has nothing to do. */
    CHECK(!train(&f) && f.report.end == EITP_RUN_FINISHED && f.w.events[EITP_EVENT_NOTHING_TO_DO] == 1);
    CHECK(f.report.evaluations == 0 && f.report.evaluated_step == 6);
    scratch_remove(f.directory);
    scratch_remove(g.directory);
}

static void save_request_saves_and_continues(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.w.save_after = 3;
    CHECK_THAT(!train(&f), "%s", error_.message);
    CHECK(f.w.saves == 2 && f.w.saved[0] == 3 && f.w.saved[1] == 6 && f.report.end == EITP_RUN_FINISHED);
    scratch_remove(f.directory);
}

static void save_seconds_saves_after_slow_steps(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.steps = 3;
    f.config.save_seconds = 1e-9;
    CHECK_THAT(!train(&f), "%s", error_.message);
    CHECK(f.w.saves == 3 && !has_checkpoint(&f, 1) && has_checkpoint(&f, 2) && has_checkpoint(&f, 3));
    scratch_remove(f.directory);
}

/* Steps in which an epoch, or a part of one, ends. */
static void epochs_set_when_to_evaluate_and_save(void) {
    fixture f;
    REQUIRE(begin_fixture(&f) && !make_trainer(&f));
    const double step = 4.0 / (double)f.trained.task.samples[EITP_TRAINING];
    end_run(&f.trained);
    f.config.eval_epochs = 1.5 * step; /* before step 1, and after 2, 3, 5 and 6 */
    f.config.save_epochs = 4 * step;   /* after step 4, and the last */
    CHECK_THAT(!train(&f), "%s", error_.message);
    CHECK(f.report.evaluations == 5 && f.report.evaluated_step == 6);
    CHECK(f.w.saves == 2 && f.w.saved[0] == 4 && f.w.saved[1] == 6);
    scratch_remove(f.directory);
    REQUIRE(begin_fixture(&f));
    f.config.eval_epochs = -1;
    CHECK(train(&f) == EITP_ERROR_ARGUMENT);
    f.config.eval_epochs = 0;
    f.config.save_epochs = (double)NAN;
    CHECK(train(&f) == EITP_ERROR_ARGUMENT);
    scratch_remove(f.directory);
}

static void without_steps_a_run_ends_with_the_data(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.steps = 0;
    REQUIRE(!make_trainer(&f));
    eitp_trainer_destroy(f.trained.trainer);
    f.trained.config.last_sample = 10;
    REQUIRE_OK(eitp_trainer_create(&f.trained.task, &f.trained.config, &f.trained.trainer, &error_), error_);
    REQUIRE_OK(eitp_run_open(&f.host, &f.config, &f.w.run, &error_), error_);
    CHECK_THAT(!eitp_run_train(f.w.run, f.trained.trainer, &f.report, &error_), "%s", error_.message);
    CHECK(f.report.end == EITP_RUN_END_OF_DATA && f.report.steps_done == 3 && f.report.steps == 3 &&
          f.report.saved_step == 3);
    CHECK(f.report.evaluated_step == 3 && f.w.events[EITP_EVENT_END_OF_DATA] == 1);
    CHECK(eitp_run_train(f.w.run, f.trained.trainer, NULL, &error_) == EITP_ERROR_ARGUMENT);
    eitp_run_close(f.w.run);
    end_run(&f.trained);
    scratch_remove(f.directory);
}

/* ---- Best checkpoint and early stopping ---- */

static void best_of_values(void) {
    static const double values[] = {3, 2, 2, (double)NAN, 1, 1.5, (double)INFINITY};
    static const int is_best[] = {1, 1, 0, 0, 1, 0, 0};
    static const int64_t since[] = {0, 0, 1, 2, 0, 1, 2};
    const eitp_host host = eitp_host_default();
    eitp__best best, read;
    char directory[512];
    REQUIRE(scratch_make(directory));
    eitp__best_init(&best, 0);
    for (int i = 0; i < 7; i++) {
        CHECK(eitp__best_add(&best, 10 * i, values[i]) == is_best[i]);
        CHECK(best.now.since == since[i]);
    }
    /* The same evaluation again counts once. */
    CHECK(!eitp__best_add(&best, 60, 4) && best.now.since == 2 && best.now.step == 40);
    CHECK(!eitp__best_write(&best, &host, directory, "loss", 1, &error_));
    for (int i = 0; i < 7; i++) {
        eitp__best_init(&read, 0);
        CHECK_THAT(!eitp__best_read(&read, &host, directory, "loss", 10 * i + 5, &error_), "%s", error_.message);
        CHECK(read.count == (size_t)i + 1 && read.now.since == since[i]);
    }
    eitp__best_init(&read, 0);
    CHECK(!eitp__best_read(&read, &host, directory, "accuracy", 100, &error_) && read.count == 0);
    eitp__best_init(&best, 1);
    CHECK(eitp__best_add(&best, 1, -1) && eitp__best_add(&best, 2, 0) && !eitp__best_add(&best, 3, -1));
    scratch_remove(directory);
}

/* Another evaluation is now the best, but patience still compares with the lost value. */
static void a_lost_best_is_not_the_best(void) {
    const eitp_host host = eitp_host_default();
    eitp__best best, read;
    char directory[512];
    REQUIRE(scratch_make(directory));
    eitp__best_init(&best, 0);
    CHECK(eitp__best_add(&best, 10, 5) && eitp__best_add(&best, 20, 2) && !eitp__best_add(&best, 30, 4));
    eitp__best_lose(&best, 20);
    CHECK(best.now.step == 30 && best.now.value == 4 && best.now.seen == 2 && best.now.since == 1);
    CHECK(eitp__best_add(&best, 40, 3) && best.now.since == 2);
    best.saved = best.now;
    CHECK_THAT(!eitp__best_write(&best, &host, directory, "loss", 1, &error_), "%s", error_.message);
    CHECK(eitp__best_read_kept_step(&host, directory) == 40);
    eitp__best_init(&read, 0);
    CHECK_THAT(!eitp__best_read(&read, &host, directory, "loss", 40, &error_), "%s", error_.message);
    CHECK(read.now.step == 40 && read.now.seen == 2 && read.now.since == 2);
    CHECK(eitp__best_add(&read, 50, 1) && read.now.since == 0);
    for (int i = 51; i <= 50 + EITP__BEST_EVALUATIONS; i++)
        eitp__best_add(&read, i, 9);
    eitp__best_lose(&read, 50);
    CHECK(read.now.step == 51 && read.now.seen == 1 && read.now.since == EITP__BEST_EVALUATIONS);
    CHECK_THAT(!eitp__best_write(&read, &host, directory, "loss", 0, &error_), "%s", error_.message);
    eitp__best_init(&best, 0);
    CHECK_THAT(!eitp__best_read(&best, &host, directory, "loss", 9999, &error_), "%s", error_.message);
    CHECK(best.now.step == 51 && best.now.seen == 1 && best.now.since == EITP__BEST_EVALUATIONS);
    scratch_remove(directory);
}

/* Values in best.json that no run writes are refused, or counting continues. */
static void best_of_an_edited_file(void) {
    static const char text[] = "{\"metric\": \"loss\", \"before\": {\"step\": 1, \"value\": 1, "
                               "\"evaluations_since\": 9223372036854775807}, \"evaluations\": []}\n";
    eitp__best best;
    fixture f;
    FILE *file;
    REQUIRE(begin_fixture(&f));
    file = fopen(scratch_path(f.directory, "best.json"), "wb");
    REQUIRE(file);
    fputs(text, file);
    fclose(file);
    eitp__best_init(&best, 0);
    CHECK(eitp__best_read(&best, &f.host, f.directory, "loss", 9, &error_) == EITP_ERROR_FORMAT);
    eitp__best_add(&best, 9, 2);
    CHECK(best.now.since >= 0);
    scratch_remove(f.directory);
}

static void best_forgets_the_oldest_evaluations_only(void) {
    eitp__best best;
    eitp__best_init(&best, 0);
    for (int i = 0; i < 3 * EITP__BEST_EVALUATIONS; i++)
        CHECK(eitp__best_add(&best, i, i == 7 ? -1 : i) == (i == 0 || i == 7));
    CHECK(best.count == EITP__BEST_EVALUATIONS && best.now.step == 7);
    CHECK(best.now.since == 3 * EITP__BEST_EVALUATIONS - 8);
}

/* A rate at which the loss falls, rises and stays high. */
static void waver(fixture *f) {
    f->rate = 0.05;
    f->config.steps = 30;
    f->config.eval_steps = 2;
    f->config.eval_samples = 0;
    f->config.save_steps = 1;
    f->config.save_total_limit = 1;
    f->config.keep_best = "loss";
    f->config.patience = 3;
}

/* Patience without a metric watches the loss, and keeps the checkpoint it compares with. */
static void check_best_is_kept(const char *keep_best) {
    char text[4096], expected[64];
    fixture f;
    int64_t end;
    REQUIRE(begin_fixture(&f));
    waver(&f);
    f.config.keep_best = keep_best;
    CHECK_THAT(!train(&f), "%s", error_.message);
    end = f.report.steps_done;
    CHECK(f.report.end == EITP_RUN_EARLY_STOP && end < 30 && f.w.events[EITP_EVENT_EARLY_STOP] == 1);
    CHECK(f.report.best_step > 0 && end == f.report.best_step + 3 * 2 && f.report.saved_step == end);
    CHECK(has_checkpoint(&f, f.report.best_step) && has_checkpoint(&f, end) && !has_checkpoint(&f, end - 1));
    read_text(&f, "best.json", text, sizeof text);
    snprintf(expected, sizeof expected, "\"best\": {\"step\": %lld, ", (long long)f.report.best_step);
    CHECK_THAT(strstr(text, expected), "%s", text);
    /* A run that stopped early stops again when resumed. */
    f.config.resume = EITP_RESUME_NEWEST;
    CHECK(!train(&f) && f.report.end == EITP_RUN_EARLY_STOP && f.report.steps_done == end && f.report.step.step == 0);
    scratch_remove(f.directory);
}

static void the_best_is_kept_and_patience_stops(void) {
    check_best_is_kept("loss");
    check_best_is_kept(NULL);
}

static void patience_survives_kills(void) {
    static char straight[16384], killed[16384];
    fixture f, g;
    REQUIRE(begin_fixture(&f) && begin_fixture(&g));
    waver(&f);
    waver(&g);
    f.config.save_steps = g.config.save_steps = 3;
    CHECK_THAT(!train(&f), "%s", error_.message);
    g.config.resume = EITP_RESUME_NEWEST;
    for (int64_t step = 2; step < f.report.steps_done; step++)
        train_killed(&g, step, 0);
    CHECK_THAT(!train(&g), "%s", error_.message);
    CHECK(f.report.end == EITP_RUN_EARLY_STOP && g.report.end == EITP_RUN_EARLY_STOP);
    CHECK_THAT(f.report.steps_done == g.report.steps_done && f.report.best_step == g.report.best_step, "%d %d",
               (int)f.report.steps_done, (int)g.report.steps_done);
    read_text(&f, "best.json", straight, sizeof straight);
    read_text(&g, "best.json", killed, sizeof killed);
    CHECK(!strcmp(straight, killed));
    CHECK(has_checkpoint(&g, g.report.best_step));
    read_records(&f, straight, sizeof straight);
    read_records(&g, killed, sizeof killed);
    CHECK(count_of(straight, "\"val_loss\": ") == count_of(killed, "\"val_loss\": "));
    CHECK(count_of(straight, "\n") == count_of(killed, "\n"));
    scratch_remove(f.directory);
    scratch_remove(g.directory);
}

static void evaluate_on_plateau(fixture *f) {
    f->has_plateau = 1;
    f->rate = 0.01;
    f->config.steps = 20;
    f->config.eval_steps = 2;
    f->config.save_steps = 1;
    f->config.resume = EITP_RESUME_NEWEST;
}

/* At the end, the trainer states have the same counts and the same checksums of weights and moments. */
static void check_same_end(const fixture *f, const fixture *g) {
    static char straight[16384], killed[16384];
    read_text(f, "checkpoint-20/trainer_state.json", straight, sizeof straight);
    read_text(g, "checkpoint-20/trainer_state.json", killed, sizeof killed);
    CHECK_THAT(*straight && !strcmp(straight, killed), "%s\n%s", straight, killed);
}

/* Killed after any step, with and without records. Records tell which evaluations they contain. */
static void a_plateau_survives_kills(void) {
    char text[16384];
    fixture f, g, h;
    REQUIRE(begin_fixture(&f) && begin_fixture(&g) && begin_fixture(&h));
    evaluate_on_plateau(&f);
    evaluate_on_plateau(&g);
    evaluate_on_plateau(&h);
    h.config.report_to = NULL;
    CHECK_THAT(!train(&f), "%s", error_.message);
    CHECK_THAT(f.report.step.learning_rate <= 0.0025, "%g", f.report.step.learning_rate);
    read_text(&f, "checkpoint-20/trainer_state.json", text, sizeof text);
    CHECK_THAT(strstr(text, "\"evaluated_step\": 20},"), "%s", text);
    for (int64_t step = 2; step < 20; step++) {
        train_killed(&g, step, 0);
        train_killed(&h, step, 0);
    }
    CHECK_THAT(!train(&g) && !train(&h), "%s", error_.message);
    CHECK(g.report.start_step == 18 && h.report.start_step == 18);
    check_same_end(&f, &g);
    check_same_end(&f, &h);
    scratch_remove(f.directory);
    scratch_remove(g.directory);
    scratch_remove(h.directory);
}

/* A checkpoint written because memory ran short lacks the evaluation of its step, which the records have. The step is
   evaluated and saved again before the next one. */
static void a_plateau_repeats_an_evaluation_that_the_checkpoint_lacks(void) {
    static char text[16384];
    char *failures, *evaluated;
    fixture f, g;
    REQUIRE(begin_fixture(&f) && begin_fixture(&g));
    evaluate_on_plateau(&f);
    evaluate_on_plateau(&g);
    CHECK_THAT(!train(&f), "%s", error_.message);
    train_killed(&g, 0, 2);
    read_text(&g, "checkpoint-2/trainer_state.json", text, sizeof text);
    failures = strstr(text, "\"failures\": 1, ");
    evaluated = strstr(text, "\"evaluated_step\": 2}");
    REQUIRE(failures && evaluated);
    failures[strlen("\"failures\": ")] = evaluated[strlen("\"evaluated_step\": ")] = '0';
    write_file(&g, "checkpoint-2/trainer_state.json", text);
    CHECK(renew_manifest(scratch_path(g.output, "checkpoint-2")));
    train_killed(&g, 3, 0);
    read_text(&g, "checkpoint-2/trainer_state.json", text, sizeof text);
    CHECK_THAT(strstr(text, "\"evaluated_step\": 2}"), "%s", text);
    CHECK_THAT(!train(&g), "%s", error_.message);
    check_same_end(&f, &g);
    scratch_remove(f.directory);
    scratch_remove(g.directory);
}

/* A run resumed from the checkpoint of the best evaluation knows that it is the best. */
static void a_kill_right_after_saving_the_best(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    waver(&f);
    f.config.save_steps = 0;
    f.config.resume = EITP_RESUME_NEWEST;
    train_killed(&f, 0, 8);
    CHECK(has_checkpoint(&f, 2) && has_checkpoint(&f, 8));
    CHECK_THAT(!train(&f), "%s", error_.message);
    CHECK(f.report.end == EITP_RUN_EARLY_STOP && f.report.start_step == 8 && f.report.best_step == 8);
    CHECK(f.report.steps_done == 14 && has_checkpoint(&f, 8) && !has_checkpoint(&f, 2));
    scratch_remove(f.directory);
}

/* A run resumed in another directory copies the evaluations before its own first one. Patience continues; the best
   checkpoint is one in this directory. */
static void evaluations_are_copied_to_another_directory(void) {
    char text[4096], checkpoint[700];
    fixture f;
    REQUIRE(begin_fixture(&f));
    waver(&f);
    f.config.eval_steps = 3;
    f.w.stop_after = 4;
    CHECK_THAT(!train(&f) && f.report.saved_step == 4, "%s", error_.message);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-4", f.output);
    snprintf(f.output, sizeof f.output, "%s/elsewhere", f.directory);
    f.config.resume = EITP_RESUME_NAMED;
    f.config.checkpoint = checkpoint;
    f.w.stop_after = 5;
    CHECK_THAT(!train(&f) && f.report.saved_step == 5, "%s", error_.message);
    read_text(&f, "best.json", text, sizeof text);
    CHECK_THAT(count_of(text, "\n{\"step\": 3, ") == 1 && count_of(text, "\n{\"step\": ") == 1, "%s", text);
    CHECK_THAT(strstr(text, "\"best\": {\"step\": -1, \"value\": null, \"seen\": ") && strstr(text, "\"lost\": true"),
               "%s", text);
    CHECK(f.w.events[EITP_EVENT_NOT_KEPT] == 1 && f.report.best_step == -1);
    scratch_remove(f.directory);
}

static void a_better_evaluation_is_saved_at_once(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.eval_steps = 4;
    f.config.keep_best = "loss";
    CHECK_THAT(!train(&f), "%s", error_.message);
    CHECK(f.w.saves == 2 && f.w.saved[0] == 4 && f.w.saved[1] == 6 && f.report.best_step == 6);
    scratch_remove(f.directory);
}

/* A new run in the directory of an older one, whose checkpoints were removed, ignores the remaining files. */
static void a_new_run_ignores_an_older_best(void) {
    char path[700];
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.steps = 3;
    f.config.eval_steps = 1;
    f.config.keep_best = "loss";
    CHECK_THAT(!train(&f) && f.report.best_step > 0, "%s", error_.message);
    for (int step = 1; step <= 3; step++) {
        snprintf(path, sizeof path, "%s/checkpoint-%d", f.output, step);
        scratch_remove(path);
    }
    f.config.steps = 6;
    f.config.eval_steps = 6;
    f.w.stop_after = 3;
    CHECK_THAT(!train(&f) && f.report.saved_step == 3, "%s", error_.message);
    f.config.resume = EITP_RESUME_NEWEST;
    f.w.stop_after = 4;
    CHECK_THAT(!train(&f) && f.report.saved_step == 4, "%s", error_.message);
    CHECK_THAT(f.report.best_step == -1, "%d", (int)f.report.best_step);
    scratch_remove(f.directory);
}

static int refused_bests; /* number of writes of best.json that fail */

static int open_without_best(void *user, const char *path, eitp_file_mode mode, void **file) {
    const eitp_host host = eitp_host_default();
    (void)user;
    if (refused_bests <= 0 || !strstr(path, "best.json"))
        return host.files.open(NULL, path, mode, file);
    refused_bests--;
    return ENOSPC;
}

/* best.json is informational: a run that cannot write it reports that once, and loses nothing. */
static void a_best_json_that_cannot_be_written_is_said_once(void) {
    char text[4096];
    for (int refused = 1; refused <= 100; refused += 99) {
        fixture f;
        REQUIRE(begin_fixture(&f));
        f.config.eval_steps = 2;
        f.config.keep_best = "loss";
        f.host.files.open = open_without_best;
        refused_bests = refused;
        f.w.stop_after = 3;
        CHECK_THAT(!train(&f) && f.report.saved_step == 3 && has_checkpoint(&f, 2), "%s", error_.message);
        CHECK(f.w.events[EITP_EVENT_WARNING] == 1 && exists(&f, "best.json") == (refused == 1));
        refused_bests = 0;
        f.config.resume = EITP_RESUME_NEWEST;
        f.w.stop_after = 5;
        CHECK_THAT(!train(&f), "%s", error_.message);
        read_text(&f, "best.json", text, sizeof text);
        CHECK_THAT(count_of(text, "\n{\"step\": ") == 2 && f.report.best_step > 0, "%s", text);
        scratch_remove(f.directory);
    }
}

/* A checkpoint of an earlier version has no run_state.json. Its evaluations are taken from best.json if that is
   complete. */
static void evaluations_of_earlier_checkpoints_are_in_best_json(void) {
    char text[4096];
    for (int damaged = 0; damaged < 2; damaged++) {
        fixture f;
        REQUIRE(begin_fixture(&f));
        f.config.eval_steps = 2;
        f.config.keep_best = "loss";
        f.w.stop_after = 5;
        CHECK_THAT(!train(&f), "%s", error_.message);
        forget_run_state(&f, 5);
        if (damaged)
            write_file(&f, "best.json", "{\"metric\": \"loss\", \"ev");
        f.config.resume = EITP_RESUME_NEWEST;
        f.w.stop_after = 6;
        CHECK_THAT(!train(&f), "%s", error_.message);
        CHECK(f.w.events[EITP_EVENT_WARNING] == damaged && (f.report.best_step > 0) == !damaged);
        read_text(&f, "best.json", text, sizeof text);
        CHECK_THAT(count_of(text, "\n{\"step\": ") == 2 - 2 * damaged, "%s", text);
        scratch_remove(f.directory);
    }
}

/* The checkpoint's evaluations count, regardless of best.json. */
static void a_lost_best_json_changes_nothing(void) {
    static const char *const contents[] = {NULL, "", "{\"metric\": \"loss\", \"best\": {\"step\": 1, \"value\": 0}}"};
    for (int i = 0; i < 3; i++) {
        fixture f;
        REQUIRE(begin_fixture(&f));
        waver(&f);
        CHECK_THAT(!train(&f) && f.report.end == EITP_RUN_EARLY_STOP, "%s", error_.message);
        const int64_t end = f.report.steps_done, best = f.report.best_step;
        scratch_remove(f.directory);
        REQUIRE(begin_fixture(&f));
        waver(&f);
        f.w.stop_after = best + 3;
        CHECK_THAT(!train(&f), "%s", error_.message);
        if (contents[i])
            write_file(&f, "best.json", contents[i]);
        else
            scratch_remove(scratch_path(f.output, "best.json"));
        f.config.resume = EITP_RESUME_NEWEST;
        f.w.stop_after = 0;
        CHECK_THAT(!train(&f), "%s", error_.message);
        CHECK(f.report.end == EITP_RUN_EARLY_STOP && f.report.steps_done == end && f.report.best_step == best);
        scratch_remove(f.directory);
    }
}

/* ---- Kept checkpoints ---- */

static void keep_step_2(void *user, const eitp_run_event *event) {
    fixture *f = (fixture *)user;
    if (event->kind == EITP_EVENT_SAVED && event->report->saved_step == 2)
        eitp_run_keep_checkpoint(f->w.run, 2);
    if (event->kind == EITP_EVENT_SAVED && event->report->saved_step == 4)
        CHECK(has_checkpoint(f, 2) && !has_checkpoint(f, 1));
    if (event->kind == EITP_EVENT_STEP && event->report->step.step == 5)
        eitp_run_keep_checkpoint(f->w.run, -1);
}

static void a_program_keeps_a_checkpoint_for_a_while(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    eitp_run_keep_checkpoint(NULL, 1);
    f.config.save_steps = 1;
    f.config.save_total_limit = 1;
    f.config.listener.user = &f;
    f.config.listener.notify = keep_step_2;
    CHECK_THAT(!train(&f), "%s", error_.message);
    CHECK(has_checkpoint(&f, 6) && !has_checkpoint(&f, 2) && !has_checkpoint(&f, 5));
    scratch_remove(f.directory);
}

/* A checkpoint that a program is still copying when the run ends. */
static void a_checkpoint_kept_until_after_the_run_is_removed(void) {
    for (int released = 0; released < 2; released++) {
        fixture f;
        REQUIRE(begin_fixture(&f));
        f.config.save_steps = 1;
        f.config.save_total_limit = 1;
        REQUIRE_OK(make_trainer(&f), error_);
        REQUIRE_OK(eitp_run_open(&f.host, &f.config, &f.w.run, &error_), error_);
        eitp_run_keep_checkpoint(f.w.run, 5);
        REQUIRE_OK(eitp_run_train(f.w.run, f.trained.trainer, &f.report, &error_), error_);
        CHECK(has_checkpoint(&f, 5) && has_checkpoint(&f, 6));
        end_run(&f.trained);
        if (released)
            eitp_run_keep_checkpoint(f.w.run, -1);
        eitp_run_close(f.w.run);
        CHECK(has_checkpoint(&f, 5) == !released && has_checkpoint(&f, 6));
        f.w.run = NULL;
        scratch_remove(f.directory);
    }
}

/* ---- Links ---- */

/* Reads the target of a link; "" if there is none. */
static void read_link(const char *output, const char *name, char target[64]) {
    const ssize_t size = readlink(scratch_path(output, name), target, 63);
    target[size > 0 ? size : 0] = 0;
}

/* Checks at every file call that no link dangles. */
static int check_links(const char *output) {
    static const char *const names[] = {"latest_model", "best_model"};
    char target[64];
    int found = 0;
    for (int i = 0; i < 2; i++) {
        read_link(output, names[i], target);
        CHECK_THAT(!*target || !access(scratch_path(output, names[i]), F_OK), "%s leads to %s, which is missing",
                   names[i], target);
        found += *target != 0;
    }
    return found;
}

static int links_found; /* most links seen at a call */

static int remove_with_links(void *user, const char *path) {
    const fixture *f = (const fixture *)user;
    const eitp_host host = eitp_host_default();
    const int code = host.files.remove(NULL, path), found = check_links(f->output);
    links_found = found > links_found ? found : links_found;
    return code;
}

static int rename_with_links(void *user, const char *from, const char *to) {
    const fixture *f = (const fixture *)user;
    const eitp_host host = eitp_host_default();
    const int code = host.files.rename(NULL, from, to);
    check_links(f->output);
    return code;
}

static void links_lead_to_the_best_and_the_latest(void) {
    char target[64], expected[64];
    fixture f;
    REQUIRE(begin_fixture(&f));
    waver(&f);
    f.host.files.user = &f;
    f.host.files.remove = remove_with_links;
    f.host.files.rename = rename_with_links;
    links_found = 0;
    CHECK_THAT(!train(&f) && f.report.end == EITP_RUN_EARLY_STOP, "%s", error_.message);
    CHECK(links_found == 2 && f.w.events[EITP_EVENT_WARNING] == 0);
    for (int i = 0; i < 2; i++) {
        read_link(f.output, i ? "best_model" : "latest_model", target);
        snprintf(expected, sizeof expected, "checkpoint-%lld",
                 (long long)(i ? f.report.best_step : f.report.saved_step));
        CHECK_THAT(!strcmp(target, expected), "%s, not %s", target, expected);
    }
    CHECK(!exists(&f, ".latest_model.partial") && !exists(&f, ".best_model.partial"));
    scratch_remove(f.directory);
}

/* Dangling links of an earlier run, and links that this run does not need, are removed. */
static void links_to_nothing_are_removed(void) {
    char target[64];
    fixture f;
    REQUIRE(begin_fixture(&f));
    CHECK_THAT(!train(&f), "%s", error_.message);
    CHECK(!remove(scratch_path(f.output, "latest_model")) &&
          !symlink("checkpoint-99", scratch_path(f.output, "latest_model")) &&
          !symlink("checkpoint-98", scratch_path(f.output, "best_model")) &&
          !symlink("checkpoint-97", scratch_path(f.output, ".latest_model.partial")));
    f.config.resume = EITP_RESUME_NEWEST; /* nothing remains to be done */
    CHECK_THAT(!train(&f), "%s", error_.message);
    read_link(f.output, "latest_model", target);
    CHECK_THAT(!strcmp(target, "checkpoint-6"), "%s", target);
    read_link(f.output, "best_model", target);
    CHECK_THAT(!*target, "%s", target);
    scratch_remove(f.directory);
}

/* Refuses one link, to the last checkpoint. */
static int links_refused;
static int refuse_last_link(void *user, const char *target, const char *path) {
    const eitp_host host = eitp_host_default();
    if (!strcmp(target, "checkpoint-6") && links_refused < 2 && ++links_refused)
        return EACCES;
    return host.files.link(user, target, path);
}

/* A link that cannot be made at the last save is made when the run ends. */
static void a_late_link_is_made_at_the_end(void) {
    char target[64];
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.save_steps = 2;
    f.host.files.link = refuse_last_link;
    links_refused = 0;
    CHECK_THAT(!train(&f), "%s", error_.message);
    CHECK(links_refused == 2 && f.w.events[EITP_EVENT_WARNING] == 1);
    read_link(f.output, "latest_model", target);
    CHECK_THAT(!strcmp(target, "checkpoint-6"), "%s", target);
    scratch_remove(f.directory);
}

static int refuse_link(void *user, const char *target, const char *path) {
    (void)user;
    (void)target;
    (void)path;
    return EPERM;
}

/* On a file system without links, or if a file has the link's name, the run reports it once. */
static void a_run_needs_no_links(void) {
    for (int way = 0; way < 3; way++) {
        char text[16] = "";
        fixture f;
        REQUIRE(begin_fixture(&f));
        f.config.save_steps = 2;
        if (way < 2)
            f.host.files.link = way ? refuse_link : NULL;
        else
            CHECK(!eitp__make_directories(&f.host, f.output, NULL));
        if (way == 2)
            write_file(&f, "latest_model", "a file");
        CHECK_THAT(!train(&f) && f.w.saves == 3, "%s", error_.message);
        CHECK(f.w.events[EITP_EVENT_WARNING] == (way > 0) && exists(&f, "latest_model") == (way == 2));
        read_text(&f, "latest_model", text, sizeof text);
        CHECK_THAT(way < 2 || !strcmp(text, "a file"), "%s", text);
        scratch_remove(f.directory);
    }
}

/* ---- Files of the program ---- */

static eitp_status save_own(void *save_user, const char *directory, eitp_error *error) {
    const fixture *f = (const fixture *)save_user;
    if (f->w.refuses)
        return eitp__fail(error, f->w.refuses, "own file");
    return eitp__write_file(&f->host, scratch_path(directory, "own.txt"), "mine", 4, error);
}

/* Every checkpoint contains them; otherwise it is not written. */
static void a_program_saves_files_of_its_own(void) {
    char text[16];
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.save = save_own;
    f.config.save_user = &f;
    f.config.save_steps = 3;
    CHECK_THAT(!train(&f), "%s", error_.message);
    for (int step = 3; step <= 6; step += 3) {
        char name[64];
        snprintf(name, sizeof name, "checkpoint-%d/own.txt", step);
        read_text(&f, name, text, sizeof text);
        CHECK(!strcmp(text, "mine"));
    }
    f.config.resume = EITP_RESUME_NEWEST;
    f.config.steps = 7;
    f.config.sink_count = 0;
    f.w.refuses = EITP_ERROR_IO;
    CHECK(train(&f) == EITP_ERROR_IO && !strcmp(error_.message, "own file") && !has_checkpoint(&f, 7));
    CHECK(f.report.saved_step == 6);
    scratch_remove(f.directory);
}

/* A program that needs the checkpoint to know its settings creates the run first. */
static void a_run_can_be_configured_after_it_is_created(void) {
    eitp_run_config first;
    fixture f;
    REQUIRE(begin_fixture(&f));
    first = f.config;
    first.report_to = NULL;
    first.sink_count = 0;
    first.listener.notify = NULL;
    f.config.keep_best = "loss";
    f.config.eval_steps = 3;
    f.config.directory = "ignored";
    REQUIRE(!make_trainer(&f));
    REQUIRE_OK(eitp_run_open(&f.host, &first, &f.w.run, &error_), error_);
    CHECK(!exists(&f, "metrics.jsonl"));
    f.config.max_nonfinite = 0;
    CHECK(eitp_run_set_config(f.w.run, &f.config, &error_) == EITP_ERROR_ARGUMENT && !exists(&f, "metrics.jsonl"));
    CHECK(eitp_run_set_config(NULL, &f.config, &error_) == EITP_ERROR_ARGUMENT);
    f.config.max_nonfinite = 5;
    REQUIRE_OK(eitp_run_set_config(f.w.run, &f.config, &error_), error_);
    CHECK(exists(&f, "metrics.jsonl"));
    REQUIRE_OK(eitp_run_set_config(f.w.run, &first, &error_), error_);
    CHECK(!exists(&f, "metrics.jsonl"));
    REQUIRE_OK(eitp_run_set_config(f.w.run, &f.config, &error_), error_);
    CHECK_THAT(!eitp_run_train(f.w.run, f.trained.trainer, &f.report, &error_), "%s", error_.message);
    CHECK(f.w.records == 9 && f.report.evaluations == 3 && exists(&f, "metrics.jsonl") && exists(&f, "best.json"));
    CHECK(eitp_run_set_config(f.w.run, &f.config, &error_) == EITP_ERROR_ARGUMENT);
    eitp_run_close(f.w.run);
    end_run(&f.trained);
    scratch_remove(f.directory);
}

/* ---- The directory ---- */

/* A child process forked during the run, such as a worker, does not keep the lock. */
static void a_child_does_not_keep_the_lock(void) {
    eitp_run *run_;
    fixture f;
    int ends[2], status;
    char byte = 0;
    pid_t child;
    REQUIRE(begin_fixture(&f));
    REQUIRE(!pipe(ends));
    snprintf(f.output, sizeof f.output, "%s", f.directory); /* not removed between the runs */
    REQUIRE_OK(eitp_run_open(&f.host, &f.config, &run_, &error_), error_);
    fflush(stdout);
    child = fork();
    if (!child) {
        close(ends[1]);
        _exit(read(ends[0], &byte, 1) != 0);
    }
    eitp_run_close(run_);
    CHECK_THAT(!eitp_run_open(&f.host, &f.config, &run_, &error_), "%s", error_.message);
    eitp_run_close(run_);
    close(ends[0]);
    close(ends[1]);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    scratch_remove(f.directory);
}

static int lock_of_another(void *user, const char *path, void **lock) {
    (void)user;
    (void)path;
    (void)lock;
    return EWOULDBLOCK;
}

/* If another process locks the directory first, it is not removed. */
static void a_directory_locked_by_another_process_stays(void) {
    eitp_run *run_;
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.host.files.lock = lock_of_another;
    CHECK(eitp_run_open(&f.host, &f.config, &run_, &error_) == EITP_ERROR_ARGUMENT && exists(&f, ""));
    scratch_remove(f.directory);
}

static void a_directory_has_one_run_at_a_time(void) {
    eitp_run *first, *second = (eitp_run *)1;
    fixture f;
    int status = 1;
    pid_t child;
    REQUIRE(begin_fixture(&f));
    REQUIRE_OK(eitp_run_open(&f.host, &f.config, &first, &error_), error_);
    CHECK(eitp_run_open(&f.host, &f.config, &second, &error_) == EITP_ERROR_ARGUMENT && !second);
    CHECK_THAT(strstr(error_.message, "another process is training in"), "%s", error_.message);
    child = fork();
    if (!child)
        _exit(eitp_run_open(&f.host, &f.config, &second, &error_) == EITP_ERROR_ARGUMENT ? 0 : 1);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(exists(&f, "metrics.jsonl"));
    eitp_run_close(first);
    /* A run that did not train leaves nothing, not even directories. */
    CHECK(!exists(&f, "") && !exists(&f, ".."));
    REQUIRE_OK(eitp_run_open(&f.host, &f.config, &first, &error_), error_);
    eitp_run_close(first);
    /* Without lock functions nothing is locked. */
    f.host.files.lock = NULL;
    f.host.files.unlock = NULL;
    CHECK(!eitp_run_open(&f.host, &f.config, &first, &error_));
    CHECK(!eitp_run_open(&f.host, &f.config, &second, &error_));
    eitp_run_close(second);
    eitp_run_close(first);
    scratch_remove(f.directory);
}

/* A sink that removes the directory of the run after a step, and may create another one in its place. */
typedef struct remover {
    fixture *f;
    int64_t after;
    int replaces;
} remover;

static eitp_status remove_directory(void *user, const eitp_record *record, eitp_error *error) {
    remover *r = (remover *)user;
    (void)error;
    if (record->step != r->after || strcmp(record->values[0].name, "loss") != 0)
        return EITP_OK;
    scratch_remove(r->f->output);
    CHECK(!exists(r->f, ""));
    if (r->replaces)
        CHECK(!r->f->host.files.make_directory(r->f->host.files.user, r->f->output));
    return EITP_OK;
}

/* A run whose directory is removed or replaced continues, reports it, and has exclusive use of the directory. */
static void lose_directory(int replaces) {
    char text[8192];
    fixture f;
    eitp_run *second = NULL;
    remover r = EITP__ZERO;
    REQUIRE(begin_fixture(&f));
    r.f = &f;
    r.after = 3;
    r.replaces = replaces;
    f.sink.user = &r;
    f.sink.record = remove_directory;
    f.sink.resume = NULL;
    f.sink.sync = NULL;
    f.config.save_steps = 2;
    f.config.eval_steps = 2;
    f.config.patience = 9;
    REQUIRE(!make_trainer(&f));
    REQUIRE_OK(eitp_run_open(&f.host, &f.config, &f.w.run, &error_), error_);
    CHECK_THAT(!eitp_run_train(f.w.run, f.trained.trainer, &f.report, &error_), "%s", error_.message);
    CHECK(f.w.events[EITP_EVENT_WARNING] == 1 && f.report.steps_done == 6 && f.report.saved_step == 6);
    CHECK(!has_checkpoint(&f, 2) && has_checkpoint(&f, 4) && has_checkpoint(&f, 6) && exists(&f, "best.json"));
    f.config.resume = EITP_RESUME_NEWEST;
    CHECK(eitp_run_open(&f.host, &f.config, &second, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "another process is training"), "%s", error_.message);
    eitp_run_close(f.w.run);
    end_run(&f.trained);
    read_records(&f, text, sizeof text);
    for (int step = 4; step <= 6; step++) {
        char record[40];
        snprintf(record, sizeof record, "{\"step\": %d, \"loss\"", step);
        CHECK_THAT(count_of(text, record) == 1, "%s", text);
    }
    r.after = 0;
    f.config.steps = 7;
    CHECK_THAT(!train(&f) && f.report.start_step == 6, "%s", error_.message);
    scratch_remove(f.directory);
}

static void a_directory_that_vanishes_is_created_again(void) {
    lose_directory(0);
}

static void a_directory_that_is_replaced_is_locked_again(void) {
    lose_directory(1);
}

static void another_run_is_refused(void) {
    char first[600], checkpoint[700];
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.save_steps = 3;
    CHECK_THAT(!train(&f), "%s", error_.message);
    CHECK(train(&f) == EITP_ERROR_ARGUMENT && strstr(error_.message, "already has checkpoint-6"));
    snprintf(first, sizeof first, "%s", f.output);
    snprintf(checkpoint, sizeof checkpoint, "%s/./checkpoint-3/", first);
    f.config.resume = EITP_RESUME_NAMED;
    f.config.checkpoint = checkpoint;
    CHECK(train(&f) == EITP_ERROR_ARGUMENT && strstr(error_.message, "has checkpoint-6 of later steps"));
    /* It can be resumed in another directory. */
    snprintf(f.output, sizeof f.output, "%s/elsewhere", f.directory);
    CHECK_THAT(!train(&f) && f.report.start_step == 3 && f.report.steps_done == 6, "%s", error_.message);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-6", first);
    f.config.steps = 7;
    CHECK(train(&f) == EITP_ERROR_ARGUMENT && strstr(error_.message, "has checkpoint-6 of another run"));
    scratch_remove(f.directory);
}

/* ---- Damaged checkpoints and leftovers ---- */

static int damage(const fixture *f, const char *name) {
    FILE *file = fopen(scratch_path(f->output, name), "r+b");
    return file && !fseek(file, -3, SEEK_END) && fputc('~', file) == '~' && !fclose(file);
}

static void a_damaged_checkpoint_is_fallen_back_from(void) {
    char straight[64], again[64], checkpoint[700];
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.save_steps = 2;
    f.config.save_total_limit = 0;
    CHECK_THAT(!train(&f), "%s", error_.message);
    snprintf(straight, sizeof straight, "%a %a", f.report.step.loss, f.report.evaluation.loss);
    REQUIRE(damage(&f, "checkpoint-6/optimizer.safetensors") && damage(&f, "checkpoint-4/trainer_state.json"));
    REQUIRE(!f.host.files.make_directory(f.host.files.user, scratch_path(f.output, "checkpoint-9")));
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-4", f.output);
    f.config.resume = EITP_RESUME_NAMED;
    f.config.checkpoint = checkpoint;
    CHECK_THAT(train(&f) == EITP_ERROR_FORMAT &&
                   strstr(error_.message, "checkpoint-4/trainer_state.json' is damaged") &&
                   strstr(error_.message, "; resume from another checkpoint"),
               "%s", error_.message);
    f.config.resume = EITP_RESUME_NEWEST;
    CHECK_THAT(!train(&f), "%s", error_.message);
    CHECK(f.report.start_step == 2 && f.report.steps_done == 6 && f.report.end == EITP_RUN_FINISHED);
    snprintf(again, sizeof again, "%a %a", f.report.step.loss, f.report.evaluation.loss);
    CHECK_THAT(!strcmp(again, straight), "%s, and %s undisturbed", again, straight);
    CHECK(has_checkpoint(&f, 2) && has_checkpoint(&f, 4) && has_checkpoint(&f, 6) && !has_checkpoint(&f, 9));
    CHECK(exists(&f, "checkpoint-9.damaged") && exists(&f, "checkpoint-6.damaged") &&
          exists(&f, "checkpoint-4.damaged"));
    scratch_remove(f.directory);
}

/* Links are repaired as soon as damage is found, before a run trains: no checkpoint may be left. */
static void links_to_damaged_checkpoints_are_repaired(void) {
    static const char *const files[] = {"checkpoint-6/trainer_state.json", "checkpoint-4/model.safetensors"};
    char target[64];
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.save_steps = f.config.eval_steps = 2;
    f.config.keep_best = "loss";
    CHECK_THAT(!train(&f) && f.report.best_step == 6, "%s", error_.message);
    f.config.resume = EITP_RESUME_NEWEST;
    for (int i = 0; i < 2; i++) {
        int64_t left = -1;
        REQUIRE(damage(&f, files[i]));
        REQUIRE_OK(eitp_run_open(&f.host, &f.config, &f.w.run, &error_), error_);
        CHECK_THAT(i == 0 || eitp_run_recover(f.w.run, &error_) == EITP_ERROR_FORMAT, "%s", error_.message);
        CHECK(!eitp_checkpoint_newest(&f.host, f.output, &left, &error_) && left == (i ? -1 : 4));
        read_link(f.output, "latest_model", target);
        CHECK_THAT(!strcmp(target, i ? "" : "checkpoint-4"), "%s", target);
        read_link(f.output, "best_model", target);
        CHECK_THAT(!*target, "%s", target);
        eitp_run_close(f.w.run);
    }
    f.w.run = NULL;
    scratch_remove(f.directory);
}

/* A run does not restart from step 0 unless told to. */
static void only_damaged_checkpoints_are_refused(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.steps = 1;
    f.config.resume = EITP_RESUME_NEWEST;
    CHECK_THAT(!train(&f) && f.report.start_step == 0, "%s", error_.message);
    REQUIRE(damage(&f, "checkpoint-1/model.safetensors"));
    for (int i = 0; i < 2; i++) {
        CHECK_THAT(train(&f) == EITP_ERROR_FORMAT && strstr(error_.message, "only damaged checkpoints") &&
                       strstr(error_.message, "'checkpoint-1.damaged'"),
                   "%s", error_.message);
        CHECK(exists(&f, "checkpoint-1.damaged/model.safetensors") && exists(&f, "metrics.jsonl"));
    }
    scratch_remove(f.directory);
}

static int leave_behind(const fixture *f) {
    FILE *file;
    const eitp_files *files = &f->host.files;
    if (files->make_directory(files->user, scratch_path(f->output, ".checkpoint-5.partial")))
        return 0;
    file = fopen(scratch_path(f->output, ".checkpoint-5.partial/x"), "w");
    if (!file || fclose(file))
        return 0;
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"best.json.tmp", ".eitp.partial", "notes.tmp"};
        file = fopen(scratch_path(f->output, names[i]), "w");
        if (!file || fclose(file))
            return 0;
    }
    return 1;
}

static int has_leftovers(const fixture *f) {
    return exists(f, ".checkpoint-5.partial") || exists(f, "best.json.tmp") || exists(f, ".eitp.partial");
}

static void leftovers_are_removed_at_the_start_and_the_end(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.steps = 1;
    f.config.resume = EITP_RESUME_NEWEST;
    CHECK_THAT(!train(&f), "%s", error_.message);
    REQUIRE(leave_behind(&f) && has_leftovers(&f));
    REQUIRE_OK(eitp_run_open(&f.host, &f.config, &f.w.run, &error_), error_);
    CHECK(!has_leftovers(&f) && exists(&f, "notes.tmp"));
    REQUIRE(!make_trainer(&f) && !remove(scratch_path(f.output, "notes.tmp")) && leave_behind(&f));
    REQUIRE_OK(eitp_run_train(f.w.run, f.trained.trainer, &f.report, &error_), error_);
    eitp_run_close(f.w.run);
    f.w.run = NULL;
    end_run(&f.trained);
    CHECK(!has_leftovers(&f) && exists(&f, "notes.tmp"));
    scratch_remove(f.directory);
}

static int64_t reads; /* bytes */

static int read_counted(void *user, void *file, uint64_t offset, void *data, size_t size, size_t *done) {
    const eitp_host host = eitp_host_default();
    int code = host.files.read(user, file, offset, data, size, done);
    reads += code ? 0 : (int64_t)*done;
    return code;
}

/* Tensors are verified while they are loaded. */
static void a_resume_reads_the_tensors_once(void) {
    int64_t size = 0;
    eitp_path_info info;
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.steps = 1;
    CHECK_THAT(!train(&f), "%s", error_.message);
    for (int i = 0; i < 2; i++) {
        static const char *const names[] = {"checkpoint-1/model.safetensors", "checkpoint-1/optimizer.safetensors"};
        REQUIRE(!eitp__path_info(&f.host, scratch_path(f.output, names[i]), &info, NULL));
        size += (int64_t)info.size;
    }
    f.host.files.read = read_counted;
    f.config.resume = EITP_RESUME_NEWEST;
    REQUIRE(!make_trainer(&f));
    reads = 0;
    REQUIRE_OK(eitp_run_open(&f.host, &f.config, &f.w.run, &error_), error_);
    CHECK_THAT(reads < size / 10, "%lld of %lld bytes", (long long)reads, (long long)size);
    REQUIRE_OK(eitp_run_resume_trainer(f.w.run, f.trained.trainer, &error_), error_);
    CHECK_THAT(reads >= size && reads < size + size / 10, "%lld of %lld bytes", (long long)reads, (long long)size);
    CHECK(eitp_trainer_steps_done(f.trained.trainer) == 1);
    eitp_run_close(f.w.run);
    f.w.run = NULL;
    end_run(&f.trained);
    scratch_remove(f.directory);
}

/* ---- Memory and numbers ---- */

/* The system's files, with a /proc that reports short memory. */
static int short_open(void *user, const char *path, eitp_file_mode mode, void **file) {
    const fixture *f = (const fixture *)user;
    const eitp_host host = eitp_host_default();
    if (!strcmp(path, "/proc/meminfo"))
        path = scratch_path(f->directory, "meminfo");
    else if (!strcmp(path, "/proc/self/cgroup"))
        return ENOENT;
    return host.files.open(NULL, path, mode, file);
}

static int begin_short(fixture *f) {
    FILE *file;
    if (!begin_fixture(f))
        return 0;
    file = fopen(scratch_path(f->directory, "meminfo"), "wb");
    if (!file)
        return 0;
    fputs("MemTotal: 8000000 kB\nMemAvailable: 1000 kB\n", file);
    fclose(file);
    f->host.files.user = f;
    f->host.files.open = short_open;
    f->config.memory_check_seconds = 0;
    return 1;
}

static void short_memory_is_reported_once(void) {
    char text[8192];
    fixture f;
    REQUIRE(begin_short(&f));
    CHECK_THAT(!train(&f), "%s", error_.message);
    CHECK(f.w.events[EITP_EVENT_MEMORY_SHORT] == 1 && f.report.end == EITP_RUN_FINISHED);
    CHECK(f.report.memory.left == 1000 * 1024 && !strcmp(f.report.memory.source, "MemAvailable"));
    read_records(&f, text, sizeof text);
    CHECK(!strncmp(text, "{\"step\": 0, \"event\": \"memory_pressure\", \"left_bytes\": 1024000, ", 62));
    scratch_remove(f.directory);
}

static void a_run_that_cannot_shrink_stops(void) {
    char text[8192];
    fixture f;
    REQUIRE(begin_short(&f));
    f.config.steps = 100;
    f.config.auto_shrink = 1;
    CHECK(train(&f) == EITP_ERROR_PRESSURE && strstr(error_.message, "memory stays short: 1.0 MB left"));
    CHECK(f.report.end == EITP_RUN_MEMORY_PRESSURE && f.report.saved_step == f.report.steps_done &&
          has_checkpoint(&f, f.report.steps_done));
    CHECK(f.w.events[EITP_EVENT_NOT_SHRUNK] == 1 && f.w.events[EITP_EVENT_MEMORY_SHORT] > 1);
    read_records(&f, text, sizeof text);
    CHECK(count_of(text, "\"shrunk\": true, ") > 0);
    scratch_remove(f.directory);
}

/* ---- Errors ---- */

static void invalid_configurations_are_refused(void) {
    fixture f;
    eitp_run *made;
    REQUIRE(begin_fixture(&f));
    CHECK(eitp_run_open(NULL, &f.config, &made, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_run_train(NULL, NULL, NULL, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(!eitp_run_checkpoint(NULL));
    eitp_run_close(NULL);
    eitp_record_file_close(NULL);
    f.config.resume = EITP_RESUME_NAMED;
    CHECK(eitp_run_open(&f.host, &f.config, &made, &error_) == EITP_ERROR_ARGUMENT);
    f.config.resume = EITP_RESUME_NONE;
    f.config.max_nonfinite = 0;
    CHECK(eitp_run_open(&f.host, &f.config, &made, &error_) == EITP_ERROR_ARGUMENT);
    f.config.max_nonfinite = 1;
    f.config.patience = 1;
    CHECK(train(&f) == EITP_ERROR_ARGUMENT && strstr(error_.message, "eval_steps"));
    f.config.patience = 0;
    f.rate = 0.01;
    f.has_plateau = 1;
    CHECK(train(&f) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(
        !strcmp(error_.message, "EITP_SCHEDULE_PLATEAU needs evaluations between steps; set eval_steps or eval_epochs"),
        "%s", error_.message);
    f.has_plateau = 0;
    f.config.eval_steps = 1;
    f.config.keep_best = "beauty";
    CHECK(train(&f) == EITP_ERROR_ARGUMENT && strstr(error_.message, "unknown metric 'beauty'"));
    scratch_remove(f.directory);
}

static void negative_steps_are_refused(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.w.exit_saved = -1;
    REQUIRE_OK(make_trainer(&f), error_);
    f.config.steps = -1;
    CHECK(eitp_run_open(&f.host, &f.config, &f.w.run, &error_) == EITP_ERROR_ARGUMENT);
    f.config.steps = 1;
    REQUIRE_OK(eitp_run_open(&f.host, &f.config, &f.w.run, &error_), error_);
    f.config.steps = -1;
    CHECK(eitp_run_set_config(f.w.run, &f.config, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "steps"), "%s", error_.message);
    CHECK(eitp_run_train(f.w.run, f.trained.trainer, NULL, &error_) == EITP_OK);
    CHECK(eitp_trainer_steps_done(f.trained.trainer) == 1);
    eitp_run_close(f.w.run);
    end_run(&f.trained);
    scratch_remove(f.directory);
}

static void each_allocation_and_file_call_may_fail(void) {
    fixture f;
    faults faults_;
    REQUIRE(begin_fixture(&f));
    for (int kind = 0; kind < 2; kind++) {
        for (long n = 1;; n++) {
            eitp_run *made = NULL;
            eitp_status status;
            faults_begin(&faults_);
            faults_.fail_allocation = kind ? 0 : n;
            faults_.fail_file_call = kind ? n : 0;
            memset(&error_, 0, sizeof error_);
            status = eitp_run_open(&faults_.host, &f.config, &made, &error_);
            CHECK(!status == (made != NULL) && (!status || error_.message[0]));
            eitp_run_close(made);
            if (!faults_end(&faults_))
                break;
        }
    }
    scratch_remove(f.directory);
}

/* Regardless of which call of the run fails, nothing leaks, and the resumed run ends as if nothing had failed. */
static void a_failure_while_training_loses_nothing(void) {
    double undisturbed = 0;
    for (int kind = 0; kind < 2; kind++) {
        for (long n = 0;; n += n ? test_stride(1, 7) : 1) {
            faults faults_;
            fixture f;
            eitp_status status;
            int more;
            REQUIRE(begin_fixture(&f));
            f.config.steps = 2;
            f.config.eval_steps = 1;
            f.config.keep_best = "loss";
            faults_begin(&faults_);
            REQUIRE(!make_trainer(&f));
            REQUIRE_OK(eitp_run_open(&faults_.host, &f.config, &f.w.run, &error_), error_);
            faults_.fail_allocation = kind || !n ? 0 : faults_.allocations + n;
            faults_.fail_file_call = kind && n ? faults_.file_calls + n : 0;
            status = eitp_run_train(f.w.run, f.trained.trainer, &f.report, &error_);
            eitp_run_close(f.w.run);
            end_run(&f.trained);
            more = faults_end(&faults_) || !n;
            CHECK(status == EITP_OK || f.report.end == EITP_RUN_FAILED);
            f.config.resume = EITP_RESUME_NEWEST;
            f.config.eval_steps = 2;
            if (n && status)
                CHECK_THAT(!train(&f), "%ld: %s", n, error_.message);
            if (!n)
                undisturbed = f.report.evaluation.loss;
            else if (f.report.evaluations)
                CHECK(f.report.evaluation.loss <= undisturbed && f.report.evaluation.loss >= undisturbed);
            scratch_remove(f.directory);
            if (!more)
                break;
        }
    }
}

static const test_case tests[] = {
    TEST(records_go_to_every_sink),
    TEST(a_failing_sink_ends_nothing),
    TEST(other_sinks_receive_what_one_refuses),
    TEST(metrics_are_written_later),
    TEST(the_sink_of_null_is_refused),
    TEST(requests_accept_null),
    TEST(a_finished_run_is_pruned_by_a_resume),
    TEST(a_finished_run_keeps_its_best),
    TEST(stop_saves_and_resume_continues),
    TEST(save_request_saves_and_continues),
    TEST(save_seconds_saves_after_slow_steps),
    TEST(epochs_set_when_to_evaluate_and_save),
    TEST(without_steps_a_run_ends_with_the_data),
    TEST(best_of_values),
    TEST(a_lost_best_is_not_the_best),
    TEST(best_of_an_edited_file),
    TEST(best_forgets_the_oldest_evaluations_only),
    TEST(the_best_is_kept_and_patience_stops),
    TEST(patience_survives_kills),
    TEST(a_plateau_survives_kills),
    TEST(a_plateau_repeats_an_evaluation_that_the_checkpoint_lacks),
    TEST(a_kill_right_after_saving_the_best),
    TEST(evaluations_are_copied_to_another_directory),
    TEST(a_better_evaluation_is_saved_at_once),
    TEST(a_new_run_ignores_an_older_best),
    TEST(a_best_json_that_cannot_be_written_is_said_once),
    TEST(evaluations_of_earlier_checkpoints_are_in_best_json),
    TEST(a_lost_best_json_changes_nothing),
    TEST(a_program_keeps_a_checkpoint_for_a_while),
    TEST(a_checkpoint_kept_until_after_the_run_is_removed),
    TEST(links_lead_to_the_best_and_the_latest),
    TEST(links_to_nothing_are_removed),
    TEST(links_to_damaged_checkpoints_are_repaired),
    TEST(a_late_link_is_made_at_the_end),
    TEST(a_run_needs_no_links),
    TEST(a_program_saves_files_of_its_own),
    TEST(a_run_can_be_configured_after_it_is_created),
    TEST(a_child_does_not_keep_the_lock),
    TEST(a_directory_locked_by_another_process_stays),
    TEST(a_directory_has_one_run_at_a_time),
    TEST(a_directory_that_vanishes_is_created_again),
    TEST(a_directory_that_is_replaced_is_locked_again),
    TEST(another_run_is_refused),
    TEST(a_damaged_checkpoint_is_fallen_back_from),
    TEST(only_damaged_checkpoints_are_refused),
    TEST(leftovers_are_removed_at_the_start_and_the_end),
    TEST(a_resume_reads_the_tensors_once),
    TEST(short_memory_is_reported_once),
    TEST(a_run_that_cannot_shrink_stops),
    TEST(invalid_configurations_are_refused),
    TEST(negative_steps_are_refused),
    TEST(each_allocation_and_file_call_may_fail),
    TEST(a_failure_while_training_loses_nothing),
};

int main(int argc, char **argv) {
    return RUN_TESTS(tests, argc, argv);
}
