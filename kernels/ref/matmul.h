/* The matrix product in plain C, on 16-byte vectors, which compilers emulate on processors without them. */
#ifndef EITP_REF_MATMUL_H
#define EITP_REF_MATMUL_H

#include "kernels/matmul.h"

typedef float eitp__ref_vector_f32 __attribute__((vector_size(16)));
typedef double eitp__ref_vector_f64 __attribute__((vector_size(16)));

/* Vectors are copied with memcpy, because operands are only aligned to their elements. */
static inline EITP__UNUSED eitp__ref_vector_f32 eitp__ref_load_f32(const float *p) {
    eitp__ref_vector_f32 v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline EITP__UNUSED void eitp__ref_store_f32(float *p, eitp__ref_vector_f32 v) {
    memcpy(p, &v, sizeof v);
}

static inline EITP__UNUSED eitp__ref_vector_f32 eitp__ref_broadcast_f32(float x) {
    eitp__ref_vector_f32 v = {x, x, x, x};
    return v;
}

static inline EITP__UNUSED eitp__ref_vector_f32 eitp__ref_load_bf16(const uint16_t *p) {
    eitp__ref_vector_f32 v = {eitp__bf16_to_f32(p[0]), eitp__bf16_to_f32(p[1]), eitp__bf16_to_f32(p[2]),
                              eitp__bf16_to_f32(p[3])};
    return v;
}

static inline EITP__UNUSED eitp__ref_vector_f32 eitp__ref_load_f16(const uint16_t *p) {
    eitp__ref_vector_f32 v = {eitp__f16_to_f32(p[0]), eitp__f16_to_f32(p[1]), eitp__f16_to_f32(p[2]),
                              eitp__f16_to_f32(p[3])};
    return v;
}

static inline EITP__UNUSED eitp__ref_vector_f64 eitp__ref_load_f64(const double *p) {
    eitp__ref_vector_f64 v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline EITP__UNUSED void eitp__ref_store_f64(double *p, eitp__ref_vector_f64 v) {
    memcpy(p, &v, sizeof v);
}

static inline EITP__UNUSED eitp__ref_vector_f64 eitp__ref_broadcast_f64(double x) {
    eitp__ref_vector_f64 v = {x, x};
    return v;
}

static inline EITP__UNUSED double eitp__ref_add_lanes_f64(eitp__ref_vector_f64 v) {
    double lanes[2];
    memcpy(lanes, &v, sizeof lanes);
    return lanes[0] + lanes[1];
}

/* eitp__ref_finish_tile for each type of sums. */
EITP__PRIVATE void eitp__ref_finish_tile_f32(const eitp__call *call, const eitp__matmul_tile *tile, const float *sums,
                                             int64_t stride);
EITP__PRIVATE void eitp__ref_finish_tile_f64(const eitp__call *call, const eitp__matmul_tile *tile, const double *sums,
                                             int64_t stride);

#endif
