/* A background thread that runs jobs in the order of submission, so that the caller does not wait for the disk. */
#ifndef EITP_WORKER_H
#define EITP_WORKER_H

#include "base/memory.h"
#include "base/status.h"

/* Threads need no additional library with OpenMP, and in C libraries that include them. Elsewhere, and if the thread
   cannot be created, a job runs when it is submitted. */
#if EITP__WITH_OPENMP || (defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 34)) || defined(__APPLE__)
#define EITP__WITH_WORKER 1
#else
#define EITP__WITH_WORKER 0
#endif

#if EITP__WITH_WORKER
#include <pthread.h>

/* Calls pthread_create for a thread of the library. Signals for the process are not delivered to this thread, so a
   program's handlers run only on the program's own threads, and not after these have moved on. */
EITP__PRIVATE int eitp__thread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *argument),
                                      void *argument);
#endif

typedef struct eitp__worker eitp__worker;

/* A job; `argument` must stay valid until the job has been waited for. It must not allocate or log: see eitp_host. */
typedef eitp_status (*eitp__work)(void *argument, eitp_error *error);

/* Queue length for callers that wait for their jobs soon. */
#define EITP__WORKER_QUEUE ((size_t)64)

/* Creates a worker. `queue`: number of jobs that may wait, 1 or more. */
EITP__PRIVATE eitp_status eitp__worker_create(const eitp_host *host, size_t queue, eitp__worker **worker,
                                              eitp_error *error);

/* Waits for all jobs. NULL is harmless. */
EITP__PRIVATE void eitp__worker_destroy(eitp__worker *worker);

/* Submits a job; waits while the queue is full. Returns the job's number, counted from 1. */
EITP__PRIVATE uint64_t eitp__worker_submit(eitp__worker *worker, eitp__work work, void *argument);

/* Waits for a job and all jobs before it. Returns the first failure since the last eitp__worker_finish; jobs after a
   failed one are skipped. */
EITP__PRIVATE eitp_status eitp__worker_wait(eitp__worker *worker, uint64_t number, eitp_error *error);

/* Waits for a job and all jobs before it, at most about `milliseconds`. Returns 1 if they are done. */
EITP__PRIVATE int eitp__worker_wait_briefly(eitp__worker *worker, uint64_t number, int milliseconds);

/* Waits for all jobs, returns the first failure like eitp__worker_wait, and resets it. */
EITP__PRIVATE eitp_status eitp__worker_finish(eitp__worker *worker, eitp_error *error);

#endif
