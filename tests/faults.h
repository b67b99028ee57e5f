/*
 * A host for tests that counts calls and injects faults. Include it after eitp's declarations.
 *
 *     faults f;
 *     for (long n = 1;; n++) {
 *         faults_begin(&f);
 *         f.fail_allocation = n;                 // or: f.fail_file_call = n; f.code = ENOSPC; f.times = 3;
 *         status = work(&f.host, ...);
 *         ... check the outcome ...
 *         if (!faults_end(&f)) break;            // there was no n-th call: every call has failed once
 *     }
 *
 * faults_end checks (with CHECK) that all memory is released and all files are closed. Allocated memory is filled with
 * 0xa5 and released memory with 0xdd, to reveal uses of uninitialised and released memory.
 */
#ifndef EITP_TEST_FAULTS_H
#define EITP_TEST_FAULTS_H

#include "base/files.h"
#include "test.h"

#include <unistd.h>

#define FAULTS_UNUSED __attribute__((unused))
#define FAULTS_MARGIN ((size_t)64) /* in front of each block, for its size */

typedef struct faults {
    eitp_host host; /* for the code under test; its `user` pointers point to this struct, which must not move */
    eitp_host real;

    long allocations;     /* calls so far */
    long fail_allocation; /* number of the call that fails, from 1; 0: none */
    int all_allocations;  /* later ones fail too */
    long live_blocks;
    size_t live_bytes;
    size_t peak_bytes;

    long file_calls;         /* calls of any function of the file table so far */
    long fail_file_call;     /* number of the call that fails, from 1; 0: none */
    int all_file_calls;      /* the later ones fail too, as if the process or the disk were gone */
    int code;                /* errno value of failing calls; 0: EIO */
    int times;               /* number of calls of that function in a row that fail; 0: as many as eitp makes */
    int tear;                /* a failing write writes half of its data */
    size_t largest_transfer; /* largest number of bytes per read or write; 0: no limit */
    long open_files;
    const char *failed_call;           /* the function that failed first, such as "write"; NULL: none */
    int failures;                      /* number of calls that failed */
    double waited;                     /* seconds that `wait` was to wait; it returns at once */
    uint64_t free_bytes, largest_file; /* what `space` returns; 0: no limit */
} faults;

static FAULTS_UNUSED void *faults_allocate(void *user, size_t size, size_t alignment) {
    faults *f = (faults *)user;
    size_t margin = alignment > FAULTS_MARGIN ? alignment : FAULTS_MARGIN;
    unsigned char *block;
    f->allocations++;
    if (f->allocations == f->fail_allocation ||
        (f->all_allocations && f->fail_allocation && f->allocations > f->fail_allocation))
        return NULL;
    if (size > SIZE_MAX - margin)
        return NULL;
    block = (unsigned char *)f->real.allocator.allocate(f->real.allocator.user, size + margin, alignment);
    if (!block)
        return NULL;
    block += margin;
    memset(block, 0xa5, size);
    memcpy(block - sizeof size, &size, sizeof size);
    memcpy(block - sizeof size - sizeof margin, &margin, sizeof margin);
    f->live_blocks++;
    f->live_bytes += size;
    if (f->live_bytes > f->peak_bytes)
        f->peak_bytes = f->live_bytes;
    return block;
}

static FAULTS_UNUSED void faults_release(void *user, void *memory, size_t size) {
    faults *f = (faults *)user;
    unsigned char *block = (unsigned char *)memory;
    size_t allocated, margin;
    memcpy(&allocated, block - sizeof allocated, sizeof allocated);
    memcpy(&margin, block - sizeof allocated - sizeof margin, sizeof margin);
    CHECK_THAT(allocated == size, "released as %llu bytes, allocated as %llu", (unsigned long long)size,
               (unsigned long long)allocated);
    memset(block, 0xdd, allocated);
    f->live_blocks--;
    f->live_bytes -= allocated;
    f->real.allocator.release(f->real.allocator.user, block - margin, allocated + margin);
}

