/*
 * The times of a program's units: an event in the compute stream before each unit, and after the last one. The time of
 * a unit includes the time for which the device waits for the host to launch it.
 */
#include "backends/cuda/cuda.h"

#if EITP__WITH_CUDA

EITP__PRIVATE int eitp__cuda_unit_times_start(eitp__cuda *cuda, const eitp__cuda_program *program) {
    if (!cuda->profile.is_on || !program->info.work)
        return 0;
    cuda->profile.left_out += !program->is_loaded;
    return program->is_loaded && eitp__cuda_profile_reserve(&cuda->profile, program->order.count);
}

EITP__PRIVATE eitp_status eitp__cuda_unit_times_record(const eitp__cuda *cuda, size_t unit, eitp_error *error) {
    return eitp__cuda_check(&cuda->driver, cuda->driver.event_record(cuda->profile.times[unit].before, cuda->compute),
                            "cuEventRecord", error);
}

/* ---- Work ---- */

static eitp__call_work eitp__work_of_call(const eitp__cuda_program *program, size_t i) {
    const eitp__cuda_division *division = &program->division;
    const size_t whole = division->parts[i].whole;
    eitp__call_work work;
    program->info.work(program->info.user, whole, &work);
    if (division->first[whole + 1] - division->first[whole] > 1)
        eitp__cuda_part_work(program->info.instructions[i].call, division->parts[i].product != NULL, &work);
    return work;
}

/* Adds the call of instruction `i`, and names the unit by it. Returns the number of its launches. */
static size_t eitp__add_call_of_unit(const eitp__cuda_program *program, size_t i, eitp__cuda_profile_row *unit) {
    const eitp__cuda_launch *launches = &program->launches[program->first[i]];
    const size_t count = program->first[i + 1] - program->first[i];
    const eitp__call *call = program->info.instructions[i].call;
    const eitp__call_work work = eitp__work_of_call(program, i);
    eitp__cuda_kernel kernels[EITP__CUDA_CALL_LAUNCHES];
    for (size_t k = 0; k < count; k++)
        kernels[k] = launches[k].kernel;
    for (size_t k = 0; k < count; k++)
        unit->bytes += eitp__cuda_launch_bytes(kernels, count, k, call, work.bytes);
    unit->flops += work.flops;
    unit->calls++;
    unit->dtype = call->dtype;
    eitp__cuda_work_name(kernels, count, work.purpose, unit->name);
    return count;
}

static eitp__cuda_profile_row eitp__work_of_unit(const eitp__cuda_program *program, const eitp__cuda_unit *unit) {
    eitp__cuda_profile_row row;
    memset(&row, 0, sizeof row);
    if (program->info.instructions[unit->instruction].kind != EITP__COMPUTE) {
        snprintf(row.name, sizeof row.name, "transfers");
        row.dtype = EITP_U8;
        row.calls = 1;
    } else if (unit->call_count) {
        for (size_t i = 0; i < unit->call_count; i++)
            eitp__add_call_of_unit(program, program->order.members[unit->first_member + i], &row);
        row.launches = 1;
    } else {
        row.launches = eitp__add_call_of_unit(program, unit->instruction, &row);
    }
    return row;
}

/* ---- Times ---- */

static eitp_status eitp__read_unit_times(eitp__cuda *cuda, size_t units, eitp_error *error) {
    eitp__cuda_unit_time *times = cuda->profile.times;
    eitp_status status = EITP_OK;
    for (size_t u = 0; u < units && !status; u++)
        status = eitp__cuda_check(
            &cuda->driver, cuda->driver.event_elapsed(&times[u].milliseconds, times[u].before, times[u + 1].before),
            "cuEventElapsedTime", error);
    return status;
}

EITP__PRIVATE void eitp__cuda_unit_times_add(eitp__cuda *cuda, const eitp__cuda_program *program) {
    eitp_error error;
    if (eitp__read_unit_times(cuda, program->order.count, &error)) {
        eitp__cuda_profile_stop(&cuda->profile, &error);
        return;
    }
    cuda->profile.executions++;
    for (size_t u = 0; u < program->order.count; u++) {
        eitp__cuda_profile_row row = eitp__work_of_unit(program, &program->order.units[u]);
        row.seconds = (double)cuda->profile.times[u].milliseconds / 1e3;
        if (*row.name) /* there are no launches for empty operands */
            eitp__cuda_profile_add(&cuda->profile, &row);
    }
}

#endif
