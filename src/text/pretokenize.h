/* Cuts text into pieces: added tokens, and between them the matches of GPT-2's pattern. */
#ifndef EITP_PRETOKENIZE_H
#define EITP_PRETOKENIZE_H

#include "base/platform.h"

/* Largest size of a piece in bytes; see eitp_tokenizer in text.h. */
#define EITP__PIECE_LIMIT ((size_t)1048576)

/* Largest size of an added token in bytes. */
#define EITP__ADDED_TOKEN_LIMIT ((size_t)1024)

/*
 * Length of the first piece of text[0 .. size) by the pattern
 *   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * `text` is valid UTF-8 with at least one character; `closed`: no text follows. Returns 0 if more text is needed to
 * decide.
 */
EITP__PRIVATE size_t eitp__piece_size(const unsigned char *text, size_t size, int closed);

/* A token that is recognized in the text itself, before the pattern. The bytes are not owned. */
typedef struct eitp__added_token {
    const unsigned char *bytes;
    size_t size;
    int32_t id;
} eitp__added_token;

/* Sorts added tokens by their bytes, as eitp__splitter_init expects. */
EITP__PRIVATE void eitp__added_tokens_sort(eitp__added_token *tokens, size_t count);

/* Receives one piece: a match of the pattern with id -1, or an added token. The bytes are valid during the call. */
typedef eitp_status (*eitp__piece_sink)(void *user, const unsigned char *bytes, size_t size, int32_t id,
                                        eitp_error *error);

/* Cuts text that arrives in chunks. */
typedef struct eitp__splitter {
    const eitp_host *host;
    const eitp__added_token *added; /* sorted */
    size_t added_count;
    int add_prefix_space;
    eitp__piece_sink sink;
    void *user;
    unsigned char begins_added[256]; /* true if an added token begins with the byte */
    unsigned char *window;           /* text not yet cut in [cursor, end), valid UTF-8; one free byte before it */
    size_t capacity, cursor, end;
    size_t scanned;           /* no added token begins in [cursor, scanned) */
    size_t min_full;          /* smallest value of `full`, at least 16 */
    size_t full;              /* the window is cut when it reaches this size */
    int at_segment_start;     /* the cursor is at the start of a text or after an added token */
    unsigned char partial[4]; /* an incomplete sequence at the end of the last chunk */
    size_t partial_size;
} eitp__splitter;

/* `added` must outlive the splitter. */
EITP__PRIVATE void eitp__splitter_init(eitp__splitter *splitter, const eitp_host *host, const eitp__added_token *added,
                                       size_t added_count, int add_prefix_space, eitp__piece_sink sink, void *user);
EITP__PRIVATE void eitp__splitter_release(eitp__splitter *splitter);

/* Discards the current text. */
EITP__PRIVATE void eitp__splitter_reset(eitp__splitter *splitter);

/* Add text; end the text. A failure of the sink is returned. After a failure, reset or release the splitter. */
EITP__PRIVATE eitp_status eitp__splitter_add(eitp__splitter *splitter, const unsigned char *text, size_t size,
                                             eitp_error *error);
EITP__PRIVATE eitp_status eitp__splitter_finish(eitp__splitter *splitter, eitp_error *error);

#endif
