/*
 * Calls on the emulated CUDA device. With EITP_TEST_CUDA=1 in the environment, tests of kernels run CUDA kernels
 * instead of the processor's sets. LD_LIBRARY_PATH must then start with the folder of the emulated libraries.
 *
 * With EITP_TEST_CUDA_PATHS=FILE the paths of calls (tests/support/cuda_paths.h) are added to the file, each once, and
 * calls are not executed: for tests/cuda/paths.sh, which needs the paths in seconds. So tests then fail.
 */
#ifndef EITP_TEST_CUDA_CALLS_H
#define EITP_TEST_CUDA_CALLS_H

#include "backends/backend.h"

#include "tests/support/cuda_paths.h"
#include "tests/support/test.h"

static eitp__backend *cuda_device;

/* Number of the operand, outputs after inputs, whose elements start one after an aligned address. -1: none. */
static int cuda_displaced = -1;

/* 1: calls are executed one at a time, as if they were observed. */
static int cuda_is_observed;

enum { CUDA_MOST_BLOCKS = EITP__MAX_INPUTS + EITP__MAX_OUTPUTS + 2 };

/* Host and device memory of a call's operands. `memory` is the allocation, in which elements start at `device`. */
typedef struct cuda_blocks {
    const void *host[CUDA_MOST_BLOCKS];
    void *memory[CUDA_MOST_BLOCKS], *device[CUDA_MOST_BLOCKS];
    size_t size[CUDA_MOST_BLOCKS];
    int count;
} cuda_blocks;

static EITP__UNUSED int uses_cuda(void) {
    const char *value = getenv("EITP_TEST_CUDA");
    return value && *value == '1';
}

/* ---- Paths ---- */

enum { CUDA_MOST_PATHS = 1 << 14 };

/* Returns the file of paths, or NULL. */
static const char *cuda_paths_file(void) {
    const char *name = getenv("EITP_TEST_CUDA_PATHS");
    return name && *name ? name : NULL;
}

/* Adds a path to the file, once. Paths are known by hashes; 0 stands for none. */
static void cuda_record_path(void *user, const char *path) {
    static uint64_t known[CUDA_MOST_PATHS];
    const uint64_t hash = eitp__fnv1a(EITP__FNV_START, path, strlen(path)) | 1;
    size_t at = (size_t)(hash >> 32) % CUDA_MOST_PATHS;
    FILE *file;
    (void)user;
    for (; known[at] && known[at] != hash; at = (at + 1) % CUDA_MOST_PATHS)
        ;
    if (known[at])
        return;
    known[at] = hash;
    file = fopen(cuda_paths_file(), "a");
    if (!file || fprintf(file, "%s\n", path) < 0 || fclose(file)) {
        perror(cuda_paths_file());
        exit(1);
    }
}

static eitp_plan cuda_plan_of(eitp__call *calls, size_t count) {
    eitp_plan plan;
    memset(&plan, 0, sizeof plan);
    plan.calls = calls;
    plan.step_count = count;
    return plan;
}

/* Records the paths of calls, and of those that are executed instead of several in a program. */
static EITP__UNUSED void cuda_record_calls(eitp__call *calls, size_t count) {
    const eitp_plan plan = cuda_plan_of(calls, count);
    for (size_t s = 0; s < count; s++)
        cuda_visit_paths(eitp__cuda_of(cuda_device), &plan, s, cuda_record_path, NULL);
}

/* Records the paths of launches that calls share in a program. */
static EITP__UNUSED void cuda_record_groups(eitp__call *calls, size_t count) {
    const eitp_plan plan = cuda_plan_of(calls, count);
    cuda_visit_groups(eitp__cuda_of(cuda_device), &plan, cuda_record_path, NULL);
}

/* Returns an address without memory. */
static void *cuda_next_address(eitp__backend *backend, eitp__place place, size_t size) {
    static uintptr_t next = (uintptr_t)1 << 40;
    const uintptr_t address = next;
    (void)backend, (void)place;
    next += (size + 4095) / 4096 * 4096;
    return (void *)address;
}

static void cuda_release_address(eitp__backend *backend, eitp__place place, void *memory, size_t size) {
    (void)backend, (void)place, (void)memory, (void)size;
}

