/*
 * Offloaded variables in a plan. A step that uses one finds it in a window of the arena. Windows first used by the same
 * step form a group. Prefetching a group starts when the previous group is first used, so it overlaps with the steps
 * between. A dirty window is written back after its last use, which overlaps with the steps of the next group. If a
 * variable is used again before its prefetch would start, its window stays.
 */
#include "base/sort.h"
#include "tensor/plan.h"
#include "tensor/variable.h"

static const eitp__variable *eitp__offloaded_variable(const eitp_plan *plan, eitp_tensor *tensor) {
    const eitp_tensor *owner = eitp__owner(tensor, NULL);
    const eitp__variable *variable = owner->leaf == EITP__VARIABLE ? &plan->context->variables[owner->variable] : NULL;
    return variable && variable->info.offloaded ? variable : NULL;
}

EITP__PRIVATE int eitp__is_offloaded_tensor(const eitp_plan *plan, eitp_tensor *tensor) {
    return eitp__offloaded_variable(plan, tensor) != NULL;
}

/* Sets the range of bytes that the tensor is of its variable. */
static void eitp__window_range(eitp_tensor *tensor, eitp__window *window) {
    int64_t first;
    memset(window, 0, sizeof *window);
    window->variable = eitp__owner(tensor, &first)->variable;
    window->offset = (size_t)first * eitp_dtype_size(tensor->dtype);
    window->size = eitp__tensor_bytes(tensor);
}

static int eitp__is_same_range(const eitp__window *a, const eitp__window *b) {
    return a->offset == b->offset && a->size == b->size;
}

static int eitp__ranges_overlap(const eitp__window *a, const eitp__window *b) {
    return a->offset < b->offset + b->size && b->offset < a->offset + a->size;
}

/* The steps at which the latest two groups are first used; -1: none. */
typedef struct eitp__groups {
    int latest, before;
} eitp__groups;

/* The latest window of exactly these bytes, unless a later window overlaps them; -1: none. */
static int eitp__find_window(const eitp_plan *plan, const eitp__window *range) {
    for (int w = plan->latest_window[range->variable]; w >= 0; w = plan->windows[w].previous) {
        if (eitp__is_same_range(&plan->windows[w], range))
            return w;
        if (eitp__ranges_overlap(&plan->windows[w], range))
            return -1;
    }
    return -1;
}

/* The first step at which reading the bytes may start: dirty windows that overlap them are being written by then. */
static int eitp__first_read(const eitp_plan *plan, const eitp__window *range) {
    int step = 0;
    for (int w = plan->latest_window[range->variable]; w >= 0; w = plan->windows[w].previous) {
        const eitp__window *window = &plan->windows[w];
        if (window->is_dirty && eitp__ranges_overlap(window, range) && window->last >= step)
            step = window->last + 1;
    }
    return step;
}

/* Records that a step uses a tensor, which may be in an offloaded variable; 0: out of memory. */
static int eitp__use_window(eitp_plan *plan, eitp_tensor *tensor, int step, int is_dirty, eitp__groups *groups) {
    eitp__window range;
    int found, group = groups->latest == step ? groups->before : groups->latest, earliest;
    if (!tensor || !eitp__is_offloaded_tensor(plan, tensor))
        return 1;
    eitp__window_range(eitp__lowered(tensor), &range);
    found = eitp__find_window(plan, &range);
    if (found < 0 || plan->windows[found].last < group) {
        earliest = eitp__first_read(plan, &range);
        if (!eitp__reserve(&plan->context->host, (void **)&plan->windows, &plan->window_capacity,
                           plan->window_count + 1, sizeof *plan->windows))
            return 0;
        range.start = group > earliest ? group : earliest;
        range.first = step;
        range.previous = plan->latest_window[range.variable];
        found = plan->latest_window[range.variable] = (int)plan->window_count++;
        plan->windows[found] = range;
        groups->before = group;
        groups->latest = step;
    }
    plan->windows[found].last = step;
    plan->windows[found].is_dirty |= is_dirty;
    return 1;
}

