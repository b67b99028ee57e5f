/* Statistics of activations: each is checked against its formula, in double, and watching a step changes none of its
   bits. */
#include "tests/support/trainer_run.h"

/* A graph that is executed once while it is watched. */
typedef struct fixture {
    eitp_context *context;
    eitp_graph *graph;
    eitp__activation_watch *activations;
    eitp_tensor *inputs[3]; /* with their values */
    const void *values[3];
    size_t sizes[3];
    int input_count;
    eitp_layer_activations layers[4];
    size_t count;
} fixture;

static unsigned state = 1;

static float draw(void) {
    state = state * 1103515245u + 12345u;
    return (float)((state >> 8) & 0xffff) / 32768 - 1;
}

static int begin(fixture *f) {
    const eitp_context_config config = eitp_context_config_default();
    memset(f, 0, sizeof *f);
    f->activations = (eitp__activation_watch *)calloc(1, sizeof *f->activations);
    return f->activations && !eitp_context_create(&config, &f->context, &error_) &&
           !eitp_graph_create(f->context, &f->graph, &error_);
}

static void end(fixture *f) {
    eitp_graph_destroy(f->graph);
    eitp_context_destroy(f->context);
    free(f->activations);
}

/* An input [rows, columns], or [rows] if columns is 0, of 4-byte values. */
static eitp_tensor *input(fixture *f, eitp_dtype dtype, int64_t rows, int64_t columns, const void *values) {
    static const char *const names[] = {"a", "b", "c"};
    const int i = f->input_count++;
    int64_t shape[2];
    shape[0] = rows;
    shape[1] = columns;
    f->inputs[i] = eitp_input(f->graph, names[i], dtype, columns ? 2 : 1, shape);
    f->values[i] = values;
    f->sizes[i] = (size_t)(rows * (columns ? columns : 1)) * 4;
    return f->inputs[i];
}

/* A parameter [rows, columns], or [columns] if rows is 0. */
static eitp_tensor *parameter(fixture *f, const char *name, int64_t rows, int64_t columns, const float *values) {
    const int64_t vector[] = {columns}, matrix[] = {rows, columns};
    eitp_tensor *t = eitp_parameter(f->graph, name, rows ? 2 : 1, rows ? matrix : vector);
    if (eitp_variable_write_f32(f->context, name, 0, values, columns * (rows ? rows : 1), &error_))
        CHECK_THAT(0, "%s", error_.message);
    return t;
}

static void execute(fixture *f, eitp_tensor *output) {
    eitp__watcher watcher;
    eitp_plan *plan;
    watcher.user = f->activations;
    watcher.done = eitp__activation_watch_step;
    eitp_output(output);
    REQUIRE_OK(eitp_plan_create(f->graph, &plan, &error_), error_);
    for (int i = 0; i < f->input_count; i++)
        REQUIRE_OK(eitp_plan_write(plan, f->inputs[i], f->values[i], f->sizes[i], &error_), error_);
    eitp__context_watch(f->context, &watcher);
    REQUIRE_OK(eitp_plan_execute(plan, &error_), error_);
    eitp__context_watch(f->context, NULL);
    eitp__activation_watch_read(f->activations, f->layers, 4, &f->count);
    eitp_plan_destroy(plan);
}

static int near(double a, double b, double tolerance) {
    return fabs(a - b) <= tolerance * (fabs(b) + 1e-6);
}

/* ---- Norms ---- */

enum { NORM_ROWS = 37, NORM_COLUMNS = 24 };

static eitp_tensor *norm(fixture *f, eitp_tensor *x, const char *layer, int has_mean, double epsilon) {
    static float ones[NORM_COLUMNS], zeros[NORM_COLUMNS];
    char weight[40], bias[40];
    eitp_tensor *gain;
    for (int i = 0; i < NORM_COLUMNS; i++)
        ones[i] = 1;
    snprintf(weight, sizeof weight, "%s.weight", layer);
    snprintf(bias, sizeof bias, "%s.bias", layer);
    gain = parameter(f, weight, 0, NORM_COLUMNS, ones);
    return has_mean ? eitp_layer_norm(x, gain, parameter(f, bias, 0, NORM_COLUMNS, zeros), epsilon)
                    : eitp_rms_norm(x, gain, epsilon);
}

