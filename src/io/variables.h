/* Variables from and to files: one tensor, a role, a selection. */
#ifndef EITP_VARIABLES_H
#define EITP_VARIABLES_H

#include "io/io.h"
#include "io/pieces.h"

/*
 * Shapes must agree; a floating variable takes any floating type. `checksum` goes on, as in eitp__safetensors_read.
 * Where `loads` is 0 everything is read and checked, and no variable is changed.
 */
EITP__PRIVATE eitp_status eitp__variable_read_entry(eitp_context *context, const eitp_variable *variable,
                                                    const eitp__safetensors *collection,
                                                    const eitp__safetensors_entry *entry, int loads, uint32_t *checksum,
                                                    eitp_error *error);

/* The same for one of the tensors that hold a variable together. */
EITP__PRIVATE eitp_status eitp__variable_read_piece(eitp_context *context, const eitp_variable *variable,
                                                    const eitp__piece *piece, const eitp__safetensors *collection,
                                                    const eitp__safetensors_entry *entry, int loads, uint32_t *checksum,
                                                    eitp_error *error);

/* eitp_variables_load, or only its checks and the checksum. */
EITP__PRIVATE eitp_status eitp__variables_read(eitp_context *context, const char *path, eitp_role role, int loads,
                                               uint32_t *checksum, eitp_error *error);

/* Which variables of a role a file has, and what stands before their names in it. */
typedef struct eitp__selection {
    eitp_role role;
    int (*selects)(const eitp_variable *variable); /* NULL: all */
    const char *prefix;
    const eitp_transformer_config *config; /* its parameters are laid out as its architecture does it; NULL: none */
} eitp__selection;

/* eitp__variables_read of these, whose prefix must be "". */
EITP__PRIVATE eitp_status eitp__variables_read_selected(eitp_context *context, const char *path,
                                                        const eitp__selection *selection, int loads, uint32_t *checksum,
                                                        eitp_error *error);

/* eitp_variables_save of these. */
EITP__PRIVATE eitp_status eitp__variables_save(eitp_context *context, const char *path,
                                               const eitp__selection *selection, eitp_dtype dtype, uint32_t *checksum,
                                               eitp_error *error);

#endif
