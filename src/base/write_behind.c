#include "base/write_behind.h"

/* Bytes copied and written at a time, and between two hints that a sync follows. */
#define EITP__BEHIND_CHUNK ((size_t)256 << 10)
#define EITP__BEHIND_SYNC ((size_t)8 << 20)

struct eitp__behind_file {
    eitp__write_behind *queue;
    eitp__file file;
    char *path, *temporary; /* its final name, and its name until it is finished */
    char *directory;        /* directory of both */
    size_t unsynced;        /* bytes written since the last hint that a sync follows */
    int is_installed;       /* renamed to its final name */
    eitp__behind_file *next;
};

/* A piece of a file, in memory until it is written. */
typedef struct eitp__behind_chunk {
    eitp__write_behind *queue;
    eitp__behind_file *file;
    uint64_t offset;
    size_t size;
    unsigned char *data;
    uint64_t job; /* last job that uses it; 0: being filled, or unused */
} eitp__behind_chunk;

struct eitp__write_behind {
    eitp_host host;
    eitp__worker *worker;       /* NULL: the caller writes */
    eitp__behind_chunk *chunks; /* used as a ring */
    size_t count;
    unsigned char *memory; /* memory of all chunks */
    size_t current;        /* chunk being filled; its size is 0 if it is free */
    uint64_t last_job;
    int is_cancelled;   /* set by the calling thread: jobs do nothing */
    int is_overwritten; /* a chunk was reused: the copies are incomplete */
    eitp__behind_file *files;
};

/* ---- Writing ---- */

/* Writes data, and lets storage work while the next pieces are prepared. */
static eitp_status eitp__behind_put(eitp__behind_file *file, uint64_t offset, const void *data, size_t size,
                                    eitp_error *error) {
    eitp_status status = eitp__file_write(&file->file, offset, data, size, error);
    file->unsynced += size;
    if (!status && file->unsynced >= EITP__BEHIND_SYNC) {
        file->unsynced = 0;
        eitp__file_begin_sync(&file->file);
    }
    return status;
}

static int eitp__behind_is_cancelled(const eitp__write_behind *queue) {
    return __atomic_load_n(&queue->is_cancelled, __ATOMIC_RELAXED);
}

static eitp_status eitp__behind_write_job(void *argument, eitp_error *error) {
    const eitp__behind_chunk *chunk = (const eitp__behind_chunk *)argument;
    return eitp__behind_is_cancelled(chunk->file->queue)
               ? EITP_OK
               : eitp__behind_put(chunk->file, chunk->offset, chunk->data, chunk->size, error);
}

/* Touches the memory in advance, since its first use is slow. */
static eitp_status eitp__behind_touch_job(void *argument, eitp_error *error) {
    const eitp__behind_chunk *chunk = (const eitp__behind_chunk *)argument;
    (void)error;
    if (!eitp__behind_is_cancelled(chunk->queue))
        memset(chunk->data, 0, EITP__BEHIND_CHUNK);
    return EITP_OK;
}

static eitp_status eitp__behind_sync_job(void *argument, eitp_error *error) {
    eitp__behind_file *file = (eitp__behind_file *)argument;
    return eitp__behind_is_cancelled(file->queue) ? EITP_OK : eitp__file_sync(&file->file, error);
}

/* ---- Queues ---- */

/* Gives a new queue room for `count` chunks, and a thread that writes them and syncs `files` files. */
static eitp_status eitp__behind_make_room(eitp__write_behind *queue, size_t count, size_t files, eitp_error *error) {
    const eitp_host *host = &queue->host;
    queue->memory = (unsigned char *)eitp__allocate_uninitialized(host, count * EITP__BEHIND_CHUNK);
    queue->chunks = (eitp__behind_chunk *)eitp__allocate(host, count * sizeof *queue->chunks);
    queue->count = count;
    if (!queue->memory || !queue->chunks)
        return eitp__fail_memory(error, count * EITP__BEHIND_CHUNK, "a copy of a checkpoint");
    for (size_t i = 0; i < count; i++) {
        queue->chunks[i].queue = queue;
        queue->chunks[i].data = queue->memory + i * EITP__BEHIND_CHUNK;
    }
    return eitp__worker_create(host, count + files, &queue->worker, error);
}

static void eitp__behind_touch(eitp__write_behind *queue) {
    for (size_t i = 0; i < queue->count; i++)
        queue->chunks[i].job = eitp__worker_submit(queue->worker, eitp__behind_touch_job, &queue->chunks[i]);
}

