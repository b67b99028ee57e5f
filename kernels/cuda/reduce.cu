/* Reductions: sums and maxima over dimensions, sums of squares and products over rows and columns, totals. */
#include "kernels/cuda/elements.h"

#if IS_FLOATING

/* Columns of a strip, one per lane, and the warps that sum it. */
constexpr int STRIP = 32, WARPS = 8, THREADS = STRIP * WARPS;

constexpr int SUM_TERMS = 16384; /* terms that a block adds: EITP__CUDA_SUM_TERMS */

/* ---- The dimensions of a reduction ---- */

/* Sets up the grids of the kept and of the reduced dimensions of x. */
DEVICE void reduction_grids(const eitp__launch &l, shared<int64_t> kept, shared<int64_t> reduced) {
    if (thread_index() == 0) {
        const eitp__operand &x = l.call.inputs[0];
        int64_t stride = 1;
        grid_begin<1>(kept);
        grid_begin<1>(reduced);
        for (int d = x.rank - 1; d >= 0; d--) {
            grid_add<1>(l.call.integers[0] >> d & 1 ? reduced : kept, x.shape[d], &stride);
            stride *= x.shape[d];
        }
    }
    barrier();
}

/* Returns the number of elements of x per result. */
DEVICE int64_t terms_of(const eitp__launch &l) {
    const eitp__operand &x = l.call.inputs[0];
    int64_t terms = 1;
    for (int d = 0; d < x.rank; d++)
        if (l.call.integers[0] >> d & 1)
            terms *= d ? x.shape[d] : first_dimension(l, x);
    return terms;
}

DEVICE int64_t find(shared<const int64_t> grid, int64_t i) {
    int64_t at[1];
    grid_find<1>(grid, i, at);
    return at[0];
}

/* Returns the initial value of a sum: carry * y[i], or 0. */
DEVICE wide carried(global<const wide> y, int64_t i, wide carry) {
    return carry != 0 ? carry * y[i] : 0;
}

/* ---- Columns, in row order ---- */

/* One chain of additions per column. */
struct one_chain {
    static constexpr int count = 1;
    DEVICE_ATTRIBUTE void read(int64_t, int64_t) {
    }
    DEVICE_ATTRIBUTE void keep() {
    }
    template <class S> DEVICE_ATTRIBUTE S add(S sum, S value, int) {
        return sum + value;
    }
};

/*
 * Adds rows [0, rows) to a sum, one after another. Warp c gets the sums of chain c, each lane the sum of its column.
 * `get` returns the element of a row in the lane's column, `widen` the value to add. While the first warps add, all
 * warps read the next rows, 32 KiB at a time, into shared memory.
 */
template <class T, class S> struct ordered {
    static constexpr int ROWS = 32768 / STRIP / (int)sizeof(S), EACH_WARP = ROWS / WARPS;
    template <class Get, class Widen, class Chains>
    static DEVICE_ATTRIBUTE S sum(S sum, int64_t rows, shared<S> strip, Get get, Widen widen, Chains chains) {
        T ahead[EACH_WARP];
        for (int64_t first = -ROWS; first < rows; first += ROWS) {
            const int count = first < 0 ? 0 : (int)(rows - first < ROWS ? rows - first : ROWS);
            if (first >= 0) {
#pragma unroll
                for (int k = 0; k < EACH_WARP; k++)
                    strip[(k * WARPS + warp_index()) * STRIP + lane()] = widen(ahead[k]);
                chains.keep();
            }
            barrier();
#pragma unroll
            for (int k = 0; k < EACH_WARP; k++) {
                const int64_t row = first + ROWS + k * WARPS + warp_index();
                ahead[k] = row < rows ? get(row) : T();
            }
            chains.read(first + ROWS, rows);
            if (warp_index() < Chains::count)
#pragma unroll 32
                for (int r = 0; r < count; r++)
                    sum = chains.add(sum, (S)strip[r * STRIP + lane()], r);
            barrier();
        }
        return sum;
    }
};

/* ---- SUM ---- */

