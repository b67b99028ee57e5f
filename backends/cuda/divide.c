/*
 * Divides the instructions of a program: a call whose product cuBLASLt computes becomes this product, and calls of
 * eitp's kernels before and after it (eitp__cuda_blas_divide). Each is an instruction, so that the calls that round
 * biases can share a launch.
 */
#include "backends/cuda/cuda.h"

#if EITP__WITH_CUDA

/* ---- Rows beyond the execution's ---- */

/* True if the memory of one of these operands contains x. */
static int eitp__cuda_contain(const eitp__operand *operands, int count, const eitp__operand *x) {
    const uintptr_t begin = (uintptr_t)x->data, end = begin + (uintptr_t)x->elements * eitp_dtype_size(x->dtype);
    for (int i = 0; i < count; i++) {
        const eitp__operand *other = &operands[i];
        const uintptr_t first = (uintptr_t)other->data;
        if (other->row_elements && first <= begin &&
            end <= first + (uintptr_t)other->elements * eitp_dtype_size(other->dtype))
            return 1;
    }
    return 0;
}

/*
 * True if rows of an operand of instruction `i` beyond the execution's may be overwritten: the program recomputes the
 * tensor each time, with no more rows than the execution has, so they are never read. Such rows of an input may be data
 * for a later execution with more rows.
 */
static int eitp__cuda_may_clear(const eitp__program_info *info, size_t i, const eitp__operand *x) {
    for (size_t k = 0; k < i; k++) {
        const eitp__call *call = info->instructions[k].kind == EITP__COMPUTE ? info->instructions[k].call : NULL;
        if (call && eitp__cuda_contain(call->outputs, call->output_count, x) &&
            !eitp__cuda_contain(call->inputs, call->input_count, x))
            return 1;
    }
    return 0;
}

/* ---- Dividing ---- */

/* Adds instruction `i` of the plan, or a call that it is divided into. */
static void eitp__add_part(eitp__cuda_division *division, const eitp__program_info *info, size_t i, eitp__call *call,
                           eitp__cuda_product *product, const eitp__cuda_kernels *kernels) {
    eitp__instruction *added = &division->instructions[division->count];
    eitp__cuda_part *part = &division->parts[division->count++];
    *added = info->instructions[i];
    added->call = call;
    if (added->kind == EITP__COMPLETE)
        added->transfer = division->first[added->transfer];
    part->product = product;
    part->kernels = kernels;
    part->whole = i;
    division->instead[division->count - 1] = division->count - 1;
}

/* True if cuBLASLt may compute the product of instruction `i`. */
static int eitp__is_divisible_call(const eitp__cuda *cuda, const eitp__program_info *info, size_t i) {
    const eitp__call *call = info->instructions[i].call;
    return info->instructions[i].kind == EITP__COMPUTE && eitp__cuda_blas_takes(&cuda->blas, call) &&
           eitp__cuda_blas_allows_addresses(call) &&
           (!eitp__cuda_blas_sums_rows(call) ||
            (eitp__cuda_may_clear(info, i, &call->inputs[0]) && eitp__cuda_may_clear(info, i, &call->inputs[1])));
}

/* Adds the parts of instruction `i`, or the whole if cuBLASLt cannot compute its product. `bias` is the memory for its
   rounded bias, or NULL. */
static eitp_status eitp__divide_instruction(eitp__cuda *cuda, const eitp__program_info *info, size_t i, void *bias,
                                            eitp__cuda_division *division, eitp_error *error) {
    eitp__blas_division *calls = &division->calls[division->call_count];
    eitp__cuda_product *product = NULL;
    eitp_status status;
    eitp__cuda_blas_divide(&cuda->blas, &cuda->device, info->instructions[i].call, bias, calls);
    status = eitp__cuda_product_create(&cuda->blas, &calls->product, info->workspace, &product, error);
    if (status)
        return status;
    if (!product) {
        eitp__add_part(division, info, i, info->instructions[i].call, NULL, NULL);
        return EITP_OK;
    }
    division->call_count++;
    if (calls->rounding_kernels)
        eitp__add_part(division, info, i, &calls->rounding, NULL, calls->rounding_kernels);
    eitp__add_part(division, info, i, &calls->product, product, NULL);
    if (calls->rest_kernels)
        eitp__add_part(division, info, i, &calls->rest, NULL, calls->rest_kernels);
    return EITP_OK;
}

/* Adds a call that whole executions compute instead of the rest of HEAD, instruction `i` of the plan, of HEAD_LOSS, and
   of HEAD_BACKWARD at a distance. */
static void eitp__add_fused(eitp__cuda_division *division, const eitp__program_info *info, size_t i, size_t distance) {
    const size_t fused = division->count;
    eitp__add_part(division, info, i, &division->fused_calls[division->fused_count++], NULL,
                   eitp__cuda_blas_loss_backward());
    division->instead[division->first[i + 1] - 1] = fused;
    division->instead[division->first[i + 1]] = EITP__CUDA_NOTHING;
    division->instead[division->first[i + distance]] = EITP__CUDA_NOTHING;
    division->instead[fused] = EITP__CUDA_NOTHING;
}

