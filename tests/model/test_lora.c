/* Adapters and freezing: computation, training, saving and loading. */
#include "tests/support/everything.h"
#include "tests/support/faults.h"
#include "tests/support/test.h"

#include <unistd.h>

static eitp_error error_;

enum { BATCH = 2, BLOCK = 12, ROWS = BATCH * BLOCK, WORDS = 61 };

static const char *const precisions[] = {"fp32", "bf16", "fp16"};

static eitp_transformer_config small_shape(void) {
    eitp_transformer_config config;
    eitp_transformer_config_named("tiny", &config, NULL);
    config.vocabulary = WORDS;
    config.positions = 32;
    config.width = 24;
    config.heads = 3;
    config.layers = 2;
    config.inner = 40;
    config.embedding_dropout = config.attention_dropout = config.residual_dropout = 0;
    return config;
}

static eitp_lora_config all_targets(void) {
    eitp_lora_config config = eitp_lora_config_default();
    config.rank = 3;
    config.alpha = 5;
    CHECK(!eitp_lora_targets_parse(NULL, "all-linear", &config, &error_));
    return config;
}

/* Returns adapters on different layers in each block. */
static eitp_lora_config some_targets(void) {
    eitp_lora_config config = all_targets();
    CHECK(!eitp_lora_targets_parse(NULL, "h.0.attn.c_attn,transformer.h.1.mlp.c_proj,1.attn.c_proj,h.0.mlp.c_proj",
                                   &config, &error_));
    return config;
}

typedef struct subject {
    eitp_context *context;
    eitp_model *model;
} subject;

static eitp_status make_subject(subject *s, const eitp_host *host, const char *precision) {
    eitp_context_config config = eitp_context_config_default();
    eitp_transformer_config shape = small_shape();
    eitp_status status;
    memset(s, 0, sizeof *s);
    config.host = *host;
    config.threads = 2;
    config.precision = precision;
    status = eitp_context_create(&config, &s->context, &error_);
    if (!status)
        status = eitp_model_create(s->context, &shape, &s->model, &error_);
    return status ? status : eitp_model_initialize(s->model, 5, &error_);
}

static void end_subject(subject *s) {
    eitp_model_destroy(s->model);
    eitp_context_destroy(s->context);
}

/* Adds adapters whose B is not zero. */
static eitp_status adapt(subject *s, const eitp_lora_config *lora) {
    eitp_status status = eitp_model_add_lora(s->model, lora, &error_);
    if (!status)
        status = eitp_model_initialize_lora(s->model, 9, &error_);
    for (size_t i = 0; i < eitp_variable_count(s->context) && !status; i++) {
        eitp_variable variable = eitp_variable_at(s->context, i);
        if (strstr(variable.name, ".lora_B."))
            status = eitp_variable_fill_normal(s->context, variable.name, 0, 0.3, 17, &error_);
    }
    return status;
}

static int write_file(const char *directory, const char *name, const void *data, size_t size) {
    FILE *file = fopen(scratch_path(directory, name), "wb");
    size_t written = file ? fwrite(data, 1, size, file) : 0;
    return file && fclose(file) == 0 && written == size;
}

static int is_adapter(const eitp_variable *variable) {
    return strstr(variable->name, ".lora_A.weight") || strstr(variable->name, ".lora_B.weight");
}

/* ---- One batch ---- */

/* A graph with logits and the sum of losses, optionally with gradients. */
typedef struct pass {
    eitp_graph *graph;
    eitp_plan *plan;
    eitp_model_inputs inputs;
    eitp_tensor *targets, *carry, *logits, *losses;
} pass;

static eitp_status make_pass(pass *p, const subject *s, int differentiates, int with_key) {
    int64_t rows = ROWS, one = 1;
    eitp_status status = eitp_graph_create(s->context, &p->graph, &error_);
    p->plan = NULL;
    if (status)
        return status;
    p->inputs = eitp_model_inputs_create(p->graph, BATCH, BLOCK, with_key);
    p->targets = eitp_input_rows(p->graph, "targets", EITP_I32, 1, &rows);
    p->carry = eitp_input(p->graph, "carry", EITP_F32, 1, &one);
    p->logits = eitp_output(eitp_model_logits(s->model, eitp_model_hidden(s->model, p->graph, &p->inputs, BLOCK)));
    p->losses = eitp_output(eitp_cross_entropy(p->logits, p->targets, -100));
    if (differentiates)
        status = eitp_accumulate_gradients(eitp_sum(p->losses, EITP_ALL_DIMENSIONS, 0), p->carry, &error_);
    return status ? status : eitp_plan_create(p->graph, &p->plan, &error_);
}

static void end_pass(pass *p) {
    eitp_plan_destroy(p->plan);
    eitp_graph_destroy(p->graph);
}

/* Executes the graph. Returns the sum of losses. */
static double run_pass(const pass *p, float *logits) {
    int32_t tokens[ROWS], positions[ROWS], targets[ROWS], offsets[BATCH + 1];
    int64_t key[3] = {1, 2, 0};
    float losses[ROWS], carry = 0;
    double sum = 0;
    for (int i = 0; i < ROWS; i++) {
        tokens[i] = (i * 37 + 11) % WORDS;
        targets[i] = (i * 53 + 7) % WORDS;
        positions[i] = i % BLOCK;
    }
    for (int i = 0; i <= BATCH; i++)
        offsets[i] = i * BLOCK;
    CHECK(!eitp_plan_write(p->plan, p->inputs.tokens, tokens, sizeof tokens, &error_));
    CHECK(!eitp_plan_write(p->plan, p->inputs.positions, positions, sizeof positions, &error_));
    CHECK(!eitp_plan_write(p->plan, p->inputs.offsets, offsets, sizeof offsets, &error_));
    CHECK(!eitp_plan_write(p->plan, p->targets, targets, sizeof targets, &error_));
    CHECK(!eitp_plan_write(p->plan, p->carry, &carry, sizeof carry, &error_));
    if (p->inputs.key)
        CHECK(!eitp_plan_write(p->plan, p->inputs.key, key, sizeof key, &error_));
    CHECK_THAT(!eitp_plan_execute(p->plan, &error_), "%s", error_.message);
    CHECK(!eitp_plan_read(p->plan, p->losses, losses, sizeof losses, &error_));
    if (logits)
        CHECK(!eitp_plan_read(p->plan, p->logits, logits, ROWS * WORDS * sizeof *logits, &error_));
    for (int i = 0; i < ROWS; i++)
        sum += (double)losses[i];
    return sum;
}

/* Computes the logits of a subject. */
static void read_logits(const subject *s, float *logits) {
    pass p;
    memset(logits, 0, ROWS * WORDS * sizeof *logits);
    if (make_pass(&p, s, 0, 0))
        CHECK_THAT(0, "%s", error_.message);
    else
        run_pass(&p, logits);
    end_pass(&p);
}

static double largest_difference(const float *a, const float *b) {
    double largest = 0;
    for (int i = 0; i < ROWS * WORDS; i++)
        largest = fmax(largest, fabs((double)a[i] - (double)b[i]));
    return largest;
}

static void adapters_that_start_at_zero_change_no_bit(void) {
    static float base[ROWS * WORDS], adapted[ROWS * WORDS], trained[ROWS * WORDS];
    const eitp_host host = eitp_host_default();
    for (size_t p = 0; p < 2 * EITP__COUNT(precisions); p++) {
        eitp_lora_config lora = p < 3 ? all_targets() : eitp_lora_config_default();
        subject s;
        REQUIRE_OK(make_subject(&s, &host, precisions[p % 3]), error_);
        read_logits(&s, base);
        REQUIRE_OK(eitp_model_add_lora(s.model, &lora, &error_), error_);
        REQUIRE_OK(eitp_model_initialize_lora(s.model, 1, &error_), error_);
        read_logits(&s, adapted);
        /* In 16 bits the sum of a layer and its adapter is rounded. Without an adapter the sum stays in the product. */
        CHECK_THAT(p % 3 ? largest_difference(base, adapted) < 5e-3 : !memcmp(base, adapted, sizeof base), "%s: %g",
                   precisions[p % 3], largest_difference(base, adapted));
        CHECK_THAT(p < 3 || !memcmp(base, adapted, sizeof base), "%s: %g", precisions[p % 3],
                   largest_difference(base, adapted));
        end_subject(&s);
        REQUIRE_OK(make_subject(&s, &host, precisions[p % 3]), error_);
        REQUIRE_OK(adapt(&s, &lora), error_);
        read_logits(&s, trained);
        CHECK_THAT(largest_difference(base, trained) > 0.01, "%s", precisions[p % 3]);
        end_subject(&s);
    }
}

/* A is uniform in +-1 / sqrt(in) and depends on seed and name. B is zero. */
static void adapters_are_initialized_as_in_peft(void) {
    const eitp_host host = eitp_host_default();
    eitp_lora_config lora = all_targets();
    subject s, other;
    lora.rank = 20;
    REQUIRE_OK(make_subject(&s, &host, "fp32"), error_);
    REQUIRE_OK(make_subject(&other, &host, "bf16"), error_);
    REQUIRE_OK(eitp_model_add_lora(s.model, &lora, &error_), error_);
    REQUIRE_OK(eitp_model_initialize_lora(s.model, 1, &error_), error_);
    REQUIRE_OK(eitp_model_add_lora(other.model, &lora, &error_), error_);
    REQUIRE_OK(eitp_model_initialize_lora(other.model, 1, &error_), error_);
    for (size_t i = 0; i < eitp_variable_count(s.context); i++) {
        eitp_variable variable = eitp_variable_at(s.context, i);
        int is_a = strstr(variable.name, ".lora_A.") != NULL;
        double bound = 1 / sqrt((double)variable.shape[1]), largest = 0, squares = 0;
        float values[4000], others[4000];
        int count = (int)(variable.size / 4);
        if (!is_adapter(&variable))
            continue;
        REQUIRE(count <= 4000 && variable.dtype == EITP_F32);
        CHECK(!eitp_variable_read(s.context, variable.name, 0, values, variable.size, &error_));
        CHECK(!eitp_variable_read(other.context, variable.name, 0, others, variable.size, &error_));
        CHECK_THAT(!memcmp(values, others, variable.size), "%s", variable.name);
        for (int k = 0; k < count; k++) {
            largest = fmax(largest, fabs((double)values[k]));
            squares += (double)values[k] * (double)values[k];
        }
        if (!is_a)
            CHECK_THAT(largest == 0, "%s", variable.name);
        else
            CHECK_THAT(largest <= bound && largest > 0.95 * bound &&
                           fabs(sqrt(squares / count) / bound - sqrt(1.0 / 3)) < 0.05,
                       "%s: %g of %g, %g", variable.name, largest, bound, sqrt(squares / count));
    }
    end_subject(&other);
    end_subject(&s);
}

/* ---- Gradients ---- */

/* Returns the gradient of an adapter's parameter as F32. The caller frees it. */
static float *read_gradient(const subject *s, const char *parameter, size_t size) {
    char name[160];
    float *values = (float *)malloc(size);
    snprintf(name, sizeof name, "gradient.%s", parameter);
    CHECK_THAT(!eitp_variable_read(s->context, name, 0, values, size, &error_), "%s", error_.message);
    return values;
}

