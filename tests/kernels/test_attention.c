/*
 * Attention and its gradient compared with formulas in double, for every element type and every kernel set of this
 * machine: values, memory around outputs and workspace, and the same bits for any division into pieces.
 *
 * Errors are allowed for arithmetic in f32 and for rounding outputs. Tensor cores multiply 16-bit numbers, so there
 * each factor that is not stored in 16 bits is rounded, once; the effect on each output is bounded below.
 */
#include "base/convert.h"
#include "kernels/attention.h"
#include "tests/support/kernel_sets.h"

enum { GUARD = 64, SEQUENCES = 6 };

typedef struct attention_case {
    int64_t rows, heads, width, max_length;
    int32_t offsets[SEQUENCES + 1];
    int sequences, padded;
    int32_t lengths[SEQUENCES];
    int bidirectional;
    double dropout, range; /* `range`: range of the inputs */
    int spoiled;           /* 1: a value in the middle row is NaN */
} attention_case;

/* Additional options of decoders. All are 0 in cases without them. */
static struct {
    int64_t group;  /* query heads that share a head of keys and values; 0: 1 */
    int64_t window; /* 0: none */
    int rotates;
    int is_apart; /* q, k and v are separate operands */
} decoder;

static int has_cache;    /* the slot is ATTENTION_CACHED */
static int shares_cache; /* keys and values are added to the cache in place */
static int has_bases;    /* on a device, each operand in turn starts at an unaligned base */

static const eitp_dtype dtypes[] = {EITP_F32, EITP_BF16, EITP_F16};
static const double scale = 0.4;
static const int64_t key[3] = {99, 3, 1000000000001};
enum { STREAM = 1030 };

/* The current case: its inputs, rounded to values that the element type can represent, and the expected outputs. */
static attention_case at;
static eitp_dtype dtype;
static double *qkv, *o, *logsumexps, *slopes;
static double *rotation, *turned; /* one rotation per row; qkv with queries and keys rotated */
static double *exact_o, *exact_logsumexps, *exact_gradient, *scores, *score_errors;
/* Bounds of the effect of rounding factors on each of the expected outputs. */
static double *o_errors, *logsumexp_errors, *gradient_errors;

/* ---- Memory and numbers ---- */

static double get(const eitp__operand *x, int64_t i) {
    if (x->dtype == EITP_F32)
        return (double)((const float *)x->data)[i];
    return (double)(x->dtype == EITP_BF16 ? eitp__bf16_to_f32(((const uint16_t *)x->data)[i])
                                          : eitp__f16_to_f32(((const uint16_t *)x->data)[i]));
}

static void put(const eitp__operand *x, int64_t i, double value) {
    if (x->dtype == EITP_F32)
        ((float *)x->data)[i] = (float)value;
    else
        ((uint16_t *)x->data)[i] =
            x->dtype == EITP_BF16 ? eitp__f32_to_bf16((float)value) : eitp__f32_to_f16((float)value);
}

static size_t bytes_of(const eitp__operand *x) {
    return (size_t)x->elements * eitp_dtype_size(x->dtype);
}

static void set_shape(eitp__operand *x, eitp_dtype type, int64_t rows, int64_t columns) {
    memset(x, 0, sizeof *x);
    x->dtype = type;
    x->rank = columns ? 2 : 1;
    x->shape[0] = rows;
    x->shape[1] = columns;
    x->elements = rows * (columns ? columns : 1);
}

/* Adds an input with these values, rounded in place to its type, in a block of exactly its size. */
static void add_values(eitp__call *call, eitp_dtype type, int64_t columns, double *values) {
    eitp__operand *x = &call->inputs[call->input_count++];
    set_shape(x, type, at.rows, columns);
    x->data = block(bytes_of(x));
    for (int64_t i = 0; i < x->elements; i++) {
        put(x, i, values[i]);
        values[i] = get(x, i);
    }
}

static void add_bytes(eitp__call *call, eitp_dtype type, int64_t count, const void *bytes, int is_there) {
    eitp__operand *x = &call->inputs[call->input_count++];
    set_shape(x, type, count, 0);
    if (is_there)
        x->data = memcpy(block(bytes_of(x)), bytes, bytes_of(x));
    else
        memset(x, 0, sizeof *x);
}

/* ---- Expected outputs ---- */

static int64_t clip(int64_t value, int64_t low, int64_t high) {
    return value < low ? low : value > high ? high : value;
}

/* The first valid row of a sequence and the end of its valid rows. */
static int64_t first_row(int sequence) {
    return clip(at.offsets[sequence], 0, at.rows);
}

static int64_t last_row(int sequence) {
    int64_t begin = first_row(sequence), end = clip(at.offsets[sequence + 1], begin, at.rows);
    int64_t most = at.padded ? clip(at.lengths[sequence], 0, at.max_length) : at.max_length;
    return end - begin > most ? begin + most : end;
}

static double kept(int64_t row, int64_t head, int64_t position) {
    uint64_t index = ((uint64_t)(key[2] + row) * (uint64_t)at.heads + (uint64_t)head) * (uint64_t)at.max_length;
    if (!(at.dropout > 0))
        return 1;
    return eitp__kernel_uniform((uint64_t)key[0], (uint64_t)key[1], STREAM, index + (uint64_t)position) <
                   (float)at.dropout
               ? 0
               : 1 / (1 - at.dropout);
}

static double dot(const double *a, const double *b) {
    double sum = 0;
    for (int64_t i = 0; i < at.width; i++)
        sum += a[i] * b[i];
    return sum;
}

