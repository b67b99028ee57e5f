#include "train/read_ahead.h"

/* ---- Threads ---- */

EITP__PRIVATE eitp_status eitp__readers_create(const eitp_host *host, int64_t count, eitp__readers *readers,
                                               eitp_error *error) {
    const size_t bytes = (size_t)count * sizeof *readers->workers;
    eitp_status status = EITP_OK;
    memset(readers, 0, sizeof *readers);
    if (!count)
        return EITP_OK;
    readers->host = *host;
    readers->workers = (eitp__worker **)eitp__allocate(host, bytes);
    if (!readers->workers)
        return eitp__fail_memory(error, bytes, "the data workers");
    readers->count = count;
    for (int64_t i = 0; i < count && !status; i++)
        status = eitp__worker_create(host, EITP__WORKER_QUEUE, &readers->workers[i], error);
    return status;
}

EITP__PRIVATE void eitp__readers_release(eitp__readers *readers) {
    for (int64_t i = 0; i < readers->count; i++)
        eitp__worker_destroy(readers->workers[i]);
    if (readers->workers)
        eitp__release(&readers->host, readers->workers, (size_t)readers->count * sizeof *readers->workers);
    memset(readers, 0, sizeof *readers);
}

/* ---- Buffers ---- */

static int eitp__reading_is_cancelled(void *ahead) {
    return __atomic_load_n(&((eitp__read_ahead *)ahead)->cancelled, __ATOMIC_RELAXED);
}

EITP__PRIVATE eitp_status eitp__read_ahead_create(const eitp_host *host, const eitp_pass *pass, int64_t passes,
                                                  const eitp_trainer_config *config, eitp__read_ahead *ahead,
                                                  eitp_error *error) {
    const int64_t capacity = config->data_workers * config->prefetch;
    const size_t bytes = (size_t)capacity * sizeof *ahead->steps;
    eitp_status status = EITP_OK;
    memset(ahead, 0, sizeof *ahead);
    if (!capacity)
        return EITP_OK;
    ahead->host = *host;
    ahead->steps = (eitp__coming_step *)eitp__allocate(host, bytes);
    if (!ahead->steps)
        return eitp__fail_memory(error, bytes, "the batches that are read ahead");
    ahead->capacity = capacity;
    for (int64_t i = 0; i < capacity && !status; i++) {
        ahead->steps[i].config = config;
        ahead->steps[i].poll.ask = eitp__reading_is_cancelled;
        ahead->steps[i].poll.user = ahead;
        status = eitp__step_batches_create(host, pass, passes, &ahead->steps[i].batches, error);
    }
    return status;
}

EITP__PRIVATE void eitp__read_ahead_release(eitp__read_ahead *ahead) {
    if (!ahead->steps)
        return;
    eitp__read_ahead_cancel(ahead);
    for (int64_t i = 0; i < ahead->capacity; i++)
        eitp__step_batches_release(&ahead->steps[i].batches);
    eitp__release(&ahead->host, ahead->steps, (size_t)ahead->capacity * sizeof *ahead->steps);
    memset(ahead, 0, sizeof *ahead);
}

/* ---- Reading ---- */

/* A worker's job. It never fails, since a worker that fails runs no later job; the step stores the error. */
static eitp_status eitp__read_coming_step(void *argument, eitp_error *error) {
    eitp__coming_step *coming = (eitp__coming_step *)argument;
    (void)error;
    memset(&coming->error, 0, sizeof coming->error);
    coming->status =
        eitp__step_batches_read(&coming->batches, coming->config, coming->first, &coming->poll, &coming->error);
    return EITP_OK;
}

static eitp__coming_step *eitp__coming_step_at(const eitp__read_ahead *ahead, int64_t step) {
    return &ahead->steps[step % ahead->capacity];
}

static eitp__worker *eitp__reader_of(const eitp__read_ahead *ahead, int64_t step) {
    return ahead->readers->workers[step % ahead->readers->count];
}

/* Starts reading step `end`. */
static void eitp__read_ahead_submit(eitp__read_ahead *ahead, const eitp__data_position *start) {
    eitp__coming_step *coming = eitp__coming_step_at(ahead, ahead->end);
    coming->first = eitp__samples_after(coming->config, start, ahead->end);
    coming->job = eitp__worker_submit(eitp__reader_of(ahead, ahead->end), eitp__read_coming_step, coming);
    ahead->end++;
}

/* Waits until a step is read. */
static eitp_status eitp__read_ahead_await(const eitp__read_ahead *ahead, int64_t step, const eitp__poll *poll,
                                          eitp_error *error) {
    const int milliseconds = 50; /* between polls */
    const uint64_t job = eitp__coming_step_at(ahead, step)->job;
    while (!eitp__worker_wait_briefly(eitp__reader_of(ahead, step), job, milliseconds)) {
        if (eitp__poll_ask(poll))
            return eitp__fail_interrupted(error);
    }
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__read_ahead_wait(const eitp__read_ahead *ahead, const eitp__poll *poll,
                                                eitp_error *error) {
    eitp_status status = EITP_OK;
    for (int64_t step = ahead->first; step < ahead->end && !status; step++)
        status = eitp__read_ahead_await(ahead, step, poll, error);
    return status;
}

EITP__PRIVATE void eitp__read_ahead_cancel(eitp__read_ahead *ahead) {
    __atomic_store_n(&ahead->cancelled, 1, __ATOMIC_RELAXED);
    for (int64_t step = ahead->first; step < ahead->end; step++)
        eitp__worker_wait(eitp__reader_of(ahead, step), eitp__coming_step_at(ahead, step)->job, NULL);
    __atomic_store_n(&ahead->cancelled, 0, __ATOMIC_RELAXED);
    ahead->first = ahead->end;
}

/* Discards all steps that were read ahead, and restarts at `step`. */
static void eitp__read_ahead_restart(eitp__read_ahead *ahead, const eitp__readers *readers, int64_t step) {
    eitp__read_ahead_cancel(ahead);
    ahead->readers = readers;
    ahead->first = ahead->end = step;
}

EITP__PRIVATE eitp_status eitp__read_ahead_take(eitp__read_ahead *ahead, const eitp__readers *readers,
                                                const eitp__data_position *start, int64_t step, const eitp__poll *poll,
                                                eitp__step_batches *batches, eitp_error *error) {
    eitp__coming_step *coming = eitp__coming_step_at(ahead, step);
    const eitp__step_batches taken = *batches;
    eitp_status status;
    if (!ahead->readers || ahead->first != step)
        eitp__read_ahead_restart(ahead, readers, step);
    while (ahead->end < step + ahead->capacity)
        eitp__read_ahead_submit(ahead, start);
    status = eitp__read_ahead_await(ahead, step, poll, error);
    if (status)
        return status;
    status = coming->status;
    if (status) {
        if (error)
            *error = coming->error;
        eitp__read_ahead_restart(ahead, readers, step);
        return status;
    }
    *batches = coming->batches;
    coming->batches = taken;
    ahead->first++;
    eitp__read_ahead_submit(ahead, start);
    return EITP_OK;
}