/* Adds `step` times a direction with mixed signs to a parameter. Returns the slope predicted by the gradient. */
static double move_parameter(const subject *s, const eitp_variable *variable, const float *gradient, double step) {
    int count = (int)(variable->size / 4);
    float *values = (float *)malloc(variable->size);
    double slope = 0;
    CHECK(!eitp_variable_read(s->context, variable->name, 0, values, variable->size, &error_));
    for (int k = 0; k < count; k++) {
        double direction = sin(1.7 * k + 0.3) + 3 * (double)gradient[k];
        slope += direction * (double)gradient[k];
        values[k] += (float)(step * direction);
    }
    CHECK(!eitp_variable_write(s->context, variable->name, 0, values, variable->size, &error_));
    free(values);
    return slope;
}

static void check_gradients(const eitp_lora_config *lora, int with_key) {
    const eitp_host host = eitp_host_default();
    const double step = 2e-3;
    subject s;
    pass p;
    int parameters = 0;
    REQUIRE_OK(make_subject(&s, &host, "fp32"), error_);
    REQUIRE_OK(adapt(&s, lora), error_);
    REQUIRE_OK(make_pass(&p, &s, 1, with_key), error_);
    for (size_t i = 0; i < eitp_variable_count(s.context); i++) {
        eitp_variable variable = eitp_variable_at(s.context, i);
        float *gradient;
        double slope, above, below;
        CHECK_THAT(variable.role != EITP_GRADIENT || is_adapter(&variable), "%s", variable.name);
        if (variable.role != EITP_PARAMETER || !is_adapter(&variable))
            continue;
        run_pass(&p, NULL);
        gradient = read_gradient(&s, variable.name, variable.size);
        slope = move_parameter(&s, &variable, gradient, step);
        above = run_pass(&p, NULL);
        move_parameter(&s, &variable, gradient, -2 * step);
        below = run_pass(&p, NULL);
        move_parameter(&s, &variable, gradient, step);
        CHECK_THAT(fabs((above - below) / (2 * step) / slope - 1) < 5e-3 && slope > 0.05, "%s: %g and %g",
                   variable.name, (above - below) / (2 * step), slope);
        parameters++;
        free(gradient);
    }
    CHECK(parameters == (int)eitp__lora_parameter_count(&s.model->config, lora));
    end_pass(&p);
    end_subject(&s);
}

static void gradients_match_central_differences(void) {
    eitp_lora_config lora = all_targets();
    check_gradients(&lora, 0);
    lora.rslora = 1;
    lora.targets = EITP_LORA_MLP_INPUT;
    check_gradients(&lora, 0);
    lora.dropout = 0.3;
    lora.targets = EITP_LORA_MLP_OUTPUT | EITP_LORA_ATTENTION_INPUT;
    check_gradients(&lora, 1);
    lora = some_targets();
    check_gradients(&lora, 0);
}

/* In 16-bit precision gradients are F32 and equal the f32 run's gradients up to rounding. */
static void sixteen_bit_gradients_follow_f32(void) {
    const eitp_host host = eitp_host_default();
    eitp_lora_config lora = all_targets();
    subject s, reference;
    pass p, q;
    REQUIRE_OK(make_subject(&reference, &host, "fp32"), error_);
    REQUIRE_OK(adapt(&reference, &lora), error_);
    REQUIRE_OK(make_pass(&q, &reference, 1, 0), error_);
    run_pass(&q, NULL);
    for (int k = 1; k < 3; k++) {
        REQUIRE_OK(make_subject(&s, &host, precisions[k]), error_);
        REQUIRE_OK(adapt(&s, &lora), error_);
        REQUIRE_OK(make_pass(&p, &s, 1, 0), error_);
        run_pass(&p, NULL);
        for (size_t i = 0; i < eitp_variable_count(s.context); i++) {
            eitp_variable variable = eitp_variable_at(s.context, i);
            float *a, *b;
            double difference = 0, norm = 0;
            int odd = 0;
            if (variable.role != EITP_PARAMETER || !is_adapter(&variable))
                continue;
            a = read_gradient(&s, variable.name, variable.size);
            b = read_gradient(&reference, variable.name, variable.size);
            for (size_t e = 0; e < variable.size / 4; e++) {
                difference += ((double)a[e] - (double)b[e]) * ((double)a[e] - (double)b[e]);
                norm += (double)b[e] * (double)b[e];
                odd += a[e] != eitp__bf16_to_f32(eitp__f32_to_bf16(a[e]));
            }
            CHECK_THAT(sqrt(difference / norm) < (k == 1 ? 0.12 : 0.02), "%s %s: %g", precisions[k], variable.name,
                       sqrt(difference / norm));
            CHECK_THAT(odd > 0, "%s %s is rounded", precisions[k], variable.name);
            free(a);
            free(b);
        }
        end_pass(&p);
        end_subject(&s);
    }
    end_pass(&q);
    end_subject(&reference);
}

/* Gradients of frozen weights are not computed, which saves their arithmetic. */
static void frozen_gradients_are_not_computed(void) {
    const eitp_host host = eitp_host_default();
    eitp_lora_config lora = all_targets();
    double flops[4];
    lora.rank = 1;
    for (int way = 0; way < 4; way++) {
        subject s;
        pass p;
        REQUIRE_OK(make_subject(&s, &host, "fp32"), error_);
        if (way == 2)
            REQUIRE_OK(adapt(&s, &lora), error_);
        if (way == 3)
            REQUIRE_OK(eitp_model_freeze(s.model, "embeddings,layers:2", &error_), error_);
        REQUIRE_OK(make_pass(&p, &s, way > 0, 0), error_);
        flops[way] = eitp_plan_statistics(p.plan).flops;
        end_pass(&p);
        end_subject(&s);
    }
    /* A backward pass costs two forward passes, one without weight gradients, and almost nothing for the last norm
       alone. */
    CHECK_THAT(flops[1] > 2.7 * flops[0] && flops[2] < 2.4 * flops[0], "%g, %g, %g", flops[0], flops[1], flops[2]);
    CHECK_THAT(flops[3] < 1.5 * flops[0], "%g, %g", flops[0], flops[3]);
}

/* ---- Merging ---- */

static void merging_keeps_the_logits(void) {
    static float adapted[ROWS * WORDS], merged[ROWS * WORDS], both[ROWS * WORDS];
    const eitp_host host = eitp_host_default();
    for (int way = 0; way < 3; way++) {
        eitp_lora_config lora = way < 2 ? all_targets() : some_targets();
        subject s;
        pass p;
        lora.rslora = way == 1;
        REQUIRE_OK(make_subject(&s, &host, "fp32"), error_);
        REQUIRE_OK(adapt(&s, &lora), error_);
        REQUIRE_OK(make_pass(&p, &s, 0, 0), error_);
        run_pass(&p, adapted);
        REQUIRE_OK(eitp_model_merge_lora(s.model, &error_), error_);
        run_pass(&p, both);
        read_logits(&s, merged);
        CHECK_THAT(largest_difference(adapted, merged) < 2e-5 && largest_difference(adapted, merged) > 0, "%g",
                   largest_difference(adapted, merged));
        CHECK(!memcmp(merged, both, sizeof merged));
        REQUIRE_OK(eitp_model_merge_lora(s.model, &error_), error_);
        run_pass(&p, both);
        CHECK(!memcmp(merged, both, sizeof merged));
        end_pass(&p);
        end_subject(&s);
    }
}

/* A merged weight is W + scale (B A)^T, element by element. */
static void merging_adds_the_scaled_product(void) {
    static const char name[] = "transformer.h.1.mlp.c_fc";
    enum { RANK = 3, IN = 24, OUT = 40 };
    const eitp_host host = eitp_host_default();
    for (int way = 0; way < 2; way++) {
        eitp_lora_config lora = all_targets();
        static float before[IN * OUT], after[IN * OUT], a[RANK * IN], b[OUT * RANK];
        const double scale = way ? 5 / sqrt(3.0) : 5.0 / 3;
        char weight[80], name_a[80], name_b[80];
        double worst = 0;
        subject s;
        lora.rslora = way;
        snprintf(weight, sizeof weight, "%s.weight", name);
        snprintf(name_a, sizeof name_a, "%s.lora_A.weight", name);
        snprintf(name_b, sizeof name_b, "%s.lora_B.weight", name);
        REQUIRE_OK(make_subject(&s, &host, "fp32"), error_);
        REQUIRE_OK(adapt(&s, &lora), error_);
        REQUIRE_OK(eitp_variable_read(s.context, weight, 0, before, sizeof before, &error_), error_);
        REQUIRE_OK(eitp_variable_read(s.context, name_a, 0, a, sizeof a, &error_), error_);
        REQUIRE_OK(eitp_variable_read(s.context, name_b, 0, b, sizeof b, &error_), error_);
        REQUIRE_OK(eitp_model_merge_lora(s.model, &error_), error_);
        REQUIRE_OK(eitp_variable_read(s.context, weight, 0, after, sizeof after, &error_), error_);
        for (int i = 0; i < IN; i++) {
            for (int o = 0; o < OUT; o++) {
                double product = 0;
                for (int r = 0; r < RANK; r++)
                    product += (double)b[o * RANK + r] * (double)a[r * IN + i];
                worst = fmax(worst, fabs((double)before[i * OUT + o] + scale * product - (double)after[i * OUT + o]));
            }
        }
        CHECK_THAT(worst < 1e-7, "%g", worst);
        end_subject(&s);
    }
}

/* ---- Names ---- */

static void targets_match_ends_of_names(void) {
    static const struct {
        const char *names, *written;
        unsigned targets, blocks[2]; /* of blocks 0 and 1023 */
    } cases[] = {
        {"c_attn", "c_attn", EITP_LORA_ATTENTION_INPUT, {0, 0}},
        {"c_proj", "c_proj", EITP_LORA_ATTENTION_OUTPUT | EITP_LORA_MLP_OUTPUT, {0, 0}},
        {"attn.c_proj", "attn.c_proj", EITP_LORA_ATTENTION_OUTPUT, {0, 0}},
        {"mlp.c_proj,c_attn", "c_attn,mlp.c_proj", EITP_LORA_MLP_OUTPUT | EITP_LORA_ATTENTION_INPUT, {0, 0}},
        {"mlp.c_fc,attn.c_attn,c_proj", "c_attn,c_fc,c_proj", 15, {0, 0}},
        {"all-linear", "c_attn,c_fc,c_proj", 15, {0, 0}},
        {"transformer.h.0.attn.c_attn", "h.0.attn.c_attn", 0, {1, 0}},
        {"h.1023.mlp.c_fc,0.attn.c_attn,h.0.mlp.c_proj,attn.c_proj",
         "attn.c_proj,h.0.attn.c_attn,h.0.mlp.c_proj,h.1023.mlp.c_fc",
         EITP_LORA_ATTENTION_OUTPUT,
         {1 + 8, 4}},
    };
    static const char *const bad[] = {"",
                                      "c_attn,",
                                      ",",
                                      "proj",
                                      "wte",
                                      "attn",
                                      "c_attn c_fc",
                                      "h.0.attn",
                                      "0.c_attn",
                                      "h.00.attn.c_attn",
                                      "h..attn.c_attn",
                                      "h.x.attn.c_attn",
                                      "x.h.0.attn.c_attn",
                                      "r.h.0.attn.c_attn",
                                      "h.1024.attn.c_attn",
                                      "h.99999999999.attn.c_attn"};
    const eitp_lora_config none = EITP__ZERO;
    eitp_lora_config config = none;
    char text[64];
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        REQUIRE_OK(eitp_lora_targets_parse(NULL, cases[i].names, &config, &error_), error_);
        CHECK_THAT(config.targets == cases[i].targets && config.block_targets[0] == cases[i].blocks[0] &&
                       config.block_targets[1023] == cases[i].blocks[1] && !config.block_targets[1],
                   "%s: %u, %u, %u", cases[i].names, config.targets, config.block_targets[0],
                   config.block_targets[1023]);
        CHECK(eitp_lora_targets_format(NULL, &config, text, sizeof text) == strlen(cases[i].written));
        CHECK_THAT(!strcmp(text, cases[i].written), "%s", text);
        CHECK(eitp_lora_targets_format(NULL, &config, NULL, 0) == strlen(cases[i].written));
        CHECK(eitp_lora_targets_format(NULL, &config, text, 4) == strlen(cases[i].written) && strlen(text) == 3);
    }
    CHECK(!eitp_lora_targets_format(NULL, NULL, text, sizeof text) && !*text);
    for (size_t i = 0; i < EITP__COUNT(bad); i++) {
        const eitp_lora_config before = config;
        CHECK_THAT(eitp_lora_targets_parse(NULL, bad[i], &config, &error_) == EITP_ERROR_ARGUMENT &&
                       !memcmp(&config, &before, sizeof before),
                   "%s", bad[i]);
    }
}

