/*
 * Checkpoint directories: created whole or not at all, found by step, recovered, pruned.
 *
 * A name "checkpoint-<step>" appears and disappears by one rename. A directory is filled as ".<name>.partial", and
 * deleted as ".<name>.removed". A directory that is replaced by a newer write of the same step gets the pending
 * directory's name, or, where the system cannot exchange names, ".<name>.replaced".
 */
#include "io/checkpoint.h"
#include "base/files.h"
#include "base/log.h"

#define EITP__HIDDEN_PREFIX ".checkpoint-"

/* Builds the path of "<prefix><step><suffix><ending>" in a directory. */
static eitp_status eitp__checkpoint_path(const eitp_host *host, const char *directory, const char *prefix, int64_t step,
                                         const char *suffix, const char *ending, char **path, eitp_error *error) {
    char name[96];
    snprintf(name, sizeof name, "%s%lld%s%s", prefix, (long long)step, suffix, ending);
    *path = eitp__join_path(host, directory, name);
    return *path ? EITP_OK : eitp__fail_memory(error, strlen(directory) + sizeof name, "a path");
}

/* ---- Creating ---- */

EITP__PRIVATE eitp_status eitp__checkpoint_begin(const eitp_host *host, const char *output_directory,
                                                 const char *suffix, int64_t step, eitp__pending_directory *pending,
                                                 eitp_error *error) {
    char *path = NULL;
    eitp_status status;
    memset(pending, 0, sizeof *pending);
    status = eitp__checkpoint_path(host, output_directory, "checkpoint-", step, suffix, "", &path, error);
    if (!status)
        status = eitp__pending_directory_name(pending, host, path, error);
    if (!status)
        status = eitp__remove_tree(host, pending->partial, error);
    if (!status)
        status = eitp__make_directories(host, output_directory, error);
    if (!status)
        status = eitp__make_directory(host, pending->partial, error);
    pending->exists = !status;
    eitp__release_text(host, path);
    if (status)
        eitp__pending_directory_abandon(pending);
    return status;
}

EITP__PRIVATE eitp_status eitp__checkpoint_commit(eitp__pending_directory *pending, const eitp__manifest *manifest,
                                                  eitp_error *error) {
    eitp_status status = eitp__manifest_write(manifest, pending->partial, error);
    if (!status)
        status = eitp__pending_directory_install(pending, error);
    if (!status)
        eitp__pending_directory_abandon(pending);
    return status;
}

eitp_status eitp_checkpoint_create(const eitp_host *host, const char *output_directory, int64_t step,
                                   eitp_status (*fill)(void *user, const char *directory, eitp_error *error),
                                   void *user, eitp_error *error) {
    eitp__manifest manifest;
    if (!host || !output_directory || !fill)
        return eitp__fail_null(error, "eitp_checkpoint_create", "host, output_directory and fill");
    eitp__manifest_init(&manifest, host, step, 1);
    return eitp__checkpoint_create(host, output_directory, "", &manifest, fill, user, error);
}

EITP__PRIVATE eitp_status eitp__checkpoint_create(
    const eitp_host *host, const char *output_directory, const char *suffix, const eitp__manifest *manifest,
    eitp_status (*fill)(void *user, const char *directory, eitp_error *error), void *user, eitp_error *error) {
    eitp__pending_directory pending;
    eitp_status status = eitp__checkpoint_begin(host, output_directory, suffix, manifest->step, &pending, error);
    if (status)
        return status;
    status = fill(user, pending.partial, error);
    if (!status)
        status = eitp__checkpoint_commit(&pending, manifest, error);
    if (status)
        eitp__pending_directory_abandon(&pending);
    return status;
}

/* ---- Entries of the output directory ---- */

