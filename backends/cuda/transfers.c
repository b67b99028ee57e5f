/* Transfers between device memory and the storage: a thread of the driver reads or writes the storage through pinned
   memory. */
#include "backends/cuda/cuda.h"

#if EITP__WITH_CUDA

/* True if the device copies directly from and to the storage. */
static int eitp__is_direct(const eitp__cuda *cuda, const eitp__storage *storage) {
    return storage->address && !cuda->pageable;
}

/* Returns the maximum bytes of a piece. */
static size_t eitp__piece_bytes(const eitp__cuda *cuda, const eitp__storage *storage) {
    return eitp__is_direct(cuda, storage) ? SIZE_MAX : EITP__CUDA_STAGE_BYTES;
}

/* Returns the number of pieces of a transfer. */
static size_t eitp__piece_count(const eitp__cuda *cuda, const eitp__program_info *info,
                                const eitp__instruction *instruction) {
    if (instruction->kind != EITP__READ && instruction->kind != EITP__WRITE)
        return 0;
    return eitp__is_direct(cuda, info->storage)
               ? 1
               : (instruction->size + EITP__CUDA_STAGE_BYTES - 1) / EITP__CUDA_STAGE_BYTES;
}

static eitp_status eitp__cuda_create_stages(eitp__cuda *cuda, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (int i = 0; i < 2 && !status; i++)
        if (!cuda->stages[i])
            status = eitp__cuda_check(&cuda->driver,
                                      cuda->driver.allocate_host((void **)&cuda->stages[i], EITP__CUDA_STAGE_BYTES, 0),
                                      "cuMemHostAlloc", error);
    return status;
}

/* Lists the pieces of one transfer. Those that are not direct use the two stages alternately. */
static void eitp__cuda_list_pieces(eitp__cuda *cuda, const eitp__program_info *info, size_t i,
                                   eitp__cuda_transfers *transfers) {
    const eitp__instruction *instruction = &info->instructions[i];
    const size_t most = eitp__piece_bytes(cuda, info->storage);
    transfers->first[i] = transfers->count;
    for (size_t k = 0; k < eitp__piece_count(cuda, info, instruction); k++) {
        eitp__cuda_piece *piece = &transfers->pieces[transfers->count];
        const size_t begin = k * most, left = instruction->size - begin;
        piece->cuda = cuda;
        piece->storage = info->storage;
        piece->offset = instruction->offset + begin;
        piece->size = left < most ? left : most;
        piece->is_direct = eitp__is_direct(cuda, info->storage);
        piece->pinned = piece->is_direct ? (char *)info->storage->address(info->storage->user, piece->offset)
                                         : cuda->stages[transfers->count % 2];
        piece->is_read = instruction->kind == EITP__READ;
        transfers->count++;
    }
}

EITP__PRIVATE eitp_status eitp__cuda_transfers_create(eitp__cuda *cuda, const eitp__program_info *info,
                                                      eitp__cuda_transfers *transfers, eitp_error *error) {
    const eitp_host *host = &cuda->base.host;
    size_t pieces = 0;
    eitp_status status;
    memset(transfers, 0, sizeof *transfers);
    if (!info->storage)
        return EITP_OK;
    for (size_t i = 0; i < info->count; i++)
        pieces += eitp__piece_count(cuda, info, &info->instructions[i]);
    status = eitp__is_direct(cuda, info->storage) ? EITP_OK : eitp__cuda_create_stages(cuda, error);
    if (status || !pieces)
        return status;
    transfers->instruction_count = info->count;
    transfers->first = (size_t *)eitp__allocate(host, info->count * sizeof *transfers->first);
    transfers->begun = (eitp__cuda_event *)eitp__allocate(host, info->count * sizeof *transfers->begun);
    transfers->pieces = (eitp__cuda_piece *)eitp__allocate(host, pieces * sizeof *transfers->pieces);
    transfers->capacity = pieces;
    if (!transfers->first || !transfers->begun || !transfers->pieces)
        return eitp__fail_memory(error, pieces * sizeof *transfers->pieces, "the transfers of a program");
    for (size_t i = 0; i < info->count && !status; i++) {
        eitp__cuda_list_pieces(cuda, info, i, transfers);
        if (eitp__piece_count(cuda, info, &info->instructions[i]))
            status = eitp__cuda_check(&cuda->driver,
                                      cuda->driver.event_create(&transfers->begun[i], EITP__CUDA_EVENT_DISABLE_TIMING),
                                      "cuEventCreate", error);
    }
    return status;
}

