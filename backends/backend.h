/*
 * The backend contract: a device that runs a plan's calls.
 *
 * To add one: implement eitp__backend_interface in backends/<name>/, declare its function below, and list it in
 * backends/backend.c. A backend never lists ops: it looks up slots, and what it does not support the plan expands.
 */
#ifndef EITP_BACKEND_H
#define EITP_BACKEND_H

#include "base/status.h"
#include "kernels/kernels.h"

#define EITP__BACKEND_API_VERSION 3

typedef struct eitp__backend_config {
    int threads;          /* 0: as many as there are processors */
    const char *isa;      /* NULL or "": EITP_ISA if set, else the best this machine has */
    const char *products; /* "own", "openblas"; NULL or "": EITP_PRODUCTS if set, else own */
} eitp__backend_config;

/* What eitp_limits has. */
typedef struct eitp__backend_limits {
    double flops[EITP_DTYPE_COUNT];
    double read, write, update;
} eitp__backend_limits;

typedef struct eitp__backend_interface eitp__backend_interface;

/* What every backend object starts with. */
typedef struct eitp__backend {
    const eitp__backend_interface *interface;
    eitp_host host;
} eitp__backend;

struct eitp__backend_interface {
    uint32_t api_version;
    const char *name;
    int is_host_memory; /* may any thread read and write what `allocate` returns? */

    eitp_status (*create)(const eitp_host *host, const eitp__backend_config *config, eitp__backend **backend,
                          eitp_error *error);
    void (*destroy)(eitp__backend *backend);

    /* One line for the log: device, threads, kernel set. */
    void (*describe)(const eitp__backend *backend, char *text, size_t size);

    /* Everything beside the plan that decides which bits come out, as one word: "cpu-avx2-openblas.Haswell". */
    void (*numerics)(const eitp__backend *backend, char *text, size_t size);

    /* Of F32, BF16 and F16: what products are fastest in by a margin that is worth fewer digits. */
    eitp_dtype (*preferred_precision)(const eitp__backend *backend);

    /*
     * Operations of products of this dtype, and bytes to and from memory, a second, all threads together: what the
     * device is made for and not what it does today, so that a plan that depends on it is the same plan tomorrow.
     */
    void (*nominal_speed)(const eitp__backend *backend, eitp_dtype dtype, double *flops, double *bytes);

    /*
     * Terms that a product of this dtype adds at once. A sum over rows that is cut has the bits of the whole where the
     * cut is at a multiple of it.
     */
    int (*sum_group)(const eitp__backend *backend, eitp_dtype dtype);

    /* Is there a kernel for this slot and dtype? */
    int (*supports)(const eitp__backend *backend, eitp__slot slot, eitp_dtype dtype);

    /* Can MATMUL of this dtype do what follows it? */
    int (*supports_epilogue)(const eitp__backend *backend, eitp_dtype dtype, eitp__epilogue epilogue);

    /* Device memory, zeroed, at EITP__ALIGNMENT; NULL when it runs out. */
    void *(*allocate)(eitp__backend *backend, size_t size);
    void (*release)(eitp__backend *backend, void *memory, size_t size);
    eitp_status (*upload)(eitp__backend *backend, void *device, const void *source, size_t size, eitp_error *error);
    eitp_status (*download)(eitp__backend *backend, void *target, const void *device, size_t size, eitp_error *error);

    /* Bytes of scratch memory that running this call needs, for all threads together. */
    size_t (*workspace)(const eitp__backend *backend, const eitp__call *call);

    /* Runs the calls in order. `workspace` is as large as the largest of them asked for. */
    eitp_status (*run)(eitp__backend *backend, const eitp__call *calls, size_t count, void *workspace,
                       eitp_error *error);

    /* Measures what the device can do at most: see eitp_limits. NULL: it cannot tell. */
    eitp_status (*measure)(eitp__backend *backend, eitp__backend_limits *limits, eitp_error *error);
};

EITP__PRIVATE const eitp__backend_interface *eitp__cpu_backend(void);
EITP__PRIVATE const eitp__backend_interface *eitp__null_backend(void);

/* Calls that the null backend was given since it was made. */
EITP__PRIVATE uint64_t eitp__null_backend_calls(const eitp__backend *backend);

/*
 * Makes the backend that `device` names: "cpu", "cuda", "null", or "auto" (NULL or ""): EITP_BACKEND if set, else the
 * best there is; why it was chosen goes to the log. A device that is named and not there is an error, never a fallback.
 */
EITP__PRIVATE eitp_status eitp__backend_create(const eitp_host *host, const char *device,
                                               const eitp__backend_config *config, eitp__backend **backend,
                                               eitp_error *error);

#endif
