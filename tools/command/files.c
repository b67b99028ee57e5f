#include "files.h"

#include "output.h"
#include "process.h"

#include <unistd.h>

/* ---- The host: the default host, but a request to stop makes reads and allocations fail ---- */

/* Returns the root under which system files are looked up first, or NULL. */
static const char *system_root(void) {
    const char *root = getenv("EITP_SYSTEM_ROOT");
    return root && *root ? root : NULL;
}

/* Callback of a thread before it uses a file. */
static __thread struct {
    void (*call)(void *user);
    void *user;
} watcher;

void files_watch(void (*call)(void *user), void *user) {
    watcher.call = call;
    watcher.user = user;
}

static void notify_watcher(void) {
    if (watcher.call)
        watcher.call(watcher.user);
}

static int open_watched(void *user, const char *path, eitp_file_mode mode, void **file) {
    const eitp_host host = eitp_host_default();
    notify_watcher();
    return host.files.open(user, path, mode, file);
}

static int write_watched(void *user, void *file, uint64_t offset, const void *data, size_t size, size_t *done) {
    const eitp_host host = eitp_host_default();
    notify_watcher();
    return host.files.write(user, file, offset, data, size, done);
}

static void wait_watched(void *user, double seconds) {
    const eitp_host host = eitp_host_default();
    notify_watcher();
    host.files.wait(user, seconds);
}

static int read_unless_cancelled(void *user, void *file, uint64_t offset, void *data, size_t size, size_t *done) {
    const eitp_host host = eitp_host_default();
    notify_watcher();
    *done = 0;
    return process_is_cancelled(PROCESS_CANCEL_READING) ? ECANCELED
                                                        : host.files.read(user, file, offset, data, size, done);
}

static void *allocate_unless_cancelled(void *user, size_t size, size_t alignment) {
    const eitp_host host = eitp_host_default();
    return process_is_cancelled(PROCESS_CANCEL_ALLOCATING) ? NULL : host.allocator.allocate(user, size, alignment);
}

eitp_host command_host(void) {
    eitp_host host = eitp_host_default();
    host.log = output_log_sink();
    host.system_root = system_root();
    host.files.open = open_watched;
    host.files.read = read_unless_cancelled;
    host.files.write = write_watched;
    host.files.wait = wait_watched;
    host.allocator.allocate = allocate_unless_cancelled;
    return host;
}

char *files_join(const char *directory, const char *name) {
    size_t length = strlen(directory);
    return command_format("%s%s%s", directory, length && directory[length - 1] == '/' ? "" : "/", name);
}

char *files_of_system(const char *path) {
    char *below = system_root() ? files_join(system_root(), path + (*path == '/')) : NULL;
    if (below && files_info(below).kind != EITP_PATH_MISSING)
        return below;
    free(below);
    return command_copy(path);
}

char *files_parent(const char *path) {
    char *parent = command_copy(path);
    size_t length = strlen(parent);
    while (length > 1 && parent[length - 1] == '/')
        length--;
    while (length && parent[length - 1] != '/')
        length--;
    while (length > 1 && parent[length - 1] == '/')
        length--;
    if (!length) {
        free(parent);
        return command_copy(".");
    }
    parent[length] = 0;
    return parent;
}

eitp_path_info files_info(const char *path) {
    const eitp_host host = command_host();
    eitp_path_info info;
    memset(&info, 0, sizeof info);
    if (host.files.info(host.files.user, path, &info))
        info.kind = EITP_PATH_MISSING;
    return info;
}

int files_is_file(const char *directory, const char *name) {
    char *path = files_join(directory, name);
    int is_file = files_info(path).kind == EITP_PATH_FILE;
    free(path);
    return is_file;
}

int files_is_gguf(const char *path) {
    char magic[4] = {0};
    size_t done = 0;
    FILE *file = files_info(path).kind == EITP_PATH_FILE ? fopen(path, "rb") : NULL;
    if (file) {
        done = fread(magic, 1, sizeof magic, file);
        fclose(file);
    }
    return done == sizeof magic && !memcmp(magic, "GGUF", sizeof magic);
}

/* EITP_ERROR_ARGUMENT for a path that the user must correct, rather than a disk failure. */
static eitp_status status_of(int code) {
    return code == ENOENT || code == ENOTDIR || code == EISDIR || code == EEXIST || code == ENXIO ||
                   code == ENAMETOOLONG || code == ELOOP
               ? EITP_ERROR_ARGUMENT
               : EITP_ERROR_IO;
}

eitp_status files_fail(eitp_error *error, int code, const char *action, const char *path) {
    return command_fail(error, status_of(code), "cannot %s '%s': %s", action, path, strerror(code));
}

