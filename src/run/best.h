/* The best evaluation so far and the number of evaluations since, for the state of a run and for best.json. */
#ifndef EITP_BEST_H
#define EITP_BEST_H

#include "base/json.h"

/* Number of evaluations kept. Resuming from a checkpoint older than these is not exact. */
#define EITP__BEST_EVALUATIONS 1000

typedef struct eitp__best_evaluation {
    int64_t step;
    double value;
    int is_lost; /* its checkpoint could not be kept */
} eitp__best_evaluation;

typedef struct eitp__best_state {
    int64_t step;  /* of the best evaluation that is not lost; -1: none */
    double value;  /* of the metric; NaN: none */
    double seen;   /* best value so far, lost or not, for `patience`; NaN: none */
    int64_t since; /* number of evaluations after that one */
} eitp__best_state;

typedef struct eitp__best {
    int higher_is_better;
    eitp__best_state before; /* before the evaluations that are kept */
    eitp__best_state now;    /* after them */
    eitp__best_state saved;  /* `now` at the time when the checkpoint of its best evaluation was last complete */
    eitp__best_evaluation evaluations[EITP__BEST_EVALUATIONS];
    size_t count;
} eitp__best;

EITP__PRIVATE void eitp__best_init(eitp__best *best, int higher_is_better);

/* Adds an evaluation, or replaces the one of the same step. Returns 1 if it is the best so far. A value that is not
   finite is never the best. */
EITP__PRIVATE int eitp__best_add(eitp__best *best, int64_t step, double value);

/* Marks the evaluation of a step as lost, so that another one becomes the best, or none. */
EITP__PRIVATE void eitp__best_lose(eitp__best *best, int64_t step);

/* Returns the step of the best evaluation in the run_state.json of a checkpoint if its checkpoint is kept, else -1.
   Also -1 if the file is malformed. */
EITP__PRIVATE int64_t eitp__run_state_best(const eitp_host *host, const char *checkpoint);

/* Like eitp__run_state_best, for the best.json of a directory. */
EITP__PRIVATE int64_t eitp__best_read_kept_step(const eitp_host *host, const char *directory);

/* Replaces best.json in a directory. With `kept` it names a checkpoint that is complete. */
EITP__PRIVATE eitp_status eitp__best_write(const eitp__best *best, const eitp_host *host, const char *directory,
                                           const char *metric, int kept, eitp_error *error);

/* Reads the evaluations up to `step`. A file that is missing or has another metric is treated as empty. */
EITP__PRIVATE eitp_status eitp__best_read(eitp__best *best, const eitp_host *host, const char *directory,
                                          const char *metric, int64_t step, eitp_error *error);

#endif
