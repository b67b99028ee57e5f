/* Runs: records, requests to stop and save, pruning, best checkpoint, early stopping, memory, errors. */
#include "tests/trainer_run.h"

#include <sys/wait.h>
#include <unistd.h>

/* The events and records of a run, and the requests made while it trains. */
typedef struct watcher {
    eitp_run *run;
    int64_t stop_after, save_after, exit_after, exit_saved; /* steps; 0: never */
    int events[16];                                         /* of each kind */
    int64_t saved[32];
    int saves;
    int64_t recorded[64];
    char first_names[64][24];
    int records, syncs;
    int64_t resumed;
    eitp_status refuses; /* what the sink returns */
} watcher;

static void notice(void *user, const eitp_run_event *event) {
    watcher *w = (watcher *)user;
    w->events[event->kind]++;
    CHECK(event->message[0] && event->report);
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
    double rate; /* 0: the default */
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
    r->config.max_grad_norm = 0;
    return eitp_trainer_create(&r->task, &r->config, &r->trainer, &error_);
}

/* Creates the run, trains, and destroys everything; sets f->report. */
static eitp_status train(fixture *f) {
    eitp_status status = make_trainer(f);
    if (!status)
        status = eitp_run_create(&f->host, &f->config, &f->w.run, &error_);
    if (!status)
        status = eitp_run_train(f->w.run, f->trained.trainer, &f->report, &error_);
    eitp_run_destroy(f->w.run);
    f->w.run = NULL;
    end_run(&f->trained);
    return status;
}

/* The same in a process that exits, as if killed, after a step or its checkpoint. */
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
    read_text(&f, "metrics.jsonl", text, sizeof text);
    CHECK(count_of(text, "\n") == 7 && count_of(text, "\"applied\": true}\n") == 4);
    CHECK(!strncmp(text, "{\"step\": 0, \"val_loss\": ", 23));
    CHECK(f.report.end == EITP_RUN_FINISHED && f.report.steps_done == 4 && f.report.saved_step == 4 &&
          f.report.evaluations == 3);
    CHECK(f.report.items == 4 * 4 * 32 && f.report.evaluated_step == 4);
    scratch_remove(f.directory);
}

static void a_failing_sink_ends_the_run(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.w.refuses = EITP_ERROR_IO;
    CHECK(train(&f) == EITP_ERROR_IO && strstr(error_.message, "the sink is full"));
    CHECK(f.report.end == EITP_RUN_FAILED);
    scratch_remove(f.directory);
}

static eitp_status refuse_step_2(void *user, const eitp_record *record, eitp_error *error) {
    const char *refused = (const char *)user;
    return record->step == 2 && !strcmp(record->values[0].name, refused)
               ? eitp__fail(error, EITP_ERROR_IO, "the sink is full")
               : EITP_OK;
}

/* A record that one sink refuses reaches the others and best.json; the checkpoint left behind is of that step. */
static void other_sinks_receive_what_one_refuses(void) {
    char step[] = "loss", evaluation[] = "val_loss", text[4096];
    for (int i = 0; i < 2; i++) {
        fixture f;
        REQUIRE(begin_fixture(&f));
        f.sink.user = i ? evaluation : step;
        f.sink.record = refuse_step_2;
        f.sink.resume = NULL;
        f.sink.sync = NULL;
        f.config.eval_steps = 2;
        f.config.keep_best = "loss";
        CHECK(train(&f) == EITP_ERROR_IO && f.report.saved_step == 2);
        read_text(&f, "metrics.jsonl", text, sizeof text);
        CHECK_THAT(count_of(text, "\"loss\": ") == 2 && count_of(text, "\"val_loss\": ") == 1 + i, "%s", text);
        if (i)
            read_text(&f, "best.json", text, sizeof text);
        CHECK_THAT(!i || strstr(text, "\n{\"step\": 2, "), "%s", text);
        scratch_remove(f.directory);
    }
}

