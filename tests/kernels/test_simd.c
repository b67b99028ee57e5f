/*
 * The vector kernels except the matrix product, on every set that this machine can run: f32 compared with formulas in
 * double, 16-bit columns compared with f32. With TEST_EMULATED, AVX-512 is emulated in software.
 */
#include "tests/support/kernel_sets.h"

#include <sys/mman.h>

enum { FIRST_SET = EITP__ISA_AVX2, LAST_SET = EITP__ISA_AVX512, GUARD = 32, ROOM = 1 << 17 };

static float input[EITP__MAX_INPUTS][ROOM];
static double output[EITP__MAX_OUTPUTS][ROOM], repeated[EITP__MAX_OUTPUTS][ROOM]; /* f32 or f64 */
static double exact[EITP__MAX_OUTPUTS][ROOM];
static double workspace[1 << 17];

/* Copies an operand to memory that ends at an inaccessible page. */
static void *guarded_copy(int which, const eitp__operand *x) {
    static char *regions[EITP__MAX_INPUTS];
    const size_t page = 65536, room = ROOM * sizeof(float);
    size_t bytes = (size_t)x->elements * eitp_dtype_size(x->dtype);
    if (!regions[which]) {
        void *region = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (region == MAP_FAILED || mprotect((char *)region + room, page, PROT_NONE))
            return NULL;
        regions[which] = (char *)region;
    }
    return memcpy(regions[which] + room - bytes, x->data, bytes);
}

static void fill(int which, int64_t count, double scale) {
    for (int64_t i = 0; i < count; i++)
        input[which][i] = (float)(scale * draw());
}

static void add_input(eitp__call *call, int rank, int64_t d0, int64_t d1, int64_t d2) {
    call->inputs[call->input_count] = operand(input[call->input_count], EITP_F32, rank, d0, d1, d2);
    call->input_count++;
}

static void add_output(eitp__call *call, eitp_dtype dtype, int rank, int64_t d0, int64_t d1, int64_t d2) {
    call->outputs[call->output_count] = operand(NULL, dtype, rank, d0, d1, d2);
    call->output_count++;
}

static eitp__call new_call(eitp__slot slot) {
    eitp__call call = EITP__ZERO;
    call.slot = slot;
    call.dtype = EITP_F32;
    return call;
}

static int64_t item_count(const eitp__call *call) {
    const eitp__operand *x = &call->inputs[0], *y = &call->outputs[0];
    switch (eitp__slot_family(call->slot)) {
    case EITP__FAMILY_ROWS:
        return x->elements / x->shape[x->rank - 1];
    case EITP__FAMILY_COLUMNS:
        return y->shape[y->rank - 1];
    case EITP__FAMILY_ATTENTION:
        return (call->inputs[1].elements - 1) * call->integers[0];
    case EITP__FAMILY_WHOLE:
        return 1;
    default:
        return y->elements;
    }
}

static size_t output_bytes(const eitp__call *call, int which) {
    return (size_t)call->outputs[which].elements * eitp_dtype_size(call->outputs[which].dtype);
}

/* Points the outputs into `memory` between guard bytes. Before the call they contain `before`, or NaN. */
static void place_outputs(eitp__call *call, double (*memory)[ROOM], const float *before) {
    for (int o = 0; o < call->output_count; o++) {
        size_t bytes = output_bytes(call, o);
        char *start = (char *)memory[o];
        memset(start, 0x5a, bytes + 2 * GUARD);
        memset(start + GUARD, 0xff, bytes);
        if (before)
            memcpy(start + GUARD, before, bytes);
        call->outputs[o].data = start + GUARD;
    }
}

static double result(const eitp__call *call, int which, int64_t index) {
    const eitp__operand *y = &call->outputs[which];
    float value;
    if (y->dtype == EITP_F64)
        return ((const double *)y->data)[index];
    eitp__convert_to_f32(y->dtype, (const char *)y->data + (size_t)index * eitp_dtype_size(y->dtype), &value, 1);
    return (double)value;
}

/*
 * Runs the call on a set, whole and in pieces of 1 and of 7 items in reverse order, and compares the results with
 * `exact`. The allowed error is `tolerance` times the value, plus `floor_`.
 */
static void check_set(int set, const eitp__call *original, const float *before, double tolerance, double floor_) {
    eitp__call copy = *original, *call = &copy;
    const eitp__kernel *kernel = &tables[set].kernels[call->slot][call->dtype];
    int64_t items = item_count(call);
    for (int i = 0; i < call->input_count; i++) {
        if (!call->inputs[i].data)
            continue;
        call->inputs[i].data = guarded_copy(i, &call->inputs[i]);
        REQUIRE(call->inputs[i].data);
    }
    REQUIRE(kernel->run != tables[set - 1].kernels[call->slot][call->dtype].run); /* the set has its own kernel */
    REQUIRE(!kernel->workspace || kernel->workspace(call) <= sizeof workspace);
    place_outputs(call, output, before);
    kernel->run(call, 0, items, workspace);
    for (int o = 0; o < call->output_count; o++) {
        const unsigned char *start = (const unsigned char *)output[o];
        double worst = 0;
        int64_t where = 0;
        for (int64_t i = 0; i < call->outputs[o].elements; i++) {
            double value = result(call, o, i);
            double error = fabs(value - exact[o][i]) / (tolerance * fabs(exact[o][i]) + floor_);
            if (isnan(exact[o][i]))
                error = isnan(value) ? 0 : (double)INFINITY;
            if (!(error <= worst)) {
                worst = error;
                where = i;
            }
        }
        CHECK_THAT(worst <= 1, "%s %s %s output %d element %d: %.9g is not %.9g", eitp__isa_name((eitp__isa)set),
                   eitp__slot_name(call->slot), eitp_dtype_name(call->dtype), o, (int)where, result(call, o, where),
                   exact[o][where]);
        for (int i = 0; i < GUARD; i++)
            CHECK(start[i] == 0x5a && start[GUARD + output_bytes(call, o) + (size_t)i] == 0x5a);
    }
    for (int64_t piece = 1; piece <= 7; piece += 6) {
        place_outputs(call, repeated, before);
        for (int64_t i = (items + piece - 1) / piece - 1; i >= 0; i--)
            kernel->run(call, i * piece, (i + 1) * piece < items ? (i + 1) * piece : items, workspace);
        for (int o = 0; o < call->output_count; o++)
            CHECK_THAT(memcmp(output[o], repeated[o], output_bytes(call, o) + 2 * GUARD) == 0,
                       "%s %s %s: pieces of %d items give other bits", eitp__isa_name((eitp__isa)set),
                       eitp__slot_name(call->slot), eitp_dtype_name(call->dtype), (int)piece);
    }
}

