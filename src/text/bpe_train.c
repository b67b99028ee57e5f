/*
 * Each position of each distinct piece is in the list of the pair that starts there, so that a merge visits only the
 * positions that it changes. A heap yields the most frequent pair. Counts in the heap may be outdated, but never too
 * small; they are checked when they reach the top.
 */
#include "text/bpe_train.h"

#include "base/checksum.h"
#include "base/sort.h"
#include "base/status.h"

#define EITP__NOWHERE UINT32_MAX

typedef struct eitp__train_pair {
    int32_t left, right;
    uint64_t count;       /* occurrences in the text */
    uint32_t first, last; /* list of positions */
    uint32_t last_round;  /* last merge that added a position */
} eitp__train_pair;

typedef struct eitp__train_entry {
    uint64_t count;
    uint32_t pair;
} eitp__train_entry;

typedef struct eitp__train_position {
    int32_t symbol; /* token that starts here; -1 if none does */
    uint32_t word;
    uint32_t next, previous;           /* neighbours in the piece */
    uint32_t list_next, list_previous; /* neighbours in the list of the pair */
} eitp__train_position;

typedef struct eitp__merge_trainer {
    const eitp_host *host;
    const eitp__words *words;
    eitp__train_position *positions;
    size_t position_count;
    eitp__train_pair *pairs;
    size_t pair_count, pair_capacity;
    uint32_t *slots; /* open addressing: index of a pair + 1, or 0 if the slot is free */
    size_t slot_count;
    eitp__train_entry *heap;
    size_t heap_count, heap_capacity;
    uint32_t *todo; /* positions of the pair being merged */
    size_t todo_capacity;
    uint32_t *added; /* pairs that gained positions in the current merge */
    size_t added_count, added_capacity;
    uint32_t round; /* number of the current merge */
} eitp__merge_trainer;

static eitp_status eitp__train_fail(eitp_error *error) {
    return eitp__fail(error, EITP_ERROR_MEMORY,
                      "out of memory while training a tokenizer; train on less text or with a smaller memory_limit");
}

static void eitp__merge_trainer_release(eitp__merge_trainer *trainer) {
    const eitp_host *host = trainer->host;
    eitp__release(host, trainer->positions, trainer->position_count * sizeof *trainer->positions);
    eitp__release(host, trainer->pairs, trainer->pair_capacity * sizeof *trainer->pairs);
    eitp__release(host, trainer->slots, trainer->slot_count * sizeof *trainer->slots);
    eitp__release(host, trainer->heap, trainer->heap_capacity * sizeof *trainer->heap);
    eitp__release(host, trainer->todo, trainer->todo_capacity * sizeof *trainer->todo);
    eitp__release(host, trainer->added, trainer->added_capacity * sizeof *trainer->added);
}

static uint32_t *eitp__train_slot(const eitp__merge_trainer *trainer, int32_t left, int32_t right) {
    uint64_t hash = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9E3779B97F4A7C15u;
    hash = (hash ^ hash >> 32) * 0xD6E8FEB86659FD93u;
    for (size_t i = (size_t)(hash >> 32) & (trainer->slot_count - 1);; i = (i + 1) & (trainer->slot_count - 1)) {
        uint32_t *slot = &trainer->slots[i];
        if (!*slot || (trainer->pairs[*slot - 1].left == left && trainer->pairs[*slot - 1].right == right))
            return slot;
    }
}

static int eitp__train_grow_slots(eitp__merge_trainer *trainer) {
    size_t slot_count = trainer->slot_count ? 2 * trainer->slot_count : 4096;
    uint32_t *slots = (uint32_t *)eitp__allocate(trainer->host, slot_count * sizeof *slots);
    if (!slots)
        return 0;
    eitp__release(trainer->host, trainer->slots, trainer->slot_count * sizeof *slots);
    trainer->slots = slots;
    trainer->slot_count = slot_count;
    for (size_t i = 0; i < trainer->pair_count; i++)
        *eitp__train_slot(trainer, trainer->pairs[i].left, trainer->pairs[i].right) = (uint32_t)i + 1;
    return 1;
}

/* Finds or adds a pair. Returns NULL if out of memory. */
static eitp__train_pair *eitp__train_pair_of(eitp__merge_trainer *trainer, int32_t left, int32_t right) {
    if (2 * (trainer->pair_count + 1) > trainer->slot_count && !eitp__train_grow_slots(trainer))
        return NULL;
    uint32_t *slot = eitp__train_slot(trainer, left, right);
    if (*slot)
        return &trainer->pairs[*slot - 1];
    if (!eitp__reserve(trainer->host, (void **)&trainer->pairs, &trainer->pair_capacity, trainer->pair_count + 1,
                       sizeof *trainer->pairs))
        return NULL;
    *slot = (uint32_t)trainer->pair_count + 1;
    eitp__train_pair *pair = &trainer->pairs[trainer->pair_count++];
    memset(pair, 0, sizeof *pair);
    pair->left = left;
    pair->right = right;
    pair->first = pair->last = EITP__NOWHERE;
    return pair;
}

