#include "records/queued_file.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/worker.h"

#if EITP__WITH_WORKER
#include <time.h>
#endif

/* 1 if condition variables can wait by a clock that is never adjusted. */
#if EITP__WITH_WORKER && !defined(__APPLE__) && (!defined(__GLIBC__) || defined(__USE_XOPEN2K))
#define EITP__QUEUE_SETS_CLOCK 1
#else
#define EITP__QUEUE_SETS_CLOCK 0
#endif

#define EITP__QUEUE_PIECE ((size_t)8192)
#define EITP__QUEUE_PREFIX ((size_t)4) /* bytes of a record's length, which precedes it in the queue */
#define EITP__QUEUE_MOST_FAILURES 6    /* after these, the time between two attempts no longer doubles */

/* The state needed for writing. It lives on the stack of the thread, which may outlive the file; without a thread, on
   the caller's. */
typedef struct eitp__queue_writer {
    eitp__queued_file *owner; /* NULL: abandoned */
    int has_thread;
    eitp_files files; /* of the file's host */
    eitp_host host;   /* its files are the members below */
    eitp__file file;  /* opened through `host` */
    char path[512];
    char place[1024];         /* absolute path to reopen the file; "": it is not reopened */
    uint64_t whole, position; /* bytes of whole records in the file, and position of the piece */
    unsigned char piece[EITP__QUEUE_PIECE];
#if EITP__WITH_WORKER
    pthread_mutex_t mutex; /* protects the file, and `owner` */
    pthread_cond_t changed;
#endif
} eitp__queue_writer;

struct eitp__queued_file {
    eitp_host host;
    eitp__file file;
    double flush_seconds, wait_seconds;

    unsigned char *queue; /* a ring of EITP__QUEUE_BYTES bytes */
    size_t head, used;    /* position of the first record, and total bytes */
    int64_t queued;       /* number of records in it */
    int64_t dropped;
    uint64_t whole;   /* bytes of whole records in the file */
    size_t partial;   /* bytes of the first queued record that are already in the file */
    double wrote;     /* time of the last write */
    int failures;     /* consecutive failed writes */
    eitp_error error; /* of the last failure */

    uint64_t requested, answered; /* numbers of requests to write at once */
    int request_syncs;            /* the last request also syncs the file */
    eitp_status answer;           /* to the last answered request */
    eitp_error answer_error;

    int is_paused, is_stopping;
    int is_in_call;    /* the thread calls a function of the host */
    double called;     /* start time of that call */
    int is_stalled;    /* that call, or a request, takes longer than wait_seconds */
    eitp__buffer lead; /* the initial bytes of an empty file */
    int has_moved;     /* the file was removed, replaced or truncated by another program */
    int has_said_so;
    eitp__queue_writer *writer; /* of the thread; NULL: no thread */
#if EITP__WITH_WORKER
    pthread_t thread;
#endif
};

/* ---- The lock ---- */

static void eitp__writer_lock(eitp__queue_writer *writer) {
#if EITP__WITH_WORKER
    if (writer && writer->has_thread)
        pthread_mutex_lock(&writer->mutex);
#else
    (void)writer;
#endif
}

static void eitp__writer_unlock(eitp__queue_writer *writer) {
#if EITP__WITH_WORKER
    if (writer && writer->has_thread)
        pthread_mutex_unlock(&writer->mutex);
#else
    (void)writer;
#endif
}

static void eitp__writer_signal(eitp__queue_writer *writer) {
#if EITP__WITH_WORKER
    if (writer && writer->has_thread)
        pthread_cond_broadcast(&writer->changed);
#else
    (void)writer;
#endif
}

/* ---- Calls of the host: none is started once the writer is abandoned ---- */

static int eitp__writer_enter(eitp__queue_writer *writer) {
    int may_call;
    eitp__writer_lock(writer);
    may_call = writer->owner != NULL;
    if (may_call) {
        writer->owner->is_in_call = 1;
        writer->owner->called = eitp__clock();
    }
    eitp__writer_unlock(writer);
    return may_call;
}

