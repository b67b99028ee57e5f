/* The matrix product in plain C, on vectors of 16 bytes: where a processor has none, the compiler does without. */
#include "kernels/ref/matmul.h"

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

#define EITP__MATMUL(name) eitp__ref_matmul_f32_##name
#define EITP__MATMUL_TYPE float
#define EITP__MATMUL_VECTOR eitp__ref_f32x4
#define EITP__MATMUL_LANES 4
#define EITP__MATMUL_LOAD(p) eitp__ref_load_f32(p)
#define EITP__MATMUL_STORE(p, v) eitp__ref_store_f32(p, v)
#define EITP__MATMUL_SPREAD(x) eitp__ref_spread_f32(x)
#define EITP__MATMUL_ADD_PRODUCT(c, a, b) ((c) + (a) * (b))
#define EITP__MATMUL_ROWS(X) X(0) X(1) X(2) X(3)
#define EITP__MATMUL_ROW_COUNT 4
#define EITP__MATMUL_DEPTH 256
#define EITP__MATMUL_TILE_ROWS 128
#define EITP__MATMUL_TILE_COLUMNS 96
#include "kernels/matmul.inc"

#define EITP__MATMUL(name) eitp__ref_matmul_f64_##name
#define EITP__MATMUL_TYPE double
#define EITP__MATMUL_VECTOR eitp__ref_f64x2
#define EITP__MATMUL_LANES 2
#define EITP__MATMUL_LOAD(p) eitp__ref_load_f64(p)
#define EITP__MATMUL_STORE(p, v) eitp__ref_store_f64(p, v)
#define EITP__MATMUL_SPREAD(x) eitp__ref_spread_f64(x)
#define EITP__MATMUL_ADD_PRODUCT(c, a, b) ((c) + (a) * (b))
#define EITP__MATMUL_ROWS(X) X(0) X(1) X(2) X(3)
#define EITP__MATMUL_ROW_COUNT 4
#define EITP__MATMUL_DEPTH 256
#define EITP__MATMUL_TILE_ROWS 128
#define EITP__MATMUL_TILE_COLUMNS 96
#include "kernels/matmul.inc"

EITP__PRIVATE void eitp__register_ref_matmul(eitp__kernel_table *table) {
    table->kernels[EITP__SLOT_MATMUL][EITP_F32] = eitp__ref_matmul_f32_kernel("ref");
    table->kernels[EITP__SLOT_MATMUL][EITP_F64] = eitp__ref_matmul_f64_kernel("ref");
}
