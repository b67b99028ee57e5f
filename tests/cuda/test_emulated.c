/* The checks of the emulated device: kernels that break a rule end the process with a line that describes it. */
#include "tests/cuda/use_driver.h"

/* Each kernel reads or writes `data`, which has COUNT floats. The first breaks no rule. */
static const char faulty_text[] = "#include \"device.h\"\n"
                                  "struct operands { const void *data; int64_t count; };\n"
                                  "#define DATA const global<float> data = global_at<float>(l.data)\n"
                                  "KERNEL_OF(operands, good, 64) {\n"
                                  "    DATA;\n"
                                  "    SHARED(float, s, 64);\n"
                                  "    s[thread_index()] = data[thread_index()];\n"
                                  "    barrier();\n"
                                  "    data[thread_index()] = s[63 - thread_index()] + 1;\n"
                                  "}\n"
                                  "KERNEL_OF(operands, races_in_a_block, 64) {\n"
                                  "    DATA;\n"
                                  "    SHARED(float, s, 64);\n"
                                  "    s[thread_index()] = 1;\n"
                                  "    warp_barrier();\n"
                                  "    data[thread_index()] = s[63 - thread_index()];\n"
                                  "}\n"
                                  "KERNEL_OF(operands, overwrites_what_is_read, 64) {\n"
                                  "    SHARED(float, s, 64);\n"
                                  "    s[thread_index()] = 1;\n"
                                  "    barrier();\n"
                                  "    const float other = s[63 - thread_index()];\n"
                                  "    s[thread_index()] = other;\n"
                                  "}\n"
                                  "KERNEL_OF(operands, races_between_blocks, 64) {\n"
                                  "    DATA;\n"
                                  "    if (thread_index() == 0)\n"
                                  "        data[0] = (float)launched_block();\n"
                                  "}\n"
                                  "KERNEL_OF(operands, reads_what_nobody_wrote, 64) {\n"
                                  "    DATA;\n"
                                  "    SHARED(float, s, 64);\n"
                                  "    data[thread_index()] = s[thread_index()];\n"
                                  "}\n"
                                  "KERNEL_OF(operands, writes_beyond_memory, 64) {\n"
                                  "    DATA;\n"
                                  "    data[l.count + thread_index()] = 1;\n"
                                  "}\n"
                                  "KERNEL_OF(operands, leaves_an_array, 64) {\n"
                                  "    SHARED(float, s, 64);\n"
                                  "    s[thread_index() + 1] = 1;\n"
                                  "}\n"
                                  "KERNEL_OF(operands, misses_a_barrier, 64) {\n"
                                  "    if (thread_index() != 5)\n"
                                  "        barrier();\n"
                                  "}\n"
                                  "KERNEL_OF(operands, has_two_barriers, 64) {\n"
                                  "    if (thread_index() < 32)\n"
                                  "        barrier();\n"
                                  "    else\n"
                                  "        barrier();\n"
                                  "}\n"
                                  "KERNEL_OF(operands, misses_a_shuffle, 64) {\n"
                                  "    DATA;\n"
                                  "    if (thread_index() % 32 < 7)\n"
                                  "        data[thread_index()] = shuffle(1.0f, 0);\n"
                                  "}\n"
                                  "KERNEL_OF(operands, is_not_aligned, 64) {\n"
                                  "    DATA;\n"
                                  "    vec<float, 4> four = {};\n"
                                  "    if (thread_index() == 0)\n"
                                  "        store(data, 1, four);\n"
                                  "}\n"
                                  "KERNEL_OF(operands, overtakes_a_copy, 64) {\n"
                                  "    const global<const float> data = global_at<const float>(l.data);\n"
                                  "    SHARED(float, s, 64);\n"
                                  "    if (thread_index() == 0)\n"
                                  "        copy_async(s + 0, data, 1);\n"
                                  "    copy_async_commit();\n"
                                  "    barrier();\n"
                                  "    if (thread_index() == 0)\n"
                                  "        s[2] = 1;\n"
                                  "}\n"
                                  "KERNEL_OF(operands, waits_for_a_copy, 64) {\n"
                                  "    const global<const float> data = global_at<const float>(l.data);\n"
                                  "    SHARED(float, s, 64);\n"
                                  "    if (thread_index() == 0)\n"
                                  "        copy_async(s + 0, data, 1);\n"
                                  "    copy_async_commit();\n"
                                  "    copy_async_wait<0>();\n"
                                  "    barrier();\n"
                                  "    if (thread_index() == 0)\n"
                                  "        s[2] = 1;\n"
                                  "}\n";

