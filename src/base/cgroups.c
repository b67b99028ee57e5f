#include "base/cgroups.h"

#include "base/files.h"
#include "base/system_text.h"

typedef enum eitp__cgroup_version { EITP__CGROUP_V2, EITP__CGROUP_V1, EITP__CGROUP_VERSIONS } eitp__cgroup_version;

/* Location in the file system of the process's cgroup of one version. */
typedef struct eitp__cgroup_location {
    char *path;        /* of the process's cgroup in the hierarchy; NULL if it has none */
    char *mount_root;  /* path of the mounted cgroup */
    char *mount_point; /* directory where it is mounted; NULL if no hierarchy is mounted */
} eitp__cgroup_location;

static const struct {
    const char *limits[2];
    const char *used;
    const char *inactive_file; /* names in memory.stat */
    const char *active_file;
} eitp__cgroup_files[EITP__CGROUP_VERSIONS] = {
    {{"memory.max", "memory.high"}, "memory.current", "inactive_file ", "active_file "},
    {{"memory.limit_in_bytes", NULL}, "memory.usage_in_bytes", "total_inactive_file ", "total_active_file "},
};

/* Splits the next part off *text, up to `separator`, and zero-terminates it; NULL at the end of *text. */
static char *eitp__split_off(char **text, char separator) {
    char *part = *text, *end = strchr(part, separator);
    if (!*part)
        return NULL;
    *text = end ? end + 1 : part + strlen(part);
    if (end)
        *end = 0;
    return part;
}

/* True if the comma-separated `list` contains `word`. */
static int eitp__list_contains(const char *list, const char *word) {
    const size_t size = strlen(word);
    for (;;) {
        size_t length = strcspn(list, ",");
        if (length == size && !memcmp(list, word, size))
            return 1;
        if (!list[length])
            return 0;
        list += length + 1;
    }
}

/* Parses /proc/self/cgroup: lines like "0::/path" and "4:cpu,memory:/path". Stores pointers into `text`. */
static void eitp__find_cgroups(char *text, const char *controller, eitp__cgroup_location *locations) {
    char *line;
    while ((line = eitp__split_off(&text, '\n')) != NULL) {
        const char *number = eitp__split_off(&line, ':');
        const char *controllers = number && *line == ':' ? line++ : number ? eitp__split_off(&line, ':') : NULL;
        if (!controllers || *line != '/')
            continue;
        if (*controllers == ':' && !strcmp(number, "0"))
            locations[EITP__CGROUP_V2].path = line;
        else if (eitp__list_contains(controllers, controller))
            locations[EITP__CGROUP_V1].path = line;
    }
}

/* Decodes octal escapes, such as "\040" for a space, in a path of the list of mounts. */
static void eitp__unescape_mount(char *path) {
    char *to = path;
    for (; *path; path++, to++) {
        *to = *path;
        if (*path == '\\' && strspn(path + 1, "01234567") >= 3) {
            *to = (char)((path[1] - '0') << 6 | (path[2] - '0') << 3 | (path[3] - '0'));
            path += 3;
        }
    }
    *to = 0;
}

/* Returns the part of a cgroup's path below the mounted cgroup `root`; NULL if it is not below it. */
static const char *eitp__path_below(const char *root, const char *path) {
    enum { EITP__LONGEST_PATH = 4096 };
    size_t size = strlen(root);
    size -= size && root[size - 1] == '/';
    if (strncmp(root, path, size) || (path[size] && path[size] != '/'))
        return NULL;
    path += size;
    if (strlen(path) > EITP__LONGEST_PATH || strstr(path, "/.."))
        return NULL;
    return strcmp(path, "/") ? path : "";
}

/* Keeps a mount if it contains the process's cgroup, or if it is the first one. */
static void eitp__keep_mount(eitp__cgroup_location *location, char *root, char *point) {
    eitp__unescape_mount(root);
    eitp__unescape_mount(point);
    if (!location->path || *point != '/')
        return;
    if (location->mount_point &&
        (eitp__path_below(location->mount_root, location->path) || !eitp__path_below(root, location->path)))
        return;
    location->mount_root = root;
    location->mount_point = point;
}

/* Parses /proc/self/mountinfo: lines like "31 23 0:26 /root /point rw - cgroup2 cgroup2 rw". The number of fields
   between the mount point and the dash varies; the last field lists the controllers of version 1. */