static void eitp__writer_leave(eitp__queue_writer *writer) {
    eitp__writer_lock(writer);
    if (writer->owner)
        writer->owner->is_in_call = writer->owner->is_stalled = 0;
    eitp__writer_unlock(writer);
}

static int eitp__writer_write(void *user, void *file, uint64_t offset, const void *data, size_t size, size_t *done) {
    eitp__queue_writer *writer = (eitp__queue_writer *)user;
    int code = ECANCELED;
    if (eitp__writer_enter(writer)) {
        code = writer->files.write(writer->files.user, file, offset, data, size, done);
        eitp__writer_leave(writer);
    }
    return code;
}

static int eitp__writer_resize(void *user, void *file, uint64_t size) {
    eitp__queue_writer *writer = (eitp__queue_writer *)user;
    int code = ECANCELED;
    if (eitp__writer_enter(writer)) {
        code = writer->files.resize(writer->files.user, file, size);
        eitp__writer_leave(writer);
    }
    return code;
}

static int eitp__writer_sync(void *user, void *file) {
    eitp__queue_writer *writer = (eitp__queue_writer *)user;
    int code = ECANCELED;
    if (eitp__writer_enter(writer)) {
        code = writer->files.sync(writer->files.user, file);
        eitp__writer_leave(writer);
    }
    return code;
}

static void eitp__writer_wait(void *user, double seconds) {
    eitp__queue_writer *writer = (eitp__queue_writer *)user;
    if (writer->files.wait && eitp__writer_enter(writer)) {
        writer->files.wait(writer->files.user, seconds);
        eitp__writer_leave(writer);
    }
}

/* Stores the absolute path of the file, if it fits: the program may change its working directory. */
static void eitp__writer_place(eitp__queue_writer *writer, const eitp__queued_file *file) {
    const eitp_files *files = &file->host.files;
    if (!files->absolute || !files->file_info ||
        files->absolute(files->user, file->file.path, writer->place, sizeof writer->place))
        writer->place[0] = 0;
}

static void eitp__writer_init(eitp__queue_writer *writer, eitp__queued_file *file) {
    memset(writer, 0, offsetof(eitp__queue_writer, piece));
    writer->owner = file;
    writer->files = file->host.files;
    writer->host.files.user = writer;
    writer->host.files.write = eitp__writer_write;
    writer->host.files.resize = eitp__writer_resize;
    writer->host.files.sync = eitp__writer_sync;
    writer->host.files.wait = eitp__writer_wait;
    snprintf(writer->path, sizeof writer->path, "%s", file->file.path);
    writer->file.host = &writer->host;
    writer->file.handle = file->file.handle;
    writer->file.path = writer->path;
    eitp__writer_place(writer, file);
}

/* ---- The queue ---- */

static void eitp__queue_put(eitp__queued_file *file, const void *data, size_t size) {
    const size_t at = (file->head + file->used) % EITP__QUEUE_BYTES;
    const size_t first = size < EITP__QUEUE_BYTES - at ? size : EITP__QUEUE_BYTES - at;
    memcpy(file->queue + at, data, first);
    memcpy(file->queue, (const unsigned char *)data + first, size - first);
    file->used += size;
}

/* Copies bytes that start `skip` bytes after the head. */
static void eitp__queue_get(const eitp__queued_file *file, size_t skip, void *data, size_t size) {
    const size_t at = (file->head + skip) % EITP__QUEUE_BYTES;
    const size_t first = size < EITP__QUEUE_BYTES - at ? size : EITP__QUEUE_BYTES - at;
    memcpy(data, file->queue + at, first);
    memcpy((unsigned char *)data + first, file->queue, size - first);
}

/* Returns the size of the record that starts `skip` bytes after the head. */
static size_t eitp__queue_length(const eitp__queued_file *file, size_t skip) {
    uint32_t length;
    eitp__queue_get(file, skip, &length, EITP__QUEUE_PREFIX);
    return length;
}

