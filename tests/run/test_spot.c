/* Spot evaluations: what they record, that training does not depend on them, and that runs that are stopped, killed or
   short of memory have the same ones. */
#include "tests/support/own_task.h"

enum { STEPS = 24, EVERY = 2, EVAL_STEPS = 6, SPOT = 3, UNITS = 8, MOST = 64 };

/* A record of an evaluation or a spot evaluation. */
typedef struct kept {
    int is_spot;
    int64_t step;
    double loss, error, active, samples, seconds;
    size_t count; /* number of values */
} kept;

typedef struct fixture {
    own o;
    eitp_task_metric metrics[2];
    char directory[512];
    eitp_run_config config;
    eitp_record_sink sink;
    eitp_run *run;
    eitp_run_report report;
    kept kept[MOST];
    size_t count;
    double step_seconds;  /* of the last step */
    int64_t collapses_at; /* active units before this step; 0: all of them */
    int64_t stops_at;     /* a stop is requested during the spot evaluation of this step; 0: none */
    int64_t drops_at;     /* memory runs short and drops the spot evaluation of this step once; 0: none */
    int drops;            /* drop it now */
    int warnings, alarms;
    int64_t alarm_step;
    char message[400]; /* of the last warning */
    int described;
} fixture;

static fixture *fixture_; /* of the task's functions */

static eitp_status read_sample(void *user, eitp_split split, uint64_t number, eitp_sample *sample, eitp_error *why) {
    fixture *f = fixture_;
    const int64_t done = f->o.trainer ? eitp_trainer_steps_done(f->o.trainer) : 0;
    if (split == EITP_VALIDATION && done && done == f->stops_at)
        eitp_run_request_stop(f->run, 1);
    if (split == EITP_VALIDATION && done && done == f->drops_at)
        f->drops = 1;
    return own_read(user, split, number, sample, why);
}

/* The memory needed for the outcomes of the samples. */
static size_t outcome_bytes(void *user, uint64_t samples) {
    (void)user;
    return (size_t)samples * sizeof(double);
}

static void observe_sample(void *user, void *memory, const eitp_observation *observation) {
    (void)user;
    ((double *)memory)[observation->index] = (double)observation->samples;
}

static void judge_samples(void *user, void *memory, eitp_metric *results) {
    const fixture *f = fixture_;
    const int is_active = !f->collapses_at || eitp_trainer_steps_done(f->o.trainer) < f->collapses_at;
    (void)user;
    results[0].mean = is_active ? 6 : 0;
    results[0].error = 0;
    results[0].items = UNITS;
    results[1].mean = is_active ? 3 : 0.01;
    results[1].error = ((const double *)memory)[0];
}

static const char *describe_evaluation(void *user) {
    (void)user;
    fixture_->described++;
    return "{\"words\": 1}";
}

static double value_of(const eitp_record *record, const char *name) {
    for (size_t i = 0; i < record->count; i++) {
        const eitp_value *value = &record->values[i];
        if (!strcmp(value->name, name))
            return value->kind == EITP_VALUE_NUMBER ? value->number : (double)value->integer;
    }
    return (double)NAN;
}

static eitp_status keep_record(void *user, const eitp_record *record, eitp_error *why) {
    fixture *f = (fixture *)user;
    const int is_spot = record->kind == EITP_RECORD_SPOT;
    kept *k = &f->kept[f->count];
    (void)why;
    if (record->kind == EITP_RECORD_STEP)
        f->step_seconds = value_of(record, "step_time_s");
    if ((!is_spot && record->kind != EITP_RECORD_EVALUATION) || f->count == MOST)
        return EITP_OK;
    f->count++;
    k->is_spot = is_spot;
    k->step = record->step;
    k->loss = value_of(record, is_spot ? "spot/loss" : "val_loss");
    k->error = value_of(record, is_spot ? "spot/loss_error" : "val_loss_error");
    k->active = value_of(record, is_spot ? "spot/active_units" : "val_active_units");
    k->samples = value_of(record, is_spot ? "spot/kl_error" : "val_kl_error");
    CHECK(!is_spot || value_of(record, "spot/samples") <= OWN_VALIDATION);
    k->seconds = value_of(record, is_spot ? "spot/time_s" : "val_time_s");
    k->count = record->count;
    CHECK(!is_spot || memcmp(&k->seconds, &f->step_seconds, sizeof k->seconds));
    return EITP_OK;
}

