/* The cases of test_factored.c on the set avx512, on any machine: its instructions are emulated. */
#define TEST_EMULATED 1
#include "tests/test_factored.c"
