/* GPT-2 compared with PyTorch: logits, gradients, 20 training steps and generation, for every golden directory. */
#include "tests/support/everything.h"
#include "tests/support/faults.h"
#include "tests/support/test.h"

#define GOLDEN "tests/golden/gpt2/"

/* A golden model in a context, with the values that PyTorch computed for it. */
typedef struct golden {
    eitp_context *context;
    eitp_model *model;
    eitp__safetensors *expected;
} golden;

static eitp_error error_;

/* Opens a model directory and the golden directory with its expected values. */
static int open_model(golden *g, const char *path, const char *expected, const char *isa) {
    char expected_path[200];
    eitp_context_config config = eitp_context_config_default();
    memset(g, 0, sizeof *g);
    config.isa = isa;
    config.threads = 2;
    if (eitp_context_create(&config, &g->context, &error_) || eitp_model_load(g->context, path, &g->model, &error_)) {
        printf("    %s: %s\n", path, error_.message);
        return 0;
    }
    snprintf(expected_path, sizeof expected_path, GOLDEN "%s/expected.safetensors", expected);
    return !eitp__safetensors_open(&config.host, expected_path, &g->expected, &error_);
}

static int open_golden(golden *g, const char *directory, const char *expected, const char *isa) {
    char path[200];
    snprintf(path, sizeof path, GOLDEN "%s", directory);
    return open_model(g, path, expected, isa);
}

static void close_golden(golden *g) {
    eitp__safetensors_close(g->expected);
    eitp_model_destroy(g->model);
    eitp_context_destroy(g->context);
}

static const eitp__safetensors_entry *entry(const golden *g, const char *name) {
    return eitp__safetensors_find(g->expected, name);
}

/* Returns the elements of an entry, as f32 or unconverted. The caller frees them. */
static float *read_f32(const golden *g, const char *name) {
    const eitp__safetensors_entry *e = entry(g, name);
    float *values = e ? (float *)malloc((size_t)e->count * sizeof *values) : NULL;
    if (values && eitp__safetensors_read_f32(g->expected, e, 0, e->count, values, NULL, &error_))
        printf("    %s: %s\n", name, error_.message);
    return values;
}

static void *read_raw(const golden *g, const char *name) {
    const eitp__safetensors_entry *e = entry(g, name);
    void *values = e ? malloc((size_t)e->size) : NULL;
    if (values && eitp__safetensors_read(g->expected, e, 0, e->count, values, NULL, &error_))
        printf("    %s: %s\n", name, error_.message);
    return values;
}

/* ||a - b|| / ||b|| */
static double relative_error(const float *a, const float *b, int64_t count) {
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < count; i++) {
        difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        norm += (double)b[i] * (double)b[i];
    }
    return sqrt(difference) / (sqrt(norm) > 1e-12 ? sqrt(norm) : 1);
}

/* A training graph with logits, written with one batch of the golden file. */
typedef struct fixture {
    eitp_graph *graph;
    eitp_plan *plan;
    eitp_model_inputs inputs;
    eitp_tensor *targets, *weight, *carry, *logits, *losses;
    int64_t batch, block;
} fixture;

static int make_fixture(const golden *g, fixture *f, int64_t batch, int64_t block) {
    int64_t rows = batch * block, one = 1;
    eitp_tensor *loss;
    memset(f, 0, sizeof *f);
    f->batch = batch;
    f->block = block;
    if (eitp_graph_create(g->context, &f->graph, &error_))
        return 0;
    f->inputs = eitp_model_inputs_create(f->graph, batch, block, 0);
    f->targets = eitp_input_rows(f->graph, "targets", EITP_I32, 1, &rows);
    f->weight = eitp_input(f->graph, "weight", EITP_F32, 1, &one);
    f->carry = eitp_input(f->graph, "carry", EITP_F32, 1, &one);
    f->logits = eitp_output(eitp_model_logits(g->model, eitp_model_hidden(g->model, f->graph, &f->inputs, block)));
    f->losses = eitp_output(eitp_cross_entropy(f->logits, f->targets, -100));
    loss = eitp_multiply(eitp_sum(f->losses, EITP_ALL_DIMENSIONS, 0), f->weight);
    if (eitp_accumulate_gradients(loss, f->carry, &error_) || eitp_plan_create(f->graph, &f->plan, &error_)) {
        printf("    %s\n", error_.message);
        return 0;
    }
    return 1;
}

static void release_fixture(fixture *f) {
    eitp_plan_destroy(f->plan);
    eitp_graph_destroy(f->graph);
}

