#include "result_file.h"

#include "files.h"
#include "output.h"
#include "process.h"

#include <fcntl.h>
#include <unistd.h>

/* The number of successive links that Linux follows. */
enum { MOST_LINKS = 40 };

/* Returns the target of a symbolic link in a new string, relative to the working directory, or NULL if it is not a
   link. */
static char *read_link(const char *path) {
    char content[4096];
    const ssize_t size = readlink(path, content, sizeof content - 1);
    char *parent, *target;
    if (size < 0 || (size_t)size >= sizeof content - 1)
        return NULL;
    content[size] = 0;
    if (*content == '/')
        return command_copy(content);
    parent = files_parent(path);
    target = files_join(parent, content);
    free(parent);
    return target;
}

/* Returns the descriptor of this process that a path names, or -1. */
static int descriptor_of(const char *path) {
    static const char *const directories[] = {"/dev/fd/", "/proc/self/fd/"};
    for (size_t i = 0; i < COMMAND_COUNT(directories); i++) {
        const size_t length = strlen(directories[i]);
        if (!strncmp(path, directories[i], length) && path[length] >= '0' && path[length] <= '9')
            return atoi(path + length);
    }
    return -1;
}

/* Follows links up to a descriptor: its link in /proc leads to a file that must be written at the descriptor's
   position, not replaced. */
static char *follow_links(const char *path, int *descriptor, eitp_error *error) {
    char *target = command_copy(path);
    for (int links = 0; links <= MOST_LINKS; links++) {
        char *next;
        *descriptor = descriptor_of(target);
        next = *descriptor < 0 ? read_link(target) : NULL;
        if (!next)
            return target;
        free(target);
        target = next;
    }
    free(target);
    files_fail(error, ELOOP, "write", path);
    return NULL;
}

char *result_file_target(const char *path, eitp_error *error) {
    int descriptor;
    return follow_links(path, &descriptor, error);
}

/* Returns an errno value; ECANCELED after a request to stop. */
static int write_descriptor(int descriptor, const char *data, size_t size) {
    for (size_t at = 0; at < size;) {
        const ssize_t done = write(descriptor, data + at, size - at);
        if (done > 0)
            at += (size_t)done;
        else if (!done || errno != EINTR)
            return done ? errno : EIO;
        else if (process_stop_signal())
            return ECANCELED;
    }
    return 0;
}

/* Opening a pipe waits for its reader, as in a shell. */
static int write_into(const char *path, const char *data, size_t size) {
    int descriptor, code, closed;
    do
        descriptor = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    while (descriptor < 0 && errno == EINTR && !process_stop_signal());
    if (descriptor < 0)
        return errno == EINTR ? ECANCELED : errno;
    code = write_descriptor(descriptor, data, size);
    closed = close(descriptor) ? errno : 0;
    return code ? code : closed;
}

static eitp_status fail_unless_written(int code, const char *path, eitp_error *error) {
    if (code == ECANCELED)
        return command_fail(error, EITP_ERROR_INTERRUPTED, "stopped by %s while writing '%s'", process_stop_name(),
                            path);
    return code ? files_fail(error, code, "write", path) : EITP_OK;
}

eitp_status result_file_write(const char *path, const void *data, size_t size, int *is_output, eitp_error *error) {
    int descriptor;
    char *target = follow_links(path, &descriptor, error);
    eitp_status status = EITP_OK;
    if (!target)
        return error->status;
    if (is_output)
        *is_output = descriptor == STDOUT_FILENO;
    if (descriptor == STDOUT_FILENO)
        output_result((const char *)data, size);
    else if (descriptor >= 0)
        status = fail_unless_written(write_descriptor(descriptor, (const char *)data, size), path, error);
    else if (files_info(target).kind == EITP_PATH_OTHER)
        status = fail_unless_written(write_into(target, (const char *)data, size), path, error);
    else
        status = files_replace(target, data, size, error);
    free(target);
    return status;
}

/* ---- Streams ---- */

/* Opens the target of the path; *code is an errno value. A descriptor is duplicated, so that closing it is harmless. */
static int open_target(result_stream *stream, int descriptor, int *code) {
    int opened;
    if (descriptor < 0 && files_info(stream->target).kind != EITP_PATH_OTHER)
        stream->partial = command_format("%s.partial", stream->target);
    do {
        if (descriptor >= 0)
            opened = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
        else if (stream->partial)
            opened = open(stream->partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        else
            opened = open(stream->target, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    } while (opened < 0 && errno == EINTR && !process_stop_signal());
    *code = opened >= 0 ? 0 : errno == EINTR ? ECANCELED : errno;
    return opened;
}

eitp_status result_stream_open(result_stream *stream, const char *path, eitp_error *error) {
    int descriptor = -1, code;
    memset(stream, 0, sizeof *stream);
    if (!path)
        return EITP_OK;
    stream->target = follow_links(path, &descriptor, error);
    if (!stream->target)
        return error->status;
    if (descriptor == STDOUT_FILENO)
        return EITP_OK;
    stream->path = path;
    descriptor = open_target(stream, descriptor, &code);
    if (descriptor >= 0) {
        stream->file = fdopen(descriptor, "w");
        if (stream->file)
            return EITP_OK;
        code = errno;
        close(descriptor);
    }
    return fail_unless_written(code, path, error);
}

eitp_status result_stream_write(result_stream *stream, const char *data, size_t size, eitp_error *error) {
    if (!stream->path) {
        output_result(data, size);
        return EITP_OK;
    }
    errno = 0;
    if (fwrite(data, 1, size, stream->file) == size)
        return EITP_OK;
    return fail_unless_written(errno ? errno : EIO, stream->path, error);
}

eitp_status result_stream_flush(result_stream *stream, int *is_closed, eitp_error *error) {
    *is_closed = !stream->path && !output_flush();
    if (!stream->path || !fflush(stream->file))
        return EITP_OK;
    return fail_unless_written(errno, stream->path, error);
}

/* Moves the file to its place once it is on the disk. Returns an errno value. */
static int replace_target(const result_stream *stream) {
    const eitp_host host = command_host();
    char *parent;
    int code = host.files.rename(host.files.user, stream->partial, stream->target);
    if (code)
        return code;
    parent = files_parent(stream->target);
    code = host.files.sync_directory(host.files.user, parent);
    free(parent);
    return code;
}

eitp_status result_stream_finish(result_stream *stream, eitp_error *error) {
    int code = 0;
    if (!stream->path)
        return EITP_OK;
    errno = 0;
    if (fflush(stream->file) || ferror(stream->file) || (stream->partial && fsync(fileno(stream->file))))
        code = errno ? errno : EIO;
    if (fclose(stream->file) && !code)
        code = errno;
    stream->file = NULL;
    if (stream->partial && !code)
        code = replace_target(stream);
    if (stream->partial && code)
        files_remove(stream->partial);
    free(stream->partial);
    stream->partial = NULL;
    return fail_unless_written(code, stream->path, error);
}

void result_stream_discard(result_stream *stream) {
    if (stream->file)
        fclose(stream->file);
    if (stream->partial)
        files_remove(stream->partial);
    free(stream->partial);
    free(stream->target);
    memset(stream, 0, sizeof *stream);
}
