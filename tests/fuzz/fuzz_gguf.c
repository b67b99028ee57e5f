/*
 * Fuzzes models in GGUF files: keys, tensors, the JSON files that they stand for, tokenizers and weights. An input that
 * starts with 'H' is the header of a file, whose tensors are mostly zeros. Any other input is a complete file.
 */
#include "tests/support/everything.h"
#include "tests/support/one_file.h"

#include "gguf/tokenizer_text.h"

#define MODEL "model.gguf"

enum { ZEROS = 1 << 17, MOST_VALUES = 64, MOST_IDS = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition, const char *what) {
    if (!condition) {
        fprintf(stderr, "fuzz_gguf: %s\n", what);
        abort();
    }
}

/* ---- The only file ---- */

static int open_model(void *user, const char *path, eitp_file_mode mode, void **file) {
    require(mode == EITP_FILE_READ, "a file opened for writing");
    *file = user;
    return strcmp(path, MODEL) ? ENOENT : 0;
}

static int model_info(void *user, const char *path, eitp_path_info *info) {
    memset(info, 0, sizeof *info);
    info->kind = strcmp(path, MODEL) ? EITP_PATH_MISSING : EITP_PATH_FILE;
    info->size = ((const one_file *)user)->size;
    return 0;
}

static eitp_host host_of(one_file *one) {
    eitp_host host = one_file_host(one);
    host.files.open = open_model;
    host.files.info = model_info;
    return host;
}

static void require_message(eitp_status status, const eitp_error *error) {
    require(!status || strstr(error->message, MODEL), "a message without the file's path");
}

/* ---- The container ---- */

static void read_tensor(const eitp__gguf *gguf, const eitp__gguf_tensor *tensor) {
    float values[MOST_VALUES];
    const uint64_t size = gguf->files[0].size;
    const int64_t count = tensor->count < MOST_VALUES ? tensor->count : MOST_VALUES;
    int64_t product = 1;
    eitp__file file = EITP__ZERO;
    require(tensor->offset <= size && tensor->size <= size - tensor->offset, "a tensor out of its file");
    for (int d = 0; d < tensor->rank; d++)
        product *= tensor->shape[d];
    require(product == tensor->count && tensor->count >= 0, "a count that is not the product of the shape");
    require((uint64_t)(tensor->count / tensor->type->values * tensor->type->bytes) == tensor->size, "wrong size");
    if (!tensor->type->widen)
        return;
    require(!eitp__file_open(&file, &gguf->host, MODEL, EITP_FILE_READ, NULL), "no file");
    require(!eitp__gguf_read_elements(&file, tensor->type, tensor->offset, tensor->count - count, count, values, NULL),
            "no values");
    eitp__file_close(&file, NULL);
}

/* Reads a value in every way. */
static void read_value(const eitp__gguf *gguf, const eitp__gguf_value *value) {
    char key[64] = {0};
    const eitp__gguf_value *array;
    const unsigned char *at = value->at;
    eitp__gguf_text text;
    int64_t integer;
    double number;
    int flag;
    for (uint64_t i = 0; i < value->count; i++) {
        if (value->kind == EITP__GGUF_STRING)
            eitp__gguf_next_text(&at);
        else
            eitp__gguf_number_at(value, i);
    }
    if (value->key.size >= sizeof key || memchr(value->key.data, 0, value->key.size))
        return;
    memcpy(key, value->key.data, value->key.size);
    require(eitp__gguf_find(gguf, key) == value, "a key that is not found");
    if (!eitp__gguf_get_integer(gguf, key, -5, 1 << 20, &integer, NULL))
        require(integer >= -5 && integer <= 1 << 20, "an integer outside the limits");
    if (!eitp__gguf_get_number(gguf, key, -5, 5, &number, NULL))
        require(number >= -5 && number <= 5, "a number outside the limits");
    if (!eitp__gguf_get_flag(gguf, key, &flag, NULL))
        require(flag == 0 || flag == 1, "a flag that is neither true nor false");
    eitp__gguf_get_text(gguf, key, &text, NULL);
    for (int is_text = 0; is_text < 2; is_text++)
        eitp__gguf_get_array(gguf, key, is_text, &array, NULL);
}

static void read_container(const eitp_host *host) {
    eitp__gguf gguf;
    eitp_error error;
    const eitp_status status = eitp__gguf_open(host, MODEL, &gguf, &error);
    require_message(status, &error);
    for (size_t i = 0; !status && i < gguf.tensor_count; i++)
        read_tensor(&gguf, &gguf.tensors[i]);
    for (size_t i = 0; !status && i < gguf.value_count; i++)
        read_value(&gguf, &gguf.values[i]);
    eitp__gguf_close(&gguf);
}

