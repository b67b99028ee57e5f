/*
 * MATMUL and HEAD of kernel sets compared with sums in double: the tests of test_matmul.c and test_matmul_emulated.c,
 * each with its own sets. The including file fills in `sets` before it runs the tests.
 */
#ifndef EITP_TEST_PRODUCTS_H
#define EITP_TEST_PRODUCTS_H

#include "backends/cpu/features.h"
#include "backends/cpu/openblas.h"
#include "kernels/matmul.h"

#include "tests/support/test.h"

#include <sys/mman.h>

enum { MOST_SETS = EITP__ISA_COUNT + 1, GUARD = 64, LIMIT = 1 << 18, INPUTS = 4, CHAIN = 512 };

/* A set, and all kernels of a backend that uses it. Only the set's own kernels are tested. */
typedef struct product_set {
    const char *name;
    eitp__kernel_table table;
    int step; /* multiples of k at which accumulated products have the bits of a single one; 0: none */
} product_set;

static product_set sets[MOST_SETS];
static int set_count;
static int (*rounds)(const eitp__call *call); /* true if a call rounds intermediate values; NULL: no call does */
static int is_quick;                          /* fewer cases, for slow sets */
static size_t dtype_step = 1;

static double memory_y[2][LIMIT + 2 * GUARD], memory_z[2][LIMIT + 2 * GUARD];
static double exact[LIMIT], carried[LIMIT];
static double allowed[LIMIT]; /* errors allowed by the contract, besides the rounding of sums and results */
static unsigned char workspace_memory[(1 << 20) + 64];
static uint32_t random_state = 1;

static const eitp__kernel *kernel_of(const product_set *set, eitp__slot slot, eitp_dtype dtype) {
    const eitp__kernel *kernel = &set->table.kernels[slot][dtype];
    return kernel->run && strcmp(kernel->set, set->name) == 0 ? kernel : NULL;
}

/* Returns a random number in [-0.5, 0.5), a multiple of 2^-16. */
static double draw(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return (double)(random_state >> 16) / 65536.0 - 0.5;
}

static double get(const void *array, eitp_dtype dtype, int64_t index) {
    switch (dtype) {
    case EITP_BF16:
        return (double)eitp__bf16_to_f32(((const uint16_t *)array)[index]);
    case EITP_F16:
        return (double)eitp__f16_to_f32(((const uint16_t *)array)[index]);
    case EITP_F64:
        return ((const double *)array)[index];
    default:
        return (double)((const float *)array)[index];
    }
}

static void put(void *array, eitp_dtype dtype, int64_t index, double value) {
    switch (dtype) {
    case EITP_BF16:
        ((uint16_t *)array)[index] = eitp__f32_to_bf16((float)value);
        break;
    case EITP_F16:
        ((uint16_t *)array)[index] = eitp__f32_to_f16((float)value);
        break;
    case EITP_F64:
        ((double *)array)[index] = value;
        break;
    default:
        ((float *)array)[index] = (float)value;
        break;
    }
}

/* Returns the largest relative rounding error. */
static double rounding(eitp_dtype dtype) {
    return dtype == EITP_BF16 ? 0x1p-8 : dtype == EITP_F16 ? 0x1p-11 : dtype == EITP_F32 ? 0x1p-23 : 0x1p-52;
}

static eitp__operand operand(void *data, eitp_dtype dtype, int rank, const int64_t *shape) {
    eitp__operand x = EITP__ZERO;
    x.data = data;
    x.dtype = dtype;
    x.rank = rank;
    x.elements = 1;
    for (int i = 0; i < rank; i++) {
        x.shape[i] = shape[i];
        x.elements *= shape[i];
    }
    return x;
}

/* Returns memory for input `which` that ends at an unreadable page. */
static void *guarded(int which, int64_t elements, eitp_dtype dtype) {
    static char *regions[INPUTS];
    const size_t page = 65536, room = LIMIT * sizeof(double);
    if (!regions[which]) {
        void *region = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (region == MAP_FAILED || mprotect((char *)region + room, page, PROT_NONE)) {
            perror("mmap");
            exit(1);
        }
        regions[which] = (char *)region;
    }
    return regions[which] + room - (size_t)elements * eitp_dtype_size(dtype);
}

static unsigned char *scratch(void) {
    return workspace_memory + (64 - (uintptr_t)workspace_memory % 64) % 64;
}

