/* The choice of kernel sets on different processors. */
#include "tests/support/everything.h"

#include "tests/support/test.h"

static void the_last_available_set_is_the_fastest(void) {
    for (int last = 0; last < EITP__ISA_COUNT; last++)
        CHECK((int)eitp__fastest_isa((2u << last) - 1, 0) == last);
    CHECK(eitp__fastest_isa(1u << EITP__ISA_REF | 1u << EITP__ISA_AVX512, 0) == EITP__ISA_AVX512);
}

/* Emerald Rapids in a virtual machine without AMX: 170 GFLOP/s in pairs of BF16, 355 in F32. */
static void slow_pairs_are_passed_over(void) {
    const unsigned pairs = (2u << EITP__ISA_AVX512BF16) - 1;
    CHECK(eitp__fastest_isa(pairs, 1) == EITP__ISA_AVX512);
    CHECK(eitp__fastest_isa(pairs | 1u << EITP__ISA_AMX, 1) == EITP__ISA_AMX);
    CHECK(eitp__fastest_isa(1u << EITP__ISA_REF | 1u << EITP__ISA_AVX2, 1) == EITP__ISA_AVX2);
    CHECK(eitp__fastest_isa(1u << EITP__ISA_REF | 1u << EITP__ISA_AVX512BF16, 1) == EITP__ISA_REF);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {TEST(the_last_available_set_is_the_fastest), TEST(slow_pairs_are_passed_over)};
    return RUN_TESTS(tests, argc, argv);
}
