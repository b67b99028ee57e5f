/* The kernels of an update, COMMIT and ADAMW, for every kind of parameter and every set, against double. */
#include "tests/kernel_sets.h"

/* More than one block of sums, and no whole number of vectors in the last. */
enum { MOST = EITP__SUM_BLOCK + 133 };

typedef union plane {
    double f64[MOST];
    float f32[MOST];
    uint16_t bits[MOST];
    int16_t i16[MOST];
} plane;

static plane parameter, gradient, m, v, remainder_;
static double exact[3][MOST];

static eitp__operand operand(void *data, eitp_dtype dtype, int rank, int64_t d0, int64_t d1) {
    eitp__operand x = EITP__ZERO;
    x.data = data;
    x.dtype = dtype;
    x.rank = rank;
    x.shape[0] = d0;
    x.shape[1] = d1;
    x.elements = d0 * (rank > 1 ? d1 : 1);
    return x;
}

static double get(const plane *p, eitp_dtype dtype, int64_t i) {
    return dtype == EITP_F64 ? p->f64[i] : (double)p->f32[i];
}

static void put(plane *p, eitp_dtype dtype, int64_t i, double value) {
    if (dtype == EITP_F64)
        p->f64[i] = value;
    else
        p->f32[i] = (float)value;
}

/* The value that is updated, of any kind of parameter. */
static double get_parameter(eitp_dtype dtype, int64_t i) {
    if (dtype == EITP_BF16)
        return (double)eitp__join_bf16(parameter.bits[i], remainder_.i16[i]);
    if (dtype == EITP_F16)
        return (double)(eitp__f16_to_f32(parameter.bits[i]) + remainder_.f32[i]);
    return get(&parameter, dtype, i);
}

static void put_parameter(eitp_dtype dtype, int64_t i, double value) {
    if (dtype == EITP_BF16) {
        eitp__split_bf16((float)value, &parameter.bits[i], &remainder_.i16[i]);
    } else if (dtype == EITP_F16) {
        parameter.bits[i] = eitp__f32_to_f16((float)value);
        remainder_.f32[i] = (float)value - eitp__f16_to_f32(parameter.bits[i]);
    } else {
        put(&parameter, dtype, i, value);
    }
}

typedef struct update_case {
    eitp_dtype dtype;
    int64_t count;
    double step, scale, apply;
} update_case;

static const double beta1 = 0.9, beta2 = 0.99, epsilon = 1e-4, decay = 0.1;

static void fill_case(const update_case *c, float *hyper, float *commit) {
    eitp_dtype wide = eitp__wide(c->dtype);
    hyper[0] = 0.01f;
    hyper[1] = (float)c->step;
    commit[0] = (float)c->scale;
    commit[1] = (float)c->apply;
    for (int64_t i = 0; i < c->count; i++) {
        put_parameter(c->dtype, i, draw());
        put(&gradient, wide, i, draw());
        put(&m, wide, i, draw());
        put(&v, wide, i, fabs(draw()));
    }
    if (c->apply == 0)
        put(&gradient, wide, 3, NAN);
    for (int64_t i = 0; i < c->count; i++) {
        double p = get_parameter(c->dtype, i), g = (double)commit[0] * get(&gradient, wide, i);
        double rate = (double)hyper[0], old_m = get(&m, wide, i), old_v = get(&v, wide, i);
        exact[1][i] = c->apply != 0 ? beta1 * old_m + (1 - beta1) * g : old_m;
        exact[2][i] = c->apply != 0 ? beta2 * old_v + (1 - beta2) * g * g : old_v;
        exact[0][i] = c->apply != 0
                          ? p * (1 - rate * decay) - rate * (exact[1][i] / (1 - pow(beta1, c->step))) /
                                                         (sqrt(exact[2][i] / (1 - pow(beta2, c->step))) + epsilon)
                          : p;
    }
}

static eitp__call adamw_call(const update_case *c, float *hyper, float *commit, double *sums) {
    eitp_dtype wide = eitp__wide(c->dtype), rest = c->dtype == EITP_BF16 ? EITP_I16 : EITP_F32;
    int64_t blocks = (c->count + EITP__SUM_BLOCK - 1) / EITP__SUM_BLOCK;
    eitp__call call = EITP__ZERO;
    call.slot = EITP__SLOT_ADAMW;
    call.dtype = c->dtype;
    call.inputs[0] = call.outputs[0] = operand(&parameter, c->dtype, 1, c->count, 0);
    call.inputs[1] = operand(&gradient, wide, 1, c->count, 0);
    call.inputs[2] = call.outputs[1] = operand(&m, wide, 1, c->count, 0);
    call.inputs[3] = call.outputs[2] = operand(&v, wide, 1, c->count, 0);
    call.inputs[4] = operand(hyper, EITP_F32, 1, 2, 0);
    call.inputs[5] = operand(commit, EITP_F32, 1, 2, 0);
    call.outputs[3] = operand(sums, EITP_F64, 2, blocks, 2);
    call.input_count = 6;
    call.output_count = 4;
    if (wide != c->dtype) {
        call.inputs[6] = call.outputs[4] = operand(&remainder_, rest, 1, c->count, 0);
        call.input_count = 7;
        call.output_count = 5;
    }
    call.reals[0] = beta1;
    call.reals[1] = beta2;
    call.reals[2] = epsilon;
    call.reals[3] = decay;
    return call;
}