static int64_t item_count(const eitp__kernel *kernel, const eitp__call *call) {
    eitp__matmul sizes = eitp__matmul_sizes(call);
    return sizes.batch * ((sizes.m + kernel->tile_rows - 1) / kernel->tile_rows) *
           ((sizes.n + kernel->tile_columns - 1) / kernel->tile_columns);
}

static void run_all(const eitp__kernel *kernel, const eitp__call *call) {
    eitp__kernel_run(kernel, call, 0, item_count(kernel, call), scratch());
}

/* Sets output `index` of a call, between guards. */
static void set_output(eitp__call *call, int index, eitp_dtype dtype, int rank, const int64_t *shape) {
    call->outputs[index] = operand((char *)memory_y[index] + GUARD * eitp_dtype_size(dtype), dtype, rank, shape);
    if (call->output_count <= index)
        call->output_count = index + 1;
}

static void set_input(eitp__call *call, int index, eitp_dtype dtype, int rank, const int64_t *shape) {
    eitp__operand x = operand(NULL, dtype, rank, shape);
    x.data = guarded(index, x.elements, dtype);
    for (int64_t i = 0; i < x.elements; i++)
        put(x.data, dtype, i, draw());
    call->inputs[index] = x;
    if (call->input_count <= index)
        call->input_count = index + 1;
}

typedef struct product_case {
    eitp_dtype dtype, y; /* of a and b, and of y */
    int rank;
    const int64_t *batch_a, *batch_b; /* batch dimensions, which broadcast */
    int64_t m, n, k;
    int transpose_a, transpose_b, has_bias, has_before;
    int carry; /* 0: does not accumulate; 1: carry NULL; 2, 3, 4: carry 0, 1, 0.5 */
    eitp__epilogue epilogue;
    int64_t stride; /* of the rows of a; 0: none */
} product_case;

/* Replaces a matrix by one whose rows have a stride, and end with zeros. */
static void pad_rows(eitp__operand *x, int64_t stride) {
    const int64_t rows = x->shape[0], columns = x->shape[1];
    const size_t size = eitp_dtype_size(x->dtype);
    char *dense = (char *)malloc((size_t)x->elements * size);
    memcpy(dense, x->data, (size_t)x->elements * size);
    x->elements = rows * stride;
    x->row_stride = stride;
    x->data = memset(guarded(0, x->elements, x->dtype), 0, (size_t)x->elements * size);
    for (int64_t i = 0; i < rows; i++)
        memcpy((char *)x->data + (size_t)(i * stride) * size, dense + (size_t)(i * columns) * size,
               (size_t)columns * size);
    free(dense);
}

static eitp__call matmul_call(const product_case *at) {
    int64_t a[EITP_MAX_RANK], b[EITP_MAX_RANK], y[EITP_MAX_RANK];
    int rank = at->rank;
    eitp__call call = EITP__ZERO;
    for (int i = 0; i < rank - 2; i++) {
        a[i] = at->batch_a[i];
        b[i] = at->batch_b[i];
        y[i] = a[i] == 1 ? b[i] : a[i];
    }
    a[rank - 2] = at->transpose_a ? at->k : at->m;
    a[rank - 1] = at->transpose_a ? at->m : at->k;
    b[rank - 2] = at->transpose_b ? at->n : at->k;
    b[rank - 1] = at->transpose_b ? at->k : at->n;
    y[rank - 2] = at->m;
    y[rank - 1] = at->n;
    call.slot = EITP__SLOT_MATMUL;
    call.dtype = at->dtype;
    set_input(&call, 0, at->dtype, rank, a);
    if (at->stride)
        pad_rows(&call.inputs[0], at->stride);
    set_input(&call, 1, at->dtype, rank, b);
    if (at->has_bias)
        set_input(&call, 2, eitp__wide(at->dtype), 1, &at->n);
    if (at->epilogue == EITP__EPILOGUE_ADD || at->epilogue >= EITP__EPILOGUE_GELU_TANH_BACKWARD)
        set_input(&call, 3, at->dtype, rank, y);
    set_output(&call, 0, at->y, rank, y);
    if (at->has_before)
        set_output(&call, 1, at->dtype, rank, y);
    call.integers[0] = at->transpose_a;
    call.integers[1] = at->transpose_b;
    call.integers[2] = at->epilogue;
    return call;
}

