/* State of loading a tokenizer: its vocabulary by text, its merges, its added and special tokens. */
#ifndef EITP_LOADER_H
#define EITP_LOADER_H

#include "base/json.h"
#include "text/special_tokens.h"
#include "text/tokenizer.h"

/* Maximum size of a tokenizer's file, in bytes. */
#define EITP__TOKENIZER_FILE_LIMIT ((size_t)67108864)

typedef struct eitp__loader {
    const eitp_host *host;
    const eitp__special_files *files;
    int model;                 /* EITP__MODEL_BPE, ... */
    eitp_tokenizer *tokenizer; /* NULL until eitp__load_vocabulary */
    uint32_t *slots;           /* vocabulary by text, open addressing: id + 1, or 0 if the slot is free */
    size_t slot_count;         /* a power of two */
    eitp__buffer bytes;        /* bytes of the current token */
    eitp__buffer right_bytes;  /* bytes of the right token of the current merge */
} eitp__loader;

EITP__PRIVATE void eitp__loader_init(eitp__loader *loader, const eitp_host *host, const eitp__special_files *files);

/* Stores the tokenizer in *out if `status` is EITP_OK, releases everything else, and returns `status`. */
EITP__PRIVATE eitp_status eitp__loader_finish(eitp__loader *loader, eitp_status status, eitp_tokenizer **out);

/* Returns the number of bytes, of a string of `size` bytes from a file, to show in a message. */
EITP__PRIVATE int eitp__excerpt_size(size_t size);

/* True if a value is missing or null. */
EITP__PRIVATE int eitp__is_absent(const eitp_json *value);

/* True if a value is the string `text`. */
EITP__PRIVATE int eitp__text_equals(const eitp_json *value, const char *text);

/* Reads the type of an element of the part called `name`. Fails if it has none. */
EITP__PRIVATE eitp_status eitp__element_type(const eitp_json *part, const char *name, const char **type,
                                             eitp_error *error);

/* Checks that a "Replace" of the part called `name` replaces `from` with `to`. */
EITP__PRIVATE eitp_status eitp__check_replace(const eitp_json *part, const char *name, const char *from, const char *to,
                                              eitp_error *error);

/* Reads a boolean, which may be `required`, like the library `tokenizers`. */
EITP__PRIVATE eitp_status eitp__load_flag(const eitp_json *part, const char *name, int required, int *value,
                                          eitp_error *error);

/* Returns the name of EITP__MODEL_BPE, ... in messages. */
EITP__PRIVATE const char *eitp__model_name(int model);

/* Decodes a token from the alphabet that files use for bytes. Returns EITP__TOKEN_VERBATIM if a character is not in
   that alphabet; the bytes of the token are then its own UTF-8. Otherwise returns 0. */
EITP__PRIVATE unsigned eitp__decode_spelling(eitp__buffer *bytes, const char *text, size_t size);

/* Decodes a token as the loader's model spells it: only byte-level BPE uses that alphabet. */
EITP__PRIVATE unsigned eitp__load_spelling(eitp__loader *loader, const char *text, size_t size);

/* Returns the slot of the token with these bytes and kind (0 or EITP__TOKEN_VERBATIM), or the free slot for it. */
EITP__PRIVATE uint32_t *eitp__loader_slot(eitp__loader *loader, const void *bytes, size_t size, unsigned verbatim);

/* Creates loader->tokenizer for `count` tokens of the model and ids below `id_count`. */
EITP__PRIVATE eitp_status eitp__load_begin(eitp__loader *loader, size_t count, size_t id_count, size_t merge_count,
                                           eitp_error *error);

/* Sets token `id` of a vocabulary of `count` tokens, from `line` of its file. */
EITP__PRIVATE eitp_status eitp__load_token(eitp__loader *loader, const char *text, size_t size, size_t id, size_t line,
                                           eitp_error *error);

/* Creates loader->tokenizer with the tokens of `vocabulary`, an object that maps strings to ids. Ids may have gaps. It
   has room for at least ids below `added_ids`. */
EITP__PRIVATE eitp_status eitp__load_vocabulary(eitp__loader *loader, const eitp_json *vocabulary, size_t added_ids,
                                                size_t merge_count, eitp_error *error);

/* Returns the id of a token of the model's vocabulary, or -1. */
EITP__PRIVATE int64_t eitp__load_find(eitp__loader *loader, const char *text, size_t size);

/* Makes a token added and special. Returns 0 if the vocabulary lacks it. */
EITP__PRIVATE int eitp__load_mark_special(eitp__loader *loader, const char *text, size_t size);

