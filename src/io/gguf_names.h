/* Names of tensors in GGUF files (gguf's constants.py), by their place in the model. */
#ifndef EITP_GGUF_NAMES_H
#define EITP_GGUF_NAMES_H

#include "model/architecture.h"

/* The parameter that a tensor's name stands for. */
typedef struct eitp__gguf_place {
    const eitp__parameter_row *row;
    int piece;     /* of the row; 0 if it is one tensor */
    int64_t layer; /* -1 outside blocks */
} eitp__gguf_place;

/* Finds the place of a name of `size` bytes in an architecture. Returns 0 if it has none. */
EITP__PRIVATE int eitp__gguf_place_find(const eitp_architecture *architecture, const char *name, size_t size,
                                        eitp__gguf_place *place);

/* Writes the name in Hugging Face's files. */
EITP__PRIVATE void eitp__gguf_place_name(const eitp_architecture *architecture, const eitp__gguf_place *place,
                                         char *name, size_t size);

/* Writes the name in GGUF files of one tensor of a row. Returns 0 if the format has none. */
EITP__PRIVATE int eitp__gguf_tensor_name(const eitp_architecture *architecture, const eitp__gguf_place *place,
                                         char *name, size_t size);

/* True if the matrix of a row is [in, out] in Hugging Face's files; GGUF files have all matrices of linear layers as
   [out, in]. */
EITP__PRIVATE int eitp__gguf_is_transposed(const eitp__parameter_row *row);

/* True if the row is the gain of a norm. */
EITP__PRIVATE int eitp__gguf_is_norm(const eitp__parameter_row *row);

#endif
