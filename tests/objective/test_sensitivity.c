/* Exponents and norms of Jacobians: known values, explicit matrices, gradients, models, and edge cases. */
#include "tests/support/faults.h"
#include "tests/support/graphs.h"

static eitp_error error_;

enum { WIDTH = 4, ROWS = 3, SEQUENCES = 2, ELEMENTS = ROWS * WIDTH, STATES = SEQUENCES * ELEMENTS, PARTS = 2 };

/* ---- Functions of states built from ops, in F64 ---- */

typedef enum net_kind {
    NET_LINEAR,       /* each row times a matrix */
    NET_RESIDUAL,     /* x + 0 */
    NET_CAUSAL,       /* blocks as in GPT-2 */
    NET_BIDIRECTIONAL /* blocks as in BERT */
} net_kind;

typedef struct net {
    net_kind kind;
    eitp_tensor *matrix; /* only for NET_LINEAR */
    eitp_tensor *gain[PARTS][2], *bias[PARTS][2], *qkv[PARTS], *out[PARTS], *up[PARTS], *down[PARTS];
} net;

static eitp_tensor *net_attention(const net *n, eitp_tensor *qkv, int64_t sequences, int64_t rows,
                                  eitp_tensor *lengths) {
    eitp_attention_config config = eitp_attention_config_default();
    eitp_attention_inputs inputs = eitp_attention_inputs_default();
    config.heads = 2;
    config.max_length = rows;
    config.scale = 0.7;
    config.bidirectional = n->kind == NET_BIDIRECTIONAL;
    inputs.q = qkv;
    inputs.lengths = lengths;
    inputs.offsets =
        eitp_cast(eitp_affine(eitp_arange(eitp_tensor_graph(qkv), EITP_F64, sequences + 1), (double)rows, 0), EITP_I32);
    return eitp_attention(&inputs, &config);
}

static eitp_tensor *net_block(const net *n, eitp_tensor *x, int part, int64_t sequences, int64_t rows,
                              eitp_tensor *lengths) {
    const int post = n->kind == NET_BIDIRECTIONAL;
    eitp_tensor *y = post ? x : eitp_layer_norm(x, n->gain[part][0], n->bias[part][0], 1e-5);
    y = net_attention(n, eitp_matmul(y, n->qkv[part]), sequences, rows, lengths);
    x = eitp_add(x, eitp_matmul(y, n->out[part]));
    x = post ? eitp_layer_norm(x, n->gain[part][0], n->bias[part][0], 1e-5) : x;
    y = post ? x : eitp_layer_norm(x, n->gain[part][1], n->bias[part][1], 1e-5);
    y = eitp_linear(y, n->up[part], NULL, post ? EITP_GELU_ERF : EITP_GELU_TANH);
    x = eitp_add(x, eitp_matmul(y, n->down[part]));
    return post ? eitp_layer_norm(x, n->gain[part][1], n->bias[part][1], 1e-5) : x;
}

static eitp_tensor *net_apply(const void *user, eitp_tensor *x, eitp_tensor *lengths, int64_t first, int64_t count) {
    const net *n = (const net *)user;
    int64_t shape[3], flat[2];
    for (int d = 0; d < 3; d++)
        shape[d] = eitp_tensor_dimension(x, d);
    flat[0] = shape[0] * shape[1];
    flat[1] = shape[2];
    x = eitp_reshape(x, 2, flat);
    for (int64_t part = first; part < first + count; part++) {
        if (n->kind == NET_LINEAR)
            x = eitp_matmul(x, n->matrix);
        else if (n->kind == NET_RESIDUAL)
            x = eitp_add(x, eitp_affine(x, 0, 0));
        else
            x = net_block(n, x, (int)part, shape[0], shape[1], lengths);
    }
    return eitp_reshape(x, 3, shape);
}

static void net_make(net *n, build *b, net_kind kind) {
    memset(n, 0, sizeof *n);
    n->kind = kind;
    b->low = -0.8;
    b->high = 0.8;
    if (kind == NET_LINEAR)
        n->matrix = real2(b, WIDTH, WIDTH);
    if (kind < NET_CAUSAL)
        return;
    for (int part = 0; part < PARTS; part++) {
        for (int norm = 0; norm < 2; norm++) {
            n->gain[part][norm] = real1(b, WIDTH);
            n->bias[part][norm] = real1(b, WIDTH);
            for (int i = 0; i < WIDTH; i++)
                b->values[b->leaf_count - 2]->data[i] += 1;
        }
        n->qkv[part] = real2(b, WIDTH, 3 * WIDTH);
        n->out[part] = real2(b, WIDTH, WIDTH);
        n->up[part] = real2(b, WIDTH, 6);
        n->down[part] = real2(b, 6, WIDTH);
    }
}

/* A net with its states and a direction. The sequences have 3 and 2 rows. */
typedef struct scene {
    eitp_context *context;
    build b;
    net n;
    eitp_plan *plan;
    eitp_tensor *direction; /* signs at first */
    eitp_tensor *start;     /* start of power iteration */
    int direction_leaf, start_leaf;
    eitp__jacobian_config config;
} scene;

static void scene_begin(scene *s, net_kind kind, eitp_chaos_positions positions) {
    static const double lengths[SEQUENCES] = {3, 2};
    memset(s, 0, sizeof *s);
    s->context = open_context("ref", 1);
    build_begin(&s->b, s->context, EITP_F64, 1);
    s->b.low = -1;
    s->b.high = 1;
    s->config.states = real3(&s->b, SEQUENCES, ROWS, WIDTH);
    s->config.lengths = given(&s->b, EITP_I32, SEQUENCES, lengths);
    s->direction_leaf = s->b.leaf_count;
    s->direction = real3(&s->b, SEQUENCES, ROWS, WIDTH);
    for (int i = 0; i < STATES; i++)
        s->b.values[s->direction_leaf]->data[i] = s->b.values[s->direction_leaf]->data[i] < 0 ? -1 : 1;
    s->start_leaf = s->b.leaf_count;
    s->start = real3(&s->b, SEQUENCES, ROWS, WIDTH);
    net_make(&s->n, &s->b, kind);
    s->config.function.apply = net_apply;
    s->config.function.user = &s->n;
    s->config.function.parts = kind < NET_CAUSAL ? 1 : PARTS;
    s->config.positions = positions;
}

