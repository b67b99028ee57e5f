#include "objective/jacobian.h"

#include "model/transformer.h"
#include "tensor/op_rules.h"

/* Squared norms below this are raised to it, so that logarithms and quotients stay finite. */
#define EITP__LEAST_SQUARE 1e-60

/* The point at which a Jacobian is computed. Numbers of sequences are F64 [sequences]. */
typedef struct eitp__jacobian_point {
    const eitp__jacobian_config *config;
    eitp_tensor *in_use; /* U8 [sequences, rows, 1]: rows in use */
    eitp_tensor *moved;  /* U8 [sequences, rows, 1]: rows that J differentiates by */
    eitp_tensor *size;   /* number of elements of these rows, at least 1 */
    eitp_tensor *states; /* states in use, F32 or F64 */
    eitp_tensor *x;      /* the same in the dtype of the function */
    eitp__phase phase;   /* previous phase of the graph */
} eitp__jacobian_point;

/* ---- Numbers of sequences ---- */

static eitp_tensor *eitp__zero_unless(eitp_tensor *condition, eitp_tensor *x) {
    return x ? eitp_where(condition, x, eitp__scalar_like(x, 0)) : NULL;
}

/* Returns the inner products of sequences of a and b. */
static eitp_tensor *eitp__sequence_dot(eitp_tensor *a, eitp_tensor *b) {
    const int64_t flat[2] = {a ? a->shape[0] : 1, -1};
    a = eitp_cast(a, EITP_F64);
    b = eitp_cast(b, EITP_F64);
    return eitp_sum(eitp_reshape(eitp_multiply(a, b), 2, flat), 1u << 1, 0);
}

static eitp_tensor *eitp__sequence_norm(eitp_tensor *x) {
    return eitp_sqrt(eitp_clamp(eitp__sequence_dot(x, x), EITP__LEAST_SQUARE, (double)INFINITY));
}

/* Returns 1 / x. */
static eitp_tensor *eitp__sequence_reciprocal(eitp_tensor *x) {
    return x ? eitp_divide(eitp__scalar_like(x, 1), x) : NULL;
}

/* Returns the sequences of x, each multiplied by its factor. */
static eitp_tensor *eitp__sequence_scale(eitp_tensor *x, eitp_tensor *factors) {
    const int64_t each[3] = {-1, 1, 1};
    return x ? eitp_multiply(x, eitp_cast(eitp_reshape(factors, 3, each), x->dtype)) : NULL;
}

static eitp_tensor *eitp__sequence_unit(eitp_tensor *x) {
    return eitp__sequence_scale(x, eitp__sequence_reciprocal(eitp__sequence_norm(x)));
}

/* Returns `value` with the gradient of `differentiated`, whose value may differ. */
static eitp_tensor *eitp__with_gradient_of(eitp_tensor *value, eitp_tensor *differentiated) {
    return eitp_add(eitp_stop_gradient(value), eitp_subtract(differentiated, eitp_stop_gradient(differentiated)));
}

/* Turns numbers of sequences into results: 0 for sequences without rows. */
static eitp_tensor *eitp__sequence_results(const eitp__jacobian_point *point, eitp_tensor *numbers) {
    eitp_tensor *lengths = eitp_cast(point->config->lengths, EITP_F64);
    if (!numbers || !lengths)
        return NULL;
    numbers = eitp__zero_unless(eitp_less(eitp__scalar_like(lengths, 0), lengths), numbers);
    numbers = eitp_cast(numbers, point->states->dtype);
    return point->config->has_gradient ? numbers : eitp_stop_gradient(numbers);
}

/* ---- The point ---- */

static eitp_status eitp__jacobian_check(const eitp__jacobian_config *config, eitp_error *error) {
    const eitp_tensor *states = config->states, *lengths = config->lengths;
    eitp_status status = eitp__require(config->function.apply && config->function.parts >= 1, error,
                                       "sensitivity: the function must have 1 part or more");
    if (!status)
        status = eitp__require(states->rank == 3 && eitp__is_floating(states->dtype) && !states->rows, error,
                               "sensitivity: expected floating-point states [sequences, rows, width]");
    return status ? status
                  : eitp__require(lengths && lengths->dtype == EITP_I32 && lengths->rank == 1 &&
                                      lengths->shape[0] == states->shape[0],
                                  error, "sensitivity: lengths must be i32 [%lld], one for each sequence",
                                  (long long)states->shape[0]);
}

static void eitp__jacobian_end(const eitp__jacobian_point *point) {
    point->config->states->graph->origin.phase = point->phase;
}

