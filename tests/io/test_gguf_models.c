/* Models in GGUF files: those that llama.cpp converted give what transformers computed for them; others are refused. */
#define GOLDEN "tests/golden/gguf/"
#include "tests/support/golden_models.h"
#include "tests/support/gguf_writer.h"
#include "io/weight_files.h"

static const char *const names[] = {"llama-scaled-lm", "llama-linear-lm", "llama-biases-lm", "qwen2-lm",
                                    "qwen3-lm",        "gemma3-lm",       "gpt2-lm",         "bert",
                                    "distilbert",      "roberta"};

static const char *model_path(const char *name) {
    static char path[200];
    snprintf(path, sizeof path, GOLDEN "%s/model.gguf", name);
    return path;
}

static void models_match_transformers(void) {
    for (size_t i = 0; i < EITP__COUNT(names); i++)
        check_golden(model_path(names[i]), names[i], NULL);
}

/* A model that was read from a GGUF file is saved as a directory that gives the same outputs. */
static void saved_directories_match_transformers(void) {
    for (size_t i = 0; i < EITP__COUNT(names); i++) {
        char directory[512];
        golden g;
        REQUIRE(scratch_make(directory));
        REQUIRE(open_model(&g, model_path(names[i]), names[i], NULL));
        REQUIRE_OK(eitp_model_save(g.model, directory, &error_), error_);
        close_golden(&g);
        check_golden(directory, names[i], NULL);
        scratch_remove(directory);
    }
}

/* ---- Models that are refused ---- */

/* A change to llama-linear-lm, by the first character of `change`:
     '-'  leaves the key or tensor `name` out
     '='  gives the key `name` another value
     '+'  adds the tensor `name`
     '*'  replaces the tensor `name` by another one
   A key's value is `text`, or the integer `number`; a tensor is a matrix with `number` columns of the type `type`. */
typedef struct changed_model {
    const char *change, *name, *text;
    int64_t number;
    uint32_t type;
    eitp_status status; /* expected, with a part of the message */
    const char *message;
} changed_model;

static uint64_t value_size(const eitp__gguf_value *value) {
    const unsigned char *at = value->at;
    if (value->kind != EITP__GGUF_STRING)
        return value->count * eitp__gguf_kind_size(value->kind);
    for (uint64_t i = 0; i < value->count; i++)
        eitp__gguf_next_text(&at);
    return (uint64_t)(at - value->at);
}

static void copy_key(gguf_writer *writer, const eitp__gguf_value *value) {
    writer->key_count++;
    gguf_put_text(&writer->keys, value->key.data, value->key.size);
    if (value->is_array)
        gguf_put(&writer->keys, EITP__GGUF_ARRAY, 4);
    gguf_put(&writer->keys, value->kind, 4);
    if (value->is_array)
        gguf_put(&writer->keys, value->count, 8);
    eitp__buffer_add(&writer->keys, (const char *)value->at, (size_t)value_size(value));
}

static void copy_tensor(gguf_writer *writer, const eitp__gguf *gguf, const eitp__gguf_tensor *tensor) {
    char *bytes = (char *)malloc((size_t)tensor->size), name[256] = {0};
    FILE *file = fopen(gguf->files[0].path, "rb");
    memcpy(name, tensor->name.data, tensor->name.size);
    CHECK(file && !fseek(file, (long)tensor->offset, SEEK_SET) &&
          fread(bytes, 1, (size_t)tensor->size, file) == tensor->size);
    if (file)
        fclose(file);
    gguf_add_tensor(writer, name, tensor->type->number, tensor->shape, (uint32_t)tensor->rank, bytes,
                    (size_t)tensor->size);
    free(bytes);
}

static void add_matrix(gguf_writer *writer, const char *name, int64_t columns, uint32_t number) {
    const eitp__gguf_type *type = eitp__gguf_type_find(number);
    const int64_t shape[2] = {1, columns};
    const size_t size = (size_t)(columns / type->values * type->bytes);
    char *bytes = (char *)calloc(size, 1);
    gguf_add_tensor(writer, name, number, shape, 2, bytes, size);
    free(bytes);
}

static void add_changed_key(gguf_writer *writer, const changed_model *c) {
    if (c->text)
        gguf_add_text(writer, c->name, c->text);
    else
        gguf_add_integer(writer, c->name, EITP__GGUF_I64, c->number);
}

