/* Ops that change variables (accumulate, update), and the norms and products they need. */
#include "tensor/internal_ops.h"
#include "tensor/op_rules.h"

static int eitp__is_f32_vector(const eitp_tensor *x, int64_t extent) {
    return x->dtype == EITP_F32 && x->rank == 1 && x->shape[0] == extent;
}

static eitp_status eitp__shape_accumulate(eitp__node *node, eitp_error *error) {
    const eitp_tensor *target = node->inputs[0], *x = node->inputs[1];
    const eitp_tensor *carry = node->inputs[2];
    char a[100], b[100];
    eitp_status status = eitp__require(target->storage->leaf == EITP__VARIABLE, error, "target must be a variable");
    if (!status)
        status =
            eitp__require(eitp__same_shape(target, x) && target->dtype == x->dtype, error,
                          "%s %s cannot be added to %s %s", eitp_dtype_name(x->dtype), eitp__shape_text(x, a, sizeof a),
                          eitp_dtype_name(target->dtype), eitp__shape_text(target, b, sizeof b));
    if (!status)
        status = eitp__require(!carry || eitp__is_f32_vector(carry, 1), error, "carry must be f32 [1]");
    return status ? status : eitp__node_output_like(node, target, error);
}

eitp_tensor *eitp_accumulate(eitp_tensor *target, eitp_tensor *x, eitp_tensor *carry) {
    eitp_tensor *inputs[3];
    inputs[0] = target;
    inputs[1] = x;
    inputs[2] = carry;
    return eitp__apply(EITP__OP_ACCUMULATE, inputs, 3, NULL);
}

static eitp_status eitp__shape_sum_squares(eitp__node *node, eitp_error *error) {
    int64_t blocks = (eitp__elements(node->inputs[0]) + EITP__SUM_BLOCK - 1) / EITP__SUM_BLOCK;
    eitp_status status = eitp__require(!node->inputs[0]->rows, error, "the operand must have a fixed number of rows");
    return status ? status : eitp__node_output(node, EITP_F64, 1, &blocks, 0, error);
}

/* Sums blocks of a flat copy; the last block is padded with zeros. */
static void eitp__expand_sum_squares(const eitp__node *node, eitp_tensor **outputs) {
    int64_t blocks[2], flat = -1, elements = eitp__elements(node->inputs[0]);
    eitp_tensor *x = eitp_reshape(eitp_cast(node->inputs[0], EITP_F64), 1, &flat);
    blocks[0] = (elements + EITP__SUM_BLOCK - 1) / EITP__SUM_BLOCK;
    blocks[1] = EITP__SUM_BLOCK;
    x = eitp_reshape(eitp_pad(x, 0, 0, blocks[0] * blocks[1] - elements), 2, blocks);
    outputs[0] = eitp_sum(eitp_multiply(x, x), 2u, 0);
}

EITP__PRIVATE eitp_tensor *eitp__sum_squares(eitp_tensor *x) {
    return eitp_sum(eitp__apply(EITP__OP_SUM_SQUARES, &x, 1, NULL), EITP_ALL_DIMENSIONS, 0);
}

static int64_t eitp__tensor_columns(const eitp_tensor *x) {
    return x->rank ? x->shape[x->rank - 1] : 1;
}

static eitp_status eitp__shape_row_squares(eitp__node *node, eitp_error *error) {
    const eitp_tensor *x = node->inputs[0];
    int64_t rows = eitp__elements(x) / eitp__tensor_columns(x);
    eitp_status status = eitp__require(!x->rows, error, "the operand must have a fixed number of rows");
    return status ? status : eitp__node_output(node, EITP_F64, 1, &rows, 0, error);
}

static eitp_status eitp__shape_column_squares(eitp__node *node, eitp_error *error) {
    const eitp_tensor *x = node->inputs[0], *before = node->inputs[1];
    int64_t columns = eitp__tensor_columns(x);
    eitp_status status =
        eitp__require(!before || (before->dtype == EITP_F64 && before->rank == 1 && before->shape[0] == columns), error,
                      "the squares to add to must be f64 [%lld]", (long long)columns);
    if (!status)
        status = eitp__require(!x->rows, error, "the operand must have a fixed number of rows");
    return status ? status : eitp__node_output(node, EITP_F64, 1, &columns, 0, error);
}

