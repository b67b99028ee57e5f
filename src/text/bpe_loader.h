/* A tokenizer while it is loaded: its vocabulary by text, its merges, its added and special tokens. */
#ifndef EITP_BPE_LOADER_H
#define EITP_BPE_LOADER_H

#include "base/json.h"
#include "text/special_tokens.h"
#include "text/tokenizer.h"

/* Largest size of a tokenizer's file, in bytes. */
#define EITP__TOKENIZER_FILE_LIMIT ((size_t)67108864)

typedef struct eitp__loader {
    const eitp_host *host;
    const eitp__special_files *files;
    eitp_tokenizer *tokenizer; /* NULL until eitp__load_vocabulary */
    uint32_t *slots;           /* vocabulary by text, open addressing: id + 1, or 0 if the slot is free */
    size_t slot_count;         /* a power of two */
    eitp__buffer bytes;        /* of the current token */
    eitp__buffer right_bytes;  /* of the right token of the current merge */
} eitp__loader;

EITP__PRIVATE void eitp__loader_init(eitp__loader *loader, const eitp_host *host, const eitp__special_files *files);

/* Stores the tokenizer in *out if `status` is EITP_OK, releases everything else, and returns `status`. */
EITP__PRIVATE eitp_status eitp__loader_finish(eitp__loader *loader, eitp_status status, eitp_tokenizer **out);

/* Number of bytes of a text of `size` bytes from a file to show in a message. */
EITP__PRIVATE int eitp__excerpt_size(size_t size);

/* True if a value is missing or null. */
EITP__PRIVATE int eitp__is_absent(const eitp__json *value);

/* Decodes a token as files spell it. Returns EITP__TOKEN_VERBATIM if a character is not in the alphabet for bytes: then
   the bytes of the token are its own UTF-8. Else returns 0. */
EITP__PRIVATE unsigned eitp__decode_spelling(eitp__buffer *bytes, const char *text, size_t size);

/* The slot of the token with these bytes and kind (0 or EITP__TOKEN_VERBATIM), or the free slot for it. */
EITP__PRIVATE uint32_t *eitp__loader_slot(eitp__loader *loader, const void *bytes, size_t size, unsigned verbatim);

/* Creates loader->tokenizer with the tokens of `vocabulary`, an object of texts and ids, and room for `outside`
   more. */
EITP__PRIVATE eitp_status eitp__load_vocabulary(eitp__loader *loader, const eitp__json *vocabulary, size_t outside,
                                                size_t merge_count, eitp_error *error);

/* Adds merge number `rank`, from `line` of its file. */
EITP__PRIVATE eitp_status eitp__load_merge(eitp__loader *loader, size_t rank, size_t line, const char *left,
                                           size_t left_size, const char *right, size_t right_size, eitp_error *error);

/* Number of added tokens with ids beyond the model's vocabulary of `count` tokens. `added`, the array of
   tokenizer.json, may be NULL, here and below. */
EITP__PRIVATE size_t eitp__count_added_outside(const eitp__json *added, size_t count);

/* Loads added tokens; `next` is the id of the first one that is not in the model's vocabulary. */
EITP__PRIVATE eitp_status eitp__load_added_tokens(eitp__loader *loader, const eitp__json *added, size_t next,
                                                  eitp_error *error);

/* Checks that normalized and other added tokens cannot overlap in a text. The library `tokenizers` searches for those
   that are not normalized first, then for the others in the rest; without overlaps a single search finds the same. */
EITP__PRIVATE eitp_status eitp__check_added_overlaps(const eitp_tokenizer *tokenizer, eitp_error *error);

/* Completes the tokenizer with special tokens and add_prefix_space, as loader->files say. */
EITP__PRIVATE eitp_status eitp__load_special_tokens(eitp__loader *loader, eitp_error *error);

/* Loads a tokenizer.json, and special tokens from `files`. */
EITP__PRIVATE eitp_status eitp__load_tokenizer_json(const eitp_host *host, const char *path,
                                                    const eitp__special_files *files, eitp_tokenizer **out,
                                                    eitp_error *error);

#endif
