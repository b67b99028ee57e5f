/* COMMIT, and UPDATE by AdamW and SGD, compared with double, for every parameter format and every kernel set. */
#include "tests/support/kernel_sets.h"

#include "kernels/update.h"

/* More than one block of sums; the last one ends inside a group and a vector. */
enum { MOST = EITP__SUM_BLOCK + 133, MOST_GROUPS = (MOST + EITP__MOMENT_GROUP - 1) / EITP__MOMENT_GROUP };

typedef union plane {
    double f64[MOST];
    float f32[MOST];
    uint16_t bits[MOST];
    int16_t i16[MOST];
    int8_t i8[MOST];
    uint8_t u8[MOST];
} plane;

/* Values that an update changes. With SGD, m is the velocity. */
typedef struct state {
    plane parameter, m, v, remainder;
    uint16_t m_scale[MOST_GROUPS], v_scale[MOST_GROUPS];
} state;

static state now, before, once;
static plane gradient;
static double exact[3][MOST];

/* Storage format of a parameter, its gradient and its moments. EITP_DTYPE_COUNT: no remainder (BF16 then has a key). */
typedef struct form {
    eitp_dtype dtype, remainder;
    int is_packed, has_narrow_gradient;
} form;

#define NO_REMAINDER ((eitp_dtype)EITP_DTYPE_COUNT)

static const form forms[] = {
    {EITP_F32, NO_REMAINDER, 0, 0},  {EITP_F64, NO_REMAINDER, 0, 0}, {EITP_BF16, EITP_I16, 0, 0},
    {EITP_F16, EITP_F32, 0, 0},      {EITP_BF16, EITP_I8, 0, 0},     {EITP_BF16, NO_REMAINDER, 0, 0},
    {EITP_F32, NO_REMAINDER, 1, 0},  {EITP_BF16, EITP_I16, 1, 0},    {EITP_BF16, EITP_I8, 1, 0},
    {EITP_BF16, NO_REMAINDER, 1, 0}, {EITP_BF16, EITP_I16, 0, 1},    {EITP_BF16, EITP_I8, 1, 1},
    {EITP_BF16, NO_REMAINDER, 1, 1},
};

static int is_stochastic(const form *f) {
    return f->dtype == EITP_BF16 && f->remainder == NO_REMAINDER;
}

static double get(const plane *p, eitp_dtype dtype, int64_t i) {
    return dtype == EITP_F64    ? p->f64[i]
           : dtype == EITP_BF16 ? (double)eitp__bf16_to_f32(p->bits[i])
                                : (double)p->f32[i];
}

static void put(plane *p, eitp_dtype dtype, int64_t i, double value) {
    if (dtype == EITP_F64)
        p->f64[i] = value;
    else if (dtype == EITP_BF16)
        p->bits[i] = eitp__f32_to_bf16((float)value);
    else
        p->f32[i] = (float)value;
}

static eitp_dtype gradient_dtype(const form *f) {
    return f->has_narrow_gradient ? EITP_BF16 : eitp__wide(f->dtype);
}

/* Returns the value that is updated, for any parameter format. */
static double get_parameter(const form *f, int64_t i) {
    if (f->remainder == EITP_I16)
        return (double)eitp__join_bf16(now.parameter.bits[i], now.remainder.i16[i]);
    if (f->remainder == EITP_I8)
        return (double)eitp__join_correction(now.parameter.bits[i], now.remainder.i8[i]);
    if (f->dtype == EITP_F16)
        return (double)(eitp__f16_to_f32(now.parameter.bits[i]) + now.remainder.f32[i]);
    return get(&now.parameter, f->dtype, i);
}

static void put_parameter(const form *f, int64_t i, double value) {
    if (f->remainder == EITP_I16) {
        eitp__split_bf16((float)value, &now.parameter.bits[i], &now.remainder.i16[i]);
    } else if (f->remainder == EITP_I8) {
        eitp__split_correction((float)value, &now.parameter.bits[i], &now.remainder.i8[i]);
    } else if (f->dtype == EITP_F16) {
        now.parameter.bits[i] = eitp__f32_to_f16((float)value);
        now.remainder.f32[i] = (float)value - eitp__f16_to_f32(now.parameter.bits[i]);
    } else {
        put(&now.parameter, f->dtype, i, value);
    }
}

static double scale_of(const uint16_t *scales, int64_t i) {
    return (double)eitp__bf16_to_f32(scales[i / EITP__MOMENT_GROUP]);
}

/* Return decoded m, and the square root of v, which is stored in 8 bits. */
static double get_m(const form *f, int64_t i) {
    double z = now.m.i8[i] / 127.0;
    return f->is_packed ? scale_of(now.m_scale, i) * z / (2 - fabs(z)) : get(&now.m, eitp__wide(f->dtype), i);
}