/* Different spellings select the same targets of a model. Adapters start with the same values no matter which others
   exist. */
static void targets_may_differ_between_blocks(void) {
    static const struct {
        const char *names;
        unsigned targets, blocks[2];
    } cases[] = {
        {"c_attn,c_fc", 5, {0, 0}},
        {"h.1.attn.c_attn,c_fc,h.0.attn.c_attn", 5, {0, 0}},
        {"h.1.mlp.c_fc,h.0.mlp.c_fc,h.1.attn.c_attn", 4, {0, 1}},
        {"h.0.attn.c_attn,h.1.mlp.c_proj", 0, {1, 8}},
        {"h.0.attn.c_attn,h.0.mlp.c_fc,attn.c_attn", 1, {4, 0}},
    };
    const eitp_host host = eitp_host_default();
    eitp_lora_config lora = all_targets();
    subject s, whole;
    REQUIRE_OK(make_subject(&whole, &host, "fp32"), error_);
    REQUIRE_OK(eitp_model_add_lora(whole.model, &lora, &error_), error_);
    REQUIRE_OK(eitp_model_initialize_lora(whole.model, 3, &error_), error_);
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        eitp_lora_config added;
        size_t adapters = 0;
        REQUIRE_OK(make_subject(&s, &host, "fp32"), error_);
        REQUIRE_OK(eitp_lora_targets_parse(NULL, cases[i].names, &lora, &error_), error_);
        REQUIRE_OK(eitp_model_add_lora(s.model, &lora, &error_), error_);
        REQUIRE_OK(eitp_model_initialize_lora(s.model, 3, &error_), error_);
        added = eitp_model_lora_config(s.model);
        CHECK_THAT(added.targets == cases[i].targets && added.block_targets[0] == cases[i].blocks[0] &&
                       added.block_targets[1] == cases[i].blocks[1],
                   "%s: %u, %u, %u", cases[i].names, added.targets, added.block_targets[0], added.block_targets[1]);
        for (size_t k = 0; k < eitp_variable_count(s.context); k++) {
            const eitp_variable variable = eitp_variable_at(s.context, k);
            const int block = strstr(variable.name, ".h.1.") != NULL;
            const unsigned layer = strstr(variable.name, "c_attn")   ? 1
                                   : strstr(variable.name, "c_fc")   ? 4
                                   : strstr(variable.name, "attn.c") ? 2
                                                                     : 8;
            float a[400], b[400];
            if (!is_adapter(&variable))
                continue;
            adapters++;
            CHECK_THAT((cases[i].targets | cases[i].blocks[block]) & layer, "%s: %s", cases[i].names, variable.name);
            REQUIRE(variable.size <= sizeof a);
            CHECK(!eitp_variable_read(s.context, variable.name, 0, a, variable.size, &error_));
            CHECK(!eitp_variable_read(whole.context, variable.name, 0, b, variable.size, &error_));
            CHECK_THAT(!memcmp(a, b, variable.size), "%s", variable.name);
            CHECK(eitp__layers_above(s.model, variable.name) == 2 - block);
        }
        CHECK_THAT((int64_t)adapters == eitp__lora_parameter_count(&s.model->config, &s.model->lora) &&
                       adapters == (i < 2    ? 8
                                    : i == 3 ? 4
                                             : 6),
                   "%s: %zu", cases[i].names, adapters);
        end_subject(&s);
    }
    end_subject(&whole);
    REQUIRE_OK(make_subject(&s, &host, "fp32"), error_);
    REQUIRE_OK(eitp_lora_targets_parse(NULL, "h.0.attn.c_attn,h.2.attn.c_attn", &lora, &error_), error_);
    CHECK(eitp_model_add_lora(s.model, &lora, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "name block 2; this gpt2 model has blocks 0 to 1"), "%s", error_.message);
    lora.block_targets[2] = 0;
    lora.block_targets[1] = 16;
    CHECK(eitp_model_add_lora(s.model, &lora, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "targets 17 for gpt2 (allowed mask 15)"), "%s", error_.message);
    CHECK(eitp_model_lora_config(s.model).rank == 0);
    end_subject(&s);
}

static void configurations_are_checked(void) {
    const eitp_host host = eitp_host_default();
    subject s;
    pass p;
    REQUIRE_OK(make_subject(&s, &host, "bf16"), error_);
    for (int i = 0; i < 7; i++) {
        eitp_lora_config lora = eitp_lora_config_default();
        size_t before = eitp_variable_count(s.context);
        lora.rank = i == 0 ? 0 : i == 1 ? (int64_t)1 << 40 : 8;
        lora.alpha = i == 2 ? 0 : i == 3 ? (double)NAN : 8;
        lora.dropout = i == 4 ? 1 : 0;
        lora.targets = i == 5 ? 0 : i == 6 ? 16 : 1;
        CHECK_THAT(eitp_model_add_lora(s.model, &lora, &error_) == EITP_ERROR_ARGUMENT, "%d", i);
        CHECK(eitp_variable_count(s.context) == before && eitp_model_lora_config(s.model).rank == 0);
    }
    REQUIRE_OK(make_pass(&p, &s, 0, 0), error_);
    {
        eitp_lora_config lora = eitp_lora_config_default();
        CHECK(eitp_model_add_lora(s.model, &lora, &error_) == EITP_ERROR_ARGUMENT);
        CHECK(eitp_model_freeze(s.model, "embeddings", &error_) == EITP_ERROR_ARGUMENT);
        end_pass(&p);
        CHECK(eitp_model_add_lora(s.model, &lora, &error_) == EITP_OK);
        CHECK(eitp_model_add_lora(s.model, &lora, &error_) == EITP_ERROR_ARGUMENT);
    }
    CHECK(eitp_variable_set_trained(s.context, "none", 0, &error_) == EITP_ERROR_ARGUMENT);
    end_subject(&s);
}

static int is_trained(const subject *s, const char *name) {
    int64_t index = eitp_variable_find(s->context, name);
    return index >= 0 && eitp_variable_at(s->context, (size_t)index).trained;
}

static void parts_are_frozen_by_name(void) {
    static const struct {
        const char *parts;
        int frozen; /* number of the 28 parameters that are frozen */
        const char *one;
    } cases[] = {
        {"embeddings", 2, "transformer.wpe.weight"},
        {"layers:1", 12, "transformer.h.0.ln_1.weight"},
        {"layers:2,embeddings", 26, "transformer.h.1.mlp.c_proj.bias"},
        {"*.bias", 13, "transformer.ln_f.bias"},
        {"h.*.attn.*", 8, "transformer.h.1.attn.c_attn.weight"},
        {"transformer.ln_f.weight", 1, "transformer.ln_f.weight"},
        {"*", 28, "transformer.wte.weight"},
        {"h.0.*c*j.*t,h.0.*", 12, "transformer.h.0.attn.c_proj.weight"},
    };
    static const char *const bad[] = {"",          "embedding",          "layers:3", "layers:0", "layers:x",
                                      "layers:1,", "embeddings,nothing", "h.2.*",    "*.weigh"};
    const eitp_host host = eitp_host_default();
    for (size_t c = 0; c < EITP__COUNT(cases); c++) {
        subject s;
        int frozen = 0, remainders = 0;
        REQUIRE_OK(make_subject(&s, &host, "bf16"), error_);
        if (c == 0) {
            for (size_t i = 0; i < EITP__COUNT(bad); i++)
                CHECK_THAT(eitp_model_freeze(s.model, bad[i], &error_) == EITP_ERROR_ARGUMENT, "%s", bad[i]);
            CHECK(eitp_model_trained_parameter_count(s.model) == eitp_model_parameter_count(s.model));
        }
        REQUIRE_OK(eitp_model_freeze(s.model, cases[c].parts, &error_), error_);
        for (size_t i = 0; i < eitp_variable_count(s.context); i++) {
            eitp_variable variable = eitp_variable_at(s.context, i);
            if (variable.role != EITP_PARAMETER)
                continue;
            frozen += !variable.trained;
            remainders += !variable.trained && eitp__remainder_of(s.context, &s.context->variables[i]) != NULL;
        }
        CHECK_THAT(frozen == cases[c].frozen && !remainders && !is_trained(&s, cases[c].one), "%s: %d, %d",
                   cases[c].parts, frozen, remainders);
        end_subject(&s);
    }
}

/* If parameters are frozen before the model has values, their remainders are never allocated. */
static void remainders_of_frozen_parameters_take_no_memory(void) {
    eitp_context_config config = eitp_context_config_default();
    eitp_transformer_config shape = small_shape();
    eitp_lora_config lora = eitp_lora_config_default();
    subject s;
    config.precision = "bf16";
    REQUIRE_OK(eitp_context_create(&config, &s.context, &error_), error_);
    REQUIRE_OK(eitp_model_create(s.context, &shape, &s.model, &error_), error_);
    REQUIRE_OK(eitp_model_add_lora(s.model, &lora, &error_), error_);
    REQUIRE_OK(eitp_model_initialize(s.model, 1, &error_), error_);
    CHECK(eitp_context_variable_bytes(s.context, EITP_REMAINDER) == 0);
    CHECK(eitp_context_variable_bytes(s.context, EITP_PARAMETER) > 0);
    end_subject(&s);
}

/* ---- Training ---- */

/* A run on generated text in a scratch directory. */
typedef struct run {
    subject s;
    eitp_tokenizer *tokenizer;
    eitp_sample_file *file;
    eitp_task task;
    eitp_trainer *trainer;
} run;

/* The settings of a run. */
typedef struct terms {
    const char *precision;
    const char *freeze; /* NULL: adapters */
    eitp_lora_config lora;
    int64_t micro_batches_per_pass;
    uint64_t base;         /* seed of the base weights */
    const char *directory; /* directory of the base weights; NULL: none */
    int loads_first;       /* loads the base weights before the adapters are added */
    double dropout;        /* the model's dropout */
} terms;

