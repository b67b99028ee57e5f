/* A thread beside the caller's, that runs jobs in the order they are given in: what waits for a disk waits there. */
#ifndef EITP_WORKER_H
#define EITP_WORKER_H

#include "base/memory.h"
#include "base/status.h"

/*
 * OpenMP brings the threads of the system with it, and so do C libraries that have them inside. Elsewhere a job is run
 * when it is given.
 */
#if EITP__WITH_OPENMP || (defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 34)) || defined(__APPLE__)
#define EITP__WITH_WORKER 1
#else
#define EITP__WITH_WORKER 0
#endif

typedef struct eitp__worker eitp__worker;

/* What the worker does; the argument must live until the job was waited for. */
typedef eitp_status (*eitp__work)(void *argument, eitp_error *error);

/* Where the system gives no thread, jobs are run when they are given. */
EITP__PRIVATE eitp_status eitp__worker_create(const eitp_host *host, eitp__worker **worker, eitp_error *error);

/* Waits for all jobs. NULL is fine. */
EITP__PRIVATE void eitp__worker_destroy(eitp__worker *worker);

/* Adds a job; waits where there are many before it. Returns its number, from 1. */
EITP__PRIVATE uint64_t eitp__worker_give(eitp__worker *worker, eitp__work work, void *argument);

/*
 * Waits for a job and all before it. Returns the first failure of a job since the last eitp__worker_finish; jobs
 * after one that failed are not run.
 */
EITP__PRIVATE eitp_status eitp__worker_wait(eitp__worker *worker, uint64_t number, eitp_error *error);

/* Waits for all jobs, and forgets a failure after returning it. */
EITP__PRIVATE eitp_status eitp__worker_finish(eitp__worker *worker, eitp_error *error);

#endif
