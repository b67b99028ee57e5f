#include "backends/cuda/libraries.h"

#include "base/files.h"
#include "base/library.h"

#if EITP__WITH_CUDA

enum { EITP__LIBRARY_PATH = 512 };

/* A search for the versions of a library. */
typedef struct eitp__library_search {
    const eitp_host *host;
    char prefix[48];    /* "libnvrtc.so." */
    eitp__buffer found; /* paths of files of any version, in the order of the search, each followed by a zero byte */
    char failure[320];  /* why a version for this driver cannot be opened; empty: none was found */
} eitp__library_search;

/* ---- Folders ---- */

/* Returns the major version in the name of a file of the library; 0 for other files. */
static int eitp__library_major(const eitp__library_search *search, const char *name) {
    const size_t length = strlen(search->prefix);
    return strncmp(name, search->prefix, length) ? 0 : (int)strtol(name + length, NULL, 10);
}

/* Calls `visit` with the path of each entry of a folder. A missing folder has none. */
static void eitp__visit_folder(eitp__library_search *search, const char *folder,
                               void (*visit)(eitp__library_search *search, const char *path, const char *name)) {
    char path[EITP__LIBRARY_PATH];
    eitp__buffer names;
    size_t count = 0;
    const char *name;
    eitp__buffer_init(&names, search->host);
    if (eitp__list_directory(search->host, folder, &names, &count, NULL))
        count = 0;
    name = names.data;
    for (size_t i = 0; i < count; i++, name += strlen(name) + 1)
        if (snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path)
            visit(search, path, name);
    eitp__buffer_release(&names);
}

static void eitp__add_library(eitp__library_search *search, const char *path, const char *name) {
    if (eitp__library_major(search, name))
        eitp__buffer_add(&search->found, path, strlen(path) + 1);
}

static void eitp__search_folder(eitp__library_search *search, const char *folder) {
    eitp__visit_folder(search, folder, eitp__add_library);
}

/* ---- Packages of Python ---- */

/* The wheels of CUDA 13 share a folder, nvidia/cu13/lib. In CUDA 12 each has one, such as nvidia/cuda_nvrtc/lib. */
static void eitp__search_wheel(eitp__library_search *search, const char *path, const char *name) {
    char folder[EITP__LIBRARY_PATH];
    (void)name;
    if (snprintf(folder, sizeof folder, "%s/lib", path) < (int)sizeof folder)
        eitp__search_folder(search, folder);
}

static void eitp__search_version(eitp__library_search *search, const char *path, const char *name) {
    static const char *const packages[] = {"site-packages", "dist-packages"};
    char folder[EITP__LIBRARY_PATH];
    if (strncmp(name, "python3", 7) != 0)
        return;
    for (size_t i = 0; i < EITP__COUNT(packages); i++)
        if (snprintf(folder, sizeof folder, "%s/%s/nvidia", path, packages[i]) < (int)sizeof folder)
            eitp__visit_folder(search, folder, eitp__search_wheel);
}

/* Searches the packages of every Python installed in a folder, such as /usr or a virtual environment. */
static void eitp__search_python(eitp__library_search *search, const char *root) {
    static const char *const folders[] = {"lib", "lib64"};
    char folder[EITP__LIBRARY_PATH];
    for (size_t i = 0; i < EITP__COUNT(folders); i++)
        if (snprintf(folder, sizeof folder, "%s/%s", root, folders[i]) < (int)sizeof folder)
            eitp__visit_folder(search, folder, eitp__search_version);
}

/* Searches the Python of a program "<root>/bin/python3". */
static void eitp__search_program(eitp__library_search *search, const char *path) {
    char *folder = eitp__parent_directory(search->host, path);
    char *root = folder ? eitp__parent_directory(search->host, folder) : NULL;
    if (root)
        eitp__search_python(search, root);
    eitp__release_text(search->host, folder);
    eitp__release_text(search->host, root);
}