static void scene_run(scene *s) {
    if (!s->plan)
        CHECK_THAT(eitp_plan_create(s->b.graph, &s->plan, &error_) == EITP_OK, "%s", error_.message);
    if (s->plan)
        run_leaves(&s->b, s->plan);
}

static void scene_read(const scene *s, eitp_tensor *tensor, double *values) {
    if (s->plan)
        read_values(s->plan, tensor, values);
}

static void scene_end(scene *s) {
    eitp_plan_destroy(s->plan);
    build_end(&s->b);
    eitp_context_destroy(s->context);
}

/* ---- Known values ---- */

/* Checks a function whose J is constant, for sequences of 3 and 2 rows. */
static void check_known(net_kind kind, const double *matrix, eitp_chaos_positions positions, double square,
                        double exponent, double largest, double growth) {
    for (int method = 0; method < 2; method++) {
        scene s;
        eitp__sensitivity result;
        eitp__largest_exponent most;
        double values[4][SEQUENCES];
        scene_begin(&s, kind, positions);
        if (matrix)
            memcpy(s.b.values[s.b.leaf_count - 1]->data, matrix, WIDTH * WIDTH * sizeof *matrix);
        s.config.method = method ? EITP__JACOBIAN_EXACT : EITP__JACOBIAN_DIFFERENCE;
        result = eitp__jacobian_sensitivity(&s.config, s.direction);
        most = eitp__jacobian_largest(&s.config, s.direction, 40);
        eitp_output(result.squares);
        eitp_output(result.exponent);
        eitp_output(result.relative);
        eitp_output(most.exponent);
        scene_run(&s);
        scene_read(&s, result.squares, values[0]);
        scene_read(&s, result.exponent, values[1]);
        scene_read(&s, result.relative, values[2]);
        scene_read(&s, most.exponent, values[3]);
        for (int i = 0; i < SEQUENCES; i++) {
            const double rows = positions == EITP_CHAOS_LAST ? 1 : 3 - i;
            CHECK_THAT(fabs(values[0][i] - rows * square) < 1e-12 * rows * square, "%.15g", values[0][i]);
            CHECK_THAT(fabs(values[1][i] - exponent) < 1e-13, "%.15g, not %.15g", values[1][i], exponent);
            CHECK_THAT(growth < 0 || fabs(values[2][i] - (exponent - growth)) < 1e-13, "%.15g", values[2][i]);
            CHECK_THAT(fabs(values[3][i] - largest) < 1e-9, "%.15g, not %.15g", values[3][i], largest);
        }
        scene_end(&s);
    }
}

static void known_values(void) {
    static const double five[16] = {5, 0, 0, 0, 0, 5, 0, 0, 0, 0, 5, 0, 0, 0, 0, 5};
    static const double diagonal[16] = {0.5, 0, 0, 0, 0, -3, 0, 0, 0, 0, 2, 0, 0, 0, 0, 1};
    static const double rotation[16] = {0.6, 0.8, 0, 0, -0.8, 0.6, 0, 0, 0, 0, 0, 1, 0, 0, -1, 0};
    const double squares = 0.25 + 9 + 4 + 1;
    for (int i = 0; i < 2; i++) {
        const eitp_chaos_positions positions = i ? EITP_CHAOS_LAST : EITP_CHAOS_ALL;
        check_known(NET_LINEAR, five, positions, 100, log(5), log(5), log(5));
        check_known(NET_LINEAR, diagonal, positions, squares, log(squares / 4) / 2, log(3), -1);
        check_known(NET_LINEAR, rotation, positions, 4, 0, 0, 0);
        check_known(NET_RESIDUAL, NULL, positions, 4, 0, 0, 0);
    }
}

/* ---- Explicit Jacobians ---- */

/* Computes J of each sequence in a separate scene. Column j is the derivative in direction j. */
static void explicit_jacobians(net_kind kind, double jacobians[SEQUENCES][ELEMENTS][ELEMENTS]) {
    scene s;
    eitp_tensor *product;
    scene_begin(&s, kind, EITP_CHAOS_ALL);
    product = eitp_output(eitp_jacobian_product(
        net_apply(&s.n, s.config.states, s.config.lengths, 0, s.config.function.parts), s.config.states, s.direction));
    for (int j = 0; j < ELEMENTS; j++) {
        double values[STATES];
        memset(values, 0, sizeof values);
        memset(s.b.values[s.direction_leaf]->data, 0, sizeof values);
        for (int i = 0; i < SEQUENCES; i++)
            s.b.values[s.direction_leaf]->data[i * ELEMENTS + j] = 1;
        scene_run(&s);
        scene_read(&s, product, values);
        /* The last row of the second sequence is not in use. */
        for (int i = 0; i < SEQUENCES; i++)
            for (int k = 0; k < ELEMENTS; k++)
                jacobians[i][k][j] = j / WIDTH < 3 - i && k / WIDTH < 3 - i ? values[i * ELEMENTS + k] : 0;
    }
    scene_end(&s);
}

/* The largest singular value of the columns from `first` on, computed with many iterations. */
static double largest_singular_value(double matrix[ELEMENTS][ELEMENTS], int first) {
    double v[ELEMENTS], u[ELEMENTS], sigma = 0;
    for (int j = 0; j < ELEMENTS; j++)
        v[j] = 1 + 0.1 * j;
    for (int round = 0; round < 5000; round++) {
        double norm = 0;
        memset(u, 0, sizeof u);
        for (int k = 0; k < ELEMENTS; k++)
            for (int j = first; j < ELEMENTS; j++)
                u[k] += matrix[k][j] * v[j];
        memset(v, 0, sizeof v);
        for (int k = 0; k < ELEMENTS; k++)
            for (int j = first; j < ELEMENTS; j++)
                v[j] += matrix[k][j] * u[k];
        for (int j = 0; j < ELEMENTS; j++)
            norm += v[j] * v[j];
        sigma = sqrt(sqrt(norm));
        for (int j = 0; j < ELEMENTS; j++)
            v[j] /= sqrt(norm);
    }
    return sigma;
}

