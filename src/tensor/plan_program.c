/* The program of a plan: its calls and transfers in one list, with their addresses. */
#include "tensor/plan.h"
#include "tensor/variable.h"

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

static void eitp__list_transfer(eitp_plan *plan, const eitp__window_transfer *transfer) {
    static const eitp__instruction_kind kinds[] = {EITP__WRITE, EITP__COMPLETE, EITP__READ, EITP__COMPLETE};
    eitp__window *window = &plan->windows[transfer->window];
    eitp__instruction *added = &plan->instructions[plan->instruction_count++];
    added->kind = kinds[transfer->kind];
    added->phase = EITP__PHASE_TRANSFER;
    added->size = window->size;
    if (added->kind == EITP__COMPLETE)
        added->transfer = window->began;
    else
        window->began = plan->instruction_count - 1;
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

/*
 * The phase of a step; of one that recomputes a value of the forward pass, the phase that it does so for. The phases of
 * the parts of a head alternate.
 */
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

static void eitp__bind_transfer(const eitp_plan *plan, eitp__instruction *instruction, const eitp__window *window) {
    instruction->memory = (char *)plan->context->arena.memory + plan->blocks[window->block].offset;
    instruction->offset = plan->context->variables[window->variable].offset + window->offset;
}

/* Fills in all addresses. */
static void eitp__bind(eitp_plan *plan) {
    const eitp__window_transfer *transfer = plan->transfers;
    for (size_t i = 0; i < plan->instruction_count; i++) {
        eitp__instruction *instruction = &plan->instructions[i];
        if (instruction->call)
            eitp__bind_call(plan, instruction->call, &plan->bindings[instruction->call - plan->calls]);
        else
            eitp__bind_transfer(plan, instruction, &plan->windows[transfer++->window]);
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
    if (plan->stats.workspace_bytes)
        info.workspace = (char *)plan->context->arena.memory + plan->stats.arena_bytes;
    if (plan->transfer_count)
        info.storage = &plan->storage;
    status = backend->interface->prepare(backend, &info, &plan->program, error);
    plan->program_generation = status ? 0 : generation;
    return status;
}