static void add_scaled(double *y, double factor, const double *x) {
    for (int64_t i = 0; i < at.width; i++)
        y[i] += factor * x[i];
}

static void add_magnitude(double *y, double factor, const double *x) {
    for (int64_t i = 0; i < at.width; i++)
        y[i] += factor * fabs(x[i]);
}

static int64_t group_size(void) {
    return decoder.group ? decoder.group : 1;
}

static int64_t key_heads(void) {
    return at.heads / group_size();
}

static int64_t qkv_columns(void) {
    return (at.heads + 2 * key_heads()) * at.width;
}

/* Offset in q of head h of row i, or in k or v (part 1 or 2) of the head that it shares. in_o is the offset in a row
   of the model's width. */
static int64_t in_qkv(int64_t i, int64_t h, int part) {
    const int64_t head = part ? at.heads + (part - 1) * key_heads() + h / group_size() : h;
    return i * qkv_columns() + head * at.width;
}

static int64_t in_o(int64_t i, int64_t h) {
    return (i * at.heads + h) * at.width;
}

/*
 * Rotates queries and keys. A `sign` of -1 rotates them back; 0 rotates bounds of errors.
 */
static void turn(double *values, double sign) {
    const int64_t half = at.width / 2;
    for (int64_t i = 0; i < at.rows * (at.heads + key_heads()) && decoder.rotates; i++) {
        const int64_t row = i / (at.heads + key_heads()), head = i % (at.heads + key_heads());
        double *x = values + row * qkv_columns() + head * at.width;
        for (int64_t k = 0; k < half; k++) {
            const double a = x[k], b = x[k + half];
            const double cosine = rotation[row * at.width + k], sine = rotation[row * at.width + k + half];
            x[k] = sign == 0 ? fabs(a * cosine) + fabs(b * sine) : a * cosine - sign * b * sine;
            x[k + half] = sign == 0 ? fabs(b * cosine) + fabs(a * sine) : b * cosine + sign * a * sine;
        }
    }
}

/* ---- Errors of rounded factors ---- */

/* True if this case uses tensor cores: see backends/cuda/attention.c. */
static int is_on_tensor_cores(void) {
    return uses_cuda() && dtype != EITP_F32 && at.width <= 128 &&
           (has_cache || !decoder.rotates || at.width % 16 == 0) && (!has_cache || at.rows > 4);
}

/* Returns the largest error of rounding x to the type. F16 has multiples of 2^-24 below 2^-14. */
static double rounding_of(double x) {
    return dtype == EITP_F32 ? 0 : dtype == EITP_BF16 ? fabs(x) / 256 : fabs(x) / 2048 + 1.0 / (1 << 25);
}

/* Returns the largest error of a probability or derivative as a factor, whose magnitude is at most x. */
static double factor_error(double x) {
    return is_on_tensor_cores() ? rounding_of(x) : 0;
}

/* Returns the largest error of a rotated element. Attention with a cache rounds them everywhere. */
static double turned_error(double x) {
    return decoder.rotates && (has_cache || is_on_tensor_cores()) ? rounding_of(x) : 0;
}

/* Returns the largest error of x y if x and y have errors of at most dx and dy. */
static double product_error(double x, double dx, double y, double dy) {
    return (fabs(x) + dx) * (fabs(y) + dy) - fabs(x * y);
}

/* Returns the largest error of the score of a query and a key, which may come from a cache unchanged. */
static double score_error(const double *q, const double *k, int is_old) {
    double error = 0;
    for (int64_t i = 0; i < at.width; i++)
        error += product_error(q[i], turned_error(q[i]), k[i], is_old ? 0 : turned_error(k[i]));
    return scale * error;
}

/*
 * Adds the largest errors of a term of a weighted sum of rows v. An error in the score changes the weight by at most a
 * factor exp(error), and errors in all scores of a row change the sum that it is divided by by at most exp(spread).
 * Exponentials are rounded before they are divided by that sum, which is 1 or more, and multiplied by `keep`.
 */
static void add_weight_error(double *errors, double weight, double keep, double error, double spread, const double *v) {
    const double changed = weight * exp(error + spread);
    add_magnitude(errors, keep * (changed - weight + factor_error(changed)), v);
}

static void expect_row(int64_t begin, int64_t end, int64_t i, int64_t h) {
    double largest = -(double)INFINITY, sum = 0, spread = 0, *y = exact_o + in_o(i, h);
    const int64_t start = begin;
    if (decoder.window && i - begin >= decoder.window)
        begin = i + 1 - decoder.window;
    for (int64_t j = begin; j < end; j++) {
        scores[j] = scale * dot(turned + in_qkv(i, h, 0), turned + in_qkv(j, h, 1));
        score_errors[j] = score_error(turned + in_qkv(i, h, 0), turned + in_qkv(j, h, 1), 0);
        largest = scores[j] > largest ? scores[j] : largest;
    }
    for (int64_t j = begin; j < end; j++) {
        sum += exp(scores[j] - largest);
        spread += exp(scores[j] - largest + score_errors[j]);
    }
    spread = log(spread / sum);
    exact_logsumexps[i * at.heads + h] = largest + log(sum);
    logsumexp_errors[i * at.heads + h] = spread;
    for (int64_t j = begin; j < end; j++) {
        const double p = exp(scores[j] - largest) / sum, keep = kept(i, h, j - start);
        add_scaled(y, p * keep, qkv + in_qkv(j, h, 2));
        add_weight_error(o_errors + in_o(i, h), p, keep, score_errors[j], spread, qkv + in_qkv(j, h, 2));
    }
}

