/* Learners and saved state: an estimator of hidden states and a running mean with their own optimizers. */
#include "tests/support/shrinking.h"
#include "tests/support/trainer_run.h"

#include <signal.h>
#include <sys/wait.h>

enum { COMPONENTS = 3, DIRECTIONS = 8, VALUES = COMPONENTS * DIRECTIONS };

/* The parts added by `extend`. */
enum {
    ESTIMATOR = 1, /* the term of a mixture of Gaussians that is fitted to projections of hidden states */
    ENTROPY = 2,   /* the model's term: the same, with the mixture frozen */
    MEAN = 4,      /* a running mean of the projections: a learner with SGD */
    STATE = 8,     /* a slow copy of the centres, updated once a step */
    IN_PASS = 16,  /* a state updated by each pass */
    FLOOD = 32,    /* a penalty on a model weight with a non-finite gradient */
    ALL = ESTIMATOR | ENTROPY | MEAN | STATE
};

static int parts_;
static eitp_learner_config estimator_, mean_;
static const char *more_prefixes_[8]; /* of additional learners */
static char directory_[512];

static eitp_tensor *zeros(eitp_tensor *rows) {
    return eitp_stop_gradient(eitp_affine(rows, 0, 0));
}

/* Repeats a parameter for each row, so that its gradient is a sum over rows, regardless of the functions that follow.
   */
static eitp_tensor *parameter_rows(const char *name, int64_t size, eitp_tensor *like) {
    eitp_graph *graph = eitp_tensor_graph(like);
    return eitp_add(eitp_slice(zeros(like), 1, 0, size), eitp_parameter(graph, name, 1, &size));
}

/* log sum exp over the second dimension: [n, 1]. */
static eitp_tensor *log_sum(eitp_tensor *z) {
    eitp_tensor *most = eitp_stop_gradient(eitp_max(z, 2u, 1));
    return eitp_add(most, eitp_log(eitp_sum(eitp_exp(eitp_subtract(z, most)), 2u, 1)));
}

/* Sums over the directions of each component: [n, COMPONENTS]. */
static eitp_tensor *by_component(eitp_tensor *x) {
    eitp_tensor *sums[COMPONENTS];
    for (int k = 0; k < COMPONENTS; k++)
        sums[k] = eitp_sum(eitp_slice(x, 1, k * DIRECTIONS, (k + 1) * DIRECTIONS), 2u, 1);
    return eitp_concat(sums, COMPONENTS, 1);
}

typedef struct mixture {
    eitp_tensor *centres, *scales, *logits; /* per row */
} mixture;

static mixture frozen(const mixture *m) {
    mixture f;
    f.centres = eitp_stop_gradient(m->centres);
    f.scales = eitp_stop_gradient(m->scales);
    f.logits = eitp_stop_gradient(m->logits);
    return f;
}

/* -ln q of each row of x [n, DIRECTIONS]: [n, 1]. */
static eitp_tensor *surprise(const mixture *m, eitp_tensor *x) {
    eitp_tensor *copies[COMPONENTS], *z;
    for (int k = 0; k < COMPONENTS; k++)
        copies[k] = x;
    z = eitp_multiply(eitp_subtract(eitp_concat(copies, COMPONENTS, 1), m->centres), eitp_exp(m->scales));
    z = by_component(eitp_subtract(m->scales, eitp_affine(eitp_multiply(z, z), 0.5, 0)));
    z = eitp_add(z, eitp_subtract(m->logits, log_sum(m->logits)));
    return eitp_affine(log_sum(z), -1, DIRECTIONS / 2.0 * log(2 * 3.14159265358979));
}

/* The mean over the rows of each group of x [n, 1]. */
static eitp_tensor *group_mean(eitp_pass *pass, eitp_tensor *x) {
    const int64_t flat[] = {eitp_pass_groups(pass)}, one = 1;
    eitp_tensor *rows = eitp_sum(eitp_pass_group_mask(pass), 2u, 0);
    rows = eitp_maximum(rows, eitp_fill(eitp_pass_graph(pass), EITP_F32, 1, &one, 1));
    return eitp_divide(eitp_reshape(eitp_sum(eitp_pass_by_group(pass, x), 6u, 0), 1, flat), rows);
}

