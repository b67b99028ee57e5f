#include "base/threads.h"

#include <sched.h>
#include <unistd.h>
#if EITP__WITH_OPENMP
#include <omp.h>
#include <pthread.h>
#endif

EITP__PRIVATE int eitp__processor_count(void) {
#if EITP__WITH_OPENMP
    return omp_get_num_procs();
#else
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (int)count : 1;
#endif
}

EITP__PRIVATE int eitp__thread_limit(int *is_chosen) {
#if EITP__WITH_OPENMP
    const char *named = getenv("OMP_NUM_THREADS");
    const int threads = omp_get_max_threads();
    *is_chosen = (named && *named) || threads != omp_get_num_procs();
    return threads;
#else
    *is_chosen = 0;
    return 1;
#endif
}

#if EITP__WITH_OPENMP

/* Adds the processors of a place; returns the number that were not in the set. */
static int eitp__add_place(int place, eitp__processor_set *set) {
    int numbers[1024], added = 0;
    const int count = omp_get_place_num_procs(place);
    if (count < 1 || count > (int)EITP__COUNT(numbers))
        return 0;
    omp_get_place_proc_ids(place, numbers);
    for (int i = 0; i < count; i++) {
        const int number = numbers[i];
        unsigned char *byte;
        if (number < 0 || number >= EITP__PROCESSOR_LIMIT)
            continue;
        byte = &set->bytes[number / 8];
        added += !(*byte >> number % 8 & 1);
        *byte = (unsigned char)(*byte | 1u << number % 8);
    }
    return added;
}

#endif

EITP__PRIVATE int eitp__bound_processors(eitp__processor_set *set) {
    int count = 0;
    memset(set, 0, sizeof *set);
#if EITP__WITH_OPENMP
    if (omp_get_proc_bind() == omp_proc_bind_false)
        return 0;
    for (int i = 0; i < omp_get_num_places(); i++)
        count += eitp__add_place(i, set);
#endif
    return count;
}

EITP__PRIVATE void eitp__team_run(int threads, void (*work)(void *argument, int thread), void *argument) {
#if EITP__WITH_OPENMP
    if (threads > 1) {
#pragma omp parallel num_threads(threads)
        work(argument, omp_get_thread_num());
        return;
    }
#else
    (void)threads;
#endif
    work(argument, 0);
}

#if EITP__WITH_OPENMP

/* Returns the bytes of a thread's stack from OMP_STACKSIZE ("16M", or a number in KiB); 0: the system's default. */
static size_t eitp__chosen_stack(void) {
    static const char units[] = "bkmgBKMG";
    const char *text = getenv("OMP_STACKSIZE"), *unit;
    char *end = NULL;
    unsigned long long size = text ? strtoull(text, &end, 10) : 0;
    if (!size || size > SIZE_MAX >> 40)
        return 0;
    end += strspn(end, " ");
    unit = *end ? strchr(units, *end) : units + 1;
    return unit ? (size_t)size << 10 * ((unit - units) % 4) : 0;
}

static int eitp__thread_attributes(pthread_attr_t *attributes) {
    size_t stack = eitp__chosen_stack();
    if (pthread_attr_init(attributes))
        return 0;
    if (stack)
        pthread_attr_setstacksize(attributes, stack);
    return 1;
}

/* A thread that waits for its release. Each thread keeps this struct on its own stack. */
typedef struct eitp__waiting_thread {
    pthread_t thread;
    pthread_cond_t release;
    int is_released;
    struct eitp__waiting_thread *next;
} eitp__waiting_thread;

typedef struct eitp__waiting_threads {
    pthread_mutex_t mutex;
    pthread_cond_t arrival;
    eitp__waiting_thread *first;
} eitp__waiting_threads;

static void *eitp__wait_for_release(void *argument) {
    eitp__waiting_threads *threads = (eitp__waiting_threads *)argument;
    eitp__waiting_thread own;
    own.thread = pthread_self();
    own.is_released = 0;
    pthread_cond_init(&own.release, NULL);
    pthread_mutex_lock(&threads->mutex);
    own.next = threads->first;
    threads->first = &own;
    pthread_cond_signal(&threads->arrival);
    while (!own.is_released)
        pthread_cond_wait(&own.release, &threads->mutex);
    pthread_mutex_unlock(&threads->mutex);
    pthread_cond_destroy(&own.release);
    return NULL;
}

