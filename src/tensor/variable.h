/* Variables of a context. */
#ifndef EITP_VARIABLE_H
#define EITP_VARIABLE_H

#include "tensor/context.h"

/* Handling of the variables of a role. */
typedef struct eitp__role_info {
    eitp_offload offloaded_from; /* lowest setting that offloads them; above EITP_OFFLOAD_ALL: never */
    int is_training_state;       /* a step that changes only some of them leaves the trainer in an inconsistent state */
} eitp__role_info;

EITP__PRIVATE const eitp__role_info *eitp__role_of(eitp_role role);

/* Finds or creates the variable of that name. A variable with another role, dtype or shape is an error. */
EITP__PRIVATE eitp_status eitp__variable_declare(eitp_context *context, const char *name, eitp_role role,
                                                 eitp_dtype dtype, int rank, const int64_t *shape, int64_t *index,
                                                 eitp_error *error);

/* A variable that belongs to another one, its parent, such as a gradient. Its name is "<kind>.<parent's name>", or with
   a number "<kind>.<number>.<parent's name>"; it is found by parent, kind and number. */
typedef struct eitp__child_info {
    const char *kind; /* a constant */
    int64_t number;   /* among several of a kind; 0: the only one */
    eitp_role role;
    eitp_dtype dtype;
    int rank;
    const int64_t *shape;
} eitp__child_info;

/* Longest name of a child, in bytes. */
#define EITP__LONGEST_NAME 255

/* Kinds of children that are not the state of an optimizer. */
/* Kinds of accumulated gradients. The gradients of regularizers, which are accumulated separately, have a prefix. */
#define EITP__KIND_GRADIENT "gradient"           /* first term of a gradient */
#define EITP__KIND_GRADIENT_TERM "gradient_term" /* other terms; the number counts from 2 */
#define EITP__KIND_GRADIENT_ROWS "gradient_rows" /* rows of eitp_embedding_unique; the number is the number of ids */
#define EITP__KIND_REMAINDER "remainder"

/* Finds or creates a child. It is an error if the variable of that name is not this child, or has another role, dtype
   or shape. */
EITP__PRIVATE eitp_status eitp__child_declare(eitp_context *context, int64_t parent, const eitp__child_info *child,
                                              int64_t *index, eitp_error *error);

/* Returns the index of a child; -1 if there is no such child. */
EITP__PRIVATE int64_t eitp__child_find(const eitp_context *context, int64_t parent, const char *kind, int64_t number);

/* Removes a variable: the last one, or any one while there are no graphs. It must not have children. */
EITP__PRIVATE void eitp__variable_remove(eitp_context *context, size_t index);

/* Finds a variable by name. Fails if it does not exist. */
EITP__PRIVATE eitp_status eitp__variable_named(eitp_context *context, const char *name, eitp__variable **variable,
                                               eitp_error *error);

/* Returns the remainder of a 16-bit parameter; NULL if it has none. */
EITP__PRIVATE eitp__variable *eitp__remainder_of(eitp_context *context, const eitp__variable *variable);

/* Describes, as a child, the remainder that a parameter must have in this context; 0 if it has none. */
EITP__PRIVATE int eitp__remainder_child(const eitp_context *context, const eitp_variable *parameter,
                                        eitp__child_info *child);

/* Returns the dtype of the exact remainder of a 16-bit parameter. */
static inline EITP__UNUSED eitp_dtype eitp__exact_remainder(eitp_dtype dtype) {
    return dtype == EITP_BF16 ? EITP_I16 : EITP_F32;
}

/* Returns a hash of the name, so that random values do not depend on the order in which variables are created. */
EITP__PRIVATE uint64_t eitp__name_key(const char *name);

/* Allocates memory, or space in the file, for all variables that have none. */
EITP__PRIVATE eitp_status eitp__variables_allocate(eitp_context *context, eitp_error *error);

/* Allocates the variables before their values are accessed; an error in a context with plans_only. */
EITP__PRIVATE eitp_status eitp__prepare_access(eitp_context *context, eitp_error *error);

/* Copies bytes of an allocated variable to or from host memory. */
EITP__PRIVATE eitp_status eitp__variable_transfer(eitp_context *context, const eitp__variable *variable, size_t offset,
                                                  void *memory, size_t size, int writes, eitp_error *error);

/* Fails with EITP_ERROR_ARGUMENT if the values of the variable cannot be changed because contexts share them. */
EITP__PRIVATE eitp_status eitp__variable_check_change(const eitp_context *context, const eitp__variable *variable,
                                                      eitp_error *error);

/* Returns the memory of an allocated variable whose bytes are its values, to be changed. NULL if it is offloaded, on a
   device, shared by contexts, or has a remainder. */
EITP__PRIVATE void *eitp__variable_memory(eitp_context *context, const char *name);

/* Computes the 16-bit values of a parameter with an exact remainder (EITP_PARAMETERS_EXACT). bf16 is rounded to
   nearest, ties away from zero; a parameter without a remainder rounds ties to even. */
EITP__PRIVATE void eitp__split_high(eitp_dtype dtype, const float *values, uint16_t *high, size_t count);

/* Removes variables and segments beyond the given counts. No graph or plan may use them. */
EITP__PRIVATE void eitp__variables_roll_back(eitp_context *context, size_t variables, size_t segments);

#endif
