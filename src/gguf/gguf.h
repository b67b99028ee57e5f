/*
 * GGUF files, the format of llama.cpp and the programs built on it: keys with values, and tensors (ggml's
 * docs/gguf.md). This is the container alone; tokens and sizes are interpreted elsewhere.
 */
#ifndef EITP_GGUF_H
#define EITP_GGUF_H

#include "base/files.h"
#include "gguf/types.h"

/* Most bytes before the tensors' data: a vocabulary of a million tokens with merges takes half of it. */
#define EITP__GGUF_MAX_HEADER ((size_t)128 << 20)

enum { EITP__GGUF_MAX_KEYS = 65536, EITP__GGUF_MAX_RANK = 4, EITP__GGUF_MAX_FILES = 1000 };

/* The type of a value, as numbered in files. */
typedef enum eitp__gguf_kind {
    EITP__GGUF_U8,
    EITP__GGUF_I8,
    EITP__GGUF_U16,
    EITP__GGUF_I16,
    EITP__GGUF_U32,
    EITP__GGUF_I32,
    EITP__GGUF_F32,
    EITP__GGUF_BOOL,
    EITP__GGUF_STRING,
    EITP__GGUF_ARRAY,
    EITP__GGUF_U64,
    EITP__GGUF_I64,
    EITP__GGUF_F64,
    EITP__GGUF_KINDS
} eitp__gguf_kind;

/* Text in the header; not followed by a zero byte. */
typedef struct eitp__gguf_text {
    const char *data;
    size_t size;
} eitp__gguf_text;

/* A key and its value, which stays in the header. */
typedef struct eitp__gguf_value {
    eitp__gguf_text key;
    eitp__gguf_kind kind;    /* of the value, or of an array's elements; never EITP__GGUF_ARRAY */
    int is_array;            /* 0: one element */
    uint64_t count;          /* elements */
    const unsigned char *at; /* the first element */
} eitp__gguf_value;

typedef struct eitp__gguf_tensor {
    eitp__gguf_text name;
    const eitp__gguf_type *type; /* may be one that cannot be widened */
    int rank;
    int64_t shape[EITP__GGUF_MAX_RANK]; /* outermost first, as in PyTorch: the reverse of the file's order */
    int64_t count;                      /* elements */
    size_t file;                        /* index of the file */
    uint64_t offset;                    /* in the file */
    uint64_t size;                      /* bytes */
} eitp__gguf_tensor;

/* A file; a model may be split into several, "NAME-00001-of-00003.gguf" and so on. */
typedef struct eitp__gguf_file {
    char *path;
    unsigned char *header;
    size_t header_size;
    uint64_t size; /* of the file */
} eitp__gguf_file;

typedef struct eitp__gguf {
    eitp_host host;
    eitp__gguf_file *files;
    size_t file_count, file_capacity;
    eitp__gguf_value *values; /* of the first file, sorted by key */
    size_t value_count, value_capacity;
    eitp__gguf_tensor *tensors; /* of all files, in the order of their data */
    size_t tensor_count, tensor_capacity;
} eitp__gguf;

/*
 * Reads everything before the tensors' data and checks it: unique keys, sizes within the file, tensors that follow each
 * other. The first of split files opens the others. Memory grows with the size of a file, not with the counts in it.
 * Invalid files are EITP_ERROR_FORMAT; other versions, big-endian files, arrays in arrays and tensors of unknown types
 * EITP_ERROR_UNSUPPORTED. Messages name the file. Close it even after a failure.
 */
EITP__PRIVATE eitp_status eitp__gguf_open(const eitp_host *host, const char *path, eitp__gguf *gguf, eitp_error *error);

/* Releases the header. Harmless on a zeroed or closed one. */
EITP__PRIVATE void eitp__gguf_close(eitp__gguf *gguf);

/* Sets *is_gguf if a path is a regular file that starts with "GGUF". */
EITP__PRIVATE eitp_status eitp__path_is_gguf(const eitp_host *host, const char *path, int *is_gguf, eitp_error *error);

/* Return the value of a key, and the tensor of a name; NULL if the file has none. */
EITP__PRIVATE const eitp__gguf_value *eitp__gguf_find(const eitp__gguf *gguf, const char *key);
EITP__PRIVATE const eitp__gguf_tensor *eitp__gguf_find_tensor(const eitp__gguf *gguf, const char *name);

/* Reads elements [first, first + count) of a tensor whose data start at `offset` of a file, widened to f32; the type
   must have `widen`. */
EITP__PRIVATE eitp_status eitp__gguf_read_elements(eitp__file *file, const eitp__gguf_type *type, uint64_t offset,
                                                   int64_t first, int64_t count, float *values, eitp_error *error);

/* Reads a whole tensor, widened to f32. */
EITP__PRIVATE eitp_status eitp__gguf_read_f32(const eitp__gguf *gguf, const eitp__gguf_tensor *tensor, float *values,
                                              eitp_error *error);

/*
 * Read a key's value. If it is missing, *value is unchanged. Integers of any size and sign are read, and floats by
 * eitp__gguf_get_number; a value of another kind, an array, or one outside [low, high] is EITP_ERROR_FORMAT, with the
 * key's name.
 */
EITP__PRIVATE eitp_status eitp__gguf_get_integer(const eitp__gguf *gguf, const char *key, int64_t low, int64_t high,
                                                 int64_t *value, eitp_error *error);
EITP__PRIVATE eitp_status eitp__gguf_get_number(const eitp__gguf *gguf, const char *key, double low, double high,
                                                double *value, eitp_error *error);
EITP__PRIVATE eitp_status eitp__gguf_get_flag(const eitp__gguf *gguf, const char *key, int *value, eitp_error *error);
EITP__PRIVATE eitp_status eitp__gguf_get_text(const eitp__gguf *gguf, const char *key, eitp__gguf_text *value,
                                              eitp_error *error);

/* Reads a key whose value must be an array of strings, or of numbers if `is_text` is 0; *value is NULL if it is
   missing. */
EITP__PRIVATE eitp_status eitp__gguf_get_array(const eitp__gguf *gguf, const char *key, int is_text,
                                               const eitp__gguf_value **value, eitp_error *error);

/* Returns the bytes of a number or flag. */
EITP__PRIVATE size_t eitp__gguf_kind_size(eitp__gguf_kind kind);

/* Return element `index` of an array of numbers or flags. Integers above INT64_MAX become INT64_MAX. */
EITP__PRIVATE double eitp__gguf_number_at(const eitp__gguf_value *value, uint64_t index);
EITP__PRIVATE int64_t eitp__gguf_integer_at(const eitp__gguf_value *value, uint64_t index);

/* Returns the string at *at and moves *at to the next one. Start with value->at. */
EITP__PRIVATE eitp__gguf_text eitp__gguf_next_text(const unsigned char **at);

/* Compare by bytes. */
EITP__PRIVATE int eitp__gguf_text_is(eitp__gguf_text text, const char *other);
EITP__PRIVATE int eitp__gguf_compare_texts(eitp__gguf_text a, eitp__gguf_text b);

#endif
