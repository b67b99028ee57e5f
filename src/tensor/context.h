/* The context: its backend, variables, plans, and the arena that the plans share. */
#ifndef EITP_CONTEXT_H
#define EITP_CONTEXT_H

#include "backends/backend.h"
#include "tensor/offload.h"

typedef struct eitp__variable {
    eitp_variable info;
    size_t name_length; /* compared first, since names share long prefixes */
    void *data;         /* device memory; NULL until a plan uses it, and if it is offloaded */
    uint64_t offset;    /* of an offloaded variable: in the file; EITP__NO_OFFSET until a plan uses it */
} eitp__variable;

#define EITP__NO_OFFSET UINT64_MAX

/* A block of device memory. */
typedef struct eitp__segment {
    void *memory;
    size_t size;
} eitp__segment;

struct eitp_context {
    eitp_host host;
    eitp__backend *backend;
    eitp__variable *variables;
    size_t variable_count, variable_capacity;
    size_t graph_count;      /* graphs refer to variables by index */
    eitp__segment *segments; /* the memory of the variables */
    size_t segment_count, segment_capacity;
    eitp__segment arena;       /* of all plans */
    uint64_t arena_generation; /* incremented when the arena moves */
    /* The values of inputs and outputs in the arena are valid while this number stays the same. It is incremented by
     * every execution, when the arena moves, and when a plan writes after another plan used the arena. */
    uint64_t arena_epoch;
    const eitp_plan *arena_user; /* the plan that was written or executed last */
    eitp_plan *plans;            /* a list */
    const void *cache_user;      /* the generator that fed the key-value cache last; only compared */
    eitp_dtype precision;
    eitp_parameter_form parameters;
    int plans_only;
    eitp_offload offload;
    eitp__offload_file offload_file; /* zeros if nothing is offloaded */
    eitp_profiler profiler;          /* without a function if plans are not profiled */
    char description[200];
    char numerics[100];
};

/* How many rows the products of the context's precision sum at a time: sums over rows may be split at multiples. */
EITP__PRIVATE int eitp__context_sum_group(const eitp_context *context);

/* Makes the arena at least `size` bytes. Its contents are lost if it grows. */
EITP__PRIVATE eitp_status eitp__arena_reserve(eitp_context *context, size_t size, eitp_error *error);

/* Shrinks the arena to `size` bytes if it is larger. Its contents are then lost. */
EITP__PRIVATE eitp_status eitp__arena_trim(eitp_context *context, size_t size, eitp_error *error);

#endif
