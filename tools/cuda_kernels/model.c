/*
 * The expected time of a launch: the shortest kernel in a graph, and the longest of
 *   arithmetic  operations at the rate that kernels of this kind reach, in waves of as many blocks as are resident
 *   memory      bytes at the rate that copies reach
 *   latency     the same waves, each with the steps of a block's loop, one after another
 * A product of cuBLASLt has its own start, and the split of its sums with the shortest time.
 */
#include "cuda_kernels.h"

/* ---- Loops ---- */

/* Returns how often a block executes the loop. */
typedef double loop_steps(const eitp__call *call);

/* Returns the number of groups of `each` elements. The last one may have fewer. */
static double groups_of(const eitp__operand *x, int64_t each) {
    return ceil((double)x->elements / (double)each);
}

static double once(const eitp__call *call) {
    (void)call;
    return 1;
}

static int64_t terms_of(const eitp__call *call) {
    const int64_t results = call->outputs[0].elements;
    return results ? call->inputs[0].elements / results : 0;
}

static double each_term(const eitp__call *call) {
    return (double)terms_of(call);
}

static double four_terms(const eitp__call *call) {
    return ceil((double)terms_of(call) / 4);
}

/* 256 threads, eight reads at a time. */
static double row_terms(const eitp__call *call) {
    const double terms = (double)terms_of(call);
    return ceil((terms < 16384 ? terms : 16384) / 2048);
}

static double each_element(const eitp__call *call) {
    return groups_of(&call->inputs[0], 1);
}

/* A block of EITP__SUM_BLOCK elements: 256 threads, four reads at a time. */
static double square_reads(const eitp__call *call) {
    const double all = groups_of(&call->inputs[0], 1024);
    return all < 16 ? all : 16;
}

/* The same with 1024 threads that read four elements. */
static double update_reads(const eitp__call *call) {
    const double all = groups_of(&call->inputs[0], 4096);
    return all < 4 ? all : 4;
}

/* Rows of a chunk: 8 warps read four each. There are at most 128 chunks. */
static double chunk_reads(const eitp__call *call) {
    const double rows = (double)eitp__cuda_input_rows(call) / 128;
    return ceil((rows > 32 ? rows : 32) / 32);
}

/* Blocks of a row of logits, which 8 warps share. */
static double head_blocks(const eitp__call *call) {
    return ceil((double)eitp__operand_columns(&call->inputs[1]) / 8);
}

/* Parts of 8 logits of a row, which 512 threads share. */
static double logit_reads(const eitp__call *call) {
    return ceil((double)eitp__row_stride_of(&call->inputs[0]) / (8 * 512));
}

/* Bitonic sort of 2048 keys: 11 * 12 / 2 stages. */
static double sort_stages(const eitp__call *call) {
    (void)call;
    return 66;
}

/* A binary search in each other part of 2048 keys. */
static double merge_probes(const eitp__call *call) {
    return 11 * (groups_of(&call->inputs[0], 2048) - 1);
}

static double search_probes(const eitp__call *call) {
    return ceil(log2((double)call->inputs[0].elements + 1));
}

/* 64 rows, four at a time. */
static double piece_reads(const eitp__call *call) {
    (void)call;
    return 16;
}

/*
 * The loops of kernels that few blocks execute, or with long steps. In each step, accesses to memory, to the L2 cache
 * and to shared memory, and additions of the slot's wide dtype wait for each other. Other kernels have a single step,
 * which is part of every launch. Registers per thread: `make cuda-kernels ARCH=90`.
 */
typedef struct kernel_loop {
    const char *kernel;
    int registers;
    loop_steps *steps;
    double memory, cache, shared, additions;
} kernel_loop;

enum { USUAL_REGISTERS = 48 };

