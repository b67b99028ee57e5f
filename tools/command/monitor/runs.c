#include "monitor/runs.h"

#include "files.h"
#include "monitor/end.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

enum { PATH_SIZE = 4096, MOST_LINKS = 4096 };

/* ---- Directories ---- */

static int is_directory(const char *path) {
    return files_info(path).kind == EITP_PATH_DIRECTORY;
}

static int has_directory(const char *directory, const char *name) {
    char *path = files_join(directory, name);
    const int found = is_directory(path);
    free(path);
    return found;
}

/* True for a directory with files of a run, or in which safe-train is going to start one. */
static int is_run(const char *directory) {
    char *log = files_join(directory, "logs");
    const int found = files_is_file(directory, "run.json") || files_is_file(directory, "metrics.jsonl") ||
                      files_is_file(directory, "summary.jsonl") || files_is_file(log, "supervisor.json");
    free(log);
    return found;
}

void runs_add_place(watched_runs *l, const char *directory) {
    l->places = (char **)command_resize(l->places, (l->place_count + 1) * sizeof *l->places);
    l->places[l->place_count++] = command_copy(directory);
}

/* True if a run is already watched, possibly by another path. */
static int is_watched(const watched_runs *l, const char *directory) {
    eitp_path_info found;
    for (size_t i = 0; i < l->count; i++) {
        if (!strcmp(l->runs[i]->run.directory, directory))
            return 1;
    }
    found = files_info(directory);
    for (size_t i = 0; i < l->count; i++) {
        if (found.identity && files_info(l->runs[i]->run.directory).identity == found.identity)
            return 1;
    }
    return 0;
}

/* Opens a run. One that has not started yet is kept, for safe-train's file and the next update. */
static eitp_status open_run(watched_run *w, const char *directory, eitp_error *error) {
    eitp_status status = recorded_run_open(directory, &w->run, error);
    if (status == EITP_ERROR_ARGUMENT && w->run.history && has_directory(directory, "logs"))
        status = EITP_OK;
    return status;
}

static eitp_status add_run(watched_runs *l, const char *directory, eitp_error *error) {
    watched_run *w;
    eitp_status status;
    if (is_watched(l, directory))
        return EITP_OK;
    if (l->count == RUNS_MOST) {
        l->left_out++;
        return EITP_OK;
    }
    w = (watched_run *)command_allocate(sizeof *w);
    status = open_run(w, directory, error);
    if (status) {
        recorded_run_close(&w->run);
        free(w);
        return status;
    }
    l->runs = (watched_run **)command_resize(l->runs, (l->count + 1) * sizeof *l->runs);
    l->runs[l->count++] = w;
    return EITP_OK;
}

/* ---- Directories of runs ---- */

typedef struct name_list {
    const char *directory;
    char **paths;
    size_t count;
} name_list;

/* Skips hidden directories, checkpoints and replaced runs. */
static int visit(void *user, const char *name) {
    name_list *list = (name_list *)user;
    char *path;
    if (*name == '.' || !strncmp(name, "checkpoint-", 11) || !strncmp(name, "replaced-", 9))
        return 0;
    path = files_join(list->directory, name);
    if (!is_directory(path) || !is_run(path)) {
        free(path);
        return 0;
    }
    list->paths = (char **)command_resize(list->paths, (list->count + 1) * sizeof *list->paths);
    list->paths[list->count++] = path;
    return 0;
}

