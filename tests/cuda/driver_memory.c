/*
 * Memory of the emulated device, pinned memory, and copies.
 *
 * An allocation is one mapping that holds the memory, a byte for each byte of it that tells whether it was written, and
 * the shadows. Untouched pages cost nothing, regardless of the size. Its address is a multiple of 512 but not of 1024,
 * which is all CUDA promises. Addresses of freed memory are not reused for a while.
 */
#include "tests/cuda/driver.h"

#include <sys/mman.h>
#include <unistd.h>

enum { MOST_PINNED = 4096, MOST_QUARANTINED = 64, TILE = 1 << 20 };

typedef struct pinned_block {
    unsigned char *memory;
    size_t size;
} pinned_block;

typedef struct mapping {
    unsigned char *begin;
    size_t size;
} mapping;

static pinned_block pinned[MOST_PINNED];
static size_t pinned_count;
static mapping quarantine[MOST_QUARANTINED]; /* freed memory: inaccessible addresses */
static size_t quarantined;
static int tile_ = -1; /* file of poison */

static unsigned char *host_of(uint64_t address) {
    return (unsigned char *)(uintptr_t)(address - EMULATED_TAG);
}

static size_t whole_pages(size_t size) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (size + page - 1) / page * page;
}

/* ---- Ranges ---- */

const emulated_range *find_range(CUcontext context, uint64_t address) {
    size_t low = 0, high = context->range_count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const emulated_range *range = &context->ranges[middle];
        if (address < range->begin)
            high = middle;
        else if (address - range->begin >= range->size)
            low = middle + 1;
        else
            return range;
    }
    return NULL;
}

/* Returns the host address of these bytes of the device. */
unsigned char *resolve(CUcontext context, uint64_t address, size_t size, const char *what, unsigned char **written) {
    const emulated_range *range = find_range(context, address);
    if (!range || size > range->size - (address - range->begin))
        refuse("%s is not within an allocation (%zu bytes at 0x%llx)", what, size, (unsigned long long)address);
    *written = range->written + (address - range->begin);
    return host_of(address);
}

unsigned char *emulated_cuda_memory(uint64_t address, size_t size, unsigned char **written) {
    return resolve(driver.executing, address, size, "memory of a product", written);
}

static size_t shadow_size(size_t size, unsigned shift) {
    return whole_pages(((size >> shift) + 1) * sizeof(emulated_access));
}

/* Size of the mapping that holds an allocation. */
static size_t mapped_size(size_t size) {
    size_t sum = whole_pages(size + ALIGNMENT) + whole_pages(size);
    for (unsigned shift = 0; shift < 4; shift++)
        sum += 2 * shadow_size(size, shift);
    return sum;
}

/* Maps one file of poison repeatedly, copied on the first write. */
static int fill_with_poison(unsigned char *memory, size_t size) {
    if (size <= TILE) {
        memset(memory, POISON, size);
        return 1;
    }
    if (tile_ < 0) {
        unsigned char *bytes = (unsigned char *)need_memory(malloc(TILE));
        memset(bytes, POISON, TILE);
        tile_ = memfd_create("poison", MFD_CLOEXEC);
        if (tile_ < 0 || write(tile_, bytes, TILE) != TILE)
            refuse("memory cannot be filled");
        free(bytes);
    }
    for (size_t at = 0; at < size; at += TILE) {
        const size_t part = size - at < TILE ? size - at : TILE;
        if (mmap(memory + at, part, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, tile_, 0) ==
            MAP_FAILED)
            return 0;
    }
    return 1;
}

static int map_range(emulated_range *range, size_t size) {
    const size_t mapped = mapped_size(size);
    unsigned char *at =
        (unsigned char *)mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == (unsigned char *)MAP_FAILED)
        return 0;
    if (!fill_with_poison(at, whole_pages(size + ALIGNMENT))) {
        munmap(at, mapped);
        return 0;
    }
    range->begin = (uint64_t)(uintptr_t)(at + ALIGNMENT) + EMULATED_TAG;
    range->size = size;
    range->written = at += whole_pages(size + ALIGNMENT);
    at += whole_pages(size);
    for (unsigned shift = 0; shift < 4; shift++) {
        range->shadows[shift].writes = (emulated_access *)(void *)at;
        at += shadow_size(size, shift);
        range->shadows[shift].reads = (emulated_access *)(void *)at;
        at += shadow_size(size, shift);
    }
    return 1;
}