/* Calls `visit` for each name in a directory, sorted by bytes. A missing directory has none. */
static eitp_status eitp__visit_names(const eitp_host *host, const char *directory,
                                     eitp_status (*visit)(void *user, const char *name, eitp_error *error), void *user,
                                     eitp_error *error) {
    eitp_path_info info = EITP__ZERO;
    eitp__buffer names;
    size_t count = 0, at = 0;
    eitp_status status = eitp__path_info(host, directory, &info, error);
    if (status || info.kind != EITP_PATH_DIRECTORY)
        return status;
    eitp__buffer_init(&names, host);
    status = eitp__list_directory(host, directory, &names, &count, error);
    for (size_t i = 0; i < count && !status; i++) {
        status = visit(user, names.data + at, error);
        at += strlen(names.data + at) + 1;
    }
    eitp__buffer_release(&names);
    return status;
}

static eitp_status eitp__take_newest(void *user, const char *name, eitp_error *error) {
    int64_t *newest = (int64_t *)user, step = eitp__checkpoint_step(name);
    (void)error;
    *newest = step > *newest ? step : *newest;
    return EITP_OK;
}

eitp_status eitp_checkpoint_newest(const eitp_host *host, const char *output_directory, int64_t *step,
                                   eitp_error *error) {
    if (!host || !output_directory || !step)
        return eitp__fail_null(error, "eitp_checkpoint_newest", "host, output_directory and step");
    *step = -1;
    return eitp__visit_names(host, output_directory, eitp__take_newest, step, error);
}

/* An output directory during a visit of its entries. */
typedef struct eitp__output {
    const eitp_host *host;
    const char *directory;
} eitp__output;

/* True for the name of a checkpoint that is being replaced. */
static int eitp__is_replaced_name(const char *name) {
    const size_t length = strlen(name), ending = sizeof EITP__REPLACED_SUFFIX - 1;
    return !strncmp(name, EITP__HIDDEN_PREFIX, sizeof EITP__HIDDEN_PREFIX - 1) && length > ending &&
           !strcmp(name + length - ending, EITP__REPLACED_SUFFIX);
}

/* Recovers from a crash in eitp__pending_directory_install between its two renames: restores a replaced checkpoint's
   name. */
static eitp_status eitp__restore_replaced(void *user, const char *name, eitp_error *error) {
    const eitp__output *output = (const eitp__output *)user;
    const eitp_host *host = output->host;
    const size_t length = strlen(name), ending = sizeof EITP__REPLACED_SUFFIX - 1;
    eitp_path_info info = EITP__ZERO;
    char *plain, *from, *to;
    eitp_status status;
    if (!eitp__is_replaced_name(name))
        return EITP_OK;
    plain = eitp__copy_bytes(host, name + 1, length - ending - 1);
    from = eitp__join_path(host, output->directory, name);
    to = plain ? eitp__join_path(host, output->directory, plain) : NULL;
    status = from && to ? eitp__path_info(host, to, &info, error) : eitp__fail_memory(error, 2 * length, "a path");
    if (!status && info.kind == EITP_PATH_MISSING)
        status = eitp__rename_path(host, from, to, error);
    eitp__release_text(host, plain);
    eitp__release_text(host, from);
    eitp__release_text(host, to);
    return status;
}

EITP__PRIVATE eitp_status eitp__checkpoint_restore(const eitp_host *host, const char *output_directory,
                                                   eitp_error *error) {
    eitp__output output;
    output.host = host;
    output.directory = output_directory;
    return eitp__visit_names(host, output_directory, eitp__restore_replaced, &output, error);
}

EITP__PRIVATE void eitp__checkpoint_try_restore(const eitp_host *host, const char *output_directory) {
    eitp__buffer names;
    size_t count = 0, at = 0;
    int is_replaced = 0;
    void *lock;
    eitp__buffer_init(&names, host);
    if (eitp__list_directory(host, output_directory, &names, &count, NULL))
        count = 0;
    for (size_t i = 0; i < count; i++, at += strlen(names.data + at) + 1)
        is_replaced |= eitp__is_replaced_name(names.data + at);
    eitp__buffer_release(&names);
    /* If another process holds the lock, it is replacing the checkpoint now. */
    if (!is_replaced || !host->files.lock || host->files.lock(host->files.user, output_directory, &lock))
        return;
    eitp__checkpoint_restore(host, output_directory, NULL);
    host->files.unlock(host->files.user, lock);
}