/* Executes one batch. Returns the sum of its losses. */
static double run_batch(fixture *f, const int32_t *tokens, const int32_t *targets, float weight, float carry) {
    int64_t rows = f->batch * f->block;
    size_t bytes = (size_t)rows * sizeof(int32_t);
    int32_t *positions = (int32_t *)malloc(bytes), *offsets = (int32_t *)malloc((size_t)(f->batch + 1) * 4);
    float *losses = (float *)malloc(bytes);
    double sum = 0;
    for (int64_t i = 0; i < rows; i++)
        positions[i] = (int32_t)(i % f->block);
    for (int64_t i = 0; i <= f->batch; i++)
        offsets[i] = (int32_t)(i * f->block);
    CHECK(!eitp_plan_write(f->plan, f->inputs.tokens, tokens, bytes, &error_));
    CHECK(!eitp_plan_write(f->plan, f->inputs.positions, positions, bytes, &error_));
    CHECK(!eitp_plan_write(f->plan, f->inputs.offsets, offsets, (size_t)(f->batch + 1) * 4, &error_));
    CHECK(!eitp_plan_write(f->plan, f->targets, targets, bytes, &error_));
    CHECK(!eitp_plan_write(f->plan, f->weight, &weight, sizeof weight, &error_));
    CHECK(!eitp_plan_write(f->plan, f->carry, &carry, sizeof carry, &error_));
    CHECK(!eitp_plan_execute(f->plan, &error_));
    CHECK(!eitp_plan_read(f->plan, f->losses, losses, bytes, &error_));
    for (int64_t i = 0; i < rows; i++)
        sum += (double)losses[i];
    free(positions);
    free(offsets);
    free(losses);
    return sum;
}

static int64_t count_valid(const int32_t *targets, int64_t count) {
    int64_t valid = 0;
    for (int64_t i = 0; i < count; i++)
        valid += targets[i] != -100;
    return valid;
}

/* Checks that the relative error of every gradient is at most `tolerance`. Gradients that are zero in theory have an
   absolute bound. */
static void check_gradients(const golden *g, double tolerance) {
    for (size_t i = 0; i < eitp_variable_count(g->context); i++) {
        eitp_variable variable = eitp_variable_at(g->context, i);
        char name[200];
        float *expected, *actual;
        double error;
        if (variable.role != EITP_GRADIENT)
            continue;
        snprintf(name, sizeof name, "grad.%s", variable.name + strlen("gradient."));
        expected = read_f32(g, name);
        CHECK_THAT(expected != NULL, "%s", name);
        if (!expected)
            continue;
        actual = (float *)malloc(variable.size);
        CHECK(!eitp_variable_read(g->context, variable.name, 0, actual, variable.size, &error_));
        error = relative_error(actual, expected, (int64_t)(variable.size / 4));
        CHECK_THAT(error < tolerance, "%s: %g", name, error);
        free(expected);
        free(actual);
    }
}

/* Checks logits, loss and gradients of one directory with one kernel set. */
static void check_forward_backward(const char *directory, const char *isa) {
    golden g;
    fixture f;
    int32_t *tokens, *targets;
    float *expected, *logits;
    double *loss, sum, worst;
    int64_t rows, valid, vocabulary;
    REQUIRE(open_golden(&g, directory, directory, isa));
    REQUIRE(make_fixture(&g, &f, entry(&g, "tokens")->shape[0], entry(&g, "tokens")->shape[1]));
    rows = f.batch * f.block;
    vocabulary = eitp_model_config(g.model).vocabulary;
    tokens = (int32_t *)read_raw(&g, "tokens");
    targets = (int32_t *)read_raw(&g, "targets");
    loss = (double *)read_raw(&g, "loss");
    expected = read_f32(&g, "logits");
    logits = (float *)malloc((size_t)(rows * vocabulary) * 4);
    valid = count_valid(targets, rows);
    sum = run_batch(&f, tokens, targets, (float)(1.0 / (double)valid), 0);
    CHECK(!eitp_plan_read(f.plan, f.logits, logits, (size_t)(rows * vocabulary) * 4, &error_));
    worst = relative_error(logits, expected, rows * vocabulary);
    CHECK_THAT(worst < 1e-5, "%s %s: logits %g", directory, isa, worst);
    CHECK_THAT(fabs(sum / (double)valid - loss[0]) < 1e-5, "%s %s: loss %.9f, not %.9f", directory, isa,
               sum / (double)valid, loss[0]);
    check_gradients(&g, 1e-4);
    free(tokens);
    free(targets);
    free(loss);
    free(expected);
    free(logits);
    release_fixture(&f);
    close_golden(&g);
}

