/* Softmax, GELU, SiLU, layer norm, RMS norm, embedding, dropout: builders, shapes, gradients, expansions. */
#include "tensor/op_rules.h"

static eitp_tensor *eitp__apply2(eitp__op_code op, eitp_tensor *a, eitp_tensor *b) {
    eitp_tensor *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    return eitp__apply(op, inputs, 2, NULL);
}

static unsigned eitp__last_dimension(const eitp_tensor *x) {
    return x && x->rank ? 1u << (x->rank - 1) : 0;
}

/* Shape of fused gradients whose result has the shape of input 1. */
static eitp_status eitp__shape_second(eitp__node *node, eitp_error *error) {
    return eitp__node_output_like(node, node->inputs[1], error);
}

/* ---- Softmax ---- */

eitp_tensor *eitp_softmax(eitp_tensor *x) {
    return eitp__apply(EITP__OP_SOFTMAX, &x, 1, NULL);
}

eitp_tensor *eitp_log_softmax(eitp_tensor *x) {
    return eitp__apply(EITP__OP_LOG_SOFTMAX, &x, 1, NULL);
}

static void eitp__gradient_softmax(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[0], eitp__apply2(EITP__OP_SOFTMAX_BACKWARD, node->outputs[0], dy[0]));
}

static void eitp__gradient_log_softmax(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[0], eitp__apply2(EITP__OP_LOG_SOFTMAX_BACKWARD, node->outputs[0], dy[0]));
}

/* Subtracting the maximum keeps exp() in range. The result does not depend on it, so no gradient flows through it. */
static eitp_tensor *eitp__shifted(eitp_tensor *x) {
    return eitp_subtract(x, eitp_stop_gradient(eitp_max(x, eitp__last_dimension(x), 1)));
}

static void eitp__expand_softmax(const eitp__node *node, eitp_tensor **outputs) {
    eitp_tensor *weights = eitp_exp(eitp__shifted(node->inputs[0]));
    outputs[0] = eitp_divide(weights, eitp_sum(weights, eitp__last_dimension(weights), 1));
}

static void eitp__expand_log_softmax(const eitp__node *node, eitp_tensor **outputs) {
    eitp_tensor *shifted = eitp__shifted(node->inputs[0]);
    outputs[0] = eitp_subtract(shifted, eitp_log(eitp_sum(eitp_exp(shifted), eitp__last_dimension(shifted), 1)));
}

/* y (dy - sum(y dy)) */
static void eitp__expand_softmax_backward(const eitp__node *node, eitp_tensor **outputs) {
    eitp_tensor *y = node->inputs[0], *dy = node->inputs[1];
    eitp_tensor *total = eitp_sum(eitp_multiply(y, dy), eitp__last_dimension(y), 1);
    outputs[0] = eitp_multiply(y, eitp_subtract(dy, total));
}

/* dy - exp(y) sum(dy) */
static void eitp__expand_log_softmax_backward(const eitp__node *node, eitp_tensor **outputs) {
    eitp_tensor *y = node->inputs[0], *dy = node->inputs[1];
    eitp_tensor *total = eitp_sum(dy, eitp__last_dimension(dy), 1);
    outputs[0] = eitp_subtract(dy, eitp_multiply(eitp_exp(y), total));
}

/* ---- GELU ---- */

eitp_tensor *eitp_gelu_tanh(eitp_tensor *x) {
    return eitp__apply(EITP__OP_GELU_TANH, &x, 1, NULL);
}

eitp_tensor *eitp_gelu_erf(eitp_tensor *x) {
    return eitp__apply(EITP__OP_GELU_ERF, &x, 1, NULL);
}

static void eitp__gradient_gelu_tanh(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[0], eitp__apply2(EITP__OP_GELU_TANH_BACKWARD, node->inputs[0], dy[0]));
}

static void eitp__gradient_gelu_erf(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[0], eitp__apply2(EITP__OP_GELU_ERF_BACKWARD, node->inputs[0], dy[0]));
}

/* x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) */
static void eitp__expand_gelu_tanh(const eitp__node *node, eitp_tensor **outputs) {
    eitp_tensor *x = node->inputs[0];
    eitp_tensor *cubic = eitp_multiply(x, eitp_affine(eitp_multiply(x, x), 0.044715, 1));
    eitp_tensor *gate = eitp_affine(eitp_tanh(eitp_affine(cubic, 0.7978845608028654, 0)), 0.5, 0.5);
    outputs[0] = eitp_multiply(x, gate);
}

