/* Alarms of whole runs: a run that goes wrong reports and records them, other runs report nothing, and training does
   not depend on alarms. */
#include "tests/support/own_task.h"

static eitp_error error;

enum { STEPS = 320 };

/* A run of a task whose inputs grow by `factor` after step `at`; 0: never. */
typedef struct fixture {
    own o;
    char directory[512];
    eitp_run_config config;
    eitp_run_report report;
    float factor;
    int64_t at;
    int events, alarms, others; /* others: warnings that are not alarms */
    char alarm[32], message[500];
    double value, usual;
    int64_t step;
} fixture;

static fixture *fixture_; /* of the task's `read` */

static eitp_status read_changed(void *user, eitp_split split, uint64_t number, eitp_sample *sample, eitp_error *why) {
    const eitp_status status = own_read(user, split, number, sample, why);
    const fixture *f = fixture_;
    if (!status && f->at && f->o.trainer && eitp_trainer_steps_done(f->o.trainer) >= f->at) {
        for (int64_t i = 0; i < sample->rows * OWN_WIDTH; i++)
            ((float *)sample->values[0])[i] *= f->factor;
    }
    return status;
}

static void notice(void *user, const eitp_run_event *event) {
    fixture *f = (fixture *)user;
    f->events++;
    if (event->kind != EITP_EVENT_ALARM) {
        f->others += event->level >= EITP_LOG_WARNING;
        return;
    }
    CHECK(event->level == EITP_LOG_WARNING && event->seconds == 0);
    REQUIRE(event->value_count == 3 && !strcmp(event->values[0].name, "alarm") &&
            !strcmp(event->values[1].name, "value") && !strcmp(event->values[2].name, "usual"));
    f->alarms++;
    snprintf(f->alarm, sizeof f->alarm, "%s", event->values[0].text);
    snprintf(f->message, sizeof f->message, "%s", event->message);
    f->value = event->values[1].number;
    f->usual = event->values[2].number;
    f->step = event->report->step.step;
}

static int begin(fixture *f) {
    memset(f, 0, sizeof *f);
    if (!scratch_make(f->directory))
        return 0;
    f->config = eitp_run_config_default();
    f->config.directory = f->directory;
    f->config.steps = STEPS;
    f->config.eval_steps = 40;
    f->config.save_steps = 0;
    f->config.memory_check_seconds = -1;
    f->config.resume = EITP_RESUME_NEWEST;
    f->config.listener.user = f;
    f->config.listener.notify = notice;
    f->factor = 30;
    return 1;
}

/* Trains to the end of f->config.steps, as if in a separate process. */
static void train(fixture *f) {
    const eitp_host host = eitp_host_default();
    eitp_run *trained = NULL;
    fixture_ = f;
    if (own_begin(&f->o, &host, "fp32", OWN_ROW, &error))
        CHECK_THAT(0, "%s", error.message);
    f->o.config.schedule.peak = 1e-3;
    f->o.task.read = read_changed;
    f->o.task.guess_loss = 1000; /* no loss of these runs counts as divergence */
    if (own_train(&f->o, &error) || eitp_run_open(&host, &f->config, &trained, &error) ||
        eitp_run_train(trained, f->o.trainer, &f->report, &error))
        CHECK_THAT(0, "%s", error.message);
    eitp_run_close(trained);
    own_end(&f->o);
}

static char *file_of(const fixture *f, const char *name) {
    static char text[1 << 20];
    FILE *file = fopen(scratch_path(f->directory, name), "rb");
    size_t size = 0;
    if (file) {
        size = fread(text, 1, sizeof text - 1, file);
        fclose(file);
    }
    memset(text + size, 0, sizeof text - size);
    return text;
}

