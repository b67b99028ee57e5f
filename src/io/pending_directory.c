#include "io/pending_directory.h"

/* Returns "<directory>/.<name><suffix>". */
static char *eitp__hidden_path(const eitp_host *host, const char *directory, const char *name, const char *suffix) {
    eitp__buffer hidden;
    char *path;
    eitp__buffer_init(&hidden, host);
    eitp__buffer_format(&hidden, ".%s%s", name, suffix);
    path = hidden.failed ? NULL : eitp__join_path(host, directory, hidden.data);
    eitp__buffer_release(&hidden);
    return path;
}

EITP__PRIVATE eitp_status eitp__pending_directory_name(eitp__pending_directory *pending, const eitp_host *host,
                                                       const char *path, eitp_error *error) {
    size_t length = strlen(path);
    char *directory = eitp__parent_directory(host, path);
    memset(pending, 0, sizeof *pending);
    pending->host = *host;
    while (length > 1 && path[length - 1] == '/')
        length--;
    pending->path = eitp__copy_bytes(host, path, length);
    if (pending->path && directory) {
        const char *slash = strrchr(pending->path, '/'), *name = slash ? slash + 1 : pending->path;
        pending->partial = eitp__hidden_path(host, directory, name, EITP__PARTIAL_SUFFIX);
        pending->replaced = eitp__hidden_path(host, directory, name, EITP__REPLACED_SUFFIX);
    }
    eitp__release_text(host, directory);
    return pending->partial && pending->replaced ? EITP_OK
                                                 : eitp__fail_memory(error, length, "the path of a directory");
}

/*
 * The way a pending directory replaces an existing directory at its path. Where the system can exchange two names in
 * one step, the earlier directory becomes the pending directory, and the path always leads to a whole directory.
 * Elsewhere two renames are needed, and the earlier directory is first renamed to `replaced`. A process killed between
 * them leaves no directory at `path`, and the next one that searches for a checkpoint renames it back
 * (eitp__checkpoint_restore).
 */
typedef enum eitp__install_method {
    EITP__INSTALL_NEW,
    EITP__INSTALL_EXCHANGED,
    EITP__INSTALL_REPLACED
} eitp__install_method;

static eitp_status eitp__pending_directory_set_aside(const eitp__pending_directory *pending, eitp_error *error) {
    eitp_status status = eitp__remove_tree(&pending->host, pending->replaced, error);
    return status ? status : eitp__rename_path(&pending->host, pending->path, pending->replaced, error);
}

/* Renames the pending directory to its path; on failure the names are as before. */
static eitp_status eitp__pending_directory_rename(const eitp__pending_directory *pending, eitp__install_method *way,
                                                  eitp_error *error) {
    const eitp_host *host = &pending->host;
    eitp_path_info info = EITP__ZERO;
    eitp_status status = eitp__path_info(host, pending->path, &info, error);
    *way = EITP__INSTALL_NEW;
    if (!status && info.kind != EITP_PATH_MISSING)
        *way = eitp__exchange_paths(host, pending->partial, pending->path) ? EITP__INSTALL_EXCHANGED
                                                                           : EITP__INSTALL_REPLACED;
    if (*way == EITP__INSTALL_REPLACED)
        status = eitp__pending_directory_set_aside(pending, error);
    if (status || *way == EITP__INSTALL_EXCHANGED)
        return status;
    status = eitp__rename_path(host, pending->partial, pending->path, error);
    if (status && *way == EITP__INSTALL_REPLACED)
        eitp__rename_path(host, pending->replaced, pending->path, NULL);
    return status;
}

/* Undoes eitp__pending_directory_rename. */
static void eitp__pending_directory_rename_back(const eitp__pending_directory *pending, eitp__install_method way) {
    const eitp_host *host = &pending->host;
    if (way == EITP__INSTALL_EXCHANGED)
        eitp__exchange_paths(host, pending->partial, pending->path);
    else
        eitp__rename_path(host, pending->path, pending->partial, NULL);
    if (way == EITP__INSTALL_REPLACED)
        eitp__rename_path(host, pending->replaced, pending->path, NULL);
    eitp__sync_parent(host, pending->path, NULL); /* before files of the pending directory are removed */
}

EITP__PRIVATE eitp_status eitp__pending_directory_install(eitp__pending_directory *pending, eitp_error *error) {
    const eitp_host *host = &pending->host;
    eitp__install_method way = EITP__INSTALL_NEW;
    eitp_status status = eitp__sync_directory(host, pending->partial, error);
    if (!status)
        status = eitp__pending_directory_rename(pending, &way, error);
    if (status)
        return status;
    status = eitp__sync_parent(host, pending->path, error);
    pending->exists = status != EITP_OK;
    if (status)
        eitp__pending_directory_rename_back(pending, way);
    else if (way != EITP__INSTALL_NEW) /* if this fails, pruning removes it */
        eitp__remove_tree(host, way == EITP__INSTALL_EXCHANGED ? pending->partial : pending->replaced, NULL);
    return status;
}

EITP__PRIVATE void eitp__pending_directory_abandon(eitp__pending_directory *pending) {
    const eitp_host host = pending->host;
    if (pending->exists)
        eitp__remove_tree(&host, pending->partial, NULL);
    eitp__release_text(&host, pending->path);
    eitp__release_text(&host, pending->partial);
    eitp__release_text(&host, pending->replaced);
    memset(pending, 0, sizeof *pending);
}
