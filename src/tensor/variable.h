/* Variables of a context. */
#ifndef EITP_VARIABLE_H
#define EITP_VARIABLE_H

#include "tensor/context.h"

/* What the library does with the variables of a role. */
typedef struct eitp__role_info {
    eitp_offload offloaded_from; /* the least setting that offloads them; above EITP_OFFLOAD_ALL: none does */
    int is_training_state;       /* a step that changed some of them and not others leaves the trainer torn */
} eitp__role_info;

EITP__PRIVATE const eitp__role_info *eitp__role_of(eitp_role role);

/* Finds or creates the variable of that name. A variable with another role, dtype or shape is an error. */
EITP__PRIVATE eitp_status eitp__variable_declare(eitp_context *context, const char *name, eitp_role role,
                                                 eitp_dtype dtype, int rank, const int64_t *shape, int64_t *index,
                                                 eitp_error *error);

/* Removes a variable: the last one, or any while there are no graphs. */
EITP__PRIVATE void eitp__variable_remove(eitp_context *context, size_t index);

/* Finds a variable; an error if there is none of that name. */
EITP__PRIVATE eitp_status eitp__variable_named(eitp_context *context, const char *name, eitp__variable **variable,
                                               eitp_error *error);

/* The remainder of a 16-bit parameter; NULL if it has none. */
EITP__PRIVATE eitp__variable *eitp__remainder_of(eitp_context *context, const eitp__variable *variable);

/* Writes the name of the remainder of parameter `name`. Returns 0 if it does not fit: a truncated name must not be
 * used. */
EITP__PRIVATE int eitp__remainder_name(const char *name, char *text, size_t size);

/* A hash of the name, so that random values do not depend on the order in which variables are created. */
EITP__PRIVATE uint64_t eitp__name_key(const char *name);

/* Allocates memory, or space in the file, for all variables that have none. */
EITP__PRIVATE eitp_status eitp__variables_allocate(eitp_context *context, eitp_error *error);

/* Allocates the variables before their values are accessed; an error in a context with plans_only. */
EITP__PRIVATE eitp_status eitp__prepare_access(eitp_context *context, eitp_error *error);

/* Copies bytes of an allocated variable to or from host memory. */
EITP__PRIVATE eitp_status eitp__variable_transfer(eitp_context *context, const eitp__variable *variable, size_t offset,
                                                  void *memory, size_t size, int writes, eitp_error *error);

/* EITP_ERROR_ARGUMENT if the values of the variable cannot be changed, because contexts share them. */
EITP__PRIVATE eitp_status eitp__variable_check_change(const eitp_context *context, const eitp__variable *variable,
                                                      eitp_error *error);

/* The memory of an allocated variable whose bytes are its values, to be changed, or NULL: if it is offloaded, on a
   device, shared by contexts, or has a remainder. */
EITP__PRIVATE void *eitp__variable_memory(eitp_context *context, const char *name);

/* The 16-bit values that a parameter with an exact remainder (EITP_PARAMETERS_EXACT) has. bf16 is rounded to nearest,
   ties away from zero; a parameter without a remainder rounds ties to even. */
EITP__PRIVATE void eitp__split_high(eitp_dtype dtype, const float *values, uint16_t *high, size_t count);

/* Removes variables and segments beyond the given counts. No graph or plan may use them. */
EITP__PRIVATE void eitp__variables_roll_back(eitp_context *context, size_t variables, size_t segments);

#endif
