/* Reading safetensors: one file, or the files that a model.safetensors.index.json names, as one collection of
   tensors. */
#ifndef EITP_SAFETENSORS_H
#define EITP_SAFETENSORS_H

#include "base/files.h"

/* The largest header that the format's own library takes. */
#define EITP__SAFETENSORS_LARGEST_HEADER ((uint64_t)100000000)

typedef struct eitp__safetensors_entry {
    const char *name;    /* UTF-8 */
    char type[16];       /* as the file says it: "F32", "BF16", "F8_E4M3", ... */
    int dtype;           /* the eitp_dtype, or -1 where there is none (BOOL, I16, U16, F8_E4M3, ...) */
    size_t element_size; /* bytes; 0 where elements cannot be read (unknown types, parts of a byte) */
    int rank;            /* at most EITP_MAX_RANK */
    int64_t shape[EITP_MAX_RANK];
    int64_t count;   /* elements */
    uint64_t size;   /* bytes in the file */
    uint64_t offset; /* where they begin in the file */
    size_t part;     /* which file, from 0 */
} eitp__safetensors_entry;

typedef struct eitp__safetensors eitp__safetensors;

/*
 * Opens a file and checks all of its header: types and shapes fit the sizes, the tensors cover the data exactly,
 * without gap or overlap, no name comes twice. What is wrong is EITP_ERROR_FORMAT; more dimensions than EITP_MAX_RANK
 * EITP_ERROR_UNSUPPORTED. The memory taken is a small multiple of the header's bytes in the file.
 */
EITP__PRIVATE eitp_status eitp__safetensors_open(const eitp_host *host, const char *path,
                                                 eitp__safetensors **collection, eitp_error *error);

/*
 * Opens the index of a model in several files, and these files, which are in the same directory. The collection has the
 * tensors of the index's weight_map; each must be in the file that it names.
 */
EITP__PRIVATE eitp_status eitp__safetensors_open_index(const eitp_host *host, const char *path,
                                                       eitp__safetensors **collection, eitp_error *error);

/* Closes the files; entries and their names are gone. NULL is fine. */
EITP__PRIVATE void eitp__safetensors_close(eitp__safetensors *collection);

/* Entries in the order of their names' bytes. */
EITP__PRIVATE size_t eitp__safetensors_count(const eitp__safetensors *collection);
EITP__PRIVATE const eitp__safetensors_entry *eitp__safetensors_at(const eitp__safetensors *collection, size_t index);
EITP__PRIVATE const eitp__safetensors_entry *eitp__safetensors_find(const eitp__safetensors *collection,
                                                                    const char *name);

/* The file that an entry is in. */
EITP__PRIVATE const char *eitp__safetensors_path(const eitp__safetensors *collection,
                                                 const eitp__safetensors_entry *entry);

/* A text of "__metadata__", of the first file that has it; NULL where none has. */
EITP__PRIVATE const char *eitp__safetensors_metadata(const eitp__safetensors *collection, const char *key);

/*
 * Reads elements [first, first + count) of an entry: as they are, or converted from F16, BF16 or F64 into f32 through
 * a small buffer. Where `crc` is not NULL, *crc goes on over the bytes in the file (base/checksum.h): begin with 0.
 */
EITP__PRIVATE eitp_status eitp__safetensors_read(const eitp__safetensors *collection,
                                                 const eitp__safetensors_entry *entry, int64_t first, int64_t count,
                                                 void *destination, uint32_t *crc, eitp_error *error);
EITP__PRIVATE eitp_status eitp__safetensors_read_f32(const eitp__safetensors *collection,
                                                     const eitp__safetensors_entry *entry, int64_t first, int64_t count,
                                                     float *destination, uint32_t *crc, eitp_error *error);

/* The format's name for a dtype: "F32", ...; NULL for a value that is no dtype. */
EITP__PRIVATE const char *eitp__safetensors_type(eitp_dtype dtype);

#endif
