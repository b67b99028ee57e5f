#include "kernels/ref/attention.h"

/* Returns the maximum number of rows in a sequence. */
static int64_t eitp__ref_longest(const eitp__call *call) {
    int64_t longest = eitp__ref_min(call->integers[1], call->inputs[0].shape[0]);
    return longest > 0 ? longest : 0;
}

/* Returns the maximum number of rows in this sequence that are not padding. */
static int64_t eitp__ref_limit(const eitp__call *call, int64_t sequence) {
    const int32_t *lengths = (const int32_t *)call->inputs[3].data;
    int64_t longest = eitp__ref_longest(call);
    if (!lengths)
        return longest;
    return lengths[sequence] > 0 ? eitp__ref_min(lengths[sequence], longest) : 0;
}

/* Offsets and lengths are data, so they are clamped to the rows of the call and to the longest sequence. */
EITP__PRIVATE eitp__ref_pair eitp__ref_pair_of(const eitp__call *call, int64_t item) {
    const int32_t *offsets = (const int32_t *)call->inputs[1].data;
    int64_t rows = call->inputs[0].shape[0], last = call->inputs[1].elements - 2, sequence, heads;
    eitp__ref_pair pair;
    pair.sizes = eitp__attention_sizes_of(call);
    heads = call->slot == EITP__SLOT_ATTENTION_BACKWARD ? pair.sizes.key_heads : pair.sizes.heads;
    pair.head = item % heads;
    pair.causal = !call->integers[3];
    sequence = item / heads;
    pair.begin = eitp__ref_min(offsets[sequence] > 0 ? offsets[sequence] : 0, rows);
    pair.stop = eitp__ref_min(offsets[sequence + 1], rows);
    pair.stop = pair.stop > pair.begin ? pair.stop : pair.begin;
    pair.end = eitp__ref_min(pair.stop, pair.begin + eitp__ref_limit(call, sequence));
    pair.first = sequence == 0 ? 0 : pair.begin;
    pair.stop = sequence == last ? rows : pair.stop;
    return pair;
}

EITP__PRIVATE int64_t eitp__ref_first_key(const eitp__ref_pair *pair, int64_t i) {
    return pair->begin + (pair->causal ? eitp__attention_unseen(&pair->sizes, i - pair->begin) : 0);
}

EITP__PRIVATE int64_t eitp__ref_last_key(const eitp__ref_pair *pair, int64_t i) {
    return pair->causal ? i + 1 : pair->end;
}

EITP__PRIVATE int64_t eitp__ref_first_query(const eitp__ref_pair *pair, int64_t j) {
    return pair->causal ? j : pair->begin;
}

EITP__PRIVATE int64_t eitp__ref_last_query(const eitp__ref_pair *pair, int64_t j) {
    return pair->causal && pair->end - j > pair->sizes.window ? j + pair->sizes.window : pair->end;
}

EITP__PRIVATE float eitp__ref_kept(const eitp__call *call, const eitp__ref_pair *pair, int64_t head, int64_t i,
                                   int64_t position) {
    const int64_t *key = (const int64_t *)call->inputs[2].data;
    uint64_t index;
    if (!key || !(call->reals[1] > 0))
        return 1;
    index = ((uint64_t)key[2] + (uint64_t)i) * (uint64_t)pair->sizes.heads + (uint64_t)head;
    index = index * (uint64_t)call->integers[1] + (uint64_t)position;
    if (eitp__kernel_uniform((uint64_t)key[0], (uint64_t)key[1], (uint32_t)call->integers[2], index) <
        (float)call->reals[1])
        return 0;
    return (float)(1 / (1 - call->reals[1]));
}

EITP__PRIVATE void eitp__ref_clear_logsumexps(const eitp__ref_pair *pair, float *logsumexps) {
    for (int64_t row = pair->first; row < pair->stop; row++)
        if (row < pair->begin || row >= pair->end)
            logsumexps[row * pair->sizes.heads] = 0;
}

/*
 * Returns the bytes for two sums of a head's width, and one float for each row of a sequence and each head of a group.
 */
EITP__PRIVATE size_t eitp__ref_attention_workspace(const eitp__call *call) {
    const eitp__attention_sizes sizes = eitp__attention_sizes_of(call);
    return (size_t)(2 * sizes.width + sizes.group * eitp__ref_longest(call)) * sizeof(float);
}

/* Returns the bytes for a query, a sum, and one float for each row of the cache. */
EITP__PRIVATE size_t eitp__ref_attention_cached_workspace(const eitp__call *call) {
    return (size_t)(2 * eitp__attention_sizes_of(call).width + call->inputs[1].shape[0]) * sizeof(float);
}
