/* Functions shared by the passes of a plan: operands of steps, owners of their memory, and arena blocks. */
#include "tensor/plan.h"

EITP__PRIVATE eitp_tensor *eitp__lowered(eitp_tensor *tensor) {
    while (tensor && tensor->lowered)
        tensor = tensor->lowered;
    return tensor;
}

EITP__PRIVATE eitp_tensor *eitp__owner(eitp_tensor *tensor, int64_t *first) {
    int64_t sum = 0;
    tensor = eitp__lowered(tensor);
    while (tensor->storage != tensor) {
        sum += tensor->first;
        tensor = eitp__lowered(tensor->storage);
    }
    if (first)
        *first = sum;
    return tensor;
}

EITP__PRIVATE int eitp__is_view(const eitp__node *node) {
    return eitp__op(node->graph, node->op)->is_view;
}

EITP__PRIVATE int eitp__step_mutates(const eitp__step *step) {
    int mutates = 0;
    for (int i = 0; i < step->output_count; i++)
        mutates |= step->replaces[i] != NULL;
    return mutates;
}

EITP__PRIVATE eitp_tensor *eitp__step_read(const eitp__step *step, int i) {
    if (i < step->input_count)
        return step->inputs[i];
    /* an accumulation also reads the old values and the carry */
    i -= step->input_count;
    return i < step->output_count ? step->replaces[i] : step->carry;
}

static void eitp__set_stride(eitp__operand *operand, eitp_tensor *tensor) {
    const eitp_tensor *lowered = eitp__lowered(tensor);
    if (!lowered || !lowered->row_stride)
        return;
    operand->row_stride = lowered->row_stride;
    operand->elements = lowered->shape[0] * lowered->row_stride;
}

EITP__PRIVATE void eitp__step_call(const eitp__step *step, eitp__call *call) {
    /* The node's operands: an accumulation may write to another view of the same memory. */
    eitp__node_call(step->node, call);
    for (int i = step->node->input_count; i < step->input_count; i++)
        eitp__set_operand(&call->inputs[i], step->inputs[i]);
    for (int i = step->node->output_count; i < step->output_count; i++)
        eitp__set_operand(&call->outputs[i], step->outputs[i]);
    call->input_count = step->input_count;
    call->output_count = step->output_count;
    for (int i = 0; i < step->input_count; i++)
        eitp__set_stride(&call->inputs[i], step->inputs[i]);
    for (int i = 0; i < step->output_count; i++)
        eitp__set_stride(&call->outputs[i], step->outputs[i]);
    if (eitp__op(step->node->graph, step->node->op)->operand)
        call->integers[2] = step->epilogue;
    call->accumulates = step->accumulates;
}

EITP__PRIVATE double eitp__step_seconds(const eitp_plan *plan, const eitp__step *step) {
    const eitp__op_info *info = eitp__op(step->node->graph, step->node->op);
    const eitp__backend *backend = plan->context->backend;
    double bytes = 0;
    eitp__call call;
    for (int i = 0; i < eitp__step_read_count(step); i++) {
        eitp_tensor *x = eitp__step_read(step, i);
        bytes += x ? (double)eitp__tensor_bytes(x) : 0;
    }
    for (int i = 0; i < step->output_count; i++)
        bytes += (double)eitp__tensor_bytes(step->outputs[i]);
    /* Without a carry, an accumulating pad leaves everything outside its input's range unchanged. */
    if (step->node->op == EITP__OP_PAD && step->accumulates && !step->carry)
        bytes = 3 * (double)eitp__tensor_bytes(step->inputs[0]);
    eitp__step_call(step, &call);
    return backend->interface->seconds(backend, &call, info->flops ? info->flops(step->node) : 0, bytes);
}

/* ---- Owners ---- */

EITP__PRIVATE int eitp__owner_number(eitp_tensor *tensor) {
    const eitp_tensor *owner = tensor ? eitp__owner(tensor, NULL) : NULL;
    if (!owner)
        return EITP__NO_OWNER;
    return owner->leaf == EITP__VARIABLE ? -2 - (int)owner->variable : owner->id;
}

EITP__PRIVATE eitp_tensor *eitp__arena_owner(eitp_tensor *tensor) {
    eitp_tensor *owner = tensor ? eitp__owner(tensor, NULL) : NULL;
    return owner && owner->leaf != EITP__VARIABLE ? owner : NULL;
}

/* True if y can be computed in place of x: x is all of a computed tensor, with the dtype and shape of y. */
static int eitp__can_share_memory(eitp_tensor *x, const eitp_tensor *y) {
    const eitp_tensor *owner = x && x->dtype == y->dtype && eitp__same_shape(x, y) ? eitp__arena_owner(x) : NULL;
    return owner && owner->leaf == EITP__COMPUTED && eitp__elements(owner) == eitp__elements(x);
}

/* True if an epilogue may overwrite its operand: it reads each element before it writes the one of y. */
static int eitp__overwrites_operand(const eitp__step *step) {
    const eitp__backend *backend = step->node->graph->context->backend;
    eitp__call call;
    if (!backend->interface->overwrites_operand)
        return 1;
    eitp__step_call(step, &call);
    return backend->interface->overwrites_operand(backend, &call);
}

static unsigned eitp__reusable_inputs(const eitp__step *step) {
    const eitp__op_info *op = eitp__op(step->node->graph, step->node->op);
    unsigned candidates = step->epilogue ? 1u << op->operand : op->reuse, reusable = 0;
    if (step->epilogue && !eitp__overwrites_operand(step))
        return 0;
    for (int i = 0; i < step->input_count && !step->replaces[0]; i++) {
        if (candidates & (1u << i) && eitp__can_share_memory(step->inputs[i], step->outputs[0]))
            reusable |= 1u << i;
    }
    return reusable;
}

