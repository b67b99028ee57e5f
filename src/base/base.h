/*
 * Declarations shared by all parts of eitp: status and error, the host (allocator, files, log), and the memory
 * available to the process.
 *
 * NULL: a pointer must not be NULL unless its declaration allows it. A function that returns eitp_status returns
 * EITP_ERROR_ARGUMENT for NULL; other functions do nothing and return zeros, unless their declaration says otherwise.
 * Every `error` may be NULL.
 */
#ifndef EITP_BASE_H
#define EITP_BASE_H

/* Strict C modes hide POSIX functions unless this precedes the first system header. */
#if (defined(EITP_IMPLEMENTATION) || defined(EITP_SPLIT)) && !defined(_DEFAULT_SOURCE)
#define _DEFAULT_SOURCE 1
#endif

#include <stddef.h>
#include <stdint.h>

/* Define as 1 to give public functions default visibility in a library compiled with -fvisibility=hidden. */
#ifndef EITP_SHARED
#define EITP_SHARED 0
#endif

/* Linkage of the public functions. To change it, for example to `static`, define it before every #include. */
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
#include "base/switches.h"
#include "base/version.h"

EITP_BEGIN_DECLARATIONS

/* Meaning of the labels of samples and of the scores of a classifier: problem_type in config.json. */
typedef enum eitp_problem {
    EITP_PROBLEM_UNKNOWN = 0,      /* not stated */
    EITP_PROBLEM_SINGLE_LABEL = 1, /* logits of a softmax over the labels */
    EITP_PROBLEM_MULTI_LABEL = 2,  /* logits of a sigmoid for each label */
    EITP_PROBLEM_REGRESSION = 3,   /* predicted numbers */
    EITP_PROBLEM_TOKENS = 4        /* logits of a softmax over the labels for each token; not in config.json */
} eitp_problem;

/* Returns the version of the linked implementation: "0.1.0". */
EITP_API const char *eitp_version(void);

/* Returns how the implementation was built, in "key=value" words: version, compiler, optimized, openmp, kernels. */
EITP_API const char *eitp_build_info(void);

/* Returns the bytes per element; 0 for an unknown dtype. */
EITP_API size_t eitp_dtype_size(eitp_dtype dtype);

/* Returns "f32", "bf16", ...; "?" for an unknown dtype. */
EITP_API const char *eitp_dtype_name(eitp_dtype dtype);

/*
 * Status and error.
 *
 * A function that can fail returns a status and fills in the caller's eitp_error, which is unspecified after a success.
 * Failures have no partial effects: outputs are NULL or untouched unless the declaration says otherwise.
 */
typedef enum eitp_status {
    EITP_OK = 0,
    EITP_ERROR_ARGUMENT = 1,      /* invalid argument: a value, a shape, a path that does not exist */
    EITP_ERROR_FORMAT = 2,        /* invalid file contents */
    EITP_ERROR_UNSUPPORTED = 3,   /* valid, but not supported by this build or this machine */
    EITP_ERROR_MEMORY = 4,        /* an allocation failed, or a plan exceeds its memory budget */
    EITP_ERROR_PRESSURE = 5,      /* stopped because the machine ran short of memory */
    EITP_ERROR_NOT_FINITE = 6,    /* too many steps had an infinite or NaN loss or gradient */
    EITP_ERROR_IO = 7,            /* reading or writing failed */
    EITP_ERROR_INTERRUPTED = 8,   /* stopped by request */
    EITP_ERROR_INTERNAL = 9,      /* a bug in eitp, or in a callback of the program */
    EITP_ERROR_INCONSISTENT = 10, /* a step or a resume failed half-way; the state is lost: resume from a checkpoint */
    EITP_END_OF_DATA = 11,        /* not an error: no training data is left */
    EITP_ERROR_DEVICE = 12        /* the GPU failed and its memory is lost: resume in another process */
} eitp_status;

