/*
 * 16-bit kernels for slots that have only an F32 kernel. A few items at a time are converted to F32 in the workspace,
 * the F32 kernel computes there, and its results are rounded once.
 */
#ifndef EITP_NARROW_H
#define EITP_NARROW_H

#include "kernels/kernels.h"

typedef struct eitp__wide_kernel {
    eitp__slot slot;
    eitp__kernel_function run; /* F32, without a workspace */
} eitp__wide_kernel;

/* F32 kernels and conversions of a kernel set. The conversions are equivalent to eitp__convert_to_f32 and _from_f32. */
typedef struct eitp__narrow_set {
    const eitp__wide_kernel *kernels;
    size_t count;
    void (*widen)(eitp_dtype dtype, const void *from, float *to, size_t count);
    void (*narrow)(eitp_dtype dtype, const float *from, void *to, size_t count);
} eitp__narrow_set;

EITP__PRIVATE void eitp__run_narrow(const eitp__narrow_set *set, const eitp__call *call, int64_t begin, int64_t end,
                                    void *workspace);

EITP__PRIVATE size_t eitp__narrow_workspace(const eitp__call *call);

/* Registers the kernels of a set: directly for F32, and for 16-bit dtypes as `run`, which calls eitp__run_narrow. */
EITP__PRIVATE void eitp__register_narrow(eitp__kernel_table *table, const eitp__narrow_set *set, const char *name,
                                         eitp__kernel_function run);

/* Converts a 16-bit element to F32. */
static inline EITP__UNUSED float eitp__widen_element(eitp_dtype dtype, uint16_t bits) {
    return dtype == EITP_BF16 ? eitp__bf16_to_f32(bits) : eitp__f16_to_f32(bits);
}

static inline EITP__UNUSED uint16_t eitp__narrow_element(eitp_dtype dtype, float value) {
    return dtype == EITP_BF16 ? eitp__f32_to_bf16(value) : eitp__f32_to_f16(value);
}

#endif
