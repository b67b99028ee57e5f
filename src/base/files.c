#include "base/files.h"

#include "base/checksum.h"
#include "base/clock.h"
#include "base/sort.h"

/* Returns the cause and what to do; NULL for other codes. */
static const char *eitp__explain_errno(int code) {
    switch (code) {
    case ENOENT:
        return "no such file or directory; check the path";
    case ENOTDIR:
        return "a component of the path is not a directory; check the path";
    case EISDIR:
        return "is a directory; give a file";
    case ENXIO:
        return "not a regular file; give a regular file";
    case ENAMETOOLONG:
        return "the path is too long; choose a shorter one";
    case EEXIST:
        return "already exists; remove it or choose another name";
    case EACCES:
    case EPERM:
        return "permission denied; check the owner and mode of the file and its directory";
    case ENOSPC:
        return "no space left on the device; free some space or choose another disk";
    case EDQUOT:
        return "disk quota exceeded; free some space or choose another disk";
    case EROFS:
        return "the file system is read-only; choose another one";
    case EFBIG:
    case EOVERFLOW:
        return "the file exceeds the size limit of the file system or the process (ulimit -f)";
    case EMFILE:
    case ENFILE:
        return "too many open files; close some or raise the limit (ulimit -n)";
    case EIO:
        return "input/output error; check the disk";
    default:
        return NULL;
    }
}

static eitp_status eitp__fail_file(eitp_error *error, int code, const char *action, const char *path) {
    const char *explanation = eitp__explain_errno(code);
    eitp_status status = EITP_ERROR_IO;
    if (code == ENOENT || code == ENOTDIR || code == EISDIR || code == ENXIO || code == ENAMETOOLONG)
        status = EITP_ERROR_ARGUMENT;
    if (explanation)
        eitp__fail(error, status, "cannot %s '%s': %s", action, path, explanation);
    else
        eitp__fail(error, status, "cannot %s '%s': %s; check the path and its device", action, path, strerror(code));
    if (error)
        error->system_code = code;
    return status;
}

/* ---- Transient failures ---- */

/* Consecutive failures of one call. */
typedef struct eitp__failures {
    int interrupted, other;
} eitp__failures;

EITP__PRIVATE void eitp__wait(const eitp_host *host, double seconds) {
    if (host->files.wait)
        host->files.wait(host->files.user, seconds);
}

/* Returns true, after waiting, if the call that returned `code` should be repeated. `passing` is a code that may be
   transient. */
static int eitp__repeats(const eitp_host *host, int code, int passing, eitp__failures *failures) {
    const int most_interruptions = 1000; /* a table that always returns EINTR must not stop the process */
    if (code == EINTR)
        return failures->interrupted++ < most_interruptions;
    if ((code != EAGAIN && code != passing) || failures->other >= EITP__FILE_RETRIES)
        return 0;
    eitp__wait(host, 0.01 * (double)(1 << failures->other++));
    return 1;
}

/* Like eitp__repeats, for a call that changes or looks up names, or opens a file. */
static int eitp__repeats_call(const eitp_host *host, int code, eitp__failures *failures) {
    return code && eitp__repeats(host, code, EAGAIN, failures);
}

/* Like eitp__repeats, for a read or write. */
static int eitp__repeats_transfer(const eitp_host *host, int code, eitp__failures *failures) {
    return code && eitp__repeats(host, code, EIO, failures);
}

/* ---- Open files ---- */