static const char *const shapes[] = {"tanh", "erf", "inner", "wide", "deep", "untied"};
static const char *const sets[] = {"ref", "avx2", "avx512"};

static int available(const char *isa) {
    eitp_context_config config = eitp_context_config_default();
    eitp_context *context;
    config.isa = isa;
    if (eitp_context_create(&config, &context, &error_))
        return 0;
    eitp_context_destroy(context);
    return 1;
}

static void logits_loss_and_gradients_match_pytorch(void) {
    for (size_t s = 0; s < sizeof sets / sizeof *sets; s++) {
        if (!available(sets[s])) {
            printf("SKIPPED gpt2 with %s: %s\n", sets[s], error_.message);
            continue;
        }
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            check_forward_backward(shapes[i], sets[s]);
    }
}

/* Checks losses and norms of the 20 golden steps of one directory. */
static void check_training(const char *directory) {
    golden g;
    fixture f;
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_update update;
    eitp_optimizer_config adamw = eitp_optimizer_config_default();
    const eitp__safetensors_entry *shape;
    int32_t *tokens, *targets;
    float *rates, *limit;
    double *losses, *norms;
    int64_t steps, micro, rows;
    REQUIRE(open_golden(&g, directory, directory, NULL));
    shape = entry(&g, "train.tokens");
    steps = shape->shape[0];
    micro = shape->shape[1];
    REQUIRE(make_fixture(&g, &f, shape->shape[2], shape->shape[3]));
    rows = f.batch * f.block;
    tokens = (int32_t *)read_raw(&g, "train.tokens");
    targets = (int32_t *)read_raw(&g, "train.targets");
    rates = read_f32(&g, "train.learning_rates");
    limit = read_f32(&g, "train.clip_norm");
    losses = (double *)read_raw(&g, "train.losses");
    norms = (double *)read_raw(&g, "train.grad_norms");
    adamw.weight_decay = 0.1;
    REQUIRE_OK(eitp_graph_create(g.context, &graph, &error_), error_);
    REQUIRE_OK(eitp_apply_gradients(graph, &adamw, &update, &error_), error_);
    REQUIRE_OK(eitp_plan_create(graph, &plan, &error_), error_);
    for (int64_t s = 0; s < steps; s++) {
        const int32_t *step_targets = targets + s * micro * rows;
        int64_t valid = count_valid(step_targets, micro * rows);
        double sum = 0;
        float hyper[2], norm = 0;
        for (int64_t m = 0; m < micro; m++)
            sum += run_batch(&f, tokens + (s * micro + m) * rows, step_targets + m * rows, (float)(1.0 / (double)valid),
                             m > 0);
        hyper[0] = rates[s];
        hyper[1] = (float)(s + 1);
        CHECK(!eitp_plan_write(plan, update.rate_and_step, hyper, sizeof hyper, &error_));
        CHECK(!eitp_plan_write(plan, update.max_norm, limit, sizeof *limit, &error_));
        CHECK(!eitp_plan_execute(plan, &error_));
        CHECK(!eitp_plan_read(plan, update.norm, &norm, sizeof norm, &error_));
        CHECK_THAT(fabs(sum / (double)valid - losses[s]) < 5e-6, "%s step %d: loss %.9f, not %.9f", directory,
                   (int)s + 1, sum / (double)valid, losses[s]);
        CHECK_THAT(fabs((double)norm / norms[s] - 1) < 2e-5, "%s step %d: norm %.9f, not %.9f", directory, (int)s + 1,
                   (double)norm, norms[s]);
    }
    free(tokens);
    free(targets);
    free(rates);
    free(limit);
    free(losses);
    free(norms);
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    release_fixture(&f);
    close_golden(&g);
}

static void twenty_steps_match_pytorch(void) {
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_training(shapes[i]);
}

/* Returns the relative error of a model's logits. */
static double logits_error(const golden *g) {
    fixture f;
    int32_t *tokens, *targets;
    float *expected, *logits;
    int64_t count;
    double error = INFINITY;
    if (!make_fixture(g, &f, entry(g, "tokens")->shape[0], entry(g, "tokens")->shape[1]))
        return error;
    tokens = (int32_t *)read_raw(g, "tokens");
    targets = (int32_t *)read_raw(g, "targets");
    expected = read_f32(g, "logits");
    count = entry(g, "logits")->count;
    logits = (float *)malloc((size_t)count * 4);
    run_batch(&f, tokens, targets, 1, 0);
    CHECK(!eitp_plan_read(f.plan, f.logits, logits, (size_t)count * 4, &error_));
    error = relative_error(logits, expected, count);
    free(tokens);
    free(targets);
    free(expected);
    free(logits);
    release_fixture(&f);
    return error;
}

