/*
 * Attention on tensor cores (FlashAttention-2: Dao, arXiv 2307.08691). A block owns a tile of queries, or a tile of
 * keys when it computes the gradient of keys and values, and steps through the rows on the other side. Each query keeps
 * its largest score so far and the sum of exponentials relative to it; the backward pass recomputes probabilities from
 * the log-sum-exp. Blocks share no sums, so their order does not affect the result.
 *
 * Tensor cores multiply 16-bit numbers. Factors that are not stored in 16 bits are rounded to nearest, once: rotated
 * queries and keys, probabilities, and derivatives with respect to scores. Everything else is in F32. Exponentials are
 * summed before they are rounded: the backward pass recomputes probabilities from the logarithm of this sum, and a sum
 * of rounded ones would need another conversion of each.
 *
 * The backward pass is two kernels, which both recompute the scores and their derivatives: 7 products instead of 5. One
 * kernel would have to add to gradients of queries from every tile of keys, in a fixed order: docs/cuda.md has the
 * figures.
 *
 * Reads from shared memory limit the speed like the tensor cores do: a load_matrix provides the second factor of two
 * products for each tile of rows. So a warp has two tiles of rows where registers allow that.
 *
 * The host also defines BUFFERS, the number of steps held in shared memory: 2 if that leaves room for a second block.
 */
#include "kernels/cuda/attention_cached.h"
#include "kernels/cuda/attention_tiles.h"

#ifndef BUFFERS
#define BUFFERS 2
#endif

#if IS_HALF

enum {
    WIDTH = (HEAD_WIDTH + 15) / 16 * 16,
    STRIDE = EITP__ATTENTION_STRIDE(HEAD_WIDTH),
    THREADS = 128,
    STEP = EITP__ATTENTION_STEP(BACKWARD, HEAD_WIDTH),
    COLUMNS = STEP / 8, /* tiles of 8 columns */
    CHUNKS = WIDTH / 8, /* groups of 8 elements */
    ACROSS = WIDTH > 64   ? 16
             : WIDTH > 32 ? 8
             : WIDTH > 16 ? 4
                          : 2,      /* threads that copy a row */
    IS_TURNED = ROTATES && !CACHED, /* queries and keys come from the workspace, written by attention_rotate_kernel */
    ROW_TILES = EITP__ATTENTION_ROW_TILES(BACKWARD, HEAD_WIDTH),
    WARP_ROWS = 16 * ROW_TILES,
    ROWS = EITP__ATTENTION_ROWS(BACKWARD, HEAD_WIDTH),
    ROWS_SIZE = ROWS * STRIDE, /* elements */
    STEP_SIZE = STEP * STRIDE
};

/*
 * Scores of a warp's rows, and sums as wide as a head. In each tile, lane i holds rows i / 4 (elements 0 and 1) and i /
 * 4 + 8 (elements 2 and 3), and columns 2 (i % 4) and 2 (i % 4) + 1.
 */
typedef float score_tiles[ROW_TILES][COLUMNS][4];
typedef float sum_tiles[ROW_TILES][CHUNKS][4];

/* Scores as first factors of products: columns [16 k, 16 k + 16) of tile t are the words of [t][k]. */
typedef uint32_t factor_tiles[ROW_TILES][COLUMNS / 2][4];

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

/*
 * Returns the offset of a chunk of row r in shared memory. Chunks are permuted within 128 bytes, so that one chunk of
 * each of eight rows is in different banks.
 */
DEVICE int chunk_at(int r, int chunk) {
    return r * STRIDE + (chunk ^ r % 8) * 8;
}

/* Loads eight elements of a row, with zeros beyond the width of a head. */
template <class T> DEVICE vec<scalar, 8> load_chunk(const matrix<T> &x, int64_t row, int first) {
    vec<scalar, 8> chunk = {};
#if HAS_CHUNKS
    if (first < HEAD_WIDTH)
        chunk = load<8>(x.data, row * x.stride + first);
#else
    for (int i = 0; i < 8 && first + i < HEAD_WIDTH; i++)
        chunk.v[i] = (scalar)x.data[row * x.stride + first + i];
#endif
    return chunk;
}

