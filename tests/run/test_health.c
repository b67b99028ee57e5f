/* The health of a run: which models are saved, and which earlier checkpoints remain. */
#include "tests/support/trainer_run.h"

#include <dirent.h>

/* ---- The rule ---- */

static eitp__health health_of(const double *losses, size_t count) {
    eitp__health health = EITP__ZERO;
    for (size_t i = 0; i < count; i++)
        eitp__health_add_loss(&health, losses[i]);
    return health;
}

/* Adds a loss several times. */
static void add_losses(eitp__health *health, double loss, int count) {
    for (int i = 0; i < count; i++)
        eitp__health_add_loss(health, loss);
}

static const double vocabulary = 5.5; /* the loss of a uniform guess */

static void a_loss_above_that_of_guessing_has_diverged(void) {
    const double start[] = {5.6, 5.5, 5.2, 5.0, 4.8, 4.5, 4.4, 4.1, 4.0, 3.9};
    eitp__health health = health_of(start, EITP__COUNT(start));
    CHECK(!eitp__health_has_diverged(&health, vocabulary));
    eitp__health_saved(&health);
    add_losses(&health, 9.2, 10); /* below 2 x 4.65 */
    CHECK(!eitp__health_has_diverged(&health, vocabulary));
    add_losses(&health, 9.4, 3);
    CHECK(eitp__health_has_diverged(&health, vocabulary));
    /* It recovers. */
    add_losses(&health, 3.0, 2);
    CHECK(!eitp__health_has_diverged(&health, vocabulary));
}

static void a_model_that_never_was_good_has_not_diverged(void) {
    const double bad[] = {30, 31, 29, 30, 28, 31};
    eitp__health health = health_of(bad, EITP__COUNT(bad));
    CHECK(!eitp__health_has_diverged(&health, vocabulary));
    add_losses(&health, 61, 10);
    CHECK(eitp__health_has_diverged(&health, vocabulary));
}

/* Fine-tuning starts at 2 and may rise to the loss of guessing, not above. */
static void fine_tuning_may_rise_below_guessing(void) {
    eitp__health health = EITP__ZERO;
    add_losses(&health, 2, 10);
    eitp__health_saved(&health);
    add_losses(&health, 6.4, 10);
    CHECK(!eitp__health_has_diverged(&health, vocabulary));
    add_losses(&health, 6.6, 10);
    CHECK(eitp__health_has_diverged(&health, vocabulary));
}

static void a_short_spike_is_ignored(void) {
    eitp__health health = EITP__ZERO;
    add_losses(&health, 3, 20);
    eitp__health_saved(&health);
    add_losses(&health, 1e6, 2);
    CHECK(!eitp__health_has_diverged(&health, vocabulary));
    add_losses(&health, 3, 1);
    add_losses(&health, 1e6, 2);
    CHECK(!eitp__health_has_diverged(&health, vocabulary));
    add_losses(&health, 3, 1);
    add_losses(&health, 1e6, 2); /* 6 of the last 10 */
    CHECK(eitp__health_has_diverged(&health, vocabulary));
}

/* Saving at every step does not let the limit follow a loss that rises slowly. */
static void a_slow_rise_is_compared_with_the_best_save(void) {
    eitp__health health = EITP__ZERO;
    double loss = 3;
    int step = 0;
    while (!eitp__health_has_diverged(&health, vocabulary) && ++step < 1000) {
        eitp__health_add_loss(&health, loss);
        eitp__health_saved(&health);
        loss *= 1.01;
    }
    CHECK_THAT(step < 100 && loss < 7.5, "step %d, loss %g", step, loss);
}

