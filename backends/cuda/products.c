/* The kernels of kernels/cuda/products.cu and products_fma.cu. */
#include "backends/cuda/slots.h"

#if EITP__WITH_CUDA

/* Computation of a block: a tile of y, with `depth` steps of k at a time, and on tensor cores its warps. */
typedef struct eitp__cuda_tile {
    int rows, columns, depth, warps_down, warps_across; /* depth: 0 without tensor cores */
    int is_shifted;                                     /* rows of operands may start at any element */
} eitp__cuda_tile;

static int64_t eitp__cuda_tiles(const eitp__call *call, int64_t rows, int64_t columns) {
    const eitp__matmul sizes = eitp__matmul_sizes(call);
    return sizes.batch * eitp__cuda_ceil_divide(sizes.m, rows) * eitp__cuda_ceil_divide(sizes.n, columns) *
           eitp__product_parts_of(call).count;
}

/* ---- Choosing kernels ---- */

/* True if its sizes are small enough for the integers of kernels, and blocks of HEAD are as wide as tiles. */
static int eitp__cuda_is_product(const eitp__call *call) {
    const eitp__matmul sizes = eitp__matmul_sizes(call);
    const int64_t most = 1 << 30, blocks = call->outputs[1].shape[1];
    if (sizes.m > most || sizes.n > most || sizes.k > most || sizes.batch > most)
        return 0;
    return call->slot != EITP__SLOT_HEAD || blocks == eitp__cuda_ceil_divide(sizes.n, EITP__CUDA_HEAD_BLOCK);
}

static int eitp__cuda_has_tensor_cores(const eitp__call *call, const eitp__cuda_device *device) {
    return device->capability >= (call->dtype == EITP_F16 ? 75 : 80);
}

/* True if tiles of 128 x 128 are worthwhile: they read less, but should occupy half of the device. The bits do not
   depend on the tile. */
static int eitp__cuda_is_large(const eitp__call *call, const eitp__cuda_device *device) {
    const eitp__matmul sizes = eitp__matmul_sizes(call);
    return sizes.m > 64 && sizes.n > 64 && eitp__cuda_tiles(call, 128, 128) >= device->processors / 2;
}

/* True if rows of both operands start at multiples of 16 bytes, and the processor copies these without registers. */
static int eitp__cuda_is_copied(const eitp__call *call, const eitp__cuda_device *device) {
    const eitp__matmul sizes = eitp__matmul_sizes(call);
    return device->capability >= 80 && sizes.lda % 8 == 0 && sizes.ldb % 8 == 0;
}

typedef enum eitp__cuda_extent {
    EITP__CUDA_NARROW_PRODUCT,
    EITP__CUDA_SMALL_PRODUCT,
    EITP__CUDA_LARGE_PRODUCT
} eitp__cuda_extent;

static eitp__cuda_extent eitp__cuda_extent_of(const eitp__call *call, const eitp__cuda_device *device) {
    if (eitp__matmul_sizes(call).m <= 16)
        return EITP__CUDA_NARROW_PRODUCT;
    return eitp__cuda_is_large(call, device) ? EITP__CUDA_LARGE_PRODUCT : EITP__CUDA_SMALL_PRODUCT;
}

static int eitp__cuda_tile_supports(const eitp__call *call, const eitp__cuda_device *device,
                                    const eitp__cuda_tile *tile) {
    const int is_head = call->slot == EITP__SLOT_HEAD;
    if (!eitp__cuda_is_product(call))
        return 0;
    if (!tile->depth)
        return is_head || tile->rows < 128 || eitp__cuda_is_large(call, device);
    if (!eitp__cuda_has_tensor_cores(call, device) || tile->is_shifted == eitp__cuda_is_copied(call, device))
        return 0;
    if (is_head)
        return 1;
    switch (eitp__cuda_extent_of(call, device)) {
    case EITP__CUDA_NARROW_PRODUCT:
        return tile->rows == 16;
    case EITP__CUDA_SMALL_PRODUCT:
        return tile->rows == 64;
    case EITP__CUDA_LARGE_PRODUCT:
    default:
        return tile->rows == 128;
    }
}

/* ---- Launching ---- */

static void eitp__cuda_define_tile(const eitp__call *call, const eitp__cuda_tile *tile, char *text, size_t size) {
    const eitp__matmul sizes = eitp__matmul_sizes(call);
    const char *columns = call->slot == EITP__SLOT_HEAD ? "HEAD_BLOCK" : "TILE_N";
    const int length = snprintf(text, size, "TILE_M=%d %s=%d TRANSPOSES=%d", tile->rows, columns, tile->columns,
                                (sizes.transpose_a ? 1 : 0) + (sizes.transpose_b ? 2 : 0));
    if (tile->depth)
        snprintf(text + length, size - (size_t)length, " TILE_K=%d WARPS_M=%d WARPS_N=%d SHIFTED=%d", tile->depth,
                 tile->warps_down, tile->warps_across, tile->is_shifted);
}

/* Bytes of the steps of k in the memory of a block, or of the sums that replace them. */
static size_t eitp__cuda_tile_shared(const eitp__call *call, const eitp__cuda_tile *tile) {
    const int wide = (int)eitp_dtype_size(eitp__wide(call->dtype)), few = 16 / wide;
    const int rows = tile->depth ? 16 * tile->warps_down : 16;
    const int slab = rows * (tile->columns + 8) * wide;
    const int steps = tile->depth ? 3 * (tile->rows + tile->columns) * tile->depth * 2
                                  : 2 * 8 * (tile->rows + tile->columns + 2 * few) * wide;
    return (size_t)(steps > slab ? steps : slab);
}

