/* Small models made with transformers and the results it computed: hidden states, heads, gradients, training steps.
   Define GOLDEN as their directory before including this file. */
#ifndef TESTS_GOLDEN_MODELS_H
#define TESTS_GOLDEN_MODELS_H

#include "tests/support/everything.h"
#include "tests/support/faults.h"
#include "tests/support/model_files.h"
#include "tests/support/test.h"

#define GOLDEN_MODELS_UNUSED __attribute__((unused))

enum { SEQUENCES = 4, LONGEST = 11, ROWS = 23, LABELS = 3, MAX_WIDTH = 32 };

static eitp_error error_;
static int warnings;
static char last_warning[400], fresh_line[400];

static GOLDEN_MODELS_UNUSED void count_warnings(void *user, eitp_log_level level, const char *message) {
    (void)user;
    if (level == EITP_LOG_WARNING) {
        warnings++;
        snprintf(last_warning, sizeof last_warning, "%s", message);
    }
    if (level == EITP_LOG_INFO && strstr(message, "random until"))
        snprintf(fresh_line, sizeof fresh_line, "%s", message);
}

/* A model, and the values computed for it by transformers. */
typedef struct golden {
    eitp_context *context;
    eitp_model *model;
    eitp__safetensors *expected;
} golden;

static GOLDEN_MODELS_UNUSED eitp_context *open_context(const char *isa, const char *precision) {
    eitp_context_config config = eitp_context_config_default();
    eitp_context *context = NULL;
    config.isa = isa;
    config.threads = 2;
    config.precision = precision;
    config.host.log.write = count_warnings;
    CHECK_THAT(!eitp_context_create(&config, &context, &error_), "%s", error_.message);
    return context;
}

static GOLDEN_MODELS_UNUSED int open_expected(golden *g, const char *name) {
    const eitp_host host = eitp_host_default();
    char path[200];
    snprintf(path, sizeof path, GOLDEN "%s/expected.safetensors", name);
    return !eitp__safetensors_open(&host, path, &g->expected, &error_);
}

static GOLDEN_MODELS_UNUSED int open_model(golden *g, const char *directory, const char *name, const char *isa) {
    memset(g, 0, sizeof *g);
    g->context = open_context(isa, "fp32");
    if (!g->context || eitp_model_load(g->context, directory, &g->model, &error_) || !open_expected(g, name)) {
        printf("    %s: %s\n", directory, error_.message);
        return 0;
    }
    return 1;
}

static GOLDEN_MODELS_UNUSED const char *golden_path(const char *name) {
    static char path[200];
    snprintf(path, sizeof path, GOLDEN "%s", name);
    return path;
}

static GOLDEN_MODELS_UNUSED void close_golden(golden *g) {
    eitp__safetensors_close(g->expected);
    eitp_model_destroy(g->model);
    eitp_context_destroy(g->context);
}

/* Returns the elements of a tensor, which the caller frees, or NULL if there is none. */
static GOLDEN_MODELS_UNUSED float *expected_f32(const golden *g, const char *name, int64_t *count) {
    const eitp__safetensors_entry *entry = eitp__safetensors_find(g->expected, name);
    float *values = entry ? (float *)malloc((size_t)entry->count * sizeof *values) : NULL;
    if (values)
        CHECK(!eitp__safetensors_read_f32(g->expected, entry, 0, entry->count, values, NULL, &error_));
    *count = entry ? entry->count : 0;
    return values;
}

static GOLDEN_MODELS_UNUSED void expected_i32(const golden *g, const char *name, int32_t *values, int64_t count) {
    const eitp__safetensors_entry *entry = eitp__safetensors_find(g->expected, name);
    CHECK_THAT(entry && entry->count == count, "%s", name);
    if (entry && entry->count == count)
        CHECK(!eitp__safetensors_read(g->expected, entry, 0, count, values, NULL, &error_));
}

static GOLDEN_MODELS_UNUSED double expected_loss(const golden *g) {
    const eitp__safetensors_entry *entry = eitp__safetensors_find(g->expected, "loss");
    double loss = 0;
    CHECK(entry && !eitp__safetensors_read(g->expected, entry, 0, 1, &loss, NULL, &error_));
    return loss;
}

