/* The times of a program's phases: events in its graph where the phase changes in the compute stream. */
#include "backends/cuda/cuda.h"

#if EITP__WITH_CUDA

/* Transfers start alongside the compute stream, which only waits for their ends. */
static int eitp__takes_time(const eitp__instruction *instruction) {
    return instruction->kind == EITP__COMPUTE || instruction->kind == EITP__COMPLETE;
}

static eitp__phase eitp__phase_of(const eitp__instruction *instruction) {
    return instruction->kind == EITP__COMPUTE ? instruction->phase : EITP__PHASE_TRANSFER;
}

/* Lists the starts of phases in `changes`, unless it is NULL. Returns their number. */
static size_t eitp__list_phases(const eitp__program_info *info, const eitp__cuda_order *order,
                                eitp__cuda_phase *changes) {
    eitp__phase before = EITP__PHASE_COUNT;
    size_t count = 0;
    for (size_t i = 0; i < order->count; i++) {
        const eitp__instruction *instruction = &info->instructions[order->units[i].instruction];
        if (!eitp__takes_time(instruction) || eitp__phase_of(instruction) == before)
            continue;
        before = eitp__phase_of(instruction);
        if (changes) {
            changes[count].phase = before;
            changes[count].first = i;
        }
        count++;
    }
    return count;
}

EITP__PRIVATE eitp_status eitp__cuda_phases_create(eitp__cuda *cuda, const eitp__program_info *info,
                                                   const eitp__cuda_order *order, eitp__cuda_phases *phases,
                                                   eitp_error *error) {
    eitp_status status = EITP_OK;
    memset(phases, 0, sizeof *phases);
    phases->seconds = info->seconds;
    phases->capacity = info->seconds ? eitp__list_phases(info, order, NULL) + 1 : 0;
    if (phases->capacity < 2)
        return EITP_OK;
    phases->changes = (eitp__cuda_phase *)eitp__allocate(&cuda->base.host, phases->capacity * sizeof *phases->changes);
    if (!phases->changes)
        return eitp__fail_memory(error, phases->capacity * sizeof *phases->changes, "the phases of a program");
    phases->count = eitp__list_phases(info, order, phases->changes);
    phases->changes[phases->count].first = order->count; /* the end */
    for (size_t i = 0; i <= phases->count && !status; i++)
        status = eitp__cuda_check(&cuda->driver, cuda->driver.event_create(&phases->changes[i].begin, 0),
                                  "cuEventCreate", error);
    return status;
}

EITP__PRIVATE void eitp__cuda_phases_release(eitp__cuda *cuda, eitp__cuda_phases *phases) {
    for (size_t i = 0; phases->changes && i < phases->capacity; i++)
        if (phases->changes[i].begin)
            cuda->driver.event_destroy(phases->changes[i].begin);
    eitp__release(&cuda->base.host, phases->changes, phases->capacity * sizeof *phases->changes);
    memset(phases, 0, sizeof *phases);
}

EITP__PRIVATE eitp_status eitp__cuda_phases_record(eitp__cuda *cuda, const eitp__cuda_phases *phases, size_t *next,
                                                   size_t unit, int is_captured, eitp_error *error) {
    const eitp__cuda_phase *change = &phases->changes[*next];
    if (!phases->count || *next > phases->count || change->first != unit)
        return EITP_OK;
    ++*next;
    return eitp__cuda_check(
        &cuda->driver,
        cuda->driver.event_record_flags(change->begin, cuda->compute, is_captured ? EITP__CUDA_RECORD_EXTERNAL : 0),
        "cuEventRecordWithFlags", error);
}

EITP__PRIVATE eitp_status eitp__cuda_phases_add(const eitp__cuda *cuda, eitp__cuda_phases *phases, eitp_error *error) {
    const double executions = phases->executions;
    phases->executions = 0;
    for (size_t i = 0; i < phases->count; i++) {
        float milliseconds = 0;
        const eitp_status status = eitp__cuda_check(
            &cuda->driver,
            cuda->driver.event_elapsed(&milliseconds, phases->changes[i].begin, phases->changes[i + 1].begin),
            "cuEventElapsedTime", error);
        if (status)
            return status;
        phases->seconds[phases->changes[i].phase] += executions * milliseconds / 1e3;
    }
    return EITP_OK;
}

#endif
