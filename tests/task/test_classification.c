/* Classification tasks: losses compared with formulas in double, one sample at a time; metrics, runs, refusals, and
   learning rates by layer. */
#include "tests/support/labelled.h"

static int is_refused(eitp_status status, eitp_status wanted, const char *words) {
    const int refused = status == wanted && strstr(error_.message, words);
    if (!refused)
        printf("    %s: '%s', not '%s'\n", eitp_status_name(status), error_.message, words);
    memset(&error_, 0, sizeof error_);
    return refused;
}

/* ---- Losses ---- */

/* Computes the scores of one validation sample separately. */
static void scores_of(encoder *e, uint64_t number, float *scores, eitp_labelled_sample *sample) {
    const eitp_labelled_source *source = &e->classification.validation;
    int32_t positions[LONGEST], offsets[2] = {0, 0};
    eitp_graph *graph;
    eitp_model_inputs inputs;
    eitp_tensor *output;
    eitp_plan *plan;
    size_t bytes;
    REQUIRE_OK(source->read(source->user, number, sample, &error_), error_);
    REQUIRE_OK(eitp_graph_create(e->r.context, &graph, &error_), error_);
    inputs = eitp_model_inputs_create(graph, 1, sample->length, 0);
    if (e->config.segments > 1)
        inputs.segments = eitp_input_rows(graph, "segments", EITP_I32, 1, &sample->length);
    output = eitp_output(
        eitp_model_scores(e->r.model, eitp_model_hidden(e->r.model, graph, &inputs, sample->length), &inputs));
    REQUIRE_OK(eitp_plan_create(graph, &plan, &error_), error_);
    eitp_model_fill_positions(e->r.model, sample->ids, sample->length, positions);
    offsets[1] = (int32_t)sample->length;
    bytes = (size_t)sample->length * sizeof(int32_t);
    CHECK(!eitp_plan_write(plan, inputs.tokens, sample->ids, bytes, &error_));
    CHECK(!eitp_plan_write(plan, inputs.positions, positions, bytes, &error_));
    CHECK(!eitp_plan_write(plan, inputs.offsets, offsets, sizeof offsets, &error_));
    CHECK(!inputs.segments || !eitp_plan_write(plan, inputs.segments, sample->segments, bytes, &error_));
    CHECK(!eitp_plan_execute(plan, &error_));
    CHECK(!eitp_plan_read(plan, output, scores, CLASSES * sizeof *scores, &error_));
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
}

/* Returns the loss of a sample as defined by transformers, and its weight in the mean. */
static double loss_of(const encoder *e, const float *scores, const eitp_labelled_sample *sample, double *weight) {
    const double s = e->classification.label_smoothing;
    const float *weights = e->classification.class_weights;
    double loss = 0, sum = 0;
    *weight = 1;
    for (int k = 0; k < CLASSES; k++)
        sum += exp((double)scores[k]);
    for (int k = 0; k < CLASSES; k++) {
        const double x = (double)scores[k], y = (double)sample->targets[k];
        const double w = weights ? (double)weights[k] : 1;
        switch ((int)e->classification.training.problem) {
        case EITP_PROBLEM_SINGLE_LABEL:
            loss -= w * (x - log(sum)) * (s / CLASSES + (k == sample->label ? 1 - s : 0));
            if (k == sample->label)
                *weight = w;
            break;
        case EITP_PROBLEM_MULTI_LABEL:
            loss -= (y * log(1 / (1 + exp(-x))) + (1 - y) * log(1 / (1 + exp(x)))) / CLASSES;
            break;
        default:
            loss += (x - y) * (x - y) / CLASSES;
        }
    }
    if (sample->label < 0 && e->classification.training.problem == EITP_PROBLEM_SINGLE_LABEL)
        loss = *weight = 0;
    if (e->classification.validation.has_weights) {
        loss *= (double)sample->weight;
        *weight *= (double)sample->weight;
    }
    return loss;
}

/* Returns the loss over all validation samples. */
static double expected_loss(encoder *e) {
    double sum = 0, weights = 0;
    for (uint64_t i = 0; i < VALIDATION; i++) {
        int32_t ids[LONGEST], segments[LONGEST];
        float targets[CLASSES], scores[CLASSES];
        double weight;
        eitp_labelled_sample sample;
        memset(&sample, 0, sizeof sample);
        sample.ids = ids;
        sample.segments = segments;
        sample.targets = targets;
        scores_of(e, i, scores, &sample);
        sum += loss_of(e, scores, &sample, &weight);
        weights += weight;
    }
    return sum / weights;
}

static const float uneven[CLASSES] = {0.25f, 3, 1.5f};

/* Compares the losses of a training step, an evaluation and the formulas. Samples are packed, or processed one at a
   time. */
static void check_loss_weighted(const char *name, eitp_problem problem, double smoothing, const float *weights,
                                int unlabelled, int has_weights) {
    double norms[2];
    for (int merged = 0; merged < 2; merged++) {
        variant v = default_variant();
        eitp_evaluation evaluation;
        eitp_step_report report;
        encoder e;
        double loss;
        v.dropout = 0;
        v.batch_size = merged ? VALIDATION : 1;
        v.grad_accum = merged ? 1 : VALIDATION;
        v.micro_batches_per_pass = 1;
        REQUIRE_OK(begin_model(&e, &v, name, EITP_HEAD_CLASSIFIER), error_);
        e.classification.label_smoothing = smoothing;
        e.classification.class_weights = weights;
        e.training.unlabelled_below = e.validation.unlabelled_below = unlabelled;
        e.training.padding = e.validation.padding = (int32_t)e.config.first_position - 1;
        e.r.model->config.initializer_range = 0.3; /* makes positions matter to the first token */
        CHECK(!eitp_model_initialize(e.r.model, 3, &error_));
        CHECK(!eitp_model_set_dropout(e.r.model, 0, 0, 0, &error_));
        e.r.model->config.classifier_dropout = 0;
        e.has_weights = has_weights;
        REQUIRE_OK(make_encoder_task(&e, problem, &error_), error_);
        e.r.task.samples[EITP_TRAINING] = VALIDATION; /* the same samples */
        REQUIRE_OK(eitp_trainer_create(&e.r.task, &e.r.config, &e.r.trainer, &error_), error_);
        loss = expected_loss(&e);
        REQUIRE_OK(eitp_evaluate(&e.r.task, EITP_VALIDATION, 4, 0, &evaluation, &error_), error_);
        CHECK_THAT(fabs(evaluation.loss - loss) < 1e-6 * loss && evaluation.items == VALIDATION - unlabelled,
                   "%s, problem %d: %.9f, not %.9f; %d items", name, (int)problem, evaluation.loss, loss,
                   (int)evaluation.items);
        REQUIRE_OK(eitp_trainer_evaluate(e.r.trainer, 0, &evaluation, &error_), error_);
        CHECK(fabs(evaluation.loss - loss) < 1e-6 * loss);
        REQUIRE_OK(eitp_trainer_step(e.r.trainer, &report, &error_), error_);
        CHECK_THAT(fabs(report.loss - loss) < 1e-6 * loss && report.items == VALIDATION - unlabelled, "%.9f, not %.9f",
                   report.loss, loss);
        norms[merged] = report.grad_norm;
        end_run(&e.r);
    }
    CHECK_THAT(fabs(norms[0] / norms[1] - 1) < 1e-5, "gradients %.9g and %.9g", norms[0], norms[1]);
}

