/* Emergence reports compared with evaluations and with models whose numbers are known; omitted numbers. */
#include "tests/support/labelled.h"

enum { IDS = 50, POSITIONS = 24, COUNT = 24 * 20 + 1 };

static eitp_error error;

typedef struct bench {
    eitp_context *context;
    eitp_model *model;
    eitp_task task;
    int32_t ids[COUNT];
    eitp_emergence_config config;
    eitp_emergence_report report;
} bench;

static eitp_transformer_config shape(void) {
    eitp_transformer_config config = small_model(0);
    config.vocabulary = IDS;
    config.positions = POSITIONS;
    config.width = 16;
    config.heads = 2;
    config.inner = 32;
    config.initializer_range = 0.3;
    return config;
}

static eitp_status bench_create(bench *b, const eitp_host *host, const char *precision, int threads) {
    eitp_context_config context = eitp_context_config_default();
    eitp_language_config language = eitp_language_config_default();
    const eitp_transformer_config config = shape();
    eitp_token_range range = {0, COUNT};
    eitp_status status;
    memset(b, 0, sizeof *b);
    context.host = *host;
    context.precision = precision;
    context.threads = threads;
    context.device = "auto";
    for (int i = 0; i < COUNT; i++)
        b->ids[i] = (int32_t)(noise(9, i) % IDS);
    status = eitp_context_create(&context, &b->context, &error);
    if (!status)
        status = eitp_model_create(b->context, &config, &b->model, &error);
    if (!status)
        status = eitp_model_initialize(b->model, 1, &error);
    language.model = b->model;
    language.block_size = POSITIONS;
    language.training = eitp_token_memory_source(b->ids, COUNT, range);
    if (!status)
        status = eitp_language_task(&language, &b->task, &error);
    b->config = eitp_emergence_config_default();
    b->config.sequences = 20; /* all sequences */
    b->config.probes = 3;
    b->config.retrieval_trials = 5;
    b->config.texts = 2;
    b->config.prompt_tokens = 4;
    b->config.text_tokens = 12;
    return status;
}

static void bench_destroy(bench *b) {
    eitp_emergence_release(&b->report);
    eitp_task_release(&b->task);
    eitp_model_destroy(b->model);
    eitp_context_destroy(b->context);
    memset(b, 0, sizeof *b);
}

static int bench_open(bench *b, const char *precision, int threads) {
    const eitp_host host = eitp_host_default();
    const eitp_status status = bench_create(b, &host, precision, threads);
    CHECK_THAT(!status, "%s", error.message);
    return !status;
}

static int measure(bench *b) {
    eitp_status status;
    eitp_emergence_release(&b->report);
    status = eitp_emergence_measure(&b->task, EITP_TRAINING, &b->config, &b->report, &error);
    CHECK_THAT(!status, "%s", error.message);
    return !status;
}

static const eitp_emergence_number *find(const eitp_emergence_report *report, const char *name) {
    static const eitp_emergence_number none;
    for (size_t i = 0; i < report->number_count; i++) {
        if (!strcmp(report->numbers[i].name, name))
            return &report->numbers[i];
    }
    CHECK_THAT(0, "no number '%s'", name);
    return &none;
}

static double value_of(const bench *b, const char *name) {
    return find(&b->report, name)->value;
}

/* Returns the reason for which a number is omitted, or NULL if it is not. */
static const char *omitted(const eitp_emergence_report *report, const char *name) {
    for (size_t i = 0; i < report->omission_count; i++) {
        if (!strcmp(report->omissions[i].name, name))
            return report->omissions[i].reason;
    }
    return NULL;
}

static int depends_on_the_machine(const eitp_emergence_number *number) {
    return !strcmp(number->group, "resources");
}

/* True if two reports are equal except for numbers that depend on the machine. */
static int same_numbers(const eitp_emergence_report *a, const eitp_emergence_report *b) {
    int same = a->number_count == b->number_count && a->omission_count == b->omission_count;
    for (size_t i = 0; i < a->number_count && same; i++) {
        const eitp_emergence_number *x = &a->numbers[i], *y = &b->numbers[i];
        same = !strcmp(x->name, y->name) && x->count == y->count &&
               (depends_on_the_machine(x) || (x->value == y->value && x->error == y->error));
    }
    return same;
}

/* Fills all parameters whose name contains `part`. */
static void write_values(bench *b, const char *part, double value) {
    for (size_t i = 0; i < eitp_variable_count(b->context); i++) {
        const eitp_variable v = eitp_variable_at(b->context, i);
        if (v.role == EITP_PARAMETER && strstr(v.name, part))
            CHECK(!eitp_variable_fill(b->context, v.name, value, &error));
    }
}

/* Copies the bytes of all variables, one after another. Returns their size. */
static size_t copy_weights(const bench *b, unsigned char *bytes, size_t room) {
    size_t size = 0;
    for (size_t i = 0; i < eitp_variable_count(b->context); i++) {
        const eitp_variable v = eitp_variable_at(b->context, i);
        if (v.role != EITP_PARAMETER && v.role != EITP_REMAINDER)
            continue;
        if (size + v.size <= room)
            CHECK(!eitp_variable_read(b->context, v.name, 0, bytes + size, v.size, &error));
        size += v.size;
    }
    CHECK(size <= room && size > 0);
    return size;
}

/* ---- Predictions ---- */