static void check_call(const eitp__call *call, const float *before, double tolerance, double floor_) {
    for (int set = FIRST_SET; set <= LAST_SET; set++)
        if (available[set])
            check_set(set, call, before, tolerance, floor_);
}

/* Distance of a float from a value, in units in the last place of the value. */
static double units(float value, double right) {
    double unit;
    int exponent;
    if (isnan(right) || isinf((float)right))
        return isnan(right) ? !isnan(value) : (double)value != (double)(float)right;
    frexp(right, &exponent);
    unit = ldexp(1.0, (exponent < -125 ? -125 : exponent) - 24);
    return fabs((double)value - right) / unit;
}

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static double reciprocal_root(double x) {
    return 1 / sqrt(x);
}

static double gelu_erf(double x) {
    return 0.5 * x * erfc(-x / sqrt(2.0));
}

static double silu(double x) {
    return x / (1 + exp(-x));
}

/* Tests the elementary functions on many bit patterns. */
static void test_functions(void) {
    static const struct {
        eitp__slot slot;
        double (*function)(double);
        double limit, least; /* any result up to `least` is accepted for smaller values */
    } functions[] = {{EITP__SLOT_EXP, exp, 1.5, 0},
                     {EITP__SLOT_TANH, tanh, 2, 0},
                     {EITP__SLOT_LOG, log, 1, 0},
                     {EITP__SLOT_SIGMOID, sigmoid, 3, 3e-39},
                     {EITP__SLOT_SQRT, sqrt, 0.5, 0},
                     {EITP__SLOT_RSQRT, reciprocal_root, 1.5, 0},
                     {EITP__SLOT_ABS, fabs, 0, 0},
                     {EITP__SLOT_ERF, erf, 2, 0},
                     {EITP__SLOT_GELU_ERF, gelu_erf, 9, 2e-37},
                     {EITP__SLOT_SILU, silu, 3, 3e-37}};
    static const float special[] = {0.0f,     -0.0f,   88.72283f, 88.73f,     89.0f,  200.0f,    -87.0f,    -103.9f,
                                    -104.1f,  -200.0f, INFINITY,  -INFINITY,  NAN,    1e-45f,    -1e-38f,   0.6f,
                                    0.59999f, 9.0f,    -9.5f,     3.402e+38f, 1e-20f, 0.625001f, -0.34657f, 0.34658f};
    for (size_t f = 0; f < EITP__COUNT(functions); f++) {
        enum { N = 60000 };
        eitp__call call = new_call(functions[f].slot);
        for (int i = 0; i < N; i++)
            input[0][i] = (float)(i % 3 == 0 ? 105 * draw() : i % 3 == 1 ? 2 * draw() : ldexp(draw(), -(i % 40)));
        memcpy(input[0], special, sizeof special);
        add_input(&call, 1, N, 1, 1);
        add_output(&call, EITP_F32, 1, N, 1, 1);
        for (int set = FIRST_SET; set <= LAST_SET; set++) {
            double worst = 0;
            int where = 0;
            if (!available[set])
                continue;
            place_outputs(&call, output, NULL);
            tables[set].kernels[call.slot][EITP_F32].run(&call, 0, N, NULL);
            for (int i = 0; i < N; i++) {
                double right = functions[f].function((double)input[0][i]);
                float value = ((float *)call.outputs[0].data)[i];
                double error = fabs(right) < functions[f].least && fabs((double)value) < functions[f].least
                                   ? 0
                                   : units(value, right);
                if (!(error <= worst)) {
                    worst = error;
                    where = i;
                }
            }
            CHECK_THAT(worst <= functions[f].limit, "%s %s: %g units at %.9g", eitp__isa_name((eitp__isa)set),
                       eitp__slot_name(call.slot), worst, (double)input[0][where]);
        }
        for (int i = 0; i < 100; i++) {
            input[0][i] = (float)fabs(draw());
            exact[0][i] = functions[f].function((double)input[0][i]);
        }
        call.inputs[0] = operand(input[0], EITP_F32, 1, 100, 1, 1);
        call.outputs[0] = operand(NULL, EITP_F32, 1, 100, 1, 1);
        check_call(&call, NULL, 1e-6, 0);
    }
}

static void test_gelu(void) {
    enum { N = 1003 };
    const double k = sqrt(2 / acos(-1.0));
    eitp__call call = new_call(EITP__SLOT_GELU_TANH);
    fill(0, N, 12);
    fill(1, N, 1);
    input[0][0] = 1e30f;
    input[0][1] = -1e12f;
    add_input(&call, 1, N, 1, 1);
    add_output(&call, EITP_F32, 1, N, 1, 1);
    for (int i = 0; i < N; i++) {
        double x = (double)input[0][i];
        exact[0][i] = x * sigmoid(2 * k * (x + 0.044715 * x * x * x));
    }
    check_call(&call, NULL, 2e-5, 1e-30); /* the rounding of the exponent shows for very negative x */
    call.slot = EITP__SLOT_GELU_TANH_BACKWARD;
    add_input(&call, 1, N, 1, 1);
    for (int i = 0; i < N; i++) {
        double x = (double)input[0][i], d = (double)input[1][i];
        double s = sigmoid(2 * k * (x + 0.044715 * x * x * x)), slope = 2 * k * (1 + 3 * 0.044715 * x * x);
        exact[0][i] = d * (s + (fabs(x) < 100 ? x * s * (1 - s) * slope : 0));
    }
    check_call(&call, NULL, 2e-5, 1e-6);
}

