/* Encoders in a trainer: classifiers and masked language models, their bits, memory, adapters and checkpoints. */
#include "tests/trainer_run.h"

enum { LONGEST = 9, CLASSES = 3, SAMPLES = 40, MASK_TOKEN = 2 };

typedef struct encoder {
    run r; /* only its context, model, task, configuration and trainer are used */
    eitp_transformer_config config;
} encoder;

static unsigned noise(uint64_t number, int64_t place) {
    uint64_t state = (number + 1) * 6364136223846793005u + (uint64_t)place * 1442695040888963407u;
    state = (state ^ (state >> 31)) * 0xbf58476d1ce4e5b9u;
    return (unsigned)(state >> 40);
}

/* Samples of 1 to LONGEST tokens; the label says in which third of the vocabulary the token is that a classifier
   reads, the first one of an encoder and the last one of GPT-2. */
static eitp_status read_sample(void *user, eitp_split split, uint64_t number, eitp_sample *sample, eitp_error *error) {
    const encoder *e = (const encoder *)user;
    const int has_segments = e->config.segments > 1;
    int32_t *tokens = (int32_t *)sample->values[0], *segments = has_segments ? (int32_t *)sample->values[1] : NULL;
    int32_t *targets = (int32_t *)sample->values[1 + has_segments];
    int64_t masked = 0;
    (void)split;
    (void)error;
    sample->rows = 1 + (int64_t)(noise(number, 99) % LONGEST);
    for (int64_t i = 0; i < sample->rows; i++) {
        const int32_t token = 3 + (int32_t)(noise(number, i) % (unsigned)(e->config.vocabulary - 3));
        const int is_masked = e->config.head == EITP_HEAD_LANGUAGE && (i == 0 || noise(number, 50 + i) % 4 == 0);
        tokens[i] = is_masked ? MASK_TOKEN : token;
        if (segments)
            segments[i] = i >= sample->rows / 2;
        if (e->config.head == EITP_HEAD_LANGUAGE)
            targets[i] = is_masked ? token : -100;
        masked += is_masked;
    }
    if (e->config.head == EITP_HEAD_CLASSIFIER)
        targets[0] = tokens[e->config.bidirectional ? 0 : sample->rows - 1] * CLASSES / (int32_t)e->config.vocabulary;
    sample->items[0] = e->config.head == EITP_HEAD_CLASSIFIER ? 1 : masked;
    return EITP_OK;
}

static eitp_status build(void *user, eitp_pass *pass, eitp_error *error) {
    const encoder *e = (const encoder *)user;
    eitp_graph *graph = eitp_pass_graph(pass);
    eitp_model_inputs inputs = eitp_pass_model_inputs(pass, e->r.model);
    eitp_tensor *hidden, *targets;
    if (e->config.segments > 1)
        inputs.segments = eitp_pass_row_input(pass, "segments", EITP_I32, 0, NULL, 0);
    hidden = eitp_model_hidden(e->r.model, graph, &inputs, eitp_pass_max_length(pass));
    if (e->config.head == EITP_HEAD_LANGUAGE) {
        targets = eitp_pass_row_input(pass, "targets", EITP_I32, 0, NULL, -100);
        eitp_pass_term(pass, "loss", eitp_model_row_losses(e->r.model, hidden, targets, -100), NULL);
    } else {
        targets = eitp_pass_sample_input(pass, "label", EITP_I32, 0, NULL, -100);
        hidden = eitp_model_scores(e->r.model, hidden, &inputs);
        eitp_pass_term(pass, "loss", eitp_cross_entropy(hidden, targets, -100), NULL);
        eitp_pass_metric(pass, "accuracy", eitp_equal(eitp_argmax(hidden, -1, 0), targets));
    }
    return eitp_graph_status(graph, error);
}

/* A small model of the architecture of a named shape. */
static eitp_transformer_config small_encoder(const char *name, eitp_head head) {
    eitp_transformer_config config;
    eitp_transformer_config_named(name, &config, NULL);
    config.vocabulary = 37;
    config.positions = 16;
    config.width = 16;
    config.heads = 2;
    config.layers = 2;
    config.inner = 40;
    config.head = head;
    config.labels = CLASSES;
    return config;
}

