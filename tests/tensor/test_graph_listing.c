/* Tensor names, and graph listings as text and for Graphviz. */
#include "tests/support/transformer.h"

#include "tests/support/faults.h"

static eitp_error error_;

/* Returns the listing, which the caller frees, or NULL if memory runs out. */
static char *listing_of(const eitp_graph *graph, const eitp_plan *plan, eitp_graph_listing listing) {
    size_t size = 0, again = 1;
    char *text;
    CHECK(!eitp_graph_format(graph, plan, listing, NULL, 0, &size, &error_));
    text = (char *)calloc(size + 1, 1);
    CHECK(text && !eitp_graph_format(graph, plan, listing, text, size + 1, &again, &error_));
    CHECK(again == size && text && strlen(text) == size);
    return text;
}

static void check_listing(const eitp_graph *graph, const eitp_plan *plan, eitp_graph_listing listing,
                          const char *expected) {
    char *text = listing_of(graph, plan, listing);
    CHECK_THAT(text && !strcmp(text, expected), "the listing is\n%s---- expected:\n%s----", text ? text : "", expected);
    free(text);
}

/* A hidden layer, the mean of its rows as a column, and an unused op. */
typedef struct small_graph {
    eitp_context *context;
    eitp_graph *graph;
    eitp_tensor *x, *hidden, *mean;
} small_graph;

static void small_begin(small_graph *s) {
    const int64_t d43[2] = {4, 3}, d35[2] = {3, 5}, d51[2] = {5, 1};
    s->context = open_context("ref", 1);
    CHECK(!eitp_graph_create(s->context, &s->graph, &error_));
    s->x = eitp_input_rows(s->graph, "x", EITP_F32, 2, d43);
    s->hidden = eitp_gelu_tanh(eitp_matmul(s->x, eitp_parameter(s->graph, "layer.weight", 2, d35)));
    s->hidden = eitp_tensor_set_name(s->hidden, "hidden");
    eitp_negate(s->hidden);
    s->mean = eitp_output(eitp_reshape(eitp_sum(s->hidden, 1, 0), 2, d51));
}

static void small_end(small_graph *s) {
    eitp_graph_destroy(s->graph);
    eitp_context_destroy(s->context);
}

static void a_line_for_each_node(void) {
    small_graph s;
    small_begin(&s);
    check_listing(s.graph, NULL, EITP_GRAPH_TEXT,
                  "%0 = input           f32 [<=4, 3]                      x\n"
                  "%1 = parameter       f32 [3, 5]                        layer.weight\n"
                  "%2 = matmul(%0, %1)  f32 [<=4, 5]\n"
                  "%3 = gelu_tanh(%2)   f32 [<=4, 5]                      hidden\n"
                  "%4 = negate(%3)      f32 [<=4, 5]\n"
                  "%5 = sum(%3)         f32 [1, 5]\n"
                  "%6 = reshape(%5)     f32 [5]       view of %5\n"
                  "%7 = reshape(%6)     f32 [5, 1]    output, view of %5\n");
    small_end(&s);
}

