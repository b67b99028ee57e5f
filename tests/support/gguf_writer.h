/* GGUF files for tests, valid or broken. */
#ifndef EITP_TEST_GGUF_WRITER_H
#define EITP_TEST_GGUF_WRITER_H

#include "tests/support/test.h"

#define GGUF_UNUSED __attribute__((unused))

/* Start from gguf_start. Its members can be changed before gguf_finish, to write a broken file. */
typedef struct gguf_writer {
    eitp_host host;
    eitp__buffer keys, tensors, data;
    char magic[4];
    uint32_t version;
    uint64_t key_count, tensor_count; /* as stated in the file */
    uint64_t alignment;               /* of the data; add "general.alignment" if it is not 32 */
    uint64_t cut;                     /* bytes missing at the end */
} gguf_writer;

static GGUF_UNUSED void gguf_start(gguf_writer *writer) {
    memset(writer, 0, sizeof *writer);
    writer->host = eitp_host_default();
    eitp__buffer_init(&writer->keys, &writer->host);
    eitp__buffer_init(&writer->tensors, &writer->host);
    eitp__buffer_init(&writer->data, &writer->host);
    memcpy(writer->magic, "GGUF", 4);
    writer->version = 3;
    writer->alignment = 32;
}

static GGUF_UNUSED void gguf_end(gguf_writer *writer) {
    eitp__buffer_release(&writer->keys);
    eitp__buffer_release(&writer->tensors);
    eitp__buffer_release(&writer->data);
}

/* ---- Values ---- */

/* Adds a number in little-endian order. */
static GGUF_UNUSED void gguf_put(eitp__buffer *buffer, uint64_t value, size_t size) {
    for (size_t i = 0; i < size; i++) {
        const char byte = (char)(unsigned char)(value >> 8 * i);
        eitp__buffer_add(buffer, &byte, 1);
    }
}

static GGUF_UNUSED void gguf_put_text(eitp__buffer *buffer, const char *text, size_t size) {
    gguf_put(buffer, size, 8);
    eitp__buffer_add(buffer, text, size);
}

/* Adds a number of any kind, integers and flags from `integer`, floats from `real`. */
static GGUF_UNUSED void gguf_put_number(gguf_writer *writer, eitp__gguf_kind kind, int64_t integer, double real) {
    static const size_t sizes[EITP__GGUF_KINDS] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    const float narrow = (float)real;
    uint64_t bits = (uint64_t)integer;
    if (kind == EITP__GGUF_F64)
        memcpy(&bits, &real, sizeof real);
    if (kind == EITP__GGUF_F32) {
        uint32_t narrow_bits;
        memcpy(&narrow_bits, &narrow, sizeof narrow);
        bits = narrow_bits;
    }
    gguf_put(&writer->keys, bits, sizes[kind]);
}

/* Starts a key; its value follows. */
static GGUF_UNUSED void gguf_add_key(gguf_writer *writer, const char *key, eitp__gguf_kind kind) {
    writer->key_count++;
    gguf_put_text(&writer->keys, key, strlen(key));
    gguf_put(&writer->keys, (uint64_t)kind, 4);
}

/* Starts a key whose value is an array; `count` values follow. */
static GGUF_UNUSED void gguf_add_array(gguf_writer *writer, const char *key, eitp__gguf_kind kind, uint64_t count) {
    gguf_add_key(writer, key, EITP__GGUF_ARRAY);
    gguf_put(&writer->keys, (uint64_t)kind, 4);
    gguf_put(&writer->keys, count, 8);
}

static GGUF_UNUSED void gguf_add_integer(gguf_writer *writer, const char *key, eitp__gguf_kind kind, int64_t value) {
    gguf_add_key(writer, key, kind);
    gguf_put_number(writer, kind, value, 0);
}

static GGUF_UNUSED void gguf_add_real(gguf_writer *writer, const char *key, eitp__gguf_kind kind, double value) {
    gguf_add_key(writer, key, kind);
    gguf_put_number(writer, kind, 0, value);
}

static GGUF_UNUSED void gguf_add_flag(gguf_writer *writer, const char *key, int value) {
    gguf_add_integer(writer, key, EITP__GGUF_BOOL, value);
}

static GGUF_UNUSED void gguf_add_text(gguf_writer *writer, const char *key, const char *text) {
    gguf_add_key(writer, key, EITP__GGUF_STRING);
    gguf_put_text(&writer->keys, text, strlen(text));
}

