#include "backends/cpu/openblas.h"

#if EITP_WITH_OPENBLAS

#include <cblas.h>

#define EITP__OPENBLAS_TILE_ROWS 256
#define EITP__OPENBLAS_TILE_COLUMNS 192

static void eitp__openblas_matmul(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    eitp__matmul sizes = eitp__matmul_sizes(call);
    const float *bias = call->input_count > 2 ? (const float *)call->inputs[2].data : NULL;
    float carry = !call->accumulates ? 0.0f : call->carry ? call->carry[0] : 1.0f;
    int64_t across = (sizes.n + EITP__OPENBLAS_TILE_COLUMNS - 1) / EITP__OPENBLAS_TILE_COLUMNS;
    int64_t down = (sizes.m + EITP__OPENBLAS_TILE_ROWS - 1) / EITP__OPENBLAS_TILE_ROWS;
    (void)workspace;
    for (int64_t item = begin; item < end; item++) {
        int64_t batch = item / (down * across);
        int64_t i = item / across % down * EITP__OPENBLAS_TILE_ROWS;
        int64_t j = item % across * EITP__OPENBLAS_TILE_COLUMNS;
        int64_t rows = sizes.m - i < EITP__OPENBLAS_TILE_ROWS ? sizes.m - i : EITP__OPENBLAS_TILE_ROWS;
        int64_t columns = sizes.n - j < EITP__OPENBLAS_TILE_COLUMNS ? sizes.n - j : EITP__OPENBLAS_TILE_COLUMNS;
        const float *a = (const float *)call->inputs[0].data + eitp__matmul_offset(call, 0, batch) +
                         (sizes.transpose_a ? i : i * sizes.lda);
        const float *b = (const float *)call->inputs[1].data + eitp__matmul_offset(call, 1, batch) +
                         (sizes.transpose_b ? j * sizes.ldb : j);
        float *y = (float *)call->outputs[0].data + (batch * sizes.m + i) * sizes.n + j;
        float beta = carry;
        if (bias || sizes.k == 0) {
            beta = 1.0f;
            for (int64_t r = 0; r < rows; r++)
                for (int64_t c = 0; c < columns; c++) {
                    float *to = y + r * sizes.n + c;
                    float start = bias ? bias[j + c] : 0.0f;
                    *to = carry != 0.0f ? carry * *to + start : start;
                }
        }
        if (sizes.k > 0)
            cblas_sgemm(CblasRowMajor, sizes.transpose_a ? CblasTrans : CblasNoTrans,
                        sizes.transpose_b ? CblasTrans : CblasNoTrans, (blasint)rows, (blasint)columns,
                        (blasint)sizes.k, 1.0f, a, (blasint)sizes.lda, b, (blasint)sizes.ldb, beta, y,
                        (blasint)sizes.n);
    }
}

EITP__PRIVATE int eitp__register_openblas_kernels(eitp__kernel_table *table) {
    eitp__kernel kernel = EITP__ZERO;
    kernel.run = eitp__openblas_matmul;
    kernel.tile_rows = EITP__OPENBLAS_TILE_ROWS;
    kernel.tile_columns = EITP__OPENBLAS_TILE_COLUMNS;
    kernel.set = "openblas";
    openblas_set_num_threads(1);
    table->kernels[EITP__SLOT_MATMUL][EITP_F32] = kernel;
    return 1;
}

EITP__PRIVATE const char *eitp__openblas_core(void) {
    return openblas_get_corename();
}

#else

EITP__PRIVATE const char *eitp__openblas_core(void) {
    return "";
}

EITP__PRIVATE int eitp__register_openblas_kernels(eitp__kernel_table *table) {
    (void)table;
    return 0;
}

#endif
