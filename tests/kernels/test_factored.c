/* The kernels of the factored update compared with double, for every parameter format and every kernel set. */
#include "tests/support/kernel_sets.h"

#include "kernels/update.h"

/* Three blocks of sums; the last one ends inside a row and a vector. */
enum { MOST = 2 * EITP__SUM_BLOCK + 901, MOST_BLOCKS_OF_SUMS = 3, MOST_LINES = MOST };

typedef union plane {
    double f64[MOST];
    float f32[MOST];
    uint16_t bits[MOST];
    int16_t i16[MOST];
    int8_t i8[MOST];
} plane;

/* Dtypes of a parameter, its remainder and its gradient. EITP_DTYPE_COUNT: no remainder (BF16 then has a key). */
typedef struct form {
    eitp_dtype dtype, remainder, gradient;
} form;

#define NO_REMAINDER ((eitp_dtype)EITP_DTYPE_COUNT)

static const form forms[] = {{EITP_F32, NO_REMAINDER, EITP_F32},  {EITP_F64, NO_REMAINDER, EITP_F64},
                             {EITP_BF16, NO_REMAINDER, EITP_F32}, {EITP_BF16, EITP_I16, EITP_F32},
                             {EITP_BF16, EITP_I8, EITP_F32},      {EITP_F16, EITP_F32, EITP_F32},
                             {EITP_BF16, EITP_I16, EITP_BF16},    {EITP_BF16, NO_REMAINDER, EITP_BF16}};

static struct state { plane parameter, remainder; } now, before, once;

static plane gradient;
static float row_roots[MOST_LINES], column_roots[MOST_LINES], hyper[2], commit[2];
static float corrections[EITP__DIRECTIONS * MOST_LINES], old_directions[EITP__DIRECTIONS * MOST_LINES];
static double exact[MOST], old[MOST], sums[2 * MOST_BLOCKS_OF_SUMS], first_sums[2 * MOST_BLOCKS_OF_SUMS];
static int64_t key[3] = {77, 5, -1};
static double directions[EITP__SUM_BLOCK]; /* workspace of a kernel */

static double get(const plane *p, eitp_dtype dtype, int64_t i) {
    switch (dtype) {
    case EITP_F64:
        return p->f64[i];
    case EITP_BF16:
        return (double)eitp__bf16_to_f32(p->bits[i]);
    case EITP_F16:
        return (double)eitp__f16_to_f32(p->bits[i]);
    default:
        return (double)p->f32[i];
    }
}

static void put(plane *p, eitp_dtype dtype, int64_t i, double value) {
    if (dtype == EITP_F64)
        p->f64[i] = value;
    else if (dtype == EITP_BF16)
        p->bits[i] = eitp__f32_to_bf16((float)value);
    else if (dtype == EITP_F16)
        p->bits[i] = eitp__f32_to_f16((float)value);
    else
        p->f32[i] = (float)value;
}

/* ---- Squares ---- */

/* Processes rows [first, last) of the gradient. Column sums continue from `made` if there are earlier rows. */
static eitp__call squares_call(eitp__slot slot, eitp_dtype dtype, int64_t first, int64_t last, int64_t columns,
                               double *made) {
    char *rows = (char *)&gradient + (size_t)(first * columns) * eitp_dtype_size(dtype);
    eitp__call call = EITP__ZERO;
    int by_row = slot == EITP__SLOT_ROW_SQUARES;
    call.slot = slot;
    call.dtype = dtype;
    call.input_count = 2;
    call.output_count = 1;
    call.inputs[0] = operand(rows, dtype, 2, last - first, columns, 1);
    if (first && !by_row)
        call.inputs[1] = operand(made, EITP_F64, 1, columns, 1, 1);
    call.outputs[0] = operand(made + (by_row ? first : 0), EITP_F64, 1, by_row ? last - first : columns, 1, 1);
    return call;
}

/* Runs all items in two pieces, the last piece first. */
static void run_pieces(const eitp__kernel *kernel, const eitp__call *call, int64_t items) {
    kernel->run(call, items / 3, items, directions);
    kernel->run(call, 0, items / 3, directions);
}

