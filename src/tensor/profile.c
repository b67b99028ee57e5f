/* Profiled execution: the computation, memory traffic and time of each step of a plan. */
#include "tensor/profile.h"

void eitp_context_profile(eitp_context *context, const eitp_profiler *profiler) {
    if (!context)
        return;
    memset(&context->profiler, 0, sizeof context->profiler);
    if (profiler)
        context->profiler = *profiler;
}

/* Returns the variable that the tensor is, or is a view of; NULL if it is computed. */
static const eitp_tensor *eitp__profile_variable(eitp_tensor *tensor) {
    const eitp_tensor *owner = tensor ? eitp__owner(tensor, NULL) : NULL;
    return owner && owner->leaf == EITP__VARIABLE ? owner : NULL;
}

/* Returns the first parameter that a node reads; NULL if it reads none. */
static const eitp_tensor *eitp__profile_parameter(const eitp__node *node) {
    for (int i = 0; i < node->input_count; i++) {
        const eitp_tensor *variable = eitp__profile_variable(node->inputs[i]);
        if (variable && eitp_variable_at(node->graph->context, (size_t)variable->variable).role == EITP_PARAMETER)
            return variable;
    }
    return NULL;
}

static int eitp__profile_is_product(const eitp__node *node) {
    return eitp__op(node->graph, node->op)->is_product;
}

/*
 * Returns the parameter whose gradient, or rows of it, is the product of two computed values: a parameter that another
 * product multiplies by one of these two values. Of several, as with an adapter, it is one with the gradient's row
 * length.
 */
static const eitp_tensor *eitp__profile_gradient_of(const eitp_plan *plan, const eitp__node *node) {
    const eitp_tensor *gradient = node->outputs[0];
    for (size_t i = 0; i < plan->step_count && eitp__profile_is_product(node); i++) {
        const eitp__node *other = plan->steps[i].node;
        const eitp_tensor *parameter = eitp__profile_is_product(other) ? eitp__profile_parameter(other) : NULL;
        const eitp_tensor *x = parameter ? eitp__lowered(other->inputs[0]) : NULL;
        if (x && (x == eitp__lowered(node->inputs[0]) || x == eitp__lowered(node->inputs[1])) && parameter->rank == 2 &&
            gradient->rank == 2 && parameter->shape[1] == gradient->shape[1])
            return parameter;
    }
    return NULL;
}

EITP__PRIVATE const char *eitp__step_variable_name(const eitp_plan *plan, const eitp__step *step) {
    const eitp_tensor *variable = eitp__profile_parameter(step->node);
    for (int i = 0; i < step->output_count && !variable; i++)
        variable = eitp__profile_variable(step->outputs[i]);
    if (!variable)
        variable = eitp__profile_gradient_of(plan, step->node);
    return variable ? eitp__variable_name(variable) : "";
}

EITP__PRIVATE const char *eitp__step_location(const eitp_plan *plan, size_t s) {
    const char *name = eitp__step_variable_name(plan, &plan->steps[s]);
    for (size_t i = s; !*name && i > 0; i--)
        name = eitp__step_variable_name(plan, &plan->steps[i - 1]);
    return name;
}

static eitp_product eitp__profile_product(const eitp_plan *plan, size_t s) {
    const eitp__node *node = plan->steps[s].node;
    const eitp_tensor *parameter = eitp__profile_parameter(node), *other;
    if (!eitp__profile_is_product(node))
        return EITP_PRODUCT_NONE;
    if (!parameter)
        return node->attributes.integers[0] ? EITP_PRODUCT_WEIGHT_GRADIENT : EITP_PRODUCT_NONE;
    if (node->part && node->origin.phase == EITP__PHASE_FORWARD)
        return EITP_PRODUCT_FORWARD;
    for (size_t i = 0; i < s; i++) {
        const eitp__node *earlier = plan->steps[i].node;
        other = eitp__profile_is_product(earlier) ? eitp__profile_parameter(earlier) : NULL;
        if (other && other->variable == parameter->variable)
            return EITP_PRODUCT_INPUT_GRADIENT;
    }
    return EITP_PRODUCT_FORWARD;
}

