/*
 * Slots whose items are rows. A warp computes a row of up to NARROW columns, a block a wider row.
 *
 * The elements of a thread are in parts of PART elements: adjacent if every row starts at a multiple of 16 bytes
 * (DENSE), else every 32nd column. A thread gets the same elements in each pass over a row, so an output may share
 * memory with an input, and elements read in a second pass are in a cache.
 */
#include "kernels/cuda/call.h"

/* F32 and 16-bit types. F64, which is 1, has no fused kernels. */
#if IS_FLOATING && SCALAR != 1

constexpr int PART = 8, THREADS = 256;
constexpr int NARROW = 1024, HEAD_BLOCK = 128; /* EITP__CUDA_NARROW, EITP__CUDA_HEAD_BLOCK */

struct part {
    wide v[PART];
};

/* The row of this thread, and its index among the threads of the row. */
struct row_of {
    int64_t index, columns;
    int thread, threads, is_wide;
};

DEVICE row_of find_row(const eitp__launch &l) {
    const eitp__operand &x = l.call.inputs[0];
    row_of r;
    r.columns = columns_of(l, x);
    r.is_wide = x.rank > 0 && x.shape[x.rank - 1] > NARROW;
    r.index = r.is_wide ? block_index() : block_index() * (THREADS / 32) + warp_index();
    r.thread = r.is_wide ? thread_index() : lane();
    r.threads = r.is_wide ? THREADS : 32;
    return r;
}

/* True if the row exists. The grid is sized for the maximum number of rows. */
DEVICE int has_row(const eitp__launch &l, const row_of &r) {
    return r.index * eitp__row_stride_of(&l.call.inputs[0]) < elements_of(l, l.call.inputs[0]);
}

/* True if every row of every operand starts at a multiple of 16 bytes. */
DEVICE int is_dense(const eitp__launch &l, const row_of &r) {
    return r.columns % PART == 0 && operands_are_aligned(l);
}

/* ---- Parts ---- */

#define FOR_PART _Pragma("unroll") for (int k = 0; k < PART; k++)

/* Calls f with the first column of each of this thread's parts. */
template <int DENSE, class F> DEVICE void for_parts(const row_of &r, F f) {
    for (int64_t j = DENSE ? r.thread * PART : r.thread / 32 * 32 * PART + lane(); j < r.columns; j += r.threads * PART)
        f(j);
}

/* Returns the column of element k of the part at column j. */
template <int DENSE> DEVICE int64_t column(int64_t j, int k) {
    return DENSE ? j + k : j + k * 32;
}

/* Returns the part of x at column j, with `none` beyond the end. */
template <int DENSE, class T> DEVICE part fetch(const row_of &r, global<const T> x, int64_t j, wide none) {
    constexpr int width = 16 / (int)sizeof(T);
    part p;
    if constexpr (DENSE) {
#pragma unroll
        for (int k = 0; k < PART; k += width) {
            const vec<T, width> v = load<width>(x, j + k);
#pragma unroll
            for (int i = 0; i < width; i++)
                p.v[k + i] = to_float(v.v[i]);
        }
    } else
        FOR_PART p.v[k] = k * 32 < r.columns - j ? to_float((T)x[column<DENSE>(j, k)]) : none;
    return p;
}

template <int DENSE, class T> DEVICE void put(const row_of &r, global<T> y, int64_t j, const part &p) {
    constexpr int width = 16 / (int)sizeof(T);
    if constexpr (DENSE) {
#pragma unroll
        for (int k = 0; k < PART; k += width) {
            vec<T, width> v;
#pragma unroll
            for (int i = 0; i < width; i++)
                from_float(p.v[k + i], v.v[i]);
            store(y, j + k, v);
        }
    } else
        FOR_PART {
            T value;
            from_float(p.v[k], value);
            if (k * 32 < r.columns - j)
                y[column<DENSE>(j, k)] = value;
        }
}

/* Sets y to the expression of the elements p.v[k] of x. */
#define MAP(x, y, expression)                                                                                          \
    for_parts<DENSE>(r, [&](int64_t j) {                                                                               \
        part p = fetch<DENSE>(r, x, j, 0);                                                                             \
        FOR_PART p.v[k] = (expression);                                                                                \
        put<DENSE>(r, y, j, p);                                                                                        \
    })

/* ---- Sums ---- */

