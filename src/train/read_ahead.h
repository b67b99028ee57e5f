/*
 * Reading ahead: worker threads read the samples of the next steps while the training thread computes.
 *
 * Worker k mod N reads step k into one of its buffers. The training thread takes the steps in order and exchanges its
 * own buffers for theirs, so the samples of a step do not depend on the number of workers. An error is stored with its
 * step, and reported when that step is taken. Waiting checks the poll. Reads in flight finish and stay queued.
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

/* Stops the threads. Release the buffers that they fill first. */
EITP__PRIVATE void eitp__readers_release(eitp__readers *readers);

/* Resident bytes per thread in addition to its buffers: the used part of its stack. */
#define EITP__READER_BYTES ((size_t)64 << 10)

/* A step that is read ahead. */
typedef struct eitp__coming_step {
    eitp__step_batches batches;
    const eitp_trainer_config *config;
    eitp__poll poll;    /* cancels its worker's reading */
    uint64_t first;     /* number in the run of the step's first sample */
    uint64_t job;       /* the worker's job number */
    eitp_status status; /* result of reading it */
    eitp_error error;
} eitp__coming_step;

/* The buffers of steps that are read ahead: a ring for each worker. */
typedef struct eitp__read_ahead {
    eitp_host host;
    const eitp__readers *readers;
    eitp__coming_step *steps; /* [capacity]: step k is in steps[k % capacity]; NULL without workers */
    int64_t capacity;         /* workers times `prefetch`, so that steps with the same k % capacity belong to the same
                                 worker */
    int64_t first, end;       /* steps [first, end) are being read, or were read */
    int cancelled;            /* workers must not read more samples; atomic */
} eitp__read_ahead;

/* Allocates the buffers of config->data_workers times config->prefetch steps, as eitp__step_batches_create does for
   each. The configuration and the pass must outlive them. Reads nothing. Release it after a failure too. */
EITP__PRIVATE eitp_status eitp__read_ahead_create(const eitp_host *host, const eitp_pass *pass, int64_t passes,
                                                  const eitp_trainer_config *config, eitp__read_ahead *ahead,
                                                  eitp_error *error);

/* Stops reading after the samples in flight, and releases the buffers. */
EITP__PRIVATE void eitp__read_ahead_release(eitp__read_ahead *ahead);

/*
 * Exchanges `batches` for the batches of a step after the start, waiting until they are read, and starts reading the
 * next ones. Taking any step other than the next one restarts reading at that step. Cancel reading before the start
 * changes. Allocates nothing. EITP_ERROR_INTERRUPTED if the poll stops it; nothing is taken then.
 */
EITP__PRIVATE eitp_status eitp__read_ahead_take(eitp__read_ahead *ahead, const eitp__readers *readers,
                                                const eitp__data_position *start, int64_t step, const eitp__poll *poll,
                                                eitp__step_batches *batches, eitp_error *error);

/* Waits until nothing is being read. Steps that were read stay. EITP_ERROR_INTERRUPTED if the poll stops it. */
EITP__PRIVATE eitp_status eitp__read_ahead_wait(const eitp__read_ahead *ahead, const eitp__poll *poll,
                                                eitp_error *error);

/* Stops reading after the samples in flight, and discards what was read. */
EITP__PRIVATE void eitp__read_ahead_cancel(eitp__read_ahead *ahead);

#endif
