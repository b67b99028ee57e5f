/* The parts of a tokenizer, and how it is built. */
#ifndef EITP_TOKENIZER_H
#define EITP_TOKENIZER_H

#include "base/memory.h"
#include "base/status.h"
#include "text/bpe.h"
#include "text/pretokenize.h"
#include "text/text.h"

#define EITP__END_OF_TEXT "<|endoftext|>"

/* Largest number of tokens, and of merges. */
#define EITP__VOCABULARY_LIMIT ((size_t)16777216)

enum {
    EITP__TOKEN_PRESENT = 1,     /* set by eitp__tokenizer_set_token */
    EITP__TOKEN_VERBATIM = 2,    /* files spell it literally, not in the alphabet for bytes */
    EITP__TOKEN_ADDED = 4,       /* recognized in the text itself, before the pattern */
    EITP__TOKEN_SPECIAL = 8,     /* an added token with a role, such as <|endoftext|> */
    EITP__TOKEN_NORMALIZED = 16, /* a flag of added tokens in files; no effect without a normalizer */
    EITP__TOKEN_OUTSIDE = 32     /* an added token that is not in the model's vocabulary */
};

typedef struct eitp__token {
    uint32_t offset, size; /* its bytes in eitp__vocabulary.bytes */
    unsigned char flags;
} eitp__token;

typedef struct eitp__vocabulary {
    eitp__buffer bytes;
    eitp__token *tokens; /* by id */
    size_t count;
} eitp__vocabulary;

struct eitp_tokenizer {
    eitp_host host;
    eitp__vocabulary vocabulary;
    eitp__bpe bpe;
    eitp__added_token *added;
    size_t added_count;
    int add_prefix_space;
    int32_t special[EITP_SPECIAL_TOKEN_COUNT]; /* ids by eitp_special_token; -1: none */
    eitp__buffer config;                       /* members of tokenizer_config.json kept for saving */
    uint64_t fingerprint;
};

/* Allocates a tokenizer for `count` tokens and `merge_count` merges, none of them set. NULL if out of memory, with
   *error filled in. Release it with eitp_tokenizer_destroy. */
EITP__PRIVATE eitp_tokenizer *eitp__tokenizer_allocate(const eitp_host *host, size_t count, size_t merge_count,
                                                       eitp_error *error);

/* Sets token `id`, which must be below `count` and not set yet. */
EITP__PRIVATE eitp_status eitp__tokenizer_set_token(eitp_tokenizer *tokenizer, size_t id, const void *bytes,
                                                    size_t size, unsigned flags, eitp_error *error);

/* Once all tokens and merges are set: checks that every byte has a token and builds the rest. Special tokens are those
   of GPT-2. */
EITP__PRIVATE eitp_status eitp__tokenizer_complete(eitp_tokenizer *tokenizer, eitp_error *error);

EITP__PRIVATE const unsigned char *eitp__token_bytes(const eitp_tokenizer *tokenizer, size_t id);

/* Loads a tokenizer from the content of a tokenizer.json. */
EITP__PRIVATE eitp_status eitp__tokenizer_parse(const eitp_host *host, const char *json, size_t size,
                                                eitp_tokenizer **out, eitp_error *error);

#endif
