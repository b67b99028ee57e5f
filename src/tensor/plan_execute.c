/* Execution of plans: writing inputs, executing steps, reading outputs. */
#include "base/clock.h"
#include "tensor/check_finite.h"
#include "tensor/profile.h"
#include "tensor/variable.h"

eitp_status eitp_plan_set_rows(eitp_plan *plan, int64_t rows, eitp_error *error) {
    if (!plan)
        return eitp__fail_null(error, "eitp_plan_set_rows", "plan");
    if (plan->graph->capacity < 0)
        return eitp__fail(
            error, EITP_ERROR_ARGUMENT,
            "the plan's graph has no capacity of rows: none of its inputs was created with eitp_input_rows");
    if (rows < 0 || rows > plan->graph->capacity)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the number of rows must be 0 to the graph's capacity of %lld, not %lld",
                          (long long)plan->graph->capacity, (long long)rows);
    plan->rows = rows;
    return EITP_OK;
}

/* Restores a released arena. Fails if the arena is too small, which is the case after a failed attempt to enlarge
   it. */
static eitp_status eitp__check_arena(const eitp_plan *plan, eitp_error *error) {
    size_t needed = plan->stats.arena_bytes + plan->stats.workspace_bytes;
    if (plan->context->plans_only)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "this context was created with plans_only: it cannot execute plans");
    if (plan->context->arena.size >= needed)
        return EITP_OK;
    if (plan->context->released_arena >= needed)
        return eitp__arena_restore(plan->context, error);
    return eitp__fail_memory(error, needed, "the arena, which was lost when enlarging it failed");
}

/* Finds the address of a tensor that has `size` bytes. *address is NULL if the plan does not use it. */
static eitp_status eitp__plan_address(const eitp_plan *plan, eitp_tensor *tensor, size_t size, void **address,
                                      eitp_error *error) {
    eitp__location location;
    size_t expected;
    eitp_status status;
    if (!tensor || tensor->graph != plan->graph || (size_t)tensor->id >= plan->tensor_count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the tensor does not belong to the plan's graph, or was created after the plan");
    status = eitp__check_arena(plan, error);
    if (status)
        return status;
    location = eitp__location_of(plan, tensor, -1);
    expected = tensor->rows ? (size_t)(plan->rows * location.row_elements) * eitp_dtype_size(tensor->dtype)
                            : eitp__tensor_bytes(tensor);
    if (size != expected)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "'%s' has %zu bytes, but %zu were given",
                          tensor->node ? eitp__op(tensor->graph, tensor->node->op)->name : eitp_tensor_name(tensor),
                          expected, size);
    *address = eitp__address(plan, &location);
    if (eitp__is_offloaded_tensor(plan, tensor))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "variable '%s' is offloaded: read it with eitp_variable_read, not from a plan",
                          eitp__variable_name(eitp__owner(tensor, NULL)));
    return EITP_OK;
}

/* Called when the plan's inputs are written: its results in the arena become invalid. */
static void eitp__begin_epoch(eitp_plan *plan) {
    eitp_context *context = plan->context;
    if (context->arena_user != plan)
        context->arena_epoch++;
    context->arena_user = plan;
    plan->results_epoch = 0;
}

/* Called after an execution: the arena holds the plan's results if all steps were executed. */
static void eitp__end_epoch(eitp_plan *plan, int is_complete) {
    eitp_context *context = plan->context;
    context->arena_epoch++;
    context->arena_user = plan;
    plan->results_epoch = is_complete ? context->arena_epoch : 0;
}

/* True if an input still holds the value written to it. */
static int eitp__is_written(const eitp_plan *plan, const eitp__plan_input *input) {
    const eitp_context *context = plan->context;
    if (input->is_kept)
        return input->written != 0;
    return input->written && input->written == context->arena_epoch && context->arena_user == plan;
}

static eitp_status eitp__check_values(const eitp_tensor *input, const void *values, size_t size, eitp_error *error) {
    int64_t count = (int64_t)(size / eitp_dtype_size(input->dtype));
    eitp_status status = EITP_OK;
    for (const eitp__value_rule *rule = input->rules; rule && !status; rule = rule->next)
        status = rule->check(rule, input, values, count, error);
    return status;
}

