/* The kernels of kernels/cuda/attention.cu, attention_general.cu and attention_cached.cu. */
#include "backends/cuda/slots.h"

#include "base/convert.h"
#include "kernels/cuda/attention_tiles.h"

#if EITP__WITH_CUDA

/* The parameters that kernels are compiled for. */
typedef struct eitp__cuda_attention_case {
    int64_t rows, heads, key_heads, width;
    int is_backward, is_cached, rotates, drops, is_aligned;
} eitp__cuda_attention_case;

/* True if no operand that kernels read or write in vectors starts between multiples of 16 bytes. */
static int eitp__cuda_attention_is_aligned(const eitp__call *call) {
    uintptr_t bits = 0;
    for (int i = 0; i < call->input_count; i++)
        bits |= eitp__is_floating(call->inputs[i].dtype) ? (uintptr_t)call->inputs[i].data : 0;
    for (int i = 0; i < call->output_count; i++)
        bits |= (uintptr_t)call->outputs[i].data;
    return bits % 16 == 0;
}

static eitp__cuda_attention_case eitp__cuda_attention_case_of(const eitp__call *call) {
    const eitp__attention_sizes sizes = eitp__attention_sizes_of(call);
    eitp__cuda_attention_case at;
    at.rows = call->inputs[0].shape[0];
    at.heads = sizes.heads;
    at.key_heads = sizes.key_heads;
    at.width = sizes.width;
    at.is_backward = call->slot == EITP__SLOT_ATTENTION_BACKWARD;
    at.is_cached = call->slot == EITP__SLOT_ATTENTION_CACHED;
    at.rotates = call->inputs[at.is_cached ? (int)EITP__CACHED_ROTATION : (int)EITP__ATTENTION_ROTATION].rank > 0;
    at.drops = !at.is_cached && call->inputs[EITP__ATTENTION_KEY].rank && call->reals[1] > 0;
    at.is_aligned = eitp__cuda_attention_is_aligned(call);
    return at;
}

/* ---- Tensor cores ---- */

/* Returns the rows of queries (in the backward pass also of keys) per block. */
static int64_t eitp__cuda_attention_rows(const eitp__cuda_attention_case *at) {
    return EITP__ATTENTION_ROWS(at->is_backward, at->width);
}

/* Returns the shared memory in bytes for the rows of a block, and for the buffered steps. */
static size_t eitp__cuda_attention_shared(const eitp__call *call, int buffers) {
    const eitp__cuda_attention_case at = eitp__cuda_attention_case_of(call);
    const int64_t own = eitp__cuda_attention_rows(&at) * (at.is_backward ? 2 : 1);
    const int64_t passing = buffers * EITP__ATTENTION_STEP(at.is_backward, at.width) * 2;
    return (size_t)((own + passing) * EITP__ATTENTION_STRIDE(at.width) * 2);
}

static int eitp__cuda_attention_fits(const eitp__call *call, const eitp__cuda_device *device, int buffers) {
    const eitp__cuda_attention_case at = eitp__cuda_attention_case_of(call);
    const int is_new = device->capability >= (call->dtype == EITP_BF16 ? 80 : 75);
    /* Two blocks of a multiprocessor hide each other's waits better than two buffers of one block. */
    const size_t blocks = buffers == 1 ? 1 : 2;
    const size_t others = 1536; /* bytes of fixed-size arrays, and 1024 that the driver reserves */
    if (at.is_cached ? eitp__has_few_rows(call) : !eitp__is_unmasked_attention(call))
        return 0;
    return is_new && at.width <= 128 && (!at.rotates || at.is_cached || at.width % 16 == 0) && call->reals[0] > 1e-30 &&
           call->reals[0] < 1e30 &&
           blocks * (eitp__cuda_attention_shared(call, buffers) + others) <= device->shared_limit;
}

#define EITP__CUDA_ATTENTION_BUFFERS(buffers)                                                                          \
    static size_t eitp__cuda_attention_shared_##buffers(const eitp__call *call) {                                      \
        return eitp__cuda_attention_shared(call, buffers);                                                             \
    }                                                                                                                  \
    static int eitp__cuda_attention_supports_##buffers(const eitp__call *call, const eitp__cuda_device *device) {      \
        return eitp__cuda_attention_fits(call, device, buffers);                                                       \
    }                                                                                                                  \
    static void eitp__cuda_attention_define_##buffers(const eitp__call *call, char *text, size_t size) {               \
        eitp__cuda_attention_define_buffers(call, buffers, text, size);                                                \
    }

static void eitp__cuda_attention_define(const eitp__call *call, char *text, size_t size) {
    const eitp__cuda_attention_case at = eitp__cuda_attention_case_of(call);
    snprintf(text, size, "HEAD_WIDTH=%d DROPS=%d ROTATES=%d BACKWARD=%d CACHED=%d ALIGNED=%d", (int)at.width, at.drops,
             at.rotates, at.is_backward, at.is_cached, at.is_aligned);
}

