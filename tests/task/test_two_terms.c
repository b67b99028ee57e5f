/* A custom task with two terms in eitp_run: its records, and the best checkpoint by a metric. */
#include "tests/support/own_task.h"

static eitp_error error;

/* A run in a scratch directory, with its evaluations. */
typedef struct fixture {
    own o;
    char directory[512];
    eitp_run_config config;
    eitp_run_report report;
    eitp_evaluation evaluations[16];
    int64_t steps[16];
    int count;
} fixture;

static void notice(void *user, const eitp_run_event *event) {
    fixture *f = (fixture *)user;
    if (event->kind != EITP_EVENT_EVALUATION || f->count == 16)
        return;
    f->steps[f->count] = event->report->evaluated_step;
    f->evaluations[f->count++] = event->report->evaluation;
}

static int begin(fixture *f) {
    const eitp_host host = eitp_host_default();
    eitp_status status;
    memset(f, 0, sizeof *f);
    if (!scratch_make(f->directory))
        return 0;
    status = own_begin(&f->o, &host, "fp32", OWN_ROW | OWN_SAMPLE | OWN_METRICS, &error);
    CHECK_THAT(!status, "%s", error.message);
    f->config = eitp_run_config_default();
    f->config.directory = f->directory;
    f->config.steps = 6;
    f->config.eval_steps = f->config.save_steps = 1;
    f->config.save_total_limit = 1;
    f->config.memory_check_seconds = -1;
    f->config.listener.user = f;
    f->config.listener.notify = notice;
    return !status;
}

static eitp_status train(fixture *f) {
    const eitp_host host = eitp_host_default();
    eitp_run *loop = NULL;
    eitp_status status = own_train(&f->o, &error);
    if (!status)
        status = eitp_run_open(&host, &f->config, &loop, &error);
    if (!status)
        status = eitp_run_train(loop, f->o.trainer, &f->report, &error);
    eitp_run_close(loop);
    return status;
}

static void end(fixture *f) {
    own_end(&f->o);
    scratch_remove(f->directory);
}

static void read_text(const fixture *f, const char *name, char *text, size_t size) {
    FILE *file = fopen(scratch_path(f->directory, name), "rb");
    text[file ? fread(text, 1, size - 1, file) : 0] = 0;
    if (file)
        fclose(file);
}

/* Returns the line of metrics.jsonl that starts with `start`. */
static void read_line(const fixture *f, const char *start, char *line, size_t size) {
    char text[16384], *found;
    read_text(f, "metrics.jsonl", text, sizeof text);
    found = strstr(text, start);
    CHECK_THAT(found, "'%s' is not in %s", start, text);
    snprintf(line, size, "%.*s", found ? (int)strcspn(found, "\n") : 0, found ? found : "");
}

/* Returns the value of a key; NaN and a failed check if it is missing. */
static double number_of(const char *line, const char *key) {
    char quoted[80];
    const char *found;
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    found = strstr(line, quoted);
    CHECK_THAT(found, "'%s' is not in %s", key, line);
    return found ? strtod(found + strlen(quoted), NULL) : (double)NAN;
}

static int lacks(const char *line, const char *word) {
    return !strstr(line, word);
}

static int exists(const fixture *f, int64_t step) {
    const eitp_host host = eitp_host_default();
    eitp_path_info info;
    char name[40];
    snprintf(name, sizeof name, "checkpoint-%lld", (long long)step);
    return !eitp__path_info(&host, scratch_path(f->directory, name), &info, NULL) && info.kind != EITP_PATH_MISSING;
}

/* ---- Tests ---- */

static void records_name_terms_and_metrics(void) {
    char step[2048], evaluation[2048];
    fixture f;
    REQUIRE(begin(&f));
    CHECK_THAT(!train(&f), "%s", error.message);
    read_line(&f, "{\"step\": 2, \"loss\"", step, sizeof step);
    CHECK(own_near(number_of(step, "loss"), number_of(step, "loss_row") + 0.3 * number_of(step, "loss_sample"), 1e-9));
    CHECK(own_near(number_of(step, "items"), 6 * OWN_ROWS, 0) && number_of(step, "items_per_s") > 0);
    CHECK(lacks(step, "tokens") && lacks(step, "size") && lacks(step, "perplexity"));
    read_line(&f, "{\"step\": 2, \"val_loss\"", evaluation, sizeof evaluation);
    CHECK(own_near(number_of(evaluation, "val_loss"),
                   number_of(evaluation, "val_loss_row") + 0.3 * number_of(evaluation, "val_loss_sample"), 1e-9));
    CHECK(number_of(evaluation, "val_loss_error") > 0 && number_of(evaluation, "val_loss_row_error") > 0);
    CHECK(number_of(evaluation, "val_loss_sample_error") > 0);
    CHECK(number_of(evaluation, "val_row size") > 0 && number_of(evaluation, "val_row size_error") > 0);
    CHECK(own_near(number_of(evaluation, "val_sample size"), f.evaluations[2].metrics[3].mean, 1e-9));
    CHECK(number_of(evaluation, "val_total") > 0 && own_near(number_of(evaluation, "val_total_error"), 0, 0));
    CHECK(own_near(number_of(evaluation, "val_items"), OWN_VALIDATION * OWN_ROWS, 0));
    CHECK(lacks(evaluation, "tokens") && lacks(evaluation, "perplexity") && lacks(evaluation, "val_loss_total"));
    CHECK(f.report.items == 6 * 6 * OWN_ROWS);
    end(&f);
}

