/* Tasks with custom models and samples of varying length: attention, a tied table, labels; passes of any size. */
#include "tests/support/trainer_run.h"

enum { VOCABULARY = 40, WIDTH = 16, LONGEST = 9, CLASSES = 4, SAMPLES = 50 };

/* Parts that the task builds in addition to a loss for each token. */
enum { WITH_LABELS = 1, WITHOUT_UNIQUE = 2, WITH_TWO_TABLES = 4, WITH_STATES = 8 };

typedef struct model {
    run r; /* only its context, task, configuration and trainer are used */
    int parts;
    int64_t bad_sample; /* the sample whose first id is outside the table; -1: none */
} model;

static unsigned noise(uint64_t number, int64_t place) {
    uint64_t state = (number + 1) * 6364136223846793005u + (uint64_t)place * 1442695040888963407u;
    state = (state ^ (state >> 31)) * 0xbf58476d1ce4e5b9u;
    return (unsigned)(state >> 40);
}

static eitp_status read_sample(void *user, eitp_split split, uint64_t number, eitp_sample *sample, eitp_error *error) {
    const model *m = (const model *)user;
    int32_t *ids = (int32_t *)sample->values[0], *targets = (int32_t *)sample->values[1];
    (void)split;
    (void)error;
    sample->rows = 1 + (int64_t)(noise(number, 99) % LONGEST);
    for (int64_t i = 0; i < sample->rows; i++) {
        ids[i] = (int32_t)(noise(number, i) % VOCABULARY);
        targets[i] = (int32_t)(noise(number, i + 1) % VOCABULARY);
    }
    if ((int64_t)number == m->bad_sample)
        ids[0] = VOCABULARY + 3;
    sample->items[0] = sample->rows;
    if (m->parts & WITH_STATES) {
        *(float *)sample->values[2] = 1 + (float)(noise(number, 400) % 100);
        for (int64_t i = 0; i < sample->rows; i++)
            ((float *)sample->values[3])[i] = *(float *)sample->values[2];
        sample->items[1] = sample->items[2] = sample->rows;
    }
    if (!(m->parts & WITH_LABELS))
        return EITP_OK;
    for (int i = 0; i < WIDTH; i++)
        ((float *)sample->values[2])[i] = (float)(noise(number, 200 + i) % 100) / 50 - 1;
    *(int32_t *)sample->values[3] = (int32_t)(noise(number, 300) % CLASSES);
    return EITP_OK;
}

/* A parameter with the precision of the context. */
static eitp_tensor *matrix(const model *m, eitp_pass *pass, const char *name, int64_t rows, int64_t columns) {
    const int64_t shape[] = {rows, columns};
    return eitp_variable_tensor(eitp_pass_graph(pass), name, EITP_PARAMETER, eitp_context_precision(m->r.context), 2,
                                shape);
}

/* Builds a classifier of samples from features of each sample. */
static void build_labels(const model *m, eitp_pass *pass) {
    static const int64_t width[] = {WIDTH};
    const eitp_schedule half = {EITP_SCHEDULE_CONSTANT, 0.5, 0, 0, 0, 0, 0};
    eitp_tensor *features = eitp_pass_sample_input(pass, "features", EITP_F32, 1, width, 0);
    eitp_tensor *labels = eitp_pass_sample_input(pass, "labels", EITP_I32, 0, NULL, -1), *logits;
    eitp_tensor *key = eitp_pass_sample_key(pass);
    features = eitp_cast(features, eitp_context_precision(m->r.context));
    logits = eitp_linear(features, matrix(m, pass, "features.weight", WIDTH, WIDTH), NULL, EITP_TANH);
    logits = key ? eitp_dropout(logits, key, 0.2) : logits;
    logits = eitp_linear(logits, matrix(m, pass, "classes.weight", WIDTH, CLASSES), NULL, EITP_NO_ACTIVATION);
    eitp_pass_term(pass, "labels", eitp_cross_entropy(logits, labels, -1), &half);
    eitp_pass_metric(pass, "accuracy", eitp_equal(eitp_argmax(logits, -1, 0), labels), EITP_HIGHER_IS_BETTER);
}

