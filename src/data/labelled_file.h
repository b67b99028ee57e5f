/* What reads an open labelled file: parts and splits go through its index. */
#ifndef EITP_LABELLED_FILE_H
#define EITP_LABELLED_FILE_H

#include "base/files.h"
#include "data/labelled_format.h"
#include "tensor/context.h"

struct eitp_labelled_file {
    eitp_host host;
    eitp__file file;
    eitp__labelled_layout layout;
    uint32_t limit;      /* ids must be below it */
    const char **labels; /* label_count names, which are in `names`; NULL: none */
    char *names;
    eitp__file_stamp stamp; /* of the file when its content was last known */
    eitp__poll poll;        /* see eitp_token_file_set_poll */
};

enum { EITP__LABELLED_CHUNK = 8000 }; /* whole records and values */

/* Part of the index, read at once. */
typedef struct eitp__labelled_window {
    const eitp_labelled_file *file;
    uint64_t first, count;
    unsigned char bytes[EITP__LABELLED_CHUNK];
} eitp__labelled_window;

EITP__PRIVATE void eitp__labelled_window_init(eitp__labelled_window *window, const eitp_labelled_file *file);

/* Reads the record of a sample of the file. Fast in ascending order. */
EITP__PRIVATE eitp_status eitp__labelled_window_record(eitp__labelled_window *window, uint64_t number,
                                                       eitp__labelled_record *record, eitp_error *error);

/* Reads `size` bytes; a shorter file is EITP_ERROR_IO, since its size was checked when it was opened. */
EITP__PRIVATE eitp_status eitp__labelled_read_bytes(const eitp_labelled_file *file, uint64_t offset, void *bytes,
                                                    size_t size, eitp_error *error);

/* Reads values [first, first + count) of the file and checks them. At most EITP__LABELLED_CHUNK / 4. */
EITP__PRIVATE eitp_status eitp__labelled_read_values(const eitp_labelled_file *file, uint64_t first, size_t count,
                                                     uint32_t *values, eitp_error *error);

#endif
