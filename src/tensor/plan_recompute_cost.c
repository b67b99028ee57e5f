/*
 * Costs and benefits of recomputing values: where values are used, how many bytes are live at each step, and what it
 * takes to compute a value a second time.
 */
#include "base/sort.h"
#include "tensor/plan_recompute.h"

#include <limits.h>

/* Limits on the chain of values recomputed for one candidate: its depth and its steps in all. */
enum { EITP__RECOMPUTE_DEPTH = 8, EITP__RECOMPUTE_STEPS = 24 };

/* ---- Uses and liveness ---- */

EITP__PRIVATE eitp_tensor *eitp__arena_value(eitp_tensor *x) {
    eitp_tensor *owner = x ? eitp__owner(x, NULL) : NULL;
    return owner && owner->leaf != EITP__VARIABLE ? owner : NULL;
}

EITP__PRIVATE double eitp__step_seconds(const eitp_plan *plan, const eitp__step *step) {
    const eitp__op_info *info = eitp__op(step->node->graph, step->node->op);
    const eitp__backend *backend = plan->context->backend;
    double bytes = 0;
    eitp__call call;
    for (int i = 0; i < eitp__step_read_count(step); i++) {
        eitp_tensor *x = eitp__step_read(step, i);
        bytes += x ? eitp__value_bytes(x) : 0;
    }
    for (int i = 0; i < step->output_count; i++)
        bytes += eitp__value_bytes(step->outputs[i]);
    /* Without a carry, an accumulating pad leaves everything outside its input's range alone. */
    if (step->node->op == EITP__OP_PAD && step->accumulates && !step->carry)
        bytes = 3 * eitp__value_bytes(step->inputs[0]);
    eitp__step_call(step, &call);
    return backend->interface->seconds(backend, &call, info->flops ? info->flops(step->node) : 0, bytes);
}

static int eitp__is_product(const eitp__step *step) {
    return eitp__op(step->node->graph, step->node->op)->is_product;
}

EITP__PRIVATE eitp__step eitp__recipe(const eitp__step *step, const eitp_tensor *value) {
    eitp__step recipe;
    eitp__node *activation = step->outputs[0]->node;
    if (!step->epilogue || step->output_count < 2 || step->outputs[0] != value)
        return *step;
    memset(&recipe, 0, sizeof recipe);
    recipe.node = activation;
    recipe.input_count = recipe.output_count = 1;
    recipe.inputs[0] = step->outputs[1];
    recipe.outputs[0] = step->outputs[0];
    return recipe;
}

/* True if the step changes a variable or a kept input. */
static int eitp__changes_leaf(const eitp__step *step) {
    for (int i = 0; i < step->output_count; i++) {
        if (step->replaces[i] && eitp__owner(step->replaces[i], NULL)->leaf != EITP__COMPUTED)
            return 1;
    }
    return 0;
}

EITP__PRIVATE double eitp__recipe_seconds(const eitp__recompute *r, const eitp__step *recipe,
                                          const eitp_tensor *value) {
    eitp__uses *uses = &r->uses[value->id];
    if (uses->seconds > 0)
        return uses->seconds;
    uses->seconds = eitp__step_seconds(r->plan, recipe);
    for (int i = 0; i < recipe->input_count; i++) {
        if (recipe->inputs[i] && eitp__is_offloaded_tensor(r->plan, recipe->inputs[i]))
            uses->seconds += eitp__offload_seconds(r->plan->context, eitp__value_bytes(recipe->inputs[i]), 0);
    }
    return uses->seconds;
}

EITP__PRIVATE void eitp__reset_uses(eitp__uses *uses, int id) {
    memset(uses, 0, sizeof *uses);
    uses->origin = id;
    uses->next_copy = uses->rejected = -1;
}

EITP__PRIVATE int eitp__recompute_reserve(eitp__recompute *r) {
    size_t old = r->use_capacity, tensors = r->plan->graph->tensor_count;
    if (!eitp__reserve(r->host, (void **)&r->uses, &r->use_capacity, tensors, sizeof *r->uses) ||
        !eitp__reserve(r->host, (void **)&r->live, &r->live_capacity, r->plan->step_count + 2, sizeof *r->live) ||
        !eitp__reserve(r->host, (void **)&r->saved_steps, &r->saved_step_capacity, r->plan->step_count,
                       sizeof *r->saved_steps) ||
        !eitp__reserve(r->host, (void **)&r->saved_owners, &r->saved_owner_capacity, r->plan->owner_count,
                       sizeof *r->saved_owners))
        return 0;
    for (size_t t = old; t < r->use_capacity; t++)
        eitp__reset_uses(&r->uses[t], (int)t);
    return 1;
}