static void check_squares(eitp__slot slot, eitp_dtype dtype, int64_t rows, int64_t columns) {
    static double made[MOST_LINES], again[MOST_LINES];
    int by_row = slot == EITP__SLOT_ROW_SQUARES;
    int64_t items = by_row ? rows : columns, cut = rows / 2;
    for (int64_t i = 0; i < rows * columns; i++)
        put(&gradient, dtype, i, draw());
    for (int isa = 0; isa < EITP__ISA_COUNT; isa++) {
        const eitp__kernel *kernel = &tables[isa].kernels[slot][dtype];
        eitp__call call = squares_call(slot, dtype, 0, rows, columns, made);
        if (!available[isa])
            continue;
        REQUIRE(kernel->run);
        kernel->run(&call, 0, items, directions);
        memset(exact, 0, (size_t)items * sizeof *exact);
        for (int64_t i = 0; i < rows * columns; i++)
            exact[by_row ? i / columns : i % columns] += get(&gradient, dtype, i) * get(&gradient, dtype, i);
        for (int64_t i = 0; i < items; i++)
            CHECK_THAT(fabs(made[i] - exact[i]) <= 1e-14 * exact[i], "%s %s: %g, not %g",
                       eitp__isa_name((eitp__isa)isa), eitp__slot_name(slot), made[i], exact[i]);
        call = squares_call(slot, dtype, 0, cut, columns, again);
        run_pieces(kernel, &call, by_row ? cut : columns);
        call = squares_call(slot, dtype, cut, rows, columns, again);
        run_pieces(kernel, &call, by_row ? rows - cut : columns);
        CHECK_THAT(!memcmp(made, again, (size_t)items * sizeof *made), "%s %s: rows in pieces give another result",
                   eitp__isa_name((eitp__isa)isa), eitp__slot_name(slot));
    }
}

static void test_squares(void) {
    static const int64_t sizes[][2] = {{1, 1}, {2, 133}, {133, 3}, {31, 64}, {129, 257}};
    for (int dtype = EITP_F32; dtype <= EITP_F16; dtype++)
        for (size_t s = 0; s < EITP__COUNT(sizes); s++)
            for (int slot = EITP__SLOT_ROW_SQUARES; slot <= EITP__SLOT_COLUMN_SQUARES; slot++)
                check_squares((eitp__slot)slot, (eitp_dtype)dtype, sizes[s][0], sizes[s][1]);
}

/* ---- Products with directions ---- */

/* Processes rows [first, last) of the gradient. Column products continue from `made` if there are earlier rows. */
static eitp__call products_call(eitp__slot slot, eitp_dtype dtype, int64_t first, int64_t last, int64_t columns,
                                float *made) {
    eitp__call call = squares_call(slot, dtype, first, last, columns, NULL);
    int64_t rows = last - first, k = EITP__DIRECTIONS;
    call.input_count = slot == EITP__SLOT_ROW_PRODUCTS ? 2 : 3;
    if (slot == EITP__SLOT_ROW_PRODUCTS) {
        call.inputs[1] = operand(old_directions, EITP_F32, 2, k, columns, 1);
        call.outputs[0] = operand(made + first * k, EITP_F32, 2, rows, k, 1);
        return call;
    }
    call.inputs[1] = operand(corrections + first * k, EITP_F32, 2, rows, k, 1);
    call.inputs[2] = operand(first ? made : NULL, EITP_F32, 2, k, columns, 1);
    call.outputs[0] = operand(made, EITP_F32, 2, k, columns, 1);
    return call;
}

/* Computes the product of the gradient with directions, or of its columns with products, and the sums of absolute
   values. */
static void find_products(eitp__slot slot, eitp_dtype dtype, int64_t rows, int64_t columns, double *sizes) {
    int64_t k = EITP__DIRECTIONS, made = slot == EITP__SLOT_ROW_PRODUCTS ? rows * k : columns * k;
    memset(exact, 0, (size_t)made * sizeof *exact);
    memset(sizes, 0, (size_t)made * sizeof *sizes);
    for (int64_t i = 0; i < rows * columns; i++) {
        for (int64_t t = 0; t < k; t++) {
            int64_t row = i / columns, column = i % columns;
            int64_t at = slot == EITP__SLOT_ROW_PRODUCTS ? row * k + t : t * columns + column;
            float by =
                slot == EITP__SLOT_ROW_PRODUCTS ? old_directions[t * columns + column] : corrections[row * k + t];
            exact[at] += get(&gradient, dtype, i) * (double)by;
            sizes[at] += fabs(get(&gradient, dtype, i) * (double)by);
        }
    }
}