static eitp_status cuda_upload_nothing(eitp__backend *backend, void *to, const void *from, size_t size,
                                       eitp_error *error) {
    (void)backend, (void)to, (void)from, (void)size, (void)error;
    return EITP_OK;
}

/* Replaces the device's memory by addresses. */
static void cuda_execute_nothing(void) {
    static eitp__backend_interface interface;
    interface = *cuda_device->interface;
    interface.allocate = cuda_next_address;
    interface.release = cuda_release_address;
    interface.upload = cuda_upload_nothing;
    cuda_device->interface = &interface;
}

/* ---- The device ---- */

static EITP__UNUSED void cuda_open(void) {
    const eitp_host host = eitp_host_default();
    eitp__backend_config config = EITP__ZERO;
    eitp_error error = EITP__ZERO;
    if (eitp__backend_create(&host, "cuda", &config, &cuda_device, &error)) {
        printf("    %s\n", error.message);
        exit(1);
    }
    if (cuda_paths_file())
        cuda_execute_nothing();
}

static EITP__UNUSED int cuda_supports(const eitp__call *call) {
    return cuda_device->interface->supports(cuda_device, call);
}

/*
 * Displaces the next operand of a call that has elements, starting with the first. Returns 0, and displaces none, after
 * the last one, and if tests do not use the device. So `while (cuda_displace_next(&call))` visits the bases of a call.
 */
static EITP__UNUSED int cuda_displace_next(const eitp__call *call) {
    while (uses_cuda() && ++cuda_displaced < call->input_count + call->output_count) {
        const int output = cuda_displaced - call->input_count;
        if (output < 0 ? call->inputs[cuda_displaced].elements : call->outputs[output].elements)
            return 1;
    }
    cuda_displaced = -1;
    return 0;
}

/* Returns the device's copy of `size` bytes, which starts `base` bytes after an aligned address. Memory shared by
   operands is copied once. */
static void *cuda_block(cuda_blocks *blocks, const void *host, size_t size, size_t base) {
    eitp_error error = EITP__ZERO;
    int i = 0;
    if (!host)
        return NULL;
    while (i < blocks->count && blocks->host[i] != host)
        i++;
    if (i < blocks->count)
        return blocks->device[i];
    blocks->host[i] = host;
    blocks->size[i] = base + (size ? size : 1);
    blocks->memory[i] = cuda_device->interface->allocate(cuda_device, EITP__PLACE_DEVICE, blocks->size[i]);
    CHECK(blocks->memory[i]);
    blocks->device[i] = (char *)blocks->memory[i] + base;
    CHECK_THAT(!cuda_device->interface->upload(cuda_device, blocks->device[i], host, size, &error), "%s",
               error.message);
    blocks->count++;
    return blocks->device[i];
}

static void *cuda_operand(cuda_blocks *blocks, const eitp__operand *x, int number) {
    const size_t element = eitp_dtype_size(x->dtype);
    return cuda_block(blocks, x->data, (size_t)x->elements * element, number == cuda_displaced ? element : 0);
}

/* Returns a workspace filled with NaN bytes. */
static void *cuda_workspace(cuda_blocks *blocks, const eitp__call *call) {
    const size_t size = cuda_device->interface->workspace(cuda_device, call);
    void *bytes = size ? malloc(size) : NULL, *memory;
    if (!bytes)
        return NULL;
    memset(bytes, 0xff, size);
    memory = cuda_block(blocks, bytes, size, 0);
    free(bytes);
    blocks->host[blocks->count - 1] = NULL;
    return memory;
}

static void cuda_execute(const eitp__backend_interface *device, const eitp__program_info *info) {
    static const eitp__poll never = {NULL, NULL};
    eitp_error error = EITP__ZERO;
    eitp__program *program = NULL;
    size_t begun;
    eitp_status status = device->prepare(cuda_device, info, &program, &error);
    for (size_t i = 0, end = 0; i < info->count && !status; i = end) {
        end = cuda_is_observed ? i + 1 : info->count;
        status = device->execute(cuda_device, program, i, end, &never, 0, &begun, &error);
    }
    if (!status)
        status = device->wait(cuda_device, &error);
    CHECK_THAT(!status, "%s, displaced operand %d: %s", eitp__slot_name(info->instructions[0].call->slot),
               cuda_displaced, error.message);
    if (program)
        device->discard(cuda_device, program);
}