EITP__PRIVATE void eitp__cuda_transfers_release(eitp__cuda *cuda, eitp__cuda_transfers *transfers) {
    const eitp_host *host = &cuda->base.host;
    const size_t count = transfers->instruction_count;
    for (size_t i = 0; transfers->begun && i < count; i++)
        if (transfers->begun[i])
            cuda->driver.event_destroy(transfers->begun[i]);
    eitp__release(host, transfers->pieces, transfers->capacity * sizeof *transfers->pieces);
    eitp__release(host, transfers->first, count * sizeof *transfers->first);
    eitp__release(host, transfers->begun, count * sizeof *transfers->begun);
    memset(transfers, 0, sizeof *transfers);
}

/* Called by the driver's thread. After a failure nothing else is read or written: `wait` reports it. */
static void eitp__cuda_move_piece(void *user) {
    const eitp__cuda_piece *piece = (const eitp__cuda_piece *)user;
    const eitp__storage *storage = piece->storage;
    eitp_error *late = &piece->cuda->late;
    if (late->status)
        return;
    late->status = piece->is_read ? storage->read(storage->user, piece->offset, piece->pinned, piece->size, late)
                                  : storage->write(storage->user, piece->offset, piece->pinned, piece->size, late);
}

/* Makes the driver's thread move a piece, unless that is not necessary. */
static eitp_status eitp__cuda_issue_move(eitp__cuda *cuda, eitp__cuda_piece *piece, eitp_error *error) {
    return piece->is_direct
               ? EITP_OK
               : eitp__cuda_check(&cuda->driver, cuda->driver.launch_host(cuda->copy, eitp__cuda_move_piece, piece),
                                  "cuLaunchHostFunc", error);
}

/* Copies a piece between pinned memory and device, after or before it is moved. */
static eitp_status eitp__cuda_copy_piece(eitp__cuda *cuda, eitp__cuda_piece *piece, char *memory, eitp_error *error) {
    const eitp__cuda_driver *driver = &cuda->driver;
    const eitp__cuda_address address = (eitp__cuda_address)(uintptr_t)memory;
    eitp_status status = piece->is_read ? eitp__cuda_issue_move(cuda, piece, error) : EITP_OK;
    if (status)
        return status;
    if (piece->is_read)
        return eitp__cuda_check(driver, driver->upload(address, piece->pinned, piece->size, cuda->copy),
                                "cuMemcpyHtoDAsync", error);
    status = eitp__cuda_check(driver, driver->download(piece->pinned, address, piece->size, cuda->copy),
                              "cuMemcpyDtoHAsync", error);
    return status ? status : eitp__cuda_issue_move(cuda, piece, error);
}

/* Starts the copies after all earlier calls, which may use the memory. */
static eitp_status eitp__cuda_begin_transfer(eitp__cuda *cuda, const eitp__program_info *info,
                                             const eitp__cuda_transfers *transfers, size_t i, eitp_error *error) {
    const eitp__cuda_driver *driver = &cuda->driver;
    const eitp__instruction *instruction = &info->instructions[i];
    eitp_status status =
        eitp__cuda_check(driver, driver->event_record(cuda->fork, cuda->compute), "cuEventRecord", error);
    if (!status)
        status =
            eitp__cuda_check(driver, driver->stream_wait_event(cuda->copy, cuda->fork, 0), "cuStreamWaitEvent", error);
    for (size_t k = 0; k < eitp__piece_count(cuda, info, instruction) && !status; k++) {
        eitp__cuda_piece *piece = &transfers->pieces[transfers->first[i] + k];
        status = eitp__cuda_copy_piece(cuda, piece, (char *)instruction->memory + (piece->offset - instruction->offset),
                                       error);
    }
    return status ? status
                  : eitp__cuda_check(driver, driver->event_record(transfers->begun[i], cuda->copy), "cuEventRecord",
                                     error);
}

EITP__PRIVATE eitp_status eitp__cuda_transfer(eitp__cuda *cuda, const eitp__program_info *info,
                                              const eitp__cuda_transfers *transfers, size_t instruction,
                                              eitp_error *error) {
    const eitp__instruction *transfer = &info->instructions[instruction];
    if (transfer->kind != EITP__COMPLETE)
        return eitp__cuda_begin_transfer(cuda, info, transfers, instruction, error);
    return eitp__cuda_check(&cuda->driver,
                            cuda->driver.stream_wait_event(cuda->compute, transfers->begun[transfer->transfer], 0),
                            "cuStreamWaitEvent", error);
}

#endif