/* Accumulates a tenth of `x` in a state. */
static eitp_tensor *keep(eitp_tensor *x, const char *name, eitp_dtype dtype) {
    const int64_t one = 1, size = COMPONENTS * DIRECTIONS;
    eitp_graph *graph = eitp_tensor_graph(x);
    eitp_tensor *state = eitp_variable_tensor(graph, name, EITP_OPTIMIZER, dtype, 1, &size);
    return eitp_accumulate(state, eitp_cast(eitp_affine(x, 0.1, 0), dtype), eitp_fill(graph, EITP_F32, 1, &one, 0.9));
}

static eitp_tensor *slow_centres(void *user, eitp_graph *graph) {
    const int64_t size = VALUES, one = 1;
    eitp_tensor *x = eitp_parameter(graph, "estimator.centres", 1, &size);
    (void)user;
    keep(x, "slow.exact", EITP_F64);
    x = keep(x, "slow.centres", EITP_F32);
    return eitp_reshape(eitp_sum(eitp_multiply(x, x), EITP_ALL_DIMENSIONS, 0), 1, &one);
}

static eitp_tensor *flood(void *user, eitp_graph *graph) {
    const int64_t size = 40, one = 1;
    eitp_tensor *w = eitp_variable_tensor(graph, "transformer.ln_f.weight", EITP_PARAMETER, EITP_F32, 1, &size);
    (void)user;
    w = eitp_affine(eitp_sum(w, EITP_ALL_DIMENSIONS, 0), 3e38, 0);
    return eitp_reshape(eitp_multiply(w, w), 1, &one);
}

static void add_mean(eitp_pass *pass, eitp_tensor *x) {
    const int64_t size = DIRECTIONS;
    eitp_tensor *miss = eitp_subtract(x, eitp_parameter(eitp_pass_graph(pass), "mean.x", 1, &size));
    eitp_pass_statistic(pass, "mean", group_mean(pass, eitp_affine(eitp_sum(eitp_multiply(miss, miss), 2u, 1), 0.5, 0)),
                        NULL);
    eitp_pass_step_metric(pass, "first", group_mean(pass, eitp_slice(x, 1, 0, 1)), EITP_DIRECTION_UNKNOWN);
    eitp_pass_learner(pass, "mean.", &mean_);
}

static eitp_status extend(void *user, eitp_pass *pass, eitp_error *error) {
    const int64_t shape[] = {40, DIRECTIONS};
    run *r = (run *)user;
    eitp_graph *graph = eitp_pass_graph(pass);
    eitp_tensor *x = eitp_cast(eitp_model_tap(r->model, graph, EITP_TAP_FINAL, 0), EITP_F32), *copies[COMPONENTS],
                *wide;
    eitp_term_schedule weak = eitp_term_schedule_default();
    mixture m, f;
    x = eitp_matmul(x, eitp_variable_tensor(graph, "projection", EITP_OPTIMIZER, EITP_F32, 2, shape));
    for (int k = 0; k < COMPONENTS; k++)
        copies[k] = x;
    wide = eitp_concat(copies, COMPONENTS, 1);
    weak.weight = 0.05;
    if (parts_ & (ESTIMATOR | ENTROPY)) {
        m.centres = parameter_rows("estimator.centres", VALUES, wide);
        m.scales = parameter_rows("estimator.scales", VALUES, wide);
        m.logits = parameter_rows("estimator.logits", COMPONENTS, wide);
        f = frozen(&m);
        if (parts_ & ESTIMATOR)
            eitp_pass_statistic(pass, "estimator", group_mean(pass, surprise(&m, eitp_stop_gradient(x))), NULL);
        if (parts_ & ENTROPY)
            eitp_pass_statistic(pass, "entropy", group_mean(pass, surprise(&f, x)), &weak);
        eitp_pass_learner(pass, "estimator.", &estimator_);
    }
    if (parts_ & MEAN)
        add_mean(pass, eitp_stop_gradient(x));
    if (parts_ & STATE)
        eitp_pass_parameter_metric(pass, "slow", slow_centres, NULL);
    if (parts_ & IN_PASS && eitp_pass_is_training(pass))
        keep(eitp_fill(graph, EITP_F32, 1, (int64_t[]){VALUES}, 1), "in pass", EITP_F32);
    if (parts_ & FLOOD)
        eitp_pass_penalty(pass, "flood", flood, NULL, NULL);
    for (int i = 0; more_prefixes_[i]; i++)
        eitp_pass_learner(pass, more_prefixes_[i], &estimator_);
    return eitp_graph_status(graph, error);
}