/* Copies the operands of a call to the device, and replaces their addresses. */
static void cuda_place(eitp__call *call, cuda_blocks *blocks) {
    for (int o = 0; o < call->output_count; o++)
        call->outputs[o].data = cuda_operand(blocks, &call->outputs[o], call->input_count + o);
    for (int i = 0; i < call->input_count; i++)
        call->inputs[i].data = cuda_operand(blocks, &call->inputs[i], i);
    call->carry = (const float *)cuda_block(blocks, call->carry, sizeof(float), 0);
}

/* Copies the outputs of a call to host memory, where `placed` has them. */
static void cuda_download(const eitp__call *call, const eitp__call *placed) {
    eitp_error error = EITP__ZERO;
    for (int o = 0; o < call->output_count; o++)
        if (call->outputs[o].data)
            CHECK_THAT(!cuda_device->interface->download(
                           cuda_device, placed->outputs[o].data, call->outputs[o].data,
                           (size_t)call->outputs[o].elements * eitp_dtype_size(call->outputs[o].dtype), &error),
                       "%s", error.message);
}

enum { CUDA_MOST_CALLS = 4 };

/* Executes a program of calls whose operands are in host memory. The first call has the largest workspace. */
static EITP__UNUSED void cuda_run_calls(const eitp__call *placed, int count) {
    eitp__call calls[CUDA_MOST_CALLS];
    eitp__instruction instructions[CUDA_MOST_CALLS];
    eitp__program_info info = EITP__ZERO;
    cuda_blocks blocks = EITP__ZERO;
    memset(instructions, 0, sizeof instructions);
    for (int k = 0; k < count; k++) {
        calls[k] = placed[k];
        cuda_place(&calls[k], &blocks);
        instructions[k].call = &calls[k];
    }
    if (cuda_paths_file()) {
        cuda_record_calls(calls, (size_t)count);
        return;
    }
    info.instructions = instructions;
    info.count = (size_t)count;
    info.workspace = cuda_workspace(&blocks, &calls[0]);
    cuda_execute(cuda_device->interface, &info);
    for (int k = 0; k < count; k++)
        cuda_download(&calls[k], &placed[k]);
    for (int i = 0; i < blocks.count; i++)
        cuda_device->interface->release(cuda_device, EITP__PLACE_DEVICE, blocks.memory[i], blocks.size[i]);
}

static EITP__UNUSED void cuda_run(const eitp__call *placed) {
    cuda_run_calls(placed, 1);
}

/* The `run` function of a table's kernels. Tests run the piece with the first item last, and it executes the whole
   call. */
static EITP__UNUSED void cuda_run_items(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    (void)end;
    (void)workspace;
    if (begin == 0)
        cuda_run(call);
}

/* The workspace is on the device. */
static size_t cuda_no_workspace(const eitp__call *call) {
    (void)call;
    return 0;
}

/* True for slots that the set `ref` lacks in some dtypes, because their first sets use their own layouts. */
static int cuda_is_beyond_ref(int slot, int dtype) {
    return (slot == EITP__SLOT_HEAD || slot == EITP__SLOT_UPDATE || slot == EITP__SLOT_MATMUL) && dtype <= EITP_F16;
}

/* Opens the device, and replaces every kernel by it. */
static EITP__UNUSED void cuda_register_kernels(eitp__kernel_table *table) {
    eitp__register_ref_kernels(table);
    cuda_open();
    for (int slot = 0; slot < EITP__SLOT_COUNT; slot++) {
        for (int dtype = 0; dtype < EITP_DTYPE_COUNT; dtype++) {
            eitp__kernel *kernel = &table->kernels[slot][dtype];
            if (!kernel->run && !cuda_is_beyond_ref(slot, dtype))
                continue;
            kernel->run = cuda_run_items;
            kernel->supports = cuda_supports;
            if (slot != EITP__SLOT_UPDATE) /* UPDATE's tests read it */
                kernel->workspace = cuda_no_workspace;
            kernel->tile_columns = cuda_device->interface->head_block;
            kernel->tile_rows = kernel->tile_rows ? kernel->tile_rows : 1;
            kernel->set = "cuda";
        }
    }
}

#endif