static eitp_tensor *build_attention(const model *m, eitp_pass *pass, eitp_tensor *x) {
    static const int64_t width[] = {3 * WIDTH};
    eitp_attention_config config = eitp_attention_config_default();
    eitp_attention_inputs inputs = eitp_attention_inputs_default();
    eitp_tensor *key = eitp_pass_key(pass), *qkv;
    config.heads = 2;
    config.max_length = eitp_pass_max_length(pass);
    config.scale = 0.35;
    config.dropout = 0.1;
    qkv = eitp_linear(x, matrix(m, pass, "qkv.weight", WIDTH, 3 * WIDTH),
                      eitp_parameter(eitp_pass_graph(pass), "qkv.bias", 1, width), EITP_NO_ACTIVATION);
    inputs.q = qkv;
    inputs.offsets = eitp_pass_offsets(pass);
    inputs.key = key;
    qkv = eitp_attention(&inputs, &config);
    qkv = eitp_linear(qkv, matrix(m, pass, "out.weight", WIDTH, WIDTH), NULL, EITP_NO_ACTIVATION);
    return eitp_add(x, key ? eitp_dropout(qkv, key, 0.1) : qkv);
}

/* Builds a state of each sample and adds it to all of the sample's rows. */
static eitp_tensor *build_states(const model *m, eitp_pass *pass, eitp_tensor *x) {
    eitp_tensor *state = eitp_pool(x, eitp_pass_bounds(pass), LONGEST, EITP_POOLING_MEAN);
    state = eitp_cast(state, eitp_context_precision(m->r.context));
    state = eitp_linear(state, matrix(m, pass, "state.weight", WIDTH, WIDTH), NULL, EITP_TANH);
    return eitp_add(x, eitp_pass_by_row(pass, state));
}

/* Builds metrics of the differences between the number of each row's sample and the copy in the row. */
static void build_numbers(eitp_pass *pass) {
    static const int64_t one[] = {1};
    eitp_tensor *numbers = eitp_pass_sample_input(pass, "number", EITP_F32, 1, one, -1);
    eitp_tensor *copies = eitp_pass_row_input(pass, "copy", EITP_F32, 1, one, 0);
    eitp_tensor *by_row = eitp_pass_by_row(pass, numbers);
    eitp_pass_metric(pass, "wrong", eitp_abs(eitp_subtract(by_row, copies)), EITP_LOWER_IS_BETTER);
    eitp_pass_metric(pass, "number", by_row, EITP_DIRECTION_UNKNOWN);
}

static eitp_status build(void *user, eitp_pass *pass, eitp_error *error) {
    const model *m = (const model *)user;
    eitp_tensor *ids = eitp_pass_row_input(pass, "ids", EITP_I32, 0, NULL, 0);
    eitp_tensor *targets = eitp_pass_row_input(pass, "targets", EITP_I32, 0, NULL, -100);
    eitp_tensor *table = matrix(m, pass, "table", VOCABULARY, WIDTH);
    eitp_tensor *x = m->parts & WITHOUT_UNIQUE ? eitp_embedding(table, ids) : eitp_pass_embedding(pass, table, ids);
    if (m->parts & WITH_TWO_TABLES)
        x = eitp_add(x, eitp_pass_embedding(pass, matrix(m, pass, "other", VOCABULARY, WIDTH), ids));
    x = eitp_add(x, eitp_embedding(matrix(m, pass, "places", LONGEST, WIDTH), eitp_pass_positions(pass)));
    x = build_attention(m, pass, x);
    x = m->parts & WITH_STATES ? build_states(m, pass, x) : x;
    eitp_pass_term(pass, "tokens", eitp_linear_cross_entropy(x, table, targets, -100), NULL);
    if (m->parts & WITH_LABELS)
        build_labels(m, pass);
    if (m->parts & WITH_STATES)
        build_numbers(pass);
    return eitp_graph_status(eitp_pass_graph(pass), error);
}

/* Fills all parameters with the same noise. */
static eitp_status fill(eitp_context *context) {
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < eitp_variable_count(context) && !status; i++) {
        const eitp_variable variable = eitp_variable_at(context, i);
        if (variable.role == EITP_PARAMETER)
            status = eitp_variable_fill_normal(context, variable.name, 0, 0.2, 5 + i, &error_);
    }
    return status;
}