typedef struct faulty_arguments {
    CUdeviceptr data;
    int64_t count;
} faulty_arguments;

static char *faulty_image;

static char *read_text(const char *path) {
    FILE *file = fopen(path, "rb");
    char *text = (char *)calloc(1, 1 << 20);
    if (file && !fread(text, 1, (1 << 20) - 1, file))
        *text = '\0';
    if (file)
        fclose(file);
    return text;
}

static int compile_faulty(void) {
    static const char *const options[] = {"--gpu-architecture=sm_86", "-default-device"};
    static const char *const names[] = {"device.h"};
    char *header = read_text("kernels/cuda/device.h"), *log;
    const char *headers[] = {header};
    nvrtcProgram program = NULL;
    size_t size = 0;
    const nvrtcResult created = cu.nvrtcCreateProgram(&program, faulty_text, "faulty.cu", 1, headers, names);
    const nvrtcResult compiled = created ? created : cu.nvrtcCompileProgram(program, 2, options);
    if (!compiled && !cu.nvrtcGetCUBINSize(program, &size)) {
        faulty_image = (char *)malloc(size);
        cu.nvrtcGetCUBIN(program, faulty_image);
    } else if (!created && !cu.nvrtcGetProgramLogSize(program, &size)) {
        log = (char *)calloc(1, size + 1);
        cu.nvrtcGetProgramLog(program, log);
        printf("%.4000s\n", log);
        free(log);
    }
    cu.nvrtcDestroyProgram(&program);
    free(header);
    return faulty_image != NULL;
}

static const char *kernel_name;

/* One block, or two that race. */
static void launch_kernel(fixture *f) {
    CUmodule module = NULL;
    CUfunction function = NULL;
    faulty_arguments arguments = {f->x, COUNT};
    void *parameters[] = {&arguments};
    if (cu.cuModuleLoadData(&module, faulty_image) || cu.cuModuleGetFunction(&function, module, kernel_name) ||
        cu.cuLaunchKernel(function, strcmp(kernel_name, "races_between_blocks") ? 1 : 2, 1, 1, 64, 1, 1, 0, f->a,
                          parameters, NULL) ||
        cu.cuStreamSynchronize(f->a)) {
        fprintf(stderr, "%s is not launched", kernel_name);
        abort();
    }
}

#define CHECK_RULE(kernel, text)                                                                                       \
    do {                                                                                                               \
        kernel_name = kernel;                                                                                          \
        CHECK_ENDS(launch_kernel, text);                                                                               \
    } while (0)

static void what_breaks_no_rule_runs(void) {
    static const char *const kernels[] = {"good", "waits_for_a_copy"};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        kernel_name = kernels[i];
        CHECK_THAT(!*last_words(launch_kernel), "%s: %s", kernels[i], last_words(launch_kernel));
    }
}

static void races_are_seen(void) {
    CHECK_RULE("races_in_a_block", "without a barrier between");
    CHECK_RULE("overwrites_what_is_read", "without a barrier between");
    CHECK_RULE("races_between_blocks", "an element of global memory is written");
    CHECK_RULE("overtakes_a_copy", "a copy that nobody waited for");
}

static void bounds_are_seen(void) {
    CHECK_RULE("reads_what_nobody_wrote", "which nobody wrote");
    CHECK_RULE("writes_beyond_memory", "outside every allocation");
    CHECK_RULE("leaves_an_array", "element 64 of an array of 64");
    CHECK_RULE("is_not_aligned", "not aligned");
}

static void threads_that_do_not_meet_are_seen(void) {
    CHECK_RULE("misses_a_barrier", "wait for them at a barrier");
    CHECK_RULE("has_two_barriers", "barrier");
    CHECK_RULE("misses_a_shuffle", "threads");
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(what_breaks_no_rule_runs),
        TEST(races_are_seen),
        TEST(bounds_are_seen),
        TEST(threads_that_do_not_meet_are_seen),
    };
    open_driver();
    return compile_faulty() ? RUN_TESTS(tests, argc, argv) : 1;
}
