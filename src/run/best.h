/* The best evaluation so far and the number of evaluations since, for the state of a run and for best.json. */
#ifndef EITP_BEST_H
#define EITP_BEST_H

#include "base/json.h"

/* Number of evaluations that are remembered. Resuming from a checkpoint older than these is not exact. */
#define EITP__BEST_EVALUATIONS 1000

typedef struct eitp__best_evaluation {
    int64_t step;
    double value;
} eitp__best_evaluation;

typedef struct eitp__best_state {
    int64_t step;  /* of the best evaluation; -1: none */
    double value;  /* of the metric */
    int64_t since; /* number of evaluations after it */
} eitp__best_state;

typedef struct eitp__best {
    int higher_is_better;
    eitp__best_state before; /* before the evaluations that are remembered */
    eitp__best_state now;    /* after them */
    eitp__best_evaluation evaluations[EITP__BEST_EVALUATIONS];
    size_t count;
} eitp__best;

EITP__PRIVATE void eitp__best_init(eitp__best *best, int higher_is_better);

/* Adds an evaluation, or replaces the one of the same step. Returns 1 if it is the best. A value that is not finite
   never is. */
EITP__PRIVATE int eitp__best_add(eitp__best *best, int64_t step, double value);

/* True if the last evaluation is of `step`. */
EITP__PRIVATE int eitp__best_has(const eitp__best *best, int64_t step);

/* Adds the evaluations as a JSON object. `kept`: a checkpoint of the best is kept. */
EITP__PRIVATE void eitp__best_format(const eitp__best *best, const char *metric, int kept, eitp__buffer *text);

/* Adds the evaluations of such an object up to `step`. An object of another metric has none. */
EITP__PRIVATE eitp_status eitp__best_parse(eitp__best *best, const eitp__json *root, const char *metric, int64_t step,
                                           eitp_error *error);

/* The step of the best evaluation in such an object if its checkpoint is kept; else -1, also if it is malformed. */
EITP__PRIVATE int64_t eitp__best_kept_step(const eitp__json *root);

/* The same for the best.json of a directory. */
EITP__PRIVATE int64_t eitp__best_read_kept_step(const eitp_host *host, const char *directory);

/* Replaces best.json in a directory. */
EITP__PRIVATE eitp_status eitp__best_write(const eitp__best *best, const eitp_host *host, const char *directory,
                                           const char *metric, int kept, eitp_error *error);

/* Removes best.json from a directory that has one. */
EITP__PRIVATE eitp_status eitp__best_remove(const eitp_host *host, const char *directory, eitp_error *error);

/* Reads the evaluations up to `step`. A missing file or one of another metric is treated as empty. */
EITP__PRIVATE eitp_status eitp__best_read(eitp__best *best, const eitp_host *host, const char *directory,
                                          const char *metric, int64_t step, eitp_error *error);

#endif
