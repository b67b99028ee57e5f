/* The number of micro-batches per pass changes no bit of a user's own model, or the trainer knows that it may. */
#include "tests/support/everything.h"
#include "tests/support/faults.h"
#include "tests/support/test.h"

enum { WIDTH = 40, WORDS = 19, ROWS = 4, BATCH = 3, PASSES = 4, STEPS = 3 };

static eitp_error error;
static eitp_pass *current;
static const int64_t square[] = {WIDTH, WIDTH}, row[] = {WIDTH}, one[] = {1}, words[] = {WORDS, WIDTH},
                     wide[] = {WIDTH, 2 * WIDTH};

/* Computes a model on rows x [n, WIDTH] and their ids. */
typedef eitp_tensor *(*layers)(eitp_graph *graph, eitp_tensor *x, eitp_tensor *ids);

static eitp_tensor *weight(eitp_graph *graph) {
    return eitp_parameter(graph, "w", 2, square);
}

static eitp_tensor *vector(eitp_graph *graph, const char *name) {
    return eitp_parameter(graph, name, 1, row);
}

static eitp_tensor *one_product(eitp_graph *graph, eitp_tensor *x, eitp_tensor *ids) {
    return (void)ids, eitp_linear(x, weight(graph), vector(graph, "b"), EITP_TANH);
}

static eitp_tensor *shared_weight(eitp_graph *graph, eitp_tensor *x, eitp_tensor *ids) {
    return one_product(graph, one_product(graph, x, ids), ids);
}

static eitp_tensor *transposed_too(eitp_graph *graph, eitp_tensor *x, eitp_tensor *ids) {
    return eitp_matmul_transposed(one_product(graph, x, ids), weight(graph), 0, 1);
}

static eitp_tensor *four_uses(eitp_graph *graph, eitp_tensor *x, eitp_tensor *ids) {
    return shared_weight(graph, shared_weight(graph, x, ids), ids);
}

static eitp_tensor *five_uses(eitp_graph *graph, eitp_tensor *x, eitp_tensor *ids) {
    return one_product(graph, four_uses(graph, x, ids), ids);
}

static eitp_tensor *broadcast_add(eitp_graph *graph, eitp_tensor *x, eitp_tensor *ids) {
    return (void)ids, eitp_tanh(eitp_add(x, vector(graph, "b")));
}

static eitp_tensor *broadcast_gain(eitp_graph *graph, eitp_tensor *x, eitp_tensor *ids) {
    return (void)ids, eitp_tanh(eitp_multiply(vector(graph, "g"), x));
}

static eitp_tensor *divided(eitp_graph *graph, eitp_tensor *x, eitp_tensor *ids) {
    return (void)ids, eitp_divide(x, vector(graph, "g"));
}

static eitp_tensor *bias_and_gain(eitp_graph *graph, eitp_tensor *x, eitp_tensor *ids) {
    return eitp_subtract(eitp_maximum(broadcast_gain(graph, x, ids), vector(graph, "g")), vector(graph, "g"));
}

static eitp_tensor *norm(eitp_graph *graph, eitp_tensor *x, eitp_tensor *ids) {
    return (void)ids, eitp_layer_norm(x, vector(graph, "g"), vector(graph, "b"), 1e-5);
}

static eitp_tensor *shared_norm(eitp_graph *graph, eitp_tensor *x, eitp_tensor *ids) {
    return norm(graph, eitp_tanh(norm(graph, x, ids)), ids);
}

static eitp_tensor *norm_without_bias(eitp_graph *graph, eitp_tensor *x, eitp_tensor *ids) {
    return (void)ids, eitp_layer_norm(x, vector(graph, "g"), eitp_fill(graph, EITP_F32, 1, row, 0), 1e-5);
}

static eitp_tensor *root_mean_square(eitp_graph *graph, eitp_tensor *x, eitp_tensor *ids) {
    return (void)ids, eitp_rms_norm(x, vector(graph, "g"), 1e-5);
}

static eitp_tensor *shared_root(eitp_graph *graph, eitp_tensor *x, eitp_tensor *ids) {
    return root_mean_square(graph, eitp_tanh(root_mean_square(graph, x, ids)), ids);
}

static eitp_tensor *lookup(eitp_graph *graph, eitp_tensor *x, eitp_tensor *ids) {
    return eitp_multiply(x, eitp_embedding(eitp_parameter(graph, "table", 2, words), ids));
}

