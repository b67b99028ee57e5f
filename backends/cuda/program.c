/* Programs: each call as kernel launches or as a cuBLASLt product, and all of them as one CUDA graph. */
#include "backends/cuda/cuda.h"

#include "backends/cuda/slots.h"
#include "base/log.h"

#if EITP__WITH_CUDA

/* ---- Preparing ---- */

static eitp_status eitp__cuda_prepare_stage(eitp__cuda *cuda, const eitp__cuda_kernels *kernels,
                                            const eitp__cuda_stage *stage, const eitp__call *call,
                                            eitp__cuda_launch *launch, eitp_error *error) {
    char definitions[EITP__CUDA_DEFINITIONS];
    const int64_t blocks = stage->blocks(call);
    eitp__cuda_definitions(kernels, call, definitions);
    launch->blocks = (unsigned)blocks;
    launch->threads = (unsigned)stage->threads;
    launch->shared = stage->shared ? (unsigned)stage->shared(call) : 0;
    launch->kernel.entry = kernels;
    launch->kernel.stage = stage;
    launch->is_grouped = eitp__cuda_is_grouped(kernels, call);
    if (blocks <= 0)
        return EITP_OK;
    if (blocks > INT32_MAX)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "%s has too many elements for a launch",
                          eitp__slot_name(call->slot));
    return eitp__cuda_modules_request(&cuda->modules, kernels->file, definitions, stage->kernel, launch->shared,
                                      &launch->function, error);
}

/* Adds the launches of these kernels for instruction `i`. */
static eitp_status eitp__cuda_prepare_stages(eitp__cuda *cuda, eitp__cuda_program *program, size_t i,
                                             const eitp__cuda_kernels *kernels, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (int s = 0; s < EITP__CUDA_STAGES && kernels->stages[s].kernel && !status; s++) {
        eitp__cuda_launch *launch = &program->launches[program->launch_count];
        launch->instruction = i;
        status = eitp__cuda_prepare_stage(cuda, kernels, &kernels->stages[s], program->info.instructions[i].call,
                                          launch, error);
        program->launch_count += launch->blocks > 0;
    }
    return status;
}

/* Adds the product of instruction `i`. */
static eitp_status eitp__cuda_prepare_product(eitp__cuda *cuda, eitp__cuda_program *program, size_t i,
                                              eitp_error *error) {
    eitp__cuda_launch *launch;
    if (eitp__cuda_blas_sums_rows(program->info.instructions[i].call)) {
        const eitp_status status = eitp__cuda_prepare_stages(cuda, program, i, eitp__cuda_blas_clear(), error);
        if (status)
            return status;
    }
    launch = &program->launches[program->launch_count++];
    launch->product = program->division.parts[i].product;
    launch->kernel.entry = NULL;
    launch->instruction = i;
    return EITP_OK;
}

static eitp_status eitp__cuda_prepare_call(eitp__cuda *cuda, eitp__cuda_program *program, size_t i, eitp_error *error) {
    const eitp__call *call = program->info.instructions[i].call;
    const eitp__cuda_kernels *kernels = program->division.parts[i].kernels;
    eitp__launch *argument = &program->arguments[i];
    argument->call = *call;
    argument->rows = (const int64_t *)program->info.rows;
    argument->workspace = program->info.workspace;
    if (program->division.parts[i].product)
        return eitp__cuda_prepare_product(cuda, program, i, error);
    kernels = kernels ? kernels : eitp__cuda_find(call, &cuda->device);
    if (!kernels)
        return eitp__fail(error, EITP_ERROR_INTERNAL, "no CUDA kernel for %s in %s", eitp__slot_name(call->slot),
                          eitp_dtype_name(call->dtype));
    return eitp__cuda_prepare_stages(cuda, program, i, kernels, error);
}

static eitp_status eitp__cuda_prepare_all(eitp__cuda *cuda, eitp__cuda_program *program, eitp_error *error) {
    eitp_status status = eitp__cuda_transfers_create(cuda, &program->info, &program->transfers, error);
    for (size_t i = 0; i < program->info.count && !status; i++) {
        program->first[i] = program->launch_count;
        if (program->info.instructions[i].kind == EITP__COMPUTE)
            status = eitp__cuda_prepare_call(cuda, program, i, error);
    }
    program->first[program->info.count] = program->launch_count;
    if (status) {
        eitp__cuda_modules_forget(&cuda->modules);
        return status;
    }
    status = eitp__cuda_modules_load(&cuda->modules, program->info.poll, error);
    if (!status)
        status = eitp__cuda_order_create(cuda, &program->info, program->division.instead, program->arguments,
                                         program->launches, program->first, &program->order, error);
    return status ? status : eitp__cuda_phases_create(cuda, &program->info, &program->order, &program->phases, error);
}