static double get_root(int64_t i) {
    return scale_of(now.v_scale, i) * (now.v.u8[i] ? now.v.u8[i] : 0.5) / 255;
}

static double get_v(const form *f, int64_t i) {
    return f->is_packed ? get_root(i) * get_root(i) : get(&now.v, eitp__wide(f->dtype), i);
}

typedef struct update_case {
    const form *f;
    int64_t count;
    double step, scale, apply;
} update_case;

/* Operands of the calls. */
static eitp__update_rule rule = EITP__UPDATE_RULE_ADAMW;
static double beta1, beta2, epsilon, decay;
static int64_t key[3];
static float hyper[2], commit[2];
static double sums[4];

static void begin_calls(const update_case *c) {
    beta1 = 0.9;
    beta2 = 0.99;
    epsilon = 1e-4;
    decay = 0.1;
    key[0] = 77;
    key[1] = (int64_t)c->step;
    key[2] = -1;
    hyper[0] = 0.01f;
    hyper[1] = (float)c->step;
    commit[0] = (float)c->scale;
    commit[1] = (float)c->apply;
}

/* Fills a state and a gradient. Some groups of moments are all zeros. */
static void fill_case(const update_case *c) {
    eitp_dtype wide = eitp__wide(c->f->dtype);
    begin_calls(c);
    memset(&now, 0, sizeof now);
    for (int64_t i = 0; i < c->count; i++) {
        int64_t group = i / EITP__MOMENT_GROUP;
        put_parameter(c->f, i, draw());
        put(&gradient, gradient_dtype(c->f), i, draw());
        if (!c->f->is_packed) {
            put(&now.m, wide, i, draw());
            put(&now.v, wide, i, fabs(draw()));
        } else if (group % 3 != 1) {
            now.m_scale[group] = eitp__f32_to_bf16(0.75f);
            now.v_scale[group] = eitp__f32_to_bf16(1.0f);
            now.m.i8[i] = (int8_t)(127 * draw());
            now.v.u8[i] = (uint8_t)(128 + 127 * draw());
        }
    }
    if (c->apply == 0)
        put(&gradient, gradient_dtype(c->f), 3, NAN);
    before = now;
}

/* Computes the updated state in double. */
static void find_exact(const update_case *c) {
    double rate = (double)hyper[0];
    for (int64_t i = 0; i < c->count; i++) {
        double p = get_parameter(c->f, i), g = (double)commit[0] * get(&gradient, gradient_dtype(c->f), i);
        if (rule == EITP__UPDATE_RULE_SGD) {
            exact[1][i] = beta1 * get_m(c->f, i) + g;
            exact[2][i] = get_v(c->f, i);
            exact[0][i] = p * (1 - rate * decay) - rate * exact[1][i];
        } else {
            exact[1][i] = beta1 * get_m(c->f, i) + (1 - beta1) * g;
            exact[2][i] = beta2 * get_v(c->f, i) + (1 - beta2) * g * g;
            exact[0][i] = p * (1 - rate * decay) - rate * (exact[1][i] / (1 - pow(beta1, c->step))) /
                                                       (sqrt(exact[2][i] / (1 - pow(beta2, c->step))) + epsilon);
        }
        for (int k = 0; k < 3 && c->apply == 0; k++)
            exact[k][i] = k == 0 ? p : k == 1 ? get_m(c->f, i) : get_v(c->f, i);
    }
}

