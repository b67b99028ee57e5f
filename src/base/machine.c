/* What memory a process may use: what the machine has available, the limits of its control groups, its own limits. */
#include "base/files.h"

#include <sys/resource.h>
#include <unistd.h>

/* Files of the system are smaller; the longest is the list of mounts of a machine with many containers. */
#define EITP__SYSTEM_TEXT_LIMIT ((size_t)16 << 20)

typedef enum eitp__cgroup_version { EITP__CGROUP_V2, EITP__CGROUP_V1, EITP__CGROUP_VERSIONS } eitp__cgroup_version;

/* Where the control groups of a version are shown, and where the process is among them. */
typedef struct eitp__cgroup_place {
    char *path;  /* of the process's cgroup; NULL: it has none */
    char *root;  /* the cgroup that is mounted */
    char *point; /* where; NULL: nowhere */
} eitp__cgroup_place;

static const struct {
    const char *limits[2];
    const char *used;
    const char *cache; /* what is reclaimed of it first, in memory.stat */
    const char *pages; /* and what else of files can be, before a process must go */
} eitp__cgroup_files[EITP__CGROUP_VERSIONS] = {
    {{"memory.max", "memory.high"}, "memory.current", "inactive_file ", "active_file "},
    {{"memory.limit_in_bytes", NULL}, "memory.usage_in_bytes", "total_inactive_file ", "total_active_file "},
};

/* ---- texts of the system ---- */

/* Reads a whole file as a text. One that cannot be read is an empty one: what it would say is unknown. Only running out
   of memory is an error. */
static eitp_status eitp__read_system_text(const eitp_host *host, const char *path, eitp__buffer *text,
                                          eitp_error *error) {
    eitp_error cause;
    eitp_status status = eitp__read_file(host, path, EITP__SYSTEM_TEXT_LIMIT, text, &cause);
    if (status == EITP_ERROR_MEMORY)
        return eitp__fail(error, status, "%s", cause.message);
    if (status)
        eitp__buffer_add(text, "", 0);
    return text->failed ? eitp__fail_memory(error, 1, path) : EITP_OK;
}

/* Stores the bytes that the line at the start of `text` gives, "1024" or "1 kB"; returns 0 where it says anything else,
   or they are too many. */