static void check_products(eitp__slot slot, eitp_dtype dtype, int64_t rows, int64_t columns) {
    static float made[EITP__DIRECTIONS * MOST_LINES], again[EITP__DIRECTIONS * MOST_LINES];
    static double sizes[MOST];
    int by_row = slot == EITP__SLOT_ROW_PRODUCTS;
    int64_t items = by_row ? rows : columns, cut = rows / 2, count = items * EITP__DIRECTIONS;
    for (int64_t i = 0; i < rows * columns; i++)
        put(&gradient, dtype, i, draw());
    for (int64_t i = 0; i < EITP__DIRECTIONS * (rows > columns ? rows : columns); i++) {
        corrections[i] = (float)draw();
        old_directions[i] = (float)draw();
    }
    find_products(slot, dtype, rows, columns, sizes);
    for (int isa = 0; isa < EITP__ISA_COUNT; isa++) {
        const eitp__kernel *kernel = &tables[isa].kernels[slot][dtype];
        eitp__call call = products_call(slot, dtype, 0, rows, columns, made);
        if (!available[isa])
            continue;
        REQUIRE(kernel->run);
        kernel->run(&call, 0, items, directions);
        for (int64_t i = 0; i < count; i++)
            CHECK_THAT(fabs((double)made[i] - exact[i]) <= 1e-6 * (double)items + 1e-5 * sizes[i], "%s %s: %g, not %g",
                       eitp__isa_name((eitp__isa)isa), eitp__slot_name(slot), (double)made[i], exact[i]);
        call = products_call(slot, dtype, 0, cut, columns, again);
        run_pieces(kernel, &call, by_row ? cut : columns);
        call = products_call(slot, dtype, cut, rows, columns, again);
        run_pieces(kernel, &call, by_row ? rows - cut : columns);
        CHECK_THAT(!memcmp(made, again, (size_t)count * sizeof *made), "%s %s: rows in pieces give another result",
                   eitp__isa_name((eitp__isa)isa), eitp__slot_name(slot));
    }
}

static void test_products(void) {
    static const int64_t sizes[][2] = {{1, 1}, {2, 133}, {133, 3}, {31, 64}, {129, 57}};
    for (int dtype = EITP_F32; dtype <= EITP_F16; dtype++)
        for (size_t s = 0; s < EITP__COUNT(sizes); s++)
            for (int slot = EITP__SLOT_ROW_PRODUCTS; slot <= EITP__SLOT_COLUMN_PRODUCTS; slot++)
                check_products((eitp__slot)slot, (eitp_dtype)dtype, sizes[s][0], sizes[s][1]);
}

/* ---- Means ---- */

enum { ROWS = 5, COLUMNS = 7 };

/* The means after some steps. The second moment is v = R C / mean(R). */
static void check_means(int has_rows, float scale, float apply) {
    float rows[ROWS], columns[COLUMNS], old_rows[ROWS], old_columns[COLUMNS];
    double row_squares[ROWS], column_squares[COLUMNS], mean = 0, share = has_rows ? ROWS : 1;
    const float step[2] = {0.1f, 3}, made[2] = {scale, apply};
    eitp__call call = EITP__ZERO;
    for (int i = 0; i < ROWS; i++) {
        old_rows[i] = rows[i] = (float)fabs(draw());
        row_squares[i] = i == 2 ? 0 : fabs(draw()) * COLUMNS;
    }
    for (int j = 0; j < COLUMNS; j++) {
        old_columns[j] = columns[j] = (float)fabs(draw());
        column_squares[j] = fabs(draw()) * share;
    }
    call.slot = EITP__SLOT_FACTORED_MEANS;
    call.reals[0] = 0.9;
    call.input_count = 6;
    call.inputs[0] = call.outputs[0] = operand(columns, EITP_F32, 1, COLUMNS, 1, 1);
    call.inputs[1] = operand(column_squares, EITP_F64, 1, COLUMNS, 1, 1);
    call.inputs[2] = operand((void *)(uintptr_t)step, EITP_F32, 1, 2, 1, 1);
    call.inputs[3] = operand((void *)(uintptr_t)made, EITP_F32, 1, 2, 1, 1);
    if (has_rows) {
        call.inputs[4] = call.outputs[3] = operand(rows, EITP_F32, 1, ROWS, 1, 1);
        call.inputs[5] = operand(row_squares, EITP_F64, 1, ROWS, 1, 1);
    }
    call.outputs[1] = operand(column_roots, EITP_F32, 1, COLUMNS, 1, 1);
    call.outputs[2] = operand(row_roots, EITP_F32, 1, has_rows ? ROWS : 1, 1, 1);
    call.output_count = has_rows ? 4 : 3;
    tables[EITP__ISA_REF].kernels[EITP__SLOT_FACTORED_MEANS][EITP_F32].run(&call, 0, 1, NULL);
    if (apply == 0.0f) {
        CHECK(!memcmp(rows, old_rows, sizeof rows) && !memcmp(columns, old_columns, sizeof columns));
        return;
    }
    for (int i = 0; i < ROWS && has_rows; i++) {
        double wanted = 0.9 * (double)old_rows[i] + 0.1 * (double)(scale * scale) * row_squares[i] / COLUMNS;
        CHECK_THAT(fabs((double)rows[i] - wanted) <= 1e-6, "row %d is %g, not %g", i, (double)rows[i], wanted);
        mean += (double)rows[i] / ROWS;
    }
    for (int j = 0; j < COLUMNS; j++) {
        double wanted = 0.9 * (double)old_columns[j] + 0.1 * (double)(scale * scale) * column_squares[j] / share;
        CHECK_THAT(fabs((double)columns[j] - wanted) <= 1e-6, "column %d is %g, not %g", j, (double)columns[j], wanted);
        for (int i = 0; i < (has_rows ? ROWS : 1); i++) {
            double root = (double)row_roots[i] * (double)column_roots[j];
            double v = (double)columns[j] * (has_rows ? (double)rows[i] / mean : 1) / (1 - 0.9 * 0.9 * 0.9);
            CHECK_THAT(fabs(root * root - v) <= 1e-5 * v, "v of %d, %d is %g, not %g", i, j, root * root, v);
        }
    }
}