template <class T> DEVICE T row_sum(const row_of &r, T value) {
    SHARED(T, scratch, 32);
    return r.is_wide ? block_sum(value, scratch) : warp_sum(value);
}

DEVICE wide row_max(const row_of &r, wide value) {
    SHARED(wide, scratch, 32);
    return r.is_wide ? block_max(value, scratch) : warp_max(value);
}

/* Returns a row of an operand that has the shape of input 0. */
DEVICE global<const scalar> row_in(const eitp__launch &l, const row_of &r, int i) {
    return input<scalar>(l, i) + r.index * r.columns;
}
DEVICE global<scalar> row_out(const eitp__launch &l, const row_of &r) {
    return output<scalar>(l, 0) + r.index * r.columns;
}

/* Declares a function of a row and defines its kernel. */
#define ROW_KERNEL(name)                                                                                               \
    template <int DENSE> DEVICE void name##_row(const eitp__launch &l, const row_of &r);                               \
    KERNEL(name##_kernel, 256) {                                                                                       \
        const row_of r = find_row(l);                                                                                  \
        if (!has_row(l, r))                                                                                            \
            return;                                                                                                    \
        if (is_dense(l, r))                                                                                            \
            name##_row<1>(l, r);                                                                                       \
        else                                                                                                           \
            name##_row<0>(l, r);                                                                                       \
    }                                                                                                                  \
    template <int DENSE> DEVICE void name##_row(const eitp__launch &l, const row_of &r)

/* ---- Softmax ---- */

/* Returns the value to subtract before exponentials: the largest x of a row, or 0 if all are minus infinity. */
DEVICE wide shift_of(wide top) {
    return top > -INFINITY ? top : 0;
}

/* Returns the sum of e^(x - top) of a row, where top is the largest x, and x_at(j) returns the part of x at column j. A
   larger top rescales the sum so far. */
template <int DENSE, class F> DEVICE wide sum_exp_of(const row_of &r, F x_at, wide &top) {
    wide largest = -INFINITY, sum = 0;
    for_parts<DENSE>(r, [&](int64_t j) {
        const part p = x_at(j);
        wide most = largest, more = 0;
        FOR_PART most = fmaxf(most, p.v[k]);
        FOR_PART more += expf(p.v[k] - shift_of(most));
        sum = sum * expf(largest - shift_of(most)) + more;
        largest = most;
    });
    top = row_max(r, largest);
    return row_sum(r, sum * expf(largest - top));
}
template <int DENSE> DEVICE wide sum_exp(const row_of &r, global<const scalar> x, wide &top) {
    const auto x_at = [&](int64_t j) { return fetch<DENSE>(r, x, j, -INFINITY); };
    return sum_exp_of<DENSE>(r, x_at, top);
}

ROW_KERNEL(softmax) {
    const global<const scalar> x = row_in(l, r, 0);
    wide top;
    const wide factor = 1.0f / sum_exp<DENSE>(r, x, top);
    MAP(x, row_out(l, r), expf(p.v[k] - top) * factor);
}

ROW_KERNEL(log_softmax) {
    const global<const scalar> x = row_in(l, r, 0);
    wide top;
    const wide rest = logf(sum_exp<DENSE>(r, x, top));
    MAP(x, row_out(l, r), p.v[k] - top - rest);
}

ROW_KERNEL(softmax_backward) {
    const global<const scalar> y = row_in(l, r, 0), dy = row_in(l, r, 1);
    wide sum = 0;
    for_parts<DENSE>(r, [&](int64_t j) {
        const part p = fetch<DENSE>(r, y, j, 0), d = fetch<DENSE>(r, dy, j, 0);
        FOR_PART sum += p.v[k] * d.v[k];
    });
    sum = row_sum(r, sum);
    for_parts<DENSE>(r, [&](int64_t j) {
        part p = fetch<DENSE>(r, y, j, 0);
        const part d = fetch<DENSE>(r, dy, j, 0);
        FOR_PART p.v[k] *= d.v[k] - sum;
        put<DENSE>(r, row_out(l, r), j, p);
    });
}

