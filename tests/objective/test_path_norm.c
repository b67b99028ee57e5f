/* Path norms: golden values, identities and gradients of layered networks, and models compared with a separate sum. */
#include "tests/support/graphs.h"

#include <math.h>

static eitp_error error_;

/* ---- Layered networks ---- */

enum { LAYERS = 3, MOST = 40 };

/* A network whose layer l is [extents[l], extents[l + 1]], with the gradient of ln phi with respect to each layer. */
typedef struct network {
    build b;
    eitp_plan *plan;
    int layers;
    eitp_tensor *weights[LAYERS], *value, *gradients[LAYERS];
} network;

static int network_begin(network *n, eitp_context *context, int layers, const int64_t *extents, int power) {
    memset(n, 0, sizeof *n);
    build_begin(&n->b, context, EITP_F64, 1);
    n->layers = layers;
    for (int i = 0; i < layers; i++)
        n->weights[i] = real2(&n->b, extents[i], extents[i + 1]);
    n->value = eitp_output(eitp__path_norm_layers(n->weights, layers, power));
    CHECK(!eitp_gradients(n->value, NULL, layers, n->weights, n->gradients, &error_));
    for (int i = 0; i < layers; i++)
        eitp_output(n->gradients[i]);
    CHECK_THAT(!eitp_plan_create(n->b.graph, &n->plan, &error_), "%s", error_.message);
    return n->plan != NULL;
}

static void network_end(network *n) {
    eitp_plan_destroy(n->plan);
    build_end(&n->b);
}

static double network_value(network *n) {
    double value;
    run_leaves(&n->b, n->plan);
    read_values(n->plan, n->value, &value);
    return value;
}

static void set_weights(network *n, int layer, const double *values) {
    memcpy(n->b.values[layer]->data, values, (size_t)n->b.values[layer]->count * sizeof *values);
}

static const int64_t small[] = {2, 2, 1};

/* W1 = [[1, -2], [3, 4]] and W2 = [[1, -1]], here as [in, out]. */
static const double w1[] = {1, 3, -2, 4}, w2[] = {1, -1};

static void golden_values(void) {
    static const double d1[] = {1, 1, -1, 1}, d2[] = {3, -7};
    eitp_context *context = open_context("ref", 1);
    network n;
    double gradient[4];
    if (network_begin(&n, context, 2, small, 1)) {
        set_weights(&n, 0, w1);
        set_weights(&n, 1, w2);
        CHECK(fabs(network_value(&n) - log(10)) < 1e-14);
        read_values(n.plan, n.gradients[0], gradient);
        for (int i = 0; i < 4; i++)
            CHECK(fabs(10 * gradient[i] - d1[i]) < 1e-13);
        read_values(n.plan, n.gradients[1], gradient);
        for (int i = 0; i < 2; i++)
            CHECK(fabs(10 * gradient[i] - d2[i]) < 1e-13);
    }
    network_end(&n);
    if (network_begin(&n, context, 2, small, 2)) {
        set_weights(&n, 0, w1);
        set_weights(&n, 1, w2);
        CHECK(fabs(network_value(&n) - log(30) / 2) < 1e-14);
    }
    network_end(&n);
    eitp_context_destroy(context);
}

/* Multiplying the incoming weights of a unit and dividing its outgoing weights does not change a ReLU network. */
static void rescaling_changes_nothing(void) {
    eitp_context *context = open_context("ref", 1);
    network n;
    for (int power = 1; power < 3; power++) {
        if (network_begin(&n, context, 2, small, power)) {
            double sum = 0;
            set_weights(&n, 0, w1);
            set_weights(&n, 1, w2);
            n.b.values[0]->data[0] *= 5;
            n.b.values[0]->data[2] *= 5;
            n.b.values[1]->data[0] /= 5;
            for (int i = 0; i < 2; i++)
                for (int64_t j = 0; j < n.b.values[i]->count; j++)
                    sum += fabs(n.b.values[i]->data[j]);
            CHECK(fabs(sum - 23.2) < 1e-12); /* previously 12 */
            CHECK(fabs(network_value(&n) - log(power == 1 ? 10 : 30) / power) < 1e-14);
        }
        network_end(&n);
    }
    eitp_context_destroy(context);
}