EITP__PRIVATE void eitp__cuda_discard(eitp__backend *backend, eitp__program *program) {
    eitp__cuda *cuda = eitp__cuda_of(backend);
    eitp__cuda_program *discarded = (eitp__cuda_program *)(void *)program;
    const eitp_host *host = &backend->host;
    const size_t count = discarded->info.count;
    eitp__cuda_finish(cuda, NULL);
    if (discarded->graph)
        cuda->driver.graph_exec_destroy(discarded->graph);
    eitp__cuda_order_release(cuda, &discarded->order);
    eitp__cuda_transfers_release(cuda, &discarded->transfers);
    eitp__cuda_phases_release(cuda, &discarded->phases);
    eitp__cuda_division_release(cuda, &discarded->division);
    eitp__release(host, discarded->arguments, count * sizeof *discarded->arguments);
    eitp__release(host, discarded->launches, count * EITP__CUDA_STAGES * sizeof *discarded->launches);
    eitp__release(host, discarded->first, (count + 1) * sizeof *discarded->first);
    eitp__release(host, discarded, sizeof *discarded);
}

/* Divides the plan's instructions, and allocates the arrays of a program. */
static eitp_status eitp__cuda_begin_program(eitp__cuda *cuda, const eitp__program_info *info,
                                            eitp__cuda_program *program, eitp_error *error) {
    const eitp_host *host = &cuda->base.host;
    const eitp_status status = eitp__cuda_divide(cuda, info, &program->division, &program->info, error);
    const size_t count = program->info.count;
    if (status)
        return status;
    program->arguments = (eitp__launch *)eitp__allocate(host, count * sizeof *program->arguments);
    program->launches =
        (eitp__cuda_launch *)eitp__allocate(host, count * EITP__CUDA_STAGES * sizeof *program->launches);
    program->first = (size_t *)eitp__allocate(host, (count + 1) * sizeof *program->first);
    if (!program->first || (count && (!program->arguments || !program->launches)))
        return eitp__fail_memory(error, count * sizeof *program->arguments, "a program");
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__cuda_prepare(eitp__backend *backend, const eitp__program_info *info,
                                             eitp__program **program, eitp_error *error) {
    eitp__cuda *cuda = eitp__cuda_of(backend);
    eitp__cuda_program *prepared = (eitp__cuda_program *)eitp__allocate(&backend->host, sizeof *prepared);
    eitp_status status;
    if (!prepared)
        return eitp__fail_memory(error, sizeof *prepared, "a program");
    status = eitp__cuda_enter(cuda, error);
    if (!status)
        status = eitp__cuda_begin_program(cuda, info, prepared, error);
    if (!status)
        status = eitp__cuda_prepare_all(cuda, prepared, error);
    *program = (eitp__program *)(void *)prepared;
    if (status) {
        eitp__cuda_discard(backend, *program);
        *program = NULL;
    }
    return status;
}

/* ---- Executing ---- */

static eitp_status eitp__cuda_issue_kernel(eitp__cuda *cuda, const eitp__cuda_program *program,
                                           const eitp__cuda_launch *launch, eitp_error *error) {
    const void *argument = launch->is_grouped ? (const void *)&launch->group : &program->arguments[launch->instruction];
    void *parameters[] = {(void *)(uintptr_t)argument};
    return eitp__cuda_check(&cuda->driver,
                            cuda->driver.launch(launch->function, launch->blocks, 1, 1, launch->threads, 1, 1,
                                                launch->shared, cuda->compute, parameters, NULL),
                            "cuLaunchKernel", error);
}

/* Adds the launches of instruction `i` to the compute stream. */
static eitp_status eitp__cuda_issue_call(eitp__cuda *cuda, const eitp__cuda_program *program, size_t i,
                                         eitp_error *error) {
    eitp_status status = EITP_OK;
    for (size_t k = program->first[i]; k < program->first[i + 1] && !status; k++) {
        const eitp__cuda_launch *launch = &program->launches[k];
        status = launch->product ? eitp__cuda_product_issue(&cuda->blas, launch->product, cuda->compute, error)
                                 : eitp__cuda_issue_kernel(cuda, program, launch, error);
    }
    return status;
}

/* Makes the compute stream wait for all copies. */
static eitp_status eitp__cuda_join_copies(eitp__cuda *cuda, eitp_error *error) {
    eitp_status status =
        eitp__cuda_check(&cuda->driver, cuda->driver.event_record(cuda->join, cuda->copy), "cuEventRecord", error);
    return status ? status
                  : eitp__cuda_check(&cuda->driver, cuda->driver.stream_wait_event(cuda->compute, cuda->join, 0),
                                     "cuStreamWaitEvent", error);
}

/* Adds an instruction to the streams. */
static eitp_status eitp__cuda_issue(eitp__cuda *cuda, const eitp__cuda_program *program, size_t i, eitp_error *error) {
    return program->info.instructions[i].kind == EITP__COMPUTE
               ? eitp__cuda_issue_call(cuda, program, i, error)
               : eitp__cuda_transfer(cuda, &program->info, &program->transfers, i, error);
}

static eitp_status eitp__cuda_issue_unit(eitp__cuda *cuda, const eitp__cuda_program *program,
                                         const eitp__cuda_unit *unit, eitp_error *error) {
    return unit->call_count ? eitp__cuda_issue_kernel(cuda, program, &unit->launch, error)
                            : eitp__cuda_issue(cuda, program, unit->instruction, error);
}

/* The form in which a program is added to the streams. */
typedef enum eitp__issue_kind {
    EITP__ISSUE_LAUNCHES,
    EITP__ISSUE_CAPTURED, /* nodes of the graph being captured */
    EITP__ISSUE_MEASURED  /* launches, with the events of unit_times.c */
} eitp__issue_kind;

/* Adds all units, with the events of phases. */
static eitp_status eitp__cuda_issue_all(eitp__cuda *cuda, const eitp__cuda_program *program, eitp__issue_kind kind,
                                        eitp_error *error) {
    const size_t count = program->order.count;
    size_t next = 0;
    eitp_status status = EITP_OK;
    for (size_t i = 0; i <= count && !status; i++) {
        status = eitp__cuda_phases_record(cuda, &program->phases, &next, i, kind == EITP__ISSUE_CAPTURED, error);
        if (!status && kind == EITP__ISSUE_MEASURED)
            status = eitp__cuda_unit_times_record(cuda, i, error);
        if (!status && i < count)
            status = eitp__cuda_issue_unit(cuda, program, &program->order.units[i], error);
    }
    return status || !program->info.storage ? status : eitp__cuda_join_copies(cuda, error);
}

/* Adds some instructions. */
static eitp_status eitp__cuda_issue_some(eitp__cuda *cuda, const eitp__cuda_program *program, size_t first, size_t end,
                                         eitp_error *error) {
    eitp_status status = EITP_OK;
    for (size_t i = first; i < end && !status; i++)
        status = eitp__cuda_issue(cuda, program, i, error);
    return status || !program->info.storage ? status : eitp__cuda_join_copies(cuda, error);
}

/* Records all instructions as a graph. cuBLASLt and the driver load kernels when they are first used, which may not be
   permitted during a capture: the program must have been executed before. */
static eitp_status eitp__cuda_capture(eitp__cuda *cuda, eitp__cuda_program *program, eitp_error *error) {
    const eitp__cuda_driver *driver = &cuda->driver;
    eitp__cuda_graph graph = NULL;
    eitp__cuda_result ended;
    eitp_status status = eitp__cuda_check(driver, driver->capture_begin(cuda->compute, EITP__CUDA_CAPTURE_RELAXED),
                                          "cuStreamBeginCapture", error);
    if (status)
        return status;
    status = eitp__cuda_issue_all(cuda, program, EITP__ISSUE_CAPTURED, error);
    ended = driver->capture_end(cuda->compute, &graph); /* even after a failure */
    if (!status)
        status = eitp__cuda_check(driver, ended, "cuStreamEndCapture", error);
    if (!status)
        status = eitp__cuda_check(driver, driver->graph_instantiate(&program->graph, graph, 0),
                                  "cuGraphInstantiateWithFlags", error);
    if (graph)
        driver->graph_destroy(graph);
    return status;
}

/* Captures the graph if that is due. Without it, each execution launches the kernels one by one. */
static void eitp__cuda_try_capture(eitp__cuda *cuda, eitp__cuda_program *program) {
    eitp_error error;
    if (!cuda->uses_graphs || !program->is_loaded || program->graph || !eitp__cuda_capture(cuda, program, &error))
        return;
    cuda->uses_graphs = 0;
    eitp__log_line(&cuda->base.host, EITP_LOG_WARNING,
                   "cannot record a CUDA graph (%s); launching kernels one by one, which may be slower", error.message);
}

/* Executes all instructions, waits for them, and adds their times to the profile. So all programs share the events of
   one execution. */
static eitp_status eitp__cuda_execute_measured(eitp__cuda *cuda, const eitp__cuda_program *program, eitp_error *error) {
    eitp_status status = eitp__cuda_issue_all(cuda, program, EITP__ISSUE_MEASURED, error);
    if (!status)
        status = eitp__cuda_finish(cuda, error);
    if (!status)
        eitp__cuda_unit_times_add(cuda, program);
    return status;
}

/* Executes all instructions, as a graph from the second time on. */
static eitp_status eitp__cuda_execute_unmeasured(eitp__cuda *cuda, eitp__cuda_program *program, eitp_error *error) {
    eitp__cuda_try_capture(cuda, program);
    return program->graph ? eitp__cuda_check(&cuda->driver, cuda->driver.graph_launch(program->graph, cuda->compute),
                                             "cuGraphLaunch", error)
                          : eitp__cuda_issue_all(cuda, program, EITP__ISSUE_LAUNCHES, error);
}

/* Executes all instructions. The times of phases are read when they are waited for. */
static eitp_status eitp__cuda_execute_all(eitp__cuda *cuda, eitp__cuda_program *program, eitp_error *error) {
    const eitp_status status = eitp__cuda_unit_times_start(cuda, program)
                                   ? eitp__cuda_execute_measured(cuda, program, error)
                                   : eitp__cuda_execute_unmeasured(cuda, program, error);
    if (status)
        return status;
    program->is_loaded = 1;
    if (program->phases.count && !program->phases.executions++) {
        program->next_timed = cuda->timed;
        cuda->timed = program;
    }
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__cuda_execute(eitp__backend *backend, eitp__program *program, size_t first, size_t end,
                                             const eitp__poll *poll, size_t stoppable, size_t *begun,
                                             eitp_error *error) {
    eitp__cuda *cuda = eitp__cuda_of(backend);
    eitp__cuda_program *prepared = (eitp__cuda_program *)(void *)program;
    const eitp__cuda_division *division = &prepared->division;
    const int is_whole = first == 0 && end == division->plan_count;
    eitp_status status = eitp__cuda_enter(cuda, error);
    *begun = first;
    if (!status && first < stoppable && eitp__poll_ask(poll))
        status = eitp__fail_interrupted(error);
    if (status)
        return status;
    *begun = end;
    return is_whole && end ? eitp__cuda_execute_all(cuda, prepared, error)
                           : eitp__cuda_issue_some(cuda, prepared, division->first[first], division->first[end], error);
}

/* Reads the times of all executions that have ended. */
static eitp_status eitp__cuda_read_times(eitp__cuda *cuda, eitp_error *error) {
    eitp_status status = EITP_OK;
    while (cuda->timed) {
        eitp__cuda_program *program = cuda->timed;
        cuda->timed = program->next_timed;
        if (!status)
            status = eitp__cuda_phases_add(cuda, &program->phases, error);
        program->phases.executions = 0;
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__cuda_wait(eitp__backend *backend, eitp_error *error) {
    eitp__cuda *cuda = eitp__cuda_of(backend);
    eitp_status status = eitp__cuda_finish(cuda, error);
    const eitp_status timed = eitp__cuda_read_times(cuda, status ? NULL : error);
    status = status ? status : timed;
    if (cuda->late.status) {
        if (!status && error)
            *error = cuda->late;
        status = status ? status : cuda->late.status;
        memset(&cuda->late, 0, sizeof cuda->late);
    }
    return status;
}

#endif
