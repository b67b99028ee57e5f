/* The emulated NVRTC: options, headers, errors, and that nothing is compiled twice. */
#include "tests/cuda/use_driver.h"

#include <sys/stat.h>

static char folder[64];

/* Compiles a program and keeps the log in `log`. */
static nvrtcResult compile(const char *text, const char *name, const char *header, const char *header_name, int count,
                           const char *const *options, char *log, size_t log_size, size_t *image_size) {
    nvrtcProgram program = NULL;
    size_t size = 0;
    nvrtcResult result = cu.nvrtcCreateProgram(&program, text, name, header ? 1 : 0, header ? &header : NULL,
                                               header ? &header_name : NULL);
    if (result)
        return result;
    result = cu.nvrtcCompileProgram(program, count, options);
    *log = '\0';
    if (!cu.nvrtcGetProgramLogSize(program, &size) && size <= log_size)
        CHECK(!cu.nvrtcGetProgramLog(program, log) && strlen(log) + 1 == size);
    *image_size = 0;
    if (!result)
        CHECK(!cu.nvrtcGetCUBINSize(program, image_size));
    CHECK(!cu.nvrtcDestroyProgram(&program) && !program);
    return result;
}

static void versions_are_told(void) {
    int major = 0, minor = -1, count = 0, architectures[64];
    CHECK(!cu.nvrtcVersion(&major, &minor) && major == 13 && minor == 0);
    CHECK(!cu.nvrtcGetNumSupportedArchs(&count) && count > 5 && count < 64);
    CHECK(!cu.nvrtcGetSupportedArchs(architectures) && architectures[0] == 75 && architectures[2] == 86);
}

static void headers_and_options_are_used(void) {
    static const char header[] = "#include \"emulated_launch.h\"\nstatic_assert(VALUE == 7 && OTHER == 8, \"\");\n"
                                 "static_assert(EMULATED_ARCH == 860, \"\");\n";
    static const char *const options[] = {"--gpu-architecture=sm_86",
                                          "-DVALUE=7",
                                          "--define-macro=OTHER=8",
                                          "--std=c++17",
                                          "-lineinfo",
                                          "--use_fast_math",
                                          "-default-device",
                                          "-D",
                                          "UNUSED",
                                          "--fmad=false"};
    size_t size;
    char log[2048];
    CHECK_THAT(!compile("#include \"a/b/header.h\"\n", "sub/x.cu", header, "a/b/header.h", 10, options, log, sizeof log,
                        &size),
               "%s", log);
    CHECK(size > 1000);
}

static void errors_are_told(void) {
    static const char *const unknown[] = {"--gpu-architecture=sm_86", "--wonder"};
    static const char *const missing[] = {"--gpu-architecture=sm_61"};
    size_t size;
    char log[4096];
    CHECK(compile("int f() { return nothing; }\n", "x.cu", NULL, NULL, 1, unknown, log, sizeof log, &size) ==
          NVRTC_ERROR_COMPILATION);
    CHECK_THAT(strstr(log, "x.cu:1:") && strstr(log, "nothing"), "%s", log);
    CHECK(compile("\n", "x.cu", NULL, NULL, 2, unknown, log, sizeof log, &size) == NVRTC_ERROR_INVALID_OPTION);
    CHECK_THAT(strstr(log, "--wonder"), "%s", log);
    CHECK(compile("\n", "x.cu", NULL, NULL, 1, missing, log, sizeof log, &size) == NVRTC_ERROR_INVALID_OPTION);
    CHECK(compile("\n", "x.cu", "", "../up.h", 0, NULL, log, sizeof log, &size) == NVRTC_ERROR_INVALID_INPUT);
    CHECK(compile("static int unused() { int a; return 1; }\n", "x.cu", NULL, NULL, 0, NULL, log, sizeof log, &size) ==
          NVRTC_SUCCESS);
    CHECK_THAT(strstr(log, "unused variable"), "%s", log);
    CHECK(size == 0); /* for compute_75 there is only PTX */
    CHECK(cu.emulated_nvrtc_live() == 0);
}

