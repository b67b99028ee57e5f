/*
 * Directories that programs create, such as a model's: whole or not at all.
 *
 * A directory that does not exist yet is written as a pending directory next to its path, locked by the process that
 * writes it, and appears by one rename. If the path exists already (it may be a link, a mount or not empty), files are
 * moved into it one by one from a directory inside it. A disk that loses power may keep any subset of the name changes
 * since the last sync, so changes that must come first are synced first.
 */
#include "base/files.h"
#include "io/pending_directory.h"
#include "io/io.h"

/* Name of the pending directory inside an existing directory. A run removes it too, along with its own file of that
   name. */
#define EITP__INNER_PARTIAL ".eitp.partial"

/* Number of times that other processes may remove or create a pending directory between two calls. */
#define EITP__MAX_ATTEMPTS 16

typedef struct eitp__new_directory {
    const eitp_host *host;
    eitp__pending_directory pending; /* with `is_inside`, its `partial` is in `path` */
    int is_inside;
    int was_interrupted; /* an earlier process moved some or none of its files to `path` */
    int parents;         /* number of directories above `path` that were created */
    const eitp_directory_config *config;
    void *lock;
    int has_lock;
} eitp__new_directory;

/* ---- The lock ---- */

static eitp_status eitp__fail_busy(const eitp__new_directory *created, eitp_error *error) {
    return eitp__fail(error, EITP_ERROR_ARGUMENT,
                      "another process is writing to '%s'; wait for it, or choose another directory",
                      created->pending.path);
}

static void eitp__new_unlock(eitp__new_directory *created) {
    const eitp_files *files = &created->host->files;
    if (created->has_lock && files->unlock)
        files->unlock(files->user, created->lock);
    created->has_lock = 0;
}

/* Locks a directory; sets *is_missing if it does not exist. Other failures to lock are ignored, as for runs. */
static eitp_status eitp__new_lock(eitp__new_directory *created, const char *path, int *is_missing, eitp_error *error) {
    const eitp_files *files = &created->host->files;
    const int code = files->lock ? files->lock(files->user, path, &created->lock) : 0;
    created->has_lock = files->lock && !code;
    *is_missing = code == ENOENT;
    return code == EWOULDBLOCK ? eitp__fail_busy(created, error) : EITP_OK;
}

/* ---- Next to a path that does not exist ---- */

/*
 * Locks the pending directory. *is_locked is 0 if it was removed or replaced in the meantime. The process that holds
 * the lock of the directory at `partial` owns it; no other process renames or removes it.
 */
static eitp_status eitp__new_try_lock(eitp__new_directory *created, uint64_t identity, int *is_locked,
                                      eitp_error *error) {
    eitp_path_info info = EITP__ZERO;
    int is_missing;
    eitp_status status = eitp__new_lock(created, created->pending.partial, &is_missing, error);
    if (!status)
        status = eitp__path_info(created->host, created->pending.partial, &info, error);
    *is_locked =
        !status && !is_missing && info.kind == EITP_PATH_DIRECTORY && !info.is_link && info.identity == identity;
    return status;
}

/* Creates and locks the pending directory, after removing the leftovers of a killed process. */
static eitp_status eitp__new_begin_beside(eitp__new_directory *created, eitp_error *error) {
    const eitp_host *host = created->host;
    const char *partial = created->pending.partial;
    eitp_status status = EITP_OK;
    for (int attempt = 0; attempt < EITP__MAX_ATTEMPTS && !status; attempt++) {
        eitp_path_info info = EITP__ZERO;
        int is_new = 0, is_locked = 0;
        status = eitp__make_new_directory(host, partial, &is_new, error);
        if (!status)
            status = eitp__path_info(host, partial, &info, error);
        if (!status && info.kind == EITP_PATH_DIRECTORY && !info.is_link)
            status = eitp__new_try_lock(created, info.identity, &is_locked, error);
        else if (!status)
            is_locked = !is_new; /* a link or a file has no owner */
        created->pending.exists = is_locked && is_new;
        if (!status && is_locked && !is_new)
            status = eitp__remove_tree(host, partial, error);
        else if (status && is_new)
            host->files.remove(host->files.user, partial); /* unless another process writes to it */
        if (status || created->pending.exists)
            return status;
        eitp__new_unlock(created);
    }
    return status ? status : eitp__fail_busy(created, error);
}