/* Returns the squares of x as a matrix. */
static eitp_tensor *eitp__matrix_of_squares(eitp_tensor *x) {
    int64_t shape[2];
    shape[1] = eitp__tensor_columns(x);
    shape[0] = eitp__elements(x) / shape[1];
    x = eitp_reshape(eitp_cast(x, EITP_F64), 2, shape);
    return eitp_multiply(x, x);
}

static void eitp__expand_row_squares(const eitp__node *node, eitp_tensor **outputs) {
    outputs[0] = eitp_sum(eitp__matrix_of_squares(node->inputs[0]), 2u, 0);
}

static void eitp__expand_column_squares(const eitp__node *node, eitp_tensor **outputs) {
    outputs[0] = eitp_sum(eitp__matrix_of_squares(node->inputs[0]), 1u, 0);
    if (node->inputs[1])
        outputs[0] = eitp_add(node->inputs[1], outputs[0]);
}

static int eitp__is_f32_matrix(const eitp_tensor *x, int64_t rows, int64_t columns) {
    return x->dtype == EITP_F32 && x->rank == 2 && x->shape[0] == rows && x->shape[1] == columns;
}

static eitp_status eitp__shape_row_products(eitp__node *node, eitp_error *error) {
    const eitp_tensor *x = node->inputs[0];
    int64_t columns = eitp__tensor_columns(x), shape[2];
    eitp_status status = eitp__require(!x->rows, error, "the operand must have a fixed number of rows");
    shape[0] = eitp__elements(x) / columns;
    shape[1] = EITP__DIRECTIONS;
    if (!status)
        status = eitp__require(eitp__is_f32_matrix(node->inputs[1], EITP__DIRECTIONS, columns), error,
                               "the directions must be f32 [%d, %lld]", EITP__DIRECTIONS, (long long)columns);
    return status ? status : eitp__node_output(node, EITP_F32, 2, shape, 0, error);
}

static eitp_status eitp__shape_column_products(eitp__node *node, eitp_error *error) {
    const eitp_tensor *x = node->inputs[0], *before = node->inputs[2];
    int64_t columns = eitp__tensor_columns(x), shape[2];
    int fits = eitp__is_f32_matrix(node->inputs[1], eitp__elements(x) / columns, EITP__DIRECTIONS) &&
               (!before || eitp__is_f32_matrix(before, EITP__DIRECTIONS, columns));
    eitp_status status = eitp__require(!x->rows, error, "the operand must have a fixed number of rows");
    shape[0] = EITP__DIRECTIONS;
    shape[1] = columns;
    if (!status)
        status = eitp__require(
            fits, error, "row products must be f32 [%lld, %d], and the column products to add to f32 [%d, %lld]",
            (long long)(eitp__elements(x) / columns), EITP__DIRECTIONS, EITP__DIRECTIONS, (long long)columns);
    return status ? status : eitp__node_output(node, EITP_F32, 2, shape, 0, error);
}

static double eitp__flops_products(const eitp__node *node) {
    return 2.0 * EITP__DIRECTIONS * (double)eitp__elements(node->inputs[0]);
}

static eitp_status eitp__shape_commit(eitp__node *node, eitp_error *error) {
    const eitp_tensor *sum = node->inputs[0], *scale = node->input_count > 2 ? node->inputs[2] : NULL;
    const eitp_tensor *bound = node->input_count > 3 ? node->inputs[3] : NULL;
    int64_t extent = 2;
    int fits = sum->dtype == EITP_F64 && eitp__elements(sum) == 1 && eitp__is_f32_vector(node->inputs[1], 1) &&
               (!scale || eitp__is_f32_vector(scale, 1)) && (!bound || eitp__is_f32_vector(bound, 1));
    eitp_status status =
        eitp__require(fits, error, "the sum must be f64 [1]; limit, loss scale and bound must be f32 [1]");
    if (!status)
        status = eitp__node_output(node, EITP_F32, 1, &extent, 0, error);
    extent = 1;
    return status ? status : eitp__node_output(node, EITP_F32, 1, &extent, 0, error);
}

