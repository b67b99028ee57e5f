/* Products of a vector with the absolute values, or the squares, of a matrix. */
#include "kernels/ref/ref.h"

/* Returns the absolute value for p = 1, the square for p = 2. */
static double eitp__ref_path_weight(float w, int64_t p) {
    double x = (double)w;
    return p == 1 ? fabs(x) : x * x;
}

/* Supports F32, BF16 and F16 matrices. */
static void eitp__ref_path_product(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    enum { STRIP = 64 };
    int64_t k = call->inputs[0].shape[0], m = call->inputs[0].shape[1];
    const float *x = (const float *)call->inputs[1].data;
    (void)workspace;
    for (int64_t first = begin; first < end; first += STRIP) {
        double sums[STRIP] = EITP__ZERO;
        float tile[STRIP];
        int64_t count = eitp__ref_min(end - first, STRIP);
        for (int64_t i = 0; i < k; i++) {
            const float *weight = eitp__ref_view_f32(&call->inputs[0], i * m + first, 1, count, tile);
            for (int64_t j = 0; j < count; j++)
                sums[j] += eitp__ref_path_weight(weight[j], call->integers[0]) * (double)x[i];
        }
        for (int64_t j = 0; j < count; j++)
            ((float *)call->outputs[0].data)[first + j] = (float)sums[j];
    }
}

static void eitp__ref_path_product_transposed(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t m = call->inputs[0].shape[1];
    const float *x = (const float *)call->inputs[1].data;
    (void)workspace;
    for (int64_t i = begin; i < end; i++) {
        const float *row = (const float *)call->inputs[0].data + i * m;
        double sum = 0;
        for (int64_t j = 0; j < m; j++)
            sum += eitp__ref_path_weight(row[j], call->integers[0]) * (double)x[j];
        ((float *)call->outputs[0].data)[i] = (float)sum;
    }
}

static void eitp__ref_path_product_backward(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t m = call->inputs[0].shape[1];
    const float *r = (const float *)call->inputs[1].data, *c = (const float *)call->inputs[2].data;
    float carry = eitp__ref_carry(call);
    (void)workspace;
    for (int64_t i = begin; i < end; i++) {
        const float *row = (const float *)call->inputs[0].data + i * m;
        float *dw = (float *)call->outputs[0].data + i * m;
        for (int64_t j = 0; j < m; j++) {
            float w = row[j], slope = call->integers[0] == 1 ? (float)((w > 0) - (w < 0)) : 2 * w;
            float value = slope * (r[i] * c[j]);
            dw[j] = carry != 0 ? carry * dw[j] + value : value;
        }
    }
}

static const eitp__wide_kernel eitp__ref_path_kernels[] = {
    {EITP__SLOT_PATH_PRODUCT_TRANSPOSED, eitp__ref_path_product_transposed},
    {EITP__SLOT_PATH_PRODUCT_BACKWARD, eitp__ref_path_product_backward},
};

static const eitp__narrow_set eitp__ref_path_set = {eitp__ref_path_kernels, EITP__COUNT(eitp__ref_path_kernels),
                                                    eitp__convert_to_f32, eitp__convert_from_f32};

static void eitp__ref_path_narrow(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    eitp__run_narrow(&eitp__ref_path_set, call, begin, end, workspace);
}

EITP__PRIVATE void eitp__register_ref_path(eitp__kernel_table *table) {
    eitp__register_narrow(table, &eitp__ref_path_set, "ref", eitp__ref_path_narrow);
    eitp__ref_register_converting(table, EITP__SLOT_PATH_PRODUCT, eitp__ref_path_product);
}