/* Adds a position to the list of the pair that starts there. Returns NULL if out of memory. */
static eitp__train_pair *eitp__train_link(eitp__merge_trainer *trainer, uint32_t position) {
    eitp__train_position *at = &trainer->positions[position];
    eitp__train_pair *pair = eitp__train_pair_of(trainer, at->symbol, trainer->positions[at->next].symbol);
    if (!pair)
        return NULL;
    at->list_next = EITP__NOWHERE;
    at->list_previous = pair->last;
    if (pair->last == EITP__NOWHERE)
        pair->first = position;
    else
        trainer->positions[pair->last].list_next = position;
    pair->last = position;
    pair->count += trainer->words->words[at->word].count;
    return pair;
}

static void eitp__train_unlink(eitp__merge_trainer *trainer, uint32_t position) {
    const eitp__train_position *at = &trainer->positions[position];
    eitp__train_pair *pair =
        &trainer->pairs[*eitp__train_slot(trainer, at->symbol, trainer->positions[at->next].symbol) - 1];
    if (at->list_previous == EITP__NOWHERE)
        pair->first = at->list_next;
    else
        trainer->positions[at->list_previous].list_next = at->list_next;
    if (at->list_next == EITP__NOWHERE)
        pair->last = at->list_previous;
    else
        trainer->positions[at->list_next].list_previous = at->list_previous;
    pair->count -= trainer->words->words[at->word].count;
}

/* True if `a` is merged before `b`: more frequent pairs first, then smaller ids. */
static int eitp__train_before(const eitp__merge_trainer *trainer, eitp__train_entry a, eitp__train_entry b) {
    if (a.count != b.count)
        return a.count > b.count;
    const eitp__train_pair *one = &trainer->pairs[a.pair], *other = &trainer->pairs[b.pair];
    return one->left != other->left ? one->left < other->left : one->right < other->right;
}