/* Writes a model with a change. */
static int write_changed(const char *model, const changed_model *c, const char *path) {
    const eitp_host host = eitp_host_default();
    eitp__gguf gguf;
    gguf_writer writer;
    if (eitp__gguf_open(&host, model_path(model), &gguf, &error_))
        return 0;
    gguf_start(&writer);
    for (size_t i = 0; i < gguf.value_count; i++) {
        if (!eitp__gguf_text_is(gguf.values[i].key, c->name))
            copy_key(&writer, &gguf.values[i]);
    }
    if (*c->change == '=')
        add_changed_key(&writer, c);
    for (size_t i = 0; i < gguf.tensor_count; i++) {
        if (*c->change == '+' || !eitp__gguf_text_is(gguf.tensors[i].name, c->name))
            copy_tensor(&writer, &gguf, &gguf.tensors[i]);
        else if (*c->change == '*')
            add_matrix(&writer, c->name, c->number, c->type);
    }
    if (*c->change == '+')
        add_matrix(&writer, c->name, c->number, c->type);
    eitp__gguf_close(&gguf);
    return gguf_finish(&writer, path);
}

static eitp_status load(const char *path) {
    eitp_context *context = open_context(NULL, "fp32");
    eitp_model *model = NULL;
    const eitp_status status = eitp_model_load(context, path, &model, &error_);
    CHECK((status != EITP_OK) == (model == NULL));
    eitp_model_destroy(model);
    eitp_context_destroy(context);
    return status;
}

static void check_changed(const char *model, const changed_model *c) {
    char directory[512];
    const char *path;
    eitp_status status;
    REQUIRE(scratch_make(directory));
    path = scratch_path(directory, "changed.gguf");
    REQUIRE(write_changed(model, c, path));
    memset(&error_, 0, sizeof error_);
    status = load(path);
    CHECK_THAT(status == c->status && (!status || (strstr(error_.message, path) && strstr(error_.message, c->message))),
               "%s%s: status %d: %s", c->change, c->name, (int)status, error_.message);
    scratch_remove(directory);
}

#define UNSUPPORTED EITP_ERROR_UNSUPPORTED
#define FORMAT EITP_ERROR_FORMAT

static const changed_model refused_models[] = {
    {"=", "general.architecture", "mamba", 0, 0, UNSUPPORTED, "unsupported general.architecture 'mamba' (supported: "},
    {"-", "general.architecture", NULL, 0, 0, UNSUPPORTED, "unsupported general.architecture ''"},
    {"=", "general.architecture", NULL, 3, 0, FORMAT, "key 'general.architecture' must be a string"},
    {"=", "general.type", "adapter", 0, 0, UNSUPPORTED, "general.type is 'adapter', expected a model"},
    {"=", "llama.expert_count", NULL, 8, 0, UNSUPPORTED, "unsupported key 'llama.expert_count' 8 (expected 0)"},
    {"=", "llama.logit_scale", NULL, 1, 0, UNSUPPORTED, "unsupported key 'llama.logit_scale'"},
    {"=", "llama.rope.scaling.type", "yarn", 0, 0, UNSUPPORTED, "unsupported llama.rope.scaling.type 'yarn'"},
    {"=", "llama.rope.scaling.type", NULL, 2, 0, FORMAT, "key 'llama.rope.scaling.type' must be a string"},
    {"=", "llama.rope.dimension_count", NULL, 2, 0, UNSUPPORTED, "unsupported key 'llama.rope.dimension_count' 2"},
    {"=", "llama.attention.value_length", NULL, 2, 0, UNSUPPORTED, "unsupported key 'llama.attention.value_length' 2"},
    {"=", "llama.attention.causal", NULL, 0, 0, FORMAT, "key 'llama.attention.causal' must be true or false"},
    {"-", "llama.block_count", NULL, 0, 0, FORMAT, "key 'llama.block_count' is missing"},
    {"-", "llama.attention.layer_norm_rms_epsilon", NULL, 0, 0, FORMAT, "epsilon' is missing"},
    {"=", "llama.block_count", "2", 0, 0, FORMAT, "key 'llama.block_count' must be an integer"},
    {"=", "llama.block_count", NULL, -1, 0, FORMAT, "key 'llama.block_count' is -1, which is outside 0 to"},
    {"=", "llama.embedding_length", NULL, INT64_MAX, 0, FORMAT, "key 'llama.embedding_length' is 9223372036854775807"},
    {"=", "llama.rope.freq_base", NULL, -1, 0, FORMAT, "key 'llama.rope.freq_base' is -1, which is outside 0 to"},
    {"+", "blk.0.attn_rot.weight", NULL, 4, 0, UNSUPPORTED, "unsupported tensor 'blk.0.attn_rot.weight'"},
    {"+", "blk.0.attn_q_norm.weight", NULL, 4, 0, UNSUPPORTED, "unsupported tensor 'blk.0.attn_q_norm.weight'"},
    {"+", "blk.1.ffn_up.weight", NULL, 4, 0, FORMAT, "duplicate tensor 'model.layers.1.mlp.up_proj.weight'"},
    {"-", "blk.1.ffn_up.weight", NULL, 0, 0, FORMAT, ""},
    {"-", "token_embd.weight", NULL, 0, 0, FORMAT, "tensor 'token_embd.weight' is missing"},
    {"*", "blk.0.ffn_down.weight", NULL, 256, 16, UNSUPPORTED,
     "tensor 'blk.0.ffn_down.weight': has unsupported type IQ2_XXS; requantize"},
    {"*", "blk.0.ffn_down.weight", NULL, 8, 26, UNSUPPORTED, "has unsupported type I32"},
    {"*", "blk.0.attn_q.weight", NULL, 8, 0, FORMAT, "tensor 'blk.0.attn_q.weight': has 1 rows for 3 heads"},
    {"*", "blk.0.attn_v.weight", NULL, 8, 0, FORMAT, ""},
    {"=", "llama.attention.head_count", NULL, 5, 0, FORMAT, ""},
    {"=", "llama.attention.head_count", NULL, 0, 0, FORMAT, ""},
};

