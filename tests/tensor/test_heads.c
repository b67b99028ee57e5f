/*
 * Output heads that a plan computes in parts of rows (src/tensor/plan_head.c). Losses, gradients, accumulated gradients
 * and updates have the same bits as with a whole head and agree with F64. Heads that cannot be divided stay whole.
 */
#include "tests/support/graphs.h"

enum { ROWS = 200, WIDTH = 64, CLASSES = 1237, IGNORED = -1, EXECUTIONS = 3 };

static eitp_error error;
static const int64_t x_shape[2] = {ROWS, WIDTH}, table_shape[2] = {CLASSES, WIDTH}, rows_shape[1] = {ROWS},
                     one[1] = {1};

/* Outputs that a graph computes from the losses. */
typedef enum aim {
    LOSSES,     /* nothing */
    GRADIENTS,  /* the gradients of x and the table */
    INPUT,      /* the gradient of x; the table is frozen */
    TWO_LOSSES, /* the gradients of two sums of the losses */
    ACCUMULATE, /* adds the gradient of the table to its variable */
    UPDATE,     /* updates the table in one piece */
    PIECES,     /* updates the table in pieces of rows */
    AIMS
} aim;

typedef struct way {
    const char *set;
    eitp_dtype dtype;
    aim aim;
    int varies; /* the number of rows varies */
    int threads;
    size_t head_bytes; /* 0: whole */
} way;

typedef struct head {
    eitp_context *context;
    eitp_graph *graph;
    eitp_plan *plan;
    eitp_tensor *x, *table, *targets, *weights, *carry, *outputs[4];
    eitp__node *node;
    eitp_update update;
    int output_count;
    size_t bytes; /* size of the results */
    unsigned char *results;
} head;

static size_t rows_of_logits(eitp_dtype dtype, int64_t rows) {
    return (size_t)rows * CLASSES * eitp_dtype_size(dtype);
}

static void output(head *h, eitp_tensor *y) {
    h->outputs[h->output_count++] = eitp_output(y);
}

static void build_gradients(head *h, const way *w, eitp_tensor *losses, eitp_tensor *loss) {
    eitp_optimizer_config optimizer = eitp_optimizer_config_default();
    eitp_tensor *of[2], *gradients[2];
    of[0] = h->x;
    of[1] = h->table;
    optimizer.piece_bytes = w->aim == PIECES ? 300 * WIDTH * sizeof(float) : (size_t)1 << 30;
    switch (w->aim) {
    case GRADIENTS:
    case INPUT:
        CHECK_THAT(!eitp_gradients(loss, NULL, w->aim == INPUT ? 1 : 2, of, gradients, &error), "%s", error.message);
        output(h, gradients[0]);
        if (w->aim == GRADIENTS)
            output(h, gradients[1]);
        break;
    case TWO_LOSSES:
        for (int i = 0; i < 2; i++) {
            CHECK_THAT(!eitp_gradients(loss, NULL, 1, &of[i], &gradients[i], &error), "%s", error.message);
            output(h, gradients[i]);
            loss = eitp_sum(eitp_affine(losses, 0.3, 0), EITP_ALL_DIMENSIONS, 0);
        }
        break;
    case ACCUMULATE:
        h->carry = eitp_input(h->graph, "carry", EITP_F32, 1, one);
        CHECK_THAT(!eitp_accumulate_gradients(loss, h->carry, &error), "%s", error.message);
        break;
    case UPDATE:
    case PIECES:
        CHECK_THAT(!eitp_minimize(loss, &optimizer, &h->update, &error), "%s", error.message);
        break;
    case LOSSES:
    case AIMS:
    default:
        break;
    }
}

static eitp_tensor *input(head *h, const way *w, const char *name, eitp_dtype dtype, int rank, const int64_t *shape) {
    return w->varies ? eitp_input_rows(h->graph, name, dtype, rank, shape)
                     : eitp_input(h->graph, name, dtype, rank, shape);
}