/* Each path contains one weight of a layer, so the sum over a layer of w times the gradient is 1. */
static void each_layer_has_the_same_part(void) {
    static const int64_t extents[] = {3, 5, 1, 4};
    eitp_context *context = open_context("ref", 1);
    network n;
    for (int power = 1; power < 3; power++) {
        if (network_begin(&n, context, 3, extents, power)) {
            network_value(&n);
            for (int i = 0; i < 3; i++) {
                double gradient[MOST], sum = 0;
                read_values(n.plan, n.gradients[i], gradient);
                for (int64_t j = 0; j < n.b.values[i]->count; j++)
                    sum += n.b.values[i]->data[j] * gradient[j];
                CHECK_THAT(fabs(sum - 1) < 1e-12, "layer %d, power %d: %.15g", i, power, sum);
            }
        }
        network_end(&n);
    }
    eitp_context_destroy(context);
}

static void gradients_against_differences(void) {
    static const int64_t extents[][LAYERS + 1] = {{1, 1, 1, 1}, {2, 5, 1, 3}, {5, 3, 8, 2}};
    const double step = 1e-5;
    eitp_context *context = open_context("ref", 1);
    for (int k = 0; k < 6; k++) {
        network n;
        if (network_begin(&n, context, LAYERS, extents[k / 2], 1 + k % 2))
            for (int i = 0; i < LAYERS; i++) {
                array *w = n.b.values[i];
                double gradient[MOST];
                network_value(&n);
                read_values(n.plan, n.gradients[i], gradient);
                for (int64_t j = 0; j < w->count; j++) {
                    const double before = w->data[j];
                    double after;
                    w->data[j] = before + step;
                    after = network_value(&n);
                    w->data[j] = before - step;
                    CHECK(fabs((after - network_value(&n)) / (2 * step) - gradient[j]) <
                          1e-7 * (1 + fabs(gradient[j])));
                    w->data[j] = before;
                }
            }
        network_end(&n);
    }
    eitp_context_destroy(context);
}

/* No path remains, or the product of the layers is far beyond F32. */
static void extreme_weights_are_finite(void) {
    static const double scales[] = {0, 1e-20, 1e20};
    eitp_context *context = open_context("ref", 1);
    for (int k = 0; k < 3; k++) {
        const int64_t extents[] = {4, 4, 4, 4};
        eitp_tensor *weights[LAYERS], *gradients[LAYERS], *value;
        eitp_plan *plan = NULL;
        build b;
        double numbers[16];
        build_begin(&b, context, EITP_F32, 1);
        b.low = scales[k] / 2;
        b.high = scales[k];
        for (int i = 0; i < LAYERS; i++)
            weights[i] = real2(&b, extents[i], extents[i + 1]);
        value = eitp_output(eitp__path_norm_layers(weights, LAYERS, 1));
        CHECK(!eitp_gradients(value, NULL, LAYERS, weights, gradients, &error_));
        for (int i = 0; i < LAYERS; i++)
            eitp_output(gradients[i]);
        CHECK(!eitp_plan_create(b.graph, &plan, &error_));
        run_leaves(&b, plan);
        read_values(plan, value, numbers);
        CHECK_THAT(isfinite(numbers[0]), "%g", numbers[0]);
        for (int i = 0; i < LAYERS; i++) {
            read_values(plan, gradients[i], numbers);
            for (int j = 0; j < 16; j++)
                CHECK(isfinite(numbers[j]));
        }
        eitp_plan_destroy(plan);
        build_end(&b);
    }
    eitp_context_destroy(context);
}

