/* Reads one file, or the program's input, as pieces of valid UTF-8. */
#ifndef EITP_TEXT_READER_H
#define EITP_TEXT_READER_H

#include "base/encoding.h"
#include "base/files.h"
#include "data/data.h"
#include "data/utf8_repair.h"

/* Settings for reading text. */
typedef struct eitp__text_options {
    const char *encoding;          /* NULL: UTF-8 */
    int strict;                    /* invalid bytes are an error, not U+FFFD */
    size_t read_size;              /* bytes read at a time */
    const eitp_text_source *input; /* the source for the path "-"; NULL: none */
} eitp__text_options;

/* An open text file or input. A zeroed struct is closed. Do not move it while it is open. */
typedef struct eitp__text_reader {
    const eitp_host *host;
    const char *path;
    eitp__text_options how;
    eitp__file file; /* closed if the source is the input */
    int is_input, is_utf8;
    int is_exhausted, has_ended; /* everything was read; everything was returned */
    char *raw;                   /* bytes read and not yet returned: [at, end) */
    size_t raw_capacity, at, end;
    eitp__decoder decoder;
    eitp__utf8_repair repair;
    eitp__buffer piece;
    uint64_t file_bytes; /* read from the file */
    uint64_t used_bytes; /* of these, returned */
} eitp__text_reader;

/* Opens a file or the input and reads its start, raw[0 .. end): EITP__TEXT_CHECK_SIZE bytes, or all if there are fewer.
   `host`, `path` and the pointers in `how` must outlive the reader. After a failure it is closed. */
EITP__PRIVATE eitp_status eitp__text_reader_open(eitp__text_reader *reader, const eitp_host *host, const char *path,
                                                 const eitp__text_options *how, eitp_error *error);

/* Refuses input that is not text, see eitp__check_text. Call it before the first piece is read. */
EITP__PRIVATE eitp_status eitp__text_reader_check(const eitp__text_reader *reader, eitp_error *error);

/* Returns the start of the text in UTF-8, as far as eitp__text_reader_open has read it, without a byte order mark. It
   is stored in the reader, or in `decoded`. Call it before the first piece is read. */
EITP__PRIVATE eitp_status eitp__text_reader_peek(const eitp__text_reader *reader, eitp__buffer *decoded,
                                                 eitp_text *beginning, eitp_error *error);

/* Reads the next piece, valid until the next call and without a byte order mark. *size is 0 at the end; invalid bytes
   are then logged. */
EITP__PRIVATE eitp_status eitp__text_reader_next(eitp__text_reader *reader, const char **text, size_t *size,
                                                 eitp_error *error);

/* Returns the number of invalid bytes that became U+FFFD so far. */
EITP__PRIVATE uint64_t eitp__text_reader_invalid(const eitp__text_reader *reader);

/* Returns the UTF-8 size so far, before invalid bytes are replaced. */
EITP__PRIVATE uint64_t eitp__text_reader_bytes(const eitp__text_reader *reader);

EITP__PRIVATE void eitp__text_reader_close(eitp__text_reader *reader);

#endif
