/* Writes a token file: whole and synced under its name, or not at all. */
#ifndef EITP_TOKEN_WRITER_H
#define EITP_TOKEN_WRITER_H

#include "base/files.h"
#include "data/data.h"

typedef struct eitp__token_writer {
    const eitp_host *host;
    char *path;
    char *partial_path; /* what is written until it is complete */
    int unfinished;     /* and it is there */
    eitp__file file;
    unsigned char *buffer;
    size_t buffered;
    uint64_t offset;  /* in the file, of the buffer */
    uint64_t *counts; /* [vocabulary_size], how often each id came */
    eitp_token_file_info info;
} eitp__token_writer;

/* Begins the file; ids will be below `vocabulary_size`. Whatever follows, eitp__token_writer_release must be called,
   also after a failure. */
EITP__PRIVATE eitp_status eitp__token_writer_open(eitp__token_writer *writer, const eitp_host *host, const char *path,
                                                  int32_t vocabulary_size, eitp_error *error);

EITP__PRIVATE eitp_status eitp__token_writer_add(eitp__token_writer *writer, const int32_t *ids, size_t count,
                                                 eitp_error *error);

/* Completes writer->info, in which the caller has set what concerns the texts and the tokenizer, and puts the file in
   its place. */
EITP__PRIVATE eitp_status eitp__token_writer_finish(eitp__token_writer *writer, eitp_error *error);

/* Removes the file where it was not finished, and releases the memory. */
EITP__PRIVATE void eitp__token_writer_release(eitp__token_writer *writer);

#endif