static void check_loss(const char *name, eitp_problem problem, double smoothing, const float *weights, int unlabelled) {
    check_loss_weighted(name, problem, smoothing, weights, unlabelled, 0);
}

/* In steps and evaluations, the loss is the sum of weight times loss over the sum of weights. */
static void samples_have_weights(void) {
    check_loss_weighted("bert-base", EITP_PROBLEM_SINGLE_LABEL, 0, NULL, 3, 1);
    check_loss_weighted("bert-base", EITP_PROBLEM_SINGLE_LABEL, 0.1, uneven, 0, 1);
    check_loss_weighted("distilbert-base", EITP_PROBLEM_MULTI_LABEL, 0, NULL, 0, 1);
    check_loss_weighted("distilbert-base", EITP_PROBLEM_REGRESSION, 0, NULL, 0, 1);
}

/* Returns the loss after a few steps on token or text labels, with or without weights. */
static double trained_loss(eitp_problem problem, int has_weights, int has_ones, int pass, int threads) {
    variant v = default_variant();
    eitp_evaluation evaluation = EITP__ZERO;
    encoder e;
    v.threads = threads;
    v.grad_accum = 4;
    v.micro_batches_per_pass = pass;
    if (begin_model(&e, &v, "bert-base",
                    problem == EITP_PROBLEM_TOKENS ? EITP_HEAD_TOKEN_CLASSIFIER : EITP_HEAD_CLASSIFIER))
        return NAN;
    e.has_weights = has_weights;
    e.training.has_ones = e.validation.has_ones = has_ones;
    CHECK(!make_encoder_task(&e, problem, &error_));
    CHECK(!eitp_trainer_create(&e.r.task, &e.r.config, &e.r.trainer, &error_));
    CHECK(step_many(&e.r, 3, NULL));
    CHECK_THAT(!eitp_trainer_evaluate(e.r.trainer, 0, &evaluation, &error_), "%s", error_.message);
    end_run(&e.r);
    return evaluation.loss;
}

static int same_bits(double a, double b) {
    return !memcmp(&a, &b, sizeof a);
}

/* Passes and threads do not change bits. Neither do weights of 1. */
static void weights_change_no_other_bit(void) {
    static const eitp_problem problems[] = {EITP_PROBLEM_SINGLE_LABEL, EITP_PROBLEM_MULTI_LABEL, EITP_PROBLEM_TOKENS};
    for (size_t i = 0; i < EITP__COUNT(problems); i++) {
        const double loss = trained_loss(problems[i], 1, 0, 1, 1);
        CHECK(same_bits(trained_loss(problems[i], 1, 0, 4, 1), loss));
        CHECK(same_bits(trained_loss(problems[i], 1, 0, 2, 2), loss));
        CHECK(same_bits(trained_loss(problems[i], 1, 1, 2, 1), trained_loss(problems[i], 0, 0, 2, 1)));
        CHECK(!same_bits(trained_loss(problems[i], 0, 0, 2, 1), loss));
    }
}

static void wrong_weights_are_refused(void) {
    static const float wrong[] = {-1, INFINITY};
    for (size_t i = 0; i < 2 * EITP__COUNT(wrong); i++) {
        const eitp_problem problem = i & 1 ? EITP_PROBLEM_TOKENS : EITP_PROBLEM_REGRESSION;
        const variant v = default_variant();
        eitp_evaluation evaluation;
        encoder e;
        REQUIRE_OK(begin_model(&e, &v, "bert-base", i & 1 ? EITP_HEAD_TOKEN_CLASSIFIER : EITP_HEAD_CLASSIFIER), error_);
        e.has_weights = 1;
        e.validation.wrong_weight = wrong[i / 2];
        REQUIRE_OK(make_encoder_task(&e, problem, &error_), error_);
        CHECK(is_refused(eitp_evaluate(&e.r.task, EITP_VALIDATION, 4, 0, &evaluation, &error_), EITP_ERROR_FORMAT,
                         "sample 5 has a weight of"));
        end_run(&e.r);
    }
}

/* ---- Conversations ---- */

static eitp_status begin_conversations(encoder *e, const variant *v, int has_weights) {
    eitp_conversation_config config = eitp_conversation_config_default();
    eitp_status status = begin_model(e, v, "gpt2", EITP_HEAD_LANGUAGE);
    config.model = e->r.model;
    config.training = made_up_source(&e->training, SAMPLES, EITP_PROBLEM_TOKENS);
    config.validation = made_up_source(&e->validation, VALIDATION, EITP_PROBLEM_TOKENS);
    config.training.has_weights = config.validation.has_weights = has_weights;
    return status ? status : eitp_conversation_task(&config, &e->r.task, &error_);
}

static eitp_evaluation evaluate_conversations(encoder *e) {
    eitp_evaluation evaluation = EITP__ZERO;
    CHECK_THAT(!eitp_evaluate(&e->r.task, EITP_VALIDATION, 4, 0, &evaluation, &error_), "%s", error_.message);
    return evaluation;
}

/* Computes the loss of each token separately, with no weight on the others, and derives the total from these. */
static void tokens_of_conversations_have_weights(void) {
    const variant v = default_variant();
    double sum = 0, plain = 0, weights = 0;
    int64_t count = 0;
    eitp_evaluation weighted, ones;
    encoder e;
    REQUIRE_OK(begin_conversations(&e, &v, 1), error_);
    weighted = evaluate_conversations(&e);
    e.validation.has_ones = 1;
    ones = evaluate_conversations(&e);
    e.validation.has_ones = 0;
    for (int64_t number = 0; number < VALIDATION; number++) {
        const int64_t length = 1 + (int64_t)(noise((uint64_t)number, 99) % LONGEST);
        for (int64_t i = 1; i < length; i++) {
            const double weight = (double)made_up_weight(&e.validation, (uint64_t)number, i);
            double loss;
            if (i % 3 == 2)
                continue; /* not trained on */
            e.validation.only = 1 + number * LONGEST + i;
            loss = evaluate_conversations(&e).loss;
            e.validation.only = 0;
            sum += weight * loss;
            weights += weight;
            plain += loss;
            count++;
        }
    }
    CHECK_THAT(fabs(weighted.loss * weights / sum - 1) < 1e-6, "%.9f, not %.9f", weighted.loss, sum / weights);
    CHECK_THAT(fabs(ones.loss * (double)count / plain - 1) < 1e-6, "%.9f", ones.loss);
    CHECK(weighted.items == count && ones.items == count);
    end_run(&e.r);
    REQUIRE_OK(begin_conversations(&e, &v, 0), error_);
    CHECK(same_bits(evaluate_conversations(&e).loss, ones.loss));
    end_run(&e.r);
}