static void test_silu_backward(void) {
    enum { N = 1003 };
    eitp__call call = new_call(EITP__SLOT_SILU_BACKWARD);
    fill(0, N, 12);
    fill(1, N, 1);
    input[0][0] = 1e30f;
    input[0][1] = -1e30f;
    add_input(&call, 1, N, 1, 1);
    add_input(&call, 1, N, 1, 1);
    add_output(&call, EITP_F32, 1, N, 1, 1);
    for (int i = 0; i < N; i++) {
        double x = (double)input[0][i], s = sigmoid(x);
        exact[0][i] = (double)input[1][i] * (s + x * s * (1 - s));
    }
    check_call(&call, NULL, 1e-6, 1e-6);
}

static void test_binary(void) {
    static const int64_t shapes[][2][3] = {{{3, 5, 37}, {3, 5, 37}}, {{3, 5, 37}, {1, 1, 37}}, {{3, 5, 37}, {1, 5, 37}},
                                           {{3, 5, 37}, {3, 5, 1}},  {{3, 5, 37}, {3, 1, 37}}, {{3, 5, 37}, {1, 1, 1}},
                                           {{1, 5, 1}, {3, 1, 37}},  {{1, 1, 1}, {1, 1, 1}},   {{1, 1, 1}, {4, 9, 17}},
                                           {{2, 1, 3}, {1, 4, 1}}};
    for (size_t s = 0; s < EITP__COUNT(shapes); s++) {
        const int64_t *a = shapes[s][0], *b = shapes[s][1];
        int64_t y[3];
        for (int i = 0; i < 3; i++)
            y[i] = a[i] > b[i] ? a[i] : b[i];
        for (int op = 0; op < 6; op++) {
            static const eitp__slot slots[] = {EITP__SLOT_ADD,    EITP__SLOT_SUBTRACT, EITP__SLOT_MULTIPLY,
                                               EITP__SLOT_DIVIDE, EITP__SLOT_MINIMUM,  EITP__SLOT_MAXIMUM};
            eitp__call call = new_call(slots[op]);
            int64_t skip = b[0] == 1 ? b[1] == 1 ? 2 : 1 : 0; /* leaves out leading extents of 1 */
            add_input(&call, 3, a[0], a[1], a[2]);
            if (skip == 2)
                add_input(&call, 1, b[2], 1, 1);
            else if (skip == 1)
                add_input(&call, 2, b[1], b[2], 1);
            else
                add_input(&call, 3, b[0], b[1], b[2]);
            add_output(&call, EITP_F32, 3, y[0], y[1], y[2]);
            fill(0, call.inputs[0].elements, 1);
            fill(1, call.inputs[1].elements, 1);
            for (int k = 0; k < 2; k++) {
                if (call.inputs[k].elements > 1)
                    input[k][call.inputs[k].elements / (2 + k)] = NAN;
            }
            for (int64_t i = 0; i < y[0] * y[1] * y[2]; i++) {
                int64_t p = i / (y[1] * y[2]), q = i / y[2] % y[1], r = i % y[2];
                int64_t at = ((a[0] == 1 ? 0 : p) * a[1] + (a[1] == 1 ? 0 : q)) * a[2] + (a[2] == 1 ? 0 : r);
                int64_t bt = ((b[0] == 1 ? 0 : p) * b[1] + (b[1] == 1 ? 0 : q)) * b[2] + (b[2] == 1 ? 0 : r);
                float u = input[0][at], v = input[1][bt];
                float all[6] = {u + v, u - v, u * v, u / v, fminf(u, v), fmaxf(u, v)};
                exact[0][i] = u != u || v != v ? (double)NAN : (double)all[op];
            }
            check_call(&call, NULL, 0, 1e-30);
        }
    }
}

static void test_sum(void) {
    static const float carries[] = {0.0f, 1.0f, 0.5f};
    for (int64_t mask = 0; mask < 8; mask++)
        for (int carry_case = 0; carry_case < 5; carry_case++) {
            static const int64_t x[] = {5, 7, 83};
            static float before[5 * 7 * 83];
            eitp__call call = new_call(EITP__SLOT_SUM);
            int64_t y[3];
            double carry;
            for (int i = 0; i < 3; i++)
                y[i] = mask >> i & 1 ? 1 : x[i];
            add_input(&call, 3, x[0], x[1], x[2]);
            add_output(&call, EITP_F32, 3, y[0], y[1], y[2]);
            call.integers[0] = mask;
            call.accumulates = carry_case > 0;
            call.carry = carry_case > 1 ? &carries[carry_case - 2] : NULL;
            carry = !carry_case ? 0 : call.carry ? (double)call.carry[0] : 1;
            fill(0, call.inputs[0].elements, 1);
            for (int64_t i = 0; i < call.outputs[0].elements; i++) {
                before[i] = (float)draw();
                exact[0][i] = carry * (double)before[i];
            }
            for (int64_t i = 0; i < call.inputs[0].elements; i++) {
                int64_t p = i / (x[1] * x[2]), q = i / x[2] % x[1], r = i % x[2];
                int64_t at = ((y[0] == 1 ? 0 : p) * y[1] + (y[1] == 1 ? 0 : q)) * y[2] + (y[2] == 1 ? 0 : r);
                exact[0][at] += (double)input[0][i];
            }
            check_call(&call, carry != 0 ? before : NULL, 1e-6, 5e-5);
        }
}

static void test_sum_squares(void) {
    static const int64_t counts[] = {1, 15, 16384, 16385, 50001};
    for (size_t c = 0; c < EITP__COUNT(counts); c++) {
        int64_t blocks = (counts[c] + EITP__SUM_BLOCK - 1) / EITP__SUM_BLOCK;
        eitp__call call = new_call(EITP__SLOT_SUM_SQUARES);
        add_input(&call, 1, counts[c], 1, 1);
        add_output(&call, EITP_F64, 1, blocks, 1, 1);
        fill(0, counts[c], 1e20);
        memset(exact[0], 0, (size_t)blocks * sizeof(double));
        for (int64_t i = 0; i < counts[c]; i++)
            exact[0][i / EITP__SUM_BLOCK] += (double)input[0][i] * (double)input[0][i];
        check_call(&call, NULL, 1e-13, 0);
    }
}

