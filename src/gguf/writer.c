#include "gguf/writer.h"
#include "base/convert.h"
#include "base/little_endian.h"

#define EITP__GGUF_ALIGNMENT 32u /* the format's default, so that no key states it */

EITP__PRIVATE void eitp__gguf_writer_init(eitp__gguf_writer *writer, const eitp_host *host) {
    memset(writer, 0, sizeof *writer);
    writer->host = *host;
    eitp__buffer_init(&writer->keys, &writer->host);
    eitp__buffer_init(&writer->tensors, &writer->host);
    eitp__buffer_init(&writer->names, &writer->host);
}

EITP__PRIVATE void eitp__gguf_writer_release(eitp__gguf_writer *writer) {
    eitp__write_behind_destroy(writer->queue);
    eitp__buffer_release(&writer->keys);
    eitp__buffer_release(&writer->tensors);
    eitp__buffer_release(&writer->names);
    eitp__release(&writer->host, writer->outputs, writer->output_capacity * sizeof *writer->outputs);
    writer->outputs = NULL;
    writer->output_capacity = 0;
    writer->queue = NULL;
}

/* ---- Keys ---- */

static void eitp__gguf_add_number(eitp__buffer *buffer, size_t size, uint64_t value) {
    unsigned char bytes[8];
    eitp__put_number(bytes, size, value);
    eitp__buffer_add(buffer, bytes, size);
}

static void eitp__gguf_add_string(eitp__buffer *buffer, const char *text, size_t size) {
    eitp__gguf_add_number(buffer, 8, size);
    eitp__buffer_add(buffer, text, size);
}

static void eitp__gguf_begin_key(eitp__gguf_writer *writer, const char *key, eitp__gguf_kind kind) {
    eitp__gguf_add_string(&writer->keys, key, strlen(key));
    eitp__gguf_add_number(&writer->keys, 4, (uint64_t)kind);
    writer->key_count++;
}

EITP__PRIVATE void eitp__gguf_add_integer(eitp__gguf_writer *writer, eitp__gguf_kind kind, int64_t value) {
    eitp__gguf_add_number(&writer->keys, eitp__gguf_kind_size(kind), (uint64_t)value);
}

EITP__PRIVATE void eitp__gguf_add_f32(eitp__gguf_writer *writer, float value) {
    eitp__gguf_add_number(&writer->keys, 4, eitp__bits_of_float(value));
}

EITP__PRIVATE void eitp__gguf_add_text(eitp__gguf_writer *writer, const char *text, size_t size) {
    eitp__gguf_add_string(&writer->keys, text, size);
}

EITP__PRIVATE void eitp__gguf_put_integer(eitp__gguf_writer *writer, const char *key, eitp__gguf_kind kind,
                                          int64_t value) {
    eitp__gguf_begin_key(writer, key, kind);
    eitp__gguf_add_integer(writer, kind, value);
}

EITP__PRIVATE void eitp__gguf_put_f32(eitp__gguf_writer *writer, const char *key, float value) {
    eitp__gguf_begin_key(writer, key, EITP__GGUF_F32);
    eitp__gguf_add_f32(writer, value);
}

EITP__PRIVATE void eitp__gguf_put_text(eitp__gguf_writer *writer, const char *key, const char *text, size_t size) {
    eitp__gguf_begin_key(writer, key, EITP__GGUF_STRING);
    eitp__gguf_add_text(writer, text, size);
}

EITP__PRIVATE void eitp__gguf_put_array(eitp__gguf_writer *writer, const char *key, eitp__gguf_kind kind,
                                        uint64_t count) {
    eitp__gguf_begin_key(writer, key, EITP__GGUF_ARRAY);
    eitp__gguf_add_number(&writer->keys, 4, (uint64_t)kind);
    eitp__gguf_add_number(&writer->keys, 8, count);
}

/* ---- Tensors ---- */

EITP__PRIVATE eitp_status eitp__gguf_put_tensor(eitp__gguf_writer *writer, const char *name,
                                                const eitp__gguf_type *type, int rank, const int64_t *shape,
                                                eitp_error *error) {
    void *outputs = writer->outputs;
    eitp__gguf_output *output;
    uint64_t size;
    if (!eitp__reserve(&writer->host, &outputs, &writer->output_capacity, writer->output_count + 1, sizeof *output))
        return eitp__fail_memory(error, (writer->output_count + 1) * sizeof *output, "the tensors of a GGUF file");
    writer->outputs = (eitp__gguf_output *)outputs;
    output = &writer->outputs[writer->output_count++];
    memset(output, 0, sizeof *output);
    output->type = type;
    output->name = writer->names.size;
    output->offset = writer->data_size;
    output->count = 1;
    eitp__buffer_add(&writer->names, name, strlen(name) + 1);
    eitp__gguf_add_string(&writer->tensors, name, strlen(name));
    eitp__gguf_add_number(&writer->tensors, 4, (uint64_t)rank);
    for (int d = rank - 1; d >= 0; d--) {
        eitp__gguf_add_number(&writer->tensors, 8, (uint64_t)shape[d]);
        output->count *= shape[d];
    }
    eitp__gguf_add_number(&writer->tensors, 4, type->number);
    eitp__gguf_add_number(&writer->tensors, 8, output->offset);
    size = (uint64_t)(output->count / type->values) * (uint64_t)type->bytes;
    writer->data_size += (size + EITP__GGUF_ALIGNMENT - 1) / EITP__GGUF_ALIGNMENT * EITP__GGUF_ALIGNMENT;
    return EITP_OK;
}

