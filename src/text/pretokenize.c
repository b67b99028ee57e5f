#include "text/pretokenize.h"

#include "base/memory.h"
#include "base/sort.h"
#include "base/status.h"
#include "base/unicode.h"

enum { EITP__SPLITTER_CHUNK = 65536 };

/* Returns the class of the valid character at text[0]. *length is its number of bytes. */
static int eitp__class_at(const unsigned char *text, size_t size, size_t *length) {
    if (text[0] < 0x80) {
        *length = 1;
        return eitp__unicode_class(text[0]);
    }
    uint32_t code_point;
    int valid;
    *length = eitp__utf8_next(text, size, &code_point, &valid);
    return eitp__unicode_class(code_point);
}

/* Returns the length of 's 't 'm 'd 're 've 'll at text[0], which is an apostrophe. 0 if it is not one of these,
   SIZE_MAX if more text is needed to decide. */
static size_t eitp__contraction_size(const unsigned char *text, size_t size, int closed) {
    if (size < 2)
        return closed ? 0 : SIZE_MAX;
    switch (text[1]) {
    case 's':
    case 't':
    case 'm':
    case 'd':
        return 2;
    case 'r':
    case 'v':
    case 'l':
        if (size < 3)
            return closed ? 0 : SIZE_MAX;
        return text[2] == (text[1] == 'l' ? 'l' : 'e') ? 3 : 0;
    default:
        return 0;
    }
}

/* Returns the length of the white space at text[0]: all of it at the end of the text; otherwise all but its last
   character, unless it has only one. 0 if more text is needed to decide. */
static size_t eitp__space_size(const unsigned char *text, size_t size, int closed) {
    size_t end = 0, last = 0;
    while (end < size) {
        size_t length;
        if (eitp__class_at(text + end, size - end, &length) != EITP__UNICODE_SPACE)
            return last ? last : end;
        if (end + length > EITP__PIECE_LIMIT)
            return end;
        last = end;
        end += length;
    }
    return closed ? end : 0;
}

EITP__PRIVATE size_t eitp__piece_size(const unsigned char *text, size_t size, int closed) {
    if (text[0] == '\'') {
        size_t contraction = eitp__contraction_size(text, size, closed);
        if (contraction)
            return contraction == SIZE_MAX ? 0 : contraction;
    }
    size_t end = text[0] == ' ', length;
    if (end == size)
        return closed ? end : 0;
    const int kind = eitp__class_at(text + end, size - end, &length);
    if (kind == EITP__UNICODE_SPACE)
        return eitp__space_size(text, size, closed);
    for (;;) {
        end += length;
        if (end == size)
            return closed ? end : 0;
        if (eitp__class_at(text + end, size - end, &length) != kind)
            return end;
        if (end + length > EITP__PIECE_LIMIT)
            return end;
    }
}

EITP__PRIVATE size_t eitp__size_without_space(const unsigned char *text, size_t size) {
    while (size) {
        size_t begin = size - 1, length;
        while (begin && (text[begin] & 0xC0) == 0x80)
            begin--;
        if (eitp__class_at(text + begin, size - begin, &length) != EITP__UNICODE_SPACE)
            break;
        size = begin;
    }
    return size;
}

EITP__PRIVATE size_t eitp__whole_size(const unsigned char *text, size_t size, int closed) {
    size_t certain = closed ? size : eitp__size_without_space(text, size);
    return certain || size <= EITP__PIECE_LIMIT ? certain : size;
}

static int eitp__added_token_compare(const void *a, const void *b) {
    const eitp__added_token *left = (const eitp__added_token *)a;
    const eitp__added_token *right = (const eitp__added_token *)b;
    int order = memcmp(left->bytes, right->bytes, left->size < right->size ? left->size : right->size);
    return order ? order : (left->size > right->size) - (left->size < right->size);
}

EITP__PRIVATE void eitp__added_tokens_sort(eitp__added_tokens *added) {
    eitp__sort(added->tokens, added->count, sizeof *added->tokens, eitp__added_token_compare);
}