static void notice(void *user, const eitp_run_event *event) {
    fixture *f = (fixture *)user;
    if (event->kind == EITP_EVENT_STEP && event->report->evaluations) /* it covers all samples */
        CHECK(event->report->evaluation.metrics[3].error >= OWN_VALIDATION || f->config.eval_samples);
    if (event->kind == EITP_EVENT_ALARM) {
        f->alarms++;
        f->alarm_step = event->report->steps_done;
    } else if (event->level >= EITP_LOG_WARNING) {
        f->warnings++;
        snprintf(f->message, sizeof f->message, "%s", event->message);
    }
}

static int begin(fixture *f) {
    memset(f, 0, sizeof *f);
    if (!scratch_make(f->directory))
        return 0;
    f->config = eitp_run_config_default();
    f->config.directory = f->directory;
    f->config.resume = EITP_RESUME_NEWEST;
    f->config.steps = STEPS;
    f->config.eval_steps = EVAL_STEPS;
    f->config.log_full_every = EVERY;
    f->config.save_steps = 4;
    f->config.save_total_limit = 0;
    f->config.spot_samples = SPOT;
    f->config.memory_check_seconds = -1;
    f->config.listener.user = f->sink.user = f;
    f->config.listener.notify = notice;
    f->sink.record = keep_record;
    f->config.sinks = &f->sink;
    f->config.sink_count = 1;
    return 1;
}

/* ---- A poll of the run drops a spot evaluation, as short memory does ---- */

static int drop(eitp_run *trained, void *state) {
    (void)trained, (void)state;
    return fixture_->drops;
}

static eitp_status save_early(eitp_run *trained, void *state, eitp_error *why) {
    fixture *f = fixture_;
    const int is_due = f->drops;
    (void)state;
    f->drops = 0;
    if (!is_due)
        return EITP_OK;
    f->drops_at = 0;
    return trained->save_early(trained, why);
}

/* Trains to the end of f->config.steps, or until stopped, as if in a separate process. */
static void train(fixture *f, int64_t validation) {
    eitp_host host = eitp_host_default();
    faults_do_not_sync(&host);
    fixture_ = f;
    f->metrics[0].name = "active_units";
    f->metrics[1].name = "kl";
    REQUIRE_OK(own_begin(&f->o, &host, "fp32", OWN_ROW | OWN_SAMPLE, &error_), error_);
    f->o.config.schedule.peak = 1e-3;
    f->o.task.samples[EITP_VALIDATION] = (uint64_t)validation;
    f->o.task.read = read_sample;
    f->o.task.guess_loss = 1000;
    f->o.task.metrics = f->metrics;
    f->o.task.metric_count = 2;
    f->o.task.observation_bytes = outcome_bytes;
    f->o.task.observe = observe_sample;
    f->o.task.compute_metrics = judge_samples;
    f->o.task.describe = describe_evaluation;
    REQUIRE_OK(own_train(&f->o, &error_), error_);
    REQUIRE_OK(eitp_run_open(&host, &f->config, &f->run, &error_), error_);
    f->run->observers[EITP__OBSERVER_PROGRAM].poll = drop;
    f->run->observers[EITP__OBSERVER_PROGRAM].before_step = save_early;
    REQUIRE_OK(eitp_run_train(f->run, f->o.trainer, &f->report, &error_), error_);
    eitp_run_close(f->run);
    own_end(&f->o);
}

static size_t count_spots(const fixture *f) {
    size_t count = 0;
    for (size_t i = 0; i < f->count; i++)
        count += (size_t)f->kept[i].is_spot;
    return count;
}

static const kept *kept_at(const fixture *f, int is_spot, int64_t step) {
    for (size_t i = 0; i < f->count; i++) {
        if (f->kept[i].is_spot == is_spot && f->kept[i].step == step)
            return &f->kept[i];
    }
    return NULL;
}

static int is_due(int64_t step) {
    return step > 0 && step % EVERY == 0 && step % EVAL_STEPS != 0 && step != STEPS;
}

static char *file_of(const fixture *f, const char *name, size_t *bytes) {
    static char text[1 << 18];
    FILE *file = fopen(scratch_path(f->directory, name), "rb");
    *bytes = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[*bytes] = 0;
    return text;
}

static size_t count_of(const char *text, const char *words) {
    size_t count = 0;
    for (; (text = strstr(text, words)) != NULL; text++)
        count++;
    return count;
}

