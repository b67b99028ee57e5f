/* Statistics of the covariance of a group's rows. */
#include "objective/statistics.h"

#include "tensor/op_rules.h"

#include <math.h>

/* Sums of squares up to this count as 0: smaller ones have gradients whose squares overflow F32. */
#define EITP__GROUP_NOTHING 1e-30

/* The fraction of the trace that separates eigenvalues from the rounding errors of F32: see eitp__stat_coding_rate. */
#define EITP__GROUP_RESOLUTION 5e-7

/* The minimum variance for balance, which keeps the logarithm finite for equal rows. */
#define EITP__GROUP_LEAST_VARIANCE 1e-12

/* Added to variances by VICReg, so that their square root is differentiable at 0. */
#define EITP__GROUP_VARIANCE_SHIFT 1e-4

/*
 * Subtracts the mean from the rows; rows not in use are 0. The first row is subtracted beforehand, as a constant. That
 * changes neither the result nor its gradient, makes equal rows exactly 0, and preserves bits that the common part of
 * the rows would take.
 */
static eitp_tensor *eitp__group_centred(eitp_tensor *x, eitp_tensor *mask) {
    eitp_tensor *column = eitp__group_column(mask), *mean;
    x = eitp__group_wide(x, mask);
    x = eitp_subtract(x, eitp_stop_gradient(eitp_slice(x, 1, 0, 1)));
    x = eitp_multiply(x, column);
    mean = eitp_divide(eitp_sum(x, EITP__OVER_ROWS, 1), eitp__group_count(mask));
    return eitp_multiply(eitp_subtract(x, mean), column);
}

/* Returns the sum of squares of each group, [groups, 1, 1]. */
static eitp_tensor *eitp__group_squares(eitp_tensor *x) {
    return eitp__group_total(eitp_multiply(x, x));
}

/* Returns x x^T or x^T x of each group, whichever is smaller. Both have the same norm, and the same determinant after 1
   is added to the eigenvalues. */
static eitp_tensor *eitp__group_gram(eitp_tensor *x) {
    const int is_by_row = eitp_tensor_dimension(x, 1) < eitp_tensor_dimension(x, 2);
    return eitp_matmul_transposed(x, x, !is_by_row, is_by_row);
}

/* Returns 1 where the rows of a group differ, U8 [groups, 1, 1]. */
static eitp_tensor *eitp__group_varies(eitp_tensor *squares) {
    return eitp_less(eitp__scalar_like(squares, EITP__GROUP_NOTHING), squares);
}

/* Scales centred rows to a sum of squares near 1, for statistics that do not depend on the scale. The factor is a
   constant, so their gradient is with respect to the unscaled rows. Rows that do not vary are unchanged. */
static eitp_tensor *eitp__group_scaled(eitp_tensor *centred, eitp_tensor *varies) {
    eitp_tensor *squares = eitp__group_squares(centred);
    eitp_tensor *safe = eitp_where(varies, squares, eitp__scalar_like(squares, 1));
    return eitp_multiply(centred, eitp_stop_gradient(eitp_rsqrt(safe)));
}

/* Returns a / b where the condition holds, otherwise 0, without dividing by 0 there. */
static eitp_tensor *eitp__group_quotient(eitp_tensor *condition, eitp_tensor *a, eitp_tensor *b) {
    b = eitp_where(condition, b, eitp__scalar_like(b, 1));
    return eitp__group_result(condition, eitp_divide(a, b));
}

EITP__PRIVATE eitp_tensor *eitp__stat_participation_ratio(eitp_tensor *x, eitp_tensor *mask) {
    eitp_tensor *centred = eitp__group_centred(x, mask), *trace;
    eitp_tensor *varies = eitp__group_varies(eitp__group_squares(centred));
    centred = eitp__group_scaled(centred, varies);
    trace = eitp__group_squares(centred);
    return eitp__group_quotient(varies, eitp_multiply(trace, trace), eitp__group_squares(eitp__group_gram(centred)));
}

/* Returns the identity matrix with the size of the last dimension of x. */
static eitp_tensor *eitp__group_identity(eitp_tensor *x) {
    const int64_t extent = eitp_tensor_dimension(x, -1);
    eitp_tensor *row, *column, *is_diagonal;
    int64_t shape[2];
    if (!x)
        return NULL;
    shape[0] = extent;
    shape[1] = 1;
    row = eitp_arange(x->graph, x->dtype, extent);
    column = eitp_reshape(row, 2, shape);
    is_diagonal = eitp_equal(column, row);
    return eitp_where(is_diagonal, eitp__scalar_like(x, 1), eitp__scalar_like(x, 0));
}

