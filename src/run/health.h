/*
 * The health of a run: what its steps say about the model. A model whose numbers are not finite or whose loss has
 * diverged is never saved under a name that a resume takes. Losses are the task's: a regularizer may begin at any step.
 *
 * The loss has diverged if the median of the last losses, or each of the last three, is above a limit. The median
 * ignores a spike of a few steps; the last three notice a divergence that has only begun. The window does not end at a
 * save, so that saving at every step is judged in the same way. With L, the lowest median at a save so far (before the
 * first save, the first loss), and U, the loss of a uniform guess (eitp_task.guess_loss), the limit is the larger of
 *     U + 1    a model that has learned something is not that bad
 *     L + |L|  twice that of the save; a loss may be negative. The lowest save, not the last one: a loss that rises
 *              slowly would otherwise raise its own limit at every save.
 * If U is unknown, a loss has no scale of its own, and the limit is the largest of
 *     L + |L|, where L before the first save is the median of the first losses
 *     L + 10 S        S is the deviation of the losses at that save: noise, also around a loss of 0
 *     (L + first) / 2 half of what the run has gained: a loss of 1e-9 that becomes 1e-7 is still a good one
 * Where these are not above L (all losses so far are 0), no loss counts as diverged.
 */
#ifndef EITP_HEALTH_H
#define EITP_HEALTH_H

#include "base/json.h"
#include "base/statistics.h"

enum { EITP__HEALTH_LOSSES = 10, EITP__HEALTH_LAST = 3 };

typedef struct eitp__health {
    int64_t nonfinite;                  /* steps in a row that were not applied because numbers were not finite */
    int64_t losses;                     /* finite losses so far */
    eitp__rolling first, recent;        /* EITP__HEALTH_LOSSES of them at most */
    int has_saved;                      /* a model was saved, with these: */
    double saved_loss, saved_deviation; /* the lowest median of recent losses at a save, and their deviation then */
    int overflowed;                     /* a square in the optimizer's state may have overflowed: it never recovers */
    int64_t spike_step, unreported_spikes; /* the last spike that was reported; number of those since */
    int has_warned, has_refused;           /* the divergence, and the refusal to save, were reported */
} eitp__health;

/* Adds the loss of a step. One that is not finite is left out. */
EITP__PRIVATE void eitp__health_add_loss(eitp__health *health, double loss);

/* True if the loss has diverged. */
EITP__PRIVATE int eitp__health_has_diverged(const eitp__health *health, double guess);

/* Called after each save. */
EITP__PRIVATE void eitp__health_saved(eitp__health *health);

/* Adds what a resumed run needs: a JSON object. */
EITP__PRIVATE void eitp__health_write(const eitp__health *health, eitp__buffer *text);

/* Reads such an object; NULL: the health of a new run. *health is unchanged after a failure. */
EITP__PRIVATE eitp_status eitp__health_read(eitp__health *health, const eitp_json *object, eitp_error *error);

#endif
