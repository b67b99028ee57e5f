/*
 * Steps with regularizers: the gradient of each compared with central differences of its reported value, this value
 * compared with plain loops, and values of micro-batches that are not full.
 */
#include "tests/support/labelled.h"

#include <math.h>

/* Steps of single-precision SGD over all samples in order, starting with the first. */
typedef struct setting {
    const char *model;
    eitp_problem problem;
    int64_t batch_size, grad_accum;
    uint64_t samples;
    double rate;
    eitp_objective_config objective;
} setting;

static setting setting_of(const char *model, eitp_problem problem) {
    setting s;
    memset(&s, 0, sizeof s);
    s.model = model;
    s.problem = problem;
    s.batch_size = 3;
    s.grad_accum = 2;
    s.samples = 5; /* the last micro-batch has two samples of three */
    s.rate = 1;
    s.objective = eitp_objective_config_default();
    /* Every term is away from its minimum and from jumps of its gradient. */
    s.objective.entropy_high = 0.5;
    s.objective.balance_target = s.objective.chaos_target = 1;
    s.objective.attention_entropy_floor = 1;
    s.objective.variance_target = 3;
    s.objective.chaos_samples = 3;
    s.objective.self_repair_form = EITP_SELF_REPAIR_DENOISE;
    return s;
}

/* Creates a task and a model whose weights are so large that no term is nearly constant. */
static eitp_status begin(encoder *e, const setting *s) {
    const eitp_head head = s->problem == EITP_PROBLEM_TOKENS ? EITP_HEAD_TOKEN_CLASSIFIER
                           : s->problem                      ? EITP_HEAD_CLASSIFIER
                                                             : EITP_HEAD_LANGUAGE;
    variant v = default_variant();
    eitp_status status;
    v.threads = 1;
    v.precision = "fp32";
    v.optimizer = EITP_SGD;
    status = begin_model(e, &v, s->model, head);
    if (!status)
        status = eitp_model_set_dropout(e->r.model, 0, 0, 0, &error_);
    if (!status)
        status = make_encoder_task(e, s->problem, &error_);
    for (size_t i = 0; !status && i < eitp_variable_count(e->r.context); i++) {
        const eitp_variable w = eitp_variable_at(e->r.context, i);
        if (w.role == EITP_PARAMETER && w.rank > 1)
            status = eitp_variable_fill_normal(e->r.context, w.name, 0, 0.3, 5, &error_);
        else if (w.role == EITP_PARAMETER && !strstr(w.name, "orm") && !strstr(w.name, "ln_"))
            status = eitp_variable_fill_normal(e->r.context, w.name, 0, 0.1, 6, &error_);
    }
    return status;
}

/* Makes one step with a new trainer. */
static int step_once(encoder *e, const setting *s, eitp_step_report *report) {
    eitp_trainer_config config = eitp_trainer_config_default();
    eitp_trainer *trainer;
    int is_made;
    config.batch_size = s->batch_size;
    config.grad_accum = s->grad_accum;
    config.last_sample = s->samples;
    config.shuffle = EITP_SHUFFLE_NONE;
    config.max_grad_norm = 0;
    config.optimizer_config.optimizer = EITP_SGD;
    config.optimizer_config.beta1 = 0;
    config.optimizer_config.weight_decay = 0;
    config.schedule.peak = s->rate;
    config.objective = s->objective;
    if (eitp_trainer_create(&e->r.task, &config, &trainer, &error_)) {
        CHECK_THAT(0, "%s", error_.message);
        return 0;
    }
    is_made = !eitp_trainer_step(trainer, report, &error_);
    CHECK_THAT(is_made && report->applied, "%s", error_.message);
    eitp_trainer_destroy(trainer);
    return is_made;
}

static int own_close(double a, double b) {
    return fabs(a - b) <= 2e-6 * (1 + fabs(b));
}

/* Returns the value of a loss term, or else of a measure with that name; NaN if there is neither. */
static double value_of(const eitp_step_report *report, const char *name) {
    for (int i = 0; i < report->term_count + report->step_metric_count; i++) {
        if (!strcmp(report->terms[i].name, name))
            return report->terms[i].mean;
    }
    return NAN;
}