/* Updates elements [first, first + count). */
static eitp__call update_call(const form *f, int64_t first, int64_t count) {
    eitp_dtype wide = eitp__wide(f->dtype);
    size_t at = (size_t)first, size = eitp_dtype_size(f->dtype), moment = f->is_packed ? 1 : eitp_dtype_size(wide);
    int64_t group = first / EITP__MOMENT_GROUP, groups = (count + EITP__MOMENT_GROUP - 1) / EITP__MOMENT_GROUP;
    eitp__call call = EITP__ZERO;
    int is_sgd = rule == EITP__UPDATE_RULE_SGD;
    call.slot = EITP__SLOT_UPDATE;
    call.dtype = f->dtype;
    call.inputs[EITP__UPDATE_PARAMETER] = operand((char *)&now.parameter + at * size, f->dtype, 1, count, 1, 1);
    call.inputs[EITP__UPDATE_GRADIENT] =
        operand((char *)&gradient + at * eitp_dtype_size(gradient_dtype(f)), gradient_dtype(f), 1, count, 1, 1);
    call.inputs[EITP__UPDATE_STATE] =
        operand((char *)&now.m + at * moment, f->is_packed ? EITP_I8 : wide, 1, count, 1, 1);
    if (!is_sgd)
        call.inputs[EITP__UPDATE_STATE + 1] =
            operand((char *)&now.v + at * moment, f->is_packed ? EITP_U8 : wide, 1, count, 1, 1);
    call.inputs[EITP__UPDATE_RATE] = operand(hyper, EITP_F32, 1, 2, 1, 1);
    call.inputs[EITP__UPDATE_COMMIT] = operand(commit, EITP_F32, 1, 2, 1, 1);
    call.outputs[call.output_count++] = call.inputs[EITP__UPDATE_PARAMETER];
    call.outputs[call.output_count++] =
        operand(sums, EITP_F64, 2, (count + EITP__SUM_BLOCK - 1) / EITP__SUM_BLOCK, 2, 1);
    call.input_count = EITP__UPDATE_INPUTS;
    if (f->remainder != NO_REMAINDER) {
        call.inputs[EITP__UPDATE_REMAINDER] =
            operand((char *)&now.remainder + at * eitp_dtype_size(f->remainder), f->remainder, 1, count, 1, 1);
        call.outputs[call.output_count++] = call.inputs[EITP__UPDATE_REMAINDER];
    }
    if (f->is_packed) {
        call.inputs[EITP__UPDATE_STATE + 2] = operand(now.m_scale + group, EITP_BF16, 1, groups, 1, 1);
        call.inputs[EITP__UPDATE_STATE + 3] = operand(now.v_scale + group, EITP_BF16, 1, groups, 1, 1);
    }
    for (int i = EITP__UPDATE_STATE; i < EITP__UPDATE_INPUTS; i++) {
        if (call.inputs[i].data)
            call.outputs[call.output_count++] = call.inputs[i];
    }
    if (is_stochastic(f))
        call.inputs[EITP__UPDATE_KEY] = operand(key, EITP_I64, 1, 3, 1, 1);
    call.integers[0] = 1500;
    call.integers[1] = 1000 + first;
    call.integers[2] = rule;
    call.reals[0] = beta1;
    call.reals[1] = beta2;
    call.reals[2] = epsilon;
    call.reals[3] = decay;
    return call;
}

/* Runs the last block first. */
static void run(const eitp__kernel *kernel, const form *f, int64_t first, int64_t count) {
    eitp__call call = update_call(f, first, count);
    CHECK(kernel->workspace(&call) == 0);
    for (int64_t block = (count + EITP__SUM_BLOCK - 1) / EITP__SUM_BLOCK; block-- > 0;)
        kernel->run(&call, block, block + 1, NULL);
}

/* Maximum difference between a value and its stored form. */
static double parameter_step(const form *f, double value) {
    double half_unit = ldexp(1, ilogb(value) - 8);
    return f->remainder == EITP_I8 ? 1.01 * half_unit / 254 : is_stochastic(f) ? 2 * half_unit : 0;
}

/* Scales are the maxima of their groups, rounded up. Moments are within one code of the exact values. */
static void check_packed(const update_case *c, const char *set) {
    double tops[2] = {0, 0};
    int64_t others = 0;
    for (int64_t i = 0; i < c->count; i++) {
        double m_scale = scale_of(now.m_scale, i), v_scale = scale_of(now.v_scale, i), root = sqrt(exact[2][i]);
        float dither;
        double z = fabs(now.m.i8[i] / 127.0) + 1.0 / 127, wrong_m = fabs(get_m(c->f, i) - exact[1][i]);
        CHECK_THAT(wrong_m <= 1e-6 + 1.01 * m_scale / 127 * 2 / ((2 - z) * (2 - z)), "%s: m %d is %g, not %g", set,
                   (int)i, get_m(c->f, i), exact[1][i]);
        CHECK_THAT(fabs(get_root(i) - root) <= 1e-6 + 1.01 * v_scale / 255, "%s: root of v %d is %g, not %g", set,
                   (int)i, get_root(i), root);
        dither = eitp__dither(eitp__dither_place((float)c->step, 1000 + i));
        others += now.m.i8[i] != eitp__pack_m((float)exact[1][i], (float)m_scale, dither) ||
                  now.v.u8[i] != eitp__pack_v((float)exact[2][i], (float)v_scale, dither);
        tops[0] = fabs(exact[1][i]) > tops[0] ? fabs(exact[1][i]) : tops[0];
        tops[1] = root > tops[1] ? root : tops[1];
        if (i + 1 < c->count && (i + 1) % EITP__MOMENT_GROUP)
            continue;
        CHECK_THAT(m_scale >= tops[0] * (1 - 1e-6) && m_scale <= tops[0] * 1.008, "%s: %g is the scale of m %d, not %g",
                   set, m_scale, (int)i, tops[0]);
        CHECK_THAT(v_scale >= tops[1] * (1 - 1e-6) && v_scale <= tops[1] * 1.008, "%s: %g is the scale of v %d, not %g",
                   set, v_scale, (int)i, tops[1]);
        tops[0] = tops[1] = 0;
    }
    CHECK_THAT(others <= c->count / 100, "%s: %d codes are rounded differently", set, (int)others);
}

