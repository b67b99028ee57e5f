/*
 * The recompute pass: rematerialization ahead of execution. While more bytes are live at the peak step than the target
 * allows, it takes the value kept across that step that frees most bytes per second of recomputation, and recomputes it
 * before its next use (Kirisame et al., "Dynamic Tensor Rematerialization", arXiv 2006.09616, but decided before
 * execution instead of during it). Kernels are pure functions of their operands, so results have the same bits.
 */
#include "base/sort.h"
#include "tensor/plan.h"

#include <limits.h>

/* A value with no use around the peak step, and the use before which it could be recomputed. */
typedef struct eitp__candidate {
    eitp_tensor *value;
    int before;     /* step of its next use */
    double benefit; /* bytes freed per second of recomputation */
    double freed;   /* bytes */
} eitp__candidate;

/* Cost of recomputing a value and any operands that are no longer live. */
typedef struct eitp__recompute_cost {
    double seconds;
    double retained; /* bytes of operands that must stay live across the peak step */
    int steps;       /* number of recomputed steps */
} eitp__recompute_cost;

/* Uses of a tensor that owns memory in the arena, indexed by tensor id. Copies add entries, so the array may be
   reallocated. */
typedef struct eitp__uses {
    int producer, last_use;     /* steps; -1: none */
    int previous_use, next_use; /* last use up to the peak step, and first use after it; -1: none */
    int overwritten;            /* a later value reused its memory */
    int is_output;              /* the tensor, or a view of it, is an output of the graph */
    int origin;                 /* id of the first tensor that holds the value */
    int next_copy;              /* id of the next tensor that holds the value; -1: none */
    int rejected; /* first output of the step before which recomputing it did not reduce the peak; -1: none */
    int reads;
    double seconds; /* cost of its recipe; 0: not computed yet */
} eitp__uses;

/* Last use of a value before an attempt changed it. */
typedef struct eitp__saved_use {
    int value, last_use;
} eitp__saved_use;

/* Steps to insert before a step: `inserted` from `first` up to the first of the next insertion. */
typedef struct eitp__insertion {
    int before;
    size_t first;
} eitp__insertion;

typedef struct eitp__recompute {
    eitp_plan *plan;
    const eitp_host *host;
    eitp_recompute mode;
    eitp__uses *uses;
    size_t use_capacity;
    int *changed; /* by variable: first step that changes it */
    size_t variables;
    size_t *live; /* bytes live at each step; after eitp__restore_steps still the attempt's values */
    size_t live_capacity;
    int peak_step;               /* first step at which the most bytes are live */
    size_t peak;                 /* bytes live at that step */
    eitp__candidate *candidates; /* of a round */
    size_t candidate_capacity;
    eitp__candidate *selected; /* of an attempt, the last step first */
    size_t selected_capacity;
    eitp__step *inserted; /* steps to insert at the end of the attempt */
    size_t inserted_count, inserted_capacity;
    eitp__insertion *insertions; /* insertion points, last step first */
    size_t insertion_count, insertion_capacity;
    double cost_tolerance; /* ratio of cost per byte, operand to value, up to which operands are recomputed */
    /* State saved for eitp__restore_steps, which undoes an attempt. */
    eitp__step *saved_steps;
    size_t saved_step_count, saved_step_capacity;
    int *saved_owners;
    size_t saved_owner_count, saved_owner_capacity;
    eitp__saved_use *saved_uses;
    size_t saved_use_count, saved_use_capacity;
    size_t saved_tensor_count;
    size_t saved_peak;
    int saved_peak_step;
} eitp__recompute;

static double eitp__value_bytes(const eitp_tensor *x) {
    return (double)eitp__tensor_bytes(x);
}

/*
 * ---- Uses, liveness and cost ----
 *
 * Uses of values, bytes live at each step, and the cost of recomputing a value.
 */

/* Limits on the chain of values recomputed for one candidate: its depth and its total steps. */
enum { EITP__RECOMPUTE_DEPTH = 8, EITP__RECOMPUTE_STEPS = 24 };

/* ---- Uses and liveness ---- */

static int eitp__is_product(const eitp__step *step) {
    return eitp__op(step->node->graph, step->node->op)->is_product;
}

