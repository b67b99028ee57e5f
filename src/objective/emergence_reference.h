/* A reference model, which scores generated samples by their likelihood. */
#ifndef EITP_EMERGENCE_REFERENCE_H
#define EITP_EMERGENCE_REFERENCE_H

#include "objective/emergence_state.h"

typedef struct eitp__reference {
    const eitp__emergence *e;
    const eitp_model *model;
    int64_t capacity; /* tokens of the longest sequence so far */
    eitp__hidden_pass hidden_pass;
    eitp__head_pass head_pass;
    float *hidden;                 /* [capacity, width] */
    eitp__prediction *predictions; /* [capacity] */
    eitp__sampled loss;            /* loss of the samples, per token of the reference */
} eitp__reference;

/* Opens a reference. Without a model, eitp__reference_judge must not be called. Release it in any case. */
EITP__PRIVATE void eitp__reference_open(eitp__reference *r, const eitp__emergence *e, const eitp_model *model);
EITP__PRIVATE void eitp__reference_release(eitp__reference *r);

/* Scores a sample that the measured model generated after a prompt. */
EITP__PRIVATE eitp_status eitp__reference_judge(eitp__reference *r, const int32_t *prompt, int64_t prompt_count,
                                                const int32_t *text, int64_t count, eitp_error *error);

EITP__PRIVATE eitp_status eitp__reference_report(const eitp__reference *r, eitp_error *error);

#endif
