/* Numbers as bytes in little-endian order, as in this project's files. */
#ifndef EITP_LITTLE_ENDIAN_H
#define EITP_LITTLE_ENDIAN_H

#include "base/platform.h"

static inline EITP__UNUSED void eitp__put_number(unsigned char *bytes, size_t size, uint64_t value) {
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(value >> 8 * i);
}

static inline EITP__UNUSED uint64_t eitp__get_number(const unsigned char *bytes, size_t size) {
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)bytes[i] << 8 * i;
    return value;
}

#endif
