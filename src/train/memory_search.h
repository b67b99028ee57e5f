/*
 * The search for a configuration that uses less memory, for eitp_trainer_shrink and for the micro-batches of a pass.
 * Moves make a candidate smaller, `measure` computes its memory and time, and the search keeps the fastest candidate
 * within the budget.
 */
#ifndef EITP_MEMORY_SEARCH_H
#define EITP_MEMORY_SEARCH_H

#include "base/platform.h"
#include "train/planner.h"

/* A configuration of a run, with its memory and time. */
typedef struct eitp__run_candidate {
    int64_t batch_size, grad_accum, evaluation_samples;
    eitp_fit_candidate fit;
} eitp__run_candidate;

/* The total of a configuration that cannot run. */
#define EITP__CANNOT_RUN SIZE_MAX

typedef struct eitp__search {
    /* Fills in a candidate's memory and time: at least `total`, `seconds` and `recomputed` of `fit`. */
    eitp_status (*measure)(void *user, eitp__run_candidate *candidate, eitp_error *error);
    void *user;
    size_t budget; /* maximum `total`, in bytes; 0: no limit */
    eitp__run_candidate latest;
    eitp__run_candidate best;     /* the fastest that fits; best.fit.fits is 0 until one does */
    eitp__run_candidate smallest; /* smallest.fit.total is 0 until a candidate was measured */
} eitp__search;

/* Makes a candidate smaller. Returns 0 if that is impossible, or cannot beat the candidates measured so far. */
typedef int (*eitp__move)(const eitp__search *search, eitp__run_candidate *candidate);

/* Measures `start` and every candidate that the moves produce. Each candidate of a move is also tried with the moves
   after it. */
EITP__PRIVATE eitp_status eitp__search_run(eitp__search *search, const eitp__move *moves, size_t count,
                                           const eitp__run_candidate *start, eitp_error *error);

/* A move: halves the micro-batches per pass, unless the latest candidate fits and recomputes nothing. */
EITP__PRIVATE int eitp__fewer_per_pass(const eitp__search *search, eitp__run_candidate *candidate);

/*
 * Halves a count whose bytes exceed the budget (0: no limit), rounding up, but not below `least`. Returns 1 if the new
 * count must be measured.
 */
EITP__PRIVATE int eitp__halve_to_fit(size_t bytes, size_t budget, int64_t least, int64_t *count);

#endif