EITP__PRIVATE eitp_status eitp__write_behind_create(const eitp_host *host, uint64_t bytes, size_t files,
                                                    eitp__write_behind **queue, eitp_error *error) {
    /* The last chunk of each file may be almost empty. */
    const uint64_t count = bytes ? bytes / EITP__BEHIND_CHUNK + files + 1 : 0;
    eitp__write_behind *created = (eitp__write_behind *)eitp__allocate(host, sizeof *created);
    eitp_status status = EITP_OK;
    *queue = NULL;
    if (!created)
        return eitp__fail_memory(error, sizeof *created, "files to be written");
    created->host = *host;
    if (count > SIZE_MAX / EITP__BEHIND_CHUNK)
        status = eitp__fail_memory(error, SIZE_MAX, "a copy of a checkpoint");
    else if (count)
        status = eitp__behind_make_room(created, (size_t)count, files, error);
    if (status) {
        eitp__write_behind_destroy(created);
        return status;
    }
    eitp__behind_touch(created);
    *queue = created;
    return EITP_OK;
}

static void eitp__behind_release(eitp__behind_file *file) {
    const eitp_host *host = &file->queue->host;
    eitp__release_text(host, file->path);
    eitp__release_text(host, file->temporary);
    eitp__release_text(host, file->directory);
    eitp__release(host, file, sizeof *file);
}

EITP__PRIVATE void eitp__write_behind_clear(eitp__write_behind *queue) {
    const eitp_files *files = &queue->host.files;
    __atomic_store_n(&queue->is_cancelled, 1, __ATOMIC_RELAXED);
    if (queue->worker)
        eitp__worker_finish(queue->worker, NULL);
    __atomic_store_n(&queue->is_cancelled, 0, __ATOMIC_RELAXED);
    for (size_t i = 0; i < queue->count && queue->chunks; i++)
        queue->chunks[i].size = 0;
    queue->last_job = 0;
    queue->is_overwritten = 0;
    for (eitp__behind_file *file = queue->files, *next; file; file = next) {
        next = file->next;
        eitp__file_close(&file->file, NULL);
        if (!file->is_installed)
            files->remove(files->user, file->temporary);
        eitp__behind_release(file);
    }
    queue->files = NULL;
}

EITP__PRIVATE void eitp__write_behind_destroy(eitp__write_behind *queue) {
    eitp_host host;
    if (!queue)
        return;
    eitp__write_behind_clear(queue);
    host = queue->host;
    eitp__worker_destroy(queue->worker);
    eitp__release(&host, queue->chunks, queue->count * sizeof *queue->chunks);
    eitp__release(&host, queue->memory, queue->count * EITP__BEHIND_CHUNK);
    eitp__release(&host, queue, sizeof *queue);
}

/* ---- Files ---- */

/* Submits the chunk being filled, if there is one. */
static void eitp__behind_submit(eitp__write_behind *queue) {
    eitp__behind_chunk *chunk = &queue->chunks[queue->current];
    if (!chunk->size || chunk->job)
        return;
    chunk->job = queue->last_job = eitp__worker_submit(queue->worker, eitp__behind_write_job, chunk);
    queue->current = (queue->current + 1) % queue->count;
}

/* Waits until the current chunk is free, and starts filling it. */
static eitp_status eitp__behind_begin_chunk(eitp__behind_file *file, uint64_t offset, eitp_error *error) {
    eitp__write_behind *queue = file->queue;
    eitp__behind_chunk *chunk = &queue->chunks[queue->current];
    eitp_status status = chunk->job ? eitp__worker_wait(queue->worker, chunk->job, error) : EITP_OK;
    if (status)
        return status;
    queue->is_overwritten |= chunk->size > 0;
    chunk->file = file;
    chunk->offset = offset;
    chunk->size = 0;
    chunk->job = 0;
    return EITP_OK;
}

/* True if the current chunk takes bytes at `offset` of a file. */
static int eitp__behind_continues(const eitp__behind_file *file, uint64_t offset) {
    const eitp__behind_chunk *chunk = &file->queue->chunks[file->queue->current];
    return chunk->size && !chunk->job && chunk->file == file && chunk->offset + chunk->size == offset &&
           chunk->size < EITP__BEHIND_CHUNK;
}

/* Copies a path, and derives the paths of the temporary file and of the directory. Returns 0 if memory runs out. */
static int eitp__behind_copy_paths(eitp__behind_file *file, const char *path) {
    const eitp_host *host = &file->queue->host;
    eitp__buffer temporary;
    eitp__buffer_init(&temporary, host);
    eitp__buffer_format(&temporary, "%s.tmp", path);
    file->path = eitp__copy_text(host, path);
    file->temporary = temporary.failed ? NULL : eitp__copy_text(host, temporary.data);
    eitp__buffer_release(&temporary);
    file->directory = eitp__parent_directory(host, path);
    return file->path && file->temporary && file->directory;
}

