/* Writes a safetensors file tensor by tensor, in pieces, without a copy of the data. */
#ifndef EITP_SAFETENSORS_WRITER_H
#define EITP_SAFETENSORS_WRITER_H

#include "base/write_behind.h"
#include "io/weight_planes.h"

/* A tensor to write. */
typedef struct eitp__safetensors_tensor {
    const char *name;
    eitp_dtype dtype; /* in the file */
    int rank;
    int64_t shape[EITP_MAX_RANK];
} eitp__safetensors_tensor;

/* A string of "__metadata__". Hugging Face's loader needs "format" to be "pt". */
typedef struct eitp__safetensors_text {
    const char *key;
    const char *value;
} eitp__safetensors_text;

typedef struct eitp__safetensors_writer eitp__safetensors_writer;

/*
 * Starts a file: writes its header. The data starts at a multiple of 64 bytes, with wider types first, so that every
 * element is aligned in the file. Tensors and strings are not used afterwards. If `queue` is NULL, the writer creates
 * its own.
 */
EITP__PRIVATE eitp_status eitp__safetensors_begin(const eitp_host *host, const char *path,
                                                  const eitp__safetensors_tensor *tensors, size_t count,
                                                  const eitp__safetensors_text *metadata, size_t metadata_count,
                                                  eitp__write_behind *queue, eitp__safetensors_writer **writer,
                                                  eitp_error *error);

/*
 * Writes the next `count` elements of tensors[index], unconverted, or converted from f32 to its dtype (F32, F64, F16,
 * BF16) through a small buffer. A finite value beyond the range of a 16-bit dtype is EITP_ERROR_ARGUMENT. Pieces of
 * different tensors may come in any order. `crc`, which may be NULL, is a running checksum of the bytes in the file
 * (base/checksum.h), initially 0.
 */
EITP__PRIVATE eitp_status eitp__safetensors_write(eitp__safetensors_writer *writer, size_t index, const void *data,
                                                  int64_t count, uint32_t *crc, eitp_error *error);
EITP__PRIVATE eitp_status eitp__safetensors_write_f32(eitp__safetensors_writer *writer, size_t index, const float *data,
                                                      int64_t count, uint32_t *crc, eitp_error *error);

/* Writes a plane of the next `count` weights, which are overwritten (io/weight_planes.h): to a tensor with the dtype of
   the lower plane, or of any floating-point dtype. */
EITP__PRIVATE eitp_status eitp__safetensors_write_plane(eitp__safetensors_writer *writer, size_t index,
                                                        eitp__plane plane, float *values, int64_t count, uint32_t *crc,
                                                        eitp_error *error);

/*
 * Checks that every tensor is complete. Without a queue of the caller, waits until the file is synced and renamed to
 * its path: the path always has the whole old file or the whole new one. `sum`, which may be NULL, receives the size
 * and checksum of the file. Releases the writer, even on failure.
 */
EITP__PRIVATE eitp_status eitp__safetensors_finish(eitp__safetensors_writer *writer, eitp__file_sum *sum,
                                                   eitp_error *error);

/* Releases the writer of an unfinished file. When its queue is destroyed, it removes the written data. NULL is
   harmless. */
EITP__PRIVATE void eitp__safetensors_abandon(eitp__safetensors_writer *writer);

#endif
