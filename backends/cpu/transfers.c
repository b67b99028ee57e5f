#include "backends/cpu/transfers.h"

#include "base/memory.h"

EITP__PRIVATE eitp_status eitp__transfers_create(eitp__transfers *transfers, const eitp_host *host,
                                                 const eitp__program_info *info, eitp__worker **worker,
                                                 eitp_error *error) {
    eitp_status status = *worker ? EITP_OK : eitp__worker_create(host, EITP__WORKER_QUEUE, worker, error);
    memset(transfers, 0, sizeof *transfers);
    if (status)
        return status;
    transfers->host = *host;
    transfers->worker = *worker;
    transfers->count = info->count;
    transfers->jobs = (eitp__transfer_job *)eitp__allocate(host, info->count * sizeof *transfers->jobs);
    if (info->count && !transfers->jobs)
        return eitp__fail_memory(error, info->count * sizeof *transfers->jobs, "the transfers of a program");
    for (size_t i = 0; i < info->count; i++) {
        transfers->jobs[i].instruction = &info->instructions[i];
        transfers->jobs[i].storage = info->storage;
    }
    return EITP_OK;
}

EITP__PRIVATE void eitp__transfers_release(eitp__transfers *transfers) {
    if (transfers->jobs)
        eitp__release(&transfers->host, transfers->jobs, transfers->count * sizeof *transfers->jobs);
    memset(transfers, 0, sizeof *transfers);
}

/* Called by the worker. */
static eitp_status eitp__copy_transfer(void *argument, eitp_error *error) {
    const eitp__transfer_job *job = (const eitp__transfer_job *)argument;
    const eitp__instruction *copy = job->instruction;
    return copy->kind == EITP__READ
               ? job->storage->read(job->storage->user, copy->offset, copy->memory, copy->size, error)
               : job->storage->write(job->storage->user, copy->offset, copy->memory, copy->size, error);
}

EITP__PRIVATE eitp_status eitp__transfer(eitp__transfers *transfers, size_t instruction, eitp_error *error) {
    eitp__transfer_job *job = &transfers->jobs[instruction];
    if (job->instruction->kind == EITP__COMPLETE)
        return eitp__worker_wait(transfers->worker, transfers->jobs[job->instruction->transfer].number, error);
    job->number = eitp__worker_submit(transfers->worker, eitp__copy_transfer, job);
    return EITP_OK;
}