/* Returns the loss after a few steps on conversations. */
static double conversed_loss(int has_weights, int has_ones, int pass, int grad_accum, int threads) {
    variant v = default_variant();
    double loss = NAN;
    encoder e;
    v.threads = threads;
    v.micro_batches_per_pass = pass;
    v.batch_size = 8 / grad_accum;
    v.grad_accum = grad_accum;
    if (begin_conversations(&e, &v, has_weights))
        return NAN;
    e.training.has_ones = e.validation.has_ones = has_ones;
    CHECK_THAT(!eitp_trainer_create(&e.r.task, &e.r.config, &e.r.trainer, &error_), "%s", error_.message);
    CHECK(step_many(&e.r, 3, NULL));
    loss = evaluate_conversations(&e).loss;
    end_run(&e.r);
    return loss;
}

/* Accumulation counts weights, not tokens. Passes and threads do not change bits. */
static void weighted_conversations_train_alike(void) {
    const double loss = conversed_loss(1, 0, 1, 4, 1);
    CHECK(same_bits(conversed_loss(1, 0, 4, 4, 1), loss));
    CHECK(same_bits(conversed_loss(1, 0, 2, 4, 2), loss));
    CHECK_THAT(fabs(conversed_loss(1, 0, 1, 1, 1) / loss - 1) < 1e-5, "%.9f", loss);
    CHECK(same_bits(conversed_loss(1, 1, 2, 4, 1), conversed_loss(0, 0, 2, 4, 1)));
    CHECK(fabs(conversed_loss(0, 0, 2, 4, 1) / loss - 1) > 1e-4);
}

static void losses_are_those_of_transformers(void) {
    static const char *const architectures[] = {"bert-base", "roberta-base", "distilbert-base", "gpt2"};
    for (size_t a = 0; a < EITP__COUNT(architectures); a++)
        check_loss(architectures[a], EITP_PROBLEM_SINGLE_LABEL, 0, NULL, 0);
    check_loss("bert-base", EITP_PROBLEM_SINGLE_LABEL, 0.1, NULL, 0);
    check_loss("bert-base", EITP_PROBLEM_SINGLE_LABEL, 0, uneven, 0);
    check_loss("bert-base", EITP_PROBLEM_SINGLE_LABEL, 0.2, uneven, 3);
    check_loss("bert-base", EITP_PROBLEM_SINGLE_LABEL, 0, NULL, 5);
    check_loss("bert-base", EITP_PROBLEM_MULTI_LABEL, 0, NULL, 0);
    check_loss("distilbert-base", EITP_PROBLEM_REGRESSION, 0, NULL, 0);
}

/* A model has the label names and the problem as soon as it is trained for them, even if nothing is saved in
   between. */
static void a_saved_model_has_the_labels_it_was_trained_for(void) {
    for (int tokens = 0; tokens < 2; tokens++) {
        const eitp_problem problem = tokens ? EITP_PROBLEM_TOKENS : EITP_PROBLEM_MULTI_LABEL;
        const eitp_context_config config = eitp_context_config_default();
        const variant v = default_variant();
        eitp_step_report report;
        eitp_context *context;
        eitp_model *loaded;
        encoder e;
        char directory[512];
        REQUIRE(scratch_make(directory));
        REQUIRE_OK(begin_problem(&e, &v, "bert-base", problem), error_);
        REQUIRE_OK(eitp_trainer_step(e.r.trainer, &report, &error_), error_);
        REQUIRE_OK(eitp_model_save(e.r.model, directory, &error_), error_);
        end_run(&e.r);
        REQUIRE_OK(eitp_context_create(&config, &context, &error_), error_);
        REQUIRE_OK(eitp_model_load(context, directory, &loaded, &error_), error_);
        for (int k = 0; k < CLASSES; k++)
            CHECK_THAT(!strcmp(eitp_model_label(loaded, k), class_names[k]), "%s", eitp_model_label(loaded, k));
        CHECK(eitp_model_config(loaded).problem == problem);
        eitp_model_destroy(loaded);
        eitp_context_destroy(context);
        scratch_remove(directory);
    }
}

/* ---- Fine-tuning ---- */

enum { TUNING_STEPS = 50, TUNING_SAMPLES = 16, TUNING_LONGEST = 11 };

typedef struct tuning {
    const char *directory;
    eitp_problem problem;
    int is_weighted;
    double losses[TUNING_STEPS]; /* expected losses from transformers */
} tuning;

static const tuning tunings[] = {
#include "tests/golden/classification/losses.txt"
};

/* Formulas from tools/golden/make_classification.py. `user` is the number of labels. */
static eitp_status read_tuning(void *user, uint64_t number, eitp_labelled_sample *sample, eitp_error *error) {
    const int64_t labels = *(const int64_t *)user;
    const int i = (int)number;
    (void)error;
    sample->length = 1 + i * 5 % 11;
    for (int j = 0; j < sample->length; j++) {
        sample->ids[j] = 2 + (i * 7 + j * 5 + i * j) % 20;
        if (sample->segments)
            sample->segments[j] = j >= sample->length / 2;
    }
    sample->label = (i * i + i / 2) % 3;
    for (int64_t k = 0; k < labels && sample->targets; k++)
        sample->targets[k] = labels == 1 ? (float)sample->label - 0.5f : (float)((sample->label + 1) >> k & 1);
    for (int j = 0; j < sample->length && sample->token_labels; j++)
        sample->token_labels[j] = j % 3 == 2 ? -1 : (i + j * j) % 3;
    return EITP_OK;
}

/* Compares the trainer's steps with the batches of transformers. Each step is two micro-batches of two. */
static void check_tuning(const tuning *t, const char *precision, double tolerance) {
    eitp_context_config context = eitp_context_config_default();
    eitp_trainer_config config = eitp_trainer_config_default();
    eitp_classification_config c = eitp_classification_config_default();
    char path[200];
    double worst = 0;
    int64_t labels;
    run r;
    memset(&r, 0, sizeof r);
    context.precision = precision;
    snprintf(path, sizeof path, "tests/golden/bert/%s", t->directory);
    REQUIRE_OK(eitp_context_create(&context, &r.context, &error_), error_);
    REQUIRE_OK(eitp_model_load(r.context, path, &r.model, &error_), error_);
    labels = eitp_model_config(r.model).labels;
    c.model = r.model;
    c.training.user = &labels;
    c.training.count = TUNING_SAMPLES;
    c.training.max_length = TUNING_LONGEST;
    c.training.problem = t->problem;
    c.training.label_count = labels;
    c.training.read = read_tuning;
    c.class_weights = t->is_weighted ? uneven : NULL;
    c.label_smoothing = t->is_weighted ? 0.1 : 0;
    REQUIRE_OK(eitp_classification_task(&c, &r.task, &error_), error_);
    config.batch_size = config.grad_accum = 2;
    config.shuffle = EITP_SHUFFLE_NONE;
    config.schedule.peak = 1e-3;
    config.max_grad_norm = 1;
    config.optimizer_config.weight_decay = 0.1;
    REQUIRE_OK(eitp_trainer_create(&r.task, &config, &r.trainer, &error_), error_);
    for (int i = 0; i < TUNING_STEPS; i++) {
        double loss = 0;
        CHECK(step_many(&r, 1, &loss));
        worst = fmax(worst, fabs(loss / t->losses[i] - 1));
    }
    CHECK_THAT(worst < tolerance, "%s in %s: %.2g", t->directory, precision, worst);
    end_run(&r);
}

