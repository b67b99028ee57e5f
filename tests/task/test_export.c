/* Exported GGUF files are read back: the same parameters, configuration, tokens and adapters. */
#define GOLDEN "tests/golden/gguf/"
#include "tests/support/golden_models.h"

#include "gguf/gguf.h"
#include "tests/support/gguf_writer.h"

static const char *const models[] = {"llama-scaled-lm", "llama-linear-lm", "llama-biases-lm", "qwen2-lm",
                                     "qwen3-lm",        "gemma3-lm",       "gpt2-lm",         "bert",
                                     "distilbert"};

static char directory[512];

static const char *in(const char *name) {
    return scratch_path(directory, name);
}

static eitp_tokenizer *load_tokenizer(const char *path) {
    const eitp_host host = eitp_host_default();
    eitp_tokenizer *tokenizer = NULL;
    CHECK_THAT(!eitp_tokenizer_load(&host, path, &tokenizer, &error_), "%s: %s", path, error_.message);
    return tokenizer;
}

static eitp_model *load_model(const char *path, eitp_context **context) {
    eitp_model *model = NULL;
    *context = open_context(NULL, "fp32");
    CHECK_THAT(!eitp_model_load(*context, path, &model, &error_), "%s: %s", path, error_.message);
    return model;
}

/* ---- Models ---- */

static void check_same_values(eitp_context *was, eitp_context *is, const char *name) {
    for (size_t i = 0; i < eitp_variable_count(was); i++) {
        const eitp_variable variable = eitp_variable_at(was, i);
        const int64_t count = variable.shape[0] * (variable.rank > 1 ? variable.shape[1] : 1);
        float *a = (float *)malloc((size_t)count * 4), *b = (float *)malloc((size_t)count * 4);
        CHECK(!eitp_variable_read_f32(was, variable.name, 0, a, count, &error_));
        CHECK_THAT(!eitp_variable_read_f32(is, variable.name, 0, b, count, &error_) && !memcmp(a, b, (size_t)count * 4),
                   "%s: %s", name, variable.name);
        free(a);
        free(b);
    }
}

/* A tokenizer with no more tokens than the models of the golden files. */
static eitp_tokenizer *small_tokenizer(void) {
    static const char json[] =
        "{\"added_tokens\":[],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
        "\"trim_offsets\":true,\"use_regex\":true},\"post_processor\":null,\"decoder\":{\"type\":\"ByteLevel\","
        "\"add_prefix_space\":true,\"trim_offsets\":true,\"use_regex\":true},\"model\":{\"type\":\"BPE\",\"vocab\":"
        "{\"a\":0,\"b\":1,\"\\u0120\":2,\"ab\":3},\"merges\":[\"a b\"]}}";
    FILE *file = fopen(in("small.json"), "w");
    CHECK(file && fputs(json, file) >= 0 && !fclose(file));
    return load_tokenizer(in("small.json"));
}

static void models_are_read_back(void) {
    eitp_tokenizer *tokenizer = small_tokenizer();
    for (size_t i = 0; i < EITP__COUNT(models); i++) {
        eitp_export_config config = eitp_export_config_default();
        eitp_context *was, *is;
        eitp_transformer_config a, b;
        eitp_model *model, *read;
        char path[200];
        snprintf(path, sizeof path, GOLDEN "%s/model.gguf", models[i]);
        model = load_model(path, &was);
        config.type = "f32";
        REQUIRE_OK(eitp_model_export(model, tokenizer, in("model.gguf"), &config, &error_), error_);
        read = load_model(in("model.gguf"), &is);
        check_same_values(was, is, models[i]);
        a = eitp_model_config(model);
        b = eitp_model_config(read);
        b.begin = a.begin;
        b.end = a.end;
        b.padding = a.padding;
        CHECK_THAT(!memcmp(&a, &b, sizeof a), "%s", models[i]);
        eitp_model_destroy(model);
        eitp_model_destroy(read);
        eitp_context_destroy(was);
        eitp_context_destroy(is);
        check_golden(in("model.gguf"), models[i], NULL);
    }
    eitp_tokenizer_destroy(tokenizer);
}

