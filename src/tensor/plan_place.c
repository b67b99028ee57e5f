/*
 * Where the stretches of a plan's arena lie: the largest first, each at the lowest place that is free all the time it
 * is in use (first fit). Two trees over the steps keep that from comparing every stretch with every other. In one a
 * stretch is at the highest node whose middle step it is in use at. So those of a node are all in use at one step,
 * their places do not overlap, and being sorted by offset they are sorted by end too. The other has, for each step,
 * how far from the start of the arena everything is taken: no stretch that is in use then can begin before.
 */
#include "base/sort.h"
#include "tensor/plan.h"

/*
 * Bytes of the arena without a gap between the stretches of a node that lie there; all of these are in use from `first`
 * to `last`.
 */
typedef struct eitp__place_run {
    size_t begin, end;
    int first, last;
} eitp__place_run;

/* A node of both trees: node 1 is the root, the children of node n are 2 n and 2 n + 1. */
typedef struct eitp__place_node {
    size_t begin, count; /* its stretches in `placed` */
    size_t run_count;    /* its runs begin where its stretches do */
    size_t highest;      /* the largest end of the stretches in this node and below */
    size_t low, high;    /* how far everything is taken at its steps: the least and the most */
} eitp__place_node;

typedef struct eitp__placing {
    eitp_plan *plan;
    int *placed; /* numbers of the stretches that have a place, by node, sorted by offset */
    eitp__place_run *runs;
    eitp__place_node *nodes;
    size_t steps; /* a power of two: leaves; step s is leaf s + 1, so that before the first is there too */
} eitp__placing;

typedef struct eitp__placement {
    const eitp__stretch *stretches;
    int index;
} eitp__placement;

/* A node and the steps below it, [first, end) with the numbers of leaves. */
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

static eitp__place_range eitp__range_all(const eitp__placing *p) {
    eitp__place_range range;
    range.node = 1;
    range.first = 0;
    range.end = p->steps;
    return range;
}

static size_t eitp__first_leaf(const eitp__stretch *stretch) {
    return (size_t)(stretch->first + 1);
}

static size_t eitp__last_leaf(const eitp__stretch *stretch) {
    return (size_t)(stretch->last + 1);
}

/* Is a stretch in use at all steps of a range, or at none? */
static int eitp__covers(const eitp__stretch *stretch, const eitp__place_range *range) {
    return eitp__first_leaf(stretch) <= range->first && eitp__last_leaf(stretch) + 1 >= range->end;
}

static int eitp__misses(const eitp__stretch *stretch, const eitp__place_range *range) {
    return eitp__last_leaf(stretch) < range->first || eitp__first_leaf(stretch) >= range->end;
}

static size_t eitp__stretch_end(const eitp__stretch *stretch) {
    return stretch->offset + stretch->size;
}

/* The highest node whose middle step the stretch is in use at. */
static size_t eitp__node_of(const eitp__placing *p, const eitp__stretch *stretch) {
    eitp__place_range range = eitp__range_all(p);
    while (range.end - range.first > 1) {
        size_t middle = eitp__range_middle(&range);
        if (eitp__first_leaf(stretch) < middle && eitp__last_leaf(stretch) >= middle)
            break;
        range = eitp__range_child(&range, eitp__first_leaf(stretch) >= middle);
    }
    return range.node;
}

/* ---- How far everything is taken ---- */

/* What both children have is known from a node whose steps are all alike: theirs may be older. */
static void eitp__push_taken(eitp__placing *p, size_t node) {
    eitp__place_node *nodes = p->nodes;
    if (nodes[node].low != nodes[node].high)
        return;
    nodes[2 * node].low = nodes[2 * node].high = nodes[node].low;
    nodes[2 * node + 1].low = nodes[2 * node + 1].high = nodes[node].low;
}

/* The most that is taken at a step of the stretch. */
static size_t eitp__taken_before(eitp__placing *p, const eitp__place_range *range, const eitp__stretch *stretch) {
    eitp__place_range left, right;
    size_t a, b;
    const eitp__place_node *node = &p->nodes[range->node];
    if (eitp__misses(stretch, range))
        return 0;
    if (eitp__covers(stretch, range) || node->low == node->high)
        return node->high;
    left = eitp__range_child(range, 0);
    right = eitp__range_child(range, 1);
    a = eitp__taken_before(p, &left, stretch);
    b = eitp__taken_before(p, &right, stretch);
    return a > b ? a : b;
}