eitp_status eitp_plan_write(eitp_plan *plan, eitp_tensor *input, const void *data, size_t size, eitp_error *error) {
    if (!plan)
        return eitp__fail_null(error, "eitp_plan_write", "plan");
    void *address = NULL;
    eitp__plan_input *target;
    eitp_status status = eitp__plan_address(plan, input, size, &address, error);
    if (status)
        return status;
    if (input->leaf != EITP__INPUT)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "only inputs can be written: tensors created with eitp_input or eitp_input_rows");
    if (size && !data)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the data for input '%s' is NULL", input->name);
    status = eitp__check_values(input, data, size, error);
    if (status)
        return status;
    target = &plan->inputs[eitp__input_index(plan, input)];
    target->written = 0;
    if (!target->is_kept)
        eitp__begin_epoch(plan);
    status = eitp__context_wait(plan->context, error);
    if (!status)
        status = plan->context->backend->interface->upload(plan->context->backend, address, data, size, error);
    if (status)
        return status;
    target->written = target->is_kept ? 1 : plan->context->arena_epoch;
    target->rows = plan->rows;
    return EITP_OK;
}

/* Variables and kept inputs can be read at any time; values in the arena only after an execution. */
static eitp_status eitp__check_readable(const eitp_plan *plan, eitp_tensor *output, eitp_error *error) {
    eitp__location location = eitp__location_of(plan, output, -1);
    if (location.block < 0 || (plan->results_epoch && plan->results_epoch == plan->context->arena_epoch))
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_ARGUMENT,
                      "the output's value is no longer in the arena: read it after eitp_plan_execute, "
                      "before inputs are written and before another plan of the context is created, "
                      "written or executed");
}

eitp_status eitp_plan_read(eitp_plan *plan, eitp_tensor *output, void *data, size_t size, eitp_error *error) {
    if (!plan)
        return eitp__fail_null(error, "eitp_plan_read", "plan");
    void *address = NULL;
    eitp_status status = eitp__plan_address(plan, output, size, &address, error);
    if (status)
        return status;
    if (size && !data)
        return eitp__fail_null(error, "eitp_plan_read", "data");
    if (!address || !plan->readable[output->id])
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "only outputs can be read; mark the tensor with eitp_output before the plan is created");
    status = eitp__check_readable(plan, output, error);
    if (!status)
        status = eitp__context_wait(plan->context, error);
    if (status)
        return status;
    return plan->context->backend->interface->download(plan->context->backend, data, address, size, error);
}

EITP__PRIVATE int eitp__plan_changed_state(const eitp_plan *plan) {
    return plan->begun > plan->first_change;
}

/* Executes the instructions [first, end), or starts their execution. */
static eitp_status eitp__begin_execution(eitp_plan *plan, size_t first, size_t end, eitp_error *error) {
    eitp_context *context = plan->context;
    context->is_busy = 1;
    return context->backend->interface->execute(context->backend, plan->program, first, end, &context->poll,
                                                plan->first_change, &plan->begun, error);
}

EITP__PRIVATE void eitp__context_watch(eitp_context *context, const eitp__watcher *watcher) {
    memset(&context->watcher, 0, sizeof context->watcher);
    if (watcher)
        context->watcher = *watcher;
}

/* Reports an executed step to the watcher of the forward pass. */
static eitp_status eitp__show_to_watcher(const eitp_plan *plan, size_t instruction, size_t s, eitp_error *error) {
    const eitp__watcher *watcher = &plan->context->watcher;
    const int is_shown = watcher->done && plan->instructions[instruction].phase == EITP__PHASE_FORWARD;
    return is_shown ? watcher->done(watcher->user, plan, s, error) : EITP_OK;
}