static void a_plan_adds_steps_and_places(void) {
    eitp_plan *plan = NULL;
    small_graph s;
    small_begin(&s);
    REQUIRE_OK(eitp_plan_create(s.graph, &plan, &error_), error_);
    check_listing(s.graph, plan, EITP_GRAPH_TEXT,
                  "%0 = input           f32 [<=4, 3]  arena 128+64 to step 0           x\n"
                  "%1 = parameter       f32 [3, 5]                                     layer.weight\n"
                  "%2 = matmul(%0, %1)  f32 [<=4, 5]  fused into step 0\n"
                  "%3 = gelu_tanh(%2)   f32 [<=4, 5]  step 0, arena 0+128 to step 1    hidden\n"
                  "%4 = negate(%3)      f32 [<=4, 5]  not in the plan\n"
                  "%5 = sum(%3)         f32 [1, 5]    step 1, arena 128+64 to the end\n"
                  "%6 = reshape(%5)     f32 [5]       view of %5\n"
                  "%7 = reshape(%6)     f32 [5, 1]    output, view of %5\n");
    check_listing(s.graph, plan, EITP_GRAPH_DOT,
                  "digraph eitp {\n"
                  "    node [shape=box];\n"
                  "    t0 [label=\"input_0\\nf32 [<=4, 3]\\nx\\narena 128+64 to step 0\", shape=ellipse];\n"
                  "    t1 [label=\"parameter_1\\nf32 [3, 5]\\nlayer.weight\", shape=ellipse];\n"
                  "    t2 [label=\"matmul_2\\nf32 [<=4, 5]\\nfused into step 0\"];\n"
                  "    t0 -> t2;\n"
                  "    t1 -> t2;\n"
                  "    t3 [label=\"gelu_tanh_3\\nf32 [<=4, 5]\\nhidden\\nstep 0, arena 0+128 to step 1\"];\n"
                  "    t2 -> t3;\n"
                  "    t4 [label=\"negate_4\\nf32 [<=4, 5]\\nnot in the plan\", color=gray, fontcolor=gray];\n"
                  "    t3 -> t4;\n"
                  "    t5 [label=\"sum_5\\nf32 [1, 5]\\nstep 1, arena 128+64 to the end\"];\n"
                  "    t3 -> t5;\n"
                  "    t6 [label=\"reshape_6\\nf32 [5]\\nview of %5\"];\n"
                  "    t5 -> t6;\n"
                  "    t7 [label=\"reshape_7\\nf32 [5, 1]\\noutput, view of %5\"];\n"
                  "    t6 -> t7;\n"
                  "}\n");
    eitp_plan_destroy(plan);
    small_end(&s);
}

