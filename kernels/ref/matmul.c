/* The epilogues of matrix products in plain C. */
#include "kernels/ref/matmul.h"

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
