/* Shared by the ref attention kernels of every element type. */
#ifndef EITP_REF_ATTENTION_H
#define EITP_REF_ATTENTION_H

#include "kernels/attention.h"
#include "kernels/ref/ref.h"

/* An item of an attention call: a sequence and a head. */
typedef struct eitp__ref_pair {
    eitp__attention_sizes sizes;
    int64_t head;        /* of the queries; in ATTENTION_BACKWARD of the keys */
    int64_t begin, end;  /* the sequence's rows */
    int64_t first, stop; /* these rows, padding, and the rows outside sequences that this pair clears */
    int causal;
} eitp__ref_pair;

EITP__PRIVATE eitp__ref_pair eitp__ref_pair_of(const eitp__call *call, int64_t item);

/* Return the range [first, last) of rows that row i attends to, and of rows that attend to row j. */
EITP__PRIVATE int64_t eitp__ref_first_key(const eitp__ref_pair *pair, int64_t i);
EITP__PRIVATE int64_t eitp__ref_last_key(const eitp__ref_pair *pair, int64_t i);
EITP__PRIVATE int64_t eitp__ref_first_query(const eitp__ref_pair *pair, int64_t j);
EITP__PRIVATE int64_t eitp__ref_last_query(const eitp__ref_pair *pair, int64_t j);

/*
 * Returns the dropout factor of the probability of row i, in a head of queries, for the key at `position` of its
 * sequence: 0 if it is dropped, else 1 / (1 - dropout probability).
 */
EITP__PRIVATE float eitp__ref_kept(const eitp__call *call, const eitp__ref_pair *pair, int64_t head, int64_t i,
                                   int64_t position);

/* Zeroes the logsumexps of the pair's rows that attend to nothing. */
EITP__PRIVATE void eitp__ref_clear_logsumexps(const eitp__ref_pair *pair, float *logsumexps);

EITP__PRIVATE size_t eitp__ref_attention_workspace(const eitp__call *call);
EITP__PRIVATE size_t eitp__ref_attention_cached_workspace(const eitp__call *call);

#endif
