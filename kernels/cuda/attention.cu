/*
 * Attention on tensor cores (FlashAttention-2: Dao, arXiv 2307.08691). A block owns a tile of queries, or a tile of
 * keys when it computes the gradient of keys and values, and steps through the rows on the other side. Each query keeps
 * its largest score so far and the sum of exponentials relative to it; the backward pass recomputes probabilities from
 * the log-sum-exp. Blocks share no sums, so their order does not affect the result.
 *
 * Tensor cores multiply 16-bit numbers. A value that is not stored in 16 bits is split into two numbers, whose sum has
 * 16 or more significant bits: probabilities and derivatives with respect to scores (PARTS), and rotated elements
 * (TURNED_PARTS).
 *
 * The host also defines BUFFERS, the number of steps held in shared memory.
 */
#include "kernels/cuda/attention_cached.h"
#include "kernels/cuda/attention_tiles.h"

#ifndef BUFFERS
#define BUFFERS 2
#endif

#if IS_HALF

enum {
    WIDTH = (HEAD_WIDTH + 15) / 16 * 16,
    STRIDE = WIDTH + 8, /* of rows in shared memory: eight rows of a tile are in different banks */
    THREADS = 128,
    PARTS = EITP__ATTENTION_PARTS,
    STEP = EITP__ATTENTION_STEP(WIDTH),
    COLUMNS = STEP / 8,             /* tiles of 8 columns */
    CHUNKS = WIDTH / 8,             /* groups of 8 elements */
    IS_TURNED = ROTATES && !CACHED, /* queries and keys come from the workspace, written by attention_rotate_kernel */
    TURNED_PARTS = IS_TURNED ? EITP__ATTENTION_ROTATED_PARTS : 1,
    ROW_TILES = EITP__ATTENTION_ROW_TILES(BACKWARD, WIDTH, TURNED_PARTS),
    WARP_ROWS = 16 * ROW_TILES,
    ROWS = EITP__ATTENTION_ROWS(BACKWARD, WIDTH, TURNED_PARTS),
    ROWS_SIZE = ROWS * STRIDE, /* elements */
    STEP_SIZE = STEP * STRIDE
};

/*
 * Scores of a warp's rows, and sums as wide as a head. In each tile, lane i holds rows i / 4 (elements 0 and 1) and i /
 * 4 + 8 (elements 2 and 3), and columns 2 (i % 4) and 2 (i % 4) + 1.
 */
typedef float score_tiles[ROW_TILES][COLUMNS][4];
typedef float sum_tiles[ROW_TILES][CHUNKS][4];

#define EACH_TILE(t) _Pragma("unroll") for (int t = 0; t < ROW_TILES; t++)
#define EACH_COLUMN(n) _Pragma("unroll") for (int n = 0; n < COLUMNS; n++)
#define EACH_CHUNK(n) _Pragma("unroll") for (int n = 0; n < CHUNKS; n++)
#define EACH_ELEMENT(r) _Pragma("unroll") for (int r = 0; r < 4; r++)

/* Return the row, within the warp's rows, of element r of tile t, and the column of element r of tile n. */
DEVICE int row_of(int t, int r) {
    return t * 16 + r / 2 * 8 + lane() / 4;
}
DEVICE int column_of(int n, int r) {
    return n * 8 + lane() % 4 * 2 + r % 2;
}

template <class T> DEVICE void clear(T &tiles) {
    EACH_TILE(t)
    for (auto &tile : tiles[t])
        EACH_ELEMENT(r) tile[r] = 0;
}

/* ---- Copies between global and shared memory ---- */

/* Loads eight elements of a row, with zeros beyond the width of a head. */
template <class T> DEVICE vec<scalar, 8> load_chunk(const matrix<T> &x, int64_t row, int first) {
    vec<scalar, 8> chunk = {};
#if HEAD_WIDTH % 8
    for (int i = 0; i < 8 && first + i < HEAD_WIDTH; i++)
        chunk.v[i] = (scalar)x.data[row * x.stride + first + i];
#else
    if (first < HEAD_WIDTH)
        chunk = load<8>(x.data, row * x.stride + first);
#endif
    return chunk;
}

/* Starts copying rows to shared memory, from `row`. Only the first `limit` rows exist; the others become zeros. */
template <int rows> DEVICE void copy_rows(const matrix<const scalar> &x, int64_t row, int limit, shared<scalar> to) {
    for (int i = thread_index(); i < rows * CHUNKS; i += THREADS) {
        const int r = i / CHUNKS, first = i % CHUNKS * 8;
#if HEAD_WIDTH % 8
        store(to, r * STRIDE + first, r < limit ? load_chunk(x, row + r, first) : vec<scalar, 8>());
#else
        copy_async(to + (r * STRIDE + first), x.data + ((row + r) * x.stride + first), r < limit && first < HEAD_WIDTH);
#endif
    }
}