/* x / 2 (1 + erf(x / sqrt(2))) */
static void eitp__expand_gelu_erf(const eitp__node *node, eitp_tensor **outputs) {
    eitp_tensor *x = node->inputs[0];
    outputs[0] = eitp_multiply(x, eitp_affine(eitp_erf(eitp_affine(x, 0.7071067811865476, 0)), 0.5, 0.5));
}

/* ---- SiLU ---- */

eitp_tensor *eitp_silu(eitp_tensor *x) {
    return eitp__apply(EITP__OP_SILU, &x, 1, NULL);
}

static void eitp__gradient_silu(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[0], eitp__apply2(EITP__OP_SILU_BACKWARD, node->inputs[0], dy[0]));
}

static void eitp__expand_silu(const eitp__node *node, eitp_tensor **outputs) {
    outputs[0] = eitp_multiply(node->inputs[0], eitp_sigmoid(node->inputs[0]));
}

/* ---- Layer norm ---- */

eitp_tensor *eitp_layer_norm(eitp_tensor *x, eitp_tensor *gain, eitp_tensor *bias, double epsilon) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[3];
    attributes.reals[0] = epsilon;
    inputs[0] = x;
    inputs[1] = gain;
    inputs[2] = bias;
    return eitp__apply(EITP__OP_LAYER_NORM, inputs, 3, &attributes);
}

/* Checks the inputs of a norm; `parameters` names them in messages. The outputs are y and `saved` numbers per row. */
static eitp_status eitp__shape_norm(eitp__node *node, const char *parameters, int saved, eitp_error *error) {
    const eitp_tensor *x = node->inputs[0];
    int64_t channels = x->rank ? x->shape[x->rank - 1] : 0;
    eitp_status status = eitp__require(x->rank >= 2 && eitp__is_floating(x->dtype), error,
                                       "the operand must be a floating-point tensor of rank 2 or more");
    if (!status)
        status = eitp__require(node->attributes.reals[0] >= 0 && isfinite(node->attributes.reals[0]), error,
                               "epsilon is %g; it must be 0 or more", node->attributes.reals[0]);
    for (int i = 1; i < node->input_count && !status; i++) {
        const eitp_tensor *p = node->inputs[i];
        status = eitp__require(p->rank == 1 && p->shape[0] == channels && p->dtype == eitp__wide(x->dtype), error,
                               "%s must be %s [%lld]", parameters, eitp_dtype_name(eitp__wide(x->dtype)),
                               (long long)channels);
    }
    if (!status)
        status = eitp__node_output_like(node, x, error);
    for (int i = 0; i < saved && !status; i++)
        status = eitp__node_output(node, eitp__wide(x->dtype), x->rank - 1, x->shape, x->rows, error);
    return status;
}

static eitp_status eitp__shape_layer_norm(eitp__node *node, eitp_error *error) {
    return eitp__shape_norm(node, "gain and bias", 2, error);
}

static eitp_status eitp__shape_layer_norm_backward_input(eitp__node *node, eitp_error *error) {
    return eitp__node_output_like(node, node->inputs[0], error);
}

static eitp_status eitp__shape_layer_norm_backward_parameters(eitp__node *node, eitp_error *error) {
    eitp_status status = eitp__node_output_like(node, node->inputs[1], error);
    return status ? status : eitp__node_output_like(node, node->inputs[2], error);
}

static void eitp__gradient_layer_norm(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_tensor *inputs[6];
    eitp__node *parameters;
    for (int i = 0; i < 3; i++)
        inputs[i] = node->inputs[i];
    inputs[3] = node->outputs[1];
    inputs[4] = node->outputs[2];
    inputs[5] = dy[0];
    parameters = eitp__node_create(node->graph, EITP__OP_LAYER_NORM_BACKWARD_PARAMETERS, inputs, 6, &node->attributes);
    eitp__add_gradient(&dx[0], eitp__apply(EITP__OP_LAYER_NORM_BACKWARD_INPUT, inputs, 6, &node->attributes));
    eitp__add_gradient(&dx[1], parameters ? parameters->outputs[0] : NULL);
    eitp__add_gradient(&dx[2], parameters ? parameters->outputs[1] : NULL);
}