static uint32_t checksum_of(const fixture *f, const char *name) {
    size_t bytes;
    const char *text = file_of(f, name, &bytes);
    return bytes ? eitp__crc32c(0, text, bytes) : 0;
}

/* ---- What is recorded ---- */

static void few_samples_are_evaluated_between_evaluations(void) {
    fixture f, all;
    REQUIRE(begin(&f) && begin(&all));
    train(&f, OWN_VALIDATION);
    for (int64_t step = 0; step <= STEPS; step++)
        CHECK_THAT((kept_at(&f, 1, step) != NULL) == is_due(step) &&
                       (kept_at(&f, 0, step) != NULL) == (step % EVAL_STEPS == 0),
                   "step %d", (int)step);
    CHECK(f.count == 5 + 8 && !f.warnings && f.report.evaluations == 5 && f.report.evaluated_step == STEPS);
    CHECK(f.described == 5 + 8);
    /* They match an evaluation of as many samples, for which the task has memory. */
    all.config.spot_samples = 0;
    all.config.eval_samples = SPOT;
    all.config.eval_steps = EVERY;
    train(&all, OWN_VALIDATION);
    CHECK(!count_spots(&all));
    for (size_t i = 0; i < f.count; i++) {
        const kept *spot = &f.kept[i], *expected = kept_at(&all, 0, spot->step);
        if (!spot->is_spot)
            continue;
        REQUIRE(expected);
        CHECK_THAT(!memcmp(&spot->loss, &expected->loss, sizeof spot->loss) && spot->loss > 0 &&
                       !memcmp(&spot->error, &expected->error, sizeof spot->error) && spot->error > 0,
                   "step %d: %g instead of %g", (int)spot->step, spot->loss, expected->loss);
        CHECK(spot->samples == SPOT && spot->active == 6 && spot->seconds >= 0);
        CHECK(spot->count == 12); /* and two terms, with their errors, and the number of samples */
    }
    scratch_remove(f.directory);
    scratch_remove(all.directory);
}

static void every_file_of_records_has_them(void) {
    const eitp_host host = eitp_host_default();
    eitp_history *history = NULL;
    eitp_history_point points[16];
    size_t bytes, lines = 0;
    const char *text;
    fixture f;
    REQUIRE(begin(&f));
    f.config.report_to = "jsonl,csv,tensorboard";
    train(&f, OWN_VALIDATION);
    text = file_of(&f, "metrics.jsonl", &bytes);
    CHECK(strstr(text, "{\"step\": 2, \"spot/loss\": ") && strstr(text, "\"spot/samples\": 3, \"spot/time_s\": "));
    text = file_of(&f, "metrics.csv", &bytes);
    CHECK(strstr(text, "\nspot,2,") && strstr(text, "\"\"spot/active_units\"\": 6") && !strstr(text, "\nspot,6,"));
    text = file_of(&f, "evaluations.jsonl", &bytes);
    CHECK(strstr(text, "\"val_loss\": ") && strstr(text, "{\"step\": 2, \"spot/loss\": "));
    for (size_t i = 0; i < bytes; i++)
        lines += text[i] == '\n';
    CHECK(lines == 5 + 8 && count_of(text, "\"words\": 1") == 5 + 8 && count_of(text, "spot/samples") == 8);
    REQUIRE_OK(eitp_history_open(&host, f.directory, &history, &error_), error_);
    CHECK(eitp_history_points(history, "spot/loss", points, EITP__COUNT(points)) == 8);
    CHECK(points[0].step == 2 && points[0].count == 1 && points[7].step == 22);
    CHECK(!strstr(eitp_history_lines(history, NULL, NULL), "spot/"));
    eitp_history_close(history);
    scratch_remove(f.directory);
}

/* Model, optimizer and trainer are the same with and without spot evaluations, and so are the evaluations that select
   the best. */
