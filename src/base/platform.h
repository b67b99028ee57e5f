/* Compiler and system definitions for the implementation. Every private header includes this file first. */
#ifndef EITP_PLATFORM_H
#define EITP_PLATFORM_H

#include "base/base.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/posix.h"

#define EITP__UNUSED __attribute__((unused))
#define EITP__PRINTF(text, first) __attribute__((format(printf, text, first)))

/*
 * Linkage of functions shared between modules: extern when modules are compiled separately; in eitp.h static, or hidden
 * in a part of it. There, functions not called by another part are EITP__LOCAL. Tests of the packed header define both
 * as extern, to call them.
 */
#ifdef EITP_SPLIT
#define EITP__PRIVATE extern
#elif !defined(EITP__PRIVATE) && defined(EITP_PART)
#define EITP__PRIVATE extern __attribute__((visibility("hidden")))
#elif !defined(EITP__PRIVATE)
#define EITP__PRIVATE static EITP__UNUSED
#endif
#ifndef EITP__LOCAL
#define EITP__LOCAL static EITP__UNUSED
#endif

/* An all-zero initialiser: C11 lacks `{}`, and C++ compilers warn about `{0}`. */
#ifdef __cplusplus
#define EITP__ZERO                                                                                                     \
    {}
#define EITP__RESTRICT __restrict__
#else
#define EITP__ZERO                                                                                                     \
    { 0 }
#define EITP__RESTRICT restrict
#endif

/* 1 for each instruction set that is excluded from the build. */
#ifndef EITP_WITHOUT_AVX2
#define EITP_WITHOUT_AVX2 0
#endif
#ifndef EITP_WITHOUT_AVX512
#define EITP_WITHOUT_AVX512 0
#endif
#ifndef EITP_WITHOUT_AVX512BF16
#define EITP_WITHOUT_AVX512BF16 0
#endif
#ifndef EITP_WITHOUT_AMX
#define EITP_WITHOUT_AMX 0
#endif

#define EITP__WITH_CUDA (!EITP_WITHOUT_CUDA)

#if defined(__x86_64__)
#define EITP__WITH_AVX2 (!EITP_WITHOUT_AVX2)
#define EITP__WITH_AVX512 (!EITP_WITHOUT_AVX512)
#else
#define EITP__WITH_AVX2 0
#define EITP__WITH_AVX512 0
#endif
#define EITP__WITH_AVX512BF16 (EITP__WITH_AVX512 && !EITP_WITHOUT_AVX512BF16)
#define EITP__WITH_AMX (EITP__WITH_AVX512 && !EITP_WITHOUT_AMX)

#ifdef _OPENMP
#define EITP__WITH_OPENMP 1
#else
#define EITP__WITH_OPENMP 0
#endif

/* Alignment of all allocations and of tensors in the arena: a cache line and an AVX-512 register. */
#define EITP__ALIGNMENT ((size_t)64)

#define EITP__COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