EITP__PRIVATE eitp_tensor *eitp__stat_coding_rate(eitp_tensor *x, eitp_tensor *mask, double epsilon2, int is_by_row) {
    const double scale = (double)eitp_tensor_dimension(x, 2) / epsilon2;
    const int64_t groups = eitp_tensor_dimension(x, 0);
    eitp_tensor *count = eitp__group_count(mask), *scaled, *coarseness, *gram, *rate;
    scaled = eitp_multiply(eitp__group_centred(x, mask), eitp_rsqrt(eitp_affine(count, 1 / scale, 0)));
    coarseness = eitp_affine(eitp__group_squares(scaled), EITP__GROUP_RESOLUTION, 0);
    coarseness = eitp_maximum(coarseness, eitp__scalar_like(coarseness, 1));
    gram = eitp__group_gram(eitp_multiply(scaled, eitp_rsqrt(coarseness)));
    rate = eitp_affine(eitp_logdet(eitp_add(gram, eitp__group_identity(gram))), 0.5, 0);
    return is_by_row ? eitp_divide(rate, eitp_reshape(count, 1, &groups)) : rate;
}

EITP__PRIVATE eitp_tensor *eitp__stat_variance(eitp_tensor *x, eitp_tensor *mask, double target) {
    const int64_t channels = eitp_tensor_dimension(x, 2);
    eitp_tensor *count = eitp__group_count(mask), *centred = eitp__group_centred(x, mask);
    eitp_tensor *scaled = eitp_multiply(centred, eitp_rsqrt(count));
    eitp_tensor *variances = eitp_sum(eitp_multiply(scaled, scaled), EITP__OVER_ROWS, 1);
    eitp_tensor *deviations = eitp_sqrt(eitp_affine(variances, 1, EITP__GROUP_VARIANCE_SHIFT));
    eitp_tensor *missing = eitp_mean(eitp_relu(eitp_affine(deviations, -1, target)), EITP__OVER_CHANNELS, 1);
    /* The squares off the diagonal are the squared norm minus the squares on it. With few rows, C itself is never
       computed. */
    eitp_tensor *off = eitp_subtract(eitp__group_squares(eitp__group_gram(scaled)), eitp__group_squares(variances));
    off = eitp_affine(off, 1 / (double)(channels ? channels : 1), 0);
    return eitp__group_result(eitp__group_has(mask, 2), eitp_add(missing, off));
}

EITP__PRIVATE eitp_tensor *eitp__stat_balance(eitp_tensor *x, eitp_tensor *mask, double target) {
    const int64_t channels = eitp_tensor_dimension(x, 2);
    eitp_tensor *squares = eitp__group_squares(eitp__group_centred(x, mask)), *variance, *distance;
    variance = eitp_affine(eitp_divide(squares, eitp__group_count(mask)), 1 / (double)(channels ? channels : 1), 0);
    variance = eitp_maximum(variance, eitp__scalar_like(variance, EITP__GROUP_LEAST_VARIANCE));
    distance = eitp_affine(eitp_log(variance), 0.5, -target);
    return eitp__group_result(eitp__group_has(mask, 2), eitp_multiply(distance, distance));
}

EITP__PRIVATE eitp_tensor *eitp__stat_cka(eitp_tensor *x, eitp_tensor *y, eitp_tensor *mask) {
    const int64_t rows = eitp_tensor_dimension(x, 1);
    const int is_by_row = rows < eitp_tensor_dimension(x, 2) && rows < eitp_tensor_dimension(y, 2);
    eitp_tensor *a = eitp__group_centred(x, mask), *b = eitp__group_centred(y, mask), *common, *norms;
    eitp_tensor *vary = eitp__group_varies(eitp_minimum(eitp__group_squares(a), eitp__group_squares(b)));
    a = eitp__group_scaled(a, vary);
    b = eitp__group_scaled(b, vary);
    common = is_by_row ? eitp__group_total(eitp_multiply(eitp__group_gram(a), eitp__group_gram(b)))
                       : eitp__group_squares(eitp_matmul_transposed(b, a, 1, 0));
    norms = eitp_multiply(eitp__group_squares(eitp__group_gram(a)), eitp__group_squares(eitp__group_gram(b)));
    norms = eitp_where(vary, norms, eitp__scalar_like(norms, 1));
    return eitp__group_quotient(vary, common, eitp_sqrt(norms));
}
