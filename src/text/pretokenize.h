/* Cuts text into pieces: added tokens, and matches of a pattern between them. */
#ifndef EITP_PRETOKENIZE_H
#define EITP_PRETOKENIZE_H

#include "base/platform.h"

/* Maximum size of a piece in bytes; see eitp_tokenizer in text.h. */
#define EITP__PIECE_LIMIT ((size_t)1048576)

/* The character that stands for a space in tokens of SentencePiece, and its UTF-8. */
#define EITP__SPACE_SYMBOL 0x2581u
#define EITP__SPACE_TEXT "\xE2\x96\x81"

/* Maximum size of an added token in bytes. */
#define EITP__ADDED_TOKEN_LIMIT ((size_t)1024)

/*
 * Returns the length of the first piece of text[0 .. size) according to the pattern
 *   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * `text` is valid UTF-8 with at least one character. `closed`: no text follows. Returns 0 if more text is needed to
 * decide.
 */
EITP__PRIVATE size_t eitp__piece_size(const unsigned char *text, size_t size, int closed);

/* Like eitp__piece_size, for text that is a single piece. White space at the end is held back until the text after it
   is known, because an added token may take it. */
EITP__PRIVATE size_t eitp__whole_size(const unsigned char *text, size_t size, int closed);

/* Returns the length of valid text[0 .. size) without trailing white space. */
EITP__PRIVATE size_t eitp__size_without_space(const unsigned char *text, size_t size);

/* A token that is recognized in the text itself, before the pattern. The bytes are not owned. */
typedef struct eitp__added_token {
    const unsigned char *bytes;
    size_t size;
    int32_t id;
    unsigned char strips_left, strips_right; /* adjacent white space belongs to the token ("lstrip", "rstrip") */
    unsigned char is_word;                   /* recognized only if no word character is adjacent ("single_word") */
} eitp__added_token;

typedef struct eitp__added_tokens {
    eitp__added_token *tokens; /* sorted */
    size_t count;
} eitp__added_tokens;

/* Sorts added tokens by their bytes. */
EITP__PRIVATE void eitp__added_tokens_sort(eitp__added_tokens *added);

/* Returns the length of the first piece of a text, like eitp__piece_size. */
typedef size_t (*eitp__piece_rule)(const unsigned char *text, size_t size, int closed);

/* Like eitp__piece_rule, for a rule that also depends on the splitter's context. */
typedef size_t (*eitp__context_rule)(const void *context, const unsigned char *text, size_t size, int closed);

/* Prefix of the text between two added tokens, unless the text already starts with it. */
enum {
    EITP__PREFIX_NONE = 0,
    EITP__PREFIX_SPACE = 1, /* ByteLevel's add_prefix_space */
    EITP__PREFIX_META = 2,  /* Metaspace's prepend_scheme "always": a space, unless there is one or U+2581 */
    EITP__PREFIX_FIRST = 3  /* "first": only at the start of the whole text */
};

/* Receives one piece: a match of the rule with id -1, or an added token. The bytes are valid during the call. */
typedef eitp_status (*eitp__piece_sink)(void *user, const unsigned char *bytes, size_t size, int32_t id,
                                        eitp_error *error);

/* Cuts text that arrives in chunks. */
typedef struct eitp__splitter {
    const eitp_host *host;
    const eitp__added_tokens *added;
    eitp__piece_rule rule;
    eitp__context_rule context_rule; /* replaces `rule` unless it is NULL */
    const void *context;
    int add_prefix_space; /* EITP__PREFIX_... */
    eitp__piece_sink sink;
    void *user;
    unsigned char begins_added[256]; /* true if an added token starts with the byte */
    unsigned char *pending;          /* text not cut yet in [cursor, end), valid UTF-8; one free byte before it */
    size_t capacity, cursor, end;
    size_t scanned;           /* no added token starts in [cursor, scanned) */
    size_t min_full;          /* smallest value of `full`, at least 16 */
    size_t full;              /* the pending text is cut when it reaches this size */
    int at_segment_start;     /* the cursor is at the start of a text or after an added token */
    int at_text_start;        /* likewise, without an added token before it */
    int skips_space;          /* white space at the cursor belongs to the added token before it */
    int has_words;            /* an added token is_word */
    int follows_word;         /* has_words only: the character before the cursor is a word character */
    unsigned char partial[4]; /* an incomplete sequence at the end of the last chunk */
    size_t partial_size;
} eitp__splitter;

/* `added` must outlive the splitter. */
EITP__PRIVATE void eitp__splitter_init(eitp__splitter *splitter, const eitp_host *host, const eitp__added_tokens *added,
                                       eitp__piece_rule rule, eitp__piece_sink sink, void *user);
EITP__PRIVATE void eitp__splitter_release(eitp__splitter *splitter);

/* Discards the current text. */
EITP__PRIVATE void eitp__splitter_reset(eitp__splitter *splitter);

/* Adds valid text of whole characters. */
EITP__PRIVATE eitp_status eitp__splitter_add_valid(eitp__splitter *splitter, const unsigned char *text, size_t size,
                                                   eitp_error *error);

/* Add text; end the text. Return failures of the sink. After a failure, reset or release the splitter. */
EITP__PRIVATE eitp_status eitp__splitter_add(eitp__splitter *splitter, const unsigned char *text, size_t size,
                                             eitp_error *error);
EITP__PRIVATE eitp_status eitp__splitter_finish(eitp__splitter *splitter, eitp_error *error);

#endif