/* Starts copying rows to shared memory, from `row`. Only the first `limit` rows exist; the others become zeros. */
template <int rows> DEVICE void copy_rows(const matrix<const scalar> &x, int64_t row, int limit, shared<scalar> to) {
    const int first = thread_index() % ACROSS * 8, at = thread_index() / ACROSS, down = THREADS / ACROSS;
    const matrix<const scalar> from = {x.data + ((row + at) * x.stride + first), x.stride};
#pragma unroll
    for (int r = 0; r < rows; r += down) {
        const shared<scalar> chunk = to + (r * STRIDE + chunk_at(at, first / 8));
        if (first >= WIDTH || at + r >= rows)
            continue;
#if HAS_CHUNKS
        copy_async(chunk, from.data + r * from.stride, at + r < limit && first < HEAD_WIDTH);
#else
        store(chunk, 0, at + r < limit ? load_chunk(x, row + at + r, first) : vec<scalar, 8>());
#endif
    }
    warp_barrier(); /* products need all lanes at one instruction */
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
            store(rows, chunk_at(row_of(t, r), n) + column_of(0, r), pair);
        }
    }
    warp_barrier();
    for (int i = lane(); i < WARP_ROWS * CHUNKS; i += 32) {
        const int r = i / CHUNKS, chunk = i % CHUNKS, first = chunk * 8;
        if (r >= limit)
            break;
#if HAS_CHUNKS
        if (first < HEAD_WIDTH)
            store(to.data, (row + r) * to.stride + first, load<8>(rows, chunk_at(r, chunk)));
#else
        for (int k = 0; k < 8 && first + k < HEAD_WIDTH; k++)
            to.data[(row + r) * to.stride + first + k] = rows[chunk_at(r, chunk) + k];
#endif
    }
}

/* ---- Products ---- */

/*
 * Return the offset that a lane addresses for load_matrix in 16 x 16 elements from column k, which is a multiple of 16:
 * of a first factor or a transposed second one, and of a second factor that is not transposed.
 */
DEVICE int first_place(int k) {
    return chunk_at(lane() % 16, k / 8 + lane() / 16);
}
DEVICE int second_place(int k) {
    return chunk_at(lane() / 16 * 8 + lane() % 8, k / 8 + lane() / 8 % 2);
}

/* s = a b^T, where a has the warp's rows and b the rows of a step. */
DEVICE void find_scores(score_tiles &s, shared<scalar> a, shared<scalar> b) {
    clear(s);
#pragma unroll
    for (int k = 0; k < WIDTH; k += 16) {
        uint32_t x[ROW_TILES][4], y[4];
        EACH_TILE(t)
        load_matrix(x[t], a + (t * 16 * STRIDE + first_place(k)));
#pragma unroll
        for (int n = 0; n < COLUMNS; n += 2) {
            load_matrix(y, b + (n * 8 * STRIDE + second_place(k)));
            EACH_TILE(t) {
                mma<scalar>(s[t][n], x[t], y);
                mma<scalar>(s[t][n + 1], x[t], y + 2);
            }
        }
    }
}

/* Rounds scores to first factors. */
DEVICE void round_scores(const score_tiles &s, factor_tiles &factors) {
    EACH_TILE(t)
    EACH_COLUMN(n)
    for (int h = 0; h < 2; h++)
        factors[t][n / 2][n % 2 * 2 + h] = pack<scalar>(s[t][n][2 * h], s[t][n][2 * h + 1]);
}

/* sums += x b, where b has the rows of a step. */
DEVICE void add_product(sum_tiles &sums, const factor_tiles &x, shared<scalar> b) {
#pragma unroll
    for (int k = 0; k < STEP / 16; k++) {
        uint32_t y[4];
#pragma unroll
        for (int n = 0; n < CHUNKS; n += 2) {
            load_matrix_transposed(y, b + (k * 16 * STRIDE + first_place(n * 8)));
            EACH_TILE(t) {
                mma<scalar>(sums[t][n], x[t][k], y);
                mma<scalar>(sums[t][n + 1], x[t][k], y + 2);
            }
        }
    }
}

