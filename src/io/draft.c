#include "io/draft.h"

/* "<directory>/.<name><suffix>". */
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

/* Renames an earlier directory; *exists: there was one. */
static eitp_status eitp__draft_replace(const eitp__draft *draft, int *exists, eitp_error *error) {
    const eitp_host *host = &draft->host;
    eitp_path_info info = EITP__ZERO;
    eitp_status status = eitp__path_info(host, draft->path, &info, error);
    *exists = 0;
    if (status || info.kind == EITP_PATH_MISSING)
        return status;
    status = eitp__remove_tree(host, draft->replaced, error);
    if (!status)
        status = eitp__rename_path(host, draft->path, draft->replaced, error);
    *exists = !status;
    return status;
}

EITP__PRIVATE eitp_status eitp__draft_install(eitp__draft *draft, eitp_error *error) {
    const eitp_host *host = &draft->host;
    int replaces = 0;
    eitp_status status = eitp__sync_directory(host, draft->partial, error);
    if (!status)
        status = eitp__draft_replace(draft, &replaces, error);
    if (status)
        return status;
    status = eitp__rename_path(host, draft->partial, draft->path, error);
    if (!status) {
        status = eitp__sync_parent(host, draft->path, error);
        if (status)
            eitp__rename_path(host, draft->path, draft->partial, NULL);
    }
    if (status && replaces)
        eitp__rename_path(host, draft->replaced, draft->path, NULL);
    if (!status && replaces)
        eitp__remove_tree(host, draft->replaced, NULL); /* or pruning does */
    draft->exists = status != EITP_OK;
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
