/* Ops that change variables, and the norms and products that these need: accumulate, AdamW, factored, SGD. */
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

eitp_tensor *eitp_sum_squares(eitp_tensor *x) {
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

/* The squares of x as a matrix. */
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

/*
 * Per element: one or two moving averages, a square root and a division; as much again for each of two 8-bit moments.
 */
static double eitp__flops_adamw(const eitp__node *node) {
    return (node->inputs[7] ? 24.0 : 8.0) * (double)eitp__elements(node->inputs[0]);
}

/* The same, plus the first moment. */
static double eitp__flops_factored(const eitp__node *node) {
    return (node->inputs[8] ? 8.0 + 2 * EITP__DIRECTIONS : 8.0) * (double)eitp__elements(node->inputs[0]);
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

static const eitp_tensor *eitp__optional_input(const eitp__node *node, int i) {
    return i < node->input_count ? node->inputs[i] : NULL;
}

static int eitp__is_like(const eitp_tensor *x, const eitp_tensor *like, eitp_dtype dtype) {
    return x->dtype == dtype && eitp__same_shape(x, like);
}

static eitp_status eitp__check_gradient(const eitp__node *node, eitp_error *error) {
    const eitp_tensor *parameter = node->inputs[0], *gradient = node->inputs[1];
    eitp_dtype wide = eitp__wide(parameter->dtype);
    int fits = eitp__is_like(gradient, parameter, wide) ||
               (parameter->dtype == EITP_BF16 && eitp__is_like(gradient, parameter, EITP_BF16));
    return eitp__require(fits, error, "the gradient of a %s parameter must have its shape and be %s%s",
                         eitp_dtype_name(parameter->dtype), eitp_dtype_name(wide),
                         parameter->dtype == EITP_BF16 ? " or bf16" : "");
}

/* Checks the moments and their scales. */
static eitp_status eitp__check_moments(const eitp__node *node, eitp_error *error) {
    const eitp_tensor *parameter = node->inputs[0], *m = node->inputs[2];
    const eitp_tensor *v = node->inputs[3], *m_scale = eitp__optional_input(node, 7);
    const eitp_tensor *v_scale = eitp__optional_input(node, 8);
    const char *name = eitp_dtype_name(parameter->dtype);
    eitp_dtype wide = eitp__wide(parameter->dtype);
    int64_t groups = (eitp__elements(parameter) + EITP__MOMENT_GROUP - 1) / EITP__MOMENT_GROUP;
    eitp_status status;
    int fits;
    if (!m_scale && !v_scale)
        return eitp__require(eitp__is_like(m, parameter, wide) && eitp__is_like(v, parameter, wide), error,
                             "the moments of a %s parameter must have its shape and be %s, or i8 and u8 with scales",
                             name, eitp_dtype_name(wide));
    if (parameter->dtype != EITP_F32 && parameter->dtype != EITP_BF16)
        return eitp__require(0, error, "a %s parameter cannot have 8-bit moments; use f32 or bf16", name);
    status = eitp__require(eitp__is_like(m, parameter, EITP_I8) && eitp__is_like(v, parameter, EITP_U8), error,
                           "moments with scales must have the parameter's shape and be i8 and u8");
    fits = m_scale && v_scale && m_scale->dtype == EITP_BF16 && m_scale->rank == 1 && m_scale->shape[0] == groups &&
           eitp__is_like(v_scale, m_scale, EITP_BF16);
    return status ? status
                  : eitp__require(fits, error, "8-bit moments need two scales, bf16 [%lld]: one for every %d elements",
                                  (long long)groups, EITP__MOMENT_GROUP);
}

/* Checks the remainder and the key. */
static eitp_status eitp__check_remainder(const eitp__node *node, const eitp_tensor *key, eitp_error *error) {
    const eitp_tensor *parameter = node->inputs[0], *remainder = eitp__optional_input(node, 6);
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

static eitp_status eitp__check_hyper(const eitp__node *node, eitp_error *error) {
    const eitp_tensor *rate_and_step = eitp__optional_input(node, 4), *commit = eitp__optional_input(node, 5);
    int fits = rate_and_step && commit && eitp__is_f32_vector(rate_and_step, 2) && eitp__is_f32_vector(commit, 2);
    return eitp__require(fits, error, "rate_and_step and commit must be f32 [2]");
}

/* Checks that the inputs that an update changes are variables. */
static eitp_status eitp__check_variables(const eitp__node *node, const int *changed, size_t count, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < count && !status; i++) {
        const eitp_tensor *x = eitp__optional_input(node, changed[i]);
        status = eitp__require(!x || x->storage->leaf == EITP__VARIABLE, error,
                               "parameter, moments, remainder and scales must be variables");
    }
    return status;
}

static eitp_status eitp__check_adamw(const eitp__node *node, eitp_error *error) {
    static const int changed[] = {0, 2, 3, 6, 7, 8};
    eitp_status status = eitp__check_gradient(node, error);
    if (!status)
        status = eitp__check_moments(node, error);
    if (!status)
        status = eitp__check_remainder(node, eitp__optional_input(node, 9), error);
    if (!status)
        status = eitp__check_variables(node, changed, EITP__COUNT(changed), error);
    return status ? status : eitp__check_hyper(node, error);
}

/* Adds the output for the sums of squares of update and parameter. */
static eitp_status eitp__sums_output(eitp__node *node, eitp_error *error) {
    int64_t sums[2];
    sums[0] = (eitp__elements(node->inputs[0]) + EITP__SUM_BLOCK - 1) / EITP__SUM_BLOCK;
    sums[1] = 2;
    return eitp__node_output(node, EITP_F64, 2, sums, 0, error);
}

static eitp_status eitp__shape_adamw(eitp__node *node, eitp_error *error) {
    static const int changed[] = {0, 2, 3, -1, 6, 7, 8};
    eitp_status status = eitp__check_adamw(node, error);
    for (size_t i = 0; i < EITP__COUNT(changed) && !status; i++) {
        const eitp_tensor *x = changed[i] < 0 ? NULL : eitp__optional_input(node, changed[i]);
        if (changed[i] < 0)
            status = eitp__sums_output(node, error);
        else if (x)
            status = eitp__node_output_like(node, x, error);
    }
    return status;
}

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

static eitp_status eitp__shape_factored(eitp__node *node, eitp_error *error) {
    const eitp_tensor *parameter = node->inputs[0], *remainder = eitp__optional_input(node, 6);
    int64_t columns = eitp__tensor_columns(parameter), rows = eitp__elements(parameter) / columns;
    int fits = eitp__is_f32_vector(node->inputs[2], rows) && eitp__is_f32_vector(node->inputs[3], columns) &&
               eitp__is_f32_vector(node->inputs[4], 2) && eitp__is_f32_vector(node->inputs[5], 2);
    const eitp_tensor *correction = eitp__optional_input(node, 8), *old_directions = eitp__optional_input(node, 9);
    eitp_status status = eitp__check_gradient(node, error);
    if (!status)
        status = eitp__require(!correction == !old_directions &&
                                   (!correction || (eitp__is_f32_matrix(correction, rows, EITP__DIRECTIONS) &&
                                                    eitp__is_f32_matrix(old_directions, EITP__DIRECTIONS, columns))),
                               error, "the correction must be f32 [%lld, %d], and the old directions f32 [%d, %lld]",
                               (long long)rows, EITP__DIRECTIONS, EITP__DIRECTIONS, (long long)columns);
    if (!status)
        status = eitp__check_remainder(node, eitp__optional_input(node, 7), error);
    if (!status)
        status = eitp__require(parameter->storage->leaf == EITP__VARIABLE &&
                                   (!remainder || remainder->storage->leaf == EITP__VARIABLE),
                               error, "parameter and remainder must be variables");
    if (!status)
        status = eitp__require(fits, error, "the roots must be f32 [%lld] and [%lld], rate_and_step and commit f32 [2]",
                               (long long)rows, (long long)columns);
    if (!status)
        status = eitp__node_output_like(node, parameter, error);
    if (!status)
        status = eitp__sums_output(node, error);
    return status || !remainder ? status : eitp__node_output_like(node, remainder, error);
}

static eitp_status eitp__shape_sgd(eitp__node *node, eitp_error *error) {
    static const int changed[] = {0, 2, 6};
    const eitp_tensor *parameter = node->inputs[0], *remainder = eitp__optional_input(node, 6);
    eitp_dtype wide = eitp__wide(parameter->dtype);
    eitp_status status = eitp__check_gradient(node, error);
    if (!status)
        status = eitp__require(eitp__is_like(node->inputs[2], parameter, wide) && !eitp__optional_input(node, 3), error,
                               "the velocity of a %s parameter must have its shape and be %s, and input 3 absent",
                               eitp_dtype_name(parameter->dtype), eitp_dtype_name(wide));
    if (!status)
        status = eitp__check_remainder(node, eitp__optional_input(node, 7), error);
    if (!status)
        status = eitp__check_variables(node, changed, EITP__COUNT(changed), error);
    if (!status)
        status = eitp__check_hyper(node, error);
    if (!status)
        status = eitp__node_output_like(node, parameter, error);
    if (!status)
        status = eitp__node_output_like(node, node->inputs[2], error);
    if (!status)
        status = eitp__sums_output(node, error);
    return status || !remainder ? status : eitp__node_output_like(node, remainder, error);
}

/* ---- Entries of the table of ops ---- */

EITP__PRIVATE void eitp__op_accumulate(eitp__op_info *op) {
    op->min_inputs = 2;
    op->max_inputs = 3;
    op->shape = eitp__shape_accumulate;
    op->flops = eitp__flops_elements;
    op->shares[0] = 1;
}

EITP__PRIVATE void eitp__op_sum_squares(eitp__op_info *op) {
    op->work = EITP_WORK_UPDATE;
    op->shape = eitp__shape_sum_squares;
    op->expand = eitp__expand_sum_squares;
    op->runs_early = 1;
}

EITP__PRIVATE void eitp__op_row_squares(eitp__op_info *op) {
    op->work = EITP_WORK_UPDATE;
    op->shape = eitp__shape_row_squares;
    op->expand = eitp__expand_row_squares;
    op->runs_early = 1;
}

EITP__PRIVATE void eitp__op_column_squares(eitp__op_info *op) {
    op->work = EITP_WORK_UPDATE;
    op->max_inputs = 2;
    op->shape = eitp__shape_column_squares;
    op->expand = eitp__expand_column_squares;
    op->reuse = EITP__SECOND;
    op->runs_early = 1;
}

EITP__PRIVATE void eitp__op_row_products(eitp__op_info *op) {
    op->work = EITP_WORK_UPDATE;
    op->min_inputs = op->max_inputs = 2;
    op->shape = eitp__shape_row_products;
    op->flops = eitp__flops_products;
    op->runs_early = 1;
}

EITP__PRIVATE void eitp__op_column_products(eitp__op_info *op) {
    op->work = EITP_WORK_UPDATE;
    op->min_inputs = 2;
    op->max_inputs = 3;
    op->shape = eitp__shape_column_products;
    op->flops = eitp__flops_products;
    op->runs_early = 1;
}

EITP__PRIVATE void eitp__op_commit(eitp__op_info *op) {
    op->work = EITP_WORK_UPDATE;
    op->min_inputs = 2;
    op->max_inputs = 4;
    op->outputs = 2;
    op->shape = eitp__shape_commit;
}

EITP__PRIVATE void eitp__op_adamw(eitp__op_info *op) {
    op->work = EITP_WORK_UPDATE;
    op->min_inputs = 6;
    op->max_inputs = 10;
    op->outputs = 7;
    op->shape = eitp__shape_adamw;
    op->flops = eitp__flops_adamw;
    op->shares[0] = 1;
    op->shares[1] = 3;
    op->shares[2] = 4;
    op->shares[4] = 7;
    op->shares[5] = 8;
    op->shares[6] = 9;
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

EITP__PRIVATE void eitp__op_factored(eitp__op_info *op) {
    op->work = EITP_WORK_UPDATE;
    op->min_inputs = 6;
    op->max_inputs = 10;
    op->outputs = 3;
    op->shape = eitp__shape_factored;
    op->flops = eitp__flops_factored;
    op->shares[0] = 1;
    op->shares[2] = 7;
}

EITP__PRIVATE void eitp__op_sgd(eitp__op_info *op) {
    op->work = EITP_WORK_UPDATE;
    op->min_inputs = 3;
    op->max_inputs = 8;
    op->outputs = 4;
    op->shape = eitp__shape_sgd;
    op->flops = eitp__flops_elements;
    op->shares[0] = 1;
    op->shares[1] = 3;
    op->shares[3] = 7;
}
