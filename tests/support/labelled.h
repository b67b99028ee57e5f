/* Labelled sources of synthetic samples, and small encoders with the tasks that train them. */
#ifndef EITP_TEST_LABELLED_H
#define EITP_TEST_LABELLED_H

#include "tests/support/trainer_run.h"

enum { LONGEST = 9, CLASSES = 3, SAMPLES = 40, VALIDATION = 23, MASK_TOKEN = 2, FIRST_WORD = 3, VOCABULARY = 37 };

static const char *const class_names[] = {"low", "middle", "high"};

/* Options of a synthetic source. */
typedef struct made_up {
    int reads_last; /* the label depends on the last token, which GPT-2's classifier reads, not on the first */
    uint64_t offset;
    int32_t wrong_id, wrong_label; /* of sample 5; 0: none */
    int64_t unlabelled_below;      /* samples below this have no label */
    float wrong_target;            /* of sample 5; 0: none */
    int32_t padding;               /* a token placed between others; 0 or less: none */
    float wrong_weight;            /* of sample 5 and its tokens; 0: none */
    int64_t only;                  /* 1 + sample * LONGEST + token is the only one with a weight, of 1; 0: all have one
                                      */
    int has_ones;                  /* all weights are 1 */
} made_up;

static unsigned noise(uint64_t number, int64_t place) {
    uint64_t state = (number + 1) * 6364136223846793005u + (uint64_t)place * 1442695040888963407u;
    state = (state ^ (state >> 31)) * 0xbf58476d1ce4e5b9u;
    return (unsigned)(state >> 40);
}

/* The weight of a sample or token in the loss: 0, 0.75, 1.5 or 2.25, unless the options set another. */
static RUN_UNUSED float made_up_weight(const made_up *m, uint64_t number, int64_t place) {
    if (number == 5 && (m->wrong_weight < 0 || m->wrong_weight > 0))
        return m->wrong_weight;
    if (m->only)
        return m->only == 1 + (int64_t)number * LONGEST + place ? 1.0f : 0.0f;
    return m->has_ones ? 1 : 0.75f * (float)(noise(number, place + 1000) % 4);
}

/* Reads 1 to LONGEST tokens. The label tells which third of the vocabulary one of them is in. */
static RUN_UNUSED eitp_status read_made_up(void *user, uint64_t number, eitp_labelled_sample *sample,
                                           eitp_error *error) {
    const made_up *m = (const made_up *)user;
    const uint64_t of = number + m->offset;
    int32_t word;
    (void)error;
    sample->length = 1 + (int64_t)(noise(of, 99) % LONGEST);
    for (int64_t i = 0; i < sample->length; i++) {
        sample->ids[i] = FIRST_WORD + (int32_t)(noise(of, i) % (unsigned)(VOCABULARY - FIRST_WORD));
        if (m->padding > 0 && i > 0 && i + 1 < sample->length && noise(of, i) % 4 == 0)
            sample->ids[i] = m->padding;
        if (sample->segments)
            sample->segments[i] = i >= sample->length / 2;
    }
    word = sample->ids[m->reads_last ? sample->length - 1 : 0];
    sample->label =
        (int64_t)number < m->unlabelled_below ? -1 : (word - FIRST_WORD) * CLASSES / (VOCABULARY - FIRST_WORD);
    for (int64_t i = 0; i < sample->length && sample->token_labels; i++) {
        const int has_label = i % 3 != 2 && (int64_t)number >= m->unlabelled_below;
        sample->token_labels[i] = has_label ? (sample->ids[i] - FIRST_WORD) * CLASSES / (VOCABULARY - FIRST_WORD) : -1;
        if (number == 5 && m->wrong_label)
            sample->token_labels[i] = m->wrong_label;
    }
    for (int k = 0; k < CLASSES && sample->targets; k++)
        sample->targets[k] = (float)(word >> k & 1);
    sample->weight = made_up_weight(m, number, 0);
    for (int64_t i = 0; i < sample->length && sample->token_weights; i++)
        sample->token_weights[i] = made_up_weight(m, number, i);
    if (number == 5 && m->wrong_id)
        sample->ids[sample->length - 1] = m->wrong_id;
    if (number == 5 && m->wrong_label)
        sample->label = m->wrong_label;
    if (number == 5 && sample->targets && (m->wrong_target < 0 || m->wrong_target > 0))
        sample->targets[0] = m->wrong_target;
    return EITP_OK;
}