/* ln |det| of the first `size` rows and columns, by elimination with pivots. */
static double log_determinant(double matrix[ELEMENTS][ELEMENTS], int size) {
    double a[ELEMENTS][ELEMENTS], sum = 0;
    memcpy(a, matrix, sizeof a);
    for (int i = 0; i < size; i++) {
        int pivot = i;
        for (int k = i + 1; k < size; k++)
            pivot = fabs(a[k][i]) > fabs(a[pivot][i]) ? k : pivot;
        for (int j = 0; j < size; j++) {
            const double swapped = a[i][j];
            a[i][j] = a[pivot][j];
            a[pivot][j] = swapped;
        }
        sum += log(fabs(a[i][i]));
        for (int k = i + 1; k < size; k++) {
            const double factor = a[k][i] / a[i][i];
            for (int j = i; j < size; j++)
                a[k][j] -= factor * a[i][j];
        }
    }
    return sum;
}

/* Uses the resulting vector as the next start, and executes. */
static void start_from(scene *s, eitp_tensor *vector) {
    scene_read(s, vector, s->b.values[s->start_leaf]->data);
    scene_run(s);
}

/* The estimate is |J^T v|^2 of the perturbed rows. Iterated starts approach the largest singular value. */
static void check_explicit(net_kind kind, eitp_chaos_positions positions, eitp__jacobian_method method) {
    double jacobians[SEQUENCES][ELEMENTS][ELEMENTS], values[4][SEQUENCES];
    eitp__sensitivity result;
    eitp__largest_exponent most;
    eitp_tensor *growth;
    scene s;
    explicit_jacobians(kind, jacobians);
    scene_begin(&s, kind, positions);
    s.config.method = method;
    most = eitp__jacobian_largest(&s.config, s.start, 5);
    result = eitp__jacobian_sensitivity(&s.config, s.direction);
    growth = eitp__jacobian_growth(&s.config, s.direction);
    eitp_output(result.squares);
    eitp_output(result.exponent);
    eitp_output(most.exponent);
    eitp_output(most.vector);
    eitp_output(growth);
    scene_run(&s);
    scene_read(&s, result.squares, values[0]);
    scene_read(&s, result.exponent, values[1]);
    scene_read(&s, growth, values[2]);
    for (int i = 0; i < SEQUENCES; i++) {
        const int length = 3 - i, first = positions == EITP_CHAOS_LAST ? (length - 1) * WIDTH : 0;
        const double *signs = s.b.values[s.direction_leaf]->data + i * ELEMENTS;
        double squares = 0;
        for (int j = first; j < length * WIDTH; j++) {
            double sum = 0;
            for (int k = 0; k < length * WIDTH; k++)
                sum += jacobians[i][k][j] * signs[k];
            squares += sum * sum;
        }
        CHECK_THAT(fabs(values[0][i] - squares) < 1e-12 * squares, "%.15g, not %.15g", values[0][i], squares);
        CHECK(fabs(values[1][i] - log(squares / (length * WIDTH - first)) / (2 * PARTS)) < 1e-13);
    }
    for (int n = 0; n < 60; n++) {
        double before[SEQUENCES];
        scene_read(&s, most.exponent, before);
        start_from(&s, most.vector);
        scene_read(&s, most.exponent, values[3]);
        for (int i = 0; i < SEQUENCES; i++)
            CHECK(values[3][i] >= before[i] - 1e-9);
    }
    for (int i = 0; i < SEQUENCES; i++) {
        const int first = positions == EITP_CHAOS_LAST ? (2 - i) * WIDTH : 0;
        const double largest = log(largest_singular_value(jacobians[i], first)) / PARTS;
        CHECK_THAT(fabs(values[3][i] - largest) < 1e-8, "%.12g, not %.12g", values[3][i], largest);
        CHECK_THAT(values[2][i] <= largest + 1e-9, "%g, %g", values[2][i], largest);
    }
    scene_end(&s);
}

static void estimates_of_explicit_jacobians(void) {
    for (int kind = NET_CAUSAL; kind <= NET_BIDIRECTIONAL; kind++) {
        for (int i = 0; i < 4; i += test_is_quick() ? 3 : 1)
            check_explicit((net_kind)kind, i % 2 ? EITP_CHAOS_LAST : EITP_CHAOS_ALL,
                           i / 2 ? EITP__JACOBIAN_EXACT : EITP__JACOBIAN_DIFFERENCE);
    }
}

/* All directions together give the volume of J. The first alone gives the growth. Differences agree. */
static void spectrum_has_the_determinant(void) {
    double jacobians[SEQUENCES][ELEMENTS][ELEMENTS];
    explicit_jacobians(NET_CAUSAL, jacobians);
    for (int method = 0; method < 2; method++) {
        double values[SEQUENCES][ELEMENTS], growth[SEQUENCES];
        eitp_tensor *starts[ELEMENTS], *spectrum, *single;
        scene s;
        scene_begin(&s, NET_CAUSAL, EITP_CHAOS_ALL);
        s.config.method = method ? EITP__JACOBIAN_EXACT : EITP__JACOBIAN_DIFFERENCE;
        for (int j = 0; j < ELEMENTS; j++)
            starts[j] = real3(&s.b, SEQUENCES, ROWS, WIDTH);
        spectrum = eitp_output(eitp__jacobian_spectrum(&s.config, starts, ELEMENTS));
        single = eitp_output(eitp__jacobian_growth(&s.config, starts[0]));
        scene_run(&s);
        scene_read(&s, spectrum, &values[0][0]);
        scene_read(&s, single, growth);
        for (int i = 0; i < SEQUENCES; i++) {
            const int size = (3 - i) * WIDTH;
            const double exact = log_determinant(jacobians[i], size);
            double sum = 0;
            for (int j = 0; j < size; j++)
                sum += values[i][j] * PARTS;
            CHECK_THAT(fabs(sum - exact) < (method ? 1e-10 : 1e-7), "%.12g, not %.12g", sum, exact);
            CHECK(fabs(growth[i] - values[i][0]) < 1e-13);
        }
        scene_end(&s);
    }
}

/* ---- Gradients ---- */

enum { MEASURES = 4 };

