/* Exporting models to programs that only run them. */
#ifndef EITP_EXPORT_H
#define EITP_EXPORT_H

#include "model/model.h"
#include "text/text.h"

EITP_BEGIN_DECLARATIONS

/* Start from eitp_export_config_default(). */
typedef struct eitp_export_config {
    /* Types of the matrices: "f32", "f16", "bf16", "q8_0", "q4_0" or "q4_k_m", with the types that llama-quantize
       chooses for each tensor. Vectors, positions and segments are F32. */
    const char *type;
    const char *name; /* general.name; NULL: none */
} eitp_export_config;

/* Returns f16, without a name. */
EITP_API eitp_export_config eitp_export_config_default(void);

/*
 * Writes a model, without adapters (see eitp_model_merge_lora), and its tokenizer with the chat template as a GGUF file
 * for llama.cpp and the programs built on it. The file is replaced as a whole or not at all. Its tokens that end a text
 * are the tokenizer's end of text and, with a chat template, the token that ends a turn. Needs memory for the
 * vocabulary, and for some rows of a matrix. EITP_ERROR_ARGUMENT for another type, a tokenizer with more tokens than
 * the model, and a weight that the type cannot represent; EITP_ERROR_UNSUPPORTED, with the reason, for a model or
 * tokenizer that these programs would compute differently: classifiers, models with a latent variable, activations or
 * attention scales other than the architecture's own.
 */
EITP_API eitp_status eitp_model_export(eitp_model *model, const eitp_tokenizer *tokenizer, const char *path,
                                       const eitp_export_config *config, eitp_error *error);

/*
 * Writes the adapters of a model as a GGUF file for llama.cpp's --lora, in F32. The base model's weights need not be
 * read. EITP_ERROR_ARGUMENT without adapters; EITP_ERROR_UNSUPPORTED for modules that were trained in full, and for
 * models that eitp_model_export refuses.
 */
EITP_API eitp_status eitp_lora_export(eitp_model *model, const char *path, eitp_error *error);

EITP_END_DECLARATIONS

#endif