/* Computes the bytes live at each step and the peak. */
static void eitp__find_peak(eitp__recompute *r) {
    const eitp_plan *plan = r->plan;
    size_t live = 0;
    memset(r->live, 0, (plan->step_count + 2) * sizeof *r->live);
    for (size_t i = 0; i < plan->block_count; i++) {
        const eitp__arena_block *block = &plan->blocks[i];
        size_t end = (size_t)block->last + 1;
        r->live[block->first < 0 ? 0 : block->first] += block->size;
        if (end <= plan->step_count)
            r->live[end] -= block->size; /* unsigned wrap-around cancels in the sum */
    }
    r->peak = 0;
    r->plan->visits.recompute += plan->step_count;
    for (size_t s = 0; s < plan->step_count; s++) {
        live += r->live[s];
        r->live[s] = live;
        if (live > r->peak) {
            r->peak = live;
            r->peak_step = (int)s;
        }
    }
}

/* Adds a step that reads or computes a value to its uses. */
static void eitp__collect_use(eitp__uses *uses, int peak_step, int step) {
    uses->last_use = step;
    if (step <= peak_step)
        uses->previous_use = step;
    else if (uses->next_use < 0)
        uses->next_use = step;
}

static void eitp__collect_step(eitp__recompute *r, const eitp__step *step, int at) {
    const int *reads = eitp__read_owners(r->plan, step), *outputs = eitp__output_owners(r->plan, step);
    const int *replaced = eitp__replaced_owners(r->plan, step);
    for (int i = 0; i < eitp__step_read_count(step); i++) {
        if (reads[i] >= 0)
            eitp__collect_use(&r->uses[reads[i]], r->peak_step, at);
    }
    for (int i = 0; i < step->output_count; i++) {
        if (replaced[i] >= 0)
            r->uses[replaced[i]].overwritten = 1;
        else if (replaced[i] != EITP__NO_OWNER && r->changed[-2 - replaced[i]] > at)
            r->changed[-2 - replaced[i]] = at;
        if (outputs[i] >= 0) {
            eitp__collect_use(&r->uses[outputs[i]], r->peak_step, at);
            r->uses[outputs[i]].producer = at;
        }
    }
}

EITP__PRIVATE void eitp__collect_uses(eitp__recompute *r) {
    const eitp_plan *plan = r->plan;
    for (size_t t = 0; t < plan->graph->tensor_count; t++) {
        eitp__uses *uses = &r->uses[t];
        uses->producer = uses->previous_use = uses->next_use = uses->last_use = -1;
        uses->overwritten = uses->is_output = 0;
    }
    for (size_t i = 0; i < plan->output_count; i++) {
        eitp_tensor *value = eitp__arena_value(plan->graph->tensors[plan->outputs[i]]);
        if (value)
            r->uses[value->id].is_output = 1;
    }
    for (size_t v = 0; v < r->variables; v++)
        r->changed[v] = INT_MAX;
    r->plan->visits.recompute += plan->step_count;
    for (size_t s = 0; s < plan->step_count; s++)
        eitp__collect_step(r, &plan->steps[s], (int)s);
}

EITP__PRIVATE int eitp__update_liveness(eitp__recompute *r) {
    if (!eitp__recompute_reserve(r) || !eitp__plan_lifetimes(r->plan))
        return 0;
    eitp__find_peak(r);
    return 1;
}

/* ---- Costs ---- */

static int eitp__is_live_at(const eitp__recompute *r, const eitp_tensor *value, int step) {
    const eitp__uses *uses = &r->uses[value->id];
    if (value->leaf == EITP__INPUT)
        return !uses->overwritten;
    return uses->producer >= 0 && uses->producer < step && uses->last_use >= step;
}

EITP__PRIVATE eitp_tensor *eitp__live_instance(const eitp__recompute *r, eitp_tensor *value, int step) {
    if (eitp__is_live_at(r, value, step))
        return value;
    for (int t = r->uses[value->id].origin; t >= 0; t = r->uses[t].next_copy) {
        eitp_tensor *other = r->plan->graph->tensors[t];
        if (eitp__is_live_at(r, other, step))
            return other;
    }
    return NULL;
}

/* True if the value is recomputed at a step or after it. */
static int eitp__is_recomputed_later(const eitp__recompute *r, const eitp_tensor *value, int step) {
    for (int t = r->uses[value->id].origin; t >= 0; t = r->uses[t].next_copy) {
        if (r->uses[t].producer >= step)
            return 1;
    }
    return 0;
}

static int eitp__can_recompute(const eitp__recompute *r, eitp_tensor *value, int before, int depth, double limit,
                               eitp__recompute_cost *cost);

