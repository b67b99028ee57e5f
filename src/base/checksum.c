#include "base/checksum.h"

#if defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

/* Slicing-by-8: slice k of the table contains the remainder of each byte value followed by k zero bytes. CRC is linear,
   so an entry is the exclusive or of the entries of its bits: the compiler computes each slice from eight constants. */
#define EITP__CRC32C_ENTRY(n, a, b, c, d, e, f, g, h)                                                                  \
    ((n)&1 ? (a) : 0u) ^ ((n)&2 ? (b) : 0u) ^ ((n)&4 ? (c) : 0u) ^ ((n)&8 ? (d) : 0u) ^ ((n)&16 ? (e) : 0u) ^          \
        ((n)&32 ? (f) : 0u) ^ ((n)&64 ? (g) : 0u) ^ ((n)&128 ? (h) : 0u)
#define EITP__CRC32C_4(n, a, b, c, d, e, f, g, h)                                                                      \
    EITP__CRC32C_ENTRY(n, a, b, c, d, e, f, g, h), EITP__CRC32C_ENTRY((n) + 1, a, b, c, d, e, f, g, h),                \
        EITP__CRC32C_ENTRY((n) + 2, a, b, c, d, e, f, g, h), EITP__CRC32C_ENTRY((n) + 3, a, b, c, d, e, f, g, h)
#define EITP__CRC32C_16(n, a, b, c, d, e, f, g, h)                                                                     \
    EITP__CRC32C_4(n, a, b, c, d, e, f, g, h), EITP__CRC32C_4((n) + 4, a, b, c, d, e, f, g, h),                        \
        EITP__CRC32C_4((n) + 8, a, b, c, d, e, f, g, h), EITP__CRC32C_4((n) + 12, a, b, c, d, e, f, g, h)
#define EITP__CRC32C_64(n, a, b, c, d, e, f, g, h)                                                                     \
    EITP__CRC32C_16(n, a, b, c, d, e, f, g, h), EITP__CRC32C_16((n) + 16, a, b, c, d, e, f, g, h),                     \
        EITP__CRC32C_16((n) + 32, a, b, c, d, e, f, g, h), EITP__CRC32C_16((n) + 48, a, b, c, d, e, f, g, h)
#define EITP__CRC32C_SLICE(a, b, c, d, e, f, g, h)                                                                     \
    {                                                                                                                  \
        EITP__CRC32C_64(0, a, b, c, d, e, f, g, h), EITP__CRC32C_64(64, a, b, c, d, e, f, g, h),                       \
            EITP__CRC32C_64(128, a, b, c, d, e, f, g, h), EITP__CRC32C_64(192, a, b, c, d, e, f, g, h)                 \
    }

static const uint32_t eitp__crc32c_table[8][256] = {
    EITP__CRC32C_SLICE(0xf26b8303u, 0xe13b70f7u, 0xc79a971fu, 0x8ad958cfu, 0x105ec76fu, 0x20bd8edeu, 0x417b1dbcu,
                       0x82f63b78u),
    EITP__CRC32C_SLICE(0x13a29877u, 0x274530eeu, 0x4e8a61dcu, 0x9d14c3b8u, 0x3fc5f181u, 0x7f8be302u, 0xff17c604u,
                       0xfbc3faf9u),
    EITP__CRC32C_SLICE(0xa541927eu, 0x4f6f520du, 0x9edea41au, 0x38513ec5u, 0x70a27d8au, 0xe144fb14u, 0xc76580d9u,
                       0x8b277743u),
    EITP__CRC32C_SLICE(0xdd45aab8u, 0xbf672381u, 0x7b2231f3u, 0xf64463e6u, 0xe964b13du, 0xd725148bu, 0xaba65fe7u,
                       0x52a0c93fu),
    EITP__CRC32C_SLICE(0x38116facu, 0x7022df58u, 0xe045beb0u, 0xc5670b91u, 0x8f2261d3u, 0x1ba8b557u, 0x37516aaeu,
                       0x6ea2d55cu),
    EITP__CRC32C_SLICE(0xef306b19u, 0xdb8ca0c3u, 0xb2f53777u, 0x6006181fu, 0xc00c303eu, 0x85f4168du, 0x0e045bebu,
                       0x1c08b7d6u),
    EITP__CRC32C_SLICE(0x68032cc8u, 0xd0065990u, 0xa5e0c5d1u, 0x4e2dfd53u, 0x9c5bfaa6u, 0x3d5b83bdu, 0x7ab7077au,
                       0xf56e0ef4u),
    EITP__CRC32C_SLICE(0x493c7d27u, 0x9278fa4eu, 0x211d826du, 0x423b04dau, 0x847609b4u, 0x0d006599u, 0x1a00cb32u,
                       0x34019664u),
};

