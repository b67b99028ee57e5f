#include "backends/cpu/features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* XCR0: the register state that the operating system saves. */
static uint64_t eitp__extended_control(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return ((uint64_t)high << 32) | low;
}

enum {
    EITP__XCR0_AVX = 0x06,     /* SSE and AVX state */
    EITP__XCR0_AVX512 = 0xe6,  /* plus mask registers, upper halves, registers 16 to 31 */
    EITP__XCR0_TILES = 0x60000 /* tile configuration and data */
};

/* Bits of CPUID that older compilers have no names for: the first of leaf 7.1, EAX, the others of leaf 7.0, EDX. */
enum {
    EITP__CPUID_AVX512BF16 = 1 << 5,
    EITP__CPUID_AMX_BF16 = 1 << 22,
    EITP__CPUID_AVX512_FP16 = 1 << 23,
    EITP__CPUID_AMX_TILE = 1 << 24
};

/* Linux lets a process use tiles after it asks: arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA). */
static int eitp__may_use_tiles(void) {
#if defined(__linux__)
    return syscall(SYS_arch_prctl, 0x1023L, 18L) == 0;
#else
    return 0;
#endif
}

static int eitp__has_avx2(void) {
    const uint32_t needed = bit_FMA | bit_F16C | bit_OSXSAVE;
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & needed) != needed)
        return 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX2) &&
           (eitp__extended_control() & EITP__XCR0_AVX) == EITP__XCR0_AVX;
}

static int eitp__has_avx512(void) {
    const uint32_t needed = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;
    uint32_t a, b, c, d;
    return eitp__has_avx2() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & needed) == needed &&
           (eitp__extended_control() & EITP__XCR0_AVX512) == EITP__XCR0_AVX512;
}

static int eitp__has_avx512bf16(void) {
    uint32_t a, b, c, d;
    return eitp__has_avx512() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & EITP__CPUID_AVX512BF16);
}

static int eitp__has_amx(void) {
    const uint32_t needed = EITP__CPUID_AMX_BF16 | EITP__CPUID_AMX_TILE;
    uint32_t a, b, c, d;
    return eitp__has_avx512bf16() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & needed) == needed &&
           (eitp__extended_control() & EITP__XCR0_TILES) == EITP__XCR0_TILES && eitp__may_use_tiles();
}

EITP__PRIVATE int eitp__has_slow_pairs(void) {
    uint32_t a, b, c, d;
    return __get_cpuid(0, &a, &b, &c, &d) && b == signature_INTEL_ebx && c == signature_INTEL_ecx &&
           d == signature_INTEL_edx && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & EITP__CPUID_AVX512_FP16);
}

#else

EITP__PRIVATE int eitp__has_slow_pairs(void) {
    return 0;
}

static int eitp__has_none(void) {
    return 0;
}

#define eitp__has_avx2 eitp__has_none
#define eitp__has_avx512 eitp__has_none
#define eitp__has_avx512bf16 eitp__has_none
#define eitp__has_amx eitp__has_none

#endif

static int eitp__has_ref(void) {
    return 1;
}

static const struct {
    const char *name;
    int in_build;
    int (*on_machine)(void);
} eitp__isa_table[EITP__ISA_COUNT] = {
#define EITP__ISA_ROW(isa, name, in_build, f32, bf16, group) {#name, in_build, eitp__has_##name},
    EITP__ISAS(EITP__ISA_ROW)
#undef EITP__ISA_ROW
};

EITP__PRIVATE int eitp__isa_in_build(eitp__isa isa) {
    return eitp__isa_table[isa].in_build;
}

EITP__PRIVATE int eitp__isa_available(eitp__isa isa) {
    return eitp__isa_table[isa].in_build && eitp__isa_table[isa].on_machine();
}

EITP__PRIVATE const char *eitp__isa_name(eitp__isa isa) {
    return eitp__isa_table[isa].name;
}

EITP__PRIVATE eitp__isa eitp__fastest_isa(unsigned available, int has_slow_pairs) {
    int best = EITP__ISA_COUNT - 1;
    while (!(available & 1u << best) || (best == EITP__ISA_AVX512BF16 && has_slow_pairs))
        best--;
    return (eitp__isa)best;
}
