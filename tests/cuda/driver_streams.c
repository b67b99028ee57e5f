/*
 * Streams and events of the emulated device. An operation is queued, and executed when some call waits for it, or
 * earlier by chance. The next stream is chosen at random, with weights that change now and then: at times one stream
 * runs far ahead.
 */
#include "tests/cuda/driver.h"

/* ---- Operations ---- */

operation *new_operation(operation_kind kind) {
    operation *created = (operation *)need_memory(calloc(1, sizeof *created));
    created->kind = kind;
    created->references = 1;
    created->context = current_context();
    return created;
}

event_record *keep_record(event_record *kept) {
    kept->references++;
    return kept;
}

void drop_record(event_record *dropped) {
    if (!dropped || --dropped->references)
        return;
    free(dropped->tips);
    free(dropped);
}

void drop_operation(operation *dropped) {
    if (--dropped->references)
        return;
    free(dropped->staged);
    free(dropped->arguments);
    free(dropped->spans);
    free(dropped->waiting);
    free(dropped->ready);
    drop_record(dropped->record);
    free(dropped);
}

/* ---- Order ---- */

static int is_ready(const operation *first) {
    if (first->kind == WAIT)
        return first->record->is_done;
    return first->kind != GRAPH_LAUNCH || graph_is_ready(first);
}

/* Chooses among the streams whose next operation is ready. */
static CUstream choose_stream(void) {
    CUstream chosen = NULL;
    size_t weights = 0;
    for (CUstream s = driver.streams; s; s = s->next) {
        if (!s->first || !is_ready(s->first))
            continue;
        weights += (size_t)1 << (3 * s->eagerness);
        if (draw(weights) < (size_t)1 << (3 * s->eagerness))
            chosen = s;
    }
    return chosen;
}

static void change_weights(void) {
    for (CUstream s = driver.streams; s; s = s->next)
        s->eagerness = (int)draw(4);
}

/* A destroyed stream stays until its last operation has ended. */
static void remove_stream(CUstream removed) {
    CUstream *link = &driver.streams;
    while (*link != removed)
        link = &(*link)->next;
    *link = removed->next;
}

static void end_operation(CUstream stream) {
    operation *ended = stream->first;
    stream->first = ended->next;
    if (!stream->first)
        stream->last = NULL;
    stream->queued--;
    ended->is_done = 1;
    if (ended->kind == RECORD)
        ended->record->is_done = 1; /* even if it was dropped */
    else if (ended->kind == GRAPH_LAUNCH)
        end_graph_launch(ended);
    drop_operation(ended);
}

/* After a kernel has failed, nothing in its context is executed any more. */
static void drop_failed(void) {
    CUstream next;
    for (CUstream s = driver.streams; s; s = next) {
        next = s->next;
        while (s->first && s->first->context->failure)
            end_operation(s);
        if (s->base.is_destroyed && !s->first)
            remove_stream(s);
    }
}

/* Host functions run without the lock, because they may wait for another thread while that thread makes progress. */
static void execute_host_function(const operation *executed) {
    pthread_mutex_unlock(&driver.lock);
    in_host_function_ = 1;
    executed->host_function(executed->user);
    in_host_function_ = 0;
    pthread_mutex_lock(&driver.lock);
}

void execute(operation *executed) {
    struct timespec now;
    switch (executed->kind) {
    case KERNEL:
    case PRODUCT:
        execute_kernel(executed);
        break;
    case HOST_FUNCTION:
        execute_host_function(executed);
        break;
    case RECORD:
        clock_gettime(CLOCK_MONOTONIC, &now);
        executed->record->seconds = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
        executed->record->is_done = 1;
        break;
    case WAIT:
    case GRAPH_LAUNCH:
        break;
    default:
        execute_copy(executed);
        break;
    }
}

int step(void) {
    CUstream stream;
    operation *executed;
    int is_done = 1;
    if (driver.is_executing) { /* the awaited work may be done afterwards */
        while (driver.is_executing)
            pthread_cond_wait(&driver.changed, &driver.lock);
        return 1;
    }
    if (!draw(8))
        change_weights();
    stream = choose_stream();
    if (!stream)
        return 0;
    driver.is_executing = 1;
    executed = stream->first;
    if (executed->kind == GRAPH_LAUNCH)
        is_done = execute_graph_part(executed);
    else
        execute(executed);
    if (is_done)
        end_operation(stream);
    if (stream->base.is_destroyed && !stream->first)
        remove_stream(stream);
    drop_failed();
    driver.is_executing = 0;
    pthread_cond_broadcast(&driver.changed);
    return 1;
}