static GGUF_UNUSED void gguf_add_texts(gguf_writer *writer, const char *key, const char *const *texts, size_t count) {
    gguf_add_array(writer, key, EITP__GGUF_STRING, count);
    for (size_t i = 0; i < count; i++)
        gguf_put_text(&writer->keys, texts[i], strlen(texts[i]));
}

static GGUF_UNUSED void gguf_add_integers(gguf_writer *writer, const char *key, eitp__gguf_kind kind,
                                          const int64_t *values, size_t count) {
    gguf_add_array(writer, key, kind, count);
    for (size_t i = 0; i < count; i++)
        gguf_put_number(writer, kind, values[i], 0);
}

static GGUF_UNUSED void gguf_add_reals(gguf_writer *writer, const char *key, eitp__gguf_kind kind, const double *values,
                                       size_t count) {
    gguf_add_array(writer, key, kind, count);
    for (size_t i = 0; i < count; i++)
        gguf_put_number(writer, kind, 0, values[i]);
}

/* ---- Tensors ---- */

static GGUF_UNUSED void gguf_pad(eitp__buffer *buffer, uint64_t size, uint64_t alignment) {
    for (uint64_t i = (alignment - size % alignment) % alignment; i; i--)
        gguf_put(buffer, 0, 1);
}

/* Adds a tensor of a ggml type with its bytes. `shape` is outermost first. */
static GGUF_UNUSED void gguf_add_tensor(gguf_writer *writer, const char *name, uint32_t type, const int64_t *shape,
                                        uint32_t rank, const void *bytes, size_t size) {
    writer->tensor_count++;
    gguf_put_text(&writer->tensors, name, strlen(name));
    gguf_put(&writer->tensors, rank, 4);
    for (uint32_t i = rank; i-- > 0;)
        gguf_put(&writer->tensors, (uint64_t)shape[i], 8);
    gguf_put(&writer->tensors, type, 4);
    gguf_put(&writer->tensors, writer->data.size, 8);
    eitp__buffer_add(&writer->data, bytes, size);
    gguf_pad(&writer->data, size, writer->alignment);
}

/* ---- The file ---- */

/* Writes the file and ends the writer. Returns 0 if it fails. */
static GGUF_UNUSED int gguf_finish(gguf_writer *writer, const char *path) {
    eitp__buffer file;
    int is_written;
    eitp__buffer_init(&file, &writer->host);
    eitp__buffer_add(&file, writer->magic, 4);
    gguf_put(&file, writer->version, 4);
    gguf_put(&file, writer->tensor_count, 8);
    gguf_put(&file, writer->key_count, 8);
    eitp__buffer_add(&file, writer->keys.data, writer->keys.size);
    eitp__buffer_add(&file, writer->tensors.data, writer->tensors.size);
    gguf_pad(&file, file.size, writer->alignment);
    eitp__buffer_add(&file, writer->data.data, writer->data.size);
    CHECK(!file.failed && writer->cut <= file.size);
    is_written = !eitp__write_file(&writer->host, path, file.data, file.size - (size_t)writer->cut, NULL);
    eitp__buffer_release(&file);
    gguf_end(writer);
    return is_written;
}

/* ---- Keys of golden files ---- */

static GGUF_UNUSED void gguf_add_values(gguf_writer *writer, const eitp_json *values) {
    const eitp_json *value = values->first_child;
    const eitp__gguf_kind kind = value->kind == EITP_JSON_STRING  ? EITP__GGUF_STRING
                                 : strstr(values->name, "scores") ? EITP__GGUF_F32
                                                                  : EITP__GGUF_I32;
    gguf_add_array(writer, values->name, kind, values->count);
    for (; value; value = value->next) {
        if (kind == EITP__GGUF_STRING)
            gguf_put_text(&writer->keys, value->text, value->text_size);
        else
            gguf_put_number(writer, kind, value->integer, value->number);
    }
}

/* Adds a key with the name and value of a JSON member. */
static GGUF_UNUSED void gguf_add_json(gguf_writer *writer, const eitp_json *value) {
    if (value->kind == EITP_JSON_ARRAY)
        gguf_add_values(writer, value);
    else if (value->kind == EITP_JSON_STRING)
        gguf_add_text(writer, value->name, value->text);
    else if (value->kind == EITP_JSON_BOOLEAN)
        gguf_add_flag(writer, value->name, value->boolean);
    else
        gguf_add_integer(writer, value->name, EITP__GGUF_U32, value->integer);
}

#endif
