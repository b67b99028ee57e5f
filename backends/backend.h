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

#define EITP__BACKEND_API_VERSION 12

typedef struct eitp__backend_config {
    int threads;          /* 0: one for each processor */
    const char *isa;      /* NULL or "": EITP_ISA if set, else the best available */
    const char *products; /* "own" or "openblas"; NULL or "": EITP_PRODUCTS if set, else "own" */
    int ordinal;          /* index of the device among several of its kind; eitp__backend_create sets it from
                             "cuda:1" */
    int pageable;         /* 1: memory of EITP__PLACE_HOST is ordinary pageable memory */
    int allow_tf32;       /* 1: products may round factors of F32 to TF32, which has 11 significant bits */
} eitp__backend_config;

/* Location of memory. */
typedef enum eitp__place {
    EITP__PLACE_DEVICE,
    EITP__PLACE_HOST /* host memory that the device can copy directly from and to */
} eitp__place;

/* Phase of a step that an instruction belongs to, for timing. Transfers always count as EITP__PHASE_TRANSFER. */
typedef enum eitp__phase {
    EITP__PHASE_FORWARD,
    EITP__PHASE_BACKWARD,
    EITP__PHASE_UPDATE,
    EITP__PHASE_TRANSFER,
    EITP__PHASE_COUNT
} eitp__phase;

typedef enum eitp__instruction_kind {
    EITP__COMPUTE, /* executes a call */
    EITP__READ,    /* starts to copy bytes from the storage to device memory */
    EITP__WRITE,   /* starts to copy bytes from device memory to the storage */
    EITP__COMPLETE /* waits for an EITP__READ or EITP__WRITE */
} eitp__instruction_kind;

/*
 * An instruction of a program. A call reads its inputs and changes its outputs. EITP__READ changes `memory`, which no
 * other instruction uses until its EITP__COMPLETE. EITP__WRITE reads it, and no instruction may change it until its
 * EITP__COMPLETE. The result must be as if the instructions were executed in order. A backend may reorder two
 * instructions if neither changes memory that the other uses. Transfers keep their order, because they may share bytes
 * of the storage.
 */
typedef struct eitp__instruction {
    eitp__instruction_kind kind;
    eitp__phase phase;
    eitp__call *call; /* EITP__COMPUTE only */
    void *memory;     /* device memory of a transfer, `size` bytes */
    size_t size;
    uint64_t offset; /* in the storage */
    size_t transfer; /* EITP__COMPLETE only: index of the instruction that started the transfer */
} eitp__instruction;

/* Bytes outside device memory, such as a file's. The functions copy to and from host memory. Any thread may call them,
   one at a time. */
typedef struct eitp__storage {
    void *user;
    /* Returns the address of the bytes from `offset` on, in memory of EITP__PLACE_HOST, so that a backend can copy them
       itself; NULL if they are elsewhere. */
    void *(*address)(void *user, uint64_t offset);
    eitp_status (*read)(void *user, uint64_t offset, void *memory, size_t size, eitp_error *error);
    eitp_status (*write)(void *user, uint64_t offset, const void *memory, size_t size, eitp_error *error);
} eitp__storage;

/* Cancellation callback, polled while programs are prepared and executed. */
typedef struct eitp__poll {
    /* Nonzero stops. Called by the calling thread, during execution every few microseconds. May be NULL. */
    int (*ask)(void *user);
    void *user;
} eitp__poll;

/* True if the poll requests a stop. */
static inline EITP__UNUSED int eitp__poll_ask(const eitp__poll *poll) {
    return poll->ask && poll->ask(poll->user);
}

/* Operations and bytes of a call, for a given number of rows. */
typedef struct eitp__call_work {
    double flops, bytes; /* bytes: of all operands, cached or not */
    int64_t rows;        /* of the execution */
    const char *purpose; /* of a matrix product: "forward", "gradient of input" or "gradient of weight"; else "" */
} eitp__call_work;