static void eitp__queue_clear(eitp__queued_file *file) {
    file->head = file->used = file->partial = 0;
    file->queued = file->dropped = 0;
    file->failures = 0;
}

/* Copies whole records into the piece, or a part of one that is larger. Returns the number of bytes. */
static size_t eitp__queue_fill(const eitp__queued_file *file, eitp__queue_writer *writer) {
    size_t size = 0, skip = 0, partial = file->partial;
    writer->whole = file->whole;
    writer->position = file->whole + partial;
    for (int64_t i = 0; i < file->queued; i++) {
        const size_t length = eitp__queue_length(file, skip), rest = length - partial;
        const size_t part = rest < EITP__QUEUE_PIECE - size ? rest : EITP__QUEUE_PIECE - size;
        if (part < rest && size)
            break;
        eitp__queue_get(file, skip + EITP__QUEUE_PREFIX + partial, writer->piece + size, part);
        size += part;
        if (part < rest)
            break;
        skip += EITP__QUEUE_PREFIX + length;
        partial = 0;
    }
    return size;
}

/* Removes the records that are complete in the file now that it has `size` more bytes. */
static void eitp__queue_drop_written(eitp__queued_file *file, size_t size) {
    file->partial += size;
    while (file->queued) {
        const size_t length = eitp__queue_length(file, 0);
        if (file->partial < length)
            break;
        file->partial -= length;
        file->whole += length;
        file->head = (file->head + EITP__QUEUE_PREFIX + length) % EITP__QUEUE_BYTES;
        file->used -= EITP__QUEUE_PREFIX + length;
        file->queued--;
    }
    /* Restart at the front: memory pages that no backlog reaches stay untouched. */
    if (!file->queued)
        file->head = 0;
}

/* ---- Writing, on either thread ---- */

/* Returns the seconds until the queue must be written. 0 or less: now; HUGE_VAL: there is nothing to write. */
static double eitp__queue_due(const eitp__queued_file *file) {
    const int doublings = file->failures < EITP__QUEUE_MOST_FAILURES ? file->failures : EITP__QUEUE_MOST_FAILURES;
    if (!file->queued || file->is_paused)
        return HUGE_VAL;
    if (file->failures)
        return file->wrote + (double)(1 << (doublings - 1)) - eitp__clock();
    if (!file->writer || file->used > EITP__QUEUE_BYTES / 2)
        return 0;
    return file->wrote + file->flush_seconds - eitp__clock();
}

/* Fills the next piece and returns its size; 0 if there is nothing to write now. */
static size_t eitp__writer_take(eitp__queue_writer *writer) {
    size_t size = 0;
    eitp__writer_lock(writer);
    if (writer->owner && !writer->owner->is_paused)
        size = eitp__queue_fill(writer->owner, writer);
    eitp__writer_unlock(writer);
    return size;
}

static void eitp__writer_note(eitp__queue_writer *writer, size_t size, eitp_status status, const eitp_error *error) {
    eitp__queued_file *file;
    eitp__writer_lock(writer);
    file = writer->owner;
    if (file) {
        file->wrote = eitp__clock();
        file->failures = status ? file->failures + 1 : 0;
        if (status) {
            file->partial = 0;
            file->error = *error;
        } else {
            eitp__queue_drop_written(file, size);
        }
    }
    eitp__writer_unlock(writer);
}

/* Gets the info of the open file and of its path. Returns 0 if that is not possible. */
static int eitp__writer_stat(eitp__queue_writer *writer, eitp_path_info *own, eitp_path_info *found) {
    const eitp_files *files = &writer->files;
    int is_known = 0;
    if (*writer->place && eitp__writer_enter(writer)) {
        is_known =
            !files->file_info(files->user, writer->file.handle, own) && !files->info(files->user, writer->place, found);
        eitp__writer_leave(writer);
    }
    return is_known;
}

