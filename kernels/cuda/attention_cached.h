/*
 * Rotation, and the first stage of attention with a cache, which stores the keys and values of the rows and rotates the
 * queries.
 */
#ifndef EITP_CUDA_ATTENTION_CACHED_H
#define EITP_CUDA_ATTENTION_CACHED_H

#include "kernels/cuda/attention.h"

/* Returns element `i` of a row of a head, rotated with its partner by that row of the rotation. */
DEVICE wide rotated_element(const eitp__launch &l, const matrix<const scalar> &x, int64_t row, int i) {
    const wide a = to_wide(x.data[row * x.stride + i]);
#if ROTATES
    const global<const wide> angles = input<wide>(l, ROTATION) + row * HEAD_WIDTH;
    const int half = HEAD_WIDTH / 2, is_low = i < half, angle = is_low ? i : i - half;
    const wide b = to_wide(x.data[row * x.stride + (is_low ? i + half : i - half)]);
    const wide cosine = angles[angle], sine = angles[half + angle];
    return is_low ? a * cosine - b * sine : a * cosine + b * sine;
#else
    (void)l;
    return a;
#endif
}

#if CACHED

/*
 * Each thread computes elements of the rows' queries, keys and values, spaced by the number of threads of the launch.
 * Writes rotated queries to the workspace as [rows, heads width]. Drops rows beyond the cache.
 */
KERNEL(attention_cached_store_kernel, 256) {
    const int64_t heads = heads_of(l), key_heads = key_heads_of(l), columns = key_heads * HEAD_WIDTH;
    const int64_t total = first_dimension(l, l.call.inputs[0]), longest = l.call.outputs[1].shape[0];
    const int64_t position = input<int32_t>(l, EITP__CACHED_POSITION)[0], skipped = ROTATES ? 0 : heads;
    const int64_t start = block_index() * thread_count() + thread_index(), step = block_count() * thread_count();
    const int64_t all = heads + 2 * key_heads - skipped;
    for (int64_t i = start; i < total * all * HEAD_WIDTH; i += step) {
        const int64_t row = i / HEAD_WIDTH / all, at = position + row;
        const int k = (int)(i % HEAD_WIDTH);
        int64_t head = i / HEAD_WIDTH % all + skipped;
        if (head < heads) {
            global_at<scalar>(l.workspace)[(row * heads + head) * HEAD_WIDTH + k] =
                to_scalar(rotated_element(l, input_part(l, 0, head), row, k));
            continue;
        }
        head -= heads;
        if (at < 0 || at >= longest)
            continue;
        if (head < key_heads) {
            output<scalar>(l, 1)[at * columns + head * HEAD_WIDTH + k] =
                to_scalar(rotated_element(l, input_part(l, 1, head), row, k));
        } else {
            const matrix<const scalar> values = input_part(l, 2, head - key_heads);
            output<scalar>(l, 2)[at * columns + (head - key_heads) * HEAD_WIDTH + k] =
                (scalar)values.data[row * values.stride + k];
        }
    }
    /* The output caches usually share memory with the input caches. */
    for (int part = 1; part < 3; part++) {
        const global<scalar> to = part == 1 ? output<scalar>(l, 1) : output<scalar>(l, 2);
        const global<const scalar> from = part == 1 ? input<scalar>(l, 1) : input<scalar>(l, 2);
        if ((part == 1 ? l.call.inputs[1].data : l.call.inputs[2].data) ==
            (part == 1 ? l.call.outputs[1].data : l.call.outputs[2].data))
            continue;
        for (int64_t i = start; i < longest * columns; i += step) {
            const int64_t row = i / columns - position;
            if (row < 0 || row >= total)
                to[i] = (scalar)from[i];
        }
    }
}

#endif
#endif
