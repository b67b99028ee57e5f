/* Functions of symmetric positive definite matrices: builders, shapes, gradients. */
#include "tensor/op_rules.h"

/* Reshapes [.., m, m] to [.., m m], or to [1, m m] for one matrix: an item of the kernels is a row. */
static eitp_tensor *eitp__flat_matrices(eitp_tensor *a) {
    int64_t shape[EITP_MAX_RANK];
    const int rank = a ? a->rank : 0;
    if (!a)
        return NULL;
    memcpy(shape, a->shape, sizeof shape);
    if (rank == 2)
        shape[0] = 1;
    shape[rank == 2 ? 1 : rank - 2] = a->shape[rank - 1] * a->shape[rank - 1];
    return eitp_reshape(a, rank == 2 ? 2 : rank - 1, shape);
}

/* The reverse, for a tensor of the given rank or one more. */
static eitp_tensor *eitp__matrices_of(eitp_tensor *x, int64_t m, int rank) {
    int64_t shape[EITP_MAX_RANK];
    if (!x)
        return NULL;
    memcpy(shape, x->shape, sizeof shape);
    shape[rank - 2] = shape[rank - 1] = m;
    return eitp_reshape(x, rank, shape);
}

static int eitp__check_matrices(eitp_tensor *a, eitp__op_code op) {
    char text[100];
    eitp_error error = EITP__ZERO;
    const int rank = a->rank;
    const int fits = rank >= 2 && (a->dtype == EITP_F32 || a->dtype == EITP_F64) &&
                     a->shape[rank - 1] == a->shape[rank - 2] && (rank > 2 || !a->rows);
    eitp_status status =
        eitp__require(fits, &error, "the operand must be square matrices [.., m, m], f32 or f64, not %s %s",
                      eitp_dtype_name(a->dtype), eitp__shape_text(a, text, sizeof text));
    if (status)
        eitp__graph_fail(a->graph, status, "%s: %s", eitp__op(a->graph, op)->name, error.message);
    return !status;
}

/* Applies an op to each matrix of a. */
static eitp_tensor *eitp__apply_to_matrices(eitp__op_code op, eitp_tensor *a) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *flat;
    if (!a || a->graph->error.status || !eitp__check_matrices(a, op))
        return NULL;
    attributes.integers[0] = a->shape[a->rank - 1];
    flat = eitp__flat_matrices(a);
    return eitp__apply(op, &flat, 1, &attributes);
}

eitp_tensor *eitp_logdet(eitp_tensor *a) {
    return eitp__apply_to_matrices(EITP__OP_LOGDET, a);
}

eitp_tensor *eitp_inverse_spd(eitp_tensor *a) {
    eitp_tensor *inverse = eitp__apply_to_matrices(EITP__OP_INVERSE_SPD, a);
    return inverse ? eitp_reshape(inverse, a->rank, a->shape) : NULL;
}

static eitp_status eitp__shape_logdet(eitp__node *node, eitp_error *error) {
    const eitp_tensor *a = node->inputs[0];
    return eitp__node_output(node, a->dtype, a->rank - 1, a->shape, a->rows, error);
}

/* ---- Gradients ---- */

/* dy times the inverse, which is symmetric. */
static void eitp__gradient_logdet(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_tensor *a = node->inputs[0];
    int64_t shape[EITP_MAX_RANK];
    memcpy(shape, a->shape, sizeof shape);
    shape[a->rank - 1] = 1;
    eitp__add_gradient(&dx[0], eitp_multiply(eitp_reshape(dy[0], a->rank, shape),
                                             eitp__apply(EITP__OP_INVERSE_SPD, &a, 1, &node->attributes)));
}

/* With the inverse V, this is -V dY V for the symmetric part of dY, since only the symmetric part of a is inverted. */
static void eitp__gradient_inverse_spd(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    const eitp_tensor *a = node->inputs[0];
    const int64_t m = node->attributes.integers[0];
    eitp_tensor *v = eitp__matrices_of(node->outputs[0], m, a->rank + 1);
    eitp_tensor *d = eitp__matrices_of(dy[0], m, a->rank + 1);
    d = eitp_affine(eitp_add(d, eitp_transpose(d)), -0.5, 0);
    d = eitp_matmul(eitp_matmul(v, d), v);
    eitp__add_gradient(&dx[0], eitp_reshape(d, a->rank, a->shape));
}

/* ---- Entries of the table of ops ---- */

/* m^3 / 3 for the factorization, 2 m^3 / 3 for the inverse. */
static double eitp__flops_matrices(const eitp__node *node) {
    const double size = (double)node->attributes.integers[0] * (double)eitp__elements(node->inputs[0]);
    return node->op == EITP__OP_LOGDET ? size / 3 : size;
}

EITP__PRIVATE void eitp__op_logdet(eitp__op_info *op) {
    op->shape = eitp__shape_logdet;
    op->gradient = eitp__gradient_logdet;
    op->flops = eitp__flops_matrices;
}

EITP__PRIVATE void eitp__op_inverse_spd(eitp__op_info *op) {
    op->shape = eitp__shape_same;
    op->gradient = eitp__gradient_inverse_spd;
    op->flops = eitp__flops_matrices;
    op->reuse = EITP__FIRST;
}