/* ||a - b|| / ||b||, or ||a - b|| if b is zero in theory. */
static GOLDEN_MODELS_UNUSED double relative_error(const float *a, const float *b, int64_t count) {
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < count; i++) {
        difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        norm += (double)b[i] * (double)b[i];
    }
    return sqrt(difference) / (sqrt(norm) > 1e-6 ? sqrt(norm) : 1);
}

/* ---- A pass ---- */

typedef struct pass {
    eitp_graph *graph;
    eitp_plan *plan;
    eitp_model_inputs inputs;
    eitp_tensor *targets, *labels, *wanted;
    eitp_tensor *hidden, *head, *pooled, *mean, *loss, *carry;
} pass;

/* The sum of the losses of a classifier, according to config.problem. */
static GOLDEN_MODELS_UNUSED eitp_tensor *classifier_loss(pass *p, const eitp_transformer_config *config) {
    const int64_t wanted[2] = {SEQUENCES, config->labels}, sequences = SEQUENCES;
    eitp_tensor *x = p->head, *loss;
    if (config->problem == EITP_PROBLEM_SINGLE_LABEL || config->problem == EITP_PROBLEM_UNKNOWN) {
        p->labels = eitp_input(p->graph, "labels", EITP_I32, 1, &sequences);
        return eitp_cross_entropy(x, p->labels, -100);
    }
    p->wanted = eitp_input(p->graph, "wanted", EITP_F32, 2, wanted);
    if (config->problem == EITP_PROBLEM_REGRESSION) {
        loss = eitp_subtract(x, p->wanted);
        return eitp_multiply(loss, loss);
    }
    return eitp_subtract(eitp_log(eitp_affine(eitp_exp(x), 1, 1)), eitp_multiply(x, p->wanted));
}

static GOLDEN_MODELS_UNUSED int make_pass(const golden *g, pass *p, int with_gradients) {
    const eitp_transformer_config config = eitp_model_config(g->model);
    const int64_t rows = SEQUENCES * LONGEST, one = 1;
    eitp_tensor *loss = NULL;
    memset(p, 0, sizeof *p);
    if (eitp_graph_create(g->context, &p->graph, &error_))
        return 0;
    p->inputs = eitp_model_inputs_create(p->graph, SEQUENCES, LONGEST, 0);
    if (config.segments > 1)
        p->inputs.segments = eitp_input_rows(p->graph, "segments", EITP_I32, 1, &rows);
    p->hidden = eitp_output(eitp_model_hidden(g->model, p->graph, &p->inputs, LONGEST));
    p->mean = eitp_output(eitp_pool(p->hidden, p->inputs.offsets, LONGEST, EITP_POOLING_MEAN));
    if (config.head == EITP_HEAD_NONE && config.pooler)
        p->pooled = eitp_output(eitp_model_pooled(g->model, p->hidden, &p->inputs));
    if (config.head == EITP_HEAD_LANGUAGE) {
        p->targets = eitp_input_rows(p->graph, "targets", EITP_I32, 1, &rows);
        p->head = eitp_output(eitp_model_logits(g->model, p->hidden));
        loss = eitp_model_row_losses(g->model, p->hidden, p->targets, -100);
    } else if (config.head == EITP_HEAD_CLASSIFIER) {
        p->head = eitp_output(eitp_model_scores(g->model, p->hidden, &p->inputs));
        loss = classifier_loss(p, &config);
    } else if (config.head == EITP_HEAD_TOKEN_CLASSIFIER) {
        p->targets = eitp_input_rows(p->graph, "targets", EITP_I32, 1, &rows);
        p->head = eitp_output(eitp_model_token_scores(g->model, p->hidden, &p->inputs));
        loss = eitp_cross_entropy(p->head, p->targets, -100);
    }
    p->loss = loss ? eitp_output(eitp_sum(loss, EITP_ALL_DIMENSIONS, 0)) : NULL;
    p->carry = p->loss && with_gradients ? eitp_input(p->graph, "carry", EITP_F32, 1, &one) : NULL;
    if ((p->carry && eitp_accumulate_gradients(p->loss, p->carry, &error_)) ||
        eitp_plan_create(p->graph, &p->plan, &error_)) {
        printf("    %s\n", error_.message);
        return 0;
    }
    return 1;
}

