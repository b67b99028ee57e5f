#include "base/process_identity.h"

#include "base/system_text.h"

#include <unistd.h>

/* Reads the first line of a file of the system; "" if that is not possible. */
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

/* The 22nd field of /proc/<pid>/stat. The second is a name in parentheses, which may have spaces and parentheses. */
static uint64_t eitp__find_start_time(const char *line) {
    enum { FIELDS_AFTER_NAME = 20 };
    const char *at = strrchr(line, ')');
    for (int i = 0; i < FIELDS_AFTER_NAME && at; i++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at, NULL, 10) : 0;
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

EITP__PRIVATE void eitp__host_name_read(const eitp_host *host, char *name, size_t size) {
    if (eitp__read_system_line(host, "/proc/sys/kernel/hostname", name, size, NULL) || !*name)
        snprintf(name, size, "localhost");
    name[strcspn(name, "/")] = 0;
}