/* ---- The update of a parameter ---- */

/* States used by a rule, and the arithmetic per element with them. */
typedef struct eitp__update_form {
    eitp__update_rule rule;
    int is_changing; /* the rule changes the states */
    double flops;
    eitp__state_form states[EITP__UPDATE_STATES];
} eitp__update_form;

/* For AdamW: one or two moving averages, a square root and a division; as much again for each of two 8-bit moments. */
static const eitp__update_form eitp__update_forms[] = {
    {EITP__UPDATE_RULE_ADAMW, 1, 8, {EITP__FORM_WIDE, EITP__FORM_WIDE}},
    {EITP__UPDATE_RULE_ADAMW, 1, 24, {EITP__FORM_SIGNED, EITP__FORM_UNSIGNED, EITP__FORM_SCALES, EITP__FORM_SCALES}},
    {EITP__UPDATE_RULE_FACTORED, 0, 8, {EITP__FORM_ROWS, EITP__FORM_COLUMNS}},
    {EITP__UPDATE_RULE_FACTORED,
     0,
     8 + 2 * EITP__DIRECTIONS,
     {EITP__FORM_ROWS, EITP__FORM_COLUMNS, EITP__FORM_ROWS_OF_DIRECTIONS, EITP__FORM_DIRECTIONS}},
    {EITP__UPDATE_RULE_SGD, 1, 1, {EITP__FORM_WIDE}},
};

static const eitp_tensor *eitp__optional_input(const eitp__node *node, int i) {
    return i < node->input_count ? node->inputs[i] : NULL;
}

/* Returns the form with the node's rule and states, or NULL. */
static const eitp__update_form *eitp__update_form_of(const eitp__node *node) {
    for (size_t f = 0; f < EITP__COUNT(eitp__update_forms); f++) {
        const eitp__update_form *form = &eitp__update_forms[f];
        int fits = form->rule == (eitp__update_rule)node->attributes.integers[2];
        for (int i = 0; i < EITP__UPDATE_STATES; i++)
            fits = fits && !form->states[i] == !eitp__optional_input(node, EITP__UPDATE_STATE + i);
        if (fits)
            return form;
    }
    return NULL;
}

static double eitp__flops_update(const eitp__node *node) {
    return eitp__update_form_of(node)->flops * (double)eitp__elements(node->inputs[EITP__UPDATE_PARAMETER]);
}

EITP__PRIVATE eitp_tensor eitp__state_like(const eitp_tensor *parameter, eitp__state_form form) {
    int64_t elements = eitp__elements(parameter), columns = eitp__tensor_columns(parameter);
    eitp_tensor state = EITP__ZERO;
    state.dtype = EITP_F32;
    state.rank = 1;
    switch (form) {
    case EITP__FORM_SCALES:
        state.dtype = EITP_BF16;
        state.shape[0] = (elements + EITP__MOMENT_GROUP - 1) / EITP__MOMENT_GROUP;
        break;
    case EITP__FORM_ROWS:
    case EITP__FORM_ROWS_OF_DIRECTIONS:
        state.rank = form == EITP__FORM_ROWS ? 1 : 2;
        state.shape[0] = elements / columns;
        state.shape[1] = EITP__DIRECTIONS;
        break;
    case EITP__FORM_COLUMNS:
        state.shape[0] = columns;
        break;
    case EITP__FORM_DIRECTIONS:
        state.rank = 2;
        state.shape[0] = EITP__DIRECTIONS;
        state.shape[1] = columns;
        break;
    case EITP__FORM_WIDE:
    case EITP__FORM_SIGNED:
    case EITP__FORM_UNSIGNED:
    case EITP__FORM_NONE:
    default:
        state.dtype = form == EITP__FORM_SIGNED     ? EITP_I8
                      : form == EITP__FORM_UNSIGNED ? EITP_U8
                                                    : eitp__wide(parameter->dtype);
        state.rank = parameter->rank;
        memcpy(state.shape, parameter->shape, sizeof state.shape);
    }
    return state;
}

static int eitp__is_like(const eitp_tensor *x, const eitp_tensor *like, eitp_dtype dtype) {
    return x->dtype == dtype && eitp__same_shape(x, like);
}

