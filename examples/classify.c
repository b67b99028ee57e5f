/*
 * Demonstrates text classification with your own samples: a small BERT learns to identify the language of a sentence
 * and is evaluated on unseen sentences. Compile and run:
 *     cc -O2 -I. examples/classify.c -lm -o classify && ./classify
 */
#define EITP_IMPLEMENTATION
#include "eitp.h"

#include <stdio.h>
#include <string.h>

enum { LONGEST = 48, LABELS = 3, EPOCHS = 40 };

static const char *const labels[LABELS] = {"German", "French", "English"};

/* A label and a text, as in a CSV file. The last six rows are for validation. */
static const char *const rows[] = {
    "0,der Hund liegt unter dem Tisch",
    "1,le chien dort sous la table",
    "2,the dog sleeps under the table",
    "0,ich habe das Buch gelesen",
    "1,j'ai lu le livre hier soir",
    "2,i have read the book",
    "0,wir gehen morgen in die Stadt",
    "1,nous allons demain en ville",
    "2,we go to the town tomorrow",
    "0,das Wetter ist heute warm",
    "1,il fait beau aujourd'hui",
    "2,the weather is fine today",
    "0,sie trinkt eine Tasse Milch",
    "1,elle boit une tasse de lait",
    "2,she drinks a cup of milk",
    "0,wo ist hier ein Bahnhof",
    "1,je vais vers la gare",
    "2,where is the nearest station",
    "0,die Kinder spielen im Garten",
    "1,les enfants jouent dans le jardin",
    "2,the children play in the garden",
    "0,er schreibt einen langen Brief",
    "1,il lit une longue lettre",
    "2,he writes a long letter",
    "0,das Kind schreibt in das Buch",
    "1,le chien est dans le jardin",
    "2,the station is in the town",
    "0,wir trinken heute Milch im Garten",
    "1,elle va en ville avec les enfants",
    "2,the children drink milk today",
};
enum { ROWS = sizeof rows / sizeof *rows, VALIDATION = 6 };

static eitp_error error;

/* A range of `rows`, starting at `first`. */
typedef struct part {
    const eitp_tokenizer *tokenizer;
    uint64_t first;
} part;

/* Reads a sample: the token ids of a row's text, truncated to LONGEST, and its label. */
static eitp_status read_row(void *user, uint64_t number, eitp_labelled_sample *sample, eitp_error *why) {
    const part *p = (const part *)user;
    const char *row = rows[p->first + number];
    eitp_text text = {row + 2, strlen(row + 2)};
    eitp_sequence_config config = {LONGEST, EITP_TRUNCATE_FIRST, 0, 0};
    eitp_sequence_report report;
    eitp_status status = eitp_tokenizer_encode_sequence(p->tokenizer, &text, NULL, &config, sample->ids,
                                                        sample->segments, LONGEST, &report, why);
    sample->label = row[0] - '0';
    sample->length = (int64_t)report.count;
    return status;
}

static eitp_labelled_source make_source(part *p, uint64_t count) {
    eitp_labelled_source source = {0};
    source.user = p;
    source.count = count;
    source.max_length = LONGEST;
    source.problem = EITP_PROBLEM_SINGLE_LABEL;
    source.label_count = LABELS;
    source.labels = labels;
    source.read = read_row;
    return source;
}

/*
 * Creates a small BERT with a classifier. To fine-tune a pretrained one, read its config.json with
 * eitp_model_config_read and load its weights with eitp_model_load_weights.
 */
static eitp_status make_model(eitp_context *context, int32_t vocabulary, eitp_model **model) {
    eitp_transformer_config config;
    eitp_status status = eitp_transformer_config_named("bert-base", &config, &error);
    config.vocabulary = vocabulary;
    config.positions = LONGEST;
    config.width = 32;
    config.heads = 2;
    config.layers = 1;
    config.inner = 64;
    config.head = EITP_HEAD_CLASSIFIER;
    config.labels = LABELS;
    if (!status)
        status = eitp_model_create(context, &config, model, &error);
    return status ? status : eitp_model_initialize(*model, 1, &error);
}

static eitp_status train(const eitp_task *task) {
    eitp_trainer_config config = eitp_trainer_config_default();
    eitp_trainer *trainer = NULL;
    eitp_step_report step;
    eitp_status status;
    config.batch_size = 6;
    config.grad_accum = 1;
    config.schedule.peak = 0.003;
    config.layer_lr_decay = 0.9;
    status = eitp_trainer_config_set_epochs(&config, task, EPOCHS, &error);
    if (!status)
        status = eitp_trainer_create(task, &config, &trainer, &error);
    while (!status)
        status = eitp_trainer_step(trainer, &step, &error);
    if (status == EITP_END_OF_DATA) {
        printf("loss %.4f after %lld steps\n", step.loss, (long long)step.step);
        status = EITP_OK;
    }
    eitp_trainer_destroy(trainer);
    return status;
}

static eitp_status judge(const eitp_task *task) {
    eitp_evaluation evaluation;
    eitp_classification_report report;
    eitp_status status = eitp_evaluate(task, EITP_VALIDATION, VALIDATION, 0, &evaluation, &error);
    if (!status)
        status = eitp_classification_report_get(task, &report, &error);
    if (status)
        return status;
    for (int m = evaluation.term_count; m < evaluation.metric_count; m++)
        printf("%-18s %.3f (standard error %.3f)\n", evaluation.metrics[m].name, evaluation.metrics[m].mean,
               evaluation.metrics[m].error);
    for (int64_t k = 0; k < report.label_count; k++) {
        printf("%-8s %lld samples, predicted as", report.labels[k].name, (long long)report.labels[k].support);
        for (int64_t other = 0; other < report.label_count; other++)
            printf(" %s %lld", report.labels[other].name, (long long)report.confusion[k * report.label_count + other]);
        printf("\n");
    }
    return status;
}

int main(void) {
    const eitp_host host = eitp_host_default();
    const eitp_context_config settings = eitp_context_config_default();
    eitp_classification_config config = eitp_classification_config_default();
    eitp_context *context = NULL;
    eitp_tokenizer *tokenizer = NULL;
    eitp_task task = {0};
    part training = {NULL, 0}, validation = {NULL, ROWS - VALIDATION};
    eitp_status status = eitp_context_create(&settings, &context, &error);
    if (!status)
        status = eitp_tokenizer_create_bytes(&host, &tokenizer, &error);
    if (!status)
        status = make_model(context, eitp_tokenizer_size(tokenizer), &config.model);
    training.tokenizer = validation.tokenizer = config.tokenizer = tokenizer;
    config.training = make_source(&training, ROWS - VALIDATION);
    config.validation = make_source(&validation, VALIDATION);
    if (!status)
        status = eitp_classification_task(&config, &task, &error);
    if (!status)
        status = train(&task);
    if (!status)
        status = judge(&task);
    if (status)
        fprintf(stderr, "classify: %s\n", error.message);
    eitp_task_release(&task);
    eitp_model_destroy(config.model);
    eitp_tokenizer_destroy(tokenizer);
    eitp_context_destroy(context);
    return status != EITP_OK;
}