static void losses_without_a_known_guess(void) {
    static const double noise[] = {0.1, -0.2, 1.1, -0.7, 0.4, -1.2, 0.3, 0.8, -0.5, 0.2};
    eitp__health health = EITP__ZERO;
    /* A rise by half is not a divergence; a threefold rise is. */
    add_losses(&health, 1, 10);
    eitp__health_saved(&health);
    add_losses(&health, 1.5, 10);
    CHECK(!eitp__health_has_diverged(&health, 0));
    add_losses(&health, 3, 10);
    CHECK(eitp__health_has_diverged(&health, 0));
    /* Near 0 after a start at 1. */
    health = health_of(NULL, 0);
    add_losses(&health, 1, 10);
    add_losses(&health, 1e-9, 10);
    eitp__health_saved(&health);
    add_losses(&health, 1e-7, 10);
    CHECK(!eitp__health_has_diverged(&health, 0));
    add_losses(&health, 0.6, 10);
    CHECK(eitp__health_has_diverged(&health, 0));
    /* Negative losses: twice a negative number is not above it. */
    health = health_of(NULL, 0);
    add_losses(&health, -3, 10);
    eitp__health_saved(&health);
    add_losses(&health, -2.9, 10);
    CHECK(!eitp__health_has_diverged(&health, 0));
    add_losses(&health, -0.5, 10);
    CHECK(!eitp__health_has_diverged(&health, 0));
    add_losses(&health, 0.5, 10);
    CHECK(eitp__health_has_diverged(&health, 0));
    /* Noise around 0. */
    health = health_of(noise, EITP__COUNT(noise));
    eitp__health_saved(&health);
    add_losses(&health, 1.2, 10);
    CHECK(!eitp__health_has_diverged(&health, 0));
    add_losses(&health, 100, 10);
    CHECK(eitp__health_has_diverged(&health, 0));
    /* A loss without any scale, and a task whose loss indicates nothing. */
    health = health_of(NULL, 0);
    CHECK(!eitp__health_has_diverged(&health, 0));
    add_losses(&health, 0, 10);
    add_losses(&health, 1, 10);
    CHECK(!eitp__health_has_diverged(&health, 0));
    add_losses(&health, 1e30, 10);
    CHECK(!eitp__health_has_diverged(&health, HUGE_VAL));
}

static void medians(void) {
    const double odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2}, huge[] = {1e308, 1e308};
    CHECK(eitp__median(odd, 3) <= 2 && eitp__median(odd, 3) >= 2);
    CHECK(eitp__median(even, 4) <= 2.5 && eitp__median(even, 4) >= 2.5);
    CHECK(!(eitp__median(NULL, 0) > 0) && isfinite(eitp__median(huge, 2)));
    CHECK(fabs(eitp__median_deviation(odd, 3) - 1.4826) < 1e-12);
}

/* ---- In a checkpoint ---- */

static eitp_status read_health(const char *text, eitp__health *health) {
    const eitp_host host = eitp_host_default();
    eitp_json_document *document;
    eitp_status status = eitp_json_parse(&host, text, strlen(text), &document, &error_);
    if (!status) {
        status = eitp__health_read(health, eitp_json_root(document), &error_);
        eitp_json_release(document);
    }
    return status;
}

static int same_numbers(const double *a, const double *b, size_t count) {
    return !memcmp(a, b, count * sizeof *a);
}

/* Written and read after each step, it equals one that was not. */
static void health_survives_a_resume(void) {
    eitp__health straight = EITP__ZERO, resumed = EITP__ZERO;
    for (int step = 1; step <= 25; step++) {
        const eitp_host host = eitp_host_default();
        const double loss = 5.0 / 3 / step + 1e-17 * step;
        eitp__buffer text;
        eitp__health_add_loss(&straight, loss);
        eitp__health_add_loss(&resumed, loss);
        if (step % 4 == 0) {
            eitp__health_saved(&straight);
            eitp__health_saved(&resumed);
        }
        resumed.nonfinite = step;
        resumed.overflowed = step % 2;
        eitp__buffer_init(&text, &host);
        eitp__health_write(&resumed, &text);
        eitp__buffer_add(&text, "", 1);
        memset(&resumed, 0x55, sizeof resumed);
        REQUIRE_OK(read_health(text.data, &resumed), error_);
        CHECK(resumed.nonfinite == step && resumed.overflowed == step % 2 && resumed.losses == step);
        CHECK(same_numbers(straight.first.values, resumed.first.values, EITP__HEALTH_LOSSES));
        CHECK(same_numbers(straight.recent.values, resumed.recent.values, EITP__HEALTH_LOSSES));
        CHECK(straight.has_saved == resumed.has_saved && same_numbers(&straight.saved_loss, &resumed.saved_loss, 1) &&
              same_numbers(&straight.saved_deviation, &resumed.saved_deviation, 1));
        eitp__buffer_release(&text);
    }
}

