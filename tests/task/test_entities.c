/* Entities in word labels and their metrics, compared with seqeval (tools/golden/make_entity.py). */
#include "tests/support/faults.h"
#include "tests/support/labelled.h"

enum { MOST_WORDS = 16, MOST_SENTENCES = 100, MOST_NAMES = 32 };

typedef struct sentence {
    const char *labels[2], *entities[2]; /* true and predicted */
} sentence;

#define SENTENCE(truth, guess, true_entities, guessed_entities) {{truth, guess}, {true_entities, guessed_entities}},
#define METRIC(name, value)
#define TYPE(name, precision, recall, f1, support)
static const sentence sentences[] = {
#include "tests/golden/entities/expected.txt"
};
#undef SENTENCE
#undef METRIC
#undef TYPE

/* Splits a string into at most MOST_WORDS words. Returns their number. */
static int split(const char *text, char *copy, const char **words) {
    int count = 0;
    strcpy(copy, text);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        words[count++] = word;
    return count;
}

static void describe(const char *const *labels, int count, char *text, size_t size) {
    eitp_entity entities[MOST_WORDS];
    const int64_t found = eitp_find_entities(labels, count, entities);
    size_t used = 0;
    CHECK(found == eitp_find_entities(labels, count, NULL));
    text[0] = 0;
    for (int64_t i = 0; i < found; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s:%d-%d", i ? " " : "", entities[i].type,
                                 (int)entities[i].first, (int)entities[i].last);
}

static void entities_are_those_of_seqeval(void) {
    CHECK(EITP__COUNT(sentences) > 50);
    for (size_t i = 0; i < EITP__COUNT(sentences); i++) {
        for (int which = 0; which < 2; which++) {
            const char *labels[MOST_WORDS];
            char copy[400], text[400];
            describe(labels, split(sentences[i].labels[which], copy, labels), text, sizeof text);
            CHECK_THAT(!strcmp(text, sentences[i].entities[which]), "%s: %s", sentences[i].labels[which], text);
        }
    }
}

/* Words without a label, and labels in another format, are outside entities. */
static void other_labels_are_outside(void) {
    const char *const labels[] = {"B-X", NULL, "I-X", "I", "I-X", "B-", "NN", "I-X"};
    char text[200];
    describe(labels, EITP__COUNT(labels), text, sizeof text);
    CHECK_THAT(!strcmp(text, "X:0-0 X:2-2 X:4-4 X:7-7"), "%s", text);
    CHECK(eitp_find_entities(NULL, 3, NULL) == 0);
}

static void forms_of_labels(void) {
    static const struct {
        const char *names[3];
        int mark;
    } cases[] = {{{"O", "B-X", "I-X"}, 1}, {{"I-X", "I-Y", "S-Z"}, 1}, {{"O", "O", "O"}, 0},
                 {{"O", "B-X", "NN"}, 0},  {{"O", "B-", "I-X"}, 0},    {{"O", "U-X", "B-X"}, 0},
                 {{"O", "BX", "I-X"}, 0},  {{"", "B-X", "I-X"}, 0}};
    for (size_t i = 0; i < EITP__COUNT(cases); i++)
        CHECK_THAT(eitp_labels_mark_entities(cases[i].names, 3) == cases[i].mark, "case %zu", i);
    CHECK(!eitp_labels_mark_entities(NULL, 3) && !eitp_labels_mark_entities(cases[0].names, 0));
}

/* ---- Metrics ---- */

typedef struct named_value {
    const char *name;
    double value;
} named_value;

#define SENTENCE(truth, guess, true_entities, guessed_entities)
#define METRIC(name, value) {name, value},
#define TYPE(name, precision, recall, f1, support)
static const named_value metrics[] = {
#include "tests/golden/entities/expected.txt"
};
#undef METRIC
#undef TYPE
#define METRIC(name, value)
#define TYPE(name, precision, recall, f1, support) {name, precision, recall, f1, support, 0},
static const eitp_label_result types[] = {
#include "tests/golden/entities/expected.txt"
};

