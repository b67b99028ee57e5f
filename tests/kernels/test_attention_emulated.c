/* The cases of test_attention.c with the avx512 set and emulated instructions, on any x86 machine with AVX2. */
#define TEST_EMULATED 1
#include "tests/kernels/test_attention.c"
