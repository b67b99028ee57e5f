/* Trained models opened by their recipe: what is evaluated, used without data, packed, and refused. */
#include "tests/support/trainer_run.h"

enum { STEPS = 4, ROWS = 60, LOG_SIZE = 4000 };

/* ---- Fixture ---- */

/* A character classifier and a byte-level language model, trained in a scratch directory. */
typedef struct fixture {
    char directory[512];
    char paths[8][600];
    int path_count;
    const char *data[1];
    char log[LOG_SIZE];
    eitp_recipe recipe;
} fixture;

static void collect_log(void *user, eitp_log_level level, const char *message) {
    fixture *f = (fixture *)user;
    const size_t size = strlen(f->log);
    snprintf(f->log + size, sizeof f->log - size, "%s%s\n", level >= EITP_LOG_WARNING ? "warning: " : "", message);
}

static const char *path_of(fixture *f, const char *name) {
    char *path = f->paths[f->path_count++ % 8];
    snprintf(path, sizeof f->paths[0], "%s", scratch_path(f->directory, name));
    return path;
}

static int write_rows(fixture *f, const char *name, const char *first, const char *const rows[2], int count) {
    FILE *file = fopen(scratch_path(f->directory, name), "wb");
    if (!file)
        return 0;
    fputs(first, file);
    for (int i = 0; i < count; i++)
        fputs(rows[i * i % 3 == 1], file);
    return !fclose(file);
}

static int begin(fixture *f) {
    static const char *const texts[] = {"a b c,up\n", "x y,down\n"};
    static const char *const lines[] = {"A quick fox jumps.\n", "Two dogs sleep; one barks.\n"};
    eitp_recipe recipe = eitp_recipe_default();
    memset(f, 0, sizeof *f);
    recipe.context.host.log.user = f;
    recipe.context.host.log.write = collect_log;
    recipe.context.threads = 1;
    recipe.model.shape = "tiny";
    recipe.model.layers = 1;
    recipe.model.width = 16;
    recipe.model.heads = 2;
    recipe.task.block_size = 16;
    recipe.memory.precision = "fp32";
    recipe.memory.optimizer = "adamw";
    recipe.trainer.batch_size = 2;
    recipe.trainer.grad_accum = 2;
    recipe.run.steps = STEPS;
    recipe.run.save_steps = 0;
    recipe.run.eval_steps = STEPS;
    recipe.data.training.texts = f->data;
    recipe.data.training.count = 1;
    f->recipe = recipe;
    return scratch_make(f->directory) && write_rows(f, "texts.csv", "text,label\n", texts, ROWS) &&
           write_rows(f, "other.csv", "text,label\n", texts, ROWS / 2) && write_rows(f, "text.txt", "", lines, ROWS) &&
           write_rows(f, "other.txt", "", lines, 9);
}

static void end(fixture *f) {
    scratch_remove(f->directory);
}

/* Sets the recipe of one of the two models. */
static void describe(fixture *f, int classifies) {
    f->data[0] = path_of(f, classifies ? "texts.csv" : "text.txt");
    f->recipe.data.label_column = classifies ? "label" : NULL;
    f->recipe.run.directory = path_of(f, classifies ? "labels" : "text");
}

/* Trains the model, and returns the loss of its last evaluation. */
static double train(fixture *f) {
    eitp_training *training = NULL;
    eitp_run_report report;
    memset(&report, 0, sizeof report);
    f->log[0] = 0;
    CHECK(!eitp_training_open(&f->recipe, &training, &error_));
    CHECK(!eitp_training_run(training, &report, &error_));
    eitp_training_close(training);
    CHECK(report.evaluated_step == STEPS);
    return report.evaluation.loss;
}

/* Opens and prepares the trained model, and evaluates it. */
static eitp_status evaluate(fixture *f, eitp_trained_samples samples, eitp_evaluation *evaluation,
                            eitp_training_data *data) {
    eitp_training *training = NULL;
    eitp_status status;
    f->log[0] = 0;
    memset(evaluation, 0, sizeof *evaluation);
    status = eitp_training_open_trained(&f->recipe, samples, &training, &error_);
    if (!status)
        status = eitp_training_prepare(training, &error_);
    if (!status)
        status = eitp_evaluate(eitp_training_get_task(training), EITP_TRAINING, 2, 0, evaluation, &error_);
    if (data)
        *data = eitp_training_get_data(training, EITP_TRAINING);
    eitp_training_close(training);
    return status;
}

