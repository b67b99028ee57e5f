/*
 * UPDATE: a thread block updates EITP__SUM_BLOCK elements and sums their squares. Each thread processes four elements
 * at a time and issues all their reads before it computes, because updates are limited by memory.
 *
 * The formulas and roundings are those of kernels/simd/optimizer.inc and factored.inc.
 */
#include "kernels/cuda/call.h"
#include "kernels/update.h"

#if IS_FLOATING

/* Elements per warp and per block at a time. F64 needs more registers. */
enum { THREADS = SCALAR == 1 ? 512 : 1024, SPAN = 32 * 4, PASS = THREADS * 4 };

/* The rule and the form of its states. */
enum { ADAMW = EITP__MOMENT_WIDE, PACKED = EITP__MOMENT_PACKED, SGD = EITP__MOMENT_VELOCITY, FACTORED };

DEVICE float multiply_add(float a, float b, float c) {
    return fmaf(a, b, c);
}
#if SCALAR == 1
DEVICE double multiply_add(double a, double b, double c) {
    return fma(a, b, c);
}
DEVICE double root_of(double x) {
    return sqrt(x);
}
#else
DEVICE float root_of(float x) {
    return sqrtf(x);
}
#endif

/* ---- Four elements of a thread ---- */

struct four {
    int offset;   /* within the block */
    int count;    /* number of these that exist */
    int is_whole; /* all of the warp's elements exist and can be moved as vectors */
};

/* True if four elements can be moved at once in all operands that store them side by side. */
template <int rule> DEVICE int are_aligned(const eitp__launch &l) {
    const int state = rule == FACTORED ? EITP__UPDATE_STATE + 3 : EITP__UPDATE_STATE;
    const uintptr_t all = (uintptr_t)l.call.inputs[EITP__UPDATE_PARAMETER].data |
                          (uintptr_t)l.call.inputs[EITP__UPDATE_GRADIENT].data |
                          (uintptr_t)l.call.inputs[EITP__UPDATE_REMAINDER].data |
                          (uintptr_t)l.call.inputs[EITP__UPDATE_STATE + 1].data | (uintptr_t)l.call.inputs[state].data;
    return (all & 15) == 0;
}

/* Return the first element of the block, and its number of elements. */
DEVICE int64_t first_of_block() {
    return block_index() * EITP__SUM_BLOCK;
}
DEVICE int count_of_block(const eitp__launch &l) {
    const int64_t count = l.call.inputs[EITP__UPDATE_PARAMETER].elements - first_of_block();
    return count < EITP__SUM_BLOCK ? (int)count : EITP__SUM_BLOCK;
}

/* Returns this thread's four elements in the pass that starts at `begin`. The block has `count` elements. */
DEVICE four four_at(int begin, int count, int is_vector) {
    four at;
    at.offset = begin + thread_index() * 4;
    at.count = count - at.offset > 4 ? 4 : count > at.offset ? count - at.offset : 0;
    at.is_whole = is_vector && begin + (warp_index() + 1) * SPAN <= count;
    return at;
}

/* Returns the index of the first in the operands. */
DEVICE int64_t first_of(const four &at) {
    return first_of_block() + at.offset;
}

/* Elements beyond the end are zeros. */
template <int is_whole, class T> DEVICE void get(global<const T> p, const four &at, T x[4]) {
    const int n = sizeof(T) > 4 ? 2 : 4;
    for (int k = 0; k < 4 && is_whole; k += n) {
        const vec<T, n> v = load<n>(p, first_of(at) + k);
        for (int e = 0; e < n; e++)
            x[k + e] = v.v[e];
    }
    for (int k = 0; k < 4 && !is_whole; k++) {
        x[k] = T();
        if (k < at.count)
            x[k] = p[first_of(at) + k];
    }
}
template <int is_whole, class T> DEVICE void put(global<T> p, const four &at, const T x[4]) {
    const int n = sizeof(T) > 4 ? 2 : 4;
    for (int k = 0; k < 4 && is_whole; k += n) {
        vec<T, n> v;
        for (int e = 0; e < n; e++)
            v.v[e] = x[k + e];
        store<n>(p, first_of(at) + k, v);
    }
    for (int k = 0; k < 4 && !is_whole; k++)
        if (k < at.count)
            p[first_of(at) + k] = x[k];
}