static variant learning(int parts) {
    variant v = default_variant();
    v.extend = extend;
    v.grad_accum = 4;
    parts_ = parts;
    more_prefixes_[0] = NULL;
    estimator_ = mean_ = eitp_learner_config_default();
    estimator_.schedule.kind = EITP_SCHEDULE_LINEAR;
    estimator_.schedule.peak = 0.05;
    estimator_.schedule.steps = 20;
    estimator_.weight_decay = 0.01;
    mean_.optimizer = EITP_SGD;
    mean_.beta1 = 0;
    mean_.schedule.peak = 0.1;
    return v;
}

/* Creates a run, and sets the values that do not start at zero. */
static eitp_status begin(run *r, const eitp_host *host, const variant *v) {
    eitp_status status = make_run(r, host, v, directory_, &error_);
    if (!status)
        status = eitp_variable_fill_normal(r->context, "projection", 0, 0.2, 5, &error_);
    if (!status && parts_ & (ESTIMATOR | ENTROPY))
        status = eitp_variable_fill_normal(r->context, "estimator.centres", 0, 0.5, 6, &error_);
    return status;
}

static int is_own(const char *name) {
    return strstr(name, "estimator.") || strstr(name, "mean.x") || strstr(name, "slow.") || !strcmp(name, "projection");
}

/* A checksum of parameters and state: the model's, or the learners' with the program's own state. */
static uint32_t checksum(const run *r, int of_learners) {
    uint32_t crc = 0;
    int count = 0;
    for (size_t i = 0; i < eitp_variable_count(r->context); i++) {
        const eitp_variable v = eitp_variable_at(r->context, i);
        void *bytes;
        if ((v.role != EITP_PARAMETER && v.role != EITP_OPTIMIZER && v.role != EITP_REMAINDER) ||
            is_own(v.name) != of_learners)
            continue;
        bytes = malloc(v.size);
        CHECK(!eitp_variable_read(r->context, v.name, 0, bytes, v.size, &error_));
        crc = eitp__crc32c(crc, bytes, v.size);
        free(bytes);
        count++;
    }
    CHECK(count > 3 || !of_learners || !(parts_ & ESTIMATOR));
    return crc;
}

/* Returns the checksum of everything after some steps, or 0 after a failure. */
static uint32_t train(const variant *v, int64_t steps) {
    const eitp_host host = eitp_host_default();
    uint32_t crc = 0;
    run r;
    if (begin(&r, &host, v))
        printf("    %s\n", error_.message);
    else if (step_many(&r, steps, NULL))
        crc = fingerprint(&r);
    CHECK_THAT(!r.trainer || !r.trainer->plans.pass_dependent_parameter[0], "passes may change the bits of '%s'",
               r.trainer->plans.pass_dependent_parameter);
    end_run(&r);
    return crc;
}

static double term_of(const eitp_step_report *report, const char *name) {
    for (int i = 0; i < report->term_count + report->step_metric_count; i++) {
        if (!strcmp(report->terms[i].name, name))
            return report->terms[i].mean;
    }
    return NAN;
}

/* ---- Learning ---- */

static void an_estimator_and_a_mean_learn(void) {
    const eitp_host host = eitp_host_default();
    const variant v = learning(ESTIMATOR | MEAN);
    eitp_step_report first, report;
    double mean = 0;
    float got;
    run r;
    mean_.schedule.kind = EITP_SCHEDULE_LINEAR;
    mean_.schedule.final = 0.2;
    mean_.schedule.steps = 20;
    REQUIRE_OK(begin(&r, &host, &v), error_);
    for (int step = 0; step < 15; step++) {
        REQUIRE_OK(eitp_trainer_step(r.trainer, &report, &error_), error_);
        CHECK(report.learner_count == 2 && report.learners[0].applied && report.learners[1].applied);
        mean += report.learners[1].learning_rate * (term_of(&report, "first") - mean);
        if (!step)
            first = report;
    }
    CHECK_THAT(term_of(&report, "estimator") < term_of(&first, "estimator") - 1, "%g, %g at first",
               term_of(&report, "estimator"), term_of(&first, "estimator"));
    CHECK(!eitp_variable_read_f32(r.context, "mean.x", 0, &got, 1, &error_));
    CHECK_THAT(fabs((double)got - mean) < 1e-5 && fabs(mean) > 1e-4, "%g, expected %g", (double)got, mean);
    CHECK(!strcmp(report.learners[0].name, "estimator") && !strcmp(report.learners[1].name, "mean"));
    CHECK(fabs(report.learners[0].learning_rate - 0.05 * (1 - 14 / 20.0)) < 1e-9);
    CHECK(fabs(report.learners[1].learning_rate - 0.1 * (1 + 14 / 20.0)) < 1e-9 && !report.learners[0].clipped);
    CHECK(report.learners[0].grad_norm > 0 && report.learners[0].update_norm > 0);
    CHECK(fabs(report.learners[1].update_norm - 0.17 * report.learners[1].grad_norm) < 1e-6);
    end_run(&r);
}

