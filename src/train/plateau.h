/*
 * EITP_SCHEDULE_PLATEAU: the trainer's record of evaluations, and the resulting learning rate. The rule is the same as
 * in PyTorch's ReduceLROnPlateau (mode "min", threshold_mode "rel", eps 1e-8).
 *
 * The state holds the product of all reductions, not the rate: a run resumed with another peak keeps its reductions.
 */
#ifndef EITP_PLATEAU_H
#define EITP_PLATEAU_H

#include "base/json.h"
#include "train/train.h"

typedef struct eitp__plateau {
    double best;            /* the loss of the last improvement; HUGE_VAL: none */
    double scale;           /* the product of the factors of all reductions */
    int64_t failures;       /* consecutive evaluations without improvement that count */
    int64_t cooldown;       /* number of next evaluations that do not count as failures */
    int64_t evaluated_step; /* step of the last evaluation; -1: none */
} eitp__plateau;

EITP__PRIVATE void eitp__plateau_init(eitp__plateau *plateau);

/* Counts the evaluation after a step. If it reduced the learning rate, returns the number of evaluations without
   improvement that led to it; otherwise 0. */
EITP__PRIVATE int64_t eitp__plateau_add(eitp__plateau *plateau, const eitp_plateau_config *config,
                                        const eitp_schedule *schedule, int64_t step, double loss);

/* Returns the learning rate of a step with any schedule: the rate of eitp_schedule_rate, or the reduced rate if it is
   lower. */
EITP__PRIVATE double eitp__plateau_rate(const eitp__plateau *plateau, const eitp_schedule *schedule, int64_t step);

/* Adds the member "plateau" to a checkpoint's state. */
EITP__PRIVATE void eitp__plateau_write(const eitp__plateau *plateau, eitp__buffer *text);

/* Reads the member from a state. If it is missing, no evaluations were recorded. */
EITP__PRIVATE eitp_status eitp__plateau_read(eitp__plateau *plateau, const eitp_json *state, eitp_error *error);

#endif
