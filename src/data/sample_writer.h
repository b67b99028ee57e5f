/* Writes a sample file atomically: complete and synced, or not at all. Ids are written as they arrive. */
#ifndef EITP_SAMPLE_WRITER_H
#define EITP_SAMPLE_WRITER_H

#include "data/partial_file.h"
#include "data/sample_header.h"

typedef struct eitp__sample_writer {
    const eitp_host *host;
    eitp__partial_file output;
    unsigned char *buffer;
    size_t buffered;
    uint64_t offset; /* of the buffer in the file */
    eitp__sample_layout layout;
} eitp__sample_writer;

/* Creates the partial file. Ids must be below `vocabulary_size`, ids of the second tokenizer below `second_vocabulary`
   (0: there is only one). Call eitp__sample_writer_release even after a failure. */
EITP__PRIVATE eitp_status eitp__sample_writer_open(eitp__sample_writer *writer, const eitp_host *host, const char *path,
                                                   eitp_sample_file_kind kind, int32_t vocabulary_size,
                                                   int32_t second_vocabulary, eitp_error *error);

/* Appends ids of the first tokenizer, or with `of_second` of the second, and counts them in layout.info. *crc, unless
   NULL, is a running checksum of their bytes, initially 0. */
EITP__PRIVATE eitp_status eitp__sample_writer_add(eitp__sample_writer *writer, int of_second, const int32_t *ids,
                                                  size_t count, uint32_t *crc, eitp_error *error);

/* Appends bytes. */
EITP__PRIVATE eitp_status eitp__sample_writer_put(eitp__sample_writer *writer, const void *data, size_t size,
                                                  eitp_error *error);

/* Writes the buffered bytes. */
EITP__PRIVATE eitp_status eitp__sample_writer_flush(eitp__sample_writer *writer, eitp_error *error);

/* Moves `size` bytes towards the start of the file. The buffer must be empty. */
EITP__PRIVATE eitp_status eitp__sample_writer_move(eitp__sample_writer *writer, uint64_t from, uint64_t to,
                                                   uint64_t size, eitp_error *error);

/* Writes the buffered bytes and the header from `layout`, and renames the file to its path. */
EITP__PRIVATE eitp_status eitp__sample_writer_finish(eitp__sample_writer *writer, eitp_error *error);

/* Removes an unfinished file and releases the memory. */
EITP__PRIVATE void eitp__sample_writer_release(eitp__sample_writer *writer);

/* Logs a warning if bytes of the packed text have no token (eitp_encoder_unknown_bytes). */
EITP__PRIVATE void eitp__warn_unknown_bytes(const eitp_host *host, uint64_t count);

#endif