/* Leaves, an update in place, and an op with several results. */
static void leaves_and_updates(void) {
    const int64_t d23[2] = {2, 3}, three = 3, one = 1;
    eitp_context *context = open_context("ref", 1);
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    REQUIRE_OK(eitp_graph_create(context, &graph, &error_), error_);
    eitp_tensor *kept = eitp_keep_input(eitp_input(graph, "mask", EITP_F32, 2, d23));
    eitp_tensor *target = eitp_variable_tensor(graph, "sum", EITP_CACHE, EITP_F32, 2, d23);
    eitp_input(graph, "left over", EITP_I32, 1, &one);
    eitp_accumulate(target, kept, eitp_input(graph, "carry", EITP_F32, 1, &one));
    eitp_tensor *gain = eitp_parameter(graph, "gain", 1, &three), *bias = eitp_parameter(graph, "bias", 1, &three);
    eitp_layer_norm(kept, gain, bias, 1e-5);
    REQUIRE_OK(eitp_plan_create(graph, &plan, &error_), error_);
    check_listing(
        graph, plan, EITP_GRAPH_TEXT,
        "%0 = input                           f32 [2, 3]                    kept                   mask\n"
        "%1 = cache                           f32 [2, 3]                                           sum\n"
        "%2 = input                           i32 [1]                       unused                 left over\n"
        "%3 = input                           f32 [1]                       arena 64+64 to step 0  carry\n"
        "%4 = accumulate(%1, %0, %3)          f32 [2, 3]                    step 0, in %1\n"
        "%5 = parameter                       f32 [3]                                              gain\n"
        "%6 = parameter                       f32 [3]                                              bias\n"
        "%7, %8, %9 = layer_norm(%0, %5, %6)  f32 [2, 3], f32 [2], f32 [2]  not in the plan\n");
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

/* An op without an F64 kernel is computed by other ops, which are listed after it. */
static void expanded_ops(void) {
    const int64_t d23[2] = {2, 3};
    eitp_context *context = open_context("ref", 1);
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    char *text;
    REQUIRE_OK(eitp_graph_create(context, &graph, &error_), error_);
    eitp_output(eitp_silu(eitp_input(graph, "x", EITP_F64, 2, d23)));
    REQUIRE_OK(eitp_plan_create(graph, &plan, &error_), error_);
    text = listing_of(graph, plan, EITP_GRAPH_TEXT);
    CHECK_THAT(text && strstr(text, "%1 = silu(%0) ") && strstr(text, "  output, computed as %"), "%s",
               text ? text : "");
    CHECK_THAT(text && strstr(text, " = multiply(%0, %"), "%s", text ? text : "");
    free(text);
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

/* ---- Names ---- */

static void names_are_kept(void) {
    char name[400];
    small_graph s;
    small_begin(&s);
    CHECK(!strcmp(eitp_tensor_name(s.hidden), "hidden") && !strcmp(eitp_tensor_name(s.mean), ""));
    CHECK(!strcmp(eitp_tensor_name(s.x), "x") && !strcmp(eitp_tensor_name(NULL), ""));
    snprintf(name, sizeof name, "%s", "mean");
    CHECK(eitp_tensor_set_name(s.mean, name) == s.mean);
    name[0] = 'b';
    CHECK(!strcmp(eitp_tensor_name(s.mean), "mean"));
    CHECK(eitp_tensor_set_name(s.mean, NULL) == s.mean && !strcmp(eitp_tensor_name(s.mean), ""));
    CHECK(eitp_tensor_set_name(s.x, "y") == s.x && !strcmp(eitp_tensor_name(s.x), "x"));
    CHECK(!eitp_tensor_set_name(NULL, "y"));
    /* 254 letters and a two-byte character, which must not be split */
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = 0;
    CHECK(strlen(eitp_tensor_name(eitp_tensor_set_name(s.mean, name))) == 255);
    memcpy(name + 254, "\xc3\xa4", 2);
    CHECK(strlen(eitp_tensor_name(eitp_tensor_set_name(s.mean, name))) == 254);
    small_end(&s);
}

/* Variable names can have any length. */
static void long_names_of_variables(void) {
    const int64_t three = 3;
    char name[300];
    small_graph s;
    small_begin(&s);
    memset(name, 'v', sizeof name - 1);
    name[sizeof name - 1] = 0;
    CHECK(!strcmp(eitp_tensor_name(eitp_parameter(s.graph, name, 1, &three)), name));
    small_end(&s);
}

static void names_are_escaped(void) {
    small_graph s;
    char *text;
    small_begin(&s);
    eitp_tensor_set_name(s.hidden, "say \"hi\"\\\n\tor not");
    text = listing_of(s.graph, NULL, EITP_GRAPH_TEXT);
    CHECK_THAT(text && strstr(text, "  say \"hi\"\\\\\\n\\x09or not\n"), "%s", text ? text : "");
    free(text);
    text = listing_of(s.graph, NULL, EITP_GRAPH_DOT);
    CHECK_THAT(text && strstr(text, "\\nsay \\\"hi\\\"\\\\\\n\\\\x09or not\"];\n"), "%s", text ? text : "");
    free(text);
    small_end(&s);
}

/* ---- Arguments ---- */

static void what_does_not_fit_is_counted(void) {
    char whole[2000], part[2000];
    size_t size = 0, length = 0;
    small_graph s;
    small_begin(&s);
    REQUIRE_OK(eitp_graph_format(s.graph, NULL, EITP_GRAPH_TEXT, whole, sizeof whole, &size, &error_), error_);
    for (size_t capacity = 1; capacity <= size + 1; capacity++) {
        memset(part, '#', sizeof part);
        REQUIRE_OK(eitp_graph_format(s.graph, NULL, EITP_GRAPH_TEXT, part, capacity, &length, &error_), error_);
        CHECK(length == size && strlen(part) == capacity - 1 && !memcmp(part, whole, capacity - 1));
        CHECK(part[capacity] == '#');
    }
    small_end(&s);
}

static void wrong_arguments_are_refused(void) {
    const eitp_graph_listing unknown = (eitp_graph_listing)2;
    eitp_plan *plan = NULL;
    small_graph s, other;
    size_t size = 77;
    char text[8];
    small_begin(&s);
    small_begin(&other);
    REQUIRE_OK(eitp_plan_create(other.graph, &plan, &error_), error_);
    CHECK(eitp_graph_format(NULL, NULL, EITP_GRAPH_TEXT, text, 8, &size, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_graph_format(s.graph, NULL, EITP_GRAPH_TEXT, text, 8, NULL, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_graph_format(s.graph, NULL, EITP_GRAPH_TEXT, NULL, 8, &size, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_graph_format(s.graph, NULL, unknown, text, 8, &size, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "2"), "%s", error_.message);
    CHECK(eitp_graph_format(s.graph, plan, EITP_GRAPH_TEXT, text, 8, &size, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "another graph") && size == 77, "%s", error_.message);
    CHECK(eitp_graph_format(s.graph, plan, EITP_GRAPH_TEXT, text, 8, &size, NULL) == EITP_ERROR_ARGUMENT);
    eitp_plan_destroy(plan);
    small_end(&other);
    small_end(&s);
}

/* Checks the listing of a graph that refused an op: the op is not listed, the error is. */
static void check_refused(const eitp_graph *graph, const char *line, const char *error) {
    char *text = listing_of(graph, NULL, EITP_GRAPH_TEXT), expected[400];
    snprintf(expected, sizeof expected, "%s\nerror: %s: ", line, error);
    CHECK_THAT(text && strstr(text, expected), "%s", text ? text : "");
    free(text);
    text = listing_of(graph, NULL, EITP_GRAPH_DOT);
    snprintf(expected, sizeof expected, "\n    label=\"error: %s: ", error);
    CHECK_THAT(text && strstr(text, expected), "%s", text ? text : "");
    free(text);
}

static void a_failed_graph_ends_with_its_error(void) {
    const int64_t three = 3;
    eitp_context *context = open_context("ref", 1);
    eitp_graph *graph = NULL;
    small_graph s;
    REQUIRE_OK(eitp_graph_create(context, &graph, &error_), error_);
    check_listing(graph, NULL, EITP_GRAPH_TEXT, "");
    eitp_tensor *ids = eitp_input(graph, "ids", EITP_I32, 1, &three);
    CHECK(!eitp_add(ids, ids)); /* the op had created its result before it missed a kernel */
    check_refused(graph, "%0 = input  i32 [3]  ids", "add");
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
    small_begin(&s);
    CHECK(!eitp_matmul(s.x, s.x));
    check_refused(s.graph, "output, view of %5", "matmul");
    small_end(&s);
}

static void allocations_of_a_listing_may_fail(void) {
    eitp_context_config config = eitp_context_config_default();
    eitp_context *context = NULL;
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    const int64_t three = 3;
    size_t size = 77;
    faults f;
    faults_begin(&f);
    config.host = f.host;
    config.isa = "ref";
    REQUIRE_OK(eitp_context_create(&config, &context, &error_), error_);
    REQUIRE_OK(eitp_graph_create(context, &graph, &error_), error_);
    eitp_output(eitp_exp(eitp_input(graph, "x", EITP_F32, 1, &three)));
    REQUIRE_OK(eitp_plan_create(graph, &plan, &error_), error_);
    f.fail_allocation = f.allocations + 1;
    CHECK(eitp_graph_format(graph, plan, EITP_GRAPH_TEXT, NULL, 0, &size, &error_) == EITP_ERROR_MEMORY && size == 77);
    CHECK(!eitp_graph_format(graph, plan, EITP_GRAPH_TEXT, NULL, 0, &size, &error_) && size > 77);
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
    faults_end(&f);
}

/* ---- Whole models ---- */

/* Returns the number after a percent sign at `*at`, and advances `*at` past it. */
static int take_number(const char **at) {
    char *end;
    long number = strtol(*at + 1, &end, 10);
    *at = end;
    return (int)number;
}

/* Checks that a line's inputs are already defined, and adds the tensors that the line defines. */
static void check_line(const char *line, char *defined, size_t count) {
    const char *equals = strstr(line, " = "), *end = strchr(line, '\n'), *at = line;
    const char *close = equals ? strchr(equals, ')') : NULL;
    for (at = equals; at && close && close < end && (at = strchr(at, '%')) != NULL && at < close;) {
        const int input = take_number(&at);
        CHECK_THAT(input >= 0 && (size_t)input < count && defined[input], "%.*s", (int)(end - line), line);
    }
    for (at = line; equals && (at = strchr(at, '%')) != NULL && at < equals;) {
        const int result = take_number(&at);
        CHECK(result >= 0 && (size_t)result < count && !defined[result]);
        defined[result] = 1;
    }
    CHECK(equals && equals < end);
}

/* Every op of the graph has a line, after the lines of its inputs. */
static void check_lines(const eitp_graph *graph, const eitp_plan *plan) {
    char *text = listing_of(graph, plan, EITP_GRAPH_TEXT), *defined = (char *)calloc(graph->tensor_count, 1), word[80];
    size_t lines = 0, leaves = 0;
    for (const char *line = text; line && *line; line = strchr(line, '\n') + 1, lines++)
        check_line(line, defined, graph->tensor_count);
    for (size_t t = 0; t < graph->tensor_count; t++)
        leaves += graph->tensors[t]->leaf != EITP__COMPUTED;
    CHECK_THAT(lines == graph->node_count + leaves, "%zu lines", lines);
    for (size_t n = 0; n < graph->node_count; n++) {
        const eitp__node *node = graph->nodes[n];
        snprintf(word, sizeof word, "%%%d = %s(", node->outputs[node->output_count - 1]->id,
                 eitp__op(graph, node->op)->name);
        CHECK_THAT(text && strstr(text, word), "no line has '%s'", word);
    }
    free(defined);
    free(text);
}

/* Every edge connects two declared nodes, and quotes are balanced. */
static void check_dot(const eitp_graph *graph, const eitp_plan *plan) {
    char *text = listing_of(graph, plan, EITP_GRAPH_DOT), *defined = (char *)calloc(graph->tensor_count, 1);
    int from, to, quotes = 0;
    for (const char *line = text; line && *line; line = strchr(line, '\n') + 1) {
        if (sscanf(line, "    t%d -> t%d", &from, &to) == 2)
            CHECK_THAT(defined[from] && defined[to], "%d -> %d", from, to);
        else if (sscanf(line, "    t%d [label=", &from) == 1)
            defined[from] = 1;
        for (const char *at = line; *at != '\n'; at++)
            quotes += *at == '"' && at[-1] != '\\';
        CHECK(quotes % 2 == 0);
    }
    CHECK(text && !strcmp(text + strlen(text) - 3, "\n}\n") && quotes);
    free(defined);
    free(text);
}

static void every_op_of_gpt2_is_listed(void) {
    eitp_context *context = open_context("ref", 1);
    eitp_transformer_config shape;
    eitp_model *model = NULL;
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_plan_config layers = eitp_plan_config_default();
    const int64_t rows = 32;
    char *text;
    REQUIRE_OK(eitp_transformer_config_named("tiny", &shape, &error_), error_);
    shape.vocabulary = 257;
    REQUIRE_OK(eitp_model_create(context, &shape, &model, &error_), error_);
    REQUIRE_OK(eitp_graph_create(context, &graph, &error_), error_);
    eitp_model_inputs inputs = eitp_model_inputs_create(graph, 2, 16, 0);
    eitp_tensor *logits = eitp_model_logits(model, eitp_model_hidden(model, graph, &inputs, 16));
    eitp_tensor *targets = eitp_input_rows(graph, "targets", EITP_I32, 1, &rows);
    eitp_tensor *loss = eitp_sum(eitp_cross_entropy(logits, targets, -100), EITP_ALL_DIMENSIONS, 0);
    REQUIRE_OK(eitp_accumulate_gradients(eitp_output(loss), NULL, &error_), error_);
    check_lines(graph, NULL);
    check_dot(graph, NULL);
    layers.recompute = EITP_RECOMPUTE_LAYER;
    REQUIRE_OK(eitp_plan_create_with(graph, &layers, &plan, &error_), error_);
    check_lines(graph, plan);
    check_dot(graph, plan);
    text = listing_of(graph, plan, EITP_GRAPH_TEXT);
    CHECK(text && strstr(text, "recomputed in step ") && strstr(text, "  transformer.h.0.attn.c_attn.weight\n"));
    free(text);
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_model_destroy(model);
    eitp_context_destroy(context);
}

/* Each step of the plan either computes or recomputes a node. */
static void steps_add_up(void) {
    eitp_context *context = open_context("ref", 1);
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_plan_config layers = eitp_plan_config_default();
    int steps = 0, step, is_first[400] = {0}, is_recomputation = 0;
    char *text;
    REQUIRE_OK(eitp_graph_create(context, &graph, &error_), error_);
    transformer t = transformer_make(graph, &tiny_transformer);
    REQUIRE_OK(eitp_accumulate_gradients(eitp_output(t.loss), NULL, &error_), error_);
    layers.recompute = EITP_RECOMPUTE_LAYER;
    REQUIRE_OK(eitp_plan_create_with(graph, &layers, &plan, &error_), error_);
    const eitp_plan_stats stats = eitp_plan_statistics(plan);
    REQUIRE(stats.recomputed > 0 && stats.nodes < 400);
    text = listing_of(graph, plan, EITP_GRAPH_TEXT);
    for (const char *at = text; at && (at = strstr(at, "step ")) != NULL; at++) {
        const int is_own = at > text + 8 && (!memcmp(at - 2, "  ", 2) || !memcmp(at - 8, "output, ", 8));
        if (sscanf(at, "step %d", &step) == 1 && is_own)
            is_first[step] = 1;
        is_recomputation |= at > text + 14 && !memcmp(at - 14, "recomputed in step", 18) && !is_first[step];
    }
    for (step = 0; step < stats.nodes; step++)
        steps += is_first[step];
    CHECK_THAT(is_recomputation && steps == stats.nodes - stats.recomputed, "%d of %d", steps, stats.nodes);
    free(text);
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

/* Returns the loss of a training step and its plan's statistics. */
static float loss_of(int is_named, eitp_plan_stats *stats) {
    eitp_context *context = open_context("ref", 1);
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_plan_config limit = eitp_plan_config_default();
    float loss = 0;
    CHECK(!eitp_graph_create(context, &graph, &error_));
    transformer t = transformer_make(graph, &tiny_transformer);
    CHECK(!eitp_accumulate_gradients(eitp_output(t.loss), NULL, &error_));
    for (size_t i = 0; i < graph->tensor_count && is_named; i++)
        CHECK(eitp_tensor_set_name(graph->tensors[i], "a name"));
    limit.memory = EITP_MINIMUM_MEMORY;
    CHECK(!eitp_plan_create_with(graph, &limit, &plan, &error_));
    *stats = eitp_plan_statistics(plan);
    transformer_initialize(context);
    transformer_write(&t, plan, t.config.rows, 1);
    CHECK(!eitp_plan_execute(plan, &error_) && !eitp_plan_read(plan, t.loss, &loss, sizeof loss, &error_));
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
    return loss;
}

static void names_change_no_plan_and_no_bit(void) {
    eitp_plan_stats without, with;
    const float a = loss_of(0, &without), b = loss_of(1, &with);
    CHECK(a > 0 && !memcmp(&a, &b, sizeof a));
    CHECK(!memcmp(&without, &with, sizeof with));
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(a_line_for_each_node),
        TEST(a_plan_adds_steps_and_places),
        TEST(leaves_and_updates),
        TEST(expanded_ops),
        TEST(names_are_kept),
        TEST(long_names_of_variables),
        TEST(names_are_escaped),
        TEST(what_does_not_fit_is_counted),
        TEST(wrong_arguments_are_refused),
        TEST(a_failed_graph_ends_with_its_error),
        TEST(allocations_of_a_listing_may_fail),
        TEST(every_op_of_gpt2_is_listed),
        TEST(steps_add_up),
        TEST(names_change_no_plan_and_no_bit),
    };
    return RUN_TESTS(tests, argc, argv);
}
