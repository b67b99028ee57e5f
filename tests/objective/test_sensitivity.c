/* Exponents and norms of Jacobians: known values, explicit matrices, gradients, models, and edges. */
#include "tests/support/faults.h"
#include "tests/support/graphs.h"

static eitp_error error_;

enum { WIDTH = 4, ROWS = 3, SEQUENCES = 2, ELEMENTS = ROWS * WIDTH, STATES = SEQUENCES * ELEMENTS, PARTS = 2 };

/* ---- Functions of states from ops, in F64 ---- */

typedef enum net_kind {
    NET_LINEAR,       /* each row times a matrix */
    NET_RESIDUAL,     /* x + 0 */
    NET_CAUSAL,       /* blocks as in GPT-2 */
    NET_BIDIRECTIONAL /* blocks as in BERT */
} net_kind;

typedef struct net {
    net_kind kind;
    eitp_tensor *matrix; /* of NET_LINEAR */
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

/* A net, states for it, and a direction; sequences have 3 and 2 rows. */
typedef struct scene {
    eitp_context *context;
    build b;
    net n;
    eitp_plan *plan;
    eitp_tensor *direction; /* of signs at first */
    eitp_tensor *start;     /* of power iteration */
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

/* What a function has whose J is the same everywhere, for sequences of 3 and 2 rows. */
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

/* J of each sequence: column j is its derivative in direction j. Made by a scene of its own. */
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

/* The largest singular value of the columns from `first` on, by many rounds. */
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

/* Makes the vector that was found the next start, and executes. */
static void start_from(scene *s, eitp_tensor *vector) {
    scene_read(s, vector, s->b.values[s->start_leaf]->data);
    scene_run(s);
}

/* The estimate is |J^T v|^2 of the rows that are perturbed, and a start approaches the largest singular value. */
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
        for (int i = 0; i < 4; i++)
            check_explicit((net_kind)kind, i % 2 ? EITP_CHAOS_LAST : EITP_CHAOS_ALL,
                           i / 2 ? EITP__JACOBIAN_EXACT : EITP__JACOBIAN_DIFFERENCE);
    }
}

/* All directions together have the volume of J; the first alone is the growth. Differences agree. */
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

/* The sums of four results over the sequences. Returns the singular vector. */
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
 * All parameters and states move along a random direction. The largest exponent's gradient, which holds the vectors
 * fixed, is exact once they are the singular vectors.
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
        for (int i = 0; i < 4 && kind != NET_RESIDUAL; i++)
            check_gradients((net_kind)kind, i % 2 ? EITP_CHAOS_LAST : EITP_CHAOS_ALL,
                            i / 2 ? EITP__JACOBIAN_EXACT : EITP__JACOBIAN_DIFFERENCE);
    }
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(known_values),
        TEST(estimates_of_explicit_jacobians),
        TEST(spectrum_has_the_determinant),
        TEST(gradients_against_differences),
    };
    return RUN_TESTS(tests, argc, argv);
}
