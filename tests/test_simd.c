/* The vector kernels of f32 beside the matrix product: every set this machine can run, against formulas in double. */
#include "kernels/kernels.h"

#include "tests/test.h"

#include <sys/mman.h>

enum { SETS = 2, GUARD = 32, ROOM = 1 << 17 };

static eitp__kernel_table tables[SETS];
static const char *const set_names[SETS] = {"avx2", "avx512"};
static int available[SETS];

static float input[EITP__MAX_INPUTS][ROOM];
static double output[EITP__MAX_OUTPUTS][ROOM], again[EITP__MAX_OUTPUTS][ROOM]; /* f32 or f64 */
static double exact[EITP__MAX_OUTPUTS][ROOM];
static double workspace[1 << 17];
static uint32_t random_state = 1;

/* A copy of an operand that ends where a page starts that must not be read. */
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

static void find_sets(void) {
    eitp__register_avx2_kernels(&tables[0]);
    eitp__register_avx512_kernels(&tables[1]);
#if defined(__x86_64__)
    __builtin_cpu_init();
    available[0] = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    available[1] = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
    for (int i = 0; i < SETS; i++)
        if (!available[i])
            printf("    skipped: %s, not in this build or not on this processor\n", set_names[i]);
}

/* In [-1, 1). */
static double draw(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return (double)(random_state >> 8) / 8388608.0 - 1.0;
}

static void fill(int which, int64_t count, double scale) {
    for (int64_t i = 0; i < count; i++)
        input[which][i] = (float)(scale * draw());
}

static eitp__operand operand(void *data, eitp_dtype dtype, int rank, int64_t d0, int64_t d1, int64_t d2) {
    eitp__operand x = EITP__ZERO;
    x.data = data;
    x.dtype = dtype;
    x.rank = rank;
    x.shape[0] = d0;
    x.shape[1] = d1;
    x.shape[2] = d2;
    x.elements = (rank > 0 ? d0 : 1) * (rank > 1 ? d1 : 1) * (rank > 2 ? d2 : 1);
    return x;
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
    default:
        return y->elements;
    }
}

static size_t output_bytes(const eitp__call *call, int which) {
    return (size_t)call->outputs[which].elements * eitp_dtype_size(call->outputs[which].dtype);
}

/* Points the outputs into `memory` between guard bytes; what they hold before is in `before`, or not a number. */
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
    const void *data = call->outputs[which].data;
    return call->outputs[which].dtype == EITP_F64 ? ((const double *)data)[index]
                                                  : (double)((const float *)data)[index];
}

/* Runs the call on every set, whole and in pieces of 1 and of 7 items, last first; compares with `exact`: an error may
   be `tolerance` of the value and `floor_` besides. */
static void check_call(eitp__call *original, const float *before, double tolerance, double floor_) {
    eitp__call copy = *original, *call = &copy;
    int64_t items = item_count(call);
    for (int i = 0; i < call->input_count; i++) {
        if (!call->inputs[i].data)
            continue;
        call->inputs[i].data = guarded_copy(i, &call->inputs[i]);
        REQUIRE(call->inputs[i].data);
    }
    for (int set = 0; set < SETS; set++) {
        const eitp__kernel *kernel = &tables[set].kernels[call->slot][call->dtype];
        if (!available[set])
            continue;
        REQUIRE(kernel->run);
        REQUIRE(!kernel->workspace || kernel->workspace(call) <= sizeof workspace);
        place_outputs(call, output, before);
        kernel->run(call, 0, items, workspace);
        for (int o = 0; o < call->output_count; o++) {
            const unsigned char *start = (const unsigned char *)output[o];
            double worst = 0;
            int64_t where = 0;
            for (int64_t i = 0; i < call->outputs[o].elements; i++) {
                double error = fabs(result(call, o, i) - exact[o][i]) / (tolerance * fabs(exact[o][i]) + floor_);
                if (!(error <= worst)) {
                    worst = error;
                    where = i;
                }
            }
            CHECK_THAT(worst <= 1, "%s %s output %d element %d: %.9g is not %.9g", set_names[set],
                       eitp__slot_name(call->slot), o, (int)where, result(call, o, where), exact[o][where]);
            for (int i = 0; i < GUARD; i++)
                CHECK(start[i] == 0x5a && start[GUARD + output_bytes(call, o) + (size_t)i] == 0x5a);
        }
        for (int64_t piece = 1; piece <= 7; piece += 6) {
            place_outputs(call, again, before);
            for (int64_t i = (items + piece - 1) / piece - 1; i >= 0; i--)
                kernel->run(call, i * piece, (i + 1) * piece < items ? (i + 1) * piece : items, workspace);
            for (int o = 0; o < call->output_count; o++)
                CHECK_THAT(memcmp(output[o], again[o], output_bytes(call, o) + 2 * GUARD) == 0,
                           "%s %s: pieces of %d items give other bits", set_names[set], eitp__slot_name(call->slot),
                           (int)piece);
        }
    }
}

