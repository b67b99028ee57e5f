#include "backends/cuda/libraries.h"

#include "base/files.h"
#include "base/library.h"

#if EITP__WITH_CUDA

/* A search for one library. `path` is the last path tried. */
typedef struct eitp__library_search {
    const eitp_host *host;
    const char *file; /* "libnvrtc.so.13" */
    int major;
    char path[512];
    char *reason;
    size_t reason_size;
    void *found;
} eitp__library_search;

/* Tries the library in a folder, if it is there. Returns 1 if it was opened. */
static int eitp__try_library_in(eitp__library_search *search, const char *folder) {
    eitp_path_info info;
    const int length = snprintf(search->path, sizeof search->path, "%s/%s", folder, search->file);
    if (length < 0 || (size_t)length >= sizeof search->path ||
        eitp__path_info(search->host, search->path, &info, NULL) || info.kind != EITP_PATH_FILE)
        return 0;
    search->found = eitp__open_library(search->path, search->reason, search->reason_size);
    return search->found != NULL;
}

/* Tries the folders of PyPI wheels. The wheels of CUDA 13 share a folder; in CUDA 12 each library has its own. */
static int eitp__try_packages(eitp__library_search *search, const char *packages) {
    static const char *const folders[] = {"cu%d/lib", "cuda_nvrtc/lib", "cublas/lib"};
    char folder[32], path[512];
    for (size_t i = 0; i < EITP__COUNT(folders); i++) {
        snprintf(folder, sizeof folder, folders[i], search->major);
        if (snprintf(path, sizeof path, "%s/nvidia/%s", packages, folder) < (int)sizeof path &&
            eitp__try_library_in(search, path))
            return 1;
    }
    return 0;
}

/* Tries the packages of every Python below "<root>/lib". */
static int eitp__try_python(eitp__library_search *search, const char *root) {
    static const char *const packages[] = {"site-packages", "dist-packages"};
    char path[512];
    eitp__buffer names;
    size_t count = 0;
    const char *name;
    eitp__buffer_init(&names, search->host);
    snprintf(path, sizeof path, "%s/lib", root);
    if (eitp__list_directory(search->host, path, &names, &count, NULL))
        count = 0;
    name = names.data;
    for (size_t i = 0; i < count && !search->found; i++, name += strlen(name) + 1) {
        if (strncmp(name, "python3", 7) != 0)
            continue;
        for (size_t k = 0; k < EITP__COUNT(packages) && !search->found; k++) {
            if (snprintf(path, sizeof path, "%s/lib/%s/%s", root, name, packages[k]) < (int)sizeof path)
                eitp__try_packages(search, path);
        }
    }
    eitp__buffer_release(&names);
    return search->found != NULL;
}

/* Tries folders in environment variables, with a suffix, and the Python packages below those that may contain a
   Python. */
static int eitp__try_environment(eitp__library_search *search) {
    static const struct {
        const char *variable, *below;
        int has_python;
    } places[] = {
        {"CUDA_HOME", "/lib64", 0}, {"CUDA_PATH", "/lib64", 0}, {"CONDA_PREFIX", "/lib", 0},
        {"VIRTUAL_ENV", "", 1},     {"CONDA_PREFIX", "", 1},    {"HOME", "/.local", 1},
    };
    char path[400];
    for (size_t i = 0; i < EITP__COUNT(places) && !search->found; i++) {
        const char *value = getenv(places[i].variable);
        if (!value || !*value || snprintf(path, sizeof path, "%s%s", value, places[i].below) >= (int)sizeof path)
            continue;
        if (places[i].has_python)
            eitp__try_python(search, path);
        else
            eitp__try_library_in(search, path);
    }
    return search->found != NULL;
}

static int eitp__try_everywhere(eitp__library_search *search) {
    static const char *const folders[] = {"/usr/local/cuda/lib64", "/opt/cuda/lib64", "/usr/lib/cuda/lib64"};
    static const char *const roots[] = {"/usr/local", "/usr"};
    search->found = eitp__open_library(search->file, search->reason, search->reason_size);
    if (search->found || eitp__try_environment(search))
        return 1;
    for (size_t i = 0; i < EITP__COUNT(folders); i++)
        if (eitp__try_library_in(search, folders[i]))
            return 1;
    for (size_t i = 0; i < EITP__COUNT(roots); i++)
        if (eitp__try_python(search, roots[i]))
            return 1;
    return 0;
}

EITP__PRIVATE void *eitp__cuda_open_library(const eitp_host *host, const char *name, int newest, char *reason,
                                            size_t size) {
    eitp__library_search search = EITP__ZERO;
    char file[64];
    search.host = host;
    search.file = file;
    search.reason = reason;
    search.reason_size = size;
    for (search.major = newest; search.major >= EITP__CUDA_OLDEST; search.major--) {
        snprintf(file, sizeof file, "lib%s.so.%d", name, search.major);
        if (eitp__try_everywhere(&search))
            return search.found;
    }
    snprintf(reason, size,
             "lib%s.so.%d not found in the system's libraries, below CUDA_HOME, or in a Python's "
             "packages",
             name, newest);
    return NULL;
}

#endif
