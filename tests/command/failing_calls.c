/*
 * Loaded into the command by tests/command/test_torture.sh, test_trouble.sh and test_doctor.sh (LD_PRELOAD). It counts
 * the command's file system calls, and makes one of them fail, kills the process at it, or slows down reading or
 * syncing.
 *   CALLS_COUNT       a file to which the number of calls is written at the end
 *   CALLS_AT          the number of the call, from 1
 *   CALLS_CODE        its errno value; 0: the process is killed
 *   CALLS_SLOW        milliseconds added to each pread
 *   CALLS_SLOW_SYNC   milliseconds added to each fsync
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static long calls;

/* Counts a call. Returns 1, with errno set, if it is the one to fail. */
static int fails(void) {
    const char *at = getenv("CALLS_AT"), *code = getenv("CALLS_CODE");
    const long number = __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
    if (!at || number != atol(at))
        return 0;
    errno = code ? atoi(code) : 0;
    if (!errno)
        kill(getpid(), SIGKILL);
    return 1;
}

static void *next(const char *name) {
    return dlsym(RTLD_NEXT, name);
}

__attribute__((destructor)) static void write_count(void) {
    const char *path = getenv("CALLS_COUNT");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file)
        return;
    fprintf(file, "%ld\n", calls);
    fclose(file);
}

#define CALL(type, name, parameters, arguments)                                                                        \
    type name parameters {                                                                                             \
        type(*real) parameters = (type(*) parameters)next(#name);                                                      \
        return fails() ? (type)-1 : real arguments;                                                                    \
    }

CALL(ssize_t, read, (int file, void *data, size_t size), (file, data, size))

/* Waits for the milliseconds in a variable, if it is set. */
static void wait_for(const char *variable) {
    const char *slow = getenv(variable);
    const long milliseconds = slow ? atol(slow) : 0;
    const struct timespec delay = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    if (slow)
        nanosleep(&delay, NULL);
}

ssize_t pread(int file, void *data, size_t size, off_t at) {
    ssize_t (*real)(int, void *, size_t, off_t) = (ssize_t(*)(int, void *, size_t, off_t))next("pread");
    wait_for("CALLS_SLOW");
    return fails() ? -1 : real(file, data, size, at);
}

CALL(ssize_t, pwrite, (int file, const void *data, size_t size, off_t at), (file, data, size, at))
CALL(int, ftruncate, (int file, off_t size), (file, size))
CALL(int, flock, (int file, int operation), (file, operation))
CALL(int, fstat, (int file, struct stat *info), (file, info))
CALL(int, stat, (const char *path, struct stat *info), (path, info))
CALL(int, lstat, (const char *path, struct stat *info), (path, info))
CALL(int, mkdir, (const char *path, mode_t mode), (path, mode))
CALL(int, rmdir, (const char *path), (path))
CALL(int, unlink, (const char *path), (path))
CALL(int, symlink, (const char *target, const char *path), (target, path))
CALL(int, rename, (const char *from, const char *to), (from, to))
CALL(int, mkstemp, (char *path), (path))

/* Does nothing: a kill loses no unsynced data, and syncing would take most of the time. */
int fsync(int file) {
    (void)file;
    wait_for("CALLS_SLOW_SYNC");
    return fails() ? -1 : 0;
}

/* Closes the file even if the call fails. */
int close(int file) {
    int (*real)(int) = (int (*)(int))next("close");
    const int failed = fails(), code = errno, result = real(file);
    if (failed)
        errno = code;
    return failed ? -1 : result;
}

int open(const char *path, int flags, ...) {
    int (*real)(const char *, int, ...) = (int (*)(const char *, int, ...))next("open");
    va_list list;
    unsigned mode = 0;
    va_start(list, flags);
    if (flags & (O_CREAT | 020000000)) /* or O_TMPFILE */
        mode = va_arg(list, unsigned);
    va_end(list);
    return fails() ? -1 : real(path, flags, mode);
}

DIR *opendir(const char *path) {
    DIR *(*real)(const char *) = (DIR * (*)(const char *)) next("opendir");
    return fails() ? NULL : real(path);
}

struct dirent *readdir(DIR *directory) {
    struct dirent *(*real)(DIR *) = (struct dirent * (*)(DIR *)) next("readdir");
    return fails() ? NULL : real(directory);
}

#ifdef SYS_renameat2
/* The C library's strict headers declare no function that exchanges two names. */
long syscall(long number, ...) {
    long (*real)(long, ...) = (long (*)(long, ...))next("syscall");
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    return number == SYS_renameat2 && fails() ? -1 : real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
#endif