/* Returns an operand that the update changes. Outputs share memory with inputs. */
template <class T> DEVICE global<T> changed(const eitp__launch &l, int i) {
    return global_at<T>(l.call.inputs[i].data);
}

/* ---- Values and their stored form ---- */

template <int rule> struct values {
    wide p[4], g[4], m[4], v[4]; /* for SGD, m is the velocity */
    /* In stored form. 8-bit moments have a scale per EITP__MOMENT_GROUP elements, the elements of 8 lanes. */
#if SCALAR == 2
    uint16_t high[4];
    int16_t remainder[4];
    int8_t correction[4];
#elif SCALAR == 3
    f16 high[4];
    float remainder[4];
#endif
    int8_t m_codes[4];
    uint8_t v_codes[4];
    uint16_t m_scale, v_scale;
};

/* Reads or writes the parameter. `move` is get or put, `memory` returns an operand. */
#if SCALAR == 2
#define MOVE_PARAMETER(move, memory)                                                                                   \
    const eitp__weight_form form = eitp__weight_form_of(&l.call);                                                      \
    move<is_whole>(memory<uint16_t>(l, EITP__UPDATE_PARAMETER), at, x.high);                                           \
    if (form == EITP__WEIGHT_EXACT)                                                                                    \
        move<is_whole>(memory<int16_t>(l, EITP__UPDATE_REMAINDER), at, x.remainder);                                   \
    if (form == EITP__WEIGHT_CORRECTED)                                                                                \
    move<is_whole>(memory<int8_t>(l, EITP__UPDATE_REMAINDER), at, x.correction)
#elif SCALAR == 3
#define MOVE_PARAMETER(move, memory)                                                                                   \
    move<is_whole>(memory<f16>(l, EITP__UPDATE_PARAMETER), at, x.high);                                                \
    move<is_whole>(memory<float>(l, EITP__UPDATE_REMAINDER), at, x.remainder)
#else
#define MOVE_PARAMETER(move, memory) move<is_whole>(memory<wide>(l, EITP__UPDATE_PARAMETER), at, x.p)
#endif

/* Like the above, for the moments. */
#define MOVE_MOMENTS(move, memory)                                                                                     \
    if (rule == PACKED) {                                                                                              \
        move<is_whole>(memory<int8_t>(l, EITP__UPDATE_STATE), at, x.m_codes);                                          \
        move<is_whole>(memory<uint8_t>(l, EITP__UPDATE_STATE + 1), at, x.v_codes);                                     \
    } else if (rule != FACTORED) {                                                                                     \
        move<is_whole>(memory<wide>(l, EITP__UPDATE_STATE), at, x.m);                                                  \
    }                                                                                                                  \
    if (rule == ADAMW)                                                                                                 \
    move<is_whole>(memory<wide>(l, EITP__UPDATE_STATE + 1), at, x.v)

/* Sets x.p from its stored form. */
template <int rule> DEVICE void decode_parameter(const eitp__launch &l, values<rule> &x) {
    (void)l, (void)x;
    for (int k = 0; k < 4; k++) {
#if SCALAR == 2
        const eitp__weight_form form = eitp__weight_form_of(&l.call);
        x.p[k] = form == EITP__WEIGHT_EXACT       ? eitp__join_bf16(x.high[k], x.remainder[k])
                 : form == EITP__WEIGHT_CORRECTED ? eitp__join_correction(x.high[k], x.correction[k])
                                                  : eitp__bf16_to_f32(x.high[k]);
#elif SCALAR == 3
        x.p[k] = to_float(x.high[k]) + x.remainder[k];
#endif
    }
}

/* Sets x.m and x.v from 8 bits: see eitp__moment_scale. */
template <int rule> DEVICE void decode_moments(values<rule> &x) {
    const float m_scale = eitp__bf16_to_f32(x.m_scale), v_step = eitp__bf16_to_f32(x.v_scale) / 255.0f;
    for (int k = 0; k < 4; k++) {
        const float root = v_step * fmaxf(0.5f, (float)x.v_codes[k]);
        x.m[k] = eitp__unpack_m(x.m_codes[k], m_scale);
        x.v[k] = root * root;
    }
}

