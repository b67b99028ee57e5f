/* Checkpoint directories: created whole or not at all, found by step, pruned. */
#include "base/files.h"
#include "base/log.h"
#include "io/checkpoint.h"

/* Prefix of directories being written, and of those being replaced by a newer write of the same step. */
#define EITP__PARTIAL_PREFIX ".checkpoint-"
#define EITP__PREFIX_LENGTH (sizeof "checkpoint-" - 1)

/* The step of a name "checkpoint-<step>"; -1 for other names, leading zeros, and overflow. */
static int64_t eitp__checkpoint_step(const char *name) {
    int64_t step = 0;
    const char *digits = name + EITP__PREFIX_LENGTH;
    if (strncmp(name, "checkpoint-", EITP__PREFIX_LENGTH) || !*digits || (*digits == '0' && digits[1]))
        return -1;
    for (; *digits; digits++) {
        if (*digits < '0' || *digits > '9' || step > (INT64_MAX - 9) / 10)
            return -1;
        step = step * 10 + (*digits - '0');
    }
    return step;
}

static eitp_status eitp__checkpoint_path(const eitp_host *host, const char *directory, const char *prefix, int64_t step,
                                         const char *suffix, char **path, eitp_error *error) {
    char name[64];
    snprintf(name, sizeof name, "%s%lld%s", prefix, (long long)step, suffix);
    *path = eitp__join_path(host, directory, name);
    return *path ? EITP_OK : eitp__fail_memory(error, strlen(directory) + sizeof name, "a path");
}

/* Renames the finished directory to its name. A directory with that name is renamed first and removed last. */
static eitp_status eitp__install(const eitp_host *host, const char *directory, const char *partial, const char *final,
                                 const char *replaced, eitp_error *error) {
    eitp_path_info info = EITP__ZERO;
    int exists;
    eitp_status status = eitp__path_info(host, final, &info, error);
    exists = !status && info.kind != EITP_PATH_MISSING;
    if (!status && exists)
        status = eitp__rename_path(host, final, replaced, error);
    if (!status) {
        status = eitp__rename_path(host, partial, final, error);
        if (status && exists)
            eitp__rename_path(host, replaced, final, NULL);
    }
    if (!status)
        status = eitp__sync_directory(host, directory, error);
    if (!status && exists)
        status = eitp__remove_tree(host, replaced, error);
    return status;
}

eitp_status eitp_checkpoint_create(const eitp_host *host, const char *output_directory, int64_t step,
                                   eitp_status (*fill)(void *user, const char *directory, eitp_error *error),
                                   void *user, eitp_error *error) {
    if (!host || !output_directory || !fill)
        return eitp__fail_null(error, "eitp_checkpoint_create", "host, output_directory and fill");
    return eitp__checkpoint_create(host, output_directory, step, "", fill, user, error);
}

EITP__PRIVATE eitp_status eitp__checkpoint_create(
    const eitp_host *host, const char *output_directory, int64_t step, const char *suffix,
    eitp_status (*fill)(void *user, const char *directory, eitp_error *error), void *user, eitp_error *error) {
    char *partial = NULL, *final = NULL, *replaced = NULL;
    eitp_status status =
        eitp__checkpoint_path(host, output_directory, EITP__PARTIAL_PREFIX, step, ".partial", &partial, error);
    if (!status)
        status = eitp__checkpoint_path(host, output_directory, "checkpoint-", step, suffix, &final, error);
    if (!status)
        status =
            eitp__checkpoint_path(host, output_directory, EITP__PARTIAL_PREFIX, step, ".replaced", &replaced, error);
    if (!status)
        status = eitp__remove_tree(host, partial, error);
    if (!status)
        status = eitp__make_directories(host, partial, error);
    if (!status) {
        status = fill(user, partial, error);
        if (!status)
            status = eitp__sync_directory(host, partial, error);
        if (!status)
            status = eitp__install(host, output_directory, partial, final, replaced, error);
        if (status)
            eitp__remove_tree(host, partial, NULL);
    }
    eitp__release_text(host, partial);
    eitp__release_text(host, final);
    eitp__release_text(host, replaced);
    return status;
}

/* Recovers from a crash in eitp__install between its two renames: gives a replaced checkpoint its name back. */
static eitp_status eitp__restore_replaced(const eitp_host *host, const char *directory, const char *name,
                                          eitp_error *error) {
    char *from = NULL, *to = NULL, plain[64];
    size_t length = strlen(name), suffix = sizeof ".replaced" - 1;
    eitp_path_info info = EITP__ZERO;
    eitp_status status;
    if (length <= suffix || length >= sizeof plain || strcmp(name + length - suffix, ".replaced") || name[0] != '.')
        return EITP_OK;
    snprintf(plain, sizeof plain, "%.*s", (int)(length - suffix - 1), name + 1);
    if (eitp__checkpoint_step(plain) < 0)
        return EITP_OK;
    from = eitp__join_path(host, directory, name);
    to = eitp__join_path(host, directory, plain);
    status = from && to ? eitp__path_info(host, to, &info, error) : eitp__fail_memory(error, 2 * length, "a path");
    if (!status && info.kind == EITP_PATH_MISSING)
        status = eitp__rename_path(host, from, to, error);
    eitp__release_text(host, from);
    eitp__release_text(host, to);
    return status;
}