static void training_does_not_depend_on_them(void) {
    static const char *const files[] = {"model.safetensors", "optimizer.safetensors", "trainer_state.json"};
    uint32_t sums[EITP__COUNT(files)];
    char best[4000] = "";
    size_t bytes;
    for (int spots = 0; spots < 2; spots++) {
        fixture f;
        REQUIRE(begin(&f));
        f.config.keep_best = "loss";
        f.config.patience = 100;
        f.config.spot_samples = spots ? SPOT : 0;
        train(&f, OWN_VALIDATION);
        CHECK(count_spots(&f) == (spots ? 8u : 0u));
        for (size_t i = 0; i < EITP__COUNT(files); i++) {
            char name[80];
            uint32_t sum;
            snprintf(name, sizeof name, "checkpoint-%d/%s", STEPS, files[i]);
            sum = checksum_of(&f, name);
            CHECK_THAT(sum && (!spots || sum == sums[i]), "%s", name);
            sums[i] = sum;
        }
        if (spots)
            CHECK(!strcmp(best, file_of(&f, "best.json", &bytes)));
        snprintf(best, sizeof best, "%s", file_of(&f, "best.json", &bytes));
        CHECK(*best && !strstr(file_of(&f, "checkpoint-24/run_state.json", &bytes), "\"spot\"") == !spots);
        scratch_remove(f.directory);
    }
}

static void their_time_is_that_of_evaluations(void) {
    size_t bytes;
    for (int spots = 0; spots < 2; spots++) {
        const char *first;
        double seconds;
        fixture f;
        REQUIRE(begin(&f));
        f.config.spot_samples = spots ? SPOT : 0;
        f.config.eval_steps = 0;
        f.config.steps = f.config.perf_every = 5;
        train(&f, OWN_VALIDATION);
        first = strstr(file_of(&f, "metrics.jsonl", &bytes), "\"perf/evaluation_time\": ");
        REQUIRE(first);
        seconds = atof(first + strlen("\"perf/evaluation_time\": "));
        CHECK_THAT((seconds > 0) == spots, "%g s", seconds);
        scratch_remove(f.directory);
    }
}

static void none_are_made_where_they_are_not_asked_for(void) {
    static const struct {
        eitp_monitor monitor;
        int64_t every, validation;
        int spots, warnings;
    } cases[] = {{EITP_MONITOR_OFF, EVERY, OWN_VALIDATION, 0, 0},
                 {EITP_MONITOR_LIGHT, 0, OWN_VALIDATION, 0, 0},
                 {EITP_MONITOR_FULL, EVERY, OWN_VALIDATION, 1, 0},
                 {EITP_MONITOR_LIGHT, EVERY, 0, 0, 1}};
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        fixture f;
        REQUIRE(begin(&f));
        f.config.steps = 3;
        f.config.monitor = cases[i].monitor;
        f.config.log_full_every = cases[i].every;
        train(&f, cases[i].validation);
        CHECK_THAT(count_spots(&f) == (size_t)cases[i].spots && f.warnings == cases[i].warnings, "case %zu: %s", i,
                   f.message);
        CHECK(!f.warnings || !strncmp(f.message, "spot_samples has no effect: ", 28));
        scratch_remove(f.directory);
    }
}

/* ---- Stopped, killed, dropped ---- */

/* Appends the steps and losses of the spot evaluations in a file of records. */
static void list_spots_of(const fixture *f, const char *name, char *list, size_t size) {
    size_t bytes;
    const char *at = file_of(f, name, &bytes);
    for (; (at = strstr(at, "{\"step\": ")) != NULL; at++) {
        int step;
        double loss;
        if (sscanf(at, "{\"step\": %d, \"spot/loss\": %lf", &step, &loss) == 2)
            snprintf(list + strlen(list), size - strlen(list), "%d: %.17g, ", step, loss);
    }
}

static void list_spots(const fixture *f, char *list, size_t size) {
    *list = 0;
    list_spots_of(f, "metrics.jsonl", list, size);
    list_spots_of(f, "evaluations.jsonl", list, size);
}

/* Removes the checkpoints after a step, as if the run had been killed before the next one. */
static void kill_after(fixture *f, int64_t step) {
    const eitp_host host = eitp_host_default();
    char name[40], path[600];
    for (int64_t later = step + 1; later <= STEPS; later++) {
        snprintf(name, sizeof name, "checkpoint-%d", (int)later);
        snprintf(path, sizeof path, "%s", scratch_path(f->directory, name));
        CHECK(!eitp__remove_tree(&host, path, &error_));
    }
}

enum { WHOLE, AT_THE_END, STOPPED, KILLED, SHORT, SHORT_AND_KILLED, WAYS };