static eitp_status eitp__check_gradient(const eitp__node *node, eitp_error *error) {
    const eitp_tensor *parameter = node->inputs[EITP__UPDATE_PARAMETER];
    const eitp_tensor *gradient = node->inputs[EITP__UPDATE_GRADIENT];
    eitp_dtype wide = eitp__wide(parameter->dtype);
    int fits = eitp__is_like(gradient, parameter, wide) ||
               (parameter->dtype == EITP_BF16 && eitp__is_like(gradient, parameter, EITP_BF16));
    return eitp__require(fits, error, "the gradient of a %s parameter must have its shape and be %s%s",
                         eitp_dtype_name(parameter->dtype), eitp_dtype_name(wide),
                         parameter->dtype == EITP_BF16 ? " or bf16" : "");
}

/* Checks dtype and shape of state i. */
static eitp_status eitp__check_state(const eitp__node *node, int i, eitp__state_form form, eitp_error *error) {
    const eitp_tensor *parameter = node->inputs[EITP__UPDATE_PARAMETER];
    const eitp_tensor *state = node->inputs[EITP__UPDATE_STATE + i];
    const eitp_tensor like = eitp__state_like(parameter, form);
    int is_coded = form == EITP__FORM_SIGNED || form == EITP__FORM_UNSIGNED;
    char found[100], expected[100];
    eitp_status status =
        eitp__require(!is_coded || parameter->dtype == EITP_F32 || parameter->dtype == EITP_BF16, error,
                      "a %s parameter cannot have 8-bit moments; use f32 or bf16", eitp_dtype_name(parameter->dtype));
    return status ? status
                  : eitp__require(eitp__is_like(state, &like, like.dtype), error,
                                  "state %d of a %s parameter must be %s %s (got %s %s)", i,
                                  eitp_dtype_name(parameter->dtype), eitp_dtype_name(like.dtype),
                                  eitp__shape_text(&like, expected, sizeof expected), eitp_dtype_name(state->dtype),
                                  eitp__shape_text(state, found, sizeof found));
}

static eitp_status eitp__check_states(const eitp__node *node, eitp_error *error) {
    const eitp__update_form *form = eitp__update_form_of(node);
    eitp_status status = eitp__require(form != NULL, error, "rule %lld is unknown or does not accept these states",
                                       (long long)node->attributes.integers[2]);
    for (int i = 0; i < EITP__UPDATE_STATES && !status; i++) {
        if (form->states[i])
            status = eitp__check_state(node, i, form->states[i], error);
    }
    return status;
}

/* Checks the remainder and the key. */
static eitp_status eitp__check_remainder(const eitp__node *node, eitp_error *error) {
    const eitp_tensor *parameter = node->inputs[EITP__UPDATE_PARAMETER];
    const eitp_tensor *remainder = eitp__optional_input(node, EITP__UPDATE_REMAINDER);
    const eitp_tensor *key = eitp__optional_input(node, EITP__UPDATE_KEY);
    const char *name = eitp_dtype_name(parameter->dtype);
    const eitp_dtype dtype = eitp__exact_remainder(parameter->dtype);
    if (key)
        return eitp__require(parameter->dtype == EITP_BF16 && !remainder && key->dtype == EITP_I64 && key->rank == 1 &&
                                 key->shape[0] == 3 && node->attributes.integers[1] >= 0,
                             error,
                             "a key needs a bf16 parameter without a remainder; it must be i64 [3], and the index "
                             "of the first element 0 or more");
    if (eitp__wide(parameter->dtype) == parameter->dtype)
        return eitp__require(!remainder, error, "a %s parameter has no remainder", name);
    return eitp__require(remainder && (eitp__is_like(remainder, parameter, dtype) ||
                                       (parameter->dtype == EITP_BF16 && eitp__is_like(remainder, parameter, EITP_I8))),
                         error, "a %s parameter needs its remainder, of the same shape and %s", name,
                         parameter->dtype == EITP_BF16 ? "i16 or i8, or a key" : eitp_dtype_name(dtype));
}