static void predictions_are_those_of_evaluations(void) {
    static const char *const precisions[] = {"fp32", "bf16"};
    for (int i = 0; i < 2; i++) {
        const double near = i ? 5e-3 : 1e-5;
        eitp_evaluation evaluation;
        bench b;
        REQUIRE(bench_open(&b, precisions[i], 2));
        REQUIRE_OK(eitp_evaluate(&b.task, EITP_TRAINING, 4, 0, &evaluation, &error), error);
        REQUIRE(measure(&b));
        CHECK_THAT(fabs(value_of(&b, "loss") - evaluation.loss) < near, "%.9g is not %.9g", value_of(&b, "loss"),
                   evaluation.loss);
        CHECK(fabs(find(&b.report, "loss")->error - evaluation.error) < near && evaluation.error > 1e-3);
        CHECK(find(&b.report, "loss")->count == evaluation.items && b.report.sequences == 20);
        CHECK(fabs(value_of(&b, "perplexity") / exp(value_of(&b, "loss")) - 1) < 1e-12);
        CHECK(value_of(&b, "entropy") > 0.1 && value_of(&b, "entropy") < 1);
        CHECK(value_of(&b, "accuracy") < 0.2 && value_of(&b, "calibration_error") > 0);
        CHECK(omitted(&b.report, "bits_per_byte") && omitted(&b.report, "recovery"));
        CHECK(b.report.config_hash != 0);
        bench_destroy(&b);
    }
}

/* Every number is finite, and has a count and an error. */
static void numbers_are_finite_and_counted(void) {
    static const char *const expected[] = {"retrieval_2",
                                           "retrieval_16",
                                           "retrieval_loss_8",
                                           "in_context_gain",
                                           "two_nn_final",
                                           "participation_ratio_middle",
                                           "correlation_r2_final",
                                           "coding_rate_final",
                                           "alignment_middle_last",
                                           "neighbour_cosine_final",
                                           "attention_entropy_1",
                                           "spectral_alpha",
                                           "spectral_distance",
                                           "corruption_loss_5",
                                           "corruption_kl_20",
                                           "noise_loss_1",
                                           "lambda_f",
                                           "lambda_max",
                                           "noise_loss_5",
                                           "distinct_1",
                                           "repeated_4",
                                           "path_norm",
                                           "tokens_per_second"};
    bench b;
    REQUIRE(bench_open(&b, "fp32", 1));
    REQUIRE(measure(&b));
    for (size_t i = 0; i < EITP__COUNT(expected); i++) {
        const eitp_emergence_number *number = find(&b.report, expected[i]);
        const int has_error = strcmp(expected[i], "path_norm") != 0;
        CHECK_THAT(number->count > 0 && (number->error > 0) == (has_error && number->value != 0), "%s: %lld, %g",
                   expected[i], (long long)number->count, number->error);
    }
    for (size_t i = 0; i < b.report.number_count; i++) {
        const eitp_emergence_number *number = &b.report.numbers[i];
        CHECK_THAT(isfinite(number->value) && isfinite(number->error) && number->error >= 0 && number->count > 0, "%s",
                   number->name);
        CHECK_THAT(!omitted(&b.report, number->name), "%s is also omitted", number->name);
    }
    CHECK(find(&b.report, "retrieval_2")->count == 5 && find(&b.report, "two_nn_final")->count == 3);
    CHECK(find(&b.report, "spectral_alpha")->count == 8);
    bench_destroy(&b);
}

/* A model whose logits are all 0. */
static void a_model_of_zeros_guesses(void) {
    const double uniform = log((double)IDS);
    bench b;
    REQUIRE(bench_open(&b, "fp32", 1));
    write_values(&b, "", 0);
    REQUIRE(measure(&b));
    CHECK(fabs(value_of(&b, "loss") - uniform) < 1e-6 && fabs(value_of(&b, "entropy") - 1) < 1e-6);
    CHECK(fabs(value_of(&b, "attention_entropy") - 1) < 1e-6 && fabs(value_of(&b, "in_context_gain")) < 1e-6);
    CHECK(fabs(value_of(&b, "retrieval_loss_4") - uniform) < 1e-6 && value_of(&b, "corruption_kl_10") == 0);
    CHECK(value_of(&b, "noise_loss_5") == 0 && value_of(&b, "coding_rate_final") == 0);
    CHECK(omitted(&b.report, "two_nn_final") && omitted(&b.report, "participation_ratio_middle"));
    CHECK(omitted(&b.report, "spectral_alpha") && omitted(&b.report, "alignment_middle_last"));
    bench_destroy(&b);
}

/* Blocks that add nothing are the identity: all singular values are 1, and states do not grow. */
static void blocks_that_add_nothing_have_exponents_of_0(void) {
    bench b;
    REQUIRE(bench_open(&b, "fp32", 1));
    REQUIRE(measure(&b));
    CHECK_THAT(value_of(&b, "lambda_max") > value_of(&b, "lambda_f") && value_of(&b, "lambda_f") > 1e-3, "%g, %g",
               value_of(&b, "lambda_max"), value_of(&b, "lambda_f"));
    CHECK(value_of(&b, "lambda_f_relative") < value_of(&b, "lambda_f"));
    write_values(&b, "c_proj", 0);
    REQUIRE(measure(&b));
    CHECK_THAT(fabs(value_of(&b, "lambda_f")) < 1e-4 && fabs(value_of(&b, "lambda_f_relative")) < 1e-4 &&
                   fabs(value_of(&b, "lambda_max")) < 1e-4,
               "%g, %g, %g", value_of(&b, "lambda_f"), value_of(&b, "lambda_f_relative"), value_of(&b, "lambda_max"));
    bench_destroy(&b);
}

/* Number of rows of the probes in which neither token nor target is replaced. The last target is never replaced. */
static int64_t clean_rows(const bench *b, uint64_t rate, double share) {
    eitp__emergence e = EITP__ZERO;
    int64_t clean = 0;
    e.config = &b->config;
    for (uint64_t probe = 0; probe < (uint64_t)b->config.probes; probe++) {
        int replaced[POSITIONS + 1] = EITP__ZERO;
        for (uint64_t i = 0; i < POSITIONS; i++)
            replaced[i] = eitp__emergence_uniform(&e, EITP__DRAW_CORRUPTION, probe << 8 | rate, i) < share;
        for (int i = 0; i < POSITIONS; i++)
            clean += !replaced[i] && !replaced[i + 1];
    }
    return clean;
}