static void eitp__expand_layer_norm(const eitp__node *node, eitp_tensor **outputs) {
    eitp_tensor *x = node->inputs[0], *mean, *centred, *variance, *reciprocal;
    mean = eitp_mean(x, eitp__last_dimension(x), 1);
    centred = eitp_subtract(x, mean);
    variance = eitp_mean(eitp_multiply(centred, centred), eitp__last_dimension(x), 1);
    reciprocal = eitp_divide(eitp__scalar_like(x, 1), eitp_sqrt(eitp_affine(variance, 1, node->attributes.reals[0])));
    outputs[0] = eitp_add(eitp_multiply(eitp_multiply(centred, reciprocal), node->inputs[1]), node->inputs[2]);
    outputs[1] = eitp_reshape(mean, x->rank - 1, x->shape);
    outputs[2] = eitp_reshape(reciprocal, x->rank - 1, x->shape);
}

/* ---- RMS norm ---- */

eitp_tensor *eitp_rms_norm(eitp_tensor *x, eitp_tensor *gain, double epsilon) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[2];
    attributes.reals[0] = epsilon;
    inputs[0] = x;
    inputs[1] = gain;
    return eitp__apply(EITP__OP_RMS_NORM, inputs, 2, &attributes);
}

static eitp_status eitp__shape_rms_norm(eitp__node *node, eitp_error *error) {
    return eitp__shape_norm(node, "gain", 1, error);
}

static void eitp__gradient_rms_norm(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_tensor *inputs[4];
    inputs[0] = node->inputs[0];
    inputs[1] = node->inputs[1];
    inputs[2] = node->outputs[1];
    inputs[3] = dy[0];
    eitp__add_gradient(&dx[0], eitp__apply(EITP__OP_RMS_NORM_BACKWARD_INPUT, inputs, 4, &node->attributes));
    eitp__add_gradient(&dx[1], eitp__apply(EITP__OP_RMS_NORM_BACKWARD_PARAMETERS, inputs, 4, &node->attributes));
}

static void eitp__expand_rms_norm(const eitp__node *node, eitp_tensor **outputs) {
    eitp_tensor *x = node->inputs[0], *squares = eitp_mean(eitp_multiply(x, x), eitp__last_dimension(x), 1);
    eitp_tensor *reciprocal = eitp_rsqrt(eitp_affine(squares, 1, node->attributes.reals[0]));
    outputs[0] = eitp_multiply(eitp_multiply(x, reciprocal), node->inputs[1]);
    outputs[1] = eitp_reshape(reciprocal, x->rank - 1, x->shape);
}

/* ---- Embedding ---- */

eitp_tensor *eitp_embedding(eitp_tensor *table, eitp_tensor *ids) {
    return eitp__apply2(EITP__OP_EMBEDDING, table, ids);
}

eitp_tensor *eitp_embedding_unique(eitp_tensor *table, eitp_tensor *ids, eitp_tensor *unique, eitp_tensor *inverse) {
    eitp_tensor *inputs[4];
    inputs[0] = table;
    inputs[1] = ids;
    inputs[2] = unique;
    inputs[3] = inverse;
    return eitp__apply(EITP__OP_EMBEDDING, inputs, 4, NULL);
}

static eitp_status eitp__shape_embedding(eitp__node *node, eitp_error *error) {
    const eitp_tensor *table = node->inputs[0], *ids = node->inputs[1];
    int64_t shape[2];
    eitp_status status =
        eitp__require(table->rank == 2 && eitp__is_floating(table->dtype) && ids->rank == 1 && ids->dtype == EITP_I32,
                      error, "table must be a floating-point matrix, and ids i32 of rank 1");
    if (!status && node->input_count > 2) {
        const eitp_tensor *unique = node->inputs[2], *inverse = node->inputs[3];
        status = eitp__require(unique && unique->rank == 1 && unique->dtype == EITP_I32 && !unique->rows && inverse &&
                                   inverse->dtype == EITP_I32 && eitp__same_shape(inverse, ids) &&
                                   inverse->rows == ids->rows,
                               error, "unique must be i32 of rank 1, and inverse i32 with the shape of ids");
    }
    shape[0] = ids->shape[0];
    shape[1] = status ? 0 : table->shape[1];
    return status ? status : eitp__node_output(node, table->dtype, 2, shape, ids->rows, error);
}