/* Initializes the point. Returns 0 and sets the graph's error if the configuration is invalid. */
static int eitp__jacobian_begin(eitp__jacobian_point *point, const eitp__jacobian_config *config) {
    const int64_t each[3] = {-1, 1, 1}, column[2] = {-1, 1};
    eitp_tensor *position, *lengths, *states = config->states;
    eitp_error error = EITP__ZERO;
    memset(point, 0, sizeof *point);
    if (!states || eitp__jacobian_check(config, &error)) {
        if (states)
            eitp__graph_fail(states->graph, error.status, "%s", error.message);
        return 0;
    }
    /* These operations must not be observed as part of the forward pass. */
    point->phase = states->graph->origin.phase;
    states->graph->origin.phase = EITP__PHASE_BACKWARD;
    point->config = config;
    lengths = eitp_reshape(eitp_cast(config->lengths, EITP_F64), 3, each);
    position = eitp_reshape(eitp_arange(states->graph, EITP_F64, states->shape[1]), 2, column);
    point->in_use = point->moved = eitp_less(position, lengths);
    point->size = eitp_cast(config->lengths, EITP_F64);
    if (config->positions == EITP_CHAOS_LAST) {
        point->moved = eitp_equal(position, eitp_affine(lengths, 1, -1));
        point->size = eitp_clamp(point->size, 0, 1);
    }
    point->size = eitp_clamp(eitp_affine(point->size, (double)states->shape[2], 0), 1, (double)INFINITY);
    point->states = eitp__zero_unless(point->in_use, eitp_cast(states, eitp__wide(states->dtype)));
    point->x = eitp_cast(point->states, states->dtype);
    if (!point->x)
        eitp__jacobian_end(point);
    return point->x != NULL;
}

/* Returns a direction in F32 or F64, restricted to some rows. */
static eitp_tensor *eitp__direction_of(const eitp__jacobian_point *point, eitp_tensor *rows, eitp_tensor *direction) {
    if (direction && !eitp__same_shape(direction, point->states)) {
        eitp__graph_fail(point->states->graph, EITP_ERROR_ARGUMENT,
                         "sensitivity: a direction must have the shape of the states");
        return NULL;
    }
    return eitp_stop_gradient(eitp__zero_unless(rows, eitp_cast(direction, point->states->dtype)));
}

/* ---- The function and its derivatives ---- */

/* Applies parts of the function. Rows that are not in use become 0. */
static eitp_tensor *eitp__apply_parts(const eitp__jacobian_point *point, eitp_tensor *x, int64_t first, int64_t count) {
    const eitp__state_function *function = &point->config->function;
    return eitp__zero_unless(point->in_use,
                             x ? function->apply(function->user, x, point->config->lengths, first, count) : NULL);
}

/* Returns J^T p for the rows that J differentiates by. */
static eitp_tensor *eitp__pull_back(const eitp__jacobian_point *point, eitp_tensor *y, eitp_tensor *p) {
    eitp_tensor *x = point->x, *gradient = NULL;
    eitp_error error;
    if (!y || !p)
        return NULL;
    if (eitp_gradients(y, eitp_cast(p, y->dtype), 1, &x, &gradient, &error)) {
        eitp__graph_fail(y->graph, error.status, "%s", error.message);
        return NULL;
    }
    return eitp__zero_unless(point->moved, eitp_cast(gradient, point->states->dtype));
}

/* The function at x + step * direction and at x - step * direction. */
typedef struct eitp__two_sides {
    eitp_tensor *after, *before;
    eitp_tensor *step; /* numbers */
} eitp__two_sides;

/*
 * Returns the step relative to the norm of the perturbed rows. The error of a difference from rounding is about the
 * spacing of numbers divided by the step; from curvature it is the square of the step times a factor that is large in
 * Transformers.
 */
static double eitp__relative_step(eitp_dtype dtype) {
    return dtype == EITP_F64 ? 6e-6 : dtype == EITP_F32 ? 2e-3 : dtype == EITP_F16 ? 0.02 : 0.05;
}

/* Returns the sequences of a and b alternating, so that the order of rows does not depend on their number: [2
   sequences, ..]. */