/* Returns the number of a label, which is added to `names` if missing. */
static int32_t number_of(const char *label, const char **names, int64_t *count) {
    int32_t i = 0;
    while (i < *count && strcmp(names[i], label))
        i++;
    if (i == *count)
        names[(*count)++] = label;
    return i;
}

typedef struct judged {
    char copies[MOST_SENTENCES][2][200];
    int32_t labels[MOST_SENTENCES][2][MOST_WORDS];
    int words[MOST_SENTENCES];
    const char *names[MOST_NAMES];
    int64_t name_count;
} judged;

static void read_sentences(judged *j) {
    memset(j, 0, sizeof *j);
    for (size_t i = 0; i < EITP__COUNT(sentences); i++) {
        for (int which = 0; which < 2; which++) {
            const char *words[MOST_WORDS];
            j->words[i] = split(sentences[i].labels[which], j->copies[i][which], words);
            for (int k = 0; k < j->words[i]; k++)
                j->labels[i][which][k] = number_of(words[k], j->names, &j->name_count);
        }
    }
}

/* Adds a sentence in which each word is followed by a token without a label. */
static void add_sentence(const judged *j, size_t i, eitp__outcomes *outcomes) {
    float scores[2 * MOST_WORDS * MOST_NAMES];
    int32_t labels[2 * MOST_WORDS];
    for (int k = 0; k < 2 * j->words[i]; k++) {
        const int32_t guess = k % 2 ? (int32_t)(i % (size_t)j->name_count) : j->labels[i][1][k / 2];
        labels[k] = k % 2 ? -100 : j->labels[i][0][k / 2];
        for (int32_t label = 0; label < j->name_count; label++)
            scores[k * j->name_count + label] = label == guess ? 2 : (float)label / 100;
    }
    eitp__outcomes_add_tokens(outcomes, i, scores, labels, 2 * j->words[i]);
}

static void metrics_are_those_of_seqeval(void) {
    static judged j;
    const eitp_host host = eitp_host_default();
    eitp__entity_labels labels;
    eitp_metric results[EITP_MAX_TASK_METRICS];
    eitp_task_metric rows[EITP_MAX_TASK_METRICS];
    eitp__label_counts counts[MOST_NAMES];
    int count;
    memset(&labels, 0, sizeof labels);
    read_sentences(&j);
    REQUIRE_OK(eitp__entity_labels_init(&labels, &host, j.names, j.name_count, &error_), error_);
    void *memory = malloc(eitp__outcomes_bytes(EITP_PROBLEM_TOKENS, j.name_count, EITP__COUNT(sentences)));
    eitp__outcomes *outcomes = eitp__outcomes_init(memory, EITP_PROBLEM_TOKENS, j.name_count, EITP__COUNT(sentences));
    outcomes->entities = &labels;
    for (size_t i = 0; i < EITP__COUNT(sentences); i++)
        add_sentence(&j, i, outcomes);
    eitp__outcomes_end(outcomes);
    eitp__compute_metrics(outcomes, results);
    count = eitp__metrics_of(EITP_PROBLEM_TOKENS, 1, rows);
    CHECK(count == 6 && eitp__metrics_of(EITP_PROBLEM_TOKENS, 0, rows) == 3 && EITP__COUNT(metrics) == 4);
    eitp__metrics_of(EITP_PROBLEM_TOKENS, 1, rows);
    for (size_t m = 0; m < EITP__COUNT(metrics); m++) {
        int found = 0;
        while (found < count && strcmp(rows[found].name, metrics[m].name))
            found++;
        REQUIRE(found < count);
        CHECK_THAT(fabs(results[found].mean - metrics[m].value) < 1e-12 &&
                       rows[found].direction == EITP_HIGHER_IS_BETTER,
                   "%s %.17g", metrics[m].name, results[found].mean);
        CHECK_THAT(results[found].error > 0.01 && results[found].error < 0.1, "%s: error %g", metrics[m].name,
                   results[found].error);
    }
    eitp__sum_groups(outcomes->group_entities, j.name_count, 0, counts);
    CHECK(labels.type_count == EITP__COUNT(types));
    for (int64_t k = 0; k < labels.type_count; k++) {
        size_t t = 0;
        while (t + 1 < EITP__COUNT(types) && strcmp(types[t].name, labels.type_names[k]))
            t++;
        CHECK(counts[k].is_true == types[t].support);
        CHECK(fabs((double)counts[k].is_both / (double)counts[k].is_predicted - types[t].precision) < 1e-12);
        CHECK(fabs((double)counts[k].is_both / (double)counts[k].is_true - types[t].recall) < 1e-12);
    }
    eitp__entity_labels_release(&labels, &host);
    free(memory);
}