static eitp_status begin(encoder *e, const variant *v, const char *name, eitp_head head) {
    eitp_context_config context = eitp_context_config_default();
    eitp_status status;
    memset(e, 0, sizeof *e);
    e->config = small_encoder(name, head);
    context.threads = v->threads;
    context.isa = v->isa;
    context.products = v->products;
    context.precision = v->precision;
    context.parameters = eitp_optimizer_get(v->optimizer)->parameters;
    status = eitp_context_create(&context, &e->r.context, &error_);
    if (!status && v->sums_of_32)
        pretend_sums_of_32(e->r.context);
    if (!status)
        status = eitp_model_create(e->r.context, &e->config, &e->r.model, &error_);
    if (!status)
        status = eitp_model_initialize(e->r.model, 3, &error_);
    if (!status && v->lora_rank)
        status = add_adapters(e->r.model, v->lora_rank, v->dropout, &error_);
    if (status)
        return status;
    e->r.config = eitp_trainer_config_default();
    e->r.config.batch_size = v->batch_size;
    e->r.config.grad_accum = v->grad_accum;
    e->r.config.micro_batches_per_pass = v->micro_batches_per_pass;
    e->r.config.optimizer = v->optimizer;
    e->r.config.plan = v->plan;
    e->r.config.schedule.peak = 0.01;
    e->r.task.user = e;
    e->r.task.context = e->r.context;
    e->r.task.model = e->r.model;
    e->r.task.rows = LONGEST;
    e->r.task.rows_vary = e->r.task.allows_gaps = 1;
    e->r.task.samples[EITP_TRAINING] = e->r.task.samples[EITP_VALIDATION] = SAMPLES;
    e->r.task.build = build;
    e->r.task.read = read_sample;
    return eitp_trainer_create(&e->r.task, &e->r.config, &e->r.trainer, &error_);
}

/* A checksum after a few steps; 0 if one fails. */
static uint32_t train(const variant *v, const char *name, eitp_head head) {
    encoder e;
    uint32_t crc = 0;
    eitp_status status = begin(&e, v, name, head);
    CHECK_THAT(!status, "%s: %s", name, error_.message);
    if (!status && step_many(&e.r, 3, NULL))
        crc = fingerprint(&e.r);
    CHECK_THAT(!e.r.trainer || !e.r.trainer->plans.cut_parameter[0], "%s: passes may change the bits of '%s'", name,
               e.r.trainer->plans.cut_parameter);
    end_run(&e.r);
    return crc;
}

static const char *const architectures[] = {"bert-base", "roberta-base", "distilbert-base", "gpt2"};
static const eitp_head heads[] = {EITP_HEAD_LANGUAGE, EITP_HEAD_CLASSIFIER};

/* ---- Tests ---- */

static void check_merging(variant v, const char *name, eitp_head head) {
    uint32_t reference = 0;
    v.batch_size = 3;
    v.grad_accum = 5;
    for (int sums = 0; sums < 2; sums++) {
        v.sums_of_32 = sums;
        reference = 0;
        for (v.micro_batches_per_pass = 1; v.micro_batches_per_pass <= 5; v.micro_batches_per_pass += 2) {
            const uint32_t crc = train(&v, name, head);
            reference = reference ? reference : crc;
            CHECK_THAT(crc && crc == reference, "%s, head %d, %s %s, %d merged, sums of 32: %d", name, (int)head, v.isa,
                       v.precision, (int)v.micro_batches_per_pass, sums);
        }
    }
}

static void micro_batches_per_pass_change_no_bit(void) {
    variant v = default_variant();
    size_t set = 0;
    while (next_set(&set, &v)) {
        if (!strcmp(v.products, "openblas") || v.optimizer != EITP_ADAMW)
            continue;
        for (size_t a = 0; a < EITP__COUNT(architectures); a++) {
            for (size_t h = 0; h < EITP__COUNT(heads); h++)
                check_merging(v, architectures[a], heads[h]);
        }
    }
}

