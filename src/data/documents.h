/* Reads the documents of a text that lines separate, piece by piece. */
#ifndef EITP_DOCUMENTS_H
#define EITP_DOCUMENTS_H

#include "data/text_reader.h"

/* Zeroed, it has no separator. */
typedef struct eitp__documents {
    eitp__text_reader *reader;
    const char *separator; /* a line that is exactly this ends a document; NULL: the text is not divided */
    const char *text;      /* what is left of the reader's piece */
    size_t left;
    eitp__buffer held; /* the beginning of a line that may be a separator */
    int is_within;     /* a line whose beginning has been passed on */
    int has_ended;     /* the text has */
} eitp__documents;

/* The documents of an open reader, which the caller closes. `separator` must outlive them. */
EITP__PRIVATE void eitp__documents_init(eitp__documents *documents, eitp__text_reader *reader, const char *separator);
EITP__PRIVATE void eitp__documents_release(eitp__documents *documents);

/* Reads the next piece of the document, valid until the next call; *size is 0 at its end, after which the next document
   begins, unless the text has ended. */
EITP__PRIVATE eitp_status eitp__documents_piece(eitp__documents *documents, const char **text, size_t *size,
                                                eitp_error *error);

#endif