static void test_softmax(void) {
    static const int64_t widths[] = {1, 3, 16, 50, 257};
    for (size_t w = 0; w < EITP__COUNT(widths); w++)
        for (int kind = 0; kind < 4; kind++) {
            static const eitp__slot slots[] = {EITP__SLOT_SOFTMAX, EITP__SLOT_LOG_SOFTMAX, EITP__SLOT_SOFTMAX_BACKWARD,
                                               EITP__SLOT_LOG_SOFTMAX_BACKWARD};
            enum { ROWS = 9 };
            int64_t c = widths[w];
            eitp__call call = new_call(slots[kind]);
            add_input(&call, 2, ROWS, c, 1);
            if (kind >= 2)
                add_input(&call, 2, ROWS, c, 1);
            add_output(&call, EITP_F32, 2, ROWS, c, 1);
            fill(0, ROWS * c, kind < 2 ? 30 : 1);
            fill(1, ROWS * c, 1);
            for (int64_t row = 0; row < ROWS; row++) {
                const float *x = input[0] + row * c, *dy = input[1] + row * c;
                double top = -INFINITY, sum = 0, dot = 0, plain = 0;
                for (int64_t j = 0; j < c; j++)
                    top = (double)x[j] > top ? (double)x[j] : top;
                for (int64_t j = 0; j < c; j++) {
                    sum += exp((double)x[j] - top);
                    dot += (double)x[j] * (double)dy[j];
                    plain += (double)dy[j];
                }
                for (int64_t j = 0; j < c; j++) {
                    double v = (double)x[j], d = (double)dy[j];
                    exact[0][row * c + j] = kind == 0   ? exp(v - top) / sum
                                            : kind == 1 ? v - top - log(sum)
                                            : kind == 2 ? v * (d - dot)
                                                        : d - exp(v) * plain;
                }
            }
            check_call(&call, NULL, 2e-6, kind < 2 ? 1e-6 : 1e-4);
        }
}

static void test_layer_norm(void) {
    static const int64_t widths[] = {1, 5, 16, 100, 768};
    for (size_t w = 0; w < EITP__COUNT(widths); w++) {
        enum { ROWS = 11 };
        static const float carry = 0.5f;
        static float before[768];
        const double epsilon = 1e-5;
        int64_t c = widths[w];
        eitp__call call = new_call(EITP__SLOT_LAYER_NORM);
        call.reals[0] = epsilon;
        fill(0, ROWS * c, 2);
        fill(1, c, 1);
        fill(2, c, 1);
        fill(5, ROWS * c, 1);
        add_input(&call, 2, ROWS, c, 1);
        add_input(&call, 1, c, 1, 1);
        add_input(&call, 1, c, 1, 1);
        add_output(&call, EITP_F32, 2, ROWS, c, 1);
        add_output(&call, EITP_F32, 1, ROWS, 1, 1);
        add_output(&call, EITP_F32, 1, ROWS, 1, 1);
        for (int64_t row = 0; row < ROWS; row++) {
            const float *x = input[0] + row * c;
            double mean = 0, variance = 0;
            for (int64_t j = 0; j < c; j++)
                mean += (double)x[j] / (double)c;
            for (int64_t j = 0; j < c; j++)
                variance += ((double)x[j] - mean) * ((double)x[j] - mean) / (double)c;
            exact[1][row] = mean;
            exact[2][row] = 1 / sqrt(variance + epsilon);
            input[3][row] = (float)exact[1][row];
            input[4][row] = (float)exact[2][row];
            for (int64_t j = 0; j < c; j++)
                exact[0][row * c + j] =
                    ((double)x[j] - mean) * exact[2][row] * (double)input[1][j] + (double)input[2][j];
        }
        check_call(&call, NULL, 2e-6, 1e-5);

        call.slot = EITP__SLOT_LAYER_NORM_BACKWARD_INPUT;
        add_input(&call, 1, ROWS, 1, 1);
        add_input(&call, 1, ROWS, 1, 1);
        add_input(&call, 2, ROWS, c, 1);
        call.output_count = 1;
        for (int64_t row = 0; row < ROWS; row++) {
            double mean = (double)input[3][row], deviation = (double)input[4][row], g_mean = 0, slope = 0;
            for (int pass = 0; pass < 2; pass++)
                for (int64_t j = 0; j < c; j++) {
                    double g = (double)input[1][j] * (double)input[5][row * c + j];
                    double z = ((double)input[0][row * c + j] - mean) * deviation;
                    if (pass == 0) {
                        g_mean += g / (double)c;
                        slope += g * z / (double)c;
                    } else {
                        exact[0][row * c + j] = deviation * (g - g_mean - z * slope);
                    }
                }
        }
        check_call(&call, NULL, 1e-5, c == 1 ? 1e-4 : 1e-5);

        call.slot = EITP__SLOT_LAYER_NORM_BACKWARD_PARAMETERS;
        call.output_count = 0;
        add_output(&call, EITP_F32, 1, c, 1, 1);
        add_output(&call, EITP_F32, 1, c, 1, 1);
        call.accumulates = 1;
        call.carry = &carry;
        for (int64_t j = 0; j < c; j++) {
            before[j] = (float)draw();
            exact[0][j] = exact[1][j] = 0.5 * (double)before[j];
            for (int64_t row = 0; row < ROWS; row++) {
                double d = (double)input[5][row * c + j];
                exact[0][j] += d * ((double)input[0][row * c + j] - (double)input[3][row]) * (double)input[4][row];
                exact[1][j] += d;
            }
        }
        check_call(&call, before, 1e-5, 1e-5);
    }
}