static void health_of_an_edited_file_is_refused(void) {
    static const char *const texts[] = {
        "[]",
        "{\"losses\": 1}",
        "{\"losses\": -1, \"first\": [], \"recent\": []}",
        "{\"losses\": 2, \"first\": [1, 2], \"recent\": [1]}",
        "{\"losses\": 1, \"first\": [\"a\"], \"recent\": [1]}",
        "{\"losses\": 1, \"first\": [1e999], \"recent\": [1]}",
        "{\"losses\": 1, \"first\": [null], \"recent\": [1]}",
        "{\"losses\": 0, \"first\": [], \"recent\": [], \"saved_loss\": 1, \"saved_deviation\": -1}",
        "{\"losses\": 0, \"first\": [], \"recent\": [], \"overflowed\": 3}",
    };
    eitp__health health = EITP__ZERO;
    health.nonfinite = 7;
    for (size_t i = 0; i < EITP__COUNT(texts); i++)
        CHECK_THAT(read_health(texts[i], &health) == EITP_ERROR_FORMAT && health.nonfinite == 7, "%s", texts[i]);
    CHECK(!eitp__health_read(&health, NULL, &error_) && health.nonfinite == 0);
}

/* ---- Runs ---- */

typedef struct fixture {
    run trained;
    char directory[512], output[600];
    eitp_run_config config;
    eitp_run_report report;
    eitp_run *run;
    eitp_host host;
    variant v;
    int64_t ruinous_from, ruinous_to; /* steps whose learning rate destroys the model */
    double rate;                      /* learning rate in those steps */
    int64_t spoil_at;                 /* a weight is NaN after this step; 0: never */
    int64_t stop_after;
    int events[EITP_EVENT_COUNT];
    char messages[EITP_EVENT_COUNT][600]; /* last message of each kind */
    int64_t saved[64];
    int saves;
} fixture;

static double rate_of(void *user, int64_t step) {
    const fixture *f = (const fixture *)user;
    return step >= f->ruinous_from && step < f->ruinous_to ? f->rate : 1e-3;
}

static void notice(void *user, const eitp_run_event *event) {
    fixture *f = (fixture *)user;
    const float nan = (float)NAN;
    f->events[event->kind]++;
    snprintf(f->messages[event->kind], sizeof f->messages[0], "%s", event->message);
    if (event->kind == EITP_EVENT_SAVED && f->saves < 64)
        f->saved[f->saves++] = event->report->saved_step;
    if (event->kind != EITP_EVENT_STEP)
        return;
    if (event->report->step.step == f->stop_after)
        eitp_run_request_stop(f->run, 15);
    if (event->report->step.step == f->spoil_at)
        CHECK(!eitp_variable_write(f->trained.context, eitp_variable_at(f->trained.context, 0).name, 0, &nan, 4,
                                   &error_));
}

