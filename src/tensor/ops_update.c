/* Ops that change variables, and what they need to know before: accumulate, norm, commit, AdamW. */
#include "tensor/op_rules.h"

static int eitp__is_f32_vector(const eitp_tensor *x, int64_t extent) {
    return x->dtype == EITP_F32 && x->rank == 1 && x->shape[0] == extent;
}

EITP__PRIVATE eitp_status eitp__shape_accumulate(eitp__node *node, eitp_error *error) {
    const eitp_tensor *target = node->inputs[0], *x = node->inputs[1];
    const eitp_tensor *carry = node->inputs[2];
    char a[100], b[100];
    eitp_status status = eitp__require(target->storage->leaf == EITP__VARIABLE, error, "the target is no variable");
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

EITP__PRIVATE eitp_status eitp__shape_sum_squares(eitp__node *node, eitp_error *error) {
    int64_t blocks = (eitp__elements(node->inputs[0]) + EITP__SUM_BLOCK - 1) / EITP__SUM_BLOCK;
    eitp_status status = eitp__require(!node->inputs[0]->rows, error, "the number of rows varies from run to run");
    return status ? status : eitp__node_output(node, EITP_F64, 1, &blocks, 0, error);
}

/* Blocks of a flat copy, the last one filled up with zeros. */
EITP__PRIVATE void eitp__expand_sum_squares(const eitp__node *node, eitp_tensor **outputs) {
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

EITP__PRIVATE eitp_status eitp__shape_commit(eitp__node *node, eitp_error *error) {
    const eitp_tensor *sum = node->inputs[0], *scale = node->input_count > 2 ? node->inputs[2] : NULL;
    int64_t extent = 2;
    int fits = sum->dtype == EITP_F64 && eitp__elements(sum) == 1 && eitp__is_f32_vector(node->inputs[1], 1) &&
               (!scale || eitp__is_f32_vector(scale, 1));
    eitp_status status = eitp__require(fits, error, "the sum must be f64 [1], the limit and the loss scale f32 [1]");
    if (!status)
        status = eitp__node_output(node, EITP_F32, 1, &extent, 0, error);
    extent = 1;
    return status ? status : eitp__node_output(node, EITP_F32, 1, &extent, 0, error);
}

/* What a remainder is kept in, for a parameter's dtype; F32 and F64 parameters have none. */
EITP__PRIVATE eitp_dtype eitp__remainder_dtype(eitp_dtype dtype) {
    return dtype == EITP_BF16 ? EITP_I16 : EITP_F32;
}

static eitp_status eitp__check_adamw(const eitp__node *node, eitp_error *error) {
    const eitp_tensor *parameter = node->inputs[0], *remainder = node->input_count > 6 ? node->inputs[6] : NULL;
    int is_wide = eitp__wide(parameter->dtype) == parameter->dtype;
    eitp_status status = EITP_OK;
    for (int i = 1; i < 4 && !status; i++)
        status = eitp__require(eitp__same_shape(parameter, node->inputs[i]) &&
                                   node->inputs[i]->dtype == eitp__wide(parameter->dtype),
                               error, "parameter, gradient and moments differ in shape or dtype");
    if (!status)
        status = eitp__require(is_wide ? !remainder
                                       : remainder && eitp__same_shape(parameter, remainder) &&
                                             remainder->dtype == eitp__remainder_dtype(parameter->dtype),
                               error, "a %s parameter %s", eitp_dtype_name(parameter->dtype),
                               is_wide ? "has no remainder" : "needs its remainder, of the same shape");
    for (int i = 0; i < node->input_count && !status; i++) {
        if (i == 0 || i == 2 || i == 3 || i == 6)
            status = eitp__require(node->inputs[i]->storage->leaf == EITP__VARIABLE, error,
                                   "parameter, moments and remainder must be variables");
    }
    return status ? status
                  : eitp__require(eitp__is_f32_vector(node->inputs[4], 2) && eitp__is_f32_vector(node->inputs[5], 2),
                                  error, "hyper and commit must be f32 [2]");
}

EITP__PRIVATE eitp_status eitp__shape_adamw(eitp__node *node, eitp_error *error) {
    int64_t sums[2];
    eitp_status status = eitp__check_adamw(node, error);
    for (int i = 0; i < 4 && !status; i++) {
        if (i != 1)
            status = eitp__node_output_like(node, node->inputs[i], error);
    }
    sums[0] = (eitp__elements(node->inputs[0]) + EITP__SUM_BLOCK - 1) / EITP__SUM_BLOCK;
    sums[1] = 2;
    if (!status)
        status = eitp__node_output(node, EITP_F64, 2, sums, 0, error);
    return status || node->input_count < 7 ? status : eitp__node_output_like(node, node->inputs[6], error);
}