/* Restarts writing at the end of a file of `size` bytes; writes the lead first if it is empty. */
static eitp_status eitp__writer_restart(eitp__queue_writer *writer, uint64_t size, eitp_error *error) {
    eitp_status status;
    size_t lead = 0;
    eitp__writer_lock(writer);
    if (writer->owner) {
        writer->owner->whole = size;
        writer->owner->partial = 0;
        writer->owner->has_moved = 1;
        lead = size || writer->owner->lead.size > EITP__QUEUE_PIECE ? 0 : writer->owner->lead.size;
        if (lead)
            memcpy(writer->piece, writer->owner->lead.data, lead);
    }
    eitp__writer_unlock(writer);
    status = lead ? eitp__file_write(&writer->file, 0, writer->piece, lead, error) : EITP_OK;
    eitp__writer_lock(writer);
    if (writer->owner && !status)
        writer->owner->whole += lead;
    eitp__writer_unlock(writer);
    return status;
}

/* Opens the file at the path again, or creates it. */
static eitp_status eitp__writer_reopen(eitp__queue_writer *writer, eitp_error *error) {
    const eitp_files *files = &writer->files;
    eitp_path_info opened = EITP__ZERO;
    void *handle = NULL, *left = writer->file.handle;
    int code = ECANCELED;
    if (eitp__writer_enter(writer)) {
        code = files->open(files->user, writer->place, EITP_FILE_UPDATE, &handle);
        if (!code)
            code = files->file_info(files->user, handle, &opened);
        if (code && handle)
            files->close(files->user, handle);
        eitp__writer_leave(writer);
    }
    if (code)
        return eitp__fail(error, EITP_ERROR_IO, "cannot open '%s' again: %s", writer->path, strerror(code));
    eitp__writer_lock(writer);
    writer->file.handle = handle;
    if (writer->owner)
        writer->owner->file.handle = handle;
    eitp__writer_unlock(writer);
    if (eitp__writer_enter(writer)) {
        files->close(files->user, left);
        eitp__writer_leave(writer);
    }
    return eitp__writer_restart(writer, opened.size, error);
}

/* Reopens the file if another program has removed, moved or truncated it, as logrotate does. */
static eitp_status eitp__writer_follow(eitp__queue_writer *writer, eitp_error *error) {
    eitp_path_info own = EITP__ZERO, found = EITP__ZERO;
    uint64_t size = 0;
    if (!eitp__writer_stat(writer, &own, &found))
        return EITP_OK;
    if (found.kind != EITP_PATH_FILE || found.identity != own.identity)
        return eitp__writer_reopen(writer, error);
    eitp__writer_lock(writer);
    if (writer->owner)
        size = writer->owner->whole + writer->owner->partial;
    eitp__writer_unlock(writer);
    return own.size < size ? eitp__writer_restart(writer, own.size, error) : EITP_OK;
}

static int eitp__writer_has_records(eitp__queue_writer *writer) {
    int has_records;
    eitp__writer_lock(writer);
    has_records = writer->owner && writer->owner->queued && !writer->owner->is_paused;
    eitp__writer_unlock(writer);
    return has_records;
}

static eitp_status eitp__writer_empty_queue(eitp__queue_writer *writer, eitp_error *error) {
    eitp_status status = EITP_OK;
    size_t size;
    if (eitp__writer_has_records(writer) && (status = eitp__writer_follow(writer, error)) != EITP_OK)
        eitp__writer_note(writer, 0, status, error);
    while (!status && (size = eitp__writer_take(writer)) > 0) {
        status = eitp__file_write(&writer->file, writer->position, writer->piece, size, error);
        /* Readers should not see half a record. */
        if (status)
            eitp__file_resize(&writer->file, writer->whole, NULL);
        eitp__writer_note(writer, size, status, error);
    }
    return status;
}

/* Writes the queue, and answers the last request. */
static void eitp__writer_store(eitp__queue_writer *writer) {
    eitp_error error = EITP__ZERO;
    uint64_t number = 0;
    int syncs = 0;
    eitp_status status;
    eitp__writer_lock(writer);
    if (writer->owner) {
        number = writer->owner->requested;
        syncs = writer->owner->request_syncs && number != writer->owner->answered;
    }
    eitp__writer_unlock(writer);
    status = eitp__writer_empty_queue(writer, &error);
    if (!status && syncs)
        status = eitp__file_sync(&writer->file, &error);
    eitp__writer_lock(writer);
    if (writer->owner && number != writer->owner->answered) {
        writer->owner->answered = number;
        writer->owner->answer = status;
        writer->owner->answer_error = error;
        eitp__writer_signal(writer);
    }
    eitp__writer_unlock(writer);
}

