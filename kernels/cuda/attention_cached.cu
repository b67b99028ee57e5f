/*
 * Attention of a few rows to a cache. A block handles one row, one head and one span of the cache. It stores the
 * largest score, the sum of exponentials relative to it, and the weighted sum of values. The last stage combines these.
 * With many rows, a block processes all spans itself and combines them in the same order.
 */
#ifndef CACHED
#define CACHED 1
#endif
#include "kernels/cuda/attention_cached.h"
#include "kernels/cuda/attention_tiles.h"

#if IS_HALF || SCALAR == 0

enum {
    THREADS = 128,
    SPAN = EITP__CACHED_SPAN,
    RUN = HAS_CHUNKS && IS_HALF            ? 8
          : HEAD_WIDTH % 4 == 0 && ALIGNED ? 4
                                           : 1, /* elements per read */
    RUNS = HEAD_WIDTH / RUN,
    ACROSS = RUNS < THREADS ? RUNS : THREADS, /* threads that read a row of values at once */
    DOWN = THREADS / ACROSS,
    STATE = HEAD_WIDTH + 2 /* state of a block: weighted sum, largest score, sum of exponentials */
};

/* Adds two elements of weighted sums that are relative to different largest scores. */
DEVICE float joined(float sum, float top, float other, float other_top) {
    const float largest = fmaxf(top, other_top);
    return sum * expf(top - largest) + other * expf(other_top - largest);
}

/* Returns the offset of the state of block `part` of a row and a head. */
DEVICE int64_t state_at(const eitp__launch &l, int64_t row, int64_t head, int parts, int part) {
    return ((row * heads_of(l) + head) * parts + part) * STATE;
}

/* The states follow the rotated queries in the workspace. */
DEVICE global<float> states_of(const eitp__launch &l) {
    const int64_t queries = ROTATES ? l.call.inputs[0].shape[0] * heads_of(l) * HEAD_WIDTH : 0;
    return global_at<float>((const char *)l.workspace + (queries * (int64_t)sizeof(scalar) + 63) / 64 * 64);
}

/* Computes the scores of `count` keys, times `scale`. Eight lanes share a key. */
DEVICE void score_keys(shared<float> q, const matrix<const scalar> &keys, int64_t first, int count, float scale,
                       shared<float> scores) {
    for (int j = thread_index() / 8; j - lane() / 8 < count; j += THREADS / 8) {
        float sum = 0;
        for (int i = thread_index() % 8; i < RUNS && j < count; i += 8) {
            const vec<scalar, RUN> k = load<RUN>(keys.data, (first + j) * keys.stride + i * RUN);
#pragma unroll
            for (int e = 0; e < RUN; e++)
                sum = fmaf(q[i * RUN + e], to_wide(k.v[e]), sum);
        }
        for (int mask = 4; mask > 0; mask /= 2)
            sum += shuffle_xor(sum, mask);
        if (thread_index() % 8 == 0 && j < count)
            scores[j] = scale * sum;
    }
}

/* Computes the sum of `count` values with these weights. `sums` has THREADS RUN elements, `o` HEAD_WIDTH. */
DEVICE void add_values(shared<float> weights, const matrix<const scalar> &values, int64_t first, int count,
                       shared<float> sums, shared<float> o) {
    for (int across = 0; across < RUNS; across += ACROSS) {
        const int i = across + thread_index() % ACROSS, down = thread_index() / ACROSS;
        float sum[RUN] = {0};
        for (int j = down; j < count && down < DOWN && i < RUNS; j += DOWN) {
            const vec<scalar, RUN> v = load<RUN>(values.data, (first + j) * values.stride + i * RUN);
            const float weight = weights[j];
#pragma unroll
            for (int e = 0; e < RUN; e++)
                sum[e] = fmaf(weight, to_wide(v.v[e]), sum[e]);
        }
#pragma unroll
        for (int e = 0; e < RUN; e++)
            sums[e * THREADS + thread_index()] = sum[e];
        barrier();
        for (int k = thread_index(); k < ACROSS * RUN && across * RUN + k < HEAD_WIDTH; k += THREADS) {
            float total = 0;
            for (int d = 0; d < DOWN; d++)
                total += sums[k % RUN * THREADS + d * ACROSS + k / RUN];
            o[across * RUN + k] = total;
        }
        barrier();
    }
}

