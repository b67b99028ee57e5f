/* The stretches of a plan's arena: how long each tensor lives, and which take over another's memory. */
#include "tensor/plan.h"

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
    if (eitp__plan_lifetimes(plan) && eitp__largest_use(plan, &plan->stats.peak_bytes))
        return EITP_OK;
    return eitp__fail_memory(error, plan->graph->tensor_count * sizeof *plan->stretches, "the layout of a plan");
}
