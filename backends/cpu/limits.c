#include "backends/cpu/limits.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/threads.h"
#include "kernels/peak/peak.h"

#define EITP__LIMITS_ROUNDS 20000              /* rounds of a peak loop per piece */
#define EITP__LIMITS_PIECES 8                  /* pieces per thread */
#define EITP__LIMITS_ARRAYS 4                  /* arrays read by an update, which writes all but the last */
#define EITP__LIMITS_BLOCK ((size_t)256 << 10) /* bytes of an array per piece */
#define EITP__LIMITS_SHIFT 1088                /* bytes of offset, so that arrays do not collide in cache sets */

#define EITP__LIMITS_LARGEST ((size_t)256 << 20)
#define EITP__LIMITS_SMALLEST ((size_t)16 << 20)
#define EITP__LIMITS_SECONDS 0.3
#define EITP__PEAK_SECONDS 0.02

/* A vector supported by every 64-bit processor; compilers emulate it elsewhere. */
typedef uint64_t eitp__limits_vector __attribute__((vector_size(16)));

typedef struct eitp__limits_work {
    eitp__peak peak;
    char *buffer;
    size_t array; /* bytes from one array to the next */
} eitp__limits_work;

static void eitp__limits_products(void *argument, int64_t piece, int thread) {
    const eitp__limits_work *work = (const eitp__limits_work *)argument;
    const uint32_t halves = 0x3f003f00u; /* two bf16 of 0.5, or an f32 of about 0.5 */
    float scratch[EITP__PEAK_SCRATCH];
    volatile float result;
    (void)piece;
    (void)thread;
    for (size_t i = 0; i < EITP__COUNT(scratch); i++)
        memcpy(&scratch[i], &halves, sizeof halves);
    work->peak.run(EITP__LIMITS_ROUNDS, scratch);
    result = scratch[0]; /* keeps the compiler from removing the loop */
    (void)result;
}

static eitp__limits_vector *eitp__limits_block(const eitp__limits_work *work, int64_t piece) {
    return (eitp__limits_vector *)(void *)(work->buffer + (size_t)piece * EITP__LIMITS_BLOCK);
}

#define EITP__LIMITS_VECTORS (EITP__LIMITS_BLOCK / sizeof(eitp__limits_vector))

static void eitp__limits_read(void *argument, int64_t piece, int thread) {
    const eitp__limits_vector *p = eitp__limits_block((const eitp__limits_work *)argument, piece);
    eitp__limits_vector a = p[0], b = p[1], c = p[2], d = p[3];
    volatile uint64_t result;
    (void)thread;
    for (size_t i = 4; i < EITP__LIMITS_VECTORS; i += 4) {
        a ^= p[i];
        b ^= p[i + 1];
        c ^= p[i + 2];
        d ^= p[i + 3];
    }
    a ^= b ^ c ^ d;
    result = a[0] ^ a[1];
    (void)result;
}

/* Uses alternating vectors, so that no compiler replaces the loop by memset, which may bypass the caches. */
static void eitp__limits_write(void *argument, int64_t piece, int thread) {
    eitp__limits_vector *p = eitp__limits_block((const eitp__limits_work *)argument, piece);
    const eitp__limits_vector one = {1, 1}, two = {2, 2};
    (void)thread;
    for (size_t i = 0; i < EITP__LIMITS_VECTORS; i += 2) {
        p[i] = one;
        p[i + 1] = two;
    }
}

/* The memory accesses of AdamW: parameter, moments and gradient, with trivial arithmetic. */
static void eitp__limits_update(void *argument, int64_t piece, int thread) {
    const eitp__limits_work *work = (const eitp__limits_work *)argument;
    const size_t array = work->array / sizeof(eitp__limits_vector);
    eitp__limits_vector *EITP__RESTRICT parameter = eitp__limits_block(work, piece);
    eitp__limits_vector *EITP__RESTRICT m = parameter + array;
    eitp__limits_vector *EITP__RESTRICT v = m + array;
    const eitp__limits_vector *EITP__RESTRICT gradient = v + array;
    (void)thread;
    for (size_t i = 0; i < EITP__LIMITS_VECTORS; i++) {
        eitp__limits_vector g = gradient[i], new_m = m[i] + g, new_v = v[i] ^ g;
        m[i] = new_m;
        v[i] = new_v;
        parameter[i] += new_m ^ new_v;
    }
}