/* Returns the type of a tensor in an exported file. */
static const char *type_of(const char *path, const char *name) {
    const eitp_host host = eitp_host_default();
    const eitp__gguf_tensor *tensor;
    const char *type = "";
    eitp__gguf gguf;
    CHECK_THAT(!eitp__gguf_open(&host, path, &gguf, &error_), "%s", error_.message);
    tensor = eitp__gguf_find_tensor(&gguf, name);
    if (tensor)
        type = tensor->type->name;
    eitp__gguf_close(&gguf);
    return type;
}

static eitp_model *random_model(const char *shape, eitp_transformer_config *config, eitp_context **context) {
    eitp_model *model = NULL;
    eitp_transformer_config named = *config;
    if (shape)
        CHECK(!eitp_transformer_config_named(shape, config, &error_));
    config->vocabulary = named.vocabulary;
    config->width = named.width;
    config->heads = named.heads;
    config->key_value_heads = named.key_value_heads;
    config->head_width = 0;
    config->layers = named.layers;
    config->inner = named.inner;
    config->positions = 16;
    *context = open_context(NULL, "fp32");
    CHECK_THAT(!eitp_model_create(*context, config, &model, &error_) && !eitp_model_initialize(model, 1, &error_), "%s",
               error_.message);
    return model;
}

typedef struct chosen_type {
    const char *mix, *tensor, *type;
} chosen_type;

/* Types as llama-quantize chooses them: for rows of whole blocks, and the smaller ones it falls back to. */
static void check_types(int64_t width, int64_t inner, const chosen_type *expected, size_t count) {
    eitp_transformer_config shape = eitp_transformer_config_default();
    eitp_tokenizer *tokenizer = small_tokenizer();
    eitp_context *context;
    eitp_model *model;
    shape.vocabulary = 8;
    shape.width = width;
    shape.inner = inner;
    shape.heads = shape.key_value_heads = 2;
    shape.layers = 8;
    model = random_model("smollm2-135m", &shape, &context);
    for (size_t i = 0; i < count; i++) {
        eitp_export_config config = eitp_export_config_default();
        config.type = expected[i].mix;
        REQUIRE_OK(eitp_model_export(model, tokenizer, in("types.gguf"), &config, &error_), error_);
        CHECK_THAT(!strcmp(type_of(in("types.gguf"), expected[i].tensor), expected[i].type), "%s %s: %s",
                   expected[i].mix, expected[i].tensor, type_of(in("types.gguf"), expected[i].tensor));
    }
    eitp_model_destroy(model);
    eitp_context_destroy(context);
    eitp_tokenizer_destroy(tokenizer);
}

static void types_are_those_of_llama_quantize(void) {
    static const chosen_type whole[] = {
        {"f16", "blk.0.attn_norm.weight", "F32"},    {"f16", "token_embd.weight", "F16"},
        {"bf16", "blk.0.attn_q.weight", "BF16"},     {"q8_0", "blk.0.ffn_down.weight", "Q8_0"},
        {"q4_0", "blk.0.attn_q.weight", "Q4_0"},     {"q4_0", "token_embd.weight", "Q6_K"},
        {"q4_k_m", "token_embd.weight", "Q6_K"},     {"q4_k_m", "blk.3.attn_q.weight", "Q4_K"},
        {"q4_k_m", "blk.0.attn_v.weight", "Q6_K"},   {"q4_k_m", "blk.1.attn_v.weight", "Q4_K"},
        {"q4_k_m", "blk.3.ffn_down.weight", "Q6_K"}, {"q4_k_m", "blk.7.ffn_down.weight", "Q6_K"},
        {"q4_k_m", "blk.4.ffn_down.weight", "Q4_K"},
    };
    static const chosen_type fallback[] = {
        {"q4_k_m", "token_embd.weight", "Q8_0"},   {"q4_k_m", "blk.3.attn_q.weight", "Q5_0"},
        {"q4_k_m", "blk.0.attn_v.weight", "Q8_0"}, {"q4_0", "token_embd.weight", "Q8_0"},
        {"q4_0", "blk.0.attn_q.weight", "Q4_0"},   {"q4_k_m", "blk.0.ffn_down.weight", "F16"},
        {"q8_0", "blk.0.ffn_down.weight", "F16"},
    };
    check_types(256, 256, whole, EITP__COUNT(whole));
    check_types(64, 24, fallback, EITP__COUNT(fallback));
}

