/* Observers of a run: their rows, and that the run follows the votes of an external one. */
#include "tests/support/own_task.h"

static eitp_error error;

enum { STEPS = 6, AT = 3 };

typedef enum vote { VOTE_NONE, VOTE_SAVE, VOTE_STOP, VOTE_FAIL, VOTE_SAVE_AND_STOP } vote;

/* A run in whose table an observer replaces the program's. */
typedef struct fixture {
    own o;
    char directory[512];
    eitp_run_config config;
    eitp_run_report report;
    eitp_run *run;
    char said[4096];
} fixture;

/* Action of the observer after step AT, and its observations. */
static struct observed {
    vote votes;
    eitp__verdict verdict; /* about the model, from step AT on */
    int64_t keeps;
    int drops;   /* steps to drop from step AT on */
    int is_told; /* a step was dropped */
    int begun, before, steps, evaluations, saves, complete, changes, ended;
} seen_;

static eitp_status observed_begin(eitp_run *trained, void *state, eitp_error *why) {
    (void)state, (void)why;
    CHECK(!trained->report.step.step);
    seen_.begun++;
    return EITP_OK;
}

static int observed_poll(eitp_run *trained, void *state) {
    (void)state;
    seen_.is_told |= seen_.drops > 0 && trained->report.step.step >= AT;
    return seen_.is_told;
}

static eitp_status observed_before_step(eitp_run *trained, void *state, eitp_error *why) {
    (void)trained, (void)state, (void)why;
    seen_.drops -= seen_.is_told;
    seen_.is_told = 0;
    seen_.before++;
    return EITP_OK;
}

static void observed_after_step(eitp_run *trained, void *state, eitp__decision *decision) {
    (void)state;
    CHECK(!decision->saves && !decision->stops && !decision->fails.status);
    seen_.steps++;
    if (trained->report.step.step != AT)
        return;
    decision->saves = seen_.votes == VOTE_SAVE || seen_.votes == VOTE_SAVE_AND_STOP;
    decision->stops = seen_.votes == VOTE_STOP || seen_.votes == VOTE_SAVE_AND_STOP;
    snprintf(decision->why, sizeof decision->why, "too hot");
    if (seen_.votes == VOTE_FAIL)
        eitp__fail(&decision->fails, EITP_ERROR_PRESSURE, "far too hot");
}

static void observed_after_evaluation(eitp_run *trained, void *state, eitp__decision *decision) {
    (void)state;
    CHECK(trained->report.evaluated_step == trained->report.step.step);
    CHECK(decision->stops == (trained->report.step.step == AT && seen_.votes == VOTE_SAVE_AND_STOP));
    seen_.evaluations++;
}

static void observed_judge(const eitp_run *trained, const void *state, eitp__assessment *judgement) {
    (void)state;
    CHECK(judgement->verdict == EITP__MODEL_GOOD);
    if (trained->report.step.step < AT)
        return;
    judgement->verdict = seen_.verdict;
    judgement->end = EITP_RUN_DIVERGED;
    snprintf(judgement->why, sizeof judgement->why, "it talks nonsense");
}

static void observed_before_save(eitp_run *trained, void *state) {
    (void)trained, (void)state;
    seen_.saves++;
}

static void observed_save_complete(eitp_run *trained, void *state, int64_t step) {
    (void)state;
    CHECK(trained->report.saved_step == step);
    seen_.complete++;
}

static int64_t observed_keeps(const eitp_run *trained, const void *state) {
    (void)trained, (void)state;
    return seen_.keeps;
}

static void observed_checkpoints_changed(eitp_run *trained, void *state) {
    (void)trained, (void)state;
    seen_.changes++;
}

static void observed_end(eitp_run *trained, void *state) {
    (void)trained, (void)state;
    seen_.ended++;
}

static void notice(void *user, const eitp_run_event *event) {
    fixture *f = (fixture *)user;
    const size_t used = strlen(f->said);
    snprintf(f->said + used, sizeof f->said - used, "%s\n", event->message);
}

