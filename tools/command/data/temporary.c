#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for O_TMPFILE */
#endif
#include "data/temporary.h"

#include "files.h"
#include "process.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- The file ---- */

/* Creates an unnamed file if the file system supports it, else a file whose name is removed at once. */
static int create_nameless(const char *directory, char *path) {
    int descriptor = -1;
#ifdef O_TMPFILE
    descriptor = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
#endif
    if (descriptor < 0) {
        descriptor = mkstemp(path);
        if (descriptor >= 0) {
            unlink(path);
            fcntl(descriptor, F_SETFD, FD_CLOEXEC);
        }
    }
    return descriptor;
}

eitp_status temporary_create(temporary_file *t, eitp_error *error) {
    const char *given = getenv("TMPDIR"), *directory = given && *given ? given : "/tmp";
    memset(t, 0, sizeof *t);
    t->path = command_format("%s/eitp-XXXXXX", directory);
    t->descriptor = create_nameless(directory, t->path);
    if (t->descriptor < 0)
        return files_fail(error, errno, "create a temporary file in", directory);
    free(t->path);
    t->path = command_format("%s/(temporary file)", directory);
    t->partial = command_format("%s.partial", t->path);
    return EITP_OK;
}

void temporary_release(temporary_file *t) {
    if (t->partial)
        close(t->descriptor);
    free(t->path);
    free(t->partial);
    memset(t, 0, sizeof *t);
}

/* ---- The host: a handle of the file is the struct itself ---- */

static int is_temporary(const temporary_file *t, const char *path) {
    return !strcmp(path, t->path) || !strcmp(path, t->partial);
}

static int temporary_open(void *user, const char *path, eitp_file_mode mode, void **file) {
    temporary_file *t = (temporary_file *)user;
    const eitp_host host = command_host();
    if (!is_temporary(t, path))
        return host.files.open(host.files.user, path, mode, file);
    if (mode == EITP_FILE_REPLACE && ftruncate(t->descriptor, 0))
        return errno;
    *file = t;
    return 0;
}

static int temporary_close(void *user, void *file) {
    const eitp_host host = command_host();
    return file == user ? 0 : host.files.close(host.files.user, file);
}

static int temporary_size(void *user, void *file, uint64_t *size) {
    const eitp_host host = command_host();
    struct stat found;
    if (file != user)
        return host.files.size(host.files.user, file, size);
    if (fstat(((temporary_file *)file)->descriptor, &found))
        return errno;
    *size = (uint64_t)found.st_size;
    return 0;
}

static int temporary_resize(void *user, void *file, uint64_t size) {
    const eitp_host host = command_host();
    if (file != user)
        return host.files.resize(host.files.user, file, size);
    return ftruncate(((temporary_file *)file)->descriptor, (off_t)size) ? errno : 0;
}

static int temporary_read(void *user, void *file, uint64_t offset, void *data, size_t size, size_t *done) {
    const eitp_host host = command_host();
    ssize_t got;
    *done = 0;
    if (file != user)
        return host.files.read(host.files.user, file, offset, data, size, done);
    if (process_is_cancelled(PROCESS_CANCEL_READING))
        return ECANCELED;
    got = pread(((temporary_file *)file)->descriptor, data, size, (off_t)offset);
    *done = got > 0 ? (size_t)got : 0;
    return got < 0 ? errno : 0;
}

static int temporary_write(void *user, void *file, uint64_t offset, const void *data, size_t size, size_t *done) {
    const eitp_host host = command_host();
    ssize_t put;
    *done = 0;
    if (file != user)
        return host.files.write(host.files.user, file, offset, data, size, done);
    put = pwrite(((temporary_file *)file)->descriptor, data, size, (off_t)offset);
    *done = put > 0 ? (size_t)put : 0;
    return put < 0 ? errno : 0;
}

static void temporary_prefetch(void *user, void *file, uint64_t offset, size_t size) {
    const eitp_host host = command_host();
    if (file != user)
        host.files.prefetch(host.files.user, file, offset, size);
}

static int temporary_info(void *user, const char *path, eitp_path_info *info) {
    const temporary_file *t = (const temporary_file *)user;
    const eitp_host host = command_host();
    struct stat found;
    if (!is_temporary(t, path))
        return host.files.info(host.files.user, path, info);
    memset(info, 0, sizeof *info);
    if (fstat(t->descriptor, &found))
        return errno;
    info->kind = EITP_PATH_FILE;
    info->size = (uint64_t)found.st_size;
    return 0;
}

static int temporary_rename(void *user, const char *from, const char *to) {
    const eitp_host host = command_host();
    return is_temporary((const temporary_file *)user, from) ? 0 : host.files.rename(host.files.user, from, to);
}

static int temporary_remove(void *user, const char *path) {
    const eitp_host host = command_host();
    return is_temporary((const temporary_file *)user, path) ? 0 : host.files.remove(host.files.user, path);
}

/* Does nothing: the file does not survive a reboot anyway. */
static int sync_nothing(void *user, void *file) {
    (void)user, (void)file;
    return 0;
}

static int sync_no_directory(void *user, const char *path) {
    (void)user, (void)path;
    return 0;
}

eitp_host temporary_host(temporary_file *t) {
    eitp_host host = command_host();
    host.files.user = t;
    host.files.open = temporary_open;
    host.files.close = temporary_close;
    host.files.size = temporary_size;
    host.files.resize = temporary_resize;
    host.files.read = temporary_read;
    host.files.write = temporary_write;
    host.files.prefetch = temporary_prefetch;
    host.files.info = temporary_info;
    host.files.rename = temporary_rename;
    host.files.remove = temporary_remove;
    host.files.sync = sync_nothing;
    host.files.sync_directory = sync_no_directory;
    host.files.begin_sync = NULL;
    return host;
}