EITP__PRIVATE eitp_status eitp__behind_open(eitp__write_behind *queue, const char *path, eitp__behind_file **file,
                                            eitp_error *error) {
    const eitp_host *host = &queue->host;
    eitp__behind_file *created = (eitp__behind_file *)eitp__allocate(host, sizeof *created);
    eitp_status status;
    *file = NULL;
    if (!created)
        return eitp__fail_memory(error, sizeof *created, "a file to be written");
    created->queue = queue;
    status = eitp__behind_copy_paths(created, path)
                 ? eitp__file_open(&created->file, host, created->temporary, EITP_FILE_REPLACE, error)
                 : eitp__fail_memory(error, strlen(path), "a path");
    if (status) {
        eitp__behind_release(created);
        return status;
    }
    created->next = queue->files;
    queue->files = *file = created;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__behind_write(eitp__behind_file *file, uint64_t offset, const void *data, size_t size,
                                             eitp_error *error) {
    eitp__write_behind *queue = file->queue;
    const unsigned char *bytes = (const unsigned char *)data;
    if (!queue->worker)
        return eitp__behind_put(file, offset, data, size, error);
    while (size) {
        eitp__behind_chunk *chunk;
        size_t part;
        if (!eitp__behind_continues(file, offset)) {
            eitp_status status;
            eitp__behind_submit(queue);
            status = eitp__behind_begin_chunk(file, offset, error);
            if (status)
                return status;
        }
        chunk = &queue->chunks[queue->current];
        part = EITP__BEHIND_CHUNK - chunk->size < size ? EITP__BEHIND_CHUNK - chunk->size : size;
        memcpy(chunk->data + chunk->size, bytes, part);
        chunk->size += part;
        bytes += part;
        offset += part;
        size -= part;
    }
    return EITP_OK;
}

EITP__PRIVATE void eitp__behind_end(eitp__behind_file *file) {
    eitp__write_behind *queue = file->queue;
    if (!queue->worker)
        return;
    eitp__behind_submit(queue);
    queue->last_job = eitp__worker_submit(queue->worker, eitp__behind_sync_job, file);
}

EITP__PRIVATE int eitp__behind_is_idle(eitp__write_behind *queue) {
    return !queue->worker || eitp__worker_wait_briefly(queue->worker, queue->last_job, 0);
}

/* Renames a written file to its final name. */
static eitp_status eitp__behind_install(eitp__behind_file *file, eitp_error *error) {
    const eitp_host *host = &file->queue->host;
    eitp_status status = file->queue->worker ? EITP_OK : eitp__file_sync(&file->file, error);
    if (!status)
        status = eitp__file_close(&file->file, error);
    if (!status)
        status = eitp__rename_path(host, file->temporary, file->path, error);
    file->is_installed = !status;
    return status ? status : eitp__sync_directory(host, file->directory, error);
}

EITP__PRIVATE eitp_status eitp__behind_finish(eitp__write_behind *queue, eitp_error *error) {
    eitp_status status = queue->worker ? eitp__worker_finish(queue->worker, error) : EITP_OK;
    for (eitp__behind_file *file = queue->files; file && !status; file = file->next)
        status = eitp__behind_install(file, error);
    return status;
}

EITP__PRIVATE int eitp__behind_can_repeat(const eitp__write_behind *queue) {
    return queue->worker && !queue->is_overwritten;
}

EITP__PRIVATE eitp_status eitp__behind_repeat(eitp__write_behind *queue, eitp_error *error) {
    for (eitp__behind_file *file = queue->files; file; file = file->next) {
        eitp_status status;
        eitp__file_close(&file->file, NULL);
        file->unsynced = 0;
        file->is_installed = 0;
        status = eitp__file_open(&file->file, &queue->host, file->temporary, EITP_FILE_REPLACE, error);
        if (status)
            return status;
    }
    for (size_t i = 0; i < queue->count; i++) {
        if (queue->chunks[i].size)
            queue->chunks[i].job = eitp__worker_submit(queue->worker, eitp__behind_write_job, &queue->chunks[i]);
    }
    for (eitp__behind_file *file = queue->files; file; file = file->next)
        queue->last_job = eitp__worker_submit(queue->worker, eitp__behind_sync_job, file);
    return EITP_OK;
}