/* Checks the sums of squares of the update and of the parameter against the exact update. */
static void check_sums(const update_case *c, const double *old, const char *set) {
    for (int64_t block = 0; block * EITP__SUM_BLOCK < c->count; block++) {
        double update = 0, whole = 0;
        for (int64_t i = block * EITP__SUM_BLOCK; i < c->count && i < (block + 1) * EITP__SUM_BLOCK; i++) {
            update += (exact[0][i] - old[i]) * (exact[0][i] - old[i]);
            whole += exact[0][i] * exact[0][i];
        }
        CHECK_THAT(fabs(sums[2 * block] - update) <= 1e-3 * update, "%s: update %g, not %g", set, sums[2 * block],
                   update);
        CHECK_THAT(fabs(sums[2 * block + 1] - whole) <= 1e-6 * whole, "%s: parameter %g, not %g", set,
                   sums[2 * block + 1], whole);
    }
}

static void check_set(const update_case *c, const eitp__kernel *kernel, const char *set) {
    static double old[MOST];
    double tolerance = c->f->dtype == EITP_F64 ? 1e-6 : 2e-6;
    fill_case(c);
    find_exact(c);
    for (int64_t i = 0; i < c->count; i++)
        old[i] = get_parameter(c->f, i);
    run(kernel, c->f, 0, c->count);
    for (int64_t i = 0; i < c->count && c->apply != 0; i++) {
        double p = get_parameter(c->f, i);
        CHECK_THAT(fabs(p - exact[0][i]) <= tolerance + parameter_step(c->f, exact[0][i]),
                   "%s %s: parameter %d is %.9g, not %.9g", set, eitp_dtype_name(c->f->dtype), (int)i, p, exact[0][i]);
        if (c->f->is_packed)
            continue;
        CHECK_THAT(fabs(get_m(c->f, i) - exact[1][i]) <= tolerance, "%s: m %d", set, (int)i);
        CHECK_THAT(fabs(get_v(c->f, i) - exact[2][i]) <= tolerance, "%s: v %d", set, (int)i);
    }
    if (c->f->is_packed && c->apply != 0)
        check_packed(c, set);
    if (c->apply == 0)
        CHECK_THAT(!memcmp(&now, &before, sizeof now), "%s: an update that was not applied changed a value", set);
    check_sums(c, old, set);
}

/* One call and two calls give the same bits. */
static void check_pieces(const update_case *c, const eitp__kernel *kernel, const char *set) {
    int64_t cut = c->f->is_packed ? 37 * EITP__MOMENT_GROUP : 77;
    fill_case(c);
    run(kernel, c->f, 0, c->count);
    once = now;
    now = before;
    run(kernel, c->f, cut, c->count - cut);
    run(kernel, c->f, 0, cut);
    CHECK_THAT(!memcmp(&now, &once, sizeof now), "%s: %s in pieces gives another result", set,
               eitp_dtype_name(c->f->dtype));
}

static const eitp__kernel *kernel_of(int isa, const form *f) {
    return available[isa] ? &tables[isa].kernels[EITP__SLOT_UPDATE][f->dtype] : NULL;
}

/* On a device, each operand of small cases in turn starts at an unaligned base. */
static void check_case(const form *f, int64_t count, double step, double scale, double apply) {
    eitp__call call;
    update_case c;
    c.f = f;
    c.count = count;
    c.step = step;
    c.scale = scale;
    c.apply = apply;
    for (int isa = 0; isa < EITP__ISA_COUNT; isa++) {
        const eitp__kernel *kernel = kernel_of(isa, f);
        if (!kernel)
            continue;
        REQUIRE(kernel->run);
        call = update_call(f, 0, count);
        while (count < MOST && cuda_displace_next(&call))
            check_set(&c, kernel, eitp__isa_name((eitp__isa)isa));
        check_set(&c, kernel, eitp__isa_name((eitp__isa)isa));
        if (count == MOST)
            check_pieces(&c, kernel, eitp__isa_name((eitp__isa)isa));
    }
}

static void test_adamw(void) {
    for (size_t f = 0; f < EITP__COUNT(forms); f++) {
        check_case(&forms[f], 133, 1, 1, 1);
        check_case(&forms[f], 7, 17, 0.25, 1);
        check_case(&forms[f], 64, 3, 1, 1);
        check_case(&forms[f], MOST, 1000000, 1, 1);
        check_case(&forms[f], 133, 5, 0, 0);
    }
}

static void test_sgd(void) {
    rule = EITP__UPDATE_RULE_SGD;
    for (size_t f = 0; f < EITP__COUNT(forms); f++) {
        if (forms[f].is_packed)
            continue;
        check_case(&forms[f], 133, 1, 1, 1);
        check_case(&forms[f], 7, 17, 0.25, 1);
        check_case(&forms[f], 64, 3, 1, 1);
        check_case(&forms[f], MOST, 1000000, 1, 1);
        check_case(&forms[f], 133, 5, 0, 0);
    }
    rule = EITP__UPDATE_RULE_ADAMW;
}