void run_some(size_t most) {
    while (most-- && step())
        ;
}

static void must_step(void) {
    if (!step())
        refuse("queued operations wait for what never comes");
}

void run_operation(const operation *last) {
    while (!last->is_done)
        must_step();
}

void run_context(CUcontext context, unsigned flags_off) {
    for (CUstream s = driver.streams; s;) {
        if (s->base.context == context && !(s->flags & flags_off) && s->first) {
            must_step();
            s = driver.streams;
        } else {
            s = s->next;
        }
    }
}

static int stream_is_busy(CUstream stream) {
    return stream->first != NULL;
}

/* Does not wait for work that another thread queues later. */
static void run_stream(CUstream stream) {
    operation *last = stream->last;
    if (!last)
        return;
    last->references++;
    run_operation(last);
    drop_operation(last);
}

const operation *find_queued(int (*uses)(const operation *queued, const void *what), const void *what) {
    for (CUstream s = driver.streams; s; s = s->next) {
        for (const operation *queued = s->first; queued; queued = queued->next) {
            const operation *found = queued->kind == GRAPH_LAUNCH ? find_in_graph(queued, uses, what)
                                     : uses(queued, what)         ? queued
                                                                  : NULL;
            if (found)
                return found;
        }
    }
    return NULL;
}

CUresult submit(CUstream stream, operation *submitted) {
    if (stream->capture)
        return captured_submit(stream, submitted);
    if (stream->last)
        stream->last->next = submitted;
    else
        stream->first = submitted;
    stream->last = submitted;
    if (++stream->queued >= stream->most_queued) {
        run_some(draw(2 * stream->queued));
        stream->most_queued = 32 + draw(256);
    }
    return CUDA_SUCCESS;
}

/* ---- Streams ---- */