/* Returns the number of elements of an operand in an execution with this number of rows. */
static inline EITP__UNUSED int64_t eitp__operand_used(const eitp__operand *operand, int64_t rows) {
    int64_t used = rows < operand->first_row ? 0 : rows - operand->first_row;
    used = used < operand->row_limit ? used : operand->row_limit;
    return operand->row_elements ? used * operand->row_elements : operand->elements;
}

/*
 * The contents of a program. All pointers must stay valid until the program is discarded. `rows` is an int64_t in
 * device memory that holds the number of rows of an execution. For operands with `row_elements`, `shape[0]` and
 * `elements` are then maxima, and the backend may change these two: the operand has the rows from `first_row` on, at
 * most `row_limit` and possibly none.
 */
typedef struct eitp__program_info {
    const eitp__instruction *instructions;
    size_t count;
    const void *rows;             /* NULL: all shapes are fixed */
    void *workspace;              /* device memory, as large as required by the most demanding call */
    const eitp__storage *storage; /* read and written by transfers; NULL without transfers */
    /* Host memory, indexed by eitp__phase: executions add the seconds of each phase before their `wait` returns. A
       backend may read its clock only when the phase changes, or leave the seconds unchanged. May be NULL. */
    double *seconds;
    const eitp__poll *poll; /* polled while the program is prepared; NULL: never */
    /* Fills in the work of an instruction that is a call, in the execution that has just ended. `execute` may call it,
       and it calls `download`. NULL: unknown. */
    void (*work)(void *user, size_t instruction, eitp__call_work *work);
    void *user;
} eitp__program_info;

/* Prepared instructions. Each backend defines the struct. */
typedef struct eitp__program eitp__program;

/* The members of eitp_limits. */
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
    int is_host_memory; /* 1 if any thread may read and write the memory of EITP__PLACE_DEVICE */
    int head_block;     /* columns per block of HEAD: equal to the columns of a tile of its product */
    /* Rows of logits start at multiples of this number of elements, in HEAD, HEAD_BACKWARD and the first factor of
       MATMUL: see eitp__operand.row_stride. At most head_block; 1: rows are contiguous. */
    int logit_alignment;

    eitp_status (*create)(const eitp_host *host, const eitp__backend_config *config, eitp__backend **backend,
                          eitp_error *error);
    void (*destroy)(eitp__backend *backend);

    /* Writes one line for the log: device, threads, kernel set. */
    void (*describe)(const eitp__backend *backend, char *text, size_t size);

    /* Writes one word that identifies everything, except the plan, that determines the bits:
       "cpu-avx2-openblas.Haswell". */
    void (*numerics)(const eitp__backend *backend, char *text, size_t size);

    /* Returns the precision for "auto": BF16 or F16 if products in it are much faster than in F32, else F32. */
    eitp_dtype (*preferred_precision)(const eitp__backend *backend);

    /*
     * Estimates the time of a call with `flops` arithmetic operations that reads and writes `bytes`. The call is filled
     * in as for `supports`. The estimate is not measured, because plans depend on it and must be reproducible.
     */
    double (*seconds)(const eitp__backend *backend, const eitp__call *call, double flops, double bytes);

    /*
     * Returns the number of terms that a product of this dtype adds at once. A sum over rows that is computed in parts
     * has the same bits as the whole if the parts start at multiples of it.
     */
    int (*sum_group)(const eitp__backend *backend, eitp_dtype dtype);

    /* Returns the number of rows of a product of this dtype that are computed together. Multiples of it are
       efficient. */
    int (*tile_rows)(const eitp__backend *backend, eitp_dtype dtype);

    /*
     * True if the backend implements this call. All its members are set, except addresses, `row_elements` and
     * `accumulates`. An absent operand has 0 elements. Plans query each epilogue of a call separately.
     */
    int (*supports)(const eitp__backend *backend, const eitp__call *call);

    /* True if output 0 of a call with an epilogue may share memory with the operand of the epilogue, without loss of
       speed. The call is filled in as for `supports`. NULL: for every call. */
    int (*overwrites_operand)(const eitp__backend *backend, const eitp__call *call);

    /* Reads the total and the free bytes of the device's memory. NULL if is_host_memory. */
    eitp_status (*memory)(const eitp__backend *backend, uint64_t *free_bytes, uint64_t *total, eitp_error *error);

    /* Returns zeroed memory in a place, aligned to EITP__ALIGNMENT, or NULL if there is not enough. */
    void *(*allocate)(eitp__backend *backend, eitp__place place, size_t size);
    void (*release)(eitp__backend *backend, eitp__place place, void *memory, size_t size);
    eitp_status (*upload)(eitp__backend *backend, void *device, const void *source, size_t size, eitp_error *error);
    eitp_status (*download)(eitp__backend *backend, void *target, const void *device, size_t size, eitp_error *error);

    /* Returns the scratch memory in bytes that this call needs for all threads together. */
    size_t (*workspace)(const eitp__backend *backend, const eitp__call *call);

    /* Prepares instructions for any number of executions. */
    eitp_status (*prepare)(eitp__backend *backend, const eitp__program_info *info, eitp__program **program,
                           eitp_error *error);

    /* Releases a program whose executions were waited for. */
    void (*discard)(eitp__backend *backend, eitp__program *program);

    /*
     * Executes the instructions [first, end) after all earlier ones, or starts to and returns. Until `wait`, no
     * function with access to device memory is called except `execute`. `poll` is called before instructions below
     * `stoppable`: about once for each, and within long calls, by a backend that has executed them when it returns; by
     * others once. If it requests a stop and no instruction from `stoppable` on has started, the rest is dropped:
     * EITP_ERROR_INTERRUPTED. *begun is the index after the last instruction that may have started.
     */
    eitp_status (*execute)(eitp__backend *backend, eitp__program *program, size_t first, size_t end,
                           const eitp__poll *poll, size_t stoppable, size_t *begun, eitp_error *error);

    /* Waits until all executions and transfers are done. Fails with the first error not reported by `execute`. */
    eitp_status (*wait)(eitp__backend *backend, eitp_error *error);

    /* Returns the arithmetic rate of products of a dtype, measured in about 20 milliseconds; 0 if unknown. May be
       NULL. */
    double (*peak)(const eitp__backend *backend, eitp_dtype dtype);

    /* Measures the limits of the device: see eitp_limits. NULL if not supported. */
    eitp_status (*measure)(eitp__backend *backend, eitp__backend_limits *limits, eitp_error *error);
};

