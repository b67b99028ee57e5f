/* What a tokenizer is made of, and how it is put together. */
#ifndef EITP_TOKENIZER_H
#define EITP_TOKENIZER_H

#include "base/memory.h"
#include "base/status.h"
#include "text/bpe.h"
#include "text/pretokenize.h"
#include "text/text.h"

#define EITP__END_OF_TEXT "<|endoftext|>"

/* The largest vocabulary that is taken. */
#define EITP__VOCABULARY_LIMIT ((size_t)16777216)

enum {
    EITP__TOKEN_PRESENT = 1,     /* has been given: only while it is put together */
    EITP__TOKEN_VERBATIM = 2,    /* files spell it as it is, not in the alphabet of bytes */
    EITP__TOKEN_ADDED = 4,       /* found in the text as it stands, before the pattern */
    EITP__TOKEN_SPECIAL = 8,     /* an added token that is no text */
    EITP__TOKEN_NORMALIZED = 16, /* a flag of added tokens that files keep; without a normalizer it changes nothing */
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
    int32_t special[EITP_SPECIAL_TOKEN_COUNT]; /* ids; -1: none */
    eitp__buffer config;                       /* members of tokenizer_config.json that are kept */
    uint64_t fingerprint;
};

/* A tokenizer whose vocabulary has room for `count` tokens, none of them given, and for `merge_count` merges; destroy
   it with eitp_tokenizer_destroy. NULL where memory runs out, with *error filled in. */
EITP__PRIVATE eitp_tokenizer *eitp__tokenizer_begin(const eitp_host *host, size_t count, size_t merge_count,
                                                    eitp_error *error);

/* Gives token `id`, which must be in the vocabulary and not given yet. */
EITP__PRIVATE eitp_status eitp__tokenizer_put(eitp_tokenizer *tokenizer, size_t id, const void *bytes, size_t size,
                                              unsigned flags, eitp_error *error);

/* Once tokens and merges are there: checks that every byte has a token, and makes all the rest. Special tokens are
   GPT-2's. */
EITP__PRIVATE eitp_status eitp__tokenizer_complete(eitp_tokenizer *tokenizer, eitp_error *error);

EITP__PRIVATE const unsigned char *eitp__token_bytes(const eitp_tokenizer *tokenizer, size_t id);

/* eitp_tokenizer_load for the content of a tokenizer.json. */
EITP__PRIVATE eitp_status eitp__tokenizer_parse(const eitp_host *host, const char *json, size_t size,
                                                eitp_tokenizer **out, eitp_error *error);

#endif