static eitp_tensor *two_lookups(eitp_graph *graph, eitp_tensor *x, eitp_tensor *ids) {
    return lookup(graph, eitp_tanh(lookup(graph, x, ids)), ids);
}

static eitp_tensor *lookup_and_head(eitp_graph *graph, eitp_tensor *x, eitp_tensor *ids) {
    return eitp_linear_cross_entropy(lookup(graph, x, ids), eitp_parameter(graph, "table", 2, words), ids, -1);
}

/* The lookup's gradient term arrives between the terms of the products. */
static eitp_tensor *all_uses_of_a_table(eitp_graph *graph, eitp_tensor *x, eitp_tensor *ids) {
    eitp_tensor *table = eitp_parameter(graph, "table", 2, words);
    x = eitp_matmul(eitp_tanh(eitp_matmul_transposed(x, table, 0, 1)), table);
    x = eitp_multiply(x, eitp_pass_embedding(current, table, ids));
    return eitp_linear_cross_entropy(x, table, ids, -1);
}

static eitp_tensor *slices_of_a_product(eitp_graph *graph, eitp_tensor *x, eitp_tensor *ids) {
    eitp_tensor *qkv = eitp_matmul(x, eitp_parameter(graph, "wide", 2, wide));
    return (void)ids, eitp_tanh(eitp_add(eitp_slice(qkv, 1, 0, WIDTH), eitp_slice(qkv, 1, WIDTH, 2 * WIDTH)));
}

static eitp_tensor *temperature(eitp_graph *graph, eitp_tensor *x, eitp_tensor *ids) {
    return (void)ids, eitp_tanh(eitp_multiply(x, eitp_parameter(graph, "t", 1, one)));
}

static eitp_tensor *exponent(eitp_graph *graph, eitp_tensor *x, eitp_tensor *ids) {
    return (void)ids, eitp_tanh(eitp_multiply(x, eitp_exp(vector(graph, "g"))));
}

static eitp_tensor *sliced(eitp_graph *graph, eitp_tensor *x, eitp_tensor *ids) {
    eitp_tensor *both = eitp_parameter(graph, "wide", 2, wide);
    return (void)ids,
           eitp_matmul(eitp_tanh(eitp_matmul(x, eitp_slice(both, 1, 0, WIDTH))), eitp_slice(both, 1, WIDTH, 2 * WIDTH));
}

static eitp_tensor *reshaped(eitp_graph *graph, eitp_tensor *x, eitp_tensor *ids) {
    static const int64_t flat[] = {WIDTH * WIDTH};
    return (void)ids, eitp_tanh(eitp_matmul(x, eitp_reshape(eitp_parameter(graph, "flat", 1, flat), 2, square)));
}

static eitp_tensor *reshaped_row(eitp_graph *graph, eitp_tensor *x, eitp_tensor *ids) {
    static const int64_t line[] = {1, WIDTH};
    eitp_tensor *bias = eitp_reshape(eitp_parameter(graph, "line", 2, line), 1, row);
    return (void)ids, eitp_tanh(eitp_add(x, bias));
}

static eitp_tensor *reshaped_twice_used(eitp_graph *graph, eitp_tensor *x, eitp_tensor *ids) {
    eitp_tensor *same = eitp_reshape(weight(graph), 2, square);
    return (void)ids, eitp_matmul(eitp_tanh(eitp_matmul(x, same)), same);
}

static eitp_tensor *regularised(eitp_graph *graph, eitp_tensor *x, eitp_tensor *ids) {
    eitp_tensor *w = weight(graph), *squares = eitp_sum(eitp_multiply(w, w), EITP_ALL_DIMENSIONS, 0);
    return (void)ids, eitp_add(eitp_matmul(x, w), squares);
}

/* In 16 bits, as far as kernels exist. */
static eitp_tensor *narrow(eitp_graph *graph, eitp_tensor *x, eitp_tensor *ids) {
    eitp_tensor *y =
        eitp_linear(eitp_cast(x, EITP_BF16), eitp_cast(weight(graph), EITP_BF16), vector(graph, "b"), EITP_GELU_TANH);
    return (void)ids, eitp_cast(y, EITP_F32);
}

static eitp_tensor *narrow_twice(eitp_graph *graph, eitp_tensor *x, eitp_tensor *ids) {
    return narrow(graph, narrow(graph, x, ids), ids);
}

static eitp_tensor *narrow_vector(eitp_graph *graph, eitp_tensor *x, eitp_tensor *ids) {
    eitp_tensor *gain = eitp_cast(vector(graph, "g"), EITP_BF16);
    return (void)ids, eitp_cast(eitp_tanh(eitp_multiply(eitp_cast(x, EITP_BF16), gain)), EITP_F32);
}