/* Removes the leftovers of an unfinished write or removal. */
static eitp_status eitp__remove_leftover(void *user, const char *name, eitp_error *error) {
    const eitp__output *output = (const eitp__output *)user;
    char *path;
    eitp_status status;
    if (strncmp(name, EITP__HIDDEN_PREFIX, sizeof EITP__HIDDEN_PREFIX - 1) != 0)
        return EITP_OK;
    path = eitp__join_path(output->host, output->directory, name);
    status = path ? eitp__remove_tree(output->host, path, error)
                  : eitp__fail_memory(error, strlen(output->directory) + strlen(name) + 2, "a path");
    eitp__release_text(output->host, path);
    return status;
}

/* ---- Recovering ---- */

/* Renames a damaged checkpoint to the first free name of "<path>.damaged", "<path>.damaged-2", ... */
static eitp_status eitp__set_aside(const eitp_host *host, const char *path, eitp_error *error) {
    const eitp_error damage = *error;
    eitp__buffer to;
    eitp_path_info info = EITP__ZERO;
    eitp_status status = EITP_OK;
    eitp__buffer_init(&to, host);
    info.kind = EITP_PATH_OTHER;
    for (int i = 1; info.kind != EITP_PATH_MISSING && !status; i++) {
        eitp__buffer_clear(&to);
        eitp__buffer_format(&to, i > 1 ? "%s.damaged-%d" : "%s.damaged", path, i);
        status =
            to.failed ? eitp__fail_memory(error, strlen(path), "a path") : eitp__path_info(host, to.data, &info, error);
    }
    if (!status)
        status = eitp__rename_path(host, path, to.data, error);
    if (!status)
        eitp__log_line(host, EITP_LOG_WARNING, "%s; renamed '%s' to '%s'", damage.message, path, to.data);
    eitp__buffer_release(&to);
    return status;
}

/* Verifies a checkpoint of the directory. A damaged one is set aside, and *is_whole is 0. */
static eitp_status eitp__recover_step(const eitp_host *host, const char *directory, int64_t step,
                                      eitp__verified verified, int *is_whole, eitp_error *error) {
    eitp__checkpoint_head head;
    eitp_path_info info = EITP__ZERO;
    char *path = NULL;
    eitp_status status = eitp__checkpoint_path(host, directory, "checkpoint-", step, "", "", &path, error);
    if (!status)
        status = eitp__path_info(host, path, &info, error);
    if (!status && info.kind == EITP_PATH_MISSING)
        status = eitp__fail(error, EITP_ERROR_FORMAT, "'%s' is a dangling symbolic link", path);
    else if (!status)
        status = eitp__checkpoint_verify(host, path, verified, &head, error);
    *is_whole = !status;
    if (status == EITP_ERROR_FORMAT)
        status = eitp__set_aside(host, path, error);
    if (!status && !*is_whole)
        status = eitp__sync_directory(host, directory, error);
    eitp__release_text(host, path);
    return status;
}

EITP__PRIVATE eitp_status eitp__checkpoint_recover(const eitp_host *host, const char *output_directory,
                                                   eitp__verified verified, int64_t *step, eitp_error *error) {
    eitp_error found;
    eitp_status status;
    int64_t newest = -1;
    int is_whole = 0;
    *step = -1;
    status = eitp__checkpoint_restore(host, output_directory, &found);
    while (!status && !is_whole) {
        status = eitp_checkpoint_newest(host, output_directory, &newest, &found);
        if (status || newest < 0)
            break;
        status = eitp__recover_step(host, output_directory, newest, verified, &is_whole, &found);
    }
    if (status && error)
        *error = found;
    if (!status)
        *step = newest;
    return status;
}