static void use(setting *s, eitp_regularizer regularizer, eitp_term_mode mode) {
    for (int i = 0; i < EITP_REGULARIZERS; i++)
        s->objective.terms[i].mode = (int)regularizer == i ? mode : EITP_TERM_OFF;
    s->objective.terms[regularizer].weight = 1;
    s->objective.terms[regularizer].every = 1;
}

/* ---- Gradients ---- */

enum { LARGEST = 16 * 48 }; /* elements of the largest parameter */

/* Returns the update of a parameter in one step. */
static int update_of(encoder *e, const setting *s, const eitp_variable *w, const float *before, double *update,
                     eitp_step_report *report) {
    const int64_t count = (int64_t)(w->size / sizeof(float));
    float after[LARGEST];
    if (!step_once(e, s, report))
        return 0;
    CHECK(!eitp_variable_read_f32(e->r.context, w->name, 0, after, count, &error_));
    for (int64_t i = 0; i < count; i++)
        update[i] = (double)after[i] - (double)before[i];
    return 1;
}

/* Copies of all parameters. */
typedef struct weights {
    float *values[64];
} weights;

static void keep(encoder *e, weights *k) {
    memset(k, 0, sizeof *k);
    for (size_t i = 0; i < eitp_variable_count(e->r.context); i++) {
        const eitp_variable w = eitp_variable_at(e->r.context, i);
        if (w.role != EITP_PARAMETER || i >= 64)
            continue;
        k->values[i] = (float *)malloc(w.size);
        CHECK(!eitp_variable_read(e->r.context, w.name, 0, k->values[i], w.size, &error_));
    }
}

static void restore(encoder *e, const weights *k) {
    for (size_t i = 0; i < eitp_variable_count(e->r.context); i++) {
        const eitp_variable w = eitp_variable_at(e->r.context, i);
        if (w.role == EITP_PARAMETER && i < 64 && k->values[i])
            CHECK(!eitp_variable_write(e->r.context, w.name, 0, k->values[i], w.size, &error_));
    }
}

static void release(weights *k) {
    for (size_t i = 0; i < 64; i++)
        free(k->values[i]);
}

/* Returns the value of a term after moving one parameter by h along a direction. Restores the parameter. */
static double value_along(encoder *e, const setting *s, const weights *k, size_t index, const double *direction,
                          double h, const char *name) {
    const eitp_variable w = eitp_variable_at(e->r.context, index);
    const int64_t count = (int64_t)(w.size / sizeof(float));
    eitp_step_report report;
    float moved[LARGEST];
    for (int64_t i = 0; i < count; i++)
        moved[i] = (float)((double)k->values[index][i] + h * direction[i]);
    CHECK(!eitp_variable_write_f32(e->r.context, w.name, 0, moved, count, &error_));
    if (!step_once(e, s, &report))
        return NAN;
    restore(e, k);
    return value_of(&report, name);
}

/* Compares the gradient that a step applies to one parameter for a term with the slope of the term's value along it. */
static void check_slope(encoder *e, const setting *with, const setting *without, const weights *k, size_t index,
                        const char *name, double factor, double tolerance) {
    const eitp_variable w = eitp_variable_at(e->r.context, index);
    const int64_t count = (int64_t)(w.size / sizeof(float));
    double task[LARGEST], both[LARGEST], norm = 0, size = 0, h, slope;
    eitp_step_report report;
    if (!update_of(e, without, &w, k->values[index], task, &report))
        return;
    restore(e, k);
    if (!update_of(e, with, &w, k->values[index], both, &report))
        return;
    restore(e, k);
    for (int64_t i = 0; i < count; i++) {
        both[i] = (task[i] - both[i]) / with->rate / factor;
        norm += both[i] * both[i];
        size += (double)k->values[index][i] * (double)k->values[index][i];
    }
    norm = sqrt(norm);
    for (int64_t i = 0; i < count; i++)
        both[i] /= norm > 0 ? norm : 1;
    h = 1e-3 * sqrt(size);
    slope = (value_along(e, with, k, index, both, h, name) - value_along(e, with, k, index, both, -h, name)) / (2 * h);
    CHECK_THAT(fabs(slope - norm) <= tolerance * fabs(slope) + 2e-5, "%s by %s, group %d: gradient %g, slope %g", name,
               w.name, (int)with->objective.group, norm, slope);
}