/* Adds the errors of the gradients of q and k from a derivative ds of a score, without `scale`. */
static void add_score_gradient_errors(int64_t i, int64_t j, int64_t h, double ds, double error) {
    const double *q = turned + in_qkv(i, h, 0), *k = turned + in_qkv(j, h, 1), changed = fabs(ds) * exp(error);
    const double rounded = changed - fabs(ds) + factor_error(changed);
    for (int64_t e = 0; e < at.width; e++) {
        gradient_errors[in_qkv(i, h, 0) + e] += scale * product_error(ds, rounded, k[e], turned_error(k[e]));
        gradient_errors[in_qkv(j, h, 1) + e] += scale * product_error(ds, rounded, q[e], turned_error(q[e]));
    }
}

/* Uses the output and the log-sum-exp that the kernel receives. */
static void expect_row_gradient(int64_t begin, int64_t end, int64_t i, int64_t h) {
    const double *q = turned + in_qkv(i, h, 0), *slope = slopes + in_o(i, h);
    double mean = dot(o + in_o(i, h), slope);
    for (int64_t j = begin; j < end; j++) {
        const double *k = turned + in_qkv(j, h, 1), error = score_error(q, k, 0);
        double p = exp(scale * dot(q, k) - logsumexps[i * at.heads + h]);
        if (decoder.window && i - j >= decoder.window)
            continue;
        double keep = kept(i, h, j - begin), ds = p * (keep * dot(slope, qkv + in_qkv(j, h, 2)) - mean);
        add_scaled(exact_gradient + in_qkv(i, h, 0), scale * ds, k);
        add_scaled(exact_gradient + in_qkv(j, h, 1), scale * ds, q);
        add_scaled(exact_gradient + in_qkv(j, h, 2), p * keep, slope);
        add_score_gradient_errors(i, j, h, ds, error);
        add_weight_error(gradient_errors + in_qkv(j, h, 2), p, keep, error, 0, slope);
    }
}

static void expect(void (*row)(int64_t begin, int64_t end, int64_t i, int64_t h)) {
    for (int s = 0; s < at.sequences && !cuda_paths_file(); s++)
        for (int64_t h = 0; h < at.heads; h++)
            for (int64_t i = first_row(s); i < last_row(s); i++)
                row(first_row(s), at.bidirectional ? last_row(s) : i + 1, i, h);
}

/* ---- Execution ---- */

static int64_t count_items(const eitp__call *call) {
    return eitp__slot_family(call->slot) == EITP__FAMILY_WHOLE ? 1
           : call->slot == EITP__SLOT_ATTENTION_BACKWARD       ? at.sequences * key_heads()
                                                               : at.sequences * at.heads;
}

static void place_outputs(eitp__call *call) {
    for (int i = 0; i < call->output_count; i++) {
        size_t bytes = bytes_of(&call->outputs[i]);
        char *memory = (char *)block(bytes + 2 * GUARD);
        memset(memory, 0x5a, bytes + 2 * GUARD);
        memset(memory + GUARD, 0xff, bytes);
        call->outputs[i].data = memory + GUARD;
        if (shares_cache && i) {
            memcpy(memory + GUARD, call->inputs[i].data, bytes);
            call->inputs[i].data = memory + GUARD;
        }
    }
}

static int guards_hold(const eitp__call *call) {
    int hold = 1;
    for (int i = 0; i < call->output_count; i++) {
        const unsigned char *y = (const unsigned char *)call->outputs[i].data, *end = y + bytes_of(&call->outputs[i]);
        for (int j = 0; j < GUARD; j++)
            hold = hold && y[j - GUARD] == 0x5a && end[j] == 0x5a;
    }
    return hold;
}

/* Executes the call in pieces of `piece` items, the last piece first, with a workspace full of NaN. */
static void run_pieces(const eitp__kernel *kernel, const eitp__call *call, int64_t piece) {
    size_t size = kernel->workspace ? kernel->workspace(call) : 0;
    unsigned char *workspace = (unsigned char *)aligned_alloc(EITP__ALIGNMENT, (size + GUARD + 127) / 64 * 64);
    REQUIRE(workspace);
    memset(workspace, 0xff, size + GUARD);
    for (int64_t end = count_items(call); end > 0;) {
        int64_t begin = (end - 1) / piece * piece;
        kernel->run(call, begin, end, workspace);
        end = begin;
    }
    for (int i = 0; i < GUARD; i++)
        CHECK_THAT(workspace[size + (size_t)i] == 0xff, "%s: wrote beyond its workspace", kernel->set);
    free(workspace);
}

/* The allowed error of an element is `tolerance` times (its magnitude + 1), plus its entry in `errors`, plus rounding
   to its type. */
static void compare(const char *what, const eitp__operand *y, const double *exact, const double *errors,
                    double tolerance) {
    double rounding = y->dtype == EITP_F32 ? 0 : y->dtype == EITP_BF16 ? 1.0 / 256 : 1.0 / 2048, worst = 0;
    int64_t where = -1;
    for (int64_t i = 0; i < y->elements; i++) {
        double got = get(y, i), allowed = (tolerance + rounding) * fabs(exact[i]) + tolerance, error;
        allowed += errors ? (1 + rounding) * errors[i] : 0;
        if (got != got && exact[i] != exact[i])
            continue;
        error = fabs(got - exact[i]) / allowed;
        error = error != error ? (double)INFINITY : error;
        if (where < 0 || error > worst) {
            worst = error;
            where = i;
        }
    }
    CHECK_THAT(worst <= 1, "%s %s, width %d, %d rows: at %lld is %.9g, not %.9g (%.3g times the tolerance)", what,
               eitp_dtype_name(dtype), (int)at.width, (int)at.rows, (long long)where, get(y, where), exact[where],
               worst);
}

