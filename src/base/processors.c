/* Processors available to the process: affinity, and the quota of control groups. */
#include "base/base.h"

#include "base/cgroups.h"
#include "base/system_text.h"
#include "base/threads.h"

#include <math.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif

/* Counts the bits of a processor mask such as "f,ffffffff": hexadecimal words of 32 bits. */
static int eitp__count_mask(const char *mask) {
    static const char digits[] = "0123456789abcdef";
    int count = 0;
    for (; *mask; mask++) {
        const char *digit = strchr(digits, *mask);
        if (!digit && *mask != ',')
            break;
        for (size_t bits = digit ? (size_t)(digit - digits) : 0; bits; bits &= bits - 1)
            count++;
    }
    return count;
}

/* Reads the number of processors that the process may run on; 0 if it is unknown. If OpenMP binds threads, /proc shows
   only the place of one thread. */
static eitp_status eitp__read_affinity(const eitp_host *host, int *allowed, eitp_error *error) {
    static const char name[] = "\nCpus_allowed:";
    eitp__processor_set bound;
    eitp__buffer text;
    const char *line;
    eitp_status status;
    *allowed = eitp__bound_processors(&bound);
    if (*allowed)
        return EITP_OK;
    eitp__buffer_init(&text, host);
    status = eitp__read_system_text(host, "/proc/self/status", &text, error);
    line = !status && text.data ? strstr(text.data, name) : NULL;
    if (line)
        *allowed = eitp__count_mask(line + strlen(name) + strspn(line + strlen(name), " \t"));
    eitp__buffer_release(&text);
    return status;
}

eitp_status eitp_processor_info_read(const eitp_host *host, eitp_processor_info *info, eitp_error *error) {
    eitp_processor_info found;
    eitp_status status;
    long online;
    if (!host || !info)
        return eitp__fail_null(error, "eitp_processor_info_read", "host and info");
    memset(&found, 0, sizeof found);
    online = sysconf(_SC_NPROCESSORS_ONLN);
    found.online = online > 0 ? (int)online : 1;
    status = eitp__read_affinity(host, &found.allowed, error);
    if (!status)
        status = eitp__cgroup_processors(host, &found.quota, error);
    if (status)
        return status;
    if (!found.allowed)
        found.allowed = found.online;
    found.usable = found.allowed;
    if (found.quota > 0 && found.quota < found.allowed)
        found.usable = (int)ceil(found.quota);
    *info = found;
    return EITP_OK;
}

int eitp_processors_unbind(void) {
#if defined(__linux__) && defined(SYS_sched_setaffinity)
    eitp__processor_set bound;
    return eitp__bound_processors(&bound) && !syscall(SYS_sched_setaffinity, 0, sizeof bound, &bound);
#else
    return 0;
#endif
}
