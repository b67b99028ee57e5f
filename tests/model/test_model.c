/* Architectures: blocks in a custom model, pre- and post-norm, bidirectional attention, and layouts in files. */
#include "tests/support/everything.h"
#include "tests/support/faults.h"
#include "tests/support/model_files.h"
#include "tests/support/test.h"

static eitp_error error_;

/* ---- An architecture for tests ---- */

static const eitp_transformer_config other_defaults = {
    NULL,
    31,
    20,
    0,
    12,
    3,
    2,
    0,
    2,
    EITP_GELU_ERF,
    1e-6,
    0,
    0,
    0,
    0.05,
    1,
    0,
    1,
    1,
    1,
    EITP_HEAD_LANGUAGE,
    2,
    EITP_PROBLEM_UNKNOWN,
    0,
    0,
    {0, {0}},
    {0, {0}},
    {0, {0}},
    EITP__NO_DECODER_MEMBERS,
};

static const eitp__named_shape other_shapes[] = {EITP__SHAPE("other", 12, 3, 2, 20, 2, 1e-6)};

static const eitp__config_key other_keys[] = {
    {"kind_of_positions", EITP__NO_FIELD, EITP__KEY, "absolute"},
    {"is_decoder", EITP__NO_FIELD, EITP__KEY, "false"},
    {"act", EITP__FIELD_ACTIVATION, EITP__KEY, NULL},
    {"vocab", EITP__FIELD_VOCABULARY, EITP__KEY, NULL},
    {"old_vocab", EITP__FIELD_VOCABULARY, EITP__KEY_ALIAS, NULL},
    {"max_length", EITP__FIELD_POSITIONS, EITP__KEY, NULL},
    {"hidden", EITP__FIELD_WIDTH, EITP__KEY, NULL},
    {"heads", EITP__FIELD_HEADS, EITP__KEY, NULL},
    {"layers", EITP__FIELD_LAYERS, EITP__KEY, NULL},
    {"intermediate", EITP__FIELD_INNER, EITP__KEY, NULL},
    {"segments", EITP__FIELD_SEGMENTS, EITP__KEY, NULL},
    {"dropout", EITP__FIELD_RESIDUAL_DROPOUT, EITP__KEY, NULL},
    {"tied", EITP__FIELD_TIED, EITP__KEY, NULL},
};

#define LAID_OUT EITP__ROW_OF_THREE
#define ROW(slot, part, place, name, rows, columns, fill)                                                              \
    LAID_OUT(slot, part, place, name, rows, columns, fill, 0, NULL, NULL, NULL)

static const eitp__parameter_row other_rows[] = {
    ROW(TOKEN_EMBEDDING, WEIGHT, BEFORE_BLOCKS, "embed.words.weight", VOCABULARY, WIDTH, NORMAL),
    ROW(POSITION_EMBEDDING, WEIGHT, BEFORE_BLOCKS, "embed.places.weight", POSITIONS, WIDTH, NORMAL),
    ROW(SEGMENT_EMBEDDING, WEIGHT, BEFORE_BLOCKS, "embed.kinds.weight", SEGMENTS, WIDTH, NORMAL),
    ROW(EMBEDDING_NORM, WEIGHT, BEFORE_BLOCKS, "embed.norm.weight", WIDTH, NONE, ONE),
    ROW(EMBEDDING_NORM, BIAS, BEFORE_BLOCKS, "embed.norm.bias", WIDTH, NONE, ZERO),
    LAID_OUT(ATTENTION_INPUT, WEIGHT, IN_BLOCK, "self.qkv.weight", WIDTH, QKV, NORMAL, 1, "self.q.weight",
             "self.k.weight", "self.v.weight"),
    LAID_OUT(ATTENTION_INPUT, BIAS, IN_BLOCK, "self.qkv.bias", QKV, NONE, ZERO, 0, "self.q.bias", "self.k.bias",
             "self.v.bias"),
    LAID_OUT(ATTENTION_OUTPUT, WEIGHT, IN_BLOCK, "self.out.weight", WIDTH, WIDTH, NORMAL, 1, NULL, NULL, NULL),
    ROW(ATTENTION_OUTPUT, BIAS, IN_BLOCK, "self.out.bias", WIDTH, NONE, ZERO),
    ROW(ATTENTION_NORM, WEIGHT, IN_BLOCK, "norm1.weight", WIDTH, NONE, ONE),
    ROW(ATTENTION_NORM, BIAS, IN_BLOCK, "norm1.bias", WIDTH, NONE, ZERO),
    LAID_OUT(MLP_INPUT, WEIGHT, IN_BLOCK, "up.weight", WIDTH, INNER, NORMAL, 0, "up.left", "up.right", NULL),
    ROW(MLP_INPUT, BIAS, IN_BLOCK, "up.bias", INNER, NONE, ZERO),
    LAID_OUT(MLP_OUTPUT, WEIGHT, IN_BLOCK, "down.weight", INNER, WIDTH, NORMAL, 1, NULL, NULL, NULL),
    ROW(MLP_OUTPUT, BIAS, IN_BLOCK, "down.bias", WIDTH, NONE, ZERO),
    ROW(MLP_NORM, WEIGHT, IN_BLOCK, "norm2.weight", WIDTH, NONE, ONE),
    ROW(MLP_NORM, BIAS, IN_BLOCK, "norm2.bias", WIDTH, NONE, ZERO),
    EITP__ROW(HEAD, WEIGHT, IN_HEAD, "decoder.weight", VOCABULARY, WIDTH, NORMAL, 0, EITP__WITH_OWN_HEAD),
};

static const eitp__model_class other_classes[] = {{"OtherModel", EITP_HEAD_LANGUAGE}};

static const eitp_architecture other = {
    "other",
    "base.",
    "block.",
    other_classes,
    EITP__COUNT(other_classes),
    {EITP_POOLING_FIRST, EITP_NO_ACTIVATION, 0, 0},
    EITP_NO_ACTIVATION,
    EITP_LORA_QUERY | EITP_LORA_VALUE,
    0,
    &other_defaults,
    other_shapes,
    EITP__COUNT(other_shapes),
    other_keys,
    EITP__COUNT(other_keys),
    other_rows,
    EITP__COUNT(other_rows),
    EITP__NORM_LAYER,
    0,
    0,
};

static eitp_transformer_config other_config(void) {
    eitp_transformer_config config = eitp__architecture_defaults(&other);
    config.inner = 20;
    return config;
}

static eitp_context *open_context(const eitp_host *host, const char *precision) {
    eitp_context_config config = eitp_context_config_default();
    eitp_context *context = NULL;
    if (host)
        config.host = *host;
    config.threads = 2;
    config.precision = precision;
    CHECK_THAT(host || !eitp_context_create(&config, &context, &error_), "%s", error_.message);
    if (host && eitp_context_create(&config, &context, &error_))
        return NULL;
    return context;
}

/* Fills every parameter, including norms and biases, with values that depend on its name. */
static void fill_all(eitp_context *context, uint64_t seed) {
    for (size_t i = 0; i < eitp_variable_count(context); i++) {
        eitp_variable variable = eitp_variable_at(context, i);
        if (variable.role == EITP_PARAMETER)
            CHECK(!eitp_variable_fill_normal(context, variable.name, 0, 0.4, seed, &error_));
    }
}

