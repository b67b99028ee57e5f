/* The matrix product in plain C, on vectors of 16 bytes: where a processor has none, the compiler does without. */
#include "kernels/ref/matmul.h"
#include "kernels/matmul.h"

typedef float eitp__ref_vector_f32 __attribute__((vector_size(16)));
typedef double eitp__ref_vector_f64 __attribute__((vector_size(16)));

/* By memcpy: operands are aligned to their elements only. */
static inline eitp__ref_vector_f32 eitp__ref_load_f32(const float *p) {
    eitp__ref_vector_f32 v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void eitp__ref_store_f32(float *p, eitp__ref_vector_f32 v) {
    memcpy(p, &v, sizeof v);
}

static inline eitp__ref_vector_f32 eitp__ref_spread_f32(float x) {
    eitp__ref_vector_f32 v = {x, x, x, x};
    return v;
}

static inline eitp__ref_vector_f32 eitp__ref_widen_bf16(const uint16_t *p) {
    eitp__ref_vector_f32 v = {eitp__bf16_to_f32(p[0]), eitp__bf16_to_f32(p[1]), eitp__bf16_to_f32(p[2]),
                              eitp__bf16_to_f32(p[3])};
    return v;
}

static inline eitp__ref_vector_f32 eitp__ref_widen_f16(const uint16_t *p) {
    eitp__ref_vector_f32 v = {eitp__f16_to_f32(p[0]), eitp__f16_to_f32(p[1]), eitp__f16_to_f32(p[2]),
                              eitp__f16_to_f32(p[3])};
    return v;
}

static inline eitp__ref_vector_f64 eitp__ref_load_f64(const double *p) {
    eitp__ref_vector_f64 v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void eitp__ref_store_f64(double *p, eitp__ref_vector_f64 v) {
    memcpy(p, &v, sizeof v);
}

static inline eitp__ref_vector_f64 eitp__ref_spread_f64(double x) {
    eitp__ref_vector_f64 v = {x, x};
    return v;
}

#define EITP__FINISH(name) eitp__ref_finish_##name##_f32
#define EITP__FINISH_REAL float
#define EITP__FINISH_MATH(name) name##f
#include "kernels/ref/matmul_finish.inc"

#define EITP__FINISH(name) eitp__ref_finish_##name##_f64
#define EITP__FINISH_REAL double
#define EITP__FINISH_MATH(name) name
#include "kernels/ref/matmul_finish.inc"

EITP__PRIVATE void eitp__ref_finish_tile(const eitp__call *call, const eitp__matmul_tile *tile, const float *sums,
                                         int64_t stride) {
    eitp__ref_finish_tile_f32(call, tile, sums, stride);
}

#define EITP__MATMUL(name) eitp__ref_matmul_f32_##name
#define EITP__MATMUL_STORED float
#define EITP__MATMUL_SUM float
#define EITP__MATMUL_WIDEN(p) eitp__ref_load_f32(p)
#define EITP__MATMUL_WIDEN_ONE(x) (x)
#define EITP__REF_SUM(name) eitp__ref_##name##_f32
#include "kernels/ref/matmul_instance.inc"

#define EITP__MATMUL(name) eitp__ref_matmul_bf16_##name
#define EITP__MATMUL_STORED uint16_t
#define EITP__MATMUL_SUM float
#define EITP__MATMUL_WIDEN(p) eitp__ref_widen_bf16(p)
#define EITP__MATMUL_WIDEN_ONE(x) eitp__bf16_to_f32(x)
#define EITP__REF_SUM(name) eitp__ref_##name##_f32
#include "kernels/ref/matmul_instance.inc"

#define EITP__MATMUL(name) eitp__ref_matmul_f16_##name
#define EITP__MATMUL_STORED uint16_t
#define EITP__MATMUL_SUM float
#define EITP__MATMUL_WIDEN(p) eitp__ref_widen_f16(p)
#define EITP__MATMUL_WIDEN_ONE(x) eitp__f16_to_f32(x)
#define EITP__REF_SUM(name) eitp__ref_##name##_f32
#include "kernels/ref/matmul_instance.inc"

#define EITP__MATMUL(name) eitp__ref_matmul_f64_##name
#define EITP__MATMUL_STORED double
#define EITP__MATMUL_SUM double
#define EITP__MATMUL_WIDEN(p) eitp__ref_load_f64(p)
#define EITP__MATMUL_WIDEN_ONE(x) (x)
#define EITP__REF_SUM(name) eitp__ref_##name##_f64
#include "kernels/ref/matmul_instance.inc"

EITP__PRIVATE void eitp__register_ref_matmul(eitp__kernel_table *table) {
    table->kernels[EITP__SLOT_MATMUL][EITP_F32] = eitp__ref_matmul_f32_kernel("ref");
    table->kernels[EITP__SLOT_MATMUL][EITP_F64] = eitp__ref_matmul_f64_kernel("ref");
    table->kernels[EITP__SLOT_MATMUL][EITP_BF16] = eitp__ref_matmul_bf16_kernel("ref");
    table->kernels[EITP__SLOT_MATMUL][EITP_F16] = eitp__ref_matmul_f16_kernel("ref");
    table->kernels[EITP__SLOT_HEAD][EITP_BF16] = eitp__ref_matmul_bf16_kernel("ref");
    table->kernels[EITP__SLOT_HEAD][EITP_F16] = eitp__ref_matmul_f16_kernel("ref");
}