/* In a model without attention, only a position's own token matters. Corruption is measured where that token is not
   replaced. */
static void a_model_without_attention_is_not_corrupted(void) {
    bench b;
    REQUIRE(bench_open(&b, "fp32", 1));
    REQUIRE(measure(&b));
    CHECK_THAT(fabs(value_of(&b, "corruption_loss_20")) > 1e-4, "%g", value_of(&b, "corruption_loss_20"));
    CHECK_THAT(value_of(&b, "corruption_kl_20") > 1e-3, "%g", value_of(&b, "corruption_kl_20"));
    CHECK(value_of(&b, "corruption_kl_20") > value_of(&b, "corruption_kl_5"));
    write_values(&b, "attn.c_proj", 0);
    REQUIRE(measure(&b));
    CHECK_THAT(fabs(value_of(&b, "corruption_loss_20")) < 1e-6 && fabs(value_of(&b, "corruption_kl_20")) < 1e-6,
               "%g, %g", value_of(&b, "corruption_loss_20"), value_of(&b, "corruption_kl_20"));
    CHECK(find(&b.report, "corruption_kl_5")->count > find(&b.report, "corruption_kl_20")->count);
    CHECK_THAT(find(&b.report, "corruption_kl_20")->count == clean_rows(&b, 2, 0.2), "%lld of %lld",
               (long long)find(&b.report, "corruption_kl_20")->count, (long long)clean_rows(&b, 2, 0.2));
    bench_destroy(&b);
}

/* ---- Hidden states and attention ---- */

/* Runs the first sequence through a separate graph. */
static void read_states(bench *b, float *final_state, float *qkv) {
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_model_inputs inputs;
    eitp_tensor *hidden, *attention;
    int32_t positions[POSITIONS], offsets[2] = {0, POSITIONS};
    REQUIRE_OK(eitp_graph_create(b->context, &graph, &error), error);
    inputs = eitp_model_inputs_create(graph, 1, POSITIONS, 0);
    hidden = eitp_output(eitp_model_hidden(b->model, graph, &inputs, POSITIONS));
    attention = eitp_output(eitp_model_tap(b->model, graph, EITP_TAP_QKV, 1));
    eitp_model_fill_positions(b->model, b->ids, POSITIONS, positions);
    REQUIRE_OK(eitp_plan_create(graph, &plan, &error), error);
    CHECK(!eitp_plan_write(plan, inputs.tokens, b->ids, sizeof positions, &error));
    CHECK(!eitp_plan_write(plan, inputs.positions, positions, sizeof positions, &error));
    CHECK(!eitp_plan_write(plan, inputs.offsets, offsets, sizeof offsets, &error));
    REQUIRE_OK(eitp_plan_execute(plan, &error), error);
    REQUIRE_OK(eitp_plan_read(plan, hidden, final_state, POSITIONS * 16 * sizeof(float), &error), error);
    REQUIRE_OK(eitp_plan_read(plan, attention, qkv, POSITIONS * 48 * sizeof(float), &error), error);
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
}

/* The mean over heads and rows of -sum p ln p / ln(visible rows), with probabilities from a plain softmax. */
static double naive_attention(const float *qkv) {
    double sum = 0;
    for (int head = 0; head < 2; head++) {
        for (int i = 1; i < POSITIONS; i++) {
            double weights[POSITIONS], all = 0, entropy = 0;
            for (int j = 0; j <= i; j++) {
                double score = 0;
                for (int c = 0; c < 8; c++)
                    score += (double)qkv[i * 48 + head * 8 + c] * (double)qkv[j * 48 + 16 + head * 8 + c];
                weights[j] = exp(score / sqrt(8.0));
                all += weights[j];
            }
            for (int j = 0; j <= i; j++)
                entropy -= weights[j] / all * log(weights[j] / all);
            sum += entropy / log((double)i + 1);
        }
    }
    return sum / (2 * (POSITIONS - 1));
}

static void states_are_those_of_the_model(void) {
    static float states[POSITIONS * 16], qkv[POSITIONS * 48];
    double mean[16], products[POSITIONS * POSITIONS], distances[POSITIONS * POSITIONS], entropy;
    bench b;
    REQUIRE(bench_open(&b, "fp32", 1));
    b.task.samples[EITP_TRAINING] = 1;
    REQUIRE(measure(&b));
    read_states(&b, states, qkv);
    eitp__points_products(states, POSITIONS, 16, mean, products);
    eitp__points_distances(states, POSITIONS, 16, distances);
    CHECK(fabs(value_of(&b, "participation_ratio_final") - eitp__points_participation_ratio(products, POSITIONS)) <
          1e-4);
    CHECK(fabs(value_of(&b, "two_nn_final") - eitp__points_two_nn(distances, POSITIONS)) < 1e-4);
    entropy = naive_attention(qkv);
    CHECK_THAT(fabs(value_of(&b, "attention_entropy_1") - entropy) < 1e-6, "%g is not %g",
               value_of(&b, "attention_entropy_1"), entropy);
    CHECK(find(&b.report, "two_nn_final")->error == 0); /* there is only one sequence */
    bench_destroy(&b);
}