/* ---- The thread ---- */

#if EITP__WITH_WORKER

#define EITP__QUEUE_STACK ((size_t)1 << 20)
#define EITP__QUEUE_LONGEST_WAIT 3600.0

static void eitp__queue_init_condition(pthread_cond_t *condition) {
#if EITP__QUEUE_SETS_CLOCK
    pthread_condattr_t attributes;
    if (!pthread_condattr_init(&attributes)) {
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        pthread_cond_init(condition, &attributes);
        pthread_condattr_destroy(&attributes);
        return;
    }
#endif
    pthread_cond_init(condition, NULL);
}

/* Waits for a change, for at most `seconds`. Called with the lock. */
static void eitp__writer_wait_for_change(eitp__queue_writer *writer, double seconds) {
    struct timespec end;
    if (isinf(seconds)) {
        pthread_cond_wait(&writer->changed, &writer->mutex);
        return;
    }
    seconds = seconds < EITP__QUEUE_LONGEST_WAIT ? seconds : EITP__QUEUE_LONGEST_WAIT;
    clock_gettime(EITP__QUEUE_SETS_CLOCK ? CLOCK_MONOTONIC : CLOCK_REALTIME, &end);
    end.tv_sec += (time_t)seconds;
    end.tv_nsec += (long)(1e9 * (seconds - floor(seconds)));
    if (end.tv_nsec >= 1000000000L) {
        end.tv_sec++;
        end.tv_nsec -= 1000000000L;
    }
    pthread_cond_timedwait(&writer->changed, &writer->mutex, &end);
}

/* Waits until there is something to do; 0: the thread must end. */
static int eitp__writer_await(eitp__queue_writer *writer) {
    int is_due = 0;
    eitp__writer_lock(writer);
    while (!is_due && writer->owner && !writer->owner->is_stopping) {
        const double seconds = eitp__queue_due(writer->owner);
        is_due = writer->owner->requested != writer->owner->answered || seconds <= 0;
        if (!is_due)
            eitp__writer_wait_for_change(writer, seconds);
    }
    eitp__writer_unlock(writer);
    return is_due;
}

/* The arguments of the thread. */
typedef struct eitp__queue_start {
    eitp__queued_file *file;
    pthread_mutex_t mutex;
    pthread_cond_t started;
} eitp__queue_start;

static void *eitp__queue_thread(void *argument) {
    eitp__queue_start *start = (eitp__queue_start *)argument;
    eitp__queue_writer writer;
    eitp__writer_init(&writer, start->file);
    writer.has_thread = 1;
    pthread_mutex_init(&writer.mutex, NULL);
    eitp__queue_init_condition(&writer.changed);
    pthread_mutex_lock(&start->mutex);
    start->file->writer = &writer;
    pthread_cond_signal(&start->started);
    pthread_mutex_unlock(&start->mutex);
    while (eitp__writer_await(&writer))
        eitp__writer_store(&writer);
    pthread_cond_destroy(&writer.changed);
    pthread_mutex_destroy(&writer.mutex);
    return NULL;
}

static void eitp__queued_file_start(eitp__queued_file *file) {
    eitp__queue_start start = {file, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER};
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes))
        return;
    pthread_attr_setstacksize(&attributes, EITP__QUEUE_STACK);
    if (!eitp__thread_create(&file->thread, &attributes, eitp__queue_thread, &start)) {
        pthread_mutex_lock(&start.mutex);
        while (!file->writer)
            pthread_cond_wait(&start.started, &start.mutex);
        pthread_mutex_unlock(&start.mutex);
    }
    pthread_attr_destroy(&attributes);
    pthread_cond_destroy(&start.started);
    pthread_mutex_destroy(&start.mutex);
}