typedef struct eitp_error {
    eitp_status status;
    char message[600]; /* one line, without its newline: what is wrong, where, what to do */
    int system_code;   /* errno of the eitp_files call that failed; 0 if the error has another cause */
} eitp_error;

/* Returns the short name of a status: "ok", "bad argument", ...; "unknown status" for any other value. */
EITP_API const char *eitp_status_name(eitp_status status);

/* Formats a number of bytes with a suitable decimal unit, such as "200 B" or "12.3 MB", and returns `text`. 16 bytes
   are always enough. */
EITP_API const char *eitp_format_bytes(uint64_t bytes, char *text, size_t size);

/*
 * Parses a number of bytes: "1000000", "900M", "1.5GB", "2GiB". k, M, G and T are powers of 1000; Ki, Mi, Gi and Ti are
 * powers of 1024. The result is rounded to whole bytes, and values above UINT64_MAX become UINT64_MAX. Anything else is
 * EITP_ERROR_ARGUMENT; the message quotes the text.
 */
EITP_API eitp_status eitp_parse_bytes(const char *text, uint64_t *bytes, eitp_error *error);

/*
 * Memory. `allocate` returns `size` (at least 1) bytes aligned to `alignment`, a power of two; NULL on failure. The
 * memory may be uninitialized. `release` receives a block and the size it was allocated with. Both are called only by
 * threads that call eitp, never by eitp's own threads.
 */
typedef struct eitp_allocator {
    void *user;
    void *(*allocate)(void *user, size_t size, size_t alignment);
    void (*release)(void *user, void *memory, size_t size);
} eitp_allocator;

/*
 * Log. Without a callback eitp is silent. `message` is one line without its newline, valid during the call. Called only
 * by threads that call eitp.
 */
typedef enum eitp_log_level {
    EITP_LOG_DEBUG = 0,
    EITP_LOG_INFO = 1,
    EITP_LOG_WARNING = 2,
    EITP_LOG_ERROR = 3
} eitp_log_level;

typedef struct eitp_log_sink {
    void *user;
    void (*write)(void *user, eitp_log_level level, const char *message); /* may be NULL: no log */
} eitp_log_sink;

/*
 * Files. Every access to the file system goes through this table, so that a program can redirect it and a test can make
 * any call fail. Each function returns 0 or an errno value.
 *
 * A call that fails with EINTR is repeated. A call that fails with EAGAIN, and a `read` or `write` that fails with EIO,
 * is repeated up to five times, after a `wait` of 10 ms, 20 ms and so on, 0.3 s in total. A failed `sync` is not
 * repeated: its data must be written again. `close` is not repeated either; if it returns EINTR, the file is closed.
 * Ignore SIGXFSZ in a program that should survive a limit on file sizes (RLIMIT_FSIZE).
 *
 * `read` and `write` take a position and may transfer fewer than `size` bytes: they store the number in *done. A read
 * at the end of the file stores 0.
 *
 * The functions are called by threads that call eitp, with six exceptions:
 *   - `read` and `write` of an offload file (eitp_context_config.offload_path)
 *   - `write`, `begin_sync` and `sync` of the large files of a checkpoint that is written in the background
 *     (eitp_run_config.async_save_bytes)
 *   - `prefetch` and `read` of a checkpoint's files before a resume reads them
 *   - `read` of half of each large tensor
 *   - `write`, `resize` and `sync` of files of records (eitp_jsonl_open and similar functions)
 *   - `open`, `write`, `close` and `rename` of run.json and summary.jsonl
 * These, and `wait` after they fail, are called by eitp's own threads, possibly while other functions of the table are
 * running. A call for a file of records may still be running after the file was closed.
 */
typedef enum eitp_file_mode {
    EITP_FILE_READ = 0,    /* for reading; the path must be an existing regular file */
    EITP_FILE_REPLACE = 1, /* for reading and writing, as a new file: an existing file or link is removed; links are not
                              followed */
    EITP_FILE_UPDATE = 2   /* for reading and writing; created if missing, otherwise kept; a link is an error */
} eitp_file_mode;

