/* The arena of a plan: how long each tensor lives, which take over another's memory, and where each lies. */
#include "base/sort.h"
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

static int eitp__new_stretch(eitp_plan *plan, const eitp_tensor *owner, int first) {
    int stretch = eitp__add_stretch(plan, eitp__tensor_bytes(owner), first, first);
    plan->stretch_of[owner->id] = stretch;
    return stretch >= 0;
}

static eitp__stretch *eitp__stretch_for(const eitp_plan *plan, eitp_tensor *tensor) {
    const eitp_tensor *owner = eitp__arena_owner(tensor);
    int index = owner ? plan->stretch_of[owner->id] : -1;
    return index >= 0 ? &plan->stretches[index] : NULL;
}

/* Marks every operand of a step as in use at it. */
static void eitp__extend(eitp_plan *plan, const eitp__step *step, int at) {
    for (int i = 0; i < eitp__step_read_count(step); i++) {
        eitp_tensor *x = eitp__step_read(step, i);
        eitp__stretch *stretch = x ? eitp__stretch_for(plan, x) : NULL;
        if (stretch && stretch->last < at)
            stretch->last = at;
    }
}

/*
 * The first pass over the steps: makes a stretch for every tensor with memory of its own, and finds how long it is
 * used.
 */
static int eitp__find_lifetimes(eitp_plan *plan) {
    eitp_graph *graph = plan->graph;
    int end = (int)plan->step_count;
    for (size_t t = 0; t < graph->tensor_count; t++) {
        const eitp_tensor *tensor = graph->tensors[t];
        if (tensor->leaf == EITP__INPUT && !tensor->is_kept && !eitp__new_stretch(plan, tensor, -1))
            return 0;
    }
    for (int s = 0; s < end; s++) {
        const eitp__step *step = &plan->steps[s];
        for (int i = 0; i < step->output_count; i++) {
            const eitp_tensor *owner = eitp__arena_owner(step->outputs[i]);
            if (owner == step->outputs[i] && !eitp__new_stretch(plan, owner, s))
                return 0;
        }
        eitp__extend(plan, step, s);
    }
    for (size_t t = 0; t < graph->tensor_count; t++) {
        eitp__stretch *stretch = graph->tensors[t]->is_output ? eitp__stretch_for(plan, graph->tensors[t]) : NULL;
        plan->readable[t] = (unsigned char)graph->tensors[t]->is_output;
        if (stretch)
            stretch->last = end;
    }
    return 1;
}

/* May the step's output take over the memory of this input, which nothing reads later? */
static int eitp__can_reuse(const eitp_plan *plan, const eitp__step *step, int at, int input) {
    eitp_tensor *x = step->inputs[input], *y = step->outputs[0], *owner;
    const eitp__stretch *stretch;
    if (!x || x->dtype != y->dtype || !eitp__same_shape(x, y))
        return 0;
    owner = eitp__arena_owner(x);
    stretch = owner && owner->leaf == EITP__COMPUTED && eitp__elements(owner) == eitp__elements(x)
                  ? eitp__stretch_for(plan, x)
                  : NULL;
    return stretch && stretch->last == at;
}

/* An epilogue's operand, among the inputs whose memory y may take: it is read where y is written. */
#define EITP__OPERAND (1u << 3)

/* Puts y where x is, whose value ends. */
static void eitp__take_place(eitp_plan *plan, const eitp_tensor *y, eitp_tensor *x) {
    eitp__stretch *from = &plan->stretches[plan->stretch_of[y->id]], *to = eitp__stretch_for(plan, x);
    to->last = from->last;
    from->size = 0;
    plan->stretch_of[y->id] = (int)(to - plan->stretches);
}

