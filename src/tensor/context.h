/* The context: its backend, variables, plans, and the arena shared by the plans. */
#ifndef EITP_CONTEXT_H
#define EITP_CONTEXT_H

#include "tensor/offload.h"
#include "tensor/segments.h"

typedef struct eitp__variable {
    eitp_variable info;
    int64_t number;         /* among several children of a kind; 0: the only one */
    int64_t first_child;    /* index of the child declared last; -1: none */
    int64_t next_sibling;   /* index of the previously declared child of the same parent; -1: none */
    int is_loaded;          /* a weights file was read into it */
    eitp_dtype loaded_as;   /* its dtype in that file: EITP_BF16, EITP_F16, or EITP_F32 for any other */
    size_t name_length;     /* compared first, since names share long prefixes */
    void *data;             /* device memory; NULL until a plan uses it, and if it is offloaded */
    uint64_t offset;        /* of an offloaded variable, in the file; EITP__NO_OFFSET until a plan uses it */
    eitp__segments *lender; /* of a borrowed variable: owner of its memory; else NULL */
    int is_lent;            /* another context has borrowed it; atomic */
} eitp__variable;

#define EITP__NO_OFFSET UINT64_MAX

/* Observes the steps of the forward pass of executions, each once it is done. The step's operands are in device
   memory. */
typedef struct eitp__watcher {
    void *user;
    eitp_status (*done)(void *user, const eitp_plan *plan, size_t step, eitp_error *error);
} eitp__watcher;

struct eitp_context {
    eitp_host host;
    eitp__backend *backend;
    eitp__variable *variables;
    size_t variable_count, variable_capacity;
    struct eitp__op_info *ops; /* the table of ops, by op code; NULL before the first graph */
    size_t ops_bytes;
    size_t graph_count;       /* graphs refer to variables by index */
    eitp__segments *segments; /* the memory of the variables, and the backend */
    eitp__segments **lenders; /* the memory of borrowed variables, each with a reference */
    size_t lender_count, lender_capacity;
    eitp__segment arena;       /* the arena of all plans */
    size_t released_arena;     /* its size before eitp__arena_release; 0: not released */
    uint64_t arena_generation; /* incremented when the arena moves */
    /* Inputs and outputs in the arena stay valid while this number stays the same. It is incremented by every
       execution, when the arena moves, and when a plan writes after another plan used the arena. */
    uint64_t arena_epoch;
    int is_busy;                 /* an execution may be in progress */
    eitp_error late;             /* error of an execution that was not reported yet; status EITP_OK: none */
    const eitp_plan *arena_user; /* plan written or executed last */
    eitp_plan *plans;            /* a linked list */
    eitp_dtype precision;
    eitp_parameter_form parameters;
    int plans_only;
    eitp_offload offload;
    eitp__offload_store offloaded;           /* zeros if nothing is offloaded */
    eitp_profiler profiler;                  /* without a function unless plans are profiled */
    eitp__poll poll;                         /* see eitp_context_set_poll */
    double phase_seconds[EITP__PHASE_COUNT]; /* total over all executions that were waited for */
    eitp__watcher watcher;                   /* without a function unless steps are watched */
    eitp_nonfinite *nonfinite;               /* receives the first non-finite value; NULL: no check */
    char description[200];
    char numerics[100];
};

/* True if variables and arena are in device memory, not in host memory. */
static inline EITP__UNUSED int eitp__context_has_device_memory(const eitp_context *context) {
    return !context->backend->interface->is_host_memory;
}

/* Returns 1/part of the memory of a device that has its own; otherwise, or if it is unknown, 0. */
EITP__PRIVATE size_t eitp__device_share(const eitp_context *context, size_t part);

/* Makes the context's plans execute step by step, and report to `watcher`, which is copied. NULL ends it. */
EITP__PRIVATE void eitp__context_watch(eitp_context *context, const eitp__watcher *watcher);

/* Sets *dtype to the dtype of a precision such as "bf16". Returns 0 for an unknown name. */
EITP__PRIVATE int eitp__precision_dtype(const char *name, eitp_dtype *dtype);

/* Allocates zeroed host memory from the backend for values to upload; NULL if memory is short. */
EITP__PRIVATE void *eitp__staging_allocate(eitp_context *context, size_t size);
EITP__PRIVATE void eitp__staging_release(eitp_context *context, void *memory, size_t size);

/* Returns the number of rows that products in the context's precision sum at a time: sums over rows may be split at its
   multiples. */
EITP__PRIVATE int eitp__context_sum_group(const eitp_context *context);

/* Polls the context's cancellation callback, for long operations that are not executions. EITP_ERROR_INTERRUPTED if it
   requests a stop. */
EITP__PRIVATE eitp_status eitp__context_poll(const eitp_context *context, eitp_error *error);

/* Makes the arena at least `size` bytes. Its contents are lost if it grows. */
EITP__PRIVATE eitp_status eitp__arena_reserve(eitp_context *context, size_t size, eitp_error *error);

/* Shrinks the arena to `size` bytes if it is larger. Its contents are then lost. */
EITP__PRIVATE eitp_status eitp__arena_trim(eitp_context *context, size_t size, eitp_error *error);

/* Waits until all executions are done: device memory may be read, written and released. Returns their late errors. */
EITP__PRIVATE eitp_status eitp__context_wait(eitp_context *context, eitp_error *error);

/* Like eitp__context_wait, for callers that cannot fail: the next call of eitp__context_wait returns the error. */
EITP__PRIVATE void eitp__context_finish(eitp_context *context);

/* Returns the arena's memory to the system, until an execution needs it. Its contents are lost. */
EITP__PRIVATE void eitp__arena_release(eitp_context *context);

/* Reserves an arena that was released. */
EITP__PRIVATE eitp_status eitp__arena_restore(eitp_context *context, eitp_error *error);

/* Returns the size of the arena, or the size it will have once restored. */
EITP__PRIVATE size_t eitp__arena_needed(const eitp_context *context);

#endif