KERNEL(attention_cached_kernel, THREADS) {
    SHARED(float, q, HEAD_WIDTH);
    SHARED(float, o, HEAD_WIDTH);
    SHARED(float, sum, HEAD_WIDTH);
    SHARED(float, scores, SPAN);
    SHARED(float, sums, THREADS *RUN);
    SHARED(float, scratch, 32);
    const int64_t heads = heads_of(l), longest = l.call.outputs[1].shape[0];
    const int parts = (int)eitp__cached_parts(&l.call), part = (int)(block_index() % parts);
    const int64_t head = block_index() / parts % heads, row = block_index() / parts / heads;
    const int64_t spans = (longest + SPAN - 1) / SPAN, key_head = head * key_heads_of(l) / heads;
    const int64_t last = (int64_t)input<int32_t>(l, EITP__CACHED_POSITION)[0] + row + 1, window = window_of(l);
    const int64_t start = last > window ? last - window : 0, state = state_at(l, row, head, parts, part);
    const matrix<const scalar> keys = head_of<const scalar>(output<scalar>(l, 1), key_heads_of(l), key_head);
    const matrix<const scalar> values = head_of<const scalar>(output<scalar>(l, 2), key_heads_of(l), key_head);
    float top = -INFINITY, total = 0;
    if (row >= first_dimension(l, l.call.inputs[0]))
        return;
    for (int i = thread_index(); i < HEAD_WIDTH; i += THREADS) {
#if ROTATES
        q[i] = to_wide(global_at<const scalar>(l.workspace)[(row * heads + head) * HEAD_WIDTH + i]);
#else
        const matrix<const scalar> queries = input_part(l, 0, head);
        q[i] = to_wide(queries.data[row * queries.stride + i]);
#endif
        sum[i] = 0;
    }
    barrier();
    for (int64_t span = part; span < spans && last <= longest; span += parts) {
        const int64_t first = span * SPAN > start ? span * SPAN : start;
        const int64_t end = (span + 1) * SPAN < last ? (span + 1) * SPAN : last;
        const int count = (int)(end - first);
        float here = -INFINITY, added = 0;
        if (first >= end)
            continue;
        score_keys(q, keys, first, count, (float)l.call.reals[0], scores);
        barrier();
        for (int j = thread_index(); j < count; j += THREADS)
            here = fmaxf(here, scores[j]);
        here = block_max(here, scratch);
        for (int j = thread_index(); j < count; j += THREADS) {
            scores[j] = expf(scores[j] - here);
            added += scores[j];
        }
        added = block_sum(added, scratch);
        add_values(scores, values, first, count, sums, o);
        for (int i = thread_index(); i < HEAD_WIDTH; i += THREADS)
            sum[i] = joined(sum[i], top, o[i], here);
        total = joined(total, top, added, here);
        top = fmaxf(top, here);
    }
    for (int i = thread_index(); i < HEAD_WIDTH; i += THREADS)
        states_of(l)[state + i] = (float)sum[i];
    if (thread_index() == 0) {
        states_of(l)[state + HEAD_WIDTH] = top;
        states_of(l)[state + HEAD_WIDTH + 1] = total;
    }
}

/* Combines the states of a row and a head. Rows outside the cache get zeros. */
KERNEL(attention_cached_total_kernel, THREADS) {
    const int64_t heads = heads_of(l), head = block_index() % heads, row = block_index() / heads;
    const int64_t position = (int64_t)input<int32_t>(l, EITP__CACHED_POSITION)[0] + row;
    const int parts = (int)eitp__cached_parts(&l.call);
    const global<const float> states = states_of(l) + state_at(l, row, head, parts, 0);
    if (row >= first_dimension(l, l.call.inputs[0]))
        return;
    for (int i = thread_index(); i < HEAD_WIDTH; i += THREADS) {
        float sum = 0, top = -INFINITY, total = 0;
        for (int part = 0; part < parts; part++) {
            const int64_t at = (int64_t)part * STATE;
            const float other = states[at + HEAD_WIDTH], added = states[at + HEAD_WIDTH + 1];
            if (added == 0) /* the row attends to no position of the part */
                continue;
            sum = joined(sum, top, states[at + i], other);
            total = joined(total, top, added, other);
            top = fmaxf(top, other);
        }
        output<scalar>(l, 0)[(row * heads + head) * HEAD_WIDTH + i] =
            to_scalar(position >= 0 && position < l.call.outputs[1].shape[0] ? sum / total : 0.0f);
    }
}

#endif