ROW_KERNEL(log_softmax_backward) {
    const global<const scalar> y = row_in(l, r, 0), dy = row_in(l, r, 1);
    wide sum = 0;
    for_parts<DENSE>(r, [&](int64_t j) {
        const part d = fetch<DENSE>(r, dy, j, 0);
        FOR_PART sum += d.v[k];
    });
    sum = row_sum(r, sum);
    for_parts<DENSE>(r, [&](int64_t j) {
        const part p = fetch<DENSE>(r, y, j, 0);
        part d = fetch<DENSE>(r, dy, j, 0);
        FOR_PART d.v[k] -= expf(p.v[k]) * sum;
        put<DENSE>(r, row_out(l, r), j, d);
    });
}

/* ---- Norms ---- */

ROW_KERNEL(layer_norm) {
    const global<const scalar> x = row_in(l, r, 0);
    const global<const wide> gain = input<wide>(l, 1), bias = input<wide>(l, 2);
    wide sum = 0, squares = 0;
    for_parts<DENSE>(r, [&](int64_t j) {
        const part p = fetch<DENSE>(r, x, j, 0);
        FOR_PART sum += p.v[k];
    });
    const wide mean = row_sum(r, sum) / (wide)r.columns;
    for_parts<DENSE>(r, [&](int64_t j) {
        const part p = fetch<DENSE>(r, x, j, mean);
        FOR_PART squares += (p.v[k] - mean) * (p.v[k] - mean);
    });
    const wide deviation = 1.0f / sqrtf(row_sum(r, squares) / (wide)r.columns + (wide)l.call.reals[0]);
    for_parts<DENSE>(r, [&](int64_t j) {
        part p = fetch<DENSE>(r, x, j, 0);
        const part g = fetch<DENSE>(r, gain, j, 0), b = fetch<DENSE>(r, bias, j, 0);
        FOR_PART p.v[k] = (p.v[k] - mean) * deviation * g.v[k] + b.v[k];
        put<DENSE>(r, row_out(l, r), j, p);
    });
    if (r.thread == 0) {
        output<wide>(l, 1)[r.index] = mean;
        output<wide>(l, 2)[r.index] = deviation;
    }
}

/* Adds the operand of the epilogue, input i, to the part at column j. */
template <int DENSE> DEVICE void add_operand(const eitp__launch &l, const row_of &r, int i, int64_t j, part &p) {
    if (has_input(l, i)) {
        const part a = fetch<DENSE>(r, row_in(l, r, i), j, 0);
        FOR_PART p.v[k] += a.v[k];
    }
}

/* dx = deviation * (g - mean(g) - z * mean(g * z)) with g = gain * dy and z = (x - mean) * deviation. */
ROW_KERNEL(layer_norm_backward_input) {
    const global<const scalar> x = row_in(l, r, 0), dy = row_in(l, r, 5);
    const global<const wide> gain = input<wide>(l, 1);
    const wide mean = input<wide>(l, 3)[r.index], deviation = input<wide>(l, 4)[r.index];
    wide sum = 0, product = 0;
    for_parts<DENSE>(r, [&](int64_t j) {
        const part p = fetch<DENSE>(r, x, j, mean), d = fetch<DENSE>(r, dy, j, 0), g = fetch<DENSE>(r, gain, j, 0);
        FOR_PART {
            sum += g.v[k] * d.v[k];
            product += g.v[k] * d.v[k] * ((p.v[k] - mean) * deviation);
        }
    });
    sum = row_sum(r, sum) / (wide)r.columns;
    product = row_sum(r, product) / (wide)r.columns;
    for_parts<DENSE>(r, [&](int64_t j) {
        part p = fetch<DENSE>(r, x, j, mean);
        const part d = fetch<DENSE>(r, dy, j, 0), g = fetch<DENSE>(r, gain, j, 0);
        FOR_PART p.v[k] = deviation * (g.v[k] * d.v[k] - sum - (p.v[k] - mean) * deviation * product);
        add_operand<DENSE>(l, r, 6, j, p);
        put<DENSE>(r, row_out(l, r), j, p);
    });
}

ROW_KERNEL(rms_norm) {
    const global<const scalar> x = row_in(l, r, 0);
    const global<const wide> gain = input<wide>(l, 1);
    wide squares = 0;
    for_parts<DENSE>(r, [&](int64_t j) {
        const part p = fetch<DENSE>(r, x, j, 0);
        FOR_PART squares += p.v[k] * p.v[k];
    });
    const wide deviation = 1.0f / sqrtf(row_sum(r, squares) / (wide)r.columns + (wide)l.call.reals[0]);
    for_parts<DENSE>(r, [&](int64_t j) {
        part p = fetch<DENSE>(r, x, j, 0);
        const part g = fetch<DENSE>(r, gain, j, 0);
        FOR_PART p.v[k] = p.v[k] * deviation * g.v[k];
        put<DENSE>(r, row_out(l, r), j, p);
    });
    if (r.thread == 0)
        output<wide>(l, 1)[r.index] = deviation;
}

