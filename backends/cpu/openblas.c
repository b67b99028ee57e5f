#include "backends/cpu/openblas.h"
#include "kernels/matmul.h"

#if EITP_WITH_OPENBLAS

#include <cblas.h>

#define EITP__OPENBLAS_TILE_ROWS 256
#define EITP__OPENBLAS_TILE_COLUMNS 192

typedef void (*eitp__openblas_finish)(const eitp__call *call, const eitp__matmul_tile *tile, const float *sums,
                                      int64_t stride);

/* sums = carry * sums + bias; sums are not read if carry is 0. */
static void eitp__openblas_start(const eitp__call *call, const eitp__matmul_tile *tile, float *sums, int64_t stride) {
    const eitp__operand *bias = eitp__matmul_input(call, 2);
    float carry = eitp__matmul_carry(call);
    for (int64_t i = 0; i < tile->rows; i++, sums += stride)
        for (int64_t j = 0; j < tile->columns; j++) {
            float start = bias ? ((const float *)bias->data)[tile->column + j] : 0.0f;
            sums[j] = carry != 0.0f ? carry * sums[j] + start : start;
        }
}

/* Sums a tile in y, or in the workspace if an epilogue or a second output follows. */
static void eitp__openblas_tile(const eitp__call *call, const eitp__matmul *sizes, const eitp__matmul_tile *tile,
                                float *workspace, eitp__openblas_finish finish) {
    const float *a = (const float *)call->inputs[0].data + eitp__matmul_offset(call, 0, tile->batch) +
                     tile->row * (sizes->transpose_a ? 1 : sizes->lda);
    const float *b = (const float *)call->inputs[1].data + eitp__matmul_offset(call, 1, tile->batch) +
                     tile->column * (sizes->transpose_b ? sizes->ldb : 1);
    int is_plain = call->integers[2] == EITP__EPILOGUE_NONE && !eitp__matmul_output(call, 1);
    float *y = (float *)call->outputs[0].data + (tile->batch * sizes->m + tile->row) * sizes->n + tile->column;
    float *sums = is_plain ? y : workspace, carry = eitp__matmul_carry(call);
    int64_t stride = is_plain ? sizes->n : EITP__OPENBLAS_TILE_COLUMNS;
    if (eitp__matmul_input(call, 2) || sizes->k == 0) {
        eitp__openblas_start(call, tile, sums, stride);
        carry = 1.0f;
    }
    if (sizes->k > 0)
        cblas_sgemm(CblasRowMajor, sizes->transpose_a ? CblasTrans : CblasNoTrans,
                    sizes->transpose_b ? CblasTrans : CblasNoTrans, (blasint)tile->rows, (blasint)tile->columns,
                    (blasint)sizes->k, 1.0f, a, (blasint)sizes->lda, b, (blasint)sizes->ldb, carry, sums,
                    (blasint)stride);
    if (!is_plain)
        finish(call, tile, sums, stride);
}

static void eitp__openblas_tiles(const eitp__call *call, int64_t begin, int64_t end, void *workspace,
                                 eitp__openblas_finish finish) {
    eitp__matmul sizes = eitp__matmul_sizes(call);
    for (int64_t item = begin; item < end; item++) {
        eitp__matmul_tile tile =
            eitp__matmul_tile_at(&sizes, item, EITP__OPENBLAS_TILE_ROWS, EITP__OPENBLAS_TILE_COLUMNS);
        eitp__openblas_tile(call, &sizes, &tile, (float *)workspace, finish);
    }
}

/* One function for each set that implements the epilogues. */
static void eitp__openblas_on_ref(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    eitp__openblas_tiles(call, begin, end, workspace, eitp__ref_finish_tile);
}

#if EITP__WITH_AVX2
static void eitp__openblas_on_avx2(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    eitp__openblas_tiles(call, begin, end, workspace, eitp__avx2_finish_tile);
}
#endif

#if EITP__WITH_AVX512
static void eitp__openblas_on_avx512(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    eitp__openblas_tiles(call, begin, end, workspace, eitp__avx512_finish_tile);
}
#endif

static size_t eitp__openblas_workspace(const eitp__call *call) {
    (void)call;
    return (size_t)EITP__OPENBLAS_TILE_ROWS * EITP__OPENBLAS_TILE_COLUMNS * sizeof(float);
}

EITP__PRIVATE int eitp__register_openblas_kernels(eitp__kernel_table *table) {
    eitp__kernel *kernel = &table->kernels[EITP__SLOT_MATMUL][EITP_F32];
    eitp__kernel_function run = eitp__openblas_on_ref;
#if EITP__WITH_AVX2
    if (kernel->set && strcmp(kernel->set, "avx2") == 0)
        run = eitp__openblas_on_avx2;
#endif
#if EITP__WITH_AVX512
    if (kernel->set && strcmp(kernel->set, "avx512") == 0)
        run = eitp__openblas_on_avx512;
#endif
    kernel->run = run;
    kernel->workspace = eitp__openblas_workspace;
    kernel->tile_rows = EITP__OPENBLAS_TILE_ROWS;
    kernel->tile_columns = EITP__OPENBLAS_TILE_COLUMNS;
    kernel->set = "openblas";
    openblas_set_num_threads(1);
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