static void jsonl_values_and_truncation(void) {
    static const char *const kept = "{\"step\": 1, \"a\": 0.5, \"b\": -3, \"c\": true, \"d\": \"x\\\"y\"}\n"
                                    "{\"step\": 2, \"val_a\": null}\n";
    const eitp_value values[] = {{"a", EITP_VALUE_NUMBER, 0.5, 0, NULL},
                                 {"b", EITP_VALUE_INTEGER, 0, -3, NULL},
                                 {"c", EITP_VALUE_BOOLEAN, 0, 1, NULL},
                                 {"d", EITP_VALUE_TEXT, 0, 0, "x\"y"}};
    const eitp_value last = {"val_a", EITP_VALUE_NUMBER, (double)NAN, 0, NULL};
    const eitp_record records[] = {{1, values, 4}, {2, &last, 1}, {3, values, 1}};
    char text[2000];
    fixture f;
    eitp_jsonl *jsonl;
    int evaluated = 0;
    REQUIRE(begin_fixture(&f));
    snprintf(f.output, sizeof f.output, "%s", f.directory);
    for (int round = 0; round < 2; round++) {
        eitp_record_sink sink;
        REQUIRE_OK(eitp_jsonl_create(&f.host, scratch_path(f.directory, "j"), &jsonl, &error_), error_);
        sink = eitp_jsonl_sink(jsonl);
        if (round)
            CHECK(!sink.resume(sink.user, 2, &evaluated, &error_) && evaluated);
        for (int i = 0; i < 3 && !round; i++)
            CHECK(!sink.record(sink.user, &records[i], &error_));
        CHECK(!sink.sync(sink.user, &error_));
        eitp_jsonl_destroy(jsonl);
        read_text(&f, "j", text, sizeof text);
        CHECK_THAT(!strncmp(text, kept, strlen(kept)), "%s", text);
        CHECK((strlen(text) == strlen(kept)) == (round == 1));
    }
    scratch_remove(f.directory);
}

static int refused_writes; /* number of writes that fail */

static int write_later(void *user, void *file, uint64_t offset, const void *data, size_t size, size_t *done) {
    const eitp_host host = eitp_host_default();
    (void)user;
    if (refused_writes <= 0)
        return host.files.write(NULL, file, offset, data, size, done);
    refused_writes--;
    return ENOSPC;
}

static void the_sink_of_null_is_refused(void) {
    const eitp_host host = eitp_host_default();
    const eitp_record_sink sink = eitp_jsonl_sink(NULL);
    eitp_run_config config = eitp_run_config_default();
    eitp_run *made = (eitp_run *)&config;
    config.sinks = &sink;
    config.sink_count = 1;
    CHECK(eitp_run_create(&host, &config, &made, &error_) == EITP_ERROR_ARGUMENT && !made);
    CHECK_THAT(strstr(error_.message, "record function"), "%s", error_.message);
}

/* A record that could not be written is written with the next one: no checkpoint is saved without it. */
static void jsonl_keeps_what_it_could_not_write(void) {
    const eitp_value value = {"a", EITP_VALUE_INTEGER, 0, 7, NULL};
    const eitp_record record = {1, &value, 1};
    eitp_record_sink sink;
    char text[200];
    fixture f;
    eitp_jsonl *jsonl;
    REQUIRE(begin_fixture(&f));
    snprintf(f.output, sizeof f.output, "%s", f.directory);
    f.host.files.write = write_later;
    REQUIRE_OK(eitp_jsonl_create(&f.host, scratch_path(f.directory, "j"), &jsonl, &error_), error_);
    sink = eitp_jsonl_sink(jsonl);
    refused_writes = 2;
    CHECK(sink.record(sink.user, &record, &error_) == EITP_ERROR_IO);
    CHECK(sink.sync(sink.user, &error_) == EITP_ERROR_IO);
    CHECK(!sink.sync(sink.user, &error_));
    eitp_jsonl_destroy(jsonl);
    read_text(&f, "j", text, sizeof text);
    CHECK_THAT(!strcmp(text, "{\"step\": 1, \"a\": 7}\n"), "%s", text);
    scratch_remove(f.directory);
}