/* The distance of a float from a value, in units of the last place of the value. */
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

/* The elementary functions over many bit patterns. */
static void test_functions(void) {
    static const struct {
        eitp__slot slot;
        double (*function)(double);
        double limit, least; /* 0 is right below `least` */
    } functions[] = {
        {EITP__SLOT_EXP, exp, 1.5, 0}, {EITP__SLOT_TANH, tanh, 2, 0}, {EITP__SLOT_SIGMOID, sigmoid, 3, 3e-39}};
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
        for (int set = 0; set < SETS; set++) {
            double worst = 0;
            int where = 0;
            if (!available[set])
                continue;
            place_outputs(&call, output, NULL);
            tables[set].kernels[call.slot][EITP_F32].run(&call, 0, N, NULL);
            for (int i = 0; i < N; i++) {
                double right = functions[f].function((double)input[0][i]);
                float value = ((float *)call.outputs[0].data)[i];
                double error = fabs(right) < functions[f].least && value == 0.0f ? 0 : units(value, right);
                if (!(error <= worst)) {
                    worst = error;
                    where = i;
                }
            }
            CHECK_THAT(worst <= functions[f].limit, "%s %s: %g units at %.9g", set_names[set],
                       eitp__slot_name(call.slot), worst, (double)input[0][where]);
        }
        for (int i = 0; i < 100; i++) {
            input[0][i] = (float)draw();
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
    check_call(&call, NULL, 2e-5, 1e-30); /* far below 0 the rounding of the exponent shows */
    call.slot = EITP__SLOT_GELU_TANH_BACKWARD;
    add_input(&call, 1, N, 1, 1);
    for (int i = 0; i < N; i++) {
        double x = (double)input[0][i], d = (double)input[1][i];
        double s = sigmoid(2 * k * (x + 0.044715 * x * x * x)), slope = 2 * k * (1 + 3 * 0.044715 * x * x);
        exact[0][i] = d * (s + (fabs(x) < 100 ? x * s * (1 - s) * slope : 0));
    }
    check_call(&call, NULL, 2e-5, 1e-6);
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
        for (int op = 0; op < 4; op++) {
            static const eitp__slot slots[] = {EITP__SLOT_ADD, EITP__SLOT_SUBTRACT, EITP__SLOT_MULTIPLY,
                                               EITP__SLOT_DIVIDE};
            eitp__call call = new_call(slots[op]);
            int64_t skip = b[0] == 1 ? b[1] == 1 ? 2 : 1 : 0; /* b with as few dimensions as it can have */
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
            for (int64_t i = 0; i < y[0] * y[1] * y[2]; i++) {
                int64_t p = i / (y[1] * y[2]), q = i / y[2] % y[1], r = i % y[2];
                int64_t at = ((a[0] == 1 ? 0 : p) * a[1] + (a[1] == 1 ? 0 : q)) * a[2] + (a[2] == 1 ? 0 : r);
                int64_t bt = ((b[0] == 1 ? 0 : p) * b[1] + (b[1] == 1 ? 0 : q)) * b[2] + (b[2] == 1 ? 0 : r);
                float u = input[0][at], v = input[1][bt];
                exact[0][i] = (double)(op == 0 ? u + v : op == 1 ? u - v : op == 2 ? u * v : u / v);
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

/* Rows 3, 4 and 5 have the ignored target and two that are no index: they cost nothing. */
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
            exact[0][row] = row >= 3 && row <= 5 ? 0 : log(sum) - (double)input[0][row * v + targets[row]];
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
                    row >= 3 && row <= 5
                        ? 0
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

int main(int argc, char **argv) {
    static const test_case tests[] = {TEST(test_functions),  TEST(test_gelu),          TEST(test_binary),
                                      TEST(test_sum),        TEST(test_sum_squares),   TEST(test_softmax),
                                      TEST(test_layer_norm), TEST(test_cross_entropy), TEST(test_accumulate)};
    find_sets();
    return RUN_TESTS(tests, argc, argv);
}