/* Builds the graph of a way, without a plan. Returns 0 if this machine lacks the kernel set. */
static int build_head(head *h, const way *w) {
    const eitp_dtype wide = eitp__wide(w->dtype);
    eitp_tensor *losses, *loss;
    memset(h, 0, sizeof *h);
    h->context = open_context(w->set, w->threads);
    if (!h->context)
        return 0;
    CHECK(!eitp_graph_create(h->context, &h->graph, &error));
    h->graph->head_bytes = w->head_bytes ? w->head_bytes : (size_t)1 << 40;
    h->x = input(h, w, "x", w->dtype, 2, x_shape);
    h->targets = input(h, w, "targets", EITP_I32, 1, rows_shape);
    h->weights = input(h, w, "weights", wide, 1, rows_shape);
    h->table = w->aim > TWO_LOSSES ? eitp_variable_tensor(h->graph, "table", EITP_PARAMETER, w->dtype, 2, table_shape)
                                   : eitp_input(h->graph, "table", w->dtype, 2, table_shape);
    losses = eitp_linear_cross_entropy(h->x, h->table, h->targets, IGNORED);
    h->node = losses ? losses->node : NULL;
    if (w->aim <= TWO_LOSSES)
        output(h, losses);
    loss = eitp_sum(eitp_multiply(losses, h->weights), EITP_ALL_DIMENSIONS, 0);
    output(h, loss);
    build_gradients(h, w, losses, loss);
    CHECK_THAT(!eitp_graph_status(h->graph, &error), "%s", error.message);
    return 1;
}

static void end_head(head *h) {
    eitp_plan_destroy(h->plan);
    eitp_graph_destroy(h->graph);
    eitp_context_destroy(h->context);
    free(h->results);
}

/* True if a tensor of the plan has as many elements as the logits of all rows. */
static int stores_logits(const head *h, eitp_dtype dtype) {
    size_t largest = 0;
    for (size_t i = 0; i < h->plan->block_count; i++)
        largest = h->plan->blocks[i].size > largest ? h->plan->blocks[i].size : largest;
    return largest >= rows_of_logits(dtype, ROWS);
}

/* Rounds to a value that every dtype can represent. */
static double rounded(double x) {
    return (double)eitp__bf16_to_f32(eitp__f32_to_bf16((float)x));
}

static void write_random(head *h, eitp_tensor *x, uint32_t *random, double scale) {
    double values[CLASSES * WIDTH];
    for (int64_t i = 0; x && i < eitp_tensor_elements(x); i++)
        values[i] = rounded(scale * (draw(random) - 0.5));
    if (x)
        write_values(h->plan, x, values);
}

static void fill_table(const head *h, eitp_dtype dtype) {
    double values[CLASSES * WIDTH];
    uint32_t random = 77;
    size_t bytes = (size_t)CLASSES * WIDTH * eitp_dtype_size(dtype);
    void *stored = malloc(bytes);
    for (int i = 0; i < CLASSES * WIDTH; i++)
        values[i] = draw(&random) - 0.5;
    to_bytes(dtype, values, stored, CLASSES * WIDTH);
    CHECK_THAT(!eitp_variable_write(h->context, "table", 0, stored, bytes, &error), "%s", error.message);
    free(stored);
}

static void write_inputs(head *h, int execution) {
    uint32_t random = 5 + (uint32_t)execution;
    double targets[ROWS];
    const double rate[2] = {0.01, 1 + execution}, limit = 1, carry = execution > 0;
    write_random(h, h->x, &random, 3);
    write_random(h, h->weights, &random, 1);
    if (h->table->leaf == EITP__INPUT)
        write_random(h, h->table, &random, 2);
    for (int i = 0; i < ROWS; i++)
        targets[i] = i % 7 == 2 ? IGNORED : floor(draw(&random) * CLASSES);
    write_values(h->plan, h->targets, targets);
    if (h->carry)
        write_values(h->plan, h->carry, &carry);
    if (h->update.max_norm) {
        write_values(h->plan, h->update.rate_and_step, rate);
        write_values(h->plan, h->update.max_norm, &limit);
    }
}

