/* Element-wise slots: generated values, operations with one, two or three operands, casts, dropout. */
#include "kernels/cuda/activations.h"
#include "kernels/cuda/elements.h"

constexpr int AT_ONCE = at_once<scalar>::count;

/* ---- Generated values, casts ---- */

/* Rounds towards zero. Saturates at the limits. NaN becomes 0. */
template <class T, class V> DEVICE T whole(V value) {
    const T low = (T)-1 > 0 ? 0 : (T)((uint64_t)1 << (sizeof(T) * 8 - 1)), high = (T)~low;
    if (value != value)
        return 0;
    if (value <= (V)low)
        return low;
    return value >= (V)high ? high : (T)value;
}

DEVICE void put(wide value, float &y) {
    y = (float)value;
}
DEVICE void put(wide value, double &y) {
    y = (double)value;
}
DEVICE void put(wide value, bf16 &y) {
    from_float((float)value, y);
}
DEVICE void put(wide value, f16 &y) {
    from_float((float)value, y);
}
/* In conversions between integers, values that are too large keep their low bits. */
template <class T> DEVICE void put(wide value, T &y) {
#if IS_FLOATING
    y = whole<T>(value);
#else
    y = (T)value;
#endif
}

template <class To> DEVICE void cast_to(const eitp__launch &l) {
    const global<const scalar> in = input<scalar>(l, 0);
    const global<To> out = output<To>(l, 0);
    for_vectors<at_once<scalar, To>::count>(elements_of(l, l.call.outputs[0]), are_aligned<1>(l),
                                            [&](auto w, int64_t i) {
                                                constexpr int n = decltype(w)::count;
                                                const vec<scalar, n> x = load<n>(in, i);
                                                vec<To, n> y;
                                                for (int k = 0; k < n; k++)
                                                    put(to_wide(x.v[k]), y.v[k]);
                                                store<n>(out, i, y);
                                            });
}

KERNEL(cast_kernel, 256) {
    switch (l.call.outputs[0].dtype) {
    case EITP_F32:
        return cast_to<float>(l);
    case EITP_F64:
        return cast_to<double>(l);
    case EITP_BF16:
        return cast_to<bf16>(l);
    case EITP_F16:
        return cast_to<f16>(l);
    case EITP_I64:
        return cast_to<int64_t>(l);
    case EITP_I32:
        return cast_to<int32_t>(l);
    case EITP_I16:
        return cast_to<int16_t>(l);
    case EITP_I8:
        return cast_to<int8_t>(l);
    case EITP_U8:
        return cast_to<uint8_t>(l);
    }
}

/* y[i] = function(i). */
template <class F> DEVICE void make(const eitp__launch &l, F function) {
    const global<scalar> out = output<scalar>(l, 0);
    for_vectors<AT_ONCE>(elements_of(l, l.call.outputs[0]), are_aligned<0>(l), [&](auto w, int64_t i) {
        constexpr int n = decltype(w)::count;
        vec<scalar, n> y;
        for (int k = 0; k < n; k++)
            y.v[k] = function(i + k);
        store<n>(out, i, y);
    });
}

KERNEL(fill_kernel, 256) {
#if IS_FLOATING
    const scalar value = to_scalar((wide)l.call.reals[0]);
#else
    const scalar value = whole<scalar>(l.call.reals[0]);
#endif
    make(l, [&](int64_t) { return value; });
}

KERNEL(arange_kernel, 256) {
    make(l, [&](int64_t i) { return to_scalar((wide)i); });
}

/* ---- Unary ---- */

#if IS_FLOATING

template <class F> DEVICE void map(const eitp__launch &l, F function) {
    const global<const scalar> in = input<scalar>(l, 0);
    const global<scalar> out = output<scalar>(l, 0);
    for_vectors<AT_ONCE>(elements_of(l, l.call.outputs[0]), are_aligned<1>(l), [&](auto w, int64_t i) {
        constexpr int n = decltype(w)::count;
        vec<scalar, n> x = load<n>(in, i);
        for (int k = 0; k < n; k++)
            x.v[k] = to_scalar(function(to_wide(x.v[k])));
        store<n>(out, i, x);
    });
}

#define UNARY(name, expression)                                                                                        \
    KERNEL(name##_kernel, 256) {                                                                                       \
        map(l, [](wide x) -> wide { return expression; });                                                             \
    }

UNARY(negate, -x)
UNARY(abs, fabs(x))
UNARY(exp, exp(x))
UNARY(log, log(x))
UNARY(sqrt, sqrt(x))
UNARY(rsqrt, 1 / sqrt(x))
UNARY(sin, sin(x))
UNARY(cos, cos(x))
UNARY(tanh, tanh(x))
UNARY(sigmoid, 1 / (1 + exp(-x)))
UNARY(relu, x < 0 ? 0 : x)
UNARY(erf, erf(x))

