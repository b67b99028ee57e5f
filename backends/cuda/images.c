#include "backends/cuda/images.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/worker.h"

#if EITP__WITH_CUDA

/* ---- The cache ---- */

/* Reads the missing images that are in the cache. Returns the number of those that are not. */
static size_t eitp__find_images(const eitp__cuda_cache *cache, eitp__cuda_image *images, size_t count) {
    size_t missing = 0;
    for (size_t i = 0; i < count; i++)
        missing += !images[i].data.size && !eitp__cuda_cache_find(cache, images[i].key, &images[i].data);
    return missing;
}

/* Seconds after which a process that finds no further image does not wait for another one that compiles: far more than
   a kernel takes. */
#define EITP__IMAGE_WAIT_SECONDS 60.0

static int eitp__is_stopped(const eitp__poll *poll) {
    return poll && eitp__poll_ask(poll);
}

/* Waits until no other process compiles, or all images are there, or `poll` requests a stop. Returns the number of
   missing images, which this process has to compile. */
static size_t eitp__await_images(eitp__cuda_cache *cache, eitp__cuda_image *images, size_t count,
                                 const eitp__poll *poll) {
    size_t missing = eitp__find_images(cache, images, count);
    double waited = 0;
    int is_logged = 0;
    while (missing && !eitp__cuda_cache_lock(cache) && waited < EITP__IMAGE_WAIT_SECONDS && !eitp__is_stopped(poll)) {
        const size_t before = missing;
        if (!is_logged)
            eitp__log_line(cache->host, EITP_LOG_INFO, "waiting for another process that compiles GPU kernels");
        is_logged = 1;
        eitp__wait(cache->host, 0.1);
        missing = eitp__find_images(cache, images, count);
        waited = missing < before ? 0 : waited + 0.1;
    }
    return missing ? eitp__find_images(cache, images, count) : 0;
}

/* ---- Compiling ---- */

/* A thread that compiles. */
typedef struct eitp__compiling_thread {
    eitp__worker *worker;
    uint64_t job;                        /* of the worker */
    eitp__cuda_compilation *compilation; /* NULL: idle */
    eitp__cuda_image *image;
} eitp__compiling_thread;

enum { EITP__MOST_COMPILING_THREADS = 16 };

/* The compilation of all missing images. */
typedef struct eitp__compiling {
    const eitp__cuda_compiler *compiler;
    const eitp__cuda_cache *cache;
    eitp__cuda_image *images;
    size_t count, next; /* images before `next` are there, or are being compiled */
    size_t missing, compiled;
    eitp__compiling_thread threads[EITP__MOST_COMPILING_THREADS];
    int thread_count;
    double began, reported; /* eitp__clock */
    const eitp__poll *poll; /* NULL: never stops */
    eitp_status status;     /* first failure */
    eitp_error *error;
} eitp__compiling;

static eitp_status eitp__run_compilation(void *argument, eitp_error *error) {
    (void)error;
    eitp__cuda_compilation_run((eitp__cuda_compilation *)argument);
    return EITP_OK;
}

/* Starts to compile the next missing image on an idle thread. */
static void eitp__start_compiling(eitp__compiling *c, eitp__compiling_thread *thread) {
    thread->compilation = NULL;
    while (c->next < c->count && c->images[c->next].data.size)
        c->next++;
    if (c->status || c->next == c->count)
        return;
    thread->image = &c->images[c->next++];
    c->status = eitp__cuda_compilation_create(c->compiler, c->cache->host, &thread->image->source, &thread->compilation,
                                              c->error);
    if (!c->status)
        thread->job = eitp__worker_submit(thread->worker, eitp__run_compilation, thread->compilation);
}

/* Takes the result of a thread, after starting its next compilation. */
static void eitp__take_compiled(eitp__compiling *c, eitp__compiling_thread *thread) {
    eitp__cuda_compilation *compilation = thread->compilation;
    eitp__cuda_image *image = thread->image;
    eitp_status status;
    eitp__start_compiling(c, thread);
    status = eitp__cuda_compilation_finish(compilation, &image->data, c->status ? NULL : c->error);
    eitp__cuda_compilation_destroy(compilation);
    c->compiled++;
    if (!status)
        eitp__cuda_cache_store(c->cache, image->key, &image->data);
    c->status = c->status ? c->status : status;
}

