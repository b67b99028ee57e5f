/* Shared by kernel sets and backends: names of slots, checks of attention calls, and sizes of matrix products. */
#include "kernels/attention.h"
#include "kernels/matmul.h"

EITP__PRIVATE const char *eitp__slot_name(eitp__slot slot) {
    static const char *const names[] = {
#define EITP__SLOT_NAME(NAME, name, family) #NAME,
        EITP__SLOTS(EITP__SLOT_NAME)
#undef EITP__SLOT_NAME
    };
    return (unsigned)slot < EITP__COUNT(names) ? names[slot] : "?";
}

EITP__PRIVATE eitp__family eitp__slot_family(eitp__slot slot) {
    static const eitp__family families[] = {
#define EITP__SLOT_FAMILY(NAME, name, family) EITP__FAMILY_##family,
        EITP__SLOTS(EITP__SLOT_FAMILY)
#undef EITP__SLOT_FAMILY
    };
    return (unsigned)slot < EITP__COUNT(families) ? families[slot] : EITP__FAMILY_COUNT;
}

EITP__PRIVATE int eitp__is_unmasked_attention(const eitp__call *call) {
    const eitp__operand *k = &call->inputs[EITP__ATTENTION_K], *v = &call->inputs[EITP__ATTENTION_V];
    return !call->inputs[EITP__ATTENTION_MASK].rank && (!k->rank || k->shape[1] == v->shape[1]);
}

EITP__PRIVATE int eitp__is_unrotated_attention(const eitp__call *call) {
    return eitp__is_unmasked_attention(call) && !call->inputs[EITP__ATTENTION_ROTATION].rank;
}

EITP__PRIVATE eitp__matmul eitp__matmul_sizes(const eitp__call *call) {
    const eitp__operand *a = &call->inputs[0], *b = &call->inputs[1], *y = &call->outputs[0];
    eitp__matmul sizes;
    sizes.transpose_a = call->integers[0] != 0;
    sizes.transpose_b = call->integers[1] != 0 || call->slot == EITP__SLOT_HEAD;
    sizes.lda = eitp__row_stride_of(a);
    sizes.ldb = eitp__row_stride_of(b);
    sizes.m = y->shape[y->rank - 2];
    sizes.n = y->shape[y->rank - 1];
    sizes.k = a->shape[a->rank - (sizes.transpose_a ? 2 : 1)];
    sizes.batch = 1;
    for (int i = 0; i < y->rank - 2; i++)
        sizes.batch *= y->shape[i];
    return sizes;
}

EITP__PRIVATE int64_t eitp__matmul_offset(const eitp__call *call, int which, int64_t index) {
    const eitp__operand *x = &call->inputs[which], *y = &call->outputs[0];
    int64_t offset = 0, stride = x->shape[x->rank - 2] * x->shape[x->rank - 1];
    for (int i = x->rank - 3, j = y->rank - 3; i >= 0 && j >= 0; i--, j--) {
        int64_t size = y->shape[j];
        if (x->shape[i] != 1)
            offset += index % size * stride;
        index /= size;
        stride *= x->shape[i];
    }
    return offset;
}

EITP__PRIVATE eitp__matmul_tile eitp__matmul_tile_at(const eitp__matmul *sizes, int64_t item, int64_t tile_rows,
                                                     int64_t tile_columns) {
    int64_t across = (sizes->n + tile_columns - 1) / tile_columns, down = (sizes->m + tile_rows - 1) / tile_rows;
    eitp__matmul_tile tile;
    tile.batch = item / (down * across);
    tile.row = item / across % down * tile_rows;
    tile.column = item % across * tile_columns;
    tile.rows = sizes->m - tile.row < tile_rows ? sizes->m - tile.row : tile_rows;
    tile.columns = sizes->n - tile.column < tile_columns ? sizes->n - tile.column : tile_columns;
    return tile;
}

EITP__PRIVATE eitp__matmul_prefetch eitp__matmul_prefetch_tile(const eitp__operand *operand,
                                                               const eitp__matmul_tile *tile, int64_t times) {
    eitp__matmul_prefetch next = EITP__ZERO;
    int64_t size, m, n;
    next.times = times;
    if (!operand)
        return next;
    size = (int64_t)eitp_dtype_size(operand->dtype);
    m = operand->shape[operand->rank - 2];
    n = operand->shape[operand->rank - 1];
    next.row = (const char *)operand->data + ((tile->batch * m + tile->row) * n + tile->column) * size;
    next.stride = n * size;
    next.bytes = tile->columns * size;
    next.rows = tile->rows;
    return next;
}

EITP__PRIVATE float eitp__matmul_carry(const eitp__call *call) {
    return !call->accumulates ? 0.0f : call->carry ? call->carry[0] : 1.0f;
}

EITP__PRIVATE const eitp__operand *eitp__matmul_input(const eitp__call *call, int index) {
    return index < call->input_count && call->inputs[index].data ? &call->inputs[index] : NULL;
}

EITP__PRIVATE const eitp__operand *eitp__matmul_output(const eitp__call *call, int index) {
    return index < call->output_count && call->outputs[index].data ? &call->outputs[index] : NULL;
}

EITP__PRIVATE const eitp__operand *eitp__matmul_operand(const eitp__call *call) {
    return call->slot == EITP__SLOT_HEAD ? NULL : eitp__matmul_input(call, 3);
}