static int eitp__use_windows(eitp_plan *plan) {
    eitp__groups groups = {-1, -1};
    int done = 1;
    for (int s = 0; s < (int)plan->step_count && done; s++) {
        const eitp__step *step = &plan->steps[s];
        for (int i = 0; i < eitp__step_read_count(step); i++)
            done &= eitp__use_window(plan, eitp__step_read(step, i), s, 0, &groups);
        for (int i = 0; i < step->output_count; i++)
            done &= eitp__use_window(plan, step->replaces[i], s, 1, &groups);
    }
    return done;
}

/*
 * Sets the end of each window, and adds its block; 0: out of memory. A dirty window ends when the second group after it
 * is first used.
 */
static int eitp__end_windows(eitp_plan *plan) {
    size_t later = 0;
    for (size_t i = 0; i < plan->window_count; i++) {
        eitp__window *window = &plan->windows[i];
        int groups = 0, group = window->last;
        window->end = window->last + 1;
        for (later = i + 1; later < plan->window_count && window->is_dirty && groups < 2; later++) {
            if (plan->windows[later].first <= group)
                continue;
            group = plan->windows[later].first;
            groups++;
        }
        if (window->is_dirty)
            window->end = groups == 2 ? group : (int)plan->step_count;
        window->block = eitp__add_arena_block(plan, window->size, window->start, window->end - 1);
        if (window->block < 0)
            return 0;
    }
    return 1;
}

EITP__PRIVATE int eitp__plan_windows(eitp_plan *plan) {
    size_t variables = plan->context->variable_count;
    plan->window_count = 0;
    if (!plan->context->offload)
        return 1;
    if (!eitp__reserve(&plan->context->host, (void **)&plan->latest_window, &plan->latest_window_capacity, variables,
                       sizeof *plan->latest_window))
        return 0;
    memset(plan->latest_window, -1, variables * sizeof *plan->latest_window);
    return eitp__use_windows(plan) && eitp__end_windows(plan);
}

EITP__PRIVATE const eitp__window *eitp__window_at(const eitp_plan *plan, eitp_tensor *tensor, int step) {
    eitp__window range;
    eitp__window_range(eitp__lowered(tensor), &range);
    for (int w = plan->latest_window[range.variable]; w >= 0; w = plan->windows[w].previous) {
        const eitp__window *window = &plan->windows[w];
        if (eitp__is_same_range(window, &range) && window->first <= step && step <= window->last)
            return window;
    }
    return NULL;
}

/* ---- Transfers ---- */

static int eitp__compare_transfers(const void *left, const void *right) {
    const eitp__window_transfer *a = (const eitp__window_transfer *)left, *b = (const eitp__window_transfer *)right;
    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return a->window < b->window ? -1 : a->window > b->window;
}

static void eitp__add_transfer(eitp_plan *plan, eitp__transfer_kind kind, int window, int step) {
    eitp__window_transfer *transfer = &plan->transfers[plan->transfer_count++];
    transfer->kind = kind;
    transfer->window = window;
    transfer->step = step;
}

EITP__PRIVATE eitp_status eitp__plan_transfers(eitp_plan *plan, eitp_error *error) {
    size_t most = 4 * plan->window_count;
    if (!eitp__reserve(&plan->context->host, (void **)&plan->transfers, &plan->transfer_capacity, most,
                       sizeof *plan->transfers))
        return eitp__fail_memory(error, most * sizeof *plan->transfers, "the transfers of a plan");
    plan->transfer_count = 0;
    for (int i = 0; i < (int)plan->window_count; i++) {
        const eitp__window *window = &plan->windows[i];
        eitp__add_transfer(plan, EITP__TRANSFER_BEGIN_READ, i, window->start);
        eitp__add_transfer(plan, EITP__TRANSFER_END_READ, i, window->first);
        if (!window->is_dirty)
            continue;
        eitp__add_transfer(plan, EITP__TRANSFER_BEGIN_WRITE, i, window->last + 1);
        eitp__add_transfer(plan, EITP__TRANSFER_END_WRITE, i, window->end);
    }
    eitp__sort(plan->transfers, plan->transfer_count, sizeof *plan->transfers, eitp__compare_transfers);
    return EITP_OK;
}