/* The exponent of the first sample, with the signs of the first round, computed in a separate graph. */
static double naive_exponent(bench *b) {
    const int64_t shape[3] = {1, POSITIONS, 16}, one = 1;
    const int32_t count = POSITIONS;
    static float states[POSITIONS * 16], signs[POSITIONS * 16];
    float exponent = 0;
    eitp__jacobian_config config = EITP__ZERO;
    eitp__hidden_pass pass;
    eitp__emergence e = EITP__ZERO;
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_tensor *drawn, *result;
    e.config = &b->config;
    for (uint64_t i = 0; i < POSITIONS * 16; i++)
        signs[i] = eitp__emergence_uniform(&e, EITP__DRAW_SIGNS, 0, i) < 0.5 ? -1.0f : 1.0f;
    CHECK(!eitp__hidden_pass_create(&pass, b->model, POSITIONS, 0, 1, &error));
    CHECK(!eitp__hidden_pass_execute(&pass, b->ids, NULL, POSITIONS, &error));
    CHECK(!eitp__hidden_pass_read(&pass, pass.first, POSITIONS, 16, states, &error));
    eitp__hidden_pass_release(&pass);
    CHECK(!eitp_graph_create(b->context, &graph, &error));
    config.function = eitp__model_function(b->model);
    config.states = eitp_input(graph, "states", EITP_F32, 3, shape);
    config.lengths = eitp_input(graph, "lengths", EITP_I32, 1, &one);
    drawn = eitp_input(graph, "signs", EITP_F32, 3, shape);
    result = eitp_output(eitp__jacobian_sensitivity(&config, drawn).exponent);
    CHECK(!eitp_plan_create(graph, &plan, &error));
    CHECK(!eitp_plan_write(plan, config.states, states, sizeof states, &error));
    CHECK(!eitp_plan_write(plan, config.lengths, &count, sizeof count, &error));
    CHECK(!eitp_plan_write(plan, drawn, signs, sizeof signs, &error));
    CHECK(!eitp_plan_execute(plan, &error) && !eitp_plan_read(plan, result, &exponent, sizeof exponent, &error));
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    return (double)exponent;
}

static void exponents_are_those_of_the_jacobian(void) {
    double exponent;
    bench b;
    REQUIRE(bench_open(&b, "fp32", 1));
    b.task.samples[EITP_TRAINING] = 1;
    b.config.sensitivity_rounds = 1;
    REQUIRE(measure(&b));
    exponent = naive_exponent(&b);
    CHECK_THAT(fabs(value_of(&b, "lambda_f") - exponent) < 1e-5 && exponent > 0, "%g is not %g",
               value_of(&b, "lambda_f"), exponent);
    bench_destroy(&b);
}

/* ---- Retrieval ---- */

static void retrieval_has_one_pair_and_its_key(void) {
    eitp__emergence e;
    bench b;
    REQUIRE(bench_open(&b, "fp32", 1));
    REQUIRE_OK(eitp__emergence_open(&e, &b.task, EITP_TRAINING, &b.config, &b.report, &error), error);
    for (int64_t distance = 2; distance < POSITIONS; distance++) {
        for (int64_t trial = 0; trial < 40; trial++) {
            int32_t answer, keys = 0, answers = 0;
            const int64_t count = eitp__emergence_make_retrieval(&e, distance, trial, &answer);
            REQUIRE(count > distance && count <= POSITIONS);
            for (int64_t i = 0; i < count; i++) {
                keys += e.tokens[i] == e.tokens[count - 1];
                answers += e.tokens[i] == answer;
                CHECK(e.tokens[i] >= 0 && e.tokens[i] < IDS);
            }
            CHECK(keys == 2 && answers == 1);
            CHECK(e.tokens[count - 1 - distance] == e.tokens[count - 1] && e.tokens[count - distance] == answer);
        }
    }
    eitp__emergence_close(&e);
    bench_destroy(&b);
}

/* A model with constant output, whose probabilities follow from the embedding. */
static void retrieval_counts_right_answers(void) {
    enum { TRIALS = 300, DISTANCE = 8 };
    float table[IDS * 16];
    double logits[IDS], sum = 0, right = 0, loss = 0, largest = -INFINITY;
    eitp__emergence e;
    int said = 0;
    bench b;
    REQUIRE(bench_open(&b, "fp32", 1));
    write_values(&b, "ln_f.weight", 0);
    REQUIRE_OK(eitp_variable_read_f32(b.context, "transformer.wte.weight", 0, table, IDS * 16, &error), error);
    REQUIRE_OK(eitp_variable_write_f32(b.context, "transformer.ln_f.bias", 0, table + 7 * 16, 16, &error), error);
    for (int v = 0; v < IDS; v++) {
        logits[v] = 0;
        for (int c = 0; c < 16; c++)
            logits[v] += (double)table[7 * 16 + c] * (double)table[v * 16 + c];
        said = logits[v] > largest ? v : said;
        largest = fmax(largest, logits[v]);
        sum += exp(logits[v]);
    }
    b.config.retrieval_trials = TRIALS;
    REQUIRE(measure(&b));
    REQUIRE_OK(eitp__emergence_open(&e, &b.task, EITP_TRAINING, &b.config, &b.report, &error), error);
    for (int64_t trial = 0; trial < TRIALS; trial++) {
        int32_t answer;
        eitp__emergence_make_retrieval(&e, DISTANCE, trial, &answer);
        right += answer == said;
        loss += (log(sum) - logits[answer]) / TRIALS;
    }
    eitp__emergence_close(&e);
    CHECK_THAT(fabs(value_of(&b, "retrieval_8") - right / TRIALS) < 1e-9 && right > 0, "%g is not %g",
               value_of(&b, "retrieval_8"), right / TRIALS);
    CHECK(fabs(value_of(&b, "retrieval_loss_8") - loss) < 1e-5 && find(&b.report, "retrieval_8")->count == TRIALS);
    bench_destroy(&b);
}

