#include "text/wordpiece.h"

#include "base/unicode.h"
#include "text/pretokenize.h"

/* Maximum number of nodes, so that two of them and a byte fit into a slot. */
#define EITP__NODE_LIMIT ((size_t)1 << 28)

EITP__PRIVATE void eitp__wordpiece_init(eitp__wordpiece *wordpiece, const eitp_host *host) {
    memset(wordpiece, 0, sizeof *wordpiece);
    wordpiece->continuing = wordpiece->unknown = -1;
    wordpiece->max_characters = 100;
    eitp__buffer_init(&wordpiece->prefix, host);
}

EITP__PRIVATE void eitp__wordpiece_release(eitp__wordpiece *wordpiece, const eitp_host *host) {
    eitp__release(host, wordpiece->slots, wordpiece->slot_count * sizeof *wordpiece->slots);
    eitp__release(host, wordpiece->token_ids, wordpiece->node_capacity * sizeof *wordpiece->token_ids);
    eitp__buffer_release(&wordpiece->prefix);
    wordpiece->slots = NULL;
    wordpiece->token_ids = NULL;
    wordpiece->slot_count = wordpiece->node_count = wordpiece->node_capacity = 0;
}

/* Returns the slot of the child of a node, or the free slot for it. */
static uint64_t *eitp__child_slot(uint64_t *slots, size_t slot_count, uint64_t node, unsigned char byte) {
    const uint64_t key = node << 8 | byte;
    uint64_t hash = key * 0x9E3779B97F4A7C15u;
    for (size_t i = (size_t)(hash >> 32 ^ hash >> 12) & (slot_count - 1);; i = (i + 1) & (slot_count - 1)) {
        if (!slots[i] || slots[i] >> 28 == key)
            return &slots[i];
    }
}

/* Returns the child of a node, or 0 (the root) if it has none for this byte. */
static uint64_t eitp__child(const eitp__wordpiece *wordpiece, uint64_t node, unsigned char byte) {
    return *eitp__child_slot(wordpiece->slots, wordpiece->slot_count, node, byte) & (EITP__NODE_LIMIT - 1);
}

static eitp_status eitp__grow_slots(eitp__wordpiece *wordpiece, const eitp_host *host, eitp_error *error) {
    const size_t count = wordpiece->slot_count ? 2 * wordpiece->slot_count : 4096;
    uint64_t *slots = (uint64_t *)eitp__allocate(host, count * sizeof *slots);
    if (!slots)
        return eitp__fail_memory(error, count * sizeof *slots, "the tokenizer's vocabulary");
    for (size_t i = 0; i < wordpiece->slot_count; i++) {
        const uint64_t slot = wordpiece->slots[i];
        if (slot)
            *eitp__child_slot(slots, count, slot >> 36, (unsigned char)(slot >> 28 & 0xFF)) = slot;
    }
    eitp__release(host, wordpiece->slots, wordpiece->slot_count * sizeof *slots);
    wordpiece->slots = slots;
    wordpiece->slot_count = count;
    return EITP_OK;
}

static eitp_status eitp__add_node(eitp__wordpiece *wordpiece, const eitp_host *host, eitp_error *error) {
    eitp_status status = EITP_OK;
    if (wordpiece->node_count + 1 >= EITP__NODE_LIMIT)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "the text of the vocabulary exceeds 256 MiB");
    if (2 * (wordpiece->node_count + 1) > wordpiece->slot_count)
        status = eitp__grow_slots(wordpiece, host, error);
    if (status == EITP_OK && !eitp__reserve(host, (void **)&wordpiece->token_ids, &wordpiece->node_capacity,
                                            wordpiece->node_count + 1, sizeof *wordpiece->token_ids))
        return eitp__fail_memory(error, (wordpiece->node_count + 1) * sizeof *wordpiece->token_ids,
                                 "the tokenizer's vocabulary");
    if (status == EITP_OK)
        wordpiece->token_ids[wordpiece->node_count++] = -1;
    return status;
}

EITP__PRIVATE eitp_status eitp__wordpiece_add(eitp__wordpiece *wordpiece, const eitp_host *host,
                                              const unsigned char *text, size_t size, int32_t id, eitp_error *error) {
    eitp_status status = wordpiece->node_count ? EITP_OK : eitp__add_node(wordpiece, host, error); /* the root */
    uint64_t node = 0;
    for (size_t i = 0; i < size && status == EITP_OK; i++) {
        uint64_t child = eitp__child(wordpiece, node, text[i]);
        if (!child) {
            status = eitp__add_node(wordpiece, host, error);
            if (status != EITP_OK)
                break;
            child = wordpiece->node_count - 1;
            *eitp__child_slot(wordpiece->slots, wordpiece->slot_count, node, text[i]) =
                (node << 8 | text[i]) << 28 | child;
        }
        node = child;
    }
    if (status == EITP_OK)
        wordpiece->token_ids[node] = id;
    return status;
}