/* Directories with the same weights in different layouts give the same logits. */
static void every_layout_of_a_model_is_read(void) {
    static const struct {
        const char *directory, *expected;
        double tolerance;
    } ways[] = {
        {"tanh-plain", "tanh", 1e-5},     {"tanh-sharded", "tanh", 1e-5}, {"tanh-masks", "tanh", 1e-5},
        {"tanh-bf16", "tanh-bf16", 1e-5}, {"tanh-f16", "tanh-f16", 1e-5},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        golden g;
        double worst;
        REQUIRE(open_golden(&g, ways[i].directory, ways[i].expected, NULL));
        worst = logits_error(&g);
        CHECK_THAT(worst < ways[i].tolerance, "%s: %g", ways[i].directory, worst);
        close_golden(&g);
    }
}

/* ---- Heads and embeddings ---- */

static void read_text(const char *path, eitp__buffer *text) {
    static eitp_host host; /* a buffer keeps the address of its host */
    host = eitp_host_default();
    eitp__buffer_init(text, &host);
    CHECK_THAT(!eitp__read_file(&host, path, 1 << 24, text, &error_), "%s", error_.message);
}

static void write_text(const char *path, const char *text, size_t size) {
    const eitp_host host = eitp_host_default();
    CHECK_THAT(!eitp__write_file(&host, path, text, size, &error_), "%s", error_.message);
}

/* Copies a file, replacing `from` by `to` of the same length; "" changes nothing. */
static void copy_file(const char *source, const char *target, const char *from, const char *to) {
    eitp__buffer text;
    char *found;
    read_text(source, &text);
    REQUIRE(text.data);
    found = *from ? strstr(text.data, from) : NULL;
    CHECK_THAT(!*from || (found && strlen(from) == strlen(to)), "%s", from);
    if (found)
        memcpy(found, to, strlen(to));
    write_text(target, text.data, text.size);
    eitp__buffer_release(&text);
}

static void count_warnings(void *user, eitp_log_level level, const char *message) {
    if (level == EITP_LOG_WARNING && strstr(message, "lm_head.weight"))
        ++*(int *)user;
}

/* transformers 5 does not tie the matrices if the file has both and they differ. The logits then equal those for
   "untied". */
static void a_head_that_differs_from_the_embedding_is_used(void) {
    golden g;
    char directory[512];
    int warnings = 0;
    eitp_host host = eitp_host_default();
    eitp_transformer_config config;
    eitp_model *tied;
    eitp_context *context;
    eitp_context_config settings = eitp_context_config_default();
    double worst;
    REQUIRE(scratch_make(directory));
    copy_file(GOLDEN "untied/model.safetensors", scratch_path(directory, "model.safetensors"), "", "");
    copy_file(GOLDEN "untied/config.json", scratch_path(directory, "config.json"), "\"tie_word_embeddings\": false",
              "\"tie_word_embeddings\": true ");
    REQUIRE(open_model(&g, directory, "untied", NULL));
    worst = logits_error(&g);
    CHECK_THAT(worst < 1e-5, "logits %g", worst);
    CHECK(!eitp_model_config(g.model).tied);
    close_golden(&g);
    host.log.user = &warnings;
    host.log.write = count_warnings;
    REQUIRE_OK(eitp_model_config_read(&host, directory, &config, &error_), error_);
    CHECK(!config.tied && warnings == 1);
    /* A model created as tied cannot load this head. */
    REQUIRE_OK(eitp_transformer_config_read(&host, scratch_path(directory, "config.json"), &config, &error_), error_);
    CHECK(config.tied);
    REQUIRE_OK(eitp_context_create(&settings, &context, &error_), error_);
    REQUIRE_OK(eitp_model_create(context, &config, &tied, &error_), error_);
    CHECK(eitp_model_load_weights(tied, directory, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "eitp_model_config_read") != NULL, "%s", error_.message);
    eitp_model_destroy(tied);
    eitp_context_destroy(context);
    scratch_remove(directory);
}

static int is_no_embedding(const eitp_variable *variable) {
    return strcmp(variable->name, "transformer.wte.weight") != 0;
}