static void test_means(void) {
    for (int has_rows = 0; has_rows < 2; has_rows++) {
        check_means(has_rows, 1, 1);
        check_means(has_rows, 0.25f, 1);
        check_means(has_rows, 0, 0);
        check_means(has_rows, NAN, 0);
    }
}

/* If all gradients were zero, nothing is divided by zero and nothing changes. */
static void test_means_of_nothing(void) {
    float rows[ROWS] = {0}, columns[COLUMNS] = {0}, made[2] = {1, 1}, step[2] = {1, 1};
    double row_squares[ROWS] = {0}, column_squares[COLUMNS] = {0};
    eitp__call call = EITP__ZERO;
    call.slot = EITP__SLOT_FACTORED_MEANS;
    call.reals[0] = 0.9;
    call.input_count = 6;
    call.output_count = 4;
    call.inputs[0] = call.outputs[0] = operand(columns, EITP_F32, 1, COLUMNS, 1, 1);
    call.inputs[1] = operand(column_squares, EITP_F64, 1, COLUMNS, 1, 1);
    call.inputs[2] = operand(step, EITP_F32, 1, 2, 1, 1);
    call.inputs[3] = operand(made, EITP_F32, 1, 2, 1, 1);
    call.inputs[4] = call.outputs[3] = operand(rows, EITP_F32, 1, ROWS, 1, 1);
    call.inputs[5] = operand(row_squares, EITP_F64, 1, ROWS, 1, 1);
    call.outputs[1] = operand(column_roots, EITP_F32, 1, COLUMNS, 1, 1);
    call.outputs[2] = operand(row_roots, EITP_F32, 1, ROWS, 1, 1);
    tables[EITP__ISA_REF].kernels[EITP__SLOT_FACTORED_MEANS][EITP_F32].run(&call, 0, 1, NULL);
    for (int i = 0; i < ROWS; i++)
        CHECK(row_roots[i] == 0);
    for (int j = 0; j < COLUMNS; j++)
        CHECK(column_roots[j] == 0);
}

/* ---- The first moment ---- */

enum { K = EITP__DIRECTIONS, WIDE_COLUMNS = 37 };

typedef struct moment_case {
    float directions[K * WIDE_COLUMNS], m[ROWS * K], corrections[ROWS * K], old_directions[K * WIDE_COLUMNS];
    float row_products[ROWS * K], column_products[K * WIDE_COLUMNS], step[2], made[2];
    double squares[WIDE_COLUMNS];
    int64_t columns;
} moment_case;

static void run_moment(moment_case *c) {
    eitp__call call = EITP__ZERO;
    call.slot = EITP__SLOT_FACTORED_MOMENTUM;
    call.reals[0] = 0.9;
    call.input_count = 7;
    call.output_count = 4;
    call.inputs[0] = call.outputs[0] = operand(c->directions, EITP_F32, 2, K, c->columns, 1);
    call.inputs[1] = call.outputs[1] = operand(c->m, EITP_F32, 2, ROWS, K, 1);
    call.inputs[2] = operand(c->row_products, EITP_F32, 2, ROWS, K, 1);
    call.inputs[3] = operand(c->column_products, EITP_F32, 2, K, c->columns, 1);
    call.inputs[4] = operand(c->step, EITP_F32, 1, 2, 1, 1);
    call.inputs[5] = operand(c->made, EITP_F32, 1, 2, 1, 1);
    call.inputs[6] = operand(c->squares, EITP_F64, 1, c->columns, 1, 1);
    call.outputs[2] = operand(c->corrections, EITP_F32, 2, ROWS, K, 1);
    call.outputs[3] = operand(c->old_directions, EITP_F32, 2, K, c->columns, 1);
    tables[EITP__ISA_REF].kernels[EITP__SLOT_FACTORED_MOMENTUM][EITP_F32].run(&call, 0, 1, NULL);
}

