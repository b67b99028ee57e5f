/*
 * The emulated driver guarantees what CUDA promises and no more: queued work runs late, only streams and events order
 * it, and misuse ends the process.
 */
#include "tests/cuda/use_driver.h"

/* ---- Devices and contexts ---- */

static CUresult initialize_with(const char *name, const char *value) {
    setenv(name, value, 1);
    cu.emulated_cuda_restart();
    unsetenv(name);
    return cu.cuInit(0);
}

static void devices_are_those_of_the_environment(void) {
    CUdevice device = -1;
    CUuuid uuid, other;
    char name[32] = "";
    size_t bytes = 0;
    int value = 0;
    CHECK(initialize_with("CUDA_VISIBLE_DEVICES", "") == CUDA_ERROR_NO_DEVICE);
    CHECK(cu.cuDeviceGetCount(&value) == CUDA_ERROR_NOT_INITIALIZED);
    CHECK(initialize_with("CUDA_VISIBLE_DEVICES", "-1") == CUDA_ERROR_NO_DEVICE);
    CHECK(initialize_with("EITP_EMULATED_CUDA_DEVICES", "0") == CUDA_ERROR_NO_DEVICE);
    CHECK(!initialize_with("EITP_EMULATED_CUDA_DEVICES", "3") && !cu.cuDeviceGetCount(&value) && value == 3);
    CHECK(!cu.cuDeviceGetUuid_v2(&uuid, 0) && !cu.cuDeviceGetUuid_v2(&other, 1) && memcmp(&uuid, &other, 16));
    setenv("EITP_EMULATED_CUDA_DEVICES", "4", 1);
    CHECK(!initialize_with("CUDA_VISIBLE_DEVICES", "2,1,9,0") && !cu.cuDeviceGetCount(&value) && value == 2);
    unsetenv("EITP_EMULATED_CUDA_DEVICES");
    CHECK(!cu.cuDeviceGet(&device, 0) && !cu.cuDeviceGetName(name, sizeof name, device));
    CHECK_THAT(!strcmp(name, "Emulated GPU 2"), "%s", name);
    CHECK(!cu.cuDeviceGetPCIBusId(name, sizeof name, device) && !strcmp(name, "0000:0C:00.0"));
    CHECK(cu.cuDeviceGetPCIBusId(name, 12, device) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cu.cuDeviceGet(&device, 2) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(!initialize_with("EITP_EMULATED_CUDA_CAPABILITY", "7.5") && !cu.cuDeviceGetAttribute(&value, 75, 0) &&
          value == 7 && !cu.cuDeviceGetAttribute(&value, 76, 0) && value == 5 &&
          !cu.cuDeviceGetAttribute(&value, 97, 0) && value == 65536);
    CHECK(!initialize_with("EITP_EMULATED_CUDA_VERSION", "12040") && !cu.cuDriverGetVersion(&value) && value == 12040);
    CHECK(!initialize_with("EITP_EMULATED_CUDA_MEMORY", "1000000") && !cu.cuDeviceTotalMem_v2(&bytes, 0) &&
          bytes == 1000000);
    cu.emulated_cuda_restart();
    CHECK(!cu.cuInit(0) && !cu.cuDeviceGetAttribute(&value, 16, 0) && value == 4 &&
          !cu.cuDeviceGetAttribute(&value, 97, 0) && value == 101376);
    CHECK(cu.cuDeviceGetAttribute(&value, 1000, 0) == CUDA_ERROR_INVALID_VALUE);
}

static void errors_have_names(void) {
    const char *text = NULL;
    CHECK(!cu.cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text) && !strcmp(text, "CUDA_ERROR_OUT_OF_MEMORY"));
    CHECK(!cu.cuGetErrorString(CUDA_ERROR_LAUNCH_FAILED, &text) && strlen(text) > 5);
    CHECK(cu.cuGetErrorName((CUresult)12345, &text) == CUDA_ERROR_INVALID_VALUE && !text);
}