/* ---- Tokenizers ---- */

static void check_same_ids(const eitp_tokenizer *was, const eitp_tokenizer *is, const char *name,
                           const eitp_json *row) {
    enum { MOST = 1024 };
    static int32_t a[MOST], b[MOST], segments[MOST];
    const eitp_json *first = eitp_json_member(row, "text");
    eitp_sequence_report was_report = EITP__ZERO, is_report = EITP__ZERO;
    const eitp_text text = {first->text, first->text_size};
    CHECK(!eitp_tokenizer_encode_sequence(was, &text, NULL, NULL, a, segments, MOST, &was_report, &error_));
    CHECK(!eitp_tokenizer_encode_sequence(is, &text, NULL, NULL, b, segments, MOST, &is_report, &error_));
    CHECK_THAT(was_report.count == is_report.count && !memcmp(a, b, was_report.count * sizeof *a), "%s: %s", name,
               first->text);
}

/* Loads the tokenizer of a GGUF file with the keys of a golden case. */
static eitp_tokenizer *load_keys(const eitp_json *keys) {
    gguf_writer writer;
    gguf_start(&writer);
    for (const eitp_json *key = keys->first_child; key; key = key->next)
        gguf_add_json(&writer, key);
    CHECK(gguf_finish(&writer, in("case.gguf")));
    return load_tokenizer(in("case.gguf"));
}

/* Writes a model with a tokenizer, and loads the tokenizer from the file. */
static eitp_tokenizer *read_back(eitp_tokenizer *tokenizer, const char *name) {
    static const char template[] = "{% for m in messages %}{{ m.content }}{% endfor %}";
    eitp_export_config config = eitp_export_config_default();
    eitp_transformer_config shape = eitp_transformer_config_default();
    const int is_wordpiece = eitp_tokenizer_special(tokenizer, EITP_CLASSIFIER) >= 0;
    eitp_context *context;
    eitp_model *model;
    eitp_tokenizer *read;
    size_t size = 0;
    shape.vocabulary = eitp_tokenizer_size(tokenizer) + 3; /* the last tokens are unused */
    shape.width = shape.inner = 8;
    shape.heads = shape.key_value_heads = 2;
    shape.layers = 1;
    model = random_model(NULL, &shape, &context);
    if (!is_wordpiece)
        CHECK(!eitp_tokenizer_set_chat_template(tokenizer, template, strlen(template), &error_));
    CHECK_THAT(!eitp_model_export(model, tokenizer, in("tokens.gguf"), &config, &error_), "%s: %s", name,
               error_.message);
    read = load_tokenizer(in("tokens.gguf"));
    CHECK(is_wordpiece || (eitp_tokenizer_chat_template(read, &size) && size == strlen(template)));
    eitp_model_destroy(model);
    eitp_context_destroy(context);
    return read;
}

static void tokenizers_are_read_back(void) {
    const eitp_host host = eitp_host_default();
    eitp_json_document *document = NULL;
    const eitp_json *item;
    int count = 0;
    REQUIRE_OK(
        eitp_json_read_file(&host, "tests/golden/gguf_tokenizers/cases.json", (size_t)1 << 26, &document, &error_),
        error_);
    item = eitp_json_member(eitp_json_root(document), "cases")->first_child;
    for (; item; item = item->next, count++) {
        const char *name = eitp_json_member(item, "name")->text;
        eitp_tokenizer *tokenizer = load_keys(eitp_json_member(item, "keys")), *read = read_back(tokenizer, name);
        const eitp_json *row = eitp_json_member(item, "texts")->first_child;
        for (; row; row = row->next)
            check_same_ids(tokenizer, read, name, row);
        for (int which = 0; which < EITP_SPECIAL_TOKEN_COUNT; which++)
            CHECK_THAT(eitp_tokenizer_special(tokenizer, (eitp_special_token)which) ==
                           eitp_tokenizer_special(read, (eitp_special_token)which),
                       "%s: special token %d: %d, %d", name, which,
                       (int)eitp_tokenizer_special(tokenizer, (eitp_special_token)which),
                       (int)eitp_tokenizer_special(read, (eitp_special_token)which));
        eitp_tokenizer_destroy(tokenizer);
        eitp_tokenizer_destroy(read);
    }
    CHECK(count >= 15);
    eitp_json_release(document);
}

