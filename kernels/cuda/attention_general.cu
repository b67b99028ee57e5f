/*
 * Attention for every type and every head width up to MOST_WIDTH, in F32. Like attention.cu: a block owns 64 queries,
 * or 64 keys when it computes the gradient of keys and values, and steps through the rows on the other side, 64 at a
 * time. Each thread has 4 x 4 scores and 4 rows of sums. Operands are loaded into shared memory in parts, converted and
 * rotated.
 */
#include "kernels/cuda/attention_cached.h"

#if IS_HALF || SCALAR == 0

enum {
    TILE = 64,
    THREADS = 256,
    PITCH = TILE + 4, /* elements per row of a transposed tile */
    DEPTH = 16,       /* size of a part: columns of the factors of scores, or rows of the second factor of sums */
    RUN = HEAD_WIDTH <= 16   ? 1
          : HEAD_WIDTH <= 32 ? 2
                             : 4, /* adjacent columns of sums in a thread */
    RUNS = (HEAD_WIDTH + 16 * RUN - 1) / (16 * RUN),
    PADDED = 16 * RUN * RUNS, /* columns of sums */
    IS_TURNED = ROTATES && !CACHED
};

typedef float score_tile[4][4];
typedef float sum_tile[4][RUNS][RUN];

/* Return the first row and column of a thread's scores, and its first column of sums. */
DEVICE int thread_row() {
    return thread_index() / 16 * 4;
}
DEVICE int thread_column() {
    return thread_index() % 16 * 4;
}

/* Rows of a head, from `row`. Only the first `limit` exist; the others are zeros. */
struct head_rows {
    matrix<const scalar> x;
    int64_t row;
    int limit, is_turned;
};

DEVICE head_rows rows_at(const matrix<const scalar> &x, int64_t row, int limit, int is_turned) {
    head_rows rows = {x, row, limit, is_turned && IS_TURNED};
    return rows;
}

/* Returns element `i` of row `r`. */
DEVICE float element_at(const eitp__launch &l, const head_rows &from, int r, int i) {
    const int64_t row = from.row + r;
    if (r >= from.limit || i >= HEAD_WIDTH)
        return 0;
#if ROTATES && !CACHED
    if (from.is_turned)
        return rotated_element(l, from.x, row, i);
#else
    (void)l;
#endif
    return to_wide(from.x.data[row * from.x.stride + i]);
}

/* s = a b^T for 64 rows of each. `parts` has 2 DEPTH PITCH elements. */
DEVICE void scores_of(const eitp__launch &l, score_tile &s, const head_rows &a, const head_rows &b,
                      shared<float> parts) {
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            s[i][j] = 0;
    for (int first = 0; first < HEAD_WIDTH; first += DEPTH) {
        barrier();
        for (int i = thread_index(); i < TILE * DEPTH; i += THREADS) {
            const int r = i / DEPTH, k = i % DEPTH;
            parts[k * PITCH + r] = element_at(l, a, r, first + k);
            parts[(DEPTH + k) * PITCH + r] = element_at(l, b, r, first + k);
        }
        barrier();
#pragma unroll 4
        for (int k = 0; k < DEPTH; k++) {
            const vec<float, 4> x = load<4>(parts, k * PITCH + thread_row());
            const vec<float, 4> y = load<4>(parts, (DEPTH + k) * PITCH + thread_column());
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    s[i][j] = fmaf(x.v[i], y.v[j], s[i][j]);
        }
    }
}

/* Writes a tile, transposed, for add_product. `tile` has TILE PITCH elements. */
DEVICE void put_scores(const score_tile &s, shared<float> tile) {
    barrier();
    for (int j = 0; j < 4; j++) {
        vec<float, 4> column;
        for (int i = 0; i < 4; i++)
            column.v[i] = s[i][j];
        store(tile, (thread_column() + j) * PITCH + thread_row(), column);
    }
}