/* Sums four results over the sequences. Returns the singular vector. */
static eitp_tensor *sum_measures(scene *s, eitp_tensor **sums) {
    eitp__sensitivity result = eitp__jacobian_sensitivity(&s->config, s->direction);
    eitp__largest_exponent most = eitp__jacobian_largest(&s->config, s->start, 2);
    sums[0] = eitp_sum(eitp_log(result.squares), EITP_ALL_DIMENSIONS, 0);
    sums[1] = eitp_sum(result.exponent, EITP_ALL_DIMENSIONS, 0);
    sums[2] = eitp_sum(result.relative, EITP_ALL_DIMENSIONS, 0);
    sums[3] = eitp_sum(most.exponent, EITP_ALL_DIMENSIONS, 0);
    for (int m = 0; m < MEASURES; m++)
        eitp_output(sums[m]);
    return eitp_output(most.vector);
}

/* True if a leaf is a parameter or the states. */
static int is_differentiated(const scene *s, int leaf) {
    return s->b.leaves[leaf]->dtype == EITP_F64 && leaf != s->direction_leaf && leaf != s->start_leaf;
}

static void move_leaves(scene *s, const double *directions, double step) {
    for (int i = 0, at = 0; i < s->b.leaf_count; i++) {
        const array *x = s->b.values[i];
        for (int64_t e = 0; e < x->count && is_differentiated(s, i); e++)
            x->data[e] += step * directions[at++];
    }
}

/*
 * Moves all parameters and states along a random direction. The largest exponent's gradient, computed with fixed
 * vectors, is exact once they are singular vectors.
 */
static void check_gradients(net_kind kind, eitp_chaos_positions positions, eitp__jacobian_method method) {
    const double step = 1e-5;
    eitp_tensor *sums[MEASURES], *gradients[MEASURES][BUILD_LEAVES], *xs[BUILD_LEAVES], *vector;
    double directions[2000], slopes[MEASURES], after[MEASURES], before[MEASURES];
    int count = 0, elements = 0;
    scene s;
    scene_begin(&s, kind, positions);
    s.config.method = method;
    s.config.has_gradient = 1;
    vector = sum_measures(&s, sums);
    for (int i = 0; i < s.b.leaf_count; i++)
        if (is_differentiated(&s, i))
            xs[count++] = s.b.leaves[i];
    for (int m = 0; m < MEASURES; m++) {
        REQUIRE_OK(eitp_gradients(sums[m], NULL, count, xs, gradients[m], &error_), error_);
        for (int i = 0; i < count; i++)
            eitp_output(gradients[m][i]);
    }
    scene_run(&s);
    for (int n = 0; n < 60; n++)
        start_from(&s, vector);
    for (int draws = 0; draws < 3; draws++) {
        memset(slopes, 0, sizeof slopes);
        scene_run(&s);
        elements = 0;
        for (int i = 0; i < count; i++) {
            const int64_t size = eitp_tensor_elements(xs[i]);
            for (int64_t e = 0; e < size; e++)
                directions[elements + e] = 2 * draw(&s.b.random) - 1;
            for (int m = 0; m < MEASURES; m++) {
                double values[100];
                scene_read(&s, gradients[m][i], values);
                for (int64_t e = 0; e < size; e++)
                    slopes[m] += values[e] * directions[elements + e];
            }
            elements += (int)size;
        }
        for (int side = 0; side < 2; side++) {
            move_leaves(&s, directions, side ? -2 * step : step);
            scene_run(&s);
            for (int m = 0; m < MEASURES; m++)
                scene_read(&s, sums[m], side ? &before[m] : &after[m]);
        }
        move_leaves(&s, directions, step);
        for (int m = 0; m < MEASURES; m++) {
            const double difference = (after[m] - before[m]) / (2 * step);
            CHECK_THAT(fabs(slopes[m] - difference) <= 1e-6 * (1 + fabs(difference)),
                       "net %d, positions %d, method %d, measure %d: %.12g, differences give %.12g", (int)kind,
                       (int)positions, (int)method, m, slopes[m], difference);
        }
    }
    scene_end(&s);
}

static void gradients_against_differences(void) {
    for (int kind = NET_LINEAR; kind <= NET_BIDIRECTIONAL; kind++) {
        for (int i = 0; i < 4 && kind != NET_RESIDUAL; i += test_is_quick() ? 3 : 1)
            check_gradients((net_kind)kind, i % 2 ? EITP_CHAOS_LAST : EITP_CHAOS_ALL,
                            i / 2 ? EITP__JACOBIAN_EXACT : EITP__JACOBIAN_DIFFERENCE);
    }
}

/* ---- Models ---- */

enum { MODEL_WIDTH = 32, MODEL_ROWS = 7, MODEL_SEQUENCES = 4, MODEL_ROW = MODEL_ROWS * MODEL_WIDTH };

static const int32_t model_lengths[MODEL_SEQUENCES] = {7, 4, 1, 6};

/* A small model, with states, signs and lengths for `sequences` of the four sequences, starting at `first`. */
typedef struct model_scene {
    eitp_context *context;
    eitp_model *model;
    eitp_graph *graph;
    eitp_plan *plan;
    int64_t sequences, rows;
    eitp_tensor *states, *signs, *lengths;
    eitp__jacobian_config config;
    float values[2][MODEL_SEQUENCES * MODEL_ROW]; /* states and signs of all four sequences */
    int32_t all_lengths[MODEL_SEQUENCES];
} model_scene;

static void model_begin(model_scene *s, const char *name, const char *precision) {
    eitp_transformer_config config;
    uint32_t random = 99;
    memset(s, 0, sizeof *s);
    s->context = open_context_in(precision, NULL, 2);
    CHECK(!eitp_transformer_config_named(name, &config, &error_));
    config.vocabulary = 11;
    config.positions = 16;
    config.width = MODEL_WIDTH;
    config.heads = 4;
    config.layers = 2;
    config.inner = 2 * MODEL_WIDTH;
    config.initializer_range = 0.2;
    config.epsilon = 1e-5;
    CHECK_THAT(!eitp_model_create(s->context, &config, &s->model, &error_), "%s", error_.message);
    CHECK(!eitp_model_initialize(s->model, 5, &error_));
    for (int i = 0; i < MODEL_SEQUENCES * MODEL_ROW; i++) {
        s->values[0][i] = (float)(2 * draw(&random) - 1);
        s->values[1][i] = draw(&random) < 0.5 ? -1.0f : 1.0f;
    }
    memcpy(s->all_lengths, model_lengths, sizeof model_lengths);
    s->rows = MODEL_ROWS;
}

