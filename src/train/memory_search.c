#include "train/memory_search.h"

static eitp_status eitp__try_candidate(eitp__search *search, const eitp__run_candidate *candidate, eitp_error *error) {
    eitp_fit_candidate *latest = &search->latest.fit;
    eitp_status status;
    search->latest = *candidate;
    status = search->measure(search->user, &search->latest, error);
    if (status)
        return status;
    latest->fits = !search->budget || latest->total <= search->budget;
    if (latest->fits && (!search->best.fit.fits || latest->seconds < search->best.fit.seconds))
        search->best = search->latest;
    if (!search->smallest.fit.total || latest->total < search->smallest.fit.total)
        search->smallest = search->latest;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__search_run(eitp__search *search, const eitp__move *moves, size_t count,
                                           const eitp__run_candidate *start, eitp_error *error) {
    eitp__run_candidate candidate = *start;
    if (!count)
        return eitp__try_candidate(search, start, error);
    do {
        eitp_status status = eitp__search_run(search, moves + 1, count - 1, &candidate, error);
        if (status)
            return status;
    } while (moves[0](search, &candidate));
    return EITP_OK;
}

EITP__PRIVATE int eitp__fewer_per_pass(const eitp__search *search, eitp__run_candidate *candidate) {
    const eitp_fit_candidate *latest = &search->latest.fit; /* `measure` may have chosen the number */
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
