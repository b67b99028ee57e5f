/* The arena of a plan: lifetimes of its blocks, and their offsets. */
#include "base/sort.h"
#include "tensor/plan.h"

/* ---- Layout ---- */

/* Computes the arena blocks of a plan: the lifetime of each tensor, and in-place reuse. */

/* ---- Lifetimes ---- */

static int eitp__new_arena_block(eitp_plan *plan, int owner, int first) {
    int block = eitp__add_arena_block(plan, plan->sizes[owner], first, first);
    plan->block_of[owner] = block;
    return block >= 0;
}

/* Returns the block of a tensor given its owner entry; NULL if it has none yet, or is not in the arena. */
static eitp__arena_block *eitp__arena_block_of(const eitp_plan *plan, int owner) {
    int index = owner >= 0 ? plan->block_of[owner] : -1;
    return index >= 0 ? &plan->blocks[index] : NULL;
}

/* Extends the lifetime of every operand of a step to that step. */
static void eitp__extend_lifetimes(eitp_plan *plan, const eitp__step *step, int at) {
    const int *reads = eitp__read_owners(plan, step);
    for (int i = 0; i < eitp__step_read_count(step); i++) {
        eitp__arena_block *block = eitp__arena_block_of(plan, reads[i]);
        if (block)
            block->last = at;
    }
}

/* Adds a block for every tensor with its own memory, and finds its lifetime. */
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
    size_t *change = (size_t *)eitp__allocate(host, steps * sizeof *change); /* entry 0 is step -1 */
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
    return eitp__plan_stagings(plan);
}

EITP__PRIVATE eitp_status eitp__plan_layout(eitp_plan *plan, eitp_error *error) {
    if (eitp__plan_lifetimes(plan) && eitp__find_peak_bytes(plan, &plan->stats.peak_bytes))
        return EITP_OK;
    return eitp__fail_memory(error, plan->graph->tensor_count * sizeof *plan->blocks, "the layout of a plan");
}

/* ---- Placement ---- */

/*
 * Offsets of arena blocks: first fit, the largest blocks first. Each block gets the lowest offset that is free
 * throughout its lifetime.
 *
 * Two binary trees over the steps avoid comparing every pair of blocks. The first is an interval tree: a block belongs
 * to the highest node whose middle step is in its lifetime. The blocks of a node are all live at that step, so they do
 * not overlap, and their order by offset is also the order by end. The second is a segment tree that has for each step
 * the filled prefix of the arena: up to there no byte is free, so no other block live at that step can start below.
 */

/* Adjacent blocks of a node: bytes [begin, end) without a gap, all in use at steps [first, last]. */
typedef struct eitp__place_span {
    size_t begin, end;
    int first, last;
} eitp__place_span;

/* A node of both trees: node 1 is the root, the children of node n are 2 n and 2 n + 1. */
typedef struct eitp__place_node {
    size_t begin, count;           /* its blocks are placed[begin], ..., placed[begin + count - 1] */
    size_t span_count;             /* its spans start at spans[begin] */
    size_t highest;                /* largest end of the blocks in this node and below */
    size_t min_filled, max_filled; /* shortest and longest filled prefix at its steps */
} eitp__place_node;

typedef struct eitp__placer {
    eitp_plan *plan;
    int *placed; /* numbers of placed blocks, by node, sorted by offset */
    eitp__place_span *spans;
    eitp__place_node *nodes;
    size_t steps; /* number of leaves, a power of two; step s is leaf s + 1, since steps start at -1 */
} eitp__placer;

typedef struct eitp__place_order {
    const eitp__arena_block *blocks;
    int index;
} eitp__place_order;

/* A node and its leaves [first, end). */
typedef struct eitp__place_range {
    size_t node, first, end;
} eitp__place_range;

static size_t eitp__range_middle(const eitp__place_range *range) {
    return range->first + (range->end - range->first) / 2;
}

static eitp__place_range eitp__range_child(const eitp__place_range *range, int right) {
    eitp__place_range child = *range;
    child.node = 2 * range->node + (size_t)right;
    if (right)
        child.first = eitp__range_middle(range);
    else
        child.end = eitp__range_middle(range);
    return child;
}

