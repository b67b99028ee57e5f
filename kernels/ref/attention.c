#include "kernels/ref/attention.h"

/* The largest number of rows in a sequence. */
static int64_t eitp__ref_longest(const eitp__call *call) {
    int64_t longest = eitp__ref_min(call->integers[1], call->inputs[0].shape[0]);
    return longest > 0 ? longest : 0;
}

/* The largest number of rows in this sequence that are not padding. */
static int64_t eitp__ref_limit(const eitp__call *call, int64_t sequence) {
    const int32_t *lengths = (const int32_t *)call->inputs[3].data;
    int64_t longest = eitp__ref_longest(call);
    if (!lengths)
        return longest;
    return lengths[sequence] > 0 ? eitp__ref_min(lengths[sequence], longest) : 0;
}

/* Offsets and lengths are data, so they are clamped: to the rows of the call, and to the longest sequence. */
EITP__PRIVATE eitp__ref_pair eitp__ref_pair_of(const eitp__call *call, int64_t item) {
    const int32_t *offsets = (const int32_t *)call->inputs[1].data;
    int64_t rows = call->inputs[0].shape[0], last = call->inputs[1].elements - 2, sequence;
    eitp__ref_pair pair;
    pair.heads = call->integers[0];
    pair.head = item % pair.heads;
    pair.width = call->inputs[0].shape[1] / 3 / pair.heads;
    pair.causal = !call->integers[3];
    sequence = item / pair.heads;
    pair.begin = eitp__ref_min(offsets[sequence] > 0 ? offsets[sequence] : 0, rows);
    pair.stop = eitp__ref_min(offsets[sequence + 1], rows);
    pair.stop = pair.stop > pair.begin ? pair.stop : pair.begin;
    pair.end = eitp__ref_min(pair.stop, pair.begin + eitp__ref_limit(call, sequence));
    pair.first = sequence == 0 ? 0 : pair.begin;
    pair.stop = sequence == last ? rows : pair.stop;
    return pair;
}

EITP__PRIVATE float eitp__ref_kept(const eitp__call *call, const eitp__ref_pair *pair, int64_t i, int64_t position) {
    const int64_t *key = (const int64_t *)call->inputs[2].data;
    uint64_t index;
    if (!key || !(call->reals[1] > 0))
        return 1;
    index = ((uint64_t)key[2] + (uint64_t)i) * (uint64_t)pair->heads + (uint64_t)pair->head;
    index = index * (uint64_t)call->integers[1] + (uint64_t)position;
    if (eitp__kernel_uniform((uint64_t)key[0], (uint64_t)key[1], (uint32_t)call->integers[2], index) <
        (float)call->reals[1])
        return 0;
    return (float)(1 / (1 - call->reals[1]));
}

EITP__PRIVATE void eitp__ref_clear_logsumexps(const eitp__ref_pair *pair, float *logsumexps) {
    for (int64_t row = pair->first; row < pair->stop; row++)
        if (row < pair->begin || row >= pair->end)
            logsumexps[row * pair->heads] = 0;
}

/* Two sums of a head's width, and one number for each row of a sequence. */
EITP__PRIVATE size_t eitp__ref_attention_workspace(const eitp__call *call) {
    int64_t width = call->inputs[0].shape[1] / 3 / call->integers[0];
    return (size_t)(2 * width + eitp__ref_longest(call)) * sizeof(float);
}

EITP__PRIVATE size_t eitp__ref_attention_cached_workspace(const eitp__call *call) {
    return (size_t)(call->inputs[1].shape[1] / call->integers[0] + call->inputs[1].shape[0]) * sizeof(float);
}
