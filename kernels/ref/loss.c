/* Cross-entropy, the entropy of softmax, and the loss of HEAD. */
#include "kernels/ref/ref.h"

/* Fills the logit gradient of a row whose target is ignored or outside the vocabulary. */
static void eitp__ref_fill_without_target(const eitp__call *call, int32_t target, float *dx, int64_t columns) {
    float value = eitp__loss_without_target(call, target);
    for (int64_t j = 0; j < columns; j++)
        dx[j] = value;
}

static void eitp__ref_cross_entropy(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t v = eitp__operand_columns(&call->inputs[0]);
    const int32_t *targets = (const int32_t *)call->inputs[1].data;
    float *losses = (float *)call->outputs[0].data, *sums = (float *)call->outputs[1].data;
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)call->inputs[0].data + row * v;
        float largest;
        double rest = eitp__ref_log_sum_exp(x, v, &largest), loss = eitp__loss_without_target(call, targets[row]);
        if (eitp__target_counts(call, targets[row], v))
            loss = rest + ((double)largest - (double)x[targets[row]]);
        losses[row] = (float)loss;
        sums[row] = (float)((double)largest + rest);
    }
}

/* The gradient may overwrite the logits. */
static void eitp__ref_cross_entropy_backward(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t v = eitp__operand_columns(&call->inputs[0]);
    const int32_t *targets = (const int32_t *)call->inputs[1].data;
    const float *sums = (const float *)call->inputs[2].data;
    const float *dlosses = (const float *)call->inputs[3].data;
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)call->inputs[0].data + row * v;
        float *dx = (float *)call->outputs[0].data + row * v;
        float sum = sums[row], dloss = dlosses[row], hit;
        if (!eitp__target_counts(call, targets[row], v)) {
            eitp__ref_fill_without_target(call, targets[row], dx, v);
            continue;
        }
        hit = dloss * (expf(x[targets[row]] - sum) - 1);
        for (int64_t j = 0; j < v; j++)
            dx[j] = dloss * expf(x[j] - sum);
        dx[targets[row]] = hit;
    }
}

/*
 * The probability of a logit is e^(logit - top), stored in e, times e^(top - logsumexp), which is constant in a block.
 * Supports F32, BF16 and F16. A row is as long as the vocabulary, so it is converted block by block.
 */
static void eitp__ref_head_backward(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t v = eitp__operand_columns(&call->inputs[0]), blocks = eitp__operand_columns(&call->inputs[1]);
    const int32_t *targets = (const int32_t *)call->inputs[2].data;
    const float *sums = (const float *)call->inputs[3].data;
    const float *dlosses = (const float *)call->inputs[4].data;
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const float *tops = (const float *)call->inputs[1].data + row * blocks;
        const int counts = eitp__target_counts(call, targets[row], v);
        for (int64_t block = 0; block < blocks; block++) {
            int64_t first = block * EITP__HEAD_BLOCK, count = eitp__ref_min(v - first, EITP__HEAD_BLOCK);
            float factor = expf(tops[block] - sums[row]), tile[EITP__HEAD_BLOCK];
            const float *e = eitp__ref_view_f32(&call->inputs[0], row * v + first, 1, count, tile);
            for (int64_t j = 0; j < count && counts; j++)
                tile[j] = (e[j] * factor - (float)(first + j == targets[row])) * dlosses[row];
            if (!counts)
                eitp__ref_fill_without_target(call, targets[row], tile, count);
            eitp__ref_put_f32(&call->outputs[0], row * v + first, count, tile);
        }
    }
}

/* Returns the value to subtract before exponentials: the largest logit, or 0 if all are minus infinity. */
static float eitp__ref_entropy_shift(const float *x, int64_t count) {
    float largest = eitp__ref_row_largest(x, count);
    return largest > -INFINITY ? largest : 0;
}

