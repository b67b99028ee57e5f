/* The launches of a training step of GPT-2 124M, grouped by the kernels of their calls, with their expected times. */
#include "cuda_kernels.h"

enum { MOST_CALLS = 1000 };

call_group *find_group(group_list *list, const char *name) {
    call_group *group = list->groups;
    for (int i = 0; i < list->count; i++, group++)
        if (!strcmp(group->name, name))
            return group;
    if (list->count++ == MOST_GROUPS)
        stop("more than %d groups", MOST_GROUPS);
    snprintf(group->name, sizeof group->name, "%s", name);
    return group;
}

/* Returns the group of a part. */
static call_group *group_of_part(group_list *list, const cuda_ordered_plan *ordered, size_t part) {
    eitp__cuda_kernel kernels[CUDA_MOST_LAUNCHES];
    char name[EITP__CUDA_WORK_NAME];
    const size_t count = cuda_kernels_of_part(ordered, part, kernels);
    const eitp__call_work work = cuda_work_of_part(ordered, part);
    eitp__cuda_work_name(kernels, count, work.purpose, name);
    return find_group(list, name);
}

static void add_time(call_group *group, int device, const expected_time *time) {
    group->seconds[device] += time->seconds;
    group->bounds[device][time->bound] += time->seconds;
}

/* The work of a launch of a part. */
static launch_work work_of(const cuda_ordered_plan *ordered, size_t part, size_t launch) {
    const eitp__call_work all = cuda_work_of_part(ordered, part);
    eitp__cuda_kernel kernels[CUDA_MOST_LAUNCHES];
    const size_t count = cuda_kernels_of_part(ordered, part, kernels);
    launch_work work;
    work.call = &ordered->parts[part].call;
    work.flops = all.flops;
    work.bytes = eitp__cuda_launch_bytes(kernels, count, launch, work.call, all.bytes);
    return work;
}

/* Adds the launches of a part. */
static void add_part(group_list *list, const cuda_ordered_plan *ordered, size_t part) {
    const cuda_launch *launches = &ordered->launches[ordered->first[part]];
    const size_t count = ordered->first[part + 1] - ordered->first[part];
    const eitp__call_work all = cuda_work_of_part(ordered, part);
    call_group *group;
    if (!count)
        stop("%s has no kernel", eitp__slot_name(ordered->parts[part].call.slot));
    group = group_of_part(list, ordered, part);
    group->calls++;
    for (size_t i = 0; i < count; i++) {
        const launch_work work = work_of(ordered, part, i);
        for (int d = 0; d < DEVICES; d++) {
            const expected_time time = expect_launch(d, &launches[i], &work);
            add_time(group, d, &time);
        }
        group->launches++;
        group->bytes += work.bytes;
    }
    group->flops += all.flops;
    list->counted += all.flops;
}

/* Adds the launch of a group of calls. */
static void add_calls(group_list *list, const cuda_ordered_plan *ordered, const eitp__cuda_unit *unit) {
    static launch_work works[MOST_CALLS];
    cuda_launch launch = ordered->launches[ordered->first[unit->instruction]];
    call_group *group = group_of_part(list, ordered, unit->instruction);
    if (unit->call_count > MOST_CALLS)
        stop("a group has more than %d calls", MOST_CALLS);
    launch.blocks = unit->launch.blocks;
    for (size_t i = 0; i < unit->call_count; i++) {
        works[i] = work_of(ordered, ordered->order.members[unit->first_member + i], 0);
        group->calls++;
        group->flops += works[i].flops;
        group->bytes += works[i].bytes;
        list->counted += works[i].flops;
    }
    for (int d = 0; d < DEVICES; d++) {
        const expected_time time = expect_group(d, &launch, works, (int)unit->call_count, unit->launch.group.chain > 1);
        add_time(group, d, &time);
    }
    group->launches++;
}

static void add_unit(void *user, const cuda_ordered_plan *ordered, const eitp__cuda_unit *unit) {
    group_list *list = (group_list *)user;
    if (unit->call_count)
        add_calls(list, ordered, unit);
    else
        add_part(list, ordered, unit->instruction);
}

void list_step(group_list *list, int samples) {
    planned_step step = EITP__ZERO;
    step.shape = "gpt2";
    step.precision = "bf16";
    step.samples = samples;
    step.tokens = STEP_TOKENS;
    step.device = processor_device(device_processor(0));
    visit_ordered_step(&step, add_unit, list);
}

void add_group(call_group *sum, const call_group *group) {
    sum->calls += group->calls;
    sum->launches += group->launches;
    sum->flops += group->flops;
    sum->bytes += group->bytes;
    for (int d = 0; d < DEVICES; d++) {
        sum->seconds[d] += group->seconds[d];
        for (int b = 0; b < BOUND_COUNT; b++)
            sum->bounds[d][b] += group->bounds[d][b];
    }
}

const char *bound_of(const call_group *group, int device) {
    static const char *const bounds[] = {"launch", "latency", "memory", "arithmetic"};
    int most = 0;
    for (int b = 1; b < BOUND_COUNT; b++)
        if (group->bounds[device][b] > group->bounds[device][most])
            most = b;
    return bounds[most];
}
