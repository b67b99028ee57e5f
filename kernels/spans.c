#include "kernels/spans.h"

EITP__PRIVATE eitp__spans eitp__find_spans(const eitp__call *call) {
    eitp__spans spans;
    const eitp__operand *y = &call->outputs[0];
    int64_t steps[2] = {1, 1};
    spans.count = 0;
    for (int i = 0; i < y->rank; i++) { /* i counts from the last dimension */
        int64_t size = y->shape[y->rank - 1 - i], stride[2];
        int joins = spans.count > 0;
        if (size == 1)
            continue;
        for (int which = 0; which < 2; which++) {
            const eitp__operand *x = &call->inputs[which];
            int whole = i < x->rank && x->shape[x->rank - 1 - i] != 1;
            stride[which] = whole ? steps[which] : 0;
            steps[which] *= whole ? size : 1;
            joins = joins && (spans.strides[which][spans.count - 1] != 0) == whole;
        }
        if (joins) {
            spans.size[spans.count - 1] *= size;
            continue;
        }
        spans.size[spans.count] = size;
        spans.strides[0][spans.count] = stride[0];
        spans.strides[1][spans.count] = stride[1];
        spans.count++;
    }
    if (spans.count == 0) {
        spans.size[0] = 1;
        spans.strides[0][0] = spans.strides[1][0] = 0;
        spans.count = 1;
    }
    return spans;
}

EITP__PRIVATE int64_t eitp__span_offset(const eitp__spans *spans, int which, int64_t index) {
    int64_t offset = 0;
    for (int i = 0; i < spans->count; i++) {
        offset += index % spans->size[i] * spans->strides[which][i];
        index /= spans->size[i];
    }
    return offset;
}

EITP__PRIVATE void eitp__run_binary(const eitp__call *call, int64_t begin, int64_t end, eitp__binary_span compute) {
    const eitp__spans spans = eitp__find_spans(call);
    const int64_t x_size = (int64_t)eitp_dtype_size(call->inputs[0].dtype);
    const int64_t y_size = (int64_t)eitp_dtype_size(call->outputs[0].dtype);
    const char *a = (const char *)call->inputs[0].data, *b = (const char *)call->inputs[1].data;
    char *y = (char *)call->outputs[0].data;
    for (int64_t i = begin, count; i < end; i += count) {
        const int64_t length = spans.size[0] - i % spans.size[0];
        count = end - i < length ? end - i : length;
        compute(a + eitp__span_offset(&spans, 0, i) * x_size, spans.strides[0][0] != 0,
                b + eitp__span_offset(&spans, 1, i) * x_size, spans.strides[1][0] != 0, y + i * y_size, count);
    }
}

EITP__PRIVATE eitp__sum_spans eitp__find_sum_spans(const eitp__call *call) {
    eitp__sum_spans spans;
    const eitp__operand *x = &call->inputs[0];
    int64_t stride = 1;
    spans.count = 0;
    for (int i = x->rank - 1; i >= 0; i--) {
        int summed = (int)(call->integers[0] >> i & 1);
        int64_t size = x->shape[i];
        if (size == 1)
            continue;
        if (spans.count && spans.summed[spans.count - 1] == summed) {
            spans.size[spans.count - 1] *= size;
        } else {
            spans.size[spans.count] = size;
            spans.stride[spans.count] = stride;
            spans.summed[spans.count] = summed;
            spans.count++;
        }
        stride *= size;
    }
    if (spans.count == 0) {
        spans.size[0] = spans.stride[0] = 1;
        spans.summed[0] = 0;
        spans.count = 1;
    }
    spans.terms = 1;
    for (int i = 1; i < spans.count; i++)
        if (spans.summed[i])
            spans.terms *= spans.size[i];
    return spans;
}
