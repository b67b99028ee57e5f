/* Llama, Qwen2, Qwen3, Gemma 3 and Mistral compared with transformers: hidden states, heads, gradients, and files. */
#define GOLDEN "tests/golden/llama/"
#include "tests/support/golden_models.h"

static const char *const names[] = {
    "llama-lm",     "llama-wide-lm",   "llama-class",     "qwen2-lm",         "qwen2-tied-lm",
    "qwen2-tokens", "qwen3-lm",        "gemma3-lm",       "gemma3-untied-lm", "mistral-lm",
    "mistral",      "llama-biases-lm", "qwen3-biases-lm", "gemma3-biases-lm",
};

static void models_match_transformers(void) {
    models_match(names, EITP__COUNT(names));
}

static void twenty_steps_match_transformers(void) {
    twenty_steps_match(names, EITP__COUNT(names));
}

static void saved_models_are_the_same(void) {
    saved_models_match(names, EITP__COUNT(names));
}

/* Tokens fed to a cache in pieces have the same logits as in the whole sequence. */
static void check_generator(const char *name) {
    static const int64_t pieces[] = {2, 1, 3, 1};
    golden g;
    eitp_generator *generator;
    int32_t tokens[ROWS];
    int64_t fed = 0, count;
    float *expected;
    REQUIRE(open_model(&g, golden_path(name), name, NULL));
    expected_i32(&g, "tokens", tokens, ROWS);
    expected = expected_f32(&g, "head", &count);
    REQUIRE_OK(eitp_generator_create(g.model, 12, &generator, &error_), error_);
    for (size_t i = 0; i < EITP__COUNT(pieces); i++) {
        const int64_t vocabulary = eitp_model_vocabulary(g.model);
        double difference;
        REQUIRE_OK(eitp_generator_feed(generator, tokens + fed, pieces[i], &error_), error_);
        fed += pieces[i];
        difference = relative_error(eitp_generator_logits(generator), expected + (fed - 1) * vocabulary, vocabulary);
        CHECK_THAT(difference < 1e-5, "%s: %lld tokens: %g", name, (long long)fed, difference);
    }
    free(expected);
    eitp_generator_destroy(generator);
    close_golden(&g);
}

static void generators_match_transformers(void) {
    for (size_t i = 0; i < EITP__COUNT(names); i++) {
        if (strstr(names[i], "-lm"))
            check_generator(names[i]);
    }
}

/* A config.json is written back with the values that were read. */
static void configurations_are_written_as_read(void) {
    const eitp_host host = eitp_host_default();
    for (size_t i = 0; i < EITP__COUNT(names); i++) {
        eitp_transformer_config was, is;
        char path[600], directory[512];
        REQUIRE(scratch_make(directory));
        snprintf(path, sizeof path, GOLDEN "%s/config.json", names[i]);
        REQUIRE_OK(eitp_transformer_config_read(&host, path, &was, &error_), error_);
        snprintf(path, sizeof path, "%s/config.json", directory);
        REQUIRE_OK(eitp_transformer_config_write(&host, path, &was, -1, EITP_F32, &error_), error_);
        REQUIRE_OK(eitp_transformer_config_read(&host, path, &is, &error_), error_);
        CHECK_THAT(!memcmp(&was, &is, sizeof was), "%s", names[i]);
        scratch_remove(directory);
    }
}

typedef struct reading {
    const char *config, *message;
} reading;

static eitp_status read_text(const char *text, eitp_transformer_config *config) {
    const eitp_host host = eitp_host_default();
    char directory[512], path[600];
    FILE *file;
    eitp_status status;
    CHECK(scratch_make(directory));
    snprintf(path, sizeof path, "%s/config.json", directory);
    file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
    status = eitp_transformer_config_read(&host, path, config, &error_);
    scratch_remove(directory);
    return status;
}

