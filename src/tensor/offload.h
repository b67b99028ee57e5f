/* The file of offloaded variables. */
#ifndef EITP_OFFLOAD_H
#define EITP_OFFLOAD_H

#include "base/files.h"
#include "backends/backend.h"
#include "tensor/tensor.h"

/* Smaller variables stay in memory: transferring them costs more than it saves. */
#define EITP__OFFLOADED_BYTES ((size_t)32 << 10)

/* Assumed transfer rates in bytes per second: a modest solid-state disk. */
#define EITP__OFFLOAD_READ_RATE 1e9
#define EITP__OFFLOAD_WRITE_RATE 5e8

typedef struct eitp__offload_file {
    eitp_host host;
    eitp__file file;
    uint64_t size;  /* bytes of the file in use */
    int is_removed; /* the file has no name any more */
} eitp__offload_file;

/* Creates the file, empty. An existing file of that name is replaced. */
EITP__PRIVATE eitp_status eitp__offload_open(eitp__offload_file *offload, const eitp_host *host, const char *path,
                                             eitp_error *error);

/* Closes and removes the file. Does nothing on a zeroed structure. */
EITP__PRIVATE void eitp__offload_close(eitp__offload_file *offload);

/* EITP_ERROR_IO if the disk has no room for `bytes` more, or the limit of file sizes is too low. */
EITP__PRIVATE eitp_status eitp__offload_check_space(const eitp__offload_file *offload, uint64_t bytes,
                                                    eitp_error *error);

/* The file as the storage of programs. */
EITP__PRIVATE eitp__storage eitp__offload_storage(eitp__offload_file *offload);

/*
 * Reserves `size` bytes of the file and writes zeros there, so that a full disk is noticed at this point rather than in
 * the middle of a run.
 */
EITP__PRIVATE eitp_status eitp__offload_reserve(eitp__offload_file *offload, size_t size, uint64_t *offset,
                                                eitp_error *error);

#endif
