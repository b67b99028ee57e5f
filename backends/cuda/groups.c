/*
 * The order of a program, in which calls of the same kernel share launches: groups.
 *
 * A step has hundreds of small calls, one per parameter, and each launch takes microseconds. A call joins the last unit
 * of its kernel if it may be executed as early as that, or if that may be executed as late as the call: none of the
 * calls between them uses memory that the other one writes. The calls of a group do not depend on each other, and have
 * their own blocks. Or else each depends on the one before, and the only block executes this chain in order. Calls are
 * not moved across transfers.
 *
 * Calls with several launches, cuBLASLt products and calls with a workspace, which all calls share, are not moved.
 */
#include "backends/cuda/cuda.h"

#if EITP__WITH_CUDA

#define EITP__NO_LAUNCH ((int64_t)-1)

/* A unit while the order is being made. */
typedef struct eitp__unit_plan {
    uint64_t position; /* units are executed by increasing position */
    size_t instruction, calls;
    int64_t head, tail; /* its launches; EITP__NO_LAUNCH: an instruction that cannot join others */
    int is_chain;
} eitp__unit_plan;

typedef struct eitp__order_plan {
    const eitp__program_info *info;
    const size_t *instead;
    eitp__cuda_launch *launches;
    const size_t *first;
    eitp__unit_plan *units; /* [info->count] */
    size_t unit_count;
    int64_t *next; /* indexed by launch: the next of its unit, or EITP__NO_LAUNCH */
    uint64_t positions;
} eitp__order_plan;

/* ---- Conflicts ---- */

static int eitp__memory_overlaps(const void *a, size_t a_size, const void *b, size_t b_size) {
    const uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return x && y && x < y + b_size && y < x + a_size;
}

static size_t eitp__bytes_of_operand(const eitp__operand *x) {
    return (size_t)x->elements * eitp_dtype_size(x->dtype);
}

/* True if the call reads or writes a range of memory; with only_writes, if it writes it. */
static int eitp__call_uses(const eitp__call *call, const void *memory, size_t size, int only_writes) {
    for (int o = 0; o < call->output_count; o++)
        if (eitp__memory_overlaps(call->outputs[o].data, eitp__bytes_of_operand(&call->outputs[o]), memory, size))
            return 1;
    for (int i = 0; i < call->input_count && !only_writes; i++)
        if (eitp__memory_overlaps(call->inputs[i].data, eitp__bytes_of_operand(&call->inputs[i]), memory, size))
            return 1;
    return !only_writes && eitp__memory_overlaps(call->carry, sizeof *call->carry, memory, size);
}

EITP__PRIVATE int eitp__cuda_call_uses(const eitp__call *call, const eitp__operand *x, int only_writes) {
    return eitp__call_uses(call, x->data, eitp__bytes_of_operand(x), only_writes);
}

/* True if one of the calls writes memory that the other one uses. */
static int eitp__calls_conflict(const eitp__call *a, const eitp__call *b) {
    for (int o = 0; o < a->output_count; o++)
        if (eitp__cuda_call_uses(b, &a->outputs[o], 0))
            return 1;
    for (int i = 0; i < a->input_count; i++)
        if (eitp__cuda_call_uses(b, &a->inputs[i], 1))
            return 1;
    return eitp__call_uses(b, a->carry, sizeof *a->carry, 1);
}

static const eitp__call *eitp__call_of_launch(const eitp__order_plan *plan, int64_t launch) {
    return plan->info->instructions[plan->launches[launch].instruction].call;
}

/* True if a call conflicts with one of a unit. Everything conflicts with transfers. */
static int eitp__unit_conflicts(const eitp__order_plan *plan, const eitp__unit_plan *unit, const eitp__call *call) {
    const eitp__instruction *instruction = &plan->info->instructions[unit->instruction];
    if (unit->head == EITP__NO_LAUNCH)
        return instruction->kind != EITP__COMPUTE || eitp__calls_conflict(instruction->call, call);
    for (int64_t k = unit->head; k != EITP__NO_LAUNCH; k = plan->next[k])
        if (eitp__calls_conflict(eitp__call_of_launch(plan, k), call))
            return 1;
    return 0;
}

