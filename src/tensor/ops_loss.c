/*
 * Cross-entropy with an ignored target, class weights and label smoothing, and the entropy of softmax: builders,
 * shapes, gradients, expansions.
 */
#include "tensor/op_rules.h"

static eitp_status eitp__check_targets(const eitp__value_rule *rule, const eitp_tensor *input, const void *values,
                                       int64_t count, eitp_error *error) {
    const int32_t *targets = (const int32_t *)values;
    int64_t classes = rule->numbers[0], ignored = rule->numbers[1];
    for (int64_t i = 0; i < count; i++) {
        if ((targets[i] < 0 || targets[i] >= classes) && targets[i] != ignored)
            return eitp__fail(error, EITP_ERROR_ARGUMENT,
                              "element %lld of input '%s' is %d: a target must be 0 to %lld, or %d to be ignored",
                              (long long)i, input->name, (int)targets[i], (long long)classes - 1, (int)ignored);
    }
    return EITP_OK;
}

/* Returns the loss, and adds the range of valid targets to the rules of `targets` if it is an input. */
static eitp_tensor *eitp__with_checked_targets(eitp_tensor *loss, eitp_tensor *targets, int64_t classes,
                                               int32_t ignored) {
    eitp__value_rule rule = EITP__ZERO;
    rule.check = eitp__check_targets;
    rule.numbers[0] = classes;
    rule.numbers[1] = ignored;
    if (loss)
        eitp__add_rule(targets, &rule);
    return loss;
}

eitp_tensor *eitp_cross_entropy(eitp_tensor *logits, eitp_tensor *targets, int32_t ignored) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[2], *loss;
    attributes.integers[0] = ignored;
    inputs[0] = logits;
    inputs[1] = targets;
    loss = eitp__apply(EITP__OP_CROSS_ENTROPY, inputs, 2, &attributes);
    return eitp__with_checked_targets(loss, targets, loss ? logits->shape[1] : 0, ignored);
}

static eitp_status eitp__shape_cross_entropy(eitp__node *node, eitp_error *error) {
    const eitp_tensor *logits = node->inputs[0], *targets = node->inputs[1];
    char a[100], b[100];
    int fits = logits->rank == 2 && targets->rank == 1 && targets->dtype == EITP_I32 &&
               eitp__is_floating(logits->dtype) && logits->shape[0] == targets->shape[0] &&
               logits->rows == targets->rows;
    eitp_status status =
        eitp__require(fits, error, "logits must be floating-point [n, v] and targets i32 [n], not %s %s and %s %s",
                      eitp_dtype_name(logits->dtype), eitp__shape_text(logits, a, sizeof a),
                      eitp_dtype_name(targets->dtype), eitp__shape_text(targets, b, sizeof b));
    for (int i = 0; i < 2 && !status; i++)
        status = eitp__node_output(node, eitp__wide(logits->dtype), 1, logits->shape, logits->rows, error);
    return status;
}

static eitp_status eitp__shape_cross_entropy_backward(eitp__node *node, eitp_error *error) {
    return eitp__node_output_like(node, node->inputs[0], error);
}

static void eitp__gradient_cross_entropy(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_tensor *inputs[4];
    inputs[0] = node->inputs[0];
    inputs[1] = node->inputs[1];
    inputs[2] = node->outputs[1];
    inputs[3] = dy[0];
    eitp__add_gradient(&dx[0], eitp__apply(EITP__OP_CROSS_ENTROPY_BACKWARD, inputs, 4, &node->attributes));
}