static void unsupported_models_are_refused(void) {
    for (size_t i = 0; i < EITP__COUNT(refused_models); i++)
        check_changed("llama-linear-lm", &refused_models[i]);
}

/* Two scalings at once, whichever is changed. */
/* Weights in a file of another format are an error, unlike a directory without weights. */
static void other_files_have_no_weights(void) {
    const eitp_host host = eitp_host_default();
    eitp__safetensors *collection = NULL;
    char directory[512];
    REQUIRE(scratch_make(directory));
    CHECK(!eitp__write_file(&host, scratch_path(directory, "weights"), "GGUX", 4, &error_));
    CHECK(eitp__weights_open(&host, scratch_path(directory, "weights"), &collection, &error_) == EITP_ERROR_FORMAT);
    CHECK_THAT(!collection && strstr(error_.message, "not a GGUF file"), "%s", error_.message);
    CHECK(!eitp__weights_open(&host, directory, &collection, &error_) && !collection);
    scratch_remove(directory);
}

static void scaled_models_are_not_scaled_twice(void) {
    static const changed_model changes[] = {
        {"=", "llama.rope.scaling.type", "yarn", 0, 0, UNSUPPORTED, "unsupported llama.rope.scaling.type 'yarn'"},
        {"=", "llama.rope.scaling.factor", NULL, 2, 0, UNSUPPORTED, "with 'rope_freqs.weight'"},
        {"=", "llama.rope.scaling.type", "none", 0, 0, EITP_OK, ""},
        {"*", "rope_freqs.weight", NULL, 3, 0, FORMAT, "tensor 'rope_freqs.weight' has 3 elements, expected"},
    };
    for (size_t i = 0; i < EITP__COUNT(changes); i++)
        check_changed("llama-scaled-lm", &changes[i]);
}

/* A model without a head shares the token embedding. */
static void heads_may_be_shared(void) {
    static const changed_model tied = {"-", "output.weight", NULL, 0, 0, EITP_OK, ""};
    static const changed_model with_head = {"+", "output.weight", NULL, 8, 0, FORMAT, ""};
    check_changed("llama-scaled-lm", &tied);
    check_changed("gpt2-lm", &with_head);
}

/* ---- A value for each layer ---- */

static void check_layers(const char *key, eitp__gguf_kind kind, const int64_t *values, size_t count, eitp_status status,
                         const char *message) {
    const eitp_host host = eitp_host_default();
    char directory[512];
    const char *path;
    eitp_status loaded;
    gguf_writer writer;
    eitp__gguf gguf;
    REQUIRE(scratch_make(directory));
    path = scratch_path(directory, "layers.gguf");
    REQUIRE_OK(eitp__gguf_open(&host, model_path("llama-linear-lm"), &gguf, &error_), error_);
    gguf_start(&writer);
    for (size_t i = 0; i < gguf.value_count; i++) {
        if (!eitp__gguf_text_is(gguf.values[i].key, key))
            copy_key(&writer, &gguf.values[i]);
    }
    gguf_add_integers(&writer, key, kind, values, count);
    for (size_t i = 0; i < gguf.tensor_count; i++)
        copy_tensor(&writer, &gguf, &gguf.tensors[i]);
    eitp__gguf_close(&gguf);
    REQUIRE(gguf_finish(&writer, path));
    loaded = load(path);
    CHECK_THAT(loaded == status && (!loaded || (strstr(error_.message, path) && strstr(error_.message, message))),
               "status %d: %s", (int)loaded, error_.message);
    scratch_remove(directory);
}