typedef enum eitp_path_kind {
    EITP_PATH_MISSING = 0,
    EITP_PATH_FILE = 1,
    EITP_PATH_DIRECTORY = 2,
    EITP_PATH_OTHER = 3
} eitp_path_kind;

typedef struct eitp_path_info {
    eitp_path_kind kind;
    uint64_t size;     /* of a file, in bytes */
    int64_t modified;  /* time of the last change, in nanoseconds since 1970 */
    uint64_t identity; /* identifies the file or directory regardless of its path; 0: unknown */
    int is_link;       /* the path is a symbolic link; the other members describe its target */
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
    int (*info)(void *user, const char *path, eitp_path_info *info); /* a missing path returns 0 and kind MISSING */
    int (*make_directory)(void *user, const char *path);             /* EEXIST if the path exists */
    int (*sync_directory)(void *user, const char *path);
    int (*rename)(void *user, const char *from, const char *to); /* replaces an existing file at `to` */
    int (*remove)(void *user, const char *path);                 /* a file or an empty directory */
    /* Calls `visit` with the name of each entry except "." and "..", in any order. If `visit` returns anything but 0,
       stops and returns that. */
    int (*list)(void *user, const char *path, int (*visit)(void *visitor, const char *name), void *visitor);
    /* A hint that these bytes will be read soon. May be NULL. */
    void (*prefetch)(void *user, void *file, uint64_t offset, size_t size);
    /* Locks a directory or a file against other processes until `unlock` or the end of the process; EWOULDBLOCK if
       another process holds the lock. Succeeds on file systems without locks. Both may be NULL: nothing is locked. The
       default implementation admits a process that has inherited an open file with the lock (flock(2)), one at a time:
       the environment variable EITP_LOCK_FD is the number of its descriptor. */
    int (*lock)(void *user, const char *path, void **lock);
    void (*unlock)(void *user, void *lock);
    /* Stores the bytes that this user may still write to the file system of a path, and the maximum file size of this
       process (RLIMIT_FSIZE); UINT64_MAX: no limit. Fails if they are unknown. May be NULL: unknown. */
    int (*space)(void *user, const char *path, uint64_t *free_bytes, uint64_t *largest_file);
    /* Waits before a failed call is repeated or memory is read again; may return early. May be NULL: does not wait. */
    void (*wait)(void *user, double seconds);
    /* Creates a symbolic link at `path` to `target`, which is relative to the directory of `path`; EEXIST if the path
       exists. May be NULL: no links are created. */
    int (*link)(void *user, const char *target, const char *path);
    /* A hint that the data written to the file will be synced soon, so that the system may start writing it to storage.
       May be NULL. */
    void (*begin_sync)(void *user, void *file);
    /* Like `info`, for an open file, even if it has been renamed or removed. May be NULL: `info` of its path is
       used. */
    int (*file_info)(void *user, void *file, eitp_path_info *info);
    /* Exchanges the names of two files or directories in one directory atomically, so that neither name is ever
       missing. May be NULL, or fail if the file system does not support it: `rename` is then called twice. */
    int (*exchange)(void *user, const char *a, const char *b);
    /* Stores the absolute path of a file or directory, with symbolic links resolved, in absolute[size]. May be NULL or
       fail: the path itself then identifies it. */
    int (*absolute)(void *user, const char *path, char *absolute, size_t size);
} eitp_files;

/*
 * Services of the program and the system that eitp uses. Objects keep a copy of the host they are created with; the
 * objects that its `user` pointers refer to must outlive them. Start from eitp_host_default() and replace what you
 * need. If several threads call eitp with the same host, its functions must be thread-safe, like the default ones.
 */
typedef struct eitp_host {
    eitp_allocator allocator;
    eitp_files files;
    eitp_log_sink log;
    /*
     * A directory that is searched before the root for the files that eitp reads in /proc, /sys and control groups:
     * with "/srv/machine", /srv/machine/proc/meminfo replaces /proc/meminfo. Files missing there are read from the real
     * paths. For testing how a run behaves under simulated machine conditions. The string must outlive the objects.
     * NULL: none.
     */
    const char *system_root;
} eitp_host;

