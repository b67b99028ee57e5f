/* The launches that the CUDA backend makes for a call (backends/cuda/program.c), without a device. */
#ifndef EITP_TEST_CUDA_LAUNCHES_H
#define EITP_TEST_CUDA_LAUNCHES_H

#include "tests/support/everything.h"

enum { CUDA_MOST_LAUNCHES = EITP__CUDA_STAGES + 1 };

/* A kernel, or a product of cuBLASLt. */
typedef struct cuda_launch {
    const eitp__cuda_kernels *kernels; /* NULL: cuBLASLt */
    const eitp__cuda_stage *stage;
    int64_t blocks;
    size_t shared; /* dynamic, in bytes */
} cuda_launch;

static EITP__UNUSED int cuda_add_stages(const eitp__cuda_kernels *kernels, const eitp__call *call,
                                        cuda_launch *launches) {
    int count = 0;
    for (int s = 0; s < EITP__CUDA_STAGES && kernels->stages[s].kernel; s++) {
        const eitp__cuda_stage *stage = &kernels->stages[s];
        cuda_launch launch = EITP__ZERO;
        launch.kernels = kernels;
        launch.stage = stage;
        launch.blocks = stage->blocks(call);
        launch.shared = stage->shared ? stage->shared(call) : 0;
        if (launch.blocks > 0)
            launches[count++] = launch;
    }
    return count;
}

/* ---- Parts of calls ---- */

/* A call that the backend executes: of a step of a plan, or a part of it (backends/cuda/divide.c). */
typedef struct cuda_part {
    eitp__call call;
    const eitp__cuda_kernels *kernels; /* NULL: cuBLASLt, or there is no kernel */
    int is_product;                    /* 1: cuBLASLt */
    int is_divided;                    /* 0: the whole call */
    size_t step;
} cuda_part;

enum { CUDA_MOST_PARTS = 3 };

static EITP__UNUSED void cuda_add_part(cuda_part *part, const eitp__call *call, const eitp__cuda_kernels *kernels,
                                       int is_product) {
    memset(part, 0, sizeof *part);
    part->call = *call;
    part->kernels = kernels;
    part->is_product = is_product;
}

/*
 * Lists the parts of a call whose operands have addresses. Returns their number. cuBLASLt is expected to have an
 * algorithm, and a program to compute the factors of sums over rows itself. `rounded` is an address for a rounded bias.
 */
static EITP__UNUSED int cuda_parts_of(const eitp__cuda *cuda, const eitp__call *call, void *rounded,
                                      cuda_part parts[CUDA_MOST_PARTS]) {
    static eitp__blas_division division;
    int count = 0;
    if (!eitp__cuda_blas_takes(&cuda->blas, call) || !eitp__cuda_blas_allows_addresses(call)) {
        cuda_add_part(&parts[0], call, eitp__cuda_find(call, &cuda->device), 0);
        return 1;
    }
    eitp__cuda_blas_divide(&cuda->blas, &cuda->device, call,
                           eitp__cuda_blas_bias_bytes(&cuda->blas, call) ? rounded : NULL, &division);
    if (division.rounding_kernels)
        cuda_add_part(&parts[count++], &division.rounding, division.rounding_kernels, 0);
    cuda_add_part(&parts[count++], &division.product, NULL, 1);
    if (division.rest_kernels)
        cuda_add_part(&parts[count++], &division.rest, division.rest_kernels, 0);
    for (int i = 0; i < count; i++)
        parts[i].is_divided = count > 1;
    return count;
}

enum { CUDA_NEXT_CALLS = EITP__CUDA_FUSED_DISTANCE + 1 };

/* The call that is executed instead of the last part of step `s`, a HEAD, of the next step, and of the one at the
   returned distance, in whole executions. Returns 0 if there is none. */
