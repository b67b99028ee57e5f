#include "base/worker.h"

#if EITP__WITH_WORKER
#include <signal.h>
#include <time.h>
#endif

typedef struct eitp__worker_job {
    eitp__work work;
    void *argument;
} eitp__worker_job;

struct eitp__worker {
    eitp_host host;
    eitp__worker_job *jobs;   /* job n is stored at n % queue */
    size_t queue;             /* number of jobs that may wait */
    uint64_t submitted, done; /* numbers of the last job submitted and finished */
    eitp_status status;       /* of the first failure */
    eitp_error error;
    int has_thread, stopping;
#if EITP__WITH_WORKER
    pthread_t thread;
    pthread_mutex_t mutex; /* protects everything above except jobs that are submitted and not done */
    pthread_cond_t changed;
#endif
};

/* Runs a job unless an earlier one failed. Called without the lock. */
static eitp_status eitp__run_job(const eitp__worker_job *job, eitp_status earlier, eitp_error *error) {
    return earlier ? earlier : job->work(job->argument, error);
}

static void eitp__end_job(eitp__worker *worker, eitp_status status, const eitp_error *error) {
    if (status && !worker->status) {
        worker->status = status;
        worker->error = *error;
    }
    worker->done++;
}

#if EITP__WITH_WORKER

static void eitp__worker_lock(eitp__worker *worker) {
    if (worker->has_thread)
        pthread_mutex_lock(&worker->mutex);
}

/* Also wakes the other thread, which may be waiting for a change. */
static void eitp__worker_unlock(eitp__worker *worker) {
    if (!worker->has_thread)
        return;
    pthread_cond_broadcast(&worker->changed);
    pthread_mutex_unlock(&worker->mutex);
}

static void *eitp__worker_thread(void *argument) {
    eitp__worker *worker = (eitp__worker *)argument;
    pthread_mutex_lock(&worker->mutex);
    for (;;) {
        eitp_error error = EITP__ZERO;
        eitp__worker_job job;
        eitp_status status;
        while (worker->done == worker->submitted && !worker->stopping)
            pthread_cond_wait(&worker->changed, &worker->mutex);
        if (worker->done == worker->submitted)
            break;
        job = worker->jobs[(worker->done + 1) % worker->queue];
        status = worker->status;
        pthread_mutex_unlock(&worker->mutex);
        status = eitp__run_job(&job, status, &error);
        pthread_mutex_lock(&worker->mutex);
        eitp__end_job(worker, status, &error);
        pthread_cond_broadcast(&worker->changed);
    }
    pthread_mutex_unlock(&worker->mutex);
    return NULL;
}

EITP__PRIVATE int eitp__thread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *argument),
                                      void *argument) {
/* A system header before eitp.h may have hidden the signal functions. */
#if !defined(__GLIBC__) || defined(__USE_POSIX199506)
    static const int of_thread[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGPROF};
    sigset_t blocked, before;
    int code;
    sigfillset(&blocked);
    for (size_t i = 0; i < EITP__COUNT(of_thread); i++)
        sigdelset(&blocked, of_thread[i]);
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    code = pthread_create(thread, attributes, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
#else
    return pthread_create(thread, attributes, run, argument);
#endif
}

/* Jobs may call a program's functions (eitp_task.read). The system's default stack size would count towards
   RLIMIT_AS. */
#define EITP__WORKER_STACK ((size_t)1 << 20)

static void eitp__worker_start(eitp__worker *worker) {
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes))
        return;
    pthread_attr_setstacksize(&attributes, EITP__WORKER_STACK);
    pthread_mutex_init(&worker->mutex, NULL);
    pthread_cond_init(&worker->changed, NULL);
    worker->has_thread = !eitp__thread_create(&worker->thread, &attributes, eitp__worker_thread, worker);
    pthread_attr_destroy(&attributes);
}

static void eitp__worker_end(eitp__worker *worker) {
    if (!worker->has_thread)
        return;
    eitp__worker_lock(worker);
    worker->stopping = 1;
    eitp__worker_unlock(worker);
    pthread_join(worker->thread, NULL);
    pthread_cond_destroy(&worker->changed);
    pthread_mutex_destroy(&worker->mutex);
}

/* Waits until job `number` is done. Called with the lock. */
static void eitp__worker_await(eitp__worker *worker, uint64_t number) {
    while (worker->done < number)
        pthread_cond_wait(&worker->changed, &worker->mutex);
}

