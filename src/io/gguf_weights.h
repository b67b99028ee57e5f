/* The tensors of GGUF files, as a collection with Hugging Face's names and layout. */
#ifndef EITP_GGUF_WEIGHTS_H
#define EITP_GGUF_WEIGHTS_H

#include "io/safetensors.h"

/*
 * Opens a GGUF file, or the files of a split model by the first one. Tensors that eitp's architecture does not have,
 * and types that cannot be widened, are EITP_ERROR_UNSUPPORTED, with their names. Quantized tensors are read as F32.
 * Rows that the format permutes, matrices that it transposes and norms to which it adds 1 are read as in safetensors
 * files.
 */
EITP__PRIVATE eitp_status eitp__gguf_weights_open(const eitp_host *host, const char *path,
                                                  eitp__safetensors **collection, eitp_error *error);

#endif