/* Threads, recomputing and memory limits change no bit either, nor do they with adapters. */
static void threads_and_recompute_change_no_bit(void) {
    static const char *const precisions[] = {"fp32", "bf16"};
    for (size_t p = 0; p < EITP__COUNT(precisions); p++) {
        for (size_t a = 0; a < EITP__COUNT(architectures); a++) {
            for (int lora = 0; lora < 2; lora++) {
                variant v = default_variant();
                uint32_t plain, other;
                v.precision = precisions[p];
                v.lora_rank = 2 * lora;
                v.batch_size = 4;
                plain = train(&v, architectures[a], EITP_HEAD_CLASSIFIER);
                v.threads = 1;
                v.plan.recompute = EITP_RECOMPUTE_LAYER;
                other = train(&v, architectures[a], EITP_HEAD_CLASSIFIER);
                CHECK_THAT(plain && plain == other, "%s %s, adapters %d: %08x, not %08x", architectures[a],
                           precisions[p], lora, other, plain);
            }
        }
    }
}

/* All models learn: a classifier gets accurate on what it was trained on. */
static void classifiers_learn(void) {
    for (size_t a = 0; a < EITP__COUNT(architectures); a++) {
        for (int lora = 0; lora < 2; lora++) {
            variant v = default_variant();
            eitp_evaluation before, after;
            encoder e;
            v.batch_size = 10;
            v.grad_accum = 1;
            v.dropout = 0;
            v.lora_rank = 4 * lora;
            REQUIRE_OK(begin(&e, &v, architectures[a], EITP_HEAD_CLASSIFIER), error_);
            REQUIRE_OK(eitp_model_set_dropout(e.r.model, 0, 0, 0, &error_), error_);
            REQUIRE_OK(eitp_trainer_evaluate(e.r.trainer, 0, &before, &error_), error_);
            CHECK(step_many(&e.r, 80, NULL));
            REQUIRE_OK(eitp_trainer_evaluate(e.r.trainer, 0, &after, &error_), error_);
            CHECK_THAT(!strcmp(after.metrics[after.metric_count - 1].name, "accuracy") &&
                           after.metrics[after.metric_count - 1].mean > (lora ? 0.6 : 0.9) && after.loss < before.loss,
                       "%s, adapters %d: accuracy %g, loss %g from %g", architectures[a], lora,
                       after.metrics[after.metric_count - 1].mean, after.loss, before.loss);
            end_run(&e.r);
        }
    }
}

/* A resumed run continues with the same bits; with adapters its checkpoint has the classifier. */
static void resumed_runs_have_the_same_bits(void) {
    for (size_t a = 0; a < EITP__COUNT(architectures); a++) {
        for (int lora = 0; lora < 2; lora++) {
            variant v = default_variant();
            encoder e;
            uint32_t straight;
            char directory[512], checkpoint[600];
            REQUIRE(scratch_make(directory));
            snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-2", directory);
            v.lora_rank = 2 * lora;
            REQUIRE_OK(begin(&e, &v, architectures[a], EITP_HEAD_CLASSIFIER), error_);
            CHECK(step_many(&e.r, 2, NULL));
            REQUIRE_OK(eitp_trainer_save(e.r.trainer, directory, &error_), error_);
            CHECK(step_many(&e.r, 2, NULL));
            straight = fingerprint(&e.r);
            end_run(&e.r);
            REQUIRE_OK(begin(&e, &v, architectures[a], EITP_HEAD_CLASSIFIER), error_);
            CHECK(step_many(&e.r, 1, NULL));
            REQUIRE_OK(eitp_trainer_resume(e.r.trainer, checkpoint, &error_), error_);
            CHECK(step_many(&e.r, 2, NULL));
            CHECK_THAT(fingerprint(&e.r) == straight, "%s, adapters %d", architectures[a], lora);
            end_run(&e.r);
            scratch_remove(directory);
        }
    }
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(micro_batches_per_pass_change_no_bit),
        TEST(threads_and_recompute_change_no_bit),
        TEST(classifiers_learn),
        TEST(resumed_runs_have_the_same_bits),
    };
    return RUN_TESTS(tests, argc, argv);
}
