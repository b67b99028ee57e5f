/* A program's own regularizers: statistics of groups, penalties and measures, their schedules, the cap, and bits. */
#include "tests/support/shrinking.h"
#include "tests/support/trainer_run.h"

#define CHECK_NEAR(a, b, tolerance) CHECK_THAT(fabs((a) - (b)) <= (tolerance), #a " is %.9g, expected %.9g", a, b)

/* The parts added by `extend`. */
enum { STATISTIC = 1, PENALTY = 2, MEASURES = 4, ALL = 7 };
static int parts_ = ALL;
static eitp_term_schedule schedule_;

/* The mean square deviation of each group's hidden states from their mean. */
static eitp_tensor *spread_of(run *r, eitp_pass *pass) {
    eitp_tensor *x = eitp_pass_by_group(
        pass, eitp_cast(eitp_model_tap(r->model, eitp_pass_graph(pass), EITP_TAP_FINAL, 0), EITP_F32));
    eitp_tensor *mask =
        eitp_reshape(eitp_pass_group_mask(pass), 3, (int64_t[]){eitp_pass_groups(pass), eitp_pass_group_rows(pass), 1});
    eitp_tensor *rows = eitp_sum(mask, 2u, 1), *mean;
    rows = eitp_maximum(rows, eitp_fill(eitp_pass_graph(pass), EITP_F32, 1, (int64_t[]){1}, 1));
    mean = eitp_divide(eitp_sum(x, 2u, 1), rows);
    x = eitp_multiply(eitp_subtract(x, mean), mask);
    x = eitp_mean(eitp_multiply(x, x), 4u, 1);
    return eitp_reshape(eitp_divide(eitp_sum(x, 2u, 1), rows), 1, (int64_t[]){-1});
}

static eitp_tensor *weight_of(run *r, eitp_graph *graph, const char *name) {
    const eitp_variable v = eitp_variable_at(r->context, (size_t)eitp_variable_find(r->context, name));
    return eitp_variable_tensor(graph, v.name, v.role, v.dtype, v.rank, v.shape);
}

/* The sum of squares of three of the model's parameters, the first of which is tied. */
static eitp_tensor *squares_of(void *user, eitp_graph *graph) {
    static const char *const names[] = {"transformer.wte.weight", "transformer.h.1.mlp.c_fc.weight",
                                        "transformer.h.0.ln_1.bias"};
    eitp_tensor *sum = NULL;
    for (int i = 0; i < 3; i++) {
        eitp_tensor *w = eitp_cast(weight_of((run *)user, graph, names[i]), EITP_F32);
        w = eitp_sum(eitp_multiply(w, w), EITP_ALL_DIMENSIONS, 0);
        sum = sum ? eitp_add(sum, w) : w;
    }
    return sum;
}

static eitp_status extend(void *user, eitp_pass *pass, eitp_error *error) {
    run *r = (run *)user;
    (void)error;
    if (parts_ & STATISTIC)
        eitp_pass_statistic(pass, "spread", spread_of(r, pass), &schedule_);
    if (parts_ & PENALTY)
        eitp_pass_penalty(pass, "squares", squares_of, r, &schedule_);
    if (parts_ & MEASURES) {
        eitp_pass_step_metric(pass, "width", spread_of(r, pass), EITP_DIRECTION_UNKNOWN);
        eitp_pass_parameter_metric(pass, "size", squares_of, r);
        eitp_pass_step_metric(pass, "one", eitp_max(eitp_pass_group_mask(pass), 2u, 0), EITP_DIRECTION_UNKNOWN);
    }
    return EITP_OK;
}

static variant regularized(void) {
    variant v = default_variant();
    v.extend = extend;
    v.grad_accum = 4;
    parts_ = ALL;
    schedule_ = eitp_term_schedule_default();
    schedule_.weight = 0.02;
    return v;
}

static char directory_[512];

/* ---- Bits ---- */