static int exists(fixture *f, const char *name) {
    const eitp_host host = eitp_host_default();
    eitp_path_info info;
    return !eitp__path_info(&host, scratch_path(f->directory, name), &info, NULL) && info.kind != EITP_PATH_MISSING;
}

/* ---- Tests ---- */

/* Its data are split as in the run, using the run's packed files. */
static void the_parts_are_those_of_the_run(void) {
    for (int classifies = 0; classifies < 2; classifies++) {
        fixture f;
        eitp_evaluation held, kept, all;
        eitp_training_data data;
        double loss;
        REQUIRE(begin(&f));
        describe(&f, classifies);
        loss = train(&f);
        REQUIRE_OK(evaluate(&f, EITP_SAMPLES_VALIDATION, &held, &data), error_);
        CHECK_THAT(held.loss == loss, "%d: %.9g, not %.9g", classifies, held.loss, loss);
        CHECK(strstr(f.log, "evaluating the packed data of the run") && !strstr(f.log, "packed 1"));
        CHECK(data.is_labelled == classifies && data.trained > 0.8 && data.trained < 0.95);
        REQUIRE_OK(evaluate(&f, EITP_SAMPLES_TRAINING, &kept, NULL), error_);
        REQUIRE_OK(evaluate(&f, EITP_SAMPLES_ALL, &all, NULL), error_);
        CHECK(kept.items > held.items && all.items >= kept.items + held.items);
        /* The text file is no longer needed. */
        remove(f.data[0]);
        REQUIRE_OK(evaluate(&f, EITP_SAMPLES_VALIDATION, &held, NULL), error_);
        CHECK(held.loss == loss && strstr(f.log, "warning: the text of the run has gone missing"));
        end(&f);
    }
}

/* The run's own validation data are evaluated in full. */
static void validation_data_is_evaluated_whole(void) {
    for (int classifies = 0; classifies < 2; classifies++) {
        fixture f;
        eitp_evaluation held;
        const char *validation[1];
        double loss;
        REQUIRE(begin(&f));
        describe(&f, classifies);
        validation[0] = path_of(&f, classifies ? "other.csv" : "other.txt");
        f.recipe.data.validation.texts = validation;
        f.recipe.data.validation.count = 1;
        loss = train(&f);
        REQUIRE_OK(evaluate(&f, EITP_SAMPLES_VALIDATION, &held, NULL), error_);
        CHECK_THAT(held.loss == loss, "%d: %.9g, not %.9g", classifies, held.loss, loss);
        end(&f);
    }
}

/* Other data are packed where the program specifies, otherwise in the run's directory. */
static void other_data_is_packed(void) {
    fixture f;
    eitp_evaluation all;
    eitp_training_data data;
    REQUIRE(begin(&f));
    describe(&f, 0);
    train(&f);
    f.data[0] = path_of(&f, "other.txt");
    f.recipe.data.rereads[EITP_TRAINING] = 1;
    f.recipe.data.packed = path_of(&f, "packed");
    REQUIRE_OK(evaluate(&f, EITP_SAMPLES_ALL, &all, &data), error_);
    CHECK(exists(&f, "packed") && data.trained == 0 && data.bytes_per_token > 0.9);
    CHECK(evaluate(&f, EITP_SAMPLES_TRAINING, &all, NULL) == EITP_ERROR_ARGUMENT &&
          strstr(error_.message, "the run was trained on other data"));
    f.recipe.data.packed = NULL;
    REQUIRE_OK(evaluate(&f, EITP_SAMPLES_ALL, &all, NULL), error_);
    CHECK(strstr(f.log, "packed 1 document"));
    REQUIRE_OK(evaluate(&f, EITP_SAMPLES_ALL, &all, NULL), error_);
    CHECK(strstr(f.log, "reusing packed data"));
    end(&f);
}

