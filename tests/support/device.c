/*
 * The test backend: a device with memory that the host cannot read, and with deferred execution. It uses the CPU's
 * kernels, so results have the CPU's bits. Its memory is mapped without access except while it computes or copies.
 * `execute` only queues work. `wait` executes it, in another order where no call depends on another. Violating a rule
 * of backends/backend.h aborts the process with one line.
 *
 * Environment:
 *   EITP_TEST_DEVICE_MEMORY   the size of its memory in bytes
 *   EITP_TEST_DEVICE_FAILS=n  the n-th wait with work to do fails afterwards, like an error reported late
 *
 * All threads of a process may use it: each context has its own device.
 */
#include "backends/backend.h"

#include "base/memory.h"

#include <sys/mman.h>
#include <unistd.h>

enum { MOST_BLOCKS = 4096, MOST_NOTES = 4096, MOST_ARRAYS = 2 * EITP__MAX_INPUTS + 8 };

/* Device memory, and its pages. */
typedef struct block {
    char *memory;
    size_t size, pages;
} block;

typedef struct device_program {
    eitp__program *inner; /* the CPU's */
    const eitp__instruction *instructions;
    int is_discarded;
    struct device_program *next;
} device_program;

/* Instructions [first, end) of a program, queued for execution. */
typedef struct note {
    device_program *program;
    size_t first, end;
} note;

typedef struct device {
    eitp__backend base;
    eitp__backend *cpu;
    block blocks[MOST_BLOCKS];
    size_t block_count;
    note notes[MOST_NOTES];
    size_t note_count;
    device_program *programs;
    uint64_t random;
    long waits, fails_at;
} device;

static device *device_of(const eitp__backend *backend) {
    return (device *)(uintptr_t)backend;
}

static eitp__backend *cpu_of(const eitp__backend *backend) {
    return device_of(backend)->cpu;
}

static void refuse(const char *what) {
    fprintf(stderr, "test backend: %s\n", what);
    abort();
}

/* ---- Memory ---- */

static void protect(const block *b, int access) {
    if (mprotect(b->memory, b->pages, access))
        refuse("mprotect failed");
}

static void protect_all(const device *d, int access) {
    for (size_t i = 0; i < d->block_count; i++)
        protect(&d->blocks[i], access);
}

/* Returns EITP_TEST_DEVICE_MEMORY bytes, or 1 TiB. */
static eitp_status device_memory(const eitp__backend *backend, uint64_t *free_bytes, uint64_t *total,
                                 eitp_error *error) {
    const device *d = device_of(backend);
    const char *given = getenv("EITP_TEST_DEVICE_MEMORY");
    (void)error;
    *total = *free_bytes = given ? strtoull(given, NULL, 10) : (uint64_t)1 << 40;
    for (size_t i = 0; i < d->block_count; i++)
        *free_bytes -= d->blocks[i].size;
    return EITP_OK;
}

