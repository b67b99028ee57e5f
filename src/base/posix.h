/* POSIX declarations that a system header before eitp.h may have hidden. No other file declares system functions. */
#ifndef EITP_POSIX_H
#define EITP_POSIX_H

#include "base/base.h"

#include <stdlib.h>

/*
 * A strict mode (-std=c11) hides POSIX unless _DEFAULT_SOURCE precedes the first system header. If the program included
 * one before eitp.h, the POSIX functions used by the implementation are declared here, and constants are defined by
 * glibc's own names for them. Types cannot be recovered, so the library does not use hidden ones such as struct
 * sigaction.
 */
#if defined(__GLIBC__) && !(defined(__USE_MISC) && defined(__USE_XOPEN2K8))
#if !defined(__LP64__)
#error "eitp: a system header before eitp.h hides POSIX; include eitp.h first or compile with -D_DEFAULT_SOURCE"
#endif
struct stat;
struct timespec;
struct tm;
EITP_BEGIN_DECLARATIONS
extern long int syscall(long int number, ...);
extern int clock_gettime(int clock, struct timespec *time);
extern int fsync(int descriptor);
extern int ftruncate(int descriptor, long int size);
extern int madvise(void *memory, size_t size, int advice);
extern int lstat(const char *path, struct stat *info);
extern int nanosleep(const struct timespec *time, struct timespec *rest);
extern int posix_fadvise(int descriptor, long int offset, long int size, int advice);
extern int posix_memalign(void **memory, size_t alignment, size_t size);
extern long int pread(int descriptor, void *data, size_t size, long int offset);
extern long int pwrite(int descriptor, const void *data, size_t size, long int offset);
extern int symlink(const char *target, const char *path);
extern char *realpath(const char *path, char *resolved);
extern struct tm *gmtime_r(const long int *seconds, struct tm *utc);
EITP_END_DECLARATIONS
#elif defined(__linux__) && !defined(__GLIBC__) && defined(__STRICT_ANSI__) && !defined(_BSD_SOURCE) &&                \
    !defined(_GNU_SOURCE)
#error "eitp: a system header before eitp.h hides POSIX; include eitp.h first or compile with -D_DEFAULT_SOURCE"
#endif

/* Time of the last change in a struct stat, in nanoseconds since 1970. */
#if defined(__APPLE__)
#define EITP__MODIFIED(info) ((int64_t)(info).st_mtimespec.tv_sec * 1000000000 + (info).st_mtimespec.tv_nsec)
#elif defined(__GLIBC__) && !defined(__USE_XOPEN2K8)
#define EITP__MODIFIED(info) ((int64_t)(info).st_mtime * 1000000000 + (int64_t)(info).st_mtimensec)
#else
#define EITP__MODIFIED(info) ((int64_t)(info).st_mtim.tv_sec * 1000000000 + (info).st_mtim.tv_nsec)
#endif

#if defined(__GLIBC__) && !defined(__USE_XOPEN2K8)
#ifndef O_CLOEXEC
#define O_CLOEXEC __O_CLOEXEC
#endif
#ifndef O_NOFOLLOW
#define O_NOFOLLOW __O_NOFOLLOW
#endif
#ifndef O_DIRECTORY
#define O_DIRECTORY __O_DIRECTORY
#endif
#ifndef CLOCK_REALTIME
#define CLOCK_REALTIME 0
#endif
#ifndef CLOCK_MONOTONIC
#define CLOCK_MONOTONIC 1
#endif
#endif
#endif
