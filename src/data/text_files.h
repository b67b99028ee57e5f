/* Reads text files by document and piece, for eitp_pack and eitp_text_files_source. */
#ifndef EITP_TEXT_FILES_H
#define EITP_TEXT_FILES_H

#include "base/platform.h"
#include "data/data.h"

/* Counts of the bytes read so far. */
typedef struct eitp__text_progress {
    uint64_t file_bytes;    /* of the files */
    uint64_t text_bytes;    /* of the text, in UTF-8 */
    uint64_t invalid_bytes; /* bytes that became U+FFFD */
} eitp__text_progress;

/* Opens the next document that is not empty. *path, valid until the next call, is NULL after the last. */
EITP__PRIVATE eitp_status eitp__text_files_next(eitp_text_files *files, const char **path, eitp_error *error);

/* Reads the next piece of that document, valid until the next call. *size is 0 at its end. */
EITP__PRIVATE eitp_status eitp__text_files_piece(eitp_text_files *files, const char **text, size_t *size,
                                                 eitp_error *error);

EITP__PRIVATE eitp__text_progress eitp__text_files_counts(const eitp_text_files *files);

#endif