/* Stores the rows of a warp, times a factor. Goes through rows of shared memory that only this warp uses. */
DEVICE void store_rows(const sum_tiles &sums, float factor, shared<scalar> rows, const matrix<scalar> &to, int64_t row,
                       int limit) {
    warp_barrier();
    EACH_TILE(t)
    EACH_CHUNK(n) {
        for (int r = 0; r < 4; r += 2) {
            vec<scalar, 2> pair;
            pair.v[0] = to_scalar(sums[t][n][r] * factor);
            pair.v[1] = to_scalar(sums[t][n][r + 1] * factor);
            store(rows, row_of(t, r) * STRIDE + column_of(n, r), pair);
        }
    }
    warp_barrier();
    for (int i = lane(); i < WARP_ROWS * CHUNKS; i += 32) {
        const int r = i / CHUNKS, first = i % CHUNKS * 8;
        if (r >= limit)
            break;
#if HEAD_WIDTH % 8
        for (int k = first; k < first + 8 && k < HEAD_WIDTH; k++)
            to.data[(row + r) * to.stride + k] = rows[r * STRIDE + k];
#else
        if (first < HEAD_WIDTH)
            store(to.data, (row + r) * to.stride + first, load<8>(rows, r * STRIDE + first));
#endif
    }
}

/* ---- Products ---- */

/*
 * Return the offset of the row and column, in 16 x 16 elements, that a lane addresses for load_matrix: of a first
 * factor or a transposed second one, and of a second factor that is not transposed.
 */
DEVICE int first_place() {
    return lane() % 16 * STRIDE + lane() / 16 * 8;
}
DEVICE int second_place() {
    return (lane() / 16 * 8 + lane() % 8) * STRIDE + lane() / 8 % 2 * 8;
}

/* s += a b^T, where a has the warp's rows and b the rows of a step. */
DEVICE void add_scores(score_tiles &s, shared<scalar> a, shared<scalar> b) {
    a += first_place();
    b += second_place();
#pragma unroll
    for (int k = 0; k < WIDTH; k += 16) {
        uint32_t x[ROW_TILES][4], y[4];
        EACH_TILE(t)
        load_matrix(x[t], a + (t * 16 * STRIDE + k));
#pragma unroll
        for (int n = 0; n < COLUMNS; n += 2) {
            load_matrix(y, b + (n * 8 * STRIDE + k));
            EACH_TILE(t) {
                mma<scalar>(s[t][n], x[t], y);
                mma<scalar>(s[t][n + 1], x[t], y + 2);
            }
        }
    }
}

/* s = a b^T, where rows may have a second part, at offsets a_rest and b_rest. */
DEVICE void turned_scores(score_tiles &s, shared<scalar> a, int a_rest, shared<scalar> b, int b_rest) {
    clear(s);
    add_scores(s, a, b);
    if (TURNED_PARTS == 2) {
        add_scores(s, a, b + b_rest);
        add_scores(s, a + a_rest, b);
    }
}

/* Splits columns [16 k, 16 k + 16) of x into first factors and their rounding errors. */
DEVICE void factors_of(const score_tiles &x, int k, uint32_t (&factors)[ROW_TILES][4], uint32_t (&rest)[ROW_TILES][4]) {
    EACH_TILE(t)
    EACH_ELEMENT(r) {
        const float low = x[t][2 * k + r / 2][r % 2 * 2], high = x[t][2 * k + r / 2][r % 2 * 2 + 1];
        scalar first, second;
        factors[t][r] = pack<scalar>(low, high);
        first.bits = (uint16_t)factors[t][r];
        second.bits = (uint16_t)(factors[t][r] >> 16);
        rest[t][r] = PARTS == 2 ? pack<scalar>(low - to_wide(first), high - to_wide(second)) : 0;
    }
}

/* sums += x b, where b has the rows of a step, and a second part b_rest elements further unless that is 0. */
DEVICE void add_product(sum_tiles &sums, const score_tiles &x, shared<scalar> b, int b_rest) {
    b += first_place();
#pragma unroll
    for (int k = 0; k < STEP / 16; k++) {
        uint32_t factors[ROW_TILES][4], rest[ROW_TILES][4], y[4];
        factors_of(x, k, factors, rest);
#pragma unroll
        for (int n = 0; n < CHUNKS; n += 2) {
            load_matrix_transposed(y, b + (k * 16 * STRIDE + n * 8));
            EACH_TILE(t) {
                mma<scalar>(sums[t][n], factors[t], y);
                mma<scalar>(sums[t][n + 1], factors[t], y + 2);
                if (PARTS == 2) {
                    mma<scalar>(sums[t][n], rest[t], y);
                    mma<scalar>(sums[t][n + 1], rest[t], y + 2);
                }
            }
            if (b_rest) {
                load_matrix_transposed(y, b + (b_rest + k * 16 * STRIDE + n * 8));
                EACH_TILE(t) {
                    mma<scalar>(sums[t][n], factors[t], y);
                    mma<scalar>(sums[t][n + 1], factors[t], y + 2);
                }
            }
        }
    }
}