/* Tokens that runners never show are control tokens, although the tokenizer does not call them special. */
static void spellings_make_control_tokens(void) {
    static const char start[] =
        "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []}, \"normalizer\": null,"
        "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false},"
        "\"post_processor\": null, \"added_tokens\": [";
    static const struct {
        const char *text;
        int kind;
    } tokens[] = {
        {"<|user|>", 3},   {"<\xef\xbd\x9cuser\xef\xbd\x9c>", 3},
        {"<unused12>", 3}, {"<mask>", 3},
        {"<pad>", 3},      {"[@BOS@]", 3},
        {"<|>", 4},        {"<masks>", 4},
        {"<unused", 4},    {"a <pad>", 4},
        {"<user>", 4},
    };
    const eitp_host host = eitp_host_default();
    eitp_tokenizer *tokenizer, *read;
    const eitp__gguf_value *kinds;
    eitp__buffer text;
    eitp__gguf gguf;
    eitp__buffer_init(&text, &host);
    eitp__buffer_add_text(&text, start);
    for (size_t i = 0; i < EITP__COUNT(tokens); i++)
        eitp__buffer_format(&text, "%s{\"id\": %zu, \"content\": \"%s\", \"special\": false, \"normalized\": false}",
                            i ? "," : "", i + 1, tokens[i].text);
    eitp__buffer_add_text(&text, "]}");
    REQUIRE_OK(eitp__write_file(&host, in("tokenizer.json"), text.data, text.size, &error_), error_);
    eitp__buffer_release(&text);
    tokenizer = load_tokenizer(in("tokenizer.json"));
    REQUIRE(tokenizer);
    read = read_back(tokenizer, "spellings");
    REQUIRE_OK(eitp__gguf_open(&host, in("tokens.gguf"), &gguf, &error_), error_);
    kinds = eitp__gguf_find(&gguf, "tokenizer.ggml.token_type");
    for (size_t i = 0; i < EITP__COUNT(tokens) && kinds; i++)
        CHECK_THAT(eitp__gguf_integer_at(kinds, i + 1) == tokens[i].kind, "%s: %d", tokens[i].text,
                   (int)eitp__gguf_integer_at(kinds, i + 1));
    CHECK(kinds && kinds->count >= EITP__COUNT(tokens));
    eitp__gguf_close(&gguf);
    eitp_tokenizer_destroy(tokenizer);
    eitp_tokenizer_destroy(read);
}

/* ---- Pooling ---- */

static void write_pooling(const char *mode) {
    const eitp_host host = eitp_host_default();
    char text[100];
    snprintf(text, sizeof text, "{\"pooling_mode\": \"%s\"}", mode);
    CHECK(!eitp__make_directories(&host, in("pooled/1_Pooling"), &error_));
    CHECK(!eitp__write_file(&host, in("pooled/1_Pooling/config.json"), text, strlen(text), &error_));
}

