/* Where offloaded variables are: in a file, or in the host's memory if the device has its own. */
#ifndef EITP_OFFLOAD_H
#define EITP_OFFLOAD_H

#include "base/files.h"
#include "tensor/segments.h"
#include "tensor/tensor.h"

/* Smaller variables stay in memory: transferring them costs more than it saves. */
#define EITP__OFFLOADED_BYTES ((size_t)32 << 10)

/* Assumed transfer rates in bytes per second: of a modest solid-state disk, and of 16 lanes of PCI Express 3. */
#define EITP__OFFLOAD_FILE_READ_RATE 1e9
#define EITP__OFFLOAD_FILE_WRITE_RATE 5e8
#define EITP__OFFLOAD_MEMORY_RATE 1.2e10

typedef struct eitp__offload_store {
    eitp_host host;
    eitp__backend *backend; /* whose host memory has the variables; NULL: they are in the file */
    eitp__segment *blocks;  /* of that memory, one after the other; a variable is within one */
    size_t block_count, block_capacity;
    eitp__file file;
    uint64_t size;  /* bytes of the file or the blocks in use */
    int is_removed; /* the file has no name any more */
} eitp__offload_store;

/* Creates the file. Replaces a file that a store has left, and fails if the path has anything else. */
EITP__PRIVATE eitp_status eitp__offload_open_file(eitp__offload_store *store, const eitp_host *host, const char *path,
                                                  eitp_error *error);

/* Begins with no memory. The backend must outlast the store. */
EITP__PRIVATE void eitp__offload_open_memory(eitp__offload_store *store, eitp__backend *backend);

/* Closes and removes the file, or releases the memory. Does nothing on a zeroed structure. */
EITP__PRIVATE void eitp__offload_close(eitp__offload_store *store);

/* The bytes that a variable of `size` bytes takes. */
EITP__PRIVATE uint64_t eitp__offload_room(size_t size);

/*
 * Makes room for variables of `bytes` in all. EITP_ERROR_IO if the disk has no such room, or the limit of file sizes is
 * too low; EITP_ERROR_MEMORY if the host has not so much memory.
 */
EITP__PRIVATE eitp_status eitp__offload_extend(eitp__offload_store *store, uint64_t bytes, eitp_error *error);

/*
 * Takes `size` bytes of that room, zeroed. Zeros are written to a file, so that a full disk is noticed at this point
 * rather than in the middle of a run.
 */
EITP__PRIVATE eitp_status eitp__offload_reserve(eitp__offload_store *store, size_t size, uint64_t *offset,
                                                eitp_error *error);

/* The store for programs, and for copies of single variables. */
EITP__PRIVATE eitp__storage eitp__offload_storage(eitp__offload_store *store);

/* The seconds that transfers of so many bytes take, at the assumed rates. */
EITP__PRIVATE double eitp__offload_seconds(const eitp_context *context, double reads, double writes);

#endif
