#include "train/memory_search.h"

/* A more compact optimizer of the same fidelity as one that fits must save this part of a step's time. */
#define EITP__COMPACT_BENEFIT 0.05

static int eitp__is_better(const eitp_fit_candidate *candidate, const eitp_fit_candidate *best) {
    const double benefit = candidate->optimizer == best->optimizer ? 0 : EITP__COMPACT_BENEFIT;
    return candidate->fits && (!best->fits || candidate->seconds < (1 - benefit) * best->seconds);
}

/* What makes one candidate smaller than another. */
static size_t eitp__size_of(const eitp_fit_candidate *candidate) {
    return candidate->device && candidate->total != EITP__CANNOT_RUN ? candidate->device : candidate->total;
}

static eitp_status eitp__try_candidate(eitp__search *search, const eitp__run_candidate *candidate, eitp_error *error) {
    eitp_fit_candidate *latest = &search->latest.fit;
    eitp_status status;
    search->latest = *candidate;
    status = search->measure(search->user, &search->latest, error);
    if (status)
        return status;
    latest->fits = (!search->budget || latest->total <= search->budget) &&
                   (!search->device_budget || latest->device <= search->device_budget);
    if (eitp__is_better(latest, &search->best.fit))
        search->best = search->latest;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__search_run(eitp__search *search, const eitp__move *moves, size_t count,
                                           const eitp__run_candidate *start, eitp_error *error) {
    const eitp_fit_candidate *smallest = &search->smallest.fit;
    eitp__run_candidate candidate = *start;
    int is_made = 1;
    if (!count)
        return eitp__try_candidate(search, start, error);
    for (int made = 0; is_made; made++) {
        eitp_status status = eitp__search_run(search, moves + 1, count - 1, &candidate, error);
        if (status)
            return status;
        is_made = (!moves->attempts || made < moves->attempts) && moves->make(search, &candidate);
        if (!(is_made && moves->attempts) &&
            (!smallest->total || eitp__size_of(&search->latest.fit) < eitp__size_of(smallest)))
            search->smallest = search->latest;
    }
    return EITP_OK;
}

EITP__PRIVATE int eitp__fewer_per_pass(const eitp__search *search, eitp__run_candidate *candidate) {
    const eitp_fit_candidate *latest = &search->latest.fit; /* the measure may have chosen the number */
    candidate->fit.micro_batches_per_pass = latest->micro_batches_per_pass / 2;
    return candidate->fit.micro_batches_per_pass > 0 && (!latest->fits || latest->recomputed);
}

EITP__PRIVATE int eitp__halve_to_fit(size_t bytes, size_t budget, int64_t least, int64_t *count) {
    const int64_t half = (*count + 1) / 2;
    if (!budget || bytes <= budget || *count <= least)
        return 0;
    *count = half > least ? half : least;
    return 1;
}