template <int is_whole, int rule> DEVICE void read_gradient(const eitp__launch &l, const four &at, values<rule> &x) {
#if SCALAR == 2
    if (l.call.inputs[EITP__UPDATE_GRADIENT].dtype == EITP_BF16) {
        uint16_t narrow[4];
        get<is_whole>(input<uint16_t>(l, EITP__UPDATE_GRADIENT), at, narrow);
        for (int k = 0; k < 4; k++)
            x.g[k] = eitp__bf16_to_f32(narrow[k]);
        return;
    }
#endif
    get<is_whole>(input<wide>(l, EITP__UPDATE_GRADIENT), at, x.g);
}

/* Issues all reads before it waits for any. */
template <int is_whole, int rule> DEVICE void read_all(const eitp__launch &l, const four &at, values<rule> &x) {
    const int64_t group = first_of(at) / EITP__MOMENT_GROUP;
    MOVE_PARAMETER(get, input);
    MOVE_MOMENTS(get, input);
    x.m_scale = x.v_scale = 0;
    if (rule == PACKED && at.count) {
        x.m_scale = input<uint16_t>(l, EITP__UPDATE_STATE + 2)[group];
        x.v_scale = input<uint16_t>(l, EITP__UPDATE_STATE + 3)[group];
    }
    read_gradient<is_whole>(l, at, x);
    decode_parameter(l, x);
    if (rule == PACKED)
        decode_moments(x);
}

template <int is_whole, int rule> DEVICE void write_all(const eitp__launch &l, const four &at, const values<rule> &x) {
    const int64_t group = first_of(at) / EITP__MOMENT_GROUP;
    MOVE_PARAMETER(put, changed);
    MOVE_MOMENTS(put, changed);
    if (rule == PACKED)
        warp_barrier(); /* every lane of a group has read its scales */
    if (rule == PACKED && at.count && lane() % (EITP__MOMENT_GROUP / 4) == 0) {
        changed<uint16_t>(l, EITP__UPDATE_STATE + 2)[group] = x.m_scale;
        changed<uint16_t>(l, EITP__UPDATE_STATE + 3)[group] = x.v_scale;
    }
}

/* ---- Random bits ---- */

/*
 * Random words drawn by a warp: word w of block b of group g is at w * WORD_ROW + g * EITP__HALVES_BLOCKS + b. A group
 * serves EITP__HALVES elements. The warp's elements may start inside a group.
 */
enum { WORD_ROW = (SPAN / EITP__HALVES + 1) * EITP__HALVES_BLOCKS, WORDS = SCALAR == 2 ? 4 * WORD_ROW : 1 };

#if SCALAR == 2
/* Returns the index of the warp's first element in the parameter. */
DEVICE uint64_t number_of_warp(const eitp__launch &l, const four &at) {
    return (uint64_t)(l.call.integers[1] + first_of(at) - lane() * 4);
}

/* Draws the words for the warp's elements: see eitp__random_half. Each lane draws one block. */
DEVICE void draw_words(const eitp__launch &l, const four &at, shared<uint32_t> words) {
    const global<const int64_t> key = input<int64_t>(l, EITP__UPDATE_KEY);
    const uint64_t block = number_of_warp(l, at) / EITP__HALVES * EITP__HALVES_BLOCKS + (uint64_t)lane();
    uint32_t drawn[4];
    eitp__philox((uint64_t)(int64_t)key[0], (uint64_t)(int64_t)key[1], (uint32_t)l.call.integers[0], block, drawn);
    warp_barrier();
    for (int w = 0; w < 4; w++)
        words[w * WORD_ROW + lane()] = drawn[w];
    warp_barrier();
}

/* Returns the random bits of element k. */
DEVICE uint16_t random_half(const eitp__launch &l, const four &at, int k, shared<uint32_t> words) {
    const int place = (int)(number_of_warp(l, at) % EITP__HALVES) + lane() * 4 + k;
    const int which = place / EITP__HALVES_BLOCKS % 8;
    const int block = place / EITP__HALVES * EITP__HALVES_BLOCKS + place % EITP__HALVES_BLOCKS;
    return (uint16_t)(words[(which & 3) * WORD_ROW + block] >> (which & 4) * 4);
}
#endif

/* ---- The stored form of new values ---- */

