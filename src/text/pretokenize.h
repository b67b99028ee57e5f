/* Text becomes pieces: added tokens, and between them the matches of GPT-2's pattern. */
#ifndef EITP_PRETOKENIZE_H
#define EITP_PRETOKENIZE_H

#include "base/platform.h"

/* A piece has at most so many bytes: see the rule in text.h. */
#define EITP__PIECE_LIMIT ((size_t)1048576)

/* Added tokens have 1 to this many bytes. */
#define EITP__ADDED_TOKEN_LIMIT ((size_t)1024)

/*
 * Bytes of the piece that text[0 .. size) begins with, by the pattern
 *   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * `text` is whole, well-formed characters, at least one; `closed` says that nothing comes after it. Returns 0 where
 * more text is needed to tell.
 */
EITP__PRIVATE size_t eitp__piece_size(const unsigned char *text, size_t size, int closed);

/* A token that is found in the text as it stands. The bytes belong to whoever made it. */
typedef struct eitp__added_token {
    const unsigned char *bytes;
    size_t size;
    int32_t id;
} eitp__added_token;

/* Sorts added tokens as the splitter needs them: by bytes. */
EITP__PRIVATE void eitp__added_tokens_sort(eitp__added_token *tokens, size_t count);

/* Takes one piece: the bytes of a match with `id` -1, or an added token. The bytes are valid during the call. */
typedef eitp_status (*eitp__piece_sink)(void *user, const unsigned char *bytes, size_t size, int32_t id,
                                        eitp_error *error);

/* Cuts texts that arrive in chunks. */
typedef struct eitp__splitter {
    const eitp_host *host;
    const eitp__added_token *added; /* sorted */
    size_t added_count;
    int add_prefix_space;
    eitp__piece_sink sink;
    void *user;
    unsigned char begins_added[256]; /* whether an added token begins with the byte */
    unsigned char *window;           /* the text not yet cut, in [cursor, end), well formed; one free byte before it */
    size_t capacity, cursor, end;
    size_t scanned;           /* no added token begins in [cursor, scanned) */
    size_t smallest;          /* cut no sooner than at so many bytes, at least 16 */
    size_t full;              /* cut once the window reaches this size */
    int segment_begins;       /* at the cursor begins a text, or what comes after an added token */
    unsigned char partial[4]; /* a sequence that the last chunk ended inside of */
    size_t partial_size;
} eitp__splitter;

/* `added` must outlive the splitter. */
EITP__PRIVATE void eitp__splitter_init(eitp__splitter *splitter, const eitp_host *host, const eitp__added_token *added,
                                       size_t added_count, int add_prefix_space, eitp__piece_sink sink, void *user);
EITP__PRIVATE void eitp__splitter_release(eitp__splitter *splitter);

/* Forgets the text that was begun. */
EITP__PRIVATE void eitp__splitter_reset(eitp__splitter *splitter);

/* After a failure of these, or of the sink, which is passed on, reset or release it. */
EITP__PRIVATE eitp_status eitp__splitter_add(eitp__splitter *splitter, const unsigned char *text, size_t size,
                                             eitp_error *error);
EITP__PRIVATE eitp_status eitp__splitter_finish(eitp__splitter *splitter, eitp_error *error);

#endif