static void test_rms_norm(void) {
    static const int64_t widths[] = {1, 5, 16, 100, 768};
    for (size_t w = 0; w < EITP__COUNT(widths); w++) {
        enum { ROWS = 11 };
        static const float carry = 0.5f;
        static float before[768];
        int64_t c = widths[w];
        eitp__call call = new_call(EITP__SLOT_RMS_NORM);
        call.reals[0] = 1e-5;
        fill(0, ROWS * c, 2);
        fill(1, c, 1);
        fill(3, ROWS * c, 1);
        add_input(&call, 2, ROWS, c, 1);
        add_input(&call, 1, c, 1, 1);
        add_output(&call, EITP_F32, 2, ROWS, c, 1);
        add_output(&call, EITP_F32, 1, ROWS, 1, 1);
        for (int64_t row = 0; row < ROWS; row++) {
            const float *x = input[0] + row * c;
            double squares = 0;
            for (int64_t j = 0; j < c; j++)
                squares += (double)x[j] * (double)x[j] / (double)c;
            exact[1][row] = 1 / sqrt(squares + 1e-5);
            input[2][row] = (float)exact[1][row];
            for (int64_t j = 0; j < c; j++)
                exact[0][row * c + j] = (double)x[j] * exact[1][row] * (double)input[1][j];
        }
        check_call(&call, NULL, 2e-6, 0);

        call.slot = EITP__SLOT_RMS_NORM_BACKWARD_INPUT;
        add_input(&call, 1, ROWS, 1, 1);
        add_input(&call, 2, ROWS, c, 1);
        call.output_count = 1;
        for (int64_t row = 0; row < ROWS; row++) {
            double deviation = (double)input[2][row], slope = 0;
            for (int64_t i = row * c; i < (row + 1) * c; i++)
                slope += (double)input[1][i - row * c] * (double)input[3][i] * (double)input[0][i] * deviation;
            for (int64_t i = row * c; i < (row + 1) * c; i++)
                exact[0][i] = deviation * ((double)input[1][i - row * c] * (double)input[3][i] -
                                           (double)input[0][i] * deviation * slope / (double)c);
        }
        check_call(&call, NULL, 1e-5, c == 1 ? 1e-4 : 1e-5);

        call.slot = EITP__SLOT_RMS_NORM_BACKWARD_PARAMETERS;
        call.output_count = 0;
        add_output(&call, EITP_F32, 1, c, 1, 1);
        call.accumulates = 1;
        call.carry = &carry;
        for (int64_t j = 0; j < c; j++) {
            before[j] = (float)draw();
            exact[0][j] = 0.5 * (double)before[j];
            for (int64_t row = 0; row < ROWS; row++)
                exact[0][j] += (double)input[3][row * c + j] * (double)input[0][row * c + j] * (double)input[2][row];
        }
        check_call(&call, before, 1e-5, 1e-5);
    }
}

/* Row 3 has the ignored target, whose loss is 0; rows 4 and 5 have targets out of range, whose loss is NaN. */
static void test_cross_entropy(void) {
    enum { ROWS = 8 };
    static const int64_t sizes[] = {1, 7, 64, 1001};
    static int32_t targets[ROWS];
    for (size_t s = 0; s < EITP__COUNT(sizes); s++) {
        int64_t v = sizes[s];
        eitp__call call = new_call(EITP__SLOT_CROSS_ENTROPY);
        fill(0, ROWS * v, 20);
        for (int row = 0; row < ROWS; row++)
            targets[row] = row == 3 ? -100 : row == 4 ? (int32_t)v : row == 5 ? -1 : (int32_t)((row * 131) % v);
        add_input(&call, 2, ROWS, v, 1);
        add_input(&call, 1, ROWS, 1, 1);
        call.inputs[1].data = targets;
        add_output(&call, EITP_F32, 1, ROWS, 1, 1);
        add_output(&call, EITP_F32, 1, ROWS, 1, 1);
        call.integers[0] = -100;
        for (int64_t row = 0; row < ROWS; row++) {
            double sum = 0;
            for (int64_t j = 0; j < v; j++)
                sum += exp((double)input[0][row * v + j]);
            exact[1][row] = log(sum);
            exact[0][row] = row == 3               ? 0
                            : row == 4 || row == 5 ? (double)NAN
                                                   : log(sum) - (double)input[0][row * v + targets[row]];
        }
        check_call(&call, NULL, 1e-6, 2e-6);

        call.slot = EITP__SLOT_CROSS_ENTROPY_BACKWARD;
        add_input(&call, 1, ROWS, 1, 1);
        add_input(&call, 1, ROWS, 1, 1);
        fill(3, ROWS, 1);
        call.output_count = 0;
        add_output(&call, EITP_F32, 2, ROWS, v, 1);
        for (int64_t row = 0; row < ROWS; row++) {
            input[2][row] = (float)exact[1][row];
            for (int64_t j = 0; j < v; j++)
                exact[0][row * v + j] =
                    row == 3 ? 0
                    : row == 4 || row == 5
                        ? (double)NAN
                        : (exp((double)input[0][row * v + j] - (double)input[2][row]) - (j == targets[row])) *
                              (double)input[3][row];
        }
        check_call(&call, NULL, 5e-6, 1e-6);
    }
}

static void test_accumulate(void) {
    enum { N = 101 };
    for (int carry_case = 0; carry_case < 4; carry_case++) {
        static const float carries[] = {1.0f, 0.0f, 1.0f, 0.5f};
        eitp__call call = new_call(EITP__SLOT_ACCUMULATE);
        fill(0, N, 1);
        fill(1, N, 1);
        input[2][0] = carries[carry_case];
        add_input(&call, 1, N, 1, 1);
        add_input(&call, 1, N, 1, 1);
        if (carry_case)
            add_input(&call, 1, 1, 1, 1);
        add_output(&call, EITP_F32, 1, N, 1, 1);
        for (int i = 0; i < N; i++) {
            exact[0][i] = (double)carries[carry_case] * (double)input[0][i] + (double)input[1][i];
            if (carries[carry_case] == 0.0f)
                input[0][i] = NAN;
        }
        check_call(&call, NULL, 1e-7, 1e-7);
    }
}

/* ---- 16 bits ---- */

/*
 * A slot and its operands, one letter each: x [rows, columns], c [columns], r [rows], s [rows, 1], b [rows, blocks of
 * HEAD], t [9, columns]. Lower-case letters have the slot's dtype, capitals F32; i are row ids, k is a key.
 */
typedef struct column_case {
    eitp__slot slot;
    const char *inputs, *outputs;
} column_case;