static void append(head *h, const void *bytes, size_t size) {
    h->results = (unsigned char *)realloc(h->results, h->bytes + size);
    memcpy(h->results + h->bytes, bytes, size);
    h->bytes += size;
}

static void append_outputs(head *h) {
    for (int i = 0; i < h->output_count; i++) {
        size_t size = eitp__tensor_bytes(h->outputs[i]);
        void *bytes = calloc(1, size);
        if (h->outputs[i]->rows)
            size = (size_t)h->plan->rows * (size / ROWS);
        CHECK_THAT(!eitp_plan_read(h->plan, h->outputs[i], bytes, size, &error), "%s", error.message);
        append(h, bytes, size);
        free(bytes);
    }
}

static void append_variables(head *h) {
    for (size_t i = 0; i < eitp_variable_count(h->context); i++) {
        const eitp_variable variable = eitp_variable_at(h->context, i);
        void *bytes = calloc(1, variable.size);
        CHECK_THAT(!eitp_variable_read(h->context, variable.name, 0, bytes, variable.size, &error), "%s",
                   error.message);
        append(h, bytes, variable.size);
        free(bytes);
    }
}

/* Executes a way with several numbers of rows and keeps all results. Returns 0 if the machine lacks the kernel set. */
static int run_head(head *h, const way *w) {
    static const int64_t used[EXECUTIONS] = {ROWS, 65, 128};
    if (!build_head(h, w))
        return 0;
    CHECK_THAT(!eitp_plan_create(h->graph, &h->plan, &error), "%s", error.message);
    if (!h->plan)
        return 0;
    if (w->aim > TWO_LOSSES)
        fill_table(h, w->dtype);
    for (int e = 0; e < EXECUTIONS; e++) {
        poison(h->context);
        if (w->varies)
            CHECK(!eitp_plan_set_rows(h->plan, ROWS, &error));
        write_inputs(h, e);
        if (w->varies)
            CHECK(!eitp_plan_set_rows(h->plan, used[e], &error));
        CHECK_THAT(!eitp_plan_execute(h->plan, &error), "%s", error.message);
        append_outputs(h);
    }
    append_variables(h);
    return 1;
}

/* Runs the way with a divided and a whole head, and compares the results. */
static void compare_with_whole(const way *w) {
    /* A 16-bit gradient of the table is summed in F32, which uses up most of the saving. */
    const size_t saved = w->aim == GRADIENTS ? 0 : rows_of_logits(w->dtype, ROWS / 5);
    head divided, whole_head;
    way other = *w;
    other.head_bytes = 0;
    if (!run_head(&divided, w)) {
        end_head(&divided);
        return;
    }
    CHECK(run_head(&whole_head, &other));
    CHECK(stores_logits(&whole_head, w->dtype) && eitp__head_rows(whole_head.node) == ROWS);
    CHECK_THAT(!stores_logits(&divided, w->dtype) && eitp__head_rows(divided.node) == 64, "%s %s aim %d: %lld rows",
               w->set, eitp_dtype_name(w->dtype), w->aim, (long long)eitp__head_rows(divided.node));
    CHECK_THAT(divided.plan->stats.peak_bytes + saved < whole_head.plan->stats.peak_bytes,
               "%s aim %d: %zu bytes, whole %zu", eitp_dtype_name(w->dtype), w->aim, divided.plan->stats.peak_bytes,
               whole_head.plan->stats.peak_bytes);
    CHECK(divided.bytes == whole_head.bytes);
    for (size_t i = 0; i < divided.bytes; i++) {
        if (divided.results[i] == whole_head.results[i])
            continue;
        CHECK_THAT(0, "%s %s aim %d, varies %d, threads %d: byte %zu of %zu differs", w->set, eitp_dtype_name(w->dtype),
                   w->aim, w->varies, w->threads, i, divided.bytes);
        break;
    }
    end_head(&divided);
    end_head(&whole_head);
}

