/*
 * FACTORED_MEANS and FACTORED_MOMENTUM, whose results are shared by the updates of all pieces of a matrix. Each has one
 * stage that leaves sums in the workspace and one that uses them. The formulas are those of kernels/ref/ref.c.
 */
#include "kernels/cuda/call.h"

enum { THREADS = 256, K = EITP__DIRECTIONS };

/* Replaces each of n values by its sum over the block. `scratch` has 32 elements per value. */
template <int n> DEVICE void block_sums(double values[n], shared<double> scratch) {
    for (int k = 0; k < n; k++) {
        const double sum = warp_sum(values[k]);
        if (lane() == 0)
            scratch[k * 32 + warp_index()] = sum;
    }
    barrier();
    for (int k = 0; k < n; k++) {
        double sum = 0;
        if (lane() < thread_count() / 32)
            sum = scratch[k * 32 + lane()];
        values[k] = warp_sum(sum);
    }
    barrier();
}

/* ---- FACTORED_MEANS ---- */

DEVICE int64_t blocks_of(int64_t elements) {
    return (elements + THREADS - 1) / THREADS;
}

/*
 * The first blocks compute the columns and their roots. The others compute the rows, and each leaves the sum of its
 * means.
 */
KERNEL(factored_means_kernel, THREADS) {
    SHARED(double, scratch, 32);
    SHARED(double, correction, 1);
    const global<const float> commit = input<float>(l, 3);
    const int64_t c = l.call.inputs[0].elements, r = has_input(l, 4) ? l.call.inputs[4].elements : 1;
    const int is_column = block_index() < blocks_of(c);
    const int64_t block = is_column ? block_index() : block_index() - blocks_of(c);
    const int64_t i = block * THREADS + thread_index();
    const double keep = l.call.reals[0], take = (1 - keep) * (double)commit[0] * (double)commit[0];
    const global<float> means = global_at<float>(l.call.inputs[is_column ? 0 : 4].data);
    const int is_there = i < (is_column ? c : r);
    double mean = 0;
    if (is_column && thread_index() == 0)
        correction[0] = 1 / weight_of_mean(keep, input<float>(l, 2)[1]);
    barrier();
    if (is_there)
        mean = (double)means[i];
    if (is_there && commit[1] != 0.0f) {
        const double square = global_at<const double>(l.call.inputs[is_column ? 1 : 5].data)[i];
        const float moved = (float)(keep * mean + take / (double)(is_column ? r : c) * square);
        means[i] = moved;
        mean = (double)moved;
    }
    if (is_column && is_there)
        output<float>(l, 1)[i] = (float)sqrt(mean * correction[0]);
    mean = block_sum(mean, scratch);
    if (!is_column && thread_index() == 0)
        global_at<double>(l.workspace)[block] = mean;
}

/* Computes the row roots. Each block adds the sums left by all row blocks. */
KERNEL(factored_roots_kernel, THREADS) {
    SHARED(double, scratch, 32);
    const int64_t r = l.call.outputs[2].elements, i = block_index() * THREADS + thread_index();
    const int applies = input<float>(l, 3)[1] != 0.0f;
    double sum = 0, mean;
    if (!has_input(l, 4)) {
        if (i < r)
            output<float>(l, 2)[i] = 1;
        return;
    }
    for (int64_t block = thread_index(); block < blocks_of(r); block += THREADS)
        sum += global_at<const double>(l.workspace)[block];
    sum = block_sum(sum, scratch);
    mean = applies ? sum / (double)r : 1;
    if (i < r)
        output<float>(l, 2)[i] = mean > 0 ? (float)sqrt((double)input<float>(l, 4)[i] / mean) : 0.0f;
}

/* ---- FACTORED_MOMENTUM ---- */

/* Loops over a thread's columns j. */
#define FOR_COLUMNS(columns) for (int64_t j = thread_index(); j < (columns); j += THREADS)

/*
 * Moves direction t, before it is made orthogonal to the previous ones. `from` and `towards` are the sums of squares of
 * the old direction and of the direction it turns to. Sets `sums` to this thread's sum of squares, and its dot product
 * with direction 0.
 */
DEVICE void begin_direction(const eitp__launch &l, int t, double from, double towards, double sums[2]) {
    const global<float> y = output<float>(l, 0);
    const int64_t c = l.call.inputs[6].elements;
    const double keep = l.call.reals[0], turn = towards > 0 ? (1 - keep) / sqrt(towards) : 0;
    sums[0] = sums[1] = 0;
    FOR_COLUMNS(c) {
        float moved;
        if (from < 0.5) { /* see eitp__ref_first_direction */
            const double size = sqrt((double)input<double>(l, 6)[j]);
            moved = (float)(t && !((j >> (t - 1)) & 1) ? -size : size);
        } else
            moved = (float)(keep * (double)y[t * c + j] + turn * (double)input<float>(l, 3)[t * c + j]);
        y[t * c + j] = moved;
        sums[0] = fma((double)moved, (double)moved, sums[0]);
        sums[1] = fma((double)moved, (double)y[j], sums[1]);
    }
}