/* Column 4 is zero. */
static moment_case begin_moment(int64_t columns) {
    moment_case c = EITP__ZERO;
    c.columns = columns;
    c.step[1] = 1;
    c.made[0] = c.made[1] = 1;
    for (int64_t j = 0; j < columns; j++)
        c.squares[j] = j == 4 ? 0 : fabs(draw()) + 0.1;
    return c;
}

static void check_orthogonal(const moment_case *c) {
    for (int64_t s = 0; s < K; s++) {
        for (int64_t t = 0; t <= s; t++) {
            double dot = 0, wanted = s == t && s < (c->columns > 4 ? K : c->columns > 2 ? 3 : c->columns);
            for (int64_t j = 0; j < c->columns; j++)
                dot += (double)c->directions[s * c->columns + j] * (double)c->directions[t * c->columns + j];
            CHECK_THAT(fabs(dot - wanted) < 1e-5, "%d columns: directions %d and %d: %g", (int)c->columns, (int)s,
                       (int)t, dot);
        }
    }
}

/* The first step finds directions and has no correction yet. A matrix may have fewer columns than directions. */
static void test_moment_first_step(void) {
    for (int64_t columns = 1; columns <= WIDE_COLUMNS; columns += 3) {
        moment_case c = begin_moment(columns);
        run_moment(&c);
        check_orthogonal(&c);
        for (int i = 0; i < ROWS * K; i++)
            CHECK(c.corrections[i] == 0 && c.m[i] == 0);
        for (int64_t t = 0; t < K && columns > 4; t++)
            CHECK(c.directions[t * columns + 4] == 0);
    }
}

/* Compares means, corrections, new directions and m with double. */
static void test_moment_against_double(void) {
    moment_case c = begin_moment(WIDE_COLUMNS), from;
    double turned[K][WIDE_COLUMNS], mean[ROWS][K];
    run_moment(&c);
    for (int i = 0; i < ROWS * K; i++) {
        c.m[i] = (float)draw();
        c.row_products[i] = (float)draw();
    }
    for (int i = 0; i < K * WIDE_COLUMNS; i++)
        c.column_products[i] = (float)draw();
    c.step[1] = 3;
    c.made[0] = 0.25f;
    from = c;
    run_moment(&c);
    CHECK(!memcmp(c.old_directions, from.directions, sizeof c.old_directions));
    for (int i = 0; i < ROWS * K; i++) {
        double product = 0.25 * (double)c.row_products[i], m = 0.9 * (double)from.m[i] + 0.1 * product;
        double wanted = m / (1 - 0.9 * 0.9 * 0.9) - product;
        mean[i / K][i % K] = m;
        CHECK_THAT(fabs((double)c.corrections[i] - wanted) < 1e-5, "corrections %g, not %g", (double)c.corrections[i],
                   wanted);
    }
    for (int t = 0; t < K; t++) {
        double size = 0, rest = 0;
        for (int j = 0; j < WIDE_COLUMNS; j++)
            size += pow((double)c.column_products[t * WIDE_COLUMNS + j], 2);
        for (int j = 0; j < WIDE_COLUMNS; j++)
            turned[t][j] = 0.9 * (double)from.directions[t * WIDE_COLUMNS + j] +
                           0.1 * (double)c.column_products[t * WIDE_COLUMNS + j] / sqrt(size);
        for (int s = 0; s < t; s++) {
            double dot = 0;
            for (int j = 0; j < WIDE_COLUMNS; j++)
                dot += turned[s][j] * turned[t][j];
            for (int j = 0; j < WIDE_COLUMNS; j++)
                turned[t][j] -= dot * turned[s][j];
        }
        for (int j = 0; j < WIDE_COLUMNS; j++)
            rest += turned[t][j] * turned[t][j];
        for (int j = 0; j < WIDE_COLUMNS; j++) {
            turned[t][j] /= sqrt(rest);
            CHECK(fabs((double)c.directions[t * WIDE_COLUMNS + j] - turned[t][j]) < 1e-5);
        }
    }
    for (int i = 0; i < ROWS * K; i++) {
        double wanted = 0;
        for (int s = 0; s < K; s++)
            for (int j = 0; j < WIDE_COLUMNS; j++)
                wanted += mean[i / K][s] * (double)from.directions[s * WIDE_COLUMNS + j] * turned[i % K][j];
        CHECK_THAT(fabs((double)c.m[i] - wanted) < 1e-5, "m is %g, not %g", (double)c.m[i], wanted);
    }
    check_orthogonal(&c);
}

static void test_moment_of_a_skipped_step(void) {
    moment_case c = begin_moment(WIDE_COLUMNS), from;
    run_moment(&c);
    c.made[0] = c.made[1] = 0;
    c.row_products[1] = c.column_products[2] = NAN;
    from = c;
    run_moment(&c);
    CHECK(!memcmp(c.directions, from.directions, sizeof c.directions) && !memcmp(c.m, from.m, sizeof c.m));
}

