/* Sampling from a generator. */
#include "tests/trainer_run.h"

/* Samples follow the probabilities, within top_k and top_p. */
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
    for (int way = 0; way < 3; way++) {
        memset(counts, 0, sizeof counts);
        sampling.top_k = way == 1 ? 2 : 0;
        sampling.top_p = way == 2 ? 0.5 : 1;
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
        }
    }
    eitp_generator_destroy(generator);
    eitp_model_destroy(model);
    eitp_context_destroy(context);
}

/* Generators of a context share the cache: one whose tokens another has overwritten says so. */
static void a_lost_cache_is_refused(void) {
    eitp_context_config config = eitp_context_config_default();
    eitp_transformer_config shape = small_model(0);
    eitp_context *context;
    eitp_model *model;
    eitp_generator *first, *second;
    const int32_t tokens[] = {1, 2};
    REQUIRE_OK(eitp_context_create(&config, &context, &error_), error_);
    REQUIRE_OK(eitp_model_create(context, &shape, &model, &error_), error_);
    REQUIRE_OK(eitp_model_initialize(model, 1, &error_), error_);
    REQUIRE_OK(eitp_generator_create(model, 0, &first, &error_), error_);
    REQUIRE_OK(eitp_generator_create(model, 0, &second, &error_), error_);
    REQUIRE_OK(eitp_generator_feed(first, tokens, 2, &error_), error_);
    REQUIRE_OK(eitp_generator_feed(second, tokens, 1, &error_), error_);
    CHECK(eitp_generator_feed(first, tokens, 1, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "another generator of the context has used the cache"), "%s", error_.message);
    REQUIRE_OK(eitp_generator_feed(second, tokens, 1, &error_), error_);
    eitp_generator_reset(first);
    REQUIRE_OK(eitp_generator_feed(first, tokens, 2, &error_), error_);
    REQUIRE_OK(eitp_generator_feed(first, tokens, 1, &error_), error_);
    CHECK(eitp_generator_feed(second, tokens, 1, &error_) == EITP_ERROR_ARGUMENT);
    eitp_generator_destroy(second);
    REQUIRE_OK(eitp_generator_feed(first, tokens, 1, &error_), error_);
    eitp_generator_destroy(first);
    eitp_model_destroy(model);
    eitp_context_destroy(context);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(sampling_follows_probabilities_and_limits),
        TEST(a_lost_cache_is_refused),
    };
    return RUN_TESTS(tests, argc, argv);
}