/* Returns the C library's allocator, the operating system's files, no log, no system_root. */
EITP_API eitp_host eitp_host_default(void);

/* The memory of the machine and of this process, in bytes; 0 if unknown. cgroup_limit and cgroup_used belong to the
   process's control group (cgroup, version 1 or 2) or to a parent, whichever leaves the process the least memory. */
typedef struct eitp_memory_info {
    uint64_t total;        /* of the machine (MemTotal) */
    uint64_t available;    /* of the machine, for new allocations without swapping (MemAvailable) */
    uint64_t swap_total;   /* of the machine */
    uint64_t swap_free;    /* not included in `usable` */
    uint64_t cgroup_limit; /* memory.max or memory.high, the lower; version 1: memory.limit_in_bytes; 0: no limit */
    uint64_t cgroup_used;  /* used by that cgroup, without the page cache that is reclaimed first (inactive_file) */
    uint64_t data_limit;   /* RLIMIT_DATA or RLIMIT_AS, the lower; 0: no limit */
    uint64_t resident;     /* of this process, now (VmRSS) */
    uint64_t peak;         /* largest `resident` so far (VmHWM) */
    const char *source;    /* the limit that determines `usable`: "MemAvailable", "cgroup", "RLIMIT_DATA", "RLIMIT_AS",
                              "unknown" */
    uint64_t usable;       /* memory this process may use in total, including its current use, without a margin */
    uint64_t left;         /* memory it may still allocate: the lowest of all limits, counting page cache as free */
} eitp_memory_info;

/*
 * Reads /proc and the control groups through host->files, and the process's limits from the system. `host` must be
 * complete. Missing or malformed values are unknown, not errors; the only errors are a NULL argument and
 * EITP_ERROR_MEMORY. Without /proc only data_limit and peak are known, and on systems other than Linux also total.
 */
EITP_API eitp_status eitp_memory_info_read(const eitp_host *host, eitp_memory_info *info, eitp_error *error);

/*
 * Returns the default memory budget of the process: `usable` minus a margin of 5 % of `usable`, at least 64 MiB, but at
 * most half of `usable`. 0 if `usable` is unknown or info is NULL. The margin covers memory outside the plan that
 * grows: page tables, kernel memory and stacks, which cgroups also count, and other programs. The kernel kills a
 * process that exceeds its cgroup's limit.
 */
EITP_API uint64_t eitp_memory_budget_default(const eitp_memory_info *info);

/* Quantities that sensors of the machine measure. */
typedef enum eitp_sensor_kind {
    EITP_SENSOR_TEMPERATURE = 0, /* in degrees Celsius, from /sys/class/hwmon and /sys/class/thermal */
    EITP_SENSOR_POWER = 1,       /* in watts, from /sys/class/hwmon */
    EITP_SENSOR_ENERGY = 2,      /* in joules, counted up to `range`, then from 0; from /sys/class/powercap (RAPL) */
    EITP_SENSOR_PRESSURE = 3,    /* "cpu", "memory" or "io": the fraction of the last 10 seconds in which some task
                                    waited for it, 0 to 1; from /proc/pressure */
    EITP_SENSOR_LOAD = 4         /* tasks that compute or wait for a disk, averaged over the last minute; from
                                    /proc/loadavg */
} eitp_sensor_kind;

typedef struct eitp_sensor {
    eitp_sensor_kind kind;
    char name[100]; /* such as "coretemp Package id 0"; "" for the load */
    double value;
    double range; /* for energy; otherwise, or if unknown, 0 */
    double limit; /* for temperature: the critical point, at which the hardware or the system shuts down; otherwise, or
                     if unknown, 0 */
} eitp_sensor;

