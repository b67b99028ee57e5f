/*
 * Shared by the attention kernels: the rows of a block, operands of each head, and dropout.
 *
 * The host defines HEAD_WIDTH; DROPS, 1 with dropout; ROTATES; BACKWARD; CACHED, 1 if keys and values are in a cache.
 */
#ifndef EITP_CUDA_ATTENTION_H
#define EITP_CUDA_ATTENTION_H

#include "kernels/cuda/call.h"

#ifndef HEAD_WIDTH
#define HEAD_WIDTH 64
#define DROPS 0
#define ROTATES 0
#define BACKWARD 0
#endif
#ifndef CACHED
#define CACHED 0
#endif
#ifndef ALIGNED
#define ALIGNED 1
#endif

/* True if rows of 16-bit elements can be read and written in chunks of 16 bytes. */
#define HAS_CHUNKS (HEAD_WIDTH % 8 == 0 && ALIGNED)

enum { ROTATION = CACHED ? (int)EITP__CACHED_ROTATION : (int)EITP__ATTENTION_ROTATION };

/* A block of columns of an operand, with `stride` elements per row of the operand. */
template <class T> struct matrix {
    global<T> data;
    int64_t stride;
};

DEVICE int64_t heads_of(const eitp__launch &l) {
    return l.call.integers[0];
}
DEVICE int64_t key_heads_of(const eitp__launch &l) {
    return l.call.integers[CACHED ? 1 : 4];
}
DEVICE int is_causal(const eitp__launch &l) {
    return CACHED || !l.call.integers[3];
}
/* No sequence is as long. Positions plus the window are below 2^31. */
enum { LONGEST_WINDOW = 1 << 30 };
DEVICE int window_of(const eitp__launch &l) {
    const int64_t window = l.call.integers[CACHED ? 2 : 5];
    return window > 0 && window < LONGEST_WINDOW ? (int)window : LONGEST_WINDOW;
}

/*
 * Returns the columns of a head of queries (part 0), keys (1) or values (2). The three are joined in x, or are x, y and
 * z.
 */
template <class T>
DEVICE matrix<T> part_of(const eitp__launch &l, int part, int64_t head, global<T> x, global<T> y, global<T> z) {
    const int64_t heads = heads_of(l), key_heads = key_heads_of(l);
    matrix<T> columns;
    if (has_input(l, EITP__ATTENTION_K)) {
        columns.data = (part == 0 ? x : part == 1 ? y : z) + head * HEAD_WIDTH;
        columns.stride = (part ? key_heads : heads) * HEAD_WIDTH;
    } else {
        columns.data = x + (head + (part ? heads + (part - 1) * key_heads : 0)) * HEAD_WIDTH;
        columns.stride = (heads + 2 * key_heads) * HEAD_WIDTH;
    }
    return columns;
}
DEVICE matrix<const scalar> input_part(const eitp__launch &l, int part, int64_t head) {
    return part_of<const scalar>(l, part, head, input<scalar>(l, 0), input<scalar>(l, EITP__ATTENTION_K),
                                 input<scalar>(l, EITP__ATTENTION_V));
}
DEVICE matrix<scalar> gradient_part(const eitp__launch &l, int part, int64_t head) {
    return part_of<scalar>(l, part, head, output<scalar>(l, 0), output<scalar>(l, 1), output<scalar>(l, 2));
}

/* Returns the columns of a head of x [rows, heads width]. */
template <class T> DEVICE matrix<T> head_of(global<T> x, int64_t heads, int64_t head) {
    matrix<T> columns;
    columns.data = x + head * HEAD_WIDTH;
    columns.stride = heads * HEAD_WIDTH;
    return columns;
}

/* ---- Rows ---- */

/*
 * The work of a block: a tile of the rows of one head and sequence. Tiles with the most work come first, so that the
 * last blocks of a launch are short: with causal attention the last queries, which see most keys, and the first keys.
 */
struct place {
    int64_t sequence, head;
    int tile, tiles;
};