/* Gradients with alternating signs along one direction: the direction is found, and the gradient along it is
   replaced by its mean. */
static void test_moment_finds_the_direction(void) {
    moment_case c = begin_moment(WIDE_COLUMNS);
    double found = 0, by_row[ROWS], direction[WIDE_COLUMNS], size = 0;
    for (int j = 0; j < WIDE_COLUMNS; j++) {
        direction[j] = draw();
        size += direction[j] * direction[j];
    }
    for (int i = 0; i < ROWS; i++)
        by_row[i] = draw();
    for (int step = 1; step <= 60; step++) {
        double sign = step % 2 ? -1 : 1;
        c.step[1] = (float)step;
        memset(c.column_products, 0, sizeof c.column_products);
        for (int i = 0; i < ROWS * K; i++) {
            double sum = 0;
            for (int j = 0; j < WIDE_COLUMNS; j++)
                sum += (double)c.directions[i % K * WIDE_COLUMNS + j] * direction[j] / sqrt(size);
            c.row_products[i] = (float)(sign * by_row[i / K] * sum);
            for (int j = 0; j < WIDE_COLUMNS; j++)
                c.column_products[i % K * WIDE_COLUMNS + j] +=
                    (float)(sign * by_row[i / K] * direction[j] / sqrt(size)) * c.row_products[i];
        }
        run_moment(&c);
    }
    for (int j = 0; j < WIDE_COLUMNS; j++)
        found += (double)c.directions[j] * direction[j] / sqrt(size);
    CHECK_THAT(fabs(found) > 0.999, "%g of the direction", found);
    for (int i = 0; i < ROWS; i++) /* an alternating gradient is damped to about a twentieth */
        CHECK(fabs((double)(c.corrections[i * K] + c.row_products[i * K])) < 0.1 * fabs(by_row[i]));
}

/* ---- The update ---- */

typedef struct update_case {
    const form *f;
    int64_t rows, columns;
    double gradient; /* size of the gradient in units of the roots */
    float apply;
    int has_moment; /* a correction along directions is applied */
} update_case;

static double get_parameter(const form *f, int64_t i) {
    if (f->remainder == EITP_I16)
        return (double)eitp__join_bf16(now.parameter.bits[i], now.remainder.i16[i]);
    if (f->remainder == EITP_I8)
        return (double)eitp__join_correction(now.parameter.bits[i], now.remainder.i8[i]);
    return get(&now.parameter, f->dtype, i) + (f->dtype == EITP_F16 ? (double)now.remainder.f32[i] : 0);
}

static void put_parameter(const form *f, int64_t i, double value) {
    if (f->remainder == EITP_I16)
        eitp__split_bf16((float)value, &now.parameter.bits[i], &now.remainder.i16[i]);
    else if (f->remainder == EITP_I8)
        eitp__split_correction((float)value, &now.parameter.bits[i], &now.remainder.i8[i]);
    else
        put(&now.parameter, f->dtype, i, value);
    if (f->dtype == EITP_F16)
        now.remainder.f32[i] = (float)(value - get(&now.parameter, EITP_F16, i));
}

static double epsilon = 1e-3, decay = 0.1;

/* Fills a case whose row roots range from 0.01 to 100. One row and one column are zero, also in the gradient. */
static void fill_case(const update_case *c) {
    memset(&now, 0, sizeof now);
    hyper[0] = 0.01f;
    hyper[1] = 5;
    commit[0] = c->apply != 0.0f ? 0.5f : 0.0f;
    commit[1] = c->apply;
    for (int64_t i = 0; i < c->rows; i++)
        row_roots[i] = i == 3 ? 0.0f : (float)pow(10, 2 * draw());
    for (int64_t j = 0; j < c->columns; j++)
        column_roots[j] = j == 4 ? 0.0f : (float)(2 + draw());
    for (int64_t i = 0; i < c->rows * K; i++)
        corrections[i] = row_roots[i / K] * (float)draw();
    for (int64_t i = 0; i < c->columns * K; i++)
        old_directions[i] = column_roots[i % c->columns] * (float)draw();
    for (int64_t i = 0; i < c->rows * c->columns; i++) {
        double root = (double)row_roots[i / c->columns] * (double)column_roots[i % c->columns];
        put_parameter(c->f, i, draw());
        put(&gradient, c->f->gradient, i, 2 * c->gradient * root * draw());
    }
    if (c->apply == 0.0f)
        put(&gradient, c->f->gradient, 0, NAN);
    before = now;
}

