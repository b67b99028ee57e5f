/* Sampling from a generator. */
#include "tests/support/trainer_run.h"

/* Samples follow the probabilities within the limits top_k, top_p and min_p. */
static void sampling_follows_probabilities_and_limits(void) {
    eitp_context_config config = eitp_context_config_default();
    eitp_transformer_config shape = small_model(0);
    eitp_context *context;
    eitp_model *model;
    eitp_generator *generator;
    eitp_sampling sampling = eitp_sampling_default();
    int32_t token = 1, greedy;
    int counts[5] = {0, 0, 0, 0, 0};
    shape.vocabulary = 5;
    REQUIRE_OK(eitp_context_create(&config, &context, &error_), error_);
    REQUIRE_OK(eitp_model_create(context, &shape, &model, &error_), error_);
    REQUIRE_OK(eitp_model_initialize(model, 1, &error_), error_);
    REQUIRE_OK(eitp_generator_create(model, 0, &generator, &error_), error_);
    REQUIRE_OK(eitp_generator_feed(generator, &token, 1, &error_), error_);
    sampling.temperature = 0;
    greedy = eitp_generator_sample(generator, &sampling);
    sampling.temperature = 1;
    sampling.top_k = 1;
    CHECK(eitp_generator_sample(generator, &sampling) == greedy);
    sampling.top_k = 0;
    sampling.top_p = 1e-9;
    CHECK(eitp_generator_sample(generator, &sampling) == greedy);
    for (int way = 0; way < 4; way++) {
        memset(counts, 0, sizeof counts);
        sampling.top_k = way == 1 ? 2 : 0;
        sampling.top_p = way == 2 ? 0.5 : 1;
        sampling.min_p = way == 3 ? 0.9 : 0;
        for (uint64_t seed = 0; seed < 4000; seed++) {
            sampling.seed = seed;
            counts[eitp_generator_sample(generator, &sampling)]++;
        }
        if (way == 0) {
            const float *logits = eitp_generator_logits(generator);
            double total = 0;
            for (int i = 0; i < 5; i++)
                total += exp((double)logits[i]);
            for (int i = 0; i < 5; i++)
                CHECK_THAT(fabs(counts[i] / 4000.0 - exp((double)logits[i]) / total) < 0.035, "token %d: %d", i,
                           counts[i]);
        } else if (way == 1) {
            int drawn = 0;
            for (int i = 0; i < 5; i++)
                drawn += counts[i] > 0;
            CHECK(drawn == 2 && counts[greedy] > 0);
        } else if (way == 3) {
            const float *logits = eitp_generator_logits(generator);
            int likely = 0;
            for (int i = 0; i < 5; i++) {
                const int is_likely = exp((double)logits[i] - (double)logits[greedy]) >= 0.9;
                CHECK_THAT((counts[i] > 0) == is_likely, "token %d: %d", i, counts[i]);
                likely += is_likely;
            }
            CHECK(likely > 0 && likely < 5);
        }
    }
    eitp_generator_destroy(generator);
    eitp_model_destroy(model);
    eitp_context_destroy(context);
}

enum { TURNS = 30 };

/* A conversation: its settings and the tokens drawn so far. */
typedef struct conversation {
    eitp_generator *generator;
    eitp_sampling sampling;
    int64_t capacity;
    int32_t drawn[TURNS];
} conversation;

static conversation conversation_of(int number) {
    conversation c;
    memset(&c, 0, sizeof c);
    c.sampling = eitp_sampling_default();
    c.sampling.seed = (uint64_t)number;
    c.capacity = number ? 0 : 40; /* 0: the model's number of positions, which is larger */
    return c;
}

/* Feeds the prompt or the last token, and draws the next one. */
static int take_turn(conversation *c, int number, int turn) {
    const int32_t prompt[2][3] = {{1, 2, 3}, {250, 9, 9}};
    const eitp_status status = turn ? eitp_generator_feed(c->generator, &c->drawn[turn - 1], 1, &error_)
                                    : eitp_generator_feed(c->generator, prompt[number], 3, &error_);
    CHECK_THAT(!status, "conversation %d, turn %d: %s", number, turn, error_.message);
    c->drawn[turn] = eitp_generator_sample(c->generator, &c->sampling);
    return !status;
}

