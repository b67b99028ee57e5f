/*
 * The operations and memory traffic of each kernel in a training step, and the time for these at the nominal rates of a
 * device. The step is planned for the CUDA backend. Its own functions answer the planner's queries about a simulated
 * device whose memory consists only of addresses. Nothing is executed.
 */
#include "cuda_kernels.h"

enum { SAMPLES = 64, TOKENS = 1024, ROWS = SAMPLES * TOKENS, MOST_GROUPS = 64, GROUP_NAME = 200, NOMINAL = 2 };

/* Operations and bytes per second, as specified by NVIDIA: dense, with sums in F32. */
typedef struct nominal_rates {
    const char *name;
    double tensor, f32, bytes;
} nominal_rates;

static const nominal_rates devices[NOMINAL] = {
    {"H100 SXM", 989e12, 67e12, 3.35e12},
    {"RTX 4090", 165e12, 82.6e12, 1.008e12},
};

/* ---- A device without memory ---- */

static void *allocate_addresses(eitp__backend *backend, eitp__place place, size_t size) {
    static uintptr_t next = (uintptr_t)1 << 40;
    const uintptr_t memory = next;
    (void)backend, (void)place;
    next += (size + 4095) / 4096 * 4096;
    return (void *)memory;
}

static void release_addresses(eitp__backend *backend, eitp__place place, void *memory, size_t size) {
    (void)backend, (void)place, (void)memory, (void)size;
}

static eitp_status copy_nothing(eitp__backend *backend, void *to, const void *from, size_t size, eitp_error *error) {
    (void)backend, (void)to, (void)from, (void)size, (void)error;
    return EITP_OK;
}

/* Sums start with the first pass, so missing values are 0. */
static eitp_status read_zeros(eitp__backend *backend, void *to, const void *from, size_t size, eitp_error *error) {
    (void)backend, (void)from, (void)error;
    memset(to, 0, size);
    return EITP_OK;
}

static eitp_status prepare_nothing(eitp__backend *backend, const eitp__program_info *info, eitp__program **program,
                                   eitp_error *error) {
    (void)backend, (void)info, (void)error;
    *program = NULL;
    return EITP_OK;
}

static eitp_status wait_for_nothing(eitp__backend *backend, eitp_error *error) {
    (void)backend, (void)error;
    return EITP_OK;
}

static void destroy_nothing(eitp__backend *backend) {
    (void)backend;
}

/* Returns a context whose backend is the CUDA backend of an H100. */
static eitp_context *create_context(const char *precision) {
    static eitp__backend_interface interface;
    static eitp__cuda cuda;
    eitp_context_config config = eitp_context_config_default();
    eitp_context *context;
    eitp_error error = EITP__ZERO;
    config.device = "null";
    config.precision = precision;
    if (eitp_context_create(&config, &context, &error))
        stop("%s", error.message);
    interface = *eitp__cuda_backend();
    interface.destroy = destroy_nothing;
    interface.allocate = allocate_addresses;
    interface.release = release_addresses;
    interface.upload = copy_nothing;
    interface.download = read_zeros;
    interface.prepare = prepare_nothing;
    interface.wait = wait_for_nothing;
    cuda.base.interface = &interface;
    cuda.base.host = context->host;
    cuda.device = processor_device(processor_of(90));
    context->backend->interface->destroy(context->backend);
    context->backend = context->segments->backend = &cuda.base;
    return context;
}

/* ---- Groups of calls ---- */

typedef struct call_group {
    char name[GROUP_NAME];
    int calls;
    double flops, bytes;
    double seconds[NOMINAL], computing[NOMINAL];
} call_group;

