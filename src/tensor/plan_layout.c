/* The arena of a plan: how long each tensor lives, and which take over another's memory. */
#include "tensor/plan.h"

/* The tensor that owns the memory a tensor lies in; NULL where that is a variable. */
static eitp_tensor *eitp__arena_owner(eitp_tensor *tensor) {
    eitp_tensor *owner = eitp__owner(tensor, NULL);
    return owner->leaf == EITP__VARIABLE ? NULL : owner;
}

EITP__PRIVATE int eitp__add_stretch(eitp_plan *plan, size_t size, int first, int last) {
    eitp__stretch *stretch;
    if (!eitp__reserve(&plan->context->host, (void **)&plan->stretches, &plan->stretch_capacity,
                       plan->stretch_count + 1, sizeof *plan->stretches))
        return -1;
    stretch = &plan->stretches[plan->stretch_count];
    stretch->size = (size + EITP__ALIGNMENT - 1) / EITP__ALIGNMENT * EITP__ALIGNMENT;
    stretch->offset = 0;
    stretch->first = first;
    stretch->last = last;
    return (int)plan->stretch_count++;
}

/* ---- Owners ---- */

static int eitp__owner_number(eitp_tensor *tensor) {
    const eitp_tensor *owner = tensor ? eitp__owner(tensor, NULL) : NULL;
    if (!owner)
        return EITP__NO_OWNER;
    return owner->leaf == EITP__VARIABLE ? -2 - (int)owner->variable : owner->id;
}

/* An epilogue's operand, among the inputs whose memory y may take: it is read where y is written. */
#define EITP__OPERAND (1u << 3)

/* Is the input all of a computed tensor of the output's dtype and shape? */
static int eitp__is_alike(eitp_tensor *x, const eitp_tensor *y) {
    const eitp_tensor *owner = x && x->dtype == y->dtype && eitp__same_shape(x, y) ? eitp__arena_owner(x) : NULL;
    return owner && owner->leaf == EITP__COMPUTED && eitp__elements(owner) == eitp__elements(x);
}

static unsigned eitp__reusable_inputs(const eitp__step *step) {
    unsigned candidates = step->epilogue ? EITP__OPERAND : eitp__op(step->node->op)->reuse, reusable = 0;
    for (int i = 0; i < step->input_count && !step->replaces[0]; i++) {
        if (candidates & (1u << i) && eitp__is_alike(step->inputs[i], step->outputs[0]))
            reusable |= 1u << i;
    }
    return reusable;
}

EITP__PRIVATE void eitp__update_owners(eitp_plan *plan, eitp__step *step) {
    int *reads = eitp__read_owners(plan, step), *outputs = eitp__output_owners(plan, step);
    int *replaced = eitp__replaced_owners(plan, step);
    for (int i = 0; i < eitp__step_read_count(step); i++)
        reads[i] = eitp__owner_number(eitp__step_read(step, i));
    for (int i = 0; i < step->output_count; i++) {
        int number = eitp__owner_number(step->outputs[i]);
        outputs[i] = number == step->outputs[i]->id ? number : EITP__NO_OWNER;
        replaced[i] = eitp__owner_number(step->replaces[i]);
    }
}

static int eitp__reserve_sizes(eitp_plan *plan) {
    return eitp__reserve(&plan->context->host, (void **)&plan->sizes, &plan->size_capacity, plan->graph->tensor_count,
                         sizeof *plan->sizes);
}

EITP__PRIVATE int eitp__list_owners(eitp_plan *plan, eitp__step *step) {
    size_t count = (size_t)eitp__step_read_count(step) + 2 * (size_t)step->output_count;
    if (!eitp__reserve(&plan->context->host, (void **)&plan->owners, &plan->owner_capacity, plan->owner_count + count,
                       sizeof *plan->owners))
        return 0;
    if (!eitp__reserve_sizes(plan))
        return 0;
    for (int i = 0; i < step->output_count; i++)
        plan->sizes[step->outputs[i]->id] = eitp__tensor_bytes(step->outputs[i]);
    step->owners = plan->owner_count;
    step->reusable = eitp__reusable_inputs(step);
    plan->owner_count += count;
    eitp__update_owners(plan, step);
    return 1;
}

static int eitp__append_output(eitp_plan *plan, int id) {
    if (!eitp__reserve(&plan->context->host, (void **)&plan->outputs, &plan->output_capacity, plan->output_count + 1,
                       sizeof *plan->outputs))
        return 0;
    plan->outputs[plan->output_count++] = id;
    return 1;
}

EITP__PRIVATE int eitp__list_operands(eitp_plan *plan) {
    const eitp_graph *graph = plan->graph;
    int done = eitp__reserve_sizes(plan);
    for (size_t s = 0; s < plan->step_count && done; s++)
        done = eitp__list_owners(plan, &plan->steps[s]);
    for (size_t i = 0; i < plan->input_count && done; i++)
        plan->sizes[plan->inputs[i].tensor->id] = eitp__tensor_bytes(plan->inputs[i].tensor);
    for (int t = 0; t < (int)graph->tensor_count && done; t++) {
        if (graph->tensors[t]->is_output)
            done = eitp__append_output(plan, t);
    }
    return done;
}

/* ---- Lifetimes ---- */

static int eitp__new_stretch(eitp_plan *plan, int owner, int first) {
    int stretch = eitp__add_stretch(plan, plan->sizes[owner], first, first);
    plan->stretch_of[owner] = stretch;
    return stretch >= 0;
}

