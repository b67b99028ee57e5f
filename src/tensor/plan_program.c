/* Instructions of a plan: kernel calls with their operands, and transfers, in one list with their addresses. */
#include "tensor/plan.h"
#include "tensor/profile.h"
#include "tensor/variable.h"

/* ---- Calls ---- */

/* Kernel calls of a plan: their operands and addresses. */

EITP__PRIVATE int eitp__input_index(const eitp_plan *plan, const eitp_tensor *tensor) {
    for (size_t i = 0; i < plan->input_count && tensor->leaf == EITP__INPUT; i++) {
        if (plan->inputs[i].tensor == tensor)
            return (int)i;
    }
    return -1;
}

static int eitp__is_kept(const eitp_plan *plan, const eitp_tensor *tensor) {
    int index = eitp__input_index(plan, tensor);
    return index >= 0 && plan->inputs[index].is_kept;
}

EITP__PRIVATE eitp__location eitp__location_of(const eitp_plan *plan, eitp_tensor *tensor, int step) {
    eitp__location location = EITP__ZERO;
    eitp_tensor *owner;
    int64_t first;
    location.block = -1;
    location.input = -1;
    location.variable = -1;
    tensor = eitp__lowered(tensor);
    if (!tensor)
        return location;
    owner = eitp__owner(tensor, &first);
    location.offset = (size_t)first * eitp_dtype_size(tensor->dtype);
    if (eitp__is_offloaded_tensor(plan, tensor)) {
        const eitp__staging *staging = step < 0 ? NULL : eitp__staging_at(plan, tensor, step);
        location.block = staging ? staging->block : -1;
        location.offset -= staging ? staging->offset : 0;
    } else if (owner->leaf == EITP__VARIABLE)
        location.variable = owner->variable;
    else if (eitp__is_kept(plan, owner))
        location.input = eitp__input_index(plan, owner);
    else if ((size_t)owner->id < plan->tensor_count)
        location.block = plan->block_of[owner->id];
    location.rows = tensor->rows;
    if (tensor->rows) {
        location.row_elements = tensor->row_stride ? tensor->row_stride : eitp__elements(tensor) / tensor->shape[0];
        location.first_row = tensor->first_row;
        location.row_limit = tensor->shape[0];
    }
    return location;
}

static void eitp__bind_rows(eitp__operand *operand, const eitp__location *location) {
    operand->row_elements = location->row_elements;
    operand->first_row = location->first_row;
    operand->row_limit = location->row_limit;
}

/* Fills in the call and binding of a step, without addresses. */
static void eitp__fill_call(const eitp_plan *plan, int s, eitp__call *call, eitp__binding *binding) {
    const eitp__step *step = &plan->steps[s];
    eitp__step_call(step, call);
    for (int i = 0; i < step->input_count; i++) {
        binding->inputs[i] = eitp__location_of(plan, step->inputs[i], s);
        eitp__bind_rows(&call->inputs[i], &binding->inputs[i]);
    }
    for (int i = 0; i < step->output_count; i++) {
        binding->outputs[i] = eitp__location_of(plan, step->outputs[i], s);
        eitp__bind_rows(&call->outputs[i], &binding->outputs[i]);
    }
    binding->carry = eitp__location_of(plan, step->carry, s);
}

EITP__PRIVATE void eitp__release_calls(eitp_plan *plan) {
    const eitp_host *host = &plan->context->host;
    eitp__release(host, plan->calls, plan->call_count * sizeof *plan->calls);
    eitp__release(host, plan->bindings, plan->call_count * sizeof *plan->bindings);
    plan->calls = NULL;
    plan->bindings = NULL;
    plan->call_count = 0;
}

/* Adds the arithmetic of a node to the statistics of its plan. */
static void eitp__count_flops(eitp_plan_stats *stats, const eitp__node *node) {
    const eitp__op_info *info = eitp__op(node->graph, node->op);
    const double flops = info->flops ? info->flops(node) : 0;
    eitp_flops *component = &stats->components[node->origin.component];
    stats->flops += flops;
    component->total += flops;
    /* Gradients that the update computes in pieces belong to its phase. */
    if (node->origin.component != EITP_COMPONENT_OPTIMIZER)
        *(node->origin.phase == EITP__PHASE_FORWARD ? &component->forward : &component->backward) += flops;
}

