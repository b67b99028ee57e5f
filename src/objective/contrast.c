/* Statistics of the cosines of a group's rows. */
#include "objective/statistics.h"

#include "tensor/op_rules.h"

/* Squared norms up to this count as 0. A row without a direction has cosine 0 with all rows. */
#define EITP__CONTRAST_NOTHING 1e-20

/* Minimum distance, exclusive, of a candidate from the row, except for the row to predict. */
enum { EITP__CONTRAST_DISTANCE = 8 };

/* The score of a row that is not a candidate; its exponential is 0 in any dtype. */
#define EITP__CONTRAST_NEVER (-1e30)

/* Returns each row divided by its norm. Rows without a direction, or not in use, are 0. */
static eitp_tensor *eitp__contrast_directions(eitp_tensor *x, eitp_tensor *mask) {
    eitp_tensor *squares, *has_direction, *safe;
    x = eitp_multiply(eitp__group_wide(x, mask), eitp__group_column(mask));
    squares = eitp_sum(eitp_multiply(x, x), EITP__OVER_CHANNELS, 1);
    has_direction = eitp_less(eitp__scalar_like(squares, EITP__CONTRAST_NOTHING), squares);
    safe = eitp_where(has_direction, squares, eitp__scalar_like(squares, 1));
    return eitp_multiply(x, eitp_where(has_direction, eitp_rsqrt(safe), eitp__scalar_like(squares, 0)));
}

/* Returns rows [from, from + count) of each group. */
static eitp_tensor *eitp__contrast_rows(eitp_tensor *x, int64_t from, int64_t count) {
    return eitp_slice(x, 1, from, from + count);
}

EITP__PRIVATE eitp_tensor *eitp__stat_coherence(eitp_tensor *x, eitp_tensor *mask) {
    const int64_t rows = eitp_tensor_dimension(x, 1), groups = eitp_tensor_dimension(x, 0);
    eitp_tensor *count = eitp__group_count(mask), *has_two = eitp__group_has(mask, 2);
    eitp_tensor *unit = eitp__contrast_directions(x, mask), *sum, *near, *all;
    if (rows < 2)
        return mask ? eitp_fill(mask->graph, mask->dtype, 1, &groups, 0) : NULL;
    count = eitp_maximum(count, eitp__scalar_like(count, 2));
    near = eitp__group_total(
        eitp_multiply(eitp__contrast_rows(unit, 0, rows - 1), eitp__contrast_rows(unit, 1, rows - 1)));
    near = eitp_divide(near, eitp_affine(count, 1, -1));
    /* The sum over all pairs of different rows is the square of the sum minus the squares. */
    sum = eitp_sum(unit, EITP__OVER_ROWS, 1);
    all = eitp_subtract(eitp__group_total(eitp_multiply(sum, sum)), eitp__group_total(eitp_multiply(unit, unit)));
    all = eitp_divide(all, eitp_multiply(count, eitp_affine(count, 1, -1)));
    return eitp__group_result(has_two, eitp_subtract(near, all));
}

/* Returns 1 where a row is far from a key and the key is in use: U8 [groups, rows, rows]. */
static eitp_tensor *eitp__contrast_far(eitp_tensor *mask) {
    const int64_t rows = eitp_tensor_dimension(mask, 1);
    eitp_tensor *places, *distances, *far;
    int64_t column[2], row[3];
    if (!mask)
        return NULL;
    column[0] = rows;
    column[1] = 1;
    row[0] = eitp_tensor_dimension(mask, 0);
    row[1] = 1;
    row[2] = rows;
    places = eitp_arange(mask->graph, mask->dtype, rows);
    distances = eitp_abs(eitp_subtract(eitp_reshape(places, 2, column), places));
    far = eitp_less(eitp__scalar_like(mask, EITP__CONTRAST_DISTANCE), distances);
    far = eitp_where(far, eitp_reshape(mask, 3, row), eitp__scalar_like(mask, 0));
    return eitp_less(eitp__scalar_like(mask, 0.5), far);
}