static void eitp__expand_cross_entropy(const eitp__node *node, eitp_tensor **outputs) {
    eitp_tensor *logits = node->inputs[0], *targets = node->inputs[1];
    eitp_tensor *zero = eitp__scalar_like(logits, 0), *one = eitp__scalar_like(logits, 1), *largest, *total, *loss;
    eitp_tensor *nan = eitp__scalar_like(logits, (double)NAN), *ignored, *factor;
    int64_t rows[1], column[2] = {-1, 1};
    rows[0] = logits->shape[0];
    largest = eitp_stop_gradient(eitp_max(logits, 2u, 1));
    total = eitp_add(largest, eitp_log(eitp_sum(eitp_exp(eitp_subtract(logits, largest)), 2u, 1)));
    outputs[1] = eitp_reshape(total, 1, rows);
    /* An index outside the classes gathers 0. The factor makes loss and gradient of its row NaN, or 0 if it is the
       ignored target. */
    loss = eitp_subtract(total, eitp_gather(logits, eitp_reshape(targets, 2, column), 1));
    loss = eitp_reshape(loss, 1, rows);
    ignored = eitp_equal(targets, eitp__scalar_like(targets, (double)node->attributes.integers[0]));
    factor = eitp_where(eitp_less(targets, eitp__scalar_like(targets, (double)logits->shape[1])), one, nan);
    factor = eitp_where(eitp_less(targets, eitp__scalar_like(targets, 0)), nan, factor);
    factor = eitp_where(ignored, one, factor);
    outputs[0] = eitp_where(ignored, zero, eitp_multiply(loss, factor));
}

/* ---- Output head and loss in one op ---- */

static eitp_status eitp__check_head(const eitp__node *node, eitp_error *error) {
    const eitp_tensor *x = node->inputs[0], *table = node->inputs[1], *targets = node->inputs[2];
    int fits = x->rank == 2 && table->rank == 2 && x->dtype == table->dtype && eitp__is_floating(x->dtype) &&
               x->shape[1] == table->shape[1] && !table->rows && targets->rank == 1 && targets->dtype == EITP_I32 &&
               targets->shape[0] == x->shape[0] && targets->rows == x->rows;
    return eitp__require(fits, error,
                         "x must be floating-point [n, c], table [v, c] of the same dtype, and targets i32 [n]");
}

/* Returns the number of blocks of HEAD in a vocabulary. */
static int64_t eitp__head_blocks(const eitp__node *node, int64_t vocabulary) {
    const int64_t block = node->graph->context->backend->interface->head_block;
    return (vocabulary + block - 1) / block;
}

static eitp_status eitp__shape_head(eitp__node *node, eitp_error *error) {
    const eitp_tensor *x = node->inputs[0], *table = node->inputs[1];
    int64_t shape[2];
    eitp_status status = eitp__check_head(node, error);
    if (status)
        return status;
    shape[0] = x->shape[0];
    shape[1] = table->shape[0];
    status = eitp__node_output(node, x->dtype, 2, shape, x->rows, error);
    shape[1] = eitp__head_blocks(node, table->shape[0]);
    for (int i = 0; i < 2 && !status; i++)
        status = eitp__node_output(node, eitp__wide(x->dtype), 2, shape, x->rows, error);
    return status ? status : eitp__node_output(node, eitp__wide(x->dtype), 1, shape, x->rows, error);
}

static eitp_status eitp__shape_head_loss(eitp__node *node, eitp_error *error) {
    eitp_status status = eitp__node_output_like(node, node->inputs[2], error);
    return status ? status : eitp__node_output_like(node, node->inputs[2], error);
}

static eitp_status eitp__shape_head_backward(eitp__node *node, eitp_error *error) {
    return eitp__node_output_like(node, node->inputs[0], error);
}

static double eitp__flops_head(const eitp__node *node) {
    return 2.0 * (double)eitp__elements(node->inputs[0]) * (double)node->inputs[1]->shape[0];
}

/*
 * LINEAR_CROSS_ENTROPY (x [n, c], table [v, c], targets I32 [n]) -> loss [n], logsumexp [n], saved [n, v], top [n,
 * blocks]. `saved` is the logits, or in 16 bits the exponentials of HEAD. `top` is HEAD's.
 */
eitp_tensor *eitp_linear_cross_entropy(eitp_tensor *x, eitp_tensor *table, eitp_tensor *targets, int32_t ignored) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[3], *loss;
    attributes.integers[0] = ignored;
    inputs[0] = x;
    inputs[1] = table;
    inputs[2] = targets;
    loss = eitp__apply(EITP__OP_LINEAR_CROSS_ENTROPY, inputs, 3, &attributes);
    return eitp__with_checked_targets(loss, targets, loss ? table->shape[0] : 0, ignored);
}

