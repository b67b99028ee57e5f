#include "backends/cpu/features.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* XCR0: which register state the operating system saves. */
static uint64_t eitp__extended_control(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return ((uint64_t)high << 32) | low;
}

enum {
    EITP__XCR0_AVX = 0x06,   /* SSE and AVX state */
    EITP__XCR0_AVX512 = 0xe6 /* and mask registers, upper halves, registers 16 to 31 */
};

EITP__PRIVATE int eitp__isa_available(eitp__isa isa) {
    uint32_t a, b, c, d, has_arithmetic, osxsave, needed;
    uint64_t control;
    if (isa == EITP__ISA_REF)
        return 1;
    if (!__get_cpuid(1, &a, &b, &c, &d))
        return 0;
    has_arithmetic = (c & (bit_FMA | bit_F16C)) == (bit_FMA | bit_F16C);
    osxsave = c & bit_OSXSAVE;
    if (!has_arithmetic || !osxsave || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2))
        return 0;
    control = eitp__extended_control();
    if (isa == EITP__ISA_AVX2)
        return (control & EITP__XCR0_AVX) == EITP__XCR0_AVX;
    if (isa > EITP__ISA_AVX512)
        return 0;
    needed = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;
    return (b & needed) == needed && (control & EITP__XCR0_AVX512) == EITP__XCR0_AVX512;
}

#else

EITP__PRIVATE int eitp__isa_available(eitp__isa isa) {
    return isa == EITP__ISA_REF;
}

#endif

EITP__PRIVATE const char *eitp__isa_name(eitp__isa isa) {
    static const char *const names[EITP__ISA_COUNT] = {"ref", "avx2", "avx512", "avx512bf16", "amx"};
    return names[isa];
}