/* Creates a graph without results. */
static void model_graph(model_scene *s, int64_t sequences) {
    int64_t shape[3] = {0, 0, MODEL_WIDTH};
    shape[0] = s->sequences = sequences;
    shape[1] = s->rows;
    CHECK(!eitp_graph_create(s->context, &s->graph, &error_));
    s->states = eitp_input(s->graph, "states", EITP_F32, 3, shape);
    s->signs = eitp_input(s->graph, "signs", EITP_F32, 3, shape);
    s->lengths = eitp_input(s->graph, "lengths", EITP_I32, 1, shape);
    s->config.function = eitp__model_function(s->model);
    s->config.states = eitp_cast(s->states, eitp_context_precision(s->context));
    s->config.lengths = s->lengths;
}

static void model_run(model_scene *s, int first) {
    const size_t size = (size_t)(s->sequences * s->rows) * MODEL_WIDTH * sizeof(float);
    const int64_t at = first * s->rows * MODEL_WIDTH;
    if (!s->plan)
        REQUIRE_OK(eitp_plan_create(s->graph, &s->plan, &error_), error_);
    CHECK(!eitp_plan_write(s->plan, s->states, s->values[0] + at, size, &error_) &&
          !eitp_plan_write(s->plan, s->signs, s->values[1] + at, size, &error_) &&
          !eitp_plan_write(s->plan, s->lengths, s->all_lengths + first, (size_t)s->sequences * 4, &error_));
    REQUIRE_OK(eitp_plan_execute(s->plan, &error_), error_);
}

static void model_graph_end(model_scene *s) {
    eitp_plan_destroy(s->plan);
    eitp_graph_destroy(s->graph);
    s->plan = NULL;
    s->graph = NULL;
}

static void model_end(model_scene *s) {
    model_graph_end(s);
    eitp_model_destroy(s->model);
    eitp_context_destroy(s->context);
}

enum { MODEL_TENSORS = 64 };

/* Lists the trained parameters of the graph, and the states. */
static int model_leaves(const model_scene *s, eitp_tensor **xs) {
    int count = 0;
    xs[count++] = s->states;
    for (size_t i = 0; i < s->graph->tensor_count && count < MODEL_TENSORS; i++)
        if (eitp__is_trained(s->graph->tensors[i]))
            xs[count++] = s->graph->tensors[i];
    return count;
}

/* Returns the gradient of the sum of a result with respect to all parameters and the states. */
static double *model_gradient(const char *name, const char *precision, eitp__jacobian_method method, int result,
                              int64_t *total) {
    eitp_tensor *xs[MODEL_TENSORS], *gradients[MODEL_TENSORS], *y;
    eitp__sensitivity all;
    model_scene s;
    double *values;
    int count;
    model_begin(&s, name, precision);
    model_graph(&s, MODEL_SEQUENCES);
    s.config.has_gradient = 1;
    s.config.method = method;
    all = eitp__jacobian_sensitivity(&s.config, s.signs);
    y = result == 0   ? all.exponent
        : result == 1 ? all.relative
                      : eitp__jacobian_largest(&s.config, s.signs, 3).exponent;
    count = model_leaves(&s, xs);
    CHECK_THAT(!eitp_gradients(y, NULL, count, xs, gradients, &error_), "%s", error_.message);
    *total = 0;
    for (int i = 0; i < count; i++)
        *total += eitp_tensor_elements(eitp_output(gradients[i]));
    model_run(&s, 0);
    values = (double *)calloc((size_t)*total, sizeof *values);
    *total = 0;
    for (int i = 0; i < count && s.plan; i++) {
        read_values(s.plan, gradients[i], values + *total);
        *total += eitp_tensor_elements(gradients[i]);
    }
    model_end(&s);
    return values;
}

/* The states and weights of the reference are not rounded to 16 bits. */
static void differences_of_models_have_the_gradient(void) {
    static const char *const names[2] = {"tiny", "minilm"};
    static const struct {
        const char *precision;
        double tolerance;
    } cases[3] = {{"fp32", 1e-3}, {"fp16", 0.1}, {"bf16", 0.4}};
    for (int n = 0; n < 2; n++) {
        for (int result = 0; result < 3; result++) {
            int64_t total;
            double *exact = model_gradient(names[n], "fp32", EITP__JACOBIAN_EXACT, result, &total);
            for (int c = 0; c < 3; c++) {
                double *values =
                    model_gradient(names[n], cases[c].precision, EITP__JACOBIAN_DIFFERENCE, result, &total);
                const double error = sqrt(nmse(values, exact, total));
                CHECK_THAT(error < cases[c].tolerance, "%s, result %d, %s: %.3g", names[n], result, cases[c].precision,
                           error);
                free(values);
            }
            free(exact);
        }
    }
}

/* ---- Bits ---- */

enum { BITS = 7 };

/* All results, [sequences, 7]. */
static eitp_tensor *all_results(model_scene *s) {
    const int64_t column[2] = {-1, 1};
    eitp_tensor *columns[BITS - 1], *starts[2];
    eitp__sensitivity result = eitp__jacobian_sensitivity(&s->config, s->signs);
    starts[0] = s->signs;
    starts[1] = s->states;
    columns[0] = result.squares;
    columns[1] = result.exponent;
    columns[2] = result.relative;
    columns[3] = eitp__jacobian_largest(&s->config, s->signs, 2).exponent;
    columns[4] = eitp__jacobian_growth(&s->config, s->signs);
    columns[5] = eitp__jacobian_spectrum(&s->config, starts, 2);
    for (int i = 0; i < BITS - 2; i++)
        columns[i] = eitp_reshape(columns[i], 2, column);
    return eitp_concat(columns, BITS - 1, 1);
}