/* Ends the thread. Returns 0 if it was abandoned in a call. */
static int eitp__queued_file_end(eitp__queued_file *file, int is_abandoned) {
    eitp__queue_writer *writer = file->writer;
    if (!writer)
        return 1;
    eitp__writer_lock(writer);
    file->is_stopping = 1;
    is_abandoned = is_abandoned && file->answered != file->requested;
    if (is_abandoned)
        writer->owner = NULL;
    eitp__writer_signal(writer);
    eitp__writer_unlock(writer);
    if (is_abandoned)
        pthread_detach(file->thread);
    else
        pthread_join(file->thread, NULL);
    return !is_abandoned;
}

EITP__PRIVATE double eitp__queued_file_seconds(const eitp__queued_file *file) {
#if EITP__QUEUE_SETS_CLOCK && defined(__linux__)
    struct timespec taken;
    clockid_t clock;
    if (file->writer && !pthread_getcpuclockid(file->thread, &clock) && !clock_gettime(clock, &taken))
        return (double)taken.tv_sec + 1e-9 * (double)taken.tv_nsec;
#endif
    (void)file;
    return 0;
}

#else

EITP__PRIVATE double eitp__queued_file_seconds(const eitp__queued_file *file) {
    (void)file;
    return 0;
}

static void eitp__writer_wait_for_change(eitp__queue_writer *writer, double seconds) {
    (void)writer, (void)seconds;
}

static void eitp__queued_file_start(eitp__queued_file *file) {
    (void)file;
}

static int eitp__queued_file_end(eitp__queued_file *file, int is_abandoned) {
    (void)file, (void)is_abandoned;
    return 1;
}

#endif

/* ---- The calling thread ---- */

/* A separate function for its stack frame: a writer is large. */
static void eitp__queued_file_store(eitp__queued_file *file) {
    eitp__queue_writer writer;
    eitp__writer_init(&writer, file);
    eitp__writer_store(&writer);
}

static eitp_status eitp__queued_file_fail_stalled(const eitp__queued_file *file, double since, eitp_error *error) {
    return eitp__fail(error, EITP_ERROR_IO, "'%s' has not been written for %.0f s; check the disk", file->file.path,
                      eitp__clock() - since);
}

/* Refuses anything but a file: a symbolic link may have been planted by another user. */
static eitp_status eitp__queued_file_check(const eitp_host *host, const char *path, eitp_error *error) {
    eitp_path_info info = EITP__ZERO;
    const eitp_status status = eitp__path_info(host, path, &info, error);
    if (!status && info.is_link)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "'%s' is a symbolic link; records are not written through links: remove it", path);
    if (!status && info.kind != EITP_PATH_FILE && info.kind != EITP_PATH_MISSING)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "'%s' exists and is not a file; remove it", path);
    return status;
}

EITP__PRIVATE eitp_status eitp__queued_file_open(const eitp_host *host, const char *path, eitp__queued_file **file,
                                                 eitp_error *error) {
    eitp__queued_file *created = (eitp__queued_file *)eitp__allocate(host, sizeof *created);
    eitp_status status;
    *file = NULL;
    if (!created)
        return eitp__fail_memory(error, sizeof *created, "a file of records");
    created->host = *host;
    created->flush_seconds = 1;
    created->wait_seconds = 10;
    created->wrote = -HUGE_VAL;
    eitp__buffer_init(&created->lead, &created->host);
    created->queue = (unsigned char *)eitp__allocate_uninitialized(host, EITP__QUEUE_BYTES);
    status = created->queue ? eitp__queued_file_check(host, path, error)
                            : eitp__fail_memory(error, EITP__QUEUE_BYTES, "records");
    if (!status)
        status = eitp__file_open(&created->file, &created->host, path, EITP_FILE_UPDATE, error);
    if (!status)
        status = eitp__file_size(&created->file, &created->whole, error);
    if (!status)
        eitp__queued_file_start(created);
    if (status) {
        eitp__file_close(&created->file, NULL);
        eitp__buffer_release(&created->lead);
        eitp__release(host, created->queue, EITP__QUEUE_BYTES);
        eitp__release(host, created, sizeof *created);
        return status;
    }
    *file = created;
    return EITP_OK;
}