static int eitp__train_push(eitp__merge_trainer *trainer, uint32_t pair) {
    eitp__train_entry entry;
    entry.count = trainer->pairs[pair].count;
    entry.pair = pair;
    if (!eitp__reserve(trainer->host, (void **)&trainer->heap, &trainer->heap_capacity, trainer->heap_count + 1,
                       sizeof *trainer->heap))
        return 0;
    size_t i = trainer->heap_count++;
    while (i && eitp__train_before(trainer, entry, trainer->heap[(i - 1) / 2])) {
        trainer->heap[i] = trainer->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    trainer->heap[i] = entry;
    return 1;
}

static eitp__train_entry eitp__train_pop(eitp__merge_trainer *trainer) {
    eitp__train_entry *heap = trainer->heap;
    const eitp__train_entry top = heap[0], last = heap[--trainer->heap_count];
    const size_t count = trainer->heap_count;
    size_t i = 0;
    for (size_t child = 1; child < count; child = 2 * i + 1) {
        if (child + 1 < count && eitp__train_before(trainer, heap[child + 1], heap[child]))
            child++;
        if (!eitp__train_before(trainer, heap[child], last))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return top;
}

/* Initializes positions, pairs and heap from the bytes of the words. byte_ids[b] is the token of byte b. */
static int eitp__train_begin(eitp__merge_trainer *trainer, const int32_t *byte_ids) {
    const eitp__words *words = trainer->words;
    uint32_t position = 0;
    trainer->positions = (eitp__train_position *)eitp__allocate_uninitialized(
        trainer->host, words->text_size * sizeof *trainer->positions);
    if (words->text_size && !trainer->positions)
        return 0;
    trainer->position_count = words->text_size;
    for (size_t i = 0; i < words->count; i++) {
        const uint32_t begin = position, end = begin + words->words[i].size;
        for (; position < end; position++) {
            eitp__train_position *at = &trainer->positions[position];
            at->symbol = byte_ids[words->text[words->words[i].offset + (position - begin)]];
            at->word = (uint32_t)i;
            at->previous = position > begin ? position - 1 : EITP__NOWHERE;
            at->next = position + 1 < end ? position + 1 : EITP__NOWHERE;
        }
        for (uint32_t first = begin; first + 1 < end; first++) {
            if (!eitp__train_link(trainer, first))
                return 0;
        }
    }
    for (size_t i = 0; i < trainer->pair_count; i++) {
        if (!eitp__train_push(trainer, (uint32_t)i))
            return 0;
    }
    return 1;
}

static int eitp__train_compare_positions(const void *a, const void *b) {
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

/* Copies the positions of a pair to `todo` in ascending order, so that the first two of "aaa" merge. */
static int eitp__train_list_positions(eitp__merge_trainer *trainer, uint32_t pair, size_t *count) {
    int sorted = 1;
    *count = 0;
    for (uint32_t position = trainer->pairs[pair].first; position != EITP__NOWHERE;
         position = trainer->positions[position].list_next) {
        if (!eitp__reserve(trainer->host, (void **)&trainer->todo, &trainer->todo_capacity, *count + 1,
                           sizeof *trainer->todo))
            return 0;
        sorted = sorted && (!*count || trainer->todo[*count - 1] < position);
        trainer->todo[(*count)++] = position;
    }
    if (!sorted)
        eitp__sort(trainer->todo, *count, sizeof *trainer->todo, eitp__train_compare_positions);
    return 1;
}

/* Links a position whose pair has changed, and adds that pair to `added`. */
static int eitp__train_relink(eitp__merge_trainer *trainer, uint32_t position) {
    eitp__train_pair *pair = eitp__train_link(trainer, position);
    if (!pair)
        return 0;
    if (pair->last_round == trainer->round)
        return 1;
    pair->last_round = trainer->round;
    if (!eitp__reserve(trainer->host, (void **)&trainer->added, &trainer->added_capacity, trainer->added_count + 1,
                       sizeof *trainer->added))
        return 0;
    trainer->added[trainer->added_count++] = (uint32_t)(pair - trainer->pairs);
    return 1;
}

/* Merges the token at `position` and the next one into `result`. */
static int eitp__train_merge_at(eitp__merge_trainer *trainer, uint32_t position, int32_t result) {
    eitp__train_position *positions = trainer->positions;
    const uint32_t right = positions[position].next, before = positions[position].previous,
                   after = positions[right].next;
    eitp__train_unlink(trainer, position);
    if (before != EITP__NOWHERE)
        eitp__train_unlink(trainer, before);
    if (after != EITP__NOWHERE)
        eitp__train_unlink(trainer, right);
    positions[position].symbol = result;
    positions[position].next = after;
    positions[right].symbol = -1;
    if (after != EITP__NOWHERE)
        positions[after].previous = position;
    if (before != EITP__NOWHERE && !eitp__train_relink(trainer, before))
        return 0;
    return after == EITP__NOWHERE || eitp__train_relink(trainer, position);
}

static int eitp__train_merge(eitp__merge_trainer *trainer, uint32_t pair, int32_t result) {
    const int32_t left = trainer->pairs[pair].left, right = trainer->pairs[pair].right;
    size_t count;
    trainer->round++;
    trainer->added_count = 0;
    if (!eitp__train_list_positions(trainer, pair, &count))
        return 0;
    for (size_t i = 0; i < count; i++) {
        const eitp__train_position *at = &trainer->positions[trainer->todo[i]];
        /* A merge at the previous position may have consumed this token. */
        if (at->symbol != left || at->next == EITP__NOWHERE || trainer->positions[at->next].symbol != right)
            continue;
        if (!eitp__train_merge_at(trainer, trainer->todo[i], result))
            return 0;
    }
    for (size_t i = 0; i < trainer->added_count; i++) {
        if (!eitp__train_push(trainer, trainer->added[i]))
            return 0;
    }
    return 1;
}

EITP__PRIVATE void eitp__trained_release(eitp__trained *trained) {
    eitp__buffer_release(&trained->text);
    eitp__release(trained->host, trained->tokens, trained->token_capacity * sizeof *trained->tokens);
    eitp__release(trained->host, trained->merges, trained->merge_capacity * sizeof *trained->merges);
    eitp__release(trained->host, trained->slots, trained->slot_count * sizeof *trained->slots);
}

/* Returns the slot of the token with these bytes, or the free slot for it. */
static uint32_t *eitp__trained_slot(const eitp__trained *trained, const char *bytes, size_t size) {
    uint64_t hash = eitp__fnv1a(EITP__FNV_START, bytes, size);
    hash ^= hash >> 32;
    for (size_t i = (size_t)hash & (trained->slot_count - 1);; i = (i + 1) & (trained->slot_count - 1)) {
        uint32_t *slot = &trained->slots[i];
        if (!*slot)
            return slot;
        const eitp__trained_token *token = &trained->tokens[*slot - 1];
        if (token->size == size && !memcmp(trained->text.data + token->offset, bytes, size))
            return slot;
    }
}

static int eitp__trained_grow_slots(eitp__trained *trained) {
    size_t slot_count = trained->slot_count ? 2 * trained->slot_count : 4096;
    uint32_t *slots = (uint32_t *)eitp__allocate(trained->host, slot_count * sizeof *slots);
    if (!slots)
        return 0;
    eitp__release(trained->host, trained->slots, trained->slot_count * sizeof *slots);
    trained->slots = slots;
    trained->slot_count = slot_count;
    for (size_t i = 0; i < trained->token_count; i++) {
        const eitp__trained_token *token = &trained->tokens[i];
        *eitp__trained_slot(trained, trained->text.data + token->offset, token->size) = (uint32_t)i + 1;
    }
    return 1;
}

/* Finds or adds the token whose text is the end of trained->text from `offset` on. If the token is known, removes the
   text again. Returns -1 if out of memory. */
static int32_t eitp__trained_token_id(eitp__trained *trained, size_t offset) {
    const size_t size = trained->text.size - offset;
    if (trained->text.failed ||
        (2 * (trained->token_count + 1) > trained->slot_count && !eitp__trained_grow_slots(trained)) ||
        !eitp__reserve(trained->host, (void **)&trained->tokens, &trained->token_capacity, trained->token_count + 1,
                       sizeof *trained->tokens))
        return -1;
    uint32_t *slot = eitp__trained_slot(trained, trained->text.data + offset, size);
    if (*slot) {
        trained->text.size = offset;
        return (int32_t)*slot - 1;
    }
    trained->tokens[trained->token_count].offset = offset;
    trained->tokens[trained->token_count].size = size;
    *slot = (uint32_t)++trained->token_count;
    return (int32_t)*slot - 1;
}

/* Adds the 256 bytes, in the order of their characters in files. */
static int eitp__trained_begin(eitp__trained *trained, int32_t *byte_ids) {
    for (uint32_t character = 0; trained->token_count < 256; character++) {
        int byte = eitp__character_to_byte(character);
        if (byte < 0)
            continue;
        const unsigned char value = (unsigned char)byte;
        const size_t offset = trained->text.size;
        eitp__buffer_add(&trained->text, &value, 1);
        byte_ids[byte] = eitp__trained_token_id(trained, offset);
        if (byte_ids[byte] < 0)
            return 0;
    }
    return 1;
}

/* Adds the merge of two tokens. Returns the merged token, or -1 if out of memory. */
static int32_t eitp__trained_merge(eitp__trained *trained, int32_t left, int32_t right) {
    const size_t offset = trained->text.size;
    const eitp__trained_token first = trained->tokens[left], second = trained->tokens[right];
    size_t capacity = trained->text.capacity;
    /* Reserve first, because growing the buffer must not move the text being copied. */
    if (!eitp__reserve(trained->host, (void **)&trained->text.data, &capacity, offset + first.size + second.size + 1,
                       1))
        return -1;
    trained->text.capacity = capacity;
    eitp__buffer_add(&trained->text, trained->text.data + first.offset, first.size);
    eitp__buffer_add(&trained->text, trained->text.data + second.offset, second.size);
    int32_t result = eitp__trained_token_id(trained, offset);
    if (result < 0 || !eitp__reserve(trained->host, (void **)&trained->merges, &trained->merge_capacity,
                                     trained->merge_count + 1, sizeof *trained->merges))
        return -1;
    eitp__merge *merge = &trained->merges[trained->merge_count++];
    merge->left = left;
    merge->right = right;
    merge->result = result;
    return result;
}

EITP__PRIVATE eitp_status eitp__train_merges(eitp__trained *trained, const eitp__words *words, size_t token_limit,
                                             uint64_t minimum_frequency, eitp_error *error) {
    eitp__merge_trainer trainer = EITP__ZERO;
    int32_t byte_ids[256];
    memset(trained, 0, sizeof *trained);
    trained->host = trainer.host = words->host;
    eitp__buffer_init(&trained->text, words->host);
    trainer.words = words;
    int fits = eitp__trained_begin(trained, byte_ids) && eitp__train_begin(&trainer, byte_ids);
    while (fits && trained->token_count < token_limit && trainer.heap_count) {
        const eitp__train_entry top = eitp__train_pop(&trainer);
        const eitp__train_pair pair = trainer.pairs[top.pair];
        if (top.count != pair.count) {
            fits = !pair.count || eitp__train_push(&trainer, top.pair);
            continue;
        }
        if (!pair.count || pair.count < minimum_frequency)
            break;
        int32_t result = eitp__trained_merge(trained, pair.left, pair.right);
        fits = result >= 0 && eitp__train_merge(&trainer, top.pair, result);
    }
    eitp__merge_trainer_release(&trainer);
    return fits ? EITP_OK : eitp__train_fail(error);
}