/* Trains so that spot evaluations around a step are interrupted. */
static void train_disturbed(fixture *f, int way, int64_t step) {
    if (way == AT_THE_END)
        f->config.steps = step;
    if (way == STOPPED)
        f->stops_at = step;
    if (way == SHORT || way == SHORT_AND_KILLED)
        f->drops_at = step;
    train(f, OWN_VALIDATION);
    CHECK(!f->drops_at && (way != STOPPED || f->report.end == EITP_RUN_STOPPED));
    if (way == KILLED || way == SHORT_AND_KILLED)
        kill_after(f, step);
    if (way == WHOLE || way == SHORT)
        return;
    f->stops_at = 0;
    f->config.steps = STEPS;
    f->alarms = way == STOPPED ? f->alarms : 0;
    train(f, OWN_VALIDATION);
}

/* Each step has its spot evaluation once, and the alarm is raised after the same step. */
static void a_disturbed_run_has_the_same(void) {
    static const int64_t steps[] = {10, 16, 20};
    char expected[2000] = "", found[2000];
    uint32_t weights = 0;
    for (int way = WHOLE; way < WAYS; way++) {
        for (size_t i = 0; i < (way == WHOLE ? 1 : EITP__COUNT(steps)); i++) {
            int alarms;
            fixture f;
            REQUIRE(begin(&f));
            f.collapses_at = 14; /* samples at 14, 16 and 18 raise it */
            train_disturbed(&f, way, steps[i]);
            list_spots(&f, found, sizeof found);
            if (way == WHOLE) {
                snprintf(expected, sizeof expected, "%s", found);
                weights = checksum_of(&f, "checkpoint-24/model.safetensors");
                CHECK(f.alarms == 1 && f.alarm_step == 18 && strstr(found, "14: ") && !strstr(found, "18: "));
            }
            CHECK_THAT(!strcmp(found, expected), "way %d, step %d: %s instead of %s", way, (int)steps[i], found,
                       expected);
            CHECK(checksum_of(&f, "checkpoint-24/model.safetensors") == weights);
            /* A part that starts after the alarm does not raise it again. */
            alarms = steps[i] < 18 || way == WHOLE || way == STOPPED || way == SHORT;
            CHECK_THAT(f.alarm_step == 18 && f.alarms == alarms, "way %d, step %d: %d alarms, after step %d", way,
                       (int)steps[i], f.alarms, (int)f.alarm_step);
            scratch_remove(f.directory);
        }
    }
}

/* If no file records the evaluation, the checkpoint does. */
static void the_checkpoint_knows_that_of_its_step(void) {
    fixture f;
    REQUIRE(begin(&f));
    f.config.report_to = NULL;
    f.config.steps = 9;
    train(&f, OWN_VALIDATION);
    CHECK(kept_at(&f, 1, 8));
    kill_after(&f, 8);
    f.count = 0;
    f.config.steps = 11;
    train(&f, OWN_VALIDATION);
    CHECK(f.report.start_step == 8 && !kept_at(&f, 1, 8) && kept_at(&f, 1, 10));
    scratch_remove(f.directory);
}

static void a_damaged_state_is_refused(void) {
    static const char *const damages[] = {"\"spot\": 8", "\"spot\": {\"step\": -1}", "\"spot\": {\"step\": 1.5}"};
    for (size_t i = 0; i < EITP__COUNT(damages); i++) {
        const eitp_host host = eitp_host_default();
        eitp_json_document *document = NULL;
        eitp__observer row = EITP__ZERO;
        char text[80];
        void *state;
        eitp__spot_observer(&row);
        state = calloc(1, row.state_size);
        snprintf(text, sizeof text, "{%s}", damages[i]);
        REQUIRE_OK(eitp_json_parse(&host, text, strlen(text), &document, &error_), error_);
        CHECK_THAT(row.read(NULL, state, eitp_json_member(eitp_json_root(document), "spot"), &error_) ==
                       EITP_ERROR_FORMAT,
                   "%s", text);
        CHECK(!row.read(NULL, state, NULL, &error_));
        eitp_json_release(document);
        free(state);
    }
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(few_samples_are_evaluated_between_evaluations),
        TEST(every_file_of_records_has_them),
        TEST(training_does_not_depend_on_them),
        TEST(their_time_is_that_of_evaluations),
        TEST(none_are_made_where_they_are_not_asked_for),
        TEST(a_disturbed_run_has_the_same),
        TEST(the_checkpoint_knows_that_of_its_step),
        TEST(a_damaged_state_is_refused),
    };
    return RUN_TESTS(tests, argc, argv);
}