/* ---- Rotation ---- */

/* Layout of rotated queries and keys: [parts, rows, heads of queries followed by heads of keys, width]. */
DEVICE int64_t turned_part_size(const eitp__launch &l) {
    return l.call.inputs[0].shape[0] * (heads_of(l) + key_heads_of(l)) * HEAD_WIDTH;
}
#if ROTATES && !CACHED
DEVICE matrix<const scalar> turned_head(const eitp__launch &l, int64_t head) {
    return head_of<const scalar>(global_at<const scalar>(l.workspace), heads_of(l) + key_heads_of(l), head);
}
#endif

/*
 * Return the queries, keys and values that a block reads. Queries and keys are the rotated ones if there is a rotation.
 */
DEVICE matrix<const scalar> queries_of(const eitp__launch &l, int64_t head) {
#if CACHED && ROTATES
    return head_of<const scalar>(global_at<const scalar>(l.workspace), heads_of(l), head);
#elif ROTATES
    return turned_head(l, head);
#else
    return input_part(l, 0, head);
#endif
}
DEVICE matrix<const scalar> keys_of(const eitp__launch &l, int64_t head) {
#if CACHED
    return head_of<const scalar>(output<scalar>(l, 1), key_heads_of(l), head);
#elif ROTATES
    return turned_head(l, heads_of(l) + head);
#else
    return input_part(l, 1, head);
#endif
}
DEVICE matrix<const scalar> values_of(const eitp__launch &l, int64_t head) {
#if CACHED
    return head_of<const scalar>(output<scalar>(l, 2), key_heads_of(l), head);
#else
    return input_part(l, 2, head);
#endif
}

/* Copies rows, and the second part of rotated rows. */
template <int rows>
DEVICE void copy_turned(const eitp__launch &l, matrix<const scalar> x, int64_t row, int limit, shared<scalar> to) {
    copy_rows<rows>(x, row, limit, to);
    if (TURNED_PARTS == 2) {
        x.data += turned_part_size(l);
        copy_rows<rows>(x, row, limit, to + rows * STRIDE);
    }
}

#if ROTATES && !CACHED
/* Rotates the queries and keys of ROTATED_ROWS rows. */
enum { ROTATED_ROWS = 8 };
KERNEL(attention_rotate_kernel, 256) {
    const int64_t first = block_index() * ROTATED_ROWS, total = first_dimension(l, l.call.inputs[0]);
    const int heads = (int)heads_of(l), all = heads + (int)key_heads_of(l), chunks = HEAD_WIDTH / 16;
    const global<const float> rotation = input<float>(l, ROTATION);
    for (int i = thread_index(); i < ROTATED_ROWS * all * chunks; i += thread_count()) {
        const int at = i % chunks * 8, head = i / chunks % all;
        const int64_t row = first + i / chunks / all, angle = row * HEAD_WIDTH + at;
        const matrix<const scalar> x = head < heads ? input_part(l, 0, head) : input_part(l, 1, head - heads);
        vec<scalar, 8> a, b, a_rest, b_rest;
        if (row >= total)
            break;
        a = load<8>(x.data, row * x.stride + at);
        b = load<8>(x.data, row * x.stride + at + HEAD_WIDTH / 2);
        for (int e = 0; e < 8; e++) {
            const float cosine = rotation[angle + e], sine = rotation[angle + HEAD_WIDTH / 2 + e];
            const float low = to_wide(a.v[e]) * cosine - to_wide(b.v[e]) * sine;
            const float high = to_wide(b.v[e]) * cosine + to_wide(a.v[e]) * sine;
            a.v[e] = to_scalar(low);
            b.v[e] = to_scalar(high);
            a_rest.v[e] = to_scalar(low - to_wide(a.v[e]));
            b_rest.v[e] = to_scalar(high - to_wide(b.v[e]));
        }
        for (int part = 0; part < TURNED_PARTS; part++) {
            const global<scalar> y = global_at<scalar>(l.workspace) + (part * turned_part_size(l) + head * HEAD_WIDTH);
            store(y, row * all * HEAD_WIDTH + at, part ? a_rest : a);
            store(y, row * all * HEAD_WIDTH + at + HEAD_WIDTH / 2, part ? b_rest : b);
        }
    }
}

#endif