static int begin(fixture *f) {
    const eitp_host host = eitp_host_default();
    eitp__observer *row;
    memset(f, 0, sizeof *f);
    memset(&seen_, 0, sizeof seen_);
    seen_.keeps = -1;
    if (!scratch_make(f->directory))
        return 0;
    f->config = eitp_run_config_default();
    f->config.directory = f->directory;
    f->config.steps = STEPS;
    f->config.eval_steps = f->config.save_steps = 0;
    f->config.memory_check_seconds = -1;
    f->config.listener.user = f;
    f->config.listener.notify = notice;
    if (own_begin(&f->o, &host, "fp32", OWN_ROW, &error) || own_train(&f->o, &error) ||
        eitp_run_open(&host, &f->config, &f->run, &error)) {
        CHECK_THAT(0, "%s", error.message);
        return 0;
    }
    row = &f->run->observers[EITP__OBSERVER_PROGRAM];
    row->begin = observed_begin;
    row->poll = observed_poll;
    row->before_step = observed_before_step;
    row->after_step = observed_after_step;
    row->after_evaluation = observed_after_evaluation;
    row->assess = observed_judge;
    row->before_save = observed_before_save;
    row->save_complete = observed_save_complete;
    row->keeps = observed_keeps;
    row->checkpoints_changed = observed_checkpoints_changed;
    row->end = observed_end;
    return 1;
}

static eitp_status train(fixture *f) {
    return eitp_run_train(f->run, f->o.trainer, &f->report, &error);
}

static void end(fixture *f) {
    eitp_run_close(f->run);
    own_end(&f->o);
    scratch_remove(f->directory);
}

static int exists(const fixture *f, const char *name) {
    const eitp_host host = eitp_host_default();
    eitp_path_info info;
    return !eitp__path_info(&host, scratch_path(f->directory, name), &info, NULL) && info.kind != EITP_PATH_MISSING;
}

/* ---- Tests ---- */

static void rows_are_complete(void) {
    fixture f;
    REQUIRE(begin(&f));
    for (int i = 0; i < EITP__OBSERVER_COUNT; i++) {
        const eitp__observer *row = &f.run->observers[i];
        CHECK_THAT(!row->write == !row->read && (!row->write || row->name), "observer %d", i);
        CHECK_THAT(!row->state_size == !f.run->states[i], "observer %d", i);
        for (int k = 0; k < i && row->name; k++)
            CHECK_THAT(!f.run->observers[k].name || strcmp(row->name, f.run->observers[k].name) != 0, "%s", row->name);
    }
    end(&f);
}

static void sees_the_moments_of_a_run(void) {
    fixture f;
    REQUIRE(begin(&f));
    CHECK_THAT(!train(&f), "%s", error.message);
    CHECK(f.report.end == EITP_RUN_FINISHED && seen_.begun == 1 && seen_.ended == 1);
    CHECK(seen_.before == STEPS && seen_.steps == STEPS && seen_.evaluations == 1);
    CHECK(seen_.saves == 1 && seen_.complete == 1 && seen_.changes == 1);
    end(&f);
}

static void a_vote_saves(void) {
    fixture f;
    REQUIRE(begin(&f));
    seen_.votes = VOTE_SAVE;
    CHECK_THAT(!train(&f), "%s", error.message);
    CHECK(f.report.end == EITP_RUN_FINISHED && exists(&f, "checkpoint-3") && exists(&f, "checkpoint-6"));
    CHECK(seen_.saves == 2 && seen_.complete == 2);
    end(&f);
}

static void a_vote_stops_the_run(void) {
    for (int saves = 0; saves < 2; saves++) {
        fixture f;
        REQUIRE(begin(&f));
        seen_.votes = saves ? VOTE_SAVE_AND_STOP : VOTE_STOP;
        CHECK_THAT(!train(&f), "%s", error.message);
        CHECK(f.report.end == EITP_RUN_EARLY_STOP && f.report.steps_done == AT && seen_.steps == AT);
        CHECK(exists(&f, "checkpoint-3") && seen_.saves == 1);
        CHECK_THAT(strstr(f.said, "too hot"), "%s", f.said);
        end(&f);
    }
}

