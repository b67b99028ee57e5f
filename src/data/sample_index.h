/* Reads the index, values, label names and samples of an open labelled file. */
#ifndef EITP_SAMPLE_INDEX_H
#define EITP_SAMPLE_INDEX_H

#include "data/sample_bytes.h"
#include "data/sample_record.h"

enum { EITP__SAMPLE_CHUNK = 8000 }; /* whole records and values */

/* A part of the index, read in one piece. */
typedef struct eitp__index_reader {
    const eitp_sample_file *file;
    uint64_t first, count;
    unsigned char bytes[EITP__SAMPLE_CHUNK];
} eitp__index_reader;

EITP__PRIVATE void eitp__index_reader_init(eitp__index_reader *reader, const eitp_sample_file *file);

/* Reads the record of a sample of the file. Fast in ascending order. */
EITP__PRIVATE eitp_status eitp__index_reader_record(eitp__index_reader *reader, uint64_t number,
                                                    eitp__sample_record *record, eitp_error *error);

/* Reads values [first, first + count) of the file and checks them. At most EITP__SAMPLE_CHUNK / 4. */
EITP__PRIVATE eitp_status eitp__sample_read_values(const eitp_sample_file *file, uint64_t first, size_t count,
                                                   uint32_t *values, eitp_error *error);

/* Checks index and values, and with `reads_ids` also ids, and sets *hash to the content hash of the file. */
EITP__PRIVATE eitp_status eitp__sample_index_hash(const eitp_sample_file *file, int reads_ids, uint64_t *hash,
                                                  eitp_error *error);

/* Reads the label names into file->labels. */
EITP__PRIVATE eitp_status eitp__sample_read_names(eitp_sample_file *file, eitp_error *error);

/* Reads sample `number`, which must be in range. */
EITP__PRIVATE eitp_status eitp__sample_read(const eitp_sample_file *file, uint64_t number, eitp_labelled_sample *sample,
                                            eitp_error *error);

#endif