/* A layer with two norms, which read x and 2 x, and a module with one. */
static void norms_give_the_root_mean_square(void) {
    static float x[NORM_ROWS * NORM_COLUMNS];
    double squares = 0;
    for (int i = 0; i < NORM_ROWS * NORM_COLUMNS; i++) {
        x[i] = 3 * draw() + (float)(i % 5);
        squares += (double)x[i] * (double)x[i] / (NORM_ROWS * NORM_COLUMNS);
    }
    for (int has_mean = 0; has_mean < 2; has_mean++) {
        eitp_tensor *t, *parts[3];
        fixture f;
        REQUIRE(begin(&f));
        t = input(&f, EITP_F32, NORM_ROWS, NORM_COLUMNS, x);
        parts[0] = norm(&f, t, "h.7.first", has_mean, 1e-5);
        parts[1] = norm(&f, eitp_affine(t, 2, 0), "h.7.second", has_mean, 0.5);
        parts[2] = norm(&f, eitp_affine(t, 3, 0), "last", has_mean, 0);
        execute(&f, eitp_concat(parts, 3, 0));
        REQUIRE(f.count == 2);
        CHECK(!strcmp(f.layers[0].name, "h.7") && !strcmp(f.layers[1].name, "last"));
        CHECK_THAT(near(f.layers[0].rms, sqrt(squares * 5 / 2), 1e-5) && near(f.layers[1].rms, sqrt(squares * 9), 1e-5),
                   "%g, %g instead of %g, %g", f.layers[0].rms, f.layers[1].rms, sqrt(squares * 5 / 2),
                   sqrt(squares * 9));
        CHECK(f.layers[0].attention_entropy < 0 && f.layers[0].dead_units < 0);
        end(&f);
    }
}

/* ---- Units ---- */

enum { UNIT_ROWS = 70, UNITS = 1500 };

static eitp_tensor *activation_of(eitp_tensor *x, eitp_activation kind) {
    return kind == EITP_GELU_TANH  ? eitp_gelu_tanh(x)
           : kind == EITP_GELU_ERF ? eitp_gelu_erf(x)
           : kind == EITP_SILU     ? eitp_silu(x)
                                   : eitp_relu(x);
}

/* Every fifth unit is far below 0 in all rows, every seventh in all but the fourth; 1 in 1500 is 0 everywhere. */
static void units_that_are_near_zero_in_all_rows_are_dead(void) {
    static const eitp_activation kinds[] = {EITP_GELU_TANH, EITP_GELU_ERF, EITP_SILU, EITP_RELU};
    static float x[UNIT_ROWS * 2], weight[2 * UNITS], bias[UNITS];
    const int64_t shape[] = {UNIT_ROWS, UNITS};
    double dead = 0;
    for (int row = 0; row < UNIT_ROWS; row++) {
        x[2 * row] = 1;
        x[2 * row + 1] = row == 3;
    }
    for (int i = 0; i < UNITS; i++) {
        weight[i] = i == 1 ? 0 : i % 5 == 0 || i % 7 == 0 ? -20 : 0.4f;
        weight[UNITS + i] = i % 5 && i % 7 == 0 ? 22.0f : 0;
        dead += (i == 1 || i % 5 == 0) / (double)UNITS;
    }
    for (size_t k = 0; k < EITP__COUNT(kinds); k++) {
        for (int is_fused = 0; is_fused < 2; is_fused++) {
            eitp_tensor *t, *w, *b;
            fixture f;
            REQUIRE(begin(&f));
            t = input(&f, EITP_F32, UNIT_ROWS, 2, x);
            w = parameter(&f, "h.2.mlp.weight", 2, UNITS, weight);
            b = parameter(&f, "h.2.mlp.bias", 0, UNITS, bias);
            t = eitp_linear(t, w, b, is_fused ? kinds[k] : EITP_NO_ACTIVATION);
            execute(&f, is_fused ? t : activation_of(eitp_reshape(t, 2, shape), kinds[k]));
            REQUIRE(f.count == 1);
            CHECK_THAT(near(f.layers[0].dead_units, dead, 1e-9), "activation %d: %g instead of %g", (int)kinds[k],
                       f.layers[0].dead_units, dead);
            CHECK(f.layers[0].rms < 0 && f.layers[0].attention_entropy < 0);
            end(&f);
        }
    }
}

/* ---- Attention ---- */

enum { HEADS = 3, WIDTH = 5, COLUMNS = HEADS * WIDTH, MOST_ROWS = 90 };

/* Sequences of various lengths. With lengths, the last rows of the third are padding. */
static const int32_t offsets[] = {0, 5, 6, 40, 40, 80};
static const int32_t lengths[] = {5, 1, 20, 0, 40};

enum { SEQUENCES = EITP__COUNT(lengths) };