static eitp_status eitp__shape_linear_cross_entropy(eitp__node *node, eitp_error *error) {
    const eitp_tensor *x = node->inputs[0];
    int64_t shape[2];
    eitp_status status = eitp__check_head(node, error);
    for (int i = 0; i < 2 && !status; i++)
        status = eitp__node_output(node, eitp__wide(x->dtype), 1, x->shape, x->rows, error);
    shape[0] = x->shape[0];
    shape[1] = node->inputs[1]->shape[0];
    if (!status)
        status = eitp__node_output(node, x->dtype, 2, shape, x->rows, error);
    shape[1] = eitp__head_blocks(node, shape[1]);
    return status ? status : eitp__node_output(node, eitp__wide(x->dtype), 2, shape, x->rows, error);
}

static int eitp__is_16_bits(const eitp_tensor *x) {
    return eitp__wide(x->dtype) != x->dtype;
}

static void eitp__expand_linear_cross_entropy(const eitp__node *node, eitp_tensor **outputs) {
    eitp_tensor *x = node->inputs[0], *table = node->inputs[1], *targets = node->inputs[2], *inputs[4];
    eitp__attributes attributes = node->attributes;
    eitp__node *head, *loss;
    if (!eitp__is_16_bits(x)) {
        outputs[2] = eitp_matmul_transposed(x, table, 0, 1);
        outputs[3] = eitp__fill_like(node->outputs[3], 0);
        inputs[0] = outputs[2];
        inputs[1] = targets;
        loss = eitp__node_create(node->graph, EITP__OP_CROSS_ENTROPY, inputs, 2, &attributes);
    } else {
        head = eitp__node_create(node->graph, EITP__OP_HEAD, node->inputs, 3, NULL);
        if (!head)
            return;
        for (int i = 0; i < 3; i++)
            inputs[i] = head->outputs[i + 1];
        inputs[3] = targets;
        attributes.integers[1] = table->shape[0];
        loss = eitp__node_create(node->graph, EITP__OP_HEAD_LOSS, inputs, 4, &attributes);
        outputs[2] = head->outputs[0];
        outputs[3] = head->outputs[1];
    }
    for (int i = 0; i < 2 && loss; i++)
        outputs[i] = loss->outputs[i];
}

EITP__PRIVATE eitp_tensor *eitp__gradient_of_logits(const eitp__node *node, eitp_tensor *dy) {
    eitp_tensor *inputs[5];
    inputs[0] = node->outputs[2];
    if (eitp__is_16_bits(node->inputs[0])) {
        inputs[1] = node->outputs[3];
        inputs[2] = node->inputs[2];
        inputs[3] = node->outputs[1];
        inputs[4] = dy;
        return eitp__apply(EITP__OP_HEAD_BACKWARD, inputs, 5, &node->attributes);
    }
    inputs[1] = node->inputs[2];
    inputs[2] = node->outputs[1];
    inputs[3] = dy;
    return eitp__apply(EITP__OP_CROSS_ENTROPY_BACKWARD, inputs, 4, &node->attributes);
}

/* Computes the gradients of x and the table from the gradient of the logits. In F32 the logits may have their own
   gradient. */
static void eitp__gradient_linear_cross_entropy(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_tensor *x = node->inputs[0], *table = node->inputs[1], *d = NULL;
    if (dy[2] && eitp__is_16_bits(x)) {
        eitp__graph_fail(node->graph, EITP_ERROR_UNSUPPORTED, "16-bit logits are not stored and have no gradient");
        return;
    }
    if (dy[0])
        d = eitp__gradient_of_logits(node, dy[0]);
    eitp__add_gradient(&d, dy[2]);
    eitp__add_gradient(&dx[0], eitp__matmul_node(d, table, NULL, 0, 0, eitp__gradient_dtype(x)));
    eitp__add_gradient(&dx[1], eitp__matmul_node(d, x, NULL, 1, 0, eitp__gradient_dtype(table)));
}

/* ---- Class weights and label smoothing ---- */