static float *values_of(eitp_context *context, const char *name, int64_t *count) {
    int64_t index = eitp_variable_find(context, name);
    eitp_variable variable = eitp_variable_at(context, (size_t)(index < 0 ? 0 : index));
    float *values = index < 0 ? NULL : (float *)malloc(variable.size * 4);
    CHECK_THAT(index >= 0, "%s", name);
    if (values) {
        *count = (int64_t)(variable.size / eitp_dtype_size(variable.dtype));
        CHECK(!eitp_variable_read_f32(context, name, 0, values, *count, &error_));
    }
    return values;
}

/* ---- Blocks ---- */

enum { SEQUENCES = 2, LONGEST = 7, ROWS = SEQUENCES * LONGEST, WIDTH = 24 };

/* A graph that computes hidden states, with its inputs. */
typedef struct pass {
    eitp_graph *graph;
    eitp_plan *plan;
    eitp_model_inputs inputs;
    eitp_tensor *hidden;
    int kinds; /* number of segments */
} pass;

static void run_pass(pass *p, float *hidden) {
    static const int32_t offsets[SEQUENCES + 1] = {0, 5, ROWS - 2};
    int32_t tokens[ROWS], positions[ROWS];
    const int64_t key[3] = {4, 5, 0};
    for (int i = 0; i < ROWS; i++) {
        tokens[i] = (i * 37 + 11) % 61;
        positions[i] = i < 5 ? i : (i - 5) % LONGEST;
    }
    REQUIRE_OK(eitp_plan_create(p->graph, &p->plan, &error_), error_);
    CHECK(!eitp_plan_write(p->plan, p->inputs.tokens, tokens, sizeof tokens, &error_));
    CHECK(!eitp_plan_write(p->plan, p->inputs.positions, positions, sizeof positions, &error_));
    CHECK(!eitp_plan_write(p->plan, p->inputs.offsets, offsets, sizeof offsets, &error_));
    if (p->inputs.key)
        CHECK(!eitp_plan_write(p->plan, p->inputs.key, key, sizeof key, &error_));
    for (int i = 0; i < ROWS; i++)
        positions[i] = i / 3 % 2 * (p->kinds > 1);
    if (p->inputs.segments)
        CHECK(!eitp_plan_write(p->plan, p->inputs.segments, positions, sizeof positions, &error_));
    CHECK_THAT(!eitp_plan_execute(p->plan, &error_), "%s", error_.message);
    CHECK(!eitp_plan_read(p->plan, p->hidden, hidden, ROWS * WIDTH * sizeof *hidden, &error_));
    eitp_plan_destroy(p->plan);
    eitp_graph_destroy(p->graph);
}

static eitp_transformer_config small_gpt2(void) {
    eitp_transformer_config config;
    eitp_transformer_config_named("tiny", &config, NULL);
    config.vocabulary = 61;
    config.positions = LONGEST;
    config.width = WIDTH;
    config.heads = 3;
    config.layers = 2;
    config.inner = 40;
    config.scale_attention_by_layer = 1;
    return config;
}

static eitp_tensor *matrix(eitp_graph *graph, eitp_dtype dtype, const char *name, int64_t rows) {
    int64_t shape[2];
    shape[0] = rows;
    shape[1] = WIDTH;
    return eitp_variable_tensor(graph, name, EITP_PARAMETER, dtype, 2, shape);
}

/* Computes the hidden states of a model with public functions only. */
static eitp_tensor *own_hidden(pass *p, const eitp_transformer_config *config, const eitp_lora_config *lora,
                               eitp_dtype dtype) {
    const int64_t width = WIDTH;
    eitp_block_inputs inputs = eitp_block_inputs_default();
    eitp_tensor *x, *gain, *bias;
    inputs.max_length = LONGEST;
    inputs.offsets = p->inputs.offsets;
    inputs.key = p->inputs.key;
    inputs.lora = lora;
    x = eitp_embedding(matrix(p->graph, dtype, "transformer.wpe.weight", config->positions), p->inputs.positions);
    x = eitp_add(
        eitp_embedding(matrix(p->graph, dtype, "transformer.wte.weight", config->vocabulary), p->inputs.tokens), x);
    x = inputs.key ? eitp_dropout(x, inputs.key, config->embedding_dropout) : x;
    x = eitp_block(x, config, "transformer.h.0", 0, &inputs);
    x = eitp_block(x, config, "transformer.h.1", 1, &inputs);
    gain = eitp_parameter(p->graph, "transformer.ln_f.weight", 1, &width);
    bias = eitp_parameter(p->graph, "transformer.ln_f.bias", 1, &width);
    return eitp_layer_norm(x, gain, bias, config->epsilon);
}

static void check_own_blocks(const char *precision, int with_key, int with_lora) {
    const eitp_transformer_config config = small_gpt2();
    eitp_lora_config lora = eitp_lora_config_default();
    float expected[ROWS * WIDTH], actual[ROWS * WIDTH];
    eitp_context *a = open_context(NULL, precision), *b = open_context(NULL, precision);
    eitp_model *model;
    pass p;
    lora.dropout = 0.2;
    lora.targets = EITP_LORA_ATTENTION_INPUT | EITP_LORA_MLP_OUTPUT;
    REQUIRE_OK(eitp_model_create(a, &config, &model, &error_), error_);
    if (with_lora)
        REQUIRE_OK(eitp_model_add_lora(model, &lora, &error_), error_);
    fill_all(a, 3);
    REQUIRE_OK(eitp_graph_create(a, &p.graph, &error_), error_);
    p.inputs = eitp_model_inputs_create(p.graph, SEQUENCES, LONGEST, with_key);
    p.hidden = eitp_output(eitp_cast(eitp_model_hidden(model, p.graph, &p.inputs, LONGEST), EITP_F32));
    run_pass(&p, expected);
    REQUIRE_OK(eitp_graph_create(b, &p.graph, &error_), error_);
    p.inputs = eitp_model_inputs_create(p.graph, SEQUENCES, LONGEST, with_key);
    p.hidden =
        eitp_output(eitp_cast(own_hidden(&p, &config, with_lora ? &lora : NULL, eitp_context_precision(b)), EITP_F32));
    REQUIRE_OK(eitp_graph_status(p.graph, &error_), error_);
    fill_all(b, 3);
    run_pass(&p, actual);
    CHECK_THAT(!memcmp(expected, actual, sizeof actual), "%s, key %d, adapters %d: %g, not %g", precision, with_key,
               with_lora, (double)actual[0], (double)expected[0]);
    eitp_model_destroy(model);
    eitp_context_destroy(a);
    eitp_context_destroy(b);
}

static void own_blocks_match_the_model(void) {
    static const char *const precisions[] = {"fp32", "bf16", "fp16"};
    for (size_t i = 0; i < EITP__COUNT(precisions); i++) {
        check_own_blocks(precisions[i], 0, 0);
        check_own_blocks(precisions[i], 1, 0);
        check_own_blocks(precisions[i], 1, 1);
    }
}

/* Returns 0.05 times the channel number in each row. */
static eitp_tensor *channels_by_row(pass *p, const eitp_transformer_config *config) {
    eitp_tensor *table = matrix(p->graph, EITP_F32, "transformer.wpe.weight", config->positions);
    return eitp_add(eitp_affine(eitp_embedding(table, p->inputs.positions), 0, 0),
                    eitp_affine(eitp_arange(p->graph, EITP_F32, WIDTH), 0.05, 0));
}