/* The entropy of a row relative to its maximum, summed over the heads. Sets *count to the number of heads, or 0. */
static double entropy_of(const float *qkv, int sequences, int64_t row, int is_causal, int has_lengths, int *count) {
    double sum = 0;
    int i = 0;
    *count = 0;
    while (i < sequences && row >= offsets[i + 1])
        i++;
    if (i == sequences)
        return 0;
    const int64_t first = offsets[i], length = has_lengths ? lengths[i] : offsets[i + 1] - offsets[i];
    const int64_t stop = is_causal ? row + 1 : first + length;
    if (row >= first + length || stop - first < 2)
        return 0;
    for (int head = 0; head < HEADS; head++) {
        double weights[MOST_ROWS], total = 0;
        for (int64_t j = first; j < stop; j++) {
            double score = 0;
            for (int k = 0; k < WIDTH; k++)
                score += (double)qkv[row * 3 * COLUMNS + head * WIDTH + k] *
                         (double)qkv[(j * 3 + 1) * COLUMNS + head * WIDTH + k];
            total += weights[j - first] = exp(0.7 * score);
        }
        for (int64_t j = first; j < stop; j++)
            sum -= weights[j - first] / total * log(weights[j - first] / total) / log((double)(stop - first));
    }
    *count = HEADS;
    return sum;
}

/* Watches attention to `rows` rows, and compares the entropy of all rows, or of 16 evenly spaced ones. */
static void check_attention(const float *qkv, int64_t rows, int is_causal, int has_lengths, double *found) {
    static float identity[9 * COLUMNS * COLUMNS];
    const int64_t most = rows < 16 ? rows : 16;
    const int sequences = rows < 40 ? 2 : SEQUENCES;
    eitp_attention_config config = eitp_attention_config_default();
    eitp_attention_inputs inputs = eitp_attention_inputs_default();
    double sum = 0, heads = 0;
    fixture f;
    for (int i = 0; i < 3 * COLUMNS; i++)
        identity[i * (3 * COLUMNS + 1)] = 1;
    for (int64_t i = 0; i < most; i++) {
        int count;
        sum += entropy_of(qkv, sequences, (2 * i + 1) * rows / (2 * most), is_causal, has_lengths, &count);
        heads += count;
    }
    REQUIRE(begin(&f));
    config.heads = HEADS;
    config.max_length = 48;
    config.scale = 0.7;
    config.bidirectional = !is_causal;
    inputs.q = eitp_matmul(input(&f, EITP_F32, rows, 3 * COLUMNS, qkv),
                           parameter(&f, "h.1.attn.weight", 3 * COLUMNS, 3 * COLUMNS, identity));
    inputs.offsets = input(&f, EITP_I32, sequences + 1, 0, offsets);
    inputs.lengths = has_lengths ? input(&f, EITP_I32, sequences, 0, lengths) : NULL;
    execute(&f, eitp_attention(&inputs, &config));
    REQUIRE(f.count == 1 && !strcmp(f.layers[0].name, "h.1"));
    CHECK_THAT(near(f.layers[0].attention_entropy, sum / heads, 1e-4), "%d rows, causal %d, lengths %d: %g, not %g",
               (int)rows, is_causal, has_lengths, f.layers[0].attention_entropy, sum / heads);
    *found = f.layers[0].attention_entropy;
    end(&f);
}

static void attention_has_its_entropy(void) {
    static const int64_t rows[] = {14, 90}; /* rows after the last sequence attend to nothing */
    static float qkv[MOST_ROWS * 3 * COLUMNS];
    double found = 0;
    for (int i = 0; i < MOST_ROWS * 3 * COLUMNS; i++)
        qkv[i] = 2 * draw();
    for (int way = 0; way < 8; way++) {
        check_attention(qkv, rows[way / 4], way & 1, way >> 1 & 1, &found);
        CHECK(found > 0.05 && found < 0.95);
    }
    for (int i = 0; i < MOST_ROWS * 3 * COLUMNS; i++)
        qkv[i] *= i % (3 * COLUMNS) < COLUMNS ? 0 : 1.0f; /* no key is preferred */
    check_attention(qkv, 90, 1, 0, &found);
    CHECK_THAT(near(found, 1, 1e-5), "%g", found);
    for (int i = 0; i < MOST_ROWS * 3 * COLUMNS; i++)
        qkv[i] = i % (3 * COLUMNS) < COLUMNS ? 10.0f : (float)(i / (3 * COLUMNS) % 5); /* one key is preferred by far */
    check_attention(qkv, 14, 0, 0, &found);
    CHECK_THAT(found < 1e-5, "%g", found);
}

/* Attention with a mask, or with fewer key than query heads, is not watched. */
static void other_attention_has_none(void) {
    static float qkv[14 * 3 * COLUMNS], identity[9 * COLUMNS * COLUMNS], mask[48 * 48];
    eitp_attention_config config = eitp_attention_config_default();
    eitp_attention_inputs inputs = eitp_attention_inputs_default();
    fixture f;
    REQUIRE(begin(&f));
    config.heads = HEADS;
    config.max_length = 48;
    inputs.q = eitp_matmul(input(&f, EITP_F32, 14, 3 * COLUMNS, qkv),
                           parameter(&f, "h.1.attn.weight", 3 * COLUMNS, 3 * COLUMNS, identity));
    inputs.offsets = input(&f, EITP_I32, 3, 0, offsets);
    inputs.mask = input(&f, EITP_F32, 48, 48, mask);
    execute(&f, eitp_attention(&inputs, &config));
    CHECK(f.count == 0);
    end(&f);
}

