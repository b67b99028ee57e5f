/* Inserts the steps that recompute values into a plan, and undoes it. */
#include "base/sort.h"
#include "tensor/plan_recompute.h"

#include <limits.h>

/* Begins the insertion before a step; 0: out of memory. */
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

/* Index in `inserted` of the first step of the latest insertion. */
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

/* Replaces an operand that is `from` by `to`, and a view of `from` by the same view of `to`; 0: out of memory. */
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

/* Changes the last use of a value, and saves the former one; 0: out of memory. */
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

/* The tensor that holds the value and is computed by a step of the latest insertion; NULL: none. */
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

/* Makes the operands of a recipe live before a step, by the decisions of eitp__can_provide; 0: out of memory. */
static int eitp__provide_operands(eitp__recompute *r, eitp__step *recipe, double cost_per_byte, int before, int depth) {
    for (int i = 0; i < eitp__step_read_count(recipe); i++) {
        eitp_tensor *x = eitp__step_read(recipe, i), *owner = x ? eitp__arena_value(x) : NULL, *instance;
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

/*
 * Makes steps from `before` on, and the steps of the attempt's earlier insertions, which go there too, read `to`
 * instead of any other tensor with the same value; 0: out of memory.
 */
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
        r->uses[to->id].producer = before; /* not live at earlier steps, where other insertions of the attempt go */
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

/*
 * Drops recomputed values that no step reads any more, because an earlier step recomputes them too, then the steps that
 * only those read.
 */
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

/* The last step first, so that an insertion leaves the numbers of earlier steps as they are. */
static int eitp__compare_steps(const void *left, const void *right) {
    const eitp__candidate *a = (const eitp__candidate *)left, *b = (const eitp__candidate *)right;
    if (a->before != b->before)
        return a->before > b->before ? -1 : 1;
    return a->value->id < b->value->id ? -1 : a->value->id > b->value->id;
}

EITP__PRIVATE int eitp__recompute_candidates(eitp__recompute *r, const eitp__candidate *candidates, size_t count) {
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

EITP__PRIVATE void eitp__restore_steps(eitp__recompute *r) {
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