/*
 * Compares consecutive steps from a velocity of zeros with the same steps in double, with and without momentum. Some
 * steps are clipped, and one is not applied. A rounded parameter continues from its rounded value.
 */
static void check_steps(const form *f, const eitp__kernel *kernel, double momentum, const char *set) {
    static const double scales[] = {1, 0.125, 1, 0, 0.5, 1};
    static double p[133], velocity[133];
    double tolerance = f->dtype == EITP_F64 ? 1e-7 : 4e-6;
    update_case c = EITP__ZERO;
    c.f = f;
    c.count = 133;
    c.step = c.scale = c.apply = 1;
    fill_case(&c);
    memset(&now.m, 0, sizeof now.m);
    memset(velocity, 0, sizeof velocity);
    beta1 = momentum;
    for (int64_t i = 0; i < c.count; i++)
        p[i] = get_parameter(f, i);
    for (size_t step = 0; step < EITP__COUNT(scales); step++) {
        key[1] = (int64_t)step + 1;
        hyper[1] = (float)(step + 1);
        commit[0] = (float)scales[step];
        commit[1] = scales[step] > 0;
        for (int64_t i = 0; i < c.count; i++) {
            double g;
            put(&gradient, gradient_dtype(f), i, scales[step] > 0 ? draw() : NAN);
            g = get(&gradient, gradient_dtype(f), i);
            if (scales[step] > 0) {
                velocity[i] = momentum * velocity[i] + scales[step] * g;
                p[i] -= (double)hyper[0] * decay * p[i];
                p[i] -= (double)hyper[0] * velocity[i];
            }
        }
        run(kernel, f, 0, c.count);
        for (int64_t i = 0; i < c.count; i++) {
            double made = get_parameter(f, i);
            CHECK_THAT(fabs(made - p[i]) <= tolerance + parameter_step(f, p[i]),
                       "%s %s, step %d: parameter %d is %.9g, not %.9g", set, eitp_dtype_name(f->dtype), (int)step + 1,
                       (int)i, made, p[i]);
            CHECK_THAT(fabs(get_m(f, i) - velocity[i]) <= tolerance, "%s %s, step %d: velocity %d is %.9g, not %.9g",
                       set, eitp_dtype_name(f->dtype), (int)step + 1, (int)i, get_m(f, i), velocity[i]);
            p[i] = f->remainder == EITP_I8 || is_stochastic(f) ? made : p[i];
        }
    }
}

static void test_sgd_consecutive_steps(void) {
    rule = EITP__UPDATE_RULE_SGD;
    for (size_t i = 0; i < EITP__COUNT(forms); i++) {
        for (int isa = 0; isa < EITP__ISA_COUNT && !forms[i].is_packed; isa++) {
            const eitp__kernel *kernel = kernel_of(isa, &forms[i]);
            for (int m = 0; kernel && m < 2; m++)
                check_steps(&forms[i], kernel, m ? 0.9 : 0, eitp__isa_name((eitp__isa)isa));
        }
    }
    rule = EITP__UPDATE_RULE_ADAMW;
}

static const form stochastic = {EITP_BF16, NO_REMAINDER, 0, 0};

/* Weight decay only: each parameter becomes 1 - 0.001 or -1 + 0.001, which lies between two bf16 values. */
static double mean_of_decayed(const eitp__kernel *kernel, int sign, int64_t step, int64_t seed) {
    const double above = 1, below = 1 - 1.0 / 256;
    update_case c;
    double sum = 0;
    memset(&now, 0, sizeof now);
    memset(&gradient, 0, sizeof gradient);
    c.f = &stochastic;
    c.count = MOST;
    c.step = (double)step;
    c.scale = c.apply = 1;
    begin_calls(&c);
    key[0] = seed;
    for (int64_t i = 0; i < MOST; i++)
        put_parameter(&stochastic, i, sign);
    run(kernel, &stochastic, 0, MOST);
    for (int64_t i = 0; i < MOST; i++) {
        uint16_t half = eitp__random_half(key, 1500, (uint64_t)(1000 + i));
        CHECK(sign * get_parameter(&stochastic, i) == above || sign * get_parameter(&stochastic, i) == below);
        CHECK(now.parameter.bits[i] == eitp__round_bf16((float)sign * (1.0f - 0.01f * 0.1f), half));
        sum += get_parameter(&stochastic, i);
    }
    return sum / MOST;
}

