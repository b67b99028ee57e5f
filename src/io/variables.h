/* Reads variables from files and writes them: single tensors, roles, selections. */
#ifndef EITP_VARIABLES_H
#define EITP_VARIABLES_H

#include "base/write_behind.h"
#include "io/io.h"
#include "io/pieces.h"

/* Checks the header of a tensor against the piece of a variable that it is read into. */
EITP__PRIVATE eitp_status eitp__variable_check_entry(const eitp_variable *variable, const eitp__piece *piece,
                                                     const eitp__safetensors *collection,
                                                     const eitp__safetensors_entry *entry, eitp_error *error);

/*
 * Reads a tensor into a variable of the same shape; a floating-point variable accepts any floating-point dtype.
 * `checksum`, which may be NULL, is a running checksum as in eitp__safetensors_read; if given, the tensor is also added
 * to the sum of its file. If `loads` is 0 everything is read and checked, but no variable is changed.
 */
EITP__PRIVATE eitp_status eitp__variable_read_entry(eitp_context *context, const eitp_variable *variable,
                                                    const eitp__safetensors *collection,
                                                    const eitp__safetensors_entry *entry, int loads, uint32_t *checksum,
                                                    eitp_error *error);

/* Like eitp__variable_read_entry, for one piece of a variable. */
EITP__PRIVATE eitp_status eitp__variable_read_piece(eitp_context *context, const eitp_variable *variable,
                                                    const eitp__piece *piece, const eitp__safetensors *collection,
                                                    const eitp__safetensors_entry *entry, int loads, uint32_t *checksum,
                                                    eitp_error *error);

/* The part of a file that is read. */
typedef enum eitp__reading {
    EITP__READ_HEADER, /* names, shapes and dtypes are checked; no checksum is computed */
    EITP__READ_ALL,    /* everything is read and checked, but no variable is changed */
    EITP__READ_LOAD    /* everything is read into the variables */
} eitp__reading;

/* The checksums of a file that was read: of its tensors, in the order of the variables, and of all its bytes. */
typedef struct eitp__read_sums {
    uint32_t tensors;
    eitp__file_sum file;
} eitp__read_sums;

/* eitp_variables_load, or only its checks. `sums` may be NULL. */
EITP__PRIVATE eitp_status eitp__variables_read(eitp_context *context, const char *path, eitp_role role,
                                               eitp__reading reading, eitp__read_sums *sums, eitp_error *error);

/* Like eitp__variables_read, for optimizer state. State without a parent that the file lacks keeps its value, which is
   logged. */
EITP__PRIVATE eitp_status eitp__states_read(eitp_context *context, const char *path, eitp__reading reading,
                                            eitp__read_sums *sums, eitp_error *error);

/* Logs that a file lacks a state. */
EITP__PRIVATE void eitp__log_missing_state(const eitp_context *context, const char *path, const char *name);

/* A selection of the variables stored in a file. */
typedef struct eitp__selection {
    eitp_role role;
    int (*selects)(const eitp_variable *variable); /* NULL: all */
    const char *prefix;                            /* of variable names in the file */
    const eitp_transformer_config *config;         /* determines the layout of parameters; NULL: none */
    /* `only`: if not NULL, only parameters of this model; `without`: if not NULL, excludes parameters of these
       models. */
    const eitp_transformer_config *only, *without[2];
    const eitp_lora_config *adapters; /* if not NULL, includes parameters trained in full alongside these adapters,
                                         regardless of `selects` */
    int may_lack_states; /* reading: a variable without a parent that the file lacks keeps its value, which is logged */
    int has_lower;       /* reading: the file also has lower planes for other files */
    const char *lower;   /* reading: the file with the lower planes for this one; NULL: none */
} eitp__selection;

/* A part of a file to write: a plane of some variables, with floating-point variables stored as `dtype`. */
typedef struct eitp__file_part {
    const eitp__selection *selection;
    eitp_save_dtype dtype;
    eitp__plane plane; /* EITP__PLANE_LOWER: only for tensors that need one */
} eitp__file_part;

/* Returns the most common weight dtype of a selection in its file. */
EITP__PRIVATE eitp_dtype eitp__selection_dtype(const eitp_context *context, const eitp__selection *selection,
                                               eitp_save_dtype dtype);

/* Adds the size in bytes of a selection in its file, including headers, and of its lower planes. */
EITP__PRIVATE void eitp__selection_bytes(eitp_context *context, const eitp__selection *selection, eitp_save_dtype dtype,
                                         uint64_t *bytes, uint64_t *lower_bytes);

/* Finds a value that the dtype of its tensor cannot represent. *name is the variable's name, or NULL if there is no
   such value. */
EITP__PRIVATE eitp_status eitp__selection_find_overflow(eitp_context *context, const eitp__selection *selection,
                                                        eitp_save_dtype dtype, const char **name, float *value,
                                                        eitp_error *error);

/* Stores the dtype that a parameter has in a file, for EITP_SAVE_AS_LOADED. */
EITP__PRIVATE void eitp__variable_note_dtype(eitp_context *context, const char *name, const eitp__piece *piece,
                                             int dtype);

/* eitp__variables_read of a selection, whose prefix must be "". */
EITP__PRIVATE eitp_status eitp__variables_read_selected(eitp_context *context, const char *path,
                                                        const eitp__selection *selection, eitp__reading reading,
                                                        eitp__read_sums *sums, eitp_error *error);

/* eitp_variables_save of a selection. `output` may be NULL. */
EITP__PRIVATE eitp_status eitp__variables_save(eitp_context *context, const char *path,
                                               const eitp__selection *selection, eitp_save_dtype dtype,
                                               uint32_t *checksum, eitp__file_output *output, eitp_error *error);

/* Like eitp__variables_save, for several parts. `checksum` excludes lower planes. */
EITP__PRIVATE eitp_status eitp__variables_save_parts(eitp_context *context, const char *path,
                                                     const eitp__file_part *parts, size_t count, uint32_t *checksum,
                                                     eitp__file_output *output, eitp_error *error);

/* Returns a selection of the variables of a role. */
EITP__PRIVATE eitp__selection eitp__select_role(eitp_role role);

/* Writes a shape as "[2, 3]" and returns `text`. */
EITP__PRIVATE const char *eitp__format_shape(int rank, const int64_t *shape, char *text, size_t size);

#endif