/* For few terms: one thread per sum. */
KERNEL(sum_kernel, 256) {
    SHARED(int64_t, kept, GRID);
    SHARED(int64_t, reduced, GRID);
    const int64_t i = block_index() * thread_count() + thread_index(), terms = terms_of(l);
    const global<wide> y = output<wide>(l, 0);
    reduction_grids(l, kept, reduced);
    if (i >= elements_of(l, l.call.outputs[0]))
        return;
    const global<const scalar> x = input<scalar>(l, 0) + find(kept, i);
    wide sum = carried(y, i, carry_of(l));
#pragma unroll 4
    for (int64_t t = 0; t < terms; t++)
        sum += to_wide(x[find(reduced, t)]);
    y[i] = sum;
}

/* Returns the sum of terms first, first + step, ... below last. */
DEVICE double sum_of(global<const scalar> x, shared<const int64_t> reduced, int64_t first, int64_t last, int64_t step) {
    const int64_t stride = reduced[GRID_STRIDE];
    double sum = 0;
    if (reduced[GRID_RANK] == 1)
#pragma unroll 8
        for (int64_t t = first; t < last; t += step)
            sum += (double)to_wide(x[t * stride]);
    else
        for (int64_t t = first; t < last; t += step)
            sum += (double)to_wide(x[find(reduced, t)]);
    return sum;
}

/*
 * Sums along the last dimension, in double, with one block per SUM_TERMS terms of a sum. If no sum has more terms, that
 * is the whole sum. Otherwise the blocks write their sums to the workspace, all first ones before all second ones.
 */
KERNEL(sum_rows_kernel, 256) {
    SHARED(int64_t, kept, GRID);
    SHARED(int64_t, reduced, GRID);
    SHARED(double, scratch, 32);
    const int64_t sums = l.call.outputs[0].elements, part = (uint32_t)block_index() / (uint32_t)sums;
    const int64_t i = block_index() - part * sums, terms = terms_of(l), last = (part + 1) * SUM_TERMS;
    const global<wide> y = output<wide>(l, 0);
    const wide carry = carry_of(l);
    if (i >= elements_of(l, l.call.outputs[0]) || (part && part * SUM_TERMS >= terms))
        return;
    reduction_grids(l, kept, reduced);
    const global<const scalar> x = input<scalar>(l, 0) + find(kept, i);
    const int64_t first = part * SUM_TERMS + thread_index();
    const double sum = block_sum(sum_of(x, reduced, first, last < terms ? last : terms, thread_count()), scratch);
    if (thread_index() == 0 && l.call.inputs[0].elements > sums * SUM_TERMS)
        global_at<double>(l.workspace)[block_index()] = sum;
    else if (thread_index() == 0)
        y[i] = (wide)((double)carried(y, i, carry) + sum);
}

/* Adds the sums that blocks left in the workspace. */
KERNEL(sum_parts_kernel, 256) {
    SHARED(double, scratch, 32);
    const int64_t sums = l.call.outputs[0].elements, i = block_index();
    const int64_t parts = (terms_of(l) + SUM_TERMS - 1) / SUM_TERMS;
    const global<const double> from = global_at<double>(l.workspace);
    const global<wide> y = output<wide>(l, 0);
    const wide carry = carry_of(l);
    double sum = 0;
    if (i >= elements_of(l, l.call.outputs[0]))
        return;
    for (int64_t part = thread_index(); part < (parts ? parts : 1); part += thread_count())
        sum += from[part * sums + i];
    sum = block_sum(sum, scratch);
    if (thread_index() == 0)
        y[i] = (wide)((double)carried(y, i, carry) + sum);
}

/* Sums columns in row order. A sum over rows has the same bits in any parts as in one. */
KERNEL(sum_columns_kernel, 256) {
    typedef ordered<scalar, wide> rows;
    SHARED(int64_t, kept, GRID);
    SHARED(int64_t, reduced, GRID);
    SHARED(wide, strip, rows::ROWS * STRIP);
    const int64_t i = block_index() * STRIP + lane();
    const global<wide> y = output<wide>(l, 0);
    const wide carry = carry_of(l);
    const int is_there = i < elements_of(l, l.call.outputs[0]);
    const int64_t terms = terms_of(l);
    reduction_grids(l, kept, reduced);
    const int64_t run = reduced[GRID_RANK] > 1 ? (int64_t)reduced[GRID_SIZE] : terms, step = reduced[GRID_STRIDE];
    wide sum = is_there && warp_index() == 0 ? carried(y, i, carry) : 0;
    for (int64_t first = 0; first < terms; first += run) {
        const global<const scalar> x = input<scalar>(l, 0) + (is_there ? find(kept, i) + find(reduced, first) : 0);
        sum = rows::sum(
            sum, run, strip, [&](int64_t row) { return is_there ? (scalar)x[row * step] : scalar(); },
            [](scalar value) { return to_wide(value); }, one_chain());
    }
    if (is_there && warp_index() == 0)
        y[i] = sum;
}

