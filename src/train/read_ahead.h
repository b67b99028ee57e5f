/*
 * Reading ahead: worker threads read the samples of coming steps while the training thread computes.
 *
 * Step k is read by worker k mod N, into one of that worker's buffers. The training thread takes the steps in order and
 * exchanges its own buffers for theirs, so what a step trains on does not depend on the number of workers. An error is
 * kept with its step, and is reported when that step is taken. Waiting checks the poll. Reads in flight finish
 * and stay queued.
 */
#ifndef EITP_READ_AHEAD_H
#define EITP_READ_AHEAD_H

#include "base/worker.h"
#include "train/step_batches.h"

/* The threads, which live as long as the trainer. */
typedef struct eitp__readers {
    eitp_host host;
    eitp__worker **workers; /* [count] */
    int64_t count;
} eitp__readers;

/* Starts `count` threads; none if it is 0. Release them after a failure too. */
EITP__PRIVATE eitp_status eitp__readers_create(const eitp_host *host, int64_t count, eitp__readers *readers,
                                               eitp_error *error);

/* Ends the threads. The buffers that they fill must have been released. */
EITP__PRIVATE void eitp__readers_release(eitp__readers *readers);

/* Resident bytes that a thread takes besides its buffers: the used part of its stack. */
#define EITP__READER_BYTES ((size_t)64 << 10)

/* A step that is read ahead. */
typedef struct eitp__coming_step {
    eitp__step_batches batches;
    const eitp_trainer_config *config;
    eitp__poll poll;    /* of its worker: whether reading is cancelled */
    uint64_t first;     /* the run's sample that it begins with */
    uint64_t job;       /* its worker's number for it */
    eitp_status status; /* of reading it */
    eitp_error error;
} eitp__coming_step;

/* The buffers of the steps that are read ahead: a ring for each worker. */
typedef struct eitp__read_ahead {
    eitp_host host;
    const eitp__readers *readers;
    eitp__coming_step *steps; /* [capacity]: step k is in steps[k % capacity]; NULL without workers */
    int64_t capacity;         /* workers times `prefetch`, so that k % capacity always has the same worker */
    int64_t first, end;       /* steps [first, end) are being read, or have been */
    int cancelled;            /* workers are to read no further sample; atomic */
} eitp__read_ahead;

/*
 * Allocates the buffers of config->data_workers times config->prefetch steps, each as eitp__step_batches_create makes
 * them. The configuration and the pass must outlive them. Reads nothing. Release it after a failure too.
 */
EITP__PRIVATE eitp_status eitp__read_ahead_create(const eitp_host *host, const eitp_pass *pass, int64_t passes,
                                                  const eitp_trainer_config *config, eitp__read_ahead *ahead,
                                                  eitp_error *error);

/* Ends reading after the samples that are being read, and releases the buffers. */
EITP__PRIVATE void eitp__read_ahead_release(eitp__read_ahead *ahead);

/*
 * Exchanges `batches` for those of a step after the start, waiting until they are read, and begins to read those after
 * it. Taking any other step than the one after the last starts again at that step; cancel reading before the start
 * changes. Allocates nothing. EITP_ERROR_INTERRUPTED if the poll says stop: nothing was taken.
 */
EITP__PRIVATE eitp_status eitp__read_ahead_take(eitp__read_ahead *ahead, const eitp__readers *readers,
                                                const eitp__data_position *start, int64_t step, const eitp__poll *poll,
                                                eitp__step_batches *batches, eitp_error *error);

/* Waits until nothing is being read. What was read stays. EITP_ERROR_INTERRUPTED if the poll says stop. */
EITP__PRIVATE eitp_status eitp__read_ahead_wait(const eitp__read_ahead *ahead, const eitp__poll *poll,
                                                eitp_error *error);

/* Ends reading after the samples that are being read, and forgets what was read. */
EITP__PRIVATE void eitp__read_ahead_cancel(eitp__read_ahead *ahead);

#endif