/* Without samples there is a model but no task. It neither trains nor locks the directory. */
static void it_is_used_without_data(void) {
    fixture f;
    eitp_training *training = NULL, *other = NULL;
    const char *label = NULL;
    double probability = 0;
    REQUIRE(begin(&f));
    describe(&f, 1);
    train(&f);
    f.recipe.data.training.count = 0;
    REQUIRE_OK(eitp_training_open_trained(&f.recipe, EITP_SAMPLES_NONE, &training, &error_), error_);
    CHECK(!eitp_training_get_model(training) && strstr(eitp_training_get_source(training).checkpoint, "checkpoint-4"));
    CHECK(eitp_training_plan(training, NULL, &error_) == EITP_ERROR_ARGUMENT);
    REQUIRE_OK(eitp_training_prepare(training, &error_), error_);
    CHECK(!eitp_training_get_task(training) && !eitp_training_get_trainer(training));
    CHECK(eitp_training_run(training, NULL, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "open its recipe with eitp_training_open to train"), "%s", error_.message);
    REQUIRE_OK(eitp_classify_text(eitp_training_get_model(training), eitp_training_get_tokenizer(training), "a b", 3,
                                  &label, &probability, &error_),
               error_);
    CHECK(label && (!strcmp(label, "up") || !strcmp(label, "down")));
    f.recipe.data.training.count = 1;
    f.recipe.run.steps = STEPS + 1;
    REQUIRE_OK(eitp_training_open(&f.recipe, &other, &error_), error_);
    eitp_training_close(other);
    eitp_training_close(training);
    CHECK(exists(&f, "labels/checkpoint-4"));
    end(&f);
}

/* If a run removes the checkpoint between opening and preparing, the one that the path now refers to is used. */
static void a_removed_checkpoint_is_found_again(void) {
    const eitp_host host = eitp_host_default();
    fixture f;
    eitp_training *training = NULL;
    REQUIRE(begin(&f));
    describe(&f, 0);
    f.recipe.run.save_steps = 2;
    f.recipe.run.save_total_limit = 0;
    train(&f);
    REQUIRE_OK(eitp_training_open_trained(&f.recipe, EITP_SAMPLES_VALIDATION, &training, &error_), error_);
    REQUIRE_OK(eitp__remove_tree(&host, scratch_path(f.directory, "text/checkpoint-4"), &error_), error_);
    REQUIRE_OK(eitp_training_prepare(training, &error_), error_);
    CHECK(strstr(eitp_training_get_source(training).checkpoint, "checkpoint-2"));
    eitp_training_close(training);
    f.recipe.run.directory = path_of(&f, "text/checkpoint-2");
    REQUIRE_OK(eitp_training_open_trained(&f.recipe, EITP_SAMPLES_NONE, &training, &error_), error_);
    REQUIRE_OK(eitp__remove_tree(&host, f.recipe.run.directory, &error_), error_);
    CHECK(eitp_training_prepare(training, &error_) == EITP_ERROR_ARGUMENT &&
          strstr(error_.message, "was removed while it was being read"));
    eitp_training_close(training);
    end(&f);
}

static void what_is_missing_is_named(void) {
    eitp_training *training = NULL;
    eitp_evaluation all;
    fixture f;
    const eitp_recipe zeros = EITP__ZERO;
    REQUIRE(begin(&f));
    CHECK(eitp_training_open_trained(&zeros, EITP_SAMPLES_NONE, &training, &error_) == EITP_ERROR_ARGUMENT &&
          strstr(error_.message, "eitp_recipe_default"));
    describe(&f, 0);
    CHECK(evaluate(&f, (eitp_trained_samples)4, &all, NULL) == EITP_ERROR_ARGUMENT &&
          strstr(error_.message, "unknown samples 4"));
    CHECK(evaluate(&f, EITP_SAMPLES_ALL, &all, NULL) == EITP_ERROR_ARGUMENT);
    train(&f);
    f.recipe.data.training.count = 0;
    CHECK(evaluate(&f, EITP_SAMPLES_ALL, &all, NULL) == EITP_ERROR_ARGUMENT && strstr(error_.message, "set data") &&
          strstr(error_.message, "EITP_SAMPLES_NONE"));
    f.recipe.run.directory = NULL;
    CHECK(evaluate(&f, EITP_SAMPLES_NONE, &all, NULL) == EITP_ERROR_ARGUMENT &&
          strstr(error_.message, "run.directory"));
    CHECK(eitp_training_open_trained(NULL, EITP_SAMPLES_NONE, &training, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(!eitp_training_get_source(NULL).checkpoint);
    end(&f);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(the_parts_are_those_of_the_run), TEST(validation_data_is_evaluated_whole),  TEST(other_data_is_packed),
        TEST(it_is_used_without_data),        TEST(a_removed_checkpoint_is_found_again), TEST(what_is_missing_is_named),
    };
    return RUN_TESTS(tests, argc, argv);
}