/* A head that cannot be read is an error and is not taken for a different one. */
static void check_reads_that_fail(const char *directory) {
    for (long n = 1;; n++) {
        eitp_context_config settings = eitp_context_config_default();
        eitp_transformer_config config;
        eitp_context *context = NULL;
        eitp_model *model = NULL;
        eitp_status status;
        faults f;
        faults_begin(&f);
        settings.host = f.host;
        settings.threads = 1;
        REQUIRE_OK(eitp_transformer_config_read(&f.host, scratch_path(directory, "config.json"), &config, &error_),
                   error_);
        REQUIRE_OK(eitp_context_create(&settings, &context, &error_), error_);
        REQUIRE_OK(eitp_model_create(context, &config, &model, &error_), error_);
        f.fail_file_call = f.file_calls + n;
        status = eitp_model_load_weights(model, directory, &error_);
        CHECK_THAT(status == EITP_OK || status == EITP_ERROR_IO, "call %ld: %s", n, error_.message);
        eitp_model_destroy(model);
        eitp_context_destroy(context);
        if (!faults_end(&f))
            break;
    }
}

/* A file with the same matrix under both names, or only under the head's name, is a tied model. */
static void a_head_equal_to_the_embedding_stays_tied(void) {
    golden g;
    char directory[512];
    const eitp_host host = eitp_host_default();
    eitp_context_config settings = eitp_context_config_default();
    eitp__selection without_embedding = EITP__ZERO;
    eitp_variable head;
    float *values;
    double worst;
    REQUIRE(scratch_make(directory));
    REQUIRE(open_golden(&g, "tanh", "tanh", NULL));
    REQUIRE_OK(eitp_model_save(g.model, directory, &error_), error_);
    close_golden(&g);
    /* Give an untied model a head, which is written in addition to the embedding. */
    copy_file(scratch_path(directory, "config.json"), scratch_path(directory, "tied.json"), "", "");
    for (int alone = 0; alone < 2; alone++) {
        eitp_transformer_config config;
        eitp_model *model;
        eitp_context *context;
        REQUIRE_OK(eitp_transformer_config_read(&host, scratch_path(directory, "tied.json"), &config, &error_), error_);
        config.tied = 0;
        REQUIRE_OK(eitp_context_create(&settings, &context, &error_), error_);
        REQUIRE_OK(eitp_model_create(context, &config, &model, &error_), error_);
        REQUIRE_OK(eitp_model_initialize(model, 1, &error_), error_);
        REQUIRE(open_golden(&g, "tanh", "tanh", NULL));
        for (size_t i = 0; i < eitp_variable_count(g.context); i++) {
            eitp_variable variable = eitp_variable_at(g.context, i);
            const int64_t count = (int64_t)(variable.size / sizeof *values);
            values = (float *)malloc(variable.size);
            CHECK(!eitp_variable_read_f32(g.context, variable.name, 0, values, count, &error_));
            CHECK(!eitp_variable_write_f32(context, variable.name, 0, values, count, &error_));
            if (!is_no_embedding(&variable))
                CHECK(!eitp_variable_write_f32(context, "lm_head.weight", 0, values, count, &error_));
            free(values);
        }
        close_golden(&g);
        head = eitp_variable_at(context, (size_t)eitp_variable_find(context, "lm_head.weight"));
        CHECK(head.rank == 2);
        without_embedding.role = EITP_PARAMETER;
        without_embedding.selects = alone ? is_no_embedding : NULL;
        without_embedding.prefix = "";
        without_embedding.config = NULL;
        REQUIRE_OK(eitp__variables_save(context, scratch_path(directory, "model.safetensors"), &without_embedding,
                                        EITP_SAVE_F32, NULL, NULL, &error_),
                   error_);
        eitp_model_destroy(model);
        eitp_context_destroy(context);
        REQUIRE(open_model(&g, directory, "tanh", NULL));
        worst = logits_error(&g);
        CHECK_THAT(eitp_model_config(g.model).tied && worst < 1e-5, "logits %g", worst);
        close_golden(&g);
        check_reads_that_fail(directory);
    }
    scratch_remove(directory);
}

/* ---- Saving ---- */