static void *device_allocate(eitp__backend *backend, eitp__place place, size_t size) {
    device *d = device_of(backend);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    block *b = &d->blocks[d->block_count];
    void *counted;
    if (place == EITP__PLACE_HOST)
        return d->cpu->interface->allocate(d->cpu, place, size);
    if (d->block_count == MOST_BLOCKS)
        refuse("too many blocks");
    /* The host's allocator decides whether there is memory, as tests expect. The block has no other use. */
    counted = backend->host.allocator.allocate(backend->host.allocator.user, size, EITP__ALIGNMENT);
    if (!counted)
        return NULL;
    backend->host.allocator.release(backend->host.allocator.user, counted, size);
    b->size = size;
    b->pages = (size + page - 1) / page * page;
    b->memory = (char *)mmap(NULL, b->pages, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (b->memory == MAP_FAILED)
        return NULL;
    d->block_count++;
    return b->memory;
}

static void device_release(eitp__backend *backend, eitp__place place, void *memory, size_t size) {
    device *d = device_of(backend);
    if (place == EITP__PLACE_HOST) {
        d->cpu->interface->release(d->cpu, place, memory, size);
        return;
    }
    if (d->note_count)
        refuse("memory is released before `wait`");
    for (size_t i = 0; i < d->block_count; i++) {
        if (d->blocks[i].memory != memory)
            continue;
        if (d->blocks[i].size != size)
            refuse("memory is released with another size");
        munmap(memory, d->blocks[i].pages);
        d->blocks[i] = d->blocks[--d->block_count];
        return;
    }
    refuse("memory is released that is not the device's");
}

/* Returns the block that contains all of these bytes. */
static const block *find_block(const device *d, const void *memory, size_t size) {
    const uintptr_t at = (uintptr_t)memory;
    for (size_t i = 0; i < d->block_count; i++) {
        const uintptr_t begin = (uintptr_t)d->blocks[i].memory;
        if (at >= begin && at + size <= begin + d->blocks[i].size)
            return &d->blocks[i];
    }
    refuse("a copy is not within a block of the device");
    return NULL;
}

static eitp_status copy(eitp__backend *backend, void *target, const void *source, const void *on_device, size_t size) {
    const device *d = device_of(backend);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const block *b = find_block(d, on_device, size);
    block touched = *b; /* the pages that contain these bytes */
    if (d->note_count)
        refuse("memory is copied before `wait`");
    touched.memory += (size_t)((const char *)on_device - b->memory) / page * page;
    touched.pages = ((size_t)((const char *)on_device + size - touched.memory) + page - 1) / page * page;
    protect(&touched, PROT_READ | PROT_WRITE);
    memcpy(target, source, size);
    protect(&touched, PROT_NONE);
    return EITP_OK;
}

static eitp_status device_upload(eitp__backend *backend, void *memory, const void *source, size_t size,
                                 eitp_error *error) {
    (void)error;
    return size ? copy(backend, memory, source, memory, size) : EITP_OK;
}

static eitp_status device_download(eitp__backend *backend, void *target, const void *memory, size_t size,
                                   eitp_error *error) {
    (void)error;
    return size ? copy(backend, target, memory, memory, size) : EITP_OK;
}

/* ---- Programs ---- */

static eitp_status device_prepare(eitp__backend *backend, const eitp__program_info *info, eitp__program **program,
                                  eitp_error *error) {
    device *d = device_of(backend);
    device_program *prepared = (device_program *)calloc(1, sizeof *prepared);
    eitp_status status;
    if (!prepared)
        return eitp__fail_memory(error, sizeof *prepared, "a program");
    status = cpu_of(backend)->interface->prepare(cpu_of(backend), info, &prepared->inner, error);
    if (status) {
        free(prepared);
        return status;
    }
    prepared->instructions = info->instructions;
    prepared->next = d->programs;
    d->programs = prepared;
    *program = (eitp__program *)(void *)prepared;
    return EITP_OK;
}

/* Overwrites the program, so that later use is detected. */
static void device_discard(eitp__backend *backend, eitp__program *program) {
    device_program *discarded = (device_program *)(void *)program;
    if (device_of(backend)->note_count)
        refuse("a program is discarded before `wait`");
    if (discarded->is_discarded)
        refuse("a program is discarded twice");
    cpu_of(backend)->interface->discard(cpu_of(backend), discarded->inner);
    discarded->is_discarded = 1;
}

static eitp_status device_execute(eitp__backend *backend, eitp__program *program, size_t first, size_t end,
                                  const eitp__poll *poll, size_t stoppable, size_t *begun, eitp_error *error) {
    device *d = device_of(backend);
    note *added = &d->notes[d->note_count];
    if (((device_program *)(void *)program)->is_discarded)
        refuse("a program is executed after `discard`");
    if (d->note_count == MOST_NOTES)
        refuse("too many executions before `wait`");
    *begun = first;
    if (first < stoppable && eitp__poll_ask(poll))
        return eitp__fail_interrupted(error);
    added->program = (device_program *)(void *)program;
    added->first = first;
    added->end = *begun = end;
    d->note_count++;
    return EITP_OK;
}

/* ---- Order ---- */

/* Bytes read or written by an instruction. */
typedef struct array {
    const char *begin, *end;
    int is_written;
} array;

static void add_array(array *arrays, int *count, const void *data, size_t size, int is_written) {
    if (!data || !size)
        return;
    arrays[*count].begin = (const char *)data;
    arrays[*count].end = (const char *)data + size;
    arrays[(*count)++].is_written = is_written;
}

static int list_arrays(const eitp__instruction *instruction, array *arrays) {
    const eitp__call *call = instruction->call;
    int count = 0;
    add_array(arrays, &count, instruction->memory, instruction->size, instruction->kind != EITP__WRITE);
    if (!call)
        return count;
    for (int i = 0; i < call->input_count; i++)
        add_array(arrays, &count, call->inputs[i].data,
                  (size_t)call->inputs[i].elements * eitp_dtype_size(call->inputs[i].dtype), 0);
    for (int i = 0; i < call->output_count; i++)
        add_array(arrays, &count, call->outputs[i].data,
                  (size_t)call->outputs[i].elements * eitp_dtype_size(call->outputs[i].dtype), 1);
    add_array(arrays, &count, call->carry, sizeof *call->carry, 0);
    return count;
}

/* True if one instruction writes data that the other reads or writes, or if both are transfers. */
static int must_follow(const eitp__instruction *a, const eitp__instruction *b) {
    array first[MOST_ARRAYS], second[MOST_ARRAYS];
    const int count = list_arrays(a, first), others = list_arrays(b, second);
    if (a->kind != EITP__COMPUTE && b->kind != EITP__COMPUTE)
        return 1;
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < others; k++) {
            if ((first[i].is_written || second[k].is_written) && first[i].begin < second[k].end &&
                second[k].begin < first[i].end)
                return 1;
        }
    }
    return 0;
}

static int toss(device *d) {
    d->random = d->random * 6364136223846793005u + 1442695040888963407u;
    return (int)(d->random >> 63);
}