/* With z = x - shift, the entropy is log(sum(e^z)) - sum(z e^z) / sum(e^z). */
static void eitp__ref_softmax_entropy(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t v = eitp__operand_columns(&call->inputs[0]);
    float *entropies = (float *)call->outputs[0].data, *sums = (float *)call->outputs[1].data;
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)call->inputs[0].data + row * v;
        float shift = eitp__ref_entropy_shift(x, v);
        double sum = 0, product = 0;
        for (int64_t j = 0; j < v; j++) {
            float z = x[j] - shift;
            double e = (double)expf(z);
            sum += e;
            product += e == 0 ? 0 : e * (double)z;
        }
        entropies[row] = sum == 0 ? 0 : (float)(log(sum) - product / sum);
        sums[row] = sum == 0 ? 0 : (float)((double)shift + log(sum));
    }
}

/* The gradient may overwrite the logits. */
static void eitp__ref_softmax_entropy_backward(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t v = eitp__operand_columns(&call->inputs[0]);
    const float *entropies = (const float *)call->inputs[1].data;
    const float *sums = (const float *)call->inputs[2].data;
    const float *dentropies = (const float *)call->inputs[3].data;
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)call->inputs[0].data + row * v;
        float *dx = (float *)call->outputs[0].data + row * v;
        for (int64_t j = 0; j < v; j++) {
            float log_p = x[j] - sums[row], p = expf(log_p);
            dx[j] = p == 0 ? 0 : -dentropies[row] * p * (log_p + entropies[row]);
        }
    }
}

/* Computes the losses from the outputs of HEAD. */
static void eitp__ref_head_loss(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t blocks = eitp__operand_columns(&call->inputs[0]);
    const float *picked = (const float *)call->inputs[2].data;
    const int32_t *targets = (const int32_t *)call->inputs[3].data;
    float *losses = (float *)call->outputs[0].data, *logsumexps = (float *)call->outputs[1].data;
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const float *tops = (const float *)call->inputs[0].data + row * blocks;
        const float *sums = (const float *)call->inputs[1].data + row * blocks;
        double largest = -(double)INFINITY, sum = 0, total;
        for (int64_t block = 0; block < blocks; block++)
            largest = (double)tops[block] > largest ? (double)tops[block] : largest;
        for (int64_t block = 0; block < blocks; block++)
            sum += exp((double)tops[block] - largest) * (double)sums[block];
        total = largest + log(sum);
        logsumexps[row] = (float)total;
        losses[row] = eitp__loss_without_target(call, targets[row]);
        if (eitp__target_counts(call, targets[row], call->integers[1]))
            losses[row] = (float)(total - (double)picked[row]);
    }
}

static const eitp__wide_kernel eitp__ref_loss_kernels[] = {
    {EITP__SLOT_CROSS_ENTROPY, eitp__ref_cross_entropy},
    {EITP__SLOT_CROSS_ENTROPY_BACKWARD, eitp__ref_cross_entropy_backward},
    {EITP__SLOT_SOFTMAX_ENTROPY, eitp__ref_softmax_entropy},
    {EITP__SLOT_SOFTMAX_ENTROPY_BACKWARD, eitp__ref_softmax_entropy_backward},
};

static const eitp__narrow_set eitp__ref_loss_set = {eitp__ref_loss_kernels, EITP__COUNT(eitp__ref_loss_kernels),
                                                    eitp__convert_to_f32, eitp__convert_from_f32};

static void eitp__ref_loss_narrow(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    eitp__run_narrow(&eitp__ref_loss_set, call, begin, end, workspace);
}

EITP__PRIVATE void eitp__register_ref_loss(eitp__kernel_table *table) {
    eitp__register_narrow(table, &eitp__ref_loss_set, "ref", eitp__ref_loss_narrow);
    eitp__ref_register_converting(table, EITP__SLOT_HEAD_BACKWARD, eitp__ref_head_backward);
    eitp__ref_register(table, EITP__SLOT_HEAD_LOSS, EITP_F32, eitp__ref_head_loss);
}
