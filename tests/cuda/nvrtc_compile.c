/*
 * The compilation step of the emulated NVRTC. It writes the files of a program into a separate folder, runs the
 * compiler there, and keeps the result under a hash of everything it depends on. Processes may compile in parallel: a
 * file is renamed into place when it is complete.
 */
#include "tests/cuda/nvrtc_api.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef EMULATED_INCLUDE
#define EMULATED_INCLUDE "tests/cuda"
#endif

extern char **environ;

static const char *setting(const char *name, const char *usual) {
    const char *text = getenv(name);
    return text && *text ? text : usual;
}

static const char *include_folder(void) {
    return setting("EITP_EMULATED_INCLUDE", EMULATED_INCLUDE);
}

/* ---- Files ---- */

/* Returns the content of a file followed by a zero, or NULL. */
static char *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    char *content = NULL;
    long length;
    if (!file)
        return NULL;
    if (!fseek(file, 0, SEEK_END) && (length = ftell(file)) >= 0 && !fseek(file, 0, SEEK_SET)) {
        content = (char *)nvrtc_need(malloc((size_t)length + 1));
        *size = fread(content, 1, (size_t)length, file);
        content[*size] = '\0';
    }
    fclose(file);
    return content;
}

static int write_file(const char *path, const char *content, size_t size) {
    FILE *file = fopen(path, "wb");
    int is_written;
    if (!file)
        return 0;
    is_written = fwrite(content, 1, size, file) == size;
    return !fclose(file) && is_written;
}