/* Checks that passes of 1, 2 and 4 micro-batches, stored gradients, threads and recomputation give the same bits. */
static void compare_divisions(const variant *usual, const char *name) {
    variant v = *usual;
    uint32_t expected, got;
    v.micro_batches_per_pass = 4;
    expected = train_variant(&v, directory_, 3);
    CHECK_THAT(expected, "%s failed", name);
    for (int i = 0; i < 6; i++) {
        v = *usual;
        v.micro_batches_per_pass = i == 0 ? 1 : i == 1 ? 2 : i == 2 ? 3 : 4;
        v.keep_gradients = i == 3;
        v.threads = i == 4 ? 1 : i == 1 ? 3 : 2;
        if (i == 5)
            v.plan.recompute = EITP_RECOMPUTE_LAYER;
        got = train_variant(&v, directory_, 3);
        CHECK_THAT(got == expected, "%s: division %d gives %08x, expected %08x", name, i, got, expected);
    }
}

static void divisions_change_no_bit(void) {
    static const char *const precisions[] = {"fp32", "bf16", "fp16"};
    eitp_objective_config objective = eitp_objective_config_default();
    variant v = regularized();
    char name[64];
    for (size_t i = 0; i < EITP__COUNT(precisions); i++) {
        for (int capped = 0; capped < 2; capped++) {
            v.precision = precisions[i];
            v.sums_of_32 = i == 1;
            objective.grad_cap = capped ? 0.1 : 0;
            objective.group = capped ? EITP_GROUP_MICRO_BATCH : EITP_GROUP_SAMPLE;
            v.objective = &objective;
            v.is_wide = !capped;
            snprintf(name, sizeof name, "%s%s", precisions[i], capped ? ", capped" : "");
            compare_divisions(&v, name);
        }
    }
}

/* An objective with every regularizer in the loss, some of them only in some steps. */
static eitp_objective_config every_regularizer(void) {
    eitp_objective_config objective = eitp_objective_config_default();
    for (int i = 0; i < EITP_REGULARIZERS; i++)
        objective.terms[i].mode = i == EITP_ENERGY ? EITP_TERM_OFF : EITP_TERM_LOSS;
    objective.terms[EITP_CHAOS].every = 2;
    objective.terms[EITP_JACOBIAN_NORM].every = objective.terms[EITP_SELF_REPAIR].every = 1;
    objective.terms[EITP_BRIER].every = 3;
    objective.terms[EITP_SELF_REPAIR].start = 2;
    objective.chaos_tolerance = 0.001;
    objective.entropy_high = 0.5;
    objective.attention_entropy_floor = 0.99;
    objective.chaos_samples = 2;
    return objective;
}

static void divisions_with_every_regularizer_change_no_bit(void) {
    static const char *const precisions[] = {"fp32", "bf16", "fp16"};
    for (int i = 0; i < 4; i++) {
        eitp_objective_config objective = every_regularizer();
        variant v = regularized();
        char name[64];
        v.extend = NULL;
        v.objective = &objective;
        v.precision = precisions[i % 3];
        v.lora_rank = i == 3 ? 2 : 0;
        objective.grad_cap = i == 1 ? 0.2 : 0;
        objective.self_repair_form = i == 2 ? EITP_SELF_REPAIR_DENOISE : EITP_SELF_REPAIR_KL;
        objective.chaos_positions = i == 2 ? EITP_CHAOS_LAST : EITP_CHAOS_ALL;
        snprintf(name, sizeof name, "every regularizer, %s%s", v.precision, v.lora_rank ? ", adapters" : "");
        compare_divisions(&v, name);
    }
}

static void pieces_change_no_bit(void) {
    variant v = regularized();
    uint32_t whole, pieces;
    v.is_wide = 1;
    whole = train_variant(&v, directory_, 3);
    v.piece_bytes = 1 << 14;
    pieces = train_variant(&v, directory_, 3);
    CHECK(whole && whole == pieces);
    v.keep_gradients = 1;
    CHECK(train_variant(&v, directory_, 3) == whole);
}

static void measures_change_no_bit(void) {
    variant v = regularized();
    uint32_t with, without;
    with = train_variant(&v, directory_, 3);
    parts_ = STATISTIC | PENALTY;
    without = train_variant(&v, directory_, 3);
    CHECK(with && with == without);
    parts_ = MEASURES;
    with = train_variant(&v, directory_, 3);
    v.extend = NULL;
    CHECK(with && with == train_variant(&v, directory_, 3) && with != without);
}

/* ---- Values ---- */

static double find_term(const eitp_step_report *report, const char *name, double *weight) {
    for (int i = 0; i < report->term_count + report->step_metric_count; i++) {
        if (strcmp(report->terms[i].name, name) != 0)
            continue;
        *weight = report->terms[i].weight;
        return report->terms[i].mean;
    }
    return NAN;
}