EITP__PRIVATE eitp_status eitp__plan_bind(eitp_plan *plan, eitp_error *error) {
    const eitp__backend *backend = plan->context->backend;
    const eitp_host *host = &plan->context->host;
    eitp__release_calls(plan);
    plan->call_count = plan->step_count;
    plan->calls = (eitp__call *)eitp__allocate(host, plan->call_count * sizeof *plan->calls);
    plan->bindings = (eitp__binding *)eitp__allocate(host, plan->call_count * sizeof *plan->bindings);
    if (plan->step_count && (!plan->calls || !plan->bindings))
        return eitp__fail_memory(error, plan->step_count * (sizeof *plan->calls + sizeof *plan->bindings),
                                 "the calls of a plan");
    plan->stats.workspace_bytes = 0;
    plan->stats.flops = plan->stats.seconds = 0;
    memset(plan->stats.components, 0, sizeof plan->stats.components);
    for (size_t s = 0; s < plan->step_count; s++) {
        size_t workspace;
        eitp__fill_call(plan, (int)s, &plan->calls[s], &plan->bindings[s]);
        workspace = backend->interface->workspace(backend, &plan->calls[s]);
        if (workspace > plan->stats.workspace_bytes)
            plan->stats.workspace_bytes = workspace;
        eitp__count_flops(&plan->stats, plan->steps[s].node);
        plan->stats.seconds += eitp__step_seconds(plan, &plan->steps[s]);
    }
    plan->stats.nodes = (int)plan->step_count;
    plan->stats.file_reads = plan->stats.file_writes = 0;
    for (size_t i = 0; i < plan->staging_count; i++) {
        plan->stats.file_reads += (double)plan->stagings[i].size;
        plan->stats.file_writes += plan->stagings[i].is_dirty ? (double)plan->stagings[i].size : 0;
    }
    plan->stats.seconds += eitp__offload_seconds(plan->context, plan->stats.file_reads, plan->stats.file_writes);
    return EITP_OK;
}

EITP__PRIVATE void *eitp__address(const eitp_plan *plan, const eitp__location *location) {
    if (location->variable >= 0)
        return (char *)plan->context->variables[location->variable].data + location->offset;
    if (location->input >= 0)
        return (char *)plan->inputs[location->input].memory + location->offset;
    if (location->block >= 0)
        return (char *)plan->context->arena.memory + plan->blocks[location->block].offset + location->offset;
    return NULL;
}

/* ---- The program ---- */

/* The program of a plan: its calls and transfers in one list, with their addresses. */

static void eitp__discard_program(eitp_plan *plan) {
    eitp__backend *backend = plan->context->backend;
    if (!plan->program)
        return;
    eitp__context_finish(plan->context);
    backend->interface->discard(backend, plan->program);
    plan->program = NULL;
}

EITP__PRIVATE void eitp__release_program(eitp_plan *plan) {
    eitp__discard_program(plan);
    eitp__release(&plan->context->host, plan->instructions, plan->instruction_count * sizeof *plan->instructions);
    plan->instructions = NULL;
    plan->instruction_count = 0;
}

/* ---- Listing ---- */

static void eitp__list_call(eitp_plan *plan, size_t step, eitp__phase phase) {
    eitp__instruction *added = &plan->instructions[plan->instruction_count++];
    added->call = &plan->calls[step];
    added->phase = phase;
}

static void eitp__list_transfer(eitp_plan *plan, const eitp__staging_transfer *transfer) {
    static const eitp__instruction_kind kinds[] = {EITP__WRITE, EITP__COMPLETE, EITP__READ, EITP__COMPLETE};
    eitp__staging *staging = &plan->stagings[transfer->staging];
    eitp__instruction *added = &plan->instructions[plan->instruction_count++];
    added->kind = kinds[transfer->kind];
    added->phase = EITP__PHASE_TRANSFER;
    added->size = staging->size;
    if (added->kind == EITP__COMPLETE)
        added->transfer = staging->began;
    else
        staging->began = plan->instruction_count - 1;
}

