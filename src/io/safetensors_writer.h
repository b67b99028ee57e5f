/* Writing a safetensors file tensor by tensor, in pieces, without a second copy of the data. */
#ifndef EITP_SAFETENSORS_WRITER_H
#define EITP_SAFETENSORS_WRITER_H

#include "base/files.h"

/* A tensor that the file will have. */
typedef struct eitp__safetensors_tensor {
    const char *name;
    eitp_dtype dtype; /* in the file */
    int rank;
    int64_t shape[EITP_MAX_RANK];
} eitp__safetensors_tensor;

/* A text for "__metadata__". Hugging Face's loader wants "format" to be "pt". */
typedef struct eitp__safetensors_text {
    const char *key;
    const char *value;
} eitp__safetensors_text;

typedef struct eitp__safetensors_writer eitp__safetensors_writer;

/*
 * Begins a file: writes its header to "<path>.tmp". The data begins at a multiple of 64 bytes; wider types come first,
 * so that every element is aligned in the file. Tensors and texts may be released afterwards.
 */
EITP__PRIVATE eitp_status eitp__safetensors_begin(const eitp_host *host, const char *path,
                                                  const eitp__safetensors_tensor *tensors, size_t count,
                                                  const eitp__safetensors_text *metadata, size_t metadata_count,
                                                  eitp__safetensors_writer **writer, eitp_error *error);

/*
 * Writes the next `count` elements of tensors[index]: as they are, or converted from f32 to its dtype (F32, F64, F16,
 * BF16) through a small buffer. Pieces of different tensors may come in any order. Where `crc` is not NULL, *crc goes
 * on over the bytes in the file (base/checksum.h): begin with 0.
 */
EITP__PRIVATE eitp_status eitp__safetensors_write(eitp__safetensors_writer *writer, size_t index, const void *data,
                                                  int64_t count, uint32_t *crc, eitp_error *error);
EITP__PRIVATE eitp_status eitp__safetensors_write_f32(eitp__safetensors_writer *writer, size_t index, const float *data,
                                                      int64_t count, uint32_t *crc, eitp_error *error);

/*
 * Checks that every tensor is whole, syncs, renames the file to its path and syncs the directory: there is the old file
 * or the new one, never a part. The writer is released, whatever the result.
 */
EITP__PRIVATE eitp_status eitp__safetensors_finish(eitp__safetensors_writer *writer, eitp_error *error);

/* Removes what was written and releases the writer. NULL is fine. */
EITP__PRIVATE void eitp__safetensors_abandon(eitp__safetensors_writer *writer);

#endif