static int compare_paths(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Adds the runs in a directory and counts them. An unreadable run is skipped. */
static eitp_status add_runs_in(watched_runs *l, const char *directory, size_t *found, eitp_error *error) {
    const eitp_host host = command_host();
    name_list list = {directory, NULL, 0};
    eitp_status status = EITP_OK;
    *found = 0;
    host.files.list(host.files.user, directory, visit, &list);
    if (list.count)
        qsort(list.paths, list.count, sizeof *list.paths, compare_paths);
    for (size_t i = 0; i < list.count; i++) {
        eitp_error ignored;
        if (status != EITP_ERROR_MEMORY)
            status = add_run(l, list.paths[i], &ignored);
        if (status == EITP_ERROR_MEMORY)
            *error = ignored;
        *found += !status;
        free(list.paths[i]);
    }
    free(list.paths);
    return status == EITP_ERROR_MEMORY ? status : EITP_OK;
}

/* Waits for a run in a place that does not exist or is a directory; fails otherwise. */
static eitp_status await_run(watched_runs *l, const char *place, eitp_error *error) {
    const int exists = is_directory(place);
    if (!exists && files_info(place).kind != EITP_PATH_MISSING)
        return command_fail(error, EITP_ERROR_ARGUMENT, "'%s' is not a directory; pass the output directory of a run",
                            place);
    if (!*l->awaited)
        snprintf(l->awaited, sizeof l->awaited,
                 exists ? "neither '%s' nor its subdirectories have a run" : "'%s' does not exist", place);
    return EITP_OK;
}

/* Adds the runs of a place that are not watched yet. */
static eitp_status find_runs(watched_runs *l, const char *place, eitp_error *error) {
    size_t found = 0;
    eitp_status status = EITP_OK;
    if (!is_run(place) && !is_watched(l, place))
        status = add_runs_in(l, place, &found, error);
    if (status || found)
        return status;
    status = add_run(l, place, error);
    return status == EITP_ERROR_ARGUMENT ? await_run(l, place, error) : status;
}

/* ---- The run of a process ---- */

/* Reads the target of a link. Returns 0 on failure. */
static int read_link(const char *path, char target[PATH_SIZE]) {
    const ssize_t size = readlink(path, target, PATH_SIZE - 1);
    target[size > 0 ? size : 0] = 0;
    return size > 0;
}

/* True if the process, or its child if it is safe-train, trains in a directory. */
static int trains_in(int64_t process, const char *directory) {
    const eitp_host host = command_host();
    eitp_run_process found;
    eitp_json_document *document = NULL;
    eitp_error ignored;
    char *path;
    int trains = !eitp_run_process_read(&host, directory, &found, &ignored) && found.state == EITP_RUN_PROCESS_ALIVE &&
                 found.pid == process;
    path = files_join(directory, "logs/supervisor.json");
    if (!trains && !eitp_json_read_file(&host, path, 1 << 20, &document, &ignored)) {
        const eitp_json *supervisor = eitp_json_member(eitp_json_root(document), "process");
        trains = supervisor && supervisor->is_integer && supervisor->integer == process;
    }
    eitp_json_release(document);
    free(path);
    return trains;
}

/* Finds the directory from the open files of the process: the locked directory, or metrics.jsonl in it. */
static char *find_by_files(int64_t process) {
    char folder[64], target[PATH_SIZE], *found = NULL;
    struct dirent *entry;
    DIR *list;
    snprintf(folder, sizeof folder, "/proc/%lld/fd", (long long)process);
    list = opendir(folder);
    for (int i = 0; list && !found && i < MOST_LINKS && (entry = readdir(list)) != NULL; i++) {
        char *link = files_join(folder, entry->d_name), *slash;
        if (*entry->d_name != '.' && read_link(link, target) && *target == '/') {
            slash = strrchr(target, '/');
            if (!strcmp(slash, "/metrics.jsonl"))
                *slash = 0;
            if (is_directory(target) && trains_in(process, target))
                found = command_copy(target);
        }
        free(link);
    }
    if (list)
        closedir(list);
    return found;
}

/* Returns the directory named by the arguments of a process, or the default one. */
static char *find_by_arguments(int64_t process) {
    char folder[64], line[PATH_SIZE], current[PATH_SIZE], *path, *found;
    const char *named = "eitp_results";
    size_t size = 0;
    FILE *file;
    snprintf(folder, sizeof folder, "/proc/%lld/cwd", (long long)process);
    if (!read_link(folder, current))
        return NULL;
    snprintf(folder, sizeof folder, "/proc/%lld/cmdline", (long long)process);
    file = fopen(folder, "r");
    if (file) {
        size = fread(line, 1, sizeof line - 1, file);
        fclose(file);
    }
    line[size] = 0;
    for (size_t at = 0; at < size; at += strlen(line + at) + 1) {
        const char *word = line + at;
        if (!strncmp(word, "--output-dir=", 13) || !strncmp(word, "--output_dir=", 13))
            named = word + 13;
        else if ((!strcmp(word, "--output-dir") || !strcmp(word, "--output_dir")) && at + strlen(word) + 1 < size)
            named = word + strlen(word) + 1;
    }
    path = *named == '/' ? command_copy(named) : files_join(current, named);
    found = trains_in(process, path) ? path : NULL;
    if (!found)
        free(path);
    return found ? found : trains_in(process, current) ? command_copy(current) : NULL;
}

eitp_status runs_add_process(watched_runs *l, int64_t process, eitp_error *error) {
    char folder[64], *directory;
    snprintf(folder, sizeof folder, "/proc/%lld", (long long)process);
    if (!is_directory(folder))
        return command_fail(error, EITP_ERROR_ARGUMENT, "no process %lld; pass the directory of its run",
                            (long long)process);
    directory = find_by_files(process);
    if (!directory)
        directory = find_by_arguments(process);
    if (!directory)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "cannot find the run of process %lld: neither its open files nor its arguments lead to a "
                            "run.json with its number; pass the directory of the run",
                            (long long)process);
    runs_add_place(l, directory);
    free(directory);
    return EITP_OK;
}

