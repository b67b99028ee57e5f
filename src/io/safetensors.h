/* Reading safetensors: one file, or the files named by a model.safetensors.index.json, as one collection of tensors.
   PyTorch files (io/pytorch.h) are also read as such collections. */
#ifndef EITP_SAFETENSORS_H
#define EITP_SAFETENSORS_H

#include "base/checksum.h"
#include "base/files.h"

/* Maximum size of a header; the reference implementation has the same limit. */
#define EITP__SAFETENSORS_MAX_HEADER ((uint64_t)100000000)

typedef struct eitp__safetensors_entry eitp__safetensors_entry;
struct eitp__safetensors_entry {
    const char *name;    /* UTF-8 */
    char type[16];       /* as in the file: "F32", "BF16", "F8_E4M3", ... */
    int dtype;           /* the eitp_dtype, or -1 for a type without one (BOOL, U16, F8_E4M3, ...) */
    size_t element_size; /* bytes; 0 if elements cannot be read (unknown types, fractions of a byte) */
    int rank;            /* at most EITP_MAX_RANK */
    int64_t shape[EITP_MAX_RANK];
    int64_t count;     /* elements */
    uint64_t size;     /* bytes in the file */
    uint64_t offset;   /* of its data in the file */
    int is_transposed; /* a matrix stored column by column in the file; 0 in safetensors */
    /* Number of heads whose rows are stored by rotary pair, (0, d/2), (1, d/2 + 1), ... with d rows in a head; 0: rows
       are in order, as in safetensors. */
    int64_t paired_heads;
    /* Reads elements [first, first + count), in the file's order, as f32: the tensor is stored in blocks, and `dtype`
       is F32. NULL: as `dtype`. */
    eitp_status (*read_blocks)(eitp__file *file, const eitp__safetensors_entry *entry, int64_t first, int64_t count,
                               float *values, eitp_error *error);
    const void *block_type; /* for read_blocks */
    float added;            /* for read_blocks: the file has each value plus this */
    size_t part;            /* index of the file */
};

typedef struct eitp__safetensors eitp__safetensors;
typedef struct eitp__safetensors_part eitp__safetensors_part;

/* A file format: reads the tensor entries of an opened file, and adds them, sorted by name. Messages name the file. */
typedef eitp_status (*eitp__tensor_format)(eitp__safetensors *collection, eitp__safetensors_part *part,
                                           eitp_error *error);

/*
 * Opens a file and checks its whole header: dtypes and shapes match the sizes, the tensors cover the data exactly,
 * without gap or overlap, and names are unique. Invalid files are EITP_ERROR_FORMAT; more dimensions than EITP_MAX_RANK
 * EITP_ERROR_UNSUPPORTED. Needs memory of a small multiple of the header's size.
 */
EITP__PRIVATE eitp_status eitp__safetensors_open(const eitp_host *host, const char *path,
                                                 eitp__safetensors **collection, eitp_error *error);

/*
 * Opens the index of a model in several files, and these files, which are in the same directory. The collection has the
 * tensors of the index's weight_map; each must be in the file listed there.
 */
EITP__PRIVATE eitp_status eitp__safetensors_open_index(const eitp_host *host, const char *path,
                                                       eitp__safetensors **collection, eitp_error *error);

/* Like eitp__safetensors_open_index, for files of another format. */
EITP__PRIVATE eitp_status eitp__safetensors_open_as(const eitp_host *host, const char *path, eitp__tensor_format format,
                                                    eitp__safetensors **collection, eitp_error *error);
EITP__PRIVATE eitp_status eitp__safetensors_open_index_as(const eitp_host *host, const char *path,
                                                          eitp__tensor_format format, eitp__safetensors **collection,
                                                          eitp_error *error);

/* Creates an empty collection for files of a format. */
EITP__PRIVATE eitp_status eitp__safetensors_create(const eitp_host *host, eitp__tensor_format format,
                                                   eitp__safetensors **collection, eitp_error *error);

/* Adds a file and its entries, sorted by name. They belong to the collection even after a failure. */
EITP__PRIVATE eitp_status eitp__safetensors_add(eitp__safetensors *collection, const char *path, eitp_error *error);

/*
 * Opens the file with the lower planes of a collection's 16-bit tensors (io/weight_planes.h), which
 * eitp__safetensors_read_f32 uses from then on to restore exact values. Other tensors in the file, and lower planes of
 * other weights, are ignored; a lower plane whose dtype or size does not match its upper plane is EITP_ERROR_FORMAT.
 */
EITP__PRIVATE eitp_status eitp__safetensors_attach(eitp__safetensors *collection, const char *path, eitp_error *error);

/* Returns the lower plane of an entry; NULL: the entry has its exact values. */
EITP__PRIVATE const eitp__safetensors_entry *eitp__safetensors_lower(const eitp__safetensors *collection,
                                                                     const eitp__safetensors_entry *entry);

/* Closes the files and frees the entries and their names. NULL is harmless. */
EITP__PRIVATE void eitp__safetensors_close(eitp__safetensors *collection);

/* Access the entries, sorted by the bytes of their names. `at` and `find` return NULL if there is no such entry. */
EITP__PRIVATE size_t eitp__safetensors_count(const eitp__safetensors *collection);
EITP__PRIVATE const eitp__safetensors_entry *eitp__safetensors_at(const eitp__safetensors *collection, size_t index);
EITP__PRIVATE const eitp__safetensors_entry *eitp__safetensors_find(const eitp__safetensors *collection,
                                                                    const char *name);

/* Returns the path of the file that an entry is in. */
EITP__PRIVATE const char *eitp__safetensors_path(const eitp__safetensors *collection,
                                                 const eitp__safetensors_entry *entry);

/* Returns a string of "__metadata__" in the first file that has it; NULL if none has. */
EITP__PRIVATE const char *eitp__safetensors_metadata(const eitp__safetensors *collection, const char *key);

/*
 * Reads elements [first, first + count) of an entry, unconverted, or converted from F16, BF16 or F64 to f32 through a
 * small buffer, with their lower plane if one is attached. `crc`, which may be NULL, is a running checksum of the bytes
 * in the file (base/checksum.h), initially 0; it must be NULL if the entry's elements are stored in another form.
 */
EITP__PRIVATE eitp_status eitp__safetensors_read(const eitp__safetensors *collection,
                                                 const eitp__safetensors_entry *entry, int64_t first, int64_t count,
                                                 void *destination, uint32_t *crc, eitp_error *error);
EITP__PRIVATE eitp_status eitp__safetensors_read_f32(const eitp__safetensors *collection,
                                                     const eitp__safetensors_entry *entry, int64_t first, int64_t count,
                                                     float *destination, uint32_t *crc, eitp_error *error);

/* Adds the checksum of all bytes of a tensor to its file's checksum. */
EITP__PRIVATE void eitp__safetensors_add_sum(const eitp__safetensors *collection, const eitp__safetensors_entry *entry,
                                             uint32_t crc);

/* Returns the size and checksum of a collection's only file, once all of its tensors were added. */
EITP__PRIVATE eitp__file_sum eitp__safetensors_sum(const eitp__safetensors *collection);

/* Returns the format's name of a dtype, such as "F32"; NULL if it is invalid. */
EITP__PRIVATE const char *eitp__safetensors_type(eitp_dtype dtype);

#endif