static void a_learner_is_clipped_by_its_own_norm(void) {
    const eitp_host host = eitp_host_default();
    const variant v = learning(ESTIMATOR | MEAN);
    eitp_step_report free_report, report;
    run r;
    REQUIRE_OK(begin(&r, &host, &v), error_);
    CHECK(!eitp_trainer_step(r.trainer, &free_report, &error_));
    end_run(&r);
    mean_.max_grad_norm = free_report.learners[1].grad_norm / 4;
    REQUIRE_OK(begin(&r, &host, &v), error_);
    CHECK(!eitp_trainer_step(r.trainer, &report, &error_));
    end_run(&r);
    CHECK(report.learners[1].clipped && !report.learners[0].clipped && report.grad_norm == free_report.grad_norm);
    CHECK(report.clipped == free_report.clipped && report.learners[1].grad_norm == free_report.learners[1].grad_norm);
    CHECK_THAT(fabs(report.learners[1].update_norm / free_report.learners[1].update_norm - 0.25) < 1e-4, "%g of %g",
               report.learners[1].update_norm, free_report.learners[1].update_norm);
}

/* Returns the checksum of the model alone and of its noise scale, and sets the last report. */
static uint32_t train_model(const variant *v, eitp_step_report *report) {
    const eitp_host host = eitp_host_default();
    eitp_group_norms norms[16];
    size_t groups = 0;
    uint32_t crc = 0;
    run r;
    CHECK_THAT(!begin(&r, &host, v), "%s", error_.message);
    if (!r.trainer)
        return 0;
    r.trainer->plans.config.noise_scale_every = 1;
    for (int step = 0; step < 3; step++)
        CHECK_THAT(!eitp_trainer_step(r.trainer, report, &error_), "%s", error_.message);
    CHECK(!eitp_trainer_group_norms(r.trainer, norms, 16, &groups, &error_) && groups > 3);
    for (size_t i = 0; i < groups; i++)
        CHECK_THAT(!strncmp(norms[i].name, "transformer.", 12), "'%s' is a group", norms[i].name);
    crc = eitp__crc32c(checksum(&r, 0), &r.trainer->noise_scale, sizeof r.trainer->noise_scale);
    end_run(&r);
    return crc;
}

static void the_model_does_not_notice(void) {
    static const char *const precisions[] = {"fp32", "bf16", "fp16"};
    eitp_objective_config objective = eitp_objective_config_default();
    for (int i = 0; i < 6; i++) {
        variant v = learning(0);
        eitp_step_report with, without;
        uint32_t expected;
        objective.grad_cap = i == 3 ? 0.1 : 0;
        v.objective = &objective;
        v.precision = precisions[i % 3];
        v.optimizer = i == 4 ? EITP_FACTORED : EITP_ADAMW;
        v.keep_gradients = i == 5;
        v.micro_batches_per_pass = i < 3 ? 4 : 2;
        expected = train_model(&v, &without);
        parts_ = ESTIMATOR | MEAN | STATE;
        CHECK_THAT(train_model(&v, &with) == expected, "case %d: the model's bits have changed", i);
        CHECK(with.grad_norm == without.grad_norm && with.update_norm == without.update_norm &&
              with.parameter_norm == without.parameter_norm && with.learner_count == 2 && !without.learner_count);
        parts_ = ESTIMATOR | ENTROPY;
        CHECK_THAT(train_model(&v, &with) != expected, "case %d: the model has no term", i);
    }
}

/* ---- Bits ---- */