static void widen(const eitp__operand *x, double *to) {
    for (int64_t i = 0; i < x->elements; i++)
        to[i] = get(x->data, x->dtype, i);
}

/* Computes the product in double, starting from carry * `carried`. */
static void multiply_exactly(const eitp__call *call, double carry) {
    static double a[LIMIT], b[LIMIT], bias[LIMIT];
    const eitp__operand *x = call->inputs, *y = &call->outputs[0];
    int64_t m = y->shape[y->rank - 2], n = y->shape[y->rank - 1];
    int transpose_a = call->integers[0] != 0, transpose_b = call->integers[1] != 0;
    int64_t k = x[0].shape[x[0].rank - (transpose_a ? 2 : 1)], lda = eitp__row_stride_of(&x[0]);
    widen(&x[0], a);
    widen(&x[1], b);
    memset(bias, 0, (size_t)n * sizeof *bias);
    if (x[2].data)
        widen(&x[2], bias);
    for (int64_t index = 0; index < y->elements; index++) {
        int64_t row = index / n % m, column = index % n, rest = index / (m * n), start[2] = {0, 0};
        int64_t stride[2] = {m * k, k * n};
        for (int i = y->rank - 3; i >= 0; i--) {
            for (int which = 0; which < 2; which++) {
                if (x[which].shape[i] != 1)
                    start[which] += rest % y->shape[i] * stride[which];
                stride[which] *= x[which].shape[i];
            }
            rest /= y->shape[i];
        }
        double sum = bias[column] + (carry != 0 ? carry * carried[index] : 0);
        const double *p = a + start[0] + (transpose_a ? row : row * lda);
        const double *q = b + start[1] + (transpose_b ? column * k : column);
        for (int64_t step = 0; step < k; step++, p += transpose_a ? lda : 1, q += transpose_b ? 1 : n)
            sum += *p * *q;
        exact[index] = sum;
    }
}

static double gelu(int is_tanh, double x) {
    return is_tanh ? x / (1 + exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)))
                   : 0.5 * x * erfc(x * -0.70710678118654752);
}

static double gelu_slope(int is_tanh, double x) {
    double gate = x == 0 ? 0.5 : gelu(is_tanh, x) / x;
    if (!is_tanh)
        return gate + x * 0.3989422804014327 * exp(-0.5 * x * x);
    return gate + x * gate * (1 - gate) * 1.5957691216057308 * (1 + 0.134145 * x * x);
}

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

/* Returns the result of an epilogue for p. */
static double finish_exactly(const eitp__call *call, int64_t index, double p) {
    const eitp__operand *x = &call->inputs[3];
    double other = x->data ? get(x->data, x->dtype, index) : 0;
    switch ((eitp__epilogue)call->integers[2]) {
    case EITP__EPILOGUE_ADD:
        return other + p;
    case EITP__EPILOGUE_GELU_TANH:
        return gelu(1, p);
    case EITP__EPILOGUE_GELU_ERF:
        return gelu(0, p);
    case EITP__EPILOGUE_SILU:
        return p * sigmoid(p);
    case EITP__EPILOGUE_GELU_TANH_BACKWARD:
        return p * gelu_slope(1, other);
    case EITP__EPILOGUE_GELU_ERF_BACKWARD:
        return p * gelu_slope(0, other);
    case EITP__EPILOGUE_SILU_BACKWARD:
        return p * sigmoid(other) * (1 + other * (1 - sigmoid(other)));
    case EITP__EPILOGUE_NONE:
    case EITP__EPILOGUE_COUNT:
    default:
        return p;
    }
}

/* Checks that nothing was written around an output or beyond the workspace. */
static void check_guards(const char *set, const eitp__operand *x, const unsigned char *memory, size_t needed) {
    size_t around = GUARD * eitp_dtype_size(x->dtype),
           all = (size_t)x->elements * eitp_dtype_size(x->dtype) + 2 * around;
    int is_written = 0;
    for (size_t i = 0; i < around; i++)
        is_written |= memory[i] != 0x5a || memory[all - 1 - i] != 0x5a;
    CHECK_THAT(!is_written, "%s wrote outside an output", set);
    for (size_t i = 0; i < GUARD; i++)
        is_written |= scratch()[needed + i] != 0x5a;
    CHECK_THAT(!is_written, "%s wrote outside an output or its workspace", set);
}

