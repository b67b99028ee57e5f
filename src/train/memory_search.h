/*
 * The search of the memory planner. Moves make a candidate smaller, a measure tells what it needs, and the fastest
 * within a budget is kept. The planner searches before a run and eitp_trainer_shrink in one: moves and measure differ.
 */
#ifndef EITP_MEMORY_SEARCH_H
#define EITP_MEMORY_SEARCH_H

#include "base/platform.h"
#include "train/planner.h"

/* A configuration of a run, and what it needs. */
typedef struct eitp__run_candidate {
    int64_t batch_size, grad_accum, evaluation_samples; /* where they may change */
    eitp_fit_candidate fit;
} eitp__run_candidate;

/* The total of a configuration that cannot run. */
#define EITP__CANNOT_RUN SIZE_MAX

typedef struct eitp__search {
    /* Fills in what a candidate needs, at least `total`, `seconds` and `recomputed` of `fit`. */
    eitp_status (*measure)(void *user, eitp__run_candidate *candidate, eitp_error *error);
    void *user;
    size_t budget; /* bytes that `total` may be; 0: no limit */
    eitp__run_candidate latest;
    eitp__run_candidate best;     /* the fastest that fits; fits 0: none */
    eitp__run_candidate smallest; /* total 0: none was measured */
} eitp__search;

typedef struct eitp__move {
    /* Makes a candidate smaller; 0 if that is impossible, or could not be better than what was measured. */
    int (*make)(const eitp__search *search, eitp__run_candidate *candidate);
    int attempts; /* to make one candidate fit, each in place of the one before; 0: they are candidates of their own */
} eitp__move;

/* Measures a candidate and what moves lead to; for each candidate of a move, those of the moves after it are tried. */
EITP__PRIVATE eitp_status eitp__search_run(eitp__search *search, const eitp__move *moves, size_t count,
                                           const eitp__run_candidate *start, eitp_error *error);

/* A move: half the micro-batches per pass, unless the latest candidate fits and recomputes nothing. */
EITP__PRIVATE int eitp__fewer_per_pass(const eitp__search *search, eitp__run_candidate *candidate);

/*
 * Halves a count, rounding up, that needs more bytes than the budget (0: no limit), but not below `least`. Returns 1 if
 * it is to be measured again.
 */
EITP__PRIVATE int eitp__halve_to_fit(size_t bytes, size_t budget, int64_t least, int64_t *count);

#endif