/* Executes instructions [first, end), with some neighbouring pairs swapped. */
static eitp_status execute_reordered(device *d, const note *n, eitp_error *error) {
    static const eitp__poll never = {NULL, NULL};
    const eitp__backend_interface *cpu = d->cpu->interface;
    eitp_status status = EITP_OK;
    const eitp__instruction *all = n->program->instructions;
    size_t s = n->first, begun;
    while (s < n->end && !status) {
        const int swaps = s + 1 < n->end && !must_follow(&all[s], &all[s + 1]) && toss(d);
        status =
            cpu->execute(d->cpu, n->program->inner, s + (size_t)swaps, s + (size_t)swaps + 1, &never, 0, &begun, error);
        if (!status && swaps)
            status = cpu->execute(d->cpu, n->program->inner, s, s + 1, &never, 0, &begun, error);
        s += 1 + (size_t)swaps;
    }
    return status;
}

static eitp_status device_wait(eitp__backend *backend, eitp_error *error) {
    device *d = device_of(backend);
    eitp_status status = EITP_OK;
    if (!d->note_count)
        return EITP_OK;
    protect_all(d, PROT_READ | PROT_WRITE);
    for (size_t i = 0; i < d->note_count && !status; i++)
        status = execute_reordered(d, &d->notes[i], error);
    if (!status)
        status = d->cpu->interface->wait(d->cpu, error);
    protect_all(d, PROT_NONE);
    d->note_count = 0;
    if (++d->waits == d->fails_at)
        return eitp__fail(error, EITP_ERROR_INTERNAL, "the test device has failed");
    return status;
}

/* ---- Creation and queries ---- */

static eitp_status device_create(const eitp_host *host, const eitp__backend_config *config, eitp__backend **backend,
                                 eitp_error *error) {
    const eitp__backend_interface *cpu = eitp__cpu_backend();
    const char *fails = getenv("EITP_TEST_DEVICE_FAILS");
    device *d = (device *)calloc(1, sizeof *d);
    eitp_status status =
        d ? cpu->create(host, config, &d->cpu, error) : eitp__fail_memory(error, sizeof *d, "the test device");
    if (status) {
        free(d);
        return status;
    }
    d->base.interface = eitp__test_backend();
    d->base.host = *host;
    d->random = 20250107;
    d->fails_at = fails ? strtol(fails, NULL, 10) : 0;
    *backend = &d->base;
    return EITP_OK;
}

static void device_destroy(eitp__backend *backend) {
    device *d = device_of(backend);
    if (d->note_count)
        refuse("the device is destroyed before `wait`");
    if (d->block_count)
        refuse("memory of the device was not released");
    while (d->programs) {
        device_program *next = d->programs->next;
        if (!d->programs->is_discarded)
            refuse("a program was not discarded");
        free(d->programs);
        d->programs = next;
    }
    d->cpu->interface->destroy(d->cpu);
    free(d);
}

static void device_describe(const eitp__backend *backend, char *text, size_t size) {
    cpu_of(backend)->interface->describe(cpu_of(backend), text, size);
}

static void device_numerics(const eitp__backend *backend, char *text, size_t size) {
    cpu_of(backend)->interface->numerics(cpu_of(backend), text, size);
}

static eitp_dtype device_preferred_precision(const eitp__backend *backend) {
    return cpu_of(backend)->interface->preferred_precision(cpu_of(backend));
}

static double device_seconds(const eitp__backend *backend, const eitp__call *call, double flops, double bytes) {
    return cpu_of(backend)->interface->seconds(cpu_of(backend), call, flops, bytes);
}

static int device_sum_group(const eitp__backend *backend, eitp_dtype dtype) {
    return cpu_of(backend)->interface->sum_group(cpu_of(backend), dtype);
}

static int device_tile_rows(const eitp__backend *backend, eitp_dtype dtype) {
    return cpu_of(backend)->interface->tile_rows(cpu_of(backend), dtype);
}

static int device_supports(const eitp__backend *backend, const eitp__call *call) {
    return cpu_of(backend)->interface->supports(cpu_of(backend), call);
}

static size_t device_workspace(const eitp__backend *backend, const eitp__call *call) {
    return cpu_of(backend)->interface->workspace(cpu_of(backend), call);
}

EITP__PRIVATE const eitp__backend_interface *eitp__test_backend(void) {
    static const eitp__backend_interface interface = {
        EITP__BACKEND_API_VERSION,
        "test",
        0,
        EITP__HEAD_BLOCK,
        1,
        device_create,
        device_destroy,
        device_describe,
        device_numerics,
        device_preferred_precision,
        device_seconds,
        device_sum_group,
        device_tile_rows,
        device_supports,
        NULL,
        device_memory,
        device_allocate,
        device_release,
        device_upload,
        device_download,
        device_workspace,
        device_prepare,
        device_discard,
        device_execute,
        device_wait,
        NULL,
        NULL,
    };
    return &interface;
}