/* Files of earlier versions of transformers and from the Hub. */
static void older_configurations_are_read(void) {
    eitp_transformer_config config;
    REQUIRE_OK(
        read_text(
            "{\"model_type\": \"llama\", \"hidden_size\": 64, \"num_attention_heads\": 4, \"num_hidden_layers\": 2,"
            "\"rope_theta\": 500000.0, \"rope_scaling\": {\"factor\": 32.0, \"high_freq_factor\": 4.0,"
            "\"low_freq_factor\": 1.0, \"original_max_position_embeddings\": 8192, \"rope_type\": \"llama3\"}}",
            &config),
        error_);
    CHECK(config.rotary.scaling == EITP_ROTARY_LLAMA3 && config.rotary.factor > 31.9 && config.rotary.theta > 499999);
    CHECK(config.rotary.original_positions == 8192 && config.head == EITP_HEAD_LANGUAGE && !config.tied);
    CHECK(eitp__key_value_heads(&config) == 4 && eitp__head_width(&config) == 16);
    REQUIRE_OK(
        read_text("{\"model_type\": \"llama\", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.0}}", &config),
        error_);
    CHECK(config.rotary.scaling == EITP_ROTARY_LINEAR && config.rotary.theta > 9999 && config.rotary.theta < 10001);
    REQUIRE_OK(
        read_text("{\"model_type\": \"qwen2\", \"sliding_window\": 131072, \"use_sliding_window\": false}", &config),
        error_);
    CHECK(!config.sliding_window);
    REQUIRE_OK(read_text("{\"model_type\": \"qwen2\", \"sliding_window\": 64, \"use_sliding_window\": true,"
                         "\"max_window_layers\": 30}",
                         &config),
               error_);
    CHECK(!eitp__layer_sliding_window(&config, 29) && eitp__layer_sliding_window(&config, 30) == 64);
    REQUIRE_OK(
        read_text("{\"model_type\": \"qwen2\", \"use_sliding_window\": true, \"max_window_layers\": 0}", &config),
        error_);
    CHECK(eitp__layer_sliding_window(&config, 0) == 4096);
    REQUIRE_OK(
        read_text("{\"model_type\": \"qwen3\", \"use_sliding_window\": true, \"sliding_window\": null}", &config),
        error_);
    CHECK(!config.sliding_window);
    REQUIRE_OK(read_text("{\"model_type\": \"mistral\", \"sliding_window\": null, \"head_dim\": null}", &config),
               error_);
    CHECK(!config.sliding_window && eitp__head_width(&config) == 128);
    REQUIRE_OK(read_text("{\"model_type\": \"mistral\"}", &config), error_);
    CHECK(eitp__layer_sliding_window(&config, 0) == 4096);
    REQUIRE_OK(read_text("{\"model_type\": \"gemma3_text\", \"sliding_window\": 512, \"sliding_window_pattern\": 6,"
                         "\"rope_local_base_freq\": 10000.0, \"rope_theta\": 1000000.0, \"rope_scaling\": null,"
                         "\"attn_logit_softcapping\": null}",
                         &config),
               error_);
    CHECK(eitp__layer_sliding_window(&config, 4) == 512 && !eitp__layer_sliding_window(&config, 5) && config.tied);
    CHECK(config.rotary.theta > 999999 && config.local_rotary_theta < 10001);
}

/* Any layer may have a window, in any order, up to a maximum number of layers. */
static void any_layer_may_have_a_window(void) {
    enum { LAYERS = EITP_MAX_SLIDING_LAYERS + 1 };
    static char text[LAYERS * 24 + 200];
    for (int layers = LAYERS; layers >= LAYERS - 1; layers--) {
        eitp_transformer_config config;
        int at = snprintf(text, sizeof text,
                          "{\"model_type\": \"gemma3_text\", \"sliding_window\": 7, \"num_hidden_layers\": %d, "
                          "\"layer_types\": [",
                          layers);
        for (int i = 0; i < layers; i++)
            at += snprintf(text + at, sizeof text - (size_t)at, "%s\"%s_attention\"", i ? ", " : "",
                           i * i % 7 < 3 ? "sliding" : "full");
        snprintf(text + at, sizeof text - (size_t)at, "]}");
        if (layers > EITP_MAX_SLIDING_LAYERS) {
            CHECK(read_text(text, &config) == EITP_ERROR_UNSUPPORTED);
            CHECK_THAT(strstr(error_.message, "'layer_types' has 257 layers; at most 256 are supported"), "%s",
                       error_.message);
            continue;
        }
        REQUIRE_OK(read_text(text, &config), error_);
        for (int i = 0; i < layers; i++)
            CHECK_THAT(eitp__layer_sliding_window(&config, i) == (i * i % 7 < 3 ? 7 : 0), "layer %d", i);
    }
}