static int begin_fixture(fixture *f) {
    memset(f, 0, sizeof *f);
    if (!scratch_make(f->directory) || !write_text(f->directory))
        return 0;
    snprintf(f->output, sizeof f->output, "%s/out", f->directory);
    f->host = eitp_host_default();
    f->v = default_variant();
    f->v.threads = 1;
    f->config = eitp_run_config_default();
    f->config.directory = f->output;
    f->config.resume = EITP_RESUME_NEWEST;
    f->config.steps = 20;
    f->config.eval_steps = 0;
    f->config.eval_samples = 2;
    f->config.save_steps = 1;
    f->config.memory_check_seconds = -1;
    f->config.max_nonfinite = 3;
    f->config.listener.user = f;
    f->config.listener.notify = notice;
    f->ruinous_from = f->ruinous_to = INT64_MAX;
    f->rate = 1000;
    return 1;
}

static eitp_status train(fixture *f) {
    run *r = &f->trained;
    eitp_status status = make_run(r, &f->host, &f->v, f->directory, &error_);
    memset(f->events, 0, sizeof f->events);
    memset(f->messages, 0, sizeof f->messages);
    f->saves = 0;
    if (!status) {
        eitp_trainer_destroy(r->trainer);
        r->trainer = NULL;
        r->config.max_grad_norm = 0;
        r->config.rate = rate_of;
        r->config.user = f;
        status = eitp_trainer_create(&r->task, &r->config, &r->trainer, &error_);
    }
    if (!status)
        status = eitp_run_open(&f->host, &f->config, &f->run, &error_);
    if (!status)
        status = eitp_run_train(f->run, r->trainer, &f->report, &error_);
    eitp_run_close(f->run);
    f->run = NULL;
    end_run(r);
    return status;
}

/* The sorted names of the checkpoints, each followed by a space. */
static const char *checkpoints(const fixture *f) {
    static char text[2000];
    struct dirent **names;
    int count = scandir(f->output, &names, NULL, alphasort);
    text[0] = 0;
    for (int i = 0; i < count; i++) {
        if (!strncmp(names[i]->d_name, "checkpoint-", 11))
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s ", names[i]->d_name + 11);
        free(names[i]);
    }
    if (count >= 0)
        free(names);
    return text;
}

/* Two restarts keep the last good checkpoint, however often the run saves and however the model was destroyed. */
static void a_ruined_model_takes_the_place_of_no_good_one(void) {
    static const double rates[] = {1000, 3, 1};
    for (size_t i = 0; i < EITP__COUNT(rates); i++) {
        fixture f;
        REQUIRE(begin_fixture(&f));
        f.config.steps = 8;
        CHECK_THAT(!train(&f), "%s", error_.message);
        CHECK_THAT(!strcmp(checkpoints(&f), "7 8 "), "%s", checkpoints(&f));
        f.config.steps = 40;
        f.ruinous_from = 9;
        f.rate = rates[i];
        for (int restart = 0; restart < 3; restart++) {
            CHECK(train(&f) == EITP_ERROR_NOT_FINITE);
            CHECK_THAT(strstr(error_.message, "out/checkpoint-8;") && strstr(error_.message, "learning rate"), "%s",
                       error_.message);
            CHECK(f.report.start_step == 8 && f.report.saved_step == 8 && f.events[EITP_EVENT_SAVED] == 0);
            CHECK(f.report.end == EITP_RUN_NOT_FINITE || f.report.end == EITP_RUN_DIVERGED);
            CHECK_THAT(strstr(checkpoints(&f), "7 8 ") && strstr(checkpoints(&f), ".diverged"), "rate %g: %s", rates[i],
                       checkpoints(&f));
        }
        f.ruinous_from = INT64_MAX;
        f.config.steps = 10;
        CHECK_THAT(!train(&f) && f.report.start_step == 8 && f.report.saved_step == 10, "%s", error_.message);
        scratch_remove(f.directory);
    }
}

/* With these rates step 9 is saved no sooner than step 10, whose update destroys the model. The losses of the following
   steps show it. */