static void parts_have_the_bits_of_the_whole(void) {
    static const eitp_dtype dtypes[] = {EITP_F32, EITP_BF16, EITP_F16, EITP_F64};
    for (int i = 0; i < KERNEL_SETS * 4 * AIMS * 2; i += (int)test_stride(1, 11)) {
        way w = EITP__ZERO;
        w.set = kernel_sets[i / (8 * AIMS)];
        w.dtype = dtypes[i / (2 * AIMS) % 4];
        w.aim = (aim)(i / 2 % AIMS);
        w.varies = i % 2;
        w.threads = 1 + i % 3;
        w.head_bytes = rows_of_logits(w.dtype, 65);
        if (w.dtype == EITP_F64 && (w.aim > ACCUMULATE || i / (8 * AIMS)))
            continue; /* F64 updates use the same kernels in every set and need no test here */
        compare_with_whole(&w);
    }
}

/* The mean square of the difference of two arrays, relative to the mean square of the second. */
static double relative_error(const double *a, const double *b, int64_t count) {
    double difference = 0, squares = 0;
    for (int64_t i = 0; i < count; i++) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        squares += b[i] * b[i];
    }
    return difference / squares;
}

static void parts_agree_with_f64(void) {
    static const eitp_dtype dtypes[] = {EITP_F32, EITP_BF16, EITP_F16};
    static const double bounds[] = {1e-11, 1e-5, 1e-6};
    static double values[CLASSES * WIDTH], exact[CLASSES * WIDTH];
    for (int i = 0; i < KERNEL_SETS * 3; i += (int)test_stride(1, 4)) {
        way w = EITP__ZERO, in_f64 = EITP__ZERO;
        head h, reference;
        w.set = kernel_sets[i / 3];
        w.dtype = dtypes[i % 3];
        w.aim = in_f64.aim = GRADIENTS;
        w.threads = in_f64.threads = 2;
        w.head_bytes = rows_of_logits(w.dtype, 65);
        in_f64.set = "ref";
        in_f64.dtype = EITP_F64;
        if (run_head(&h, &w)) {
            CHECK(run_head(&reference, &in_f64));
            for (int o = 0; o < h.output_count; o++) {
                const int64_t count = eitp_tensor_elements(h.outputs[o]);
                read_values(h.plan, h.outputs[o], values);
                read_values(reference.plan, reference.outputs[o], exact);
                CHECK_THAT(relative_error(values, exact, count) < bounds[i % 3], "%s %s, output %d: %g", w.set,
                           eitp_dtype_name(w.dtype), o, relative_error(values, exact, count));
            }
            end_head(&reference);
        }
        end_head(&h);
    }
}

/* Reasons to keep a head whole. */
typedef enum obstacle {
    NO_OBSTACLE,
    LOGITS_READ,       /* something else reads the logits */
    LOGITS_RETURNED,   /* they are an output */
    GRADIENT_OF_LOSS,  /* the gradient of the losses depends on the losses */
    GRADIENT_RETURNED, /* the gradient of the logits is an output */
    OTHER_GRADIENT,    /* in 16 bits, a product adds another gradient of x before it rounds */
    TABLE_IN_FILE,
    OBSTACLES
} obstacle;

