/* Values per row of logits: scores of predictions, and their divergence. */
#include "objective/statistics.h"

#include "tensor/op_rules.h"

/* Converts logits to at least F32. */
static eitp_tensor *eitp__logits_wide(eitp_tensor *logits) {
    return logits ? eitp_cast(logits, eitp__wide(logits->dtype)) : NULL;
}

EITP__PRIVATE eitp_tensor *eitp__stat_brier(eitp_tensor *logits, eitp_tensor *targets, int32_t ignored) {
    eitp_tensor *p = eitp_softmax(eitp__logits_wide(logits)), *own, *score, *is_ignored;
    int64_t column[2];
    column[0] = eitp_tensor_dimension(targets, 0);
    column[1] = 1;
    /* The probability of the target; 0 for a target that is not a class. */
    own = eitp_sum(eitp_gather(p, eitp_reshape(targets, 2, column), 1), 2, 0);
    score = eitp_affine(eitp_subtract(eitp_sum(eitp_multiply(p, p), 2, 0), eitp_affine(own, 2, 0)), 1, 1);
    is_ignored = eitp_equal(targets, eitp__scalar_like(targets, ignored));
    return eitp_where(is_ignored, eitp__scalar_like(score, 0), score);
}

EITP__PRIVATE eitp_tensor *eitp__stat_correct(eitp_tensor *logits, eitp_tensor *targets) {
    eitp_tensor *is_correct = eitp_equal(eitp_argmax(logits, 1, 0), targets);
    return logits ? eitp_cast(is_correct, eitp__wide(logits->dtype)) : NULL;
}

EITP__PRIVATE eitp_tensor *eitp__stat_divergence(eitp_tensor *wanted, eitp_tensor *logits) {
    eitp_tensor *log_p = eitp_log_softmax(eitp__logits_wide(eitp_stop_gradient(wanted)));
    eitp_tensor *log_q = eitp_log_softmax(eitp__logits_wide(logits));
    return eitp_sum(eitp_multiply(eitp_exp(log_p), eitp_subtract(log_p, log_q)), 2, 0);
}