/* The same sources and options are compiled once, and a warning is reported each time. */
static void nothing_is_compiled_twice(void) {
    static const char *const options[] = {"-arch=sm_86", "-DVALUE=1"};
    static const char *const others[] = {"-arch=sm_86", "-DVALUE=2", "-default-device"};
    static const char text[] = "static int unused() { int a; return VALUE; }\n";
    const unsigned long before = cu.emulated_nvrtc_compilations();
    size_t size, again;
    char log[2048], log_again[2048];
    CHECK(!compile(text, "x.cu", NULL, NULL, 2, options, log, sizeof log, &size) && size);
    CHECK(!compile(text, "x.cu", NULL, NULL, 2, options, log_again, sizeof log_again, &again) && size == again);
    CHECK(!strcmp(log, log_again) && strstr(log, "unused variable"));
    CHECK(cu.emulated_nvrtc_compilations() == before + 1);
    CHECK(!compile(text, "x.cu", NULL, NULL, 3, others, log, sizeof log, &size));
    CHECK(cu.emulated_nvrtc_compilations() == before + 2);
    CHECK(!compile(text, "x.cu", "", "other.h", 3, others, log, sizeof log, &size));
    CHECK(cu.emulated_nvrtc_compilations() == before + 3);
    CHECK(compile(text, "x.cu", "", "another.h", 2, others, log, sizeof log, &size) == NVRTC_ERROR_INVALID_OPTION);
    CHECK(!compile(text, "x.cu", "", "another.h", 3, others, log, sizeof log, &size));
    CHECK(cu.emulated_nvrtc_compilations() == before + 4);
}

static void *compile_in_thread(void *user) {
    static const char *const options[] = {"-arch=sm_86"};
    char log[2048];
    nvrtcProgram program = NULL;
    size_t size = 0;
    int *is_good = (int *)user;
    (void)log;
    *is_good = !cu.nvrtcCreateProgram(&program, "extern \"C\" int both() { return 3; }\n", "both.cu", 0, NULL, NULL) &&
               !cu.nvrtcCompileProgram(program, 1, options) && !cu.nvrtcGetCUBINSize(program, &size) && size > 1000 &&
               !cu.nvrtcDestroyProgram(&program);
    return NULL;
}

static void threads_compile_side_by_side(void) {
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    int is_good[THREADS] = {0, 0, 0, 0};
    for (int i = 0; i < THREADS; i++)
        REQUIRE(!pthread_create(&threads[i], NULL, compile_in_thread, &is_good[i]));
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK(is_good[i]);
    }
}

static void calls_fail_as_told(void) {
    nvrtcProgram program = NULL;
    setenv("EITP_EMULATED_NVRTC_FAIL", "nvrtcCompileProgram:1:6", 1);
    CHECK(!cu.nvrtcCreateProgram(&program, "\n", NULL, 0, NULL, NULL));
    CHECK(cu.nvrtcCompileProgram(program, 0, NULL) == NVRTC_ERROR_COMPILATION);
    CHECK(!cu.nvrtcCompileProgram(program, 0, NULL));
    setenv("EITP_EMULATED_NVRTC_FAIL", "1", 1);
    CHECK(cu.nvrtcDestroyProgram(&program) == NVRTC_ERROR_INTERNAL_ERROR && !program);
    CHECK(!cu.nvrtcCreateProgram(&program, "\n", NULL, 0, NULL, NULL));
    unsetenv("EITP_EMULATED_NVRTC_FAIL");
    CHECK(!cu.nvrtcDestroyProgram(&program) && cu.emulated_nvrtc_live() == 0);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(versions_are_told),         TEST(headers_and_options_are_used), TEST(errors_are_told),
        TEST(nothing_is_compiled_twice), TEST(threads_compile_side_by_side), TEST(calls_fail_as_told),
    };
    char command[96];
    int result;
    open_driver();
    snprintf(folder, sizeof folder, "/tmp/eitp-test-nvrtc-XXXXXX");
    if (!mkdtemp(folder))
        return 1;
    setenv("EITP_EMULATED_CACHE", folder, 1); /* an empty one */
    result = RUN_TESTS(tests, argc, argv);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) || result;
}