/* ---- Rotation ---- */

#if ROTATES && !CACHED
/* Layout of rotated queries and keys: [rows, heads of queries followed by heads of keys, width]. */
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
        const global<scalar> y = global_at<scalar>(l.workspace) + (row * all + head) * HEAD_WIDTH;
        vec<scalar, 8> a, b;
        if (row >= total)
            break;
        a = load_chunk(x, row, at);
        b = load_chunk(x, row, at + HEAD_WIDTH / 2);
        for (int e = 0; e < 8; e++) {
            const float cosine = rotation[angle + e], sine = rotation[angle + HEAD_WIDTH / 2 + e];
            const float low = to_wide(a.v[e]) * cosine - to_wide(b.v[e]) * sine;
            const float high = to_wide(b.v[e]) * cosine + to_wide(a.v[e]) * sine;
            a.v[e] = to_scalar(low);
            b.v[e] = to_scalar(high);
        }
        store(y, at, a);
        store(y, at + HEAD_WIDTH / 2, b);
    }
}

#endif

#if BACKWARD
#if ROTATES
/* Loads two numbers. i is even. */
DEVICE vec<float, 2> load_pair(global<const float> x, int64_t i) {
#if ALIGNED
    return load<2>(x, i);
#else
    const vec<float, 2> pair = {{x[i], x[i + 1]}};
    return pair;
#endif
}
#endif

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
            const vec<float, 2> cosines = load_pair(rotation, angles + column_of(n, 0));
            const vec<float, 2> sines = load_pair(rotation, angles + HEAD_WIDTH / 2 + column_of(n, 0));
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
    for (int r = 0; r < 4; r += 2) {
        const range seen = keys_seen_by(sees, query + row_of(t, r));
        EACH_COLUMN(n)
        for (int e = r; e < r + 2; e++)
            s[t][n][e] = is_within(seen, key + column_of(n, e)) ? s[t][n][e] : -INFINITY;
    }
}

#if BACKWARD
/* Like hide, with keys in rows and queries in columns. */
DEVICE void hide_transposed(const visibility &sees, score_tiles &s, int query, int key) {
    if (all_seen(sees, query, STEP, key, WARP_ROWS))
        return;
    EACH_TILE(t)
    for (int r = 0; r < 4; r += 2) {
        const range seeing = queries_that_see(sees, key + row_of(t, r));
        EACH_COLUMN(n)
        for (int e = r; e < r + 2; e++)
            s[t][n][e] = is_within(seeing, query + column_of(n, e)) ? s[t][n][e] : -INFINITY;
    }
}
#endif

/* ---- Dropout ---- */

/* Bit 4 n + r of word t: element r of column n of tile t is kept. */
typedef uint32_t kept_tiles[ROW_TILES];

DEVICE int is_kept(const kept_tiles &kept, int t, int n, int r) {
    return !DROPS || (kept[t] >> (4 * n + r) & 1);
}

/* Draws for the warp's queries. Two lanes share four keys of two queries: each draws for one query. */
DEVICE void draw_kept(const dropout &drop, int query, int key, kept_tiles &kept) {
    const int odd = lane() % 2;
#pragma unroll
    for (int t = 0; t < ROW_TILES && DROPS; t++) {
        kept[t] = 0;
#pragma unroll 1
        for (int n = 0; n < COLUMNS; n++) {
            uint32_t drawn = kept_of(drop, query + row_of(t, 2 * odd), key + n * 8 + lane() / 2 % 2 * 4) << 4 * odd;
            drawn |= shuffle_xor(drawn, 1);
            kept[t] |= ((drawn >> 2 * odd & 3) | (drawn >> (4 + 2 * odd) & 3) << 2) << 4 * n;
        }
    }
}

#if !BACKWARD
/* Replaces factors that are not kept by 0. They take half the registers of scores while numbers are drawn. */
DEVICE void drop_factors(const kept_tiles &kept, factor_tiles &factors) {
    EACH_TILE(t)
    EACH_COLUMN(n)
    for (int h = 0; h < 2; h++)
        factors[t][n / 2][n % 2 * 2 + h] &=
            (is_kept(kept, t, n, 2 * h) ? 0xffffu : 0) | (is_kept(kept, t, n, 2 * h + 1) ? 0xffff0000u : 0);
}
#endif