static EITP__UNUSED size_t cuda_fused_of(const eitp__cuda *cuda, const eitp_plan *plan, size_t s, cuda_part *fused) {
    eitp__instruction next[CUDA_NEXT_CALLS];
    eitp__call call;
    size_t count = 0, distance;
    if (plan->calls[s].slot != EITP__SLOT_HEAD || !eitp__cuda_blas_takes(&cuda->blas, &plan->calls[s]))
        return 0;
    memset(next, 0, sizeof next);
    for (; count < CUDA_NEXT_CALLS && s + count < plan->step_count; count++) {
        next[count].kind = EITP__COMPUTE;
        next[count].call = &plan->calls[s + count];
    }
    distance = eitp__cuda_fused_call(next, count, &call);
    if (distance)
        cuda_add_part(fused, &call, eitp__cuda_blas_loss_backward(), 0);
    fused->is_divided = 1;
    fused->step = s;
    return distance;
}

/* Lists the launches of a part. Returns their number: 0 if the backend has no kernel. */
static EITP__UNUSED int cuda_launches_of(const cuda_part *part, cuda_launch launches[CUDA_MOST_LAUNCHES]) {
    int count = 0;
    if (!part->is_product)
        return part->kernels ? cuda_add_stages(part->kernels, &part->call, launches) : 0;
    if (eitp__cuda_blas_sums_rows(&part->call))
        count = cuda_add_stages(eitp__cuda_blas_clear(), &part->call, launches);
    memset(&launches[count], 0, sizeof launches[count]);
    return count + 1;
}

/* ---- Plans ---- */

/* The launches of a plan in the order of the backend, where calls share launches (backends/cuda/groups.c). Units of the
   order name parts. */
typedef struct cuda_ordered_plan {
    const eitp_plan *plan;
    cuda_part *parts;
    size_t *instead; /* indexed by part: the one that is executed in its place */
    size_t count;
    cuda_launch *launches; /* from first[i] on for part i */
    size_t *first;
    eitp__cuda_order order;
} cuda_ordered_plan;

/* Stands for the function of a kernel. */
static EITP__UNUSED eitp__cuda_function cuda_function_of(const cuda_launch *launch, const eitp__call *call) {
    char name[EITP__CUDA_DEFINITIONS + 200], definitions[EITP__CUDA_DEFINITIONS];
    eitp__cuda_definitions(launch->kernels, call, definitions);
    snprintf(name, sizeof name, "%s %s %s", launch->kernels->file, definitions, launch->stage->kernel);
    return (eitp__cuda_function)(uintptr_t)eitp__fnv1a(EITP__FNV_START, name, strlen(name));
}

/* Divides the calls of a plan, whose rounded biases have addresses without memory. */
static EITP__UNUSED void cuda_divide_plan(const eitp__cuda *cuda, const eitp_plan *plan, cuda_ordered_plan *ordered) {
    const size_t capacity = plan->step_count * (CUDA_MOST_PARTS + 1) + 1;
    size_t *first = (size_t *)calloc(plan->step_count + 1, sizeof *first);
    uintptr_t rounded = (uintptr_t)1 << 50;
    ordered->plan = plan;
    ordered->parts = (cuda_part *)calloc(capacity, sizeof *ordered->parts);
    ordered->instead = (size_t *)calloc(capacity, sizeof *ordered->instead);
    for (size_t s = 0; s < plan->step_count; s++) {
        cuda_part *parts = &ordered->parts[ordered->count];
        const int count = cuda_parts_of(cuda, &plan->calls[s], (void *)rounded, parts);
        first[s] = ordered->count;
        for (int i = 0; i < count; i++) {
            parts[i].step = s;
            ordered->instead[ordered->count] = ordered->count;
            ordered->count++;
        }
        rounded += eitp__cuda_blas_bias_bytes(&cuda->blas, &plan->calls[s]);
    }
    for (size_t s = 0; s < plan->step_count; s++) {
        const size_t distance = cuda_fused_of(cuda, plan, s, &ordered->parts[ordered->count]);
        if (!distance)
            continue;
        ordered->instead[first[s + 1] - 1] = ordered->count;
        ordered->instead[first[s + 1]] = ordered->instead[first[s + distance]] = EITP__CUDA_NOTHING;
        ordered->instead[ordered->count++] = EITP__CUDA_NOTHING;
    }
    free(first);
}

