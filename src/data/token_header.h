/* The 256-byte header of a token file; docs/token-file.md describes it. */
#ifndef EITP_TOKEN_HEADER_H
#define EITP_TOKEN_HEADER_H

#include "base/platform.h"
#include "data/data.h"

enum { EITP__TOKEN_HEADER_SIZE = 256, EITP__TOKEN_LLMC_HEADER_SIZE = 1024 };

/* The first bytes of a token file of eitp; an llm.c file begins with the number 20240520. */
enum { EITP__TOKEN_MAGIC_SIZE = 8 };
EITP__PRIVATE const char *eitp__token_magic(void);

EITP__PRIVATE void eitp__token_header_write(unsigned char bytes[EITP__TOKEN_HEADER_SIZE],
                                            const eitp_token_file_info *info);

/* Reads and checks the header of a file: its first `size` <= EITP__TOKEN_HEADER_SIZE bytes of `file_size` bytes.
   *offset is the position of the first id. Messages do not name the file. */
EITP__PRIVATE eitp_status eitp__token_header_read(const unsigned char *bytes, size_t size, uint64_t file_size,
                                                  eitp_token_file_info *info, uint64_t *offset, eitp_error *error);

/* The content hash: 64-bit FNV-1a over ids instead of bytes. */
EITP__PRIVATE uint64_t eitp__token_hash_start(void);
EITP__PRIVATE uint64_t eitp__token_hash(uint64_t hash, const int32_t *ids, size_t count);

#endif