static void eitp__cuda_attention_define_buffers(const eitp__call *call, int buffers, char *text, size_t size) {
    size_t length;
    eitp__cuda_attention_define(call, text, size);
    length = strlen(text);
    snprintf(text + length, size - length, " BUFFERS=%d", buffers);
}

EITP__CUDA_ATTENTION_BUFFERS(2)
EITP__CUDA_ATTENTION_BUFFERS(1)

/* Rotated queries and keys; in the backward pass also a number for each query. */
static size_t eitp__cuda_attention_workspace(const eitp__call *call) {
    const eitp__cuda_attention_case at = eitp__cuda_attention_case_of(call);
    const int64_t rotated = at.rotates ? at.rows * (at.heads + at.key_heads) * at.width : 0;
    return (size_t)rotated * eitp_dtype_size(call->dtype) +
           (at.is_backward ? (size_t)(at.rows * at.heads) * sizeof(float) : 0);
}

/* ---- Numbers of blocks ---- */

/* Returns the number of tiles of `rows` rows, of queries or of keys, in all sequences and heads. */
static int64_t eitp__cuda_attention_tiles(const eitp__call *call, int64_t heads, int64_t rows) {
    const int64_t all = call->inputs[0].shape[0];
    int64_t longest = all, sequences = 1;
    if (call->slot != EITP__SLOT_ATTENTION_CACHED) {
        longest = call->integers[1] < all ? call->integers[1] : all;
        sequences = call->inputs[EITP__ATTENTION_OFFSETS].elements - 1;
    }
    return all ? sequences * heads * (longest > rows ? eitp__cuda_ceil_divide(longest, rows) : 1) : 0;
}

static int64_t eitp__cuda_attention_query_blocks(const eitp__call *call) {
    const eitp__cuda_attention_case at = eitp__cuda_attention_case_of(call);
    return eitp__cuda_attention_tiles(call, at.heads, eitp__cuda_attention_rows(&at));
}

static int64_t eitp__cuda_attention_key_blocks(const eitp__call *call) {
    const eitp__cuda_attention_case at = eitp__cuda_attention_case_of(call);
    return eitp__cuda_attention_tiles(call, at.key_heads, eitp__cuda_attention_rows(&at));
}

static int64_t eitp__cuda_attention_rotate_blocks(const eitp__call *call) {
    const eitp__cuda_attention_case at = eitp__cuda_attention_case_of(call);
    return at.rotates ? eitp__cuda_ceil_divide(at.rows, 8) : 0;
}

/* ---- General kernels ---- */

static int eitp__cuda_attention_general_supports(const eitp__call *call, const eitp__cuda_device *device) {
    const eitp__cuda_attention_case at = eitp__cuda_attention_case_of(call);
    (void)device;
    return (at.is_cached ? !eitp__has_few_rows(call) : eitp__is_unmasked_attention(call)) && at.width <= 256;
}

static size_t eitp__cuda_attention_general_workspace(const eitp__call *call) {
    return call->slot == EITP__SLOT_ATTENTION_BACKWARD
               ? (size_t)(call->inputs[0].shape[0] * call->integers[0]) * sizeof(float)
               : 0;
}

static int64_t eitp__cuda_attention_general_query_blocks(const eitp__call *call) {
    return eitp__cuda_attention_tiles(call, call->integers[0], 64);
}

static int64_t eitp__cuda_attention_general_key_blocks(const eitp__call *call) {
    return eitp__cuda_attention_tiles(call, eitp__cuda_attention_case_of(call).key_heads, 64);
}

static int eitp__cuda_attention_cached_supports(const eitp__call *call, const eitp__cuda_device *device) {
    (void)device;
    return eitp__has_few_rows(call);
}

/* Rotated queries. */
static size_t eitp__cuda_attention_cached_queries(const eitp__call *call) {
    const eitp__cuda_attention_case at = eitp__cuda_attention_case_of(call);
    return at.rotates ? (size_t)(at.rows * at.heads * at.width) * eitp_dtype_size(call->dtype) : 0;
}

/* The rotated queries, followed by the partial result of each block. */
static size_t eitp__cuda_attention_cached_workspace(const eitp__call *call) {
    const eitp__cuda_attention_case at = eitp__cuda_attention_case_of(call);
    const int64_t states = at.rows * at.heads * eitp__cached_parts(call) * (at.width + 2);
    return (eitp__cuda_attention_cached_queries(call) + 63) / 64 * 64 + (size_t)states * sizeof(float);
}

static int64_t eitp__cuda_attention_cached_store_blocks(const eitp__call *call) {
    const eitp__cuda_attention_case at = eitp__cuda_attention_case_of(call);
    const int64_t blocks = eitp__cuda_ceil_divide(at.rows * (at.heads + 2 * at.key_heads) * at.width, 1024);
    return blocks < 4096 ? blocks : 4096;
}

static int64_t eitp__cuda_attention_cached_blocks(const eitp__call *call) {
    return call->inputs[0].shape[0] * call->integers[0] * eitp__cached_parts(call);
}