static double naive_squares(run *r) {
    static const char *const names[] = {"transformer.wte.weight", "transformer.h.1.mlp.c_fc.weight",
                                        "transformer.h.0.ln_1.bias"};
    double sum = 0;
    for (int i = 0; i < 3; i++) {
        const eitp_variable v = eitp_variable_at(r->context, (size_t)eitp_variable_find(r->context, names[i]));
        const int64_t count = (int64_t)(v.size / sizeof(float));
        float *values = (float *)malloc(v.size);
        CHECK(!eitp_variable_read_f32(r->context, names[i], 0, values, count, &error_));
        for (int64_t k = 0; k < count; k++)
            sum += (double)values[k] * (double)values[k];
        free(values);
    }
    return sum;
}

static void reports_have_values_and_weights(void) {
    const eitp_host host = eitp_host_default();
    variant v = regularized();
    for (int divided = 0; divided < 2; divided++) {
        eitp_step_report report;
        double weight = 0, squares, loss, spread, width;
        run r;
        v.micro_batches_per_pass = divided ? 1 : 4;
        CHECK_THAT(!make_run(&r, &host, &v, directory_, &error_), "%s", error_.message);
        squares = naive_squares(&r);
        CHECK_THAT(!eitp_trainer_step(r.trainer, &report, &error_), "%s", error_.message);
        CHECK(report.term_count == 3 && report.step_metric_count == 3);
        CHECK_NEAR(find_term(&report, "squares", &weight), squares, 1e-5 * squares);
        CHECK_NEAR(weight, 0.02, 1e-12);
        CHECK_NEAR(find_term(&report, "size", &weight), squares, 1e-5 * squares);
        CHECK(weight == 0);
        spread = find_term(&report, "spread", &weight);
        width = find_term(&report, "width", &weight);
        CHECK(spread > 0 && spread == width);
        loss = find_term(&report, "ce", &weight);
        CHECK_NEAR(report.loss, loss + 0.02 * (spread + squares), 1e-5 * squares);
        CHECK(report.task_loss == loss && weight == 1);
        end_run(&r);
    }
}

static void schedules_set_weights(void) {
    /* every 2, from step 2 on, 4 steps of warm-up */
    static const double expected[] = {-1, 0.02 * 2 / 4, -1, 0.02 * 2 * 3 / 4, -1, 0.02 * 2, -1};
    const eitp_host host = eitp_host_default();
    variant v = regularized();
    run r;
    schedule_.every = 2;
    schedule_.start = 2;
    schedule_.warmup = 4;
    CHECK_THAT(!make_run(&r, &host, &v, directory_, &error_), "%s", error_.message);
    for (int step = 0; step < 7; step++) {
        eitp_step_report report;
        double weight = -1;
        CHECK(!eitp_trainer_step(r.trainer, &report, &error_));
        find_term(&report, "spread", &weight);
        CHECK_THAT(fabs(weight - expected[step]) < 1e-12, "step %d has weight %g, expected %g", step + 1, weight,
                   expected[step]);
        find_term(&report, "squares", &weight);
        CHECK_NEAR(weight, expected[step], 1e-12);
        CHECK(report.step_metric_count == 3);
    }
    end_run(&r);
}

/* ---- The cap ---- */

static void a_cap_scales_the_regularizers(void) {
    const eitp_host host = eitp_host_default();
    eitp_objective_config objective = eitp_objective_config_default();
    variant v = regularized();
    eitp_step_report free_report, report;
    double expected;
    run r;
    schedule_.weight = 5;
    objective.grad_cap = 1e9;
    v.objective = &objective;
    v.dropout = 0;
    CHECK_THAT(!make_run(&r, &host, &v, directory_, &error_), "%s", error_.message);
    CHECK(!eitp_trainer_step(r.trainer, &free_report, &error_));
    end_run(&r);
    CHECK(free_report.regularizer_scale == 1 && free_report.regularizer_grad_norm > 0);
    objective.grad_cap = 0.2;
    CHECK_THAT(!make_run(&r, &host, &v, directory_, &error_), "%s", error_.message);
    CHECK(!eitp_trainer_step(r.trainer, &report, &error_));
    end_run(&r);
    expected = 0.2 * report.task_grad_norm / report.regularizer_grad_norm;
    CHECK(expected < 1 && report.task_grad_norm == free_report.task_grad_norm);
    CHECK_NEAR(report.regularizer_scale, expected, 1e-6 * expected);
    CHECK(report.grad_norm <= 1.2001 * report.task_grad_norm && free_report.grad_norm > 1.3 * report.task_grad_norm);
    v.objective = NULL;
    CHECK_THAT(!make_run(&r, &host, &v, directory_, &error_), "%s", error_.message);
    CHECK(!eitp_trainer_step(r.trainer, &report, &error_));
    end_run(&r);
    CHECK_NEAR(report.grad_norm, free_report.grad_norm, 1e-5 * report.grad_norm);
    CHECK(report.regularizer_scale == 0);
}

