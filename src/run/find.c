/* Finding the checkpoint that a path refers to, for programs that only read it. */
#include "base/files.h"
#include "base/log.h"
#include "gguf/model_json.h"
#include "io/checkpoint.h"
#include "io/lora_files.h"
#include "run/best.h"
#include "run/directory.h"
#include "run/internal.h"
#include "train/trainer_state.h"

/* Maximum number of listings, if checkpoints are removed before they can be read. */
#define EITP__FIND_ATTEMPTS 100

/* ---- Names ---- */

/* Meaning of a name in an output directory, whether or not there is a link. */
typedef struct eitp__link_name {
    const char *name;
    eitp_run_choice choice;
    int is_ours; /* 0: a common name, which a directory may have as well */
} eitp__link_name;

static const eitp__link_name eitp__link_names[] = {{EITP__LATEST_LINK, EITP_RUN_LATEST, 1},
                                                   {EITP__BEST_LINK, EITP_RUN_BEST, 1},
                                                   {"latest", EITP_RUN_LATEST, 0},
                                                   {"best", EITP_RUN_BEST, 0}};

/* Returns the entry for the last component of a path, or NULL. */
static const eitp__link_name *eitp__find_link_name(const char *path) {
    size_t end = strlen(path), begin;
    while (end > 1 && path[end - 1] == '/')
        end--;
    for (begin = end; begin && path[begin - 1] != '/';)
        begin--;
    for (size_t i = 0; i < EITP__COUNT(eitp__link_names); i++) {
        const char *name = eitp__link_names[i].name;
        if (strlen(name) == end - begin && !memcmp(name, path + begin, end - begin))
            return &eitp__link_names[i];
    }
    return NULL;
}

static eitp_status eitp__find_kind(const eitp_host *host, const char *directory, const char *name, eitp_path_kind *kind,
                                   eitp_error *error) {
    eitp_path_info info = EITP__ZERO;
    char *path = eitp__join_path(host, directory, name);
    const eitp_status status =
        path ? eitp__path_info(host, path, &info, error) : eitp__fail_memory(error, strlen(directory), "a path");
    eitp__release_text(host, path);
    *kind = status ? EITP_PATH_MISSING : info.kind;
    return status;
}

/* Sets *is_model if the directory has the files of a model, of adapters or of a checkpoint. */
static eitp_status eitp__find_model_files(const eitp_host *host, const char *path, int *is_model, eitp_error *error) {
    static const char *const names[] = {"config.json", EITP__LORA_CONFIG_FILE, EITP__STATE_FILE};
    eitp_status status = EITP_OK;
    *is_model = 0;
    for (size_t i = 0; i < EITP__COUNT(names) && !status && !*is_model; i++) {
        eitp_path_kind kind;
        status = eitp__find_kind(host, path, names[i], &kind, error);
        *is_model = kind == EITP_PATH_FILE;
    }
    return status;
}

/* ---- Checkpoints of an output directory ---- */

/* Returns the newest checkpoint of a list that is older than `before`, or -1. */
static int64_t eitp__next_older(const eitp__buffer *names, size_t count, int64_t before) {
    int64_t found = -1;
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const int64_t step = eitp__checkpoint_step(names->data + at);
        if (step > found && step < before)
            found = step;
        at += strlen(names->data + at) + 1;
    }
    return found;
}

static eitp_status eitp__format_checkpoint(const eitp_host *host, const char *directory, int64_t step, char **path,
                                           eitp_error *error) {
    char name[64];
    snprintf(name, sizeof name, "checkpoint-%lld", (long long)step);
    *path = eitp__join_path(host, directory, name);
    return *path ? EITP_OK : eitp__fail_memory(error, strlen(directory) + sizeof name, "a path");
}

/* Sets *path to the checkpoint of a step if it is usable, else to NULL. It is not if it is damaged, which is logged, or
   *vanished because a run that trains there removed it. */
static eitp_status eitp__try_checkpoint(const eitp_host *host, const char *directory, int64_t step, char **path,
                                        int *vanished, eitp_error *error) {
    eitp__checkpoint_head head;
    eitp_path_kind kind;
    eitp_error problem;
    eitp_status status = eitp__format_checkpoint(host, directory, step, path, error);
    if (status)
        return status;
    status = eitp__checkpoint_verify(host, *path, EITP__VERIFY_ALL, &head, &problem);
    if (!status)
        return EITP_OK;
    if (!eitp__find_kind(host, *path, "", &kind, NULL) && kind == EITP_PATH_MISSING) {
        *vanished = 1;
        status = EITP_OK;
    } else if (status == EITP_ERROR_FORMAT) {
        eitp__log_line(host, EITP_LOG_WARNING, "%s; using another checkpoint", problem.message);
        status = EITP_OK;
    } else if (error) {
        *error = problem;
    }
    eitp__release_text(host, *path);
    *path = NULL;
    return status;
}

/* Tries the checkpoints, newest first. */
static eitp_status eitp__try_all(const eitp_host *host, const char *directory, char **path, int *vanished,
                                 eitp_error *error) {
    eitp__buffer names;
    size_t count = 0;
    int64_t step = INT64_MAX;
    eitp_status status;
    eitp__buffer_init(&names, host);
    status = eitp__list_directory(host, directory, &names, &count, error);
    while (!status && !*path && (step = eitp__next_older(&names, count, step)) >= 0)
        status = eitp__try_checkpoint(host, directory, step, path, vanished, error);
    eitp__buffer_release(&names);
    return status;
}