/* Calls `visit` with each folder of a list separated by colons, until it returns 1. */
static void eitp__visit_list(eitp__library_search *search, const char *list,
                             int (*visit)(eitp__library_search *search, const char *folder)) {
    char folder[EITP__LIBRARY_PATH];
    for (const char *at = list; *at;) {
        const size_t length = strcspn(at, ":");
        if (length && snprintf(folder, sizeof folder, "%.*s", (int)length, at) < (int)sizeof folder &&
            visit(search, folder))
            return;
        at += length + (at[length] == ':');
    }
}

static int eitp__search_program_folder(eitp__library_search *search, const char *folder) {
    char path[EITP__LIBRARY_PATH], *absolute;
    eitp_path_info info;
    if (snprintf(path, sizeof path, "%s/python3", folder) >= (int)sizeof path ||
        eitp__path_info(search->host, path, &info, NULL) || info.kind != EITP_PATH_FILE)
        return 0;
    absolute = eitp__absolute_path(search->host, path);
    eitp__search_program(search, path);
    if (absolute)
        eitp__search_program(search, absolute);
    eitp__release_text(search->host, absolute);
    return 1;
}

/* Searches the Python of the first program `python3` in these folders: the virtual environment that the program is in,
   and the Python that it links to. */
static void eitp__search_programs(eitp__library_search *search, const char *folders) {
    eitp__visit_list(search, folders, eitp__search_program_folder);
}

/* ---- All places ---- */

static int eitp__search_each_folder(eitp__library_search *search, const char *folder) {
    eitp__search_folder(search, folder);
    return 0;
}

static void eitp__search_folders(eitp__library_search *search, const char *folders) {
    eitp__visit_list(search, folders, eitp__search_each_folder);
}

/* A place: the value of an environment variable, if there is one, followed by a path. */
typedef struct eitp__library_place {
    const char *variable, *path;
    void (*search)(eitp__library_search *search, const char *place);
} eitp__library_place;

/* In the order of the search. The last places are the loader's, which opens every version that it can: only others are
   found there. */
static const eitp__library_place eitp__library_places[] = {
    {"CUDA_HOME", "/lib64", eitp__search_folder},
    {"CUDA_PATH", "/lib64", eitp__search_folder},
    {"CONDA_PREFIX", "/lib", eitp__search_folder},
    {"VIRTUAL_ENV", "", eitp__search_python},
    {"CONDA_PREFIX", "", eitp__search_python},
    {NULL, ".venv", eitp__search_python},
    {NULL, "venv", eitp__search_python},
    {"PATH", "", eitp__search_programs},
    {"HOME", "/.local", eitp__search_python},
    {NULL, "/usr/local/cuda/lib64:/opt/cuda/lib64:/usr/lib/cuda/lib64", eitp__search_folders},
    {NULL, "/usr/local", eitp__search_python},
    {NULL, "/usr", eitp__search_python},
    {"LD_LIBRARY_PATH", "", eitp__search_folders},
    {NULL, "/usr/lib/x86_64-linux-gnu:/usr/lib/aarch64-linux-gnu:/usr/lib64", eitp__search_folders},
};

static void eitp__search_everywhere(eitp__library_search *search) {
    eitp__buffer text;
    eitp__buffer_init(&text, search->host);
    for (size_t i = 0; i < EITP__COUNT(eitp__library_places); i++) {
        const eitp__library_place *place = &eitp__library_places[i];
        const char *value = place->variable ? getenv(place->variable) : NULL;
        if (place->variable && (!value || !*value))
            continue;
        eitp__buffer_clear(&text);
        eitp__buffer_add_text(&text, value ? value : "");
        eitp__buffer_add_text(&text, place->path);
        if (!text.failed)
            place->search(search, text.data);
    }
    eitp__buffer_release(&text);
}

/* ---- Opening ---- */

/* Opens a file. Keeps the first failure. */
static void *eitp__try_library(eitp__library_search *search, const char *path) {
    char reason[200];
    void *library = eitp__open_library(path, reason, sizeof reason);
    const size_t length = strlen(path);
    const int is_named = !strncmp(reason, path, length) && reason[length] == ':';
    if (!library && !*search->failure)
        snprintf(search->failure, sizeof search->failure, "cannot open %.150s: %.150s", path,
                 is_named ? reason + length + 2 : reason);
    return library;
}