template <int rule>
DEVICE void encode_parameter(const eitp__launch &l, const four &at, shared<uint32_t> words, values<rule> &x) {
    (void)l, (void)at, (void)words, (void)x;
#if SCALAR == 2
    const eitp__weight_form form = eitp__weight_form_of(&l.call);
    if (form == EITP__WEIGHT_STOCHASTIC)
        draw_words(l, at, words);
#endif
    for (int k = 0; k < 4; k++) {
#if SCALAR == 2
        if (form == EITP__WEIGHT_EXACT)
            eitp__split_bf16(x.p[k], &x.high[k], &x.remainder[k]);
        else if (form == EITP__WEIGHT_CORRECTED)
            eitp__split_correction(x.p[k], &x.high[k], &x.correction[k]);
        else
            x.high[k] = eitp__round_bf16(x.p[k], random_half(l, at, k, words));
#elif SCALAR == 3
        x.high[k] = to_scalar(x.p[k]);
        x.remainder[k] = x.p[k] - to_float(x.high[k]);
#endif
    }
}

/* Returns the largest in the lanes of a group, ignoring NaN. */
DEVICE float group_max(float value) {
    for (int mask = EITP__MOMENT_GROUP / 8; mask > 0; mask /= 2)
        value = fmaxf(value, shuffle_xor(value, mask));
    return value;
}

/* See eitp__moment_scale. */
template <int rule> DEVICE void encode_moments(const eitp__launch &l, const four &at, values<rule> &x) {
    const uint32_t place = eitp__dither_place(input<float>(l, EITP__UPDATE_RATE)[1], l.call.integers[1] + first_of(at));
    float top_m = 0, top_root = 0, roots[4], steps;
    for (int k = 0; k < 4; k++) {
        roots[k] = sqrtf((float)x.v[k]);
        top_m = fmaxf(top_m, fabsf((float)x.m[k]));
        top_root = fmaxf(top_root, roots[k]);
    }
    top_m = eitp__moment_scale(group_max(top_m));
    top_root = eitp__moment_scale(group_max(top_root));
    x.m_scale = (uint16_t)(eitp__bits_of_float(top_m) >> 16);
    x.v_scale = (uint16_t)(eitp__bits_of_float(top_root) >> 16);
    top_m = top_m > 0.0f ? top_m : 1.0f;
    steps = top_root > 0.0f ? 255.0f / top_root : 0.0f;
    for (int k = 0; k < 4; k++) {
        const float m = (float)x.m[k], dither = eitp__dither(place + (uint32_t)k * EITP__DITHER_ELEMENT);
        const float q = 254.0f * m / (top_m + fabsf(m)) + dither, r = multiply_add(roots[k], steps, dither);
        x.m_codes[k] = (int8_t)rintf(fmaxf(-127.0f, fminf(127.0f, q)));
        x.v_codes[k] = (uint8_t)rintf(fmaxf(0.0f, fminf(255.0f, r)));
    }
}

/* ---- Factored updates ---- */

/* Returns the factor of the gradient. */
DEVICE wide scale_of(const eitp__launch &l) {
    return (wide)input<float>(l, EITP__UPDATE_COMMIT)[0];
}

struct corner {
    int64_t row, column;
};

DEVICE int64_t columns_of_states(const eitp__launch &l) {
    return l.call.inputs[EITP__UPDATE_STATE + 1].elements;
}

/* Returns the position where the block starts. */
DEVICE corner corner_of(const eitp__launch &l) {
    const int64_t columns = columns_of_states(l), first = first_of_block();
    corner c;
    c.row = first / columns;
    c.column = first - c.row * columns;
    return c;
}

/* Returns the position `offset` elements after that; fewer than EITP__SUM_BLOCK. */
DEVICE corner corner_at(const eitp__launch &l, corner c, int offset) {
    const int64_t columns = columns_of_states(l);
    c.column += offset;
    if (c.column >= columns && columns >= EITP__SUM_BLOCK) {
        c.column -= columns;
        c.row++;
    } else if (c.column >= columns) {
        const uint32_t rows = (uint32_t)c.column / (uint32_t)columns;
        c.column -= rows * (uint32_t)columns;
        c.row += rows;
    }
    return c;
}