EITP__PRIVATE void eitp__update_owners(eitp_plan *plan, eitp__step *step) {
    int *reads = eitp__read_owners(plan, step), *outputs = eitp__output_owners(plan, step);
    int *replaced = eitp__replaced_owners(plan, step);
    for (int i = 0; i < eitp__step_read_count(step); i++)
        reads[i] = eitp__owner_number(eitp__step_read(step, i));
    for (int i = 0; i < step->output_count; i++) {
        int number = eitp__owner_number(step->outputs[i]);
        outputs[i] = number == step->outputs[i]->id ? number : EITP__NO_OWNER;
        replaced[i] = eitp__owner_number(step->replaces[i]);
    }
}

static int eitp__reserve_sizes(eitp_plan *plan) {
    return eitp__reserve(&plan->context->host, (void **)&plan->sizes, &plan->size_capacity, plan->graph->tensor_count,
                         sizeof *plan->sizes);
}

EITP__PRIVATE int eitp__list_owners(eitp_plan *plan, eitp__step *step) {
    size_t count = (size_t)eitp__step_read_count(step) + 2 * (size_t)step->output_count;
    if (!eitp__reserve(&plan->context->host, (void **)&plan->owners, &plan->owner_capacity, plan->owner_count + count,
                       sizeof *plan->owners))
        return 0;
    if (!eitp__reserve_sizes(plan))
        return 0;
    for (int i = 0; i < step->output_count; i++)
        plan->sizes[step->outputs[i]->id] = eitp__tensor_bytes(step->outputs[i]);
    step->owners = plan->owner_count;
    step->reusable = eitp__reusable_inputs(step);
    plan->owner_count += count;
    eitp__update_owners(plan, step);
    return 1;
}

static int eitp__append_output(eitp_plan *plan, int id) {
    if (!eitp__reserve(&plan->context->host, (void **)&plan->outputs, &plan->output_capacity, plan->output_count + 1,
                       sizeof *plan->outputs))
        return 0;
    plan->outputs[plan->output_count++] = id;
    return 1;
}

/* ---- Padding of logits ---- */

static int eitp__is_logits_step(const eitp__step *step) {
    return step->node->op == EITP__OP_HEAD || step->node->op == EITP__OP_HEAD_BACKWARD;
}

/* True if a step may read or write x, logits or their gradient, with padded rows. */
static int eitp__step_allows_padding(const eitp__step *step, const eitp_tensor *x) {
    for (int i = 0; i < step->output_count; i++)
        if (eitp__owner(eitp__lowered(step->outputs[i]), NULL) == x && !(i == 0 && eitp__is_logits_step(step)))
            return 0;
    for (int i = 0; i < step->input_count; i++) {
        eitp_tensor *input = eitp__lowered(step->inputs[i]);
        if (input && eitp__owner(input, NULL) == x &&
            (input != x || i || (step->node->op != EITP__OP_MATMUL && step->node->op != EITP__OP_HEAD_BACKWARD)))
            return 0;
    }
    return 1;
}

static int eitp__plan_allows_padding(const eitp_plan *plan, eitp_tensor *x) {
    int is_allowed = eitp__owner(x, NULL) == x && x->rank == 2 && !x->is_output;
    for (size_t s = 0; s < plan->step_count && is_allowed; s++)
        is_allowed = eitp__step_allows_padding(&plan->steps[s], x);
    return is_allowed;
}

EITP__PRIVATE void eitp__pad_logits(eitp_plan *plan) {
    const int64_t unit = plan->context->backend->interface->logit_alignment;
    int is_allowed = unit > 1;
    for (size_t s = 0; s < plan->step_count && is_allowed; s++)
        if (eitp__is_logits_step(&plan->steps[s]))
            is_allowed = eitp__plan_allows_padding(plan, eitp__lowered(plan->steps[s].outputs[0]));
    for (size_t s = 0; s < plan->step_count; s++)
        if (eitp__is_logits_step(&plan->steps[s])) {
            eitp_tensor *x = eitp__lowered(plan->steps[s].outputs[0]);
            x->row_stride = is_allowed ? (x->shape[1] + unit - 1) / unit * unit : 0;
        }
}

EITP__PRIVATE eitp_status eitp__list_operands(eitp_plan *plan, eitp_error *error) {
    const eitp_graph *graph = plan->graph;
    int done = eitp__reserve_sizes(plan);
    for (size_t s = 0; s < plan->step_count && done; s++)
        done = eitp__list_owners(plan, &plan->steps[s]);
    for (size_t i = 0; i < plan->input_count && done; i++)
        plan->sizes[plan->inputs[i].tensor->id] = eitp__tensor_bytes(plan->inputs[i].tensor);
    for (int t = 0; t < (int)graph->tensor_count && done; t++) {
        if (graph->tensors[t]->is_output)
            done = eitp__append_output(plan, t);
    }
    return done ? EITP_OK
                : eitp__fail_memory(error, plan->owner_count * sizeof *plan->owners, "the operands of a plan's steps");
}

/* ---- Arena blocks ---- */

EITP__PRIVATE int eitp__add_arena_block(eitp_plan *plan, size_t size, int first, int last) {
    eitp__arena_block *block;
    if (!eitp__reserve(&plan->context->host, (void **)&plan->blocks, &plan->block_capacity, plan->block_count + 1,
                       sizeof *plan->blocks))
        return -1;
    block = &plan->blocks[plan->block_count];
    block->size = (size + EITP__ALIGNMENT - 1) / EITP__ALIGNMENT * EITP__ALIGNMENT;
    block->offset = 0;
    block->first = first;
    block->last = last;
    return (int)plan->block_count++;
}