EITP__PRIVATE void eitp__splitter_init(eitp__splitter *splitter, const eitp_host *host, const eitp__added_tokens *added,
                                       eitp__piece_rule rule, eitp__piece_sink sink, void *user) {
    memset(splitter, 0, sizeof *splitter);
    splitter->host = host;
    splitter->added = added;
    splitter->rule = rule;
    splitter->sink = sink;
    splitter->user = user;
    splitter->min_full = EITP__SPLITTER_CHUNK;
    for (size_t i = 0; i < added->count; i++) {
        splitter->begins_added[added->tokens[i].bytes[0]] = 1;
        splitter->has_words |= added->tokens[i].is_word;
    }
    eitp__splitter_reset(splitter);
}

EITP__PRIVATE void eitp__splitter_release(eitp__splitter *splitter) {
    eitp__release(splitter->host, splitter->pending, splitter->capacity);
    splitter->pending = NULL;
    splitter->capacity = 0;
}

EITP__PRIVATE void eitp__splitter_reset(eitp__splitter *splitter) {
    splitter->cursor = splitter->end = splitter->scanned = 1;
    splitter->full = splitter->min_full;
    splitter->at_segment_start = splitter->at_text_start = 1;
    splitter->skips_space = splitter->follows_word = 0;
    splitter->partial_size = 0;
}

/* Returns the longest added token at the start of text[0 .. size), or NULL. *undecided is 1 if it could be a longer one
   with more text. */
static const eitp__added_token *eitp__added_token_at(const eitp__splitter *splitter, const unsigned char *text,
                                                     size_t size, int *undecided) {
    const eitp__added_token *added = splitter->added->tokens, *best = NULL;
    size_t low = 0, high = splitter->added->count; /* tokens that share the first `depth` bytes with the text */
    *undecided = 0;
    for (size_t depth = 0;; depth++) {
        if (added[low].size == depth) /* the shortest comes first */
            best = &added[low++];
        if (low == high)
            return best;
        if (depth == size) {
            *undecided = 1;
            return best;
        }
        size_t first = low, after = high;
        for (size_t limit = high; first < limit;) { /* find the first token whose next byte is at least the text's */
            size_t middle = first + (limit - first) / 2;
            if (added[middle].bytes[depth] < text[depth])
                first = middle + 1;
            else
                limit = middle;
        }
        for (size_t begin = first; begin < after;) { /* find the first token whose next byte is greater */
            size_t middle = begin + (after - begin) / 2;
            if (added[middle].bytes[depth] <= text[depth])
                begin = middle + 1;
            else
                after = middle;
        }
        if (first == after)
            return best;
        low = first;
        high = after;
    }
}

/* True if valid text starts, or ends, with a word character. */
static int eitp__begins_with_word(const unsigned char *text, size_t size) {
    uint32_t code_point;
    int valid;
    eitp__utf8_next(text, size, &code_point, &valid);
    return eitp__unicode_is_word(code_point);
}

static int eitp__ends_with_word(const unsigned char *text, size_t size) {
    size_t begin = size - 1;
    while (begin && (text[begin] & 0xC0) == 0x80)
        begin--;
    return eitp__begins_with_word(text + begin, size - begin);
}

/* True if `token`, which starts at `scanned`, is a separate word. *undecided is 1 if more text could change that. */
static int eitp__is_separate_word(const eitp__splitter *splitter, const eitp__added_token *token, int *undecided) {
    const unsigned char *text = splitter->pending + splitter->scanned;
    const size_t before = splitter->scanned - splitter->cursor;
    const size_t after = splitter->end - splitter->scanned - token->size;
    *undecided = !after;
    return !(before ? eitp__ends_with_word(text - before, before) : splitter->follows_word) &&
           (!after || !eitp__begins_with_word(text + token->size, after));
}

/* Finds the next added token from `scanned` on, and moves `scanned` to its start, its possible start, or the end of the
   pending text. *bounded is 1 if the plain text before `scanned` certainly ends there. */
