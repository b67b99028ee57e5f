/* The headers of files of samples; docs/sample-file.md describes them. */
#ifndef EITP_SAMPLE_HEADER_H
#define EITP_SAMPLE_HEADER_H

#include "base/platform.h"
#include "data/sample_file.h"

/* Bytes of a header, of the part of it by which its kind is recognised, of a sample in the index, and of a value. */
enum {
    EITP__SAMPLE_HEADER_SIZE = 256,
    EITP__SAMPLE_MAGIC_SIZE = 8,
    EITP__SAMPLE_RECORD_SIZE = 40,
    EITP__SAMPLE_VALUE_SIZE = 4
};

/* Samples have numbers below this, so that products of two counts fit 64 bits. */
#define EITP__MAX_SAMPLES ((uint64_t)INT32_MAX)

/* What the header says, and where the sections begin. */
typedef struct eitp__sample_layout {
    eitp_sample_file_info info;
    uint64_t value_count;  /* labels of all samples, or numbers to predict */
    uint64_t weight_count; /* 0: all weights are 1 */
    uint64_t names_size;   /* bytes of the names of labels */
    uint64_t ids, records, values, weights, names;
} eitp__sample_layout;

/* True if a file that begins with these bytes is one of samples, whole or not. */
EITP__PRIVATE int eitp__sample_kind_of(const unsigned char *bytes, size_t size, eitp_sample_file_kind *kind);

/* The magic with version 0, which marks a file that is not complete. Not for LLMC. */
EITP__PRIVATE void eitp__sample_header_unfinished(unsigned char bytes[EITP__SAMPLE_HEADER_SIZE],
                                                  eitp_sample_file_kind kind);

/* Writes the header of a file of layout->info.kind, which is not LLMC. */
EITP__PRIVATE void eitp__sample_header_write(unsigned char bytes[EITP__SAMPLE_HEADER_SIZE],
                                             const eitp__sample_layout *layout);

/* Reads and checks the header of a file: its first `size` <= EITP__SAMPLE_HEADER_SIZE bytes of `file_size` bytes.
   Messages do not name the file. */
EITP__PRIVATE eitp_status eitp__sample_header_read(const unsigned char *bytes, size_t size, uint64_t file_size,
                                                   eitp__sample_layout *layout, eitp_error *error);

/* The weights of a file that has any: of each value with EITP_PROBLEM_TOKENS, else of each sample. */
EITP__PRIVATE uint64_t eitp__sample_weight_count(const eitp__sample_layout *layout);

/* Sets the beginnings of the sections from kind and counts, which must be those of a file, and returns its size. */
EITP__PRIVATE uint64_t eitp__sample_layout_place(eitp__sample_layout *layout);

/* Extends the content hash of a token file: 64-bit FNV-1a over ids instead of bytes, from EITP__FNV_START. */
EITP__PRIVATE uint64_t eitp__token_hash(uint64_t hash, const int32_t *ids, size_t count);

#endif