DEVICE place place_of(const eitp__launch &l, int64_t heads) {
    const int64_t sequences = CACHED ? 1 : l.call.inputs[EITP__ATTENTION_OFFSETS].elements - 1, block = block_index();
    place at;
    at.tiles = (int)(block_count() / (sequences * heads));
    at.tile = (int)(block % at.tiles);
    at.head = block / at.tiles % heads;
    at.sequence = block / at.tiles / heads;
    return at;
}
DEVICE place place_of_queries(const eitp__launch &l) {
    place at = place_of(l, heads_of(l));
    at.tile = at.tiles - 1 - at.tile;
    return at;
}
DEVICE place place_of_keys(const eitp__launch &l) {
    return place_of(l, key_heads_of(l));
}

/* Rows [begin, end) attend to each other. The other rows of [first, stop) attend to nothing. */
struct sequence {
    int64_t first, begin, end, stop;
    int shift; /* number of cached positions before the first query */
};

#if CACHED
/* Returns the rows whose positions are in the cache. */
DEVICE sequence sequence_of(const eitp__launch &l, int64_t index, shared<int32_t> scratch) {
    const int64_t position = input<int32_t>(l, EITP__CACHED_POSITION)[0], longest = l.call.outputs[1].shape[0];
    sequence rows;
    (void)index;
    (void)scratch;
    rows.first = 0;
    rows.stop = first_dimension(l, l.call.inputs[0]);
    rows.begin = position < 0 ? -position : 0;
    rows.begin = rows.begin < rows.stop ? rows.begin : rows.stop;
    rows.end = longest - position < rows.stop ? longest - position : rows.stop;
    rows.end = rows.end > rows.begin ? rows.end : rows.begin;
    rows.shift = (int)(position + rows.begin);
    return rows;
}
#else
/*
 * Returns the rows of a sequence. Offsets and lengths are data, so offsets are clamped to the rows of the call and made
 * ascending, and lengths are clamped to the longest sequence. `scratch` has 32 elements.
 */
DEVICE sequence sequence_of(const eitp__launch &l, int64_t index, shared<int32_t> scratch) {
    const global<const int32_t> offsets = input<int32_t>(l, EITP__ATTENTION_OFFSETS);
    const int64_t total = first_dimension(l, l.call.inputs[0]);
    int64_t longest = l.call.integers[1];
    int32_t begin = 0;
    sequence rows;
    for (int64_t i = thread_index(); i <= index; i += thread_count())
        begin = larger(begin, (int32_t)offsets[i]);
    begin = block_max(begin, scratch);
    rows.begin = begin < total ? begin : total;
    rows.stop = offsets[index + 1];
    rows.stop = rows.stop < total ? rows.stop : total;
    rows.stop = rows.stop > rows.begin ? rows.stop : rows.begin;
    if (has_input(l, EITP__ATTENTION_LENGTHS)) {
        const int32_t length = input<int32_t>(l, EITP__ATTENTION_LENGTHS)[index];
        longest = length < longest ? length > 0 ? length : 0 : longest;
    }
    rows.end = rows.stop - rows.begin < longest ? rows.stop : rows.begin + longest;
    rows.first = index ? rows.begin : 0;
    rows.stop = index + 2 < l.call.inputs[EITP__ATTENTION_OFFSETS].elements ? rows.stop : total;
    rows.shift = 0;
    return rows;
}
#endif

/* Zeroes this block's share of the rows that attend to nothing. */
template <class T> DEVICE void clear_rows(const sequence &rows, const place &at, const matrix<T> &x, int width) {
    for (int64_t i = rows.first + at.tile; i < rows.stop; i += at.tiles) {
        if (i >= rows.begin && i < rows.end) /* continue after them */
            i += (rows.end - i + at.tiles - 1) / at.tiles * at.tiles;
        for (int k = thread_index(); k < width && i < rows.stop; k += thread_count())
            x.data[i * x.stride + k] = T();
    }
}

/* ---- Queries and keys, by their positions in the sequence ---- */

struct visibility {
    int causal, window, keys; /* keys: number of keys */
};

DEVICE visibility visibility_of(const eitp__launch &l, const sequence &rows) {
    visibility sees;
    sees.causal = is_causal(l);
    sees.window = window_of(l);
    sees.keys = rows.shift + (int)(rows.end - rows.begin);
    return sees;
}

/* Positions [first, end). */
struct range {
    int first, end;
};
DEVICE int is_within(const range &positions, int i) {
    return i >= positions.first && i < positions.end;
}