static terms default_terms(const char *precision) {
    terms w;
    memset(&w, 0, sizeof w);
    w.precision = precision;
    w.lora = all_targets();
    w.lora.dropout = 0.2;
    w.micro_batches_per_pass = 2;
    w.base = 3;
    w.dropout = 0.1;
    return w;
}

static int write_text(const char *directory) {
    FILE *file = fopen(scratch_path(directory, "text.txt"), "wb");
    if (!file)
        return 0;
    for (int i = 0; i < 900; i++)
        fprintf(file, "%s%d ", i % 3 ? "leaf " : "tree ", i % 7);
    return fclose(file) == 0;
}

static eitp_status make_model(run *r, const eitp_host *host, const terms *w) {
    eitp_context_config context = eitp_context_config_default();
    eitp_transformer_config shape = small_shape();
    eitp_status status;
    context.host = *host;
    context.threads = 2;
    context.precision = w->precision;
    shape.vocabulary = 257;
    shape.embedding_dropout = shape.attention_dropout = shape.residual_dropout = w->dropout;
    status = eitp_context_create(&context, &r->s.context, &error_);
    if (!status)
        status = eitp_model_create(r->s.context, &shape, &r->s.model, &error_);
    if (!status && w->loads_first)
        status = eitp_model_load_weights(r->s.model, w->directory, &error_);
    if (!status && w->lora.rank)
        status = eitp_model_add_lora(r->s.model, &w->lora, &error_);
    if (!status && w->freeze)
        status = eitp_model_freeze(r->s.model, w->freeze, &error_);
    if (!status && !w->directory)
        status = eitp_model_initialize(r->s.model, w->base, &error_);
    if (!status && w->directory && !w->loads_first)
        status = eitp_model_load_weights(r->s.model, w->directory, &error_);
    return status ? status : eitp_model_initialize_lora(r->s.model, 4, &error_);
}

static eitp_status make_trainer(run *r, eitp_token_range training, eitp_token_range validation,
                                const eitp_trainer_config *config) {
    eitp_language_config language = eitp_language_config_default();
    eitp_status status;
    language.model = r->s.model;
    language.training = eitp_sample_file_token_source(r->file, training);
    language.validation = eitp_sample_file_token_source(r->file, validation);
    language.block_size = 16;
    language.tokenizer = r->tokenizer;
    status = eitp_language_task(&language, &r->task, &error_);
    return status ? status : eitp_trainer_create(&r->task, config, &r->trainer, &error_);
}

static eitp_status make_run(run *r, const eitp_host *host, const terms *w, const char *directory) {
    eitp_trainer_config config = eitp_trainer_config_default();
    const char *path = scratch_path(directory, "text.txt");
    char packed[600];
    eitp_token_range training, validation;
    eitp_pack_config pack = eitp_pack_config_default();
    eitp_status status;
    memset(r, 0, sizeof *r);
    pack.texts.paths = &path;
    pack.texts.path_count = 1;
    config.batch_size = 2;
    config.grad_accum = 2;
    config.micro_batches_per_pass = w->micro_batches_per_pass;
    config.seed = 11;
    config.schedule.peak = 1e-2;
    snprintf(packed, sizeof packed, "%s", scratch_path(directory, "text.tokens"));
    status = eitp_tokenizer_create_bytes(host, &r->tokenizer, &error_);
    if (!status)
        status = eitp_pack(host, r->tokenizer, &pack, packed, NULL, &error_);
    if (!status)
        status = eitp_sample_file_open(host, packed, 257, &r->file, &error_);
    if (!status)
        status =
            eitp_split_tokens(eitp_sample_file_get_info(r->file).token_count, 0.1, 16, &training, &validation, &error_);
    if (!status)
        status = make_model(r, host, w);
    return status ? status : make_trainer(r, training, validation, &config);
}

static void end_run(run *r) {
    eitp_trainer_destroy(r->trainer);
    eitp_task_release(&r->task);
    end_subject(&r->s);
    eitp_sample_file_close(r->file);
    eitp_tokenizer_destroy(r->tokenizer);
}

static int step_many(run *r, int64_t steps) {
    for (int64_t i = 0; i < steps; i++) {
        eitp_step_report report;
        if (eitp_trainer_step(r->trainer, &report, &error_)) {
            printf("    %s\n", error_.message);
            return 0;
        }
        CHECK(report.applied && report.grad_norm > 0 && report.update_norm > 0);
    }
    return 1;
}

/* Returns a checksum of the trained or of the frozen parameters, and of the optimizer state. */
static uint32_t fingerprint(const run *r, int trained) {
    uint32_t crc = 0;
    for (size_t i = 0; i < eitp_variable_count(r->s.context); i++) {
        eitp_variable variable = eitp_variable_at(r->s.context, i);
        void *bytes;
        if (variable.role == EITP_GRADIENT || variable.role == EITP_CACHE ||
            (variable.role == EITP_PARAMETER ? variable.trained : 1) != trained)
            continue;
        bytes = malloc(variable.size);
        CHECK(!eitp_variable_read(r->s.context, variable.name, 0, bytes, variable.size, &error_));
        crc = eitp__crc32c(crc, bytes, variable.size);
        free(bytes);
    }
    return crc;
}

/* Checks that frozen parameters have no state. */
static void check_nothing_is_kept_for_frozen(const run *r) {
    eitp_context *context = r->s.context;
    size_t trained = 0, wide = 0;
    for (size_t i = 0; i < eitp_variable_count(context); i++) {
        eitp_variable variable = eitp_variable_at(context, i);
        char name[200];
        static const char *const prefixes[] = {"adamw.m.", "adamw.v.", "gradient.", "remainder."};
        if (variable.role != EITP_PARAMETER)
            continue;
        trained += variable.trained ? variable.size / eitp_dtype_size(variable.dtype) : 0;
        wide += variable.trained && variable.dtype != EITP_F32 ? variable.size / eitp_dtype_size(variable.dtype) : 0;
        for (size_t k = 0; k < EITP__COUNT(prefixes); k++) {
            snprintf(name, sizeof name, "%s%s", prefixes[k], variable.name);
            CHECK_THAT(eitp_variable_find(context, name) < 0 || variable.trained, "%s", name);
            CHECK_THAT(eitp_variable_find(context, name) >= 0 || !variable.trained || k > 1, "%s", name);
        }
    }
    CHECK(trained == (size_t)eitp_model_trained_parameter_count(r->s.model));
    CHECK(eitp_context_variable_bytes(context, EITP_OPTIMIZER) == 8 * trained);
    CHECK(eitp_context_variable_bytes(context, EITP_REMAINDER) ==
          wide * (eitp_context_precision(context) == EITP_BF16 ? 2 : 4));
}

static void frozen_parameters_keep_their_bits_and_have_no_state(void) {
    static const char *const parts[] = {NULL, "embeddings,layers:1", "*.bias,ln_f.*"};
    const eitp_host host = eitp_host_default();
    char directory[512];
    REQUIRE(scratch_make(directory) && write_text(directory));
    for (size_t k = 0; k < EITP__COUNT(parts) * EITP__COUNT(precisions) * 2; k++) {
        terms w = default_terms(precisions[k / 2 % 3]);
        uint32_t frozen, trained;
        run r;
        w.micro_batches_per_pass = k % 2 ? 1 : 2;
        w.freeze = parts[k / 6];
        if (w.freeze)
            w.lora.rank = 0;
        REQUIRE_OK(make_run(&r, &host, &w, directory), error_);
        check_nothing_is_kept_for_frozen(&r);
        frozen = fingerprint(&r, 0);
        trained = fingerprint(&r, 1);
        if (strcmp(w.precision, "fp16"))
            REQUIRE(step_many(&r, 3));
        CHECK(fingerprint(&r, 0) == frozen);
        CHECK((fingerprint(&r, 1) != trained) == (strcmp(w.precision, "fp16") != 0));
        end_run(&r);
    }
    scratch_remove(directory);
}

static void training_with_everything_frozen_is_refused(void) {
    const eitp_host host = eitp_host_default();
    char directory[512];
    terms w = default_terms("fp32");
    run r;
    REQUIRE(scratch_make(directory) && write_text(directory));
    w.lora.rank = 0;
    w.freeze = "*";
    CHECK(make_run(&r, &host, &w, directory) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "no trained parameter"), "%s", error_.message);
    end_run(&r);
    scratch_remove(directory);
}

/* The adapters' task with an additional trained parameter. */
static eitp_status build_with_own(void *user, eitp_pass *made, eitp_error *error) {
    const eitp_task *inner = (const eitp_task *)user;
    const int64_t shape[] = {8};
    eitp_status status = inner->build(inner->user, made, error);
    eitp_tensor *miss = eitp_affine(eitp_parameter(eitp_pass_graph(made), "own.bias", 1, shape), 1, -1);
    eitp_pass_term(made, "own", eitp_sum(eitp_multiply(miss, miss), EITP_ALL_DIMENSIONS, 0), NULL);
    return status ? status : eitp_graph_status(eitp_pass_graph(made), error);
}

static eitp_status read_inner(void *user, eitp_split split, uint64_t number, eitp_sample *sample, eitp_error *error) {
    const eitp_task *inner = (const eitp_task *)user;
    return inner->read(inner->user, split, number, sample, error);
}

/* Recreates the run's trainer with the task `own`, which the run must not release. */
static eitp_status add_own(run *r, eitp_task *own) {
    eitp_trainer_config config = eitp_trainer_config_default();
    config.batch_size = 2;
    config.grad_accum = 2;
    config.seed = 11;
    config.schedule.peak = 1e-2;
    eitp_trainer_destroy(r->trainer);
    r->trainer = NULL;
    memset(own, 0, sizeof *own);
    own->user = &r->task;
    own->context = r->task.context;
    own->model = r->task.model;
    own->rows = r->task.rows;
    own->samples[EITP_TRAINING] = r->task.samples[EITP_TRAINING];
    own->allows_gaps = 1;
    own->build = build_with_own;
    own->read = read_inner;
    return eitp_trainer_create(own, &config, &r->trainer, &error_);
}

static void parameters_trained_besides_adapters_are_resumed(void) {
    const eitp_host host = eitp_host_default();
    char directory[512], checkpoint[600];
    float before[8], after[8];
    terms w = default_terms("fp32");
    eitp_task own;
    run r;
    uint32_t trained, straight, resumed;
    REQUIRE(scratch_make(directory) && write_text(directory));
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-3", directory);
    REQUIRE_OK(make_run(&r, &host, &w, directory), error_);
    REQUIRE_OK(add_own(&r, &own), error_);
    REQUIRE(step_many(&r, 3));
    REQUIRE_OK(eitp_trainer_save(r.trainer, directory, &error_), error_);
    REQUIRE_OK(eitp_variable_read_f32(r.s.context, "own.bias", 0, before, 8, &error_), error_);
    CHECK(before[0] > 0);
    trained = fingerprint(&r, 1);
    REQUIRE(step_many(&r, 1));
    straight = fingerprint(&r, 1);
    end_run(&r);
    /* A run without the parameter, and a checkpoint without it, are refused. */
    REQUIRE_OK(make_run(&r, &host, &w, directory), error_);
    CHECK(eitp_trainer_resume(r.trainer, checkpoint, &error_) != EITP_OK);
    REQUIRE(step_many(&r, 4));
    REQUIRE_OK(eitp_trainer_save(r.trainer, directory, &error_), error_);
    REQUIRE_OK(add_own(&r, &own), error_);
    CHECK(eitp_trainer_resume(r.trainer, scratch_path(directory, "checkpoint-4"), &error_) != EITP_OK);
    REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
    REQUIRE_OK(eitp_variable_read_f32(r.s.context, "own.bias", 0, after, 8, &error_), error_);
    CHECK_THAT(!memcmp(before, after, sizeof before), "%g %g", (double)before[0], (double)after[0]);
    CHECK(fingerprint(&r, 1) == trained);
    REQUIRE(step_many(&r, 1));
    resumed = fingerprint(&r, 1);
    CHECK(resumed == straight);
    end_run(&r);
    scratch_remove(directory);
}