static eitp_tensor *eitp__interleave_sequences(eitp_tensor *a, eitp_tensor *b) {
    int64_t shape[EITP_MAX_RANK];
    eitp_tensor *both[2];
    if (!a || !b)
        return NULL;
    memcpy(shape, a->shape, sizeof shape);
    memmove(shape + 2, shape + 1, (size_t)(a->rank - 1) * sizeof *shape);
    shape[1] = 1;
    both[0] = eitp_reshape(a, a->rank + 1, shape);
    both[1] = eitp_reshape(b, b->rank + 1, shape);
    a = eitp_concat(both, both[1] ? 2 : 0, 1);
    memcpy(shape + 1, b->shape + 1, (size_t)(b->rank - 1) * sizeof *shape);
    shape[0] = 2 * b->shape[0];
    return eitp_reshape(a, b->rank, shape);
}

/* Returns the number of zero rows that each sequence needs, so that a sum over rows can be split between sequences
   without changing its bits. */
static int64_t eitp__rows_to_group(const eitp_tensor *states) {
    const int64_t group = eitp__context_sum_group(states->graph->context), rest = states->shape[1] % group;
    return rest ? group - rest : 0;
}

/* Returns the sequences of y with an even (side 0) or odd index, F32 or F64. */
static eitp_tensor *eitp__side_of(const eitp__jacobian_point *point, eitp_tensor *y, int side) {
    const eitp_tensor *like = point->states;
    int64_t shape[4];
    shape[0] = like->shape[0];
    shape[1] = 2;
    shape[2] = like->shape[1];
    shape[3] = like->shape[2];
    y = eitp_slice(eitp_reshape(y, 4, shape), 1, side, side + 1);
    return eitp__zero_unless(point->in_use, eitp_cast(eitp_reshape(y, 3, like->shape), like->dtype));
}

/* Applies parts of the function on both sides of `states`. The direction has norm 1. States near 0 are perturbed as
   much as states whose elements have a mean square of 1e-6. */
static eitp__two_sides eitp__apply_sides(const eitp__jacobian_point *point, eitp_tensor *states, eitp_tensor *direction,
                                         int64_t first, int64_t count) {
    const eitp__jacobian_config *config = point->config;
    const eitp_dtype dtype = config->states->dtype;
    eitp_tensor *still = eitp_stop_gradient(eitp__zero_unless(point->moved, states)), *moved, *y;
    eitp__two_sides sides;
    sides.step = eitp_add(eitp__sequence_dot(still, still), eitp_affine(point->size, 1e-6, 0));
    sides.step = eitp_affine(eitp_sqrt(sides.step), eitp__relative_step(dtype), 0);
    moved = eitp_stop_gradient(eitp__sequence_scale(direction, sides.step));
    y = eitp__interleave_sequences(eitp_cast(eitp_add(states, moved), dtype),
                                   eitp_cast(eitp_subtract(states, moved), dtype));
    y = eitp_pad(y, 1, 0, eitp__rows_to_group(config->states));
    if (y)
        y = config->function.apply(config->function.user, y,
                                   eitp__interleave_sequences(config->lengths, config->lengths), first, count);
    y = eitp_slice(y, 1, 0, config->states->shape[1]);
    sides.after = eitp__side_of(point, y, 0);
    sides.before = eitp__side_of(point, y, 1);
    return sides;
}

/* Returns (after - before) / (2 step). */
static eitp_tensor *eitp__slope_of_sides(const eitp__two_sides *sides) {
    return eitp__sequence_scale(eitp_subtract(sides->after, sides->before),
                                eitp__sequence_reciprocal(eitp_affine(sides->step, 2, 0)));
}

/* Returns J q of parts of the function, where y is their result at x. q has norm 1. Without a gradient. */
static eitp_tensor *eitp__push_forward(const eitp__jacobian_point *point, eitp_tensor *y, eitp_tensor *x,
                                       eitp_tensor *q, int64_t first, int64_t count) {
    eitp__two_sides sides;
    if (!y || !x || !q)
        return NULL;
    if (point->config->method == EITP__JACOBIAN_EXACT)
        return eitp_stop_gradient(eitp_cast(eitp_jacobian_product(y, x, q), point->states->dtype));
    sides = eitp__apply_sides(point, eitp_stop_gradient(eitp_cast(x, point->states->dtype)), q, first, count);
    return eitp_stop_gradient(eitp__slope_of_sides(&sides));
}

/* True if gradients of results are computed from differences. */
static int eitp__uses_differences(const eitp__jacobian_point *point) {
    return point->config->has_gradient && point->config->method == EITP__JACOBIAN_DIFFERENCE;
}

/* ---- Estimates from random signs ---- */