static int eitp__check_loss_config(eitp_tensor *x, int64_t classes, const eitp_cross_entropy_config *config) {
    const eitp_tensor *weights = config ? config->weights : NULL;
    eitp_error error = EITP__ZERO;
    eitp_status status = eitp__require(config != NULL, &error, "config is NULL");
    if (!status)
        status = eitp__require(config->label_smoothing >= 0 && config->label_smoothing <= 1, &error,
                               "label_smoothing is %g; it must be 0 to 1", config->label_smoothing);
    if (!status)
        status = eitp__require(!weights || (weights->rank == 1 && weights->shape[0] == classes && !weights->rows &&
                                            weights->dtype == eitp__wide(x->dtype)),
                               &error, "weights must be %s [%lld]", eitp_dtype_name(eitp__wide(x->dtype)),
                               (long long)classes);
    if (status)
        eitp__graph_fail(x->graph, status, "cross_entropy: %s", error.message);
    return !status;
}

/* Returns w as a matrix of one row or one column. */
static eitp_tensor *eitp__weight_matrix(eitp_tensor *weights, int is_column) {
    int64_t shape[2] = {1, 1};
    shape[!is_column] = -1;
    return eitp_reshape(weights, 2, shape);
}

/* Returns x times the sum of the class weights. */
static eitp_tensor *eitp__times_weight_sum(eitp_tensor *x, eitp_tensor *weights, int64_t classes) {
    return weights ? eitp_multiply(x, eitp_sum(weights, EITP_ALL_DIMENSIONS, 0)) : eitp_affine(x, (double)classes, 0);
}

/* Returns the sum over classes j of w[j] (l[t] - l[j]), for logits l [n, v] and targets t: [n]. */
static eitp_tensor *eitp__smoothing_term(eitp_tensor *logits, eitp_tensor *targets, eitp_tensor *weights) {
    int64_t column[2] = {-1, 1}, rows[1] = {-1};
    eitp_dtype wide = eitp__wide(logits->dtype);
    eitp_tensor *picked = eitp_cast(eitp_gather(logits, eitp_reshape(targets, 2, column), 1), wide), *sum;
    sum = weights ? eitp_matmul(eitp_cast(logits, wide), eitp__weight_matrix(weights, 1)) : eitp_sum(logits, 2u, 1);
    return eitp_reshape(eitp_subtract(eitp__times_weight_sum(picked, weights, logits->shape[1]), sum), 1, rows);
}

/* Like eitp__smoothing_term, without the logits: x times the sum over classes j of w[j] (table[t] - table[j]). */
static eitp_tensor *eitp__head_smoothing_term(eitp_tensor *x, eitp_tensor *table, eitp_tensor *targets,
                                              eitp_tensor *weights) {
    int64_t ones[2] = {1, 1};
    eitp_dtype wide = eitp__wide(x->dtype);
    eitp_tensor *picked = eitp_cast(eitp_embedding(table, targets), wide), *sum;
    ones[1] = table->shape[0];
    sum = weights ? eitp_matmul(eitp__weight_matrix(weights, 0), eitp_cast(table, wide))
                  : eitp_matmul_wide(eitp_fill(x->graph, table->dtype, 2, ones, 1), table, 0, 0);
    picked = eitp_subtract(eitp__times_weight_sum(picked, weights, table->shape[0]), sum);
    return eitp_sum(eitp_multiply(eitp_cast(x, wide), picked), 2u, 0);
}

/* Returns (1 - s) w[t] nll + s / v * sum over classes j of -w[j] log p[j], where -log p[j] = nll + l[t] - l[j].
   `smoothing_term` is the part of this sum without nll; NULL if s is 0. */
static eitp_tensor *eitp__configured_loss(eitp_tensor *nll, eitp_tensor *smoothing_term, eitp_tensor *targets,
                                          int64_t classes, const eitp_cross_entropy_config *config) {
    double smoothing = config->label_smoothing;
    eitp_tensor *weights = config->weights, *loss = nll, *factor, *ignored;
    if (weights) {
        factor = eitp_affine(eitp_gather(weights, targets, 0), 1 - smoothing, 0);
        if (smoothing_term)
            factor = eitp_add(factor,
                              eitp_affine(eitp_sum(weights, EITP_ALL_DIMENSIONS, 0), smoothing / (double)classes, 0));
        loss = eitp_multiply(nll, factor);
    }
    if (!smoothing_term)
        return loss;
    ignored = eitp_equal(targets, eitp__scalar_like(targets, config->ignored));
    smoothing_term =
        eitp_where(ignored, eitp__scalar_like(nll, 0), eitp_affine(smoothing_term, smoothing / (double)classes, 0));
    return eitp_add(loss, smoothing_term);
}