/* dx = deviation * (g - z * mean(g * z)) with g = gain * dy and z = x * deviation. */
ROW_KERNEL(rms_norm_backward_input) {
    const global<const scalar> x = row_in(l, r, 0), dy = row_in(l, r, 3);
    const global<const wide> gain = input<wide>(l, 1);
    const wide deviation = input<wide>(l, 2)[r.index];
    wide product = 0;
    for_parts<DENSE>(r, [&](int64_t j) {
        const part p = fetch<DENSE>(r, x, j, 0), d = fetch<DENSE>(r, dy, j, 0), g = fetch<DENSE>(r, gain, j, 0);
        FOR_PART product += g.v[k] * d.v[k] * (p.v[k] * deviation);
    });
    product = row_sum(r, product) / (wide)r.columns;
    for_parts<DENSE>(r, [&](int64_t j) {
        part p = fetch<DENSE>(r, x, j, 0);
        const part d = fetch<DENSE>(r, dy, j, 0), g = fetch<DENSE>(r, gain, j, 0);
        FOR_PART p.v[k] = deviation * (g.v[k] * d.v[k] - p.v[k] * deviation * product);
        add_operand<DENSE>(l, r, 4, j, p);
        put<DENSE>(r, row_out(l, r), j, p);
    });
}

/* ---- Losses ---- */

/* True if a row contributes to the loss. */
DEVICE int counts(const eitp__launch &l, int32_t target, int64_t classes) {
    return target != l.call.integers[0] && target >= 0 && target < classes;
}

/* Returns the loss and gradient of a row that does not. */
DEVICE wide without_target(const eitp__launch &l, int32_t target) {
    return target == l.call.integers[0] ? 0 : (wide)NAN;
}

ROW_KERNEL(cross_entropy) {
    const global<const scalar> x = row_in(l, r, 0);
    const int32_t target = input<int32_t>(l, 1)[r.index];
    wide top;
    const wide rest = logf(sum_exp<DENSE>(r, x, top));
    if (r.thread == 0) {
        wide loss = without_target(l, target);
        if (counts(l, target, r.columns))
            loss = rest - (to_float((scalar)x[target]) - top);
        output<wide>(l, 0)[r.index] = loss;
        output<wide>(l, 1)[r.index] = top + rest;
    }
}

ROW_KERNEL(cross_entropy_backward) {
    const global<const scalar> x = row_in(l, r, 0);
    const int32_t target = input<int32_t>(l, 1)[r.index];
    const wide sum = input<wide>(l, 2)[r.index], dloss = input<wide>(l, 3)[r.index];
    const wide none = without_target(l, target);
    const int has_loss = counts(l, target, r.columns);
    MAP(x, row_out(l, r),
        has_loss ? dloss * (expf(p.v[k] - sum) - (column<DENSE>(j, k) == target ? 1.0f : 0.0f)) : none);
}

/*
 * With z = x - top, the entropy is log(sum(e^z)) - sum(z e^z) / sum(e^z). A larger top changes every z by the same
 * amount.
 */
ROW_KERNEL(softmax_entropy) {
    const global<const scalar> x = row_in(l, r, 0);
    wide largest = -INFINITY, sum = 0, product = 0;
    const auto raise = [&](wide top) {
        const wide rise = largest > -INFINITY ? top - largest : 0;
        product = expf(-rise) * (product - rise * sum);
        sum *= expf(-rise);
        largest = top;
    };
    for_parts<DENSE>(r, [&](int64_t j) {
        const part p = fetch<DENSE>(r, x, j, -INFINITY);
        wide top = largest;
        FOR_PART top = fmaxf(top, p.v[k]);
        raise(top);
        FOR_PART {
            const wide z = p.v[k] - shift_of(top), e = expf(z);
            sum += e;
            product += e == 0 ? 0 : e * z;
        }
    });
    raise(row_max(r, largest));
    sum = row_sum(r, sum);
    product = row_sum(r, product);
    if (r.thread == 0) {
        output<wide>(l, 0)[r.index] = sum == 0 ? 0 : logf(sum) - product / sum;
        output<wide>(l, 1)[r.index] = sum == 0 ? 0 : largest + logf(sum);
    }
}

