/*
 * Layers: softmax, GELU, SiLU, layer norm, RMS norm, embedding. Sums along a row are in double. A sum over rows is one
 * chain of additions per column, in row order.
 */
#include "kernels/ref/ref.h"

EITP__PRIVATE float eitp__ref_row_largest(const float *x, int64_t count) {
    float largest = -INFINITY;
    for (int64_t i = 0; i < count; i++)
        largest = x[i] > largest ? x[i] : largest;
    return largest;
}

static void eitp__ref_softmax(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t c = eitp__operand_columns(&call->inputs[0]);
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)call->inputs[0].data + row * c;
        float *y = (float *)call->outputs[0].data + row * c;
        float largest = eitp__ref_row_largest(x, c), factor;
        double sum = 0;
        for (int64_t j = 0; j < c; j++)
            sum += (double)expf(x[j] - largest);
        factor = (float)(1 / sum);
        for (int64_t j = 0; j < c; j++)
            y[j] = expf(x[j] - largest) * factor;
    }
}

static void eitp__ref_softmax_backward(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t c = eitp__operand_columns(&call->inputs[0]);
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const float *y = (const float *)call->inputs[0].data + row * c;
        const float *dy = (const float *)call->inputs[1].data + row * c;
        float *dx = (float *)call->outputs[0].data + row * c;
        float mean;
        double sum = 0;
        for (int64_t j = 0; j < c; j++)
            sum += (double)y[j] * (double)dy[j];
        mean = (float)sum;
        for (int64_t j = 0; j < c; j++)
            dx[j] = y[j] * (dy[j] - mean);
    }
}

EITP__PRIVATE double eitp__ref_log_sum_exp(const float *x, int64_t count, float *largest) {
    double sum = 0;
    *largest = eitp__ref_row_largest(x, count);
    for (int64_t j = 0; j < count; j++)
        sum += (double)expf(x[j] - *largest);
    return log(sum);
}

static void eitp__ref_log_softmax(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t c = eitp__operand_columns(&call->inputs[0]);
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)call->inputs[0].data + row * c;
        float *y = (float *)call->outputs[0].data + row * c;
        float largest, rest = (float)eitp__ref_log_sum_exp(x, c, &largest);
        for (int64_t j = 0; j < c; j++)
            y[j] = x[j] - largest - rest;
    }
}

static void eitp__ref_log_softmax_backward(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t c = eitp__operand_columns(&call->inputs[0]);
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const float *y = (const float *)call->inputs[0].data + row * c;
        const float *dy = (const float *)call->inputs[1].data + row * c;
        float *dx = (float *)call->outputs[0].data + row * c;
        float sum = (float)eitp__ref_span_sum_f32(&call->inputs[1], row * c, c);
        for (int64_t j = 0; j < c; j++)
            dx[j] = dy[j] - expf(y[j]) * sum;
    }
}

/*
 * GELU with the tanh approximation is x * gate with gate = (1 + tanh(u)) / 2, u = sqrt(2 / pi) (x + 0.044715 x^3). The
 * gate is computed as sigmoid(2 u): 1 + tanh(u) would lose small values.
 */
static float eitp__ref_gelu_gate(float x) {
    const float twice = 1.5957691216057307118f, cubic = 0.044715f;
    return 1 / (1 + expf(-twice * x * (1 + cubic * x * x)));
}

static void eitp__ref_gelu_tanh(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const float *x = (const float *)call->inputs[0].data;
    float *y = (float *)call->outputs[0].data;
    (void)workspace;
    for (int64_t i = begin; i < end; i++)
        y[i] = x[i] * eitp__ref_gelu_gate(x[i]);
}

static void eitp__ref_gelu_tanh_backward(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const float twice = 1.5957691216057307118f, cubic = 0.134145f, far = 20;
    const float *from = (const float *)call->inputs[0].data;
    const float *dy = (const float *)call->inputs[1].data;
    float *dx = (float *)call->outputs[0].data;
    (void)workspace;
    for (int64_t i = begin; i < end; i++) {
        float x = from[i], gate = eitp__ref_gelu_gate(x), slope = 0;
        /* Far from 0 the gate is 0 or 1, and the cube would overflow. */
        if (x > -far && x < far)
            slope = gate * (1 - gate) * x * twice * (1 + cubic * x * x);
        dx[i] = dy[i] * (gate + slope);
    }
}

/*
 * GELU is x * Phi(x), where Phi is the distribution function of the standard normal. It is computed with erfc, because
 * 1 + erf would lose small values.
 */