static const eitp__added_token *eitp__splitter_scan(eitp__splitter *splitter, int final, int *bounded) {
    *bounded = final;
    while (splitter->scanned < splitter->end) {
        const unsigned char *text = splitter->pending + splitter->scanned;
        if (splitter->begins_added[text[0]]) {
            int undecided;
            const eitp__added_token *token =
                eitp__added_token_at(splitter, text, splitter->end - splitter->scanned, &undecided);
            int is_taken = token != NULL;
            if (token && token->is_word && !(undecided && !final))
                is_taken = eitp__is_separate_word(splitter, token, &undecided);
            if (undecided && !final)
                return NULL;
            if (token && !is_taken) { /* plain text, including any shorter token in it, as in the library
                                         `tokenizers` */
                splitter->scanned += token->size;
                continue;
            }
            if (token) {
                *bounded = 1;
                return token;
            }
        }
        splitter->scanned++;
    }
    return NULL;
}

/* Records the end of the text before the cursor: text[0 .. size). */
static void eitp__splitter_note(eitp__splitter *splitter, const unsigned char *text, size_t size) {
    if (splitter->has_words)
        splitter->follows_word = eitp__ends_with_word(text, size);
}

/* Skips white space before `end` that belongs to the added token before the cursor. */
static void eitp__splitter_skip_space(eitp__splitter *splitter, size_t end) {
    size_t length;
    while (splitter->skips_space && splitter->cursor < end) {
        if (eitp__class_at(splitter->pending + splitter->cursor, end - splitter->cursor, &length) ==
            EITP__UNICODE_SPACE)
            splitter->cursor += length, splitter->follows_word = 0;
        else
            splitter->skips_space = 0;
    }
}

/* Adds the prefix space to the text at the cursor. */
static void eitp__splitter_add_prefix(eitp__splitter *splitter, size_t end) {
    const unsigned char *text = splitter->pending + splitter->cursor;
    const int prefix = splitter->add_prefix_space;
    if (prefix == EITP__PREFIX_NONE || *text == ' ' || (prefix == EITP__PREFIX_FIRST && !splitter->at_text_start))
        return;
    if (prefix != EITP__PREFIX_SPACE && end - splitter->cursor >= 3 && !memcmp(text, EITP__SPACE_TEXT, 3))
        return;
    splitter->pending[--splitter->cursor] = ' ';
}

static size_t eitp__splitter_next(const eitp__splitter *splitter, const unsigned char *text, size_t size, int closed) {
    return splitter->context_rule ? splitter->context_rule(splitter->context, text, size, closed)
                                  : splitter->rule(text, size, closed);
}

/* Cuts the plain text in [cursor, end) into pieces, as far as their ends are certain. */
static eitp_status eitp__splitter_cut_plain(eitp__splitter *splitter, size_t end, int bounded, eitp_error *error) {
    eitp__splitter_skip_space(splitter, end);
    if (splitter->at_segment_start && splitter->cursor < end) {
        splitter->at_segment_start = 0;
        eitp__splitter_add_prefix(splitter, end);
    }
    while (splitter->cursor < end) {
        const unsigned char *text = splitter->pending + splitter->cursor;
        size_t size = eitp__splitter_next(splitter, text, end - splitter->cursor, bounded);
        if (!size)
            break;
        splitter->cursor += size;
        eitp__splitter_note(splitter, text, size);
        eitp_status status = splitter->sink(splitter->user, text, size, -1, error);
        if (status != EITP_OK)
            return status;
    }
    return EITP_OK;
}

/* Returns the end of the plain text before `scanned`, where `token` starts unless it is NULL. */
static size_t eitp__splitter_plain_end(const eitp__splitter *splitter, const eitp__added_token *token) {
    if (!token || !token->strips_left || splitter->cursor >= splitter->scanned)
        return splitter->scanned;
    return splitter->cursor +
           eitp__size_without_space(splitter->pending + splitter->cursor, splitter->scanned - splitter->cursor);
}