/* ---- Updates ---- */

static eitp_status update_run(watched_run *w, eitp_error *error) {
    char *directory;
    eitp_status status;
    int changed;
    if (recorded_has_started(&w->run))
        return recorded_run_update(&w->run, &changed, error);
    directory = command_copy(w->run.directory);
    recorded_run_close(&w->run);
    status = open_run(w, directory, error);
    free(directory);
    return status;
}

static void collect(watched_runs *l, watched_run *w) {
    facts_release(&w->before);
    w->before = w->facts;
    facts_collect(&w->facts, &w->run, &l->machine, &l->limits);
    if (*w->problem)
        text_format(&w->facts.warnings, "%s\n", w->problem);
}

eitp_status runs_update(watched_runs *l, eitp_error *error) {
    const int is_first = !l->count;
    eitp_status status = EITP_OK;
    machine_read(&l->machine);
    for (size_t i = 0; i < l->count && status != EITP_ERROR_MEMORY; i++) {
        status = update_run(l->runs[i], error);
        snprintf(l->runs[i]->problem, sizeof l->runs[i]->problem, "%s", status ? error->message : "");
    }
    l->left_out = 0;
    *l->awaited = 0;
    for (size_t i = 0; i < l->place_count && status != EITP_ERROR_MEMORY; i++) {
        status = find_runs(l, l->places[i], error);
        if (status && is_first)
            return status;
    }
    for (size_t i = 0; i < l->count; i++)
        collect(l, l->runs[i]);
    return status == EITP_ERROR_MEMORY ? status : EITP_OK;
}

void runs_release(watched_runs *l) {
    for (size_t i = 0; i < l->count; i++) {
        recorded_run_close(&l->runs[i]->run);
        facts_release(&l->runs[i]->facts);
        facts_release(&l->runs[i]->before);
        free(l->runs[i]);
    }
    for (size_t i = 0; i < l->place_count; i++)
        free(l->places[i]);
    free(l->places);
    free(l->runs);
    memset(l, 0, sizeof *l);
}

size_t runs_first(const watched_runs *l) {
    size_t best = 0;
    for (size_t i = 1; i < l->count; i++) {
        const eitp_run_process *p = &l->runs[i]->run.process, *q = &l->runs[best]->run.process;
        const int lives = p->state == EITP_RUN_PROCESS_ALIVE, other = q->state == EITP_RUN_PROCESS_ALIVE;
        if (lives > other || (lives == other && p->alive > q->alive))
            best = i;
    }
    return best;
}

int runs_are_over(const watched_runs *l) {
    if (*l->awaited)
        return 0;
    for (size_t i = 0; i < l->count; i++) {
        if (!end_is_final(&l->runs[i]->run))
            return 0;
    }
    return 1;
}
