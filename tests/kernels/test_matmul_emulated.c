/* The matrix product and the head with emulated instructions, for sets that this machine may lack. */
#include "tests/support/emulated.h"

#include <stdio.h>

#if HAS_EMULATION

#include "tests/support/products.h"

int main(int argc, char **argv) {
    static const test_case tests[] = {TEST(test_sizes),       TEST(test_epilogues), TEST(test_batches),
                                      TEST(test_lower_rank),  TEST(test_empty),     TEST(test_head),
                                      TEST(test_accumulation)};
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        printf("    skipped: emulation needs AVX2\n0 passed, 0 failed\n");
        return 0;
    }
    is_quick = 1;
    for (int i = EITP__ISA_AVX512; i < EITP__ISA_COUNT; i++) {
        product_set *set = &sets[set_count++];
        set->name = eitp__isa_name((eitp__isa)i);
        set->step = i == EITP__ISA_AMX ? 32 : i == EITP__ISA_AVX512BF16 ? 2 : 1;
        emulated_register_sets(&set->table, (eitp__isa)i);
        printf("    tested, emulated: %s\n", set->name);
    }
    return RUN_TESTS(tests, argc, argv);
}

#else

int main(void) {
    printf("    skipped: emulation needs gcc on x86-64, and modules compiled separately\n0 passed, 0 failed\n");
    return 0;
}

#endif
