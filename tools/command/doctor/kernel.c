/* The kernel's messages about processes that it killed. */
#include "doctor/case.h"
#include "files.h"

#include <fcntl.h>
#include <unistd.h>

#define LOG_LIMIT ((size_t)8 << 20) /* bytes; the kernel keeps less */

/* Reads the kernel's log. Each read of the device returns one record and must not wait for the next. */
static void read_log(text_buffer *log) {
    char *path = files_of_system("/dev/kmsg");
    const int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    char record[8192];
    free(path);
    while (file >= 0 && log->size < LOG_LIMIT) {
        const ssize_t size = read(file, record, sizeof record);
        /* EPIPE: records were overwritten in the meantime; the next read continues after them. */
        if (size < 0 && (errno == EPIPE || errno == EINTR))
            continue;
        if (size <= 0)
            break;
        text_add(log, record, (size_t)size);
    }
    if (file >= 0)
        close(file);
}

/* True if a line contains "<before><process><after>". */
static int names_process(const char *line, const char *before, int64_t process, const char *after) {
    char text[80];
    snprintf(text, sizeof text, "%s%lld%s", before, (long long)process, after);
    return strstr(line, text) != NULL;
}

char *kernel_says_of(int64_t process, int *is_memory) {
    text_buffer log = {NULL, 0, 0};
    char *found = NULL;
    if (process <= 0)
        return NULL;
    read_log(&log);
    for (char *line = log.data ? strtok(log.data, "\n") : NULL; line; line = strtok(NULL, "\n")) {
        const char *text = strchr(line, ';');
        const int memory =
            names_process(line, "Killed process ", process, " ") || names_process(line, "Kill process ", process, " ");
        if (!memory && !names_process(line, "[", process, "]: segfault") &&
            !names_process(line, "[", process, "] trap") && !names_process(line, "[", process, "] general protection"))
            continue;
        free(found);
        found = command_copy(text ? text + 1 : line);
        *is_memory = memory;
    }
    text_release(&log);
    return found;
}

/* Returns the number after a name at the start of a line, or 0. */
static double number_in(const char *path, const char *name) {
    text_buffer content = {NULL, 0, 0};
    eitp_error error;
    double value = 0;
    char *system = files_of_system(path);
    if (!files_read(system, 65536, &content, &error) && content.data) {
        for (char *line = strtok(content.data, "\n"); line; line = strtok(NULL, "\n")) {
            if (!strncmp(line, name, strlen(name)) && line[strlen(name)] == ' ')
                value = strtod(line + strlen(name), NULL);
        }
    }
    text_release(&content);
    free(system);
    return value > 0 ? value : 0;
}

double kernel_group_kills(void) {
    text_buffer content = {NULL, 0, 0};
    eitp_error error;
    double kills = 0;
    char *path = files_of_system("/proc/self/cgroup");
    char *groups = NULL, *rest = NULL;
    if (!files_read(path, 65536, &content, &error) && content.data)
        groups = content.data;
    for (char *line = groups ? strtok_r(groups, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest)) {
        const int is_second = !strncmp(line, "0::", 3);
        const char *group = is_second ? line + 3 : strstr(line, ":memory:");
        char *file;
        if (!group)
            continue;
        file = is_second ? command_format("/sys/fs/cgroup%s/memory.events", group)
                         : command_format("/sys/fs/cgroup/memory%s/memory.oom_control", group + 8);
        kills += number_in(file, "oom_kill");
        free(file);
    }
    text_release(&content);
    free(path);
    return kills;
}