/* The largest slope of an activation, and the largest factor of p in a derivative: 1.129, of GELU. */
#define MOST_SLOPE 1.13

/*
 * Sets `allowed` for a product of cuBLASLt with an output of 16 bits: see eitp__epilogue. Rounding has a relative error
 * of at most u. The rounded bias changes p by u |bias|, and `before` is rounded from that. An activation may be
 * computed from p before or after it is rounded, and multiplies the error by at most MOST_SLOPE. It is compared with
 * `stored`, the rounded p if `before` exists.
 */
static void allow_roundings(const eitp__call *call, int index, int has_before, const double *stored) {
    const eitp__operand *y = &call->outputs[0], *bias = &call->inputs[2];
    const double u = rounding(y->dtype);
    const int activates = call->integers[2] > EITP__EPILOGUE_ADD;
    for (int64_t i = 0; i < y->elements; i++) {
        const double b = bias->data ? fabs(get(bias->data, bias->dtype, i % bias->elements)) : 0;
        const double of_bias = has_before && index == 0 ? 0 : u * b;
        allowed[i] = index || !activates ? of_bias * (1 + u)
                                         : MOST_SLOPE * (of_bias + u * (fabs(stored[i]) + of_bias) * (1 + 2 * u));
    }
}

/* Compares output `index` with `exact`, both each element and the mean. Errors of a chain of additions grow with its
   length: in the mean, by squares, from CHAIN terms on. */
static void check_values(const eitp__kernel *kernel, const eitp__call *call, int index, int64_t k) {
    const eitp__operand *y = &call->outputs[index];
    double error = 0, norm = 0, extra = 0, unit = rounding(y->dtype), sum_unit = rounding(eitp__wide(call->dtype));
    double room = sum_unit * (2 + (double)k / 4), limit = unit * unit + 16 * sum_unit * sum_unit;
    int64_t wrong = 0;
    if (k > CHAIN)
        limit = unit * unit + 16 * sum_unit * sum_unit * (double)k / CHAIN;
    for (int64_t i = 0; i < y->elements; i++) {
        double difference = get(y->data, y->dtype, i) - exact[i];
        error += difference * difference;
        norm += exact[i] * exact[i];
        extra += 2 * allowed[i] * allowed[i];
        wrong += !(fabs(difference) <= unit * fabs(exact[i]) + 4 * room + allowed[i]);
    }
    CHECK_THAT(wrong == 0, "%s %s, output %d: %d elements are wrong", kernel->set, eitp_dtype_name(call->dtype), index,
               (int)wrong);
    CHECK_THAT(error <= limit * norm + (double)y->elements * sum_unit * sum_unit + extra, "%s %s, output %d: NMSE %g",
               kernel->set, eitp_dtype_name(call->dtype), index, error / norm);
}

/* Checks that a call run item by item, in reverse order, into other memory, gives the same bits. */
static void check_items(const eitp__kernel *kernel, eitp__call *call) {
    eitp__call other = *call;
    for (int i = 0; i < call->output_count; i++)
        other.outputs[i].data = (char *)memory_z[i] + ((char *)call->outputs[i].data - (char *)memory_y[i]);
    for (int64_t i = item_count(kernel, call); i > 0; i--)
        eitp__kernel_run(kernel, &other, i - 1, i, scratch());
    for (int i = 0; i < call->output_count; i++) {
        size_t size = eitp_dtype_size(call->outputs[i].dtype);
        CHECK_THAT(memcmp(memory_y[i], memory_z[i], ((size_t)call->outputs[i].elements + 2 * GUARD) * size) == 0,
                   "%s: its items one by one give other bits in output %d", kernel->set, i);
    }
}