/* Added values have the same effect as values added to the position embedding. */
static void added_values_are_part_of_the_embeddings(void) {
    const eitp_transformer_config config = small_gpt2();
    float hidden[3][ROWS * WIDTH], table[LONGEST * WIDTH];
    eitp_context *context = open_context(NULL, "fp32");
    eitp_model *model;
    double moved = 0;
    REQUIRE_OK(eitp_model_create(context, &config, &model, &error_), error_);
    fill_all(context, 3);
    for (int i = 0; i < 3; i++) {
        pass p = EITP__ZERO;
        REQUIRE_OK(eitp_graph_create(context, &p.graph, &error_), error_);
        p.inputs = eitp_model_inputs_create(p.graph, SEQUENCES, LONGEST, 0);
        if (i == 1)
            p.inputs.added = channels_by_row(&p, &config);
        p.hidden = eitp_output(eitp_model_hidden(model, p.graph, &p.inputs, LONGEST));
        if (i == 2) {
            CHECK(!eitp_variable_read_f32(context, "transformer.wpe.weight", 0, table, LONGEST * WIDTH, &error_));
            for (int j = 0; j < LONGEST * WIDTH; j++)
                table[j] += 0.05f * (float)(j % WIDTH);
            CHECK(!eitp_variable_write_f32(context, "transformer.wpe.weight", 0, table, LONGEST * WIDTH, &error_));
        }
        run_pass(&p, hidden[i]);
    }
    for (int j = 0; j < ROWS * WIDTH; j++) {
        CHECK_THAT(fabs((double)hidden[1][j] - (double)hidden[2][j]) < 1e-4, "%d: %g, not %g", j, (double)hidden[1][j],
                   (double)hidden[2][j]);
        moved = fmax(moved, fabs((double)hidden[1][j] - (double)hidden[0][j]));
    }
    CHECK_THAT(moved > 0.1, "%g", moved);
    eitp_model_destroy(model);
    eitp_context_destroy(context);
}

/* A model and eitp_block_initialize declare the same variables, including remainders, with the same values. */
static void block_initialize_matches_the_model(void) {
    static const char *const precisions[] = {"fp32", "bf16"};
    for (size_t k = 0; k < EITP__COUNT(precisions); k++) {
        const eitp_transformer_config config = small_gpt2();
        eitp_context *a = open_context(NULL, precisions[k]), *b = open_context(NULL, precisions[k]);
        eitp_model *model;
        size_t found = 0;
        REQUIRE_OK(eitp_model_create(a, &config, &model, &error_), error_);
        REQUIRE_OK(eitp_model_initialize(model, 7, &error_), error_);
        REQUIRE_OK(eitp_block_initialize(b, &config, "transformer.h.1", 7, &error_), error_);
        for (size_t i = 0; i < eitp_variable_count(a); i++) {
            eitp_variable variable = eitp_variable_at(a, i);
            unsigned char x[WIDTH * 40 * 4 * 4], y[sizeof x];
            if (!strstr(variable.name, "transformer.h.1."))
                continue;
            found++;
            REQUIRE(eitp_variable_find(b, variable.name) >= 0 && variable.size <= sizeof x);
            CHECK(!eitp_variable_read(a, variable.name, 0, x, variable.size, &error_));
            CHECK(!eitp_variable_read(b, variable.name, 0, y, variable.size, &error_));
            CHECK_THAT(!memcmp(x, y, variable.size), "%s", variable.name);
        }
        CHECK_THAT(found == eitp_variable_count(b) && found == (k ? 16 : 12), "%zu", found);
        eitp_model_destroy(model);
        eitp_context_destroy(a);
        eitp_context_destroy(b);
    }
}

/* Computes the normed sum of the embeddings from the model's variables. */
static eitp_tensor *own_embeddings(pass *p, const eitp_model *model, eitp_tensor *segments) {
    const eitp_transformer_config config = eitp_model_config(model);
    const int64_t width = WIDTH;
    eitp_tensor *x, *gain, *bias;
    x = eitp_embedding(matrix(p->graph, EITP_F32, "base.embed.words.weight", config.vocabulary), p->inputs.tokens);
    x = eitp_add(x, eitp_embedding(matrix(p->graph, EITP_F32, "base.embed.places.weight", config.positions),
                                   p->inputs.positions));
    x = eitp_add(x, eitp_embedding(matrix(p->graph, EITP_F32, "base.embed.kinds.weight", 2), segments));
    gain = eitp_parameter(p->graph, "base.embed.norm.weight", 1, &width);
    bias = eitp_parameter(p->graph, "base.embed.norm.bias", 1, &width);
    return eitp_layer_norm(x, gain, bias, config.epsilon);
}

/* Segments and the norm of embeddings in an architecture with post-norm blocks and no final norm. */
static void embeddings_follow_the_table(void) {
    eitp_transformer_config config = other_config();
    const int64_t rows = ROWS;
    eitp_context *context = open_context(NULL, "fp32");
    eitp_model *model;
    config.width = WIDTH;
    config.vocabulary = 61;
    REQUIRE_OK(eitp_model_create(context, &config, &model, &error_), error_);
    fill_all(context, 31);
    for (int kinds = 1; kinds <= 2; kinds++) {
        float hidden[2][ROWS * WIDTH];
        for (int own = 0; own < 2; own++) {
            eitp_block_inputs attention = eitp_block_inputs_default();
            eitp_tensor *segments, *x;
            pass p;
            REQUIRE_OK(eitp_graph_create(context, &p.graph, &error_), error_);
            p.inputs = eitp_model_inputs_create(p.graph, SEQUENCES, LONGEST, 0);
            /* Without segments, all ids are 0. */
            segments = own || kinds > 1 ? eitp_input_rows(p.graph, "kinds", EITP_I32, 1, &rows) : NULL;
            p.inputs.segments = segments;
            p.kinds = kinds;
            attention.max_length = LONGEST;
            attention.offsets = p.inputs.offsets;
            x = own ? own_embeddings(&p, model, segments) : NULL;
            for (int layer = 0; layer < 2 && own; layer++)
                x = eitp_block(x, &config, layer ? "base.block.1" : "base.block.0", layer, &attention);
            p.hidden = eitp_output(own ? x : eitp_model_hidden(model, p.graph, &p.inputs, LONGEST));
            REQUIRE_OK(eitp_graph_status(p.graph, &error_), error_);
            run_pass(&p, hidden[own]);
        }
        for (int i = 0; i < ROWS * WIDTH; i++)
            CHECK(fabs((double)hidden[0][i] - (double)hidden[1][i]) < 1e-5);
    }
    eitp_model_destroy(model);
    eitp_context_destroy(context);
}

/* ---- Every kind of block in double ---- */

typedef struct naive_block {
    eitp_context *context;
    const eitp_transformer_config *config;
    int lengths[SEQUENCES];
} naive_block;

