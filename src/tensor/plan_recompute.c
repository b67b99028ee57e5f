/*
 * The recompute pass: rematerialization ahead of execution. While more bytes are live at the peak step than the target
 * allows, the value that is kept across that step and frees most bytes per second of recomputation is recomputed before
 * its next use (Kirisame et al., "Dynamic Tensor Rematerialization", arXiv 2006.09616, decided before execution instead
 * of during it). Kernels are pure functions of their operands, so results have the same bits.
 */
#include "tensor/plan_recompute.h"

/*
 * A round recomputes several candidates of nearly equal benefit, since layers are alike: up to EITP__ROUND_CANDIDATES,
 * and in large graphs up to one for every EITP__ROUND_STEPS steps, so that doubling the layers does not double the
 * rounds.
 */
enum { EITP__ROUND_CANDIDATES = 64, EITP__ROUND_STEPS = 24 };

/* The cost tolerance grows from 1 to this in powers of 8 while no candidate helps. */
#define EITP__RECOMPUTE_MAX_TOLERANCE 512

/* How many candidates one round recomputes: those of nearly the best benefit, and no more than the target needs. */
static int eitp__candidates_in_round(const eitp__recompute *r, int count, size_t target) {
    double needed = (double)(r->peak - target), freed = 0;
    int chosen = 0, limit = (int)r->plan->step_count / EITP__ROUND_STEPS;
    limit = limit > EITP__ROUND_CANDIDATES ? limit : EITP__ROUND_CANDIDATES;
    while (chosen < count && chosen < limit && freed < needed &&
           r->candidates[chosen].benefit >= 0.9 * r->candidates[0].benefit)
        freed += r->candidates[chosen++].freed;
    return chosen;
}

/* True if fewer bytes are live at the former peak step, by nearly as many as expected, and nowhere more than before. */
static int eitp__is_improvement(const eitp__recompute *r, size_t peak, int peak_step, size_t old_bytes,
                                double expected) {
    double freed = (double)old_bytes - (double)r->live[peak_step];
    return r->peak <= peak && freed > 0 && freed >= 0.9 * expected;
}

/*
 * Recomputes the candidates of most benefit. If together they free less than the sum of each, tries half as many, down
 * to one at a time. Returns 1 if the peak went down, 0 if no candidate helps, -1 if out of memory.
 */
static int eitp__recompute_round(eitp__recompute *r, size_t target) {
    int count = eitp__find_candidates(r), first = 0,
        chosen = count > 0 ? eitp__candidates_in_round(r, count, target) : 0;
    size_t peak = r->peak, old_bytes = r->live[r->peak_step];
    while (chosen > 0) {
        const eitp__candidate *best = &r->candidates[first];
        int peak_step = r->peak_step, use = r->plan->steps[best->before].outputs[0]->id;
        double expected = 0;
        for (int i = 0; i < chosen && chosen > 1; i++)
            expected += best[i].freed;
        if (!eitp__recompute_candidates(r, best, (size_t)chosen))
            return -1;
        if (eitp__is_improvement(r, peak, peak_step, old_bytes, expected)) {
            eitp__collect_uses(r);
            return 1;
        }
        eitp__restore_steps(r);
        /* A candidate that fails alone is not tried again in this round; the next one is. */
        if (chosen == 1) {
            r->uses[best->value->id].rejected = use;
            first++;
        }
        chosen = chosen > 1 ? chosen / 2 : first < count;
    }
    return count < 0 ? -1 : 0;
}

static void eitp__forget_rejected(eitp__recompute *r) {
    for (size_t t = 0; t < r->plan->graph->tensor_count; t++)
        r->uses[t].rejected = -1;
}

EITP__PRIVATE eitp_status eitp__plan_recompute(eitp_plan *plan, size_t target, eitp_recompute mode, eitp_error *error) {
    eitp__recompute r = EITP__ZERO;
    size_t limit = 8 * plan->step_count + 64;
    int result;
    r.plan = plan;
    r.host = &plan->context->host;
    r.mode = mode;
    r.variables = plan->context->variable_count;
    r.changed = (int *)eitp__allocate(r.host, r.variables * sizeof *r.changed);
    result = (!r.variables || r.changed) && eitp__update_liveness(&r) ? 1 : -1;
    if (result > 0)
        eitp__collect_uses(&r);
    r.cost_tolerance = 1;
    while (result > 0 && r.peak > target && limit--) {
        result = eitp__recompute_round(&r, target);
        if (!result && mode == EITP_RECOMPUTE_AUTO && r.cost_tolerance < EITP__RECOMPUTE_MAX_TOLERANCE) {
            r.cost_tolerance *= 8;
            eitp__forget_rejected(&r);
            result = 1;
        }
    }
    eitp__release(r.host, r.changed, r.variables * sizeof *r.changed);
    eitp__release(r.host, r.uses, r.use_capacity * sizeof *r.uses);
    eitp__release(r.host, r.live, r.live_capacity * sizeof *r.live);
    eitp__release(r.host, r.saved_steps, r.saved_step_capacity * sizeof *r.saved_steps);
    eitp__release(r.host, r.saved_owners, r.saved_owner_capacity * sizeof *r.saved_owners);
    eitp__release(r.host, r.saved_uses, r.saved_use_capacity * sizeof *r.saved_uses);
    eitp__release(r.host, r.candidates, r.candidate_capacity * sizeof *r.candidates);
    eitp__release(r.host, r.selected, r.selected_capacity * sizeof *r.selected);
    eitp__release(r.host, r.inserted, r.inserted_capacity * sizeof *r.inserted);
    eitp__release(r.host, r.insertions, r.insertion_capacity * sizeof *r.insertions);
    return result < 0 ? eitp__fail_memory(error, plan->step_count * sizeof *plan->steps, "the recompute pass of a plan")
                      : EITP_OK;
}
