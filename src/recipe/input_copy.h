/* A copy of a program's input in a file, so that it can be read more than once. */
#ifndef EITP_INPUT_COPY_H
#define EITP_INPUT_COPY_H

#include "data/partial_file.h"
#include "text/text.h"

typedef struct eitp__input_copy {
    eitp__partial_file copy;
    char *piece;
    uint64_t size, at; /* size of the copy, and offset of the next read */
} eitp__input_copy;

/* Copies the input up to its end to "<path>.partial", and makes *input a source that reads the copy. Release it to
   remove the file, even after a failure; a zeroed copy needs no release. */
EITP__PRIVATE eitp_status eitp__input_copy_open(eitp__input_copy *copy, const eitp_host *host, const char *path,
                                                eitp_text_source *input, eitp_error *error);
EITP__PRIVATE void eitp__input_copy_release(eitp__input_copy *copy);

/* Restarts the input from its first byte. */
EITP__PRIVATE void eitp__input_copy_rewind(eitp__input_copy *copy);

#endif
