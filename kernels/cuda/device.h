/*
 * Kernel language: CUDA's features under neutral names, so that the same source also compiles as plain C++ for the
 * tests' emulated device (tests/cuda/emulated.h). Only this file depends on the platform.
 *
 *   KERNEL(name, threads)      a kernel with at most that many threads per block; it takes `const eitp__launch &l`
 *   RESIDENT_KERNEL(name, threads, blocks)  the same, with registers limited so that so many blocks fit on a
 *                            multiprocessor; RESIDENT_THREADS: the threads that every multiprocessor can hold
 *   thread_index()             within the block; a launch is one-dimensional
 *   thread_count()             of a block
 *   block_index()              within its call, kernels/cuda/group.h; launched_block(), block_count(): of the launch
 *   lane(), warp_index()       of the thread: thread_index() % 32 and / 32
 *   barrier(), warp_barrier()  every thread of the block, or warp, must reach them; both order memory
 *   shuffle(value, from)       the value in that lane; of float, double, int32_t, uint32_t, int64_t, uint64_t; never
 *                              with its template argument
 *   shuffle_xor(value, mask)   the value in lane ^ mask
 *   warp_any(x), warp_all(x)   votes
 *   SHARED(type, name, count)  an array in shared memory
 *   DYNAMIC_SHARED(type, name, offset, count)  the same, in the bytes requested by the launch, at an offset
 *   global<T>, shared<T>       pointers: p[i], p + i; T may be const
 *   constant_at<T>(memory, i)  element i of an array of structs in global memory, which no kernel writes
 *   vec<T, N>                  N elements moved at once; aligned to their size, at most 16 bytes
 *   load<N>(p, i), store(p, i, v)  a vec of the elements from p[i]; i is a multiple of N, p is aligned to it
 *   load_words(w, p, i), store_words(p, i, w)  the same for eight 16-bit elements as four words, two in each
 *   atomic_add(p, value)       of uint32_t; returns the old value
 *   exp2_near(x)               exp2f within 2 units in the last place; 0 below 2^-126
 *
 * Tiles of matrices, laid out in the registers of a warp (PTX ISA, "Matrix Fragments for mma.m16n8k16"):
 *   mma<T>(d, a, b)            d [16, 8] += a [16, 16] b [16, 8]; T is bf16 or f16; d in F32
 *   load_matrix(r, p), load_matrix_transposed(r, p)   four 8 x 8 tiles of 16-bit elements; lane i has the address of
 *                              row i % 8 of tile i / 8, aligned to 16 bytes
 *   pack<T>(low, high)         two elements in a word of a tile, from F32
 *   copy_async(to, from, is_there)   starts copying 16 bytes to shared memory, or zeros
 *   copy_async_commit(), copy_async_wait<n>()   ends a group of copies; waits for all but the last n groups
 */
#ifndef EITP_CUDA_DEVICE_H
#define EITP_CUDA_DEVICE_H

#ifdef __CUDACC__

#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
typedef unsigned long uintptr_t;
#define INT64_MAX 0x7fffffffffffffffL
#define INT32_MAX 0x7fffffff
#define UINT64_MAX 0xffffffffffffffffUL
#define NAN __int_as_float(0x7fffffff)
#define INFINITY __int_as_float(0x7f800000)
#else
#include <math.h>
#include <stdint.h>
#include <string.h>
#endif

#define DEVICE_ATTRIBUTE __device__
#define DEVICE static inline __device__
#define KERNEL_OF(type, name, threads)                                                                                 \
    IF_CHOSEN(name, extern "C" __global__ void __launch_bounds__(threads) name(const __grid_constant__ type l),        \
              template <class> DEVICE void name(const type l))
#define RESIDENT_KERNEL_OF(type, name, threads, blocks)                                                                \
    IF_CHOSEN(name,                                                                                                    \
              extern "C" __global__ void __launch_bounds__(threads, blocks) name(const __grid_constant__ type l),      \
              template <class> DEVICE void name(const type l))
#define RESIDENT_THREADS (__CUDA_ARCH__ >= 800 ? 1536 : 1024)

/* With ONLY, a module has only the kernel for which ONLY_<name> is "0,", which moves `kernel` to the second place. The
   others become templates that are never instantiated. */
#ifdef ONLY
#define IF_CHOSEN(name, kernel, other) SECOND_OF(ONLY_##name kernel, other, )
#define SECOND_OF(...) SECOND(__VA_ARGS__)
#define SECOND(first, second, ...) second
#pragma nv_diag_suppress 177 /* functions that only the others call */
#else
#define IF_CHOSEN(name, kernel, other) kernel
#endif

