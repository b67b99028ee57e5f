/* The bytes of a labelled file; docs/labelled-file.md describes them. */
#ifndef EITP_LABELLED_FORMAT_H
#define EITP_LABELLED_FORMAT_H

#include "base/platform.h"
#include "data/labelled.h"

enum { EITP__LABELLED_HEADER_SIZE = 256, EITP__LABELLED_RECORD_SIZE = 40, EITP__LABELLED_VALUE_SIZE = 4 };

/* The value of a token without a label. */
#define EITP__NO_LABEL UINT32_MAX

/* Samples have numbers below this, so that products of two counts fit 64 bits. */
#define EITP__MAX_SAMPLES ((uint64_t)INT32_MAX)

/* What the header says, and where the sections begin that follow the ids. */
typedef struct eitp__labelled_layout {
    eitp_labelled_info info;
    uint64_t value_count; /* labels of all samples, or numbers to predict */
    uint64_t names_size;  /* bytes of the names of labels */
    uint64_t records, values, names;
} eitp__labelled_layout;

/* A sample in the index. */
typedef struct eitp__labelled_record {
    uint64_t first;       /* position of its first id among all ids */
    uint64_t first_value; /* position of its first value among all values */
    uint64_t text_hash;   /* of its texts, before they were cut */
    uint32_t length;      /* number of ids */
    uint32_t boundary;    /* ids from here on are of segment 1; length: none is */
    uint32_t value_count;
    uint32_t crc; /* CRC32C of its ids, as stored */
} eitp__labelled_record;

/* The magic with version 0, which marks a file that is not complete. */
EITP__PRIVATE void eitp__labelled_header_unfinished(unsigned char bytes[EITP__LABELLED_HEADER_SIZE]);
EITP__PRIVATE void eitp__labelled_header_write(unsigned char bytes[EITP__LABELLED_HEADER_SIZE],
                                               const eitp__labelled_layout *layout);

/* Reads and checks the header of a file: its first `size` <= EITP__LABELLED_HEADER_SIZE bytes of `file_size` bytes.
   Messages do not name the file. */
EITP__PRIVATE eitp_status eitp__labelled_header_read(const unsigned char *bytes, size_t size, uint64_t file_size,
                                                     eitp__labelled_layout *layout, eitp_error *error);

/* Sets the beginnings of the sections from the counts, which must be those of a file, and returns its size. */
EITP__PRIVATE uint64_t eitp__labelled_place(eitp__labelled_layout *layout);

EITP__PRIVATE void eitp__labelled_record_write(unsigned char bytes[EITP__LABELLED_RECORD_SIZE],
                                               const eitp__labelled_record *record);
EITP__PRIVATE eitp__labelled_record eitp__labelled_record_read(const unsigned char bytes[EITP__LABELLED_RECORD_SIZE]);

/* True if ids and values of a record are within the file, and as many as its problem has. */
EITP__PRIVATE int eitp__labelled_record_fits(const eitp__labelled_record *record, const eitp__labelled_layout *layout);

/* True if a stored value is one that samples of the file can have: the number of a label, of a token also
   EITP__NO_LABEL, or the bits of a finite float. */
EITP__PRIVATE int eitp__labelled_value_fits(uint32_t value, const eitp_labelled_info *info);

#endif