/* Writes everything before the data, and the last byte of the padded data, so that a shorter file is never taken for
   a whole one. */
static eitp_status eitp__gguf_write_start(eitp__gguf_writer *writer, eitp__buffer *start, eitp_error *error) {
    static const char zeros[EITP__GGUF_ALIGNMENT] = {0};
    eitp_status status;
    eitp__buffer_add(start, "GGUF", 4);
    eitp__gguf_add_number(start, 4, 3);
    eitp__gguf_add_number(start, 8, writer->output_count);
    eitp__gguf_add_number(start, 8, writer->key_count);
    eitp__buffer_add(start, writer->keys.data, writer->keys.size);
    eitp__buffer_add(start, writer->tensors.data, writer->tensors.size);
    eitp__buffer_add(start, zeros, (EITP__GGUF_ALIGNMENT - start->size % EITP__GGUF_ALIGNMENT) % EITP__GGUF_ALIGNMENT);
    if (start->failed || writer->keys.failed || writer->tensors.failed || writer->names.failed)
        return eitp__fail_memory(error, start->size, "the header of a GGUF file");
    writer->data_start = start->size;
    status = eitp__behind_write(writer->file, 0, start->data, start->size, error);
    return status || !writer->data_size
               ? status
               : eitp__behind_write(writer->file, writer->data_start + writer->data_size - 1, zeros, 1, error);
}

EITP__PRIVATE eitp_status eitp__gguf_writer_begin(eitp__gguf_writer *writer, const char *path, eitp_error *error) {
    eitp__buffer start;
    eitp_status status = eitp__write_behind_create(&writer->host, 0, 1, &writer->queue, error);
    eitp__buffer_init(&start, &writer->host);
    if (!status)
        status = eitp__behind_open(writer->queue, path, &writer->file, error);
    if (!status)
        status = eitp__gguf_write_start(writer, &start, error);
    eitp__buffer_release(&start);
    return status;
}

/* ---- Values ---- */

/* Fails for a value that a type cannot represent: the scale of a block of 16 bits is an F16. */
static eitp_status eitp__gguf_check_values(const eitp__gguf_writer *writer, const eitp__gguf_output *output,
                                           const float *values, int64_t count, eitp_error *error) {
    const int is_wide = !strcmp(output->type->name, "F32") || !strcmp(output->type->name, "BF16");
    for (int64_t i = 0; i < count; i++) {
        if (isfinite(values[i]) && eitp__is_in_range(is_wide ? EITP_BF16 : EITP_F16, values[i]))
            continue;
        if (isfinite(values[i]) && !strcmp(output->type->name, "F32"))
            continue;
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "tensor '%s' has the value %g, which %s cannot represent",
                          writer->names.data + output->name, (double)values[i], output->type->name);
    }
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__gguf_write_values(eitp__gguf_writer *writer, size_t tensor, const float *values,
                                                  int64_t count, eitp_error *error) {
    enum { CHUNK = 8192 };
    unsigned char bytes[CHUNK];
    eitp__gguf_output *output = &writer->outputs[tensor];
    const eitp__gguf_type *type = output->type;
    const int64_t most = CHUNK / type->bytes;
    eitp_status status = eitp__gguf_check_values(writer, output, values, count, error);
    for (int64_t left = count / type->values; left && !status;) {
        const int64_t blocks = left < most ? left : most;
        const uint64_t at = output->offset + (uint64_t)(output->written / type->values * type->bytes);
        for (int64_t i = 0; i < blocks; i++)
            type->round(values + i * type->values, bytes + i * type->bytes);
        status =
            eitp__behind_write(writer->file, writer->data_start + at, bytes, (size_t)(blocks * type->bytes), error);
        output->written += blocks * type->values;
        values += blocks * type->values;
        left -= blocks;
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__gguf_writer_finish(eitp__gguf_writer *writer, eitp_error *error) {
    for (size_t i = 0; i < writer->output_count; i++) {
        const eitp__gguf_output *output = &writer->outputs[i];
        if (output->written != output->count)
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "%lld of %lld elements of tensor '%s' are written",
                              (long long)output->written, (long long)output->count, writer->names.data + output->name);
    }
    eitp__behind_end(writer->file);
    return eitp__behind_finish(writer->queue, error);
}