static void divisions_change_no_bit(void) {
    static const char *const precisions[] = {"fp32", "bf16", "fp16"};
    eitp_objective_config objective = eitp_objective_config_default();
    for (int i = 0; i < 4; i++) {
        variant usual = learning(ALL), v;
        uint32_t expected;
        usual.precision = precisions[i % 3];
        usual.micro_batches_per_pass = 4;
        usual.objective = &objective;
        objective.grad_cap = i == 3 ? 0.1 : 0;
        expected = train(&usual, 3);
        CHECK_THAT(expected, "case %d failed", i);
        for (int d = 0; d < 8; d++) {
            v = usual;
            v.micro_batches_per_pass = d == 0 ? 1 : d == 1 ? 2 : 4;
            v.keep_gradients = d == 2;
            v.threads = d == 3 ? 1 : d == 1 ? 3 : 2;
            v.piece_bytes = d == 5 ? 1 << 12 : 0;
            v.offload = d == 6 ? EITP_OFFLOAD_STATES : d == 7 ? EITP_OFFLOAD_ALL : EITP_OFFLOAD_NONE;
            if (d == 4)
                v.plan.recompute = EITP_RECOMPUTE_LAYER;
            CHECK_THAT(train(&v, 3) == expected, "case %d, division %d: other bits", i, d);
        }
    }
}

/* Regardless of the kind of its term, a learner's gradient does not count as a regularizer's. */
static void a_cap_leaves_learners_alone(void) {
    eitp_objective_config objective = eitp_objective_config_default();
    variant v = learning(ESTIMATOR | MEAN);
    const uint32_t expected = train(&v, 3);
    objective.grad_cap = 1e-3;
    v.objective = &objective;
    CHECK(expected && train(&v, 3) == expected);
}

static void shrinking_changes_no_bit(void) {
    const eitp_host host = eitp_host_default();
    variant v = learning(ALL);
    uint32_t expected = train(&v, 4);
    run r;
    REQUIRE_OK(begin(&r, &host, &v), error_);
    CHECK(step_many(&r, 2, NULL) && shrink(&r) && step_many(&r, 2, NULL) && fingerprint(&r) == expected);
    end_run(&r);
}

/* The trainer knows that a state updated by each pass depends on the number of passes. */
static void a_state_of_passes_is_known(void) {
    const eitp_host host = eitp_host_default();
    const variant v = learning(ESTIMATOR | IN_PASS);
    run r;
    REQUIRE_OK(begin(&r, &host, &v), error_);
    CHECK(!strcmp(r.trainer->plans.pass_dependent_parameter, "in pass"));
    end_run(&r);
}

/* ---- Checkpoints ---- */

static int file_has(const char *checkpoint, const char *name, const char *text) {
    FILE *file = fopen(scratch_path(checkpoint, name), "rb");
    static char bytes[1 << 16]; /* headers are shorter */
    const size_t size = file ? fread(bytes, 1, sizeof bytes, file) : 0, length = strlen(text);
    size_t at = 0;
    CHECK_THAT(file != NULL, "%s is missing in %s", name, checkpoint);
    if (file)
        fclose(file);
    while (at + length < size && memcmp(bytes + at, text, length) != 0)
        at++;
    return at + length < size;
}

/* Saves after three steps. */
static void save_three(const variant *v, const char *output) {
    const eitp_host host = eitp_host_default();
    run r;
    CHECK_THAT(!begin(&r, &host, v), "%s", error_.message);
    CHECK(step_many(&r, 3, NULL));
    CHECK_THAT(!eitp_trainer_save(r.trainer, output, &error_), "%s", error_.message);
    end_run(&r);
}

static void a_resumed_run_has_the_same_bits(void) {
    const eitp_host host = eitp_host_default();
    for (int i = 0; i < 3; i++) {
        char output[600], checkpoint[700];
        variant v = learning(ALL);
        uint32_t expected;
        run r;
        v.lora_rank = i == 1 ? 2 : 0;
        v.precision = i == 2 ? "bf16" : "fp32";
        snprintf(output, sizeof output, "%s/resumed-%d", directory_, i);
        snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-3", output);
        expected = train(&v, 6);
        save_three(&v, output);
        CHECK(file_has(checkpoint, "parameters.safetensors", "\"estimator.centres\"") == 1);
        CHECK(file_has(checkpoint, "parameters.safetensors", "transformer.") == 0);
        CHECK(file_has(checkpoint, "optimizer.safetensors", "\"slow.exact\"") == 1);
        if (i != 1)
            CHECK(file_has(checkpoint, "model.safetensors", "estimator.") == 0);
        REQUIRE_OK(make_run(&r, &host, &v, directory_, &error_), error_);
        v.micro_batches_per_pass = 1;
        CHECK_THAT(!eitp_trainer_resume(r.trainer, checkpoint, &error_), "%s", error_.message);
        CHECK(step_many(&r, 3, NULL) && fingerprint(&r) == expected);
        end_run(&r);
    }
}

