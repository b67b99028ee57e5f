/* The cases of test_attention.c on the set avx512 with emulated instructions, on any x86 machine with AVX2. */
#define TEST_EMULATED 1
#include "tests/kernels/test_attention.c"
