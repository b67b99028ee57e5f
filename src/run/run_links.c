#include "run/run_links.h"

#include "base/files.h"
#include "run/events.h"

/* What is at a path, found without failing: a link to nothing is missing, as what cannot be looked up. */
static eitp_path_kind eitp__kind_of(const eitp_run *run, const char *path) {
    eitp_path_info info = EITP__ZERO;
    return eitp__path_info(&run->host, path, &info, NULL) ? EITP_PATH_MISSING : info.kind;
}

static int eitp__has_checkpoint(const eitp_run *run, const char *name) {
    char *path = eitp__join_path(&run->host, run->directory, name);
    const int has = path && eitp__kind_of(run, path) == EITP_PATH_DIRECTORY;
    eitp__release_text(&run->host, path);
    return has;
}

/* Replaces the link at `path` by way of a temporary one. A directory or file of that name is not ours. */
static int eitp__replace_link(const eitp_run *run, const char *target, const char *path, const char *temporary) {
    const eitp_files *files = &run->host.files;
    const eitp_path_kind kind = eitp__kind_of(run, path);
    int code;
    if (kind == EITP_PATH_FILE || kind == EITP_PATH_OTHER)
        return EEXIST;
    files->remove(files->user, temporary);
    code = files->link(files->user, target, temporary);
    if (code)
        return code;
    code = files->rename(files->user, temporary, path);
    if (code)
        files->remove(files->user, temporary);
    return code;
}

/* Links `name` to the checkpoint of a step, or removes a link to nothing. Returns an errno. */
static int eitp__link_checkpoint(const eitp_run *run, const char *name, const char *temporary_name, int64_t step) {
    const eitp_files *files = &run->host.files;
    char target[64], *path = eitp__join_path(&run->host, run->directory, name);
    char *temporary = eitp__join_path(&run->host, run->directory, temporary_name);
    int code = path && temporary ? 0 : ENOMEM;
    snprintf(target, sizeof target, "checkpoint-%lld", (long long)step);
    if (!code && step >= 0 && eitp__has_checkpoint(run, target))
        code = eitp__replace_link(run, target, path, temporary);
    else if (!code && eitp__kind_of(run, path) != EITP_PATH_FILE)
        files->remove(files->user, path); /* an older run's; a directory with files in it stays */
    eitp__release_text(&run->host, path);
    eitp__release_text(&run->host, temporary);
    return code;
}

EITP__PRIVATE void eitp__run_update_links(eitp_run *run) {
    const eitp_files *files = &run->host.files;
    int code;
    if (!files->link)
        return;
    code = eitp__link_checkpoint(run, EITP__LATEST_LINK, "." EITP__LATEST_LINK ".partial", run->report.saved_step);
    if (!code)
        code = eitp__link_checkpoint(run, EITP__BEST_LINK, "." EITP__BEST_LINK ".partial",
                                     run->keep_best ? run->best.now.step : -1);
    /* Before what they referred to is removed: otherwise a power failure may leave links to nothing. */
    if (!code)
        code = files->sync_directory(files->user, run->directory);
    if (code && !run->links_have_failed)
        eitp__run_notify(run, EITP_EVENT_WARNING, EITP_LOG_WARNING, 0,
                         "the links %s and %s in '%s' cannot be made: %s; the run continues without them",
                         EITP__LATEST_LINK, EITP__BEST_LINK, run->directory, strerror(code));
    run->links_have_failed |= code != 0;
}
