/*
 * Column sums. Separate blocks sum chunks of rows, and a second stage adds the chunks, so that the order of additions
 * depends only on shapes. EMBEDDING_BACKWARD first sorts the rows by their ids.
 *
 * A warp processes TILE columns of a row, each thread PART of them: adjacent columns if every row starts at a multiple
 * of PART elements (DENSE), else every 32nd column.
 */
#include "kernels/cuda/call.h"

/* F32 and 16-bit types. F64, which is 1, has no fused kernels. */
#if IS_FLOATING && SCALAR != 1

constexpr int PART = 4, TILE = 32 * PART, WARPS = 8;
constexpr int CHUNKS = 128, LEAST_ROWS = 32; /* EITP__CUDA_CHUNKS, EITP__CUDA_LEAST_ROWS */

struct part {
    wide v[PART];
};

template <int IS_DENSE> struct layout { static constexpr int DENSE = IS_DENSE; };

/* True if every row of this many columns, in every operand, starts at a multiple of PART elements. */
DEVICE int is_dense(const eitp__launch &l, int64_t columns) {
    return columns % PART == 0 && operands_are_aligned(l);
}

#define FOR_PART _Pragma("unroll") for (int k = 0; k < PART; k++)

/* Returns this thread's first column. The block's columns start at `first`. */
template <class L> DEVICE int64_t column_of_thread(L, int64_t first) {
    return first + warp_index() * TILE + (L::DENSE ? lane() * PART : lane());
}

/* Returns the column of element k of the part at column j. */
template <class L> DEVICE int64_t column(L, int64_t j, int k) {
    return L::DENSE ? j + k : j + k * 32;
}

/* Returns the part at column j of the row at p, with zeros beyond the last column. */
template <class L, class T> DEVICE part fetch(L, global<const T> p, int64_t j, int64_t columns) {
    part x;
    if constexpr (L::DENSE) {
        const vec<T, PART> v = load<PART>(p, j);
        FOR_PART x.v[k] = to_float(v.v[k]);
    } else
        FOR_PART x.v[k] = k * 32 < columns - j ? to_float((T)p[j + k * 32]) : 0;
    return x;
}

/* Stores carry times the old value, plus x. */
template <class L> DEVICE void put(L at, global<wide> p, int64_t j, int64_t columns, const part &x, wide carry) {
    part y = x;
    if (carry != 0) {
        const part before = fetch(at, global<const wide>(p), j, columns);
        FOR_PART y.v[k] += carry * before.v[k];
    }
    if constexpr (L::DENSE) {
        vec<wide, PART> v;
        FOR_PART v.v[k] = y.v[k];
        store(p, j, v);
    } else
        FOR_PART if (k * 32 < columns - j) p[j + k * 32] = y.v[k];
}

/* ---- Chunks of rows ---- */

/* The division of input 0 into chunks. An output has an element per column. */
struct chunked {
    int64_t columns, count, rows; /* rows: per chunk */
};

DEVICE chunked chunks_of(const eitp__launch &l) {
    chunked c;
    c.columns = l.call.outputs[0].elements;
    const int64_t rows = divide(l.call.inputs[0].elements, c.columns), each = (rows + CHUNKS - 1) / CHUNKS;
    c.rows = each > LEAST_ROWS ? each : LEAST_ROWS;
    c.count = rows ? divide(rows + c.rows - 1, c.rows) : 1;
    return c;
}

/*
 * Sums TILE columns of a chunk and writes them to the workspace, ordered by sum, chunk and column. f(row, j, sums) adds
 * a row's values in the part at column j to sums[s][k].
 */
template <class T, int SUMS, class L, class F> DEVICE void sum_chunk(const eitp__launch &l, L at, shared<T> all, F f) {
    const chunked c = chunks_of(l);
    const int64_t tiles = (c.columns + TILE - 1) / TILE, chunk = divide(block_index(), tiles);
    const int64_t first = (block_index() - chunk * tiles) * TILE, j = first + (L::DENSE ? lane() * PART : lane());
    const int64_t rows = divide(elements_of(l, l.call.inputs[0]), c.columns), last = (chunk + 1) * c.rows;
    T sums[SUMS][PART];
#pragma unroll
    for (int s = 0; s < SUMS; s++)
        FOR_PART sums[s][k] = 0;
    if (j < c.columns)
#pragma unroll 4
        for (int64_t row = chunk * c.rows + warp_index(); row < (last < rows ? last : rows); row += WARPS)
            f(row, j, sums);
#pragma unroll
    for (int s = 0; s < SUMS; s++)
        FOR_PART all[(warp_index() * SUMS + s) * TILE + (int)(column(at, j, k) - first)] = sums[s][k];
    barrier();
    for (int t = thread_index(); t < SUMS * TILE; t += thread_count()) {
        const int64_t to = first + t % TILE;
        T sum = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++)
            sum += all[w * SUMS * TILE + t];
        if (to < c.columns)
            global_at<T>(l.workspace)[(t / TILE * c.count + chunk) * c.columns + to] = sum;
    }
}