static void arrays_have_one_value_for_all_layers(void) {
    static const char *const key = "llama.attention.head_count";
    static const int64_t same[] = {3, 3}, different[] = {3, 1}, negative[] = {-4, -4};
    static const int64_t large[] = {INT64_MAX, INT64_MAX}, word[] = {(int64_t)1 << 31, (int64_t)1 << 31};
    check_layers(key, EITP__GGUF_U32, same, 2, EITP_OK, "");
    check_layers(key, EITP__GGUF_U32, different, 2, UNSUPPORTED, "it differs between layers");
    check_layers(key, EITP__GGUF_I32, negative, 2, FORMAT, "has element -4, which is outside 0 to");
    check_layers(key, EITP__GGUF_U64, large, 2, FORMAT, "has element 9223372036854775807, which is outside 0 to");
    check_layers(key, EITP__GGUF_U32, word, 2, FORMAT, "has element 2147483648, which is outside 0 to");
    check_layers(key, EITP__GGUF_F32, same, 2, FORMAT, "must be an array of integers");
    check_layers(key, EITP__GGUF_BOOL, same, 2, FORMAT, "must be an array of integers");
}

/* ---- Failing calls ---- */

/* Reads the configuration and all weights. */
static eitp_status read_all(const eitp_host *host, const char *path, const char *config) {
    eitp__safetensors *collection = NULL;
    eitp_json_document *document = NULL;
    float values[600];
    eitp_status status = eitp__model_json_read(host, config, 1 << 20, &document, &error_);
    CHECK((status == EITP_OK) == (document != NULL));
    eitp_json_release(document);
    if (!status)
        status = eitp__weights_open(host, path, &collection, &error_);
    CHECK(status || collection);
    for (size_t i = 0; !status && collection && i < eitp__safetensors_count(collection); i++) {
        const eitp__safetensors_entry *entry = eitp__safetensors_at(collection, i);
        const int64_t count = entry->count < 600 ? entry->count : 600;
        status = eitp__safetensors_read_f32(collection, entry, 0, count, values, NULL, &error_);
    }
    eitp__safetensors_close(collection);
    return status;
}

static void failures_leak_nothing(void) {
    char path[200], config[240];
    int failures[3] = {0};
    snprintf(path, sizeof path, "%s", model_path("llama-scaled-lm"));
    snprintf(config, sizeof config, "%s/config.json", path);
    for (int kind = 0; kind < 3; kind++) {
        int more = 1;
        for (long n = 1; more; n++) {
            faults f;
            eitp_status status;
            faults_begin(&f);
            f.fail_allocation = kind ? 0 : n;
            f.fail_file_call = kind ? n : 0;
            f.shorten = kind == 2 ? FAULTS_ONE : FAULTS_WHOLE;
            status = read_all(&f.host, path, config);
            more = faults_end(&f);
            /* A file whose first bytes cannot be read is opened as a GGUF file, which may succeed then. */
            CHECK_THAT(!status || (more && kind < 2), "kind %d, call %ld: %s", kind, n, error_.message);
            CHECK_THAT(!status || (status == EITP_ERROR_MEMORY) == !kind, "status %d: %s", (int)status, error_.message);
            CHECK_THAT(!status || !kind || strstr(error_.message, path), "%s", error_.message);
            failures[kind] += status != EITP_OK;
        }
    }
    CHECK_THAT(failures[0] > 20 && failures[1] > 20, "%d and %d failures", failures[0], failures[1]);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(models_match_transformers),
        TEST(saved_directories_match_transformers),
        TEST(unsupported_models_are_refused),
        TEST(other_files_have_no_weights),
        TEST(scaled_models_are_not_scaled_twice),
        TEST(heads_may_be_shared),
        TEST(arrays_have_one_value_for_all_layers),
        TEST(failures_leak_nothing),
    };
    return RUN_TESTS(tests, argc, argv);
}
