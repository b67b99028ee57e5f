/* Writes a tokenizer as keys of a GGUF file. */
#ifndef EITP_TOKENIZER_GGUF_H
#define EITP_TOKENIZER_GGUF_H

#include "gguf/writer.h"
#include "text/text.h"

/*
 * Adds the keys of a tokenizer, with `count` tokens: as many as the model has, the last of them unused if the tokenizer
 * has fewer. `end_of_turn` is a token that ends a turn of a conversation, or -1. EITP_ERROR_UNSUPPORTED, with the
 * reason, for a tokenizer that the format cannot express; EITP_ERROR_ARGUMENT if it has more tokens than the model.
 */
EITP__PRIVATE eitp_status eitp__gguf_put_tokenizer(const eitp_tokenizer *tokenizer, int64_t count, int32_t end_of_turn,
                                                   eitp__gguf_writer *writer, eitp_error *error);

#endif
