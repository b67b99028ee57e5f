/*
 * Every slot except MATMUL and HEAD, for each of its dtypes, compared with formulas in double on every kernel set that
 * this machine can run: values, bytes around the outputs, and the same bits in any pieces. With TEST_EMULATED, AVX-512
 * is emulated in software.
 */
#include "base/convert.h"
#include "tests/support/kernel_sets.h"

enum { GUARD = 64 };

/*
 * The current case: a call, its expected outputs, the outputs' contents before the call, and the input that each output
 * overwrites.
 */
static eitp__call call;
static double *exact[EITP__MAX_OUTPUTS];
static const void *before[EITP__MAX_OUTPUTS]; /* NULL: poison */
static int shares[EITP__MAX_OUTPUTS];         /* -1: none */
static const char *detail;

/* ---- Memory and numbers ---- */

static int64_t draw_below(int64_t limit) {
    return (int64_t)((draw() + 1) / 2 * (double)limit);
}

static double get(const eitp__operand *x, int64_t i) {
    switch (x->dtype) {
    case EITP_F32:
        return (double)((const float *)x->data)[i];
    case EITP_F64:
        return ((const double *)x->data)[i];
    case EITP_BF16:
        return (double)eitp__bf16_to_f32(((const uint16_t *)x->data)[i]);
    case EITP_F16:
        return (double)eitp__f16_to_f32(((const uint16_t *)x->data)[i]);
    case EITP_I64:
        return (double)((const int64_t *)x->data)[i];
    case EITP_I32:
        return (double)((const int32_t *)x->data)[i];
    case EITP_I16:
        return (double)((const int16_t *)x->data)[i];
    case EITP_I8:
        return (double)((const int8_t *)x->data)[i];
    default:
        return (double)((const uint8_t *)x->data)[i];
    }
}

static void put(eitp__operand *x, int64_t i, double value) {
    switch (x->dtype) {
    case EITP_F32:
        ((float *)x->data)[i] = (float)value;
        break;
    case EITP_F64:
        ((double *)x->data)[i] = value;
        break;
    case EITP_BF16:
        ((uint16_t *)x->data)[i] = eitp__f32_to_bf16((float)value);
        break;
    case EITP_F16:
        ((uint16_t *)x->data)[i] = eitp__f32_to_f16((float)value);
        break;
    case EITP_I64:
        ((int64_t *)x->data)[i] = (int64_t)value;
        break;
    case EITP_I32:
        ((int32_t *)x->data)[i] = (int32_t)value;
        break;
    case EITP_I16:
        ((int16_t *)x->data)[i] = (int16_t)value;
        break;
    case EITP_I8:
        ((int8_t *)x->data)[i] = (int8_t)value;
        break;
    default:
        ((uint8_t *)x->data)[i] = (uint8_t)value;
    }
}

static double in(int which, int64_t i) {
    return get(&call.inputs[which], i);
}

static size_t bytes_of(const eitp__operand *x) {
    return (size_t)x->elements * eitp_dtype_size(x->dtype);
}

/* ---- Building a case ---- */

static void begin_case(eitp__slot slot, eitp_dtype dtype) {
    release_blocks(0);
    memset(&call, 0, sizeof call);
    call.slot = slot;
    call.dtype = dtype;
    for (int o = 0; o < EITP__MAX_OUTPUTS; o++) {
        before[o] = NULL;
        shares[o] = -1;
    }
    detail = "";
}

static void set_shape(eitp__operand *x, eitp_dtype dtype, int rank, const int64_t *shape) {
    memset(x, 0, sizeof *x);
    x->dtype = dtype;
    x->rank = rank;
    x->elements = 1;
    for (int d = 0; d < rank; d++) {
        x->shape[d] = shape[d];
        x->elements *= shape[d];
    }
}

/* Adds an input of integers in -50 ... 50 (0 ... 50 for U8), or of real numbers in [-1, 1). */
static eitp__operand *add_input_shape(eitp_dtype dtype, int rank, const int64_t *shape) {
    eitp__operand *x = &call.inputs[call.input_count++];
    set_shape(x, dtype, rank, shape);
    x->data = block(bytes_of(x));
    for (int64_t i = 0; i < x->elements; i++) {
        double value = draw();
        put(x, i, dtype <= EITP_F16 ? value : dtype == EITP_U8 ? floor(fabs(value) * 50) : floor(value * 50));
    }
    return x;
}

static eitp__operand *add_input(eitp_dtype dtype, int rank, int64_t d0, int64_t d1, int64_t d2) {
    int64_t shape[3];
    shape[0] = d0;
    shape[1] = d1;
    shape[2] = d2;
    return add_input_shape(dtype, rank, shape);
}

static void add_absent_input(void) {
    memset(&call.inputs[call.input_count++], 0, sizeof call.inputs[0]);
}

static void add_output_shape(eitp_dtype dtype, int rank, const int64_t *shape) {
    int o = call.output_count++;
    set_shape(&call.outputs[o], dtype, rank, shape);
    exact[o] = (double *)block((size_t)call.outputs[o].elements * sizeof(double));
}

static void add_output(eitp_dtype dtype, int rank, int64_t d0, int64_t d1, int64_t d2) {
    int64_t shape[3];
    shape[0] = d0;
    shape[1] = d1;
    shape[2] = d2;
    add_output_shape(dtype, rank, shape);
}

/* Fills output o with real numbers before the call. */
static const eitp__operand *add_before(int o) {
    eitp__operand *x = (eitp__operand *)block(sizeof *x);
    *x = call.outputs[o];
    x->data = block(bytes_of(x));
    for (int64_t i = 0; i < x->elements; i++)
        put(x, i, draw());
    before[o] = x->data;
    return x;
}

/* ---- Checking a case ---- */

static int64_t count_items(void) {
    const eitp__operand *x = &call.inputs[0], *y = &call.outputs[0];
    int64_t columns;
    switch (eitp__slot_family(call.slot)) {
    case EITP__FAMILY_ROWS:
        columns = x->rank ? x->shape[x->rank - 1] : 1;
        return x->elements / columns;
    case EITP__FAMILY_COLUMNS:
        return y->rank ? y->shape[y->rank - 1] : 1;
    case EITP__FAMILY_LINES:
        return y->elements / y->shape[call.integers[0]];
    case EITP__FAMILY_ATTENTION:
        return (call.inputs[1].elements - 1) * call.integers[0];
    case EITP__FAMILY_WHOLE:
        return 1;
    default:
        return y->elements;
    }
}

/* Places each output between guards, with its values before the call. */
static void place_outputs(eitp__call *placed) {
    for (int o = 0; o < placed->output_count; o++) {
        eitp__operand *y = &placed->outputs[o];
        size_t bytes = bytes_of(y);
        char *memory = (char *)block(bytes + 2 * GUARD);
        memset(memory, 0x5a, bytes + 2 * GUARD);
        y->data = memory + GUARD;
        if (shares[o] >= 0) {
            memcpy(y->data, call.inputs[shares[o]].data, bytes);
            placed->inputs[shares[o]].data = y->data;
        } else if (before[o]) {
            memcpy(y->data, before[o], bytes);
        } else {
            memset(y->data, 0xff, bytes);
        }
    }
}

static int guards_hold(const eitp__operand *y) {
    const unsigned char *start = (const unsigned char *)y->data - GUARD, *end = start + GUARD + bytes_of(y);
    for (int i = 0; i < GUARD; i++)
        if (start[i] != 0x5a || end[i] != 0x5a)
            return 0;
    return 1;
}

/* Runs the case in pieces of `piece` items, the last piece first. */
static void run_pieces(const eitp__kernel *kernel, const eitp__call *placed, int64_t items, int64_t piece) {
    size_t size = kernel->workspace ? kernel->workspace(placed) : 0;
    void *workspace = kernel->workspace ? aligned_alloc(EITP__ALIGNMENT, (size + 127) / 64 * 64) : NULL;
    if (workspace)
        memset(workspace, 0xff, size);
    for (int64_t end = items; end > 0;) {
        int64_t begin = (end - 1) / piece * piece;
        kernel->run(placed, begin, end, workspace);
        end = begin;
    }
    free(workspace);
}

/* Largest rounding error of a dtype: relative to the value, or absolute for small F16 values. */
static double rounding(eitp_dtype dtype, double value) {
    if (dtype == EITP_BF16)
        return 0.00390625 * fabs(value);
    return dtype == EITP_F16 ? fmax(0.00048828125 * fabs(value), 2.98023224e-8) : 0;
}

static void compare(const char *set, const eitp__operand *y, int o, double tolerance, double floor_) {
    double worst = 0;
    int64_t where = -1;
    for (int64_t i = 0; i < y->elements; i++) {
        double got = get(y, i), want = exact[o][i], error;
        if (got == want || (got != got && want != want))
            continue;
        error = tolerance * (fabs(want) + floor_);
        error = fabs(got - want) / (error > 0 ? error + rounding(y->dtype, want) : 0);
        error = error != error ? INFINITY : error;
        if (where < 0 || error > worst) {
            worst = error;
            where = i;
        }
    }
    CHECK_THAT(where < 0 || worst <= 1,
               "%s %s %s %s, displaced operand %d: output %d at %lld is %.9g, not %.9g (%.3g times the tolerance)", set,
               eitp__slot_name(call.slot), eitp_dtype_name(call.dtype), detail, cuda_displaced, o, (long long)where,
               get(y, where), exact[o][where], worst);
}

/* Runs the case in one piece and compares its outputs. */
static eitp__call check_whole(const eitp__kernel *kernel, int64_t items, double tolerance, double floor_) {
    eitp__call whole = call;
    place_outputs(&whole);
    run_pieces(kernel, &whole, items, items ? items : 1);
    for (int o = 0; o < call.output_count; o++) {
        compare(kernel->set, &whole.outputs[o], o, tolerance, floor_);
        CHECK_THAT(guards_hold(&whole.outputs[o]), "%s %s %s: wrote around output %d", kernel->set,
                   eitp__slot_name(call.slot), detail, o);
    }
    return whole;
}

/* True if fewer shapes are tested, for slots that are slow on the emulated device. */
static int is_few(void) {
    return uses_cuda() && test_is_quick();
}

/* True if a type is similar to F32 or BF16 on the emulated device. */
static int is_similar(eitp_dtype dtype) {
    return dtype == EITP_F64 || dtype == EITP_F16;
}

/* True if the case is also tested with unaligned bases. With fewer cases, not where kernels have no use for aligned
   ones: rows that start anywhere, since their width is not a multiple of 16 bytes. */
static int has_bases(void) {
    const eitp__operand *x = &call.inputs[0];
    const int is_flat = eitp__slot_family(call.slot) == EITP__FAMILY_FLAT;
    return !is_few() || (!is_similar(call.dtype) && (is_flat || !x->rank || x->shape[x->rank - 1] % 8 == 0));
}

/*
 * The allowed error of an element is `tolerance` times (its size + `floor_`) before it is rounded to its type. A
 * tolerance of 0 requires equal values. On a device, each operand in turn starts at an unaligned base. Devices have no
 * pieces: the same call again must give the same bits.
 */
static void check_set(int set, double tolerance, double floor_) {
    const eitp__kernel *kernel = &tables[set].kernels[call.slot][call.dtype];
    static const int64_t pieces[] = {1, 7, 64};
    int64_t items = count_items();
    int kept = held_count;
    eitp__call whole;
    while (has_bases() && cuda_displace_next(&call))
        check_whole(kernel, items, tolerance, floor_);
    whole = check_whole(kernel, items, tolerance, floor_);
    for (size_t p = 0; p < (uses_cuda() ? 1 : EITP__COUNT(pieces)) && pieces[p] < items; p++) {
        eitp__call cut = call;
        place_outputs(&cut);
        run_pieces(kernel, &cut, items, pieces[p]);
        for (int o = 0; o < call.output_count; o++) {
            CHECK_THAT(!memcmp(cut.outputs[o].data, whole.outputs[o].data, bytes_of(&cut.outputs[o])),
                       "%s %s %s: pieces of %lld change output %d", kernel->set, eitp__slot_name(call.slot), detail,
                       (long long)pieces[p], o);
            CHECK_THAT(guards_hold(&cut.outputs[o]), "%s %s %s: pieces of %lld write around output %d", kernel->set,
                       eitp__slot_name(call.slot), detail, (long long)pieces[p], o);
        }
    }
    release_blocks(kept);
}

