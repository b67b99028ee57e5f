#include "backends/cpu/features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* XCR0: which register state the operating system saves. */
static uint64_t eitp__extended_control(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return ((uint64_t)high << 32) | low;
}

enum {
    EITP__XCR0_AVX = 0x06,     /* SSE and AVX state */
    EITP__XCR0_AVX512 = 0xe6,  /* and mask registers, upper halves, registers 16 to 31 */
    EITP__XCR0_TILES = 0x60000 /* configuration and data of tiles */
};

/* Bits of CPUID that compilers of the time have no names for: leaf 7.1, EAX; leaf 7.0, EDX. */
enum { EITP__CPUID_AVX512BF16 = 1 << 5, EITP__CPUID_AMX_BF16 = 1 << 22, EITP__CPUID_AMX_TILE = 1 << 24 };

/* Linux gives tiles to a process that asks: arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA). */
static int eitp__may_use_tiles(void) {
#if defined(__linux__)
    return syscall(SYS_arch_prctl, 0x1023L, 18L) == 0;
#else
    return 0;
#endif
}

EITP__PRIVATE int eitp__isa_available(eitp__isa isa) {
    uint32_t a, b, c, d, needed, amx;
    uint64_t control;
    if (isa == EITP__ISA_REF)
        return 1;
    if (!__get_cpuid(1, &a, &b, &c, &d))
        return 0;
    needed = bit_FMA | bit_F16C | bit_OSXSAVE;
    if ((c & needed) != needed || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2))
        return 0;
    control = eitp__extended_control();
    if (isa == EITP__ISA_AVX2)
        return (control & EITP__XCR0_AVX) == EITP__XCR0_AVX;
    needed = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;
    if ((b & needed) != needed || (control & EITP__XCR0_AVX512) != EITP__XCR0_AVX512)
        return 0;
    if (isa == EITP__ISA_AVX512)
        return 1;
    amx = d;
    if (!__get_cpuid_count(7, 1, &a, &b, &c, &d) || !(a & EITP__CPUID_AVX512BF16))
        return 0;
    if (isa == EITP__ISA_AVX512BF16)
        return 1;
    needed = EITP__CPUID_AMX_BF16 | EITP__CPUID_AMX_TILE;
    return isa == EITP__ISA_AMX && (amx & needed) == needed && (control & EITP__XCR0_TILES) == EITP__XCR0_TILES &&
           eitp__may_use_tiles();
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