/* Executes a call on the device, whose displaced operand starts at an unaligned base. */
static void check_displaced(const eitp__call *call, double *const *exact, double *const *errors, double tolerance) {
    const int kept_blocks = held_count;
    eitp__call whole = *call;
    place_outputs(&whole);
    cuda_run(&whole);
    for (int i = 0; i < call->output_count; i++)
        compare("displaced", &whole.outputs[i], exact[i], errors[i], tolerance);
    CHECK_THAT(guards_hold(&whole), "displaced operand %d: wrote around an output", cuda_displaced);
    release_blocks(kept_blocks);
}

/* Executes a call with every set. With tolerance 0 the values are not checked. */
static void check_call(const eitp__call *call, double *const *exact, double *const *errors, double tolerance) {
    while (has_bases && cuda_displace_next(call))
        check_displaced(call, exact, errors, tolerance);
    for (int set = 0; set < EITP__ISA_COUNT; set++) {
        const eitp__kernel *kernel = &tables[set].kernels[call->slot][dtype];
        int kept_blocks = held_count;
        eitp__call whole = *call, cut = *call;
        REQUIRE(kernel->run);
        if (!available[set] || (set && kernel->run == tables[set - 1].kernels[call->slot][dtype].run) ||
            (kernel->supports && !kernel->supports(call)))
            continue;
        place_outputs(&whole);
        place_outputs(&cut);
        run_pieces(kernel, &whole, count_items(call));
        run_pieces(kernel, &cut, 1);
        for (int i = 0; i < call->output_count && tolerance > 0; i++) {
            compare(kernel->set, &whole.outputs[i], exact[i], errors[i], tolerance);
            CHECK_THAT(!memcmp(whole.outputs[i].data, cut.outputs[i].data, bytes_of(&cut.outputs[i])),
                       "%s %s: pieces change output %d", kernel->set, eitp_dtype_name(dtype), i);
        }
        CHECK_THAT(guards_hold(&whole) && guards_hold(&cut), "%s %s: wrote around an output", kernel->set,
                   eitp_dtype_name(dtype));
        release_blocks(kept_blocks);
    }
}

static double *numbers(int64_t columns, double range);

/* Number of columns of q, k or v. */
static int64_t part_columns(int part) {
    return (part ? key_heads() : at.heads) * at.width;
}

/* Returns a copy of one part of values stored side by side. */
static double *part_of(const double *values, int part) {
    const int64_t columns = part_columns(part);
    double *copy = numbers(columns, 0);
    for (int64_t i = 0; i < at.rows; i++)
        memcpy(copy + i * columns, values + in_qkv(i, 0, part), (size_t)columns * sizeof *copy);
    return copy;
}

/* Adds q, or q, k and v side by side, as the first input. Stores their rounded values in qkv. */
static void add_queries(eitp__call *call) {
    double *copy = decoder.is_apart ? part_of(qkv, 0) : qkv;
    eitp__operand rounded;
    set_shape(&rounded, dtype, at.rows, qkv_columns());
    rounded.data = block(bytes_of(&rounded));
    for (int64_t i = 0; i < rounded.elements; i++) {
        put(&rounded, i, qkv[i]);
        qkv[i] = get(&rounded, i);
    }
    add_values(call, dtype, decoder.is_apart ? part_columns(0) : qkv_columns(), copy);
}

/* Adds the inputs of an ATTENTION call from k to the rotation. */
static void add_decoder(eitp__call *call) {
    for (int part = 1; part < 3; part++) {
        if (decoder.is_apart)
            add_values(call, dtype, part_columns(part), part_of(qkv, part));
        else
            call->input_count++;
    }
    if (call->slot != EITP__SLOT_ATTENTION_CACHED)
        call->input_count++; /* no mask */
    if (decoder.rotates)
        add_values(call, EITP_F32, at.width, rotation);
    else
        call->input_count++;
}

/* Fills the rotations of queries and keys. */
static void draw_rotation(void) {
    rotation = numbers(at.width, 0);
    for (int64_t i = 0; i < at.rows * at.width && decoder.rotates; i++) {
        const int64_t row = i / at.width, k = i % at.width % (at.width / 2);
        const double angle = (double)(row % 50) * pow(30, -2 * (double)k / (double)at.width);
        rotation[i] = (double)(float)(i % at.width < at.width / 2 ? cos(angle) : sin(angle));
    }
}

static void turn_queries(void) {
    turned = numbers(qkv_columns(), 0);
    memcpy(turned, qkv, (size_t)(at.rows * qkv_columns()) * sizeof *turned);
    turn(turned, 1);
}

static void add_attributes(eitp__call *call, eitp__slot slot) {
    memset(call, 0, sizeof *call);
    call->slot = slot;
    call->dtype = dtype;
    call->integers[0] = at.heads;
    call->integers[1] = at.max_length;
    call->integers[2] = STREAM;
    call->integers[3] = at.bidirectional;
    call->integers[4] = key_heads();
    call->integers[5] = decoder.window;
    call->reals[0] = scale;
    call->reals[1] = at.dropout;
    add_queries(call);
    add_bytes(call, EITP_I32, at.sequences + 1, at.offsets, 1);
    add_bytes(call, EITP_I64, 3, key, at.dropout > 0);
    add_bytes(call, EITP_I32, at.sequences, at.lengths, at.padded);
    add_decoder(call);
    turn_queries();
}