EITP__PRIVATE int eitp__is_recomputed_for(const eitp__recompute *r, eitp_tensor *value, int before, int depth,
                                          double cost_per_byte, eitp__recompute_cost *cost) {
    const eitp__uses *uses = &r->uses[value->id];
    int later = eitp__is_recomputed_later(r, value, before), must = later || uses->overwritten;
    eitp__recompute_cost more = *cost;
    double limit = cost->seconds + r->cost_tolerance * cost_per_byte * eitp__value_bytes(value);
    if (!must && uses->last_use >= r->peak_step)
        return 0;
    if (!eitp__can_recompute(r, value, before, depth + 1, must ? HUGE_VAL : limit, &more))
        return 0;
    if (later)
        more.seconds = cost->seconds;
    *cost = more;
    return 1;
}

/* True if an operand can be live before a step. Adds what that costs. */
static int eitp__can_provide(const eitp__recompute *r, eitp_tensor *x, int before, int depth, double cost_per_byte,
                             eitp__recompute_cost *cost) {
    eitp_tensor *owner = eitp__owner(x, NULL);
    const eitp__uses *uses;
    if (owner->leaf == EITP__VARIABLE)
        return r->changed[owner->variable] >= before;
    if (eitp__live_instance(r, owner, before) || eitp__is_recomputed_for(r, owner, before, depth, cost_per_byte, cost))
        return 1;
    uses = &r->uses[owner->id];
    if (uses->overwritten || uses->producer < 0)
        return 0;
    cost->retained += uses->last_use < r->peak_step ? eitp__value_bytes(owner) : 0;
    return 1;
}

/* True if a value can be recomputed before a step within `limit` seconds, operands included. Adds what that costs. */
static int eitp__can_recompute(const eitp__recompute *r, eitp_tensor *value, int before, int depth, double limit,
                               eitp__recompute_cost *cost) {
    const eitp__uses *uses = &r->uses[value->id];
    const eitp__step *step;
    eitp__step recipe;
    double seconds;
    if (uses->producer < 0 || depth > EITP__RECOMPUTE_DEPTH || cost->steps >= EITP__RECOMPUTE_STEPS)
        return 0;
    step = &r->plan->steps[uses->producer];
    if (eitp__changes_leaf(step))
        return 0;
    recipe = eitp__recipe(step, value);
    if (r->mode == EITP_RECOMPUTE_ATTENTION && eitp__is_product(&recipe))
        return 0;
    seconds = eitp__recipe_seconds(r, &recipe, value);
    cost->seconds += seconds;
    cost->steps++;
    for (int i = 0; i < eitp__step_read_count(&recipe) && cost->seconds <= limit; i++) {
        eitp_tensor *x = eitp__step_read(&recipe, i);
        if (x && !eitp__can_provide(r, x, before, depth, seconds / eitp__value_bytes(value), cost))
            return 0;
    }
    return cost->seconds <= limit;
}

/* Computes a candidate's benefit; 0 if it cannot be recomputed or frees nothing. */
static int eitp__rate_candidate(const eitp__recompute *r, eitp__candidate *candidate) {
    eitp__recompute_cost cost = EITP__ZERO;
    if (!eitp__can_recompute(r, candidate->value, candidate->before, 0, HUGE_VAL, &cost))
        return 0;
    candidate->freed = eitp__value_bytes(candidate->value) - cost.retained;
    candidate->benefit = candidate->freed / cost.seconds;
    return candidate->freed > 0;
}

static int eitp__compare_benefit(const void *left, const void *right) {
    const eitp__candidate *a = (const eitp__candidate *)left, *b = (const eitp__candidate *)right;
    if (a->benefit != b->benefit)
        return a->benefit > b->benefit ? -1 : 1;
    return a->value->id < b->value->id ? -1 : a->value->id > b->value->id;
}

EITP__PRIVATE int eitp__find_candidates(eitp__recompute *r) {
    const eitp_graph *graph = r->plan->graph;
    size_t count = 0;
    for (size_t t = 0; t < graph->tensor_count; t++) {
        const eitp__uses *uses = &r->uses[t];
        eitp__candidate candidate = EITP__ZERO;
        if (uses->producer < 0 || uses->is_output || uses->previous_use < 0 || uses->previous_use >= r->peak_step ||
            uses->next_use < 0 || uses->rejected == r->plan->steps[uses->next_use].outputs[0]->id)
            continue;
        candidate.value = graph->tensors[t];
        candidate.before = uses->next_use;
        if (!eitp__rate_candidate(r, &candidate))
            continue;
        if (!eitp__reserve(r->host, (void **)&r->candidates, &r->candidate_capacity, count + 1, sizeof *r->candidates))
            return -1;
        r->candidates[count++] = candidate;
    }
    eitp__sort(r->candidates, count, sizeof *r->candidates, eitp__compare_benefit);
    return (int)count;
}