/* ---- MAX, ARGMAX ---- */

/* The largest of some elements, and its index among the reduced elements; -1 if there are none. */
struct largest {
    wide value;
    int32_t number;
};

/* NaN is larger than any number. Of equal elements, the first is larger. */
DEVICE largest larger_of(const largest &a, const largest &b) {
    const int is_nan_a = a.value != a.value, is_nan_b = b.value != b.value;
    const int is_equal = a.value == b.value || (is_nan_a && is_nan_b);
    if (a.number < 0 || b.number < 0)
        return a.number < 0 ? b : a;
    return (is_equal ? b.number < a.number : b.value > a.value || (is_nan_b && !is_nan_a)) ? b : a;
}

/* Returns the largest of terms first, first + step, ... */
DEVICE largest largest_of(global<const scalar> x, shared<const int64_t> reduced, int64_t first, int64_t step,
                          int64_t terms) {
    const int64_t stride = reduced[GRID_STRIDE];
    const int is_plain = reduced[GRID_RANK] == 1;
    largest found = {(wide)-INFINITY, -1};
#pragma unroll 4
    for (int64_t t = first; t < terms; t += step) {
        const largest next = {to_wide(x[is_plain ? t * stride : find(reduced, t)]), (int32_t)t};
        found = larger_of(found, next);
    }
    return found;
}

/* One block per maximum along the last dimension. */
template <class Put> DEVICE void largest_of_rows(const eitp__launch &l, Put put) {
    SHARED(int64_t, kept, GRID);
    SHARED(int64_t, reduced, GRID);
    SHARED(wide, values, WARPS);
    SHARED(int32_t, numbers, WARPS);
    const int64_t i = block_index();
    if (i >= elements_of(l, l.call.outputs[0]))
        return;
    reduction_grids(l, kept, reduced);
    largest found =
        largest_of(input<scalar>(l, 0) + find(kept, i), reduced, thread_index(), thread_count(), terms_of(l));
    for (int mask = 16; mask > 0; mask /= 2) {
        const wide value = shuffle_xor(found.value, mask);
        const largest other = {value, shuffle_xor(found.number, mask)};
        found = larger_of(found, other);
    }
    if (lane() == 0) {
        values[warp_index()] = found.value;
        numbers[warp_index()] = found.number;
    }
    barrier();
    if (thread_index())
        return;
    for (int w = 1; w < thread_count() / 32; w++) {
        const largest other = {values[w], numbers[w]};
        found = larger_of(found, other);
    }
    put(i, found);
}

/* One block per strip of columns. */
template <class Put> DEVICE void largest_of_columns(const eitp__launch &l, Put put) {
    SHARED(int64_t, kept, GRID);
    SHARED(int64_t, reduced, GRID);
    SHARED(wide, values, THREADS);
    SHARED(int32_t, numbers, THREADS);
    const int64_t i = block_index() * STRIP + lane();
    const int is_there = i < elements_of(l, l.call.outputs[0]);
    reduction_grids(l, kept, reduced);
    largest found = largest_of(input<scalar>(l, 0) + (is_there ? find(kept, i) : 0), reduced, warp_index(), WARPS,
                               is_there ? terms_of(l) : 0);
    values[thread_index()] = found.value;
    numbers[thread_index()] = found.number;
    barrier();
    if (warp_index() || !is_there)
        return;
    for (int w = 1; w < WARPS; w++) {
        const largest other = {values[w * STRIP + lane()], numbers[w * STRIP + lane()]};
        found = larger_of(found, other);
    }
    put(i, found);
}

#define LARGEST(name, type, result)                                                                                    \
    KERNEL(name##_rows_kernel, 256) {                                                                                  \
        const global<type> y = output<type>(l, 0);                                                                     \
        largest_of_rows(l, [&](int64_t i, const largest &found) { y[i] = result; });                                   \
    }                                                                                                                  \
    KERNEL(name##_columns_kernel, 256) {                                                                               \
        const global<type> y = output<type>(l, 0);                                                                     \
        largest_of_columns(l, [&](int64_t i, const largest &found) { y[i] = result; });                                \
    }