#if BACKWARD
/* Rotates the gradients of a warp's rows back. */
DEVICE void turn_back(const eitp__launch &l, sum_tiles &sums, int64_t row, int limit) {
#if ROTATES
    const global<const float> rotation = input<float>(l, ROTATION);
    EACH_TILE(t)
    for (int r = 0; r < 4; r += 2) {
        const int64_t angles = (row + row_of(t, r)) * HEAD_WIDTH;
        if (row_of(t, r) >= limit)
            continue;
#pragma unroll
        for (int n = 0; n < CHUNKS / 2; n++) {
            const vec<float, 2> cosines = load<2>(rotation, angles + column_of(n, 0));
            const vec<float, 2> sines = load<2>(rotation, angles + HEAD_WIDTH / 2 + column_of(n, 0));
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const float a = sums[t][n][r + e], b = sums[t][n + CHUNKS / 2][r + e];
                sums[t][n][r + e] = a * cosines.v[e] + b * sines.v[e];
                sums[t][n + CHUNKS / 2][r + e] = b * cosines.v[e] - a * sines.v[e];
            }
        }
    }
#else
    (void)l;
    (void)sums;
    (void)row;
    (void)limit;
#endif
}
#endif

/* ---- Scores ---- */

/* Sets scores that causality or the window hides to minus infinity. Queries start at `query`, keys at `key`. */
DEVICE void hide(const visibility &sees, score_tiles &s, int query, int key) {
    if (all_seen(sees, query, WARP_ROWS, key, STEP))
        return;
    EACH_TILE(t)
    EACH_COLUMN(n)
    EACH_ELEMENT(r) if (!is_seen(sees, query + row_of(t, r), key + column_of(n, r))) s[t][n][r] = -INFINITY;
}

#if BACKWARD
/* Like hide, with keys in rows and queries in columns. */
DEVICE void hide_transposed(const visibility &sees, score_tiles &s, int query, int key) {
    if (all_seen(sees, query, STEP, key, WARP_ROWS))
        return;
    EACH_TILE(t)
    EACH_COLUMN(n)
    EACH_ELEMENT(r) if (!is_seen(sees, query + column_of(n, r), key + row_of(t, r))) s[t][n][r] = -INFINITY;
}
#endif

#if DROPS
/*
 * Bit 4 n + r is set if element r of column n is kept. Two lanes share four keys of two queries: each draws for one
 * query.
 */
DEVICE uint32_t kept_elements(const dropout &drop, int query, int key) {
    const int odd = lane() % 2;
    uint32_t kept = 0;
#pragma unroll 1
    for (int n = 0; n < COLUMNS; n++) {
        uint32_t drawn = kept_of(drop, query + odd * 8 + lane() / 4, key + n * 8 + lane() / 2 % 2 * 4) << 4 * odd;
        drawn |= shuffle_xor(drawn, 1);
        kept |= ((drawn >> 2 * odd & 3) | (drawn >> (4 + 2 * odd) & 3) << 2) << 4 * n;
    }
    return kept;
}
#endif

#if DROPS && BACKWARD
/* Like kept_elements, with keys in rows and queries in columns. Four lanes share four keys of two queries, twice. */
DEVICE uint32_t kept_transposed(const dropout &drop, int query, int key) {
    const int own = lane() / 4 % 4;
    uint32_t kept = 0;
#pragma unroll 1
    for (int n = 0; n < COLUMNS; n++) {
        uint32_t drawn = kept_of(drop, query + column_of(n, own), key + own / 2 * 8 + lane() / 16 * 4) << 4 * own;
        drawn |= shuffle_xor(drawn, 4);
        drawn |= shuffle_xor(drawn, 8);
        for (int r = 0; r < 4; r++)
            kept |= (drawn >> (4 * r + own) & 1) << (4 * n + r);
    }
    return kept;
}
#endif

#define LOG2_OF_E 1.4426950408889634f

#if !BACKWARD

/* ---- Forward ---- */

/* For each of a lane's rows: the largest score so far, and this lane's sum of exponentials relative to it. */
struct progress {
    float top[ROW_TILES][2], sum[ROW_TILES][2];
};

/*
 * Replaces scores by exponentials relative to the largest score; `factor` converts scores to base-2 logarithms.
 * Rescales the previous sums and outputs.
 */
DEVICE void exponentiate(score_tiles &s, float factor, progress &so_far, sum_tiles &o) {
    EACH_TILE(t)
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float top = so_far.top[t][h], base, shrink, sum;
        EACH_COLUMN(n)
        top = fmaxf(fmaxf(top, s[t][n][2 * h]), s[t][n][2 * h + 1]);
        top = fmaxf(top, shuffle_xor(top, 1));
        top = fmaxf(top, shuffle_xor(top, 2));
        base = top == -INFINITY ? 0.0f : top * factor;
        shrink = exp2_near(fmaf(so_far.top[t][h], factor, -base));
        so_far.top[t][h] = top;
        sum = so_far.sum[t][h] * shrink;
        EACH_CHUNK(n) {
            o[t][n][2 * h] *= shrink;
            o[t][n][2 * h + 1] *= shrink;
        }
        EACH_COLUMN(n)
#pragma unroll
        for (int r = 2 * h; r < 2 * h + 2; r++) {
            s[t][n][r] = exp2_near(fmaf(s[t][n][r], factor, -base));
            sum += s[t][n][r];
        }
        so_far.sum[t][h] = sum;
    }
}

