/* Pools packed sequences into one row each. Composed of other ops, so it can be differentiated. */
#include "tensor/op_rules.h"

/* First rows and end rows of sequences, [sequences, 1]. There is no integer addition; F64 holds the numbers exactly. */
typedef struct eitp__bounds {
    int64_t sequences;
    eitp_tensor *begins, *ends;
} eitp__bounds;

static eitp__bounds eitp__bounds_of(eitp_tensor *offsets) {
    const int64_t column[2] = {-1, 1};
    eitp_tensor *numbers = eitp_cast(offsets, EITP_F64);
    eitp__bounds bounds;
    if (offsets->rank == 2) {
        bounds.sequences = offsets->shape[0];
        bounds.begins = eitp_slice(numbers, 1, 0, 1);
        bounds.ends = eitp_slice(numbers, 1, 1, 2);
    } else {
        bounds.sequences = offsets->shape[0] - 1;
        bounds.begins = eitp_reshape(eitp_slice(numbers, 0, 0, bounds.sequences), 2, column);
        bounds.ends = eitp_reshape(eitp_slice(numbers, 0, 1, bounds.sequences + 1), 2, column);
    }
    return bounds;
}

/* Converts a column of numbers to a vector of ids. */
static eitp_tensor *eitp__column_ids(eitp_tensor *numbers) {
    const int64_t flat[1] = {-1};
    return eitp_reshape(eitp_cast(numbers, EITP_I32), 1, flat);
}

/* Returns the sequence of each row of x: I32 [n], -1 for a row in no sequence. */
static eitp_tensor *eitp__row_sequences(eitp_tensor *x, const eitp__bounds *bounds, int64_t max_length) {
    const int64_t column[2] = {-1, 1}, row[2] = {1, -1};
    int64_t all[2];
    eitp_tensor *position, *ids, *numbers;
    all[0] = bounds->sequences;
    all[1] = max_length;
    position = eitp_reshape(eitp_arange(x->graph, EITP_F64, max_length), 2, row);
    ids = eitp_add(bounds->begins, position);
    ids = eitp_where(eitp_less(ids, bounds->ends), ids, eitp__scalar_like(position, -1));
    /* Count from 1, so that 0 means no sequence. */
    numbers = eitp_affine(eitp_arange(x->graph, EITP_F32, bounds->sequences), 1, 1);
    numbers = eitp_reshape(eitp_broadcast(eitp_reshape(numbers, 2, column), 2, all), 2, column);
    numbers = eitp__scatter_rows(eitp__column_ids(ids), numbers, x);
    return eitp__column_ids(eitp_affine(numbers, 1, -1));
}

static eitp_tensor *eitp__pool_mean(eitp_tensor *x, const eitp__bounds *bounds, int64_t max_length) {
    const eitp_dtype wide = eitp__wide(x->dtype);
    eitp_tensor *lengths = eitp_clamp(eitp_subtract(bounds->ends, bounds->begins), 1, (double)INFINITY), *sums;
    sums = eitp__sum_rows(eitp__row_sequences(x, bounds, max_length), eitp_cast(x, wide), bounds->sequences);
    return eitp_divide(sums, eitp_cast(lengths, wide));
}

static eitp_status eitp__check_pool(const eitp_tensor *x, const eitp_tensor *offsets, int64_t max_length,
                                    eitp_pooling pooling, eitp_error *error) {
    const int fits = offsets->dtype == EITP_I32 && !offsets->rows &&
                     (offsets->rank == 1 ? offsets->shape[0] >= 2 : offsets->rank == 2 && offsets->shape[1] == 2);
    eitp_status status =
        eitp__require(fits, error, "offsets must be i32 [sequences + 1], or bounds i32 [sequences, 2]");
    if (!status)
        status = eitp__require(x->rank == 2 && eitp__is_floating(x->dtype), error,
                               "the operand must be a floating-point matrix");
    if (!status)
        status = eitp__require(max_length >= 1 && max_length <= 1 << 24, error,
                               "max_length must be 1 to 16777216, not %lld", (long long)max_length);
    return status ? status
                  : eitp__require(pooling >= EITP_POOLING_FIRST && pooling <= EITP_POOLING_MEAN, error,
                                  "unknown pooling %d", (int)pooling);
}

eitp_tensor *eitp_pool(eitp_tensor *x, eitp_tensor *offsets, int64_t max_length, eitp_pooling pooling) {
    eitp_error error = EITP__ZERO;
    eitp__bounds bounds;
    if (!x || !offsets)
        return NULL;
    if (eitp__check_pool(x, offsets, max_length, pooling, &error)) {
        eitp__graph_fail(x->graph, EITP_ERROR_ARGUMENT, "pool: %s", error.message);
        return NULL;
    }
    if (offsets->rank == 1)
        eitp__add_offsets_rule(offsets, x->shape[0], max_length);
    bounds = eitp__bounds_of(offsets);
    if (pooling == EITP_POOLING_MEAN)
        return eitp__pool_mean(x, &bounds, max_length);
    return eitp_embedding(
        x, eitp__column_ids(pooling == EITP_POOLING_LAST ? eitp_affine(bounds.ends, 1, -1) : bounds.begins));
}
