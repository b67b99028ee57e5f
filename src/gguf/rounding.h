/*
 * Rounding of f32 values to blocks of GGUF types, to the bytes that llama.cpp writes without an importance matrix
 * (ggml-quants.c), as built for any x86-64 processor: each operation rounds to f32 on its own. Builds that fuse
 * multiplications and additions, as usual for ARM, choose other codes in some blocks.
 *
 * Values must be finite. The scale of values beyond the range of F16 can be infinite.
 */
#ifndef EITP_GGUF_ROUNDING_H
#define EITP_GGUF_ROUNDING_H

#include "base/platform.h"

EITP__PRIVATE void eitp__gguf_round_q4_0(const float *values, unsigned char *block);
EITP__PRIVATE void eitp__gguf_round_q4_1(const float *values, unsigned char *block);
EITP__PRIVATE void eitp__gguf_round_q5_0(const float *values, unsigned char *block);
EITP__PRIVATE void eitp__gguf_round_q5_1(const float *values, unsigned char *block);
EITP__PRIVATE void eitp__gguf_round_q8_0(const float *values, unsigned char *block);
EITP__PRIVATE void eitp__gguf_round_q4_k(const float *values, unsigned char *block);
EITP__PRIVATE void eitp__gguf_round_q5_k(const float *values, unsigned char *block);
EITP__PRIVATE void eitp__gguf_round_q6_k(const float *values, unsigned char *block);

#endif