/* Writes a file below a folder, creating the folders in its name. */
static int write_text(const char *folder, const nvrtc_text *text) {
    char path[PATH_MAX];
    const int length = snprintf(path, sizeof path, "%s/%s", folder, text->name);
    if (length < 0 || (size_t)length >= sizeof path)
        return 0;
    for (char *slash = strchr(path + strlen(folder) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    return write_file(path, text->text, strlen(text->text));
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *position) {
    (void)status, (void)kind, (void)position;
    return remove(path);
}

/* ---- The cache ---- */

typedef struct hash {
    uint64_t a, b;
} hash;

/* Updates FNV-1a twice, the second time with another start value and extra mixing. */
static void add_bytes(hash *h, const void *data, size_t size) {
    const unsigned char *bytes = (const unsigned char *)data;
    for (size_t i = 0; i < size; i++) {
        h->a = (h->a ^ bytes[i]) * 0x100000001b3u;
        h->b = (h->b ^ bytes[i]) * 0x9e3779b97f4a7c15u;
        h->b ^= h->b >> 29;
    }
}

static void add_string(hash *h, const char *text) {
    add_bytes(h, text, strlen(text) + 1);
}

static int is_shim(const struct dirent *entry) {
    return !strncmp(entry->d_name, "emulated", 8);
}

/* Adds the headers that programs include. */
static void add_shim(hash *h) {
    struct dirent **entries;
    const int count = scandir(include_folder(), &entries, is_shim, alphasort);
    for (int i = 0; i < count; i++) {
        char path[PATH_MAX];
        size_t size;
        char *content;
        snprintf(path, sizeof path, "%s/%s", include_folder(), entries[i]->d_name);
        content = read_file(path, &size);
        add_string(h, entries[i]->d_name);
        if (content)
            add_bytes(h, content, size + 1);
        free(content);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}

static hash hash_program(nvrtcProgram program, const char *const *arguments) {
    hash h = {0xcbf29ce484222325u, 0x2545f4914f6cdd1du};
    for (size_t i = 0; i < program->text_count; i++) {
        add_string(&h, program->texts[i].name);
        add_string(&h, program->texts[i].text);
    }
    for (size_t i = 0; arguments[i]; i++)
        add_string(&h, arguments[i]);
    add_shim(&h);
    return h;
}

/* Finds the cache folder, which must belong to this user. */
static int find_cache(char *path, size_t size) {
    const char *chosen = getenv("EITP_EMULATED_CACHE");
    struct stat status;
    if (chosen && *chosen)
        snprintf(path, size, "%s", chosen);
    else
        snprintf(path, size, "%s/eitp-emulated-cuda-%lu", setting("TMPDIR", "/tmp"), (unsigned long)getuid());
    mkdir(path, 0700);
    return !lstat(path, &status) && S_ISDIR(status.st_mode) && status.st_uid == getuid();
}

static void entry_path(char *path, size_t size, const char *cache, hash h, const char *ending) {
    snprintf(path, size, "%s/%016llx%016llx%s", cache, (unsigned long long)h.a, (unsigned long long)h.b, ending);
}

static int find_entry(nvrtcProgram program, const char *cache, hash h) {
    char path[PATH_MAX + 64];
    size_t log_size;
    entry_path(path, sizeof path, cache, h, ".log");
    program->log = read_file(path, &log_size);
    entry_path(path, sizeof path, cache, h, ".so");
    program->image = program->log ? read_file(path, &program->image_size) : NULL;
    if (program->image)
        return 1;
    free(program->log);
    program->log = NULL;
    return 0;
}

/* If the cache cannot be written, everything is compiled again. */
static void keep_file(const char *cache, hash h, const char *ending, const char *content, size_t size) {
    char path[PATH_MAX + 64], made[PATH_MAX + 64];
    int file;
    entry_path(path, sizeof path, cache, h, ending);
    snprintf(made, sizeof made, "%s/new-XXXXXX", cache);
    file = mkstemp(made);
    if (file < 0)
        return;
    close(file);
    if (!write_file(made, content, size) || rename(made, path))
        unlink(made);
}

/* Stores the library last, which completes the entry. */
static void keep_entry(nvrtcProgram program, const char *cache, hash h) {
    keep_file(cache, h, ".log", program->log, strlen(program->log));
    keep_file(cache, h, ".so", program->image, program->image_size);
}

/* ---- The compiler ---- */

/* Runs a program in a folder, with its output in a file there. Returns its status. */
static int run_compiler(const char *folder, const char *const *arguments) {
    posix_spawn_file_actions_t actions;
    int status = -1;
    pid_t child;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addchdir_np(&actions, folder);
    posix_spawn_file_actions_addopen(&actions, 1, "emulated_log", O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    if (!posix_spawnp(&child, arguments[0], &actions, NULL, (char *const *)(uintptr_t)arguments, environ)) {
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
    }
    posix_spawn_file_actions_destroy(&actions);
    return status;
}

static void say(nvrtcProgram program, const char *what) {
    free(program->log);
    program->log = (char *)nvrtc_need(strdup(what));
}

static nvrtcResult compile_in(nvrtcProgram program, const char *folder, const char *const *arguments) {
    char path[PATH_MAX + 64];
    size_t size;
    int status;
    for (size_t i = 0; i < program->text_count; i++) {
        if (!write_text(folder, &program->texts[i])) {
            say(program, "a text of the program cannot be written");
            return NVRTC_ERROR_INTERNAL_ERROR;
        }
    }
    status = run_compiler(folder, arguments);
    snprintf(path, sizeof path, "%s/emulated_log", folder);
    free(program->log);
    program->log = read_file(path, &size);
    if (!program->log)
        say(program, "the compiler cannot be run");
    if (status)
        return NVRTC_ERROR_COMPILATION;
    snprintf(path, sizeof path, "%s/emulated_module.so", folder);
    program->image = read_file(path, &program->image_size);
    return program->image ? NVRTC_SUCCESS : NVRTC_ERROR_INTERNAL_ERROR;
}

static nvrtcResult compile(nvrtcProgram program, const char *const *arguments) {
    char folder[PATH_MAX];
    nvrtcResult result;
    snprintf(folder, sizeof folder, "%s/emulated-nvrtc-XXXXXX", setting("TMPDIR", "/tmp"));
    if (!mkdtemp(folder)) {
        say(program, "no folder can be made");
        return NVRTC_ERROR_INTERNAL_ERROR;
    }
    result = compile_in(program, folder, arguments);
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return result;
}

/* Threads that compile the same program for different kernels share the result. */
static nvrtcResult find_or_compile(nvrtcProgram program, const char *const *arguments, unsigned long *compilations) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    char cache[PATH_MAX];
    const hash h = hash_program(program, arguments);
    const int has_cache = find_cache(cache, sizeof cache);
    nvrtcResult result = NVRTC_SUCCESS;
    pthread_mutex_lock(&lock);
    if (!has_cache || !find_entry(program, cache, h)) {
        ++*compilations;
        result = compile(program, arguments);
        if (!result && has_cache)
            keep_entry(program, cache, h);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

nvrtcResult nvrtc_compile(nvrtcProgram program, const char *const *options, unsigned long *compilations) {
    const char *const fixed[] = {"-x",
                                 "c++",
                                 "-std=c++17",
                                 setting("EITP_EMULATED_OPTIMIZE", "-Og"),
                                 "-fPIC",
                                 "-shared",
                                 "-Wall",
                                 "-Wextra",
                                 "-Wno-unknown-pragmas",
                                 "-Wno-unused-function"};
    enum { FIXED = sizeof fixed / sizeof fixed[0], MOST_WORDS = 16 };
    char *compiler = (char *)nvrtc_need(strdup(setting("EITP_EMULATED_CXX", "c++"))), *rest = NULL;
    char include[PATH_MAX]; /* an absolute path, because the compiler runs in another folder */
    const char **arguments;
    size_t count = 0, option_count = 0;
    nvrtcResult result;
    while (options[option_count])
        option_count++;
    arguments = (const char **)nvrtc_need(calloc(MOST_WORDS + FIXED + option_count + 16, sizeof *arguments));
    for (char *word = strtok_r(compiler, " ", &rest); word && count < MOST_WORDS; word = strtok_r(NULL, " ", &rest))
        arguments[count++] = word;
    for (size_t i = 0; i < FIXED; i++)
        arguments[count++] = fixed[i];
    for (size_t i = 0; i < option_count; i++)
        arguments[count++] = options[i];
    arguments[count++] = "-I.";
    arguments[count++] = "-I";
    arguments[count++] = realpath(include_folder(), include) ? include : include_folder();
    arguments[count++] = program->texts[0].name;
    arguments[count++] = "-o";
    arguments[count++] = "emulated_module.so";
    result = find_or_compile(program, arguments, compilations);
    free(arguments);
    free(compiler);
    return result;
}