/* Returns the step that recomputes a value: a copy of the step that computed it. If a product is stored as well as its
   activation, the activation is recomputed from the product alone. */
static eitp__step eitp__recipe(const eitp__step *step, const eitp_tensor *value) {
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

/* Returns the cost of a recipe in seconds, including reads of offloaded variables. */
static double eitp__recipe_seconds(const eitp__recompute *r, const eitp__step *recipe, const eitp_tensor *value) {
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

/* Resets the entry of a tensor. */
static void eitp__reset_uses(eitp__uses *uses, int id) {
    memset(uses, 0, sizeof *uses);
    uses->origin = id;
    uses->next_copy = uses->rejected = -1;
}

/* Grows the arrays by tensor and by step to the sizes of graph and plan; 0: out of memory. */
static int eitp__recompute_reserve(eitp__recompute *r) {
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

/* Records a step that reads or computes a value among its uses. */
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

/* Unlinks copies that no step computes any more, so that searches for an instance of a value do not visit them. */
static void eitp__forget_dropped_copies(eitp__recompute *r) {
    for (size_t t = 0; t < r->plan->graph->tensor_count; t++) {
        int *next = &r->uses[t].next_copy;
        if (r->uses[t].origin != (int)t)
            continue;
        while (*next >= 0) {
            if (r->uses[*next].producer < 0)
                *next = r->uses[*next].next_copy;
            else
                next = &r->uses[*next].next_copy;
        }
    }
}

/* Finds the uses of all values, relative to the peak step. */
static void eitp__collect_uses(eitp__recompute *r) {
    const eitp_plan *plan = r->plan;
    for (size_t t = 0; t < plan->graph->tensor_count; t++) {
        eitp__uses *uses = &r->uses[t];
        uses->producer = uses->previous_use = uses->next_use = uses->last_use = -1;
        uses->overwritten = uses->is_output = 0;
    }
    for (size_t i = 0; i < plan->output_count; i++) {
        eitp_tensor *value = eitp__arena_owner(plan->graph->tensors[plan->outputs[i]]);
        if (value)
            r->uses[value->id].is_output = 1;
    }
    for (size_t v = 0; v < r->variables; v++)
        r->changed[v] = INT_MAX;
    r->plan->visits.recompute += plan->step_count;
    for (size_t s = 0; s < plan->step_count; s++)
        eitp__collect_step(r, &plan->steps[s], (int)s);
    eitp__forget_dropped_copies(r);
}

/* Updates lifetimes, live bytes and the peak to the current steps; 0: out of memory. */
static int eitp__update_liveness(eitp__recompute *r) {
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

/* Returns a tensor that holds the value and is live at a step; NULL: none. */
static eitp_tensor *eitp__live_instance(const eitp__recompute *r, eitp_tensor *value, int step) {
    if (eitp__is_live_at(r, value, step))
        return value;
    for (int t = r->uses[value->id].origin; t >= 0; t = r->uses[t].next_copy) {
        eitp_tensor *other = r->plan->graph->tensors[t];
        r->plan->visits.recompute++;
        if (eitp__is_live_at(r, other, step))
            return other;
    }
    return NULL;
}

/* True if the value is recomputed at a step or after it. */
static int eitp__is_recomputed_later(const eitp__recompute *r, const eitp_tensor *value, int step) {
    for (int t = r->uses[value->id].origin; t >= 0; t = r->uses[t].next_copy) {
        r->plan->visits.recompute++;
        if (r->uses[t].producer >= step)
            return 1;
    }
    return 0;
}

static int eitp__can_recompute(const eitp__recompute *r, eitp_tensor *value, int before, int depth, double limit,
                               eitp__recompute_cost *cost);

/*
 * True if a value that is not live before a step is recomputed for it instead of being kept until then. This is so if
 * it is recomputed later anyway, if it is overwritten, or if its cost per byte is within the tolerance of
 * `cost_per_byte`. Adds its cost to *cost.
 */
static int eitp__is_recomputed_for(const eitp__recompute *r, eitp_tensor *value, int before, int depth,
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

/* True if an operand can be live before a step. Adds the cost to *cost. */
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

/* True if a value can be recomputed before a step within `limit` seconds, including its operands. Adds the cost to
   *cost. */
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

/* Finds the values live across the peak step that can be recomputed, the largest benefit first. Returns their number,
 * or -1 if out of memory. */
static int eitp__find_candidates(eitp__recompute *r) {
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

/* ---- Inserting steps ---- */

/* Starts the insertion before a step; 0: out of memory. */
static int eitp__begin_insertion(eitp__recompute *r, int before) {
    eitp__insertion *insertion;
    if (!eitp__reserve(r->host, (void **)&r->insertions, &r->insertion_capacity, r->insertion_count + 1,
                       sizeof *r->insertions))
        return 0;
    insertion = &r->insertions[r->insertion_count++];
    insertion->before = before;
    insertion->first = r->inserted_count;
    return 1;
}

/* Returns the index in `inserted` of the first step of the latest insertion. */
static size_t eitp__insertion_first(const eitp__recompute *r) {
    return r->insertions[r->insertion_count - 1].first;
}

/* Adds a step to the latest insertion; 0: out of memory. */
static int eitp__insert_step(eitp__recompute *r, const eitp__step *step) {
    if (!eitp__reserve(r->host, (void **)&r->inserted, &r->inserted_capacity, r->inserted_count + 1,
                       sizeof *r->inserted))
        return 0;
    r->inserted[r->inserted_count++] = *step;
    return 1;
}

/*
 * Moves all inserted steps into the plan. Of two insertions before the same step, the later one comes first. 0: out of
 * memory.
 */
static int eitp__apply_insertions(eitp__recompute *r) {
    eitp_plan *plan = r->plan;
    size_t from = plan->step_count, to = from + r->inserted_count, end = 0, count;
    if (!eitp__reserve(r->host, (void **)&plan->steps, &plan->step_capacity, to, sizeof *plan->steps))
        return 0;
    plan->step_count = to;
    for (size_t a = 0; a < r->insertion_count; a++) {
        const eitp__insertion *insertion = &r->insertions[a];
        count = from - (size_t)insertion->before;
        to -= count;
        from -= count;
        memmove(plan->steps + to, plan->steps + from, count * sizeof *plan->steps);
        end = a + 1 < r->insertion_count ? r->insertions[a + 1].first : r->inserted_count;
        count = end - insertion->first;
        to -= count;
        memcpy(plan->steps + to, r->inserted + insertion->first, count * sizeof *plan->steps);
    }
    return 1;
}

/* Copies a tensor with eitp__tensor_copy, and grows `uses` with the graph. NULL: out of memory. */
static eitp_tensor *eitp__add_copy(eitp__recompute *r, const eitp_tensor *tensor, eitp_tensor *storage, int64_t first) {
    eitp_tensor *copy = eitp__tensor_copy(tensor, storage, first);
    return copy && eitp__recompute_reserve(r) ? copy : NULL;
}

/* Replaces an operand `from` with `to`, and a view of `from` with the same view of `to`; 0: out of memory. */
static int eitp__redirect(eitp__recompute *r, eitp_tensor **operand, const eitp_tensor *from, eitp_tensor *to) {
    int64_t first;
    if (!*operand || eitp__owner(*operand, &first) != from)
        return 1;
    *operand = eitp__lowered(*operand) == from ? to : eitp__add_copy(r, eitp__lowered(*operand), to, first);
    return *operand != NULL;
}

/* True if the step reads or replaces the tensor. */
static int eitp__has_operand(const eitp_plan *plan, const eitp__step *step, int owner) {
    const int *reads = eitp__read_owners(plan, step), *replaced = eitp__replaced_owners(plan, step);
    for (int i = 0; i < eitp__step_read_count(step); i++) {
        if (reads[i] == owner)
            return 1;
    }
    for (int i = 0; i < step->output_count; i++) {
        if (replaced[i] == owner)
            return 1;
    }
    return 0;
}

/* Makes a step read `to` instead of `from`; 0: out of memory. */
static int eitp__redirect_step(eitp__recompute *r, eitp__step *step, const eitp_tensor *from, eitp_tensor *to) {
    int done = 1;
    for (int i = 0; i < step->input_count; i++)
        done &= eitp__redirect(r, &step->inputs[i], from, to);
    for (int i = 0; i < step->output_count; i++)
        done &= eitp__redirect(r, &step->replaces[i], from, to);
    return done & eitp__redirect(r, &step->carry, from, to);
}

/* Makes `count` steps read `to` instead of `from`; 0: out of memory. */
static int eitp__redirect_steps(eitp__recompute *r, eitp__step *steps, size_t count, const eitp_tensor *from,
                                eitp_tensor *to) {
    r->plan->visits.recompute += count;
    for (size_t s = 0; s < count; s++) {
        if (!eitp__has_operand(r->plan, &steps[s], from->id))
            continue;
        if (!eitp__redirect_step(r, &steps[s], from, to))
            return 0;
        eitp__update_owners(r->plan, &steps[s]);
    }
    return 1;
}

/* Changes the last use of a value, and saves the previous one; 0: out of memory. */
static int eitp__set_last(eitp__recompute *r, int value, int last_use) {
    eitp__saved_use *saved;
    if (!eitp__reserve(r->host, (void **)&r->saved_uses, &r->saved_use_capacity, r->saved_use_count + 1,
                       sizeof *r->saved_uses))
        return 0;
    saved = &r->saved_uses[r->saved_use_count++];
    saved->value = value;
    saved->last_use = r->uses[value].last_use;
    r->uses[value].last_use = last_use;
    return 1;
}

static int eitp__recompute_value(eitp__recompute *r, eitp_tensor *value, int before, int depth);

/* Returns the tensor that holds the value and is computed by a step of the latest insertion; NULL: none. */
static eitp_tensor *eitp__inserted_instance(const eitp__recompute *r, const eitp_tensor *value) {
    int origin = r->uses[value->id].origin;
    for (size_t s = eitp__insertion_first(r); s < r->inserted_count; s++) {
        const eitp__step *step = &r->inserted[s];
        for (int o = 0; o < step->output_count; o++) {
            if (r->uses[step->outputs[o]->id].origin == origin)
                return step->outputs[o];
        }
    }
    return NULL;
}

/* Makes the operands of a recipe live before a step, following the decisions of eitp__can_provide; 0: out of memory. */
static int eitp__provide_operands(eitp__recompute *r, eitp__step *recipe, double cost_per_byte, int before, int depth) {
    for (int i = 0; i < eitp__step_read_count(recipe); i++) {
        eitp_tensor *x = eitp__step_read(recipe, i), *owner = x ? eitp__arena_owner(x) : NULL, *instance;
        eitp__recompute_cost cost = EITP__ZERO;
        if (!owner)
            continue;
        instance = eitp__inserted_instance(r, owner);
        if (!instance)
            instance = eitp__live_instance(r, owner, before);
        if (!instance && eitp__is_recomputed_for(r, owner, before, depth, cost_per_byte, &cost)) {
            if (!eitp__recompute_value(r, owner, before, depth + 1))
                return 0;
            instance = eitp__inserted_instance(r, owner);
        }
        if (!instance && r->uses[owner->id].last_use < before && !eitp__set_last(r, owner->id, before))
            return 0; /* otherwise it is kept until here */
        if (instance && instance != owner && !eitp__redirect_step(r, recipe, owner, instance))
            return 0;
    }
    return 1;
}

/* Makes steps from `before` on read `to` instead of any other tensor with the same value. This includes the steps of
   the attempt's earlier insertions, which go there or later. 0: out of memory. */
static int eitp__redirect_instances(eitp__recompute *r, eitp_tensor *to, int before) {
    int done = 1, steps = (int)r->plan->step_count;
    for (int t = r->uses[to->id].origin; t >= 0; t = r->uses[t].next_copy) {
        int last_use = r->uses[t].last_use;
        const eitp_tensor *from = r->plan->graph->tensors[t];
        if (t == to->id || last_use < before)
            continue;
        last_use = last_use < steps ? last_use : steps - 1;
        done &= eitp__redirect_steps(r, r->plan->steps + before, (size_t)(last_use - before + 1), from, to);
        done &= eitp__redirect_steps(r, r->inserted, eitp__insertion_first(r), from, to);
        done &= eitp__set_last(r, t, r->uses[t].next_use >= before ? r->uses[t].previous_use : before - 1);
    }
    return done;
}

/* Gives the recipe new output tensors, which replace the old ones from step `before` on; 0: out of memory. */
static int eitp__replace_outputs(eitp__recompute *r, eitp__step *recipe, int before) {
    for (int i = 0; i < recipe->output_count; i++) {
        eitp_tensor *from = recipe->outputs[i], *to = eitp__add_copy(r, from, NULL, 0);
        eitp__uses *origin;
        if (!to)
            return 0;
        origin = &r->uses[r->uses[from->id].origin];
        r->uses[to->id].origin = r->uses[from->id].origin;
        r->uses[to->id].producer = before; /* not live at earlier steps, where the attempt's other insertions go */
        r->uses[to->id].last_use = INT_MAX;
        r->uses[to->id].next_copy = origin->next_copy;
        origin->next_copy = to->id;
        recipe->outputs[i] = to;
        if (!eitp__redirect_instances(r, to, before))
            return 0;
    }
    return 1;
}

/*
 * Inserts a step that recomputes the value before step `before`, after the steps that recompute its operands. Later
 * steps read its result. 0: out of memory.
 */
static int eitp__recompute_value(eitp__recompute *r, eitp_tensor *value, int before, int depth) {
    eitp__step recipe = eitp__recipe(&r->plan->steps[r->uses[value->id].producer], value);
    double cost_per_byte = eitp__recipe_seconds(r, &recipe, value) / eitp__value_bytes(value);
    return eitp__provide_operands(r, &recipe, cost_per_byte, before, depth) &&
           eitp__replace_outputs(r, &recipe, before) && eitp__list_owners(r->plan, &recipe) &&
           eitp__insert_step(r, &recipe);
}

/* Adds `change`, 1 or -1, to the read count of each tensor that the step reads. */
static void eitp__add_reads(eitp__recompute *r, const eitp__step *step, int change) {
    const int *reads = eitp__read_owners(r->plan, step);
    for (int i = 0; i < eitp__step_read_count(step); i++) {
        if (reads[i] >= 0)
            r->uses[reads[i]].reads += change;
    }
}

static void eitp__count_reads(eitp__recompute *r) {
    for (size_t t = 0; t < r->plan->graph->tensor_count; t++)
        r->uses[t].reads = 0;
    r->plan->visits.recompute += r->plan->step_count;
    for (size_t s = 0; s < r->plan->step_count; s++)
        eitp__add_reads(r, &r->plan->steps[s], 1);
}

/* True if the step recomputes a value that no step reads. */
static int eitp__is_unused_copy(const eitp__recompute *r, const eitp__step *step) {
    const int *outputs = eitp__output_owners(r->plan, step);
    for (int i = 0; i < step->output_count; i++) {
        if (outputs[i] < 0 || r->uses[outputs[i]].origin == outputs[i] || r->uses[outputs[i]].reads)
            return 0;
    }
    return 1;
}

/* Drops recomputed values that no step reads any more because an earlier step recomputes them too, then the steps read
   only by those. */
static void eitp__drop_unused_copies(eitp__recompute *r) {
    eitp_plan *plan = r->plan;
    size_t end = plan->step_count, begin = end;
    eitp__count_reads(r);
    for (size_t s = end; s-- > 0;) {
        if (eitp__is_unused_copy(r, &plan->steps[s]))
            eitp__add_reads(r, &plan->steps[s], -1);
        else if (--begin != s)
            plan->steps[begin] = plan->steps[s];
    }
    plan->step_count = end - begin;
    if (begin)
        memmove(plan->steps, plan->steps + begin, plan->step_count * sizeof *plan->steps);
}

static void eitp__save_steps(eitp__recompute *r) {
    const eitp_plan *plan = r->plan;
    memcpy(r->saved_steps, plan->steps, plan->step_count * sizeof *r->saved_steps);
    memcpy(r->saved_owners, plan->owners, plan->owner_count * sizeof *r->saved_owners);
    r->saved_step_count = plan->step_count;
    r->saved_owner_count = plan->owner_count;
    r->saved_tensor_count = plan->graph->tensor_count;
    r->saved_use_count = 0;
    r->saved_peak = r->peak;
    r->saved_peak_step = r->peak_step;
}

/* Sorts the last step first, so that an insertion does not change the numbers of earlier steps. */
static int eitp__compare_steps(const void *left, const void *right) {
    const eitp__candidate *a = (const eitp__candidate *)left, *b = (const eitp__candidate *)right;
    if (a->before != b->before)
        return a->before > b->before ? -1 : 1;
    return a->value->id < b->value->id ? -1 : a->value->id > b->value->id;
}

/* Inserts steps that recompute `count` candidates, and updates the liveness; 0: out of memory. */
static int eitp__recompute_candidates(eitp__recompute *r, const eitp__candidate *candidates, size_t count) {
    if (!eitp__reserve(r->host, (void **)&r->selected, &r->selected_capacity, count, sizeof *r->selected))
        return 0;
    eitp__save_steps(r);
    memcpy(r->selected, candidates, count * sizeof *candidates);
    eitp__sort(r->selected, count, sizeof *r->selected, eitp__compare_steps);
    r->inserted_count = r->insertion_count = 0;
    for (size_t i = 0; i < count; i++) {
        const eitp__candidate *candidate = &r->selected[i];
        if (!eitp__begin_insertion(r, candidate->before) ||
            !eitp__recompute_value(r, candidate->value, candidate->before, 0))
            return 0;
    }
    if (!eitp__apply_insertions(r))
        return 0;
    eitp__drop_unused_copies(r);
    return eitp__update_liveness(r);
}

/* Restores the steps and their uses to the state before the last eitp__recompute_candidates. */
static void eitp__restore_steps(eitp__recompute *r) {
    eitp_plan *plan = r->plan;
    memcpy(plan->steps, r->saved_steps, r->saved_step_count * sizeof *r->saved_steps);
    memcpy(plan->owners, r->saved_owners, r->saved_owner_count * sizeof *r->saved_owners);
    plan->step_count = r->saved_step_count;
    plan->owner_count = r->saved_owner_count;
    for (size_t t = plan->graph->tensor_count; t-- > r->saved_tensor_count;) {
        /* Each copy was linked right after its origin, so the latest is unlinked first. */
        if (r->uses[t].origin != (int)t)
            r->uses[r->uses[t].origin].next_copy = r->uses[t].next_copy;
        eitp__reset_uses(&r->uses[t], (int)t);
    }
    plan->graph->tensor_count = r->saved_tensor_count;
    while (r->saved_use_count--) {
        const eitp__saved_use *saved = &r->saved_uses[r->saved_use_count];
        if ((size_t)saved->value < r->saved_tensor_count)
            r->uses[saved->value].last_use = saved->last_use;
    }
    r->peak = r->saved_peak;
    r->peak_step = r->saved_peak_step;
}

/* ---- The pass ---- */

/*
 * A round recomputes several candidates of nearly equal benefit, since layers are alike: up to EITP__ROUND_CANDIDATES,
 * and in large graphs up to one for every EITP__ROUND_STEPS steps, so that doubling the layers does not double the
 * rounds.
 */
enum { EITP__ROUND_CANDIDATES = 64, EITP__ROUND_STEPS = 24 };

/* The cost tolerance grows from 1 to this value in powers of 8 while no candidate helps. */
#define EITP__RECOMPUTE_MAX_TOLERANCE 512

/* Returns the number of candidates to recompute in a round: those with nearly the best benefit, and no more than the
   target needs. */
static int eitp__candidates_in_round(const eitp__recompute *r, int count, size_t target) {
    double needed = (double)(r->peak - target), freed = 0;
    int chosen = 0, limit = (int)r->plan->step_count / EITP__ROUND_STEPS;
    limit = limit > EITP__ROUND_CANDIDATES ? limit : EITP__ROUND_CANDIDATES;
    while (chosen < count && chosen < limit && freed < needed &&
           r->candidates[chosen].benefit >= 0.9 * r->candidates[0].benefit)
        freed += r->candidates[chosen++].freed;
    return chosen;
}

/* True if fewer bytes are live at the former peak step, by nearly as many as expected, and the peak is not higher. */
static int eitp__is_improvement(const eitp__recompute *r, size_t peak, int peak_step, size_t old_bytes,
                                double expected) {
    double freed = (double)old_bytes - (double)r->live[peak_step];
    return r->peak <= peak && freed > 0 && freed >= 0.9 * expected;
}

/* Recomputes the candidates with the most benefit. If together they free less than the sum of each, tries half as many,
   down to one at a time. Returns 1 on an improvement, 0 if no candidate helps, -1 if out of memory. */
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
