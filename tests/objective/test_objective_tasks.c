/* Every regularizer with every task of the library either trains with finite values or is refused with one line. */
#include "tests/support/labelled.h"

/* The training task: a problem of labelled samples, masked tokens, or next tokens. */
typedef struct shape {
    const char *name, *model;
    eitp_problem problem;
} shape;

/* Regularizers that a task cannot use, as bits. */
#define BIT(regularizer) (1u << (regularizer))
#define OF_TOKENS BIT(EITP_SELF_REPAIR)
#define OF_CLASSES (BIT(EITP_OUTPUT_ENTROPY) | BIT(EITP_BRIER) | OF_TOKENS)

static char directory_[512];

static const shape shapes_[] = {
    {"masked tokens of BERT", "bert-base", EITP_PROBLEM_UNKNOWN},
    {"masked tokens of RoBERTa", "roberta-base", EITP_PROBLEM_UNKNOWN},
    {"masked tokens of DistilBERT", "distilbert-base", EITP_PROBLEM_UNKNOWN},
    {"a label, GPT-2", "gpt2", EITP_PROBLEM_SINGLE_LABEL},
    {"a label, BERT", "bert-base", EITP_PROBLEM_SINGLE_LABEL},
    {"a label, RoBERTa", "roberta-base", EITP_PROBLEM_SINGLE_LABEL},
    {"several labels, DistilBERT", "distilbert-base", EITP_PROBLEM_MULTI_LABEL},
    {"numbers, BERT", "bert-base", EITP_PROBLEM_REGRESSION},
    {"labels of tokens, RoBERTa", "roberta-base", EITP_PROBLEM_TOKENS},
    {"labels of tokens, GPT-2", "gpt2", EITP_PROBLEM_TOKENS},
};

static unsigned refused_by(const shape *s, eitp_group group) {
    unsigned refused = BIT(EITP_ENERGY);
    if (s->problem == EITP_PROBLEM_REGRESSION || s->problem == EITP_PROBLEM_MULTI_LABEL)
        refused |= OF_CLASSES;
    else if (s->problem)
        refused |= OF_TOKENS;
    if (group == EITP_GROUP_MICRO_BATCH)
        refused |= BIT(EITP_ATTENTION_ENTROPY);
    return refused;
}

static eitp_objective_config objective_of(unsigned terms, eitp_term_mode mode, eitp_group group) {
    eitp_objective_config objective = eitp_objective_config_default();
    for (int i = 0; i < EITP_REGULARIZERS; i++) {
        objective.terms[i].mode = terms & BIT(i) ? mode : EITP_TERM_OFF;
        objective.terms[i].every = 1;
    }
    objective.group = group;
    objective.chaos_samples = 2;
    objective.entropy_high = 0.5;
    objective.attention_entropy_floor = 0.99;
    return objective;
}

/* Creates a context, a model and a task, without a trainer. */
static eitp_status begin_shape(encoder *e, const shape *s, const variant *v) {
    const eitp_head head = s->problem == EITP_PROBLEM_TOKENS ? EITP_HEAD_TOKEN_CLASSIFIER
                           : s->problem                      ? EITP_HEAD_CLASSIFIER
                                                             : EITP_HEAD_LANGUAGE;
    eitp_status status = begin_model(e, v, s->model, head);
    if (!strcmp(s->model, "roberta-base"))
        e->training.padding = e->validation.padding = 1;
    return status ? status : make_encoder_task(e, s->problem, &error_);
}

/* Trains a few steps and evaluates. All reported values must be finite. */
static void check_finite(eitp_trainer *trainer, int terms, const char *name) {
    eitp_evaluation evaluation;
    for (int step = 0; step < 3; step++) {
        eitp_step_report report;
        if (eitp_trainer_step(trainer, &report, &error_)) {
            CHECK_THAT(0, "%s: %s", name, error_.message);
            return;
        }
        /* In fp16 a scaled gradient may overflow. Then the step is skipped and the next one uses half the scale. */
        if (!report.applied && report.loss_scale > 1 && isfinite(report.loss))
            continue;
        CHECK_THAT(report.applied && isfinite(report.loss) && isfinite(report.grad_norm), "%s: loss %g, norm %g", name,
                   report.loss, report.grad_norm);
        CHECK_THAT(terms < 0 || report.term_count == 1 + terms, "%s: %d terms", name, report.term_count);
        for (int i = 0; i < report.term_count + report.step_metric_count; i++)
            CHECK_THAT(isfinite(report.terms[i].mean), "%s: %s is %g", name, report.terms[i].name,
                       report.terms[i].mean);
    }
    if (eitp_trainer_evaluate(trainer, 0, &evaluation, &error_)) {
        CHECK_THAT(0, "%s: %s", name, error_.message);
        return;
    }
    CHECK_THAT(isfinite(evaluation.loss), "%s: evaluated loss %g", name, evaluation.loss);
}

