/* From packed sequences to one row each. Composed of other ops, so it can be differentiated. */
#include "tensor/op_rules.h"

/* The last row of each sequence. There are no integer additions; F64 holds the numbers exactly. */
static eitp_tensor *eitp__last_rows(eitp_tensor *offsets) {
    eitp_tensor *ends = eitp_slice(offsets, 0, 1, offsets->shape[0]);
    return eitp_cast(eitp_affine(eitp_cast(ends, EITP_F64), 1, -1), EITP_I32);
}

/* The number of rows of each sequence, at least 1: [sequences, 1] of a dtype. */
static eitp_tensor *eitp__sequence_lengths(eitp_tensor *offsets, eitp_dtype dtype) {
    const int64_t sequences = offsets->shape[0] - 1, column[2] = {-1, 1};
    eitp_tensor *bounds = eitp_cast(offsets, EITP_F64), *lengths;
    lengths = eitp_subtract(eitp_slice(bounds, 0, 1, sequences + 1), eitp_slice(bounds, 0, 0, sequences));
    return eitp_reshape(eitp_cast(eitp_clamp(lengths, 1, (double)INFINITY), dtype), 2, column);
}

/* The sequence of each row of x: I32 [n], -1 for a row in none. */
static eitp_tensor *eitp__row_sequences(eitp_tensor *x, eitp_tensor *offsets, int64_t max_length) {
    const eitp__padding padding = eitp__pad_sequences(offsets, NULL, max_length);
    const int64_t column[2] = {-1, 1}, flat[1] = {-1};
    int64_t all[2];
    eitp_tensor *numbers;
    all[0] = padding.sequences;
    all[1] = max_length;
    /* Counted from 1, so that 0 stands for no sequence. */
    numbers = eitp_affine(eitp_arange(x->graph, EITP_F32, padding.sequences), 1, 1);
    numbers = eitp_reshape(eitp_broadcast(eitp_reshape(numbers, 2, column), 2, all), 2, column);
    numbers = eitp_reshape(eitp__scatter_rows(padding.ids, numbers, x), 1, flat);
    return eitp_cast(eitp_affine(numbers, 1, -1), EITP_I32);
}

static eitp_tensor *eitp__pool_mean(eitp_tensor *x, eitp_tensor *offsets, int64_t max_length) {
    const eitp_dtype wide = eitp__wide(x->dtype);
    eitp_tensor *sums =
        eitp__sum_rows(eitp__row_sequences(x, offsets, max_length), eitp_cast(x, wide), offsets->shape[0] - 1);
    return eitp_divide(sums, eitp__sequence_lengths(offsets, wide));
}

static eitp_status eitp__check_pool(const eitp_tensor *x, const eitp_tensor *offsets, int64_t max_length,
                                    eitp_pooling pooling, eitp_error *error) {
    eitp_status status = eitp__check_packing(offsets, NULL, error);
    if (!status)
        status = eitp__require(x->rank == 2 && eitp__is_floating(x->dtype), error,
                               "the operand must be a floating-point matrix");
    if (!status)
        status = eitp__require(max_length >= 1 && max_length <= 1 << 24, error,
                               "max_length must be 1 to 16777216, not %lld", (long long)max_length);
    return status ? status
                  : eitp__require(pooling >= EITP_POOLING_FIRST && pooling <= EITP_POOLING_MEAN, error,
                                  "pooling is %d: there is no such eitp_pooling", (int)pooling);
}

eitp_tensor *eitp_pool(eitp_tensor *x, eitp_tensor *offsets, int64_t max_length, eitp_pooling pooling) {
    eitp_error error = EITP__ZERO;
    eitp_tensor *y;
    if (!x || !offsets)
        return NULL;
    if (eitp__check_pool(x, offsets, max_length, pooling, &error)) {
        eitp__graph_fail(x->graph, EITP_ERROR_ARGUMENT, "pool: %s", error.message);
        return NULL;
    }
    if (pooling == EITP_POOLING_MEAN)
        y = eitp__pool_mean(x, offsets, max_length);
    else
        y = eitp_embedding(x, pooling == EITP_POOLING_LAST ? eitp__last_rows(offsets)
                                                           : eitp_slice(offsets, 0, 0, offsets->shape[0] - 1));
    if (y)
        eitp__add_offsets_rule(offsets, x->shape[0], max_length);
    return y;
}
