/* An open sample file, and access to its bytes and ids. */
#ifndef EITP_SAMPLE_BYTES_H
#define EITP_SAMPLE_BYTES_H

#include "base/files.h"
#include "data/sample_header.h"
#include "tensor/context.h"

struct eitp_sample_file {
    eitp_host host;
    eitp__file file;
    eitp__sample_layout layout;
    uint32_t limit;      /* the caller's: ids outside segment 1 must be below it; UINT32_MAX: none */
    const char **labels; /* label_count names, stored in `names_text`; NULL: none */
    char *names_text;
    eitp__file_stamp stamp; /* of the file when its content was last verified */
    uint64_t verified_hash; /* of an llm.c file, whose header has none; 0: not verified; atomic */
    eitp__poll poll;        /* see eitp__sample_file_set_poll */
};

/* Reads `size` bytes. A shorter file is EITP_ERROR_IO, since its size was checked when it was opened. */
EITP__PRIVATE eitp_status eitp__sample_read_bytes(const eitp_sample_file *file, uint64_t offset, void *bytes,
                                                  size_t size, eitp_error *error);

/* Like eitp__sample_read_bytes, but checks the poll first: for reading a file from start to end in pieces. */
EITP__PRIVATE eitp_status eitp__sample_read_piece(const eitp_sample_file *file, uint64_t offset, void *bytes,
                                                  size_t size, eitp_error *error);

/* The vocabulary of ids in a file of two tokenizers. */
typedef enum eitp__id_vocabulary {
    EITP__IDS_OF_FIRST = 0,  /* also in files of one tokenizer */
    EITP__IDS_OF_SECOND = 1, /* segment 1 */
    EITP__IDS_OF_EITHER = 2  /* segment unknown */
} eitp__id_vocabulary;

/* Reads ids [first, first + count) of the file, which must be in range, and checks them. ids[count] may be NULL. *crc,
   unless NULL, is a running checksum of their bytes, initially 0. */
EITP__PRIVATE eitp_status eitp__sample_read_ids(const eitp_sample_file *file, eitp__id_vocabulary whose, uint64_t first,
                                                uint64_t count, int32_t *ids, uint32_t *crc, eitp_error *error);

/*
 * Sets a function that is called every few kilobytes while the whole file is read, which may take minutes. If it
 * returns nonzero, the call fails with EITP_ERROR_INTERRUPTED; the next one starts over. Usually it returns a flag that
 * a signal handler has set. Any thread that reads may call it, so set it before reading starts. NULL: nothing is
 * interrupted. A NULL file is harmless.
 */
EITP__PRIVATE void eitp__sample_file_set_poll(eitp_sample_file *file, int (*poll)(void *user), void *user);

/* Hints that these tokens will be read soon: the system may fetch them ahead. The range must be within the file. NULL
   is harmless. */
EITP__PRIVATE void eitp__sample_file_prefetch(const eitp_sample_file *file, uint64_t first, uint64_t count);

/*
 * Finds the shortest prefix of the file whose tokens have this hash (the content_hash of a token file, or the hash of
 * eitp_token_memory_source), and sets *count to its number of tokens, or to 0 if no prefix has it. This tells whether a
 * file that has grown still starts with its old tokens. Reads at most the whole file.
 */
EITP__PRIVATE eitp_status eitp__sample_file_find_prefix(const eitp_sample_file *file, uint64_t hash, uint64_t *count,
                                                        eitp_error *error);

#endif
