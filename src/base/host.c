/* The default host, build information and dtypes. */
#include "base/files.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

#define EITP__HUGE_PAGE ((size_t)2 << 20)
#define EITP__LARGE_BLOCK (4 * EITP__HUGE_PAGE)
#define EITP__RETURNED_BLOCK ((size_t)256 << 10)

/* Requests huge pages for a large block, which starts on one: fewer page faults and TLB misses. */
static void eitp__advise_huge_pages(void *memory, size_t size) {
#if defined(__linux__)
    enum { EITP__ADVICE_HUGE_PAGES = 14 }; /* MADV_HUGEPAGE, which strict modes hide; ignored where unsupported */
    madvise(memory, size / EITP__HUGE_PAGE * EITP__HUGE_PAGE, EITP__ADVICE_HUGE_PAGES);
#else
    (void)memory;
    (void)size;
#endif
}

/* Returns the pages of a released block to the system immediately. Otherwise, the C library keeps released blocks below
   a threshold, which rises with the sizes it sees. */
static void eitp__return_pages(void *memory, size_t size) {
#if defined(__linux__)
    /* MADV_DONTNEED on every architecture with huge pages. It rounds up to whole pages, so the size is rounded down. */
    enum { EITP__ADVICE_NOT_NEEDED = 4, EITP__LARGEST_PAGE = 65536 };
    madvise(memory, size / EITP__LARGEST_PAGE * EITP__LARGEST_PAGE, EITP__ADVICE_NOT_NEEDED);
#else
    (void)memory;
    (void)size;
#endif
}

static void *eitp__system_allocate(void *user, size_t size, size_t alignment) {
    void *memory = NULL;
    (void)user;
    if (size >= EITP__LARGE_BLOCK)
        alignment = EITP__HUGE_PAGE;
    if (posix_memalign(&memory, alignment, size))
        return NULL;
    if (alignment == EITP__HUGE_PAGE)
        eitp__advise_huge_pages(memory, size);
    return memory;
}

static void eitp__system_release(void *user, void *memory, size_t size) {
    (void)user;
    if (size >= EITP__RETURNED_BLOCK)
        eitp__return_pages(memory, size);
    free(memory);
}

eitp_host eitp_host_default(void) {
    eitp_host host;
    memset(&host, 0, sizeof host);
    host.allocator.allocate = eitp__system_allocate;
    host.allocator.release = eitp__system_release;
    host.files = eitp__system_files();
    return host;
}

EITP__PRIVATE eitp_status eitp__check_host(const eitp_host *host, const char *member, const char *start,
                                           eitp_error *error) {
    const eitp_files *files = &host->files;
    const int has_files = files->open && files->close && files->size && files->resize && files->read && files->write &&
                          files->sync && files->info && files->make_directory && files->sync_directory &&
                          files->rename && files->remove && files->list;
    if (has_files && host->allocator.allocate && host->allocator.release)
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s lacks functions of its %s; start from %s", member,
                      has_files ? "allocator" : "allocator or files", start);
}

const char *eitp_version(void) {
    return EITP_VERSION_STRING;
}

#ifdef __OPTIMIZE__
#define EITP__OPTIMIZED "1"
#else
#define EITP__OPTIMIZED "0"
#endif
#ifdef __clang__
#define EITP__COMPILER "clang-" __clang_version__
#else
#define EITP__COMPILER "gcc-" __VERSION__
#endif

const char *eitp_build_info(void) {
    return "version=" EITP_VERSION_STRING " compiler=" EITP__COMPILER " optimized=" EITP__OPTIMIZED
#if EITP__WITH_OPENMP
           " openmp=1"
#else
           " openmp=0"
#endif
           " kernels=ref"
#if EITP__WITH_AVX2
           ",avx2"
#endif
#if EITP__WITH_AVX512
           ",avx512"
#endif
#if EITP__WITH_AVX512BF16
           ",avx512bf16"
#endif
#if EITP__WITH_AMX
           ",amx"
#endif
        ;
}

static const struct {
    const char *name;
    size_t size;
} eitp__dtypes[EITP_DTYPE_COUNT] = {
    {"f32", 4}, {"f64", 8}, {"bf16", 2}, {"f16", 2}, {"i64", 8}, {"i32", 4}, {"i8", 1}, {"u8", 1}, {"i16", 2},
};

size_t eitp_dtype_size(eitp_dtype dtype) {
    return (size_t)dtype < EITP__COUNT(eitp__dtypes) ? eitp__dtypes[dtype].size : 0;
}

const char *eitp_dtype_name(eitp_dtype dtype) {
    return (size_t)dtype < EITP__COUNT(eitp__dtypes) ? eitp__dtypes[dtype].name : "?";
}