static const column_case column_cases[] = {
    {EITP__SLOT_NEGATE, "x", "x"},
    {EITP__SLOT_ABS, "x", "x"},
    {EITP__SLOT_EXP, "x", "x"},
    {EITP__SLOT_LOG, "x", "x"},
    {EITP__SLOT_SQRT, "x", "x"},
    {EITP__SLOT_RSQRT, "x", "x"},
    {EITP__SLOT_TANH, "x", "x"},
    {EITP__SLOT_SIGMOID, "x", "x"},
    {EITP__SLOT_RELU, "x", "x"},
    {EITP__SLOT_ERF, "x", "x"},
    {EITP__SLOT_AFFINE, "x", "x"},
    {EITP__SLOT_CLAMP, "x", "x"},
    {EITP__SLOT_CAST, "x", "x"},
    {EITP__SLOT_CAST, "x", "X"},
    {EITP__SLOT_CAST, "X", "x"},
    {EITP__SLOT_ADD, "xc", "x"},
    {EITP__SLOT_SUBTRACT, "cx", "x"},
    {EITP__SLOT_MULTIPLY, "xs", "x"},
    {EITP__SLOT_DIVIDE, "xx", "x"},
    {EITP__SLOT_MINIMUM, "xc", "x"},
    {EITP__SLOT_MAXIMUM, "xs", "x"},
    {EITP__SLOT_SUM, "x", "S"},
    {EITP__SLOT_MAX, "x", "s"},
    {EITP__SLOT_SOFTMAX, "x", "x"},
    {EITP__SLOT_SOFTMAX_BACKWARD, "xx", "x"},
    {EITP__SLOT_LOG_SOFTMAX, "x", "x"},
    {EITP__SLOT_LOG_SOFTMAX_BACKWARD, "xx", "x"},
    {EITP__SLOT_GELU_TANH, "x", "x"},
    {EITP__SLOT_GELU_TANH_BACKWARD, "xx", "x"},
    {EITP__SLOT_GELU_ERF, "x", "x"},
    {EITP__SLOT_GELU_ERF_BACKWARD, "xx", "x"},
    {EITP__SLOT_SILU, "x", "x"},
    {EITP__SLOT_SILU_BACKWARD, "xx", "x"},
    {EITP__SLOT_LAYER_NORM, "xCC", "xRR"},
    {EITP__SLOT_LAYER_NORM_BACKWARD_INPUT, "xCCRRx", "x"},
    {EITP__SLOT_LAYER_NORM_BACKWARD_PARAMETERS, "xCCRRx", "CC"},
    {EITP__SLOT_RMS_NORM, "xC", "xR"},
    {EITP__SLOT_RMS_NORM_BACKWARD_INPUT, "xCRx", "x"},
    {EITP__SLOT_RMS_NORM_BACKWARD_PARAMETERS, "xCRx", "C"},
    {EITP__SLOT_EMBEDDING_BACKWARD, "ix", "T"},
    {EITP__SLOT_CROSS_ENTROPY, "xi", "RR"},
    {EITP__SLOT_CROSS_ENTROPY_BACKWARD, "xiRR", "x"},
    {EITP__SLOT_SOFTMAX_ENTROPY, "x", "RR"},
    {EITP__SLOT_SOFTMAX_ENTROPY_BACKWARD, "xRRR", "x"},
    {EITP__SLOT_PATH_PRODUCT, "xR", "C"},
    {EITP__SLOT_PATH_PRODUCT_TRANSPOSED, "xC", "R"},
    {EITP__SLOT_PATH_PRODUCT_BACKWARD, "xRC", "X"},
    {EITP__SLOT_HEAD_BACKWARD, "xBiRR", "x"},
    {EITP__SLOT_DROPOUT, "xk", "x"},
    {EITP__SLOT_ACCUMULATE, "xx", "x"},
};

static eitp__operand column_operand(void *data, eitp_dtype dtype, char letter, int64_t rows, int64_t columns) {
    switch (letter | 32) {
    case 'c':
        return operand(data, dtype, 1, columns, 1, 1);
    case 'r':
        return operand(data, dtype, 1, rows, 1, 1);
    case 's':
        return operand(data, dtype, 2, rows, 1, 1);
    case 'b':
        return operand(data, dtype, 2, rows, (columns + EITP__HEAD_BLOCK - 1) / EITP__HEAD_BLOCK, 1);
    case 't':
        return operand(data, dtype, 2, 9, columns, 1);
    case 'i':
        return operand(data, EITP_I32, 1, rows, 1, 1);
    case 'k':
        return operand(data, EITP_I64, 1, 3, 1, 1);
    default:
        return operand(data, dtype, 2, rows, columns, 1);
    }
}

/* Returns the first attribute: dimensions, a power, or the ignored target. */
static int64_t column_attribute(eitp__slot slot) {
    const int is_path = slot >= EITP__SLOT_PATH_PRODUCT && slot <= EITP__SLOT_PATH_PRODUCT_BACKWARD;
    return is_path || slot == EITP__SLOT_SUM || slot == EITP__SLOT_MAX ? 2 : -100;
}

/* Returns the call of a case in `dtype`, with inputs in `data`. */
static eitp__call column_call(const column_case *what, eitp_dtype dtype, void *data, int64_t rows, int64_t columns) {
    static const int64_t key[] = {-9, 5000000000, 3};
    static int32_t ids[64];
    eitp__call call = new_call(what->slot);
    call.dtype = what->inputs[0] == 'X' ? EITP_F32 : dtype;
    for (int64_t i = 0; i < rows; i++)
        ids[i] = i % 5 == 3 ? -100 : (int32_t)(i * 7 % (what->slot == EITP__SLOT_EMBEDDING_BACKWARD ? 9 : columns));
    for (const char *letter = what->inputs; *letter; letter++) {
        void *at = *letter == 'i' ? (void *)ids : (char *)data + call.input_count * (int)sizeof input[0];
        eitp__operand *x = &call.inputs[call.input_count++];
        *x = column_operand(at, *letter >= 'a' ? dtype : EITP_F32, *letter, rows, columns);
        if (*letter == 'k')
            memcpy(at, key, sizeof key);
    }
    for (const char *letter = what->outputs; *letter; letter++)
        call.outputs[call.output_count++] =
            column_operand(NULL, *letter >= 'a' ? dtype : EITP_F32, *letter, rows, columns);
    call.integers[0] = column_attribute(what->slot);
    call.reals[0] = what->slot == EITP__SLOT_CLAMP ? -0.25 : 0.375;
    call.reals[1] = 0.5;
    return call;
}

/*
 * A 16-bit column gives the same result as f32 for the same values, rounded when stored. Inputs are positive for LOG,
 * SQRT and RSQRT.
 */