static RUN_UNUSED eitp_labelled_source made_up_source(made_up *m, uint64_t count, eitp_problem problem) {
    eitp_labelled_source source;
    memset(&source, 0, sizeof source);
    source.user = m;
    source.count = count;
    source.max_length = LONGEST;
    source.problem = problem;
    source.label_count = CLASSES;
    source.labels = problem == EITP_PROBLEM_REGRESSION ? NULL : class_names;
    source.hash = 77;
    source.read = read_made_up;
    return source;
}

/* A small model of the architecture of a named shape. */
static RUN_UNUSED eitp_transformer_config small_encoder(const char *name, eitp_head head) {
    eitp_transformer_config config;
    eitp_transformer_config_named(name, &config, NULL);
    config.vocabulary = VOCABULARY;
    config.positions = 16;
    config.width = 16;
    config.heads = 2;
    config.layers = 2;
    config.inner = 40;
    config.head = head;
    config.labels = CLASSES;
    return config;
}

typedef struct encoder {
    run r; /* only its context, model, task, configuration and trainer are used */
    eitp_transformer_config config;
    made_up training, validation;
    eitp_classification_config classification;
    eitp_masked_config masked;
    int has_weights; /* of samples or tokens */
} encoder;

/* Creates the context and model of a variant. */
static RUN_UNUSED eitp_status begin_model(encoder *e, const variant *v, const char *name, eitp_head head) {
    eitp_context_config context = eitp_context_config_default();
    eitp_status status;
    memset(e, 0, sizeof *e);
    e->config = small_encoder(name, head);
    context.threads = v->threads;
    context.isa = v->isa;
    context.products = v->products;
    context.precision = v->precision;
    context.parameters = eitp_optimizer_get(v->optimizer)->parameters;
    status = eitp_context_create(&context, &e->r.context, &error_);
    if (!status && v->sums_of_32)
        pretend_sums_of_32(e->r.context);
    if (!status)
        status = eitp_model_create(e->r.context, &e->config, &e->r.model, &error_);
    if (!status)
        status = eitp_model_initialize(e->r.model, 3, &error_);
    if (!status && v->lora_rank)
        status = add_adapters(e->r.model, v->lora_rank, v->dropout, &error_);
    e->training.reads_last = e->validation.reads_last = !e->config.bidirectional;
    e->r.config = eitp_trainer_config_default();
    e->r.config.batch_size = v->batch_size;
    e->r.config.grad_accum = v->grad_accum;
    e->r.config.micro_batches_per_pass = v->micro_batches_per_pass;
    e->r.config.optimizer_config.optimizer = v->optimizer;
    e->r.config.plan = v->plan;
    e->r.config.data_workers = v->data_workers;
    e->r.config.schedule.peak = 0.01;
    e->classification = eitp_classification_config_default();
    e->masked = eitp_masked_config_default();
    e->classification.model = e->masked.model = e->r.model;
    e->masked.mask_token = MASK_TOKEN;
    e->masked.probability = 0.3;
    return status;
}

/* Creates the task for samples with labels of this kind; UNKNOWN: masked tokens. */
static RUN_UNUSED eitp_status make_encoder_task(encoder *e, eitp_problem problem, eitp_error *error) {
    eitp_labelled_source training = made_up_source(&e->training, SAMPLES, problem);
    eitp_labelled_source validation = made_up_source(&e->validation, VALIDATION, problem);
    training.has_weights = validation.has_weights = e->has_weights;
    e->classification.training = e->masked.training = training;
    e->classification.validation = e->masked.validation = validation;
    return problem ? eitp_classification_task(&e->classification, &e->r.task, error)
                   : eitp_masked_task(&e->masked, &e->r.task, error);
}

static RUN_UNUSED eitp_status begin_problem(encoder *e, const variant *v, const char *name, eitp_problem problem) {
    const eitp_head head = problem == EITP_PROBLEM_TOKENS ? EITP_HEAD_TOKEN_CLASSIFIER
                           : problem                      ? EITP_HEAD_CLASSIFIER
                                                          : EITP_HEAD_LANGUAGE;
    eitp_status status = begin_model(e, v, name, head);
    if (!status)
        status = make_encoder_task(e, problem, &error_);
    return status ? status : eitp_trainer_create(&e->r.task, &e->r.config, &e->r.trainer, &error_);
}

/* Returns the value of a metric, or NaN if there is none. */
static RUN_UNUSED double metric_of(const eitp_evaluation *evaluation, const char *name) {
    for (int m = 0; m < evaluation->metric_count; m++) {
        if (!strcmp(evaluation->metrics[m].name, name))
            return evaluation->metrics[m].mean;
    }
    return NAN;
}

#endif
