/* Reads the documents of a text file with separator lines, in pieces. */
#ifndef EITP_DOCUMENTS_H
#define EITP_DOCUMENTS_H

#include "data/text_reader.h"

/* A zeroed struct has no separator. */
typedef struct eitp__documents {
    eitp__text_reader *reader;
    const char *separator; /* a line that is exactly this ends a document; NULL: the file is one document */
    const char *text;      /* the rest of the reader's piece */
    size_t left;
    eitp__buffer held; /* the start of a line that may be a separator */
    int is_within;     /* inside a line whose start has been returned */
    int has_ended;     /* the input has ended */
} eitp__documents;

/* Initializes `documents` for an open reader, which the caller closes. `separator` must outlive `documents`. */
EITP__PRIVATE void eitp__documents_init(eitp__documents *documents, eitp__text_reader *reader, const char *separator);
EITP__PRIVATE void eitp__documents_release(eitp__documents *documents);

/* Reads the next piece of the document, valid until the next call. *size is 0 at its end, after which the next document
   starts, unless the input has ended. */
EITP__PRIVATE eitp_status eitp__documents_piece(eitp__documents *documents, const char **text, size_t *size,
                                                eitp_error *error);

#endif