static eitp_status eitp__shape_embedding_backward(eitp__node *node, eitp_error *error) {
    return eitp__node_output(node, eitp__wide(node->inputs[1]->dtype), 2, node->attributes.shape,
                             (int)node->attributes.integers[2], error);
}

/* Returns zeros [rows, columns of dy], with the rows of dy added at the ids. With `varies`, rows is the graph's
   capacity. */
static eitp_tensor *eitp__embedding_backward(eitp_tensor *ids, eitp_tensor *dy, int64_t rows, int varies,
                                             int is_deferred) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[2];
    attributes.shape[0] = rows;
    attributes.shape[1] = dy ? dy->shape[1] : 0;
    attributes.integers[1] = is_deferred;
    attributes.integers[2] = varies;
    inputs[0] = ids;
    inputs[1] = dy;
    return eitp__apply(EITP__OP_EMBEDDING_BACKWARD, inputs, 2, &attributes);
}

static void eitp__gradient_embedding(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    const eitp_tensor *table = node->inputs[0];
    eitp_tensor *ids = node->inputs[1], *rows = dy[0];
    /*
     * Only gradients of parameters are summed by distinct id, and a table with a capacity of rows is not a parameter.
     */
    int is_unique = node->input_count > 2 && !table->rows;
    if (is_unique) {
        ids = node->inputs[2];
        rows = eitp__embedding_backward(node->inputs[3], rows, ids->shape[0], 0, 0);
    }
    eitp__add_gradient(&dx[0], eitp__embedding_backward(ids, rows, table->shape[0], table->rows, is_unique));
}

EITP__PRIVATE eitp_tensor *eitp__scatter_rows(eitp_tensor *ids, eitp_tensor *rows, const eitp_tensor *table) {
    return ids && rows ? eitp__embedding_backward(ids, rows, table->shape[0], table->rows, 0) : NULL;
}

EITP__PRIVATE eitp_tensor *eitp__sum_rows(eitp_tensor *ids, eitp_tensor *rows, int64_t count) {
    return ids && rows ? eitp__embedding_backward(ids, rows, count, 0, 0) : NULL;
}

EITP__PRIVATE eitp_tensor *eitp__deferred_rows(const eitp_tensor *gradient) {
    const eitp__node *node = gradient ? gradient->node : NULL;
    return node && node->op == EITP__OP_EMBEDDING_BACKWARD && node->attributes.integers[1] ? node->inputs[1] : NULL;
}

/* Returns the ids relative to the first row of EMBEDDING_BACKWARD's result. */
static eitp_tensor *eitp__embedding_rows(const eitp__node *node) {
    int64_t first = node->attributes.integers[0];
    eitp_tensor *ids = node->inputs[0];
    eitp_tensor *numbers;
    if (!first)
        return ids;
    /* There is no integer addition; F64 holds the numbers exactly. */
    numbers = eitp_affine(eitp_cast(ids, EITP_F64), 1, -(double)first);
    return eitp_cast(numbers, EITP_I32);
}

static void eitp__gradient_embedding_backward(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[1], eitp_embedding(dy[0], eitp__embedding_rows(node)));
}

/* Repeats ids [n] for each column: [n, columns]. */
static eitp_tensor *eitp__column_indices(eitp_tensor *ids, int64_t columns) {
    int64_t shape[2];
    if (!ids)
        return NULL;
    shape[0] = ids->shape[0];
    shape[1] = 1;
    ids = eitp_reshape(ids, 2, shape);
    shape[1] = columns;
    return eitp_broadcast(ids, 2, shape);
}

static void eitp__expand_embedding(const eitp__node *node, eitp_tensor **outputs) {
    eitp_tensor *table = node->inputs[0];
    outputs[0] = eitp_gather(table, eitp__column_indices(node->inputs[1], table->shape[1]), 0);
}

static void eitp__expand_embedding_backward(const eitp__node *node, eitp_tensor **outputs) {
    eitp_tensor *dy = node->inputs[1], *indices = eitp__column_indices(eitp__embedding_rows(node), dy->shape[1]);
    if (indices)
        outputs[0] = eitp__scatter_add_axis(dy, indices, 0, node->attributes.shape[0], node->outputs[0]->rows);
}

/* ---- Dropout ---- */