/* True if a call conflicts with a unit after another one. */
static int eitp__later_units_conflict(const eitp__order_plan *plan, const eitp__unit_plan *unit,
                                      const eitp__call *call) {
    for (size_t u = plan->unit_count; u-- > 0;)
        if (plan->units[u].position > unit->position && eitp__unit_conflicts(plan, &plan->units[u], call))
            return 1;
    return 0;
}

/* True if a unit can be executed after all others. */
static int eitp__may_be_last(const eitp__order_plan *plan, const eitp__unit_plan *unit) {
    for (int64_t k = unit->head; k != EITP__NO_LAUNCH; k = plan->next[k])
        if (eitp__later_units_conflict(plan, unit, eitp__call_of_launch(plan, k)))
            return 0;
    return 1;
}

/* ---- Joining ---- */

static int eitp__is_same_kernel(const eitp__cuda_launch *a, const eitp__cuda_launch *b) {
    return a->function == b->function && a->threads == b->threads && a->shared == b->shared;
}

/* Returns the last unit of this launch's kernel, or NULL. */
static eitp__unit_plan *eitp__find_unit(const eitp__order_plan *plan, const eitp__cuda_launch *launch) {
    eitp__unit_plan *found = NULL;
    for (size_t u = 0; u < plan->unit_count; u++) {
        eitp__unit_plan *unit = &plan->units[u];
        if (unit->head != EITP__NO_LAUNCH && (!found || unit->position > found->position) &&
            eitp__is_same_kernel(&plan->launches[unit->head], launch))
            found = unit;
    }
    return found;
}

/* Adds a launch to a unit if it may be executed with its calls. */
static int eitp__join_unit(eitp__order_plan *plan, eitp__unit_plan *unit, int64_t launch) {
    const int depends = eitp__unit_conflicts(plan, unit, eitp__call_of_launch(plan, launch));
    const int can_chain = plan->launches[launch].blocks == 1 && plan->launches[unit->head].blocks == 1;
    if (unit->is_chain ? !can_chain : depends && !(unit->calls == 1 && can_chain))
        return 0;
    unit->is_chain |= depends;
    unit->instruction = plan->launches[launch].instruction;
    plan->next[unit->tail] = launch;
    unit->tail = launch;
    unit->calls++;
    return 1;
}

/* Adds a launch to an earlier unit of its kernel, which may become the last one. */
static int eitp__join_unit_of_kernel(eitp__order_plan *plan, int64_t launch) {
    eitp__unit_plan *unit = eitp__find_unit(plan, &plan->launches[launch]);
    if (!unit)
        return 0;
    if (!eitp__later_units_conflict(plan, unit, eitp__call_of_launch(plan, launch)))
        return eitp__join_unit(plan, unit, launch);
    if (!eitp__may_be_last(plan, unit) || !eitp__join_unit(plan, unit, launch))
        return 0;
    unit->position = plan->positions++;
    return 1;
}

/* Returns the launch of an instruction that may be moved, or EITP__NO_LAUNCH. */
static int64_t eitp__movable_launch(const eitp__order_plan *plan, const eitp__cuda *cuda, size_t i) {
    const size_t launch = plan->first[i];
    const eitp__cuda_kernels *kernels;
    if (plan->first[i + 1] - launch != 1 || !plan->launches[launch].is_grouped)
        return EITP__NO_LAUNCH;
    kernels = eitp__cuda_find(plan->info->instructions[i].call, &cuda->device);
    return kernels->workspace && kernels->workspace(plan->info->instructions[i].call) ? EITP__NO_LAUNCH
                                                                                      : (int64_t)launch;
}

static void eitp__order_instructions(eitp__order_plan *plan, const eitp__cuda *cuda) {
    for (size_t i = 0; i < plan->info->count; i++) {
        const size_t instruction = plan->instead[i];
        const int64_t launch =
            instruction == EITP__CUDA_NOTHING ? EITP__NO_LAUNCH : eitp__movable_launch(plan, cuda, instruction);
        eitp__unit_plan *unit = &plan->units[plan->unit_count];
        if (instruction == EITP__CUDA_NOTHING || (launch != EITP__NO_LAUNCH && eitp__join_unit_of_kernel(plan, launch)))
            continue;
        unit->position = plan->positions++;
        unit->instruction = instruction;
        unit->head = unit->tail = launch;
        unit->calls = 1;
        plan->unit_count++;
    }
}