#if BACKWARD
/* Like draw_kept, with keys in rows and queries in columns. Four lanes share four keys of two queries, twice. */
DEVICE void draw_kept_transposed(const dropout &drop, int query, int key, kept_tiles &kept) {
    const int own = lane() / 4 % 4;
#pragma unroll
    for (int t = 0; t < ROW_TILES && DROPS; t++) {
        kept[t] = 0;
#pragma unroll 1
        for (int n = 0; n < COLUMNS; n++) {
            const int first = key + t * 16 + own / 2 * 8 + lane() / 16 * 4;
            uint32_t drawn = kept_of(drop, query + column_of(n, own), first) << 4 * own;
            drawn |= shuffle_xor(drawn, 4);
            drawn |= shuffle_xor(drawn, 8);
            for (int r = 0; r < 4; r++)
                kept[t] |= (drawn >> (4 * r + own) & 1) << (4 * n + r);
        }
    }
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
    DYNAMIC_SHARED(scalar, q, 0, ROWS_SIZE);
    DYNAMIC_SHARED(scalar, k, 2 * ROWS_SIZE, BUFFERS * STEP_SIZE);
    DYNAMIC_SHARED(scalar, v, 2 * (ROWS_SIZE + BUFFERS * STEP_SIZE), BUFFERS * STEP_SIZE);
    const place at = place_of_queries(l);
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
    copy_rows<ROWS>(queries_of(l, at.head), rows.begin + first, count - first, q);
    copy_rows<STEP>(keys, key_row + key, sees.keys - key, k);
    copy_rows<STEP>(values, key_row + key, sees.keys - key, v);
    copy_async_commit();
    for (; key < last; key += STEP) {
        const int next = key + STEP, other = BUFFERS - 1 - buffer;
        copy_async_wait<0>();
        barrier();
        if (BUFFERS == 2 && next < last) {
            copy_rows<STEP>(keys, key_row + next, sees.keys - next, k + other * STEP_SIZE);
            copy_rows<STEP>(values, key_row + next, sees.keys - next, v + other * STEP_SIZE);
            copy_async_commit();
        }
        if (own < count - first && some_seen(sees, query + own, WARP_ROWS, key, STEP)) {
            kept_tiles kept;
            score_tiles s;
            factor_tiles p;
            find_scores(s, q + own * STRIDE, k + buffer * STEP_SIZE);
            hide(sees, s, query + own, key);
            exponentiate(s, factor, so_far, o);
            round_scores(s, p);
            draw_kept(drop, query + own, key, kept);
            drop_factors(kept, p);
            add_product(o, p, v + buffer * STEP_SIZE);
        }
        if (BUFFERS == 1 && next < last) {
            barrier();
            copy_rows<STEP>(keys, key_row + next, sees.keys - next, k);
            copy_rows<STEP>(values, key_row + next, sees.keys - next, v);
            copy_async_commit();
        }
        buffer = other;
    }
    if (own < count - first)
        finish(l, so_far, o, at.head, q + own * STRIDE, rows.begin + first + own, count - first - own);
}

#else

/* ---- Backward ---- */

