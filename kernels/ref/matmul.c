/* The matrix product in plain C, on vectors of 16 bytes: where a processor has none, the compiler does without. */
#include "kernels/ref/matmul.h"
#include "kernels/matmul.h"

typedef float eitp__ref_f32x4 __attribute__((vector_size(16)));
typedef double eitp__ref_f64x2 __attribute__((vector_size(16)));

/* By memcpy: operands are aligned to their elements only. */
static inline eitp__ref_f32x4 eitp__ref_load_f32(const float *p) {
    eitp__ref_f32x4 v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void eitp__ref_store_f32(float *p, eitp__ref_f32x4 v) {
    memcpy(p, &v, sizeof v);
}

static inline eitp__ref_f32x4 eitp__ref_spread_f32(float x) {
    eitp__ref_f32x4 v = {x, x, x, x};
    return v;
}

static inline eitp__ref_f32x4 eitp__ref_widen_bf16(const uint16_t *p) {
    eitp__ref_f32x4 v = {eitp__bf16_to_f32(p[0]), eitp__bf16_to_f32(p[1]), eitp__bf16_to_f32(p[2]),
                         eitp__bf16_to_f32(p[3])};
    return v;
}

static inline eitp__ref_f32x4 eitp__ref_widen_f16(const uint16_t *p) {
    eitp__ref_f32x4 v = {eitp__f16_to_f32(p[0]), eitp__f16_to_f32(p[1]), eitp__f16_to_f32(p[2]),
                         eitp__f16_to_f32(p[3])};
    return v;
}

static inline eitp__ref_f64x2 eitp__ref_load_f64(const double *p) {
    eitp__ref_f64x2 v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void eitp__ref_store_f64(double *p, eitp__ref_f64x2 v) {
    memcpy(p, &v, sizeof v);
}

static inline eitp__ref_f64x2 eitp__ref_spread_f64(double x) {
    eitp__ref_f64x2 v = {x, x};
    return v;
}

#define EITP__FINISH(name) eitp__ref_finish_f32_##name
#define EITP__FINISH_REAL float
#define EITP__FINISH_MATH(name) name##f
#include "kernels/ref/matmul_finish.inc"

#define EITP__FINISH(name) eitp__ref_finish_f64_##name
#define EITP__FINISH_REAL double
#define EITP__FINISH_MATH(name) name
#include "kernels/ref/matmul_finish.inc"

EITP__PRIVATE void eitp__ref_finish_tile(const eitp__call *call, const eitp__matmul_tile *tile, const float *sums,
                                         int64_t stride) {
    eitp__ref_finish_f32_tile(call, tile, sums, stride);
}

#define EITP__MATMUL(name) eitp__ref_matmul_f32_##name
#define EITP__MATMUL_STORED float
#define EITP__MATMUL_SUM float
#define EITP__MATMUL_VECTOR eitp__ref_f32x4
#define EITP__MATMUL_LANES 4
#define EITP__MATMUL_LOAD(p) eitp__ref_load_f32(p)
#define EITP__MATMUL_STORE(p, v) eitp__ref_store_f32(p, v)
#define EITP__MATMUL_SPREAD(x) eitp__ref_spread_f32(x)
#define EITP__MATMUL_ADD_PRODUCT(c, a, b) ((c) + (a) * (b))
#define EITP__MATMUL_WIDEN(p) eitp__ref_load_f32(p)
#define EITP__MATMUL_WIDEN_ONE(x) (x)
#define EITP__MATMUL_ROWS(X) X(0) X(1) X(2) X(3)
#define EITP__MATMUL_ROW_COUNT 4
#define EITP__MATMUL_DEPTH 128
#define EITP__MATMUL_TILE_ROWS 128
#define EITP__MATMUL_TILE_COLUMNS EITP__HEAD_BLOCK
#define EITP__MATMUL_FINISH eitp__ref_finish_f32_tile
#include "kernels/matmul_vector.inc"

#define EITP__MATMUL(name) eitp__ref_matmul_bf16_##name
#define EITP__MATMUL_STORED uint16_t
#define EITP__MATMUL_SUM float
#define EITP__MATMUL_VECTOR eitp__ref_f32x4
#define EITP__MATMUL_LANES 4
#define EITP__MATMUL_LOAD(p) eitp__ref_load_f32(p)
#define EITP__MATMUL_STORE(p, v) eitp__ref_store_f32(p, v)
#define EITP__MATMUL_SPREAD(x) eitp__ref_spread_f32(x)
#define EITP__MATMUL_ADD_PRODUCT(c, a, b) ((c) + (a) * (b))
#define EITP__MATMUL_WIDEN(p) eitp__ref_widen_bf16(p)
#define EITP__MATMUL_WIDEN_ONE(x) eitp__bf16_to_f32(x)
#define EITP__MATMUL_ROWS(X) X(0) X(1) X(2) X(3)
#define EITP__MATMUL_ROW_COUNT 4
#define EITP__MATMUL_DEPTH 128
#define EITP__MATMUL_TILE_ROWS 128
#define EITP__MATMUL_TILE_COLUMNS EITP__HEAD_BLOCK
#define EITP__MATMUL_FINISH eitp__ref_finish_f32_tile
#include "kernels/matmul_vector.inc"

#define EITP__MATMUL(name) eitp__ref_matmul_f16_##name
#define EITP__MATMUL_STORED uint16_t
#define EITP__MATMUL_SUM float
#define EITP__MATMUL_VECTOR eitp__ref_f32x4
#define EITP__MATMUL_LANES 4
#define EITP__MATMUL_LOAD(p) eitp__ref_load_f32(p)
#define EITP__MATMUL_STORE(p, v) eitp__ref_store_f32(p, v)
#define EITP__MATMUL_SPREAD(x) eitp__ref_spread_f32(x)
#define EITP__MATMUL_ADD_PRODUCT(c, a, b) ((c) + (a) * (b))
#define EITP__MATMUL_WIDEN(p) eitp__ref_widen_f16(p)
#define EITP__MATMUL_WIDEN_ONE(x) eitp__f16_to_f32(x)
#define EITP__MATMUL_ROWS(X) X(0) X(1) X(2) X(3)
#define EITP__MATMUL_ROW_COUNT 4
#define EITP__MATMUL_DEPTH 128
#define EITP__MATMUL_TILE_ROWS 128
#define EITP__MATMUL_TILE_COLUMNS EITP__HEAD_BLOCK
#define EITP__MATMUL_FINISH eitp__ref_finish_f32_tile
#include "kernels/matmul_vector.inc"

#define EITP__MATMUL(name) eitp__ref_matmul_f64_##name
#define EITP__MATMUL_STORED double
#define EITP__MATMUL_SUM double
#define EITP__MATMUL_VECTOR eitp__ref_f64x2
#define EITP__MATMUL_LANES 2
#define EITP__MATMUL_LOAD(p) eitp__ref_load_f64(p)
#define EITP__MATMUL_STORE(p, v) eitp__ref_store_f64(p, v)
#define EITP__MATMUL_SPREAD(x) eitp__ref_spread_f64(x)
#define EITP__MATMUL_ADD_PRODUCT(c, a, b) ((c) + (a) * (b))
#define EITP__MATMUL_WIDEN(p) eitp__ref_load_f64(p)
#define EITP__MATMUL_WIDEN_ONE(x) (x)
#define EITP__MATMUL_ROWS(X) X(0) X(1) X(2) X(3)
#define EITP__MATMUL_ROW_COUNT 4
#define EITP__MATMUL_DEPTH 128
#define EITP__MATMUL_TILE_ROWS 128
#define EITP__MATMUL_TILE_COLUMNS EITP__HEAD_BLOCK
#define EITP__MATMUL_FINISH eitp__ref_finish_f64_tile
#include "kernels/matmul_vector.inc"

EITP__PRIVATE void eitp__register_ref_matmul(eitp__kernel_table *table) {
    table->kernels[EITP__SLOT_MATMUL][EITP_F32] = eitp__ref_matmul_f32_kernel("ref");
    table->kernels[EITP__SLOT_MATMUL][EITP_F64] = eitp__ref_matmul_f64_kernel("ref");
    table->kernels[EITP__SLOT_MATMUL][EITP_BF16] = eitp__ref_matmul_bf16_kernel("ref");
    table->kernels[EITP__SLOT_MATMUL][EITP_F16] = eitp__ref_matmul_f16_kernel("ref");
    table->kernels[EITP__SLOT_HEAD][EITP_BF16] = eitp__ref_matmul_bf16_kernel("ref");
    table->kernels[EITP__SLOT_HEAD][EITP_F16] = eitp__ref_matmul_f16_kernel("ref");
}