/* True for selected parameters below, in and above the blocks. */
static int is_checked(const eitp_variable *w) {
    static const char *const parts[] = {"word_embeddings.weight", "layer.0.attention.self.qkv.weight",
                                        "layer.0.attention.output.dense.weight", "layer.1.intermediate.dense.weight",
                                        "layer.1.output.LayerNorm.weight"};
    for (size_t i = 0; w->role == EITP_PARAMETER && i < sizeof parts / sizeof *parts; i++) {
        if (strstr(w->name, parts[i]))
            return 1;
    }
    return 0;
}

/* A term computed in every fourth step has four times its weight in that step. */
static void gradients_are_those_of_the_values(void) {
    for (int k = 0; k < 2 * EITP_REGULARIZERS; k++) {
        const eitp_regularizer regularizer = (eitp_regularizer)(k / 2);
        const int is_estimate = regularizer == EITP_CHAOS || regularizer == EITP_JACOBIAN_NORM;
        const double factor = 20;
        setting with = setting_of("bert-base", EITP_PROBLEM_UNKNOWN), without = with;
        weights kept;
        encoder e;
        int checked = 0;
        with.objective.group = k % 2 ? EITP_GROUP_MICRO_BATCH : EITP_GROUP_SAMPLE;
        /* Contrast treats factors as constants, so its gradient is not the gradient of its value. */
        if (regularizer == EITP_ENERGY || regularizer == EITP_COHERENCE ||
            (regularizer == EITP_ATTENTION_ENTROPY && k % 2))
            continue;
        use(&with, regularizer, EITP_TERM_LOSS);
        with.objective.terms[regularizer].weight = factor / 4;
        with.objective.terms[regularizer].every = 4;
        with.rate = without.rate = 0.05;
        REQUIRE_OK(begin(&e, &with), error_);
        keep(&e, &kept);
        for (size_t i = 0; i < eitp_variable_count(e.r.context) && i < 64; i++) {
            const eitp_variable w = eitp_variable_at(e.r.context, i);
            if (!is_checked(&w))
                continue;
            check_slope(&e, &with, &without, &kept, i, eitp__regularizer_name(regularizer), factor,
                        is_estimate ? 3e-2 : 1e-2);
            checked++;
        }
        CHECK_THAT(checked == 5, "%d parameters of %s", checked, eitp__regularizer_name(regularizer));
        release(&kept);
        end_run(&e.r);
    }
}

/* ---- Micro-batches that are not full ---- */

/* Two samples have the same values and gradient norm alone and in a larger micro-batch. */
static void places_without_samples_change_nothing(void) {
    for (int k = 0; k < 4 * EITP_REGULARIZERS; k++) {
        const eitp_regularizer regularizer = (eitp_regularizer)(k / 4);
        const char *name = eitp__regularizer_name(regularizer);
        setting s = setting_of("bert-base", EITP_PROBLEM_UNKNOWN);
        eitp_step_report alone, among;
        encoder e;
        s.objective.group = k % 2 ? EITP_GROUP_MICRO_BATCH : EITP_GROUP_SAMPLE;
        s.objective.chaos_positions = k / 2 % 2 ? EITP_CHAOS_LAST : EITP_CHAOS_ALL;
        s.objective.self_repair_form = k / 2 % 2 ? EITP_SELF_REPAIR_KL : EITP_SELF_REPAIR_DENOISE;
        if (regularizer == EITP_ENERGY || (regularizer == EITP_ATTENTION_ENTROPY && k % 2))
            continue;
        use(&s, regularizer, EITP_TERM_LOSS);
        s.rate = 0;
        s.samples = 2;
        s.batch_size = 2;
        s.grad_accum = 1;
        s.objective.chaos_samples = 2;
        REQUIRE_OK(begin(&e, &s), error_);
        if (step_once(&e, &s, &alone)) {
            s.objective.chaos_samples = 4;
            s.batch_size = 5;
            s.grad_accum = 2;
            if (step_once(&e, &s, &among)) {
                CHECK_THAT(own_close(value_of(&alone, name), value_of(&among, name)),
                           "%s, case %d: %.9g alone, %.9g with empty places", name, k % 4, value_of(&alone, name),
                           value_of(&among, name));
                CHECK_THAT(own_close(alone.grad_norm, among.grad_norm), "%s, case %d: norm %.9g, %.9g", name, k % 4,
                           alone.grad_norm, among.grad_norm);
            }
        }
        end_run(&e.r);
    }
}