/* In a model that sees only the current token, the result is the same as after the key alone. */
static void retrieval_predicts_after_the_second_key(void) {
    enum { DISTANCE = 4 };
    eitp__emergence e;
    double loss = 0;
    bench b;
    REQUIRE(bench_open(&b, "fp32", 1));
    write_values(&b, "attn.c_proj", 0);
    write_values(&b, "wpe", 0);
    REQUIRE(measure(&b));
    REQUIRE_OK(eitp__emergence_open(&e, &b.task, EITP_TRAINING, &b.config, &b.report, &error), error);
    for (int64_t trial = 0; trial < b.config.retrieval_trials; trial++) {
        int32_t answer;
        const int64_t count = eitp__emergence_make_retrieval(&e, DISTANCE, trial, &answer);
        CHECK(!eitp__hidden_pass_execute(&e.hidden_pass, e.tokens + count - 1, NULL, 1, &error));
        CHECK(!eitp__hidden_pass_read(&e.hidden_pass, e.hidden_pass.final_state, 1, e.width, e.hidden, &error));
        CHECK(!eitp__head_pass_execute(&e.head_pass, e.hidden, NULL, &answer, 1, e.predictions, &error));
        loss += (double)e.predictions[0].loss / (double)b.config.retrieval_trials;
    }
    eitp__emergence_close(&e);
    CHECK_THAT(fabs(value_of(&b, "retrieval_loss_4") - loss) < 1e-5, "%g is not %g", value_of(&b, "retrieval_loss_4"),
               loss);
    bench_destroy(&b);
}

/* ---- Weights ---- */

/* Each of the 16 channels reaches all outputs. Its weight is 1/2, averaged over outputs. */
static void the_path_norm_of_blocks_that_add_nothing_is_that_of_the_head(void) {
    bench b;
    REQUIRE(bench_open(&b, "fp32", 1));
    write_values(&b, "c_proj", 0);
    write_values(&b, "wte", -0.5);
    REQUIRE(measure(&b));
    CHECK_THAT(fabs(value_of(&b, "path_norm") - log(16 * 0.5) / 2) < 1e-6, "%g", value_of(&b, "path_norm"));
    CHECK(find(&b.report, "path_norm")->count == 2);
    bench_destroy(&b);
}

/* ---- A reference ---- */

enum { PROMPT = 4, TEXT = 12 };

typedef struct judge {
    eitp_context *context;
    eitp_model *model;
    eitp_tokenizer *tokenizer; /* each byte is a token */
} judge;

static int judge_open(judge *j, int64_t positions) {
    eitp_context_config context = eitp_context_config_default();
    const eitp_host host = eitp_host_default();
    eitp_transformer_config config = shape();
    eitp_status status;
    memset(j, 0, sizeof *j);
    context.device = "auto";
    context.precision = "fp32";
    config.vocabulary = 260;
    config.positions = positions;
    status = eitp_context_create(&context, &j->context, &error);
    if (!status)
        status = eitp_model_create(j->context, &config, &j->model, &error);
    if (!status)
        status = eitp_model_initialize(j->model, 7, &error);
    if (!status)
        status = eitp_tokenizer_create_bytes(&host, &j->tokenizer, &error);
    CHECK_THAT(!status, "%s", error.message);
    return !status;
}

static void judge_close(judge *j) {
    eitp_tokenizer_destroy(j->tokenizer);
    eitp_model_destroy(j->model);
    eitp_context_destroy(j->context);
}

static void judge_use(const judge *j, bench *b) {
    b->config.tokenizer = j->tokenizer;
    b->config.reference = j->model;
    b->config.reference_tokenizer = j->tokenizer;
}

static void a_reference_of_zeros_guesses(void) {
    bench b;
    judge j;
    REQUIRE(bench_open(&b, "fp32", 1) && judge_open(&j, POSITIONS));
    for (size_t i = 0; i < eitp_variable_count(j.context); i++)
        CHECK(!eitp_variable_fill(j.context, eitp_variable_at(j.context, i).name, 0, &error));
    judge_use(&j, &b);
    REQUIRE(measure(&b));
    CHECK_THAT(fabs(value_of(&b, "reference_perplexity") - 260) < 1e-3, "%g", value_of(&b, "reference_perplexity"));
    CHECK(find(&b.report, "reference_perplexity")->count == 2 * TEXT);
    judge_close(&j);
    bench_destroy(&b);
}

/* Generates the most likely tokens after a prompt. */
static void generate(const bench *b, const int32_t *prompt, int32_t *text) {
    eitp_sampling sampling = eitp_sampling_default();
    eitp_generator *generator = NULL;
    sampling.temperature = 0;
    REQUIRE_OK(eitp_generator_create(b->model, PROMPT + TEXT, &generator, &error), error);
    CHECK(!eitp_generator_feed(generator, prompt, PROMPT, &error));
    for (int i = 0; i < TEXT; i++) {
        text[i] = eitp_generator_sample(generator, &sampling);
        CHECK(i + 1 == TEXT || !eitp_generator_feed(generator, &text[i], 1, &error));
    }
    eitp_generator_destroy(generator);
}

/* Computes the perplexity of a text after its context with a generator. */
static double naive_perplexity(const judge *j, const int32_t *context, int64_t context_count, const int32_t *text,
                               int64_t count) {
    eitp_generator *generator = NULL;
    double loss = 0;
    CHECK(!eitp_generator_create(j->model, 0, &generator, &error));
    CHECK(!eitp_generator_feed(generator, context, context_count, &error));
    for (int64_t i = 0; i < count; i++) {
        const float *logits = eitp_generator_logits(generator);
        double sum = 0;
        for (int v = 0; v < 260; v++)
            sum += exp((double)logits[v]);
        loss += (log(sum) - (double)logits[text[i]]) / (double)count;
        CHECK(!eitp_generator_feed(generator, &text[i], 1, &error) || i + 1 == count);
    }
    eitp_generator_destroy(generator);
    return exp(loss);
}

