/* The paths of a recipe, and of the data that a run has packed. */
#include "gguf/model_json.h"
#include "recipe/training.h"

/* ---- Models and tokenizers ---- */

EITP__PRIVATE eitp_status eitp__recipe_path_kind(const eitp_host *host, const char *directory, const char *name,
                                                 eitp_path_kind *kind, eitp_error *error) {
    eitp_path_info info = EITP__ZERO;
    char *path = name ? eitp__join_path(host, directory, name) : eitp__copy_text(host, directory);
    const eitp_status status =
        path ? eitp__path_info(host, path, &info, error) : eitp__fail_memory(error, strlen(directory), "a path");
    eitp__release_text(host, path);
    *kind = status ? EITP_PATH_MISSING : info.kind;
    return status;
}

EITP__PRIVATE int eitp__recipe_is_file(const eitp_host *host, const char *path) {
    eitp_path_info info = EITP__ZERO;
    return !eitp__path_info(host, path, &info, NULL) && info.kind == EITP_PATH_FILE;
}

EITP__PRIVATE eitp_status eitp__find_tokenizer(const eitp_host *host, const char *directory, int *has,
                                               eitp_error *error) {
    static const char *const names[] = {"tokenizer.json", "vocab.txt", "vocab.json", "merges.txt"};
    int exists[EITP__COUNT(names)] = {0};
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < EITP__COUNT(names) && !status; i++) {
        char *path;
        status = eitp__path_in(host, directory, names[i], &path, error);
        if (!status)
            status = eitp__model_json_exists(host, path, &exists[i], error);
        eitp__release_text(host, path);
    }
    *has = !status && (exists[0] || exists[1] || (exists[2] && exists[3]));
    return status;
}

EITP__PRIVATE eitp_status eitp__find_directory(const eitp_host *host, const char *path, char **directory,
                                               eitp_error *error) {
    char found[4096];
    const eitp_status status = eitp_run_find_checkpoint(host, path, EITP_RUN_BEST, found, sizeof found, error);
    *directory = status ? NULL : eitp__copy_text(host, found);
    return status || *directory ? status : eitp__fail_memory(error, strlen(found), "the path of a model");
}

EITP__PRIVATE eitp_status eitp__fail_removed(const char *directory, eitp_error *error) {
    return eitp__fail(error, EITP_ERROR_ARGUMENT,
                      "'%s' was removed while it was being read: a run training there keeps only its newest "
                      "checkpoints; pass the output directory, or best_model or latest_model in it",
                      directory);
}

EITP__PRIVATE eitp_status eitp__read_directory(eitp_training *training, const char *path, char **directory,
                                               eitp__directory_reader read, void *user, eitp_error *error) {
    enum { ATTEMPTS = 200 };
    eitp_path_kind kind;
    eitp_status status = EITP_OK;
    for (int i = 0; i < ATTEMPTS; i++) {
        status = *directory ? EITP_OK : eitp__find_directory(&training->host, path, directory, error);
        if (!status)
            status = read(training, user, error);
        if (!status || !*directory || eitp__recipe_path_kind(&training->host, *directory, NULL, &kind, NULL) ||
            kind != EITP_PATH_MISSING)
            return status;
        if (!strcmp(path, *directory)) /* it cannot refer to another one now */
            return eitp__fail_removed(path, error);
        eitp__release_text(&training->host, *directory);
        *directory = NULL;
    }
    return status;
}

EITP__PRIVATE int eitp__is_shape_file(const eitp_host *host, const char *shape) {
    return strchr(shape, '/') || strstr(shape, ".json") || eitp__recipe_is_file(host, shape);
}

/* ---- Packed data ---- */

EITP__PRIVATE char *eitp__packed_path(const eitp_training *training, uint64_t hash, const char *ending) {
    eitp__buffer path;
    char *copy;
    if (training->trained && training->recipe.data.packed)
        return eitp__copy_text(&training->host, training->recipe.data.packed);
    eitp__buffer_init(&path, &training->host);
    eitp__buffer_format(&path, "%s/data/%016llx.%s", training->recipe.run.directory, (unsigned long long)hash, ending);
    copy = path.failed ? NULL : eitp__copy_text(&training->host, path.data);
    eitp__buffer_release(&path);
    return copy;
}

EITP__PRIVATE eitp_status eitp__make_packed_directory(const eitp_training *training, eitp_error *error) {
    char *path;
    eitp_status status;
    if (training->trained && training->recipe.data.packed)
        return EITP_OK;
    if (training->trained && !training->resumed.data.count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "'%s' has no run directory to pack the data into; set data.packed to a file "
                          "or name a token file",
                          training->trained);
    path = eitp__join_path(&training->host, training->recipe.run.directory, "data");
    status = path ? eitp__make_directories(&training->host, path, error)
                  : eitp__fail_memory(error, strlen(training->recipe.run.directory), "a path");
    eitp__release_text(&training->host, path);
    return status;
}

/* True for the names of packed data and of unfinished files. */
static int eitp__is_packed_name(const char *name) {
    static const char *const endings[] = {".tokens", ".tokens.partial", ".labelled", ".labelled.partial"};
    const size_t digits = strspn(name, "0123456789abcdef");
    for (size_t i = 0; i < EITP__COUNT(endings) && digits == 16; i++) {
        if (!strcmp(name + digits, endings[i]))
            return 1;
    }
    return 0;
}

EITP__PRIVATE void eitp__remove_unused_data(const eitp_training *training) {
    const eitp_host *host = &training->host;
    char *directory = eitp__join_path(host, training->recipe.run.directory, "data");
    eitp__buffer names;
    size_t count = 0, at = 0;
    eitp__buffer_init(&names, host);
    if (!directory || eitp__list_directory(host, directory, &names, &count, NULL))
        count = 0;
    for (size_t i = 0; i < count; i++, at += strlen(names.data + at) + 1) {
        char *path = eitp__join_path(host, directory, names.data + at);
        int is_used = !path || !eitp__is_packed_name(names.data + at);
        for (int split = 0; split < 2 && !is_used; split++)
            is_used = training->parts[split].path && !strcmp(training->parts[split].path, path);
        if (!is_used)
            eitp__remove_tree(host, path, NULL);
        eitp__release_text(host, path);
    }
    eitp__buffer_release(&names);
    eitp__release_text(host, directory);
}