/* Lets outputs take over inputs' memory, where they can, and that of the values they replace, as they must. */
static void eitp__merge_in_place(eitp_plan *plan) {
    for (int s = 0; s < (int)plan->step_count; s++) {
        const eitp__step *step = &plan->steps[s];
        unsigned candidates = step->epilogue ? EITP__OPERAND : eitp__op(step->node->op)->reuse;
        for (int i = 0; i < step->input_count && !step->replaces[0]; i++) {
            if (!(candidates & (1u << i)) || !eitp__can_reuse(plan, step, s, i))
                continue;
            eitp__take_place(plan, step->outputs[0], step->inputs[i]);
            break;
        }
        if (step->replaces[0] && eitp__arena_owner(step->outputs[0]) == step->outputs[0])
            eitp__take_place(plan, step->outputs[0], step->replaces[0]);
    }
}

typedef struct eitp__placement {
    const eitp__stretch *stretches;
    int index;
} eitp__placement;

/* Larger first; among equals the earlier, so that the layout is a function of the graph. */
static int eitp__compare_placements(const void *left, const void *right) {
    const eitp__placement *a = (const eitp__placement *)left, *b = (const eitp__placement *)right;
    size_t a_size = a->stretches[a->index].size, b_size = b->stretches[b->index].size;
    if (a_size != b_size)
        return a_size > b_size ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static int eitp__compare_offsets(const void *left, const void *right) {
    const eitp__placement *a = (const eitp__placement *)left, *b = (const eitp__placement *)right;
    size_t a_offset = a->stretches[a->index].offset, b_offset = b->stretches[b->index].offset;
    if (a_offset != b_offset)
        return a_offset < b_offset ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/*
 * Puts the largest stretch first, each at the lowest place that is free all the time it is in use. `placed` is kept
 * sorted by offset.
 */
static void eitp__place_all(eitp_plan *plan, eitp__placement *order, eitp__placement *placed) {
    size_t count = 0;
    for (size_t i = 0; i < plan->stretch_count; i++) {
        eitp__stretch *stretch = &plan->stretches[order[i].index];
        size_t offset = 0, at;
        /* Those that lie in others are last. */
        if (!stretch->size)
            break;
        for (size_t j = 0; j < count; j++) {
            const eitp__stretch *other = &plan->stretches[placed[j].index];
            if (other->last < stretch->first || stretch->last < other->first || other->offset + other->size <= offset)
                continue;
            if (other->offset >= offset + stretch->size)
                break;
            offset = other->offset + other->size;
        }
        stretch->offset = offset;
        for (at = count; at && eitp__compare_offsets(&placed[at - 1], &order[i]) > 0; at--)
            placed[at] = placed[at - 1];
        placed[at] = order[i];
        count++;
        if (offset + stretch->size > plan->stats.arena_bytes)
            plan->stats.arena_bytes = offset + stretch->size;
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
    if (!eitp__find_lifetimes(plan))
        return 0;
    eitp__merge_in_place(plan);
    return eitp__plan_windows(plan);
}

EITP__PRIVATE eitp_status eitp__plan_layout(eitp_plan *plan, eitp_error *error) {
    const eitp_host *host = &plan->context->host;
    eitp__placement *order, *placed;
    size_t bytes;
    int done = 1;
    plan->stats.arena_bytes = 0;
    if (!eitp__plan_lifetimes(plan))
        return eitp__fail_memory(error, plan->graph->tensor_count * sizeof *plan->stretches, "the layout of a plan");
    bytes = plan->stretch_count * sizeof *order;
    order = (eitp__placement *)eitp__allocate(host, bytes);
    placed = (eitp__placement *)eitp__allocate(host, bytes);
    if (bytes && order && placed) {
        for (size_t i = 0; i < plan->stretch_count; i++) {
            order[i].stretches = plan->stretches;
            order[i].index = (int)i;
        }
        eitp__sort(order, plan->stretch_count, sizeof *order, eitp__compare_placements);
        eitp__place_all(plan, order, placed);
        done = eitp__largest_use(plan, &plan->stats.largest_bytes);
    }
    eitp__release(host, order, bytes);
    eitp__release(host, placed, bytes);
    return bytes && (!order || !placed || !done) ? eitp__fail_memory(error, bytes, "the layout of a plan") : EITP_OK;
}