eitp_cross_entropy_config eitp_cross_entropy_config_default(void) {
    eitp_cross_entropy_config config = EITP__ZERO;
    config.ignored = -1;
    return config;
}

eitp_tensor *eitp_cross_entropy_with(eitp_tensor *logits, eitp_tensor *targets,
                                     const eitp_cross_entropy_config *config) {
    int64_t classes = eitp_tensor_dimension(logits, 1);
    eitp_tensor *nll = eitp_cross_entropy(logits, targets, config ? config->ignored : 0), *smoothing_term = NULL;
    if (!nll || !eitp__check_loss_config(logits, classes, config))
        return NULL;
    if (config->label_smoothing > 0)
        smoothing_term = eitp__smoothing_term(logits, targets, config->weights);
    return eitp__configured_loss(nll, smoothing_term, targets, classes, config);
}

eitp_tensor *eitp_linear_cross_entropy_with(eitp_tensor *x, eitp_tensor *table, eitp_tensor *targets,
                                            const eitp_cross_entropy_config *config) {
    int64_t classes = eitp_tensor_dimension(table, 0);
    eitp_tensor *nll = eitp_linear_cross_entropy(x, table, targets, config ? config->ignored : 0),
                *smoothing_term = NULL;
    if (!nll || !eitp__check_loss_config(x, classes, config))
        return NULL;
    if (config->label_smoothing > 0)
        smoothing_term = eitp__head_smoothing_term(x, table, targets, config->weights);
    return eitp__configured_loss(nll, smoothing_term, targets, classes, config);
}

/* ---- The entropy of softmax ---- */

/* SOFTMAX_ENTROPY (logits [.., v]) -> entropy [..], logsumexp [..]. */
eitp_tensor *eitp_softmax_entropy(eitp_tensor *logits) {
    return eitp__apply(EITP__OP_SOFTMAX_ENTROPY, &logits, 1, NULL);
}

/* Stores the shape of logits without the last dimension; [1] for a vector. */
static int eitp__entropy_shape(const eitp_tensor *logits, int64_t *shape) {
    memcpy(shape, logits->shape, sizeof logits->shape);
    if (logits->rank == 1)
        shape[0] = 1;
    return logits->rank == 1 ? 1 : logits->rank - 1;
}

static eitp_status eitp__shape_softmax_entropy(eitp__node *node, eitp_error *error) {
    const eitp_tensor *logits = node->inputs[0];
    int64_t shape[EITP_MAX_RANK];
    char text[100];
    const int rank = eitp__entropy_shape(logits, shape);
    eitp_status status = eitp__require(eitp__is_floating(logits->dtype) && logits->rank >= (logits->rows ? 2 : 1),
                                       error, "logits must be floating-point [.., v] with a fixed v, not %s %s",
                                       eitp_dtype_name(logits->dtype), eitp__shape_text(logits, text, sizeof text));
    for (int i = 0; i < 2 && !status; i++)
        status = eitp__node_output(node, eitp__wide(logits->dtype), rank, shape, logits->rows, error);
    return status;
}

static eitp_status eitp__shape_softmax_entropy_backward(eitp__node *node, eitp_error *error) {
    return eitp__node_output_like(node, node->inputs[0], error);
}

static void eitp__gradient_softmax_entropy(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_tensor *inputs[4];
    inputs[0] = node->inputs[0];
    inputs[1] = node->outputs[0];
    inputs[2] = node->outputs[1];
    inputs[3] = dy[0];
    eitp__add_gradient(&dx[0], eitp__apply(EITP__OP_SOFTMAX_ENTROPY_BACKWARD, inputs, 4, NULL));
}

/*
 * Computes log(sum(e^z)) - sum(z e^z) / sum(e^z) with z = logits - shift. Where a logit is minus infinity, z and e^z
 * are replaced by 0, so that neither the value nor the gradient is NaN; the sum of a row of only these is replaced by
 * 1.
 */
