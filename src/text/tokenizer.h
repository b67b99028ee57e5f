/* The parts of a tokenizer, and its construction. */
#ifndef EITP_TOKENIZER_H
#define EITP_TOKENIZER_H

#include "base/memory.h"
#include "base/status.h"
#include "text/bpe.h"
#include "text/byte_fallback.h"
#include "text/normalize.h"
#include "text/pretokenize.h"
#include "text/split.h"
#include "text/template.h"
#include "text/text.h"
#include "text/wordpiece.h"

#define EITP__END_OF_TEXT "<|endoftext|>"

/* Maximum number of tokens, and of merges. */
#define EITP__VOCABULARY_LIMIT ((size_t)16777216)

enum {
    EITP__TOKEN_PRESENT = 1,       /* set by eitp__tokenizer_set_token */
    EITP__TOKEN_VERBATIM = 2,      /* files spell it literally, not in the alphabet for bytes */
    EITP__TOKEN_ADDED = 4,         /* recognized in the text itself, before the pattern */
    EITP__TOKEN_SPECIAL = 8,       /* an added token with a role, such as <|endoftext|> */
    EITP__TOKEN_NORMALIZED = 16,   /* an added token that is recognized in normalized text */
    EITP__TOKEN_NOT_IN_MODEL = 32, /* an added token that is not in the model's vocabulary */
    EITP__TOKEN_TAKES_LEFT = 64,   /* white space before the added token belongs to it */
    EITP__TOKEN_TAKES_RIGHT = 128,
    EITP__TOKEN_WORD = 256 /* an added token that is recognized only if no word character is adjacent */
};

/* Models, which turn pieces of text into tokens. */
enum { EITP__MODEL_BPE = 0, EITP__MODEL_WORDPIECE = 1, EITP__MODEL_BYTE_FALLBACK = 2 };

/* Families with their own names of special tokens. */
enum {
    EITP__FAMILY_GPT2 = 0,
    EITP__FAMILY_BERT = 1,
    EITP__FAMILY_ROBERTA = 2,
    EITP__FAMILY_LLAMA = 3,
    EITP__FAMILY_GEMMA = 4
};

/* Added tokens are recognized in the text itself or, after normalization, between those. */
enum { EITP__ADDED_RAW = 0, EITP__ADDED_NORMALIZED = 1 };

/* Parts of a tokenizer.json that are saved unchanged, in this order; see eitp__preserved_part_name. */
enum {
    EITP__KEPT_TRUNCATION,
    EITP__KEPT_PADDING,
    EITP__KEPT_PRE_TOKENIZER,
    EITP__KEPT_POST_PROCESSOR,
    EITP__KEPT_DECODER,
    EITP__KEPT_PARTS
};

typedef struct eitp__token {
    uint32_t offset, size; /* position of its bytes in eitp__vocabulary.bytes */
    uint16_t flags;
} eitp__token;

typedef struct eitp__vocabulary {
    eitp__buffer bytes;
    eitp__token *tokens; /* by id */
    size_t count;
} eitp__vocabulary;

struct eitp_tokenizer {
    eitp_host host;
    eitp__vocabulary vocabulary;
    int model;                    /* EITP__MODEL_BPE, ... */
    int family;                   /* EITP__FAMILY_GPT2, ... */
    int is_from_vocabulary_files; /* not from tokenizer.json, whose settings the family implies then */
    eitp__bpe bpe;
    eitp__wordpiece wordpiece;
    eitp__byte_fallback fallback;
    eitp__split split;  /* for byte-level BPE */
    int ignores_merges; /* a piece that is a token is encoded as that token, without merges */
    uint32_t *whole;    /* with ignores_merges: tokens by text, open addressing: id + 1, or 0 if the slot is free */
    size_t whole_count; /* a power of two */
    int has_normalizer;
    eitp__normalization normalization;
    eitp__added_tokens added[2];  /* EITP__ADDED_RAW, EITP__ADDED_NORMALIZED */
    eitp__buffer added_text;      /* text of the latter, normalized */
    int add_prefix_space;         /* EITP__PREFIX_... */
    int decodes_words, cleans_up; /* WordPiece's decoder: joins words, and removes spaces before punctuation */
    eitp__template single, pair;  /* sequences of one text, and of two */
    eitp_sequence_defaults defaults;
    eitp__buffer kept[EITP__KEPT_PARTS];       /* JSON; empty: null, or implied by the model */
    int32_t special[EITP_SPECIAL_TOKEN_COUNT]; /* ids by eitp_special_token; -1: none */
    eitp__buffer config;                       /* members of tokenizer_config.json kept for saving */
    eitp__buffer chat_template;                /* empty: none */
    int has_template_file;                     /* it is saved as a separate file */
    uint64_t fingerprint;
};