eitp_status eitp_checkpoint_recover(const eitp_host *host, const char *output_directory, int64_t *step,
                                    eitp_error *error) {
    if (!host || !output_directory || !step)
        return eitp__fail_null(error, "eitp_checkpoint_recover", "host, output_directory and step");
    return eitp__checkpoint_recover(host, output_directory, EITP__VERIFY_ALL, step, error);
}

/* ---- Pruning ---- */

/* A checkpoint of an output directory. */
typedef struct eitp__listed_checkpoint {
    int64_t step;
    int is_counted;
} eitp__listed_checkpoint;

typedef struct eitp__checkpoint_list {
    eitp__output output;
    eitp__listed_checkpoint *items;
    size_t count, capacity;
} eitp__checkpoint_list;

/* Adds a checkpoint, unless its manifest is damaged or unreadable: then it is kept. */
static eitp_status eitp__list_checkpoint(void *user, const char *name, eitp_error *error) {
    eitp__checkpoint_list *list = (eitp__checkpoint_list *)user;
    const eitp_host *host = list->output.host;
    void *items = list->items;
    eitp__checkpoint_head head;
    eitp_error found;
    int is_reserved;
    char *path;
    eitp_status status;
    if (eitp__checkpoint_step(name) < 0)
        return EITP_OK;
    is_reserved = eitp__reserve(host, &items, &list->capacity, list->count + 1, sizeof *list->items);
    list->items = (eitp__listed_checkpoint *)items;
    path = eitp__join_path(host, list->output.directory, name);
    status = path && is_reserved ? eitp__checkpoint_read_head(host, path, &head, &found)
                                 : eitp__fail_memory(&found, strlen(name), "the list of checkpoints");
    eitp__release_text(host, path);
    if (!status) {
        list->items[list->count].step = head.step;
        list->items[list->count++].is_counted = head.is_counted;
    }
    if (status == EITP_ERROR_IO)
        eitp__log_line(host, EITP_LOG_WARNING, "%s; the checkpoint is kept", found.message);
    if (status == EITP_ERROR_MEMORY && error)
        *error = found;
    return status == EITP_ERROR_MEMORY ? status : EITP_OK;
}

/* Returns the number of counted checkpoints newer than `step`. */
static int64_t eitp__count_newer(const eitp__checkpoint_list *list, int64_t step) {
    int64_t newer = 0;
    for (size_t i = 0; i < list->count; i++)
        newer += list->items[i].is_counted && list->items[i].step > step;
    return newer;
}

/* True for an uncounted checkpoint if there is a newer uncounted one: otherwise they would fill the disk. */
static int eitp__is_superseded(const eitp__checkpoint_list *list, int64_t step) {
    int is_uncounted = 0, has_newer = 0;
    for (size_t i = 0; i < list->count; i++) {
        is_uncounted |= list->items[i].step == step && !list->items[i].is_counted;
        has_newer |= list->items[i].step > step && !list->items[i].is_counted;
    }
    return is_uncounted && has_newer;
}

/* The checkpoints kept by pruning: the newest, and the ones of certain steps. */
typedef struct eitp__keep_rule {
    int64_t keep; /* 0: all */
    const int64_t *kept;
    size_t count;
} eitp__keep_rule;

/* True if pruning removes the checkpoint of `step`. */
static int eitp__is_prunable(const eitp__checkpoint_list *list, int64_t step, const eitp__keep_rule *rule) {
    for (size_t i = 0; i < rule->count; i++) {
        if (rule->kept[i] == step)
            return 0;
    }
    return rule->keep > 0 && (eitp__count_newer(list, step) >= rule->keep || eitp__is_superseded(list, step));
}