static void check(double tolerance, double floor_) {
    void *copies[EITP__MAX_INPUTS];
    int kept = held_count;
    for (int i = 0; i < call.input_count; i++) {
        copies[i] = block(bytes_of(&call.inputs[i]));
        if (call.inputs[i].data)
            memcpy(copies[i], call.inputs[i].data, bytes_of(&call.inputs[i]));
    }
    for (int set = 0; set < EITP__ISA_COUNT; set++) {
        const eitp__kernel *kernel = &tables[set].kernels[call.slot][call.dtype];
        CHECK_THAT(kernel->run, "no kernel for %s %s", eitp__slot_name(call.slot), eitp_dtype_name(call.dtype));
        if (available[set] && kernel->run && (!kernel->supports || kernel->supports(&call)) &&
            (!set || kernel->run != tables[set - 1].kernels[call.slot][call.dtype].run))
            check_set(set, tolerance, floor_);
    }
    for (int i = 0; i < call.input_count; i++)
        CHECK_THAT(!call.inputs[i].data || !memcmp(copies[i], call.inputs[i].data, bytes_of(&call.inputs[i])),
                   "%s: input %d was changed", eitp__slot_name(call.slot), i);
    release_blocks(kept);
}

/* Like check, and again with output 0 in the memory of each of the first `inputs` inputs. */
static void check_in_place(int inputs, double tolerance, double floor_) {
    check(tolerance, floor_);
    for (shares[0] = 0; shares[0] < inputs; shares[0]++)
        check(tolerance, floor_);
    shares[0] = -1;
}

/* Tolerance for single precision. */
static double precision(eitp_dtype dtype) {
    return dtype == EITP_F64 ? 1e-13 : 2e-6;
}

/* ---- Positions ---- */

static void unravel(const eitp__operand *x, int64_t item, int64_t index[EITP_MAX_RANK]) {
    for (int d = x->rank - 1; d >= 0; d--) {
        index[d] = item % x->shape[d];
        item /= x->shape[d];
    }
}

static int64_t ravel(const eitp__operand *x, const int64_t *index) {
    int64_t item = 0;
    for (int d = 0; d < x->rank; d++)
        item = item * x->shape[d] + index[d];
    return item;
}

/* Index of the element of x that broadcasts to element `item` of y. */
static int64_t source_of(const eitp__operand *x, const eitp__operand *y, int64_t item) {
    int64_t index[EITP_MAX_RANK], from[EITP_MAX_RANK];
    unravel(y, item, index);
    for (int d = 0; d < x->rank; d++)
        from[d] = x->shape[d] == 1 ? 0 : index[y->rank - x->rank + d];
    return ravel(x, from);
}

/* ---- The table ---- */

static int has(eitp__slot slot, eitp_dtype dtype) {
    const eitp__kernel *kernel = &tables[EITP__ISA_REF].kernels[slot][dtype];
    return kernel->run && kernel->set && !strcmp(kernel->set, uses_cuda() ? "cuda" : "ref");
}

/* 1 if a slot has 16-bit columns, 0 if not, -1 if another test covers them. */
static int in_16_bits(eitp__slot slot) {
    switch (slot) {
    case EITP__SLOT_SCATTER_ADD:
    case EITP__SLOT_LOGDET:
    case EITP__SLOT_INVERSE_SPD:
    case EITP__SLOT_HEAD_LOSS:
    case EITP__SLOT_TOTAL:
    case EITP__SLOT_COMMIT:
    case EITP__SLOT_FACTORED_MEANS:
    case EITP__SLOT_FACTORED_MOMENTUM:
        return 0;
    case EITP__SLOT_MATMUL:
    case EITP__SLOT_ATTENTION:
    case EITP__SLOT_ATTENTION_BACKWARD:
    case EITP__SLOT_ATTENTION_CACHED:
    case EITP__SLOT_HEAD:
    case EITP__SLOT_UPDATE:
        return -1;
    default:
        return 1;
    }
}

/* The table of the set `ref`. */
static void test_table(void) {
    if (uses_cuda())
        return;
    for (int s = 0; s < EITP__SLOT_COUNT; s++) {
        eitp__slot slot = (eitp__slot)s;
        int is_fused = slot >= EITP__SLOT_SOFTMAX && slot <= EITP__SLOT_HEAD_BACKWARD;
        CHECK_THAT(has(slot, EITP_F32) == (slot != EITP__SLOT_COMMIT && slot != EITP__SLOT_HEAD), "%s",
                   eitp__slot_name(slot));
        CHECK_THAT(has(slot, EITP_F64) == (!is_fused && slot != EITP__SLOT_TOTAL && slot != EITP__SLOT_FACTORED_MEANS &&
                                           slot != EITP__SLOT_FACTORED_MOMENTUM),
                   "%s", eitp__slot_name(slot));
        for (int d = EITP_BF16; d <= EITP_F16; d++)
            CHECK_THAT(in_16_bits(slot) < 0 || has(slot, (eitp_dtype)d) == in_16_bits(slot), "%s",
                       eitp__slot_name(slot));
        if (slot >= EITP__SLOT_WHERE && slot <= EITP__SLOT_CONCAT)
            for (int dtype = 0; dtype < EITP_DTYPE_COUNT; dtype++)
                CHECK_THAT(has(slot, (eitp_dtype)dtype), "%s", eitp__slot_name(slot));
    }
    CHECK(has(EITP__SLOT_LESS, EITP_I32) && has(EITP__SLOT_EQUAL, EITP_I32));
}

/* ---- Fill, arange and casts ---- */

static void test_fill_and_arange(void) {
    for (int d = 0; d < EITP_DTYPE_COUNT; d++) {
        begin_case(EITP__SLOT_FILL, (eitp_dtype)d);
        add_output(call.dtype, 2, 13, 9, 0);
        call.reals[0] = 42;
        for (int64_t i = 0; i < 117; i++)
            exact[0][i] = 42;
        check(0, 0);
        begin_case(EITP__SLOT_ARANGE, (eitp_dtype)d);
        add_output(call.dtype, 1, 101, 0, 0);
        for (int64_t i = 0; i < 101; i++)
            exact[0][i] = (double)i;
        check(0, 0);
    }
    begin_case(EITP__SLOT_FILL, EITP_F64);
    add_output(EITP_F64, 1, 3000, 0, 0);
    call.reals[0] = 0.1;
    for (int64_t i = 0; i < 3000; i++)
        exact[0][i] = 0.1;
    check(0, 0);
}

/* Converts as C does. Where C leaves the result undefined, returns the nearest value of the type. */
static double cast_exactly(double value, int from_real, eitp_dtype to) {
    static const struct {
        double low, high;
    } ranges[EITP_DTYPE_COUNT] = {{0, 0},
                                  {0, 0},
                                  {0, 0},
                                  {0, 0},
                                  {-9223372036854775808.0, 9223372036854775807.0},
                                  {-2147483648.0, 2147483647.0},
                                  {-128, 127},
                                  {0, 255},
                                  {-32768, 32767}};
    double low = ranges[to].low, high = ranges[to].high;
    double span = high - low + 1;
    if (to == EITP_F64)
        return value;
    if (to == EITP_F32)
        return (double)(float)value;
    if (to == EITP_BF16)
        return (double)eitp__bf16_to_f32(eitp__f32_to_bf16((float)value));
    if (to == EITP_F16)
        return (double)eitp__f16_to_f32(eitp__f32_to_f16((float)value));
    if (value != value)
        return 0;
    value = trunc(value);
    if (from_real || to == EITP_I64)
        return value < low ? low : value > high ? high : value;
    return value - floor((value - low) / span) * span;
}

static void test_cast(void) {
    static const double values[] = {
        0,     -0.0,  1,      -1,      0.5,        -0.5,         1.5,          2.5,     -2.5,
        127,   127.9, 128,    -128.5,  -129,       255,          255.5,        256,     300,
        32767, 65504, 65519,  65520,   1e-8,       6.1e-5,       5.97e-8,      2.98e-8, 1e10,
        -1e10, 1e20,  -1e20,  3e38,    1e-40,      1.00390625,   1.01171875,   2049,    2051,
        4e18,  -4e18, 9.3e18, -9.3e18, 2147483647, 2147483648.0, -2147483649.0};
    int64_t count = EITP__COUNT(values);
    for (int from = 0; from < EITP_DTYPE_COUNT; from++) {
        int is_real = from <= EITP_F16;
        for (int to = 0; to < EITP_DTYPE_COUNT; to++) {
            eitp__operand *x;
            begin_case(EITP__SLOT_CAST, (eitp_dtype)from);
            detail = eitp_dtype_name((eitp_dtype)to);
            x = add_input(call.dtype, 1, 3 * count, 0, 0);
            for (int64_t i = 0; i < count; i++) {
                double value = cast_exactly(values[i], 1, call.dtype);
                /* 2^63 is not an int64_t: the nearest double below it. */
                put(x, i, from == EITP_I64 && value > 9.2233e18 ? 9223372036854774784.0 : value);
            }
            if (is_real) {
                put(x, count, NAN);
                put(x, count + 1, INFINITY);
                put(x, count + 2, -INFINITY);
            }
            add_output((eitp_dtype)to, 1, 3 * count, 0, 0);
            for (int64_t i = 0; i < 3 * count; i++)
                exact[0][i] = cast_exactly(in(0, i), is_real, (eitp_dtype)to);
            check(0, 0);
        }
    }
}

/* Converts all 16-bit patterns to f32, and them and their f32 neighbors back. */
static void test_cast_16_bits(void) {
    static const eitp_dtype types[] = {EITP_BF16, EITP_F16};
    for (int t = 0; t < 2; t++) {
        eitp_dtype dtype = types[t];
        eitp__operand *x;
        begin_case(EITP__SLOT_CAST, dtype);
        x = add_input(dtype, 1, 65536, 0, 0);
        for (int64_t i = 0; i < 65536; i++)
            ((uint16_t *)x->data)[i] = (uint16_t)i;
        add_output(EITP_F32, 1, 65536, 0, 0);
        for (int64_t i = 0; i < 65536; i++)
            exact[0][i] = in(0, i);
        check(0, 0);
        begin_case(EITP__SLOT_CAST, EITP_F32);
        x = add_input(EITP_F32, 1, 1 << 19, 0, 0);
        for (uint32_t i = 0; i < 1u << 19; i++) {
            uint32_t bits = i << 13, halves[3] = {0, 0xfff, 0x1001}, pattern = bits + halves[i % 3];
            memcpy((float *)x->data + i, &pattern, sizeof pattern);
        }
        add_output(dtype, 1, 1 << 19, 0, 0);
        for (int64_t i = 0; i < 1 << 19; i++)
            exact[0][i] = cast_exactly(in(0, i), 1, dtype);
        check(0, 0);
    }
}

/* ---- Elementwise ---- */

