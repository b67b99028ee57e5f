/* Variables that a file stores as several tensors, each with some of the columns, or transposed. */
#ifndef EITP_PIECES_H
#define EITP_PIECES_H

#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "model/architecture.h"

/* One tensor of a file, and the part of the variable that it holds. */
typedef struct eitp__piece {
    char name[EITP__NAME_SIZE]; /* "": the variable's name */
    int rank;
    int64_t shape[EITP_MAX_RANK];
    int is_whole;      /* the whole variable, with the same layout as in memory */
    int64_t column;    /* otherwise: its columns, starting with this one */
    int is_transposed; /* otherwise: the file has those columns transposed */
    int is_copy;       /* the whole variable under a second name: written, but optional in files, and not loaded */
} eitp__piece;

/* Fills in the pieces of a variable in files of the configuration's architecture (NULL: one whole piece), a copy last,
   and returns their number. */
EITP__PRIVATE int eitp__variable_pieces(const eitp_variable *variable, const eitp_transformer_config *config,
                                        eitp__piece pieces[EITP__PIECES]);

/* Like eitp__variable_pieces, in a file of adapters: a token embedding in `saved` (a sum of eitp_lora_saved) that is
   also the head has a copy under the head's name, which PEFT requires. */
EITP__PRIVATE int eitp__saved_pieces(const eitp_variable *variable, const eitp_transformer_config *config,
                                     unsigned saved, eitp__piece pieces[EITP__PIECES]);

/* True if files of the architecture have a parameter that is split or transposed. */
EITP__PRIVATE int eitp__has_pieces(const eitp_transformer_config *config);

/*
 * Reads a tensor into its columns of a matrix or vector, or writes it from there, as f32 through a buffer of 1 MB, or
 * of one row of the tensor if that is larger. `checksum` is a running checksum of the bytes in the file. If `loads` is
 * 0 the variable is not changed.
 */
EITP__PRIVATE eitp_status eitp__piece_read(eitp_context *context, const eitp_variable *variable,
                                           const eitp__piece *piece, const eitp__safetensors *collection,
                                           const eitp__safetensors_entry *entry, int loads, uint32_t *checksum,
                                           eitp_error *error);

/* Some rows of a matrix, or part of one row; a vector is one row. */
typedef struct eitp__block {
    int64_t row, rows, column, columns;
} eitp__block;

/* Reads the values of a variable's block, row by row, that are in the tensor. */
EITP__PRIVATE eitp_status eitp__piece_read_block(const eitp_variable *variable, const eitp__piece *piece,
                                                 const eitp__safetensors *collection,
                                                 const eitp__safetensors_entry *entry, const eitp__block *block,
                                                 float *values, eitp_error *error);

/* Reads rows [first, first + count) of the tensor that a piece describes from the variable. */
EITP__PRIVATE eitp_status eitp__piece_read_rows(eitp_context *context, const eitp_variable *variable,
                                                const eitp__piece *piece, int64_t first, int64_t count, float *values,
                                                eitp_error *error);

EITP__PRIVATE eitp_status eitp__piece_write(eitp_context *context, const eitp_variable *variable,
                                            const eitp__piece *piece, eitp__plane plane,
                                            eitp__safetensors_writer *writer, size_t index, uint32_t *checksum,
                                            eitp_error *error);

#endif