/* Adapters learn. Dropout is used in training and not in evaluation. */
static void adapters_learn(void) {
    const eitp_host host = eitp_host_default();
    char directory[512];
    eitp_evaluation before, after, other;
    terms w = default_terms("fp32");
    run r;
    REQUIRE(scratch_make(directory) && write_text(directory));
    REQUIRE_OK(make_run(&r, &host, &w, directory), error_);
    REQUIRE_OK(eitp_trainer_evaluate(r.trainer, 0, &before, &error_), error_);
    REQUIRE(step_many(&r, 60));
    REQUIRE_OK(eitp_trainer_evaluate(r.trainer, 0, &after, &error_), error_);
    REQUIRE_OK(eitp_trainer_evaluate(r.trainer, 0, &other, &error_), error_);
    CHECK_THAT(after.loss < before.loss - 0.1 && after.loss == other.loss, "%g, %g", before.loss, after.loss);
    end_run(&r);
    scratch_remove(directory);
}

static void dropout_of_adapters_affects_training_only(void) {
    const eitp_host host = eitp_host_default();
    char directory[512];
    uint32_t crc[2];
    double loss[2];
    REQUIRE(scratch_make(directory) && write_text(directory));
    for (int i = 0; i < 2; i++) {
        terms w = default_terms("fp32");
        eitp_evaluation evaluation;
        run r;
        w.dropout = 0;
        w.lora.dropout = i ? 0.2 : 0;
        REQUIRE_OK(make_run(&r, &host, &w, directory), error_);
        for (size_t v = 0; v < eitp_variable_count(r.s.context); v++) {
            eitp_variable variable = eitp_variable_at(r.s.context, v);
            if (variable.role == EITP_PARAMETER && strstr(variable.name, ".lora_B."))
                CHECK(!eitp_variable_fill_normal(r.s.context, variable.name, 0, 0.3, 17, &error_));
        }
        REQUIRE_OK(eitp_trainer_evaluate(r.trainer, 0, &evaluation, &error_), error_);
        loss[i] = evaluation.loss;
        REQUIRE(step_many(&r, 1));
        crc[i] = fingerprint(&r, 1);
        end_run(&r);
    }
    CHECK(loss[0] == loss[1] && crc[0] != crc[1]);
    scratch_remove(directory);
}

/* Compares an uninterrupted run to step 6 with: some steps, save, new objects, resume, the remaining steps. */
static void a_resumed_run_has_the_same_bits(void) {
    const eitp_host host = eitp_host_default();
    char directory[512];
    REQUIRE(scratch_make(directory) && write_text(directory));
    for (int k = 0; k < 5; k++) {
        terms w = default_terms(precisions[k % 2]);
        uint32_t straight, frozen;
        run r;
        if (k == 4) {
            w.lora = some_targets();
        } else if (k > 1) {
            w.lora.rank = 0;
            w.freeze = "layers:1,*.bias";
        }
        REQUIRE_OK(make_run(&r, &host, &w, directory), error_);
        REQUIRE(step_many(&r, 6));
        straight = fingerprint(&r, 1);
        frozen = fingerprint(&r, 0);
        end_run(&r);
        for (int cut = 0; cut < 6; cut += 2) {
            char output[600], checkpoint[700], names[800];
            eitp_checkpoint_info info;
            snprintf(output, sizeof output, "%s/out-%d-%d", directory, k, cut);
            snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-%d", output, cut);
            REQUIRE_OK(make_run(&r, &host, &w, directory), error_);
            REQUIRE(step_many(&r, cut));
            REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
            end_run(&r);
            snprintf(names, sizeof names, "%s/model.safetensors", checkpoint);
            CHECK((access(names, F_OK) == 0) == (k == 2 || k == 3));
            REQUIRE_OK(eitp_checkpoint_read_info(&host, checkpoint, &info, &error_), error_);
            REQUIRE_OK(make_run(&r, &host, &w, directory), error_);
            CHECK(eitp__lora_configs_equal(&info.lora, &r.s.model->lora));
            REQUIRE(step_many(&r, 1));
            REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
            REQUIRE(step_many(&r, 6 - cut));
            CHECK_THAT(fingerprint(&r, 1) == straight && fingerprint(&r, 0) == frozen, "%s, cut at %d", w.precision,
                       cut);
            end_run(&r);
        }
    }
    scratch_remove(directory);
}

/* A resume with another configuration, other base weights or no adapters is refused and leaves the trainer
   unchanged. */
static void a_resume_with_other_settings_is_refused(void) {
    static const char *const words[] = {"rank 3",        "alpha 5", "dropout 0.2", "targets", "rank 3",
                                        "other weights", "rank 3",  "targets",     "damaged"};
    const eitp_host host = eitp_host_default();
    char directory[512], output[600], checkpoint[700];
    terms w = default_terms("fp32");
    run r;
    REQUIRE(scratch_make(directory) && write_text(directory));
    snprintf(output, sizeof output, "%s/out", directory);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-1", output);
    REQUIRE_OK(make_run(&r, &host, &w, directory), error_);
    REQUIRE(step_many(&r, 1));
    REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
    end_run(&r);
    for (int k = 0; k < 9; k++) {
        terms other = w;
        uint32_t before;
        other.lora.rank = k == 0 ? 4 : k == 6 ? 0 : 3;
        other.lora.alpha = k == 1 ? 6 : 5;
        other.lora.dropout = k == 2 ? 0.1 : 0.2;
        other.lora.targets = k == 3 ? EITP_LORA_ATTENTION_INPUT : k == 7 ? 7 : w.lora.targets;
        other.lora.block_targets[1] = k == 7 ? 8 : 0;
        other.lora.rslora = k == 4;
        other.base = k == 5 ? 77 : w.base;
        REQUIRE_OK(make_run(&r, &host, &other, directory), error_);
        before = fingerprint(&r, 1);
        if (k == 8) {
            FILE *file = fopen(scratch_path(checkpoint, "adapter_model.safetensors"), "r+b");
            REQUIRE(file != NULL);
            fseek(file, -100, SEEK_END);
            fputc(0x3c, file);
            fclose(file);
        }
        CHECK_THAT(eitp_trainer_resume(r.trainer, checkpoint, &error_) != EITP_OK, "%d", k);
        CHECK_THAT(strstr(error_.message, words[k]), "%d: %s", k, error_.message);
        CHECK(eitp_trainer_steps_done(r.trainer) == 0 && fingerprint(&r, 1) == before);
        end_run(&r);
    }
    scratch_remove(directory);
}

/* ---- The base ---- */

/* Saves a model with the shape of a run's. Some values are halfway between two bf16 values. */
static eitp_status save_base(const eitp_host *host, uint64_t seed, const char *directory) {
    terms w = default_terms("fp32");
    run r;
    eitp_status status;
    memset(&r, 0, sizeof r);
    w.base = seed;
    w.lora.rank = 0;
    status = make_model(&r, host, &w);
    if (!status)
        status = eitp_variable_fill(r.s.context, "transformer.wpe.weight", 1.00390625, &error_);
    if (!status)
        status = eitp_model_save(r.s.model, directory, &error_);
    end_subject(&r.s);
    return status;
}

/* Loads a model in a precision, then adapters. */
static eitp_status load_both(const eitp_host *host, const char *base, const char *adapters, const char *precision,
                             eitp_parameter_form form) {
    eitp_context_config config = eitp_context_config_default();
    eitp_status status;
    subject s;
    memset(&s, 0, sizeof s);
    config.host = *host;
    config.threads = 1;
    config.precision = precision;
    config.parameters = form;
    status = eitp_context_create(&config, &s.context, &error_);
    if (!status)
        status = eitp_model_load(s.context, base, &s.model, &error_);
    if (!status)
        status = eitp_lora_load(s.model, adapters, &error_);
    CHECK_THAT(!s.model || eitp_model_lora_config(s.model).rank == (status ? 0 : 3), "%s", error_.message);
    end_subject(&s);
    return status;
}

/* Adapters accept their base weights in any precision, including one that rounds values that the run did not. It
   does not matter whether the run added adapters before or after loading its weights, and thus whether it has
   remainders. */
static void adapters_go_with_the_weights_they_were_trained_on(void) {
    const eitp_host host = eitp_host_default();
    char directory[512], base[600], other[600], output[600], checkpoint[700];
    REQUIRE(scratch_make(directory) && write_text(directory));
    snprintf(base, sizeof base, "%s/base", directory);
    snprintf(other, sizeof other, "%s/other", directory);
    REQUIRE_OK(save_base(&host, 3, base), error_);
    REQUIRE_OK(save_base(&host, 4, other), error_);
    for (int way = 0; way < 6; way++) {
        terms w = default_terms(precisions[way % 3]);
        run r;
        w.directory = base;
        w.loads_first = way / 3;
        snprintf(output, sizeof output, "%s/out-%d", directory, way);
        snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-0", output);
        REQUIRE_OK(make_run(&r, &host, &w, directory), error_);
        REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
        end_run(&r);
        for (int reader = 0; reader < 6; reader++) {
            const char *precision = precisions[reader % 3];
            const eitp_parameter_form form = reader / 3 ? EITP_PARAMETERS_EXACT : EITP_PARAMETERS_ROUNDED;
            CHECK_THAT(!load_both(&host, base, checkpoint, precision, form), "%d in %s: %s", way, precision,
                       error_.message);
            CHECK_THAT(load_both(&host, other, checkpoint, precision, form) == EITP_ERROR_ARGUMENT, "%d in %s", way,
                       precision);
            CHECK_THAT(strstr(error_.message, other) && strstr(error_.message, checkpoint), "%s", error_.message);
        }
    }
    scratch_remove(directory);
}

static int takes_all(void *user, const eitp_model *model, const eitp__parameter *parameter) {
    (void)user, (void)model, (void)parameter;
    return 1;
}

static void add_values(void *user, const eitp__parameter *parameter, const float *values, size_t count) {
    uint32_t *sum = (uint32_t *)user;
    (void)parameter;
    *sum = eitp__crc32c(*sum, values, count * sizeof *values);
}

/* Returns the checksum of all parameters of a model in f32. */
static uint32_t sum_of_model(const subject *s) {
    const eitp_transformer_config config = eitp_model_config(s->model);
    static float values[300000];
    uint32_t sum = 0;
    for (int64_t i = 0; i < eitp__parameter_count(&config); i++) {
        const eitp__parameter parameter = eitp__parameter_at(&config, i);
        const int64_t count = eitp__parameter_elements(&parameter);
        CHECK(count <= (int64_t)EITP__COUNT(values) &&
              !eitp_variable_read_f32(s->context, parameter.name, 0, values, count, &error_));
        add_values(&sum, &parameter, values, (size_t)count);
    }
    return sum;
}