static float eitp__ref_normal_distribution(float x) {
    return 0.5f * erfcf(x * -0.70710678118654752440f);
}

static void eitp__ref_gelu_erf(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const float *x = (const float *)call->inputs[0].data;
    float *y = (float *)call->outputs[0].data;
    (void)workspace;
    for (int64_t i = begin; i < end; i++)
        y[i] = x[i] * eitp__ref_normal_distribution(x[i]);
}

static void eitp__ref_gelu_erf_backward(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const float density = 0.39894228040143267794f, half = 0.5f;
    const float *from = (const float *)call->inputs[0].data;
    const float *dy = (const float *)call->inputs[1].data;
    float *dx = (float *)call->outputs[0].data;
    (void)workspace;
    for (int64_t i = begin; i < end; i++) {
        float x = from[i];
        float slope = x * density * expf(-half * x * x);
        dx[i] = dy[i] * (eitp__ref_normal_distribution(x) + slope);
    }
}

static void eitp__ref_silu(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const float *x = (const float *)call->inputs[0].data;
    float *y = (float *)call->outputs[0].data;
    (void)workspace;
    for (int64_t i = begin; i < end; i++)
        y[i] = x[i] / (1 + expf(-x[i]));
}

/* The derivative is s + x s (1 - s) with s = sigmoid(x). */
static void eitp__ref_silu_backward(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const float *from = (const float *)call->inputs[0].data;
    const float *dy = (const float *)call->inputs[1].data;
    float *dx = (float *)call->outputs[0].data;
    (void)workspace;
    for (int64_t i = begin; i < end; i++) {
        float x = from[i], gate = 1 / (1 + expf(-x));
        dx[i] = dy[i] * (gate + x * gate * (1 - gate));
    }
}

static void eitp__ref_layer_norm(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t c = eitp__operand_columns(&call->inputs[0]);
    const float *gain = (const float *)call->inputs[1].data;
    const float *bias = (const float *)call->inputs[2].data;
    float *means = (float *)call->outputs[1].data, *deviations = (float *)call->outputs[2].data;
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)call->inputs[0].data + row * c;
        float *y = (float *)call->outputs[0].data + row * c;
        float mean, deviation;
        double centre = eitp__ref_span_sum_f32(&call->inputs[0], row * c, c) / (double)c, squares = 0;
        for (int64_t j = 0; j < c; j++)
            squares += ((double)x[j] - centre) * ((double)x[j] - centre);
        means[row] = mean = (float)centre;
        deviations[row] = deviation = (float)(1 / sqrt(squares / (double)c + call->reals[0]));
        for (int64_t j = 0; j < c; j++)
            y[j] = (x[j] - mean) * deviation * gain[j] + bias[j];
    }
}

/* dx = deviation * (g - mean(g) - z * mean(g * z)), where g = gain * dy and z = (x - mean) * deviation. */
static void eitp__ref_layer_norm_backward_input(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t c = eitp__operand_columns(&call->inputs[0]);
    const float *gain = (const float *)call->inputs[1].data;
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)call->inputs[0].data + row * c;
        const float *dy = (const float *)call->inputs[5].data + row * c;
        float *dx = (float *)call->outputs[0].data + row * c;
        float mean_g, mean_gz, mean = ((const float *)call->inputs[3].data)[row];
        float deviation = ((const float *)call->inputs[4].data)[row];
        double sum_g = 0, sum_gz = 0;
        for (int64_t j = 0; j < c; j++) {
            double g = (double)gain[j] * (double)dy[j];
            sum_g += g;
            sum_gz += g * (double)((x[j] - mean) * deviation);
        }
        mean_g = (float)(sum_g / (double)c);
        mean_gz = (float)(sum_gz / (double)c);
        for (int64_t j = 0; j < c; j++) {
            float g = gain[j] * dy[j], z = (x[j] - mean) * deviation;
            dx[j] = deviation * (g - mean_g - z * mean_gz);
        }
    }
}