static eitp_tensor *narrow_cast_once(eitp_graph *graph, eitp_tensor *x, eitp_tensor *ids) {
    eitp_tensor *w = eitp_cast(weight(graph), EITP_BF16), *y = eitp_matmul(eitp_cast(x, EITP_BF16), w);
    return (void)ids, eitp_cast(eitp_matmul(eitp_tanh(y), w), EITP_F32);
}

typedef struct model {
    const char *name;
    layers build;
    int exact; /* 1: bits do not depend on the passes of a step; 0: they may, and the trainer knows it */
    int per_sample;
} model;

/* Samples, unlike rows, are contiguous. */
static const model samples_in_16_bits = {"a weight in 16 bits, for each sample", narrow, 1, 1};

static const model models[] = {
    {"a product and its bias", one_product, 1, 0},
    {"a weight of two layers", shared_weight, 1, 0},
    {"x W and y W^T", transposed_too, 1, 0},
    {"a weight of four layers", four_uses, 1, 0},
    {"a weight of five layers", five_uses, 0, 0},
    {"a vector added", broadcast_add, 1, 0},
    {"a vector multiplied", broadcast_gain, 1, 0},
    {"a divisor", divided, 1, 0},
    {"a vector used three times", bias_and_gain, 1, 0},
    {"layer_norm", norm, 1, 0},
    {"a layer_norm of two layers", shared_norm, 1, 0},
    {"layer_norm without a bias to train", norm_without_bias, 0, 0},
    {"rms_norm", root_mean_square, 1, 0},
    {"an rms_norm of two layers", shared_root, 1, 0},
    {"a lookup", lookup, 1, 0},
    {"two lookups", two_lookups, 1, 0},
    {"a lookup and the output head", lookup_and_head, 1, 0},
    {"a lookup by distinct id, two products and the output head", all_uses_of_a_table, 1, 0},
    {"slices of a product", slices_of_a_product, 1, 0},
    {"a reshaped weight", reshaped, 1, 0},
    {"a row reshaped to a vector, and added", reshaped_row, 1, 0},
    {"a row reshaped to a vector, and added, for each sample", reshaped_row, 1, 1},
    {"a temperature", temperature, 0, 0},
    {"a function of a vector", exponent, 0, 0},
    {"slices of a weight", sliced, 0, 0},
    {"a reshaped weight of two layers", reshaped_twice_used, 0, 0},
    {"a weight of two layers, for each sample", shared_weight, 1, 1},
    {"a gain for each sample", broadcast_gain, 1, 1},
    {"a weight in 16 bits", narrow, 1, 0},
    {"a weight of two layers in 16 bits", narrow_twice, 1, 0},
    {"a gain in 16 bits", narrow_vector, 1, 0},
    {"a cast that two layers have", narrow_cast_once, 0, 0},
    {"squares of a weight for each row", regularised, 0, 0},
};

static eitp_status build(void *user, eitp_pass *pass, eitp_error *why) {
    const model *m = (const model *)user;
    current = pass;
    eitp_tensor *x = m->per_sample ? eitp_pass_sample_input(pass, "x", EITP_F32, 1, row, 0)
                                   : eitp_pass_row_input(pass, "x", EITP_F32, 1, row, 0);
    eitp_tensor *ids = eitp_pass_row_input(pass, "ids", EITP_I32, 0, NULL, -1);
    eitp_tensor *y = m->build(eitp_pass_graph(pass), x, ids);
    if (y && y->rank > 1)
        y = eitp_sum(eitp_multiply(eitp_subtract(y, eitp_affine(x, 0.3, 0.1)), y), 2, 0);
    if (m->per_sample) /* unused samples add nothing */
        y = eitp_multiply(y, eitp_sum(eitp_multiply(x, x), 2, 0));
    eitp_pass_term(pass, "loss", y, NULL);
    return eitp_graph_status(eitp_pass_graph(pass), why);
}

static eitp_status read_sample(void *user, eitp_split split, uint64_t number, eitp_sample *sample, eitp_error *why) {
    float *x = (float *)sample->values[0];
    int32_t *ids = (int32_t *)sample->values[1];
    for (int i = 0; i < (((const model *)user)->per_sample ? 1 : ROWS) * WIDTH; i++)
        x[i] = sinf((float)(i + 1) * (float)(number % 17 + 1) * 0.37f + (float)split);
    for (int i = 0; i < ROWS; i++)
        ids[i] = (int32_t)((number * 7 + (uint64_t)i * 3) % WORDS);
    return (void)why, EITP_OK;
}

