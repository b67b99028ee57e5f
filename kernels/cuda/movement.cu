/* Slots that move elements. They compute nothing, except that some sum at positions given by data or attributes. */
#include "kernels/cuda/elements.h"

constexpr int AT_ONCE = at_once<scalar>::count;

/* Returns the product of the extents of the dimensions after `dimension`. */
DEVICE int64_t inner_of(const eitp__operand &x, int64_t dimension) {
    int64_t inner = 1;
    for (int d = (int)dimension + 1; d < x.rank; d++)
        inner *= x.shape[d];
    return inner;
}

/* ---- Strided copies ---- */

/* Copies to element i of y the element of x found by the grid, which thread 0 has set up. */
DEVICE void copy(const eitp__launch &l, shared<int64_t> grid) {
    const global<const scalar> in = input<scalar>(l, 0);
    const global<scalar> out = output<scalar>(l, 0);
    if (thread_index() == 0)
        grid_finish<1>(grid, AT_ONCE, are_aligned<1>(l));
    barrier();
    for_vectors<AT_ONCE>(elements_of(l, l.call.outputs[0]), (int)grid[GRID_HAS_VECTORS], [&](auto w, int64_t i) {
        constexpr int n = decltype(w)::count;
        int64_t at[1];
        grid_find<1>(grid, i, at);
        store<n>(out, i, fetch<n>(in, grid[GRID_START] + at[0], grid[GRID_STRIDE] == 0));
    });
}

KERNEL(broadcast_kernel, 256) {
    SHARED(int64_t, grid, GRID);
    if (thread_index() == 0)
        broadcast_grid<1>(l, grid);
    copy(l, grid);
}

KERNEL(permute_kernel, 256) {
    SHARED(int64_t, grid, GRID);
    if (thread_index() == 0) {
        const eitp__operand &x = l.call.inputs[0];
        grid_begin<1>(grid);
        for (int d = x.rank - 1; d >= 0; d--) {
            const int64_t from = l.call.integers[d], stride = inner_of(x, from);
            grid_add<1>(grid, x.shape[from], &stride);
        }
    }
    copy(l, grid);
}

KERNEL(slice_kernel, 256) {
    SHARED(int64_t, grid, GRID);
    if (thread_index() == 0) {
        const eitp__operand &x = l.call.inputs[0];
        int64_t stride = 1, start = 0;
        grid_begin<1>(grid);
        for (int d = x.rank - 1; d >= 0; d--) {
            grid_add<1>(grid, l.call.outputs[0].shape[d], &stride);
            start += l.call.integers[d] * stride;
            stride *= x.shape[d];
        }
        grid[GRID_START] = start;
    }
    copy(l, grid);
}

/*
 * A permutation that moves the last dimension. Transposes tiles of the last dimensions of x and y in shared memory, so
 * that adjacent threads read and write adjacent elements.
 */
constexpr int TILE = 32;
enum { TILE_FROM, TILE_TO, TILE_FROM_STEP, TILE_TO_STEP, TILE_ROWS, TILE_COLUMNS, TILE_PLACE };

/* Rows run along the last dimension of y, columns along the last dimension of x. */
DEVICE void find_tile(const eitp__launch &l, shared<int64_t> place) {
    const eitp__operand &x = l.call.inputs[0], &y = l.call.outputs[0];
    const int last = y.rank - 1;
    int64_t rest = block_index(), from = 0, to = 0, row, column;
    int turned = 0;
    for (int d = 0; d < last; d++)
        turned = l.call.integers[d] == last ? d : turned;
    row = rest % ((y.shape[last] + TILE - 1) / TILE) * TILE;
    rest /= (y.shape[last] + TILE - 1) / TILE;
    column = rest % ((y.shape[turned] + TILE - 1) / TILE) * TILE;
    rest /= (y.shape[turned] + TILE - 1) / TILE;
    for (int d = last - 1; d >= 0; d--) {
        if (d == turned)
            continue;
        from += rest % y.shape[d] * inner_of(x, l.call.integers[d]);
        to += rest % y.shape[d] * inner_of(y, d);
        rest /= y.shape[d];
    }
    place[TILE_FROM_STEP] = inner_of(x, l.call.integers[last]);
    place[TILE_TO_STEP] = inner_of(y, turned);
    place[TILE_FROM] = from + row * place[TILE_FROM_STEP] + column;
    place[TILE_TO] = to + column * place[TILE_TO_STEP] + row;
    place[TILE_ROWS] = y.shape[last] - row;
    place[TILE_COLUMNS] = to < elements_of(l, y) ? y.shape[turned] - column : 0;
}