/* ---- In a trainer ---- */

/* Labels that mark entities are evaluated as entities. Their table and the confusion matrix agree with the metrics. */
static void evaluations_have_entities(void) {
    static const char *const names[] = {"O", "B-X", "I-X"};
    for (int marks = 0; marks < 2; marks++) {
        variant v = default_variant();
        eitp_classification_report report;
        eitp_evaluation all, part;
        encoder e;
        int64_t right = 0;
        REQUIRE_OK(begin_model(&e, &v, "bert-base", EITP_HEAD_TOKEN_CLASSIFIER), error_);
        e.classification.training = made_up_source(&e.training, SAMPLES, EITP_PROBLEM_TOKENS);
        e.classification.validation = made_up_source(&e.validation, VALIDATION, EITP_PROBLEM_TOKENS);
        if (marks)
            e.classification.training.labels = e.classification.validation.labels = names;
        REQUIRE_OK(eitp_classification_task(&e.classification, &e.r.task, &error_), error_);
        CHECK(!strcmp(e.r.task.unit, "words") && fabs(e.r.task.guess_loss - log(3)) < 1e-12);
        REQUIRE_OK(eitp_trainer_create(&e.r.task, &e.r.config, &e.r.trainer, &error_), error_);
        CHECK(step_many(&e.r, 40, NULL));
        REQUIRE_OK(eitp_trainer_evaluate(e.r.trainer, 0, &all, &error_), error_);
        REQUIRE_OK(eitp_classification_report_get(&e.r.task, &report, &error_), error_);
        CHECK(report.problem == EITP_PROBLEM_TOKENS && report.samples == all.items && report.label_count == CLASSES);
        for (int k = 0; k < CLASSES; k++)
            right += report.confusion[k * CLASSES + k];
        CHECK(fabs(metric_of(&all, "accuracy") - (double)right / (double)all.items) < 1e-12);
        CHECK_THAT(metric_of(&all, "accuracy") > 0.6, "%g", metric_of(&all, "accuracy"));
        CHECK((report.entities != NULL) == marks && report.entity_count == marks);
        CHECK(eitp__trainer_has_metric(e.r.trainer, "entity_f1") == marks);
        if (marks) {
            CHECK(!strcmp(report.entities[0].name, "X") && report.entities[0].support > 0);
            CHECK(fabs(metric_of(&all, "entity_f1") - report.entities[0].f1) < 1e-12);
            CHECK(eitp__trainer_metric_direction(e.r.trainer, "entity_recall") == 1);
        }
        REQUIRE_OK(eitp_evaluate(&e.r.task, EITP_VALIDATION, 3, 0, &part, &error_), error_);
        CHECK(metric_of(&part, "macro_f1") == metric_of(&all, "macro_f1"));
        end_run(&e.r);
    }
}

static int is_refused(eitp_status status, eitp_status wanted, const char *words) {
    const int refused = status == wanted && strstr(error_.message, words);
    if (!refused)
        printf("    %s: '%s', not '%s'\n", eitp_status_name(status), error_.message, words);
    return refused;
}

static void what_does_not_fit_is_refused(void) {
    const variant v = default_variant();
    encoder e;
    eitp_evaluation evaluation;
    REQUIRE_OK(begin_model(&e, &v, "bert-base", EITP_HEAD_CLASSIFIER), error_);
    CHECK(is_refused(make_encoder_task(&e, EITP_PROBLEM_TOKENS, &error_), EITP_ERROR_ARGUMENT, "no token classifier"));
    end_run(&e.r);
    REQUIRE_OK(begin_model(&e, &v, "bert-base", EITP_HEAD_TOKEN_CLASSIFIER), error_);
    CHECK(is_refused(make_encoder_task(&e, EITP_PROBLEM_SINGLE_LABEL, &error_), EITP_ERROR_ARGUMENT, "no classifier"));
    e.training.wrong_label = CLASSES;
    REQUIRE_OK(make_encoder_task(&e, EITP_PROBLEM_TOKENS, &error_), error_);
    CHECK(is_refused(eitp_evaluate(&e.r.task, EITP_TRAINING, 4, 0, &evaluation, &error_), EITP_ERROR_FORMAT,
                     "sample 5 has label 3"));
    end_run(&e.r);
}