/* ---- Models ---- */

enum { WIDTH = 12, INNER = 20, WORDS = 17, BLOCKS = 2, LABELS = 3 };

/* The names of the variables along a model's paths. */
typedef struct route {
    const char *architecture;
    eitp_head head;
    int own_head, pooler;
    const char *begin;    /* gain of the embedding's norm, or "" */
    const char *block;    /* prefix of a block, with its number */
    const char *steps[6]; /* in a block: norm, q k and v, output; norm, MLP in and out; without ".weight" */
    const char *end[4];   /* after the blocks: "name" of a matrix, "*name" of a gain, "^name" of a table; then NULL */
} route;

#define GPT2_STEPS                                                                                                     \
    "", "transformer.h.%d.", {                                                                                         \
        "ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj"                                         \
    }
#define BERT_STEPS                                                                                                     \
    "bert.embeddings.LayerNorm", "bert.encoder.layer.%d.", {                                                           \
        "attention.output.LayerNorm", "attention.self.qkv", "attention.output.dense", "output.LayerNorm",              \
            "intermediate.dense", "output.dense"                                                                       \
    }
#define ROBERTA_STEPS                                                                                                  \
    "roberta.embeddings.LayerNorm", "roberta.encoder.layer.%d.", {                                                     \
        "attention.output.LayerNorm", "attention.self.qkv", "attention.output.dense", "output.LayerNorm",              \
            "intermediate.dense", "output.dense"                                                                       \
    }
#define DISTILBERT_STEPS                                                                                               \
    "distilbert.embeddings.LayerNorm", "distilbert.transformer.layer.%d.", {                                           \
        "sa_layer_norm", "attention.qkv_lin", "attention.out_lin", "output_layer_norm", "ffn.lin1", "ffn.lin2"         \
    }

static const route routes[] = {
    {"gpt2", EITP_HEAD_LANGUAGE, 0, 0, GPT2_STEPS, {"*transformer.ln_f", "^transformer.wte"}},
    {"gpt2", EITP_HEAD_LANGUAGE, 1, 0, GPT2_STEPS, {"*transformer.ln_f", "^lm_head"}},
    {"gpt2", EITP_HEAD_CLASSIFIER, 0, 0, GPT2_STEPS, {"*transformer.ln_f", "score"}},
    {"gpt2", EITP_HEAD_NONE, 0, 0, GPT2_STEPS, {"*transformer.ln_f"}},
    {"bert", EITP_HEAD_NONE, 0, 0, BERT_STEPS, {NULL}},
    {"bert", EITP_HEAD_NONE, 0, 1, BERT_STEPS, {"bert.pooler.dense"}},
    {"bert", EITP_HEAD_CLASSIFIER, 0, 0, BERT_STEPS, {"bert.pooler.dense", "classifier"}},
    {"bert", EITP_HEAD_TOKEN_CLASSIFIER, 0, 0, BERT_STEPS, {"classifier"}},
    {"bert",
     EITP_HEAD_LANGUAGE,
     0,
     0,
     BERT_STEPS,
     {"cls.predictions.transform.dense", "*cls.predictions.transform.LayerNorm", "^bert.embeddings.word_embeddings"}},
    {"roberta", EITP_HEAD_CLASSIFIER, 0, 0, ROBERTA_STEPS, {"classifier.dense", "classifier.out_proj"}},
    {"distilbert",
     EITP_HEAD_LANGUAGE,
     1,
     0,
     DISTILBERT_STEPS,
     {"vocab_transform", "*vocab_layer_norm", "^vocab_projector"}},
};

enum { ROUTES = sizeof routes / sizeof routes[0] };

typedef struct subject {
    eitp_context *context;
    eitp_model *model;
    eitp_lora_config lora; /* rank 0: no adapters */
} subject;

