/* Storage of offloaded variables: a file, or host memory if the device has separate memory. */
#ifndef EITP_OFFLOAD_H
#define EITP_OFFLOAD_H

#include "base/files.h"
#include "tensor/segments.h"
#include "tensor/tensor.h"

/* Smaller variables stay in memory: transferring them costs more than it saves. */
#define EITP__OFFLOADED_BYTES ((size_t)32 << 10)

/* Assumed transfer rates in bytes per second: a modest solid-state disk, and 16 lanes of PCI Express 3. */
#define EITP__OFFLOAD_FILE_READ_RATE 1e9
#define EITP__OFFLOAD_FILE_WRITE_RATE 5e8
#define EITP__OFFLOAD_MEMORY_RATE 1.2e10

typedef struct eitp__offload_store {
    eitp_host host;
    eitp__backend *backend; /* backend whose host memory holds the variables; NULL: they are in the file */
    eitp__segment *blocks;  /* consecutive blocks of that memory; no variable crosses a block */
    size_t block_count, block_capacity;
    eitp__file file;
    uint64_t size;  /* bytes in use, of the file or the blocks */
    int is_removed; /* the file no longer has a name */
} eitp__offload_store;

/* Creates the file. Replaces a file left by another store, and fails if the path contains anything else. */
EITP__PRIVATE eitp_status eitp__offload_open_file(eitp__offload_store *store, const eitp_host *host, const char *path,
                                                  eitp_error *error);

/* Starts without memory. The backend must outlive the store. */
EITP__PRIVATE void eitp__offload_open_memory(eitp__offload_store *store, eitp__backend *backend);

/* Closes and removes the file, or releases the memory. Does nothing on a zeroed structure. */
EITP__PRIVATE void eitp__offload_close(eitp__offload_store *store);

/* Returns the bytes occupied by a variable of `size` bytes. */
EITP__PRIVATE uint64_t eitp__offload_room(size_t size);

/* Makes room for variables of `bytes` in total. EITP_ERROR_IO if the disk is too full or the file size limit too low;
   EITP_ERROR_MEMORY if the host has too little memory. */
EITP__PRIVATE eitp_status eitp__offload_extend(eitp__offload_store *store, uint64_t bytes, eitp_error *error);

/* Reserves `size` bytes of that room, zeroed. Zeros are written to a file, so that a full disk is detected here rather
   than in the middle of a run. */
EITP__PRIVATE eitp_status eitp__offload_reserve(eitp__offload_store *store, size_t size, uint64_t *offset,
                                                eitp_error *error);

/* Returns the store for programs, and for copies of single variables. */
EITP__PRIVATE eitp__storage eitp__offload_storage(eitp__offload_store *store);

/* Returns the seconds for transferring these numbers of bytes, at the assumed rates. */
EITP__PRIVATE double eitp__offload_seconds(const eitp_context *context, double reads, double writes);

#endif