/* A configuration to train a model with. */
typedef struct way {
    const char *isa, *precision;
    int64_t micro_batches_per_pass;
    int threads, keep_gradients;
} way;

typedef struct run {
    eitp_context *context;
    eitp_trainer *trainer;
} run;

static void end(run *r) {
    eitp_trainer_destroy(r->trainer);
    eitp_context_destroy(r->context);
}

static void fill_parameters(eitp_context *context) {
    for (size_t i = 0; i < eitp_variable_count(context); i++) {
        eitp_variable v = eitp_variable_at(context, i);
        if (v.role == EITP_PARAMETER)
            REQUIRE_OK(eitp_variable_fill_normal(context, v.name, v.rank == 1 ? 1 : 0, 0.2, 5, &error), error);
    }
}

static void begin(run *r, const model *m, const way *w) {
    eitp_context_config config = eitp_context_config_default();
    eitp_trainer_config trainer = eitp_trainer_config_default();
    eitp_task task;
    memset(&task, 0, sizeof task);
    config.precision = w->precision;
    config.threads = w->threads;
    config.isa = w->isa;
    config.products = "own";
    trainer.batch_size = BATCH;
    trainer.grad_accum = PASSES;
    trainer.micro_batches_per_pass = w->micro_batches_per_pass;
    trainer.keep_gradients = w->keep_gradients;
    trainer.schedule.peak = 0.01;
    trainer.max_grad_norm = 0; /* otherwise clipping would hide the gradient of a single number */
    REQUIRE_OK(eitp_context_create(&config, &r->context, &error), error);
    task.user = (void *)(uintptr_t)m;
    task.context = r->context;
    task.rows = ROWS;
    task.samples[EITP_TRAINING] = 500;
    task.build = build;
    task.read = read_sample;
    REQUIRE_OK(eitp_trainer_create(&task, &trainer, &r->trainer, &error), error);
    fill_parameters(r->context);
}

static void step_many(run *r, int steps) {
    eitp_step_report report;
    for (int i = 0; i < steps; i++)
        REQUIRE_OK(eitp_trainer_step(r->trainer, &report, &error), error);
}

static uint32_t fingerprint(const run *r) {
    static unsigned char bytes[1 << 16];
    uint32_t crc = 0;
    for (size_t i = 0; i < eitp_variable_count(r->context); i++) {
        eitp_variable v = eitp_variable_at(r->context, i);
        if (v.role != EITP_PARAMETER && v.role != EITP_OPTIMIZER)
            continue;
        CHECK(v.size <= sizeof bytes);
        CHECK(!eitp_variable_read(r->context, v.name, 0, bytes, v.size, &error));
        crc = eitp__crc32c(crc, bytes, v.size);
    }
    return crc;
}

static uint32_t train(const model *m, const way *w) {
    run r;
    uint32_t crc;
    begin(&r, m, w);
    step_many(&r, STEPS);
    crc = fingerprint(&r);
    end(&r);
    return crc;
}

/* True if all ways give the same bits. */
static int is_same(const model *m, const char *isa, const char *precision) {
    static const way ways[] = {{NULL, NULL, 1, 1, 0}, {NULL, NULL, 1, 2, 0}, {NULL, NULL, 2, 1, 0},
                               {NULL, NULL, 2, 2, 0}, {NULL, NULL, 3, 2, 0}, {NULL, NULL, 4, 2, 0},
                               {NULL, NULL, 4, 2, 1}};
    uint32_t first = 0;
    for (size_t i = 0; i < EITP__COUNT(ways); i++) {
        way w = ways[i];
        uint32_t crc;
        w.isa = isa;
        w.precision = precision;
        crc = train(m, &w);
        first = i ? first : crc;
        if (crc != first)
            return 0;
    }
    return 1;
}

typedef struct kernel_set {
    const char *isa, *precision;
} kernel_set;

static const kernel_set sets[] = {{"ref", "fp32"}, {"avx2", "fp32"}, {"avx512", "fp32"}, {"avx512bf16", "bf16"}};

static int has_set(const kernel_set *set) {
    eitp_context_config config = eitp_context_config_default();
    eitp_context *context = NULL;
    config.isa = set->isa;
    config.precision = set->precision;
    if (eitp_context_create(&config, &context, &error)) {
        printf("SKIPPED %s: %s\n", set->isa, error.message);
        return 0;
    }
    eitp_context_destroy(context);
    return 1;
}

