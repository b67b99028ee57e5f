/*
 * Byte-pair encoding of characters with U+2581 for spaces, as trained by SentencePiece (Kudo, Richardson,
 * "SentencePiece", EMNLP 2018) and stored in the tokenizer.json of Llama 2, Mistral and Gemma. A character that is not
 * in the vocabulary becomes the tokens <0x00> to <0xFF> of its bytes.
 */
#ifndef EITP_BYTE_FALLBACK_H
#define EITP_BYTE_FALLBACK_H

#include "base/memory.h"
#include "base/status.h"
#include "text/bpe.h"
#include "text/pretokenize.h"

/* Steps of the decoder of a tokenizer.json, in the order in which they are applied. */
enum {
    EITP__DECODE_SEPARATED = 1,  /* without a decoder: a space between tokens */
    EITP__DECODE_SPACES = 2,     /* U+2581 becomes a space */
    EITP__DECODE_DROP_FIRST = 4, /* U+2581 in the first token is dropped instead */
    EITP__DECODE_BYTES = 8,      /* a run of byte tokens becomes its characters, or U+FFFD for each byte */
    EITP__DECODE_STRIP = 16      /* one space at the start of the text is dropped */
};

typedef struct eitp__character_id {
    uint32_t code_point;
    int32_t id; /* -1 if the slot is free */
} eitp__character_id;

typedef struct eitp__byte_fallback {
    eitp__character_id *characters; /* tokens of one character, open addressing */
    size_t character_slots;         /* a power of two */
    int knows_all;                  /* each byte has a token */
    int drops_unknown;              /* no unknown token: characters whose bytes have no tokens are dropped */
    int splits;                     /* a piece starts at each space */
    unsigned decoding;              /* EITP__DECODE_... */
    uint64_t *junctions;            /* hashes of character pairs that a merge may join; NULL: pieces are not cut */
    size_t junction_bits;           /* a power of two */
} eitp__byte_fallback;

EITP__PRIVATE void eitp__byte_fallback_release(eitp__byte_fallback *fallback, const eitp_host *host);

/* Text of a token. */
typedef struct eitp__token_text {
    const unsigned char *bytes;
    size_t size;
} eitp__token_text;

/* Returns the text of a token of the model. The size is 0 if the model lacks the token. */
typedef eitp__token_text (*eitp__token_reader)(const void *user, size_t id);

/*
 * Indexes the `count` tokens of a model by their characters and bytes, and finds where text may be cut: between two
 * characters that no merge joins, unless pieces must be whole (`is_whole`). bpe->unknown must be set.
 * EITP_ERROR_UNSUPPORTED if the vocabulary lacks U+2581.
 */
EITP__PRIVATE eitp_status eitp__byte_fallback_index(eitp__byte_fallback *fallback, eitp__bpe *bpe,
                                                    const eitp_host *host, eitp__token_reader read, const void *user,
                                                    size_t count, int is_whole, eitp_error *error);

/* Returns the length of the first piece of text[0 .. size) (an eitp__context_rule). `fallback` is an
   eitp__byte_fallback. */
EITP__PRIVATE size_t eitp__byte_fallback_piece(const void *fallback, const unsigned char *text, size_t size,
                                               int closed);

/* Stores the tokens of the characters of a valid piece, without merging them, and returns their number. `ids` has room
   for `size` ids. Spaces are U+2581. */
EITP__PRIVATE size_t eitp__byte_fallback_symbols(const eitp__byte_fallback *fallback, const eitp__bpe *bpe,
                                                 const unsigned char *text, size_t size, int32_t *ids);

/* Returns the number of bytes in a valid piece whose characters have neither a token nor a token for each of their
   bytes. */
EITP__PRIVATE size_t eitp__byte_fallback_unknown(const eitp__byte_fallback *fallback, const eitp__bpe *bpe,
                                                 const unsigned char *text, size_t size);

/* Returns the byte of a token <0x00> to <0xFF> as the decoder reads it, or -1 for another token. */
EITP__PRIVATE int eitp__byte_of_token(const unsigned char *text, size_t size);

#endif
