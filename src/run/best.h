/* The best evaluation so far, and how long ago it was; kept in best.json, so that a resumed run knows. */
#ifndef EITP_BEST_H
#define EITP_BEST_H

#include "base/memory.h"

/* Evaluations that are remembered one by one: a run can be resumed exactly from any checkpoint within them. */
#define EITP__BEST_EVALUATIONS 1000

typedef struct eitp__best_evaluation {
    int64_t step;
    double value;
} eitp__best_evaluation;

typedef struct eitp__best_state {
    int64_t step;  /* of the best evaluation, -1: none */
    double value;  /* and what it measured */
    int64_t since; /* evaluations after it */
} eitp__best_state;

typedef struct eitp__best {
    int higher_is_better;
    eitp__best_state before; /* the evaluations that are remembered */
    eitp__best_state now;
    eitp__best_evaluation evaluations[EITP__BEST_EVALUATIONS];
    size_t count;
} eitp__best;

EITP__PRIVATE void eitp__best_init(eitp__best *best, int higher_is_better);

/* Adds an evaluation, or replaces the one of the same step; 1 if it is the best. One that is not finite never is. */
EITP__PRIVATE int eitp__best_add(eitp__best *best, int64_t step, double value);

/* Replaces best.json in a directory. */
EITP__PRIVATE eitp_status eitp__best_write(const eitp__best *best, const eitp_host *host, const char *directory,
                                           const char *metric, eitp_error *error);

/* Removes best.json, where a directory has one. */
EITP__PRIVATE eitp_status eitp__best_remove(const eitp_host *host, const char *directory, eitp_error *error);

/* Reads the evaluations up to `step`. A missing file, or one of another metric, has none. */
EITP__PRIVATE eitp_status eitp__best_read(eitp__best *best, const eitp_host *host, const char *directory,
                                          const char *metric, int64_t step, eitp_error *error);

#endif