static eitp_status eitp__shape_dropout(eitp__node *node, eitp_error *error) {
    const eitp_tensor *key = node->inputs[1];
    eitp_status status = eitp__require(key->dtype == EITP_I64 && key->rank == 1 && key->shape[0] == 3, error,
                                       "key must be i64 [3]: seed, step, first row");
    if (!status)
        status = eitp__require(node->attributes.reals[0] >= 0 && node->attributes.reals[0] < 1, error,
                               "the probability is %g; it must be in [0, 1)", node->attributes.reals[0]);
    if (!status)
        status = eitp__require(node->inputs[0]->rank >= 1, error, "the operand must have rank 1 or more");
    return status ? status : eitp__node_output_like(node, node->inputs[0], error);
}

eitp_tensor *eitp_dropout(eitp_tensor *x, eitp_tensor *key, double probability) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[2];
    if (!x || probability == 0)
        return x;
    attributes.integers[0] = EITP__RNG_STREAM_FIRST_OP + (int64_t)x->graph->rng_streams++;
    attributes.reals[0] = probability;
    inputs[0] = x;
    inputs[1] = key;
    return eitp__apply(EITP__OP_DROPOUT, inputs, 2, &attributes);
}

/* The mask is a function of the key, so the same mask applies to the gradient. */
static void eitp__gradient_dropout(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_tensor *inputs[2];
    inputs[0] = dy[0];
    inputs[1] = node->inputs[1];
    eitp__add_gradient(&dx[0], eitp__apply(EITP__OP_DROPOUT, inputs, 2, &node->attributes));
}

static eitp_tensor *eitp__rows_embedding_backward(const eitp__node *node, int64_t begin, int64_t end) {
    eitp__attributes attributes = node->attributes;
    attributes.integers[0] += begin;
    attributes.shape[0] = end - begin;
    return eitp__apply(EITP__OP_EMBEDDING_BACKWARD, node->inputs, 2, &attributes);
}

/* ---- Entries of the table of ops ---- */

static void eitp__define_activation(eitp__op_info *op, eitp__gradient_rule *gradient, eitp__expand_rule *expand,
                                    eitp__epilogue epilogue) {
    eitp__define_elementwise(op, 1, gradient);
    op->expand = expand;
    op->work = EITP_WORK_ACTIVATION;
    eitp__add_epilogue(op, epilogue, 0, -1);
}

static void eitp__define_activation_backward(eitp__op_info *op, eitp__op_code activation, eitp__epilogue epilogue) {
    eitp__define_elementwise(op, 2, NULL);
    op->shape = eitp__shape_second;
    op->work = EITP_WORK_ACTIVATION;
    op->backward_of = (int)activation + 1;
    eitp__add_epilogue(op, epilogue, 1, 0);
}

EITP__PRIVATE void eitp__op_softmax(eitp__op_info *op) {
    op->shape = eitp__shape_unary;
    op->gradient = eitp__gradient_softmax;
    op->expand = eitp__expand_softmax;
    op->flops = eitp__flops_elements;
}

EITP__PRIVATE void eitp__op_softmax_backward(eitp__op_info *op) {
    op->min_inputs = op->max_inputs = 2;
    op->shape = eitp__shape_second;
    op->expand = eitp__expand_softmax_backward;
    op->flops = eitp__flops_elements;
}

EITP__PRIVATE void eitp__op_log_softmax(eitp__op_info *op) {
    op->shape = eitp__shape_unary;
    op->gradient = eitp__gradient_log_softmax;
    op->expand = eitp__expand_log_softmax;
    op->flops = eitp__flops_elements;
}

EITP__PRIVATE void eitp__op_log_softmax_backward(eitp__op_info *op) {
    op->min_inputs = op->max_inputs = 2;
    op->shape = eitp__shape_second;
    op->expand = eitp__expand_log_softmax_backward;
    op->flops = eitp__flops_elements;
}

EITP__PRIVATE void eitp__op_gelu_tanh(eitp__op_info *op) {
    eitp__define_activation(op, eitp__gradient_gelu_tanh, eitp__expand_gelu_tanh, EITP__EPILOGUE_GELU_TANH);
}

EITP__PRIVATE void eitp__op_gelu_tanh_backward(eitp__op_info *op) {
    eitp__define_activation_backward(op, EITP__OP_GELU_TANH, EITP__EPILOGUE_GELU_TANH_BACKWARD);
}