static void eitp__expand_softmax_entropy(const eitp__node *node, eitp_tensor **outputs) {
    eitp_tensor *logits = node->inputs[0], *zero = eitp__scalar_like(logits, 0), *one = eitp__scalar_like(logits, 1);
    eitp_tensor *infinite = eitp__scalar_like(logits, -(double)INFINITY), *is_masked, *shift, *z, *e, *sum, *log_sum;
    const unsigned last = 1u << (logits->rank - 1);
    int64_t shape[EITP_MAX_RANK];
    const int rank = eitp__entropy_shape(logits, shape);
    is_masked = eitp_equal(logits, infinite);
    shift = eitp_stop_gradient(eitp_max(logits, last, 1));
    shift = eitp_where(eitp_equal(shift, infinite), zero, shift);
    z = eitp_where(is_masked, zero, eitp_subtract(logits, shift));
    e = eitp_where(is_masked, zero, eitp_exp(z));
    sum = eitp_sum(e, last, 1);
    sum = eitp_where(eitp_equal(sum, zero), one, sum);
    log_sum = eitp_log(sum);
    outputs[0] = eitp_subtract(log_sum, eitp_divide(eitp_sum(eitp_multiply(e, z), last, 1), sum));
    outputs[0] = eitp_reshape(outputs[0], rank, shape);
    outputs[1] = eitp_reshape(eitp_add(shift, log_sum), rank, shape);
}

/* ---- Entries of the table of ops ---- */

EITP__PRIVATE void eitp__op_cross_entropy(eitp__op_info *op) {
    op->work = EITP_WORK_LOSS;
    op->min_inputs = op->max_inputs = 2;
    op->outputs = 2;
    op->shape = eitp__shape_cross_entropy;
    op->gradient = eitp__gradient_cross_entropy;
    op->expand = eitp__expand_cross_entropy;
    op->flops = eitp__flops_elements;
}

EITP__PRIVATE void eitp__op_cross_entropy_backward(eitp__op_info *op) {
    eitp__define_backward(op, EITP__OP_CROSS_ENTROPY, EITP_WORK_LOSS, 4, eitp__shape_cross_entropy_backward);
    op->reuse = EITP__FIRST;
}

EITP__PRIVATE void eitp__op_head(eitp__op_info *op) {
    op->work = EITP_WORK_HEAD;
    op->min_inputs = op->max_inputs = 3;
    op->outputs = 4;
    op->shape = eitp__shape_head;
    op->flops = eitp__flops_head;
    op->is_product = 1;
    op->partly_written = 1u << 3;
}

EITP__PRIVATE void eitp__op_head_loss(eitp__op_info *op) {
    op->work = EITP_WORK_HEAD;
    op->min_inputs = op->max_inputs = 4;
    op->outputs = 2;
    op->shape = eitp__shape_head_loss;
}

EITP__PRIVATE void eitp__op_head_backward(eitp__op_info *op) {
    op->work = EITP_WORK_HEAD;
    op->min_inputs = op->max_inputs = 5;
    op->shape = eitp__shape_head_backward;
    op->flops = eitp__flops_elements;
    op->reuse = EITP__FIRST;
}

EITP__PRIVATE void eitp__op_linear_cross_entropy(eitp__op_info *op) {
    op->work = EITP_WORK_HEAD;
    op->min_inputs = op->max_inputs = 3;
    op->outputs = 4;
    op->shape = eitp__shape_linear_cross_entropy;
    op->gradient = eitp__gradient_linear_cross_entropy;
    op->differentiable = 1u << 2;
    op->expand = eitp__expand_linear_cross_entropy;
    op->flops = eitp__flops_head;
    op->row_sums = EITP__SECOND;
}

EITP__PRIVATE void eitp__op_softmax_entropy(eitp__op_info *op) {
    op->work = EITP_WORK_LOSS;
    op->outputs = 2;
    op->shape = eitp__shape_softmax_entropy;
    op->gradient = eitp__gradient_softmax_entropy;
    op->expand = eitp__expand_softmax_entropy;
    op->flops = eitp__flops_elements;
}

EITP__PRIVATE void eitp__op_softmax_entropy_backward(eitp__op_info *op) {
    eitp__define_backward(op, EITP__OP_SOFTMAX_ENTROPY, EITP_WORK_LOSS, 4, eitp__shape_softmax_entropy_backward);
    op->reuse = EITP__FIRST;
}
