#include "run/replace.h"

#include "files.h"

static int is_checkpoint_name(const char *name) {
    static const char prefix[] = "checkpoint-";
    const char *digits = name + sizeof prefix - 1;
    return !strncmp(name, prefix, sizeof prefix - 1) && *digits && !digits[strspn(digits, "0123456789")];
}

static int is_run_name(const char *name) {
    static const char *const records[] = {"metrics.jsonl", "summary.jsonl", "evaluations.jsonl",
                                          "metrics.csv",   "tensorboard",   "run.json",
                                          "best.json",     "latest_model",  "best_model"};
    for (size_t i = 0; i < COMMAND_COUNT(records); i++) {
        if (!strcmp(name, records[i]))
            return 1;
    }
    return is_checkpoint_name(name);
}

static int add_name(void *user, const char *name) {
    replaced_run *replaced = (replaced_run *)user;
    if (!is_run_name(name))
        return 0;
    replaced->names = (char **)command_resize(replaced->names, (replaced->count + 1) * sizeof *replaced->names);
    replaced->names[replaced->count++] = command_copy(name);
    return 0;
}

/* Returns the first "replaced-<n>" that does not exist. */
static char *find_free_directory(const char *directory) {
    for (int n = 1;; n++) {
        char *name = command_format("replaced-%d", n), *path = files_join(directory, name);
        free(name);
        if (files_info(path).kind == EITP_PATH_MISSING)
            return path;
        free(path);
    }
}

static int move_name(const char *from, const char *to, const char *name) {
    const eitp_host host = command_host();
    char *old_path = files_join(from, name), *new_path = files_join(to, name);
    int code = host.files.rename(host.files.user, old_path, new_path);
    free(old_path);
    free(new_path);
    return code;
}

/* Moves back the first `count` names. */
static void move_back(replaced_run *replaced, size_t count) {
    for (size_t i = count; i-- > 0;)
        move_name(replaced->to, replaced->from, replaced->names[i]);
    files_remove(replaced->to);
    free(replaced->to);
    replaced->to = NULL;
}

static eitp_status move_run(replaced_run *replaced, eitp_error *error) {
    int created;
    eitp_status status = files_create_directories(replaced->to, &created, error);
    for (size_t i = 0; i < replaced->count && !status; i++) {
        int code = move_name(replaced->from, replaced->to, replaced->names[i]);
        if (!code)
            continue;
        status = command_fail(error, EITP_ERROR_IO, "cannot move '%s/%s' to '%s': %s; choose another --output-dir",
                              replaced->from, replaced->names[i], replaced->to, strerror(code));
        move_back(replaced, i);
    }
    return status;
}

eitp_status replace_run(const char *directory, replaced_run *replaced, eitp_error *error) {
    const eitp_host host = command_host();
    void *lock = NULL;
    eitp_status status = EITP_OK;
    int code;
    if (files_info(directory).kind != EITP_PATH_DIRECTORY)
        return EITP_OK;
    code = host.files.lock(host.files.user, directory, &lock);
    if (code == EWOULDBLOCK)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "another process is training in '%s'; wait for it, or choose another --output-dir",
                            directory);
    host.files.list(host.files.user, directory, add_name, replaced);
    if (replaced->count) {
        replaced->from = command_copy(directory);
        replaced->to = find_free_directory(directory);
        status = move_run(replaced, error);
    }
    if (!code)
        host.files.unlock(host.files.user, lock);
    return status;
}

void replace_undo(replaced_run *replaced) {
    if (replaced->to)
        move_back(replaced, replaced->count);
}

void replace_release(replaced_run *replaced) {
    for (size_t i = 0; i < replaced->count; i++)
        free(replaced->names[i]);
    free(replaced->names);
    free(replaced->from);
    free(replaced->to);
    memset(replaced, 0, sizeof *replaced);
}