/* The file has the pooling of the directory that the model was loaded from. */
static void encoders_keep_their_pooling(void) {
    static const struct {
        const char *mode;
        eitp_embedding_pooling pooling;
    } modes[] = {{"cls", EITP_EMBEDDING_FIRST}, {"mean", EITP_EMBEDDING_MEAN}, {"lasttoken", EITP_EMBEDDING_LAST}};
    const eitp_host host = eitp_host_default();
    const eitp_export_config config = eitp_export_config_default();
    eitp_tokenizer *tokenizer = small_tokenizer();
    eitp_context *context;
    eitp_model *model = load_model(GOLDEN "bert/model.gguf", &context);
    REQUIRE_OK(eitp_model_save(model, in("pooled"), &error_), error_);
    eitp_model_destroy(model);
    eitp_context_destroy(context);
    write_pooling("mean");
    model = load_model(in("pooled"), &context);
    for (size_t i = 0; i < EITP__COUNT(modes); i++) {
        eitp_predictor_config read = EITP__ZERO;
        read.pooling = EITP_EMBEDDING_MAX;
        write_pooling(modes[i].mode);
        REQUIRE_OK(eitp_model_export(model, tokenizer, in("pooled.gguf"), &config, &error_), error_);
        REQUIRE_OK(eitp_embedding_config_read(&host, in("pooled.gguf"), 13, &read, &error_), error_);
        CHECK_THAT(read.pooling == modes[i].pooling, "%s: %d", modes[i].mode, (int)read.pooling);
    }
    write_pooling("max");
    CHECK(eitp_model_export(model, tokenizer, in("pooled.gguf"), &config, &error_) == EITP_ERROR_UNSUPPORTED);
    CHECK_THAT(strstr(error_.message, "cannot describe the pooling of"), "%s", error_.message);
    eitp_model_destroy(model);
    eitp_context_destroy(context);
    eitp_tokenizer_destroy(tokenizer);
}

/* ---- Adapters ---- */

static void fill_counting(eitp_context *context, const char *name, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const float value = (float)i;
        CHECK(!eitp_variable_write_f32(context, name, i, &value, 1, &error_));
    }
}

/* B of the queries of a llama has its rows permuted; the keys of its one head are, too; V and A are not. */
static void adapters_have_the_files_rows(void) {
    static const int64_t paired[] = {0, 4, 1, 5, 2, 6, 3, 7, 8, 12};
    const eitp_host host = eitp_host_default();
    eitp_lora_config lora = eitp_lora_config_default();
    eitp_context *context;
    eitp_model *model = load_model(GOLDEN "llama-scaled-lm/model.gguf", &context), *other = NULL;
    double alpha = 0;
    float values[2 * 24];
    eitp__gguf gguf;
    lora.rank = 2;
    lora.alpha = 3;
    lora.rslora = 1;
    lora.targets = EITP_LORA_QUERY | EITP_LORA_VALUE;
    REQUIRE_OK(eitp_model_add_lora(model, &lora, &error_), error_);
    REQUIRE_OK(eitp_model_initialize_lora(model, 1, &error_), error_);
    fill_counting(context, "model.layers.0.self_attn.q_proj.lora_B.weight", 24 * 2);
    fill_counting(context, "model.layers.0.self_attn.v_proj.lora_B.weight", 8 * 2);
    REQUIRE_OK(eitp_lora_export(model, in("adapter.gguf"), &error_), error_);
    REQUIRE_OK(eitp__gguf_open(&host, in("adapter.gguf"), &gguf, &error_), error_);
    REQUIRE_OK(eitp__gguf_get_number(&gguf, "adapter.lora.alpha", 0, 100, &alpha, &error_), error_);
    CHECK_THAT(fabs(alpha - 3 * sqrt(2)) < 1e-6, "%g", alpha); /* divided by the rank: alpha / sqrt(rank) */
    CHECK(gguf.tensor_count == 8);
    REQUIRE_OK(eitp__gguf_read_f32(&gguf, eitp__gguf_find_tensor(&gguf, "blk.0.attn_q.weight.lora_b"), values, &error_),
               error_);
    for (size_t i = 0; i < EITP__COUNT(paired); i++)
        CHECK_THAT((int64_t)values[2 * i] == 2 * paired[i], "row %zu is %g", i, (double)values[2 * i]);
    REQUIRE_OK(eitp__gguf_read_f32(&gguf, eitp__gguf_find_tensor(&gguf, "blk.0.attn_v.weight.lora_b"), values, &error_),
               error_);
    CHECK((int64_t)values[2] == 2 && (int64_t)values[15] == 15);
    eitp__gguf_close(&gguf);
    CHECK(eitp_model_load(context, in("adapter.gguf"), &other, &error_) == EITP_ERROR_UNSUPPORTED);
    CHECK_THAT(strstr(error_.message, "general.type is 'adapter'"), "%s", error_.message);
    eitp_model_destroy(model);
    eitp_context_destroy(context);
}