typedef struct group_list {
    call_group groups[MOST_GROUPS];
    int count;
    double counted; /* operations of the ops, without extra operations of the kernels */
    double parameters;
    int products_alone;
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

static int is_product(const eitp__call *call) {
    const eitp__family family = eitp__slot_family(call->slot);
    return family == EITP__FAMILY_TILES || family == EITP__FAMILY_ATTENTION;
}

/* Names the kernels launched for a call, without the suffix "_kernel", and the purpose of a product. */
static void name_group(const eitp__cuda_kernels *kernels, const eitp__call *call, eitp_product product,
                       char text[GROUP_NAME]) {
    static const char *const products[] = {"", ", forward", ", gradient of input", ", gradient of weight"};
    size_t length = 0;
    for (int s = 0; s < EITP__CUDA_STAGES && kernels->stages[s].kernel; s++) {
        const eitp__cuda_stage *stage = &kernels->stages[s];
        if (stage->blocks(call) > 0)
            length += (size_t)snprintf(text + length, GROUP_NAME - length, "%s`%.*s`", length ? " " : "",
                                       (int)strlen(stage->kernel) - 7, stage->kernel);
    }
    snprintf(text + length, GROUP_NAME - length, "%s", products[product]);
}

/*
 * Returns the ratio of the products that attention computes on tensor cores to the products counted for the op (2
 * forward, 5 backward): see EITP__ATTENTION_PARTS. GPT-2 has no rotation.
 */
static double repeated_products(const eitp__call *call, const eitp__cuda_kernels *kernels) {
    static const double products[][2] = {{2, 7}, {3, 10}}; /* forward, backward */
    const int is_backward = call->slot == EITP__SLOT_ATTENTION_BACKWARD;
    if (strcmp(kernels->file, "kernels/cuda/attention.cu") != 0)
        return 1;
    return products[EITP__ATTENTION_PARTS - 1][is_backward] / (is_backward ? 5 : 2);
}

static void add_step(group_list *list, const eitp_plan *plan, size_t s) {
    const eitp__call *call = &plan->calls[s];
    const eitp__cuda_kernels *kernels = eitp__cuda_find(call, &eitp__cuda_of(plan->context->backend)->device);
    const eitp_profile profile = eitp__profile_of(plan, s);
    const int on_tensor_cores = is_product(call) && eitp__wide(call->dtype) != call->dtype;
    const double left = kernels && kernels->workspace ? (double)kernels->workspace(call) : 0;
    const double bytes = profile.bytes_read + profile.bytes_written + 2 * left;
    double flops;
    char name[GROUP_NAME];
    call_group *group;
    if (!kernels)
        stop("%s has no kernel", eitp__slot_name(call->slot));
    if (list->products_alone && !is_product(call))
        return;
    flops = profile.flops * repeated_products(call, kernels);
    name_group(kernels, call, profile.product, name);
    group = find_group(list, name);
    group->calls++;
    group->flops += flops;
    group->bytes += bytes;
    list->counted += profile.flops;
    for (int d = 0; d < NOMINAL; d++) {
        const double computing = flops / (on_tensor_cores ? devices[d].tensor : devices[d].f32);
        const double moving = bytes / devices[d].bytes;
        group->seconds[d] += computing > moving ? computing : moving;
        group->computing[d] += computing > moving ? computing : 0;
    }
}

static void add_plan(group_list *list, const eitp_plan *plan) {
    for (size_t s = 0; plan && s < plan->step_count; s++)
        add_step(list, plan, s);
}

/* ---- The step ---- */

/* Plans a step of GPT-2 124M in one pass, with AdamW and without recomputation. */
static void plan_step(group_list *list, const char *precision) {
    static int32_t tokens[ROWS + 1];
    const eitp_token_range all = {0, ROWS + 1};
    eitp_transformer_config shape;
    eitp_language_config language = eitp_language_config_default();
    eitp_trainer_config config = eitp_trainer_config_default();
    eitp_context *context = create_context(precision);
    eitp_model *model;
    eitp_task task;
    eitp_trainer *trainer;
    eitp_error error = EITP__ZERO;
    eitp_status status = eitp_transformer_config_named("gpt2", &shape, &error);
    shape.embedding_dropout = shape.attention_dropout = shape.residual_dropout = 0;
    config.batch_size = SAMPLES;
    config.grad_accum = 1;
    if (!status)
        status = eitp_model_create(context, &shape, &model, &error);
    if (!status) {
        language.model = model;
        language.training = eitp_token_memory_source(tokens, ROWS + 1, all);
        language.block_size = TOKENS;
        status = eitp_language_task(&language, &task, &error);
    }
    if (!status)
        status = eitp_trainer_create(&task, &config, &trainer, &error);
    if (status)
        stop("%s", error.message);
    list->parameters = (double)eitp_model_parameter_count(model);
    add_plan(list, trainer->plans.gradient_plan);
    add_plan(list, trainer->plans.update_plan);
    eitp_trainer_destroy(trainer);
    eitp_task_release(&task);
    eitp_model_destroy(model);
    eitp_context_destroy(context);
}

/* ---- The table ---- */

static int is_longer(const void *a, const void *b) {
    const double x = ((const call_group *)a)->seconds[0], y = ((const call_group *)b)->seconds[0];
    return x < y ? 1 : x > y ? -1 : 0;
}

static void add_group(call_group *sum, const call_group *group) {
    sum->calls += group->calls;
    sum->flops += group->flops;
    sum->bytes += group->bytes;
    for (int d = 0; d < NOMINAL; d++) {
        sum->seconds[d] += group->seconds[d];
        sum->computing[d] += group->computing[d];
    }
}

static void print_row(const call_group *group, int is_sum) {
    printf("| %s | %d | %.1f | %.2f | %.0f |", group->name, group->calls, group->flops / 1e9, group->bytes / 1e9,
           group->flops / group->bytes);
    for (int d = 0; d < NOMINAL; d++)
        printf(" %.2f | %s |", 1e3 * group->seconds[d],
               is_sum                                        ? ""
               : 2 * group->computing[d] > group->seconds[d] ? "arithmetic"
                                                             : "memory");
    putchar('\n');
}

/* Groups that take less than 0.01 ms are combined. */
static void print_table(group_list *list) {
    call_group sum = EITP__ZERO, others = EITP__ZERO;
    snprintf(sum.name, sizeof sum.name, "all");
    snprintf(others.name, sizeof others.name, "others");
    qsort(list->groups, (size_t)list->count, sizeof *list->groups, is_longer);
    printf("| kernels | calls | GFLOP | GB | FLOP/byte |");
    for (int d = 0; d < NOMINAL; d++)
        printf(" %s, ms | bound by |", devices[d].name);
    printf("\n|---|--:|--:|--:|--:|--:|---|--:|---|\n");
    for (int i = 0; i < list->count; i++) {
        const call_group *group = &list->groups[i];
        add_group(&sum, group);
        if (group->seconds[0] < 1e-5)
            add_group(&others, group);
        else
            print_row(group, 0);
    }
    if (others.calls)
        print_row(&others, 0);
    print_row(&sum, 1);
}

static void print_sum(const group_list *list) {
    printf("\nThe ops of this plan compute %.1f TFLOP. The rule of 6 N operations per token, with all N = %.1f million "
           "parameters, gives %.1f:\nit omits attention, and includes positions and vectors, which are not in any "
           "product.\n\n",
           list->counted / 1e12, list->parameters / 1e6, 6 * list->parameters * ROWS / 1e12);
    for (int d = 0; d < NOMINAL; d++) {
        double seconds = 0;
        for (int i = 0; i < list->count; i++)
            seconds += list->groups[i].seconds[d];
        printf("* %s: %.0f ms per step, %.0f thousand tokens per second, ops at %.0f %% of the tensor cores' rate\n",
               devices[d].name, 1e3 * seconds, ROWS / seconds / 1e3, 100 * list->counted / seconds / devices[d].tensor);
    }
}

static const char introduction[] =
    "# Expected times of CUDA kernels\n\n"
    "**Computed, never run on a GPU**: these times are lower bounds that no kernel reaches. `make cuda-times` "
    "generates this page\n"
    "from the plan of a training step of GPT-2 124M: batch %d x %d tokens in one pass, AdamW, no dropout, no "
    "recomputation, eitp's own products.\n\n"
    "A kernel either computes its operations at the nominal rate of a device, or moves its bytes at the nominal rate "
    "of the device's memory,\n"
    "whichever takes longer. Operations are counted per op. For attention, they include all products that the kernels "
    "need to be about as accurate\n"
    "as F32: 3 instead of 2 in the forward pass, and 10 instead of 5 in the backward pass. Bytes count each operand "
    "once, and twice the data that one\n"
    "kernel of a call leaves for the next one. Time between kernels and repeated reads of tiles are not included.\n\n"
    "| device | tensor cores, TFLOP/s | F32, TFLOP/s | memory, TB/s | FLOP/byte where both take equal time |\n"
    "|---|--:|--:|--:|--:|\n";

void print_times(void) {
    static group_list half, single;
    single.products_alone = 1;
    plan_step(&half, "bf16");
    plan_step(&single, "fp32");
    printf(introduction, SAMPLES, TOKENS);
    for (int d = 0; d < NOMINAL; d++)
        printf("| %s | %.0f | %.1f | %.3f | %.0f |\n", devices[d].name, devices[d].tensor / 1e12, devices[d].f32 / 1e12,
               devices[d].bytes / 1e12, devices[d].tensor / devices[d].bytes);
    printf("\n## bf16\n\n");
    print_table(&half);
    print_sum(&half);
    printf("\n## fp32: the products\n\nTensor cores are not used, because their F32 is not exact.\n\n");
    print_table(&single);
    printf("\n## Constants\n\nPublished figures of hardware and of other programs:\n\n");
    print_speeds();
}
