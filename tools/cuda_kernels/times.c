/* The expected times of the launches of a training step: docs/cuda-times.md. */
#include "cuda_kernels.h"

static int is_longer(const void *a, const void *b) {
    const double x = ((const call_group *)a)->seconds[0], y = ((const call_group *)b)->seconds[0];
    return x < y ? 1 : x > y ? -1 : 0;
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
    list_step(&list, samples);
    printf("\n## %d x %d tokens\n\n", samples, STEP_TOKENS);
    sum = print_table(&list);
    printf("\n%d launches. Steps:\n\n", sum.launches);
    for (int d = 0; d < DEVICES; d++)
        printf("* %s: %.1f ms, %.0f thousand tokens per second, ops at %.0f %% of the tensor cores' rate; bound by "
               "arithmetic %.1f, memory %.1f, latency %.1f, launches %.1f ms\n",
               device_name(d), 1e3 * sum.seconds[d], samples * STEP_TOKENS / sum.seconds[d] / 1e3,
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