static void a_run_that_goes_wrong_raises_one(void) {
    fixture f;
    const char *record;
    REQUIRE(begin(&f));
    f.at = 160;
    train(&f);
    CHECK_THAT(f.alarms == 1 && !strcmp(f.alarm, "exploding_gradient"), "%d alarms, the last '%s'", f.alarms,
               f.message);
    CHECK(f.step > f.at && f.step < f.at + 32);
    CHECK_THAT(f.value > 10 * f.usual && f.usual > 0, "%g, usually %g", f.value, f.usual);
    CHECK(!strncmp(f.message, "exploding_gradient: the gradient norm is ", 41));
    record = strstr(file_of(&f, "metrics.jsonl"), "\"event\": \"alarm\"");
    CHECK(record && strstr(record, "\"level\": \"warning\"") &&
          strstr(record, "\"alarm\": \"exploding_gradient\", \"value\": ") && strstr(record, "\"usual\": "));
    CHECK(record && !strstr(record + 1, "\"event\": \"alarm\""));
    scratch_remove(f.directory);
}

static void other_runs_raise_none(void) {
    fixture f;
    REQUIRE(begin(&f));
    train(&f);
    CHECK_THAT(!f.alarms && !f.others, "%s", f.message);
    CHECK(!strstr(file_of(&f, "metrics.jsonl"), "\"alarm\""));
    scratch_remove(f.directory);
}

/* Without `alarms` none is raised, the checkpoint has no alarm state, and the weights are the same. */
static void alarms_can_be_switched_off(void) {
    static char weights[1 << 20];
    size_t size;
    fixture f;
    for (int alarms = 0; alarms < 2; alarms++) {
        REQUIRE(begin(&f));
        f.at = 160;
        f.config.alarms = alarms;
        train(&f);
        CHECK(f.alarms == alarms);
        CHECK(!strstr(file_of(&f, "checkpoint-320/run_state.json"), "\"alarms\"") == !alarms);
        size = sizeof weights;
        if (!alarms)
            memcpy(weights, file_of(&f, "checkpoint-320/model.safetensors"), size);
        else
            CHECK(!memcmp(weights, file_of(&f, "checkpoint-320/model.safetensors"), size));
        scratch_remove(f.directory);
    }
}

/* A run that is stopped after any step and resumed raises the same alarm once, after the same step. */
static void a_resumed_run_raises_the_same(void) {
    static const int64_t stops[] = {0, 1, 100, 165, 170, 200};
    static char state[20000];
    int64_t step = 0;
    for (size_t i = 0; i < EITP__COUNT(stops); i++) {
        fixture f;
        REQUIRE(begin(&f));
        f.at = 160;
        f.config.steps = stops[i] ? stops[i] : STEPS;
        train(&f);
        f.config.steps = STEPS;
        if (stops[i])
            train(&f);
        CHECK_THAT(f.alarms == 1 && (!step || f.step == step), "stopped after step %d: %d alarms, after step %d",
                   (int)stops[i], f.alarms, (int)f.step);
        step = f.step;
        if (!i)
            snprintf(state, sizeof state, "%s", strstr(file_of(&f, "checkpoint-320/run_state.json"), "\"losses\""));
        else if (stops[i] % f.config.eval_steps == 0) /* other stops add an evaluation at the end of the first part */
            CHECK_THAT(!strncmp(state, strstr(file_of(&f, "checkpoint-320/run_state.json"), "\"losses\""), 3000),
                       "stopped after step %d", (int)stops[i]);
        scratch_remove(f.directory);
    }
}

/* Alarms that are switched on later start from scratch. */
static void alarms_can_be_switched_on_later(void) {
    fixture f;
    REQUIRE(begin(&f));
    f.config.alarms = 0;
    f.config.steps = 40;
    train(&f);
    f.at = 200;
    f.config.alarms = 1;
    f.config.steps = STEPS;
    train(&f);
    CHECK(f.alarms == 1 && f.step > 200);
    scratch_remove(f.directory);
}

/* ---- Layers ---- */