static const float *weights_of(const naive_block *n, const char *name) {
    static float values[WIDTH * 3 * WIDTH];
    char full[64];
    int64_t index;
    snprintf(full, sizeof full, "mine.%s", name);
    index = eitp_variable_find(n->context, full);
    CHECK_THAT(index >= 0, "%s", full);
    if (index >= 0)
        CHECK(!eitp_variable_read(n->context, full, 0, values, eitp_variable_at(n->context, (size_t)index).size,
                                  &error_));
    return values;
}

static void naive_norm(const naive_block *n, const char *name, const double *x, double *y) {
    char part[64];
    for (int is_bias = 0; is_bias < 2; is_bias++) {
        const float *w;
        snprintf(part, sizeof part, "%s.%s", name, is_bias ? "bias" : "weight");
        w = weights_of(n, part);
        for (int r = 0; r < ROWS; r++) {
            double mean = 0, square = 0;
            for (int c = 0; c < WIDTH && !is_bias; c++)
                mean += x[r * WIDTH + c] / WIDTH;
            for (int c = 0; c < WIDTH && !is_bias; c++)
                square += (x[r * WIDTH + c] - mean) * (x[r * WIDTH + c] - mean) / WIDTH;
            for (int c = 0; c < WIDTH; c++)
                y[r * WIDTH + c] = is_bias
                                       ? y[r * WIDTH + c] + (double)w[c]
                                       : (x[r * WIDTH + c] - mean) / sqrt(square + n->config->epsilon) * (double)w[c];
        }
    }
}

static void naive_linear(const naive_block *n, const char *name, const double *x, int in, int out, int is_relu,
                         double *y) {
    char part[64];
    const float *w;
    snprintf(part, sizeof part, "%s.weight", name);
    w = weights_of(n, part);
    for (int r = 0; r < ROWS; r++) {
        for (int o = 0; o < out; o++) {
            y[r * out + o] = 0;
            for (int i = 0; i < in; i++)
                y[r * out + o] += x[r * in + i] * (double)w[i * out + o];
        }
    }
    snprintf(part, sizeof part, "%s.bias", name);
    w = weights_of(n, part);
    for (int i = 0; i < ROWS * out; i++) {
        y[i] += (double)w[i % out];
        y[i] = is_relu && y[i] < 0 ? 0 : y[i];
    }
}

static void naive_attention(const naive_block *n, const double *qkv, double *y) {
    const int heads = (int)n->config->heads, size = WIDTH / heads;
    for (int s = 0; s < SEQUENCES; s++) {
        for (int h = 0; h < heads; h++) {
            for (int i = 0; i < n->lengths[s]; i++) {
                double score[LONGEST], sum = 0;
                int last = n->config->bidirectional ? n->lengths[s] - 1 : i;
                const double *q = qkv + (s * LONGEST + i) * 3 * WIDTH + h * size;
                for (int j = 0; j <= last; j++) {
                    const double *k = qkv + (s * LONGEST + j) * 3 * WIDTH + WIDTH + h * size;
                    score[j] = 0;
                    for (int c = 0; c < size; c++)
                        score[j] += q[c] * k[c] / sqrt((double)size);
                    sum += score[j] = exp(score[j]);
                }
                for (int c = 0; c < size; c++) {
                    double *to = &y[(s * LONGEST + i) * WIDTH + h * size + c];
                    *to = 0;
                    for (int j = 0; j <= last; j++)
                        *to += score[j] / sum * qkv[(s * LONGEST + j) * 3 * WIDTH + 2 * WIDTH + h * size + c];
                }
            }
        }
    }
}

/* Replaces x with the output of the block. */
static void naive_apply(const naive_block *n, double *x) {
    static double normed[ROWS * WIDTH], wide[ROWS * 3 * WIDTH], added[ROWS * WIDTH], sums[ROWS * WIDTH];
    static const char *const norms[] = {"ln_1", "ln_2"};
    const int inner = (int)n->config->inner;
    for (int part = 0; part < 2; part++) {
        memcpy(normed, x, sizeof normed);
        if (!n->config->post_norm)
            naive_norm(n, norms[part], x, normed);
        naive_linear(n, part ? "mlp.c_fc" : "attn.c_attn", normed, WIDTH, part ? inner : 3 * WIDTH, part, wide);
        memset(added, 0, sizeof added);
        if (!part)
            naive_attention(n, wide, added);
        if (part)
            naive_linear(n, "mlp.c_proj", wide, inner, WIDTH, 0, sums);
        else
            naive_linear(n, "attn.c_proj", added, WIDTH, WIDTH, 0, sums);
        for (int i = 0; i < ROWS * WIDTH; i++)
            x[i] += sums[i];
        memcpy(sums, x, sizeof sums);
        if (n->config->post_norm)
            naive_norm(n, norms[part], sums, x);
    }
}