/* Runs a call with one kernel. Its exact product is in `sums`. */
static void check_call(const eitp__kernel *kernel, eitp__call *call, const double *sums, int64_t k) {
    static double p[LIMIT]; /* input of the activation */
    eitp__operand *y = &call->outputs[0], *before = call->output_count > 1 ? &call->outputs[1] : NULL;
    size_t needed = kernel->workspace ? kernel->workspace(call) : 0;
    int is_rounded = rounds && rounds(call), is_read = call->accumulates && (!call->carry || call->carry[0] != 0.0f);
    REQUIRE(needed <= sizeof workspace_memory - 64 - GUARD && y->elements <= LIMIT);
    memset(scratch(), 0xff, needed);
    memset(scratch() + needed, 0x5a, GUARD);
    for (int i = 0; i < call->output_count; i++)
        memset(memory_y[i], 0x5a, (size_t)(y->elements + 2 * GUARD) * sizeof(double));
    for (int64_t i = 0; i < y->elements; i++)
        put(y->data, y->dtype, i, is_read ? carried[i] : (double)NAN);
    for (int i = 0; i < call->output_count; i++)
        memcpy(memory_z[i], memory_y[i], (size_t)(y->elements + 2 * GUARD) * sizeof(double));
    run_all(kernel, call);
    for (int i = 0; i < call->output_count; i++)
        check_guards(kernel->set, &call->outputs[i], (unsigned char *)memory_y[i], needed);
    memset(allowed, 0, (size_t)y->elements * sizeof *allowed);
    memcpy(exact, sums, (size_t)y->elements * sizeof *exact);
    if (before && is_rounded)
        allow_roundings(call, 1, 1, sums);
    if (before)
        check_values(kernel, call, 1, k);
    for (int64_t i = 0; i < y->elements; i++) {
        p[i] = before ? get(before->data, before->dtype, i) : sums[i];
        exact[i] = finish_exactly(call, i, p[i]);
    }
    if (is_rounded)
        allow_roundings(call, 0, before != NULL, p);
    check_values(kernel, call, 0, k);
    check_items(kernel, call);
}

/* Runs one case on every set that has its own kernels for the dtype. */
static void every_set(const product_case *at) {
    static const float carries[] = {0.0f, 1.0f, 0.5f};
    static double sums[LIMIT];
    eitp__call call = matmul_call(at);
    call.accumulates = at->carry > 0;
    call.carry = at->carry > 1 ? &carries[at->carry - 2] : NULL;
    for (int64_t i = 0; i < call.outputs[0].elements; i++)
        carried[i] = draw();
    multiply_exactly(&call, at->carry == 0 ? 0 : call.carry ? (double)call.carry[0] : 1);
    memcpy(sums, exact, (size_t)call.outputs[0].elements * sizeof *sums);
    for (int s = 0; s < set_count; s++) {
        const eitp__kernel *kernel = kernel_of(&sets[s], EITP__SLOT_MATMUL, at->dtype);
        int failures = test_failures_;
        if (kernel)
            check_call(kernel, &call, sums, at->k);
        if (test_failures_ != failures)
            printf("    in %s %s to %s, %d x %d x %d, transposes %d %d, bias %d, carry %d, epilogue %d, before %d\n",
                   sets[s].name, eitp_dtype_name(at->dtype), eitp_dtype_name(at->y), (int)at->m, (int)at->n, (int)at->k,
                   at->transpose_a, at->transpose_b, at->has_bias, at->carry, (int)at->epilogue, at->has_before);
    }
}

/* Runs every form, bias and carry with a WIDE y, or every `step`-th of these. */
static void every_form(product_case at, int step) {
    step = is_quick ? 7 : step;
    for (int choice = 0; choice < 40; choice += step) {
        at.transpose_a = choice & 1;
        at.transpose_b = choice >> 1 & 1;
        at.has_bias = choice >> 2 & 1;
        at.carry = choice >> 3;
        every_set(&at);
    }
}

static const eitp_dtype dtypes[] = {EITP_F32, EITP_F64, EITP_BF16, EITP_F16};

static product_case product(eitp_dtype dtype, int64_t m, int64_t n, int64_t k) {
    product_case at = EITP__ZERO;
    at.dtype = dtype;
    at.y = eitp__wide(dtype);
    at.rank = 2;
    at.m = m;
    at.n = n;
    at.k = k;
    return at;
}

static const int64_t shapes[][3] = {{1, 1, 1},      {133, 101, 300}, {33, 65, 35},  {2, 3, 4},      {4, 12, 5},
                                    {5, 13, 7},     {8, 48, 16},     {9, 49, 17},   {7, 24, 31},    {1, 200, 130},
                                    {130, 1, 129},  {128, 96, 128},  {129, 97, 9},  {260, 200, 33}, {300, 130, 257},
                                    {32, 192, 512}, {256, 384, 64},  {31, 191, 63}, {257, 193, 2}};

