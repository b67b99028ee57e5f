/* Misuse of the interface as by a beginner. Each mistake gives one clear error, never a crash or a wrong result. */
#include "tests/support/graphs.h"

static eitp_error error_;

/* True if a call failed with both words in its message. */
static int is_refused(eitp_status status, const char *word, const char *other) {
    int refused = status == EITP_ERROR_ARGUMENT && strstr(error_.message, word) && strstr(error_.message, other);
    if (!refused)
        printf("    %s: %s\n", eitp_status_name(status), error_.message);
    memset(&error_, 0, sizeof error_);
    return refused;
}

/* ---- Updates of one parameter ---- */

enum { COUNT = 6 };

typedef struct fitting {
    eitp_context *context;
    eitp_graph *graph;
    eitp_plan *plan;
    eitp_tensor *parameter, *scale;
    eitp_update update;
    eitp_status status;
} fitting;

/* Minimizes half the sum of squares of "w". */
static void fitting_begin(fitting *f, const char *name, eitp_optimizer optimizer) {
    const int64_t shape[2] = {2, COUNT / 2}, one[1] = {1};
    eitp_optimizer_config config = eitp_optimizer_config_default();
    memset(f, 0, sizeof *f);
    f->context = open_context("ref", 1);
    CHECK(!eitp_graph_create(f->context, &f->graph, &error_));
    f->parameter = eitp_parameter(f->graph, name, 2, shape);
    config.optimizer = optimizer;
    config.loss_scale = f->scale = eitp_input(f->graph, "loss scale", EITP_F32, 1, one);
    f->status =
        eitp_minimize(eitp_affine(eitp_sum(eitp_multiply(f->parameter, f->parameter), EITP_ALL_DIMENSIONS, 0), 0.5, 0),
                      &config, &f->update, &error_);
}

static void fitting_end(fitting *f) {
    eitp_plan_destroy(f->plan);
    eitp_graph_destroy(f->graph);
    eitp_context_destroy(f->context);
}

static eitp_status write_hyper(fitting *f, float rate, float step) {
    const float hyper[2] = {rate, step};
    return eitp_plan_write(f->plan, f->update.rate_and_step, hyper, sizeof hyper, &error_);
}

static eitp_status write_number(fitting *f, eitp_tensor *input, float value) {
    return eitp_plan_write(f->plan, input, &value, sizeof value, &error_);
}

static void steps_are_counted_from_one(void) {
    static const float wrong[] = {0, -1, 0.5f, NAN, INFINITY};
    fitting f;
    float before[COUNT] = {1, 2, 3, 4, 5, 6}, after[COUNT];
    fitting_begin(&f, "w", EITP_ADAMW);
    REQUIRE_OK(f.status, error_);
    REQUIRE_OK(eitp_plan_create(f.graph, &f.plan, &error_), error_);
    REQUIRE_OK(eitp_variable_write(f.context, "w", 0, before, sizeof before, &error_), error_);
    REQUIRE_OK(write_number(&f, f.update.max_norm, 0), error_);
    REQUIRE_OK(write_number(&f, f.scale, 1), error_);
    for (size_t i = 0; i < EITP__COUNT(wrong); i++)
        CHECK(is_refused(write_hyper(&f, 0.1f, wrong[i]), "step", "from 1"));
    CHECK(is_refused(eitp_plan_execute(f.plan, &error_), "learning rate and step", "written"));
    REQUIRE_OK(write_hyper(&f, 0.1f, 1), error_);
    REQUIRE_OK(eitp_plan_execute(f.plan, &error_), error_);
    REQUIRE_OK(eitp_variable_read(f.context, "w", 0, after, sizeof after, &error_), error_);
    for (int i = 0; i < COUNT; i++)
        CHECK(after[i] < before[i]);
    fitting_end(&f);
}

static void invalid_update_inputs_are_refused(void) {
    fitting f;
    fitting_begin(&f, "w", EITP_ADAMW);
    REQUIRE_OK(f.status, error_);
    REQUIRE_OK(eitp_plan_create(f.graph, &f.plan, &error_), error_);
    CHECK(is_refused(write_hyper(&f, NAN, 1), "learning rate", "nan"));
    CHECK(is_refused(write_hyper(&f, INFINITY, 1), "learning rate", "inf"));
    CHECK(is_refused(write_hyper(&f, -0.5f, 1), "learning rate", "-0.5"));
    CHECK(is_refused(write_number(&f, f.update.max_norm, NAN), "maximum gradient norm", "nan"));
    CHECK(is_refused(write_number(&f, f.update.max_norm, -1), "maximum gradient norm", "-1"));
    CHECK(is_refused(write_number(&f, f.scale, 0), "loss scale", "above 0"));
    CHECK(is_refused(write_number(&f, f.scale, NAN), "loss scale", "nan"));
    CHECK(!write_hyper(&f, 0, 1) && !write_number(&f, f.update.max_norm, INFINITY) && !write_number(&f, f.scale, 2));
    fitting_end(&f);
}

/* Optimizers are described by names and aliases. A trained model can be trained further in smaller steps. */
static void optimizers_are_described(void) {
    char names[400] = " ", name[40];
    for (int i = 0; i < EITP_OPTIMIZER_COUNT; i++) {
        const eitp_optimizer_info *info = eitp_optimizer_get((eitp_optimizer)i);
        const char *at = info->aliases;
        CHECK(*info->state && info->rate > 0 && info->rate < 1 && info->fine_tuning_rate > 0);
        CHECK(info->fine_tuning_rate < info->rate && info->weight_decay >= 0 && info->weight_decay < 1);
        snprintf(name, sizeof name, " %s ", info->name);
        for (size_t size = 0; *name; at += size) {
            CHECK_THAT(!strstr(names, name), "two optimizers are called%s", name);
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s", name);
            at += strspn(at, " ");
            size = strcspn(at, " ");
            snprintf(name, sizeof name, size ? " %.*s " : "%.*s", (int)size, at);
        }
    }
    CHECK(!eitp_optimizer_get(EITP_OPTIMIZER_COUNT) && !eitp_optimizer_get((eitp_optimizer)-1));
    CHECK(eitp_optimizer_config_default().optimizer == EITP_ADAMW);
    CHECK(fabs(eitp_optimizer_config_default().weight_decay - 0.01) < 1e-12);
}