static void check_naive(int post_norm, int bidirectional, int padded) {
    const int64_t shape[2] = {ROWS, WIDTH}, offset_shape = SEQUENCES + 1, length_shape = SEQUENCES;
    const int32_t offsets[SEQUENCES + 1] = {0, LONGEST, ROWS};
    const int32_t lengths[SEQUENCES] = {padded ? 4 : LONGEST, LONGEST};
    eitp_transformer_config config = small_gpt2();
    eitp_block_inputs inputs = eitp_block_inputs_default();
    naive_block n;
    float x[ROWS * WIDTH], y[ROWS * WIDTH];
    double expected[ROWS * WIDTH], worst = 0;
    eitp_context *context = open_context(NULL, "fp32");
    eitp_graph *graph;
    eitp_plan *plan;
    eitp_tensor *in, *out;
    config.activation = EITP_RELU;
    config.post_norm = post_norm;
    config.bidirectional = bidirectional;
    for (int i = 0; i < ROWS * WIDTH; i++)
        expected[i] = (double)(x[i] = (float)((i * 7919 % 1000) / 500.0 - 1));
    REQUIRE_OK(eitp_graph_create(context, &graph, &error_), error_);
    in = eitp_input_rows(graph, "x", EITP_F32, 2, shape);
    inputs.max_length = LONGEST;
    inputs.offsets = eitp_input(graph, "offsets", EITP_I32, 1, &offset_shape);
    inputs.lengths = padded ? eitp_input(graph, "lengths", EITP_I32, 1, &length_shape) : NULL;
    out = eitp_output(eitp_block(in, &config, "mine", 0, &inputs));
    REQUIRE_OK(eitp_graph_status(graph, &error_), error_);
    fill_all(context, 21);
    REQUIRE_OK(eitp_plan_create(graph, &plan, &error_), error_);
    CHECK(!eitp_plan_write(plan, in, x, sizeof x, &error_));
    CHECK(!eitp_plan_write(plan, inputs.offsets, offsets, sizeof offsets, &error_));
    if (padded)
        CHECK(!eitp_plan_write(plan, inputs.lengths, lengths, sizeof lengths, &error_));
    CHECK_THAT(!eitp_plan_execute(plan, &error_), "%s", error_.message);
    CHECK(!eitp_plan_read(plan, out, y, sizeof y, &error_));
    n.context = context;
    n.config = &config;
    n.lengths[0] = lengths[0];
    n.lengths[1] = lengths[1];
    naive_apply(&n, expected);
    for (int i = 0; i < ROWS * WIDTH; i++)
        worst = fmax(worst, fabs((double)y[i] - expected[i]));
    CHECK_THAT(worst < 5e-5, "post-norm %d, bidirectional %d, padded %d: %g", post_norm, bidirectional, padded, worst);
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

static void blocks_match_a_naive_implementation(void) {
    for (int way = 0; way < 8; way++)
        check_naive(way & 1, way >> 1 & 1, way >> 2);
}

/* Invalid arguments for blocks are errors that name the problem. */
static void invalid_blocks_are_errors(void) {
    static const struct {
        const char *name, *words;
        int heads, bidirectional, has_position, rank, layer;
    } cases[] = {
        {"", "name", 3, 0, 0, 0, 0},
        {"a.name.of.more.than.sixty-four.characters.for.which.there.is.no.room", "64", 3, 0, 0, 0, 0},
        {"mine", "n_head", 5, 0, 0, 0, 0},
        {"mine", "cache", 3, 1, 1, 0, 0},
        {"mine", "rank", 3, 0, 0, -1, 0},
        {"mine", "layer", 3, 0, 0, 0, -1},
    };
    eitp_lora_config lora = eitp_lora_config_default();
    const int64_t shape[2] = {ROWS, WIDTH}, one = 1;
    eitp_context *context = open_context(NULL, "fp32");
    eitp_transformer_config config = small_gpt2();
    eitp_block_inputs inputs = eitp_block_inputs_default();
    eitp_generator *generator = NULL;
    eitp_model *model;
    eitp_graph *graph;
    const eitp_host host = eitp_host_default();
    char directory[512];
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        config = small_gpt2();
        config.heads = cases[i].heads;
        config.bidirectional = cases[i].bidirectional;
        REQUIRE_OK(eitp_graph_create(context, &graph, &error_), error_);
        inputs.position = cases[i].has_position ? eitp_input(graph, "position", EITP_I32, 1, &one) : NULL;
        lora.rank = cases[i].rank;
        inputs.lora = &lora;
        CHECK(!eitp_block(eitp_input_rows(graph, "x", EITP_F32, 2, shape), &config, cases[i].name, cases[i].layer,
                          &inputs));
        CHECK_THAT(eitp_graph_status(graph, &error_) && strstr(error_.message, cases[i].words), "%zu: %s", i,
                   error_.message);
        CHECK(!eitp_block(NULL, &config, "mine", 0, &inputs));
        eitp_graph_destroy(graph);
        CHECK(i > 2 || eitp_block_initialize(context, &config, cases[i].name, 1, &error_));
    }
    CHECK(eitp_block_initialize(NULL, &config, "mine", 1, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(!eitp_variable_count(context));
    /* The existing variable with this name has another shape. */
    config = small_gpt2();
    inputs.lora = NULL;
    REQUIRE_OK(eitp_graph_create(context, &graph, &error_), error_);
    CHECK(eitp_parameter(graph, "mine.ln_1.weight", 1, &one) != NULL);
    CHECK(!eitp_block(eitp_input_rows(graph, "x", EITP_F32, 2, shape), &config, "mine", 0, &inputs));
    CHECK(eitp_graph_status(graph, &error_) && strstr(error_.message, "mine.ln_1.weight"));
    eitp_graph_destroy(graph);
    config.bidirectional = 1;
    REQUIRE_OK(eitp_model_create(context, &config, &model, &error_), error_);
    CHECK(eitp_generator_create(model, 0, &generator, &error_) == EITP_ERROR_UNSUPPORTED && !generator);
    CHECK_THAT(strstr(error_.message, "bidirectional") != NULL, "%s", error_.message);
    /* GPT-2's config.json cannot express it. */
    REQUIRE(scratch_make(directory));
    CHECK(eitp_transformer_config_write(&host, scratch_path(directory, "config.json"), &config, -1, EITP_F32,
                                        &error_) == EITP_ERROR_UNSUPPORTED);
    CHECK_THAT(strstr(error_.message, "bidirectional") != NULL, "%s", error_.message);
    scratch_remove(directory);
    eitp_model_destroy(model);
    eitp_context_destroy(context);
}

/* Accessors of a model's properties. */
static void models_give_their_properties(void) {
    eitp_transformer_config config = small_gpt2();
    eitp_lora_config lora = eitp_lora_config_default();
    eitp_context *context = open_context(NULL, "fp32");
    eitp_model *model;
    config.architecture = NULL;
    REQUIRE_OK(eitp_model_create(context, &config, &model, &error_), error_);
    CHECK(eitp_model_vocabulary(model) == 61 && eitp_model_positions(model) == LONGEST);
    CHECK(eitp__model_has_dropout(model) && eitp_model_config(model).architecture == eitp_architecture_find("gpt2"));
    REQUIRE_OK(eitp_model_set_dropout(model, 0, 0, 0, &error_), error_);
    CHECK(!eitp__model_has_dropout(model));
    lora.dropout = 0.1;
    REQUIRE_OK(eitp_model_add_lora(model, &lora, &error_), error_);
    CHECK(eitp__model_has_dropout(model));
    CHECK(!eitp_model_vocabulary(NULL) && !eitp_model_positions(NULL) && !eitp__model_has_dropout(NULL));
    CHECK(!eitp_model_hidden(NULL, NULL, NULL, 1) && !eitp_model_logits(model, NULL));
    CHECK(eitp_architecture_find("gpt2") == eitp__architecture_at(0) && !eitp_architecture_find("t5"));
    CHECK(!eitp_architecture_find(NULL) && !strcmp(eitp_architecture_name(NULL), "gpt2"));
    CHECK(!strcmp(eitp_architecture_name(&other), "other"));
    eitp_model_destroy(model);
    eitp_context_destroy(context);
}

/* ---- config.json ---- */

static eitp_status parse(const eitp_architecture *architecture, const char *text, eitp_transformer_config *config) {
    const eitp_host host = eitp_host_default();
    eitp_json_document *document;
    eitp_status status = eitp_json_parse(&host, text, strlen(text), &document, &error_);
    if (!status)
        status = eitp__transformer_config_parse(eitp_json_root(document), architecture, config, &error_);
    eitp_json_release(document);
    return status;
}

/* A named shape's MLP follows a width that is set later, in the model and in its file. */
static void the_mlp_of_a_named_shape_follows_its_width(void) {
    static const char *const shapes[] = {"gpt2", "bert-base", "roberta-base", "distilbert-base"};
    for (size_t i = 0; i < EITP__COUNT(shapes); i++) {
        const eitp_context_config settings = eitp_context_config_default();
        const eitp_host host = eitp_host_default();
        eitp_transformer_config config, read;
        eitp_context *context;
        eitp_model *model;
        char directory[512];
        REQUIRE(scratch_make(directory));
        REQUIRE_OK(eitp_transformer_config_named(shapes[i], &config, &error_), error_);
        config.width = 16;
        config.heads = 2;
        config.layers = 1;
        config.vocabulary = config.positions = 20;
        REQUIRE_OK(eitp_context_create(&settings, &context, &error_), error_);
        REQUIRE_OK(eitp_model_create(context, &config, &model, &error_), error_);
        CHECK_THAT(eitp_model_config(model).inner == 64, "%s: %lld", shapes[i],
                   (long long)eitp_model_config(model).inner);
        REQUIRE_OK(eitp_transformer_config_write(&host, scratch_path(directory, "config.json"), &config, -1, EITP_F32,
                                                 &error_),
                   error_);
        REQUIRE_OK(eitp_transformer_config_read(&host, scratch_path(directory, "config.json"), &read, &error_), error_);
        CHECK(read.inner == 64);
        config.inner = 24;
        eitp_model_destroy(model);
        eitp_context_destroy(context);
        REQUIRE_OK(eitp_context_create(&settings, &context, &error_), error_);
        REQUIRE_OK(eitp_model_create(context, &config, &model, &error_), error_);
        CHECK(eitp_model_config(model).inner == 24);
        eitp_model_destroy(model);
        eitp_context_destroy(context);
        scratch_remove(directory);
    }
}

/* config.json is read and written with the keys in the architecture's table. */
static void config_keys_follow_the_architecture(void) {
    static const struct {
        const char *text, *words;
    } bad[] = {
        {"{\"kind_of_positions\": \"relative\"}", "kind_of_positions relative (expected absolute)"},
        {"{\"is_decoder\": true}", "is_decoder true (expected false)"},
        {"{\"is_decoder\": 1}", "is_decoder"},
        {"{\"act\": \"mish\"}", "act 'mish'"},
        {"{\"hidden\": 13}", "hidden 13 is not divisible by heads 3"},
        {"{\"vocab\": 0}", "vocab"},
        {"{\"dropout\": 1}", "dropout"},
        {"{\"segments\": 0}", "segments"},
        {"{\"hidden\": null}", "'hidden' must not be null"},
        {"{\"is_decoder\": null}", "is_decoder null (expected false)"},
        {"{\"num_labels\": 1, \"problem_type\": \"single_label_classification\"}", "needs two labels or more"},
    };
    eitp_transformer_config config, again;
    const eitp_host host = eitp_host_default();
    eitp__buffer text;
    char directory[512];
    REQUIRE_OK(parse(&other, "{}", &config), error_);
    CHECK(config.architecture == &other && config.post_norm && config.bidirectional && config.inner == 48);
    CHECK(config.vocabulary == 31 && config.activation == EITP_GELU_ERF);
    REQUIRE_OK(parse(&other,
                     "{\"vocab\": 40, \"old_vocab\": 50, \"kind_of_positions\": \"absolute\", \"is_decoder\": false, "
                     "\"act\": \"relu\", \"hidden\": 32, \"heads\": 4, \"intermediate\": 50, \"dropout\": 0.25}",
                     &config),
               error_);
    CHECK(config.vocabulary == 50 && config.activation == EITP_RELU && config.width == 32 && config.inner == 50);
    REQUIRE_OK(parse(&other, "{\"old_vocab\": 40}", &again), error_);
    CHECK(again.vocabulary == 40);
    for (size_t i = 0; i < EITP__COUNT(bad); i++) {
        CHECK(parse(&other, bad[i].text, &again) != EITP_OK);
        CHECK_THAT(strstr(error_.message, bad[i].words) != NULL, "%s: %s", bad[i].text, error_.message);
    }
    REQUIRE(scratch_make(directory));
    REQUIRE_OK(
        eitp_transformer_config_write(&host, scratch_path(directory, "config.json"), &config, -1, EITP_F16, &error_),
        error_);
    eitp__buffer_init(&text, &host);
    REQUIRE_OK(eitp__read_file(&host, scratch_path(directory, "config.json"), 1 << 16, &text, &error_), error_);
    CHECK_THAT(
        !strcmp(text.data,
                "{\n  \"architectures\": [\"OtherModel\"],\n  \"model_type\": \"other\",\n"
                "  \"act\": \"relu\",\n  \"vocab\": 50,\n  \"max_length\": 20,\n"
                "  \"hidden\": 32,\n  \"heads\": 4,\n  \"layers\": 2,\n  \"intermediate\": 50,\n  \"segments\": 2,\n"
                "  \"dropout\": 0.25,\n  \"tied\": true,\n  \"bos_token_id\": null,\n"
                "  \"eos_token_id\": null,\n  \"pad_token_id\": null,\n"
                "  \"torch_dtype\": \"float16\",\n  \"dtype\": \"float16\"\n}\n"),
        "%s", text.data);
    eitp__buffer_release(&text);
    /* Architectures that are not in the table are refused. */
    CHECK(eitp_transformer_config_read(&host, scratch_path(directory, "config.json"), &again, &error_) ==
          EITP_ERROR_UNSUPPORTED);
    CHECK_THAT(strstr(error_.message, "unsupported model_type 'other' (supported: gpt2") != NULL, "%s", error_.message);
    scratch_remove(directory);
}

/*
 * Each architecture has a key for every size that the builder multiplies by, so messages can name it. Parameter names
 * are unique.
 */
static void tables_are_complete(void) {
    const eitp_architecture *architecture;
    for (size_t a = 0; (architecture = eitp__architecture_at(a)); a++) {
        const eitp_transformer_config config = eitp__architecture_defaults(architecture);
        for (int field = EITP__FIELD_VOCABULARY; field <= EITP__FIELD_INNER; field++) {
            int keys = 0;
            for (size_t i = 0; i < architecture->key_count; i++)
                keys += (int)architecture->keys[i].field == field && architecture->keys[i].form != EITP__KEY_ALIAS;
            CHECK_THAT(keys == 1, "%s: field %d", architecture->model_type, field);
        }
        for (int slot = EITP__ATTENTION_INPUT; slot < EITP__LINEAR_SLOTS; slot++)
            CHECK(eitp__row_find(&config, (eitp__model_slot)slot, EITP__WEIGHT) != NULL);
        CHECK(eitp__row_find(&config, EITP__TOKEN_EMBEDDING, EITP__WEIGHT) != NULL);
        for (size_t i = 0; i < architecture->row_count; i++) {
            const eitp__parameter_row *row = &architecture->rows[i];
            CHECK(!i || row[-1].place <= row->place);
            CHECK(row->slot >= EITP__LINEAR_SLOTS || row->part == EITP__BIAS ||
                  !strcmp(row->name + strlen(row->name) - strlen(".weight"), ".weight"));
            CHECK(strlen(row->name) < 50);
            for (size_t k = 0; k < i; k++)
                CHECK(strcmp(row->name, architecture->rows[k].name) &&
                      (row->slot != architecture->rows[k].slot || row->part != architecture->rows[k].part ||
                       !(row->with & architecture->rows[k].with)));
        }
    }
}

/* ---- Files ---- */

/* Returns the values of a tensor in a file. */
static float *tensor_of(const eitp__safetensors *file, const char *name, int64_t rows, int64_t columns) {
    const eitp__safetensors_entry *entry = eitp__safetensors_find(file, name);
    float *values = entry ? (float *)malloc((size_t)entry->count * sizeof *values) : NULL;
    CHECK_THAT(entry && entry->shape[0] == (rows ? rows : columns) && (!rows || entry->shape[1] == columns), "%s",
               name);
    if (values)
        CHECK(!eitp__safetensors_read_f32(file, entry, 0, entry->count, values, NULL, &error_));
    return values;
}

/* Compares columns [first, first + columns) of a variable [rows, all] with a tensor, which may be transposed. */
static void check_piece(eitp_context *context, const char *variable, const eitp__safetensors *file, const char *tensor,
                        int64_t rows, int64_t all, int64_t first, int64_t columns, int is_transposed) {
    int64_t count = 0, wrong = 0;
    float *whole = values_of(context, variable, &count);
    float *piece = tensor_of(file, tensor, is_transposed ? columns : rows, is_transposed ? rows : columns);
    const int64_t lines = rows ? rows : 1;
    CHECK_THAT(count == lines * all, "%s: %lld", variable, (long long)count);
    for (int64_t r = 0; r < lines && whole && piece; r++) {
        for (int64_t c = 0; c < columns; c++)
            wrong +=
                memcmp(&piece[is_transposed ? c * lines + r : r * columns + c], &whole[r * all + first + c], 4) != 0;
    }
    CHECK_THAT(!wrong, "%s: %lld of %lld differ", tensor, (long long)wrong, (long long)(lines * columns));
    free(whole);
    free(piece);
}

/* Returns the number of variables that differ between two contexts. */
static int differing(eitp_context *a, eitp_context *b) {
    int wrong = 0;
    for (size_t i = 0; i < eitp_variable_count(a); i++) {
        eitp_variable variable = eitp_variable_at(a, i);
        unsigned char *x = (unsigned char *)malloc(variable.size), *y = (unsigned char *)malloc(variable.size);
        CHECK(!eitp_variable_read(a, variable.name, 0, x, variable.size, &error_));
        CHECK(!eitp_variable_read(b, variable.name, 0, y, variable.size, &error_));
        wrong += memcmp(x, y, variable.size) != 0;
        free(x);
        free(y);
    }
    return wrong;
}

/* Saves a model of the architecture and checks its files. 16-bit values include their remainders. */
static void check_layouts(int64_t width, int64_t inner, const char *precision) {
    eitp_transformer_config config = other_config();
    char directory[512], path[600];
    const eitp_host host = eitp_host_default();
    uint32_t written = 0;
    eitp__read_sums read = EITP__ZERO;
    eitp__file_sum whole = EITP__ZERO;
    eitp__safetensors *file;
    eitp_context *a = open_context(NULL, precision), *b = open_context(NULL, precision);
    eitp_model *model, *loaded;
    config.width = width;
    config.inner = inner;
    config.tied = 0;
    REQUIRE(scratch_make(directory));
    REQUIRE_OK(eitp_model_create(a, &config, &model, &error_), error_);
    fill_all(a, 8);
    REQUIRE_OK(model_file_write(model, directory, &written, &error_), error_);
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    REQUIRE_OK(eitp__safetensors_open(&a->host, path, &file, &error_), error_);
    CHECK_THAT(eitp__safetensors_count(file) == 6 + 2 * 17, "%zu", eitp__safetensors_count(file));
    for (int i = 0; i < 3; i++) {
        static const char *const names[3][2] = {{"base.block.1.self.q.weight", "base.block.1.self.q.bias"},
                                                {"base.block.1.self.k.weight", "base.block.1.self.k.bias"},
                                                {"base.block.1.self.v.weight", "base.block.1.self.v.bias"}};
        check_piece(a, "base.block.1.self.qkv.weight", file, names[i][0], width, 3 * width, i * width, width, 1);
        check_piece(a, "base.block.1.self.qkv.bias", file, names[i][1], 0, 3 * width, i * width, width, 0);
    }
    check_piece(a, "base.block.0.self.out.weight", file, "base.block.0.self.out.weight", width, width, 0, width, 1);
    check_piece(a, "base.block.0.down.weight", file, "base.block.0.down.weight", inner, width, 0, width, 1);
    check_piece(a, "base.block.0.up.weight", file, "base.block.0.up.left", width, inner, 0, inner / 2, 0);
    check_piece(a, "base.block.0.up.weight", file, "base.block.0.up.right", width, inner, inner / 2, inner / 2, 0);
    check_piece(a, "base.embed.words.weight", file, "base.embed.words.weight", 31, width, 0, width, 0);
    check_piece(a, "decoder.weight", file, "decoder.weight", 31, width, 0, width, 0);
    eitp__safetensors_close(file);
    REQUIRE_OK(eitp_model_create(b, &config, &loaded, &error_), error_);
    REQUIRE_OK(eitp_model_initialize(loaded, 1, &error_), error_);
    REQUIRE_OK(model_file_read(loaded, path, EITP__READ_ALL, &read, &error_), error_);
    REQUIRE_OK(eitp__sum_from(&host, path, 0, 0, &whole, &error_), error_);
    CHECK(read.tensors == written && read.file.crc == whole.crc && read.file.size == whole.size);
    CHECK(differing(a, b) > 20);
    REQUIRE_OK(eitp_model_load_weights(loaded, directory, &error_), error_);
    CHECK(!differing(a, b));
    fill_all(b, 9);
    REQUIRE_OK(model_file_read(loaded, path, EITP__READ_LOAD, &read, &error_), error_);
    CHECK(!differing(a, b) && read.tensors == written && read.file.crc == whole.crc);
    eitp_model_destroy(model);
    eitp_model_destroy(loaded);
    eitp_context_destroy(a);
    eitp_context_destroy(b);
    scratch_remove(directory);
}

/* Layouts side by side and transposed, small and large enough for several reads, and in 16 bits with remainders. */
static void parameters_are_laid_out_by_the_table(void) {
    check_layouts(12, 20, "fp32");
    check_layouts(12, 20, "bf16");
    check_layouts(600, 700, "fp32");
}

/* Files without the prefix, with a missing piece, and with a piece of another shape. */
static void pieces_are_found_and_checked(void) {
    const eitp_transformer_config config = other_config();
    const eitp_host host = eitp_host_default();
    char directory[512], path[600];
    eitp_context *a = open_context(NULL, "fp32"), *b = open_context(NULL, "fp32");
    eitp_model *model, *loaded;
    eitp__buffer bytes;
    REQUIRE(scratch_make(directory));
    REQUIRE_OK(eitp_model_create(a, &config, &model, &error_), error_);
    REQUIRE_OK(eitp_model_create(b, &config, &loaded, &error_), error_);
    fill_all(a, 8);
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    for (int way = 0; way < 3; way++) {
        static const char *const from[] = {"", "self.k.weight", "\"shape\":[12,20]"};
        static const char *const to[] = {"", "self.x.weight", "\"shape\":[20,12]"};
        REQUIRE_OK(eitp_model_save(model, directory, &error_), error_);
        eitp__buffer_init(&bytes, &host);
        REQUIRE_OK(eitp__read_file(&host, path, 1 << 20, &bytes, &error_), error_);
        for (size_t at = 8; at + 16 < bytes.size && bytes.data[at]; at++) {
            size_t length = strlen(from[way]);
            if (!strncmp(bytes.data + at, from[way], length) && way)
                memcpy(bytes.data + at, to[way], length);
            /* Remove the prefix by moving the quote to its end. */
            if (!strncmp(bytes.data + at, "\"base.", 6) && !way)
                memcpy(bytes.data + at, "     \"", 6);
        }
        REQUIRE_OK(eitp__write_file(&host, path, bytes.data, bytes.size, &error_), error_);
        eitp__buffer_release(&bytes);
        CHECK_THAT(!eitp_model_load_weights(loaded, directory, &error_) == !way, "%d: %s", way, error_.message);
        CHECK_THAT(way != 1 || strstr(error_.message, "base.block.0.self.k.weight"), "%s", error_.message);
        CHECK_THAT(way != 2 || strstr(error_.message, "has shape [20, 12], expected [12, 20]"), "%s", error_.message);
        CHECK(way || !differing(a, b));
        CHECK_THAT(model_file_read(loaded, path, EITP__READ_LOAD, NULL, &error_) == EITP_ERROR_FORMAT, "%d", way);
    }
    eitp_model_destroy(model);
    eitp_model_destroy(loaded);
    eitp_context_destroy(a);
    eitp_context_destroy(b);
    scratch_remove(directory);
}

static eitp_status save_and_load(const eitp_host *host, const char *directory) {
    eitp_transformer_config config = other_config();
    eitp_context *context = open_context(host, "fp32");
    eitp_save_config save = eitp_save_config_default();
    eitp_model *model = NULL;
    eitp_status status;
    config.layers = 1;
    save.dtype = EITP_SAVE_BF16;
    status = context ? eitp_model_create(context, &config, &model, &error_) : error_.status;
    if (!status)
        status = eitp_model_initialize(model, 1, &error_);
    if (!status)
        status = eitp_model_save_with(model, directory, &save, &error_);
    if (!status)
        status = eitp_model_load_weights(model, directory, &error_);
    eitp_model_destroy(model);
    eitp_context_destroy(context);
    return status;
}

static void files_in_pieces_survive_failures(void) {
    char directory[512];
    REQUIRE(scratch_make(directory));
    for (int files = 0; files < 2; files++) {
        faults f;
        long n = 0;
        int more = 1;
        while (more && !test_failures_) {
            eitp_status status;
            faults_begin(&f);
            if (files)
                f.fail_file_call = ++n;
            else
                f.fail_allocation = ++n;
            status = save_and_load(&f.host, directory);
            CHECK_THAT(!status || status == (files ? EITP_ERROR_IO : EITP_ERROR_MEMORY), "%ld: %d %s", n, (int)status,
                       error_.message);
            more = faults_end(&f);
        }
        CHECK_THAT(n > 40, "only %ld calls", n);
    }
    scratch_remove(directory);
}

/* ---- Adapters and freezing ---- */

static int is_trained(eitp_context *context, const char *name) {
    int64_t index = eitp_variable_find(context, name);
    CHECK_THAT(index >= 0, "%s", name);
    return index >= 0 && eitp_variable_at(context, (size_t)index).trained;
}

/* "embeddings" and "layers:N" select places in the architecture's table, not GPT-2's names. */
static void parts_are_frozen_by_place(void) {
    const eitp_transformer_config config = other_config();
    eitp_context *context = open_context(NULL, "fp32");
    eitp_model *model;
    REQUIRE_OK(eitp_model_create(context, &config, &model, &error_), error_);
    CHECK(eitp__trains_tied_embedding(model));
    REQUIRE_OK(eitp_model_freeze(model, "embeddings,layers:1,block.1.norm2.*", &error_), error_);
    CHECK(!is_trained(context, "base.embed.words.weight") && !is_trained(context, "base.embed.norm.bias"));
    CHECK(!is_trained(context, "base.block.0.self.qkv.weight") && !is_trained(context, "base.block.0.norm2.bias"));
    CHECK(is_trained(context, "base.block.1.self.qkv.weight") && !is_trained(context, "base.block.1.norm2.bias"));
    CHECK(!eitp__trains_tied_embedding(model));
    CHECK(eitp_model_freeze(model, "layers:3", &error_) == EITP_ERROR_ARGUMENT);
    eitp_model_destroy(model);
    eitp_context_destroy(context);
}

/* Targets use the architecture's names. Adapters have the shapes in its table. */
static void adapters_follow_the_table(void) {
    static const struct {
        const char *names, *written;
        unsigned targets;
    } cases[] = {
        {"self.q,v", "q,v", EITP_LORA_QUERY | EITP_LORA_VALUE},
        {"down,out", "out,down", EITP_LORA_MLP_OUTPUT | EITP_LORA_ATTENTION_OUTPUT},
        {"up.right", "right", 1u << 11},
        {"all-linear", "q,k,v,out,left,right,down", 16 + 32 + 64 + 2 + (1u << 10) + (1u << 11) + 8},
    };
    const eitp_transformer_config config = other_config();
    const eitp_host host = eitp_host_default();
    eitp_lora_config lora = eitp_lora_config_default();
    char directory[512], names[64];
    eitp__buffer text;
    eitp_context *context = open_context(NULL, "fp32");
    eitp_model *model;
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        REQUIRE_OK(eitp_lora_targets_parse(&other, cases[i].names, &lora, &error_), error_);
        CHECK_THAT(lora.targets == cases[i].targets, "%s: %u", cases[i].names, lora.targets);
        eitp_lora_targets_format(&other, &lora, names, sizeof names);
        CHECK_THAT(!strcmp(names, cases[i].written), "%s", names);
    }
    CHECK(eitp_lora_targets_parse(&other, "c_attn", &lora, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(
        strstr(error_.message, "'c_attn' in other (choose from self.q, self.k, self.v, self.out, up.left, up.right, "),
        "%s", error_.message);
    REQUIRE_OK(eitp_model_create(context, &config, &model, &error_), error_);
    lora.rank = 2;
    lora.targets = 15;
    REQUIRE_OK(eitp_model_add_lora(model, &lora, &error_), error_);
    CHECK(is_trained(context, "base.block.1.up.left.lora_A.weight") && !is_trained(context, "base.block.1.up.weight"));
    CHECK(eitp_model_trained_parameter_count(model) == 2 * 2 * (4 * (12 + 12) + 2 * (12 + 10) + 20 + 12));
    CHECK(eitp_model_lora_config(model).targets == cases[EITP__COUNT(cases) - 1].targets);
    REQUIRE(scratch_make(directory));
    REQUIRE_OK(eitp_lora_save(model, directory, NULL, &error_), error_);
    eitp__buffer_init(&text, &host);
    REQUIRE_OK(eitp__read_file(&host, scratch_path(directory, "adapter_config.json"), 1 << 16, &text, &error_), error_);
    CHECK_THAT(strstr(text.data, "\"target_modules\": [\"q\", \"k\", \"v\", \"out\", \"left\", \"right\", \"down\"]") &&
                   strstr(text.data, "\"fan_in_fan_out\": false"),
               "%s", text.data);
    eitp__buffer_release(&text);
    eitp_model_destroy(model);
    eitp_context_destroy(context);
    scratch_remove(directory);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(own_blocks_match_the_model),
        TEST(added_values_are_part_of_the_embeddings),
        TEST(block_initialize_matches_the_model),
        TEST(embeddings_follow_the_table),
        TEST(blocks_match_a_naive_implementation),
        TEST(invalid_blocks_are_errors),
        TEST(models_give_their_properties),
        TEST(config_keys_follow_the_architecture),
        TEST(tables_are_complete),
        TEST(parameters_are_laid_out_by_the_table),
        TEST(pieces_are_found_and_checked),
        TEST(files_in_pieces_survive_failures),
        TEST(the_mlp_of_a_named_shape_follows_its_width),
        TEST(parts_are_frozen_by_place),
        TEST(adapters_follow_the_table),
    };
    return RUN_TESTS(tests, argc, argv);
}