/* Adds the outputs, each like the input that it changes, except the sums of squares of update and parameter. */
static eitp_status eitp__update_outputs(eitp__node *node, eitp_error *error) {
    const int *shares = eitp__op(node->graph, node->op)->shares;
    int count =
        eitp__update_form_of(node)->is_changing ? EITP__UPDATE_OUTPUTS : EITP__UPDATE_OUTPUTS - EITP__UPDATE_STATES;
    eitp_status status = EITP_OK;
    for (int i = 0; i < count && !status; i++) {
        const eitp_tensor *changed = shares[i] ? eitp__optional_input(node, shares[i] - 1) : NULL;
        int64_t sums[2];
        sums[0] = (eitp__elements(node->inputs[EITP__UPDATE_PARAMETER]) + EITP__SUM_BLOCK - 1) / EITP__SUM_BLOCK;
        sums[1] = 2;
        if (!shares[i])
            status = eitp__node_output(node, EITP_F64, 2, sums, 0, error);
        else if (changed)
            status = eitp__require(changed->storage->leaf == EITP__VARIABLE, error,
                                   "parameter, remainder and states must be variables");
        if (changed && !status)
            status = eitp__node_output_like(node, changed, error);
    }
    return status;
}

static eitp_status eitp__shape_update(eitp__node *node, eitp_error *error) {
    eitp_status status = eitp__check_gradient(node, error);
    if (!status)
        status = eitp__check_states(node, error);
    if (!status)
        status = eitp__check_remainder(node, error);
    if (!status)
        status = eitp__require(eitp__is_f32_vector(node->inputs[EITP__UPDATE_RATE], 2) &&
                                   eitp__is_f32_vector(node->inputs[EITP__UPDATE_COMMIT], 2),
                               error, "rate_and_step and commit must be f32 [2]");
    return status ? status : eitp__update_outputs(node, error);
}

/* ---- The means and directions of a factored update ---- */

static int eitp__is_vector(const eitp_tensor *x, eitp_dtype dtype) {
    return x && x->rank == 1 && x->dtype == dtype;
}

static int eitp__is_variable_vector(const eitp_tensor *x) {
    return eitp__is_vector(x, EITP_F32) && x->storage->leaf == EITP__VARIABLE;
}

static eitp_status eitp__shape_factored_means(eitp__node *node, eitp_error *error) {
    const eitp_tensor *columns = node->inputs[0], *rows = eitp__optional_input(node, 4);
    const eitp_tensor *row_squares = eitp__optional_input(node, 5);
    int64_t row_roots = rows ? rows->shape[0] : 1;
    int fits = eitp__is_variable_vector(columns) && eitp__is_like(node->inputs[1], columns, EITP_F64) &&
               !rows == !row_squares &&
               (!rows || (eitp__is_variable_vector(rows) && eitp__is_like(row_squares, rows, EITP_F64)));
    eitp_status status = eitp__require(fits, error, "means must be variables, f32 vectors, and their squares f64");
    if (!status)
        status = eitp__require(eitp__is_f32_vector(node->inputs[2], 2) && eitp__is_f32_vector(node->inputs[3], 2),
                               error, "rate_and_step and commit must be f32 [2]");
    if (!status)
        status = eitp__node_output_like(node, columns, error);
    if (!status)
        status = eitp__node_output_like(node, columns, error);
    if (!status)
        status = eitp__node_output(node, EITP_F32, 1, &row_roots, 0, error);
    return status || !rows ? status : eitp__node_output_like(node, rows, error);
}

static eitp_status eitp__shape_factored_momentum(eitp__node *node, eitp_error *error) {
    const eitp_tensor *directions = node->inputs[0], *m = node->inputs[1];
    int64_t rows = m->rank == 2 ? m->shape[0] : 0, columns = directions->rank == 2 ? directions->shape[1] : 0;
    int fits = eitp__is_f32_matrix(directions, EITP__DIRECTIONS, columns) &&
               eitp__is_f32_matrix(m, rows, EITP__DIRECTIONS) && directions->storage->leaf == EITP__VARIABLE &&
               m->storage->leaf == EITP__VARIABLE;
    eitp_status status = eitp__require(fits, error, "directions and moment must be variables, f32 matrices");
    fits = !status && eitp__is_like(node->inputs[2], m, EITP_F32) &&
           eitp__is_like(node->inputs[3], directions, EITP_F32) && eitp__is_vector(node->inputs[6], EITP_F64) &&
           node->inputs[6]->shape[0] == columns;
    if (!status)
        status = eitp__require(
            fits && eitp__is_f32_vector(node->inputs[4], 2) && eitp__is_f32_vector(node->inputs[5], 2), error,
            "products must have the shapes of moment and directions; rate_and_step and commit must be f32 [2]");
    for (int i = 0; i < 4 && !status; i++)
        status = eitp__node_output_like(node, i % 2 ? (i == 1 ? m : directions) : (i == 0 ? directions : m), error);
    return status;
}