/* Releases the memory, but reserves its addresses until MOST_QUARANTINED other ranges were freed. */
static void unmap_range(const emulated_range *range) {
    unsigned char *begin = host_of(range->begin) - ALIGNMENT;
    const size_t kept = whole_pages(range->size + ALIGNMENT);
    mapping *place = &quarantine[quarantined++ % MOST_QUARANTINED];
    munmap(begin + kept, mapped_size(range->size) - kept);
    if (place->begin)
        munmap(place->begin, place->size);
    if (mmap(begin, kept, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == MAP_FAILED)
        refuse("memory cannot be protected");
    place->begin = begin;
    place->size = kept;
}

static size_t counted_size(size_t size) {
    return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static CUresult allocate(CUdeviceptr *address, size_t size) {
    const CUcontext context = current_context();
    emulated_range added;
    size_t i;
    if (!address || !size)
        return CUDA_ERROR_INVALID_VALUE;
    if (size > driver.memory || counted_size(size) > driver.memory - context->used || !map_range(&added, size))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (context->range_count == context->range_capacity) {
        context->range_capacity = 2 * context->range_capacity + 16;
        context->ranges =
            (emulated_range *)need_memory(realloc(context->ranges, context->range_capacity * sizeof *context->ranges));
    }
    for (i = context->range_count++; i > 0 && context->ranges[i - 1].begin > added.begin; i--)
        context->ranges[i] = context->ranges[i - 1];
    context->ranges[i] = added;
    context->used += counted_size(size);
    driver.live++;
    *address = added.begin;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size) {
    CALL(CONTEXT | UNSAFE, allocate(address, size));
}

static int overlaps(const emulated_span *a, uint64_t begin, size_t size) {
    return a->begin < begin + size && begin < a->begin + a->size;
}

/* True if an operation uses some of these bytes of the device. */
static int uses_span(const operation *queued, const void *what) {
    const emulated_span *span = (const emulated_span *)what;
    for (size_t i = 0; i < queued->span_count; i++) {
        if (overlaps(&queued->spans[i], span->begin, span->size))
            return 1;
    }
    return 0;
}

/* The same, but only for operations whose spans are exact rather than whole allocations. */
static int uses_span_surely(const operation *queued, const void *what) {
    return queued->kind != KERNEL && uses_span(queued, what);
}

/* Waits at random: real drivers wait here at times, and may stop doing so. */
static CUresult release_memory(CUdeviceptr address) {
    const CUcontext context = current_context();
    const emulated_range *range = find_range(context, address);
    emulated_span span;
    if (!address)
        return CUDA_ERROR_INVALID_VALUE;
    if (!range || range->begin != address)
        refuse("memory is freed that is not the device's (0x%llx)", address);
    span.begin = range->begin;
    span.size = range->size;
    if (find_queued(uses_span, &span))
        refuse("memory is freed that queued operations use");
    if (draw(2))
        run_context(context, 0);
    range = find_range(context, address); /* waiting may have released the lock */
    if (!range)
        refuse("memory is freed twice");
    unmap_range(range);
    context->used -= counted_size(range->size);
    context->range_count--;
    for (size_t i = (size_t)(range - context->ranges); i < context->range_count; i++)
        context->ranges[i] = context->ranges[i + 1];
    driver.live--;
    return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr address) {
    CALL(CONTEXT | UNSAFE | ACTS_ALWAYS, release_memory(address));
}

static CUresult get_info(size_t *available, size_t *total) {
    if (!available || !total)
        return CUDA_ERROR_INVALID_VALUE;
    *available = driver.memory - current_context()->used;
    *total = driver.memory;
    return CUDA_SUCCESS;
}

CUresult cuMemGetInfo_v2(size_t *available, size_t *total) {
    CALL(CONTEXT, get_info(available, total));
}

/* ---- Pinned memory ---- */

/* Returns the block with these bytes, or NULL if they are pageable memory. */
static const pinned_block *find_pinned(const void *memory, size_t size) {
    const uintptr_t begin = (uintptr_t)memory;
    for (size_t i = 0; i < pinned_count; i++) {
        const uintptr_t block = (uintptr_t)pinned[i].memory;
        if (begin + size <= block || block + pinned[i].size <= begin)
            continue;
        if (begin < block || begin + size > block + pinned[i].size)
            refuse("a copy is partly within a block of pinned memory");
        return &pinned[i];
    }
    return NULL;
}

/* Uses the program's allocator, so that sanitizers detect writes out of bounds. */
static CUresult allocate_pinned(void **memory, size_t size, unsigned flags) {
    void *added = NULL;
    if (!memory || !size || flags > 7)
        return CUDA_ERROR_INVALID_VALUE;
    if (pinned_count == MOST_PINNED)
        refuse("there are too many blocks of pinned memory");
    if (posix_memalign(&added, 4096, size))
        return CUDA_ERROR_OUT_OF_MEMORY;
    memset(added, POISON, size);
    pinned[pinned_count].memory = (unsigned char *)added;
    pinned[pinned_count++].size = size;
    driver.live++;
    *memory = added;
    return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **memory, size_t size, unsigned flags) {
    CALL(CONTEXT | UNSAFE, allocate_pinned(memory, size, flags));
}

static int uses_pinned(const operation *queued, const void *what) {
    const pinned_block *block = (const pinned_block *)what;
    return queued->host >= block->memory && queued->host < block->memory + block->size;
}

static CUresult release_pinned(void *memory) {
    if (!memory)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < pinned_count; i++) {
        if (pinned[i].memory != memory)
            continue;
        if (find_queued(uses_pinned, &pinned[i]))
            refuse("pinned memory is released that queued operations use");
        free(memory);
        pinned[i] = pinned[--pinned_count];
        driver.live--;
        return CUDA_SUCCESS;
    }
    refuse("memory is released that is not pinned");
}

CUresult cuMemFreeHost(void *memory) {
    CALL(CONTEXT | UNSAFE | ACTS_ALWAYS, release_pinned(memory));
}

/* ---- Copies ---- */

static const char *name_of(operation_kind kind) {
    return kind == FILL ? "memory to be set" : "a copy";
}

/* Creates an operation on device memory, which must exist now and when it is executed. */
static operation *new_copy(operation_kind kind, uint64_t target, uint64_t source, size_t size) {
    operation *created = new_operation(kind);
    unsigned char *written;
    created->target = target;
    created->source = source;
    created->size = size;
    created->spans = (emulated_span *)need_memory(calloc(2, sizeof *created->spans));
    if (target) {
        created->spans[created->span_count].begin = target;
        created->spans[created->span_count++].size = size;
    }
    if (source) {
        created->spans[created->span_count].begin = source;
        created->spans[created->span_count++].size = size;
    }
    for (size_t i = 0; i < created->span_count; i++)
        resolve(created->context, created->spans[i].begin, size, name_of(kind), &written);
    return created;
}

static void fill(operation *executed, unsigned char *target) {
    const size_t count = executed->size / executed->width;
    if (executed->width == 1) {
        memset(target, (int)executed->value, executed->size);
        return;
    }
    for (size_t i = 0; i < count; i++)
        memcpy(target + 4 * i, &executed->value, 4);
}

/* Checks the device bytes read by a copy to the host. */
static void check_written(const operation *executed, const unsigned char *written) {
    const unsigned char *missing = (const unsigned char *)memchr(written, 0, executed->size);
    if (driver.is_strict && missing)
        refuse("a copy reads memory that nobody wrote (byte %zu of %zu)", (size_t)(missing - written), executed->size);
}

void execute_copy(operation *executed) {
    unsigned char *to, *from, *written, *source_written;
    if (executed->host && !executed->staged && !find_pinned(executed->host, executed->size))
        refuse("a copy uses pinned memory that was released");
    switch (executed->kind) {
    case UPLOAD:
        to = resolve(executed->context, executed->target, executed->size, "a copy", &written);
        memcpy(to, executed->staged ? executed->staged : executed->host, executed->size);
        memset(written, 1, executed->size);
        break;
    case DOWNLOAD:
        from = resolve(executed->context, executed->source, executed->size, "a copy", &written);
        check_written(executed, written);
        memcpy(executed->host, from, executed->size);
        break;
    case MOVE:
        to = resolve(executed->context, executed->target, executed->size, "a copy", &written);
        from = resolve(executed->context, executed->source, executed->size, "a copy", &source_written);
        memcpy(to, from, executed->size);
        memcpy(written, source_written, executed->size);
        break;
    default:
        to = resolve(executed->context, executed->target, executed->size, "memory to be set", &written);
        fill(executed, to);
        memset(written, 1, executed->size);
        break;
    }
}

/* A copy that the host waits for acts like one on the default stream: it waits only for blocking streams. */
static CUresult copy_now(operation *copied) {
    run_context(copied->context, CU_STREAM_NON_BLOCKING);
    run_some(draw(4));
    if (copied->span_count && find_queued(uses_span_surely, &copied->spans[0]))
        refuse("a copy does not wait for queued operations that use its memory");
    if (!copied->context->failure) {
        copied->staged = copied->host; /* host memory need not be pinned */
        execute_copy(copied);
        copied->staged = NULL;
    }
    drop_operation(copied);
    return current_context()->failure;
}

static CUresult upload(CUdeviceptr target, const void *source, size_t size) {
    operation *copied;
    if (!size)
        return CUDA_SUCCESS;
    if (!source || !target)
        return CUDA_ERROR_INVALID_VALUE;
    copied = new_copy(UPLOAD, target, 0, size);
    copied->host = (unsigned char *)(uintptr_t)source;
    return copy_now(copied);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr target, const void *source, size_t size) {
    CALL(CONTEXT | UNSAFE, upload(target, source, size));
}

static CUresult download(void *target, CUdeviceptr source, size_t size) {
    operation *copied;
    if (!size)
        return CUDA_SUCCESS;
    if (!source || !target)
        return CUDA_ERROR_INVALID_VALUE;
    copied = new_copy(DOWNLOAD, 0, source, size);
    copied->host = (unsigned char *)target;
    return copy_now(copied);
}

CUresult cuMemcpyDtoH_v2(void *target, CUdeviceptr source, size_t size) {
    CALL(CONTEXT | UNSAFE, download(target, source, size));
}

/* Reads pageable memory at once. */
static CUresult upload_late(CUdeviceptr target, const void *source, size_t size, CUstream stream) {
    CUresult error = check_stream(stream);
    operation *copied;
    if (error || !size)
        return error;
    if (!source || !target)
        return CUDA_ERROR_INVALID_VALUE;
    if (!find_pinned(source, size)) {
        error = forbid_in_capture(stream);
        if (error)
            return error;
    }
    copied = new_copy(UPLOAD, target, 0, size);
    copied->host = (unsigned char *)(uintptr_t)source;
    if (!find_pinned(source, size)) {
        copied->staged = (unsigned char *)need_memory(malloc(size));
        memcpy(copied->staged, source, size);
        copied->host = NULL;
    }
    return submit(stream, copied);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr target, const void *source, size_t size, CUstream stream) {
    CALL(CONTEXT, upload_late(target, source, size, stream));
}

/* For pageable memory the host waits for the copy. */
static CUresult download_late(void *target, CUdeviceptr source, size_t size, CUstream stream) {
    CUresult error = check_stream(stream);
    operation *copied;
    int is_pinned;
    if (error || !size)
        return error;
    if (!source || !target)
        return CUDA_ERROR_INVALID_VALUE;
    is_pinned = find_pinned(target, size) != NULL;
    if (!is_pinned) {
        error = forbid_in_capture(stream);
        if (error)
            return error;
    }
    copied = new_copy(DOWNLOAD, 0, source, size);
    copied->host = (unsigned char *)target;
    if (is_pinned)
        return submit(stream, copied);
    copied->staged = copied->host;
    copied->references++;
    error = submit(stream, copied);
    if (!error)
        run_operation(copied);
    copied->staged = NULL;
    drop_operation(copied);
    return error ? error : current_context()->failure;
}

CUresult cuMemcpyDtoHAsync_v2(void *target, CUdeviceptr source, size_t size, CUstream stream) {
    CALL(CONTEXT, download_late(target, source, size, stream));
}

static CUresult move_late(CUdeviceptr target, CUdeviceptr source, size_t size, CUstream stream) {
    const CUresult error = check_stream(stream);
    if (error || !size)
        return error;
    if (!source || !target)
        return CUDA_ERROR_INVALID_VALUE;
    if (target < source + size && source < target + size)
        refuse("a copy overlaps itself");
    return submit(stream, new_copy(MOVE, target, source, size));
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr target, CUdeviceptr source, size_t size, CUstream stream) {
    CALL(CONTEXT, move_late(target, source, size, stream));
}

static CUresult fill_late(CUdeviceptr target, unsigned value, unsigned width, size_t count, CUstream stream) {
    const CUresult error = check_stream(stream);
    operation *filled;
    if (error || !count)
        return error;
    if (!target || target % width)
        return CUDA_ERROR_INVALID_VALUE;
    filled = new_copy(FILL, target, 0, count * width);
    filled->value = value;
    filled->width = width;
    return submit(stream, filled);
}

CUresult cuMemsetD8Async(CUdeviceptr target, unsigned char value, size_t count, CUstream stream) {
    CALL(CONTEXT, fill_late(target, value, 1, count, stream));
}

CUresult cuMemsetD32Async(CUdeviceptr target, unsigned value, size_t count, CUstream stream) {
    CALL(CONTEXT, fill_late(target, value, 4, count, stream));
}