KERNEL(permute_tiles_kernel, 256) {
    SHARED(int64_t, place, TILE_PLACE);
    SHARED(scalar, tile, TILE * (TILE + 1));
    const global<const scalar> in = input<scalar>(l, 0);
    const global<scalar> out = output<scalar>(l, 0);
    if (thread_index() == 0)
        find_tile(l, place);
    barrier();
    for (int r = warp_index(); r < TILE; r += 8)
        if (r < place[TILE_ROWS] && lane() < place[TILE_COLUMNS])
            tile[r * (TILE + 1) + lane()] = in[place[TILE_FROM] + r * place[TILE_FROM_STEP] + lane()];
    barrier();
    for (int c = warp_index(); c < TILE; c += 8)
        if (c < place[TILE_COLUMNS] && lane() < place[TILE_ROWS])
            out[place[TILE_TO] + c * place[TILE_TO_STEP] + lane()] = tile[lane() * (TILE + 1) + c];
}

/* ---- Padding ---- */

/* A row of y spans the last padded dimension and all dimensions after it: zeros, a row of x, zeros. */
typedef struct padded_rows {
    int last;
    int64_t length, before, filled;
} padded_rows;

DEVICE padded_rows padded_rows_of(const eitp__launch &l) {
    const eitp__operand &x = l.call.inputs[0], &y = l.call.outputs[0];
    padded_rows rows = {y.rank - 1, 1, 0, 1};
    while (rows.last > 0 && x.shape[rows.last] == y.shape[rows.last])
        rows.last--;
    if (rows.last >= 0) {
        const int64_t inner = inner_of(y, rows.last);
        rows.length = y.shape[rows.last] * inner;
        rows.before = l.call.integers[rows.last] * inner;
        rows.filled = x.shape[rows.last] * inner;
    }
    return rows;
}

/* Returns the offset in x of element i of y, or -1 if it is padding. */
DEVICE int64_t find_padded(const eitp__launch &l, const padded_rows &rows, int64_t i) {
    const eitp__operand &x = l.call.inputs[0], &y = l.call.outputs[0];
    int64_t rest = rows.last > 0 ? divide(i, rows.length) : 0, stride = rows.filled;
    int64_t at = i - rest * rows.length - rows.before;
    int is_inside = at >= 0 && at < rows.filled;
    for (int d = rows.last - 1; d >= 0; d--) {
        const int64_t next = d ? divide(rest, y.shape[d]) : 0;
        const int64_t index = rest - next * y.shape[d] - l.call.integers[d];
        is_inside = is_inside && index >= 0 && index < x.shape[d];
        at += index * stride;
        stride *= x.shape[d];
        rest = next;
    }
    return is_inside ? at : -1;
}

KERNEL(pad_kernel, 256) {
    const padded_rows rows = padded_rows_of(l);
    const global<const scalar> in = input<scalar>(l, 0);
    const global<scalar> out = output<scalar>(l, 0);
    const int fits = (rows.length | rows.before | rows.filled) % AT_ONCE == 0 && are_aligned<1>(l);
    const float carry = IS_FLOATING ? carry_of(l) : 0;
    for_vectors<AT_ONCE>(elements_of(l, l.call.outputs[0]), fits, [&](auto w, int64_t i) {
        constexpr int n = decltype(w)::count;
        const int64_t at = find_padded(l, rows, i);
        vec<scalar, n> x = {};
        if (at >= 0)
            x = load<n>(in, at);
        else if (carry == 1)
            return;
#if IS_FLOATING
        if (carry != 0) {
            const vec<scalar, n> old = load<n>(out, i);
            for (int k = 0; k < n; k++)
                x.v[k] = to_scalar((wide)carry * to_wide(old.v[k]) + to_wide(x.v[k]));
        }
#endif
        store<n>(out, i, x);
    });
}

/* ---- Concatenation ---- */

/* Returns the number of elements of input k for one index of the dimensions before the joined one. */
DEVICE int64_t joined_length(const eitp__launch &l, int k, int64_t inner) {
    const eitp__operand &x = l.call.inputs[k];
    const int64_t axis = l.call.integers[0];
    return k < l.call.input_count ? (axis ? x.shape[axis] : first_dimension(l, x)) * inner : 0;
}

KERNEL(concat_kernel, 256) {
    const eitp__operand &y = l.call.outputs[0];
    const int64_t axis = l.call.integers[0], inner = inner_of(y, axis);
    const global<scalar> out = output<scalar>(l, 0);
    int64_t length = 0;
    int fits = is_aligned(y);
    for (int k = 0; k < EITP__MAX_INPUTS; k++) {
        const int64_t part = joined_length(l, k, inner);
        fits = fits && part % AT_ONCE == 0 && (!part || is_aligned(l.call.inputs[k]));
        length += part;
    }
    for_vectors<AT_ONCE>(elements_of(l, y), fits, [&](auto w, int64_t i) {
        constexpr int n = decltype(w)::count;
        const int64_t outer = axis ? divide(i, length) : 0, column = i - outer * length;
        global<const scalar> in = input<scalar>(l, 0);
        int64_t at = 0, first = 0;
#pragma unroll
        for (int k = 0; k < EITP__MAX_INPUTS; k++) {
            const int64_t part = joined_length(l, k, inner);
            if (column >= first && column < first + part) {
                in = input<scalar>(l, k);
                at = outer * part + column - first;
            }
            first += part;
        }
        store<n>(out, i, load<n>(in, at));
    });
}

/* ---- Gather and scatter ---- */