/* File contents are read in blocks for every layout: whole, transposed, and side by side. A block holds several
   rows, one row, or part of a row. */
static void the_values_of_files_are_read_in_blocks(void) {
    static const char *const names[] = {"gpt2", "bert-base", "roberta-base", "distilbert-base"};
    static float values[1000];
    for (size_t i = 0; i < EITP__COUNT(names); i++) {
        eitp_context_config context = eitp_context_config_default();
        eitp_transformer_config shape;
        char directory[512];
        subject s;
        REQUIRE(scratch_make(directory));
        REQUIRE_OK(eitp_transformer_config_named(names[i], &shape, &error_), error_);
        shape.vocabulary = 1300;
        shape.positions = 40;
        shape.width = 24;
        shape.heads = 3;
        shape.layers = 2;
        shape.inner = 44;
        context.threads = 1;
        memset(&s, 0, sizeof s);
        REQUIRE_OK(eitp_context_create(&context, &s.context, &error_), error_);
        REQUIRE_OK(eitp_model_create(s.context, &shape, &s.model, &error_), error_);
        REQUIRE_OK(eitp_model_initialize(s.model, 7, &error_), error_);
        REQUIRE_OK(eitp_model_save(s.model, directory, &error_), error_);
        REQUIRE_OK(eitp_model_load_weights(s.model, directory, &error_), error_);
        for (int64_t capacity = 5; capacity <= (int64_t)EITP__COUNT(values); capacity = capacity * 7 + 1) {
            uint32_t sum = 0;
            CHECK_THAT(!eitp__model_visit_source(s.model, takes_all, values, capacity, add_values, &sum, &error_),
                       "%s: %s", names[i], error_.message);
            CHECK_THAT(sum == sum_of_model(&s), "%s in blocks of %d", names[i], (int)capacity);
        }
        end_subject(&s);
        scratch_remove(directory);
    }
}

/* Comparing a model's weights with those of adapters trained in another precision needs little memory, regardless of
   the size of the parameters. */
static void comparing_weights_needs_little_memory(void) {
    enum { LITTLE = 600 << 10 };
    eitp_transformer_config shape = small_shape();
    eitp_context_config config = eitp_context_config_default();
    eitp_lora_config lora = all_targets();
    char directory[512], base[600], text[200];
    uint32_t checksum = 0;
    size_t before;
    faults f;
    subject s;
    REQUIRE(scratch_make(directory));
    snprintf(base, sizeof base, "%s/base", directory);
    shape.vocabulary = 40000; /* the embedding takes 3.8 MB */
    memset(&s, 0, sizeof s);
    REQUIRE_OK(eitp_context_create(&config, &s.context, &error_), error_);
    REQUIRE_OK(eitp_model_create(s.context, &shape, &s.model, &error_), error_);
    REQUIRE_OK(eitp_model_initialize(s.model, 5, &error_), error_);
    REQUIRE_OK(eitp_model_save(s.model, base, &error_), error_);
    REQUIRE_OK(adapt(&s, &lora), error_);
    REQUIRE_OK(eitp_lora_save(s.model, directory, "base", &error_), error_);
    REQUIRE_OK(eitp__lora_base_checksum(s.model, &checksum, &error_), error_);
    snprintf(text, sizeof text,
             "{\"format\": \"eitp checkpoint\", \"precision\": \"fp32\", \"lora\": {\"base_checksum\": %u}}",
             (unsigned)checksum);
    REQUIRE(write_file(directory, "trainer_state.json", text, strlen(text)));
    end_subject(&s);
    faults_begin(&f);
    config.host = f.host;
    config.threads = 1;
    config.precision = "bf16";
    config.parameters = EITP_PARAMETERS_ROUNDED;
    memset(&s, 0, sizeof s);
    REQUIRE_OK(eitp_context_create(&config, &s.context, &error_), error_);
    REQUIRE_OK(eitp_model_load(s.context, base, &s.model, &error_), error_);
    before = f.peak_bytes = f.live_bytes;
    REQUIRE_OK(eitp__lora_check_base(s.model, directory, &error_), error_);
    CHECK_THAT(f.peak_bytes - before < LITTLE, "%zu bytes", f.peak_bytes - before);
    end_subject(&s);
    faults_end(&f);
    scratch_remove(directory);
}

/* A resume in another precision has the same base weights. */
static void a_resume_in_another_precision_finds_its_base(void) {
    const eitp_host host = eitp_host_default();
    char directory[512], base[600], other[600], output[600], checkpoint[700];
    REQUIRE(scratch_make(directory) && write_text(directory));
    snprintf(base, sizeof base, "%s/base", directory);
    snprintf(other, sizeof other, "%s/other", directory);
    REQUIRE_OK(save_base(&host, 3, base), error_);
    REQUIRE_OK(save_base(&host, 4, other), error_);
    for (int way = 0; way < 4; way++) {
        terms w = default_terms(precisions[way % 2]);
        run r;
        w.directory = base;
        snprintf(output, sizeof output, "%s/out-%d", directory, way);
        snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-1", output);
        REQUIRE_OK(make_run(&r, &host, &w, directory), error_);
        REQUIRE(step_many(&r, 1));
        REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
        end_run(&r);
        w.precision = precisions[!(way % 2)];
        w.directory = way < 2 ? base : other;
        REQUIRE_OK(make_run(&r, &host, &w, directory), error_);
        CHECK_THAT((eitp_trainer_resume(r.trainer, checkpoint, &error_) == EITP_OK) == (way < 2), "%d: %s", way,
                   error_.message);
        end_run(&r);
    }
    scratch_remove(directory);
}

/* ---- Files ---- */

/* Names, shapes and configuration are PEFT's. Saved adapters read back the same in any precision. */
static void adapters_are_written_as_peft_does(void) {
    static const struct {
        const char *name;
        int64_t shape[2];
    } tensors[] = {
        {"base_model.model.transformer.h.0.attn.c_attn.lora_A.weight", {3, 24}},
        {"base_model.model.transformer.h.0.attn.c_attn.lora_B.weight", {72, 3}},
        {"base_model.model.transformer.h.1.attn.c_proj.lora_B.weight", {24, 3}},
        {"base_model.model.transformer.h.1.mlp.c_fc.lora_A.weight", {3, 24}},
        {"base_model.model.transformer.h.1.mlp.c_fc.lora_B.weight", {40, 3}},
        {"base_model.model.transformer.h.0.mlp.c_proj.lora_A.weight", {3, 40}},
    };
    const eitp_host host = eitp_host_default();
    eitp_lora_config lora = all_targets(), read;
    char directory[512], base[100];
    uint32_t written = 0;
    eitp__read_sums sums = EITP__ZERO;
    eitp__safetensors *file;
    subject s, other;
    REQUIRE(scratch_make(directory));
    lora.dropout = 0.125;
    lora.alpha = 2.5;
    lora.rslora = 1;
    REQUIRE_OK(make_subject(&s, &host, "fp32"), error_);
    CHECK(eitp_lora_save(s.model, directory, "base", &error_) == EITP_ERROR_ARGUMENT);
    REQUIRE_OK(adapt(&s, &lora), error_);
    REQUIRE_OK(eitp_lora_save(s.model, directory, "a \"base\"", &error_), error_);
    REQUIRE_OK(eitp_lora_config_read(&host, directory, NULL, &read, base, sizeof base, &error_), error_);
    CHECK(eitp__lora_configs_equal(&lora, &read) && !strcmp(base, "a \"base\""));
    REQUIRE_OK(eitp__safetensors_open(&host, scratch_path(directory, "adapter_model.safetensors"), &file, &error_),
               error_);
    CHECK(eitp__safetensors_count(file) == 16);
    for (size_t i = 0; i < EITP__COUNT(tensors); i++) {
        const eitp__safetensors_entry *entry = eitp__safetensors_find(file, tensors[i].name);
        CHECK_THAT(entry && entry->rank == 2 && entry->shape[0] == tensors[i].shape[0] &&
                       entry->shape[1] == tensors[i].shape[1] && entry->dtype == EITP_F32,
                   "%s", tensors[i].name);
    }
    eitp__safetensors_close(file);
    /* Save again, with the checksum that a checkpoint keeps. */
    REQUIRE_OK(eitp__lora_save(s.model, directory, "a \"base\"", &written, NULL, &error_), error_);
    for (int way = 0; way < 3; way++) {
        REQUIRE_OK(make_subject(&other, &host, precisions[way]), error_);
        REQUIRE_OK(eitp_lora_load(other.model, directory, &error_), error_);
        REQUIRE_OK(eitp_lora_load(other.model, directory, &error_), error_);
        REQUIRE_OK(eitp__lora_read(other.model, directory, EITP__READ_LOAD, &sums, &error_), error_);
        CHECK(sums.tensors == written && eitp_model_lora_config(other.model).rank == 3);
        CHECK(!is_trained(&other, "transformer.wte.weight"));
        for (size_t i = 0; i < eitp_variable_count(s.context); i++) {
            eitp_variable variable = eitp_variable_at(s.context, i);
            float a[400], b[400];
            if (!is_adapter(&variable))
                continue;
            REQUIRE(variable.size <= sizeof a);
            CHECK(!eitp_variable_read(s.context, variable.name, 0, a, variable.size, &error_));
            CHECK_THAT(!eitp_variable_read(other.context, variable.name, 0, b, variable.size, &error_) &&
                           !memcmp(a, b, variable.size),
                       "%s", variable.name);
        }
        end_subject(&other);
    }
    /* The model itself is saved without adapters. */
    REQUIRE_OK(eitp_model_save(s.model, directory, &error_), error_);
    REQUIRE_OK(eitp__safetensors_open(&host, scratch_path(directory, "model.safetensors"), &file, &error_), error_);
    CHECK(eitp__safetensors_count(file) == 28);
    eitp__safetensors_close(file);
    end_subject(&s);
    scratch_remove(directory);
}

/* The adapters have no trainer_state.json, or another program's, with arbitrary contents. */
static void adapters_of_other_programs_go_with_any_weights(void) {
    static const char *const states[] = {NULL, "{\"best_metric\": NaN}", "{\"global_step\": 3, \"lora\": 1}", "[]"};
    const eitp_host host = eitp_host_default();
    const eitp_lora_config lora = all_targets();
    const size_t large = (size_t)3 << 20;
    char directory[512], *log = (char *)malloc(large);
    subject s;
    REQUIRE(scratch_make(directory) && log);
    REQUIRE_OK(make_subject(&s, &host, "fp32"), error_);
    REQUIRE_OK(adapt(&s, &lora), error_);
    REQUIRE_OK(eitp_lora_save(s.model, directory, NULL, &error_), error_);
    for (size_t i = 0; i <= EITP__COUNT(states); i++) {
        const char *state = i < EITP__COUNT(states) ? states[i] : (const char *)memset(log, ' ', large);
        if (state)
            REQUIRE(write_file(directory, "trainer_state.json", state, state == log ? large : strlen(state)));
        CHECK_THAT(!eitp_lora_load(s.model, directory, &error_), "%zu: %s", i, error_.message);
    }
    /* In a checkpoint written by eitp this is damage. */
    REQUIRE(write_file(directory, "manifest.json", "{}", 2));
    CHECK(eitp_lora_load(s.model, directory, &error_) == EITP_ERROR_FORMAT);
    CHECK_THAT(strstr(error_.message, "trainer_state.json"), "%s", error_.message);
    end_subject(&s);
    free(log);
    scratch_remove(directory);
}