static void test_sizes(void) {
    for (size_t c = 0; c < EITP__COUNT(dtypes); c++)
        for (size_t i = 0; i < (is_quick ? 6 : EITP__COUNT(shapes)); i++)
            every_form(product(dtypes[c], shapes[i][0], shapes[i][1], shapes[i][2]), i < 9 ? 1 : 3);
}

/* Every epilogue in every form with a y of the column's dtype, and without an epilogue a WIDE y. */
static void test_epilogues(void) {
    for (size_t c = 0; c < EITP__COUNT(dtypes); c += dtype_step)
        for (size_t i = is_quick ? 2 : 0; i < (is_quick ? 3 : 6); i++)
            for (int choice = 0; choice < EITP__EPILOGUE_COUNT * 16; choice++) {
                product_case at = product(dtypes[c], shapes[i][0], shapes[i][1], shapes[i][2]);
                at.y = dtypes[c];
                at.transpose_a = choice & 1;
                at.transpose_b = choice >> 1 & 1;
                at.has_bias = choice >> 2 & 1;
                at.has_before = choice >> 3 & 1;
                at.epilogue = (eitp__epilogue)(choice >> 4);
                every_set(&at);
            }
}

static void test_batches(void) {
    static const int64_t batches[][2][2] = {{{2, 3}, {2, 3}}, {{1, 3}, {2, 1}}, {{2, 1}, {1, 1}}, {{1, 1}, {2, 3}}};
    for (size_t c = 0; c < EITP__COUNT(dtypes); c++)
        for (size_t i = 0; i < EITP__COUNT(batches); i++)
            for (int large = 0; large < (c % dtype_step ? 1 : 2); large++) {
                product_case at = large ? product(dtypes[c], 131, 98, 6) : product(dtypes[c], 5, 7, 11);
                at.rank = 4;
                at.batch_a = batches[i][0];
                at.batch_b = batches[i][1];
                every_form(at, 1);
            }
}

/* An operand of lower rank than the output. */
static void test_lower_rank(void) {
    static const int64_t ones[] = {1, 1}, sizes[] = {2, 3};
    for (int s = 0; s < set_count; s++) {
        const eitp__kernel *kernel = kernel_of(&sets[s], EITP__SLOT_MATMUL, EITP_F32);
        product_case at = product(EITP_F32, 3, 4, 5);
        at.rank = 4;
        at.batch_a = sizes;
        at.batch_b = ones;
        if (!kernel)
            continue;
        eitp__call call = matmul_call(&at);
        multiply_exactly(&call, 0);
        call.inputs[1] = operand(call.inputs[1].data, EITP_F32, 2, call.inputs[1].shape + 2);
        run_all(kernel, &call);
        for (int64_t i = 0; i < call.outputs[0].elements; i++)
            CHECK(fabs(get(call.outputs[0].data, EITP_F32, i) - exact[i]) < 1e-6);
    }
}

/* No rows: no items. No terms: the bias, the carried value, or zeros. */
static void test_empty(void) {
    for (size_t c = 0; c < EITP__COUNT(dtypes); c++) {
        product_case at = product(dtypes[c], 0, 5, 6);
        for (int s = 0; s < set_count; s++) {
            const eitp__kernel *kernel = kernel_of(&sets[s], EITP__SLOT_MATMUL, dtypes[c]);
            eitp__call call = matmul_call(&at);
            if (!kernel)
                continue;
            CHECK(item_count(kernel, &call) == 0);
            run_all(kernel, &call);
        }
        every_form(product(dtypes[c], 3, 50, 0), 1);
    }
}