static void a_checkpoint_that_was_ruined_when_it_was_saved_is_withdrawn(void) {
    static const double rates[] = {0.7, 0.5};
    for (size_t i = 0; i < EITP__COUNT(rates); i++) {
        fixture f;
        REQUIRE(begin_fixture(&f));
        f.config.steps = 8;
        f.ruinous_from = 9;
        f.rate = rates[i];
        CHECK_THAT(!train(&f), "%s", error_.message);
        f.config.steps = 30;
        for (int restart = 0; restart < 2; restart++) {
            CHECK(train(&f) == EITP_ERROR_NOT_FINITE && f.report.end == EITP_RUN_DIVERGED);
            CHECK_THAT(f.saves == 1 && f.saved[0] == 10, "%d saves, the first after step %d", f.saves, (int)f.saved[0]);
            CHECK(f.report.start_step == 8 && f.report.saved_step == 8);
            CHECK_THAT(strstr(error_.message, "out/checkpoint-8;"), "%s", error_.message);
            CHECK_THAT(!strcmp(checkpoints(&f), "10.diverged 30.diverged 8 "), "%s", checkpoints(&f));
            CHECK_THAT(strstr(f.messages[EITP_EVENT_WARNING], "renamed it to checkpoint-10.diverged"), "%s",
                       f.messages[EITP_EVENT_WARNING]);
        }
        f.ruinous_from = INT64_MAX;
        CHECK_THAT(!train(&f) && f.report.start_step == 8 && f.report.saved_step == 30, "%s", error_.message);
        scratch_remove(f.directory);
    }
}

/* A run that resumes from it detects this as well. */
static void a_resumed_run_withdraws_a_ruined_checkpoint(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.steps = 10;
    f.ruinous_from = 9;
    f.rate = 0.7;
    CHECK_THAT(!train(&f) && !strcmp(checkpoints(&f), "10 8 "), "%s: %s", error_.message, checkpoints(&f));
    f.config.steps = 20;
    CHECK(train(&f) == EITP_ERROR_NOT_FINITE && f.report.start_step == 10 && f.report.saved_step == 8);
    CHECK_THAT(!strcmp(checkpoints(&f), "10.diverged 20.diverged 8 "), "%s", checkpoints(&f));
    scratch_remove(f.directory);
}

/* Three bad batches may follow a good model, which does not justify giving up many steps. */
static void a_checkpoint_without_a_recent_one_before_it_stays(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.steps = 40;
    f.config.save_steps = 12;
    f.ruinous_from = 23;
    f.rate = 0.7;
    CHECK(train(&f) == EITP_ERROR_NOT_FINITE && f.report.saved_step == 25);
    CHECK_THAT(!strcmp(checkpoints(&f), "12 25 40.diverged "), "%s", checkpoints(&f));
    scratch_remove(f.directory);
}

static void a_diverged_run_says_so_once_and_keeps_the_model(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.save_steps = 2;
    f.config.eval_steps = 3;
    f.config.keep_best = "loss";
    f.ruinous_from = 7;
    f.rate = 3;
    CHECK(train(&f) == EITP_ERROR_NOT_FINITE && f.report.end == EITP_RUN_DIVERGED && f.report.steps_done == 20);
    CHECK(f.report.saved_step == 6 && f.report.best_step == 6);
    CHECK_THAT(!strcmp(checkpoints(&f), "20.diverged 4 6 "), "%s", checkpoints(&f));
    CHECK(f.events[EITP_EVENT_NOT_SAVED] == 1 && f.events[EITP_EVENT_DIVERGING] == 1);
    CHECK_THAT(strstr(f.messages[EITP_EVENT_NOT_SAVED], "the last good checkpoint is ") &&
                   strstr(f.messages[EITP_EVENT_NOT_SAVED], "/checkpoint-6"),
               "%s", f.messages[EITP_EVENT_NOT_SAVED]);
    CHECK_THAT(strstr(error_.message, "kept as checkpoint-20.diverged"), "%s", error_.message);
    scratch_remove(f.directory);
}