static GOLDEN_MODELS_UNUSED void release_pass(pass *p) {
    eitp_plan_destroy(p->plan);
    eitp_graph_destroy(p->graph);
}

static GOLDEN_MODELS_UNUSED void write_labels(const golden *g, const pass *p) {
    const eitp_transformer_config config = eitp_model_config(g->model);
    int32_t labels[SEQUENCES];
    float wanted[SEQUENCES * LABELS] = {0};
    expected_i32(g, "labels", labels, SEQUENCES);
    for (int i = 0; i < SEQUENCES; i++) {
        if (config.problem == EITP_PROBLEM_REGRESSION)
            wanted[i] = (float)labels[i];
        else
            wanted[i * LABELS + labels[i]] = 1;
    }
    if (p->labels)
        CHECK(!eitp_plan_write(p->plan, p->labels, labels, sizeof labels, &error_));
    if (p->wanted)
        CHECK(!eitp_plan_write(p->plan, p->wanted, wanted, (size_t)(SEQUENCES * config.labels) * 4, &error_));
}

/* Writes the golden batch and executes it. */
static GOLDEN_MODELS_UNUSED void run_pass(const golden *g, const pass *p) {
    int32_t values[ROWS], offsets[SEQUENCES + 1], positions[ROWS];
    const float carry = 0;
    expected_i32(g, "offsets", offsets, SEQUENCES + 1);
    expected_i32(g, "tokens", values, ROWS);
    for (int i = 0; i < SEQUENCES; i++)
        eitp_model_fill_positions(g->model, values + offsets[i], offsets[i + 1] - offsets[i], positions + offsets[i]);
    CHECK(!eitp_plan_set_rows(p->plan, ROWS, &error_));
    CHECK(!eitp_plan_write(p->plan, p->inputs.offsets, offsets, sizeof offsets, &error_));
    CHECK(!eitp_plan_write(p->plan, p->inputs.positions, positions, sizeof positions, &error_));
    expected_i32(g, "tokens", values, ROWS);
    CHECK(!eitp_plan_write(p->plan, p->inputs.tokens, values, sizeof values, &error_));
    expected_i32(g, "segments", values, ROWS);
    if (p->inputs.segments)
        CHECK(!eitp_plan_write(p->plan, p->inputs.segments, values, sizeof values, &error_));
    expected_i32(g, "targets", values, ROWS);
    if (p->targets)
        CHECK(!eitp_plan_write(p->plan, p->targets, values, sizeof values, &error_));
    write_labels(g, p);
    if (p->carry)
        CHECK(!eitp_plan_write(p->plan, p->carry, &carry, sizeof carry, &error_));
    CHECK_THAT(!eitp_plan_execute(p->plan, &error_), "%s", error_.message);
}

/* Reads an output with as many elements as the expected tensor. The caller frees it. */
static GOLDEN_MODELS_UNUSED float *read_output(const pass *p, eitp_tensor *output, int64_t count) {
    float *values = (float *)malloc((size_t)count * sizeof *values);
    CHECK_THAT(!eitp_plan_read(p->plan, output, values, (size_t)count * sizeof *values, &error_), "%s", error_.message);
    return values;
}

static GOLDEN_MODELS_UNUSED void check_output(const golden *g, const pass *p, eitp_tensor *output,
                                              const char *directory, const char *name) {
    int64_t count;
    float *expected = expected_f32(g, name, &count), *actual;
    CHECK_THAT(!expected || output, "%s: no %s", directory, name);
    if (expected && output) {
        actual = read_output(p, output, count);
        CHECK_THAT(relative_error(actual, expected, count) < 1e-5, "%s: %s %g", directory, name,
                   relative_error(actual, expected, count));
        free(actual);
    }
    free(expected);
}

/* ---- Gradients ---- */

/* Copies the part of a parameter's gradient that a file would store as the tensor of a piece. */
static GOLDEN_MODELS_UNUSED void copy_piece(const float *values, const eitp_variable *variable,
                                            const eitp__piece *piece, float *out) {
    const int64_t lines = variable->rank > 1 ? variable->shape[0] : 1, stride = variable->shape[variable->rank - 1];
    const int64_t columns = piece->is_whole        ? stride
                            : piece->is_transposed ? piece->shape[0]
                                                   : piece->shape[piece->rank - 1];
    for (int64_t r = 0; r < lines; r++) {
        for (int64_t c = 0; c < columns; c++)
            out[piece->is_transposed ? c * lines + r : r * columns + c] = values[r * stride + piece->column + c];
    }
}