static void eitp__fuse_calls(eitp__cuda_division *division, const eitp__program_info *info) {
    for (size_t i = 0; i < info->count; i++) {
        const eitp__call *call = info->instructions[i].call;
        size_t distance = 0;
        if (call && call->slot == EITP__SLOT_HEAD && division->parts[division->first[i]].product)
            distance = eitp__cuda_fused_call(&info->instructions[i], info->count - i,
                                             &division->fused_calls[division->fused_count]);
        if (distance)
            eitp__add_fused(division, info, i, distance);
    }
}

static eitp_status eitp__divide_all(eitp__cuda *cuda, const eitp__program_info *info, eitp__cuda_division *division,
                                    eitp_error *error) {
    eitp__cuda_address bias = division->biases;
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < info->count && !status; i++) {
        const eitp__call *call = info->instructions[i].call;
        const size_t bytes = call ? eitp__cuda_blas_bias_bytes(&cuda->blas, call) : 0;
        division->first[i] = division->count;
        if (eitp__is_divisible_call(cuda, info, i))
            status = eitp__divide_instruction(cuda, info, i, bytes ? (void *)(uintptr_t)bias : NULL, division, error);
        else
            eitp__add_part(division, info, i, info->instructions[i].call, NULL, NULL);
        bias += bytes;
    }
    division->first[info->count] = division->count;
    if (!status)
        eitp__fuse_calls(division, info);
    return status;
}

/* Allocates what dividing needs at most. Each rounded bias has its own memory, and not in the workspace, which calls
   share: a call that rounds one depends only on the bias. */
static eitp_status eitp__allocate_division(eitp__cuda *cuda, const eitp__program_info *info,
                                           eitp__cuda_division *division, eitp_error *error) {
    const eitp_host *host = &cuda->base.host;
    size_t bias_bytes = 0;
    for (size_t i = 0; i < info->count; i++) {
        const eitp__call *call = info->instructions[i].call;
        const size_t is_divisible = (size_t)eitp__is_divisible_call(cuda, info, i);
        bias_bytes += call ? eitp__cuda_blas_bias_bytes(&cuda->blas, call) : 0;
        division->call_capacity += is_divisible;
        division->fused_capacity += is_divisible && call->slot == EITP__SLOT_HEAD;
    }
    division->plan_count = info->count;
    division->capacity = info->count + 2 * division->call_capacity + division->fused_capacity;
    division->first = (size_t *)eitp__allocate(host, (info->count + 1) * sizeof *division->first);
    division->instructions =
        (eitp__instruction *)eitp__allocate(host, division->capacity * sizeof *division->instructions);
    division->parts = (eitp__cuda_part *)eitp__allocate(host, division->capacity * sizeof *division->parts);
    division->instead = (size_t *)eitp__allocate(host, division->capacity * sizeof *division->instead);
    division->calls = (eitp__blas_division *)eitp__allocate(host, division->call_capacity * sizeof *division->calls);
    division->fused_calls =
        (eitp__call *)eitp__allocate(host, division->fused_capacity * sizeof *division->fused_calls);
    if (!division->first || (info->count && (!division->instructions || !division->parts || !division->instead)) ||
        (division->call_capacity && !division->calls) || (division->fused_capacity && !division->fused_calls))
        return eitp__fail_memory(error, division->capacity * sizeof *division->instructions, "a program");
    return bias_bytes ? eitp__cuda_check(&cuda->driver, cuda->driver.allocate(&division->biases, bias_bytes),
                                         "cuMemAlloc", error)
                      : EITP_OK;
}

EITP__PRIVATE eitp_status eitp__cuda_divide(eitp__cuda *cuda, const eitp__program_info *info,
                                            eitp__cuda_division *division, eitp__program_info *divided,
                                            eitp_error *error) {
    eitp_status status = eitp__allocate_division(cuda, info, division, error);
    if (!status)
        status = eitp__divide_all(cuda, info, division, error);
    *divided = *info;
    divided->instructions = division->instructions;
    divided->count = division->count;
    return status;
}

EITP__PRIVATE void eitp__cuda_division_release(eitp__cuda *cuda, eitp__cuda_division *division) {
    const eitp_host *host = &cuda->base.host;
    for (size_t i = 0; i < division->count; i++)
        if (division->parts[i].product)
            eitp__cuda_product_destroy(&cuda->blas, division->parts[i].product);
    if (division->biases)
        cuda->driver.release(division->biases);
    eitp__release(host, division->first, (division->plan_count + 1) * sizeof *division->first);
    eitp__release(host, division->instructions, division->capacity * sizeof *division->instructions);
    eitp__release(host, division->parts, division->capacity * sizeof *division->parts);
    eitp__release(host, division->instead, division->capacity * sizeof *division->instead);
    eitp__release(host, division->calls, division->call_capacity * sizeof *division->calls);
    eitp__release(host, division->fused_calls, division->fused_capacity * sizeof *division->fused_calls);
}

#endif