/* Several generators of a model, used alternately, each give the same tokens as when used alone. */
static void conversations_do_not_disturb_each_other(void) {
    for (int is_bf16 = 0; is_bf16 < 2; is_bf16++) {
        eitp_context_config config = eitp_context_config_default();
        eitp_transformer_config shape = small_model(0);
        eitp_context *context;
        eitp_model *model;
        conversation alone[2], both[2];
        config.precision = is_bf16 ? "bf16" : "fp32";
        shape.initializer_range = 0.2; /* makes tokens depend on the preceding ones */
        REQUIRE_OK(eitp_context_create(&config, &context, &error_), error_);
        REQUIRE_OK(eitp_model_create(context, &shape, &model, &error_), error_);
        REQUIRE_OK(eitp_model_initialize(model, 1, &error_), error_);
        for (int i = 0; i < 2; i++) {
            alone[i] = conversation_of(i);
            REQUIRE_OK(eitp_generator_create(model, alone[i].capacity, &alone[i].generator, &error_), error_);
            for (int turn = 0; turn < TURNS && take_turn(&alone[i], i, turn); turn++) {
            }
            eitp_generator_destroy(alone[i].generator);
        }
        CHECK(memcmp(alone[0].drawn, alone[1].drawn, sizeof alone[0].drawn) != 0);
        for (int i = 0; i < 2; i++) {
            both[i] = conversation_of(i);
            REQUIRE_OK(eitp_generator_create(model, both[i].capacity, &both[i].generator, &error_), error_);
        }
        for (int turn = 0; turn < TURNS; turn++) {
            if (!take_turn(&both[turn % 2], turn % 2, turn) || !take_turn(&both[!(turn % 2)], !(turn % 2), turn))
                break;
        }
        for (int i = 0; i < 2; i++)
            CHECK_THAT(!memcmp(both[i].drawn, alone[i].drawn, sizeof both[i].drawn), "conversation %d", i);
        eitp_generator_destroy(both[0].generator);
        eitp_generator_reset(both[1].generator);
        memset(both[1].drawn, 0, sizeof both[1].drawn);
        for (int turn = 0; turn < TURNS && take_turn(&both[1], 1, turn); turn++) {
        }
        CHECK(!memcmp(both[1].drawn, alone[1].drawn, sizeof both[1].drawn));
        eitp_generator_destroy(both[1].generator);
        eitp_model_destroy(model);
        eitp_context_destroy(context);
    }
}

/* A generator releases its cache, so a program may have any number of conversations in succession. */
static void a_generator_releases_its_cache(void) {
    eitp_context_config config = eitp_context_config_default();
    eitp_transformer_config shape = small_model(0);
    eitp_context *context;
    eitp_model *model;
    eitp_generator *generator;
    faults f;
    size_t before = 0;
    faults_begin(&f);
    config.host = f.host;
    REQUIRE_OK(eitp_context_create(&config, &context, &error_), error_);
    REQUIRE_OK(eitp_model_create(context, &shape, &model, &error_), error_);
    REQUIRE_OK(eitp_model_initialize(model, 1, &error_), error_);
    for (int64_t capacity = shape.positions; capacity > 10; capacity -= 5) {
        const int32_t token = 1;
        const size_t cache = (size_t)(2 * shape.layers * capacity * shape.width) * sizeof(float);
        REQUIRE_OK(eitp_generator_create(model, capacity, &generator, &error_), error_);
        REQUIRE_OK(eitp_generator_feed(generator, &token, 1, &error_), error_);
        CHECK(!before || f.live_bytes > before + cache);
        eitp_generator_destroy(generator);
        /* The first generator also leaves the arena and the context's tables. */
        CHECK_THAT(!before || f.live_bytes == before, "%zu bytes, then %zu", before, f.live_bytes);
        before = f.live_bytes;
    }
    eitp_model_destroy(model);
    eitp_context_destroy(context);
    CHECK(!faults_end(&f));
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(sampling_follows_probabilities_and_limits),
        TEST(conversations_do_not_disturb_each_other),
        TEST(a_generator_releases_its_cache),
    };
    return RUN_TESTS(tests, argc, argv);
}