/* ---- Entries of the table of ops ---- */

/* Defines a sum of a gradient, for its norm or its moments. */
static void eitp__define_gradient_sum(eitp__op_info *op, eitp__shape_rule *shape) {
    op->work = EITP_WORK_UPDATE;
    op->shape = shape;
    op->runs_early = 1;
}

EITP__PRIVATE void eitp__op_accumulate(eitp__op_info *op) {
    op->min_inputs = 2;
    op->max_inputs = 3;
    op->shape = eitp__shape_accumulate;
    op->flops = eitp__flops_elements;
    op->shares[0] = 1;
}

EITP__PRIVATE void eitp__op_sum_squares(eitp__op_info *op) {
    eitp__define_gradient_sum(op, eitp__shape_sum_squares);
    op->expand = eitp__expand_sum_squares;
}

EITP__PRIVATE void eitp__op_row_squares(eitp__op_info *op) {
    eitp__define_gradient_sum(op, eitp__shape_row_squares);
    op->expand = eitp__expand_row_squares;
}

EITP__PRIVATE void eitp__op_column_squares(eitp__op_info *op) {
    eitp__define_gradient_sum(op, eitp__shape_column_squares);
    op->max_inputs = 2;
    op->expand = eitp__expand_column_squares;
    op->reuse = EITP__SECOND;
}

EITP__PRIVATE void eitp__op_row_products(eitp__op_info *op) {
    eitp__define_gradient_sum(op, eitp__shape_row_products);
    op->min_inputs = op->max_inputs = 2;
    op->flops = eitp__flops_products;
}

EITP__PRIVATE void eitp__op_column_products(eitp__op_info *op) {
    eitp__define_gradient_sum(op, eitp__shape_column_products);
    op->min_inputs = 2;
    op->max_inputs = 3;
    op->flops = eitp__flops_products;
}

EITP__PRIVATE void eitp__op_commit(eitp__op_info *op) {
    op->work = EITP_WORK_UPDATE;
    op->min_inputs = 2;
    op->max_inputs = 4;
    op->outputs = 2;
    op->shape = eitp__shape_commit;
}

EITP__PRIVATE void eitp__op_factored_means(eitp__op_info *op) {
    op->work = EITP_WORK_UPDATE;
    op->min_inputs = 4;
    op->max_inputs = 6;
    op->outputs = 4;
    op->shape = eitp__shape_factored_means;
    op->shares[0] = 1;
    op->shares[3] = 5;
}

EITP__PRIVATE void eitp__op_factored_momentum(eitp__op_info *op) {
    op->work = EITP_WORK_UPDATE;
    op->min_inputs = op->max_inputs = 7;
    op->outputs = 4;
    op->shape = eitp__shape_factored_momentum;
    op->shares[0] = 1;
    op->shares[1] = 2;
}

EITP__PRIVATE void eitp__op_update(eitp__op_info *op) {
    op->work = EITP_WORK_UPDATE;
    op->min_inputs = EITP__UPDATE_COMMIT + 1;
    op->max_inputs = EITP__UPDATE_INPUTS;
    op->outputs = EITP__UPDATE_OUTPUTS;
    op->shape = eitp__shape_update;
    op->flops = eitp__flops_update;
    op->shares[0] = EITP__UPDATE_PARAMETER + 1;
    op->shares[2] = EITP__UPDATE_REMAINDER + 1;
    for (int i = 0; i < EITP__UPDATE_STATES; i++)
        op->shares[3 + i] = EITP__UPDATE_STATE + i + 1;
}