/* Renames the pending directory to its path, unless the path exists by now. */
static eitp_status eitp__new_install(eitp__new_directory *created, eitp_error *error) {
    eitp_path_info info = EITP__ZERO;
    eitp_status status = eitp__path_info(created->host, created->pending.path, &info, error);
    if (!status && (info.kind != EITP_PATH_MISSING || info.is_link))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "another process created '%s'; choose another directory",
                          created->pending.path);
    return status ? status : eitp__pending_directory_install(&created->pending, error);
}

/* ---- In an existing directory ---- */

static eitp_status eitp__new_has(const eitp__new_directory *created, const char *directory, const char *name, int *has,
                                 eitp_error *error) {
    eitp_path_info info = EITP__ZERO;
    char *path = eitp__join_path(created->host, directory, name);
    eitp_status status = path ? eitp__path_info(created->host, path, &info, error)
                              : eitp__fail_memory(error, strlen(directory), "a path");
    *has = !status && (info.kind != EITP_PATH_MISSING || info.is_link);
    eitp__release_text(created->host, path);
    return status;
}

/* Fails if the directory has a file with this name, unless an interrupted process may have moved it there. */
static eitp_status eitp__new_check_name(const eitp__new_directory *created, const char *name, eitp_error *error) {
    int has = 0;
    eitp_status status =
        created->was_interrupted ? EITP_OK : eitp__new_has(created, created->pending.path, name, &has, error);
    if (has)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "'%s' already has %s; choose another directory",
                          created->pending.path, name);
    return status;
}

static eitp_status eitp__new_begin_inside(eitp__new_directory *created, eitp_error *error) {
    const eitp_host *host = created->host;
    eitp_path_info info = EITP__ZERO;
    int is_missing;
    eitp_status status = eitp__new_lock(created, created->pending.path, &is_missing, error);
    eitp__release_text(host, created->pending.partial);
    created->pending.partial = eitp__join_path(host, created->pending.path, EITP__INNER_PARTIAL);
    if (!status && !created->pending.partial)
        status = eitp__fail_memory(error, strlen(created->pending.path), "a path");
    if (!status)
        status = eitp__path_info(host, created->pending.partial, &info, error);
    created->was_interrupted = info.kind == EITP_PATH_DIRECTORY && !info.is_link;
    for (size_t i = created->config->name_count; i > 0 && !status; i--)
        status = eitp__new_check_name(created, created->config->names[i - 1], error);
    /* The pending directory marks the files of an interrupted process; without it they would count as the user's. */
    if (!status && created->was_interrupted)
        status = eitp__remove_entries(host, created->pending.partial, error);
    else if (!status)
        status = eitp__remove_tree(host, created->pending.partial, error);
    if (!status && !created->was_interrupted)
        status = eitp__make_directory(host, created->pending.partial, error);
    created->pending.exists = !status;
    return status;
}

/* Returns the position of a name in the order of moving: names of the configuration are last. */
static size_t eitp__new_order(const eitp__new_directory *created, const char *name) {
    for (size_t i = 0; i < created->config->name_count; i++) {
        if (!strcmp(created->config->names[i], name))
            return i + 1;
    }
    return 0;
}