LARGEST(max, scalar, to_scalar(found.value))
LARGEST(argmax, int32_t, found.number)

/* ---- Squares and products, of rows and columns ---- */

DEVICE double square(scalar x) {
    return (double)to_wide(x) * (double)to_wide(x);
}

/* Returns the sum of squares of `count` elements, in thread 0. */
DEVICE double squares_of_block(global<const scalar> x, int64_t count) {
    SHARED(double, scratch, 32);
    double sum = 0;
#pragma unroll 4
    for (int64_t i = thread_index(); i < count; i += thread_count())
        sum += square(x[i]);
    return block_sum(sum, scratch);
}

KERNEL(sum_squares_kernel, 256) {
    const int64_t first = block_index() * EITP__SUM_BLOCK, count = elements_of(l, l.call.inputs[0]) - first;
    const double sum = squares_of_block(input<scalar>(l, 0) + first, count < EITP__SUM_BLOCK ? count : EITP__SUM_BLOCK);
    if (thread_index() == 0)
        output<double>(l, 0)[block_index()] = sum;
}

/* One block per row. */
KERNEL(row_squares_kernel, 256) {
    const int64_t columns = columns_of(l, l.call.inputs[0]);
    if (block_index() * columns >= elements_of(l, l.call.inputs[0]))
        return;
    const double sum = squares_of_block(input<scalar>(l, 0) + block_index() * columns, columns);
    if (thread_index() == 0)
        output<double>(l, 0)[block_index()] = sum;
}

KERNEL(column_squares_kernel, 256) {
    typedef ordered<scalar, double> squares;
    SHARED(double, strip, squares::ROWS *STRIP);
    const int64_t columns = columns_of(l, l.call.inputs[0]), j = block_index() * STRIP + lane();
    const int is_there = j < columns;
    const global<const scalar> x = input<scalar>(l, 0);
    double sum = 0;
    if (is_there && warp_index() == 0 && has_input(l, 1))
        sum = input<double>(l, 1)[j];
    sum = squares::sum(
        sum, elements_of(l, l.call.inputs[0]) / columns, strip,
        [&](int64_t row) { return is_there ? (scalar)x[row * columns + j] : scalar(); }, square, one_chain());
    if (is_there && warp_index() == 0)
        output<double>(l, 0)[j] = sum;
}

/* One block per row. */
KERNEL(row_products_kernel, 256) {
    SHARED(wide, scratch, 32);
    const int64_t columns = columns_of(l, l.call.inputs[0]), row = block_index();
    const global<const scalar> x = input<scalar>(l, 0) + row * columns;
    const global<const float> directions = input<float>(l, 1);
    wide sums[EITP__DIRECTIONS] = {};
    if (row * columns >= elements_of(l, l.call.inputs[0]))
        return;
#pragma unroll 2
    for (int64_t j = thread_index(); j < columns; j += thread_count()) {
        const wide value = to_wide(x[j]);
        for (int t = 0; t < EITP__DIRECTIONS; t++)
            sums[t] += value * (wide)directions[t * columns + j];
    }
    for (int t = 0; t < EITP__DIRECTIONS; t++) {
        const wide sum = block_sum(sums[t], scratch);
        if (thread_index() == 0)
            output<float>(l, 0)[row * EITP__DIRECTIONS + t] = (float)sum;
    }
}

/* Chain t adds factor t of each row times the row. Each thread reads the factors of one row. */
struct weighted_chains {
    static constexpr int count = EITP__DIRECTIONS;
    global<const float> from;
    shared<float> factors;
    float ahead[EITP__DIRECTIONS];
    DEVICE_ATTRIBUTE void read(int64_t first, int64_t rows) {
        const int64_t row = first + thread_index();
        for (int t = 0; t < count; t++)
            ahead[t] = row < rows ? (float)from[row * count + t] : 0;
    }
    DEVICE_ATTRIBUTE void keep() {
        for (int t = 0; t < count; t++)
            factors[thread_index() * count + t] = ahead[t];
    }
    DEVICE_ATTRIBUTE float add(float sum, float value, int row) {
        return sum + factors[row * count + warp_index()] * value;
    }
};