/* Computes the directions of n elements of a row with gradient g, before the limit applies. */
template <int n> DEVICE void find_directions(const eitp__launch &l, const corner &c, const wide *g, wide *to) {
    const vec<float, n> by_column = load<n>(input<float>(l, EITP__UPDATE_STATE + 1), c.column);
    const wide by_row = (wide)input<float>(l, EITP__UPDATE_STATE)[c.row], scale = scale_of(l);
    wide changes[n];
    for (int k = 0; k < n; k++)
        changes[k] = 0;
    for (int t = 0; t < EITP__DIRECTIONS && has_input(l, EITP__UPDATE_STATE + 2); t++) {
        const vec<float, n> old = load<n>(input<float>(l, EITP__UPDATE_STATE + 3), t * columns_of_states(l) + c.column);
        const wide correction = (wide)input<float>(l, EITP__UPDATE_STATE + 2)[c.row * EITP__DIRECTIONS + t];
        for (int k = 0; k < n; k++)
            changes[k] = multiply_add(correction, (wide)old.v[k], changes[k]);
    }
    for (int k = 0; k < n; k++)
        to[k] =
            multiply_add(g[k], scale, changes[k]) / multiply_add(by_row, (wide)by_column.v[k], (wide)l.call.reals[2]);
}

/*
 * Computes the directions of four elements, with zeros beyond the end. Directions are computed twice, because a block
 * has too many to keep. The second time, its gradient is in a cache.
 */
template <int rule>
DEVICE void get_directions(const eitp__launch &l, const corner &of_block, const four &at, const values<rule> &x,
                           wide to[4]) {
    for (int k = 0; k < 4; k++)
        to[k] = 0;
    if (at.is_whole && columns_of_states(l) % 4 == 0) {
        find_directions<4>(l, corner_at(l, of_block, at.offset), x.g, to);
        return;
    }
    for (int k = 0; k < 4; k++)
        if (k < at.count)
            find_directions<1>(l, corner_at(l, of_block, at.offset + k), x.g + k, to + k);
}

/* Returns the sum of squares of the block's directions. Every thread of the block must call it. */
DEVICE double direction_squares(const eitp__launch &l, const corner &of_block, int count, int is_vector) {
    SHARED(double, scratch, 32);
    double sum = 0;
    for (int begin = 0; begin < count; begin += PASS) {
        const four at = four_at(begin, count, is_vector);
        values<FACTORED> x;
        wide directions[4];
        if (at.is_whole)
            read_gradient<1>(l, at, x);
        else
            read_gradient<0>(l, at, x);
        get_directions(l, of_block, at, x, directions);
        for (int k = 0; k < 4; k++)
            sum = fma((double)directions[k], (double)directions[k], sum);
    }
    return block_sum(sum, scratch);
}

/* ---- The update ---- */

/* Factors shared by all elements. For SGD, keep1 is the momentum. */
enum { SIZE, KEEP1, TAKE1, DECAY, CORRECTION, KEEP2, TAKE2, EPSILON, SCALE, FACTORS };

/* Computes the factors, half of them in each of threads 0 and 1. `squares` is the sum for `count` directions. */
template <int rule> DEVICE void share_factors(const eitp__launch &l, double squares, int count, shared<wide> factors) {
    const global<const float> hyper = input<float>(l, EITP__UPDATE_RATE);
    const int t = thread_index();
    if (t == 0)
        factors[SCALE] = scale_of(l);
    if (t < 2) {
        const double beta = t ? l.call.reals[1] : l.call.reals[0], rate = (double)hyper[0];
        const shared<wide> half = factors + t * CORRECTION;
        double unit = 1;
        if (rule == ADAMW || rule == PACKED) {
            unit = weight_of_mean(beta, hyper[1]);
            unit = t ? sqrt(unit) : unit;
        }
        if (rule == FACTORED) { /* see eitp__factored_size */
            const double size = sqrt(squares / (double)count);
            unit = size > EITP__FACTORED_LIMIT ? size / EITP__FACTORED_LIMIT : 1;
        }
        half[SIZE] = (wide)((t ? 1 : rate) / unit);
        half[KEEP1] = (wide)beta;
        half[TAKE1] = (wide)(1 - beta);
        half[DECAY] = (wide)(t ? l.call.reals[2] : rate * l.call.reals[3]);
    }
    barrier();
}