/* ---- Requests ---- */

/* A signal handler may be called before the run is created. */
static void requests_accept_null(void) {
    eitp_run_request_stop(NULL, 1);
    eitp_run_request_save(NULL);
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
    read_text(&f, "metrics.jsonl", straight, sizeof straight);
    CHECK(count_of(straight, "\"loss\": ") == 6 && count_of(straight, "\"val_loss\": ") == 1);
    /* Run again: nothing to do. */
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

/* Steps in which an epoch ends, or a part of one. */
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
    REQUIRE_OK(eitp_run_create(&f.host, &f.config, &f.w.run, &error_), error_);
    CHECK_THAT(!eitp_run_train(f.w.run, f.trained.trainer, &f.report, &error_), "%s", error_.message);
    CHECK(f.report.end == EITP_RUN_END_OF_DATA && f.report.steps_done == 3 && f.report.steps == 3 &&
          f.report.saved_step == 3);
    CHECK(f.report.evaluated_step == 3 && f.w.events[EITP_EVENT_END_OF_DATA] == 1);
    CHECK(eitp_run_train(f.w.run, f.trained.trainer, NULL, &error_) == EITP_ERROR_ARGUMENT);
    eitp_run_destroy(f.w.run);
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
    CHECK(!eitp__best_write(&best, &host, directory, "loss", &error_));
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

/* Values in best.json that no run writes: refused, or counting continues. */
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

static void the_best_is_kept_and_patience_stops(void) {
    char text[4096], expected[64];
    fixture f;
    int64_t end;
    REQUIRE(begin_fixture(&f));
    waver(&f);
    CHECK_THAT(!train(&f), "%s", error_.message);
    end = f.report.steps_done;
    CHECK(f.report.end == EITP_RUN_EARLY_STOP && end < 30 && f.w.events[EITP_EVENT_EARLY_STOP] == 1);
    CHECK(f.report.best_step > 0 && end == f.report.best_step + 3 * 2 && f.report.saved_step == end);
    CHECK(has_checkpoint(&f, f.report.best_step) && has_checkpoint(&f, end) && !has_checkpoint(&f, end - 1));
    read_text(&f, "best.json", text, sizeof text);
    snprintf(expected, sizeof expected, "\"best\": {\"step\": %lld, ", (long long)f.report.best_step);
    CHECK_THAT(strstr(text, expected), "%s", text);
    /* A run that has stopped early stops again when resumed. */
    f.config.resume = EITP_RESUME_NEWEST;
    CHECK(!train(&f) && f.report.end == EITP_RUN_EARLY_STOP && f.report.steps_done == end && f.report.step.step == 0);
    scratch_remove(f.directory);
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
    read_text(&f, "metrics.jsonl", straight, sizeof straight);
    read_text(&g, "metrics.jsonl", killed, sizeof killed);
    CHECK(count_of(straight, "\"val_loss\": ") == count_of(killed, "\"val_loss\": "));
    CHECK(count_of(straight, "\n") == count_of(killed, "\n"));
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

/* A run resumed in another directory copies the evaluations before its own first one. */
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
    CHECK_THAT(count_of(text, "\n{\"step\": ") == 1 && strstr(text, "\"best\": {\"step\": 3, "), "%s", text);
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

/* A new run in the directory of an older one, whose checkpoints were removed, ignores what is left of it. */
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

/* The checkpoint of a failed run has no evaluation that best.json lacks. */
static void a_checkpoint_is_written_after_best_json(void) {
    char text[4096];
    for (int refused = 1; refused <= 2; refused++) {
        fixture f;
        REQUIRE(begin_fixture(&f));
        f.config.eval_steps = 2;
        f.config.keep_best = "loss";
        f.host.files.open = open_without_best;
        refused_bests = refused;
        CHECK(train(&f) == EITP_ERROR_IO && f.report.steps_done == 2);
        CHECK(has_checkpoint(&f, 2) == (refused == 1) && exists(&f, "best.json") == (refused == 1));
        refused_bests = 0;
        f.config.resume = EITP_RESUME_NEWEST;
        f.w.stop_after = 3;
        CHECK_THAT(!train(&f), "%s", error_.message);
        read_text(&f, "best.json", text, sizeof text);
        CHECK_THAT(strstr(text, "\n{\"step\": 2, ") && f.report.best_step == 2, "%s", text);
        scratch_remove(f.directory);
    }
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
    REQUIRE_OK(eitp_run_create(&f.host, &f.config, &run_, &error_), error_);
    fflush(stdout);
    child = fork();
    if (!child) {
        close(ends[1]);
        _exit(read(ends[0], &byte, 1) != 0);
    }
    eitp_run_destroy(run_);
    CHECK_THAT(!eitp_run_create(&f.host, &f.config, &run_, &error_), "%s", error_.message);
    eitp_run_destroy(run_);
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
    CHECK(eitp_run_create(&f.host, &f.config, &run_, &error_) == EITP_ERROR_ARGUMENT && exists(&f, ""));
    scratch_remove(f.directory);
}

static void a_directory_has_one_run_at_a_time(void) {
    eitp_run *first, *second = (eitp_run *)1;
    fixture f;
    int status = 1;
    pid_t child;
    REQUIRE(begin_fixture(&f));
    REQUIRE_OK(eitp_run_create(&f.host, &f.config, &first, &error_), error_);
    CHECK(eitp_run_create(&f.host, &f.config, &second, &error_) == EITP_ERROR_ARGUMENT && !second);
    CHECK_THAT(strstr(error_.message, "another process is training in"), "%s", error_.message);
    child = fork();
    if (!child)
        _exit(eitp_run_create(&f.host, &f.config, &second, &error_) == EITP_ERROR_ARGUMENT ? 0 : 1);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(exists(&f, "metrics.jsonl"));
    eitp_run_destroy(first);
    /* A run that did not train leaves nothing, not even directories. */
    CHECK(!exists(&f, "") && !exists(&f, ".."));
    REQUIRE_OK(eitp_run_create(&f.host, &f.config, &first, &error_), error_);
    eitp_run_destroy(first);
    /* Without lock functions nothing is locked. */
    f.host.files.lock = NULL;
    f.host.files.unlock = NULL;
    CHECK(!eitp_run_create(&f.host, &f.config, &first, &error_));
    CHECK(!eitp_run_create(&f.host, &f.config, &second, &error_));
    eitp_run_destroy(second);
    eitp_run_destroy(first);
    scratch_remove(f.directory);
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
    /* In another directory it can be resumed. */
    snprintf(f.output, sizeof f.output, "%s/elsewhere", f.directory);
    CHECK_THAT(!train(&f) && f.report.start_step == 3 && f.report.steps_done == 6, "%s", error_.message);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-6", first);
    f.config.steps = 7;
    CHECK(train(&f) == EITP_ERROR_ARGUMENT && strstr(error_.message, "has checkpoint-6 of another run"));
    scratch_remove(f.directory);
}

/* ---- Memory and numbers ---- */

/* The system's files, except that /proc reports short memory. */
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
    read_text(&f, "metrics.jsonl", text, sizeof text);
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
    read_text(&f, "metrics.jsonl", text, sizeof text);
    CHECK(count_of(text, "\"shrunk\": true}") == f.w.events[EITP_EVENT_MEMORY_SHORT] - 1);
    scratch_remove(f.directory);
}

/* ---- Errors ---- */

static void invalid_configurations_are_refused(void) {
    fixture f;
    eitp_run *made;
    REQUIRE(begin_fixture(&f));
    CHECK(eitp_run_create(NULL, &f.config, &made, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_run_train(NULL, NULL, NULL, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(!eitp_run_checkpoint(NULL));
    eitp_run_destroy(NULL);
    eitp_jsonl_destroy(NULL);
    f.config.resume = EITP_RESUME_NAMED;
    CHECK(eitp_run_create(&f.host, &f.config, &made, &error_) == EITP_ERROR_ARGUMENT);
    f.config.resume = EITP_RESUME_NONE;
    f.config.max_nonfinite = 0;
    CHECK(eitp_run_create(&f.host, &f.config, &made, &error_) == EITP_ERROR_ARGUMENT);
    f.config.max_nonfinite = 1;
    f.config.patience = 1;
    CHECK(train(&f) == EITP_ERROR_ARGUMENT && strstr(error_.message, "eval_steps"));
    f.config.patience = 0;
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
    REQUIRE_OK(eitp_run_create(&f.host, &f.config, &f.w.run, &error_), error_);
    eitp_run_set_steps(f.w.run, -1);
    CHECK(eitp_run_train(f.w.run, f.trained.trainer, NULL, &error_) == EITP_ERROR_ARGUMENT);
    eitp_run_set_steps(f.w.run, 1);
    CHECK(eitp_run_train(f.w.run, f.trained.trainer, NULL, &error_) == EITP_OK);
    eitp_run_destroy(f.w.run);
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
            status = eitp_run_create(&faults_.host, &f.config, &made, &error_);
            CHECK(!status == (made != NULL) && (!status || error_.message[0]));
            eitp_run_destroy(made);
            if (!faults_end(&faults_))
                break;
        }
    }
    scratch_remove(f.directory);
}

/* Whatever fails in the run itself, nothing leaks, and the resumed run ends as if nothing had failed. */
static void a_failure_while_training_loses_nothing(void) {
    double undisturbed = 0;
    for (int kind = 0; kind < 2; kind++) {
        for (long n = 0;; n++) {
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
            REQUIRE_OK(eitp_run_create(&faults_.host, &f.config, &f.w.run, &error_), error_);
            faults_.fail_allocation = kind || !n ? 0 : faults_.allocations + n;
            faults_.fail_file_call = kind && n ? faults_.file_calls + n : 0;
            status = eitp_run_train(f.w.run, f.trained.trainer, &f.report, &error_);
            eitp_run_destroy(f.w.run);
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
    TEST(a_failing_sink_ends_the_run),
    TEST(other_sinks_receive_what_one_refuses),
    TEST(jsonl_values_and_truncation),
    TEST(the_sink_of_null_is_refused),
    TEST(jsonl_keeps_what_it_could_not_write),
    TEST(requests_accept_null),
    TEST(stop_saves_and_resume_continues),
    TEST(save_request_saves_and_continues),
    TEST(save_seconds_saves_after_slow_steps),
    TEST(epochs_set_when_to_evaluate_and_save),
    TEST(without_steps_a_run_ends_with_the_data),
    TEST(best_of_values),
    TEST(best_of_an_edited_file),
    TEST(best_forgets_the_oldest_evaluations_only),
    TEST(the_best_is_kept_and_patience_stops),
    TEST(patience_survives_kills),
    TEST(a_kill_right_after_saving_the_best),
    TEST(evaluations_are_copied_to_another_directory),
    TEST(a_better_evaluation_is_saved_at_once),
    TEST(a_new_run_ignores_an_older_best),
    TEST(a_checkpoint_is_written_after_best_json),
    TEST(a_child_does_not_keep_the_lock),
    TEST(a_directory_locked_by_another_process_stays),
    TEST(a_directory_has_one_run_at_a_time),
    TEST(another_run_is_refused),
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
