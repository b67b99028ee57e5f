#include "command_bench_machine.h"

#include "command_files.h"

#include <sys/utsname.h>
#include <unistd.h>

/* The model of the processor from /proc/cpuinfo; 0 if the system has no such file or the file no such line. */
static int read_model(char *name, size_t size) {
    char line[400];
    FILE *file = fopen("/proc/cpuinfo", "r");
    int found = 0;
    while (file && !found && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) || !colon)
            continue;
        snprintf(name, size, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
        found = *name != 0;
    }
    if (file)
        fclose(file);
    return found;
}

bench_machine bench_machine_read(void) {
    const eitp_host host = command_host();
    bench_machine machine;
    struct utsname system;
    eitp_memory_info info;
    eitp_error ignored;
    memset(&machine, 0, sizeof machine);
    if (!read_model(machine.processor, sizeof machine.processor))
        snprintf(machine.processor, sizeof machine.processor, "%.90s", uname(&system) < 0 ? "?" : system.machine);
    machine.processors = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (!eitp_memory_info_read(&host, &info, &ignored)) {
        machine.memory = (double)info.total;
        machine.available = (double)info.available;
    }
    return machine;
}

void bench_machine_json(text_buffer *t) {
    bench_machine machine = bench_machine_read();
    text_json_name(t, "machine");
    text_format(t, "{");
    text_json_member_string(t, "processor", machine.processor);
    text_json_member_integer(t, "processors", machine.processors);
    text_json_member_number(t, "memory_bytes", machine.memory);
    text_json_member_number(t, "available_bytes", machine.available);
    text_format(t, "}");
}