/* The mean is the exact value. Every kernel set rounds in the same way. Another step or seed rounds differently. */
static void check_stochastic_rounding(void) {
    const double drawn = 20.0 * MOST, deviation = 1.0 / 256 * sqrt(0.256 * 0.744 / drawn);
    for (int isa = 0; isa < EITP__ISA_COUNT; isa++) {
        const eitp__kernel *kernel = kernel_of(isa, &stochastic);
        double sum = 0;
        for (int step = 1; step <= 10 && kernel; step++)
            sum += mean_of_decayed(kernel, 1, step, 5) - mean_of_decayed(kernel, -1, step, step);
        if (!kernel)
            continue;
        CHECK_THAT(fabs(sum / 20 - 0.999) <= 5 * deviation, "%s: the mean is %.9g", eitp__isa_name((eitp__isa)isa),
                   sum / 20);
        mean_of_decayed(kernel, 1, 1, 5);
        once = now;
        mean_of_decayed(kernel, 1, 2, 5);
        CHECK(memcmp(&now, &once, sizeof now));
        mean_of_decayed(kernel, 1, 1, 6);
        CHECK(memcmp(&now, &once, sizeof now));
    }
}

static void test_stochastic_rounding(void) {
    check_stochastic_rounding();
    rule = EITP__UPDATE_RULE_SGD;
    check_stochastic_rounding();
    rule = EITP__UPDATE_RULE_ADAMW;
}

/* The largest finite values stay finite. Infinities and NaN are unchanged. */
static void test_stochastic_rounding_of_extremes(void) {
    static const float values[] = {3.4e38f, -3.4e38f, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-45f};
    for (size_t i = 0; i < EITP__COUNT(values); i++)
        for (int half = 0; half < 65536; half += 5) {
            float rounded = eitp__bf16_to_f32(eitp__round_bf16(values[i], (uint16_t)half));
            CHECK(!isinf(rounded) == !isinf(values[i]) && !signbit(rounded) == !signbit(values[i]));
            CHECK(fabsf(values[i]) >= 1e-44f || fabsf(rounded) <= 1e-40f);
        }
    for (uint32_t bits = 0x7f800001; bits < 0x80000000; bits += 0x7fff)
        CHECK(isnan(eitp__bf16_to_f32(eitp__round_bf16(eitp__float_of_bits(bits), 0xffff))));
    for (int isa = 0; isa < EITP__ISA_COUNT; isa++) {
        const eitp__kernel *kernel = kernel_of(isa, &stochastic);
        update_case c = EITP__ZERO;
        c.f = &stochastic;
        c.count = 133;
        c.step = 1000000;
        c.scale = c.apply = 1;
        fill_case(&c);
        decay = 0;
        hyper[0] = 5e35f;
        for (int64_t i = 0; i < c.count; i++) {
            now.parameter.bits[i] = (uint16_t)(i % 3 == 0 ? 0x7f7f : i % 3 == 1 ? 0xff7f : 0x7fc0);
            now.m.f32[i] = i % 3 == 0 ? -1.0f : 1.0f;
            now.v.f32[i] = 1;
            gradient.f32[i] = 0;
        }
        if (kernel)
            run(kernel, &stochastic, 0, c.count);
        for (int64_t i = 0; i < c.count && kernel; i++)
            CHECK(i % 3 == 2 ? isnan(get_parameter(&stochastic, i))
                             : now.parameter.bits[i] == (i % 3 ? 0xff7f : 0x7f7f));
    }
}

/*
 * Rare gradients in a group with one that is always large. Their v is stored as 0, their m is not. The bound on m /
 * sqrt(v) of AdamW follows from the Cauchy-Schwarz inequality.
 */
static void test_moments_bound_the_update(void) {
    const form *f = &forms[6];
    for (int isa = 0; isa < EITP__ISA_COUNT; isa++) {
        const eitp__kernel *kernel = kernel_of(isa, f);
        double bound, largest = 0;
        update_case c = EITP__ZERO;
        c.f = f;
        c.count = 64;
        c.step = c.scale = c.apply = 1;
        begin_calls(&c);
        memset(&now, 0, sizeof now);
        beta2 = 0.999;
        epsilon = 1e-8;
        decay = 0;
        bound = (1 - beta1) / sqrt((1 - beta2) * (1 - beta1 * beta1 / beta2));
        for (int step = 1; step <= 400 && kernel; step++) {
            hyper[1] = (float)step;
            for (int64_t i = 0; i < c.count; i++) {
                double size = i % 32 == 0 ? 1 : step > 200 && draw() > 0.9 ? (i % 32 < 16 ? 0.02 : 1e-5) : 0;
                gradient.f32[i] = (float)(draw() < 0 ? -size : size);
                now.parameter.f32[i] = 0;
            }
            run(kernel, f, 0, c.count);
            for (int64_t i = 0; i < c.count; i++)
                largest = fmax(largest, fabs(get_parameter(f, i)) / (double)hyper[0]);
        }
        CHECK_THAT(largest <= 4 * bound, "%s: an update of %g learning rates", eitp__isa_name((eitp__isa)isa), largest);
        CHECK(!kernel || largest > 1);
    }
}

