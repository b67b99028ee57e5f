/*
 * Offloaded variables in a plan. A step that uses one finds it in a staging area of the arena. Staging areas first used
 * by the same step form a group. Prefetching of a group starts when the previous group is first used, so it overlaps
 * with the steps in between. A dirty staging area is written back after its last use, overlapping with the steps of the
 * next group. If a variable is used again before its prefetch would start, its staging area stays.
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

/* Sets the range of bytes that the tensor occupies in its variable. */
static void eitp__staging_range(eitp_tensor *tensor, eitp__staging *staging) {
    int64_t first;
    memset(staging, 0, sizeof *staging);
    staging->variable = eitp__owner(tensor, &first)->variable;
    staging->offset = (size_t)first * eitp_dtype_size(tensor->dtype);
    staging->size = eitp__tensor_bytes(tensor);
}

static int eitp__is_same_range(const eitp__staging *a, const eitp__staging *b) {
    return a->offset == b->offset && a->size == b->size;
}

static int eitp__ranges_overlap(const eitp__staging *a, const eitp__staging *b) {
    return a->offset < b->offset + b->size && b->offset < a->offset + a->size;
}

/* First steps of the latest two groups; -1: none. */
typedef struct eitp__groups {
    int latest, before;
} eitp__groups;

/* Returns the latest staging area of exactly these bytes, unless a later staging area overlaps them; -1: none. */
static int eitp__find_staging(const eitp_plan *plan, const eitp__staging *range) {
    for (int w = plan->latest_staging[range->variable]; w >= 0; w = plan->stagings[w].previous) {
        if (eitp__is_same_range(&plan->stagings[w], range))
            return w;
        if (eitp__ranges_overlap(&plan->stagings[w], range))
            return -1;
    }
    return -1;
}

/* Returns the first step at which reading the bytes may start: by then, dirty staging areas that overlap them are being
   written. */
static int eitp__first_read(const eitp_plan *plan, const eitp__staging *range) {
    int step = 0;
    for (int w = plan->latest_staging[range->variable]; w >= 0; w = plan->stagings[w].previous) {
        const eitp__staging *staging = &plan->stagings[w];
        if (staging->is_dirty && eitp__ranges_overlap(staging, range) && staging->last >= step)
            step = staging->last + 1;
    }
    return step;
}

/* Records that a step uses a tensor, which may be in an offloaded variable; 0: out of memory. */
static int eitp__use_staging(eitp_plan *plan, eitp_tensor *tensor, int step, int is_dirty, eitp__groups *groups) {
    eitp__staging range;
    int found, group = groups->latest == step ? groups->before : groups->latest, earliest;
    if (!tensor || !eitp__is_offloaded_tensor(plan, tensor))
        return 1;
    eitp__staging_range(eitp__lowered(tensor), &range);
    found = eitp__find_staging(plan, &range);
    if (found < 0 || plan->stagings[found].last < group) {
        earliest = eitp__first_read(plan, &range);
        if (!eitp__reserve(&plan->context->host, (void **)&plan->stagings, &plan->staging_capacity,
                           plan->staging_count + 1, sizeof *plan->stagings))
            return 0;
        range.start = group > earliest ? group : earliest;
        range.first = step;
        range.previous = plan->latest_staging[range.variable];
        found = plan->latest_staging[range.variable] = (int)plan->staging_count++;
        plan->stagings[found] = range;
        groups->before = group;
        groups->latest = step;
    }
    plan->stagings[found].last = step;
    plan->stagings[found].is_dirty |= is_dirty;
    return 1;
}

static int eitp__use_stagings(eitp_plan *plan) {
    eitp__groups groups = {-1, -1};
    int done = 1;
    for (int s = 0; s < (int)plan->step_count && done; s++) {
        const eitp__step *step = &plan->steps[s];
        for (int i = 0; i < eitp__step_read_count(step); i++)
            done &= eitp__use_staging(plan, eitp__step_read(step, i), s, 0, &groups);
        for (int i = 0; i < step->output_count; i++)
            done &= eitp__use_staging(plan, step->replaces[i], s, 1, &groups);
    }
    return done;
}

