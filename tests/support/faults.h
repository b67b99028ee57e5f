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
 * 0xa5 and released memory with 0xdd, to reveal uses of uninitialised and released memory. File calls may come from
 * several threads.
 */
#ifndef EITP_TEST_FAULTS_H
#define EITP_TEST_FAULTS_H

#include "base/files.h"
#include "test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define FAULTS_UNUSED __attribute__((unused))
#define FAULTS_EXIT 77             /* exit status of a process ended by a call */
#define FAULTS_MARGIN ((size_t)64) /* in front of each block, for its size */

/* Reads and writes that transfer fewer bytes than requested, without an error. */
typedef enum faults_short { FAULTS_WHOLE, FAULTS_LESS_ONE, FAULTS_HALF, FAULTS_ONE } faults_short;

typedef struct faults {
    eitp_host host; /* for the code under test; its `user` pointers point to this struct, which must not move */
    eitp_host real;

    long allocations;     /* calls so far */
    long fail_allocation; /* number of the call that fails, from 1; 0: none */
    int all_allocations;  /* later ones fail too */
    long live_blocks;
    size_t live_bytes;
    size_t peak_bytes;

    long most_allocations, most_file_calls; /* exceeding one aborts the program, to end an infinite loop; 0: no limit */
    char is_busy;                           /* a thread is deciding whether its call fails */
    long file_calls;                        /* calls of any function of the file table so far */
    long fail_file_call;                    /* number of the failing call, from 1; 0: none. To reset:
                                               faults_fail_file_call */
    int all_file_calls;                     /* later ones fail too, as if the process or the disk were gone */
    int code;                               /* errno value of failing calls; 0: EIO */
    int times;               /* number of calls of that function in a row that fail; 0: as many as eitp makes */
    int tear;                /* a failing write writes half of its data */
    faults_short shorten;    /* the calls are short instead of failing, if they are reads or writes of over 1 byte */
    int exits;               /* instead of failing, the call ends the process, as a kill would */
    size_t largest_transfer; /* largest number of bytes per read or write; 0: no limit */
    long open_files, live_locks;
    const char *failed_call;           /* the function that failed first, such as "write"; NULL: none */
    long failures;                     /* number of calls and allocations that failed, or were short */
    double waited;                     /* seconds that `wait` was called with; it returns at once */
    uint64_t free_bytes, largest_file; /* returned by `space`; 0: no limit */
} faults;

static FAULTS_UNUSED void faults_limit(long calls, long most, const char *what) {
    if (!most || calls <= most)
        return;
    printf("    more than %ld %s: does this end?\n", most, what);
    fflush(stdout);
    abort();
}

