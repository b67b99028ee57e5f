/* The 256 bytes that a token file begins with: docs/token-file.md. */
#ifndef EITP_TOKEN_HEADER_H
#define EITP_TOKEN_HEADER_H

#include "base/platform.h"
#include "data/data.h"

enum { EITP__TOKEN_HEADER_SIZE = 256, EITP__TOKEN_LLMC_HEADER_SIZE = 1024 };

/* What a file of eitp begins with; llm.c's begin with the number 20240520. */
enum { EITP__TOKEN_MAGIC_SIZE = 8 };
EITP__PRIVATE const char *eitp__token_magic(void);

EITP__PRIVATE void eitp__token_header_write(unsigned char bytes[EITP__TOKEN_HEADER_SIZE],
                                            const eitp_token_file_info *info);

/* Reads and checks the header of a file of `file_size` bytes that begins with `size` <= EITP__TOKEN_HEADER_SIZE bytes.
   *offset gets where the ids begin. Messages do not name the file. */
EITP__PRIVATE eitp_status eitp__token_header_read(const unsigned char *bytes, size_t size, uint64_t file_size,
                                                  eitp_token_file_info *info, uint64_t *offset, eitp_error *error);

/* The content hash: FNV-1a of 64 bits with whole ids in the place of bytes. */
EITP__PRIVATE uint64_t eitp__token_hash_start(void);
EITP__PRIVATE uint64_t eitp__token_hash(uint64_t hash, const int32_t *ids, size_t count);

#endif