/* sums += tile b for 64 rows of b. `part` has DEPTH PADDED elements. */
DEVICE void add_product(const eitp__launch &l, sum_tile &sums, shared<float> tile, const head_rows &b,
                        shared<float> part) {
    for (int first = 0; first < TILE; first += DEPTH) {
        barrier();
        for (int i = thread_index(); i < DEPTH * PADDED; i += THREADS)
            part[i] = element_at(l, b, first + i / PADDED, i % PADDED);
        barrier();
#pragma unroll 4
        for (int k = 0; k < DEPTH; k++) {
            const vec<float, 4> x = load<4>(tile, (first + k) * PITCH + thread_row());
#pragma unroll
            for (int n = 0; n < RUNS; n++) {
                const vec<float, RUN> y = load<RUN>(part, k * PADDED + (n * 16 + thread_index() % 16) * RUN);
#pragma unroll
                for (int i = 0; i < 4; i++)
#pragma unroll
                    for (int e = 0; e < RUN; e++)
                        sums[i][n][e] = fmaf(x.v[i], y.v[e], sums[i][n][e]);
            }
        }
    }
}

DEVICE void clear_sums(sum_tile &sums) {
    for (int i = 0; i < 4; i++)
        for (int n = 0; n < RUNS; n++)
            for (int e = 0; e < RUN; e++)
                sums[i][n][e] = 0;
}

/* Stores the rows of a block. Only the first `limit` exist. */
DEVICE void store_sums(const sum_tile &sums, float factor, const matrix<scalar> &to, int64_t row, int limit) {
    for (int i = 0; i < 4; i++)
        for (int n = 0; n < RUNS; n++)
            for (int e = 0; e < RUN; e++) {
                const int column = (n * 16 + thread_index() % 16) * RUN + e;
                if (thread_row() + i < limit && column < HEAD_WIDTH)
                    to.data[(row + thread_row() + i) * to.stride + column] = to_scalar(sums[i][n][e] * factor);
            }
}

#if BACKWARD
/* Like the above, for gradients of rotated rows, which are rotated back in `row_sums`, of DEPTH PADDED elements. */
DEVICE void store_gradient(const eitp__launch &l, const sum_tile &sums, float factor, const matrix<scalar> &to,
                           int64_t row, int limit, shared<float> row_sums) {
#if ROTATES && !CACHED
    const global<const float> rotation = input<float>(l, ROTATION);
    for (int first = 0; first < TILE; first += DEPTH) {
        barrier();
        for (int i = 0; i < 4; i++)
            for (int n = 0; n < RUNS; n++)
                for (int e = 0; e < RUN; e++)
                    if (thread_row() / DEPTH == first / DEPTH)
                        row_sums[(thread_row() % DEPTH + i) * PADDED + (n * 16 + thread_index() % 16) * RUN + e] =
                            sums[i][n][e] * factor;
        barrier();
        for (int i = thread_index(); i < DEPTH * (HEAD_WIDTH / 2); i += THREADS) {
            const int r = i / (HEAD_WIDTH / 2), k = i % (HEAD_WIDTH / 2), half = HEAD_WIDTH / 2;
            const int64_t at = row + first + r;
            float a, b, cosine, sine;
            if (first + r >= limit)
                break;
            a = row_sums[r * PADDED + k];
            b = row_sums[r * PADDED + half + k];
            cosine = rotation[at * HEAD_WIDTH + k];
            sine = rotation[at * HEAD_WIDTH + half + k];
            to.data[at * to.stride + k] = to_scalar(a * cosine + b * sine);
            to.data[at * to.stride + half + k] = to_scalar(b * cosine - a * sine);
        }
    }
#else
    (void)l;
    (void)row_sums;
    store_sums(sums, factor, to, row, limit);
#endif
}
#endif

/* Bit i is set if a query's probability for key `key` + i is kept. */
DEVICE uint32_t drawn_for(const dropout &drop, int query, int key) {
    return DROPS ? kept_of(drop, query, key) : 15;
}

#if !BACKWARD