static eitp_status begin(model *m, const variant *v, int parts) {
    eitp_context_config context = eitp_context_config_default();
    eitp_status status;
    memset(m, 0, sizeof *m);
    m->parts = parts;
    m->bad_sample = -1;
    context.threads = v->threads;
    context.isa = v->isa;
    context.products = v->products;
    context.precision = v->precision;
    context.parameters = eitp_optimizer_get(v->optimizer)->parameters;
    status = eitp_context_create(&context, &m->r.context, &error_);
    if (status)
        return status;
    if (v->sums_of_32)
        pretend_sums_of_32(m->r.context);
    m->r.config = eitp_trainer_config_default();
    m->r.config.batch_size = v->batch_size;
    m->r.config.grad_accum = v->grad_accum;
    m->r.config.micro_batches_per_pass = v->micro_batches_per_pass;
    m->r.config.optimizer_config.optimizer = v->optimizer;
    m->r.config.schedule.peak = 0.01;
    m->r.task.user = m;
    m->r.task.context = m->r.context;
    m->r.task.rows = LONGEST;
    m->r.task.rows_vary = m->r.task.allows_gaps = 1;
    m->r.task.samples[EITP_TRAINING] = m->r.task.samples[EITP_VALIDATION] = SAMPLES;
    m->r.task.build = build;
    m->r.task.read = read_sample;
    status = eitp_trainer_create(&m->r.task, &m->r.config, &m->r.trainer, &error_);
    return status ? status : fill(m->r.context);
}

/* Returns a checksum after a few steps, or 0 on failure. */
static uint32_t train(const variant *v, int parts) {
    model m;
    uint32_t crc = 0;
    eitp_status status = begin(&m, v, parts);
    CHECK_THAT(!status, "%s", error_.message);
    if (!status && step_many(&m.r, 4, NULL))
        crc = fingerprint(&m.r);
    end_run(&m.r);
    return crc;
}

/* ---- Tests ---- */

/* Batches with an odd number of samples, whose rows do not fill the groups of sums. */
static void check_merging(variant v, int parts) {
    uint32_t reference = 0;
    v.batch_size = 3;
    v.grad_accum = 5;
    for (int sums = 0; sums < 2; sums++) {
        v.sums_of_32 = sums;
        for (v.micro_batches_per_pass = 1; v.micro_batches_per_pass <= 5; v.micro_batches_per_pass += 2) {
            const uint32_t crc = train(&v, parts);
            reference = reference ? reference : crc;
            CHECK_THAT(crc && crc == reference, "%s %s, %d merged, sums of 32: %d, parts %d: %08x, not %08x", v.isa,
                       v.precision, (int)v.micro_batches_per_pass, sums, parts, crc, reference);
        }
        reference = 0;
    }
}

static void micro_batches_per_pass_change_no_bit(void) {
    variant v = default_variant();
    size_t set = 0;
    while (next_set(&set, &v)) {
        if (!strcmp(v.products, "openblas") || v.optimizer != EITP_ADAMW)
            continue;
        check_merging(v, 0);
        check_merging(v, WITH_LABELS);
        check_merging(v, WITH_STATES);
    }
}

/* The head and the lookup contribute to one gradient. Each contribution is first summed over the step. */
static void a_table_looked_up_by_eitp_embedding_is_exact_too(void) {
    uint32_t crcs[2];
    variant v = default_variant();
    v.isa = "ref";
    v.precision = "fp32";
    v.batch_size = v.grad_accum = 3;
    for (int i = 0; i < 2; i++) {
        v.micro_batches_per_pass = 1 + 2 * i;
        crcs[i] = train(&v, WITHOUT_UNIQUE);
    }
    CHECK(crcs[0] && crcs[0] == crcs[1]);
}

static void two_lookups_are_refused(void) {
    const variant v = default_variant();
    model m;
    CHECK(begin(&m, &v, WITH_TWO_TABLES) == EITP_ERROR_ARGUMENT && strstr(error_.message, "one call per task"));
    end_run(&m.r);
}

