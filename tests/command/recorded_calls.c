/*
 * Loaded into the command by tests/command/test_power_loss.sh (LD_PRELOAD). It records the calls that change or sync
 * files and directories in the file RECORDED_CALLS, in the order in which they took effect
 * (tests/command/recorded_calls.h).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "recorded_calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static FILE *recorded;

static void *next(const char *name) {
    return dlsym(RTLD_NEXT, name);
}

__attribute__((constructor)) static void open_record(void) {
    const char *path = getenv("RECORDED_CALLS");
    recorded = path ? fopen(path, "wbe") : NULL;
    if (!recorded)
        abort();
}

__attribute__((destructor)) static void close_record(void) {
    fclose(recorded);
}

/* Records a call that succeeded. */
static void record(recorded_kind kind, long long file, long long number, const char *first, const void *second,
                   size_t size) {
    recorded_call call;
    const int code = errno;
    memset(&call, 0, sizeof call);
    call.kind = kind;
    call.file = file;
    call.number = number;
    call.first_size = (long long)(first ? strlen(first) + 1 : 0);
    call.second_size = (long long)size;
    if (fwrite(&call, sizeof call, 1, recorded) != 1 ||
        fwrite(first, 1, (size_t)call.first_size, recorded) != (size_t)call.first_size ||
        fwrite(second, 1, size, recorded) != size)
        abort();
    errno = code;
}

#define CALL(type, name, parameters, arguments, recording)                                                             \
    type name parameters {                                                                                             \
        type(*real) parameters = (type(*) parameters)next(#name);                                                      \
        type result;                                                                                                   \
        pthread_mutex_lock(&mutex);                                                                                    \
        result = real arguments;                                                                                       \
        if (result >= 0)                                                                                               \
            recording;                                                                                                 \
        pthread_mutex_unlock(&mutex);                                                                                  \
        return result;                                                                                                 \
    }

CALL(ssize_t, pwrite, (int file, const void *data, size_t size, off_t at), (file, data, size, at),
     record(RECORDED_WRITE, file, at, NULL, data, (size_t)result))
CALL(int, ftruncate, (int file, off_t size), (file, size), record(RECORDED_RESIZE, file, size, NULL, NULL, 0))
CALL(int, close, (int file), (file), record(RECORDED_CLOSE, file, 0, NULL, NULL, 0))
CALL(int, mkdir, (const char *path, mode_t mode), (path, mode), record(RECORDED_MAKE, 0, 0, path, NULL, 0))
CALL(int, rmdir, (const char *path), (path), record(RECORDED_REMOVE, 0, 0, path, NULL, 0))
CALL(int, unlink, (const char *path), (path), record(RECORDED_REMOVE, 0, 0, path, NULL, 0))
CALL(int, symlink, (const char *target, const char *path), (target, path),
     record(RECORDED_LINK, 0, 0, path, target, strlen(target) + 1))
CALL(int, rename, (const char *from, const char *to), (from, to),
     record(RECORDED_RENAME, 0, 0, from, to, strlen(to) + 1))

/* Does nothing: the real disk loses nothing, and syncing would take most of the time. */
int fsync(int file) {
    pthread_mutex_lock(&mutex);
    record(RECORDED_SYNC, file, 0, NULL, NULL, 0);
    pthread_mutex_unlock(&mutex);
    return 0;
}

int fdatasync(int file) {
    return fsync(file);
}

int open(const char *path, int flags, ...) {
    int (*real)(const char *, int, ...) = (int (*)(const char *, int, ...))next("open");
    va_list list;
    unsigned mode = 0;
    int file;
    va_start(list, flags);
    if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE)
        mode = va_arg(list, unsigned);
    va_end(list);
    pthread_mutex_lock(&mutex);
    file = real(path, flags, mode);
    if (file >= 0 && (flags & O_TMPFILE) != O_TMPFILE)
        record(RECORDED_OPEN, file, (flags & O_CREAT ? 1 : 0) + (flags & O_TRUNC ? 2 : 0), path, NULL, 0);
    pthread_mutex_unlock(&mutex);
    return file;
}

#ifdef SYS_renameat2
/* The C library's strict headers declare no function that exchanges two names. */
long syscall(long number, ...) {
    long (*real)(long, ...) = (long (*)(long, ...))next("syscall");
    long a[6], result;
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    pthread_mutex_lock(&mutex);
    result = real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (number == SYS_renameat2 && !result)
        record(RECORDED_EXCHANGE, 0, 0, (const char *)a[1], (const char *)a[3], strlen((const char *)a[3]) + 1);
    pthread_mutex_unlock(&mutex);
    return result;
}
#endif