/* Names of modules to save are parsed and formatted. */
static void modules_to_save_have_names(void) {
    const eitp_architecture *qwen2 = eitp_architecture_find("qwen2");
    const unsigned both = EITP_LORA_SAVES_EMBEDDING | EITP_LORA_SAVES_HEAD;
    char names[40];
    unsigned saved = 7;
    REQUIRE_OK(eitp_lora_saved_parse(qwen2, "", &saved, &error_), error_);
    CHECK(!saved);
    REQUIRE_OK(eitp_lora_saved_parse(qwen2, "lm_head,model.embed_tokens", &saved, &error_), error_);
    CHECK(saved == both);
    REQUIRE_OK(eitp_lora_saved_parse(NULL, "wte", &saved, &error_), error_);
    CHECK(saved == EITP_LORA_SAVES_EMBEDDING);
    REQUIRE_OK(eitp_lora_saved_parse(NULL, "embed_tokens", &saved, &error_), error_);
    CHECK(saved == EITP_LORA_SAVES_EMBEDDING);
    saved = 7;
    CHECK(eitp_lora_saved_parse(qwen2, "lm_head,tokens", &saved, &error_) == EITP_ERROR_ARGUMENT && saved == 7);
    CHECK(strstr(error_.message, "unknown module to save 'tokens' (choose from embed_tokens,lm_head)"));
    CHECK(eitp_lora_saved_parse(qwen2, "wte", &saved, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_lora_saved_format(qwen2, both, names, sizeof names) == 20 && !strcmp(names, "embed_tokens,lm_head"));
    CHECK(eitp_lora_saved_format(NULL, both, names, 6) == 11 && !strcmp(names, "wte,l"));
    CHECK(!eitp_lora_saved_format(qwen2, 0, names, sizeof names) && !*names);
    CHECK(eitp_lora_saved_format(qwen2, both, NULL, 0) == 20);
}

/* Supported and unsupported members of adapter_config.json. */
static void configurations_of_peft_are_read(void) {
    static const struct {
        const char *text, *words; /* words of the message; NULL: accepted */
    } cases[] = {
        {"{\"peft_type\": \"LORA\"}", NULL},
        {"{\"peft_type\": \"LORA\", \"r\": 4, \"lora_alpha\": 1.5, \"target_modules\": [\"c_proj\", \"c_attn\"]}",
         NULL},
        {"{\"peft_type\": \"LORA\", \"target_modules\": \"all-linear\", \"use_dora\": false, \"bias\": \"none\"}",
         NULL},
        {"{\"peft_type\": \"LORA\", \"task_type\": null, \"rank_pattern\": {}, \"modules_to_save\": null}", NULL},
        {"{\"peft_type\": \"LORA\", \"modules_to_save\": [\"transformer.wte\", \"lm_head\"], "
         "\"ensure_weight_tying\": false}",
         NULL},
        {"{\"peft_type\": \"LORA\", \"modules_to_save\": [\"classifier\", \"score\"], \"task_type\": \"SEQ_CLS\"}",
         NULL},
        {"{\"peft_type\": \"LORA\", \"init_lora_weights\": \"gaussian\", \"new_thing\": [], \"peft_version\": \"9\"}",
         NULL},
        {"{\"peft_type\": \"LORA\", \"target_modules\": [\"transformer.h.0.attn.c_attn\", \"h.1.attn.c_attn\"]}", NULL},
        {"{\"peft_type\": \"LORA\", \"target_modules\": [\"roberta.encoder.layer.0.attention.self.query\", "
         "\"roberta.encoder.layer.1.attention.self.query\", \"classifier.dense\", \"classifier.out_proj\"]}",
         NULL},
        {"{\"peft_type\": \"LORA\", \"target_modules\": [\"h.0.attn.c_attn\", \"h.1.mlp.c_fc\"]}", NULL},
        {"{\"peft_type\": \"LORA\", \"target_modules\": [\"h.1.attn.c_attn\"]}", NULL},
        {"{\"peft_type\": \"LORA\", \"layers_to_transform\": [], \"layers_pattern\": \"\", "
         "\"exclude_modules\": []}",
         NULL},
        {"{\"peft_type\": \"LORA\", \"target_modules\": [\"h.2000.attn.c_attn\"]}", "h.2000.attn.c_attn"},
        {"{\"peft_type\": \"LORA\", \"target_modules\": [\"x.h.0.attn.c_attn\"]}",
         "named 'x.h.0.attn.c_attn' in gpt2, bert"},
        {"{\"peft_type\": \"LORA\", \"target_modules\": [\"roberta.encoder.layer.0.attention.self.query\", \"x\"]}",
         "named 'x' in gpt2, bert"},
        {"{}", "peft_type"},
        {"[]", "must be a JSON object"},
        {"", "adapter_config.json"},
        {"{\"peft_type\": \"LORA\"", "line 1"},
        {"{\"peft_type\": \"IA3\"}", "IA3"},
        {"{\"peft_type\": 3}", "peft_type"},
        {"{\"peft_type\": \"LORA\", \"task_type\": \"SEQ_2_SEQ_LM\"}", "SEQ_2_SEQ_LM"},
        {"{\"peft_type\": \"LORA\", \"use_dora\": true}", "use_dora"},
        {"{\"peft_type\": \"LORA\", \"bias\": \"all\"}", "bias"},
        {"{\"peft_type\": \"LORA\", \"lora_bias\": true}", "lora_bias"},
        {"{\"peft_type\": \"LORA\", \"modules_to_save\": [\"ln_f\"]}",
         "modules_to_save: unknown module to save 'ln_f'"},
        {"{\"peft_type\": \"LORA\", \"modules_to_save\": [\"wte,lm_head\"]}", "modules_to_save must be a list"},
        {"{\"peft_type\": \"LORA\", \"modules_to_save\": [7]}", "modules_to_save must be a list"},
        {"{\"peft_type\": \"LORA\", \"modules_to_save\": \"wte\"}", "modules_to_save must be a list"},
        {"{\"peft_type\": \"LORA\", \"rank_pattern\": {\"h.0\": 4}}", "rank_pattern"},
        {"{\"peft_type\": \"LORA\", \"alpha_pattern\": {\"h.0\": 4}}", "alpha_pattern"},
        {"{\"peft_type\": \"LORA\", \"init_lora_weights\": \"pissa\"}", "pissa"},
        {"{\"peft_type\": \"LORA\", \"init_lora_weights\": 7}", "init_lora_weights"},
        {"{\"peft_type\": \"LORA\", \"new_thing\": 1}", "new_thing"},
        {"{\"peft_type\": \"LORA\", \"target_modules\": [\"wte\"]}", "wte"},
        {"{\"peft_type\": \"LORA\", \"target_modules\": 7}", "target_modules must be a list of names or a regular"},
        {"{\"peft_type\": \"LORA\", \"target_parameters\": [\"h.0.attn.c_attn.weight\"]}", "target_parameters"},
        {"{\"peft_type\": \"LORA\", \"target_modules\": []}", "target_modules"},
        {"{\"peft_type\": \"LORA\", \"target_modules\": [\"c_attn\\u0000x\"]}", "target_modules"},
        {"{\"peft_type\": \"LORA\", \"target_modules\": [[\"c_attn\"]]}", "target_modules"},
        {"{\"peft_type\": \"LORA\", \"r\": 0}", "rank"},
        {"{\"peft_type\": \"LORA\", \"r\": 2.5}", "'r'"},
        {"{\"peft_type\": \"LORA\", \"r\": 99999999999}", "rank"},
        {"{\"peft_type\": \"LORA\", \"lora_alpha\": -1}", "alpha"},
        {"{\"peft_type\": \"LORA\", \"lora_alpha\": 1e300}", "alpha"},
        {"{\"peft_type\": \"LORA\", \"lora_dropout\": 1}", "dropout"},
        {"{\"peft_type\": \"LORA\", \"use_rslora\": \"yes\"}", "use_rslora"},
    };
    const eitp_host host = eitp_host_default();
    char directory[512], base[8];
    REQUIRE(scratch_make(directory));
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        eitp_lora_config config, untouched = all_targets();
        eitp_status status;
        config = untouched;
        REQUIRE(write_file(directory, "adapter_config.json", cases[i].text, strlen(cases[i].text)));
        status = eitp_lora_config_read(&host, directory, NULL, &config, base, sizeof base, &error_);
        CHECK_THAT(!status == !cases[i].words, "%s: %s", cases[i].text, status ? error_.message : "read");
        if (!cases[i].words || !status)
            continue;
        CHECK_THAT(strstr(error_.message, cases[i].words) && strstr(error_.message, "adapter_config.json"), "%s: %s",
                   cases[i].text, error_.message);
        CHECK_THAT(status == error_.status && (status == EITP_ERROR_FORMAT || status == EITP_ERROR_UNSUPPORTED), "%s",
                   cases[i].text);
        CHECK(!memcmp(&config, &untouched, sizeof config));
    }
    scratch_remove(directory);
    CHECK(eitp_lora_config_read(&host, directory, NULL, NULL, NULL, 0, &error_) == EITP_ERROR_ARGUMENT);
}

/* Replaces a line of a file with at most 2000 bytes. */
static void replace_line(const char *directory, const char *name, const char *member, const char *line) {
    char text[2000], other[2600], *begin, *end;
    FILE *file = fopen(scratch_path(directory, name), "rb");
    size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    REQUIRE(file && !fclose(file));
    text[size] = 0;
    begin = strstr(text, member);
    end = begin ? strchr(begin, '\n') : NULL;
    REQUIRE(end != NULL);
    snprintf(other, sizeof other, "%.*s%s%s", (int)(begin - text), text, line, end);
    REQUIRE(write_file(directory, name, other, strlen(other)));
}

/* Adapters on layers that differ between blocks are written and read by layer name. If target_modules is an
   expression, or other members select among names, the tensors in the file determine the layers. */