EITP__PRIVATE size_t eitp__queued_file_bytes(void) {
    return sizeof(eitp__queued_file) + EITP__QUEUE_BYTES;
}

EITP__PRIVATE void eitp__queued_file_set_times(eitp__queued_file *file, double flush_seconds, double wait_seconds) {
    eitp__writer_lock(file->writer);
    file->flush_seconds = flush_seconds;
    file->wait_seconds = wait_seconds;
    eitp__writer_signal(file->writer);
    eitp__writer_unlock(file->writer);
}

/* Queues a record; 0: there is not enough room. */
static int eitp__queued_file_queue(eitp__queued_file *file, const void *record, size_t size) {
    const uint32_t length = (uint32_t)size;
    const size_t half = EITP__QUEUE_BYTES / 2, before = file->used;
    if (size > EITP__QUEUE_BYTES || EITP__QUEUE_PREFIX + size > EITP__QUEUE_BYTES - file->used) {
        file->dropped++;
        return 0;
    }
    eitp__queue_put(file, &length, EITP__QUEUE_PREFIX);
    eitp__queue_put(file, record, size);
    file->queued++;
    /* Otherwise the thread is waiting with a timeout. */
    if (!before || (before <= half && file->used > half))
        eitp__writer_signal(file->writer);
    return 1;
}

EITP__PRIVATE void eitp__queued_file_set_lead(eitp__queued_file *file, const void *lead, size_t size) {
    eitp__writer_lock(file->writer);
    eitp__buffer_clear(&file->lead);
    eitp__buffer_add(&file->lead, lead, size);
    eitp__writer_unlock(file->writer);
}

/* Warns once of a file that another program has changed. */
static void eitp__queued_file_warn_moved(eitp__queued_file *file) {
    int should_warn;
    eitp__writer_lock(file->writer);
    should_warn = file->has_moved && !file->has_said_so;
    file->has_said_so |= should_warn;
    eitp__writer_unlock(file->writer);
    if (should_warn)
        eitp__log_line(&file->host, EITP_LOG_WARNING,
                       "'%s' was removed or truncated by another program: records continue at its end, without the "
                       "removed ones",
                       file->file.path);
}

/* Returns the error of a call that is stalled or has failed, or of a record that found the queue full. */
static eitp_status eitp__queued_file_status(eitp__queued_file *file, int is_queued, eitp_error *error) {
    if (file->is_in_call && eitp__clock() - file->called >= file->wait_seconds)
        file->is_stalled = 1;
    if (file->is_stalled)
        return eitp__queued_file_fail_stalled(file, file->called, error);
    if (file->failures && error)
        *error = file->error;
    if (file->failures)
        return file->error.status;
    return is_queued ? EITP_OK
                     : eitp__fail(error, EITP_ERROR_IO, "'%s' cannot be written as fast as records are made",
                                  file->file.path);
}

EITP__PRIVATE eitp_status eitp__queued_file_append(eitp__queued_file *file, const void *record, size_t size,
                                                   eitp_error *error) {
    eitp_status status;
    int is_queued;
    eitp__writer_lock(file->writer);
    is_queued = eitp__queued_file_queue(file, record, size);
    eitp__writer_unlock(file->writer);
    if (!file->writer && eitp__queue_due(file) <= 0)
        eitp__queued_file_store(file);
    eitp__queued_file_warn_moved(file);
    eitp__writer_lock(file->writer);
    status = eitp__queued_file_status(file, is_queued, error);
    eitp__writer_unlock(file->writer);
    return status;
}