/* Returns the gradient of an entropy with respect to a logit whose log-probability is log_p. */
DEVICE wide entropy_slope(wide log_p, wide entropy, wide dentropy) {
    const wide p = expf(log_p);
    return p == 0 ? 0 : -dentropy * p * (log_p + entropy);
}

ROW_KERNEL(softmax_entropy_backward) {
    const wide entropy = input<wide>(l, 1)[r.index], sum = input<wide>(l, 2)[r.index];
    const wide dentropy = input<wide>(l, 3)[r.index];
    MAP(row_in(l, r, 0), row_out(l, r), entropy_slope(p.v[k] - sum, entropy, dentropy));
}

/*
 * Each warp processes one block of columns at a time. The probability of a logit is e^(logit - top), stored in e, times
 * e^(top - logsumexp), which is constant in a block.
 */
KERNEL(head_backward_kernel, 256) {
    constexpr int ELEMENTS = HEAD_BLOCK / 32;
    const row_of r = find_row(l);
    const int64_t stride = eitp__row_stride_of(&l.call.inputs[0]);
    const int has_vectors = stride % HEAD_BLOCK == 0 && is_aligned(l.call.inputs[0]) && is_aligned(l.call.outputs[0]);
    if (!has_row(l, r))
        return;
    const global<const scalar> e = input<scalar>(l, 0) + r.index * stride;
    const global<scalar> dx = output<scalar>(l, 0) + r.index * stride;
    const int64_t blocks = columns_of(l, l.call.inputs[1]);
    const int32_t target = input<int32_t>(l, 2)[r.index];
    const wide sum = input<wide>(l, 3)[r.index], dloss = input<wide>(l, 4)[r.index];
    const wide none = without_target(l, target);
    const int has_loss = counts(l, target, r.columns);
    for (int64_t block = r.thread / 32; block < blocks; block += r.threads / 32) {
        const wide factor = expf(input<wide>(l, 1)[r.index * blocks + block] - sum);
        /* Returns the gradient of the logit in a column whose exponential is x; 0 in the padding. */
        const auto gradient = [&](int64_t j, scalar x) {
            const wide value = has_loss ? (to_float(x) * factor - (j == target ? 1.0f : 0.0f)) * dloss : none;
            return to_scalar(j < r.columns ? value : (wide)0);
        };
        if (has_vectors) {
            const int64_t first = block * HEAD_BLOCK + lane() * ELEMENTS;
            vec<scalar, ELEMENTS> v = load<ELEMENTS>(e, first);
#pragma unroll
            for (int k = 0; k < ELEMENTS; k++)
                v.v[k] = gradient(first + k, v.v[k]);
            store<ELEMENTS>(dx, first, v);
            continue;
        }
#pragma unroll
        for (int k = 0; k < ELEMENTS; k++) {
            const int64_t j = block * HEAD_BLOCK + lane() + k * 32;
            if (j < stride)
                dx[j] = gradient(j, e[j]);
        }
    }
}

/*
 * Replaces a row of logits by their gradient, and computes its loss: HEAD's exponentials, HEAD_LOSS and HEAD_BACKWARD
 * in one pass. The row, with the padding up to the next one, is read twice, and so few rows are in progress that the
 * second time it is in the L2 cache.
 */
template <int DENSE> DEVICE void head_loss_backward_row(const eitp__launch &l, const row_of &padded, int64_t columns) {
    const int64_t index = padded.index;
    const global<scalar> x = output<scalar>(l, 0) + index * padded.columns;
    const int32_t target = input<int32_t>(l, 2)[index];
    const int has_loss = counts(l, target, columns);
    const wide dloss = input<wide>(l, 4)[index], none = without_target(l, target);
    const wide picked = has_loss ? to_float((scalar)x[target]) : (wide)0;
    const auto logits_at = [&](int64_t j) {
        part p = fetch<DENSE>(padded, global<const scalar>(x), j, -INFINITY);
        FOR_PART p.v[k] = column<DENSE>(j, k) < columns ? p.v[k] : -INFINITY;
        return p;
    };
    wide top;
    const wide sum = sum_exp_of<DENSE>(padded, logits_at, top), factor = 1.0f / sum;
    for_parts<DENSE>(padded, [&](int64_t j) {
        part p = logits_at(j);
        FOR_PART {
            const int64_t c = column<DENSE>(j, k);
            const wide value = (expf(p.v[k] - top) * factor - (c == target ? 1.0f : 0.0f)) * dloss;
            p.v[k] = c >= columns ? 0 : has_loss ? value : none;
        }
        put<DENSE>(padded, x, j, p);
    });
    if (padded.thread == 0) {
        output<wide>(l, 1)[index] = has_loss ? logf(sum) - (picked - top) : none;
        output<wide>(l, 2)[index] = top + logf(sum);
    }
}