/* Special tokens in config.json and generation_config.json are written back. */
static void special_tokens_are_kept(void) {
    static const struct {
        const char *config, *generation; /* members; "": no members, NULL: no file */
        int32_t tokens[3];               /* tokenizer's begin, end and padding tokens */
        const char *written, *expected;  /* members of config.json; contents of generation_config.json */
    } cases[] = {
        {"\"bos_token_id\": 1, \"eos_token_id\": 2",
         NULL,
         {-1, -1, -1},
         "  \"bos_token_id\": 1,\n  \"eos_token_id\": 2,\n  \"pad_token_id\": null,\n",
         "{\n  \"_from_model_config\": true,\n  \"bos_token_id\": 1,\n  \"eos_token_id\": 2,\n  \"pad_token_id\": "
         "null\n}\n"},
        /* transformers uses GPT-2's ids for missing tokens. They are outside this vocabulary. */
        {"",
         NULL,
         {-1, -1, -1},
         "  \"bos_token_id\": null,\n  \"eos_token_id\": null,\n  \"pad_token_id\": null,\n",
         "{\n  \"_from_model_config\": true,\n  \"bos_token_id\": null,\n  \"eos_token_id\": null,\n  "
         "\"pad_token_id\": "
         "null\n}\n"},
        {"\"eos_token_id\": 2",
         "\"eos_token_id\": [3, 2, 3, 70], \"temperature\": 0.5, \"pad_token_id\": 0",
         {-1, -1, -1},
         "  \"bos_token_id\": null,\n  \"eos_token_id\": [3, 2],\n  \"pad_token_id\": 0,\n",
         "{\n  \"temperature\": 0.5,\n  \"bos_token_id\": null,\n  \"eos_token_id\": [3, 2],\n  \"pad_token_id\": "
         "0\n}\n"},
        /* Tokenizers with the same ids and with different ids. */
        {"\"eos_token_id\": [3, 2], \"pad_token_id\": 0",
         NULL,
         {1, 2, -1},
         "  \"bos_token_id\": 1,\n  \"eos_token_id\": [3, 2],\n  \"pad_token_id\": 0,\n",
         NULL},
        {"\"bos_token_id\": 1, \"eos_token_id\": [3, 2], \"pad_token_id\": 0",
         "",
         {-1, 5, -1},
         "  \"bos_token_id\": 5,\n  \"eos_token_id\": 5,\n  \"pad_token_id\": null,\n",
         "{\n  \"bos_token_id\": 5,\n  \"eos_token_id\": 5,\n  \"pad_token_id\": null\n}\n"},
        {"\"eos_token_id\": null",
         NULL,
         {6, 5, 7},
         "  \"bos_token_id\": 6,\n  \"eos_token_id\": 5,\n  \"pad_token_id\": 7,\n",
         NULL},
    };
    const eitp_host host = eitp_host_default();
    char directory[512];
    REQUIRE(scratch_make(directory));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        golden g;
        eitp__buffer text;
        char members[700];
        const char *target;
        copy_file(GOLDEN "tanh/model.safetensors", scratch_path(directory, "model.safetensors"), "", "");
        snprintf(members, sizeof members,
                 "{\"vocab_size\": 61, \"n_embd\": 24, \"n_head\": 3, \"n_layer\": 2, \"n_positions\": 24%s%s}",
                 *cases[i].config ? ", " : "", cases[i].config);
        write_text(scratch_path(directory, "config.json"), members, strlen(members));
        host.files.remove(host.files.user, scratch_path(directory, "generation_config.json"));
        snprintf(members, sizeof members, "{%s}", cases[i].generation ? cases[i].generation : "");
        if (cases[i].generation)
            write_text(scratch_path(directory, "generation_config.json"), members, strlen(members));
        REQUIRE(open_model(&g, directory, "tanh", NULL));
        eitp_model_set_special_tokens(g.model, cases[i].tokens[0], cases[i].tokens[1], cases[i].tokens[2]);
        target = scratch_path(directory, "saved/below");
        REQUIRE_OK(eitp_model_save(g.model, target, &error_), error_);
        read_text(scratch_path(directory, "saved/below/config.json"), &text);
        CHECK_THAT(strstr(text.data, cases[i].written) != NULL, "case %zu: %s", i, text.data);
        eitp__buffer_release(&text);
        read_text(scratch_path(directory, "saved/below/generation_config.json"), &text);
        CHECK_THAT(!cases[i].expected || !strcmp(text.data, cases[i].expected), "case %zu: %s", i, text.data);
        eitp__buffer_release(&text);
        close_golden(&g);
    }
    scratch_remove(directory);
}

static void invalid_special_tokens_are_refused(void) {
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"{\"eos_token_id\": \"</s>\"}", "eos_token_id must be"},
        {"{\"bos_token_id\": [1, 2.5]}", "bos_token_id must be"},
        {"{\"pad_token_id\": {}}", "pad_token_id must be"},
        {"{\"eos_token_id\": [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]}", "more than 16"},
    };
    const eitp_host host = eitp_host_default();
    char directory[512];
    REQUIRE(scratch_make(directory));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        eitp_transformer_config config;
        write_text(scratch_path(directory, "config.json"), cases[i].text, strlen(cases[i].text));
        CHECK(eitp_transformer_config_read(&host, scratch_path(directory, "config.json"), &config, &error_) != EITP_OK);
        CHECK_THAT(strstr(error_.message, cases[i].words) && strstr(error_.message, "config.json"), "%s",
                   error_.message);
    }
    scratch_remove(directory);
}