/* ---- Values ---- */

/* States of different samples are never paired, in any group. */
static void coherence_pairs_states_of_one_sample(void) {
    for (int mode = EITP_TERM_METRIC; mode <= EITP_TERM_LOSS; mode++) {
        setting s = setting_of("bert-base", EITP_PROBLEM_UNKNOWN);
        eitp_step_report by_sample, by_batch;
        encoder e;
        use(&s, EITP_COHERENCE, (eitp_term_mode)mode);
        s.rate = 0;
        REQUIRE_OK(begin(&e, &s), error_);
        if (step_once(&e, &s, &by_sample)) {
            s.objective.group = EITP_GROUP_MICRO_BATCH;
            if (step_once(&e, &s, &by_batch)) {
                CHECK_THAT(own_close(value_of(&by_batch, "coherence"), value_of(&by_sample, "coherence")),
                           "mode %d: %.9g by micro-batch, %.9g by sample", mode, value_of(&by_batch, "coherence"),
                           value_of(&by_sample, "coherence"));
                CHECK_THAT(own_close(by_batch.grad_norm, by_sample.grad_norm), "mode %d: norm %.9g, %.9g", mode,
                           by_batch.grad_norm, by_sample.grad_norm);
            }
        }
        end_run(&e.r);
    }
}

/* Computes the scores of the tokens of one sample. */
static void scores_of(encoder *e, const eitp_labelled_sample *sample, float *scores) {
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_model_inputs inputs;
    eitp_tensor *result;
    int32_t positions[LONGEST];
    const int32_t offsets[2] = {0, (int32_t)sample->length};
    REQUIRE_OK(eitp_graph_create(e->r.context, &graph, &error_), error_);
    inputs = eitp_model_inputs_create(graph, 1, LONGEST, 0);
    result = eitp_output(
        eitp_model_token_scores(e->r.model, eitp_model_hidden(e->r.model, graph, &inputs, LONGEST), &inputs));
    REQUIRE_OK(eitp_plan_create(graph, &plan, &error_), error_);
    eitp_model_fill_positions(e->r.model, sample->ids, sample->length, positions);
    CHECK(!eitp_plan_set_rows(plan, sample->length, &error_));
    CHECK(!eitp_plan_write(plan, inputs.tokens, sample->ids, (size_t)sample->length * 4, &error_));
    CHECK(!eitp_plan_write(plan, inputs.positions, positions, (size_t)sample->length * 4, &error_));
    CHECK(!eitp_plan_write(plan, inputs.offsets, offsets, sizeof offsets, &error_));
    REQUIRE_OK(eitp_plan_execute(plan, &error_), error_);
    CHECK(!eitp_plan_read(plan, result, scores, (size_t)sample->length * CLASSES * sizeof *scores, &error_));
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
}