static int eitp__read_amount(const char *text, uint64_t *amount) {
    uint64_t value = 0, unit = 1;
    text += strspn(text, " \t");
    if (*text < '0' || *text > '9')
        return 0;
    for (; *text >= '0' && *text <= '9'; text++) {
        uint64_t digit = (uint64_t)(*text - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return 0;
        value = value * 10 + digit;
    }
    if (!strncmp(text, " kB", 3)) {
        unit = 1024;
        text += 3;
    }
    if ((*text && *text != '\n') || value > UINT64_MAX / unit)
        return 0;
    *amount = value * unit;
    return 1;
}

/* The bytes after `name` at the start of a line; 0 where no line has it. */
static uint64_t eitp__amount_of(const char *text, const char *name) {
    const size_t size = strlen(name);
    uint64_t amount = 0;
    while (strncmp(text, name, size)) {
        text = strchr(text, '\n');
        if (!text)
            return 0;
        text++;
    }
    return eitp__read_amount(text + size, &amount) ? amount : 0;
}

/* Takes what precedes `separator` off the front of *text, ended by a zero byte; NULL where *text is at its end. */
static char *eitp__take(char **text, char separator) {
    char *part = *text, *end = strchr(part, separator);
    if (!*part)
        return NULL;
    *text = end ? end + 1 : part + strlen(part);
    if (end)
        *end = 0;
    return part;
}

/* Whether `word` is in a list that is separated by commas. */
static int eitp__lists(const char *list, const char *word) {
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

/* ---- the process ---- */

/* What the process uses as its limits count it. */
typedef struct eitp__process_size {
    uint64_t data, all; /* private writable memory; all addresses */
} eitp__process_size;

static eitp_status eitp__read_process(const eitp_host *host, eitp_memory_info *info, eitp__process_size *size,
                                      eitp_error *error) {
    struct rusage usage;
    eitp__buffer text;
    eitp_status status;
    eitp__buffer_init(&text, host);
    status = eitp__read_system_text(host, "/proc/self/status", &text, error);
    if (status)
        return status;
    info->resident = eitp__amount_of(text.data, "VmRSS:");
    info->peak = eitp__amount_of(text.data, "VmHWM:");
    size->data = eitp__amount_of(text.data, "VmData:");
    size->all = eitp__amount_of(text.data, "VmSize:");
    eitp__buffer_release(&text);
    memset(&usage, 0, sizeof usage);
    if (!info->peak && !getrusage(RUSAGE_SELF, &usage) && usage.ru_maxrss > 0)
#ifdef __APPLE__
        info->peak = (uint64_t)usage.ru_maxrss;
#else
        info->peak = (uint64_t)usage.ru_maxrss * 1024;
#endif
    return EITP_OK;
}

static eitp_status eitp__read_machine(const eitp_host *host, eitp_memory_info *info, eitp_error *error) {
    eitp__buffer text;
    eitp_status status;
    eitp__buffer_init(&text, host);
    status = eitp__read_system_text(host, "/proc/meminfo", &text, error);
    if (status)
        return status;
    info->total = eitp__amount_of(text.data, "MemTotal:");
    info->available = eitp__amount_of(text.data, "MemAvailable:");
    info->swap_free = eitp__amount_of(text.data, "SwapFree:");
    eitp__buffer_release(&text);
#if !defined(__linux__) && defined(_SC_PHYS_PAGES)
    if (!info->total) {
        long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
        if (pages > 0 && page > 0)
            info->total = (uint64_t)pages * (uint64_t)page;
    }
#endif
    return EITP_OK;
}

/* ---- bounds ---- */

/* What a process may have of `limit` bytes of which `used` are in use: what it has already, and what is left. */
static uint64_t eitp__share_of(uint64_t limit, uint64_t used, uint64_t resident) {
    uint64_t left = limit > used ? limit - used : 0, taken = limit - left;
    uint64_t share = left + (resident < taken ? resident : taken);
    return share ? share : 1; /* 0 would say that nothing is known */
}

/* Of what is in use, `cache` can be had back. */
static void eitp__bound(eitp_memory_info *info, const char *source, uint64_t limit, uint64_t used, uint64_t cache) {
    uint64_t share = eitp__share_of(limit, used, info->resident), taken = used - (cache < used ? cache : used);
    uint64_t left = limit > taken ? limit - taken : 0;
    if (!info->usable || left < info->left)
        info->left = left;
    if (info->usable && share >= info->usable)
        return;
    info->usable = share;
    info->source = source;
}

static void eitp__bound_by_machine(eitp_memory_info *info) {
    if (info->available && info->total > info->available)
        eitp__bound(info, "MemAvailable", info->total, info->total - info->available, 0);
    else if (info->available)
        eitp__bound(info, "MemAvailable", info->available, 0, 0);
}

static void eitp__bound_by_process(eitp_memory_info *info, const char *source, const struct rlimit *limit,
                                   uint64_t used) {
    const uint64_t bytes = (uint64_t)limit->rlim_cur;
    if (limit->rlim_cur == RLIM_INFINITY)
        return;
    if (!info->data_limit || bytes < info->data_limit)
        info->data_limit = bytes;
    eitp__bound(info, source, bytes, used, 0);
}

/* ---- control groups ---- */

/* Finds the process's cgroups in lines like "0::/path" and "4:cpu,memory:/path". */
static void eitp__find_cgroups(char *text, eitp__cgroup_place *places) {
    char *line;
    while ((line = eitp__take(&text, '\n')) != NULL) {
        const char *number = eitp__take(&line, ':');
        const char *controllers = number && *line == ':' ? line++ : number ? eitp__take(&line, ':') : NULL;
        if (!controllers || *line != '/')
            continue;
        if (*controllers == ':' && !strcmp(number, "0"))
            places[EITP__CGROUP_V2].path = line;
        else if (eitp__lists(controllers, "memory"))
            places[EITP__CGROUP_V1].path = line;
    }
}

/* "\040" is a space: such characters of a path are written so in the list of mounts. */
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

/* What of a cgroup's path lies below the one that is mounted; NULL where it is not there. */
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

/* Takes a mount that shows the process's cgroup, or the first one where none does. */
static void eitp__offer_mount(eitp__cgroup_place *place, char *root, char *point) {
    eitp__unescape_mount(root);
    eitp__unescape_mount(point);
    if (!place->path || *point != '/')
        return;
    if (place->point && (eitp__path_below(place->root, place->path) || !eitp__path_below(root, place->path)))
        return;
    place->root = root;
    place->point = point;
}

/* Finds their mounts in lines like "31 23 0:26 /root /point rw - cgroup2 cgroup2 rw", of which the sixth and later
   fields before the dash are of any number, and the last has the controllers of version 1. */
static void eitp__find_mounts(char *text, eitp__cgroup_place *places) {
    char *line;
    while ((line = eitp__take(&text, '\n')) != NULL) {
        char *fields[5] = {NULL, NULL, NULL, NULL, NULL}, *word = NULL, *type;
        for (size_t i = 0; i < EITP__COUNT(fields); i++)
            fields[i] = eitp__take(&line, ' ');
        do {
            word = eitp__take(&line, ' ');
        } while (word && strcmp(word, "-"));
        type = eitp__take(&line, ' ');
        eitp__take(&line, ' '); /* the device */
        if (!type)
            continue;
        if (!strcmp(type, "cgroup2"))
            eitp__offer_mount(&places[EITP__CGROUP_V2], fields[3], fields[4]);
        else if (!strcmp(type, "cgroup") && eitp__lists(line, "memory"))
            eitp__offer_mount(&places[EITP__CGROUP_V1], fields[3], fields[4]);
    }
}

/* The number in a cgroup's file, after `name` at the start of a line; *amount stays as it is where there is none. */
static eitp_status eitp__read_cgroup_file(const eitp_host *host, const char *directory, const char *file,
                                          const char *name, uint64_t *amount, eitp_error *error) {
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
        *amount = eitp__amount_of(text.data, name);
    else
        eitp__read_amount(text.data, amount);
    eitp__buffer_release(&text);
    return EITP_OK;
}

/* One cgroup: it counts where it leaves the process less than those before. */
static eitp_status eitp__read_cgroup(const eitp_host *host, eitp__cgroup_version version, const char *directory,
                                     eitp_memory_info *info, eitp_error *error) {
    const uint64_t none = (uint64_t)1 << 62; /* version 1 writes a number of this kind for no limit */
    uint64_t limit = none, used = 0, cache = 0, pages = 0;
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < 2 && eitp__cgroup_files[version].limits[i] && !status; i++) {
        uint64_t found = none;
        status = eitp__read_cgroup_file(host, directory, eitp__cgroup_files[version].limits[i], "", &found, error);
        limit = found < limit ? found : limit;
    }
    if (status || limit == none)
        return status;
    status = eitp__read_cgroup_file(host, directory, eitp__cgroup_files[version].used, "", &used, error);
    if (!status)
        status =
            eitp__read_cgroup_file(host, directory, "memory.stat", eitp__cgroup_files[version].cache, &cache, error);
    if (!status)
        status =
            eitp__read_cgroup_file(host, directory, "memory.stat", eitp__cgroup_files[version].pages, &pages, error);
    if (status)
        return status;
    used -= cache < used ? cache : used;
    if (!info->cgroup_limit || eitp__share_of(limit, used, info->resident) <
                                   eitp__share_of(info->cgroup_limit, info->cgroup_used, info->resident)) {
        info->cgroup_limit = limit;
        info->cgroup_used = used;
    }
    eitp__bound(info, "cgroup", limit, used, pages);
    return EITP_OK;
}

/* A cgroup and its parents as far as they are mounted. */
static eitp_status eitp__read_cgroups(const eitp_host *host, eitp__cgroup_version version,
                                      const eitp__cgroup_place *place, eitp_memory_info *info, eitp_error *error) {
    const char *below = eitp__path_below(place->root, place->path);
    eitp_status status = EITP_OK;
    eitp__buffer directory;
    size_t top;
    eitp__buffer_init(&directory, host);
    eitp__buffer_add_text(&directory, place->point);
    top = directory.size;
    eitp__buffer_add_text(&directory, below ? below : "");
    if (directory.failed)
        status = eitp__fail_memory(error, top, "the path of a control group");
    while (!status) {
        status = eitp__read_cgroup(host, version, directory.data, info, error);
        if (directory.size == top)
            break;
        while (directory.size > top && directory.data[--directory.size] != '/') {
        }
        directory.data[directory.size] = 0;
    }
    eitp__buffer_release(&directory);
    return status;
}

static eitp_status eitp__bound_by_cgroups(const eitp_host *host, eitp_memory_info *info, eitp_error *error) {
    eitp__cgroup_place places[EITP__CGROUP_VERSIONS];
    eitp__buffer paths, mounts;
    eitp_status status;
    memset(places, 0, sizeof places);
    eitp__buffer_init(&paths, host);
    eitp__buffer_init(&mounts, host);
    status = eitp__read_system_text(host, "/proc/self/cgroup", &paths, error);
    if (!status)
        status = eitp__read_system_text(host, "/proc/self/mountinfo", &mounts, error);
    if (!status) {
        eitp__find_cgroups(paths.data, places);
        eitp__find_mounts(mounts.data, places);
    }
    for (int i = 0; i < EITP__CGROUP_VERSIONS && !status; i++) {
        if (places[i].point)
            status = eitp__read_cgroups(host, (eitp__cgroup_version)i, &places[i], info, error);
    }
    eitp__buffer_release(&paths);
    eitp__buffer_release(&mounts);
    return status;
}

/* ---- all of it ---- */

eitp_status eitp_memory_info_read(const eitp_host *host, eitp_memory_info *info, eitp_error *error) {
    eitp_memory_info found;
    eitp__process_size size = {0, 0};
    struct rlimit limit;
    eitp_status status;
    if (!host || !info)
        return eitp__fail_null(error, "eitp_memory_info_read", "host and info");
    memset(&found, 0, sizeof found);
    found.source = "unknown";
    status = eitp__read_process(host, &found, &size, error);
    if (!status)
        status = eitp__read_machine(host, &found, error);
    if (status)
        return status;
    eitp__bound_by_machine(&found);
    status = eitp__bound_by_cgroups(host, &found, error);
    if (status)
        return status;
    if (!getrlimit(RLIMIT_DATA, &limit))
        eitp__bound_by_process(&found, "RLIMIT_DATA", &limit, size.data);
    if (!getrlimit(RLIMIT_AS, &limit))
        eitp__bound_by_process(&found, "RLIMIT_AS", &limit, size.all);
    *info = found;
    return EITP_OK;
}

/* What a budget leaves of what is usable. */
static uint64_t eitp__memory_margin(const eitp_memory_info *info) {
    const uint64_t least = (uint64_t)64 << 20;
    uint64_t margin = info->usable / 20;
    if (margin < least)
        margin = least;
    if (margin > info->usable / 2)
        margin = info->usable / 2;
    return margin;
}

uint64_t eitp_memory_budget_default(const eitp_memory_info *info) {
    return info ? info->usable - eitp__memory_margin(info) : 0;
}

uint64_t eitp_memory_floor(const eitp_memory_info *info) {
    return info ? eitp__memory_margin(info) / 2 : 0;
}

int eitp_memory_is_short(const eitp_memory_info *info) {
    return info && info->usable && info->left < eitp_memory_floor(info);
}