/* Values accumulated in a step by regularizers' own passes are reset in the next one. */
static void a_capped_probe_starts_at_zero(void) {
    const eitp_host host = eitp_host_default();
    eitp_objective_config objective = eitp_objective_config_default();
    variant v = regularized();
    eitp_step_report report;
    run r;
    v.extend = NULL;
    v.objective = &objective;
    objective.grad_cap = 1e9;
    objective.term_norms_every = 1;
    objective.terms[EITP_JACOBIAN_NORM].mode = EITP_TERM_LOSS;
    objective.terms[EITP_JACOBIAN_NORM].every = 2;
    CHECK_THAT(!make_run(&r, &host, &v, directory_, &error_), "%s", error_.message);
    for (int step = 1; step <= 5; step++) {
        CHECK_THAT(!eitp_trainer_step(r.trainer, &report, &error_), "%s", error_.message);
        if (step % 2)
            CHECK_NEAR(report.regularizer_grad_norm, report.terms[1].grad_norm, 1e-3 * report.terms[1].grad_norm);
        else
            CHECK_THAT(report.regularizer_grad_norm == 0, "step %d: %g", step, report.regularizer_grad_norm);
    }
    end_run(&r);
}

static void a_probe_leaves_the_loss_of_the_task_out(void) {
    const eitp_host host = eitp_host_default();
    eitp_objective_config objective = eitp_objective_config_default();
    variant v = regularized();
    char *listing, *line;
    size_t size = 0;
    run r;
    v.extend = NULL;
    v.objective = &objective;
    objective.terms[EITP_CHAOS].mode = EITP_TERM_METRIC;
    CHECK_THAT(!make_run(&r, &host, &v, directory_, &error_), "%s", error_.message);
    const eitp__probe *probe = &r.trainer->plans.probes.of[0];
    CHECK(!eitp_graph_format(probe->pass.graph, probe->plan, EITP_GRAPH_TEXT, NULL, 0, &size, &error_));
    listing = (char *)malloc(size + 1);
    CHECK(!eitp_graph_format(probe->pass.graph, probe->plan, EITP_GRAPH_TEXT, listing, size + 1, &size, &error_));
    line = strstr(listing, "linear_cross_entropy(");
    REQUIRE(line && strchr(line, '\n'));
    *strchr(line, '\n') = 0;
    CHECK_THAT(strstr(line, "not in the plan"), "%s", line);
    free(listing);
    end_run(&r);
}

/* ---- Controllers ---- */

static double bounded(double factor, const eitp_objective_config *objective) {
    return fmin(fmax(factor, objective->controller_min), objective->controller_max);
}

static void controllers_follow_their_formulas(void) {
    const eitp_host host = eitp_host_default();
    for (int kind = EITP_CONTROLLER_CONST; kind <= EITP_CONTROLLER_PI; kind++) {
        eitp_objective_config objective = eitp_objective_config_default();
        eitp_regularizer_config *term = &objective.terms[EITP_CODING_RATE];
        double factor = 1, before = 0;
        variant v = regularized();
        run r;
        v.extend = NULL;
        v.objective = &objective;
        term->mode = EITP_TERM_LOSS;
        term->target = 0.5;
        objective.controller = (eitp_controller)kind;
        objective.controller_rate = 0.3;
        objective.controller_proportional = 0.7;
        objective.controller_max = 3;
        CHECK_THAT(!make_run(&r, &host, &v, directory_, &error_), "%s", error_.message);
        for (int step = 0; step < 6; step++) {
            eitp_step_report report;
            double weight = 0, value, miss;
            CHECK_THAT(!eitp_trainer_step(r.trainer, &report, &error_), "%s", error_.message);
            value = find_term(&report, "coding_rate", &weight);
            CHECK_THAT(fabs(weight - 0.01 * factor) < 1e-12, "controller %d, step %d: %g, expected %g", kind, step,
                       weight, 0.01 * factor);
            miss = value - 0.5;
            if (kind == EITP_CONTROLLER_DUAL)
                factor = bounded(factor * exp(0.3 * miss / 0.5), &objective);
            if (kind == EITP_CONTROLLER_PI)
                factor = bounded(factor + 0.7 * (step ? miss - before : 0) + 0.3 * miss, &objective);
            before = miss;
        }
        end_run(&r);
    }
}

