/* WordPiece (Schuster, Nakajima, "Japanese and Korean Voice Search", ICASSP 2012), as used by BERT (Devlin, Chang, Lee,
   Toutanova, "BERT", NAACL 2019): the longest token at the start of a word, then repeatedly the longest one that
   continues it. */
#ifndef EITP_WORDPIECE_H
#define EITP_WORDPIECE_H

#include "base/memory.h"
#include "base/status.h"

typedef struct eitp__wordpiece {
    uint64_t *slots;    /* a trie of the tokens' bytes, open addressing: node << 36 | byte << 28 | child; 0 if free */
    size_t slot_count;  /* a power of two */
    int32_t *token_ids; /* by node: the token that ends there, or -1 */
    size_t node_count, node_capacity;
    int64_t continuing;      /* node of the prefix of tokens that continue a word; -1: no token has it */
    int32_t unknown;         /* token of words that are not in the vocabulary */
    uint64_t max_characters; /* maximum length of a word; longer words are unknown */
    eitp__buffer prefix;     /* prefix of tokens that continue a word: "##" */
} eitp__wordpiece;

EITP__PRIVATE void eitp__wordpiece_init(eitp__wordpiece *wordpiece, const eitp_host *host);
EITP__PRIVATE void eitp__wordpiece_release(eitp__wordpiece *wordpiece, const eitp_host *host);

/* Adds the text of a token. */
EITP__PRIVATE eitp_status eitp__wordpiece_add(eitp__wordpiece *wordpiece, const eitp_host *host,
                                              const unsigned char *text, size_t size, int32_t id, eitp_error *error);

/* Finds the tokens that continue a word. Call it after all tokens are added. */
EITP__PRIVATE eitp_status eitp__wordpiece_complete(eitp__wordpiece *wordpiece, const eitp_host *host,
                                                   eitp_error *error);

/* Encodes a word of at least 1 byte. `ids` has room for `size` ids. Returns the number of ids. */
EITP__PRIVATE size_t eitp__wordpiece_encode(const eitp__wordpiece *wordpiece, const unsigned char *word, size_t size,
                                            int32_t *ids);

/* True for the text of a token that continues a word: it has the prefix. */
EITP__PRIVATE int eitp__wordpiece_continues(const eitp__wordpiece *wordpiece, const void *text, size_t size);

/* Like eitp__piece_size, with the pieces of BERT's pre-tokenizer: white space, a punctuation character, or the
   characters up to the next of either. */
EITP__PRIVATE size_t eitp__word_size(const unsigned char *text, size_t size, int closed);

/* True if a piece of eitp__word_size is white space, which has no tokens. */
EITP__PRIVATE int eitp__is_space_piece(const unsigned char *text, size_t size);

#endif