EITP__PRIVATE eitp_status eitp__wordpiece_complete(eitp__wordpiece *wordpiece, const eitp_host *host,
                                                   eitp_error *error) {
    const unsigned char *prefix = (const unsigned char *)wordpiece->prefix.data;
    eitp_status status = wordpiece->node_count ? EITP_OK : eitp__add_node(wordpiece, host, error);
    uint64_t node = 0;
    for (size_t i = 0; i < wordpiece->prefix.size && status == EITP_OK; i++) {
        node = eitp__child(wordpiece, node, prefix[i]);
        if (!node)
            return EITP_OK;
    }
    wordpiece->continuing = (int64_t)node;
    return status;
}

static int eitp__has_more_characters(const unsigned char *word, size_t size, uint64_t limit) {
    uint64_t count = 0;
    if (size <= limit)
        return 0;
    for (size_t i = 0; i < size; i++)
        count += (word[i] & 0xC0) != 0x80;
    return count > limit;
}

/* Returns the longest token of word[begin .. size) whose text continues from `node`, or -1. *end is its end. */
static int32_t eitp__longest_token(const eitp__wordpiece *wordpiece, int64_t node, const unsigned char *word,
                                   size_t begin, size_t size, size_t *end) {
    int32_t longest = -1;
    for (size_t i = begin; i < size && node >= 0; i++) {
        const uint64_t child = eitp__child(wordpiece, (uint64_t)node, word[i]);
        node = child ? (int64_t)child : -1;
        if (!child || wordpiece->token_ids[child] < 0)
            continue;
        longest = wordpiece->token_ids[child];
        *end = i + 1;
    }
    return longest;
}

EITP__PRIVATE size_t eitp__wordpiece_encode(const eitp__wordpiece *wordpiece, const unsigned char *word, size_t size,
                                            int32_t *ids) {
    size_t count = 0;
    int known = !eitp__has_more_characters(word, size, wordpiece->max_characters);
    for (size_t begin = 0, end = 0; begin < size && known; begin = end) {
        ids[count] = eitp__longest_token(wordpiece, begin ? wordpiece->continuing : 0, word, begin, size, &end);
        known = ids[count++] >= 0;
    }
    if (known)
        return count;
    ids[0] = wordpiece->unknown; /* for the whole word, not only for its end */
    return 1;
}

EITP__PRIVATE int eitp__wordpiece_continues(const eitp__wordpiece *wordpiece, const void *text, size_t size) {
    const eitp__buffer *prefix = &wordpiece->prefix;
    return size >= prefix->size && (!prefix->size || !memcmp(text, prefix->data, prefix->size));
}

/* Returns the class of the valid character at text[0]. *length is its number of bytes. */
static int eitp__bert_class_at(const unsigned char *text, size_t size, size_t *length) {
    uint32_t code_point;
    int valid;
    *length = eitp__utf8_next(text, size, &code_point, &valid);
    return eitp__bert_class(code_point);
}

static int eitp__is_space_class(int kind) {
    return kind == EITP__BERT_SPACE || kind == EITP__BERT_CONTROL_SPACE;
}

EITP__PRIVATE int eitp__is_space_piece(const unsigned char *text, size_t size) {
    size_t length;
    return text[0] == ' ' || eitp__is_space_class(eitp__bert_class_at(text, size, &length));
}

EITP__PRIVATE size_t eitp__word_size(const unsigned char *text, size_t size, int closed) {
    size_t length, end;
    int kind = eitp__bert_class_at(text, size, &length);
    if (eitp__is_space_class(kind) || kind == EITP__BERT_PUNCTUATION)
        return length;
    for (end = length; end < size; end += length) {
        if (text[end] >= 'a' && text[end] <= 'z' && end < EITP__PIECE_LIMIT) {
            length = 1;
            continue;
        }
        kind = eitp__bert_class_at(text + end, size - end, &length);
        if (eitp__is_space_class(kind) || kind == EITP__BERT_PUNCTUATION || end + length > EITP__PIECE_LIMIT)
            return end;
    }
    return closed ? end : 0;
}
