/* What every part of eitp shares: version, status and error, the host that it runs on (memory, files, log), and
   the memory that there is. */
#ifndef EITP_BASE_H
#define EITP_BASE_H

/* POSIX calls are hidden by strict C modes; this must precede the first system header. */
#if (defined(EITP_IMPLEMENTATION) || defined(EITP_SPLIT)) && !defined(_DEFAULT_SOURCE)
#define _DEFAULT_SOURCE 1
#endif

#include <stddef.h>
#include <stdint.h>

#define EITP_VERSION_MAJOR 0
#define EITP_VERSION_MINOR 1
#define EITP_VERSION_PATCH 0
#define EITP_VERSION_STRING "0.1.0"

/* 1 exports the public functions of a shared library that is compiled with -fvisibility=hidden. */
#ifndef EITP_SHARED
#define EITP_SHARED 0
#endif

/* Linkage of public functions. Define it before every inclusion to change it, for instance to `static`. */
#ifndef EITP_API
#if EITP_SHARED
#define EITP_API extern __attribute__((visibility("default")))
#else
#define EITP_API extern
#endif
#endif

#ifdef __cplusplus
#define EITP_BEGIN_DECLARATIONS extern "C" {
#define EITP_END_DECLARATIONS }
#else
#define EITP_BEGIN_DECLARATIONS
#define EITP_END_DECLARATIONS
#endif

#include "base/dtype.h"

EITP_BEGIN_DECLARATIONS

/* The version of the implementation that is linked, "0.1.0". */
EITP_API const char *eitp_version(void);

/* How the implementation was built: compiler, OpenMP, OpenBLAS, optimisation; one line of "key=value" words. */
EITP_API const char *eitp_build_info(void);

/* Bytes of one element; 0 for a value that is no dtype. */
EITP_API size_t eitp_dtype_size(eitp_dtype dtype);

/* "f32", "bf16", ...; "?" for a value that is no dtype. */
EITP_API const char *eitp_dtype_name(eitp_dtype dtype);

/*
 * Status and error.
 *
 * A function that can fail returns a status and fills the eitp_error it was given; NULL may be passed where the text
 * is not wanted. Nothing is left half made: on failure every output is NULL or untouched.
 */
typedef enum eitp_status {
    EITP_OK = 0,
    EITP_ERROR_ARGUMENT = 1,    /* the call is wrong: a value, a shape, a path that names nothing */
    EITP_ERROR_FORMAT = 2,      /* the content of a file is wrong */
    EITP_ERROR_UNSUPPORTED = 3, /* well formed, but not something this build or machine can do */
    EITP_ERROR_MEMORY = 4,      /* an allocation failed, or the plan does not fit the budget */
    EITP_ERROR_PRESSURE = 5,    /* stopped because the machine ran short of memory */
    EITP_ERROR_NOT_FINITE = 6,  /* too many steps had a loss or a gradient that is not finite */
    EITP_ERROR_IO = 7,          /* reading or writing failed */
    EITP_ERROR_INTERRUPTED = 8, /* stopped by request */
    EITP_ERROR_INTERNAL = 9,    /* a defect of eitp itself */
    EITP_ERROR_TORN = 10,       /* a step or a resume failed half-way: only resuming from a checkpoint mends it */
    EITP_END_OF_DATA = 11       /* no error: there is nothing left to train on */
} eitp_status;

typedef struct eitp_error {
    eitp_status status;
    char message[600]; /* one line: what is wrong, where, and what to do; no final newline */
} eitp_error;

/* A short name for a status: "ok", "bad argument", ... */
EITP_API const char *eitp_status_name(eitp_status status);

/*
 * Memory. `allocate` returns size bytes aligned to `alignment` (a power of two), zeroed or not, or NULL. `release`
 * gets the same size again. Both are called from the thread that made the call to eitp, never from a worker.
 */
typedef struct eitp_allocator {
    void *user;
    void *(*allocate)(void *user, size_t size, size_t alignment);
    void (*release)(void *user, void *memory, size_t size);
} eitp_allocator;

/* Log. Without a callback eitp is silent. `message` is one line without its newline, valid during the call. */
typedef enum eitp_log_level {
    EITP_LOG_DEBUG = 0,
    EITP_LOG_INFO = 1,
    EITP_LOG_WARNING = 2,
    EITP_LOG_ERROR = 3
} eitp_log_level;

typedef struct eitp_log_sink {
    void *user;
    void (*write)(void *user, eitp_log_level level, const char *message); /* may be NULL */
} eitp_log_sink;

/*
 * Files. Every access to the file system goes through this table, so that a program can redirect it and a test can make
 * any call fail. Each function returns 0 or an errno value. `read` and `write` are positioned and may do less than was
 * asked: they store what they did in *done; a read at the end of the file does 0.
 */
typedef enum eitp_file_mode {
    EITP_FILE_READ = 0,    /* must exist, and be a regular file */
    EITP_FILE_REPLACE = 1, /* made or emptied; reading and writing */
    EITP_FILE_UPDATE = 2   /* made if missing, kept if not; reading and writing */
} eitp_file_mode;