/* A checkpoint describes its model as transformers expects. */
static void checkpoints_have_names(void) {
    variant v = default_variant();
    const eitp_host host = eitp_host_default();
    eitp_transformer_config config;
    char directory[512], path[600], text[8000];
    encoder e;
    FILE *file;
    REQUIRE(scratch_make(directory));
    REQUIRE_OK(begin_problem(&e, &v, "roberta-base", EITP_PROBLEM_TOKENS), error_);
    CHECK(step_many(&e.r, 1, NULL));
    REQUIRE_OK(eitp_trainer_save(e.r.trainer, directory, &error_), error_);
    snprintf(path, sizeof path, "%s/checkpoint-1/config.json", directory);
    REQUIRE_OK(eitp_transformer_config_read(&host, path, &config, &error_), error_);
    CHECK(config.head == EITP_HEAD_TOKEN_CLASSIFIER && config.labels == CLASSES);
    file = fopen(path, "rb");
    REQUIRE(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    CHECK_THAT(strstr(text, "\"RobertaForTokenClassification\"") && strstr(text, "\"1\": \"middle\"") &&
                   !strstr(text, "problem_type"),
               "%s", text);
    end_run(&e.r);
    scratch_remove(directory);
}

static eitp_status make_and_evaluate(const eitp_host *host) {
    static const char *const names[] = {"O", "B-X", "I-Y"};
    static const float weights[] = {1, 2, 3};
    eitp_transformer_config shape = small_encoder("distilbert-base", EITP_HEAD_TOKEN_CLASSIFIER);
    eitp_context_config config = eitp_context_config_default();
    eitp_classification_config c = eitp_classification_config_default();
    eitp_evaluation evaluation;
    eitp_context *context = NULL;
    eitp_model *model = NULL;
    eitp_task task;
    made_up m;
    memset(&m, 0, sizeof m);
    memset(&task, 0, sizeof task);
    config.host = *host;
    config.threads = 1;
    config.isa = "ref";
    config.precision = "fp32";
    eitp_status status = eitp_context_create(&config, &context, &error_);
    if (!status)
        status = eitp_model_create(context, &shape, &model, &error_);
    if (!status)
        status = eitp_model_initialize(model, 1, &error_);
    c.model = model;
    c.training = made_up_source(&m, 3, EITP_PROBLEM_TOKENS);
    c.training.labels = names;
    c.class_weights = weights;
    if (!status)
        status = eitp_classification_task(&c, &task, &error_);
    if (!status)
        status = eitp_evaluate(&task, EITP_TRAINING, 3, 0, &evaluation, &error_);
    eitp_task_release(&task);
    eitp_model_destroy(model);
    eitp_context_destroy(context);
    return status;
}

static void every_failed_allocation_is_an_error(void) {
    faults f;
    for (long n = 1;; n++) {
        eitp_status status;
        faults_begin(&f);
        f.fail_allocation = n;
        status = make_and_evaluate(&f.host);
        CHECK_THAT(status == (f.allocations >= n ? EITP_ERROR_MEMORY : EITP_OK), "allocation %ld: %s", n,
                   error_.message);
        if (!faults_end(&f))
            break;
    }
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(entities_are_those_of_seqeval),
        TEST(other_labels_are_outside),
        TEST(forms_of_labels),
        TEST(metrics_are_those_of_seqeval),
        TEST(evaluations_have_entities),
        TEST(what_does_not_fit_is_refused),
        TEST(checkpoints_have_names),
        TEST(every_failed_allocation_is_an_error),
    };
    return RUN_TESTS(tests, argc, argv);
}
