#include "text/bpe.h"

#include "base/memory.h"
#include "base/status.h"

/* Pieces of up to this many tokens are merged by scanning all pairs for each merge, which is faster for short
   pieces. */
enum { EITP__BPE_SHORT = 48 };

#define EITP__NO_PAIR UINT64_MAX
#define EITP__NO_RANK UINT32_MAX

static uint64_t eitp__pair_key(int32_t left, int32_t right) {
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static size_t eitp__pair_slot(uint64_t pair, size_t slot_count) {
    uint64_t hash = pair * 0x9E3779B97F4A7C15u;
    hash = (hash ^ hash >> 32) * 0xD6E8FEB86659FD93u;
    return (size_t)(hash >> 32) & (slot_count - 1);
}

EITP__PRIVATE eitp_status eitp__bpe_index(eitp__bpe *bpe, const eitp_host *host, eitp_error *error) {
    size_t slot_count = 16;
    while (slot_count < 2 * bpe->merge_count)
        slot_count *= 2;
    bpe->slots = (eitp__merge_slot *)eitp__allocate_uninitialized(host, slot_count * sizeof *bpe->slots);
    if (!bpe->slots)
        return eitp__fail_memory(error, slot_count * sizeof *bpe->slots, "the tokenizer's merges");
    bpe->slot_count = slot_count;
    for (size_t i = 0; i < slot_count; i++)
        bpe->slots[i].pair = EITP__NO_PAIR;
    for (size_t rank = 0; rank < bpe->merge_count; rank++) {
        const eitp__merge *merge = &bpe->merges[rank];
        uint64_t pair = eitp__pair_key(merge->left, merge->right);
        size_t i = eitp__pair_slot(pair, slot_count);
        while (bpe->slots[i].pair != EITP__NO_PAIR && bpe->slots[i].pair != pair)
            i = (i + 1) & (slot_count - 1);
        bpe->slots[i].pair = pair; /* the last of several merges with this pair counts, as in the library
                                      `tokenizers` */
        bpe->slots[i].rank = (uint32_t)rank;
        bpe->slots[i].result = merge->result;
    }
    return EITP_OK;
}

EITP__PRIVATE void eitp__bpe_release(eitp__bpe *bpe, const eitp_host *host) {
    eitp__release(host, bpe->merges, bpe->merge_count * sizeof *bpe->merges);
    eitp__release(host, bpe->slots, bpe->slot_count * sizeof *bpe->slots);
    bpe->merges = NULL;
    bpe->slots = NULL;
    bpe->merge_count = bpe->slot_count = 0;
}

EITP__PRIVATE const eitp__merge_slot *eitp__bpe_find(const eitp__bpe *bpe, int32_t left, int32_t right) {
    const uint64_t pair = eitp__pair_key(left, right);
    for (size_t i = eitp__pair_slot(pair, bpe->slot_count);; i = (i + 1) & (bpe->slot_count - 1)) {
        const eitp__merge_slot *slot = &bpe->slots[i];
        if (slot->pair == pair)
            return slot;
        if (slot->pair == EITP__NO_PAIR)
            return NULL;
    }
}

static void eitp__pair_look_up(const eitp__bpe *bpe, int32_t left, int32_t right, uint32_t *rank, int32_t *result) {
    const eitp__merge_slot *slot = eitp__bpe_find(bpe, left, right);
    *rank = slot ? slot->rank : EITP__NO_RANK;
    *result = slot ? slot->result : -1;
}

/* Merges a short piece. `size` is at most EITP__BPE_SHORT. */
static size_t eitp__bpe_merge_short(const eitp__bpe *bpe, int32_t *ids, size_t size) {
    uint32_t ranks[EITP__BPE_SHORT]; /* rank of the pair that starts at each symbol */
    int32_t results[EITP__BPE_SHORT];
    size_t count = size;
    for (size_t i = 0; i + 1 < count; i++)
        eitp__pair_look_up(bpe, ids[i], ids[i + 1], &ranks[i], &results[i]);
    for (;;) {
        size_t best = 0;
        uint32_t best_rank = EITP__NO_RANK;
        for (size_t i = 0; i + 1 < count; i++) {
            if (ranks[i] < best_rank) {
                best_rank = ranks[i];
                best = i;
            }
        }
        if (best_rank == EITP__NO_RANK)
            return count;
        ids[best] = results[best];
        count--;
        for (size_t i = best + 1; i < count; i++) {
            ids[i] = ids[i + 1];
            ranks[i] = ranks[i + 1];
            results[i] = results[i + 1];
        }
        if (best + 1 < count)
            eitp__pair_look_up(bpe, ids[best], ids[best + 1], &ranks[best], &results[best]);
        if (best)
            eitp__pair_look_up(bpe, ids[best - 1], ids[best], &ranks[best - 1], &results[best - 1]);
    }
}

/*
 * A long piece: a linked list of symbols, and a heap of the pairs that can merge, by rank and then position. Heap
 * entries may be outdated; this is checked when they reach the top. 2 * size entries are enough: there are at most size
 * - 1 pairs at first, and each of at most size - 1 merges removes one entry and adds two.
 */
typedef struct eitp__bpe_chain {
    const eitp__bpe *bpe;
    int32_t *ids; /* token of the symbol that starts at each position; -1 if none does */
    int32_t *next, *previous;
    uint64_t *heap; /* rank << 32 | position of the left symbol */
    size_t heap_count;
} eitp__bpe_chain;

static void eitp__chain_push(eitp__bpe_chain *chain, int32_t position) {
    int32_t right = chain->next[position];
    if (right < 0)
        return;
    const eitp__merge_slot *slot = eitp__bpe_find(chain->bpe, chain->ids[position], chain->ids[right]);
    if (!slot)
        return;
    const uint64_t entry = (uint64_t)slot->rank << 32 | (uint32_t)position;
    uint64_t *heap = chain->heap;
    size_t i = chain->heap_count++;
    while (i && heap[(i - 1) / 2] > entry) {
        heap[i] = heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap[i] = entry;
}

static uint64_t eitp__chain_pop(eitp__bpe_chain *chain) {
    uint64_t *heap = chain->heap;
    const uint64_t top = heap[0], last = heap[--chain->heap_count];
    const size_t count = chain->heap_count;
    size_t i = 0;
    for (size_t child = 1; child < count; child = 2 * i + 1) {
        if (child + 1 < count && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= last)
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return top;
}

static void eitp__chain_merge(eitp__bpe_chain *chain, uint64_t entry) {
    const int32_t position = (int32_t)(uint32_t)entry;
    if (chain->ids[position] < 0 || chain->next[position] < 0)
        return;
    const int32_t right = chain->next[position];
    const eitp__merge_slot *slot = eitp__bpe_find(chain->bpe, chain->ids[position], chain->ids[right]);
    if (!slot || slot->rank != (uint32_t)(entry >> 32))
        return;
    chain->ids[position] = slot->result;
    chain->ids[right] = -1;
    chain->next[position] = chain->next[right];
    if (chain->next[position] >= 0)
        chain->previous[chain->next[position]] = position;
    if (chain->previous[position] >= 0)
        eitp__chain_push(chain, chain->previous[position]);
    eitp__chain_push(chain, position);
}

static size_t eitp__bpe_merge_long(const eitp__bpe *bpe, void *memory, int32_t *ids, size_t size) {
    eitp__bpe_chain chain;
    chain.bpe = bpe;
    chain.heap = (uint64_t *)memory;
    chain.heap_count = 0;
    chain.next = (int32_t *)(chain.heap + 2 * size);
    chain.previous = chain.next + size;
    chain.ids = ids;
    for (size_t i = 0; i < size; i++) {
        chain.next[i] = i + 1 < size ? (int32_t)(i + 1) : -1;
        chain.previous[i] = (int32_t)i - 1;
    }
    for (size_t i = 0; i + 1 < size; i++)
        eitp__chain_push(&chain, (int32_t)i);
    while (chain.heap_count)
        eitp__chain_merge(&chain, eitp__chain_pop(&chain));
    size_t count = 0;
    for (size_t i = 0; i < size; i++) {
        if (ids[i] >= 0)
            ids[count++] = ids[i];
    }
    return count;
}

EITP__PRIVATE void eitp__bpe_workspace_release(eitp__bpe_workspace *workspace, const eitp_host *host) {
    eitp__release(host, workspace->memory, workspace->size);
    workspace->memory = NULL;
    workspace->size = 0;
}

EITP__PRIVATE eitp_status eitp__bpe_merge(const eitp__bpe *bpe, const eitp_host *host, eitp__bpe_workspace *workspace,
                                          int32_t *ids, size_t count, size_t *merged, eitp_error *error) {
    if (count <= EITP__BPE_SHORT) {
        *merged = eitp__bpe_merge_short(bpe, ids, count);
        return EITP_OK;
    }
    size_t needed = count * (2 * sizeof(uint64_t) + 2 * sizeof(int32_t));
    if (workspace->size < needed) {
        eitp__bpe_workspace_release(workspace, host);
        workspace->memory = eitp__allocate_uninitialized(host, needed);
        if (!workspace->memory)
            return eitp__fail_memory(error, needed, "a long piece of text");
        workspace->size = needed;
    }
    *merged = eitp__bpe_merge_long(bpe, workspace->memory, ids, count);
    return EITP_OK;
}

/* Stores the tokens of bytes, some of which may have none, and returns the number of tokens. */
static size_t eitp__known_symbols(const eitp__bpe *bpe, const unsigned char *bytes, size_t size, int32_t *ids) {
    size_t count = 0;
    int is_after_unknown = 0;
    for (size_t i = 0; i < size; i++) {
        const int32_t id = bpe->byte_ids[bytes[i]];
        if (id >= 0)
            ids[count++] = id;
        else if (bpe->unknown >= 0 && !(is_after_unknown && bpe->fuses_unknown))
            ids[count++] = bpe->unknown;
        is_after_unknown = id < 0;
    }
    return count;
}

EITP__PRIVATE eitp_status eitp__bpe_encode(const eitp__bpe *bpe, const eitp_host *host, eitp__bpe_workspace *workspace,
                                           const unsigned char *bytes, size_t size, int32_t *ids, size_t *count,
                                           eitp_error *error) {
    size_t symbols = size;
    if (bpe->lacks_bytes) {
        symbols = eitp__known_symbols(bpe, bytes, size, ids);
    } else {
        for (size_t i = 0; i < size; i++)
            ids[i] = bpe->byte_ids[bytes[i]];
    }
    return eitp__bpe_merge(bpe, host, workspace, ids, symbols, count, error);
}

/* Bytes that are not visible Latin-1 characters (0 to 32, 127 to 160 and 173) map to U+0100 and above, in this
   order. */
EITP__PRIVATE uint32_t eitp__byte_to_character(unsigned char byte) {
    if (byte <= 32)
        return 256u + byte;
    if (byte >= 127 && byte <= 160)
        return 289u + (byte - 127u);
    return byte == 173 ? 323u : byte;
}

EITP__PRIVATE int eitp__character_to_byte(uint32_t code_point) {
    if (code_point >= 256 && code_point <= 288)
        return (int)code_point - 256;
    if (code_point >= 289 && code_point <= 322)
        return (int)code_point - 289 + 127;
    if (code_point == 323)
        return 173;
    return code_point <= 255 && eitp__byte_to_character((unsigned char)code_point) == code_point ? (int)code_point : -1;
}