typedef enum eitp_path_kind {
    EITP_PATH_MISSING = 0,
    EITP_PATH_FILE = 1,
    EITP_PATH_DIRECTORY = 2,
    EITP_PATH_OTHER = 3
} eitp_path_kind;

typedef struct eitp_path_info {
    eitp_path_kind kind;
    uint64_t size;    /* bytes of a file */
    int64_t modified; /* time of the last change, nanoseconds since 1970 */
} eitp_path_info;

typedef struct eitp_files {
    void *user;
    int (*open)(void *user, const char *path, eitp_file_mode mode, void **file);
    int (*close)(void *user, void *file);
    int (*size)(void *user, void *file, uint64_t *size);
    int (*resize)(void *user, void *file, uint64_t size);
    int (*read)(void *user, void *file, uint64_t offset, void *data, size_t size, size_t *done);
    int (*write)(void *user, void *file, uint64_t offset, const void *data, size_t size, size_t *done);
    int (*sync)(void *user, void *file);
    int (*info)(void *user, const char *path, eitp_path_info *info); /* a missing path is 0 with kind MISSING */
    int (*make_directory)(void *user, const char *path);             /* EEXIST when something is there already */
    int (*sync_directory)(void *user, const char *path);
    int (*rename)(void *user, const char *from, const char *to); /* replaces a file at `to` */
    int (*remove)(void *user, const char *path);                 /* a file or an empty directory */
    /* Calls `visit` with the name of every entry but "." and "..", in no order; stops and returns what it returned if
       that is not 0. */
    int (*list)(void *user, const char *path, int (*visit)(void *visitor, const char *name), void *visitor);
    /* These bytes will be read soon: they may be fetched meanwhile. NULL: nothing is done. */
    void (*prefetch)(void *user, void *file, uint64_t offset, size_t size);
    /* Locks a directory against other processes, until unlock or the end of the process: EWOULDBLOCK if another has the
       lock. File systems without locks succeed. Both may be NULL: nothing is locked. */
    int (*lock)(void *user, const char *path, void **lock);
    void (*unlock)(void *user, void *lock);
} eitp_files;

/* What a program runs eitp on. Objects keep a copy of the host they were made with. */
typedef struct eitp_host {
    eitp_allocator allocator;
    eitp_files files;
    eitp_log_sink log;
} eitp_host;

/* The C library's allocator, the operating system's files, and no log. */
EITP_API eitp_host eitp_host_default(void);

/*
 * What memory this process may use, in bytes; 0 where it is not known. Limits of control groups (cgroups, of both
 * versions) are those of the process's cgroup or of a parent, whichever leaves the process least.
 */
typedef struct eitp_memory_info {
    uint64_t total;        /* of the machine */
    uint64_t available;    /* what could be taken without swapping (MemAvailable) */
    uint64_t swap_free;    /* never part of `usable` */
    uint64_t cgroup_limit; /* memory.max or memory.high, the lower; version 1: memory.limit_in_bytes; 0: no limit */
    uint64_t cgroup_used;  /* what that cgroup uses, without page cache that is reclaimed first (inactive_file) */
    uint64_t data_limit;   /* RLIMIT_DATA or RLIMIT_AS, the lower; 0: no limit */
    uint64_t resident;     /* of this process, now (VmRSS) */
    uint64_t peak;         /* the most it ever had (VmHWM) */
    const char *source;    /* what bounds `usable`: "MemAvailable", "cgroup", "RLIMIT_DATA", "RLIMIT_AS", "unknown" */
    uint64_t usable;       /* what this process may have resident in all, with what it has now; before any margin */
    uint64_t left;         /* what could still be taken, the least of all bounds, with cached files given up for it */
} eitp_memory_info;

/*
 * Reads /proc and the control groups through the host's files, and the process's own limits from the system. What is
 * missing or makes no sense is unknown, not an error; EITP_ERROR_MEMORY is the only one. Where there is no /proc, only
 * data_limit and peak are known, and on systems other than Linux total.
 */
EITP_API eitp_status eitp_memory_info_read(const eitp_host *host, eitp_memory_info *info, eitp_error *error);

/*
 * A budget for the process: `usable` less a margin, 5 % but at least 64 MiB, and at most half of `usable`; 0 where that
 * is unknown. The margin is for what grows beside a plan: page tables, kernel memory and stacks, which cgroups count
 * too, and what other programs take meanwhile. A cgroup's limit is hard: going over it, the process is killed.
 */
EITP_API uint64_t eitp_memory_budget_default(const eitp_memory_info *info);

/*
 * What should be left while a process runs: half of that margin, so one that keeps to the budget stays above it unless
 * other programs grow. eitp_memory_is_short: is less left? 0 where that is not known.
 */
EITP_API uint64_t eitp_memory_floor(const eitp_memory_info *info);
EITP_API int eitp_memory_is_short(const eitp_memory_info *info);

EITP_END_DECLARATIONS

#endif