/* Without a gradient moments shrink, although each change is less than half a code, and v has the right mean. */
static void test_moments_shrink(void) {
    enum { COUNT = 512, STEPS = 1500 };
    const form *f = &forms[6];
    for (int isa = 0; isa < EITP__ISA_COUNT; isa++) {
        const eitp__kernel *kernel = kernel_of(isa, f);
        update_case c = EITP__ZERO;
        double v_exact = 0, v_mean = 0;
        c.f = f;
        c.count = COUNT;
        c.step = c.scale = c.apply = 1;
        begin_calls(&c);
        memset(&now, 0, sizeof now);
        beta2 = 0.999;
        for (int step = 1; step <= STEPS && kernel; step++) {
            hyper[1] = (float)step;
            for (int64_t i = 0; i < COUNT; i++) {
                double g = i % 32 == 0 ? 1 : step <= 100 ? draw() : 0;
                gradient.f32[i] = (float)g;
                exact[2][i] = (step == 1 ? 0 : beta2 * exact[2][i]) + (1 - beta2) * g * g;
            }
            run(kernel, f, 0, COUNT);
        }
        for (int64_t i = 0; i < COUNT && kernel; i++) {
            if (i % 32 == 0)
                continue;
            CHECK(now.m.i8[i] == 0);
            v_mean += get_v(f, i);
            v_exact += exact[2][i];
        }
        CHECK_THAT(fabs(v_mean - v_exact) <= 0.2 * v_exact, "%s: v is %g on average, not %g",
                   eitp__isa_name((eitp__isa)isa), v_mean / COUNT, v_exact / COUNT);
    }
}

/* Packing the value of a code gives the same code. */
static void test_moments_round_trip(void) {
    static const float scales[] = {1.0f, 0.00390625f, 3e-30f, 1.75e10f, 1e-39f};
    for (size_t s = 0; s < EITP__COUNT(scales); s++) {
        float scale = eitp__moment_scale(scales[s]);
        CHECK(scale >= scales[s] && scale <= scales[s] * 1.008f + 1e-40f);
        CHECK(eitp__bits_of_float(eitp__moment_scale(scale)) == eitp__bits_of_float(scale));
        for (int code = -127; code <= 127; code++)
            CHECK(scale < 1e-38f || eitp__pack_m(eitp__unpack_m((int8_t)code, scale), scale, 0.49f) == code);
        for (int code = 1; code <= 255; code++)
            CHECK(scale < 1e-18f || eitp__pack_v(eitp__unpack_v((uint8_t)code, scale), scale, -0.49f) == code);
        CHECK(eitp__unpack_m(127, scale) == scale && eitp__unpack_m(-127, scale) == -scale);
        CHECK(eitp__unpack_v(0, scale) > 0 || scale < 1e-18f);
    }
    CHECK(eitp__moment_scale(0) == 0 && eitp__pack_m(0, 0, 0.5f) == 0 && eitp__pack_v(0, 0, 0.5f) == 0);
    CHECK(eitp__unpack_m(0, 0) == 0 && eitp__unpack_v(0, 0) == 0);
    CHECK(isfinite(eitp__moment_scale(INFINITY)) && eitp__pack_v(INFINITY, eitp__moment_scale(INFINITY), 0) == 255);
}

/* The nearest bf16, and the correction in 127ths of half a unit in its last place. Half a correction step is 129
   units in the last place of f32. */
static void test_correction(void) {
    static const uint32_t patterns[] = {0,          0x80000000, 1,          0x3f800000, 0x3f7fffff,
                                        0x3f808000, 0x3f7f8000, 0xbf7f9000, 0x7f7f0000, 0x00008000};
    for (uint32_t i = 0; i < 200000; i++) {
        uint32_t bits = i < EITP__COUNT(patterns) ? patterns[i] : i * 2654435761u;
        float value = eitp__float_of_bits(bits), back;
        uint16_t high, again;
        int8_t correction, same;
        eitp__split_correction(value, &high, &correction);
        back = eitp__join_correction(high, correction);
        CHECK(high == eitp__f32_to_bf16(value) && !isnan(back) == !isnan(value));
        if (fabsf(value) < 3.38e38f)
            CHECK(abs((int32_t)(eitp__bits_of_float(back) - bits)) <= 130);
        eitp__split_correction(back, &again, &same);
        CHECK(isnan(value) || (again == high && same == correction));
    }
    for (int code = -127; code <= 127; code++) {
        double difference = (double)eitp__join_correction(0x3fc0, (int8_t)code) - 1.5;
        CHECK(difference == ldexp(rint(code * 32767.0 / 127), -23));
    }
}