/* Loads and saves a model. Run with each allocation and each file call failing once. */
static eitp_status load_and_save(const eitp_host *host, const char *from, const char *to) {
    eitp_context_config config = eitp_context_config_default();
    eitp_context *context = NULL;
    eitp_save_config save = eitp_save_config_default();
    eitp_model *model = NULL;
    eitp_status status;
    save.end_of_text = 3;
    config.host = *host;
    config.threads = 1;
    status = eitp_context_create(&config, &context, &error_);
    if (!status)
        status = eitp_model_load(context, from, &model, &error_);
    if (!status)
        status = eitp_model_save_with(model, to, &save, &error_);
    eitp_model_destroy(model);
    eitp_context_destroy(context);
    return status;
}

/* True if a tensor in a weight file has this dtype. */
static int has_dtype(const char *directory, const char *name, eitp_dtype dtype) {
    const eitp_host host = eitp_host_default();
    eitp__safetensors *file = NULL;
    const eitp__safetensors_entry *entry = NULL;
    int has;
    CHECK(!eitp__safetensors_open(&host, scratch_path(directory, "model.safetensors"), &file, &error_));
    if (file)
        entry = eitp__safetensors_find(file, name);
    has = entry && entry->dtype == (int)dtype;
    eitp__safetensors_close(file);
    return has;
}

/* Each tensor keeps the dtype in which it was loaded, and config.json names the dtype of most weights. Values that
   cannot be represented are refused, and the existing file is kept. */
static void a_model_is_saved_as_loaded(void) {
    static const char *const names[] = {"transformer.wte.weight", "transformer.ln_f.weight"};
    const float large = -1e6f;
    eitp_save_config save = eitp_save_config_default();
    eitp_context_config settings = eitp_context_config_default();
    eitp_context *context;
    eitp_model *model;
    eitp__buffer config;
    char directory[512];
    golden g;
    REQUIRE(scratch_make(directory));
    REQUIRE(open_golden(&g, "tanh", "tanh", NULL));
    for (size_t i = 0; i < eitp_variable_count(g.context); i++) {
        eitp__piece piece;
        memset(&piece, 0, sizeof piece);
        piece.is_whole = 1;
        if (strcmp(eitp_variable_at(g.context, i).name, names[1]) != 0)
            eitp__variable_note_dtype(g.context, eitp_variable_at(g.context, i).name, &piece, EITP_BF16);
    }
    REQUIRE_OK(eitp_model_save(g.model, directory, &error_), error_);
    close_golden(&g);
    REQUIRE_OK(eitp_context_create(&settings, &context, &error_), error_);
    REQUIRE_OK(eitp_model_load(context, directory, &model, &error_), error_);
    REQUIRE_OK(eitp_model_save(model, directory, &error_), error_);
    CHECK(has_dtype(directory, names[0], EITP_BF16) && has_dtype(directory, names[1], EITP_F32));
    REQUIRE_OK(eitp_variable_write_f32(context, names[0], 5, &large, 1, &error_), error_);
    save.dtype = EITP_SAVE_F16;
    CHECK(eitp_model_save_with(model, directory, &save, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "'transformer.wte.weight' has the value -1e+06, which f16 cannot represent"),
               "%s", error_.message);
    CHECK(has_dtype(directory, names[0], EITP_BF16));
    read_text(scratch_path(directory, "config.json"), &config);
    CHECK(strstr(config.data, "\"dtype\": \"bfloat16\"") && strstr(config.data, "\"torch_dtype\": \"bfloat16\""));
    eitp__buffer_release(&config);
    eitp_model_destroy(model);
    eitp_context_destroy(context);
    scratch_remove(directory);
}

