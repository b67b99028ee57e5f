/* A sample in the index of a labelled file, and its values. */
#ifndef EITP_SAMPLE_RECORD_H
#define EITP_SAMPLE_RECORD_H

#include "data/sample_header.h"

/* The value of a token without a label. */
#define EITP__NO_LABEL UINT32_MAX

typedef struct eitp__sample_record {
    uint64_t first;       /* position of its first id among all ids */
    uint64_t first_value; /* position of its first value among all values */
    uint64_t text_hash;   /* of its text, before truncation */
    uint32_t length;      /* number of ids */
    uint32_t boundary;    /* ids from here on are in segment 1; length: none are */
    uint32_t value_count;
    uint32_t crc; /* CRC32C of its ids, as stored */
} eitp__sample_record;

EITP__PRIVATE void eitp__sample_record_write(unsigned char bytes[EITP__SAMPLE_RECORD_SIZE],
                                             const eitp__sample_record *record);
EITP__PRIVATE eitp__sample_record eitp__sample_record_read(const unsigned char bytes[EITP__SAMPLE_RECORD_SIZE]);

/* True if ids and values of a record are within the file, and their numbers match the problem. */
EITP__PRIVATE int eitp__sample_record_fits(const eitp__sample_record *record, const eitp__sample_layout *layout);

/* Adds a record to token_count, max_length, max_first and max_second of *info, whose second_vocabulary is set. */
EITP__PRIVATE void eitp__sample_record_count(const eitp__sample_record *record, eitp_sample_file_info *info);

/* True if a stored value is valid for samples of the file: a label number (for tokens also EITP__NO_LABEL), or the bits
   of a finite float. */
EITP__PRIVATE int eitp__sample_value_fits(uint32_t value, const eitp_sample_file_info *info);

#endif
