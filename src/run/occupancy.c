#include "run/occupancy.h"

/* Others had a little less when the run began, on a machine where nothing happens. In percent of all memory. */
#define EITP__OCCUPANCY_NOISE 1

EITP__PRIVATE uint64_t eitp__occupancy_of_others(const eitp__memory_state *state) {
    const uint64_t used = state->fullest_used;
    return used > state->anonymous ? used - state->anonymous : 0;
}

static double eitp__percent_of(uint64_t bytes, uint64_t all) {
    return all ? 100 * (double)bytes / (double)all : 0;
}

static void eitp__occupancy_compare(eitp__occupancy_level *level, double percent, int may_count, double limit) {
    if (limit <= 0 || limit >= 100)
        return;
    if (!level->is_reached && may_count && percent >= limit)
        level->is_reached = level->is_news = 1;
    else if (percent < limit - EITP__OCCUPANCY_FALLS)
        level->is_reached = level->is_news = 0;
}

EITP__PRIVATE void eitp__occupancy_add(eitp__occupancy *occupancy, const eitp__memory_state *state, double high,
                                       double full) {
    const uint64_t limit = state->fullest_limit, others = eitp__occupancy_of_others(state);
    const double of_all = eitp__percent_of(others, limit);
    int have_grown;
    if (limit != occupancy->limit)
        occupancy->began = others;
    occupancy->limit = limit;
    have_grown = of_all > eitp__percent_of(occupancy->began, limit) + EITP__OCCUPANCY_NOISE;
    occupancy->percent = limit > state->anonymous ? eitp__percent_of(others, limit - state->anonymous) : 0;
    eitp__occupancy_compare(&occupancy->high, occupancy->percent, have_grown || of_all >= high, high);
    eitp__occupancy_compare(&occupancy->full, occupancy->percent, have_grown || of_all >= full, full);
    occupancy->exceeds = full > 0 && full < 100 && occupancy->percent >= full && (have_grown || of_all >= full);
}

EITP__PRIVATE void eitp__occupancy_told(eitp__occupancy *occupancy) {
    occupancy->high.is_news = occupancy->full.is_news = 0;
}