static double gelu_tanh(double x) {
    return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

static double gelu_erf(double x) {
    return 0.5 * x * erfc(-x / sqrt(2.0));
}

static double silu(double x) {
    return x / (1 + exp(-x));
}

static double unary(eitp__slot slot, double x) {
    switch (slot) {
    case EITP__SLOT_NEGATE:
        return -x;
    case EITP__SLOT_ABS:
        return fabs(x);
    case EITP__SLOT_EXP:
        return exp(x);
    case EITP__SLOT_LOG:
        return log(x);
    case EITP__SLOT_SQRT:
        return sqrt(x);
    case EITP__SLOT_RSQRT:
        return 1 / sqrt(x);
    case EITP__SLOT_SIN:
        return sin(x);
    case EITP__SLOT_COS:
        return cos(x);
    case EITP__SLOT_TANH:
        return tanh(x);
    case EITP__SLOT_SIGMOID:
        return 1 / (1 + exp(-x));
    case EITP__SLOT_RELU:
        return x != x || x > 0 ? x : 0;
    case EITP__SLOT_ERF:
        return erf(x);
    case EITP__SLOT_AFFINE:
        return 1.75 * x - 0.5;
    case EITP__SLOT_CLAMP:
        return x < -0.25 ? -0.25 : x > 1.5 ? 1.5 : x;
    case EITP__SLOT_GELU_TANH:
        return gelu_tanh(x);
    case EITP__SLOT_SILU:
        return silu(x);
    default:
        return gelu_erf(x);
    }
}

static void test_unary(void) {
    static const eitp__slot slots[] = {EITP__SLOT_NEGATE, EITP__SLOT_ABS,     EITP__SLOT_EXP,       EITP__SLOT_LOG,
                                       EITP__SLOT_SQRT,   EITP__SLOT_RSQRT,   EITP__SLOT_SIN,       EITP__SLOT_COS,
                                       EITP__SLOT_TANH,   EITP__SLOT_SIGMOID, EITP__SLOT_RELU,      EITP__SLOT_ERF,
                                       EITP__SLOT_AFFINE, EITP__SLOT_CLAMP,   EITP__SLOT_GELU_TANH, EITP__SLOT_GELU_ERF,
                                       EITP__SLOT_SILU};
    for (size_t s = 0; s < EITP__COUNT(slots); s++) {
        for (int dtype = EITP_F32; dtype <= EITP_F16; dtype++) {
            eitp__slot slot = slots[s];
            int is_positive = slot == EITP__SLOT_LOG || slot == EITP__SLOT_SQRT || slot == EITP__SLOT_RSQRT;
            eitp__operand *x;
            if (!has(slot, (eitp_dtype)dtype))
                continue;
            begin_case(slot, (eitp_dtype)dtype);
            x = add_input(call.dtype, 2, 11, 13, 0);
            for (int64_t i = 0; i < 143; i++)
                put(x, i, is_positive ? 4 * fabs(in(0, i)) + 1e-3 : 5 * in(0, i));
            put(x, 17, NAN);
            put(x, 18, 0);
            if (slot == EITP__SLOT_LOG || slot == EITP__SLOT_RSQRT)
                put(x, 18, 1);
            call.reals[0] = slot == EITP__SLOT_CLAMP ? -0.25 : 1.75;
            call.reals[1] = slot == EITP__SLOT_CLAMP ? 1.5 : -0.5;
            add_output(call.dtype, 2, 11, 13, 0);
            for (int64_t i = 0; i < 143; i++)
                exact[0][i] = unary(slot, in(0, i));
            check_in_place(1, precision(call.dtype), 0.01);
        }
    }
}

/* For |x| of at least 10^far the slope is 0 or 1. */
static void check_gate_backward(eitp__slot slot, double (*gated)(double), double far, eitp_dtype dtype) {
    eitp__operand *x;
    begin_case(slot, dtype);
    x = add_input(dtype, 1, 203, 0, 0);
    add_input(dtype, 1, 203, 0, 0);
    add_output(dtype, 1, 203, 0, 0);
    for (int64_t i = 0; i < 203; i++) {
        double h = 1e-5, at;
        put(x, i, 6 * in(0, i));
        at = in(0, i);
        exact[0][i] = in(1, i) * (gated(at + h) - gated(at - h)) / (2 * h);
    }
    check_in_place(2, 4e-6, 0.1);
    /* Intermediate values must not overflow. */
    for (int64_t i = 0; i < 203; i++) {
        put(x, i, (i & 1 ? -1 : 1) * pow(10, far + (double)(i % (dtype == EITP_F16 ? 3 : 36))));
        exact[0][i] = i & 1 ? 0 : in(1, i);
    }
    check(1e-6, 1e-3);
}

static void test_gate_backward(void) {
    for (int dtype = EITP_F32; dtype <= EITP_F16; dtype++) {
        if (!has(EITP__SLOT_GELU_TANH_BACKWARD, (eitp_dtype)dtype))
            continue;
        check_gate_backward(EITP__SLOT_GELU_TANH_BACKWARD, gelu_tanh, 1.3, (eitp_dtype)dtype);
        check_gate_backward(EITP__SLOT_GELU_ERF_BACKWARD, gelu_erf, 1.3, (eitp_dtype)dtype);
        check_gate_backward(EITP__SLOT_SILU_BACKWARD, silu, 2.3, (eitp_dtype)dtype);
    }
}

/* Pairs of shapes that broadcast, with their ranks first. A 0 ends a shape. */
typedef struct shape_pair {
    int rank_a, rank_b;
    int64_t a[EITP_MAX_RANK], b[EITP_MAX_RANK];
} shape_pair;

static const shape_pair shape_pairs[] = {
    {2, 2, {5, 7}, {5, 7}},
    {3, 1, {2, 3, 37}, {37}},
    {3, 1, {2, 3, 64}, {64}},
    {3, 1, {2, 3, 5}, {1}},
    {2, 0, {9, 9}, {0}},
    {0, 1, {0}, {71}},
    {1, 2, {7}, {11, 7}},
    {2, 2, {13, 1}, {13, 7}},
    {2, 2, {1, 7}, {13, 1}},
    {3, 3, {2, 1, 5}, {1, 3, 1}},
    {4, 3, {2, 3, 4, 5}, {3, 1, 5}},
    {3, 4, {3, 4, 1}, {2, 1, 4, 6}},
    {6, 6, {2, 1, 3, 1, 2, 3}, {1, 2, 1, 2, 2, 1}},
    {2, 1, {3, 1}, {8}},
    {0, 0, {0}, {0}},
    {1, 1, {1}, {1}},
};

static void add_broadcast_output(eitp_dtype dtype) {
    const eitp__operand *a = &call.inputs[call.input_count - 2], *b = a + 1;
    int rank = a->rank > b->rank ? a->rank : b->rank;
    int64_t shape[EITP_MAX_RANK];
    for (int d = 0; d < rank; d++) {
        int64_t from_a = d >= rank - a->rank ? a->shape[d - rank + a->rank] : 1;
        shape[d] = from_a != 1 ? from_a : d >= rank - b->rank ? b->shape[d - rank + b->rank] : 1;
    }
    add_output_shape(dtype, rank, shape);
}

static double binary(eitp__slot slot, double a, double b) {
    switch (slot) {
    case EITP__SLOT_ADD:
        return a + b;
    case EITP__SLOT_SUBTRACT:
        return a - b;
    case EITP__SLOT_MULTIPLY:
        return a * b;
    case EITP__SLOT_DIVIDE:
        return a / b;
    case EITP__SLOT_MINIMUM:
        return a != a || b != b ? NAN : fmin(a, b);
    case EITP__SLOT_MAXIMUM:
        return a != a || b != b ? NAN : fmax(a, b);
    case EITP__SLOT_LESS:
        return a < b;
    default:
        return a == b;
    }
}

static void test_binary(void) {
    static const eitp_dtype types[] = {EITP_F32, EITP_F64, EITP_BF16, EITP_F16, EITP_I32};
    for (int slot = EITP__SLOT_ADD; slot <= EITP__SLOT_EQUAL; slot++) {
        for (size_t t = 0; t < EITP__COUNT(types); t++) {
            int compares = slot >= EITP__SLOT_LESS;
            if (!compares && types[t] == EITP_I32)
                continue;
            for (size_t p = 0; p < EITP__COUNT(shape_pairs); p++) {
                const shape_pair *pair = &shape_pairs[p];
                begin_case((eitp__slot)slot, types[t]);
                add_input_shape(types[t], pair->rank_a, pair->a);
                add_input_shape(types[t], pair->rank_b, pair->b);
                for (int k = 0; k < 2 && compares; k++)
                    for (int64_t i = 0; i < call.inputs[k].elements; i++)
                        put(&call.inputs[k], i, (double)draw_below(4));
                for (int k = 0; k < 2 && (slot == EITP__SLOT_MINIMUM || slot == EITP__SLOT_MAXIMUM); k++)
                    put(&call.inputs[k], call.inputs[k].elements / (2 + k), NAN);
                add_broadcast_output(compares ? EITP_U8 : types[t]);
                for (int64_t i = 0; i < call.outputs[0].elements; i++)
                    exact[0][i] = binary((eitp__slot)slot, in(0, source_of(&call.inputs[0], &call.outputs[0], i)),
                                         in(1, source_of(&call.inputs[1], &call.outputs[0], i)));
                check_in_place(p == 0 && !compares ? 2 : 0, precision(types[t]), 0.1);
            }
        }
    }
}

static void test_where(void) {
    for (int dtype = 0; dtype < EITP_DTYPE_COUNT; dtype++) {
        for (size_t p = 0; p < EITP__COUNT(shape_pairs); p++) {
            const shape_pair *pair = &shape_pairs[p];
            for (int whose = 0; whose < 3; whose++) {
                int rank = whose == 0 ? pair->rank_a : whose == 1 ? pair->rank_b : 0;
                eitp__operand *condition;
                begin_case(EITP__SLOT_WHERE, (eitp_dtype)dtype);
                condition = add_input_shape(EITP_U8, rank, whose == 0 ? pair->a : pair->b);
                for (int64_t i = 0; i < condition->elements; i++)
                    put(condition, i, (double)draw_below(2));
                add_input_shape(call.dtype, pair->rank_a, pair->a);
                add_input_shape(call.dtype, pair->rank_b, pair->b);
                add_broadcast_output(call.dtype);
                for (int64_t i = 0; i < call.outputs[0].elements; i++) {
                    int pick = in(0, source_of(&call.inputs[0], &call.outputs[0], i)) != 0 ? 1 : 2;
                    exact[0][i] = in(pick, source_of(&call.inputs[pick], &call.outputs[0], i));
                }
                check(0, 0);
            }
        }
    }
}

/* A key of large numbers, or of small ones. Rows have 5 c elements. */
static void check_dropout(eitp_dtype dtype, int large, int64_t c) {
    eitp__operand *key;
    int64_t dropped = 0, count = 45 * c;
    begin_case(EITP__SLOT_DROPOUT, dtype);
    add_input(dtype, 3, 9, 5, c);
    key = add_input(EITP_I64, 1, 3, 0, 0);
    ((int64_t *)key->data)[0] = large ? -3 : 1234;
    ((int64_t *)key->data)[1] = large ? 5000000000 : 7;
    ((int64_t *)key->data)[2] = large ? 4000000001 : 11;
    call.integers[0] = 1029;
    call.reals[0] = 0.3;
    add_output(dtype, 3, 9, 5, c);
    for (int64_t i = 0; i < count; i++) {
        const int64_t *k = (const int64_t *)key->data;
        float u = eitp__kernel_uniform((uint64_t)k[0], (uint64_t)k[1], 1029, (uint64_t)(k[2] * 5 * c + i));
        exact[0][i] = u < 0.3f ? 0 : in(0, i) / 0.7;
        dropped += u < 0.3f;
    }
    CHECK(dropped > count / 5 && dropped < count * 2 / 5);
    check_in_place(1, precision(dtype), 0);
    call.reals[0] = 0;
    for (int64_t i = 0; i < count; i++)
        exact[0][i] = in(0, i);
    check_in_place(1, 0, 0);
}

static void test_dropout(void) {
    for (int dtype = EITP_F32; dtype <= EITP_F16; dtype++)
        for (int large = 0; large < 2; large++) {
            check_dropout((eitp_dtype)dtype, large, 7);
            check_dropout((eitp_dtype)dtype, large, 64);
        }
}

/* ---- Movement ---- */

/* Dtypes of every size: floating-point types of 2, 4 and 8 bytes, integers of 1 and 8 bytes. */
static const eitp_dtype moved[] = {EITP_F32, EITP_F64, EITP_BF16, EITP_I64, EITP_U8};

static void test_broadcast(void) {
    for (size_t t = 0; t < EITP__COUNT(moved); t++) {
        for (size_t p = 0; p < EITP__COUNT(shape_pairs); p++) {
            const shape_pair *pair = &shape_pairs[p];
            begin_case(EITP__SLOT_BROADCAST, moved[t]);
            add_input_shape(moved[t], pair->rank_a, pair->a);
            add_input_shape(moved[t], pair->rank_b, pair->b);
            add_broadcast_output(moved[t]);
            call.input_count = 1;
            for (int64_t i = 0; i < call.outputs[0].elements; i++)
                exact[0][i] = in(0, source_of(&call.inputs[0], &call.outputs[0], i));
            check(0, 0);
        }
    }
}

static void test_permute(void) {
    static const int64_t orders[][4] = {{0, 1, 2, 3}, {1, 0, 2, 3}, {0, 2, 1, 3}, {0, 1, 3, 2},
                                        {3, 2, 1, 0}, {2, 3, 0, 1}, {1, 2, 3, 0}, {3, 0, 1, 2}};
    static const int64_t shapes[][4] = {{2, 3, 5, 7}, {3, 1, 4, 6}, {1, 9, 1, 5}, {2, 3, 4, 64}};
    for (size_t t = 0; t < EITP__COUNT(moved); t++) {
        for (size_t c = 0; c < EITP__COUNT(orders) * EITP__COUNT(shapes); c++) {
            const int64_t *order = orders[c % EITP__COUNT(orders)], *shape = shapes[c / EITP__COUNT(orders)];
            int64_t turned[4], index[EITP_MAX_RANK], from[EITP_MAX_RANK];
            begin_case(EITP__SLOT_PERMUTE, moved[t]);
            add_input_shape(moved[t], 4, shape);
            for (int d = 0; d < 4; d++)
                turned[d] = shape[call.integers[d] = order[d]];
            add_output_shape(moved[t], 4, turned);
            for (int64_t i = 0; i < call.outputs[0].elements; i++) {
                unravel(&call.outputs[0], i, index);
                for (int d = 0; d < 4; d++)
                    from[order[d]] = index[d];
                exact[0][i] = in(0, ravel(&call.inputs[0], from));
            }
            check(0, 0);
        }
    }
}

static const float no_carry[] = {0}, half_carry[] = {0.5f};

/*
 * Ways to accumulate: 0 not at all, 1 carry 1, 2 carry 0.5, 3 carry 0, with which the output is not read. Returns the
 * factor of the old output.
 */
static double set_carry(int way) {
    call.accumulates = way > 0;
    call.carry = way == 2 ? half_carry : way == 3 ? no_carry : NULL;
    return way == 1 ? 1 : way == 2 ? 0.5 : 0;
}

static void check_pad(eitp_dtype dtype, const int64_t *large, const int64_t *small_, const int64_t *start, int way) {
    int64_t index[EITP_MAX_RANK];
    const eitp__operand *old = NULL;
    double factor;
    begin_case(EITP__SLOT_PAD, dtype);
    memcpy(call.integers, start, 3 * sizeof *start);
    add_input_shape(dtype, 3, small_);
    add_output_shape(dtype, 3, large);
    factor = set_carry(way);
    if (factor != 0)
        old = add_before(0);
    for (int64_t i = 0; i < call.outputs[0].elements; i++) {
        int inside = 1;
        unravel(&call.outputs[0], i, index);
        for (int d = 0; d < 3; d++) {
            index[d] -= start[d];
            inside = inside && index[d] >= 0 && index[d] < small_[d];
        }
        exact[0][i] = (old ? factor * get(old, i) : 0) + (inside ? in(0, ravel(&call.inputs[0], index)) : 0);
    }
    check(old ? precision(dtype) : 0, old ? 1 : 0);
}

/* SLICE reads the small shape from the large one. PAD writes it into zeros. */
static void test_slice_and_pad(void) {
    static const int64_t large[][3] = {{5, 6, 7}, {5, 6, 7}, {5, 6, 7},   {5, 6, 7},
                                       {1, 4, 9}, {3, 3, 1}, {2, 3, 192}, {1, 3, 32}};
    static const int64_t small_[][3] = {{2, 3, 4}, {2, 3, 3}, {5, 2, 7},  {5, 6, 7},
                                        {1, 4, 3}, {2, 1, 1}, {2, 2, 64}, {1, 3, 16}};
    static const int64_t starts[][3] = {{1, 2, 3}, {2, 1, 2}, {0, 4, 0},  {0, 0, 0},
                                        {0, 0, 6}, {1, 2, 0}, {0, 1, 64}, {0, 0, 8}};
    for (size_t t = 0; t < EITP__COUNT(moved); t++) {
        for (size_t c = 0; c < EITP__COUNT(large); c++) {
            int64_t index[EITP_MAX_RANK];
            begin_case(EITP__SLOT_SLICE, moved[t]);
            memcpy(call.integers, starts[c], sizeof starts[c]);
            add_input_shape(moved[t], 3, large[c]);
            add_output_shape(moved[t], 3, small_[c]);
            for (int64_t i = 0; i < call.outputs[0].elements; i++) {
                unravel(&call.outputs[0], i, index);
                for (int d = 0; d < 3; d++)
                    index[d] += starts[c][d];
                exact[0][i] = in(0, ravel(&call.inputs[0], index));
            }
            check(0, 0);
            for (int way = 0; way < (eitp__is_floating(moved[t]) ? 4 : 1); way++)
                check_pad(moved[t], large[c], small_[c], starts[c], way);
        }
    }
}

/* Joins `count` inputs. The extents of the last dimension are multiples of `unit`. */
static void check_concat(eitp_dtype dtype, int along, int count, int64_t unit) {
    static const int64_t extents[EITP__MAX_INPUTS] = {3, 1, 4, 2, 5, 1, 2, 6, 1, 3};
    int64_t shape[3] = {2, 3, 0}, index[EITP_MAX_RANK], total = 0, scale = along == 2 ? unit : 1;
    shape[2] = 5 * unit;
    begin_case(EITP__SLOT_CONCAT, dtype);
    call.integers[0] = along;
    for (int i = 0; i < count; i++) {
        shape[along] = extents[i] * scale;
        total += shape[along];
        add_input_shape(dtype, 3, shape);
    }
    shape[along] = total;
    add_output_shape(dtype, 3, shape);
    for (int64_t i = 0; i < call.outputs[0].elements; i++) {
        int which = 0;
        unravel(&call.outputs[0], i, index);
        for (; index[along] >= extents[which] * scale; which++)
            index[along] -= extents[which] * scale;
        exact[0][i] = in(which, ravel(&call.inputs[which], index));
    }
    check(0, 0);
}

static void test_concat(void) {
    for (size_t t = 0; t < EITP__COUNT(moved); t++) {
        for (int along = 0; along < 3; along++) {
            for (int count = 1; count <= EITP__MAX_INPUTS; count += count == 3 ? 5 : 1)
                check_concat(moved[t], along, count, 1);
            check_concat(moved[t], along, 3, 64);
        }
    }
}

static void test_gather(void) {
    for (size_t t = 0; t < EITP__COUNT(moved); t++) {
        for (int along = 0; along < 3; along++) {
            int64_t shape[3] = {4, 3, 5}, index[EITP_MAX_RANK], extent = 6;
            eitp__operand *indices;
            begin_case(EITP__SLOT_GATHER, moved[t]);
            call.integers[0] = along;
            shape[along] = extent;
            add_input_shape(moved[t], 3, shape);
            shape[along] = 9;
            indices = add_input_shape(EITP_I32, 3, shape);
            for (int64_t i = 0; i < indices->elements; i++)
                put(indices, i, (double)draw_below(10) - 2);
            put(indices, 3, 2147483647);
            put(indices, 5, -2147483648.0);
            add_output_shape(moved[t], 3, shape);
            for (int64_t i = 0; i < indices->elements; i++) {
                unravel(&call.outputs[0], i, index);
                index[along] = (int64_t)in(1, i);
                exact[0][i] = index[along] < 0 || index[along] >= extent ? 0 : in(0, ravel(&call.inputs[0], index));
            }
            check(0, 0);
        }
    }
}

/* ---- Reductions ---- */

static void check_sum(eitp_dtype dtype, int rank, const int64_t *shape, int mask, int way, double floor_) {
    int64_t kept[EITP_MAX_RANK], index[EITP_MAX_RANK];
    const eitp__operand *old = NULL;
    double factor;
    begin_case(EITP__SLOT_SUM, dtype);
    add_input_shape(dtype, rank, shape);
    call.integers[0] = mask;
    for (int d = 0; d < rank; d++)
        kept[d] = mask >> d & 1 ? 1 : shape[d];
    add_output_shape(eitp__wide(dtype), rank, kept);
    factor = set_carry(way);
    if (factor != 0)
        old = add_before(0);
    for (int64_t i = 0; i < call.outputs[0].elements; i++)
        exact[0][i] = old ? factor * get(old, i) : 0;
    for (int64_t i = 0; i < call.inputs[0].elements; i++) {
        unravel(&call.inputs[0], i, index);
        for (int d = 0; d < rank; d++)
            index[d] = mask >> d & 1 ? 0 : index[d];
        exact[0][ravel(&call.outputs[0], index)] += in(0, i);
    }
    check(precision(dtype), floor_);
}

static void check_max(eitp_dtype dtype, int rank, const int64_t *shape, int mask) {
    int64_t kept[EITP_MAX_RANK], index[EITP_MAX_RANK];
    begin_case(EITP__SLOT_MAX, dtype);
    add_input_shape(dtype, rank, shape);
    put(&call.inputs[0], call.inputs[0].elements / 2, NAN);
    call.integers[0] = mask;
    for (int d = 0; d < rank; d++)
        kept[d] = mask >> d & 1 ? 1 : shape[d];
    add_output_shape(dtype, rank, kept);
    for (int64_t i = 0; i < call.outputs[0].elements; i++)
        exact[0][i] = -INFINITY;
    for (int64_t i = 0; i < call.inputs[0].elements; i++) {
        double *y;
        unravel(&call.inputs[0], i, index);
        for (int d = 0; d < rank; d++)
            index[d] = mask >> d & 1 ? 0 : index[d];
        y = &exact[0][ravel(&call.outputs[0], index)];
        *y = *y != *y || in(0, i) != in(0, i) ? NAN : fmax(*y, in(0, i));
    }
    check(0, 0);
}

/* Few distinct values, some of them NaN. */
static void check_argmax(eitp_dtype dtype, int rank, const int64_t *shape, int mask) {
    int64_t kept[EITP_MAX_RANK], index[EITP_MAX_RANK];
    double *largest;
    int64_t *seen;
    begin_case(EITP__SLOT_ARGMAX, dtype);
    add_input_shape(dtype, rank, shape);
    for (int64_t i = 0; i < call.inputs[0].elements; i++)
        put(&call.inputs[0], i, i % 37 == 11 ? NAN : i % 5 ? -INFINITY : (double)draw_below(3));
    call.integers[0] = mask;
    for (int d = 0; d < rank; d++)
        kept[d] = mask >> d & 1 ? 1 : shape[d];
    add_output_shape(EITP_I32, rank, kept);
    largest = (double *)block((size_t)call.outputs[0].elements * sizeof *largest);
    seen = (int64_t *)block((size_t)call.outputs[0].elements * sizeof *seen);
    for (int64_t i = 0; i < call.outputs[0].elements; i++)
        exact[0][i] = -1;
    memset(seen, 0, (size_t)call.outputs[0].elements * sizeof *seen);
    for (int64_t i = 0; i < call.inputs[0].elements; i++) {
        int64_t to;
        unravel(&call.inputs[0], i, index);
        for (int d = 0; d < rank; d++)
            index[d] = mask >> d & 1 ? 0 : index[d];
        to = ravel(&call.outputs[0], index);
        if (!seen[to] || (!isnan(largest[to]) && (isnan(in(0, i)) || in(0, i) > largest[to]))) {
            largest[to] = in(0, i);
            exact[0][to] = (double)seen[to];
        }
        seen[to]++;
    }
    check(0, 0);
}

static void test_reductions(void) {
    static const int64_t shapes[][4] = {{3, 4, 5, 7}, {2, 1, 33, 3}, {1, 6, 1, 70}};
    for (int dtype = EITP_F32; dtype <= EITP_F16; dtype++) {
        for (size_t s = 0; s < (is_few() && is_similar((eitp_dtype)dtype) ? 1 : EITP__COUNT(shapes)); s++) {
            for (int mask = 0; mask < 16; mask++) {
                for (int way = 0; way < 4; way++)
                    check_sum((eitp_dtype)dtype, 4, shapes[s], mask, way, 2);
                check_max((eitp_dtype)dtype, 4, shapes[s], mask);
                check_argmax((eitp_dtype)dtype, 4, shapes[s], mask);
            }
        }
    }
}

/* Sums without terms give only the carried value. */
static void test_empty_sum(void) {
    static const int64_t shape[] = {0, 5};
    for (int dtype = EITP_F32; dtype <= EITP_F16; dtype++)
        for (int mask = 1; mask < 4; mask += 2)
            for (int way = 0; way < 4; way++)
                check_sum((eitp_dtype)dtype, 2, shape, mask, way, 2);
    check_argmax(EITP_F32, 2, shape, 3);
    begin_case(EITP__SLOT_MAX, EITP_F32);
    add_input_shape(EITP_F32, 2, shape);
    call.integers[0] = 3;
    add_output(EITP_F32, 2, 1, 1, 0);
    exact[0][0] = -INFINITY;
    check(0, 0);
}

/*
 * Bias gradients: sums over the rows of a matrix, which may have several dimensions. Added one after another, n numbers
 * from [-1, 1) make partial sums of about sqrt(n), so the rounding errors of a sum grow with n.
 */
static void test_column_sums(void) {
    static const struct {
        int rank, mask;
        int64_t shape[4], terms;
    } cases[] = {{2, 1, {2100, 64}, 2100},      {2, 1, {4099, 3}, 4099},       {2, 1, {130, 768}, 130},
                 {3, 3, {70, 33, 67}, 70 * 33}, {4, 1, {2050, 1, 5, 8}, 2050}, {4, 5, {64, 2, 33, 8}, 64 * 33}};
    for (int dtype = EITP_F32; dtype <= EITP_F16; dtype++)
        for (size_t c = 0; c < EITP__COUNT(cases) && !(is_few() && is_similar((eitp_dtype)dtype)); c++)
            for (int way = 0; way < (is_few() && c ? 1 : 4); way++)
                check_sum((eitp_dtype)dtype, cases[c].rank, cases[c].shape, cases[c].mask, way,
                          2 + (double)cases[c].terms / 20);
}

/* A sum over rows has the same bits in two parts as in one. */
static void check_sum_in_parts(const eitp__kernel *kernel, eitp_dtype dtype) {
    eitp__call first, rest;
    double whole[37], parts[37];
    begin_case(EITP__SLOT_SUM, dtype);
    add_input(dtype, 2, 200, 37, 0);
    add_output(eitp__wide(dtype), 2, 1, 37, 0);
    call.integers[0] = 1;
    call.outputs[0].data = whole;
    kernel->run(&call, 0, 37, NULL);
    first = rest = call;
    first.outputs[0].data = rest.outputs[0].data = parts;
    first.inputs[0].shape[0] = 77;
    first.inputs[0].elements = 77 * 37;
    rest.inputs[0].shape[0] = 123;
    rest.inputs[0].elements = 123 * 37;
    rest.inputs[0].data = (char *)call.inputs[0].data + 77 * 37 * eitp_dtype_size(dtype);
    rest.accumulates = 1;
    kernel->run(&first, 0, 37, NULL);
    kernel->run(&rest, 0, 37, NULL);
    CHECK(!memcmp(whole, parts, bytes_of(&call.outputs[0])));
}

static void test_sum_in_parts(void) {
    for (int set = 0; set < EITP__ISA_COUNT; set++)
        for (int dtype = EITP_F32; dtype <= EITP_F16 && available[set]; dtype++)
            check_sum_in_parts(&tables[set].kernels[EITP__SLOT_SUM][dtype], (eitp_dtype)dtype);
}

static void test_scatter_add(void) {
    for (int dtype = EITP_F32; dtype <= EITP_F64; dtype++) {
        for (int way = 0; way < 12; way++) {
            int64_t shape[3] = {4, 3, 5}, index[EITP_MAX_RANK], extent = 6, along = way / 4;
            const eitp__operand *old = NULL;
            eitp__operand *indices;
            double factor;
            begin_case(EITP__SLOT_SCATTER_ADD, (eitp_dtype)dtype);
            call.integers[0] = along;
            call.integers[1] = extent;
            shape[along] = 17;
            indices = add_input_shape(EITP_I32, 3, shape);
            for (int64_t i = 0; i < indices->elements; i++)
                put(indices, i, (double)draw_below(10) - 2);
            put(indices, 3, 2147483647);
            put(indices, 5, -2147483648.0);
            add_input_shape(call.dtype, 3, shape);
            shape[along] = extent;
            add_output_shape(call.dtype, 3, shape);
            factor = set_carry(way % 4);
            if (factor != 0)
                old = add_before(0);
            for (int64_t i = 0; i < call.outputs[0].elements; i++)
                exact[0][i] = old ? factor * get(old, i) : 0;
            for (int64_t i = 0; i < indices->elements; i++) {
                unravel(indices, i, index);
                index[along] = (int64_t)in(0, i);
                if (index[along] >= 0 && index[along] < extent)
                    exact[0][ravel(&call.outputs[0], index)] += in(1, i);
            }
            check(precision(call.dtype), 1);
        }
    }
}

static void test_sum_squares(void) {
    static const int64_t counts[] = {
        1, 5, EITP__SUM_BLOCK - 1, EITP__SUM_BLOCK, EITP__SUM_BLOCK + 3, 3 * EITP__SUM_BLOCK + 777};
    for (int dtype = EITP_F32; dtype <= EITP_F16; dtype++) {
        for (size_t c = 0; c < EITP__COUNT(counts); c++) {
            int64_t made = (counts[c] + EITP__SUM_BLOCK - 1) / EITP__SUM_BLOCK;
            begin_case(EITP__SLOT_SUM_SQUARES, (eitp_dtype)dtype);
            add_input(call.dtype, 1, counts[c], 0, 0);
            add_output(EITP_F64, 1, made, 0, 0);
            for (int64_t i = 0; i < made; i++)
                exact[0][i] = 0;
            for (int64_t i = 0; i < counts[c]; i++)
                exact[0][i / EITP__SUM_BLOCK] += in(0, i) * in(0, i);
            check(1e-12, 0);
        }
    }
}

/* ---- Layers ---- */

static double row_log_sum_exp(int which, int64_t row, int64_t c) {
    double largest = -INFINITY, sum = 0;
    for (int64_t j = 0; j < c; j++)
        largest = fmax(largest, in(which, row * c + j));
    for (int64_t j = 0; j < c; j++)
        sum += exp(in(which, row * c + j) - largest);
    return largest + log(sum);
}

/* A block on a device computes a row of more than 1024 columns, a warp a shorter one. */
static const int64_t widths[] = {1, 5, 16, 31, 67, 130, 768, 1088};

/* Returns the number of ways to accumulate that are tested with this width. */
static int ways_of(int64_t width) {
    return is_few() && width > 130 ? 1 : 4;
}

/* Rows that a device sums in more than one chunk. */
enum { CHUNKED = 40 };

/* True if sums of such rows are tested in this type. */
static int has_chunks(eitp_dtype dtype) {
    return uses_cuda() && has(EITP__SLOT_LAYER_NORM, dtype) && !(is_few() && is_similar(dtype));
}

static void check_softmax(eitp_dtype dtype, int is_log, int64_t c) {
    int64_t rows = 9;
    eitp__operand *x, *dy;
    begin_case(is_log ? EITP__SLOT_LOG_SOFTMAX : EITP__SLOT_SOFTMAX, dtype);
    x = add_input(dtype, 3, 3, 3, c);
    add_output(dtype, 3, 3, 3, c);
    for (int64_t i = 0; i < rows * c; i++)
        put(x, i, in(0, i) * 8 + (double)(i / c) * 100);
    for (int64_t row = 0; row < rows; row++) {
        const double sum = row_log_sum_exp(0, row, c);
        for (int64_t i = row * c; i < (row + 1) * c; i++)
            exact[0][i] = is_log ? in(0, i) - sum : exp(in(0, i) - sum);
    }
    check_in_place(0, 1e-5, is_log ? 2 : 1e-3);
    begin_case(is_log ? EITP__SLOT_LOG_SOFTMAX_BACKWARD : EITP__SLOT_SOFTMAX_BACKWARD, dtype);
    x = add_input(dtype, 3, 3, 3, c);
    dy = add_input(dtype, 3, 3, 3, c);
    add_output(dtype, 3, 3, 3, c);
    for (int64_t row = 0; row < rows; row++) {
        double sum = 0;
        for (int64_t j = row * c; j < (row + 1) * c; j++)
            sum += is_log ? get(dy, j) : get(dy, j) * get(x, j);
        for (int64_t j = row * c; j < (row + 1) * c; j++)
            exact[0][j] = is_log ? get(dy, j) - exp(get(x, j)) * sum : get(x, j) * (get(dy, j) - sum);
    }
    check(4e-6, 4);
}

static void test_softmax(void) {
    for (int dtype = EITP_F32; dtype <= EITP_F16; dtype++)
        for (size_t w = 0; w < EITP__COUNT(widths) && has(EITP__SLOT_SOFTMAX, (eitp_dtype)dtype); w++)
            for (int is_log = 0; is_log < 2; is_log++)
                check_softmax((eitp_dtype)dtype, is_log, widths[w]);
}

/* Inputs of a layer norm's gradients: x, gain, bias, and the mean and deviation of x. */
static void add_layer_norm_inputs(int64_t rows, int64_t c) {
    eitp__operand *mean, *deviation;
    add_input(call.dtype, 2, rows, c, 0);
    add_input(EITP_F32, 1, c, 0, 0);
    add_input(EITP_F32, 1, c, 0, 0);
    mean = add_input(EITP_F32, 1, rows, 0, 0);
    deviation = add_input(EITP_F32, 1, rows, 0, 0);
    for (int64_t row = 0; row < rows; row++) {
        double sum = 0, squares = 0;
        for (int64_t j = 0; j < c; j++)
            sum += in(0, row * c + j) / (double)c;
        for (int64_t j = 0; j < c; j++)
            squares += (in(0, row * c + j) - sum) * (in(0, row * c + j) - sum) / (double)c;
        put(mean, row, sum);
        put(deviation, row, 1 / sqrt(squares + 0.01));
    }
    add_input(call.dtype, 2, rows, c, 0);
}

static void check_layer_norm(eitp_dtype dtype, int64_t rows, int64_t c, double shift) {
    eitp__operand *x;
    begin_case(EITP__SLOT_LAYER_NORM, dtype);
    x = add_input(dtype, 2, rows, c, 0);
    add_input(EITP_F32, 1, c, 0, 0);
    add_input(EITP_F32, 1, c, 0, 0);
    add_output(dtype, 2, rows, c, 0);
    add_output(EITP_F32, 1, rows, 0, 0);
    add_output(EITP_F32, 1, rows, 0, 0);
    call.reals[0] = 0.01;
    for (int64_t i = 0; i < rows * c; i++)
        put(x, i, in(0, i) + shift);
    for (int64_t row = 0; row < rows; row++) {
        double sum = 0, squares = 0;
        for (int64_t j = 0; j < c; j++)
            sum += in(0, row * c + j) / (double)c;
        for (int64_t j = 0; j < c; j++)
            squares += (in(0, row * c + j) - sum) * (in(0, row * c + j) - sum) / (double)c;
        exact[1][row] = sum;
        exact[2][row] = 1 / sqrt(squares + 0.01);
        for (int64_t j = 0; j < c; j++)
            exact[0][row * c + j] = (in(0, row * c + j) - sum) * exact[2][row] * in(1, j) + in(2, j);
    }
    check(2e-6 * (1 + shift), 2);
}

/* Adds the operand of an epilogue, which is added to the gradient of a norm and may be overwritten by the sum. */
static void add_residual(int64_t rows, int64_t c) {
    shares[0] = call.input_count;
    add_input(call.dtype, 2, rows, c, 0);
    call.integers[2] = EITP__EPILOGUE_ADD;
}

/* Checks a gradient, and if it has an epilogue, also in separate memory. */
static void check_gradient(void) {
    check(5e-6, 4);
    if (shares[0] >= 0) {
        shares[0] = -1;
        check(5e-6, 4);
    }
}

static void check_layer_norm_backward_input(eitp_dtype dtype, int64_t rows, int64_t c, int adds) {
    begin_case(EITP__SLOT_LAYER_NORM_BACKWARD_INPUT, dtype);
    add_layer_norm_inputs(rows, c);
    if (adds)
        add_residual(rows, c);
    add_output(dtype, 2, rows, c, 0);
    for (int64_t row = 0; row < rows; row++) {
        double g = 0, gz = 0;
        for (int64_t j = 0; j < c; j++) {
            double z = (in(0, row * c + j) - in(3, row)) * in(4, row);
            g += in(1, j) * in(5, row * c + j) / (double)c;
            gz += in(1, j) * in(5, row * c + j) * z / (double)c;
        }
        for (int64_t j = 0; j < c; j++) {
            double z = (in(0, row * c + j) - in(3, row)) * in(4, row);
            exact[0][row * c + j] = in(4, row) * (in(1, j) * in(5, row * c + j) - g - z * gz);
            exact[0][row * c + j] += adds ? in(6, row * c + j) : 0;
        }
    }
    check_gradient();
}

static void check_layer_norm_backward_parameters(eitp_dtype dtype, int64_t rows, int64_t c, int way) {
    const eitp__operand *old_gain = NULL, *old_bias = NULL;
    double factor;
    begin_case(EITP__SLOT_LAYER_NORM_BACKWARD_PARAMETERS, dtype);
    add_layer_norm_inputs(rows, c);
    add_output(EITP_F32, 1, c, 0, 0);
    add_output(EITP_F32, 1, c, 0, 0);
    factor = set_carry(way);
    if (factor != 0) {
        old_gain = add_before(0);
        old_bias = add_before(1);
    }
    for (int64_t j = 0; j < c; j++) {
        exact[0][j] = old_gain ? factor * get(old_gain, j) : 0;
        exact[1][j] = old_bias ? factor * get(old_bias, j) : 0;
        for (int64_t row = 0; row < rows; row++) {
            exact[0][j] += in(5, row * c + j) * (in(0, row * c + j) - in(3, row)) * in(4, row);
            exact[1][j] += in(5, row * c + j);
        }
    }
    check(5e-6, 4);
}

static void test_layer_norm(void) {
    for (int dtype = EITP_F32; dtype <= EITP_F16; dtype++) {
        for (size_t w = 0; w < EITP__COUNT(widths) && has(EITP__SLOT_LAYER_NORM, (eitp_dtype)dtype); w++) {
            check_layer_norm((eitp_dtype)dtype, 9, widths[w], 0);
            check_layer_norm((eitp_dtype)dtype, 7, widths[w], 30);
            for (int adds = 0; adds <= uses_cuda(); adds++)
                check_layer_norm_backward_input((eitp_dtype)dtype, 23, widths[w], adds);
            for (int way = 0; way < ways_of(widths[w]); way++)
                check_layer_norm_backward_parameters((eitp_dtype)dtype, 23, widths[w], way);
        }
        for (int way = 0; way < 3 && has_chunks((eitp_dtype)dtype); way += 2)
            check_layer_norm_backward_parameters((eitp_dtype)dtype, CHUNKED, 64, way);
    }
}

/* x, gain, the deviation of x, dy. */
static void add_rms_norm_inputs(int64_t rows, int64_t c) {
    eitp__operand *deviation;
    add_input(call.dtype, 2, rows, c, 0);
    add_input(EITP_F32, 1, c, 0, 0);
    deviation = add_input(EITP_F32, 1, rows, 0, 0);
    for (int64_t row = 0; row < rows; row++) {
        double squares = 0;
        for (int64_t j = 0; j < c; j++)
            squares += in(0, row * c + j) * in(0, row * c + j) / (double)c;
        put(deviation, row, 1 / sqrt(squares + 0.01));
    }
    add_input(call.dtype, 2, rows, c, 0);
}

static void check_rms_norm(eitp_dtype dtype, int64_t rows, int64_t c) {
    begin_case(EITP__SLOT_RMS_NORM, dtype);
    add_input(dtype, 2, rows, c, 0);
    add_input(EITP_F32, 1, c, 0, 0);
    add_output(dtype, 2, rows, c, 0);
    add_output(EITP_F32, 1, rows, 0, 0);
    call.reals[0] = 0.01;
    for (int64_t row = 0; row < rows; row++) {
        double squares = 0;
        for (int64_t j = 0; j < c; j++)
            squares += in(0, row * c + j) * in(0, row * c + j) / (double)c;
        exact[1][row] = 1 / sqrt(squares + 0.01);
        for (int64_t j = 0; j < c; j++)
            exact[0][row * c + j] = in(0, row * c + j) * exact[1][row] * in(1, j);
    }
    check(2e-6, 2);
}

static void check_rms_norm_backward_input(eitp_dtype dtype, int64_t rows, int64_t c, int adds) {
    begin_case(EITP__SLOT_RMS_NORM_BACKWARD_INPUT, dtype);
    add_rms_norm_inputs(rows, c);
    if (adds)
        add_residual(rows, c);
    add_output(dtype, 2, rows, c, 0);
    for (int64_t row = 0; row < rows; row++) {
        double mean = 0, deviation = in(2, row);
        for (int64_t j = 0; j < c; j++)
            mean += in(1, j) * in(3, row * c + j) * in(0, row * c + j) * deviation / (double)c;
        for (int64_t j = 0; j < c; j++)
            exact[0][row * c + j] =
                deviation * (in(1, j) * in(3, row * c + j) - in(0, row * c + j) * deviation * mean) +
                (adds ? in(4, row * c + j) : 0);
    }
    check_gradient();
}

static void check_rms_norm_backward_parameters(eitp_dtype dtype, int64_t rows, int64_t c, int way) {
    const eitp__operand *old = NULL;
    double factor;
    begin_case(EITP__SLOT_RMS_NORM_BACKWARD_PARAMETERS, dtype);
    add_rms_norm_inputs(rows, c);
    add_output(EITP_F32, 1, c, 0, 0);
    factor = set_carry(way);
    if (factor != 0)
        old = add_before(0);
    for (int64_t j = 0; j < c; j++) {
        exact[0][j] = old ? factor * get(old, j) : 0;
        for (int64_t row = 0; row < rows; row++)
            exact[0][j] += in(3, row * c + j) * in(0, row * c + j) * in(2, row);
    }
    check(5e-6, 4);
}

static void test_rms_norm(void) {
    for (int dtype = EITP_F32; dtype <= EITP_F16; dtype++) {
        for (size_t w = 0; w < EITP__COUNT(widths) && has(EITP__SLOT_RMS_NORM, (eitp_dtype)dtype); w++) {
            check_rms_norm((eitp_dtype)dtype, 9, widths[w]);
            for (int adds = 0; adds <= uses_cuda(); adds++)
                check_rms_norm_backward_input((eitp_dtype)dtype, 23, widths[w], adds);
            for (int way = 0; way < ways_of(widths[w]); way++)
                check_rms_norm_backward_parameters((eitp_dtype)dtype, 23, widths[w], way);
            check_rms_norm_backward_parameters((eitp_dtype)dtype, 0, widths[w], 0);
        }
        for (int way = 0; way < 3 && has_chunks((eitp_dtype)dtype); way += 2)
            check_rms_norm_backward_parameters((eitp_dtype)dtype, CHUNKED, 64, way);
    }
}

static eitp__operand *add_ids(int64_t rows, int64_t vocabulary) {
    eitp__operand *ids = add_input(EITP_I32, 1, rows, 0, 0);
    for (int64_t i = 0; i < rows; i++)
        put(ids, i, (double)draw_below(vocabulary));
    put(ids, 2, -1);
    put(ids, 4, (double)vocabulary);
    put(ids, 5, 2147483647);
    put(ids, 6, -2147483648.0);
    return ids;
}

static void check_embedding(eitp_dtype dtype, int64_t rows, int64_t vocabulary, int64_t c) {
    begin_case(EITP__SLOT_EMBEDDING, dtype);
    add_input(dtype, 2, vocabulary, c, 0);
    add_ids(rows, vocabulary);
    add_output(dtype, 2, rows, c, 0);
    for (int64_t i = 0; i < rows * c; i++) {
        double id = in(1, i / c);
        exact[0][i] = id >= 0 && id < (double)vocabulary ? in(0, (int64_t)id * c + i % c) : 0;
    }
    check(0, 0);
}

static void check_embedding_backward(eitp_dtype dtype, int64_t rows, int64_t vocabulary, int64_t c, int way) {
    const eitp__operand *old = NULL;
    double factor;
    begin_case(EITP__SLOT_EMBEDDING_BACKWARD, dtype);
    add_ids(rows, vocabulary);
    add_input(dtype, 2, rows, c, 0);
    add_output(EITP_F32, 2, vocabulary, c, 0);
    factor = set_carry(way);
    if (factor != 0)
        old = add_before(0);
    for (int64_t i = 0; i < vocabulary * c; i++)
        exact[0][i] = old ? factor * get(old, i) : 0;
    for (int64_t i = 0; i < rows * c; i++) {
        double id = in(0, i / c);
        if (id >= 0 && id < (double)vocabulary)
            exact[0][(int64_t)id * c + i % c] += in(1, i);
    }
    check(2e-6, 2);
}

/* On a device: ids that are sorted in two parts, sums of several pieces, tables of a single block. */
static void check_sorted_ids(eitp_dtype dtype) {
    check_embedding(dtype, 8, 11, 64);
    check_embedding_backward(dtype, 40, 2, 16, 0);
    check_embedding_backward(dtype, 40, 2, 16, 2);
    for (int way = 0; way < 3; way++)
        check_embedding_backward(dtype, 130, 11, 16, way);
    check_embedding_backward(dtype, 2100, 11, 3, 0);
}

static void test_embedding(void) {
    for (int dtype = EITP_F32; dtype <= EITP_F16; dtype++) {
        for (size_t w = 0; w < EITP__COUNT(widths) && has(EITP__SLOT_EMBEDDING, (eitp_dtype)dtype); w++) {
            check_embedding((eitp_dtype)dtype, 40, 11, widths[w]);
            for (int way = 0; way < ways_of(widths[w]); way++)
                check_embedding_backward((eitp_dtype)dtype, 40, 11, widths[w], way);
        }
        if (has_chunks((eitp_dtype)dtype))
            check_sorted_ids((eitp_dtype)dtype);
    }
}

/* Logits and targets; the ignored target may be a token of the vocabulary. */
static eitp__operand *add_logits(eitp_dtype dtype, int64_t rows, int64_t v) {
    eitp__operand *x = add_input(dtype, 2, rows, v, 0), *targets;
    for (int64_t i = 0; i < rows * v; i++)
        put(x, i, in(0, i) * 8 + (double)(i / v) * 10);
    targets = add_ids(rows, v);
    put(targets, 1, 0);
    put(targets, 7, 0);
    call.integers[0] = v > 1 ? 0 : -100;
    if (v == 1)
        put(targets, 8, -100);
    return targets;
}

static int counts(double target, int64_t v) {
    return target != (double)call.integers[0] && target >= 0 && target < (double)v;
}

/* The loss or gradient for a target that is ignored (0) or out of range (NaN). */
static double without_target(double target) {
    return target == (double)call.integers[0] ? 0 : (double)NAN;
}

static void check_cross_entropy(eitp_dtype dtype, int64_t rows, int64_t v) {
    begin_case(EITP__SLOT_CROSS_ENTROPY, dtype);
    add_logits(dtype, rows, v);
    add_output(EITP_F32, 1, rows, 0, 0);
    add_output(EITP_F32, 1, rows, 0, 0);
    for (int64_t row = 0; row < rows; row++) {
        double target = in(1, row);
        exact[1][row] = row_log_sum_exp(0, row, v);
        exact[0][row] = counts(target, v) ? exact[1][row] - in(0, row * v + (int64_t)target) : without_target(target);
    }
    check(2e-6, 2);
}

static void check_cross_entropy_backward(eitp_dtype dtype, int64_t rows, int64_t v) {
    eitp__operand *sums;
    begin_case(EITP__SLOT_CROSS_ENTROPY_BACKWARD, dtype);
    add_logits(dtype, rows, v);
    sums = add_input(EITP_F32, 1, rows, 0, 0);
    add_input(EITP_F32, 1, rows, 0, 0);
    add_output(dtype, 2, rows, v, 0);
    for (int64_t row = 0; row < rows; row++) {
        put(sums, row, row_log_sum_exp(0, row, v));
        for (int64_t j = 0; j < v; j++) {
            double p = exp(in(0, row * v + j) - in(2, row)) - ((double)j == in(1, row));
            exact[0][row * v + j] = counts(in(1, row), v) ? in(3, row) * p : without_target(in(1, row));
        }
    }
    check_in_place(1, 2e-5, 2);
}

static void test_cross_entropy(void) {
    for (int dtype = EITP_F32; dtype <= EITP_F16; dtype++) {
        for (size_t w = 0; w < EITP__COUNT(widths) && has(EITP__SLOT_CROSS_ENTROPY, (eitp_dtype)dtype); w++) {
            check_cross_entropy((eitp_dtype)dtype, 13, widths[w]);
            check_cross_entropy_backward((eitp_dtype)dtype, 13, widths[w]);
        }
    }
}

/* Logits with a NaN in row 2. Row 4 is minus infinity, as is the last logit of row 3 unless it is the only one. */
static void add_masked_logits(eitp_dtype dtype, int64_t rows, int64_t v) {
    eitp__operand *x = add_input(dtype, 2, rows, v, 0);
    for (int64_t i = 0; i < rows * v; i++) {
        int is_masked = i / v == 4 || (i / v == 3 && v > 1 && i % v == v - 1);
        put(x, i, is_masked ? -(double)INFINITY : in(0, i) * 8 + (double)(i / v) * 10);
    }
    put(x, 2 * v, (double)NAN);
}

/* Returns a row's entropy and its log-sum-exp, which is 0 if no logit is finite. */
static double row_entropy(int64_t row, int64_t v, double *log_sum_exp) {
    double entropy = 0;
    *log_sum_exp = row == 4 ? 0 : row_log_sum_exp(0, row, v);
    for (int64_t j = row * v; j < (row + 1) * v; j++) {
        double log_p = in(0, j) - *log_sum_exp;
        entropy -= log_p > -(double)INFINITY || log_p != log_p ? exp(log_p) * log_p : 0;
    }
    return entropy;
}

static void check_softmax_entropy(eitp_dtype dtype, int64_t rows, int64_t v) {
    begin_case(EITP__SLOT_SOFTMAX_ENTROPY, dtype);
    add_masked_logits(dtype, rows, v);
    add_output(EITP_F32, 1, rows, 0, 0);
    add_output(EITP_F32, 1, rows, 0, 0);
    for (int64_t row = 0; row < rows; row++)
        exact[0][row] = row_entropy(row, v, &exact[1][row]);
    check(2e-6, 2);
}

static void check_softmax_entropy_backward(eitp_dtype dtype, int64_t rows, int64_t v) {
    eitp__operand *entropies, *sums;
    begin_case(EITP__SLOT_SOFTMAX_ENTROPY_BACKWARD, dtype);
    add_masked_logits(dtype, rows, v);
    entropies = add_input(EITP_F32, 1, rows, 0, 0);
    sums = add_input(EITP_F32, 1, rows, 0, 0);
    add_input(EITP_F32, 1, rows, 0, 0);
    add_output(dtype, 2, rows, v, 0);
    for (int64_t row = 0; row < rows; row++) {
        double sum;
        put(entropies, row, row_entropy(row, v, &sum));
        put(sums, row, sum);
        for (int64_t j = row * v; j < (row + 1) * v; j++) {
            double log_p = in(0, j) - in(2, row);
            exact[0][j] = log_p == -(double)INFINITY ? 0 : -in(3, row) * exp(log_p) * (log_p + in(1, row));
        }
    }
    check_in_place(1, 2e-5, 2);
}

static void test_softmax_entropy(void) {
    for (int dtype = EITP_F32; dtype <= EITP_F16; dtype++) {
        for (size_t w = 0; w < EITP__COUNT(widths) && has(EITP__SLOT_SOFTMAX_ENTROPY, (eitp_dtype)dtype); w++) {
            check_softmax_entropy((eitp_dtype)dtype, 13, widths[w]);
            check_softmax_entropy_backward((eitp_dtype)dtype, 13, widths[w]);
        }
    }
}

/* ---- Path products ---- */

/* Weights with zeros, and a NaN in row k / 2 and column m / 3. */
static void add_path_weights(eitp_dtype dtype, int64_t k, int64_t m, int power) {
    eitp__operand *w = add_input(dtype, 2, k, m, 0);
    call.integers[0] = power;
    for (int64_t i = 0; i < k * m; i += 5)
        put(w, i, 0);
    put(w, k / 2 * m + m / 3, (double)NAN);
}

static void check_path_product(eitp_dtype dtype, int64_t k, int64_t m, int power, int transposed) {
    begin_case(transposed ? EITP__SLOT_PATH_PRODUCT_TRANSPOSED : EITP__SLOT_PATH_PRODUCT, dtype);
    add_path_weights(dtype, k, m, power);
    add_input(EITP_F32, 1, transposed ? m : k, 0, 0);
    add_output(EITP_F32, 1, transposed ? k : m, 0, 0);
    for (int64_t i = 0; i < (transposed ? k : m); i++)
        exact[0][i] = 0;
    for (int64_t i = 0; i < k * m; i++) {
        double w = fabs(in(0, i));
        exact[0][transposed ? i / m : i % m] += (power == 1 ? w : w * w) * in(1, transposed ? i % m : i / m);
    }
    check(1e-7, 1e-7);
}

static void check_path_product_backward(eitp_dtype dtype, int64_t k, int64_t m, int power, int way) {
    const eitp__operand *old = NULL;
    double factor;
    begin_case(EITP__SLOT_PATH_PRODUCT_BACKWARD, dtype);
    add_path_weights(dtype, k, m, power);
    add_input(EITP_F32, 1, k, 0, 0);
    add_input(EITP_F32, 1, m, 0, 0);
    add_output(EITP_F32, 2, k, m, 0);
    factor = set_carry(way);
    if (factor != 0)
        old = add_before(0);
    for (int64_t i = 0; i < k * m; i++) {
        double w = in(0, i), slope = power == 1 ? (w > 0) - (w < 0) : 2 * w;
        exact[0][i] = (old ? factor * get(old, i) : 0) + slope * in(1, i / m) * in(2, i % m);
    }
    check(5e-7, 1);
}

/* Sums of 50257 terms are as accurate as short ones. */
static void test_path_product(void) {
    for (int i = 0; i < 2 * (EITP_F16 + 1); i++) {
        eitp_dtype dtype = (eitp_dtype)(i / 2);
        int power = 1 + i % 2;
        for (size_t w = 0; w < EITP__COUNT(widths) - (size_t)is_few() && has(EITP__SLOT_PATH_PRODUCT, dtype); w++) {
            for (int transposed = 0; transposed < 2; transposed++) {
                check_path_product(dtype, 71, widths[w], power, transposed);
                check_path_product(dtype, widths[w], 71, power, transposed);
            }
            for (int way = 0; way < ways_of(widths[w]); way++)
                check_path_product_backward(dtype, 9, widths[w], power, way);
        }
        if (!has(EITP__SLOT_PATH_PRODUCT, dtype))
            continue;
        check_path_product(dtype, 50257, 2, power, 0);
        check_path_product(dtype, 2, 50257, power, 1);
    }
}

/* ---- Matrices ---- */

/* Returns the log-determinant of the symmetric part of a matrix and its inverse, by elimination, or NaN if it is not
   positive definite. */
static double eliminate(int64_t item, int64_t m, double *inverse) {
    double *rows = (double *)block((size_t)(2 * m * m) * sizeof *rows), sum = 0;
    for (int64_t i = 0; i < m * m; i++) {
        rows[i / m * 2 * m + i % m] = (in(0, item * m * m + i) + in(0, item * m * m + i % m * m + i / m)) / 2;
        rows[i / m * 2 * m + m + i % m] = i / m == i % m;
    }
    for (int64_t i = 0; i < m; i++) {
        double pivot = rows[i * 2 * m + i] > 0 ? rows[i * 2 * m + i] : (double)NAN;
        sum += log(pivot);
        for (int64_t j = 0; j < 2 * m; j++)
            rows[i * 2 * m + j] /= pivot;
        for (int64_t other = 0; other < m; other++) {
            double factor = rows[other * 2 * m + i];
            for (int64_t j = i; j < 2 * m && other != i; j++)
                rows[other * 2 * m + j] -= factor * rows[i * 2 * m + j];
        }
    }
    for (int64_t i = 0; i < m * m; i++)
        inverse[i] = sum == sum ? rows[i / m * 2 * m + m + i % m] : (double)NAN;
    return sum;
}

/*
 * Diagonally dominant matrices, except that matrix 1 has a negative last diagonal element, matrix 2 a NaN, and matrix 3
 * is zero.
 */
static void check_matrices(eitp_dtype dtype, int64_t items, int64_t m) {
    for (int is_inverse = 0; is_inverse < 2; is_inverse++) {
        eitp__operand *a;
        double *inverse;
        begin_case(is_inverse ? EITP__SLOT_INVERSE_SPD : EITP__SLOT_LOGDET, dtype);
        a = add_input(dtype, 2, items, m * m, 0);
        call.integers[0] = m;
        for (int64_t i = 0; i < items * m; i++)
            put(a, i * m + i % m, get(a, i * m + i % m) + (double)(2 * m));
        if (items > 3) {
            put(a, 2 * m * m - 1, -1);
            put(a, 2 * m * m + m / 2, (double)NAN);
            memset((char *)a->data + (size_t)(3 * m * m) * eitp_dtype_size(dtype), 0,
                   (size_t)(m * m) * eitp_dtype_size(dtype));
        }
        inverse = (double *)block((size_t)(m * m) * sizeof *inverse);
        add_output(dtype, is_inverse ? 2 : 1, items, m * m, 0);
        for (int64_t item = 0; item < items; item++) {
            int kept = held_count;
            double sum = eliminate(item, m, is_inverse ? exact[0] + item * m * m : inverse);
            release_blocks(kept);
            if (!is_inverse)
                exact[0][item] = sum;
        }
        check_in_place(is_inverse, dtype == EITP_F64 ? 1e-12 : 1e-7, dtype == EITP_F64 ? 1e-3 : 1e-6);
    }
}

static void test_matrices(void) {
    static const int64_t sizes[] = {1, 2, 5, 12, 63, 64, 65, 130, 203};
    for (int dtype = EITP_F32; dtype <= EITP_F64; dtype++)
        for (size_t i = 0; i < EITP__COUNT(sizes) - (size_t)is_few(); i++)
            check_matrices((eitp_dtype)dtype, sizes[i] < 64 ? 9 : sizes[i] < 130 ? 4 : 1, sizes[i]);
}

static void check_head_loss(int64_t rows, int64_t parts, int64_t vocabulary) {
    eitp__operand *sums;
    begin_case(EITP__SLOT_HEAD_LOSS, EITP_F32);
    add_input(EITP_F32, 2, rows, parts, 0);
    sums = add_input(EITP_F32, 2, rows, parts, 0);
    add_input(EITP_F32, 1, rows, 0, 0);
    put(add_ids(rows, vocabulary), 1, 0);
    for (int64_t i = 0; i < rows * parts; i++) {
        put(&call.inputs[0], i, 30 * in(0, i) + (double)(i / parts) * 100);
        put(sums, i, 1 + 90 * (1 + in(1, i)));
    }
    call.integers[0] = 0;
    call.integers[1] = vocabulary;
    add_output(EITP_F32, 1, rows, 0, 0);
    add_output(EITP_F32, 1, rows, 0, 0);
    for (int64_t row = 0; row < rows; row++) {
        double largest = -INFINITY, sum = 0;
        for (int64_t b = row * parts; b < (row + 1) * parts; b++)
            largest = fmax(largest, in(0, b));
        for (int64_t b = row * parts; b < (row + 1) * parts; b++)
            sum += exp(in(0, b) - largest) * in(1, b);
        exact[1][row] = largest + log(sum);
        if (!counts(in(3, row), vocabulary))
            put(&call.inputs[2], row, NAN); /* not read */
        exact[0][row] = counts(in(3, row), vocabulary) ? exact[1][row] - in(2, row) : without_target(in(3, row));
    }
    check(1e-6, 2);
}

/* Makes the rows of a matrix v columns with a stride, followed by zeros. */
static void set_stride(eitp__operand *x, int64_t v) {
    x->row_stride = x->shape[1] == v ? 0 : x->shape[1];
    x->shape[1] = v;
}

static void check_head_backward(eitp_dtype dtype, int64_t rows, int64_t v, int64_t stride) {
    const int64_t block = uses_cuda() ? cuda_device->interface->head_block : EITP__HEAD_BLOCK;
    const int64_t parts = (v + block - 1) / block;
    eitp__operand *e;
    begin_case(EITP__SLOT_HEAD_BACKWARD, dtype);
    e = add_input(dtype, 2, rows, stride, 0);
    for (int64_t i = 0; i < rows * stride; i++)
        put(e, i, i % stride < v ? fabs(in(0, i)) : 0);
    add_input(EITP_F32, 2, rows, parts, 0);
    put(add_ids(rows, v), 1, 0);
    for (int i = 0; i < 2; i++)
        add_input(EITP_F32, 1, rows, 0, 0);
    for (int64_t row = 0; row < rows; row++)
        put(&call.inputs[3], row, 2 + in(3, row));
    add_output(dtype, 2, rows, stride, 0);
    for (int64_t i = 0; i < rows * stride; i++) {
        int64_t row = i / stride, j = i % stride;
        double p = j < v ? in(0, i) * exp(in(1, row * parts + j / block) - in(3, row)) : 0;
        exact[0][i] = counts(in(2, row), v) ? (p - ((double)j == in(2, row))) * in(4, row) : without_target(in(2, row));
        exact[0][i] = j < v ? exact[0][i] : 0;
    }
    set_stride(e, v);
    set_stride(&call.outputs[0], v);
    check_in_place(1, 2e-6, 1);
}

static void test_head(void) {
    static const int64_t sizes[] = {1, 7, 191, 192, 193, 500, 577, 1152};
    for (size_t i = 0; i < EITP__COUNT(sizes); i++) {
        check_head_loss(11, sizes[i] < 500 ? sizes[i] : 33, 1000);
        for (int dtype = EITP_F32; dtype <= EITP_F16; dtype++)
            if (has(EITP__SLOT_HEAD_BACKWARD, (eitp_dtype)dtype))
                check_head_backward((eitp_dtype)dtype, 9, sizes[i], sizes[i]);
    }
    if (uses_cuda())
        check_head_loss(7, 1187, 1000);
    for (int dtype = EITP_BF16; dtype <= EITP_F16 && has_chunks((eitp_dtype)dtype); dtype++)
        check_head_backward((eitp_dtype)dtype, 7, 1100, 1152);
}

/* ---- Attention ---- */

enum { HEADS = 3, WIDTH = 5, CHANNELS = HEADS * WIDTH };

static const double attention_scale = 0.4;

/*
 * Returns the allowed error relative to 1 + the result. Tensor cores, used for more than 4 rows, round each of 20
 * probabilities once. Values are at most 1, so that changes a mean by at most the rounding of 1, and of numbers below
 * 2^-14 in F16. test_attention.c has closer bounds.
 */
static double attention_tolerance(eitp_dtype dtype, int64_t rows) {
    if (!uses_cuda() || rows <= 4 || dtype == EITP_F32)
        return 5e-6;
    return 5e-6 + (dtype == EITP_BF16 ? 1.0 / 256 : 1.0 / 2048 + 20.0 / (1 << 25));
}

static void check_attention_cached(eitp_dtype dtype, int64_t rows, int64_t max_length, int32_t position) {
    const double tolerance = attention_tolerance(dtype, rows);
    eitp__operand *at;
    begin_case(EITP__SLOT_ATTENTION_CACHED, dtype);
    add_input(dtype, 2, rows, 3 * CHANNELS, 0);
    add_input(dtype, 2, max_length, CHANNELS, 0);
    add_input(dtype, 2, max_length, CHANNELS, 0);
    at = add_input(EITP_I32, 1, 1, 0, 0);
    put(at, 0, position);
    call.integers[0] = HEADS;
    call.integers[1] = HEADS;
    call.reals[0] = attention_scale;
    add_output(dtype, 2, rows, CHANNELS, 0);
    add_output(dtype, 2, max_length, CHANNELS, 0);
    add_output(dtype, 2, max_length, CHANNELS, 0);
    for (int64_t i = 0; i < max_length * CHANNELS; i++) {
        int64_t row = i / CHANNELS - position, from = row * 3 * CHANNELS + i % CHANNELS;
        int is_new = row >= 0 && row < rows;
        exact[1][i] = is_new ? in(0, from + CHANNELS) : in(1, i);
        exact[2][i] = is_new ? in(0, from + 2 * CHANNELS) : in(2, i);
    }
    for (int64_t i = 0; i < rows * CHANNELS; i++) {
        int64_t row = i / CHANNELS, first = i % CHANNELS / WIDTH * WIDTH, last = row + position;
        double total = 0, sum = 0;
        for (int64_t j = 0; last >= 0 && last < max_length && j <= last; j++) {
            double p = 0;
            for (int64_t d = first; d < first + WIDTH; d++)
                p += in(0, row * 3 * CHANNELS + d) * exact[1][j * CHANNELS + d];
            p = exp(p * attention_scale);
            total += p;
            sum += p * exact[2][j * CHANNELS + i % CHANNELS];
        }
        exact[0][i] = total > 0 ? sum / total : 0;
    }
    check(tolerance, 1);
    shares[1] = 1;
    shares[2] = 2;
    check(tolerance, 1);
}

static void test_attention_cached(void) {
    static const struct {
        int64_t rows;
        int32_t position;
    } cases[] = {{1, 0},
                 {1, 19},
                 {7, 0},
                 {7, 13},
                 /* After the end of the cache, and before its start. */
                 {7, 16},
                 {3, 20},
                 {3, 2147483647},
                 {4, -2},
                 {4, -2147483647 - 1}};
    for (int dtype = EITP_F32; dtype <= EITP_F16; dtype++)
        for (size_t i = 0; i < EITP__COUNT(cases) && has(EITP__SLOT_ATTENTION_CACHED, (eitp_dtype)dtype); i++)
            check_attention_cached((eitp_dtype)dtype, cases[i].rows, 20, cases[i].position);
}

/* ---- Updates ---- */

/* Sums of 9 ranges, of elements with a bound, or of all, added to the second total or to half of it. */
static void check_total(int has_bounds, int is_single, int has_carry) {
    const int64_t ranges = has_bounds ? 9 : 0;
    eitp__operand *bounds;
    begin_case(EITP__SLOT_TOTAL, EITP_F32);
    add_input(EITP_F32, 1, 3000, 0, 0);
    add_input(EITP_F64, 1, 3, 0, 0);
    if (has_bounds) {
        bounds = add_input(EITP_I32, 2, ranges, 2, 0);
        for (int64_t i = 0; i < ranges; i++) {
            put(bounds, 2 * i, i == 4 ? -1 : (double)(300 * i));
            put(bounds, 2 * i + 1, (double)(300 * i + 37 * i));
        }
    } else {
        add_absent_input();
    }
    if (has_carry)
        put(add_input(EITP_F32, 1, 1, 0, 0), 0, 0.5);
    else
        add_absent_input();
    call.integers[0] = 1;
    call.integers[1] = is_single;
    add_output(EITP_F64, 1, 3, 0, 0);
    for (int64_t i = 0; i < 3; i++)
        exact[0][i] = in(1, i);
    exact[0][1] = has_carry ? in(1, 1) / 2 : 0;
    for (int64_t i = 0; i < ranges; i++)
        for (int64_t k = is_single ? i : (int64_t)in(2, 2 * i); in(2, 2 * i) >= 0; k++) {
            if (k >= (is_single ? i + 1 : (int64_t)in(2, 2 * i + 1)))
                break;
            exact[0][1] += in(0, k);
        }
    for (int64_t k = 0; k < 3000 && !has_bounds; k++)
        exact[0][1] += in(0, k);
    shares[0] = 1;
    check(1e-12, 1);
}

static void test_total(void) {
    for (int form = 0; form < 8; form++)
        if (form & 1 || !(form & 2))
            check_total(form & 1, form >> 1 & 1, form >> 2);
}

static void test_accumulate(void) {
    for (int dtype = EITP_F32; dtype <= EITP_F16; dtype++) {
        for (int way = 0; way < 4; way++) {
            /* Carry NULL, 0.5, and 0 with a target of NaN. */
            begin_case(EITP__SLOT_ACCUMULATE, (eitp_dtype)dtype);
            add_input(call.dtype, 2, 9, 15, 0);
            add_input(call.dtype, 2, 9, 15, 0);
            if (way == 1)
                add_absent_input();
            if (way >= 2)
                put(add_input(EITP_F32, 1, 1, 0, 0), 0, way == 2 ? 0.5 : 0);
            if (way == 3)
                memset(call.inputs[0].data, 0xff, bytes_of(&call.inputs[0]));
            add_output(call.dtype, 2, 9, 15, 0);
            for (int64_t i = 0; i < 135; i++)
                exact[0][i] = (way == 3 ? 0 : way == 2 ? 0.5 * in(0, i) : in(0, i)) + in(1, i);
            check_in_place(1, precision(call.dtype), 1);
        }
    }
}

int main(int argc, char **argv) {
    static const test_case tests[] = {TEST(test_table),
                                      TEST(test_fill_and_arange),
                                      TEST(test_cast),
                                      TEST(test_cast_16_bits),
                                      TEST(test_unary),
                                      TEST(test_gate_backward),
                                      TEST(test_binary),
                                      TEST(test_where),
                                      TEST(test_dropout),
                                      TEST(test_broadcast),
                                      TEST(test_permute),
                                      TEST(test_slice_and_pad),
                                      TEST(test_concat),
                                      TEST(test_gather),
                                      TEST(test_reductions),
                                      TEST(test_empty_sum),
                                      TEST(test_column_sums),
                                      TEST(test_sum_in_parts),
                                      TEST(test_scatter_add),
                                      TEST(test_sum_squares),
                                      TEST(test_softmax),
                                      TEST(test_layer_norm),
                                      TEST(test_rms_norm),
                                      TEST(test_embedding),
                                      TEST(test_cross_entropy),
                                      TEST(test_head),
                                      TEST(test_attention_cached),
                                      TEST(test_total),
                                      TEST(test_accumulate),
                                      TEST(test_softmax_entropy),
                                      TEST(test_path_product),
                                      TEST(test_matrices)};
    int failed;
    find_sets();
    failed = RUN_TESTS(tests, argc, argv);
    release_blocks(0);
    return failed;
}