KERNEL(column_products_kernel, 256) {
    typedef ordered<scalar, float> products;
    static_assert(products::ROWS == THREADS, "a thread reads the factors of one row");
    SHARED(float, strip, products::ROWS *STRIP);
    SHARED(float, factors, THREADS *EITP__DIRECTIONS);
    const int64_t columns = columns_of(l, l.call.inputs[0]), j = block_index() * STRIP + lane();
    const int is_there = j < columns;
    const global<const scalar> x = input<scalar>(l, 0);
    const weighted_chains chains = {input<float>(l, 1), factors, {}};
    float sum = 0;
    if (is_there && warp_index() < EITP__DIRECTIONS && has_input(l, 2))
        sum = input<float>(l, 2)[warp_index() * columns + j];
    sum = products::sum(
        sum, elements_of(l, l.call.inputs[0]) / columns, strip,
        [&](int64_t row) { return is_there ? (scalar)x[row * columns + j] : scalar(); },
        [](scalar value) { return (float)to_wide(value); }, chains);
    if (is_there && warp_index() < EITP__DIRECTIONS)
        output<float>(l, 0)[warp_index() * columns + j] = sum;
}

#endif

/* ---- Totals and COMMIT ---- */

#if SCALAR == 0

constexpr int TOTAL_ROWS = 2048;

/* Adds the values of `get` for [begin, end) one by one, in thread 0. All threads read. */
template <class Get>
DEVICE double add_one_by_one(double sum, int64_t begin, int64_t end, shared<double> room, Get get) {
    for (int64_t first = begin; first < end; first += TOTAL_ROWS) {
        const int count = (int)(end - first < TOTAL_ROWS ? end - first : TOTAL_ROWS);
        for (int i = thread_index(); i < count; i += thread_count())
            room[i] = get(first + i);
        barrier();
#pragma unroll 8
        for (int i = 0; i < count && thread_index() == 0; i++)
            sum += room[i];
        barrier();
    }
    return sum;
}

KERNEL(total_kernel, 256) {
    SHARED(double, room, TOTAL_ROWS);
    const global<const float> x = input<float>(l, 0);
    const global<const int32_t> bounds = input<int32_t>(l, 2);
    const global<double> total = output<double>(l, 0) + l.call.integers[0];
    const int has_bounds = has_input(l, 2);
    const int64_t ranges = has_bounds ? elements_of(l, l.call.inputs[2]) / 2 : 0;
    const float carry = has_input(l, 3) ? (float)input<float>(l, 3)[0] : 0;
    const auto element = [&](int64_t i) { return (double)(float)x[i]; };
    double sum = carry != 0 && thread_index() == 0 ? (double)carry * total[0] : 0;
    if (!has_bounds)
        sum = add_one_by_one(sum, 0, elements_of(l, l.call.inputs[0]), room, element);
    else if (l.call.integers[1]) /* -0 changes no sum */
        sum = add_one_by_one(sum, 0, ranges, room, [&](int64_t i) { return bounds[2 * i] >= 0 ? element(i) : -0.0; });
    else
        for (int64_t i = 0; i < ranges; i++)
            if (bounds[2 * i] >= 0)
                sum = add_one_by_one(sum, bounds[2 * i], bounds[2 * i + 1], room, element);
    if (thread_index() == 0)
        total[0] = sum;
}

#endif

#if SCALAR == 1

/* The gradient factor is computed as in torch.nn.utils.clip_grad_norm_. */
KERNEL(commit_kernel, 32) {
    const double unscale = has_input(l, 2) ? 1 / (double)(float)input<float>(l, 2)[0] : 1;
    const double norm = sqrt((double)input<double>(l, 0)[0]) * unscale;
    const double limit = (double)(float)input<float>(l, 1)[0];
    const float bound = has_input(l, 3) ? (float)input<float>(l, 3)[0] : 0;
    const int applies = norm - norm == 0 && !(bound > 0 && norm > (double)bound);
    const double scale = limit > 0 && limit < norm + 1e-6 ? limit / (norm + 1e-6) : 1;
    if (thread_index())
        return;
    output<float>(l, 0)[0] = applies ? (float)(scale * unscale) : 0;
    output<float>(l, 0)[1] = applies ? 1 : 0;
    output<float>(l, 1)[0] = (float)norm;
}

#endif