static void a_run_that_diverges_at_once_has_no_checkpoint(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.ruinous_from = 1;
    f.rate = 3;
    CHECK(train(&f) == EITP_ERROR_NOT_FINITE && f.report.saved_step == -1);
    CHECK_THAT(strstr(error_.message, "there is no checkpoint to resume from"), "%s", error_.message);
    CHECK_THAT(!strcmp(checkpoints(&f), "20.diverged "), "%s", checkpoints(&f));
    /* It is not a checkpoint: the next run starts from scratch. */
    f.ruinous_from = INT64_MAX;
    CHECK_THAT(!train(&f) && f.report.start_step == 0, "%s", error_.message);
    CHECK_THAT(!strcmp(checkpoints(&f), "19 20 20.diverged "), "%s", checkpoints(&f));
    scratch_remove(f.directory);
}

/* A single destructive step, and the evaluation after it. */
static void an_evaluation_shows_that_the_last_step_ruined_the_model(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.steps = 6;
    f.config.save_steps = 3;
    f.ruinous_from = 6;
    f.rate = 3;
    CHECK(train(&f) == EITP_ERROR_NOT_FINITE && f.report.end == EITP_RUN_DIVERGED && f.report.saved_step == 3);
    scratch_remove(f.directory);
}

static void a_stopped_run_that_has_diverged_is_not_saved(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.ruinous_from = 7;
    f.rate = 3;
    f.stop_after = 14;
    CHECK(train(&f) == EITP_ERROR_NOT_FINITE && f.report.steps_done == 14 && f.report.saved_step == 6);
    CHECK_THAT(!strcmp(checkpoints(&f), "14.diverged 5 6 "), "%s", checkpoints(&f));
    scratch_remove(f.directory);
}

/* Weights that are not finite are not kept in any form. */
static void weights_that_are_not_finite_are_not_kept(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.save_steps = 2;
    f.spoil_at = 5;
    CHECK(train(&f) == EITP_ERROR_NOT_FINITE && f.report.end == EITP_RUN_NOT_FINITE && f.report.steps_done == 8);
    CHECK_THAT(!strncmp(error_.message, "3 steps in a row", 16) && strstr(error_.message, "weights are not finite"),
               "%s", error_.message);
    CHECK(f.events[EITP_EVENT_SKIPPED_STEP] == 3 && f.events[EITP_EVENT_NOT_SAVED] == 1);
    CHECK_THAT(!strcmp(checkpoints(&f), "2 4 "), "%s", checkpoints(&f));
    scratch_remove(f.directory);
}

/* After a few bad steps the model recovers, and the overdue checkpoint is written. */
static void saving_goes_on_when_the_model_recovers(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.steps = 400;
    f.config.save_steps = 8;
    f.ruinous_from = 15;
    f.ruinous_to = 18;
    f.rate = 1;
    CHECK_THAT(!train(&f), "%s", error_.message);
    CHECK(f.events[EITP_EVENT_NOT_SAVED] == 1 && f.report.saved_step == 400);
    CHECK_THAT(f.saved[0] == 8 && f.saved[1] > 24 && f.saved[1] % 8, "%d", (int)f.saved[1]);
    scratch_remove(f.directory);
}

static void evaluations_that_are_not_finite_end_patience(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.spoil_at = 1;
    f.config.eval_steps = 1;
    f.config.patience = 1;
    CHECK(!train(&f) && f.report.end == EITP_RUN_EARLY_STOP && f.report.steps_done == 1 && f.report.best_step == -1);
    scratch_remove(f.directory);
}

