/* Writes adapters to a GGUF file, for llama.cpp's --lora. */
#ifndef EITP_GGUF_ADAPTER_H
#define EITP_GGUF_ADAPTER_H

#include "gguf/writer.h"
#include "model/model.h"

/* Adds the keys and tensors of a model's adapters. EITP_ERROR_UNSUPPORTED for modules that are trained in full, and for
   layers outside blocks, which the format lacks. */
EITP__PRIVATE eitp_status eitp__gguf_put_adapter(const eitp_model *model, eitp__gguf_writer *writer, eitp_error *error);

/* Writes the values of the tensors that eitp__gguf_put_adapter added first. */
EITP__PRIVATE eitp_status eitp__gguf_write_adapter(const eitp_model *model, eitp__gguf_writer *writer,
                                                   eitp_error *error);

#endif
