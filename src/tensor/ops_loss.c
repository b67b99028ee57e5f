/* Cross-entropy with an ignored target: builder, shapes, gradient, expansion. */
#include "tensor/op_rules.h"

eitp_tensor *eitp_cross_entropy(eitp_tensor *logits, eitp_tensor *targets, int32_t ignored) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[2];
    attributes.integers[0] = ignored;
    inputs[0] = logits;
    inputs[1] = targets;
    return eitp__apply(EITP__OP_CROSS_ENTROPY, inputs, 2, &attributes);
}

EITP__PRIVATE eitp_status eitp__shape_cross_entropy(eitp__node *node, eitp_error *error) {
    const eitp_tensor *logits = node->inputs[0], *targets = node->inputs[1];
    char a[100], b[100];
    int fits = logits->rank == 2 && targets->rank == 1 && targets->dtype == EITP_I32 &&
               eitp__is_floating(logits->dtype) && logits->shape[0] == targets->shape[0] &&
               logits->rows == targets->rows;
    eitp_status status =
        eitp__require(fits, error, "logits must be floating [n, v] and targets i32 [n], not %s %s and %s %s",
                      eitp_dtype_name(logits->dtype), eitp__shape_text(logits, a, sizeof a),
                      eitp_dtype_name(targets->dtype), eitp__shape_text(targets, b, sizeof b));
    for (int i = 0; i < 2 && !status; i++)
        status = eitp__node_output(node, logits->dtype, 1, logits->shape, logits->rows, error);
    return status;
}

EITP__PRIVATE eitp_status eitp__shape_cross_entropy_backward(eitp__node *node, eitp_error *error) {
    return eitp__node_output_like(node, node->inputs[0], error);
}

EITP__PRIVATE void eitp__gradient_cross_entropy(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_tensor *inputs[4];
    inputs[0] = node->inputs[0];
    inputs[1] = node->inputs[1];
    inputs[2] = node->outputs[1];
    inputs[3] = dy[0];
    eitp__add_gradient(&dx[0], eitp__apply(EITP__OP_CROSS_ENTROPY_BACKWARD, inputs, 4, &node->attributes));
}

EITP__PRIVATE void eitp__expand_cross_entropy(const eitp__node *node, eitp_tensor **outputs) {
    eitp_tensor *logits = node->inputs[0], *targets = node->inputs[1];
    eitp_tensor *zero = eitp__scalar_like(logits, 0), *largest, *total, *loss, *number;
    int64_t rows[1], column[2] = {-1, 1};
    rows[0] = logits->shape[0];
    largest = eitp_stop_gradient(eitp_max(logits, 2u, 1));
    total = eitp_add(largest, eitp_log(eitp_sum(eitp_exp(eitp_subtract(logits, largest)), 2u, 1)));
    outputs[1] = eitp_reshape(total, 1, rows);
    /* An index outside the vocabulary picks 0; its row is zeroed below. */
    loss = eitp_subtract(total, eitp_gather(logits, eitp_reshape(targets, 2, column), 1));
    loss = eitp_reshape(loss, 1, rows);
    number = eitp_cast(targets, logits->dtype);
    loss = eitp_where(eitp_equal(number, eitp__scalar_like(logits, (double)node->attributes.integers[0])), zero, loss);
    loss = eitp_where(eitp_less(number, zero), zero, loss);
    outputs[0] = eitp_where(eitp_less(number, eitp__scalar_like(logits, (double)logits->shape[1])), loss, zero);
}

/* ---- The output head and the loss in one ---- */

EITP__PRIVATE eitp_status eitp__shape_head(eitp__node *node, eitp_error *error) {
    const eitp_tensor *x = node->inputs[0], *table = node->inputs[1], *targets = node->inputs[2];
    int64_t shape[2];
    int fits = x->rank == 2 && table->rank == 2 && x->dtype == table->dtype && eitp__is_floating(x->dtype) &&
               x->shape[1] == table->shape[1] && !table->rows && targets->rank == 1 && targets->dtype == EITP_I32 &&
               targets->shape[0] == x->shape[0] && targets->rows == x->rows;
    eitp_status status = eitp__require(fits, error, "x [n, c], the table [v, c] and targets i32 [n] do not fit");
    if (status)
        return status;
    shape[0] = x->shape[0];
    shape[1] = table->shape[0];
    status = eitp__node_output(node, x->dtype, 2, shape, x->rows, error);
    shape[1] = (table->shape[0] + EITP__HEAD_BLOCK - 1) / EITP__HEAD_BLOCK;
    for (int i = 0; i < 2 && !status; i++)
        status = eitp__node_output(node, eitp__wide(x->dtype), 2, shape, x->rows, error);
    return status ? status : eitp__node_output(node, eitp__wide(x->dtype), 1, shape, x->rows, error);
}

EITP__PRIVATE eitp_status eitp__shape_head_loss(eitp__node *node, eitp_error *error) {
    eitp_status status = eitp__node_output_like(node, node->inputs[2], error);
    return status ? status : eitp__node_output_like(node, node->inputs[2], error);
}

EITP__PRIVATE eitp_status eitp__shape_head_backward(eitp__node *node, eitp_error *error) {
    return eitp__node_output_like(node, node->inputs[0], error);
}

EITP__PRIVATE double eitp__flops_head(const eitp__node *node) {
    return 2.0 * (double)eitp__elements(node->outputs[0]) * (double)node->inputs[0]->shape[1];
}