static double eitp__operand_bytes(const eitp_plan *plan, const eitp__operand *operand) {
    return operand->data ? (double)eitp__used_elements(plan, operand) * (double)eitp_dtype_size(operand->dtype) : 0;
}

/* True if the call reads its accumulation target: always without a carry, otherwise if the carry is not 0. */
static int eitp__profile_adds(const eitp_plan *plan, const eitp__call *call) {
    eitp__backend *backend = plan->context->backend;
    float carry = 1;
    if (!call->accumulates)
        return 0;
    return !call->carry || backend->interface->download(backend, &carry, call->carry, sizeof carry, NULL) || carry != 0;
}

static void eitp__profile_bytes(const eitp_plan *plan, const eitp__call *call, eitp_profile *profile) {
    int adds = eitp__profile_adds(plan, call);
    double rows;
    for (int i = 0; i < call->input_count; i++)
        profile->bytes_read += eitp__operand_bytes(plan, &call->inputs[i]);
    for (int i = 0; i < call->output_count; i++)
        profile->bytes_written += eitp__operand_bytes(plan, &call->outputs[i]);
    if (call->slot == EITP__SLOT_SLICE) {
        profile->bytes_read = profile->bytes_written;
    } else if (call->slot == EITP__SLOT_EMBEDDING || call->slot == EITP__SLOT_GATHER) {
        rows = eitp__operand_bytes(plan, &call->outputs[0]);
        if (rows < eitp__operand_bytes(plan, &call->inputs[0]))
            profile->bytes_read += rows - eitp__operand_bytes(plan, &call->inputs[0]);
    } else if (call->slot == EITP__SLOT_EMBEDDING_BACKWARD && adds) {
        rows = (double)eitp__used_elements(plan, &call->inputs[1]) * (double)eitp_dtype_size(call->outputs[0].dtype);
        if (rows < profile->bytes_written)
            profile->bytes_written = rows;
    }
    if (adds)
        profile->bytes_read += profile->bytes_written;
}

/* Returns the arithmetic of a step, scaled to the number of rows in use. */
static double eitp__profile_flops(const eitp_plan *plan, size_t s) {
    const eitp__node *node = plan->steps[s].node;
    const eitp__binding *binding = &plan->bindings[s];
    const eitp__op_info *info = eitp__op(node->graph, node->op);
    double flops = info->flops ? info->flops(node) : 0;
    int rows = 0;
    for (int i = 0; i < EITP__MAX_INPUTS; i++)
        rows |= binding->inputs[i].rows;
    return rows ? flops * (double)plan->rows / (double)plan->graph->capacity : flops;
}

EITP__PRIVATE eitp_profile eitp__profile_of(const eitp_plan *plan, size_t s) {
    eitp_profile profile = EITP__ZERO;
    profile.op = eitp__op(plan->graph, plan->steps[s].node->op)->name;
    profile.work = eitp__op(plan->graph, plan->steps[s].node->op)->work;
    profile.product = eitp__profile_product(plan, s);
    profile.variable = eitp__step_variable_name(plan, &plan->steps[s]);
    profile.dtype = plan->calls[s].dtype;
    profile.flops = eitp__profile_flops(plan, s);
    eitp__profile_bytes(plan, &plan->calls[s], &profile);
    return profile;
}

EITP__PRIVATE eitp__call_work eitp__work_of_step(const eitp_plan *plan, size_t s) {
    static const char *const purposes[] = {"", "forward", "gradient of input", "gradient of weight"};
    const eitp_profile profile = eitp__profile_of(plan, s);
    eitp__call_work work;
    work.flops = profile.flops;
    work.bytes = profile.bytes_read + profile.bytes_written;
    work.rows = plan->rows;
    work.purpose = purposes[profile.product];
    return work;
}

EITP__PRIVATE void eitp__plan_work(void *plan, size_t instruction, eitp__call_work *work) {
    const eitp_plan *of = (const eitp_plan *)plan;
    *work = eitp__work_of_step(of, (size_t)(of->instructions[instruction].call - of->calls));
}
