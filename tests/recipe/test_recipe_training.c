/* Training from recipes: each task, resuming, refusals, the plan, interruptions and failing calls. */
#include "tests/support/trainer_run.h"

#include <errno.h>

enum { STEPS = 4, STOP = 2, LOG_SIZE = 8000, MOST_FAILURES = 30 };

/* ---- Fixture ---- */

/* A recipe whose data and output are in a scratch directory, and the results of its training. */
typedef struct fixture {
    char directory[512], output[600], model[600];
    char paths[8][600]; /* of files named in the recipe */
    const char *training[1], *validation[1];
    eitp_recipe recipe;
    eitp_training *trained;    /* while the recipe is open */
    int64_t stop_after;        /* 0: never */
    int64_t last_step;         /* set by the last check_stopped_run */
    int64_t polls, poll_after; /* calls of poll so far; the call that requests a stop (0: none) */
    eitp_run_report report;
    char log[LOG_SIZE];
} fixture;

static void collect_log(void *user, eitp_log_level level, const char *message) {
    fixture *f = (fixture *)user;
    const size_t size = strlen(f->log);
    snprintf(f->log + size, sizeof f->log - size, "%s%s\n", level >= EITP_LOG_WARNING ? "warning: " : "", message);
}

static void notice(void *user, const eitp_run_event *event) {
    fixture *f = (fixture *)user;
    if (event->kind == EITP_EVENT_STEP && event->report->step.step == f->stop_after)
        eitp_run_request_stop(eitp_training_get_run(f->trained), 15);
}

static int poll_fixture(void *user, const eitp_training_progress *progress) {
    fixture *f = (fixture *)user;
    CHECK(progress && progress->stage);
    f->polls++;
    return f->poll_after && f->polls >= f->poll_after;
}

static int write_file(const fixture *f, const char *name, const char *text) {
    const eitp_host host = eitp_host_default();
    return !eitp__write_file(&host, scratch_path(f->directory, name), text, strlen(text), &error_);
}

/* Writes a first line, then `count` lines or rows that depend on their number. */
static int write_rows(const fixture *f, const char *name, const char *first, const char *const rows[3], int count) {
    FILE *file = fopen(scratch_path(f->directory, name), "wb");
    if (!file)
        return 0;
    fputs(first, file);
    for (int i = 0; i < count; i++)
        fputs(rows[i * i % 3 + (i % 5 == 2)], file);
    return !fclose(file);
}