#define SHARED(type, name, count) __shared__ alignas(16) type name[count]
#define DYNAMIC_SHARED(type, name, offset, count) type *const name = (type *)(dynamic_shared + (offset))
extern __shared__ __align__(16) unsigned char dynamic_shared[];

template <class T> using global = T *;
template <class T> using shared = T *;
template <class T> DEVICE T *global_at(const void *memory) {
    return (T *)memory;
}
template <class T> DEVICE const T &constant_at(const void *memory, int64_t i) {
    return ((const T *)memory)[i];
}

DEVICE int thread_index() {
    return (int)threadIdx.x;
}
DEVICE int thread_count() {
    return (int)blockDim.x;
}
DEVICE int64_t launched_block() {
    return (int64_t)blockIdx.x;
}
DEVICE int64_t block_count() {
    return (int64_t)gridDim.x;
}
DEVICE void barrier() {
    __syncthreads();
}
DEVICE void warp_barrier() {
    __syncwarp();
}
template <class T> DEVICE T shuffle(T value, int from) {
    return __shfl_sync(0xffffffffu, value, from);
}
template <class T> DEVICE T shuffle_xor(T value, int mask) {
    return __shfl_xor_sync(0xffffffffu, value, mask);
}
DEVICE int warp_any(int x) {
    return __any_sync(0xffffffffu, x);
}
DEVICE int warp_all(int x) {
    return __all_sync(0xffffffffu, x);
}
DEVICE uint32_t atomic_add(uint32_t *p, uint32_t value) {
    return atomicAdd(p, value);
}
DEVICE float exp2_near(float x) {
    float value;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(x));
    return value;
}

template <class T, int N> struct alignas(sizeof(T) * N) vec { T v[N]; };
/* Addresses vectors by number: compilers have split vectors addressed by element into single elements. */
template <int N> DEVICE int64_t vector_number(int64_t i) {
    return i >> (N == 16 ? 4 : N == 8 ? 3 : N == 4 ? 2 : N == 2 ? 1 : 0);
}
template <int N, class T> DEVICE vec<T, N> load(const T *p, int64_t i) {
    return ((const vec<T, N> *)p)[vector_number<N>(i)];
}
template <int N, class T> DEVICE void store(T *p, int64_t i, const vec<T, N> &v) {
    ((vec<T, N> *)p)[vector_number<N>(i)] = v;
}

template <class T> DEVICE void load_words(uint32_t w[4], const T *p, int64_t i) {
    const uint4 v = ((const uint4 *)p)[i >> 3];
    w[0] = v.x;
    w[1] = v.y;
    w[2] = v.z;
    w[3] = v.w;
}
template <class T> DEVICE void store_words(T *p, int64_t i, const uint32_t w[4]) {
    ((uint4 *)p)[i >> 3] = make_uint4(w[0], w[1], w[2], w[3]);
}

struct bf16 {
    uint16_t bits;
};
struct f16 {
    uint16_t bits;
};

DEVICE float to_float(bf16 x) {
    return __uint_as_float((uint32_t)x.bits << 16);
}
DEVICE float to_float(f16 x) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(x.bits));
    return value;
}
DEVICE void from_float(float value, f16 &x) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(x.bits) : "f"(value));
}
DEVICE void from_float(float value, bf16 &x) {
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(x.bits) : "f"(value));
#else
    uint32_t bits = __float_as_uint(value);
    x.bits = (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
#endif
}

/* ---- Tiles of matrices ---- */

/* Before sm_80, tensor cores have only F16, and tiles of half the depth. */
DEVICE void mma_of(float d[4], const uint32_t a[4], const uint32_t b[2], f16) {
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    for (int i = 0; i < 2; i++)
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[2 * i]), "r"(a[2 * i + 1]), "r"(b[i]));
#endif
}
DEVICE void mma_of(float d[4], const uint32_t a[4], const uint32_t b[2], bf16) {
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}
template <class T> DEVICE void mma(float d[4], const uint32_t a[4], const uint32_t b[2]) {
    mma_of(d, a, b, T());
}

#if __CUDA_ARCH__ >= 800
DEVICE uint32_t pack_of(float low, float high, f16) {
    uint32_t word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}
DEVICE uint32_t pack_of(float low, float high, bf16) {
    uint32_t word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}