/* ---- Steps ---- */

/* Checks that the first pass is watched if `asked`, and that each layer has the expected statistics. */
static void check_layers(const run *r, int asked) {
    static const char *const names[] = {"transformer.h.0", "transformer.h.1", "transformer.ln_f"};
    eitp_layer_activations layers[8];
    size_t count = 9;
    REQUIRE_OK(eitp_trainer_activations(r->trainer, layers, 8, &count, &error_), error_);
    REQUIRE(count == (asked ? 3u : 0u));
    for (size_t i = 0; i < count; i++) {
        CHECK_THAT(!strcmp(layers[i].name, names[i]) && layers[i].rms > 0, "%s", layers[i].name);
        CHECK_THAT((layers[i].attention_entropy > 0.5 && layers[i].attention_entropy <= 1.001) == (i < 2), "%s: %g",
                   layers[i].name, layers[i].attention_entropy);
        CHECK_THAT((layers[i].dead_units >= 0) == (i < 2) && layers[i].dead_units < 0.5, "%s: %g", layers[i].name,
                   layers[i].dead_units);
    }
    REQUIRE_OK(eitp_trainer_activations(r->trainer, layers, 1, &count, &error_), error_);
    CHECK(count == (size_t)asked);
}

/* In one pass with the update in it, in several, recomputed, offloaded, in 16 bits, and with adapters. */
static void watching_changes_no_bit(void) {
    const eitp_host host = eitp_host_default();
    char directory[512];
    REQUIRE(scratch_make(directory) && write_text(directory));
    for (int way = 0; way < 6; way++) {
        uint32_t bits[2];
        for (int asked = 0; asked < 2; asked++) {
            variant v = default_variant();
            int64_t rows = 0;
            run r;
            v.micro_batches_per_pass = way == 1 ? 1 : 2;
            v.plan.recompute = way == 2 ? EITP_RECOMPUTE_LAYER : EITP_RECOMPUTE_AUTO;
            v.offload = way == 3 ? EITP_OFFLOAD_ALL : EITP_OFFLOAD_NONE;
            v.precision = way == 4 ? "bf16" : "fp32";
            v.lora_rank = way == 5 ? 2 : 0;
            REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
            for (int step = 0; step < 3; step++) {
                eitp_step_report report;
                if (asked && step < 2)
                    REQUIRE_OK(eitp_trainer_watch_activations(r.trainer, &error_), error_);
                REQUIRE_OK(eitp_trainer_step(r.trainer, &report, &error_), error_);
                check_layers(&r, asked);
                rows = step || !asked ? rows : r.trainer->activations->layers[0].rows;
                CHECK(!asked || r.trainer->activations->layers[0].rows == rows); /* in a step */
            }
            bits[asked] = fingerprint(&r);
            end_run(&r);
        }
        CHECK_THAT(bits[0] == bits[1], "way %d: %08x and %08x", way, bits[0], bits[1]);
    }
    scratch_remove(directory);
}

static void what_cannot_be_watched_is_refused(void) {
    eitp_layer_activations layers[2];
    eitp_step_report report;
    variant v = default_variant();
    char directory[512];
    size_t count;
    faults f;
    run r;
    REQUIRE(scratch_make(directory) && write_text(directory));
    faults_begin(&f);
    REQUIRE_OK(make_run(&r, &f.host, &v, directory, &error_), error_);
    f.fail_allocation = f.allocations + 1;
    CHECK(eitp_trainer_watch_activations(r.trainer, &error_) == EITP_ERROR_MEMORY);
    REQUIRE_OK(eitp_trainer_step(r.trainer, &report, &error_), error_);
    check_layers(&r, 0);
    CHECK(eitp_trainer_watch_activations(NULL, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_trainer_activations(NULL, layers, 2, &count, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_trainer_activations(r.trainer, NULL, 2, &count, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_trainer_activations(r.trainer, layers, 2, NULL, &error_) == EITP_ERROR_ARGUMENT);
    end_run(&r);
    faults_end(&f);
    scratch_remove(directory);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(norms_give_the_root_mean_square), TEST(units_that_are_near_zero_in_all_rows_are_dead),
        TEST(attention_has_its_entropy),       TEST(other_attention_has_none),
        TEST(watching_changes_no_bit),         TEST(what_cannot_be_watched_is_refused),
    };
    return RUN_TESTS(tests, argc, argv);
}