/* For each row and head: the dot product of the output and its gradient, which is the mean of a query's derivatives. */
DEVICE global<float> means_of(const eitp__launch &l) {
    const int64_t all = l.call.inputs[0].shape[0] * (heads_of(l) + key_heads_of(l)) * HEAD_WIDTH;
    return global_at<float>((const char *)l.workspace + (IS_TURNED ? all * (int64_t)sizeof(scalar) : 0));
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
DEVICE void differentiate(float &s, float &ds, float factor, float logsumexp, float mean, int applies, float kept) {
    const float p = exp2_near(fmaf(s, factor, -logsumexp));
    ds = p * ((applies ? ds * kept : 0.0f) - mean);
    s = applies ? p : 0.0f;
}

/* Computes the gradients of a tile of queries. */
KERNEL(attention_backward_queries_kernel, THREADS) {
    SHARED(int32_t, scratch, 32);
    DYNAMIC_SHARED(scalar, q, 0, ROWS_SIZE);
    DYNAMIC_SHARED(scalar, slopes, 2 * ROWS_SIZE, ROWS_SIZE);
    DYNAMIC_SHARED(scalar, k, 4 * ROWS_SIZE, BUFFERS * STEP_SIZE);
    DYNAMIC_SHARED(scalar, v, 2 * (2 * ROWS_SIZE + BUFFERS * STEP_SIZE), BUFFERS * STEP_SIZE);
    const place at = place_of_queries(l);
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
    copy_rows<ROWS>(queries_of(l, at.head), rows.begin + first, count - first, q);
    copy_rows<ROWS>(gradient, rows.begin + first, count - first, slopes);
    copy_rows<STEP>(keys, rows.begin + key, sees.keys - key, k);
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
            copy_rows<STEP>(keys, rows.begin + next, sees.keys - next, k + other * STEP_SIZE);
            copy_rows<STEP>(values, rows.begin + next, sees.keys - next, v + other * STEP_SIZE);
            copy_async_commit();
        }
        if (own < count - first && some_seen(sees, first + own, WARP_ROWS, key, STEP)) {
            const shared<scalar> step = k + buffer * STEP_SIZE;
            kept_tiles drawn;
            score_tiles s, ds;
            factor_tiles slope;
            draw_kept(drop, first + own, key, drawn);
            find_scores(s, q + own * STRIDE, step);
            hide(sees, s, first + own, key);
            find_scores(ds, slopes + own * STRIDE, v + buffer * STEP_SIZE);
            EACH_TILE(t)
            EACH_COLUMN(n)
            EACH_ELEMENT(r)
            differentiate(s[t][n][r], ds[t][n][r], factor, logsumexps[t][r / 2], means[t][r / 2],
                          is_kept(drawn, t, n, r), kept);
            round_scores(ds, slope);
            add_product(dq, slope, step);
        }
        if (BUFFERS == 1 && next < last) {
            barrier();
            copy_rows<STEP>(keys, rows.begin + next, sees.keys - next, k);
            copy_rows<STEP>(values, rows.begin + next, sees.keys - next, v);
            copy_async_commit();
        }
        buffer = other;
    }
    if (own >= count - first)
        return;
    turn_back(l, dq, own_row, count - first - own);
    store_rows(dq, scale, q + own * STRIDE, gradient_part(l, 0, at.head), own_row, count - first - own);
}

/* One step of the queries that a block of keys reads, from one of the heads that share the keys. */
struct query_step {
    int head;
    int query; /* first query of the step, within the sequence */
};

/* Starts copying the queries of a step and the gradients of their outputs. */
DEVICE void copy_queries(const eitp__launch &l, const sequence &rows, const query_step &step, shared<scalar> q,
                         shared<scalar> slopes) {
    const int limit = (int)(rows.end - rows.begin) - step.query;
    copy_rows<STEP>(queries_of(l, step.head), rows.begin + step.query, limit, q);
    copy_rows<STEP>(head_of<const scalar>(input<scalar>(l, EITP__ATTENTION_DO), heads_of(l), step.head),
                    rows.begin + step.query, limit, slopes);
    copy_async_commit();
}

/*
 * Thread i < STEP returns the log-sum-exp, in base 2, of query i of a step, or infinity if there is no such query.
 * Thread STEP + i returns its mean.
 */
DEVICE float statistic_of(const eitp__launch &l, const sequence &rows, const query_step &step) {
    const int is_mean = thread_index() / STEP, query = step.query + thread_index() % STEP;
    const int64_t at = (rows.begin + query) * heads_of(l) + step.head;
    if (is_mean > 1 || query >= (int)(rows.end - rows.begin))
        return is_mean ? 0.0f : INFINITY;
    return is_mean ? (float)means_of(l)[at] : (float)input<float>(l, EITP__ATTENTION_LOGSUMEXP)[at] * LOG2_OF_E;
}

