/* The tokens of a GGUF file, spelled as in Hugging Face's files, and found by their text. */
#ifndef EITP_GGUF_TOKENIZER_PIECES_H
#define EITP_GGUF_TOKENIZER_PIECES_H

#include "base/status.h"
#include "gguf/gguf.h"

#define EITP__GGUF_TOKENS_KEY "tokenizer.ggml.tokens"

/* Values of tokenizer.ggml.token_type; 0 is a normal token, too. */
enum {
    EITP__GGUF_NORMAL = 1,
    EITP__GGUF_UNKNOWN = 2,
    EITP__GGUF_CONTROL = 3,
    EITP__GGUF_USER_DEFINED = 4,
    EITP__GGUF_UNUSED = 5,
    EITP__GGUF_BYTE = 6
};

/* Values of tokenizer.ggml.model that are supported: "gpt2", "llama" and "bert". */
typedef enum eitp__gguf_vocabulary {
    EITP__GGUF_BYTE_LEVEL,
    EITP__GGUF_SENTENCEPIECE,
    EITP__GGUF_WORDPIECE,
    EITP__GGUF_VOCABULARIES
} eitp__gguf_vocabulary;

typedef struct eitp__gguf_pieces {
    const eitp_host *host;
    eitp__gguf_text *texts; /* valid UTF-8, unique */
    size_t count;
    const eitp__gguf_value *types; /* NULL: all are normal */
    eitp__buffer respelled;        /* bytes of the tokens that are spelled differently in the file */
    uint32_t *slots;               /* open addressing: id + 1, or 0 if the slot is free */
    size_t slot_count;             /* a power of two */
} eitp__gguf_pieces;

/* Reads the tokens, which must be valid UTF-8 and unique, and their types. Release them even after a failure. */
EITP__PRIVATE eitp_status eitp__gguf_pieces_read(const eitp__gguf *gguf, eitp__gguf_vocabulary kind,
                                                 eitp__gguf_pieces *pieces, eitp_error *error);
EITP__PRIVATE void eitp__gguf_pieces_release(eitp__gguf_pieces *pieces);

EITP__PRIVATE int eitp__gguf_piece_type(const eitp__gguf_pieces *pieces, size_t id);

/* True if the token is recognized in the text itself: all types but normal, unused and byte tokens. */
EITP__PRIVATE int eitp__gguf_piece_is_added(const eitp__gguf_pieces *pieces, size_t id);

/* Returns the id of the token `first` + `second`, or -1. */
EITP__PRIVATE int64_t eitp__gguf_piece_find(const eitp__gguf_pieces *pieces, eitp__gguf_text first,
                                            eitp__gguf_text second);

/* Receives a way to split a token into two tokens, `left` bytes and the rest, by their numbers of characters. */
typedef int (*eitp__gguf_split_sink)(void *user, size_t id, size_t left, size_t left_characters,
                                     size_t right_characters);

/* Finds all splits of a token into two tokens, in time linear in its size. Returns 0 if `sink` does. */
EITP__PRIVATE int eitp__gguf_piece_splits(const eitp__gguf_pieces *pieces, size_t id, eitp__gguf_split_sink sink,
                                          void *user);

/* Returns the number of bytes of a text to show in a message. */
EITP__PRIVATE int eitp__gguf_shown(eitp__gguf_text text);

#endif