static int write_data(const fixture *f) {
    static const char *const lines[] = {"A quick fox jumps.\n", "Two dogs sleep; one barks.\n", "It rains again.\n"};
    static const char *const texts[] = {"a b c,up\n", "x y,down\n", "a z q,up\n"};
    static const char *const numbers[] = {"a b c,0.5\n", "x y,1.25\n", "a z q,-3\n"};
    static const char *const words[] = {"a B-X\nb I-X\nc O\n\n", "x O\ny B-Y\n\n", "q O\n\n"};
    static const char letters[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\nd\ne\nq\nx\ny\nz\n";
    const eitp_host host = eitp_host_default();
    return write_rows(f, "text.txt", "", lines, 40) && write_rows(f, "held.txt", "", lines, 9) &&
           write_rows(f, "letters.txt", "", texts, 60) && write_rows(f, "texts.csv", "text,label\n", texts, 24) &&
           write_rows(f, "numbers.csv", "text,label\n", numbers, 24) && write_rows(f, "words.conll", "", words, 24) &&
           !host.files.make_directory(host.files.user, scratch_path(f->directory, "letters")) &&
           write_file(f, "letters/vocab.txt", letters) &&
           write_file(f, "letters/tokenizer_config.json", "{\"tokenizer_class\": \"BertTokenizer\"}");
}

/* Returns the path of a file of the fixture, valid as long as the fixture. */
static const char *keep_path(fixture *f, const char *name) {
    const char *path = scratch_path(f->directory, name);
    int i = 0;
    while (f->paths[i][0] && strcmp(f->paths[i], path))
        i++;
    snprintf(f->paths[i], sizeof f->paths[i], "%s", path);
    return f->paths[i];
}

static void use_data(fixture *f, const char *training, const char *validation) {
    f->training[0] = training ? keep_path(f, training) : NULL;
    f->validation[0] = validation ? keep_path(f, validation) : NULL;
    f->recipe.data.training.texts = f->training;
    f->recipe.data.training.count = training != NULL;
    f->recipe.data.validation.texts = f->validation;
    f->recipe.data.validation.count = validation != NULL;
}

/* Sets the output of the training to "directory/name". */
static void use_output(fixture *f, const char *name) {
    snprintf(f->output, sizeof f->output, "%s/%s", f->directory, name);
    f->recipe.run.directory = f->output;
}

/* A tiny byte-level language model. */
static void describe(fixture *f) {
    eitp_recipe recipe = eitp_recipe_default();
    recipe.context.host.log.user = f;
    recipe.context.host.log.write = collect_log;
    recipe.context.threads = 1;
    recipe.model.shape = "tiny";
    recipe.model.layers = 1;
    recipe.model.width = 16;
    recipe.model.heads = 2;
    recipe.model.dropout = 0.1;
    recipe.task.block_size = 16;
    recipe.memory.budget = (uint64_t)1 << 34;
    recipe.memory.precision = "fp32";
    recipe.memory.optimizer = "adamw";
    recipe.trainer.batch_size = 2;
    recipe.trainer.grad_accum = 2;
    recipe.run.steps = STEPS;
    recipe.run.eval_steps = 2;
    recipe.run.eval_samples = 4;
    recipe.run.save_steps = 0;
    recipe.run.memory_check_seconds = -1;
    recipe.run.listener.user = f;
    recipe.run.listener.notify = notice;
    f->recipe = recipe;
    use_data(f, "text.txt", NULL);
    use_output(f, "out");
}

static int begin(fixture *f) {
    memset(f, 0, sizeof *f);
    if (!scratch_make(f->directory) || !write_data(f))
        return 0;
    describe(f);
    return 1;
}

static void end(fixture *f) {
    scratch_remove(f->directory);
}

/* Opens the recipe, trains until `stop_after`, and closes it. */
static eitp_status train(fixture *f, int64_t stop_after) {
    eitp_status status;
    f->log[0] = 0;
    f->stop_after = stop_after;
    memset(&f->report, 0, sizeof f->report);
    memset(&error_, 0, sizeof error_);
    status = eitp_training_open(&f->recipe, &f->trained, &error_);
    if (!status)
        status = eitp_training_run(f->trained, &f->report, &error_);
    eitp_training_close(f->trained);
    f->trained = NULL;
    return status;
}

/* Opens and closes the recipe. This must fail, with these words in a one-line message. */
static void check_refused(fixture *f, eitp_status expected, const char *words) {
    const eitp_status status = train(f, 0);
    CHECK_THAT(status == expected && strstr(error_.message, words) && !strchr(error_.message, '\n'),
               "%d, '%s', not '%s'", (int)status, error_.message, words);
    CHECK_THAT(!strstr(error_.message, "--"), "an option in: %s", error_.message);
}

static int exists(const char *directory, const char *name) {
    const eitp_host host = eitp_host_default();
    eitp_path_info info;
    return !eitp__path_info(&host, scratch_path(directory, name), &info, NULL) && info.kind != EITP_PATH_MISSING;
}

/* True if two files have the same bytes. Sets *has_first to 1 if the first one exists. */
static int files_are_equal(const char *a, const char *b, int *has_first) {
    FILE *first = fopen(a, "rb"), *second = fopen(b, "rb");
    int same = first && second, x = 0, y = 0;
    *has_first = first != NULL;
    while (same && x != EOF) {
        x = fgetc(first);
        y = fgetc(second);
        same = x == y;
    }
    if (first)
        fclose(first);
    if (second)
        fclose(second);
    return same;
}

/* True if the last checkpoints of two outputs have the same weights, or adapters, and the same optimizer state. */
static int ends_are_equal(const fixture *f, const char *a, const char *b) {
    static const char *const names[] = {"model.safetensors", "adapter_model.safetensors", "optimizer.safetensors"};
    const int64_t last = f->recipe.run.steps ? f->recipe.run.steps : f->last_step;
    int count = 0;
    for (size_t i = 0; i < EITP__COUNT(names); i++) {
        char one[100], other[100];
        int has_first, same;
        snprintf(one, sizeof one, "%s/checkpoint-%d/%s", a, (int)last, names[i]);
        snprintf(other, sizeof other, "%s/checkpoint-%d/%s", b, (int)last, names[i]);
        same = files_are_equal(scratch_path(f->directory, one), scratch_path(f->directory, other), &has_first);
        if (has_first && !same)
            return 0;
        count += has_first;
    }
    return count == 2;
}

/* ---- Each task ---- */

typedef struct task_case {
    const char *name;
    void (*describe)(fixture *f);
    const char *kind;   /* its name in run.json */
    const char *metric; /* a metric of its evaluation; NULL: none */
} task_case;

/* Packs the first files of a list. */
static void pack_tokens(fixture *f, size_t count) {
    const eitp_host host = eitp_host_default();
    const char *const paths[] = {keep_path(f, "text.txt"), keep_path(f, "letters.txt")};
    eitp_pack_config pack = eitp_pack_config_default();
    eitp_sample_file_info info;
    eitp_tokenizer *bytes = NULL;
    pack.texts.paths = paths;
    pack.texts.path_count = count;
    CHECK(!eitp_tokenizer_create_bytes(&host, &bytes, &error_));
    CHECK(!eitp_pack(&host, bytes, &pack, scratch_path(f->directory, "packed.tokens"), &info, &error_));
    eitp_tokenizer_destroy(bytes);
}

static void describe_tokens_file(fixture *f) {
    pack_tokens(f, 1);
    use_data(f, "packed.tokens", NULL);
}

/* A character-level encoder. */
static void describe_encoder(fixture *f) {
    f->recipe.model.shape = "minilm";
    f->recipe.model.positions = 16;
    f->recipe.model.tokenizer = keep_path(f, "letters");
}

static void describe_masked(fixture *f) {
    describe_encoder(f);
    use_data(f, "letters.txt", NULL);
}

static void describe_classification(fixture *f) {
    describe_encoder(f);
    use_data(f, "texts.csv", NULL);
}

static void describe_masked_rows(fixture *f) {
    describe_classification(f);
    f->recipe.task.kind = EITP_TASK_MASKED;
}

static void describe_words(fixture *f) {
    describe_encoder(f);
    use_data(f, "words.conll", NULL);
}

static void describe_regression(fixture *f) {
    describe_encoder(f);
    use_data(f, "numbers.csv", NULL);
    f->recipe.task.kind = EITP_TASK_REGRESSION;
}

/* A decoder that learns byte labels, without a tokenizer. */
static void describe_byte_labels(fixture *f) {
    use_data(f, "texts.csv", NULL);
    f->recipe.data.label_column = "label";
}

static void describe_automatic(fixture *f) {
    f->recipe.memory.precision = f->recipe.memory.optimizer = "auto";
    f->recipe.run.steps = 0;
    f->recipe.epochs = 0.2;
    f->recipe.warmup_ratio = 0.5;
    f->recipe.trainer.grad_accum = 1;
}

/* Small variables stay in memory, so it has some of 32 KiB. */
static void describe_offloaded(fixture *f) {
    f->recipe.model.width = 64;
    f->recipe.memory.offload = "all";
    f->recipe.memory.recompute = EITP_RECOMPUTE_LAYER;
}

static void describe_frozen(fixture *f) {
    f->recipe.model.freeze = "embeddings";
    f->recipe.trainer.micro_batches_per_pass = 1;
}

static const task_case tasks[] = {{"text", NULL, "lm", NULL},
                                  {"a token file", describe_tokens_file, "lm", NULL},
                                  {"automatic", describe_automatic, "lm", NULL},
                                  {"offloaded", describe_offloaded, "lm", NULL},
                                  {"frozen", describe_frozen, "lm", NULL},
                                  {"hidden tokens", describe_masked, "mlm", NULL},
                                  {"hidden tokens of rows", describe_masked_rows, "mlm", NULL},
                                  {"labels", describe_classification, "classify", "accuracy"},
                                  {"labels of bytes", describe_byte_labels, "classify", "accuracy"},
                                  {"labels of words", describe_words, "tokens", NULL},
                                  {"numbers", describe_regression, "regress", NULL}};

static int record_names(const fixture *f, const char *kind) {
    static char text[20000];
    char words[40];
    FILE *file = fopen(scratch_path(f->output, "run.json"), "rb");
    const size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[size] = 0;
    if (file)
        fclose(file);
    snprintf(words, sizeof words, "\"task\": \"%s\"", kind);
    return strstr(text, words) != NULL;
}

static int has_metric(const eitp_evaluation *evaluation, const char *name) {
    for (int m = 0; m < evaluation->metric_count; m++) {
        if (!strcmp(evaluation->metrics[m].name, name))
            return 1;
    }
    return 0;
}

/* Trains in the output "straight", and in "stopped" with a stop after a step. Both must end with the same bytes. */
static void check_stopped_run(fixture *f, const char *name) {
    use_output(f, "straight");
    REQUIRE_OK(train(f, 0), error_);
    CHECK_THAT(f->report.end == EITP_RUN_FINISHED || f->report.end == EITP_RUN_END_OF_DATA, "%s: %d", name,
               (int)f->report.end);
    f->last_step = f->report.steps_done;
    CHECK_THAT(f->report.steps_done > STOP && f->report.evaluations > 0, "%s", name);
    use_output(f, "stopped");
    REQUIRE_OK(train(f, STOP), error_);
    CHECK_THAT(f->report.end == EITP_RUN_STOPPED && f->report.steps_done == STOP && f->report.stop_reason == 15,
               "%s: %d", name, (int)f->report.end);
    REQUIRE_OK(train(f, 0), error_);
    CHECK_THAT(f->report.start_step == STOP && f->report.steps_done == f->last_step, "%s", name);
    CHECK_THAT(ends_are_equal(f, "straight", "stopped"), "%s: other bytes", name);
    CHECK_THAT(!strstr(f->log, "has changed") && !strstr(f->log, "packed 1"), "%s: %s", name, f->log);
}

static void a_stopped_training_goes_on(void) {
    for (size_t i = 0; i < EITP__COUNT(tasks); i++) {
        fixture f;
        REQUIRE(begin(&f));
        if (tasks[i].describe)
            tasks[i].describe(&f);
        check_stopped_run(&f, tasks[i].name);
        CHECK_THAT(record_names(&f, tasks[i].kind), "%s", tasks[i].name);
        CHECK_THAT(!tasks[i].metric || has_metric(&f.report.evaluation, tasks[i].metric), "%s", tasks[i].name);
        end(&f);
    }
}

/* Trains the language model that others start from, in the output "base". */
static int train_base(fixture *f) {
    use_output(f, "base");
    snprintf(f->model, sizeof f->model, "%s", f->output);
    f->recipe.run.steps = 2;
    if (train(f, 0))
        return 0;
    describe(f);
    f->recipe.model.directory = f->model;
    f->recipe.model.shape = NULL;
    f->recipe.model.layers = f->recipe.model.heads = f->recipe.model.width = 0;
    return 1;
}

static void weights_are_trained_further(void) {
    fixture f;
    REQUIRE(begin(&f) && train_base(&f));
    check_stopped_run(&f, "fine-tuning");
    CHECK(exists(scratch_path(f.output, "checkpoint-4"), "tokenizer.json") ||
          !exists(scratch_path(f.model, "checkpoint-2"), "tokenizer.json"));
    end(&f);
}

static void a_resumed_run_keeps_its_shape(void) {
    fixture f;
    REQUIRE(begin(&f) && train_base(&f));
    describe(&f);
    use_output(&f, "base");
    f.recipe.model.width = 32;
    check_refused(&f, EITP_ERROR_ARGUMENT, "width 32); set init as it was to resume");
    f.recipe.model.width = 16;
    REQUIRE_OK(train(&f, 0), error_);
    f.recipe.model.positions = 32;
    check_refused(&f, EITP_ERROR_ARGUMENT, "positions is 32, but '");
    f.recipe.model.positions = 0;
    f.recipe.model.latent_input = EITP_LATENT_ADDED;
    check_refused(&f, EITP_ERROR_ARGUMENT, "was started with latent_input prefix, not added; leave it out to resume");
    f.recipe.model.latent_input = EITP_LATENT_PREFIX;
    f.recipe.model.freeze = "layers:1";
    check_refused(&f, EITP_ERROR_ARGUMENT, "was started without freeze; leave it out to resume it");
    use_output(&f, "frozen");
    REQUIRE_OK(train(&f, 2), error_);
    f.recipe.model.freeze = "embeddings";
    check_refused(&f, EITP_ERROR_ARGUMENT, "was started with freeze layers:1, not embeddings; leave it out");
    f.recipe.model.freeze = "layers:1";
    REQUIRE_OK(train(&f, 0), error_);
    end(&f);
}

static void adapters_are_trained(void) {
    fixture f;
    REQUIRE(begin(&f) && train_base(&f));
    f.recipe.model.lora_rank = 2;
    f.recipe.model.lora_dropout = 0.1;
    check_stopped_run(&f, "adapters");
    CHECK(exists(f.output, "checkpoint-4/adapter_model.safetensors"));
    f.recipe.model.lora_rank = 0;
    check_refused(&f, EITP_ERROR_ARGUMENT, "has adapters of rank 2; set lora_rank to it");
    use_output(&f, "base");
    f.recipe.model.lora_rank = 2;
    check_refused(&f, EITP_ERROR_ARGUMENT, "has no adapters to resume");
    end(&f);
}

/* A classifier is initialized with the weights of a language model. */
static void a_language_model_becomes_a_classifier(void) {
    fixture f;
    REQUIRE(begin(&f) && train_base(&f));
    describe_byte_labels(&f);
    f.recipe.model.tokenizer = NULL;
    f.recipe.task.class_weights = "balanced";
    check_stopped_run(&f, "a classifier of a language model");
    end(&f);
}

/* Training a complete run does no step, and changes nothing. */
static void a_complete_training_does_no_step(void) {
    fixture f;
    REQUIRE(begin(&f));
    REQUIRE_OK(train(&f, 0), error_);
    CHECK(f.report.steps_done == STEPS && f.report.start_step == 0);
    REQUIRE_OK(train(&f, 0), error_);
    CHECK(f.report.start_step == STEPS && f.report.steps_done == STEPS && !f.report.step.step);
    CHECK(exists(f.output, "run.json"));
    end(&f);
}

/* Open settings are those of the checkpoint. */
static void an_open_setting_is_the_checkpoints(void) {
    fixture f;
    REQUIRE(begin(&f));
    f.recipe.memory.optimizer = "sgd";
    use_output(&f, "straight");
    REQUIRE_OK(train(&f, 0), error_);
    use_output(&f, "open");
    REQUIRE_OK(train(&f, STOP), error_);
    f.recipe.task.block_size = -1;
    f.recipe.memory.optimizer = f.recipe.memory.precision = "auto";
    f.recipe.model.shape = NULL;
    f.recipe.model.layers = f.recipe.model.heads = f.recipe.model.width = 0;
    REQUIRE_OK(train(&f, 0), error_);
    CHECK(f.report.start_step == STOP && ends_are_equal(&f, "straight", "open"));
    end(&f);
}

/* A trained model can be used in the process that trained it. */
static void its_objects_are_accessible(void) {
    fixture f;
    eitp_training *t = NULL;
    REQUIRE(begin(&f));
    REQUIRE_OK(eitp_training_open(&f.recipe, &t, &error_), error_);
    CHECK(eitp_training_get_run(t) && eitp_training_get_tokenizer(t) && eitp_training_get_fit(t));
    CHECK(!eitp_training_get_model(t) && !eitp_training_get_task(t) && !eitp_training_get_trainer(t));
    CHECK(!eitp_training_get_context(t) && eitp_training_get_recipe(t)->trainer.batch_size == 2);
    REQUIRE_OK(eitp_training_prepare(t, &error_), error_);
    CHECK(eitp_training_get_model(t) && eitp_training_get_task(t) && eitp_training_get_trainer(t));
    CHECK(eitp_training_get_context(t) && !strcmp(eitp_training_get_recipe(t)->memory.optimizer, "adamw"));
    CHECK(eitp_training_get_recipe(t)->trainer.schedule.peak > 0);
    eitp_training_close(t);
    CHECK(!exists(f.output, "run.json")); /* no step was done */
    eitp_training_close(NULL);
    CHECK(!eitp_training_get_run(NULL) && !eitp_training_get_recipe(NULL) && !eitp_training_get_task(NULL));
    CHECK(eitp_training_open(NULL, &t, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_training_open(&f.recipe, NULL, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_training_plan(NULL, NULL, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_training_describe(NULL, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_training_open_plan(NULL, &t, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_training_open_plan(&f.recipe, NULL, &error_) == EITP_ERROR_ARGUMENT);
    end(&f);
}

/* ---- Text that changes between two starts ---- */

/* Trains without a stop; stopped, changed and resumed; and stopped, deleted and resumed. */
static void check_changed_data(fixture *f, const char *name, const char *data, const char *held, const char *row) {
    static const char *const outputs[] = {"changed", "deleted"};
    use_output(f, "straight");
    REQUIRE_OK(train(f, 0), error_);
    for (int i = 0; i < 2; i++) {
        use_output(f, outputs[i]);
        REQUIRE_OK(train(f, STOP), error_);
        CHECK_THAT(!strstr(f->log, "continues with the packed data"), "%s: %s", name, f->log);
    }
    for (int i = 0; i < 2; i++) {
        FILE *file = i ? NULL : fopen(scratch_path(f->directory, data), "ab");
        use_output(f, outputs[i]);
        if (file)
            fputs(row, file), fclose(file);
        if (i)
            CHECK(!remove(scratch_path(f->directory, data)) && (!held || !remove(scratch_path(f->directory, held))));
        REQUIRE_OK(train(f, 0), error_);
        CHECK_THAT(ends_are_equal(f, "straight", outputs[i]), "%s, %s: other bytes", name, outputs[i]);
        CHECK_THAT(strstr(f->log, i ? "warning: the text of data has gone missing since '"
                                    : "warning: the text of data has changed or moved since '") &&
                       strstr(f->log, "the run continues with the packed data '"),
                   "%s, %s: %s", name, outputs[i], f->log);
        CHECK_THAT(!!strstr(f->log, "warning: the text of val_data has gone missing") == (i && held), "%s, %s: %s",
                   name, outputs[i], f->log);
        CHECK_THAT(!strstr(f->log, "packed 1") && f->report.start_step == STOP, "%s, %s: %s", name, outputs[i], f->log);
    }
}

static void texts_may_change_or_go(void) {
    fixture f;
    REQUIRE(begin(&f));
    use_data(&f, "text.txt", "held.txt");
    check_changed_data(&f, "text", "text.txt", "held.txt", "One more line.\n");
    end(&f);
}

static void rows_may_change_or_go(void) {
    static const struct {
        void (*describe)(fixture *f);
        const char *data, *row;
    } cases[] = {{describe_classification, "texts.csv", "a b,other\n"},
                 {describe_masked_rows, "texts.csv", "a b,other\n"},
                 {describe_masked, "letters.txt", "a b c d e\n"},
                 {describe_words, "words.conll", "q B-Z\n\n"},
                 {describe_regression, "numbers.csv", "a,7.5\n"}};
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        fixture f;
        REQUIRE(begin(&f));
        cases[i].describe(&f);
        check_changed_data(&f, cases[i].data, cases[i].data, NULL, cases[i].row);
        end(&f);
    }
}

/* A token file that has grown by a document is used up to its former end. */
static void a_token_file_may_grow(void) {
    fixture f;
    REQUIRE(begin(&f));
    pack_tokens(&f, 1);
    use_data(&f, "packed.tokens", "held.txt");
    use_output(&f, "straight");
    REQUIRE_OK(train(&f, 0), error_);
    use_output(&f, "grown");
    REQUIRE_OK(train(&f, STOP), error_);
    pack_tokens(&f, 2);
    REQUIRE_OK(train(&f, 0), error_);
    CHECK_THAT(strstr(f.log, "warning: the data have grown from "), "%s", f.log);
    CHECK(f.report.start_step == STOP && ends_are_equal(&f, "straight", "grown"));
    end(&f);
}

/* Without its packed file, changed text counts as other data. */
static void other_data_is_refused(void) {
    static const char other[] = "Another text, which is long enough for some samples, but not the one that the run has "
                                "packed at its start. ab cd ef gh ij kl mn op qr st uv";
    const eitp_host host = eitp_host_default();
    fixture f;
    REQUIRE(begin(&f));
    REQUIRE_OK(train(&f, STOP), error_);
    REQUIRE(!eitp__remove_tree(&host, scratch_path(f.output, "data"), &error_));
    REQUIRE(write_file(&f, "text.txt", other));
    f.recipe.data.validation_fraction = 0;
    check_refused(&f, EITP_ERROR_ARGUMENT, "the training data differ from the data of '");
    REQUIRE(!remove(scratch_path(f.directory, "text.txt")));
    check_refused(&f, EITP_ERROR_ARGUMENT, "text.txt: no such file");
    end(&f);
}

/* ---- The input of the program ---- */

/* A document that is read once, like standard input. With a `text` of NULL it must not be read. */
typedef struct input {
    const char *text;
    int reads;
} input;

static eitp_status read_input(void *user, const char **text, size_t *size, eitp_error *error) {
    input *in = (input *)user;
    if (!in->text)
        return eitp__fail(error, EITP_ERROR_INTERNAL, "the input was read");
    *text = in->reads == 0 ? in->text : in->reads == 1 ? "" : NULL;
    *size = in->reads == 0 ? strlen(in->text) : 0;
    in->reads++;
    return EITP_OK;
}

static void use_input(fixture *f, input *in, const char *text) {
    static const char *const paths[] = {"-"};
    in->text = text;
    in->reads = 0;
    f->recipe.data.training.texts = paths;
    f->recipe.data.training.count = 1;
    f->recipe.data.input.user = in;
    f->recipe.data.input.read = read_input;
}

/* Two inputs have the same name. A run without steps does not pass its input on to the next one, and a continued run
   reads no input. */
static void an_input_is_read_by_a_new_run(void) {
    static const char other[] =
        "What was to be trained at first, but the program was stopped before the first step of it, and started again "
        "with other text. ab cd ef gh ij kl mn op qr st uv wx yz AB CD EF GH IJ KL MN OP QR ST UV WX YZ 01 23 45 67 89";
    static char text[4000];
    fixture f;
    input in;
    FILE *file;
    REQUIRE(begin(&f));
    file = fopen(scratch_path(f.directory, "text.txt"), "rb");
    REQUIRE(file && fread(text, 1, sizeof text - 1, file) > 500 && !fclose(file));
    use_output(&f, "straight");
    REQUIRE_OK(train(&f, 0), error_);
    use_output(&f, "out");
    use_input(&f, &in, other);
    REQUIRE_OK(eitp_training_open(&f.recipe, &f.trained, &error_), error_);
    eitp_training_close(f.trained);
    use_input(&f, &in, text);
    REQUIRE_OK(train(&f, STOP), error_);
    use_input(&f, &in, NULL);
    REQUIRE_OK(train(&f, 0), error_);
    CHECK(f.report.start_step == STOP && ends_are_equal(&f, "straight", "out"));
    end(&f);
}

/* ---- What is refused ---- */

static void validation_data_is_used(void) {
    fixture f;
    REQUIRE(begin(&f));
    use_data(&f, "text.txt", "held.txt");
    f.recipe.run.keep_best = "loss";
    REQUIRE_OK(train(&f, 0), error_);
    CHECK(f.report.evaluations > 1 && exists(f.output, "best.json"));
    use_data(&f, "text.txt", NULL);
    f.recipe.data.validation_fraction = 0;
    use_output(&f, "none");
    check_refused(&f, EITP_ERROR_ARGUMENT, "keep_best and patience require validation data; set val_data or val_frac");
    f.recipe.run.keep_best = NULL;
    f.recipe.run.patience = 2;
    check_refused(&f, EITP_ERROR_ARGUMENT, "keep_best and patience require validation data");
    f.recipe.run.patience = 0;
    REQUIRE_OK(train(&f, 0), error_);
    CHECK(!f.report.evaluations);
    end(&f);
}

static void a_task_needs_its_labels(void) {
    fixture f;
    REQUIRE(begin(&f));
    describe_masked(&f);
    f.recipe.task.kind = EITP_TASK_CLASSIFICATION;
    check_refused(&f, EITP_ERROR_ARGUMENT, "label_column");
    use_data(&f, "numbers.csv", NULL);
    check_refused(&f, EITP_ERROR_ARGUMENT, "are fractional numbers; set task to regress");
    use_data(&f, "words.conll", NULL);
    check_refused(&f, EITP_ERROR_ARGUMENT, "has a label for each word; set task to tokens");
    f.recipe.task.kind = EITP_TASK_REGRESSION;
    use_data(&f, "texts.csv", NULL);
    check_refused(&f, EITP_ERROR_FORMAT, "number");
    f.recipe.task.kind = EITP_TASK_LANGUAGE;
    check_refused(&f, EITP_ERROR_UNSUPPORTED, "does not predict the next token");
    f.recipe.task.kind = EITP_TASK_MASKED;
    use_data(&f, "letters.txt", NULL);
    f.recipe.model.tokenizer = NULL;
    f.recipe.model.vocabulary = 261; /* too small for learned tokens */
    check_refused(&f, EITP_ERROR_ARGUMENT, "needs one with a mask token; name one as tokenizer");
    f.recipe.model.vocabulary = 0;
    f.recipe.model.shape = "tiny";
    check_refused(&f, EITP_ERROR_UNSUPPORTED, "train it with task lm");
    CHECK(!exists(f.output, "run.json"));
    end(&f);
}

static void a_model_and_data_are_needed(void) {
    fixture f;
    REQUIRE(begin(&f));
    f.recipe.model.directory = f.directory;
    check_refused(&f, EITP_ERROR_ARGUMENT, "model and init exclude each other");
    f.recipe.model.directory = f.recipe.model.shape = NULL;
    check_refused(&f, EITP_ERROR_ARGUMENT, "a recipe needs a model: ");
    f.recipe.model.shape = "tyni";
    check_refused(&f, EITP_ERROR_ARGUMENT, "'tyni'");
    f.recipe.model.shape = "tiny";
    use_data(&f, NULL, NULL);
    check_refused(&f, EITP_ERROR_ARGUMENT, "a recipe needs data: ");
    use_data(&f, "none.txt", NULL);
    check_refused(&f, EITP_ERROR_ARGUMENT, "none.txt: no such file");
    f.recipe.model.shape = "minilm";
    check_refused(&f, EITP_ERROR_ARGUMENT, "none.txt: no such file");
    f.recipe.model.shape = "tiny";
    use_data(&f, "text.txt", "none.txt");
    check_refused(&f, EITP_ERROR_ARGUMENT, "none.txt: no such file");
    CHECK(!exists(f.output, "run.json"));
    f.recipe.run.directory = NULL;
    check_refused(&f, EITP_ERROR_ARGUMENT, "a recipe needs run.directory");
    end(&f);
}

/* Samples of labelled text are cut to the model's positions, which a larger block size does not change. */
static void a_block_size_above_the_positions_is_lowered(void) {
    static const int64_t sizes[] = {8, 9, -1, 0};
    for (size_t i = 0; i < 2 * EITP__COUNT(sizes); i++) {
        const int64_t size = sizes[i / 2];
        fixture f;
        REQUIRE(begin(&f));
        (i % 2 ? describe_masked_rows : describe_classification)(&f);
        f.recipe.model.positions = 8;
        f.recipe.task.block_size = size;
        f.recipe.run.steps = 1;
        CHECK_THAT(!eitp_training_open(&f.recipe, &f.trained, &error_), "%s", error_.message);
        CHECK(f.trained && eitp_training_get_recipe(f.trained)->task.block_size == 8);
        eitp_training_close(f.trained);
        CHECK_THAT(
            !!strstr(f.log,
                     "warning: block_size is above the model's 8 positions (got 9): samples are cut to 8 tokens\n") ==
                (size == 9),
            "%lld: %s", (long long)size, f.log);
        CHECK_THAT(!!strstr(f.log, "is above") == (size == 9), "%s", f.log);
        end(&f);
    }
}

static void windows_above_the_positions_are_lowered(void) {
    fixture f;
    REQUIRE(begin(&f));
    f.recipe.model.positions = 8;
    f.recipe.task.block_size = 9;
    eitp_fit_candidate chosen;
    CHECK_THAT(!eitp_training_open(&f.recipe, &f.trained, &error_), "%s", error_.message);
    CHECK_THAT(!eitp_training_plan(f.trained, &chosen, &error_), "%s", error_.message);
    CHECK(f.trained && eitp_training_get_recipe(f.trained)->task.block_size == 8);
    eitp_training_close(f.trained);
    CHECK_THAT(strstr(f.log, "warning: block_size is above the model's 8 positions (got 9): windows have 8 tokens\n"),
               "%s", f.log);
    end(&f);
}

static void change_block_size(eitp_recipe *recipe) {
    recipe->task.block_size = 4;
}

static void change_column(eitp_recipe *recipe) {
    recipe->data.text_column = "label";
    recipe->data.label_column = "text";
}

static void change_rows(eitp_recipe *recipe) {
    recipe->data.dedup = 1;
}

static void lengthen_positions(eitp_recipe *recipe) {
    recipe->task.block_size = 99;
}

/* A resumed run reads its data again if the recipe specifies them differently. It continues, or is refused and names
   the setting. */
static void settings_that_decide_samples_are_followed(void) {
    static const struct {
        void (*change)(eitp_recipe *recipe);
        const char *log;      /* the expected log message about the data; NULL: none */
        const char *error[2]; /* NULL: it continues */
    } cases[] = {{change_block_size, "samples into 96 tokens, at most 4 each", {NULL, NULL}},
                 {change_column, NULL, {"since text_column, label_column changed: ", "no label named"}},
                 {change_rows, "packed 3 samples into", {"since dedup changed: ", "the training data differ"}},
                 {lengthen_positions, NULL, {NULL, NULL}}};
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        fixture f;
        REQUIRE(begin(&f));
        describe_classification(&f);
        REQUIRE_OK(train(&f, STOP), error_);
        cases[i].change(&f.recipe);
        f.log[0] = 0;
        CHECK_THAT((train(&f, 0) != EITP_OK) == (cases[i].error[0] != NULL), "%d: %s", (int)i, error_.message);
        for (int e = 0; e < 2; e++)
            CHECK_THAT(!cases[i].error[e] || strstr(error_.message, cases[i].error[e]), "%d: %s", (int)i,
                       error_.message);
        CHECK_THAT(cases[i].log ? !!strstr(f.log, cases[i].log) : !strstr(f.log, "samples into"), "%d: %s", (int)i,
                   f.log);
        CHECK_THAT(!strstr(f.log, "has changed or moved"), "%d: %s", (int)i, f.log);
        end(&f);
    }
}

static void settings_that_need_lost_data_are_refused(void) {
    fixture f;
    REQUIRE(begin(&f));
    describe_classification(&f);
    REQUIRE_OK(train(&f, STOP), error_);
    REQUIRE(!remove(scratch_path(f.directory, "texts.csv")));
    change_block_size(&f.recipe);
    CHECK(train(&f, 0) != EITP_OK);
    CHECK_THAT(strstr(error_.message, "since block_size changed: ") && strstr(error_.message, "texts.csv"), "%s",
               error_.message);
    lengthen_positions(&f.recipe);
    CHECK_THAT(!train(&f, 0), "%s", error_.message);
    end(&f);
}

static void a_wrong_value_is_refused(void) {
    fixture f;
    REQUIRE(begin(&f));
    f.recipe.memory.optimizer = "adamm";
    check_refused(&f, EITP_ERROR_ARGUMENT, "optimizer: invalid value 'adamm' (choose from auto, adamw,");
    describe(&f);
    f.recipe.memory.precision = "half";
    check_refused(&f, EITP_ERROR_ARGUMENT, "precision: invalid value 'half' (choose from auto, fp32, bf16, fp16)");
    describe(&f);
    f.recipe.model.width = 15;
    check_refused(&f, EITP_ERROR_ARGUMENT, "width 15 must be a multiple of heads 2");
    describe(&f);
    f.recipe.model.lora_rank = 2;
    check_refused(&f, EITP_ERROR_ARGUMENT, "lora_rank requires model");
    describe(&f);
    f.recipe.task.kind = (eitp_task_kind)7;
    check_refused(&f, EITP_ERROR_ARGUMENT, "task must be ");
    describe(&f);
    f.recipe.trainer.batch_size = 0;
    check_refused(&f, EITP_ERROR_ARGUMENT, "batch_size must be at least 1");
    describe(&f);
    f.recipe.model.vocabulary = 100;
    check_refused(&f, EITP_ERROR_ARGUMENT, "vocab_size to 257");
    describe(&f);
    f.recipe.model.tokenizer = "none";
    check_refused(&f, EITP_ERROR_ARGUMENT, "no tokenizer at 'none'");
    describe(&f);
    f.recipe.model.freeze = "nothing.like.this";
    check_refused(&f, EITP_ERROR_ARGUMENT, "nothing.like.this");
    describe(&f);
    f.recipe.run.steps = 0;
    f.recipe.epochs = 0;
    check_refused(&f, EITP_ERROR_ARGUMENT, "epochs");
    f.recipe.epochs = 1;
    f.recipe.drop_last = 1;
    f.recipe.trainer.batch_size = 4096;
    check_refused(&f, EITP_ERROR_ARGUMENT, "drop_last: the data have ");
    CHECK(!exists(f.output, "run.json") && !exists(f.output, "checkpoint-0"));
    end(&f);
}

/* The directory opened by a training is locked. */
static void a_directory_is_opened_once(void) {
    fixture f;
    eitp_training *first = NULL, *second = NULL;
    REQUIRE(begin(&f));
    REQUIRE_OK(eitp_training_open(&f.recipe, &first, &error_), error_);
    CHECK(eitp_training_open(&f.recipe, &second, &error_) != EITP_OK && !second);
    CHECK_THAT(strstr(error_.message, "out'"), "%s", error_.message);
    eitp_training_close(first);
    REQUIRE_OK(train(&f, 0), error_);
    end(&f);
}

/* ---- Weights of labels ---- */

static void labels_have_weights(void) {
    static const char *const wrong[] = {"1",     "1,2,3", "1,2,",    "1;2",  "-1,2", "1,nan",
                                        "1,inf", "1 2",   "1,1e999", "much", "",     "1,,2"};
    fixture f;
    REQUIRE(begin(&f));
    describe_classification(&f);
    f.recipe.task.class_weights = "1,1";
    check_stopped_run(&f, "weights of 1");
    describe(&f);
    describe_classification(&f);
    use_output(&f, "none");
    REQUIRE_OK(train(&f, 0), error_);
    CHECK(ends_are_equal(&f, "straight", "none"));
    f.recipe.task.class_weights = "balanced";
    use_output(&f, "balanced");
    REQUIRE_OK(train(&f, 0), error_);
    CHECK(!ends_are_equal(&f, "none", "balanced"));
    f.recipe.task.class_weights = " 0.5 , 3e0 ";
    use_output(&f, "numbers");
    REQUIRE_OK(train(&f, 0), error_);
    CHECK(!ends_are_equal(&f, "none", "numbers") && !ends_are_equal(&f, "balanced", "numbers"));
    use_output(&f, "wrong");
    for (size_t i = 0; i < EITP__COUNT(wrong); i++) {
        f.recipe.task.class_weights = wrong[i];
        check_refused(&f, EITP_ERROR_ARGUMENT, "(choose from none, balanced, or 2 numbers separated by commas");
    }
    end(&f);
}

/* ---- Labels packed by an earlier version ---- */

/* Turns the only packed file into one of version 1, in which labels are stored as written. */
static void make_labels_old(const fixture *f) {
    const eitp_host host = eitp_host_default();
    char *directory = eitp__join_path(&host, f->output, "data"), *path;
    unsigned char *bytes;
    eitp__buffer names, content;
    size_t count = 0;
    eitp__buffer_init(&names, &host);
    eitp__buffer_init(&content, &host);
    REQUIRE_OK(eitp__list_directory(&host, directory, &names, &count, &error_), error_);
    REQUIRE(count == 1);
    path = eitp__join_path(&host, directory, names.data);
    REQUIRE_OK(eitp__read_file(&host, path, 1 << 20, &content, &error_), error_);
    bytes = (unsigned char *)content.data;
    CHECK(bytes[8] == 4 && bytes[148] == 1);
    bytes[8] = 1;
    bytes[148] = 0;
    eitp__put_number(bytes + 252, 4, eitp__crc32c(0, bytes, 252));
    REQUIRE_OK(eitp__write_file(&host, path, content.data, content.size, &error_), error_);
    eitp__buffer_release(&content);
    eitp__buffer_release(&names);
    eitp__release_text(&host, path);
    eitp__release_text(&host, directory);
}

static void open_and_close(fixture *f) {
    eitp_training *t = NULL;
    f->log[0] = 0;
    REQUIRE_OK(eitp_training_open(&f->recipe, &t, &error_), error_);
    eitp_training_close(t);
}

/* A new run packs such labels again, and a resumed one continues with them. */
static void old_labels_are_packed_again(void) {
    fixture f;
    REQUIRE(begin(&f));
    describe_classification(&f);
    open_and_close(&f);
    open_and_close(&f);
    CHECK_THAT(strstr(f.log, "reusing packed data"), "%s", f.log);
    make_labels_old(&f);
    open_and_close(&f);
    CHECK_THAT(
        strstr(f.log,
               "packed by an earlier version, which read labels and weights differently; packing the data again"),
        "%s", f.log);
    REQUIRE_OK(train(&f, STOP), error_);
    make_labels_old(&f);
    f.log[0] = 0;
    REQUIRE_OK(train(&f, 0), error_);
    CHECK_THAT(strstr(f.log, "reusing packed data") && !strstr(f.log, "has changed"), "%s", f.log);
    end(&f);
}

/* ---- The plan ---- */

static void a_plan_is_what_is_used(void) {
    fixture f;
    eitp_training *t = NULL;
    eitp_fit_candidate chosen, again;
    size_t arena;
    REQUIRE(begin(&f));
    f.recipe.memory.optimizer = f.recipe.memory.precision = "auto";
    REQUIRE_OK(eitp_training_open(&f.recipe, &t, &error_), error_);
    REQUIRE_OK(eitp_training_plan(t, &chosen, &error_), error_);
    CHECK(chosen.total > 0 && chosen.total <= f.recipe.memory.budget);
    REQUIRE_OK(eitp_training_plan(t, &again, &error_), error_);
    CHECK(again.total == chosen.total && again.optimizer == chosen.optimizer);
    REQUIRE_OK(eitp_training_prepare(t, &error_), error_);
    arena = eitp_context_arena_bytes(eitp_training_get_context(t));
    CHECK_THAT(arena == chosen.arena + chosen.workspace, "planned %llu and %llu bytes, prepared %llu",
               (unsigned long long)chosen.arena, (unsigned long long)chosen.workspace, (unsigned long long)arena);
    eitp_training_close(t);
    end(&f);
}

static void a_plan_that_does_not_fit_is_refused(void) {
    fixture f;
    eitp_training *t = NULL;
    REQUIRE(begin(&f));
    f.recipe.memory.budget = 100000;
    REQUIRE_OK(eitp_training_open(&f.recipe, &t, &error_), error_);
    CHECK(eitp_training_plan(t, NULL, &error_) == EITP_ERROR_MEMORY);
    CHECK_THAT(strlen(error_.message) > 20 && !strchr(error_.message, '\n'), "%s", error_.message);
    CHECK(eitp_training_run(t, NULL, &error_) == EITP_ERROR_MEMORY);
    eitp_training_close(t);
    CHECK(!exists(f.output, "run.json"));
    end(&f);
}

/* ---- Samples of text ---- */

static const char *const prompts_[] = {"A quick ", "Two d\xC3\xB6gs", "\"\n", "a", "b", "c", "d", "e", "f"};

static void use_prompts(fixture *f, size_t count) {
    f->recipe.task.sample_prompts.texts = prompts_;
    f->recipe.task.sample_prompts.count = count;
    f->recipe.task.sample_tokens = 20;
}

static void describe_prompts(fixture *f) {
    use_prompts(f, 2);
}

/* Appends the steps and samples in the evaluations.jsonl of an output to text[size]. */
static void read_samples(const fixture *f, const char *output, char *text, size_t size) {
    const eitp_host host = eitp_host_default();
    char name[100], line[8000];
    FILE *file;
    snprintf(name, sizeof name, "%s/evaluations.jsonl", output);
    file = fopen(scratch_path(f->directory, name), "rb");
    *text = 0;
    while (file && fgets(line, sizeof line, file)) {
        eitp_json_document *document = NULL;
        const eitp_json *record, *sample;
        int64_t step = -1;
        CHECK_THAT(!eitp_json_parse(&host, line, strlen(line), &document, &error_), "%s", line);
        record = eitp_json_root(document);
        sample = eitp_json_member(record, "samples");
        CHECK(!eitp__json_get_integer(record, "step", 0, 100, &step, &error_) && step >= 0);
        snprintf(text + strlen(text), size - strlen(text), "%d", (int)step);
        for (sample = sample ? sample->first_child : NULL; sample; sample = sample->next) {
            const char *prompt = "", *continued = "", *end = "";
            int64_t tokens = 0;
            eitp__json_get_text(sample, "prompt", &prompt, &error_);
            eitp__json_get_text(sample, "text", &continued, &error_);
            eitp__json_get_text(sample, "end", &end, &error_);
            eitp__json_get_integer(sample, "tokens", 0, 1000, &tokens, &error_);
            CHECK_THAT(*continued && tokens == 20 && !strcmp(end, "length"), "%s", line);
            snprintf(text + strlen(text), size - strlen(text), " [%s: %s]", prompt, continued);
        }
        snprintf(text + strlen(text), size - strlen(text), "\n");
        eitp_json_release(document);
    }
    if (file)
        fclose(file);
}

/* The model continues the prompts at each evaluation. The training is unchanged, and a resumed run has the same
   samples, once, as an uninterrupted one. */
static void prompts_are_continued(void) {
    static char straight[20000], resumed[20000];
    fixture f;
    REQUIRE(begin(&f));
    use_output(&f, "plain");
    REQUIRE_OK(train(&f, 0), error_);
    CHECK(!exists(f.output, "evaluations.jsonl"));
    use_prompts(&f, 3);
    use_output(&f, "straight");
    REQUIRE_OK(train(&f, 0), error_);
    CHECK_THAT(!strstr(f.log, "warning"), "%s", f.log);
    CHECK(ends_are_equal(&f, "plain", "straight"));
    read_samples(&f, "straight", straight, sizeof straight);
    CHECK_THAT(!strncmp(straight, "0 [A quick : ", 13) && strstr(straight, "\n2 [A quick : ") &&
                   strstr(straight, "\n4 [A quick : ") && strstr(straight, " [Two d\xC3\xB6gs: "),
               "%s", straight);
    use_output(&f, "resumed");
    REQUIRE_OK(train(&f, 2), error_);
    REQUIRE_OK(train(&f, 0), error_);
    CHECK(f.report.start_step == 2 && ends_are_equal(&f, "plain", "resumed"));
    read_samples(&f, "resumed", resumed, sizeof resumed);
    CHECK_THAT(!strcmp(straight, resumed), "%s, not %s", resumed, straight);
    /* Without a file for the samples, none are written. */
    use_output(&f, "silent");
    f.recipe.run.report_to = "csv";
    REQUIRE_OK(train(&f, 0), error_);
    CHECK(strstr(f.log, "warning: sample_prompt has no effect") && !exists(f.output, "evaluations.jsonl"));
    end(&f);
}

static void prompts_that_cannot_be_continued_are_refused(void) {
    static char longest[EITP_SAMPLE_PROMPT_SIZE + 2];
    static const char *const long_prompts[] = {longest};
    fixture f;
    REQUIRE(begin(&f));
    use_prompts(&f, EITP_MAX_SAMPLE_PROMPTS + 1);
    check_refused(&f, EITP_ERROR_ARGUMENT, "sample_prompt: got 9 prompts (maximum 8)");
    memset(longest, 'a', sizeof longest - 1);
    f.recipe.task.sample_prompts.texts = long_prompts;
    f.recipe.task.sample_prompts.count = 1;
    check_refused(&f, EITP_ERROR_ARGUMENT, "sample_prompt: prompt 1 has 1025 bytes (maximum 1024)");
    use_prompts(&f, 1);
    f.recipe.task.sample_tokens = 0;
    check_refused(&f, EITP_ERROR_ARGUMENT, "sample_tokens");
    use_prompts(&f, 1);
    f.recipe.data.validation_fraction = 0;
    check_refused(&f, EITP_ERROR_ARGUMENT, "sample_prompt requires validation data");
    f.recipe.data.validation_fraction = 0.1;
    describe_classification(&f);
    check_refused(&f, EITP_ERROR_ARGUMENT, "trained for task classify does not generate text");
    end(&f);
    REQUIRE(begin(&f));
    describe_masked(&f);
    use_prompts(&f, 1);
    check_refused(&f, EITP_ERROR_ARGUMENT, "trained for task mlm does not generate text");
    end(&f);
}

/* Plans a training whose prompt is continued by `tokens` tokens. */
static eitp_fit_candidate plan_prompt(fixture *f, int64_t tokens, eitp_training **training) {
    eitp_fit_candidate chosen = eitp_fit_candidate_default();
    use_prompts(f, 1);
    f->recipe.task.sample_tokens = tokens;
    CHECK_THAT(!eitp_training_open(&f->recipe, training, &error_) && !eitp_training_plan(*training, &chosen, &error_),
               "%s", error_.message);
    return chosen;
}

/* Fixes the resident memory of the process, which counts in plans and would grow between two of them. */
static int fix_resident(fixture *f) {
    const char *directory = keep_path(f, "machine/proc/self");
    if (eitp__make_directories(&f->recipe.context.host, directory, &error_) ||
        !write_file(f, "machine/proc/self/status", "VmRSS: 50000 kB\nRssAnon: 40000 kB\n"))
        return 0;
    f->recipe.context.host.system_root = keep_path(f, "machine");
    return 1;
}

/* The planner counts the generator's cache and its part of the arena. */
static void a_plan_has_room_for_prompts(void) {
    fixture f;
    eitp_fit_candidate less, more;
    eitp_training *t = NULL;
    size_t token;
    REQUIRE(begin(&f) && fix_resident(&f));
    f.recipe.model.positions = 256;
    less = plan_prompt(&f, 140, &t);
    eitp_training_close(t);
    more = plan_prompt(&f, 240, &t);
    REQUIRE(t);
    token = 2 * (size_t)(f.recipe.model.layers * f.recipe.model.width) * sizeof(float);
    CHECK_THAT(more.process >= less.process + 100 * token && more.process < less.process + 110 * token,
               "%zu and %zu bytes, %zu for each token", less.process, more.process, token);
    REQUIRE_OK(eitp_training_run(t, &f.report, &error_), error_);
    CHECK_THAT(eitp_context_arena_bytes(eitp_training_get_context(t)) <= more.arena + more.workspace,
               "planned %zu bytes, used %zu", more.arena + more.workspace,
               eitp_context_arena_bytes(eitp_training_get_context(t)));
    eitp_training_close(t);
    end(&f);
}

static void describe_vae(fixture *f) {
    f->recipe.model.shape = "vae-tiny";
    f->recipe.task.kind = EITP_TASK_VAE;
    use_data(f, "texts.csv", NULL);
}

static void describe_conversations(fixture *f) {
    static const char *const rows[] = {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, "
                                       "{\"role\": \"assistant\", \"content\": \"b\"}]}\n",
                                       "{\"prompt\": \"a\", \"completion\": \"b c d\"}\n",
                                       "{\"prompt\": \"a q\", \"completion\": \"d\"}\n"};
    CHECK(write_rows(f, "chat.jsonl", "", rows, 24));
    use_data(f, "chat.jsonl", NULL);
    f->recipe.model.tokenizer = "bytes";
    f->recipe.model.chat_template = "chatml";
}

static void check_same_plan(const eitp_fit_candidate *is, const eitp_fit_candidate *was, const char *name) {
    const size_t sizes[][2] = {{is->parameters, was->parameters}, {is->gradients, was->gradients},
                               {is->states, was->states},         {is->arena, was->arena},
                               {is->workspace, was->workspace},   {is->logits, was->logits},
                               {is->records, was->records},       {is->checkpoint, was->checkpoint}};
    for (size_t i = 0; i < EITP__COUNT(sizes); i++)
        CHECK_THAT(sizes[i][0] == sizes[i][1], "%s, %zu: %zu bytes, not %zu", name, i, sizes[i][0], sizes[i][1]);
    CHECK_THAT(is->optimizer == was->optimizer && !strcmp(is->precision, was->precision), "%s", name);
    CHECK_THAT(!(fabs(is->flops - was->flops) > 0), "%s: %g flops, not %g", name, is->flops, was->flops);
    CHECK_THAT(is->process < was->process + 60000 && was->process < is->process + 60000, "%s: %zu bytes, not %zu", name,
               is->process, was->process);
}

static eitp_fit_candidate plan_alone(const fixture *f, const char *name) {
    eitp_fit_candidate chosen = eitp_fit_candidate_default();
    eitp_training *t = NULL;
    CHECK_THAT(!eitp_training_open_plan(&f->recipe, &t, &error_) && !eitp_training_plan(t, &chosen, &error_), "%s: %s",
               name, error_.message);
    CHECK(eitp_training_prepare(t, &error_) == EITP_ERROR_ARGUMENT && strstr(error_.message, "has no data"));
    eitp_training_close(t);
    return chosen;
}

/* Planning alone, with or without the data, gives the plan of the run and writes nothing. */
static void check_plan_alone(fixture *f, const char *name) {
    eitp_fit_candidate trained = eitp_fit_candidate_default(), alone;
    eitp_training *t = NULL;
    const char *output = f->recipe.run.directory;
    f->recipe.task.block_size = f->recipe.model.chat_template ? 54 : 4; /* some samples are longer */
    CHECK_THAT(!eitp_training_open(&f->recipe, &t, &error_) && !eitp_training_plan(t, &trained, &error_), "%s: %s",
               name, error_.message);
    REQUIRE(t);
    f->recipe.task.kind = eitp_training_get_recipe(t)->task.kind;
    f->recipe.data.format = eitp_training_get_recipe(t)->data.format;
    eitp_training_close(t);
    eitp__remove_tree(&f->recipe.context.host, output, NULL);
    f->recipe.run.directory = NULL;
    alone = plan_alone(f, name);
    check_same_plan(&alone, &trained, name);
    f->recipe.data.training.count = 0;
    if (!f->recipe.model.tokenizer)
        f->recipe.model.tokenizer = "bytes";
    alone = plan_alone(f, name);
    check_same_plan(&alone, &trained, name);
    CHECK_THAT(!exists(f->directory, "out"), "%s", name);
}

static void a_plan_needs_no_data(void) {
    static const task_case more[] = {{"a latent variable", describe_vae, NULL, NULL},
                                     {"conversations", describe_conversations, NULL, NULL},
                                     {"prompts", describe_prompts, NULL, NULL}};
    for (size_t i = 0; i < EITP__COUNT(tasks) + EITP__COUNT(more); i++) {
        const task_case *task = i < EITP__COUNT(tasks) ? &tasks[i] : &more[i - EITP__COUNT(tasks)];
        fixture f;
        REQUIRE(begin(&f) && fix_resident(&f));
        if (task->describe)
            task->describe(&f);
        if (!f.recipe.model.tokenizer && task->describe != describe_tokens_file)
            f.recipe.model.tokenizer = "bytes";
        if (task->describe != describe_words) /* its labels exceed what a plan assumes */
            check_plan_alone(&f, task->name);
        end(&f);
    }
}

/* ---- Interruptions ---- */

static void opening_is_interrupted(void) {
    static void (*const kinds[])(fixture *) = {NULL, describe_classification};
    for (size_t k = 0; k < EITP__COUNT(kinds); k++) {
        eitp_status status = EITP_ERROR_INTERRUPTED;
        fixture f;
        REQUIRE(begin(&f));
        if (kinds[k])
            kinds[k](&f);
        f.recipe.progress = poll_fixture;
        f.recipe.progress_user = &f;
        for (f.poll_after = 1; status && f.poll_after < 200; f.poll_after++) {
            eitp_training *t = NULL;
            f.polls = 0;
            status = eitp_training_open(&f.recipe, &t, &error_);
            CHECK_THAT(!status || (status == EITP_ERROR_INTERRUPTED && !t), "%d: %s", (int)f.poll_after,
                       error_.message);
            eitp_training_close(t);
        }
        CHECK_THAT(f.poll_after > 8 && f.poll_after < 200, "%d", (int)f.poll_after);
        f.poll_after = 0;
        REQUIRE_OK(train(&f, 0), error_);
        CHECK(f.report.steps_done == STEPS);
        end(&f);
    }
}

/* Planning and preparing can be interrupted, too. The opened recipe can then be trained. */
static void preparing_is_interrupted(void) {
    fixture f;
    REQUIRE(begin(&f));
    f.recipe.progress = poll_fixture;
    f.recipe.progress_user = &f;
    use_output(&f, "straight");
    REQUIRE_OK(train(&f, 0), error_);
    use_output(&f, "out");
    REQUIRE_OK(eitp_training_open(&f.recipe, &f.trained, &error_), error_);
    for (int64_t n = 1; n <= 6; n++) {
        eitp_status status;
        f.poll_after = n;
        f.polls = 0;
        status = eitp_training_prepare(f.trained, &error_);
        CHECK_THAT(status == EITP_ERROR_INTERRUPTED, "%d: %s", (int)n, error_.message);
        CHECK(!eitp_training_get_trainer(f.trained) && !eitp_training_get_context(f.trained));
    }
    f.poll_after = f.stop_after = 0;
    REQUIRE_OK(eitp_training_run(f.trained, &f.report, &error_), error_);
    eitp_training_close(f.trained);
    CHECK(f.report.steps_done == STEPS && ends_are_equal(&f, "straight", "out"));
    CHECK(record_names(&f, "lm"));
    end(&f);
}

/* ---- Failing calls ---- */

/* Trains with the n-th allocation or file call failing, and then without faults. It must end like the undisturbed run.
   */
static int fail_call(fixture *f, const eitp_host *real, int of_files, long n) {
    const eitp_host usual = f->recipe.context.host;
    const eitp_host host = eitp_host_default();
    eitp_status status;
    faults faulty;
    int happened;
    faults_begin_on(&faulty, real);
    faulty.fail_allocation = of_files ? 0 : n;
    faulty.fail_file_call = of_files ? n : 0;
    faulty.code = n % 2 ? EIO : ENOSPC;
    faulty.host.log = usual.log;
    f->recipe.context.host = faulty.host;
    status = train(f, 0);
    happened = faults_end(&faulty);
    CHECK_THAT(!status || (strlen(error_.message) > 10 && !strchr(error_.message, '\n')), "%s %ld: '%s'",
               of_files ? "file call" : "allocation", n, error_.message);
    CHECK_THAT(!status || of_files || status == EITP_ERROR_MEMORY, "allocation %ld: %d, %s", n, (int)status,
               error_.message);
    f->recipe.context.host = *real;
    f->recipe.context.host.log = usual.log;
    status = train(f, 0);
    CHECK_THAT(!status, "after %s %ld (%s): %s", of_files ? "file call" : "allocation", n,
               faulty.failed_call ? faulty.failed_call : "", error_.message);
    CHECK_THAT(ends_are_equal(f, "straight", "faulty"), "%s %ld (%s): other bytes",
               of_files ? "file call" : "allocation", n, faulty.failed_call ? faulty.failed_call : "");
    f->recipe.context.host = usual;
    CHECK(!eitp__remove_tree(&host, f->output, NULL));
    return happened;
}

/* A run that starts with given weights and a separate tokenizer. */
static void describe_further(fixture *f) {
    f->recipe.model.tokenizer = keep_path(f, "letters");
    f->recipe.model.vocabulary = 300; /* bytes would do as well */
    use_data(f, "letters.txt", NULL);
    use_output(f, "base");
    CHECK_THAT(!train(f, 0), "%s", error_.message);
    snprintf(f->model, sizeof f->model, "%s", f->output);
    f->recipe.model.tokenizer = f->recipe.model.shape = NULL;
    f->recipe.model.directory = f->model;
    f->recipe.model.layers = f->recipe.model.heads = f->recipe.model.width = f->recipe.model.vocabulary = 0;
}

static void fail_calls(void (*describe_task)(fixture *), int of_files, long stride) {
    eitp_host real = eitp_host_default();
    fixture f;
    long n = 1 + of_files;
    REQUIRE(begin(&f));
    f.recipe.run.steps = 2;
    if (describe_task)
        describe_task(&f);
    faults_do_not_sync(&real);
    use_output(&f, "straight");
    REQUIRE_OK(train(&f, 0), error_);
    use_output(&f, "faulty");
    while (test_failures_ < MOST_FAILURES && fail_call(&f, &real, of_files, n))
        n += stride;
    CHECK_THAT(n > 10 * stride || test_failures_, "only %ld calls", n);
    end(&f);
}

static void each_allocation_fails(void) {
    fail_calls(NULL, 0, test_stride(7, 61));
    fail_calls(describe_classification, 0, test_stride(11, 71));
    fail_calls(describe_further, 0, test_stride(23, 97));
    fail_calls(describe_prompts, 0, test_stride(23, 89));
}

/* Each allocation and file call of opening a plan fails. Planning itself is covered elsewhere. */
static void each_call_of_a_plan_fails(void) {
    static void (*const kinds[])(fixture *) = {NULL, describe_words, describe_vae, describe_conversations};
    const eitp_host real = eitp_host_default();
    for (size_t k = 0; k < EITP__COUNT(kinds); k++) {
        fixture f;
        REQUIRE(begin(&f));
        if (kinds[k])
            kinds[k](&f);
        for (int of_files = 0; of_files < 2; of_files++) {
            int happened = 1;
            for (long n = 1; happened && n < 2000; n++) {
                eitp_training *t = NULL;
                faults faulty;
                faults_begin_on(&faulty, &real);
                faulty.fail_allocation = of_files ? 0 : n;
                faulty.fail_file_call = of_files ? n : 0;
                faulty.code = EIO;
                f.recipe.context.host = faulty.host;
                const eitp_status status = eitp_training_open_plan(&f.recipe, &t, &error_);
                CHECK_THAT(!status == (t != NULL) && (!status || of_files || status == EITP_ERROR_MEMORY),
                           "kind %zu, call %ld: %d, %s", k, n, (int)status, status ? error_.message : "");
                eitp_training_close(t);
                happened = faults_end(&faulty);
            }
        }
        end(&f);
    }
}

static void each_file_call_fails(void) {
    fail_calls(NULL, 1, test_stride(2, 17));
    fail_calls(describe_classification, 1, test_stride(2, 19));
    fail_calls(describe_tokens_file, 1, test_stride(3, 23));
    fail_calls(describe_further, 1, test_stride(3, 23));
}

/* A host on which the first query or opening of files with a given ending fails. */
static struct {
    eitp_host real;
    const char *checked_at, *opened;
    int failures;
} unreadable;

static int is_unreadable(const char *path, const char *ending) {
    const size_t size = strlen(path), length = ending ? strlen(ending) : 0;
    if (!ending || size < length || strcmp(path + size - length, ending) || unreadable.failures)
        return 0;
    unreadable.failures++;
    return 1;
}

static int look_at(void *user, const char *path, eitp_path_info *info) {
    return is_unreadable(path, unreadable.checked_at) ? EIO : unreadable.real.files.info(user, path, info);
}

static int open_unreadable(void *user, const char *path, eitp_file_mode mode, void **file) {
    return is_unreadable(path, unreadable.opened) ? EIO : unreadable.real.files.open(user, path, mode, file);
}

/* Files that cannot be read are not treated as missing: the run would train something else. */
static void what_is_unreadable_is_not_missing(void) {
    static const struct {
        void (*describe)(fixture *f);
        const char *checked_at, *opened;
    } cases[] = {{describe_further, "/merges.txt", NULL},
                 {describe_classification, NULL, "texts.csv"},
                 {describe_tokens_file, NULL, "packed.tokens"},
                 {describe_tokens_file, "packed.tokens", NULL}};
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        fixture f;
        REQUIRE(begin(&f));
        cases[i].describe(&f);
        unreadable.real = f.recipe.context.host;
        unreadable.checked_at = cases[i].checked_at;
        unreadable.opened = cases[i].opened;
        unreadable.failures = 0;
        f.recipe.context.host.files.info = look_at;
        f.recipe.context.host.files.open = open_unreadable;
        use_output(&f, "out");
        check_refused(&f, EITP_ERROR_IO, cases[i].opened ? cases[i].opened : cases[i].checked_at);
        CHECK_THAT(unreadable.failures == 1, "%d", (int)i);
        REQUIRE_OK(train(&f, 0), error_);
        end(&f);
    }
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(a_stopped_training_goes_on),
        TEST(weights_are_trained_further),
        TEST(a_resumed_run_keeps_its_shape),
        TEST(adapters_are_trained),
        TEST(a_language_model_becomes_a_classifier),
        TEST(a_complete_training_does_no_step),
        TEST(an_open_setting_is_the_checkpoints),
        TEST(its_objects_are_accessible),
        TEST(texts_may_change_or_go),
        TEST(rows_may_change_or_go),
        TEST(a_token_file_may_grow),
        TEST(other_data_is_refused),
        TEST(an_input_is_read_by_a_new_run),
        TEST(validation_data_is_used),
        TEST(a_task_needs_its_labels),
        TEST(a_model_and_data_are_needed),
        TEST(a_block_size_above_the_positions_is_lowered),
        TEST(windows_above_the_positions_are_lowered),
        TEST(settings_that_decide_samples_are_followed),
        TEST(settings_that_need_lost_data_are_refused),
        TEST(a_wrong_value_is_refused),
        TEST(a_directory_is_opened_once),
        TEST(labels_have_weights),
        TEST(old_labels_are_packed_again),
        TEST(a_plan_is_what_is_used),
        TEST(a_plan_that_does_not_fit_is_refused),
        TEST(prompts_are_continued),
        TEST(prompts_that_cannot_be_continued_are_refused),
        TEST(a_plan_has_room_for_prompts),
        TEST(a_plan_needs_no_data),
        TEST(opening_is_interrupted),
        TEST(preparing_is_interrupted),
        TEST(each_allocation_fails),
        TEST(each_call_of_a_plan_fails),
        TEST(each_file_call_fails),
        TEST(what_is_unreadable_is_not_missing),
    };
    return RUN_TESTS(tests, argc, argv);
}