static int eitp__compare_positions(const void *a, const void *b) {
    const uint64_t x = ((const eitp__unit_plan *)a)->position, y = ((const eitp__unit_plan *)b)->position;
    return x < y ? -1 : x > y;
}

/* ---- Arguments ---- */

/* The arguments of all groups, and of calls alone whose kernels take groups, on the host. */
typedef struct eitp__group_arguments {
    eitp__launch *calls;
    eitp__group_block *blocks;
    size_t call_count, block_count;
} eitp__group_arguments;

/* Adds the argument of a launch, which becomes the next in device memory. */
static void eitp__add_argument(eitp__group_arguments *all, const eitp__launch *argument, eitp__cuda_launch *launch,
                               eitp__cuda_address memory) {
    launch->group.calls = (const eitp__launch *)(uintptr_t)memory + all->call_count;
    launch->group.chain = 1;
    all->calls[all->call_count++] = *argument;
}

static void eitp__add_block(eitp__group_arguments *all, size_t call, size_t block) {
    all->blocks[all->block_count].call = (uint32_t)call;
    all->blocks[all->block_count++].block = (uint32_t)block;
}

/* Adds the arguments of a unit, and makes it a group if it has several calls. */
static void eitp__add_unit(const eitp__order_plan *plan, const eitp__unit_plan *planned, const eitp__launch *arguments,
                           eitp__cuda_address calls, eitp__cuda_address blocks, eitp__group_arguments *all,
                           eitp__cuda_order *order) {
    const size_t first_block = all->block_count;
    eitp__cuda_unit *unit = &order->units[order->count++];
    size_t call = 0;
    unit->instruction = planned->instruction;
    unit->first_member = order->member_count;
    for (int64_t k = planned->head; k != EITP__NO_LAUNCH; k = plan->next[k], call++) {
        eitp__cuda_launch *launch = &plan->launches[k];
        eitp__add_argument(all, &arguments[launch->instruction], launch, calls);
        order->members[order->member_count++] = launch->instruction;
        for (unsigned b = 0; b < launch->blocks && planned->calls > 1 && !planned->is_chain; b++)
            eitp__add_block(all, call, b);
    }
    if (planned->calls < 2)
        return;
    unit->call_count = planned->calls;
    unit->launch = plan->launches[planned->head];
    unit->launch.group.chain = planned->is_chain ? (int)planned->calls : 1;
    if (!planned->is_chain) {
        unit->launch.group.blocks = (const eitp__group_block *)(uintptr_t)blocks + first_block;
        unit->launch.blocks = (unsigned)(all->block_count - first_block);
    }
}

/* Adds the launches of instructions that cannot be moved. */
static void eitp__add_others(const eitp__order_plan *plan, const eitp__launch *arguments, eitp__cuda_address memory,
                             eitp__group_arguments *all) {
    for (size_t k = 0; k < plan->first[plan->info->count]; k++) {
        eitp__cuda_launch *launch = &plan->launches[k];
        if (launch->is_grouped && !launch->group.calls)
            eitp__add_argument(all, &arguments[launch->instruction], launch, memory);
    }
}

static eitp_status eitp__upload_arguments(eitp__cuda *cuda, const eitp__group_arguments *all, eitp__cuda_address calls,
                                          eitp__cuda_address blocks, eitp_error *error) {
    const eitp__cuda_driver *driver = &cuda->driver;
    eitp_status status =
        eitp__cuda_check(driver, driver->upload(calls, all->calls, all->call_count * sizeof *all->calls, cuda->compute),
                         "cuMemcpyHtoDAsync", error);
    if (!status && all->block_count)
        status = eitp__cuda_check(
            driver, driver->upload(blocks, all->blocks, all->block_count * sizeof *all->blocks, cuda->compute),
            "cuMemcpyHtoDAsync", error);
    return status ? status : eitp__cuda_finish(cuda, error);
}

/* Makes the units, whose arguments are uploaded to order->memory. `blocks` is the number of blocks of all grouped
   launches. */