static GOLDEN_MODELS_UNUSED int64_t piece_elements(const eitp__piece *piece) {
    int64_t elements = 1;
    for (int d = 0; d < piece->rank; d++)
        elements *= piece->shape[d];
    return elements;
}

/* Checks that every gradient of the golden file belongs to a parameter, and that all match. */
static GOLDEN_MODELS_UNUSED void check_gradients(const golden *g, const char *directory) {
    const eitp_transformer_config config = eitp_model_config(g->model);
    for (int64_t i = 0; i < eitp__parameter_count(&config); i++) {
        const eitp__parameter parameter = eitp__parameter_at(&config, i);
        const eitp_variable variable =
            eitp_variable_at(g->context, (size_t)eitp_variable_find(g->context, parameter.name));
        const int64_t elements = eitp__parameter_elements(&parameter);
        float *values = (float *)malloc((size_t)elements * 4), *part = (float *)malloc((size_t)elements * 4);
        eitp__piece pieces[EITP__PIECES];
        char name[1000];
        int count = eitp__variable_pieces(&variable, &config, pieces);
        snprintf(name, sizeof name, "gradient.%s", parameter.name);
        CHECK_THAT(!eitp_variable_read_f32(g->context, name, 0, values, elements, &error_), "%s", error_.message);
        for (int k = 0; k < count; k++) {
            int64_t size;
            float *expected;
            snprintf(name, sizeof name, "grad.%s", *pieces[k].name ? pieces[k].name : parameter.name);
            expected = expected_f32(g, name, &size);
            copy_piece(values, &variable, &pieces[k], part);
            CHECK_THAT(expected && size == piece_elements(&pieces[k]), "%s: %s", directory, name);
            if (expected)
                CHECK_THAT(relative_error(part, expected, size) < 1e-4, "%s: %s %g", directory, name,
                           relative_error(part, expected, size));
            free(expected);
        }
        free(values);
        free(part);
    }
}

/* True if transformers computed gradients and training steps, too. */
static GOLDEN_MODELS_UNUSED int is_trained(const char *name) {
    return strstr(name, "-mlm") || strstr(name, "-lm") || strstr(name, "-class") || strstr(name, "-tokens");
}

static GOLDEN_MODELS_UNUSED void check_golden(const char *directory, const char *name, const char *isa) {
    golden g;
    pass p;
    float loss;
    const int has_gradients = is_trained(name);
    REQUIRE(open_model(&g, directory, name, isa));
    REQUIRE(make_pass(&g, &p, has_gradients));
    run_pass(&g, &p);
    check_output(&g, &p, p.hidden, directory, "hidden");
    check_output(&g, &p, p.head, directory, "head");
    check_output(&g, &p, p.mean, directory, "mean");
    check_output(&g, &p, p.pooled, directory, "pooled");
    if (p.loss) {
        CHECK(!eitp_plan_read(p.plan, p.loss, &loss, sizeof loss, &error_));
        CHECK_THAT(fabs((double)loss / expected_loss(&g) - 1) < 1e-5, "%s: loss %.9f", directory, (double)loss);
    }
    if (has_gradients)
        check_gradients(&g, directory);
    release_pass(&p);
    close_golden(&g);
}

static GOLDEN_MODELS_UNUSED int available(const char *isa) {
    eitp_context_config config = eitp_context_config_default();
    eitp_context *context;
    config.isa = isa;
    if (eitp_context_create(&config, &context, &error_))
        return 0;
    eitp_context_destroy(context);
    return 1;
}

static GOLDEN_MODELS_UNUSED void models_match(const char *const *names, size_t count) {
    static const char *const sets[] = {"ref", "avx2", "avx512"};
    for (size_t s = 0; s < EITP__COUNT(sets); s++) {
        if (!available(sets[s])) {
            printf("SKIPPED models with %s: %s\n", sets[s], error_.message);
            continue;
        }
        for (size_t i = 0; i < count; i++)
            check_golden(golden_path(names[i]), names[i], sets[s]);
    }
}