EITP__PRIVATE const eitp__backend_interface *eitp__cpu_backend(void);
EITP__PRIVATE const eitp__backend_interface *eitp__null_backend(void);
#if EITP__WITH_CUDA
EITP__PRIVATE const eitp__backend_interface *eitp__cuda_backend(void);
#endif

/* Fails with EITP_ERROR_INTERRUPTED, for backends. */
static inline EITP__UNUSED eitp_status eitp__fail_interrupted(eitp_error *error) {
    return eitp__fail(error, EITP_ERROR_INTERRUPTED, "stopped by request");
}

#ifdef EITP__WITH_TEST_BACKEND
EITP__PRIVATE const eitp__backend_interface *eitp__test_backend(void); /* tests/support/device.c */
#endif

/* Returns the number of calls that the null backend has executed. */
EITP__PRIVATE uint64_t eitp__null_backend_calls(const eitp__backend *backend);

/*
 * Creates the backend named by `device`: "cpu", "cuda", "cuda:1", "null", or "auto" (also NULL or ""), which means
 * EITP_BACKEND if set, else "cpu"; the choice is logged. It is an error if a named device is not available. If there
 * are several names, such as "cuda,cpu", the first available one is chosen, and the reasons for skipping others are
 * logged.
 */
EITP__PRIVATE eitp_status eitp__backend_create(const eitp_host *host, const char *device,
                                               const eitp__backend_config *config, eitp__backend **backend,
                                               eitp_error *error);

/* False if no device that the name may refer to has its own memory. Does not create a backend. */
EITP__PRIVATE int eitp__backend_may_have_memory(const char *device);

#endif
