/* The headers of sample files; docs/sample-file.md describes them. */
#ifndef EITP_SAMPLE_HEADER_H
#define EITP_SAMPLE_HEADER_H

#include "base/platform.h"
#include "data/sample_file.h"

/* Bytes of a header, of the part that identifies its kind, of a sample in the index, and of a value. */
enum {
    EITP__SAMPLE_HEADER_SIZE = 256,
    EITP__SAMPLE_MAGIC_SIZE = 8,
    EITP__SAMPLE_RECORD_SIZE = 40,
    EITP__SAMPLE_VALUE_SIZE = 4
};

/* Limit of sample numbers, so that products of two counts fit in 64 bits. */
#define EITP__MAX_SAMPLES ((uint64_t)INT32_MAX)

/* The contents of the header, and the offsets of the sections. */
typedef struct eitp__sample_layout {
    eitp_sample_file_info info;
    uint64_t value_count;  /* labels of all samples, or numbers to predict */
    uint64_t weight_count; /* 0: all weights are 1 */
    uint64_t names_size;   /* bytes of the label names */
    uint64_t ids, records, values, weights, names;
} eitp__sample_layout;

/* True if a file that starts with these bytes is a sample file, complete or not. */
EITP__PRIVATE int eitp__sample_kind_of(const unsigned char *bytes, size_t size, eitp_sample_file_kind *kind);

/* Writes the magic with version 0, which marks an incomplete file. Not for LLMC. */
EITP__PRIVATE void eitp__sample_header_unfinished(unsigned char bytes[EITP__SAMPLE_HEADER_SIZE],
                                                  eitp_sample_file_kind kind);

/* Writes the header of a file of layout->info.kind, which must not be LLMC. */
EITP__PRIVATE void eitp__sample_header_write(unsigned char bytes[EITP__SAMPLE_HEADER_SIZE],
                                             const eitp__sample_layout *layout);

/* Reads and checks the header of a file: the first `size` <= EITP__SAMPLE_HEADER_SIZE bytes of `file_size`. Messages do
   not name the file. */
EITP__PRIVATE eitp_status eitp__sample_header_read(const unsigned char *bytes, size_t size, uint64_t file_size,
                                                   eitp__sample_layout *layout, eitp_error *error);

/* Returns the number of weights in a file that has any: one for each value with EITP_PROBLEM_TOKENS, otherwise one for
   each sample. */
EITP__PRIVATE uint64_t eitp__sample_weight_count(const eitp__sample_layout *layout);

/* Sets the offsets of the sections from kind and counts, which must be valid, and returns the file's size. */
EITP__PRIVATE uint64_t eitp__sample_layout_place(eitp__sample_layout *layout);

/* Extends the content hash of a token file: 64-bit FNV-1a over ids instead of bytes, from EITP__FNV_START. */
EITP__PRIVATE uint64_t eitp__token_hash(uint64_t hash, const int32_t *ids, size_t count);

#endif