/* Opens a version that the loader finds. The loader's message starts with the name of a missing library, or with the
   path of a file that it cannot open. */
static void *eitp__try_loader(eitp__library_search *search, int major) {
    char file[64], reason[200];
    void *library;
    snprintf(file, sizeof file, "%s%d", search->prefix, major);
    library = eitp__open_library(file, reason, sizeof reason);
    if (!library && strncmp(reason, file, strlen(file)) != 0 && !*search->failure)
        snprintf(search->failure, sizeof search->failure, "cannot open %s: %s", file, reason);
    return library;
}

/* Opens the first file of a major version. */
static void *eitp__try_found(eitp__library_search *search, int major) {
    void *library = NULL;
    for (size_t at = 0; at < search->found.size && !library;) {
        const char *path = search->found.data + at;
        if (eitp__library_major(search, strrchr(path, '/') + 1) == major)
            library = eitp__try_library(search, path);
        at += strlen(path) + 1;
    }
    return library;
}

/* Writes why the search failed: a library cannot be opened, or has a version that the driver cannot use. */
static void eitp__explain_search(const eitp__library_search *search, int driver_version, char *text, size_t size) {
    const char *found = search->found.size ? search->found.data : NULL;
    const int major = found ? eitp__library_major(search, strrchr(found, '/') + 1) : 0, newest = driver_version / 1000;
    size_t length;
    if (*search->failure) {
        snprintf(text, size, "%s", search->failure);
        return;
    }
    length = (size_t)snprintf(text, size,
                              "%s%d is not in the system's libraries, below CUDA_HOME, or in a Python's packages",
                              search->prefix, newest);
    if (major > newest)
        snprintf(text + length, size - length,
                 "; found %.200s, which needs a driver of CUDA %d (this one has CUDA %d.%d)", found, major, newest,
                 driver_version % 1000 / 10);
    else if (found)
        snprintf(text + length, size - length, "; found %.200s, which is older than CUDA %d", found, EITP__CUDA_OLDEST);
}

/* Appends how to install a version for this driver. CUDA 12's packages have its number in their names, later packages
   in their versions. */
static void eitp__add_installation(const char *package, int newest, char *text, size_t size) {
    const size_t length = strlen(text);
    char requirement[80];
    if (newest == 12)
        snprintf(requirement, sizeof requirement, "%s-cu12", package);
    else
        snprintf(requirement, sizeof requirement, "'%s<%d'", package, newest + 1);
    snprintf(text + length, size - length, "; install the CUDA %d toolkit, or run: pip install %s", newest,
             requirement);
}

EITP__PRIVATE void *eitp__cuda_open_library(const eitp_host *host, const char *name, const char *package,
                                            int driver_version, char *reason, size_t size) {
    eitp__library_search search = EITP__ZERO;
    const int newest = driver_version / 1000;
    void *library = NULL;
    int is_searched = 0;
    search.host = host;
    snprintf(search.prefix, sizeof search.prefix, "lib%s.so.", name);
    eitp__buffer_init(&search.found, host);
    for (int major = newest; major >= EITP__CUDA_OLDEST && !library; major--) {
        library = eitp__try_loader(&search, major);
        if (!library && !is_searched)
            eitp__search_everywhere(&search);
        is_searched = 1;
        if (!library)
            library = eitp__try_found(&search, major);
    }
    if (!library && newest < EITP__CUDA_OLDEST)
        snprintf(reason, size, "the NVIDIA driver has CUDA %d.%d; install one of CUDA %d or later", newest,
                 driver_version % 1000 / 10, EITP__CUDA_OLDEST);
    else if (!library) {
        eitp__explain_search(&search, driver_version, reason, size);
        eitp__add_installation(package, newest, reason, size);
    }
    eitp__buffer_release(&search.found);
    return library;
}

#endif