/* Sets the end of each staging area, and adds its block; 0: out of memory. A dirty staging area ends at the first use
   of the second group after it. */
static int eitp__end_stagings(eitp_plan *plan) {
    size_t later = 0;
    for (size_t i = 0; i < plan->staging_count; i++) {
        eitp__staging *staging = &plan->stagings[i];
        int groups = 0, group = staging->last;
        staging->end = staging->last + 1;
        for (later = i + 1; later < plan->staging_count && staging->is_dirty && groups < 2; later++) {
            if (plan->stagings[later].first <= group)
                continue;
            group = plan->stagings[later].first;
            groups++;
        }
        if (staging->is_dirty)
            staging->end = groups == 2 ? group : (int)plan->step_count;
        staging->block = eitp__add_arena_block(plan, staging->size, staging->start, staging->end - 1);
        if (staging->block < 0)
            return 0;
    }
    return 1;
}

EITP__PRIVATE int eitp__plan_stagings(eitp_plan *plan) {
    size_t variables = plan->context->variable_count;
    plan->staging_count = 0;
    if (!plan->context->offload)
        return 1;
    if (!eitp__reserve(&plan->context->host, (void **)&plan->latest_staging, &plan->latest_staging_capacity, variables,
                       sizeof *plan->latest_staging))
        return 0;
    memset(plan->latest_staging, -1, variables * sizeof *plan->latest_staging);
    return eitp__use_stagings(plan) && eitp__end_stagings(plan);
}

EITP__PRIVATE const eitp__staging *eitp__staging_at(const eitp_plan *plan, eitp_tensor *tensor, int step) {
    eitp__staging range;
    eitp__staging_range(eitp__lowered(tensor), &range);
    for (int w = plan->latest_staging[range.variable]; w >= 0; w = plan->stagings[w].previous) {
        const eitp__staging *staging = &plan->stagings[w];
        if (eitp__is_same_range(staging, &range) && staging->first <= step && step <= staging->last)
            return staging;
    }
    return NULL;
}

/* ---- Transfers ---- */

static int eitp__compare_transfers(const void *left, const void *right) {
    const eitp__staging_transfer *a = (const eitp__staging_transfer *)left, *b = (const eitp__staging_transfer *)right;
    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return a->staging < b->staging ? -1 : a->staging > b->staging;
}

static void eitp__add_transfer(eitp_plan *plan, eitp__transfer_kind kind, int staging, int step) {
    eitp__staging_transfer *transfer = &plan->transfers[plan->transfer_count++];
    transfer->kind = kind;
    transfer->staging = staging;
    transfer->step = step;
}

EITP__PRIVATE eitp_status eitp__plan_transfers(eitp_plan *plan, eitp_error *error) {
    size_t most = 4 * plan->staging_count;
    if (!eitp__reserve(&plan->context->host, (void **)&plan->transfers, &plan->transfer_capacity, most,
                       sizeof *plan->transfers))
        return eitp__fail_memory(error, most * sizeof *plan->transfers, "the transfers of a plan");
    plan->transfer_count = 0;
    for (int i = 0; i < (int)plan->staging_count; i++) {
        const eitp__staging *staging = &plan->stagings[i];
        eitp__add_transfer(plan, EITP__TRANSFER_BEGIN_READ, i, staging->start);
        eitp__add_transfer(plan, EITP__TRANSFER_END_READ, i, staging->first);
        if (!staging->is_dirty)
            continue;
        eitp__add_transfer(plan, EITP__TRANSFER_BEGIN_WRITE, i, staging->last + 1);
        eitp__add_transfer(plan, EITP__TRANSFER_END_WRITE, i, staging->end);
    }
    eitp__sort(plan->transfers, plan->transfer_count, sizeof *plan->transfers, eitp__compare_transfers);
    return EITP_OK;
}
