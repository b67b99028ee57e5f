/* The context's inside: variables and the shared arena. */
#ifndef EITP_CONTEXT_H
#define EITP_CONTEXT_H

#include "backends/backend.h"
#include "tensor/offload.h"

typedef struct eitp__variable {
    eitp_variable info;
    size_t name_length; /* names have long beginnings in common: most are told apart by it */
    void *data;         /* device memory; NULL until a plan uses it, and where it is offloaded */
    uint64_t offset;    /* in the file, of one that is offloaded; EITP__NO_OFFSET until a plan uses it */
} eitp__variable;

#define EITP__NO_OFFSET UINT64_MAX

typedef struct eitp__segment {
    void *memory;
    size_t size;
} eitp__segment;

struct eitp_context {
    eitp_host host;
    eitp__backend *backend;
    eitp__variable *variables;
    size_t variable_count, variable_capacity;
    size_t graph_count;      /* graphs, which know variables by number */
    eitp__segment *segments; /* that the variables lie in */
    size_t segment_count, segment_capacity;
    eitp__segment arena;       /* of all plans */
    uint64_t arena_generation; /* counts its moves */
    /* What plans wrote to their inputs, and what they computed, lasts while this number stays the same: it changes with
     * every execution, every move, and where another plan than the one before writes. */
    uint64_t arena_use;
    const eitp_plan *arena_user; /* the plan that wrote or was executed last */
    eitp_plan *plans;            /* that run in it, a list */
    eitp_dtype precision;
    eitp_parameter_form parameters;
    int plans_only;
    eitp_offload offload;
    eitp__offload_file offload_file; /* zeros where nothing is offloaded */
    eitp_profiler profiler;          /* without a function: none */
    char description[200];
    char numerics[100];
};

/* The variable of that name, made if there is none. */
EITP__PRIVATE eitp_status eitp__variable_declare(eitp_context *context, const char *name, eitp_role role,
                                                 eitp_dtype dtype, int rank, const int64_t *shape, int64_t *index,
                                                 eitp_error *error);

/* Takes the last variable away again, or another while there is no graph. */
EITP__PRIVATE void eitp__variable_remove(eitp_context *context, size_t index);

/* The name of the variable that holds what 16-bit parameter `name` lacks; 0: it does not fit, and no variable may have
 * what was cut from it. */
EITP__PRIVATE int eitp__remainder_name(const char *name, char *text, size_t size);

/* A number for a name, whatever order variables are declared in. */
EITP__PRIVATE uint64_t eitp__name_key(const char *name);

/* Gives memory, or a place in the file, to all variables that have none. */
EITP__PRIVATE eitp_status eitp__variables_allocate(eitp_context *context, eitp_error *error);

/* Copies bytes of a variable that has memory or a place to or from memory of the host's. */
EITP__PRIVATE eitp_status eitp__variable_move(eitp_context *context, const eitp__variable *variable, size_t offset,
                                              void *memory, size_t size, int writes, eitp_error *error);

/* Rows that products of the context's precision add at once: a sum over rows may be cut at multiples of it. */
EITP__PRIVATE int eitp__context_sum_group(const eitp_context *context);

/* Takes back what was declared and allocated after there were so many; no graph or plan may know of it. */
EITP__PRIVATE void eitp__variables_rewind(eitp_context *context, size_t variables, size_t segments);

/* Makes the arena at least `size` bytes. */
EITP__PRIVATE eitp_status eitp__arena_reserve(eitp_context *context, size_t size, eitp_error *error);

/* Makes the arena exactly `size` bytes, where it is larger; what was in it is lost. */
EITP__PRIVATE eitp_status eitp__arena_trim(eitp_context *context, size_t size, eitp_error *error);

#endif