static void eitp__find_mounts(char *text, const char *controller, eitp__cgroup_location *locations) {
    char *line;
    while ((line = eitp__split_off(&text, '\n')) != NULL) {
        char *fields[5] = {NULL, NULL, NULL, NULL, NULL}, *word = NULL, *type;
        for (size_t i = 0; i < EITP__COUNT(fields); i++)
            fields[i] = eitp__split_off(&line, ' ');
        do {
            word = eitp__split_off(&line, ' ');
        } while (word && strcmp(word, "-"));
        type = eitp__split_off(&line, ' ');
        eitp__split_off(&line, ' '); /* the device */
        if (!type)
            continue;
        if (!strcmp(type, "cgroup2"))
            eitp__keep_mount(&locations[EITP__CGROUP_V2], fields[3], fields[4]);
        else if (!strcmp(type, "cgroup") && eitp__list_contains(line, controller))
            eitp__keep_mount(&locations[EITP__CGROUP_V1], fields[3], fields[4]);
    }
}

/*
 * Reads a number from a cgroup's file: the first one if `name` is empty, otherwise the one after `name`. A missing
 * first number leaves *bytes unchanged; a missing name sets it to 0.
 */
static eitp_status eitp__read_cgroup_file(const eitp_host *host, const char *directory, const char *file,
                                          const char *name, uint64_t *bytes, eitp_error *error) {
    eitp__buffer text;
    eitp_status status;
    char *path = eitp__join_path(host, directory, file);
    if (!path)
        return eitp__fail_memory(error, strlen(directory) + strlen(file) + 2, "the path of a control group");
    eitp__buffer_init(&text, host);
    status = eitp__read_system_text(host, path, &text, error);
    eitp__release_text(host, path);
    if (status)
        return status;
    if (*name)
        *bytes = eitp__find_bytes(text.data, name);
    else
        eitp__parse_bytes(text.data, bytes);
    eitp__buffer_release(&text);
    return EITP_OK;
}

/* Reads the limit and use of one cgroup; *memory is unspecified and *has_limit 0 if it has no limit. */
static eitp_status eitp__read_cgroup(const eitp_host *host, eitp__cgroup_version version, const char *directory,
                                     eitp__cgroup_memory *memory, int *has_limit, eitp_error *error) {
    const uint64_t none = (uint64_t)1 << 62; /* version 1 reports about this number if there is no limit */
    uint64_t inactive_file = 0;
    eitp_status status = EITP_OK;
    memset(memory, 0, sizeof *memory);
    memory->limit = none;
    for (size_t i = 0; i < 2 && eitp__cgroup_files[version].limits[i] && !status; i++) {
        uint64_t found = none;
        status = eitp__read_cgroup_file(host, directory, eitp__cgroup_files[version].limits[i], "", &found, error);
        memory->limit = found < memory->limit ? found : memory->limit;
    }
    *has_limit = memory->limit != none;
    if (status || !*has_limit)
        return status;
    status = eitp__read_cgroup_file(host, directory, eitp__cgroup_files[version].used, "", &memory->used, error);
    if (!status)
        status = eitp__read_cgroup_file(host, directory, "memory.stat", eitp__cgroup_files[version].inactive_file,
                                        &inactive_file, error);
    if (!status)
        status = eitp__read_cgroup_file(host, directory, "memory.stat", eitp__cgroup_files[version].active_file,
                                        &memory->page_cache, error);
    memory->used -= inactive_file < memory->used ? inactive_file : memory->used;
    return status;
}

/* Reads one cgroup's files in `directory`. `user` is the reader's context. */
typedef eitp_status (*eitp__cgroup_reader)(void *user, const eitp_host *host, eitp__cgroup_version version,
                                           const char *directory, eitp_error *error);

/* Reads the process's cgroup of one version and its mounted parents. */
static eitp_status eitp__read_hierarchy(const eitp_host *host, eitp__cgroup_version version,
                                        const eitp__cgroup_location *location, eitp__cgroup_reader read, void *user,
                                        eitp_error *error) {
    const char *below = eitp__path_below(location->mount_root, location->path);
    eitp_status status = EITP_OK;
    eitp__buffer directory;
    size_t top;
    eitp__buffer_init(&directory, host);
    eitp__buffer_add_text(&directory, location->mount_point);
    top = directory.size;
    eitp__buffer_add_text(&directory, below ? below : "");
    if (directory.failed)
        status = eitp__fail_memory(error, top, "the path of a control group");
    while (!status) {
        status = read(user, host, version, directory.data, error);
        if (directory.size == top)
            break;
        while (directory.size > top && directory.data[--directory.size] != '/') {
        }
        directory.data[directory.size] = 0;
    }
    eitp__buffer_release(&directory);
    return status;
}