/* Computes the gradients of a tile of keys and values, from all heads of queries that share them. */
KERNEL(attention_backward_keys_kernel, THREADS) {
    SHARED(int32_t, scratch, 32);
    SHARED(float, statistics, BUFFERS * 2 * STEP);
    DYNAMIC_SHARED(scalar, k, 0, ROWS_SIZE);
    DYNAMIC_SHARED(scalar, v, 2 * ROWS_SIZE, ROWS_SIZE);
    DYNAMIC_SHARED(scalar, q, 4 * ROWS_SIZE, BUFFERS * STEP_SIZE);
    DYNAMIC_SHARED(scalar, slopes, 2 * (2 * ROWS_SIZE + BUFFERS * STEP_SIZE), BUFFERS * STEP_SIZE);
    const place at = place_of_keys(l);
    const sequence rows = sequence_of(l, at.sequence, scratch);
    const visibility sees = visibility_of(l, rows);
    const int first = at.tile * ROWS, own = warp_index() * WARP_ROWS, count = (int)(rows.end - rows.begin);
    const int64_t own_row = rows.begin + first + own;
    const int group = (int)(heads_of(l) / key_heads_of(l)), first_head = (int)at.head * group;
    const int from = first_query(sees, first), last = last_query(sees, first, ROWS);
    const float scale = (float)l.call.reals[0], factor = scale * LOG2_OF_E, kept = kept_factor(l);
    query_step now = {first_head, from}, next;
    int buffer = 0;
    sum_tiles dk, dv;
    clear_rows(rows, at, gradient_part(l, 1, at.head), HEAD_WIDTH);
    clear_rows(rows, at, gradient_part(l, 2, at.head), HEAD_WIDTH);
    if (first >= count)
        return;
    copy_rows<ROWS>(keys_of(l, at.head), rows.begin + first, count - first, k);
    copy_rows<ROWS>(values_of(l, at.head), rows.begin + first, count - first, v);
    copy_queries(l, rows, now, q, slopes);
    if (thread_index() < 2 * STEP)
        statistics[thread_index()] = statistic_of(l, rows, now);
    clear(dk);
    clear(dv);
    for (; now.head < first_head + group; now = next) {
        const int other = BUFFERS - 1 - buffer, is_end = now.query + STEP >= last;
        float statistic = 0;
        int is_last;
        next.head = now.head + is_end;
        next.query = is_end ? from : now.query + STEP;
        is_last = next.head == first_head + group;
        if (!is_last)
            statistic = statistic_of(l, rows, next);
        copy_async_wait<0>();
        barrier();
        if (BUFFERS == 2 && !is_last)
            copy_queries(l, rows, next, q + other * STEP_SIZE, slopes + other * STEP_SIZE);
        if (own < count - first && some_seen(sees, now.query, STEP, first + own, WARP_ROWS)) {
            const shared<scalar> queries = q + buffer * STEP_SIZE;
            const shared<float> of_step = statistics + buffer * 2 * STEP;
            kept_tiles drawn;
            score_tiles s, ds;
            factor_tiles p, slope;
            draw_kept_transposed(dropout_of(l, now.head, rows.begin), now.query, first + own, drawn);
            find_scores(s, k + own * STRIDE, queries);
            hide_transposed(sees, s, now.query, first + own);
            find_scores(ds, v + own * STRIDE, slopes + buffer * STEP_SIZE);
            EACH_COLUMN(n) {
                const vec<float, 2> logsumexps = load<2>(of_step, column_of(n, 0));
                const vec<float, 2> means = load<2>(of_step, STEP + column_of(n, 0));
                EACH_TILE(t)
                EACH_ELEMENT(r)
                differentiate(s[t][n][r], ds[t][n][r], factor, logsumexps.v[r % 2], means.v[r % 2],
                              is_kept(drawn, t, n, r), kept);
            }
            round_scores(s, p);
            round_scores(ds, slope);
            add_product(dv, p, slopes + buffer * STEP_SIZE);
            add_product(dk, slope, queries);
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