/* Repeats all pieces for at least this many seconds. Returns the best rate: `amount` per second. */
static double eitp__limits_rate(int threads, int64_t pieces, void (*run)(void *argument, int64_t piece, int thread),
                                eitp__limits_work *work, double amount, double seconds) {
    double best = 0, began = eitp__clock(), before = began, after;
    for (int times = 0; times < 3 || before - began < seconds; times++) {
        eitp__parallel(threads, pieces, run, work);
        after = eitp__clock();
        if (after > before && amount / (after - before) > best)
            best = amount / (after - before);
        before = after;
    }
    return best;
}

/* Returns the arithmetic rate of products, or 0 if their dtype has no benchmark loop. */
static double eitp__limits_flops(int threads, const eitp__peak *peak, double seconds) {
    const int64_t pieces = (int64_t)threads * EITP__LIMITS_PIECES;
    eitp__limits_work work = EITP__ZERO;
    work.peak = *peak;
    return peak->run ? eitp__limits_rate(threads, pieces, eitp__limits_products, &work,
                                         (double)pieces * EITP__LIMITS_ROUNDS * peak->flops, seconds)
                     : 0;
}

/* Dtypes that share the loop of F32 get the same result. */
static void eitp__limits_all_flops(int threads, eitp__isa isa, eitp__backend_limits *limits) {
    const eitp__peak single = eitp__peak_of(isa, EITP_F32);
    for (int dtype = 0; dtype < EITP_DTYPE_COUNT; dtype++) {
        const eitp__peak peak = eitp__peak_of(isa, (eitp_dtype)dtype);
        limits->flops[dtype] = dtype != EITP_F32 && peak.run && peak.run == single.run
                                   ? limits->flops[EITP_F32]
                                   : eitp__limits_flops(threads, &peak, EITP__LIMITS_SECONDS);
    }
}

EITP__PRIVATE double eitp__limits_peak(int threads, eitp__isa isa, eitp_dtype dtype) {
    const eitp__peak peak = eitp__peak_of(isa, dtype);
    return eitp__limits_flops(threads, &peak, EITP__PEAK_SECONDS);
}

static void eitp__limits_bandwidth(int threads, eitp__limits_work *work, size_t size, eitp__backend_limits *limits) {
    int64_t pieces = (int64_t)(size / EITP__LIMITS_BLOCK);
    double bytes = (double)pieces * EITP__LIMITS_BLOCK;
    limits->read = eitp__limits_rate(threads, pieces, eitp__limits_read, work, bytes, EITP__LIMITS_SECONDS);
    limits->write = eitp__limits_rate(threads, pieces, eitp__limits_write, work, bytes, EITP__LIMITS_SECONDS);
    work->array = size / EITP__LIMITS_ARRAYS - EITP__LIMITS_SHIFT;
    pieces = (int64_t)(work->array / EITP__LIMITS_BLOCK);
    bytes = (double)pieces * EITP__LIMITS_BLOCK * (2 * EITP__LIMITS_ARRAYS - 1);
    limits->update = eitp__limits_rate(threads, pieces, eitp__limits_update, work, bytes, EITP__LIMITS_SECONDS);
    /* Reading and writing alone are at least as fast as the reads and writes of an update. */
    bytes = limits->update / (2 * EITP__LIMITS_ARRAYS - 1);
    if (limits->read < bytes * EITP__LIMITS_ARRAYS)
        limits->read = bytes * EITP__LIMITS_ARRAYS;
    if (limits->write < bytes * (EITP__LIMITS_ARRAYS - 1))
        limits->write = bytes * (EITP__LIMITS_ARRAYS - 1);
}

EITP__PRIVATE eitp_status eitp__limits_measure(const eitp_host *host, int threads, eitp__isa isa,
                                               eitp__backend_limits *limits, eitp_error *error) {
    eitp__limits_work work = EITP__ZERO;
    size_t size = EITP__LIMITS_LARGEST;
    memset(limits, 0, sizeof *limits);
    eitp__limits_all_flops(threads, isa, limits);
    work.buffer = (char *)eitp__allocate(host, size);
    while (!work.buffer && size > EITP__LIMITS_SMALLEST) {
        size /= 2;
        work.buffer = (char *)eitp__allocate(host, size);
    }
    if (!work.buffer)
        return eitp__fail_memory(error, size, "measuring the bandwidth of memory");
    eitp__limits_bandwidth(threads, &work, size, limits);
    eitp__release(host, work.buffer, size);
    return EITP_OK;
}
