/*
 * EITP_SCHEDULE_PLATEAU: what the trainer remembers of evaluations, and the learning rate that follows. The rule is
 * that of PyTorch's ReduceLROnPlateau (mode "min", threshold_mode "rel", eps 1e-8).
 *
 * The state has the product of all reductions, not the rate: a resumed run with another peak keeps what it learned.
 */
#ifndef EITP_PLATEAU_H
#define EITP_PLATEAU_H

#include "base/json.h"
#include "train/train.h"

typedef struct eitp__plateau {
    double best;            /* the loss of the last improvement; HUGE_VAL: none */
    double scale;           /* the product of the factors of all reductions */
    int64_t failures;       /* evaluations in a row without improvement that count */
    int64_t cooldown;       /* coming evaluations that do not count as failures */
    int64_t evaluated_step; /* the step of the last evaluation; -1: none */
} eitp__plateau;

EITP__PRIVATE void eitp__plateau_init(eitp__plateau *plateau);

/* Counts the evaluation after a step. Returns the number of evaluations without improvement after which it reduced the
   learning rate; 0 if it did not. */
EITP__PRIVATE int64_t eitp__plateau_add(eitp__plateau *plateau, const eitp_plateau_config *config,
                                        const eitp_schedule *schedule, int64_t step, double loss);

/* The learning rate of a step, of any schedule: that of eitp_schedule_rate, or of the reductions if it is lower. */
EITP__PRIVATE double eitp__plateau_rate(const eitp__plateau *plateau, const eitp_schedule *schedule, int64_t step);

/* Adds the member "plateau" of a checkpoint's state. */
EITP__PRIVATE void eitp__plateau_write(const eitp__plateau *plateau, eitp__buffer *text);

/* Reads it from a state; without it, there were no evaluations. */
EITP__PRIVATE eitp_status eitp__plateau_read(eitp__plateau *plateau, const eitp_json *state, eitp_error *error);

#endif