/* The warning of the step names the op, or nothing is reported and the run continues. */
static void checks_are_by_step_by_op_or_not_at_all(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.save_steps = 0;
    f.spoil_at = 2;
    CHECK(train(&f) == EITP_ERROR_NOT_FINITE);
    CHECK_THAT(!strcmp(f.messages[EITP_EVENT_SKIPPED_STEP], "step 5 skipped: the gradient is not finite"), "%s",
               f.messages[EITP_EVENT_SKIPPED_STEP]);
    f.config.check_finite = EITP_CHECK_FINITE_OP;
    CHECK(train(&f) == EITP_ERROR_NOT_FINITE);
    CHECK_THAT(
        strstr(f.messages[EITP_EVENT_SKIPPED_STEP], "step 5 skipped: the gradient is not finite: 'transformer.") &&
            strstr(f.messages[EITP_EVENT_SKIPPED_STEP], "holds NaN in element 0"),
        "%s", f.messages[EITP_EVENT_SKIPPED_STEP]);
    f.config.check_finite = EITP_CHECK_FINITE_NO;
    CHECK(train(&f) == EITP_ERROR_NOT_FINITE && f.report.steps_done == 20 && f.events[EITP_EVENT_SKIPPED_STEP] == 0);
    CHECK_THAT(!strcmp(checkpoints(&f), ""), "%s", checkpoints(&f));
    f.config.check_finite = (eitp_check_finite)3;
    CHECK(train(&f) == EITP_ERROR_ARGUMENT && strstr(error_.message, "check_finite must be step, no or op (got 3)"));
    scratch_remove(f.directory);
}

/* An fp16 run skips its first steps until the loss scale fits. Its weights are fine. */
static void an_overflow_of_fp16_does_not_prevent_saving(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.v.precision = "fp16";
    f.config.steps = 30;
    CHECK_THAT(!train(&f), "%s", error_.message);
    CHECK(f.report.saved_step == 30);
    scratch_remove(f.directory);
}

static void a_task_with_a_bad_guess_is_refused(void) {
    fixture f;
    eitp_trainer *made;
    run *r = &f.trained;
    REQUIRE(begin_fixture(&f));
    REQUIRE_OK(make_run(r, &f.host, &f.v, f.directory, &error_), error_);
    CHECK(fabs(r->task.guess_loss - log(257.0)) < 1e-12);
    r->task.guess_loss = -1;
    CHECK(eitp_trainer_create(&r->task, &r->config, &made, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "guess_loss"), "%s", error_.message);
    r->task.guess_loss = (double)NAN;
    CHECK(eitp_trainer_create(&r->task, &r->config, &made, &error_) == EITP_ERROR_ARGUMENT);
    end_run(r);
    scratch_remove(f.directory);
}

static const test_case tests[] = {
    TEST(a_loss_above_that_of_guessing_has_diverged),
    TEST(a_model_that_never_was_good_has_not_diverged),
    TEST(fine_tuning_may_rise_below_guessing),
    TEST(a_short_spike_is_ignored),
    TEST(a_slow_rise_is_compared_with_the_best_save),
    TEST(losses_without_a_known_guess),
    TEST(medians),
    TEST(health_survives_a_resume),
    TEST(health_of_an_edited_file_is_refused),
    TEST(a_ruined_model_takes_the_place_of_no_good_one),
    TEST(a_checkpoint_that_was_ruined_when_it_was_saved_is_withdrawn),
    TEST(a_resumed_run_withdraws_a_ruined_checkpoint),
    TEST(a_checkpoint_without_a_recent_one_before_it_stays),
    TEST(a_diverged_run_says_so_once_and_keeps_the_model),
    TEST(a_run_that_diverges_at_once_has_no_checkpoint),
    TEST(an_evaluation_shows_that_the_last_step_ruined_the_model),
    TEST(a_stopped_run_that_has_diverged_is_not_saved),
    TEST(weights_that_are_not_finite_are_not_kept),
    TEST(saving_goes_on_when_the_model_recovers),
    TEST(evaluations_that_are_not_finite_end_patience),
    TEST(checks_are_by_step_by_op_or_not_at_all),
    TEST(an_overflow_of_fp16_does_not_prevent_saving),
    TEST(a_task_with_a_bad_guess_is_refused),
};

int main(int argc, char **argv) {
    return RUN_TESTS(tests, argc, argv);
}
