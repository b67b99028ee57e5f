#include "base/system_text.h"

#include "base/files.h"

/* Size limit of system files. The longest is the list of mounts on a machine with many containers. */
#define EITP__SYSTEM_TEXT_LIMIT ((size_t)16 << 20)

static int eitp__is_missing(const eitp_error *error) {
    return error->system_code == ENOENT || error->system_code == ENOTDIR;
}

/* Returns the path below host->system_root; NULL if there is none, `path` is already below it, or memory runs out
   (*failed). */
static char *eitp__path_below_root(const eitp_host *host, const char *path, int *failed) {
    const char *root = host->system_root;
    const size_t size = root ? strlen(root) : 0;
    char *below;
    *failed = 0;
    if (!size || (!strncmp(path, root, size) && (path[size] == '/' || root[size - 1] == '/')))
        return NULL;
    below = eitp__join_path(host, root, path + (*path == '/'));
    *failed = !below;
    return below;
}

/* Reads a file below the root, or the machine's own file if it is missing there. */
static eitp_status eitp__read_below_root(const eitp_host *host, const char *path, eitp__buffer *text,
                                         eitp_error *error) {
    int failed;
    char *below = eitp__path_below_root(host, path, &failed);
    eitp_status status;
    if (failed)
        return eitp__fail_memory(error, strlen(path), "a path");
    status = eitp__read_file(host, below ? below : path, EITP__SYSTEM_TEXT_LIMIT, text, error);
    if (status && below && eitp__is_missing(error))
        status = eitp__read_file(host, path, EITP__SYSTEM_TEXT_LIMIT, text, error);
    eitp__release_text(host, below);
    return status;
}

/* Lists *directory if it exists, and releases it if it is missing. */
static eitp_status eitp__list_found(const eitp_host *host, char **directory, eitp__buffer *names, size_t *count,
                                    eitp_error *error) {
    const eitp_status status = eitp__list_directory(host, *directory, names, count, error);
    if (!status)
        return EITP_OK;
    *count = 0;
    if (status == EITP_ERROR_MEMORY || eitp__is_missing(error)) {
        eitp__release_text(host, *directory);
        *directory = NULL;
    }
    return status == EITP_ERROR_MEMORY ? status : EITP_OK;
}

EITP__PRIVATE eitp_status eitp__list_system_directory(const eitp_host *host, const char *path, char **directory,
                                                      eitp__buffer *names, size_t *count, eitp_error *error) {
    eitp_error cause;
    eitp_status status = EITP_OK;
    int failed;
    *count = 0;
    *directory = eitp__path_below_root(host, path, &failed);
    if (*directory)
        status = eitp__list_found(host, directory, names, count, &cause);
    if (!status && !failed && !*directory) {
        *directory = eitp__copy_text(host, path);
        failed = !*directory;
        status = failed ? EITP_OK : eitp__list_found(host, directory, names, count, &cause);
    }
    if (failed)
        return eitp__fail_memory(error, strlen(path), "a path");
    return status ? eitp__fail(error, status, "%s", cause.message) : EITP_OK;
}

EITP__PRIVATE eitp_status eitp__read_system_text(const eitp_host *host, const char *path, eitp__buffer *text,
                                                 eitp_error *error) {
    eitp_error cause;
    eitp_status status = eitp__read_below_root(host, path, text, &cause);
    if (status == EITP_ERROR_MEMORY)
        return eitp__fail(error, status, "%s", cause.message);
    if (status)
        eitp__buffer_add(text, "", 0);
    return text->failed ? eitp__fail_memory(error, 1, path) : EITP_OK;
}

EITP__PRIVATE int eitp__parse_bytes(const char *text, uint64_t *bytes) {
    uint64_t value = 0, unit = 1;
    text += strspn(text, " \t");
    if (*text < '0' || *text > '9')
        return 0;
    for (; *text >= '0' && *text <= '9'; text++) {
        uint64_t digit = (uint64_t)(*text - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return 0;
        value = value * 10 + digit;
    }
    if (!strncmp(text, " kB", 3)) {
        unit = 1024;
        text += 3;
    }
    if ((*text && *text != '\n') || value > UINT64_MAX / unit)
        return 0;
    *bytes = value * unit;
    return 1;
}

EITP__PRIVATE uint64_t eitp__find_bytes(const char *text, const char *name) {
    const size_t size = strlen(name);
    uint64_t bytes = 0;
    while (strncmp(text, name, size)) {
        text = strchr(text, '\n');
        if (!text)
            return 0;
        text++;
    }
    return eitp__parse_bytes(text + size, &bytes) ? bytes : 0;
}