/* ---- Refused models ---- */

typedef struct refused {
    void (*change)(eitp_transformer_config *config);
    const char *message;
} refused;

static void use_relu(eitp_transformer_config *config) {
    config->activation = EITP_RELU;
}

static void add_classifier(eitp_transformer_config *config) {
    config->head = EITP_HEAD_CLASSIFIER;
}

static void scale_otherwise(eitp_transformer_config *config) {
    config->scale_attention = 0;
}

static void models_that_runners_compute_differently_are_refused(void) {
    static const refused cases[] = {
        {use_relu, "its activation"}, {add_classifier, "its head is a classifier"}, {scale_otherwise, "its attention"}};
    eitp_tokenizer *tokenizer = small_tokenizer();
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        eitp_export_config config = eitp_export_config_default();
        eitp_transformer_config shape = eitp_transformer_config_default();
        eitp_context *context;
        eitp_model *model;
        shape.vocabulary = 8;
        shape.width = shape.inner = 8;
        shape.heads = shape.key_value_heads = 2;
        shape.layers = 1;
        cases[i].change(&shape);
        model = random_model(NULL, &shape, &context);
        CHECK(eitp_model_export(model, tokenizer, in("refused.gguf"), &config, &error_) == EITP_ERROR_UNSUPPORTED);
        CHECK_THAT(strstr(error_.message, cases[i].message), "%s", error_.message);
        CHECK(!fopen(in("refused.gguf"), "r") && !fopen(in("refused.gguf.tmp"), "r"));
        eitp_model_destroy(model);
        eitp_context_destroy(context);
    }
    eitp_tokenizer_destroy(tokenizer);
}

/* A value beyond a type's range, a small vocabulary and an unknown type are errors; the old file stays. */
static void failed_exports_leave_the_old_file(void) {
    eitp_export_config config = eitp_export_config_default();
    eitp_tokenizer *tokenizer = small_tokenizer();
    eitp_context *context;
    eitp_model *model = load_model(GOLDEN "gpt2-lm/model.gguf", &context);
    const float large = 70000;
    FILE *file = fopen(in("old.gguf"), "w");
    char text[8] = "";
    CHECK(file && fputs("old", file) >= 0 && !fclose(file));
    CHECK(!eitp_variable_write_f32(context, "transformer.h.1.mlp.c_proj.weight", 0, &large, 1, &error_));
    CHECK(eitp_model_export(model, tokenizer, in("old.gguf"), &config, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "blk.1.ffn_down.weight' has the value 70000, which F16"), "%s", error_.message);
    config.type = "q9";
    CHECK(eitp_model_export(model, tokenizer, in("old.gguf"), &config, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "unknown type 'q9' (choose from f32"), "%s", error_.message);
    eitp_tokenizer_destroy(tokenizer);
    tokenizer = load_tokenizer("tests/golden/tokenizer/tokenizer.json");
    config.type = "f32";
    CHECK(eitp_model_export(model, tokenizer, in("old.gguf"), &config, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "but the model only 23"), "%s", error_.message);
    file = fopen(in("old.gguf"), "r");
    CHECK(file && fgets(text, sizeof text, file) && !strcmp(text, "old") && !fclose(file));
    CHECK(!fopen(in("old.gguf.tmp"), "r"));
    eitp_model_destroy(model);
    eitp_context_destroy(context);
    eitp_tokenizer_destroy(tokenizer);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(models_are_read_back),
        TEST(types_are_those_of_llama_quantize),
        TEST(tokenizers_are_read_back),
        TEST(spellings_make_control_tokens),
        TEST(encoders_keep_their_pooling),
        TEST(adapters_have_the_files_rows),
        TEST(models_that_runners_compute_differently_are_refused),
        TEST(failed_exports_leave_the_old_file),
    };
    int result;
    if (!scratch_make(directory))
        return 1;
    result = RUN_TESTS(tests, argc, argv);
    scratch_remove(directory);
    return result;
}