static void calls_need_a_context(void) {
    CUcontext context = NULL, popped = NULL;
    CUdeviceptr memory = 0;
    CUstream stream = NULL;
    cu.emulated_cuda_restart();
    CHECK(cu.cuDevicePrimaryCtxRetain(&context, 0) == CUDA_ERROR_NOT_INITIALIZED);
    CHECK(cu.cuMemAlloc_v2(&memory, 16) == CUDA_ERROR_NOT_INITIALIZED);
    CHECK(!cu.cuInit(0) && cu.cuMemAlloc_v2(&memory, 16) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(cu.cuStreamCreate(&stream, 0) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(!cu.cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cu.cuCtxSynchronize() == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(!cu.cuCtxPushCurrent_v2(context) && !cu.cuCtxSynchronize() && !cu.cuCtxGetCurrent(&popped) &&
          popped == context);
    CHECK(!cu.cuCtxPopCurrent_v2(&popped) && popped == context);
    CHECK(cu.cuCtxPopCurrent_v2(&popped) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(!cu.cuCtxSetCurrent(context) && !cu.cuDevicePrimaryCtxRelease_v2(0));
    CHECK(cu.cuCtxSynchronize() == CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CHECK(!cu.cuCtxSetCurrent(NULL) && cu.cuDevicePrimaryCtxRelease_v2(0) == CUDA_ERROR_INVALID_CONTEXT);
}

/* ---- Memory ---- */

static void memory_is_limited_and_aligned(void) {
    CUdeviceptr first = 0, second = 0;
    unsigned char byte = 0;
    size_t available = 0, total = 0;
    fixture f;
    setenv("EITP_EMULATED_CUDA_MEMORY", "1073741824", 1);
    REQUIRE(begin(&f));
    unsetenv("EITP_EMULATED_CUDA_MEMORY");
    CHECK(f.x % 512 == 0 && f.x % 1024);
    CHECK(cu.cuMemAlloc_v2(&first, 1073741824) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(cu.cuMemAlloc_v2(&first, SIZE_MAX) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(cu.cuMemAlloc_v2(&first, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(!cu.cuMemAlloc_v2(&first, 1000000000));
    CHECK(!cu.cuMemGetInfo_v2(&available, &total) && total == 1073741824 && available < 73741824 &&
          available > 73000000);
    CHECK(cu.cuMemAlloc_v2(&second, available + 1) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(!cu.cuMemcpyDtoH_v2(&byte, first + 999999999, 1) && byte == 0xff);
    CHECK(!cu.cuMemcpyHtoD_v2(first + 999999999, "7", 1) && !cu.cuMemcpyDtoH_v2(&byte, first + 999999999, 1) &&
          byte == '7');
    CHECK(!cu.cuMemFree_v2(first) && !cu.cuMemAlloc_v2(&second, 1000000000) && !cu.cuMemFree_v2(second));
    CHECK(first != second);
    CHECK(end(&f));
}

static void copies_move_bytes(void) {
    float values[COUNT];
    fixture f;
    REQUIRE(begin(&f));
    for (int i = 0; i < COUNT; i++)
        values[i] = (float)i;
    CHECK(!cu.cuMemcpyHtoD_v2(f.x, values, SIZE) && !cu.cuMemcpyDtoDAsync_v2(f.y, f.x, SIZE, f.a) &&
          !cu.cuMemsetD8Async(f.y, 0x40, 4, f.a) && !cu.cuMemsetD32Async(f.y + 4, 0x3f800000, 1, f.a));
    memset(values, 0, sizeof values);
    CHECK(!cu.cuMemcpyDtoHAsync_v2(values, f.y, SIZE, f.a));
    CHECK(values[0] > 3.003f && values[0] < 3.005f && values[1] == 1 && values[2] == 2 && values[COUNT - 1] == 999);
    CHECK(cu.cuMemsetD32Async(f.y + 2, 0, 1, f.a) == CUDA_ERROR_INVALID_VALUE);
    CHECK(!cu.cuMemcpyDtoHAsync_v2(NULL, f.y, 0, f.a));
    CHECK(end(&f));
}

/* Pageable memory is read at the call, pinned memory when the copy is executed. */
static void pinned_copies_are_late(void) {
    float pageable[COUNT] = {1};
    unsigned bits;
    fixture f;
    REQUIRE(begin(&f));
    memcpy(&bits, &f.pinned[COUNT - 1], sizeof bits);
    CHECK(bits == 0xffffffff); /* uninitialized memory is NaN */
    f.pinned[0] = 1;
    CHECK(!cu.cuMemcpyHtoDAsync_v2(f.x, pageable, SIZE, f.a) && !cu.cuMemcpyHtoDAsync_v2(f.y, f.pinned, SIZE, f.a));
    pageable[0] = f.pinned[0] = 2;
    CHECK(!cu.cuStreamSynchronize(f.a) && !cu.cuMemcpyDtoHAsync_v2(pageable, f.x, SIZE, f.a) && pageable[0] == 1);
    CHECK(!cu.cuMemcpyDtoHAsync_v2(pageable, f.y, SIZE, f.a) && pageable[0] == 2);
    CHECK(!cu.cuMemcpyDtoHAsync_v2(f.pinned, f.x, SIZE, f.a) && f.pinned[0] == 2);
    CHECK(!cu.cuStreamSynchronize(f.a) && f.pinned[0] == 1);
    CHECK(end(&f));
}

/* A copy that the host waits for acts like one on the default stream, which waits for blocking streams. */
static void blocking_streams_are_before_copies(void) {
    float value = 0;
    CUstream blocking = NULL;
    fixture f;
    REQUIRE(begin(&f));
    for (int i = 0; i < 20; i++) {
        CHECK(!cu.cuStreamCreate(&blocking, CU_STREAM_DEFAULT) && !launch_step(&f, blocking, f.x, 0, (float)i));
        CHECK(!cu.cuMemcpyDtoH_v2(&value, f.x, 4) && value == (float)i && !cu.cuStreamDestroy_v2(blocking));
    }
    CHECK(end(&f));
}

/* ---- Order ---- */

static void kernels_are_late_and_in_order(void) {
    fixture f;
    REQUIRE(begin(&f));
    for (int i = 0; i < 500; i++)
        CHECK(!launch_step(&f, f.a, f.x, i % 2 ? 0.5f : 4.0f, 1)); /* the two steps give another result in any other
                                                                      order */
    for (int i = 0; i < 500; i++)
        CHECK(!launch_step(&f, f.b, f.y, 0, (float)i));
    CHECK(cu.emulated_cuda_launches() < 1000);
    CHECK(read_first(f.b, f.y) == 499);
    for (int i = 0; i < 4; i++)
        CHECK(!launch_step(&f, f.a, f.x, 0, (float)i) && !launch_step(&f, f.a, f.x, 2, 1));
    CHECK(read_first(f.a, f.x) == 7 && cu.emulated_cuda_launches() >= 1008);
    CHECK(end(&f));
}

/* Returns y after a kernel of stream b has read a value written by one of stream a. */
static float read_beside(const char *seed, int has_event) {
    float value;
    fixture f;
    setenv("EITP_EMULATED_CUDA_SEED", seed, 1);
    if (!begin(&f))
        return -1;
    unsetenv("EITP_EMULATED_CUDA_SEED");
    launch_step(&f, f.a, f.x, 0, 5);
    if (has_event)
        CHECK(!cu.cuEventRecord(f.event, f.a) && !cu.cuStreamWaitEvent(f.b, f.event, 0));
    launch_step(&f, f.a, f.x, 1, 2); /* after the event; may be seen too */
    launch_with(f.step, f.b, f.y, f.x, 0, 0);
    value = read_first(f.b, f.y);
    CHECK(end(&f));
    return value;
}

static void events_alone_order_streams(void) {
    int seen[3] = {0, 0, 0}, seen_with[3] = {0, 0, 0};
    for (int i = 0; i < 40; i++) {
        char seed[16];
        float value;
        snprintf(seed, sizeof seed, "%d", i);
        value = read_beside(seed, 0);
        seen[value == 0 ? 0 : value == 5 ? 1 : 2]++;
        value = read_beside(seed, 1);
        seen_with[value == 0 ? 0 : value == 5 ? 1 : 2]++;
    }
    CHECK_THAT(seen[0] && seen[1] && seen[2], "%d %d %d", seen[0], seen[1], seen[2]);
    CHECK_THAT(!seen_with[0] && seen_with[1] && seen_with[2], "%d %d %d", seen_with[0], seen_with[1], seen_with[2]);
}

static void events_are_asked_and_measured(void) {
    float milliseconds = -1;
    CUevent untimed;
    int asked = 0;
    fixture f;
    REQUIRE(begin(&f));
    CHECK(!cu.cuEventQuery(f.event) && !cu.cuEventSynchronize(f.event) && !cu.cuStreamWaitEvent(f.a, f.event, 0));
    CHECK(!cu.cuEventRecord(f.event, f.a) && !launch_step(&f, f.a, f.x, 1, 1) && !cu.cuEventRecord(f.other_event, f.a));
    CHECK(cu.cuEventElapsedTime(&milliseconds, f.event, f.other_event) == CUDA_ERROR_NOT_READY);
    CHECK(cu.cuStreamQuery(f.a) == CUDA_ERROR_NOT_READY);
    while (cu.cuEventQuery(f.other_event) == CUDA_ERROR_NOT_READY && asked < 1000)
        asked++;
    CHECK_THAT(asked && asked < 1000, "%d", asked);
    CHECK(!cu.cuEventElapsedTime_v2(&milliseconds, f.event, f.other_event) && milliseconds >= 0);
    CHECK(!cu.cuStreamQuery(f.a) && !cu.cuStreamQuery(f.b));
    CHECK(!cu.cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING) && !cu.cuEventRecord(untimed, f.a) &&
          !cu.cuEventSynchronize(untimed));
    CHECK(cu.cuEventElapsedTime(&milliseconds, f.event, untimed) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(!cu.cuEventDestroy_v2(untimed));
    CHECK(end(&f));
}

/* A wait refers to the latest record at the time of the wait call. */
static void events_are_recorded_again(void) {
    fixture f;
    REQUIRE(begin(&f));
    CHECK(!launch_step(&f, f.a, f.x, 0, 1) && !cu.cuEventRecord(f.event, f.a) &&
          !cu.cuStreamWaitEvent(f.b, f.event, 0));
    CHECK(!launch_with(f.step, f.b, f.y, f.x, 0, 0) && !cu.cuEventRecord(f.other_event, f.b) &&
          !cu.cuStreamWaitEvent(f.a, f.other_event, 0) && !launch_step(&f, f.a, f.x, 0, 2) &&
          !cu.cuEventRecord(f.event, f.a) && !cu.cuStreamWaitEvent(f.b, f.event, 0));
    CHECK(!launch_with(f.step, f.b, f.y, f.x, 10, 0));
    CHECK(read_first(f.b, f.y) == 12);
    CHECK(end(&f));
}

static void count_call(void *user) {
    ++*(int *)user;
}

static void host_functions_are_late(void) {
    int calls = 0;
    fixture f;
    REQUIRE(begin(&f));
    CHECK(!cu.cuLaunchHostFunc(f.a, count_call, &calls) && calls == 0);
    CHECK(!cu.cuStreamSynchronize(f.a) && calls == 1);
    CHECK(!cu.cuLaunchHostFunc(f.b, count_call, &calls) && !cu.cuStreamDestroy_v2(f.b) && !cu.cuCtxSynchronize() &&
          calls == 2);
    CHECK(!cu.cuStreamCreate(&f.b, CU_STREAM_NON_BLOCKING));
    CHECK(end(&f));
}

/* ---- Modules ---- */

static void modules_are_checked(void) {
    static const char damaged[128] = "no module";
    step_arguments arguments = {0, 0, 0, 0, 0};
    void *parameters[] = {&arguments};
    CUmodule module = NULL, again = NULL;
    CUfunction function = NULL;
    int value = 0;
    fixture f;
    REQUIRE(begin(&f));
    arguments.data = f.x;
    CHECK(cu.cuModuleLoadData(&module, damaged) == CUDA_ERROR_INVALID_IMAGE);
    CHECK(!cu.cuModuleLoadDataEx(&again, kernel_image, 0, NULL, NULL));
    CHECK(cu.cuModuleGetFunction(&function, f.module, "absent") == CUDA_ERROR_NOT_FOUND);
    CHECK(!cu.cuModuleGetFunction(&function, f.module, "step") && function == f.step);
    CHECK(!cu.cuModuleGetFunction(&function, again, "step") && function != f.step);
    CHECK(!cu.cuModuleUnload(again));
    CHECK(cu.cuLaunchKernel(f.step, 1, 1, 1, 1025, 1, 1, 0, f.a, parameters, NULL) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cu.cuLaunchKernel(f.step, 1, 1, 1, 32, 1, 65, 0, f.a, parameters, NULL) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cu.cuLaunchKernel(f.step, 1, 65536, 1, 32, 1, 1, 0, f.a, parameters, NULL) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cu.cuLaunchKernel(f.step, 0, 1, 1, 32, 1, 1, 0, f.a, parameters, NULL) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cu.cuLaunchKernel(f.step, 1, 1, 1, 32, 1, 1, 49153, f.a, parameters, NULL) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cu.cuFuncSetAttribute(f.step, 8, 101377) == CUDA_ERROR_INVALID_VALUE);
    CHECK(!cu.cuFuncSetAttribute(f.step, 8, 101376) && !cu.cuFuncGetAttribute(&value, 8, f.step) && value == 101376);
    CHECK(!cu.cuLaunchKernel(f.step, 1, 1, 1, 32, 1, 1, 101376, f.a, parameters, NULL));
    CHECK(!cu.cuFuncGetAttribute(&value, 0, f.step) && value == 1024);
    CHECK(end(&f));
}

/* ---- Broken rules ---- */

static void use_the_default_stream(fixture *f) {
    cu.cuMemsetD8Async(f->x, 0, 4, NULL);
}

static void free_queued_memory(fixture *f) {
    launch_step(f, f->a, f->x, 1, 1);
    cu.cuMemFree_v2(f->x);
}

static void free_copied_memory(fixture *f) {
    cu.cuMemcpyDtoDAsync_v2(f->y, f->x, 4, f->a);
    cu.cuMemFree_v2(f->y);
}

static void free_twice(fixture *f) {
    cu.cuMemFree_v2(f->x);
    cu.cuMemFree_v2(f->x);
}

static void copy_too_much(fixture *f) {
    cu.cuMemcpyDtoDAsync_v2(f->y + 4, f->x, SIZE, f->a);
}

static void release_queued_pinned(fixture *f) {
    cu.cuMemcpyHtoDAsync_v2(f->x, f->pinned, SIZE, f->a);
    cu.cuMemFreeHost(f->pinned);
}

static void copy_beyond_pinned(fixture *f) {
    cu.cuMemcpyHtoDAsync_v2(f->x, f->pinned + 1, SIZE, f->a);
}

static void unload_queued_module(fixture *f) {
    launch_step(f, f->a, f->x, 1, 1);
    cu.cuModuleUnload(f->module);
}

static void launch_unloaded(fixture *f) {
    cu.cuModuleUnload(f->module);
    launch_step(f, f->a, f->x, 1, 1);
}

static void copy_without_waiting(fixture *f) {
    float value = 1;
    cu.cuMemsetD8Async(f->x, 0, 4, f->a);
    for (int i = 0; i < 100; i++)
        cu.cuMemsetD8Async(f->x, 0, 4, f->b);
    cu.cuMemcpyHtoD_v2(f->x, &value, 4);
}

static void call_the_driver(void *user) {
    cu.cuEventQuery((CUevent)user);
}

static void call_from_host_function(fixture *f) {
    cu.cuLaunchHostFunc(f->a, call_the_driver, f->event);
    cu.cuStreamSynchronize(f->a);
}

static void launch_what_breaks_a_rule(fixture *f) {
    CUfunction fail;
    if (!cu.cuModuleGetFunction(&fail, f->module, "fail"))
        launch_with(fail, f->a, f->x, 0, 0, 0);
    cu.cuStreamSynchronize(f->a);
}

static void use_a_destroyed_stream(fixture *f) {
    cu.cuStreamDestroy_v2(f->a);
    cu.cuStreamSynchronize(f->a);
}

static void read_what_nobody_wrote(fixture *f) {
    float value;
    cu.cuMemcpyDtoH_v2(&value, f->y, 4);
}

static void read_a_copy_of_it(fixture *f) {
    float value;
    cu.cuMemcpyDtoDAsync_v2(f->x, f->y, 4, f->a);
    cu.cuMemcpyDtoHAsync_v2(&value, f->x, 4, f->a);
}

static void read_what_was_written(fixture *f) {
    float value = 1;
    CUdeviceptr memory = 0;
    if (cu.cuMemAlloc_v2(&memory, 64) || cu.cuMemcpyHtoD_v2(memory, &value, 4) ||
        cu.cuMemsetD8Async(memory + 4, 1, 4, f->a) || cu.cuMemcpyDtoDAsync_v2(memory + 8, memory, 8, f->a) ||
        cu.cuMemcpyDtoHAsync_v2(f->pinned, memory, 16, f->a) || cu.cuStreamSynchronize(f->a) || f->pinned[2] != 1)
        abort();
}

static void read_from_the_host(fixture *f) {
    printf("%g", (double)*(volatile const float *)(uintptr_t)f->x);
}

static void keep_the_rules(fixture *f) {
    launch_step(f, f->a, f->x, 1, 1);
    if (read_first(f->a, f->x) != 1 || !end(f))
        abort();
}

static void broken_rules_end_the_process(void) {
    CHECK_THAT(!*last_words(keep_the_rules), "%s", last_words(keep_the_rules));
    CHECK_ENDS(use_the_default_stream, "the legacy default stream is used");
    CHECK_ENDS(free_queued_memory, "memory is freed that queued operations use");
    CHECK_ENDS(free_copied_memory, "memory is freed that queued operations use");
    CHECK_ENDS(free_twice, "not the device's");
    CHECK_ENDS(copy_too_much, "a copy is not within an allocation");
    CHECK_ENDS(release_queued_pinned, "pinned memory is released");
    CHECK_ENDS(copy_beyond_pinned, "partly within a block of pinned memory");
    CHECK_ENDS(unload_queued_module, "a module is unloaded whose kernels are queued");
    CHECK_ENDS(launch_unloaded, "a destroyed function is used");
    CHECK_ENDS(copy_without_waiting, "a copy does not wait");
    CHECK_ENDS(call_from_host_function, "a host function calls the driver");
    CHECK_ENDS(launch_what_breaks_a_rule, "kernel fail: a rule is broken");
    CHECK_ENDS(use_a_destroyed_stream, "a destroyed stream is used");
    CHECK(!*last_words(read_what_nobody_wrote));
    setenv("EITP_EMULATED_CUDA_STRICT", "1", 1);
    CHECK_ENDS(read_what_nobody_wrote, "a copy reads memory that nobody wrote");
    CHECK_ENDS(read_a_copy_of_it, "a copy reads memory that nobody wrote");
    CHECK_THAT(!*last_words(read_what_was_written), "%s", last_words(read_what_was_written));
    unsetenv("EITP_EMULATED_CUDA_STRICT");
    CHECK(*last_words(read_from_the_host));
}

/* ---- Errors ---- */

static void a_late_error_stays(void) {
    CUdeviceptr memory = 0;
    float values[COUNT];
    fixture f;
    setenv("EITP_EMULATED_CUDA_LATE", "2:719", 1);
    REQUIRE(begin(&f));
    unsetenv("EITP_EMULATED_CUDA_LATE");
    CHECK(!launch_step(&f, f.a, f.x, 1, 1) && !launch_step(&f, f.a, f.x, 1, 1));
    CHECK(!cu.cuMemcpyDtoHAsync_v2(f.pinned, f.x, SIZE, f.a) && !cu.cuEventRecord(f.event, f.a));
    CHECK(cu.cuEventSynchronize(f.event) == CUDA_ERROR_LAUNCH_FAILED);
    CHECK(cu.cuMemAlloc_v2(&memory, 4) == CUDA_ERROR_LAUNCH_FAILED);
    CHECK(cu.cuMemcpyDtoH_v2(values, f.x, SIZE) == CUDA_ERROR_LAUNCH_FAILED);
    CHECK(cu.cuMemFree_v2(f.x) == CUDA_ERROR_LAUNCH_FAILED && cu.cuStreamDestroy_v2(f.a) == CUDA_ERROR_LAUNCH_FAILED);
    CHECK(cu.emulated_cuda_live() == 6);
    cu.cuMemFree_v2(f.y);
    cu.cuMemFreeHost(f.pinned);
    cu.cuModuleUnload(f.module);
    cu.cuEventDestroy_v2(f.event);
    cu.cuEventDestroy_v2(f.other_event);
    cu.cuStreamDestroy_v2(f.b);
    CHECK(cu.emulated_cuda_live() == 0 && !cu.cuCtxSetCurrent(NULL) && !cu.cuDevicePrimaryCtxRelease_v2(0));
    REQUIRE(begin(&f));
    CHECK(!launch_step(&f, f.a, f.x, 1, 1) && read_first(f.a, f.x) == 1);
    CHECK(end(&f));
}

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        if (!error)                                                                                                    \
            error = (call);                                                                                            \
    } while (0)

#define ALWAYS(call)                                                                                                   \
    do {                                                                                                               \
        const CUresult result_ = (call);                                                                               \
        error = error ? error : result_;                                                                               \
    } while (0)

typedef struct whole {
    fixture f;
    CUgraph graph;
    CUgraphExec exec;
    int is_capturing;
} whole;

static CUresult create_whole(whole *w) {
    fixture *f = &w->f;
    CUresult error = cu.cuInit(0);
    TRY(cu.cuDevicePrimaryCtxRetain(&f->context, 0));
    TRY(cu.cuCtxSetCurrent(f->context));
    TRY(cu.cuStreamCreate(&f->a, CU_STREAM_NON_BLOCKING));
    TRY(cu.cuStreamCreateWithPriority(&f->b, 0, 0));
    TRY(cu.cuEventCreate(&f->event, 0));
    TRY(cu.cuEventCreate(&f->other_event, CU_EVENT_DISABLE_TIMING));
    TRY(cu.cuMemAlloc_v2(&f->x, SIZE));
    TRY(cu.cuMemAlloc_v2(&f->y, SIZE));
    TRY(cu.cuMemHostAlloc((void **)&f->pinned, SIZE, 0));
    TRY(cu.cuModuleLoadData(&f->module, kernel_image));
    TRY(cu.cuModuleGetFunction(&f->step, f->module, "step"));
    TRY(cu.cuFuncLoad(f->step));
    TRY(cu.cuFuncSetAttribute(f->step, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536));
    return error;
}

/* x = 2, y = x + 1 on another stream, and x = y after both. */
static CUresult queue_whole(const whole *w) {
    const fixture *f = &w->f;
    CUresult error = cu.cuMemcpyHtoDAsync_v2(f->x, f->pinned, SIZE, f->a);
    TRY(launch_step(f, f->a, f->x, 0, 2));
    TRY(cu.cuMemsetD32Async(f->y, 0, COUNT, f->a));
    TRY(cu.cuEventRecord(f->event, f->a));
    TRY(cu.cuStreamWaitEvent(f->b, f->event, 0));
    TRY(launch_with(f->step, f->b, f->y, f->x, 0, 1));
    TRY(cu.cuEventRecord(f->other_event, f->b));
    TRY(cu.cuStreamWaitEvent(f->a, f->other_event, 0));
    TRY(cu.cuMemcpyDtoDAsync_v2(f->x, f->y, SIZE, f->a));
    TRY(cu.cuMemcpyDtoHAsync_v2(f->pinned, f->x, SIZE, f->a));
    return error;
}

static CUresult capture_whole(whole *w) {
    CUresult error = cu.cuStreamBeginCapture_v2(w->f.a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    w->is_capturing = !error;
    TRY(queue_whole(w));
    if (w->is_capturing)
        ALWAYS(cu.cuStreamEndCapture(w->f.a, &w->graph));
    TRY(cu.cuGraphInstantiateWithFlags(&w->exec, w->graph, 0));
    TRY(cu.cuGraphUpload(w->exec, w->f.a));
    return error;
}

/* Cleans up as a careful program does: reports any failure, and destroys everything. */
static CUresult destroy_whole(whole *w, CUresult error) {
    fixture *f = &w->f;
    if (f->a)
        ALWAYS(cu.cuCtxSynchronize());
    if (w->exec)
        ALWAYS(cu.cuGraphExecDestroy(w->exec));
    if (w->graph)
        ALWAYS(cu.cuGraphDestroy(w->graph));
    if (f->module)
        ALWAYS(cu.cuModuleUnload(f->module));
    if (f->pinned)
        ALWAYS(cu.cuMemFreeHost(f->pinned));
    if (f->x)
        ALWAYS(cu.cuMemFree_v2(f->x));
    if (f->y)
        ALWAYS(cu.cuMemFree_v2(f->y));
    if (f->event)
        ALWAYS(cu.cuEventDestroy_v2(f->event));
    if (f->other_event)
        ALWAYS(cu.cuEventDestroy_v2(f->other_event));
    if (f->a)
        ALWAYS(cu.cuStreamDestroy_v2(f->a));
    if (f->b)
        ALWAYS(cu.cuStreamDestroy_v2(f->b));
    if (f->context)
        ALWAYS(cu.cuDevicePrimaryCtxRelease_v2(0));
    cu.cuCtxSetCurrent(NULL);
    return error;
}

static CUresult run_whole(float *first) {
    CUresult error;
    whole w;
    memset(&w, 0, sizeof w);
    error = create_whole(&w);
    TRY(queue_whole(&w));
    TRY(cu.cuStreamSynchronize(w.f.a));
    TRY(capture_whole(&w));
    for (int i = 0; i < 3; i++)
        TRY(cu.cuGraphLaunch(w.exec, w.f.a));
    TRY(cu.cuEventRecord(w.f.event, w.f.a));
    TRY(cu.cuEventSynchronize(w.f.event));
    if (!error)
        *first = w.f.pinned[0];
    return destroy_whole(&w, error);
}

/* Each call fails once. Each time the error is reported and nothing is left over. */
static void every_call_fails_in_turn(void) {
    long n = 0;
    CUresult error;
    REQUIRE(compile_kernel());
    do {
        char number[32];
        float first = 0;
        n++;
        snprintf(number, sizeof number, "%ld:%d", n, n % 2 ? 2 : 999);
        setenv("EITP_EMULATED_CUDA_FAIL", number, 1);
        cu.emulated_cuda_restart();
        error = run_whole(&first);
        CHECK_THAT(error ? (int)error == (n % 2 ? 2 : 999) : first == 3, "call %ld: error %d, %g", n, (int)error,
                   (double)first);
        CHECK_THAT(cu.emulated_cuda_live() == 0, "call %ld leaves %d", n, cu.emulated_cuda_live());
    } while ((error || (unsigned long)n <= cu.emulated_cuda_calls()) && n < 1000);
    unsetenv("EITP_EMULATED_CUDA_FAIL");
    CHECK_THAT(n > 50 && n < 1000, "%ld", n);
    cu.emulated_cuda_restart();
}

/* Each kernel fails late, including those in graphs. */
static void every_launch_fails_in_turn(void) {
    long n = 0;
    CUresult error;
    REQUIRE(compile_kernel());
    do {
        char number[32];
        float first = 0;
        snprintf(number, sizeof number, "%ld", ++n);
        setenv("EITP_EMULATED_CUDA_LATE", number, 1);
        cu.emulated_cuda_restart();
        error = run_whole(&first);
        CHECK_THAT(error == (n <= 8 ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS), "launch %ld: error %d", n, (int)error);
        CHECK_THAT(cu.emulated_cuda_live() == 0, "launch %ld leaves %d", n, cu.emulated_cuda_live());
    } while (error && n < 1000);
    unsetenv("EITP_EMULATED_CUDA_LATE");
    CHECK_THAT(n == 9 && cu.emulated_cuda_launches() == 8 && cu.emulated_cuda_graph_launches() == 3, "%ld", n);
    cu.emulated_cuda_restart();
}

static void calls_fail_by_name(void) {
    CUdeviceptr memory = 0;
    fixture f;
    setenv("EITP_EMULATED_CUDA_FAIL", "cuMemAlloc_v2:3:2", 1);
    REQUIRE(begin(&f));
    unsetenv("EITP_EMULATED_CUDA_FAIL");
    CHECK(cu.cuMemAlloc_v2(&memory, 4) == CUDA_ERROR_OUT_OF_MEMORY && !memory);
    CHECK(!cu.cuMemAlloc_v2(&memory, 4) && !cu.cuMemFree_v2(memory));
    CHECK(end(&f));
}

/* ---- Threads and processes ---- */

static CUcontext shared_context;

static void *work_in_thread(void *user) {
    float *value = (float *)user;
    CUstream stream = NULL;
    CUdeviceptr data = 0;
    CUmodule module = NULL;
    CUfunction step = NULL;
    if (cu.cuCtxSetCurrent(shared_context) || cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) ||
        cu.cuMemAlloc_v2(&data, SIZE) || cu.cuModuleLoadData(&module, kernel_image) ||
        cu.cuModuleGetFunction(&step, module, "step") || cu.cuMemsetD32Async(data, 0, COUNT, stream))
        return NULL;
    for (int i = 0; i < 200; i++) {
        if (launch_with(step, stream, data, 0, 1, 1) || (i % 16 == 0 && cu.cuStreamSynchronize(stream)))
            return NULL;
    }
    *value = read_first(stream, data);
    cu.cuModuleUnload(module);
    cu.cuMemFree_v2(data);
    cu.cuStreamDestroy_v2(stream);
    return NULL;
}

static void threads_have_streams_of_their_own(void) {
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    float values[THREADS] = {0, 0, 0, 0};
    fixture f;
    REQUIRE(begin(&f));
    shared_context = f.context;
    for (int i = 0; i < THREADS; i++)
        REQUIRE(!pthread_create(&threads[i], NULL, work_in_thread, &values[i]));
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK_THAT(values[i] == 200, "%g", (double)values[i]);
    }
    CHECK(end(&f));
}

static int is_released, is_seen; /* set by the other thread, under the mutex */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void wait_for_release(void *user) {
    (void)user;
    pthread_mutex_lock(&mutex);
    is_seen = 1;
    pthread_cond_broadcast(&changed);
    while (!is_released)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
}

static void *synchronize_in_thread(void *user) {
    const fixture *f = (const fixture *)user;
    return cu.cuCtxSetCurrent(f->context) || cu.cuStreamSynchronize(f->a) ? NULL : user;
}

/* While a host function waits, other threads call the driver, and wait for it too. */
static void host_functions_wait_for_threads(void) {
    CUdeviceptr memory = 0;
    fixture f;
    REQUIRE(begin(&f));
    for (int i = 0; i < 20; i++) {
        pthread_t threads[2];
        void *result = NULL;
        is_released = is_seen = 0;
        CHECK(!cu.cuLaunchHostFunc(f.a, wait_for_release, NULL));
        REQUIRE(!pthread_create(&threads[0], NULL, synchronize_in_thread, &f));
        pthread_mutex_lock(&mutex);
        while (!is_seen)
            pthread_cond_wait(&changed, &mutex);
        pthread_mutex_unlock(&mutex);
        REQUIRE(!pthread_create(&threads[1], NULL, synchronize_in_thread, &f));
        CHECK(!cu.cuMemAlloc_v2(&memory, 4));
        pthread_mutex_lock(&mutex);
        is_released = 1;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&mutex);
        for (int k = 0; k < 2; k++)
            CHECK(!pthread_join(threads[k], &result) && result == &f);
        CHECK(!cu.cuMemFree_v2(memory));
    }
    CHECK(end(&f));
}

/* From the fork on, a child has its own device. */
static void a_child_goes_on(void) {
    int status = -1;
    pid_t child;
    fixture f;
    REQUIRE(begin(&f));
    CHECK(!launch_step(&f, f.a, f.x, 1, 1));
    fflush(stdout);
    child = fork();
    if (!child)
        _exit(read_first(f.a, f.x) == 1 && end(&f) ? 7 : 8);
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    CHECK(!launch_step(&f, f.a, f.x, 2, 1) && read_first(f.a, f.x) == 3);
    CHECK(end(&f));
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(devices_are_those_of_the_environment),
        TEST(errors_have_names),
        TEST(calls_need_a_context),
        TEST(memory_is_limited_and_aligned),
        TEST(copies_move_bytes),
        TEST(pinned_copies_are_late),
        TEST(blocking_streams_are_before_copies),
        TEST(kernels_are_late_and_in_order),
        TEST(events_alone_order_streams),
        TEST(events_are_asked_and_measured),
        TEST(events_are_recorded_again),
        TEST(host_functions_are_late),
        TEST(modules_are_checked),
        TEST(broken_rules_end_the_process),
        TEST(a_late_error_stays),
        TEST(every_call_fails_in_turn),
        TEST(every_launch_fails_in_turn),
        TEST(calls_fail_by_name),
        TEST(threads_have_streams_of_their_own),
        TEST(host_functions_wait_for_threads),
        TEST(a_child_goes_on),
    };
    open_driver();
    return RUN_TESTS(tests, argc, argv);
}