/* Like eitp__worker_await, with a deadline. */
static void eitp__worker_await_until(eitp__worker *worker, uint64_t number, const struct timespec *end) {
    while (worker->done < number && !pthread_cond_timedwait(&worker->changed, &worker->mutex, end))
        continue;
}

EITP__PRIVATE int eitp__worker_wait_briefly(eitp__worker *worker, uint64_t number, int milliseconds) {
    struct timespec end;
    int done;
    clock_gettime(CLOCK_REALTIME, &end); /* the clock of pthread_cond_timedwait */
    end.tv_nsec += milliseconds * 1000000L;
    end.tv_sec += end.tv_nsec / 1000000000L;
    end.tv_nsec %= 1000000000L;
    eitp__worker_lock(worker);
    if (worker->has_thread)
        eitp__worker_await_until(worker, number, &end);
    done = worker->done >= number;
    eitp__worker_unlock(worker);
    return done;
}

#else

static void eitp__worker_lock(eitp__worker *worker) {
    (void)worker;
}

static void eitp__worker_unlock(eitp__worker *worker) {
    (void)worker;
}

static void eitp__worker_start(eitp__worker *worker) {
    (void)worker;
}

static void eitp__worker_end(eitp__worker *worker) {
    (void)worker;
}

static void eitp__worker_await(eitp__worker *worker, uint64_t number) {
    (void)worker;
    (void)number;
}

EITP__PRIVATE int eitp__worker_wait_briefly(eitp__worker *worker, uint64_t number, int milliseconds) {
    (void)milliseconds;
    return worker->done >= number;
}

#endif

EITP__PRIVATE eitp_status eitp__worker_create(const eitp_host *host, size_t queue, eitp__worker **worker,
                                              eitp_error *error) {
    eitp__worker *created = (eitp__worker *)eitp__allocate(host, sizeof *created);
    eitp__worker_job *jobs = (eitp__worker_job *)eitp__allocate(host, queue * sizeof *jobs);
    *worker = NULL;
    if (!created || !jobs) {
        eitp__release(host, created, sizeof *created);
        eitp__release(host, jobs, queue * sizeof *jobs);
        return eitp__fail_memory(error, sizeof *created + queue * sizeof *jobs, "a background thread");
    }
    created->host = *host;
    created->jobs = jobs;
    created->queue = queue;
    eitp__worker_start(created);
    *worker = created;
    return EITP_OK;
}

EITP__PRIVATE void eitp__worker_destroy(eitp__worker *worker) {
    eitp_host host;
    if (!worker)
        return;
    host = worker->host;
    eitp__worker_end(worker);
    eitp__release(&host, worker->jobs, worker->queue * sizeof *worker->jobs);
    eitp__release(&host, worker, sizeof *worker);
}

EITP__PRIVATE uint64_t eitp__worker_submit(eitp__worker *worker, eitp__work work, void *argument) {
    eitp__worker_job job;
    uint64_t number;
    job.work = work;
    job.argument = argument;
    if (!worker->has_thread) {
        eitp_error error = EITP__ZERO;
        eitp_status status = eitp__run_job(&job, worker->status, &error);
        number = ++worker->submitted;
        eitp__end_job(worker, status, &error);
        return number;
    }
    eitp__worker_lock(worker);
    if (worker->submitted + 1 > worker->queue)
        eitp__worker_await(worker, worker->submitted + 1 - worker->queue);
    number = ++worker->submitted;
    worker->jobs[number % worker->queue] = job;
    eitp__worker_unlock(worker);
    return number;
}

EITP__PRIVATE eitp_status eitp__worker_wait(eitp__worker *worker, uint64_t number, eitp_error *error) {
    eitp_status status;
    eitp__worker_lock(worker);
    eitp__worker_await(worker, number);
    status = worker->status;
    if (status && error)
        *error = worker->error;
    eitp__worker_unlock(worker);
    return status;
}

EITP__PRIVATE eitp_status eitp__worker_finish(eitp__worker *worker, eitp_error *error) {
    /* Only the calling thread submits jobs, so `submitted` does not change here. */
    eitp_status status = eitp__worker_wait(worker, worker->submitted, error);
    worker->status = EITP_OK;
    return status;
}
