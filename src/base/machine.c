/* Memory available to the process: limits of the machine, of control groups and of the process itself. */
#include "base/machine.h"

#include "base/cgroups.h"
#include "base/system_text.h"

#include <sys/resource.h>
#include <unistd.h>

/* Sizes that count towards the limits of the process, in bytes. */
typedef struct eitp__process_size {
    uint64_t data;      /* private writable memory (VmData), for RLIMIT_DATA */
    uint64_t addresses; /* all mapped memory (VmSize), for RLIMIT_AS */
} eitp__process_size;

static eitp_status eitp__read_process(const eitp_host *host, eitp__memory_state *state, eitp__process_size *size,
                                      eitp_error *error) {
    eitp_memory_info *info = &state->info;
    struct rusage usage;
    eitp__buffer text;
    eitp_status status;
    eitp__buffer_init(&text, host);
    status = eitp__read_system_text(host, "/proc/self/status", &text, error);
    if (status)
        return status;
    info->resident = eitp__find_bytes(text.data, "VmRSS:");
    info->peak = eitp__find_bytes(text.data, "VmHWM:");
    state->anonymous = eitp__find_bytes(text.data, "RssAnon:");
    if (!state->anonymous)
        state->anonymous = info->resident;
    size->data = eitp__find_bytes(text.data, "VmData:");
    size->addresses = eitp__find_bytes(text.data, "VmSize:");
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
    info->total = eitp__find_bytes(text.data, "MemTotal:");
    info->available = eitp__find_bytes(text.data, "MemAvailable:");
    info->swap_total = eitp__find_bytes(text.data, "SwapTotal:");
    info->swap_free = eitp__find_bytes(text.data, "SwapFree:");
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

/* Returns the share of this process in `limit` bytes, of which `used` are in use: the free bytes plus its own. */
static uint64_t eitp__process_share(uint64_t limit, uint64_t used, uint64_t resident) {
    uint64_t left = limit > used ? limit - used : 0, occupied = limit - left;
    uint64_t share = left + (resident < occupied ? resident : occupied);
    return share ? share : 1; /* 0 means unknown */
}

/* Applies a limit to `usable`, `left` and *least. `page_cache` is the part of `used` that the system can reclaim. */
static void eitp__apply_bound(eitp_memory_info *info, uint64_t *least, const char *source, uint64_t limit,
                              uint64_t used, uint64_t page_cache) {
    const uint64_t share = eitp__process_share(limit, used, info->resident);
    const uint64_t occupied = used - (page_cache < used ? page_cache : used);
    const uint64_t left = limit > occupied ? limit - occupied : 0;
    if (!info->usable || left < info->left)
        info->left = left;
    if (left < *least)
        *least = left;
    if (info->usable && share >= info->usable)
        return;
    info->usable = share;
    info->source = source;
}

/* Returns the fraction of `limit` bytes, excluding this process's own, that other processes use. */
static double eitp__share_of_others(uint64_t limit, uint64_t used, uint64_t own) {
    const uint64_t rest = limit > own ? limit - own : 0, others = used > own ? used - own : 0;
    return rest ? (double)others / (double)rest : 0;
}

/* Keeps the limit with the larger fraction used by others. */
static void eitp__keep_fullest(eitp__memory_state *state, const char *source, uint64_t limit, uint64_t used) {
    const uint64_t own = state->anonymous;
    if (state->fullest_limit && eitp__share_of_others(limit, used, own) <=
                                    eitp__share_of_others(state->fullest_limit, state->fullest_used, own))
        return;
    state->fullest_limit = limit;
    state->fullest_used = used;
    state->fullest_source = source;
}

static void eitp__bound_by_machine(eitp__memory_state *state) {
    eitp_memory_info *info = &state->info;
    const uint64_t total = info->total > info->available ? info->total : info->available;
    if (!info->available)
        return;
    eitp__apply_bound(info, &state->left_physical, "MemAvailable", total, total - info->available, 0);
    eitp__keep_fullest(state, "machine", total, total - info->available);
}

static void eitp__bound_by_process(eitp__memory_state *state, const char *source, const struct rlimit *limit,
                                   uint64_t used) {
    eitp_memory_info *info = &state->info;
    const uint64_t bytes = (uint64_t)limit->rlim_cur;
    if (limit->rlim_cur == RLIM_INFINITY)
        return;
    if (!info->data_limit || bytes < info->data_limit)
        info->data_limit = bytes;
    eitp__apply_bound(info, &state->left_of_limits, source, bytes, used, 0);
}

static void eitp__bound_by_cgroup(void *visitor, const eitp__cgroup_memory *memory) {
    eitp__memory_state *state = (eitp__memory_state *)visitor;
    eitp_memory_info *info = &state->info;
    const uint64_t limit = memory->limit, used = memory->used;
    if (!info->cgroup_limit || eitp__process_share(limit, used, info->resident) <
                                   eitp__process_share(info->cgroup_limit, info->cgroup_used, info->resident)) {
        info->cgroup_limit = limit;
        info->cgroup_used = used;
    }
    eitp__apply_bound(info, &state->left_physical, "cgroup", limit, used, memory->page_cache);
    eitp__keep_fullest(state, "control group", limit, used - (memory->page_cache < used ? memory->page_cache : used));
}

EITP__PRIVATE eitp_status eitp__memory_read(const eitp_host *host, eitp__memory_state *state, eitp_error *error) {
    eitp__memory_state found;
    eitp__process_size size = {0, 0};
    struct rlimit limit;
    eitp_status status;
    memset(&found, 0, sizeof found);
    found.info.source = "unknown";
    found.left_physical = found.left_of_limits = UINT64_MAX;
    status = eitp__read_process(host, &found, &size, error);
    if (!status)
        status = eitp__read_machine(host, &found.info, error);
    if (status)
        return status;
    eitp__bound_by_machine(&found);
    status = eitp__visit_cgroups(host, eitp__bound_by_cgroup, &found, error);
    if (status)
        return status;
    if (!getrlimit(RLIMIT_DATA, &limit))
        eitp__bound_by_process(&found, "RLIMIT_DATA", &limit, size.data);
    if (!getrlimit(RLIMIT_AS, &limit))
        eitp__bound_by_process(&found, "RLIMIT_AS", &limit, size.addresses);
    *state = found;
    return EITP_OK;
}

/* In the file, the second number is the resident set and the third its shared part, both in pages. */
EITP__PRIVATE uint64_t eitp__resident_read(const eitp_host *host, uint64_t *shared) {
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t pages[2] = {0, 0};
    eitp__buffer text;
    eitp__buffer_init(&text, host);
    if (!eitp__read_system_text(host, "/proc/self/statm", &text, NULL)) {
        char *end;
        (void)strtoull(text.data, &end, 10);
        pages[0] = strtoull(end, &end, 10);
        pages[1] = strtoull(end, NULL, 10);
    }
    eitp__buffer_release(&text);
    if (shared)
        *shared = pages[1] * page;
    return pages[0] * page;
}

eitp_status eitp_memory_info_read(const eitp_host *host, eitp_memory_info *info, eitp_error *error) {
    eitp__memory_state state;
    eitp_status status;
    if (!host || !info)
        return eitp__fail_null(error, "eitp_memory_info_read", "host and info");
    status = eitp__memory_read(host, &state, error);
    if (!status)
        *info = state.info;
    return status;
}

/* Returns the part of `usable` that the default budget leaves free. */
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

EITP__PRIVATE uint64_t eitp__memory_floor(const eitp_memory_info *info) {
    return info ? eitp__memory_margin(info) / 2 : 0;
}

int eitp_memory_is_short(const eitp_memory_info *info) {
    return info && info->usable && info->left < eitp__memory_floor(info);
}