#else
template <class T> DEVICE uint32_t pack_of(float low, float high, T) {
    T x, y;
    from_float(low, x);
    from_float(high, y);
    return (uint32_t)x.bits | (uint32_t)y.bits << 16;
}
#endif
template <class T> DEVICE uint32_t pack(float low, float high) {
    return pack_of(low, high, T());
}

DEVICE uint32_t shared_address(const void *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}
template <class T> DEVICE void load_matrix(uint32_t r[4], const T *p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(p))
                 : "memory");
}
template <class T> DEVICE void load_matrix_transposed(uint32_t r[4], const T *p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(p))
                 : "memory");
}

template <class T> DEVICE void copy_async(T *to, const T *from, int is_there) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
                 "r"(is_there ? 16 : 0)
                 : "memory");
#else
    *(uint4 *)to = is_there ? *(const uint4 *)from : make_uint4(0, 0, 0, 0);
#endif
}
DEVICE void copy_async_commit() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int n> DEVICE void copy_async_wait() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
#endif
}

#else
#define EMULATED_DEVICE "emulated.h" /* tests/cuda/ */
#include EMULATED_DEVICE
#endif

#define KERNEL(name, threads) KERNEL_OF(eitp__launch, name, threads)
#define RESIDENT_KERNEL(name, threads, blocks) RESIDENT_KERNEL_OF(eitp__launch, name, threads, blocks)

DEVICE int lane() {
    return thread_index() & 31;
}
DEVICE int warp_index() {
    return thread_index() >> 5;
}

/* ---- The element type that a module is compiled for: SCALAR is an eitp_dtype ---- */

DEVICE float to_float(float x) {
    return x;
}
DEVICE void from_float(float value, float &x) {
    x = value;
}

#ifdef SCALAR
template <int dtype> struct element_of;
template <> struct element_of<0> { typedef float type, wide; };
template <> struct element_of<1> { typedef double type, wide; };
template <> struct element_of<2> {
    typedef bf16 type;
    typedef float wide;
};
template <> struct element_of<3> {
    typedef f16 type;
    typedef float wide;
};
template <> struct element_of<4> { typedef int64_t type, wide; };
template <> struct element_of<5> { typedef int32_t type, wide; };
template <> struct element_of<6> { typedef int8_t type, wide; };
template <> struct element_of<7> { typedef uint8_t type, wide; };
template <> struct element_of<8> { typedef int16_t type, wide; };

typedef element_of<SCALAR>::type scalar;
typedef element_of<SCALAR>::wide wide; /* arithmetic type, as defined by eitp__wide */

#define IS_FLOATING (SCALAR < 4)
#define IS_HALF (SCALAR == 2 || SCALAR == 3)

#if IS_HALF
DEVICE wide to_wide(scalar x) {
    return to_float(x);
}
DEVICE scalar to_scalar(wide value) {
    scalar x;
    from_float(value, x);
    return x;
}
#else
DEVICE wide to_wide(scalar x) {
    return x;
}
DEVICE scalar to_scalar(wide value) {
    return value;
}
#endif
#endif

/* ---- Sums of a warp and of a block ---- */

/* Every lane gets the sum, added as a tree. */
template <class T> DEVICE T warp_sum(T value) {
    for (int mask = 16; mask > 0; mask /= 2)
        value += shuffle_xor(value, mask);
    return value;
}

/* Returns the larger, or NaN if either is NaN. */
template <class T> DEVICE T larger(T a, T b) {
    return a > b || a != a ? a : b;
}
template <class T> DEVICE T warp_max(T value) {
    for (int mask = 16; mask > 0; mask /= 2)
        value = larger(value, shuffle_xor(value, mask));
    return value;
}

/* Returns the sum to every thread. `scratch` has 32 elements and can be reused at once. */
template <class T> DEVICE T block_sum(T value, shared<T> scratch) {
    value = warp_sum(value);
    if (lane() == 0)
        scratch[warp_index()] = value;
    barrier();
    value = 0;
    if (lane() < (thread_count() + 31) / 32)
        value = scratch[lane()];
    value = warp_sum(value);
    barrier();
    return value;
}
template <class T> DEVICE T block_max(T value, shared<T> scratch) {
    value = warp_max(value);
    if (lane() == 0)
        scratch[warp_index()] = value;
    barrier();
    value = scratch[lane() < (thread_count() + 31) / 32 ? lane() : 0];
    value = warp_max(value);
    barrier();
    return value;
}

#endif