/* The sums of squares of the update and of the parameter, from what the exact update would be. */
static void check_sums(const update_case *c, const double *old, const double *sums, const char *set) {
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
    eitp_dtype wide = eitp__wide(c->dtype);
    double tolerance = c->apply == 0 ? 0 : c->dtype == EITP_F64 ? 1e-6 : 2e-6, sums[4] = {-1, -1, -1, -1};
    float hyper[2], commit[2];
    eitp__call call;
    int64_t blocks = (c->count + EITP__SUM_BLOCK - 1) / EITP__SUM_BLOCK;
    fill_case(c, hyper, commit);
    for (int64_t i = 0; i < c->count; i++)
        old[i] = get_parameter(c->dtype, i);
    call = adamw_call(c, hyper, commit, sums);
    for (int64_t block = blocks; block-- > 0;)
        kernel->run(&call, block, block + 1, NULL);
    for (int64_t i = 0; i < c->count; i++) {
        double p = get_parameter(c->dtype, i);
        CHECK_THAT(fabs(p - exact[0][i]) <= tolerance, "%s %s: parameter %d is %.9g, not %.9g", set,
                   eitp_dtype_name(c->dtype), (int)i, p, exact[0][i]);
        CHECK_THAT(fabs(get(&m, wide, i) - exact[1][i]) <= tolerance, "%s: m %d", set, (int)i);
        CHECK_THAT(fabs(get(&v, wide, i) - exact[2][i]) <= tolerance, "%s: v %d", set, (int)i);
    }
    check_sums(c, old, sums, set);
}

static void check_case(eitp_dtype dtype, int64_t count, double step, double scale, double apply) {
    update_case c;
    c.dtype = dtype;
    c.count = count;
    c.step = step;
    c.scale = scale;
    c.apply = apply;
    for (int isa = 0; isa < EITP__ISA_COUNT; isa++) {
        const eitp__kernel *kernel = &tables[isa].kernels[EITP__SLOT_ADAMW][dtype];
        if (!available[isa])
            continue;
        REQUIRE(kernel->run);
        check_set(&c, kernel, eitp__isa_name((eitp__isa)isa));
    }
}

static void test_adamw(void) {
    static const eitp_dtype dtypes[] = {EITP_F32, EITP_F64, EITP_BF16, EITP_F16};
    for (size_t d = 0; d < EITP__COUNT(dtypes); d++) {
        check_case(dtypes[d], 133, 1, 1, 1);
        check_case(dtypes[d], 7, 17, 0.25, 1);
        check_case(dtypes[d], MOST, 1000000, 1, 1);
        check_case(dtypes[d], 133, 5, 0, 0);
    }
}

/* The two planes give back every f32, and the upper one is the nearest bf16. */
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

static void check_commit(double sum, float limit, const float *loss_scale, double scale, double apply) {
    eitp__call call = EITP__ZERO;
    float commit[2] = {-1, -1}, norm = -1, copy = loss_scale ? *loss_scale : 0;
    double unscaled = sqrt(sum) / (loss_scale ? (double)*loss_scale : 1);
    call.slot = EITP__SLOT_COMMIT;
    call.dtype = EITP_F64;
    call.input_count = 3;
    call.output_count = 2;
    call.inputs[0] = operand(&sum, EITP_F64, 1, 1, 0);
    call.inputs[1] = operand(&limit, EITP_F32, 1, 1, 0);
    call.inputs[2] = operand(loss_scale ? &copy : NULL, EITP_F32, 1, 1, 0);
    call.outputs[0] = operand(commit, EITP_F32, 1, 2, 0);
    call.outputs[1] = operand(&norm, EITP_F32, 1, 1, 0);
    for (int isa = 0; isa < EITP__ISA_COUNT; isa++) {
        tables[isa].kernels[EITP__SLOT_COMMIT][EITP_F64].run(&call, 0, 1, NULL);
        CHECK(fabs((double)commit[0] - scale) <= 1e-7 * scale);
        CHECK((double)commit[1] == apply);
        CHECK((double)norm == (double)(float)unscaled || (norm != norm && unscaled != unscaled));
    }
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
}

int main(int argc, char **argv) {
    static const test_case tests[] = {TEST(test_adamw), TEST(test_planes), TEST(test_commit)};
    find_sets();
    return RUN_TESTS(tests, argc, argv);
}
