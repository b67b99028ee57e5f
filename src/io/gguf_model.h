/* Writes a model to a GGUF file: the keys of its configuration, and its tensors in a mix of types. */
#ifndef EITP_GGUF_MODEL_H
#define EITP_GGUF_MODEL_H

#include "gguf/writer.h"
#include "model/model.h"

/* The types of a file's tensors, named as llama-quantize names its results. */
typedef struct eitp__gguf_mix {
    const char *name;
    int64_t file_type;  /* general.file_type */
    const char *matrix; /* type of matrices */
    const char *head;   /* of the output head, or of the token embedding that stands in for it */
    const char *better; /* of values and of the MLP's output in some layers */
} eitp__gguf_mix;

/* Returns the mix of a name; NULL if it is unknown. Without a name, lists the names in *names. */
EITP__PRIVATE const eitp__gguf_mix *eitp__gguf_mix_named(const char *name, const char **names);

/*
 * Adds the keys and tensors of a model. EITP_ERROR_UNSUPPORTED, with the reason, for a model that llama.cpp would not
 * compute in the same way: a classifier, another activation, unusual scales or biases. A model whose layers all have a
 * window is written with that many positions, within which the window has no effect, unless the format has the window.
 */
EITP__PRIVATE eitp_status eitp__gguf_put_model(const eitp_model *model, const eitp__gguf_mix *mix,
                                               eitp__gguf_writer *writer, eitp_error *error);

/* Writes the values of the tensors that eitp__gguf_put_model added first. */
EITP__PRIVATE eitp_status eitp__gguf_write_weights(const eitp_model *model, eitp__gguf_writer *writer,
                                                   eitp_error *error);

#endif
