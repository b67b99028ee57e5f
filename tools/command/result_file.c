#include "result_file.h"

#include "files.h"
#include "output.h"
#include "process.h"

#include <fcntl.h>
#include <unistd.h>

/* As many links in a row as Linux follows. */
enum { MOST_LINKS = 40 };

/* What a symbolic link contains, as a new text relative to the working directory; NULL: not a link. */
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

/* The descriptor of this process that a path names; -1: none. */
static int descriptor_of(const char *path) {
    static const char *const directories[] = {"/dev/fd/", "/proc/self/fd/"};
    for (size_t i = 0; i < COMMAND_COUNT(directories); i++) {
        const size_t length = strlen(directories[i]);
        if (!strncmp(path, directories[i], length) && path[length] >= '0' && path[length] <= '9')
            return atoi(path + length);
    }
    return -1;
}

/* Follows links up to a descriptor: its link in /proc leads to a file that is written where the descriptor is, not
   replaced. */
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

/* A pipe waits here for its reader, as in a shell. */
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