/* Adds merge number `rank`, from `line` of its file. */
EITP__PRIVATE eitp_status eitp__load_merge(eitp__loader *loader, size_t rank, size_t line, const char *left,
                                           size_t left_size, const char *right, size_t right_size, eitp_error *error);

/* Returns the number of ids up to the largest one of added tokens. `added`, the array of tokenizer.json, may be NULL,
   here and below. */
EITP__PRIVATE size_t eitp__count_added_ids(const eitp_json *added);

/* Loads added tokens. `next`, the number of tokens in the model's vocabulary, is the id of the first added token that
   is not in it. */
EITP__PRIVATE eitp_status eitp__load_added_tokens(eitp__loader *loader, const eitp_json *added, size_t next,
                                                  eitp_error *error);

/* Finds the type of a part of tokenizer.json, or NULL if it is missing or null. Fails for any type except `type`, which
   may be NULL. */
EITP__PRIVATE eitp_status eitp__part_type(const eitp_json *root, const char *name, const char *type, const char **found,
                                          eitp_error *error);

/* Reads the normalizer of a tokenizer.json. */
EITP__PRIVATE eitp_status eitp__load_normalizer(eitp_tokenizer *tokenizer, const eitp_json *root, eitp_error *error);

/* Checks the members common to all kinds of BPE, and reads ignore_merges of the model. */
EITP__PRIVATE eitp_status eitp__check_bpe(const eitp_json *model, int *ignores_merges, eitp_error *error);

/* Reads unk_token and fuse_unk of BPE. Unless `is_needed`, the vocabulary may lack the token. */
EITP__PRIVATE eitp_status eitp__load_unknown_symbol(eitp__loader *loader, const eitp_json *model, int is_needed,
                                                    eitp_error *error);

/* Reads the merges of a tokenizer.json. */
EITP__PRIVATE eitp_status eitp__load_json_merges(eitp__loader *loader, const eitp_json *merges, eitp_error *error);

/* Loads BPE with byte_fallback from a tokenizer.json, with its other parts. */
EITP__PRIVATE eitp_status eitp__load_byte_fallback(eitp__loader *loader, const eitp_json *root, size_t added_ids,
                                                   eitp_error *error);

/* Load settings of WordPiece from its own files and from tokenizer_config.json: the normalization of text, and the
   token of unknown words (with byte fallback, of unknown characters). */
EITP__PRIVATE eitp_status eitp__load_normalization(eitp__loader *loader, eitp_error *error);
EITP__PRIVATE eitp_status eitp__load_unknown(eitp__loader *loader, const char *text, size_t size, eitp_error *error);

/* Sets loader->tokenizer's templates from a "post_processor" of tokenizer.json, and keeps the part. */
EITP__PRIVATE eitp_status eitp__load_post_processor(eitp__loader *loader, const eitp_json *part, eitp_error *error);

/* Sets the templates of BERT or RoBERTa, with the special tokens `begin` and `end`. */
EITP__PRIVATE void eitp__set_template(eitp_tokenizer *tokenizer, int family, int32_t begin, int32_t end);

/* Sets the templates of tokenizer->family, with the special tokens before and after a text, and tokenizer.json's
   post-processor for them. */
EITP__PRIVATE eitp_status eitp__make_template(eitp_tokenizer *tokenizer, const int32_t ids[2], int add_prefix_space,
                                              eitp_error *error);

/* Reads "truncation" and "padding" of tokenizer.json (`root`, or NULL), and their settings in tokenizer_config.json. */
EITP__PRIVATE eitp_status eitp__load_defaults(eitp__loader *loader, const eitp_json *root, eitp_error *error);

/* Completes the tokenizer with special tokens and add_prefix_space from loader->files. */
EITP__PRIVATE eitp_status eitp__load_special_tokens(eitp__loader *loader, eitp_error *error);

/* Returns the text of a special token: the one that a file names, or the usual one of the family. NULL if a file has
   null. */
EITP__PRIVATE const char *eitp__special_text(const eitp__loader *loader, int family, eitp_special_token which,
                                             size_t *size);

/* Marks the special tokens of a family in a vocabulary without a tokenizer.json, and sets its template. */
EITP__PRIVATE eitp_status eitp__load_family(eitp__loader *loader, int family, eitp_error *error);

/* Loads a vocab.txt, and the settings in `files`. */
EITP__PRIVATE eitp_status eitp__load_vocab_txt(const eitp_host *host, const char *path,
                                               const eitp__special_files *files, eitp_tokenizer **out,
                                               eitp_error *error);

/* Loads a tokenizer.json, and special tokens from `files`. */
EITP__PRIVATE eitp_status eitp__load_tokenizer_json(const eitp_host *host, const char *path,
                                                    const eitp__special_files *files, eitp_tokenizer **out,
                                                    eitp_error *error);

#endif