static int bits_of(unsigned set) {
    int count = 0;
    for (; set; set &= set - 1)
        count++;
    return count;
}

static variant variant_of(const char *precision, int64_t batch_size, int64_t rank) {
    variant v = default_variant();
    v.threads = 1;
    v.precision = precision;
    v.batch_size = batch_size;
    v.lora_rank = rank;
    return v;
}

/* ---- Refused regularizers ---- */

/* Tests each regularizer alone. Unsupported ones are refused with a line that names them. Others give a trainer. */
static void each_is_built_or_refused(void) {
    const variant v = variant_of("fp32", 2, 0);
    for (size_t i = 0; i < EITP__COUNT(shapes_); i++) {
        encoder e;
        REQUIRE_OK(begin_shape(&e, &shapes_[i], &v), error_);
        for (int k = 0; k < 2 * EITP_REGULARIZERS; k++) {
            const int regularizer = k / 2;
            const eitp_group group = k % 2 ? EITP_GROUP_MICRO_BATCH : EITP_GROUP_SAMPLE;
            const char *name = eitp__regularizer_name((eitp_regularizer)regularizer);
            eitp_trainer *trainer = NULL;
            eitp_status status;
            e.r.config.objective = objective_of(BIT(regularizer), EITP_TERM_LOSS, group);
            status = eitp_trainer_create(&e.r.task, &e.r.config, &trainer, &error_);
            if (refused_by(&shapes_[i], group) & BIT(regularizer))
                CHECK_THAT(status == EITP_ERROR_ARGUMENT && strstr(error_.message, name) &&
                               !strchr(error_.message, '\n'),
                           "%s with %s: %d, %s", shapes_[i].name, name, (int)status, status ? error_.message : "");
            else
                CHECK_THAT(!status, "%s with %s: %s", shapes_[i].name, name, error_.message);
            eitp_trainer_destroy(trainer);
        }
        end_run(&e.r);
    }
}

/* Parts of a pass that a custom task omits. */
typedef struct bare {
    const eitp_model *model;
    int has_model, has_inputs; /* 0: the model is not in the graph, or its inputs are declared separately */
} bare;

static bare bare_;

static eitp_status build_bare(void *user, eitp_pass *pass, eitp_error *error) {
    eitp_graph *graph = eitp_pass_graph(pass);
    eitp_model_inputs inputs = EITP__ZERO;
    eitp_tensor *targets, *hidden;
    (void)user;
    if (bare_.has_inputs) {
        inputs = eitp_pass_model_inputs(pass, bare_.model);
    } else {
        inputs.tokens = eitp_pass_row_input(pass, "tokens", EITP_I32, 0, NULL, 0);
        inputs.positions = eitp_pass_positions(pass);
        inputs.offsets = eitp_pass_offsets(pass);
    }
    targets = eitp_pass_row_input(pass, "targets", EITP_I32, 0, NULL, -100);
    hidden = eitp_cast(inputs.tokens, EITP_F32);
    if (bare_.has_model)
        hidden = eitp_model_row_losses(
            bare_.model, eitp_model_hidden(bare_.model, graph, &inputs, eitp_pass_max_length(pass)), targets, -100);
    eitp_pass_term(pass, "loss", hidden, NULL);
    return eitp_graph_status(graph, error);
}

/* A custom task must provide its model, tokens and targets. Otherwise the message names the missing part. */
static void what_a_pass_lacks_is_named(void) {
    static const struct {
        int has_model, has_inputs;
        eitp_regularizer regularizer;
        eitp_self_repair_form form;
        const char *message; /* NULL: nothing is missing */
    } cases[] = {
        {1, 1, EITP_OUTPUT_ENTROPY, EITP_SELF_REPAIR_KL, NULL},
        {1, 0, EITP_CODING_RATE, EITP_SELF_REPAIR_KL, NULL},
        {1, 0, EITP_CHAOS, EITP_SELF_REPAIR_KL, NULL},
        {1, 1, EITP_BRIER, EITP_SELF_REPAIR_KL, "brier needs the targets of the predictions: set them with "},
        {1, 1, EITP_SELF_REPAIR, EITP_SELF_REPAIR_KL, NULL},
        {1, 1, EITP_SELF_REPAIR, EITP_SELF_REPAIR_DENOISE, "self_repair needs the targets of the predictions"},
        {1, 0, EITP_SELF_REPAIR, EITP_SELF_REPAIR_KL, "self_repair needs the model's tokens: declare them with "},
        {0, 1, EITP_COHERENCE, EITP_SELF_REPAIR_KL, "coherence needs the hidden states of the task's model: "},
    };
    const variant v = variant_of("fp32", 2, 0);
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        for (int mode = EITP_TERM_METRIC; mode <= EITP_TERM_LOSS; mode++) {
            eitp_status status;
            encoder e;
            REQUIRE_OK(begin_shape(&e, &shapes_[2], &v), error_);
            bare_.model = e.r.model;
            bare_.has_model = cases[i].has_model;
            bare_.has_inputs = cases[i].has_inputs;
            e.r.task.build = build_bare;
            e.r.config.objective = objective_of(BIT(cases[i].regularizer), (eitp_term_mode)mode, EITP_GROUP_SAMPLE);
            e.r.config.objective.self_repair_form = cases[i].form;
            status = eitp_trainer_create(&e.r.task, &e.r.config, &e.r.trainer, &error_);
            if (cases[i].message)
                CHECK_THAT(status == EITP_ERROR_ARGUMENT && strstr(error_.message, cases[i].message), "case %d: %d, %s",
                           (int)i, (int)status, status ? error_.message : "");
            else
                CHECK_THAT(!status, "case %d: %s", (int)i, error_.message);
            end_run(&e.r);
        }
    }
}

