/* Helpers of group statistics, and penalties of single values. */
#include "objective/statistics.h"

#include "tensor/op_rules.h"

EITP__PRIVATE eitp_tensor *eitp__group_wide(eitp_tensor *x, eitp_tensor *mask) {
    return mask ? eitp_cast(x, mask->dtype) : NULL;
}

EITP__PRIVATE eitp_tensor *eitp__group_column(eitp_tensor *mask) {
    int64_t shape[3];
    shape[0] = eitp_tensor_dimension(mask, 0);
    shape[1] = eitp_tensor_dimension(mask, 1);
    shape[2] = 1;
    return eitp_reshape(mask, 3, shape);
}

EITP__PRIVATE eitp_tensor *eitp__group_count(eitp_tensor *mask) {
    eitp_tensor *count = eitp_sum(eitp__group_column(mask), EITP__OVER_ROWS, 1);
    return eitp_maximum(count, eitp__scalar_like(count, 1));
}

EITP__PRIVATE eitp_tensor *eitp__group_has(eitp_tensor *mask, int64_t rows) {
    eitp_tensor *count = eitp_sum(eitp__group_column(mask), EITP__OVER_ROWS, 1);
    return eitp_less(eitp__scalar_like(count, (double)rows - 0.5), count);
}

EITP__PRIVATE eitp_tensor *eitp__group_total(eitp_tensor *x) {
    return eitp_sum(x, EITP__OVER_ROWS | EITP__OVER_CHANNELS, 1);
}

EITP__PRIVATE eitp_tensor *eitp__group_result(eitp_tensor *condition, eitp_tensor *values) {
    const int64_t groups = eitp_tensor_dimension(values, 0);
    return eitp_reshape(eitp_where(condition, values, eitp__scalar_like(values, 0)), 1, &groups);
}

static eitp_tensor *eitp__square(eitp_tensor *x) {
    return eitp_multiply(x, x);
}

EITP__PRIVATE eitp_tensor *eitp__stat_band(eitp_tensor *x, double low, double high) {
    return eitp_add(eitp__stat_below(x, high), eitp__square(eitp_relu(eitp_affine(x, -1, low))));
}

EITP__PRIVATE eitp_tensor *eitp__stat_near(eitp_tensor *x, double target, double tolerance) {
    return eitp__stat_below(eitp_abs(eitp_affine(x, 1, -target)), tolerance);
}

EITP__PRIVATE eitp_tensor *eitp__stat_below(eitp_tensor *x, double limit) {
    return eitp__square(eitp_relu(eitp_affine(x, 1, -limit)));
}