static int64_t rows_with_obstacle(obstacle what, eitp_dtype dtype) {
    eitp_context_config config = eitp_context_config_default();
    eitp_context *context = NULL;
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_tensor *x, *hidden, *table, *losses, *loss, *dx = NULL;
    int64_t rows = -1;
    config.isa = "ref";
    config.plans_only = 1;
    config.offload = what == TABLE_IN_FILE ? EITP_OFFLOAD_ALL : EITP_OFFLOAD_NONE;
    CHECK_THAT(!eitp_context_create(&config, &context, &error), "%s", error.message);
    CHECK(!eitp_graph_create(context, &graph, &error));
    graph->head_bytes = rows_of_logits(dtype, 65);
    x = eitp_input_rows(graph, "x", dtype, 2, x_shape);
    hidden = eitp_tanh(x);
    table = eitp_variable_tensor(graph, "table", EITP_PARAMETER, dtype, 2, table_shape);
    losses = eitp_linear_cross_entropy(hidden, table, eitp_input_rows(graph, "targets", EITP_I32, 1, rows_shape), -1);
    loss = eitp_sum(what == GRADIENT_OF_LOSS ? eitp_multiply(losses, losses) : losses, EITP_ALL_DIMENSIONS, 0);
    if (what == LOGITS_READ)
        eitp_output(eitp_sum(eitp_cast(losses->node->outputs[2], EITP_F32), EITP_ALL_DIMENSIONS, 0));
    if (what == LOGITS_RETURNED)
        eitp_output(losses->node->outputs[2]);
    if (what == OTHER_GRADIENT)
        loss = eitp_add(loss, eitp_sum(eitp_multiply(eitp_cast(hidden, EITP_F32), eitp_cast(hidden, EITP_F32)),
                                       EITP_ALL_DIMENSIONS, 0));
    CHECK_THAT(!eitp_gradients(loss, NULL, 1, &x, &dx, &error), "%s", error.message);
    eitp_output(dx);
    for (size_t n = 0; n < graph->node_count && what == GRADIENT_RETURNED; n++) {
        if (graph->nodes[n]->op == EITP__OP_HEAD_BACKWARD || graph->nodes[n]->op == EITP__OP_CROSS_ENTROPY_BACKWARD)
            eitp_output(graph->nodes[n]->outputs[0]);
    }
    CHECK_THAT(!eitp_plan_create(graph, &plan, &error), "%s", error.message);
    if (plan)
        rows = eitp__head_rows(losses->node);
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
    return rows;
}

static void what_parts_cannot_compute_stays_whole(void) {
    for (int i = 0; i < 2 * OBSTACLES; i++) {
        const eitp_dtype dtype = i % 2 ? EITP_BF16 : EITP_F32;
        const obstacle what = (obstacle)(i / 2);
        const int divides = what == NO_OBSTACLE || (what == OTHER_GRADIENT && dtype == EITP_F32);
        const int64_t rows = rows_with_obstacle(what, dtype);
        CHECK_THAT(rows == (divides ? 64 : ROWS), "obstacle %d, %s: %lld rows", what, eitp_dtype_name(dtype),
                   (long long)rows);
    }
}

/* Plans a head of 1024 rows and a large vocabulary with several memory limits in succession. */
static void parts_are_as_large_as_memory_allows(void) {
    const int64_t wide_x[2] = {1024, 8}, wide_table[2] = {262144, 8}, targets[1] = {1024};
    for (int i = 0; i < 4; i++) {
        const eitp_dtype dtype = i % 2 ? EITP_BF16 : EITP_F32;
        eitp_context_config config = eitp_context_config_default();
        eitp_plan_config limit = eitp_plan_config_default();
        eitp_context *context = NULL;
        eitp_graph *graph = NULL;
        eitp_plan *plan = NULL;
        eitp_plan_stats usual, least;
        eitp_tensor *losses;
        config.isa = "ref";
        config.plans_only = 1;
        REQUIRE_OK(eitp_context_create(&config, &context, &error), error);
        REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
        losses = eitp_linear_cross_entropy(eitp_input(graph, "x", dtype, 2, wide_x),
                                           eitp_variable_tensor(graph, "t", EITP_PARAMETER, dtype, 2, wide_table),
                                           eitp_input(graph, "targets", EITP_I32, 1, targets), -1);
        REQUIRE_OK(eitp_accumulate_gradients(eitp_sum(losses, EITP_ALL_DIMENSIONS, 0), NULL, &error), error);
        REQUIRE_OK(eitp_plan_estimate(graph, &limit, &usual, &error), error);
        CHECK(eitp__head_rows(losses->node) == (i % 2 ? 512 : 256) && usual.arena_bytes < (size_t)300 << 20);
        limit.memory = EITP_MINIMUM_MEMORY;
        REQUIRE_OK(eitp_plan_estimate(graph, &limit, &least, &error), error);
        CHECK(eitp__head_rows(losses->node) == (i % 2 ? 128 : 64) && least.arena_bytes < (size_t)80 << 20);
        limit.memory = i / 2 ? usual.arena_bytes + usual.workspace_bytes : (size_t)100 << 20;
        REQUIRE_OK(eitp_plan_create_with(graph, &limit, &plan, &error), error);
        CHECK(eitp__head_rows(losses->node) == (i / 2 ? 4 : 1) * (i % 2 ? 128 : 64));
        eitp_plan_destroy(plan);
        /* Another plan of the graph shares its tensors. */
        REQUIRE_OK(eitp_plan_create(graph, &plan, &error), error);
        CHECK(eitp__head_rows(losses->node) == (i / 2 ? 4 : 1) * (i % 2 ? 128 : 64));
        eitp_plan_destroy(plan);
        eitp_graph_destroy(graph);
        eitp_context_destroy(context);
    }
}