static double *numbers(int64_t columns, double range) {
    double *values = (double *)block((size_t)(at.rows * columns) * sizeof *values);
    for (int64_t i = 0; i < at.rows * columns; i++)
        values[i] = range * draw();
    return values;
}

static void check_forward(double tolerance) {
    double *exact[2], *errors[2];
    eitp__call call;
    add_attributes(&call, EITP__SLOT_ATTENTION);
    call.output_count = 2;
    set_shape(&call.outputs[0], dtype, at.rows, at.heads * at.width);
    set_shape(&call.outputs[1], EITP_F32, at.rows, at.heads);
    exact[0] = exact_o = numbers(at.heads * at.width, 0);
    exact[1] = exact_logsumexps = numbers(at.heads, 0);
    errors[0] = o_errors = numbers(at.heads * at.width, 0);
    errors[1] = logsumexp_errors = numbers(at.heads, 0);
    scores = numbers(1, 0);
    score_errors = numbers(1, 0);
    expect(expect_row);
    check_call(&call, exact, errors, tolerance);
}

static void check_backward(double tolerance) {
    double *exact[3], *errors[3];
    eitp__call call;
    add_attributes(&call, EITP__SLOT_ATTENTION_BACKWARD);
    o = exact_o;
    logsumexps = exact_logsumexps;
    slopes = numbers(at.heads * at.width, 1);
    add_values(&call, dtype, at.heads * at.width, o);
    add_values(&call, EITP_F32, at.heads, logsumexps);
    add_values(&call, dtype, at.heads * at.width, slopes);
    exact_gradient = numbers(qkv_columns(), 0);
    gradient_errors = numbers(qkv_columns(), 0);
    expect(expect_row_gradient);
    turn(exact_gradient, -1);
    turn(gradient_errors, 0);
    call.output_count = decoder.is_apart ? 3 : 1;
    exact[0] = exact_gradient;
    errors[0] = gradient_errors;
    set_shape(&call.outputs[0], dtype, at.rows, qkv_columns());
    for (int part = 0; part < 3 && decoder.is_apart; part++) {
        exact[part] = part_of(exact_gradient, part);
        errors[part] = part_of(gradient_errors, part);
        set_shape(&call.outputs[part], dtype, at.rows, part_columns(part));
    }
    check_call(&call, exact, errors, tolerance);
}

/* With tolerance 0 the values are not checked. Types are in the order of eitp_dtype. */
static void check_types(const attention_case *c, double tolerance, eitp_dtype first, eitp_dtype last) {
    at = *c;
    for (size_t i = 0; i < EITP__COUNT(dtypes); i++) {
        dtype = dtypes[i];
        if (dtype < first || dtype > last)
            continue;
        release_blocks(0);
        qkv = numbers(qkv_columns(), at.range);
        draw_rotation();
        if (at.spoiled)
            qkv[in_qkv(at.rows / 2, 0, 2)] = (double)NAN;
        check_forward(tolerance);
        check_backward(4 * tolerance);
    }
    release_blocks(0);
}

static void check_case(const attention_case *c, double tolerance) {
    check_types(c, tolerance, EITP_F32, EITP_F16);
}

/* ---- Cases ---- */

static void test_sequences(void) {
    static const attention_case cases[] = {
        {1, 1, 4, 1, {0, 1}, 1, 0, {0}, 0, 0, 2, 0},
        {37, 3, 5, 37, {0, 37}, 1, 0, {0}, 0, 0, 2, 0},
        {37, 2, 8, 64, {0, 5, 6, 20, 37}, 4, 0, {0}, 0, 0, 2, 0},
        {33, 2, 8, 18, {3, 3, 12, 12, 29, 29}, 5, 0, {0}, 0, 0, 2, 0}, /* rows in no sequence, empty sequences */
        {215, 2, 16, 215, {0, 215}, 1, 0, {0}, 0, 0, 1, 0},            /* several blocks */
        {300, 1, 16, 200, {4, 100, 296}, 2, 0, {0}, 0, 0, 1, 0},
        {192, 1, 64, 192, {0, 192}, 1, 0, {0}, 0, 0, 1, 0},
        {193, 1, 64, 5000, {0, 193}, 1, 0, {0}, 0, 0, 1, 0},
        {30, 2, 6, 11, {0, 19, 30}, 2, 0, {0}, 0, 0, 2, 0}, /* longer than `max_length` */
    };
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        attention_case both_ways = cases[i];
        check_case(&cases[i], 1e-5);
        both_ways.bidirectional = 1;
        check_case(&both_ways, 1e-5);
    }
}

static void test_widths(void) {
    static const int64_t widths[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 80, 127, 128, 160, 255, 256};
    for (size_t i = 0; i < EITP__COUNT(widths); i++)
        for (int bidirectional = 0; bidirectional < 2; bidirectional++) {
            attention_case c = {110, 0, 0, 100, {2, 7, 105}, 2, 0, {0}, 0, 0, 0, 0};
            c.width = widths[i];
            c.heads = widths[i] > 64 ? 1 : 2;
            c.bidirectional = bidirectional;
            c.range = 2 / sqrt(sqrt((double)widths[i]));
            check_case(&c, 1e-5);
        }
}