/* ---- Resuming ---- */

static void a_resumed_run_has_the_same_bits(void) {
    const eitp_host host = eitp_host_default();
    eitp_objective_config objective = every_regularizer();
    variant v = regularized();
    uint32_t straight;
    char path[600];
    run r;
    v.extend = NULL;
    v.objective = &objective;
    objective.controller = EITP_CONTROLLER_DUAL;
    objective.terms[EITP_CODING_RATE].target = objective.terms[EITP_CHAOS].target = 0.1;
    objective.grad_cap = 0.3;
    straight = train_variant(&v, directory_, 6);
    objective.term_norms_every = 2; /* changes no bit */
    CHECK_THAT(!make_run(&r, &host, &v, directory_, &error_), "%s", error_.message);
    CHECK(step_many(&r, 3, NULL));
    CHECK_THAT(!eitp_trainer_save(r.trainer, directory_, &error_), "%s", error_.message);
    end_run(&r);
    snprintf(path, sizeof path, "%s/checkpoint-3", directory_);
    CHECK_THAT(!make_run(&r, &host, &v, directory_, &error_), "%s", error_.message);
    CHECK_THAT(!eitp_trainer_resume(r.trainer, path, &error_), "%s", error_.message);
    CHECK(step_many(&r, 3, NULL) && straight && fingerprint(&r) == straight);
    end_run(&r);
}

/* ---- Norms of terms ---- */

static void norms_of_terms_are_those_of_their_gradients(void) {
    const eitp_host host = eitp_host_default();
    eitp_objective_config objective = every_regularizer();
    variant v = regularized();
    eitp_step_report report;
    run r;
    v.extend = NULL;
    v.objective = &objective;
    v.micro_batches_per_pass = 4;
    objective.term_norms_every = 2;
    objective.grad_cap = 1e9;
    CHECK_THAT(!make_run(&r, &host, &v, directory_, &error_), "%s", error_.message);
    for (int step = 1; step <= 2; step++) {
        double squares = 0;
        CHECK_THAT(!eitp_trainer_step(r.trainer, &report, &error_), "%s", error_.message);
        for (int i = 0; i < report.term_count; i++) {
            CHECK((report.terms[i].grad_norm >= 0) == (step == 2));
            squares += i ? report.terms[i].grad_norm * report.terms[i].grad_norm : 0;
        }
        /* The first term is the task's. For the others, the norm of the summed gradients is at most the sum of the
           norms. */
        if (step == 2) {
            CHECK_NEAR(report.terms[0].grad_norm, report.task_grad_norm, 1e-4 * report.task_grad_norm);
            CHECK_THAT(squares > 0.01 * report.regularizer_grad_norm * report.regularizer_grad_norm, "%g", squares);
        }
    }
    end_run(&r);
    /* With one regularizer, the norms equal the norms of the cap. */
    objective = eitp_objective_config_default();
    objective.terms[EITP_PATH_NORM].mode = EITP_TERM_LOSS;
    objective.grad_cap = 1e9;
    objective.term_norms_every = 1;
    CHECK_THAT(!make_run(&r, &host, &v, directory_, &error_), "%s", error_.message);
    CHECK_THAT(!eitp_trainer_step(r.trainer, &report, &error_), "%s", error_.message);
    CHECK_NEAR(report.terms[1].grad_norm, report.regularizer_grad_norm, 1e-4 * report.regularizer_grad_norm);
    CHECK(report.terms[1].grad_norm > 0);
    end_run(&r);
}