/* Computes the updated and the old parameter in double. */
static void find_exact(const update_case *c) {
    int64_t count = c->rows * c->columns;
    for (int64_t first = 0; first < count; first += EITP__SUM_BLOCK) {
        int64_t last = first + EITP__SUM_BLOCK < count ? first + EITP__SUM_BLOCK : count;
        double squares = 0, size;
        for (int64_t i = first; i < last; i++) {
            double root = (double)row_roots[i / c->columns] * (double)column_roots[i % c->columns];
            exact[i] = (double)commit[0] * get(&gradient, c->f->gradient, i);
            for (int64_t t = 0; t < K && c->has_moment; t++)
                exact[i] += (double)corrections[i / c->columns * K + t] *
                            (double)old_directions[t * c->columns + i % c->columns];
            exact[i] /= root + epsilon;
            squares += exact[i] * exact[i];
        }
        size = sqrt(squares / (double)(last - first));
        for (int64_t i = first; i < last; i++) {
            old[i] = get_parameter(c->f, i);
            exact[i] = old[i] * (1 - (double)hyper[0] * decay) - (double)hyper[0] * exact[i] / fmax(1, size);
            exact[i] = c->apply != 0.0f ? exact[i] : old[i];
        }
    }
}

/* Updates rows [first, last). */
static eitp__call update_call(const update_case *c, int64_t first, int64_t last) {
    const form *f = c->f;
    size_t at = (size_t)(first * c->columns);
    int64_t rows = last - first;
    eitp__call call = EITP__ZERO;
    call.slot = EITP__SLOT_UPDATE;
    call.dtype = f->dtype;
    call.inputs[EITP__UPDATE_PARAMETER] = call.outputs[0] =
        operand((char *)&now.parameter + at * eitp_dtype_size(f->dtype), f->dtype, 2, rows, c->columns, 1);
    call.inputs[EITP__UPDATE_GRADIENT] =
        operand((char *)&gradient + at * eitp_dtype_size(f->gradient), f->gradient, 2, rows, c->columns, 1);
    call.inputs[EITP__UPDATE_STATE] = operand(row_roots + first, EITP_F32, 1, rows, 1, 1);
    call.inputs[EITP__UPDATE_STATE + 1] = operand(column_roots, EITP_F32, 1, c->columns, 1, 1);
    call.inputs[EITP__UPDATE_RATE] = operand(hyper, EITP_F32, 1, 2, 1, 1);
    call.inputs[EITP__UPDATE_COMMIT] = operand(commit, EITP_F32, 1, 2, 1, 1);
    call.outputs[1] = operand(sums + 2 * (at / EITP__SUM_BLOCK), EITP_F64, 2,
                              (rows * c->columns + EITP__SUM_BLOCK - 1) / EITP__SUM_BLOCK, 2, 1);
    call.input_count = EITP__UPDATE_INPUTS;
    call.output_count = 2;
    if (c->has_moment) {
        call.inputs[EITP__UPDATE_STATE + 2] = operand(corrections + first * K, EITP_F32, 2, rows, K, 1);
        call.inputs[EITP__UPDATE_STATE + 3] = operand(old_directions, EITP_F32, 2, K, c->columns, 1);
    }
    if (f->remainder != NO_REMAINDER)
        call.inputs[EITP__UPDATE_REMAINDER] = call.outputs[call.output_count++] =
            operand((char *)&now.remainder + at * eitp_dtype_size(f->remainder), f->remainder, 2, rows, c->columns, 1);
    else if (f->dtype == EITP_BF16)
        call.inputs[EITP__UPDATE_KEY] = operand(key, EITP_I64, 1, 3, 1, 1);
    call.integers[0] = 1500;
    call.integers[1] = (int64_t)at;
    call.integers[2] = EITP__UPDATE_RULE_FACTORED;
    call.reals[2] = epsilon;
    call.reals[3] = decay;
    return call;
}

/* Runs the last block first. */
static void run(const eitp__kernel *kernel, const update_case *c, int64_t first, int64_t last) {
    eitp__call call = update_call(c, first, last);
    CHECK(kernel->workspace(&call) > 0 && kernel->workspace(&call) <= sizeof directions);
    for (int64_t block = call.outputs[1].shape[0]; block-- > 0;)
        kernel->run(&call, block, block + 1, directions);
}

/* Maximum difference between a value and its stored form. */
static double parameter_step(const form *f, double value) {
    double half_unit = ldexp(1, ilogb(value) - 8);
    if (f->dtype != EITP_BF16 || f->remainder == EITP_I16)
        return 0;
    return f->remainder == EITP_I8 ? 1.01 * half_unit / 254 : 2 * half_unit;
}

