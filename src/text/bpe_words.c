#include "text/bpe_words.h"

#include "base/checksum.h"
#include "base/memory.h"
#include "base/status.h"

/* Approximate memory, in bytes, of a word and of each of its bytes: here, and as positions and pairs during
   training. */
enum { EITP__WORD_COST = 64, EITP__WORD_BYTE_COST = 64 };

EITP__PRIVATE void eitp__words_init(eitp__words *words, const eitp_host *host, uint64_t limit) {
    memset(words, 0, sizeof *words);
    words->host = host;
    words->limit = limit;
}

EITP__PRIVATE void eitp__words_release(eitp__words *words) {
    eitp__release(words->host, words->text, words->text_capacity);
    eitp__release(words->host, words->words, words->capacity * sizeof *words->words);
    eitp__release(words->host, words->slots, words->slot_count * sizeof *words->slots);
    eitp__words_init(words, words->host, words->limit);
}

static uint64_t eitp__words_cost(uint64_t count, uint64_t bytes) {
    return count * EITP__WORD_COST + bytes * EITP__WORD_BYTE_COST;
}

/* Returns the slot of a word, or the free slot for it. */
static uint32_t *eitp__words_slot(const eitp__words *words, const unsigned char *bytes, size_t size) {
    uint64_t hash = eitp__fnv1a(EITP__FNV_START, bytes, size);
    hash ^= hash >> 32;
    for (size_t i = (size_t)hash & (words->slot_count - 1);; i = (i + 1) & (words->slot_count - 1)) {
        uint32_t *slot = &words->slots[i];
        if (!*slot)
            return slot;
        const eitp__word *word = &words->words[*slot - 1];
        if (word->size == size && !memcmp(words->text + word->offset, bytes, size))
            return slot;
    }
}

/* Builds a hash table of `slot_count` slots for the words. Returns 0 if out of memory. */
static int eitp__words_index(eitp__words *words, size_t slot_count) {
    if (slot_count != words->slot_count) {
        uint32_t *slots = (uint32_t *)eitp__allocate_uninitialized(words->host, slot_count * sizeof *slots);
        if (!slots)
            return 0;
        eitp__release(words->host, words->slots, words->slot_count * sizeof *slots);
        words->slots = slots;
        words->slot_count = slot_count;
    }
    memset(words->slots, 0, slot_count * sizeof *words->slots);
    for (size_t i = 0; i < words->count; i++)
        *eitp__words_slot(words, words->text + words->words[i].offset, words->words[i].size) = (uint32_t)i + 1;
    return 1;
}

/* Drops words that occur at most `most` times. The others keep their order. */
static void eitp__words_drop(eitp__words *words, uint64_t most) {
    size_t kept = 0, text_size = 0;
    for (size_t i = 0; i < words->count; i++) {
        eitp__word word = words->words[i];
        if (word.count <= most) {
            words->dropped += word.count;
            continue;
        }
        memmove(words->text + text_size, words->text + word.offset, word.size);
        word.offset = text_size;
        text_size += word.size;
        words->words[kept++] = word;
    }
    words->count = kept;
    words->text_size = text_size;
}

static void eitp__words_drop_rare(eitp__words *words) {
    for (uint64_t most = 1; eitp__words_cost(words->count, words->text_size) > words->limit / 2; most *= 2)
        eitp__words_drop(words, most);
    eitp__words_index(words, words->slot_count);
}

EITP__PRIVATE eitp_status eitp__words_add(eitp__words *words, const unsigned char *bytes, size_t size,
                                          eitp_error *error) {
    uint32_t *slot = words->slot_count ? eitp__words_slot(words, bytes, size) : NULL;
    if (slot && *slot) {
        words->words[*slot - 1].count++;
        return EITP_OK;
    }
    if (eitp__words_cost(1, size) > words->limit / 4) {
        words->dropped++;
        return EITP_OK;
    }
    if (eitp__words_cost(words->count + 1, words->text_size + size) > words->limit)
        eitp__words_drop_rare(words);
    if (2 * (words->count + 1) > words->slot_count &&
        !eitp__words_index(words, words->slot_count ? 2 * words->slot_count : 4096))
        return eitp__fail_memory(error, 2 * words->slot_count * sizeof *words->slots,
                                 "the distinct pieces of the text");
    if (!eitp__reserve(words->host, (void **)&words->words, &words->capacity, words->count + 1, sizeof *words->words) ||
        !eitp__reserve(words->host, (void **)&words->text, &words->text_capacity, words->text_size + size, 1))
        return eitp__fail_memory(error, words->text_size + size, "the distinct pieces of the text");
    eitp__word *word = &words->words[words->count];
    word->count = 1;
    word->offset = words->text_size;
    word->size = (uint32_t)size;
    memcpy(words->text + words->text_size, bytes, size);
    *eitp__words_slot(words, bytes, size) = (uint32_t)words->count + 1;
    words->text_size += size;
    words->count++;
    return EITP_OK;
}