static void sixteen_bits_do_not_scale_the_norms(void) {
    const eitp_host host = eitp_host_default();
    eitp_objective_config objective = eitp_objective_config_default();
    variant v = regularized();
    double norms[2][2];
    objective.grad_cap = 1e9;
    v.objective = &objective;
    v.dropout = 0;
    for (int part = 0; part < 2; part++) {
        parts_ = part ? PENALTY : STATISTIC;
        for (int i = 0; i < 2; i++) {
            eitp_step_report report;
            run r;
            v.precision = i ? "fp16" : "fp32";
            CHECK_THAT(!make_run(&r, &host, &v, directory_, &error_), "%s", error_.message);
            CHECK_THAT(!eitp_trainer_step(r.trainer, &report, &error_), "%s", error_.message);
            norms[part][i] = report.regularizer_grad_norm;
            end_run(&r);
        }
        CHECK_NEAR(norms[part][1], norms[part][0], 0.02 * norms[part][0]);
    }
}

/* ---- Groups ---- */

static void a_statistic_is_the_mean_over_groups(void) {
    const eitp_host host = eitp_host_default();
    eitp_objective_config objective = eitp_objective_config_default();
    variant v = regularized();
    v.objective = &objective;
    v.batch_size = 3;
    v.last_sample = 3 * 4 + 5; /* the second step has one full and one partial micro-batch */
    for (int i = 0; i < 4; i++) {
        run r;
        objective.group = i % 2 ? EITP_GROUP_MICRO_BATCH : EITP_GROUP_SAMPLE;
        v.micro_batches_per_pass = i < 2 ? 1 : 2;
        CHECK_THAT(!make_run(&r, &host, &v, directory_, &error_), "%s", error_.message);
        for (int step = 0; step < 2; step++) {
            eitp_step_report report;
            double weight;
            CHECK_THAT(!eitp_trainer_step(r.trainer, &report, &error_), "%s", error_.message);
            CHECK_NEAR(find_term(&report, "one", &weight), 1.0, 0);
        }
        end_run(&r);
    }
}

static void a_micro_batch_is_not_split(void) {
    const eitp_host host = eitp_host_default();
    eitp_objective_config objective = eitp_objective_config_default();
    variant v = regularized();
    run r;
    objective.group = EITP_GROUP_MICRO_BATCH;
    v.objective = &objective;
    v.batch_size = 1;
    CHECK(make_run(&r, &host, &v, directory_, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "statistics of micro-batches need a batch_size of 2 or more (got 1)"), "%s",
               error_.message);
    end_run(&r);
    v.batch_size = 4;
    CHECK_THAT(!make_run(&r, &host, &v, directory_, &error_), "%s", error_.message);
    CHECK(step_many(&r, 1, NULL));
    for (eitp_shrink_report report = {0}; !eitp_trainer_shrink(r.trainer, &report, &error_) && report.shrunk;)
        CHECK(eitp_trainer_shape(r.trainer).batch_size == 4);
    CHECK(eitp_trainer_shape(r.trainer).batch_size == 4 && step_many(&r, 1, NULL));
    end_run(&r);
}

static void what_does_not_fit_is_refused(void) {
    const eitp_host host = eitp_host_default();
    variant v = regularized();
    run r;
    schedule_.every = 0;
    CHECK(make_run(&r, &host, &v, directory_, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message,
                      "'spread': expected a weight of 0 or more, every and start from 1, and a warm-up of 0 "
                      "or more"),
               "%s", error_.message);
    end_run(&r);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(divisions_change_no_bit),
        TEST(divisions_with_every_regularizer_change_no_bit),
        TEST(pieces_change_no_bit),
        TEST(measures_change_no_bit),
        TEST(reports_have_values_and_weights),
        TEST(schedules_set_weights),
        TEST(a_cap_scales_the_regularizers),
        TEST(a_capped_probe_starts_at_zero),
        TEST(a_probe_leaves_the_loss_of_the_task_out),
        TEST(controllers_follow_their_formulas),
        TEST(a_resumed_run_has_the_same_bits),
        TEST(norms_of_terms_are_those_of_their_gradients),
        TEST(sixteen_bits_do_not_scale_the_norms),
        TEST(a_statistic_is_the_mean_over_groups),
        TEST(a_micro_batch_is_not_split),
        TEST(what_does_not_fit_is_refused),
    };
    int failures;
    if (!scratch_make(directory_) || !write_text(directory_))
        return 1;
    failures = RUN_TESTS(tests, argc, argv);
    scratch_remove(directory_);
    return failures;
}
