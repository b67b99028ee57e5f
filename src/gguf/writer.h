/* Writes GGUF files: keys and the list of tensors first, then the tensors' values through a small buffer. */
#ifndef EITP_GGUF_WRITER_H
#define EITP_GGUF_WRITER_H

#include "base/write_behind.h"
#include "gguf/gguf.h"

/* A tensor to write. */
typedef struct eitp__gguf_output {
    const eitp__gguf_type *type; /* one with `round`, or F32 */
    uint64_t offset;             /* in the data */
    int64_t count, written;      /* elements */
    size_t name;                 /* offset in `names` */
} eitp__gguf_output;

typedef struct eitp__gguf_writer {
    eitp_host host;
    eitp__buffer keys, tensors, names;
    uint64_t key_count;
    eitp__gguf_output *outputs;
    size_t output_count, output_capacity;
    uint64_t data_start, data_size;
    eitp__write_behind *queue;
    eitp__behind_file *file;
} eitp__gguf_writer;

EITP__PRIVATE void eitp__gguf_writer_init(eitp__gguf_writer *writer, const eitp_host *host);

/* Releases the memory; an unfinished file is removed. */
EITP__PRIVATE void eitp__gguf_writer_release(eitp__gguf_writer *writer);

/* Add a key. Running out of memory is reported by eitp__gguf_writer_begin. */
EITP__PRIVATE void eitp__gguf_put_integer(eitp__gguf_writer *writer, const char *key, eitp__gguf_kind kind,
                                          int64_t value);
EITP__PRIVATE void eitp__gguf_put_f32(eitp__gguf_writer *writer, const char *key, float value);
EITP__PRIVATE void eitp__gguf_put_text(eitp__gguf_writer *writer, const char *key, const char *text, size_t size);

/* Add a key with an array, whose `count` elements follow: integers of any size (U32, I32, BOOL, ...), or F32, or
   strings. */
EITP__PRIVATE void eitp__gguf_put_array(eitp__gguf_writer *writer, const char *key, eitp__gguf_kind kind,
                                        uint64_t count);
EITP__PRIVATE void eitp__gguf_add_integer(eitp__gguf_writer *writer, eitp__gguf_kind kind, int64_t value);
EITP__PRIVATE void eitp__gguf_add_f32(eitp__gguf_writer *writer, float value);
EITP__PRIVATE void eitp__gguf_add_text(eitp__gguf_writer *writer, const char *text, size_t size);

/* Adds a tensor with its shape outermost first. Tensors are numbered in the order they are added. The rows must be
   whole blocks of the type. */
EITP__PRIVATE eitp_status eitp__gguf_put_tensor(eitp__gguf_writer *writer, const char *name,
                                                const eitp__gguf_type *type, int rank, const int64_t *shape,
                                                eitp_error *error);

/* Opens "<path>.tmp" and writes everything before the data. */
EITP__PRIVATE eitp_status eitp__gguf_writer_begin(eitp__gguf_writer *writer, const char *path, eitp_error *error);

/* Writes the next `count` elements of a tensor, whole blocks of its type. A value that is not finite, or beyond the
   range of the type, is EITP_ERROR_ARGUMENT with the tensor's name. */
EITP__PRIVATE eitp_status eitp__gguf_write_values(eitp__gguf_writer *writer, size_t tensor, const float *values,
                                                  int64_t count, eitp_error *error);

/* Checks that every tensor is complete, syncs the file and renames it to its path, which has the whole old file or the
   whole new one. */
EITP__PRIVATE eitp_status eitp__gguf_writer_finish(eitp__gguf_writer *writer, eitp_error *error);

#endif