/* Processes columns [first, first + count), at most a tile, of F32, BF16 or F16. */
static void eitp__ref_layer_norm_strip(const eitp__call *call, int64_t first, int64_t count) {
    int64_t c = eitp__operand_columns(&call->inputs[0]), rows = c ? call->inputs[0].elements / c : 0;
    const float *means = (const float *)call->inputs[3].data;
    const float *deviations = (const float *)call->inputs[4].data;
    float *dgain = (float *)call->outputs[0].data + first;
    float *dbias = (float *)call->outputs[1].data + first;
    float carry = eitp__ref_carry(call), x_tile[EITP__REF_TILE], dy_tile[EITP__REF_TILE];
    for (int64_t j = 0; j < count; j++) {
        dgain[j] = carry != 0 ? carry * dgain[j] : 0;
        dbias[j] = carry != 0 ? carry * dbias[j] : 0;
    }
    for (int64_t row = 0; row < rows; row++) {
        const float *x = eitp__ref_view_f32(&call->inputs[0], row * c + first, 1, count, x_tile);
        const float *dy = eitp__ref_view_f32(&call->inputs[5], row * c + first, 1, count, dy_tile);
        for (int64_t j = 0; j < count; j++) {
            dgain[j] += dy[j] * ((x[j] - means[row]) * deviations[row]);
            dbias[j] += dy[j];
        }
    }
}

static void eitp__ref_layer_norm_backward_parameters(const eitp__call *call, int64_t begin, int64_t end,
                                                     void *workspace) {
    (void)workspace;
    for (int64_t first = begin; first < end; first += EITP__REF_TILE)
        eitp__ref_layer_norm_strip(call, first, eitp__ref_min(end - first, EITP__REF_TILE));
}

static void eitp__ref_rms_norm(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t c = eitp__operand_columns(&call->inputs[0]);
    const float *gain = (const float *)call->inputs[1].data;
    float *deviations = (float *)call->outputs[1].data;
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)call->inputs[0].data + row * c;
        float *y = (float *)call->outputs[0].data + row * c;
        double squares = eitp__ref_span_squares_f32(&call->inputs[0], row * c, c) / (double)c;
        float deviation = deviations[row] = (float)(1 / sqrt(squares + call->reals[0]));
        for (int64_t j = 0; j < c; j++)
            y[j] = x[j] * deviation * gain[j];
    }
}

/* dx = deviation * (g - z * mean(g * z)), where g = gain * dy and z = x * deviation. */
static void eitp__ref_rms_norm_backward_input(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t c = eitp__operand_columns(&call->inputs[0]);
    const float *gain = (const float *)call->inputs[1].data;
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)call->inputs[0].data + row * c;
        const float *dy = (const float *)call->inputs[3].data + row * c;
        float *dx = (float *)call->outputs[0].data + row * c;
        float mean, deviation = ((const float *)call->inputs[2].data)[row];
        double sum = 0;
        for (int64_t j = 0; j < c; j++)
            sum += (double)gain[j] * (double)dy[j] * (double)(x[j] * deviation);
        mean = (float)(sum / (double)c);
        for (int64_t j = 0; j < c; j++)
            dx[j] = deviation * (gain[j] * dy[j] - x[j] * deviation * mean);
    }
}

static void eitp__ref_rms_norm_strip(const eitp__call *call, int64_t first, int64_t count) {
    int64_t c = eitp__operand_columns(&call->inputs[0]), rows = c ? call->inputs[0].elements / c : 0;
    const float *deviations = (const float *)call->inputs[2].data;
    float *dgain = (float *)call->outputs[0].data + first;
    float carry = eitp__ref_carry(call), x_tile[EITP__REF_TILE], dy_tile[EITP__REF_TILE];
    for (int64_t j = 0; j < count; j++)
        dgain[j] = carry != 0 ? carry * dgain[j] : 0;
    for (int64_t row = 0; row < rows; row++) {
        const float *x = eitp__ref_view_f32(&call->inputs[0], row * c + first, 1, count, x_tile);
        const float *dy = eitp__ref_view_f32(&call->inputs[3], row * c + first, 1, count, dy_tile);
        for (int64_t j = 0; j < count; j++)
            dgain[j] += dy[j] * (x[j] * deviations[row]);
    }
}

static void eitp__ref_rms_norm_backward_parameters(const eitp__call *call, int64_t begin, int64_t end,
                                                   void *workspace) {
    (void)workspace;
    for (int64_t first = begin; first < end; first += EITP__REF_TILE)
        eitp__ref_rms_norm_strip(call, first, eitp__ref_min(end - first, EITP__REF_TILE));
}