/* If a model counts as inexact, its bits must differ with some kernels at least. */
static void micro_batches_per_pass_change_no_bit(void) {
    int has[EITP__COUNT(sets)];
    for (size_t s = 0; s < EITP__COUNT(sets); s++)
        has[s] = has_set(&sets[s]);
    for (size_t m = 0; m < EITP__COUNT(models); m++) {
        int is_same_in_all = 1;
        for (size_t s = 0; s < EITP__COUNT(sets); s++) {
            const int same = !has[s] || is_same(&models[m], sets[s].isa, sets[s].precision);
            is_same_in_all &= same;
            CHECK_THAT(same || !models[m].exact, "%s, %s: the bits depend on merging", models[m].name, sets[s].isa);
        }
        CHECK_THAT(is_same_in_all == models[m].exact, "%s: the bits do not depend on merging", models[m].name);
    }
}

/* Micro-batches of samples start where kernels that sum several terms at once can be divided. */
static void samples_are_divided_where_sums_can_be(void) {
    for (size_t s = 0; s < EITP__COUNT(sets); s++) {
        const way apart = {sets[s].isa, sets[s].precision, 1, 1, 0};
        run r;
        if (!has_set(&sets[s]))
            continue;
        begin(&r, &samples_in_16_bits, &apart);
        CHECK(!r.trainer->plans.pass_dependent_parameter[0]);
        end(&r);
        CHECK(is_same(&samples_in_16_bits, sets[s].isa, sets[s].precision));
    }
}

/*
 * Sets the message of a trainer that resumes with two micro-batches per pass from a checkpoint made with one; "" if it
 * resumes.
 */
static void resume_with_more(const model *m, const char *output, char *message, size_t size) {
    const way apart = {"ref", "fp32", 1, 1, 0}, together = {"ref", "fp32", 2, 1, 0};
    char checkpoint[700];
    run r;
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-1", output);
    begin(&r, m, &apart);
    step_many(&r, 1);
    REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error), error);
    end(&r);
    begin(&r, m, &together);
    message[0] = 0;
    if (eitp_trainer_resume(r.trainer, checkpoint, &error))
        snprintf(message, size, "%s", error.message);
    end(&r);
    begin(&r, m, &apart);
    REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error), error);
    end(&r);
    scratch_remove(output);
}

static void resume_is_refused_if_bits_would_differ(void) {
    char directory[512], output[600], message[sizeof error.message];
    REQUIRE(scratch_make(directory));
    snprintf(output, sizeof output, "%s/out", directory);
    for (size_t m = 0; m < EITP__COUNT(models); m++) {
        resume_with_more(&models[m], output, message, sizeof message);
        CHECK_THAT(models[m].exact ? !message[0] : strstr(message, "the gradient of parameter") != NULL, "%s: '%s'",
                   models[m].name, message);
    }
    scratch_remove(directory);
}

static void take_log(void *user, eitp_log_level level, const char *message) {
    char *log = (char *)user;
    (void)level;
    snprintf(log + strlen(log), 4096 - strlen(log), "%s\n", message);
}

static void shrinking_reports_whether_bits_change(void) {
    int shrunk = 0;
    for (size_t m = 0; m < EITP__COUNT(models); m++) {
        const way all = {"ref", "fp32", 4, 1, 0};
        eitp_shrink_report report;
        char log[4096] = "";
        run r;
        begin(&r, &models[m], &all);
        r.trainer->host.log.user = log;
        r.trainer->host.log.write = take_log;
        step_many(&r, 1);
        REQUIRE_OK(eitp_trainer_shrink(r.trainer, &report, &error), error);
        shrunk += report.shrunk && report.after.micro_batches_per_pass != report.before.micro_batches_per_pass;
        if (report.shrunk && report.after.micro_batches_per_pass != report.before.micro_batches_per_pass)
            CHECK_THAT(strstr(log, models[m].exact ? "and bit-identical results" : "but the last bits differ") != NULL,
                       "%s: %s", models[m].name, log);
        end(&r);
    }
    CHECK_THAT(shrunk > 10, "%d models shrunk", shrunk);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(micro_batches_per_pass_change_no_bit), TEST(samples_are_divided_where_sums_can_be),
        TEST(resume_is_refused_if_bits_would_differ), TEST(shrinking_reports_whether_bits_change)};
    return RUN_TESTS(tests, argc, argv);
}