/* The reference has positions for the whole sequence, for the text and two tokens of its prompt, or for a part of
   the text. */
static void a_reference_judges_texts_after_their_prompts(void) {
    static const int64_t positions[] = {POSITIONS, TEXT + 2, 10};
    for (int i = 0; i < 3; i++) {
        const int64_t context = i == 0 ? 1 + PROMPT : i == 1 ? 2 : 1, count = i == 2 ? 9 : TEXT;
        int32_t before[1 + PROMPT], text[TEXT];
        double expected;
        bench b;
        judge j;
        REQUIRE(bench_open(&b, "fp32", 1) && judge_open(&j, positions[i]));
        judge_use(&j, &b);
        b.config.temperature = 0;
        b.config.texts = 1;
        REQUIRE(measure(&b));
        before[0] = eitp_tokenizer_end_of_text(j.tokenizer);
        memcpy(before + 1, b.ids, PROMPT * sizeof *before);
        generate(&b, b.ids, text);
        expected = naive_perplexity(&j, before + 1 + PROMPT - context, context, text, count);
        CHECK_THAT(fabs(value_of(&b, "reference_perplexity") / expected - 1) < 1e-5, "%lld positions: %g is not %g",
                   (long long)positions[i], value_of(&b, "reference_perplexity"), expected);
        CHECK(find(&b.report, "reference_perplexity")->count == count);
        judge_close(&j);
        bench_destroy(&b);
    }
}

static void references_that_cannot_judge_are_refused(void) {
    eitp_emergence_report report;
    bench b;
    judge j;
    REQUIRE(bench_open(&b, "fp32", 1) && judge_open(&j, POSITIONS));
    judge_use(&j, &b);
    b.config.reference_tokenizer = NULL;
    CHECK(eitp_emergence_measure(&b.task, EITP_TRAINING, &b.config, &report, &error) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error.message, "reference_tokenizer"), "%s", error.message);
    b.config.reference_tokenizer = j.tokenizer;
    b.config.reference = b.model; /* has 50 ids */
    CHECK(eitp_emergence_measure(&b.task, EITP_TRAINING, &b.config, &report, &error) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error.message, "257 tokens"), "%s", error.message);
    b.config.reference = j.model;
    b.config.tokenizer = NULL;
    REQUIRE(measure(&b));
    CHECK(omitted(&b.report, "reference_perplexity") && find(&b.report, "distinct_1")->count == 2);
    b.config.reference = NULL;
    REQUIRE(measure(&b));
    CHECK(omitted(&b.report, "reference_perplexity"));
    judge_close(&j);
    bench_destroy(&b);
}

/* ---- Repetition ---- */

static void weights_are_restored_bit_for_bit(void) {
    static const char *const precisions[] = {"fp32", "bf16", "fp16"};
    static unsigned char before[200000], after[200000];
    for (int i = 0; i < 3; i++) {
        size_t size;
        bench b;
        REQUIRE(bench_open(&b, precisions[i], 1));
        size = copy_weights(&b, before, sizeof before);
        REQUIRE(measure(&b));
        CHECK(fabs(value_of(&b, "noise_loss_5")) > 1e-5);
        CHECK(copy_weights(&b, after, sizeof after) == size && !memcmp(before, after, size));
        b.config.changes_weights = 0;
        REQUIRE(measure(&b));
        CHECK(omitted(&b.report, "noise"));
        bench_destroy(&b);
    }
}

static int stop_after; /* number of polls */

static int stop(void *user) {
    (void)user;
    return --stop_after <= 0;
}

/* The weights are restored wherever the measurement is interrupted, also while noise is added to them. */
static void an_interrupted_measurement_restores_the_weights(void) {
    static unsigned char before[200000], after[200000];
    eitp_status status = EITP_ERROR_INTERRUPTED;
    size_t size;
    int stops = 0;
    bench b;
    REQUIRE(bench_open(&b, "fp32", 1));
    b.config.sequences = 2;
    b.config.probes = b.config.retrieval_trials = b.config.texts = 1;
    size = copy_weights(&b, before, sizeof before);
    eitp_context_set_poll(b.context, stop, NULL);
    for (int n = 1; status == EITP_ERROR_INTERRUPTED; n += 7) {
        stop_after = n;
        status = eitp_emergence_measure(&b.task, EITP_TRAINING, &b.config, &b.report, &error);
        stops += status == EITP_ERROR_INTERRUPTED;
        CHECK(status == EITP_OK || !b.report.numbers);
        CHECK(copy_weights(&b, after, sizeof after) == size && !memcmp(before, after, size));
    }
    CHECK_THAT(!status && stops > 10, "%s, %d stops", error.message, stops);
    bench_destroy(&b);
}

static void a_seed_gives_the_same_numbers(void) {
    eitp_emergence_report first;
    bench b;
    REQUIRE(bench_open(&b, "fp32", 2));
    b.config.sequences = 7;
    REQUIRE(measure(&b));
    first = b.report;
    memset(&b.report, 0, sizeof b.report);
    REQUIRE(measure(&b));
    CHECK(same_numbers(&first, &b.report) && first.config_hash == b.report.config_hash);
    b.config.seed = 1;
    REQUIRE(measure(&b));
    CHECK(!same_numbers(&first, &b.report) && first.config_hash != b.report.config_hash);
    CHECK(value_of(&b, "loss") != find(&first, "loss")->value);
    CHECK(value_of(&b, "noise_loss_5") != find(&first, "noise_loss_5")->value);
    CHECK(value_of(&b, "distinct_1") != find(&first, "distinct_1")->value ||
          value_of(&b, "distinct_2") != find(&first, "distinct_2")->value);
    CHECK(value_of(&b, "spectral_alpha") == find(&first, "spectral_alpha")->value);
    bench_destroy(&b);
    REQUIRE(bench_open(&b, "fp32", 1));
    b.config.sequences = 7;
    REQUIRE(measure(&b));
    CHECK(same_numbers(&first, &b.report)); /* with one thread instead of two */
    bench_destroy(&b);
    eitp_emergence_release(&first);
}

