#include "run/run_links.h"

#include "base/files.h"
#include "run/events.h"

EITP__PRIVATE int eitp__run_has_checkpoint(const eitp_run *run, int64_t step) {
    eitp_path_info info = EITP__ZERO;
    char name[64], *path;
    int is_missing;
    if (step < 0)
        return 0;
    snprintf(name, sizeof name, "checkpoint-%lld", (long long)step);
    path = eitp__join_path(&run->host, run->directory, name);
    is_missing = path && !eitp__path_info(&run->host, path, &info, NULL) && info.kind != EITP_PATH_DIRECTORY;
    eitp__release_text(&run->host, path);
    return !is_missing;
}

/* What is at a path, found without failing: a link to nothing is missing, as what cannot be looked up. */
static eitp_path_kind eitp__kind_of(const eitp_run *run, const char *path) {
    eitp_path_info info = EITP__ZERO;
    return eitp__path_info(&run->host, path, &info, NULL) ? EITP_PATH_MISSING : info.kind;
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
    int code = path && temporary ? 0 : ENOMEM, is_there;
    snprintf(target, sizeof target, "checkpoint-%lld", (long long)step);
    is_there = !code && eitp__run_has_checkpoint(run, step);
    if (is_there)
        code = eitp__replace_link(run, target, path, temporary);
    /* An older run's, or one to a checkpoint that will be removed. A directory with files in it stays. */
    if (path && (!is_there || (code && code != EEXIST)) && eitp__kind_of(run, path) != EITP_PATH_FILE)
        files->remove(files->user, path);
    eitp__release_text(&run->host, path);
    eitp__release_text(&run->host, temporary);
    return code;
}

typedef struct eitp__links {
    int have_failed; /* which was reported */
    int are_late;    /* the last attempt failed */
} eitp__links;

EITP__PRIVATE void eitp__run_update_links(eitp_run *run) {
    const eitp_files *files = &run->host.files;
    eitp__links *links = (eitp__links *)run->states[EITP__OBSERVER_LINKS];
    int code, best_code;
    if (!files->link)
        return;
    code = eitp__link_checkpoint(run, EITP__LATEST_LINK, "." EITP__LATEST_LINK ".partial", run->report.saved_step);
    best_code = eitp__link_checkpoint(run, EITP__BEST_LINK, "." EITP__BEST_LINK ".partial",
                                      run->keep_best ? run->report.best_step : -1);
    code = code ? code : best_code;
    /* Before what they referred to is removed: otherwise a power failure may leave links to nothing. */
    if (!code)
        code = files->sync_directory(files->user, run->directory);
    if (code && !links->have_failed)
        eitp__run_notify(run, EITP_EVENT_WARNING, EITP_LOG_WARNING, 0,
                         "the links %s and %s in '%s' cannot be made: %s; the run continues without them",
                         EITP__LATEST_LINK, EITP__BEST_LINK, run->directory, strerror(code));
    links->have_failed |= code != 0;
    links->are_late = code != 0;
}

/* The links that are there, and lead to nothing. */
typedef struct eitp__dangling_links {
    int latest, best;
} eitp__dangling_links;

static int eitp__find_links(void *user, const char *name) {
    eitp__dangling_links *found = (eitp__dangling_links *)user;
    found->latest |= !strcmp(name, EITP__LATEST_LINK);
    found->best |= !strcmp(name, EITP__BEST_LINK);
    return 0;
}

static int eitp__leads_to_nothing(const eitp_run *run, const char *name) {
    eitp_path_info info = EITP__ZERO;
    char *path = eitp__join_path(&run->host, run->directory, name);
    const int is_nothing = path && !eitp__path_info(&run->host, path, &info, NULL) && info.kind == EITP_PATH_MISSING;
    eitp__release_text(&run->host, path);
    return is_nothing;
}

EITP__PRIVATE void eitp__run_repair_links(const eitp_run *run, int64_t newest) {
    const eitp_files *files = &run->host.files;
    eitp__dangling_links found = EITP__ZERO;
    if (!files->link || files->list(files->user, run->directory, eitp__find_links, &found))
        return;
    if (found.latest && eitp__leads_to_nothing(run, EITP__LATEST_LINK))
        eitp__link_checkpoint(run, EITP__LATEST_LINK, "." EITP__LATEST_LINK ".partial", newest);
    if (found.best && eitp__leads_to_nothing(run, EITP__BEST_LINK))
        eitp__link_checkpoint(run, EITP__BEST_LINK, "." EITP__BEST_LINK ".partial", -1);
}

/* ---- The observer ---- */

static eitp_status eitp__links_begin(eitp_run *run, void *state, eitp_error *error) {
    (void)state, (void)error;
    if (run->checkpoint)
        eitp__run_update_links(run);
    return EITP_OK;
}

static void eitp__links_checkpoints_changed(eitp_run *run, void *state) {
    (void)state;
    eitp__run_update_links(run);
}

/* What was in the way at the last save may be gone. */
static void eitp__links_end(eitp_run *run, void *state) {
    if (((const eitp__links *)state)->are_late)
        eitp__run_update_links(run);
}

EITP__PRIVATE void eitp__links_observer(eitp__observer *observer) {
    observer->state_size = sizeof(eitp__links);
    observer->end = eitp__links_end;
    observer->needs_checkpoints = 1;
    observer->begin = eitp__links_begin;
    observer->checkpoints_changed = eitp__links_checkpoints_changed;
}