/* One product over 256 steps has the same bits as accumulated products if k is cut at multiples allowed by the set. */
static void test_accumulation(void) {
    static const int64_t cuts[][3] = {{128, 128, 0}, {64, 64, 128},  {32, 192, 32},
                                      {2, 252, 2},   {100, 56, 100}, {1, 254, 1}};
    enum { M = 50, N = 70, K = 256 };
    static float one_product[M * N], parts[M * N];
    for (int s = 0; s < set_count; s++)
        for (size_t t = 0; t < EITP__COUNT(dtypes); t++)
            for (size_t c = 0; c < EITP__COUNT(cuts); c++) {
                const eitp__kernel *kernel = kernel_of(&sets[s], EITP__SLOT_MATMUL, dtypes[t]);
                int step = sets[s].step, is_wide = dtypes[t] == EITP_F64;
                if (!kernel || is_wide || !step || cuts[c][0] % step || cuts[c][1] % step)
                    continue;
                product_case at = product(dtypes[t], M, N, K);
                at.transpose_a = 1;
                eitp__call call = matmul_call(&at);
                float first = 0.0f;
                size_t size = eitp_dtype_size(dtypes[t]);
                char *a = (char *)call.inputs[0].data, *b = (char *)call.inputs[1].data;
                memset(parts, 0xff, sizeof parts);
                memset(one_product, 0xff, sizeof one_product);
                call.outputs[0].data = one_product;
                run_all(kernel, &call);
                call.outputs[0].data = parts;
                call.accumulates = 1;
                call.carry = &first;
                for (int64_t part = 0, done = 0; part < 3; done += cuts[c][part], part++, first = 1.0f) {
                    call.inputs[0].shape[0] = call.inputs[1].shape[0] = cuts[c][part];
                    call.inputs[0].data = a + (size_t)(done * M) * size;
                    call.inputs[1].data = b + (size_t)(done * N) * size;
                    run_all(kernel, &call);
                }
                CHECK_THAT(memcmp(one_product, parts, sizeof parts) == 0, "%s %s, cut %d", sets[s].name,
                           eitp_dtype_name(dtypes[t]), (int)c);
            }
}

/* The outputs of HEAD: sums in f32 and 16-bit values of at most 1. */
enum { HEAD_ROWS = 300, HEAD_BLOCKS = 5 };

/* Columns of a block, at most EITP__HEAD_BLOCK. */
static int64_t head_block = EITP__HEAD_BLOCK;

typedef struct head_memory {
    float before[GUARD], top[HEAD_ROWS * HEAD_BLOCKS], sum[HEAD_ROWS * HEAD_BLOCKS], picked[HEAD_ROWS], after[GUARD];
} head_memory;

/* The rows of logits have a stride, which is v if they are dense. */
static eitp__call head_call(eitp_dtype dtype, int64_t rows, int64_t v, int64_t c, int64_t stride, int32_t *targets,
                            head_memory *at) {
    int64_t x[2], table[2], e[2], blocks[2];
    eitp__call call = EITP__ZERO;
    x[0] = e[0] = blocks[0] = rows;
    x[1] = table[1] = c;
    table[0] = e[1] = v;
    blocks[1] = (v + head_block - 1) / head_block;
    call.slot = EITP__SLOT_HEAD;
    call.dtype = dtype;
    set_input(&call, 0, dtype, 2, x);
    set_input(&call, 1, dtype, 2, table);
    call.inputs[2] = operand(targets, EITP_I32, 1, x);
    call.input_count = 3;
    set_output(&call, 0, dtype, 2, e);
    call.outputs[0].elements = rows * stride;
    call.outputs[0].row_stride = stride == v ? 0 : stride;
    call.outputs[1] = operand(at->top, EITP_F32, 2, blocks);
    call.outputs[2] = operand(at->sum, EITP_F32, 2, blocks);
    call.outputs[3] = operand(at->picked, EITP_F32, 1, x);
    call.output_count = 4;
    return call;
}