/* Another optimizer for the model leaves the learners unchanged. */
static void another_optimizer_keeps_learners(void) {
    const eitp_host host = eitp_host_default();
    char output[600], checkpoint[700];
    variant v = learning(ALL);
    uint32_t expected, model;
    run r;
    snprintf(output, sizeof output, "%s/other", directory_);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-2", output);
    REQUIRE_OK(begin(&r, &host, &v), error_);
    CHECK(step_many(&r, 2, NULL) && !eitp_trainer_save(r.trainer, output, &error_));
    expected = checksum(&r, 1);
    model = checksum(&r, 0);
    end_run(&r);
    v.optimizer = EITP_FACTORED;
    REQUIRE_OK(make_run(&r, &host, &v, directory_, &error_), error_);
    REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
    CHECK(checksum(&r, 1) == expected && checksum(&r, 0) != model);
    CHECK(step_many(&r, 1, NULL));
    end_run(&r);
}

static char logged_[700];

static void remember(void *user, eitp_log_level level, const char *message) {
    (void)user;
    if (strstr(message, "has no state"))
        snprintf(logged_, sizeof logged_, "%d %s", (int)level, message);
}

static void a_missing_state_is_logged(void) {
    for (int other = 0; other < 2; other++) {
        eitp_host host = eitp_host_default();
        char output[600], checkpoint[700];
        variant v = learning(ESTIMATOR | MEAN);
        float value = 7;
        run r;
        snprintf(output, sizeof output, "%s/missing-%d", directory_, other);
        snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-3", output);
        save_three(&v, output);
        parts_ |= STATE;
        v.optimizer = other ? EITP_FACTORED : EITP_ADAMW;
        host.log.write = remember;
        logged_[0] = 0;
        REQUIRE_OK(make_run(&r, &host, &v, directory_, &error_), error_);
        REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
        CHECK_THAT(strstr(logged_, "optimizer.safetensors has no state 'slow.") != NULL, "'%s'", logged_);
        CHECK(!eitp_variable_read_f32(r.context, "slow.centres", 0, &value, 1, &error_) && value == 0);
        CHECK(step_many(&r, 1, NULL));
        end_run(&r);
        parts_ = MEAN; /* the run lacks the estimator */
        REQUIRE_OK(make_run(&r, &host, &v, directory_, &error_), error_);
        CHECK(eitp_trainer_resume(r.trainer, checkpoint, &error_) == EITP_ERROR_FORMAT);
        end_run(&r);
        parts_ = 0;
        REQUIRE_OK(make_run(&r, &host, &v, directory_, &error_), error_);
        CHECK(eitp_trainer_resume(r.trainer, checkpoint, &error_) == EITP_ERROR_FORMAT);
        CHECK_THAT(strstr(error_.message, "has some parameters that were trained in addition to the model"), "%s",
                   error_.message);
        end_run(&r);
    }
}

/* A process is killed after a step, before it saves the next one. */
static void a_killed_run_resumes(void) {
    const eitp_host host = eitp_host_default();
    char output[600], checkpoint[700];
    variant v = learning(ALL);
    const int kill_at = 2 + (int)(time(NULL) % 3);
    const uint32_t expected = train(&v, 6);
    int64_t newest = -1;
    pid_t child;
    run r;
    snprintf(output, sizeof output, "%s/killed", directory_);
    child = fork();
    if (!child) {
        v.threads = 1; /* OpenMP threads do not survive a fork */
        begin(&r, &host, &v);
        for (int step = 1; step < 6 && step_many(&r, 1, NULL); step++) {
            if (step == kill_at)
                raise(SIGKILL);
            eitp_trainer_save(r.trainer, output, &error_);
        }
        _exit(1);
    }
    REQUIRE(child > 0 && waitpid(child, NULL, 0) == child);
    REQUIRE_OK(eitp_checkpoint_newest(&host, output, &newest, &error_), error_);
    CHECK_THAT(newest == kill_at - 1, "killed at %d, newest is %d", kill_at, (int)newest);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-%d", output, (int)newest);
    REQUIRE_OK(make_run(&r, &host, &v, directory_, &error_), error_);
    CHECK_THAT(!eitp_trainer_resume(r.trainer, checkpoint, &error_), "%s", error_.message);
    CHECK(step_many(&r, 6 - newest, NULL) && fingerprint(&r) == expected);
    end_run(&r);
}

