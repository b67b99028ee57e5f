/* CRC32C (Castagnoli; RFC 3720, section 12.1), which detects all error bursts of up to 32 bits, and 64-bit FNV-1a
   (Fowler, Noll, Vo), which identifies content. */
#ifndef EITP_CHECKSUM_H
#define EITP_CHECKSUM_H

#include "base/platform.h"

/* Extends the checksum `crc` by `size` bytes at `data`. Start with 0. */
EITP__PRIVATE uint32_t eitp__crc32c(uint32_t crc, const void *data, size_t size);

/* Like eitp__crc32c, without the processor's CRC instruction, and on inverted checksums. */
EITP__PRIVATE uint32_t eitp__crc32c_by_table(uint32_t inverted, const unsigned char *bytes, size_t size);

/* Returns the checksum of two consecutive pieces, given the checksum of each and the `size` of the second. */
EITP__PRIVATE uint32_t eitp__crc32c_join(uint32_t first, uint32_t second, uint64_t size);

/* Extends an FNV-1a hash by `size` bytes at `data`. Start with EITP__FNV_START. */
#define EITP__FNV_START ((uint64_t)0xCBF29CE484222325u)
EITP__PRIVATE uint64_t eitp__fnv1a(uint64_t hash, const void *data, size_t size);

/* Size and checksum of a whole file. */
typedef struct eitp__file_sum {
    uint64_t size;
    uint32_t crc;
} eitp__file_sum;

#endif
