/*
 * The backend contract: a device that executes the calls of a plan.
 *
 * To add a backend, implement eitp__backend_interface in backends/<name>/, declare its function below, and list it in
 * backends/backend.c. A backend does not know ops: it looks up slots, and the plan expands ops that it does not
 * support.
 */
#ifndef EITP_BACKEND_H
#define EITP_BACKEND_H

#include "base/status.h"
#include "kernels/kernels.h"

#define EITP__BACKEND_API_VERSION 5

typedef struct eitp__backend_config {
    int threads;          /* 0: one for each processor */
    const char *isa;      /* NULL or "": EITP_ISA if set, else the best available */
    const char *products; /* "own" or "openblas"; NULL or "": EITP_PRODUCTS if set, else "own" */
} eitp__backend_config;

/* Calls that were prepared. A backend has its own struct for them. */
typedef struct eitp__program eitp__program;

/* A question whether to stop, asked while calls are executed: nonzero stops. */
typedef struct eitp__poll {
    int (*ask)(void *user); /* called by the thread that executes, every few microseconds; NULL: never stop */
    void *user;
} eitp__poll;

/* Asks; 1 if the answer is to stop. */
static inline EITP__UNUSED int eitp__poll_ask(const eitp__poll *poll) {
    return poll->ask && poll->ask(poll->user);
}

/* The fields of eitp_limits. */
typedef struct eitp__backend_limits {
    double flops[EITP_DTYPE_COUNT];
    double read, write, update;
} eitp__backend_limits;

typedef struct eitp__backend_interface eitp__backend_interface;

/* The first member of every backend object. */
typedef struct eitp__backend {
    const eitp__backend_interface *interface;
    eitp_host host;
} eitp__backend;

struct eitp__backend_interface {
    uint32_t api_version;
    const char *name;
    int is_host_memory; /* 1 if any thread may read and write the memory of `allocate` */

    eitp_status (*create)(const eitp_host *host, const eitp__backend_config *config, eitp__backend **backend,
                          eitp_error *error);
    void (*destroy)(eitp__backend *backend);

    /* Writes one line for the log: device, threads, kernel set. */
    void (*describe)(const eitp__backend *backend, char *text, size_t size);

    /* Writes one word that stands for everything but the plan that decides the bits: "cpu-avx2-openblas.Haswell". */
    void (*numerics)(const eitp__backend *backend, char *text, size_t size);

    /* The precision that "auto" means: BF16 or F16 if products in it are much faster than in F32, else F32. */
    eitp_dtype (*preferred_precision)(const eitp__backend *backend);

    /*
     * Nominal speed of all threads together: operations per second in products of this dtype, and bytes per second to
     * and from memory. It is not measured, so that plans that depend on it are always the same.
     */
    void (*nominal_speed)(const eitp__backend *backend, eitp_dtype dtype, double *flops, double *bytes);

    /*
     * The number of terms that a product of this dtype adds at once. A sum over rows that is computed in parts has the
     * same bits as the whole if the parts begin at multiples of it.
     */
    int (*sum_group)(const eitp__backend *backend, eitp_dtype dtype);

    /* True if the backend implements this slot for this dtype. */
    int (*supports)(const eitp__backend *backend, eitp__slot slot, eitp_dtype dtype);

    /* True if MATMUL of this dtype implements this epilogue. */
    int (*supports_epilogue)(const eitp__backend *backend, eitp_dtype dtype, eitp__epilogue epilogue);

    /* Device memory, zeroed, at EITP__ALIGNMENT; NULL if there is not enough. */
    void *(*allocate)(eitp__backend *backend, size_t size);
    void (*release)(eitp__backend *backend, void *memory, size_t size);
    eitp_status (*upload)(eitp__backend *backend, void *device, const void *source, size_t size, eitp_error *error);
    eitp_status (*download)(eitp__backend *backend, void *target, const void *device, size_t size, eitp_error *error);

    /* Bytes of scratch memory that this call needs, for all threads together. */
    size_t (*workspace)(const eitp__backend *backend, const eitp__call *call);

    /*
     * Prepares the calls for any number of executions. `calls`, `rows` and `workspace`, which has the bytes that the
     * most demanding call needs, stay where they are until `discard`. With `rows`, an int64_t in device memory, each
     * execution has as many rows as it says then: of operands with `row_elements`, `shape[0]` and `elements` are the
     * most, and the backend may change these two.
     */
    eitp_status (*prepare)(eitp__backend *backend, eitp__call *calls, size_t count, const void *rows, void *workspace,
                           eitp__program **program, eitp_error *error);

    /* Releases a program whose executions were waited for. */
    void (*discard)(eitp__backend *backend, eitp__program *program);

    /*
     * Executes the calls [first, end) in order, after what was begun before; or begins to, and returns. From then until
     * `wait` no other function that has device memory is called, but `execute`. `poll` is asked before the calls below
     * `stoppable` begin: by a backend whose calls are done on return about once for each, and within long ones; by
     * others once. If the answer is nonzero and no call from `stoppable` on has begun, the rest is dropped:
     * EITP_ERROR_INTERRUPTED.
     */
    eitp_status (*execute)(eitp__backend *backend, eitp__program *program, size_t first, size_t end,
                           const eitp__poll *poll, size_t stoppable, eitp_error *error);

    /* Waits until all executions are done. Fails with the error of one that `execute` could not know of. */
    eitp_status (*wait)(eitp__backend *backend, eitp_error *error);

    /* Measures the limits of the device: see eitp_limits. NULL if it cannot. */
    eitp_status (*measure)(eitp__backend *backend, eitp__backend_limits *limits, eitp_error *error);
};

EITP__PRIVATE const eitp__backend_interface *eitp__cpu_backend(void);
EITP__PRIVATE const eitp__backend_interface *eitp__null_backend(void);

/* EITP_ERROR_INTERRUPTED, as a backend reports it. */
static inline EITP__UNUSED eitp_status eitp__fail_interrupted(eitp_error *error) {
    return eitp__fail(error, EITP_ERROR_INTERRUPTED, "stopped by request");
}

#ifdef EITP__WITH_TEST_BACKEND
EITP__PRIVATE const eitp__backend_interface *eitp__test_backend(void); /* tests/device.c */
#endif

/* The number of calls that the null backend has executed. */
EITP__PRIVATE uint64_t eitp__null_backend_calls(const eitp__backend *backend);

/*
 * Creates the backend named by `device`: "cpu", "cuda", "null", or "auto" (also NULL or ""), which is EITP_BACKEND if
 * set, else the best available; the reason for the choice is logged. It is an error if a named device is not available.
 */
EITP__PRIVATE eitp_status eitp__backend_create(const eitp_host *host, const char *device,
                                               const eitp__backend_config *config, eitp__backend **backend,
                                               eitp_error *error);

#endif