/* Reads the process's cgroups of both versions that have this controller, and their mounted parents. */
static eitp_status eitp__read_cgroups(const eitp_host *host, const char *controller, eitp__cgroup_reader read,
                                      void *user, eitp_error *error) {
    eitp__cgroup_location locations[EITP__CGROUP_VERSIONS];
    eitp__buffer paths, mounts;
    eitp_status status;
    memset(locations, 0, sizeof locations);
    eitp__buffer_init(&paths, host);
    eitp__buffer_init(&mounts, host);
    status = eitp__read_system_text(host, "/proc/self/cgroup", &paths, error);
    if (!status)
        status = eitp__read_system_text(host, "/proc/self/mountinfo", &mounts, error);
    if (!status) {
        eitp__find_cgroups(paths.data, controller, locations);
        eitp__find_mounts(mounts.data, controller, locations);
    }
    for (int i = 0; i < EITP__CGROUP_VERSIONS && !status; i++) {
        if (locations[i].mount_point)
            status = eitp__read_hierarchy(host, (eitp__cgroup_version)i, &locations[i], read, user, error);
    }
    eitp__buffer_release(&paths);
    eitp__buffer_release(&mounts);
    return status;
}

/* ---- Memory ---- */

typedef struct eitp__cgroup_visit {
    void (*visit)(void *visitor, const eitp__cgroup_memory *memory);
    void *visitor;
} eitp__cgroup_visit;

static eitp_status eitp__visit_cgroup(void *user, const eitp_host *host, eitp__cgroup_version version,
                                      const char *directory, eitp_error *error) {
    const eitp__cgroup_visit *v = (const eitp__cgroup_visit *)user;
    eitp__cgroup_memory memory;
    int has_limit = 0;
    eitp_status status = eitp__read_cgroup(host, version, directory, &memory, &has_limit, error);
    if (!status && has_limit)
        v->visit(v->visitor, &memory);
    return status;
}

EITP__PRIVATE eitp_status eitp__visit_cgroups(const eitp_host *host,
                                              void (*visit)(void *visitor, const eitp__cgroup_memory *memory),
                                              void *visitor, eitp_error *error) {
    eitp__cgroup_visit v;
    v.visit = visit;
    v.visitor = visitor;
    return eitp__read_cgroups(host, "memory", eitp__visit_cgroup, &v, error);
}

/* ---- Processor time ---- */

/* Reads up to two numbers, as in "150000 100000", from a cgroup's file; stores the number read in *count. */
static eitp_status eitp__read_cgroup_numbers(const eitp_host *host, const char *directory, const char *file,
                                             double numbers[2], int *count, eitp_error *error) {
    eitp__buffer text;
    eitp_status status;
    char *path = eitp__join_path(host, directory, file), *at, *end;
    *count = 0;
    if (!path)
        return eitp__fail_memory(error, strlen(directory) + strlen(file) + 2, "the path of a control group");
    eitp__buffer_init(&text, host);
    status = eitp__read_system_text(host, path, &text, error);
    eitp__release_text(host, path);
    for (at = text.data; !status && at && *count < 2; at = end, ++*count) {
        const long long number = strtoll(at, &end, 10);
        if (end == at)
            break;
        numbers[*count] = (double)number;
    }
    eitp__buffer_release(&text);
    return status;
}

/* Lowers *user, a number of processors (0: no limit yet), to one cgroup's quota: microseconds on all processors per
   period. A quota of "max" or -1 means unlimited. */
static eitp_status eitp__read_quota(void *user, const eitp_host *host, eitp__cgroup_version version,
                                    const char *directory, eitp_error *error) {
    double *least = (double *)user, numbers[2] = {0, 0};
    int count = 0;
    eitp_status status;
    if (version == EITP__CGROUP_V2) {
        status = eitp__read_cgroup_numbers(host, directory, "cpu.max", numbers, &count, error);
    } else {
        status = eitp__read_cgroup_numbers(host, directory, "cpu.cfs_period_us", numbers, &count, error);
        numbers[1] = numbers[0];
        if (!status && count)
            status = eitp__read_cgroup_numbers(host, directory, "cpu.cfs_quota_us", numbers, &count, error);
        count += count == 1;
    }
    if (!status && count == 2 && numbers[0] > 0 && numbers[1] > 0 && (*least <= 0 || numbers[0] / numbers[1] < *least))
        *least = numbers[0] / numbers[1];
    return status;
}

EITP__PRIVATE eitp_status eitp__cgroup_processors(const eitp_host *host, double *processors, eitp_error *error) {
    *processors = 0;
    return eitp__read_cgroups(host, "cpu", eitp__read_quota, processors, error);
}