/* Returns the new value of an element from its gradient or direction g, and updates its moments. */
template <int rule> DEVICE wide move(const wide f[FACTORS], wide old, wide g, wide &m, wide &v) {
    const wide p = multiply_add(-f[DECAY], old, old);
    if (rule == FACTORED)
        return multiply_add(-f[SIZE], g, p);
    if (rule == SGD) {
        m = multiply_add(f[KEEP1], m, g);
        return multiply_add(-f[SIZE], m, p);
    }
    m = multiply_add(f[TAKE1], g, f[KEEP1] * m);
    v = multiply_add(f[TAKE2], g * g, f[KEEP2] * v);
    return p - f[SIZE] * m / multiply_add(root_of(v), f[CORRECTION], f[EPSILON]);
}

struct sums_of_squares {
    double update, parameter;
};

/* Adds the squares of an element that changed from `old` to p. */
DEVICE void add_squares(sums_of_squares &sums, wide old, wide p) {
    const double difference = (double)(p - old);
    sums.update = fma(difference, difference, sums.update);
    sums.parameter = fma((double)p, (double)p, sums.parameter);
}

template <int rule>
DEVICE void update_four(const eitp__launch &l, const corner &of_block, const four &at, const wide f[FACTORS],
                        values<rule> &x, sums_of_squares &sums) {
    wide g[4];
    if (rule == FACTORED)
        get_directions(l, of_block, at, x, g);
    for (int k = 0; k < 4; k++) {
        const wide old = x.p[k];
        if (rule != FACTORED)
            g[k] = f[SCALE] * x.g[k];
        x.p[k] = move<rule>(f, old, g[k], x.m[k], x.v[k]);
        if (k < at.count)
            add_squares(sums, old, x.p[k]);
    }
}

template <int rule> DEVICE void update_block(const eitp__launch &l) {
    SHARED(uint32_t, all_words, THREADS / 32 * WORDS);
    SHARED(wide, factors, FACTORS);
    SHARED(double, scratch, 32);
    const shared<uint32_t> words = all_words + warp_index() * WORDS;
    const int count = count_of_block(l), is_vector = are_aligned<rule>(l);
    const int applies = input<float>(l, EITP__UPDATE_COMMIT)[1] != 0.0f;
    sums_of_squares sums = {0, 0};
    corner of_block = {0, 0};
    if (rule == FACTORED) {
        of_block = corner_of(l);
        share_factors<rule>(l, direction_squares(l, of_block, count, is_vector), count, factors);
    }
    for (int begin = 0; begin < count; begin += PASS) {
        const four at = four_at(begin, count, is_vector);
        values<rule> x;
        wide f[FACTORS];
        if (at.is_whole)
            read_all<1>(l, at, x);
        else
            read_all<0>(l, at, x);
        if (rule != FACTORED && begin == 0) /* while the first elements are being loaded */
            share_factors<rule>(l, 0, count, factors);
        for (int i = 0; i < FACTORS; i++)
            f[i] = factors[i];
        if (!applies) {
            for (int k = 0; k < 4; k++)
                add_squares(sums, x.p[k], x.p[k]);
            continue;
        }
        update_four(l, of_block, at, f, x, sums);
        encode_parameter(l, at, words, x);
        if (rule == PACKED)
            encode_moments(l, at, x);
        if (at.is_whole)
            write_all<1>(l, at, x);
        else
            write_all<0>(l, at, x);
    }
    sums.update = block_sum(sums.update, scratch);
    sums.parameter = block_sum(sums.parameter, scratch);
    if (thread_index() == 0) {
        output<double>(l, 1)[2 * block_index()] = sums.update;
        output<double>(l, 1)[2 * block_index() + 1] = sums.parameter;
    }
}

KERNEL(update_adamw_kernel, THREADS) {
    update_block<ADAMW>(l);
}

KERNEL(update_sgd_kernel, THREADS) {
    update_block<SGD>(l);
}

KERNEL(update_factored_kernel, THREADS) {
    update_block<FACTORED>(l);
}

#if SCALAR == 0 || SCALAR == 2
KERNEL(update_packed_kernel, THREADS) {
    update_block<PACKED>(l);
}
#endif

#endif