RESIDENT_KERNEL(head_loss_backward_kernel, 512, RESIDENT_THREADS / 512) {
    const eitp__operand &logits = l.call.inputs[0];
    row_of padded;
    padded.index = block_index();
    padded.columns = eitp__row_stride_of(&logits);
    padded.thread = thread_index();
    padded.threads = thread_count();
    padded.is_wide = 1;
    if (!has_row(l, padded))
        return;
    if (padded.columns % PART == 0 && is_aligned(logits))
        head_loss_backward_row<1>(l, padded, columns_of(l, logits));
    else
        head_loss_backward_row<0>(l, padded, columns_of(l, logits));
}

#if SCALAR == 0
/*
 * Computes the loss from HEAD's results for each block of columns: the largest logit, and the sum of e^(logit - top).
 */
ROW_KERNEL(head_loss) {
    const global<const wide> tops = row_in(l, r, 0), sums = row_in(l, r, 1);
    const int32_t target = input<int32_t>(l, 3)[r.index];
    wide top = -INFINITY, sum = 0;
    for_parts<DENSE>(r, [&](int64_t j) {
        const part p = fetch<DENSE>(r, tops, j, -INFINITY);
        FOR_PART top = fmaxf(top, p.v[k]);
    });
    top = row_max(r, top);
    for_parts<DENSE>(r, [&](int64_t j) {
        const part p = fetch<DENSE>(r, tops, j, -INFINITY), s = fetch<DENSE>(r, sums, j, 0);
        FOR_PART sum += expf(p.v[k] - top) * s.v[k];
    });
    sum = logf(row_sum(r, sum));
    if (r.thread == 0) {
        wide loss = without_target(l, target);
        if (counts(l, target, l.call.integers[1]))
            loss = sum - (input<wide>(l, 2)[r.index] - top);
        output<wide>(l, 0)[r.index] = loss;
        output<wide>(l, 1)[r.index] = top + sum;
    }
}
#endif

/* ---- Products of paths ---- */

ROW_KERNEL(path_product_transposed) {
    const global<const scalar> weight = row_in(l, r, 0);
    const global<const wide> x = input<wide>(l, 1);
    const int is_square = l.call.integers[0] != 1;
    double sum = 0;
    for_parts<DENSE>(r, [&](int64_t j) {
        const part w = fetch<DENSE>(r, weight, j, 0), p = fetch<DENSE>(r, x, j, 0);
        FOR_PART {
            const double size = fabs((double)w.v[k]);
            sum += (is_square ? size * size : size) * (double)p.v[k];
        }
    });
    sum = row_sum(r, sum);
    if (r.thread == 0)
        output<wide>(l, 0)[r.index] = (wide)sum;
}

ROW_KERNEL(path_product_backward) {
    const global<const scalar> weight = row_in(l, r, 0);
    const global<wide> dweight = output<wide>(l, 0) + r.index * r.columns;
    const global<const wide> by_column = input<wide>(l, 2);
    const wide by_row = input<wide>(l, 1)[r.index], carry = carry_of(l);
    const int is_square = l.call.integers[0] != 1;
    for_parts<DENSE>(r, [&](int64_t j) {
        part p = fetch<DENSE>(r, weight, j, 0);
        const part c = fetch<DENSE>(r, by_column, j, 0);
        FOR_PART p.v[k] = (is_square ? 2 * p.v[k] : (wide)((p.v[k] > 0) - (p.v[k] < 0))) * (by_row * c.v[k]);
        if (carry != 0) {
            const part before = fetch<DENSE>(r, global<const wide>(dweight), j, 0);
            FOR_PART p.v[k] += carry * before.v[k];
        }
        put<DENSE>(r, dweight, j, p);
    });
}

#endif
