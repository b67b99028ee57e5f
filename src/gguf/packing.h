/* Packing of codes and scales of fewer than 8 bits in blocks of GGUF types (ggml-common.h). */
#ifndef EITP_GGUF_PACKING_H
#define EITP_GGUF_PACKING_H

#include "base/platform.h"

/*
 * Some bits of each code, in `bytes` bytes. The lowest bits of the bytes of a run are the first codes, in the order of
 * the bytes; the next bits are the next codes. A code that is longer than `bits` has its other bits in another packing.
 */
typedef struct eitp__gguf_packing {
    int bytes;
    int run;   /* bytes */
    int bits;  /* of each code */
    int place; /* of their lowest bit in the code */
} eitp__gguf_packing;

/* By the codes of a block: the low bits, then the high bits if there are any. */
static EITP__UNUSED const eitp__gguf_packing eitp__gguf_pack_32 = {16, 16, 4, 0};
static EITP__UNUSED const eitp__gguf_packing eitp__gguf_pack_32_high = {4, 1, 1, 4};
static EITP__UNUSED const eitp__gguf_packing eitp__gguf_pack_q2_k = {64, 32, 2, 0};
static EITP__UNUSED const eitp__gguf_packing eitp__gguf_pack_q3_k_high = {32, 32, 1, 2};
static EITP__UNUSED const eitp__gguf_packing eitp__gguf_pack_q4_k = {128, 32, 4, 0};
static EITP__UNUSED const eitp__gguf_packing eitp__gguf_pack_q5_k_high = {32, 32, 1, 4};
static EITP__UNUSED const eitp__gguf_packing eitp__gguf_pack_q6_k = {128, 64, 4, 0};
static EITP__UNUSED const eitp__gguf_packing eitp__gguf_pack_q6_k_high = {64, 32, 2, 4};
static EITP__UNUSED const eitp__gguf_packing eitp__gguf_pack_iq4_xs = {128, 16, 4, 0};

/* Sets these bits of codes that were zero there. */
static inline EITP__UNUSED void eitp__gguf_unpack(eitp__gguf_packing p, const unsigned char *bytes,
                                                  unsigned char *codes) {
    const int mask = (1 << p.bits) - 1;
    for (int run = 0; run < p.bytes; run += p.run)
        for (int shift = 0; shift < 8; shift += p.bits)
            for (int i = 0; i < p.run; i++)
                *codes++ |= (unsigned char)((bytes[run + i] >> shift & mask) << p.place);
}

/* Stores these bits of codes. */
static inline EITP__UNUSED void eitp__gguf_pack(eitp__gguf_packing p, const unsigned char *codes,
                                                unsigned char *bytes) {
    const int mask = (1 << p.bits) - 1;
    memset(bytes, 0, (size_t)p.bytes);
    for (int run = 0; run < p.bytes; run += p.run)
        for (int shift = 0; shift < 8; shift += p.bits)
            for (int i = 0; i < p.run; i++)
                bytes[run + i] |= (unsigned char)((*codes++ >> p.place & mask) << shift);
}

/*
 * The scales and mins of Q4_K and Q5_K, 6 bits each, in 12 bytes. The first 4 bytes have scales 0 to 3, the next 4 mins
 * 0 to 3. The last 4 have the low 4 bits of scales and mins 4 to 7; the first 8 bytes have the high 2 bits.
 */
static inline EITP__UNUSED void eitp__gguf_unpack_scales(const unsigned char bytes[12], unsigned char scales[8],
                                                         unsigned char mins[8]) {
    for (int i = 0; i < 4; i++) {
        scales[i] = bytes[i] & 63;
        mins[i] = bytes[i + 4] & 63;
        scales[i + 4] = (unsigned char)((bytes[i + 8] & 15) | bytes[i] >> 6 << 4);
        mins[i + 4] = (unsigned char)(bytes[i + 8] >> 4 | bytes[i + 4] >> 6 << 4);
    }
}

static inline EITP__UNUSED void eitp__gguf_pack_scales(const unsigned char scales[8], const unsigned char mins[8],
                                                       unsigned char bytes[12]) {
    for (int i = 0; i < 4; i++) {
        bytes[i] = (unsigned char)(scales[i] | scales[i + 4] >> 4 << 6);
        bytes[i + 4] = (unsigned char)(mins[i] | mins[i + 4] >> 4 << 6);
        bytes[i + 8] = (unsigned char)((scales[i + 4] & 15) | (mins[i + 4] & 15) << 4);
    }
}

#endif