/* Return the keys that a query sees, and the queries that see a key. */
DEVICE range keys_seen_by(const visibility &sees, int query) {
    range keys = {0, sees.keys};
    if (sees.causal) {
        keys.first = query - sees.window + 1;
        keys.end = query < sees.keys ? query + 1 : sees.keys;
    }
    return keys;
}
DEVICE range queries_that_see(const visibility &sees, int key) {
    range queries = {0, key < sees.keys ? INT32_MAX : 0};
    if (sees.causal) {
        queries.first = key;
        queries.end = key < sees.keys ? key + sees.window : 0;
    }
    return queries;
}
DEVICE int is_seen(const visibility &sees, int query, int key) {
    return is_within(keys_seen_by(sees, query), key);
}

/* True if some, and if all, of `queries` queries from `query` see some, or all, of `keys` keys from `key`. */
DEVICE int some_seen(const visibility &sees, int query, int queries, int key, int keys) {
    return key < sees.keys && (!sees.causal || (key < query + queries && query - (key + keys - 1) < sees.window));
}
DEVICE int all_seen(const visibility &sees, int query, int queries, int key, int keys) {
    return key + keys <= sees.keys &&
           (!sees.causal || (key + keys - 1 <= query && query + queries - 1 - key < sees.window));
}

/*
 * Return the range [first, last) of keys that some of `queries` queries from `query` may see. The first is a multiple
 * of `step`.
 */
DEVICE int first_key(const visibility &sees, int query, int step) {
    return sees.causal && query >= sees.window ? (query - sees.window + 1) / step * step : 0;
}
DEVICE int last_key(const visibility &sees, int query, int queries) {
    return sees.causal && query + queries < sees.keys ? query + queries : sees.keys;
}

/*
 * Return the range [first, last) of queries that may see some of `keys` keys from `key`, which is a multiple of the
 * step.
 */
DEVICE int first_query(const visibility &sees, int key) {
    return sees.causal ? key : 0;
}
DEVICE int last_query(const visibility &sees, int key, int keys) {
    return sees.causal && sees.keys - (key + keys - 1) > sees.window ? key + keys - 1 + sees.window : sees.keys;
}

/* ---- Dropout ---- */

struct dropout {
    uint64_t seed, step;
    uint64_t first;             /* random number of the sequence's first query and key */
    uint64_t row;               /* random numbers from one query to the next */
    uint32_t stream, threshold; /* an element is dropped if its 24 random bits are below the threshold */
};

DEVICE dropout dropout_of(const eitp__launch &l, int64_t head, int64_t first_row) {
    dropout drop = {};
#if DROPS
    const global<const int64_t> key = input<int64_t>(l, EITP__ATTENTION_KEY);
    drop.seed = (uint64_t)(int64_t)key[0];
    drop.step = (uint64_t)(int64_t)key[1];
    drop.row = (uint64_t)heads_of(l) * (uint64_t)l.call.integers[1];
    drop.first = (uint64_t)((int64_t)key[2] + first_row) * drop.row + (uint64_t)(head * l.call.integers[1]);
    drop.stream = (uint32_t)l.call.integers[2];
    drop.threshold = (uint32_t)ceilf((float)l.call.reals[1] * 16777216.0f);
#else
    (void)l;
    (void)head;
    (void)first_row;
#endif
    return drop;
}

/* Returns the factor of the elements that are kept. */
DEVICE float kept_factor(const eitp__launch &l) {
    return DROPS ? (float)(1 / (1 - l.call.reals[1])) : 1.0f;
}

/* Bit i is set if the probability of a query for key `key` + i is kept, for four keys. */
DEVICE uint32_t kept_of(const dropout &drop, int query, int key) {
    const uint64_t index = drop.first + (uint64_t)query * drop.row + (uint64_t)key;
    const int skipped = (int)(index & 3);
    uint32_t kept = 0;
    for (int part = 0; part < (skipped ? 2 : 1); part++) {
        uint32_t words[4];
        eitp__philox(drop.seed, drop.step, drop.stream, (index >> 2) + (uint64_t)part, words);
        for (int i = 0; i < 4; i++)
            kept |= (uint32_t)(words[i] >> 8 >= drop.threshold) << (4 * part + i);
    }
    return kept >> skipped & 15;
}

#endif