/* By default a model is saved in the dtypes of its files and with its special tokens. */
static void a_model_is_saved_as_configured(void) {
    eitp_save_config save = eitp_save_config_default();
    const eitp_host host = eitp_host_default();
    char directory[512];
    golden g;
    REQUIRE(scratch_make(directory));
    REQUIRE(open_golden(&g, "tanh", "tanh", NULL));
    for (int way = 0; way < 3; way++) {
        const int32_t end = eitp_model_config(g.model).end.ids[0];
        eitp_transformer_config config;
        eitp__safetensors *file;
        save.dtype = way == 2 ? EITP_SAVE_BF16 : EITP_SAVE_F32;
        save.end_of_text = way == 2 ? end - 1 : -1;
        if (way)
            REQUIRE_OK(eitp_model_save_with(g.model, directory, &save, &error_), error_);
        else
            REQUIRE_OK(eitp_model_save(g.model, directory, &error_), error_);
        REQUIRE_OK(eitp_model_config_read(&host, directory, &config, &error_), error_);
        CHECK_THAT(config.end.count == 1 && config.end.ids[0] == (way == 2 ? end - 1 : end), "%d", config.end.ids[0]);
        REQUIRE_OK(eitp__safetensors_open(&host, scratch_path(directory, "model.safetensors"), &file, &error_), error_);
        CHECK(eitp__safetensors_at(file, 0)->dtype == (int)(way == 2 ? EITP_BF16 : EITP_F32));
        eitp__safetensors_close(file);
    }
    save.dtype = (eitp_save_dtype)4;
    CHECK(eitp_model_save_with(g.model, directory, &save, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "unknown dtype 4"), "%s", error_.message);
    CHECK(eitp_model_save_with(g.model, directory, NULL, &error_) == EITP_ERROR_ARGUMENT);
    close_golden(&g);
    scratch_remove(directory);
}

static void loading_and_saving_survive_failures(void) {
    char directory[512];
    REQUIRE(scratch_make(directory));
    copy_file(GOLDEN "untied/model.safetensors", scratch_path(directory, "model.safetensors"), "", "");
    copy_file(GOLDEN "untied/generation_config.json", scratch_path(directory, "generation_config.json"), "", "");
    copy_file(GOLDEN "untied/config.json", scratch_path(directory, "config.json"), "\"tie_word_embeddings\": false",
              "\"tie_word_embeddings\": true ");
    for (int files = 0; files < 2; files++) {
        faults f;
        long n = 0;
        do {
            char to[600];
            eitp_status status;
            snprintf(to, sizeof to, "%s/to", directory);
            faults_begin(&f);
            if (files)
                f.fail_file_call = ++n;
            else
                f.fail_allocation = ++n;
            error_.message[0] = 0;
            status = load_and_save(&f.host, directory, to);
            CHECK_THAT(!status || strlen(error_.message) > 10, "%ld: status %d, %s", n, (int)status, error_.message);
            CHECK_THAT(files || !!status == (f.allocations >= n), "%ld: status %d, %s", n, (int)status, error_.message);
        } while (faults_end(&f));
        CHECK_THAT(n > 40, "only %ld calls", n);
    }
    scratch_remove(directory);
}

/* Greedy generation with the cache gives the same ids as transformers without one. */
static void greedy_generation_matches_transformers(void) {
    eitp_sampling greedy = eitp_sampling_default();
    greedy.temperature = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        golden g;
        eitp_generator *generator;
        int32_t *prompt, *ids;
        int64_t prompts, length, count;
        REQUIRE(open_golden(&g, shapes[i], shapes[i], NULL));
        REQUIRE_OK(eitp_generator_create(g.model, 0, &generator, &error_), error_);
        prompt = (int32_t *)read_raw(&g, "generate.prompt");
        ids = (int32_t *)read_raw(&g, "generate.ids");
        prompts = entry(&g, "generate.prompt")->shape[0];
        length = entry(&g, "generate.prompt")->shape[1];
        count = entry(&g, "generate.ids")->shape[1];
        for (int64_t p = 0; p < prompts; p++) {
            eitp_generator_reset(generator);
            REQUIRE_OK(eitp_generator_feed(generator, prompt + p * length, length, &error_), error_);
            for (int64_t t = 0; t < count; t++) {
                int32_t token = eitp_generator_sample(generator, &greedy);
                CHECK_THAT(token == ids[p * count + t], "%s prompt %d token %d: %d, not %d", shapes[i], (int)p, (int)t,
                           (int)token, (int)ids[p * count + t]);
                if (eitp_generator_remaining(generator) > 0)
                    REQUIRE_OK(eitp_generator_feed(generator, &token, 1, &error_), error_);
            }
        }
        free(prompt);
        free(ids);
        eitp_generator_destroy(generator);
        close_golden(&g);
    }
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(logits_loss_and_gradients_match_pytorch),
        TEST(twenty_steps_match_pytorch),
        TEST(every_layout_of_a_model_is_read),
        TEST(greedy_generation_matches_transformers),
        TEST(a_head_that_differs_from_the_embedding_is_used),
        TEST(a_head_equal_to_the_embedding_stays_tied),
        TEST(special_tokens_are_kept),
        TEST(a_model_is_saved_as_loaded),
        TEST(a_model_is_saved_as_configured),
        TEST(invalid_special_tokens_are_refused),
        TEST(loading_and_saving_survive_failures),
    };
    return RUN_TESTS(tests, argc, argv);
}