static void sequences_do_not_depend_on_others(void) {
    model_scene s;
    model_begin(&s, "minilm", "fp32");
    for (int i = 0; i < 4; i++) {
        float together[MODEL_SEQUENCES][BITS], alone[BITS];
        eitp_tensor *results;
        s.config.method = i % 2 ? EITP__JACOBIAN_EXACT : EITP__JACOBIAN_DIFFERENCE;
        s.config.has_gradient = i / 2;
        model_graph(&s, MODEL_SEQUENCES);
        results = eitp_output(all_results(&s));
        model_run(&s, 0);
        CHECK(!eitp_plan_read(s.plan, results, together, sizeof together, &error_));
        model_graph_end(&s);
        model_graph(&s, 1);
        results = eitp_output(all_results(&s));
        for (int k = 0; k < MODEL_SEQUENCES; k++) {
            model_run(&s, k);
            CHECK(!eitp_plan_read(s.plan, results, alone, sizeof alone, &error_));
            CHECK(!memcmp(alone, together[k], sizeof alone));
            for (int r = 0; r < BITS; r++)
                CHECK(isfinite(alone[r]) && alone[r] != 0);
        }
        model_graph_end(&s);
    }
    model_end(&s);
}

/* A sequence of four rows has the same values in states with room for seven. */
static void rows_after_the_last_are_not_seen(void) {
    float values[2][BITS];
    for (int room = 0; room < 2; room++) {
        eitp_tensor *results;
        model_scene s;
        model_begin(&s, "minilm", "fp32");
        s.rows = room ? MODEL_ROWS : 4;
        s.all_lengths[0] = 4;
        model_graph(&s, 1);
        results = eitp_output(all_results(&s));
        model_run(&s, 0);
        CHECK(!eitp_plan_read(s.plan, results, values[room], sizeof values[room], &error_));
        model_end(&s);
    }
    for (int r = 0; r < BITS; r++)
        CHECK_THAT(fabsf(values[1][r] - values[0][r]) <= 1e-5f * (1 + fabsf(values[0][r])), "result %d: %g, not %g", r,
                   (double)values[1][r], (double)values[0][r]);
}

/* Accumulates the gradients of one result over all sequences in passes of `sequences`. Returns all gradients. */
static float *accumulated(model_scene *s, int64_t sequences, size_t *count) {
    const int64_t one = 1;
    eitp_tensor *carry;
    float *values = NULL;
    model_graph(s, sequences);
    carry = eitp_input(s->graph, "carry", EITP_F32, 1, &one);
    CHECK_THAT(!eitp__accumulate_gradient_terms(
                   eitp_sum(eitp__jacobian_sensitivity(&s->config, s->signs).relative, EITP_ALL_DIMENSIONS, 0),
                   EITP__TASK_GRADIENT, carry, &error_),
               "%s", error_.message);
    CHECK(!eitp_plan_create(s->graph, &s->plan, &error_));
    for (int first = 0; first < MODEL_SEQUENCES; first += (int)sequences) {
        const float carried = first > 0;
        CHECK(!eitp_plan_write(s->plan, carry, &carried, sizeof carried, &error_));
        model_run(s, first);
    }
    *count = 0;
    for (size_t i = 0; i < eitp_variable_count(s->context); i++) {
        const eitp_variable variable = eitp_variable_at(s->context, i);
        if (variable.role != EITP_GRADIENT)
            continue;
        values = (float *)realloc(values, *count * sizeof *values + variable.size);
        CHECK(!eitp_variable_read(s->context, variable.name, 0, values + *count, variable.size, &error_));
        *count += variable.size / sizeof *values;
    }
    model_graph_end(s);
    return values;
}

/* The parameters' gradients have the same bits for any division of the sequences into passes. */
static void gradients_do_not_depend_on_passes(void) {
    model_scene s;
    size_t count, other;
    float *whole_step, *passes;
    int nonzero = 0;
    model_begin(&s, "tiny", "fp32");
    s.config.has_gradient = 1;
    whole_step = accumulated(&s, MODEL_SEQUENCES, &count);
    for (int sequences = 1; sequences < MODEL_SEQUENCES; sequences *= 2) {
        passes = accumulated(&s, sequences, &other);
        CHECK(count == other && !memcmp(passes, whole_step, count * sizeof *passes));
        free(passes);
    }
    for (size_t i = 0; i < count; i++)
        nonzero += whole_step[i] != 0;
    CHECK_THAT(nonzero > 1000, "%d", nonzero);
    free(whole_step);
    model_end(&s);
}

/*
 * A pass with the model's own loss and the sensitivity. Only the one use of each parameter that contributes to the
 * gradient counts, not the uses for the value. The added nodes do not belong to the forward phase.
 */
static void uses_for_the_value_do_not_count(void) {
    for (int has_gradient = 0; has_gradient < 2; has_gradient++) {
        const char *parameter = "";
        eitp_tensor *own, *exponent;
        size_t nodes;
        model_scene s;
        model_begin(&s, "tiny", "fp32");
        model_graph(&s, MODEL_SEQUENCES);
        own = s.config.function.apply(s.model, s.config.states, s.lengths, 0, 2);
        own = eitp_sum(eitp_multiply(own, own), EITP_ALL_DIMENSIONS, 0);
        nodes = s.graph->node_count;
        s.config.has_gradient = has_gradient;
        exponent = eitp_output(eitp__jacobian_sensitivity(&s.config, s.signs).relative);
        CHECK(s.graph->origin.phase == EITP__PHASE_FORWARD && s.graph->node_count > nodes);
        for (; nodes < s.graph->node_count; nodes++)
            CHECK(s.graph->nodes[nodes]->origin.phase == EITP__PHASE_BACKWARD);
        if (has_gradient)
            own = eitp_add(own, eitp_sum(exponent, EITP_ALL_DIMENSIONS, 0));
        REQUIRE_OK(eitp__find_pass_dependent_gradient(own, &parameter, &error_), error_);
        CHECK_THAT(!parameter, "%s", parameter);
        /* If gradients are differentiated, parameters have uses that are not sums over rows. */
        s.config.method = EITP__JACOBIAN_EXACT;
        exponent = eitp_sum(eitp__jacobian_sensitivity(&s.config, s.signs).exponent, EITP_ALL_DIMENSIONS, 0);
        REQUIRE_OK(eitp__find_pass_dependent_gradient(eitp_add(own, exponent), &parameter, &error_), error_);
        CHECK((parameter != NULL) == has_gradient);
        model_end(&s);
    }
}

/* Numbers of rows with which the function was called. */
static int64_t rows_seen[8], calls_seen;

static eitp_tensor *apply_and_note(const void *user, eitp_tensor *x, eitp_tensor *lengths, int64_t first,
                                   int64_t count) {
    (void)user;
    (void)lengths;
    (void)first;
    (void)count;
    if (calls_seen < 8)
        rows_seen[calls_seen++] = eitp_tensor_dimension(x, 1);
    return eitp_affine(x, 2, 0);
}

