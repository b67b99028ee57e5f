#include "base/process_identity.h"

#include "base/system_text.h"

#include <unistd.h>

/* Reads the first line of a file of the system; "" on failure. */
static eitp_status eitp__read_system_line(const eitp_host *host, const char *path, char *line, size_t size,
                                          eitp_error *error) {
    eitp__buffer text;
    eitp_status status;
    eitp__buffer_init(&text, host);
    *line = 0;
    status = eitp__read_system_text(host, path, &text, error);
    if (!status && text.size)
        snprintf(line, size, "%.*s", (int)strcspn(text.data, "\n"), text.data);
    eitp__buffer_release(&text);
    return status;
}

/* Finds a field of /proc/<pid>/stat, from the third on; NULL if there are fewer. The second is a name in parentheses,
   which may contain spaces and parentheses. */
static const char *eitp__find_stat_field(const char *line, int number) {
    const char *at = strrchr(line, ')');
    for (int i = 2; i < number && at; i++)
        at = strchr(at + 1, ' ');
    return at ? at + 1 : NULL;
}

static uint64_t eitp__find_start_time(const char *line) {
    const char *field = eitp__find_stat_field(line, 22);
    return field ? strtoull(field, NULL, 10) : 0;
}

EITP__PRIVATE eitp_status eitp__process_identity_read(const eitp_host *host, eitp__process_identity *identity,
                                                      eitp_error *error) {
    char line[1024];
    eitp_status status;
    memset(identity, 0, sizeof *identity);
    identity->process = getpid();
    status =
        eitp__read_system_line(host, "/proc/sys/kernel/random/boot_id", identity->boot, sizeof identity->boot, error);
    if (!status)
        status = eitp__read_system_line(host, "/proc/self/stat", line, sizeof line, error);
    if (!status)
        identity->start_time = eitp__find_start_time(line);
    return status;
}

EITP__PRIVATE eitp_status eitp__process_is_alive(const eitp_host *host, const eitp__process_identity *identity,
                                                 int *is_alive, eitp_error *error) {
    char path[64], line[1024];
    const char *state;
    eitp_status status;
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)identity->process);
    status = eitp__read_system_line(host, path, line, sizeof line, error);
    state = status ? NULL : eitp__find_stat_field(line, 3);
    *is_alive = state && *state != 'Z' && *state != 'X' &&
                (!identity->start_time || eitp__find_start_time(line) == identity->start_time);
    return status;
}

EITP__PRIVATE void eitp__host_name_read(const eitp_host *host, char *name, size_t size) {
    if (eitp__read_system_line(host, "/proc/sys/kernel/hostname", name, size, NULL) || !*name)
        snprintf(name, size, "localhost");
    name[strcspn(name, "/")] = 0;
}