/* Returns ln(1 + e^x), with the gradient 1/2 at 0. */
static eitp_tensor *eitp__contrast_softplus(eitp_tensor *x) {
    eitp_tensor *tail = eitp_log(eitp_affine(eitp_exp(eitp_negate(eitp_abs(x))), 1, 1));
    return eitp_add(eitp_maximum(x, eitp__scalar_like(x, 0)), tail);
}

/* Returns the logarithm of the sum of the exponentials of a row's far candidates, [groups, rows, 1];
   EITP__CONTRAST_NEVER without such candidates. */
static eitp_tensor *eitp__contrast_far_scores(eitp_tensor *scores, eitp_tensor *far) {
    eitp_tensor *candidates = eitp_where(far, scores, eitp__scalar_like(scores, EITP__CONTRAST_NEVER));
    eitp_tensor *largest = eitp_stop_gradient(eitp_max(candidates, EITP__OVER_CHANNELS, 1));
    eitp_tensor *sum = eitp_sum(eitp_exp(eitp_subtract(candidates, largest)), EITP__OVER_CHANNELS, 1);
    return eitp_add(largest, eitp_log(sum));
}

/* Returns the indices of the rows to predict from each row, I32 [groups, rows, offsets]; some are past the end. */
static eitp_tensor *eitp__contrast_targets(eitp_tensor *mask) {
    static const int offsets[] = {1, 2, 4};
    eitp_tensor *places, *parts[EITP__COUNT(offsets)];
    int64_t column[2], shape[3];
    if (!mask)
        return NULL;
    column[0] = shape[1] = eitp_tensor_dimension(mask, 1);
    column[1] = 1;
    shape[0] = eitp_tensor_dimension(mask, 0);
    shape[2] = EITP__COUNT(offsets);
    places = eitp_reshape(eitp_arange(mask->graph, mask->dtype, column[0]), 2, column);
    for (size_t i = 0; i < EITP__COUNT(offsets); i++)
        parts[i] = eitp_affine(places, 1, offsets[i]);
    return eitp_cast(eitp_broadcast(eitp_concat(parts, EITP__COUNT(offsets), 1), 3, shape), EITP_I32);
}

EITP__PRIVATE eitp_tensor *eitp__stat_contrast(eitp_tensor *x, eitp_tensor *keys, eitp_tensor *mask,
                                               double temperature) {
    const int64_t groups = eitp_tensor_dimension(x, 0);
    eitp_tensor *unit = eitp__contrast_directions(x, mask), *column = eitp__group_column(mask);
    eitp_tensor *targets = eitp__contrast_targets(mask), *scores, *far_scores, *has_far, *counted, *losses, *pairs;
    keys = keys ? eitp__contrast_directions(keys, mask) : eitp_stop_gradient(unit);
    scores = eitp_matmul_transposed(eitp_affine(unit, 1 / temperature, 0), keys, 0, 1);
    far_scores = eitp__contrast_far_scores(scores, eitp__contrast_far(mask));
    has_far = eitp_less(eitp__scalar_like(far_scores, EITP__CONTRAST_NEVER / 2), far_scores);
    has_far = eitp_where(has_far, column, eitp__scalar_like(mask, 0));
    losses = eitp__contrast_softplus(eitp_subtract(far_scores, eitp_gather(scores, targets, 2)));
    /* 1 for rows that have candidates and a row to predict. */
    counted = eitp_gather(eitp_matmul_transposed(has_far, column, 0, 1), targets, 2);
    pairs = eitp__group_total(counted);
    pairs = eitp_maximum(pairs, eitp__scalar_like(pairs, 1));
    return eitp_reshape(eitp_divide(eitp__group_total(eitp_multiply(losses, counted)), pairs), 1, &groups);
}