static int sum_group_of_32(const eitp__backend *backend, eitp_dtype dtype) {
    (void)backend;
    (void)dtype;
    return 32;
}

/* If products sum 32 terms at once, both halves of a sequence start at a multiple of 32 rows. */
static void halves_begin_where_sums_can_be_split(void) {
    eitp__backend_interface interface;
    model_scene s;
    eitp_tensor *exponent;
    float values[MODEL_SEQUENCES];
    model_begin(&s, "tiny", "fp32");
    interface = *s.context->backend->interface;
    interface.sum_group = sum_group_of_32;
    s.context->backend->interface = &interface;
    model_graph(&s, MODEL_SEQUENCES);
    s.config.has_gradient = 1;
    s.config.function.apply = apply_and_note;
    s.config.function.parts = 1;
    calls_seen = 0;
    exponent = eitp_output(eitp__jacobian_sensitivity(&s.config, s.signs).exponent);
    CHECK(calls_seen == 2 && rows_seen[0] == MODEL_ROWS && rows_seen[1] == 32);
    model_run(&s, 0);
    CHECK(!eitp_plan_read(s.plan, exponent, values, sizeof values, &error_));
    for (int i = 0; i < MODEL_SEQUENCES; i++)
        CHECK_THAT(fabs((double)values[i] - log(2)) < 1e-6, "%g", (double)values[i]);
    model_end(&s);
}

/* ---- Edges ---- */

static void check_finite(model_scene *s, const char *what) {
    eitp_tensor *xs[MODEL_TENSORS], *gradients[MODEL_TENSORS], *results;
    float *values = (float *)calloc((size_t)MODEL_SEQUENCES * BITS, sizeof *values);
    int count;
    model_graph(s, MODEL_SEQUENCES);
    results = eitp_output(all_results(s));
    count = model_leaves(s, xs);
    CHECK(!eitp_gradients(results, NULL, count, xs, gradients, &error_));
    for (int i = 0; i < count; i++)
        eitp_output(gradients[i]);
    model_run(s, 0);
    CHECK(!eitp_plan_read(s->plan, results, values, MODEL_SEQUENCES * BITS * sizeof *values, &error_));
    for (int i = 0; i < MODEL_SEQUENCES * BITS; i++)
        CHECK_THAT(s->all_lengths[i / BITS] ? isfinite(values[i]) : values[i] == 0, "%s, sequence %d, result %d: %g",
                   what, i / BITS, i % BITS, (double)values[i]);
    for (int i = 0; i < count; i++) {
        const int64_t elements = eitp_tensor_elements(gradients[i]);
        double *gradient = (double *)calloc((size_t)elements, sizeof *gradient);
        read_values(s->plan, gradients[i], gradient);
        for (int64_t e = 0; e < elements; e++) {
            if (isfinite(gradient[e]))
                continue;
            CHECK_THAT(0, "%s, gradient %d, element %d: %g", what, i, (int)e, gradient[e]);
            break;
        }
        free(gradient);
    }
    free(values);
    model_graph_end(s);
}

/* Single rows, sequences without rows, equal rows, equal elements, and states of 0. */
static void edges_are_finite(void) {
    static const char *const precisions[3] = {"fp32", "bf16", "fp16"};
    for (int i = 0; i < 12; i += test_is_quick() ? 3 : 1) {
        char what[80];
        model_scene s;
        model_begin(&s, i % 2 ? "tiny" : "minilm", precisions[i / 4]);
        s.config.has_gradient = 1;
        s.config.method = i / 2 % 2 ? EITP__JACOBIAN_EXACT : EITP__JACOBIAN_DIFFERENCE;
        s.config.positions = i / 2 % 2 ? EITP_CHAOS_LAST : EITP_CHAOS_ALL;
        snprintf(what, sizeof what, "case %d, %s", i, precisions[i / 4]);
        s.all_lengths[1] = s.all_lengths[3] = 0;
        check_finite(&s, what);
        memcpy(s.all_lengths, model_lengths, sizeof model_lengths);
        /* Equal rows, and equal elements except in F16. Norms magnify changes of equal elements beyond F16's range. */
        for (int e = 0; e < MODEL_SEQUENCES * MODEL_ROW; e++)
            s.values[0][e] = i < 8 && e / MODEL_ROW % 2 ? (float)(e / MODEL_ROW == 1) : s.values[0][e % MODEL_WIDTH];
        check_finite(&s, what);
        s.rows = 1;
        s.all_lengths[0] = s.all_lengths[1] = s.all_lengths[3] = 1;
        check_finite(&s, what);
        model_end(&s);
    }
}

/* ---- Costs ---- */

/* Operations of a plan in units of a forward pass. With a gradient, it is the loss's gradient with respect to all
   parameters. */
static double cost_of(model_scene *s, eitp_tensor *(*measure)(model_scene *s), double forward) {
    eitp_tensor *xs[MODEL_TENSORS], *gradients[MODEL_TENSORS], *y;
    eitp_plan_stats stats = EITP__ZERO;
    int count;
    model_graph(s, MODEL_SEQUENCES);
    y = eitp_output(measure(s));
    if (s->config.has_gradient) {
        count = model_leaves(s, xs);
        CHECK(!eitp_gradients(y, NULL, count, xs, gradients, &error_));
        for (int i = 0; i < count; i++)
            eitp_output(gradients[i]);
    }
    CHECK_THAT(!eitp_plan_estimate(s->graph, NULL, &stats, &error_), "%s", error_.message);
    model_graph_end(s);
    return stats.flops / forward;
}

static eitp_tensor *measure_forward(model_scene *s) {
    return s->config.function.apply(s->config.function.user, s->config.states, s->lengths, 0, s->config.function.parts);
}

static eitp_tensor *measure_exponent(model_scene *s) {
    return eitp__jacobian_sensitivity(&s->config, s->signs).relative;
}

static eitp_tensor *measure_largest(model_scene *s) {
    return eitp__jacobian_largest(&s->config, s->signs, 1).exponent;
}

static eitp_tensor *measure_growth(model_scene *s) {
    return eitp__jacobian_growth(&s->config, s->signs);
}