static void check_column(int set, const column_case *what, eitp_dtype dtype, int64_t rows, int64_t columns) {
    static float narrow[EITP__MAX_INPUTS][ROOM];
    eitp__call wide = column_call(what, EITP_F32, input, rows, columns), call;
    for (int i = 0; i < wide.input_count; i++) {
        if (wide.inputs[i].dtype != EITP_F32)
            continue;
        for (int64_t j = 0; j < wide.inputs[i].elements; j++) {
            float value = (float)(0.01 + 1.5 * fabs(draw()));
            eitp__convert_from_f32(what->inputs[i] >= 'a' ? dtype : EITP_F32, &value, &value, 1);
            if (what->inputs[i] >= 'a')
                memcpy((uint16_t *)(void *)narrow[i] + j, &value, sizeof(uint16_t));
            else
                narrow[i][j] = value;
            eitp__convert_to_f32(what->inputs[i] >= 'a' ? dtype : EITP_F32, &value, &input[i][j], 1);
        }
    }
    place_outputs(&wide, output, NULL);
    tables[set].kernels[what->slot][EITP_F32].run(&wide, 0, item_count(&wide), NULL);
    call = column_call(what, dtype, narrow, rows, columns);
    for (int o = 0; o < call.output_count; o++) {
        for (int64_t j = 0; j < call.outputs[o].elements; j++) {
            float value = (float)result(&wide, o, j), stored;
            eitp__convert_from_f32(call.outputs[o].dtype, &value, &stored, 1);
            eitp__convert_to_f32(call.outputs[o].dtype, &stored, &value, 1);
            exact[o][j] = (double)value;
        }
    }
    check_set(set, &call, NULL, 0, 1e-300);
}

static void test_columns(void) {
    static const int64_t columns[] = {1, 7, 37, 200, 391};
    for (int set = FIRST_SET; set <= LAST_SET; set++)
        for (size_t c = 0; c < EITP__COUNT(column_cases) && available[set]; c++)
            for (size_t i = 0; i < EITP__COUNT(columns); i++)
                for (int dtype = EITP_BF16; dtype <= EITP_F16; dtype++)
                    check_column(set, &column_cases[c], (eitp_dtype)dtype, 11, columns[i]);
}

/* Every case of rounding to 16 bits: ties, their neighbors, infinities, and NaNs, which stay NaN. */
static void test_rounding(void) {
    static const uint32_t offsets[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xfff, 0x1000, 0x1001};
    enum { STEP = 37 };
    for (int set = FIRST_SET; set <= LAST_SET; set++) {
        for (int dtype = EITP_BF16; dtype <= EITP_F16 && available[set]; dtype++) {
            eitp__call call = new_call(EITP__SLOT_CAST);
            int64_t count = 0, wrong = 0;
            for (uint32_t high = 0; high < 0x10000 && count < ROOM; high += STEP)
                for (size_t i = 0; i < EITP__COUNT(offsets); i++)
                    input[0][count++] = eitp__float_of_bits((high << 16) + offsets[i]);
            add_input(&call, 1, count, 1, 1);
            add_output(&call, (eitp_dtype)dtype, 1, count, 1, 1);
            place_outputs(&call, output, NULL);
            tables[set].kernels[EITP__SLOT_CAST][EITP_F32].run(&call, 0, count, NULL);
            for (int64_t i = 0; i < count; i++) {
                uint16_t right;
                eitp__convert_from_f32((eitp_dtype)dtype, &input[0][i], &right, 1);
                wrong += ((const uint16_t *)call.outputs[0].data)[i] != right;
            }
            CHECK_THAT(!wrong, "%s: %lld of %lld are rounded differently", eitp__isa_name((eitp__isa)set),
                       (long long)wrong, (long long)count);
        }
    }
}

/* Many blocks of random numbers, including an overflow of the lower half of the block number. */
static void test_dropout(void) {
    static int64_t key[3] = {-77, 5000000001, 0};
    enum { N = 3001 };
    for (int far = 0; far < 2; far++) {
        eitp__call call = new_call(EITP__SLOT_DROPOUT);
        key[2] = far ? 17179869184 - 1000 : 5;
        fill(0, N, 1);
        add_input(&call, 1, N, 1, 1);
        call.inputs[1] = operand(key, EITP_I64, 1, 3, 1, 1);
        call.input_count = 2;
        add_output(&call, EITP_F32, 1, N, 1, 1);
        call.integers[0] = 1030;
        call.reals[0] = 0.25;
        for (int64_t i = 0; i < N; i++) {
            float u = eitp__kernel_uniform((uint64_t)key[0], (uint64_t)key[1], 1030, (uint64_t)(key[2] + i));
            exact[0][i] = u < 0.25f ? 0 : (double)(input[0][i] * (float)(1 / 0.75));
        }
        check_call(&call, NULL, 0, 1e-300);
    }
}

/* Checks the entropy of the row in input 0, whose exponentials have this sum. */
static void check_long_entropy(int64_t v, double sum) {
    eitp__call call = new_call(EITP__SLOT_SOFTMAX_ENTROPY);
    add_input(&call, 2, 1, v, 1);
    add_output(&call, EITP_F32, 1, 1, 1, 1);
    add_output(&call, EITP_F32, 1, 1, 1, 1);
    exact[0][0] = exact[1][0] = log(sum);
    for (int64_t i = 0; i < v; i++) {
        double x = (double)input[0][i];
        exact[0][0] -= x > -(double)INFINITY ? exp(x) / sum * x : 0;
    }
    check_call(&call, NULL, 1e-6, 2e-6);
}

/* A row of many parts, each with a larger maximum, so the earlier sum is rescaled. Then a row that starts with
   entire parts of minus infinity. */