/* Returns the loss and the gradient of x for a head large enough for plan.c to divide. `head_bytes` is as in
   eitp_graph. */
static void run_large(size_t head_bytes, size_t memory, double *loss, double *gradient) {
    enum { LARGE_ROWS = 1000, LARGE_WIDTH = 4, LARGE_CLASSES = 70001 };
    const int64_t shapes[2][2] = {{LARGE_ROWS, LARGE_WIDTH}, {LARGE_CLASSES, LARGE_WIDTH}}, rows = LARGE_ROWS;
    static double values[LARGE_CLASSES * LARGE_WIDTH], targets[LARGE_ROWS];
    eitp_plan_config config = eitp_plan_config_default();
    eitp_context *context = open_context(NULL, 2);
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_tensor *x, *table, *ids, *sum, *dx;
    uint32_t random = 9;
    REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
    graph->head_bytes = head_bytes;
    config.memory = memory;
    x = eitp_input(graph, "x", EITP_F32, 2, shapes[0]);
    table = eitp_input(graph, "table", EITP_F32, 2, shapes[1]);
    ids = eitp_input(graph, "ids", EITP_I32, 1, &rows);
    sum = eitp_output(eitp_sum(eitp_linear_cross_entropy(x, table, ids, -1), EITP_ALL_DIMENSIONS, 0));
    REQUIRE_OK(eitp_gradients(sum, NULL, 1, &x, &dx, &error), error);
    eitp_output(dx);
    (void)eitp_plan_create_with(graph, &config, &plan, &error);
    REQUIRE(plan);
    for (int i = 0; i < LARGE_CLASSES * LARGE_WIDTH; i++)
        values[i] = draw(&random) - 0.5;
    for (int i = 0; i < LARGE_ROWS; i++)
        targets[i] = floor(draw(&random) * LARGE_CLASSES);
    write_values(plan, x, values);
    write_values(plan, table, values);
    write_values(plan, ids, targets);
    REQUIRE_OK(eitp_plan_execute(plan, &error), error);
    read_values(plan, sum, loss);
    read_values(plan, dx, gradient);
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

/* The planner chooses a size other than the last one that it tried. */
static void the_chosen_size_is_executed(void) {
    double losses[2], gradients[2][4000];
    if (test_is_quick())
        return;
    run_large((size_t)1 << 40, 0, &losses[0], gradients[0]);
    run_large(0, EITP_MINIMUM_MEMORY, &losses[1], gradients[1]);
    CHECK(losses[0] > 0 && !memcmp(&losses[0], &losses[1], sizeof losses[0]));
    CHECK(!memcmp(gradients[0], gradients[1], sizeof gradients[0]));
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(parts_have_the_bits_of_the_whole),      TEST(parts_agree_with_f64),
        TEST(what_parts_cannot_compute_stays_whole), TEST(parts_are_as_large_as_memory_allows),
        TEST(the_chosen_size_is_executed),
    };
    return RUN_TESTS(tests, argc, argv);
}