/* Sums over a sample's tokens: entropy as a fraction of the maximum, and the Brier score of labelled tokens. */
static void naive_scores(encoder *e, uint64_t number, double sums[2], double counts[2]) {
    int32_t ids[LONGEST], segments[LONGEST], labels[LONGEST];
    float scores[LONGEST * CLASSES] = {0};
    eitp_labelled_sample sample = EITP__ZERO;
    sample.ids = ids;
    sample.segments = segments;
    sample.token_labels = labels;
    CHECK(!read_made_up(&e->training, number, &sample, &error_));
    scores_of(e, &sample, scores);
    memset(sums, 0, 2 * sizeof *sums);
    memset(counts, 0, 2 * sizeof *counts);
    for (int64_t i = 0; i < sample.length; i++) {
        double p[CLASSES], sum = 0, entropy = 0, brier = 0;
        for (int c = 0; c < CLASSES; c++)
            sum += p[c] = exp((double)scores[i * CLASSES + c]);
        for (int c = 0; c < CLASSES; c++) {
            const double miss = p[c] / sum - (labels[i] == c);
            entropy -= p[c] / sum * log(p[c] / sum);
            brier += miss * miss;
        }
        sums[0] += entropy / log(CLASSES);
        counts[0]++;
        sums[1] += labels[i] >= 0 ? brier : 0;
        counts[1] += labels[i] >= 0;
    }
}

/* Three micro-batches, the last with one sample. The result is the mean over groups of the mean over their tokens. */
static void predictions_are_those_of_plain_loops(void) {
    for (int by_batch = 0; by_batch < 2; by_batch++) {
        static const eitp_regularizer of[2] = {EITP_OUTPUT_ENTROPY, EITP_BRIER};
        setting s = setting_of("gpt2", EITP_PROBLEM_TOKENS);
        double expected[2] = {0, 0}, band = 0, sums[2] = {0, 0}, counts[2] = {0, 0};
        eitp_step_report report;
        int groups = 0;
        encoder e;
        s.objective.group = by_batch ? EITP_GROUP_MICRO_BATCH : EITP_GROUP_SAMPLE;
        s.batch_size = 2;
        s.grad_accum = 3;
        s.samples = 5;
        s.rate = 0;
        for (int i = 0; i < 2; i++) {
            s.objective.terms[of[i]].mode = EITP_TERM_LOSS;
            s.objective.terms[of[i]].weight = 0.5;
        }
        REQUIRE_OK(begin(&e, &s), error_);
        for (uint64_t i = 0; i < s.samples; i++) {
            double own[2], own_counts[2];
            naive_scores(&e, i, own, own_counts);
            for (int q = 0; q < 2; q++) {
                sums[q] += own[q];
                counts[q] += own_counts[q];
            }
            if (by_batch && i % 2 == 0 && i + 1 < s.samples)
                continue;
            expected[0] += sums[0] / counts[0];
            band += pow(fmax(0, sums[0] / counts[0] - 0.5), 2) + pow(fmax(0, 0.1 - sums[0] / counts[0]), 2);
            expected[1] += counts[1] > 0 ? sums[1] / counts[1] : 0;
            memset(sums, 0, sizeof sums);
            memset(counts, 0, sizeof counts);
            groups++;
        }
        if (step_once(&e, &s, &report)) {
            CHECK(report.term_count == 3 && report.step_metric_count == 2 && groups == (by_batch ? 3 : 5));
            CHECK_THAT(own_close(report.terms[3].mean, expected[0] / groups), "entropy %.9g, expected %.9g",
                       report.terms[3].mean, expected[0] / groups);
            CHECK_THAT(own_close(value_of(&report, "entropy"), band / groups), "its band %.9g, expected %.9g",
                       value_of(&report, "entropy"), band / groups);
            CHECK_THAT(own_close(value_of(&report, "brier"), expected[1] / groups), "Brier %.9g, expected %.9g",
                       value_of(&report, "brier"), expected[1] / groups);
            CHECK_THAT(own_close(report.loss, value_of(&report, "ce") + 0.5 * (band + expected[1]) / groups),
                       "the loss is %.9g", report.loss);
        }
        end_run(&e.r);
    }
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(gradients_are_those_of_the_values),
        TEST(places_without_samples_change_nothing),
        TEST(coherence_pairs_states_of_one_sample),
        TEST(predictions_are_those_of_plain_loops),
    };
    return RUN_TESTS(tests, argc, argv);
}