static void check_sums(const update_case *c, const char *set) {
    int64_t count = c->rows * c->columns;
    for (int64_t block = 0; block * EITP__SUM_BLOCK < count; block++) {
        double update = 0, whole = 0;
        for (int64_t i = block * EITP__SUM_BLOCK; i < count && i < (block + 1) * EITP__SUM_BLOCK; i++) {
            update += (exact[i] - old[i]) * (exact[i] - old[i]);
            whole += exact[i] * exact[i];
        }
        CHECK_THAT(fabs(sums[2 * block] - update) <= 1e-3 * update, "%s: update %g, not %g", set, sums[2 * block],
                   update);
        CHECK_THAT(fabs(sums[2 * block + 1] - whole) <= 1e-6 * whole, "%s: parameter %g, not %g", set,
                   sums[2 * block + 1], whole);
    }
}

/* Stochastic rounding depends on the position in the parameter, not in the piece. */
static void check_rounding(const update_case *c, const char *set) {
    int64_t others = 0, count = c->rows * c->columns;
    for (int64_t i = 0; i < count; i++)
        others += now.parameter.bits[i] != eitp__round_bf16((float)exact[i], eitp__random_half(key, 1500, (uint64_t)i));
    CHECK_THAT(others <= count / 200 + 1, "%s: %d are rounded differently", set, (int)others);
}

/* With 128 columns a block ends at a row's end every 128 rows. Pieces that end there give the same result as one
   call. */
static void check_in_pieces(const update_case *c, const eitp__kernel *kernel, const char *set) {
    int64_t cut = EITP__SUM_BLOCK / c->columns;
    once = now;
    memcpy(first_sums, sums, sizeof sums);
    now = before;
    run(kernel, c, cut, c->rows);
    run(kernel, c, 0, cut);
    CHECK_THAT(!memcmp(&now, &once, sizeof now) && !memcmp(sums, first_sums, sizeof sums),
               "%s: %s in pieces gives another result", set, eitp_dtype_name(c->f->dtype));
}

static void check_set(const update_case *c, const eitp__kernel *kernel, const char *set) {
    fill_case(c);
    find_exact(c);
    run(kernel, c, 0, c->rows);
    for (int64_t i = 0; i < c->rows * c->columns && c->apply != 0.0f; i++) {
        double p = get_parameter(c->f, i);
        CHECK_THAT(fabs(p - exact[i]) <= 1e-6 + parameter_step(c->f, exact[i]), "%s %s: parameter %d is %.9g, not %.9g",
                   set, eitp_dtype_name(c->f->dtype), (int)i, p, exact[i]);
    }
    if (c->apply == 0.0f)
        CHECK_THAT(!memcmp(&now, &before, sizeof now), "%s: an update that was not applied changed a value", set);
    check_sums(c, set);
    if (c->f->dtype == EITP_BF16 && c->f->remainder == NO_REMAINDER && c->apply != 0.0f)
        check_rounding(c, set);
}

/* On a device, if rows are whole vectors, each operand in turn starts at an unaligned base. */
static void check_case(const form *f, int64_t rows, int64_t columns, double size, float apply, int has_moment) {
    eitp__call call;
    update_case c;
    c.has_moment = has_moment;
    c.f = f;
    c.rows = rows;
    c.columns = columns;
    c.gradient = size;
    c.apply = apply;
    for (int isa = 0; isa < EITP__ISA_COUNT; isa++) {
        const eitp__kernel *kernel = &tables[isa].kernels[EITP__SLOT_UPDATE][f->dtype];
        const char *set = eitp__isa_name((eitp__isa)isa);
        if (!available[isa])
            continue;
        REQUIRE(kernel->run);
        call = update_call(&c, 0, rows);
        while (rows < 128 && columns % 4 == 0 && cuda_displace_next(&call))
            check_set(&c, kernel, set);
        check_set(&c, kernel, set);
        if (columns == 128 && rows > 128)
            check_in_pieces(&c, kernel, set);
    }
}

static void test_update(void) {
    for (size_t f = 0; f < EITP__COUNT(forms); f++) {
        for (int has_moment = 0; has_moment < 2; has_moment++) {
            check_case(&forms[f], 1, 133, 1, 1, has_moment);
            check_case(&forms[f], 133, 1, 1, 1, has_moment);
            check_case(&forms[f], 37, 5, 0.25, 1, has_moment);
            check_case(&forms[f], 9, 300, 30, 1, has_moment);
            check_case(&forms[f], 131, 257, 1, 1, has_moment);
            check_case(&forms[f], 261, 128, 5, 1, has_moment);
            check_case(&forms[f], 19, 17, 1, 0, has_moment);
        }
    }
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(test_squares),
        TEST(test_products),
        TEST(test_means),
        TEST(test_means_of_nothing),
        TEST(test_moment_first_step),
        TEST(test_moment_against_double),
        TEST(test_moment_of_a_skipped_step),
        TEST(test_moment_finds_the_direction),
        TEST(test_update),
    };
    find_sets();
    return RUN_TESTS(tests, argc, argv);
}
