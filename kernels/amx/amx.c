/* BF16 matrix products for processors with AMX (Advanced Matrix Extensions). */
#include "kernels/amx_tiles.h"
#include "kernels/matmul.h"

#if EITP__WITH_AMX

#if !defined(EITP__EMULATED)
#include <immintrin.h>
#if defined(__clang__)
#pragma clang attribute push(                                                                                          \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,amx-tile,amx-bf16"))),                     \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,amx-tile,amx-bf16")
#endif
#endif

#define EITP__AMX_UNITS 16  /* pairs in a row of a tile */
#define EITP__AMX_WIDTH 32  /* columns of a panel: two tiles */
#define EITP__AMX_DEPTH 128 /* pairs along k in a panel */

/*
 * Compiler barrier, placed before loads of tiles. GCC's intrinsic does not declare that it reads memory, so without the
 * barrier a store could move past it.
 */
#define EITP__AMX_WRITE_FIRST() __asm__ volatile("" ::: "memory")

/*
 * sums (+)= a * b for 32 rows and 32 columns, or 16 columns if the constant `is_wide` is 0. Adds to the sums if `adds`
 * is set, otherwise overwrites them. TDPBF16PS accumulates 16 pairs before it adds them to a sum. Tiles 0 to 3 hold
 * sums, 4 and 5 rows of a, 6 and 7 columns of b.
 */
EITP__MATMUL_INLINE void eitp__amx_matmul_block_tiles(int is_wide, int64_t units, int adds, const uint32_t *a,
                                                      int64_t row, const uint32_t *b, float *sums, int64_t stride) {
    const size_t sum_bytes = (size_t)stride * sizeof *sums, a_bytes = (size_t)row * sizeof *a;
    const size_t b_bytes = EITP__AMX_WIDTH * sizeof *b;
    EITP__AMX_WRITE_FIRST();
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    if (adds) {
        _tile_loadd(0, sums, sum_bytes);
        _tile_loadd(2, sums + 16 * stride, sum_bytes);
    }
    if (adds && is_wide) {
        _tile_loadd(1, sums + 16, sum_bytes);
        _tile_loadd(3, sums + 16 * stride + 16, sum_bytes);
    }
    for (int64_t p = 0; p < units; p += EITP__AMX_UNITS) {
        _tile_loadd(6, b + p * EITP__AMX_WIDTH, b_bytes);
        _tile_loadd(4, a + p, a_bytes);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(5, a + 16 * row + p, a_bytes);
        _tile_dpbf16ps(2, 5, 6);
        if (is_wide) {
            _tile_loadd(7, b + p * EITP__AMX_WIDTH + 16, b_bytes);
            _tile_dpbf16ps(1, 4, 7);
            _tile_dpbf16ps(3, 5, 7);
        }
    }
    _tile_stored(0, sums, sum_bytes);
    _tile_stored(2, sums + 16 * stride, sum_bytes);
    if (is_wide) {
        _tile_stored(1, sums + 16, sum_bytes);
        _tile_stored(3, sums + 16 * stride + 16, sum_bytes);
    }
}

static void eitp__amx_matmul_block(int64_t units, int64_t columns, int adds, const uint32_t *a, int64_t row,
                                   int64_t step, const uint32_t *b, float *sums, int64_t stride) {
    (void)step;
    if (columns > EITP__AMX_WIDTH / 2)
        eitp__amx_matmul_block_tiles(1, units, adds, a, row, b, sums, stride);
    else
        eitp__amx_matmul_block_tiles(0, units, adds, a, row, b, sums, stride);
}

#define EITP__MATMUL(name) eitp__amx_matmul_##name
#define EITP__MATMUL_UNITS EITP__AMX_UNITS
#define EITP__MATMUL_ROW_COUNT 32
#define EITP__MATMUL_WIDTH EITP__AMX_WIDTH
#define EITP__MATMUL_DEPTH EITP__AMX_DEPTH
#define EITP__MATMUL_TILE_ROWS 256
#define EITP__MATMUL_TILE_COLUMNS EITP__HEAD_BLOCK
#define EITP__MATMUL_FINISH eitp__avx512_finish_tile
#include "kernels/matmul_pairs.inc"

/*
 * Configures the tiles for each piece and releases them after it, because a thread without tile state is cheaper to
 * switch.
 */
static void eitp__amx_run(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    _tile_loadconfig(&eitp__amx_whole_tiles);
    eitp__amx_matmul_run(call, begin, end, workspace);
    _tile_release();
}

#if !defined(EITP__EMULATED)
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

EITP__PRIVATE void eitp__register_amx_kernels(eitp__kernel_table *table) {
    eitp__kernel kernel = eitp__amx_matmul_kernel("amx");
    kernel.run = eitp__amx_run;
    table->kernels[EITP__SLOT_MATMUL][EITP_BF16] = kernel;
    table->kernels[EITP__SLOT_HEAD][EITP_BF16] = kernel;
}

#else

EITP__PRIVATE void eitp__register_amx_kernels(eitp__kernel_table *table) {
    (void)table;
}

#endif