static const kernel_loop loops[] = {
    {"sum_columns_kernel", 94, each_term, 0, 0, 0, 1},
    {"sum_kernel", 62, four_terms, 1, 0, 0, 0},
    {"sum_rows_kernel", 64, row_terms, 1, 0, 0, 0},
    {"sum_squares_kernel", 16, square_reads, 1, 0, 0, 0},
    {"total_kernel", USUAL_REGISTERS, each_element, 8.0 / 2048, 0, 0, 2}, /* an addition in F64 */
    {"layer_norm_kernel", 40, once, 1, 2, 0, 0},
    {"layer_norm_backward_input_kernel", 40, once, 1, 1, 0, 0},
    {"layer_norm_backward_parameters_chunks_kernel", 60, chunk_reads, 1, 0, 0, 0},
    {"layer_norm_backward_parameters_kernel", 30, chunk_reads, 0, 1, 0, 0},
    {"head_loss_kernel", USUAL_REGISTERS, once, 1, 1, 0, 0},
    {"head_backward_kernel", 32, head_blocks, 1, 0, 0, 0},
    {"head_loss_backward_kernel", 40, logit_reads, 1, 1, 0, 0},
    {"embedding_backward_sort_kernel", 32, sort_stages, 0, 0, 2, 0},
    {"embedding_backward_merge_kernel", 21, merge_probes, 0, 1, 0, 0},
    {"embedding_backward_pieces_kernel", 44, piece_reads, 1, 0, 0, 0},
    {"embedding_backward_kernel", 48, search_probes, 0, 1, 0, 0},
    {"update_adamw_kernel", 63, update_reads, 1, 0, 0, 0},
    {"attention_kernel", 238, NULL, 0, 0, 0, 0},
    {"attention_backward_queries_kernel", 168, NULL, 0, 0, 0, 0},
    {"attention_backward_keys_kernel", 222, NULL, 0, 0, 0, 0},
    {"head_kernel", 242, NULL, 0, 0, 0, 0},
};

static const kernel_loop *loop_of(const char *kernel) {
    for (size_t i = 0; i < EITP__COUNT(loops); i++)
        if (!strcmp(loops[i].kernel, kernel))
            return &loops[i];
    return NULL;
}

/* ---- Waves ---- */

static double cycle_of(int device) {
    return 1e-6 / device_speed_of(device, SPEED_CLOCK);
}

/* Returns the blocks that all multiprocessors hold at once. */
static double resident_blocks(int device, const cuda_launch *launch, int registers) {
    const processor *p = device_processor(device);
    const int threads = launch->stage->threads;
    return (double)p->count * processor_warps(p, threads, registers, launch->shared) / ((threads + 31) / 32);
}

static double waves_of(int device, const cuda_launch *launch, int registers) {
    return ceil((double)launch->blocks / resident_blocks(device, launch, registers));
}

static double latency_of(int device, const cuda_launch *launch, const eitp__call *call) {
    const kernel_loop *loop = loop_of(launch->stage->kernel);
    const int is_double = eitp__wide(call->dtype) == EITP_F64;
    double step;
    if (!loop || !loop->steps)
        return 0;
    step = 1e-9 * (loop->memory * device_speed_of(device, SPEED_MEMORY_LATENCY) +
                   loop->cache * device_speed_of(device, SPEED_CACHE_LATENCY)) +
           cycle_of(device) * (loop->shared * device_speed_of(device, SPEED_SHARED_LATENCY) +
                               loop->additions * device_speed_of(device, is_double ? SPEED_ADD_DOUBLE : SPEED_ADD));
    return step * loop->steps(call) * waves_of(device, launch, loop->registers);
}

/* ---- Products ---- */

static double mma_rate(int device) {
    return device_tensor_rate(device) * device_speed_of(device, SPEED_MMA);
}

/* Reads a number from definitions such as "TILE_M=128". Returns 0 if it is missing. */
static int defined(const char *definitions, const char *name) {
    const char *at = strstr(definitions, name);
    return at ? atoi(at + strlen(name)) : 0;
}

/*
 * Time of tiles on tensor cores. The resident tiles of a multiprocessor share its rate, and each waits for its first
 * step and stores its sums.
 */
