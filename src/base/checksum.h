/* CRC32C (Castagnoli; RFC 3720, section 12.1): detects all error bursts of up to 32 bits. */
#ifndef EITP_CHECKSUM_H
#define EITP_CHECKSUM_H

#include "base/platform.h"

/* Extends the checksum `crc` by `size` bytes at `data`. Start with 0. */
EITP__PRIVATE uint32_t eitp__crc32c(uint32_t crc, const void *data, size_t size);

#endif