static void unknown_optimizers_are_refused(void) {
    fitting f;
    fitting_begin(&f, "w", (eitp_optimizer)7);
    CHECK(is_refused(f.status, "unknown optimizer", "7"));
    fitting_end(&f);
}

/* State names contain the parameter's name. If the name were truncated, two parameters could share a state. */
static void long_names_do_not_share_a_state(void) {
    static const struct {
        eitp_optimizer optimizer;
        size_t max_length;
    } cases[] = {{EITP_ADAMW, 247}, {EITP_ADAMW8, 241}, {EITP_FACTORED, 235}, {EITP_SGD, 242}};
    for (size_t c = 0; c < EITP__COUNT(cases); c++) {
        for (size_t length = cases[c].max_length; length <= 300; length += length < 256 ? 1 : 44) {
            char name[301];
            fitting f;
            memset(name, 'n', length);
            name[length] = 0;
            fitting_begin(&f, name, cases[c].optimizer);
            CHECK_THAT(length == cases[c].max_length ? !f.status : is_refused(f.status, "nnn", "too long"),
                       "%s, a name of %d", eitp_optimizer_get(cases[c].optimizer)->name, (int)length);
            fitting_end(&f);
        }
    }
}

/* The same for the remainder of a 16-bit parameter. */
static void long_names_do_not_share_a_remainder(void) {
    const int64_t shape[1] = {4};
    float values[4] = {1.0009765625f, 2, 3, 4}, other[4] = {5.001f, 6, 7, 8}, read[4];
    eitp_context *context = open_context_in("bf16", "ref", 1);
    eitp_graph *graph = NULL;
    char names[2][261], remainder[256] = "remainder.";
    eitp_error error = EITP__ZERO;
    REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
    for (int i = 0; i < 2; i++) {
        memset(names[i], 'n', 260);
        names[i][259] = (char)('0' + i);
        names[i][260] = 0;
        eitp_variable_tensor(graph, names[i], EITP_PARAMETER, EITP_BF16, 1, shape);
    }
    /* the name to which both would be truncated */
    memset(remainder + strlen(remainder), 'n', sizeof remainder - 1 - strlen(remainder));
    eitp_variable_tensor(graph, remainder, EITP_REMAINDER, EITP_I16, 1, shape);
    REQUIRE_OK(eitp_graph_status(graph, &error), error);
    REQUIRE_OK(eitp_variable_write_f32(context, names[0], 0, values, 4, &error), error);
    REQUIRE_OK(eitp_variable_read_f32(context, names[0], 0, read, 4, &error), error);
    CHECK(read[0] == 1.0f);
    REQUIRE_OK(eitp_variable_write_f32(context, names[1], 0, other, 4, &error), error);
    REQUIRE_OK(eitp_variable_read_f32(context, names[0], 0, read, 4, &error), error);
    CHECK(read[0] == 1.0f);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

/* ---- Losses ---- */

static void losses_are_scalars(void) {
    const int64_t shape[2] = {2, 3}, rows = 4;
    eitp_optimizer_config config = eitp_optimizer_config_default();
    for (int i = 0; i < 6; i++) {
        eitp_context *context = open_context("ref", 1);
        eitp_graph *graph = NULL;
        eitp_update update;
        eitp_tensor *p, *loss;
        CHECK(!eitp_graph_create(context, &graph, &error_));
        p = eitp_parameter(graph, "p", 2, shape);
        loss = i / 2 == 0 ? eitp_exp(p)
               : i / 2 == 1
                   ? eitp_multiply(eitp_input_rows(graph, "x", EITP_F32, 1, &rows), eitp_sum(p, EITP_ALL_DIMENSIONS, 0))
                   : eitp_cast(eitp_sum(p, EITP_ALL_DIMENSIONS, 0), EITP_I32);
        if (i % 2)
            CHECK(is_refused(eitp_accumulate_gradients(loss, NULL, &error_), "loss", i / 2 == 2 ? "i32" : "eitp_mean"));
        else
            CHECK(is_refused(eitp_minimize(loss, &config, &update, &error_), "loss", i / 2 == 2 ? "i32" : "eitp_mean"));
        eitp_graph_destroy(graph);
        eitp_context_destroy(context);
    }
    for (int rank = 0; rank <= 2; rank++) {
        const int64_t ones[2] = {1, 1};
        eitp_context *context = open_context("ref", 1);
        eitp_graph *graph = NULL;
        eitp_update update;
        CHECK(!eitp_graph_create(context, &graph, &error_));
        CHECK_THAT(!eitp_minimize(eitp_exp(eitp_parameter(graph, "p", rank, ones)), &config, &update, &error_), "%s",
                   error_.message);
        eitp_graph_destroy(graph);
        eitp_context_destroy(context);
    }
}

/* ---- Targets ---- */

enum { ROWS = 4, CLASSES = 5, WIDTH = 3, IGNORED = -100 };

typedef struct classifying {
    eitp_context *context;
    eitp_graph *graph;
    eitp_plan *plan;
    eitp_tensor *x, *table, *targets, *losses, *gradient;
} classifying;

/*
 * Losses of ROWS rows with a separate head or with eitp_linear_cross_entropy. The targets are an input, reshaped, or
 * computed.
 */
static void classifying_begin(classifying *c, const char *set, eitp_dtype dtype, int is_linear, int way) {
    const int64_t x_shape[2] = {ROWS, WIDTH}, table_shape[2] = {CLASSES, WIDTH}, rows[1] = {ROWS};
    const int64_t square[2] = {2, ROWS / 2};
    eitp_tensor *targets, *total;
    memset(c, 0, sizeof *c);
    c->context = open_context(set, 1);
    if (!c->context)
        return;
    CHECK(!eitp_graph_create(c->context, &c->graph, &error_));
    c->x = eitp_input(c->graph, "x", dtype, 2, x_shape);
    c->table = eitp_input(c->graph, "table", dtype, 2, table_shape);
    c->targets = eitp_input(c->graph, "targets", EITP_I32, way == 1 ? 2 : 1, way == 1 ? square : rows);
    targets = way == 1 ? eitp_reshape(c->targets, 1, rows) : c->targets;
    targets = way == 2 ? eitp_slice(eitp_pad(targets, 0, 1, 0), 0, 1, ROWS + 1) : targets;
    c->losses = is_linear ? eitp_linear_cross_entropy(c->x, c->table, targets, IGNORED)
                          : eitp_cross_entropy(eitp_matmul_transposed(c->x, c->table, 0, 1), targets, IGNORED);
    total = eitp_sum(c->losses, EITP_ALL_DIMENSIONS, 0);
    CHECK_THAT(!eitp_gradients(total, NULL, 1, &c->x, &c->gradient, &error_), "%s", error_.message);
    eitp_output(c->losses);
    eitp_output(c->gradient);
    CHECK_THAT(!eitp_plan_create(c->graph, &c->plan, &error_), "%s", error_.message);
}

static void classifying_end(classifying *c) {
    eitp_plan_destroy(c->plan);
    eitp_graph_destroy(c->graph);
    eitp_context_destroy(c->context);
}

static void targets_out_of_range_are_refused(void) {
    static const int32_t wrong[] = {CLASSES, -1, -99, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 4; i++) {
        classifying c;
        int32_t targets[ROWS] = {0, CLASSES - 1, IGNORED, 2};
        classifying_begin(&c, "ref", EITP_F32, i % 2, i / 2);
        REQUIRE(c.plan);
        CHECK_THAT(!eitp_plan_write(c.plan, c.targets, targets, sizeof targets, &error_), "%s", error_.message);
        for (size_t w = 0; w < EITP__COUNT(wrong); w++) {
            char text[20];
            targets[3] = wrong[w];
            snprintf(text, sizeof text, "%d", (int)wrong[w]);
            CHECK(is_refused(eitp_plan_write(c.plan, c.targets, targets, sizeof targets, &error_), "'targets'", text));
        }
        classifying_end(&c);
    }
}

/* Computed targets cannot be checked when they are written, so their losses and gradients are NaN. */
static void computed_targets_out_of_range_give_nan(void) {
    static const eitp_dtype dtypes[] = {EITP_F32, EITP_BF16, EITP_F16, EITP_F64};
    for (int i = 0; i < KERNEL_SETS * 4 * 2; i++) {
        eitp_dtype dtype = dtypes[i / 2 % 4];
        double x[ROWS * WIDTH], table[CLASSES * WIDTH], losses[ROWS], gradient[ROWS * WIDTH];
        const double targets[ROWS] = {1, IGNORED, CLASSES, -1};
        uint32_t random = 5;
        classifying c;
        classifying_begin(&c, kernel_sets[i / 8], dtype, i % 2, 2);
        for (int j = 0; j < ROWS * WIDTH; j++)
            x[j] = draw(&random) - 0.5;
        for (int j = 0; j < CLASSES * WIDTH; j++)
            table[j] = draw(&random) - 0.5;
        if (c.plan) {
            write_values(c.plan, c.x, x);
            write_values(c.plan, c.table, table);
            write_values(c.plan, c.targets, targets);
            CHECK(!eitp_plan_execute(c.plan, &error_));
            read_values(c.plan, c.losses, losses);
            read_values(c.plan, c.gradient, gradient);
            CHECK(losses[0] > 0 && isfinite(losses[0]) && losses[1] == 0);
            CHECK_THAT(isnan(losses[2]) && isnan(losses[3]), "%s, %s: %g and %g", kernel_sets[i / 8],
                       eitp_dtype_name(dtype), losses[2], losses[3]);
            for (int j = 0; j < WIDTH; j++) {
                CHECK(isfinite(gradient[j]) && gradient[j] != 0 && gradient[WIDTH + j] == 0);
                CHECK(isnan(gradient[2 * WIDTH + j]) && isnan(gradient[3 * WIDTH + j]));
            }
        }
        classifying_end(&c);
    }
}

/* ---- Sequences ---- */

static void check_offsets_with(int separate) {
    static const int32_t wrong[][3] = {{0, 5, 4}, {-1, 2, 4}, {0, 4, 9}, {0, 1, 6}, {4, 0, 4}};
    const int32_t right[][3] = {{0, 4, 8}, {0, 0, 0}, {2, 4, 6}};
    const int64_t shape[2] = {8, 6}, bounds = 3;
    eitp_context *context = open_context("ref", 1);
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_attention_config config = eitp_attention_config_default();
    eitp_attention_inputs inputs = eitp_attention_inputs_default();
    eitp_tensor *offsets, *x;
    config.heads = 1;
    config.max_length = 4;
    REQUIRE_OK(eitp_graph_create(context, &graph, &error_), error_);
    offsets = eitp_input(graph, "offsets", EITP_I32, 1, &bounds);
    x = eitp_input(graph, "x", EITP_F32, 2, shape);
    inputs.q = x;
    inputs.k = inputs.v = separate ? x : NULL;
    inputs.offsets = offsets;
    eitp_output(eitp_attention(&inputs, &config));
    REQUIRE_OK(eitp_plan_create(graph, &plan, &error_), error_);
    for (size_t i = 0; i < EITP__COUNT(wrong); i++)
        CHECK(is_refused(eitp_plan_write(plan, offsets, wrong[i], sizeof wrong[i], &error_), "'offsets'", "ascend"));
    for (size_t i = 0; i < EITP__COUNT(right); i++)
        CHECK(!eitp_plan_write(plan, offsets, right[i], sizeof right[i], &error_));
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

static void invalid_offsets_are_refused(void) {
    check_offsets_with(0);
    check_offsets_with(1);
}

/* ---- Contexts ---- */

static void empty_settings_are_refused(void) {
    eitp_context_config config = EITP__ZERO;
    eitp_context *context = (eitp_context *)&config;
    CHECK(is_refused(eitp_context_create(&config, &context, &error_), "eitp_context_config_default", "alloc"));
    CHECK(!context);
    config.host.allocator = eitp_host_default().allocator;
    CHECK(is_refused(eitp_context_create(&config, &context, &error_), "eitp_context_config_default", "files"));
    CHECK(is_refused(eitp_context_create(NULL, &context, &error_), "NULL", "config"));
    config = eitp_context_config_default();
    CHECK(is_refused(eitp_context_create(&config, NULL, &error_), "NULL", "context"));
    config.parameters = (eitp_parameter_form)5;
    CHECK(is_refused(eitp_context_create(&config, &context, &error_), "parameters", "5"));
    config = eitp_context_config_default();
    config.offload = (eitp_offload)5;
    CHECK(is_refused(eitp_context_create(&config, &context, &error_), "offload", "5"));
}

static void unknown_variables_are_refused(void) {
    const int64_t shape = 2;
    eitp_context *context = open_context("ref", 1);
    eitp_graph *graph = NULL;
    eitp_variable none;
    REQUIRE_OK(eitp_graph_create(context, &graph, &error_), error_);
    eitp_parameter(graph, "p", 1, &shape);
    CHECK(eitp_variable_find(context, "q") == -1 && eitp_variable_find(context, NULL) == -1);
    none = eitp_variable_at(context, (size_t)eitp_variable_find(context, "q"));
    CHECK(!none.name && !none.size && !none.rank);
    none = eitp_variable_at(context, 1);
    CHECK(!none.name);
    CHECK(!strcmp(eitp_variable_at(context, 0).name, "p"));
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

/* ---- NULL ---- */

static int names_null(eitp_status status, const char *argument) {
    return is_refused(status, argument, "NULL");
}

static void variables_with_null(void) {
    float value = 1;
    eitp_context *context = open_context("ref", 1);
    eitp_context *const none[2] = {NULL, context};
    for (int i = 0; i < 2; i++) {
        const char *word = i ? "name" : "context", *name = i ? NULL : "w";
        CHECK(names_null(eitp_variable_set_decay(none[i], name, 1, &error_), word));
        CHECK(names_null(eitp_variable_set_trained(none[i], name, 1, &error_), word));
        CHECK(names_null(eitp_variable_write(none[i], name, 0, &value, 4, &error_), word));
        CHECK(names_null(eitp_variable_read(none[i], name, 0, &value, 4, &error_), word));
        CHECK(names_null(eitp_variable_write_f32(none[i], name, 0, &value, 1, &error_), word));
        CHECK(names_null(eitp_variable_read_f32(none[i], name, 0, &value, 1, &error_), word));
        CHECK(names_null(eitp_variable_fill(none[i], name, 1, &error_), word));
        CHECK(names_null(eitp_variable_fill_normal(none[i], name, 0, 1, 1, &error_), word));
        CHECK(names_null(eitp_variable_fill_uniform(none[i], name, 0, 1, 1, &error_), word));
    }
    eitp_context_destroy(context);
}

static void data_is_null(void) {
    fitting f;
    fitting_begin(&f, "w", EITP_ADAMW);
    REQUIRE_OK(eitp_plan_create(f.graph, &f.plan, &error_), error_);
    CHECK(names_null(eitp_variable_write(f.context, "w", 0, NULL, 4, &error_), "'w'"));
    CHECK(names_null(eitp_variable_read(f.context, "w", 0, NULL, 4, &error_), "'w'"));
    CHECK(names_null(eitp_variable_write_f32(f.context, "w", 0, NULL, 1, &error_), "'w'"));
    CHECK(names_null(eitp_variable_read_f32(f.context, "w", 0, NULL, 1, &error_), "'w'"));
    CHECK(names_null(eitp_plan_write(f.plan, f.update.max_norm, NULL, 4, &error_), "'maximum gradient norm'"));
    CHECK(names_null(eitp_plan_read(f.plan, f.update.norm, NULL, 4, &error_), "data"));
    fitting_end(&f);
}

static void graphs_and_plans_with_null(void) {
    const int64_t one = 1;
    eitp_context *context = open_context("ref", 1);
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_tensor *p;
    eitp_plan_stats stats;
    eitp_limits limits;
    eitp_update update;
    eitp_optimizer_config config = eitp_optimizer_config_default();
    float value = 1;
    CHECK(names_null(eitp_context_measure(NULL, &limits, &error_), "context"));
    CHECK(names_null(eitp_context_measure(context, NULL, &error_), "limits"));
    CHECK(names_null(eitp_graph_create(NULL, &graph, &error_), "context"));
    CHECK(names_null(eitp_graph_create(context, NULL, &error_), "graph"));
    REQUIRE_OK(eitp_graph_create(context, &graph, &error_), error_);
    p = eitp_parameter(graph, "p", 1, &one);
    CHECK(names_null(eitp_graph_status(NULL, &error_), "graph"));
    CHECK(names_null(eitp_plan_create(NULL, &plan, &error_), "graph"));
    CHECK(names_null(eitp_plan_create(graph, NULL, &error_), "plan"));
    CHECK(names_null(eitp_plan_create_with(NULL, NULL, &plan, &error_), "graph"));
    CHECK(names_null(eitp_plan_estimate(NULL, NULL, &stats, &error_), "graph"));
    CHECK(names_null(eitp_plan_estimate(graph, NULL, NULL, &error_), "stats"));
    {
        eitp_plan_config odd = {0, (eitp_recompute)9};
        CHECK(is_refused(eitp_plan_create_with(graph, &odd, &plan, &error_), "recompute", "9") && !plan);
    }
    CHECK(names_null(eitp_plan_set_rows(NULL, 1, &error_), "plan"));
    CHECK(names_null(eitp_plan_write(NULL, p, &value, 4, &error_), "plan"));
    CHECK(names_null(eitp_plan_read(NULL, p, &value, 4, &error_), "plan"));
    CHECK(names_null(eitp_plan_execute(NULL, &error_), "plan"));
    CHECK(names_null(eitp_gradients(NULL, NULL, 1, &p, &p, &error_), "y"));
    CHECK(names_null(eitp_gradients(p, NULL, 1, NULL, &p, &error_), "xs"));
    CHECK(names_null(eitp_gradients(p, NULL, 1, &p, NULL, &error_), "gradients"));
    CHECK(names_null(eitp_accumulate_gradients(NULL, NULL, &error_), "loss"));
    CHECK(names_null(eitp_minimize(NULL, &config, &update, &error_), "loss"));
    CHECK(names_null(eitp_minimize(p, NULL, &update, &error_), "config"));
    CHECK(names_null(eitp_minimize(p, &config, NULL, &error_), "update"));
    CHECK(names_null(eitp_apply_gradients(NULL, &config, &update, &error_), "graph"));
    CHECK(names_null(eitp_apply_gradients(graph, NULL, &update, &error_), "config"));
    CHECK(names_null(eitp_apply_gradients(graph, &config, NULL, &error_), "update"));
    CHECK(eitp_plan_execute(NULL, NULL) == EITP_ERROR_ARGUMENT);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

static void models_with_null(void) {
    eitp_context *context = open_context("ref", 1);
    eitp_host host = eitp_host_default();
    eitp_transformer_config config;
    eitp_lora_config lora = eitp_lora_config_default();
    eitp_model *model = NULL;
    eitp_generator *generator = NULL;
    int32_t token = 0;
    CHECK(names_null(eitp_transformer_config_named(NULL, &config, &error_), "name"));
    CHECK(names_null(eitp_transformer_config_named("tiny", NULL, &error_), "config"));
    REQUIRE_OK(eitp_transformer_config_named("tiny", &config, &error_), error_);
    CHECK(names_null(eitp_transformer_config_read(NULL, "config.json", &config, &error_), "host"));
    CHECK(names_null(eitp_transformer_config_read(&host, NULL, &config, &error_), "path"));
    CHECK(names_null(eitp_transformer_config_write(NULL, "config.json", &config, -1, EITP_F32, &error_), "host"));
    CHECK(names_null(eitp_transformer_config_write(&host, "config.json", NULL, -1, EITP_F32, &error_), "config"));
    CHECK(names_null(eitp_model_create(NULL, &config, &model, &error_), "context"));
    CHECK(names_null(eitp_model_create(context, NULL, &model, &error_), "config"));
    CHECK(names_null(eitp_model_create(context, &config, NULL, &error_), "model"));
    CHECK(names_null(eitp_model_set_dropout(NULL, 0, 0, 0, &error_), "model"));
    CHECK(names_null(eitp_model_initialize(NULL, 1, &error_), "model"));
    CHECK(names_null(eitp_block_initialize(NULL, &config, "block", 1, &error_), "context"));
    CHECK(names_null(eitp_block_initialize(context, NULL, "block", 1, &error_), "config"));
    CHECK(names_null(eitp_block_initialize(context, &config, NULL, 1, &error_), "name"));
    CHECK(names_null(eitp_lora_targets_parse(NULL, NULL, &lora, &error_), "names"));
    CHECK(names_null(eitp_model_add_lora(NULL, &lora, &error_), "model"));
    CHECK(names_null(eitp_model_initialize_lora(NULL, 1, &error_), "model"));
    CHECK(names_null(eitp_model_merge_lora(NULL, &error_), "model"));
    CHECK(names_null(eitp_model_freeze(NULL, "embeddings", &error_), "model"));
    CHECK(names_null(eitp_generator_create(NULL, 0, &generator, &error_), "model"));
    CHECK(names_null(eitp_generator_feed(NULL, &token, 1, &error_), "generator"));
    eitp_context_destroy(context);
}

static eitp_status fill_nothing(void *user, const char *directory, eitp_error *error) {
    (void)user;
    (void)directory;
    (void)error;
    return EITP_OK;
}

static void files_with_null(void) {
    eitp_context *context = open_context("ref", 1);
    eitp_host host = eitp_host_default();
    eitp_lora_config lora;
    eitp_model *model = NULL;
    eitp_directory_config created = eitp_directory_config_default();
    eitp_checkpoint_info info;
    eitp_memory_info memory;
    eitp_processor_info processors;
    int64_t step;
    CHECK(names_null(eitp_variables_save(NULL, "x", EITP_PARAMETER, EITP_F32, NULL, &error_), "context"));
    CHECK(names_null(eitp_variables_save(context, NULL, EITP_PARAMETER, EITP_F32, NULL, &error_), "path"));
    CHECK(names_null(eitp_variables_load(NULL, "x", EITP_PARAMETER, NULL, &error_), "context"));
    CHECK(names_null(eitp_variables_load(context, NULL, EITP_PARAMETER, NULL, &error_), "path"));
    CHECK(names_null(eitp_model_load(NULL, "x", &model, &error_), "context"));
    CHECK(names_null(eitp_model_load(context, NULL, &model, &error_), "directory"));
    CHECK(names_null(eitp_model_load(context, "x", NULL, &error_), "model"));
    CHECK(names_null(eitp_model_load_weights(NULL, "x", &error_), "model"));
    CHECK(names_null(eitp_model_dtype_read(&host, NULL, NULL, &error_), "directory"));
    CHECK(names_null(eitp_model_save(NULL, "x", &error_), "model"));
    CHECK(names_null(eitp_lora_save(NULL, "x", NULL, &error_), "model"));
    CHECK(names_null(eitp_lora_load(NULL, "x", &error_), "model"));
    CHECK(names_null(eitp_lora_config_read(NULL, "x", NULL, &lora, NULL, 0, &error_), "host"));
    CHECK(names_null(eitp_lora_config_read(&host, NULL, NULL, &lora, NULL, 0, &error_), "directory"));
    CHECK(names_null(eitp_directory_create(NULL, "x", &created, &error_), "host"));
    CHECK(names_null(eitp_directory_create(&host, NULL, &created, &error_), "path"));
    CHECK(names_null(eitp_directory_create(&host, "x", NULL, &error_), "config"));
    CHECK(names_null(eitp_directory_create(&host, "x", &created, &error_), "fill"));
    CHECK(names_null(eitp_checkpoint_create(NULL, "x", 1, fill_nothing, NULL, &error_), "host"));
    CHECK(names_null(eitp_checkpoint_create(&host, "x", 1, NULL, NULL, &error_), "fill"));
    CHECK(names_null(eitp_checkpoint_newest(&host, NULL, &step, &error_), "output_directory"));
    CHECK(names_null(eitp_checkpoint_newest(&host, "x", NULL, &error_), "step"));
    CHECK(names_null(eitp_checkpoint_verify(&host, NULL, &error_), "checkpoint"));
    CHECK(names_null(eitp_checkpoint_recover(&host, "x", NULL, &error_), "step"));
    CHECK(names_null(eitp_checkpoint_prune(NULL, "x", 1, &error_), "host"));
    CHECK(names_null(eitp_checkpoint_read_info(&host, "x", NULL, &error_), "info"));
    CHECK(names_null(eitp_checkpoint_read_info(NULL, "x", &info, &error_), "host"));
    CHECK(names_null(eitp_memory_info_read(NULL, &memory, &error_), "host"));
    CHECK(names_null(eitp_memory_info_read(&host, NULL, &error_), "info"));
    CHECK(names_null(eitp_processor_info_read(NULL, &processors, &error_), "host"));
    CHECK(names_null(eitp_processor_info_read(&host, NULL, &error_), "info"));
    eitp_context_destroy(context);
}

static eitp_status take_ids(void *user, const int32_t *ids, size_t count, eitp_error *error) {
    (void)user, (void)ids, (void)count, (void)error;
    return EITP_OK;
}

static void texts_with_null(void) {
    eitp_host host = eitp_host_default();
    eitp_tokenizer *tokenizer = NULL;
    eitp_tokenizer_train_config settings = eitp_tokenizer_train_config_default();
    eitp_text_source source = EITP__ZERO;
    eitp_encoder *encoder = NULL;
    eitp_pack_config pack = eitp_pack_config_default();
    eitp_text_files_config texts = eitp_text_files_config_default();
    eitp_text_files *files = NULL;
    eitp_table_config table = eitp_table_config_default();
    eitp_table *rows = NULL;
    eitp_example_source examples;
    eitp_example example;
    int is_end;
    eitp_sample_file *file = NULL;
    eitp_token_range range = {0, 0};
    eitp__windows windows;
    eitp_token_source tokens;
    const char *bytes = "x", *none = NULL;
    int32_t ids[1] = {0};
    size_t size;
    CHECK(names_null(eitp_tokenizer_load(NULL, "x", &tokenizer, &error_), "host"));
    CHECK(names_null(eitp_tokenizer_load(&host, NULL, &tokenizer, &error_), "path"));
    CHECK(names_null(eitp_tokenizer_create_bytes(NULL, &tokenizer, &error_), "host"));
    CHECK(names_null(eitp_tokenizer_train(&host, NULL, &source, &tokenizer, &error_), "config"));
    CHECK(names_null(eitp_tokenizer_train(&host, &settings, NULL, &tokenizer, &error_), "source"));
    CHECK(names_null(eitp_tokenizer_train(&host, &settings, &source, &tokenizer, &error_), "source->read"));
    CHECK(names_null(eitp_tokenizer_save(NULL, "x", &error_), "tokenizer"));
    CHECK(names_null(eitp_tokenizer_encode(NULL, "x", 1, ids, 1, &size, &error_), "tokenizer"));
    CHECK(names_null(eitp_tokenizer_token(NULL, 0, &bytes, &size, &error_), "tokenizer"));
    CHECK(names_null(eitp_tokenizer_decode(NULL, ids, 1, NULL, 0, &size, &error_), "tokenizer"));
    REQUIRE_OK(eitp_tokenizer_create_bytes(&host, &tokenizer, &error_), error_);
    size = 9;
    CHECK(names_null(eitp_tokenizer_encode(tokenizer, NULL, 1, ids, 1, &size, &error_), "text") && !size);
    CHECK(names_null(eitp_tokenizer_encode(tokenizer, "x", 1, NULL, 1, &size, &error_), "ids"));
    CHECK(!eitp_tokenizer_encode(tokenizer, NULL, 0, NULL, 0, &size, &error_) && !size);
    CHECK(names_null(eitp_tokenizer_decode(tokenizer, NULL, 1, NULL, 0, &size, &error_), "ids"));
    CHECK(names_null(eitp_tokenizer_decode(tokenizer, ids, 0, NULL, 1, &size, &error_), "text"));
    CHECK(!eitp_tokenizer_decode(tokenizer, NULL, 0, NULL, 0, &size, &error_) && !size);
    REQUIRE_OK(eitp_encoder_create(tokenizer, take_ids, NULL, &encoder, &error_), error_);
    CHECK(names_null(eitp_encoder_add(encoder, NULL, 1, &error_), "text"));
    CHECK(!eitp_encoder_add(encoder, NULL, 0, &error_));
    eitp_encoder_destroy(encoder);
    CHECK(names_null(eitp_encoder_create(NULL, NULL, NULL, &encoder, &error_), "tokenizer"));
    CHECK(names_null(eitp_encoder_add(NULL, "x", 1, &error_), "encoder"));
    CHECK(names_null(eitp_encoder_finish(NULL, &error_), "encoder"));
    CHECK(names_null(eitp_pack(&host, NULL, &pack, "x", NULL, &error_), "tokenizer"));
    pack.texts.path_count = 1;
    CHECK(names_null(eitp_pack(&host, tokenizer, &pack, "x", NULL, &error_), "paths"));
    texts.path_count = table.texts.path_count = 1;
    texts.paths = table.texts.paths = &none;
    CHECK(names_null(eitp_text_files_open(NULL, &texts, &files, &error_), "host"));
    CHECK(names_null(eitp_text_files_open(&host, NULL, &files, &error_), "config"));
    CHECK(names_null(eitp_text_files_open(&host, &texts, &files, &error_), "paths"));
    CHECK(names_null(eitp_table_open(&host, NULL, &rows, &error_), "config"));
    CHECK(names_null(eitp_table_open(&host, &table, &rows, &error_), "paths") && !rows);
    examples = eitp_table_source(NULL);
    CHECK(names_null(examples.read(examples.user, &example, &is_end, &error_), "table"));
    eitp_table_close(NULL);
    CHECK(eitp_table_get_statistics(NULL).rows == 0);
    source = eitp_text_files_source(NULL);
    CHECK(names_null(source.read(source.user, &bytes, &size, &error_), "files"));
    CHECK(names_null(eitp_sample_file_open(NULL, "x", 0, &file, &error_), "host"));
    CHECK(names_null(eitp_sample_file_open(&host, NULL, 0, &file, &error_), "path"));
    CHECK(names_null(eitp_sample_file_read_tokens(NULL, 0, 1, ids, &error_), "file"));
    CHECK(names_null(eitp_sample_file_verify(NULL, &error_), "file"));
    CHECK(names_null(eitp_split_tokens(100, 0.5, 4, NULL, &range, &error_), "training"));
    CHECK(names_null(eitp__windows_init(&windows, NULL, 4, &error_), "source"));
    CHECK(names_null(eitp__windows_read(NULL, 0, ids, ids, &error_), "windows"));
    tokens = eitp_sample_file_token_source(NULL, range);
    CHECK(!tokens.count && names_null(tokens.read(tokens.user, 0, 1, ids, &error_), "file"));
    eitp_tokenizer_destroy(tokenizer);
}

static void trainers_with_null(void) {
    eitp_trainer_config config = eitp_trainer_config_default();
    eitp_trainer *trainer = NULL;
    eitp_step_report report;
    eitp_evaluation evaluation;
    eitp_shrink_report shrunk;
    eitp_fit fit;
    eitp_fit_candidate rung;
    CHECK(names_null(eitp_trainer_create(NULL, &config, &trainer, &error_), "task"));
    CHECK(names_null(eitp_trainer_step(NULL, &report, &error_), "trainer"));
    CHECK(names_null(eitp_trainer_evaluate(NULL, 1, &evaluation, &error_), "trainer"));
    CHECK(names_null(eitp_trainer_shrink(NULL, &shrunk, &error_), "trainer"));
    CHECK(names_null(eitp_trainer_save(NULL, "x", &error_), "trainer"));
    CHECK(names_null(eitp_trainer_resume(NULL, "x", &error_), "trainer"));
    CHECK(names_null(eitp_evaluate(NULL, EITP_TRAINING, 1, 1, &evaluation, &error_), "task"));
    CHECK(names_null(eitp_fit_measure(NULL, &rung, &error_), "fit"));
    CHECK(names_null(eitp_fit_measure(&fit, NULL, &error_), "candidate"));
    CHECK(names_null(eitp_fit_choose(NULL, &rung, NULL, &error_), "fit"));
    CHECK(names_null(eitp_fit_choose(&fit, NULL, NULL, &error_), "chosen"));
    CHECK(names_null(eitp_setting_set_integer(NULL, 1, &config, &error_), "setting"));
    CHECK(names_null(eitp_setting_set_unsigned(NULL, 1, &config, &error_), "setting"));
    CHECK(names_null(eitp_setting_set_number(NULL, 1, &config, &error_), "setting"));
}

/* Functions that return no status return zeros or NULL. */
static void getters_of_null(void) {
    char text[4] = "x";
    eitp_model_inputs inputs = eitp_model_inputs_create(NULL, 1, 1, 1);
    CHECK(!*eitp_context_description(NULL) && !*eitp_context_numerics(NULL) && !*eitp_context_precision_name(NULL));
    CHECK(eitp_context_precision(NULL) == EITP_F32 && !eitp_context_parameters(NULL) && !eitp_context_offload(NULL));
    CHECK(!eitp_context_host(NULL).allocator.allocate && !eitp_context_arena_bytes(NULL));
    CHECK(!eitp_context_variable_bytes(NULL, EITP_PARAMETER) && !eitp_variable_count(NULL));
    CHECK(eitp_variable_find(NULL, "p") == -1 && !eitp_variable_at(NULL, 0).name);
    eitp_context_profile(NULL, NULL);
    CHECK(eitp_settings_of("eitp_trainer_config", NULL) && !eitp_setting_integer(NULL, NULL) &&
          eitp_setting_number(NULL, NULL) == 0);
    eitp_setting_format(NULL, NULL, text, sizeof text);
    CHECK(!*text);
    eitp_setting_bounds(NULL, text, sizeof text);
    CHECK(!*text);
    CHECK(!eitp_input(NULL, "x", EITP_F32, 0, NULL) && !eitp_input_rows(NULL, "x", EITP_F32, 0, NULL));
    CHECK(!eitp_parameter(NULL, "x", 0, NULL) && !eitp_keep_input(NULL));
    CHECK(!eitp_variable_tensor(NULL, "x", EITP_CACHE, EITP_F32, 0, NULL));
    CHECK(!eitp_fill(NULL, EITP_F32, 0, NULL, 0) && !eitp_arange(NULL, EITP_F32, 1));
    CHECK(!eitp_tensor_rank(NULL) && !eitp_tensor_dimension(NULL, -1) && !eitp_tensor_elements(NULL));
    CHECK(!eitp_dtype_size(eitp_tensor_dtype(NULL)) && !eitp_tensor_graph(NULL));
    CHECK(!eitp_plan_statistics(NULL).nodes && !eitp_optimizer_get((eitp_optimizer)99));
    CHECK(!eitp_model_context(NULL) && !eitp_model_parameter_count(NULL) && !eitp_model_trained_parameter_count(NULL));
    CHECK(!eitp_transformer_config_positions(NULL) && !eitp_model_positions(NULL));
    CHECK(!eitp_model_config(NULL).layers && !eitp_model_lora_config(NULL).rank);
    CHECK(!inputs.tokens && !inputs.key);
    CHECK(!eitp_model_losses(NULL, NULL, &inputs, 1, NULL, -100));
    CHECK(!eitp_model_hidden(NULL, NULL, &inputs, 1) && !eitp_model_logits(NULL, NULL));
    CHECK(!eitp_block(NULL, NULL, NULL, 0, NULL) && !eitp_architecture_find(NULL));
    CHECK(!eitp_model_vocabulary(NULL) && !eitp_model_positions(NULL) && !eitp__model_has_dropout(NULL));
    CHECK(!eitp_generator_remaining(NULL) && !eitp_generator_logits(NULL));
    CHECK(eitp_generator_sample(NULL, NULL) == -1 && eitp_schedule_rate(NULL, 1) == 0);
    CHECK(!eitp_trainer_report_validation(NULL, 1));
    CHECK(!eitp_trainer_steps_done(NULL) && !eitp_pass_graph(NULL) && !eitp_trainer_micro_batches_per_pass(NULL));
    CHECK(!eitp_trainer_statistics(NULL).nodes && !eitp_trainer_shape(NULL).batch_size);
    CHECK(!eitp_tokenizer_size(NULL) && eitp_tokenizer_end_of_text(NULL) == -1 && !eitp_tokenizer_fingerprint(NULL));
    CHECK(!eitp_sample_file_get_info(NULL).token_count && !eitp_text_files_bytes(NULL) &&
          !eitp__sample_index(EITP_SHUFFLE_NONE, 1, 0, 1));
    CHECK(!eitp_memory_budget_default(NULL) && !eitp__memory_floor(NULL) && !eitp_memory_is_short(NULL));
    eitp__sample_file_prefetch(NULL, 0, 1);
    eitp__sample_file_set_poll(NULL, NULL, NULL);
    eitp__sample_file_set_poll(NULL, NULL, NULL);
    eitp__windows_prefetch(NULL, 0);
    eitp_encoder_reset(NULL);
    eitp_generator_reset(NULL);
    eitp_context_destroy(NULL);
    eitp_graph_destroy(NULL);
    eitp_plan_destroy(NULL);
    eitp_model_destroy(NULL);
    eitp_generator_destroy(NULL);
}

/* The extent of a nonexistent dimension is 0. Steps before the first use the first learning rate. */
static void values_out_of_range(void) {
    const int64_t shape[2] = {2, 3};
    eitp_schedule schedule = EITP__ZERO;
    eitp_context *context = open_context("ref", 1);
    eitp_graph *graph = NULL;
    eitp_tensor *x;
    REQUIRE_OK(eitp_graph_create(context, &graph, &error_), error_);
    x = eitp_input(graph, "x", EITP_F32, 2, shape);
    CHECK(eitp_tensor_dimension(x, 1) == 3 && eitp_tensor_dimension(x, -2) == 2);
    CHECK(!eitp_tensor_dimension(x, 2) && !eitp_tensor_dimension(x, -3));
    schedule.kind = EITP_SCHEDULE_COSINE;
    schedule.peak = 0.5;
    schedule.steps = 10;
    CHECK(eitp_schedule_rate(&schedule, 0) == 0.5 && eitp_schedule_rate(&schedule, 1) == 0.5);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(steps_are_counted_from_one),
        TEST(invalid_update_inputs_are_refused),
        TEST(optimizers_are_described),
        TEST(unknown_optimizers_are_refused),
        TEST(long_names_do_not_share_a_state),
        TEST(long_names_do_not_share_a_remainder),
        TEST(losses_are_scalars),
        TEST(targets_out_of_range_are_refused),
        TEST(computed_targets_out_of_range_give_nan),
        TEST(invalid_offsets_are_refused),
        TEST(empty_settings_are_refused),
        TEST(unknown_variables_are_refused),
        TEST(variables_with_null),
        TEST(data_is_null),
        TEST(graphs_and_plans_with_null),
        TEST(models_with_null),
        TEST(files_with_null),
        TEST(texts_with_null),
        TEST(trainers_with_null),
        TEST(getters_of_null),
        TEST(values_out_of_range),
    };
    return RUN_TESTS(tests, argc, argv);
}