/* ---- Means ---- */

static void errors_are_those_of_samples(void) {
    static const double sums[] = {3, 5, 4, 9}, weights[] = {1, 2, 2, 3};
    eitp__sampled equal = EITP__ZERO, ratio = EITP__ZERO, constant = EITP__ZERO, undefined = EITP__ZERO;
    double squares = 0;
    for (int i = 0; i < 4; i++) {
        eitp__sampled_add(&equal, sums[i], 1);
        eitp__sampled_add(&ratio, sums[i], weights[i]);
        eitp__sampled_add(&constant, 0.1 * weights[i], weights[i]);
        eitp__sampled_add_defined(&undefined, i ? sums[i] : (double)NAN);
        squares += (sums[i] - 21.0 / 8 * weights[i]) * (sums[i] - 21.0 / 8 * weights[i]);
    }
    eitp__sampled_add(&equal, 100, 0);
    CHECK(fabs(eitp__sampled_mean(&equal) - 5.25) < 1e-12);
    CHECK(fabs(eitp__sampled_error(&equal) - sqrt(20.75 / 3 / 4)) < 1e-12 && equal.items == 4);
    CHECK(fabs(eitp__sampled_mean(&ratio) - 21.0 / 8) < 1e-12 && ratio.items == 8);
    CHECK(fabs(eitp__sampled_error(&ratio) - sqrt(4 * squares / 3) / 8) < 1e-12);
    CHECK(fabs(eitp__sampled_mean(&constant) - 0.1) < 1e-15 && eitp__sampled_error(&constant) < 1e-15);
    CHECK(undefined.samples == 3 && fabs(eitp__sampled_mean(&undefined) - 6) < 1e-12);
    eitp__sampled_add(&equal, (double)NAN, 1);
    CHECK(isnan(eitp__sampled_mean(&equal)));
}

/* Numbers stay finite, and those that depend on predictions are omitted. */
static void a_model_that_is_not_finite_leaves_numbers_out(void) {
    bench b;
    REQUIRE(bench_open(&b, "fp32", 1));
    write_values(&b, "ln_f.bias", (double)NAN);
    REQUIRE(measure(&b));
    for (size_t i = 0; i < b.report.number_count; i++)
        CHECK_THAT(isfinite(b.report.numbers[i].value), "%s", b.report.numbers[i].name);
    CHECK(omitted(&b.report, "loss") && omitted(&b.report, "calibration_error") && omitted(&b.report, "error_auroc"));
    CHECK(omitted(&b.report, "corruption_kl_5") && omitted(&b.report, "participation_ratio_final"));
    CHECK(value_of(&b, "attention_entropy") > 0);
    bench_destroy(&b);
}

/* ---- Other models ---- */

/* BERT and RoBERTa with various tasks on generated samples of varying length. */
static void encoders_leave_out_what_they_lack(void) {
    static const eitp_head heads[] = {EITP_HEAD_LANGUAGE, EITP_HEAD_CLASSIFIER, EITP_HEAD_TOKEN_CLASSIFIER};
    static const char *const names[] = {"minilm", "roberta-base", "minilm"};
    for (size_t i = 0; i < EITP__COUNT(heads); i++) {
        eitp_transformer_config config = small_encoder(names[i], heads[i]);
        made_up data;
        bench b;
        memset(&data, 0, sizeof data);
        memset(&b, 0, sizeof b);
        b.config = eitp_emergence_config_default();
        {
            eitp_context_config context = eitp_context_config_default();
            context.device = "auto";
            REQUIRE_OK(eitp_context_create(&context, &b.context, &error), error);
        }
        config.labels = CLASSES;
        REQUIRE_OK(eitp_model_create(b.context, &config, &b.model, &error), error);
        REQUIRE_OK(eitp_model_initialize(b.model, 1, &error), error);
        if (heads[i] == EITP_HEAD_LANGUAGE) {
            eitp_masked_config masked = eitp_masked_config_default();
            eitp_evaluation evaluation;
            masked.model = b.model;
            masked.training = made_up_source(&data, SAMPLES, EITP_PROBLEM_SINGLE_LABEL);
            masked.mask_token = MASK_TOKEN;
            REQUIRE_OK(eitp_masked_task(&masked, &b.task, &error), error);
            REQUIRE_OK(eitp_evaluate(&b.task, EITP_TRAINING, 3, 0, &evaluation, &error), error);
            REQUIRE(measure(&b));
            CHECK_THAT(fabs(value_of(&b, "loss") - evaluation.loss) < 1e-5, "%g is not %g", value_of(&b, "loss"),
                       evaluation.loss);
            CHECK(find(&b.report, "loss")->count == evaluation.items);
            CHECK(find(&b.report, "noise_loss_1")->count > 0);
        } else {
            eitp_classification_config classification = eitp_classification_config_default();
            classification.model = b.model;
            classification.training = made_up_source(
                &data, SAMPLES, heads[i] == EITP_HEAD_CLASSIFIER ? EITP_PROBLEM_SINGLE_LABEL : EITP_PROBLEM_TOKENS);
            REQUIRE_OK(eitp_classification_task(&classification, &b.task, &error), error);
            REQUIRE(measure(&b));
            CHECK(omitted(&b.report, "loss") && omitted(&b.report, "accuracy") && omitted(&b.report, "noise"));
        }
        CHECK(omitted(&b.report, "retrieval") && omitted(&b.report, "corruption") && omitted(&b.report, "texts"));
        CHECK(value_of(&b, "attention_entropy") > 0.5 && value_of(&b, "participation_ratio_final") >= 1);
        bench_destroy(&b);
    }
}