/* Two layers. The first multiplies the input x, so its gradient is zero where x is. */
static eitp_status build_layers(void *user, eitp_pass *pass, eitp_error *why) {
    static const int64_t width[] = {OWN_WIDTH}, one[] = {1}, column[] = {OWN_WIDTH, 1};
    static const char *const names[] = {"h.0.weight", "h.1.weight"};
    static const eitp_dtype dtypes[] = {EITP_F32, EITP_F32, EITP_I64};
    static const char *const others[] = {"target", "counts", "mark"};
    eitp_graph *graph = eitp_pass_graph(pass);
    eitp_tensor *x = eitp_pass_row_input(pass, "x", EITP_F32, 1, width, 0), *target = NULL, *s, *losses[2];
    (void)user;
    for (int i = 0; i < 3; i++) {
        eitp_tensor *input = eitp_pass_row_input(pass, others[i], dtypes[i], 1, one, 0);
        target = i ? target : input;
    }
    s = eitp_pass_sample_input(pass, "s", EITP_F32, 1, width, 0);
    eitp_pass_sample_input(pass, "label", EITP_I32, 1, one, 0);
    losses[0] = eitp_subtract(eitp_matmul(x, eitp_parameter(graph, names[0], 2, column)), target);
    losses[1] = eitp_affine(eitp_matmul(s, eitp_parameter(graph, names[1], 2, column)), 1, -1);
    eitp_pass_term(pass, "row", eitp_multiply(losses[0], losses[0]), NULL);
    eitp_pass_term(pass, "sample", eitp_multiply(losses[1], losses[1]), NULL);
    return eitp_graph_status(graph, why);
}

/* Trains both layers, or only the second if `freezes`. */
static void train_layers(fixture *f, int freezes) {
    const eitp_host host = eitp_host_default();
    eitp_run *trained = NULL;
    fixture_ = f;
    REQUIRE_OK(own_begin(&f->o, &host, "fp32", OWN_ROW | OWN_SAMPLE, &error), error);
    f->o.config.schedule.peak = 1e-3;
    f->o.task.context = f->o.context;
    f->o.task.build = build_layers;
    f->o.task.read = read_changed;
    REQUIRE_OK(eitp_trainer_create(&f->o.task, &f->o.config, &f->o.trainer, &error), error);
    if (freezes) {
        eitp_trainer_destroy(f->o.trainer);
        REQUIRE_OK(eitp_variable_set_trained(f->o.context, "h.0.weight", 0, &error), error);
        REQUIRE_OK(eitp_trainer_create(&f->o.task, &f->o.config, &f->o.trainer, &error), error);
    }
    REQUIRE_OK(eitp_run_open(&host, &f->config, &trained, &error), error);
    REQUIRE_OK(eitp_run_train(trained, f->o.trainer, &f->report, &error), error);
    eitp_run_close(trained);
    own_end(&f->o);
}

static void a_layer_that_dies_raises_unless_it_is_frozen(void) {
    for (int freezes = 0; freezes < 2; freezes++) {
        fixture f;
        REQUIRE(begin(&f));
        f.at = 60;
        f.factor = 0;
        f.config.steps = 120;
        train_layers(&f, freezes);
        CHECK_THAT(f.alarms == !freezes, "%d alarms, the last '%s'", f.alarms, f.message);
        CHECK_THAT(freezes || (!strcmp(f.alarm, "dead_layer") && f.step == 88 && f.value == 0 && f.usual > 0 &&
                               strstr(f.message, "of h.0 is 0, the largest of any layer")),
                   "after step %d: %s", (int)f.step, f.message);
        scratch_remove(f.directory);
    }
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(a_run_that_goes_wrong_raises_one), TEST(other_runs_raise_none),
        TEST(alarms_can_be_switched_off),       TEST(a_resumed_run_raises_the_same),
        TEST(alarms_can_be_switched_on_later),  TEST(a_layer_that_dies_raises_unless_it_is_frozen),
    };
    return RUN_TESTS(tests, argc, argv);
}