/* The number of calls in a row that fail: by default all that eitp makes of an operation, which repeats some. */
static FAULTS_UNUSED int faults_times(const faults *f, const char *function) {
    const int is_transfer = !strcmp(function, "read") || !strcmp(function, "write");
    const int repeats = f->code == EAGAIN || (is_transfer && (!f->code || f->code == EIO));
    return f->times ? f->times : repeats ? 1 + EITP__FILE_RETRIES : 1;
}

/* Counts a call; returns the errno value it must fail with, or 0. */
static FAULTS_UNUSED int faults_file_call(faults *f, const char *function) {
    f->file_calls++;
    if (!f->fail_file_call || f->file_calls < f->fail_file_call)
        return 0;
    if (!f->failed_call)
        f->failed_call = function;
    else if (!f->all_file_calls && (strcmp(f->failed_call, function) || f->failures >= faults_times(f, function)))
        return 0;
    f->failures++;
    return f->code ? f->code : EIO;
}

static FAULTS_UNUSED int faults_open(void *user, const char *path, eitp_file_mode mode, void **file) {
    faults *f = (faults *)user;
    int code = faults_file_call(f, "open");
    if (!code)
        code = f->real.files.open(f->real.files.user, path, mode, file);
    if (!code)
        f->open_files++;
    return code;
}

/* A failing close closes the file. */
static FAULTS_UNUSED int faults_close(void *user, void *file) {
    faults *f = (faults *)user;
    int code = faults_file_call(f, "close"), real = f->real.files.close(f->real.files.user, file);
    f->open_files--;
    return code ? code : real;
}

static FAULTS_UNUSED int faults_size(void *user, void *file, uint64_t *size) {
    faults *f = (faults *)user;
    int code = faults_file_call(f, "size");
    return code ? code : f->real.files.size(f->real.files.user, file, size);
}

static FAULTS_UNUSED int faults_resize(void *user, void *file, uint64_t size) {
    faults *f = (faults *)user;
    int code = faults_file_call(f, "resize");
    return code ? code : f->real.files.resize(f->real.files.user, file, size);
}

static FAULTS_UNUSED int faults_read(void *user, void *file, uint64_t offset, void *data, size_t size, size_t *done) {
    faults *f = (faults *)user;
    int code = faults_file_call(f, "read");
    if (f->largest_transfer && size > f->largest_transfer)
        size = f->largest_transfer;
    return code ? code : f->real.files.read(f->real.files.user, file, offset, data, size, done);
}

static FAULTS_UNUSED int faults_write(void *user, void *file, uint64_t offset, const void *data, size_t size,
                                      size_t *done) {
    faults *f = (faults *)user;
    int code = faults_file_call(f, "write");
    size_t ignored;
    if (f->largest_transfer && size > f->largest_transfer)
        size = f->largest_transfer;
    if (code && f->tear && f->file_calls == f->fail_file_call)
        f->real.files.write(f->real.files.user, file, offset, data, size / 2, &ignored);
    return code ? code : f->real.files.write(f->real.files.user, file, offset, data, size, done);
}

static FAULTS_UNUSED int faults_sync(void *user, void *file) {
    faults *f = (faults *)user;
    int code = faults_file_call(f, "sync");
    return code ? code : f->real.files.sync(f->real.files.user, file);
}

static FAULTS_UNUSED int faults_info(void *user, const char *path, eitp_path_info *info) {
    faults *f = (faults *)user;
    int code = faults_file_call(f, "info");
    return code ? code : f->real.files.info(f->real.files.user, path, info);
}

static FAULTS_UNUSED int faults_make_directory(void *user, const char *path) {
    faults *f = (faults *)user;
    int code = faults_file_call(f, "make_directory");
    return code ? code : f->real.files.make_directory(f->real.files.user, path);
}

static FAULTS_UNUSED int faults_sync_directory(void *user, const char *path) {
    faults *f = (faults *)user;
    int code = faults_file_call(f, "sync_directory");
    return code ? code : f->real.files.sync_directory(f->real.files.user, path);
}