/* Reads an open file to its end. */
static int files_read_open(const eitp_files *files, void *file, size_t limit, text_buffer *content) {
    char piece[8192];
    for (;;) {
        size_t done = 0;
        int code = files->read(files->user, file, content->size, piece, sizeof piece, &done);
        if (code)
            return code;
        text_add(content, piece, done);
        if (content->size > limit)
            return EFBIG;
        if (!done)
            return 0;
    }
}

eitp_status files_read(const char *path, size_t limit, text_buffer *content, eitp_error *error) {
    const eitp_host host = command_host();
    void *file;
    int code = host.files.open(host.files.user, path, EITP_FILE_READ, &file);
    if (code)
        return files_fail(error, code, "read", path);
    code = files_read_open(&host.files, file, limit, content);
    host.files.close(host.files.user, file);
    if (code == EFBIG)
        return command_fail(error, EITP_ERROR_FORMAT, "'%s' is larger than %zu bytes; check the path", path, limit);
    return code ? files_fail(error, code, "read", path) : EITP_OK;
}

eitp_status files_read_input(size_t limit, text_buffer *content, eitp_error *error) {
    char piece[8192];
    size_t done;
    text_add(content, "", 0);
    while ((done = fread(piece, 1, sizeof piece, stdin)) > 0) {
        text_add(content, piece, done);
        if (content->size > limit)
            return command_fail(error, EITP_ERROR_ARGUMENT, "standard input exceeds %zu bytes; use smaller input",
                                limit);
    }
    return ferror(stdin) ? files_fail(error, errno, "read", "standard input") : EITP_OK;
}

static eitp_status read_input_piece(void *user, const char **text, size_t *size, eitp_error *error) {
    static char piece[65536];
    ssize_t done;
    (void)user;
    do {
        if (process_stop_signal())
            return command_fail(error, EITP_ERROR_INTERRUPTED, "stopped by %s while reading standard input",
                                process_stop_name());
        done = read(STDIN_FILENO, piece, sizeof piece);
    } while (done < 0 && errno == EINTR);
    if (done < 0)
        return files_fail(error, errno, "read", "standard input");
    *text = piece;
    *size = (size_t)done;
    return EITP_OK;
}

eitp_text_source files_input(void) {
    eitp_text_source source;
    source.user = NULL;
    source.read = read_input_piece;
    return source;
}

static int files_write_all(const eitp_files *files, void *file, const void *data, size_t size) {
    for (size_t at = 0; at < size;) {
        size_t done = 0;
        int code = files->write(files->user, file, at, (const char *)data + at, size - at, &done);
        if (code || !done)
            return code ? code : EIO;
        at += done;
    }
    return files->sync(files->user, file);
}

eitp_status files_replace(const char *path, const void *data, size_t size, eitp_error *error) {
    const eitp_host host = command_host();
    char *partial = command_format("%s.partial", path), *parent = files_parent(path);
    void *file;
    int code = host.files.open(host.files.user, partial, EITP_FILE_REPLACE, &file);
    if (!code) {
        int closed;
        code = files_write_all(&host.files, file, data, size);
        closed = host.files.close(host.files.user, file);
        code = code ? code : closed;
        if (!code)
            code = host.files.rename(host.files.user, partial, path);
        if (code)
            files_remove(partial);
        else
            code = host.files.sync_directory(host.files.user, parent);
    }
    free(partial);
    free(parent);
    return code ? files_fail(error, code, "write", path) : EITP_OK;
}

/* Removes a directory and its parents, `count` in total, if they are empty. */
static void remove_directories(const char *path, int count) {
    char *directory = command_copy(path);
    for (int i = 0; i < count; i++) {
        char *parent = files_parent(directory);
        files_remove(directory);
        free(directory);
        directory = parent;
    }
    free(directory);
}

eitp_status files_create_directories(const char *path, int *created, eitp_error *error) {
    const eitp_host host = command_host();
    int code = host.files.make_directory(host.files.user, path);
    *created = 0;
    if (code == ENOENT) {
        char *parent = files_parent(path);
        eitp_status status = EITP_OK;
        /* A path that is its own parent, or whose parent exists, cannot be created. */
        if (strcmp(parent, path) && files_info(parent).kind == EITP_PATH_MISSING)
            status = files_create_directories(parent, created, error);
        if (!status)
            code = host.files.make_directory(host.files.user, path);
        if (code && !status)
            remove_directories(parent, *created);
        free(parent);
        if (status)
            return status;
    }
    if (code == EEXIST && files_info(path).kind == EITP_PATH_DIRECTORY)
        return EITP_OK;
    if (code) {
        *created = 0;
        return command_fail(error, status_of(code), "cannot create the directory '%s': %s; choose another", path,
                            strerror(code));
    }
    ++*created;
    return EITP_OK;
}

void files_remove(const char *path) {
    const eitp_host host = command_host();
    host.files.remove(host.files.user, path);
}