static void what_is_not_computed_is_refused(void) {
    static const reading cases[] = {
        {"{\"model_type\": \"llama\", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0}}",
         "unsupported rope_type 'yarn' (supported: default, linear, llama3)"},
        {"{\"model_type\": \"qwen3\", \"rope_parameters\": {\"rope_type\": \"default\", \"partial_rotary_factor\": "
         "0.5}}",
         "unsupported partial_rotary_factor 0.5 (expected 1)"},
        {"{\"model_type\": \"gemma3_text\", \"final_logit_softcapping\": 30.0}", "unsupported final_logit_softcapping"},
        {"{\"model_type\": \"gemma3_text\", \"attn_logit_softcapping\": 50.0}", "unsupported attn_logit_softcapping"},
        {"{\"model_type\": \"llama\", \"is_causal\": false}", "unsupported is_causal false (expected true)"},
        {"{\"model_type\": \"llama\", \"quantization_config\": {\"quant_method\": \"gptq\"}}",
         "unsupported quantization_config gptq (expected null)"},
        {"{\"model_type\": \"llama\", \"num_attention_heads\": 32, \"num_key_value_heads\": 5}",
         "num_attention_heads 32 is not divisible by num_key_value_heads 5"},
        {"{\"model_type\": \"llama\", \"head_dim\": 7}", "the width of a rotary head is 7; it must be even"},
        {"{\"model_type\": \"llama\", \"rope_theta\": 0}", "rotary theta is 0"},
        {"{\"model_type\": \"llama\", \"rope_parameters\": [1]}", "'rope_parameters' must be an object or null"},
        {"{\"model_type\": \"gemma3_text\", \"num_hidden_layers\": 2, \"layer_types\": [\"full_attention\"]}",
         "'layer_types' has 1 layers, the model has 2"},
        {"{\"model_type\": \"gemma3_text\", \"num_hidden_layers\": 2,"
         "\"layer_types\": [\"full_attention\", \"linear_attention\"]}",
         "unsupported type of layer 1"},
        {"{\"model_type\": \"mistral\", \"rms_norm_eps\": null}", "'rms_norm_eps' must not be null"},
        {"{\"model_type\": \"qwen2\", \"num_hidden_layers\": 1, \"layer_types\": [\"sliding_attention\"]}",
         "layer 0 is sliding_attention, but there is no sliding_window"},
    };
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        eitp_transformer_config config;
        CHECK_THAT(read_text(cases[i].config, &config), "%s", cases[i].config);
        CHECK_THAT(strstr(error_.message, cases[i].message), "%s, not %s", error_.message, cases[i].message);
    }
}

/* Parameter counts in millions, as stated by the models' authors. */
static void named_shapes_have_their_size(void) {
    static const struct {
        const char *name;
        double millions;
    } shapes[] = {
        {"smollm2-135m", 134.5}, {"smollm2-360m", 361.8},  {"smollm2-1.7b", 1711.4}, {"llama-3.2-1b", 1235.8},
        {"qwen2-0.5b", 494.0},   {"qwen2.5-1.5b", 1543.7}, {"qwen3-0.6b", 596.0},    {"gemma-3-270m", 268.1},
        {"gemma-3-1b", 999.9},   {"mistral-7b", 7241.7},
    };
    for (size_t i = 0; i < EITP__COUNT(shapes); i++) {
        eitp_transformer_config config;
        double elements = 0;
        REQUIRE_OK(eitp_transformer_config_named(shapes[i].name, &config, &error_), error_);
        for (int64_t p = 0; p < eitp__parameter_count(&config); p++) {
            const eitp__parameter parameter = eitp__parameter_at(&config, p);
            elements += (double)eitp__parameter_elements(&parameter);
        }
        CHECK_THAT(fabs(elements / 1e6 - shapes[i].millions) < 0.06, "%s: %.1f million", shapes[i].name,
                   elements / 1e6);
    }
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(models_match_transformers),          TEST(twenty_steps_match_transformers),
        TEST(saved_models_are_the_same),          TEST(generators_match_transformers),
        TEST(configurations_are_written_as_read), TEST(older_configurations_are_read),
        TEST(any_layer_may_have_a_window),        TEST(what_is_not_computed_is_refused),
        TEST(named_shapes_have_their_size),
    };
    return RUN_TESTS(tests, argc, argv);
}