static void fifty_steps_match_transformers(void) {
    for (size_t i = 0; i < EITP__COUNT(tunings); i++) {
        check_tuning(&tunings[i], "fp32", 1e-5);
        check_tuning(&tunings[i], "bf16", 0.1);
    }
}

/* ---- Metrics ---- */

static void evaluations_are_judged(void) {
    static const char *const of_numbers[] = {"mse", "mae", "r2", "pearson", "spearman"};
    variant v = default_variant();
    eitp_classification_report report;
    eitp_evaluation all, part;
    encoder e;
    int64_t right = 0, samples = 0;
    double f1 = 0;
    REQUIRE_OK(begin_problem(&e, &v, "distilbert-base", EITP_PROBLEM_SINGLE_LABEL), error_);
    CHECK(eitp_classification_report_get(&e.r.task, &report, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(step_many(&e.r, 10, NULL));
    REQUIRE_OK(eitp_trainer_evaluate(e.r.trainer, 7, &part, &error_), error_);
    REQUIRE_OK(eitp_classification_report_get(&e.r.task, &report, &error_), error_);
    CHECK(report.samples == 7 && part.metric_count == 11 && part.metrics[10].items == 7);
    REQUIRE_OK(eitp_evaluate(&e.r.task, EITP_VALIDATION, 3, 0, &all, &error_), error_);
    REQUIRE_OK(eitp_classification_report_get(&e.r.task, &report, &error_), error_);
    CHECK(report.problem == EITP_PROBLEM_SINGLE_LABEL && report.samples == VALIDATION && report.label_count == CLASSES);
    for (int k = 0; k < CLASSES; k++) {
        right += report.confusion[k * CLASSES + k];
        f1 += report.labels[k].f1 / CLASSES;
        CHECK(!strcmp(report.labels[k].name, class_names[k]));
        CHECK(report.confusion[k * CLASSES] + report.confusion[k * CLASSES + 1] + report.confusion[k * CLASSES + 2] ==
              report.labels[k].support);
        CHECK(report.confusion[k] + report.confusion[CLASSES + k] + report.confusion[2 * CLASSES + k] ==
              report.labels[k].predicted);
        samples += report.labels[k].support;
    }
    CHECK(samples == VALIDATION);
    CHECK(fabs(metric_of(&all, "accuracy") - (double)right / VALIDATION) < 1e-12);
    CHECK(fabs(metric_of(&all, "macro_f1") - f1) < 1e-12);
    CHECK(eitp__trainer_metric_direction(e.r.trainer, "macro_f1") == EITP_HIGHER_IS_BETTER);
    CHECK(eitp__trainer_metric_direction(e.r.trainer, "calibration_error") == EITP_LOWER_IS_BETTER);
    CHECK(eitp__trainer_metric_direction(e.r.trainer, "loss") == EITP_LOWER_IS_BETTER);
    CHECK(!eitp__trainer_metric_direction(e.r.trainer, "mse") && !eitp__trainer_metric_direction(NULL, "loss"));
    CHECK(eitp__trainer_has_metric(e.r.trainer, "auroc") && !eitp__trainer_has_metric(e.r.trainer, "mse"));
    end_run(&e.r);
    REQUIRE_OK(begin_problem(&e, &v, "distilbert-base", EITP_PROBLEM_REGRESSION), error_);
    REQUIRE_OK(eitp_trainer_evaluate(e.r.trainer, 0, &all, &error_), error_);
    for (size_t i = 0; i < EITP__COUNT(of_numbers); i++)
        CHECK(eitp__trainer_has_metric(e.r.trainer, of_numbers[i]));
    CHECK(fabs(metric_of(&all, "mse") - all.loss) < 1e-6);
    REQUIRE_OK(eitp_classification_report_get(&e.r.task, &report, &error_), error_);
    CHECK(!report.labels && !report.confusion);
    end_run(&e.r);
}

static void read_text(const char *path, char *text, size_t size) {
    FILE *file = fopen(path, "rb");
    text[file ? fread(text, 1, size - 1, file) : 0] = 0;
    if (file)
        fclose(file);
}

/* A run records the metrics, maximizes the metric by default, and saves the label names. */
static void runs_follow_a_metric(void) {
    const eitp_host host = eitp_host_default();
    variant v = default_variant();
    eitp_run_config config = eitp_run_config_default();
    eitp_run_report report;
    eitp_run *loop = NULL;
    char directory[512], path[600], text[20000];
    encoder e;
    v.batch_size = 10;
    v.grad_accum = 1;
    REQUIRE(scratch_make(directory));
    REQUIRE_OK(begin_problem(&e, &v, "distilbert-base", EITP_PROBLEM_SINGLE_LABEL), error_);
    config.directory = directory;
    config.steps = 30;
    config.eval_steps = 10;
    config.save_steps = 0;
    config.keep_best = "macro_f1";
    config.patience = 20;
    config.memory_check_seconds = -1;
    REQUIRE_OK(eitp_run_open(&host, &config, &loop, &error_), error_);
    REQUIRE_OK(eitp_run_train(loop, e.r.trainer, &report, &error_), error_);
    eitp_run_close(loop);
    CHECK_THAT(report.best_value > 0.5 && report.best_step > 0, "%g after step %d", report.best_value,
               (int)report.best_step);
    CHECK(metric_of(&report.evaluation, "macro_f1") <= report.best_value);
    snprintf(path, sizeof path, "%s/metrics.jsonl", directory);
    read_text(path, text, sizeof text);
    CHECK(strstr(text, "\"val_macro_f1\"") && strstr(text, "\"val_mcc_error\"") && strstr(text, "\"val_samples\": 23"));
    snprintf(path, sizeof path, "%s/checkpoint-30/config.json", directory);
    read_text(path, text, sizeof text);
    CHECK_THAT(strstr(text, "\"1\": \"middle\"") && strstr(text, "single_label_classification"), "%s", text);
    end_run(&e.r);
    scratch_remove(directory);
}

/* ---- Refusals ---- */

static void what_does_not_fit_is_refused(void) {
    static const char *const other_names[] = {"low", "average", "high"};
    static const float negative[CLASSES] = {1, -1, 1}, none[CLASSES] = {0, 0, 0};
    const variant v = default_variant();
    eitp_classification_config good, c;
    eitp_classification_report report;
    eitp_task task;
    encoder e;
    REQUIRE_OK(begin_model(&e, &v, "bert-base", EITP_HEAD_CLASSIFIER), error_);
    REQUIRE_OK(make_encoder_task(&e, EITP_PROBLEM_SINGLE_LABEL, &error_), error_);
    good = c = e.classification;
    CHECK(is_refused(eitp_classification_task(NULL, &task, &error_), EITP_ERROR_ARGUMENT, "config"));
    CHECK(is_refused(eitp_classification_task(&c, NULL, &error_), EITP_ERROR_ARGUMENT, "task"));
    c.model = NULL;
    CHECK(is_refused(eitp_classification_task(&c, &task, &error_), EITP_ERROR_ARGUMENT, "config.model"));
    c = good, c.training.label_count = 2, c.training.labels = NULL;
    CHECK(is_refused(eitp_classification_task(&c, &task, &error_), EITP_ERROR_ARGUMENT,
                     "2 labels, but the model has 3: without names, and low, middle, high"));
    c = good, c.validation.problem = EITP_PROBLEM_REGRESSION;
    CHECK(is_refused(eitp_classification_task(&c, &task, &error_), EITP_ERROR_ARGUMENT, "have numbers"));
    c = good, c.training.problem = c.validation.problem = EITP_PROBLEM_UNKNOWN;
    CHECK(is_refused(eitp_classification_task(&c, &task, &error_), EITP_ERROR_ARGUMENT, "must have labels"));
    c = good, c.training.max_length = 17;
    CHECK(is_refused(eitp_classification_task(&c, &task, &error_), EITP_ERROR_ARGUMENT, "17 tokens; it must be 1 to"));
    c = good, c.training.count = c.validation.count = 0;
    CHECK(is_refused(eitp_classification_task(&c, &task, &error_), EITP_ERROR_ARGUMENT, "no samples"));
    c = good, c.training.read = NULL;
    CHECK(is_refused(eitp_classification_task(&c, &task, &error_), EITP_ERROR_ARGUMENT, "must have read"));
    c = good, c.label_smoothing = 1.5;
    CHECK(is_refused(eitp_classification_task(&c, &task, &error_), EITP_ERROR_ARGUMENT, "0 to 1 (got 1.5)"));
    c = good, c.class_weights = negative;
    CHECK(is_refused(eitp_classification_task(&c, &task, &error_), EITP_ERROR_ARGUMENT, "class_weights[1] is -1"));
    c.class_weights = none;
    CHECK(is_refused(eitp_classification_task(&c, &task, &error_), EITP_ERROR_ARGUMENT, "above 0"));
    c = good, c.class_weights = uneven;
    c.training.problem = c.validation.problem = EITP_PROBLEM_MULTI_LABEL;
    CHECK(is_refused(eitp_classification_task(&c, &task, &error_), EITP_ERROR_ARGUMENT,
                     "the samples have several labels"));
    REQUIRE_OK(eitp_model_set_labels(e.r.model, other_names, CLASSES, &error_), error_);
    CHECK(is_refused(eitp_classification_task(&good, &task, &error_), EITP_ERROR_ARGUMENT,
                     "label 'middle' of the data is not one of the model's (low, average, high)"));
    e.r.model->config.problem = EITP_PROBLEM_REGRESSION;
    CHECK(is_refused(eitp_classification_task(&good, &task, &error_), EITP_ERROR_ARGUMENT, "the model is for numbers"));
    CHECK(is_refused(eitp_classification_report_get(NULL, &report, &error_), EITP_ERROR_ARGUMENT, "task"));
    memset(&task, 0, sizeof task);
    CHECK(is_refused(eitp_classification_report_get(&task, &report, &error_), EITP_ERROR_ARGUMENT, "evaluated"));
    end_run(&e.r);
    REQUIRE_OK(begin_model(&e, &v, "bert-base", EITP_HEAD_LANGUAGE), error_);
    CHECK(is_refused(make_encoder_task(&e, EITP_PROBLEM_SINGLE_LABEL, &error_), EITP_ERROR_ARGUMENT, "no classifier"));
    end_run(&e.r);
}

/* ---- Label names ---- */

/* Generated samples whose labels have other numbers. */
typedef struct renumbered {
    made_up samples;
    int64_t count;           /* number of labels */
    int32_t number[CLASSES]; /* number of each class; -1: its samples have no label */
} renumbered;

static eitp_status read_renumbered(void *user, uint64_t number, eitp_labelled_sample *sample, eitp_error *error) {
    const renumbered *r = (const renumbered *)user;
    float targets[CLASSES];
    eitp_labelled_sample read = *sample;
    read.targets = sample->targets ? targets : NULL;
    eitp_status status = read_made_up((void *)&r->samples, number, &read, error);
    read.targets = sample->targets;
    *sample = read;
    sample->label = read.label < 0 ? -1 : r->number[read.label];
    for (int64_t i = 0; i < read.length && read.token_labels; i++)
        read.token_labels[i] = read.token_labels[i] < 0 ? -1 : r->number[read.token_labels[i]];
    for (int k = 0; k < CLASSES && sample->targets; k++) {
        if (r->number[k] >= 0)
            sample->targets[r->number[k]] = targets[k];
    }
    return status;
}

/* The same labels with other numbers, some of which may not occur. */
typedef struct naming {
    const char *model[CLASSES];  /* NULL: the model has no label names */
    const char *source[CLASSES]; /* NULL: the samples have no label names */
    int64_t count;               /* number of labels of the source */
    int32_t number[CLASSES];     /* number in the source of each of the model's labels; -1: does not occur */
    const char *last;            /* resulting name of the model's last label */
} naming;

static const naming namings[] = {
    {{NULL}, {NULL}, 3, {0, 1, 2}, "LABEL_2"},
    {{NULL}, {"b", "c", "a"}, 3, {0, 1, 2}, "a"},
    {{NULL}, {"LABEL_2", "LABEL_0", "LABEL_1"}, 3, {1, 2, 0}, "LABEL_2"},
    {{NULL}, {"LABEL_2", "LABEL_0"}, 2, {1, -1, 0}, "LABEL_2"},
    {{NULL}, {"2", "0", "1"}, 3, {1, 2, 0}, "2"},
    {{NULL}, {"1", "2"}, 2, {-1, 0, 1}, "LABEL_2"},
    {{"x", "y", "z"}, {NULL}, 3, {0, 1, 2}, "z"},
    {{"x", "y", "z"}, {"z", "x", "y"}, 3, {1, 2, 0}, "z"},
    {{"x", "y", "z"}, {"y", "x"}, 2, {1, 0, -1}, "z"},
    {{"x", "y", "z"}, {"z"}, 1, {-1, -1, 0}, "z"},
};

/* Evaluates the validation samples with the names and numbers of `n`, or with the model's if it is NULL. */
static void evaluate_named(const naming *n, const int32_t occurs[CLASSES], eitp_problem problem,
                           eitp_evaluation *evaluation) {
    variant v = default_variant();
    const eitp_head head = problem == EITP_PROBLEM_TOKENS ? EITP_HEAD_TOKEN_CLASSIFIER : EITP_HEAD_CLASSIFIER;
    eitp_labelled_source *source;
    renumbered samples;
    encoder e;
    memset(&samples, 0, sizeof samples);
    memset(evaluation, 0, sizeof *evaluation);
    REQUIRE_OK(begin_model(&e, &v, "bert-base", head), error_);
    samples.count = n ? n->count : CLASSES;
    for (int k = 0; k < CLASSES; k++)
        samples.number[k] = n ? n->number[k] : occurs[k] < 0 ? -1 : k;
    if (n && n->model[0])
        CHECK(!eitp_model_set_labels(e.r.model, n->model, CLASSES, &error_));
    source = &e.classification.training;
    *source = made_up_source(&samples.samples, VALIDATION, problem);
    source->user = &samples;
    source->read = read_renumbered;
    source->label_count = samples.count;
    source->labels = n && n->source[0] ? n->source : NULL;
    e.classification.validation = *source;
    REQUIRE_OK(eitp_classification_task(&e.classification, &e.r.task, &error_), error_);
    REQUIRE_OK(eitp_evaluate(&e.r.task, EITP_TRAINING, 4, 0, evaluation, &error_), error_);
    if (n) {
        eitp_classification_report report;
        CHECK(!eitp_classification_report_get(&e.r.task, &report, &error_) && report.label_count == CLASSES);
        CHECK_THAT(!strcmp(report.labels[CLASSES - 1].name, n->last), "%s, not %s", report.labels[CLASSES - 1].name,
                   n->last);
        CHECK(!strcmp(eitp_model_label(e.r.model, CLASSES - 1), n->last));
        REQUIRE_OK(eitp_evaluate(&e.r.task, EITP_VALIDATION, 4, 0, evaluation, &error_), error_);
    }
    end_run(&e.r);
}

/* Labels are matched to the model's by name, regardless of their numbers in the data. */
static void labels_are_found_by_name(void) {
    static const eitp_problem problems[] = {EITP_PROBLEM_SINGLE_LABEL, EITP_PROBLEM_MULTI_LABEL, EITP_PROBLEM_TOKENS};
    for (size_t i = 0; i < EITP__COUNT(namings); i++) {
        for (size_t p = 0; p < EITP__COUNT(problems); p++) {
            eitp_evaluation expected, found;
            evaluate_named(NULL, namings[i].number, problems[p], &expected);
            evaluate_named(&namings[i], NULL, problems[p], &found);
            CHECK_THAT(expected.items > 0 && found.items == expected.items &&
                           !memcmp(&found.loss, &expected.loss, sizeof found.loss),
                       "naming %zu, problem %d: %.9f, not %.9f", i, (int)problems[p], found.loss, expected.loss);
        }
    }
}

/* The expected result of eitp_model_match_labels for the names of samples and of a model. */
typedef struct matching {
    const char *model[CLASSES]; /* NULL: without names */
    const char *source[4];
    eitp_problem problem;
    int match; /* -1: refused with the message `why` */
    const char *why;
} matching;

static const matching matchings[] = {
    {{NULL}, {"LABEL_1"}, EITP_PROBLEM_SINGLE_LABEL, EITP_LABELS_BY_NAME, NULL},
    {{NULL}, {"0", "2"}, EITP_PROBLEM_SINGLE_LABEL, EITP_LABELS_BY_NUMBER, NULL},
    {{NULL}, {"1", "2", "3"}, EITP_PROBLEM_SINGLE_LABEL, EITP_LABELS_IN_ORDER, NULL},
    {{NULL}, {"0", "01", "2"}, EITP_PROBLEM_SINGLE_LABEL, EITP_LABELS_IN_ORDER, NULL},
    {{NULL}, {"a", "b", "c"}, EITP_PROBLEM_TOKENS, EITP_LABELS_IN_ORDER, NULL},
    {{NULL}, {"a", "b", "c"}, EITP_PROBLEM_REGRESSION, EITP_LABELS_IN_ORDER, NULL},
    {{"x", "y", "z"}, {"z", "x", "y"}, EITP_PROBLEM_REGRESSION, EITP_LABELS_BY_NAME, NULL},
    {{"x", "y", "z"}, {"z", "x"}, EITP_PROBLEM_REGRESSION, -1, "have 2 labels, but the model has 3: z, x, and x, y, z"},
    {{NULL}, {"0", "1"}, EITP_PROBLEM_REGRESSION, -1, "have 2 labels, but the model has 3"},
    {{NULL}, {"a", "b"}, EITP_PROBLEM_SINGLE_LABEL, -1, "but the model has 3: a, b, and LABEL_0, LABEL_1, LABEL_2"},
    {{NULL}, {"0", "3"}, EITP_PROBLEM_SINGLE_LABEL, -1, "the data have 2 labels, but the model has 3"},
    {{NULL}, {"LABEL_0", "b", "LABEL_1"}, EITP_PROBLEM_SINGLE_LABEL, -1, "label 'b' of the data is not one of"},
    {{"x", "y", "z"}, {"0", "1", "2"}, EITP_PROBLEM_SINGLE_LABEL, -1, "label '0' of the data is not one of"},
    {{"x", "y", "z"}, {"x", "y", "x"}, EITP_PROBLEM_SINGLE_LABEL, -1, "two labels are named 'x'"},
    {{"LABEL_1", "LABEL_0", "z"}, {"0", "1", "z"}, EITP_PROBLEM_SINGLE_LABEL, -1, "label '0' of the data is not"},
};

static void labels_are_matched(void) {
    const variant v = default_variant();
    for (size_t i = 0; i < EITP__COUNT(matchings); i++) {
        const matching *m = &matchings[i];
        eitp_label_match match;
        int32_t numbers[CLASSES + 1];
        made_up samples;
        encoder e;
        memset(&samples, 0, sizeof samples);
        REQUIRE_OK(begin_model(&e, &v, "bert-base", EITP_HEAD_CLASSIFIER), error_);
        eitp_labelled_source source = made_up_source(&samples, SAMPLES, m->problem);
        source.labels = m->source;
        for (source.label_count = 0; m->source[source.label_count]; source.label_count++)
            ;
        if (m->model[0])
            REQUIRE_OK(eitp_model_set_labels(e.r.model, m->model, CLASSES, &error_), error_);
        CHECK(eitp__model_labels_are_numbers(e.r.model) == !m->model[0]);
        const eitp_status status = eitp_model_match_labels(e.r.model, &source, numbers, &match, &error_);
        if (m->why)
            CHECK_THAT(is_refused(status, EITP_ERROR_ARGUMENT, m->why), "case %zu", i);
        else
            CHECK_THAT(!status && (int)match == m->match, "case %zu: %d", i, status ? -1 : (int)match);
        end_run(&e.r);
    }
}

static void matching_needs_all(void) {
    static const char *const gap[] = {"x", NULL, "z"};
    const variant v = default_variant();
    eitp_label_match match;
    int32_t numbers[CLASSES];
    made_up samples;
    encoder e;
    eitp_labelled_source source = made_up_source(&samples, SAMPLES, EITP_PROBLEM_SINGLE_LABEL);
    REQUIRE_OK(begin_model(&e, &v, "bert-base", EITP_HEAD_CLASSIFIER), error_);
    CHECK(is_refused(eitp_model_match_labels(NULL, &source, numbers, &match, &error_), EITP_ERROR_ARGUMENT, "model"));
    CHECK(
        is_refused(eitp_model_match_labels(e.r.model, NULL, numbers, &match, &error_), EITP_ERROR_ARGUMENT, "source"));
    CHECK(
        is_refused(eitp_model_match_labels(e.r.model, &source, NULL, &match, &error_), EITP_ERROR_ARGUMENT, "numbers"));
    CHECK(
        is_refused(eitp_model_match_labels(e.r.model, &source, numbers, NULL, &error_), EITP_ERROR_ARGUMENT, "match"));
    source.labels = gap;
    CHECK(is_refused(eitp_model_match_labels(e.r.model, &source, numbers, &match, &error_), EITP_ERROR_ARGUMENT,
                     "label 1 of a source has no name"));
    end_run(&e.r);
    REQUIRE_OK(begin_model(&e, &v, "bert-base", EITP_HEAD_LANGUAGE), error_);
    CHECK(is_refused(eitp_model_match_labels(e.r.model, &source, numbers, &match, &error_), EITP_ERROR_ARGUMENT,
                     "no classifier"));
    CHECK(!eitp__model_labels_are_numbers(e.r.model) && !eitp__model_labels_are_numbers(NULL));
    end_run(&e.r);
}

static eitp_status create_with(const eitp_host *host, const naming *n, eitp_problem problem) {
    static const float weights[CLASSES] = {1, 2, 3};
    eitp_context_config config = eitp_context_config_default();
    eitp_transformer_config shape =
        small_encoder("bert-base", problem == EITP_PROBLEM_TOKENS ? EITP_HEAD_TOKEN_CLASSIFIER : EITP_HEAD_CLASSIFIER);
    eitp_classification_config c = eitp_classification_config_default();
    eitp_context *context = NULL;
    eitp_task task;
    renumbered samples;
    memset(&samples, 0, sizeof samples);
    memset(&task, 0, sizeof task);
    config.host = *host;
    eitp_status status = eitp_context_create(&config, &context, &error_);
    if (!status)
        status = eitp_model_create(context, &shape, &c.model, &error_);
    c.training = made_up_source(&samples.samples, SAMPLES, problem);
    c.training.label_count = n->count;
    c.training.labels = n->source;
    c.validation = c.training;
    c.class_weights = problem == EITP_PROBLEM_MULTI_LABEL ? NULL : weights;
    if (!status)
        status = eitp_classification_task(&c, &task, &error_);
    eitp_task_release(&task);
    eitp_model_destroy(c.model);
    eitp_context_destroy(context);
    return status;
}

static void every_failed_allocation_is_an_error(void) {
    static const struct {
        naming names;
        eitp_problem problem;
    } cases[] = {{{{NULL}, {"O", "B-x", "I-x"}, 3, {0}, NULL}, EITP_PROBLEM_TOKENS},
                 {{{NULL}, {"LABEL_2", "LABEL_0"}, 2, {0}, NULL}, EITP_PROBLEM_MULTI_LABEL}};
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        for (long n = 1;; n++) {
            faults f;
            faults_begin(&f);
            f.fail_allocation = n;
            const eitp_status status = create_with(&f.host, &cases[i].names, cases[i].problem);
            const int failed = faults_end(&f);
            CHECK_THAT(status == (failed ? EITP_ERROR_MEMORY : EITP_OK), "allocation %ld: %s", n, error_.message);
            if (!failed)
                break;
        }
    }
}

/* A sample that does not fit the model is reported by number. */
static void wrong_samples_are_told(void) {
    const variant v = default_variant();
    eitp_evaluation evaluation;
    encoder e;
    REQUIRE_OK(begin_problem(&e, &v, "bert-base", EITP_PROBLEM_SINGLE_LABEL), error_);
    e.validation.wrong_id = VOCABULARY;
    CHECK(is_refused(eitp_trainer_evaluate(e.r.trainer, 0, &evaluation, &error_), EITP_ERROR_FORMAT,
                     "sample 5 has token id 37; expected 0 to 36: use the model's tokenizer"));
    e.validation.wrong_id = 0;
    e.validation.wrong_label = CLASSES;
    CHECK(is_refused(eitp_trainer_evaluate(e.r.trainer, 0, &evaluation, &error_), EITP_ERROR_FORMAT,
                     "sample 5 has label 3"));
    end_run(&e.r);
    REQUIRE_OK(begin_problem(&e, &v, "bert-base", EITP_PROBLEM_MULTI_LABEL), error_);
    e.validation.wrong_target = 2;
    CHECK(is_refused(eitp_trainer_evaluate(e.r.trainer, 0, &evaluation, &error_), EITP_ERROR_FORMAT,
                     "sample 5 has 2 as target 0; it must be 0 to 1"));
    end_run(&e.r);
}

/* A task's own metrics must be complete and have unique names. */
static void incomplete_judges_are_refused(void) {
    static const eitp_task_metric taken[] = {{"loss", EITP_HIGHER_IS_BETTER}};
    static const eitp_task_metric astray[] = {{"astray", (eitp_metric_direction)-2}};
    const variant v = default_variant();
    eitp_evaluation evaluation;
    encoder e;
    eitp_task task;
    REQUIRE_OK(begin_problem(&e, &v, "bert-base", EITP_PROBLEM_SINGLE_LABEL), error_);
    task = e.r.task;
    task.compute_metrics = NULL;
    CHECK(is_refused(eitp_evaluate(&task, EITP_VALIDATION, 4, 0, &evaluation, &error_), EITP_ERROR_ARGUMENT,
                     "compute_metrics"));
    task = e.r.task;
    task.metric_count = EITP_MAX_TASK_METRICS + 1;
    CHECK(is_refused(eitp_evaluate(&task, EITP_VALIDATION, 4, 0, &evaluation, &error_), EITP_ERROR_ARGUMENT, "17"));
    task = e.r.task;
    task.metrics = taken;
    task.metric_count = 1;
    CHECK(is_refused(eitp_evaluate(&task, EITP_VALIDATION, 4, 0, &evaluation, &error_), EITP_ERROR_ARGUMENT, "'loss'"));
    task.metrics = astray;
    CHECK(is_refused(eitp_evaluate(&task, EITP_VALIDATION, 4, 0, &evaluation, &error_), EITP_ERROR_ARGUMENT,
                     "metric 'astray': unknown direction -2"));
    eitp_pass_output(NULL, "scores", NULL);
    end_run(&e.r);
}

/* The message names both the split without samples and a split that has some. */
static void a_split_without_samples_is_named(void) {
    const variant v = default_variant();
    eitp_evaluation evaluation;
    encoder e;
    eitp_task task;
    REQUIRE_OK(begin_problem(&e, &v, "bert-base", EITP_PROBLEM_SINGLE_LABEL), error_);
    task = e.r.task;
    task.samples[EITP_TRAINING] = 5;
    task.samples[EITP_VALIDATION] = 0;
    CHECK(is_refused(eitp_evaluate(&task, EITP_VALIDATION, 4, 0, &evaluation, &error_), EITP_ERROR_ARGUMENT,
                     "the task has no validation samples, but it has 5 training samples"));
    CHECK(is_refused(eitp_evaluate(&task, (eitp_split)2, 4, 0, &evaluation, &error_), EITP_ERROR_ARGUMENT,
                     "unknown split 2"));
    end_run(&e.r);
}

/* ---- Learning rates by layer ---- */

enum { MOST_PARAMETERS = 64, PROBE = 8 };

/* The first elements of each trained parameter, before and after a plain SGD step. */
typedef struct probes {
    char names[MOST_PARAMETERS][80];
    float before[MOST_PARAMETERS][PROBE], after[MOST_PARAMETERS][PROBE];
    size_t count;
} probes;

static void probe(const run *r, probes *p, int is_after) {
    p->count = 0;
    for (size_t i = 0; i < eitp_variable_count(r->context) && p->count < MOST_PARAMETERS; i++) {
        const eitp_variable variable = eitp_variable_at(r->context, i);
        const int64_t elements = (int64_t)(variable.size / sizeof(float));
        float *values = is_after ? p->after[p->count] : p->before[p->count];
        if (variable.role != EITP_PARAMETER || !variable.trained)
            continue;
        snprintf(p->names[p->count++], sizeof p->names[0], "%s", variable.name);
        CHECK(!eitp_variable_read_f32(r->context, variable.name, 0, values, elements < PROBE ? elements : PROBE,
                                      &error_));
    }
}

static void step_with_decay(double decay, int64_t lora_rank, probes *p) {
    variant v = default_variant();
    encoder e;
    memset(p, 0, sizeof *p);
    v.optimizer = EITP_SGD;
    v.lora_rank = lora_rank;
    v.dropout = 0;
    REQUIRE_OK(begin_model(&e, &v, "bert-base", EITP_HEAD_CLASSIFIER), error_);
    CHECK(!eitp_model_set_dropout(e.r.model, 0, 0, 0, &error_));
    e.r.config.layer_lr_decay = decay;
    e.r.config.optimizer_config.weight_decay = 0;
    e.r.config.schedule.peak = 1;
    e.r.config.max_grad_norm = 0;
    REQUIRE_OK(make_encoder_task(&e, EITP_PROBLEM_SINGLE_LABEL, &error_), error_);
    REQUIRE_OK(eitp_trainer_create(&e.r.task, &e.r.config, &e.r.trainer, &error_), error_);
    probe(&e.r, p, 0);
    CHECK(step_many(&e.r, 1, NULL));
    probe(&e.r, p, 1);
    end_run(&e.r);
}

/* Largest change of a parameter. */
static double change(const probes *p, size_t parameter) {
    double largest = 0;
    for (int i = 0; i < PROBE; i++)
        largest = fmax(largest, fabs((double)p->after[parameter][i] - (double)p->before[parameter][i]));
    return largest;
}

/* The rate is halved for each layer above: two blocks, then embeddings. */
static double expected_factor(const char *name) {
    return strstr(name, "embeddings") ? 0.125 : strstr(name, "layer.0.") ? 0.25 : strstr(name, "layer.1.") ? 0.5 : 1;
}

static void layers_have_learning_rates_of_their_own(void) {
    for (int64_t rank = 0; rank < 3; rank += 2) {
        probes plain, decayed;
        double reached = 0;
        step_with_decay(1, rank, &plain);
        step_with_decay(0.5, rank, &decayed);
        CHECK(plain.count == decayed.count && plain.count > 4);
        for (size_t i = 0; i < plain.count; i++) {
            const double factor = expected_factor(plain.names[i]), expected = factor * change(&plain, i);
            CHECK_THAT(fabs(change(&decayed, i) - expected) < 2e-3 * expected + 2e-8, "%s: %g, not %g", plain.names[i],
                       change(&decayed, i), expected);
            reached += expected > 1e-5 && factor < 1;
        }
        CHECK_THAT(reached > 3, "rank %d: %g", (int)rank, reached);
    }
}

static void layer_rates_need_layers(void) {
    const variant v = default_variant();
    encoder e;
    eitp_trainer *trainer;
    REQUIRE_OK(begin_problem(&e, &v, "bert-base", EITP_PROBLEM_SINGLE_LABEL), error_);
    e.r.config.layer_lr_decay = 0.9;
    e.r.task.model = NULL;
    CHECK(is_refused(eitp_trainer_create(&e.r.task, &e.r.config, &trainer, &error_), EITP_ERROR_ARGUMENT,
                     "layer_lr_decay is 0.9, but the task has no model with blocks"));
    e.r.config.layer_lr_decay = 0;
    CHECK(is_refused(eitp_trainer_create(&e.r.task, &e.r.config, &trainer, &error_), EITP_ERROR_ARGUMENT, "above 0"));
    end_run(&e.r);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(losses_are_those_of_transformers),
        TEST(samples_have_weights),
        TEST(weights_change_no_other_bit),
        TEST(wrong_weights_are_refused),
        TEST(tokens_of_conversations_have_weights),
        TEST(weighted_conversations_train_alike),
        TEST(a_saved_model_has_the_labels_it_was_trained_for),
        TEST(fifty_steps_match_transformers),
        TEST(evaluations_are_judged),
        TEST(runs_follow_a_metric),
        TEST(what_does_not_fit_is_refused),
        TEST(wrong_samples_are_told),
        TEST(incomplete_judges_are_refused),
        TEST(a_split_without_samples_is_named),
        TEST(layers_have_learning_rates_of_their_own),
        TEST(layer_rates_need_layers),
        TEST(labels_are_found_by_name),
        TEST(labels_are_matched),
        TEST(matching_needs_all),
        TEST(every_failed_allocation_is_an_error),
    };
    return RUN_TESTS(tests, argc, argv);
}