/* ---- JSON files ---- */

/* A file that is derived is JSON. */
static void derive(const eitp_host *host, eitp_status (*write)(const eitp__gguf *, eitp__buffer *, eitp_error *)) {
    eitp_json_document *document = NULL;
    eitp__buffer text;
    eitp__gguf gguf;
    eitp_error error;
    eitp__buffer_init(&text, host);
    if (!eitp__gguf_open(host, MODEL, &gguf, &error) && !write(&gguf, &text, &error)) {
        const eitp_status status = eitp_json_parse(host, text.data, text.size, &document, &error);
        if (status)
            fprintf(stderr, "%s\n%.*s\n", error.message, (int)text.size, text.data);
        require(!status, "text that is not JSON");
    }
    eitp_json_release(document);
    eitp__buffer_release(&text);
    eitp__gguf_close(&gguf);
}

static void read_config(const eitp_host *host) {
    eitp_transformer_config config;
    eitp_error error;
    const eitp_status status = eitp_model_config_read(host, MODEL, &config, &error);
    require_message(status, &error);
    require(status || (config.width > 0 && config.heads > 0 && config.layers > 0 && config.vocabulary > 0),
            "a size that is not positive");
}

/* ---- Tokenizers ---- */

static void use_tokenizer(const eitp_tokenizer *tokenizer) {
    static const char text[] = "it's <s> two\n words\xF0\x9F\x98\x80 \xFF' [SEP] \xC3\x89t\xC3\xA9 \xE2\x96\x81t a ab";
    static int32_t ids[MOST_IDS];
    static char decoded[1 << 16];
    const int32_t size = eitp_tokenizer_size(tokenizer);
    size_t count, length;
    require(eitp_tokenizer_encode(tokenizer, text, sizeof text - 1, ids, MOST_IDS, &count, NULL) == EITP_OK, "no ids");
    for (size_t i = 0; i < count && i < MOST_IDS; i++)
        require(ids[i] >= 0 && ids[i] < size, "an id outside the vocabulary");
    for (int32_t i = 0; i < MOST_IDS; i++)
        ids[i] = i < size ? i : 0;
    require(eitp_tokenizer_decode(tokenizer, ids, size < MOST_IDS ? (size_t)size : MOST_IDS, decoded, sizeof decoded,
                                  &length, NULL) == EITP_OK,
            "no text");
}

static void load_tokenizer(const eitp_host *host) {
    eitp_tokenizer *tokenizer = NULL;
    eitp_error error;
    const eitp_status status = eitp_tokenizer_load(host, MODEL, &tokenizer, &error);
    require_message(status, &error);
    require((status == EITP_OK) == (tokenizer != NULL), "a status that contradicts the result");
    if (tokenizer)
        use_tokenizer(tokenizer);
    eitp_tokenizer_destroy(tokenizer);
}

/* ---- Weights ---- */

static void read_weights(const eitp_host *host) {
    eitp__safetensors *collection = NULL;
    float values[MOST_VALUES];
    eitp_error error;
    const eitp_status status = eitp__weights_open(host, MODEL, &collection, &error);
    require_message(status, &error);
    require((status == EITP_OK) == (collection != NULL), "a status that contradicts the result");
    for (size_t i = 0; collection && i < eitp__safetensors_count(collection); i++) {
        const eitp__safetensors_entry *entry = eitp__safetensors_at(collection, i);
        const int64_t count = entry->count < MOST_VALUES ? entry->count : MOST_VALUES;
        require(!eitp__safetensors_read_f32(collection, entry, 0, count, values, NULL, &error), "no first values");
        require(!eitp__safetensors_read_f32(collection, entry, entry->count - count, count, values, NULL, &error),
                "no last values");
    }
    eitp__safetensors_close(collection);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const int is_header = size && data[0] == 'H';
    char *header = is_header ? (char *)calloc(size + ZEROS, 1) : NULL;
    one_file one = {data, size};
    eitp_host host;
    if (header) {
        memcpy(header, data, size);
        header[0] = 'G';
        one.data = header;
        one.size = size + ZEROS;
    }
    host = host_of(&one);
    read_container(&host);
    derive(&host, eitp__gguf_write_model_config);
    derive(&host, eitp__gguf_write_tokenizer);
    derive(&host, eitp__gguf_write_tokenizer_config);
    derive(&host, eitp__gguf_write_pooling);
    read_config(&host);
    load_tokenizer(&host);
    read_weights(&host);
    free(header);
    return 0;
}