/*
 * In units of a forward pass. A backward pass counts 1 without parameter gradients and 2 with them. Growth need not
 * compute the second of two parts.
 */
static void costs_are_as_documented(void) {
    static const struct {
        eitp_tensor *(*measure)(model_scene *s);
        int has_gradient;
        double differences, exact;
    } cases[] = {
        {measure_exponent, 0, 2, 2}, {measure_exponent, 1, 8, 7}, {measure_largest, 0, 4, 3},
        {measure_largest, 1, 10, 8}, {measure_growth, 0, 2.5, 2},
    };
    model_scene s;
    double forward;
    model_begin(&s, "tiny", "fp32");
    forward = cost_of(&s, measure_forward, 1);
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        for (int method = 0; method < 2; method++) {
            double cost;
            s.config.method = method ? EITP__JACOBIAN_EXACT : EITP__JACOBIAN_DIFFERENCE;
            s.config.has_gradient = cases[i].has_gradient;
            cost = cost_of(&s, cases[i].measure, forward);
            CHECK_THAT(fabs(cost - (method ? cases[i].exact : cases[i].differences)) < 0.5, "case %d, method %d: %.3g",
                       (int)i, method, cost);
        }
    }
    model_end(&s);
}

/* ---- Refused arguments ---- */

static eitp_tensor *apply_nothing(const void *user, eitp_tensor *x, eitp_tensor *lengths, int64_t first,
                                  int64_t count) {
    (void)user;
    (void)lengths;
    (void)first;
    (void)count;
    return x;
}

static void check_refused(const eitp__jacobian_config *config, eitp_tensor *direction, const char *word) {
    eitp_graph *graph = eitp_tensor_graph(config->lengths);
    for (int i = 0; i < 3; i++) {
        eitp_tensor *result = i == 0   ? eitp__jacobian_sensitivity(config, direction).exponent
                              : i == 1 ? eitp__jacobian_largest(config, direction, 1).exponent
                                       : eitp__jacobian_spectrum(config, &direction, 1);
        CHECK(!result);
        CHECK_THAT(eitp_graph_status(graph, &error_) == EITP_ERROR_ARGUMENT && strstr(error_.message, word), "%s",
                   error_.message);
        graph->error.status = EITP_OK;
    }
}

static void wrong_arguments_are_refused(void) {
    eitp_context *context = open_context("ref", 1);
    const int64_t shape[3] = {2, 3, 4}, three = 3;
    eitp_graph *graph = NULL;
    eitp__jacobian_config config = EITP__ZERO, changed;
    eitp_tensor *direction;
    REQUIRE_OK(eitp_graph_create(context, &graph, &error_), error_);
    config.function.apply = apply_nothing;
    config.function.parts = 2;
    config.states = eitp_input(graph, "states", EITP_F32, 3, shape);
    config.lengths = eitp_input(graph, "lengths", EITP_I32, 1, shape);
    direction = config.states;
    changed = config;
    changed.function.parts = 0;
    check_refused(&changed, direction, "1 part");
    changed = config;
    changed.states = eitp_input(graph, "flat", EITP_F32, 2, shape);
    check_refused(&changed, direction, "[sequences, rows, width]");
    changed.states = eitp_input(graph, "whole", EITP_I32, 3, shape);
    check_refused(&changed, direction, "floating-point");
    changed = config;
    changed.lengths = eitp_input(graph, "others", EITP_I32, 1, &three);
    check_refused(&changed, direction, "lengths must be i32 [2]");
    check_refused(&config, eitp_input(graph, "other", EITP_F32, 2, shape), "the shape of the states");
    CHECK(!eitp__jacobian_largest(&config, direction, 0).exponent && !eitp__jacobian_spectrum(&config, &direction, 0));
    changed.states = NULL;
    CHECK(!eitp__jacobian_sensitivity(&changed, direction).squares);
    CHECK(eitp_graph_status(graph, &error_) == EITP_OK);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

/* Each allocation in turn fails. */
static void allocations_may_fail(void) {
    for (long n = 1;; n++) {
        const int64_t shape[3] = {2, 3, 4};
        eitp_context_config options = eitp_context_config_default();
        eitp_context *context = NULL;
        eitp_graph *graph = NULL;
        eitp_status status;
        faults f;
        faults_begin(&f);
        options.host = f.host;
        options.isa = "ref";
        options.threads = 1;
        status = eitp_context_create(&options, &context, &error_);
        f.fail_allocation = f.allocations + n;
        if (!status)
            status = eitp_graph_create(context, &graph, &error_);
        if (!status) {
            eitp__jacobian_config config = EITP__ZERO;
            eitp_tensor *starts[40];
            config.function.apply = apply_nothing;
            config.function.parts = 2;
            config.has_gradient = 1;
            config.states = eitp_input(graph, "states", EITP_F32, 3, shape);
            config.lengths = eitp_input(graph, "lengths", EITP_I32, 1, shape);
            for (int i = 0; i < 40; i++)
                starts[i] = config.states;
            eitp__jacobian_sensitivity(&config, config.states);
            eitp__jacobian_largest(&config, config.states, 2);
            config.method = EITP__JACOBIAN_EXACT;
            eitp__jacobian_spectrum(&config, starts, n < 4 ? 40 : 3);
            status = eitp_graph_status(graph, &error_);
        }
        CHECK_THAT(status == EITP_OK || status == EITP_ERROR_MEMORY, "%s", error_.message);
        CHECK((status == EITP_OK) == (f.failures == 0));
        eitp_graph_destroy(graph);
        eitp_context_destroy(context);
        if (!faults_end(&f))
            break;
    }
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(known_values),
        TEST(estimates_of_explicit_jacobians),
        TEST(spectrum_has_the_determinant),
        TEST(gradients_against_differences),
        TEST(differences_of_models_have_the_gradient),
        TEST(sequences_do_not_depend_on_others),
        TEST(rows_after_the_last_are_not_seen),
        TEST(gradients_do_not_depend_on_passes),
        TEST(uses_for_the_value_do_not_count),
        TEST(halves_begin_where_sums_can_be_split),
        TEST(edges_are_finite),
        TEST(costs_are_as_documented),
        TEST(wrong_arguments_are_refused),
        TEST(allocations_may_fail),
    };
    return RUN_TESTS(tests, argc, argv);
}