static eitp_status eitp__make_units(eitp__cuda *cuda, const eitp__order_plan *plan, const eitp__launch *arguments,
                                    size_t calls, size_t blocks, eitp__cuda_order *order, eitp_error *error) {
    const eitp_host *host = &cuda->base.host;
    const size_t call_bytes = calls * sizeof(eitp__launch), block_bytes = blocks * sizeof(eitp__group_block);
    eitp__group_arguments all = EITP__ZERO;
    eitp_status status = EITP_OK;
    if (calls) {
        all.calls = (eitp__launch *)eitp__allocate(host, call_bytes);
        all.blocks = (eitp__group_block *)eitp__allocate(host, block_bytes);
        if (!all.calls || !all.blocks)
            status = eitp__fail_memory(error, call_bytes + block_bytes, "the arguments of kernels");
        else
            status = eitp__cuda_check(&cuda->driver, cuda->driver.allocate(&order->memory, call_bytes + block_bytes),
                                      "cuMemAlloc", error);
    }
    for (size_t u = 0; u < plan->unit_count && !status; u++)
        eitp__add_unit(plan, &plan->units[u], arguments, order->memory, order->memory + call_bytes, &all, order);
    if (!status && calls) {
        eitp__add_others(plan, arguments, order->memory, &all);
        status = eitp__upload_arguments(cuda, &all, order->memory, order->memory + call_bytes, error);
    }
    eitp__release(host, all.calls, call_bytes);
    eitp__release(host, all.blocks, block_bytes);
    return status;
}

/* ---- The order ---- */

static eitp_status eitp__make_order(eitp__cuda *cuda, eitp__order_plan *plan, const eitp__launch *arguments,
                                    eitp__cuda_order *order, eitp_error *error) {
    size_t calls = 0, blocks = 0;
    for (size_t k = 0; k < plan->first[plan->info->count]; k++)
        if (plan->launches[k].is_grouped) {
            calls++;
            blocks += plan->launches[k].blocks;
            plan->next[k] = EITP__NO_LAUNCH;
        }
    eitp__order_instructions(plan, cuda);
    qsort(plan->units, plan->unit_count, sizeof *plan->units, eitp__compare_positions);
    return eitp__make_units(cuda, plan, arguments, calls, blocks, order, error);
}

EITP__PRIVATE eitp_status eitp__cuda_order_create(eitp__cuda *cuda, const eitp__program_info *info,
                                                  const size_t *instead, const eitp__launch *arguments,
                                                  eitp__cuda_launch *launches, const size_t *first,
                                                  eitp__cuda_order *order, eitp_error *error) {
    const eitp_host *host = &cuda->base.host;
    const size_t units = info->count, count = first[units];
    eitp__order_plan plan = EITP__ZERO;
    eitp_status status = EITP_OK;
    memset(order, 0, sizeof *order);
    if (!units)
        return EITP_OK;
    plan.info = info;
    plan.instead = instead;
    plan.launches = launches;
    plan.first = first;
    plan.units = (eitp__unit_plan *)eitp__allocate(host, units * sizeof *plan.units);
    plan.next = (int64_t *)eitp__allocate(host, (count + 1) * sizeof *plan.next);
    order->units = (eitp__cuda_unit *)eitp__allocate(host, units * sizeof *order->units);
    order->members = (size_t *)eitp__allocate(host, units * sizeof *order->members);
    order->capacity = units;
    if (!plan.units || !plan.next || !order->units || !order->members)
        status = eitp__fail_memory(error, units * (sizeof *plan.units + sizeof *order->units), "a program");
    else
        status = eitp__make_order(cuda, &plan, arguments, order, error);
    eitp__release(host, plan.units, units * sizeof *plan.units);
    eitp__release(host, plan.next, (count + 1) * sizeof *plan.next);
    return status;
}

EITP__PRIVATE void eitp__cuda_order_release(eitp__cuda *cuda, eitp__cuda_order *order) {
    if (order->memory)
        cuda->driver.release(order->memory);
    eitp__release(&cuda->base.host, order->units, order->capacity * sizeof *order->units);
    eitp__release(&cuda->base.host, order->members, order->capacity * sizeof *order->members);
    memset(order, 0, sizeof *order);
}

#endif