/* ---- Records ---- */

/* The names in the last record of a step that start with "learner_". */
static char names_[600];

static eitp_status list_names(void *user, const eitp_record *record, eitp_error *error) {
    (void)user;
    (void)error;
    names_[0] = record->kind == EITP_RECORD_STEP ? 0 : names_[0];
    for (size_t i = 0; i < record->count && record->kind == EITP_RECORD_STEP; i++) {
        const size_t at = strlen(names_);
        if (!strncmp(record->values[i].name, "learner_", 8))
            snprintf(names_ + at, sizeof names_ - at, "%s ", record->values[i].name + 8);
    }
    return EITP_OK;
}

static void records_have_learners(void) {
    const eitp_host host = eitp_host_default();
    const variant v = learning(ESTIMATOR | MEAN);
    eitp_run_config config = eitp_run_config_default();
    eitp_record_sink sink = EITP__ZERO;
    eitp_run_report report;
    char output[600];
    eitp_run *opened;
    run r;
    snprintf(output, sizeof output, "%s/recorded", directory_);
    sink.record = list_names;
    config.directory = output;
    config.steps = 2;
    config.eval_steps = 2;
    config.eval_samples = 2;
    config.memory_check_seconds = -1;
    config.sinks = &sink;
    config.sink_count = 1;
    REQUIRE_OK(begin(&r, &host, &v), error_);
    REQUIRE_OK(eitp_run_open(&host, &config, &opened, &error_), error_);
    CHECK_THAT(!eitp_run_train(opened, r.trainer, &report, &error_), "%s", error_.message);
    CHECK_THAT(!strcmp(names_, "lr/estimator grad_norm/estimator update_norm/estimator parameter_norm/estimator "
                               "applied/estimator lr/mean grad_norm/mean update_norm/mean parameter_norm/mean "
                               "applied/mean "),
               "%s", names_);
    eitp_run_close(opened);
    end_run(&r);
}

/* ---- Gradients that are not finite ---- */

static void each_update_is_skipped_alone(void) {
    const eitp_host host = eitp_host_default();
    for (int i = 0; i < 4; i++) {
        variant v = learning(0);
        eitp_step_report report;
        uint32_t expected, before;
        run r;
        v.precision = i > 1 ? "fp16" : "fp32";
        v.micro_batches_per_pass = i % 2 ? 1 : 4;
        expected = train_model(&v, &report);
        parts_ = ESTIMATOR | MEAN;
        REQUIRE_OK(begin(&r, &host, &v), error_);
        CHECK(!eitp_variable_fill(r.context, "estimator.scales", 80, &error_));
        before = checksum(&r, 1);
        r.trainer->plans.config.noise_scale_every = 1;
        for (int step = 0; step < 3; step++) {
            CHECK(!eitp_trainer_step(r.trainer, &report, &error_));
            CHECK(!report.learners[0].applied && report.learners[1].applied && report.applied && !report.skipped);
        }
        CHECK(before != checksum(&r, 1));
        CHECK_THAT(eitp__crc32c(checksum(&r, 0), &r.trainer->noise_scale, sizeof r.trainer->noise_scale) == expected,
                   "case %d: the model's bits have changed", i);
        end_run(&r);
        parts_ = ESTIMATOR | FLOOD;
        REQUIRE_OK(begin(&r, &host, &v), error_);
        expected = checksum(&r, 0);
        before = checksum(&r, 1);
        CHECK(!eitp_trainer_step(r.trainer, &report, &error_));
        CHECK(report.learners[0].applied && !report.applied && report.learners[0].update_norm > 0);
        CHECK(checksum(&r, 0) == expected && checksum(&r, 1) != before);
        end_run(&r);
    }
}

/* ---- Refusals ---- */

static void expect_refusal(const char *prefix, const char *message) {
    const eitp_host host = eitp_host_default();
    const variant v = learning(ESTIMATOR);
    run r;
    more_prefixes_[0] = prefix;
    more_prefixes_[1] = NULL;
    CHECK(make_run(&r, &host, &v, directory_, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, message) != NULL, "'%s': %s", prefix, error_.message);
    end_run(&r);
    more_prefixes_[0] = NULL;
}