/* Returns ln(|y| / |x|) / parts, for the rows that J differentiates by. */
static eitp_tensor *eitp__state_growth(const eitp__jacobian_point *point, eitp_tensor *y, eitp_tensor *x) {
    y = eitp__sequence_norm(eitp__zero_unless(point->moved, eitp_cast(y, point->states->dtype)));
    x = eitp__sequence_norm(eitp__zero_unless(point->moved, eitp_cast(x, point->states->dtype)));
    return eitp_affine(eitp_log(eitp_divide(y, x)), 1 / (double)point->config->function.parts, 0);
}

EITP__PRIVATE eitp__sensitivity eitp__jacobian_sensitivity(const eitp__jacobian_config *config, eitp_tensor *signs) {
    const double share = 1 / (double)config->function.parts;
    eitp__sensitivity result = EITP__ZERO;
    eitp__jacobian_point point;
    eitp_tensor *y, *pulled, *norm, *growth;
    if (!eitp__jacobian_begin(&point, config))
        return result;
    signs = eitp__direction_of(&point, point.in_use, signs);
    y = eitp__apply_parts(&point, point.x, 0, config->function.parts);
    pulled = eitp__pull_back(&point, y, signs);
    result.squares = eitp_clamp(eitp__sequence_dot(pulled, pulled), EITP__LEAST_SQUARE, (double)INFINITY);
    result.exponent = eitp_affine(eitp_log(eitp_divide(result.squares, point.size)), share / 2, 0);
    growth = eitp__state_growth(&point, y, point.x);
    if (eitp__uses_differences(&point)) {
        eitp__two_sides sides = eitp__apply_sides(&point, point.states, eitp_stop_gradient(eitp__sequence_unit(pulled)),
                                                  0, config->function.parts);
        eitp_tensor *slope = eitp__sequence_dot(signs, eitp__slope_of_sides(&sides));
        eitp_tensor *mean = eitp_add(eitp__state_growth(&point, sides.after, point.states),
                                     eitp__state_growth(&point, sides.before, point.states));
        norm = eitp_stop_gradient(eitp_sqrt(result.squares));
        result.squares = eitp__with_gradient_of(result.squares, eitp_multiply(slope, eitp_affine(norm, 2, 0)));
        result.exponent = eitp__with_gradient_of(result.exponent, eitp_affine(eitp_divide(slope, norm), share, 0));
        growth = eitp__with_gradient_of(growth, eitp_affine(mean, 0.5, 0));
    }
    result.relative = eitp__sequence_results(&point, eitp_subtract(result.exponent, growth));
    result.exponent = eitp__sequence_results(&point, result.exponent);
    result.squares = eitp__sequence_results(&point, result.squares);
    eitp__jacobian_end(&point);
    return result;
}

/* ---- The largest singular value ---- */

EITP__PRIVATE eitp__largest_exponent eitp__jacobian_largest(const eitp__jacobian_config *config, eitp_tensor *start,
                                                            int rounds) {
    const int64_t parts = config->function.parts;
    eitp__largest_exponent result = EITP__ZERO;
    eitp__jacobian_point point;
    eitp_tensor *y, *left = NULL, *right, *pulled = NULL, *sigma;
    if (!eitp__jacobian_begin(&point, config))
        return result;
    y = eitp__apply_parts(&point, point.x, 0, parts);
    right = eitp__sequence_unit(eitp__direction_of(&point, point.moved, start));
    for (int round = 0; round < rounds && right; round++) {
        left = eitp__sequence_unit(eitp__push_forward(&point, y, point.x, right, 0, parts));
        pulled = eitp__pull_back(&point, y, left);
        right = eitp_stop_gradient(eitp__sequence_unit(pulled));
    }
    sigma = pulled ? eitp__sequence_norm(pulled) : NULL;
    result.exponent = eitp_affine(eitp_log(sigma), 1 / (double)parts, 0);
    if (eitp__uses_differences(&point)) {
        eitp__two_sides sides = eitp__apply_sides(&point, point.states, right, 0, parts);
        eitp_tensor *slope = eitp__sequence_dot(left, eitp__slope_of_sides(&sides));
        slope = eitp_affine(eitp_divide(slope, eitp_stop_gradient(sigma)), 1 / (double)parts, 0);
        result.exponent = eitp__with_gradient_of(result.exponent, slope);
    }
    result.exponent = eitp__sequence_results(&point, result.exponent);
    result.vector = right;
    eitp__jacobian_end(&point);
    return result;
}

/* ---- Directions carried through the parts ---- */