/* Supports elements of any size. */
static void eitp__ref_embedding(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const eitp__operand *table = &call->inputs[0];
    const int32_t *ids = (const int32_t *)call->inputs[1].data;
    int64_t c = eitp__operand_columns(table), size = (int64_t)eitp_dtype_size(table->dtype);
    char *y = (char *)call->outputs[0].data;
    (void)workspace;
    for (int64_t i = begin, count; i < end; i += count) {
        int64_t id = ids[i / c], column = i % c;
        count = eitp__ref_min(end - i, c - column);
        if (id >= 0 && id < table->shape[0])
            memcpy(y + i * size, (const char *)table->data + (id * c + column) * size, (size_t)(count * size));
        else
            memset(y + i * size, 0, (size_t)(count * size));
    }
}

/* Supports F32, BF16 and F16 gradients. */
static void eitp__ref_embedding_backward(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const eitp__operand *table = &call->outputs[0];
    const int32_t *ids = (const int32_t *)call->inputs[0].data;
    int64_t c = eitp__operand_columns(table), rows = call->inputs[0].elements, vocabulary = table->shape[0];
    int64_t first = call->integers[0];
    float carry = eitp__ref_carry(call), tile[EITP__REF_TILE];
    (void)workspace;
    for (int64_t id = 0; id < vocabulary && carry != 1; id++) {
        float *to = (float *)table->data + id * c;
        for (int64_t j = begin; j < end; j++)
            to[j] = carry != 0 ? carry * to[j] : 0;
    }
    for (int64_t row = 0; row < rows; row++) {
        float *to;
        if (ids[row] < first || ids[row] - first >= vocabulary)
            continue;
        to = (float *)table->data + (ids[row] - first) * c;
        for (int64_t j = begin; j < end; j += EITP__REF_TILE) {
            int64_t count = eitp__ref_min(end - j, EITP__REF_TILE);
            const float *dy = eitp__ref_view_f32(&call->inputs[1], row * c + j, 1, count, tile);
            for (int64_t t = 0; t < count; t++)
                to[j + t] += dy[t];
        }
    }
}

static const eitp__wide_kernel eitp__ref_network_kernels[] = {
    {EITP__SLOT_SOFTMAX, eitp__ref_softmax},
    {EITP__SLOT_SOFTMAX_BACKWARD, eitp__ref_softmax_backward},
    {EITP__SLOT_LOG_SOFTMAX, eitp__ref_log_softmax},
    {EITP__SLOT_LOG_SOFTMAX_BACKWARD, eitp__ref_log_softmax_backward},
    {EITP__SLOT_GELU_TANH, eitp__ref_gelu_tanh},
    {EITP__SLOT_GELU_TANH_BACKWARD, eitp__ref_gelu_tanh_backward},
    {EITP__SLOT_GELU_ERF, eitp__ref_gelu_erf},
    {EITP__SLOT_GELU_ERF_BACKWARD, eitp__ref_gelu_erf_backward},
    {EITP__SLOT_SILU, eitp__ref_silu},
    {EITP__SLOT_SILU_BACKWARD, eitp__ref_silu_backward},
    {EITP__SLOT_LAYER_NORM, eitp__ref_layer_norm},
    {EITP__SLOT_LAYER_NORM_BACKWARD_INPUT, eitp__ref_layer_norm_backward_input},
    {EITP__SLOT_RMS_NORM, eitp__ref_rms_norm},
    {EITP__SLOT_RMS_NORM_BACKWARD_INPUT, eitp__ref_rms_norm_backward_input},
};

static const eitp__narrow_set eitp__ref_network_set = {
    eitp__ref_network_kernels, EITP__COUNT(eitp__ref_network_kernels), eitp__convert_to_f32, eitp__convert_from_f32};

static void eitp__ref_network_narrow(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    eitp__run_narrow(&eitp__ref_network_set, call, begin, end, workspace);
}

EITP__PRIVATE void eitp__register_ref_network(eitp__kernel_table *table) {
    eitp__register_narrow(table, &eitp__ref_network_set, "ref", eitp__ref_network_narrow);
    eitp__ref_register_converting(table, EITP__SLOT_EMBEDDING, eitp__ref_embedding);
    eitp__ref_register_converting(table, EITP__SLOT_LAYER_NORM_BACKWARD_PARAMETERS,
                                  eitp__ref_layer_norm_backward_parameters);
    eitp__ref_register_converting(table, EITP__SLOT_RMS_NORM_BACKWARD_PARAMETERS,
                                  eitp__ref_rms_norm_backward_parameters);
    eitp__ref_register_converting(table, EITP__SLOT_EMBEDDING_BACKWARD, eitp__ref_embedding_backward);
}
