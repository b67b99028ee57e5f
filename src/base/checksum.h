/* CRC32C (Castagnoli; RFC 3720, section 12.1): finds every error of up to 32 bits in a row. */
#ifndef EITP_CHECKSUM_H
#define EITP_CHECKSUM_H

#include "base/platform.h"

/* The checksum of what `crc` is the checksum of, followed by `size` bytes at `data`. The checksum of nothing is 0. */
EITP__PRIVATE uint32_t eitp__crc32c(uint32_t crc, const void *data, size_t size);

#endif