static uint32_t eitp__load_little_endian(const unsigned char *bytes) {
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

EITP__PRIVATE uint32_t eitp__crc32c_by_table(uint32_t crc, const unsigned char *bytes, size_t size) {
    const uint32_t(*table)[256] = eitp__crc32c_table;
    for (; size >= 8; size -= 8, bytes += 8) {
        uint32_t low = crc ^ eitp__load_little_endian(bytes), high = eitp__load_little_endian(bytes + 4);
        crc = table[7][low & 255] ^ table[6][low >> 8 & 255] ^ table[5][low >> 16 & 255] ^ table[4][low >> 24] ^
              table[3][high & 255] ^ table[2][high >> 8 & 255] ^ table[1][high >> 16 & 255] ^ table[0][high >> 24];
    }
    for (; size; size--, bytes++)
        crc = table[0][(crc ^ *bytes) & 255] ^ crc >> 8;
    return crc;
}

/* Returns the product of two polynomials modulo the checksum's polynomial. As in the checksum, the highest bit belongs
   to x^0. */
static uint32_t eitp__crc32c_multiply(uint32_t a, uint32_t b) {
    uint32_t product = 0;
    for (uint32_t bit = (uint32_t)1 << 31; bit; bit >>= 1) {
        product ^= a & bit ? b : 0;
        b = b >> 1 ^ (b & 1 ? 0x82f63b78u : 0);
    }
    return product;
}

#if defined(__x86_64__)

/* Bytes per run, and x to the power of the number of its bits. */
#define EITP__CRC32C_RUN ((size_t)4096)
#define EITP__CRC32C_RUN_POWER 0x35d73a62u

static int eitp__has_crc32c(void) {
    return __builtin_cpu_supports("sse4.2") != 0;
}

static unsigned long long eitp__load_word(const unsigned char *bytes) {
    unsigned long long word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

__attribute__((target("sse4.2"))) static uint32_t eitp__crc32c_run(uint32_t crc, const unsigned char *bytes,
                                                                   size_t size) {
    unsigned long long wide = crc;
    for (; size >= sizeof wide; size -= sizeof wide, bytes += sizeof wide)
        wide = __builtin_ia32_crc32di(wide, eitp__load_word(bytes));
    for (crc = (uint32_t)wide; size; size--, bytes++)
        crc = __builtin_ia32_crc32qi(crc, *bytes);
    return crc;
}

/* The instruction can start in every cycle and takes three cycles, so three runs of bytes are summed in parallel. */
__attribute__((target("sse4.2"))) static uint32_t eitp__crc32c_by_instruction(uint32_t crc, const unsigned char *bytes,
                                                                              size_t size) {
    const size_t run = EITP__CRC32C_RUN;
    for (; size >= 3 * run; size -= 3 * run, bytes += 3 * run) {
        unsigned long long first = crc, second = 0, third = 0;
        for (size_t i = 0; i < run; i += sizeof first) {
            first = __builtin_ia32_crc32di(first, eitp__load_word(bytes + i));
            second = __builtin_ia32_crc32di(second, eitp__load_word(bytes + run + i));
            third = __builtin_ia32_crc32di(third, eitp__load_word(bytes + 2 * run + i));
        }
        crc = eitp__crc32c_multiply((uint32_t)first, EITP__CRC32C_RUN_POWER) ^ (uint32_t)second;
        crc = eitp__crc32c_multiply(crc, EITP__CRC32C_RUN_POWER) ^ (uint32_t)third;
    }
    return eitp__crc32c_run(crc, bytes, size);
}

#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)

static int eitp__has_crc32c(void) {
    return 1;
}

static uint32_t eitp__crc32c_by_instruction(uint32_t crc, const unsigned char *bytes, size_t size) {
    uint64_t word;
    for (; size >= sizeof word; size -= sizeof word, bytes += sizeof word) {
        memcpy(&word, bytes, sizeof word);
        crc = __crc32cd(crc, word);
    }
    for (; size; size--, bytes++)
        crc = __crc32cb(crc, *bytes);
    return crc;
}

#else

static int eitp__has_crc32c(void) {
    return 0;
}

static uint32_t eitp__crc32c_by_instruction(uint32_t crc, const unsigned char *bytes, size_t size) {
    return eitp__crc32c_by_table(crc, bytes, size);
}

#endif

EITP__PRIVATE uint32_t eitp__crc32c(uint32_t crc, const void *data, size_t size) {
    const unsigned char *bytes = (const unsigned char *)data;
    return eitp__has_crc32c() ? ~eitp__crc32c_by_instruction(~crc, bytes, size)
                              : ~eitp__crc32c_by_table(~crc, bytes, size);
}

EITP__PRIVATE uint32_t eitp__crc32c_join(uint32_t first, uint32_t second, uint64_t size) {
    uint32_t power = (uint32_t)1 << 23; /* x^8: a byte */
    for (; size; size >>= 1) {
        if (size & 1)
            first = eitp__crc32c_multiply(first, power);
        power = eitp__crc32c_multiply(power, power);
    }
    return first ^ second;
}

EITP__PRIVATE uint64_t eitp__fnv1a(uint64_t hash, const void *data, size_t size) {
    const unsigned char *bytes = (const unsigned char *)data;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * 0x100000001B3u;
    return hash;
}