static CUresult create_stream(CUstream *stream, unsigned flags) {
    CUstream created;
    if (!stream || flags > CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    created = (CUstream)need_memory(calloc(1, sizeof *created));
    add_object(&created->base, STREAM);
    created->flags = flags;
    created->eagerness = (int)draw(4);
    created->most_queued = 32 + draw(256);
    created->next = driver.streams;
    driver.streams = created;
    *stream = created;
    return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
    CALL(CONTEXT, create_stream(stream, flags));
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority) {
    (void)priority;
    CALL(CONTEXT, create_stream(stream, flags));
}

static CUresult destroy_stream(CUstream stream) {
    const CUresult error = check_stream(stream);
    if (error)
        return error;
    captured_destroy(stream);
    destroy_object(&stream->base);
    if (!stream->first)
        remove_stream(stream);
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy_v2(CUstream stream) {
    CALL(CONTEXT | ACTS_ALWAYS, destroy_stream(stream));
}

/* Checks a call that waits for a stream or queries it: it is an error during capture. */
static CUresult check_waiting(CUstream stream) {
    const CUresult error = check_stream(stream);
    return error ? error : forbid_in_capture(stream);
}

static CUresult synchronize_stream(CUstream stream) {
    const CUresult error = check_waiting(stream);
    if (error)
        return error;
    if (stream_is_busy(stream))
        driver.spins++;
    run_stream(stream);
    return current_context()->failure;
}

CUresult cuStreamSynchronize(CUstream stream) {
    CALL(CONTEXT | UNSAFE | ACTS_ALWAYS, synchronize_stream(stream));
}

/* Repeated queries eventually finish the work. */
static CUresult query_stream(CUstream stream) {
    const CUresult error = check_waiting(stream);
    if (error || !stream_is_busy(stream))
        return error;
    run_some(1);
    return current_context()->failure ? current_context()->failure : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamQuery(CUstream stream) {
    CALL(CONTEXT | UNSAFE, query_stream(stream));
}

static CUresult synchronize_context(void) {
    for (CUstream s = driver.streams; s; s = s->next) {
        const CUresult error = s->base.context == current_context() ? forbid_in_capture(s) : CUDA_SUCCESS;
        if (error)
            return error;
    }
    run_context(current_context(), 0);
    return current_context()->failure;
}

CUresult cuCtxSynchronize(void) {
    CALL(CONTEXT | UNSAFE | ACTS_ALWAYS, synchronize_context());
}

static CUresult call_late(CUstream stream, CUhostFn function, void *user) {
    const CUresult error = check_stream(stream);
    operation *called;
    if (error)
        return error;
    if (!function)
        return CUDA_ERROR_INVALID_VALUE;
    called = new_operation(HOST_FUNCTION);
    called->host_function = function;
    called->user = user;
    return submit(stream, called);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *user) {
    CALL(CONTEXT, call_late(stream, function, user));
}

/* ---- Events ---- */

static CUresult create_event(CUevent *event, unsigned flags) {
    CUevent created;
    if (!event || flags > 3)
        return CUDA_ERROR_INVALID_VALUE;
    created = (CUevent)need_memory(calloc(1, sizeof *created));
    add_object(&created->base, EVENT);
    created->flags = flags;
    *event = created;
    return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *event, unsigned flags) {
    CALL(CONTEXT, create_event(event, flags));
}

static CUresult destroy_event(CUevent event) {
    const CUresult error = check_object(event, EVENT);
    if (error)
        return error;
    drop_record(event->last);
    event->last = NULL;
    destroy_object(&event->base);
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event) {
    CALL(CONTEXT | ACTS_ALWAYS, destroy_event(event));
}

/* `flags`: with CU_EVENT_RECORD_EXTERNAL, a node of the graph being captured. */
static CUresult record(CUevent event, CUstream stream, unsigned flags) {
    CUresult error = check_object(event, EVENT);
    event_record *made;
    operation *recorded;
    if (!error)
        error = check_stream(stream);
    if (!error && (flags > CU_EVENT_RECORD_EXTERNAL || (flags && !stream->capture)))
        error = CUDA_ERROR_INVALID_VALUE;
    if (error)
        return error;
    made = (event_record *)need_memory(calloc(1, sizeof *made));
    made->references = 1;
    if (stream->capture && !flags) {
        error = captured_record(stream, made);
    } else {
        recorded = new_operation(RECORD);
        recorded->record = keep_record(made);
        error = submit(stream, recorded);
    }
    if (error) {
        drop_record(made);
        return error;
    }
    drop_record(event->last);
    event->last = made;
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
    CALL(CONTEXT, record(event, stream, 0));
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
    CALL(CONTEXT, record(event, stream, flags));
}

static CUresult wait_for_event(CUstream stream, CUevent event, unsigned flags) {
    CUresult error = check_stream(stream);
    operation *waiting;
    if (!error)
        error = check_object(event, EVENT);
    if (error || !event->last)
        return error;
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture || event->last->capture)
        return captured_wait(stream, event->last);
    waiting = new_operation(WAIT);
    waiting->record = keep_record(event->last);
    return submit(stream, waiting);
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    CALL(CONTEXT, wait_for_event(stream, event, flags));
}

static CUresult check_event(CUevent event) {
    const CUresult error = check_object(event, EVENT);
    if (error)
        return error;
    return event->last && event->last->capture ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
}

static CUresult synchronize_event(CUevent event) {
    const CUresult error = check_event(event);
    event_record *last;
    if (error || !event->last)
        return error;
    if (!event->last->is_done && !(event->flags & CU_EVENT_BLOCKING_SYNC))
        driver.spins++;
    last = keep_record(event->last);
    while (!last->is_done)
        must_step();
    drop_record(last);
    return current_context()->failure;
}

CUresult cuEventSynchronize(CUevent event) {
    CALL(CONTEXT | UNSAFE | ACTS_ALWAYS, synchronize_event(event));
}

static CUresult query_event(CUevent event) {
    const CUresult error = check_event(event);
    if (error || !event->last || event->last->is_done)
        return error;
    run_some(1);
    return current_context()->failure ? current_context()->failure : CUDA_ERROR_NOT_READY;
}

CUresult cuEventQuery(CUevent event) {
    CALL(CONTEXT | UNSAFE, query_event(event));
}

static CUresult measure(float *milliseconds, CUevent begin, CUevent end) {
    CUresult error = check_event(begin);
    if (!error)
        error = check_event(end);
    if (error)
        return error;
    if (!milliseconds)
        return CUDA_ERROR_INVALID_VALUE;
    if (!begin->last || !end->last || ((begin->flags | end->flags) & CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!begin->last->is_done || !end->last->is_done)
        return CUDA_ERROR_NOT_READY;
    *milliseconds = (float)(1e3 * (end->last->seconds - begin->last->seconds));
    return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end) {
    CALL(CONTEXT, measure(milliseconds, begin, end));
}

CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent begin, CUevent end) {
    CALL(CONTEXT, measure(milliseconds, begin, end));
}