KERNEL(affine_kernel, 256) {
    const wide factor = (wide)l.call.reals[0], term = (wide)l.call.reals[1];
    map(l, [&](wide x) { return factor * x + term; });
}

KERNEL(clamp_kernel, 256) {
    const wide low = (wide)l.call.reals[0], high = (wide)l.call.reals[1];
    map(l, [&](wide x) { return x < low ? low : x > high ? high : x; });
}

#endif

/* ---- GELU and SiLU: F64 expands them ---- */

#if IS_FLOATING && SCALAR != 1

/* y = function(x, d) for two operands of the same shape. */
template <class F> DEVICE void map_pairs(const eitp__launch &l, F function) {
    const global<const scalar> a = input<scalar>(l, 0), b = input<scalar>(l, 1);
    const global<scalar> out = output<scalar>(l, 0);
    for_vectors<AT_ONCE>(elements_of(l, l.call.outputs[0]), are_aligned<2>(l), [&](auto w, int64_t i) {
        constexpr int n = decltype(w)::count;
        vec<scalar, n> x = load<n>(a, i);
        const vec<scalar, n> y = load<n>(b, i);
        for (int k = 0; k < n; k++)
            x.v[k] = to_scalar(function(to_wide(x.v[k]), to_wide(y.v[k])));
        store<n>(out, i, x);
    });
}

