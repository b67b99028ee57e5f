/* Variables from and to files: single tensors, roles, selections. */
#ifndef EITP_VARIABLES_H
#define EITP_VARIABLES_H

#include "io/io.h"
#include "io/pieces.h"

/*
 * Reads a tensor into a variable of the same shape; a floating-point variable takes any floating-point dtype.
 * `checksum` is a running checksum as in eitp__safetensors_read. If `loads` is 0 everything is read and checked, but no
 * variable is changed.
 */
EITP__PRIVATE eitp_status eitp__variable_read_entry(eitp_context *context, const eitp_variable *variable,
                                                    const eitp__safetensors *collection,
                                                    const eitp__safetensors_entry *entry, int loads, uint32_t *checksum,
                                                    eitp_error *error);

/* The same for one piece of a variable. */
EITP__PRIVATE eitp_status eitp__variable_read_piece(eitp_context *context, const eitp_variable *variable,
                                                    const eitp__piece *piece, const eitp__safetensors *collection,
                                                    const eitp__safetensors_entry *entry, int loads, uint32_t *checksum,
                                                    eitp_error *error);

/* How much of a file is read. */
typedef enum eitp__reading {
    EITP__READ_HEADER, /* names, shapes and dtypes are checked; there is no checksum */
    EITP__READ_ALL,    /* everything is read and checked, but no variable is changed */
    EITP__READ_LOAD    /* into the variables */
} eitp__reading;

/* eitp_variables_load, or only its checks. */
EITP__PRIVATE eitp_status eitp__variables_read(eitp_context *context, const char *path, eitp_role role,
                                               eitp__reading reading, uint32_t *checksum, eitp_error *error);

/* The variables of a file. */
typedef struct eitp__selection {
    eitp_role role;
    int (*selects)(const eitp_variable *variable); /* NULL: all */
    const char *prefix;                            /* of their names in the file */
    const eitp_transformer_config *config;         /* whose architecture gives the layout of parameters; NULL: none */
    int with_classifier;                           /* those of its classifier too, whatever `selects` says */
} eitp__selection;

/* eitp__variables_read of a selection, whose prefix must be "". */
EITP__PRIVATE eitp_status eitp__variables_read_selected(eitp_context *context, const char *path,
                                                        const eitp__selection *selection, eitp__reading reading,
                                                        uint32_t *checksum, eitp_error *error);

/* eitp_variables_save of a selection. `sum`, which may be NULL, receives the size and checksum of the whole file. */
EITP__PRIVATE eitp_status eitp__variables_save(eitp_context *context, const char *path,
                                               const eitp__selection *selection, eitp_dtype dtype, uint32_t *checksum,
                                               eitp__file_sum *sum, eitp_error *error);

/* eitp_variables_save that also sums the file. */
EITP__PRIVATE eitp_status eitp__variables_save_role(eitp_context *context, const char *path, eitp_role role,
                                                    uint32_t *checksum, eitp__file_sum *sum, eitp_error *error);

/* Writes a shape as "[2, 3]" and returns `text`. */
EITP__PRIVATE const char *eitp__format_shape(int rank, const int64_t *shape, char *text, size_t size);

#endif