#define EITP__COMPILING_REPORT 5.0 /* seconds between lines */

static void eitp__report_compiling(eitp__compiling *c) {
    const double now = eitp__clock();
    if (now < c->reported + EITP__COMPILING_REPORT || c->status || c->compiled == c->missing)
        return;
    eitp__log_line(c->cache->host, EITP_LOG_INFO, "compiled %zu of %zu GPU kernels", c->compiled, c->missing);
    c->reported = now;
}

/* Compiles until nothing is left, or a stop is requested. Where there are no threads, a job runs when it is
   submitted. */
static void eitp__compile_on_threads(eitp__compiling *c) {
    eitp__compiling_thread *busy;
    for (int t = 0; t < c->thread_count; t++)
        eitp__start_compiling(c, &c->threads[t]);
    do {
        busy = NULL;
        for (int t = 0; t < c->thread_count; t++) {
            eitp__compiling_thread *thread = &c->threads[t];
            if (thread->compilation && eitp__worker_wait_briefly(thread->worker, thread->job, 0))
                eitp__take_compiled(c, thread);
            busy = thread->compilation ? thread : busy;
            eitp__report_compiling(c);
        }
        if (!c->status && eitp__is_stopped(c->poll))
            c->status = eitp__fail_interrupted(c->error);
        if (busy)
            eitp__worker_wait_briefly(busy->worker, busy->job, 20);
    } while (busy);
}

/* Creates the threads. One is enough. */
static void eitp__create_threads(eitp__compiling *c, int threads) {
    const int most = threads < EITP__MOST_COMPILING_THREADS ? threads : EITP__MOST_COMPILING_THREADS;
    while (c->thread_count < most && (size_t)c->thread_count < c->missing) {
        const eitp_status status = eitp__worker_create(c->cache->host, 1, &c->threads[c->thread_count].worker,
                                                       c->thread_count ? NULL : c->error);
        if (status && !c->thread_count)
            c->status = status;
        if (status)
            return;
        c->thread_count++;
    }
}

/* Compiles the missing images, at least one. */
static eitp_status eitp__compile_images(eitp__compiling *c, int threads) {
    const eitp_host *host = c->cache->host;
    const int has_cache = *c->cache->folder != 0;
    eitp__log_line(host, EITP_LOG_INFO, "compiling %zu GPU kernel%s with NVRTC %d.%d (%s%s)", c->missing,
                   c->missing == 1 ? "" : "s", c->compiler->major, c->compiler->minor,
                   has_cache ? "once; cached in " : "at every start: no cache folder", c->cache->folder);
    c->began = c->reported = eitp__clock();
    eitp__create_threads(c, threads);
    eitp__compile_on_threads(c);
    for (int t = 0; t < c->thread_count; t++)
        eitp__worker_destroy(c->threads[t].worker);
    if (!c->status)
        eitp__log_line(host, EITP_LOG_INFO, "compiled %zu GPU kernel%s in %.1f s", c->missing,
                       c->missing == 1 ? "" : "s", eitp__clock() - c->began);
    return c->status;
}

EITP__PRIVATE eitp_status eitp__cuda_images_get(const eitp__cuda_compiler *compiler, eitp__cuda_cache *cache,
                                                eitp__cuda_image *images, size_t count, int threads,
                                                const eitp__poll *poll, eitp_error *error) {
    eitp__compiling c = EITP__ZERO;
    eitp_status status = EITP_OK;
    c.compiler = compiler;
    c.cache = cache;
    c.images = images;
    c.count = count;
    c.poll = poll;
    c.error = error;
    c.missing = eitp__await_images(cache, images, count, poll);
    if (c.missing)
        status = eitp__is_stopped(poll) ? eitp__fail_interrupted(error) : eitp__compile_images(&c, threads);
    eitp__cuda_cache_unlock(cache);
    return status;
}

#endif
