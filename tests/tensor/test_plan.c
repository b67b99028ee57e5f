/* Plans: reading and writing, the arena layout, and several plans in one context. */
#include "tests/support/training.h"

/* ---- Reading and writing ---- */

static void graphs_without_outputs(void) {
    eitp_context *context = open_context("ref", 1);
    const int64_t shape[1] = {4}, two[2] = {2, 2};
    const float values[4] = {1, 2, 3, 4};
    float read[4] = {0, 0, 0, 0};
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_error error = EITP__ZERO;
    eitp_tensor *x, *view;
    REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
    CHECK(eitp_plan_create(graph, &plan, &error) == EITP_ERROR_ARGUMENT && !plan);
    CHECK(strstr(error.message, "eitp_output"));
    x = eitp_input(graph, "x", EITP_F32, 1, shape);
    eitp_exp(x);
    CHECK(eitp_plan_create(graph, &plan, &error) == EITP_ERROR_ARGUMENT && !plan);
    /* nothing to compute except an output to read */
    view = eitp_output(eitp_reshape(x, 2, two));
    REQUIRE_OK(eitp_plan_create(graph, &plan, &error), error);
    CHECK(eitp_plan_statistics(plan).nodes == 0);
    REQUIRE_OK(eitp_plan_write(plan, x, values, sizeof values, &error), error);
    REQUIRE_OK(eitp_plan_execute(plan, &error), error);
    REQUIRE_OK(eitp_plan_read(plan, view, read, sizeof read, &error), error);
    CHECK(!memcmp(read, values, sizeof read));
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

static void reads_and_writes_are_checked(void) {
    eitp_context *context = open_context("ref", 1);
    const int64_t shape[1] = {4};
    float values[8] = {1, 2, 3, 4, 0, 0, 0, 0};
    eitp_graph *graph = NULL, *other = NULL;
    eitp_plan *plan = NULL;
    eitp_error error = EITP__ZERO;
    eitp_tensor *x, *y, *hidden, *late, *far, *p;
    REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
    REQUIRE_OK(eitp_graph_create(context, &other, &error), error);
    x = eitp_input(graph, "x", EITP_F32, 1, shape);
    p = eitp_output(eitp_parameter(graph, "p", 1, shape));
    hidden = eitp_exp(x);
    y = eitp_output(eitp_add(eitp_add(hidden, x), p));
    far = eitp_output(eitp_input(other, "far", EITP_F32, 1, shape));
    REQUIRE_OK(eitp_plan_create(graph, &plan, &error), error);
    CHECK(eitp_plan_write(plan, x, values, 15, &error) == EITP_ERROR_ARGUMENT);
    CHECK(strstr(error.message, "15") && strstr(error.message, "16") && strstr(error.message, "'x'"));
    CHECK(eitp_plan_write(plan, x, values, 32, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_plan_write(plan, y, values, 16, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_plan_write(plan, p, values, 16, &error) == EITP_ERROR_ARGUMENT);
    CHECK(strstr(error.message, "inputs"));
    CHECK(eitp_plan_write(plan, far, values, 16, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_plan_write(plan, NULL, values, 16, &error) == EITP_ERROR_ARGUMENT);
    REQUIRE_OK(eitp_plan_write(plan, x, values, 16, &error), error);
    REQUIRE_OK(eitp_plan_execute(plan, &error), error);
    CHECK(eitp_plan_read(plan, y, values, 32, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_plan_read(plan, hidden, values, 16, &error) == EITP_ERROR_ARGUMENT);
    CHECK(strstr(error.message, "eitp_output"));
    CHECK(eitp_plan_read(plan, far, values, 16, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_plan_read(plan, NULL, values, 16, &error) == EITP_ERROR_ARGUMENT);
    /* Marked as output, or created, after the plan was created. */
    CHECK(eitp_plan_read(plan, eitp_output(hidden), values, 16, &error) == EITP_ERROR_ARGUMENT);
    late = eitp_output(eitp_exp(y));
    CHECK(eitp_plan_read(plan, late, values, 16, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_plan_write(plan, eitp_input(graph, "late", EITP_F32, 1, shape), values, 16, &error) ==
          EITP_ERROR_ARGUMENT);
    CHECK(eitp_plan_set_rows(plan, 2, &error) == EITP_ERROR_ARGUMENT && strstr(error.message, "capacity"));
    REQUIRE_OK(eitp_plan_read(plan, y, values, 16, &error), error);
    CHECK(fabs((double)values[0] - exp(1) - 1) < 1e-5);
    REQUIRE_OK(eitp_plan_read(plan, p, values, 16, &error), error);
    CHECK(values[0] == 0 && values[3] == 0);
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_graph_destroy(other);
    eitp_context_destroy(context);
}

static void null_backend_counts_calls(void) {
    eitp_context_config config = eitp_context_config_default();
    const int64_t shape[1] = {4};
    const float values[4] = {1, 2, 3, 4};
    eitp_context *context = NULL;
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_tensor *x;
    eitp_error error = EITP__ZERO;
    config.device = "null";
    REQUIRE_OK(eitp_context_create(&config, &context, &error), error);
    CHECK(strstr(eitp_context_description(context), "null"));
    REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
    x = eitp_input(graph, "x", EITP_F32, 1, shape);
    eitp_output(eitp_tanh(eitp_softmax(eitp_exp(x))));
    REQUIRE_OK(eitp_plan_create(graph, &plan, &error), error);
    CHECK(eitp_plan_statistics(plan).nodes == 3);
    CHECK(eitp__null_backend_calls(context->backend) == 0);
    for (int i = 1; i <= 2; i++) {
        REQUIRE_OK(eitp_plan_write(plan, x, values, sizeof values, &error), error);
        REQUIRE_OK(eitp_plan_execute(plan, &error), error);
        CHECK(eitp__null_backend_calls(context->backend) == 3u * (unsigned)i);
    }
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

/* ---- The arena ---- */

/* Returns the loss of step `step`. */
static float loss_of(training *s, int64_t step) {
    eitp_error error = EITP__ZERO;
    float loss = 0;
    CHECK_THAT(!training_step(s, step, 0.5f, &loss, &error), "%s", error.message);
    return loss;
}

/* Blocks in use at the same time do not overlap. Every operand is in use at the steps that need it. */
static void check_layout(const eitp_plan *plan) {
    for (size_t i = 0; i < plan->block_count; i++) {
        const eitp__arena_block *a = &plan->blocks[i];
        CHECK(a->offset + a->size <= plan->stats.arena_bytes && a->offset % EITP__ALIGNMENT == 0);
        for (size_t j = 0; j < i; j++) {
            const eitp__arena_block *b = &plan->blocks[j];
            int together = a->first <= b->last && b->first <= a->last;
            CHECK_THAT(!together || a->offset + a->size <= b->offset || b->offset + b->size <= a->offset,
                       "blocks %d and %d overlap", (int)i, (int)j);
        }
    }
    for (size_t s = 0; s < plan->step_count; s++) {
        for (int i = 0; i < plan->calls[s].input_count + plan->calls[s].output_count; i++) {
            int is_input = i < plan->calls[s].input_count;
            const eitp__location *place =
                is_input ? &plan->bindings[s].inputs[i] : &plan->bindings[s].outputs[i - plan->calls[s].input_count];
            const eitp__operand *operand =
                is_input ? &plan->calls[s].inputs[i] : &plan->calls[s].outputs[i - plan->calls[s].input_count];
            const eitp__arena_block *block;
            if (place->block < 0)
                continue;
            block = &plan->blocks[place->block];
            CHECK(block->first <= (int)s && (int)s <= block->last);
            CHECK((size_t)operand->elements * eitp_dtype_size(operand->dtype) <= block->size);
        }
    }
}

static void arena_is_compact_and_blocks_do_not_overlap(void) {
    transformer_config deep = wide_transformer;
    eitp_context *context = open_context("ref", 1);
    training s;
    deep.layers = 12;
    if (training_begin_initialized(&s, context, &deep)) {
        eitp_plan_stats stats = eitp_plan_statistics(s.plan);
        check_layout(s.plan);
        CHECK_THAT((double)stats.arena_bytes <= 1.15 * (double)stats.peak_bytes, "%zu bytes for %zu", stats.arena_bytes,
                   stats.peak_bytes);
        CHECK(stats.arena_bytes >= stats.peak_bytes && stats.peak_bytes > 0);
        CHECK(eitp_context_arena_bytes(context) >= stats.arena_bytes + stats.workspace_bytes);
        /* Three products of a matrix cost at least six times its size. */
        CHECK(stats.flops > 6.0 * 96 * (12 * 64 * 64 * 12 + 64 * 500));
    }
    training_end(&s);
    eitp_context_destroy(context);
}

/* Returns the loss and all gradients. `keep_all` makes every tensor an output, so none shares memory. */
static double *transformer_gradients(eitp_context *context, int keep_all, unsigned char filling, int64_t *total,
                                     eitp_plan_stats *stats) {
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_tensor *gradients[TRANSFORMER_PARAMETERS];
    eitp_error error = EITP__ZERO;
    double *values = NULL;
    transformer t;
    memset(gradients, 0, sizeof gradients);
    CHECK(eitp_graph_create(context, &graph, &error) == EITP_OK);
    t = transformer_make(graph, &tiny_transformer);
    CHECK(eitp_gradients(t.loss, NULL, t.parameter_count, t.parameters, gradients, &error) == EITP_OK);
    gradients[t.parameter_count] = t.loss;
    *total = 0;
    for (int i = 0; i <= t.parameter_count; i++) {
        eitp_output(gradients[i]);
        *total += eitp_tensor_elements(gradients[i]);
    }
    for (size_t i = 0; i < graph->tensor_count && keep_all; i++)
        eitp_output(graph->tensors[i]);
    CHECK_THAT(eitp_plan_create(graph, &plan, &error) == EITP_OK, "%s", error.message);
    if (plan) {
        check_layout(plan);
        *stats = eitp_plan_statistics(plan);
        transformer_initialize(context);
        fill_arena(context, filling);
        transformer_write(&t, plan, t.config.rows, 3);
        CHECK(eitp_plan_execute(plan, &error) == EITP_OK);
        values = (double *)calloc((size_t)*total, sizeof *values);
        *total = 0;
        for (int i = 0; i <= t.parameter_count; i++) {
            read_values(plan, gradients[i], values + *total);
            *total += eitp_tensor_elements(gradients[i]);
        }
    }
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    return values;
}

/* Results depend neither on in-place reuse nor on the previous contents of the arena. */
static void in_place_reuse_changes_no_bit(void) {
    for (int set = 0; set < KERNEL_SETS; set++) {
        eitp_context *context = open_context(kernel_sets[set], 2);
        double *values[3];
        int64_t total = 0;
        eitp_plan_stats stats[3];
        if (!context)
            continue;
        values[0] = transformer_gradients(context, 1, 0, &total, &stats[0]);
        values[1] = transformer_gradients(context, 0, 0, &total, &stats[1]);
        values[2] = transformer_gradients(context, 0, 0xff, &total, &stats[2]);
        CHECK(stats[1].arena_bytes * 3 < stats[0].arena_bytes * 2);
        for (int i = 1; i < 3 && values[0] && values[i]; i++)
            CHECK(!memcmp(values[0], values[i], (size_t)total * sizeof(double)));
        CHECK(values[0] && values[0][total - 1] > 1);
        for (int i = 0; i < 3; i++)
            free(values[i]);
        eitp_context_destroy(context);
    }
}

static void results_are_computed_in_place(void) {
    eitp_context *context = open_context("ref", 1);
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_error error = EITP__ZERO;
    const int64_t shape[1] = {1024};
    static float x[1024], y[1024];
    eitp_tensor *input, *chain, *kept, *sum;
    REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
    input = eitp_input(graph, "x", EITP_F32, 1, shape);
    chain = eitp_affine(input, 1, 1);
    for (int i = 0; i < 10; i++)
        chain = eitp_affine(chain, 1, 1);
    kept = eitp_affine(chain, 2, 0); /* chain is read later, so it is not computed in place */
    sum = eitp_output(eitp_add(eitp_affine(kept, 1, 0.5), chain));
    REQUIRE_OK(eitp_plan_create(graph, &plan, &error), error);
    CHECK_THAT(eitp_plan_statistics(plan).arena_bytes == 2 * sizeof x, "%zu", eitp_plan_statistics(plan).arena_bytes);
    for (int i = 0; i < 1024; i++)
        x[i] = (float)i;
    poison(context);
    REQUIRE_OK(eitp_plan_write(plan, input, x, sizeof x, &error), error);
    REQUIRE_OK(eitp_plan_execute(plan, &error), error);
    REQUIRE_OK(eitp_plan_read(plan, sum, y, sizeof y, &error), error);
    for (int i = 0; i < 1024; i++)
        CHECK(y[i] == 3 * ((float)i + 11) + 0.5f);
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

/* A plan that needs a larger arena moves it. Earlier plans keep working. */
static void plans_share_the_arena(void) {
    eitp_context *context = open_context("ref", 2);
    training small, large;
    float first, again;
    size_t before;
    if (training_begin_initialized(&small, context, &tiny_transformer)) {
        transformer_config config = tiny_transformer;
        first = loss_of(&small, 1);
        before = eitp_context_arena_bytes(context);
        config.rows = 90;
        config.sequences = 14;
        if (training_begin_initialized(&large, context, &config)) { /* which also initializes the parameters again */
            CHECK(eitp_context_arena_bytes(context) > before);
            CHECK(eitp_variable_count(context) == (size_t)small.t.parameter_count * 3);
            for (size_t i = 0; i < eitp_variable_count(context); i++)
                if (eitp_variable_at(context, i).role == EITP_OPTIMIZER)
                    CHECK(eitp_variable_fill(context, eitp_variable_at(context, i).name, 0, NULL) == EITP_OK);
            again = loss_of(&small, 1);
            CHECK_THAT(first == again, "%.9g, then %.9g", (double)first, (double)again);
            CHECK(loss_of(&large, 2) > 0 && loss_of(&small, 3) > 0);
        }
        training_end(&large);
    }
    training_end(&small);
    eitp_context_destroy(context);
}

/* Allocates like the C library, but fails for `limit` bytes and more. */
static void *limited_allocate(void *user, size_t size, size_t alignment) {
    eitp_host host = eitp_host_default();
    return size < *(const size_t *)user ? host.allocator.allocate(host.allocator.user, size, alignment) : NULL;
}

static void limited_release(void *user, void *memory, size_t size) {
    eitp_host host = eitp_host_default();
    (void)user;
    host.allocator.release(host.allocator.user, memory, size);
}

static eitp_tensor *make_doubling(eitp_graph *graph, int64_t count, eitp_tensor **input) {
    *input = eitp_input(graph, "x", EITP_F32, 1, &count);
    return eitp_output(eitp_affine(*input, 2, 0));
}

/*
 * If the arena cannot grow, earlier plans keep working. If the former arena cannot be allocated again either, they
 * return an error.
 */
static void failure_to_grow_the_arena(void) {
    enum { COUNT = 50000 };
    for (int lost = 0; lost < 2; lost++) {
        eitp_context_config config = eitp_context_config_default();
        static float values[COUNT], read[COUNT];
        eitp_context *context = NULL;
        eitp_graph *graph = NULL, *larger = NULL;
        eitp_plan *plan = NULL, *refused = NULL;
        eitp_error error = EITP__ZERO;
        eitp_tensor *x, *y, *ignored;
        size_t limit = SIZE_MAX;
        config.host.allocator.user = &limit;
        config.host.allocator.allocate = limited_allocate;
        config.host.allocator.release = limited_release;
        config.device = "auto";
        config.threads = 1;
        REQUIRE_OK(eitp_context_create(&config, &context, &error), error);
        if (!strncmp(eitp_context_description(context), "cuda", 4)) {
            printf("SKIPPED failure_to_grow_the_arena: a GPU's arena is not host memory\n");
            eitp_context_destroy(context);
            return;
        }
        REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
        REQUIRE_OK(eitp_graph_create(context, &larger, &error), error);
        y = make_doubling(graph, COUNT, &x);
        make_doubling(larger, 2 * COUNT, &ignored);
        REQUIRE_OK(eitp_plan_create(graph, &plan, &error), error);
        /* Between the two arena sizes, or below both. */
        limit = lost ? COUNT * sizeof(float) : 3 * COUNT * sizeof(float);
        CHECK(eitp_plan_create(larger, &refused, &error) == EITP_ERROR_MEMORY && !refused);
        CHECK(strstr(error.message, "arena"));
        values[7] = 1.5f;
        if (lost) {
            CHECK(eitp_plan_write(plan, x, values, sizeof values, &error) == EITP_ERROR_MEMORY);
            CHECK(eitp_plan_execute(plan, &error) == EITP_ERROR_MEMORY);
            CHECK(eitp_plan_read(plan, y, read, sizeof read, &error) == EITP_ERROR_MEMORY);
            CHECK(strstr(error.message, "arena"));
        } else {
            REQUIRE_OK(eitp_plan_write(plan, x, values, sizeof values, &error), error);
            REQUIRE_OK(eitp_plan_execute(plan, &error), error);
            REQUIRE_OK(eitp_plan_read(plan, y, read, sizeof read, &error), error);
            CHECK(read[7] == 3 && read[8] == 0);
        }
        /* When memory is available again, the larger plan can be created and the first one works. */
        limit = SIZE_MAX;
        REQUIRE_OK(eitp_plan_create(larger, &refused, &error), error);
        REQUIRE_OK(eitp_plan_write(plan, x, values, sizeof values, &error), error);
        REQUIRE_OK(eitp_plan_execute(plan, &error), error);
        REQUIRE_OK(eitp_plan_read(plan, y, read, sizeof read, &error), error);
        CHECK(read[7] == 3);
        eitp_plan_destroy(plan);
        eitp_plan_destroy(refused);
        eitp_graph_destroy(graph);
        eitp_graph_destroy(larger);
        eitp_context_destroy(context);
    }
}

/* Creates plans of a graph after the first plan has expanded ops. In F64 all fused ops are expanded. */
static void several_plans_of_one_graph(void) {
    eitp_context *context = open_context("ref", 1);
    eitp_plan *first = NULL, *second = NULL, *third = NULL;
    eitp_error error = EITP__ZERO;
    double once[20], twice[20], thrice[20];
    eitp_tensor *x, *gain, *y, *z, *gradient = NULL;
    build b;
    build_begin(&b, context, EITP_F64, 1);
    x = real2(&b, 4, 5);
    gain = real1(&b, 5);
    y = eitp_output(eitp_layer_norm(x, gain, gain, 1e-5));
    REQUIRE_OK(eitp_plan_create(b.graph, &first, &error), error);
    run_leaves(&b, first);
    read_values(first, y, once);
    /* z reads an expanded tensor, through a node created before the expansion and through new nodes. */
    z = eitp_output(eitp_softmax(eitp_exp(y)));
    REQUIRE_OK(eitp_plan_create(b.graph, &second, &error), error);
    run_leaves(&b, second);
    read_values(second, y, twice);
    CHECK(!memcmp(once, twice, sizeof once));
    CHECK(eitp_gradients(z, eitp_stop_gradient(y), 1, &x, &gradient, &error) == EITP_OK);
    eitp_output(gradient);
    REQUIRE_OK(eitp_plan_create(b.graph, &third, &error), error);
    run_leaves(&b, third);
    read_values(third, y, thrice);
    CHECK(!memcmp(once, thrice, sizeof once));
    read_values(third, gradient, thrice);
    run_leaves(&b, first);
    read_values(first, y, twice);
    CHECK(!memcmp(once, twice, sizeof once));
    CHECK(isfinite(thrice[0]) && thrice[0] != 0);
    check_layout(first);
    check_layout(third);
    eitp_plan_destroy(first);
    eitp_plan_destroy(second);
    eitp_plan_destroy(third);
    build_end(&b);
    eitp_context_destroy(context);
}

/* A product computes the ops that follow it. In F32 a fused residual has the same bits as a separate product and
   sum. */
static void products_fuse_epilogues(void) {
    for (size_t i = 0; i < EITP__COUNT(kernel_sets); i++) {
        eitp_context *context = open_context(kernel_sets[i], 2);
        eitp_plan *fused = NULL, *apart = NULL;
        eitp_error error = EITP__ZERO;
        float together[77], separate[77];
        eitp_tensor *x, *w, *bias, *residual, *y, *z, *gradient = NULL;
        build b;
        if (!context)
            continue;
        build_begin(&b, context, EITP_F32, 1);
        x = real2(&b, 7, 5);
        w = real2(&b, 5, 11);
        bias = real1(&b, 11);
        residual = real2(&b, 7, 11);
        y = eitp_linear(x, w, bias, EITP_NO_ACTIVATION);
        z = eitp_output(eitp_add(residual, y));
        REQUIRE_OK(eitp_plan_create(b.graph, &fused, &error), error);
        CHECK(eitp_plan_statistics(fused).nodes == 1);
        run_leaves(&b, fused);
        REQUIRE_OK(eitp_plan_read(fused, z, together, sizeof together, &error), error);
        /* An output must be stored. */
        eitp_output(y);
        REQUIRE_OK(eitp_plan_create(b.graph, &apart, &error), error);
        CHECK(eitp_plan_statistics(apart).nodes == 2);
        run_leaves(&b, apart);
        REQUIRE_OK(eitp_plan_read(apart, z, separate, sizeof separate, &error), error);
        CHECK(!memcmp(together, separate, sizeof together));
        eitp_plan_destroy(fused);
        eitp_plan_destroy(apart);
        build_end(&b);
        /* A linear layer and its gradient with respect to x: two products that also compute the activation and its
           derivative. */
        for (int a = 0; a < 3; a++) {
            static const eitp_activation activations[] = {EITP_GELU_TANH, EITP_GELU_ERF, EITP_SILU};
            build_begin(&b, context, EITP_F32, 1);
            x = real2(&b, 7, 5);
            w = real2(&b, 5, 11);
            y = eitp_linear(eitp_linear(x, w, NULL, activations[a]), eitp_transpose(w), NULL, EITP_NO_ACTIVATION);
            REQUIRE_OK(eitp_gradients(y, NULL, 1, &x, &gradient, &error), error);
            eitp_output(gradient);
            REQUIRE_OK(eitp_plan_create(b.graph, &fused, &error), error);
            CHECK_THAT(eitp_plan_statistics(fused).nodes == 5, "%d", eitp_plan_statistics(fused).nodes);
            eitp_plan_destroy(fused);
            build_end(&b);
        }
        eitp_context_destroy(context);
    }
}

/* Marks the result of the only node with this op as an output. */
static void keep_result(const eitp_graph *graph, eitp__op_code op) {
    for (size_t n = 0; n < graph->node_count; n++)
        if (graph->nodes[n]->op == op)
            eitp_output(graph->nodes[n]->outputs[0]);
}

/* Executes a plan of 7 x 24 numbers y. Returns its number of nodes. */
static int execute_norm(build *b, eitp_tensor *y, float *values) {
    eitp_plan *plan = NULL;
    eitp_error error = EITP__ZERO;
    int nodes;
    CHECK_THAT(!eitp_plan_create(b->graph, &plan, &error), "%s", error.message);
    nodes = eitp_plan_statistics(plan).nodes;
    run_leaves(b, plan);
    CHECK_THAT(!eitp_plan_read(plan, y, values, 7 * 24 * sizeof *values, &error), "%s", error.message);
    eitp_plan_destroy(plan);
    return nodes;
}

/* On a GPU, the gradient of a norm with respect to its input adds the gradient of the residual. On processors it does
   not, so that both are rounded. */
static void gradients_of_norms_add_residuals(void) {
    static const eitp__op_code ops[] = {EITP__OP_LAYER_NORM_BACKWARD_INPUT, EITP__OP_RMS_NORM_BACKWARD_INPUT};
    for (int norm = 0; norm < 2; norm++) {
        eitp_context *context = open_context("ref", 1);
        const int fuses = !strcmp(context->backend->interface->name, "cuda");
        eitp_error error = EITP__ZERO;
        eitp_tensor *x, *y, *gradient = NULL;
        float fused[7 * 24], apart[7 * 24];
        double worst = 0;
        int nodes;
        build b;
        build_begin(&b, context, EITP_F32, 1);
        x = real2(&b, 7, 24);
        y = norm ? eitp_rms_norm(x, real1(&b, 24), 1e-5) : eitp_layer_norm(x, real1(&b, 24), real1(&b, 24), 1e-5);
        REQUIRE_OK(eitp_gradients(eitp_add(x, eitp_tanh(y)), real2(&b, 7, 24), 1, &x, &gradient, &error), error);
        eitp_output(gradient);
        nodes = execute_norm(&b, gradient, fused);
        keep_result(b.graph, ops[norm]);
        CHECK(execute_norm(&b, gradient, apart) == nodes + fuses);
        for (int i = 0; i < 7 * 24; i++)
            worst = fmax(worst, fabs((double)fused[i] - (double)apart[i]));
        CHECK_THAT(worst <= (fuses ? 1e-6 : 0), "%g", worst);
        build_end(&b);
        eitp_context_destroy(context);
    }
}

/* ---- Rows ---- */

/*
 * Adds rows of a tensor to its graph in two ways, which must have the same bits: sliced from the whole tensor, and
 * computed without it.
 */
static void add_rows(eitp_tensor *whole, int64_t begin, int64_t end, eitp_tensor **first, eitp_tensor **second) {
    *first = eitp_output(eitp_slice(whole, 0, begin, end));
    *second = eitp_output(eitp_affine(eitp__rows(whole, begin, end), 1, 0));
}

static void rows_equal_those_of_the_whole(void) {
    enum { TOKENS = 7, WIDTH = 12, WORDS = 10, CASES = 6 };
    static const int64_t bounds[][2] = {{0, 3}, {3, 10}, {9, 10}};
    const int64_t table_shape[2] = {WORDS, WIDTH}, weight_shape[2] = {WIDTH, 5}, tokens = TOKENS;
    const int32_t ids[TOKENS] = {3, 0, 9, 3, -1, 8, 10};
    eitp_context *context = open_context("ref", 1);
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_error error = EITP__ZERO;
    eitp_tensor *in, *table, *weight, *loss, *gradients[2], *parameters[2], *pairs[CASES][2];
    float a[WORDS * WIDTH], b[WORDS * WIDTH];
    REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
    in = eitp_input(graph, "ids", EITP_I32, 1, &tokens);
    parameters[0] = table = eitp_parameter(graph, "table", 2, table_shape);
    parameters[1] = weight = eitp_parameter(graph, "weight", 2, weight_shape);
    REQUIRE_OK(eitp_variable_fill_normal(context, "table", 0, 1, 1, &error), error);
    REQUIRE_OK(eitp_variable_fill_normal(context, "weight", 0, 1, 2, &error), error);
    /* The table is used as an embedding and as a factor, so its gradient is the sum of a product and of scattered
       rows. */
    loss = eitp_sum(eitp_tanh(eitp_matmul(eitp_embedding(table, in), weight)), EITP_ALL_DIMENSIONS, 0);
    loss = eitp_add(loss, eitp_sum(eitp_tanh(eitp_matmul(table, weight)), EITP_ALL_DIMENSIONS, 0));
    REQUIRE_OK(eitp_gradients(loss, NULL, 2, parameters, gradients, &error), error);
    for (int c = 0; c < 3; c++) {
        add_rows(gradients[0], bounds[c][0], bounds[c][1], &pairs[c][0], &pairs[c][1]);
        add_rows(gradients[1], bounds[c][0], bounds[c][1], &pairs[3 + c][0], &pairs[3 + c][1]);
    }
    REQUIRE_OK(eitp_plan_create(graph, &plan, &error), error);
    REQUIRE_OK(eitp_plan_write(plan, in, ids, sizeof ids, &error), error);
    REQUIRE_OK(eitp_plan_execute(plan, &error), error);
    for (int c = 0; c < CASES; c++) {
        size_t size = (size_t)eitp_tensor_elements(pairs[c][0]) * sizeof *a;
        REQUIRE_OK(eitp_plan_read(plan, pairs[c][0], a, size, &error), error);
        REQUIRE_OK(eitp_plan_read(plan, pairs[c][1], b, size, &error), error);
        CHECK_THAT(!memcmp(a, b, size), "case %d", c);
    }
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

/* A view of rows reads and writes the variable's memory. Its gradient contributes only to those rows. */
static void updates_through_views_of_rows(void) {
    const int64_t shape[2] = {6, 3};
    eitp_context *context = open_context("ref", 1);
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_error error = EITP__ZERO;
    eitp_tensor *p, *rows, *gradient = NULL;
    float values[18], read[18], slope[18];
    REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
    p = eitp_parameter(graph, "p", 2, shape);
    for (int i = 0; i < 18; i++)
        values[i] = (float)i;
    REQUIRE_OK(eitp_variable_write_f32(context, "p", 0, values, 18, &error), error);
    rows = eitp__rows(p, 2, 4);
    CHECK(rows->storage == p && rows->first == 6 && eitp__elements(rows) == 6);
    REQUIRE_OK(
        eitp_gradients(eitp_sum(eitp_multiply(rows, rows), EITP_ALL_DIMENSIONS, 0), NULL, 1, &p, &gradient, &error),
        error);
    eitp_output(gradient);
    /* Two updates of different rows do not depend on each other. */
    eitp_accumulate(eitp__rows(p, 0, 1), eitp__rows(p, 5, 6), NULL);
    eitp_accumulate(eitp__rows(p, 1, 2), eitp_affine(eitp__rows(p, 0, 1), 0, 1), NULL);
    REQUIRE_OK(eitp_plan_create(graph, &plan, &error), error);
    REQUIRE_OK(eitp_plan_execute(plan, &error), error);
    REQUIRE_OK(eitp_plan_read(plan, gradient, slope, sizeof slope, &error), error);
    REQUIRE_OK(eitp_variable_read_f32(context, "p", 0, read, 18, &error), error);
    for (int i = 0; i < 18; i++) {
        float changed = i < 3 ? (float)(i + 15) : i < 6 ? 1.0f : 0.0f;
        CHECK(read[i] == values[i] + changed);
        CHECK(slope[i] == (i >= 6 && i < 12 ? 2 * values[i] : 0));
    }
    CHECK(!eitp__rows(p, 4, 7) && eitp_graph_status(graph, &error) == EITP_ERROR_ARGUMENT);
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

/* ---- Gradients of many parts of one tensor ---- */

typedef enum part_kind { PART_ROWS, PART_SLICE, PART_COLUMNS, PART_GATHER, PART_KINDS } part_kind;

/* Returns part `i` of a matrix: `extent` rows as a view or a slice, `extent` columns, or single elements by index. */
static eitp_tensor *take_part(eitp_tensor *x, part_kind kind, int64_t i, int64_t extent) {
    const int64_t shape[2] = {1, x->shape[1]};
    switch (kind) {
    case PART_ROWS:
        return eitp__rows(x, i, i + extent);
    case PART_SLICE:
        return eitp_slice(x, 0, i, i + extent);
    case PART_COLUMNS:
        return eitp_slice(x, 1, i, i + extent);
    default:
        return eitp_gather(x, eitp_fill(x->graph, EITP_I32, 2, shape, (double)i), 0);
    }
}

/* Returns the sum of tanh over parts of a matrix. */
static eitp_tensor *sum_of_parts(eitp_tensor *x, part_kind kind, int64_t parts, int64_t extent) {
    eitp_tensor *loss = NULL;
    for (int64_t i = 0; i < parts; i++) {
        eitp_tensor *term = eitp_sum(eitp_tanh(take_part(x, kind, i, extent)), EITP_ALL_DIMENSIONS, 0);
        loss = loss ? eitp_add(loss, term) : term;
    }
    return loss;
}

/*
 * The gradient of each part is added in place to the sum of the earlier ones, so one buffer suffices for any number of
 * parts.
 */
static void gradients_of_parts_accumulate_in_place(void) {
    static const char *const kinds[] = {"rows", "slices", "columns", "gathers"};
    enum { PARTS = 256 };
    for (int i = 0; i < 2 * PART_KINDS; i++) {
        part_kind kind = (part_kind)(i / 2);
        /* 16-bit scatters are summed in F32 between casts, and the casts do not share a buffer. */
        eitp_dtype dtype = i % 2 && kind != PART_GATHER ? EITP_BF16 : EITP_F32;
        const int64_t shape[2] = {kind == PART_COLUMNS ? 3072 : PARTS, kind == PART_COLUMNS ? PARTS : 3072};
        eitp_context *context = open_context("ref", 1);
        eitp_graph *graph = NULL;
        eitp_error error = EITP__ZERO;
        eitp_plan_stats stats;
        eitp_tensor *p, *x, *gradient;
        size_t bytes;
        REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
        p = eitp_parameter(graph, "p", 2, shape);
        x = eitp_cast(eitp_exp(p), dtype);
        bytes = eitp__tensor_bytes(p);
        REQUIRE_OK(eitp_gradients(sum_of_parts(x, kind, PARTS, 1), NULL, 1, &p, &gradient, &error), error);
        eitp_output(gradient);
        REQUIRE_OK(eitp_plan_estimate(graph, NULL, &stats, &error), error);
        CHECK_THAT(stats.arena_bytes < 5 * bytes, "%s of %s: %zu bytes, the whole has %zu", kinds[kind],
                   eitp_dtype_name(dtype), stats.arena_bytes, bytes);
        eitp_graph_destroy(graph);
        eitp_context_destroy(context);
    }
}

/* Gradients and second derivatives through overlapping parts equal those of a sum of the same terms. */
static void gradients_of_parts_are_correct(void) {
    enum { ROWS = 6, COLUMNS = 5, COUNT = ROWS * COLUMNS };
    const int64_t shape[2] = {ROWS, COLUMNS};
    for (int kind = 0; kind < PART_KINDS; kind++) {
        eitp_context *context = open_context("ref", 1);
        eitp_graph *graph = NULL;
        eitp_plan *plan = NULL;
        eitp_error error = EITP__ZERO;
        eitp_tensor *p, *x, *loss, *first, *second;
        int64_t extent = kind == PART_GATHER ? 1 : 2, parts = shape[kind == PART_COLUMNS] + 1 - extent;
        float values[COUNT], d[COUNT], dd[COUNT];
        for (int i = 0; i < COUNT; i++)
            values[i] = (float)(i % 7) / 4 - 0.7f;
        REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
        p = eitp_parameter(graph, "p", 2, shape);
        x = eitp_affine(p, 1, 0);
        loss = sum_of_parts(x, (part_kind)kind, parts, extent);
        REQUIRE_OK(eitp_gradients(loss, NULL, 1, &p, &first, &error), error);
        REQUIRE_OK(eitp_gradients(eitp_sum(first, EITP_ALL_DIMENSIONS, 0), NULL, 1, &p, &second, &error), error);
        eitp_output(first);
        eitp_output(second);
        REQUIRE_OK(eitp_variable_write_f32(context, "p", 0, values, COUNT, &error), error);
        REQUIRE_OK(eitp_plan_create(graph, &plan, &error), error);
        REQUIRE_OK(eitp_plan_execute(plan, &error), error);
        REQUIRE_OK(eitp_plan_read(plan, first, d, sizeof d, &error), error);
        REQUIRE_OK(eitp_plan_read(plan, second, dd, sizeof dd, &error), error);
        for (int i = 0; i < COUNT; i++) {
            int64_t at = kind == PART_COLUMNS ? i % COLUMNS : i / COLUMNS, count = 0;
            double y = tanh((double)values[i]), slope = 1 - y * y;
            for (int64_t part = 0; part < parts; part++)
                count += at >= part && at < part + extent;
            CHECK_THAT(fabs((double)d[i] - (double)count * slope) < 1e-5, "kind %d, element %d: %g", kind, i,
                       (double)d[i]);
            CHECK_THAT(fabs((double)dd[i] + (double)count * 2 * y * slope) < 1e-5, "kind %d, element %d: %g", kind, i,
                       (double)dd[i]);
        }
        eitp_plan_destroy(plan);
        eitp_graph_destroy(graph);
        eitp_context_destroy(context);
    }
}

/*
 * A plan respects its limit or fails with an error that names the memory it needs. A plan with minimum memory never
 * fails.
 */
static void plans_respect_the_memory_limit(void) {
    eitp_context *context = open_context("ref", 1);
    eitp_plan_config config = eitp_plan_config_default();
    eitp_plan_stats whole, least;
    eitp_plan *plan = NULL;
    eitp_error error = EITP__ZERO;
    training s;
    char needed[32];
    REQUIRE(training_begin_initialized(&s, context, &wide_transformer));
    whole = eitp_plan_statistics(s.plan);
    config.memory = EITP_MINIMUM_MEMORY;
    REQUIRE_OK(eitp_plan_create_with(s.graph, &config, &plan, &error), error);
    least = eitp_plan_statistics(plan);
    eitp_plan_destroy(plan);
    CHECK(least.recomputed > 0 && least.arena_bytes < whole.arena_bytes);
    config.memory = least.arena_bytes + least.workspace_bytes;
    REQUIRE_OK(eitp_plan_create_with(s.graph, &config, &plan, &error), error);
    CHECK(eitp_plan_statistics(plan).arena_bytes + whole.workspace_bytes <= config.memory);
    eitp_plan_destroy(plan);
    config.memory = 1000;
    CHECK(eitp_plan_create_with(s.graph, &config, &plan, &error) == EITP_ERROR_MEMORY && !plan);
    snprintf(needed, sizeof needed, "%zu bytes", least.arena_bytes + least.workspace_bytes);
    CHECK_THAT(strstr(error.message, needed) && strstr(error.message, "limit is 1000"), "%s", error.message);
    training_end(&s);
    eitp_context_destroy(context);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(graphs_without_outputs),
        TEST(reads_and_writes_are_checked),
        TEST(null_backend_counts_calls),
        TEST(arena_is_compact_and_blocks_do_not_overlap),
        TEST(in_place_reuse_changes_no_bit),
        TEST(results_are_computed_in_place),
        TEST(plans_share_the_arena),
        TEST(failure_to_grow_the_arena),
        TEST(several_plans_of_one_graph),
        TEST(products_fuse_epilogues),
        TEST(gradients_of_norms_add_residuals),
        TEST(rows_equal_those_of_the_whole),
        TEST(updates_through_views_of_rows),
        TEST(gradients_of_parts_accumulate_in_place),
        TEST(gradients_of_parts_are_correct),
        TEST(plans_respect_the_memory_limit),
    };
    return RUN_TESTS(tests, argc, argv);
}