/*
 * Subtracts `dot` times direction s from direction t. Returns this thread's dot product with direction s + 1, which is
 * t itself at the end.
 */
DEVICE double subtract_direction(const eitp__launch &l, int t, int s, double dot) {
    const global<float> y = output<float>(l, 0);
    const int64_t c = l.call.inputs[6].elements;
    double next = 0;
    FOR_COLUMNS(c) {
        const float rest = y[t * c + j] - (float)(dot * (double)y[s * c + j]);
        y[t * c + j] = rest;
        next = fma((double)rest, (double)y[(s + 1) * c + j], next);
    }
    return next;
}

/* Multiplies direction t by `factor`. Sets `same` to this thread's dot products with the old directions. */
DEVICE void scale_direction(const eitp__launch &l, int t, double factor, double same[K]) {
    const global<float> y = output<float>(l, 0), old = output<float>(l, 3);
    const int64_t c = l.call.inputs[6].elements;
    for (int s = 0; s < K; s++)
        same[s] = 0;
    FOR_COLUMNS(c) {
        const float scaled = (float)((double)y[t * c + j] * factor);
        y[t * c + j] = scaled;
        for (int s = 0; s < K; s++)
            same[s] = fma((double)old[s * c + j], (double)scaled, same[s]);
    }
}

/*
 * Saves the old directions and moves them: see eitp__ref_rotate_directions. Writes the dot products of old direction s
 * and new direction t to the workspace.
 */
DEVICE void turn_directions(const eitp__launch &l, int applies) {
    SHARED(double, scratch, 2 * K * 32);
    SHARED(double, of_all, 2 * K);
    const int64_t c = l.call.inputs[6].elements;
    double squares[2 * K];
    for (int t = 0; t < 2 * K; t++)
        squares[t] = 0;
    FOR_COLUMNS(c) {
        for (int t = 0; t < K; t++) {
            const float from = input<float>(l, 0)[t * c + j], towards = input<float>(l, 3)[t * c + j];
            output<float>(l, 3)[t * c + j] = from;
            squares[t] = fma((double)from, (double)from, squares[t]);
            squares[K + t] = fma((double)towards, (double)towards, squares[K + t]);
        }
    }
    if (!applies)
        return;
    block_sums<2 * K>(squares, scratch);
    for (int t = 0; t < 2 * K && thread_index() == 0; t++)
        of_all[t] = squares[t];
    barrier();
    for (int t = 0; t < K; t++) {
        double sums[2], same[K], size;
        begin_direction(l, t, of_all[t], of_all[K + t], sums);
        block_sums<2>(sums, scratch);
        size = sqrt(sums[0]);
        for (int s = 0; s < t; s++) {
            sums[1] = subtract_direction(l, t, s, sums[1]);
            block_sums<1>(sums + 1, scratch);
        }
        sums[1] = sqrt(sums[1]);
        scale_direction(l, t, sums[1] > 1e-5 * size ? 1 / sums[1] : 0, same);
        block_sums<K>(same, scratch);
        for (int s = 0; s < K && thread_index() == 0; s++)
            global_at<double>(l.workspace)[s * K + t] = same[s];
    }
}

/* Updates the running mean of a row product, and the correction for the gradient. */
DEVICE void move_product(const eitp__launch &l, int64_t i, int applies, double correction) {
    const double keep = l.call.reals[0], now = (double)input<float>(l, 5)[0] * (double)input<float>(l, 2)[i];
    float m;
    if (!applies) {
        output<float>(l, 2)[i] = 0;
        return;
    }
    m = (float)(keep * (double)input<float>(l, 1)[i] + (1 - keep) * now);
    output<float>(l, 1)[i] = m;
    output<float>(l, 2)[i] = (float)((double)m * correction - now);
}

/* Block 0 moves the directions. The other blocks process the rows. */
KERNEL(factored_momentum_kernel, THREADS) {
    SHARED(double, correction, 1);
    const int applies = input<float>(l, 5)[1] != 0.0f;
    const int64_t i = (block_index() - 1) * THREADS + thread_index();
    if (block_index() == 0) {
        turn_directions(l, applies);
        return;
    }
    if (thread_index() == 0)
        correction[0] = 1 / weight_of_mean(l.call.reals[0], input<float>(l, 4)[1]);
    barrier();
    if (i < l.call.inputs[1].elements)
        move_product(l, i, applies, correction[0]);
}

/* Expresses m in the new directions. Each lane has one of the K elements of a row. */
KERNEL(factored_project_kernel, THREADS) {
    const int64_t count = l.call.inputs[1].elements, i = block_index() * THREADS + thread_index();
    const int t = lane() % K;
    double sum = 0;
    float m = 0;
    if (input<float>(l, 5)[1] == 0.0f)
        return;
    if (i < count)
        m = output<float>(l, 1)[i];
    for (int s = 0; s < K; s++) {
        const float before = shuffle(m, lane() - t + s);
        sum = fma((double)before, (double)global_at<const double>(l.workspace)[s * K + t], sum);
    }
    if (i < count)
        output<float>(l, 1)[i] = (float)sum;
}