/* Lists the names in the pending directory in the order of moving, each zero-terminated. */
static eitp_status eitp__new_list(const eitp__new_directory *created, eitp__buffer *ordered, size_t *count,
                                  eitp_error *error) {
    eitp__buffer names;
    eitp_status status;
    eitp__buffer_init(&names, created->host);
    status = eitp__list_directory(created->host, created->pending.partial, &names, count, error);
    for (size_t order = 0; order <= created->config->name_count && !status; order++) {
        const char *name = names.data;
        for (size_t i = 0; i < *count; i++, name += strlen(name) + 1) {
            if (eitp__new_order(created, name) == order)
                eitp__buffer_add(ordered, name, strlen(name) + 1);
        }
    }
    if (!status && ordered->failed)
        status = eitp__fail_memory(error, names.size, "the names in a directory");
    eitp__buffer_release(&names);
    return status;
}

/* Moves one file. A file required for loading is moved after the previous ones are durable. */
static eitp_status eitp__new_move(const eitp__new_directory *created, const char *name, eitp_error *error) {
    const eitp_host *host = created->host;
    eitp_path_info info = EITP__ZERO;
    char *from = eitp__join_path(host, created->pending.partial, name);
    char *to = eitp__join_path(host, created->pending.path, name);
    eitp_status status = from && to ? eitp__path_info(host, to, &info, error)
                                    : eitp__fail_memory(error, strlen(created->pending.partial), "a path");
    if (!status && eitp__new_order(created, name))
        status = eitp__sync_directory(host, created->pending.path, error);
    /* Unlike a file, a directory of an interrupted process is not replaced by a rename. */
    if (!status && info.kind == EITP_PATH_DIRECTORY)
        status = eitp__remove_tree(host, to, error);
    if (!status)
        status = eitp__rename_path(host, from, to, error);
    eitp__release_text(host, from);
    eitp__release_text(host, to);
    return status;
}

/* Removes one file. The removal of a file required for loading is durable before others follow. */
static eitp_status eitp__new_remove(const eitp__new_directory *created, const char *name, eitp_error *error) {
    const eitp_host *host = created->host;
    char *path = eitp__join_path(host, created->pending.path, name);
    eitp_status status =
        path ? eitp__remove_tree(host, path, error) : eitp__fail_memory(error, strlen(created->pending.path), "a path");
    if (!status && eitp__new_order(created, name))
        status = eitp__sync_directory(host, created->pending.path, error);
    eitp__release_text(host, path);
    return status;
}

/* Removes the first `count` of the names from the directory, last to first, before the pending directory is removed. */
static void eitp__new_move_back(const eitp__new_directory *created, const char *names, size_t count) {
    const size_t moved = count;
    for (; count > 0; count--) {
        const char *name = names;
        for (size_t i = 1; i < count; i++)
            name += strlen(name) + 1;
        eitp__new_remove(created, name, NULL);
    }
    if (moved)
        eitp__sync_directory(created->host, created->pending.path, NULL);
}

/* Prepares the directory: makes the pending directory durable, and removes the required files of an interrupted
   process, which may have had different content. */
static eitp_status eitp__new_begin_moving(const eitp__new_directory *created, eitp_error *error) {
    eitp_status status = eitp__sync_directory(created->host, created->pending.partial, error);
    if (!status)
        status = eitp__sync_directory(created->host, created->pending.path, error);
    for (size_t i = created->config->name_count; i > 0 && !status && created->was_interrupted; i--)
        status = eitp__new_remove(created, created->config->names[i - 1], error);
    return status;
}

/* Removes the pending directory. While it exists, the next call treats the files as leftovers of an interrupted
   process. Without it they are final: they are durable, even if the removal is not. */
static eitp_status eitp__new_end_moving(const eitp__new_directory *created, eitp_error *error) {
    eitp_status status = eitp__sync_directory(created->host, created->pending.path, error);
    if (!status)
        status = eitp__remove_tree(created->host, created->pending.partial, error);
    if (!status)
        eitp__sync_directory(created->host, created->pending.path, NULL);
    return status;
}

