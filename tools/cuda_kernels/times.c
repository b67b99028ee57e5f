/* The launches of a training step, by kernels, and their expected times: docs/cuda-times.md. */
#include "cuda_kernels.h"

enum { TOKENS = 1024, MOST_GROUPS = 64, MOST_CALLS = 1000 };

/* ---- Groups of calls ---- */

typedef struct call_group {
    char name[EITP__CUDA_WORK_NAME];
    int calls, launches;
    double flops, bytes;
    double seconds[DEVICES], bounds[DEVICES][BOUND_COUNT]; /* bounds: seconds of the launches that it bounds */
} call_group;

typedef struct group_list {
    call_group groups[MOST_GROUPS];
    int count;
    double counted; /* operations of the ops */
} group_list;

static call_group *find_group(group_list *list, const char *name) {
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

static void plan_step(group_list *list, int samples) {
    planned_step step = EITP__ZERO;
    step.shape = "gpt2";
    step.precision = "bf16";
    step.samples = samples;
    step.tokens = TOKENS;
    step.device = processor_device(device_processor(0));
    visit_ordered_step(&step, add_unit, list);
}

/* ---- The tables ---- */

static int is_longer(const void *a, const void *b) {
    const double x = ((const call_group *)a)->seconds[0], y = ((const call_group *)b)->seconds[0];
    return x < y ? 1 : x > y ? -1 : 0;
}

static void add_group(call_group *sum, const call_group *group) {
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

/* Returns what bounds most of a group's time. */
static const char *bound_of(const call_group *group, int device) {
    static const char *const bounds[] = {"launch", "latency", "memory", "arithmetic"};
    int most = 0;
    for (int b = 1; b < BOUND_COUNT; b++)
        if (group->bounds[device][b] > group->bounds[device][most])
            most = b;
    return bounds[most];
}

static void print_row(const call_group *group, int is_sum) {
    printf("| %s | %d | %d | %.1f | %.2f |", group->name, group->calls, group->launches, group->flops / 1e9,
           group->bytes / 1e9);
    for (int d = 0; d < DEVICES; d++)
        printf(" %.2f%s%s |", 1e3 * group->seconds[d], is_sum ? "" : " ", is_sum ? "" : bound_of(group, d));
    putchar('\n');
}

/* Combines groups that take less than 0.05 ms. Returns the sum. */
static call_group print_table(group_list *list) {
    call_group sum = EITP__ZERO, others = EITP__ZERO;
    snprintf(sum.name, sizeof sum.name, "all");
    snprintf(others.name, sizeof others.name, "others");
    qsort(list->groups, (size_t)list->count, sizeof *list->groups, is_longer);
    printf("| kernels | calls | launches | GFLOP | GB |");
    for (int d = 0; d < DEVICES; d++)
        printf(" %s, ms |", device_name(d));
    printf("\n|---|--:|--:|--:|--:|");
    for (int d = 0; d < DEVICES; d++)
        printf("--:|");
    putchar('\n');
    for (int i = 0; i < list->count; i++) {
        add_group(&sum, &list->groups[i]);
        if (list->groups[i].seconds[0] < 5e-5)
            add_group(&others, &list->groups[i]);
        else
            print_row(&list->groups[i], 0);
    }
    if (others.calls)
        print_row(&others, 0);
    print_row(&sum, 1);
    return sum;
}

static void print_size(int samples) {
    static group_list list;
    call_group sum;
    memset(&list, 0, sizeof list);
    plan_step(&list, samples);
    printf("\n## %d x %d tokens\n\n", samples, TOKENS);
    sum = print_table(&list);
    printf("\n%d launches. Steps:\n\n", sum.launches);
    for (int d = 0; d < DEVICES; d++)
        printf("* %s: %.1f ms, %.0f thousand tokens per second, ops at %.0f %% of the tensor cores' rate; bound by "
               "arithmetic %.1f, memory %.1f, latency %.1f, launches %.1f ms\n",
               device_name(d), 1e3 * sum.seconds[d], samples * TOKENS / sum.seconds[d] / 1e3,
               100 * list.counted / sum.seconds[d] / device_tensor_rate(d), 1e3 * sum.bounds[d][BOUND_ARITHMETIC],
               1e3 * sum.bounds[d][BOUND_MEMORY], 1e3 * sum.bounds[d][BOUND_LATENCY],
               1e3 * sum.bounds[d][BOUND_LAUNCH]);
}

static const char introduction[] =
    "# Expected times of CUDA kernels\n\n"
    "**Computed, never run on a GPU.** `make cuda-times` generates this page from the plan of a training step of GPT-2 "
    "124M in bf16:\n"
    "one pass, AdamW, no dropout, no recomputation, on a machine with cuBLASLt. The time of each launch that the "
    "backend makes is\n\n"
    "    the shortest kernel in a graph + the longest of arithmetic, memory and latency\n\n"
    "* Arithmetic: products, in waves of as many blocks as are resident, at the rate of `mma.sync` kernels with such "
    "tiles. Attention computes\n"
    "  2 products forward and 7 backward (its op counts 2 and 5), and whole tiles along the diagonal. Products of "
    "cuBLASLt have their own\n"
    "  rate and start. They split sums if that is faster, and are slower if rows are not aligned to 16 bytes.\n"
    "* Memory: each operand once, and the data between kernels of a call twice, at the rate of copies. Data that are "
    "still in the L2 cache\n"
    "  are not faster.\n"
    "* Latency: the steps of a block's loop, one after another, in waves.\n"
    "* Calls that share a launch: the sums of their arithmetic, memory, and latency in a chain of calls; otherwise the "
    "latency of the longest,\n"
    "  in waves of all their blocks.\n\n"
    "The constants below are published figures; none is adjusted to eitp. Instructions other than products are not "
    "counted: index arithmetic of\n"
    "copies that are not aligned, and activations after products. The word after a time names its largest part.\n";

void print_times(void) {
    printf("%s", introduction);
    print_size(16);
    print_size(64);
    printf("\n## Constants\n\nPublished figures of hardware and of other programs:\n\n");
    print_speeds();
}