static void targets_of_blocks_are_written_and_read(void) {
    static const struct {
        const char *line, *words; /* replaces target_modules; expected in the message, NULL: read */
    } cases[] = {
        {"\"target_modules\": [\"h.0.attn.c_attn\", \"c_proj\", \"c_attn\"], \"exclude_modules\": \".*h.0.*\",", NULL},
        {"\"target_modules\": \".*\\\\.h\\\\.(0.attn.c_attn|1.*c_proj|0.mlp.*proj)\",", NULL},
        {"\"target_modules\": [\"c_attn\", \"c_proj\"], \"exclude_modules\": [\"h.0.attn.c_proj\"],", NULL},
        {"\"target_modules\": [\"c_attn\", \"c_proj\"], \"layers_to_transform\": [1, 0, 7],", NULL},
        {"\"target_modules\": [\"c_attn\", \"c_proj\"], \"layers_to_transform\": [0, 1], \"layers_pattern\": \"h\",",
         NULL},
        {"\"target_modules\": [\"h.0.attn.c_attn\", \"0.mlp.c_proj\", \"c_proj\"], \"layers_to_transform\": 1,", NULL},
        {"\"target_modules\": \"all-linear\", \"exclude_modules\": [\"c_fc\"],", NULL},
        {"\"target_modules\": [\"c_attn\", \"c_proj\"], \"layers_to_transform\": 1,", "layers_to_transform exclude"},
        {"\"target_modules\": [\"c_attn\", \"c_proj\"], \"layers_to_transform\": [0, \"1\"],",
         "layers_to_transform exclude"},
        {"\"target_modules\": [\"c_proj\"], \"layers_to_transform\": [0, 1],", "target_modules or"},
        {"\"target_modules\": [\"c_attn\", \"c_proj\"],", "missing tensor"},
        {"\"target_modules\": [\"h.0.attn.c_attn\", \"h.0.mlp.c_proj\"],", "8 tensors, expected 4"},
        {"\"target_modules\": [\"c_attn\", \"h.2.attn.c_proj\"],", "block 2; this gpt2 model has blocks 0 to 1"},
        {"\"target_modules\": \".*\", \"rank_pattern\": {\"h.0\": 3},", "rank_pattern"},
    };
    const eitp_host host = eitp_host_default();
    const eitp_lora_config lora = some_targets();
    char directory[512];
    static float adapted[ROWS * WORDS], loaded[ROWS * WORDS];
    eitp__buffer text;
    subject s;
    REQUIRE(scratch_make(directory));
    REQUIRE_OK(make_subject(&s, &host, "fp32"), error_);
    REQUIRE_OK(adapt(&s, &lora), error_);
    REQUIRE_OK(eitp_lora_save(s.model, directory, NULL, &error_), error_);
    read_logits(&s, adapted);
    end_subject(&s);
    eitp__buffer_init(&text, &host);
    REQUIRE_OK(eitp__read_file(&host, scratch_path(directory, "adapter_config.json"), 1 << 16, &text, &error_), error_);
    CHECK_THAT(strstr(text.data, "\"target_modules\": [\"mlp.c_proj\", \"h.0.attn.c_attn\", \"h.1.attn.c_proj\"],\n"),
               "%s", text.data);
    eitp__buffer_release(&text);
    for (size_t i = 0; i <= EITP__COUNT(cases); i++) {
        const char *words = i ? cases[i - 1].words : NULL;
        eitp_status status;
        if (i) /* file 0 is as saved */
            replace_line(directory, "adapter_config.json", "\"target_modules\"", cases[i - 1].line);
        REQUIRE_OK(make_subject(&s, &host, "fp32"), error_);
        status = eitp_lora_load(s.model, directory, &error_);
        CHECK_THAT(!status == !words, "%zu: %s", i, status ? error_.message : "read");
        CHECK_THAT(!words || !status || (strstr(error_.message, words) && strstr(error_.message, directory)), "%zu: %s",
                   i, error_.message);
        CHECK_THAT(!status || status == EITP_ERROR_FORMAT || status == EITP_ERROR_UNSUPPORTED, "%zu", i);
        if (!status) {
            read_logits(&s, loaded);
            CHECK_THAT(!memcmp(adapted, loaded, sizeof loaded), "%zu", i);
        }
        end_subject(&s);
    }
    /* An expression cannot be read without the tensors. */
    replace_line(directory, "adapter_config.json", "\"target_modules\"", "\"target_modules\": \".*\",");
    REQUIRE(!unlink(scratch_path(directory, "adapter_model.safetensors")));
    {
        eitp_lora_config read;
        const eitp_status status = eitp_lora_config_read(&host, directory, NULL, &read, NULL, 0, &error_);
        CHECK_THAT(status == EITP_ERROR_FORMAT, "%d: %s", (int)status, error_.message);
        CHECK_THAT(strstr(error_.message, "adapter_model.safetensors"), "%s", error_.message);
    }
    scratch_remove(directory);
}

/* A file that is truncated at any point, has any header byte changed, or belongs to other adapters is an error or a
   complete load. */
static void damaged_adapters_are_errors(void) {
    const eitp_host host = eitp_host_default();
    eitp_lora_config lora = eitp_lora_config_default(), other = lora;
    char directory[512], *whole;
    size_t size, header;
    long refused = 0;
    FILE *file;
    subject s;
    REQUIRE(scratch_make(directory));
    lora.rank = 2;
    REQUIRE_OK(make_subject(&s, &host, "fp32"), error_);
    REQUIRE_OK(adapt(&s, &lora), error_);
    REQUIRE_OK(eitp_lora_save(s.model, directory, NULL, &error_), error_);
    end_subject(&s);
    file = fopen(scratch_path(directory, "adapter_model.safetensors"), "rb");
    REQUIRE(file != NULL);
    whole = (char *)malloc(1 << 16);
    size = fread(whole, 1, 1 << 16, file);
    fclose(file);
    header = 8 + (size_t)(unsigned char)whole[0] + 256 * (size_t)(unsigned char)whole[1];
    REQUIRE(header > 300 && header < size && size < 1 << 16);
    for (size_t i = 0; i < header + 40; i++) {
        char byte = whole[i];
        int cut = i % 2 == 0;
        size_t before;
        eitp_status status;
        if (!cut)
            whole[i] = (char)(byte ^ (1 << i % 7));
        REQUIRE(write_file(directory, "adapter_model.safetensors", whole, cut ? i * size / (header + 40) : size));
        whole[i] = byte;
        REQUIRE_OK(make_subject(&s, &host, "fp32"), error_);
        before = eitp_variable_count(s.context);
        status = eitp_lora_load(s.model, directory, &error_);
        refused += status != EITP_OK;
        CHECK_THAT(!cut || status, "cut at %zu", i);
        CHECK_THAT(!status || (eitp_variable_count(s.context) == before && is_trained(&s, "transformer.wte.weight")),
                   "%zu: %s", i, error_.message);
        end_subject(&s);
    }
    CHECK_THAT(refused > (long)header * 3 / 4, "%ld of %zu", refused, header + 40);
    /* Valid files that do not match the model. */
    for (int k = 0; k < 3; k++) {
        static const char *const words[] = {"expected [3, 24]", "missing tensor", "4 tensors, expected 2"};
        eitp_transformer_config shape = small_shape();
        REQUIRE(write_file(directory, "adapter_model.safetensors", whole, size));
        other = lora;
        other.rank = k == 0 ? 3 : 2;
        other.targets = k == 1 ? EITP_LORA_MLP_INPUT : EITP_LORA_ATTENTION_INPUT;
        REQUIRE_OK(eitp__lora_config_write(&host, scratch_path(directory, "adapter_config.json"), &shape, &other, NULL,
                                           &error_),
                   error_);
        REQUIRE_OK(make_subject(&s, &host, "fp32"), error_);
        end_subject(&s);
        if (k == 2) {
            eitp_context_config config = eitp_context_config_default();
            shape.layers = 1;
            REQUIRE_OK(eitp_context_create(&config, &s.context, &error_), error_);
            REQUIRE_OK(eitp_model_create(s.context, &shape, &s.model, &error_), error_);
        } else {
            REQUIRE_OK(make_subject(&s, &host, "fp32"), error_);
        }
        CHECK(eitp_lora_load(s.model, directory, &error_) == EITP_ERROR_FORMAT);
        CHECK_THAT(strstr(error_.message, words[k]), "%s", error_.message);
        end_subject(&s);
    }
    free(whole);
    scratch_remove(directory);
}

/* Saves a model, and the description of its weights in an fp32 checkpoint. */
static void save_base_and_state(const char *directory, const char *base, const eitp_lora_config *lora) {
    const eitp_host host = eitp_host_default();
    char state[200];
    uint32_t checksum = 0;
    subject s;
    REQUIRE_OK(make_subject(&s, &host, "fp32"), error_);
    REQUIRE_OK(eitp_model_save(s.model, base, &error_), error_);
    REQUIRE_OK(adapt(&s, lora), error_);
    REQUIRE_OK(eitp__lora_base_checksum(s.model, &checksum, &error_), error_);
    snprintf(state, sizeof state,
             "{\"format\": \"eitp checkpoint\", \"precision\": \"fp32\", \"lora\": {\"base_checksum\": %u}}",
             (unsigned)checksum);
    REQUIRE(write_file(directory, "trainer_state.json", state, strlen(state)));
    end_subject(&s);
}

/* Each allocation and each file call of a save, a load and a merge fails once. The result is an error, and nothing
   leaks. The load finds its targets among the tensors and compares the base with its files. */
static void every_failure_is_an_error(void) {
    eitp_lora_config lora = some_targets();
    char directory[512], base[600];
    REQUIRE(scratch_make(directory));
    snprintf(base, sizeof base, "%s/base", directory);
    lora.rank = 2;
    save_base_and_state(directory, base, &lora);
    for (int files = 0; files < 2; files++) {
        int more = 1;
        for (long n = 1; more && !test_failures_; n++) {
            faults f;
            subject s, other;
            eitp_status status;
            memset(&other, 0, sizeof other);
            faults_begin(&f);
            if (files)
                f.fail_file_call = n;
            else
                f.fail_allocation = n;
            status = make_subject(&s, &f.host, "bf16");
            if (!status)
                status = adapt(&s, &lora);
            if (!status)
                status = eitp_lora_save(s.model, directory, "base", &error_);
            if (!status)
                replace_line(directory, "adapter_config.json", "\"target_modules\"", "\"target_modules\": \".*\",");
            if (!status)
                status = eitp_model_merge_lora(s.model, &error_);
            if (!status)
                status = make_subject(&other, &f.host, "bf16");
            if (!status)
                status = eitp_model_load_weights(other.model, base, &error_);
            if (!status)
                status = eitp_lora_load(other.model, directory, &error_);
            CHECK_THAT(!status || status == (files ? EITP_ERROR_IO : EITP_ERROR_MEMORY), "%ld: %s", n, error_.message);
            end_subject(&s);
            end_subject(&other);
            more = faults_end(&f);
        }
    }
    scratch_remove(directory);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(adapters_that_start_at_zero_change_no_bit),
        TEST(adapters_are_initialized_as_in_peft),
        TEST(gradients_match_central_differences),
        TEST(sixteen_bit_gradients_follow_f32),
        TEST(frozen_gradients_are_not_computed),
        TEST(merging_keeps_the_logits),
        TEST(merging_adds_the_scaled_product),
        TEST(targets_match_ends_of_names),
        TEST(targets_may_differ_between_blocks),
        TEST(configurations_are_checked),
        TEST(parts_are_frozen_by_name),
        TEST(remainders_of_frozen_parameters_take_no_memory),
        TEST(frozen_parameters_keep_their_bits_and_have_no_state),
        TEST(training_with_everything_frozen_is_refused),
        TEST(adapters_learn),
        TEST(parameters_trained_besides_adapters_are_resumed),
        TEST(dropout_of_adapters_affects_training_only),
        TEST(a_resumed_run_has_the_same_bits),
        TEST(a_resume_with_other_settings_is_refused),
        TEST(adapters_go_with_the_weights_they_were_trained_on),
        TEST(the_values_of_files_are_read_in_blocks),
        TEST(comparing_weights_needs_little_memory),
        TEST(a_resume_in_another_precision_finds_its_base),
        TEST(adapters_of_other_programs_go_with_any_weights),
        TEST(adapters_are_written_as_peft_does),
        TEST(modules_to_save_have_names),
        TEST(configurations_of_peft_are_read),
        TEST(targets_of_blocks_are_written_and_read),
        TEST(damaged_adapters_are_errors),
        TEST(every_failure_is_an_error),
    };
    return RUN_TESTS(tests, argc, argv);
}