/* Adds the chunks of 32 columns of a sum. */
template <class T> DEVICE void add_chunks(const eitp__launch &l) {
    SHARED(T, all, WARPS * 32);
    const chunked c = chunks_of(l);
    const int64_t tiles = (c.columns + 31) / 32, s = divide(block_index(), tiles);
    const int64_t j = (block_index() - s * tiles) * 32 + lane();
    const global<const T> sums = global_at<const T>(l.workspace) + s * c.count * c.columns;
    const wide carry = carry_of(l);
    T sum = 0;
    if (j < c.columns)
#pragma unroll 4
        for (int64_t chunk = warp_index(); chunk < c.count; chunk += WARPS)
            sum += sums[chunk * c.columns + j];
    all[thread_index()] = sum;
    barrier();
    if (warp_index() || j >= c.columns)
        return;
    sum = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++)
        sum += all[w * 32 + lane()];
    const global<wide> y = s ? output<wide>(l, 1) : output<wide>(l, 0);
    y[j] = carry != 0 ? carry * y[j] + (wide)sum : (wide)sum;
}

/* Defines the two stages of a slot with SUMS sums of type T. The code after the macro is the body of the first. */
#define SUM_KERNELS(name, T, SUMS)                                                                                     \
    template <class L> DEVICE void name##_chunk(const eitp__launch &l, L at, shared<T> all);                           \
    KERNEL(name##_chunks_kernel, 256) {                                                                                \
        SHARED(T, all, WARPS *SUMS *TILE);                                                                             \
        if (is_dense(l, chunks_of(l).columns))                                                                         \
            name##_chunk(l, layout<1>(), all);                                                                         \
        else                                                                                                           \
            name##_chunk(l, layout<0>(), all);                                                                         \
    }                                                                                                                  \
    KERNEL(name##_kernel, 256) {                                                                                       \
        add_chunks<T>(l);                                                                                              \
    }                                                                                                                  \
    template <class L> DEVICE void name##_chunk(const eitp__launch &l, L at, shared<T> all)

/* SUM of the rows of a matrix. */
SUM_KERNELS(column_sums, wide, 1) {
    const int64_t columns = chunks_of(l).columns;
    const global<const scalar> x = input<scalar>(l, 0);
    sum_chunk<wide, 1>(l, at, all, [&](int64_t row, int64_t j, wide(&sums)[1][PART]) {
        const part p = fetch(at, x + row * columns, j, columns);
        FOR_PART sums[0][k] += p.v[k];
    });
}

SUM_KERNELS(layer_norm_backward_parameters, wide, 2) {
    const int64_t columns = chunks_of(l).columns;
    const global<const scalar> x = input<scalar>(l, 0), dy = input<scalar>(l, 5);
    const global<const wide> means = input<wide>(l, 3), deviations = input<wide>(l, 4);
    sum_chunk<wide, 2>(l, at, all, [&](int64_t row, int64_t j, wide(&sums)[2][PART]) {
        const part p = fetch(at, x + row * columns, j, columns), d = fetch(at, dy + row * columns, j, columns);
        const wide mean = means[row], deviation = deviations[row];
        FOR_PART {
            sums[0][k] += d.v[k] * ((p.v[k] - mean) * deviation);
            sums[1][k] += d.v[k];
        }
    });
}

SUM_KERNELS(rms_norm_backward_parameters, wide, 1) {
    const int64_t columns = chunks_of(l).columns;
    const global<const scalar> x = input<scalar>(l, 0), dy = input<scalar>(l, 3);
    const global<const wide> deviations = input<wide>(l, 2);
    sum_chunk<wide, 1>(l, at, all, [&](int64_t row, int64_t j, wide(&sums)[1][PART]) {
        const part p = fetch(at, x + row * columns, j, columns), d = fetch(at, dy + row * columns, j, columns);
        const wide deviation = deviations[row];
        FOR_PART sums[0][k] += d.v[k] * (p.v[k] * deviation);
    });
}