/* Divides the output by the sums of exponentials, and stores it and the log-sum-exp. */
DEVICE void finish(const eitp__launch &l, const progress &so_far, sum_tiles &o, int64_t head, shared<scalar> rows,
                   int64_t row, int limit) {
    EACH_TILE(t)
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float sum = so_far.sum[t][h];
        sum += shuffle_xor(sum, 1);
        sum += shuffle_xor(sum, 2);
        EACH_CHUNK(n) {
            o[t][n][2 * h] *= 1 / sum;
            o[t][n][2 * h + 1] *= 1 / sum;
        }
        if (!CACHED && lane() % 4 == 0 && row_of(t, 2 * h) < limit)
            output<float>(l, 1)[(row + row_of(t, 2 * h)) * heads_of(l) + head] =
                so_far.top[t][h] * (float)l.call.reals[0] + logf(sum);
    }
    store_rows(o, kept_factor(l), rows, head_of(output<scalar>(l, 0), heads_of(l), head), row, limit);
}

#if CACHED
KERNEL(attention_cached_kernel, THREADS) {
#else
KERNEL(attention_kernel, THREADS) {
#endif
    SHARED(int32_t, scratch, 32);
    DYNAMIC_SHARED(scalar, q, 0, TURNED_PARTS * ROWS_SIZE);
    DYNAMIC_SHARED(scalar, k, 2 * TURNED_PARTS * ROWS_SIZE, BUFFERS * TURNED_PARTS * STEP_SIZE);
    DYNAMIC_SHARED(scalar, v, 2 * TURNED_PARTS * (ROWS_SIZE + BUFFERS * STEP_SIZE), BUFFERS * STEP_SIZE);
    const place at = place_of(l, heads_of(l));
    const sequence rows = sequence_of(l, at.sequence, scratch);
    const visibility sees = visibility_of(l, rows);
    const int first = at.tile * ROWS, own = warp_index() * WARP_ROWS, count = (int)(rows.end - rows.begin);
    const int64_t key_head = at.head * key_heads_of(l) / heads_of(l), key_row = CACHED ? 0 : rows.begin;
    const matrix<const scalar> keys = keys_of(l, key_head), values = values_of(l, key_head);
    const int query = rows.shift + first, last = last_key(sees, query, ROWS);
    const dropout drop = dropout_of(l, at.head, rows.begin);
    const float factor = (float)l.call.reals[0] * LOG2_OF_E;
    int buffer = 0, key = first_key(sees, query, STEP);
    progress so_far;
    sum_tiles o;
    clear_rows(rows, at, head_of(output<scalar>(l, 0), heads_of(l), at.head), HEAD_WIDTH);
#if !CACHED
    const matrix<float> logsumexps = {output<float>(l, 1) + at.head, heads_of(l)};
    clear_rows(rows, at, logsumexps, 1);
#endif
    if (first >= count)
        return;
    clear(o);
    EACH_TILE(t)
    for (int h = 0; h < 2; h++) {
        so_far.top[t][h] = -INFINITY;
        so_far.sum[t][h] = 0;
    }
    copy_turned<ROWS>(l, queries_of(l, at.head), rows.begin + first, count - first, q);
    copy_turned<STEP>(l, keys, key_row + key, sees.keys - key, k);
    copy_rows<STEP>(values, key_row + key, sees.keys - key, v);
    copy_async_commit();
    for (; key < last; key += STEP) {
        const int next = key + STEP, other = BUFFERS - 1 - buffer;
        copy_async_wait<0>();
        barrier();
        if (BUFFERS == 2 && next < last) {
            copy_turned<STEP>(l, keys, key_row + next, sees.keys - next, k + other * TURNED_PARTS * STEP_SIZE);
            copy_rows<STEP>(values, key_row + next, sees.keys - next, v + other * STEP_SIZE);
            copy_async_commit();
        }
        if (own < count - first && some_seen(sees, query + own, WARP_ROWS, key, STEP)) {
            score_tiles s;
            turned_scores(s, q + own * STRIDE, ROWS_SIZE, k + buffer * TURNED_PARTS * STEP_SIZE, STEP_SIZE);
            hide(sees, s, query + own, key);
            exponentiate(s, factor, so_far, o);
#if DROPS
            EACH_TILE(t) {
                const uint32_t kept = kept_elements(drop, query + own + t * 16, key);
                EACH_COLUMN(n)
                EACH_ELEMENT(r) s[t][n][r] = kept >> (4 * n + r) & 1 ? s[t][n][r] : 0.0f;
            }
#endif
            add_product(o, s, v + buffer * STEP_SIZE, 0);
        }
        if (BUFFERS == 1 && next < last) {
            barrier();
            copy_turned<STEP>(l, keys, key_row + next, sees.keys - next, k);
            copy_rows<STEP>(values, key_row + next, sees.keys - next, v);
            copy_async_commit();
        }
        buffer = other;
    }
    (void)drop;
    if (own < count - first)
        finish(l, so_far, o, at.head, q + own * STRIDE, rows.begin + first + own, count - first - own);
}

#else

/* ---- Backward ---- */

/* For each row and head: the dot product of the output and its gradient, which is the mean of a query's derivatives. */
DEVICE global<float> means_of(const eitp__launch &l) {
    const int64_t turned = IS_TURNED ? TURNED_PARTS * turned_part_size(l) * (int64_t)sizeof(scalar) : 0;
    return global_at<float>((const char *)l.workspace + turned);
}

/* Computes the mean of each of a lane's rows. Two lanes sum each row. */
DEVICE void find_means(const eitp__launch &l, int64_t head, int64_t row, int limit, float (&means)[ROW_TILES][2]) {
    const matrix<const scalar> o = head_of<const scalar>(input<scalar>(l, EITP__ATTENTION_O), heads_of(l), head);
    const matrix<const scalar> slopes = head_of<const scalar>(input<scalar>(l, EITP__ATTENTION_DO), heads_of(l), head);
    EACH_TILE(t) {
        const int r = t * 16 + lane() / 2;
        float mean = 0;
        for (int n = lane() % 2; n < CHUNKS && r < limit; n += 2) {
            const vec<scalar, 8> a = load_chunk(o, row + r, n * 8), b = load_chunk(slopes, row + r, n * 8);
            for (int e = 0; e < 8; e++)
                mean = fmaf(to_wide(a.v[e]), to_wide(b.v[e]), mean);
        }
        mean += shuffle_xor(mean, 1);
        if (lane() % 2 == 0 && r < limit)
            means_of(l)[(row + r) * heads_of(l) + head] = mean;
        for (int h = 0; h < 2; h++)
            means[t][h] = shuffle(mean, h * 16 + lane() / 4 * 2);
    }
}

/*
 * Replaces score s by the probability that was applied, and ds, the derivative with respect to the probability, by the
 * derivative with respect to the score, without the factor `scale`. The log-sum-exp is in base 2.
 */
DEVICE void slope(float &s, float &ds, float factor, float logsumexp, float mean, int is_kept, float kept) {
    const float p = exp2_near(fmaf(s, factor, -logsumexp));
    ds = p * ((is_kept ? ds * kept : 0.0f) - mean);
    s = is_kept ? p : 0.0f;
}

/* Computes the gradients of a tile of queries. */
KERNEL(attention_backward_queries_kernel, THREADS) {
    SHARED(int32_t, scratch, 32);
    DYNAMIC_SHARED(scalar, q, 0, TURNED_PARTS * ROWS_SIZE);
    DYNAMIC_SHARED(scalar, slopes, 2 * TURNED_PARTS * ROWS_SIZE, ROWS_SIZE);
    DYNAMIC_SHARED(scalar, k, 2 * (TURNED_PARTS + 1) * ROWS_SIZE, BUFFERS * TURNED_PARTS * STEP_SIZE);
    DYNAMIC_SHARED(scalar, v, 2 * ((TURNED_PARTS + 1) * ROWS_SIZE + BUFFERS * TURNED_PARTS * STEP_SIZE),
                   BUFFERS * STEP_SIZE);
    const place at = place_of(l, heads_of(l));
    const sequence rows = sequence_of(l, at.sequence, scratch);
    const visibility sees = visibility_of(l, rows);
    const int first = at.tile * ROWS, own = warp_index() * WARP_ROWS, count = (int)(rows.end - rows.begin);
    const int64_t key_head = at.head * key_heads_of(l) / heads_of(l), own_row = rows.begin + first + own;
    const matrix<const scalar> keys = keys_of(l, key_head), values = values_of(l, key_head);
    const matrix<const scalar> gradient =
        head_of<const scalar>(input<scalar>(l, EITP__ATTENTION_DO), heads_of(l), at.head);
    const dropout drop = dropout_of(l, at.head, rows.begin);
    const float scale = (float)l.call.reals[0], factor = scale * LOG2_OF_E, kept = kept_factor(l);
    const int last = last_key(sees, first, ROWS);
    int buffer = 0, key = first_key(sees, first, STEP);
    float means[ROW_TILES][2], logsumexps[ROW_TILES][2];
    sum_tiles dq;
    clear_rows(rows, at, gradient_part(l, 0, at.head), HEAD_WIDTH);
    if (first >= count)
        return;
    copy_turned<ROWS>(l, queries_of(l, at.head), rows.begin + first, count - first, q);
    copy_rows<ROWS>(gradient, rows.begin + first, count - first, slopes);
    copy_turned<STEP>(l, keys, rows.begin + key, sees.keys - key, k);
    copy_rows<STEP>(values, rows.begin + key, sees.keys - key, v);
    copy_async_commit();
    find_means(l, at.head, own_row, count - first - own, means);
    EACH_TILE(t)
    for (int h = 0; h < 2; h++) {
        const int r = row_of(t, 2 * h);
        logsumexps[t][h] =
            r >= count - first - own
                ? INFINITY
                : (float)input<float>(l, EITP__ATTENTION_LOGSUMEXP)[(own_row + r) * heads_of(l) + at.head] * LOG2_OF_E;
    }
    clear(dq);
    for (; key < last; key += STEP) {
        const int next = key + STEP, other = BUFFERS - 1 - buffer;
        copy_async_wait<0>();
        barrier();
        if (BUFFERS == 2 && next < last) {
            copy_turned<STEP>(l, keys, rows.begin + next, sees.keys - next, k + other * TURNED_PARTS * STEP_SIZE);
            copy_rows<STEP>(values, rows.begin + next, sees.keys - next, v + other * STEP_SIZE);
            copy_async_commit();
        }
        if (own < count - first && some_seen(sees, first + own, WARP_ROWS, key, STEP)) {
            const shared<scalar> step = k + buffer * TURNED_PARTS * STEP_SIZE;
            score_tiles s, ds;
            turned_scores(s, q + own * STRIDE, ROWS_SIZE, step, STEP_SIZE);
            hide(sees, s, first + own, key);
            clear(ds);
            add_scores(ds, slopes + own * STRIDE, v + buffer * STEP_SIZE);
            EACH_TILE(t) {
#if DROPS
                const uint32_t drawn = kept_elements(drop, first + own + t * 16, key);
#else
                const uint32_t drawn = 0xffffffff;
#endif
                EACH_COLUMN(n)
                EACH_ELEMENT(r)
                slope(s[t][n][r], ds[t][n][r], factor, logsumexps[t][r / 2], means[t][r / 2], drawn >> (4 * n + r) & 1,
                      kept);
            }
            add_product(dq, ds, step, TURNED_PARTS == 2 ? STEP_SIZE : 0);
        }
        if (BUFFERS == 1 && next < last) {
            barrier();
            copy_turned<STEP>(l, keys, rows.begin + next, sees.keys - next, k);
            copy_rows<STEP>(values, rows.begin + next, sees.keys - next, v);
            copy_async_commit();
        }
        buffer = other;
    }
    (void)drop;
    if (own >= count - first)
        return;
    turn_back(l, dq, own_row, count - first - own);
    store_rows(dq, scale, q + own * STRIDE, gradient_part(l, 0, at.head), own_row, count - first - own);
}

/* One step of the queries that a block of keys reads, from one of the heads that share the keys. */
struct query_step {
    int64_t head;
    int query; /* first query of the step, within the sequence */
};

/* Starts copying the queries of a step and the gradients of their outputs. */
DEVICE void copy_queries(const eitp__launch &l, const sequence &rows, const query_step &step, shared<scalar> q,
                         shared<scalar> slopes) {
    const int limit = (int)(rows.end - rows.begin) - step.query;
    copy_turned<STEP>(l, queries_of(l, step.head), rows.begin + step.query, limit, q);
    copy_rows<STEP>(head_of<const scalar>(input<scalar>(l, EITP__ATTENTION_DO), heads_of(l), step.head),
                    rows.begin + step.query, limit, slopes);
    copy_async_commit();
}

/*
 * Thread i < STEP returns the log-sum-exp, in base 2, of query i of a step, or infinity if there is no such query.
 * Thread STEP + i returns its mean.
 */
DEVICE float statistic_of(const eitp__launch &l, const sequence &rows, const query_step &step) {
    const int is_mean = thread_index() / STEP, i = thread_index() % STEP;
    const int64_t row = rows.begin + step.query + i;
    if (is_mean > 1 || row >= rows.end)
        return is_mean ? 0.0f : INFINITY;
    return is_mean ? (float)means_of(l)[row * heads_of(l) + step.head]
                   : (float)input<float>(l, EITP__ATTENTION_LOGSUMEXP)[row * heads_of(l) + step.head] * LOG2_OF_E;
}

/* Computes the gradients of a tile of keys and values, from all heads of queries that share them. */
KERNEL(attention_backward_keys_kernel, THREADS) {
    SHARED(int32_t, scratch, 32);
    SHARED(float, statistics, BUFFERS * 2 * STEP);
    DYNAMIC_SHARED(scalar, k, 0, TURNED_PARTS * ROWS_SIZE);
    DYNAMIC_SHARED(scalar, v, 2 * TURNED_PARTS * ROWS_SIZE, ROWS_SIZE);
    DYNAMIC_SHARED(scalar, q, 2 * (TURNED_PARTS + 1) * ROWS_SIZE, BUFFERS * TURNED_PARTS * STEP_SIZE);
    DYNAMIC_SHARED(scalar, slopes, 2 * ((TURNED_PARTS + 1) * ROWS_SIZE + BUFFERS * TURNED_PARTS * STEP_SIZE),
                   BUFFERS * STEP_SIZE);
    const place at = place_of(l, key_heads_of(l));
    const sequence rows = sequence_of(l, at.sequence, scratch);
    const visibility sees = visibility_of(l, rows);
    const int first = at.tile * ROWS, own = warp_index() * WARP_ROWS, count = (int)(rows.end - rows.begin);
    const int64_t own_row = rows.begin + first + own, group = heads_of(l) / key_heads_of(l);
    const int from = first_query(sees, first), last = last_query(sees, first, ROWS);
    const float scale = (float)l.call.reals[0], factor = scale * LOG2_OF_E, kept = kept_factor(l);
    query_step now = {at.head * group, from}, next;
    int buffer = 0;
    sum_tiles dk, dv;
    clear_rows(rows, at, gradient_part(l, 1, at.head), HEAD_WIDTH);
    clear_rows(rows, at, gradient_part(l, 2, at.head), HEAD_WIDTH);
    if (first >= count)
        return;
    copy_turned<ROWS>(l, keys_of(l, at.head), rows.begin + first, count - first, k);
    copy_rows<ROWS>(values_of(l, at.head), rows.begin + first, count - first, v);
    copy_queries(l, rows, now, q, slopes);
    if (thread_index() < 2 * STEP)
        statistics[thread_index()] = statistic_of(l, rows, now);
    clear(dk);
    clear(dv);
    for (; now.head < (at.head + 1) * group; now = next) {
        const int other = BUFFERS - 1 - buffer, is_end = now.query + STEP >= last;
        float statistic = 0;
        int is_last;
        next.head = now.head + is_end;
        next.query = is_end ? from : now.query + STEP;
        is_last = next.head == (at.head + 1) * group;
        copy_async_wait<0>();
        barrier();
        if (!is_last)
            statistic = statistic_of(l, rows, next);
        if (BUFFERS == 2 && !is_last)
            copy_queries(l, rows, next, q + other * TURNED_PARTS * STEP_SIZE, slopes + other * STEP_SIZE);
        if (own < count - first && some_seen(sees, now.query, STEP, first + own, WARP_ROWS)) {
            const shared<scalar> queries = q + buffer * TURNED_PARTS * STEP_SIZE;
            const shared<float> of_step = statistics + buffer * 2 * STEP;
#if DROPS
            const dropout drop = dropout_of(l, now.head, rows.begin);
#endif
            score_tiles s, ds;
            turned_scores(s, k + own * STRIDE, ROWS_SIZE, queries, STEP_SIZE);
            hide_transposed(sees, s, now.query, first + own);
            clear(ds);
            add_scores(ds, v + own * STRIDE, slopes + buffer * STEP_SIZE);
            EACH_TILE(t) {
#if DROPS
                const uint32_t drawn = kept_transposed(drop, now.query, first + own + t * 16);
#else
                const uint32_t drawn = 0xffffffff;
#endif
                EACH_COLUMN(n) {
                    const vec<float, 2> logsumexps = load<2>(of_step, column_of(n, 0));
                    const vec<float, 2> means = load<2>(of_step, STEP + column_of(n, 0));
                    EACH_ELEMENT(r)
                    slope(s[t][n][r], ds[t][n][r], factor, logsumexps.v[r % 2], means.v[r % 2],
                          drawn >> (4 * n + r) & 1, kept);
                }
            }
            add_product(dv, s, slopes + buffer * STEP_SIZE, 0);
            add_product(dk, ds, queries, TURNED_PARTS == 2 ? STEP_SIZE : 0);
        }
        if (BUFFERS == 1 && !is_last) {
            barrier();
            copy_queries(l, rows, next, q, slopes);
        }
        if (thread_index() < 2 * STEP && !is_last)
            statistics[other * 2 * STEP + thread_index()] = statistic;
        buffer = other;
    }
    if (own >= count - first)
        return;
    turn_back(l, dk, own_row, count - first - own);
    store_rows(dk, scale, k + own * STRIDE, gradient_part(l, 1, at.head), own_row, count - first - own);
    store_rows(dv, kept, v + own * STRIDE, gradient_part(l, 2, at.head), own_row, count - first - own);
}

#endif
#endif
