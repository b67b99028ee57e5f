/* Writes a labelled file: ids as they come, then the index, all or nothing. */
#ifndef EITP_LABELLED_WRITER_H
#define EITP_LABELLED_WRITER_H

#include "data/labelled_index.h"
#include "data/partial_file.h"

typedef struct eitp__labelled_writer {
    const eitp_host *host;
    eitp__partial_file output;
    int32_t vocabulary_size;
    size_t element_size;
    unsigned char *buffer;
    size_t buffered;
    uint64_t offset;   /* of the buffer in the file */
    uint64_t id_count; /* written */
} eitp__labelled_writer;

/* Creates the partial file; ids must be below `vocabulary_size`. Call eitp__labelled_writer_release even after a
   failure. */
EITP__PRIVATE eitp_status eitp__labelled_writer_open(eitp__labelled_writer *writer, const eitp_host *host,
                                                     const char *path, int32_t vocabulary_size, eitp_error *error);

/* Appends the ids of a sample; sets *crc to the checksum of their bytes. */
EITP__PRIVATE eitp_status eitp__labelled_writer_add(eitp__labelled_writer *writer, const int32_t *ids, size_t count,
                                                    uint32_t *crc, eitp_error *error);

/* Closes the gaps that dropped samples left among the ids, writes index, values and names, sets the content hash, and
   renames the file to its path. *info has everything else. */
EITP__PRIVATE eitp_status eitp__labelled_writer_finish(eitp__labelled_writer *writer, eitp__labelled_index *index,
                                                       const eitp__buffer *names, eitp_labelled_info *info,
                                                       eitp_error *error);

/* Removes an unfinished file and releases the memory. */
EITP__PRIVATE void eitp__labelled_writer_release(eitp__labelled_writer *writer);

#endif
