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

/*
 * Lists the launches of a call whose operands have addresses. Returns their number: 0 if the backend has no kernel.
 * cuBLASLt is expected to have an algorithm, and a program to compute the factors of sums over rows itself.
 */
static EITP__UNUSED int cuda_launches_of(const eitp__cuda *cuda, const eitp__call *call,
                                         cuda_launch launches[CUDA_MOST_LAUNCHES]) {
    const eitp__cuda_kernels *kernels = eitp__cuda_find(call, &cuda->device);
    int count = 0;
    if (!eitp__cuda_blas_takes(&cuda->blas, call) || !eitp__cuda_blas_has_addresses(call))
        return kernels ? cuda_add_stages(kernels, call, launches) : 0;
    if (eitp__cuda_blas_sums_rows(call))
        count = cuda_add_stages(eitp__cuda_blas_clear(), call, launches);
    memset(&launches[count], 0, sizeof launches[count]);
    return count + 1;
}

/* The launches of a plan in the order of the backend, where calls share launches (backends/cuda/groups.c). */
typedef struct cuda_ordered_plan {
    const eitp_plan *plan;
    cuda_launch *launches; /* from first[s] on for step s */
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

/* Orders a plan. Uploads the arguments of its groups, which are not executed. Release it even after a failure. */
static EITP__UNUSED eitp_status cuda_order_plan(eitp__cuda *cuda, const eitp_plan *plan, cuda_ordered_plan *ordered,
                                                eitp_error *error) {
    const size_t count = plan->step_count;
    eitp__instruction *instructions = (eitp__instruction *)calloc(count + 1, sizeof *instructions);
    eitp__launch *arguments = (eitp__launch *)calloc(count + 1, sizeof *arguments);
    eitp__cuda_launch *made =
        (eitp__cuda_launch *)calloc(count * CUDA_MOST_LAUNCHES + 1, sizeof *made); /* released below */
    eitp__program_info info = EITP__ZERO;
    eitp_status status;
    memset(ordered, 0, sizeof *ordered);
    ordered->plan = plan;
    ordered->launches = (cuda_launch *)calloc(count * CUDA_MOST_LAUNCHES + 1, sizeof *ordered->launches);
    ordered->first = (size_t *)calloc(count + 1, sizeof *ordered->first);
    for (size_t s = 0; s < count; s++) {
        const size_t first = ordered->first[s];
        const size_t launches = (size_t)cuda_launches_of(cuda, &plan->calls[s], &ordered->launches[first]);
        ordered->first[s + 1] = first + launches;
        instructions[s].call = &plan->calls[s];
        for (size_t k = first; k < first + launches; k++) {
            const cuda_launch *launch = &ordered->launches[k];
            made[k].instruction = s;
            if (!launch->kernels)
                continue;
            made[k].function = cuda_function_of(launch, &plan->calls[s]);
            made[k].blocks = (unsigned)launch->blocks;
            made[k].threads = (unsigned)launch->stage->threads;
            made[k].shared = (unsigned)launch->shared;
            made[k].is_grouped = eitp__cuda_is_grouped(launch->kernels, &plan->calls[s]);
        }
    }
    info.instructions = instructions;
    info.count = count;
    status = eitp__cuda_order_create(cuda, &info, arguments, made, ordered->first, &ordered->order, error);
    free(instructions);
    free(arguments);
    free(made);
    return status;
}

static EITP__UNUSED void cuda_ordered_plan_release(eitp__cuda *cuda, cuda_ordered_plan *ordered) {
    eitp__cuda_order_release(cuda, &ordered->order);
    free(ordered->launches);
    free(ordered->first);
}

#endif