/* An index out of range yields 0. */
KERNEL(gather_kernel, 256) {
    const eitp__operand &x = l.call.inputs[0], &y = l.call.outputs[0];
    const int64_t axis = l.call.integers[0], inner = inner_of(y, axis);
    const int64_t extent = axis ? x.shape[axis] : first_dimension(l, x), block = axis ? y.shape[axis] * inner : 0;
    const global<const scalar> in = input<scalar>(l, 0);
    const global<const int32_t> indices = input<int32_t>(l, 1);
    const global<scalar> out = output<scalar>(l, 0);
    for_vectors<AT_ONCE>(elements_of(l, y), 0, [&](auto, int64_t i) {
        const int64_t outer = axis ? divide(i, block) : 0, column = inner > 1 ? i - divide(i, inner) * inner : 0;
        const int64_t index = indices[i];
        out[i] = index >= 0 && index < extent ? (scalar)in[(outer * extent + index) * inner + column] : scalar();
    });
}

#if IS_FLOATING

/* One warp per row. */
KERNEL(embedding_kernel, 256) {
    const eitp__operand &table = l.call.inputs[0];
    const int64_t row = block_index() * (thread_count() / 32) + warp_index(), columns = table.shape[1];
    const global<const scalar> in = input<scalar>(l, 0);
    const global<scalar> out = output<scalar>(l, 0);
    const int fits = columns % AT_ONCE == 0 && are_aligned<1>(l);
    if (row >= first_dimension(l, l.call.outputs[0]))
        return;
    const int64_t id = input<int32_t>(l, 1)[row];
    const int is_there = id >= 0 && id < first_dimension(l, table);
    for (int64_t j = lane() * AT_ONCE; j < columns && fits; j += 32 * AT_ONCE) {
        vec<scalar, AT_ONCE> v = {};
        if (is_there)
            v = load<AT_ONCE>(in, id * columns + j);
        store<AT_ONCE>(out, row * columns + j, v);
    }
    for (int64_t j = lane(); j < columns && !fits; j += 32)
        out[row * columns + j] = is_there ? (scalar)in[id * columns + j] : scalar();
}

#endif

#if SCALAR < 2

/* Initialises the sums to carry * y, or zeros. */
KERNEL(scatter_add_clear_kernel, 256) {
    const global<scalar> out = output<scalar>(l, 0);
    const wide carry = (wide)carry_of(l);
    for_vectors<AT_ONCE>(carry == 1 ? 0 : elements_of(l, l.call.outputs[0]), are_aligned<0>(l), [&](auto w, int64_t i) {
        constexpr int n = decltype(w)::count;
        vec<scalar, n> y = {};
        if (carry != 0)
            y = load<n>(out, i);
        for (int k = 0; k < n && carry != 0; k++)
            y.v[k] = carry * y.v[k];
        store<n>(out, i, y);
    });
}

/*
 * A line of y is one index of all dimensions except the indexed one. `parts` threads share it, according to the lowest
 * bits of the index: each reads all indices of the line and adds its own elements, in order. The threads of a warp read
 * adjacent lines or, if lines are far from each other, the same line.
 */
KERNEL(scatter_add_kernel, 256) {
    constexpr int AHEAD = 8;
    const eitp__operand &y = l.call.outputs[0], &d = l.call.inputs[1];
    const int64_t axis = l.call.integers[0], inner = inner_of(y, axis), lines = y.elements / y.shape[axis];
    const int64_t extent = axis ? y.shape[axis] : first_dimension(l, y);
    const int64_t count = axis ? d.shape[axis] : first_dimension(l, d);
    int64_t parts = 1;
    while (parts < 32 && 2 * parts * lines <= block_count() * thread_count())
        parts *= 2;
    const int64_t thread = block_index() * thread_count() + thread_index(), by = inner > 1 ? lines : parts;
    const int64_t quotient = divide(thread, by), rest = thread - quotient * by;
    const int64_t line = inner > 1 ? rest : quotient, part = inner > 1 ? quotient : rest;
    const int64_t outer = divide(line, inner), column = line - outer * inner;
    const global<const int32_t> indices = input<int32_t>(l, 0) + (outer * count * inner + column);
    const global<const scalar> from = input<scalar>(l, 1) + (outer * count * inner + column);
    const global<scalar> to = output<scalar>(l, 0) + (outer * extent * inner + column);
    if (part >= parts || outer * extent * inner >= elements_of(l, y))
        return;
    for (int64_t first = 0; first < count; first += AHEAD) {
        int32_t index[AHEAD];
        scalar value[AHEAD];
        for (int k = 0; k < AHEAD; k++) {
            const int64_t i = first + k < count ? first + k : first;
            index[k] = first + k < count ? (int32_t)indices[i * inner] : -1;
            value[k] = from[i * inner];
        }
        for (int k = 0; k < AHEAD; k++)
            if (index[k] >= 0 && index[k] < extent && (index[k] & (parts - 1)) == part)
                to[index[k] * inner] = to[index[k] * inner] + value[k];
    }
}

#endif