/* Cuts the pending text into pieces, as far as their ends are certain, and moves the rest to the front. */
static eitp_status eitp__splitter_cut(eitp__splitter *splitter, int final, eitp_error *error) {
    for (;;) {
        int bounded;
        const eitp__added_token *token = eitp__splitter_scan(splitter, final, &bounded);
        eitp_status status =
            eitp__splitter_cut_plain(splitter, eitp__splitter_plain_end(splitter, token), bounded, error);
        if (status != EITP_OK)
            return status;
        if (!token)
            break;
        splitter->cursor = splitter->scanned += token->size;
        splitter->at_segment_start = 1;
        splitter->at_text_start = 0;
        splitter->skips_space = token->strips_right;
        eitp__splitter_note(splitter, token->bytes, token->size);
        status = splitter->sink(splitter->user, token->bytes, token->size, token->id, error);
        if (status != EITP_OK)
            return status;
    }
    size_t rest = splitter->end - splitter->cursor;
    memmove(splitter->pending + 1, splitter->pending + splitter->cursor, rest);
    splitter->scanned = splitter->scanned - splitter->cursor + 1;
    splitter->cursor = 1;
    splitter->end = rest + 1;
    /* The rest is examined again only when the pending text holds twice as much, so that the total time is linear. */
    splitter->full = 2 * rest > splitter->min_full ? 2 * rest : splitter->min_full;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__splitter_add_valid(eitp__splitter *splitter, const unsigned char *text, size_t size,
                                                   eitp_error *error) {
    while (size) {
        size_t room = splitter->full - (splitter->end - splitter->cursor);
        size_t part = size;
        if (part > room) { /* cut only at whole characters */
            part = room;
            while (part && (text[part] & 0xC0) == 0x80)
                part--;
        }
        if (part) {
            size_t needed = splitter->end + part;
            if (!eitp__reserve(splitter->host, (void **)&splitter->pending, &splitter->capacity, needed, 1))
                return eitp__fail_memory(error, needed, "the text being encoded");
            memcpy(splitter->pending + splitter->end, text, part);
            splitter->end += part;
            text += part;
            size -= part;
        }
        if (size) {
            eitp_status status = eitp__splitter_cut(splitter, 0, error);
            if (status != EITP_OK)
                return status;
        }
    }
    return EITP_OK;
}

/* Adds text that may be ill-formed, but ends inside a sequence only at the end of the text. */
static eitp_status eitp__splitter_repair(eitp__splitter *splitter, const unsigned char *text, size_t size,
                                         eitp_error *error) {
    for (;;) {
        size_t valid = eitp__utf8_valid_prefix(text, size);
        eitp_status status = eitp__splitter_add_valid(splitter, text, valid, error);
        if (status != EITP_OK || valid == size)
            return status;
        uint32_t code_point;
        int is_valid;
        size_t bad = eitp__utf8_next(text + valid, size - valid, &code_point, &is_valid);
        status = eitp__splitter_add_valid(splitter, (const unsigned char *)"\xEF\xBF\xBD", 3, error);
        if (status != EITP_OK)
            return status;
        text += valid + bad;
        size -= valid + bad;
    }
}

EITP__PRIVATE eitp_status eitp__splitter_add(eitp__splitter *splitter, const unsigned char *text, size_t size,
                                             eitp_error *error) {
    while (splitter->partial_size && size) { /* complete a sequence from the last chunk, byte by byte */
        splitter->partial[splitter->partial_size++] = *text++;
        size--;
        if (eitp__utf8_incomplete(splitter->partial, splitter->partial_size) == splitter->partial_size)
            continue;
        size_t count = splitter->partial_size, rest = eitp__utf8_incomplete(splitter->partial, count);
        unsigned char bytes[4];
        memcpy(bytes, splitter->partial, count);
        memcpy(splitter->partial, bytes + count - rest, rest);
        splitter->partial_size = rest;
        eitp_status status = eitp__splitter_repair(splitter, bytes, count - rest, error);
        if (status != EITP_OK)
            return status;
    }
    if (!size)
        return EITP_OK;
    size_t rest = eitp__utf8_incomplete(text, size);
    memcpy(splitter->partial, text + size - rest, rest);
    splitter->partial_size = rest;
    return eitp__splitter_repair(splitter, text, size - rest, error);
}

EITP__PRIVATE eitp_status eitp__splitter_finish(eitp__splitter *splitter, eitp_error *error) {
    eitp_status status = EITP_OK;
    if (splitter->partial_size)
        status = eitp__splitter_add_valid(splitter, (const unsigned char *)"\xEF\xBF\xBD", 3, error);
    if (status == EITP_OK && splitter->end > splitter->cursor)
        status = eitp__splitter_cut(splitter, 1, error);
    eitp__splitter_reset(splitter);
    return status;
}