static void eitp__end_waiting_thread(eitp__waiting_threads *threads) {
    pthread_t thread;
    pthread_mutex_lock(&threads->mutex);
    while (!threads->first)
        pthread_cond_wait(&threads->arrival, &threads->mutex);
    thread = threads->first->thread;
    threads->first->is_released = 1;
    pthread_cond_signal(&threads->first->release);
    threads->first = threads->first->next;
    pthread_mutex_unlock(&threads->mutex);
    pthread_join(thread, NULL);
}

/* Returns how many of `count` additional threads can run at the same time. */
static int eitp__count_startable(int count) {
    eitp__waiting_threads threads = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL};
    pthread_t ignored;
    pthread_attr_t attributes;
    int started = 0;
    if (!eitp__thread_attributes(&attributes))
        return 0;
    while (started < count && !pthread_create(&ignored, &attributes, eitp__wait_for_release, &threads))
        started++;
    for (int i = 0; i < started; i++)
        eitp__end_waiting_thread(&threads);
    pthread_attr_destroy(&attributes);
    return started;
}

static void eitp__no_work(void *argument, int thread) {
    (void)argument;
    (void)thread;
}

#endif

EITP__PRIVATE size_t eitp__team_stack(void) {
    size_t size = 0;
#if EITP__WITH_OPENMP
    pthread_attr_t attributes;
    if (eitp__thread_attributes(&attributes)) {
        pthread_attr_getstacksize(&attributes, &size);
        pthread_attr_destroy(&attributes);
    }
#endif
    return size;
}

EITP__PRIVATE int eitp__team_start(int threads) {
#if EITP__WITH_OPENMP
    if (threads > 1) {
        /* Leaves room for OpenMP's own allocations: the place of one additional thread. */
        int startable = eitp__count_startable(threads);
        threads = startable > 1 ? startable : 1;
        eitp__team_run(threads, eitp__no_work, NULL);
    }
#endif
    return threads;
}

static void eitp__relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* Waits until `count` pieces are done: spins for about as long as a small piece takes, then yields, since the awaited
   thread may need the processor. */
static void eitp__wait_until_done(const eitp__pieces *pieces, int64_t count) {
    for (int spins = 0; __atomic_load_n(&pieces->done, __ATOMIC_ACQUIRE) < count; spins++) {
        if (spins < 1000)
            eitp__relax();
        else
            sched_yield();
    }
}

EITP__PRIVATE int64_t eitp__piece_claim(eitp__pieces *pieces, int64_t first, int64_t end) {
    int64_t next = __atomic_load_n(&pieces->next, __ATOMIC_RELAXED);
    while (next < end) {
        eitp__wait_until_done(pieces, first);
        if (__atomic_compare_exchange_n(&pieces->next, &next, next + 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return next;
    }
    return -1;
}

EITP__PRIVATE int eitp__pieces_cancel(eitp__pieces *pieces, int64_t limit) {
    int64_t next = __atomic_load_n(&pieces->next, __ATOMIC_RELAXED);
    while (next <= limit) {
        if (__atomic_compare_exchange_n(&pieces->next, &next, INT64_MAX, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return 1;
    }
    return 0;
}

EITP__PRIVATE void eitp__piece_finish(eitp__pieces *pieces) {
    __atomic_fetch_add(&pieces->done, 1, __ATOMIC_RELEASE);
}

typedef struct eitp__job {
    eitp__pieces pieces;
    int64_t count;
    void (*work)(void *argument, int64_t piece, int thread);
    void *argument;
} eitp__job;

static void eitp__job_thread(void *argument, int thread) {
    eitp__job *job = (eitp__job *)argument;
    int64_t piece;
    while ((piece = eitp__piece_claim(&job->pieces, 0, job->count)) >= 0) {
        job->work(job->argument, piece, thread);
        eitp__piece_finish(&job->pieces);
    }
}

EITP__PRIVATE void eitp__parallel(int threads, int64_t pieces, void (*work)(void *argument, int64_t piece, int thread),
                                  void *argument) {
    eitp__job job = EITP__ZERO;
    job.count = pieces;
    job.work = work;
    job.argument = argument;
    eitp__team_run(pieces < threads ? (int)pieces : threads, eitp__job_thread, &job);
}