/* True if the step changes state that checkpoints save. */
static int eitp__step_changes_state(const eitp_plan *plan, const eitp__step *step) {
    for (int i = 0; i < step->output_count; i++) {
        const eitp_tensor *owner = step->replaces[i] ? eitp__owner(step->replaces[i], NULL) : NULL;
        if (owner && owner->leaf == EITP__VARIABLE &&
            eitp__role_of(plan->context->variables[owner->variable].info.role)->is_training_state)
            return 1;
    }
    return 0;
}

/* Returns the phase of a step. For a step that recomputes a value of the forward pass, it is the phase that needs the
   value. The phases of a head's parts alternate. */
static eitp__phase eitp__step_phase(const eitp__step *step, eitp__phase before) {
    const eitp__phase phase = step->node->origin.phase;
    return phase == EITP__PHASE_FORWARD && !step->node->part ? before : phase;
}

EITP__PRIVATE eitp_status eitp__plan_list(eitp_plan *plan, eitp_error *error) {
    const eitp_host *host = &plan->context->host;
    const size_t count = plan->step_count + plan->transfer_count;
    eitp__phase phase = EITP__PHASE_FORWARD;
    size_t next = 0;
    eitp__release_program(plan);
    plan->instructions = (eitp__instruction *)eitp__allocate(host, count * sizeof *plan->instructions);
    if (count && !plan->instructions)
        return eitp__fail_memory(error, count * sizeof *plan->instructions, "the program of a plan");
    plan->first_change = count;
    for (size_t s = 0; s <= plan->step_count; s++) {
        for (; next < plan->transfer_count && (size_t)plan->transfers[next].step <= s; next++)
            eitp__list_transfer(plan, &plan->transfers[next]);
        if (s == plan->step_count)
            break;
        if (plan->first_change == count && eitp__step_changes_state(plan, &plan->steps[s]))
            plan->first_change = plan->instruction_count;
        phase = eitp__step_phase(&plan->steps[s], phase);
        eitp__list_call(plan, s, phase);
    }
    return EITP_OK;
}

/* ---- Preparing ---- */

static void eitp__bind_call(const eitp_plan *plan, eitp__call *call, const eitp__binding *binding) {
    for (int i = 0; i < call->input_count; i++)
        call->inputs[i].data = eitp__address(plan, &binding->inputs[i]);
    for (int i = 0; i < call->output_count; i++)
        call->outputs[i].data = eitp__address(plan, &binding->outputs[i]);
    call->carry = (const float *)eitp__address(plan, &binding->carry);
}

static void eitp__bind_transfer(const eitp_plan *plan, eitp__instruction *instruction, const eitp__staging *staging) {
    instruction->memory = (char *)plan->context->arena.memory + plan->blocks[staging->block].offset;
    instruction->offset = plan->context->variables[staging->variable].offset + staging->offset;
}

/* Fills in all addresses. */
static void eitp__bind(eitp_plan *plan) {
    const eitp__staging_transfer *transfer = plan->transfers;
    for (size_t i = 0; i < plan->instruction_count; i++) {
        eitp__instruction *instruction = &plan->instructions[i];
        if (instruction->call)
            eitp__bind_call(plan, instruction->call, &plan->bindings[instruction->call - plan->calls]);
        else
            eitp__bind_transfer(plan, instruction, &plan->stagings[transfer++->staging]);
    }
}

EITP__PRIVATE eitp_status eitp__prepare_program(eitp_plan *plan, eitp_error *error) {
    eitp__backend *backend = plan->context->backend;
    const uint64_t generation = plan->context->arena_generation + 1;
    eitp__program_info info = EITP__ZERO;
    eitp_status status;
    if (plan->program_generation == generation)
        return EITP_OK;
    eitp__discard_program(plan);
    eitp__bind(plan);
    plan->storage = eitp__offload_storage(&plan->context->offloaded);
    info.instructions = plan->instructions;
    info.count = plan->instruction_count;
    info.rows = plan->device_rows;
    info.seconds = plan->context->phase_seconds;
    info.poll = &plan->context->poll;
    info.work = eitp__plan_work;
    info.user = plan;
    if (plan->stats.workspace_bytes)
        info.workspace = (char *)plan->context->arena.memory + plan->stats.arena_bytes;
    if (plan->transfer_count)
        info.storage = &plan->storage;
    status = backend->interface->prepare(backend, &info, &plan->program, error);
    plan->program_generation = status ? 0 : generation;
    return status;
}