/* Allocates a tokenizer for `count` tokens and `merge_count` merges, none of them set. Returns NULL, with *error filled
   in, if out of memory. Release it with eitp_tokenizer_destroy. */
EITP__PRIVATE eitp_tokenizer *eitp__tokenizer_allocate(const eitp_host *host, size_t count, size_t merge_count,
                                                       eitp_error *error);

/* Sets token `id`, which must be below `count` and not set yet. */
EITP__PRIVATE eitp_status eitp__tokenizer_set_token(eitp_tokenizer *tokenizer, size_t id, const void *bytes,
                                                    size_t size, unsigned flags, eitp_error *error);

/* Completes a tokenizer whose tokens and merges are all set: checks that spaces or unknown words have a token, and
   builds the indexes. Special tokens are the family's. */
EITP__PRIVATE eitp_status eitp__tokenizer_complete(eitp_tokenizer *tokenizer, eitp_error *error);

/* Writes `"normalizer":...,\n` of a tokenizer.json. */
EITP__PRIVATE void eitp__write_normalizer(const eitp_tokenizer *tokenizer, eitp__buffer *out);

/* Returns the name of a part of a tokenizer.json that is kept. */
EITP__PRIVATE const char *eitp__preserved_part_name(int part);

EITP__PRIVATE const unsigned char *eitp__token_bytes(const eitp_tokenizer *tokenizer, size_t id);

/* Adds the spelling of a token in files to `spelling`. */
EITP__PRIVATE void eitp__spell_token(const eitp_tokenizer *tokenizer, size_t id, eitp__buffer *spelling);

/* Returns the byte that a token <0x00> to <0xFF> decodes to, or -1 for another token. */
EITP__PRIVATE int eitp__token_byte(const eitp_tokenizer *tokenizer, int32_t id);

/* With ignores_merges: indexes the tokens by their text; returns the token of a text, or -1. */
EITP__PRIVATE eitp_status eitp__whole_tokens_index(eitp_tokenizer *tokenizer, eitp_error *error);
EITP__PRIVATE int32_t eitp__whole_token_find(const eitp_tokenizer *tokenizer, const unsigned char *bytes, size_t size);

/* Creates an encoder with a cache of `cache_count` pieces, a power of two. */
EITP__PRIVATE eitp_status eitp__encoder_allocate(const eitp_tokenizer *tokenizer, size_t cache_count,
                                                 eitp_token_sink sink, void *user, eitp_encoder **out,
                                                 eitp_error *error);

/* Adds a space before each text from now on, in byte-level BPE. */
EITP__PRIVATE void eitp__encoder_add_spaces(eitp_encoder *encoder);

/* Like eitp_tokenizer_encode. Also stores the count of eitp_encoder_unknown_bytes in *unknown_bytes. */
EITP__PRIVATE eitp_status eitp__encode_text(const eitp_tokenizer *tokenizer, const char *text, size_t size,
                                            int32_t *ids, size_t capacity, size_t *count, uint64_t *unknown_bytes,
                                            eitp_error *error);

/* Returns the number of pieces to cache for a text of this size. */
EITP__PRIVATE size_t eitp__cache_size(size_t text_size);

/* Loads a tokenizer from the content of a tokenizer.json. */
EITP__PRIVATE eitp_status eitp__tokenizer_parse(const eitp_host *host, const char *json, size_t size,
                                                eitp_tokenizer **out, eitp_error *error);

#endif