static void expect_configuration(const eitp_learner_config *config, const char *message) {
    const eitp_host host = eitp_host_default();
    const variant v = learning(ESTIMATOR);
    run r;
    estimator_ = *config;
    CHECK(make_run(&r, &host, &v, directory_, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, message) != NULL, "%s", error_.message);
    end_run(&r);
}

static void what_does_not_fit_is_refused(void) {
    eitp_learner_config config;
    expect_refusal("nothing.", "learner 'nothing.': no trained parameter of the pass has this prefix");
    expect_refusal("estimator.s",
                   "parameter 'estimator.scales' is both learner 'estimator.' and learner 'estimator.s'");
    expect_refusal("transformer.h.1.", "belongs to the model and is updated by the trainer's optimizer");
    expect_refusal("", "expected a prefix of 1 to 31 bytes");
    expect_refusal("a prefix that is longer than 31 bytes", "expected a prefix of 1 to 31 bytes");
    config = eitp_learner_config_default();
    config.schedule.kind = EITP_SCHEDULE_PLATEAU;
    expect_configuration(&config, "its schedule cannot be EITP_SCHEDULE_PLATEAU");
    config = eitp_learner_config_default();
    config.schedule.peak = -1;
    expect_configuration(&config, "its learning rates must be 0 or more, and finite");
    config = eitp_learner_config_default();
    config.max_grad_norm = -1;
    expect_configuration(&config, "its max_grad_norm must be 0 (no clipping) or more");
    config = eitp_learner_config_default();
    config.beta2 = 1;
    expect_configuration(&config, "beta1 0.9 and beta2 1");
    config.optimizer = EITP_OPTIMIZER_COUNT;
    config.beta2 = 0.9;
    expect_configuration(&config, "unknown optimizer 5");
}

static void a_pass_has_a_few_learners(void) {
    const eitp_host host = eitp_host_default();
    const variant v = learning(ESTIMATOR);
    run r;
    for (int i = 0; i < 4; i++)
        more_prefixes_[i] = "estimator.";
    more_prefixes_[4] = NULL;
    CHECK(make_run(&r, &host, &v, directory_, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "a pass has at most 4 learners") != NULL, "%s", error_.message);
    end_run(&r);
    more_prefixes_[0] = NULL;
}

/* ---- Failures ---- */

static void every_failed_allocation_is_an_error(void) {
    char output[600];
    variant v = learning(ALL);
    faults f;
    int more = 1;
    snprintf(output, sizeof output, "%s/failed", directory_);
    for (long n = 1; more && !test_failures_; n += test_stride(13, 41)) {
        run r;
        eitp_status status;
        faults_begin(&f);
        f.fail_allocation = n;
        status = make_run(&r, &f.host, &v, directory_, &error_);
        CHECK_THAT(!status || status == EITP_ERROR_MEMORY, "allocation %ld: %s", n, error_.message);
        if (!status)
            status = eitp_trainer_save(r.trainer, output, &error_);
        if (!status)
            status = eitp_trainer_resume(r.trainer, scratch_path(output, "checkpoint-0"), &error_);
        CHECK_THAT(!status || status == EITP_ERROR_MEMORY, "allocation %ld: %s", n, error_.message);
        end_run(&r);
        more = faults_end(&f);
    }
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(an_estimator_and_a_mean_learn),
        TEST(a_learner_is_clipped_by_its_own_norm),
        TEST(the_model_does_not_notice),
        TEST(divisions_change_no_bit),
        TEST(a_cap_leaves_learners_alone),
        TEST(shrinking_changes_no_bit),
        TEST(a_state_of_passes_is_known),
        TEST(a_resumed_run_has_the_same_bits),
        TEST(another_optimizer_keeps_learners),
        TEST(a_missing_state_is_logged),
        TEST(a_killed_run_resumes),
        TEST(records_have_learners),
        TEST(each_update_is_skipped_alone),
        TEST(what_does_not_fit_is_refused),
        TEST(a_pass_has_a_few_learners),
        TEST(every_failed_allocation_is_an_error),
    };
    int failures;
    if (!scratch_make(directory_) || !write_text(directory_))
        return 1;
    failures = RUN_TESTS(tests, argc, argv);
    scratch_remove(directory_);
    return failures;
}
