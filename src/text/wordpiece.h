/* WordPiece (Schuster, Nakajima, "Japanese and Korean Voice Search", ICASSP 2012), as BERT applies it (Devlin, Chang,
   Lee, Toutanova, "BERT", NAACL 2019): the longest token that a word begins with, then the longest one that goes on. */
#ifndef EITP_WORDPIECE_H
#define EITP_WORDPIECE_H

#include "base/memory.h"
#include "base/status.h"

typedef struct eitp__wordpiece {
    uint64_t *slots;    /* a trie of the tokens' bytes, open addressing: node << 36 | byte << 28 | child; 0 if free */
    size_t slot_count;  /* a power of two */
    int32_t *token_ids; /* by node: the token that ends there, or -1 */
    size_t node_count, node_capacity;
    int64_t continuing;      /* the node of the prefix of tokens that go on with a word; -1: no token has it */
    int32_t unknown;         /* the token of words that are not in the vocabulary */
    uint64_t max_characters; /* of a word; a longer one is unknown */
    eitp__buffer prefix;     /* of tokens that go on with a word: "##" */
} eitp__wordpiece;

EITP__PRIVATE void eitp__wordpiece_init(eitp__wordpiece *wordpiece, const eitp_host *host);
EITP__PRIVATE void eitp__wordpiece_release(eitp__wordpiece *wordpiece, const eitp_host *host);

/* Adds the text of a token. */
EITP__PRIVATE eitp_status eitp__wordpiece_add(eitp__wordpiece *wordpiece, const eitp_host *host,
                                              const unsigned char *text, size_t size, int32_t id, eitp_error *error);

/* Once all tokens are added: finds those that go on with a word. */
EITP__PRIVATE eitp_status eitp__wordpiece_complete(eitp__wordpiece *wordpiece, const eitp_host *host,
                                                   eitp_error *error);

/* Encodes a word of at least 1 byte; `ids` has room for `size` ids. Returns their number. */
EITP__PRIVATE size_t eitp__wordpiece_encode(const eitp__wordpiece *wordpiece, const unsigned char *word, size_t size,
                                            int32_t *ids);

/* True for the text of a token that goes on with a word: it has the prefix. */
EITP__PRIVATE int eitp__wordpiece_continues(const eitp__wordpiece *wordpiece, const void *text, size_t size);

/* Length of the first piece of text[0 .. size) as BERT's pre-tokenizer cuts it: white space, a punctuation character,
   or the characters up to the next of either. As eitp__piece_size. */
EITP__PRIVATE size_t eitp__word_size(const unsigned char *text, size_t size, int closed);

/* True if a piece of eitp__word_size is white space, which has no tokens. */
EITP__PRIVATE int eitp__is_space_piece(const unsigned char *text, size_t size);

#endif