SUM_KERNELS(path_product, double, 1) {
    const int64_t columns = chunks_of(l).columns;
    const global<const scalar> weight = input<scalar>(l, 0);
    const global<const wide> x = input<wide>(l, 1);
    const int is_square = l.call.integers[0] != 1;
    sum_chunk<double, 1>(l, at, all, [&](int64_t row, int64_t j, double(&sums)[1][PART]) {
        const part w = fetch(at, weight + row * columns, j, columns);
        const double factor = (double)(wide)x[row];
        FOR_PART {
            const double size = fabs((double)w.v[k]);
            sums[0][k] += (is_square ? size * size : size) * factor;
        }
    });
}

/* ---- EMBEDDING_BACKWARD ---- */

/*
 * Sorts the rows of dy by their ids: sorts parts of SORTED rows in shared memory, then finds the position of each row
 * among all parts. Then sums pieces of PIECE sorted rows. If all rows of an id are in one piece, their sum goes
 * directly to the table. Otherwise, each piece leaves its sum in the workspace, and a last stage adds these in the
 * order of the pieces. So the order of additions for an id depends only on the ids, and several blocks share the work
 * of an id with many rows.
 *
 * A key is the row of the table, then the row of dy, so that keys are unique. Ids out of range have row NOBODY.
 */
constexpr int SORTED = 2048, PIECE = 64, PIECE_THREADS = 64, TABLE_ROWS = 8; /* EITP__CUDA_SORTED, ... */
constexpr int BATCH = 4, TABLE_THREADS = 256;
constexpr uint32_t NOBODY = 0xffffffff;

DEVICE uint32_t table_row(uint64_t key) {
    return (uint32_t)(key >> 32);
}

/* Return the keys (sorted by part, or all) and the sums of pieces, in the workspace. */
DEVICE global<uint64_t> keys_at(const eitp__launch &l, int which) {
    return global_at<uint64_t>(l.workspace) + which * l.call.inputs[0].elements;
}
DEVICE global<wide> piece_sums(const eitp__launch &l) {
    return global_at<wide>(l.workspace) + l.call.inputs[0].elements * (2 * (int)sizeof(uint64_t) / (int)sizeof(wide));
}