/* ---- Errors ---- */

static void invalid_input_is_refused(void) {
    eitp_emergence_report report;
    eitp_emergence_config bad;
    bench b;
    REQUIRE(bench_open(&b, "fp32", 1));
    CHECK(eitp_emergence_measure(NULL, EITP_TRAINING, &b.config, &report, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_emergence_measure(&b.task, EITP_TRAINING, NULL, &report, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_emergence_measure(&b.task, EITP_TRAINING, &b.config, NULL, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_emergence_measure(&b.task, EITP_VALIDATION, &b.config, &report, &error) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error.message, "no samples"), "%s", error.message);
    bad = b.config;
    bad.sequences = 0;
    CHECK(eitp_emergence_measure(&b.task, EITP_TRAINING, &bad, &report, &error) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error.message, "sequences"), "%s", error.message);
    b.task.model = NULL;
    CHECK(eitp_emergence_measure(&b.task, EITP_TRAINING, &b.config, &report, &error) == EITP_ERROR_ARGUMENT);
    CHECK(!report.numbers && !report.omissions);
    eitp_emergence_release(NULL);
    b.task.model = b.model;
    b.config.probes = b.config.retrieval_trials = b.config.texts = b.config.matrix_side = 0;
    REQUIRE(measure(&b));
    CHECK(omitted(&b.report, "retrieval") && omitted(&b.report, "states") && omitted(&b.report, "corruption") &&
          omitted(&b.report, "noise") && omitted(&b.report, "texts") && omitted(&b.report, "spectral_alpha"));
    bench_destroy(&b);
}

/* A model with a single layer, and samples of a few tokens. */
static void short_samples_leave_numbers_out(void) {
    eitp_language_config language = eitp_language_config_default();
    eitp_token_range range = {0, COUNT};
    bench b;
    for (int64_t length = 1; length <= 3; length++) {
        REQUIRE(bench_open(&b, "fp32", 1));
        eitp_task_release(&b.task);
        language.model = b.model;
        language.block_size = length;
        language.training = eitp_token_memory_source(b.ids, COUNT, range);
        REQUIRE_OK(eitp_language_task(&language, &b.task, &error), error);
        REQUIRE(measure(&b));
        CHECK(omitted(&b.report, "in_context_gain") && omitted(&b.report, "correlation_dimension_final"));
        CHECK(!omitted(&b.report, "retrieval") == (length > 2));
        CHECK(!omitted(&b.report, "attention_entropy") == (length > 1));
        CHECK(!omitted(&b.report, "loss"));
        bench_destroy(&b);
    }
}

/* True if the report is complete. Only a sensor that cannot be read because memory ran out may be missing. */
static int is_whole(const bench *b) {
    return find(&b->report, "loss")->count == 2 * POSITIONS &&
           find(&b->report, "reference_perplexity")->count == TEXT &&
           find(&b->report, "noise_loss_5")->count == POSITIONS && find(&b->report, "distinct_2")->count == 1 &&
           find(&b->report, "peak_bytes")->count == 1;
}

static void memory_may_run_out_anywhere(void) {
    const long stride = test_stride(7, 23);
    judge j;
    REQUIRE(judge_open(&j, POSITIONS));
    for (long n = 1;; n += stride) {
        faults f;
        bench b;
        eitp_status status;
        faults_begin(&f);
        status = bench_create(&b, &f.host, "fp32", 1);
        REQUIRE(!status);
        b.config.sequences = 2;
        b.config.probes = b.config.retrieval_trials = b.config.texts = 1;
        judge_use(&j, &b);
        f.fail_allocation = f.allocations + n;
        status = eitp_emergence_measure(&b.task, EITP_TRAINING, &b.config, &b.report, &error);
        CHECK_THAT(status == EITP_ERROR_MEMORY ? f.failures && !b.report.numbers && !b.report.omissions
                                               : !status && is_whole(&b),
                   "allocation %ld: %d, %s", n, (int)status, error.message);
        bench_destroy(&b);
        if (!faults_end(&f))
            break;
    }
    judge_close(&j);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(predictions_are_those_of_evaluations),
        TEST(numbers_are_finite_and_counted),
        TEST(a_model_of_zeros_guesses),
        TEST(a_model_without_attention_is_not_corrupted),
        TEST(blocks_that_add_nothing_have_exponents_of_0),
        TEST(states_are_those_of_the_model),
        TEST(exponents_are_those_of_the_jacobian),
        TEST(retrieval_has_one_pair_and_its_key),
        TEST(retrieval_counts_right_answers),
        TEST(retrieval_predicts_after_the_second_key),
        TEST(the_path_norm_of_blocks_that_add_nothing_is_that_of_the_head),
        TEST(a_reference_of_zeros_guesses),
        TEST(a_reference_judges_texts_after_their_prompts),
        TEST(references_that_cannot_judge_are_refused),
        TEST(weights_are_restored_bit_for_bit),
        TEST(an_interrupted_measurement_restores_the_weights),
        TEST(a_seed_gives_the_same_numbers),
        TEST(errors_are_those_of_samples),
        TEST(a_model_that_is_not_finite_leaves_numbers_out),
        TEST(encoders_leave_out_what_they_lack),
        TEST(invalid_input_is_refused),
        TEST(short_samples_leave_numbers_out),
        TEST(memory_may_run_out_anywhere),
    };
    return RUN_TESTS(tests, argc, argv);
}