EITP__PRIVATE eitp_status eitp__file_open(eitp__file *file, const eitp_host *host, const char *path,
                                          eitp_file_mode mode, eitp_error *error) {
    eitp__failures failures = EITP__ZERO;
    int code;
    void *handle = NULL;
    char *copy = eitp__copy_text(host, path);
    memset(file, 0, sizeof *file);
    if (!copy)
        return eitp__fail_memory(error, strlen(path) + 1, "a file path");
    do
        code = host->files.open(host->files.user, path, mode, &handle);
    while (eitp__repeats_call(host, code, &failures));
    if (code) {
        eitp__release_text(host, copy);
        return eitp__fail_file(error, code, mode == EITP_FILE_READ ? "open" : "open for writing", path);
    }
    file->host = host;
    file->handle = handle;
    file->path = copy;
    file->mode = mode;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__file_close(eitp__file *file, eitp_error *error) {
    eitp_status status = EITP_OK;
    int code;
    if (!file->host)
        return EITP_OK;
    code = file->host->files.close(file->host->files.user, file->handle);
    /* The interrupted call has closed the file: closing it again could close another one. */
    if (code && code != EINTR)
        status = eitp__fail_file(error, code, "close", file->path);
    eitp__release_text(file->host, file->path);
    memset(file, 0, sizeof *file);
    return status;
}

EITP__PRIVATE eitp_status eitp__file_size(eitp__file *file, uint64_t *size, eitp_error *error) {
    eitp__failures failures = EITP__ZERO;
    uint64_t found = 0;
    int code;
    do
        code = file->host->files.size(file->host->files.user, file->handle, &found);
    while (eitp__repeats_call(file->host, code, &failures));
    if (code)
        return eitp__fail_file(error, code, "get the size of", file->path);
    *size = found;
    return EITP_OK;
}

/* Milliseconds after which a write that has set the file's time has also copied its data, even on a slow disk. */
#define EITP__STAMP_RECHECK 2000

static uint64_t eitp__read_stamp(const eitp__file *file) {
    const eitp_files *files = &file->host->files;
    eitp__failures failures = EITP__ZERO;
    eitp_path_info info;
    int code;
    do {
        memset(&info, 0, sizeof info);
        code = files->file_info ? files->file_info(files->user, file->handle, &info)
                                : files->info(files->user, file->path, &info);
    } while (eitp__repeats_call(file->host, code, &failures));
    if (code)
        return 0;
    const uint64_t values[4] = {(uint64_t)info.kind, info.size, (uint64_t)info.modified, info.identity};
    return eitp__fnv1a(EITP__FNV_START, values, sizeof values);
}

EITP__PRIVATE eitp__file_stamp eitp__file_stamp_of(const eitp__file *file) {
    eitp__file_stamp stamp = EITP__ZERO;
    stamp.value = eitp__read_stamp(file);
    return stamp;
}

static uint64_t eitp__milliseconds(void) {
    return (uint64_t)(eitp__clock() * 1000) + 1;
}

EITP__PRIVATE eitp_status eitp__file_check_stamp(const eitp__file *file, eitp__file_stamp *stamp,
                                                 eitp_status (*compare)(const void *owner, eitp_error *error),
                                                 const void *owner, eitp_error *error) {
    /* Taken before the contents are read, so that the next call sees a change made while reading. */
    const uint64_t now = eitp__read_stamp(file), recheck_at = __atomic_load_n(&stamp->recheck_at, __ATOMIC_RELAXED);
    const int is_new = now != __atomic_load_n(&stamp->value, __ATOMIC_RELAXED);
    eitp_status status = EITP_OK;
    if (!is_new && (!recheck_at || eitp__milliseconds() < recheck_at))
        return EITP_OK;
    status = compare(owner, error);
    if (!status) {
        __atomic_store_n(&stamp->recheck_at, is_new ? eitp__milliseconds() + EITP__STAMP_RECHECK : 0, __ATOMIC_RELAXED);
        __atomic_store_n(&stamp->value, now, __ATOMIC_RELAXED);
    }
    if (status == EITP_ERROR_FORMAT) {
        status = eitp__fail_prefix(error, EITP_ERROR_IO, "'%s' changed while it was read", file->path);
        if (error)
            error->status = status;
    }
    return status;
}

/* Some files of /proc appear regular and empty and cannot be read. This never applies to files that this process
   writes. */
static eitp_status eitp__fail_read(const eitp__file *file, int code, eitp_error *error) {
    const eitp_files *files = &file->host->files;
    uint64_t size = 1;
    eitp_status status;
    if (code != EIO || file->mode != EITP_FILE_READ || files->size(files->user, file->handle, &size) || size)
        return eitp__fail_file(error, code, "read", file->path);
    status = eitp__fail(error, EITP_ERROR_ARGUMENT,
                        "cannot read '%s': the file has no readable contents; give a regular file", file->path);
    if (error)
        error->system_code = code;
    return status;
}

EITP__PRIVATE eitp_status eitp__file_read_some(eitp__file *file, uint64_t offset, void *data, size_t size, size_t *done,
                                               eitp_error *error) {
    const eitp_files *files = &file->host->files;
    eitp__failures failures = EITP__ZERO;
    size_t total = 0;
    *done = 0;
    while (total < size) {
        size_t got = 0;
        int code = files->read(files->user, file->handle, offset + total, (char *)data + total, size - total, &got);
        if (eitp__repeats_transfer(file->host, code, &failures))
            continue;
        if (code)
            return eitp__fail_read(file, code, error);
        memset(&failures, 0, sizeof failures);
        if (got > size - total)
            return eitp__fail(error, EITP_ERROR_INTERNAL,
                              "reading '%s' returned more bytes than requested; check eitp_host.files.read",
                              file->path);
        if (!got)
            break;
        total += got;
    }
    *done = total;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__file_read(eitp__file *file, uint64_t offset, void *data, size_t size,
                                          eitp_error *error) {
    size_t done;
    eitp_status status = eitp__file_read_some(file, offset, data, size, &done, error);
    if (!status && done < size)
        return eitp__fail(
            error, EITP_ERROR_FORMAT,
            "'%s' is truncated: it ends after %llu bytes, expected at least %llu; copy or create it again", file->path,
            (unsigned long long)(offset + done), (unsigned long long)(offset + size));
    return status;
}

EITP__PRIVATE void eitp__file_begin_sync(const eitp__file *file) {
    if (file->host->files.begin_sync)
        file->host->files.begin_sync(file->host->files.user, file->handle);
}

EITP__PRIVATE void eitp__file_prefetch(const eitp__file *file, uint64_t offset, size_t size) {
    if (file->host->files.prefetch)
        file->host->files.prefetch(file->host->files.user, file->handle, offset, size);
}

EITP__PRIVATE eitp_status eitp__file_write(eitp__file *file, uint64_t offset, const void *data, size_t size,
                                           eitp_error *error) {
    const eitp_files *files = &file->host->files;
    eitp__failures failures = EITP__ZERO;
    size_t total = 0;
    while (total < size) {
        size_t put = 0;
        int code =
            files->write(files->user, file->handle, offset + total, (const char *)data + total, size - total, &put);
        /* Writing 0 bytes without an error would loop forever. */
        if (!code && (!put || put > size - total))
            code = EIO;
        if (eitp__repeats_transfer(file->host, code, &failures))
            continue;
        if (code)
            return eitp__fail_file(error, code, "write", file->path);
        memset(&failures, 0, sizeof failures);
        total += put;
    }
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__file_resize(eitp__file *file, uint64_t size, eitp_error *error) {
    eitp__failures failures = EITP__ZERO;
    int code;
    do
        code = file->host->files.resize(file->host->files.user, file->handle, size);
    while (eitp__repeats_call(file->host, code, &failures));
    return code ? eitp__fail_file(error, code, "resize", file->path) : EITP_OK;
}

EITP__PRIVATE eitp_status eitp__file_sync(eitp__file *file, eitp_error *error) {
    eitp__failures failures = EITP__ZERO;
    int code;
    /* Repeats only interrupted calls: after another failure the system may have dropped written data. */
    do
        code = file->host->files.sync(file->host->files.user, file->handle);
    while (code == EINTR && eitp__repeats_call(file->host, code, &failures));
    return code ? eitp__fail_file(error, code, "sync", file->path) : EITP_OK;
}

static eitp_status eitp__fail_too_large(eitp_error *error, const char *path, size_t limit) {
    return eitp__fail(error, EITP_ERROR_FORMAT,
                      "'%s' exceeds the limit of %llu bytes for such a file; check that it is the right file", path,
                      (unsigned long long)limit);
}

/* Reads on past the reported size: the file has grown, or is generated on reading, as in /proc. */
static eitp_status eitp__read_rest(eitp__file *file, size_t limit, eitp__buffer *buffer, eitp_error *error) {
    char chunk[4096];
    size_t done = 1;
    while (done) {
        eitp_status status = eitp__file_read_some(file, buffer->size, chunk, sizeof chunk, &done, error);
        if (status)
            return status;
        if (done > limit - buffer->size)
            return eitp__fail_too_large(error, file->path, limit);
        eitp__buffer_add(buffer, chunk, done);
        if (buffer->failed)
            return eitp__fail_memory(error, buffer->size + done, file->path);
    }
    return EITP_OK;
}

static eitp_status eitp__read_open_file(eitp__file *file, size_t limit, eitp__buffer *buffer, eitp_error *error) {
    uint64_t size = 0;
    size_t done = 0, capacity;
    eitp_status status = eitp__file_size(file, &size, error);
    if (status)
        return status;
    if (size > limit || size >= SIZE_MAX)
        return eitp__fail_too_large(error, file->path, limit);
    /* Allocated in one step: growing the buffer would need up to three times as much. */
    capacity = (size_t)size < 16 ? 16 : (size_t)size + 1;
    buffer->data = (char *)eitp__allocate_uninitialized(buffer->host, capacity);
    if (!buffer->data)
        return eitp__fail_memory(error, capacity, file->path);
    buffer->capacity = capacity;
    buffer->data[0] = 0;
    status = eitp__file_read_some(file, 0, buffer->data, (size_t)size, &done, error);
    if (status)
        return status;
    buffer->size = done;
    buffer->data[done] = 0;
    return eitp__read_rest(file, limit, buffer, error);
}

EITP__PRIVATE eitp_status eitp__check_lfs_pointer(const char *path, const char *bytes, size_t size, eitp_error *error) {
    static const char begin[] = "version https://git-lfs.";
    if (size < sizeof begin || memcmp(bytes, begin, sizeof begin - 1) != 0)
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_FORMAT, "'%s' is a Git LFS pointer; fetch the file with: git lfs pull", path);
}

EITP__PRIVATE eitp_status eitp__read_file(const eitp_host *host, const char *path, size_t limit, eitp__buffer *buffer,
                                          eitp_error *error) {
    eitp__file file;
    eitp_status status;
    eitp__buffer_release(buffer);
    status = eitp__file_open(&file, host, path, EITP_FILE_READ, error);
    if (status)
        return status;
    status = eitp__read_open_file(&file, limit, buffer, error);
    if (!status)
        status = eitp__check_lfs_pointer(path, buffer->data, buffer->size, error);
    if (status) {
        eitp__file_close(&file, NULL);
        eitp__buffer_release(buffer);
        return status;
    }
    /* All bytes have been read: a failure to close does not matter. */
    eitp__file_close(&file, NULL);
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__write_file(const eitp_host *host, const char *path, const void *data, size_t size,
                                           eitp_error *error) {
    eitp__file file;
    eitp_status status = eitp__file_open(&file, host, path, EITP_FILE_REPLACE, error);
    if (status)
        return status;
    status = eitp__file_write(&file, 0, data, size, error);
    if (!status)
        status = eitp__file_sync(&file, error);
    if (status) {
        eitp__file_close(&file, NULL);
        return status;
    }
    return eitp__file_close(&file, error);
}

EITP__PRIVATE char *eitp__parent_directory(const eitp_host *host, const char *path) {
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    while (length && path[length - 1] != '/')
        length--;
    while (length > 1 && path[length - 1] == '/')
        length--;
    return length ? eitp__copy_bytes(host, path, length) : eitp__copy_text(host, ".");
}

EITP__PRIVATE eitp_status eitp__replace_file(const eitp_host *host, const char *path, const void *data, size_t size,
                                             eitp_error *error) {
    eitp_status status;
    eitp__buffer temporary;
    eitp__buffer_init(&temporary, host);
    eitp__buffer_format(&temporary, "%s.tmp", path);
    if (temporary.failed) {
        status = eitp__fail_memory(error, strlen(path) + 5, "a file path");
    } else {
        status = eitp__write_file(host, temporary.data, data, size, error);
        if (!status)
            status = eitp__rename_path(host, temporary.data, path, error);
        if (status)
            host->files.remove(host->files.user, temporary.data);
        else
            status = eitp__sync_parent(host, path, error);
    }
    eitp__buffer_release(&temporary);
    return status;
}

EITP__PRIVATE int eitp__is_disk_full(const eitp_error *error) {
    return error->system_code == ENOSPC || error->system_code == EDQUOT;
}

EITP__PRIVATE int eitp__path_space(const eitp_host *host, const char *path, uint64_t *free_bytes,
                                   uint64_t *largest_file) {
    *free_bytes = *largest_file = UINT64_MAX;
    return host->files.space && !host->files.space(host->files.user, path, free_bytes, largest_file);
}

EITP__PRIVATE eitp_status eitp__path_info(const eitp_host *host, const char *path, eitp_path_info *info,
                                          eitp_error *error) {
    eitp__failures failures = EITP__ZERO;
    eitp_path_info found;
    int code;
    do {
        memset(&found, 0, sizeof found);
        code = host->files.info(host->files.user, path, &found);
    } while (eitp__repeats_call(host, code, &failures));
    if (code)
        return eitp__fail_file(error, code, "look up", path);
    *info = found;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__path_is_file(const eitp_host *host, const char *path, int *is_file, eitp_error *error) {
    eitp_path_info info;
    const eitp_status status = eitp__path_info(host, path, &info, error);
    *is_file = !status && info.kind == EITP_PATH_FILE;
    return status;
}

/* A directory that may be written but not read cannot be synced. */
EITP__PRIVATE eitp_status eitp__sync_parent(const eitp_host *host, const char *path, eitp_error *error) {
    char *parent = eitp__parent_directory(host, path);
    eitp_error why;
    eitp_status status;
    if (!parent)
        return eitp__fail_memory(error, strlen(path) + 1, "a directory path");
    status = eitp__sync_directory(host, parent, &why);
    eitp__release_text(host, parent);
    if (!status || why.system_code == EACCES || why.system_code == EPERM)
        return EITP_OK;
    if (error)
        *error = why;
    return status;
}

EITP__PRIVATE eitp_status eitp__make_new_directory(const eitp_host *host, const char *path, int *is_new,
                                                   eitp_error *error) {
    eitp__failures failures = EITP__ZERO;
    int code;
    do
        code = host->files.make_directory(host->files.user, path);
    while (eitp__repeats_call(host, code, &failures));
    *is_new = !code;
    return code && code != EEXIST ? eitp__fail_file(error, code, "create the directory", path) : EITP_OK;
}

static eitp_status eitp__make_one_directory(const eitp_host *host, const char *path, int syncs, eitp_error *error) {
    eitp_path_info info;
    int is_new;
    eitp_status status = eitp__make_new_directory(host, path, &is_new, error);
    if (status || is_new)
        return !status && syncs ? eitp__sync_parent(host, path, error) : status;
    status = eitp__path_info(host, path, &info, error);
    if (!status && info.kind != EITP_PATH_DIRECTORY) {
        status = eitp__fail(error, EITP_ERROR_ARGUMENT,
                            "cannot create the directory '%s': a file has that name; remove it or choose another name",
                            path);
        if (error)
            error->system_code = EEXIST;
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__make_directory(const eitp_host *host, const char *path, eitp_error *error) {
    return eitp__make_one_directory(host, path, 0, error);
}

EITP__PRIVATE eitp_status eitp__make_directories(const eitp_host *host, const char *path, eitp_error *error) {
    eitp_status status = EITP_OK;
    size_t length = strlen(path);
    char *prefix = eitp__copy_bytes(host, path, length);
    if (!prefix)
        return eitp__fail_memory(error, length + 1, "a directory path");
    for (size_t i = 1; i < length && !status; i++) {
        if (path[i] != '/' || path[i - 1] == '/')
            continue;
        prefix[i] = 0;
        status = eitp__make_one_directory(host, prefix, 1, error);
        prefix[i] = '/';
    }
    if (!status && !(length && path[length - 1] == '/' && length > 1))
        status = eitp__make_one_directory(host, path, 1, error);
    eitp__release(host, prefix, length + 1);
    return status;
}

EITP__PRIVATE eitp_status eitp__count_missing(const eitp_host *host, const char *path, int *missing,
                                              eitp_error *error) {
    eitp_path_info info = EITP__ZERO;
    char *parent;
    eitp_status status = eitp__path_info(host, path, &info, error);
    if (status || info.kind != EITP_PATH_MISSING)
        return status;
    ++*missing;
    parent = eitp__parent_directory(host, path);
    if (!parent)
        return eitp__fail_memory(error, strlen(path), "the name of a directory");
    if (strcmp(parent, path) && strcmp(parent, "."))
        status = eitp__count_missing(host, parent, missing, error);
    eitp__release_text(host, parent);
    return status;
}

EITP__PRIVATE void eitp__remove_directories(const eitp_host *host, const char *path, int count) {
    char *directory = eitp__copy_text(host, path);
    for (; directory && count > 0; count--) {
        char *parent = eitp__parent_directory(host, directory);
        host->files.remove(host->files.user, directory);
        eitp__release_text(host, directory);
        directory = parent;
    }
    eitp__release_text(host, directory);
}

EITP__PRIVATE eitp_status eitp__remove_entries(const eitp_host *host, const char *path, eitp_error *error) {
    eitp_status status;
    eitp__buffer names;
    size_t count = 0, offset = 0;
    eitp__buffer_init(&names, host);
    status = eitp__list_directory(host, path, &names, &count, error);
    for (size_t i = 0; i < count && !status; i++) {
        const char *name = names.data + offset;
        char *inner = eitp__join_path(host, path, name);
        offset += strlen(name) + 1;
        status = inner ? eitp__remove_tree(host, inner, error)
                       : eitp__fail_memory(error, strlen(path) + strlen(name) + 2, "a file path");
        eitp__release_text(host, inner);
    }
    eitp__buffer_release(&names);
    return status;
}

/* Removes a file or an empty directory; returns an errno value. */
static int eitp__remove_one(const eitp_host *host, const char *path) {
    eitp__failures failures = EITP__ZERO;
    int code;
    do
        code = host->files.remove(host->files.user, path);
    while (eitp__repeats_call(host, code, &failures));
    return code;
}

EITP__PRIVATE eitp_status eitp__remove_tree(const eitp_host *host, const char *path, eitp_error *error) {
    /* Tries to remove each entry first, and lists only those that are not empty: this never follows a symbolic link out
       of the tree. */
    int code = eitp__remove_one(host, path);
    if (code == ENOTEMPTY || code == EEXIST) {
        eitp_status status = eitp__remove_entries(host, path, error);
        if (status)
            return status;
        code = eitp__remove_one(host, path);
    }
    return code && code != ENOENT ? eitp__fail_file(error, code, "remove", path) : EITP_OK;
}

EITP__PRIVATE eitp_status eitp__rename_path(const eitp_host *host, const char *from, const char *to,
                                            eitp_error *error) {
    eitp__failures failures = EITP__ZERO;
    const char *explanation;
    eitp_status status;
    int code;
    do
        code = host->files.rename(host->files.user, from, to);
    while (eitp__repeats_call(host, code, &failures));
    if (!code)
        return EITP_OK;
    explanation = eitp__explain_errno(code);
    status =
        eitp__fail(error, code == ENOENT || code == ENOTDIR || code == EISDIR ? EITP_ERROR_ARGUMENT : EITP_ERROR_IO,
                   "cannot rename '%s' to '%s': %s", from, to, explanation ? explanation : strerror(code));
    if (error)
        error->system_code = code;
    return status;
}

EITP__PRIVATE int eitp__exchange_paths(const eitp_host *host, const char *a, const char *b) {
    eitp__failures failures = EITP__ZERO;
    int code;
    if (!host->files.exchange)
        return 0;
    do
        code = host->files.exchange(host->files.user, a, b);
    while (eitp__repeats_call(host, code, &failures));
    return !code;
}

EITP__PRIVATE eitp_status eitp__sync_directory(const eitp_host *host, const char *path, eitp_error *error) {
    eitp__failures failures = EITP__ZERO;
    int code;
    do
        code = host->files.sync_directory(host->files.user, path);
    while (code == EINTR && eitp__repeats_call(host, code, &failures));
    return code ? eitp__fail_file(error, code, "sync the directory", path) : EITP_OK;
}

typedef struct eitp__name_collector {
    eitp__buffer *names;
    size_t count;
} eitp__name_collector;

static int eitp__collect_name(void *visitor, const char *name) {
    eitp__name_collector *collector = (eitp__name_collector *)visitor;
    eitp__buffer_add(collector->names, name, strlen(name) + 1);
    collector->count++;
    return collector->names->failed ? ENOMEM : 0;
}

static int eitp__compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Adds the names in `unsorted`, each with its zero byte, to `sorted` in order; returns 0 if out of memory. */
static int eitp__sort_names(const eitp_host *host, const eitp__buffer *unsorted, size_t count, eitp__buffer *sorted) {
    const char **order, *name = unsorted->data;
    size_t bytes;
    if (!eitp__multiply_size(count, sizeof *order, &bytes))
        return 0;
    order = (const char **)eitp__allocate_uninitialized(host, bytes);
    if (!order)
        return 0;
    for (size_t i = 0; i < count; i++) {
        order[i] = name;
        name += strlen(name) + 1;
    }
    eitp__sort(order, count, sizeof *order, eitp__compare_names);
    for (size_t i = 0; i < count; i++)
        eitp__buffer_add(sorted, order[i], strlen(order[i]) + 1);
    eitp__release(host, order, bytes);
    return !sorted->failed;
}

EITP__PRIVATE eitp_status eitp__list_directory(const eitp_host *host, const char *path, eitp__buffer *names,
                                               size_t *count, eitp_error *error) {
    eitp_status status = EITP_OK;
    eitp__buffer unsorted;
    eitp__name_collector collector;
    eitp__failures failures = EITP__ZERO;
    int code;
    eitp__buffer_clear(names);
    eitp__buffer_init(&unsorted, host);
    collector.names = &unsorted;
    do {
        eitp__buffer_clear(&unsorted);
        collector.count = 0;
        code = host->files.list(host->files.user, path, eitp__collect_name, &collector);
    } while (eitp__repeats_call(host, code, &failures));
    if (unsorted.failed || (!code && collector.count && !eitp__sort_names(host, &unsorted, collector.count, names)))
        status = eitp__fail_memory(error, unsorted.size, "the names in a directory");
    else if (code)
        status = eitp__fail_file(error, code, "list the directory", path);
    eitp__buffer_release(&unsorted);
    if (status)
        eitp__buffer_clear(names);
    else
        *count = collector.count;
    return status;
}

EITP__PRIVATE char *eitp__absolute_path(const eitp_host *host, const char *path) {
    char absolute[4096];
    const eitp_files *files = &host->files;
    const int is_known = files->absolute && !files->absolute(files->user, path, absolute, sizeof absolute);
    return eitp__copy_text(host, is_known ? absolute : path);
}

EITP__PRIVATE char *eitp__join_path(const eitp_host *host, const char *directory, const char *name) {
    size_t head = strlen(directory), tail = strlen(name), slash = head && directory[head - 1] != '/';
    char *path = (char *)eitp__allocate_uninitialized(host, head + slash + tail + 1);
    if (!path)
        return NULL;
    memcpy(path, directory, head);
    if (slash)
        path[head] = '/';
    memcpy(path + head + slash, name, tail + 1);
    return path;
}

EITP__PRIVATE eitp_status eitp__path_in(const eitp_host *host, const char *directory, const char *name, char **path,
                                        eitp_error *error) {
    *path = eitp__join_path(host, directory, name);
    return *path ? EITP_OK : eitp__fail_memory(error, strlen(directory) + strlen(name) + 2, "a path");
}

EITP__PRIVATE uint64_t eitp__tree_bytes(const eitp_host *host, const char *path) {
    eitp_path_info info = EITP__ZERO;
    eitp__buffer names;
    size_t count = 0, offset = 0;
    uint64_t bytes;
    if (eitp__path_info(host, path, &info, NULL) || info.kind != EITP_PATH_DIRECTORY)
        return info.size;
    bytes = 0;
    eitp__buffer_init(&names, host);
    if (eitp__list_directory(host, path, &names, &count, NULL))
        count = 0;
    for (size_t i = 0; i < count; i++) {
        char *inner = eitp__join_path(host, path, names.data + offset);
        bytes += inner ? eitp__tree_bytes(host, inner) : 0;
        offset += strlen(names.data + offset) + 1;
        eitp__release_text(host, inner);
    }
    eitp__buffer_release(&names);
    return bytes;
}

EITP__PRIVATE eitp_status eitp__store_text(const eitp_host *host, const char *directory, const char *name,
                                           eitp__buffer *text, int replaces, eitp_error *error) {
    char *path = directory ? eitp__join_path(host, directory, name) : eitp__copy_text(host, name);
    eitp_status status;
    if (!path || text->failed)
        status = eitp__fail_memory(error, text->size, name);
    else if (replaces)
        status = eitp__replace_file(host, path, text->data, text->size, error);
    else
        status = eitp__write_file(host, path, text->data, text->size, error);
    eitp__buffer_release(text);
    eitp__release_text(host, path);
    return status;
}