/* Keys contain the task's unit. */
static void records_contain_the_unit_of_the_task(void) {
    char step[2048], evaluation[2048];
    fixture f;
    REQUIRE(begin(&f));
    f.o.task.unit = "points";
    CHECK_THAT(!train(&f), "%s", error.message);
    read_line(&f, "{\"step\": 1, \"loss\"", step, sizeof step);
    read_line(&f, "{\"step\": 1, \"val_loss\"", evaluation, sizeof evaluation);
    CHECK(own_near(number_of(step, "points"), 6 * OWN_ROWS, 0) && number_of(step, "points_per_s") > 0);
    CHECK(number_of(evaluation, "val_points") > 0 && lacks(step, "items") && lacks(evaluation, "items"));
    end(&f);
}

/* Returns the step of the best evaluation after step 0 by a quantity. */
static int64_t best_of(const fixture *f, int quantity, int higher) {
    int best = -1;
    for (int i = 0; i < f->count; i++) {
        const double value = f->evaluations[i].metrics[quantity].mean;
        const double most = best < 0 ? 0 : f->evaluations[best].metrics[quantity].mean;
        if (f->steps[i] > 0 && (best < 0 || (higher ? value > most : value < most)))
            best = i;
    }
    return best < 0 ? -1 : f->steps[best];
}

static void the_best_is_kept_by_a_term_or_a_metric(void) {
    static const struct {
        const char *name;
        int quantity, higher;
    } ways[] = {{"sample size", 3, 0}, {"sample size", 3, 1}, {"row size", 2, 0}, {"row", 0, 0}};
    char json[1024];
    int different = 0;
    for (size_t i = 0; i < EITP__COUNT(ways); i++) {
        fixture f;
        int64_t best;
        REQUIRE(begin(&f));
        f.config.keep_best = ways[i].name;
        f.o.direction = ways[i].higher ? EITP_HIGHER_IS_BETTER : EITP_LOWER_IS_BETTER;
        CHECK_THAT(!train(&f), "%s", error.message);
        best = best_of(&f, ways[i].quantity, ways[i].higher);
        CHECK_THAT(f.count == 7 && f.report.best_step == best, "%s: step %d is not %d", ways[i].name,
                   (int)f.report.best_step, (int)best);
        CHECK(own_near(f.report.best_value, f.evaluations[best].metrics[ways[i].quantity].mean, 1e-12));
        CHECK(exists(&f, best) && exists(&f, 6));
        different += best != 6 && !exists(&f, best == 5 ? 4 : 5);
        read_text(&f, "best.json", json, sizeof json);
        CHECK_THAT(strstr(json, ways[i].name), "%s", json);
        end(&f);
    }
    CHECK(different > 0); /* the best is not always the last */
}

static void keep_best_rejects_an_unknown_metric(void) {
    fixture f;
    REQUIRE(begin(&f));
    f.config.keep_best = "accuracy";
    CHECK(train(&f) == EITP_ERROR_ARGUMENT && strstr(error.message, "accuracy"));
    CHECK(f.count == 0);
    end(&f);
}

/* A metric without a direction is evaluated and recorded, but has no best value. */
static void keep_best_rejects_a_metric_without_a_direction(void) {
    fixture f;
    REQUIRE(begin(&f));
    f.config.keep_best = "total";
    CHECK_THAT(train(&f) == EITP_ERROR_ARGUMENT && strstr(error.message, "metric 'total' has no direction"), "%s",
               error.message);
    CHECK(f.count == 0 && !strchr(error.message, '\n'));
    end(&f);
}

/* A run that ends during a series of unapplied steps and is resumed from the saved state stops where the
   uninterrupted run would stop. None of its models is saved as a checkpoint. */
static void the_count_of_steps_not_applied_survives(void) {
    for (int killed = 0; killed < 2; killed++) {
        fixture f;
        char kept[600];
        REQUIRE(begin(&f));
        snprintf(kept, sizeof kept, "%s/checkpoint-2.diverged", f.directory);
        f.o.nan_sample = 3;
        f.o.task.samples[EITP_TRAINING] = 6; /* every step contains all samples */
        f.config.max_nonfinite = 3;
        f.config.eval_steps = 0;
        f.config.steps = 12;
        if (killed) {
            f.config.steps = 2;
            CHECK_THAT(train(&f) == EITP_ERROR_NOT_FINITE && f.report.saved_step == -1, "%s", error.message);
            CHECK(!exists(&f, 1) && !exists(&f, 2));
            f.config.resume = EITP_RESUME_NAMED;
            f.config.checkpoint = kept;
            f.config.steps = 12;
            eitp_trainer_destroy(f.o.trainer);
        }
        CHECK_THAT(train(&f) == EITP_ERROR_NOT_FINITE, "%d", killed);
        CHECK_THAT(f.report.steps_done == 3, "%d", (int)f.report.steps_done);
        end(&f);
    }
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(records_name_terms_and_metrics),
        TEST(records_contain_the_unit_of_the_task),
        TEST(the_best_is_kept_by_a_term_or_a_metric),
        TEST(keep_best_rejects_an_unknown_metric),
        TEST(keep_best_rejects_a_metric_without_a_direction),
        TEST(the_count_of_steps_not_applied_survives),
    };
    return RUN_TESTS(tests, argc, argv);
}