/* Logits may have a relative error of `u`. An exponential multiplies it by the logit. */
static void check_head_row(const char *set, const eitp__call *call, const head_memory *at, int64_t row, double u) {
    int64_t v = call->outputs[0].shape[1], c = call->inputs[0].shape[1], blocks = call->outputs[1].shape[1];
    const int64_t stride = eitp__row_stride_of(&call->outputs[0]);
    int32_t target = ((const int32_t *)call->inputs[2].data)[row];
    double room = 1e-6 * (double)(c + 4), unit = rounding(call->dtype), logits[EITP__HEAD_BLOCK];
    for (int64_t block = 0; block < blocks; block++) {
        int64_t first = block * head_block, end = first + head_block < v ? first + head_block : v;
        double top = -INFINITY, sum = 0, largest = 0, sum_error = 0, stored_top = (double)at->top[row * blocks + block];
        for (int64_t j = first; j < end; j++) {
            double logit = 0;
            for (int64_t p = 0; p < c; p++)
                logit += get(call->inputs[0].data, call->dtype, row * c + p) *
                         get(call->inputs[1].data, call->dtype, j * c + p);
            logits[j - first] = logit;
            top = logit > top ? logit : top;
            largest = fmax(largest, fabs(logit));
            if (j == target)
                CHECK_THAT(fabs((double)at->picked[row] - logit) <= room + u * fabs(logit), "%s: picked", set);
        }
        CHECK_THAT(fabs(stored_top - top) <= room + u * largest, "%s: top %g for %g", set, stored_top, top);
        for (int64_t j = first; j < end; j++) {
            double value = exp(logits[j - first] - stored_top), error = value * expm1(u * fabs(logits[j - first])),
                   e = get(call->outputs[0].data, call->dtype, row * stride + j);
            sum += value;
            sum_error += error;
            CHECK_THAT(fabs(e - value) <= (unit + 2 * room) * value + (1 + unit) * error + 1e-7,
                       "%s: exponential %g for %g", set, e, value);
        }
        CHECK_THAT(fabs((double)at->sum[row * blocks + block] - sum) <= 2 * room * sum + (1 + 2 * room) * sum_error,
                   "%s: sum", set);
    }
    for (int64_t j = v; j < stride; j++)
        CHECK_THAT(get(call->outputs[0].data, call->dtype, row * stride + j) == 0, "%s: no zero after the logits", set);
    if (target < 0 || target >= v)
        CHECK_THAT(isnan(at->picked[row]), "%s: picked was written for a target outside", set);
}

static void check_head(const eitp__kernel *kernel, eitp_dtype dtype, int64_t rows, int64_t v, int64_t c,
                       int64_t stride) {
    static head_memory at, other;
    int32_t targets[HEAD_ROWS];
    eitp__call call = head_call(dtype, rows, v, c, stride, targets, &at);
    const double u = rounds && rounds(&call) ? rounding(dtype) : 0;
    REQUIRE(kernel->tile_columns == head_block && kernel->workspace(&call) <= sizeof workspace_memory - 64 - GUARD);
    for (int64_t i = 0; i < rows; i++)
        targets[i] = i % 7 == 3 ? -1 : i % 7 == 5 ? (int32_t)v : (int32_t)(i * 37 % v);
    memset(&at, 0xff, sizeof at);
    memset(memory_y[0], 0x5a, sizeof memory_y[0]);
    memset(memory_z[0], 0x5a, sizeof memory_z[0]);
    memset(scratch() + kernel->workspace(&call), 0x5a, GUARD);
    run_all(kernel, &call);
    check_guards(kernel->set, &call.outputs[0], (unsigned char *)memory_y[0], kernel->workspace(&call));
    for (int64_t row = 0; row < rows; row++)
        check_head_row(kernel->set, &call, &at, row, u);
    other = at;
    memset(&at, 0xff, sizeof at);
    call.outputs[0].data = (char *)memory_z[0] + GUARD * 2;
    for (int64_t i = item_count(kernel, &call); i > 0; i--)
        eitp__kernel_run(kernel, &call, i - 1, i, scratch());
    CHECK_THAT(memcmp(&at, &other, sizeof at) == 0 && memcmp(memory_y[0], memory_z[0], sizeof memory_y[0]) == 0,
               "%s: its items one by one give other bits", kernel->set);
}

static void test_head(void) {
    static const int64_t sizes[][3] = {{5, 200, 7}, {33, 400, 65},  {9, 131, 16},  {3, 192, 1},
                                       {1, 1, 3},   {260, 193, 40}, {40, 600, 129}};
    static const eitp_dtype halves[] = {EITP_BF16, EITP_F16};
    for (int s = 0; s < set_count; s++)
        for (size_t d = 0; d < 2; d++)
            for (size_t i = 0; i < (is_quick ? 3 : EITP__COUNT(sizes)); i++) {
                const eitp__kernel *kernel = kernel_of(&sets[s], EITP__SLOT_HEAD, halves[d]);
                int failures = test_failures_;
                if (kernel)
                    check_head(kernel, halves[d], sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][1]);
                if (test_failures_ != failures)
                    printf("    in %s %s, %d x %d x %d\n", sets[s].name, eitp_dtype_name(halves[d]), (int)sizes[i][0],
                           (int)sizes[i][1], (int)sizes[i][2]);
            }
}

#endif