static eitp__place_range eitp__range_all(const eitp__placer *p) {
    eitp__place_range range;
    range.node = 1;
    range.first = 0;
    range.end = p->steps;
    return range;
}

static size_t eitp__first_leaf(const eitp__arena_block *block) {
    return (size_t)(block->first + 1);
}

static size_t eitp__last_leaf(const eitp__arena_block *block) {
    return (size_t)(block->last + 1);
}

/* True if the block is in use at all steps of the range. */
static int eitp__covers(const eitp__arena_block *block, const eitp__place_range *range) {
    return eitp__first_leaf(block) <= range->first && eitp__last_leaf(block) + 1 >= range->end;
}

/* True if the block is in use at no step of the range. */
static int eitp__misses(const eitp__arena_block *block, const eitp__place_range *range) {
    return eitp__last_leaf(block) < range->first || eitp__first_leaf(block) >= range->end;
}

static size_t eitp__arena_block_end(const eitp__arena_block *block) {
    return block->offset + block->size;
}

/* Returns the node of a block: the highest one whose middle step is in its lifetime. */
static size_t eitp__node_of(const eitp__placer *p, const eitp__arena_block *block) {
    eitp__place_range range = eitp__range_all(p);
    while (range.end - range.first > 1) {
        size_t middle = eitp__range_middle(&range);
        if (eitp__first_leaf(block) < middle && eitp__last_leaf(block) >= middle)
            break;
        range = eitp__range_child(&range, eitp__first_leaf(block) >= middle);
    }
    return range.node;
}

/* ---- Filled prefixes ---- */

/* Copies the prefix of a node to its children if it is the same at all its steps, since the children's values may be
   outdated. */
static void eitp__push_filled(eitp__placer *p, size_t node) {
    eitp__place_node *nodes = p->nodes;
    if (nodes[node].min_filled != nodes[node].max_filled)
        return;
    nodes[2 * node].min_filled = nodes[2 * node].max_filled = nodes[node].min_filled;
    nodes[2 * node + 1].min_filled = nodes[2 * node + 1].max_filled = nodes[node].min_filled;
}

/* Returns the longest filled prefix at the steps of the block. */
static size_t eitp__max_filled_at(eitp__placer *p, const eitp__place_range *range, const eitp__arena_block *block) {
    eitp__place_range left, right;
    size_t a, b;
    const eitp__place_node *node = &p->nodes[range->node];
    if (eitp__misses(block, range))
        return 0;
    if (eitp__covers(block, range) || node->min_filled == node->max_filled)
        return node->max_filled;
    left = eitp__range_child(range, 0);
    right = eitp__range_child(range, 1);
    a = eitp__max_filled_at(p, &left, block);
    b = eitp__max_filled_at(p, &right, block);
    return a > b ? a : b;
}

/* Raises each filled prefix that ends exactly at the start of the block to the block's end. */
static void eitp__raise_filled(eitp__placer *p, const eitp__place_range *range, const eitp__arena_block *block) {
    eitp__place_range left, right;
    eitp__place_node *nodes = p->nodes, *node = &nodes[range->node];
    if (eitp__misses(block, range) || node->max_filled < block->offset || node->min_filled > block->offset)
        return;
    if (eitp__covers(block, range) && node->min_filled == node->max_filled) {
        node->min_filled = node->max_filled = eitp__arena_block_end(block);
        return;
    }
    eitp__push_filled(p, range->node);
    left = eitp__range_child(range, 0);
    right = eitp__range_child(range, 1);
    eitp__raise_filled(p, &left, block);
    eitp__raise_filled(p, &right, block);
    node->min_filled = nodes[left.node].min_filled < nodes[right.node].min_filled ? nodes[left.node].min_filled
                                                                                  : nodes[right.node].min_filled;
    node->max_filled = nodes[left.node].max_filled > nodes[right.node].max_filled ? nodes[left.node].max_filled
                                                                                  : nodes[right.node].max_filled;
}