/* Makes the directions orthogonal with norm 1 (modified Gram-Schmidt), and adds the logarithms of their norms. */
static void eitp__orthonormalize(eitp_tensor **directions, eitp_tensor **logarithms, int count) {
    for (int i = 0; i < count; i++) {
        eitp_tensor *norm;
        for (int j = 0; j < i; j++) {
            eitp_tensor *shared = eitp__sequence_dot(directions[j], directions[i]);
            directions[i] = eitp_subtract(directions[i], eitp__sequence_scale(directions[j], shared));
        }
        norm = eitp__sequence_norm(directions[i]);
        directions[i] = eitp__sequence_scale(directions[i], eitp__sequence_reciprocal(norm));
        logarithms[i] = logarithms[i] ? eitp_add(logarithms[i], eitp_log(norm)) : eitp_log(norm);
    }
}

/* Sums the logarithms of the norms over the parts into `logarithms`. */
static void eitp__carry_directions(const eitp__jacobian_point *point, eitp_tensor **directions,
                                   eitp_tensor **logarithms, int count) {
    eitp_tensor *x = point->x;
    eitp__orthonormalize(directions, logarithms, count);
    for (int i = 0; i < count; i++)
        logarithms[i] = NULL;
    for (int64_t part = 0; part < point->config->function.parts; part++) {
        eitp_tensor *y = eitp__apply_parts(point, x, part, 1);
        for (int i = 0; i < count; i++)
            directions[i] = eitp__push_forward(point, y, x, directions[i], part, 1);
        eitp__orthonormalize(directions, logarithms, count);
        x = eitp_stop_gradient(y);
    }
}

EITP__PRIVATE eitp_tensor *eitp__jacobian_spectrum(const eitp__jacobian_config *config, eitp_tensor *const *starts,
                                                   int count) {
    const int64_t column[2] = {-1, 1};
    eitp__jacobian_config still = *config;
    eitp__jacobian_point point;
    eitp_tensor **directions, **logarithms;
    still.has_gradient = 0;
    if (count < 1 || !config->states)
        return NULL;
    directions = (eitp_tensor **)eitp__graph_allocate(config->states->graph, 2 * (size_t)count * sizeof *directions);
    if (!directions || !eitp__jacobian_begin(&point, &still))
        return NULL;
    logarithms = directions + count;
    for (int i = 0; i < count; i++)
        directions[i] = eitp__direction_of(&point, point.moved, starts[i]);
    eitp__carry_directions(&point, directions, logarithms, count);
    for (int i = 0; i < count; i++) {
        eitp_tensor *exponent = eitp_affine(logarithms[i], 1 / (double)config->function.parts, 0);
        logarithms[i] = eitp_reshape(eitp__sequence_results(&point, exponent), 2, column);
    }
    eitp__jacobian_end(&point);
    return eitp_concat(logarithms, count, 1);
}

EITP__PRIVATE eitp_tensor *eitp__jacobian_growth(const eitp__jacobian_config *config, eitp_tensor *start) {
    const int64_t flat[1] = {-1};
    return eitp_reshape(eitp__jacobian_spectrum(config, &start, 1), 1, flat);
}

/* ---- Models ---- */

static eitp_tensor *eitp__apply_blocks(const void *user, eitp_tensor *x, eitp_tensor *lengths, int64_t first,
                                       int64_t count) {
    const int64_t sequences = x->shape[0], rows = x->shape[1];
    const eitp_transformer_config config = eitp_model_config((const eitp_model *)user);
    eitp_block_inputs inputs = eitp_block_inputs_default();
    eitp_tensor *positions;
    int64_t flat[2], table[2];
    flat[0] = sequences * rows;
    flat[1] = x->shape[2];
    table[0] = sequences;
    table[1] = rows;
    positions = eitp_reshape(eitp_broadcast(eitp_arange(x->graph, EITP_I32, rows), 2, table), 1, flat);
    eitp_block_inputs_set_positions(&inputs, &config, positions);
    inputs.max_length = rows;
    inputs.offsets = eitp_cast(eitp_affine(eitp_arange(x->graph, EITP_F64, sequences + 1), (double)rows, 0), EITP_I32);
    inputs.lengths = lengths;
    return eitp_reshape(eitp__model_blocks((const eitp_model *)user, eitp_reshape(x, 2, flat), first, count, &inputs),
                        3, x->shape);
}

EITP__PRIVATE eitp__state_function eitp__model_function(const eitp_model *model) {
    eitp__state_function function;
    function.apply = eitp__apply_blocks;
    function.user = model;
    function.parts = eitp_model_config(model).layers;
    return function;
}
