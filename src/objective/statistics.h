/*
 * Statistics of a group of rows, as graphs, for the metrics and losses of regularizers.
 *
 * Each takes the rows by group, x [groups, rows, c], and a mask [groups, rows] that is 1 in the rows of a group, which
 * come first, and 0 after its last row. The mask is F32 or F64; x has its dtype, or 16 bits. The result is [groups] in
 * the dtype of the mask. It is 0, with a gradient of 0, for a group with too few rows, and where equal rows leave it
 * undefined. No value or gradient is NaN. The bits of a group's value do not depend on the other groups.
 */
#ifndef EITP_GROUP_STATISTICS_H
#define EITP_GROUP_STATISTICS_H

#include "base/platform.h"
#include "tensor/tensor.h"

/* ---- Covariance: the centred rows h of a group of n, C = h^T h / n ---- */

/* The participation ratio (tr C)^2 / |C|^2, in [1, min(c, n - 1)]: the number of directions over which the rows
   spread. */
EITP__PRIVATE eitp_tensor *eitp__stat_participation_ratio(eitp_tensor *x, eitp_tensor *mask);

/*
 * The coding rate 1/2 ln det(I + c / (n epsilon2) h h^T) in nats (Yu et al., arXiv 2006.08558), or the rate per row,
 * divided by n. 0 for equal rows. epsilon2 is raised to at least 5e-7 c tr C, the resolution of F32. So for states of
 * variance 1, an epsilon2 of 0.5 is used unchanged up to c = 1000.
 */
EITP__PRIVATE eitp_tensor *eitp__stat_coding_rate(eitp_tensor *x, eitp_tensor *mask, double epsilon2, int is_by_row);

/* The mean over channels of max(0, target - sqrt(C_ii + 1e-4)), plus the sum of the squares of C off its diagonal,
   divided by c (Bardes et al., arXiv 2105.04906, who use n - 1 instead of n in C). For two rows or more. */
EITP__PRIVATE eitp_tensor *eitp__stat_variance(eitp_tensor *x, eitp_tensor *mask, double target);

/* (1/2 ln(tr C / c) - target)^2, for two rows or more; tr C / c is raised to at least 1e-12. */
EITP__PRIVATE eitp_tensor *eitp__stat_balance(eitp_tensor *x, eitp_tensor *mask, double target);

/* Linear CKA of two sets of states of the same rows, in [0, 1] (Kornblith et al., arXiv 1905.00414). */
EITP__PRIVATE eitp_tensor *eitp__stat_cka(eitp_tensor *x, eitp_tensor *y, eitp_tensor *mask);

/* ---- Contrast: cosines of rows ---- */

/* The mean cosine of neighbouring rows minus the mean cosine of all pairs of different rows. For two rows or more. */
EITP__PRIVATE eitp_tensor *eitp__stat_coherence(eitp_tensor *x, eitp_tensor *mask);

/*
 * Contrastive prediction (van den Oord et al., arXiv 1807.03748) without learned matrices: the mean, over rows t and
 * offsets k of 1, 2 and 4, of ln sum_j exp(s_tj) - s_t,t+k. s_tj is the cosine of row t and key j, divided by the
 * temperature. j is t + k, or a row more than 8 from t in the same group. Pairs without such rows are left out. For
 * constant states it is the mean logarithm of the number of j, so collapse cannot lower it. A group should be one
 * sample, since the rows of two samples would be compared like the rows of one. If `keys` is NULL, x is used, without a
 * gradient through it.
 */
EITP__PRIVATE eitp_tensor *eitp__stat_contrast(eitp_tensor *x, eitp_tensor *keys, eitp_tensor *mask,
                                               double temperature);

/* ---- Attention ---- */

typedef struct eitp__attention_shape {
    int64_t heads, key_heads; /* heads of the queries; heads of the keys */
    double scale;             /* factor of the scores */
    int bidirectional;
    int64_t sliding_window; /* maximum number of rows that a row sees; 0: no limit */
} eitp__attention_shape;

/*
 * For x = q and k side by side, [groups, rows, (heads + key heads) d]: the mean over rows and heads of the entropy of
 * attention, divided by the logarithm of the number of visible rows; and the mean of max(0, floor - that ratio)^2. Rows
 * that see only one row are left out. Masks, dropout and boundaries between the samples of a group are ignored.
 */
EITP__PRIVATE void eitp__stat_attention(eitp_tensor *x, eitp_tensor *mask, const eitp__attention_shape *shape,
                                        double floor, eitp_tensor **entropy, eitp_tensor **penalty);

/* ---- Predictions: values per row of logits [n, v], in at least F32 ---- */

/* The Brier score: the sum over classes of (p - y)^2, in [0, 2]; y is 1 for the row's target, I32 [n]. 0 for rows whose
   target is `ignored`. */
EITP__PRIVATE eitp_tensor *eitp__stat_brier(eitp_tensor *logits, eitp_tensor *targets, int32_t ignored);

/* 1 where the target has the largest logit, otherwise 0; without a gradient. */
EITP__PRIVATE eitp_tensor *eitp__stat_correct(eitp_tensor *logits, eitp_tensor *targets);

/* The Kullback-Leibler divergence of softmax(logits) from softmax(wanted), in nats; `wanted` has no gradient. */
EITP__PRIVATE eitp_tensor *eitp__stat_divergence(eitp_tensor *wanted, eitp_tensor *logits);

/* ---- Penalties of a value, element by element ---- */

/* max(0, x - high)^2 + max(0, low - x)^2. */
EITP__PRIVATE eitp_tensor *eitp__stat_band(eitp_tensor *x, double low, double high);

/* max(0, |x - target| - tolerance)^2. */
EITP__PRIVATE eitp_tensor *eitp__stat_near(eitp_tensor *x, double target, double tolerance);

/* max(0, x - limit)^2. */
EITP__PRIVATE eitp_tensor *eitp__stat_below(eitp_tensor *x, double limit);

/* ---- Helpers ---- */

/* Dimensions of [groups, rows, channels], for reductions. */
#define EITP__OVER_ROWS 2u
#define EITP__OVER_CHANNELS 4u

/* Converts x to the dtype of the mask. */
EITP__PRIVATE eitp_tensor *eitp__group_wide(eitp_tensor *x, eitp_tensor *mask);

/* Reshapes the mask to [groups, rows, 1]. */
EITP__PRIVATE eitp_tensor *eitp__group_column(eitp_tensor *mask);

/* The number of rows in use, at least 1, and whether there are at least `rows` (U8): [groups, 1, 1]. */
EITP__PRIVATE eitp_tensor *eitp__group_count(eitp_tensor *mask);
EITP__PRIVATE eitp_tensor *eitp__group_has(eitp_tensor *mask, int64_t rows);

/* Sums each group: [groups, 1, 1]. */
EITP__PRIVATE eitp_tensor *eitp__group_total(eitp_tensor *x);

/* Reshapes `values` [groups, 1, 1] to [groups], with 0 where `condition` [groups, 1, 1] is 0. */
EITP__PRIVATE eitp_tensor *eitp__group_result(eitp_tensor *condition, eitp_tensor *values);

#endif