static void test_long_row(void) {
    enum { V = 50257 };
    static int32_t target[1] = {50000};
    for (int order = 0; order < 3; order++) {
        double sum = 0;
        eitp__call call = new_call(EITP__SLOT_CROSS_ENTROPY);
        for (int64_t i = 0; i < V; i++) {
            double slope = 20 * (double)i / V;
            input[0][i] = (float)(draw() + (order == 0 ? slope : order == 1 ? -slope : 0));
            sum += exp((double)input[0][i]);
        }
        add_input(&call, 2, 1, V, 1);
        add_input(&call, 1, 1, 1, 1);
        call.inputs[1].data = target;
        add_output(&call, EITP_F32, 1, 1, 1, 1);
        add_output(&call, EITP_F32, 1, 1, 1, 1);
        call.integers[0] = -100;
        exact[1][0] = log(sum);
        exact[0][0] = log(sum) - (double)input[0][target[0]];
        check_call(&call, NULL, 1e-6, 2e-6);
        check_long_entropy(V, sum);
        for (int64_t i = 0; i < V / 3; i++) {
            sum -= exp((double)input[0][i]);
            input[0][i] = -INFINITY;
        }
        check_long_entropy(V, sum);
    }
}

/* Compares rows of a sequence whose first `position` rows are in the cache with sums in double. */
static void check_attention_cached(eitp_dtype dtype, int64_t heads, int64_t d, int64_t rows, int32_t position) {
    enum { LONGEST = 45 };
    static int32_t at[1];
    static float qkv[ROOM], cache[2][ROOM];
    int64_t c = heads * d;
    eitp__call call = new_call(EITP__SLOT_ATTENTION_CACHED);
    call.dtype = dtype;
    for (int part = 0; part < 3; part++) {
        call.inputs[part] = operand(input[part], dtype, 2, part ? LONGEST : rows, part ? c : 3 * c, 1);
        fill(part, call.inputs[part].elements, 1);
        eitp__convert_from_f32(dtype, input[part], repeated[0], (size_t)call.inputs[part].elements);
        memcpy(input[part], repeated[0], (size_t)call.inputs[part].elements * eitp_dtype_size(dtype));
        eitp__convert_to_f32(dtype, input[part], part ? cache[part - 1] : qkv, (size_t)call.inputs[part].elements);
        call.outputs[part] = operand(NULL, dtype, 2, part ? LONGEST : rows, c, 1);
    }
    at[0] = position;
    call.inputs[3] = operand(at, EITP_I32, 1, 1, 1, 1);
    call.input_count = 4;
    call.output_count = 3;
    call.integers[0] = heads;
    call.integers[1] = heads;
    call.reals[0] = 0.5;
    for (int part = 1; part < 3; part++)
        for (int64_t i = 0; i < LONGEST * c; i++) {
            int64_t row = i / c - position;
            if (row >= 0 && row < rows)
                cache[part - 1][i] = qkv[(3 * row + part) * c + i % c];
            exact[part][i] = (double)cache[part - 1][i];
        }
    for (int64_t i = 0; i < rows * c; i++) {
        int64_t row = i / c, first = i % c / d * d;
        double total = 0, sum = 0;
        for (int64_t j = 0; j <= row + position; j++) {
            double p = 0;
            for (int64_t e = first; e < first + d; e++)
                p += (double)qkv[3 * row * c + e] * (double)cache[0][j * c + e];
            p = exp(0.5 * p);
            total += p;
            sum += p * (double)cache[1][j * c + i % c];
        }
        exact[0][i] = sum / total;
    }
    check_call(&call, NULL, dtype == EITP_F32 ? 2e-6 : dtype == EITP_F16 ? 0.00048828125 : 0.00390625, 3e-6);
}

static void test_attention_cached(void) {
    static const int64_t sizes[] = {1, 5, 8, 37, 64, 100};
    for (size_t i = 0; i < EITP__COUNT(sizes); i++) {
        static const eitp_dtype types[] = {EITP_F32, EITP_BF16, EITP_F16};
        for (size_t t = 0; t < EITP__COUNT(types); t++) {
            check_attention_cached(types[t], 3, sizes[i], 1, 44);
            check_attention_cached(types[t], 2, sizes[i], 7, 0);
            check_attention_cached(types[t], 2, sizes[i], 4, 19);
        }
    }
}

/* The loss computed from the parts of a row: many blocks, one block, and a partial last vector. */
static void test_head_loss(void) {
    static const int64_t blocks[] = {1, 5, 16, 262};
    enum { ROWS = 4, VOCABULARY = 1000 };
    static int32_t targets[ROWS] = {0, 999, 1000, -100};
    for (size_t b = 0; b < EITP__COUNT(blocks); b++) {
        eitp__call call = new_call(EITP__SLOT_HEAD_LOSS);
        add_input(&call, 2, ROWS, blocks[b], 1);
        add_input(&call, 2, ROWS, blocks[b], 1);
        add_input(&call, 1, ROWS, 1, 1);
        call.inputs[3] = operand(targets, EITP_I32, 1, ROWS, 1, 1);
        call.input_count = 4;
        add_output(&call, EITP_F32, 1, ROWS, 1, 1);
        add_output(&call, EITP_F32, 1, ROWS, 1, 1);
        call.integers[0] = -100;
        call.integers[1] = VOCABULARY;
        fill(0, ROWS * blocks[b], 40);
        fill(1, ROWS * blocks[b], 90);
        fill(2, ROWS, 40);
        for (int row = 0; row < ROWS; row++) {
            double sum = 0;
            for (int64_t j = row * blocks[b]; j < (row + 1) * blocks[b]; j++) {
                input[1][j] = 1 + fabsf(input[1][j]);
                sum += exp((double)input[0][j]) * (double)input[1][j];
            }
            exact[1][row] = log(sum);
            exact[0][row] = row < 2 ? log(sum) - (double)input[2][row] : row == 2 ? (double)NAN : 0;
        }
        check_call(&call, NULL, 5e-7, 5e-6);
    }
}

int main(int argc, char **argv) {
    static const test_case tests[] = {TEST(test_functions),        TEST(test_gelu),       TEST(test_silu_backward),
                                      TEST(test_binary),           TEST(test_sum),        TEST(test_sum_squares),
                                      TEST(test_softmax),          TEST(test_layer_norm), TEST(test_rms_norm),
                                      TEST(test_cross_entropy),    TEST(test_accumulate), TEST(test_columns),
                                      TEST(test_rounding),         TEST(test_dropout),    TEST(test_long_row),
                                      TEST(test_attention_cached), TEST(test_head_loss)};
    find_sets();
    return RUN_TESTS(tests, argc, argv);
}