/* Sets *path to the newest usable checkpoint, or to NULL. */
static eitp_status eitp__find_latest(const eitp_host *host, const char *directory, char **path, eitp_error *error) {
    eitp_status status = EITP_OK;
    int vanished = 1;
    *path = NULL;
    /* If one was removed, there are newer ones now. */
    for (int i = 0; i < EITP__FIND_ATTEMPTS && !status && !*path && vanished; i++) {
        vanished = 0;
        status = eitp__try_all(host, directory, path, &vanished, error);
    }
    return status;
}

/* Sets *path to the best checkpoint if the run kept one, else to NULL. */
static eitp_status eitp__find_best(const eitp_host *host, const char *directory, const char *latest, char **path,
                                   eitp_error *error) {
    int64_t step = eitp__run_state_best(host, latest);
    int vanished = 0;
    *path = NULL;
    if (step < 0)
        step = eitp__best_read_kept_step(host, directory);
    if (step < 0)
        return EITP_OK;
    return eitp__try_checkpoint(host, directory, step, path, &vanished, error);
}

/* Sets *path to the best or the latest checkpoint in an output directory, or NULL. `must`: fail without a best one,
   instead of using the latest. */
static eitp_status eitp__find_in_output(const eitp_host *host, const char *directory, eitp_run_choice choice, int must,
                                        char **path, eitp_error *error) {
    char *latest, *best = NULL;
    eitp_status status = eitp__find_latest(host, directory, &latest, error);
    *path = NULL;
    if (!status && latest && choice == EITP_RUN_BEST)
        status = eitp__find_best(host, directory, latest, &best, error);
    if (!status && latest && must && choice == EITP_RUN_BEST && !best)
        status =
            eitp__fail(error, EITP_ERROR_ARGUMENT,
                       "'%s' has no best checkpoint: its run did not keep one; the newest is '%s'", directory, latest);
    if (!status)
        *path = best ? best : latest;
    if (*path != best)
        eitp__release_text(host, best);
    if (*path != latest)
        eitp__release_text(host, latest);
    return status;
}

/* ---- Any path ---- */

/* Sets *found for a name such as "best_model" in an output directory; NULL if the path is not one. */
static eitp_status eitp__find_by_name(const eitp_host *host, const char *path, char **found, eitp_error *error) {
    const eitp__link_name *link = eitp__find_link_name(path);
    eitp_path_info info = EITP__ZERO;
    eitp_path_kind kind = EITP_PATH_MISSING;
    char *parent;
    eitp_status status = EITP_OK;
    *found = NULL;
    if (link && !link->is_ours)
        status = eitp__find_kind(host, path, "", &kind, error);
    if (status || !link || kind != EITP_PATH_MISSING)
        return status;
    parent = eitp__parent_directory(host, path);
    status = parent ? eitp__path_info(host, parent, &info, error) : eitp__fail_memory(error, strlen(path), "a path");
    if (!status && info.kind == EITP_PATH_DIRECTORY)
        status = eitp__find_in_output(host, parent, link->choice, 1, found, error);
    eitp__release_text(host, parent);
    return status;
}

/* Restores the name of a checkpoint that was being replaced when its process was killed. */
static void eitp__find_restore(const eitp_host *host, const char *path) {
    eitp_path_kind kind;
    int is_model;
    char *parent;
    if (eitp__find_kind(host, path, "", &kind, NULL))
        return;
    if (kind == EITP_PATH_DIRECTORY) {
        if (!eitp__find_model_files(host, path, &is_model, NULL) && !is_model)
            eitp__checkpoint_try_restore(host, path);
        return;
    }
    parent = eitp__parent_directory(host, path);
    if (parent && !eitp__find_kind(host, parent, "", &kind, NULL) && kind == EITP_PATH_DIRECTORY)
        eitp__checkpoint_try_restore(host, parent);
    eitp__release_text(host, parent);
}

static eitp_status eitp__find_checkpoint(const eitp_host *host, const char *path, eitp_run_choice choice, char **found,
                                         eitp_error *error) {
    eitp_path_info info;
    eitp_status status;
    int is_model;
    eitp__find_restore(host, path);
    status = eitp__find_by_name(host, path, found, error);
    if (!status && !*found)
        status = eitp__path_info(host, path, &info, error);
    if (status || *found)
        return status;
    status = eitp__model_is_file(host, path, &is_model, error);
    if (status)
        return status;
    if (info.kind != EITP_PATH_DIRECTORY && !is_model)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          info.kind == EITP_PATH_FILE ? "'%s' is neither a model directory nor a GGUF file"
                                                      : "no directory '%s'; name a model directory or a GGUF file",
                          path);
    if (!is_model)
        status = eitp__find_model_files(host, path, &is_model, error);
    if (status)
        return status;
    if (is_model) {
        *found = eitp__copy_text(host, path);
        return *found ? EITP_OK : eitp__fail_memory(error, strlen(path), "a path");
    }
    status = eitp__find_in_output(host, path, choice, 0, found, error);
    if (!status && !*found)
        status = eitp__fail(error, EITP_ERROR_ARGUMENT,
                            "'%s' is not a model directory: it has no config.json and no complete checkpoint", path);
    return status;
}

eitp_status eitp_run_find_checkpoint(const eitp_host *host, const char *path, eitp_run_choice choice, char *checkpoint,
                                     size_t size, eitp_error *error) {
    char *found = NULL;
    eitp_status status;
    if (!host || !path || !checkpoint || !size)
        return eitp__fail_null(error, "eitp_run_find_checkpoint", "host, path, checkpoint and size");
    *checkpoint = 0;
    status = eitp__find_checkpoint(host, path, choice, &found, error);
    if (!status && strlen(found) >= size)
        status = eitp__fail(error, EITP_ERROR_ARGUMENT, "the path '%s' is longer than %llu bytes", found,
                            (unsigned long long)size);
    if (!status)
        memcpy(checkpoint, found, strlen(found) + 1);
    eitp__release_text(host, found);
    return status;
}
