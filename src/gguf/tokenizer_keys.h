/* The tokenizer of a GGUF file: its tokens, special tokens and settings. */
#ifndef EITP_GGUF_TOKENIZER_KEYS_H
#define EITP_GGUF_TOKENIZER_KEYS_H

#include "gguf/tokenizer_pieces.h"

/* Patterns for the words of byte-level BPE. */
typedef enum eitp__gguf_words {
    EITP__GGUF_WORDS_GPT2,   /* ByteLevel's own pattern */
    EITP__GGUF_WORDS_DIGITS, /* single digits, then GPT-2's pattern */
    EITP__GGUF_WORDS_QWEN2,  /* Qwen2's pattern */
    EITP__GGUF_WORDS_LLAMA3  /* Llama 3's pattern */
} eitp__gguf_words;

/* Kinds of models that read text in both directions. Their mask takes the white space before it. */
enum {
    EITP__GGUF_BERT = 1,   /* [CLS] and [SEP], nothing else, are around a text */
    EITP__GGUF_ROBERTA = 2 /* a pair has two separators between its parts */
};

/* A value of tokenizer.ggml.pre. It stands for parts of the original tokenizer that no other key states. */
typedef struct eitp__gguf_pre {
    const char *name;
    eitp__gguf_words words;
    unsigned char is_nfc;         /* text is normalized to NFC */
    unsigned char ignores_merges; /* a word that is a token is not merged */
    unsigned char adds_begin;     /* add_bos_token if it is missing */
    unsigned char encoder;        /* EITP__GGUF_BERT, ... */
} eitp__gguf_pre;

/* Special tokens by their roles. */
typedef enum eitp__gguf_role {
    EITP__GGUF_BEGIN,
    EITP__GGUF_END,
    EITP__GGUF_UNKNOWN_TOKEN,
    EITP__GGUF_PADDING,
    EITP__GGUF_SEPARATOR,
    EITP__GGUF_CLASSIFIER,
    EITP__GGUF_MASK,
    EITP__GGUF_ROLES
} eitp__gguf_role;

typedef struct eitp__gguf_tokenizer {
    const eitp__gguf *gguf;
    eitp__gguf_vocabulary kind;
    eitp__gguf_pre pre;  /* byte-level BPE only */
    const char *assumed; /* the name of `pre` if the file does not state it, else NULL */
    eitp__gguf_pieces pieces;
    int64_t ids[EITP__GGUF_ROLES]; /* -1: none */
    int adds_begin, adds_end, adds_separator;
    int adds_space; /* before the text */
    int lowercases;
    int strips_accents; /* WordPiece only */
} eitp__gguf_tokenizer;

/*
 * Reads the tokenizer. Defaults are llama.cpp's, but byte-level BPE has no default for bos_token and eos_token.
 * Unknown values of tokenizer.ggml.model and tokenizer.ggml.pre, and settings that change the ids in a way that
 * tokenizer.json cannot express, are EITP_ERROR_UNSUPPORTED. Release it even after a failure.
 */
EITP__PRIVATE eitp_status eitp__gguf_tokenizer_read(const eitp__gguf *gguf, eitp__gguf_tokenizer *tokenizer,
                                                    eitp_error *error);
EITP__PRIVATE void eitp__gguf_tokenizer_release(eitp__gguf_tokenizer *tokenizer);

/* Logs warnings of guesses in place of missing keys. */
EITP__PRIVATE void eitp__gguf_tokenizer_warn(const eitp__gguf_tokenizer *tokenizer);

/* Returns the member of tokenizer_config.json that names a special token: "bos_token", ... */
EITP__PRIVATE const char *eitp__gguf_role_name(eitp__gguf_role role);

/* Returns the text of a special token, which must have an id. */
EITP__PRIVATE eitp__gguf_text eitp__gguf_role_text(const eitp__gguf_tokenizer *tokenizer, eitp__gguf_role role);

/* True if the file has a tokenizer, supported or not. */
EITP__PRIVATE int eitp__gguf_has_tokenizer(const eitp__gguf *gguf);

#endif
