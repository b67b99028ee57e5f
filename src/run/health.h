/*
 * The health of a run: the state of the model, inferred from its steps. A model whose numbers are not finite or whose
 * loss has diverged is never saved under a name that a resume would pick. Losses are task losses, because a regularizer
 * may start at any step.
 *
 * The loss has diverged if the median of the last losses, or each of the last three, is above a limit. The median
 * ignores a spike of a few steps; the last three notice a divergence that has just started. The window continues across
 * saves, so a run that saves at every step is treated in the same way. L is the lowest median at a save so far (before
 * the first save, the first loss), and U is the loss of a uniform guess (eitp_task.guess_loss). The limit is the
 * maximum of
 *     U + 1    a model that has learned something is better than this
 *     L + |L|  twice the loss at the save; a loss may be negative. L is from the lowest save, not the last one:
 *              otherwise a slowly rising loss would raise its own limit at every save.
 * If U is unknown, the loss has no known scale, and the limit is the maximum of
 *     L + |L|, where L before the first save is the median of the first losses
 *     L + 10 S        S is the standard deviation of the losses at that save; covers noise, also around a loss of 0
 *     (L + first) / 2 half of the gain so far: a loss that rises from 1e-9 to 1e-7 is still good
 * If none of these is above L (all losses so far are 0), no loss counts as diverged.
 */
#ifndef EITP_HEALTH_H
#define EITP_HEALTH_H

#include "base/json.h"
#include "base/statistics.h"

enum { EITP__HEALTH_LOSSES = 10, EITP__HEALTH_LAST = 3 };

typedef struct eitp__health {
    int64_t nonfinite;                  /* consecutive steps not applied because numbers were not finite */
    int64_t losses;                     /* number of finite losses so far */
    eitp__rolling first, recent;        /* the first and the most recent ones, at most EITP__HEALTH_LOSSES each */
    int has_saved;                      /* a model was saved; the following two are set */
    double saved_loss, saved_deviation; /* lowest median of recent losses at a save; their deviation then */
    int overflowed;                     /* a square in the optimizer's state may have overflowed, which is permanent */
    int64_t spike_step, unreported_spikes; /* step of the last reported spike; number of spikes since then */
    int has_warned, has_refused;           /* divergence was reported; refusal to save was reported */
} eitp__health;

/* Adds the loss of a step. Non-finite losses are ignored. */
EITP__PRIVATE void eitp__health_add_loss(eitp__health *health, double loss);

/* True if the loss has diverged. */
EITP__PRIVATE int eitp__health_has_diverged(const eitp__health *health, double guess);

/* Called after each save. */
EITP__PRIVATE void eitp__health_saved(eitp__health *health);

/* Appends the state for a resumed run as a JSON object. */
EITP__PRIVATE void eitp__health_write(const eitp__health *health, eitp__buffer *text);

/* Restores the state from that object; NULL: the state of a new run. On failure *health is unchanged. */
EITP__PRIVATE eitp_status eitp__health_read(eitp__health *health, const eitp_json *object, eitp_error *error);

#endif