/* Where everything is taken up to where a stretch begins, it now is up to its end. */
static void eitp__raise_taken(eitp__placing *p, const eitp__place_range *range, const eitp__stretch *stretch) {
    eitp__place_range left, right;
    eitp__place_node *nodes = p->nodes, *node = &nodes[range->node];
    if (eitp__misses(stretch, range) || node->high < stretch->offset || node->low > stretch->offset)
        return;
    if (eitp__covers(stretch, range) && node->low == node->high) {
        node->low = node->high = eitp__stretch_end(stretch);
        return;
    }
    eitp__push_taken(p, range->node);
    left = eitp__range_child(range, 0);
    right = eitp__range_child(range, 1);
    eitp__raise_taken(p, &left, stretch);
    eitp__raise_taken(p, &right, stretch);
    node->low = nodes[left.node].low < nodes[right.node].low ? nodes[left.node].low : nodes[right.node].low;
    node->high = nodes[left.node].high > nodes[right.node].high ? nodes[left.node].high : nodes[right.node].high;
}

/* ---- Stretches that have a place ---- */

/* The first of a node's stretches that ends after an offset, by its number in the node. */
static size_t eitp__first_after(const eitp__placing *p, const eitp__place_node *node, size_t offset) {
    size_t low = 0, high = node->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (eitp__stretch_end(&p->plan->stretches[p->placed[node->begin + middle]]) > offset)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The first of a node's runs that ends at an offset or after it. */
static size_t eitp__first_run(const eitp__placing *p, const eitp__place_node *node, size_t offset) {
    const eitp__place_run *runs = p->runs + node->begin;
    size_t low = 0, high = node->run_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (runs[middle].end >= offset)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Extends a run by the run that begins at its end. */
static void eitp__join_runs(eitp__place_run *run, const eitp__place_run *next) {
    run->end = next->end;
    run->first = run->first > next->first ? run->first : next->first;
    run->last = run->last < next->last ? run->last : next->last;
}

static void eitp__insert_run(eitp__placing *p, eitp__place_node *node, const eitp__stretch *stretch) {
    eitp__place_run *runs = p->runs + node->begin, added;
    size_t at = eitp__first_run(p, node, stretch->offset), rest;
    added.begin = stretch->offset;
    added.end = eitp__stretch_end(stretch);
    added.first = stretch->first;
    added.last = stretch->last;
    if (at < node->run_count && runs[at].end == added.begin) {
        eitp__join_runs(&runs[at], &added);
    } else {
        memmove(runs + at + 1, runs + at, (node->run_count - at) * sizeof *runs);
        runs[at] = added;
        node->run_count++;
    }
    rest = node->run_count - at - 1;
    if (rest && runs[at + 1].begin == added.end) {
        eitp__join_runs(&runs[at], &runs[at + 1]);
        memmove(runs + at + 1, runs + at + 2, (rest - 1) * sizeof *runs);
        node->run_count--;
    }
}

/* Moves *offset beyond the stretches of a part of the arena that are in the way of `stretch`, one after the other. */
static void eitp__avoid_one_by_one(const eitp__placing *p, const eitp__place_node *node, size_t end,
                                   const eitp__stretch *stretch, size_t *offset) {
    for (size_t i = eitp__first_after(p, node, *offset); i < node->count; i++) {
        const eitp__stretch *other = &p->plan->stretches[p->placed[node->begin + i]];
        if (other->offset >= end || other->offset >= *offset + stretch->size)
            break;
        p->plan->visits.layout++;
        if (other->last >= stretch->first && other->first <= stretch->last)
            *offset = eitp__stretch_end(other);
    }
}

/* Moves *offset beyond a node's stretches that are in the way of `stretch`: whole runs, where all of them are. */
static void eitp__avoid_node(const eitp__placing *p, const eitp__place_node *node, const eitp__stretch *stretch,
                             size_t *offset) {
    for (size_t i = eitp__first_run(p, node, *offset + 1); i < node->run_count; i++) {
        const eitp__place_run *run = &p->runs[node->begin + i];
        if (run->begin >= *offset + stretch->size)
            break;
        p->plan->visits.layout++;
        if (run->first <= stretch->last && run->last >= stretch->first)
            *offset = run->end;
        else
            eitp__avoid_one_by_one(p, node, run->end, stretch, offset);
    }
}

/* Moves *offset beyond the stretches of a node and below it that are in the way of `stretch` there. */
static void eitp__avoid(const eitp__placing *p, const eitp__place_range *range, const eitp__stretch *stretch,
                        size_t *offset) {
    const eitp__place_node *node = &p->nodes[range->node];
    eitp__place_range child;
    if (node->highest <= *offset || eitp__misses(stretch, range))
        return;
    eitp__avoid_node(p, node, stretch, offset);
    for (int right = 0; right < 2 && range->end - range->first > 1; right++) {
        child = eitp__range_child(range, right);
        eitp__avoid(p, &child, stretch, offset);
    }
}

/* Adds a stretch to its node. */
static void eitp__insert_placed(eitp__placing *p, int index) {
    const eitp__stretch *stretch = &p->plan->stretches[index];
    size_t number = eitp__node_of(p, stretch), end = eitp__stretch_end(stretch), at;
    eitp__place_node *node = &p->nodes[number];
    int *placed = p->placed + node->begin;
    at = eitp__first_after(p, node, stretch->offset);
    memmove(placed + at + 1, placed + at, (node->count - at) * sizeof *placed);
    placed[at] = index;
    node->count++;
    eitp__insert_run(p, node, stretch);
    for (; number && p->nodes[number].highest < end; number /= 2)
        p->nodes[number].highest = end;
}

static void eitp__place_stretch(eitp__placing *p, int index) {
    eitp_plan *plan = p->plan;
    eitp__stretch *stretch = &plan->stretches[index];
    const eitp__place_range all = eitp__range_all(p);
    size_t offset = eitp__taken_before(p, &all, stretch), before;
    plan->visits.layout++;
    do {
        before = offset;
        eitp__avoid(p, &all, stretch, &offset);
    } while (offset != before);
    stretch->offset = offset;
    eitp__insert_placed(p, index);
    eitp__raise_taken(p, &all, stretch);
    if (eitp__stretch_end(stretch) > plan->stats.arena_bytes)
        plan->stats.arena_bytes = eitp__stretch_end(stretch);
}

/* ---- The order ---- */

/* Larger first; among equals the earlier, so that the layout is a function of the graph. */
static int eitp__compare_placements(const void *left, const void *right) {
    const eitp__placement *a = (const eitp__placement *)left, *b = (const eitp__placement *)right;
    size_t a_size = a->stretches[a->index].size, b_size = b->stretches[b->index].size;
    if (a_size != b_size)
        return a_size > b_size ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* The part of `placed` of each node. */
static void eitp__divide_placed(eitp__placing *p, const eitp__placement *order) {
    size_t begin = 0;
    for (size_t i = 0; i < p->plan->stretch_count; i++)
        p->nodes[eitp__node_of(p, &p->plan->stretches[order[i].index])].count++;
    for (size_t n = 1; n < 2 * p->steps; n++) {
        p->nodes[n].begin = begin;
        begin += p->nodes[n].count;
        p->nodes[n].count = 0;
    }
}

EITP__PRIVATE eitp_status eitp__plan_place(eitp_plan *plan, eitp_error *error) {
    const eitp_host *host = &plan->context->host;
    size_t count = plan->stretch_count;
    eitp__placement *order = (eitp__placement *)eitp__allocate(host, count * sizeof *order);
    eitp__placing p = EITP__ZERO;
    int done = 0;
    plan->stats.arena_bytes = 0;
    p.plan = plan;
    p.steps = 1;
    while (p.steps < plan->step_count + 2)
        p.steps *= 2;
    p.placed = (int *)eitp__allocate(host, count * sizeof *p.placed);
    p.runs = (eitp__place_run *)eitp__allocate(host, count * sizeof *p.runs);
    p.nodes = (eitp__place_node *)eitp__allocate(host, 2 * p.steps * sizeof *p.nodes);
    if (order && p.placed && p.runs && p.nodes) {
        for (size_t i = 0; i < count; i++) {
            order[i].stretches = plan->stretches;
            order[i].index = (int)i;
        }
        eitp__sort(order, count, sizeof *order, eitp__compare_placements);
        eitp__divide_placed(&p, order);
        /* Those that lie in others have no size, and are last. */
        for (size_t i = 0; i < count && plan->stretches[order[i].index].size; i++)
            eitp__place_stretch(&p, order[i].index);
        done = 1;
    }
    eitp__release(host, order, count * sizeof *order);
    eitp__release(host, p.placed, count * sizeof *p.placed);
    eitp__release(host, p.runs, count * sizeof *p.runs);
    eitp__release(host, p.nodes, 2 * p.steps * sizeof *p.nodes);
    return done || !count ? EITP_OK : eitp__fail_memory(error, count * sizeof *plan->stretches, "the places of a plan");
}