/* Creates a model whose parameters are all random, with both signs. */
static int subject_begin(subject *s, const route *r, const char *precision, int64_t lora_rank) {
    eitp_transformer_config config;
    eitp_status status;
    memset(s, 0, sizeof *s);
    s->context = open_context_in(precision, "ref", 2);
    eitp_transformer_config_named("tiny", &config, NULL);
    config = eitp__architecture_defaults(eitp_architecture_find(r->architecture));
    config.vocabulary = WORDS;
    config.positions = 16;
    config.width = WIDTH;
    config.heads = 2;
    config.layers = BLOCKS;
    config.inner = INNER;
    config.head = r->head;
    config.tied = !r->own_head;
    config.pooler = r->pooler;
    config.labels = LABELS;
    config.classifier_dropout = 0;
    status = eitp_model_create(s->context, &config, &s->model, &error_);
    if (!status && lora_rank) {
        s->lora = eitp_lora_config_default();
        s->lora.rank = lora_rank;
        s->lora.alpha = 5;
        status = eitp_lora_targets_parse(eitp_architecture_find(r->architecture), "all-linear", &s->lora, &error_);
        if (!status)
            status = eitp_model_add_lora(s->model, &s->lora, &error_);
    }
    for (size_t i = 0; i < eitp_variable_count(s->context) && !status; i++) {
        const eitp_variable variable = eitp_variable_at(s->context, i);
        if (variable.role == EITP_PARAMETER)
            status = eitp_variable_fill_uniform(s->context, variable.name, -0.5, 0.6, 11, &error_);
    }
    CHECK_THAT(!status, "%s, head %d: %s", r->architecture, (int)r->head, error_.message);
    return !status;
}

static void subject_end(subject *s) {
    eitp_model_destroy(s->model);
    eitp_context_destroy(s->context);
}

/* Returns the value of a path norm of the model, computed in a separate graph. */
static double path_norm(const subject *s, eitp_path_norm_form form) {
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_tensor *value;
    float number = NAN;
    CHECK(!eitp_graph_create(s->context, &graph, &error_));
    value = eitp_output(eitp__path_norm(s->model, graph, form));
    CHECK(eitp_tensor_rank(value) == 1 && eitp_tensor_elements(value) == 1 && eitp_tensor_dtype(value) == EITP_F32);
    CHECK_THAT(!eitp_plan_create(graph, &plan, &error_), "%s", error_.message);
    if (plan)
        CHECK(!eitp_plan_execute(plan, &error_) && !eitp_plan_read(plan, value, &number, sizeof number, &error_));
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    return (double)number;
}

/* Adds alpha / rank (B A)^T to columns [first, first + out) of w [in, columns], if the layer has an adapter. */
static void add_adapter(const subject *s, const char *layer, double *w, int64_t in, int64_t out, int64_t columns,
                        int64_t first) {
    char name[200];
    float a[8 * 32], b[32 * 3 * 8];
    const int64_t rank = s->lora.rank;
    snprintf(name, sizeof name, "%s.lora_A.weight", layer);
    if (eitp_variable_find(s->context, name) < 0)
        return;
    CHECK(!eitp_variable_read_f32(s->context, name, 0, a, rank * in, &error_));
    snprintf(name, sizeof name, "%s.lora_B.weight", layer);
    CHECK(!eitp_variable_read_f32(s->context, name, 0, b, out * rank, &error_));
    for (int64_t i = 0; i < in; i++)
        for (int64_t j = 0; j < out; j++)
            for (int64_t k = 0; k < rank; k++)
                w[i * columns + first + j] +=
                    s->lora.alpha / (double)rank * (double)a[k * in + i] * (double)b[j * rank + k];
}

