/*
 * The test framework. A test is a function. A test program runs the tests whose names contain argv[1], or all tests,
 * prints a line for each failed test, and at the end "N passed, N failed". Environment:
 *   EITP_TEST_QUICK   fewer cases in sweeps and lists of variants, for builds whose tests another build runs in full
 *   EITP_TEST_COARSE  multiplies the strides of sweeps by this number, up to the strides of EITP_TEST_QUICK
 *   EITP_TEST_TIMES   prints the processor seconds of each test, excluding its child processes
 */
#ifndef EITP_TEST_H
#define EITP_TEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A file without main that is linked into a test program defines TEST_PART before including this file. */
#ifdef TEST_PART
extern int test_failures_;
#else
int test_failures_; /* of the running test */
#endif

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            printf("    %s:%d: CHECK(%s)\n", __FILE__, __LINE__, #condition);                                          \
            test_failures_++;                                                                                          \
        }                                                                                                              \
    } while (0)

/* Like CHECK, with a formatted explanation. */
#define CHECK_THAT(condition, ...)                                                                                     \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            printf("    %s:%d: CHECK(%s): ", __FILE__, __LINE__, #condition);                                          \
            printf(__VA_ARGS__);                                                                                       \
            printf("\n");                                                                                              \
            test_failures_++;                                                                                          \
        }                                                                                                              \
    } while (0)

/* Like CHECK, but a failure ends the test: for conditions that the rest of the test depends on. */
#define REQUIRE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            printf("    %s:%d: REQUIRE(%s)\n", __FILE__, __LINE__, #condition);                                        \
            test_failures_++;                                                                                          \
            return;                                                                                                    \
        }                                                                                                              \
    } while (0)

#define REQUIRE_OK(call, error)                                                                                        \
    do {                                                                                                               \
        if ((call) != EITP_OK) {                                                                                       \
            printf("    %s:%d: %s: %s\n", __FILE__, __LINE__, #call, (error).message);                                 \
            test_failures_++;                                                                                          \
            return;                                                                                                    \
        }                                                                                                              \
    } while (0)

#ifndef TEST_PART

#define TEST_UNUSED __attribute__((unused))

static TEST_UNUSED int test_is_quick(void) {
    return getenv("EITP_TEST_QUICK") != NULL;
}

/* Returns the stride of a sweep: `usual`, or `quick` if few cases suffice, or a value between them. */
static TEST_UNUSED long test_stride(long usual, long quick) {
    const char *coarse = getenv("EITP_TEST_COARSE");
    const long longer = coarse ? usual * atol(coarse) : usual;
    if (test_is_quick())
        return quick;
    return usual >= quick ? usual : longer < quick ? longer : quick;
}

typedef struct test_case {
    const char *name;
    void (*run)(void);
} test_case;

#define TEST(function)                                                                                                 \
    { #function, function }

static TEST_UNUSED int run_tests(const test_case *tests, size_t count, int argc, char **argv) {
    const int is_timed = getenv("EITP_TEST_TIMES") != NULL;
    int passed = 0, failed = 0;
    for (size_t i = 0; i < count; i++) {
        if (argc > 1 && !strstr(tests[i].name, argv[1]))
            continue;
        const clock_t began = clock();
        test_failures_ = 0;
        tests[i].run();
        if (is_timed)
            printf("%8.2f s  %s\n", (double)(clock() - began) / CLOCKS_PER_SEC, tests[i].name);
        if (test_failures_) {
            printf("FAILED %s\n", tests[i].name);
            failed++;
        } else {
            passed++;
        }
        fflush(stdout);
    }
    if (argc > 1 && !passed && !failed) {
        printf("FAILED no test has '%s' in its name\n", argv[1]);
        failed = 1;
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}

#define RUN_TESTS(tests, argc, argv) run_tests(tests, sizeof(tests) / sizeof((tests)[0]), argc, argv)

#endif

#endif