/* No row attends to padding, and the outputs of padding are zeros. A length may be 0 or exceed the sequence. */
static void test_padding(void) {
    static const attention_case cases[] = {
        {40, 2, 5, 20, {0, 20, 40}, 2, 1, {20, 3}, 0, 0, 2, 0},
        {60, 2, 9, 20, {1, 20, 38, 58}, 3, 1, {0, 17, 1}, 0, 0.2, 2, 0},
        {60, 1, 9, 20, {1, 20, 38, 58}, 3, 1, {-5, 2147483647, -2147483647 - 1}, 0, 0, 2, 0},
        {260, 1, 24, 200, {0, 200, 260}, 2, 1, {97, 48}, 0, 0, 1, 0},
    };
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        attention_case both_ways = cases[i];
        check_case(&cases[i], 1e-5);
        both_ways.bidirectional = 1;
        check_case(&both_ways, 1e-5);
    }
}

/* Row lengths that are not multiples of four, so blocks of random words start anywhere. */
static void test_dropout(void) {
    static const attention_case cases[] = {
        {37, 3, 5, 37, {0, 37}, 1, 0, {0}, 0, 0.25, 2, 0},
        {150, 2, 20, 113, {1, 30, 143}, 2, 0, {0}, 0, 0.5, 1, 0},
        {110, 1, 16, 5001, {0, 110}, 1, 0, {0}, 1, 0.1, 1, 0},
    };
    for (size_t i = 0; i < EITP__COUNT(cases); i++)
        check_case(&cases[i], 1e-5);
}

/* Scores far from 0 that are dominated by one or a few. The running maximum must be subtracted. */
static void test_large_scores(void) {
    static const attention_case c = {230, 1, 32, 230, {0, 230}, 1, 0, {0}, 0, 0, 6, 0};
    check_case(&c, 1e-4);
}

/* A NaN affects exactly the rows that attend to it, in every type. */
static void test_not_a_number(void) {
    static const attention_case c = {110, 2, 9, 100, {0, 50, 110}, 2, 0, {0}, 1, 0, 1, 1};
    check_case(&c, 1e-5);
}

/* Outputs halfway between two representable values, as means of two values: ties round to even, as in
   base/convert.h. */
static void test_rounding(void) {
    static const attention_case c = {2, 1, 19, 2, {0, 2}, 1, 0, {0}, 1, 0, 0, 0};
    at = c;
    for (size_t i = 1; i < EITP__COUNT(dtypes); i++) {
        eitp__call call;
        eitp__operand *x = &call.inputs[0];
        release_blocks(0);
        dtype = dtypes[i];
        qkv = numbers(3 * at.width, 0);
        draw_rotation();
        add_attributes(&call, EITP__SLOT_ATTENTION);
        for (int64_t j = 0; j < at.width; j++) {
            ((uint16_t *)x->data)[in_qkv(0, 0, 2) + j] = (uint16_t)(0x3c00 + 7 * j);
            ((uint16_t *)x->data)[in_qkv(1, 0, 2) + j] = (uint16_t)(0x3c01 + 7 * j);
        }
        call.output_count = 2;
        set_shape(&call.outputs[0], dtype, at.rows, at.width);
        set_shape(&call.outputs[1], EITP_F32, at.rows, 1);
        for (int set = 0; set < EITP__ISA_COUNT; set++) {
            if (!available[set])
                continue;
            place_outputs(&call);
            run_pieces(&tables[set].kernels[call.slot][dtype], &call, 1);
            for (int64_t j = 0; j < at.width; j++) {
                int even = (int)(0x3c00 + 7 * j + j % 2), got = ((uint16_t *)call.outputs[0].data)[j];
                CHECK_THAT(got == even, "%s %s: %04x, not %04x", eitp__isa_name((eitp__isa)set), eitp_dtype_name(dtype),
                           (unsigned)got, (unsigned)even);
            }
        }
    }
    release_blocks(0);
}

/* Shared keys, windows and rotations, with q, k and v side by side or separate. */
static void test_decoders(void) {
    static const attention_case cases[] = {
        {37, 6, 4, 37, {0, 37}, 1, 0, {0}, 0, 0, 2, 0},
        {120, 4, 10, 110, {1, 4, 114}, 2, 0, {0}, 0, 0, 1, 0},
        {250, 2, 32, 240, {3, 243}, 1, 0, {0}, 0, 0, 1, 0},
        {330, 2, 6, 200, {0, 200, 330}, 2, 1, {190, 130}, 0, 0, 1, 0},
        {60, 6, 64, 40, {0, 20, 60}, 2, 0, {0}, 0, 0.2, 1, 0},
    };
    static const int64_t windows[] = {0, 1, 3, 96, 97, 130, 1000};
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        for (size_t w = 0; w < EITP__COUNT(windows); w++) {
            decoder.window = windows[w];
            decoder.group = (int64_t)(1 + (w + i) % 2) * (cases[i].heads == 6 && w % 3 == 2 ? 3 : 1);
            decoder.rotates = w % 2 || i % 2;
            decoder.is_apart = (w + i) % 3 == 1;
            check_case(&cases[i], 1e-5);
        }
    }
    memset(&decoder, 0, sizeof decoder);
}