/* Reads "<name>.weight" and adds the adapters. */
static void read_weight(const subject *s, const char *name, double *w, int64_t *rows, int64_t *columns) {
    char full[200];
    float values[WIDTH * 3 * INNER];
    eitp_variable variable;
    if (eitp_model_config(s->model).head == EITP_HEAD_NONE)
        name = strchr(name, '.') + 1; /* names have no prefix in models without a head */
    snprintf(full, sizeof full, "%s.weight", name);
    CHECK_THAT(eitp_variable_find(s->context, full) >= 0, "%s", full);
    variable = eitp_variable_at(s->context, (size_t)eitp_variable_find(s->context, full));
    *rows = variable.rank == 2 ? variable.shape[0] : 1;
    *columns = variable.shape[variable.rank - 1];
    CHECK(!eitp_variable_read_f32(s->context, full, 0, values, *rows * *columns, &error_));
    for (int64_t i = 0; i < *rows * *columns; i++)
        w[i] = (double)values[i];
    if (strstr(name, "qkv") && strstr(name, "self")) {
        snprintf(full, sizeof full, "%.*svalue", (int)(strstr(name, "qkv") - name), name);
        add_adapter(s, full, w, *rows, WIDTH, *columns, 2 * WIDTH);
    } else if (strstr(name, "qkv")) {
        snprintf(full, sizeof full, "%.*sv_lin", (int)(strstr(name, "qkv") - name), name);
        add_adapter(s, full, w, *rows, WIDTH, *columns, 2 * WIDTH);
    } else {
        add_adapter(s, name, w, *rows, *columns, *columns, 0);
    }
}

/* Replaces a by a |W|^q, a |W|^q transposed ('^'), a times |gain|^q ('*'), or the first with only the last third of
   W's columns ('v'). */
static int64_t pass(const subject *s, double *a, const char *name, char kind, int power) {
    double w[WIDTH * 3 * INNER], sums[3 * INNER + WORDS] = {0};
    int64_t rows, columns, outputs;
    read_weight(s, name, w, &rows, &columns);
    outputs = kind == '^' ? rows : kind == 'v' ? WIDTH : columns;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = kind == 'v' ? columns - WIDTH : 0; j < columns; j++) {
            const double size = pow(fabs(w[i * columns + j]), power);
            sums[kind == '^'   ? i
                 : kind == 'v' ? j - (columns - WIDTH)
                               : j] += size * a[kind == '^' || kind == '*' ? j : i];
        }
    memcpy(a, sums, (size_t)outputs * sizeof *a);
    return outputs;
}

static void pass_block(const subject *s, const route *r, int block, double *a, int power) {
    const int post_norm = strcmp(r->architecture, "gpt2") != 0;
    for (int half = 0; half < 2; half++) {
        char names[3][200];
        double around[3 * INNER];
        for (int i = 0; i < 3; i++) {
            const int length = snprintf(names[i], sizeof names[i], r->block, block);
            snprintf(names[i] + length, sizeof names[i] - (size_t)length, "%s", r->steps[3 * half + i]);
        }
        memcpy(around, a, WIDTH * sizeof *a);
        if (!post_norm)
            pass(s, a, names[0], '*', power);
        pass(s, a, names[1], half ? 'm' : 'v', power);
        pass(s, a, names[2], 'm', power);
        for (int i = 0; i < WIDTH; i++)
            a[i] += around[i];
        if (post_norm)
            pass(s, a, names[0], '*', power);
    }
}

static double naive_path_norm(const subject *s, const route *r, int power) {
    double a[3 * INNER], sum = 0;
    int64_t outputs = WIDTH;
    for (int i = 0; i < WIDTH; i++)
        a[i] = 1;
    if (*r->begin)
        pass(s, a, r->begin, '*', power);
    for (int block = 0; block < BLOCKS; block++)
        pass_block(s, r, block, a, power);
    for (int i = 0; i < 4 && r->end[i]; i++) {
        const char kind = *r->end[i] == '*' || *r->end[i] == '^' ? *r->end[i] : 'm';
        outputs = pass(s, a, r->end[i] + (kind != 'm'), kind, power);
    }
    for (int64_t i = 0; i < outputs; i++)
        sum += a[i];
    return log(sum / (double)outputs) / power / BLOCKS;
}