/* Moves all files; after a failure removes the moved ones. */
static eitp_status eitp__new_move_all(eitp__new_directory *created, eitp_error *error) {
    eitp__buffer names;
    const char *name;
    size_t count = 0, moved = 0;
    eitp_status status;
    eitp__buffer_init(&names, created->host);
    status = eitp__new_list(created, &names, &count, error);
    name = names.data;
    for (size_t i = 0; i < count && !status; i++, name += strlen(name) + 1)
        status = eitp__new_check_name(created, name, error);
    if (!status)
        status = eitp__new_begin_moving(created, error);
    name = names.data;
    for (; moved < count && !status; moved += !status, name += strlen(name) + 1)
        status = eitp__new_move(created, name, error);
    if (!status)
        status = eitp__new_end_moving(created, error);
    if (status)
        eitp__new_move_back(created, names.data, moved);
    eitp__buffer_release(&names);
    return status;
}

/* ---- Both cases ---- */

static eitp_status eitp__new_begin(eitp__new_directory *created, const char *path, eitp_error *error) {
    const eitp_host *host = created->host;
    eitp_path_info info = EITP__ZERO;
    char *parent;
    eitp_status status = eitp__pending_directory_name(&created->pending, host, path, error);
    if (!status)
        status = eitp__path_info(host, created->pending.path, &info, error);
    if (status)
        return status;
    created->is_inside = info.kind != EITP_PATH_MISSING;
    if (info.is_link && info.kind == EITP_PATH_MISSING)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "cannot create the directory '%s': it is a dangling symbolic link; remove it or choose "
                          "another name",
                          created->pending.path);
    if (info.kind == EITP_PATH_FILE || info.kind == EITP_PATH_OTHER)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "cannot create the directory '%s': a file has that name; remove it or choose another name",
                          created->pending.path);
    if (created->is_inside)
        return eitp__new_begin_inside(created, error);
    parent = eitp__parent_directory(host, created->pending.path);
    status = parent ? eitp__count_missing(host, parent, &created->parents, error)
                    : eitp__fail_memory(error, strlen(path), "a path");
    if (!status)
        status = eitp__make_directories(host, parent, error);
    eitp__release_text(host, parent);
    if (!status)
        status = eitp__new_begin_beside(created, error);
    if (status && status != EITP_ERROR_MEMORY && error && !strstr(error->message, path))
        eitp__fail_prefix(error, status, "'%s'", path);
    return status;
}

/* Cleans up after a failure, and releases everything. The pending directory still marks the files of an interrupted
   process. */
static void eitp__new_end(eitp__new_directory *created, eitp_status status) {
    const eitp_host *host = created->host;
    char *parent = status && created->pending.path ? eitp__parent_directory(host, created->pending.path) : NULL;
    if (status && created->pending.exists && created->was_interrupted) {
        eitp__remove_entries(host, created->pending.partial, NULL);
        created->pending.exists = 0;
    }
    eitp__pending_directory_abandon(&created->pending);
    eitp__new_unlock(created);
    if (parent)
        eitp__remove_directories(host, parent, created->parents);
    eitp__release_text(host, parent);
}

eitp_directory_config eitp_directory_config_default(void) {
    eitp_directory_config config = EITP__ZERO;
    return config;
}

eitp_status eitp_directory_create(const eitp_host *host, const char *path, const eitp_directory_config *config,
                                  eitp_error *error) {
    eitp__new_directory created;
    eitp_status status;
    if (!host || !path || !config || !config->fill || (config->name_count && !config->names))
        return eitp__fail_null(error, "eitp_directory_create", "host, path, config, fill and names");
    memset(&created, 0, sizeof created);
    created.host = host;
    created.config = config;
    status = eitp__new_begin(&created, path, error);
    if (!status)
        status = config->fill(config->user, created.pending.partial, error);
    if (!status)
        status = created.is_inside ? eitp__new_move_all(&created, error) : eitp__new_install(&created, error);
    eitp__new_end(&created, status);
    return status;
}