static double tiles_time(int device, const cuda_launch *launch, const eitp__call *call) {
    const eitp__matmul sizes = eitp__matmul_sizes(call);
    const eitp__product_parts parts = eitp__product_parts_of(call);
    const double k = (double)(parts.count > 1 ? parts.size : sizes.k);
    char definitions[EITP__CUDA_DEFINITIONS];
    int rows, columns, is_large;
    double share, resident;
    eitp__cuda_definitions(launch->kernels, call, definitions);
    rows = defined(definitions, "TILE_M=");
    columns = defined(definitions, "TILE_N=") + defined(definitions, "HEAD_BLOCK=");
    is_large = rows == 128 && !defined(definitions, "SHIFTED=");
    share = device_speed_of(device, is_large ? SPEED_LARGE_TILE : SPEED_SMALL_TILE);
    resident = resident_blocks(device, launch, is_large ? 242 : 96);
    return ceil((double)launch->blocks / resident) * (resident * 2 * rows * columns * k / (mma_rate(device) * share) +
                                                      2e-9 * device_speed_of(device, SPEED_MEMORY_LATENCY));
}

/*
 * Returns the ratio of the pairs of rows in the tiles of causal attention to the pairs that attend: a tile of queries
 * computes every step of keys that one of them attends to.
 */
static double causal_padding(const eitp__call *call) {
    const eitp__attention_sizes sizes = eitp__attention_sizes_of(call);
    const int is_backward = call->slot == EITP__SLOT_ATTENTION_BACKWARD;
    const int64_t rows = EITP__ATTENTION_ROWS(is_backward, sizes.width), longest = call->integers[1];
    const int64_t step = EITP__ATTENTION_STEP(is_backward, sizes.width);
    double pairs = 0;
    if (call->integers[3] || sizes.window != INT64_MAX)
        return 1;
    for (int64_t first = 0; first < longest; first += rows)
        pairs += (double)(rows * ((first + rows + step - 1) / step * step));
    return pairs / ((double)longest * (double)(longest + 1) / 2);
}

/* The products of attention's kernels, of 16-bit numbers. */
static const struct {
    const char *kernel;
    int products;
} attention_products[] = {
    {"attention_kernel", 2}, {"attention_backward_queries_kernel", 3}, {"attention_backward_keys_kernel", 4}};

/* The op counts 2 products forward and 5 backward. */
static double attention_time(int device, const char *kernel, const launch_work *work) {
    const int is_backward = work->call->slot == EITP__SLOT_ATTENTION_BACKWARD;
    const double share = device_speed_of(device, is_backward ? SPEED_ATTENTION_BACKWARD : SPEED_ATTENTION);
    for (size_t i = 0; i < EITP__COUNT(attention_products); i++)
        if (!strcmp(attention_products[i].kernel, kernel))
            return work->flops / (is_backward ? 5 : 2) * attention_products[i].products * causal_padding(work->call) /
                   (mma_rate(device) * share);
    return 0;
}

static int is_kernel_of(const cuda_launch *launch, const char *file) {
    return launch->kernels && !strcmp(launch->kernels->file, file);
}

static double arithmetic_of(int device, const cuda_launch *launch, const launch_work *work) {
    const char *kernel = launch->stage->kernel;
    if (is_kernel_of(launch, "kernels/cuda/products.cu") && strcmp(kernel, "matmul_parts_kernel") != 0)
        return tiles_time(device, launch, work->call);
    if (is_kernel_of(launch, "kernels/cuda/attention.cu"))
        return attention_time(device, kernel, work);
    if (is_kernel_of(launch, "kernels/cuda/products_fma.cu") ||
        is_kernel_of(launch, "kernels/cuda/attention_general.cu"))
        stop("%s without tensor cores has no model of its time", kernel);
    return 0;
}

/* ---- cuBLASLt ---- */