static void models_against_sums_by_hand(void) {
    for (int i = 0; i < ROUTES; i++)
        for (int64_t rank = 0; rank < 6; rank += 3) {
            subject s;
            if (subject_begin(&s, &routes[i], "fp32", rank))
                for (int power = 1; power < 3; power++) {
                    const double wanted = naive_path_norm(&s, &routes[i], power);
                    const double value = path_norm(&s, power == 1 ? EITP_PATH_NORM_1 : EITP_PATH_NORM_2);
                    CHECK_THAT(fabs(value - wanted) < 1e-5 * (1 + fabs(wanted)),
                               "%s, head %d, rank %d, power %d: %.9g, expected %.9g", routes[i].architecture,
                               (int)routes[i].head, (int)rank, power, value, wanted);
                }
            subject_end(&s);
        }
}

/* The means of |w| and w^2 over the elements of all matrices. */
static void means_of_elements(void) {
    for (int i = 0; i < ROUTES; i++) {
        subject s;
        double sums[2] = {0}, elements = 0;
        if (subject_begin(&s, &routes[i], "fp32", 0)) {
            for (size_t v = 0; v < eitp_variable_count(s.context); v++) {
                const eitp_variable variable = eitp_variable_at(s.context, v);
                float values[WIDTH * 3 * INNER];
                const int64_t count = variable.rank == 2 ? variable.shape[0] * variable.shape[1] : 0;
                CHECK(!eitp_variable_read_f32(s.context, variable.name, 0, values, count, &error_));
                for (int64_t j = 0; j < count; j++) {
                    sums[0] += fabs((double)values[j]);
                    sums[1] += (double)values[j] * (double)values[j];
                }
                elements += (double)count;
            }
            CHECK(fabs(path_norm(&s, EITP_PATH_NORM_L1) - sums[0] / elements) < 1e-6);
            CHECK(fabs(path_norm(&s, EITP_PATH_NORM_L2) - sums[1] / elements) < 1e-6);
        }
        subject_end(&s);
    }
}

/* Returns the sum of w times the gradient of ln phi over a matrix, which is the fraction of paths through it. */
static double part_of(const subject *s, const char *name, float *gradient) {
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_tensor *value, *weight, *by_weight = NULL;
    const eitp_variable variable = eitp_variable_at(s->context, (size_t)eitp_variable_find(s->context, name));
    const int64_t count = variable.shape[0] * (variable.rank == 2 ? variable.shape[1] : 1);
    float values[WIDTH * 3 * INNER];
    double sum = 0;
    CHECK(!eitp_graph_create(s->context, &graph, &error_));
    weight = eitp_variable_tensor(graph, name, EITP_PARAMETER, variable.dtype, variable.rank, variable.shape);
    value = eitp__path_norm(s->model, graph, EITP_PATH_NORM_1);
    CHECK(!eitp_gradients(value, NULL, 1, &weight, &by_weight, &error_));
    eitp_output(by_weight);
    CHECK_THAT(!eitp_plan_create(graph, &plan, &error_), "%s", error_.message);
    CHECK(plan && !eitp_plan_execute(plan, &error_) &&
          !eitp_plan_read(plan, by_weight, gradient, (size_t)count * sizeof *gradient, &error_) &&
          !eitp_variable_read_f32(s->context, name, 0, values, count, &error_));
    for (int64_t i = 0; i < count; i++)
        sum += (double)values[i] * (double)gradient[i] * BLOCKS;
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    return sum;
}

/* All paths pass through the last norm and the head. Some pass through a block's matrices, but none through its
   queries and keys. In 16 bits, reads include a remainder that the norm ignores. */