/* The two planes reproduce every f32. The upper plane is the nearest bf16. */
static void test_planes(void) {
    static const uint32_t patterns[] = {0,          0x80000000, 1,          0x3f800000, 0x3f807fff,
                                        0x3f808000, 0x3f808001, 0x3f818000, 0xbf808000, 0x7f7fffff,
                                        0xff7fffff, 0x7f800000, 0x00008000, 0x007fffff};
    for (uint32_t i = 0; i < 200000; i++) {
        uint32_t bits = i < EITP__COUNT(patterns) ? patterns[i] : i * 2654435761u;
        float value = eitp__float_of_bits(bits);
        uint16_t high;
        int16_t low;
        eitp__split_bf16(value, &high, &low);
        CHECK(eitp__bits_of_float(eitp__join_bf16(high, low)) == bits);
        if (fabsf(value) < 1e38f)
            CHECK(fabsf(eitp__bf16_to_f32(high) - value) <= fabsf(eitp__bf16_to_f32(eitp__f32_to_bf16(value)) - value));
    }
}

static void check_bounded_commit(double sum, float limit, const float *loss_scale, float bound, double scale,
                                 double apply) {
    eitp__call call = EITP__ZERO;
    float scale_and_apply[2] = {-1, -1}, norm = -1, copy = loss_scale ? *loss_scale : 0;
    double unscaled = sqrt(sum) / (loss_scale ? (double)*loss_scale : 1);
    call.slot = EITP__SLOT_COMMIT;
    call.dtype = EITP_F64;
    call.input_count = bound >= 0 ? 4 : 3;
    call.output_count = 2;
    call.inputs[0] = operand(&sum, EITP_F64, 1, 1, 1, 1);
    call.inputs[1] = operand(&limit, EITP_F32, 1, 1, 1, 1);
    call.inputs[2] = operand(loss_scale ? &copy : NULL, EITP_F32, 1, 1, 1, 1);
    call.inputs[3] = operand(&bound, EITP_F32, 1, 1, 1, 1);
    call.outputs[0] = operand(scale_and_apply, EITP_F32, 1, 2, 1, 1);
    call.outputs[1] = operand(&norm, EITP_F32, 1, 1, 1, 1);
    for (int isa = 0; isa < EITP__ISA_COUNT; isa++) {
        tables[isa].kernels[EITP__SLOT_COMMIT][EITP_F64].run(&call, 0, 1, NULL);
        CHECK(fabs((double)scale_and_apply[0] - scale) <= 1e-7 * scale);
        CHECK((double)scale_and_apply[1] == apply);
        CHECK((double)norm == (double)(float)unscaled || (norm != norm && unscaled != unscaled));
    }
}

static void check_commit(double sum, float limit, const float *loss_scale, double scale, double apply) {
    check_bounded_commit(sum, limit, loss_scale, -1, scale, apply);
}

static void test_commit(void) {
    const float sixteen = 16;
    check_commit(4, 1, NULL, 1 / (2 + 1e-6), 1);
    check_commit(4, 2, NULL, 2 / (2 + 1e-6), 1);
    check_commit(4, 3, NULL, 1, 1);
    check_commit(4, 0, NULL, 1, 1);
    check_commit(4, -1, NULL, 1, 1);
    check_commit(4, INFINITY, NULL, 1, 1);
    check_commit(0, 1, NULL, 1, 1);
    check_commit(INFINITY, 1, NULL, 0, 0);
    check_commit(NAN, 1, NULL, 0, 0);
    check_commit(NAN, 0, NULL, 0, 0);
    check_commit(4 * 256, 1, &sixteen, 1 / (2 + 1e-6) / 16, 1);
    check_commit(4 * 256, 3, &sixteen, 1.0 / 16, 1);
    check_commit(INFINITY, 1, &sixteen, 0, 0);
    /* With a bound on the norm, which is 2. */
    check_bounded_commit(4, 3, NULL, 0, 1, 1);
    check_bounded_commit(4, 3, NULL, 2, 1, 1);
    check_bounded_commit(4, 3, NULL, 1.99f, 0, 0);
    check_bounded_commit(4 * 256, 1, &sixteen, 2.01f, 1 / (2 + 1e-6) / 16, 1);
    check_bounded_commit(4 * 256, 1, &sixteen, 1.99f, 0, 0);
    check_bounded_commit(NAN, 1, NULL, 5, 0, 0);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(test_adamw),
        TEST(test_sgd),
        TEST(test_sgd_consecutive_steps),
        TEST(test_stochastic_rounding),
        TEST(test_stochastic_rounding_of_extremes),
        TEST(test_moments_bound_the_update),
        TEST(test_moments_shrink),
        TEST(test_moments_round_trip),
        TEST(test_correction),
        TEST(test_planes),
        TEST(test_commit),
    };
    find_sets();
    return RUN_TESTS(tests, argc, argv);
}