/* Removes a checkpoint: its name disappears before the first of its files. */
static eitp_status eitp__remove_checkpoint(const eitp__output *output, int64_t step, eitp_error *error) {
    const eitp_host *host = output->host;
    char *path = NULL, *removed = NULL;
    eitp_status status = eitp__checkpoint_path(host, output->directory, "checkpoint-", step, "", "", &path, error);
    if (!status)
        status =
            eitp__checkpoint_path(host, output->directory, EITP__HIDDEN_PREFIX, step, "", ".removed", &removed, error);
    if (!status)
        status = eitp__rename_path(host, path, removed, error);
    if (!status)
        status = eitp__sync_directory(host, output->directory, error);
    if (!status)
        status = eitp__remove_tree(host, removed, error);
    eitp__release_text(host, path);
    eitp__release_text(host, removed);
    return status;
}

EITP__PRIVATE eitp_status eitp__checkpoint_measure(const eitp_host *host, const char *output_directory, int64_t keep,
                                                   const int64_t *kept, size_t count, eitp__checkpoint_use *use,
                                                   eitp_error *error) {
    const eitp__keep_rule rule = {keep, kept, count};
    eitp__checkpoint_list list = EITP__ZERO;
    eitp_status status;
    memset(use, 0, sizeof *use);
    list.output.host = host;
    list.output.directory = output_directory;
    status = eitp__visit_names(host, output_directory, eitp__list_checkpoint, &list, error);
    for (size_t i = 0; i < list.count && !status; i++) {
        const int64_t step = list.items[i].step;
        const int is_prunable = eitp__is_prunable(&list, step, &rule);
        uint64_t bytes;
        char *path;
        status = eitp__checkpoint_path(host, output_directory, "checkpoint-", step, "", "", &path, error);
        if (status)
            break;
        bytes = eitp__tree_bytes(host, path);
        eitp__release_text(host, path);
        use->count++;
        use->bytes += bytes;
        use->prunable += is_prunable;
        use->prunable_bytes += is_prunable ? bytes : 0;
    }
    eitp__release(host, list.items, list.capacity * sizeof *list.items);
    return status;
}

eitp_status eitp_checkpoint_prune(const eitp_host *host, const char *output_directory, int64_t keep,
                                  eitp_error *error) {
    eitp_status status;
    if (!host || !output_directory)
        return eitp__fail_null(error, "eitp_checkpoint_prune", "host and output_directory");
    status = eitp__checkpoint_clean(host, output_directory, error);
    return status ? status : eitp__checkpoint_prune(host, output_directory, keep, NULL, 0, error);
}

EITP__PRIVATE eitp_status eitp__checkpoint_clean(const eitp_host *host, const char *output_directory,
                                                 eitp_error *error) {
    eitp__output output;
    eitp_status status;
    output.host = host;
    output.directory = output_directory;
    status = eitp__checkpoint_restore(host, output_directory, error);
    return status ? status : eitp__visit_names(host, output_directory, eitp__remove_leftover, &output, error);
}

EITP__PRIVATE eitp_status eitp__checkpoint_prune(const eitp_host *host, const char *output_directory, int64_t keep,
                                                 const int64_t *kept, size_t count, eitp_error *error) {
    const eitp__keep_rule rule = {keep, kept, count};
    eitp__checkpoint_list list = EITP__ZERO;
    eitp_status status = EITP_OK;
    list.output.host = host;
    list.output.directory = output_directory;
    if (keep > 0)
        status = eitp__visit_names(host, output_directory, eitp__list_checkpoint, &list, error);
    for (size_t i = 0; i < list.count && !status; i++) {
        const int64_t step = list.items[i].step;
        if (eitp__is_prunable(&list, step, &rule))
            status = eitp__remove_checkpoint(&list.output, step, error);
    }
    eitp__release(host, list.items, list.capacity * sizeof *list.items);
    return status;
}