#if CACHED
KERNEL(attention_cached_kernel, THREADS) {
    const matrix<const scalar> queries =
        ROTATES ? head_of<const scalar>(global_at<const scalar>(l.workspace), heads_of(l), place_of_queries(l).head)
                : input_part(l, 0, place_of_queries(l).head);
#else
KERNEL(attention_kernel, THREADS) {
    const matrix<const scalar> queries = input_part(l, 0, place_of_queries(l).head);
#endif
    SHARED(int32_t, scratch, 32);
    SHARED(float, parts, 2 * DEPTH * PITCH);
    SHARED(float, tile, TILE *PITCH);
    SHARED(float, values, DEPTH *PADDED);
    const place at = place_of_queries(l);
    const sequence rows = sequence_of(l, at.sequence, scratch);
    const visibility sees = visibility_of(l, rows);
    const int first = at.tile * TILE, count = (int)(rows.end - rows.begin), query = rows.shift + first;
    const int64_t key_head = at.head * key_heads_of(l) / heads_of(l), key_row = CACHED ? 0 : rows.begin;
#if CACHED
    const matrix<const scalar> k = head_of<const scalar>(output<scalar>(l, 1), key_heads_of(l), key_head);
    const matrix<const scalar> v = head_of<const scalar>(output<scalar>(l, 2), key_heads_of(l), key_head);
#else
    const matrix<const scalar> k = input_part(l, 1, key_head), v = input_part(l, 2, key_head);
    const matrix<float> logsumexps = {output<float>(l, 1) + at.head, heads_of(l)};
#endif
    const head_rows q = rows_at(queries, rows.begin + first, count - first, 1);
    const matrix<scalar> out = head_of(output<scalar>(l, 0), heads_of(l), at.head);
    const dropout drop = dropout_of(l, at.head, rows.begin);
    const float scale = (float)l.call.reals[0], kept = kept_factor(l);
    const int last = last_key(sees, query, TILE);
    float tops[4], totals[4];
    sum_tile o;
    clear_rows(rows, at, out, HEAD_WIDTH);
#if !CACHED
    clear_rows(rows, at, logsumexps, 1);
#endif
    if (first >= count)
        return;
    clear_sums(o);
    for (int i = 0; i < 4; i++) {
        tops[i] = -INFINITY;
        totals[i] = 0;
    }
    for (int key = first_key(sees, query, TILE); key < last; key += TILE) {
        score_tile s;
        scores_of(l, s, q, rows_at(k, key_row + key, sees.keys - key, 1), parts);
        for (int i = 0; i < 4; i++) {
            const uint32_t drawn = drawn_for(drop, query + thread_row() + i, key + thread_column());
            float top = tops[i], base, shrink;
            for (int j = 0; j < 4; j++) {
                const int seen = is_seen(sees, query + thread_row() + i, key + thread_column() + j);
                s[i][j] = seen ? s[i][j] * scale : -INFINITY;
                top = fmaxf(top, s[i][j]);
            }
            for (int mask = 1; mask < 16; mask *= 2)
                top = fmaxf(top, shuffle_xor(top, mask));
            base = top == -INFINITY ? 0.0f : top;
            shrink = expf(tops[i] - base);
            tops[i] = top;
            totals[i] *= shrink;
            for (int n = 0; n < RUNS; n++)
                for (int e = 0; e < RUN; e++)
                    o[i][n][e] *= shrink;
            for (int j = 0; j < 4; j++) {
                s[i][j] = expf(s[i][j] - base);
                totals[i] += s[i][j];
                s[i][j] *= drawn >> j & 1 ? kept : 0.0f;
            }
        }
        put_scores(s, tile);
        add_product(l, o, tile, rows_at(v, key_row + key, sees.keys - key, 0), values);
    }
    for (int i = 0; i < 4; i++) {
        for (int mask = 1; mask < 16; mask *= 2)
            totals[i] += shuffle_xor(totals[i], mask);
        for (int n = 0; n < RUNS; n++)
            for (int e = 0; e < RUN; e++)
                o[i][n][e] /= totals[i];
#if !CACHED
        if (thread_index() % 16 == 0 && first + thread_row() + i < count)
            logsumexps.data[(rows.begin + first + thread_row() + i) * logsumexps.stride] = tops[i] + logf(totals[i]);
#endif
    }
    store_sums(o, 1, out, rows.begin + first, count - first);
}

#else

/*
 * Return a query's log-sum-exp, or infinity if there is no such query; and, for each row and head, the dot product of
 * the output and its gradient, which is the mean of the query's derivatives.
 */
DEVICE float logsumexp_of(const eitp__launch &l, int64_t head, const sequence &rows, int query) {
    return rows.begin + query < rows.end
               ? (float)input<float>(l, EITP__ATTENTION_LOGSUMEXP)[(rows.begin + query) * heads_of(l) + head]
               : INFINITY;
}
DEVICE float mean_of(const eitp__launch &l, int64_t head, const sequence &rows, int query) {
    return rows.begin + query < rows.end
               ? (float)global_at<float>(l.workspace)[(rows.begin + query) * heads_of(l) + head]
               : 0.0f;
}

DEVICE head_rows slopes_at(const eitp__launch &l, int64_t head, const sequence &rows, int query) {
    return rows_at(head_of<const scalar>(input<scalar>(l, EITP__ATTENTION_DO), heads_of(l), head), rows.begin + query,
                   (int)(rows.end - rows.begin) - query, 0);
}

/*
 * Replaces a score by the probability that was applied, and a derivative with respect to the probability by the
 * derivative with respect to the score, without the factor `scale`.
 */
DEVICE void slope(float &s, float &ds, int seen, float scale, float logsumexp, float mean, float factor) {
    const float p = seen ? expf(s * scale - logsumexp) : 0.0f;
    ds = seen ? p * (factor * ds - mean) : 0.0f;
    s = p * factor;
}

/* Computes the gradients of a tile of queries. */
KERNEL(attention_backward_queries_kernel, THREADS) {
    SHARED(int32_t, scratch, 32);
    SHARED(float, parts, 2 * DEPTH * PITCH);
    SHARED(float, tile, TILE *PITCH);
    SHARED(float, keys, DEPTH *PADDED);
    SHARED(float, found, TILE);
    const place at = place_of_queries(l);
    const sequence rows = sequence_of(l, at.sequence, scratch);
    const visibility sees = visibility_of(l, rows);
    const int first = at.tile * TILE, count = (int)(rows.end - rows.begin), last = last_key(sees, first, TILE);
    const int64_t key_head = at.head * key_heads_of(l) / heads_of(l);
    const matrix<const scalar> k = input_part(l, 1, key_head), v = input_part(l, 2, key_head);
    const head_rows q = rows_at(input_part(l, 0, at.head), rows.begin + first, count - first, 1);
    const head_rows slopes = slopes_at(l, at.head, rows, first);
    const dropout drop = dropout_of(l, at.head, rows.begin);
    const float scale = (float)l.call.reals[0], kept = kept_factor(l);
    float logsumexps[4], means[4];
    sum_tile dq;
    clear_rows(rows, at, gradient_part(l, 0, at.head), HEAD_WIDTH);
    if (first >= count)
        return;
    for (int r = warp_index(); r < TILE; r += THREADS / 32) {
        const head_rows o = rows_at(head_of<const scalar>(input<scalar>(l, EITP__ATTENTION_O), heads_of(l), at.head),
                                    rows.begin + first, count - first, 0);
        float mean = 0;
        for (int i = lane(); i < HEAD_WIDTH; i += 32)
            mean = fmaf(element_at(l, o, r, i), element_at(l, slopes, r, i), mean);
        mean = warp_sum(mean);
        if (lane() == 0) {
            found[r] = mean;
            if (first + r < count)
                global_at<float>(l.workspace)[(rows.begin + first + r) * heads_of(l) + at.head] = mean;
        }
    }
    barrier();
    for (int i = 0; i < 4; i++) {
        logsumexps[i] = logsumexp_of(l, at.head, rows, first + thread_row() + i);
        means[i] = found[thread_row() + i];
    }
    clear_sums(dq);
    for (int key = first_key(sees, first, TILE); key < last; key += TILE) {
        const head_rows now = rows_at(k, rows.begin + key, sees.keys - key, 1);
        score_tile s, ds;
        scores_of(l, s, q, now, parts);
        scores_of(l, ds, slopes, rows_at(v, rows.begin + key, sees.keys - key, 0), parts);
        for (int i = 0; i < 4; i++) {
            const int query = first + thread_row() + i;
            const uint32_t drawn = drawn_for(drop, query, key + thread_column());
            for (int j = 0; j < 4; j++)
                slope(s[i][j], ds[i][j], is_seen(sees, query, key + thread_column() + j), scale, logsumexps[i],
                      means[i], drawn >> j & 1 ? kept : 0.0f);
        }
        put_scores(ds, tile);
        add_product(l, dq, tile, now, keys);
    }
    store_gradient(l, dq, scale, gradient_part(l, 0, at.head), rows.begin + first, count - first, keys);
}

/* Computes the gradients of a tile of keys and values, from all heads of queries that share them. */
KERNEL(attention_backward_keys_kernel, THREADS) {
    SHARED(int32_t, scratch, 32);
    SHARED(float, parts, 2 * DEPTH * PITCH);
    SHARED(float, tile, TILE *PITCH);
    SHARED(float, queries, DEPTH *PADDED);
    const place at = place_of_keys(l);
    const sequence rows = sequence_of(l, at.sequence, scratch);
    const visibility sees = visibility_of(l, rows);
    const int first = at.tile * TILE, count = (int)(rows.end - rows.begin), last = last_query(sees, first, TILE);
    const int64_t group = heads_of(l) / key_heads_of(l);
    const head_rows k = rows_at(input_part(l, 1, at.head), rows.begin + first, count - first, 1);
    const head_rows v = rows_at(input_part(l, 2, at.head), rows.begin + first, count - first, 0);
    const float scale = (float)l.call.reals[0], kept = kept_factor(l);
    sum_tile dk, dv;
    clear_rows(rows, at, gradient_part(l, 1, at.head), HEAD_WIDTH);
    clear_rows(rows, at, gradient_part(l, 2, at.head), HEAD_WIDTH);
    if (first >= count)
        return;
    clear_sums(dk);
    clear_sums(dv);
    for (int64_t head = at.head * group; head < (at.head + 1) * group; head++) {
        const dropout drop = dropout_of(l, head, rows.begin);
        for (int from = first_query(sees, first); from < last; from += TILE) {
            const head_rows q = rows_at(input_part(l, 0, head), rows.begin + from, count - from, 1);
            const head_rows slopes = slopes_at(l, head, rows, from);
            score_tile s, ds;
            scores_of(l, s, k, q, parts);
            scores_of(l, ds, v, slopes, parts);
            for (int j = 0; j < 4; j++) {
                const int query = from + thread_column() + j;
                const float logsumexp = logsumexp_of(l, head, rows, query), mean = mean_of(l, head, rows, query);
                const uint32_t drawn = drawn_for(drop, query, first + thread_row());
                for (int i = 0; i < 4; i++)
                    slope(s[i][j], ds[i][j], is_seen(sees, query, first + thread_row() + i), scale, logsumexp, mean,
                          drawn >> i & 1 ? kept : 0.0f);
            }
            put_scores(s, tile);
            add_product(l, dv, tile, slopes, queries);
            put_scores(ds, tile);
            add_product(l, dk, tile, q, queries);
        }
    }
    store_gradient(l, dk, scale, gradient_part(l, 1, at.head), rows.begin + first, count - first, queries);
    store_sums(dv, 1, gradient_part(l, 2, at.head), rows.begin + first, count - first);
}

#endif
#endif