static FAULTS_UNUSED int faults_rename(void *user, const char *from, const char *to) {
    faults *f = (faults *)user;
    int code = faults_file_call(f, "rename");
    return code ? code : f->real.files.rename(f->real.files.user, from, to);
}

static FAULTS_UNUSED int faults_remove(void *user, const char *path) {
    faults *f = (faults *)user;
    int code = faults_file_call(f, "remove");
    return code ? code : f->real.files.remove(f->real.files.user, path);
}

static FAULTS_UNUSED int faults_list(void *user, const char *path, int (*visit)(void *visitor, const char *name),
                                     void *visitor) {
    faults *f = (faults *)user;
    int code = faults_file_call(f, "list");
    return code ? code : f->real.files.list(f->real.files.user, path, visit, visitor);
}

static FAULTS_UNUSED int faults_space(void *user, const char *path, uint64_t *free_bytes, uint64_t *largest_file) {
    faults *f = (faults *)user;
    int code = faults_file_call(f, "space");
    (void)path;
    *free_bytes = f->free_bytes ? f->free_bytes : UINT64_MAX;
    *largest_file = f->largest_file ? f->largest_file : UINT64_MAX;
    return code;
}

static FAULTS_UNUSED void faults_wait(void *user, double seconds) {
    ((faults *)user)->waited += seconds;
}

/* A new host on top of the default one, without faults. */
static FAULTS_UNUSED void faults_begin(faults *f) {
    memset(f, 0, sizeof *f);
    f->real = eitp_host_default();
    f->host.allocator.user = f;
    f->host.allocator.allocate = faults_allocate;
    f->host.allocator.release = faults_release;
    f->host.files.user = f;
    f->host.files.open = faults_open;
    f->host.files.close = faults_close;
    f->host.files.size = faults_size;
    f->host.files.resize = faults_resize;
    f->host.files.read = faults_read;
    f->host.files.write = faults_write;
    f->host.files.sync = faults_sync;
    f->host.files.info = faults_info;
    f->host.files.make_directory = faults_make_directory;
    f->host.files.sync_directory = faults_sync_directory;
    f->host.files.rename = faults_rename;
    f->host.files.remove = faults_remove;
    f->host.files.list = faults_list;
    f->host.files.space = faults_space;
    f->host.files.wait = faults_wait;
}

/* Checks that everything is released; returns 1 if the call that was to fail has happened. */
static FAULTS_UNUSED int faults_end(faults *f) {
    CHECK_THAT(f->live_blocks == 0, "%ld blocks of memory were not released", f->live_blocks);
    CHECK_THAT(f->open_files == 0, "%ld files were not closed", f->open_files);
    return (f->fail_allocation && f->allocations >= f->fail_allocation) ||
           (f->fail_file_call && f->file_calls >= f->fail_file_call);
}

/* Creates an empty directory for a test's files and stores its path; returns 0 on failure. Remove it with
   scratch_remove. */
static FAULTS_UNUSED int scratch_make(char path[512]) {
    const eitp_host host = eitp_host_default();
    const char *parent = getenv("TMPDIR");
    int code = EEXIST;
#ifdef P_tmpdir
    if (!parent || !*parent)
        parent = P_tmpdir;
#endif
    for (int i = 0; i < 1000 && code == EEXIST; i++) {
        snprintf(path, 512, "%s/eitp-test-%ld-%d", parent && *parent ? parent : ".", (long)getpid(), i);
        code = host.files.make_directory(host.files.user, path);
    }
    return !code;
}

static FAULTS_UNUSED void scratch_remove(const char *path) {
    const eitp_host host = eitp_host_default();
    eitp_error error;
    CHECK_THAT(eitp__remove_tree(&host, path, &error) == EITP_OK, "%s", error.message);
}

/* "directory/name", valid until eight more calls. */
static FAULTS_UNUSED const char *scratch_path(const char *directory, const char *name) {
    static char paths[8][1024];
    static int next;
    char *path = paths[next++ & 7];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

#endif