/*
 * Reads the sensors of the machine through host->files, so a directory of simulated files can replace them. Stores the
 * first `capacity` sensors in `sensors` and their number in *count. `host` must be complete. Sensors that cannot be
 * read, or show implausible values, are left out. The only errors are NULL arguments and EITP_ERROR_MEMORY. For memory
 * and disks see eitp_memory_info_read and eitp_files.space.
 */
EITP_API eitp_status eitp_sensors_read(const eitp_host *host, eitp_sensor *sensors, size_t capacity, size_t *count,
                                       eitp_error *error);

/* An NVIDIA GPU as reported by its driver's management library (NVML). Values that the device or the driver does not
   provide are NaN. Memory values refer to the whole device, and are unknown while it is partitioned (MIG). */
typedef struct eitp_gpu {
    char name[96];               /* "NVIDIA H200" */
    char address[24];            /* PCI bus address, such as "0000:17:00.0" */
    char driver[40];             /* driver version, such as "550.54.15"; "": unknown */
    double memory_total;         /* bytes */
    double memory_used;          /* bytes, by all processes and the driver */
    double memory_free;          /* bytes */
    double process_memory;       /* bytes used by one process; unknown in containers that hide their processes */
    double utilization;          /* percentage of the last second, or less, in which kernels ran */
    double memory_utilization;   /* percentage of that time in which memory was read or written */
    double temperature;          /* degrees Celsius */
    double slowdown_temperature; /* temperature at which the hardware lowers its clocks */
    double power;                /* watts */
    double energy;               /* joules since the driver was loaded */
    double clock;                /* of the multiprocessors, in Hz */
    /* Reason for a lowered clock: "heat", "power", or "hardware" for a cause that the driver does not tell. "" if the
       clock is not lowered. NULL: unknown. */
    const char *slowed_by;
} eitp_gpu;

/*
 * Reads the NVIDIA GPUs of the machine, in the order of their addresses; CUDA_VISIBLE_DEVICES hides none of them.
 * Stores the first `capacity` GPUs in `gpus` and their number in *count. The number is 0 without the driver's library,
 * which is opened at run time, and in a build with EITP_WITHOUT_CUDA. `process_memory` refers to `process`; 0: this
 * process. Only NULL arguments are an error.
 */
EITP_API eitp_status eitp_gpus_read(int64_t process, eitp_gpu *gpus, size_t capacity, size_t *count, eitp_error *error);

/* Returns 1 if the device of a context, identified by its description (eitp_context_description), is the GPU with this
   address. */
EITP_API int eitp_gpu_is_device(const char *address, const char *description);

/*
 * Returns 1 if `left` is below the minimum that should stay free while the process runs: half the margin of
 * eitp_memory_budget_default. A process within its budget stays above it unless other programs grow. Otherwise returns
 * 0, also if `usable` is unknown or info is NULL.
 */
EITP_API int eitp_memory_is_short(const eitp_memory_info *info);

/* Processors of the machine and of this process; each hardware thread counts as one. */
typedef struct eitp_processor_info {
    int online;   /* of the machine */
    int allowed;  /* processors this process may run on: its affinity, or the places that OpenMP binds its threads to */
    double quota; /* processor time that its control groups (version 1 or 2) allow, in processors; 0: no limit */
    /* The lower of `allowed` and `quota` rounded up, at least 1: the number of threads to compute with. With a quota of
       1.5, two threads compute for three quarters of the time, which is more than one thread does. */
    int usable;
} eitp_processor_info;

/*
 * Reads /proc and the control groups through host->files, which must be complete. Missing or malformed values are
 * unknown, not errors; the only errors are a NULL argument and EITP_ERROR_MEMORY. Without /proc `allowed` is `online`.
 */
EITP_API eitp_status eitp_processor_info_read(const eitp_host *host, eitp_processor_info *info, eitp_error *error);

/* If OpenMP binds the calling thread to one of its places (OMP_PROC_BIND), lets the thread run on all processors of its
   places: for a program that executes another one, which inherits its processors. Returns 1 if the thread was bound. */
EITP_API int eitp_processors_unbind(void);

EITP_END_DECLARATIONS

#endif
