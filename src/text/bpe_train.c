/*
 * Every place of every distinct piece is in the list of the pair that begins there, so that a merge touches only the
 * places it changes, and the heap gives the most frequent pair. A count in the heap may be out of date, never too
 * small; it is checked when it comes to the top.
 */
#include "text/bpe_train.h"

#include "base/log.h"
#include "base/sort.h"
#include "base/status.h"
#include "text/tokenizer.h"

#define EITP__NOWHERE UINT32_MAX

typedef struct eitp__train_pair {
    int32_t left, right;
    uint64_t count;       /* occurrences in the text */
    uint32_t first, last; /* the list of places */
    uint32_t touched;     /* the merge that last added to it */
} eitp__train_pair;

typedef struct eitp__train_entry {
    uint64_t count;
    uint32_t pair;
} eitp__train_entry;

typedef struct eitp__train_place {
    int32_t symbol; /* the token that begins here, -1 where none does */
    uint32_t word;
    uint32_t next, previous;           /* in the piece */
    uint32_t list_next, list_previous; /* in the list of the pair */
} eitp__train_place;

typedef struct eitp__merge_trainer {
    const eitp_host *host;
    const eitp__words *words;
    eitp__train_place *places;
    size_t place_count;
    eitp__train_pair *pairs;
    size_t pair_count, pair_capacity;
    uint32_t *slots; /* open addressing: pair + 1, or 0 where the slot is free */
    size_t slot_count;
    eitp__train_entry *heap;
    size_t heap_count, heap_capacity;
    uint32_t *todo; /* the places of the pair being merged, later the pairs that the merge added to */
    size_t todo_capacity;
    uint32_t *added;
    size_t added_count, added_capacity;
    uint32_t round;
} eitp__merge_trainer;

static eitp_status eitp__train_fail(eitp_error *error) {
    return eitp__fail(error, EITP_ERROR_MEMORY,
                      "memory ran out while learning merges; train on less text or with a smaller memory_limit");
}