/* The stretch of a tensor in the arena, by its number; NULL: of what is not there, or not yet. */
static eitp__stretch *eitp__stretch_of(const eitp_plan *plan, int owner) {
    int index = owner >= 0 ? plan->stretch_of[owner] : -1;
    return index >= 0 ? &plan->stretches[index] : NULL;
}

/* Marks every operand of a step as in use at it. */
static void eitp__extend(eitp_plan *plan, const eitp__step *step, int at) {
    const int *reads = eitp__read_owners(plan, step);
    for (int i = 0; i < eitp__step_read_count(step); i++) {
        eitp__stretch *stretch = eitp__stretch_of(plan, reads[i]);
        if (stretch)
            stretch->last = at;
    }
}

/*
 * The first pass over the steps: makes a stretch for every tensor with memory of its own, and finds how long it is
 * used.
 */
static int eitp__find_lifetimes(eitp_plan *plan) {
    eitp_tensor *const *tensors = plan->graph->tensors;
    int end = (int)plan->step_count;
    for (size_t i = 0; i < plan->input_count; i++) {
        if (!plan->inputs[i].is_kept && !eitp__new_stretch(plan, plan->inputs[i].tensor->id, -1))
            return 0;
    }
    plan->visits.lifetimes += plan->step_count;
    for (int s = 0; s < end; s++) {
        const eitp__step *step = &plan->steps[s];
        const int *outputs = eitp__output_owners(plan, step);
        for (int i = 0; i < step->output_count; i++) {
            if (outputs[i] >= 0 && !eitp__new_stretch(plan, outputs[i], s))
                return 0;
        }
        eitp__extend(plan, step, s);
    }
    for (size_t i = 0; i < plan->output_count; i++) {
        eitp__stretch *stretch = eitp__stretch_of(plan, eitp__owner_number(tensors[plan->outputs[i]]));
        plan->readable[plan->outputs[i]] = 1;
        if (stretch)
            stretch->last = end;
    }
    return 1;
}

/* Puts y where x is, whose value ends. */
static void eitp__take_place(eitp_plan *plan, int y, int x) {
    eitp__stretch *from = &plan->stretches[plan->stretch_of[y]], *to = &plan->stretches[plan->stretch_of[x]];
    to->last = from->last;
    from->size = 0;
    plan->stretch_of[y] = plan->stretch_of[x];
}

/* Lets outputs take over inputs' memory, where they can, and that of the values they replace, as they must. */
static void eitp__merge_in_place(eitp_plan *plan) {
    for (int s = 0; s < (int)plan->step_count; s++) {
        const eitp__step *step = &plan->steps[s];
        const int *reads = eitp__read_owners(plan, step), y = eitp__output_owners(plan, step)[0];
        for (int i = 0; y >= 0 && step->reusable >> i; i++) {
            const eitp__stretch *stretch = step->reusable >> i & 1 ? eitp__stretch_of(plan, reads[i]) : NULL;
            if (!stretch || stretch->last != s)
                continue;
            eitp__take_place(plan, y, reads[i]);
            break;
        }
        if (step->replaces[0] && y >= 0)
            eitp__take_place(plan, y, eitp__replaced_owners(plan, step)[0]);
    }
}

/* The most that is in use at one step; 0: no memory. */
static int eitp__largest_use(const eitp_plan *plan, size_t *largest) {
    const eitp_host *host = &plan->context->host;
    size_t steps = plan->step_count + 3, used = 0;
    size_t *change = (size_t *)eitp__allocate(host, steps * sizeof *change); /* from before the first step on */
    *largest = 0;
    if (!change)
        return 0;
    for (size_t i = 0; i < plan->stretch_count; i++) {
        const eitp__stretch *stretch = &plan->stretches[i];
        change[stretch->first + 1] += stretch->size;
        change[stretch->last + 2] -= stretch->size; /* wraps around; the sum is right */
    }
    for (size_t s = 0; s < steps; s++) {
        used += change[s];
        *largest = used > *largest ? used : *largest;
    }
    eitp__release(host, change, steps * sizeof *change);
    return 1;
}

EITP__PRIVATE int eitp__plan_lifetimes(eitp_plan *plan) {
    const eitp_host *host = &plan->context->host;
    size_t tensors = plan->graph->tensor_count;
    if (!eitp__reserve(host, (void **)&plan->stretch_of, &plan->stretch_of_capacity, tensors,
                       sizeof *plan->stretch_of) ||
        !eitp__reserve(host, (void **)&plan->readable, &plan->readable_capacity, tensors, 1))
        return 0;
    plan->tensor_count = tensors;
    plan->stretch_count = 0;
    memset(plan->stretch_of, -1, tensors * sizeof *plan->stretch_of);
    memset(plan->readable, 0, tensors);
    if (!eitp__find_lifetimes(plan))
        return 0;
    eitp__merge_in_place(plan);
    return eitp__plan_windows(plan);
}

EITP__PRIVATE eitp_status eitp__plan_layout(eitp_plan *plan, eitp_error *error) {
    plan->stats.arena_bytes = 0;
    if (eitp__plan_lifetimes(plan) && eitp__plan_place(plan) && eitp__largest_use(plan, &plan->stats.largest_bytes))
        return EITP_OK;
    return eitp__fail_memory(error, plan->graph->tensor_count * sizeof *plan->stretches, "the layout of a plan");
}