static void ids_outside_the_table_change_nothing(void) {
    variant v = default_variant();
    model m;
    eitp_step_report report;
    eitp_evaluation evaluation;
    uint32_t before;
    REQUIRE_OK(begin(&m, &v, 0), error_);
    REQUIRE(step_many(&m.r, 1, NULL));
    before = fingerprint(&m.r);
    m.bad_sample = (int64_t)eitp__sample_index(EITP_SHUFFLE_WINDOWS, m.r.config.seed, SAMPLES, 6);
    CHECK(eitp_trainer_step(m.r.trainer, &report, &error_) == EITP_ERROR_FORMAT);
    CHECK_THAT(strstr(error_.message, "nothing was changed: sample ") &&
                   strstr(error_.message, "43 in 'ids', which is out of range for a table of 40 rows"),
               "%s", error_.message);
    CHECK(eitp_trainer_evaluate(m.r.trainer, 0, &evaluation, &error_) == EITP_ERROR_FORMAT);
    CHECK(fingerprint(&m.r) == before && !eitp_trainer_is_inconsistent(m.r.trainer));
    m.bad_sample = -1;
    CHECK(step_many(&m.r, 1, NULL) && fingerprint(&m.r) != before);
    end_run(&m.r);
}

/* A metric may have any dtype. Here it is bytes with values 0 or 1. */
static void accuracy_is_a_metric(void) {
    variant v = default_variant();
    model m;
    eitp_evaluation evaluation;
    v.threads = 1;
    v.precision = "fp32";
    REQUIRE_OK(begin(&m, &v, WITH_LABELS), error_);
    REQUIRE_OK(eitp_trainer_evaluate(m.r.trainer, 0, &evaluation, &error_), error_);
    CHECK(evaluation.metric_count == 3 && !strcmp(evaluation.metrics[2].name, "accuracy"));
    CHECK(evaluation.metrics[2].items == SAMPLES && evaluation.metrics[2].error > 0);
    CHECK_THAT(evaluation.metrics[2].mean > 0 && evaluation.metrics[2].mean < 0.6, "%g", evaluation.metrics[2].mean);
    CHECK(fabs(evaluation.metrics[2].mean * SAMPLES - round(evaluation.metrics[2].mean * SAMPLES)) < 1e-9);
    end_run(&m.r);
}

static void rows_have_the_value_of_their_sample(void) {
    variant v = default_variant();
    eitp_evaluation evaluation;
    eitp_graph *graph;
    model m;
    v.threads = 1;
    v.precision = "fp32";
    REQUIRE_OK(begin(&m, &v, WITH_STATES), error_);
    REQUIRE_OK(eitp_trainer_evaluate(m.r.trainer, 0, &evaluation, &error_), error_);
    CHECK(evaluation.metric_count == 3 && !strcmp(evaluation.metrics[1].name, "wrong"));
    CHECK_THAT(evaluation.metrics[1].mean == 0 && evaluation.metrics[1].items > SAMPLES, "%g",
               evaluation.metrics[1].mean);
    CHECK_THAT(evaluation.metrics[2].mean > 30 && evaluation.metrics[2].mean < 70, "%g", evaluation.metrics[2].mean);
    graph = eitp_pass_graph(&m.r.trainer->plans.pass);
    CHECK(!eitp_pass_by_row(NULL, NULL) && !eitp_pass_by_row(&m.r.trainer->plans.pass, NULL));
    CHECK(!eitp_pass_by_row(&m.r.trainer->plans.pass, eitp_arange(graph, EITP_F32, 7)));
    CHECK(eitp_graph_status(graph, &error_) == EITP_ERROR_ARGUMENT && strstr(error_.message, "each sample"));
    end_run(&m.r);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(micro_batches_per_pass_change_no_bit),
        TEST(a_table_looked_up_by_eitp_embedding_is_exact_too),
        TEST(two_lookups_are_refused),
        TEST(ids_outside_the_table_change_nothing),
        TEST(accuracy_is_a_metric),
        TEST(rows_have_the_value_of_their_sample),
    };
    return RUN_TESTS(tests, argc, argv);
}