EITP__PRIVATE void eitp__op_gelu_erf(eitp__op_info *op) {
    eitp__define_activation(op, eitp__gradient_gelu_erf, eitp__expand_gelu_erf, EITP__EPILOGUE_GELU_ERF);
}

EITP__PRIVATE void eitp__op_gelu_erf_backward(eitp__op_info *op) {
    eitp__define_activation_backward(op, EITP__OP_GELU_ERF, EITP__EPILOGUE_GELU_ERF_BACKWARD);
}

EITP__PRIVATE void eitp__op_silu(eitp__op_info *op) {
    eitp__define_activation(op, eitp__gradient_silu, eitp__expand_silu, EITP__EPILOGUE_SILU);
}

EITP__PRIVATE void eitp__op_silu_backward(eitp__op_info *op) {
    eitp__define_activation_backward(op, EITP__OP_SILU, EITP__EPILOGUE_SILU_BACKWARD);
}

EITP__PRIVATE void eitp__op_layer_norm(eitp__op_info *op) {
    op->work = EITP_WORK_NORM;
    op->min_inputs = op->max_inputs = 3;
    op->outputs = 3;
    op->shape = eitp__shape_layer_norm;
    op->gradient = eitp__gradient_layer_norm;
    op->expand = eitp__expand_layer_norm;
    op->flops = eitp__flops_elements;
    op->row_sums = EITP__SECOND | EITP__THIRD;
    op->joint = EITP__SECOND | EITP__THIRD;
}

EITP__PRIVATE void eitp__op_layer_norm_backward_input(eitp__op_info *op) {
    eitp__define_backward(op, EITP__OP_LAYER_NORM, EITP_WORK_NORM, 6, eitp__shape_layer_norm_backward_input);
    op->operand = 6;
}

EITP__PRIVATE void eitp__op_layer_norm_backward_parameters(eitp__op_info *op) {
    eitp__define_backward(op, EITP__OP_LAYER_NORM, EITP_WORK_NORM, 6, eitp__shape_layer_norm_backward_parameters);
    op->outputs = 2;
    op->wrt[0] = 1;
    op->wrt[1] = 2;
    op->accumulates = EITP__ACCUMULATES_WIDE;
}

EITP__PRIVATE void eitp__op_rms_norm(eitp__op_info *op) {
    op->work = EITP_WORK_NORM;
    op->min_inputs = op->max_inputs = 2;
    op->outputs = 2;
    op->shape = eitp__shape_rms_norm;
    op->gradient = eitp__gradient_rms_norm;
    op->expand = eitp__expand_rms_norm;
    op->flops = eitp__flops_elements;
    op->row_sums = EITP__SECOND;
}

EITP__PRIVATE void eitp__op_rms_norm_backward_input(eitp__op_info *op) {
    eitp__define_backward(op, EITP__OP_RMS_NORM, EITP_WORK_NORM, 4, eitp__shape_same);
    op->operand = 4;
}

EITP__PRIVATE void eitp__op_rms_norm_backward_parameters(eitp__op_info *op) {
    eitp__define_backward(op, EITP__OP_RMS_NORM, EITP_WORK_NORM, 4, eitp__shape_second);
    op->wrt[0] = 1;
    op->accumulates = EITP__ACCUMULATES_WIDE;
}

EITP__PRIVATE void eitp__op_embedding(eitp__op_info *op) {
    op->min_inputs = 2;
    op->max_inputs = 4;
    op->shape = eitp__shape_embedding;
    op->gradient = eitp__gradient_embedding;
    op->expand = eitp__expand_embedding;
    op->row_sums = EITP__FIRST;
}

EITP__PRIVATE void eitp__op_embedding_backward(eitp__op_info *op) {
    op->min_inputs = op->max_inputs = 2;
    op->shape = eitp__shape_embedding_backward;
    op->gradient = eitp__gradient_embedding_backward;
    op->expand = eitp__expand_embedding_backward;
    op->rows = eitp__rows_embedding_backward;
    op->accumulates = EITP__ACCUMULATES_WIDE;
}

EITP__PRIVATE void eitp__op_dropout(eitp__op_info *op) {
    op->min_inputs = op->max_inputs = 2;
    op->shape = eitp__shape_dropout;
    op->gradient = eitp__gradient_dropout;
    op->reuse = EITP__FIRST;
}
