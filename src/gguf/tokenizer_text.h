/* Hugging Face's files of the tokenizer in a GGUF file, as text. */
#ifndef EITP_GGUF_TOKENIZER_TEXT_H
#define EITP_GGUF_TOKENIZER_TEXT_H

#include "gguf/tokenizer_keys.h"

/*
 * Add tokenizer.json and tokenizer_config.json to `text`. With both, a text has the same tokens as with
 * the model's original tokenizer, except that GGUF files do not state if an added token takes the white space around it
 * or is recognized in normalized text. Messages name the key and the file.
 */
EITP__PRIVATE eitp_status eitp__gguf_write_tokenizer(const eitp__gguf *gguf, eitp__buffer *text, eitp_error *error);
EITP__PRIVATE eitp_status eitp__gguf_write_tokenizer_config(const eitp__gguf *gguf, eitp__buffer *text,
                                                            eitp_error *error);

#endif