#define ACTIVATION(name, epilogue)                                                                                     \
    UNARY(name, x *activation_factor((int)EITP__EPILOGUE_##epilogue, x))                                               \
    KERNEL(name##_backward_kernel, 256) {                                                                              \
        map_pairs(                                                                                                     \
            l, [](float x, float d) { return d * activation_factor((int)EITP__EPILOGUE_##epilogue##_BACKWARD, x); });  \
    }

ACTIVATION(gelu_tanh, GELU_TANH)
ACTIVATION(gelu_erf, GELU_ERF)
ACTIVATION(silu, SILU)

#endif

/* ---- Two or three operands that broadcast ---- */

/*
 * Calls body(width, i, at, repeats) for the vectors of output 0. The elements of input k start at at[k]; if it repeats,
 * there is only one. Inputs with the result's size, or with one element, need no grid.
 */
template <int inputs, class Body> DEVICE void for_broadcast(const eitp__launch &l, shared<int64_t> grid, Body body) {
    const eitp__operand &y = l.call.outputs[0];
    int is_linear = 1, repeats[inputs], has_vectors = is_aligned(y);
    for (int k = 0; k < inputs; k++) {
        const eitp__operand &x = l.call.inputs[k];
        repeats[k] = x.elements == 1;
        is_linear = is_linear && (repeats[k] || x.elements == y.elements);
        has_vectors = has_vectors && (repeats[k] || is_aligned(x));
    }
    if (!is_linear) {
        if (thread_index() == 0) {
            broadcast_grid<inputs>(l, grid);
            grid_finish<inputs>(grid, AT_ONCE, has_vectors);
        }
        barrier();
        has_vectors = (int)grid[GRID_HAS_VECTORS];
        for (int k = 0; k < inputs; k++)
            repeats[k] = grid[GRID_STRIDE + k * EITP_MAX_RANK] == 0;
    }
    for_vectors<AT_ONCE>(elements_of(l, y), has_vectors, [&](auto w, int64_t i) {
        int64_t at[inputs];
        if (is_linear)
            for (int k = 0; k < inputs; k++)
                at[k] = repeats[k] ? 0 : i;
        else
            grid_find<inputs>(grid, i, at);
        body(w, i, at, repeats);
    });
}

#if IS_FLOATING || SCALAR == 5

#if IS_FLOATING
DEVICE void put_result(wide value, scalar &y) {
    y = to_scalar(value);
}
#endif
DEVICE void put_result(bool value, uint8_t &y) {
    y = value;
}

template <class R, class F> DEVICE void combine(const eitp__launch &l, F function) {
    SHARED(int64_t, grid, GRID);
    const global<const scalar> pa = input<scalar>(l, 0), pb = input<scalar>(l, 1);
    const global<R> out = output<R>(l, 0);
    for_broadcast<2>(l, grid, [&](auto w, int64_t i, const int64_t *at, const int *repeats) {
        constexpr int n = decltype(w)::count;
        const vec<scalar, n> a = fetch<n>(pa, at[0], repeats[0]), b = fetch<n>(pb, at[1], repeats[1]);
        vec<R, n> y;
        for (int k = 0; k < n; k++)
            put_result(function(to_wide(a.v[k]), to_wide(b.v[k])), y.v[k]);
        store<n>(out, i, y);
    });
}

#define BINARY(name, type, expression)                                                                                 \
    KERNEL(name##_kernel, 256) {                                                                                       \
        combine<type>(l, [](wide a, wide b) { return expression; });                                                   \
    }

BINARY(less, uint8_t, a < b)
BINARY(equal, uint8_t, a == b)

#endif

#if IS_FLOATING
BINARY(add, scalar, a + b)
BINARY(subtract, scalar, a - b)
BINARY(multiply, scalar, a *b)
BINARY(divide, scalar, a / b)
BINARY(minimum, scalar, a < b || a != a ? a : b)
BINARY(maximum, scalar, a > b || a != a ? a : b)
#endif

KERNEL(where_kernel, 256) {
    SHARED(int64_t, grid, GRID);
    const global<const uint8_t> condition = input<uint8_t>(l, 0);
    const global<const scalar> pa = input<scalar>(l, 1), pb = input<scalar>(l, 2);
    const global<scalar> out = output<scalar>(l, 0);
    for_broadcast<3>(l, grid, [&](auto w, int64_t i, const int64_t *at, const int *repeats) {
        constexpr int n = decltype(w)::count;
        const vec<uint8_t, n> c = fetch<n>(condition, at[0], repeats[0]);
        const vec<scalar, n> a = fetch<n>(pa, at[1], repeats[1]), b = fetch<n>(pb, at[2], repeats[2]);
        vec<scalar, n> y;
        for (int k = 0; k < n; k++)
            y.v[k] = c.v[k] ? a.v[k] : b.v[k];
        store<n>(out, i, y);
    });
}

/* ---- Dropout, accumulation ---- */

#if IS_FLOATING

/* Selects a word without a run-time index. */
DEVICE uint32_t word_of(const uint32_t *words, int which) {
    return which == 0 ? words[0] : which == 1 ? words[1] : which == 2 ? words[2] : words[3];
}

/*
 * Element e of x uses number first_row * width + e of its rng stream, as in eitp__kernel_uniform. Four consecutive
 * elements share a Philox block.
 */
KERNEL(dropout_kernel, 256) {
    const eitp__operand &x = l.call.inputs[0];
    const global<const scalar> in = input<scalar>(l, 0);
    const global<scalar> out = output<scalar>(l, 0);
    const float probability = (float)l.call.reals[0];
    const wide scale = 1 / (1 - (wide)l.call.reals[0]);
    const int drops = has_input(l, 1) && probability > 0;
    uint64_t seed = 0, step = 0, base = 0;
    if (drops) {
        const global<const int64_t> key = input<int64_t>(l, 1);
        seed = (uint64_t)(int64_t)key[0];
        step = (uint64_t)(int64_t)key[1];
        base = (uint64_t)(int64_t)key[2] * (uint64_t)(x.rank && x.shape[0] ? x.elements / x.shape[0] : 1);
    }
    const int is_whole = base % 4 == 0; /* vectors start at a Philox block or at its second half */
    for_vectors<AT_ONCE>(elements_of(l, l.call.outputs[0]), are_aligned<1>(l) && is_whole, [&](auto w, int64_t i) {
        constexpr int n = decltype(w)::count;
        vec<scalar, n> v = load<n>(in, i);
        uint32_t words[4] = {0, 0, 0, 0};
        for (int k = 0; k < n && drops; k++) {
            const uint64_t index = base + (uint64_t)(i + k);
            if (k % 4 == 0)
                eitp__philox(seed, step, (uint32_t)l.call.integers[0], index >> 2, words);
            const uint32_t word = n < 4 ? word_of(words, (int)(index & 3)) : words[k % 4];
            const int is_kept = !((float)(word >> 8) * (1.0f / 16777216.0f) < probability);
            v.v[k] = to_scalar(is_kept ? to_wide(v.v[k]) * scale : 0);
        }
        store<n>(out, i, v);
    });
}

KERNEL(accumulate_kernel, 256) {
    const global<const scalar> target = input<scalar>(l, 0), in = input<scalar>(l, 1);
    const global<scalar> out = output<scalar>(l, 0);
    const wide carry = has_input(l, 2) ? (wide)(float)input<float>(l, 2)[0] : 1;
    for_vectors<AT_ONCE>(elements_of(l, l.call.outputs[0]), are_aligned<2>(l), [&](auto w, int64_t i) {
        constexpr int n = decltype(w)::count;
        vec<scalar, n> x = load<n>(in, i);
        if (carry != 0) {
            const vec<scalar, n> old = load<n>(target, i);
            for (int k = 0; k < n; k++)
                x.v[k] = to_scalar(carry * to_wide(old.v[k]) + to_wide(x.v[k]));
        }
        store<n>(out, i, x);
    });
}

#endif