/* ---- Training ---- */

static void all_train(const shape *s, const char *precision, int64_t batch_size, int64_t rank, eitp_group group) {
    const variant v = variant_of(precision, batch_size, rank);
    const unsigned terms = (BIT(EITP_REGULARIZERS) - 1) & ~refused_by(s, group);
    char name[160];
    encoder e;
    snprintf(name, sizeof name, "%s, %s, batch %d, rank %d, group %d", s->name, precision, (int)batch_size, (int)rank,
             (int)group);
    REQUIRE_OK(begin_shape(&e, s, &v), error_);
    e.r.config.objective = objective_of(terms, EITP_TERM_LOSS, group);
    if (eitp_trainer_create(&e.r.task, &e.r.config, &e.r.trainer, &error_))
        CHECK_THAT(0, "%s: %s", name, error_.message);
    else
        check_finite(e.r.trainer, bits_of(terms), name);
    end_run(&e.r);
}

static void all_train_with_every_task(void) {
    for (size_t i = 0; i < EITP__COUNT(shapes_); i++) {
        all_train(&shapes_[i], "fp32", 3, 0, EITP_GROUP_SAMPLE);
        all_train(&shapes_[i], "fp32", 3, 0, EITP_GROUP_MICRO_BATCH);
        all_train(&shapes_[i], "fp32", 1, 2, EITP_GROUP_SAMPLE);
        all_train(&shapes_[i], "bf16", 2, 0, EITP_GROUP_SAMPLE);
        all_train(&shapes_[i], "bf16", 2, 2, EITP_GROUP_MICRO_BATCH);
        all_train(&shapes_[i], "fp16", 2, 0, EITP_GROUP_SAMPLE);
    }
}

/* Windows of 1, 2 and 3 tokens. A sample may be too short for a statistic. */
static void short_windows_train(void) {
    static const char *const precisions[] = {"fp32", "bf16", "fp16"};
    const eitp_host host = eitp_host_default();
    for (int i = 0; i < 9; i++) {
        const eitp_group group = i % 2 ? EITP_GROUP_MICRO_BATCH : EITP_GROUP_SAMPLE;
        const unsigned terms =
            (BIT(EITP_REGULARIZERS) - 1) & ~BIT(EITP_ENERGY) & ~(group ? BIT(EITP_ATTENTION_ENTROPY) : 0);
        eitp_objective_config objective = objective_of(terms, EITP_TERM_LOSS, group);
        variant v = variant_of(precisions[i % 3], group ? 2 : 1, 0);
        char name[80];
        run r;
        objective.chaos_positions = i / 3 == 1 ? EITP_CHAOS_LAST : EITP_CHAOS_ALL;
        objective.self_repair_form = i / 3 == 2 ? EITP_SELF_REPAIR_DENOISE : EITP_SELF_REPAIR_KL;
        v.objective = &objective;
        v.block_size = 1 + i / 3;
        snprintf(name, sizeof name, "windows of %d, %s, group %d", 1 + i / 3, v.precision, (int)group);
        if (make_run(&r, &host, &v, directory_, &error_))
            CHECK_THAT(0, "%s: %s", name, error_.message);
        else
            check_finite(r.trainer, bits_of(terms), name);
        end_run(&r);
    }
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(each_is_built_or_refused),
        TEST(what_a_pass_lacks_is_named),
        TEST(all_train_with_every_task),
        TEST(short_windows_train),
    };
    int failures;
    if (!scratch_make(directory_) || !write_text(directory_))
        return 1;
    failures = RUN_TESTS(tests, argc, argv);
    scratch_remove(directory_);
    return failures;
}