/* Rotated heads as wide as Llama's. Kernels may divide them differently from narrow ones. */
static void test_wide_decoders(void) {
    static const int64_t widths[] = {80, 128};
    for (size_t i = 0; i < EITP__COUNT(widths); i++) {
        attention_case c = {150, 2, 0, 140, {3, 143}, 1, 0, {0}, 0, 0, 0, 0};
        c.width = widths[i];
        c.range = 2 / sqrt(sqrt((double)widths[i]));
        decoder.rotates = 1;
        decoder.group = 1 + (int64_t)i;
        check_case(&c, 1e-5);
    }
    memset(&decoder, 0, sizeof decoder);
}

/* GPT-2, BERT and Qwen2 on a GPU: heads of 64, several tiles of rows, and rows in no sequence. */
static void test_heads_of_models(void) {
    attention_case c = {141, 2, 64, 130, {0, 130, 139}, 2, 0, {0}, 0, 0, 0, 0};
    c.range = 2 / sqrt(8.0);
    check_case(&c, 1e-5);
    c.bidirectional = 1;
    check_case(&c, 1e-5);
    c.bidirectional = 0;
    decoder.group = 2;
    decoder.rotates = 1;
    check_case(&c, 1e-5);
    memset(&decoder, 0, sizeof decoder);
}

/* True if fewer types are tested, since the emulated device is slow. */
static int is_few(void) {
    return uses_cuda() && test_is_quick();
}

/* The same with dropout, with padding, and as in Llama: four heads that share keys, and heads of 128. */
static void test_other_heads(void) {
    static const struct {
        attention_case at;
        int64_t group;
        eitp_dtype first; /* of the types tested if there are few */
    } heads[] = {
        {{150, 1, 64, 140, {0, 140, 150}, 2, 0, {0}, 0, 0.1, 1, 0}, 1, EITP_F32},
        {{150, 1, 64, 140, {0, 140, 150}, 2, 0, {0}, 1, 0.1, 1, 0}, 1, EITP_F32},
        {{150, 1, 64, 80, {0, 75, 150}, 2, 1, {75, 40}, 1, 0, 1, 0}, 1, EITP_BF16},
        {{140, 4, 64, 140, {0, 140}, 1, 0, {0}, 0, 0, 1, 0}, 4, EITP_BF16},
        {{140, 2, 128, 140, {0, 140}, 1, 0, {0}, 0, 0, 1, 0}, 2, EITP_BF16},
    };
    for (size_t i = 0; i < EITP__COUNT(heads); i++) {
        attention_case c = heads[i].at;
        c.range = 2 / sqrt(sqrt((double)c.width));
        decoder.group = heads[i].group;
        decoder.rotates = heads[i].group > 1;
        check_types(&c, 1e-5, is_few() ? heads[i].first : EITP_F32, is_few() ? EITP_BF16 : EITP_F16);
    }
    memset(&decoder, 0, sizeof decoder);
}

/* Offsets are data: offsets outside the call and sequences that are too long are truncated. */
static void test_offsets(void) {
    static const attention_case cases[] = {
        {21, 2, 5, 16, {-7, 4, 12, 900}, 3, 0, {0}, 0, 0, 2, 0},
        {9, 2, 5, 9, {2147483647, 2147483647}, 1, 0, {0}, 0, 0, 2, 0},
        {30, 2, 5, 11, {0, 19, 30}, 2, 0, {0}, 0, 0.2, 2, 0},
    };
    static const attention_case wild[] = {
        {10, 2, 5, 4, {-7, 100, 2, 2147483647, -2147483647 - 1, 9}, 5, 0, {0}, 0, 0, 2, 0},
        {10, 2, 5, 4, {9, 3, 10, 0, 11, -1}, 5, 1, {3, -1, 2147483647, 4, -2147483647 - 1}, 1, 0.1, 2, 0},
        {200, 1, 5, 150, {190, 0, 200, 100, 201, 0}, 5, 1, {150, 150, 151, 149, 7}, 0, 0, 1, 0},
    };
    for (size_t i = 0; i < EITP__COUNT(cases); i++)
        check_case(&cases[i], 1e-5);
    for (size_t i = 0; i < EITP__COUNT(wild); i++)
        check_case(&wild[i], 0);
}

/* ---- With a cache ---- */

/* Adds the values at positions [first, last] of the cache to the output, and their errors. The call does not change
   the first `old` positions. */
static void expect_cached_row(int64_t i, int64_t h, int64_t first, int64_t last, int64_t old, double *const *exact) {
    const int64_t c = key_heads() * at.width, column = h / group_size() * at.width;
    const double *q = turned + in_qkv(i, h, 0), *k = exact[1] + column, *v = exact[2] + column;
    double sum = 0, spread = 0;
    for (int64_t j = first; j <= last; j++) {
        scores[j] = exp(scale * dot(q, k + j * c));
        score_errors[j] = score_error(q, k + j * c, j < old);
        sum += scores[j];
        spread += scores[j] * exp(score_errors[j]);
    }
    spread = log(spread / sum);
    for (int64_t j = first; j <= last; j++) {
        add_scaled(exact[0] + in_o(i, h), scores[j] / sum, v + j * c);
        add_weight_error(o_errors + in_o(i, h), scores[j] / sum, 1, score_errors[j], spread, v + j * c);
    }
}