/* Executes a step, and reports it to the profiler, the watcher and the check for non-finite values. */
static eitp_status eitp__execute_observed_step(eitp_plan *plan, size_t instruction, eitp_error *error) {
    eitp_context *context = plan->context;
    const size_t s = (size_t)(plan->instructions[instruction].call - plan->calls);
    const int searches = context->nonfinite && !context->nonfinite->op;
    eitp__nonfinite_inputs inputs;
    eitp_profile profile = EITP__ZERO;
    double began;
    eitp_status status = eitp__context_wait(context, error);
    if (!status && searches)
        status = eitp__check_step_inputs(plan, s, &inputs, error);
    if (status)
        return status;
    if (context->profiler.step)
        profile = eitp__profile_of(plan, s);
    profile.phase = (eitp_phase)plan->instructions[instruction].phase;
    began = eitp__clock();
    status = eitp__begin_execution(plan, instruction, instruction + 1, error);
    if (!status)
        status = eitp__context_wait(context, error);
    profile.seconds = eitp__clock() - began;
    if (!status && context->profiler.step)
        context->profiler.step(context->profiler.user, &profile);
    if (!status)
        status = eitp__show_to_watcher(plan, instruction, s, error);
    return status || !searches ? status : eitp__check_step_outputs(plan, s, &inputs, error);
}

static eitp_status eitp__execute_observed(eitp_plan *plan, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < plan->instruction_count && !status; i++)
        status = plan->instructions[i].call ? eitp__execute_observed_step(plan, i, error)
                                            : eitp__begin_execution(plan, i, i + 1, error);
    return status;
}

/* Uploads the number of rows if the device has a different one. */
static eitp_status eitp__upload_rows(eitp_plan *plan, eitp_error *error) {
    eitp_context *context = plan->context;
    eitp_status status;
    if (!plan->device_rows || plan->uploaded_rows == plan->rows)
        return EITP_OK;
    status = eitp__context_wait(context, error);
    if (!status)
        status = context->backend->interface->upload(context->backend, plan->device_rows, &plan->rows,
                                                     sizeof plan->rows, error);
    plan->uploaded_rows = status ? -1 : plan->rows;
    return status;
}

/* Checks that every input that is read was written, with at least as many rows as are in use. */
static eitp_status eitp__check_written(const eitp_plan *plan, eitp_error *error) {
    for (size_t i = 0; i < plan->input_count; i++) {
        const eitp__plan_input *input = &plan->inputs[i];
        const char *name = input->tensor->name;
        if (!input->is_read)
            continue;
        if (!eitp__is_written(plan, input))
            return eitp__fail(error, EITP_ERROR_ARGUMENT,
                              "input '%s' has no value: it was not written since the last execution, or another "
                              "plan used the arena since; write it before each eitp_plan_execute, or declare it "
                              "with eitp_keep_input",
                              name);
        if (input->tensor->rows && input->rows < plan->rows)
            return eitp__fail(error, EITP_ERROR_ARGUMENT,
                              "input '%s' was written with %lld rows, but eitp_plan_set_rows set %lld; write it again",
                              name, (long long)input->rows, (long long)plan->rows);
    }
    return EITP_OK;
}

/* Checks that the plan changes no variable whose memory is shared by contexts. */
static eitp_status eitp__check_changes(const eitp_plan *plan, eitp_error *error) {
    const eitp_context *context = plan->context;
    eitp_status status = EITP_OK;
    if (!context->lender_count && !eitp__segments_are_shared(context->segments))
        return EITP_OK;
    for (size_t s = 0; s < plan->step_count; s++) {
        for (int i = 0; i < plan->steps[s].output_count && !status; i++) {
            eitp_tensor *replaced = plan->steps[s].replaces[i];
            const eitp_tensor *owner = replaced ? eitp__owner(replaced, NULL) : NULL;
            if (owner && owner->leaf == EITP__VARIABLE)
                status = eitp__variable_check_change(context, &context->variables[owner->variable], error);
        }
    }
    return status;
}

eitp_status eitp_plan_execute(eitp_plan *plan, eitp_error *error) {
    if (!plan)
        return eitp__fail_null(error, "eitp_plan_execute", "plan");
    const int is_observed = plan->context->profiler.step || plan->context->watcher.done || plan->context->nonfinite;
    eitp_status status = eitp__check_arena(plan, error);
    plan->begun = 0;
    if (!status)
        status = eitp__check_written(plan, error);
    if (!status)
        status = eitp__check_changes(plan, error);
    if (!status)
        status = eitp__prepare_program(plan, error);
    if (!status)
        status = eitp__upload_rows(plan, error);
    if (status)
        return status;
    status = is_observed ? eitp__execute_observed(plan, error)
                         : eitp__begin_execution(plan, 0, plan->instruction_count, error);
    if (status)
        eitp__context_finish(plan->context);
    eitp__end_epoch(plan, !status);
    return status;
}