/* Lists the launches of part `i` of an ordered plan, for the backend and for its caller. */
static EITP__UNUSED void cuda_add_launches(cuda_ordered_plan *ordered, size_t i, eitp__cuda_launch *made) {
    const cuda_part *part = &ordered->parts[i];
    const size_t first = ordered->first[i];
    const size_t end = first + (size_t)cuda_launches_of(part, &ordered->launches[first]);
    ordered->first[i + 1] = end;
    for (size_t k = first; k < end; k++) {
        const cuda_launch *launch = &ordered->launches[k];
        made[k].instruction = i;
        if (!launch->kernels)
            continue;
        made[k].function = cuda_function_of(launch, &part->call);
        made[k].blocks = (unsigned)launch->blocks;
        made[k].threads = (unsigned)launch->stage->threads;
        made[k].shared = (unsigned)launch->shared;
        made[k].is_grouped = eitp__cuda_is_grouped(launch->kernels, &part->call);
    }
}

/* Orders a plan. Uploads the arguments of its groups, which are not executed. Release it even after a failure. */
static EITP__UNUSED eitp_status cuda_order_plan(eitp__cuda *cuda, const eitp_plan *plan, cuda_ordered_plan *ordered,
                                                eitp_error *error) {
    eitp__instruction *instructions;
    eitp__launch *arguments;
    eitp__cuda_launch *made;
    eitp__program_info info = EITP__ZERO;
    eitp_status status;
    memset(ordered, 0, sizeof *ordered);
    cuda_divide_plan(cuda, plan, ordered);
    instructions = (eitp__instruction *)calloc(ordered->count + 1, sizeof *instructions);
    arguments = (eitp__launch *)calloc(ordered->count + 1, sizeof *arguments);
    made = (eitp__cuda_launch *)calloc(ordered->count * CUDA_MOST_LAUNCHES + 1, sizeof *made);
    ordered->launches = (cuda_launch *)calloc(ordered->count * CUDA_MOST_LAUNCHES + 1, sizeof *ordered->launches);
    ordered->first = (size_t *)calloc(ordered->count + 1, sizeof *ordered->first);
    for (size_t i = 0; i < ordered->count; i++) {
        instructions[i].call = &ordered->parts[i].call;
        cuda_add_launches(ordered, i, made);
    }
    info.instructions = instructions;
    info.count = ordered->count;
    status =
        eitp__cuda_order_create(cuda, &info, ordered->instead, arguments, made, ordered->first, &ordered->order, error);
    free(instructions);
    free(arguments);
    free(made);
    return status;
}

/* Returns the work of a part. */
static EITP__UNUSED eitp__call_work cuda_work_of_part(const cuda_ordered_plan *ordered, size_t part) {
    const cuda_part *of = &ordered->parts[part];
    eitp__call_work work = eitp__work_of_step(ordered->plan, of->step);
    if (of->is_divided)
        eitp__cuda_part_work(&of->call, of->is_product, &work);
    return work;
}

/* Lists the kernels of the launches of a part. Returns their number. */
static EITP__UNUSED size_t cuda_kernels_of_part(const cuda_ordered_plan *ordered, size_t part,
                                                eitp__cuda_kernel kernels[CUDA_MOST_LAUNCHES]) {
    const size_t first = ordered->first[part], count = ordered->first[part + 1] - first;
    for (size_t i = 0; i < count; i++) {
        kernels[i].entry = ordered->launches[first + i].kernels;
        kernels[i].stage = ordered->launches[first + i].stage;
    }
    return count;
}

static EITP__UNUSED void cuda_ordered_plan_release(eitp__cuda *cuda, cuda_ordered_plan *ordered) {
    eitp__cuda_order_release(cuda, &ordered->order);
    free(ordered->parts);
    free(ordered->instead);
    free(ordered->launches);
    free(ordered->first);
}

#endif
