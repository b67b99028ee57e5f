/* Tensors of a file that hold a variable together: its columns side by side, or its transpose. */
#ifndef EITP_PIECES_H
#define EITP_PIECES_H

#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "model/architecture.h"

/* One tensor of a file, and what it is of its variable. */
typedef struct eitp__piece {
    char name[EITP__NAME_SIZE]; /* "": that of the variable */
    int rank;
    int64_t shape[EITP_MAX_RANK];
    int is_whole;      /* the variable as it is in memory */
    int64_t column;    /* or its columns from this one on, */
    int is_transposed; /* with rows and columns exchanged */
} eitp__piece;

/* The pieces of a variable, as the configuration's architecture lays it out in files (NULL: whole); how many. */
EITP__PRIVATE int eitp__variable_pieces(const eitp_variable *variable, const eitp_transformer_config *config,
                                        eitp__piece pieces[EITP__PIECES]);

/* True if some parameter of the architecture is not whole in files. */
EITP__PRIVATE int eitp__has_pieces(const eitp_transformer_config *config);

/*
 * Reads a tensor into columns of a matrix or vector, or writes it from there, as f32 and through a buffer of 1 MB, or
 * of a row of the tensor where that is more. `checksum` goes on over the bytes in the file; where `loads` is 0 the
 * variable is not changed.
 */
EITP__PRIVATE eitp_status eitp__piece_read(eitp_context *context, const eitp_variable *variable,
                                           const eitp__piece *piece, const eitp__safetensors *collection,
                                           const eitp__safetensors_entry *entry, int loads, uint32_t *checksum,
                                           eitp_error *error);
EITP__PRIVATE eitp_status eitp__piece_write(eitp_context *context, const eitp_variable *variable,
                                            const eitp__piece *piece, eitp__safetensors_writer *writer, size_t index,
                                            uint32_t *checksum, eitp_error *error);

#endif
