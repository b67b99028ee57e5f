/* The merges of a GGUF file's BPE, for a tokenizer.json. */
#ifndef EITP_GGUF_TOKENIZER_MERGES_H
#define EITP_GGUF_TOKENIZER_MERGES_H

#include "gguf/tokenizer_keys.h"

/* Adds the merges as a JSON array: byte-level BPE's are in the file, SentencePiece's follow from the scores. */
EITP__PRIVATE eitp_status eitp__gguf_write_merges(const eitp__gguf_tokenizer *tokenizer, eitp__buffer *text,
                                                  eitp_error *error);

#endif