static void check_parts(const char *precision, double tolerance) {
    static const char *const in_block[] = {"transformer.h.1.attn.c_attn.weight", "transformer.h.0.attn.c_proj.weight",
                                           "transformer.h.1.mlp.c_fc.weight", "transformer.h.0.mlp.c_proj.weight",
                                           "transformer.h.0.ln_1.weight"};
    subject s;
    float gradient[WIDTH * 3 * INNER];
    if (subject_begin(&s, &routes[0], precision, 0)) {
        CHECK(fabs(part_of(&s, "transformer.wte.weight", gradient) - 1) < tolerance);
        CHECK(fabs(part_of(&s, "transformer.ln_f.weight", gradient) - 1) < tolerance);
        for (size_t i = 0; i < EITP__COUNT(in_block); i++) {
            const double part = part_of(&s, in_block[i], gradient);
            CHECK_THAT(part > 0.01 && part < 0.99, "%s, %s: %g", precision, in_block[i], part);
        }
        part_of(&s, in_block[0], gradient);
        for (int i = 0; i < WIDTH; i++)
            for (int j = 0; j < 3 * WIDTH; j++)
                CHECK((gradient[i * 3 * WIDTH + j] == 0) == (j < 2 * WIDTH));
    }
    subject_end(&s);
}

static void parts_of_a_model(void) {
    check_parts("fp32", 1e-5);
    check_parts("bf16", 5e-3);
}

/* Adapters have gradients with respect to A and B. Frozen weights are included. */
static void adapters_have_gradients(void) {
    static const char *const names[] = {"transformer.h.0.attn.c_attn.lora_A.weight",
                                        "transformer.h.1.mlp.c_proj.lora_B.weight"};
    subject s;
    float gradient[WIDTH * 3 * INNER];
    if (subject_begin(&s, &routes[0], "fp32", 3))
        for (size_t k = 0; k < EITP__COUNT(names); k++) {
            const float step = 1e-3f;
            float weight, moved;
            double after;
            part_of(&s, names[k], gradient);
            CHECK(!eitp_variable_read_f32(s.context, names[k], 4, &weight, 1, &error_));
            moved = weight + step;
            CHECK(!eitp_variable_write_f32(s.context, names[k], 4, &moved, 1, &error_));
            after = path_norm(&s, EITP_PATH_NORM_1);
            moved = weight - step;
            CHECK(!eitp_variable_write_f32(s.context, names[k], 4, &moved, 1, &error_));
            after -= path_norm(&s, EITP_PATH_NORM_1);
            CHECK_THAT(fabs(after / (2 * (double)step) - (double)gradient[4]) < 2e-4, "%s: %g, differences give %g",
                       names[k], (double)gradient[4], after / (2 * (double)step));
        }
    subject_end(&s);
}

/* 16-bit weights are used as stored. */
static void narrow_weights(void) {
    static const char *const precisions[] = {"bf16", "fp16"};
    for (int k = 0; k < 4; k++) {
        const int64_t rank = k < 2 ? 0 : 3;
        subject s, exact;
        if (subject_begin(&s, &routes[0], precisions[k % 2], rank) && subject_begin(&exact, &routes[0], "fp32", rank)) {
            for (int form = 0; form < 4; form++) {
                const double wanted = path_norm(&exact, (eitp_path_norm_form)form);
                CHECK(fabs(path_norm(&s, (eitp_path_norm_form)form) - wanted) < 2e-3 * (1 + fabs(wanted)));
            }
            subject_end(&exact);
        }
        subject_end(&s);
    }
}

int main(int argc, char **argv) {
    const test_case tests[] = {
        TEST(golden_values),
        TEST(rescaling_changes_nothing),
        TEST(each_layer_has_the_same_part),
        TEST(gradients_against_differences),
        TEST(extreme_weights_are_finite),
        TEST(models_against_sums_by_hand),
        TEST(means_of_elements),
        TEST(parts_of_a_model),
        TEST(adapters_have_gradients),
        TEST(narrow_weights),
    };
    return RUN_TESTS(tests, argc, argv);
}