static size_t eitp__cuda_parts_workspace(const eitp__call *call) {
    const int64_t parts = eitp__product_parts_of(call).count;
    return parts > 1 ? (size_t)(parts * call->outputs[0].elements) * eitp_dtype_size(eitp__wide(call->dtype)) : 0;
}

static int64_t eitp__cuda_parts_blocks(const eitp__call *call) {
    const int64_t few = 16 / (int64_t)eitp_dtype_size(eitp__wide(call->dtype));
    return eitp__product_parts_of(call).count > 1
               ? eitp__cuda_ceil_divide(call->outputs[0].elements, EITP__CUDA_THREADS * few)
               : 0;
}

/* The functions of a tile. */
#define EITP__CUDA_TILE(name, rows, columns, depth, warps_down, warps_across, is_shifted)                              \
    static const eitp__cuda_tile eitp__cuda_tile_##name = {                                                            \
        rows, columns, depth, warps_down, warps_across, is_shifted};                                                   \
    static int eitp__cuda_supports_##name(const eitp__call *call, const eitp__cuda_device *device) {                   \
        return eitp__cuda_tile_supports(call, device, &eitp__cuda_tile_##name);                                        \
    }                                                                                                                  \
    static void eitp__cuda_define_##name(const eitp__call *call, char *text, size_t size) {                            \
        eitp__cuda_define_tile(call, &eitp__cuda_tile_##name, text, size);                                             \
    }                                                                                                                  \
    static int64_t eitp__cuda_blocks_##name(const eitp__call *call) {                                                  \
        return eitp__cuda_tiles(call, rows, columns);                                                                  \
    }                                                                                                                  \
    static size_t eitp__cuda_shared_##name(const eitp__call *call) {                                                   \
        return eitp__cuda_tile_shared(call, &eitp__cuda_tile_##name);                                                  \
    }

/* Warps have 64 x 64 sums, the most that fit in registers, so that each loaded factor is used as often as possible. If
   shifted, they have 64 x 32, because shifting needs registers too. */
EITP__CUDA_TILE(large, 128, 128, 32, 2, 2, 0)
EITP__CUDA_TILE(large_shifted, 128, 128, 32, 2, 4, 1)
EITP__CUDA_TILE(small, 64, 64, 32, 2, 2, 0)
EITP__CUDA_TILE(small_shifted, 64, 64, 32, 2, 2, 1)
EITP__CUDA_TILE(narrow, 16, 32, 128, 1, 2, 0)
EITP__CUDA_TILE(narrow_shifted, 16, 32, 128, 1, 2, 1)
EITP__CUDA_TILE(fma_large, 128, 128, 0, 0, 0, 0)
EITP__CUDA_TILE(fma_small, 64, 64, 0, 0, 0, 0)
EITP__CUDA_TILE(fma_head, 64, EITP__CUDA_HEAD_BLOCK, 0, 0, 0, 0)

#define EITP__CUDA_PRODUCT(dtypes, file, name, threads)                                                                \
    {                                                                                                                  \
        EITP__SLOT_MATMUL, dtypes, "kernels/cuda/" file, eitp__cuda_supports_##name, eitp__cuda_parts_workspace,       \
            eitp__cuda_define_##name, {                                                                                \
            {"matmul_kernel", threads, eitp__cuda_blocks_##name, eitp__cuda_shared_##name},                            \
                {"matmul_parts_kernel", EITP__CUDA_THREADS, eitp__cuda_parts_blocks, NULL},                            \
        }                                                                                                              \
    }
#define EITP__CUDA_HEAD(dtypes, file, name, threads)                                                                   \
    {                                                                                                                  \
        EITP__SLOT_HEAD, dtypes, "kernels/cuda/" file, eitp__cuda_supports_##name, NULL, eitp__cuda_define_##name, {   \
            {"head_kernel", threads, eitp__cuda_blocks_##name, eitp__cuda_shared_##name},                              \
        }                                                                                                              \
    }

EITP__PRIVATE eitp__cuda_list eitp__cuda_products(void) {
    enum { HALVES = EITP__CUDA_HALVES, ALL = EITP__CUDA_FLOATING, SINGLE = ALL & ~EITP__CUDA_DTYPE(EITP_F64) };
    static const eitp__cuda_kernels kernels[] = {
        EITP__CUDA_PRODUCT(HALVES, "products.cu", large, 128),
        EITP__CUDA_PRODUCT(HALVES, "products.cu", large_shifted, 256),
        EITP__CUDA_PRODUCT(HALVES, "products.cu", small, 128),
        EITP__CUDA_PRODUCT(HALVES, "products.cu", small_shifted, 128),
        EITP__CUDA_PRODUCT(HALVES, "products.cu", narrow, 64),
        EITP__CUDA_PRODUCT(HALVES, "products.cu", narrow_shifted, 64),
        EITP__CUDA_PRODUCT(SINGLE, "products_fma.cu", fma_large, 256),
        EITP__CUDA_PRODUCT(ALL, "products_fma.cu", fma_small, 256),
        EITP__CUDA_HEAD(HALVES, "products.cu", large, 128),
        EITP__CUDA_HEAD(HALVES, "products.cu", large_shifted, 256),
        EITP__CUDA_HEAD(ALL, "products_fma.cu", fma_head, 256),
    };
    eitp__cuda_list list = {kernels, EITP__COUNT(kernels)};
    return list;
}

#endif
