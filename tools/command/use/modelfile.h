/* An Ollama Modelfile for an exported model. */
#ifndef COMMAND_USE_MODELFILE_H
#define COMMAND_USE_MODELFILE_H

#include "command.h"

EITP_BEGIN_DECLARATIONS

/*
 * Writes "Modelfile" in the directory of a GGUF file: the file's name, the tokenizer's chat template in Ollama's
 * language, and the tokens that end an answer. Ollama does not read Jinja, so the template is derived from one question
 * that the tokenizer's template renders, with and without a system message. EITP_ERROR_UNSUPPORTED for a template that
 * changes messages. Without a chat template, prompts are continued.
 */
eitp_status modelfile_write(const eitp_tokenizer *tokenizer, const char *file, eitp_error *error);

EITP_END_DECLARATIONS

#endif