EITP__PRIVATE eitp_status eitp__queued_file_append_text(eitp__queued_file *file, const eitp__buffer *text,
                                                        eitp_error *error) {
    if (!text->failed)
        return eitp__queued_file_append(file, text->data, text->size, error);
    eitp__writer_lock(file->writer);
    file->dropped++;
    eitp__writer_unlock(file->writer);
    return eitp__fail_memory(error, text->size, "records");
}

/* Waits until a request is answered or times out. Called with the lock. */
static eitp_status eitp__queued_file_await(eitp__queued_file *file, uint64_t number, eitp_error *error) {
    const double began = eitp__clock();
    double left = file->is_stalled ? 0 : file->wait_seconds;
    while (file->answered < number && left > 0) {
        eitp__writer_wait_for_change(file->writer, left);
        left = began + file->wait_seconds - eitp__clock();
    }
    if (file->answered < number) {
        const int is_old = file->is_stalled || (file->is_in_call && file->called < began);
        file->is_stalled = 1;
        return eitp__queued_file_fail_stalled(file, is_old ? file->called : began, error);
    }
    if (file->answer && error)
        *error = file->answer_error;
    return file->answer;
}

/* Requests writing the queue at once, and syncing the file if `syncs`; waits for completion. */
static eitp_status eitp__queued_file_request(eitp__queued_file *file, int syncs, eitp_error *error) {
    eitp_status status;
    uint64_t number;
    eitp__writer_lock(file->writer);
    number = ++file->requested;
    file->request_syncs = syncs;
    eitp__writer_signal(file->writer);
    if (!file->writer)
        eitp__queued_file_store(file);
    status = eitp__queued_file_await(file, number, error);
    eitp__writer_unlock(file->writer);
    return status;
}

EITP__PRIVATE eitp_status eitp__queued_file_sync(eitp__queued_file *file, eitp_error *error) {
    return eitp__queued_file_request(file, 1, error);
}

EITP__PRIVATE int64_t eitp__queued_file_lost(eitp__queued_file *file) {
    int64_t lost;
    eitp__writer_lock(file->writer);
    lost = file->dropped + (file->failures || file->is_stalled ? file->queued : 0);
    eitp__writer_unlock(file->writer);
    return lost;
}

EITP__PRIVATE eitp_status eitp__queued_file_pause(eitp__queued_file *file, eitp_error *error) {
    const eitp_status status = eitp__queued_file_request(file, 0, error);
    int is_stalled;
    eitp__writer_lock(file->writer);
    is_stalled = file->answered != file->requested;
    file->is_paused = !is_stalled;
    eitp__writer_unlock(file->writer);
    return is_stalled ? status : EITP_OK;
}

EITP__PRIVATE eitp_status eitp__queued_file_read(eitp__queued_file *file, uint64_t offset, void *data, size_t size,
                                                 size_t *done, eitp_error *error) {
    return eitp__file_read_some(&file->file, offset, data, size, done, error);
}

EITP__PRIVATE eitp_status eitp__queued_file_cut(eitp__queued_file *file, uint64_t size, eitp_error *error) {
    const eitp_status status = eitp__file_resize(&file->file, size, error);
    eitp__writer_lock(file->writer);
    eitp__queue_clear(file);
    file->whole = size;
    file->wrote = -HUGE_VAL;
    file->is_paused = status != EITP_OK;
    eitp__writer_unlock(file->writer);
    return status;
}

EITP__PRIVATE void eitp__queued_file_close(eitp__queued_file *file) {
    eitp_host host;
    int is_late, is_closed;
    if (!file)
        return;
    host = file->host;
    if (!file->is_paused)
        eitp__queued_file_request(file, 0, NULL);
    eitp__queued_file_warn_moved(file);
    eitp__writer_lock(file->writer);
    is_late = file->answered != file->requested;
    eitp__writer_unlock(file->writer);
    is_closed = eitp__queued_file_end(file, is_late);
    if (is_closed)
        eitp__file_close(&file->file, NULL);
    else
        eitp__release_text(&host, file->file.path);
    eitp__release(&host, file->queue, EITP__QUEUE_BYTES);
    eitp__buffer_release(&file->lead);
    eitp__release(&host, file, sizeof *file);
}