static double memory_rate(int device) {
    return 1e12 * device_speed_of(device, SPEED_MEMORY) * device_speed_of(device, SPEED_MEMORY_REACHED);
}

/* True if every row of the matrices starts at a multiple of 16 bytes. */
static int is_aligned(const eitp__call *call) {
    const eitp__matmul sizes = eitp__matmul_sizes(call);
    const int64_t unit = 16 / (int64_t)eitp_dtype_size(call->dtype);
    return sizes.lda % unit == 0 && sizes.ldb % unit == 0 && eitp__row_stride_of(&call->outputs[0]) % unit == 0;
}

/* Returns the shortest time over tiles and splits of k: waves of tiles, and the traffic of sums in parts. */
static double blas_arithmetic(int device, const eitp__call *call) {
    static const int tiles[][2] = {{128, 256}, {256, 128}, {128, 128}};
    const eitp__matmul sizes = eitp__matmul_sizes(call);
    const double processors = device_processor(device)->count;
    const double rate = 1e12 * device_speed_of(device, SPEED_BLAS) *
                        (is_aligned(call) ? 1 : device_speed_of(device, SPEED_BLAS_UNALIGNED));
    double best = HUGE_VAL;
    for (size_t t = 0; t < EITP__COUNT(tiles); t++)
        for (int parts = 1; parts == 1 || (parts <= 8 && sizes.k / parts >= 1024); parts++) {
            const double blocks =
                (double)sizes.batch * ceil((double)sizes.m / tiles[t][0]) * ceil((double)sizes.n / tiles[t][1]) * parts;
            const double tile = 2.0 * tiles[t][0] * tiles[t][1] * ceil((double)sizes.k / parts);
            const double sums = parts > 1 ? 8.0 * parts * (double)(sizes.batch * sizes.m * sizes.n) : 0;
            best = fmin(best, ceil(blocks / processors) * processors * tile / rate + sums / memory_rate(device));
        }
    return best;
}

/* ---- A launch ---- */

/* The parts of a launch's time, in seconds. */
typedef struct launch_parts {
    double start, arithmetic, memory, latency;
} launch_parts;

static launch_parts parts_of(int device, const cuda_launch *launch, const launch_work *work) {
    launch_parts parts;
    parts.start = 1e-6 * device_speed_of(device, launch->kernels ? SPEED_LAUNCH : SPEED_BLAS_START);
    parts.memory = work->bytes / memory_rate(device);
    parts.arithmetic = launch->kernels ? arithmetic_of(device, launch, work) : blas_arithmetic(device, work->call);
    parts.latency = launch->kernels ? latency_of(device, launch, work->call) : 0;
    return parts;
}

static expected_time time_of(const launch_parts *parts) {
    const double body = fmax(parts->arithmetic, fmax(parts->memory, parts->latency));
    expected_time time;
    time.seconds = parts->start + body;
    time.bound = parts->start >= body     ? BOUND_LAUNCH
                 : parts->latency >= body ? BOUND_LATENCY
                 : parts->memory >= body  ? BOUND_MEMORY
                                          : BOUND_ARITHMETIC;
    return time;
}

expected_time expect_launch(int device, const cuda_launch *launch, const launch_work *work) {
    const launch_parts parts = parts_of(device, launch, work);
    return time_of(&parts);
}

/* A call of a chain waits for its argument and its operands, which are in the L2 cache. */
expected_time expect_group(int device, const cuda_launch *launch, const launch_work *works, int count, int is_chain) {
    const double link = 2e-9 * device_speed_of(device, SPEED_CACHE_LATENCY);
    launch_parts all = {0, 0, 0, 0};
    for (int i = 0; i < count; i++) {
        const launch_parts one = parts_of(device, launch, &works[i]);
        all.start = one.start;
        all.arithmetic += one.arithmetic;
        all.memory += one.memory;
        all.latency = is_chain ? all.latency + link + one.latency : fmax(all.latency, one.latency);
    }
    return time_of(&all);
}