static GOLDEN_MODELS_UNUSED double *expected_f64(const golden *g, const char *name, int64_t count) {
    const eitp__safetensors_entry *entry = eitp__safetensors_find(g->expected, name);
    double *values = (double *)calloc((size_t)count, sizeof *values);
    CHECK_THAT(entry && entry->count == count &&
                   !eitp__safetensors_read(g->expected, entry, 0, count, values, NULL, &error_),
               "%s", name);
    return values;
}

/* Checks losses and gradient norms of 20 steps on the same batch. */
static GOLDEN_MODELS_UNUSED void check_training(const char *name) {
    enum { STEPS = 20 };
    golden g;
    pass p;
    eitp_graph *graph;
    eitp_plan *plan;
    eitp_update update;
    eitp_optimizer_config adamw = eitp_optimizer_config_default();
    double *losses, *norms;
    REQUIRE(open_model(&g, golden_path(name), name, NULL));
    REQUIRE(make_pass(&g, &p, 1));
    losses = expected_f64(&g, "train.losses", STEPS);
    norms = expected_f64(&g, "train.grad_norms", STEPS);
    adamw.weight_decay = 0.1;
    REQUIRE_OK(eitp_graph_create(g.context, &graph, &error_), error_);
    REQUIRE_OK(eitp_apply_gradients(graph, &adamw, &update, &error_), error_);
    REQUIRE_OK(eitp_plan_create(graph, &plan, &error_), error_);
    for (int i = 0; i < STEPS; i++) {
        const float hyper[2] = {1e-3f, (float)(i + 1)}, limit = 2;
        float loss, norm;
        run_pass(&g, &p);
        CHECK(!eitp_plan_read(p.plan, p.loss, &loss, sizeof loss, &error_));
        CHECK(!eitp_plan_write(plan, update.rate_and_step, hyper, sizeof hyper, &error_));
        CHECK(!eitp_plan_write(plan, update.max_norm, &limit, sizeof limit, &error_));
        CHECK_THAT(!eitp_plan_execute(plan, &error_), "%s", error_.message);
        CHECK(!eitp_plan_read(plan, update.norm, &norm, sizeof norm, &error_));
        CHECK_THAT(fabs((double)loss / losses[i] - 1) < 1e-5, "%s step %d: loss %.9f, not %.9f", name, i + 1,
                   (double)loss, losses[i]);
        CHECK_THAT(fabs((double)norm / norms[i] - 1) < 5e-5, "%s step %d: norm %.9f, not %.9f", name, i + 1,
                   (double)norm, norms[i]);
    }
    free(losses);
    free(norms);
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    release_pass(&p);
    close_golden(&g);
}

static GOLDEN_MODELS_UNUSED void twenty_steps_match(const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (is_trained(names[i]))
            check_training(names[i]);
    }
}

static GOLDEN_MODELS_UNUSED void saved_models_match(const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const eitp_host host = eitp_host_default();
        eitp__safetensors *was, *is;
        char directory[512], path[600];
        golden g;
        REQUIRE(scratch_make(directory));
        REQUIRE(open_model(&g, golden_path(names[i]), names[i], NULL));
        REQUIRE_OK(eitp_model_save(g.model, directory, &error_), error_);
        close_golden(&g);
        check_golden(directory, names[i], NULL);
        snprintf(path, sizeof path, GOLDEN "%s/model.safetensors", names[i]);
        REQUIRE_OK(eitp__safetensors_open(&host, path, &was, &error_), error_);
        REQUIRE_OK(eitp__safetensors_open(&host, scratch_path(directory, "model.safetensors"), &is, &error_), error_);
        CHECK_THAT(eitp__safetensors_count(was) == eitp__safetensors_count(is), "%s: %zu tensors, not %zu", names[i],
                   eitp__safetensors_count(is), eitp__safetensors_count(was));
        for (size_t k = 0; k < eitp__safetensors_count(was); k++)
            CHECK_THAT(eitp__safetensors_find(is, eitp__safetensors_at(was, k)->name), "%s: no %s", names[i],
                       eitp__safetensors_at(was, k)->name);
        eitp__safetensors_close(was);
        eitp__safetensors_close(is);
        scratch_remove(directory);
    }
}

#endif
