/* Writes a token file and computes its hash and entropy. */
#ifndef EITP_TOKEN_WRITER_H
#define EITP_TOKEN_WRITER_H

#include "data/sample_writer.h"

typedef struct eitp__token_writer {
    eitp__sample_writer samples;
    uint64_t *counts; /* occurrences by id, [vocabulary_size] */
} eitp__token_writer;

/* Creates the partial file; ids must be below `vocabulary_size`. Call eitp__token_writer_release even after a
   failure. */
EITP__PRIVATE eitp_status eitp__token_writer_open(eitp__token_writer *writer, const eitp_host *host, const char *path,
                                                  int32_t vocabulary_size, eitp_error *error);

EITP__PRIVATE eitp_status eitp__token_writer_add(eitp__token_writer *writer, const int32_t *ids, size_t count,
                                                 eitp_error *error);

/* Completes the info, in which the caller has set the fields about text and tokenizer, and renames the file to its
   path. */
EITP__PRIVATE eitp_status eitp__token_writer_finish(eitp__token_writer *writer, eitp_error *error);

/* Removes an unfinished file and releases the memory. */
EITP__PRIVATE void eitp__token_writer_release(eitp__token_writer *writer);

#endif