/* Rows whose position is outside the cache are not stored and attend to nothing. */
static void expect_cached(int64_t max_length, int64_t position, double *const *exact) {
    const int64_t c = key_heads() * at.width;
    for (int64_t i = 0; i < at.rows; i++)
        for (int part = 1; part < 3 && position + i >= 0 && position + i < max_length; part++)
            memcpy(exact[part] + (position + i) * c, turned + in_qkv(i, 0, part), (size_t)c * sizeof(double));
    scores = (double *)block((size_t)max_length * sizeof *scores);
    score_errors = (double *)block((size_t)max_length * sizeof *score_errors);
    for (int64_t i = 0; i < at.rows * at.heads; i++) {
        const int64_t last = position + i / at.heads;
        const int64_t first = decoder.window && last >= decoder.window ? last + 1 - decoder.window : 0;
        if (last >= 0 && last < max_length)
            expect_cached_row(i / at.heads, i % at.heads, first, last, position, exact);
    }
}

static void add_cache(eitp__call *call, int64_t max_length, double **exact) {
    eitp__operand *x = &call->inputs[call->input_count++];
    set_shape(x, dtype, max_length, key_heads() * at.width);
    x->data = block(bytes_of(x));
    *exact = (double *)block((size_t)x->elements * sizeof(double));
    for (int64_t i = 0; i < x->elements; i++) {
        put(x, i, draw());
        (*exact)[i] = get(x, i);
    }
    call->outputs[call->output_count++] = *x;
}

static void check_cached(int64_t rows, int64_t width, int64_t max_length, int32_t position) {
    attention_case c = {0, 4, 0, 0, {0}, 1, 0, {0}, 0, 0, 1, 0};
    c.rows = rows;
    c.width = width;
    at = c;
    has_cache = 1;
    for (size_t i = 0; i < EITP__COUNT(dtypes) - (size_t)is_few(); i++) {
        double *exact[3], *errors[3] = {NULL, NULL, NULL};
        eitp__call call;
        memset(&call, 0, sizeof call);
        release_blocks(0);
        dtype = call.dtype = dtypes[i];
        call.slot = EITP__SLOT_ATTENTION_CACHED;
        call.integers[0] = at.heads;
        call.integers[1] = key_heads();
        call.integers[2] = decoder.window;
        call.reals[0] = scale;
        qkv = numbers(qkv_columns(), 1);
        draw_rotation();
        add_queries(&call);
        turn_queries();
        call.output_count = 1;
        set_shape(&call.outputs[0], dtype, rows, at.heads * at.width);
        exact[0] = numbers(at.heads * at.width, 0);
        errors[0] = o_errors = numbers(at.heads * at.width, 0);
        add_cache(&call, max_length, &exact[1]);
        add_cache(&call, max_length, &exact[2]);
        add_bytes(&call, EITP_I32, 1, &position, 1);
        add_decoder(&call);
        expect_cached(max_length, position, exact);
        check_call(&call, exact, errors, 1e-5);
    }
    has_cache = 0;
    release_blocks(0);
}

static void check_cached_places(void) {
    check_cached(1, 6, 20, 0);
    check_cached(1, 6, 20, 19);
    check_cached(7, 6, 20, 0);
    check_cached(7, 6, 20, 13);
    /* after the end of the cache, and before its start */
    check_cached(7, 6, 20, 16);
    check_cached(3, 6, 20, 20);
    check_cached(3, 6, 20, 2147483647);
    check_cached(4, 6, 20, -2);
    check_cached(4, 6, 20, (-2147483647 - 1));
}

static void test_cached(void) {
    for (int i = 0; i < 6; i++) {
        static const int64_t groups[] = {1, 2, 4, 1, 2, 4}, windows[] = {0, 0, 5, 1, 0, 7};
        decoder.group = groups[i];
        decoder.window = windows[i];
        decoder.rotates = i % 2;
        decoder.is_apart = i >= 3;
        check_cached_places();
    }
    memset(&decoder, 0, sizeof decoder);
}

/* GPT-2 and Qwen2 that read a prompt: heads of 64, and more of the cache than a block reads at once. */
static void test_cached_heads_of_models(void) {
    shares_cache = 1;
    check_cached(7, 64, 80, 70);
    decoder.group = 2;
    decoder.rotates = 1;
    check_cached(7, 64, 80, 70);
    shares_cache = 0;
    memset(&decoder, 0, sizeof decoder);
}

/* Rows as wide as several vectors, at addresses between multiples of 16 bytes. */
static void test_bases(void) {
    static const attention_case cases[] = {
        {21, 2, 16, 21, {0, 21}, 1, 0, {0}, 0, 0, 1, 0},
        {21, 2, 32, 21, {0, 21}, 1, 0, {0}, 0, 0.2, 1, 0},
    };
    has_bases = 1;
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        decoder.rotates = decoder.is_apart = !i;
        check_types(&cases[i], 1e-5, is_few() ? EITP_BF16 : EITP_F32, is_few() ? EITP_BF16 : EITP_F16);
    }
    decoder.rotates = 1;
    check_cached(3, 8, 16, 2);
    check_cached(7, 8, 16, 2);
    has_bases = 0;
    memset(&decoder, 0, sizeof decoder);
}

/* The first four run on the emulated device if few cases are tested. */
int main(int argc, char **argv) {
    static const test_case tests[] = {TEST(test_heads_of_models), TEST(test_other_heads),
                                      TEST(test_bases),           TEST(test_cached_heads_of_models),
                                      TEST(test_decoders),        TEST(test_wide_decoders),
                                      TEST(test_sequences),       TEST(test_widths),
                                      TEST(test_padding),         TEST(test_dropout),
                                      TEST(test_large_scores),    TEST(test_not_a_number),
                                      TEST(test_rounding),        TEST(test_offsets),
                                      TEST(test_cached)};
    find_sets();
    return run_tests(tests, is_few() ? 4 : EITP__COUNT(tests), argc, argv);
}
