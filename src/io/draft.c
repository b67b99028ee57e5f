#include "io/draft.h"

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

EITP__PRIVATE eitp_status eitp__draft_name(eitp__draft *draft, const eitp_host *host, const char *path,
                                           eitp_error *error) {
    size_t length = strlen(path);
    char *directory = eitp__parent_directory(host, path);
    memset(draft, 0, sizeof *draft);
    draft->host = *host;
    while (length > 1 && path[length - 1] == '/')
        length--;
    draft->path = eitp__copy_bytes(host, path, length);
    if (draft->path && directory) {
        const char *slash = strrchr(draft->path, '/'), *name = slash ? slash + 1 : draft->path;
        draft->partial = eitp__hidden_path(host, directory, name, EITP__PARTIAL_SUFFIX);
        draft->replaced = eitp__hidden_path(host, directory, name, EITP__REPLACED_SUFFIX);
    }
    eitp__release_text(host, directory);
    return draft->partial && draft->replaced ? EITP_OK : eitp__fail_memory(error, length, "the path of a directory");
}

/*
 * The way a draft replaces an existing directory at its path. Where the system can exchange two names in one step, the
 * earlier directory becomes the draft, and the path always leads to a whole directory. Elsewhere two renames are
 * needed, and the earlier directory is first renamed to `replaced`. A process killed between them leaves no directory
 * at `path`, and the next one that searches for a checkpoint renames it back (eitp__checkpoint_restore).
 */
typedef enum eitp__draft_way { EITP__DRAFT_NEW, EITP__DRAFT_EXCHANGED, EITP__DRAFT_REPLACED } eitp__draft_way;

static eitp_status eitp__draft_set_aside(const eitp__draft *draft, eitp_error *error) {
    eitp_status status = eitp__remove_tree(&draft->host, draft->replaced, error);
    return status ? status : eitp__rename_path(&draft->host, draft->path, draft->replaced, error);
}

/* Renames the draft to its path; on failure the names are as before. */
static eitp_status eitp__draft_rename(const eitp__draft *draft, eitp__draft_way *way, eitp_error *error) {
    const eitp_host *host = &draft->host;
    eitp_path_info info = EITP__ZERO;
    eitp_status status = eitp__path_info(host, draft->path, &info, error);
    *way = EITP__DRAFT_NEW;
    if (!status && info.kind != EITP_PATH_MISSING)
        *way = eitp__exchange_paths(host, draft->partial, draft->path) ? EITP__DRAFT_EXCHANGED : EITP__DRAFT_REPLACED;
    if (*way == EITP__DRAFT_REPLACED)
        status = eitp__draft_set_aside(draft, error);
    if (status || *way == EITP__DRAFT_EXCHANGED)
        return status;
    status = eitp__rename_path(host, draft->partial, draft->path, error);
    if (status && *way == EITP__DRAFT_REPLACED)
        eitp__rename_path(host, draft->replaced, draft->path, NULL);
    return status;
}

/* Undoes eitp__draft_rename. */
static void eitp__draft_rename_back(const eitp__draft *draft, eitp__draft_way way) {
    const eitp_host *host = &draft->host;
    if (way == EITP__DRAFT_EXCHANGED)
        eitp__exchange_paths(host, draft->partial, draft->path);
    else
        eitp__rename_path(host, draft->path, draft->partial, NULL);
    if (way == EITP__DRAFT_REPLACED)
        eitp__rename_path(host, draft->replaced, draft->path, NULL);
    eitp__sync_parent(host, draft->path, NULL); /* before files of the draft are removed */
}

EITP__PRIVATE eitp_status eitp__draft_install(eitp__draft *draft, eitp_error *error) {
    const eitp_host *host = &draft->host;
    eitp__draft_way way = EITP__DRAFT_NEW;
    eitp_status status = eitp__sync_directory(host, draft->partial, error);
    if (!status)
        status = eitp__draft_rename(draft, &way, error);
    if (status)
        return status;
    status = eitp__sync_parent(host, draft->path, error);
    draft->exists = status != EITP_OK;
    if (status)
        eitp__draft_rename_back(draft, way);
    else if (way != EITP__DRAFT_NEW) /* if this fails, pruning removes it */
        eitp__remove_tree(host, way == EITP__DRAFT_EXCHANGED ? draft->partial : draft->replaced, NULL);
    return status;
}

EITP__PRIVATE void eitp__draft_abandon(eitp__draft *draft) {
    const eitp_host host = draft->host;
    if (draft->exists)
        eitp__remove_tree(&host, draft->partial, NULL);
    eitp__release_text(&host, draft->path);
    eitp__release_text(&host, draft->partial);
    eitp__release_text(&host, draft->replaced);
    memset(draft, 0, sizeof *draft);
}