/* Returns the number of sorted keys below a key. */
DEVICE int64_t count_below(global<const uint64_t> keys, int64_t count, uint64_t key) {
    int64_t low = 0, high = count;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (keys[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Bitonic sort of a part. The number of keys is a power of two; padding sorts last. */
KERNEL(embedding_backward_sort_kernel, 1024) {
    SHARED(uint64_t, keys, SORTED);
    const int64_t first = block_index() * SORTED, left = elements_of(l, l.call.inputs[0]) - first;
    const int64_t vocabulary = l.call.outputs[0].shape[0];
    const int count = (int)(left < SORTED ? left : SORTED);
    int size = 2;
    if (left <= 0)
        return;
    while (size < count)
        size *= 2;
    for (int i = thread_index(); i < size; i += thread_count()) {
        uint64_t key = UINT64_MAX;
        if (i < count) {
            const int64_t row = (int64_t)input<int32_t>(l, 0)[first + i] - l.call.integers[0];
            key = (uint64_t)(row >= 0 && row < vocabulary ? (uint32_t)row : NOBODY) << 32 | (uint64_t)(first + i);
        }
        keys[i] = key;
    }
    for (int width = 2; width <= size; width *= 2) {
        for (int stride = width / 2; stride > 0; stride /= 2) {
            barrier();
            for (int t = thread_index(); t < size / 2; t += thread_count()) {
                const int i = 2 * t - (t & (stride - 1));
                const uint64_t a = keys[i], b = keys[i + stride];
                if ((a > b) == !(i & width)) {
                    keys[i] = b;
                    keys[i + stride] = a;
                }
            }
        }
    }
    barrier();
    for (int i = thread_index(); i < count; i += thread_count())
        keys_at(l, 0)[first + i] = keys[i];
}

KERNEL(embedding_backward_merge_kernel, 256) {
    const int64_t i = block_index() * thread_count() + thread_index(), count = elements_of(l, l.call.inputs[0]);
    const global<const uint64_t> parts = keys_at(l, 0);
    if (i >= count)
        return;
    const uint64_t key = parts[i];
    int64_t place = i % SORTED;
    for (int64_t first = 0; first < count; first += SORTED)
        if (first != i / SORTED * SORTED)
            place += count_below(parts + first, count - first < SORTED ? count - first : SORTED, key);
    keys_at(l, 1)[place] = key;
}

/* Sums `count` rows of dy for one part of the columns. `keys` also has one key before and one after the piece. */
template <class L>
DEVICE void sum_piece(const eitp__launch &l, L at, int64_t piece, int64_t tile, shared<uint64_t> keys, int count) {
    const int64_t columns = l.call.outputs[0].shape[1];
    const int64_t j = column_of_thread(at, tile * (PIECE_THREADS * PART));
    const global<const scalar> dy = input<scalar>(l, 1);
    const wide carry = carry_of(l);
    int begin = 0;
    part sum = {};
    if (j >= columns)
        return;
    for (int i = 0; i < count && table_row(keys[i + 1]) != NOBODY; i += BATCH) {
        part rows[BATCH];
#pragma unroll
        for (int b = 0; b < BATCH; b++)
            if (i + b < count)
                rows[b] = fetch(at, dy + (int64_t)(uint32_t)keys[i + b + 1] * columns, j, columns);
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            const int end = i + b + 1;
            if (end > count)
                continue;
            const uint32_t row = table_row(keys[end]);
            FOR_PART sum.v[k] += rows[b].v[k];
            if (end < count && table_row(keys[end + 1]) == row)
                continue;
            const int is_shared = (begin == 0 && table_row(keys[0]) == row) || table_row(keys[end + 1]) == row;
            if (is_shared && row != NOBODY)
                put(at, piece_sums(l) + (2 * piece + (begin != 0)) * columns, j, columns, sum, 0);
            else if (row != NOBODY)
                put(at, output<wide>(l, 0) + (int64_t)row * columns, j, columns, sum, carry);
            FOR_PART sum.v[k] = 0;
            begin = end;
        }
    }
}

KERNEL(embedding_backward_pieces_kernel, PIECE_THREADS) {
    SHARED(uint64_t, keys, PIECE + 2);
    const int64_t columns = l.call.outputs[0].shape[1], all = elements_of(l, l.call.inputs[0]);
    const int64_t tiles = (columns + PIECE_THREADS * PART - 1) / (PIECE_THREADS * PART), piece = block_index() / tiles;
    const int64_t first = piece * PIECE, tile = block_index() - piece * tiles;
    const int count = (int)(all - first < PIECE ? all - first : PIECE);
    if (count <= 0)
        return;
    for (int i = thread_index(); i < count + 2; i += thread_count())
        keys[i] = first + i - 1 >= 0 && first + i - 1 < all ? (uint64_t)keys_at(l, 1)[first + i - 1] : UINT64_MAX;
    barrier();
    if (is_dense(l, columns))
        sum_piece(l, layout<1>(), piece, tile, keys, count);
    else
        sum_piece(l, layout<0>(), piece, tile, keys, count);
}

/* Completes a row of the table whose keys are [begin, end), if it has no keys or its keys are in several pieces. */
template <class L> DEVICE void complete_row(const eitp__launch &l, L at, int64_t row, int64_t begin, int64_t end) {
    const int64_t columns = l.call.outputs[0].shape[1], first = begin / PIECE, last = (end - 1) / PIECE;
    const int is_empty = begin == end;
    const wide carry = carry_of(l);
    if (is_empty ? carry == 1 : first == last)
        return;
    for (int64_t j = column_of_thread(at, 0); j < columns; j += TABLE_THREADS * PART) {
        part sum = {};
#pragma unroll 4
        for (int64_t piece = first; !is_empty && piece <= last; piece++) {
            const int64_t place = 2 * piece + (piece == first && begin % PIECE != 0);
            const part x = fetch(at, global<const wide>(piece_sums(l)) + place * columns, j, columns);
            FOR_PART sum.v[k] += x.v[k];
        }
        put(at, output<wide>(l, 0) + row * columns, j, columns, sum, carry);
    }
}

KERNEL(embedding_backward_kernel, TABLE_THREADS) {
    SHARED(int64_t, bounds, TABLE_ROWS + 1);
    const int64_t first = block_index() * TABLE_ROWS, vocabulary = l.call.outputs[0].shape[0];
    const int is_vector = is_dense(l, l.call.outputs[0].shape[1]);
    if (thread_index() <= TABLE_ROWS)
        bounds[thread_index()] =
            count_below(keys_at(l, 1), elements_of(l, l.call.inputs[0]), (uint64_t)(first + thread_index()) << 32);
    barrier();
    for (int i = 0; i < TABLE_ROWS && first + i < vocabulary; i++) {
        if (is_vector)
            complete_row(l, layout<1>(), first + i, bounds[i], bounds[i + 1]);
        else
            complete_row(l, layout<0>(), first + i, bounds[i], bounds[i + 1]);
    }
}

#endif
