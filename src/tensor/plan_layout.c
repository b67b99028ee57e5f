/* The arena blocks of a plan: the lifetime of each tensor, and in-place reuse. */
#include "tensor/plan.h"

/* ---- Lifetimes ---- */

static int eitp__new_arena_block(eitp_plan *plan, int owner, int first) {
    int block = eitp__add_arena_block(plan, plan->sizes[owner], first, first);
    plan->block_of[owner] = block;
    return block >= 0;
}

/* The block of a tensor by its owner entry; NULL if it has none yet, or is not in the arena. */
static eitp__arena_block *eitp__arena_block_of(const eitp_plan *plan, int owner) {
    int index = owner >= 0 ? plan->block_of[owner] : -1;
    return index >= 0 ? &plan->blocks[index] : NULL;
}

/* Extends the lifetime of every operand of a step to it. */
static void eitp__extend_lifetimes(eitp_plan *plan, const eitp__step *step, int at) {
    const int *reads = eitp__read_owners(plan, step);
    for (int i = 0; i < eitp__step_read_count(step); i++) {
        eitp__arena_block *block = eitp__arena_block_of(plan, reads[i]);
        if (block)
            block->last = at;
    }
}

/* Adds a block for every tensor with memory of its own, and finds its lifetime. */
static int eitp__find_lifetimes(eitp_plan *plan) {
    eitp_tensor *const *tensors = plan->graph->tensors;
    int end = (int)plan->step_count;
    for (size_t i = 0; i < plan->input_count; i++) {
        if (!plan->inputs[i].is_kept && !eitp__new_arena_block(plan, plan->inputs[i].tensor->id, -1))
            return 0;
    }
    plan->visits.lifetimes += plan->step_count;
    for (int s = 0; s < end; s++) {
        const eitp__step *step = &plan->steps[s];
        const int *outputs = eitp__output_owners(plan, step);
        for (int i = 0; i < step->output_count; i++) {
            if (outputs[i] >= 0 && !eitp__new_arena_block(plan, outputs[i], s))
                return 0;
        }
        eitp__extend_lifetimes(plan, step, s);
    }
    for (size_t i = 0; i < plan->output_count; i++) {
        eitp__arena_block *block = eitp__arena_block_of(plan, eitp__owner_number(tensors[plan->outputs[i]]));
        plan->readable[plan->outputs[i]] = 1;
        if (block)
            block->last = end;
    }
    return 1;
}

/* Moves the owner y to the block of x, whose value it overwrites. */
static void eitp__share_block(eitp_plan *plan, int y, int x) {
    eitp__arena_block *from = &plan->blocks[plan->block_of[y]], *to = &plan->blocks[plan->block_of[x]];
    to->last = from->last;
    from->size = 0;
    plan->block_of[y] = plan->block_of[x];
}

/* Reuses input memory for outputs where allowed. In-place updates always reuse the memory of the value they replace. */
static void eitp__reuse_in_place(eitp_plan *plan) {
    for (int s = 0; s < (int)plan->step_count; s++) {
        const eitp__step *step = &plan->steps[s];
        const int *reads = eitp__read_owners(plan, step), y = eitp__output_owners(plan, step)[0];
        for (int i = 0; y >= 0 && step->reusable >> i; i++) {
            const eitp__arena_block *block = step->reusable >> i & 1 ? eitp__arena_block_of(plan, reads[i]) : NULL;
            if (!block || block->last != s)
                continue;
            eitp__share_block(plan, y, reads[i]);
            break;
        }
        if (step->replaces[0] && y >= 0)
            eitp__share_block(plan, y, eitp__replaced_owners(plan, step)[0]);
    }
}

/* Finds the most bytes in use at one step; 0: out of memory. */
static int eitp__find_peak_bytes(const eitp_plan *plan, size_t *peak) {
    const eitp_host *host = &plan->context->host;
    size_t steps = plan->step_count + 3, used = 0;
    size_t *change = (size_t *)eitp__allocate(host, steps * sizeof *change); /* from step -1 on */
    *peak = 0;
    if (!change)
        return 0;
    for (size_t i = 0; i < plan->block_count; i++) {
        const eitp__arena_block *block = &plan->blocks[i];
        change[block->first + 1] += block->size;
        change[block->last + 2] -= block->size; /* unsigned wrap-around cancels in the sum */
    }
    for (size_t s = 0; s < steps; s++) {
        used += change[s];
        *peak = used > *peak ? used : *peak;
    }
    eitp__release(host, change, steps * sizeof *change);
    return 1;
}

EITP__PRIVATE int eitp__plan_lifetimes(eitp_plan *plan) {
    const eitp_host *host = &plan->context->host;
    size_t tensors = plan->graph->tensor_count;
    if (!eitp__reserve(host, (void **)&plan->block_of, &plan->block_of_capacity, tensors, sizeof *plan->block_of) ||
        !eitp__reserve(host, (void **)&plan->readable, &plan->readable_capacity, tensors, 1))
        return 0;
    plan->tensor_count = tensors;
    plan->block_count = 0;
    memset(plan->block_of, -1, tensors * sizeof *plan->block_of);
    memset(plan->readable, 0, tensors);
    if (!eitp__find_lifetimes(plan))
        return 0;
    eitp__reuse_in_place(plan);
    return eitp__plan_windows(plan);
}

EITP__PRIVATE eitp_status eitp__plan_layout(eitp_plan *plan, eitp_error *error) {
    if (eitp__plan_lifetimes(plan) && eitp__find_peak_bytes(plan, &plan->stats.peak_bytes))
        return EITP_OK;
    return eitp__fail_memory(error, plan->graph->tensor_count * sizeof *plan->blocks, "the layout of a plan");
}