eitp_status eitp_checkpoint_newest(const eitp_host *host, const char *output_directory, int64_t *step,
                                   eitp_error *error) {
    if (!host || !output_directory || !step)
        return eitp__fail_null(error, "eitp_checkpoint_newest", "host, output_directory and step");
    eitp_path_info info = EITP__ZERO;
    eitp__buffer names;
    size_t count = 0, at = 0;
    eitp_status status = eitp__path_info(host, output_directory, &info, error);
    *step = -1;
    if (status || info.kind != EITP_PATH_DIRECTORY)
        return status;
    eitp__buffer_init(&names, host);
    status = eitp__list_directory(host, output_directory, &names, &count, error);
    for (size_t i = 0; i < count && !status; i++) {
        status = eitp__restore_replaced(host, output_directory, names.data + at, error);
        at += strlen(names.data + at) + 1;
    }
    eitp__buffer_clear(&names);
    if (!status)
        status = eitp__list_directory(host, output_directory, &names, &count, error);
    at = 0;
    for (size_t i = 0; i < count && !status; i++) {
        int64_t found = eitp__checkpoint_step(names.data + at);
        if (found > *step)
            *step = found;
        at += strlen(names.data + at) + 1;
    }
    eitp__buffer_release(&names);
    return status;
}

/* Removes an entry of a directory. */
static eitp_status eitp__remove_entry(const eitp_host *host, const char *directory, const char *name,
                                      eitp_error *error) {
    char *path = eitp__join_path(host, directory, name);
    eitp_status status = path ? eitp__remove_tree(host, path, error)
                              : eitp__fail_memory(error, strlen(directory) + strlen(name) + 2, "a path");
    eitp__release_text(host, path);
    return status;
}

/* The number of checkpoints in the list that are newer than `step`. */
static int64_t eitp__newer(const eitp__buffer *names, size_t count, int64_t step) {
    int64_t newer = 0;
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        newer += eitp__checkpoint_step(names->data + at) > step;
        at += strlen(names->data + at) + 1;
    }
    return newer;
}

/* True if pruning removes the checkpoint of `step`, one of the list. */
static int eitp__is_prunable(const eitp__buffer *names, size_t count, int64_t step, int64_t keep, int64_t kept) {
    return step >= 0 && step != kept && keep > 0 && eitp__newer(names, count, step) >= keep;
}

EITP__PRIVATE eitp_status eitp__checkpoint_measure(const eitp_host *host, const char *output_directory, int64_t keep,
                                                   int64_t kept, eitp__checkpoint_use *use, eitp_error *error) {
    eitp__buffer names;
    size_t count = 0, at = 0;
    eitp_status status;
    memset(use, 0, sizeof *use);
    eitp__buffer_init(&names, host);
    status = eitp__list_directory(host, output_directory, &names, &count, error);
    for (size_t i = 0; i < count && !status; i++) {
        const char *name = names.data + at;
        const int64_t step = eitp__checkpoint_step(name);
        char *path = step < 0 ? NULL : eitp__join_path(host, output_directory, name);
        const uint64_t bytes = path ? eitp__tree_bytes(host, path) : 0;
        const int is_prunable = eitp__is_prunable(&names, count, step, keep, kept);
        use->count += step >= 0;
        use->bytes += bytes;
        use->prunable += is_prunable;
        use->prunable_bytes += is_prunable ? bytes : 0;
        at += strlen(name) + 1;
        eitp__release_text(host, path);
    }
    eitp__buffer_release(&names);
    return status;
}

eitp_status eitp_checkpoint_prune(const eitp_host *host, const char *output_directory, int64_t keep,
                                  eitp_error *error) {
    if (!host || !output_directory)
        return eitp__fail_null(error, "eitp_checkpoint_prune", "host and output_directory");
    return eitp__checkpoint_prune(host, output_directory, keep, -1, error);
}

EITP__PRIVATE eitp_status eitp__checkpoint_prune(const eitp_host *host, const char *output_directory, int64_t keep,
                                                 int64_t kept, eitp_error *error) {
    eitp__buffer names;
    size_t count = 0, at = 0;
    int64_t newest;
    /* This first restores replaced checkpoints, which would otherwise be removed as leftovers. */
    eitp_status status = eitp_checkpoint_newest(host, output_directory, &newest, error);
    eitp__buffer_init(&names, host);
    if (!status)
        status = eitp__list_directory(host, output_directory, &names, &count, error);
    for (size_t i = 0; i < count && !status; i++) {
        const char *name = names.data + at;
        int64_t step = eitp__checkpoint_step(name);
        int unfinished = !strncmp(name, EITP__PARTIAL_PREFIX, sizeof EITP__PARTIAL_PREFIX - 1);
        if (unfinished || eitp__is_prunable(&names, count, step, keep, kept))
            status = eitp__remove_entry(host, output_directory, name, error);
        at += strlen(name) + 1;
    }
    eitp__buffer_release(&names);
    return status;
}