/* ---- Placed blocks ---- */

/* Returns the index in the node of its first block that ends after an offset. */
static size_t eitp__first_after(const eitp__placer *p, const eitp__place_node *node, size_t offset) {
    size_t low = 0, high = node->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (eitp__arena_block_end(&p->plan->blocks[p->placed[node->begin + middle]]) > offset)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Returns the index in the node of its first span that ends at or after an offset. */
static size_t eitp__first_span(const eitp__placer *p, const eitp__place_node *node, size_t offset) {
    const eitp__place_span *spans = p->spans + node->begin;
    size_t low = 0, high = node->span_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (spans[middle].end >= offset)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Joins a span with the next one, which starts at its end. */
static void eitp__join_spans(eitp__place_span *span, const eitp__place_span *next) {
    span->end = next->end;
    span->first = span->first > next->first ? span->first : next->first;
    span->last = span->last < next->last ? span->last : next->last;
}

static void eitp__insert_span(eitp__placer *p, eitp__place_node *node, const eitp__arena_block *block) {
    eitp__place_span *spans = p->spans + node->begin, added;
    size_t at = eitp__first_span(p, node, block->offset), rest;
    added.begin = block->offset;
    added.end = eitp__arena_block_end(block);
    added.first = block->first;
    added.last = block->last;
    if (at < node->span_count && spans[at].end == added.begin) {
        eitp__join_spans(&spans[at], &added);
    } else {
        memmove(spans + at + 1, spans + at, (node->span_count - at) * sizeof *spans);
        spans[at] = added;
        node->span_count++;
    }
    rest = node->span_count - at - 1;
    if (rest && spans[at + 1].begin == added.end) {
        eitp__join_spans(&spans[at], &spans[at + 1]);
        memmove(spans + at + 1, spans + at + 2, (rest - 1) * sizeof *spans);
        node->span_count--;
    }
}

/* Moves *offset beyond the node's blocks below `end` that conflict with `block`, one by one. */
static void eitp__skip_block_conflicts(const eitp__placer *p, const eitp__place_node *node, size_t end,
                                       const eitp__arena_block *block, size_t *offset) {
    for (size_t i = eitp__first_after(p, node, *offset); i < node->count; i++) {
        const eitp__arena_block *other = &p->plan->blocks[p->placed[node->begin + i]];
        if (other->offset >= end || other->offset >= *offset + block->size)
            break;
        p->plan->visits.layout++;
        if (other->last >= block->first && other->first <= block->last)
            *offset = eitp__arena_block_end(other);
    }
}

/* Moves *offset beyond the node's blocks that conflict with `block`, skipping whole spans if all their blocks
   conflict. */
static void eitp__skip_node_conflicts(const eitp__placer *p, const eitp__place_node *node,
                                      const eitp__arena_block *block, size_t *offset) {
    for (size_t i = eitp__first_span(p, node, *offset + 1); i < node->span_count; i++) {
        const eitp__place_span *span = &p->spans[node->begin + i];
        if (span->begin >= *offset + block->size)
            break;
        p->plan->visits.layout++;
        if (span->first <= block->last && span->last >= block->first)
            *offset = span->end;
        else
            eitp__skip_block_conflicts(p, node, span->end, block, offset);
    }
}

/* Moves *offset beyond all blocks in the subtree that conflict with `block`. */
static void eitp__skip_conflicts(const eitp__placer *p, const eitp__place_range *range, const eitp__arena_block *block,
                                 size_t *offset) {
    const eitp__place_node *node = &p->nodes[range->node];
    eitp__place_range child;
    if (node->highest <= *offset || eitp__misses(block, range))
        return;
    eitp__skip_node_conflicts(p, node, block, offset);
    for (int right = 0; right < 2 && range->end - range->first > 1; right++) {
        child = eitp__range_child(range, right);
        eitp__skip_conflicts(p, &child, block, offset);
    }
}

/* Adds a placed block to its node. */
static void eitp__insert_placed(eitp__placer *p, int index) {
    const eitp__arena_block *block = &p->plan->blocks[index];
    size_t number = eitp__node_of(p, block), end = eitp__arena_block_end(block), at;
    eitp__place_node *node = &p->nodes[number];
    int *placed = p->placed + node->begin;
    at = eitp__first_after(p, node, block->offset);
    memmove(placed + at + 1, placed + at, (node->count - at) * sizeof *placed);
    placed[at] = index;
    node->count++;
    eitp__insert_span(p, node, block);
    for (; number && p->nodes[number].highest < end; number /= 2)
        p->nodes[number].highest = end;
}

static void eitp__place_block(eitp__placer *p, int index) {
    eitp_plan *plan = p->plan;
    eitp__arena_block *block = &plan->blocks[index];
    const eitp__place_range all = eitp__range_all(p);
    size_t offset = eitp__max_filled_at(p, &all, block), before;
    plan->visits.layout++;
    do {
        before = offset;
        eitp__skip_conflicts(p, &all, block, &offset);
    } while (offset != before);
    block->offset = offset;
    eitp__insert_placed(p, index);
    eitp__raise_filled(p, &all, block);
    if (eitp__arena_block_end(block) > plan->stats.arena_bytes)
        plan->stats.arena_bytes = eitp__arena_block_end(block);
}

/* ---- Order of placement ---- */

/* Orders larger blocks first, and equal ones by number, so the layout depends only on the graph. */
static int eitp__compare_placements(const void *left, const void *right) {
    const eitp__place_order *a = (const eitp__place_order *)left, *b = (const eitp__place_order *)right;
    size_t a_size = a->blocks[a->index].size, b_size = b->blocks[b->index].size;
    if (a_size != b_size)
        return a_size > b_size ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* Assigns each node its part of `placed`. */
static void eitp__divide_placed(eitp__placer *p, const eitp__place_order *order) {
    size_t begin = 0;
    for (size_t i = 0; i < p->plan->block_count; i++)
        p->nodes[eitp__node_of(p, &p->plan->blocks[order[i].index])].count++;
    for (size_t n = 1; n < 2 * p->steps; n++) {
        p->nodes[n].begin = begin;
        begin += p->nodes[n].count;
        p->nodes[n].count = 0;
    }
}

EITP__PRIVATE eitp_status eitp__plan_place(eitp_plan *plan, eitp_error *error) {
    const eitp_host *host = &plan->context->host;
    size_t count = plan->block_count;
    eitp__place_order *order = (eitp__place_order *)eitp__allocate(host, count * sizeof *order);
    eitp__placer p = EITP__ZERO;
    int done = 0;
    plan->stats.arena_bytes = 0;
    p.plan = plan;
    p.steps = 1;
    while (p.steps < plan->step_count + 2)
        p.steps *= 2;
    p.placed = (int *)eitp__allocate(host, count * sizeof *p.placed);
    p.spans = (eitp__place_span *)eitp__allocate(host, count * sizeof *p.spans);
    p.nodes = (eitp__place_node *)eitp__allocate(host, 2 * p.steps * sizeof *p.nodes);
    if (order && p.placed && p.spans && p.nodes) {
        for (size_t i = 0; i < count; i++) {
            order[i].blocks = plan->blocks;
            order[i].index = (int)i;
        }
        eitp__sort(order, count, sizeof *order, eitp__compare_placements);
        eitp__divide_placed(&p, order);
        /* Blocks that were merged into others have size 0 and come last. */
        for (size_t i = 0; i < count && plan->blocks[order[i].index].size; i++)
            eitp__place_block(&p, order[i].index);
        done = 1;
    }
    eitp__release(host, order, count * sizeof *order);
    eitp__release(host, p.placed, count * sizeof *p.placed);
    eitp__release(host, p.spans, count * sizeof *p.spans);
    eitp__release(host, p.nodes, 2 * p.steps * sizeof *p.nodes);
    return done || !count ? EITP_OK
                          : eitp__fail_memory(error, count * sizeof *plan->blocks, "the arena offsets of a plan");
}