static int64_t eitp__cuda_attention_cached_total_blocks(const eitp__call *call) {
    return call->inputs[0].shape[0] * call->integers[0];
}

/* ---- Entries ---- */

#define EITP__CUDA_ATTENTION_STORE                                                                                     \
    { "attention_cached_store_kernel", 256, eitp__cuda_attention_cached_store_blocks, NULL }

#define EITP__CUDA_ATTENTION_ON_TENSOR_CORES(SLOT, buffers, workspace, ...)                                            \
    {                                                                                                                  \
        EITP__SLOT_##SLOT, EITP__CUDA_HALVES, "kernels/cuda/attention.cu", eitp__cuda_attention_supports_##buffers,    \
            workspace, eitp__cuda_attention_define_##buffers, {                                                        \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }

/* Entries with this number of buffered steps in the memory of a block. */
#define EITP__CUDA_ATTENTION_TILES(buffers)                                                                            \
    EITP__CUDA_ATTENTION_ON_TENSOR_CORES(                                                                              \
        ATTENTION, buffers, eitp__cuda_attention_workspace,                                                            \
        {"attention_rotate_kernel", 256, eitp__cuda_attention_rotate_blocks, NULL},                                    \
        {"attention_kernel", 128, eitp__cuda_attention_query_blocks, eitp__cuda_attention_shared_##buffers}),          \
        EITP__CUDA_ATTENTION_ON_TENSOR_CORES(                                                                          \
            ATTENTION_BACKWARD, buffers, eitp__cuda_attention_workspace,                                               \
            {"attention_rotate_kernel", 256, eitp__cuda_attention_rotate_blocks, NULL},                                \
            {"attention_backward_queries_kernel", 128, eitp__cuda_attention_query_blocks,                              \
             eitp__cuda_attention_shared_##buffers},                                                                   \
            {"attention_backward_keys_kernel", 128, eitp__cuda_attention_key_blocks,                                   \
             eitp__cuda_attention_shared_##buffers}),                                                                  \
        EITP__CUDA_ATTENTION_ON_TENSOR_CORES(ATTENTION_CACHED, buffers, eitp__cuda_attention_cached_queries,           \
                                             EITP__CUDA_ATTENTION_STORE,                                               \
                                             {"attention_cached_kernel", 128, eitp__cuda_attention_query_blocks,       \
                                              eitp__cuda_attention_shared_##buffers})

#define EITP__CUDA_ATTENTION_ELSEWHERE(SLOT, file, supports, workspace, ...)                                           \
    {                                                                                                                  \
        EITP__SLOT_##SLOT, EITP__CUDA_DTYPE(EITP_F32) | EITP__CUDA_HALVES, "kernels/cuda/" file, supports, workspace,  \
            eitp__cuda_attention_define, {                                                                             \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }

/* Entries for few rows, or for any number. */
#define EITP__CUDA_ATTENTION_CACHED(supports)                                                                          \
    EITP__CUDA_ATTENTION_ELSEWHERE(                                                                                    \
        ATTENTION_CACHED, "attention_cached.cu", supports, eitp__cuda_attention_cached_workspace,                      \
        EITP__CUDA_ATTENTION_STORE, {"attention_cached_kernel", 128, eitp__cuda_attention_cached_blocks, NULL},        \
        {"attention_cached_total_kernel", 128, eitp__cuda_attention_cached_total_blocks, NULL})

EITP__PRIVATE eitp__cuda_list eitp__cuda_attention(void) {
    static const eitp__cuda_kernels kernels[] = {
        EITP__CUDA_ATTENTION_CACHED(eitp__cuda_attention_cached_supports),
        EITP__CUDA_ATTENTION_TILES(2),
        EITP__CUDA_ATTENTION_TILES(1),
        EITP__CUDA_ATTENTION_ELSEWHERE(ATTENTION, "attention_general.cu", eitp__cuda_attention_general_supports, NULL,
                                       {"attention_kernel", 256, eitp__cuda_attention_general_query_blocks, NULL}),
        EITP__CUDA_ATTENTION_ELSEWHERE(
            ATTENTION_BACKWARD, "attention_general.cu", eitp__cuda_attention_general_supports,
            eitp__cuda_attention_general_workspace,
            {"attention_backward_queries_kernel", 256, eitp__cuda_attention_general_query_blocks, NULL},
            {"attention_backward_keys_kernel", 256, eitp__cuda_attention_general_key_blocks, NULL}),
        EITP__CUDA_ATTENTION_ELSEWHERE(
            ATTENTION_CACHED, "attention_general.cu", eitp__cuda_attention_general_supports,
            eitp__cuda_attention_cached_queries, EITP__CUDA_ATTENTION_STORE,
            {"attention_cached_kernel", 256, eitp__cuda_attention_general_query_blocks, NULL}),
        EITP__CUDA_ATTENTION_CACHED(NULL),
    };
    eitp__cuda_list list = {kernels, EITP__COUNT(kernels)};
    return list;
}

#endif