static FAULTS_UNUSED void *faults_allocate(void *user, size_t size, size_t alignment) {
    faults *f = (faults *)user;
    size_t margin = alignment > FAULTS_MARGIN ? alignment : FAULTS_MARGIN;
    unsigned char *block;
    f->allocations++;
    faults_limit(f->allocations, f->most_allocations, "allocations");
    if (f->allocations == f->fail_allocation ||
        (f->all_allocations && f->fail_allocation && f->allocations > f->fail_allocation)) {
        f->failures++;
        return NULL;
    }
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

/* Returns the number of calls in a row that fail. By default it is the number eitp makes of an operation, since it
   retries some. */
static FAULTS_UNUSED int faults_times(const faults *f, const char *function) {
    const int is_transfer = !strcmp(function, "read") || !strcmp(function, "write");
    const int repeats = f->code == EAGAIN || (is_transfer && (!f->code || f->code == EIO));
    return f->times ? f->times : repeats ? 1 + EITP__FILE_RETRIES : 1;
}

/* Schedules another failure, of the n-th call from now, or none if n is 0. */
static FAULTS_UNUSED void faults_fail_file_call(faults *f, long n) {
    f->file_calls = f->failures = 0;
    f->failed_call = NULL;
    f->fail_file_call = n;
}

/* True if call `number` fails or, with `shorten`, is short. Only calls with `may_be_short` can be short. */
static FAULTS_UNUSED int faults_choose(const faults *f, const char *function, long number, int may_be_short) {
    if (!f->fail_file_call || number < f->fail_file_call)
        return 0;
    if (f->shorten)
        return may_be_short && (number == f->fail_file_call || f->all_file_calls);
    return !f->failed_call || f->all_file_calls ||
           (!strcmp(f->failed_call, function) && f->failures < faults_times(f, function));
}

/* Counts a call. Returns 1 if it fails or is short. Sets *is_first if it is the first one. */
static FAULTS_UNUSED int faults_is_due(faults *f, const char *function, int may_be_short, int *is_first) {
    int is_due;
    while (__atomic_test_and_set(&f->is_busy, __ATOMIC_ACQUIRE)) {
    }
    faults_limit(++f->file_calls, f->most_file_calls, "file calls");
    is_due = faults_choose(f, function, f->file_calls, may_be_short);
    *is_first = is_due && !f->failed_call;
    if (is_due && f->exits && !(f->tear && !strcmp(function, "write")))
        _exit(FAULTS_EXIT);
    if (*is_first)
        f->failed_call = function;
    f->failures += is_due;
    __atomic_clear(&f->is_busy, __ATOMIC_RELEASE);
    return is_due;
}

/* Counts a call. Returns the errno value it must fail with, or 0. */
static FAULTS_UNUSED int faults_file_call(faults *f, const char *function) {
    int is_first;
    return !faults_is_due(f, function, 0, &is_first) ? 0 : f->code ? f->code : EIO;
}

/* Does the same for a read or write, and may lower its size. Sets *tears if it must write half of the data before it
   fails. */
static FAULTS_UNUSED int faults_transfer(faults *f, const char *function, size_t *size, int *tears) {
    int is_first;
    *tears = 0;
    if (f->largest_transfer && *size > f->largest_transfer)
        *size = f->largest_transfer;
    if (!faults_is_due(f, function, *size > 1, &is_first))
        return 0;
    if (f->shorten) {
        *size = f->shorten == FAULTS_ONE ? 1 : f->shorten == FAULTS_HALF ? *size / 2 : *size - 1;
        return 0;
    }
    *tears = f->tear && is_first;
    return f->code ? f->code : EIO;
}

static FAULTS_UNUSED int faults_open(void *user, const char *path, eitp_file_mode mode, void **file) {
    faults *f = (faults *)user;
    int code = faults_file_call(f, "open");
    if (!code)
        code = f->real.files.open(f->real.files.user, path, mode, file);
    if (!code)
        __atomic_add_fetch(&f->open_files, 1, __ATOMIC_RELAXED);
    return code;
}

/* A failing close still closes the file. */
static FAULTS_UNUSED int faults_close(void *user, void *file) {
    faults *f = (faults *)user;
    int code = faults_file_call(f, "close"), real = f->real.files.close(f->real.files.user, file);
    __atomic_sub_fetch(&f->open_files, 1, __ATOMIC_RELAXED);
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
    int ignored, code = faults_transfer(f, "read", &size, &ignored);
    return code ? code : f->real.files.read(f->real.files.user, file, offset, data, size, done);
}

static FAULTS_UNUSED int faults_write(void *user, void *file, uint64_t offset, const void *data, size_t size,
                                      size_t *done) {
    faults *f = (faults *)user;
    int tears, code = faults_transfer(f, "write", &size, &tears);
    size_t ignored;
    if (tears)
        f->real.files.write(f->real.files.user, file, offset, data, size / 2, &ignored);
    if (code && f->exits)
        _exit(FAULTS_EXIT);
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

static FAULTS_UNUSED int faults_file_info(void *user, void *file, eitp_path_info *info) {
    faults *f = (faults *)user;
    int code = faults_file_call(f, "file_info");
    return code ? code : f->real.files.file_info(f->real.files.user, file, info);
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

static FAULTS_UNUSED int faults_exchange(void *user, const char *a, const char *b) {
    faults *f = (faults *)user;
    int code = faults_file_call(f, "exchange");
    return code ? code : f->real.files.exchange(f->real.files.user, a, b);
}

static FAULTS_UNUSED int faults_remove(void *user, const char *path) {
    faults *f = (faults *)user;
    int code = faults_file_call(f, "remove");
    return code ? code : f->real.files.remove(f->real.files.user, path);
}

static FAULTS_UNUSED int faults_link(void *user, const char *target, const char *path) {
    faults *f = (faults *)user;
    int code = faults_file_call(f, "link");
    return code ? code : f->real.files.link(f->real.files.user, target, path);
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

static FAULTS_UNUSED int faults_lock(void *user, const char *path, void **lock) {
    faults *f = (faults *)user;
    int code = faults_file_call(f, "lock");
    if (!code)
        code = f->real.files.lock(f->real.files.user, path, lock);
    f->live_locks += !code;
    return code;
}

static FAULTS_UNUSED void faults_unlock(void *user, void *lock) {
    faults *f = (faults *)user;
    f->real.files.unlock(f->real.files.user, lock);
    f->live_locks--;
}

static FAULTS_UNUSED int faults_sync_nothing(void *user, void *file) {
    (void)user, (void)file;
    return 0;
}

static FAULTS_UNUSED int faults_sync_no_directory(void *user, const char *path) {
    (void)user, (void)path;
    return 0;
}

/* Turns syncing off for tests of processes that end. They lose no written data, and syncing would take most of the
   time. */
static FAULTS_UNUSED void faults_do_not_sync(eitp_host *host) {
    host->files.sync = faults_sync_nothing;
    host->files.sync_directory = faults_sync_no_directory;
}

/* Starts a new host on top of another, without faults. */
static FAULTS_UNUSED void faults_begin_on(faults *f, const eitp_host *real) {
    memset(f, 0, sizeof *f);
    f->real = *real;
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
    f->host.files.link = faults_link;
    f->host.files.lock = real->files.lock ? faults_lock : NULL;
    f->host.files.unlock = real->files.unlock ? faults_unlock : NULL;
    f->host.files.file_info = real->files.file_info ? faults_file_info : NULL;
    f->host.files.exchange = real->files.exchange ? faults_exchange : NULL;
}

/* Starts a new host on top of the default host. */
static FAULTS_UNUSED void faults_begin(faults *f) {
    const eitp_host real = eitp_host_default();
    faults_begin_on(f, &real);
}

/* Checks that everything is released. Returns 1 if the scheduled failure has happened. */
static FAULTS_UNUSED int faults_end(faults *f) {
    CHECK_THAT(f->live_blocks == 0, "%ld blocks of memory were not released", f->live_blocks);
    CHECK_THAT(f->open_files == 0, "%ld files were not closed", f->open_files);
    CHECK_THAT(f->live_locks == 0, "%ld directories were not unlocked", f->live_locks);
    return (f->fail_allocation && f->allocations >= f->fail_allocation) ||
           (f->fail_file_call && f->file_calls >= f->fail_file_call);
}

/* Sets the time of a file to `seconds` since 1970, because a coarse clock may hide a second change. */
static FAULTS_UNUSED int faults_set_time(const char *path, int seconds) {
    struct timespec times[2];
    memset(times, 0, sizeof times);
    times[0].tv_sec = times[1].tv_sec = seconds;
    return utimensat(AT_FDCWD, path, times, 0);
}

/* Creates an empty directory for a test's files and stores its path. Returns 0 on failure. Remove it with
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

/* Returns "directory/name", valid until eight more calls. */
static FAULTS_UNUSED const char *scratch_path(const char *directory, const char *name) {
    static char paths[8][1024];
    static int next;
    char *path = paths[next++ & 7];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

#endif