/* An evaluation after the step does not withdraw the vote. */
static void a_vote_outlasts_an_evaluation(void) {
    fixture f;
    REQUIRE(begin(&f));
    seen_.votes = VOTE_SAVE_AND_STOP;
    f.run->config.eval_steps = AT;
    f.run->report.evaluated_step = 0;
    CHECK_THAT(!train(&f), "%s", error.message);
    CHECK(f.report.end == EITP_RUN_EARLY_STOP && f.report.steps_done == AT && seen_.evaluations == 2);
    end(&f);
}

static void a_vote_fails_the_run(void) {
    fixture f;
    REQUIRE(begin(&f));
    seen_.votes = VOTE_FAIL;
    CHECK(train(&f) == EITP_ERROR_PRESSURE && !strcmp(error.message, "far too hot"));
    CHECK(f.report.end == EITP_RUN_MEMORY_PRESSURE && f.report.steps_done == AT && exists(&f, "checkpoint-3"));
    CHECK(seen_.ended == 1);
    end(&f);
}

static void a_ruined_model_is_not_saved(void) {
    fixture f;
    REQUIRE(begin(&f));
    seen_.verdict = EITP__MODEL_DAMAGED;
    f.run->config.save_steps = 2;
    CHECK(train(&f) == EITP_ERROR_NOT_FINITE && f.report.end == EITP_RUN_DIVERGED);
    CHECK_THAT(strstr(error.message, "it talks nonsense; the last good checkpoint is"), "%s", error.message);
    CHECK_THAT(strstr(f.said, "not saving checkpoints until the model recovers: it talks nonsense"), "%s", f.said);
    CHECK(exists(&f, "checkpoint-2") && !exists(&f, "checkpoint-4") && !exists(&f, "checkpoint-6"));
    CHECK(exists(&f, "checkpoint-6.diverged"));
    end(&f);
}

static void an_unproven_model_is_saved_later(void) {
    fixture f;
    REQUIRE(begin(&f));
    seen_.verdict = EITP__MODEL_UNKNOWN;
    f.run->config.save_steps = 2;
    CHECK_THAT(!train(&f), "%s", error.message);
    CHECK(exists(&f, "checkpoint-2") && !exists(&f, "checkpoint-4"));
    end(&f);
}

static void what_it_keeps_stays(void) {
    fixture f;
    REQUIRE(begin(&f));
    seen_.keeps = 2;
    f.run->config.save_steps = 1;
    f.run->config.save_total_limit = 1;
    CHECK_THAT(!train(&f), "%s", error.message);
    CHECK(exists(&f, "checkpoint-2") && exists(&f, "checkpoint-6") && !exists(&f, "checkpoint-5"));
    end(&f);
}

/* A step that the observer drops is repeated with the same bits. */
static void a_dropped_step_is_repeated(void) {
    double losses[2] = {0, 0};
    for (int drops = 0; drops < 2; drops++) {
        fixture f;
        REQUIRE(begin(&f));
        seen_.drops = 2 * drops;
        CHECK_THAT(!train(&f), "%s", error.message);
        CHECK(f.report.end == EITP_RUN_FINISHED && seen_.steps == STEPS && !seen_.drops);
        CHECK_THAT(seen_.before == STEPS + 2 * drops, "%d", seen_.before);
        losses[drops] = f.report.step.loss;
        end(&f);
    }
    CHECK(losses[0] == losses[1]);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(rows_are_complete),           TEST(sees_the_moments_of_a_run),        TEST(a_vote_saves),
        TEST(a_vote_stops_the_run),        TEST(a_vote_outlasts_an_evaluation),    TEST(a_vote_fails_the_run),
        TEST(a_ruined_model_is_not_saved), TEST(an_unproven_model_is_saved_later), TEST(what_it_keeps_stays),
        TEST(a_dropped_step_is_repeated),
    };
    return RUN_TESTS(tests, argc, argv);
}