static void eitp__merge_trainer_release(eitp__merge_trainer *trainer) {
    const eitp_host *host = trainer->host;
    eitp__release(host, trainer->places, trainer->place_count * sizeof *trainer->places);
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

/* The pair, made where it is new; NULL where memory runs out. */
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

/* The pair of `place` and what follows it gets or loses this place. */
static eitp__train_pair *eitp__train_link(eitp__merge_trainer *trainer, uint32_t place) {
    eitp__train_place *at = &trainer->places[place];
    eitp__train_pair *pair = eitp__train_pair_of(trainer, at->symbol, trainer->places[at->next].symbol);
    if (!pair)
        return NULL;
    at->list_next = EITP__NOWHERE;
    at->list_previous = pair->last;
    if (pair->last == EITP__NOWHERE)
        pair->first = place;
    else
        trainer->places[pair->last].list_next = place;
    pair->last = place;
    pair->count += trainer->words->words[at->word].count;
    return pair;
}

static void eitp__train_unlink(eitp__merge_trainer *trainer, uint32_t place) {
    const eitp__train_place *at = &trainer->places[place];
    eitp__train_pair *pair =
        &trainer->pairs[*eitp__train_slot(trainer, at->symbol, trainer->places[at->next].symbol) - 1];
    if (at->list_previous == EITP__NOWHERE)
        pair->first = at->list_next;
    else
        trainer->places[at->list_previous].list_next = at->list_next;
    if (at->list_next == EITP__NOWHERE)
        pair->last = at->list_previous;
    else
        trainer->places[at->list_next].list_previous = at->list_previous;
    pair->count -= trainer->words->words[at->word].count;
}

/* Whether `a` is merged before `b`: the more frequent pair first, then the one with the smaller ids. */
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

/* Places, pairs and heap of the words as bytes. `byte_ids` says which token each byte is. */
static int eitp__train_begin(eitp__merge_trainer *trainer, const int32_t *byte_ids) {
    const eitp__words *words = trainer->words;
    uint32_t place = 0;
    trainer->places =
        (eitp__train_place *)eitp__allocate_uninitialized(trainer->host, words->text_size * sizeof *trainer->places);
    if (words->text_size && !trainer->places)
        return 0;
    trainer->place_count = words->text_size;
    for (size_t i = 0; i < words->count; i++) {
        const uint32_t begin = place, end = begin + words->words[i].size;
        for (; place < end; place++) {
            eitp__train_place *at = &trainer->places[place];
            at->symbol = byte_ids[words->text[words->words[i].offset + (place - begin)]];
            at->word = (uint32_t)i;
            at->previous = place > begin ? place - 1 : EITP__NOWHERE;
            at->next = place + 1 < end ? place + 1 : EITP__NOWHERE;
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

static int eitp__train_compare_places(const void *a, const void *b) {
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

/* Copies the places of a pair to `todo`, from the first to the last in each piece: in "aaa" the first two merge. */
static int eitp__train_list_places(eitp__merge_trainer *trainer, uint32_t pair, size_t *count) {
    int sorted = 1;
    *count = 0;
    for (uint32_t place = trainer->pairs[pair].first; place != EITP__NOWHERE;
         place = trainer->places[place].list_next) {
        if (!eitp__reserve(trainer->host, (void **)&trainer->todo, &trainer->todo_capacity, *count + 1,
                           sizeof *trainer->todo))
            return 0;
        sorted = sorted && (!*count || trainer->todo[*count - 1] < place);
        trainer->todo[(*count)++] = place;
    }
    if (!sorted)
        eitp__sort(trainer->todo, *count, sizeof *trainer->todo, eitp__train_compare_places);
    return 1;
}

/* Links a place whose pair has changed, and notes that pair. */
static int eitp__train_relink(eitp__merge_trainer *trainer, uint32_t place) {
    eitp__train_pair *pair = eitp__train_link(trainer, place);
    if (!pair)
        return 0;
    if (pair->touched == trainer->round)
        return 1;
    pair->touched = trainer->round;
    if (!eitp__reserve(trainer->host, (void **)&trainer->added, &trainer->added_capacity, trainer->added_count + 1,
                       sizeof *trainer->added))
        return 0;
    trainer->added[trainer->added_count++] = (uint32_t)(pair - trainer->pairs);
    return 1;
}

/* The token at `place` and the one after it become `result`. */
static int eitp__train_merge_place(eitp__merge_trainer *trainer, uint32_t place, int32_t result) {
    eitp__train_place *places = trainer->places;
    const uint32_t right = places[place].next, before = places[place].previous, after = places[right].next;
    eitp__train_unlink(trainer, place);
    if (before != EITP__NOWHERE)
        eitp__train_unlink(trainer, before);
    if (after != EITP__NOWHERE)
        eitp__train_unlink(trainer, right);
    places[place].symbol = result;
    places[place].next = after;
    places[right].symbol = -1;
    if (after != EITP__NOWHERE)
        places[after].previous = place;
    if (before != EITP__NOWHERE && !eitp__train_relink(trainer, before))
        return 0;
    return after == EITP__NOWHERE || eitp__train_relink(trainer, place);
}

static int eitp__train_merge(eitp__merge_trainer *trainer, uint32_t pair, int32_t result) {
    const int32_t left = trainer->pairs[pair].left, right = trainer->pairs[pair].right;
    size_t count;
    trainer->round++;
    trainer->added_count = 0;
    if (!eitp__train_list_places(trainer, pair, &count))
        return 0;
    for (size_t i = 0; i < count; i++) {
        const eitp__train_place *at = &trainer->places[trainer->todo[i]];
        /* The place before it may have taken this one, or the one after. */
        if (at->symbol != left || at->next == EITP__NOWHERE || trainer->places[at->next].symbol != right)
            continue;
        if (!eitp__train_merge_place(trainer, trainer->todo[i], result))
            return 0;
    }
    for (size_t i = 0; i < trainer->added_count; i++) {
        if (!eitp__train_push(trainer, trainer->added[i]))
            return 0;
    }
    return 1;
}

EITP__PRIVATE void eitp__learnt_release(eitp__learnt *learnt) {
    eitp__buffer_release(&learnt->text);
    eitp__release(learnt->host, learnt->tokens, learnt->token_capacity * sizeof *learnt->tokens);
    eitp__release(learnt->host, learnt->merges, learnt->merge_capacity * sizeof *learnt->merges);
    eitp__release(learnt->host, learnt->slots, learnt->slot_count * sizeof *learnt->slots);
}

/* The slot of the token whose text is the last `size` bytes of learnt->text, or the free slot where it belongs. */
static uint32_t *eitp__learnt_slot(const eitp__learnt *learnt, const char *bytes, size_t size) {
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001B3u;
    hash ^= hash >> 32;
    for (size_t i = (size_t)hash & (learnt->slot_count - 1);; i = (i + 1) & (learnt->slot_count - 1)) {
        uint32_t *slot = &learnt->slots[i];
        if (!*slot)
            return slot;
        const eitp__learnt_token *token = &learnt->tokens[*slot - 1];
        if (token->size == size && !memcmp(learnt->text.data + token->offset, bytes, size))
            return slot;
    }
}

static int eitp__learnt_grow_slots(eitp__learnt *learnt) {
    size_t slot_count = learnt->slot_count ? 2 * learnt->slot_count : 4096;
    uint32_t *slots = (uint32_t *)eitp__allocate(learnt->host, slot_count * sizeof *slots);
    if (!slots)
        return 0;
    eitp__release(learnt->host, learnt->slots, learnt->slot_count * sizeof *slots);
    learnt->slots = slots;
    learnt->slot_count = slot_count;
    for (size_t i = 0; i < learnt->token_count; i++) {
        const eitp__learnt_token *token = &learnt->tokens[i];
        *eitp__learnt_slot(learnt, learnt->text.data + token->offset, token->size) = (uint32_t)i + 1;
    }
    return 1;
}

/* The id of the token that is the end of learnt->text from `offset` on. Where it is known already, the text is taken
   back. Returns -1 where memory runs out. */
static int32_t eitp__learnt_token_id(eitp__learnt *learnt, size_t offset) {
    const size_t size = learnt->text.size - offset;
    if (learnt->text.failed ||
        (2 * (learnt->token_count + 1) > learnt->slot_count && !eitp__learnt_grow_slots(learnt)) ||
        !eitp__reserve(learnt->host, (void **)&learnt->tokens, &learnt->token_capacity, learnt->token_count + 1,
                       sizeof *learnt->tokens))
        return -1;
    uint32_t *slot = eitp__learnt_slot(learnt, learnt->text.data + offset, size);
    if (*slot) {
        learnt->text.size = offset;
        return (int32_t)*slot - 1;
    }
    learnt->tokens[learnt->token_count].offset = offset;
    learnt->tokens[learnt->token_count].size = size;
    *slot = (uint32_t)++learnt->token_count;
    return (int32_t)*slot - 1;
}

/* The 256 bytes, in the order of the characters that files spell them with. */
static int eitp__learnt_begin(eitp__learnt *learnt, int32_t *byte_ids) {
    for (uint32_t character = 0; learnt->token_count < 256; character++) {
        int byte = eitp__character_to_byte(character);
        if (byte < 0)
            continue;
        const unsigned char value = (unsigned char)byte;
        const size_t offset = learnt->text.size;
        eitp__buffer_add(&learnt->text, &value, 1);
        byte_ids[byte] = eitp__learnt_token_id(learnt, offset);
        if (byte_ids[byte] < 0)
            return 0;
    }
    return 1;
}

/* Adds the merge of two tokens; returns the token that it makes, -1 where memory runs out. */
static int32_t eitp__learnt_merge(eitp__learnt *learnt, int32_t left, int32_t right) {
    const size_t offset = learnt->text.size;
    const eitp__learnt_token first = learnt->tokens[left], second = learnt->tokens[right];
    size_t capacity = learnt->text.capacity;
    /* Room first: what is added must not move while it is read. */
    if (!eitp__reserve(learnt->host, (void **)&learnt->text.data, &capacity, offset + first.size + second.size + 1, 1))
        return -1;
    learnt->text.capacity = capacity;
    eitp__buffer_add(&learnt->text, learnt->text.data + first.offset, first.size);
    eitp__buffer_add(&learnt->text, learnt->text.data + second.offset, second.size);
    int32_t result = eitp__learnt_token_id(learnt, offset);
    if (result < 0 || !eitp__reserve(learnt->host, (void **)&learnt->merges, &learnt->merge_capacity,
                                     learnt->merge_count + 1, sizeof *learnt->merges))
        return -1;
    eitp__merge *merge = &learnt->merges[learnt->merge_count++];
    merge->left = left;
    merge->right = right;
    merge->result = result;
    return result;
}

EITP__PRIVATE eitp_status eitp__learn_merges(eitp__learnt *learnt, const eitp__words *words, size_t token_limit,
                                             uint64_t minimum_frequency, eitp_error *error) {
    eitp__merge_trainer trainer = EITP__ZERO;
    int32_t byte_ids[256];
    memset(learnt, 0, sizeof *learnt);
    learnt->host = trainer.host = words->host;
    eitp__buffer_init(&learnt->text, words->host);
    trainer.words = words;
    int fits = eitp__learnt_begin(learnt, byte_ids) && eitp__train_begin(&trainer, byte_ids);
    while (fits && learnt->token_count < token_limit && trainer.heap_count) {
        const eitp__train_entry top = eitp__train_pop(&trainer);
        const eitp__train_pair pair = trainer.pairs[top.pair];
        if (top.count != pair.count) {
            fits = !pair.count || eitp__train_push(&trainer, top.pair);
            continue;
        }
        if (!pair.count || pair.count < minimum_frequency)
            break;
        int32_t result = eitp__learnt_merge(learnt, pair.left, pair.right);
        fits = result >= 0 && eitp__train_merge(&trainer, top.pair, result);
    }
    eitp__merge_trainer_release(&trainer);
    return fits ? EITP_OK : eitp__train_fail(error);
}

static eitp_status eitp__count_piece(void *user, const unsigned char *bytes, size_t size, int32_t id,
                                     eitp_error *error) {
    if (id >= 0 || size < 2) /* nothing to merge */
        return EITP_OK;
    return eitp__words_add((eitp__words *)user, bytes, size, error);
}

static eitp_status eitp__count_pieces(eitp__words *words, const eitp_text_source *source, eitp_error *error) {
    eitp__added_token end_of_text;
    eitp__splitter splitter;
    end_of_text.bytes = (const unsigned char *)EITP__END_OF_TEXT;
    end_of_text.size = strlen(EITP__END_OF_TEXT);
    end_of_text.id = 0;
    eitp__splitter_init(&splitter, words->host, &end_of_text, 1, 0, eitp__count_piece, words);
    eitp_status status = EITP_OK;
    while (status == EITP_OK) {
        const char *text = NULL;
        size_t size = 0;
        status = source->read(source->user, &text, &size, error);
        if (status == EITP_OK)
            status = text && size ? eitp__splitter_add(&splitter, (const unsigned char *)text, size, error)
                                  : eitp__splitter_finish(&splitter, error);
        if (!text)
            break;
    }
    eitp__splitter_release(&splitter);
    return status;
}

/* A merge that makes the text of <|endoftext|> cannot be: the splitter takes that out. */
static eitp_status eitp__tokenizer_from_learnt(const eitp__learnt *learnt, eitp_tokenizer **out, eitp_error *error) {
    eitp_status status = EITP_OK;
    eitp_tokenizer *tokenizer =
        eitp__tokenizer_begin(learnt->host, learnt->token_count + 1, learnt->merge_count, error);
    if (!tokenizer)
        return EITP_ERROR_MEMORY;
    for (size_t id = 0; id < learnt->token_count && status == EITP_OK; id++)
        status = eitp__tokenizer_put(tokenizer, id, learnt->text.data + learnt->tokens[id].offset,
                                     learnt->tokens[id].size, 0, error);
    if (status == EITP_OK)
        status = eitp__tokenizer_put(tokenizer, learnt->token_count, EITP__END_OF_TEXT, strlen(EITP__END_OF_TEXT),
                                     EITP__TOKEN_ADDED | EITP__TOKEN_SPECIAL, error);
    if (status == EITP_OK) {
        if (learnt->merge_count)
            memcpy(tokenizer->bpe.merges, learnt->merges, learnt->merge_count * sizeof *learnt->merges);
        status = eitp__tokenizer_complete(tokenizer, error);
    }
    if (status == EITP_OK)
        *out = tokenizer;
    else
        eitp_tokenizer_destroy(tokenizer);
    return status;
}

static eitp_status eitp__check_train_config(const eitp_tokenizer_train_config *config, eitp_error *error) {
    if (config->vocabulary_size < 257 || (size_t)config->vocabulary_size > EITP__VOCABULARY_LIMIT)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "a vocabulary_size of %ld cannot be had; it must be 257 (the bytes and %s) to %zu",
                          (long)config->vocabulary_size, EITP__END_OF_TEXT, EITP__VOCABULARY_LIMIT);
    if (config->minimum_frequency < 0)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "a minimum_frequency of %lld is negative; use 0 for any",
                          (long long)config->minimum_frequency);
    if (config->memory_limit && config->memory_limit < 1048576)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "a memory_limit of %llu bytes is too small; give at least 1048576",
                          (unsigned long long)config->memory_limit);
    return EITP_OK;
}

eitp_status eitp_tokenizer_train(const eitp_host *host, const eitp_tokenizer_train_config *config,
                                 const eitp_text_source *source, eitp_tokenizer **out, eitp_error *error) {
    const uint64_t limit_default = (uint64_t)512 << 20, limit_largest = (uint64_t)128 << 30; /* places have 32 bits */
    eitp__words words;
    eitp__learnt learnt;
    if (!host || !config || !source || !out)
        return eitp__fail_null(error, "eitp_tokenizer_train", "host, config, source and out");
    if (!source->read)
        return eitp__fail_null(error, "eitp_tokenizer_train", "source->read");
    *out = NULL;
    eitp_status status = eitp__check_train_config(config, error);
    if (status != EITP_OK)
        return status;
    const uint64_t limit = config->memory_limit ? config->memory_limit : limit_default;
    eitp__words_init(&words, host, limit < limit_largest ? limit : limit_largest);
    status = eitp__count_pieces(&words, source, error);
    if (status == EITP_OK && words.forgotten)
        eitp__log(host, EITP_LOG_WARNING,
                  "tokenizer: rare pieces with %llu occurrences were forgotten to stay within %llu bytes",
                  (unsigned long long)words.forgotten, (unsigned long long)words.limit);
    if (status == EITP_OK) {
        status = eitp__learn_merges(&learnt, &words, (size_t)config->vocabulary_size - 1,
                                    (uint64_t)config->minimum_frequency, error);
        if (status == EITP_OK)
            status = eitp__tokenizer_from_learnt(&learnt, out, error);
        eitp__learnt_release(&learnt);
    }
    if (status == EITP_OK)
        eitp__log(host, EITP_LOG_INFO, "tokenizer: %ld tokens learnt from %zu distinct pieces",
                  (long)eitp_tokenizer_size(*out), words.count);
    eitp__words_release(&words);
    return status;
}
